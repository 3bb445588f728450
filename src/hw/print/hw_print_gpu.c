/* SPDX-License-Identifier: MIT */
/* hw_print_gpu: the GPUs of the page: one row each, what they have in common above,
 * links, MIG instances and everything wrong with them below. */
#include "base/str.h"
#include "hw/print/hw_print_int.h"

#include <inttypes.h>

enum { PCI_VENDOR_NVIDIA = 0x10de, NVLINK_PEERS_MAX = 64, NARROW = 92 };

/* ---- the line above the table ---- */
static const char *short_name(const struct hw_gpu *g)
{
    if (!g->name)
        return "-";
    return str_starts(g->name, "NVIDIA ") ? g->name + strlen("NVIDIA ") : g->name;
}

static void heading_driver(const struct hw_nvidia *n, struct buf *b)
{
    if (n->driver_version)
        show_part(b, ", ", "driver %s%s%s%s", n->driver_version, n->kernel_module ? " (" : "",
                  n->kernel_module ? n->kernel_module : "",
                  n->kernel_module ? " kernel module)" : "");
    if (n->cuda_driver.known)
        show_part(b, ", ", "CUDA %" PRId64 ".%" PRId64, n->cuda_driver.v / 1000,
                  n->cuda_driver.v % 1000 / 10);
}

static size_t count_like(const struct hw *hw, const struct hw_gpu *g, size_t end)
{
    size_t same = 0;

    for (size_t i = 0; i < end; i++)
        same += str_eq(hw->gpus[i].name, g->name) && str_eq(hw->gpus[i].state, g->state);
    return same;
}

/* "7 x NVIDIA H100, 1 x NVIDIA H100 (lost)": each name and state with its count. */
static void heading_names(const struct hw *hw, struct buf *b)
{
    for (size_t i = 0; i < hw->gpus_count; i++) {
        const struct hw_gpu *g = &hw->gpus[i];
        if (count_like(hw, g, i) > 0)
            continue;
        show_part(b, ", ", "%zu x %s", count_like(hw, g, hw->gpus_count),
                  g->name ? g->name : "NVIDIA GPU of unknown name");
        if (g->state && !str_eq(g->state, "ok"))
            buf_addf(b, " (%s)", g->state);
    }
}

static void daemon_word(struct buf *b, struct maybe running, const char *what)
{
    if (running.known)
        show_part(b, ", ", "%s %s", what, running.v ? "running" : "not running");
}

static void show_daemons(struct hw_print *s)
{
    const struct hw_nvidia *n = &s->hw->nvidia;
    bool switched = n->nvswitches.known && n->nvswitches.v > 0;
    struct buf b = { 0 };

    if (switched)
        show_part(&b, ", ", "%" PRId64 " NVSwitch%s", n->nvswitches.v,
                  n->nvswitches.v == 1 ? "" : "es");
    if (n->fabricmanager_version || maybe_is(n->fabricmanager_running, 1) ||
        (switched && n->fabricmanager_running.known)) {
        show_part(&b, ", ", "fabric manager%s%s", n->fabricmanager_version ? " " : "",
                  n->fabricmanager_version ? n->fabricmanager_version : "");
        if (n->fabricmanager_running.known)
            buf_adds(&b, n->fabricmanager_running.v ? " running" : " not running");
    }
    if (maybe_is(n->persistenced_running, 1))
        daemon_word(&b, n->persistenced_running, "persistence daemon");
    if (maybe_is(n->hostengine_running, 1))
        daemon_word(&b, n->hostengine_running, "DCGM host engine");
    if (maybe_is(n->mps_running, 1))
        daemon_word(&b, n->mps_running, "MPS");
    if (n->imex_nodes.known || maybe_is(n->imex_running, 1)) {
        show_part(&b, ", ", "nvidia-imex%s",
                  !n->imex_running.known ? ""
                  : n->imex_running.v    ? " running"
                                         : " not running");
        if (n->imex_nodes.known)
            buf_addf(&b, " for %" PRId64 " machine%s", n->imex_nodes.v,
                     n->imex_nodes.v == 1 ? "" : "s");
    }
    if (b.len)
        show_line(s, COLOUR_NONE, "%s", buf_str(&b));
    buf_release(&b);
    if ((switched ||
         (hw_links_switched(s->hw) && !s->hw->place.hypervisor && !s->hw->place.container)) &&
        maybe_is(n->fabricmanager_running, 0))
        show_line(s, COLOUR_RED,
                  "PROBLEM: NVSwitch needs the fabric manager, and it is not running");
}

/* ---- rows ---- */
static enum table_colour state_colour(const char *state)
{
    if (!state)
        return COLOUR_DIM;
    if (str_eq(state, "ok"))
        return COLOUR_GREEN;
    if (str_eq(state, "hidden") || str_eq(state, "no-driver"))
        return COLOUR_YELLOW;
    return COLOUR_RED;
}

static const char *state_word(const char *state)
{
    static const struct {
        const char *state, *word;
    } rows[] = { { "lost", "LOST" },
                 { "error", "ERROR" },
                 { "unanswered", "NO ANSWER" },
                 { "no-driver", "no driver" } };

    for (size_t i = 0; state && i < ARRAY_SIZE(rows); i++)
        if (str_eq(state, rows[i].state))
            return rows[i].word;
    return show_str(state);
}

/* "gen5 x16"; what is below the maximum says of what: "gen1/5 x8/16".  A lower
 * generation may be an idle GPU saving power; fewer lanes never are. */
static void cell_pcie(struct table *t, const struct hw_gpu *g)
{
    bool slow = g->pcie_gen.known && g->pcie_gen_max.known && g->pcie_gen.v < g->pcie_gen_max.v;
    bool narrow =
        g->pcie_width.known && g->pcie_width_max.known && g->pcie_width.v < g->pcie_width_max.v;
    char gen[24] = "", width[24] = "";

    if (g->pcie_gen.known)
        snprintf(gen, sizeof(gen), slow ? "gen%" PRId64 "/%" PRId64 : "gen%" PRId64, g->pcie_gen.v,
                 g->pcie_gen_max.v);
    if (g->pcie_width.known)
        snprintf(width, sizeof(width), narrow ? "x%" PRId64 "/%" PRId64 : "x%" PRId64,
                 g->pcie_width.v, g->pcie_width_max.v);
    table_cell(t,
               narrow ? COLOUR_RED
               : slow ? COLOUR_YELLOW
                      : COLOUR_NONE,
               "%s%s%s", *gen || *width ? gen : "-", *gen && *width ? " " : "", width);
}

static const char *on_off(struct maybe m)
{
    return !m.known ? "-" : m.v ? "on" : "off";
}

static void gpu_row(struct hw_print *s, struct table *t, const struct hw_gpu *g)
{
    bool cut = s->term.width < NARROW && g->bdf && str_starts(g->bdf, "0000:");
    char text[UNITS_TEXT_MAX];

    table_row(t);
    show_cell_int(t, COLOUR_NONE, g->index, "");
    table_cell(t, COLOUR_NONE, "%s", short_name(g));
    table_cell(t, COLOUR_NONE, "%s", show_bytes(g->mem_total_bytes, text));
    table_cell(t, COLOUR_NONE, "%s", show_str(g->bdf) + (cut ? strlen("0000:") : 0));
    show_cell_int(t, COLOUR_NONE, g->numa, "");
    cell_pcie(t, g);
    if (g->power_limit_mw.known)
        table_cell(t, COLOUR_NONE, "%" PRId64 " W", (g->power_limit_mw.v + 500) / 1000);
    else
        table_cell(t, COLOUR_DIM, "-");
    show_cell_int(t, COLOUR_NONE, g->temp_c, " °C");
    table_cell(t, COLOUR_NONE, "%s", on_off(g->ecc));
    table_cell(t, COLOUR_NONE, "%s", on_off(g->mig));
    table_cell(t, state_colour(g->state), "%s", state_word(g->state));
}

static void gpu_table(struct hw_print *s)
{
    struct table *t = table_new();

    table_col(t, "#", TABLE_RIGHT);
    table_col(t, "NAME", TABLE_SHRINK);
    table_col(t, "MEMORY", TABLE_RIGHT);
    table_col(t, "PCI", TABLE_LEFT);
    table_col(t, "NUMA", TABLE_RIGHT);
    table_col(t, "PCIE", TABLE_LEFT);
    table_col(t, "LIMIT", TABLE_RIGHT);
    table_col(t, "TEMP", TABLE_RIGHT);
    table_col(t, "ECC", TABLE_LEFT);
    table_col(t, "MIG", TABLE_LEFT);
    table_col(t, "STATE", TABLE_LEFT);
    for (size_t i = 0; i < s->hw->gpus_count; i++)
        gpu_row(s, t, &s->hw->gpus[i]);
    show_table(s, t);
}

/* ---- lines that several GPUs share ---- */
/* Prints "GPU 0-7: text" once for all GPUs of the same text; `make` leaves `b` empty
 * for a GPU it has nothing to say about. */
static void show_grouped(struct hw_print *s, enum table_colour c, const char *word,
                         void (*make)(const struct hw *hw, const struct hw_gpu *g, struct buf *b))
{
    const struct hw *hw = s->hw;
    size_t count = hw->gpus_count < SHOW_IDS_MAX ? hw->gpus_count : SHOW_IDS_MAX;
    bool done[SHOW_IDS_MAX] = { false };
    struct buf a = { 0 }, b = { 0 }, ids = { 0 };

    for (size_t i = 0; i < count; i++) {
        bool set[SHOW_IDS_MAX] = { false };
        char name[SHOW_TEXT_MAX];
        buf_reset(&a);
        if (!done[i])
            make(hw, &hw->gpus[i], &a);
        if (a.len == 0)
            continue;
        for (size_t k = i; k < count; k++) {
            const struct hw_gpu *g = &hw->gpus[k];
            buf_reset(&b);
            make(hw, g, &b);
            if (!str_eq(buf_str(&a), buf_str(&b)) || !g->index.known || g->index.v < 0 ||
                g->index.v >= SHOW_IDS_MAX || !hw->gpus[i].index.known)
                continue;
            set[g->index.v] = done[k] = true;
        }
        buf_reset(&ids);
        show_ids(&ids, set, SHOW_IDS_MAX);
        if (ids.len)
            show_line(s, c, "%sGPU %s: %s", word, buf_str(&ids), buf_str(&a));
        else
            show_line(s, c, "%s%s: %s", word, show_gpu_name(&hw->gpus[i], name), buf_str(&a));
    }
    buf_release(&ids);
    buf_release(&b);
    buf_release(&a);
}

/* ---- NVLink ---- */
struct nvlink_counts { /* one GPU's NVLinks, counted */
    size_t up, known, to_switch, to_gpu, to_other, gpus;
    int64_t speed; /* MB/s of the slowest that is up; 0: not told */
    int64_t total;
};

static void links_peer(struct nvlink_counts *l, const struct hw_nvlink *n, const char **peers)
{
    size_t i = 0;

    if (str_eq(n->remote_kind, "switch")) {
        l->to_switch++;
        return;
    }
    if (!str_eq(n->remote_kind, "gpu")) {
        l->to_other++;
        return;
    }
    l->to_gpu++;
    while (i < l->gpus && !str_eq(peers[i], n->remote_bdf))
        i++;
    if (i == l->gpus && l->gpus < NVLINK_PEERS_MAX)
        peers[l->gpus++] = n->remote_bdf;
}

static struct nvlink_counts links_count(const struct hw_gpu *g)
{
    const char *peers[NVLINK_PEERS_MAX];
    struct nvlink_counts l = { 0 };

    FOR_EACH(const struct hw_nvlink, n, g->nvlinks) {
        if (!n->active.known)
            continue;
        l.known++;
        if (!n->active.v)
            continue;
        l.up++;
        if (n->speed_mbps.known && n->speed_mbps.v > 0 &&
            (l.speed == 0 || n->speed_mbps.v < l.speed))
            l.speed = n->speed_mbps.v;
        links_peer(&l, n, peers);
    }
    l.total = maybe_or(g->nvlinks_total, (int64_t)l.known);
    return l;
}

static void nvlink_text(const struct hw *hw, const struct hw_gpu *g, struct buf *b)
{
    struct nvlink_counts l = links_count(g);

    (void)hw;
    if (l.known == 0 || l.up == 0)
        return;
    buf_addf(b, "%zu NVLink%s", l.up, l.up == 1 ? "" : "s");
    if (l.speed > 0)
        buf_addf(b, " at %.1f GB/s each way", (double)l.speed / 1000);
    if (l.to_switch == l.up)
        buf_adds(b, " to NVSwitch");
    else if (l.to_gpu == l.up && l.gpus == 1)
        buf_adds(b, " to one GPU");
    else if (l.to_gpu == l.up)
        buf_addf(b, " to %zu GPUs", l.gpus);
    if (l.speed > 0)
        buf_addf(b, ", %.0f GB/s in all", (double)l.speed * (double)l.up / 1000);
}

static void mig_text(const struct hw *hw, const struct hw_gpu *g, struct buf *b)
{
    char size[UNITS_TEXT_MAX];

    (void)hw;
    if (!maybe_is(g->mig, 1))
        return;
    if (g->migs_count == 0) {
        buf_adds(b, "MIG is on, no instance exists: nothing can run on it");
        return;
    }
    buf_addf(b, "%zu MIG instance%s", g->migs_count, g->migs_count == 1 ? "" : "s");
    for (size_t i = 0; i < g->migs_count; i++) {
        const struct hw_mig *m = &g->migs[i];
        size_t same = 0, before = 0;
        for (size_t k = 0; k < g->migs_count; k++) {
            same += str_eq(g->migs[k].name, m->name);
            before += k < i && str_eq(g->migs[k].name, m->name);
        }
        if (before)
            continue;
        buf_addf(b, "%s%zu x %s", i ? ", " : ": ", same, show_str(m->name));
        if (m->mem_bytes.known)
            buf_addf(b, " (%s)", show_bytes(m->mem_bytes, size));
    }
}

/* ---- what is wrong ---- */
static void fault_state(const struct hw_gpu *g, struct buf *b)
{
    if (str_eq(g->state, "lost"))
        show_part(b, "; ", "lost: it no longer answers on the PCI bus");
    else if (str_eq(g->state, "unanswered"))
        show_part(b, "; ", "the driver did not answer for it");
    else if (str_eq(g->state, "error"))
        show_part(b, "; ", "the driver answers with errors");
    if (g->errors_count > 0 && !str_eq(g->state, "ok"))
        show_part(b, "; ", "%s: %s", show_str(g->errors[0].call), show_str(g->errors[0].text));
}

static void fault_nvlink(const struct hw_gpu *g, struct buf *b)
{
    struct nvlink_counts l = links_count(g);

    if (l.up > 0 && (int64_t)l.up < l.total)
        show_part(b, "; ", "%zu of %" PRId64 " NVLinks are up", l.up, l.total);
}

static void fault_text(const struct hw *hw, const struct hw_gpu *g, struct buf *b)
{
    (void)hw;
    fault_state(g, b);
    if (g->recovery_action && !str_eq(g->recovery_action, "none"))
        show_part(b, "; ", "the driver asks for: %s", g->recovery_action);
    if (g->pcie_width.known && g->pcie_width_max.known && g->pcie_width.v < g->pcie_width_max.v)
        show_part(b, "; ", "PCIe link degraded to %" PRId64 " of %" PRId64 " lanes",
                  g->pcie_width.v, g->pcie_width_max.v);
    if (g->ecc_dbe_volatile.known && g->ecc_dbe_volatile.v > 0)
        show_part(b, "; ", "%" PRId64 " uncorrectable memory errors since boot",
                  g->ecc_dbe_volatile.v);
    if (maybe_is(g->remap_failed, 1))
        show_part(b, "; ", "row remapping failed: replace it");
    if (maybe_is(g->remap_pending, 1))
        show_part(b, "; ", "row remapping waits for a reset");
    if (g->fabric_status && !str_eq(g->fabric_status, "ok") &&
        !str_eq(g->fabric_state, "not-supported"))
        show_part(b, "; ", "NVLink fabric: %s", g->fabric_status);
    if (g->fabric_state && !str_eq(g->fabric_state, "not-supported") &&
        !str_eq(g->fabric_state, "completed"))
        show_part(b, "; ", "has not joined the NVLink fabric (%s): CUDA fails with error 802",
                  g->fabric_state);
    fault_nvlink(g, b);
}

static void show_hung(struct hw_print *s)
{
    const struct hw_nvidia *n = &s->hw->nvidia;
    struct buf b = { 0 };

    if (!n->hung_call)
        return;
    if (n->hung_pid.known)
        show_part(&b, ", ", "process %" PRId64, n->hung_pid.v);
    if (n->hung_state)
        show_part(&b, ", ", "state %s", n->hung_state);
    if (n->hung_wchan && *n->hung_wchan)
        show_part(&b, ", ", "sleeps in %s", n->hung_wchan);
    show_line(s, COLOUR_RED, "PROBLEM: driver not answering: %s never returned%s%s%s", n->hung_call,
              b.len ? " (" : "", buf_str(&b), b.len ? ")" : "");
    buf_release(&b);
}

/* On the bus, but not ours to use: no fault, but a surprise to many. */
static void show_unusable(struct hw_print *s)
{
    size_t hidden = 0, bare = 0;

    for (size_t i = 0; i < s->hw->gpus_count; i++) {
        hidden += str_eq(s->hw->gpus[i].state, "hidden");
        bare += str_eq(s->hw->gpus[i].state, "no-driver");
    }
    if (hidden)
        show_line(s, COLOUR_YELLOW,
                  "%zu GPU%s on the PCI bus, but the driver does not show %s here", hidden,
                  hidden == 1 ? " is" : "s are", hidden == 1 ? "it" : "them");
    if (bare)
        show_line(s, COLOUR_YELLOW, "%zu GPU%s no driver", bare, bare == 1 ? " has" : "s have");
}

/* ---- no GPU ---- */
static bool pci_has_nvidia(const struct hw *hw)
{
    for (size_t i = 0; i < hw->pci_count; i++)
        if (maybe_is(hw->pci[i].vendor, PCI_VENDOR_NVIDIA) && hw->pci[i].class_.known &&
            hw->pci[i].class_.v >> 16 == 0x03)
            return true;
    return false;
}

static void show_none(struct hw_print *s)
{
    const struct hw_nvidia *n = &s->hw->nvidia;

    if (pci_has_nvidia(s->hw))
        show_line(s, COLOUR_YELLOW, "an NVIDIA GPU is on the PCI bus, but none can be used here");
    else if (s->hw->pci_count == 0)
        show_line(s, COLOUR_NONE, "none: no PCI device of interest is visible here");
    else
        show_line(s, COLOUR_NONE, "none: no NVIDIA GPU on the PCI bus");
    if (n->nvml_error)
        show_line(s, COLOUR_DIM, "driver library: %s", n->nvml_error);
}

void show_gpus(struct hw_print *s)
{
    const struct hw *hw = s->hw;
    struct buf b = { 0 };

    show_section(s, "GPUs");
    if (hw->gpus_count == 0) {
        show_none(s);
        show_hung(s);
        return;
    }
    heading_names(hw, &b);
    heading_driver(&hw->nvidia, &b);
    show_line(s, COLOUR_NONE, "%s", buf_str(&b));
    buf_release(&b);
    show_daemons(s);
    if (hw->nvidia.nvml_error)
        show_line(s, COLOUR_YELLOW, "driver library: %s", hw->nvidia.nvml_error);
    show_hung(s);
    gpu_table(s);
    show_grouped(s, COLOUR_NONE, "", nvlink_text);
    show_grouped(s, COLOUR_NONE, "", mig_text);
    show_unusable(s);
    show_grouped(s, COLOUR_RED, "PROBLEM: ", fault_text);
}
