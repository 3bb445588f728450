/* SPDX-License-Identifier: MIT */
/* The page and the matrix on small inventories built here; tests/machines has the
 * large ones. */
#include "hw/print/hw_print.h"

#include "base/str.h"
#include "base/text/utf8.h"
#include "test.h"

static char *page(const struct hw *hw, int width, bool colour)
{
    const struct term term = { .width = width, .colour = colour };
    struct buf b = { 0 };

    hw_show(hw, &term, NULL, &b);
    CHECK(!b.over);
    return buf_take(&b);
}

/* Does the page say it, once line breaks and indentation are one blank? */
static bool says(const char *text, const char *want)
{
    struct buf flat = { 0 };
    bool found;

    for (; *text; text++) {
        char c = *text == '\n' ? ' ' : *text;
        if (c != ' ' || flat.len == 0 || flat.data[flat.len - 1] != ' ')
            buf_addc(&flat, c);
    }
    found = strstr(buf_str(&flat), want) != NULL;
    buf_release(&flat);
    return found;
}

static struct hw_gpu gpu_ok(int index, const char *bdf)
{
    return (struct hw_gpu){
        .index = maybe_of(index),
        .state = "ok",
        .name = "NVIDIA H200",
        .bdf = bdf,
        .numa = maybe_of(0),
        .mem_total_bytes = maybe_of(INT64_C(150754820096)),
        .pcie_gen = maybe_of(5),
        .pcie_gen_max = maybe_of(5),
        .pcie_width = maybe_of(16),
        .pcie_width_max = maybe_of(16),
        .power_limit_mw = maybe_of(700000),
        .temp_c = maybe_of(31),
        .ecc = maybe_of(1),
        .mig = maybe_of(0),
    };
}

TEST(an_empty_inventory_claims_nothing)
{
    struct hw hw = { 0 };
    char *text = page(&hw, 80, false);

    CHECK(says(text, "host name unknown"));
    CHECK(says(text, "GPUs none: no PCI device of interest is visible here"));
    CHECK(says(text, "Memory unknown"));
    CHECK(!strstr(text, "RDMA"));
    CHECK(!strstr(text, "0 B"));
    free(text);
}

TEST(no_gpu_says_why)
{
    struct hw_pci pci = { .bdf = "0000:00:03.0", .vendor = maybe_of(0x1af4) };
    struct hw hw = { .pci = &pci, .pci_count = 1 };
    char *text;

    hw.nvidia.nvml_error = "library 'libnvidia-ml.so.1' not found";
    text = page(&hw, 80, false);
    CHECK(says(text, "none: no NVIDIA GPU on the PCI bus"));
    CHECK(says(text, "library 'libnvidia-ml.so.1' not found"));
    free(text);
}

TEST(a_gpu_row_has_its_facts_and_unknown_is_a_dash)
{
    struct hw_gpu gpus[] = { gpu_ok(0, "0000:18:00.0"),
                             { .bdf = "0000:2a:00.0", .state = "hidden" } };
    struct hw hw = { .gpus = gpus, .gpus_count = 2 };
    char *text = page(&hw, 100, false);

    CHECK(says(text, "0 H200 140 GiB 0000:18:00.0 0 gen5 x16 700 W 31 °C on off ok"));
    CHECK(says(text, "- - - 0000:2a:00.0 - - - - - - hidden"));
    CHECK(says(text, "1 GPU is on the PCI bus, but the driver does not show it here"));
    CHECK(!says(text, "PROBLEM"));
    free(text);
}

TEST(faults_are_words_and_red)
{
    struct hw_gpu_err err = { .call = "nvmlDeviceGetHandleByIndex_v2", .text = "GPU is lost" };
    struct hw_gpu gpus[] = { gpu_ok(0, "0000:18:00.0"), gpu_ok(1, "0000:2a:00.0") };
    struct hw_rdma_port port = { .port = maybe_of(1), .state = "DOWN", .phys_state = "Polling" };
    struct hw_rdma rdma = { .name = "mlx5_3", .ports = &port, .ports_count = 1 };
    struct hw hw = { .gpus = gpus, .gpus_count = 2, .rdma = &rdma, .rdma_count = 1 };
    char *text;

    gpus[0].pcie_width = maybe_of(8);
    gpus[0].remap_failed = maybe_of(1);
    gpus[1].state = "lost";
    gpus[1].errors = &err;
    gpus[1].errors_count = 1;
    hw.nvidia.hung_call = "nvmlInit_v2";
    hw.nvidia.hung_pid = maybe_of(4711);
    hw.nvidia.hung_state = "D";
    hw.nvidia.hung_wchan = "nv_open_device";
    text = page(&hw, 100, true);
    CHECK(says(text, "x8/16"));
    CHECK(says(text, "PROBLEM: GPU 0: PCIe link degraded to 8 of 16 lanes; row remapping failed"));
    CHECK(says(text, "\033[31mLOST"));
    CHECK(says(text, "GPU 1: lost"));
    CHECK(says(text, "GPU is lost"));
    CHECK(says(text, "\033[31mPROBLEM: port 1 of mlx5_3 is DOWN, physical state Polling"));
    free(text);
    text = page(&hw, 100, false);
    CHECK(!strchr(text, '\033'));
    CHECK(says(text, "driver not answering: nvmlInit_v2 never returned (process 4711, state D, "
                     "sleeps in nv_open_device)"));
    free(text);
}

TEST(nvlinks_are_told_once_for_all)
{
    struct hw_nvlink links[4];
    struct hw_gpu gpus[3];
    struct hw hw = { .gpus = gpus, .gpus_count = 3 };
    char *text;

    for (size_t i = 0; i < 4; i++)
        links[i] = (struct hw_nvlink){ .active = maybe_of(1),
                                       .speed_mbps = maybe_of(26562),
                                       .remote_kind = "switch" };
    for (int i = 0; i < 3; i++) {
        gpus[i] = gpu_ok(i, "0000:18:00.0");
        gpus[i].nvlinks = links;
        gpus[i].nvlinks_count = i == 2 ? 3 : 4;
        gpus[i].nvlinks_total = maybe_of(4);
    }
    text = page(&hw, 100, false);
    CHECK(says(text, "GPU 0-1: 4 NVLinks at 26.6 GB/s each way to NVSwitch, 106 GB/s in all"));
    CHECK(says(text, "PROBLEM: GPU 2: 3 of 4 NVLinks are up"));
    free(text);
}

TEST(many_veths_are_one_line)
{
    struct hw_addr addr = { .family = "inet", .addr = "10.0.0.5", .prefix = maybe_of(24) };
    struct hw_net nets[40] = { { .name = "eth0",
                                 .kind = "physical",
                                 .running = maybe_of(1),
                                 .speed_mbps = maybe_of(25000),
                                 .mtu = maybe_of(9000),
                                 .default_route = maybe_of(1),
                                 .addrs = &addr,
                                 .addrs_count = 1 },
                               { .name = "lo", .kind = "loopback" } };
    struct hw hw = { .nets = nets, .nets_count = 40 };
    char *text;

    for (size_t i = 2; i < 40; i++)
        nets[i] = (struct hw_net){ .name = "veth1", .kind = i < 38 ? "veth" : "bridge" };
    text = page(&hw, 100, false);
    CHECK(says(text, "eth0 up 25 Gb/s 9000 physical 10.0.0.5/24, default route"));
    CHECK(says(text, "38 more without an address: 36 veth, 2 bridge"));
    CHECK(!says(text, "veth1"));
    free(text);
}

TEST(lines_fit_the_terminal)
{
    static char longword[2000];
    struct hw_gpu gpus[] = { gpu_ok(0, "0000:18:00.0"), gpu_ok(1, "0000:2a:00.0") };
    struct hw hw = { .gpus = gpus, .gpus_count = 2 };

    memset(longword, 'A', sizeof(longword) - 1);
    hw.place.hostname = longword;
    hw.cpu.model = "Intel(R) Xeon(R) Platinum 8480C";
    for (int width = 96; width <= 140; width += 4) {
        char *text = page(&hw, width, false), *line = text;
        CHECK(says(text, "Intel Xeon Platinum 8480C"));
        for (char *end; (end = strchr(line, '\n')); line = end + 1) {
            *end = '\0';
            CHECK(utf8_width(line) <= (size_t)width);
            CHECK(utf8_width(line) <= SHOW_WIDTH_MAX);
        }
        free(text);
    }
}

TEST(matrix_has_gpus_then_nics)
{
    struct hw_gpu gpus[] = { gpu_ok(0, "0000:18:00.0"),
                             gpu_ok(1, "0000:2a:00.0"),
                             { .bdf = "0000:3b:00.0", .state = "lost" } };
    struct hw_gpu_pair pairs[] = { { .a = maybe_of(0), .b = maybe_of(1), .path = "NV18" } };
    struct hw_rdma rdma = { .name = "mlx5_0", .bdf = "0000:19:00.0" };
    struct hw_net net = { .name = "eno1", .kind = "physical", .bdf = "0000:01:00.0" };
    struct hw_distance dist[] = { { .gpu = maybe_of(0), .nic = "mlx5_0", .path = "PIX" },
                                  { .gpu = maybe_of(1), .nic = "mlx5_0", .path = "NODE" } };
    struct hw hw = { .gpus = gpus,
                     .gpus_count = 3,
                     .gpu_pairs = pairs,
                     .gpu_pairs_count = 1,
                     .rdma = &rdma,
                     .rdma_count = 1,
                     .nets = &net,
                     .nets_count = 1,
                     .distances = dist,
                     .distances_count = 2 };
    AUTO(buf_release) struct buf b = { 0 };

    gpus[0].cpus = "0-47";
    hw_show_topo(&hw, &b);
    CHECK(says(buf_str(&b), "GPU0 GPU1 (3b:00) NIC0 NIC1 CPU Affinity NUMA Affinity"));
    CHECK(says(buf_str(&b), "GPU0 X NV18 - PIX - 0-47 0"));
    CHECK(says(buf_str(&b), "GPU1 NV18 X - NODE - - 0"));
    CHECK(says(buf_str(&b), "NIC0 PIX NODE - X"));
    CHECK(says(buf_str(&b), "(3b:00): GPU at 0000:3b:00.0, lost"));
    CHECK(says(buf_str(&b), "NIC0: mlx5_0 NIC1: eno1 (no RDMA)"));
}

TEST(matrix_of_nothing_and_of_too_much)
{
    static struct hw_gpu gpus[100];
    struct hw hw = { 0 };
    AUTO(buf_release) struct buf b = { 0 };

    hw_show_topo(&hw, &b);
    CHECK(says(buf_str(&b), "no GPU and no PCI network device"));
    buf_reset(&b);
    for (int i = 0; i < 100; i++)
        gpus[i] = gpu_ok(i, "0000:18:00.0");
    hw.gpus = gpus;
    hw.gpus_count = 100;
    hw_show_topo(&hw, &b);
    CHECK(says(buf_str(&b), "28 more GPUs do not fit"));
}

TEST(another_modules_lines_stand_before_the_notes)
{
    const struct show_line lines[] = { { COLOUR_NONE, "RDMA over mlx5_0" } };
    const struct show_section extra = { "NCCL", lines, 1 };
    const struct term term = { .width = 80 };
    struct hw_note note = { .source = "rdma", .text = "no permission" };
    struct hw hw = { .notes = &note, .notes_count = 1 };
    AUTO(buf_release) struct buf b = { 0 };

    hw_show(&hw, &term, &extra, &b);
    CHECK(says(buf_str(&b), "NCCL RDMA over mlx5_0 Notes rdma: no permission"));
}

TEST_MAIN(cmocka_unit_test(an_empty_inventory_claims_nothing), cmocka_unit_test(no_gpu_says_why),
          cmocka_unit_test(a_gpu_row_has_its_facts_and_unknown_is_a_dash),
          cmocka_unit_test(faults_are_words_and_red),
          cmocka_unit_test(nvlinks_are_told_once_for_all),
          cmocka_unit_test(many_veths_are_one_line), cmocka_unit_test(lines_fit_the_terminal),
          cmocka_unit_test(matrix_has_gpus_then_nics),
          cmocka_unit_test(matrix_of_nothing_and_of_too_much),
          cmocka_unit_test(another_modules_lines_stand_before_the_notes))
