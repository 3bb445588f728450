/* SPDX-License-Identifier: MIT */
/* tele: the table of metrics, series, batches, the budget, readers on other threads, events and
 * documents. */
#include "test.h"

#include "base/str.h"
#include "telemetry/telemetry.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table */

TEST(every_row_has_a_name_and_words)
{
    size_t count = 0;
    const struct tele_metric *m = tele_metrics(&count);

    CHECK(count > 300);
    for (size_t i = 0; i < count; i++) {
        CHECK(tele_metric(m[i].id) == &m[i]); /* found, and no id twice */
        CHECK(!m[i].dcgm ||
              (tele_metric_named(m[i].dcgm) == &m[i] && tele_metric_named(m[i].dcgm46) == &m[i]));
        CHECK(!m[i].prom || tele_metric_named(m[i].prom) == &m[i]);
        CHECK(m[i].help && *m[i].help && *m[i].source && *m[i].unit);
        CHECK(m[i].scale > 0);
        CHECK((m[i].dcgm == NULL) == (m[i].dcgm46 == NULL));
        CHECK(!m[i].dcgm || str_starts(m[i].dcgm, "DCGM_"));
        CHECK(!m[i].dcgm || !m[i].prom); /* one scale serves one name */
        if (m[i].prom && m[i].kind == TELE_COUNTER && !str_starts(m[i].prom, "node_"))
            CHECK(str_ends(m[i].prom, "_total"));
    }
    CHECK(!tele_metric("no.such") && !tele_metric("") && !tele_metric(NULL));
    CHECK(!tele_metric_named("no_such") && !tele_metric_named(NULL));
}

TEST(known_rows)
{
    const struct tele_metric *m = tele_metric("gpu.fb.used");

    CHECK(m && m->entity == TELE_GPU && m->kind == TELE_GAUGE);
    assert_string_equal(m->dcgm, "DCGM_FI_DEV_FB_USED");
    assert_string_equal(m->help, "Framebuffer memory used (in MiB).");
    CHECK(m->scale * 1048576 == 1);
    m = tele_metric("gpu.power");
    assert_string_equal(m->dcgm46, "DCGM_FI_DEV_BOARD_POWER_WATTS");
    m = tele_metric("host.mem.available");
    assert_string_equal(m->prom, "node_memory_MemAvailable_bytes");
    assert_string_equal(tele_entity_word(m->entity), "host");
}

/* ---- series and batches */

static uint32_t gpu_series(struct tele *t, unsigned src, const char *id, const char *gpu)
{
    struct tele_label l = { "gpu", gpu };

    return tele_series(t, src, tele_metric(id), &l, 1);
}

TEST(the_same_series_has_the_same_id)
{
    struct tele *t = tele_new(0);
    unsigned src = tele_source(t, "gpu");
    uint32_t a = gpu_series(t, src, "gpu.temp", "0"), b = gpu_series(t, src, "gpu.temp", "1");

    CHECK(a == 0 && b == 1 && tele_count(t) == 2);
    CHECK(gpu_series(t, src, "gpu.temp", "0") == a);
    CHECK(gpu_series(t, src, "gpu.power", "0") == 2);
    CHECK(tele_source(t, "gpu") == src && tele_source(t, "host") == src + 1);
    assert_string_equal(tele_source_name(t, src), "gpu");
    assert_string_equal(tele_source_name(t, 99), "");
    CHECK(tele_get(t, a)->metric == tele_metric("gpu.temp"));
    assert_string_equal(tele_get(t, b)->labels[0].value, "1");
    CHECK(!tele_get(t, 3) && !tele_get(t, TELE_NONE));
    CHECK(tele_series(t, src, NULL, NULL, 0) == TELE_NONE);
    CHECK(tele_series(t, 40, tele_metric("gpu.temp"), NULL, 0) == TELE_NONE);
    tele_free(t);
}

TEST(hostile_labels_are_made_valid)
{
    char longer[2 * TELE_VALUE_MAX];
    struct tele_label l[TELE_LABELS_MAX + 4] = {
        { "ok", "a\"b\\c\nd" }, { "9bad-name", "v" }, { "ok", "again" },
        { "", NULL },           { "x", "\xff\xfe" },  { "long", longer },
    };
    struct tele *t = tele_new(0);
    const struct tele_series *s;

    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    memcpy(&longer[TELE_VALUE_MAX - 2], "\xc3\xa4", 2); /* cut in the middle of a letter */
    for (size_t i = 6; i < ARRAY_SIZE(l); i++) {
        static char names[ARRAY_SIZE(l)][8];
        (void)snprintf(names[i], sizeof(names[i]), "n%zu", i);
        l[i] = (struct tele_label){ names[i], "v" };
    }
    s = tele_get(t, tele_series(t, tele_source(t, "x"), tele_metric("gpu.temp"), l, ARRAY_SIZE(l)));
    CHECK(s && s->label_count == TELE_LABELS_MAX);
    assert_string_equal(s->labels[0].value, "a\"b\\c\nd");
    assert_string_equal(s->labels[1].name, "_bad_name");
    assert_string_equal(s->labels[2].name, "_");
    assert_string_equal(s->labels[2].value, "");
    assert_string_equal(s->labels[3].value, "??");
    CHECK(strlen(s->labels[4].value) == TELE_VALUE_MAX - 1);
    for (size_t i = 0; i < s->label_count; i++)
        CHECK(str_is_text(s->labels[i].value, strlen(s->labels[i].value)));
    tele_free(t);
}

TEST(what_a_batch_leaves_out_is_unknown)
{
    struct tele *t = tele_new(0);
    unsigned gpu = tele_source(t, "gpu"), host = tele_source(t, "host");
    uint32_t a = gpu_series(t, gpu, "gpu.temp", "0"), b = gpu_series(t, gpu, "gpu.temp", "1");
    uint32_t h = tele_series(t, host, tele_metric("host.load1"), NULL, 0);
    double v[4] = { 0 };

    CHECK(isnan(tele_value(t, a)) && tele_age_ns(t, gpu, 5) == -1);
    tele_begin(t, gpu, 1000);
    tele_set(t, a, 40);
    tele_set(t, b, 41);
    tele_set(t, h, 9); /* not this source's */
    tele_set(t, TELE_NONE, 1);
    CHECK(isnan(tele_value(t, a))); /* nothing of a batch before its end */
    tele_end(t);
    CHECK(tele_value(t, a) == 40 && tele_value(t, b) == 41 && isnan(tele_value(t, h)));
    CHECK(tele_age_ns(t, gpu, 3000) == 2000 && tele_age_ns(t, gpu, 1) == 0);

    tele_begin(t, host, 1500);
    tele_set(t, h, 0);
    tele_end(t);
    CHECK(tele_value(t, a) == 40 && tele_value(t, h) == 0); /* a batch is of one source */

    tele_begin(t, gpu, 2000);
    tele_set(t, b, NAN);
    tele_end(t);
    CHECK(isnan(tele_value(t, a)) && isnan(tele_value(t, b)));
    v[3] = 7;
    CHECK(tele_copy(t, v, 2) == 3 && isnan(v[0]) && isnan(v[1]) && v[2] == 0);
    CHECK(tele_copy(t, v, 4) == 3 && v[2] == 0 && v[3] == 7);
    CHECK(isnan(tele_value(t, 77)));
    tele_free(t);
}

TEST(a_series_stays_with_its_first_source)
{
    struct tele *t = tele_new(0);
    unsigned one = tele_source(t, "one"), two = tele_source(t, "two");
    uint32_t a = gpu_series(t, one, "gpu.temp", "0");

    CHECK(gpu_series(t, two, "gpu.temp", "0") == a);
    tele_begin(t, one, 1);
    tele_set(t, a, 40);
    tele_end(t);
    tele_begin(t, two, 2);
    tele_set(t, a, 99);
    tele_end(t);
    CHECK(tele_value(t, a) == 40);
    tele_free(t);
}

TEST(sources_have_a_limit)
{
    struct tele *t = tele_new(0);
    char name[16];

    for (unsigned i = 0; i < TELE_SOURCES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "s%u", i);
        CHECK(tele_source(t, name) == i);
    }
    CHECK(tele_source(t, "more") == TELE_SOURCES_MAX);
    CHECK(gpu_series(t, TELE_SOURCES_MAX, "gpu.temp", "0") == TELE_NONE);
    tele_begin(t, TELE_SOURCES_MAX, 1); /* dropped */
    tele_end(t);
    tele_free(t);
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
    struct tele *t = tele_new(100);
    unsigned src = tele_source(t, "gpu");
    uint64_t refused = 0;

    for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
        const struct tele_metric *m =
            rows[r].id ? tele_metric(rows[r].id) : tele_foreign(t, "app_x", "", TELE_GAUGE);
        CHECK(m && m->priority == rows[r].priority);
        for (size_t i = 0; i < 100; i++) {
            char n[16];
            struct tele_label l = { "gpu", n };
            bool fits = tele_count(t) < rows[r].until;

            (void)snprintf(n, sizeof(n), "%zu", i);
            CHECK((tele_series(t, src, m, &l, 1) != TELE_NONE) == fits);
            refused += !fits;
        }
        CHECK(tele_count(t) == rows[r].until);
        CHECK(tele_refused(t) == refused);
    }
    CHECK(gpu_series(t, src, "gpu.temp", "0") != TELE_NONE); /* those in stay in */
    CHECK(gpu_series(t, src, "gpu.temp", "99") == TELE_NONE);
    CHECK(tele_refused(t) == refused); /* asked again, counted once */
    tele_free(t);
}

TEST(a_budget_beyond_the_limit_is_the_limit)
{
    struct tele *t = tele_new(10 * TELE_SERIES_MAX);
    unsigned src = tele_source(t, "gpu");
    char n[16];

    for (size_t i = 0; i < TELE_SERIES_MAX + 100; i++) {
        (void)snprintf(n, sizeof(n), "%zu", i);
        CHECK((gpu_series(t, src, "gpu.temp", n) == TELE_NONE) == (i >= TELE_SERIES_MAX));
    }
    CHECK(tele_refused(t) == 100);
    tele_free(t);
}

TEST(foreign_metrics)
{
    struct tele *t = tele_new(0);
    const struct tele_metric *m = tele_foreign(t, "app_requests_total", "Requests", TELE_COUNTER);
    char name[32];

    CHECK(m && m->kind == TELE_COUNTER && m->entity == TELE_APP && m->scale == 1);
    CHECK(tele_foreign(t, "app_requests_total", "Other", TELE_GAUGE) == m);
    CHECK(!tele_foreign(t, "9x", "", TELE_GAUGE) && !tele_foreign(t, "a b", "", TELE_GAUGE));
    CHECK(!tele_foreign(t, "", "", TELE_GAUGE) && !tele_foreign(t, NULL, "", TELE_GAUGE));
    for (size_t i = 1; i < TELE_FOREIGN_MAX; i++) {
        (void)snprintf(name, sizeof(name), "m%zu", i);
        CHECK(tele_foreign(t, name, NULL, TELE_GAUGE));
    }
    CHECK(!tele_foreign(t, "one_more", NULL, TELE_GAUGE));
    tele_free(t);
}

/* ---- threads: a batch sets all its series to one number, so a reader must see one number */

enum { THREAD_SERIES = 64, THREAD_BATCHES = 400, THREADS = 8 };
struct shared {
    struct tele *t;
    _Atomic bool stop;
};

static void *read_on(void *arg)
{
    struct shared *s = arg;
    double v[THREAD_SERIES];
    struct tele_event e[4];
    struct buf b = { 0 };

    while (!s->stop) {
        size_t n = tele_copy(s->t, v, THREAD_SERIES);

        n = n < THREAD_SERIES ? n : THREAD_SERIES;
        for (size_t i = 0; i < n; i++) {
            const struct tele_series *x = tele_get(s->t, (uint32_t)i);

            if (!x || x->label_count != 1 || (!isnan(v[i]) && v[i] != v[0]))
                return (void *)"torn";
        }
        (void)tele_value(s->t, 3);
        (void)tele_age_ns(s->t, 0, 1);
        (void)tele_refused(s->t);
        (void)tele_events(s->t, 0, e, ARRAY_SIZE(e));
        buf_reset(&b);
        if (tele_doc_copy(s->t, "d", &b) && b.len < 2)
            return (void *)"document";
    }
    buf_release(&b);
    return NULL;
}

TEST(readers_on_other_threads_see_whole_batches)
{
    struct shared s = { .t = tele_new(0) };
    unsigned src = tele_source(s.t, "gpu");
    struct tele_event e = { .gpu = -1, .text = "x" };
    pthread_t th[THREADS];
    char n[16];

    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&th[i], NULL, read_on, &s) == 0);
    for (int round = 0; round < THREAD_BATCHES; round++) {
        (void)snprintf(n, sizeof(n), "%d", round % THREAD_SERIES);
        CHECK(gpu_series(s.t, src, "gpu.temp", n) != TELE_NONE); /* grows while it is read */
        tele_begin(s.t, src, round);
        for (uint32_t i = 0; i < tele_count(s.t); i++)
            tele_set(s.t, i, round);
        tele_end(s.t);
        tele_event(s.t, &e);
        tele_doc(s.t, "d", round % 2 ? "{}" : "[1]");
    }
    s.stop = true;
    for (size_t i = 0; i < THREADS; i++) {
        void *why = NULL;

        CHECK(pthread_join(th[i], &why) == 0);
        CHECK(why == NULL);
    }
    tele_free(s.t);
}

/* ---- events and documents */

TEST(the_newest_events_oldest_first)
{
    struct tele *t = tele_new(0);
    struct tele_event out[8], e = { .kind = TELE_EVENT_XID, .gpu = 1, .text = "bad \xff text" };

    CHECK(tele_events(t, 0, out, 8) == 0);
    for (int i = 0; i < 5; i++) {
        e.time_ns = i;
        e.code = i;
        tele_event(t, &e);
    }
    CHECK(tele_events(t, 0, out, 8) == 5 && out[0].code == 0 && out[4].code == 4);
    CHECK(tele_events(t, 3, out, 8) == 2 && out[0].code == 3);
    CHECK(tele_events(t, 0, out, 2) == 2 && out[0].code == 3 && out[1].code == 4);
    CHECK(tele_events(t, 0, out, 0) == 0);
    assert_string_equal(out[0].text, "bad ? text");
    for (int i = 5; i < TELE_EVENTS_MAX + 10; i++) {
        e.time_ns = e.code = i;
        tele_event(t, &e);
    }
    CHECK(tele_events(t, TELE_EVENTS_MAX + 7, out, 8) == 3 && out[2].code == TELE_EVENTS_MAX + 9);
    CHECK(tele_events(t, 0, out, 8) == 8 && out[0].code == TELE_EVENTS_MAX + 2);
    for (int k = 0; k < TELE_EVENT_KINDS; k++)
        CHECK(*tele_event_word((enum tele_event_kind)k));
    assert_string_equal(tele_event_word(TELE_EVENT_KINDS), "unknown");
    tele_free(t);
}

static void is_removed(void *arg, const char *name, const char *json)
{
    (void)arg;
    CHECK(str_eq(name, "jobs") && !json);
}

TEST(documents_are_replaced_and_removed)
{
    struct tele *t = tele_new(0);
    struct buf b = { 0 };
    char *big = malloc(TELE_DOC_MAX + 2), name[16];

    CHECK(!tele_doc_copy(t, "jobs", &b));
    tele_doc(t, "jobs", "[]");
    tele_doc(t, "jobs", "[1]");
    CHECK(tele_doc_copy(t, "jobs", &b));
    assert_string_equal(buf_str(&b), "[1]");
    memset(big, ' ', TELE_DOC_MAX + 1);
    big[TELE_DOC_MAX + 1] = '\0';
    tele_doc(t, "jobs", big); /* too long: the old one stays */
    buf_reset(&b);
    CHECK(tele_doc_copy(t, "jobs", &b) && b.len == 3);
    tele_doc(t, "jobs", NULL);
    tele_doc(t, "never", NULL);
    CHECK(!tele_doc_copy(t, "jobs", &b));
    CHECK(tele_docs_after(t, 0, is_removed, NULL) == 3); /* whoever has a copy hears of it */
    for (int i = 0; i < TELE_DOCS_MAX + 1; i++) {
        (void)snprintf(name, sizeof(name), "d%d", i);
        tele_doc(t, name, "{}");
        CHECK(tele_doc_copy(t, name, &b) == (i < TELE_DOCS_MAX));
    }
    free(big);
    buf_release(&b);
    tele_free(t);
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
