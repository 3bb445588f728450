/* SPDX-License-Identifier: MIT */
/* The host's sources on a captured machine: values and units; files that are missing, cut, hostile;
 * counters that reset. */
#include "host.h"

#include "telemetry/telemetry_int.h"

static void sample(const struct collector *c, struct host *h, int64_t now_ns)
{
    void *s = c->open(h->root, h->t);

    c->sample(s, h->t, now_ns);
    c->close(s);
}

TEST(every_metric_is_in_the_table)
{
    struct host h;

    /* each source has at least one known value on the captured machine */
    for (size_t i = 0; collectors[i]; i++) {
        host_open(&h, HOST_NODE);
        sample(collectors[i], &h, SECOND);
        if (!host_known(&h))
            fail_msg("source '%s' knows nothing", collectors[i]->name);
        for (size_t k = 0; k < telemetry_count(h.t); k++)
            CHECK(telemetry_get(h.t, (uint32_t)k)->metric->scale == 1);
        host_close(&h);
    }
}

TEST(cpu_values)
{
    AUTO(host_close) struct host h;

    host_open(&h, HOST_NODE);
    sample(&collect_cpu, &h, 1700000001 * SECOND);
    NEAR(&h, "node_cpu_seconds_total", "cpu=0,mode=user", 6000);
    NEAR(&h, "node_cpu_seconds_total", "cpu=1,mode=idle", 45000);
    NEAR(&h, "node_cpu_seconds_total", "cpu=1,mode=steal", 4.5);
    NEAR(&h, "node_cpu_guest_seconds_total", "cpu=1,mode=nice", 0.15);
    NEAR(&h, "stoker_cpu_seconds_total", "mode=iowait", 500);
    NEAR(&h, "stoker_cpus", "", 2);
    NEAR(&h, "node_load1", "", 1.25);
    NEAR(&h, "node_load15", "", 64.07);
    NEAR(&h, "node_intr_total", "", 30096340);
    NEAR(&h, "node_context_switches_total", "", 86308188);
    NEAR(&h, "node_boot_time_seconds", "", 1700000000);
    NEAR(&h, "node_forks_total", "", 1644589);
    NEAR(&h, "node_procs_running", "", 8);
    NEAR(&h, "node_procs_blocked", "", 2);
    NEAR(&h, "node_filefd_allocated", "", 12352);
    NEAR(&h, "node_time_seconds", "", 1700000001);
    UNKNOWN(&h, "host.cpu.util", ""); /* needs two samples */
}

TEST(cpu_share_and_resets)
{
    AUTO(host_close) struct host h;
    void *s;

    host_open(&h, NULL);
    host_put(&h, "/proc/stat", "cpu  100 0 100 800 0 0 0 0\ncpu0 100 0 100 800 0 0 0 0\n");
    s = collect_cpu.open(h.root, h.t);
    collect_cpu.sample(s, h.t, SECOND);
    host_put(&h, "/proc/stat", "cpu  150 0 100 840 10 0 0 0\ncpu0 150 0 100 840 10 0 0 0\n");
    collect_cpu.sample(s, h.t, 2 * SECOND);
    NEAR(&h, "host.cpu.util", "", 50);
    NEAR(&h, "node_cpu_seconds_total", "cpu=0,mode=iowait", 0.1);
    /* iowait may go back by a little: held */
    host_put(&h, "/proc/stat", "cpu  160 0 100 850 9 0 0 0\ncpu0 160 0 100 850 9 0 0 0\n");
    collect_cpu.sample(s, h.t, 3 * SECOND);
    NEAR(&h, "node_cpu_seconds_total", "cpu=0,mode=iowait", 0.1);
    NEAR(&h, "host.cpu.util", "", 50);
    /* the CPU was away: everything begins anew, and the share is unknown */
    host_put(&h, "/proc/stat", "cpu  5 0 1 7 0 0 0 0\ncpu0 5 0 1 7 0 0 0 0\n");
    collect_cpu.sample(s, h.t, 4 * SECOND);
    NEAR(&h, "node_cpu_seconds_total", "cpu=0,mode=user", 0.05);
    UNKNOWN(&h, "host.cpu.util", "");
    /* a CPU that is gone is unknown, not zero */
    host_put(&h, "/proc/stat", "cpu  6 0 1 8 0 0 0 0\ncpu1 6 0 1 8 0 0 0 0\n");
    collect_cpu.sample(s, h.t, 5 * SECOND);
    UNKNOWN(&h, "node_cpu_seconds_total", "cpu=0,mode=user");
    NEAR(&h, "node_cpu_seconds_total", "cpu=1,mode=user", 0.06);
    collect_cpu.close(s);
}

TEST(memory_values)
{
    AUTO(host_close) struct host h;

    host_open(&h, HOST_NODE);
    sample(&collect_memory, &h, SECOND);
    NEAR(&h, "node_memory_MemTotal_bytes", "", 2113476544.0 * 1024);
    NEAR(&h, "node_memory_SwapFree_bytes", "", 8380412.0 * 1024);
    NEAR(&h, "node_memory_Active_anon_bytes", "", 1660.0 * 1024);
    NEAR(&h, "node_memory_HugePages_Total", "", 0);
    NEAR(&h, "node_memory_HardwareCorrupted_bytes", "", 4096);
    NEAR(&h, "node_vmstat_oom_kill", "", 3);
    NEAR(&h, "node_vmstat_pswpout", "", 2048);
    NEAR(&h, "node_memory_numa_MemFree", "node=1", 951738271.0 * 1024);
    NEAR(&h, "node_memory_numa_FilePages", "node=0", 40000000.0 * 1024);
    NEAR(&h, "node_edac_correctable_errors_total", "controller=1", 7);
    NEAR(&h, "node_edac_uncorrectable_errors_total", "controller=0", 0);
}

TEST(pressure_values)
{
    AUTO(host_close) struct host h;

    host_open(&h, HOST_NODE);
    sample(&collect_pressure, &h, SECOND);
    NEAR(&h, "node_pressure_cpu_waiting_seconds_total", "", 14100.784925);
    NEAR(&h, "node_pressure_io_stalled_seconds_total", "", 51.819185);
    NEAR(&h, "host.pressure.avg10", "resource=cpu,kind=some", 98.09);
    UNKNOWN(&h, "node_pressure_irq_stalled_seconds_total", "");
}

TEST(disk_values)
{
    AUTO(host_close) struct host h;

    host_open(&h, HOST_NODE);
    sample(&collect_disk, &h, SECOND);
    NEAR(&h, "node_disk_read_bytes_total", "device=nvme0n1", 168394206.0 * 512);
    NEAR(&h, "node_disk_write_time_seconds_total", "device=nvme0n1", 2201.234);
    NEAR(&h, "node_disk_io_now", "device=nvme0n1", 3);
    NEAR(&h, "node_disk_flush_requests_time_seconds_total", "device=nvme0n1", 0.09);
    NEAR(&h, "node_disk_io_time_weighted_seconds_total", "device=sda", 0.1);
    UNKNOWN(&h, "node_disk_discards_completed_total", "device=sda"); /* an old kernel's line */
    NEAR(&h, "node_disk_reads_completed_total", "device=dm-0", 7);
    NEAR(&h, "node_disk_reads_completed_total", "device=md127", 5);
    UNKNOWN(&h, "node_disk_reads_completed_total", "device=sda1");
    UNKNOWN(&h, "node_disk_reads_completed_total", "device=nvme0n1p1");
    UNKNOWN(&h, "node_disk_reads_completed_total", "device=loop0");
    UNKNOWN(&h, "node_disk_reads_completed_total", "device=ram0");
}

TEST(self_values)
{
    AUTO(host_close) struct host h;

    host_open(&h, HOST_NODE);
    sample(&collect_self, &h, SECOND);
    NEAR(&h, "process_cpu_seconds_total", "", 2.15); /* with children that ended */
    NEAR(&h, "process_start_time_seconds", "", 1700000000 + 2500);
    NEAR(&h, "process_threads", "", 9);
    NEAR(&h, "process_resident_memory_bytes", "", 4120.0 * 4096);
    NEAR(&h, "stoker_agent_private_memory_bytes", "", 3100.0 * 4096);
    NEAR(&h, "process_max_fds", "", 1024);
    UNKNOWN(&h, "process_open_fds", "");
}

TEST(missing_files_are_unknown)
{
    AUTO(host_close) struct host h;

    host_open(&h, NULL);
    for (size_t i = 0; collectors[i]; i++)
        sample(collectors[i], &h, SECOND);
    for (size_t i = 0; i < telemetry_count(h.t); i++) {
        const char *prom = telemetry_get(h.t, (uint32_t)i)->metric->prom;

        if (!isnan(telemetry_value(h.t, (uint32_t)i)) && !str_eq(prom, "node_time_seconds"))
            fail_msg("'%s' is known on an empty machine", prom);
    }
}

/* Nothing in these files is a number that fits, a name that ends, a line that is whole. */
TEST(hostile_files)
{
    static const char *const files[] = {
        "/proc/stat",
        "/proc/loadavg",
        "/proc/sys/fs/file-nr",
        "/proc/meminfo",
        "/proc/vmstat",
        "/proc/pressure/cpu",
        "/proc/diskstats",
        "/proc/net/dev",
        "/proc/net/snmp",
        "/proc/net/netstat",
        "/proc/net/sockstat",
        "/proc/net/rpc/nfs",
        "/proc/self/stat",
        "/proc/self/statm",
        "/proc/self/limits",
        "/proc/self/mountinfo",
        "/proc/self/mountstats",
        "/stoker/statvfs",
        "/proc/fs/lustre/llite/a-b/stats",
        "/sys/class/infiniband/m/ports/1/state",
        "/sys/class/infiniband/m/ports/1/counters/port_rcv_data",
        "/sys/devices/system/node/node0/meminfo",
        "/sys/devices/system/edac/mc/mc0/ce_count",
    };
    static const char *const texts[] = {
        "",
        "\n",
        "cpu",
        "cpu \ncpu0",
        "cpu99999999999999999999 1 2 3 4\n",
        "MemTotal: 99999999999999999999999 kB\nMemFree: -1 kB\nCached:",
        "some avg10=x total=\n",
        "8 0 \xff\xfe\x01 1 2 3\n",
        "8 0 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1\n",
        " : 1 2 3\n../../x: 1 2 3\n\x01: 1\n.: 1 2\n",
        "Tcp: a b\nTcp: 1\nTcp:\n",
        ") ) )",
        "1 (a) R",
        "device  mounted on  with fstype nfs statvers=\n\tper-op statistics\n:\n\t: 1\n",
        "1 2 3:4 / /a\\777\\ rw - x y z\n1 2 3:4 / a rw\n1 2 3:4 / / rw - ext4 d\n",
        "-1 -2 -3 -4\n",
        "read_bytes 1 samples [bytes] 1 2\nread_bytes -1\n",
        "4",
        "18446744073709551616",
    };

    for (size_t k = 0; k < ARRAY_SIZE(texts); k++) {
        struct host h;

        host_open(&h, NULL);
        for (size_t i = 0; i < ARRAY_SIZE(files); i++)
            host_put(&h, files[i], texts[k]);
        for (size_t i = 0; collectors[i]; i++) {
            void *s = collectors[i]->open(h.root, h.t);

            for (int n = 1; n <= 3; n++)
                collectors[i]->sample(s, h.t, n * SECOND);
            collectors[i]->close(s);
        }
        for (size_t i = 0; i < telemetry_count(h.t); i++)
            CHECK(!isinf(telemetry_value(h.t, (uint32_t)i)) &&
                  !(telemetry_value(h.t, (uint32_t)i) < 0));
        host_close(&h);
    }
}

TEST(live_machine)
{
    AUTO(host_close) struct host h;

    host_open(&h, "/");
    for (size_t i = 0; collectors[i]; i++) {
        void *s = collectors[i]->open(h.root, h.t);

        collectors[i]->sample(s, h.t, SECOND);
        collectors[i]->sample(s, h.t, 2 * SECOND);
        collectors[i]->close(s);
    }
    CHECK(host_value(&h, "node_memory_MemTotal_bytes", "") > 0);
    CHECK(host_value(&h, "stoker_cpus", "") >= 1);
    CHECK(host_value(&h, "process_resident_memory_bytes", "") > 0);
    CHECK(host_value(&h, "process_open_fds", "") > 2);
}

TEST_MAIN(cmocka_unit_test(every_metric_is_in_the_table), cmocka_unit_test(cpu_values),
          cmocka_unit_test(cpu_share_and_resets), cmocka_unit_test(memory_values),
          cmocka_unit_test(pressure_values), cmocka_unit_test(disk_values),
          cmocka_unit_test(self_values), cmocka_unit_test(missing_files_are_unknown),
          cmocka_unit_test(hostile_files), cmocka_unit_test(live_machine))
