/* SPDX-License-Identifier: MIT */
/* collect_rdma: ports of RDMA devices, under node_exporter's infiniband names and meanings.
 *
 * 1. Data counters are in words of four bytes; here they are bytes.
 * 2. A counter may read "N/A (no PMA)" or fail: it is not asked again.  On functions that may
 *    not read a port's registers every such read writes a line to the kernel's log, so the first
 *    failure in counters/ ends all reading of that folder for the port, for the life of the
 *    device.
 * 3. Reading counters/ is a question to the firmware.  What charts need (data, packets, waiting,
 *    state) is read each time through kept files; the rest every RDMA_SLOW_TURNS, opened and
 *    closed (hundreds of kept files would meet the limit on open files), and its last value
 *    stands in between.
 * 4. A port whose state cannot be read any more is gone; the next look into the folder finds it
 *    when it is back. */
#include "telemetry/collect/collect_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RDMA_PORTS_MAX = 64, /* ports shown */
    RDMA_PATH_MAX = 200, /* bytes of a port's folder: shorter than a path by the file's name */
    RDMA_TEXT_MAX = 128, /* bytes of a counter or state */
    RDMA_SLOW_TURNS = 5,
    RDMA_FAST = 5 /* rows of `counters` that are read each time */
};

struct rdma_counter {
    const char *file, *prom;
    double scale;
};

static const struct rdma_counter counters[] = {
    { "counters/port_rcv_data", "node_infiniband_port_data_received_bytes_total", 4 },
    { "counters/port_xmit_data", "node_infiniband_port_data_transmitted_bytes_total", 4 },
    { "counters/port_rcv_packets", "node_infiniband_port_packets_received_total", 1 },
    { "counters/port_xmit_packets", "node_infiniband_port_packets_transmitted_total", 1 },
    { "counters/port_xmit_wait", "node_infiniband_port_transmit_wait_total", 1 },
    /* every RDMA_SLOW_TURNS from here */
    { "counters/link_downed", "node_infiniband_link_downed_total", 1 },
    { "counters/link_error_recovery", "node_infiniband_link_error_recovery_total", 1 },
    { "counters/symbol_error", "node_infiniband_symbol_error_total", 1 },
    { "counters/port_rcv_errors", "node_infiniband_port_errors_received_total", 1 },
    { "counters/port_xmit_discards", "node_infiniband_port_discards_transmitted_total", 1 },
    { "counters/port_rcv_constraint_errors",
      "node_infiniband_port_constraint_errors_received_total", 1 },
    { "counters/port_xmit_constraint_errors",
      "node_infiniband_port_constraint_errors_transmitted_total", 1 },
    { "counters/port_rcv_remote_physical_errors",
      "node_infiniband_port_receive_remote_physical_errors_total", 1 },
    { "counters/port_rcv_switch_relay_errors",
      "node_infiniband_port_receive_switch_relay_errors_total", 1 },
    { "counters/excessive_buffer_overrun_errors",
      "node_infiniband_excessive_buffer_overrun_errors_total", 1 },
    { "counters/local_link_integrity_errors", "node_infiniband_local_link_integrity_errors_total",
      1 },
    { "counters/VL15_dropped", "node_infiniband_vl15_dropped_total", 1 },
    { "counters/unicast_rcv_packets", "node_infiniband_unicast_packets_received_total", 1 },
    { "counters/unicast_xmit_packets", "node_infiniband_unicast_packets_transmitted_total", 1 },
    { "counters/multicast_rcv_packets", "node_infiniband_multicast_packets_received_total", 1 },
    { "counters/multicast_xmit_packets", "node_infiniband_multicast_packets_transmitted_total", 1 },
    { "hw_counters/duplicate_request", "node_infiniband_duplicate_requests_packets_total", 1 },
    { "hw_counters/implied_nak_seq_err", "node_infiniband_implied_nak_seq_errors_total", 1 },
    { "hw_counters/local_ack_timeout_err", "node_infiniband_local_ack_timeout_errors_total", 1 },
    { "hw_counters/out_of_buffer", "node_infiniband_out_of_buffer_drops_total", 1 },
    { "hw_counters/out_of_sequence", "node_infiniband_out_of_sequence_packets_received_total", 1 },
    { "hw_counters/packet_seq_err", "node_infiniband_packet_sequence_errors_total", 1 },
    { "hw_counters/rnr_nak_retry_err", "node_infiniband_rnr_nak_retry_packets_received_total", 1 },
    { "hw_counters/rx_icrc_encapsulated", "node_infiniband_rx_icrc_encapsulated_errors_total", 1 },
    { "hw_counters/np_cnp_sent", "node_infiniband_np_cnp_packets_sent_total", 1 },
    { "hw_counters/np_ecn_marked_roce_packets",
      "node_infiniband_np_ecn_marked_roce_packets_received_total", 1 },
    { "hw_counters/rp_cnp_handled", "node_infiniband_rp_cnp_packets_handled_total", 1 },
    { "hw_counters/rp_cnp_ignored", "node_infiniband_rp_cnp_ignored_packets_received_total", 1 },
    { "hw_counters/roce_adp_retrans", "node_infiniband_roce_adp_retransmits_total", 1 },
    { "hw_counters/roce_adp_retrans_to", "node_infiniband_roce_adp_retransmits_timeout_total", 1 },
    { "hw_counters/roce_slow_restart", "node_infiniband_roce_slow_restart_used_total", 1 },
    { "hw_counters/roce_slow_restart_cnps", "node_infiniband_roce_slow_restart_cnps_total", 1 },
    { "hw_counters/roce_slow_restart_trans", "node_infiniband_roce_slow_restart_total", 1 },
};

struct rdma_port {
    char device[COLLECT_NAME_MAX], number[8];
    char path[RDMA_PATH_MAX];
    bool live, fresh; /* fresh: nothing was read since it appeared */
    struct cfile state, fast[RDMA_FAST];
    bool off[ARRAY_SIZE(counters)]; /* failed or unknown to this device: not asked again */
    double values[ARRAY_SIZE(counters)], phys, rate;
    uint32_t ids[ARRAY_SIZE(counters)], state_id, phys_id, rate_id, info_id;
};

struct rdma {
    const struct root *root; /* borrowed */
    unsigned source, turn;
    int64_t scan_ns;
    struct rdma_port ports[RDMA_PORTS_MAX];
    size_t count;
    struct arena arena; /* of one look into the folders */
};

static void *rdma_open(const struct root *root, struct telemetry *t)
{
    struct rdma *r = xcalloc(1, sizeof(*r));

    r->root = root;
    r->source = telemetry_source(t, collect_rdma.name);
    r->scan_ns = INT64_MIN;
    return r;
}

static void port_close(struct rdma_port *p)
{
    cfile_close(&p->state);
    for (size_t i = 0; i < RDMA_FAST; i++)
        cfile_close(&p->fast[i]);
    p->live = false;
}

static void rdma_close(void *state)
{
    struct rdma *r = state;

    if (!r)
        return;
    for (size_t i = 0; i < r->count; i++)
        port_close(&r->ports[i]);
    arena_release(&r->arena);
    free(r);
}

static void port_files_open(const struct rdma *r, struct rdma_port *p)
{
    char path[ROOT_PATH_MAX];

    snprintf(path, sizeof(path), "%s/state", p->path);
    cfile_open(&p->state, r->root, path);
    for (size_t i = 0; i < RDMA_FAST; i++) {
        snprintf(path, sizeof(path), "%s/%s", p->path, counters[i].file);
        cfile_open(&p->fast[i], r->root, path);
    }
    memset(p->off, 0, sizeof(p->off));
    for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
        p->values[i] = (double)NAN;
    p->phys = p->rate = (double)NAN;
    p->live = p->state.fd >= 0;
    p->fresh = true;
}

static void word_of(const struct rdma *r, const char *device, const char *file, char *out,
                    size_t cap)
{
    char path[ROOT_PATH_MAX];

    snprintf(path, sizeof(path), "/sys/class/infiniband/%.*s/%s", COLLECT_NAME_MAX, device, file);
    if (collect_read(r->root, path, out, cap) < 0)
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

/* Of the device: its ports ask for the same series. */
static uint32_t info_id(const struct rdma *r, struct telemetry *t, const char *device)
{
    char board[RDMA_TEXT_MAX], firmware[RDMA_TEXT_MAX], type[RDMA_TEXT_MAX];
    struct telemetry_label l[] = { { "device", device },
                                   { "board_id", board },
                                   { "firmware_version", firmware },
                                   { "hca_type", type } };

    word_of(r, device, "board_id", board, sizeof(board));
    word_of(r, device, "fw_ver", firmware, sizeof(firmware));
    word_of(r, device, "hca_type", type, sizeof(type));
    return collect_id(t, r->source, "node_infiniband_info", l, ARRAY_SIZE(l));
}

static void port_add(struct rdma *r, struct telemetry *t, const char *device, const char *number)
{
    struct rdma_port *p;
    struct telemetry_label l[] = { { "device", device }, { "port", number } };

    for (size_t i = 0; i < r->count; i++)
        if (str_eq(r->ports[i].device, device) && str_eq(r->ports[i].number, number)) {
            if (!r->ports[i].live)
                port_files_open(r, &r->ports[i]);
            return;
        }
    if (r->count == RDMA_PORTS_MAX)
        return;
    p = &r->ports[r->count];
    *p = (struct rdma_port){ 0 };
    if (!str_copy(p->device, sizeof(p->device), device) ||
        !str_copy(p->number, sizeof(p->number), number) ||
        snprintf(p->path, sizeof(p->path), "/sys/class/infiniband/%s/ports/%s", device, number) >=
            (int)sizeof(p->path))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
        p->ids[i] = collect_id(t, r->source, counters[i].prom, l, 2);
    p->state_id = collect_id(t, r->source, "node_infiniband_state_id", l, 2);
    p->phys_id = collect_id(t, r->source, "node_infiniband_physical_state_id", l, 2);
    p->rate_id = collect_id(t, r->source, "node_infiniband_rate_bytes_per_second", l, 2);
    p->info_id = info_id(r, t, device);
    port_files_open(r, p);
    r->count++;
}

static void scan_ports(struct rdma *r, struct telemetry *t)
{
    struct root_names devices, ports;
    char path[ROOT_PATH_MAX];
    uint64_t n;

    if (collect_list(r->root, &r->arena, "/sys/class/infiniband", &devices))
        return;
    for (size_t i = 0; i < devices.count; i++) {
        const char *d = devices.items[i];

        if (!str_is_text(d, strlen(d)) ||
            snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports", d) >=
                (int)sizeof(path) ||
            collect_list(r->root, &r->arena, path, &ports))
            continue;
        for (size_t k = 0; k < ports.count; k++)
            if (str_to_u64(ports.items[k], 10, &n))
                port_add(r, t, d, ports.items[k]);
    }
    arena_release(&r->arena);
    r->arena = (struct arena){ 0 };
}

/* The whole folder is given up after a failure that is not "no such counter". */
static void give_up(struct rdma_port *p, size_t at, int error)
{
    bool folder = error != ENOENT && error != ENODEV && str_starts(counters[at].file, "counters/");

    p->values[at] = (double)NAN;
    p->off[at] = true;
    if (!folder)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
        if (str_starts(counters[i].file, "counters/")) {
            p->off[i] = true;
            p->values[i] = (double)NAN;
        }
}

/* What reading a counter gave: bytes, or a negative errno. */
static void counter_take(struct rdma_port *p, size_t i, ssize_t n, const char *text)
{
    uint64_t v;

    if (n < 0)
        give_up(p, i, (int)-n);
    else if (scan_u64(&text, &v))
        p->values[i] = (double)v * counters[i].scale;
    else /* "N/A (no PMA)" */
        give_up(p, i, ENOENT);
}

static void counters_read(const struct rdma *r, struct rdma_port *p, bool slow)
{
    char path[ROOT_PATH_MAX], text[RDMA_TEXT_MAX];

    for (size_t i = 0; i < RDMA_FAST; i++)
        if (!p->off[i])
            counter_take(p, i, cfile_read(&p->fast[i], text, sizeof(text)), text);
    for (size_t i = RDMA_FAST; slow && i < ARRAY_SIZE(counters); i++)
        if (!p->off[i]) {
            snprintf(path, sizeof(path), "%s/%s", p->path, counters[i].file);
            counter_take(p, i, collect_read(r->root, path, text, sizeof(text)), text);
        }
}

/* "4: ACTIVE" */
static double number_of(const struct rdma *r, const struct rdma_port *p, const char *file)
{
    char path[ROOT_PATH_MAX], text[RDMA_TEXT_MAX];
    const char *s = text;
    uint64_t v;

    snprintf(path, sizeof(path), "%s/%s", p->path, file);
    if (collect_read(r->root, path, text, sizeof(text)) <= 0 || !scan_u64(&s, &v))
        return (double)NAN;
    return (double)v;
}

/* "400 Gb/sec (4X NDR)": bytes a second. */
static double rate_of(const struct rdma *r, const struct rdma_port *p)
{
    char path[ROOT_PATH_MAX], text[RDMA_TEXT_MAX];
    const char *s = text;
    double gbps;

    snprintf(path, sizeof(path), "%s/rate", p->path);
    if (collect_read(r->root, path, text, sizeof(text)) <= 0 || !scan_f64(&s, &gbps) ||
        !str_starts(s, " Gb/sec"))
        return (double)NAN;
    return gbps * 1e9 / 8;
}

static void port_sample(const struct rdma *r, struct telemetry *t, struct rdma_port *p)
{
    char text[RDMA_TEXT_MAX];
    const char *s = text;
    bool slow = p->fresh || r->turn % RDMA_SLOW_TURNS == 0;
    ssize_t n = cfile_read(&p->state, text, sizeof(text));
    uint64_t v;

    if (n < 0) {
        port_close(p);
        return;
    }
    if (scan_u64(&s, &v))
        telemetry_set(t, p->state_id, (double)v);
    counters_read(r, p, slow);
    if (slow) {
        p->phys = number_of(r, p, "phys_state");
        p->rate = rate_of(r, p);
        p->fresh = false;
    }
    for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
        telemetry_set(t, p->ids[i], p->values[i]);
    telemetry_set(t, p->phys_id, p->phys);
    telemetry_set(t, p->rate_id, p->rate);
    telemetry_set(t, p->info_id, 1);
}

static void rdma_sample(void *state, struct telemetry *t, int64_t now_ns)
{
    struct rdma *r = state;

    if (r->scan_ns == INT64_MIN || now_ns < r->scan_ns ||
        now_ns - r->scan_ns >= COLLECT_RESCAN_MS * INT64_C(1000000)) {
        scan_ports(r, t);
        r->scan_ns = now_ns;
    }
    telemetry_begin(t, r->source, now_ns);
    for (size_t i = 0; i < r->count; i++)
        if (r->ports[i].live)
            port_sample(r, t, &r->ports[i]);
    telemetry_end(t);
    r->turn++;
}

const struct collector collect_rdma = {
    .name = "rdma", .period_ms = 1000, .open = rdma_open, .sample = rdma_sample, .close = rdma_close
};
