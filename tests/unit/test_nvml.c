/* SPDX-License-Identifier: MIT */
/* The program's NVML code against the fake driver library (tests/fakenvml): every
 * machine comes back as it was written down, and every way the driver can fail ends
 * in a fact, in bounded time.  Runs from the top folder; the library lies beside
 * this program. */
#include "test.h"

#include "hw/nvml/nvml_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STALL_MS = 300, SLACK_MS = 1500 };

static char lib[PATH_MAX]; /* the fake */

static void find_lib(void)
{
    ssize_t n = readlink("/proc/self/exe", lib, sizeof(lib) - 32);
    char *slash;

    assert_true(n > 0);
    lib[n] = '\0';
    slash = strrchr(lib, '/');
    snprintf(slash, 32, "/libfakenvml.so");
}

static struct hw_opts fake_opts(const char *machine, const char *fault)
{
    char path[256];

    if (!lib[0])
        find_lib();
    snprintf(path, sizeof(path), "tests/fakenvml/%s.json", machine);
    setenv("FAKE_NVML_JSON", path, 1);
    if (fault)
        setenv("FAKE_NVML_FAULT", fault, 1);
    else
        unsetenv("FAKE_NVML_FAULT");
    return (struct hw_opts){ .nvml_lib = lib, .nvml_stall_ms = STALL_MS };
}

static void query_fake(struct arena *a, const char *machine, const char *fault, struct hw_nvml *n)
{
    struct hw_opts opts = fake_opts(machine, fault);

    nvml_probe(a, &opts, n);
}

static char *slurp(const char *path, size_t *len)
{
    char *text = xmalloc(NVML_DOC_MAX);
    FILE *f = fopen(path, "re");

    assert_non_null(f);
    *len = fread(text, 1, NVML_DOC_MAX, f);
    fclose(f);
    return text;
}

/* ---- pure parts ---- */
TEST(addresses_table)
{
    static const struct {
        const char *in;
        const char *want; /* NULL: refused */
    } rows[] = {
        { "00000000:00:06.0", "0000:00:06.0" },
        { "0000:1B:00.0", "0000:1b:00.0" },
        { "00010000:E3:1F.7", "10000:e3:1f.7" },
        { "FFFFFFFF:FF:1F.7", NULL },
        { "0000:1b:20.0", NULL },
        { "0000:1b:00.8", NULL },
        { "0000:1b:00.0/../../etc", NULL },
        { "000000000:1b:00.0", NULL },
        { "0000:1b:00", NULL },
        { ":::.", NULL },
        { "", NULL },
        { NULL, NULL },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char got[NVML_BDF_MAX] = "untouched";

        CHECK(nvml_bdf(rows[i].in, got) == (rows[i].want != NULL));
        assert_string_equal(got, rows[i].want ? rows[i].want : "untouched");
    }
}

TEST(words_go_both_ways)
{
    static const struct nvml_word *const tables[] = {
        nvml_brands,          nvml_archs,      nvml_compute_modes,
        nvml_virtualizations, nvml_recoveries, nvml_fabric_states,
        nvml_addressings,     nvml_link_ends,  nvml_p2p_states,
    };
    AUTO(arena_release) struct arena a = { 0 };

    for (size_t t = 0; t < ARRAY_SIZE(tables); t++) {
        for (int code = -1; code < 300; code++) {
            int back = -2;

            CHECK(nvml_code(tables[t], nvml_word(&a, tables[t], code), &back));
            assert_int_equal(back, code);
        }
        CHECK(!nvml_code(tables[t], "no such word", &(int){ 0 }));
        CHECK(!nvml_code(tables[t], "code 99999999999", &(int){ 0 }));
        CHECK(!nvml_code(tables[t], NULL, &(int){ 0 }));
    }
}

TEST(hostile_lines_are_refused)
{
    static const char *const rows[] = {
        "{\"gpus\": [", "[]", "{\"gpus\": 3}", "{\"gpus\": [{\"index\": \"one\"}]}", "{}\n\xff\n",
    };
    AUTO(arena_release) struct arena a = { 0 };
    struct hw_nvml n = { .gpus_count = 77 };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct err err = { 0 };

        CHECK(nvml_join(&a, rows[i], strlen(rows[i]), &n, &err) == RC_PARSE);
        CHECK(err.msg[0] != '\0');
    }
    CHECK(n.gpus_count == 77); /* untouched on failure */
    CHECK(nvml_join(&a, "", 0, &n, NULL) == RC_OK);
    CHECK(n.gpus_count == 0);
}

/* ---- whole machines ---- */
static void check_round_trip(const char *machine)
{
    AUTO(arena_release) struct arena a = { 0 };
    struct hw_nvml want, got;
    AUTO(buf_release) struct buf want_json = { 0 }, got_json = { 0 };
    struct err err = { 0 };
    char path[256];
    size_t len;
    char *text;

    snprintf(path, sizeof(path), "tests/fakenvml/%s.json", machine);
    text = slurp(path, &len);
    assert_int_equal(nvml_read_json(&a, text, len, &want, &err), RC_OK);
    query_fake(&a, machine, NULL, &got);
    nvml_write_json(&want, &want_json);
    nvml_write_json(&got, &got_json);
    assert_string_equal(buf_str(&got_json), buf_str(&want_json));
    buf_release(&got_json);
    free(text);
}

TEST(machines_come_back_as_written)
{
    check_round_trip("h200");
    check_round_trip("dgx-h100");
    check_round_trip("a100-pcie");
    check_round_trip("h200-mig");
    check_round_trip("trouble");
}

TEST(real_h200_values)
{
    AUTO(arena_release) struct arena a = { 0 };
    struct hw_nvml n;
    const struct hw_gpu *g;

    query_fake(&a, "h200", NULL, &n);
    assert_int_equal(n.gpus_count, 1);
    g = &n.gpus[0];
    assert_string_equal(g->name, "NVIDIA H200");
    assert_string_equal(g->bdf, "0000:00:06.0");
    assert_string_equal(g->arch, "Hopper");
    assert_string_equal(g->fabric_state, "not-supported");
    CHECK(maybe_is(g->mem_total_bytes, 150754820096));
    CHECK(maybe_is(g->temp_margin_c, 51));
    CHECK(!g->temp_slowdown_c.known); /* Hopper tells margins alone */
    CHECK(g->nvlinks_count == 0 && !g->nvlinks_total.known);
    CHECK(maybe_is(n.nvidia.cuda_driver, 13000));
    CHECK(g->errors_count == 0 && !n.nvidia.nvml_error && !n.nvidia.hung_call);
}

TEST(old_driver_is_understood)
{
    AUTO(arena_release) struct arena a = { 0 };
    struct hw_nvml n;

    query_fake(&a, "a100-pcie", "old", &n);
    assert_int_equal(n.gpus_count, 4);
    for (size_t i = 0; i < n.gpus_count; i++) {
        const struct hw_gpu *g = &n.gpus[i];

        assert_string_equal(g->state, "ok");
        CHECK(g->bdf && g->name && g->errors_count == 0);
        CHECK(maybe_is(g->mem_total_bytes, 85899345920) && !g->mem_reserved_bytes.known);
        CHECK(maybe_is(g->temp_c, 33) && !g->arch && !g->mig.known);
        CHECK(g->nvlinks_count == 12 && maybe_is(g->nvlinks_total, 12));
        CHECK(maybe_is(g->nvlinks[0].speed_mbps, 25000));
        CHECK(g->nvlinks[0].remote_bdf && !g->nvlinks[0].remote_kind);
        CHECK(maybe_is(g->clock_app_sm_mhz, 1410) && g->power_mw.known);
    }
}

/* ---- faults ---- */

/* The process that hung must be gone soon: a pause is killable. */
static bool is_gone(pid_t pid)
{
    for (int i = 0; i < 100; i++) {
        if (kill(pid, 0) && errno == ESRCH)
            return true;
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    return false;
}

TEST(hangs_are_named_and_bounded)
{
    static const struct {
        const char *fault;
        const char *call;
        size_t announced; /* GPUs the driver had counted */
        size_t described; /* of these, told in full before the hang */
    } rows[] = {
        { "hang:nvmlInit_v2", "nvmlInit_v2()", 0, 0 },
        { "hang:nvmlDeviceGetCount_v2", "nvmlDeviceGetCount_v2()", 0, 0 },
        { "hang:nvmlDeviceGetHandleByIndex_v2:3", "nvmlDeviceGetHandleByIndex_v2(3)", 8, 3 },
        { "hang:nvmlDeviceGetName:0", "nvmlDeviceGetName(0)", 8, 0 },
        { "hang:nvmlDeviceGetNvLinkState:7", "nvmlDeviceGetNvLinkState(7, 0)", 8, 7 },
        { "hang:nvmlDeviceGetP2PStatus:2", "nvmlDeviceGetP2PStatus(2, 3)", 8, 8 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO(arena_release) struct arena a = { 0 };
        int64_t start = clock_mono_ms();
        struct hw_nvml n;

        query_fake(&a, "dgx-h100", rows[i].fault, &n);
        CHECK(clock_mono_ms() - start < STALL_MS + SLACK_MS);
        assert_string_equal(n.nvidia.hung_call, rows[i].call);
        CHECK(n.nvidia.hung_pid.known && n.nvidia.hung_state);
        assert_string_equal(n.nvidia.nvml_library, "libnvidia-ml.so.1");
        CHECK(is_gone((pid_t)n.nvidia.hung_pid.v));
        assert_int_equal(n.gpus_count, rows[i].announced);
        for (size_t k = 0; k < n.gpus_count; k++)
            assert_string_equal(n.gpus[k].state, k < rows[i].described ? "ok" : "unanswered");
        CHECK(!n.nvidia.driver_version == (rows[i].announced == 0));
    }
}

TEST(slow_is_not_hung)
{
    AUTO(arena_release) struct arena a = { 0 };
    struct hw_nvml n;

    query_fake(&a, "dgx-h100", "slow:nvmlDeviceGetName:60", &n);
    CHECK(!n.nvidia.hung_call);
    CHECK(n.gpus_count == 8 && n.pairs_count == 28);
}

TEST(a_lost_gpu_leaves_the_others)
{
    AUTO(arena_release) struct arena a = { 0 };
    struct hw_nvml n;

    query_fake(&a, "dgx-h100", "lose:2", &n);
    assert_int_equal(n.gpus_count, 8);
    for (size_t i = 0; i < 8; i++)
        assert_string_equal(n.gpus[i].state, i == 2 ? "lost" : "ok");
    assert_int_equal(n.gpus[2].errors_count, 1);
    assert_string_equal(n.gpus[2].errors[0].call, "nvmlDeviceGetHandleByIndex_v2");
    assert_string_equal(n.gpus[2].errors[0].text, "GPU is lost");
    CHECK(maybe_is(n.gpus[2].errors[0].code, 15));
    assert_int_equal(n.pairs_count, 21); /* of the seven */
}

TEST(error_codes_are_kept)
{
    AUTO(arena_release) struct arena a = { 0 };
    struct hw_nvml n;

    query_fake(&a, "dgx-h100",
               "rc:nvmlDeviceGetMemoryInfo_v2:0:999,rc:nvmlDeviceGetHandleByIndex_v2:1:4,"
               "rc:nvmlDeviceGetEccMode:3:16,rc:nvmlDeviceGetUUID:4:15",
               &n);
    assert_string_equal(n.gpus[0].state, "ok");
    CHECK(!n.gpus[0].mem_total_bytes.known);
    assert_int_equal(n.gpus[0].errors_count, 1);
    assert_string_equal(n.gpus[0].errors[0].call, "nvmlDeviceGetMemoryInfo_v2");
    assert_string_equal(n.gpus[0].errors[0].text, "Unknown Error");
    assert_string_equal(n.gpus[1].state, "error");
    assert_string_equal(n.gpus[2].state, "ok");
    assert_string_equal(n.gpus[3].state, "error"); /* needs a reset */
    assert_string_equal(n.gpus[4].state, "lost");
    CHECK(n.gpus[4].name && !n.gpus[4].vbios); /* asked no further */
    assert_int_equal(n.gpus[4].errors_count, 1);
}

TEST(failed_init_is_told)
{
    AUTO(arena_release) struct arena a = { 0 };
    struct hw_nvml n;

    query_fake(&a, "h200", "rc:nvmlInit_v2:-:18", &n);
    assert_string_equal(n.nvidia.nvml_error,
                        "nvmlInit_v2: RM has detected an NVML/RM version mismatch. (18)");
    CHECK(n.gpus_count == 0 && n.nvidia.nvml_library);
    query_fake(&a, "no-such-machine", NULL, &n);
    assert_string_equal(n.nvidia.nvml_error, "nvmlInit_v2: Driver Not Loaded (9)");
}

TEST(a_crash_stays_in_the_child)
{
    AUTO(arena_release) struct arena a = { 0 };
    struct hw_nvml n;

    query_fake(&a, "dgx-h100", "crash:nvmlInit_v2", &n);
    CHECK(str_starts(n.nvidia.nvml_error, "the driver library crashed in nvmlInit_v2()"));
    CHECK(n.gpus_count == 0 && !n.nvidia.hung_call);
    query_fake(&a, "dgx-h100", "crash:nvmlDeviceGetName:1", &n);
    CHECK(str_starts(n.nvidia.nvml_error, "the driver library crashed in nvmlDeviceGetName(1)"));
    assert_int_equal(n.gpus_count, 8);
    assert_string_equal(n.gpus[0].state, "ok");
    assert_string_equal(n.gpus[1].state, "unanswered");
}

TEST(no_library_is_a_fact)
{
    struct hw_opts opts = { .nvml_lib = "/nonexistent/libnvidia-ml.so.1" };
    AUTO(arena_release) struct arena a = { 0 };
    struct hw_nvml n;

    nvml_probe(&a, &opts, &n);
    assert_string_equal(n.nvidia.nvml_error, "library '/nonexistent/libnvidia-ml.so.1' not found");
    CHECK(!n.nvidia.nvml_library && n.gpus_count == 0);
    opts.nvml_lib = "libm.so.6";
    nvml_probe(&a, &opts, &n);
    assert_string_equal(n.nvidia.nvml_error,
                        "library 'libm.so.6' is not NVIDIA's management library");
}

/* ---- merging with PCI: a machine is a folder, PCI is written by hand ---- */
struct rig {
    char dir[64];
    struct hw hw;
    struct hw_build b;
    struct hw_opts opts;
    struct hw_pci pci[16];
};

static void put_file(const char *dir, const char *path, const char *text)
{
    char full[512];
    FILE *f;

    snprintf(full, sizeof(full), "%s%s", dir, path);
    for (char *p = full + strlen(dir) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        (void)mkdir(full, 0755);
        *p = '/';
    }
    f = fopen(full, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void rig_open(struct rig *r, const char *machine, const char *fault)
{
    *r = (struct rig){ .dir = "/tmp/test_nvml.XXXXXX" };
    assert_non_null(mkdtemp(r->dir));
    r->opts = fake_opts(machine, fault);
    r->hw.pci = r->pci;
    r->b = (struct hw_build){ .hw = &r->hw, .a = &r->hw.arena, .opts = &r->opts };
    assert_int_equal(root_open(r->dir, &r->b.root, NULL), RC_OK);
}

static void rig_close(struct rig *r)
{
    char cmd[128];

    root_close(r->b.root);
    arena_release(&r->hw.arena);
    snprintf(cmd, sizeof(cmd), "rm -rf %s", r->dir);
    assert_int_equal(system(cmd), 0);
}

static struct hw_pci *rig_gpu(struct rig *r, const char *bdf, const char *driver)
{
    struct hw_pci *p = &r->pci[r->hw.pci_count++];
    char path[128];

    *p = (struct hw_pci){ .bdf = bdf,
                          .vendor = maybe_of(0x10de),
                          .device = maybe_of(0x2330),
                          .class_ = maybe_of(0x030200),
                          .driver = driver,
                          .numa = maybe_of(bdf[5] >= '9'),
                          .alive = maybe_of(1) };
    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/local_cpulist", bdf);
    put_file(r->dir, path, bdf[5] >= '9' ? "56-111\n" : "0-55\n");
    if (driver) {
        snprintf(path, sizeof(path), "/dev/nvidia%zu", r->hw.pci_count - 1);
        put_file(r->dir, path, "");
    }
    return p;
}

static void rig_dgx(struct rig *r)
{
    static const char *const bdfs[] = {
        "0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0",
        "0000:9d:00.0", "0000:c3:00.0", "0000:d1:00.0", "0000:df:00.0",
    };

    for (size_t i = 0; i < ARRAY_SIZE(bdfs); i++)
        rig_gpu(r, bdfs[i], "nvidia");
}

TEST(merge_adds_places_and_pairs)
{
    struct rig r;

    rig_open(&r, "dgx-h100", NULL);
    rig_dgx(&r);
    r.hw.nvidia.nvswitches = maybe_of(4); /* another source's */
    hw_src_nvml(&r.b);
    assert_int_equal(r.hw.gpus_count, 8);
    assert_int_equal(r.hw.gpu_pairs_count, 28);
    CHECK(maybe_is(r.hw.gpu_pairs[27].a, 6) && maybe_is(r.hw.gpu_pairs[27].b, 7));
    CHECK(maybe_is(r.hw.gpus[0].numa, 0) && maybe_is(r.hw.gpus[7].numa, 1));
    assert_string_equal(r.hw.gpus[0].cpus, "0-55");
    assert_string_equal(r.hw.gpus[7].cpus, "56-111");
    assert_string_equal(r.hw.gpus[0].name, "NVIDIA H100 80GB HBM3"); /* the driver's */
    assert_string_equal(r.hw.nvidia.driver_version, "550.90.07");
    CHECK(maybe_is(r.hw.nvidia.nvswitches, 4));
    CHECK(r.hw.notes_count == 0);
    rig_close(&r);
}

TEST(merge_places_a_gpu_that_would_not_open)
{
    struct rig r;

    rig_open(&r, "dgx-h100", "lose:2");
    rig_dgx(&r);
    hw_src_nvml(&r.b);
    assert_int_equal(r.hw.gpus_count, 8);
    assert_string_equal(r.hw.gpus[2].state, "lost");
    assert_string_equal(r.hw.gpus[2].bdf, "0000:52:00.0");
    assert_string_equal(r.hw.gpus[2].name, "NVIDIA H100 80GB HBM3"); /* by its id */
    assert_string_equal(r.hw.gpus[2].arch, "Hopper");
    CHECK(maybe_is(r.hw.gpus[2].index, 2));
    assert_int_equal(r.hw.gpu_pairs_count, 21);
    rig_close(&r);
}

TEST(merge_names_the_silent)
{
    struct rig r;

    rig_open(&r, "h200", NULL);
    rig_gpu(&r, "0000:00:06.0", "nvidia");
    rig_gpu(&r, "0000:00:05.0", "nvidia"); /* the driver does not tell it: gone */
    rig_gpu(&r, "0000:00:07.0", "vfio-pci");
    rig_gpu(&r, "0000:00:08.0", NULL);
    rig_gpu(&r, "10000:00:01.0", "nvidia")->alive = maybe_of(0);
    rig_gpu(&r, "0000:00:09.0", "nvidia")->physfn = "0000:00:08.0"; /* a virtual function */
    hw_src_nvml(&r.b);
    assert_int_equal(r.hw.gpus_count, 5);
    assert_string_equal(r.hw.gpus[0].bdf, "0000:00:05.0");
    assert_string_equal(r.hw.gpus[0].state, "lost");
    assert_string_equal(r.hw.gpus[1].state, "ok");
    assert_string_equal(r.hw.gpus[2].state, "no-driver");
    assert_string_equal(r.hw.gpus[3].state, "no-driver");
    assert_string_equal(r.hw.gpus[4].bdf, "10000:00:01.0");
    assert_string_equal(r.hw.gpus[4].state, "lost");
    CHECK(!r.hw.gpus[0].index.known);
    rig_close(&r);
}

TEST(merge_tells_hidden_from_lost)
{
    struct rig r;

    rig_open(&r, "h200", NULL);
    rig_gpu(&r, "0000:00:05.0", "nvidia");
    rig_gpu(&r, "0000:00:06.0", "nvidia");
    r.hw.place.container = "kubernetes";
    hw_src_nvml(&r.b);
    assert_string_equal(r.hw.gpus[0].state, "hidden");
    assert_string_equal(r.hw.gpus[1].state, "ok");
    rig_close(&r);

    rig_open(&r, "h200", NULL); /* no container, but fewer device nodes than GPUs */
    rig_gpu(&r, "0000:00:05.0", NULL)->driver = "nvidia";
    rig_gpu(&r, "0000:00:06.0", "nvidia");
    hw_src_nvml(&r.b);
    assert_string_equal(r.hw.gpus[0].state, "hidden");
    rig_close(&r);

    rig_open(&r, "h200", NULL); /* the driver has not noticed that it is dead */
    rig_gpu(&r, "0000:00:06.0", "nvidia")->alive = maybe_of(0);
    hw_src_nvml(&r.b);
    assert_string_equal(r.hw.gpus[0].state, "lost");
    rig_close(&r);
}

TEST(merge_after_a_hang)
{
    struct rig r;

    rig_open(&r, "dgx-h100", "hang:nvmlDeviceGetHandleByIndex_v2:3");
    rig_dgx(&r);
    hw_src_nvml(&r.b);
    assert_int_equal(r.hw.gpus_count, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_string_equal(r.hw.gpus[i].state, i < 3 ? "ok" : "unanswered");
        CHECK(maybe_is(r.hw.gpus[i].index, (int64_t)i));
        assert_string_equal(r.hw.gpus[i].bdf, r.pci[i].bdf);
    }
    assert_int_equal(r.hw.notes_count, 1);
    CHECK(strstr(r.hw.notes[0].text, "driver not answering"));
    CHECK(strstr(r.hw.notes[0].text, "nvmlDeviceGetHandleByIndex_v2(3)"));
    rig_close(&r);
}

TEST(capture_replays_the_same)
{
    struct rig live, replay;
    struct buf one = { 0 }, two = { 0 };
    char tar[128];

    rig_open(&live, "a100-pcie", NULL);
    live.b.rec = recorder_new();
    hw_src_nvml(&live.b);
    snprintf(tar, sizeof(tar), "%s/capture.tar", live.dir);
    assert_int_equal(recorder_write(live.b.rec, tar, NULL), RC_OK);
    recorder_free(live.b.rec);

    rig_open(&replay, "no-such-machine", NULL);
    root_close(replay.b.root);
    assert_int_equal(root_open(tar, &replay.b.root, NULL), RC_OK);
    replay.opts.nvml_lib = NULL;
    hw_src_nvml(&replay.b);
    hw_write_json(&live.hw, &one);
    hw_write_json(&replay.hw, &two);
    assert_string_equal(buf_str(&two), buf_str(&one));
    CHECK(replay.hw.gpus_count == 4);
    buf_release(&one);
    buf_release(&two);
    rig_close(&replay);
    rig_close(&live);
}

TEST(captures_without_or_with_bad_answers)
{
    struct rig r;

    rig_open(&r, "h200", NULL);
    r.opts.nvml_lib = NULL;
    rig_gpu(&r, "0000:00:06.0", "nvidia");
    hw_src_nvml(&r.b);
    assert_string_equal(r.hw.nvidia.nvml_error, "not captured");
    assert_string_equal(r.hw.gpus[0].state, "unanswered");
    put_file(r.dir, "/stoker/nvml.json", "{\"schema\": \"stoker.nvml/1\", \"gpus\": 7}");
    hw_src_nvml(&r.b);
    CHECK(str_starts(r.hw.nvidia.nvml_error, "'/stoker/nvml.json': "));
    put_file(r.dir, "/stoker/nvml.json",
             "{\"schema\": \"stoker.nvml/1\", \"gpus\": [{\"bdf\": \"../../../etc/passwd\"},"
             "{\"bdf\": \"0000:00:06.0\", \"index\": -5}, {\"bdf\": \"0000:00:06.0\"}],"
             "\"pairs\": [{\"a\": -5, \"b\": -5}, {\"a\": 9999999, \"b\": null}]}");
    hw_src_nvml(&r.b);
    assert_int_equal(r.hw.gpus_count, 3);
    CHECK(!r.hw.gpus[2].bdf && r.hw.gpu_pairs_count == 0);
    rig_close(&r);
}

TEST_MAIN(cmocka_unit_test(addresses_table), cmocka_unit_test(words_go_both_ways),
          cmocka_unit_test(hostile_lines_are_refused),
          cmocka_unit_test(machines_come_back_as_written), cmocka_unit_test(real_h200_values),
          cmocka_unit_test(old_driver_is_understood), cmocka_unit_test(hangs_are_named_and_bounded),
          cmocka_unit_test(slow_is_not_hung), cmocka_unit_test(a_lost_gpu_leaves_the_others),
          cmocka_unit_test(error_codes_are_kept), cmocka_unit_test(failed_init_is_told),
          cmocka_unit_test(a_crash_stays_in_the_child), cmocka_unit_test(no_library_is_a_fact),
          cmocka_unit_test(merge_adds_places_and_pairs),
          cmocka_unit_test(merge_places_a_gpu_that_would_not_open),
          cmocka_unit_test(merge_names_the_silent), cmocka_unit_test(merge_tells_hidden_from_lost),
          cmocka_unit_test(merge_after_a_hang), cmocka_unit_test(capture_replays_the_same),
          cmocka_unit_test(captures_without_or_with_bad_answers))
