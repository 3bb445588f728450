/* SPDX-License-Identifier: MIT */
/* What all checks share: groups, folding of rows, the lines for people, the JSON, the
 * page; and that a machine about which nothing is known passes nothing it cannot know. */
#include "test_health_fixture.h"

#include "base/text/json.h"

static const struct check_table *const tables[] = { &checks_gpu,      &checks_fabric,
                                                    &checks_catalog,  &checks_rdma,
                                                    &checks_training, &checks_container,
                                                    &checks_spec };

TEST(groups_parse)
{
    assert_int_equal(health_group_parse("gpu"), CHECK_GPU);
    assert_int_equal(health_group_parse("rdma,gpu"), CHECK_RDMA | CHECK_GPU);
    assert_int_equal(health_group_parse("all"), CHECK_ALL);
    assert_int_equal(health_group_parse("container,all"), CHECK_ALL);
    assert_int_equal(health_group_parse(""), 0);
    assert_int_equal(health_group_parse("gpu,"), 0);
    assert_int_equal(health_group_parse("gp"), 0);
    assert_int_equal(health_group_parse("gpu,nic"), 0);
}

/* Every check has words, a group its id begins with, and a remedy that ends as a
 * sentence does (seen over all rows in the other tests by fx_run()). */
TEST(every_check_is_well_formed)
{
    for (size_t t = 0; t < ARRAY_SIZE(tables); t++)
        for (size_t i = 0; i < tables[t]->count; i++) {
            const struct health_check *c = &tables[t]->rows[i];
            char group[32];

            assert_true(strlen(c->title) > 0 && strlen(c->title) <= 24);
            assert_true(c->doc && str_ends(c->doc, "."));
            assert_int_equal(!!c->fn + !!c->gpu + !!c->port, 1);
            snprintf(group, sizeof(group), "%.*s", (int)strcspn(c->id, "."), c->id);
            assert_true(health_group_parse(group) & c->groups);
            for (size_t u = 0; u < ARRAY_SIZE(tables); u++)
                for (size_t k = 0; k < tables[u]->count; k++)
                    assert_true(&tables[u]->rows[k] == c || !str_eq(tables[u]->rows[k].id, c->id));
        }
}

TEST(a_healthy_machine_has_nothing_to_complain)
{
    static struct fx f;
    AUTO(health_list_release) struct health_list l = { 0 };

    fx_good(&f);
    health_check(&f.hw, CHECK_ALL, NULL, &l);
    for (size_t i = 0; i < l.rows_count; i++)
        if (l.rows[i].status == CHECK_WARN || l.rows[i].status == CHECK_FAIL)
            fail_msg("%s: %s", l.rows[i].id, l.rows[i].evidence);
    assert_int_equal(health_worst(&l), CHECK_PASS);
}

/* An inventory without a single fact: a few checks say what they see (no container, no
 * swap limit …), none may claim that something is in order. */
TEST(nothing_known_passes_nothing)
{
    static const struct hw empty;
    AUTO(health_list_release) struct health_list l = { 0 };

    health_check(&empty, CHECK_ALL, NULL, &l);
    for (size_t i = 0; i < l.rows_count; i++)
        if (l.rows[i].status == CHECK_PASS && !str_eq(l.rows[i].id, "container.where"))
            fail_msg("%s passes without a fact: %s", l.rows[i].id, l.rows[i].evidence);
}

/* GPUs about which the driver says nothing at all. */
TEST(silent_gpus_pass_nothing)
{
    struct hw_gpu gpus[2] = { { .index = maybe_of(0), .state = "ok" },
                              { .index = maybe_of(1), .state = "ok" } };
    struct hw hw = { .gpus = gpus, .gpus_count = 2 };
    AUTO(health_list_release) struct health_list l = { 0 };

    health_check(&hw, CHECK_GPU, NULL, &l);
    for (size_t i = 0; i < l.rows_count; i++)
        if (l.rows[i].status == CHECK_PASS && !str_eq(l.rows[i].id, "gpu.present") &&
            !str_eq(l.rows[i].id, "gpu.visible") && !str_eq(l.rows[i].id, "gpu.errors"))
            fail_msg("%s passes without a fact: %s", l.rows[i].id, l.rows[i].evidence);
}

/* A check of several groups is answered once, under the first that was asked for. */
TEST(a_check_is_answered_once)
{
    static struct fx f;
    AUTO(health_list_release) struct health_list l = { 0 };
    size_t n = 0;

    fx_good(&f);
    health_check(&f.hw, CHECK_CONTAINER | CHECK_RDMA, NULL, &l);
    for (size_t i = 0; i < l.rows_count; i++)
        if (str_eq(l.rows[i].id, "rdma.memlock")) {
            assert_string_equal(l.rows[i].group, "rdma");
            n++;
        }
    assert_int_equal(n, 1);
    health_list_release(&l);
    health_check(&f.hw, CHECK_CONTAINER, NULL, &l);
    assert_string_equal(fx_find(&l, "rdma.memlock", CHECK_PASS, "")->group, "container");
    assert_null(fx_find(&l, "rdma.devices", CHECK_PASS, ""));
}

enum { MANY = 20 };

TEST(gpus_with_one_answer_share_a_row)
{
    static struct hw_gpu gpus[MANY];
    struct hw hw = { .gpus = gpus, .gpus_count = MANY };
    AUTO(health_list_release) struct health_list l = { 0 };

    for (size_t i = 0; i < MANY; i++)
        gpus[i] = (struct hw_gpu){ .index = maybe_of((int64_t)i),
                                   .state = "ok",
                                   .ecc = maybe_of(i != 4 && i != 7 && i != 8) };
    health_check(&hw, CHECK_GPU, NULL, &l);
    assert_non_null(fx_find(&l, "gpu.ecc", CHECK_PASS, "GPU 0-3,5-6,9-19: ECC is on"));
    assert_non_null(fx_find(&l, "gpu.ecc", CHECK_WARN, "GPU 4,7-8: ECC is off"));
    assert_int_equal(fx_find(&l, "gpu.ecc", CHECK_PASS, "")->objects_count, MANY - 3);
}

TEST(ports_with_one_answer_share_a_row)
{
    static struct hw_rdma devs[12];
    static struct hw_rdma_port ports[12];
    static char names[12][16];
    struct hw hw = { .rdma = devs, .rdma_count = 12 };
    AUTO(health_list_release) struct health_list l = { 0 };

    for (size_t i = 0; i < 12; i++) {
        snprintf(names[i], sizeof(names[i]), "mlx5_%zu", i + (i > 6));
        ports[i] = (struct hw_rdma_port){ .port = maybe_of(1), .state = "DOWN" };
        devs[i] = (struct hw_rdma){ .name = names[i], .ports = &ports[i], .ports_count = 1 };
    }
    health_check(&hw, CHECK_RDMA, NULL, &l);
    assert_non_null(fx_find(&l, "rdma.port", CHECK_FAIL, "mlx5_0-6,8-12/1: DOWN"));
    health_list_release(&l);
    for (size_t i = 0; i < 12; i++)
        snprintf(names[i], sizeof(names[i]), "rdma%c", (int)('a' + i)); /* no number to fold by */
    health_check(&hw, CHECK_RDMA, NULL, &l);
    assert_non_null(fx_find(&l, "rdma.port", CHECK_FAIL, "rdmah/1 and 4 more: DOWN"));
}

static void print_all(struct fx *f, struct term term, struct buf *out)
{
    AUTO(health_list_release) struct health_list l = { 0 };

    health_check(&f->hw, CHECK_GPU | CHECK_RDMA, NULL, &l);
    health_print(&l, &term, out);
}

TEST(lines_for_people)
{
    static struct fx f;
    AUTO(buf_release) struct buf out = { 0 };

    fx_good(&f);
    f.gpus[1].ecc = f.gpus[1].ecc_pending = maybe_of(0);
    f.hw.rdma_count = 0;
    print_all(&f, (struct term){ 0 }, &out);
    assert_true(str_starts(out.data, "gpu\n  PASS     GPUs "));
    assert_non_null(
        strstr(out.data, "  WARN     ECC                 GPU 1: ECC is off: bit errors"));
    assert_non_null(strstr(out.data, "\n           Switch it on with `nvidia-smi -e 1`"));
    assert_non_null(strstr(out.data, "\nrdma\n"));
    assert_non_null(strstr(out.data, " checks  ")); /* skipped ones share a line */
    assert_non_null(strstr(out.data, "no RDMA device here: uverbs nodes, verbs library"));
    assert_non_null(strstr(out.data, " 1 warning, 1 failed, "));
    assert_null(strchr(out.data, '\033'));
    buf_reset(&out);
    print_all(&f, (struct term){ .colour = true, .width = 100 }, &out);
    assert_non_null(strstr(out.data, "\033["));
}

/* No line is wider than the terminal, unless a word alone is. */
TEST(lines_wrap_at_the_terminal)
{
    static const int widths[] = { 40, 60, 80, 100 };
    static struct fx f;

    fx_good(&f);
    f.gpus[1].state = "lost";
    for (size_t i = 0; i < ARRAY_SIZE(widths); i++) {
        AUTO(buf_release) struct buf out = { 0 };

        print_all(&f, (struct term){ .width = widths[i] }, &out);
        for (const char *p = out.data; *p; p += strcspn(p, "\n") + 1)
            if ((int)strcspn(p, "\n") > widths[i] + 4) /* "°" is two bytes */
                fail_msg("width %d: %.*s", widths[i], (int)strcspn(p, "\n"), p);
    }
}

TEST(json_reads_back)
{
    static struct fx f;
    AUTO(health_list_release) struct health_list l = { 0 };
    AUTO(arena_release) struct arena a = { 0 };
    AUTO(buf_release) struct buf out = { 0 };
    struct json *doc;
    const struct json *first;

    fx_good(&f);
    f.gpus[0].ecc = maybe_of(0);
    health_check(&f.hw, CHECK_ALL, NULL, &l);
    health_json(&l, &out);
    assert_int_equal(json_parse(&a, out.data, out.len, &doc, NULL), RC_OK);
    assert_string_equal(json_str(json_get(doc, "schema")), "stoker.checks/1");
    assert_string_equal(json_str(json_get(doc, "worst")), "warn");
    assert_int_equal(json_get(doc, "checks")->count, l.rows_count);
    assert_int_equal(json_int(json_get(json_get(doc, "counts"), "warn")).v, 1);
    first = json_at(json_get(doc, "checks"), 0);
    assert_string_equal(json_str(json_get(first, "id")), "gpu.present");
    assert_string_equal(json_str(json_get(first, "status")), "pass");
    assert_int_equal(json_get(first, "remedy")->type, JSON_NULL);
}

TEST(the_page_names_every_check)
{
    AUTO(buf_release) struct buf out = { 0 };

    health_doc(&out);
    for (size_t t = 0; t < ARRAY_SIZE(tables); t++)
        for (size_t i = 0; i < tables[t]->count; i++) {
            char head[96];

            snprintf(head, sizeof(head), "\n### %s: ", tables[t]->rows[i].id);
            assert_non_null(strstr(out.data, head));
        }
}

TEST(versions)
{
    static const struct {
        const char *text;
        bool ok;
        int major, minor;
    } rows[] = {
        { "580.95.05", true, 580, 95 }, { "2.27.3", true, 2, 27 },
        { "12", true, 12, 0 },          { "2.8.0+cu129", true, 2, 8 },
        { "v2", false, 0, 0 },          { "", false, 0, 0 },
        { "2.", false, 0, 0 },          { "99999999999.1", true, 999999, 0 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        int major = 0, minor = 0;

        assert_int_equal(facts_version(rows[i].text, &major, &minor), rows[i].ok);
        assert_int_equal(major, rows[i].major);
        assert_int_equal(minor, rows[i].minor);
    }
    assert_false(facts_version(NULL, &(int){ 0 }, &(int){ 0 }));
    assert_int_equal(facts_version_cmp("2.21.5", 2, 21), 0);
    assert_int_equal(facts_version_cmp("2.9", 2, 21), -1);
    assert_int_equal(facts_version_cmp("13.0", 12, 1), 1);
}

/* What the spec asks for, on the good machine: driver 580, CUDA 13.0 and the rest of fx_good(). */
TEST(a_spec_is_held_against_the_machine)
{
    static const struct {
        const char *software, *id;
        enum check_status status;
        const char *seen;
    } rows[] = {
        { "driver: \"535\"", "spec.driver", CHECK_PASS, "535 is asked for (site.yaml:3" },
        { "driver: \"999.10\"", "spec.driver", CHECK_FAIL, "is older than 999.10 (site.yaml:3" },
        { "cuda: \"99.1\"", "spec.cuda", CHECK_FAIL, "software.cuda)" },
        { "nccl: \"2.1.1\"", "spec.nccl", CHECK_PASS, "NCCL 2." },
        { "nccl: \"2.999\"", "spec.nccl", CHECK_FAIL, "is older than 2.999" },
        { "nccl: newest", "spec.nccl", CHECK_UNKNOWN, "'newest' is not a version" },
        { "kernel: \"99\"", "spec.kernel", CHECK_FAIL, "kernel" },
        { "dcgm: false", "spec.dcgm", CHECK_SKIP, "does not ask" },
        { "dcgm: false", "spec.driver", CHECK_PASS, "software.driver by default" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char text[256];
        static struct fx f;
        struct spec *s = NULL;
        struct health_list l = { 0 };
        bool found = false;

        fx_good(&f);
        f.hw.place.kernel = "6.1.0-18-amd64";
        snprintf(text, sizeof(text), "schema: stoker.spec/1\nsoftware:\n  %s\n", rows[i].software);
        assert_int_equal(spec_parse(text, strlen(text), "site.yaml", &s, NULL, NULL), RC_OK);
        health_check(&f.hw, CHECK_SPEC, &(struct health_opts){ .spec = s }, &l);
        for (size_t k = 0; k < l.rows_count; k++)
            if (str_eq(l.rows[k].id, rows[i].id)) {
                found = true;
                if (l.rows[k].status != rows[i].status || !strstr(l.rows[k].seen, rows[i].seen))
                    fail_msg("%s: %s: %s", rows[i].software, health_status_name(l.rows[k].status),
                             l.rows[k].seen);
            }
        assert_true(found);
        health_list_release(&l);
        spec_free(s);
    }
}

TEST_MAIN(cmocka_unit_test(groups_parse), cmocka_unit_test(every_check_is_well_formed),
          cmocka_unit_test(a_healthy_machine_has_nothing_to_complain),
          cmocka_unit_test(nothing_known_passes_nothing),
          cmocka_unit_test(silent_gpus_pass_nothing), cmocka_unit_test(a_check_is_answered_once),
          cmocka_unit_test(gpus_with_one_answer_share_a_row),
          cmocka_unit_test(ports_with_one_answer_share_a_row), cmocka_unit_test(lines_for_people),
          cmocka_unit_test(lines_wrap_at_the_terminal), cmocka_unit_test(json_reads_back),
          cmocka_unit_test(the_page_names_every_check), cmocka_unit_test(versions),
          cmocka_unit_test(a_spec_is_held_against_the_machine))
