/* SPDX-License-Identifier: MIT */
/* hw_print_topo: the distance matrix, in the words and the order of `nvidia-smi topo -m`:
 * GPUs, then NICs, as rows and as columns; then the CPUs and the NUMA node near each
 * GPU.  A GPU the driver gave no number stands by its PCI address, "(3b:00)". */
#include "base/str.h"
#include "base/text/json.h"
#include "hw/print/hw_print_int.h"

#include <inttypes.h>

/* ---- NICs ---- */
static bool nic_known(const struct show_nic *nics, size_t count, const char *bdf)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(nics[i].bdf, bdf))
            return true;
    return false;
}

bool show_rdma_foreign(const struct hw *hw, const struct hw_rdma *r)
{
    bool any = false;

    for (size_t i = 0; i < hw->rdma_count && !any; i++)
        any = maybe_is(hw->rdma[i].openable, 1);
    return any && maybe_is(r->openable, 0);
}

size_t show_nics(const struct hw *hw, struct show_nic *out, size_t cap)
{
    size_t count = 0;

    for (size_t i = 0; i < hw->rdma_count && count < cap; i++) {
        const struct hw_rdma *r = &hw->rdma[i];
        const char *net = r->netdevs_count ? r->netdevs[0] : NULL;
        if (show_rdma_foreign(hw, r))
            continue;
        out[count++] = (struct show_nic){
            .name = show_str(r->name), .bdf = r->bdf, .rdma = r, .net = hw_find_net(hw, net)
        };
    }
    for (size_t i = 0; i < hw->nets_count && count < cap; i++) {
        const struct hw_net *n = &hw->nets[i];
        if (!n->bdf || n->rdma || nic_known(out, count, n->bdf))
            continue;
        out[count++] = (struct show_nic){ .name = show_str(n->name), .bdf = n->bdf, .net = n };
    }
    return count;
}

/* ---- the matrix ---- */
struct matrix {
    const struct hw *hw;
    struct show_nic nics[SHOW_NICS_MAX];
    size_t gpus, nic_count; /* those that fit */
};

static void row_label(const struct matrix *m, size_t i, char out[SHOW_TEXT_MAX])
{
    const struct hw_gpu *g = i < m->gpus ? &m->hw->gpus[i] : NULL;

    if (!g)
        snprintf(out, SHOW_TEXT_MAX, "NIC%zu", i - m->gpus);
    else if (g->index.known)
        snprintf(out, SHOW_TEXT_MAX, "GPU%" PRId64, g->index.v);
    else if (g->bdf && strlen(g->bdf) == strlen("0000:00:00.0"))
        snprintf(out, SHOW_TEXT_MAX, "(%.5s)", g->bdf + strlen("0000:"));
    else
        snprintf(out, SHOW_TEXT_MAX, "(GPU)");
}

static const char *gpu_pair_path(const struct hw *hw, size_t a, size_t b)
{
    int64_t low = (int64_t)(a < b ? a : b), high = (int64_t)(a < b ? b : a);

    for (size_t i = 0; i < hw->gpu_pairs_count; i++)
        if (maybe_is(hw->gpu_pairs[i].a, low) && maybe_is(hw->gpu_pairs[i].b, high))
            return hw->gpu_pairs[i].path;
    return NULL;
}

/* By the topology file that NCCL reads, where it says; a file's PHB is any way inside one NUMA
 * node. */
static const struct hw_nccl_way *matrix_file(const struct matrix *m, size_t row, size_t col)
{
    if (row >= m->gpus)
        return NULL;
    return col < m->gpus ? hw_nccl_way_gpu(m->hw, row, col)
                         : hw_nccl_way_nic(m->hw, row, m->nics[col - m->gpus].name);
}

static const char *matrix_word(const struct matrix *m, size_t row, size_t col)
{
    const struct hw_nccl_way *way;
    const char *path;

    if (row == col)
        return "X";
    if (row > col)
        return matrix_word(m, col, row);
    way = matrix_file(m, row, col);
    if (way)
        path = way->path;
    else if (col < m->gpus)
        path = gpu_pair_path(m->hw, row, col);
    else if (row < m->gpus)
        path = hw_distance_get(m->hw, row, m->nics[col - m->gpus].name);
    else
        path = hw_pci_path(m->hw, m->nics[row - m->gpus].bdf, m->nics[col - m->gpus].bdf);
    return show_str(path);
}

static void matrix_print(const struct matrix *m, struct buf *out)
{
    const struct term plain = { 0 };
    struct table *t = table_new();
    size_t all = m->gpus + m->nic_count;
    char name[SHOW_TEXT_MAX];

    table_col(t, "", TABLE_WHOLE);
    for (size_t i = 0; i < all; i++) {
        row_label(m, i, name);
        table_col(t, name, TABLE_WHOLE);
    }
    if (m->gpus) {
        table_col(t, "CPU Affinity", TABLE_WHOLE);
        table_col(t, "NUMA Affinity", TABLE_WHOLE);
    }
    for (size_t r = 0; r < all; r++) {
        table_row(t);
        row_label(m, r, name);
        table_cell(t, COLOUR_NONE, "%s", name);
        for (size_t c = 0; c < all; c++)
            table_cell(t, COLOUR_NONE, r == c ? " %s" : "%s", matrix_word(m, r, c));
        if (r < m->gpus) {
            table_cell(t, COLOUR_NONE, "%s", show_str(m->hw->gpus[r].cpus));
            show_cell_int(t, COLOUR_NONE, m->hw->gpus[r].numa, "");
        }
    }
    table_print(t, &plain, 0, out);
    table_free(t);
}

static void json_device(const struct matrix *m, size_t i, struct json_out *w)
{
    const struct hw_gpu *g = i < m->gpus ? &m->hw->gpus[i] : NULL;
    const struct show_nic *n = g ? NULL : &m->nics[i - m->gpus];
    char name[SHOW_TEXT_MAX];

    row_label(m, i, name);
    json_obj(w);
    json_kv_str(w, "label", name);
    json_kv_str(w, "kind", g ? "gpu" : "nic");
    json_kv_str(w, "name", g ? g->name : n->name);
    json_kv_str(w, "bdf", g ? g->bdf : n->bdf);
    json_kv_maybe(w, "numa", g ? g->numa : n->rdma ? n->rdma->numa : n->net->numa);
    json_kv_str(w, "cpus", g ? g->cpus : NULL);
    json_obj_end(w);
}

static void matrix_json(const struct matrix *m, struct buf *out)
{
    size_t all = m->gpus + m->nic_count;
    struct json_out w;

    json_doc(&w, out, "stoker.topo/1");
    json_kv_str(&w, "topo_file", hw_nccl_topo_used(m->hw) ? m->hw->nccl.topo_file : NULL);
    json_kv_arr(&w, "devices");
    for (size_t i = 0; i < all; i++)
        json_device(m, i, &w);
    json_arr_end(&w);
    json_key(&w, "paths"); /* a row a device; null where nothing is known */
    json_arr(&w);
    for (size_t r = 0; r < all; r++) {
        json_arr(&w);
        for (size_t c = 0; c < all; c++) {
            const char *word = matrix_word(m, r, c);

            json_add_str(&w, str_eq(word, "-") ? NULL : word);
        }
        json_arr_end(&w);
    }
    json_arr_end(&w);
    json_doc_end(&w);
}

/* ---- legends ---- */
static void legend_names(const struct matrix *m, struct buf *out)
{
    char name[SHOW_TEXT_MAX];
    bool titled = false;

    for (size_t i = 0; i < m->gpus; i++) {
        const struct hw_gpu *g = &m->hw->gpus[i];
        if (g->index.known)
            continue;
        row_label(m, i, name);
        buf_addf(out, "%s  %s: GPU at %s, %s\n", titled ? "" : "\nGPU Legend:\n\n", name,
                 show_str(g->bdf), show_str(g->state));
        titled = true;
    }
    if (m->nic_count)
        buf_adds(out, "\nNIC Legend:\n\n");
    for (size_t i = 0; i < m->nic_count; i++) {
        const struct show_nic *n = &m->nics[i];
        buf_addf(out, "  NIC%zu: %s%s\n", i, n->name, n->rdma ? "" : " (no RDMA)");
    }
}

static const char legend_words[] =
    "\nLegend:\n\n"
    "  X    = the device itself\n"
    "  SYS  = across NUMA nodes: PCIe and the link between sockets\n"
    "  NODE = inside one NUMA node, from one host bridge to another\n"
    "  PHB  = through one PCIe host bridge, mostly the CPU\n"
    "  PXB  = through several PCIe switches, not through the CPU\n"
    "  PIX  = through one PCIe switch at most\n"
    "  NV#  = over NVLink, # links\n"
    "  -    = unknown\n";

static void matrix_init(const struct hw *hw, struct matrix *m)
{
    size_t room;

    *m = (struct matrix){ .hw = hw };
    m->gpus = hw->gpus_count < SHOW_MATRIX_MAX ? hw->gpus_count : SHOW_MATRIX_MAX;
    room = SHOW_MATRIX_MAX - m->gpus;
    m->nic_count = show_nics(hw, m->nics, room < SHOW_NICS_MAX ? room : SHOW_NICS_MAX);
}

void hw_topo_json(const struct hw *hw, struct buf *out)
{
    struct matrix m;

    matrix_init(hw, &m);
    matrix_json(&m, out);
}

void hw_show_topo(const struct hw *hw, struct buf *out)
{
    struct matrix m;

    matrix_init(hw, &m);
    if (m.gpus + m.nic_count == 0) {
        buf_adds(out, "no GPU and no PCI network device: there is no distance to show\n");
        return;
    }
    matrix_print(&m, out);
    if (m.gpus < hw->gpus_count)
        buf_addf(out, "\n%zu more GPUs do not fit: see --json\n", hw->gpus_count - m.gpus);
    legend_names(&m, out);
    buf_adds(out, legend_words);
    if (hw_nccl_topo_used(hw))
        buf_addf(out,
                 "\nWhere it names both devices, distances are those of the topology file %s,\n"
                 "which NCCL follows in place of the PCIe tree.\n",
                 hw->nccl.topo_file);
}
