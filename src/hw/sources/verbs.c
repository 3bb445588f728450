/* SPDX-License-Identifier: MIT */
/* verbs: what a program here needs to open an RDMA device: libibverbs, and its provider for
 * the device's driver (libmlx5-rdmav34.so for mlx5_core).
 *
 * NCCL loads libibverbs.so.1 at run time and goes over TCP without; a device whose provider is
 * missing is not in the list that libibverbs gives.  Images that were built small often have
 * the library only: the providers are a package of their own.  A capture that does not have
 * the providers' folder may be older than this question, so it does not tell. */
#include "hw/hw_int.h"

#include "base/str.h"

enum {
    PROVIDERS_MAX = 64, /* providers listed */
    PROVIDER_WORD_MAX = 64
};

static const struct {
    const char *driver, *provider; /* of the PCI function; of "lib…-rdmav34.so" */
} providers[] = {
    { "mlx5_core", "mlx5" }, { "mlx4_core", "mlx4" }, { "bnxt_en", "bnxt_re" },
    { "efa", "efa" },        { "ice", "irdma" },      { "irdma", "irdma" },
    { "i40e", "irdma" },     { "mana", "mana" },      { "hns3", "hns" },
    { "qede", "qedr" },      { "cxgb4", "cxgb4" },    { "erdma", "erdma" },
};

static void provider_add(struct hw_build *b, const char *dir, const char *file)
{
    struct hw_nccl *n = &b->hw->nccl;
    const char *end = strstr(file, "-rdmav");
    const char **names;

    /* looked at one by one, so that a capture has them */
    if (!str_starts(file, "lib") || !end || end - file - 3 >= PROVIDER_WORD_MAX ||
        n->verbs_providers_count == PROVIDERS_MAX || !root_exists(b->root, "%s/%s", dir, file))
        return;
    names = arena_array(b->a, const char *, n->verbs_providers_count + 1);
    for (size_t i = 0; i < n->verbs_providers_count; i++)
        names[i] = n->verbs_providers[i];
    names[n->verbs_providers_count++] = arena_strndup(b->a, file + 3, (size_t)(end - file - 3));
    n->verbs_providers = names;
}

void hw_verbs_find(struct hw_build *b, const char *library)
{
    struct hw_nccl *n = &b->hw->nccl;
    struct arena tmp = { 0 };
    struct root_names names;
    char dir[ROOT_PATH_MAX];

    n->verbs = maybe_of(library || hw_soft_found(b->hw, "rdma-core"));
    if (!library)
        return;
    snprintf(dir, sizeof(dir), "%.*s/libibverbs", (int)(strrchr(library, '/') - library), library);
    if (root_list(b->root, &tmp, dir, &names) == 0) {
        n->verbs_told = maybe_of(1);
        for (size_t i = 0; i < names.count; i++)
            provider_add(b, dir, names.items[i]);
    } else if (root_is_live(b->root)) {
        n->verbs_told = maybe_of(1);
    }
    arena_release(&tmp);
}

const char *hw_verbs_lacks(const struct hw *hw, const struct hw_rdma *r)
{
    const struct hw_nccl *n = &hw->nccl;
    const char *want = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(providers); i++)
        if (str_eq(r->driver, providers[i].driver))
            want = providers[i].provider;
    for (size_t i = 0; want && i < n->verbs_providers_count; i++)
        if (str_eq(n->verbs_providers[i], want))
            return NULL;
    return maybe_is(n->verbs_told, 1) ? want : NULL;
}
