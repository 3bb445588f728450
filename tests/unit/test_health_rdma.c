/* SPDX-License-Identifier: MIT */
/* The RDMA checks. */
#include "test_health_fixture.h"

TWEAK(none, f->hw.rdma_count = 0)
TWEAK(no_uverbs, f->hw.limits.uverbs = maybe_of(0))
TWEAK(one_uverbs, f->hw.limits.uverbs = maybe_of(1))

/* A pod that was given the second NIC: the first one is in sysfs, and no business of it. */
static void half_pod(struct fx *f)
{
    fx_pod(f);
    fx_roce(f);
    f->nets[0] = f->nets[1];
    f->hw.nets_count = 1;
    f->gids[0].ndev = NULL;
    f->rdma[0].netdevs_count = 0;
    f->rdma[0].firmware = "28.37.1014";
}

/* A pod without the RDMA resource: sysfs shows the host's devices, and none can be opened. */
static void bare_pod(struct fx *f)
{
    fx_pod(f);
    no_uverbs(f);
    for (size_t i = 0; i < FX_NICS; i++)
        f->rdma[i].openable = maybe_of(0);
}

TWEAK(one_uverbs_pod, fx_pod(f); one_uverbs(f))
TWEAK(uverbs_unknown, f->hw.limits.uverbs = maybe_none())
TWEAK(no_verbs, fx_drop_soft(f, "rdma-core"))

static void efa(struct fx *f)
{
    f->hw.place.product = "p4d.24xlarge";
    f->hw.place.hypervisor = "kvm";
    for (size_t i = 0; i < FX_NICS; i++) {
        f->rdma[i].driver = "efa";
        f->ports[i].link_layer = "Unspecified";
    }
}

TWEAK(efa_all, efa(f); f->hw.place.product = "g6.12xlarge"; fx_soft(f, "nccl-net-plugin", NULL))

/* Where AWS's installer puts it: no file of a name that is looked for among the software. */
TWEAK(efa_installed, efa(f); f->hw.place.product = "g6.12xlarge";
      f->hw.nccl.net_plugin = "/opt/amazon/ofi-nccl/lib/libnccl-net.so")
TWEAK(efa_bare, efa(f); f->hw.place.product = NULL)
TWEAK(down, f->ports[1].state = "DOWN"; f->ports[1].phys_state = "Disabled")

static void second_port(struct fx *f)
{
    f->rdma[0].ports_count = 2; /* ports[1] is its neighbour in the array */
    f->ports[1].port = maybe_of(2);
    down(f);
}

TWEAK(init, f->ports[1].state = "INIT")
TWEAK(polling, f->ports[1].phys_state = "LinkErrorRecovery")
TWEAK(state_unknown, f->ports[1].state = NULL)
TWEAK(slow, f->ports[1].rate_mbps = maybe_of(100000))
TWEAK(rate_unknown, f->ports[1].rate_mbps = maybe_none())
TWEAK(alone, f->hw.rdma_count = 1)
TWEAK(alone_slow, alone(f); f->ports[0].rate_mbps = maybe_of(200000))
TWEAK(layers, f->ports[1].link_layer = "Ethernet")
TWEAK(layers_chosen, layers(f); fx_env(f, "NCCL_IB_HCA", "=mlx5_0"))
TWEAK(no_sm, f->ports[1].sm_lid = maybe_of(0))
TWEAK(no_lid, f->ports[1].lid = maybe_of(0))
TWEAK(lid_unknown, f->ports[1].lid = maybe_none())
TWEAK(no_gid, f->ports[1].gids_count = 0)
TWEAK(roce_v1, fx_roce(f); f->gids[1].type = "IB/RoCE v1")
TWEAK(roce_local, fx_roce(f); f->gids[1].gid = "fe80:0000:0000:0000:0000:0000:0000:0001")
TWEAK(roce_no_ndev, fx_roce(f); f->gids[1].ndev = NULL)
TWEAK(roce_no_ndev_pod, fx_pod(f); roce_no_ndev(f))
TWEAK(roce_no_gid, fx_roce(f); f->ports[1].gids_count = 0)
TWEAK(mtu, fx_roce(f); f->nets[1].mtu = maybe_of(1500))
TWEAK(mtu_4191, fx_roce(f); f->nets[1].mtu = maybe_of(4191))
TWEAK(mtu_4192, fx_roce(f); f->nets[1].mtu = maybe_of(4192))

/* The other NIC is InfiniBand, and this one leads the host to everything else. */
static void mtu_spared(struct fx *f)
{
    mtu(f);
    f->ports[0].link_layer = "InfiniBand";
    f->ports[1].rate_mbps = maybe_of(50000);
    f->nets[1].default_route = maybe_of(1);
}

TWEAK(mtu_unknown, fx_roce(f); f->nets[1].mtu = maybe_none())
TWEAK(mtu_elsewhere, fx_roce(f); f->hw.nets_count = 0)
TWEAK(fw_other, f->rdma[1].firmware = "28.38.1002")
TWEAK(fw_bad, f->rdma[0].firmware = f->rdma[1].firmware = "28.37.1014")
TWEAK(fw_unknown, f->rdma[1].firmware = NULL)
TWEAK(fw_models, fw_other(f); f->rdma[1].board = "MT_0000000950")
TWEAK(memlock, f->hw.limits.memlock_bytes = f->hw.limits.memlock_hard_bytes = maybe_of(8 << 20))
TWEAK(memlock_pod, fx_pod(f); memlock(f))
TWEAK(memlock_unknown, f->hw.limits.memlock_bytes = maybe_none())
TWEAK(no_peermem, f->hw.limits.peermem = NULL; f->hw.limits.dmabuf_why = "kernel 6.8")
TWEAK(no_gdr, no_peermem(f); f->hw.limits.dmabuf = maybe_of(0);
      f->hw.limits.dmabuf_why = "kernel 5.4 is older than 5.12")
TWEAK(gdr_env, no_peermem(f); fx_env(f, "NCCL_DMABUF_ENABLE", "0"))
TWEAK(gdr_unknown, no_peermem(f); f->hw.limits.dmabuf = maybe_none())
TWEAK(no_gpu, f->hw.gpus_count = 0)

/* The bridge above all, which there is nothing to redirect below. */
TWEAK(acs, f->pci[FX_GPUS + FX_NICS].acs = maybe_of(1); f->hw.limits.acs_bridges = maybe_of(1))

/* A port of a switch, which the second NIC's function stands for. */
TWEAK(acs_switch, f->pci[FX_GPUS + 1].acs = maybe_of(1); f->pci[0].parent = f->pci[FX_GPUS + 1].bdf;
      f->hw.limits.acs_bridges = maybe_of(1))
TWEAK(acs_lent, acs_switch(f); f->pci[FX_GPUS + 1].driver = "vfio-pci")
TWEAK(acs_elsewhere, f->hw.limits.acs_bridges = maybe_of(3))
TWEAK(acs_unknown, f->hw.limits.acs_bridges = maybe_none())
TWEAK(in_vm, f->hw.place.hypervisor = "kvm")
TWEAK(nic_narrow, f->pci[FX_GPUS + 1].link_width = maybe_of(8))
TWEAK(nic_slow, f->pci[FX_GPUS + 1].link_speed = "16.0 GT/s PCIe")
TWEAK(nic_unknown, f->pci[FX_GPUS + 1].link_speed = NULL)
TWEAK(far, f->distances[0].path = "SYS")

/* NVLink leads to a neighbour that stands at the NIC, unless that is switched off. */
TWEAK(far_alone, far(f); fx_env(f, "NCCL_PXN_DISABLE", "1"))
TWEAK(half_pod_alone, half_pod(f); fx_env(f, "NCCL_PXN_DISABLE", "1"))
TWEAK(root_port_allowed, f->distances[0].path = "PHB"; fx_env(f, "NCCL_PXN_DISABLE", "1");
      fx_env(f, "NCCL_NET_GDR_LEVEL", "PHB"))
TWEAK(root_port, fx_env(f, "NCCL_PXN_DISABLE", "1"); f->distances[0].path = "PHB")
TWEAK(far_unknown, f->distances[0].path = f->distances[1].path = NULL)
TWEAK(all_down, f->ports[0].state = f->ports[1].state = "DOWN")
TWEAK(vfs, f->rdma[0].vf = f->rdma[1].vf = maybe_of(1); f->rdma[0].physfn = "0000:1c:00.0";
      f->rdma[1].physfn = "0000:9c:00.0")
TWEAK(vfs_twin, vfs(f); f->rdma[1].physfn = "0000:1c:00.0")
TWEAK(vfs_kept, f->rdma[1].vf = maybe_of(1); f->rdma[1].physfn = f->rdma[0].bdf)
TWEAK(vf_orphan, vfs(f); f->rdma[1].physfn = NULL)
TWEAK(balancing, f->hw.limits.numa_balancing = maybe_of(1))
TWEAK(one_node, balancing(f); f->hw.numa_count = 1)
TWEAK(family_six, fx_env(f, "NCCL_SOCKET_FAMILY", "AF_INET6"))

static const struct fx_row rows[] = {
    { "rdma.devices", NULL, CHECK_PASS, "mlx5_0-1: 2 devices" },
    { "rdma.devices", half_pod, CHECK_PASS, "mlx5_1: 1 device; 1 more of the host" },
    { "rdma.devices", none, CHECK_FAIL, "/sys/class/infiniband" },
    { "rdma.start", NULL, CHECK_PASS, "neither a variable nor a file" },
    { "rdma.start", family_six, CHECK_FAIL, "NCCL_SOCKET_FAMILY=AF_INET6 leaves no interface" },
    { "rdma.uverbs", NULL, CHECK_PASS, "2 nodes" },
    { "rdma.uverbs", no_uverbs, CHECK_FAIL, "no uverbs node" },
    { "rdma.uverbs", one_uverbs, CHECK_WARN, "1 nodes in /dev/infiniband for 2 devices" },
    { "rdma.uverbs", one_uverbs_pod, CHECK_PASS, "sysfs shows 2 devices of the host" },
    { "rdma.uverbs", uverbs_unknown, CHECK_UNKNOWN, "could not be read" },
    { "rdma.uverbs", none, CHECK_SKIP, "no RDMA device here" },
    { "rdma.verbs", NULL, CHECK_PASS, "rdma-core 50.0" },
    { "rdma.verbs", no_verbs, CHECK_WARN, "libibverbs" },
    { "rdma.efa", NULL, CHECK_SKIP, "no AWS EFA" },
    { "rdma.efa", efa, CHECK_FAIL, "2 EFA devices, a p4d.24xlarge has 4" },
    { "rdma.efa", efa_all, CHECK_PASS, "2 EFA devices" },
    { "rdma.efa", efa_installed, CHECK_PASS, "2 EFA devices" },
    { "rdma.efa", efa_bare, CHECK_WARN, "no libnccl-net.so" },
    { "rdma.port", NULL, CHECK_PASS, "mlx5_0-1/1: ACTIVE, LinkUp" },
    { "rdma.port", down, CHECK_FAIL, "mlx5_1/1: DOWN, Disabled" },
    { "rdma.port", second_port, CHECK_WARN, "mlx5_0/2: DOWN, Disabled, while another port" },
    { "rdma.port", init, CHECK_FAIL, "no subnet manager has configured it" },
    { "rdma.port", polling, CHECK_WARN, "ACTIVE, but LinkErrorRecovery" },
    { "rdma.port", state_unknown, CHECK_UNKNOWN, "mlx5_1/1" },
    { "rdma.port", none, CHECK_SKIP, "no RDMA device here" },
    { "rdma.rate", NULL, CHECK_PASS, "400 Gb/s, the most of its kind" },
    { "rdma.rate", slow, CHECK_WARN, "mlx5_1/1: 100 Gb/s, other ports of this kind run at 400" },
    { "rdma.rate", rate_unknown, CHECK_UNKNOWN, "could not be read" },
    { "rdma.rate", alone, CHECK_PASS, "the most this chip does" },
    { "rdma.rate", alone_slow, CHECK_UNKNOWN, "no second port" },
    { "rdma.rate", down, CHECK_SKIP, "not active" },
    { "rdma.link-layer", NULL, CHECK_PASS, "InfiniBand" },
    { "rdma.link-layer", fx_roce, CHECK_PASS, "RoCE" },
    { "rdma.link-layer", layers, CHECK_WARN, "1 active ports are InfiniBand, 1 Ethernet" },
    { "rdma.link-layer", layers_chosen, CHECK_PASS, "NCCL_IB_HCA chooses" },
    { "rdma.link-layer", efa, CHECK_SKIP, "EFA" },
    { "rdma.subnet-manager", NULL, CHECK_PASS, "LID" },
    { "rdma.subnet-manager", no_sm, CHECK_FAIL, "sm_lid 0" },
    { "rdma.subnet-manager", no_lid, CHECK_FAIL, "gave the port no LID" },
    { "rdma.subnet-manager", down, CHECK_SKIP, "the port is down" },
    { "rdma.subnet-manager", lid_unknown, CHECK_UNKNOWN, "could not be read" },
    { "rdma.subnet-manager", fx_roce, CHECK_SKIP, "not an InfiniBand port" },
    { "rdma.gid", NULL, CHECK_PASS, "InfiniBand GID set" },
    { "rdma.gid", no_gid, CHECK_FAIL, "no GID" },
    { "rdma.gid", fx_roce, CHECK_PASS, "RoCE v2 GID at index 3" },
    { "rdma.gid", half_pod, CHECK_PASS, "mlx5_1/1: RoCE v2 GID at index 3" },
    { "rdma.gid", roce_v1, CHECK_FAIL, "no RoCE v2 GID" },
    { "rdma.gid", roce_local, CHECK_WARN, "only link-local" },
    { "rdma.gid", roce_no_ndev, CHECK_FAIL, "without a network device" },
    { "rdma.gid", roce_no_ndev_pod, CHECK_FAIL, "none with a network device here" },
    { "rdma.gid", roce_no_gid, CHECK_FAIL, "no GID at all" },
    { "rdma.gid", efa, CHECK_SKIP, "EFA" },
    { "rdma.mtu", fx_roce, CHECK_PASS, "MTU 9000" },
    { "rdma.mtu", mtu, CHECK_WARN, "mlx5_1/1: MTU 1500: packets of RoCE carry 1024 bytes" },
    { "rdma.mtu", mtu_4191, CHECK_WARN, "mlx5_1/1: MTU 4191: packets of RoCE carry 2048 bytes" },
    { "rdma.mtu", mtu_4192, CHECK_PASS, "mlx5_1/1: MTU 4192" },
    { "rdma.mtu", mtu_spared, CHECK_SKIP, "mlx5_1/1: not a port for training" },
    { "rdma.mtu", mtu_unknown, CHECK_UNKNOWN, "net2" },
    { "rdma.mtu", mtu_elsewhere, CHECK_UNKNOWN, "no network device" },
    { "rdma.mtu", NULL, CHECK_SKIP, "not a RoCE port" },
    { "rdma.firmware", NULL, CHECK_PASS, "mlx5_0-1: firmware 28.39.1002" },
    { "rdma.firmware", half_pod, CHECK_PASS, "mlx5_1: firmware 28.39.1002" },
    { "rdma.firmware", fw_other, CHECK_WARN, "28.38.1002, mlx5_0 of the same model has 28.39" },
    { "rdma.firmware", fw_bad, CHECK_WARN, "can bring a 400 Gb/s port up at 100" },
    { "rdma.firmware", fw_models, CHECK_PASS, "mlx5_1: firmware 28.38.1002" },
    { "rdma.firmware", fw_unknown, CHECK_UNKNOWN, "mlx5_1" },
    { "rdma.memlock", NULL, CHECK_PASS, "unlimited" },
    { "rdma.memlock", memlock, CHECK_FAIL, "soft limit 8MiB, hard limit 8MiB" },
    { "rdma.memlock", memlock_pod, CHECK_FAIL, "8MiB" },
    { "rdma.memlock", memlock_unknown, CHECK_UNKNOWN, "could not be read" },
    { "rdma.memlock", none, CHECK_SKIP, "no RDMA device here" },
    { "rdma.gpudirect", NULL, CHECK_PASS, "nvidia_peermem" },
    { "rdma.gpudirect", no_peermem, CHECK_PASS, "dma-buf: kernel 6.8" },
    { "rdma.gpudirect", no_gdr, CHECK_FAIL, "no dma-buf: kernel 5.4" },
    { "rdma.gpudirect", gdr_env, CHECK_FAIL, "NCCL_DMABUF_ENABLE=0" },
    { "rdma.gpudirect", gdr_unknown, CHECK_UNKNOWN, "could not be judged" },
    { "rdma.gpudirect", no_gpu, CHECK_SKIP, "no GPU here" },
    { "rdma.acs", NULL, CHECK_PASS, "off at every bridge" },
    { "rdma.acs", acs, CHECK_PASS, "on at 1 bridge, none of them a switch's between" },
    { "rdma.acs", acs_switch, CHECK_WARN, "on at 1 switch port between GPUs and NICs" },
    { "rdma.acs", acs_lent, CHECK_WARN, "on at 1 switch port between GPUs and NICs" },
    { "rdma.acs", acs_elsewhere, CHECK_PASS, "off at every bridge above" },
    { "rdma.acs", acs_unknown, CHECK_UNKNOWN, "could not be read" },
    { "rdma.acs", in_vm, CHECK_SKIP, "virtual machine" },
    { "rdma.pcie", NULL, CHECK_PASS, "PCIe x16 at 32.0 GT/s PCIe" },
    { "rdma.pcie", nic_narrow, CHECK_FAIL, "mlx5_1: PCIe x8 at 32.0 GT/s PCIe, it can do x16" },
    { "rdma.pcie", nic_slow, CHECK_FAIL, "16.0 GT/s" },
    { "rdma.pcie", nic_unknown, CHECK_UNKNOWN, "mlx5_1" },
    { "rdma.pcie", vfs, CHECK_PASS, "x16" },
    { "rdma.pcie", vf_orphan, CHECK_UNKNOWN, "mlx5_1" },
    { "rdma.distance", NULL, CHECK_PASS, "GPU 0-1: a NIC behind the same PCIe switch" },
    { "rdma.distance", half_pod, CHECK_PASS, "GPU 0: a NIC at the PCIe switch of a GPU" },
    { "rdma.distance", half_pod_alone, CHECK_WARN,
      "GPU 0: its nearest NIC is across sockets (mlx5_1" },
    { "rdma.distance", far, CHECK_PASS, "GPU 0: a NIC at the PCIe switch of a GPU" },
    { "rdma.distance", far_alone, CHECK_WARN, "GPU 0: its nearest NIC is across sockets" },
    { "rdma.distance", root_port_allowed, CHECK_PASS, "as NCCL_NET_GDR_LEVEL allows" },
    { "rdma.distance", root_port, CHECK_WARN, "another root port (mlx5_0, PHB)" },
    { "rdma.distance", far_unknown, CHECK_UNKNOWN, "GPU 0" },
    { "rdma.distance", efa, CHECK_SKIP, "EFA" },
    { "rdma.distance", all_down, CHECK_SKIP, "no active RDMA port" },
    { "rdma.vf", NULL, CHECK_SKIP, "no virtual function" },
    { "rdma.vf", vfs, CHECK_PASS, "port of its own" },
    { "rdma.vf", vfs_twin, CHECK_WARN, "shares the port 0000:1c:00.0 with mlx5_1" },
    { "rdma.vf", vfs_kept, CHECK_SKIP, "1 virtual function of this host's own ports" },
    { "rdma.vf", vf_orphan, CHECK_UNKNOWN, "mlx5_1" },
    { "rdma.numa-balancing", NULL, CHECK_PASS, "off" },
    { "rdma.numa-balancing", balancing, CHECK_WARN, "on" },
    { "rdma.numa-balancing", one_node, CHECK_SKIP, "one NUMA node" },
};

TEST(rdma)
{
    fx_run(rows, ARRAY_SIZE(rows), CHECK_RDMA);
    fx_cover(&checks_rdma, rows, ARRAY_SIZE(rows), NULL);
}

/* Every check has an answer, and none is about a device of somebody else. */
TEST(a_pod_without_the_rdma_resource)
{
    static const char none[] = "the RDMA devices that sysfs shows are the host's";
    static const struct fx_row some[] = {
        { "rdma.devices", bare_pod, CHECK_SKIP, none },
        { "rdma.uverbs", bare_pod, CHECK_FAIL, "no uverbs node in /dev/infiniband" },
        { "rdma.port", bare_pod, CHECK_SKIP, none },
        { "rdma.firmware", bare_pod, CHECK_SKIP, none },
        { "rdma.pcie", bare_pod, CHECK_SKIP, none },
        { "rdma.vf", bare_pod, CHECK_SKIP, none },
    };

    fx_run(some, ARRAY_SIZE(some), CHECK_RDMA);
    fx_run(some, ARRAY_SIZE(some), CHECK_ALL);
}

/* No RDMA is a fault only for who asked for it. */
TEST(a_machine_without_rdma)
{
    static const struct fx_row all[] = {
        { "rdma.devices", none, CHECK_SKIP, "no RDMA device here" },
    };

    fx_run(all, ARRAY_SIZE(all), CHECK_ALL);
}

/* The remedy for locked memory depends on who set the limit. */
TEST(memlock_remedies)
{
    static const struct {
        const char *container, *slurm, *want;
    } cases[] = {
        { NULL, NULL, "limits.d" },
        { "docker", NULL, "--ulimit memlock=-1" },
        { "crio", NULL, "CRI-O ignores" },
        { NULL, "42", "slurm.conf" },
    };
    static struct fx f;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTO(health_list_release) struct health_list l = { 0 };
        const struct check_result *r;

        fx_good(&f);
        memlock(&f);
        f.hw.place.container = cases[i].container;
        f.hw.place.slurm_job = cases[i].slurm;
        health_check(&f.hw, CHECK_RDMA, NULL, &l);
        r = fx_find(&l, "rdma.memlock", CHECK_FAIL, "soft");
        assert_non_null(r);
        assert_non_null(strstr(r->remedy, cases[i].want));
    }
}

TEST_MAIN(cmocka_unit_test(rdma), cmocka_unit_test(a_pod_without_the_rdma_resource),
          cmocka_unit_test(a_machine_without_rdma), cmocka_unit_test(memlock_remedies))
