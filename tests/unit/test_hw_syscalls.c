/* SPDX-License-Identifier: MIT */
/* syscalls: what this machine answers, what a recording of it answers, what never leaves. */
#include "hw_box.h"

#include "base/str.h"
#include "os/clock.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

/* The document self.json would be. */
static char *self_text(const struct hw_self *self)
{
    struct buf out = { 0 };
    struct json_out w;

    json_out_init(&w, &out, 2);
    fields_write(&w, &hw_self_table, self);
    return buf_take(&out);
}

static void open_live(struct box *x)
{
    box_init(x);
    assert_int_equal(root_open(NULL, &x->b.root, NULL), RC_OK);
}

TEST(this_machine)
{
    const struct hw_self *self;
    bool loopback = false, shown = false;
    AUTO(box_release) struct box x;

    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_IB_PKEY", "1", 1);
    setenv("NVIDIA_API_KEY", "do not keep", 1);
    setenv("CUDA_my_token", "do not keep", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "do not keep", 1);
    setenv("UCX_ODD", "a\xff\x01z", 1);
    open_live(&x);
    BOX_PROBE(&x, hw_src_self);
    self = &x.b.self;
    assert_non_null(self->hostname);
    assert_non_null(self->kernel);
    assert_true(self->affinity_cpus.known && self->affinity_cpus.v >= 1);
    assert_true(self->memlock_bytes.known);
    assert_true(self->nofile.known);
    assert_int_equal(self->uid.v, geteuid());
    assert_string_equal(hw_self_env(self, "NCCL_DEBUG"), "INFO");
    assert_string_equal(hw_self_env(self, "NCCL_IB_PKEY"), "1");
    assert_true(str_is_text(hw_self_env(self, "UCX_ODD"), strlen(hw_self_env(self, "UCX_ODD"))));
    for (size_t i = 0; i < self->env_count; i++)
        assert_string_not_equal(self->env[i].value, "do not keep");
    for (size_t i = 0; i < self->ifs_count; i++)
        loopback |= maybe_is(self->ifs[i].loopback, 1);
    for (size_t i = 0; i < self->addrs_count; i++)
        shown |= str_eq(self->addrs[i].addr, "127.0.0.1") && maybe_is(self->addrs[i].prefix, 8);
    assert_int_equal(loopback, self->ifs_count > 0);
    assert_int_equal(shown, self->addrs_count > 0);
}

TEST(a_recording_answers_the_same)
{
    struct recorder *rec = recorder_new();
    char path[80], *live, *replayed;
    struct box x, y;

    open_live(&x);
    x.b.rec = rec;
    BOX_PROBE(&x, hw_src_self);
    live = self_text(&x.b.self);
    box_init(&y);
    snprintf(path, sizeof(path), "%s/capture.tar", y.dir);
    assert_int_equal(recorder_write(rec, path, NULL), RC_OK);
    assert_int_equal(root_open(path, &y.b.root, NULL), RC_OK);
    BOX_PROBE(&y, hw_src_self);
    replayed = self_text(&y.b.self);
    assert_string_equal(live, replayed);
    assert_int_equal(y.hw.notes_count, 0);
    free(live);
    free(replayed);
    recorder_free(rec);
    box_release(&x);
    box_release(&y);
}

static void check_note(const char *text, const char *want)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    if (text)
        box_file(&x, "/stoker/self.json", text);
    BOX_PROBE(&x, hw_src_self);
    assert_int_equal(x.hw.notes_count, 1);
    assert_string_equal(x.hw.notes[0].source, "self");
    assert_non_null(strstr(x.hw.notes[0].text, want));
    assert_null(x.b.self.hostname); /* half a document is none */
    assert_false(x.b.self.memlock_bytes.known);
}

TEST(captures_without_it)
{
    check_note(NULL, "has no /stoker/self.json");
    check_note("", "not usable");
    check_note("{\"hostname\": \"x\"", "not usable");
    check_note("{\"hostname\": \"x\", \"nofile\": \"many\"}", "'nofile'");
    check_note("[]", "not usable");
}

/* A file system of our own whose daemon, we, never answers. */
static int mount_mute(const char *dir)
{
    char opts[96];
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return -1;
    snprintf(opts, sizeof(opts), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("mute", dir, "fuse.mute", 0, opts)) {
        close(fd);
        return -1;
    }
    return fd;
}

TEST(a_server_that_is_gone_costs_a_second)
{
    int64_t begin = clock_mono_ms();
    struct box x;
    int fd;

    open_live(&x);
    fd = mount_mute(x.dir);
    if (fd >= 0) {
        BOX_PROBE(&x, hw_src_self);
        assert_true(clock_mono_ms() - begin < 10000);
        assert_int_equal(x.hw.notes_count, 1);
        assert_non_null(strstr(x.hw.notes[0].text, x.dir));
        assert_non_null(strstr(x.hw.notes[0].text, "does not answer"));
        for (size_t i = 0; i < x.b.self.filesystems_count; i++)
            assert_string_not_equal(x.b.self.filesystems[i].target, x.dir);
        close(fd); /* the kernel now gives up on what waits for us */
        assert_int_equal(umount2(x.dir, MNT_DETACH), 0);
    }
    box_release(&x);
    if (fd < 0) /* cmocka's own skip() writes "not ok" */
        printf("# skipped: a_server_that_is_gone_costs_a_second needs root and FUSE\n");
}

TEST(daemon_states)
{
    const char *const names[] = { "slurmd" };
    struct hw_self self = { .daemons = names, .daemons_count = 1 };

    assert_true(maybe_is(hw_self_daemon_state(&self, "slurmd"), 1));
    assert_false(hw_self_daemon_state(&self, "kubelet").known);
    self.host_pids = maybe_of(0);
    assert_false(hw_self_daemon_state(&self, "kubelet").known);
    self.host_pids = maybe_of(1);
    assert_true(maybe_is(hw_self_daemon_state(&self, "kubelet"), 0));
    assert_true(hw_self_daemon(&self, "slurmd"));
    assert_false(hw_self_daemon(&self, "opensm"));
}

TEST(notes_are_bounded_text)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    for (int i = 0; i < 1000; i++)
        hw_note_add(&x.b, "test", "note %d \x01\xff", i);
    assert_int_equal(x.hw.notes_count, 256);
    assert_string_equal(x.hw.notes[3].text, "note 3 ??");
    assert_int_equal(root_open(x.dir, &x.b.root, NULL), RC_OK);
}

TEST_MAIN(cmocka_unit_test(this_machine), cmocka_unit_test(a_recording_answers_the_same),
          cmocka_unit_test(captures_without_it),
          cmocka_unit_test(a_server_that_is_gone_costs_a_second), cmocka_unit_test(daemon_states),
          cmocka_unit_test(notes_are_bounded_text))
