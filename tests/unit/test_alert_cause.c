/* SPDX-License-Identifier: MIT */
/* Alerts of one cause: the table names rules that are there, and what fires together is found below
 * its root, for the faults that raise many; what has nothing to do with it is not. */
#include "test.h"

#include "alert_sim.h"

#include "base/str.h"
#include "catalog/catalog.h"

enum { GPUS = 8 };
static const char *const digits[GPUS] = { "0", "1", "2", "3", "4", "5", "6", "7" };

static bool rule_is_there(const char *name, size_t len)
{
    size_t n;
    const struct alert_rule *r = alert_defaults(&n);

    for (size_t i = 0; i < n; i++)
        if (strlen(r[i].name) == len && !memcmp(r[i].name, name, len))
            return true;
    return false;
}

TEST(every_rule_of_the_table_is_there)
{
    size_t n;
    const struct alert_cause *c = alert_causes(&n);

    CHECK(n > 10);
    for (size_t i = 0; i < n; i++) {
        const char *const lists[] = { c[i].root, c[i].signs, c[i].symptoms };

        for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
            for (const char *p = lists[k]; *p; p += strspn(p, " ")) {
                size_t len = strcspn(p, " "), name = strcspn(p, "{ ");

                if (!rule_is_there(p, name))
                    fail_msg("%s: there is no rule '%.*s'", c[i].name, (int)name, p);
                p += len;
            }
    }
}

TEST(tables_that_cannot_be_read)
{
    static const char head[] = "cause,root,scope,signs,symptoms,same,before,why\n";
    static const struct {
        const char *rows;
        enum rc rc;
    } cases[] = { { "x,GpuLost,gpu,,GpuXid,gpu,10m,w\n", RC_OK },
                  { ",GpuLost,gpu,,GpuXid,gpu,10m,w\n", RC_PARSE },
                  { "x,,gpu,,GpuXid,gpu,10m,w\n", RC_PARSE },
                  { "x,GpuLost{xid},gpu,,GpuXid,gpu,10m,w\n", RC_PARSE },
                  { "x,GpuLost{=1},gpu,,GpuXid,gpu,10m,w\n", RC_PARSE },
                  { "x,{a=1},gpu,,GpuXid,gpu,10m,w\n", RC_PARSE },
                  { "x,GpuLost,a b c d e,,GpuXid,gpu,10m,w\n", RC_PARSE },
                  { "x,GpuLost,gpu,,GpuXid,gpu,soon,w\n", RC_PARSE },
                  { "x,GpuLost,gpu,,GpuXid,gpu,99999d,w\n", RC_LIMIT } };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct arena a = { 0 };
        char text[512];
        struct csv t;
        const struct alert_cause *out;
        size_t n;

        snprintf(text, sizeof(text), "%s%s", head, cases[i].rows);
        CHECK(!csv_parse(&a, text, strlen(text), &t, NULL));
        CHECK(alert_causes_read(&a, &t, &out, &n, NULL) == cases[i].rc);
        arena_release(&a);
    }
}

/* ---- the engine, with the rules that it has */
static struct alert_active list[ALERT_ACTIVE_MAX];
static size_t count;

static void look(struct sim *s)
{
    count = alerts_list(s->a, list, ALERT_ACTIVE_MAX);
}

/* The nth of a rule that fires; NULL: none. */
static const struct alert_active *firing(const char *rule, size_t nth)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].state == ALERT_FIRING && str_eq(list[i].rule->name, rule) && !nth--)
            return &list[i];
    return NULL;
}

static bool is_below(const struct alert_active *x, const char *root)
{
    return x && x->root_rule && str_eq(x->root_rule->name, root);
}

static void start(struct sim *s)
{
    size_t n;
    const struct alert_rule *rules = alert_defaults(&n);

    sim_start(s, rules, n);
    sim_run(s, 2);
}

TEST(a_gpu_off_the_bus_is_one_trouble)
{
    AUTO(sim_end) struct sim s;
    size_t xid, lost, link, other;

    start(&s);
    lost = sim_series(&s, "gpu.lost", "gpu", "3", NULL);
    s.value[lost] = 0;
    link = sim_series(&s, "link.up", "gpu", "3", "nvlink", "0", NULL);
    s.value[link] = 1;
    s.value[sim_series(&s, "gpu.nvlink.links", "gpu", "3", NULL)] = 18;
    sim_run(&s, 5);
    xid = sim_series(&s, "gpu.xid.total", "gpu", "3", "xid", "79", NULL);
    s.value[xid] = 1;
    other = sim_series(&s, "gpu.xid.total", "gpu", "5", "xid", "62", NULL);
    s.value[other] = 1;
    sim_run(&s, 2);
    look(&s);
    /* XID 79 tells of it first, by itself */
    CHECK(str_eq(firing("GpuXidFatal", 0)->cause, "gpu_lost:gpu=3"));
    CHECK(firing("GpuXidFatal", 0)->role == ALERT_ROLE_ROOT &&
          !firing("GpuXidFatal", 0)->root_rule);
    CHECK(!firing("GpuXidFatal", 1)->cause[0]); /* another GPU's */
    s.value[lost] = 1;
    s.value[link] = 0;
    sim_run(&s, 60);
    look(&s);
    CHECK(firing("GpuLost", 0)->role == ALERT_ROLE_ROOT && !firing("GpuLost", 0)->root_rule);
    CHECK(str_eq(firing("GpuLost", 0)->cause, "gpu_lost:gpu=3"));
    CHECK(is_below(firing("GpuXidFatal", 0), "GpuLost"));
    CHECK(firing("GpuXidFatal", 0)->role == ALERT_ROLE_ROOT); /* a label stays what it was */
    CHECK(is_below(firing("NvlinkDown", 0), "GpuLost"));
    CHECK(firing("NvlinkDown", 0)->role == ALERT_ROLE_SYMPTOM);
    CHECK(str_eq(firing("NvlinkDown", 0)->cause, "gpu_lost:gpu=3"));
    CHECK(str_eq(firing("GpuLost", 0)->follows, "GpuXidFatal, NvlinkDown") ||
          str_eq(firing("GpuLost", 0)->follows, "NvlinkDown, GpuXidFatal"));
    CHECK(!firing("GpuXidFatal", 1)->root_rule);
    /* the root ends: what is left tells of it */
    s.value[lost] = 0;
    sim_run(&s, 5);
    look(&s);
    CHECK(!firing("GpuLost", 0) && !firing("GpuXidFatal", 0)->root_rule);
    CHECK(is_below(firing("NvlinkDown", 0), "GpuXidFatal"));
}

/* Receivers know an alert by its labels: under others its end would be another's. */
TEST(what_fired_before_its_root_keeps_its_labels)
{
    AUTO(sim_end) struct sim s;
    size_t lost, link;

    start(&s);
    lost = sim_series(&s, "gpu.lost", "gpu", "3", NULL);
    s.value[lost] = 0;
    link = sim_series(&s, "link.up", "gpu", "3", "nvlink", "0", NULL);
    s.value[link] = 1;
    s.value[sim_series(&s, "gpu.nvlink.links", "gpu", "3", NULL)] = 18;
    sim_run(&s, 5);
    s.value[link] = 0;
    sim_run(&s, 45);
    look(&s);
    CHECK(firing("NvlinkDown", 0) && !firing("NvlinkDown", 0)->cause[0]);
    s.value[lost] = 1;
    sim_run(&s, 20);
    look(&s);
    CHECK(is_below(firing("NvlinkDown", 0), "GpuLost"));
    CHECK(!firing("NvlinkDown", 0)->cause[0]);
    CHECK(firing("NvlinkDown", 0)->role == ALERT_ROLE_NONE);
    CHECK(str_eq(firing("GpuLost", 0)->cause, "gpu_lost:gpu=3"));
}

TEST(a_hung_driver_is_one_for_all_gpus)
{
    AUTO(sim_end) struct sim s;
    size_t n = 0;

    start(&s);
    for (size_t g = 0; g < GPUS; g++)
        s.value[sim_series(&s, "gpu.driver.call.hung", "gpu", digits[g], "call", "nvmlX", NULL)] =
            60;
    sim_run(&s, 60);
    look(&s);
    for (size_t g = 0; g < GPUS; g++) {
        CHECK(str_eq(firing("GpuDriverHung", g)->cause, "driver_hung"));
        n += firing("GpuDriverHung", g)->root_rule == NULL;
    }
    CHECK(n == 1 && str_eq(firing("GpuDriverHung", 0)->follows, "GpuDriverHung (7)"));
}

TEST(a_switch_is_one_for_all_gpus)
{
    AUTO(sim_end) struct sim s;

    start(&s);
    for (size_t g = 0; g < GPUS; g++) /* the GPUs are faster than the switch */
        s.value[sim_series(&s, "gpu.xid.total", "gpu", digits[g], "xid", "74", NULL)] = 1;
    sim_run(&s, 2);
    s.value[sim_series(&s, "switch.sxid.total", "pci_bus_id", "0000:05:00.0", "sxid", "20034",
                       "fatal", "yes", NULL)] = 1;
    sim_run(&s, 2);
    look(&s);
    for (size_t g = 0; g < GPUS; g++)
        CHECK(is_below(firing("GpuXidFatal", g), "NvswitchSxidFatal"));
    CHECK(str_eq(firing("NvswitchSxidFatal", 0)->follows, "GpuXidFatal (8)"));
}

TEST(a_full_disk_and_what_was_there_before)
{
    AUTO(sim_end) struct sim s;
    size_t step, room, other;

    start(&s);
    step = sim_series(&s, "job.step", "job", "7", NULL);
    s.value[step] = 5;
    room = sim_series(&s, "mount.available", "mountpoint", "/data", NULL);
    s.value[sim_series(&s, "mount.size", "mountpoint", "/data", NULL)] = 100;
    other = sim_series(&s, "mount.available", "mountpoint", "/home", NULL);
    s.value[sim_series(&s, "mount.size", "mountpoint", "/home", NULL)] = 100;
    s.value[room] = s.value[other] = 50;
    sim_run(&s, 2 * 3600); /* the job has stalled long before */
    look(&s);
    CHECK(firing("TrainingStalled", 0) && !firing("TrainingStalled", 0)->cause[0]);
    s.value[room] = 1;
    s.value[other] = 8;
    sim_run(&s, 600);
    look(&s);
    CHECK(is_below(firing("DiskSpaceLow", 0), "DiskFull"));
    CHECK(str_eq(firing("DiskSpaceLow", 0)->cause, "disk_full:mountpoint=/data"));
    CHECK(!firing("DiskSpaceLow", 1)->root_rule && !firing("TrainingStalled", 0)->root_rule);
}

/* Rules are read again while a cause holds. */
TEST(a_reload_keeps_who_follows_whom)
{
    struct sim s;
    struct alerts *next;
    size_t n;
    const struct alert_rule *rules = alert_defaults(&n);
    struct alert_rule *fewer = xcalloc(n, sizeof(*fewer));

    start(&s);
    s.value[sim_series(&s, "gpu.lost", "gpu", "3", NULL)] = 1;
    s.value[sim_series(&s, "gpu.xid.total", "gpu", "3", "xid", "79", NULL)] = 1;
    sim_run(&s, 20);
    memcpy(fewer, rules, n * sizeof(*fewer));
    fewer[0].off = true; /* all have another number */
    next = alerts_new(fewer, n, s.t);
    alerts_inherit(next, s.a);
    alerts_free(s.a);
    s.a = next;
    look(&s);
    CHECK(!firing("GpuXidFatal", 0)->root_rule);
    sim_run(&s, 1);
    look(&s);
    CHECK(is_below(firing("GpuXidFatal", 0), "GpuLost"));
    CHECK(str_eq(firing("GpuXidFatal", 0)->cause, "gpu_lost:gpu=3"));
    sim_end(&s);
    free(fewer);
}

/* Thousands of alerts at once: each is linked or left alone, and nothing is above itself. */
TEST(a_flood)
{
    static struct alert_link links[ALERT_ACTIVE_MAX];
    static struct telemetry_series series[ALERT_ACTIVE_MAX];
    static struct telemetry_label labels[ALERT_ACTIVE_MAX];
    static const char *const names[] = { "GpuLost",  "GpuDriverHung", "GpuXidFatal", "NvlinkDown",
                                         "TaskHung", "NvmeTimeout",   "DiskErrors",  "DiskFull" };
    size_t n, below = 0;
    const struct alert_cause *causes = alert_causes(&n);

    for (size_t i = 0; i < ALERT_ACTIVE_MAX; i++) {
        labels[i] = (struct telemetry_label){ i % 3 ? "gpu" : "device", digits[i % GPUS] };
        series[i] = (struct telemetry_series){ .labels = &labels[i], .label_count = 1 };
        links[i] = (struct alert_link){ .rule = names[i * 7 % ARRAY_SIZE(names)],
                                        .subject = &series[i],
                                        .since_ns = (int64_t)(i * 37 % 100) * SEC };
    }
    alert_causes_link(causes, n, links, ALERT_ACTIVE_MAX);
    for (size_t i = 0; i < ALERT_ACTIVE_MAX; i++) {
        CHECK(links[links[i].top].parent < 0);
        CHECK((links[i].parent < 0) == (links[i].top == i));
        below += links[i].parent >= 0;
    }
    CHECK(below > ALERT_ACTIVE_MAX / 2);
}

TEST_MAIN(cmocka_unit_test(every_rule_of_the_table_is_there),
          cmocka_unit_test(tables_that_cannot_be_read),
          cmocka_unit_test(a_gpu_off_the_bus_is_one_trouble),
          cmocka_unit_test(what_fired_before_its_root_keeps_its_labels),
          cmocka_unit_test(a_hung_driver_is_one_for_all_gpus),
          cmocka_unit_test(a_switch_is_one_for_all_gpus),
          cmocka_unit_test(a_full_disk_and_what_was_there_before),
          cmocka_unit_test(a_reload_keeps_who_follows_whom), cmocka_unit_test(a_flood))
