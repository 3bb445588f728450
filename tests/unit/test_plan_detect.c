/* SPDX-License-Identifier: MIT */
/* Hardware from an inventory, rates that were measured, and models that were. */
#include "test.h"

#include "plan/memory/step_memory_int.h"
#include "plan/plan_int.h"

#include <math.h>

static const char node[] =
    "{\"schema\":\"stoker.inventory/1\",\"gpus\":["
    "{\"state\":\"ok\",\"name\":\"NVIDIA H100 80GB HBM3\",\"mem_total_bytes\":85520809984,"
    "\"mem_reserved_bytes\":577765376,\"power_limit_mw\":700000,\"mig\":false,"
    "\"nvlinks_total\":2,\"nvlinks\":[{\"active\":true},{\"active\":true}]},"
    "{\"state\":\"ok\",\"name\":\"NVIDIA H100 80GB HBM3\",\"mem_total_bytes\":85520809984,"
    "\"mem_reserved_bytes\":677765376,\"power_limit_mw\":500000,\"mig\":false,"
    "\"nvlinks_total\":2,\"nvlinks\":[{\"active\":true},{\"active\":false}]},"
    "{\"state\":\"lost\",\"name\":\"NVIDIA H100 80GB HBM3\"}],"
    "\"rdma\":[{\"driver\":\"mlx5_core\",\"vf\":false,\"ports\":[{\"state\":\"ACTIVE\","
    "\"rate_mbps\":400000}]},{\"driver\":\"mlx5_core\",\"vf\":false,\"ports\":[{\"state\":"
    "\"ACTIVE\",\"rate_mbps\":400000}]},{\"driver\":\"mlx5_core\",\"vf\":false,\"ports\":[{"
    "\"state\":\"ACTIVE\",\"rate_mbps\":400000}]},{\"driver\":\"mlx5_core\",\"vf\":false,"
    "\"ports\":[{\"state\":\"DOWN\",\"rate_mbps\":400000},{\"state\":\"ACTIVE\","
    "\"rate_mbps\":200000}]}]%s}";

static void read_node(const char *more, int64_t gpus, struct plan_cluster *out)
{
    char text[4096];
    struct err err = { 0 };
    int len = snprintf(text, sizeof(text), node, more);

    if (plan_cluster_from_detect(text, (size_t)len, gpus, out, &err))
        fail_msg("%s", err.msg);
}

TEST(a_node_as_it_is)
{
    struct plan_cluster c;

    read_node("", 0, &c);
    CHECK(c.gpus == 2 && c.node_gpus == 2 && c.fabric == PLAN_FABRIC_RDMA);
    CHECK(c.gpu.mem_bytes == 85520809984 - 677765376); /* of the GPU that has least */
    CHECK(c.gpu.power_w == 500);
    CHECK(c.gpu.link_bytes_s == 450e9 / 2); /* a link is down */
    CHECK(c.net_bytes_s == 2 * 50e9);       /* the third adapter is one too many for two GPUs */
    read_node("", 8, &c);
    CHECK(c.gpus == 8 && c.node_gpus == 2);
}

TEST(measured_rates_are_what_is_reached)
{
    struct plan_cluster c;

    read_node(",\"measured\":{\"bf16_tflops\":397,\"memory_gb_s\":2550}", 0, &c);
    CHECK(fabs(c.gpu.bf16_flops / 989e12 - 397.0 / 794) < 0.01); /* half of the best: 794 */
    CHECK(fabs(c.gpu.mem_bytes_s * 0.85 / 2550e9 - 1) < 1e-9);
    CHECK(c.gpu.note[0]);
}

TEST(inventories_that_cannot_be)
{
    static const struct {
        const char *text;
        enum rc rc;
    } rows[] = {
        { "{}", RC_PARSE },
        { "[", RC_PARSE },
        { "{\"schema\":\"stoker.inventory/1\"}", RC_NODEV },
        { "{\"schema\":\"stoker.inventory/1\",\"gpus\":[{\"name\":\"X\"}]}", RC_USAGE },
        { "{\"schema\":\"stoker.inventory/1\",\"gpus\":[{\"name\":\"NVIDIA H200\",\"mig\":true}]}",
          RC_USAGE },
        { "{\"schema\":\"stoker.inventory/1\",\"gpus\":[{\"name\":\"NVIDIA H200\"},"
          "{\"name\":\"NVIDIA H100 80GB HBM3\"}]}",
          RC_USAGE },
        { "{\"schema\":\"stoker.inventory/1\",\"gpus\":[{\"name\":\"NVIDIA H200\"}],"
          "\"measured\":{\"memory_gb_s\":-1}}",
          RC_USAGE },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct plan_cluster c;
        struct err err = { 0 };

        CHECK(plan_cluster_from_detect(rows[i].text, strlen(rows[i].text), 0, &c, &err) ==
              rows[i].rc);
        CHECK(err.msg[0]);
    }
}

TEST(a_model_that_was_measured)
{
    struct plan_recompute_share none = { 0, 0 };
    struct plan_memory_stage s;
    struct plan_config c;
    struct plan_counts n;
    struct plan_model m;

    CHECK(!plan_model_measured(86e6, 105e9, 250e6, &m, NULL) && !plan_model_counts(&m, &n, NULL));
    CHECK(n.total == 86000000 && n.active == n.total);
    CHECK(plan_flops_token(&m, 1, PLAN_FLOPS_FULL, none) == 105e9);
    plan_config_init(&c);
    c.micro_batch = 32;
    c.dp = 8;
    CHECK(plan_config_rule(&m, NULL, &c) == PLAN_RULE_OK);
    plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &s);
    CHECK(s.kind[PLAN_MEM_ACTIVATIONS] == UINT64_C(8000000000));
    CHECK(s.kind[PLAN_MEM_OPTIMIZER] == 86000000 * 12 && !s.kind[PLAN_MEM_LOGITS]);
    c.zero = 1;
    plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &s);
    CHECK(s.kind[PLAN_MEM_OPTIMIZER] == 86000000 * 12 / 8);
    c.tp = 2; /* nothing is known of its layers */
    CHECK(plan_config_rule(&m, NULL, &c) != PLAN_RULE_OK);
    CHECK(plan_model_measured(0, 0, 0, &m, NULL) == RC_USAGE);
    CHECK(plan_model_measured(1e18, 0, 0, &m, NULL) == RC_USAGE);
    CHECK(plan_model_measured(1e6, 0, NAN, &m, NULL) == RC_USAGE);
}

TEST_MAIN(cmocka_unit_test(a_node_as_it_is), cmocka_unit_test(measured_rates_are_what_is_reached),
          cmocka_unit_test(inventories_that_cannot_be), cmocka_unit_test(a_model_that_was_measured))
