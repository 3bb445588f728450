/* SPDX-License-Identifier: MIT */
/* nccl: an inventory in JSON, environment and all, through the choice, the exports,
 * the lint and the explanations. */
#include "fuzz.h"

#include "nccl/nccl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "NCCL_IB_GID_INDEX", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME",
                                         "NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL" };
    struct nccl_opts opts = { .mode = NCCL_FULL };
    struct buf out = { 0 };
    struct nccl_choice c;
    struct nccl_env env;
    struct hw *hw;

    if (hw_read_json((const char *)data, size, &hw, NULL))
        return 0;
    nccl_choose(hw, &c);
    nccl_choice_release(&c);
    nccl_env_make(hw, NULL, &env);
    nccl_env_write(&env, &out);
    nccl_env_release(&env);
    nccl_write_json(hw, &opts, &out);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (nccl_why(hw, names[i], NULL, size & 1, &out, NULL))
            break;
    buf_release(&out);
    hw_free(hw);
    return 0;
}
