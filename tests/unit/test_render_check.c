/* SPDX-License-Identifier: MIT */
/* What cannot be rendered is refused where it stands (spec/check*.c, render/render_check.c). */
#include "test.h"

#include "base/str.h"
#include "render/render_int.h"
#include "spec/spec_int.h"

#include <stdio.h>

static const char NODES[] = "nodes:\n"                                      /* 1 */
                            "  - {name: gpu, count: 4, gpus_per_node: 8,\n" /* 2 */
                            "     gpu: {model: H100}, cpu_cores: 10,\n"     /* 3 */
                            "     memory: 100GB}\n"                         /* 4 */
                            "  - {name: cpu, count: 2, role: cpu}\n"        /* 5 */
                            "targets: {slurm: {}, compose: {}, systemd: {}}\n" /* 6 */;

/* The file by itself, then what the targets need of it: the two stages of one judgement. */
static enum rc judged(const char *text, struct spec **s, struct render_set *set,
                      struct spec_diags *diags)
{
    struct err err = { 0 };
    enum rc rc = spec_parse(text, strlen(text), "t.yaml", s, diags, &err);

    return rc ? rc : render_run(&(struct render_input){ .spec = *s }, set, diags, &err);
}

static void refused(const char *more, int line, const char *what)
{
    char text[8192];
    struct render_set set = { 0 };
    struct spec_diags diags = { 0 };
    struct spec *s = NULL;

    (void)snprintf(text, sizeof(text), "%s%s", NODES, more);
    assert_int_equal(judged(text, &s, &set, &diags), what ? RC_PARSE : RC_OK);
    assert_int_equal(diags.count, what ? 1 : 0);
    if (what) {
        if (diags.items[0].line != line || !strstr(diags.items[0].msg, what))
            print_message("# %s:%d: %s\n", more, diags.items[0].line, diags.items[0].msg);
        assert_int_equal(diags.items[0].line, line);
        assert_non_null(strstr(diags.items[0].msg, what));
    }
    render_set_release(&set);
    spec_diags_release(&diags);
    spec_free(s);
}

/* As refused(), with the group of GPU machines instead of NODES. */
static void group(const char *keys, const char *what)
{
    char text[4096];
    struct render_set set = { 0 };
    struct spec_diags diags = { 0 };
    struct spec *s = NULL;

    (void)snprintf(text, sizeof(text), "nodes:\n  - {name: a, %s}\n  - {name: b, count: 2}\n",
                   keys);
    assert_int_equal(judged(text, &s, &set, &diags), what ? RC_PARSE : RC_OK);
    if (what && !strstr(diags.items[0].msg, what))
        print_message("# %s: %s\n", keys, diags.items[0].msg);
    if (what)
        assert_non_null(strstr(diags.items[0].msg, what));
    render_set_release(&set);
    spec_diags_release(&diags);
    spec_free(s);
}

TEST(examples_pass)
{
    for (size_t i = 0; i < spec_example_count(); i++) {
        struct spec_example e = spec_example_at(i);
        struct render_set set = { 0 };
        struct spec_diags diags = { 0 };
        struct spec *s = NULL;
        struct err err = { 0 };

        assert_int_equal(spec_parse(e.text, e.len, e.name, &s, NULL, &err), RC_OK);
        assert_int_equal(render_run(&(struct render_input){ .spec = s }, &set, &diags, &err),
                         RC_OK);
        spec_free(s);
    }
}

TEST(host_lists)
{
    group("count: 4, hosts: 'gpu[1-4]'", NULL);
    group("count: 5, hosts: 'gpu[1-2,7],x,y'", NULL);
    group("count: 4, hosts: 'gpu[1-5]'", "names 5 machines, but its count is 4");
    group("hosts: 'gpu[1-2]'", "names 2 machines, but its count is 1");
    group("count: 2, hosts: 'b[2-3]'", "machine 'b2' is in node group");
    group("count: 3, hosts: 'x,y,x'", "names machine 'x' twice");
    group("hosts: 'gpu[1-'", "one pair of brackets");
    group("hosts: 'gpu[a-b]'", "brackets hold numbers");
    group("hosts: 'gpu[4-1]'", "goes upwards");
    group("hosts: 'gpu[1-9999999999]'", "at most 9 digits");
    group("hosts: 'a,,b'", "beside a comma");
    group("hosts: '$(reboot)'", "letters, digits");
    group("hosts: -rf", "begin with '-'");
    group("hosts: a2345678901234567890123456789012345678901234567890123456789012345", "too long");
}

TEST(switches)
{
    const char *fabric = "fabrics:\n  - name: ib\n    kind: infiniband\n    rate: 400Gb/s\n"
                         "    switches:\n      leaf: {hosts: 'gpu[%s]'}\n";
    char text[512];

    (void)snprintf(text, sizeof(text), fabric, "1-4");
    refused(text, 0, NULL);
    (void)snprintf(text, sizeof(text), fabric, "1-5");
    refused(text, 12, "switch 'leaf' names machine 'gpu5'");
    (void)snprintf(text, sizeof(text), fabric, "1-x");
    refused(text, 12, "brackets hold");
    refused("fabrics:\n  - {name: a, kind: roce, rate: 1Gb/s, switches: {s1: {hosts: gpu1}}}\n"
            "  - {name: b, kind: roce, rate: 1Gb/s, switches: {s1: {hosts: gpu2}}}\n",
            9, "switch 's1' has the name");
}

TEST(memory)
{
    refused("pools:\n  a: {size: 60GB}\n  b: {size: 20GB}\n", 0, NULL);
    refused("pools:\n  a: {size: 60GB}\n  b: {size: 40GB}\n", 9, "a H100 has");
    refused("components:\n  x: {nodes: gpu, memory: 101GB}\n", 8, "asks for 101GB of memory");
    refused("components:\n  x: {nodes: gpu, cpus: 21}\n", 8, "asks for 21 CPUs");
    refused("components:\n  x: {nodes: gpu, cpus: 20, memory: 100GB}\n", 0, NULL);
}

TEST(ports)
{
    const char *serving =
        "components:\n  s: {kind: serving, nodes: gpu, ports: [{name: http, port: "
        "8003}]}\n  w: {nodes: %s, ports: [{name: http, port: %d}]}\n%s";
    static const struct {
        const char *nodes;
        int port;
        const char *more, *what;
        int line;
    } rows[] = {
        { "gpu", 8010, "", NULL, 0 },
        { "cpu", 8002, "", NULL, 0 }, /* other machines */
        { "gpu", 8002, "", "component 'w' and by the model server's rerank port", 9 },
        { "gpu", 8010, "serve: {rerank_port: 8003}\n", "the model server and by", 10 },
        { "gpu", 8010, "serve: {rerank_port: 8090}\n", "by the agent", 10 },
        { "gpu", 8010, "agent: {metrics_port: 8002}\n", "by the agent's metrics", 10 },
        { "gpu", 8010, "agent: {metrics_port: 8002, enabled: false}\n", NULL, 0 },
        { "cpu", 8005, "serve: {port: 8005}\nmodels: {m: {source: /m, kind: embedding}}\n",
          "component 'w' and by the model server", 9 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char text[1024];

        (void)snprintf(text, sizeof(text), serving, rows[i].nodes, rows[i].port, rows[i].more);
        refused(text, rows[i].line, rows[i].what);
    }
    refused("components:\n  w: {nodes: gpu, ports: [{name: a-b, port: 1}, {name: a_b, port: 2}]}\n",
            8, "port 'a_b' has the name");
}

TEST(images)
{
    static const char *const good[] = {
        "ubuntu",
        "ubuntu:22.04",
        "a/b",
        "localhost/x",
        "localhost:5000/x:latest",
        "registry.example.org/a/b-c__d.e:1.4_x-y",
        "x@sha256:0123456789012345678901234567890123456789012345678901234567890123",
        "Host.example.org:443/a/b:T@sha256:01234567890123456789012345678901",
        "image-registry.openshift-image-registry.svc:5000/rdma/trainer:latest",
    };
    static const char *const bad[] = {
        "Ubuntu", "a//b",        "a/",       "a:",          "a:b:c",
        "a b",    "a@sha256:12", "a@",       ":tag",        "a/B",
        "a..b",   "a___b",       "-a",       "a-",          "host.org:port/a",
        "a:-tag", "$(x)",        "a;b",      "a:t@sha256:", "A.example.org",
        "'",      "a.-b",        "\xc3\xa4", "x\ty",
    };
    char text[512];

    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        (void)snprintf(text, sizeof(text), "components:\n  x: {image: \"%s\"}\n", good[i]);
        refused(text, 0, NULL);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        (void)snprintf(text, sizeof(text), "components:\n  x: {image: \"%s\"}\n", bad[i]);
        if (strpbrk(bad[i], " \t")) /* the schema has refused it before */
            continue;
        refused(text, 8, "is not an image");
    }
}

TEST(names)
{
    refused(
        "alerts:\n  a-b: {metric: gpu_memory, warn: 1%}\n  a_b: {metric: gpu_memory, warn: 1%}\n",
        9, "alert 'a_b' has the name");
    refused(
        "alerts:\n  a-b: {metric: gpu_memory, warn: 1%}\n  a-c: {metric: gpu_memory, warn: 1%}\n",
        0, NULL);
}

/* Thousands of names in one list, each of them once. */
TEST(many_hosts)
{
    struct buf b = { 0 };
    struct spec_walk w;
    struct spec_node n = { .name = "n", .count = 6000 };
    int64_t count = 0, i = 0;
    char name[SPEC_NAME_MAX + 12];

    for (int k = 0; k < 3000; k++)
        buf_addf(&b, "%sh%04d,g%d[07]", k ? "," : "", k, k);
    assert_null(spec_hosts_fault(buf_str(&b), &count));
    assert_int_equal(count, 6000);
    n.hosts = buf_str(&b);
    for (spec_walk(&w, &n); spec_walk_next(&w); i++) {
        if (i % 500 == 1 || i % 500 == 2) {
            assert_true(spec_host(&n, i, name, sizeof(name)));
            assert_string_equal(name, w.name);
        }
    }
    assert_int_equal(i, 6000);
    buf_release(&b);
}

TEST(walks)
{
    static const struct {
        const char *hosts, *all;
    } rows[] = {
        { "a", "a " },
        { "gpu[1-3]", "gpu1 gpu2 gpu3 " },
        { "gpu[08-11]", "gpu08 gpu09 gpu10 gpu11 " },
        { "gpu[9-10,1,003]-ib", "gpu9-ib gpu10-ib gpu1-ib gpu003-ib " },
        { "a,b[1,3],c", "a b1 b3 c " },
        { "[1-2]x", "1x 2x " },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct spec_node n = { .name = "n", .hosts = rows[i].hosts };
        struct spec_walk w;
        struct buf got = { 0 };
        char name[SPEC_NAME_MAX + 12];
        int64_t k = 0;

        assert_null(spec_hosts_fault(rows[i].hosts, &n.count));
        for (spec_walk(&w, &n); spec_walk_next(&w); k++) {
            buf_addf(&got, "%s ", w.name);
            assert_true(spec_host(&n, k, name, sizeof(name)));
            assert_string_equal(name, w.name);
        }
        assert_false(spec_host(&n, k, name, sizeof(name)));
        assert_int_equal(k, n.count);
        assert_string_equal(buf_str(&got), rows[i].all);
        buf_release(&got);
    }
    {
        struct spec_node n = { .name = "gpu", .count = 2 };
        struct spec_walk w;

        spec_walk(&w, &n);
        assert_true(spec_walk_next(&w));
        assert_string_equal(w.name, "gpu1");
        assert_true(spec_walk_next(&w));
        assert_string_equal(w.name, "gpu2");
        assert_false(spec_walk_next(&w));
    }
}

TEST_MAIN(cmocka_unit_test(examples_pass), cmocka_unit_test(host_lists), cmocka_unit_test(switches),
          cmocka_unit_test(memory), cmocka_unit_test(ports), cmocka_unit_test(images),
          cmocka_unit_test(names), cmocka_unit_test(many_hosts), cmocka_unit_test(walks))
