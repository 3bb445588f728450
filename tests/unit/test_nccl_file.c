/* SPDX-License-Identifier: MIT */
/* nccl.conf with the inventory of a machine: what NCCL would not find there itself is set with its
 * reason, the rest is left to it, and settings of the spec are judged on the machine. */
#include "nccl_machine.h"

#include "render/render.h"

#define SPEC(more)                                                                                 \
    "schema: stoker.spec/1\n"                                                                      \
    "nodes: [{name: g, gpus_per_node: 4, gpu: {model: H100, link: nvlink4}}]\n" more

struct result {
    struct render_set set;
    struct spec_diags diags;
    struct spec *spec;
    enum rc rc;
    const char *text; /* of nccl/nccl.conf; "" when there is none */
};

static void go(struct result *out, const char *spec, const struct hw *hw)
{
    const struct render_target *target = render_target_find("nccl");
    struct err err = { 0 };

    *out = (struct result){ .text = "" };
    assert_int_equal(spec_parse(spec, strlen(spec), "s.yaml", &out->spec, NULL, &err), RC_OK);
    out->rc = render_run(&(struct render_input){ .spec = out->spec,
                                                 .machines = &(struct render_machine){ .hw = hw },
                                                 .machine_count = hw != NULL,
                                                 .targets = &target,
                                                 .target_count = 1 },
                         &out->set, &out->diags, &err);
    for (size_t i = 0; i < out->set.count; i++)
        if (str_eq(out->set.files[i]->path, "nccl/nccl.conf"))
            out->text = buf_str(&out->set.files[i]->text);
}

static void end(struct result *r)
{
    render_set_release(&r->set);
    spec_diags_release(&r->diags);
    spec_free(r->spec);
}

static bool has(const struct result *r, const char *text)
{
    if (strstr(r->text, text))
        return true;
    print_error("no '%s' in:\n%s\n", text, r->text);
    return false;
}

TEST(a_pod_gets_what_nccl_would_not_find)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    struct result r;

    m->hw.place.hostname = "trainer-0";
    go(&r, SPEC(""), &m->hw);
    assert_int_equal(r.rc, RC_OK);
    CHECK(has(&r, "# From the inventory of trainer-0:\n"));
    CHECK(has(&r, "\nNCCL_CROSS_NIC=0\n")); /* four isolated rails */
    CHECK(has(&r, " is left unset:\n# "));
    CHECK(!strstr(r.text, "OMP_NUM_THREADS") && !strstr(r.text, "No inventory was given"));
    end(&r);
}

TEST(a_machine_of_nobody_is_not_asked)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    struct result r;

    m->hw.place.hostname = "stranger";
    go(&r,
       "schema: stoker.spec/1\n"
       "nodes:\n"
       "  - {name: a, gpus_per_node: 2, gpu: {model: H100}}\n"
       "  - {name: b, gpus_per_node: 8, gpu: {model: H100}}\n",
       &m->hw);
    assert_int_equal(r.rc, RC_OK);
    CHECK(has(&r, "No inventory was given"));
    assert_int_equal(r.diags.warning_count, 1);
    end(&r);
}

TEST(the_spec_is_judged_on_the_machine)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    struct result r;

    go(&r, SPEC("nccl: {env: {NCCL_IB_HCA: mlx5_99}}\n"), &m->hw);
    assert_int_equal(r.rc, RC_PARSE);
    assert_int_equal(r.diags.count, 1);
    assert_int_equal(r.diags.items[0].line, 3);
    CHECK(strstr(r.diags.items[0].msg, "NCCL_IB_HCA=mlx5_99: There is no RDMA port"));
    assert_int_equal(r.set.count, 0);
    end(&r);
    /* without the machine nobody knows its devices */
    go(&r, SPEC("nccl: {env: {NCCL_IB_HCA: mlx5_99}}\n"), NULL);
    assert_int_equal(r.rc, RC_OK);
    CHECK(has(&r, "\nNCCL_IB_HCA=mlx5_99\n"));
    end(&r);
}

TEST(the_spec_wins_over_the_machine)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    struct result r;

    m_env(m, "NCCL_DEBUG", "TRACE"); /* of the shell that made the inventory */
    go(&r, SPEC("nccl: {env: {NCCL_SOCKET_IFNAME: '=eth0'}}\n"), &m->hw);
    assert_int_equal(r.rc, RC_OK);
    CHECK(has(&r, "# nccl.env.NCCL_SOCKET_IFNAME\nNCCL_SOCKET_IFNAME==eth0\n"));
    CHECK(!strstr(r.text, "NCCL_DEBUG"));
    end(&r);
}

TEST_MAIN(cmocka_unit_test(a_pod_gets_what_nccl_would_not_find),
          cmocka_unit_test(a_machine_of_nobody_is_not_asked),
          cmocka_unit_test(the_spec_is_judged_on_the_machine),
          cmocka_unit_test(the_spec_wins_over_the_machine))
