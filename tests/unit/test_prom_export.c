/* SPDX-License-Identifier: MIT */
/* prom_export: Prometheus text from readings of an H200, of every metric there is, and from what is
 * hostile.  UPDATE_GOLDEN=1 rewrites tests/golden/prom_export. */
#include "test.h"

#include "base/buf.h"
#include "base/str.h"
#include "telemetry/prom/prom.h"
#include "telemetry/telemetry_int.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

AUTO_OF(telemetry_free, telemetry);

static void check_golden(const char *path, const struct buf *got)
{
    AUTO(buf_release) struct buf want = { 0 };
    char piece[4096];
    size_t n;
    FILE *f;

    if (getenv("UPDATE_GOLDEN")) {
        f = fopen(path, "w");
        CHECK(f && fwrite(got->data, 1, got->len, f) == got->len);
        CHECK(fclose(f) == 0);
        return;
    }
    f = fopen(path, "r");
    CHECK(f != NULL);
    while ((n = fread(piece, 1, sizeof(piece), f)) > 0)
        buf_add(&want, piece, n);
    (void)fclose(f);
    for (const char *g = buf_str(got), *w = buf_str(&want); *g || *w;) { /* line by line */
        size_t gl = strcspn(g, "\n"), wl = strcspn(w, "\n");

        if (gl != wl || memcmp(g, w, gl) != 0)
            fail_msg("%s: '%.*s' where it has '%.*s'", path, (int)gl, g, (int)wl, w);
        g += gl + (g[gl] != '\0');
        w += wl + (w[wl] != '\0');
    }
}

static void write_to(struct buf *b, struct telemetry *t, struct prom_export_opts o)
{
    buf_reset(b);
    prom_export_write(t, &o, b);
    CHECK(!b->over);
}

static size_t occurrences(const struct buf *b, const char *what)
{
    size_t n = 0;

    for (const char *p = buf_str(b); (p = strstr(p, what)); p++)
        n++;
    return n;
}

static bool has(const struct buf *b, const char *what)
{
    return occurrences(b, what) > 0;
}

/* ---- an H200 under a matrix product: NVML's fields and GPM over 1 s as they were read;
 * temperature, clocks and utilisation are of the same GPU under encoders */

static const struct {
    const char *id;
    double value;
} h200[] = {
    { "gpu.clock.sm", 1905 },
    { "gpu.clock.mem", 3201 },
    { "gpu.temp", 54 },
    { "gpu.mem.temp", 47 },
    { "gpu.power", 693.683 },
    { "gpu.power.instant", 643.012 },
    { "gpu.power.limit", 700 },
    { "gpu.energy", 4234851 },
    { "gpu.util", 100 },
    { "gpu.mem.util", 46 },
    { "gpu.fb.total", 150754820096 },
    { "gpu.fb.used", 1059913728 },
    { "gpu.fb.reserved", 644939776 },
    { "gpu.fb.free", 150754820096.0 - 644939776 - 1059913728 },
    { "gpu.pcie.gen", 5 },
    { "gpu.pcie.width", 16 },
    { "gpu.pcie.replay", 0 },
    { "gpu.pcie.recovery", 952 },
    { "gpu.pcie.tx_bytes", 2255159528 },
    { "gpu.clock_events", 4 },
    { "gpu.violation.power", 1879328224 },
    { "gpu.violation.thermal", 0 },
    { "gpu.violation.low_util", 26201177440 },
    { "gpu.ecc.sbe.volatile", 0 },
    { "gpu.ecc.dbe.volatile", 0 },
    { "gpu.remap.correctable", 0 },
    { "gpu.remap.failure", 0 },
    { "gpu.remap.banks.max", 3072 },
    { "gpu.recovery_action", 0 },
    { "gpu.prof.graphics", 98.93 / 100 },
    { "gpu.prof.sm", 95.43 / 100 },
    { "gpu.prof.occupancy", 14.10 / 100 },
    { "gpu.prof.tensor", 92.62 / 100 },
    { "gpu.prof.dram", 16.05 / 100 },
    { "gpu.prof.fp64", 0 },
    { "gpu.prof.pcie_tx", 4.54 * 1048576 },
    { "gpu.prof.pcie_rx", 12.56 * 1048576 },
    { "gpu.throttle.hw_thermal", 0 },
    { "gpu.nvlink.bandwidth", NAN }, /* "not supported" on this machine */
    { "gpu.processes", 1 },
};

static const struct telemetry_label h200_labels[] = {
    { "gpu", "0" },
    { "UUID", "GPU-bb51d70a-b808-8a02-9ee5-511ccc9ba7c0" },
    { "pci_bus_id", "00000000:00:06.0" },
    { "device", "nvidia0" },
    { "modelName", "NVIDIA H200" },
    { "DCGM_FI_DRIVER_VERSION", "580.159.04" },
};

static struct telemetry *h200_table(void)
{
    struct telemetry *t = telemetry_new(0);
    unsigned src = telemetry_source(t, "gpu");

    telemetry_begin(t, src, 1);
    for (size_t i = 0; i < ARRAY_SIZE(h200); i++) {
        const struct telemetry_metric *m = telemetry_metric(h200[i].id);
        uint32_t id = telemetry_series(t, src, m, h200_labels, ARRAY_SIZE(h200_labels));

        CHECK(id != TELEMETRY_NONE);
        telemetry_set(t, id, h200[i].value);
    }
    telemetry_end(t);
    return t;
}

TEST(readings_of_an_h200)
{
    AUTO(telemetry_free_at) struct telemetry *t = h200_table();
    AUTO(buf_release) struct buf b = { 0 };

    write_to(&b, t, (struct prom_export_opts){ .hostname = "node-1" });
    CHECK(has(&b, "DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-bb51d70a-b808-8a02-9ee5-511ccc9ba7c0\","
                  "pci_bus_id=\"00000000:00:06.0\",device=\"nvidia0\",modelName=\"NVIDIA H200\","
                  "Hostname=\"node-1\",DCGM_FI_DRIVER_VERSION=\"580.159.04\"} 1010\n"));
    CHECK(!has(&b, "NVLINK_BANDWIDTH")); /* unknown: no line, and no family */
    CHECK(!has(&b, "BOARD_POWER"));
    check_golden("tests/golden/prom_export/h200.prom", &b);

    write_to(&b, t,
             (struct prom_export_opts){
                 .hostname = "n", .lower_hostname = true, .names = PROM_EXPORT_NEW });
    CHECK(has(&b, "# TYPE DCGM_FI_DEV_BOARD_POWER_WATTS gauge\n"));
    CHECK(has(&b, "hostname=\"n\"") && !has(&b, "Hostname") && !has(&b, "_POWER_USAGE{"));
    CHECK(has(&b, "DCGM_FI_DEV_SM_CLOCK{")); /* the same in both */

    write_to(&b, t, (struct prom_export_opts){ .names = PROM_EXPORT_BOTH });
    CHECK(has(&b, "\nDCGM_FI_DEV_BOARD_POWER_WATTS{") && has(&b, "\nDCGM_FI_DEV_POWER_USAGE{"));
    CHECK(occurrences(&b, "\nDCGM_FI_DEV_SM_CLOCK{") == 1 && !has(&b, "ostname"));

    write_to(
        &b, t,
        (struct prom_export_opts){ .only = (const char *const[]){ "gpu.temp", "gpu.nope", NULL } });
    CHECK(occurrences(&b, "# TYPE ") == 1 && has(&b, "DCGM_FI_DEV_GPU_TEMP{"));
}

/* ---- every metric with the labels that its row names: for promtool, and for the order */

static void all_rows(struct telemetry *t)
{
    size_t count;
    const struct telemetry_metric *m = telemetry_metrics(&count);
    unsigned src = telemetry_source(t, "all");

    telemetry_begin(t, src, 1);
    for (size_t i = 0; i < count; i++) {
        struct telemetry_label l[TELEMETRY_LABELS_MAX];
        char names[512], *save = names;
        size_t n = 0;

        CHECK(str_copy(names, sizeof(names), m[i].labels));
        for (char *name; (name = strsep(&save, ",")) && n < TELEMETRY_LABELS_MAX;)
            if (*name)
                l[n++] = (struct telemetry_label){ name, "v" };
        telemetry_set(t, telemetry_series(t, src, &m[i], l, n), 1);
    }
    telemetry_end(t);
}

TEST(every_metric)
{
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(0);
    AUTO(buf_release) struct buf b = { 0 };

    all_rows(t);
    write_to(&b, t, (struct prom_export_opts){ .hostname = "node-1", .names = PROM_EXPORT_BOTH });
    check_golden("tests/golden/prom_export/all.prom", &b);
}

/* ---- jobs */

TEST(a_gpu_has_the_labels_of_its_job)
{
    AUTO(telemetry_free_at) struct telemetry *t = h200_table();
    AUTO(buf_release) struct buf b = { 0 };

    telemetry_doc(
        t, "gpu_labels",
        "{\"0\":{\"pod\":\"train-0\",\"namespace\":\"ml\",\"container\":\"c\",\"gpu\":\"9\","
        "\"bad name\":\"x\",\"n\":1,\"__x\":\"y\",\"hpc_job\":\"17\"},\"1\":{\"pod\":\"z\"}}");
    write_to(&b, t, (struct prom_export_opts){ .hostname = "h" });
    CHECK(has(&b, "Hostname=\"h\",DCGM_FI_DRIVER_VERSION=\"580.159.04\",container=\"c\","
                  "hpc_job=\"17\",namespace=\"ml\",pod=\"train-0\"} 54\n"));
    CHECK(!has(&b, "bad name") && !has(&b, "gpu=\"9\"") && !has(&b, "\"z\"") && !has(&b, "__x"));
    telemetry_doc(t, "gpu_labels", "{\"0.1\":{\"pod\":\"of-an-instance\"}}");
    write_to(&b, t, (struct prom_export_opts){ .hostname = "h" });
    CHECK(!has(&b, "pod="));
    telemetry_doc(t, "gpu_labels", "[\"no object\"]");
    write_to(&b, t, (struct prom_export_opts){ .hostname = "h" });
    CHECK(has(&b, "DCGM_FI_DEV_GPU_TEMP{") && !has(&b, "pod="));
    telemetry_doc(t, "gpu_labels", "{not json");
    write_to(&b, t, (struct prom_export_opts){ .hostname = "h" });
    CHECK(has(&b, "DCGM_FI_DEV_GPU_TEMP{") && !has(&b, "pod="));
}

/* ---- numbers */

TEST(numbers)
{
    static const struct {
        const char *id;
        double value;
        const char *line; /* NULL: left out */
    } rows[] = {
        { "gpu.power", 81.45, "DCGM_FI_DEV_POWER_USAGE 81.450000\n" },
        { "gpu.prof.tensor", 0, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE 0.000000\n" },
        { "gpu.energy", 9007199254740991,
          "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION 9007199254740991\n" },
        { "gpu.fb.used", 1048575, "DCGM_FI_DEV_FB_USED 0\n" },
        { "gpu.temp", 40.9, "DCGM_FI_DEV_GPU_TEMP 40\n" },
        { "gpu.temp", 9223372036854775794.0, NULL }, /* DCGM's "not supported" */
        { "gpu.temp", INFINITY, NULL },
        { "host.load1", 0.1, "node_load1 0.1\n" },
        { "host.load1", -0.5, "node_load1 -0.5\n" },
        { "host.load1", 12345.67, "node_load1 12345.67\n" },
        { "host.load1", 0.000001, "node_load1 0.000001\n" },
        { "host.load1", 3e-9, "node_load1 0.000000003\n" },
        { "host.load1", 1.05e-7, "node_load1 0.000000105\n" },
        { "host.load1", 1.25e-10, "node_load1 1.25e-10\n" },
        { "host.load1", 2251799813685248.5, "node_load1 2251799813685248.5\n" },
        { "host.load1", 1.0 / 3, "node_load1 0.3333333333333333\n" },
        { "host.load1", 1e300, "node_load1 1e+300\n" },
        { "host.load1", -INFINITY, "node_load1 -Inf\n" },
        { "host.mem.total", 2164663517184, "node_memory_MemTotal_bytes 2164663517184\n" },
        { "link.speed", 26562, "stoker_nvlink_link_speed_bytes_per_second 26562000000\n" },
    };
    AUTO(buf_release) struct buf b = { 0 };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct telemetry *t = telemetry_new(0);
        unsigned src = telemetry_source(t, "x");
        uint32_t id = telemetry_series(t, src, telemetry_metric(rows[i].id), NULL, 0);

        telemetry_begin(t, src, 1);
        telemetry_set(t, id, rows[i].value);
        telemetry_end(t);
        write_to(&b, t, (struct prom_export_opts){ 0 });
        if (rows[i].line && !has(&b, rows[i].line))
            fail_msg("not '%s' but %s", rows[i].line, buf_str(&b));
        CHECK(has(&b, rows[i].line ? "stoker_series_left_out 0\n" : "stoker_series_left_out 1\n"));
        telemetry_free(t);
    }
}

/* What is written reads back as the same number, whatever it is. */
TEST(numbers_read_back)
{
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(0);
    unsigned src = telemetry_source(t, "x");
    uint32_t id = telemetry_series(t, src, telemetry_metric("host.load1"), NULL, 0);
    uint64_t bits = 88172645463325252u;
    AUTO(buf_release) struct buf b = { 0 };

    for (int i = 0; i < 20000; i++) {
        double v, got;

        bits ^= bits << 13; /* xorshift */
        bits ^= bits >> 7;
        bits ^= bits << 17;
        if (i % 2)
            memcpy(&v, &bits, sizeof(v)); /* any double */
        else                              /* a decimal of up to 12 digits */
            v = (double)(bits % 1000000000000) / (double[]){ 1e2, 1e3, 1e6, 1e9 }[i / 2 % 4];
        if (!isfinite(v))
            continue;
        telemetry_begin(t, src, 1);
        telemetry_set(t, id, v);
        telemetry_end(t);
        write_to(&b, t,
                 (struct prom_export_opts){ .only = (const char *const[]){ "host.load1", NULL } });
        got = strtod(strstr(buf_str(&b), "\nnode_load1 ") + strlen("\nnode_load1 "), NULL);
        CHECK(got == v);
    }
}

/* ---- what applications bring */

static void set_one(struct telemetry *t, unsigned src, const char *name, enum telemetry_kind kind,
                    const struct telemetry_label *l, size_t n, double v)
{
    telemetry_set(t,
                  telemetry_series(
                      t, src, telemetry_foreign(t, name, "Its \\ help\nhas two lines", kind), l, n),
                  v);
}

TEST(hostile_applications_do_not_spoil_the_text)
{
    AUTO(telemetry_free_at) struct telemetry *t = h200_table();
    unsigned src = telemetry_source(t, "app:x");
    struct telemetry_label ab[] = { { "a", "1" }, { "b", "2" } },
                           ba[] = { { "b", "2" }, { "a", "1" } };
    struct telemetry_label app = { "app", "x" }, quote = { "q", "\"\\\n{}=,é\xff" };
    struct telemetry_label reserved = { "__name__", "other" };
    AUTO(buf_release) struct buf b = { 0 };

    telemetry_begin(t, src, 1);
    set_one(t, src, "zz_last", TELEMETRY_GAUGE, &quote, 1, 1);
    set_one(t, src, "aa_first_total", TELEMETRY_COUNTER, ab, 2, 2);
    set_one(t, src, "aa_first_total", TELEMETRY_COUNTER, ba, 2, 3); /* twice the same */
    set_one(t, src, "reserved", TELEMETRY_GAUGE, &reserved, 1, 4);
    set_one(t, src, "process_open_fds", TELEMETRY_GAUGE, &app, 1, 5); /* ours, merged */
    set_one(t, src, "node_load1", TELEMETRY_COUNTER, &app, 1, 6);     /* ours, of another kind */
    set_one(t, src, "DCGM_FI_DEV_GPU_TEMP", TELEMETRY_GAUGE, &app, 1, 7.5); /* DCGM's, merged */
    set_one(t, src, "DCGM_FI_DEV_GPU_TEMP_CELSIUS", TELEMETRY_GAUGE, &app, 1,
            8.5); /* the new name */
    telemetry_end(t);
    src = telemetry_source(t, "self");
    telemetry_begin(t, src, 1);
    telemetry_set(t, telemetry_series(t, src, telemetry_metric("agent.fds"), NULL, 0), 9);
    telemetry_end(t);

    write_to(&b, t, (struct prom_export_opts){ 0 });
    CHECK(has(&b, "zz_last{q=\"\\\"\\\\\\n{}=,é?\"} 1\n"));
    CHECK(has(&b, "# HELP zz_last Its \\\\ help\\nhas two lines\n# TYPE zz_last gauge\n"));
    CHECK(has(&b, "aa_first_total{a=\"1\",b=\"2\"} 2\n") && !has(&b, "{b=\"2\",a=\"1\"}"));
    CHECK(!has(&b, "__name__") && !has(&b, "# TYPE reserved"));
    CHECK(strstr(buf_str(&b), "aa_first") < strstr(buf_str(&b), "zz_last"));
    CHECK(has(&b, "process_open_fds{app=\"x\"} 5\nprocess_open_fds 9\n"));
    CHECK(occurrences(&b, "# TYPE process_open_fds gauge") == 1);
    CHECK(!has(&b, "node_load1"));
    CHECK(has(&b, "\nDCGM_FI_DEV_GPU_TEMP{app=\"x\"} 7.5\n"));
    CHECK(occurrences(&b, "# TYPE DCGM_FI_DEV_GPU_TEMP gauge") == 1);
    CHECK(has(&b, "# TYPE DCGM_FI_DEV_GPU_TEMP_CELSIUS gauge\n"
                  "DCGM_FI_DEV_GPU_TEMP_CELSIUS{app=\"x\"} 8.5\n"));
    CHECK(has(&b, "stoker_series_left_out 3\n"));

    write_to(&b, t, (struct prom_export_opts){ .names = PROM_EXPORT_BOTH });
    CHECK(occurrences(&b, "# TYPE DCGM_FI_DEV_GPU_TEMP_CELSIUS gauge") == 1);
    CHECK(occurrences(&b, "{app=\"x\"} 8.5") == 1 && occurrences(&b, "{app=\"x\"} 7.5") == 1);
}

TEST(an_empty_table_is_a_text_as_well)
{
    struct telemetry *t = telemetry_new(0);
    struct buf b = { 0 }, small;

    write_to(&b, t, (struct prom_export_opts){ 0 });
    CHECK(has(&b, "stoker_series_left_out 0\n") && occurrences(&b, "# TYPE ") == 1);
    telemetry_free(t);
    t = h200_table();
    buf_init(&small, 100); /* a buf that is too small says so */
    prom_export_write(t, &(struct prom_export_opts){ 0 }, &small);
    CHECK(small.over);
    buf_release(&small);
    buf_release(&b);
    telemetry_free(t);
}

/* ---- scrapers while the table grows */

enum { SCRAPERS = 4, ROUNDS = 60 };
struct scraped {
    struct telemetry *t;
    _Atomic bool stop;
};

static void *scrape(void *arg)
{
    struct scraped *s = arg;
    struct buf b = { 0 };
    void *bad = NULL;

    while (!s->stop && !bad) {
        buf_reset(&b);
        prom_export_write(s->t, &(struct prom_export_opts){ .hostname = "h" }, &b);
        if (b.over || !str_ends(buf_str(&b), "stoker_series_left_out 0\n"))
            bad = s;
    }
    buf_release(&b);
    return bad;
}

TEST(scrapers_on_other_threads)
{
    struct scraped s = { .t = h200_table() };
    unsigned app = telemetry_source(s.t, "app:x");
    pthread_t th[SCRAPERS];

    for (size_t i = 0; i < SCRAPERS; i++)
        CHECK(pthread_create(&th[i], NULL, scrape, &s) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        char name[32];
        struct telemetry_label l = { "round", name };

        (void)snprintf(name, sizeof(name), "m%d", i);
        telemetry_begin(s.t, app, i);
        telemetry_set(
            s.t,
            telemetry_series(s.t, app, telemetry_foreign(s.t, name, NULL, TELEMETRY_GAUGE), &l, 1),
            i);
        telemetry_end(s.t);
        telemetry_doc(s.t, "gpu_labels", i % 2 ? "{\"0\":{\"pod\":\"p\"}}" : NULL);
    }
    s.stop = true;
    for (size_t i = 0; i < SCRAPERS; i++) {
        void *bad = NULL;

        CHECK(pthread_join(th[i], &bad) == 0);
        CHECK(bad == NULL);
    }
    telemetry_free(s.t);
}

TEST_MAIN(cmocka_unit_test(readings_of_an_h200), cmocka_unit_test(every_metric),
          cmocka_unit_test(a_gpu_has_the_labels_of_its_job), cmocka_unit_test(numbers),
          cmocka_unit_test(numbers_read_back),
          cmocka_unit_test(hostile_applications_do_not_spoil_the_text),
          cmocka_unit_test(scrapers_on_other_threads),
          cmocka_unit_test(an_empty_table_is_a_text_as_well))
