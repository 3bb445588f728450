/* SPDX-License-Identifier: MIT */
/* telemetry: the table of metrics, series, batches, the budget, readers on other threads, events
 * and documents. */
#include "test.h"

#include "base/str.h"
#include "telemetry/telemetry_int.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

AUTO_OF(telemetry_free, telemetry);

/* ---- the table */

TEST(every_row_has_a_name_and_words)
{
    size_t count = 0;
    const struct telemetry_metric *m = telemetry_metrics(&count);

    CHECK(count > 300);
    for (size_t i = 0; i < count; i++) {
        CHECK(telemetry_metric(m[i].id) == &m[i]); /* found, and no id twice */
        CHECK(!m[i].dcgm || (telemetry_metric_named(m[i].dcgm) == &m[i] &&
                             telemetry_metric_named(m[i].dcgm46) == &m[i]));
        CHECK(!m[i].prom || telemetry_metric_named(m[i].prom) == &m[i]);
        CHECK(m[i].help && *m[i].help && *m[i].source && *m[i].unit);
        CHECK(m[i].scale > 0);
        CHECK((m[i].dcgm == NULL) == (m[i].dcgm46 == NULL));
        CHECK(!m[i].dcgm || str_starts(m[i].dcgm, "DCGM_"));
        CHECK(!m[i].dcgm || !m[i].prom); /* one scale serves one name */
        if (m[i].prom && m[i].kind == TELEMETRY_COUNTER && !str_starts(m[i].prom, "node_"))
            CHECK(str_ends(m[i].prom, "_total"));
    }
    CHECK(!telemetry_metric("no.such") && !telemetry_metric("") && !telemetry_metric(NULL));
    CHECK(!telemetry_metric_named("no_such") && !telemetry_metric_named(NULL));
}

TEST(known_rows)
{
    const struct telemetry_metric *m = telemetry_metric("gpu.fb.used");

    CHECK(m && m->entity == TELEMETRY_GPU && m->kind == TELEMETRY_GAUGE);
    assert_string_equal(m->dcgm, "DCGM_FI_DEV_FB_USED");
    assert_string_equal(m->help, "Framebuffer memory used (in MiB).");
    CHECK(m->scale * 1048576 == 1);
    m = telemetry_metric("gpu.power");
    assert_string_equal(m->dcgm46, "DCGM_FI_DEV_BOARD_POWER_WATTS");
    m = telemetry_metric("host.mem.available");
    assert_string_equal(m->prom, "node_memory_MemAvailable_bytes");
    assert_string_equal(telemetry_entity_word(m->entity), "host");
}

/* ---- series and batches */

static uint32_t gpu_series(struct telemetry *t, unsigned src, const char *id, const char *gpu)
{
    struct telemetry_label l = { "gpu", gpu };

    return telemetry_series(t, src, telemetry_metric(id), &l, 1);
}

TEST(the_same_series_has_the_same_id)
{
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(0);
    unsigned src = telemetry_source(t, "gpu");
    uint32_t a = gpu_series(t, src, "gpu.temp", "0"), b = gpu_series(t, src, "gpu.temp", "1");

    CHECK(a == 0 && b == 1 && telemetry_count(t) == 2);
    CHECK(gpu_series(t, src, "gpu.temp", "0") == a);
    CHECK(gpu_series(t, src, "gpu.power", "0") == 2);
    CHECK(telemetry_source(t, "gpu") == src && telemetry_source(t, "host") == src + 1);
    assert_string_equal(telemetry_source_name(t, src), "gpu");
    assert_string_equal(telemetry_source_name(t, 99), "");
    CHECK(telemetry_get(t, a)->metric == telemetry_metric("gpu.temp"));
    assert_string_equal(telemetry_get(t, b)->labels[0].value, "1");
    CHECK(!telemetry_get(t, 3) && !telemetry_get(t, TELEMETRY_NONE));
    CHECK(telemetry_series(t, src, NULL, NULL, 0) == TELEMETRY_NONE);
    CHECK(telemetry_series(t, 40, telemetry_metric("gpu.temp"), NULL, 0) == TELEMETRY_NONE);
}

TEST(hostile_labels_are_made_valid)
{
    char longer[2 * TELEMETRY_VALUE_MAX];
    struct telemetry_label l[TELEMETRY_LABELS_MAX + 4] = {
        { "ok", "a\"b\\c\nd" }, { "9bad-name", "v" }, { "ok", "again" },
        { "", NULL },           { "x", "\xff\xfe" },  { "long", longer },
    };
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(0);
    const struct telemetry_series *s;

    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    memcpy(&longer[TELEMETRY_VALUE_MAX - 2], "\xc3\xa4", 2); /* cut in the middle of a letter */
    for (size_t i = 6; i < ARRAY_SIZE(l); i++) {
        static char names[ARRAY_SIZE(l)][8];
        (void)snprintf(names[i], sizeof(names[i]), "n%zu", i);
        l[i] = (struct telemetry_label){ names[i], "v" };
    }
    s = telemetry_get(t, telemetry_series(t, telemetry_source(t, "x"), telemetry_metric("gpu.temp"),
                                          l, ARRAY_SIZE(l)));
    CHECK(s && s->label_count == TELEMETRY_LABELS_MAX);
    assert_string_equal(s->labels[0].value, "a\"b\\c\nd");
    assert_string_equal(s->labels[1].name, "_bad_name");
    assert_string_equal(s->labels[2].name, "_");
    assert_string_equal(s->labels[2].value, "");
    assert_string_equal(s->labels[3].value, "??");
    CHECK(strlen(s->labels[4].value) == TELEMETRY_VALUE_MAX - 1);
    for (size_t i = 0; i < s->label_count; i++)
        CHECK(str_is_text(s->labels[i].value, strlen(s->labels[i].value)));
}

TEST(what_a_batch_leaves_out_is_unknown)
{
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(0);
    unsigned gpu = telemetry_source(t, "gpu"), host = telemetry_source(t, "host");
    uint32_t a = gpu_series(t, gpu, "gpu.temp", "0"), b = gpu_series(t, gpu, "gpu.temp", "1");
    uint32_t h = telemetry_series(t, host, telemetry_metric("host.load1"), NULL, 0);
    double v[4] = { 0 };

    CHECK(isnan(telemetry_value(t, a)) && telemetry_age_ns(t, gpu, 5) == -1);
    telemetry_begin(t, gpu, 1000);
    telemetry_set(t, a, 40);
    telemetry_set(t, b, 41);
    telemetry_set(t, h, 9); /* not this source's */
    telemetry_set(t, TELEMETRY_NONE, 1);
    CHECK(isnan(telemetry_value(t, a))); /* nothing of a batch before its end */
    telemetry_end(t);
    CHECK(telemetry_value(t, a) == 40 && telemetry_value(t, b) == 41 &&
          isnan(telemetry_value(t, h)));
    CHECK(telemetry_age_ns(t, gpu, 3000) == 2000 && telemetry_age_ns(t, gpu, 1) == 0);

    telemetry_begin(t, host, 1500);
    telemetry_set(t, h, 0);
    telemetry_end(t);
    CHECK(telemetry_value(t, a) == 40 && telemetry_value(t, h) == 0); /* a batch is of one source */

    telemetry_begin(t, gpu, 2000);
    telemetry_set(t, b, NAN);
    telemetry_end(t);
    CHECK(isnan(telemetry_value(t, a)) && isnan(telemetry_value(t, b)));
    v[3] = 7;
    CHECK(telemetry_copy(t, v, 2) == 3 && isnan(v[0]) && isnan(v[1]) && v[2] == 0);
    CHECK(telemetry_copy(t, v, 4) == 3 && v[2] == 0 && v[3] == 7);
    CHECK(isnan(telemetry_value(t, 77)));
}

TEST(a_series_stays_with_its_first_source)
{
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(0);
    unsigned one = telemetry_source(t, "one"), two = telemetry_source(t, "two");
    uint32_t a = gpu_series(t, one, "gpu.temp", "0");

    CHECK(gpu_series(t, two, "gpu.temp", "0") == a);
    telemetry_begin(t, one, 1);
    telemetry_set(t, a, 40);
    telemetry_end(t);
    telemetry_begin(t, two, 2);
    telemetry_set(t, a, 99);
    telemetry_end(t);
    CHECK(telemetry_value(t, a) == 40);
}

TEST(sources_have_a_limit)
{
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(0);
    char name[16];

    for (unsigned i = 0; i < TELEMETRY_SOURCES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "s%u", i);
        CHECK(telemetry_source(t, name) == i);
    }
    CHECK(telemetry_source(t, "more") == TELEMETRY_SOURCES_MAX);
    CHECK(gpu_series(t, TELEMETRY_SOURCES_MAX, "gpu.temp", "0") == TELEMETRY_NONE);
    telemetry_begin(t, TELEMETRY_SOURCES_MAX, 1); /* dropped */
    telemetry_end(t);
}

/* ---- the budget */

TEST(the_lowest_priority_is_refused_first)
{
    static const struct {
        const char *id; /* NULL: an application's */
        int priority;
        size_t until;
    } rows[] = { { NULL, 4, 50 },
                 { "link.tx_bytes", 3, 70 },
                 { "gpu.prof.fp64", 2, 85 },
                 { "gpu.prof.pcie_tx", 1, 95 },
                 { "gpu.temp", 0, 100 } };
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(100);
    unsigned src = telemetry_source(t, "gpu");
    uint64_t refused = 0;

    for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
        const struct telemetry_metric *m = rows[r].id
                                               ? telemetry_metric(rows[r].id)
                                               : telemetry_foreign(t, "app_x", "", TELEMETRY_GAUGE);
        CHECK(m && m->priority == rows[r].priority);
        for (size_t i = 0; i < 100; i++) {
            char n[16];
            struct telemetry_label l = { "gpu", n };
            bool fits = telemetry_count(t) < rows[r].until;

            (void)snprintf(n, sizeof(n), "%zu", i);
            CHECK((telemetry_series(t, src, m, &l, 1) != TELEMETRY_NONE) == fits);
            refused += !fits;
        }
        CHECK(telemetry_count(t) == rows[r].until);
        CHECK(telemetry_refused(t) == refused);
    }
    CHECK(gpu_series(t, src, "gpu.temp", "0") != TELEMETRY_NONE); /* those in stay in */
    CHECK(gpu_series(t, src, "gpu.temp", "99") == TELEMETRY_NONE);
    CHECK(telemetry_refused(t) == refused); /* asked again, counted once */
}

TEST(a_budget_beyond_the_limit_is_the_limit)
{
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(10 * TELEMETRY_SERIES_MAX);
    unsigned src = telemetry_source(t, "gpu");
    char n[16];

    for (size_t i = 0; i < TELEMETRY_SERIES_MAX + 100; i++) {
        (void)snprintf(n, sizeof(n), "%zu", i);
        CHECK((gpu_series(t, src, "gpu.temp", n) == TELEMETRY_NONE) == (i >= TELEMETRY_SERIES_MAX));
    }
    CHECK(telemetry_refused(t) == 100);
}

TEST(foreign_metrics)
{
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(0);
    const struct telemetry_metric *m =
        telemetry_foreign(t, "app_requests_total", "Requests", TELEMETRY_COUNTER);
    char name[32];

    CHECK(m && m->kind == TELEMETRY_COUNTER && m->entity == TELEMETRY_APP && m->scale == 1);
    CHECK(telemetry_foreign(t, "app_requests_total", "Other", TELEMETRY_GAUGE) == m);
    CHECK(!telemetry_foreign(t, "9x", "", TELEMETRY_GAUGE) &&
          !telemetry_foreign(t, "a b", "", TELEMETRY_GAUGE));
    CHECK(!telemetry_foreign(t, "", "", TELEMETRY_GAUGE) &&
          !telemetry_foreign(t, NULL, "", TELEMETRY_GAUGE));
    for (size_t i = 1; i < TELEMETRY_FOREIGN_MAX; i++) {
        (void)snprintf(name, sizeof(name), "m%zu", i);
        CHECK(telemetry_foreign(t, name, NULL, TELEMETRY_GAUGE));
    }
    CHECK(!telemetry_foreign(t, "one_more", NULL, TELEMETRY_GAUGE));
}

/* ---- threads: a batch sets all its series to one number, so a reader must see one number */

enum { THREAD_SERIES = 64, THREAD_BATCHES = 400, THREADS = 8 };
struct shared {
    struct telemetry *t;
    _Atomic bool stop;
};

static void *read_on(void *arg)
{
    struct shared *s = arg;
    double v[THREAD_SERIES];
    struct telemetry_event e[4];
    struct buf b = { 0 };

    while (!s->stop) {
        size_t n = telemetry_copy(s->t, v, THREAD_SERIES);

        n = n < THREAD_SERIES ? n : THREAD_SERIES;
        for (size_t i = 0; i < n; i++) {
            const struct telemetry_series *x = telemetry_get(s->t, (uint32_t)i);

            if (!x || x->label_count != 1 || (!isnan(v[i]) && v[i] != v[0]))
                return (void *)"torn";
        }
        (void)telemetry_value(s->t, 3);
        (void)telemetry_age_ns(s->t, 0, 1);
        (void)telemetry_refused(s->t);
        (void)telemetry_events(s->t, 0, e, ARRAY_SIZE(e));
        buf_reset(&b);
        if (telemetry_doc_copy(s->t, "d", &b) && b.len < 2)
            return (void *)"document";
    }
    buf_release(&b);
    return NULL;
}

TEST(readers_on_other_threads_see_whole_batches)
{
    struct shared s = { .t = telemetry_new(0) };
    unsigned src = telemetry_source(s.t, "gpu");
    struct telemetry_event e = { .gpu = -1, .text = "x" };
    pthread_t th[THREADS];
    char n[16];

    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&th[i], NULL, read_on, &s) == 0);
    for (int round = 0; round < THREAD_BATCHES; round++) {
        (void)snprintf(n, sizeof(n), "%d", round % THREAD_SERIES);
        CHECK(gpu_series(s.t, src, "gpu.temp", n) != TELEMETRY_NONE); /* grows while it is read */
        telemetry_begin(s.t, src, round);
        for (uint32_t i = 0; i < telemetry_count(s.t); i++)
            telemetry_set(s.t, i, round);
        telemetry_end(s.t);
        telemetry_event(s.t, &e);
        telemetry_doc(s.t, "d", round % 2 ? "{}" : "[1]");
    }
    s.stop = true;
    for (size_t i = 0; i < THREADS; i++) {
        void *why = NULL;

        CHECK(pthread_join(th[i], &why) == 0);
        CHECK(why == NULL);
    }
    telemetry_free(s.t);
}

/* ---- events and documents */

TEST(the_newest_events_oldest_first)
{
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(0);
    struct telemetry_event out[8],
        e = { .kind = TELEMETRY_EVENT_XID, .gpu = 1, .text = "bad \xff text" };

    CHECK(telemetry_events(t, 0, out, 8) == 0);
    for (int i = 0; i < 5; i++) {
        e.time_ns = i;
        e.code = i;
        telemetry_event(t, &e);
    }
    CHECK(telemetry_events(t, 0, out, 8) == 5 && out[0].code == 0 && out[4].code == 4);
    CHECK(telemetry_events(t, 3, out, 8) == 2 && out[0].code == 3);
    CHECK(telemetry_events(t, 0, out, 2) == 2 && out[0].code == 3 && out[1].code == 4);
    CHECK(telemetry_events(t, 0, out, 0) == 0);
    assert_string_equal(out[0].text, "bad ? text");
    for (int i = 5; i < TELEMETRY_EVENTS_MAX + 10; i++) {
        e.time_ns = e.code = i;
        telemetry_event(t, &e);
    }
    CHECK(telemetry_events(t, TELEMETRY_EVENTS_MAX + 7, out, 8) == 3 &&
          out[2].code == TELEMETRY_EVENTS_MAX + 9);
    CHECK(telemetry_events(t, 0, out, 8) == 8 && out[0].code == TELEMETRY_EVENTS_MAX + 2);
    for (int k = 0; k < TELEMETRY_EVENT_KINDS; k++)
        CHECK(*telemetry_event_word((enum telemetry_event_kind)k));
    assert_string_equal(telemetry_event_word(TELEMETRY_EVENT_KINDS), "unknown");
}

static void is_removed(void *arg, const char *name, const char *json)
{
    (void)arg;
    CHECK(str_eq(name, "jobs") && !json);
}

TEST(documents_are_replaced_and_removed)
{
    struct telemetry *t = telemetry_new(0);
    AUTO(buf_release) struct buf b = { 0 };
    char *big = malloc(TELEMETRY_DOC_MAX + 2), name[16];

    CHECK(!telemetry_doc_copy(t, "jobs", &b));
    telemetry_doc(t, "jobs", "[]");
    telemetry_doc(t, "jobs", "[1]");
    CHECK(telemetry_doc_copy(t, "jobs", &b));
    assert_string_equal(buf_str(&b), "[1]");
    memset(big, ' ', TELEMETRY_DOC_MAX + 1);
    big[TELEMETRY_DOC_MAX + 1] = '\0';
    telemetry_doc(t, "jobs", big); /* too long: the old one stays */
    buf_reset(&b);
    CHECK(telemetry_doc_copy(t, "jobs", &b) && b.len == 3);
    telemetry_doc(t, "jobs", NULL);
    telemetry_doc(t, "never", NULL);
    CHECK(!telemetry_doc_copy(t, "jobs", &b));
    CHECK(telemetry_docs_after(t, 0, is_removed, NULL) == 3); /* whoever has a copy hears of it */
    for (int i = 0; i < TELEMETRY_DOCS_MAX + 1; i++) {
        (void)snprintf(name, sizeof(name), "d%d", i);
        telemetry_doc(t, name, "{}");
        CHECK(telemetry_doc_copy(t, name, &b) == (i < TELEMETRY_DOCS_MAX));
    }
    free(big);
    telemetry_free(t);
}

TEST_MAIN(cmocka_unit_test(every_row_has_a_name_and_words), cmocka_unit_test(known_rows),
          cmocka_unit_test(the_same_series_has_the_same_id),
          cmocka_unit_test(hostile_labels_are_made_valid),
          cmocka_unit_test(what_a_batch_leaves_out_is_unknown),
          cmocka_unit_test(a_series_stays_with_its_first_source),
          cmocka_unit_test(sources_have_a_limit),
          cmocka_unit_test(the_lowest_priority_is_refused_first),
          cmocka_unit_test(a_budget_beyond_the_limit_is_the_limit),
          cmocka_unit_test(foreign_metrics),
          cmocka_unit_test(readers_on_other_threads_see_whole_batches),
          cmocka_unit_test(the_newest_events_oldest_first),
          cmocka_unit_test(documents_are_replaced_and_removed))
