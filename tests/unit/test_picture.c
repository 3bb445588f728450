/* SPDX-License-Identifier: MIT */
/* The picture: nothing overlaps, nothing leaves the page, every device is there. */
#include "hw/print/hw_print.h"

#include "base/str.h"
#include "test.h"

enum { BOXES_MAX = 512 };

struct box {
    char cls[16];
    double x, y, w, h;
};

static size_t boxes_of(const char *svg, struct box out[BOXES_MAX])
{
    size_t n = 0;

    for (const char *p = svg; n < BOXES_MAX && (p = strstr(p, "<rect ")); p++)
        if (sscanf(p, "<rect class=\"%15[^\"]\" x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"",
                   out[n].cls, &out[n].x, &out[n].y, &out[n].w, &out[n].h) == 5)
            n++;
    return n;
}

static bool is_frame(const struct box *b)
{
    return str_eq(b->cls, "bg") || str_eq(b->cls, "numa") || str_eq(b->cls, "socket");
}

static bool is_around(const struct box *a, const struct box *b)
{
    return a->x <= b->x && a->y <= b->y && a->x + a->w >= b->x + b->w && a->y + a->h >= b->y + b->h;
}

static bool overlap(const struct box *a, const struct box *b)
{
    return a->x < b->x + b->w && b->x < a->x + a->w && a->y < b->y + b->h && b->y < a->y + a->h;
}

/* Boxes lie on the page and apart from each other, but in their NUMA node's frame. */
static void check_boxes(const char *svg, size_t at_least)
{
    static struct box boxes[BOXES_MAX];
    size_t n = boxes_of(svg, boxes);

    CHECK(n >= at_least);
    CHECK(str_eq(boxes[0].cls, "bg"));
    for (size_t i = 1; i < n; i++) {
        const struct box *a = &boxes[i];
        CHECK(a->x >= 0 && a->y >= 0 && a->x + a->w <= boxes[0].w && a->y + a->h <= boxes[0].h);
        for (size_t k = 1; k < i; k++)
            CHECK(is_frame(a) != is_frame(&boxes[k]) || !overlap(a, &boxes[k]) ||
                  (str_eq(boxes[k].cls, "socket") && is_around(&boxes[k], a)));
    }
}

static char *draw(const struct hw *hw)
{
    struct buf b = { 0 };

    hw_picture(hw, NULL, &b);
    CHECK(!b.over && str_starts(buf_str(&b), "<svg ") && str_ends(buf_str(&b), "</svg>\n"));
    return buf_take(&b);
}

TEST(a_machine_without_anything)
{
    struct hw hw = { 0 };
    char *svg = draw(&hw);

    CHECK(strstr(svg, "no PCI device of interest is visible here") != NULL);
    CHECK(strstr(svg, "no NVIDIA GPU") != NULL);
    check_boxes(svg, 2);
    free(svg);
}

/* Root port, switch (up, two down), a GPU and a NIC below: what most servers repeat. */
struct slot {
    char bdf[6][16];
    char root[16], nic[16];
};

static void fill_slot(struct slot *s, int i, struct hw_pci *pci, struct hw_gpu *g,
                      struct hw_rdma *r, struct hw_rdma_port *port)
{
    static const int up[6] = { -1, 0, 1, 1, 2, 3 };

    snprintf(s->root, sizeof(s->root), "pci0000:%02x", i * 16);
    snprintf(s->nic, sizeof(s->nic), "mlx5_%d", i);
    for (int k = 0; k < 6; k++) {
        snprintf(s->bdf[k], sizeof(s->bdf[k]), "0000:%02x:%02x.0", i * 16 + k, 0);
        pci[k] = (struct hw_pci){ .bdf = s->bdf[k],
                                  .root = s->root,
                                  .numa = maybe_of(i / 4),
                                  .link_speed = "32.0 GT/s PCIe",
                                  .link_width = maybe_of(16),
                                  .parent = up[k] < 0 ? NULL : s->bdf[up[k]] };
    }
    *g = (struct hw_gpu){ .index = maybe_of(i),
                          .state = "ok",
                          .name = "NVIDIA H100 80GB HBM3",
                          .bdf = s->bdf[4],
                          .numa = maybe_of(i / 4) };
    *port = (struct hw_rdma_port){ .state = "ACTIVE",
                                   .link_layer = "InfiniBand",
                                   .rate_mbps = maybe_of(400000) };
    *r = (struct hw_rdma){ .name = s->nic, .bdf = s->bdf[5], .ports = port, .ports_count = 1 };
}

TEST(eight_gpus_behind_switches)
{
    static struct slot slots[8];
    static struct hw_pci pci[48];
    static struct hw_gpu gpus[8];
    static struct hw_rdma rdma[8];
    static struct hw_rdma_port ports[8];
    struct hw_numa numa[] = { { .id = maybe_of(0), .cpus = "0-55" },
                              { .id = maybe_of(1), .cpus = "56-111" } };
    struct hw_nvlink link = { .active = maybe_of(1),
                              .speed_mbps = maybe_of(26562),
                              .remote_kind = "switch" };
    struct hw hw = { .pci = pci,
                     .pci_count = 48,
                     .gpus = gpus,
                     .gpus_count = 8,
                     .rdma = rdma,
                     .rdma_count = 8,
                     .numa = numa,
                     .numa_count = 2 };
    char *svg, word[32];

    for (int i = 0; i < 8; i++) {
        fill_slot(&slots[i], i, pci + 6 * i, &gpus[i], &rdma[i], &ports[i]);
        gpus[i].nvlinks = &link;
        gpus[i].nvlinks_count = 1;
    }
    gpus[3].state = "lost";
    ports[5].state = "DOWN";
    hw.place.hostname = "node <7> & co";
    hw.cpu.sockets = maybe_of(2);
    hw.nvidia.nvswitches = maybe_of(4);
    svg = draw(&hw);
    check_boxes(svg, 2 + 8 * 4);
    for (int i = 0; i < 8; i++) {
        snprintf(word, sizeof(word), ">GPU %d<", i);
        CHECK(strstr(svg, word) != NULL);
        snprintf(word, sizeof(word), ">mlx5_%d<", i);
        CHECK(strstr(svg, word) != NULL);
    }
    CHECK(strstr(svg, "node &lt;7&gt; &amp; co") != NULL);
    CHECK(strstr(svg, ">LOST<") != NULL && strstr(svg, ">DOWN<") != NULL);
    CHECK(strstr(svg, ">Socket 1, NUMA node 1<") != NULL);
    CHECK(strstr(svg, "NVSwitch x 4: 1 link a GPU, 26.6 GB/s a link") != NULL);
    CHECK(strstr(svg, ">gen5 x16<") != NULL && strstr(svg, ">Switch 11:00<") != NULL);
    free(svg);
}

TEST(one_wire_is_no_switch)
{
    struct hw_pci pci[] = {
        { .bdf = "0000:00:01.0", .root = "pci0000:00" },
        { .bdf = "0000:01:00.0", .root = "pci0000:00", .parent = "0000:00:01.0" }
    };
    struct hw_gpu gpu = { .index = maybe_of(0), .state = "ok", .bdf = "0000:01:00.0" };
    struct hw hw = { .pci = pci, .pci_count = 2, .gpus = &gpu, .gpus_count = 1 };
    char *svg = draw(&hw);

    CHECK(!strstr(svg, ">Switch"));
    CHECK(strstr(svg, ">Host bridge 0000:00<") != NULL);
    free(svg);
}

TEST(a_bridge_that_is_its_own_parent_ends)
{
    struct hw_pci pci[] = { { .bdf = "0000:00:01.0", .parent = "0000:00:02.0", .root = "pci0" },
                            { .bdf = "0000:00:02.0", .parent = "0000:00:01.0", .root = "pci0" },
                            { .bdf = "0000:01:00.0", .parent = "0000:00:01.0", .root = "pci0" } };
    struct hw_gpu gpu = { .bdf = "0000:01:00.0", .state = "hidden" };
    struct hw hw = { .pci = pci, .pci_count = 3, .gpus = &gpu, .gpus_count = 1 };
    char *svg = draw(&hw);

    check_boxes(svg, 3);
    CHECK(strstr(svg, "not usable here") != NULL);
    free(svg);
}

TEST(more_devices_than_fit_are_counted)
{
    static struct hw_gpu gpus[200];
    struct hw hw = { .gpus = gpus, .gpus_count = 200 };
    char *svg;

    for (int i = 0; i < 200; i++)
        gpus[i] = (struct hw_gpu){ .index = maybe_of(i), .state = "ok", .bdf = "0000:01:00.0" };
    svg = draw(&hw);
    CHECK(strstr(svg, "72 more devices are not drawn") != NULL);
    check_boxes(svg, 100);
    free(svg);
}

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;

    for (; (text = strstr(text, part)); text++)
        n++;
    return n;
}

static char *draw_used(const struct hw *hw, const struct hw_picture_port *ports, size_t count)
{
    const struct hw_picture_marks marks = { ports, count };
    struct buf b = { 0 };

    hw_picture(hw, &marks, &b);
    return buf_take(&b);
}

/* One NIC of two ports, of which NCCL uses the second; a bond of two functions of one card, and a
 * bond whose other half is on another card. */
TEST(ports_bonds_and_what_nccl_uses)
{
    struct hw_rdma_port ports[] = {
        { .port = maybe_of(1), .state = "DOWN", .link_layer = "InfiniBand" },
        { .port = maybe_of(2),
          .state = "ACTIVE",
          .link_layer = "InfiniBand",
          .rate_mbps = maybe_of(200000) },
    };
    struct hw_rdma rdma = {
        .name = "mlx5_9", .bdf = "0000:41:00.0", .ports = ports, .ports_count = 2
    };
    struct hw_net nets[] = {
        { .name = "bond0", .kind = "bond" },
        { .name = "ens1f0",
          .kind = "physical",
          .bdf = "0000:51:00.0",
          .master = "bond0",
          .speed_mbps = maybe_of(100000) },
        { .name = "ens1f1",
          .kind = "physical",
          .bdf = "0000:51:00.1",
          .master = "bond0",
          .speed_mbps = maybe_of(100000) },
        { .name = "ens2f0", .kind = "physical", .bdf = "0000:61:00.0", .master = "bond0" },
    };
    struct hw_pci pci[] = {
        { .bdf = "0000:41:00.0", .root = "pci0000:40", .numa = maybe_of(0) },
        { .bdf = "0000:51:00.0", .root = "pci0000:50", .numa = maybe_of(0) },
        { .bdf = "0000:51:00.1", .root = "pci0000:50", .numa = maybe_of(0) },
        { .bdf = "0000:61:00.0", .root = "pci0000:60", .numa = maybe_of(0) },
    };
    struct hw_numa numa = { .id = maybe_of(0), .cpus = "0-63" };
    struct hw hw = { .pci = pci,
                     .pci_count = 4,
                     .rdma = &rdma,
                     .rdma_count = 1,
                     .nets = nets,
                     .nets_count = 4,
                     .numa = &numa,
                     .numa_count = 1 };
    const struct hw_picture_port first = { "mlx5_9", 1 }, second = { "mlx5_9", 2 };
    char *svg = draw_used(&hw, &second, 1);

    check_boxes(svg, 6);
    CHECK(strstr(svg, ">1: DOWN<") && strstr(svg, ">2: 200 Gb/s IB<"));
    CHECK(count_of(svg, "class=\"used\"") == 2 && strstr(svg, ">NCCL uses it<")); /* and legend */
    CHECK(!strstr(svg, "class=\"fault\""));
    CHECK(strstr(svg, ">2 x 100 Gb/s<") && strstr(svg, ">bond0, 2 links<"));
    CHECK(!strstr(svg, ">ens1f1<") && strstr(svg, ">part of bond0<"));
    free(svg);
    svg = draw_used(&hw, &first, 1);
    CHECK(count_of(svg, ">NCCL<") == 1);
    free(svg);
    svg = draw(&hw);
    CHECK(!strstr(svg, "class=\"used\"") && !strstr(svg, "NCCL uses"));
    free(svg);
}

/* Four nodes on two sockets, whose numbers the kernel dealt out in turn: a frame a socket, no node
 * of another in it.  A socket that is one node has none. */
TEST(sockets_of_several_nodes_have_a_frame)
{
    struct hw_numa numa[] = {
        { .id = maybe_of(0), .cpus = "0-7", .socket = maybe_of(0) },
        { .id = maybe_of(1), .cpus = "8-15", .socket = maybe_of(1) },
        { .id = maybe_of(2), .cpus = "16-23", .socket = maybe_of(0) },
        { .id = maybe_of(3), .cpus = "24-31", .socket = maybe_of(1) },
        { .id = maybe_of(4), .cpus = "", .socket = maybe_of(1) }, /* memory alone */
    };
    struct hw hw = { .numa = numa, .numa_count = 5 };
    char *svg = draw(&hw);

    check_boxes(svg, 7);
    CHECK(count_of(svg, "class=\"socket\"") == 2 && count_of(svg, "class=\"numa\"") == 4);
    CHECK(strstr(svg, ">Socket 0<") && strstr(svg, ">Socket 1<"));
    free(svg);
    hw.numa_count = 2;
    svg = draw(&hw);
    CHECK(!strstr(svg, "class=\"socket\""));
    free(svg);
}

TEST(c2c_joins_gpu_and_processor)
{
    struct hw_gpu gpu = { .c2c = maybe_of(1), .state = "ok", .bdf = "0009:01:00.0" };
    struct hw_pci pci = { .bdf = "0009:01:00.0", .root = "pci0009:00", .numa = maybe_of(0) };
    struct hw_numa numa = { .id = maybe_of(0), .cpus = "0-71" };
    struct hw hw = {
        .gpus = &gpu, .gpus_count = 1, .pci = &pci, .pci_count = 1, .numa = &numa, .numa_count = 1
    };
    char *svg = draw(&hw);

    CHECK(strstr(svg, "<path class=\"c2c\"") && strstr(svg, ">C2C<") &&
          strstr(svg, ">NVLink-C2C<"));
    free(svg);
    gpu.c2c = maybe_of(0);
    svg = draw(&hw);
    CHECK(!strstr(svg, "C2C"));
    free(svg);
}

TEST_MAIN(cmocka_unit_test(ports_bonds_and_what_nccl_uses),
          cmocka_unit_test(sockets_of_several_nodes_have_a_frame),
          cmocka_unit_test(c2c_joins_gpu_and_processor),
          cmocka_unit_test(a_machine_without_anything),
          cmocka_unit_test(eight_gpus_behind_switches), cmocka_unit_test(one_wire_is_no_switch),
          cmocka_unit_test(a_bridge_that_is_its_own_parent_ends),
          cmocka_unit_test(more_devices_than_fit_are_counted))
