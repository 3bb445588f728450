/* SPDX-License-Identifier: MIT */
/* hw_print: the inventory as a page for a terminal: the frame, and the sections about
 * the machine itself.  hw_print_gpu.c and hw_print_net.c have the others. */
#include "hw/print/hw_print.h"

#include "base/str.h"
#include "base/text/units.h"
#include "hw/print/hw_print_int.h"

#include <inttypes.h>
#include <stdarg.h>

/* ---- the frame ---- */
void show_section(struct hw_print *s, const char *title)
{
    if (s->out->len > 0)
        buf_addc(s->out, '\n');
    s->title = title;
}

/* Prints one wrapped line; `text` has no newline. */
static void put_line(struct hw_print *s, enum table_colour c, const char *text, size_t len)
{
    size_t pad = 0;

    while (pad < len && pad < SHOW_GUTTER && text[pad] == ' ')
        pad++;
    if (s->title) {
        size_t title_len = strlen(s->title);
        term_text(&s->term, s->out, COLOUR_BOLD, "%s", s->title);
        buf_fill(s->out, ' ', title_len < SHOW_GUTTER ? SHOW_GUTTER - title_len : 1);
        s->title = NULL;
    } else {
        buf_fill(s->out, ' ', SHOW_GUTTER);
    }
    term_text(&s->term, s->out, c, "%.*s", (int)(len - pad), text + pad);
    buf_addc(s->out, '\n');
}

/* Cuts a text at `max` bytes and each word at `room`, so that a name of a thousand
 * letters does not fill the screen. */
static void add_cut(struct buf *out, const char *text, size_t max, size_t room)
{
    while (*text && out->len < max) {
        size_t len = strcspn(text, " "), keep = len > room ? room : len;
        while (keep > 0 && keep < len && ((unsigned char)text[keep] & 0xc0) == 0x80)
            keep--; /* not inside a character */
        buf_add(out, text, keep);
        buf_adds(out, keep < len ? "…" : "");
        text += len;
        if (*text == ' ')
            buf_addc(out, *text++);
    }
    if (*text)
        buf_adds(out, "…");
}

void show_line(struct hw_print *s, enum table_colour c, const char *fmt, ...)
{
    struct buf full = { 0 }, text = { 0 }, wrapped = { 0 };
    va_list ap;

    va_start(ap, fmt);
    buf_vaddf(&full, fmt, ap);
    va_end(ap);
    add_cut(&text, buf_str(&full), SHOW_LINE_MAX, SHOW_WORD_MAX);
    term_wrap(&s->term, &wrapped, SHOW_GUTTER, buf_str(&text));
    for (const char *p = buf_str(&wrapped); *p;) {
        size_t len = strcspn(p, "\n");
        put_line(s, c, p, len);
        p += len + (p[len] == '\n');
    }
    buf_release(&wrapped);
    buf_release(&text);
    buf_release(&full);
}

void show_table(struct hw_print *s, struct table *t)
{
    table_print(t, &s->term, SHOW_INDENT, s->out);
    table_free(t);
}

void show_part(struct buf *b, const char *sep, const char *fmt, ...)
{
    va_list ap;

    if (b->len > 0)
        buf_adds(b, sep);
    va_start(ap, fmt);
    buf_vaddf(b, fmt, ap);
    va_end(ap);
}

/* ---- small texts ---- */
const char *show_str(const char *s)
{
    return s && *s ? s : "-";
}

void show_cell_int(struct table *t, enum table_colour c, struct maybe v, const char *unit)
{
    if (v.known)
        table_cell(t, c, "%" PRId64 "%s", v.v, unit);
    else
        table_cell(t, COLOUR_DIM, "-");
}

const char *show_bytes(struct maybe v, char out[UNITS_TEXT_MAX])
{
    if (!v.known || v.v < 0)
        return "-";
    return units_bytes_human((uint64_t)v.v, out);
}

const char *show_rate(struct maybe mbps, char out[UNITS_TEXT_MAX])
{
    if (!mbps.known || mbps.v <= 0)
        return "-";
    if (mbps.v < 1000)
        snprintf(out, UNITS_TEXT_MAX, "%" PRId64 " Mb/s", mbps.v);
    else
        snprintf(out, UNITS_TEXT_MAX, "%.4g Gb/s", (double)mbps.v / 1000);
    return out;
}

const char *show_gpu_name(const struct hw_gpu *g, char out[SHOW_TEXT_MAX])
{
    if (g->index.known)
        snprintf(out, SHOW_TEXT_MAX, "GPU %" PRId64, g->index.v);
    else
        snprintf(out, SHOW_TEXT_MAX, "GPU at %s", show_str(g->bdf));
    return out;
}

void show_ids(struct buf *b, const bool *set, size_t count)
{
    const char *sep = "";

    for (size_t i = 0; i < count; i++) {
        size_t last = i;
        if (!set[i])
            continue;
        while (last + 1 < count && set[last + 1])
            last++;
        if (last > i)
            buf_addf(b, "%s%zu-%zu", sep, i, last);
        else
            buf_addf(b, "%s%zu", sep, i);
        sep = ",";
        i = last;
    }
}

int show_path_rank(const char *path)
{
    static const char *const words[] = { "NV", "PIX", "PXB", "PHB", "NODE", "SYS" };

    for (size_t i = 0; path && i < ARRAY_SIZE(words); i++)
        if (str_starts(path, words[i]))
            return (int)i;
    return (int)ARRAY_SIZE(words);
}

struct maybe show_pcie_gen(const char *speed)
{
    static const struct {
        const char *text;
        int gen;
    } rows[] = { { "2.5 ", 1 }, { "5.0 ", 2 }, { "5 ", 2 }, { "8.0 ", 3 },
                 { "8 ", 3 },   { "16", 4 },   { "32", 5 }, { "64", 6 } };

    for (size_t i = 0; speed && i < ARRAY_SIZE(rows); i++)
        if (str_starts(speed, rows[i].text))
            return maybe_of(rows[i].gen);
    return maybe_none();
}

/* ---- machine ---- */
static void machine_product(const struct hw_place *p, struct buf *b)
{
    if (p->vendor && !(p->product && str_starts(p->product, p->vendor)))
        show_part(b, " ", "%s", p->vendor);
    if (p->product)
        show_part(b, " ", "%s", p->product);
}

static void machine_where(const struct hw_place *p, struct buf *b)
{
    if (p->hypervisor)
        show_part(b, ", ", "virtual machine (%s)", p->hypervisor);
    if (p->k8s_pod)
        show_part(b, ", ", "Kubernetes pod %s%s%s%s%s", p->k8s_namespace ? p->k8s_namespace : "",
                  p->k8s_namespace ? "/" : "", p->k8s_pod, p->k8s_node ? " on node " : "",
                  p->k8s_node ? p->k8s_node : "");
    else if (p->container)
        show_part(b, ", ", "container (%s)", p->container);
    if (p->slurm_job) {
        show_part(b, ", ", "Slurm job %s", p->slurm_job);
        if (p->slurm_nodes)
            buf_addf(b, " on %s", p->slurm_nodes);
        if (p->slurm_gpus)
            buf_addf(b, " with GPUs %s", p->slurm_gpus);
    }
    if (b->len == 0)
        buf_adds(b, "on the machine itself: no container, no hypervisor seen");
}

static void machine_limits(const struct hw *hw, struct buf *b)
{
    const struct hw_place *p = &hw->place;
    char text[UNITS_TEXT_MAX];

    if (p->cpu_quota_milli.known)
        show_part(b, ", ", "quota of %.4g CPUs", (double)p->cpu_quota_milli.v / 1000);
    if (p->cpus_usable.known && hw->cpu.threads.known && p->cpus_usable.v < hw->cpu.threads.v)
        show_part(b, ", ", "%" PRId64 " of %" PRId64 " CPUs usable", p->cpus_usable.v,
                  hw->cpu.threads.v);
    if (p->mem_limit_bytes.known)
        show_part(b, ", ", "memory limit %s", show_bytes(p->mem_limit_bytes, text));
    if (p->pids_limit.known)
        show_part(b, ", ", "at most %" PRId64 " processes", p->pids_limit.v);
}

static void show_machine(struct hw_print *s)
{
    const struct hw_place *p = &s->hw->place;
    struct buf b = { 0 };

    show_section(s, "Machine");
    machine_product(p, &b);
    show_line(s, COLOUR_NONE, "%s%s%s%s", p->hostname ? p->hostname : "host name unknown",
              b.len ? ", " : "", buf_str(&b),
              maybe_is(s->hw->captured, 1) ? " (captured, not this machine)" : "");
    buf_reset(&b);
    if (p->os)
        show_part(&b, ", ", "%s", p->os);
    if (p->kernel)
        show_part(&b, ", ", "Linux %s", p->kernel);
    if (s->hw->cpu.arch)
        show_part(&b, ", ", "%s", s->hw->cpu.arch);
    if (b.len)
        show_line(s, COLOUR_NONE, "%s", buf_str(&b));
    buf_reset(&b);
    machine_where(p, &b);
    show_line(s, COLOUR_NONE, "%s", buf_str(&b));
    buf_reset(&b);
    machine_limits(s->hw, &b);
    if (b.len)
        show_line(s, COLOUR_NONE, "cgroup%s: %s",
                  maybe_is(p->cgroup, 2)   ? " v2"
                  : maybe_is(p->cgroup, 1) ? " v1"
                                           : "",
                  buf_str(&b));
    buf_release(&b);
}

/* ---- CPU ---- */
static void cpu_caches(const struct hw_cpu *c, struct buf *b)
{
    char size[UNITS_TEXT_MAX];

    FOR_EACH(const struct hw_cache, k, c->caches) {
        if (!k->level.known || !k->size_bytes.known || str_eq(k->type, "Instruction"))
            continue;
        show_part(b, ", ", "L%" PRId64 "%s %s", k->level.v, str_eq(k->type, "Data") ? "d" : "",
                  show_bytes(k->size_bytes, size));
        if (k->count.known && k->count.v > 1)
            buf_addf(b, " x %" PRId64, k->count.v);
    }
}

/* A node without a processor: memory only, as that of the GPUs of GH200 and GB200, whose
 * driver brings it online in up to eight nodes a GPU, most of them empty. */
static bool numa_is_bare(const struct hw *hw, const struct hw_numa *n)
{
    bool told = false; /* lists of processors could be read at all */

    for (size_t i = 0; i < hw->numa_count; i++)
        told = told || hw->numa[i].cpus;
    return told && !n->cpus;
}

static void cpu_numa_bare(struct hw_print *s, size_t *out_count)
{
    const struct hw *hw = s->hw;
    struct maybe memory = maybe_of(0);
    char size[UNITS_TEXT_MAX];
    size_t with = 0;

    *out_count = 0;
    for (size_t i = 0; i < hw->numa_count; i++) {
        if (!numa_is_bare(hw, &hw->numa[i]))
            continue;
        (*out_count)++;
        memory.v += maybe_or(hw->numa[i].mem_total_bytes, 0);
        with += maybe_or(hw->numa[i].mem_total_bytes, 0) > 0;
    }
    if (*out_count)
        show_line(s, COLOUR_NONE, "%zu NUMA node%s without CPUs: %zu with memory, %s", *out_count,
                  *out_count == 1 ? "" : "s", with, show_bytes(memory, size));
}

static void cpu_numa(struct hw_print *s)
{
    const struct hw *hw = s->hw;
    char size[UNITS_TEXT_MAX];
    size_t bare;

    if (hw->numa_count < 2)
        return;
    for (size_t i = 0, shown = 0; i < hw->numa_count && shown < SHOW_NUMA_MAX; i++) {
        const struct hw_numa *n = &hw->numa[i];
        struct buf b = { 0 };
        if (numa_is_bare(hw, n))
            continue;
        shown++;
        for (size_t k = 0; k < n->distances_count && k < SHOW_NUMA_MAX; k++)
            if (n->distances[k].known && !(k < hw->numa_count && numa_is_bare(hw, &hw->numa[k])))
                show_part(&b, " ", "%" PRId64, n->distances[k].v);
        show_line(s, COLOUR_NONE, "NUMA %" PRId64 ": CPUs %s, %s%s%s", maybe_or(n->id, (int64_t)i),
                  show_str(n->cpus), show_bytes(n->mem_total_bytes, size),
                  b.len ? ", distances " : "", buf_str(&b));
        buf_release(&b);
    }
    cpu_numa_bare(s, &bare);
    if (hw->numa_count - bare > SHOW_NUMA_MAX)
        show_line(s, COLOUR_DIM, "%zu more NUMA nodes: see --json",
                  hw->numa_count - bare - SHOW_NUMA_MAX);
}

void show_cpu_model(const char *model, struct buf *b)
{
    while (*model) {
        size_t skip = str_starts(model, "(R)") ? 3 : str_starts(model, "(TM)") ? 4 : 0;
        if (skip == 0)
            buf_addc(b, *model++);
        model += skip;
    }
}

static void cpu_heading(const struct hw_cpu *c, struct buf *b)
{
    if (c->sockets.known && c->sockets.v > 1)
        buf_addf(b, "%" PRId64 " x ", c->sockets.v);
    show_cpu_model(c->model ? c->model : c->vendor ? c->vendor : "model unknown", b);
    if (c->cores.known)
        show_part(b, ", ", "%" PRId64 " core%s", c->cores.v, c->cores.v == 1 ? "" : "s");
    if (c->threads.known)
        show_part(b, ", ", "%" PRId64 " thread%s", c->threads.v, c->threads.v == 1 ? "" : "s");
}

static void show_cpu(struct hw_print *s)
{
    const struct hw_cpu *c = &s->hw->cpu;
    struct buf b = { 0 };

    show_section(s, "CPU");
    cpu_heading(c, &b);
    show_line(s, COLOUR_NONE, "%s", buf_str(&b));
    buf_reset(&b);
    if (c->mhz_max.known)
        show_part(&b, ", ", "up to %.1f GHz", (double)c->mhz_max.v / 1000);
    if (c->governor)
        show_part(&b, ", ", "governor %s", c->governor);
    cpu_caches(c, &b);
    if (b.len)
        show_line(s, COLOUR_NONE, "%s", buf_str(&b));
    cpu_numa(s);
    buf_reset(&b);
    for (size_t i = 0; i < c->flags_count; i++)
        show_part(&b, " ", "%s", c->flags[i]);
    if (b.len)
        show_line(s, COLOUR_DIM, "%s", buf_str(&b));
    buf_release(&b);
}

/* ---- memory ---- */
/* The kernel's total has the memory of GPUs with a chip-to-chip link in it: NUMA nodes without
 * CPUs. */
static void memory_of_gpus(const struct hw *hw, struct buf *out)
{
    struct maybe memory = maybe_of(0);
    char text[UNITS_TEXT_MAX];
    bool linked = false;

    for (size_t i = 0; i < hw->gpus_count; i++)
        linked = linked || maybe_is(hw->gpus[i].c2c, 1);
    for (size_t i = 0; linked && i < hw->numa_count; i++)
        if (numa_is_bare(hw, &hw->numa[i]))
            memory.v += maybe_or(hw->numa[i].mem_total_bytes, 0);
    if (memory.v > 0)
        buf_addf(out, " (%s of it the GPUs')", show_bytes(memory, text));
}

static void show_memory(struct hw_print *s)
{
    const struct hw_memory *m = &s->hw->memory;
    char text[UNITS_TEXT_MAX];
    struct buf b = { 0 };

    show_section(s, "Memory");
    show_part(&b, ", ", "%s", m->total_bytes.known ? show_bytes(m->total_bytes, text) : "unknown");
    memory_of_gpus(s->hw, &b);
    if (m->available_bytes.known)
        show_part(&b, ", ", "%s available", show_bytes(m->available_bytes, text));
    if (maybe_is(m->swap_bytes, 0))
        show_part(&b, ", ", "no swap");
    else if (m->swap_bytes.known)
        show_part(&b, ", ", "%s of swap", show_bytes(m->swap_bytes, text));
    if (m->thp)
        show_part(&b, ", ", "transparent huge pages: %s", m->thp);
    show_line(s, COLOUR_NONE, "%s", buf_str(&b));
    buf_reset(&b);
    FOR_EACH(const struct hw_hugepages, h, m->hugepages) {
        if (!h->total.known || h->total.v <= 0)
            continue;
        show_part(&b, ", ", "%" PRId64 " huge pages of %s", h->total.v,
                  show_bytes(h->size_bytes, text));
        if (h->free.known)
            buf_addf(&b, " (%" PRId64 " free)", h->free.v);
    }
    if (b.len)
        show_line(s, COLOUR_NONE, "%s", buf_str(&b));
    buf_release(&b);
}

/* ---- limits and kernel facts ---- */
static void limits_memlock(const struct hw_limits *l, struct buf *b)
{
    char text[UNITS_TEXT_MAX];

    if (!l->memlock_bytes.known)
        return;
    show_part(b, ", ", "locked memory %s",
              l->memlock_bytes.v < 0 ? "unlimited" : show_bytes(l->memlock_bytes, text));
}

static void limits_kernel(const struct hw *hw, struct buf *b)
{
    const struct hw_limits *l = &hw->limits;

    if (maybe_is(l->iommu, 0) && hw->place.hypervisor)
        show_part(b, ", ", "no IOMMU of its own (that of the host cannot be seen)");
    else if (maybe_is(l->iommu, 0))
        show_part(b, ", ", "IOMMU off");
    else if (maybe_is(l->iommu, 1))
        show_part(b, ", ", "IOMMU on%s%s", l->iommu_mode ? ", " : "",
                  l->iommu_mode ? l->iommu_mode : "");
    if (maybe_is(l->acs_bridges, 0))
        show_part(b, ", ", "no ACS redirection");
    else if (l->acs_bridges.known)
        show_part(b, ", ", "ACS redirection on %" PRId64 " PCI bridges", l->acs_bridges.v);
    if (l->numa_balancing.known)
        show_part(b, ", ", "automatic NUMA balancing %s", l->numa_balancing.v ? "on" : "off");
}

/* GPUDirect needs both a GPU and an RDMA device: silence elsewhere is no loss. */
static void limits_gpudirect(struct hw_print *s)
{
    const struct hw_limits *l = &s->hw->limits;
    struct buf b = { 0 };

    if (s->hw->gpus_count == 0 || s->hw->rdma_count == 0)
        return;
    if (l->peermem)
        show_part(&b, ", ", "%s loaded%s%s", l->peermem, l->peermem_version ? " " : "",
                  l->peermem_version ? l->peermem_version : "");
    else
        show_part(&b, ", ", "no peer-memory module");
    if (l->dmabuf.known)
        show_part(&b, ", ", "dma-buf %s%s%s%s", l->dmabuf.v ? "yes" : "no",
                  l->dmabuf_why ? " (" : "", l->dmabuf_why ? l->dmabuf_why : "",
                  l->dmabuf_why ? ")" : "");
    else
        show_part(&b, ", ", "dma-buf unknown");
    if (l->uverbs.known)
        show_part(&b, ", ", "%" PRId64 " uverbs device%s", l->uverbs.v,
                  l->uverbs.v == 1 ? "" : "s");
    show_line(s, COLOUR_NONE, "GPUDirect RDMA: %s", buf_str(&b));
    buf_release(&b);
}

static void show_limits(struct hw_print *s)
{
    const struct hw_limits *l = &s->hw->limits;
    char text[UNITS_TEXT_MAX];
    struct buf b = { 0 };

    show_section(s, "Limits");
    limits_memlock(l, &b);
    if (l->nofile.known)
        show_part(&b, ", ", "%" PRId64 " open files", l->nofile.v);
    if (l->shm_bytes.known)
        show_part(&b, ", ", "/dev/shm %s", show_bytes(l->shm_bytes, text));
    show_line(s, COLOUR_NONE, "%s", b.len ? buf_str(&b) : "unknown");
    buf_reset(&b);
    limits_kernel(s->hw, &b);
    if (b.len)
        show_line(s, COLOUR_NONE, "%s", buf_str(&b));
    buf_release(&b);
    limits_gpudirect(s);
}

/* ---- software, extra, notes ---- */
/* As its makers write it; others stand as they are. */
static const char *soft_name(const char *name)
{
    static const char *const names[] = { "CUDA", "cuDNN", "NCCL", "DCGM", "UCX", "PyTorch" };
    static const char *const keys[] = { "cuda", "cudnn", "nccl", "dcgm", "ucx", "torch" };

    for (size_t i = 0; name && i < ARRAY_SIZE(keys); i++)
        if (str_eq(name, keys[i]))
            return names[i];
    return show_str(name);
}

static void show_software(struct hw_print *s)
{
    const struct hw *hw = s->hw;
    struct buf b = { 0 };

    show_section(s, "Software");
    FOR_EACH(const struct hw_soft, w, hw->software) {
        show_part(&b, ", ", "%s%s%s", soft_name(w->name), w->version ? " " : "",
                  w->version ? w->version : "");
    }
    show_line(s, COLOUR_NONE, "%s",
              b.len ? buf_str(&b) : "no CUDA, cuDNN, NCCL or container runtime found");
    buf_release(&b);
}

static void show_extra(struct hw_print *s, const struct show_section *x)
{
    if (!x || x->count == 0)
        return;
    show_section(s, x->title);
    for (size_t i = 0; i < x->count; i++)
        show_line(s, x->lines[i].colour, "%s", x->lines[i].text);
}

static void show_notes(struct hw_print *s)
{
    if (s->hw->notes_count == 0)
        return;
    show_section(s, "Notes");
    for (size_t i = 0; i < s->hw->notes_count; i++)
        show_line(s, COLOUR_NONE, "%s: %s", show_str(s->hw->notes[i].source),
                  show_str(s->hw->notes[i].text));
}

void hw_show(const struct hw *hw, const struct term *term, const struct show_section *extra,
             struct buf *out)
{
    struct buf page = { 0 };
    struct hw_print s = { .hw = hw, .term = *term, .out = &page };

    if (s.term.width <= 0 || s.term.width > SHOW_WIDTH_MAX)
        s.term.width = SHOW_WIDTH_MAX;
    show_machine(&s);
    show_cpu(&s);
    show_memory(&s);
    show_gpus(&s);
    show_rdma(&s);
    show_nets(&s);
    show_storage(&s);
    show_limits(&s);
    show_software(&s);
    show_extra(&s, extra);
    show_notes(&s);
    buf_add(out, buf_str(&page), page.len);
    buf_release(&page);
}
