/* SPDX-License-Identifier: MIT */
/* hw_print_int: what the files that print an inventory share.
 *
 * A section has its title in a gutter of SHOW_GUTTER columns and its lines right of
 * it; tables stand below, indented by two:
 *
 *   CPU       2 x AMD EPYC 9654, 192 cores, 384 threads
 *             L1d 32 KiB, L2 1 MiB, L3 32 MiB x 24
 */
#ifndef HW_PRINT_HW_PRINT_INT_H
#define HW_PRINT_HW_PRINT_INT_H
#include "base/each.h"
#include "base/text/units.h"
#include "hw/print/hw_print.h"

enum { SHOW_GUTTER = 10, SHOW_INDENT = 2, SHOW_TEXT_MAX = 64, SHOW_IDS_MAX = 256 };

struct hw_print {
    const struct hw *hw;
    struct term term;
    struct buf *out;
    const char *title; /* waits for the section's first line; NULL: printed already */
};

/* Starts a section: a blank line before all but the first. */
void show_section(struct hw_print *s, const char *title);
/* One line of the section, wrapped; the first one carries the title. */
void show_line(struct hw_print *s, enum table_colour c, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* A table below the section's line; frees it. */
void show_table(struct hw_print *s, struct table *t);

/* Appends to a list: `sep` before all but the first. */
void show_part(struct buf *b, const char *sep, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Cells: "-" when unknown. */
const char *show_str(const char *s);
void show_cell_int(struct table *t, enum table_colour c, struct maybe v, const char *unit);
const char *show_bytes(struct maybe v, char out[UNITS_TEXT_MAX]);
const char *show_rate(struct maybe mbps, char out[UNITS_TEXT_MAX]); /* megabits: "400 Gb/s" */

/* "GPU 3", or "GPU at 0000:3b:00.0" when the driver gave it no number. */
const char *show_gpu_name(const struct hw_gpu *g, char out[SHOW_TEXT_MAX]);
/* "Intel(R) Xeon(R) Platinum 8480C" without the marks. */
void show_cpu_model(const char *model, struct buf *b);
/* "0-3,6" from flags. */
void show_ids(struct buf *b, const bool *set, size_t count);
/* 0 is nearest; past the last word for unknown. */
int show_path_rank(const char *path);
/* "5" from "32.0 GT/s PCIe": the PCIe generation; unknown for a speed we do not know. */
struct maybe show_pcie_gen(const char *speed);

/* The sections (hw_print_gpu.c, hw_print_net.c). */
void show_gpus(struct hw_print *s);
void show_rdma(struct hw_print *s);
void show_nets(struct hw_print *s);
void show_storage(struct hw_print *s);

/* ---- NICs in one order, for the matrix and the picture (hw_print_topo.c) ---- */
struct show_nic {
    const char *name; /* RDMA device, or interface when it has none */
    const char *bdf;
    const struct hw_rdma *rdma; /* NULL: no RDMA */
    const struct hw_net *net;   /* NULL: none known */
};
/* In a container sysfs shows all devices of the host; those that cannot be opened, while
 * others can, are not this container's. */
bool show_rdma_foreign(const struct hw *hw, const struct hw_rdma *r);
/* Our RDMA devices first, then physical interfaces without one; at most `cap`. */
size_t show_nics(const struct hw *hw, struct show_nic *out, size_t cap);

#endif
