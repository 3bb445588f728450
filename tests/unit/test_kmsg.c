/* SPDX-License-Identifier: MIT */
/* The kernel's log: XIDs in every format known, other lines that matter, floods, losses. */
#include "host.h"

#include "base/arena.h"
#include "base/buf.h"
#include "catalog/csv.h"
#include "telemetry/kmsg/kmsg_int.h"

enum { EVENTS = 512 };

struct log {
    struct host h;
    struct kmsg *k;
    struct telemetry_event *events;
    size_t count;
};

/* Reads a text as the log; the events are in order. */
static void log_read(struct log *l, const char *text)
{
    char path[128];

    host_open(&l->h, NULL);
    host_put(&l->h, "/log", text);
    snprintf(path, sizeof(path), "%s/log", l->h.dir);
    l->k = kmsg_open(l->h.root, path);
    l->events = calloc(EVENTS, sizeof(*l->events));
    kmsg_poll(l->k, l->h.t);
    l->count = telemetry_events(l->h.t, INT64_MIN, l->events, EVENTS);
}

static void log_close(struct log *l)
{
    kmsg_close(l->k);
    free(l->events);
    host_close(&l->h);
}

TEST(xid_formats)
{
    static const struct {
        const char *line;
        int code; /* 0: none */
        const char *bdf, *text;
    } rows[] = {
        { "NVRM: Xid (PCI:0000:0a:00): 79, pid=1234, name=python, GPU has fallen off the bus.", 79,
          "0000:0a:00", "pid=1234, name=python, GPU has fallen off the bus." },
        { "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel", 94,
          "0000:01:00", "pid=7194, Contained: CE User Channel" },
        { "NVRM: Xid (0000:03:00): 14, Channel 00000001", 14, "0000:03:00", "Channel 00000001" },
        { "NVRM: Xid (PCI:00000000:3B:00): 48, pid='<unknown>', name=<unknown>", 48,
          "00000000:3b:00", "pid='<unknown>', name=<unknown>" },
        { "NVRM: Xid (PCI:0000:01:00) 31, Ch 00000010, intr 10000000", 31, "0000:01:00",
          "Ch 00000010, intr 10000000" },
        { "NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 "
          "(Node Reboot Required)",
          154, "0000:9b:00",
          "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)" },
        { "NVRM: Xid (PCI:0000:c3:00): 145, RLW_REMAP Nonfatal XC0 i0 Link 10 (0x00000004 0x1)",
          145, "0000:c3:00", "RLW_REMAP Nonfatal XC0 i0 Link 10 (0x00000004 0x1)" },
        { "NVRM: Xid (PCI:0000:02:00): 43", 43, "0000:02:00", "" },
        { "NVRM: Xid (PCI:0000:02:00): 31, pid=7, name=SXid (PCI:00:01, Ch 00000010", 31,
          "0000:02:00", "pid=7, name=SXid (PCI:00:01, Ch 00000010" },
        { "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore",
          28006, "0000:c1:00.0", "Non-fatal, Link 46 MC TS crumbstore" },
        { "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20009, Non-fatal, Link 04 RX Short Error",
          20009, "0000:a9:00.0", "Non-fatal, Link 04 RX Short Error" },
        /* details of the line before, and what is none */
        { "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20009, Severity 0 Engine instance 04", 0,
          NULL, NULL },
        { "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20009, Data {0x00000003}", 0, NULL, NULL },
        { "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): garbled, Fatal", 0, NULL, NULL },
        { "NVRM: Xid (PCI:0000:01:00): 99999999999, x", 0, NULL, NULL },
        { "NVRM: Xid (PCI:0000:01:00): 79x", 0, NULL, NULL },
        { "NVRM: Xid (PCI:0000:01:00", 0, NULL, NULL },
        { "NVRM: Xid (", 0, NULL, NULL },
        { "NVRM: Xid (): 79", 0, NULL, NULL },
        { "NVRM: Xid (PCI:0000000000000000000000000000:01:00): 79", 0, NULL, NULL },
        { "NVRM: Xid (PCI:0000:01:00): 20009, no GPU has such a code", 0, NULL, NULL },
        { "audit: someone wrote about an Xid", 0, NULL, NULL },
        { "", 0, NULL, NULL },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char bdf[24] = "", text[256] = "";
        int code = 0;

        if (kmsg_xid(rows[i].line, &code, bdf, text, sizeof(text)) != (rows[i].code != 0))
            fail_msg("'%s'", rows[i].line);
        assert_int_equal(code, rows[i].code);
        if (!rows[i].code)
            continue;
        assert_string_equal(bdf, rows[i].bdf);
        assert_string_equal(text, rows[i].text);
    }
}

TEST(codes_have_a_meaning)
{
    struct xid_info x;

    CHECK(xid_find(79, &x) && x.severity == XID_CRITICAL);
    assert_string_equal(x.action, "reboot");
    CHECK(strstr(x.text, "fallen off the bus"));
    CHECK(xid_find(45, &x) && x.severity == XID_INFO); /* never evidence alone */
    CHECK(xid_find(63, &x) && x.severity == XID_WARNING);
    CHECK(xid_find(94, &x) && x.severity == XID_WARNING);
    CHECK(xid_find(12028, &x) && x.severity == XID_WARNING);
    CHECK(xid_find(23001, &x) && x.severity == XID_CRITICAL);
    CHECK(!xid_find(0, &x) && !xid_find(7777, &x) && !xid_find(-1, &x));
}

/* xid_find() reads rows without a CSV reader: the file must not need one. */
TEST(the_table_is_plain)
{
    FILE *f = fopen("data/xid.csv", "r");
    AUTO(arena_release) struct arena a = { 0 };
    AUTO(buf_release) struct buf b = { 0 };
    struct csv t;
    int c;

    assert_non_null(f);
    while ((c = fgetc(f)) != EOF)
        buf_addc(&b, (char)c);
    fclose(f);
    CHECK(!strchr(buf_str(&b), '"'));
    assert_int_equal(csv_parse(&a, b.data, b.len, &t, NULL), RC_OK);
    CHECK(t.rows > 250);
    for (size_t i = 0; i < t.rows; i++) {
        struct xid_info x;
        const char *severity = csv_cell(&t, i, 3);
        int code = (int)strtol(csv_cell(&t, i, 1), NULL, 10);

        CHECK(xid_find(code, &x));
        assert_string_equal(x.mnemonic, csv_cell(&t, i, 2));
        assert_string_equal(x.action, csv_cell(&t, i, 4));
        assert_string_equal(x.text, csv_cell(&t, i, 5));
        CHECK(x.severity == (str_eq(severity, "critical")  ? XID_CRITICAL
                             : str_eq(severity, "warning") ? XID_WARNING
                                                           : XID_INFO));
        CHECK(xid_is_switch(code) == str_eq(csv_cell(&t, i, 0), "sxid"));
    }
}

TEST(lines_become_events)
{
    static const struct {
        const char *line;
        int kind; /* -1: none */
    } rows[] = {
        { "NVRM: Xid (PCI:0000:0a:00): 79, GPU has fallen off the bus.", TELEMETRY_EVENT_XID },
        { "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46",
          TELEMETRY_EVENT_SXID },
        { "NVRM: GPU 0000:0a:00.0: GPU has fallen off the bus.", TELEMETRY_EVENT_GPU },
        { "NVRM: The NVIDIA GPU 0000:9b:00.0\\x0aNVRM: (PCI ID: 10de:2330) installed in this "
          "system has\\x0aNVRM: fallen off the bus and is not responding to commands.",
          TELEMETRY_EVENT_GPU },
        { "NVRM: API mismatch: the client has the version 550.1", TELEMETRY_EVENT_GPU },
        { "Out of memory: Killed process 1234 (python) total-vm:1kB, anon-rss:1kB",
          TELEMETRY_EVENT_KERNEL },
        { "Memory cgroup out of memory: Killed process 77 (python3) total-vm:1kB",
          TELEMETRY_EVENT_KERNEL },
        { "mlx5_core 0000:1a:00.0 eth2: Link down", TELEMETRY_EVENT_LINK },
        { "mlx5_core 0000:1a:00.0 eth2: Link up", TELEMETRY_EVENT_LINK },
        { "igb 0000:01:00.0 eno1: igb: eno1 NIC Link is Down", TELEMETRY_EVENT_LINK },
        { "ixgbe 0000:01:00.0 eth0: NIC Link is Up 10 Gbps, Flow Control: RX/TX",
          TELEMETRY_EVENT_LINK },
        { "mlx5_core 0000:1a:00.0: Port module event: module 0, Cable unplugged",
          TELEMETRY_EVENT_LINK },
        { "mlx4_core 0000:05:00.0: mlx4_0: Port: 1 Link DOWN", TELEMETRY_EVENT_LINK },
        { "nvme nvme0: I/O 12 QID 3 timeout, aborting", TELEMETRY_EVENT_KERNEL },
        { "nvme nvme0: Disabling device after reset failure: -19", TELEMETRY_EVENT_KERNEL },
        { "nvme nvme0: controller is down; will reset: CSTS=0xffffffff", TELEMETRY_EVENT_KERNEL },
        { "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls",
          TELEMETRY_EVENT_KERNEL },
        { "EXT4-fs (sda1): Remounting filesystem read-only", TELEMETRY_EVENT_KERNEL },
        { "XFS (nvme0n1): Metadata corruption detected at xfs_buf", TELEMETRY_EVENT_KERNEL },
        { "blk_update_request: I/O error, dev sdb, sector 123", TELEMETRY_EVENT_KERNEL },
        { "Buffer I/O error on dev sda1, logical block 1, lost async page write",
          TELEMETRY_EVENT_KERNEL },
        { "nfs: server filer not responding, still trying", TELEMETRY_EVENT_KERNEL },
        { "nfs: server filer OK", TELEMETRY_EVENT_KERNEL },
        { "LustreError: 11-0: scratch-OST0001-osc: operation ost_connect failed",
          TELEMETRY_EVENT_KERNEL },
        { "pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0",
          TELEMETRY_EVENT_KERNEL },
        { "pcieport 0000:00:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=x",
          TELEMETRY_EVENT_KERNEL },
        { "pcieport 0000:00:03.1: pciehp: Slot(3): Link Down", TELEMETRY_EVENT_KERNEL },
        { "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0", TELEMETRY_EVENT_KERNEL },
        { "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:1]", TELEMETRY_EVENT_KERNEL },
        { "INFO: task python:123 blocked for more than 120 seconds.", TELEMETRY_EVENT_KERNEL },
        { "pt_main_thread[25]: segfault at 7f7 ip 00 sp 00 error 4 in libnccl.so.2[7f]",
          TELEMETRY_EVENT_KERNEL },
        { "eth0: renamed from veth12", -1 },
        { "usb 1-1: new high-speed USB device number 2", -1 },
        { "device eth0 entered promiscuous mode", -1 },
        { "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.148.08", -1 },
        { "systemd[1]: Started a thing", -1 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct log l;
        char text[1024];

        snprintf(text, sizeof(text),
                 "4,1,5000000,-;%s\n SUBSYSTEM=pci\n DEVICE=+pci:0000:0a:00.0\n", rows[i].line);
        log_read(&l, text);
        if (l.count != (rows[i].kind >= 0))
            fail_msg("%zu events of '%s'", l.count, rows[i].line);
        if (l.count)
            assert_int_equal(l.events[0].kind, rows[i].kind);
        log_close(&l);
    }
}

TEST(an_event_says_what_when_and_where)
{
    AUTO(log_close) struct log l;
    const struct telemetry_metric *m;
    struct telemetry_label labels[] = { { "gpu", "3" }, { "pci_bus_id", "00000000:9B:00.0" } };
    char path[128];

    host_open(&l.h, NULL);
    m = telemetry_metric("gpu.temp");
    assert_non_null(m);
    telemetry_series(l.h.t, telemetry_source(l.h.t, "gpu"), m, labels, 2);
    host_put(&l.h, "/proc/stat", "cpu 1 1 1 1\nbtime 1700000000\n");
    host_put(&l.h, "/log",
             "3,7,2500000,-;NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x0 "
             "(None) to 0x1 (GPU Reset Required)\n");
    snprintf(path, sizeof(path), "%s/log", l.h.dir);
    l.k = kmsg_open(l.h.root, path);
    l.events = calloc(EVENTS, sizeof(*l.events));
    CHECK(kmsg_poll(l.k, l.h.t) == 2);
    l.count = telemetry_events(l.h.t, 0, l.events, EVENTS);
    assert_int_equal(l.count, 2);
    CHECK(l.events[0].kind == TELEMETRY_EVENT_XID && l.events[1].kind == TELEMETRY_EVENT_RECOVERY);
    CHECK(l.events[0].gpu == 3 && l.events[0].code == 154);
    CHECK(l.events[0].time_ns == 1700000002 * SECOND + SECOND / 2);
    CHECK(str_starts(l.events[0].text, "XID 154 at 0000:9b:00: "));
    CHECK(strstr(l.events[0].text, "GPU Reset Required"));
}

TEST(daemons_are_not_the_kernel)
{
    AUTO(log_close) struct log l;

    log_read(&l,
             "30,1,5000000,-;daemon: NVRM: Xid (PCI:0000:0a:00): 79, quoted\n" /* LOG_DAEMON */
             "12,2,5000000,-;NVRM: Xid (PCI:0000:0a:00): 43, injected for a test\n"); /* LOG_USER */
    assert_int_equal(l.count, 1);
    assert_int_equal(l.events[0].code, 43);
}

TEST(a_flood_is_cut_and_counted)
{
    enum { LINES = 5000 };
    AUTO(buf_release) struct buf b = { 0 };
    struct kmsg_stats st;
    AUTO(log_close) struct log l;
    size_t xids = 0, links = 0, told = 0;

    for (int i = 0; i < LINES; i++)
        buf_addf(&b, "4,%d,%d,-;NVRM: Xid (PCI:0000:0a:00): 13, Graphics Exception %d\n", i + 1,
                 1000000 + i, i);
    buf_addf(&b, "4,%d,2000000,-;eth0: Link down\n", LINES + 1); /* another kind is not held back */
    buf_addf(&b, "4,%d,90000000,-;NVRM: Xid (PCI:0000:0a:00): 13, later\n", LINES + 2);
    log_read(&l, buf_str(&b));
    for (int i = 0; i < 4; i++)
        kmsg_poll(l.k, l.h.t);
    l.count = telemetry_events(l.h.t, INT64_MIN, l.events, EVENTS);
    for (size_t i = 0; i < l.count; i++) {
        xids += l.events[i].kind == TELEMETRY_EVENT_XID;
        links += l.events[i].kind == TELEMETRY_EVENT_LINK;
        told += strstr(l.events[i].text,
                       "more lines of the kernel log like 'XID 13 at 0000:0a:00'") != NULL;
    }
    CHECK(xids == 17 && links == 1 && told == 1); /* a burst of 16, and the later one */
    kmsg_stats(l.k, &st);
    CHECK(st.lines == LINES + 2 && st.cut == LINES - 16 && st.lost == 0);
    CHECK(host_value(&l.h, "stoker_kmsg_dropped_total", "") == LINES - 16);
    CHECK(host_value(&l.h, "stoker_kmsg_lines_total", "") == LINES + 2);
}

TEST(a_flood_of_one_device_hides_no_other)
{
    AUTO(buf_release) struct buf b = { 0 };
    AUTO(log_close) struct log l;
    bool gpu = false, disk = false;

    for (int i = 0; i < 100; i++)
        buf_addf(&b,
                 "4,%d,1000000,-;NVRM: Xid (PCI:0000:0a:00): 31, Ch %d\n"
                 "4,%d,1000000,-;nvme nvme0: I/O %d QID 3 timeout, aborting\n",
                 2 * i, i, 2 * i + 1, i);
    buf_adds(&b, "4,200,1000000,-;NVRM: Xid (PCI:0000:0b:00): 31, Ch 1\n"
                 "4,201,1000000,-;nvme nvme1: I/O 1 QID 3 timeout, aborting\n");
    log_read(&l, buf_str(&b));
    for (size_t i = 0; i < l.count; i++) {
        gpu = gpu || strstr(l.events[i].text, "0000:0b:00");
        disk = disk || strstr(l.events[i].text, "nvme1");
    }
    CHECK(gpu && disk);
    assert_int_equal(l.count, 2 * 16 + 2);
}

/* The log's clock runs off, and stays where it is when the other is set. */
TEST(what_comes_while_we_look_happened_now)
{
    int64_t now = time(NULL) * SECOND;
    AUTO(log_close) struct log l;

    log_read(&l, "4,1,5000000,-;NVRM: Xid (PCI:0000:0a:00): 31, of before\n");
    CHECK(l.events[0].time_ns < now - 3600 * SECOND);
    host_put(&l.h, "/log",
             "4,1,5000000,-;NVRM: Xid (PCI:0000:0a:00): 31, of before\n"
             "4,2,9000000,-;NVRM: Xid (PCI:0000:0a:00): 13, of now\n");
    kmsg_poll(l.k, l.h.t);
    l.count = telemetry_events(l.h.t, INT64_MIN, l.events, EVENTS);
    assert_int_equal(l.count, 2);
    CHECK(l.events[1].code == 13 && llabs(l.events[1].time_ns - now) < 60 * SECOND);
}

TEST(lost_messages_are_told)
{
    struct kmsg_stats st;
    AUTO(log_close) struct log l;

    log_read(&l, "6,10,1,-;a\n6,11,2,-;b\n6,52,3,-;c\n");
    assert_int_equal(l.count, 1);
    CHECK(str_starts(l.events[0].text, "40 messages of the kernel log were lost"));
    kmsg_stats(l.k, &st);
    CHECK(st.lost == 40);
}

TEST(odd_lines)
{
    AUTO(log_close) struct log l;

    log_read(&l, "[   12.500000] NVRM: Xid (PCI:0000:0a:00): 31, of dmesg\n"
                 "NVRM: Xid (PCI:0000:0a:00): 31, a bare line\n"
                 "4,1,99999999999999999999,-;eth0: Link down\n"
                 "4,1,x;eth1: Link down\n"
                 ";\n\n4,\n\\x\n[\n"
                 "4,2,5,-;eth2: Link \\x1b[31mdown\\xff eth2: Link down\\x00\n"
                 "4,3,6,-;an unfinished line about eth9: Link down");
    assert_int_equal(l.count, 5);
    for (size_t i = 0; i < l.count; i++)
        CHECK(str_is_text(l.events[i].text, strlen(l.events[i].text)));
}

TEST(no_log)
{
    struct host h;
    struct kmsg *k;

    host_open(&h, HOST_NODE);
    k = kmsg_open(h.root, NULL); /* a captured machine has none */
    CHECK(kmsg_poll(k, h.t) == 0);
    kmsg_close(k);
    kmsg_close(NULL);
    host_close(&h);
}

/* As Linux writes them, before and since it changed its words. */
static const struct {
    const char *line, *word, *device;
    unsigned count;
} faults[] = {
    { "pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0", "aer_fatal",
      "0000:3b:00.0", 1 },
    { "pcieport 0000:00:01.0: AER: Multiple Uncorrectable (Fatal) error message received from "
      "0000:3b:00.0",
      "aer_fatal", "0000:3b:00.0", 1 },
    { "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), "
      "type=Transaction Layer, (Requester ID)",
      "aer_nonfatal", "0000:3b:00.0", 1 },
    { "nvme 0000:65:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver "
      "ID)",
      "aer_corrected", "0000:65:00.0", 1 },
    { "pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0", "aer_corrected",
      "0000:01:00.0", 1 },
    { "pcieport 0000:00:1c.5: AER: Multiple Corrected error received: id=0200", "aer_corrected",
      "0000:02:00.0", 1 }, /* before 4.16 */
    { "pcieport 0001:00:1c.5: AER: Corrected error received: id=00e5", "aer_corrected",
      "0001:00:1c.5", 1 },
    { "pcieport 0000:00:01.0: AER: Correctable error message received from 0000:01:00.0",
      "aer_corrected", "0000:01:00.0", 1 },
    { "dpc 0000:00:03.2:pcie008: DPC containment event, status:0x1f01 source:0x0000", "aer_fatal",
      "0000:00:03.2", 1 },
    { "pcieport 0000:30:03.0: DPC: containment event, status:0x0005 source:0x3400", "aer_fatal",
      "0000:30:03.0", 1 },
    { "pcieport 0015:00:00.0: DPC: containment event, status:0x200d, ERR_FATAL received from "
      "0015:01:00.0",
      "aer_fatal", "0015:01:00.0", 1 },
    { "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 4: b200000000070005",
      "machine_check", "CPU 3", 1 },
    { "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: 8c00004000010090",
      "machine_check_corrected", "CPU 12", 1 },
    { "mce: [Hardware Error]: CPU 3: Machine Check Event: 0 Bank 7: 8c00004000010090",
      "machine_check_corrected", "CPU 3", 1 },
    { "mce: [Hardware Error]: CPU 36: Machine Check: 0 Bank 5: be00000000800400", "machine_check",
      "CPU 36", 1 }, /* what a crash left, logged by the next boot */
    { "[Hardware Error]: CPU:7 (17:1:1) MC0_STATUS[-|UE|MiscV|AddrV|-|-|-|UECC|-|Poison|-]: "
      "0xbc002800000c0135",
      "machine_check", "CPU 7", 1 },
    { "[Hardware Error]: CPU:0 (17:1:1) MC15_STATUS[Over|-|MiscV|AddrV|-|-|SyndV|UECC|Deferred|"
      "-|-]: 0xdc2030000000011b",
      "machine_check", "CPU 0", 1 },
    { "[Hardware Error]: CPU:2 (19:11:1) MC17_STATUS[Over|CE|MiscV|AddrV|-|-|SyndV|CECC|-|-|-]"
      ": 0xdc2040000000011b",
      "machine_check_corrected", "CPU 2", 1 },
    { "mce: [Hardware Error]: Machine check events logged", "machine_check_corrected", "CPU", 1 },
    { "{1}[Hardware Error]: event severity: fatal", "machine_check", "firmware", 1 },
    { "{2}[Hardware Error]:  event severity: corrected", "machine_check_corrected", "firmware", 1 },
    { "EDAC MC0: 12 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0",
      "edac_corrected", "CPU_SrcID#0_MC#0_Chan#1_DIMM#0", 12 },
    { "EDAC MC1: 1 UE memory scrubbing error on unknown memory (node:1", "edac_uncorrected",
      "unknown", 1 },
    { "Memory failure: 0x1fd3c: recovery action for dirty LRU page: Recovered", "memory_failure",
      "memory", 1 },
    { "nvme nvme0: I/O 12 QID 3 timeout, aborting", "nvme_timeout", "nvme0", 1 },
    { "nvme nvme1: I/O tag 12 (100c) opcode 0x2 (I/O Cmd) QID 3 timeout, aborting req_op:READ",
      "nvme_timeout", "nvme1", 1 },
    { "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10",
      "nvme_timeout", "nvme0", 1 },
    { "nvme nvme2: I/O tag 0 (0000) type 4 opcode 0x18 (Keep Alive) QID 0 timeout", "nvme_timeout",
      "nvme2", 1 }, /* over TCP, RDMA */
    { "nvme nvme2: queue 0: timeout request 0x0 type 4", "nvme_timeout", "nvme2", 1 },
    { "nvme 0000:01:00.0: I/O 12 QID 3 timeout, aborting", "nvme_timeout", "0000:01:00.0", 1 },
    { "nvme nvme0: Device not ready; aborting reset, CSTS=0x1", "nvme_timeout", "nvme0", 1 },
    { "nvme nvme0: Disabling device after reset failure: -19", "nvme_timeout", "nvme0", 1 },
    { "INFO: task dd:456 blocked in I/O wait for more than 122 seconds.", "hung_task", "dd", 1 },
    { "INFO: task python3:4711 blocked for more than 122 seconds.", "hung_task", "python3", 1 },
    { "INFO: task kworker/u8:3:77 blocked for more than 245 seconds.", "hung_task", "kworker/u8:3",
      1 },
    { "nvme nvme0: Shutdown timeout set to 10 seconds", NULL, NULL, 0 },
    { "INFO: task (udev-worker):374 is blocked on a mutex likely owned by task init:1.", NULL, NULL,
      0 },
    { "[Hardware Error]: Deferred error, no action required.", NULL, NULL, 0 },
    { "pcieport 0000:30:03.0: DPC: ERR_FATAL detected", NULL, NULL, 0 },
    { "pcieport 0000:30:03.0: AER: broadcast error_detected message", NULL, NULL, 0 },
    { "nvme nvme0: 16/0/0 default/read/poll queues", NULL, NULL, 0 },
    { "EDAC MC0: Giving out device to module skx_edac", NULL, NULL, 0 },
    { "mce: CPU0: Thermal monitoring enabled", NULL, NULL, 0 },
    { "{1}[Hardware Error]:   section_type: memory error", NULL, NULL, 0 },
    { "pcieport 0000:00:01.0: AER: enabled with IRQ 24", NULL, NULL, 0 },
    { "", NULL, NULL, 0 },
};

TEST(faults_by_kind_and_device)
{
    for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
        struct kmsg_fault f;
        bool is = kmsg_fault(faults[i].line, &f);

        if (is != (faults[i].word != NULL))
            fail_msg("'%s'", faults[i].line);
        if (!is)
            continue;
        assert_string_equal(kmsg_fault_word(f.kind), faults[i].word);
        assert_string_equal(f.device, faults[i].device);
        assert_int_equal(f.count, faults[i].count);
    }
    CHECK(kmsg_sxid_fatal(28006, "SXID 28006 at x: y; Fatal, Link 46 MC TS crumbstore MCTO"));
    CHECK(!kmsg_sxid_fatal(23001, "SXID 23001 at x: y; Non-fatal, Link 46"));
    CHECK(kmsg_sxid_fatal(23001, "SXID 23001 at x: y; Link 46"));
    CHECK(!kmsg_sxid_fatal(99998, "SXID 99998 at x: not in the table; Link 46"));
}

/* A machine check has a dozen lines; the one that says how bad it is is never cut with them. */
TEST(a_flood_of_details_hides_no_fault)
{
    AUTO(buf_release) struct buf b = { 0 };
    bool seen = false;
    AUTO(log_close) struct log l;

    for (int i = 0; i < 40; i++)
        buf_addf(&b, "4,%d,5000000,-;{1}[Hardware Error]:   section_type: %d\n", i, i);
    buf_adds(&b, "4,40,5000000,-;{1}[Hardware Error]: event severity: fatal\n");
    log_read(&l, buf_str(&b));
    for (size_t i = 0; i < l.count; i++)
        seen = seen || strstr(l.events[i].text, "severity: fatal");
    CHECK(seen);
}

TEST_MAIN(cmocka_unit_test(faults_by_kind_and_device),
          cmocka_unit_test(a_flood_of_details_hides_no_fault), cmocka_unit_test(xid_formats),
          cmocka_unit_test(codes_have_a_meaning), cmocka_unit_test(the_table_is_plain),
          cmocka_unit_test(lines_become_events),
          cmocka_unit_test(an_event_says_what_when_and_where),
          cmocka_unit_test(daemons_are_not_the_kernel),
          cmocka_unit_test(a_flood_is_cut_and_counted),
          cmocka_unit_test(a_flood_of_one_device_hides_no_other),
          cmocka_unit_test(what_comes_while_we_look_happened_now),
          cmocka_unit_test(lost_messages_are_told), cmocka_unit_test(odd_lines),
          cmocka_unit_test(no_log))
