/* SPDX-License-Identifier: MIT */
/* Network interfaces and RDMA ports on a captured machine; ports that may not be read. */
#include "host.h"

static void sample(const struct collector *c, struct host *h, int64_t now_ns)
{
    void *s = c->open(h->root, h->t);

    c->sample(s, h->t, now_ns);
    c->close(s);
}

TEST(net_values)
{
    AUTO(host_close) struct host h;

    host_open(&h, HOST_NODE);
    sample(&collect_net, &h, SECOND);
    NEAR(&h, "node_network_receive_bytes_total", "device=eth0", 7898017660.0);
    NEAR(&h, "node_network_receive_multicast_total", "device=eth0", 6);
    NEAR(&h, "node_network_transmit_colls_total", "device=eth0", 10);
    NEAR(&h, "node_network_transmit_compressed_total", "device=eth0", 12);
    NEAR(&h, "node_network_up", "device=eth0", 1);
    NEAR(&h, "node_network_up", "device=lo", 0); /* "unknown" is not up, as node_exporter has it */
    NEAR(&h, "node_network_carrier_changes_total", "device=eth0", 3);
    NEAR(&h, "node_network_speed_bytes", "device=eth0", 3125000000.0);
    UNKNOWN(&h, "node_network_speed_bytes", "device=bond0.100"); /* -1 */
    UNKNOWN(&h, "node_network_speed_bytes", "device=lo");
    UNKNOWN(&h, "node_network_carrier", "device=bond0.100");
    NEAR(&h, "node_network_mtu_bytes", "device=eth0", 9000);
    NEAR(&h, "node_network_receive_bytes_total", "device=bond0.100", 18446744073709551615.0);
    UNKNOWN(&h, "node_network_receive_bytes_total", "device=veth1a2b3c");
    UNKNOWN(&h, "node_network_receive_bytes_total", "device=cali0123");
    NEAR(&h, "node_netstat_Tcp_RetransSegs", "", 2332);
    NEAR(&h, "node_netstat_Tcp_CurrEstab", "", 17);
    NEAR(&h, "node_netstat_Udp_InErrors", "", 6);
    NEAR(&h, "node_netstat_TcpExt_ListenOverflows", "", 21);
    NEAR(&h, "node_sockstat_TCP_inuse", "", 42);
}

#define ETH "lo: 1 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0\n"

TEST(net_comes_and_goes)
{
    AUTO(host_close) struct host h;
    void *s;

    host_open(&h, NULL);
    host_put(&h, "/proc/net/dev", ETH "eth0: 5 0 0 0 0 0 0 0 6 0 0 0 0 0 0 0\n");
    host_put(&h, "/sys/class/net/eth0/operstate", "up\n");
    s = collect_net.open(h.root, h.t);
    collect_net.sample(s, h.t, SECOND);
    NEAR(&h, "node_network_up", "device=eth0", 1);
    host_put(&h, "/proc/net/dev", ETH);
    collect_net.sample(s, h.t, 2 * SECOND);
    UNKNOWN(&h, "node_network_up", "device=eth0");
    UNKNOWN(&h, "node_network_receive_bytes_total", "device=eth0");
    /* back under the old name, in another place, with counters that begin anew */
    host_put(&h, "/proc/net/dev", "eth0: 1 0 0 0 0 0 0 0 2 0 0 0 0 0 0 0\n" ETH);
    host_remove(&h, "/sys/class/net/eth0/operstate");
    host_put(&h, "/sys/class/net/eth0/operstate", "down\n");
    collect_net.sample(s, h.t, 3 * SECOND);
    NEAR(&h, "node_network_up", "device=eth0", 0);
    NEAR(&h, "node_network_receive_bytes_total", "device=eth0", 1);
    NEAR(&h, "node_network_receive_bytes_total", "device=lo", 1);
    collect_net.close(s);
}

TEST(rdma_values)
{
    AUTO(host_close) struct host h;

    host_open(&h, HOST_NODE);
    sample(&collect_rdma, &h, SECOND);
    NEAR(&h, "node_infiniband_port_data_received_bytes_total", "device=mlx5_0,port=1", 4000);
    NEAR(&h, "node_infiniband_port_data_transmitted_bytes_total", "device=mlx5_0,port=1", 8000);
    NEAR(&h, "node_infiniband_link_downed_total", "device=mlx5_0,port=1", 1);
    NEAR(&h, "node_infiniband_rnr_nak_retry_packets_received_total", "device=mlx5_0,port=1", 8);
    NEAR(&h, "node_infiniband_state_id", "device=mlx5_0,port=1", 4);
    NEAR(&h, "node_infiniband_physical_state_id", "device=mlx5_0,port=1", 5);
    NEAR(&h, "node_infiniband_rate_bytes_per_second", "device=mlx5_0,port=1", 50e9);
    NEAR(&h, "node_infiniband_info",
         "device=mlx5_0,board_id=MT_0000000838,firmware_version=28.39.1002,hca_type=MT4129", 1);
    /* a port without this counter */
    UNKNOWN(&h, "node_infiniband_port_transmit_wait_total", "device=mlx5_2,port=1");
    NEAR(&h, "node_infiniband_port_packets_received_total", "device=mlx5_2,port=1", 10);
    NEAR(&h, "node_infiniband_rate_bytes_per_second", "device=mlx5_2,port=1", 0.3125e9);
    /* a restricted one: its state and hw_counters are known, counters/ is not */
    NEAR(&h, "node_infiniband_state_id", "device=mlx5_1,port=1", 4);
    UNKNOWN(&h, "node_infiniband_port_data_received_bytes_total", "device=mlx5_1,port=1");
    UNKNOWN(&h, "node_infiniband_link_downed_total", "device=mlx5_1,port=1");
    NEAR(&h, "node_infiniband_out_of_sequence_packets_received_total", "device=mlx5_1,port=1", 6);
}

#define PORT "/sys/class/infiniband/mlx5_0/ports/1/"

TEST(rdma_does_not_ask_again)
{
    AUTO(host_close) struct host h;
    void *s;

    host_open(&h, NULL);
    host_put(&h, PORT "state", "4: ACTIVE\n");
    host_put(&h, PORT "counters/port_rcv_data", "7\n");
    host_put(&h, PORT "counters/port_xmit_data", "8\n");
    host_put(&h, PORT "counters/link_downed", "N/A (no PMA)\n");
    host_put(&h, PORT "counters/symbol_error", "1\n");
    s = collect_rdma.open(h.root, h.t);
    collect_rdma.sample(s, h.t, SECOND);
    NEAR(&h, "node_infiniband_port_data_received_bytes_total", "device=mlx5_0,port=1", 28);
    NEAR(&h, "node_infiniband_symbol_error_total", "device=mlx5_0,port=1", 1);
    /* what could not be read is not asked again, though it could be now */
    host_put(&h, PORT "counters/link_downed", "5\n");
    host_put(&h, PORT "counters/port_xmit_wait", "5\n");
    for (int i = 2; i < 14; i++)
        collect_rdma.sample(s, h.t, i * SECOND);
    UNKNOWN(&h, "node_infiniband_link_downed_total", "device=mlx5_0,port=1");
    UNKNOWN(&h, "node_infiniband_port_transmit_wait_total", "device=mlx5_0,port=1");
    /* a counter that was reset or wrapped is told as it is */
    host_put(&h, PORT "counters/port_rcv_data", "1\n");
    host_put(&h, PORT "counters/symbol_error", "2\n");
    collect_rdma.sample(s, h.t, 14 * SECOND);
    NEAR(&h, "node_infiniband_port_data_received_bytes_total", "device=mlx5_0,port=1", 4);
    for (int i = 15; i < 20; i++)
        collect_rdma.sample(s, h.t, i * SECOND);
    NEAR(&h, "node_infiniband_symbol_error_total", "device=mlx5_0,port=1", 2);
    collect_rdma.close(s);
}

TEST(rdma_port_appears)
{
    AUTO(host_close) struct host h;
    void *s;

    host_open(&h, NULL);
    s = collect_rdma.open(h.root, h.t);
    collect_rdma.sample(s, h.t, SECOND);
    CHECK(telemetry_count(h.t) == 0);
    host_put(&h, PORT "state", "1: DOWN\n");
    collect_rdma.sample(s, h.t, 2 * SECOND); /* not looked for yet */
    CHECK(telemetry_count(h.t) == 0);
    collect_rdma.sample(s, h.t, 40 * SECOND);
    NEAR(&h, "node_infiniband_state_id", "device=mlx5_0,port=1", 1);
    collect_rdma.close(s);
}

TEST_MAIN(cmocka_unit_test(net_values), cmocka_unit_test(net_comes_and_goes),
          cmocka_unit_test(rdma_values), cmocka_unit_test(rdma_does_not_ask_again),
          cmocka_unit_test(rdma_port_appears))
