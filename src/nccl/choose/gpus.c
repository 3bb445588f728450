/* SPDX-License-Identifier: MIT */
/* gpus: which GPUs a job started here can use.
 *
 * Those the driver calls ok, less what CUDA_VISIBLE_DEVICES and, in a container,
 * NVIDIA_VISIBLE_DEVICES take away.  An init container sees GPUs on the PCI bus
 * while the driver shows none: then the number is unknown, never 0. */
#include "nccl/nccl_int.h"

#include "base/str.h"

#include <strings.h>

enum { WORD_MAX = 96, UUID_PREFIX = 4 };

static size_t count_visible(const struct nccl_run *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->hw->gpus_count; i++)
        n += s->gpu_visible[i];
    return n;
}

/* A UUID or the start of one, which holds digits: a bare prefix names nothing.  The digits may
 * be of either case, "GPU-" and "MIG-" may not. */
static bool uuid_starts(const char *uuid, const char *word)
{
    return uuid && strlen(word) > UUID_PREFIX && !strncmp(uuid, word, UUID_PREFIX) &&
           !strncasecmp(uuid + UUID_PREFIX, word + UUID_PREFIX, strlen(word) - UUID_PREFIX);
}

/* The ok GPU that this is a UUID of; a MIG instance stands for its GPU.  -1: none, or several. */
static int gpu_by_uuid(const struct hw *hw, const char *word)
{
    int found = -1;

    for (size_t i = 0; i < hw->gpus_count; i++) {
        const struct hw_gpu *g = &hw->gpus[i];
        bool hit = uuid_starts(g->uuid, word);

        for (size_t k = 0; k < g->migs_count; k++)
            hit = hit || uuid_starts(g->migs[k].uuid, word);
        if (!hit || !str_eq(g->state, "ok"))
            continue;
        if (found >= 0)
            return -1;
        found = (int)i;
    }
    return found;
}

/* The ok GPU of this index in the driver's order: the number that the word begins with, so that
 * "0x" and "0 1" are 0.  -1: none. */
static int gpu_by_index(const struct hw *hw, const char *word)
{
    char *end;
    long index = strtol(word, &end, 10);

    for (size_t i = 0; end != word && index >= 0 && i < hw->gpus_count; i++)
        if (str_eq(hw->gpus[i].state, "ok") && maybe_is(hw->gpus[i].index, index))
            return (int)i;
    return -1;
}

static bool is_uuid(const char *word)
{
    return str_starts(word, "GPU-") || str_starts(word, "MIG-");
}

/* Marks what the list names, as CUDA reads it: all words are of the first one's kind, the list
 * ends at the first that names no GPU, and one GPU named twice leaves none (cuInit fails).
 * Returns how many it could resolve. */
static size_t mark_list(const struct hw *hw, const char *list, bool *marks, bool *out_all)
{
    bool uuids = is_uuid(list);
    size_t found = 0;

    *out_all = true;
    while (*list) {
        size_t len = strcspn(list, ",");
        char word[WORD_MAX];
        int gpu = -1;

        if (len && len < sizeof(word)) {
            memcpy(word, list, len);
            word[len] = 0;
            gpu = uuids ? gpu_by_uuid(hw, str_trim(word)) : gpu_by_index(hw, word);
        }
        if (gpu < 0) {
            *out_all = false;
            return found;
        }
        if (marks[gpu] && !str_starts(list, "MIG-")) { /* two instances of one GPU are two */
            memset(marks, 0, hw->gpus_count * sizeof(*marks));
            *out_all = false;
            return 0;
        }
        marks[gpu] = true;
        found++;
        list += len + (list[len] == ',');
    }
    return found;
}

static void keep_marked(struct nccl_run *s, const bool *marks)
{
    for (size_t i = 0; i < s->hw->gpus_count; i++)
        s->gpu_visible[i] = s->gpu_visible[i] && marks[i];
}

/* The runtime has already hidden what it was told to, and the indices are those of
 * the host: the list only counts when all it names are here and more are. */
static void by_container(struct nccl_run *s)
{
    const char *list = nccl_env_of(s->hw, "NVIDIA_VISIBLE_DEVICES");
    bool *marks = arena_array(s->a, bool, s->hw->gpus_count + 1);
    bool all;

    if (!list || !s->hw->place.container || str_eq(list, "all") || str_eq(list, "none") ||
        str_eq(list, "void"))
        return;
    if (mark_list(s->hw, list, marks, &all) && all)
        keep_marked(s, marks);
}

static bool by_cuda(struct nccl_run *s)
{
    const char *list = hw_env_get(s->hw, "CUDA_VISIBLE_DEVICES");
    bool *marks = arena_array(s->a, bool, s->hw->gpus_count + 1);
    bool all;

    if (!list)
        return false;
    (void)mark_list(s->hw, list, marks, &all);
    keep_marked(s, marks);
    return true;
}

static const char *none_ok(struct nccl_run *s)
{
    const struct hw_nvidia *nv = &s->hw->nvidia;

    if (nv->hung_call)
        return arena_printf(s->a,
                            "The driver does not answer (%s never returned), so the number of "
                            "GPUs cannot be known.",
                            nv->hung_call);
    if (s->hw->gpus_count)
        return arena_printf(s->a,
                            "%zu GPU%s on the PCI bus, but the driver shows none here%s%s%s: "
                            "this is how an init container or a pod without the GPU resource "
                            "looks, so the number of GPUs cannot be known.",
                            s->hw->gpus_count, s->hw->gpus_count == 1 ? " is" : "s are",
                            nv->nvml_error ? " (" : "", nv->nvml_error ? nv->nvml_error : "",
                            nv->nvml_error ? ")" : "");
    if (s->hw->place.container)
        return "No GPU is visible in this container; another container of the same pod may have "
               "some, so their number cannot be known.";
    return "No NVIDIA GPU is on this machine.";
}

bool gpus_cut(const struct hw *hw, const bool *visible)
{
    for (size_t i = 0; i < hw->gpus_count; i++)
        if ((!visible || visible[i]) && maybe_is(hw->gpus[i].mig, 1))
            return true;
    return false;
}

void gpus_choose(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    size_t ok, n;
    bool cuda;

    s->gpu_visible = arena_array(s->a, bool, s->hw->gpus_count + 1);
    for (size_t i = 0; i < s->hw->gpus_count; i++)
        s->gpu_visible[i] = str_eq(s->hw->gpus[i].state, "ok");
    c->gpu_used = s->gpu_visible;
    ok = count_visible(s);
    if (!ok) {
        c->gpus_why = none_ok(s);
        return;
    }
    by_container(s);
    cuda = by_cuda(s);
    n = count_visible(s);
    if (!n) {
        c->gpus_why = "CUDA_VISIBLE_DEVICES hides every GPU from programs started here.";
        return;
    }
    if (gpus_cut(s->hw, s->gpu_visible)) {
        c->gpus_why = "MIG is on: a process sees one instance, and how many ranks a machine has is "
                      "for who hands the instances out.";
        return;
    }
    c->gpus = maybe_of((int64_t)n);
    if (n < ok)
        c->gpus_why = arena_printf(s->a, "%zu of the %zu GPUs that answer are left by %s.", n, ok,
                                   cuda ? "CUDA_VISIBLE_DEVICES" : "NVIDIA_VISIBLE_DEVICES");
    else if (ok < s->hw->gpus_count)
        c->gpus_why = arena_printf(s->a, "%zu of %zu GPUs on the PCI bus answer here.", ok,
                                   s->hw->gpus_count);
    else
        c->gpus_why = arena_printf(s->a, "%zu GPU%s here.", ok, ok == 1 ? " answers" : "s answer");
}
