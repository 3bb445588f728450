/* SPDX-License-Identifier: MIT */
/* Texts, bodies of every API, what is read from replies, and whole loads at a server of a
 * few lines: a stall must show in the percentiles of an open loop. */
#include "test.h"

#include "stub_server.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "bench/bench_int.h"
#include "os/clock.h"

#include <math.h>

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)

TEST(texts_follow_their_law_and_their_seed)
{
    struct texts a, b, c;
    double words = 0;
    size_t below = 0;

    texts_make(&texts_law_docs, 4000, 1, &a);
    texts_make(&texts_law_docs, 4000, 1, &b);
    texts_make(&texts_law_docs, 4000, 2, &c);
    for (size_t i = 0; i < a.count; i++) {
        size_t n = 1;

        for (size_t k = 0; k < a.items[i].len; k++)
            n += a.items[i].p[k] == ' ';
        CHECK(n + 2 <= TEXTS_TOKENS_MAX && a.items[i].len == b.items[i].len);
        below += n + 2 <= 90;
        words += (double)n;
    }
    CHECK(!memcmp(a.bytes, b.bytes, strlen(a.bytes)) && strcmp(a.bytes, c.bytes) != 0);
    CHECK(below > 1850 && below < 2150); /* half are below the median */
    CHECK(words / 4000 > 95 && words / 4000 < 125);
    texts_release(&a);
    texts_release(&b);
    texts_release(&c);
}

static void check_api(const struct peer_api *api, enum api_route route)
{
    struct bench_text items[3] = { { "one \"quoted\"", 12 }, { "two\n", 4 }, { "\xff", 1 } };
    struct texts t = { items, 3, NULL };
    struct url u = { .host = "h", .port = "1", .prefix = "/p" };
    struct api_wanted want = { &u, api, route, "the model", "secret", 2, &t, &t };
    struct api_requests r;
    struct arena a = { 0 };
    struct json *doc;
    const char *body;

    assert_int_equal(api_build(&want, &r, NULL), RC_OK);
    CHECK(r.count > 3 && r.items == 2);
    for (size_t i = 0; i < 3; i++) {
        const struct json *list;

        CHECK(str_starts(r.bytes[i], "POST /p/") && strlen(r.bytes[i]) == r.lens[i]);
        CHECK(strstr(r.bytes[i], "Authorization: Bearer secret\r\n"));
        body = strstr(r.bytes[i], "\r\n\r\n") + 4;
        CHECK(strtoul(strstr(r.bytes[i], "Content-Length: ") + 16, NULL, 10) == strlen(body));
        assert_int_equal(json_parse(&a, body, strlen(body), &doc, NULL), RC_OK);
        list = json_get(doc, route == API_EMBED ? api->texts_key : api->docs_key);
        CHECK(list->count == 2);
        CHECK(api->model == str_eq(json_str(json_get(doc, "model")), "the model"));
        CHECK((route == API_RERANK) == (json_str(json_get(doc, "query")) != NULL));
    }
    CHECK(strcmp(r.bytes[0], r.bytes[1]) != 0);
    arena_release(&a);
    api_requests_release(&r);
}

TEST(bodies_of_every_api)
{
    static const char *const names[] = { "tei",  "openai", "cohere",  "jina",
                                         "vllm", "llama",  "infinity" };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const struct peer_api *a = peer_api_find(names[i]);

        CHECK(a && strstr(api_names, names[i]));
        check_api(a, API_EMBED);
        if (api_path(a, API_RERANK))
            check_api(a, API_RERANK);
    }
    CHECK(!peer_api_find("nothing"));
}

TEST(what_a_server_says_of_itself)
{
    static const struct {
        const char *path, *body, *api, *model;
    } rows[] = {
        { "/info", "{\"model_id\":\"a/b\",\"model_type\":{}}", "tei", "a/b" },
        { "/info", "{\"version\":1}", NULL, "" },
        { "/v1/models", "{\"data\":[{\"id\":\"m\",\"owned_by\":\"vllm\"}]}", "vllm", "m" },
        { "/v1/models", "{\"data\":[{\"id\":\"m\",\"owned_by\":\"llamacpp\"}]}", "llama", "m" },
        { "/v1/models", "{\"data\":[{\"id\":\"m\",\"owned_by\":\"me\"}]}", "openai", "m" },
        { "/v1/models", "{\"data\":[]}", NULL, "" },
        { "/models", "{\"data\":[{\"id\":\"m\",\"owned_by\":\"infinity\"}]}", "infinity", "m" },
        { "/openapi.json", "{\"paths\":{\"/embeddings\":{}}}", "infinity", "" },
        { "/openapi.json", "{\"paths\":{\"/v1/embeddings\":{}}}", "openai", "" },
        { "/openapi.json", "{\"paths\":{\"/v2/embed\":{}}}", "cohere", "" },
        { "/openapi.json", "{\"paths\":{}}", NULL, "" },
        { "/info", "<html>", NULL, "" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct api_guess g = { 0 };

        CHECK(api_guess_from(rows[i].path, rows[i].body, strlen(rows[i].body), &g) ==
              (rows[i].api != NULL));
        CHECK(str_eq(g.api ? g.api->name : NULL, rows[i].api));
        assert_string_equal(g.model, rows[i].model);
    }
}

TEST(tokens_that_replies_tell)
{
    static const struct {
        const char *body;
        int64_t want;
    } rows[] = {
        { "{\"data\":[],\"usage\":{\"prompt_tokens\":7,\"total_tokens\":8}}", 8 },
        { "{\"usage\": {\"prompt_tokens\" : 7}}", 7 },
        { "{\"meta\":{\"billed_units\":{\"input_tokens\":5}}}", 5 },
        { "{\"total_tokens\":12", -1 },
        { "{\"total_tokens\":null}", -1 },
        { "[[0.1,0.2]]", -1 },
        { "", -1 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct reply r = { .tokens = -1 };

        r.last_len = r.first_len = strlen(rows[i].body);
        memcpy(r.last, rows[i].body, r.last_len);
        memcpy(r.first, rows[i].body, r.first_len);
        assert_int_equal(check_tokens(&r), rows[i].want);
        r.tokens = 99;
        CHECK(check_tokens(&r) == 99);
    }
}

TEST(bodies_are_checked)
{
    static const struct {
        const char *body;
        enum rc rc;
        struct check_found want;
    } rows[] = {
        { "[[0.5,1e-3,-2],[1,2,3]]", RC_OK, { 2, 3, 0 } },
        { "{\"data\":[{\"embedding\":[1,2],\"index\":0}],\"usage\":{\"x\":[1,2,3]}}",
          RC_OK,
          { 1, 2, 0 } },
        { "[{\"index\":0,\"embedding\":[[1,2]]},{\"index\":1,\"embedding\":[[1,2]]}]",
          RC_OK,
          { 2, 2, 0 } },
        { "{\"embeddings\":{\"float\":[[1],[2]]},\"texts\":[\"a\\\"b\"]}", RC_OK, { 2, 1, 0 } },
        { "[{\"index\":1,\"score\":0.5},{\"index\":0,\"score\":-1}]", RC_OK, { 0, 0, 2 } },
        { "{\"results\":[{\"relevance_score\":0.5,\"index\":0}]}", RC_OK, { 0, 0, 1 } },
        { " {} ", RC_OK, { 0, 0, 0 } },
        { "[]", RC_OK, { 0, 0, 0 } },
        { "1", RC_OK, { 0, 0, 0 } },
        { "[[1,2],[1]]", RC_PARSE, { 0 } },
        { "[[1,null]]", RC_PARSE, { 0 } },
        { "[[1,NaN]]", RC_PARSE, { 0 } },
        { "[[1,1e999]]", RC_PARSE, { 0 } },
        { "[{\"score\":null}]", RC_PARSE, { 0 } },
        { "[[1,2]", RC_PARSE, { 0 } },
        { "[[1 2]]", RC_PARSE, { 0 } },
        { "[[1,2]] x", RC_PARSE, { 0 } },
        { "{\"a\"}", RC_PARSE, { 0 } },
        { "{\"a", RC_PARSE, { 0 } },
        { "{\"a\\", RC_PARSE, { 0 } },
        { "[1}", RC_PARSE, { 0 } },
        { "", RC_PARSE, { 0 } },
    };
    struct buf deep = { 0 };
    struct check_found f;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct err err = { 0 };

        memset(&f, 0, sizeof(f));
        assert_int_equal(check_body(rows[i].body, strlen(rows[i].body), &f, &err), rows[i].rc);
        CHECK(!memcmp(&f, &rows[i].want, sizeof(f)));
        CHECK((rows[i].rc != RC_OK) == (err.msg[0] != '\0'));
    }
    buf_fill(&deep, '[', 1000);
    CHECK(check_body(deep.data, deep.len, &f, NULL) == RC_PARSE);
    buf_release(&deep);
}

/* ---- whole loads ---- */
enum { S_VECTOR, S_429_HALF, S_NAN };

static bool answer_well(struct stub *s, int fd, const char *request, int nth)
{
    (void)s;
    (void)request;
    (void)nth;
    return stub_write(fd, "HTTP/1.1 200 OK\r\nX-Compute-Tokens: 10\r\nContent-Length: 12\r\n\r\n"
                          "[[0.5,0.25]]");
}

static bool answer(struct stub *s, int fd, const char *request, int nth)
{
    int64_t until = atomic_load(&s->stall_until_ns), now = clock_mono_ns();

    if (now < until)
        usleep((useconds_t)((until - now) / 1000));
    if (atomic_load(&s->mode) == S_429_HALF && atomic_load(&s->requests) % 2)
        return stub_write(fd, "HTTP/1.1 429 Busy\r\nContent-Length: 4\r\n\r\nbusy");
    if (atomic_load(&s->mode) == S_NAN)
        return stub_write(fd, "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n[[0.5,NaN]]");
    return answer_well(s, fd, request, nth);
}

struct box { /* a server, requests for it and a load */
    struct stub *stub;
    struct texts texts;
    struct api_requests reqs;
    struct url url;
    struct bench_load *load;
    struct load_stats *stats;
};

static void box_open(struct box *b, const struct load_opts *o,
                     bool (*how)(struct stub *, int, const char *, int))
{
    struct api_wanted want = { &b->url, peer_api_find("tei"), API_EMBED, NULL, NULL, 1, &b->texts,
                               NULL };

    memset(b, 0, sizeof(*b));
    b->stub = xcalloc(1, sizeof(*b->stub));
    b->stats = xcalloc(1, sizeof(*b->stats));
    stub_start(b->stub, how);
    snprintf(b->url.host, sizeof(b->url.host), "127.0.0.1");
    snprintf(b->url.port, sizeof(b->url.port), "%d", b->stub->port);
    texts_make(&texts_law_queries, 100, 1, &b->texts);
    assert_int_equal(api_build(&want, &b->reqs, NULL), RC_OK);
    assert_int_equal(load_new(o, &b->url, &b->reqs, &b->load, NULL), RC_OK);
}

static void box_close(struct box *b)
{
    load_free(b->load);
    stub_stop(b->stub);
    api_requests_release(&b->reqs);
    texts_release(&b->texts);
    free(b->stub);
    free(b->stats);
}

static const struct load_opts closed = { .clients = 4,
                                         .timeout_ns = 20 * SECOND,
                                         .max_errors = UINT64_MAX };

TEST(a_closed_loop_counts_what_it_sent)
{
    struct load_opts o = closed;
    struct box b;

    o.requests = 500;
    o.check = true;
    box_open(&b, &o, answer_well);
    assert_int_equal(load_try(b.load, NULL), RC_OK);
    assert_int_equal(load_run(b.load, 0, 0, b.stats, NULL), RC_OK);
    CHECK(b.stats->requests == 500 && b.stats->good == 500 && !load_errors(b.stats));
    CHECK(b.stats->done_good == 500 && b.stats->done_tokens == 5000 && b.stats->width == 2);
    CHECK(b.stats->latency.count == 500 && !b.stats->lag.count);
    CHECK(b.stats->status_count == 1 && b.stats->statuses[0].count == 500);
    CHECK(b.stats->seconds > 0 && !b.stats->stopped);
    CHECK(b.stats->connects == 3); /* and one of load_try() */
    assert_int_equal(load_run(b.load, 50 * MS, 200 * MS, b.stats, NULL), RC_OK);
    CHECK(b.stats->requests > 500 && b.stats->good == b.stats->requests);
    box_close(&b);
}

TEST(errors_are_told_apart)
{
    struct load_opts o = closed;
    struct box b;

    o.requests = 200;
    box_open(&b, &o, answer);
    atomic_store(&b.stub->mode, S_429_HALF);
    assert_int_equal(load_run(b.load, 0, 0, b.stats, NULL), RC_OK);
    CHECK(b.stats->errors[LOAD_429] >= 80 && b.stats->errors[LOAD_429] <= 120);
    CHECK(b.stats->good + b.stats->errors[LOAD_429] == 200);
    CHECK(b.stats->failed.count == b.stats->errors[LOAD_429]);
    assert_string_equal(b.stats->sample, "status 429: busy");
    box_close(&b);

    o.max_errors = 5;
    o.check = true;
    box_open(&b, &o, answer);
    atomic_store(&b.stub->mode, S_NAN);
    assert_int_equal(load_run(b.load, 0, 0, b.stats, NULL), RC_OK);
    CHECK(b.stats->too_many_errors && b.stats->errors[LOAD_CHECK] > 5 && !b.stats->good);
    CHECK(strstr(b.stats->sample, "not finite") != NULL);
    box_close(&b);
}

TEST(a_bad_first_reply_is_told_in_the_servers_words)
{
    struct load_opts o = closed;
    struct err err = { 0 };
    struct box b;

    box_open(&b, &o, answer);
    atomic_store(&b.stub->mode, S_429_HALF);
    CHECK(load_try(b.load, &err) == RC_FAIL && strstr(err.msg, "status 429: busy"));
    box_close(&b);
}

static void *stall_later(void *arg)
{
    struct stub *s = arg;

    usleep(1000000);
    atomic_store(&s->stall_until_ns, clock_mono_ns() + SECOND);
    return NULL;
}

/* The server stops for a second of three. */
static void run_with_stall(const struct load_opts *o, struct box *b)
{
    pthread_t t;

    box_open(b, o, answer);
    pthread_create(&t, NULL, stall_later, b->stub);
    assert_int_equal(load_run(b->load, 0, 3 * SECOND, b->stats, NULL), RC_OK);
    pthread_join(t, NULL);
}

TEST(a_stall_shows_in_an_open_loop)
{
    struct load_opts o = closed;
    struct box b;

    o.rate = 200;
    o.seed = 3;
    run_with_stall(&o, &b);
    CHECK(b.stats->requests > 450 && b.stats->requests < 750); /* Poisson's 600 */
    CHECK(b.stats->good == b.stats->requests && b.stats->lag.count == b.stats->requests);
    /* a third of all arrivals met it, waiting half a second in the mean */
    CHECK(hist_quantile(&b.stats->latency, 0.99) > (uint64_t)(700 * MS));
    CHECK(hist_quantile(&b.stats->latency, 0.85) > (uint64_t)(200 * MS));
    CHECK(hist_quantile(&b.stats->latency, 0.3) < (uint64_t)(200 * MS));
    box_close(&b);
}

TEST(a_stall_hides_in_a_closed_loop)
{
    struct load_opts o = closed;
    struct box b;

    run_with_stall(&o, &b);
    CHECK(b.stats->requests > 500);
    CHECK(hist_quantile(&b.stats->latency, 0.99) < (uint64_t)(700 * MS));
    CHECK(b.stats->latency.greatest > (uint64_t)(700 * MS));
    box_close(&b);
}

TEST(what_could_not_be_sent_counts_as_long_as_it_waited)
{
    struct load_opts o = closed;
    struct box b;

    o.rate = 100;
    o.uniform = true;
    o.clients = 1;
    o.timeout_ns = 300 * MS;
    box_open(&b, &o, answer);
    atomic_store(&b.stub->stall_until_ns, clock_mono_ns() + 3 * SECOND);
    assert_int_equal(load_run(b.load, 0, SECOND, b.stats, NULL), RC_OK);
    CHECK(b.stats->requests >= 98 && b.stats->requests <= 101);
    CHECK(b.stats->errors[LOAD_UNSENT] > 80 && b.stats->errors[LOAD_TIMEOUT] >= 2);
    CHECK(b.stats->latency.count == b.stats->requests);
    CHECK(hist_quantile(&b.stats->latency, 0.5) > (uint64_t)(500 * MS));
    box_close(&b);
}

TEST(two_servers_in_turn)
{
    struct report *r = xcalloc(1, sizeof(*r));
    struct load_opts o = closed;
    struct buf text = { 0 }, json = { 0 }, lines = { 0 };
    struct term term = { 0 };
    struct arena a = { 0 };
    struct json *doc;
    struct box b[2];

    o.duration_ns = 400 * MS;
    r->count = 2;
    r->opts = &o;
    r->items = 1;
    for (int i = 0; i < 2; i++) {
        box_open(&b[i], &o, answer_well);
        r->sides[i] = (struct report_side){
            .url = i ? "b" : "a", .api = "tei", .path = "/embed", .model = "", .load = b[i].load
        };
    }
    assert_int_equal(report_run(r, 4, NULL), RC_OK);
    CHECK(r->slices == 4 && report_rps_ratio(r) > 0.05 && report_rps_ratio(r) < 20);
    CHECK(fabs(r->sides[0].stats.seconds - 0.4) < 0.01);
    report_text(r, &term, &text);
    report_json(r, &json);
    report_results(r, "x.y", &lines);
    CHECK(strstr(text.data, "ratio of requests/s") && strstr(text.data, "service times"));
    assert_int_equal(json_parse(&a, json.data, json.len, &doc, NULL), RC_OK);
    CHECK(json_get(doc, "servers")->count == 2 && json_get(doc, "ratio_p99"));
    CHECK(strstr(lines.data, "RESULT x.y.rps ") && strstr(lines.data, "RESULT x.y.first.p99 "));
    arena_release(&a);
    buf_release(&text);
    buf_release(&json);
    buf_release(&lines);
    box_close(&b[0]);
    box_close(&b[1]);
    free(r);
}

TEST_MAIN(cmocka_unit_test(texts_follow_their_law_and_their_seed),
          cmocka_unit_test(bodies_of_every_api), cmocka_unit_test(what_a_server_says_of_itself),
          cmocka_unit_test(tokens_that_replies_tell), cmocka_unit_test(bodies_are_checked),
          cmocka_unit_test(a_closed_loop_counts_what_it_sent),
          cmocka_unit_test(errors_are_told_apart),
          cmocka_unit_test(a_bad_first_reply_is_told_in_the_servers_words),
          cmocka_unit_test(a_stall_shows_in_an_open_loop),
          cmocka_unit_test(a_stall_hides_in_a_closed_loop),
          cmocka_unit_test(what_could_not_be_sent_counts_as_long_as_it_waited),
          cmocka_unit_test(two_servers_in_turn))
