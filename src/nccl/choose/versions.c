/* SPDX-License-Identifier: MIT */
/* versions: several NCCLs on one machine.
 *
 * The answer is for the one that a job loads (hw_nccl_soft()); which one that is, the program
 * decides in the end: PyTorch from a wheel brings its own, a program of the system takes the
 * system's.  So the choice is made again for each other release found here, and where the two
 * differ in anything that is used, the answer says so.  One that LD_PRELOAD names is every
 * program's, and one that a log of NCCL told is the job's own. */
#include "nccl/nccl_int.h"

#include "base/str.h"

enum { VERSIONS_MAX = 8 }; /* other releases looked at */

static const char *ports_difference(const struct nccl_choice *a, const struct nccl_choice *b)
{
    for (size_t i = 0; i < a->ports_count && i < b->ports_count; i++) {
        const struct nccl_port *p = &a->ports[i], *q = &b->ports[i];

        if (p->used != q->used || p->wanted != q->wanted)
            return "the RDMA ports";
        if (p->gid_index.known != q->gid_index.known ||
            maybe_or(p->gid_index, -1) != maybe_or(q->gid_index, -1))
            return "the RoCE address (GID index)";
    }
    return str_eq(a->gid_range, b->gid_range) ? NULL : "the RoCE address (GID index)";
}

static const char *gpus_difference(const struct nccl_choice *a, const struct nccl_choice *b)
{
    for (size_t i = 0; i < a->gdr_count && i < b->gdr_count; i++)
        if (maybe_or(a->gdr[i].use, -1) != maybe_or(b->gdr[i].use, -1))
            return "GPUDirect RDMA";
    for (size_t i = 0; i < a->p2p_count && i < b->p2p_count; i++)
        if (!str_eq(a->p2p[i].transport, b->p2p[i].transport))
            return "the way between GPUs";
    return str_eq(a->mnnvl, b->mnnvl) ? NULL : "NVLink to other machines";
}

/* What of the two choices is not the same; NULL: all that is used is. */
static const char *choice_difference(const struct nccl_choice *a, const struct nccl_choice *b)
{
    const char *ports = ports_difference(a, b);

    if (!str_eq(a->net, b->net))
        return "the network";
    if (!str_eq(a->socket_if, b->socket_if) || !str_eq(a->wire_if, b->wire_if))
        return "the interface it starts over";
    if (ports)
        return ports;
    if (gpus_difference(a, b))
        return gpus_difference(a, b);
    return a->doubts_count == b->doubts_count ? NULL : "what can be told";
}

/* The same machine with nothing but this NCCL. */
static struct hw hw_with(const struct nccl_run *s, const struct hw_soft *nccl)
{
    struct hw copy = *s->hw;

    copy.software = arena_array(s->a, struct hw_soft, copy.software_count + 1);
    copy.software_count = 0;
    copy.software[copy.software_count++] = *nccl;
    for (size_t i = 0; i < s->hw->software_count; i++)
        if (!str_eq(s->hw->software[i].name, "nccl"))
            copy.software[copy.software_count++] = s->hw->software[i];
    return copy;
}

static bool seen_before(const struct hw *hw, size_t row)
{
    for (size_t i = 0; i < row; i++)
        if (str_eq(hw->software[i].name, "nccl") &&
            str_eq(hw->software[i].version, hw->software[row].version))
            return true;
    return false;
}

static void version_tell(struct nccl_run *s, const struct hw_soft *ours,
                         const struct hw_soft *other, const char *what)
{
    nccl_doubt(s,
               "Several NCCLs are here: this is what %s of %s does, which the loader finds first; "
               "%s of %s differs in %s.  Ask where the job runs, or keep only one.",
               ours->version ? ours->version : "2.30 (the version is not told)", ours->path,
               other->version ? other->version : "one that tells no version",
               other->path ? other->path : "this machine", what);
}

static bool is_preloaded(const struct hw *hw)
{
    const char *list = nccl_env_of(hw, "LD_PRELOAD");

    return list && strstr(list, "/libnccl.so");
}

void versions_choose(struct nccl_run *s)
{
    const struct hw_soft *ours = hw_nccl_soft(s->hw);
    size_t tried = 0;

    if (!ours || !ours->path || is_preloaded(s->hw))
        return;
    for (size_t i = 0; i < s->hw->software_count && tried < VERSIONS_MAX; i++) {
        const struct hw_soft *other = &s->hw->software[i];
        struct nccl_choice c;
        struct hw copy;
        const char *what;

        if (!str_eq(other->name, "nccl") || seen_before(s->hw, i) || other == ours)
            continue;
        tried++;
        copy = hw_with(s, other);
        nccl_choose_once(&copy, s->peer, &c);
        what = choice_difference(s->c, &c);
        nccl_choice_release(&c);
        if (what) {
            version_tell(s, ours, other, what);
            return;
        }
    }
}
