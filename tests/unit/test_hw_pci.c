/* SPDX-License-Identifier: MIT */
/* pci.c: which functions are kept, where they stand, what config space tells. */
#include "hw_box.h"

#include "base/str.h"

static const struct hw_pci *get(const struct box *x, const char *bdf)
{
    const struct hw_pci *p = hw_find_pci(&x->hw, bdf);

    assert_non_null(p);
    return p;
}

/* A GPU behind a switch, with everything above it, and things that are not kept. */
static void build_switch(struct box *x, char gpu[ROOT_PATH_MAX])
{
    box_pci(x, "pci0000:15", "0000:15:01.0", "0x8086\n", "0x060400\n", NULL);
    box_pci(x, "pci0000:15/0000:15:01.0", "0000:16:00.0", "0x1000\n", "0x060400\n", NULL);
    box_pci(x, "pci0000:15/0000:15:01.0/0000:16:00.0", "0000:17:02.0", "0x1000\n", "0x060400\n",
            NULL);
    box_pci(x, "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0", "0000:1b:00.0", "0x10de\n",
            "0x030200\n", gpu);
    box_pci(x, "pci0000:00", "0000:00:1f.0", "0x8086\n", "0x060100\n", NULL);
    box_pci(x, "pci0000:00", "0000:00:02.0", "0x1a03\n", "0x030000\n", NULL);
    box_pci(x, "pci0000:00", "0000:00:1c.0", "0x8086\n", "0x060400\n", NULL);
}

TEST(bdf_keys)
{
    static const struct {
        const char *in;
        bool ok;
        uint64_t want;
    } rows[] = {
        { "0000:1b:00.0", true, 0x1b00 },
        { "00000000:1B:00.0", true, 0x1b00 }, /* as NVML writes it */
        { "10000:e1:1f.7", true, UINT64_C(0x10000e1ff) },
        { "0000:1b:20.0", false, 0 },
        { "0000:1b:00.8", false, 0 },
        { "0000:1b:00.0x", false, 0 },
        { "0000:1b:00.", false, 0 },
        { "pci0000:15", false, 0 },
        { "123456789:00:00.0", false, 0 },
        { "", false, 0 },
        { NULL, false, 0 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        uint64_t got = 0;
        CHECK(hw_bdf_key(rows[i].in, &got) == rows[i].ok);
        CHECK(got == rows[i].want);
    }
}

TEST(bdf_in_a_path)
{
    AUTO(arena_release) struct arena a = { 0 };

    assert_string_equal(hw_bdf_of_path(&a, "/sys/devices/pci0000:00/0000:00:03.0/virtio0"),
                        "0000:00:03.0");
    assert_string_equal(hw_bdf_of_path(&a, "/sys/devices/pci0000:00/0000:00:03.0/0000:01:00.1"),
                        "0000:01:00.1");
    assert_null(hw_bdf_of_path(&a, "/sys/devices/virtual/net/lo"));
    assert_null(hw_bdf_of_path(&a, ""));
}

TEST(keeps_a_gpu_and_the_bridges_above)
{
    AUTO(box_release) struct box x;
    char gpu[ROOT_PATH_MAX];
    const struct hw_pci *p;

    box_init(&x);
    build_switch(&x, gpu);
    box_attr(&x, gpu, "numa_node", "0\n");
    box_attr(&x, gpu, "current_link_speed", "32.0 GT/s PCIe\n");
    box_attr(&x, gpu, "current_link_width", "16\n");
    box_attr(&x, gpu, "max_link_speed", "32.0 GT/s PCIe\n");
    box_attr(&x, gpu, "max_link_width", "16\n");
    box_link(&x, "/sys/bus/pci/devices/0000:1b:00.0/driver", "../../../bus/pci/drivers/nvidia");
    box_link(&x, "/sys/bus/pci/devices/0000:1b:00.0/iommu_group", "../../kernel/iommu_groups/42");
    BOX_PROBE(&x, hw_src_pci);

    assert_int_equal(x.hw.pci_count, 4);
    p = get(&x, "0000:1b:00.0");
    CHECK(maybe_is(p->vendor, 0x10de) && maybe_is(p->class_, 0x030200));
    assert_string_equal(p->parent, "0000:17:02.0");
    assert_string_equal(p->root, "pci0000:15");
    assert_string_equal(p->driver, "nvidia");
    CHECK(maybe_is(p->numa, 0) && maybe_is(p->iommu_group, 42));
    CHECK(maybe_is(p->link_width, 16) && str_eq(p->link_speed, "32.0 GT/s PCIe"));
    CHECK(!p->alive.known && !p->acs.known && !p->vfs.known && !p->physfn);
    assert_null(get(&x, "0000:15:01.0")->parent);
    assert_string_equal(get(&x, "0000:15:01.0")->root, "pci0000:15");
    assert_string_equal(x.hw.pci[0].bdf, "0000:15:01.0"); /* sorted by address */
    CHECK(maybe_is(x.hw.nvidia.nvswitches, 0));
}

TEST(classes_that_are_kept)
{
    static const struct {
        const char *vendor, *class_;
        bool kept;
    } rows[] = {
        { "0x10de\n", "0x030000\n", true }, /* a GPU that drives a display */
        { "0x10de\n", "0x030200\n", true },  { "0x10de\n", "0x068000\n", true }, /* NVSwitch */
        { "0x10de\n", "0x040300\n", false },                                     /* its sound */
        { "0x1002\n", "0x030000\n", false }, { "0x15b3\n", "0x020700\n", true },
        { "0x15b3\n", "0x020000\n", true },  { "0x144d\n", "0x010802\n", true },
        { "0x8086\n", "0x010601\n", true },  { "0x8086\n", "0x068000\n", false },
        { "0x8086\n", "garbage\n", false },  { "-5\n", "-1\n", false },
        { "0x8086\n", "", false },
    };
    AUTO(box_release) struct box x;
    char bdf[16];

    box_init(&x);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        (void)snprintf(bdf, sizeof(bdf), "0000:%02x:00.0", (unsigned)i + 1);
        box_pci(&x, "pci0000:00", bdf, rows[i].vendor, rows[i].class_, NULL);
    }
    BOX_PROBE(&x, hw_src_pci);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        (void)snprintf(bdf, sizeof(bdf), "0000:%02x:00.0", (unsigned)i + 1);
        CHECK((hw_find_pci(&x.hw, bdf) != NULL) == rows[i].kept);
    }
    CHECK(maybe_is(x.hw.nvidia.nvswitches, 1));
}

TEST(unknown_is_not_zero)
{
    AUTO(box_release) struct box x;
    char gpu[ROOT_PATH_MAX];
    const struct hw_pci *p;

    box_init(&x);
    build_switch(&x, gpu);
    box_attr(&x, gpu, "numa_node", "-1\n");
    box_attr(&x, gpu, "current_link_speed", "Unknown\n");
    box_attr(&x, gpu, "max_link_speed", "Unknown speed\n");
    box_attr(&x, gpu, "current_link_width", "0\n");
    box_attr(&x, gpu, "max_link_width", "255\n");
    BOX_PROBE(&x, hw_src_pci);
    p = get(&x, "0000:1b:00.0");
    CHECK(!p->numa.known && !p->link_speed && !p->link_speed_max);
    CHECK(!p->link_width.known && !p->link_width_max.known);
}

TEST(no_pci_is_unknown)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    box_dir(&x, "/sys/class");
    BOX_PROBE(&x, hw_src_pci);
    assert_int_equal(x.hw.pci_count, 0);
    CHECK(!x.hw.nvidia.nvswitches.known);
    assert_int_equal(x.hw.notes_count, 1);
}

TEST(a_gpu_off_the_bus_is_not_alive)
{
    unsigned char dead[64], live[64] = { 0xde, 0x10 };
    AUTO(box_release) struct box x;
    char gpu[ROOT_PATH_MAX], other[ROOT_PATH_MAX], path[ROOT_PATH_MAX + 8];

    memset(dead, 0xff, sizeof(dead));
    box_init(&x);
    build_switch(&x, gpu);
    box_pci(&x, "pci0000:15", "0000:2a:00.0", "0x10de\n", "0x030200\n", other);
    (void)snprintf(path, sizeof(path), "%s/config", gpu);
    box_bytes(&x, path, dead, sizeof(dead));
    (void)snprintf(path, sizeof(path), "%s/config", other);
    box_bytes(&x, path, live, sizeof(live));
    BOX_PROBE(&x, hw_src_pci);
    CHECK(maybe_is(get(&x, "0000:1b:00.0")->alive, 0));
    CHECK(maybe_is(get(&x, "0000:2a:00.0")->alive, 1));
}

/* The vendor field of a virtual function reads as all ones in config space. */
TEST(a_virtual_function_is_alive)
{
    unsigned char cfg[64] = { 0xff, 0xff, 0xff, 0xff, 0x06, 0x04 };
    AUTO(box_release) struct box x;
    char pf[ROOT_PATH_MAX], vf[ROOT_PATH_MAX], path[ROOT_PATH_MAX + 8];

    box_init(&x);
    box_pci(&x, "pci0000:15", "0000:1c:00.0", "0x15b3\n", "0x020000\n", pf);
    box_pci(&x, "pci0000:15", "0000:1c:00.2", "0x15b3\n", "0x020000\n", vf);
    box_attr(&x, pf, "sriov_numvfs", "8\n");
    box_attr(&x, pf, "sriov_totalvfs", "16\n");
    (void)snprintf(path, sizeof(path), "%s/physfn", vf);
    box_link(&x, path, "../0000:1c:00.0");
    (void)snprintf(path, sizeof(path), "%s/config", vf);
    box_bytes(&x, path, cfg, sizeof(cfg));
    BOX_PROBE(&x, hw_src_pci);
    CHECK(maybe_is(get(&x, "0000:1c:00.2")->alive, 1));
    assert_string_equal(get(&x, "0000:1c:00.2")->physfn, "0000:1c:00.0");
    CHECK(maybe_is(get(&x, "0000:1c:00.0")->vfs, 8));
    CHECK(maybe_is(get(&x, "0000:1c:00.0")->vfs_max, 16));
}

static void put_u32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

/* A bridge's config space: AER at 0x100, then ACS at `at` with `control`. */
static struct maybe acs_of(size_t len, uint32_t at, uint32_t control, uint32_t after)
{
    unsigned char cfg[4096] = { 0x86, 0x80 };
    struct box x;
    char gpu[ROOT_PATH_MAX];
    struct maybe got;

    put_u32(cfg + 0x100, 0x0001 | 1 << 16 | at << 20);
    if (at >= 0x100) {
        put_u32(cfg + at, 0x000d | 1 << 16 | after << 20);
        put_u32(cfg + at + 4, 0x005f | control << 16);
    }
    box_init(&x);
    build_switch(&x, gpu);
    box_bytes(&x, "/sys/devices/pci0000:15/0000:15:01.0/config", cfg, len);
    BOX_PROBE(&x, hw_src_pci);
    CHECK(maybe_is(get(&x, "0000:15:01.0")->alive, 1));
    got = get(&x, "0000:15:01.0")->acs;
    CHECK(maybe_is(get(&x, "0000:15:01.0")->acs_direct, (control & 0x40) != 0) == maybe_is(got, 1));
    box_release(&x);
    return got;
}

TEST(acs_from_config_space)
{
    CHECK(maybe_is(acs_of(4096, 0x148, 0x0000, 0), 0));
    CHECK(maybe_is(acs_of(4096, 0x148, 0x001d, 0), 1)); /* as the kernel sets it */
    CHECK(maybe_is(acs_of(4096, 0x148, 0x005d, 0), 1)); /* ... with Direct Translated P2P */
    CHECK(maybe_is(acs_of(4096, 0x148, 0x0001, 0), 1)); /* SrcValid alone */
    CHECK(maybe_is(acs_of(4096, 0x148, 0x0004, 0), 1)); /* request redirect alone */
    CHECK(maybe_is(acs_of(4096, 0x148, 0x0008, 0), 0));
    CHECK(maybe_is(acs_of(4096, 0xe00, 0x001d, 0), 1)); /* beyond what is read first */
    CHECK(maybe_is(acs_of(4096, 0x000, 0x0000, 0), 0)); /* no such capability */
    CHECK(maybe_is(acs_of(256, 0x000, 0x0000, 0), 0));  /* conventional PCI */
    CHECK(!acs_of(64, 0x148, 0x001d, 0).known);         /* without privilege */
    CHECK(!acs_of(0x120, 0x148, 0x001d, 0).known);      /* cut short */
}

TEST(a_capability_list_in_a_circle_ends)
{
    unsigned char cfg[4096] = { 0x86, 0x80 };
    AUTO(box_release) struct box x;
    char gpu[ROOT_PATH_MAX];

    put_u32(cfg + 0x100, 0x0001 | 1 << 16 | UINT32_C(0x200) << 20);
    put_u32(cfg + 0x200, 0x0003 | 1 << 16 | UINT32_C(0x100) << 20);
    box_init(&x);
    build_switch(&x, gpu);
    box_bytes(&x, "/sys/devices/pci0000:15/0000:15:01.0/config", cfg, sizeof(cfg));
    BOX_PROBE(&x, hw_src_pci);
    CHECK(!get(&x, "0000:15:01.0")->acs.known);
}

/* A hypervisor hides a capability by giving it the number 0 and keeping the link. */
TEST(a_hidden_capability_is_passed_over)
{
    unsigned char cfg[4096] = { 0x86, 0x80 };
    AUTO(box_release) struct box x;
    char gpu[ROOT_PATH_MAX];

    put_u32(cfg + 0x100, UINT32_C(0x12c) << 20);
    put_u32(cfg + 0x12c, 0x000d | 1 << 16);
    put_u32(cfg + 0x130, UINT32_C(0x001d) << 16);
    box_init(&x);
    build_switch(&x, gpu);
    box_bytes(&x, "/sys/devices/pci0000:15/0000:15:01.0/config", cfg, sizeof(cfg));
    BOX_PROBE(&x, hw_src_pci);
    CHECK(maybe_is(get(&x, "0000:15:01.0")->acs, 1));
}

TEST(a_domain_below_a_device)
{
    AUTO(box_release) struct box x;
    const struct hw_pci *p;

    box_init(&x);
    box_pci(&x, "pci0000:e0/0000:e0:00.5/pci10000:e0", "10000:e0:06.0", "0x8086\n", "0x060400\n",
            NULL);
    box_pci(&x, "pci0000:e0/0000:e0:00.5/pci10000:e0/10000:e0:06.0", "10000:e1:00.0", "0x144d\n",
            "0x010802\n", NULL);
    BOX_PROBE(&x, hw_src_pci);
    assert_int_equal(x.hw.pci_count, 2);
    p = get(&x, "10000:e1:00.0");
    assert_string_equal(p->parent, "10000:e0:06.0");
    assert_string_equal(p->root, "pci10000:e0");
    assert_null(get(&x, "10000:e0:06.0")->parent);
}

/* Directories instead of links, and links that lead nowhere or in a circle. */
TEST(odd_trees)
{
    AUTO(box_release) struct box x;
    const struct hw_pci *p;

    box_init(&x);
    box_file(&x, "/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
    box_file(&x, "/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
    box_link(&x, "/sys/bus/pci/devices/0000:02:00.0", "0000:02:00.0");
    box_link(&x, "/sys/bus/pci/devices/0000:03:00.0", "../../nowhere");
    box_file(&x, "/sys/bus/pci/devices/0000:04:00.0", "a file");
    box_file(&x, "/sys/bus/pci/devices/not a bdf/class", "0x030200\n");
    BOX_PROBE(&x, hw_src_pci);
    assert_int_equal(x.hw.pci_count, 1);
    p = get(&x, "0000:01:00.0");
    CHECK(!p->parent && !p->root);
}

TEST_MAIN(cmocka_unit_test(bdf_keys), cmocka_unit_test(bdf_in_a_path),
          cmocka_unit_test(keeps_a_gpu_and_the_bridges_above),
          cmocka_unit_test(classes_that_are_kept), cmocka_unit_test(unknown_is_not_zero),
          cmocka_unit_test(no_pci_is_unknown), cmocka_unit_test(a_gpu_off_the_bus_is_not_alive),
          cmocka_unit_test(a_virtual_function_is_alive), cmocka_unit_test(acs_from_config_space),
          cmocka_unit_test(a_capability_list_in_a_circle_ends),
          cmocka_unit_test(a_hidden_capability_is_passed_over),
          cmocka_unit_test(a_domain_below_a_device), cmocka_unit_test(odd_trees))
