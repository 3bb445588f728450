/* SPDX-License-Identifier: MIT */
/* hw: runs the sources, owns the inventory, answers look-ups.
 *
 * A source is one function that reads files through the build's root and fills its
 * part of the inventory.  The table below is the order they run in and the place
 * where a new one is added; each may rely on those before it. */
#include "hw/hw_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "catalog/catalog.h"

#include <assert.h>

enum { NOTES_MAX = 256 }; /* notes an inventory keeps */

static const struct {
    const char *name;
    void (*run)(struct hw_build *b);
} sources[] = {
    { "self", hw_src_self },         /* everybody's system calls */
    { "place", hw_src_place },       /* needs self */
    { "cpu", hw_src_cpu },           /* needs self for the architecture */
    { "memory", hw_src_memory },     /* */
    { "pci", hw_src_pci },           /* */
    { "nvml", hw_src_nvml },         /* merges with pci */
    { "net", hw_src_net },           /* needs self, pci */
    { "rdma", hw_src_rdma },         /* needs pci, net */
    { "limits", hw_src_limits },     /* needs self, pci, nvml */
    { "storage", hw_src_storage },   /* needs self */
    { "software", hw_src_software }, /* needs self; sets the fabric manager's version */
    { "nccl", hw_src_nccl },         /* needs self, software; nvml and rdma for a topology file */
    { "topo", hw_src_topo },         /* computed from all of them */
};

/* Drivers before the question, and captures of them, leave it to the model. */
void hw_c2c_fill(struct hw *hw)
{
    struct arena tmp = { 0 };
    struct cat_gpu_table t = { 0 };

    if (hw->gpus_count && cat_gpu_load(&tmp, &t, NULL) == RC_OK)
        for (size_t i = 0; i < hw->gpus_count; i++) {
            const struct cat_gpu *row = cat_gpu_find(&t, maybe_none(), hw->gpus[i].name);

            if (!hw->gpus[i].c2c.known && row)
                hw->gpus[i].c2c = maybe_of(maybe_is(row->c2c, 1));
        }
    arena_release(&tmp);
}

enum rc hw_probe(struct root *root, const struct hw_opts *opts, struct hw **out, struct err *err)
{
    static const struct hw_opts no_opts = { 0 };
    struct hw_build b = { .root = root, .opts = opts ? opts : &no_opts };

    assert(root && out);
    if (!root_exists(root, "/"))
        return err_set(err, RC_FAIL, "cannot read the root of the machine");
    b.rec = b.opts->rec;
    if (b.rec)
        root_record(root, b.rec);
    b.hw = xcalloc(1, sizeof(*b.hw));
    b.a = &b.hw->arena;
    arena_init(b.a);
    b.hw->captured = maybe_of(!root_is_live(root));
    for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
        sources[i].run(&b);
    hw_c2c_fill(b.hw);
    hw_clean(&hw_table, b.hw);
    *out = b.hw;
    return RC_OK;
}

void hw_free(struct hw *hw)
{
    if (!hw)
        return;
    arena_release(&hw->arena);
    free(hw);
}

void hw_note_add(struct hw_build *b, const char *source, const char *fmt, ...)
{
    struct hw *hw = b->hw;
    char text[512];
    va_list ap;

    assert(source && fmt);
    if (hw->notes_count >= NOTES_MAX)
        return;
    if (!hw->notes) /* all at once: an arena cannot grow an array in place */
        hw->notes = arena_array(b->a, struct hw_note, NOTES_MAX);
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    str_make_text(text);
    hw->notes[hw->notes_count++] =
        (struct hw_note){ .source = arena_strdup(b->a, source), .text = arena_strdup(b->a, text) };
}

const struct hw_pci *hw_find_pci(const struct hw *hw, const char *bdf)
{
    for (size_t i = 0; bdf && i < hw->pci_count; i++)
        if (str_eq(hw->pci[i].bdf, bdf))
            return &hw->pci[i];
    return NULL;
}

const char *hw_capture_damage(const struct hw *hw)
{
    for (size_t i = 0; i < hw->notes_count; i++)
        if (str_eq(hw->notes[i].source, "self") && strstr(hw->notes[i].text, "not usable"))
            return hw->notes[i].text;
    return NULL;
}

const struct hw_net *hw_find_net(const struct hw *hw, const char *name)
{
    for (size_t i = 0; name && i < hw->nets_count; i++)
        if (str_eq(hw->nets[i].name, name))
            return &hw->nets[i];
    return NULL;
}

const struct hw_rdma *hw_find_rdma(const struct hw *hw, const char *name)
{
    for (size_t i = 0; name && i < hw->rdma_count; i++)
        if (str_eq(hw->rdma[i].name, name))
            return &hw->rdma[i];
    return NULL;
}

static const struct hw_nccl_var *conf_entry(const struct hw *hw, const char *name)
{
    for (size_t i = 0; name && i < hw->nccl.conf_count; i++)
        if (str_eq(hw->nccl.conf[i].name, name))
            return &hw->nccl.conf[i];
    return NULL;
}

const char *hw_env_get(const struct hw *hw, const char *name)
{
    const struct hw_nccl_var *v;

    for (size_t i = 0; name && i < hw->place.env_count; i++)
        if (str_eq(hw->place.env[i].name, name))
            return hw->place.env[i].value;
    v = conf_entry(hw, name);
    return v ? v->value : NULL;
}

const char *hw_env_file(const struct hw *hw, const char *name)
{
    const struct hw_nccl_var *v = conf_entry(hw, name);

    for (size_t i = 0; name && i < hw->place.env_count; i++)
        if (str_eq(hw->place.env[i].name, name))
            return NULL;
    return v ? v->path : NULL;
}

bool hw_links_switched(const struct hw *hw)
{
    bool switched = false;

    for (size_t i = 0; i < hw->gpus_count; i++) {
        if (maybe_is(hw->gpus[i].c2c, 1))
            return false;
        for (size_t k = 0; k < hw->gpus[i].nvlinks_count; k++)
            switched = switched || str_eq(hw->gpus[i].nvlinks[k].remote_kind, "switch");
    }
    return switched && maybe_is(hw->nvidia.nvswitches, 0);
}

const char *hw_soft_version(const struct hw *hw, const char *name)
{
    for (size_t i = 0; name && i < hw->software_count; i++)
        if (str_eq(hw->software[i].name, name) && hw->software[i].version)
            return hw->software[i].version;
    return NULL;
}

bool hw_soft_found(const struct hw *hw, const char *name)
{
    for (size_t i = 0; i < hw->software_count; i++)
        if (str_eq(hw->software[i].name, name))
            return true;
    return false;
}

const struct hw_soft *hw_nccl_soft(const struct hw *hw)
{
    for (size_t i = 0; i < hw->software_count; i++)
        if (str_eq(hw->software[i].name, "nccl"))
            return &hw->software[i];
    return NULL;
}

const char *hw_nccl_version(const struct hw *hw)
{
    const struct hw_soft *s = hw_nccl_soft(hw);

    return s ? s->version : NULL;
}
