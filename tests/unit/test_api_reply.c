/* SPDX-License-Identifier: MIT */
/* api: answers as each API's bytes, header fields, scores, vectors, errors. */
#include "test.h"

#include "api_box.h"
#include "base/str.h"
#include "engine/engine.h"

#include <math.h>

/* ---- answers as bytes */

/* `body` and `want` have backticks for quotes. */
struct reply {
    const char *path, *body;
    size_t width;
    const char *want;
};

static void write_reply(const struct reply *r, struct buf *out)
{
    char *body = box_quotes(r->body);
    struct box b;

    CHECK(box_parse(&b, r->path, body, strlen(body), NULL, 0));
    bool head = strstr(r->body, "classes") || strstr(r->path, "score");
    b.net.head = head ? MODEL_HEAD_POOLER : MODEL_HEAD_NONE;
    b.net.labels = r->width;
    if (b.api->settle)
        CHECK(b.api->settle(&b.request, &b.net));
    box_answer(&b, r->width);
    assert_string_equal(api_write(&b.request, out), "application/json");
    box_release(&b);
    free(body);
}

static const struct reply replies[] = {
    { "/embed", "{`inputs`:[`a`,`b`]}", 3, "[[0.25,-0.125,0.5],[0.5,-0.25,0.5]]" },
    { "/embed", "{`inputs`:`a`,`encoding_format`:`base64`}", 3, "[`AACAPgAAAL4AAAA/`]" },
    { "/embed_all", "{`inputs`:`a`}", 2, "[[[0.25,-0.125],[0.5,-0.25]]]" },
    { "/predict", "{`inputs`:`a`}", 2,
      "[{`score`:0.5926666,`label`:`LABEL_0`},{`score`:0.4073334,`label`:`LABEL_1`}]" },
    { "/predict", "{`inputs`:[[`a`],[`b`]],`raw_scores`:true}", 2,
      "[[{`score`:0.25,`label`:`LABEL_0`},{`score`:-0.125,`label`:`LABEL_1`}],"
      "[{`score`:0.5,`label`:`LABEL_0`},{`score`:-0.25,`label`:`LABEL_1`}]]" },
    { "/predict", "{`inputs`:`a`}", 1, "[{`score`:0.5621765,`label`:`LABEL_0`}]" },
    { "/similarity", "{`inputs`:{`source_sentence`:`s`,`sentences`:[`a`,`b`]}}", 3,
      "[0.9456109,0.8661381]" },
    { "/tokenize", "{`inputs`:`hello`}", 1,
      "[[{`id`:101,`text`:`[CLS]`,`special`:true,`start`:null,`stop`:null},{`id`:7592,"
      "`text`:`hello`,`special`:false,`start`:0,`stop`:5}]]" },
    { "/decode", "{`ids`:[1,2]}", 1, "[`deep learning`]" },
    { "/", "{`inputs`:`a`}", 2, "[[0.25,-0.125]]" },
    { "/", "{`inputs`:`a`,`parameters`:{`top_k`:1},`what`:`classes`}", 2,
      "[[{`score`:0.5926666,`label`:`LABEL_0`}]]" },
    { "/", "{`inputs`:[[`a`]],`parameters`:{`function_to_apply`:`none`}}", 2,
      "[[{`score`:0.25,`label`:`LABEL_0`},{`score`:-0.125,`label`:`LABEL_1`}]]" },
    { "/", "{`inputs`:[[`a`]],`parameters`:{`function_to_apply`:`sigmoid`}}", 2,
      "[[{`score`:0.5621765,`label`:`LABEL_0`},{`score`:0.46879062,`label`:`LABEL_1`}]]" },
    { "/", "{`query`:`q`,`texts`:[`a`,`b`]}", 1,
      "[{`index`:1,`score`:0.62245935},{`index`:0,`score`:0.5621765}]" },
    { "/", "{`inputs`:{`source_sentence`:`s`,`sentences`:[`a`]}}", 2, "[1]" },
    { "/v1/embeddings", "{`input`:[`a`,`b`,`c`]}", 2,
      "{`object`:`list`,`data`:[{`object`:`embedding`,`index`:0,`embedding`:[0.25,-0.125],"
      "`tokens`:4,`truncated`:false},{`object`:`embedding`,`index`:1,`embedding`:[0.5,"
      "-0.25],`tokens`:5,`truncated`:false},{`object`:`embedding`,`index`:2,"
      "`embedding`:[0.75,-0.375],`tokens`:6,`truncated`:true,`cut`:9}],`model`:`m`,"
      "`usage`:{`prompt_tokens`:15,`total_tokens`:15},`id`:`stoker-1000-2a`,"
      "`created`:1700000000}" },
    { "/v1/embeddings", "{`input`:`a`,`encoding_format`:`base64`}", 2,
      "{`object`:`list`,`data`:[{`object`:`embedding`,`index`:0,`embedding`:`AACAPgAAAL4=`,"
      "`encoding_format`:`base64`,`tokens`:4,`truncated`:false}],`model`:`m`,"
      "`usage`:{`prompt_tokens`:4,`total_tokens`:4},`id`:`stoker-1000-2a`,"
      "`created`:1700000000}" },
    { "/v1/embeddings", "{`input`:`a`,`encoding_format`:`f16`}", 2,
      "{`object`:`list`,`data`:[{`object`:`embedding`,`index`:0,`embedding`:`ADQAsA==`,"
      "`encoding_format`:`float16`,`tokens`:4,`truncated`:false}],`model`:`m`,"
      "`usage`:{`prompt_tokens`:4,`total_tokens`:4},`id`:`stoker-1000-2a`,"
      "`created`:1700000000}" },
    { "/v1/embeddings", "{`input`:`a`,`encoding_format`:`int8`}", 3,
      "{`object`:`list`,`data`:[{`object`:`embedding`,`index`:0,`embedding`:[64,-32,127],"
      "`encoding_format`:`int8`,`tokens`:4,`truncated`:false}],`model`:`m`,"
      "`usage`:{`prompt_tokens`:4,`total_tokens`:4},`id`:`stoker-1000-2a`,"
      "`created`:1700000000}" },
    { "/v1/embeddings", "{`input`:`a`,`encoding_format`:`uint8`}", 3,
      "{`object`:`list`,`data`:[{`object`:`embedding`,`index`:0,`embedding`:[192,96,255],"
      "`encoding_format`:`uint8`,`tokens`:4,`truncated`:false}],`model`:`m`,"
      "`usage`:{`prompt_tokens`:4,`total_tokens`:4},`id`:`stoker-1000-2a`,"
      "`created`:1700000000}" },
    { "/v1/embeddings", "{`input`:`a`,`encoding_format`:`binary`}", 9,
      "{`object`:`list`,`data`:[{`object`:`embedding`,`index`:0,`embedding`:[63,0],"
      "`encoding_format`:`binary`,`tokens`:4,`truncated`:false}],`model`:`m`,"
      "`usage`:{`prompt_tokens`:4,`total_tokens`:4},`id`:`stoker-1000-2a`,"
      "`created`:1700000000}" },
    { "/v1/embeddings", "{`input`:`a`,`encoding_format`:`ubinary`}", 9,
      "{`object`:`list`,`data`:[{`object`:`embedding`,`index`:0,`embedding`:[191,128],"
      "`encoding_format`:`ubinary`,`tokens`:4,`truncated`:false}],`model`:`m`,"
      "`usage`:{`prompt_tokens`:4,`total_tokens`:4},`id`:`stoker-1000-2a`,"
      "`created`:1700000000}" },
    { "/embeddings", "{`content`:`a`}", 2,
      "[{`index`:0,`embedding`:[[0.25,-0.125]],`tokens`:4,`truncated`:false}]" },
    { "/classify", "{`input`:[`a`,`b`]}", 2,
      "{`object`:`classify`,`data`:[[{`score`:0.5926666,`label`:`LABEL_0`},"
      "{`score`:0.4073334,`label`:`LABEL_1`}],[{`score`:0.6791787,`label`:`LABEL_0`},"
      "{`score`:0.32082132,`label`:`LABEL_1`}]],`model`:`m`,`usage`:{`prompt_tokens`:9,"
      "`total_tokens`:9},`id`:`stoker-1000-2a`,`created`:1700000000}" },
    { "/v2/embed",
      "{`texts`:[`a`,`\\`b`],`embedding_types`:[`float`,`int8`,`uint8`,`binary`,`ubinary`,"
      "`base64`,`float16`]}",
      2,
      "{`id`:`stoker-1000-2a`,`embeddings`:{`float`:[[0.25,-0.125],[0.5,-0.25]],"
      "`base64`:[`AACAPgAAAL4=`,`AAAAPwAAgL4=`],`float16`:[`ADQAsA==`,`ADgAtA==`],"
      "`int8`:[[127,-64],[127,-64]],`uint8`:[[255,64],[255,64]],`binary`:[[0],[0]],"
      "`ubinary`:[[128],[128]]},`texts`:[`a`,`\\`b`],`meta`:{`api_version`:{`version`:`2`},"
      "`billed_units`:{`input_tokens`:9},`tokens`:{`input_tokens`:9},`items`:[{`tokens`:4,"
      "`truncated`:false},{`tokens`:5,`truncated`:false}]},"
      "`response_type`:`embeddings_by_type`}" },
    { "/v1/embed", "{`texts`:[`a`]}", 2,
      "{`id`:`stoker-1000-2a`,`embeddings`:[[0.25,-0.125]],`texts`:[`a`],"
      "`meta`:{`api_version`:{`version`:`1`},`billed_units`:{`input_tokens`:4},"
      "`tokens`:{`input_tokens`:4},`items`:[{`tokens`:4,`truncated`:false}]},"
      "`response_type`:`embeddings_floats`}" },
    { "/v1/embed", "{`texts`:[`a`],`embedding_types`:[`int8`]}", 2,
      "{`id`:`stoker-1000-2a`,`embeddings`:{`int8`:[[127,-64]]},`texts`:[`a`],"
      "`meta`:{`api_version`:{`version`:`1`},`billed_units`:{`input_tokens`:4},"
      "`tokens`:{`input_tokens`:4},`items`:[{`tokens`:4,`truncated`:false}]},"
      "`response_type`:`embeddings_by_type`}" },
    { "/v2/rerank", "{`query`:`q`,`documents`:[`a`,`b`,`c`],`top_n`:2}", 1,
      "{`id`:`stoker-1000-2a`,`results`:[{`index`:2,`relevance_score`:0.75},{`index`:1,"
      "`relevance_score`:0.5}],`meta`:{`api_version`:{`version`:`2`},"
      "`billed_units`:{`search_units`:1},`tokens`:{`input_tokens`:15},`items`:[{`tokens`:4,"
      "`truncated`:false},{`tokens`:5,`truncated`:false},{`tokens`:6,`truncated`:true,"
      "`cut`:9}]}}" },
    { "/v2/rerank", "{`query`:`q`,`documents`:[`a`],`return_documents`:true}", 1,
      "{`id`:`stoker-1000-2a`,`results`:[{`index`:0,`relevance_score`:0.25,"
      "`document`:{`text`:`a`}}],`meta`:{`api_version`:{`version`:`2`},"
      "`billed_units`:{`search_units`:1},`tokens`:{`input_tokens`:4},`items`:[{`tokens`:4,"
      "`truncated`:false}]}}" },
    { "/rerank", "{`query`:`q`,`texts`:[`a`,`b`],`return_text`:true}", 1,
      "[{`index`:1,`score`:0.62245935,`text`:`b`},{`index`:0,`score`:0.5621765,`text`:`a`}]" },
    { "/rerank", "{`query`:`q`,`texts`:[`a`,`b`],`raw_scores`:true}", 1,
      "[{`index`:1,`score`:0.5},{`index`:0,`score`:0.25}]" },
    { "/rerank", "{`query`:`q`,`documents`:[`a`,`b`]}", 1,
      "{`id`:`stoker-1000-2a`,`object`:`list`,`created`:1700000000,`model`:`m`,"
      "`usage`:{`prompt_tokens`:9,`total_tokens`:9},`results`:[{`index`:1,"
      "`relevance_score`:0.5,`document`:{`text`:`b`},`tokens`:5,`truncated`:false},"
      "{`index`:0,`relevance_score`:0.25,`document`:{`text`:`a`},`tokens`:4,"
      "`truncated`:false}]}" },
    { "/v1/rerank", "{`query`:`q`,`documents`:[`a`,`b`,`c`],`top_n`:1,`return_documents`:false}", 1,
      "{`id`:`stoker-1000-2a`,`object`:`list`,`created`:1700000000,`model`:`m`,"
      "`usage`:{`prompt_tokens`:15,`total_tokens`:15},`results`:[{`index`:2,"
      "`relevance_score`:0.75,`tokens`:6,`truncated`:true,`cut`:9}]}" },
    { "/score", "{`text_1`:`q`,`text_2`:[`a`,`b`]}", 1,
      "{`id`:`stoker-1000-2a`,`object`:`list`,`created`:1700000000,`model`:`m`,"
      "`data`:[{`index`:0,`object`:`score`,`score`:0.25,`tokens`:4,`truncated`:false},"
      "{`index`:1,`object`:`score`,`score`:0.5,`tokens`:5,`truncated`:false}],"
      "`usage`:{`prompt_tokens`:9,`total_tokens`:9}}" },
    { "/v1/score", "{`text_1`:[`q`,`r`],`text_2`:[`a`,`b`]}", 1,
      "{`id`:`stoker-1000-2a`,`object`:`list`,`created`:1700000000,`model`:`m`,"
      "`data`:[{`index`:0,`object`:`score`,`score`:0.25,`tokens`:4,`truncated`:false},"
      "{`index`:1,`object`:`score`,`score`:0.5,`tokens`:5,`truncated`:false}],"
      "`usage`:{`prompt_tokens`:9,`total_tokens`:9}}" },
    { "/embedding", "{`content`:`a`}", 2,
      "[{`index`:0,`embedding`:[[0.25,-0.125]],`tokens`:4,`truncated`:false}]" },
    { "/reranking", "{`query`:`q`,`documents`:[`a`,`b`]}", 1,
      "{`model`:`m`,`object`:`list`,`usage`:{`prompt_tokens`:9,`total_tokens`:9},"
      "`results`:[{`index`:1,`relevance_score`:0.5,`tokens`:5,`truncated`:false},"
      "{`index`:0,`relevance_score`:0.25,`tokens`:4,`truncated`:false}]}" },
    { "/reranking", "{`query`:`q`,`texts`:[`a`,`b`]}", 1,
      "[{`index`:1,`score`:0.5},{`index`:0,`score`:0.25}]" },
};

TEST(answers_as_bytes)
{
    for (size_t i = 0; i < ARRAY_SIZE(replies); i++) {
        char *want = box_quotes(replies[i].want);
        struct buf out = { 0 };
        write_reply(&replies[i], &out);
        assert_string_equal(buf_str(&out), want);
        buf_release(&out);
        free(want);
    }
}

/* ---- header fields */

static bool parse_with(struct box *b, const char *name, const char *value)
{
    static const char body[] = "{\"inputs\":[\"a\",\"b\",\"c\"]}";
    struct http_field fields[] = { { "Host", "x" }, { name, value } };

    return box_parse(b, "/embed", body, sizeof(body) - 1, fields, ARRAY_SIZE(fields));
}

TEST(times_to_answer_in)
{
    static const struct {
        const char *value;
        int64_t ns; /* 0: refused */
    } rows[] = {
        { "500ms", 500000000 },
        { "2s", 2000000000 },
        { "2", 2000000000 },
        { "0.25", 250000000 },
        { "86400", 86400000000000 },
        { "86401", 0 },
        { "0", 0 },
        { "-1", 0 },
        { "2m", 120000000000 },
        { "1.5h", 5400000000000 },
        { "25h", 0 },
        { "2d", 0 },
        { "", 0 },
        { "ms", 0 },
        { "1.2.3", 0 },
        { "nan", 0 },
        { "1e9", 0 },
        { "2 s", 0 },
        { "9999999999999999999"
          "99999999999999",
          0 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct box b;
        CHECK(parse_with(&b, "X-Request-Timeout", rows[i].value) == (rows[i].ns != 0));
        assert_int_equal(b.request.deadline_ns, rows[i].ns ? 0x1000 + rows[i].ns : 0);
        if (!rows[i].ns)
            assert_string_equal(b.request.fault.param, "x-request-timeout");
        box_release(&b);
    }
}

TEST(a_time_is_shortened_or_lengthened_up_to_the_servers_limit)
{
    static const struct {
        const char *value;
        int64_t limit_ns, deadline_ns; /* 0: refused */
    } rows[] = { { "2s", 600000000000, 2000000100 },
                 { "100", 600000000000, 100000000100 },
                 { "600", 600000000000, 600000000100 },
                 { "601s", 600000000000, 0 },
                 { "100", 0, 100000000100 } };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct http_field field = { "x-request-timeout", rows[i].value };
        struct http_request http = {
            .query = "", .fields = &field, .field_count = 1, .begun_ns = 100
        };
        struct request r = { .http = &http,
                             .deadline_ns = 30000000100,
                             .timeout_max_ns = rows[i].limit_ns };
        struct json body = { .type = JSON_OBJ };

        CHECK(api_extras(&r, &body) == (rows[i].deadline_ns != 0));
        if (rows[i].deadline_ns)
            assert_int_equal(r.deadline_ns, rows[i].deadline_ns);
        else
            CHECK(strstr(r.fault.message, "at most 600 s (--timeout-max)"));
        arena_release(&r.arena);
    }
}

TEST(classes_by_field)
{
    struct box b;

    CHECK(parse_with(&b, "x-priority", "Bulk") && b.request.class == REQUEST_BULK);
    box_release(&b);
    CHECK(parse_with(&b, "x-priority", "interactive") && b.request.class == REQUEST_INTERACTIVE);
    box_release(&b);
    CHECK(!parse_with(&b, "x-priority", "5"));
    box_release(&b);
}

TEST(octets_by_accept_and_what_the_header_says)
{
    struct buf out = { 0 }, fields = { 0 };
    struct box b;

    CHECK(parse_with(&b, "accept", "application/octet-stream, */*;q=0.1"));
    assert_int_equal(b.request.encodings, API_OCTETS);
    box_answer(&b, 4);
    assert_string_equal(api_write(&b.request, &out), "application/octet-stream");
    assert_int_equal(out.len, 3 * 4 * sizeof(float));
    assert_memory_equal(out.data, b.rows, out.len);
    b.api->fields(&b.request, &fields);
    assert_string_equal(buf_str(&fields), "x-compute-time: 0\r\nx-compute-characters: 3\r\n"
                                          "x-stoker-tokens: 4, 5, 6\r\nx-stoker-truncated: 1\r\n"
                                          "x-stoker-cuts: 2;at=9\r\nx-stoker-shape: 3, 4\r\n");
    buf_release(&out);
    buf_release(&fields);
    box_release(&b);
}

TEST(characters_are_counted_as_tei_does)
{
    static const struct {
        const char *path, *body, *want;
    } rows[] = {
        { "/embed", "{`inputs`:[`h\xc3\xa9llo`,`\xf0\x9f\x98\x80`]}", ": 6\r\n" },
        { "/embed", "{`inputs`:[[1,2,3],`a`]}", ": 4\r\n" },
        { "/rerank", "{`query`:`ab`,`texts`:[`c`,``]}", ": 5\r\n" },
        { "/predict", "{`inputs`:[[`a`,`bc`],[`d`]]}", ": 4\r\n" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char *body = box_quotes(rows[i].body), *at;
        struct buf fields = { 0 };
        struct box b;

        CHECK(box_parse(&b, rows[i].path, body, strlen(body), NULL, 0));
        box_answer(&b, 1);
        b.api->fields(&b.request, &fields);
        at = strstr(buf_str(&fields), "x-compute-characters");
        CHECK(at && str_starts(at + strlen("x-compute-characters"), rows[i].want));
        free(body);
        buf_release(&fields);
        box_release(&b);
    }
}

TEST(header_lines_stay_short)
{
    struct buf body = { 0 }, fields = { 0 };
    struct box b;

    buf_adds(&body, "{\"inputs\":[\"a\"");
    for (int i = 1; i < 5000; i++)
        buf_adds(&body, ",\"a\"");
    buf_adds(&body, "]}");
    CHECK(box_parse(&b, "/embed", body.data, body.len, NULL, 0));
    assert_int_equal(b.request.count, 5000);
    box_answer(&b, 1);
    b.api->fields(&b.request, &fields);
    CHECK(fields.len < 4096);
    CHECK(strstr(buf_str(&fields), "x-stoker-truncated: 1666\r\n"));
    buf_release(&body);
    buf_release(&fields);
    box_release(&b);
}

/* ---- what the model is */

static void settle(struct box *b, const char *path, const char *body, enum model_head head,
                   size_t labels)
{
    CHECK(box_parse(b, path, body, strlen(body), NULL, 0));
    b->net.head = head;
    b->net.labels = labels;
    if (!b->api->settle(&b->request, &b->net))
        CHECK(b->request.fault.message[0]);
}

TEST(the_root_does_what_the_model_can)
{
    struct box b;

    settle(&b, "/", "{\"inputs\":[\"a\",\"b\"]}", MODEL_HEAD_NONE, 0);
    CHECK(b.request.what == REQUEST_VECTORS && b.request.count == 2);
    box_release(&b);
    settle(&b, "/", "{\"inputs\":[\"a\",\"b\"]}", MODEL_HEAD_POOLER, 2); /* a pair */
    CHECK(b.request.what == REQUEST_CLASSES && b.request.count == 1 && b.request.inputs[0].pair.p);
    box_release(&b);
    settle(&b, "/", "{\"inputs\":[\"a\",\"b\",\"c\"]}", MODEL_HEAD_POOLER, 2);
    CHECK(b.request.fault.kind == FAULT_INVALID);
    box_release(&b);
}

TEST(score_of_a_model_of_vectors_is_the_cosine)
{
    static const char one[] = "{\"text_1\":\"q\",\"text_2\":[\"a\",\"b\"]}";
    static const char many[] = "{\"text_1\":[\"q\",\"r\"],\"text_2\":[\"a\",\"b\"]}";
    struct buf out = { 0 };
    struct box b;

    settle(&b, "/score", one, MODEL_HEAD_NONE, 0);
    CHECK(b.request.what == REQUEST_VECTORS && b.request.count == 3 &&
          b.request.normalize == SERVE_YES);
    box_answer(&b, 3);
    (void)api_write(&b.request, &out);
    CHECK(
        strstr(buf_str(&out), "\"data\":[{\"index\":0,\"object\":\"score\",\"score\":0.9456109,"));
    buf_reset(&out);
    box_release(&b);
    settle(&b, "/score", many, MODEL_HEAD_NONE, 0);
    CHECK(b.request.count == 4 && b.request.inputs[1].text.p[0] == 'r' &&
          b.request.inputs[3].text.p[0] == 'b');
    box_answer(&b, 3);
    (void)api_write(&b.request, &out);
    CHECK(strstr(buf_str(&out), "{\"index\":1,\"object\":\"score\",\"score\":0.9525793,"));
    buf_release(&out);
    box_release(&b);
    settle(&b, "/score", one, MODEL_HEAD_POOLER, 3);
    CHECK(b.request.fault.kind == FAULT_MODEL_KIND);
    box_release(&b);
}

TEST(labels_have_the_models_names)
{
    const char *names[] = { "bad", NULL };
    struct buf out = { 0 };
    struct box b;

    settle(&b, "/", "{\"inputs\":\"a\"}", MODEL_HEAD_POOLER, 2);
    b.net.label_names = names;
    box_answer(&b, 2);
    (void)api_write(&b.request, &out);
    assert_string_equal(buf_str(&out), "[{\"score\":0.5926666,\"label\":\"bad\"},"
                                       "{\"score\":0.4073334,\"label\":\"LABEL_1\"}]");
    buf_release(&out);
    box_release(&b);
}

/* ---- scores */

TEST(ranks_by_score_then_by_index)
{
    float rows[] = { 1, 3, -2, 3, NAN, 0 };
    struct request_text texts[6] = { 0 };
    struct request r = { .what = REQUEST_RANK,
                         .count = 6,
                         .top_n = 9,
                         .texts = texts,
                         .response = { .width = 1, .rows = rows } };
    static const size_t want[] = { 1, 3, 0, 5, 2, 4 };
    struct arena arena = { 0 };
    size_t n;

    for (size_t i = 0; i < 6; i++)
        texts[i].row = i;
    const size_t *order = api_ranking(&r, &arena, &n);
    assert_int_equal(n, 6);
    assert_memory_equal(order, want, sizeof(want));
    r.top_n = 2;
    (void)api_ranking(&r, &arena, &n);
    assert_int_equal(n, 2);
    arena_release(&arena);
}

TEST(scores_pass_the_activation_that_the_model_or_the_api_says)
{
    float row = 2;
    struct request_text text = { 0 };
    struct model net = { .score = MODEL_SCORE_RAW };
    struct request r = { .count = 1,
                         .texts = &text,
                         .response = { .width = 1, .rows = &row, .net = &net } };

    CHECK(api_score(&r, 0) == 2);
    net.score = MODEL_SCORE_SIGMOID;
    CHECK(api_score(&r, 0) == eng_score(MODEL_SCORE_SIGMOID, 2));
    r.raw_scores = true;
    CHECK(api_score(&r, 0) == 2);
    r.raw_scores = false;
    net.score = MODEL_SCORE_RAW;
    r.sigmoid = true;
    CHECK(api_score(&r, 0) == eng_score(MODEL_SCORE_SIGMOID, 2));
}

/* ---- vectors */

TEST(numbers_read_back_bit_for_bit)
{
    enum { N = 3000 };
    static float v[N];
    struct buf out = { 0 };
    struct json_out w;
    uint32_t x = 1;
    char *p;

    for (size_t i = 0; i < N; i++) {
        x = x * 1664525 + 1013904223;
        uint32_t bits = (x & 0x807fffff) | (110 + x % 20) << 23;
        memcpy(&v[i], &bits, sizeof(bits));
    }
    json_out_init(&w, &out, 0);
    api_vector(&w, v, N, API_FLOAT, false);
    p = out.data + 1;
    for (size_t i = 0; i < N; i++, p++)
        CHECK(strtof(p, &p) == v[i] && *p == (i + 1 < N ? ',' : ']'));
    buf_release(&out);
}

static void say_vector(struct buf *out, const float *v, size_t n, enum api_encoding e)
{
    struct json_out w;

    buf_reset(out);
    json_out_init(&w, out, 0);
    api_vector(&w, v, n, e, false);
}

TEST(vectors_at_their_edges)
{
    static const float zero[2], odd[] = { NAN, INFINITY, -1, 0 };
    static float many[2000];
    struct buf out = { 0 };

    say_vector(&out, zero, 0, API_FLOAT);
    assert_string_equal(buf_str(&out), "[]");
    say_vector(&out, zero, 0, API_BINARY);
    assert_string_equal(buf_str(&out), "[]");
    say_vector(&out, zero, 0, API_BASE64);
    assert_string_equal(buf_str(&out), "\"\"");
    say_vector(&out, zero, 2, API_INT8);
    assert_string_equal(buf_str(&out), "[0,0]");
    say_vector(&out, odd, 4, API_FLOAT);
    assert_string_equal(buf_str(&out), "[null,null,-1,0]");
    say_vector(&out, odd, 4, API_UBINARY);
    assert_string_equal(buf_str(&out), "[64]");
    say_vector(&out, many, 2000, API_F16); /* more than one piece */
    assert_int_equal(out.len, 2 + (2000 * 2 + 2) / 3 * 4);
    assert_string_equal(out.data + out.len - 5, "AA==\"");
    buf_release(&out);
    buf_init(&out, 100);
    say_vector(&out, many, 2000, API_FLOAT);
    CHECK(out.over && out.len == 0);
    buf_release(&out);
}

/* ---- errors */

TEST(errors_family_by_kind)
{
    static const int status[][5] = {
        /*                       TEI OpenAI Cohere vLLM llama */
        [FAULT_JSON] = { 400, 400, 400, 400, 400 },
        [FAULT_EMPTY] = { 400, 400, 400, 400, 400 },
        [FAULT_INVALID] = { 422, 400, 400, 400, 400 },
        [FAULT_TOO_LONG] = { 422, 400, 400, 400, 400 },
        [FAULT_TOO_MANY] = { 422, 400, 400, 400, 400 },
        [FAULT_TOO_LARGE] = { 413, 413, 413, 413, 413 },
        [FAULT_NO_MODEL] = { 404, 404, 404, 404, 404 },
        [FAULT_MODEL_KIND] = { 424, 400, 400, 400, 501 },
        [FAULT_LOADING] = { 503, 503, 503, 503, 503 },
        [FAULT_OVERLOADED] = { 429, 429, 429, 429, 429 },
        [FAULT_DEADLINE] = { 504, 504, 504, 504, 504 },
        [FAULT_TOKENIZER] = { 422, 400, 400, 400, 400 },
        [FAULT_BACKEND] = { 424, 500, 500, 500, 500 },
        [FAULT_NO_MEMORY] = { 503, 503, 503, 503, 503 },
        [FAULT_CHANGED] = { 503, 503, 503, 503, 503 },
        [FAULT_STOPPING] = { 503, 503, 503, 503, 503 },
    };

    assert_int_equal(ARRAY_SIZE(status), FAULT_STOPPING + 1);
    for (size_t kind = 0; kind < ARRAY_SIZE(status); kind++)
        for (size_t family = 0; family < 5; family++) {
            struct request_fault f = { 0 };
            struct arena arena = { 0 };
            struct buf out = { 0 };
            struct json *v;
            CHECK(!fault_set(&f, (enum fault_kind)kind, "p", "why '%s'\n", "\"x\""));
            assert_int_equal(api_error((enum api_family)family, &f, &out), status[kind][family]);
            assert_int_equal(json_parse(&arena, out.data, out.len, &v, NULL), RC_OK);
            buf_release(&out);
            arena_release(&arena);
        }
}

TEST(error_bodies)
{
    static const struct {
        enum api_family family;
        enum fault_kind kind;
        const char *want;
    } rows[] = {
        { API_TEI, FAULT_EMPTY, "{\"error\":\"no\",\"error_type\":\"Empty\"}" },
        { API_TEI, FAULT_OVERLOADED, "{\"error\":\"no\",\"error_type\":\"Overloaded\"}" },
        { API_OPENAI, FAULT_NO_MODEL,
          "{\"error\":{\"message\":\"no\",\"type\":\"invalid_request_error\",\"param\":\"model\","
          "\"code\":\"model_not_found\"},\"detail\":\"no\"}" },
        { API_OPENAI, FAULT_OVERLOADED,
          "{\"error\":{\"message\":\"no\",\"type\":\"tokens\",\"param\":\"model\","
          "\"code\":\"rate_limit_exceeded\"},\"detail\":\"no\"}" },
        { API_OPENAI, FAULT_BACKEND,
          "{\"error\":{\"message\":\"no\",\"type\":\"server_error\",\"param\":\"model\","
          "\"code\":null},\"detail\":\"no\"}" },
        { API_COHERE, FAULT_INVALID, "{\"message\":\"no\"}" },
        { API_VLLM, FAULT_OVERLOADED,
          "{\"error\":{\"message\":\"no\",\"type\":\"Too Many Requests\",\"param\":\"model\","
          "\"code\":429},\"detail\":\"no\"}" },
        { API_LLAMA, FAULT_TOO_LONG,
          "{\"error\":{\"code\":400,\"message\":\"no\",\"type\":\"exceed_context_size_error\"}}" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct request_fault f = { 0 };
        struct buf out = { 0 };
        (void)fault_set(&f, rows[i].kind, "model", "no");
        (void)api_error(rows[i].family, &f, &out);
        assert_string_equal(buf_str(&out), rows[i].want);
        buf_release(&out);
    }
}

/* What the HTTP server refuses itself. */
TEST(refusals_have_the_words_of_their_api)
{
    static const struct {
        enum api_family family;
        int status;
        const char *want;
    } rows[] = {
        { API_TEI, 401, "{\"error\":\"no\",\"error_type\":\"Validation\"}" },
        { API_OPENAI, 401,
          "{\"error\":{\"message\":\"no\",\"type\":\"invalid_request_error\",\"param\":null,"
          "\"code\":\"invalid_api_key\"},\"detail\":\"no\"}" },
        { API_COHERE, 401, "{\"message\":\"no\"}" },
        { API_VLLM, 401,
          "{\"error\":{\"message\":\"no\",\"type\":\"Unauthorized\",\"param\":null,"
          "\"code\":401},\"detail\":\"no\"}" },
        { API_LLAMA, 401,
          "{\"error\":{\"code\":401,\"message\":\"no\",\"type\":\"authentication_error\"}}" },
        { API_OPENAI, 404,
          "{\"error\":{\"message\":\"no\",\"type\":\"invalid_request_error\",\"param\":null,"
          "\"code\":null},\"detail\":\"no\"}" },
        { API_VLLM, 405,
          "{\"error\":{\"message\":\"no\",\"type\":\"Method Not Allowed\",\"param\":null,"
          "\"code\":405},\"detail\":\"no\"}" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct request_fault f = { .kind = FAULT_INVALID,
                                   .message = "no",
                                   .status = rows[i].status };
        struct buf out = { 0 };
        assert_int_equal(api_error(rows[i].family, &f, &out), rows[i].status);
        assert_string_equal(buf_str(&out), rows[i].want);
        buf_release(&out);
    }
}

TEST(the_body_tells_whose_errors_are_wanted)
{
    static const char texts[] = "{\"query\":\"q\",\"texts\":[]}";
    static const char documents[] = "{\"query\":\"q\",\"documents\":[]}";
    struct request_fault large = { .kind = FAULT_INVALID, .message = "no", .status = 413 };
    struct buf out = { 0 };
    struct box b;

    CHECK(!box_parse(&b, "/rerank", texts, sizeof(texts) - 1, NULL, 0));
    assert_int_equal(api_error(b.api->family, &b.request.fault, &out), 400);
    assert_string_equal(buf_str(&out),
                        "{\"error\":\"'texts' cannot be empty\",\"error_type\":\"Empty\"}");
    buf_reset(&out);
    box_release(&b);
    CHECK(!box_parse(&b, "/rerank", documents, sizeof(documents) - 1, NULL, 0));
    (void)api_error(b.api->family, &b.request.fault, &out);
    CHECK(strstr(buf_str(&out), "BadRequestError"));
    buf_reset(&out);
    box_release(&b);
    assert_int_equal(api_error(API_LLAMA, &large, &out), 413);
    CHECK(strstr(buf_str(&out), "\"code\":413"));
    buf_release(&out);
}

TEST_MAIN(cmocka_unit_test(answers_as_bytes), cmocka_unit_test(times_to_answer_in),
          cmocka_unit_test(a_time_is_shortened_or_lengthened_up_to_the_servers_limit),
          cmocka_unit_test(classes_by_field),
          cmocka_unit_test(octets_by_accept_and_what_the_header_says),
          cmocka_unit_test(characters_are_counted_as_tei_does),
          cmocka_unit_test(header_lines_stay_short),
          cmocka_unit_test(the_root_does_what_the_model_can),
          cmocka_unit_test(score_of_a_model_of_vectors_is_the_cosine),
          cmocka_unit_test(labels_have_the_models_names),
          cmocka_unit_test(ranks_by_score_then_by_index),
          cmocka_unit_test(scores_pass_the_activation_that_the_model_or_the_api_says),
          cmocka_unit_test(numbers_read_back_bit_for_bit), cmocka_unit_test(vectors_at_their_edges),
          cmocka_unit_test(errors_family_by_kind), cmocka_unit_test(error_bodies),
          cmocka_unit_test(refusals_have_the_words_of_their_api),
          cmocka_unit_test(the_body_tells_whose_errors_are_wanted))
