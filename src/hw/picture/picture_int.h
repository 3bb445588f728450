/* SPDX-License-Identifier: MIT */
/* picture_int: what collects the picture's parts (picture.c) and what draws them
 * (picture_draw.c) share.
 *
 * The picture is a tree of blocks with devices as leaves:
 *
 *   NUMA node (a socket's box)
 *     host bridge
 *       PCIe switch (and switches below it)
 *         leaf: GPU, NIC, disk
 *
 * Bridges that lead to one thing only are wires, not blocks. */
#ifndef HW_PICTURE_PICTURE_INT_H
#define HW_PICTURE_PICTURE_INT_H
#include "base/each.h"
#include "hw/print/hw_print.h"
#include "hw/print/hw_print_int.h"

enum {
    PIC_LEAVES_MAX = 128, /* devices drawn; a line says how many are not */
    PIC_BLOCKS_MAX = 192,
    PIC_CHAIN_MAX = 16, /* bridges above a device */
    PIC_TEXT_MAX = 96,
    /* user units */
    PIC_MARGIN = 28,
    PIC_LEAF_W = 138,
    PIC_BUS_W = 14,  /* left of a leaf: the wire it hangs on */
    PIC_RAIL_W = 14, /* right of a column: its NVLinks, on the way down */
    PIC_COL_W = PIC_LEAF_W + PIC_BUS_W + PIC_RAIL_W,
    PIC_GAP = 10,
    PIC_HEAD_H = 26,   /* a host bridge's or a switch's bar */
    PIC_CPU_H = 74,    /* the text on top of a NUMA node's box */
    PIC_SOCKET_H = 26, /* above the boxes of a socket of several NUMA nodes: its frame's title */
    PIC_SOCKET_PAD = 10,
    PIC_PAD = 14,
    PIC_NODE_GAP = 44
};

enum pic_kind { PIC_NUMA, PIC_HOST, PIC_SWITCH, PIC_GPU, PIC_NIC, PIC_DISK };

struct pic_leaf {
    enum pic_kind kind;
    const char *bdf;
    const struct hw_pci *pci; /* NULL: the bus does not know it */
    struct maybe numa;
    bool fault;
    bool ghost;         /* here, but not ours to use */
    bool nvlink;        /* a wire to the NVLink bar */
    bool c2c;           /* a wire to the processor: NVLink-C2C */
    unsigned used;      /* a bit for each line that is of a port NCCL uses */
    size_t links;       /* interfaces of a bond that are drawn as one; 0: no bond */
    const char *master; /* the bond it is part of; NULL: none */
    char title[PIC_TEXT_MAX];
    char mark[PIC_TEXT_MAX]; /* at the right of the title: lanes, or a fault's word */
    char lines[2][PIC_TEXT_MAX];
    size_t block;
    double x, y, h;
    double rail_x; /* where its NVLinks go down */
};

struct pic_block {
    enum pic_kind kind;
    const char *key; /* bridge's bdf, host bridge's name; NULL for a NUMA node */
    int64_t numa;    /* PIC_NUMA; -1: unknown */
    int64_t socket;  /* of a PIC_NUMA whose socket has several; -1: no frame */
    size_t parent;   /* PIC_BLOCKS_MAX: none */
    char title[PIC_TEXT_MAX];
    char lines[2][PIC_TEXT_MAX];
    char uplink[PIC_TEXT_MAX]; /* lanes of the wire above a switch */
    double rail_x;             /* right edge of its column */
    double x, y, w, h;
};

struct pic {
    const struct hw *hw;
    const struct hw_picture_marks *marks; /* NULL: none */
    bool frames;                          /* a socket has several NUMA nodes */
    struct pic_leaf leaves[PIC_LEAVES_MAX];
    size_t leaves_count, left_out;
    struct pic_block blocks[PIC_BLOCKS_MAX]; /* parents before children */
    size_t blocks_count;
    char nvlink[PIC_TEXT_MAX * 2]; /* what the bar says; "": no NVLink */
    double room;                   /* height up to which host bridges share a column */
    double width, height, bottom;  /* bottom: of the NUMA nodes' boxes */
};

/* ---- picture_draw.c ---- */
void pic_layout(struct pic *p);
void pic_draw(const struct pic *p, struct buf *out);

#endif
