# SPDX-License-Identifier: MIT
"""bare: hand-built machines without a hypervisor or container.

Addresses, names and counts follow the documents each function names; serial
numbers, GUIDs and IP addresses are made up.
"""
import gpus as G
from machine import Machine
from sysfs import (ACS_ON, V1, V2, bond, link_local, loopback, memory, milan, net, nvme,
                   rdma, roce_gids, routes, routes6, spr)

NVSWITCHES = ["0000:05:00.0", "0000:06:00.0", "0000:07:00.0", "0000:08:00.0"]


def guid(n):
    return "a088:c203:00%02x:%04x" % (n, 0x1A00 + n)


def ib_gids(n):
    """An InfiniBand port has its GUID behind the subnet prefix, and no net device."""
    return [("fe80::%s:%s:%s:%s" % tuple(guid(n).split(":")), V1, None)]


def nvswitches(m, root, config="full"):
    """Four third-generation NVSwitches behind one PCIe switch."""
    up = root.bridge("00:0f.0", "8086:352a", config=config).bridge("01:00.0", config=config)
    for i, bdf in enumerate(NVSWITCHES):
        up.bridge("02:%02x.0" % i, width=2, config=config).add(
            bdf, "10de:22a3", 0x068000, driver="nvidia-nvswitch", speed=4, width=2, config=config)


def hgx(m, hardware, seed, driver, kind=G.H100_SXM):
    """hardware: (bdf, numa) of each GPU; answers of an NVSwitch system in good order."""
    out = []
    for i, (bdf, _) in enumerate(hardware):
        g = G.gpu(i, kind, bdf, seed + i, driver)
        G.link_switches(g, kind, NVSWITCHES)
        G.fabric(g)
        out.append(g)
    return out


def nvidia(driver, cuda, nvml, **more):
    return dict({"driver_version": driver, "cuda_driver": cuda, "nvml_version": nvml,
                 "nvml_library": "libnvidia-ml.so.1"}, **more)


def dgx_h100():
    """DGX H100, hand-built.

    Sources: DGX H100 User Guide, table "Network Modules" (ibp24s0/mlx5_0 beside GPU 0
    … ibp220s0/mlx5_11 beside GPU 7) and the specification (2x Xeon 8480C, 2 TB, 8+2
    NVMe); `nvidia-smi topo -m` of a DGX H100 in bytedance/flux issue 14 (NIC and GPU at
    PXB, mlx5_1/2 and mlx5_7/8 the two-port cards, CPUs 0-55,112-167); link counts to
    the switches from the NCCL topology dump in aliyun/SimAI issue 128.  Bridge
    addresses and all numbers of identity are made up.
    """
    cpu = spr("Intel(R) Xeon(R) Platinum 8480C", 2, 56, "107520K", 3800)
    m = Machine("dgx-01", "5.15.0-1063-nvidia", cpu, iommu="identity")
    driver = "550.90.07"
    m.os("Ubuntu 22.04.4 LTS", "ubuntu", "22.04")
    m.dmi("NVIDIA", "DGXH100", "DGXH100", "NVIDIA")
    m.cmdline("BOOT_IMAGE=/boot/vmlinuz-5.15.0-1063-nvidia root=/dev/md0 ro iommu=pt "
              "pci=realloc=off numa_balancing=disable nvme-core.multipath=n")
    m.tree.file("/proc/sys/kernel/numa_balancing", 0)
    cpu.write(m.tree, governor="performance")
    memory(m.tree, cpu, 2113407112, thp="madvise")
    nvswitches(m, m.host("00", 0))
    loopback(m)
    hardware = dgx_rails(m)
    dgx_front(m)
    dgx_disks(m)
    found = hgx(m, hardware, 100, driver)
    m.nvml = {"nvidia": nvidia(driver, 12040, "12.550.90.07"), "gpus": found,
              "pairs": G.pairs(found, nvlink="ok")}
    m.nvidia_driver(driver, False, [(b, i, G.H100_SXM["name"]) for i, (b, _) in
                                    enumerate(hardware)])
    m.modules("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_peermem", "mlx5_core", "mlx5_ib",
              "ib_core", "ib_uverbs", "ib_umad", "ib_ipoib", "lustre", "lnet")
    m.module_version("nvidia_peermem", driver)
    m.daemons = ["nv-fabricmanager", "nvidia-persistenced", "nv-hostengine", "dockerd",
                 "containerd"]
    m.cgroup2("/user.slice/user-1000.slice/session-4.scope")
    m.cuda("12.4.1", "2.21.5", "9.1.0")
    m.verbs()
    m.packages = [("containerd.io", "1.6.31-1"), ("datacenter-gpu-manager", "1:3.3.6"),
                  ("docker-ce", "5:26.0.1-1~ubuntu.22.04~jammy"), ("doca-ofed", "2.7.0-1.0.2"),
                  ("libcudnn9-cuda-12", "9.1.0.70-1"), ("libnccl2", "2.21.5-1+cuda12.4"),
                  ("nvidia-container-toolkit", "1.15.0-1"),
                  ("nvidia-fabricmanager-550", "550.90.07-1"), ("rdma-core", "2404mlnx51-1")]
    for program in ("nv-fabricmanager", "docker", "dockerd", "containerd", "nvidia-ctk", "dcgmi",
                    "nv-hostengine"):
        m.tree.file("/usr/bin/" + program, b"")
    return m.finish()


def dgx_rails(m):
    """Eight root ports: the NIC below the first switch, the GPU one switch deeper."""
    hardware = []
    rails = [(0x18, 0, "mlx5_0"), (0x40, 0, "mlx5_3"), (0x4F, 0, "mlx5_4"), (0x5E, 0, "mlx5_5"),
             (0x9A, 1, "mlx5_6"), (0xC0, 1, "mlx5_9"), (0xCE, 1, "mlx5_10"), (0xDC, 1, "mlx5_11")]
    for i, (bus, numa, name) in enumerate(rails):
        root = m.host("%02x" % (bus - 3), numa).bridge("%02x:01.0" % (bus - 3), "8086:352a")
        up = root.bridge("%02x:00.0" % (bus - 2))
        nic = up.bridge("%02x:00.0" % (bus - 1)).add(
            "%02x:00.0" % bus, "15b3:1021", 0x020700, driver="mlx5_core", speed=5, sub="15b3:0023")
        nic.sriov(16, [])
        deep = up.bridge("%02x:01.0" % (bus - 1)).bridge("%02x:00.0" % (bus + 1))
        bdf = "%02x:00.0" % (bus + 3)
        deep.bridge("%02x:00.0" % (bus + 2)).add(bdf, G.H100_SXM["pci"], 0x030200, driver="nvidia",
                                                 speed=5, sub=G.H100_SXM["sub"])
        hardware.append(("0000:" + bdf, numa))
        rdma(m, name, nic, "InfiniBand", "400 Gb/sec (4X NDR)", ib_gids(bus), guid=guid(bus),
             lid="0x%x" % (0x20 + i), sm_lid="0x1", slots=8, uverbs=int(name[5:]))
        ipoib(m, "ibp%ds0" % bus, nic, 10 + i, bus)
    return hardware


def ipoib(m, name, pci, index, n, addr=None):
    net(m, name, pci, index, "00:00:10:29:fe:80:00:00:00:00:00:00:%s" %
        ":".join("%02x" % b for b in bytes.fromhex(guid(n).replace(":", ""))), mtu=4092,
        speed=400000, type_=32)
    if addr:
        m.addr(name, addr, 16)


def dgx_front(m):
    """Slots 1 and 2: two-port ConnectX-7, port 0 InfiniBand to the storage, port 1
    Ethernet; the two Ethernet ports are bonded.  And the board's own port, unused."""
    macs = {0x29: "a0:88:c2:0b:19:e3", 0xAA: "a0:88:c2:0b:5d:17"}
    for i, (bus, numa) in enumerate([(0x29, 0), (0xAA, 1)]):
        root = m.host("%02x" % (bus - 1), numa).bridge("%02x:01.0" % (bus - 1), "8086:352a")
        ib = root.add("%02x:00.0" % bus, "15b3:1021", 0x020700, driver="mlx5_core", speed=5)
        eth = root.add("%02x:00.1" % bus, "15b3:1021", 0x020000, driver="mlx5_core", speed=5)
        first = 1 + 6 * i
        rdma(m, "mlx5_%d" % first, ib, "InfiniBand", "400 Gb/sec (4X NDR)", ib_gids(bus),
             guid=guid(bus), lid="0x%x" % (0x40 + i), sm_lid="0x2", slots=8, uverbs=first)
        ipoib(m, "ibp%ds0f0" % bus, ib, 20 + i, bus, "100.127.0.%d" % (11 + i))
        name = "enp%ds0f1np1" % bus
        gids = roce_gids(macs[bus], [], name) + [("10.150.0.21", V1, "bond0"),
                                                 ("10.150.0.21", V2, "bond0")]
        rdma(m, "mlx5_%d" % (first + 1), eth, "Ethernet", "200 Gb/sec (4X HDR)", gids,
             guid=guid(bus + 1), uverbs=first + 1)
        net(m, name, eth, 22 + i, macs[0x29], speed=200000, port=1, mtu=9000)
    bond(m, "bond0", ["enp41s0f1np1", "enp170s0f1np1"], index=30, mac=macs[0x29], speed=400000,
         mtu=9000)
    m.addr("bond0", "10.150.0.21", 24)
    m.addr("bond0", link_local(macs[0x29]), 64)
    board = m.host("00", 0).bridge("00:1c.0", "8086:1bb8", speed=3, width=1).add(
        "0b:00.0", "8086:1533", 0x020000, driver="igb", speed=3, width=1)
    net(m, "eno3", board, 3, "5c:ff:35:e2:04:9a", state="down")
    net(m, "docker0", index=31, mac="02:42:7a:11:c9:5e", state="down", kind="bridge",
        extra={"bridge/bridge_id": "8000.02427a11c95e"})
    m.addr("docker0", "172.17.0.1", 16)
    routes(m, [("bond0", "0.0.0.0", 0, "10.150.0.1", 0), ("bond0", "10.150.0.0", 24, None, 0),
               ("ibp41s0f0", "100.127.0.0", 16, None, 0),
               ("ibp170s0f0", "100.127.0.0", 16, None, 0),
               ("docker0", "172.17.0.0", 16, None, 0)])


def dgx_disks(m):
    """Two boot and eight cache drives; md0 is the root, md1 is /raid."""
    n = 0
    for bus, numa, count, gib, model in ((0x22, 0, 2, 1788, "SAMSUNG MZ1L21T9HCLS-00A07"),
                                         (0x73, 0, 4, 3576, "KIOXIA KCM6DRUL3T84"),
                                         (0xE6, 1, 4, 3576, "KIOXIA KCM6DRUL3T84")):
        host = m.host("%02x" % (bus - 1), numa)
        for i in range(count):
            dev = host.bridge("%02x:%02x.0" % (bus - 1, i + 1), "8086:352a", speed=4, width=4).add(
                "%02x:00.0" % (bus + i), "144d:a80a", 0x010802, driver="nvme", speed=4, width=4)
            nvme(m, n, dev, gib, model)
            n += 1
    m.base_mounts()
    m.mount("/dev/md0", "/", "ext4", "rw,relatime,errors=remount-ro", 1756, 1602)
    m.mount("/dev/nvme0n1p1", "/boot/efi", "vfat", "rw,relatime", 0.5, 0.49)
    m.mount("/dev/md1", "/raid", "ext4", "rw,relatime", 28140, 26680)
    m.mount("tmpfs", "/dev/shm", "tmpfs", "rw,nosuid,nodev", 1007.8, 1007.8)
    m.mount("100.127.0.201@o2ib:100.127.0.202@o2ib:/scratch", "/lustre/scratch", "lustre",
            "rw,checksum,flock,user_xattr", 931322, 402178)
    m.mount("10.150.0.9:/home", "/home", "nfs4", "rw,relatime,vers=4.2,rsize=1048576", 20480, 8112)


def gpu_lost():
    """An 8-GPU H100 server under Slurm of which one GPU has left the bus, hand-built.

    Sources: a Supermicro SYS-821GE-TNHR in NVIDIA/nccl issue 1264 (`nvidia-smi` with
    driver 550.54.15 and GPUs from 18:00.0 and 2a:00.0 on, PIX between a GPU and its NIC,
    CPUs 0-55,112-167; the other six addresses from memory of such servers); what stays
    readable after XID 79 ("GPU has fallen off the
    bus"): the XID catalogue, NVML's NVML_ERROR_GPU_IS_LOST (15), and Linux, which
    answers all ones from configuration space, link width 63 and an unknown speed.
    """
    cpu = spr("Intel(R) Xeon(R) Platinum 8480+", 2, 56, "107520K", 3800)
    m = Machine("h100-r07n3", "5.14.0-427.13.1.el9_4.x86_64", cpu, iommu="identity")
    driver = "550.54.15"
    m.os("Rocky Linux 9.4 (Blue Onyx)", "rocky", "9.4")
    m.dmi("Supermicro", "SYS-821GE-TNHR", "X13DEG-OAD", "American Megatrends International, LLC.")
    m.cmdline("BOOT_IMAGE=(hd0,gpt2)/vmlinuz-5.14.0-427.13.1.el9_4.x86_64 ro intel_iommu=on "
              "iommu=pt crashkernel=1G-4G:192M")
    cpu.write(m.tree, governor="performance")
    memory(m.tree, cpu, 2113520144, thp="always")
    nvswitches(m, m.host("00", 0))
    loopback(m)
    hardware = []
    for i, bus in enumerate((0x18, 0x2A, 0x3A, 0x5D, 0x9A, 0xAB, 0xBA, 0xDB)):
        hardware.append(("0000:%02x:00.0" % bus, i // 4))
        lost_rail(m, i, bus, i // 4)
    front = m.host("00", 0).bridge("00:1b.0", "8086:1bc4", speed=3, width=4)
    for fn in (0, 1):
        port = front.add("04:00.%d" % fn, "14e4:165f", 0x020000, driver="tg3", speed=3, width=2)
        net(m, "eno%d" % (8303 + fn), port, 2 + fn, "b0:7b:25:f0:31:%02x" % (0x40 + fn),
            speed=None if fn else 1000, state="down" if fn else "up")
    m.addr("eno8303", "10.41.7.33", 22)
    routes(m, [("eno8303", "0.0.0.0", 0, "10.41.4.1", 100),
               ("eno8303", "10.41.4.0", 22, None, 100)])
    found = hgx(m, hardware, 200, driver)
    found[3] = G.lost(3)
    m.nvml = {"nvidia": nvidia(driver, 12040, "12.550.54.15"), "gpus": found,
              "pairs": G.pairs(found, nvlink="ok", apart=(3,))}
    m.nvidia_driver(driver, False, [(b, i, G.H100_SXM["name"]) for i, (b, _) in
                                    enumerate(hardware)])
    m.modules("nvidia", "nvidia_uvm", "nvidia_peermem", "mlx5_core", "mlx5_ib", "ib_core",
              "ib_uverbs")
    m.module_version("nvidia_peermem", driver)
    m.daemons = ["nv-fabricmanager", "nvidia-persistenced", "slurmd"]
    m.cgroup2("/system.slice/slurmstepd.scope/job_88213/step_0/user/task_0",
              cpuset="0-223", mem="2061584302080")
    m.env = {"SLURM_JOB_ID": "88213", "SLURM_JOB_NODELIST": "h100-r07n[3-4]",
             "SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS_ON_NODE": "8", "SLURM_CPUS_ON_NODE": "224",
             "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}
    m.base_mounts()
    m.mount("/dev/nvme0n1p3", "/", "xfs", "rw,relatime,attr2,inode64", 880, 790)
    m.mount("tmpfs", "/dev/shm", "tmpfs", "rw,nosuid,nodev", 1007.8, 1007.8)
    m.mount("10.41.8.2@tcp:/work", "/work", "lustre", "rw,flock,lazystatfs", 465661, 301002)
    nvme(m, 0, m.host("00", 0).bridge("00:1d.0", "8086:1bb4", speed=4, width=4).add(
        "09:00.0", "1344:51c0", 0x010802, driver="nvme", speed=4, width=4), 894,
        "MTFDKCC960TFR-1BC1ZABYY")
    m.cuda("12.4.0", "2.20.5", lib="/usr/lib64")
    m.verbs("/usr/lib64")
    return m.finish()


def lost_rail(m, i, bus, numa):
    """A switch with one GPU and one NIC; the fourth GPU's is where the GPU was."""
    root = m.host("%02x" % (bus - 3), numa).bridge("%02x:01.0" % (bus - 3), "8086:352a")
    up = root.bridge("%02x:00.0" % (bus - 2))
    gone = bus == 0x5D
    gpu = up.bridge("%02x:00.0" % (bus - 1)).add(
        "%02x:00.0" % bus, G.H100_SXM["pci"], 0x030200, driver="nvidia", speed=5,
        config="ones" if gone else "full", sub=G.H100_SXM["sub"])
    if gone:
        m.tree.files(gpu.path, current_link_speed="Unknown", max_link_speed="Unknown",
                     current_link_width=63, max_link_width=63, revision="0xff")
    nic = up.bridge("%02x:01.0" % (bus - 1)).add("%02x:00.0" % (bus + 1), "15b3:1021", 0x020700,
                                                 driver="mlx5_core", speed=5)
    rdma(m, "mlx5_%d" % i, nic, "InfiniBand", "400 Gb/sec (4X NDR)", ib_gids(bus),
         guid=guid(bus), lid="0x%x" % (0x80 + i), sm_lid="0x1", slots=8)
    ipoib(m, "ibp%ds0" % (bus + 1), nic, 10 + i, bus)


def a100_pcie():
    """A PCIe server with 4 A100 80 GB in two NVLink-bridged pairs, no RDMA, hand-built.

    Sources: A100 80GB PCIe product brief (300 W, three bridges give 12 links between two
    cards); root port and NUMA layout of two-socket EPYC 7003 boards at NPS4 (hwloc's
    EPYC outputs: distances 10/12/32, one root complex a quadrant); Linux's ACS set-up
    when the IOMMU translates.
    """
    cpu = milan("AMD EPYC 7543 32-Core Processor", 2, 32, 8, 4, 3737)
    m = Machine("kb-gpu1", "6.1.0-25-amd64", cpu, iommu="DMA-FQ")
    driver = "535.183.06"
    m.os("Debian GNU/Linux 12 (bookworm)", "debian", "12")
    m.dmi("Supermicro", "AS -4124GS-TNR", "H12DSG-O-CPU", "American Megatrends Inc.")
    m.cmdline("BOOT_IMAGE=/boot/vmlinuz-6.1.0-25-amd64 root=UUID=8f0f ro quiet amd_iommu=on")
    rows = [[10 if i == j else 12 if i // 4 == j // 4 else 32 for j in range(8)] for i in range(8)]
    cpu.write(m.tree, governor="schedutil")
    memory(m.tree, cpu, 528270380, distances=rows, thp="always", swap_kb=8388604)
    loopback(m)
    hardware = [("0000:01:00.0", "00", 3), ("0000:41:00.0", "40", 1), ("0000:81:00.0", "80", 7),
                ("0000:c1:00.0", "c0", 5)]
    found = []
    for i, (bdf, bus, numa) in enumerate(hardware):
        root = m.host(bus, numa).bridge(bus + ":01.1", "1022:1483", speed=4, acs=ACS_ON)
        root.add(bdf, G.A100_PCIE["pci"], 0x030200, driver="nvidia", speed=4,
                 sub=G.A100_PCIE["sub"])
        g = G.gpu(i, G.A100_PCIE, bdf, 300 + i, driver, persistence=False)
        G.link_gpus(g, G.A100_PCIE, [hardware[i ^ 1][0]], 12)
        g.update(fabric_state="not-supported")
        found.append(g)
    m.nvml = {"nvidia": nvidia(driver, 12020, "12.535.183.06"), "gpus": found,
              "pairs": G.pairs(found, nvlink=lambda a, b: "ok" if a["index"] ^ 1 == b["index"]
                               else None)}
    m.nvidia_driver(driver, False, [(h[0], i, G.A100_PCIE["name"]) for i, h in
                                    enumerate(hardware)])
    m.modules("nvidia", "nvidia_uvm", "nvidia_drm", "i40e", "nvme", "nfsv4")
    a100_front(m)
    m.memlock = m.memlock_hard = 8 << 20
    m.nofile, m.uid = 1024, 1000
    m.daemons = ["dockerd", "containerd"]
    m.cgroup2("/user.slice/user-1000.slice/session-11.scope")
    m.cuda("12.2.2", "2.19.3", "8.9.7")
    m.packages = [("containerd", "1.6.20~ds1-1+deb12u1"), ("docker.io", "20.10.24+dfsg1-1+deb12u1"),
                  ("nvidia-container-toolkit", "1.16.1-1")]
    m.tree.file("/usr/bin/dockerd", b"")
    m.tree.file("/usr/bin/nvidia-ctk", b"")
    return m.finish()


def a100_front(m):
    front = m.host("a0", 6).bridge("a0:03.1", "1022:1483", speed=3, width=8, acs=ACS_ON)
    for fn in (0, 1):
        port = front.add("a1:00.%d" % fn, "8086:158b", 0x020000, driver="i40e", speed=3, width=8)
        net(m, "enp161s0f%d" % fn, port, 2 + fn, "3c:ec:ef:9a:70:%02x" % (0x10 + fn),
            speed=None if fn else 25000, state="down" if fn else "up", mtu=1500)
    m.addr("enp161s0f0", "10.20.30.41", 24)
    m.addr("enp161s0f0", link_local("3c:ec:ef:9a:70:10"), 64)
    net(m, "docker0", index=4, mac="02:42:1f:5a:00:3b", state="up", kind="bridge", speed=10000,
        extra={"bridge/bridge_id": "8000.02421f5a003b"})
    net(m, "veth3ac19d0", index=6, iflink=5, mac="9e:0b:55:d1:90:02", speed=10000)
    m.addr("docker0", "172.17.0.1", 16)
    routes(m, [("enp161s0f0", "0.0.0.0", 0, "10.20.30.1", 0),
               ("enp161s0f0", "10.20.30.0", 24, None, 0), ("docker0", "172.17.0.0", 16, None, 0)])
    disk = m.host("20", 2).bridge("20:03.3", "1022:1483", speed=4, width=4, acs=ACS_ON).add(
        "24:00.0", "144d:a80a", 0x010802, driver="nvme", speed=4, width=4)
    nvme(m, 0, disk, 3576, "SAMSUNG MZQL23T8HCLS-00A07")
    m.base_mounts()
    m.mount("/dev/nvme0n1p2", "/", "ext4", "rw,relatime,errors=remount-ro", 3450, 2210)
    m.mount("tmpfs", "/dev/shm", "tmpfs", "rw,nosuid,nodev", 251.9, 251.9)
    m.mount("nas:/export/models", "/srv/models", "nfs4", "rw,relatime,vers=4.2,proto=tcp", 45056,
            9021)


def roce_ipv6():
    """4 H100 with four Broadcom 400 GbE ports that have IPv6 addresses alone, hand-built.

    Sources: HGX H100 4-GPU (every pair of GPUs has six NVLinks, no NVSwitch: NVIDIA's
    HGX platform pages); bnxt_re's table of link-local and global GIDs and NCCL ending on
    index 0 on IPv6-only fabrics: uccl issue 803 and NCCL's GID scan (src/transport/net_ib).
    """
    cpu = spr("Intel(R) Xeon(R) Gold 6448Y", 2, 32, "61440K", 4100)
    m = Machine("rail6-04", "6.8.0-45-generic", cpu, iommu="identity")
    driver = "560.35.03"
    m.os("Ubuntu 24.04.1 LTS", "ubuntu", "24.04")
    m.dmi("Supermicro", "SYS-421GU-TNXR", "X13DGU", "American Megatrends International, LLC.")
    m.cmdline("BOOT_IMAGE=/vmlinuz-6.8.0-45-generic root=/dev/sda2 ro iommu=pt")
    cpu.write(m.tree, governor="performance")
    memory(m.tree, cpu, 1056425912, huge_2m=4096)
    loopback(m)
    hardware, found = [], []
    rows6 = [("eno1", "::", 0, "fd00:0:0:100::1", 1024), ("eno1", "fd00:0:0:100::", 64, None, 256)]
    for i, (bus, numa) in enumerate([(0x17, 0), (0x3D, 0), (0x9C, 1), (0xC3, 1)]):
        root = m.host("%02x" % (bus - 3), numa).bridge("%02x:01.0" % (bus - 3), "8086:352a")
        up = root.bridge("%02x:00.0" % (bus - 2))
        up.bridge("%02x:00.0" % (bus - 1)).add("%02x:00.0" % bus, G.H100_SXM["pci"], 0x030200,
                                               driver="nvidia", speed=5, sub=G.H100_SXM["sub"])
        nic = up.bridge("%02x:01.0" % (bus - 1)).add(
            "%02x:00.0" % (bus + 1), "14e4:1760", 0x020000, driver="bnxt_en", speed=5)
        mac, name = "84:16:0c:3e:%02x:10" % (0x20 + i), "ens%dnp0" % (11 + i)
        address = "fd00:0:0:%d::%x" % (201 + i, 0x14)
        net(m, name, nic, 4 + i, mac, mtu=9000, speed=400000)
        m.addr(name, address, 64)
        m.addr(name, link_local(mac), 64)
        rows6.append((name, "fd00:0:0:%d::" % (201 + i), 64, None, 256))
        rdma(m, "bnxt_re%d" % i, nic, "Ethernet", "400 Gb/sec (4X NDR)",
             roce_gids(mac, [address], name), guid="8616:0cff:fe3e:%04x" % (0x2010 + i),
             hca="Broadcom NetXtreme-C/E RoCE Driver HCA", board=None, fw="231.2.63.0")
        hardware.append(("0000:%02x:00.0" % bus, numa))
    for i, (bdf, _) in enumerate(hardware):
        g = G.gpu(i, G.H100_SXM, bdf, 400 + i, driver)
        G.link_gpus(g, G.H100_SXM, [b for b, _ in hardware if b != bdf], 6)
        g.update(fabric_state="not-supported")
        found.append(g)
    m.nvml = {"nvidia": nvidia(driver, 12060, "12.560.35.03"), "gpus": found,
              "pairs": G.pairs(found, nvlink="ok")}
    m.nvidia_driver(driver, True, [(b, i, G.H100_SXM["name"]) for i, (b, _) in enumerate(hardware)])
    m.modules("nvidia", "nvidia_uvm", "bnxt_en", "bnxt_re", "ib_core", "ib_uverbs")
    board = m.host("00", 0).bridge("00:1c.0", "8086:1bb8", speed=3, width=4).add(
        "02:00.0", "8086:1563", 0x020000, driver="ixgbe", speed=3, width=4)
    net(m, "eno1", board, 2, "3c:ec:ef:d0:11:5c", speed=10000)
    m.addr("eno1", "fd00:0:0:100::14", 64)
    m.addr("eno1", link_local("3c:ec:ef:d0:11:5c"), 64)
    routes(m, [])
    routes6(m, rows6)
    m.daemons = ["nvidia-persistenced", "slurmd"]
    m.cgroup2("/user.slice/user-1004.slice/session-2.scope")
    m.cuda("12.6.1", "2.23.4")
    m.verbs()
    m.packages = [("libnccl2", "2.23.4-1+cuda12.6"), ("rdma-core", "50.0-2ubuntu0.2"),
                  ("slurmd", "23.11.4-1.2ubuntu5")]
    m.base_mounts()
    m.mount("/dev/nvme0n1p2", "/", "ext4", "rw,relatime", 1720, 1504)
    m.mount("tmpfs", "/dev/shm", "tmpfs", "rw,nosuid,nodev", 503.7, 503.7)
    nvme(m, 0, m.host("00", 0).bridge("00:1d.0", "8086:1bb4", speed=4, width=4).add(
        "03:00.0", "144d:a80a", 0x010802, driver="nvme", speed=4, width=4), 1788,
        "SAMSUNG MZQL21T9HCJR-00A07")
    return m.finish()


def ib_roce_mixed():
    """4 A100 SXM with InfiniBand for compute and one RoCE port for storage, hand-built.

    Sources: HGX A100 4-GPU (four NVLinks a pair: NVIDIA's HGX pages); the prefix rule of
    NCCL_IB_HCA ("mlx5_1" also takes mlx5_10 and mlx5_11) and NCCL's refusal to mix link
    layers: NCCL's user guide and src/transport/net_ib.  mlx5_1 is the Ethernet one, the
    port of mlx5_3 is down, mlx5_10 and mlx5_11 are what a prefix takes by mistake.
    """
    cpu = milan("AMD EPYC 7713 64-Core Processor", 2, 64, 2, 8, 3720, smt=1)
    m = Machine("a100-17", "4.18.0-553.el8_10.x86_64", cpu, iommu=None)
    driver = "550.90.07"
    m.os("Red Hat Enterprise Linux 8.10 (Ootpa)", "rhel", "8.10")
    m.dmi("Lenovo", "ThinkSystem SD650-N V2", "SB27B10480", "Lenovo")
    m.cmdline("BOOT_IMAGE=(hd0,gpt2)/vmlinuz-4.18.0-553.el8_10.x86_64 ro amd_iommu=off")
    rows = [[10, 32], [32, 10]]
    cpu.write(m.tree, governor="performance")
    memory(m.tree, cpu, 1056361484, distances=rows, thp="always")
    loopback(m)
    hardware = mixed_rails(m)
    found = []
    for i, (bdf, _) in enumerate(hardware):
        g = G.gpu(i, G.A100_SXM, bdf, 500 + i, driver)
        G.link_gpus(g, G.A100_SXM, [b for b, _ in hardware if b != bdf], 4)
        g.update(fabric_state="not-supported")
        found.append(g)
    m.nvml = {"nvidia": nvidia(driver, 12040, "12.550.90.07"), "gpus": found,
              "pairs": G.pairs(found, nvlink="ok")}
    m.nvidia_driver(driver, False, [(b, i, G.A100_SXM["name"]) for i, (b, _) in
                                    enumerate(hardware)])
    m.modules("nvidia", "nvidia_uvm", "nv_peer_mem", "mlx5_core", "mlx5_ib", "ib_core",
              "ib_uverbs", "mmfs26")
    m.module_version("nv_peer_mem", "1.3-0")
    m.tree.file("/sys/kernel/mm/memory_peers/nv_mem/version", "1.3-0")
    m.verbs("/usr/lib64")
    m.daemons = ["nvidia-persistenced", "slurmd"]
    m.cgroup2("/system.slice/sshd.service")
    m.base_mounts()
    m.mount("/dev/nvme0n1p2", "/", "xfs", "rw,relatime", 890, 640)
    m.mount("tmpfs", "/dev/shm", "tmpfs", "rw,nosuid,nodev", 503.7, 503.7)
    m.mount("/dev/gpfs0", "/gpfs", "gpfs", "rw,relatime", 2097152, 733001)
    nvme(m, 0, m.host("60", 0).bridge("60:03.1", "1022:1483", speed=4, width=4).add(
        "63:00.0", "144d:a80a", 0x010802, driver="nvme", speed=4, width=4), 894,
        "SAMSUNG MZQL2960HCJR-00A07")
    return m.finish()


def mixed_rails(m):
    """A switch a GPU pair with two NICs, and the storage NIC in a slot of its own."""
    hardware = []
    names = {0x25: "mlx5_0", 0x26: "mlx5_2", 0xA5: "mlx5_10", 0xA6: "mlx5_11"}
    for bus, numa in ((0x21, 0), (0xA1, 1)):
        up = m.host("%02x" % (bus - 1), numa).bridge("%02x:01.1" % (bus - 1), "1022:1483",
                                                    speed=4).bridge("%02x:00.0" % bus, "1000:c010",
                                                                    speed=4)
        for i in range(4):
            down = up.bridge("%02x:%02x.0" % (bus + 1, i), "1000:c010", speed=4)
            bdf = "%02x:00.0" % (bus + 2 + i)
            if i < 2:
                down.add(bdf, G.A100_SXM["pci"], 0x030200, driver="nvidia", speed=4,
                         sub=G.A100_SXM["sub"])
                hardware.append(("0000:" + bdf, numa))
                continue
            nic = down.add(bdf, "15b3:101b", 0x020700, driver="mlx5_core", speed=4)
            hdr(m, names[bus + 2 + i], nic, bus + i)
    slot = m.host("e0", 1).bridge("e0:03.1", "1022:1483", speed=4)
    down = slot.add("e1:00.0", "15b3:101b", 0x020700, driver="mlx5_core", speed=4)
    rdma(m, "mlx5_3", down, "InfiniBand", "10 Gb/sec (4X SDR)", ib_gids(0xE1), state="1: DOWN",
         phys="3: Disabled", guid=guid(0xE1), hca="MT4123", board="MT_0000000223",
         fw="20.39.3560", lid="0xffff", slots=8, uverbs=3)
    mixed_ethernet(m)
    return hardware


def hdr(m, name, nic, n):
    rdma(m, name, nic, "InfiniBand", "200 Gb/sec (4X HDR)", ib_gids(n), guid=guid(n), hca="MT4123",
         board="MT_0000000223", fw="20.39.3560", lid="0x%x" % n, sm_lid="0x3", slots=8,
         uverbs=int(name[5:]))
    net(m, "ib%d" % int(name[5:]), nic, 10 + int(name[5:]), "00:00:10:29:fe:80:00:00:00:00:00:00:"
        "a0:88:c2:03:00:%02x:1a:%02x" % (n, n), mtu=2044, speed=200000, type_=32)
    m.addr("ib%d" % int(name[5:]), "10.60.%d.17" % int(name[5:]), 24)


def mixed_ethernet(m):
    slot = m.host("40", 0).bridge("40:01.1", "1022:1483", speed=4)
    nic = slot.add("41:00.0", "15b3:101d", 0x020000, driver="mlx5_core", speed=4)
    mac = "b8:ce:f6:44:02:1e"
    net(m, "ens2f0np0", nic, 5, mac, mtu=9000, speed=100000)
    m.addr("ens2f0np0", "192.168.80.17", 24)
    rdma(m, "mlx5_1", nic, "Ethernet", "100 Gb/sec (4X EDR)",
         roce_gids(mac, ["192.168.80.17"], "ens2f0np0"), guid="b8ce:f603:0044:021e", hca="MT4125",
         board="MT_0000000359", fw="22.39.3560", uverbs=1)
    board = m.host("c0", 1).bridge("c0:03.1", "1022:1483", speed=3, width=4).add(
        "c1:00.0", "8086:1521", 0x020000, driver="igb", speed=3, width=4)
    net(m, "eno1", board, 2, "08:3a:88:60:7b:12", speed=1000)
    m.addr("eno1", "10.10.0.17", 16)
    routes(m, [("eno1", "0.0.0.0", 0, "10.10.0.1", 100), ("eno1", "10.10.0.0", 16, None, 100),
               ("ens2f0np0", "192.168.80.0", 24, None, 0)] +
           [("ib%d" % n, "10.60.%d.0" % n, 24, None, 0) for n in (0, 2, 10, 11)])
