/* SPDX-License-Identifier: MIT */
/* collect_net: /proc/net/dev, what /sys/class/net adds, and TCP's and UDP's own counters, as
 * node_exporter has them.
 *
 * The hosts' ends of containers' interfaces (veth, cali, lxc, …) are left out: they come and go
 * with every container, and series are for the life of the table.
 *
 * Speed takes the kernel's configuration lock and, with some drivers, a question to the
 * firmware: it is read when an interface is first seen and every half minute. */
#include "telemetry/collect/collect_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NETS_MAX = 128, /* interfaces shown */
    NET_COLUMNS = 16,
    NET_SMALL_MAX = 64,          /* bytes of operstate and such */
    NET_MBPS_MAX = 100000000,    /* unsigned -1 of old kernels is above it */
    NET_MBPS_BYTES = 1000000 / 8 /* a megabit a second in bytes a second */
};

static const char *const columns[NET_COLUMNS] = {
    "node_network_receive_bytes_total",      "node_network_receive_packets_total",
    "node_network_receive_errs_total",       "node_network_receive_drop_total",
    "node_network_receive_fifo_total",       "node_network_receive_frame_total",
    "node_network_receive_compressed_total", "node_network_receive_multicast_total",
    "node_network_transmit_bytes_total",     "node_network_transmit_packets_total",
    "node_network_transmit_errs_total",      "node_network_transmit_drop_total",
    "node_network_transmit_fifo_total",      "node_network_transmit_colls_total",
    "node_network_transmit_carrier_total",   "node_network_transmit_compressed_total",
};

/* Two lines a protocol: its names, then its numbers. */
static const struct {
    const char *protocol, *name, *prom;
} protocols[] = {
    { "Tcp:", "CurrEstab", "node_netstat_Tcp_CurrEstab" },
    { "Tcp:", "InSegs", "node_netstat_Tcp_InSegs" },
    { "Tcp:", "OutSegs", "node_netstat_Tcp_OutSegs" },
    { "Tcp:", "RetransSegs", "node_netstat_Tcp_RetransSegs" },
    { "Tcp:", "InErrs", "node_netstat_Tcp_InErrs" },
    { "Tcp:", "OutRsts", "node_netstat_Tcp_OutRsts" },
    { "Udp:", "InErrors", "node_netstat_Udp_InErrors" },
    { "Udp:", "RcvbufErrors", "node_netstat_Udp_RcvbufErrors" },
    { "TcpExt:", "ListenOverflows", "node_netstat_TcpExt_ListenOverflows" },
    { "TcpExt:", "ListenDrops", "node_netstat_TcpExt_ListenDrops" },
};

struct one_net {
    char name[COLLECT_NAME_MAX];
    struct cfile state, changes, carrier;
    uint32_t ids[NET_COLUMNS], up, changes_id, carrier_id, speed_id, mtu_id;
    double mtu;       /* bytes; 0: unknown */
    double speed;     /* bytes a second; 0: unknown */
    int64_t speed_ns; /* when it was read */
    unsigned seen;    /* the turn it was last in the file */
};

struct net_source {
    const struct root *root; /* borrowed */
    unsigned source, turn;
    struct cfile dev, snmp, netstat, sockstat;
    uint32_t sockets;
    struct one_net *nets;
    size_t count, cap;
    uint32_t protocol_ids[ARRAY_SIZE(protocols)];
    char text[COLLECT_FILE_MAX];
};

static void *net_open(const struct root *root, struct telemetry *t)
{
    struct net_source *n = xcalloc(1, sizeof(*n));

    n->root = root;
    n->source = telemetry_source(t, collect_net.name);
    cfile_open(&n->dev, root, "/proc/net/dev");
    cfile_open(&n->snmp, root, "/proc/net/snmp");
    cfile_open(&n->netstat, root, "/proc/net/netstat");
    cfile_open(&n->sockstat, root, "/proc/net/sockstat");
    n->sockets = collect_id(t, n->source, "node_sockstat_TCP_inuse", NULL, 0);
    for (size_t i = 0; i < ARRAY_SIZE(protocols); i++)
        n->protocol_ids[i] = collect_id(t, n->source, protocols[i].prom, NULL, 0);
    return n;
}

static void one_close(struct one_net *one)
{
    cfile_close(&one->state);
    cfile_close(&one->changes);
    cfile_close(&one->carrier);
}

static void net_close(void *state)
{
    struct net_source *n = state;

    if (!n)
        return;
    cfile_close(&n->dev);
    cfile_close(&n->snmp);
    cfile_close(&n->netstat);
    cfile_close(&n->sockstat);
    for (size_t i = 0; i < n->count; i++)
        one_close(&n->nets[i]);
    free(n->nets);
    free(n);
}

static bool is_left_out(const char *s, size_t len)
{
    static const char *const ends[] = { "veth", "cali", "lxc", "tap",
                                        "vnet", "gke",  "eni", "nodelocaldns" };

    for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
        if (len > strlen(ends[i]) && !memcmp(s, ends[i], strlen(ends[i])))
            return true;
    return false;
}

static void one_files_open(const struct net_source *n, struct one_net *one)
{
    char path[ROOT_PATH_MAX];

    snprintf(path, sizeof(path), "/sys/class/net/%s/operstate", one->name);
    cfile_open(&one->state, n->root, path);
    snprintf(path, sizeof(path), "/sys/class/net/%s/carrier_changes", one->name);
    cfile_open(&one->changes, n->root, path);
    snprintf(path, sizeof(path), "/sys/class/net/%s/carrier", one->name);
    cfile_open(&one->carrier, n->root, path);
    one->speed_ns = INT64_MIN;
}

static struct one_net *net_add(struct net_source *n, struct telemetry *t, const char *name,
                               size_t len)
{
    struct one_net *one = NULL, fresh = { .seen = n->turn };
    struct telemetry_label l = { .name = "device" };
    bool full = n->count == NETS_MAX;

    for (size_t i = 0; i < n->count && full && !one; i++)
        if (n->nets[i].seen + 1 < n->turn)
            one = &n->nets[i]; /* gone since the last turn at least */
    if (full && !one)
        return NULL;
    if (!full) {
        VEC_GROW(n->nets, n->count, n->cap);
        one = &n->nets[n->count];
    }
    if (!scan_copy(fresh.name, sizeof(fresh.name), name, len) || strchr(fresh.name, '/') ||
        fresh.name[0] == '.')
        return NULL;
    if (full)
        one_close(one);
    *one = fresh;
    l.value = one->name;
    for (size_t i = 0; i < NET_COLUMNS; i++)
        one->ids[i] = collect_id(t, n->source, columns[i], &l, 1);
    one->up = collect_id(t, n->source, "node_network_up", &l, 1);
    one->changes_id = collect_id(t, n->source, "node_network_carrier_changes_total", &l, 1);
    one->carrier_id = collect_id(t, n->source, "node_network_carrier", &l, 1);
    one->mtu_id = collect_id(t, n->source, "node_network_mtu_bytes", &l, 1);
    one->speed_id = collect_id(t, n->source, "node_network_speed_bytes", &l, 1);
    one_files_open(n, one);
    n->count += !full;
    return one;
}

/* One that was away for a turn may be another device under the old name. */
static struct one_net *net_find(struct net_source *n, struct telemetry *t, const char *name,
                                size_t len, size_t hint)
{
    struct one_net *one = hint < n->count ? &n->nets[hint] : NULL;

    if (!one || !scan_is(name, len, one->name)) {
        one = NULL;
        for (size_t i = 0; i < n->count && !one; i++)
            if (scan_is(name, len, n->nets[i].name))
                one = &n->nets[i];
    }
    if (!one)
        return net_add(n, t, name, len);
    if (one->seen + 1 != n->turn) {
        one_close(one);
        one_files_open(n, one);
    }
    one->seen = n->turn;
    return one;
}

/* Speed and MTU, which seldom change. */
static void speed_read(const struct net_source *n, struct one_net *one, int64_t now_ns)
{
    char path[ROOT_PATH_MAX], text[NET_SMALL_MAX];
    const char *p = text;
    uint64_t mbps;

    if (one->speed_ns != INT64_MIN && now_ns >= one->speed_ns &&
        now_ns - one->speed_ns < COLLECT_RESCAN_MS * INT64_C(1000000))
        return;
    one->speed_ns = now_ns;
    one->speed = one->mtu = 0;
    snprintf(path, sizeof(path), "/sys/class/net/%s/mtu", one->name);
    if (collect_read(n->root, path, text, sizeof(text)) > 0 && scan_u64(&p, &mbps))
        one->mtu = (double)mbps;
    p = text;
    snprintf(path, sizeof(path), "/sys/class/net/%s/speed", one->name);
    if (collect_read(n->root, path, text, sizeof(text)) > 0 && scan_u64(&p, &mbps) && mbps > 0 &&
        mbps <= NET_MBPS_MAX)
        one->speed = (double)mbps * NET_MBPS_BYTES;
}

static void one_set(const struct net_source *n, struct telemetry *t, struct one_net *one,
                    int64_t now_ns)
{
    char text[NET_SMALL_MAX];
    const char *p = text;
    uint64_t v;

    if (cfile_read(&one->state, text, sizeof(text)) > 0)
        telemetry_set(t, one->up, !strncmp(text, "up", 2));
    if (cfile_read(&one->changes, text, sizeof(text)) > 0 && scan_u64(&p, &v))
        telemetry_set(t, one->changes_id, (double)v);
    p = text;
    if (cfile_read(&one->carrier, text, sizeof(text)) > 0 && scan_u64(&p, &v))
        telemetry_set(t, one->carrier_id, (double)v); /* EINVAL while it is not up */
    speed_read(n, one, now_ns);
    if (one->mtu > 0)
        telemetry_set(t, one->mtu_id, one->mtu);
    if (one->speed > 0)
        telemetry_set(t, one->speed_id, one->speed);
}

static void dev_set(struct net_source *n, struct telemetry *t, int64_t now_ns)
{
    size_t at = 0;

    for (const char *line = n->text; *line; line = scan_line(line)) {
        const char *end = strchrnul(line, '\n');
        const char *colon = memchr(line, ':', (size_t)(end - line));
        struct one_net *one;
        const char *p = line;
        uint64_t v;

        p += strspn(p, " ");
        if (!colon || colon <= p || is_left_out(p, (size_t)(colon - p)))
            continue; /* the two headings have none */
        one = net_find(n, t, p, (size_t)(colon - p), at++);
        if (!one)
            continue;
        p = colon + 1;
        for (size_t i = 0; i < NET_COLUMNS && scan_u64(&p, &v); i++)
            telemetry_set(t, one->ids[i], (double)v);
        one_set(n, t, one, now_ns);
    }
}

/* Names and numbers of one protocol, side by side. */
static void protocol_set(const struct net_source *n, struct telemetry *t, const char *names,
                         const char *values)
{
    const char *head, *word;
    size_t head_len = scan_word(&names, &head), len;
    int64_t v;

    if (scan_word(&values, &word) != head_len || memcmp(word, head, head_len) != 0)
        return;
    while ((len = scan_word(&names, &word)) && scan_i64(&values, &v))
        for (size_t i = 0; i < ARRAY_SIZE(protocols); i++)
            if (v >= 0 && scan_is(word, len, protocols[i].name) &&
                scan_is(head, head_len, protocols[i].protocol))
                telemetry_set(t, n->protocol_ids[i], (double)v);
}

static void protocols_set(const struct net_source *n, struct telemetry *t)
{
    for (const char *line = n->text; *line;) {
        const char *next = scan_line(line);

        if (!strncmp(line, "Tcp:", 4) || !strncmp(line, "Udp:", 4) || !strncmp(line, "TcpExt:", 7))
            protocol_set(n, t, line, next);
        line = scan_line(next);
    }
}

static void net_sample(void *state, struct telemetry *t, int64_t now_ns)
{
    struct net_source *n = state;

    n->turn++;
    telemetry_begin(t, n->source, now_ns);
    if (cfile_read_all(&n->dev, n->text, sizeof(n->text)) > 0)
        dev_set(n, t, now_ns);
    if (cfile_read_all(&n->snmp, n->text, sizeof(n->text)) > 0)
        protocols_set(n, t);
    if (cfile_read_all(&n->netstat, n->text, sizeof(n->text)) > 0)
        protocols_set(n, t);
    if (cfile_read(&n->sockstat, n->text, sizeof(n->text)) > 0)
        collect_set_after(t, n->sockets, n->text, "TCP: inuse ");
    telemetry_end(t);
}

const struct collector collect_net = {
    .name = "net", .period_ms = 1000, .open = net_open, .sample = net_sample, .close = net_close
};
