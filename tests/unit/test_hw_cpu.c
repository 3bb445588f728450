/* SPDX-License-Identifier: MIT */
/* cpu, memory: lists, cores, caches, nodes, huge pages. */
#include "hw_box.h"

#include "base/str.h"

static int64_t count_of(const char *list)
{
    return maybe_or(hw_cpulist_count(list), -1);
}

TEST(cpu_lists)
{
    assert_int_equal(count_of("0"), 1);
    assert_int_equal(count_of("0-63,128-191"), 128);
    assert_int_equal(count_of("0,2,4"), 3);
    assert_int_equal(count_of("0-8191"), 8192);
    assert_int_equal(count_of(NULL), -1);
    assert_int_equal(count_of(""), -1);
    assert_int_equal(count_of("-1"), -1);
    assert_int_equal(count_of("3-1"), -1);
    assert_int_equal(count_of("0-"), -1);
    assert_int_equal(count_of("0-4294967295"), -1);
    assert_int_equal(count_of("99999999999999999999"), -1);
    assert_int_equal(count_of("0-8191,0-8191"), -1);
    assert_int_equal(count_of("0 1"), -1);
    assert_int_equal(count_of("0,,1"), -1);
}

static const char cpuinfo[] =
    "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) 8480C\n"
    "physical id\t: 0\nsiblings\t: 4\ncpu cores\t: 2\n"
    "flags\t\t: fpu lm avx avx2 avx512f amx_tile amx_bf16 hypervisor\n\n"
    "processor\t: 1\nvendor_id\t: Other\n";

static void topology(struct box *x, int cpu, int package, int core, const char *siblings)
{
    char dir[128], text[32];

    snprintf(dir, sizeof(dir), "/sys/devices/system/cpu/cpu%d/topology", cpu);
    snprintf(text, sizeof(text), "%d\n", package);
    box_attr(x, dir, "physical_package_id", text);
    snprintf(text, sizeof(text), "%d\n", core);
    box_attr(x, dir, "core_id", text);
    if (siblings)
        box_attr(x, dir, "thread_siblings_list", siblings);
}

static void cache(struct box *x, int cpu, int index, const char *level, const char *size,
                  const char *shared)
{
    char dir[128];

    snprintf(dir, sizeof(dir), "/sys/devices/system/cpu/cpu%d/cache/index%d", cpu, index);
    box_attr(x, dir, "level", level);
    box_attr(x, dir, "type", "Unified\n");
    box_attr(x, dir, "size", size);
    box_attr(x, dir, "shared_cpu_list", shared);
}

/* two sockets of two cores of two threads: 0,4 1,5 | 2,6 3,7 */
static void two_sockets(struct box *x, bool siblings)
{
    box_init(x);
    box_file(x, "/proc/cpuinfo", cpuinfo);
    box_file(x, "/sys/devices/system/cpu/online", "0-7\n");
    for (int cpu = 0; cpu < 8; cpu++) {
        char list[16];

        snprintf(list, sizeof(list), "%d,%d\n", cpu % 4, cpu % 4 + 4);
        topology(x, cpu, cpu % 4 / 2, cpu % 2, siblings ? list : NULL);
    }
    cache(x, 0, 0, "1", "48K\n", "0,4\n");
    cache(x, 0, 1, "3", "105M\n", "0-1,4-5\n");
    cache(x, 2, 0, "1", "48K\n", "2,6\n");
    cache(x, 2, 1, "3", "105M\n", "2-3,6-7\n");
}

static void check_two_sockets(struct hw_cpu *cpu)
{
    assert_int_equal(cpu->sockets.v, 2);
    assert_int_equal(cpu->cores.v, 4);
    assert_int_equal(cpu->threads.v, 8);
    assert_int_equal(cpu->caches_count, 2);
    assert_int_equal(cpu->caches[0].size_bytes.v, 48 << 10);
    assert_int_equal(cpu->caches[0].count.v, 4);
    assert_int_equal(cpu->caches[1].level.v, 3);
    assert_int_equal(cpu->caches[1].size_bytes.v, 105 << 20);
    assert_int_equal(cpu->caches[1].count.v, 2);
    assert_int_equal(cpu->caches[1].shared_by.v, 4);
}

TEST(two_sockets_by_siblings_and_by_ids)
{
    for (int siblings = 0; siblings < 2; siblings++) {
        AUTO(box_release) struct box x;

        two_sockets(&x, siblings);
        box_file(&x, "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3800000\n");
        box_file(&x, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
        BOX_PROBE(&x, hw_src_cpu);
        check_two_sockets(&x.hw.cpu);
        assert_string_equal(x.hw.cpu.vendor, "GenuineIntel");
        assert_string_equal(x.hw.cpu.model, "Intel(R) Xeon(R) 8480C");
        assert_string_equal(x.hw.cpu.arch, "x86_64");
        assert_string_equal(x.hw.cpu.governor, "performance");
        assert_int_equal(x.hw.cpu.mhz_max.v, 3800);
        assert_int_equal(x.hw.cpu.flags_count, 5);
    }
}

TEST(a_capture_with_one_cpu_uses_cpuinfo)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    box_file(&x, "/proc/cpuinfo", cpuinfo);
    box_file(&x, "/sys/devices/system/cpu/online", "0-7\n");
    topology(&x, 0, 0, 0, "0,4\n");
    BOX_PROBE(&x, hw_src_cpu);
    assert_int_equal(x.hw.cpu.sockets.v, 2);
    assert_int_equal(x.hw.cpu.cores.v, 4);
}

TEST(nothing_is_unknown_not_zero)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    BOX_PROBE(&x, hw_src_cpu, hw_src_memory);
    assert_false(x.hw.cpu.sockets.known);
    assert_false(x.hw.cpu.threads.known);
    assert_null(x.hw.cpu.model);
    assert_false(x.hw.memory.total_bytes.known);
    assert_int_equal(x.hw.numa_count, 0);
}

TEST(hostile_files)
{
    AUTO(box_release) struct box x;
    char big[40000];

    memset(big, 0xff, sizeof(big));
    box_init(&x);
    box_bytes(&x, "/proc/cpuinfo", big, sizeof(big));
    box_file(&x, "/sys/devices/system/cpu/online", "0-99999999\n");
    cache(&x, 0, 0, "-1", "99999999999999999999K", "0-");
    cache(&x, 0, 1, "1", "-5K", "");
    box_file(&x, "/proc/meminfo", "MemTotal: 99999999999999999999 kB\nSwapTotal: -1 kB\n");
    box_file(&x, "/sys/kernel/mm/hugepages/hugepages--2kB/nr_hugepages", "1\n");
    box_file(&x, "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "-3\n");
    box_file(&x, "/sys/devices/system/node/node-1/cpulist", "0\n");
    box_file(&x, "/sys/devices/system/node/node99999999999999999999/cpulist", "0\n");
    box_file(&x, "/sys/devices/system/node/node3/distance", "10 x -1\n");
    BOX_PROBE(&x, hw_src_cpu, hw_src_memory);
    assert_false(x.hw.cpu.threads.known);
    assert_false(x.hw.memory.total_bytes.known);
    assert_false(x.hw.memory.swap_bytes.known);
    assert_int_equal(x.hw.memory.hugepages_count, 1);
    assert_false(x.hw.memory.hugepages[0].total.known);
    assert_int_equal(x.hw.numa_count, 1);
    assert_int_equal(x.hw.numa[0].distances_count, 3);
    assert_false(x.hw.numa[0].distances[1].known);
    for (size_t i = 0; i < x.hw.cpu.caches_count; i++)
        assert_false(x.hw.cpu.caches[i].size_bytes.known);
}

TEST(nodes_and_memory)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    box_file(&x, "/sys/devices/system/node/node0/cpulist", "0-3\n");
    box_file(&x, "/sys/devices/system/node/node0/distance", "10 21\n");
    box_file(&x, "/sys/devices/system/node/node0/meminfo",
             "Node 0 MemTotal:       1024 kB\nNode 0 MemFree:  1 kB\n");
    box_file(&x, "/sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages",
             "16\n");
    box_file(&x, "/sys/devices/system/node/node0/hugepages/hugepages-1048576kB/free_hugepages",
             "4\n");
    box_file(&x, "/sys/devices/system/node/node10/cpulist", "4-7\n");
    box_file(&x, "/sys/devices/system/node/node2/cpulist", "\n");
    box_file(&x, "/sys/devices/system/node/possible", "0-1\n");
    box_file(
        &x, "/proc/meminfo",
        "MemTotal:       2048 kB\nMemAvailable:   1000 kB\nSwapCached: 7 kB\nSwapTotal: 0 kB\n");
    box_file(&x, "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    BOX_PROBE(&x, hw_src_cpu, hw_src_memory);
    assert_int_equal(x.hw.numa_count, 3);
    assert_int_equal(x.hw.numa[2].id.v, 10);
    assert_null(x.hw.numa[1].cpus); /* memory alone, as a GPU's */
    assert_int_equal(x.hw.numa[0].mem_total_bytes.v, 1 << 20);
    assert_int_equal(x.hw.numa[0].distances[1].v, 21);
    assert_int_equal(x.hw.numa[0].hugepages[0].size_bytes.v, 1 << 30);
    assert_int_equal(x.hw.numa[0].hugepages[0].free.v, 4);
    assert_int_equal(x.hw.memory.total_bytes.v, 2 << 20);
    assert_int_equal(x.hw.memory.available_bytes.v, 1000 << 10);
    assert_true(maybe_is(x.hw.memory.swap_bytes, 0));
    assert_string_equal(x.hw.memory.thp, "madvise");
}

TEST(arm)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    box_file(&x, "/proc/cpuinfo",
             "processor\t: 0\nFeatures\t: fp asimd sve bf16\nCPU implementer\t: 0x41\n"
             "CPU part\t: 0xd4f\n\n");
    BOX_PROBE(&x, hw_src_cpu);
    assert_string_equal(x.hw.cpu.vendor, "ARM");
    assert_string_equal(x.hw.cpu.model, "Neoverse-V2");
    assert_string_equal(x.hw.cpu.arch, "aarch64");
    assert_int_equal(x.hw.cpu.flags_count, 3);
}

TEST_MAIN(cmocka_unit_test(cpu_lists), cmocka_unit_test(two_sockets_by_siblings_and_by_ids),
          cmocka_unit_test(a_capture_with_one_cpu_uses_cpuinfo),
          cmocka_unit_test(nothing_is_unknown_not_zero), cmocka_unit_test(hostile_files),
          cmocka_unit_test(nodes_and_memory), cmocka_unit_test(arm))
