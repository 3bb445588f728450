/* SPDX-License-Identifier: MIT */
/* The GPU collector against the fake driver library (tests/fakenvml): a child of this very
 * program samples it, and the agent's side is turned until what is expected holds.  Every fault
 * is made through the file FAKE_NVML_CONTROL while the child runs.  No test depends on how long
 * something takes, only on its coming about within DEADLINE_MS.
 *
 * `test_gpu_child --gpu-sample [LIBRARY]` prints one sample of a real driver with its costs. */
#include "test.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "os/clock.h"
#include "telemetry/gpu/gpu_int.h"
#include "telemetry/telemetry_int.h"

#include <assert.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PERIOD_MS = 120,
    HANG_MS = 1500,      /* more than a busy machine makes a child wait */
    HANG_SOON_MS = 400,  /* where one that only waited does no harm */
    DEADLINE_MS = 60000, /* for anything that is waited for */
    EVENTS = 512
};

static char lib[PATH_MAX]; /* the fake */
static char control[] = "/tmp/stoker-gpu-control-XXXXXX";

/* A fake of the real one (test_process_owner.c tests that): here one process belongs to a job. */
bool owner_of(const struct root *root, int pid, struct owner *out)
{
    assert(root);
    if (pid != 1)
        return false;
    str_copy(out->slurm_job, sizeof(out->slurm_job), "4711");
    str_copy(out->command, sizeof(out->command), "python3");
    return true;
}

/* ---- the machine ---- */
static void find_lib(void)
{
    ssize_t n = readlink("/proc/self/exe", lib, sizeof(lib) - 32);
    char *slash;

    assert_true(n > 0);
    lib[n] = '\0';
    slash = strrchr(lib, '/');
    snprintf(slash, 32, "/libfakenvml.so");
}

/* What the fake does from now on; in one step, so that it never sees half of it. */
static void fault(const char *text)
{
    char next[PATH_MAX];
    FILE *f;

    snprintf(next, sizeof(next), "%s.next", control);
    f = fopen(next, "we");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(rename(next, control), 0);
}

struct box {
    struct telemetry *t;
    struct gpu_child *c;
};

static void machine(const char *doc, const char *live, const char *text)
{
    char path[256];

    snprintf(path, sizeof(path), "tests/fakenvml/%s.json", doc);
    setenv("FAKE_NVML_JSON", path, 1);
    snprintf(path, sizeof(path), "tests/fixtures/gpu/%s.json", live);
    setenv("FAKE_NVML_LIVE", path, 1);
    setenv("FAKE_NVML_CONTROL", control, 1);
    unsetenv("FAKE_NVML_FAULT");
    fault(text);
}

static struct box begin_with(const char *library, int hang_ms)
{
    struct gpu_child_opts o = { .nvml = library, .period_ms = PERIOD_MS, .hang_ms = hang_ms };
    struct box b = { .t = telemetry_new(0) };

    b.c = gpu_child_new(&o, b.t);
    return b;
}

static struct box begin(const char *doc, const char *live, const char *text)
{
    machine(doc, live, text);
    return begin_with(lib, HANG_MS);
}

static void end(struct box *b)
{
    fault("");
    gpu_child_free(b->c);
    telemetry_free(b->t);
}

/* ---- looking ---- */
static bool has_labels(const struct telemetry_series *s, const char *name, const char *value)
{
    for (size_t i = 0; i < s->label_count; i++)
        if (str_eq(s->labels[i].name, name))
            return str_eq(s->labels[i].value, value);
    return false;
}

/* The value of the series of a metric with this label (NULL: any); NaN: none is known. */
static double value(struct box *b, const char *metric, const char *label, const char *is)
{
    for (uint32_t i = 0; i < telemetry_count(b->t); i++) {
        const struct telemetry_series *s = telemetry_get(b->t, i);

        if (str_eq(s->metric->id, metric) && (!label || has_labels(s, label, is)) &&
            !isnan(telemetry_value(b->t, i)))
            return telemetry_value(b->t, i);
    }
    return NAN;
}

/* How many events of a kind have this text in them. */
static size_t told(struct box *b, enum telemetry_event_kind kind, const char *text)
{
    struct telemetry_event *all = xcalloc(EVENTS, sizeof(*all));
    size_t n = telemetry_events(b->t, 0, all, EVENTS), found = 0;

    for (size_t i = 0; i < n; i++)
        found += all[i].kind == kind && strstr(all[i].text, text);
    free(all);
    return found;
}

static bool why_has(struct box *b, const char *text)
{
    struct buf why = { 0 };
    bool has;

    gpu_child_why(b->c, &why);
    has = strstr(buf_str(&why), text) != NULL;
    buf_release(&why);
    return has;
}

static void turn(struct box *b)
{
    struct pollfd p = { .fd = gpu_child_fd(b->c), .events = POLLIN };

    (void)poll(&p, p.fd >= 0, 10);
    gpu_child_turn(b->c, clock_unix_ms() * 1000000);
}

#define UNTIL(b, cond)                                                                             \
    do {                                                                                           \
        int64_t until_ = clock_mono_ms() + DEADLINE_MS;                                            \
        while (!(cond)) {                                                                          \
            if (clock_mono_ms() > until_)                                                          \
                show(b);                                                                           \
            assert_true(clock_mono_ms() <= until_);                                                \
            turn(b);                                                                               \
        }                                                                                          \
    } while (0)

/* What there was when a condition did not come about. */
static void show(struct box *b)
{
    static struct telemetry_event all[EVENTS];
    size_t n = telemetry_events(b->t, 0, all, EVENTS);
    AUTO(buf_release) struct buf why = { 0 };

    gpu_child_why(b->c, &why);
    print_message("# state %d: %s\n", (int)gpu_child_state(b->c), buf_str(&why));
    for (size_t i = 0; i < n; i++)
        print_message("# event %s gpu %d: %s\n", telemetry_event_word(all[i].kind), all[i].gpu,
                      all[i].text);
}

static bool runs(struct box *b)
{
    return gpu_child_state(b->c) == GPU_CHILD_RUNS && !isnan(value(b, "gpu.temp", NULL, NULL));
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fabs(b);
}

/* ---- values ---- */
TEST(an_h200_under_a_gemm)
{
    static const struct {
        const char *metric;
        double want;
    } rows[] = {
        { "gpu.temp", 44 },
        { "gpu.mem.temp", 47 },
        { "gpu.power", 693.683 },
        { "gpu.power.instant", 643.012 },
        { "gpu.power.limit", 700 },
        { "gpu.util", 100 },
        { "gpu.enc.util", 0 },
        { "gpu.fb.total", 150754820096 },
        { "gpu.fb.used", 1059913728 },
        { "gpu.fb.reserved", 644939776 },
        { "gpu.clock.sm", 1755 },
        { "gpu.clock.mem", 3201 },
        { "gpu.clock_events", 4 },
        { "gpu.pstate", 0 },
        { "gpu.ecc.mode", 1 },
        { "gpu.ecc.dbe.volatile", 0 },
        { "gpu.remap.failure", 0 },
        { "gpu.remap.banks.max", 3072 },
        { "gpu.pcie.replay", 0 },
        { "gpu.pcie.gen", 5 },
        { "gpu.pcie.recovery", 952 },
        { "gpu.violation.low_util", 26201177440 },
        { "gpu.recovery_action", 0 },
        { "gpu.lost", 0 },
        { "gpu.count", 1 },
        { "gpu.processes", 1 },
        { "gpu.prof.graphics", 0.9893 },
        { "gpu.prof.sm", 0.9543 },
        { "gpu.prof.tensor", 0.9262 },
        { "gpu.prof.dram", 0.1605 },
        { "gpu.prof.pcie_tx", 4.54 * 1048576 },
        { "process.gpu.memory", 1048576000 },
        { "process.gpu.util", 98 },
    };
    AUTO(end) struct box b = begin("h200", "h200-gemm", "");

    UNTIL(&b, runs(&b) && !isnan(value(&b, "gpu.prof.tensor", NULL, NULL)));
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        double got = value(&b, rows[i].metric, NULL, NULL);

        if (!near(got, rows[i].want))
            print_message("# %s is %g, not %g\n", rows[i].metric, got, rows[i].want);
        CHECK(near(got, rows[i].want));
    }
    CHECK(value(&b, "gpu.energy", NULL, NULL) >= 4234851);
    UNTIL(&b, value(&b, "gpu.pcie.tx_bytes", NULL, NULL) > 0);
    CHECK(value(&b, "gpu.driver.calls", "call", "nvmlDeviceGetFieldValues") >= 3);
    CHECK(value(&b, "gpu.driver.call.max", "call", "nvmlInit_v2") > 0);
    CHECK(isnan(value(&b, "gpu.nvlink.tx_bytes", NULL, NULL))); /* it has none */
    CHECK(isnan(value(&b, "gpu.retired.sbe", NULL, NULL)));
}

TEST(labels_are_those_of_dcgm)
{
    static const struct {
        const char *name, *value;
    } labels[] = { { "gpu", "0" },
                   { "UUID", "GPU-bb51d70a-b808-8a02-9ee5-511ccc9ba7c0" },
                   { "pci_bus_id", "00000000:00:06.0" },
                   { "device", "nvidia0" },
                   { "modelName", "NVIDIA H200" },
                   { "DCGM_FI_DRIVER_VERSION", "580.159.04" } };
    AUTO(end) struct box b = begin("h200", "h200-idle", "");

    UNTIL(&b, runs(&b));
    for (size_t i = 0; i < ARRAY_SIZE(labels); i++)
        CHECK(value(&b, "gpu.temp", labels[i].name, labels[i].value) == 36);
}

TEST(processes_are_a_document)
{
    AUTO(end) struct box b = begin("h200", "h200-gemm", "");
    AUTO(arena_release) struct arena a = { 0 };
    AUTO(buf_release) struct buf doc = { 0 };
    struct json *tree;
    const struct json *p;

    UNTIL(&b, runs(&b) && telemetry_doc_copy(b.t, "processes", &doc));
    assert_int_equal(json_parse(&a, buf_str(&doc), doc.len, &tree, NULL), RC_OK);
    CHECK(str_eq(json_str(json_get(tree, "schema")), "stoker.processes/1"));
    p = json_at(json_get(tree, "processes"), 0);
    CHECK(maybe_is(json_int(json_get(p, "pid")), 1));
    CHECK(maybe_is(json_int(json_get(p, "gpu")), 0));
    CHECK(maybe_is(json_int(json_get(p, "memory_bytes")), 1048576000));
    CHECK(maybe_is(json_int(json_get(p, "sm_percent")), 98));
    CHECK(str_eq(json_str(json_get(p, "slurm_job")), "4711"));
    CHECK(json_get(p, "unit")->type == JSON_NULL); /* unknown */
    CHECK(value(&b, "process.gpu.memory", "slurm_job", "4711") == 1048576000);
    CHECK(value(&b, "process.gpu.memory", "command", "python3") == 1048576000);
    buf_reset(&doc);
    UNTIL(&b, telemetry_doc_copy(b.t, "gpu_labels", &doc));
    assert_string_equal(buf_str(&doc), "{\"0\":{\"hpc_job\":\"4711\"}}");
    gpu_child_release(b.c);
    UNTIL(&b, !telemetry_doc_copy(b.t, "gpu_labels", &doc)); /* nobody knows any more */
}

TEST(eight_gpus_with_nvlink)
{
    AUTO(end) struct box b = begin("dgx-h100", "dgx-h100", "");

    UNTIL(&b, runs(&b) && value(&b, "gpu.nvlink.bandwidth", "gpu", "7") > 0);
    CHECK(value(&b, "gpu.count", NULL, NULL) == 8);
    CHECK(value(&b, "gpu.nvlink.links", "gpu", "3") == 18);
    CHECK(value(&b, "gpu.nvlink.tx_bytes", "gpu", "3") >= 18 * 4096 * 1024.0);
    CHECK(value(&b, "gpu.nvlink.replay", "gpu", "3") == 0); /* summed up over links */
    CHECK(value(&b, "link.up", "nvlink", "17") == 1);
    CHECK(value(&b, "link.speed", "nvlink", "17") == 26562);
    CHECK(value(&b, "link.tx_bytes", "nvlink", "17") >= 4096 * 1024.0);
    UNTIL(&b, near(value(&b, "gpu.prof.dram", "gpu", "5"), 0.8809));
}

TEST(mig_instances_are_series_of_their_own)
{
    AUTO(end) struct box b = begin("h200-mig", "h200-mig", "");

    UNTIL(&b, runs(&b) && !isnan(value(&b, "gpu.prof.sm", "GPU_I_ID", "13")));
    CHECK(value(&b, "gpu.fb.total", "GPU_I_PROFILE", "3g.71gb") == 75161927680);
    CHECK(value(&b, "gpu.fb.total", "GPU_I_ID", "5") == 37580963840);
    CHECK(isnan(value(&b, "gpu.util", NULL, NULL))); /* the driver does not tell it under MIG */
    CHECK(value(&b, "process.gpu.memory", "GPU_I_ID", "1") == 1048576000);
}

TEST(an_old_driver_tells_less)
{
    AUTO(end) struct box b;

    machine("a100-pcie", "h200-idle", "");
    setenv("FAKE_NVML_FAULT", "old", 1);
    b = begin_with(lib, HANG_MS);
    UNTIL(&b, runs(&b));
    CHECK(value(&b, "gpu.power", NULL, NULL) > 0);
    CHECK(value(&b, "gpu.fb.used", NULL, NULL) >= 0);
    CHECK(isnan(value(&b, "gpu.fb.reserved", NULL, NULL)));
    CHECK(isnan(value(&b, "gpu.prof.tensor", NULL, NULL)));
    CHECK(value(&b, "gpu.clock_events", NULL, NULL) >= 0);
}

TEST(what_is_not_supported_is_asked_once)
{
    AUTO(end)
    struct box b = begin("dgx-h100", "h200-idle", ""); /* live values for the first GPU alone */
    static const char call[] = "nvmlDeviceGetEncoderUtilization";

    UNTIL(&b, value(&b, "gpu.driver.calls", "call", call) >= 8 + 3);
    CHECK(value(&b, "gpu.driver.calls", "call", "nvmlDeviceGetTemperatureV") >= 8 * 3);
    CHECK(value(&b, "gpu.driver.calls", "call", call) <=
          value(&b, "gpu.driver.calls", "call", "nvmlDeviceGetTemperatureV") / 8 + 7);
}

/* ---- events ---- */
TEST(an_xid_is_an_event)
{
    AUTO(end) struct box b = begin("dgx-h100", "dgx-h100", "");

    UNTIL(&b, runs(&b));
    fault("xid:2:79:1");
    UNTIL(&b, told(&b, TELEMETRY_EVENT_XID, "XID 79") == 1);
    fault("xid:2:79:2,xid:2:31:3");
    UNTIL(&b, told(&b, TELEMETRY_EVENT_XID, "XID 79") == 2 &&
                  told(&b, TELEMETRY_EVENT_XID, "XID 31") == 1);
}

/* The events' set fails: samples go on. */
TEST(events_that_fail_do_not_end_the_samples)
{
    AUTO(end) struct box b = begin("h200", "h200-idle", "rc:nvmlEventSetWait_v2:-:999");

    UNTIL(&b, runs(&b) && told(&b, TELEMETRY_EVENT_AGENT, "events of the driver are not heard"));
    UNTIL(&b, value(&b, "gpu.driver.calls", "call", "nvmlDeviceGetTemperatureV") > 8);
    CHECK(value(&b, "gpu.driver.calls", "call", "nvmlEventSetWait_v2") <= 3);
}

TEST(a_recovery_action_is_an_event)
{
    AUTO(end) struct box b = begin("trouble", "h200-idle", ""); /* GPU 3 asks for a reset */

    UNTIL(&b, told(&b, TELEMETRY_EVENT_RECOVERY, "recovery action: GPU reset"));
    CHECK(value(&b, "gpu.recovery_action", "gpu", "3") == 1);
    UNTIL(&b, value(&b, "gpu.driver.calls", "call", "nvmlDeviceGetTemperatureV") > 8);
    CHECK(told(&b, TELEMETRY_EVENT_RECOVERY, "") == 1);
}

/* ---- hangs ---- */
static const char *const calls[] = {
#define CALL_NAME(name, params) "nvml" #name,
    NVML_CALLS(CALL_NAME)
#undef CALL_NAME
};

/* In whatever call the child stops: known by its name, over when it returns. */
TEST(a_hang_in_any_call)
{
    AUTO(end) struct box b;
    bool used[ARRAY_SIZE(calls)] = { false };
    char text[128];
    size_t count = 0;

    machine("dgx-h100", "dgx-h100", "");
    b = begin_with(lib, HANG_SOON_MS);
    UNTIL(&b, runs(&b) && value(&b, "gpu.nvlink.bandwidth", NULL, NULL) > 0);
    for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
        used[i] = !isnan(value(&b, "gpu.driver.calls", "call", calls[i]));
    for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
        if (!used[i])
            continue;
        count++;
        snprintf(text, sizeof(text), "hang:%s", calls[i]);
        fault(text);
        snprintf(text, sizeof(text), "%s(", calls[i]);
        gpu_child_release(b.c); /* those that are made at the start alone */
        gpu_child_attach(b.c);
        UNTIL(&b, gpu_child_state(b.c) == GPU_CHILD_HUNG && why_has(&b, text));
        CHECK(told(&b, TELEMETRY_EVENT_HANG, text) >= 1);
        CHECK(value(&b, "gpu.driver.hung", NULL, NULL) == 1 || isnan(value(&b, "gpu.temp", 0, 0)));
        fault("");
        UNTIL(&b, runs(&b));
    }
    CHECK(count > 30);
}

TEST(a_hang_says_where)
{
    AUTO(end) struct box b = begin("h200", "h200-idle", "");

    UNTIL(&b, runs(&b));
    fault("hang:nvmlDeviceGetPowerUsage:0");
    UNTIL(&b, gpu_child_state(b.c) == GPU_CHILD_HUNG);
    CHECK(told(&b, TELEMETRY_EVENT_HANG, "nvmlDeviceGetPowerUsage(0) has not returned for") == 1);
    CHECK(told(&b, TELEMETRY_EVENT_HANG, "pid ") == 1 &&
          told(&b, TELEMETRY_EVENT_HANG, "state ") == 1);
    CHECK(isnan(value(&b, "gpu.temp", NULL, NULL))); /* unknown, not what it was */
    CHECK(!telemetry_doc_copy(b.t, "processes", &(struct buf){ 0 }));
}

/* One GPU hangs: its child is left alone, the next one asks the others. */
TEST(the_other_gpus_go_on)
{
    AUTO(end) struct box b = begin("dgx-h100", "dgx-h100", "");

    UNTIL(&b, runs(&b));
    fault("hang:nvmlDeviceGetTemperatureV:3");
    UNTIL(&b, value(&b, "gpu.driver.abandoned", NULL, NULL) == 1 && runs(&b));
    CHECK(value(&b, "gpu.temp", "gpu", "2") == 44);
    CHECK(value(&b, "gpu.temp", "gpu", "7") == 48);
    CHECK(isnan(value(&b, "gpu.temp", "gpu", "3")));
    CHECK(value(&b, "gpu.count", NULL, NULL) == 7);
    CHECK(value(&b, "gpu.count.failed", NULL, NULL) == 1);
    CHECK(why_has(&b, "nvmlDeviceGetTemperatureV(3)"));
    fault("");
    UNTIL(&b, value(&b, "gpu.temp", "gpu", "3") == 48);
    UNTIL(&b, value(&b, "gpu.driver.abandoned", NULL, NULL) == 0);
    CHECK(told(&b, TELEMETRY_EVENT_HANG, "came to an end after") == 1);
    CHECK(!why_has(&b, "nvml"));
}

TEST(a_driver_that_hangs_whole_is_not_tried_for_ever)
{
    AUTO(end) struct box b = begin("h200", "h200-idle", "hang:nvmlInit_v2");
    int64_t later;

    UNTIL(&b, told(&b, TELEMETRY_EVENT_HANG, "no more are started"));
    CHECK(value(&b, "gpu.driver.restarts", NULL, NULL) == GPU_ABANDONED_MAX - 1);
    for (later = clock_mono_ms() + 1500; clock_mono_ms() < later;)
        turn(&b);
    CHECK(gpu_child_state(b.c) == GPU_CHILD_HUNG);
    CHECK(value(&b, "gpu.driver.restarts", NULL, NULL) == GPU_ABANDONED_MAX - 1);
    CHECK(value(&b, "gpu.driver.abandoned", NULL, NULL) == GPU_ABANDONED_MAX);
    fault(""); /* they come back */
    UNTIL(&b, runs(&b) && value(&b, "gpu.driver.abandoned", NULL, NULL) == 0);
}

/* An agent whose child hangs, until it is killed. */
static void NORETURN agent_with_a_hang(int told)
{
    struct box b = begin_with(lib, HANG_SOON_MS);

    while (!gpu_child_hangs(b.c))
        turn(&b);
    (void)!write(told, "h", 1);
    for (;;)
        pause();
}

/* Children of an agent that ended are ours (a subreaper's); this one does not wait for its call. */
TEST(a_killed_agent_leaves_no_child_that_hangs)
{
    int64_t until = clock_mono_ms() + DEADLINE_MS;
    int told[2], status = 0;
    pid_t agent, child = 0;
    char hangs;

    machine("h200", "h200-idle", "hang:nvmlDeviceGetPowerUsage:0");
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe(told), 0);
    agent = fork();
    assert_true(agent >= 0);
    if (agent == 0)
        agent_with_a_hang(told[1]);
    close(told[1]);
    assert_int_equal(read(told[0], &hangs, 1), 1);
    close(told[0]);
    assert_int_equal(kill(agent, SIGKILL), 0);
    assert_int_equal(waitpid(agent, &status, 0), agent);
    while ((child <= 0 || !WIFSIGNALED(status)) && clock_mono_ms() < until) {
        poll(NULL, 0, 5);
        child = waitpid(-1, &status, WNOHANG); /* earlier tests' that ended late come along */
    }
    fault("");
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
    CHECK(child > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---- what else can happen ---- */
TEST(a_lost_gpu_is_unknown_and_the_others_go_on)
{
    AUTO(end) struct box b = begin("dgx-h100", "dgx-h100", "");

    UNTIL(&b, runs(&b) && value(&b, "gpu.temp", "gpu", "2") == 44);
    fault("lose:2");
    UNTIL(&b, told(&b, TELEMETRY_EVENT_GPU, "is lost: GPU is lost (15)"));
    UNTIL(&b, isnan(value(&b, "gpu.temp", "gpu", "2")));
    UNTIL(&b, value(&b, "gpu.lost", "gpu", "2") == 1);
    CHECK(value(&b, "gpu.temp", "gpu", "1") == 48);
    CHECK(value(&b, "gpu.lost", "gpu", "1") == 0);
    CHECK(value(&b, "gpu.count.failed", NULL, NULL) == 1);
    CHECK(isnan(value(&b, "link.up", "gpu", "2")));
    fault("");
    UNTIL(&b, value(&b, "gpu.temp", "gpu", "2") == 44);
    CHECK(told(&b, TELEMETRY_EVENT_GPU, "answers again") == 1);
    CHECK(told(&b, TELEMETRY_EVENT_GPU, "is lost") == 1);
}

TEST(a_driver_that_goes_away_underneath)
{
    AUTO(end) struct box b = begin("h200", "h200-gemm", "");
    double before;

    UNTIL(&b, value(&b, "gpu.energy", NULL, NULL) > 4234851); /* read twice */
    before = value(&b, "gpu.energy", NULL, NULL);
    fault("reload");
    UNTIL(&b, told(&b, TELEMETRY_EVENT_GPU, "the driver went away underneath: Uninitialized (1)"));
    CHECK(isnan(value(&b, "gpu.temp", NULL, NULL)));
    fault("");
    UNTIL(&b, runs(&b));
    CHECK(value(&b, "gpu.energy", NULL, NULL) > before); /* although the driver counts anew */
}

TEST(a_library_of_another_version)
{
    AUTO(end) struct box b = begin("h200", "h200-idle", "skew");

    UNTIL(&b, told(&b, TELEMETRY_EVENT_GPU, "driver and library are of two versions"));
    UNTIL(&b, gpu_child_state(b.c) == GPU_CHILD_NO_DRIVER);
    CHECK(why_has(&b, "version mismatch"));
    fault("");
    UNTIL(&b, runs(&b));
    fault("skew"); /* the package was upgraded under a child that runs */
    UNTIL(&b, gpu_child_state(b.c) == GPU_CHILD_NO_DRIVER);
    fault("");
    UNTIL(&b, runs(&b));
}

TEST(no_driver_is_no_news)
{
    struct telemetry_event e[4];
    AUTO(end) struct box b;

    machine("h200", "h200-idle", "");
    b = begin_with("/nonexistent/libnvidia-ml.so.1", HANG_MS);
    UNTIL(&b, gpu_child_state(b.c) == GPU_CHILD_NO_DRIVER);
    CHECK(telemetry_events(b.t, 0, e, ARRAY_SIZE(e)) == 0);
    CHECK(why_has(&b, "not found"));
    CHECK(value(&b, "gpu.driver.attached", NULL, NULL) == 0);
    CHECK(isnan(value(&b, "gpu.count", NULL, NULL)));
}

TEST(a_crash_is_told_and_tried_again)
{
    AUTO(end) struct box b = begin("dgx-h100", "dgx-h100", "");

    UNTIL(&b, runs(&b));
    fault("crash:nvmlDeviceGetUtilizationRates:5");
    UNTIL(&b, told(&b, TELEMETRY_EVENT_AGENT,
                   "the GPU collector crashed in nvmlDeviceGetUtilizationRates(5): Segmentation"));
    CHECK(isnan(value(&b, "gpu.temp", NULL, NULL)));
    fault("");
    UNTIL(&b, runs(&b));
    UNTIL(&b, value(&b, "gpu.driver.restarts", NULL, NULL) >= 1);
}

/* ---- release and attach ---- */
TEST(counters_go_on_after_a_release)
{
    AUTO(end) struct box b = begin("h200", "h200-gemm", "");
    double energy;

    UNTIL(&b, runs(&b));
    UNTIL(&b, value(&b, "gpu.energy", NULL, NULL) > 4234851); /* read twice */
    fault("");
    energy = value(&b, "gpu.energy", NULL, NULL);
    gpu_child_release(b.c);
    UNTIL(&b, gpu_child_state(b.c) == GPU_CHILD_RELEASED);
    CHECK(isnan(value(&b, "gpu.energy", NULL, NULL)));
    CHECK(told(&b, TELEMETRY_EVENT_AGENT, "the driver is released") == 1);
    CHECK(gpu_child_fd(b.c) == -1);
    for (int i = 0; i < 20; i++)
        turn(&b);
    CHECK(gpu_child_state(b.c) == GPU_CHILD_RELEASED); /* until it is asked for */
    gpu_child_attach(b.c);
    UNTIL(&b, runs(&b));
    CHECK(value(&b, "gpu.energy", NULL, NULL) > energy);
}

/* ---- parts ---- */
TEST(a_counter_continues)
{
    struct gpu_carry_value c = { 0 };

    CHECK(gpu_carry_on(&c, 100) == 100);
    CHECK(gpu_carry_on(&c, 150) == 150);
    CHECK(gpu_carry_on(&c, 10) == 160); /* the driver was loaded anew */
    CHECK(gpu_carry_on(&c, 10) == 160);
    CHECK(gpu_carry_on(&c, 0) == 160);
}

TEST(every_row_has_a_metric)
{
    for (size_t i = 0; i < GPU_ROW_COUNT; i++)
        CHECK(telemetry_metric(gpu_row_ids[i]) != NULL);
    for (size_t i = 0; i < GPU_LINK_ROWS; i++)
        CHECK(telemetry_metric(gpu_link_row_ids[i]) != NULL);
}

TEST(a_sample_by_call)
{
    struct gpu_child_opts o = { .nvml = lib, .period_ms = 1 };
    AUTO(buf_release) struct buf out = { 0 };
    AUTO(arena_release) struct arena a = { 0 };
    struct json *doc;

    machine("h200", "h200-gemm", "");
    assert_int_equal(gpu_sample_json(&o, &out, NULL), RC_OK);
    assert_int_equal(json_parse(&a, buf_str(&out), out.len, &doc, NULL), RC_OK);
    CHECK(json_get(json_get(doc, "full"), "calls")->count > 20);
    CHECK(json_get(json_get(doc, "usual"), "calls")->count > 10);
    CHECK(json_num(json_get(json_get(json_at(json_get(doc, "gpus"), 0), "metrics"), "gpu.temp"),
                   0) == 44);
}

/* ---- the program ---- */
static int print_sample(const char *library)
{
    struct gpu_child_opts o = { .nvml = library };
    struct buf out = { 0 };
    struct err err = { 0 };
    enum rc rc = gpu_sample_json(&o, &out, &err);

    fputs(rc ? err.msg : buf_str(&out), stdout);
    buf_release(&out);
    return rc_exit(rc);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counter_continues),
        cmocka_unit_test(every_row_has_a_metric),
        cmocka_unit_test(a_sample_by_call),
        cmocka_unit_test(an_h200_under_a_gemm),
        cmocka_unit_test(labels_are_those_of_dcgm),
        cmocka_unit_test(processes_are_a_document),
        cmocka_unit_test(eight_gpus_with_nvlink),
        cmocka_unit_test(mig_instances_are_series_of_their_own),
        cmocka_unit_test(an_old_driver_tells_less),
        cmocka_unit_test(what_is_not_supported_is_asked_once),
        cmocka_unit_test(an_xid_is_an_event),
        cmocka_unit_test(events_that_fail_do_not_end_the_samples),
        cmocka_unit_test(a_recovery_action_is_an_event),
        cmocka_unit_test(a_hang_says_where),
        cmocka_unit_test(the_other_gpus_go_on),
        cmocka_unit_test(a_driver_that_hangs_whole_is_not_tried_for_ever),
        cmocka_unit_test(a_killed_agent_leaves_no_child_that_hangs),
        cmocka_unit_test(a_lost_gpu_is_unknown_and_the_others_go_on),
        cmocka_unit_test(a_driver_that_goes_away_underneath),
        cmocka_unit_test(a_library_of_another_version),
        cmocka_unit_test(no_driver_is_no_news),
        cmocka_unit_test(a_crash_is_told_and_tried_again),
        cmocka_unit_test(counters_go_on_after_a_release),
        cmocka_unit_test(a_hang_in_any_call),
    };
    int64_t fd;
    int rc;

    if (argc == 4 && str_eq(argv[2], "--gpu-child") && str_to_i64(argv[3], 10, &fd))
        return gpu_child_main(NULL, (int)fd);
    if (argc >= 2 && str_eq(argv[1], "--gpu-sample"))
        return print_sample(argc > 2 ? argv[2] : NULL);
    find_lib();
    fd = mkstemp(control);
    assert_true(fd >= 0);
    close((int)fd);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(control);
    return rc;
}
