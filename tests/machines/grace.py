# SPDX-License-Identifier: MIT
"""grace: hand-built machines whose GPUs hang on a Grace processor by NVLink-C2C.

Names of addresses, counts and node numbers follow the documents each function names;
serial numbers, GUIDs, UUIDs and IP addresses are made up.
"""
import gpus as G
from bare import nvidia
from machine import Machine
from sysfs import V1, Cpu, cpulist, link_local, loopback, net, nvme, pools, rdma, routes

ARM_FLAGS = ("fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc dcpop "
             "sha3 sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs sb dcpodp sve2 sveaes svepmull "
             "svebitperm svesha3 svesm4 flagm2 frint svei8mm svebf16 i8mm bf16 dgh bti")
LIB = "/usr/lib/aarch64-linux-gnu"
MIB = 1 << 20


class Grace(Cpu):
    """Neoverse V2: 64K/64K/1M a core, 114 MiB of L3 a socket, one thread a core."""

    def __init__(self, sockets):
        caches = [(1, "Data", "64K"), (1, "Instruction", "64K"), (2, "Unified", "1024K"), (3, "Unified", "116736K")]
        super().__init__("", "", sockets, 72, 1, sockets, caches, 72, 3447, ARM_FLAGS)

    def _info(self, cpu):
        rows = [("processor", cpu), ("BogoMIPS", "2000.00"), ("Features", self.flags), ("CPU implementer", "0x41"),
                ("CPU architecture", 8), ("CPU variant", "0x0"), ("CPU part", "0xd4f"), ("CPU revision", 0)]
        return "".join("%s\t: %s\n" % row for row in rows)


GH200 = dict(
    G.H100_SXM, name="NVIDIA GH200 480GB", pci="10de:2342", sub="10de:1809", board_part="900-2G530-0000-000",
    vbios="96.00.84.00.02", inforom="G530.0206.00.05", mem_mib=97871, reserved_mib=551, bus=6144,
    bar1_mib=131072, gen=5, power_w=(100, 900, 900), draw_mw=82430, temp_c=33, margin_c=53)
GB200 = dict(
    G.H100_SXM, name="NVIDIA GB200", arch="Blackwell", pci="10de:2941", sub="10de:2046",
    board_part="699-2G548-0200-501", vbios="97.00.88.00.0F", inforom="G548.0201.00.06", compute=(10, 0), cores=18944,
    mem_mib=189471, reserved_mib=606, bus=8192, bar1_mib=262144, sm_mhz=(120, 2062), mem_mhz=(3996, 3996),
    power_w=(200, 1200, 1200), draw_mw=169400, temp_c=35, limits_c=(90, 95, 85), link_mbps=53125, link_version=5)


def nodes(m, total_kb, gpu_nodes, distances):
    """Nodes with processors share the memory; gpu_nodes: (node, KiB) without processors."""
    t, cpu, n = m.tree, m.cpu, m.cpu.node_count
    total = n + len(gpu_nodes)
    hbm = sum(kb for _, kb in gpu_nodes)
    avail = total_kb * 97 // 100
    t.file("/proc/meminfo", "".join("%-15s %10d kB\n" % (k + ":", v) for k, v in [
        ("MemTotal", total_kb + hbm), ("MemFree", avail), ("MemAvailable", avail), ("SwapTotal", 0), ("SwapFree", 0)]) +
        "HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n")
    t.file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
    pools(t, "/sys/kernel/mm/hugepages", 0, 0)
    base = "/sys/devices/system/node"
    t.files(base, online=cpulist(range(total)), possible=cpulist(range(total)), has_cpu=cpulist(range(n)),
            has_memory=cpulist(list(range(n)) + [i for i, kb in gpu_nodes if kb]))
    for i in range(total):
        kb = total_kb // n if i < n else dict(gpu_nodes)[i]
        t.files("%s/node%d" % (base, i), cpulist=cpu.node_list(i) if i < n else "",
                distance=" ".join(str(distances(i, k)) for k in range(total)),
                meminfo="Node %d MemTotal:       %d kB\nNode %d MemFree:        %d kB\n" % (i, kb, i, kb * 97 // 100))


def infiniband(m, pci, i, rate):
    guid = "9c63:c003:00%02x:%04x" % (i, 0x2B00 + i)
    rdma(m, "mlx5_%d" % i, pci, "InfiniBand", rate, [("fe80::" + guid, V1, None)], guid=guid,
         board="MT_0000000838", fw="28.43.2026", lid="0x%x" % (40 + i), sm_lid="0x1")


def host_files(m, driver, cuda, nccl, kernel_args, gpus):
    m.cmdline("BOOT_IMAGE=/boot/vmlinuz-%s root=UUID=77aa ro %s" % (m.kernel, kernel_args))
    m.nvidia_driver(driver, True, gpus)
    version = m.tree.nodes["/proc/driver/nvidia/version"]
    m.tree.nodes["/proc/driver/nvidia/version"] = (version[0], version[1].replace(b"for x86_64", b"for aarch64")) + version[2:]
    m.modules("nvidia", "nvidia_uvm", "nvidia_peermem", "mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs")
    m.module_version("nvidia_peermem", driver)
    m.cuda(cuda, nccl, lib=LIB)
    m.verbs(LIB)
    m.packages = [("libnccl2", nccl + "-1+cuda" + ".".join(cuda.split(".")[:2]))]
    m.base_mounts()
    m.mount("/dev/nvme0n1p2", "/", "ext4", "rw,relatime", 1720, 1504)
    m.mount("tmpfs", "/dev/shm", "tmpfs", "rw,nosuid,nodev", 239, 239)
    m.cgroup2("/user.slice/user-1001.slice/session-4.scope")


def ethernet(m, pci, name, address, index=2):
    mac = "9c:63:c0:11:22:%02x" % index
    net(m, name, pci, index, mac, speed=25000)
    m.addr(name, address + ".21", 24)
    m.addr(name, link_local(mac), 64)
    routes(m, [(name, "0.0.0.0", 0, address + ".1", 100), (name, address + ".0", 24, None, 100)])


def gh200():
    """One GH200 with two ConnectX-7 at the processor and NCCL 2.26, hand-built.

    Sources: GH200 data sheet (72 cores, 480 GB LPDDR5X, 96 GB HBM3, NVLink-C2C); the driver's list of
    supported chips (2342, "NVIDIA GH200 480GB"); Grace's PCI domains and the GPU's memory as a NUMA node
    without processors: NVIDIA Grace Performance Tuning Guide; NCCL 2.26's paths.cc (NCCL_NET_GDR_C2C is 0).
    """
    m = Machine("gh-07", "6.8.0-1021-nvidia-64k", Grace(1), iommu="identity")
    driver = "570.133.20"
    m.arch = "aarch64"
    m.os("Ubuntu 24.04.2 LTS", "ubuntu", "24.04")
    m.dmi("Supermicro", "ARS-111GL-NHR", "G1SMH-G", "American Megatrends International, LLC.")
    m.cpu.write(m.tree, governor="performance")
    nodes(m, 501921792, [(1, 98304 * 1024)] + [(i, 0) for i in range(2, 9)],
          lambda a, b: 10 if a == b else 80 if 0 in (a, b) else 255)
    loopback(m)
    root = m.domain("0009:00", 0).bridge("0009:00:00.0", "10de:22b8", speed=5)
    root.add("0009:01:00.0", GH200["pci"], 0x030200, driver="nvidia", speed=5, sub=GH200["sub"])
    g = G.gpu(0, GH200, "0009:01:00.0", 700, driver)
    g.update(addressing="ats", fabric_state="not-supported")
    m.nvml = {"nvidia": nvidia(driver, 12080, "12.570.133.20"), "gpus": [g], "pairs": []}
    for i, dom in enumerate(("0000", "0002")):
        nic = m.domain(dom + ":00", 0).bridge(dom + ":00:00.0", "10de:22b1", speed=5).add(
            dom + ":01:00.0", "15b3:1021", 0x020700, driver="mlx5_core", speed=5)
        infiniband(m, nic, i, "400 Gb/sec (4X NDR)")
    board = m.domain("0005:00", 0).bridge("0005:00:00.0", "10de:22b8", speed=3, width=4)
    ethernet(m, board.add("0005:01:00.0", "8086:1563", 0x020000, driver="ixgbe", speed=3, width=4), "eno1", "10.60.0")
    disk = m.domain("0004:00", 0).bridge("0004:00:00.0", "10de:22b1", speed=5, width=4)
    nvme(m, 0, disk.add("0004:01:00.0", "144d:a80a", 0x010802, driver="nvme", speed=5, width=4), 1788,
         "SAMSUNG MZ1L21T9HCLS-00A07")
    host_files(m, driver, "12.8.1", "2.26.2", "iommu.passthrough=1 init_on_alloc=0",
               [("0009:01:00.0", 0, GH200["name"])])
    m.daemons = ["nvidia-persistenced", "slurmd"]
    return m.finish()


def gb200():
    """One compute tray of a GB200 NVL72, NCCL 2.28, hand-built.

    Sources: GB200 NVL72 pages (a tray: two Grace, four GPUs, four ConnectX-7; 18 links of NVLink 5 a GPU to
    switches in other trays); the driver's list of supported chips (2941, "NVIDIA GB200"); IMEX service guide
    (nodes_config.cfg, /dev/nvidia-caps-imex-channels); eight NUMA nodes a GPU for its memory, those of MIG
    instances empty (34 in all): NVIDIA's Grace tuning guide and `numactl -H` of published trays.
    """
    m = Machine("nvl1-tray05", "6.8.0-1028-nvidia-64k", Grace(2), iommu="DMA-FQ")
    driver = "580.95.05"
    m.arch = "aarch64"
    m.os("Ubuntu 24.04.3 LTS", "ubuntu", "24.04")
    m.dmi("NVIDIA", "GB200 NVL", "P4059", "NVIDIA")
    m.cpu.write(m.tree, governor="performance")
    nodes(m, 1002438656, [(i, 189471 * 1024 if (i - 2) % 8 == 0 else 0) for i in range(2, 34)],
          lambda a, b: 10 if a == b else 40 if a < 2 and b < 2 else 80)
    loopback(m)
    hardware = [("0008:01:00.0", 0), ("0009:01:00.0", 0), ("0018:01:00.0", 1), ("0019:01:00.0", 1)]
    found = []
    for i, (bdf, numa) in enumerate(hardware):
        dom = bdf[:4]
        m.domain(dom + ":00", numa).bridge(dom + ":00:00.0", "10de:22b8", speed=5).add(
            bdf, GB200["pci"], 0x030200, driver="nvidia", speed=5, sub=GB200["sub"])
        g = G.gpu(i, GB200, bdf, 720 + i, driver)
        g["nvlinks"] = [G.link(k, GB200, "switch", None) for k in range(18)]
        g.update(addressing="ats", fabric_state="completed", fabric_status="ok", fabric_clique=1,
                 fabric_cluster="7c3f1a50-22d4-4b6e-9a01-5d6e7f809142")
        found.append(g)
    m.nvml = {"nvidia": nvidia(driver, 13000, "13.580.95.05"), "gpus": found, "pairs": G.pairs(found, nvlink="ok")}
    for i, (dom, numa) in enumerate((("0000", 0), ("0002", 0), ("0010", 1), ("0012", 1))):
        nic = m.domain(dom + ":00", numa).bridge(dom + ":00:00.0", "10de:22b1", speed=5).add(
            dom + ":01:00.0", "15b3:1021", 0x020700, driver="mlx5_core", speed=5)
        infiniband(m, nic, i, "400 Gb/sec (4X NDR)")
    board = m.domain("0006:00", 0).bridge("0006:00:00.0", "10de:22b1", speed=4, width=4)
    ethernet(m, board.add("0006:01:00.0", "8086:1563", 0x020000, driver="ixgbe", speed=3, width=4), "enP6s1", "10.70.1")
    disk = m.domain("0004:00", 0).bridge("0004:00:00.0", "10de:22b1", speed=5, width=4)
    nvme(m, 0, disk.add("0004:01:00.0", "144d:a80a", 0x010802, driver="nvme", speed=5, width=4), 1788,
         "SAMSUNG MZ1L21T9HCLS-00A07")
    host_files(m, driver, "13.0.1", "2.28.9", "init_on_alloc=0 numa_balancing=disable",
               [(b, i, GB200["name"]) for i, (b, _) in enumerate(hardware)])
    m.tree.file("/etc/nvidia-imex/nodes_config.cfg", "# one compute tray a line\n" +
                "".join("10.70.1.%d\n" % (17 + i) for i in range(18)))
    m.tree.file("/dev/nvidia-caps-imex-channels/channel0", b"")
    m.daemons = ["nvidia-persistenced", "nvidia-imex", "slurmd"]
    return m.finish()
