/* SPDX-License-Identifier: MIT */
/* hw_print: an inventory for people, as text and as a picture.
 *
 * Pure text from `const struct hw *`: no I/O, nothing of the machine but what the
 * inventory says.  Unknown is "-" in a column and is left out of a sentence; a
 * fault carries a word and, on a terminal, red. */
#ifndef HW_PRINT_HW_PRINT_H
#define HW_PRINT_HW_PRINT_H
#include "base/text/table.h"
#include "hw/hw.h"

enum {
    SHOW_WIDTH_MAX = 100, /* columns used of a wider terminal */
    SHOW_NETS_MAX = 24,   /* interfaces listed one by one */
    SHOW_MOUNTS_MAX = 12, /* file systems listed one by one */
    SHOW_NICS_MAX = 48,   /* NICs in the matrix and in the picture */
    SHOW_MATRIX_MAX = 72, /* rows and columns of the matrix: GPUs, then NICs */
    SHOW_NUMA_MAX = 16,   /* NUMA nodes listed one by one */
    SHOW_LINE_MAX = 1200, /* bytes of one line before it is wrapped; the rest is cut */
    SHOW_WORD_MAX = 84    /* bytes of one word of a line; the rest is cut */
};

/* A line of a section that another module adds: what NCCL will do, for one. */
struct show_line {
    enum table_colour colour;
    const char *text;
};

struct show_section {
    const char *title; /* at most 9 characters */
    const struct show_line *lines;
    size_t count;
};

/* The whole inventory; `extra` (or NULL) stands between software and the notes. */
void hw_show(const struct hw *hw, const struct term *term, const struct show_section *extra,
             struct buf *out);

/* The distance matrix as readers of `nvidia-smi topo -m` know it. */
void hw_show_topo(const struct hw *hw, struct buf *out);
void hw_topo_json(const struct hw *hw, struct buf *out); /* schema stoker.topo/1 */

/* An SVG of sockets, host bridges, switches, GPUs, NICs and the links between.  Ports that NCCL
 * uses are marked: who knows them (nccl/) gives them; NULL: none are. */
struct hw_picture_port {
    const char *dev; /* "mlx5_0" */
    int64_t port;    /* from 1 */
};
struct hw_picture_marks {
    const struct hw_picture_port *items;
    size_t count;
};
void hw_picture(const struct hw *hw, const struct hw_picture_marks *marks, struct buf *out);

#endif
