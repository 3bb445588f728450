/* SPDX-License-Identifier: MIT */
/* test_agent_params: query strings of the agent's API: what they mean and what is refused. */
#include "test.h"

#include "agent/api/api_parts_int.h"
#include "base/str.h"

#include <string.h>

#define NOW (INT64_C(1700000000) * API_SECOND)

TEST(splitting)
{
    static const struct {
        const char *in;
        const char *want; /* name=value|…; NULL: refused */
    } rows[] = {
        { "", "" },
        { "a=1&b=2", "a=1|b=2|" },
        { "a", "a=|" },
        { "&&a=1&&", "a=1|" },
        { "a=b=c", "a=b=c|" },
        { "a%20b=c+d%2Be", "a b=c d+e|" },
        { "a=%C3%A9", "a=\xc3\xa9|" },
        { "a=%", NULL },
        { "a=%4", NULL },
        { "a=%zz", NULL },
        { "a=%00", NULL },
        { "a=%0a", NULL },
        { "a=%ff", NULL },
        { "%1b=1", NULL },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct api_params p;
        struct err err = { 0 };
        struct buf got = { 0 };
        enum rc rc = api_params_read(rows[i].in, &p, &err);

        assert_int_equal(rc, rows[i].want ? RC_OK : RC_USAGE);
        for (size_t k = 0; !rc && k < p.count; k++)
            buf_addf(&got, "%s=%s|", p.at[k].name, p.at[k].value);
        if (!rc)
            assert_string_equal(buf_str(&got), rows[i].want);
        buf_release(&got);
    }
}

TEST(splitting_has_limits)
{
    struct api_params p;
    struct err err = { 0 };
    struct buf text = { 0 };

    for (int i = 0; i <= API_PARAMS_MAX; i++)
        buf_addf(&text, "a%d=1&", i);
    CHECK(api_params_read(text.data, &p, &err) == RC_USAGE);
    CHECK(strstr(err.msg, "more than 24 parameters"));
    buf_reset(&text);
    buf_adds(&text, "a=");
    buf_fill(&text, 'x', TELEMETRY_VALUE_MAX);
    CHECK(api_params_read(text.data, &p, &err) == RC_USAGE);
    buf_reset(&text);
    buf_fill(&text, 'x', API_PARAM_NAME_MAX);
    CHECK(api_params_read(text.data, &p, &err) == RC_USAGE);
    buf_release(&text);
}

static enum rc ask(const char *query, struct api_params *p, struct api_query *q, struct err *err)
{
    enum rc rc = api_params_read(query, p, err);

    return rc ? rc : api_query_read(p, NOW, q, err);
}

TEST(grids)
{
    static const struct {
        const char *query;
        int64_t from_s, step_s;
        size_t steps;
    } rows[] = {
        { "metric=a", 1700000000 - 3600, 5, 720 },
        { "metric=a&from=-6h", 1700000000 - 21600 - 20, 30, 721 }, /* begins on a whole step */
        { "metric=a&from=-60s&step=1", 1699999940, 1, 60 },
        { "metric=a&from=-60s&step=1s", 1699999940, 1, 60 },
        { "metric=a&from=-1h&points=10", 1699996200, 600, 7 },
        { "metric=a&from=10&to=20&step=7", 7, 7, 2 },
        { "metric=a&from=10.5&to=11&step=1", 10, 1, 1 },
        { "metric=a&from=-7d&points=5", 0, 0, 0 },
        { "metric=a&from=0&to=now", 0, 0, 0 },
        { "metric=a&from=-400d&to=-1s", 0, 0, 0 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct api_params p;
        struct api_query q;
        struct err err = { 0 };

        assert_int_equal(ask(rows[i].query, &p, &q, &err), RC_OK);
        CHECK(q.from_ns % q.step_ns == 0 && q.steps > 0 && q.steps <= API_STEPS_MAX);
        CHECK(q.from_ns + (int64_t)q.steps * q.step_ns >= q.to_ns);
        if (!rows[i].step_s)
            continue;
        assert_int_equal(q.step_ns / API_SECOND, rows[i].step_s);
        assert_int_equal(q.steps, rows[i].steps);
        assert_int_equal(q.from_ns / API_SECOND, rows[i].from_s);
    }
}

TEST(labels_and_rates)
{
    struct api_params p;
    struct api_query q;
    struct err err = { 0 };

    CHECK(!ask("metric=net.rx_bytes&label.gpu=3&label.UUID=GPU-1&as=rate", &p, &q, &err));
    assert_int_equal(q.label_count, 2);
    assert_string_equal(q.labels[0].name, "gpu");
    assert_string_equal(q.labels[0].value, "3");
    assert_string_equal(q.labels[1].name, "UUID");
    CHECK(q.as == API_RATE);
}

TEST(refused_questions_say_why)
{
    static const struct {
        const char *query, *why;
    } rows[] = {
        { "", "'metric' is missing" },
        { "metric=", "'metric' is missing" },
        { "metrc=a", "did you mean 'metric'" },
        { "metric=a&metric=b", "'metric' is given twice" },
        { "metric=a&label.=b", "no parameter 'label.'" },
        { "metric=a&from=yesterday", "'from' is a time" },
        { "metric=a&from=-", "'from' is a time" },
        { "metric=a&from=-1", "'from' is a time" },
        { "metric=a&from=-99999999999d", "'from' is a time" },
        { "metric=a&from=1e300", "'from' is a time" },
        { "metric=a&from=nan", "'from' is a time" },
        { "metric=a&from=now", "'from' must be before 'to'" },
        { "metric=a&from=20&to=10", "'from' must be before 'to'" },
        { "metric=a&step=0", "'step' is whole seconds" },
        { "metric=a&step=500ms", "'step' is whole seconds" },
        { "metric=a&step=-5", "'step' is whole seconds" },
        { "metric=a&step=1&points=5", "not both" },
        { "metric=a&points=0", "from 1 to 20000" },
        { "metric=a&points=20001", "from 1 to 20000" },
        { "metric=a&from=-7d&step=1", "ask for a longer 'step'" },
        { "metric=a&as=delta", "'as' is 'value' or 'rate'" },
        { "metric=%zz", "not readable text" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct api_params p;
        struct api_query q = { .steps = 77 };
        struct err err = { 0 };

        if (ask(rows[i].query, &p, &q, &err) != RC_USAGE)
            fail_msg("'%s' is taken", rows[i].query);
        if (!strstr(err.msg, rows[i].why))
            fail_msg("'%s': %s", rows[i].query, err.msg);
        assert_int_equal(q.steps, 77); /* untouched */
    }
}

TEST(entities)
{
    struct api_params p;
    struct err err = { 0 };
    unsigned bits;

    CHECK(!api_params_read("entity=gpu,host", &p, &err));
    CHECK(!api_param_entities(&p, "entity", 9, &bits, &err));
    assert_int_equal(bits, 1U << TELEMETRY_GPU | 1U << TELEMETRY_HOST);
    CHECK(!api_param_entities(&p, "other", 9, &bits, &err) && bits == 9);
    CHECK(!api_params_read("entity=gpu,hos", &p, &err));
    CHECK(api_param_entities(&p, "entity", 9, &bits, &err) == RC_USAGE && bits == 9);
}

TEST_MAIN(cmocka_unit_test(splitting), cmocka_unit_test(splitting_has_limits),
          cmocka_unit_test(grids), cmocka_unit_test(labels_and_rates),
          cmocka_unit_test(refused_questions_say_why), cmocka_unit_test(entities))
