/* SPDX-License-Identifier: MIT */
/* derive: mixed sites: NICs by group, components over several groups, what a GPU model decides. */
#include "base/str.h"
#include "spec/spec.h"
#include "test.h"

static const char SITE[] =
    "nodes:\n"
    "  - {name: h100, count: 4, gpus_per_node: 8, gpu: {model: H100}, fabrics: [rails]}\n"
    "  - name: a100\n"
    "    count: 2\n"
    "    gpus_per_node: 4\n"
    "    gpu: {model: a100-80gb}\n"
    "    fabrics: [rails]\n"
    "    nics:\n"
    "      rails: {rate: 200Gb/s, hcas: [mlx5_0, mlx5_3], interfaces: [p0, p1]}\n"
    "  - {name: l40s, count: 3, gpus_per_node: 4, gpu: {model: L40S}}\n"
    "  - {name: nvl, count: 18, gpus_per_node: 4, gpu: {model: GB200}, nvlink_domain: 72}\n"
    "  - {name: old, gpus_per_node: 1, gpu: {model: H100, link: pcie}}\n"
    "fabrics:\n"
    "  - {name: rails, kind: roce, rate: 400Gb/s, nics_per_node: 8}\n"
    "components:\n"
    "  wide: {nodes: [h100, a100], gpus: 4, nodes_per_replica: 6, queued: true, target: slurm}\n"
    "  one: {nodes: l40s, gpus: 4, replicas: 3}\n"
    "targets: {slurm: {}}\n";

static struct spec *load(const char *text)
{
    struct spec *s = NULL;
    struct err err = { 0 };

    if (spec_parse(text, strlen(text), "test.yaml", &s, NULL, &err))
        fail_msg("%s", err.msg);
    return s;
}

/* Loads `text` and expects one error whose message holds `part`. */
static void refuses(const char *text, const char *part)
{
    struct spec_diags d = { 0 };
    struct spec *s = NULL;
    struct err err = { 0 };

    CHECK(spec_parse(text, strlen(text), "test.yaml", &s, &d, &err) == RC_PARSE);
    if (d.count != 1 || !strstr(d.items[0].msg, part))
        fail_msg("%zu: %s", d.count, d.items[0].msg);
    spec_diags_release(&d);
}

TEST(nics_of_a_group)
{
    struct spec *s = load(SITE);
    const struct spec_fabric *f = &s->fabrics[0];
    struct spec_nics_of v = spec_group_nics(spec_node_find(s, "h100"), f);

    CHECK(v.count == 8 && v.rate_bps == 400000000000 && v.hcas == &f->hcas);
    CHECK(v.count_at == &f->nics_per_node && f->nics_most == 8);
    v = spec_group_nics(spec_node_find(s, "a100"), f);
    CHECK(v.count == 2 && v.rate_bps == 200000000000 && v.hcas->count == 2);
    CHECK(str_eq(v.hcas->items[1], "mlx5_3") && spec_where(s, v.hcas).line == 9);
    CHECK(spec_group_nics(NULL, f).count == 8);
    CHECK(spec_group_on(spec_node_find(s, "a100"), f));
    CHECK(!spec_group_on(spec_node_find(s, "l40s"), f));
    spec_free(s);
}

TEST(groups_of_a_component)
{
    struct spec *s = load(SITE);
    const struct spec_component *c = spec_component_find(s, "wide");

    CHECK(spec_component_group_count(s, c) == 2 && str_eq(c->nodes, "h100"));
    CHECK(spec_component_group(s, c, 1) == spec_node_find(s, "a100"));
    CHECK(!spec_component_group(s, c, 2));
    CHECK(spec_component_on(s, c, spec_node_find(s, "a100")));
    CHECK(!spec_component_on(s, c, spec_node_find(s, "l40s")));
    CHECK(spec_where(s, &c->nodes).line == 16 && spec_where(s, &c->groups).line == 16);
    c = spec_component_find(s, "one");
    CHECK(spec_component_group_count(s, c) == 1 && str_eq(c->nodes, "l40s"));
    spec_free(s);
}

TEST(the_model_decides_link_and_architecture)
{
    static const struct {
        const char *group;
        enum spec_link link;
        enum spec_arch arch;
        int64_t joined;
    } rows[] = {
        { "h100", SPEC_LINK_NVLINK4, SPEC_ARCH_X86_64, 8 },
        { "a100", SPEC_LINK_NVLINK3, SPEC_ARCH_X86_64, 4 },
        { "l40s", SPEC_LINK_PCIE, SPEC_ARCH_X86_64, 1 },
        { "nvl", SPEC_LINK_NVLINK5, SPEC_ARCH_AARCH64, 72 },
        { "old", SPEC_LINK_PCIE, SPEC_ARCH_X86_64, 1 },
    };
    struct spec *s = load(SITE);

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct spec_node *n = spec_node_find(s, rows[i].group);

        CHECK(n->gpu->link == rows[i].link && n->arch == rows[i].arch);
        CHECK(spec_group_nvlink_gpus(n) == rows[i].joined);
    }
    spec_free(s);
}

TEST(contradictions_are_refused)
{
    refuses("nodes:\n  - {name: a, fabrics: [x], nics: {y: {count: 2}}}\n"
            "fabrics:\n  - {name: x, kind: infiniband, rate: 400Gb/s}\n",
            "'a' is not on a fabric 'y'");
    refuses("nodes:\n  - {name: a, fabrics: [x], nics: {x: {count: 2, hcas: [mlx5_0]}}}\n"
            "fabrics:\n  - {name: x, kind: infiniband, rate: 400Gb/s}\n",
            "has 1 RDMA devices but 2 NICs");
    refuses("nodes:\n  - {name: a, fabrics: [x], nics: {x: {count: 2}}}\n"
            "fabrics:\n  - {name: x, kind: roce, rate: 400Gb/s, interfaces: [net1]}\n",
            "whose interfaces are 1 others");
    refuses("nodes:\n  - {name: a, gpus_per_node: 4, gpu: {model: L40S}, nvlink_domain: 8}\n",
            "has an NVLink domain but no NVLink");
    refuses("nodes:\n  - {name: a, gpus_per_node: 8, gpu: {model: GB200}, nvlink_domain: 36}\n",
            "is not a multiple of the machine's");
    refuses("nodes:\n  - {name: a}\ncomponents:\n  c: {nodes: [a, a]}\n",
            "names node group 'a' twice");
    refuses("nodes:\n  - {name: a}\ncomponents:\n  c: {nodes: []}\n", "names no group");
    refuses("nodes:\n  - {name: a}\ncomponents:\n  c: {nodes: [a, b]}\n", "there is no node group");
}

TEST(storage_kinds)
{
    struct spec *s = load("storage:\n"
                          "  - {name: a, kind: gpfs, path: /gpfs}\n"
                          "  - {name: b, kind: weka, path: /weka}\n"
                          "  - {name: c, kind: beegfs, path: /beegfs}\n"
                          "  - {name: d, kind: ceph, path: /ceph}\n"
                          "  - {name: e, kind: object, source: s3://b}\n");

    for (size_t i = 0; i < s->storage_count; i++)
        CHECK(spec_storage_is_shared_fs(s->storage[i].kind) == (i < 4));
    spec_free(s);
}

TEST_MAIN(cmocka_unit_test(nics_of_a_group), cmocka_unit_test(groups_of_a_component),
          cmocka_unit_test(the_model_decides_link_and_architecture),
          cmocka_unit_test(contradictions_are_refused), cmocka_unit_test(storage_kinds))
