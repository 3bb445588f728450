/* SPDX-License-Identifier: MIT */
/* root, tree, tar, recorder: a captured machine answers as the live one did. */
#include "test.h"

#include "os/root.h"
#include "os/root_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static void put(const char *path, const char *text)
{
    char full[512];
    FILE *f;

    snprintf(full, sizeof(full), "%s%s", dir, path);
    for (char *p = full + strlen(dir) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        (void)mkdir(full, 0755);
        *p = '/';
    }
    f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void put_link(const char *path, const char *target)
{
    char full[512];

    snprintf(full, sizeof(full), "%s%s", dir, path);
    assert_int_equal(symlink(target, full), 0);
}

static int make_tree(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/stoker-root-XXXXXX");
    assert_non_null(mkdtemp(dir));
    put("/sys/devices/pci0/eth0/mtu", "9000\n");
    put("/sys/devices/pci0/eth0/name", "  caf\xc3\xa9 \xff\x01x \n second\n");
    put("/sys/class/net/.keep", "");
    put_link("/sys/class/net/eth0", "../../devices/pci0/eth0");
    put_link("/sys/class/net/out", "/../../../etc/passwd");
    put_link("/sys/class/net/loop", "loop2");
    put_link("/sys/class/net/loop2", "loop");
    put("/sys/class/net/eth10/mtu", "1\n");
    put("/sys/class/net/eth2/mtu", "1\n");
    put("/sys/gid/3", "never read");
    put("/stoker/errors", "/sys/gid/3\t22\nbad line\n/x\t0\n");
    return 0;
}

static int remove_tree(void **state)
{
    char cmd[128];

    (void)state;
    snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
    return system(cmd);
}

static void check_answers(struct root *r)
{
    char buf[64];
    struct arena a = { 0 };
    struct root_names names;

    CHECK(maybe_is(root_int(r, "/sys/class/net/%s/mtu", "eth0"), 9000));
    CHECK(!root_int(r, "/sys/class/net/eth0/name").known);
    assert_string_equal(root_str(r, &a, "/sys/class/net/eth0/name"), "caf\xc3\xa9 ??x");
    assert_int_equal(root_read(r, "/sys/class/net/out", buf, sizeof(buf)), -ENOENT);
    assert_int_equal(root_read(r, "/sys/class/net/loop/x", buf, sizeof(buf)), -ELOOP);
    assert_int_equal(root_read(r, "/sys/class", buf, sizeof(buf)), -EISDIR);
    assert_int_equal(root_read(r, "/sys/gid/3", buf, sizeof(buf)), -EINVAL);
    assert_int_equal(root_read(r, "/sys/class/net/eth0/mtu", buf, 3), 2);
    assert_string_equal(buf, "90");
    assert_int_equal(root_real(r, "/sys/class/net/eth0", buf, sizeof(buf)), 0);
    assert_string_equal(buf, "/sys/devices/pci0/eth0");
    assert_string_equal(root_link_name(r, &a, "/sys/class/net/eth0"), "eth0");
    CHECK(!root_link_name(r, &a, "/sys/class/net/eth2"));
    CHECK(root_exists(r, "/sys/class/net/eth0/mtu") && !root_exists(r, "/sys/nothing"));
    assert_int_equal(root_list(r, &a, "/sys/class/net", &names), 0);
    assert_int_equal(names.count, 7);
    assert_string_equal(names.items[1], "eth0");
    assert_string_equal(names.items[2], "eth2");
    assert_string_equal(names.items[3], "eth10");
    assert_int_equal(root_list(r, &a, "/sys/class/net/eth0/mtu", &names), -ENOTDIR);
    assert_int_equal(root_list(r, &a, "/none", &names), -ENOENT);
    arena_release(&a);
}

/* A kept file reads from its start as often as it is asked, of a folder and of a tar. */
static void check_kept(struct root *r)
{
    char text[16] = "";
    int fd = root_open_file(r, "/sys/class/net/eth0/mtu");

    assert_true(fd >= 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pread(fd, text, sizeof(text), 0), 5);
        assert_memory_equal(text, "9000\n", 5);
    }
    close(fd);
    assert_int_equal(root_open_file(r, "/sys/gid/3"), -EINVAL); /* as it was captured */
    assert_int_equal(root_open_file(r, "/sys/class/net/nowhere"), -ENOENT);
    assert_int_equal(root_open_file(r, "/sys/class/net/eth0"), -EISDIR);
    assert_int_equal(root_open_file(r, "/sys/class/net/loop"), -ELOOP);
    assert_int_equal(root_open_file(r, "/sys/class/net/out"), -ENOENT); /* not the host's */
    assert_int_equal(root_open_file(r, "sys"), -EINVAL);
}

TEST(folder_answers)
{
    struct root *r = NULL;

    assert_int_equal(root_open(dir, &r, NULL), RC_OK);
    check_answers(r);
    check_kept(r);
    root_close(r);
}

TEST(recorded_tar_answers_the_same)
{
    struct recorder *rec = recorder_new();
    struct root *r = NULL;
    char tar[96];

    assert_int_equal(root_open(dir, &r, NULL), RC_OK);
    root_record(r, rec);
    check_answers(r);
    root_close(r);
    snprintf(tar, sizeof(tar), "%s/out.tar", dir);
    assert_int_equal(recorder_write(rec, tar, NULL), RC_OK);
    recorder_free(rec);

    r = NULL;
    assert_int_equal(root_open(tar, &r, NULL), RC_OK);
    check_answers(r);
    check_kept(r);
    root_close(r);
    unlink(tar);
}

TEST(system_tar_is_read)
{
    struct root *r = NULL;
    char cmd[256], tar[96];

    snprintf(tar, sizeof(tar), "%s.tar", dir);
    for (int i = 0; i < 3; i++) {
        static const char *const formats[] = { "ustar", "gnu", "pax" };

        snprintf(cmd, sizeof(cmd), "tar -C '%s' --format=%s -cf '%s' .", dir, formats[i], tar);
        assert_int_equal(system(cmd), 0);
        assert_int_equal(root_open(tar, &r, NULL), RC_OK);
        check_answers(r);
        root_close(r);
    }
    unlink(tar);
}

TEST(long_paths_survive_a_tar)
{
    struct tree t, back;
    struct buf out = { 0 };
    char path[400] = "/a", link[300];

    for (int i = 0; i < 30; i++)
        snprintf(path + strlen(path), sizeof(path) - strlen(path), "/folder%03d", i);
    memset(link, 'l', sizeof(link) - 1);
    link[sizeof(link) - 1] = '\0';
    tree_init(&t);
    tree_init(&back);
    CHECK(tree_put(&t, path, TREE_FILE, "x\0y", 3, 0));
    CHECK(tree_put(&t, "/link", TREE_LINK, link, strlen(link), 0));
    CHECK(!tree_put(&t, "/a/../b", TREE_FILE, "", 0, 0));
    CHECK(!tree_put(&t, "relative", TREE_FILE, "", 0, 0));
    tar_write(&t, &out);
    assert_int_equal(tar_read(out.data, out.len, &back, NULL), RC_OK);
    assert_non_null(tree_find(&back, path));
    assert_int_equal(tree_find(&back, path)->len, 3);
    assert_string_equal(tree_find(&back, "/link")->data, link);
    tree_release(&t);
    tree_release(&back);
    buf_release(&out);
}

TEST(damaged_tars_are_refused)
{
    struct err err = { 0 };
    struct tree t;
    char block[1536];

    tree_init(&t);
    memset(block, 'z', sizeof(block) - 1);
    block[sizeof(block) - 1] = '\0';
    assert_int_equal(tar_read(block, sizeof(block) - 1, &t, &err), RC_PARSE);
    assert_string_equal(err.msg, "damaged tar header at byte 0");
    memset(block, 0, sizeof(block));
    assert_int_equal(tar_read(block, sizeof(block) - 1, &t, NULL), RC_PARSE);
    tree_release(&t);
}

/* An archive of one extension header with this body, one file behind it and the end. */
static void pax_tar(const char *body, struct buf *out)
{
    struct tree t;
    struct buf file = { 0 };
    unsigned sum = 0;

    tree_init(&t);
    CHECK(tree_put(&t, "/pax", TREE_FILE, body, strlen(body), 0));
    tar_write(&t, out);
    out->data[156] = 'x';
    memset(out->data + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)out->data[i];
    snprintf(out->data + 148, 8, "%06o", sum);
    out->len -= 1024; /* the end mark comes last */
    tree_release(&t);
    CHECK(tree_put(&t, "/file", TREE_FILE, "x", 1, 0));
    tar_write(&t, &file);
    buf_add(out, file.data, file.len);
    buf_release(&file);
    tree_release(&t);
}

TEST(extension_headers_that_lie)
{
    static const struct {
        const char *body, *path; /* where the file behind it is found */
    } rows[] = {
        { "9 path=a\n", "/a" },
        { "9 path=a\n11 path=bcd\n", "/file" }, /* too long */
        { "     \n6 path=aaaa\n", "/file" },    /* a length that ends before its own text */
        { "\n\n\n\n\n\n\n8 path=aaaaaaaaaa", "/file" },
        { "-5 path=abc\n", "/file" },
        { "2 \n=", "/file" },
        { "99999999999999999999999999 path=a\n", "/file" },
        { "", "/file" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct buf tar = { 0 };
        struct tree t;

        tree_init(&t);
        pax_tar(rows[i].body, &tar);
        assert_int_equal(tar_read(tar.data, tar.len, &t, NULL), RC_OK);
        if (i != 1)
            assert_non_null(tree_find(&t, rows[i].path));
        tree_release(&t);
        buf_release(&tar);
    }
}

TEST(a_tar_cut_anywhere_is_refused)
{
    struct tree t;
    struct buf out = { 0 };

    tree_init(&t);
    CHECK(tree_put(&t, "/a/b", TREE_FILE, "x", 1, 0));
    CHECK(tree_put(&t, "/a/c", TREE_LINK, "b", 1, 0));
    tar_write(&t, &out);
    for (size_t len = 0; len + 1024 < out.len; len += 256) {
        struct tree back;
        char *cut = malloc(len + 1); /* its end is where a sanitizer looks */

        assert_non_null(cut);
        memcpy(cut, out.data, len);
        cut[len] = '\0';
        tree_init(&back);
        assert_int_equal(tar_read(cut, len, &back, NULL), RC_PARSE);
        tree_release(&back);
        free(cut);
    }
    tree_release(&t);
    buf_release(&out);
}

TEST(parents_are_added_once_at_any_depth)
{
    char path[900] = "/top";
    struct tree t;
    size_t depth = 2;

    tree_init(&t);
    for (; depth < 400; depth++)
        snprintf(path + strlen(path), sizeof(path) - strlen(path), "/a");
    CHECK(tree_put(&t, path, TREE_FILE, "x", 1, 0));
    CHECK(tree_put(&t, "/top-2/b", TREE_FILE, "x", 1, 0));
    CHECK(tree_put(&t, "/top/a/b", TREE_FILE, "x", 1, 0));
    CHECK(tree_put(&t, "/top/a", TREE_DIR, NULL, 0, 0));
    assert_int_equal(tree_find(&t, "/top")->kind, TREE_DIR);
    assert_int_equal(tree_find(&t, "/top/a/a/a")->kind, TREE_DIR);
    assert_int_equal(tree_find(&t, "/top-2")->kind, TREE_DIR);
    assert_int_equal(t.count, depth - 1 + 1 + 2); /* the path and its parents, b, top-2 and b */
    tree_release(&t);
}

TEST(a_capture_is_not_written_through_a_link)
{
    struct recorder *rec = recorder_new();
    char tar[96], victim[96], text[16] = "";
    FILE *f;

    snprintf(tar, sizeof(tar), "%s/link.tar", dir);
    snprintf(victim, sizeof(victim), "%s/victim", dir);
    put("/victim", "precious");
    put_link("/link.tar", victim);
    recorder_put(rec, "/stoker/x", "1", 1);
    assert_int_equal(recorder_write(rec, tar, NULL), RC_OK);
    f = fopen(victim, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof(text), f));
    fclose(f);
    assert_string_equal(text, "precious");
    recorder_free(rec);
    unlink(tar);
    unlink(victim);
}

TEST(odd_roots_are_errors)
{
    struct err err = { 0 };
    struct root *r = NULL;

    assert_int_equal(root_open("/nonexistent", &r, &err), RC_NODEV);
    assert_string_equal(
        err.msg, "could not open captured machine '/nonexistent': No such file or directory");
    assert_int_equal(root_open("/dev/null", &r, NULL), RC_USAGE);
    assert_null(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folder_answers),
        cmocka_unit_test(recorded_tar_answers_the_same),
        cmocka_unit_test(system_tar_is_read),
        cmocka_unit_test(long_paths_survive_a_tar),
        cmocka_unit_test(damaged_tars_are_refused),
        cmocka_unit_test(odd_roots_are_errors),
        cmocka_unit_test(extension_headers_that_lie),
        cmocka_unit_test(a_tar_cut_anywhere_is_refused),
        cmocka_unit_test(parents_are_added_once_at_any_depth),
        cmocka_unit_test(a_capture_is_not_written_through_a_link),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
