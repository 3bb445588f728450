/* SPDX-License-Identifier: MIT */
/* spec: the schema's own rules, values of every kind, loading, limits, rules across keys,
 * and the way back to YAML.  The wording of errors is tested in tests/cli/spec.t. */
#include "base/str.h"
#include "spec/spec_int.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

/* --- the schema --- */
struct seen {
    size_t rows;
};

static bool sentence_free(const char *doc)
{
    size_t n = strlen(doc);

    return n > 3 && n < 100 && doc[n - 1] != '.' && doc[0] != ' ';
}

static void check_row(const struct spec_table *t, size_t i)
{
    const struct spec_row *r = &t->rows[i];
    char member[128] __attribute__((aligned(16))) = { 0 };
    struct arena a = { 0 };
    struct value_error e;
    bool optional = r->store == STORE_STR || r->store == STORE_MAYBE || r->store == STORE_NUM ||
                    r->store == STORE_MONEY || r->store == STORE_QUANTITY ||
                    r->store == STORE_STRS || r->store == STORE_PAIRS;

    CHECK(r->key && *r->key && r->doc && sentence_free(r->doc));
    CHECK(r->off < t->size);
    for (size_t j = 0; j < i; j++)
        CHECK(strcmp(t->rows[j].key, r->key) != 0);
    CHECK(spec_kind_is_tree(r->kind) == (r->sub != NULL));
    CHECK(spec_kind_is_tree(r->kind) == (r->store == STORE_NONE));
    CHECK((r->kind == SPEC_CHOICE) == (r->choices != NULL));
    CHECK((r->kind == SPEC_REF || r->kind == SPEC_NAMES || r->kind == SPEC_GROUPS) ==
          (r->refers != NULL));
    CHECK(!(r->dflt && r->required));
    CHECK(r->min <= r->max);
    CHECK(r->kind != SPEC_MONEY || r->per != PER_ANY);
    if (!r->sub && !optional)
        CHECK(r->dflt || r->required);
    if (r->dflt)
        CHECK(value_put(r, &a, r->dflt, true, member, &e));
    arena_release(&a);
}

static void walk(const struct spec_table *t, struct seen *s)
{
    CHECK(t->count > 0 && t->count <= 64);
    for (size_t i = 0; i < t->count; i++, s->rows++) {
        check_row(t, i);
        if (t->rows[i].sub)
            walk(t->rows[i].sub, s);
    }
}

TEST(every_row_of_the_schema_is_sound)
{
    struct seen s = { 0 };

    walk(&spec_schema, &s);
    CHECK(s.rows > 300);
}

TEST(choices_are_distinct)
{
    const struct spec_row *r = spec_row_find(spec_row_find(&spec_schema, "alerts")->sub, "metric");

    for (size_t i = 0; r->choices[i]; i++)
        for (size_t j = 0; j < i; j++)
            CHECK(strcmp(r->choices[i], r->choices[j]) != 0);
    CHECK(str_eq(spec_metric_name(SPEC_METRIC_GPU_POWER), "gpu_power"));
    CHECK(spec_metric_unit(SPEC_METRIC_GPU_POWER) == SPEC_UNIT_WATT);
    CHECK(spec_metric_unit(SPEC_METRIC_POOL_USED) == SPEC_UNIT_PERCENT);
}

/* --- values --- */
TEST(whole_numbers_of_every_kind)
{
    static const struct {
        enum spec_kind kind;
        const char *in;
        bool ok;
        int64_t want;
        const char *back;
    } rows[] = {
        { SPEC_INT, "8", true, 8, "8" },
        { SPEC_INT, "-1", true, -1, "-1" },
        { SPEC_INT, "8.0", false, 0, NULL },
        { SPEC_INT, "0x10", false, 0, NULL },
        { SPEC_INT, "99999999999999999999", false, 0, NULL },
        { SPEC_COUNT, "7B", true, 7000000000, "7B" },
        { SPEC_COUNT, "1.4T", true, 1400000000000, "1400B" },
        { SPEC_COUNT, "1.5", false, 0, NULL },
        { SPEC_COUNT, "1.", false, 0, NULL },
        { SPEC_COUNT, "B", false, 0, NULL },
        { SPEC_COUNT, "99999999999T", false, 0, NULL },
        { SPEC_BYTES, "64GiB", true, INT64_C(64) << 30, "64GiB" },
        { SPEC_BYTES, "141GB", true, 141000000000, "141GB" },
        { SPEC_BYTES, "64gb", false, 0, NULL },
        { SPEC_RATE, "400Gb/s", true, 400000000000, "400Gb/s" },
        { SPEC_BANDWIDTH, "4.8TB/s", true, 38400000000000, "4.8TB/s" },
        { SPEC_BANDWIDTH, "900GB/s", true, 7200000000000, "900GB/s" },
        { SPEC_BANDWIDTH, "1b/s", true, 1, "1b/s" },
        { SPEC_DURATION, "1h30m", true, 5400000, "90m" },
        { SPEC_DURATION, "0", true, 0, "0s" },
        { SPEC_DURATION, "5", false, 0, NULL },
        { SPEC_PORT, "8003", true, 8003, "8003" },
        { SPEC_PORT, "0", false, 0, NULL },
        { SPEC_PORT, "65536", false, 0, NULL },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct spec_row r = { .kind = rows[i].kind, .store = STORE_I64 };
        struct value_error e = { { 0 }, { 0 } };
        struct buf back = { 0 };
        int64_t got = 4711;

        CHECK(value_put(&r, NULL, rows[i].in, true, &got, &e) == rows[i].ok);
        CHECK(got == (rows[i].ok ? rows[i].want : 4711)); /* untouched on failure */
        CHECK(rows[i].ok || e.msg[0]);
        if (rows[i].ok && rows[i].back) {
            int64_t again = -1;

            CHECK(value_text(&r, &got, &back));
            CHECK(value_put(&r, NULL, buf_str(&back), true, &again, &e) && again == got);
        }
        buf_release(&back);
    }
}

TEST(quantities_carry_their_unit)
{
    static const struct {
        const char *in;
        enum spec_unit unit;
        double v;
    } rows[] = {
        { "80%", SPEC_UNIT_PERCENT, 80 },    { "85C", SPEC_UNIT_CELSIUS, 85 },
        { "85°C", SPEC_UNIT_CELSIUS, 85 },   { "700W", SPEC_UNIT_WATT, 700 },
        { "20GB", SPEC_UNIT_BYTES, 20e9 },   { "400Gb/s", SPEC_UNIT_BPS, 400e9 },
        { "250ms", SPEC_UNIT_MS, 250 },      { "0", SPEC_UNIT_COUNT, 0 },
        { "1000/s", SPEC_UNIT_PER_S, 1000 }, { "$5000", SPEC_UNIT_MONEY, 5e9 },
        { "1.5%", SPEC_UNIT_PERCENT, 1.5 },
    };
    static const char *const bad[] = { "", "%", "hot", "80 %", "8x", "--5", "1e999", "nan%" };
    const struct spec_row r = { .kind = SPEC_QUANTITY, .store = STORE_QUANTITY };
    struct arena a = { 0 };
    struct spec_quantity q;
    struct value_error e;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CHECK(value_put(&r, &a, rows[i].in, true, &q, &e));
        CHECK(q.known && q.unit == rows[i].unit && q.v == rows[i].v);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        CHECK(!value_put(&r, &a, bad[i], true, &q, &e));
    arena_release(&a);
}

TEST(names_ranges_and_subnets)
{
    CHECK(value_name_ok(SPEC_NAME, "world_model") && value_name_ok(SPEC_NAME, "a"));
    CHECK(!value_name_ok(SPEC_NAME, "World") && !value_name_ok(SPEC_NAME, "a.b"));
    CHECK(!value_name_ok(SPEC_NAME, "") && !value_name_ok(SPEC_NAME, "-a"));
    CHECK(value_name_ok(SPEC_LABEL, "ms-marco-MiniLM-L-12-v2"));
    CHECK(value_cidr_ok("10.0.0.0/24") && value_cidr_ok("fd00::/64"));
    CHECK(!value_cidr_ok("10.0.0.0") && !value_cidr_ok("10.0.0.0/33") && !value_cidr_ok("x/8"));
    CHECK(value_cidrs_meet("10.0.1.0/24", "10.0.0.0/16") &&
          value_cidrs_meet("0.0.0.0/0", "1.2.3.4/32"));
    CHECK(!value_cidrs_meet("10.0.1.0/25", "10.0.1.128/25") &&
          value_cidrs_meet("a::/16", "a:1::/32"));
    CHECK(!value_cidrs_meet("::/0", "10.0.0.0/8") && !value_cidrs_meet("a::/16", "b::/16"));
    CHECK(value_env_name_ok("NCCL_DEBUG") && !value_env_name_ok("1A") && !value_env_name_ok("a-b"));
    CHECK(spec_range_has("0-3,6", 0) && spec_range_has("0-3,6", 6) && !spec_range_has("0-3,6", 4));
    CHECK(spec_range_has(NULL, 99));
}

/* --- loading --- */
static struct spec *load(const char *text)
{
    struct err err = { 0 };
    struct spec *s = NULL;

    CHECK(spec_parse(text, strlen(text), "test.yaml", &s, NULL, &err) == RC_OK);
    return s;
}

/* The first error's line and column; the message must hold `part`. */
static void fails(const char *text, size_t len, int line, int col, const char *part)
{
    struct spec_diags d = { 0 };
    struct err err = { 0 };
    struct spec *s = NULL;

    CHECK(spec_parse(text, len, "test.yaml", &s, &d, &err) == RC_PARSE);
    CHECK(!s && d.count > 0 && err.code == RC_PARSE);
    if (!strstr(d.items[0].msg, part) || d.items[0].line != line || d.items[0].col != col)
        fail_msg("%d:%d: %s", d.items[0].line, d.items[0].col, d.items[0].msg);
    spec_diags_release(&d);
}

#define FAILS(text, ...) fails((text), strlen(text), __VA_ARGS__)

TEST(defaults_hold_without_a_file)
{
    struct spec *s = spec_default();

    CHECK(s->node_count == 0 && s->component_count == 0);
    CHECK(s->serve.port == 8003 && s->serve.rerank_port == 8002);
    CHECK(s->agent.port == 8090 && s->agent.metrics_port == 9400);
    CHECK(!s->budgets.day.known && !s->targets.slurm);
    CHECK(spec_where(s, &s->serve.port).line == 0);
    spec_free(s);
    spec_free(NULL);
}

TEST(values_know_their_line)
{
    struct spec *s = load("nodes:\n"
                          "  - name: h200\n"
                          "    gpus_per_node: 8\n"
                          "    gpu: {model: H200, memory: 141GB}\n"
                          "pools:\n"
                          "  a: {size: 64GB}\n");
    const struct spec_node *n = spec_node_find(s, "h200");

    CHECK(n && n == spec_node_of(s, NULL) && n->gpus_per_node == 8);
    CHECK(spec_where(s, &n->gpus_per_node).line == 3);
    CHECK(spec_where(s, &n->gpus_per_node).col == 20);
    CHECK(spec_where(s, &n->gpu->memory_bytes).line == 4);
    CHECK(spec_where(s, &n->gpu->memory_bytes).col == 32);
    CHECK(spec_where(s, &n->count).line == 0 && n->count == 1);
    CHECK(spec_where(s, &s->pools[0].name).line == 6);
    CHECK(maybe_is(n->gpu->memory_bytes, 141000000000));
    CHECK(str_eq(spec_file(s), "test.yaml"));
    spec_free(s);
}

TEST(aliases_share_and_crlf_and_bom_are_read)
{
    struct spec *s = load("\xef\xbb\xbfnodes:\r\n"
                          "  - {name: a, gpus_per_node: 1, gpu: &g {model: H100}}\r\n"
                          "  - {name: b, gpus_per_node: 2, gpu: *g}\r\n");

    CHECK(s->node_count == 2 && str_eq(s->nodes[1].gpu->model, "H100"));
    CHECK(s->nodes[0].gpu != s->nodes[1].gpu);
    CHECK(spec_node_of(s, NULL) == NULL); /* two have GPUs: nobody's default */
    spec_free(s);
}

TEST(limits_hold)
{
    struct buf b = { 0 };

    buf_adds(&b, "site: {labels: {");
    for (int i = 0; i < SPEC_LIST_MAX + 10; i++)
        buf_addf(&b, "k%d: v,", i);
    buf_adds(&b, "}}\n");
    fails(buf_str(&b), b.len, 1, 88915, "more than 10000 items");
    buf_reset(&b);
    buf_adds(&b, "site: {owner: ");
    buf_fill(&b, 'x', SPEC_TEXT_MAX + 1);
    buf_adds(&b, "}\n");
    fails(buf_str(&b), b.len, 1, 15, "text of more than 65536");
    buf_reset(&b);
    buf_fill(&b, '#', SPEC_FILE_MAX + 1);
    fails(buf_str(&b), b.len, 0, 0, "larger than 1048576 bytes");
    buf_release(&b);
    FAILS("site: {owner: \"a\\0b\"}", 1, 15, "control characters");
    fails("site: {owner: a\0b}", 18, 1, 16, "U+0000 is a control character");
    fails("site: {owner: \xc3}", 16, 1, 15, "byte 0xc3");
    FAILS("a\rb: 1\n", 1, 2, "U+000D is a control character");
}

TEST(only_the_first_twenty_errors_are_kept)
{
    struct spec_diags d = { 0 };
    struct buf b = { 0 };
    struct spec *s = NULL;

    for (int i = 0; i < 50; i++)
        buf_addf(&b, "zzzz%d: 1\n", 50 - i);
    CHECK(spec_parse(buf_str(&b), b.len, "t", &s, &d, NULL) == RC_PARSE);
    CHECK(d.count == SPEC_DIAGS_MAX && d.dropped == 30);
    for (size_t i = 1; i < d.count; i++)
        CHECK(d.items[i - 1].line < d.items[i].line);
    spec_diags_release(&d);
    buf_release(&b);
}

TEST(yaml_that_is_no_spec)
{
    FAILS("", 1, 1, "empty");
    FAILS("# only\n---\n", 1, 1, "empty");
    FAILS("just text\n", 1, 1, "a spec is a map");
    FAILS("- a\n- b\n", 1, 1, "a spec is a map");
    FAILS("? {a: 1}\n: 2\n", 1, 3, "key must be plain text");
    FAILS("site: {name: a\n", 1, 7, "never closed");
    FAILS("a: 'x\n", 1, 4, "never closed");
    FAILS("site: *x\n", 1, 7, "no anchor");
    FAILS("site:\n  name: a\n owner: b\n", 3, 2, "indented wrongly");
}

TEST(rules_across_keys)
{
#define NODES "nodes: [{name: n, count: 2, gpus_per_node: 4, gpu: {model: H100, memory: 80GB}}]\n"
    FAILS(NODES "components: {a: {scale: {min: 1, max: 2}, replicas: 5}}\n", 2, 53,
          "outside 1 to 2");
    FAILS(NODES "components: {a: {scale: {max: 2, target: 5C}}}\n", 2, 42, "is in percent, not");
    FAILS(NODES "pools: {a: {size: 50GB, gpus: 0-1}, b: {size: 50GB, gpus: 1-2}}\n", 2, 47,
          "pools take 100GB of GPU 1 of 'n'");
    FAILS(NODES "pools: {a: {size: 50GB, gpus: 0-7}}\n", 2, 31, "has no GPU 4");
    FAILS("pools: {a: {size: 50GB}}\n", 1, 9, "does not say on which node group");
    FAILS("nodes: [{name: n, gpus_per_node: 4}]\n", 1, 34, "does not say which");
    FAILS("fabrics: [{name: f, kind: roce, rate: 1Gb/s, interfaces: [a, b]}]\n", 1, 58,
          "2 interfaces but 1 NICs");
    FAILS("shapes: {m: {hidden: 100, heads: 3}}\n", 1, 34, "do not divide");
    FAILS("goals: {g: {metric: gpu_memory, min: 90%, max: 70%}}\n", 1, 38, "at least 90%");
    FAILS("alerts: {g: {metric: gpu_memory}}\n", 1, 10, "has no threshold");
    FAILS("alerts: {g: {metric: gpu_memory, warn: 90%, clear: 95%}}\n", 1, 52, "would clear");
    FAILS("agent: {port: 9400}\n", 1, 15, "used twice by the agent");
    FAILS("components: {a: {depends_on: [a]}}\n", 1, 31, "depends on itself");
    FAILS("components: {a: {target: compose}}\ntargets: {compose: {}}\n", 1, 14, "no image");
    FAILS("budgets: {components: {x: {day: $1/d}}}\n", 1, 24, "there is no component 'x'");
    FAILS("traffic: [{from: a, to: b}]\n", 1, 18, "there is no component 'a'");
    FAILS("components: {a: {}, b: {}}\ntraffic: [{from: a, to: b}]\n", 2, 18, "how much");
    FAILS("targets: {slurm: {backfill: {window: 1d}, partitions: [{name: p, time_limit: 30d}]}}\n",
          1, 78, "backfill window");
    FAILS("components: {a: {partition: p}}\n", 1, 29, "there is no partition 'p'");
    /* pods have addresses of their own: the same port on two of them is fine */
    spec_free(load("targets: {kubernetes: {}}\n"
                   "components:\n"
                   "  a: {target: kubernetes, image: x, ports: [{name: http, port: 80}]}\n"
                   "  b: {target: kubernetes, image: x, ports: [{name: http, port: 80}]}\n"));
#undef NODES
}

/* --- back to text --- */
static struct buf shown(const struct spec *s)
{
    const struct term term = { 0 };
    struct buf b = { 0 };

    spec_show(s, &term, SPEC_SHOW_LINES, &b);
    return b;
}

static void cut_comments(struct buf *b)
{
    char *to = b->data;

    for (char *p = b->data; *p; p++) {
        if (str_starts(p, "  # line "))
            p += strcspn(p, "\n");
        *to++ = *p;
    }
    *to = '\0';
}

TEST(examples_load_and_come_back_the_same)
{
    CHECK(spec_example_count() == 5);
    for (size_t i = 0; i < spec_example_count(); i++) {
        struct spec_example e = spec_example_at(i), found;
        struct spec *s = load(e.text), *again;
        struct buf first = shown(s), second;

        CHECK(spec_example_find(e.name, &found) && found.text == e.text);
        CHECK(strlen(e.text) == e.len);
        again = load(buf_str(&first));
        second = shown(again);
        cut_comments(&first);
        cut_comments(&second);
        assert_string_equal(first.data, second.data);
        buf_release(&first);
        buf_release(&second);
        spec_free(again);
        spec_free(s);
    }
    CHECK(!spec_example_find("nothing", &(struct spec_example){ 0 }));
}

TEST(hostile_text_survives_the_way_back)
{
    struct spec *s =
        load("site: {owner: \"a: b # c\\n\\t'q' \\\"\", contact: '- x', description: '~'}\n"
             "nccl: {env: {A: 'null', B: '', C: '[x]', D: '*a', E: 'é: ', F: ' x '}}\n");
    struct buf b = shown(s);
    struct spec *again = load(buf_str(&b));

    assert_string_equal(again->site.owner, "a: b # c\n\t'q' \"");
    assert_string_equal(again->site.contact, "- x");
    assert_string_equal(again->site.description, "~");
    CHECK(again->nccl.env.count == 6);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(again->nccl.env.items[i].value, s->nccl.env.items[i].value);
    buf_release(&b);
    spec_free(again);
    spec_free(s);
}

TEST(json_is_json)
{
    struct spec_example e = spec_example_at(0);
    struct spec *s = load(e.text);
    struct arena a = { 0 };
    struct buf b = { 0 };
    struct json *doc = NULL;
    const struct json *spec;

    spec_show_json(s, &b);
    CHECK(json_parse(&a, buf_str(&b), b.len, &doc, NULL) == RC_OK);
    spec = json_get(doc, "spec");
    CHECK(str_eq(json_str(json_get(doc, "schema")), "stoker.spec-show/1"));
    CHECK(maybe_is(json_int(json_get(json_get(json_get(spec, "pools"), "world_model"), "size")),
                   64000000000));
    CHECK(json_get(doc, "origins")->count > 200);
    arena_release(&a);
    buf_release(&b);
    spec_free(s);
}

TEST(a_missing_file_is_an_error_with_its_name)
{
    struct err err = { 0 };
    struct spec *s = NULL;

    CHECK(spec_load("/nonexistent/stoker.yaml", &s, NULL, &err) == RC_NODEV);
    CHECK(strstr(err.msg, "could not open '/nonexistent/stoker.yaml'"));
    err = (struct err){ 0 };
    CHECK(spec_load("/", &s, NULL, &err) == RC_FAIL && strstr(err.msg, "could not read '/'"));
    CHECK(!s);
}

TEST(doc_knows_every_path)
{
    const struct term term = { 0 };
    struct err err = { 0 };
    struct buf b = { 0 };

    CHECK(spec_doc("nodes[0].gpu.memory", &term, &b, &err) == RC_OK);
    CHECK(str_starts(buf_str(&b), "nodes[].gpu.memory"));
    CHECK(spec_doc("pools.world_model.size", &term, &b, &err) == RC_OK);
    CHECK(spec_doc("components.x", &term, &b, &err) == RC_OK);
    CHECK(spec_doc(NULL, &term, &b, &err) == RC_OK);
    CHECK(spec_doc("nodes.gpus.x", &term, &b, &err) == RC_USAGE);
    buf_release(&b);
}

TEST_MAIN(cmocka_unit_test(every_row_of_the_schema_is_sound),
          cmocka_unit_test(choices_are_distinct), cmocka_unit_test(whole_numbers_of_every_kind),
          cmocka_unit_test(quantities_carry_their_unit), cmocka_unit_test(names_ranges_and_subnets),
          cmocka_unit_test(defaults_hold_without_a_file), cmocka_unit_test(values_know_their_line),
          cmocka_unit_test(aliases_share_and_crlf_and_bom_are_read), cmocka_unit_test(limits_hold),
          cmocka_unit_test(only_the_first_twenty_errors_are_kept),
          cmocka_unit_test(yaml_that_is_no_spec), cmocka_unit_test(rules_across_keys),
          cmocka_unit_test(examples_load_and_come_back_the_same),
          cmocka_unit_test(hostile_text_survives_the_way_back), cmocka_unit_test(json_is_json),
          cmocka_unit_test(a_missing_file_is_an_error_with_its_name),
          cmocka_unit_test(doc_knows_every_path))
