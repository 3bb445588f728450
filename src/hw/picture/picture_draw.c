/* SPDX-License-Identifier: MIT */
/* picture_draw: places the blocks of a picture and writes the SVG.
 *
 * Sizes come from below (a block is as wide as what hangs under it), positions from
 * above.  Host bridges of a NUMA node share columns up to a height; of several such
 * heights the one is taken that gives the shape of a slide.  Text is measured by its
 * characters (no usual font is wider than CHAR_EM on average), and what does not fit is
 * cut with an ellipsis.
 *
 *   +-- NUMA node --------------------------+
 *   | title, CPU, memory                    |
 *   | [host bridge     ]  [host bridge    ] |
 *   |  |- [switch x16  ]   |- leaf          |
 *   |      |- GPU ------+  |- leaf          |   right of a column: NVLink, going down
 *   |      |- NIC       |                   |
 *   +-------------------|-------------------+
 *   [ NVSwitch                              ] */
#include "base/text/svg.h"
#include "base/text/utf8.h"
#include "hw/picture/picture_int.h"

#include <inttypes.h>

enum {
    ROWS_MAX = 6,   /* leaves below one another before a second column opens */
    STACKS_MAX = 6, /* heights tried: so many of the tallest host bridge */
    COLUMN_GAP = 16,
    NUMA_MIN_W = 250,
    NUMA_FEW = 4, /* more nodes than that stand closer */
    TITLE_H = 74,
    BAR_H = 34,
    BAR_GAP = 34,
    LEGEND_H = 44,
    WIDTH_MIN = 520
};
static const double CHAR_EM = 0.57, CHAR_EM_BOLD = 0.67;
static const double SLIDE = 1.8; /* width by height */

static const char css[] =
    "text { font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', "
    "'DejaVu Sans', sans-serif; fill: #1c2430; }\n"
    ".bg { fill: #ffffff; }\n"
    ".h1 { font-size: 22px; font-weight: 600; }\n"
    ".h2 { font-size: 13px; fill: #55606e; }\n"
    ".t { font-size: 13px; font-weight: 600; }\n"
    ".s { font-size: 11px; fill: #3c4653; }\n"
    ".m { font-size: 10px; fill: #55606e; }\n"
    ".bad { font-size: 10px; font-weight: 700; fill: #a3271d; }\n"
    ".numa { fill: #f5f7fa; stroke: #94a0b0; stroke-width: 1.5; }\n"
    ".host { fill: #e3e7f6; stroke: #7f8ac0; }\n"
    ".switch { fill: #e6def2; stroke: #9079bd; }\n"
    ".gpu { fill: #e4f3d6; stroke: #5f9a00; }\n"
    ".nic { fill: #dbeaf8; stroke: #3b7fb8; }\n"
    ".disk { fill: #f6eedd; stroke: #b39347; }\n"
    ".ghost { fill: #f3f4f6; stroke: #8d97a5; stroke-dasharray: 4 3; }\n"
    ".fault { fill: #fbdfdc; stroke: #c8372d; stroke-width: 1.5; }\n"
    ".bar { fill: #d3eab4; stroke: #5f9a00; stroke-width: 1.5; }\n"
    ".wire { stroke: #7a8594; stroke-width: 1.4; fill: none; }\n"
    ".socket { fill: #eceff4; stroke: #6d7a8c; stroke-width: 1.5; stroke-dasharray: 7 4; }\n"
    ".used { fill: #c3dcf5; stroke: #14599a; stroke-width: 2.5; }\n"
    ".nccl { font-size: 10px; font-weight: 700; fill: #14599a; }\n"
    ".c2c { stroke: #d07a00; stroke-width: 4; fill: none; stroke-linejoin: round; }\n"
    ".rail { stroke: #6aa80a; stroke-width: 3; fill: none; stroke-linejoin: round; }\n"
    ".cross { stroke: #94a0b0; stroke-width: 5; }\n";

/* ---- sizes ---- */
static double leaf_height(const struct pic_leaf *l)
{
    return l->kind == PIC_GPU || *l->lines[1] ? 58 : l->kind == PIC_NIC ? 42 : 26;
}

static size_t leaves_of(const struct pic *p, size_t block)
{
    size_t n = 0;

    for (size_t i = 0; i < p->leaves_count; i++)
        n += p->leaves[i].block == block;
    return n;
}

/* Places a block's own leaves, relative to the block; gives the area they take. */
static void place_leaves(struct pic *p, size_t block, double *w, double *h)
{
    size_t n = leaves_of(p, block), cols = (n + ROWS_MAX - 1) / ROWS_MAX, rows, column, k = 0;
    double y = 0;

    *w = *h = 0;
    if (n == 0)
        return;
    rows = (n + cols - 1) / cols;
    FOR_EACH(struct pic_leaf, l, p->leaves) {
        if (l->block != block)
            continue;
        y = k % rows == 0 ? PIC_HEAD_H + PIC_GAP : y;
        column = k / rows;
        l->x = (double)column * PIC_COL_W + PIC_BUS_W;
        l->y = y;
        l->h = leaf_height(l);
        y += l->h + PIC_GAP;
        *h = y - PIC_GAP > *h ? y - PIC_GAP : *h;
        k++;
    }
    *w = (double)cols * PIC_COL_W;
}

/* A host bridge or a switch: its leaves, and below them the blocks that hang on it. */
static void size_block(struct pic *p, size_t at)
{
    struct pic_block *b = &p->blocks[at];
    double w, h, x = PIC_BUS_W, top;

    place_leaves(p, at, &w, &h);
    b->h = h > PIC_HEAD_H ? h : PIC_HEAD_H;
    top = b->h + PIC_GAP;
    for (size_t i = at + 1; i < p->blocks_count; i++) {
        struct pic_block *c = &p->blocks[i];
        if (c->parent != at)
            continue;
        c->x = x;
        c->y = top;
        x += c->w + PIC_GAP;
        w = c->x + c->w > w ? c->x + c->w : w;
        b->h = c->y + c->h > b->h ? c->y + c->h : b->h;
    }
    b->w = w < PIC_COL_W ? PIC_COL_W : w;
}

/* NVLinks of a narrow block leave at its column's right edge, so that others may
 * stand below it; those of a wide one go straight down. */
static bool is_narrow(const struct pic_block *b)
{
    return b->w <= PIC_COL_W + 2 * PIC_BUS_W;
}

static size_t numa_nodes(const struct pic *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->blocks_count; i++)
        n += p->blocks[i].kind == PIC_NUMA;
    return n;
}

/* A NUMA node: host bridges in columns of at most p->room. */
static void size_numa(struct pic *p, size_t at)
{
    struct pic_block *b = &p->blocks[at];
    double x = PIC_PAD, y = 0, col = 0, tall = 0;
    bool open = false; /* the last column takes more */

    for (size_t i = at + 1; i < p->blocks_count; i++) {
        struct pic_block *c = &p->blocks[i];
        if (c->parent != at)
            continue;
        if (!open || !is_narrow(c) || y + c->h > p->room) {
            x += col > 0 ? col + COLUMN_GAP : 0;
            y = col = 0;
        }
        c->x = x;
        c->y = PIC_CPU_H + y;
        y += c->h + COLUMN_GAP;
        col = c->w > col ? c->w : col;
        tall = y - COLUMN_GAP > tall ? y - COLUMN_GAP : tall;
        open = is_narrow(c);
    }
    b->w = x + col + PIC_PAD;
    col = numa_nodes(p) > NUMA_FEW ? PIC_COL_W + 2 * PIC_PAD : NUMA_MIN_W;
    b->w = b->w < col ? col : b->w;
    b->h = PIC_CPU_H + tall + (tall > 0 ? PIC_PAD : 0);
}

/* All blocks of one column let their NVLinks down at the same place. */
static double column_edge(const struct pic *p, const struct pic_block *b)
{
    double edge = b->x + b->w;

    for (size_t i = 0; i < p->blocks_count && is_narrow(b); i++) {
        const struct pic_block *o = &p->blocks[i];
        if (o->parent == b->parent && o->x == b->x && o->x + o->w > edge)
            edge = o->x + o->w;
    }
    return edge;
}

static void place_absolute(struct pic *p)
{
    FOR_EACH(struct pic_block, b, p->blocks) {
        const struct pic_block *up = b->parent < PIC_BLOCKS_MAX ? &p->blocks[b->parent] : NULL;

        if (!up)
            continue;
        b->x += up->x;
        b->y += up->y;
    }
    FOR_EACH(struct pic_block, b, p->blocks) {
        if (b->kind == PIC_HOST)
            b->rail_x = is_narrow(b) ? column_edge(p, b) - PIC_RAIL_W / 2.0 : 0;
        else if (b->kind == PIC_SWITCH)
            b->rail_x = p->blocks[b->parent].rail_x;
    }
    FOR_EACH(struct pic_leaf, l, p->leaves) {
        const struct pic_block *b = &p->blocks[l->block];

        l->x += b->x;
        l->y += b->y;
        l->rail_x = b->rail_x > 0 ? b->rail_x : l->x + PIC_LEAF_W + PIC_RAIL_W / 2.0;
    }
}

/* Sizes for one p->room: the NUMA nodes side by side. */
static void size_all(struct pic *p)
{
    double x = PIC_MARGIN, tall = 0, gap = PIC_NODE_GAP;
    const struct pic_block *last = NULL;
    size_t nodes = numa_nodes(p);

    gap = nodes > NUMA_FEW ? PIC_NODE_GAP / 1.6 : gap;
    for (size_t i = p->blocks_count; i-- > 0;) {
        if (p->blocks[i].kind == PIC_NUMA)
            size_numa(p, i);
        else
            size_block(p, i);
    }
    FOR_EACH(struct pic_block, b, p->blocks) {
        if (b->kind != PIC_NUMA)
            continue;
        if (last && last->socket != b->socket)
            x += 2 * PIC_SOCKET_PAD; /* two frames */
        last = b;
        b->x = x;
        b->y = PIC_MARGIN + TITLE_H + (p->frames ? PIC_SOCKET_H : 0);
        if (nodes == 1 && b->w < WIDTH_MIN - 2 * PIC_MARGIN)
            b->w = WIDTH_MIN - 2 * PIC_MARGIN;
        x += b->w + gap;
        tall = b->h > tall ? b->h : tall;
    }
    p->width = x - gap + PIC_MARGIN;
    p->width = p->width < WIDTH_MIN ? WIDTH_MIN : p->width;
    p->bottom = PIC_MARGIN + TITLE_H + (p->frames ? PIC_SOCKET_H : 0) + tall;
    p->height = p->bottom + (*p->nvlink ? BAR_GAP + BAR_H : 0) + LEGEND_H + PIC_MARGIN;
}

void pic_layout(struct pic *p)
{
    double tallest = PIC_HEAD_H, best = 0, best_room = 0;

    size_all(p);
    for (size_t i = 0; i < p->blocks_count; i++)
        if (p->blocks[i].kind == PIC_HOST && p->blocks[i].h > tallest)
            tallest = p->blocks[i].h;
    for (int n = 1; n <= STACKS_MAX; n++) {
        double shape, miss;
        p->room = n * (tallest + COLUMN_GAP);
        size_all(p);
        shape = p->width / p->height;
        miss = shape > SLIDE ? shape / SLIDE : SLIDE / shape;
        if (n == 1 || miss < best) {
            best = miss;
            best_room = p->room;
        }
    }
    p->room = best_room;
    size_all(p);
    for (size_t i = 0; i < p->blocks_count; i++)
        if (p->blocks[i].kind == PIC_NUMA)
            p->blocks[i].h = p->bottom - p->blocks[i].y;
    place_absolute(p);
}

/* ---- drawing ---- */
/* Text cut to `room` units at the font's size. */
static void draw_text(struct buf *out, const char *cls, double x, double y, const char *anchor,
                      double room, double size, const char *s)
{
    bool bold = cls[0] == 't' || cls[0] == 'h' || cls[0] == 'b';
    size_t fits = (size_t)(room / (size * (bold ? CHAR_EM_BOLD : CHAR_EM))), used = 0;
    char cut[PIC_TEXT_MAX * 2 + 8];
    const char *q = s;

    if (!*s)
        return;
    if (utf8_width(s) <= fits) {
        svg_text(out, cls, x, y, anchor, "%s", s);
        return;
    }
    while (*q && used + 1 < fits) {
        q++;
        while (((unsigned char)*q & 0xc0) == 0x80)
            q++;
        used++;
    }
    snprintf(cut, sizeof(cut), "%.*s…", (int)(q - s), s);
    svg_text(out, cls, x, y, anchor, "%s", cut);
}

static double text_width(const char *s, double size)
{
    return (double)utf8_width(s) * size * CHAR_EM;
}

static const char *kind_class(enum pic_kind k)
{
    static const char *const names[] = { "numa", "host", "switch", "gpu", "nic", "disk" };

    return names[k];
}

static void draw_leaf(const struct pic_leaf *l, struct buf *out)
{
    const char *cls = l->fault   ? "fault"
                      : l->ghost ? "ghost"
                      : l->used  ? "used"
                                 : kind_class(l->kind);
    double mark = *l->mark ? text_width(l->mark, 10) + 8 : 0;
    double room = PIC_LEAF_W - 16;

    if (!l->fault && !l->ghost && text_width(l->title, 13) * CHAR_EM_BOLD / CHAR_EM > room - mark)
        mark = 0; /* the name matters more than its lanes */
    svg_rect(out, cls, l->x, l->y, PIC_LEAF_W, l->h, 6);
    draw_text(out, "t", l->x + 8, l->y + 17, "start", room - mark, 13, l->title);
    if (mark > 0)
        draw_text(out, l->fault ? "bad" : "m", l->x + PIC_LEAF_W - 8, l->y + 17, "end", room, 10,
                  l->mark);
    for (int i = 0; i < 2; i++) {
        bool used = l->used >> i & 1;

        draw_text(out, "s", l->x + 8, l->y + 33 + 16 * i, "start", room - (used ? 32 : 0), 11,
                  l->lines[i]);
        if (used)
            svg_text(out, "nccl", l->x + PIC_LEAF_W - 8, l->y + 33 + 16 * i, "end", "NCCL");
    }
}

/* The wires from a block's bar to what hangs on it. */
static void draw_wires(const struct pic *p, size_t at, struct buf *out)
{
    const struct pic_block *b = &p->blocks[at];
    double top = b->y + PIC_HEAD_H;

    FOR_EACH(const struct pic_leaf, l, p->leaves) {
        double x = l->x - PIC_BUS_W / 2.0, mid = l->y + l->h / 2;
        if (l->block != at)
            continue;
        svg_line(out, "wire", x, top, x, mid);
        svg_line(out, "wire", x, mid, l->x, mid);
    }
    for (size_t i = at + 1; i < p->blocks_count; i++) {
        const struct pic_block *c = &p->blocks[i];
        double x = b->x + PIC_BUS_W / 2.0, mid = c->y + PIC_HEAD_H / 2.0;
        if (c->parent != at)
            continue;
        if (c->x - b->x <= PIC_BUS_W) {
            svg_line(out, "wire", x, top, x, mid);
            svg_line(out, "wire", x, mid, c->x, mid);
        } else { /* a neighbour of the first one: over the top of it */
            x = c->x + PIC_BUS_W;
            svg_line(out, "wire", b->x + PIC_BUS_W / 2.0, c->y - PIC_GAP / 2.0, x,
                     c->y - PIC_GAP / 2.0);
            svg_line(out, "wire", x, c->y - PIC_GAP / 2.0, x, c->y);
        }
    }
}

static void draw_block(const struct pic *p, size_t at, struct buf *out)
{
    const struct pic_block *b = &p->blocks[at];
    double w = b->w - PIC_RAIL_W, mark = *b->uplink ? text_width(b->uplink, 10) + 8 : 0;

    svg_rect(out, kind_class(b->kind), b->x, b->y, w, PIC_HEAD_H, 5);
    draw_text(out, "s", b->x + 8, b->y + 17, "start", w - 16 - mark, 11, b->title);
    draw_text(out, "m", b->x + w - 8, b->y + 17, "end", w - 16, 10, b->uplink);
    draw_wires(p, at, out);
}

static void draw_numa(const struct pic_block *b, struct buf *out)
{
    double room = b->w - 2 * PIC_PAD;

    svg_rect(out, "numa", b->x, b->y, b->w, b->h, 12);
    draw_text(out, "t", b->x + PIC_PAD, b->y + 23, "start", room, 13, b->title);
    draw_text(out, "s", b->x + PIC_PAD, b->y + 41, "start", room, 11, b->lines[0]);
    draw_text(out, "s", b->x + PIC_PAD, b->y + 57, "start", room, 11, b->lines[1]);
}

/* Around the nodes of each socket that has several; they stand side by side. */
static void draw_sockets(const struct pic *p, struct buf *out)
{
    for (size_t i = 0, last; i < p->blocks_count; i = last + 1) {
        const struct pic_block *b = &p->blocks[i], *end = b;

        last = i;
        if (b->kind != PIC_NUMA || b->socket < 0)
            continue;
        for (size_t k = i + 1; k < p->blocks_count; k++)
            if (p->blocks[k].kind == PIC_NUMA && p->blocks[k].socket == b->socket) {
                end = &p->blocks[k];
                last = k;
            }
        svg_rect(out, "socket", b->x - PIC_SOCKET_PAD, b->y - PIC_SOCKET_H,
                 end->x + end->w - b->x + 2 * PIC_SOCKET_PAD, b->h + PIC_SOCKET_H + PIC_SOCKET_PAD,
                 14);
        svg_text(out, "t", b->x, b->y - 8, "start", "Socket %" PRId64, b->socket);
    }
}

/* NVLink-C2C: from the GPU up to its processor. */
static void draw_c2c(const struct pic *p, struct buf *out)
{
    FOR_EACH(const struct pic_leaf, l, p->leaves) {
        const struct pic_block *b = &p->blocks[l->block];
        char d[128];

        if (!l->c2c)
            continue;
        while (b->parent < PIC_BLOCKS_MAX)
            b = &p->blocks[b->parent];
        snprintf(d, sizeof(d), "M%.1f %.1f H%.1f V%.1f", l->x + PIC_LEAF_W, l->y + 12.0,
                 l->rail_x - 3, b->y + PIC_CPU_H - 8.0);
        svg_path(out, "c2c", d);
        svg_text(out, "m", l->rail_x - 3, b->y + PIC_CPU_H - 12.0, "end", "C2C");
    }
}

/* The link between neighbouring nodes, with the kernel's distance. */
static void draw_cross(const struct pic *p, struct buf *out)
{
    const struct pic_block *last = NULL;

    FOR_EACH(const struct pic_block, b, p->blocks) {
        if (b->kind != PIC_NUMA)
            continue;
        if (last && last->numa >= 0 && b->numa >= 0)
            svg_line(out, "cross", last->x + last->w + 1, b->y + 40, b->x - 1, b->y + 40);
        for (size_t k = 0; last && k < p->hw->numa_count; k++) {
            const struct hw_numa *n = &p->hw->numa[k];
            if (maybe_is(n->id, last->numa) && b->numa >= 0 &&
                (size_t)b->numa < n->distances_count && n->distances[b->numa].known)
                svg_text(out, "m", (last->x + last->w + b->x) / 2, b->y + 31, "middle", "%" PRId64,
                         n->distances[b->numa].v);
        }
        last = b;
    }
}

static void draw_nvlink(const struct pic *p, struct buf *out)
{
    double y = p->bottom + BAR_GAP, w = p->width - 2 * PIC_MARGIN;

    if (!*p->nvlink)
        return;
    FOR_EACH(const struct pic_leaf, l, p->leaves) {
        char d[128];

        if (!l->nvlink)
            continue;
        snprintf(d, sizeof(d), "M%.1f %.1f H%.1f V%.1f", l->x + PIC_LEAF_W, l->y + l->h - 14,
                 l->rail_x, y);
        svg_path(out, "rail", d);
    }
    svg_rect(out, "bar", PIC_MARGIN, y, w, BAR_H, 8);
    draw_text(out, "t", p->width / 2, y + 22, "middle", w - 20, 13, p->nvlink);
}

static void draw_title(const struct pic *p, struct buf *out)
{
    const struct hw *hw = p->hw;
    double room = p->width - 2 * PIC_MARGIN;
    struct buf b = { 0 };

    show_part(&b, ", ", "%s", hw->place.hostname ? hw->place.hostname : "this machine");
    if (hw->place.product)
        show_part(&b, ", ", "%s", hw->place.product);
    draw_text(out, "h1", PIC_MARGIN, PIC_MARGIN + 22, "start", room, 22, buf_str(&b));
    buf_reset(&b);
    if (hw->gpus_count)
        show_part(&b, ", ", "%zu x %s", hw->gpus_count,
                  hw->gpus[0].name ? hw->gpus[0].name : "NVIDIA GPU");
    else
        show_part(&b, ", ", "no NVIDIA GPU");
    if (hw->nvidia.driver_version)
        show_part(&b, ", ", "driver %s", hw->nvidia.driver_version);
    if (hw->rdma_count)
        show_part(&b, ", ", "%zu RDMA device%s", hw->rdma_count, hw->rdma_count == 1 ? "" : "s");
    if (hw->place.os)
        show_part(&b, ", ", "%s", hw->place.os);
    if (hw_nccl_topo_used(hw))
        show_part(&b, ", ", "NCCL goes by %s, not by the tree drawn", hw->nccl.topo_file);
    if (p->left_out)
        show_part(&b, ", ", "%zu more devices are not drawn", p->left_out);
    draw_text(out, "h2", PIC_MARGIN, PIC_MARGIN + 46, "start", room, 13, buf_str(&b));
    buf_release(&b);
}

static void draw_legend(const struct pic *p, struct buf *out)
{
    static const struct {
        enum pic_kind kind;
        const char *cls, *name;
    } rows[] = {
        { PIC_HOST, "host", "host bridge" }, { PIC_SWITCH, "switch", "PCIe switch" },
        { PIC_GPU, "gpu", "GPU" },           { PIC_NIC, "nic", "network" },
        { PIC_DISK, "disk", "disk" },
    };
    double x = PIC_MARGIN, y = p->height - PIC_MARGIN - 14;
    bool seen[PIC_DISK + 1] = { false }, fault = false, ghost = false, used = false, c2c = false;

    for (size_t i = 0; i < p->blocks_count; i++)
        seen[p->blocks[i].kind] = true;
    for (size_t i = 0; i < p->leaves_count; i++) {
        seen[p->leaves[i].kind] = true;
        fault = fault || p->leaves[i].fault;
        ghost = ghost || p->leaves[i].ghost;
        used = used || p->leaves[i].used;
        c2c = c2c || p->leaves[i].c2c;
    }
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (!seen[rows[i].kind])
            continue;
        svg_rect(out, rows[i].cls, x, y, 18, 12, 3);
        svg_text(out, "s", x + 24, y + 10, "start", "%s", rows[i].name);
        x += 24 + text_width(rows[i].name, 11) + 22;
    }
    if (used) {
        svg_rect(out, "used", x, y, 18, 12, 3);
        svg_text(out, "s", x + 24, y + 10, "start", "NCCL uses it");
        x += 24 + text_width("NCCL uses it", 11) + 22;
    }
    if (c2c) {
        svg_line(out, "c2c", x, y + 6, x + 18, y + 6);
        svg_text(out, "s", x + 24, y + 10, "start", "NVLink-C2C");
        x += 24 + text_width("NVLink-C2C", 11) + 22;
    }
    if (*p->nvlink) {
        svg_line(out, "rail", x, y + 6, x + 18, y + 6);
        svg_text(out, "s", x + 24, y + 10, "start", "NVLink");
        x += 24 + text_width("NVLink", 11) + 22;
    }
    if (ghost) {
        svg_rect(out, "ghost", x, y, 18, 12, 3);
        svg_text(out, "s", x + 24, y + 10, "start", "not usable here");
        x += 24 + text_width("not usable here", 11) + 22;
    }
    if (fault) {
        svg_rect(out, "fault", x, y, 18, 12, 3);
        svg_text(out, "s", x + 24, y + 10, "start", "fault");
    }
}

void pic_draw(const struct pic *p, struct buf *out)
{
    svg_begin(out, (int)p->width, (int)p->height, "stoker detect");
    svg_style(out, css);
    svg_rect(out, "bg", 0, 0, p->width, p->height, 0);
    draw_title(p, out);
    draw_sockets(p, out);
    draw_cross(p, out);
    for (size_t i = 0; i < p->blocks_count; i++)
        if (p->blocks[i].kind == PIC_NUMA)
            draw_numa(&p->blocks[i], out);
    draw_nvlink(p, out);
    draw_c2c(p, out);
    for (size_t i = 0; i < p->blocks_count; i++)
        if (p->blocks[i].kind != PIC_NUMA)
            draw_block(p, i, out);
    for (size_t i = 0; i < p->leaves_count; i++)
        draw_leaf(&p->leaves[i], out);
    if (p->leaves_count == 0)
        svg_text(out, "s", PIC_MARGIN + PIC_PAD, p->bottom + 16, "start",
                 "no PCI device of interest is visible here");
    draw_legend(p, out);
    svg_end(out);
}
