# SPDX-License-Identifier: MIT
"""virtual: hand-built machines seen from inside a pod or a virtual machine.

Addresses, names and counts follow the documents each function names; serial
numbers, GUIDs, UUIDs and IP addresses are made up.
"""
import gpus as G
from bare import guid, nvidia, nvswitches, NVSWITCHES
from machine import Machine
from sysfs import (V1, link_local, loopback, memory, milan, net, nvme, rdma, roce_gids, routes, spr,
                   virtio, virtio_disk)

# ---- OpenShift

# Switches of the node: (bus of the root, NUMA node).  Below each: GPUs at bus+3 and
# bus+4, a ConnectX-7 at bus+5 with two virtual functions.
SWITCHES = [(0x15, 0), (0x37, 0), (0x97, 1), (0xB7, 1)]
# Which virtual function of each NIC is the pod's, and the RDMA device's number.
OURS = [(0, 6), (1, 9), (1, 11), (0, 12)]
DRIVER = "550.90.07"


def openshift(name="openshift-roce", gpus=True, memlock=-1):
    """A training pod on OpenShift with 4 of 8 H100 and four RoCE virtual functions,
    hand-built.

    Sources: the set-up of EldritchJS/ml-dev-env (net1 to net4, SR-IOV ConnectX-7,
    RoCE v2 at GID 3, memlock and the device plug-in); SR-IOV network operator and OVN
    documents (eth0 is the cluster network, secondary interfaces are net1 …); the GID
    order in NVIDIA/nccl issue 1131; empty GID slots in NVIDIA/nccl issue 1573 (the
    attribute files are there and read EINVAL).  In the shared RDMA namespace mode all
    devices of the host are in /sys/class/infiniband, their GID tables name net devices
    of other namespaces (another pod's "net1" among them), and only the allocated ones
    have a node in /dev/infiniband.
    """
    cpu = spr("Intel(R) Xeon(R) Platinum 8462Y+", 2, 32, "61440K", 4100)
    m = Machine("train-worker-0", "5.14.0-427.50.1.el9_4.x86_64", cpu, iommu="identity")
    m.tree.file("/run/.containerenv", b"")
    m.host_pids = False
    m.os("Ubuntu 22.04.4 LTS", "ubuntu", "22.04")
    m.dmi("Dell Inc.", "PowerEdge XE9680", "0MD9VP", "Dell Inc.")
    m.cmdline("BOOT_IMAGE=(hd0,gpt3)/boot/ostree/rhcos/vmlinuz-5.14.0-427.50.1.el9_4.x86_64 "
              "ostree=/ostree/boot.1/rhcos/0 ignition.platform.id=metal intel_iommu=on iommu=pt "
              "systemd.unified_cgroup_hierarchy=1")
    cpu.write(m.tree)
    memory(m.tree, cpu, 1056302584, huge_1g=0)
    nvswitches(m, m.host("00", 0), config="short")
    loopback(m)
    hardware = pod_rails(m)
    pod_network(m)
    pod_place(m, memlock)
    if gpus:
        pod_gpus(m, hardware)
    else:
        m.nvml = {"nvidia": {"nvml_error": "library 'libnvidia-ml.so.1' not found"}, "gpus": [],
                  "pairs": []}
        m.nvidia_driver(DRIVER, True, [])
        for path in [p for p in m.tree.nodes if p.startswith("/dev/nvidia")]:
            m.tree.remove(path)
        for i, (bus, _) in enumerate(SWITCHES):
            for j in (0, 1):
                bdf = "0000:%02x:00.0" % (bus + 3 + j)
                m.tree.file("/proc/driver/nvidia/gpus/%s/information" % bdf,
                            "Model: \t\t NVIDIA H100 80GB HBM3\nBus Location: \t %s\n"
                            "Device Minor: \t %d\n" % (bdf, 2 * i + j))
    return m.finish()


def openshift_init():
    """The same pod from its init container: it has the network and the host's PCI
    devices but no GPU request, so no driver library and no device node.  Hand-built;
    sources as for openshift-roce."""
    return openshift("openshift-init", gpus=False)


def openshift_memlock():
    """The same pod without IPC_LOCK: CRI-O's default of 8 MiB of locked memory.
    Hand-built; sources as for openshift-roce and ml-dev-env's RDMA debug summary."""
    return openshift("openshift-memlock", memlock=8 << 20)


def pod_rails(m):
    """The node's switches.  A pod's root without CAP_SYS_ADMIN reads 64 bytes of
    configuration space, so ACS stays unknown."""
    hardware = []
    for i, (bus, numa) in enumerate(SWITCHES):
        root = m.host("%02x" % bus, numa).bridge("%02x:01.0" % bus, "8086:352a", config="short")
        up = root.bridge("%02x:00.0" % (bus + 1), config="short")
        for j in (0, 1):
            bdf = "%02x:00.0" % (bus + 3 + j)
            up.bridge("%02x:%02x.0" % (bus + 2, j), config="short").add(
                bdf, G.H100_SXM["pci"], 0x030200, driver="nvidia", speed=5, config="short",
                sub=G.H100_SXM["sub"])
            hardware.append(("0000:" + bdf, numa))
        port = up.bridge("%02x:02.0" % (bus + 2), config="short")
        pod_nic(m, i, port, "%02x:00" % (bus + 5))
    slot = m.host("29", 0).bridge("29:01.0", "8086:352a", config="short")
    for fn in (0, 1):  # the host's own ports: in another network namespace
        pf = slot.add("2a:00.%d" % fn, "15b3:101d", 0x020000, driver="mlx5_core", speed=4,
                      config="short")
        rdma(m, "mlx5_%d" % fn, pf, "Ethernet", "25 Gb/sec (1X EDR)",
             roce_gids("b8:3f:d2:0c:5a:%02x" % (0xE0 + fn), [] if fn else ["10.8.20.31"],
                       "br-ex" if not fn else "ens1f1np1"), guid=guid(0x2A + fn), hca="MT4125",
             board="DEL0000000027", fw="22.39.1002", uverbs=fn, node_visible=False)
    return hardware


def pod_nic(m, i, port, bus):
    """A physical function, which the host keeps, and two virtual ones: ours and
    another pod's."""
    pf = port.add(bus + ".0", "15b3:1021", 0x020000, driver="mlx5_core", speed=5, config="short")
    vfs = [port.add("%s.%d" % (bus, 1 + k), "15b3:101e", 0x020000, driver="mlx5_core", speed=5,
                    config="vf") for k in (0, 1)]
    pf.sriov(16, vfs)
    rdma(m, "mlx5_%d" % (2 + i), pf, "Ethernet", "400 Gb/sec (4X NDR)",
         roce_gids("a0:88:c2:71:0%d:00" % i, [], "ens%df0np0" % (3 + i)), guid=guid(0x50 + i),
         board="DEL0000000046", uverbs=2 + i, node_visible=False)
    ours, number = OURS[i]
    for k, vf in enumerate(vfs):
        mine = k == ours
        n = number if mine else number ^ 1
        mac = "%s:c2:71:0%d:%02x" % ("0a:58" if mine else "4e:91", i, n)
        address = "10.0.%d.%d" % (101 + i, 14 if mine else 57)
        rdma(m, "mlx5_%d" % n, vf, "Ethernet", "400 Gb/sec (4X NDR)",
             roce_gids(mac, [address], "net%d" % (1 + i)), guid=guid(0x60 + n),
             board="DEL0000000046", uverbs=n, node_visible=mine,
             slots=256 if mine and i == 0 else 16)
        if mine:
            net(m, "net%d" % (1 + i), vf, 20 + i, mac, mtu=9000, speed=400000)
            m.addr("net%d" % (1 + i), address, 24)
            m.addr("net%d" % (1 + i), link_local(mac), 64)
        else:
            m.tree.dir(vf.path + "/net")


def pod_network(m):
    net(m, "eth0", index=2, iflink=214, mac="0a:58:0a:80:02:11", mtu=8900, speed=10000)
    m.addr("eth0", "10.128.2.17", 23)
    m.addr("eth0", link_local("0a:58:0a:80:02:11"), 64)
    routes(m, [("eth0", "0.0.0.0", 0, "10.128.2.1", 0), ("eth0", "10.128.0.0", 14, "10.128.2.1", 0),
               ("eth0", "10.128.2.0", 23, None, 0), ("eth0", "172.30.0.0", 16, "10.128.2.1", 0)] +
           [("net%d" % (1 + i), "10.0.%d.0" % (101 + i), 24, None, 0) for i in range(4)])


def pod_place(m, memlock):
    pod = "2c1c0a6e-60a5-4a83-a5ba-0e52a56cf0a7"
    m.cgroup2("/", cpu_max="6400000 100000", mem=str(768 << 30), pids="16384")
    m.base_mounts()
    m.mount("overlay", "/", "overlay", "rw,relatime", 893, 611)
    m.mount("shm", "/dev/shm", "tmpfs", "rw,nosuid,nodev,noexec,relatime", 64, 64)
    m.mount("/dev/sda4", "/etc/hosts", "xfs", "rw,relatime",
            at="/ostree/deploy/rhcos/var/lib/kubelet/pods/%s/etc-hosts" % pod)
    m.mount("tmpfs", "/run/secrets/kubernetes.io/serviceaccount", "tmpfs", "ro,relatime",
            at="/")
    m.mount("10.8.24.5:/training", "/data", "nfs4", "rw,relatime,vers=4.1,proto=tcp", 102400,
            40211)
    folder = "/run/secrets/kubernetes.io/serviceaccount"
    m.tree.files(folder, namespace="ml-training")
    m.tree.link("/var/run", "/run")
    m.memlock, m.memlock_hard = memlock, memlock
    m.modules("nvidia", "nvidia_uvm", "nvidia_peermem", "mlx5_core", "mlx5_ib", "ib_core",
              "ib_uverbs", "rdma_cm", "rdma_ucm", "openvswitch", "geneve")
    m.module_version("nvidia_peermem", DRIVER)
    m.tree.file("/dev/infiniband/rdma_cm", b"")
    m.cuda("12.4.1", "2.21.5", "9.1.0")
    m.verbs()
    m.tree.file("/usr/local/lib/python3.10/dist-packages/torch/version.py",
                "__version__ = '2.4.0a0+f70bd71a48.nv24.06'\ncuda: Optional[str] = '12.4'")
    m.packages = [("libcudnn9-cuda-12", "9.1.0.70-1"), ("libnccl2", "2.21.5-1+cuda12.4"),
                  ("rdma-core", "39.0-1")]
    m.env = {"KUBERNETES_SERVICE_HOST": "172.30.0.1", "KUBERNETES_SERVICE_PORT": "443",
             "HOSTNAME": m.hostname, "NODE_NAME": "gpu-node-3", "POD_NAME": m.hostname,
             "POD_NAMESPACE": "ml-training", "container": "oci"}


def pod_gpus(m, hardware):
    """The first GPU below each switch is the pod's; the driver counts from 0."""
    shown = hardware[0::2]
    found = []
    for i, (bdf, _) in enumerate(shown):
        g = G.gpu(i, G.H100_SXM, bdf, 600 + i, DRIVER, minor=2 * i)
        G.link_switches(g, G.H100_SXM, NVSWITCHES)
        G.fabric(g)
        found.append(g)
    m.nvml = {"nvidia": nvidia(DRIVER, 12040, "12.550.90.07"), "gpus": found,
              "pairs": G.pairs(found, nvlink="ok")}
    m.nvidia_driver(DRIVER, True, [(b, 2 * i, G.H100_SXM["name"]) for i, (b, _) in
                                   enumerate(shown)])
    m.env["NVIDIA_VISIBLE_DEVICES"] = ",".join(g["uuid"] for g in found)


# ---- virtual machines
def mig_h200():
    """A virtual machine with one H200 in seven slices, hand-built.

    Sources: MIG User Guide, H200 profiles; `nvidia-smi mig -lgip` of an H200 in
    NVIDIA/mig-parted issue 120 (1g.18gb: 16 GiB and 16 SMs, 2g.35gb: 32.25 GiB and 32;
    two 2g at 0 and 2, three 1g at 4, 5 and 6 fill the seven compute slices); all other
    figures of the GPU as a real H200 in a VM answers them (nvidia-smi -q of driver 580).
    """
    cpu = spr("Intel(R) Xeon(R) Platinum 8468", 1, 24, "32768K", 2100, smt=1)
    cpu.flags += " hypervisor"
    m = Machine("mig-0", "6.8.0-79-generic", cpu)
    driver = "580.95.05"
    m.os("Ubuntu 24.04.3 LTS", "ubuntu", "24.04")
    m.dmi("QEMU", "Standard PC (Q35 + ICH9, 2009)", bios="SeaBIOS")
    m.cmdline("BOOT_IMAGE=/vmlinuz-6.8.0-79-generic root=/dev/vda1 ro console=ttyS0")
    cpu.write(m.tree)
    memory(m.tree, cpu, 264030148)
    loopback(m)
    root = m.host("00")
    card = root.add("00:02.0", "1af4:1041", 0x020000, driver="virtio-pci")
    net(m, "enp0s2", virtio(m, card, 0, "virtio_net"), 2, "52:54:00:ab:10:02", mtu=1500)
    m.addr("enp0s2", "192.168.122.40", 24)
    routes(m, [("enp0s2", "0.0.0.0", 0, "192.168.122.1", 100),
               ("enp0s2", "192.168.122.0", 24, None, 100)])
    disk = root.add("00:03.0", "1af4:1042", 0x010000, driver="virtio-pci")
    virtio_disk(m, "vda", virtio(m, disk, 1, "virtio_blk"), 200)
    root.add("00:06.0", G.H200_SXM["pci"], 0x030200, driver="nvidia", speed=5,
             sub=G.H200_SXM["sub"])
    g = G.gpu(0, G.H200_SXM, "0000:00:06.0", 700, driver)
    G.mig(g, [("2g.35gb", 3, 33024, 32, 2), ("2g.35gb", 5, 33024, 32, 2),
              ("1g.18gb", 9, 16384, 16, 1), ("1g.18gb", 10, 16384, 16, 1),
              ("1g.18gb", 11, 16384, 16, 1)])
    g.update(virtualization="passthrough", fabric_state="not-supported",
             nvlinks_total=None)
    m.nvml = {"nvidia": nvidia(driver, 13000, "13.580.95.05"), "gpus": [g], "pairs": []}
    m.nvidia_driver(driver, True, [("0000:00:06.0", 0, G.H200_SXM["name"])])
    m.modules("nvidia", "nvidia_uvm", "nvidia_modeset", "virtio_net")
    m.daemons = ["nvidia-persistenced", "dockerd", "containerd"]
    m.memlock = m.memlock_hard = 32 << 30
    m.cgroup2("/user.slice/user-1000.slice/session-1.scope")
    m.base_mounts()
    m.mount("/dev/vda1", "/", "ext4", "rw,relatime", 193, 101)
    m.mount("tmpfs", "/dev/shm", "tmpfs", "rw,nosuid,nodev", 125.9, 125.9)
    m.cuda("13.0.1", "2.27.7")
    m.packages = [("containerd", "1.7.27-0ubuntu1"), ("docker.io", "27.5.1-0ubuntu3"),
                  ("nvidia-container-toolkit", "1.17.8-1")]
    m.tree.file("/usr/bin/dockerd", b"")
    m.tree.file("/usr/bin/nvidia-ctk", b"")
    return m.finish()


def cloud_efa():
    """A cloud VM in the style of AWS p5.48xlarge: 8 H100, 32 EFA devices, hand-built.

    Sources: device names rdmap79s0 … rdmap201s0, four beside each GPU: aws/eks-charts
    pull request 1110; what sysfs says of EFA (link layer "Unknown", vendor 0x1d0f, state
    always ACTIVE): NVIDIA/NVSentinel pull request 1750 and the kernel's efa driver (no
    hca_type, no board_id, one GID without a net device); instance facts: AWS's p5 page.
    PCI is flat, as on earlier instances, with the NUMA node missing on half of it, so
    that no distance can be known there.
    """
    cpu = milan("AMD EPYC 7R13 Processor", 2, 48, 2, 8, 3650)
    cpu.flags += " hypervisor"
    m = Machine("ip-10-1-32-7", "6.1.112-124.190.amzn2023.x86_64", cpu)
    driver = "550.127.05"
    m.os("Amazon Linux 2023.6.20241010", "amzn", "2023")
    m.dmi("Amazon EC2", "p5.48xlarge", bios="Amazon EC2")
    m.cmdline("BOOT_IMAGE=(hd0,gpt1)/boot/vmlinuz-6.1.112 root=UUID=3f1b ro console=tty0 "
              "nvme_core.io_timeout=4294967295")
    cpu.write(m.tree)
    memory(m.tree, cpu, 2079213400, huge_2m=5128, distances=[[10, 32], [32, 10]])
    loopback(m)
    hardware = efa_devices(m)
    switches = ["0000:%02x:00.0" % b for b in (0xD8, 0xD9, 0xDA, 0xDB)]
    for bdf in switches:
        m.host(bdf[5:7]).add(bdf, "10de:22a3", 0x068000, driver="nvidia-nvswitch")
    found = []
    for i, (bdf, _) in enumerate(hardware):
        g = G.gpu(i, G.H100_SXM, bdf, 800 + i, driver)
        G.link_switches(g, G.H100_SXM, switches)
        G.fabric(g)
        g["virtualization"] = "passthrough"
        found.append(g)
    m.nvml = {"nvidia": nvidia(driver, 12040, "12.550.127.05"), "gpus": found,
              "pairs": G.pairs(found, nvlink="ok")}
    m.nvidia_driver(driver, True, [(b, i, G.H100_SXM["name"]) for i, (b, _) in enumerate(hardware)])
    m.modules("nvidia", "nvidia_uvm", "efa", "ib_core", "ib_uverbs", "ena", "lustre")
    m.module_version("efa", "2.10.0g")
    m.daemons = ["nv-fabricmanager", "nvidia-persistenced"]
    efa_front(m)
    m.cgroup2("/system.slice/sshd.service")
    m.cuda("12.4.1", "2.23.4", lib="/usr/lib64")
    m.verbs("/usr/lib64")
    m.env = {"LD_LIBRARY_PATH": "/opt/amazon/ofi-nccl/lib64:/opt/amazon/efa/lib64"}
    m.shared_lib("/opt/amazon/efa/lib64/libfabric.so.1", "libfabric.so.1.25.0")
    m.shared_lib("/opt/amazon/ofi-nccl/lib64/libnccl-net.so", "libnccl-net-ofi.so")
    return m.finish()


def efa_devices(m):
    """Four EFA functions and a GPU, eight times, every one on a bus of its own."""
    hardware = []
    n = 0
    for i in range(8):
        first = 0x4F + 17 * i
        numa = 0 if i < 4 else -1
        for bus in range(first, first + 4):
            dev = m.host("%02x" % bus, numa).add("%02x:00.0" % bus, "1d0f:efa2", 0x020000,
                                                 driver="efa")
            rdma(m, "rdmap%ds0" % bus, dev, "Unknown", "100 Gb/sec (4X EDR)",
                 [("fe80::%02x:7aff:fe11:%04x" % (bus, 0x100 + n), V1, None)], guid=None, hca=None,
                 board=None, fw="0.0.0.0", node="7: unspecified", slots=1)
            n += 1
        bdf = "0000:%02x:00.0" % (first + 4)
        m.host("%02x" % (first + 4), numa).add(bdf, G.H100_SXM["pci"], 0x030200, driver="nvidia",
                                               sub=G.H100_SXM["sub"])
        hardware.append((bdf, numa))
    return hardware


def efa_front(m):
    ena = m.host("00", 0).add("00:05.0", "1d0f:ec20", 0x020000, driver="ena")
    net(m, "ens5", ena, 2, "0e:1a:7b:00:20:07", mtu=9001)
    m.addr("ens5", "10.1.32.7", 20)
    m.addr("ens5", link_local("0e:1a:7b:00:20:07"), 64)
    routes(m, [("ens5", "0.0.0.0", 0, "10.1.32.1", 512), ("ens5", "10.1.32.0", 20, None, 512),
               ("ens5", "169.254.169.254", 32, None, 512)])
    for i in range(9):
        bdf = "00:04.0" if i == 0 else "%02x:00.0" % (0x53 + 17 * (i - 1) + 1)
        host = m.host("00", 0) if i == 0 else m.host(bdf[:2])
        dev = host.add(bdf, "1d0f:8061" if i == 0 else "1d0f:cd01", 0x010802, driver="nvme")
        nvme(m, i, dev, 500 if i == 0 else 3538, "Amazon Elastic Block Store" if i == 0 else
             "Amazon EC2 NVMe Instance Storage")
    m.base_mounts()
    m.mount("/dev/nvme0n1p1", "/", "xfs", "rw,noatime", 499, 401)
    m.mount("tmpfs", "/dev/shm", "tmpfs", "rw,nosuid,nodev", 991.4, 991.4)
    m.mount("10.1.40.12@tcp:/ab3kvbev", "/fsx", "lustre", "rw,noatime,flock", 4470, 2301)
