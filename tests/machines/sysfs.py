# SPDX-License-Identifier: MIT
"""sysfs: writes the kernel's files of a machine into a tree.

The layout is the kernel's: a device is a folder below /sys/devices at its place in
the PCI hierarchy, and /sys/bus and /sys/class hold relative links to it.  Only what
`stoker detect` reads is written, with the texts the kernel's drivers print.

Nothing here knows a product; build.py does.
"""
import struct

EINVAL, ENODEV, EOPNOTSUPP = 22, 19, 95

GEN = {3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe"}
# ACS control as Linux sets it when an IOMMU translates: source validation, request
# and completion redirect, upstream forwarding.
ACS_ON, ACS_OFF = 0x1D, 0x00


# ---- lists of CPUs
def cpulist(cpus):
    """[0,1,2,8] -> "0-2,8", the kernel's list format."""
    out, cpus = [], sorted(cpus)
    i = 0
    while i < len(cpus):
        j = i
        while j + 1 < len(cpus) and cpus[j + 1] == cpus[j] + 1:
            j += 1
        out.append(str(cpus[i]) if i == j else "%d-%d" % (cpus[i], cpus[j]))
        i = j + 1
    return ",".join(out)


# ---- processors
class Cpu:
    """Sockets of cores with threads; thread siblings are i and i+cores, as Linux
    numbers them on x86.  l3_cores: cores that share a last-level cache."""

    def __init__(self, model, vendor, sockets, cores, smt, nodes, caches, l3_cores, mhz, flags,
                 family=6, number=143):
        self.model, self.vendor, self.sockets, self.cores = model, vendor, sockets, cores
        self.smt, self.node_count, self.caches, self.l3_cores = smt, nodes, caches, l3_cores
        self.mhz, self.flags, self.family, self.number = mhz, flags, family, number
        self.total_cores = sockets * cores
        self.threads = self.total_cores * smt
        self.per_node = self.total_cores // nodes

    def core_threads(self, core):
        return [core + t * self.total_cores for t in range(self.smt)]

    def group(self, first, count):
        return sorted(t for c in range(first, first + count) for t in self.core_threads(c))

    def node_cpus(self, node):
        return self.group(node * self.per_node, self.per_node)

    def node_list(self, node):
        return cpulist(self.node_cpus(node))

    def write(self, tree, governor=None, online=None):
        base = "/sys/devices/system/cpu"
        span = online or cpulist(range(self.threads))
        tree.files(base, online=span, present=span, possible=span)
        tree.files(base + "/smt", active="1" if self.smt > 1 else "0",
                   control="on" if self.smt > 1 else "notsupported")
        for cpu in range(self.threads):
            self._write_one(tree, "%s/cpu%d" % (base, cpu), cpu)
        if governor:
            tree.files(base + "/cpu0/cpufreq", scaling_governor=governor,
                       cpuinfo_max_freq=self.mhz * 1000, scaling_max_freq=self.mhz * 1000)
        tree.file("/proc/cpuinfo", "\n".join(self._info(c) for c in range(self.threads)))

    def _write_one(self, tree, path, cpu):
        core = cpu % self.total_cores
        socket = core // self.cores
        siblings = cpulist(self.core_threads(core))
        tree.files(path + "/topology", physical_package_id=socket, core_id=core % self.cores,
                   thread_siblings_list=siblings)
        for i, (level, kind, size) in enumerate(self.caches):
            shared = siblings
            if level == 3:
                shared = cpulist(self.group(core // self.l3_cores * self.l3_cores, self.l3_cores))
            tree.files("%s/cache/index%d" % (path, i), level=level, type=kind, size=size,
                       shared_cpu_list=shared)

    def _info(self, cpu):
        core = cpu % self.total_cores
        rows = [("processor", cpu), ("vendor_id", self.vendor), ("cpu family", self.family),
                ("model", self.number), ("model name", self.model),
                ("physical id", core // self.cores), ("siblings", self.cores * self.smt),
                ("core id", core % self.cores), ("cpu cores", self.cores), ("flags", self.flags)]
        return "".join("%s\t: %s\n" % row for row in rows)


INTEL_FLAGS = ("fpu vme de pse tsc msr sse sse2 ht ssse3 fma sse4_1 sse4_2 popcnt aes avx f16c "
               "rdrand abm avx2 bmi2 avx512f avx512dq avx512cd avx512bw avx512vl avx_vnni avx512_bf16 "
               "avx512_vbmi avx512_vnni amx_bf16 avx512_fp16 amx_tile amx_int8")
AMD_FLAGS = ("fpu vme de pse tsc msr sse sse2 ht ssse3 fma sse4_1 sse4_2 popcnt aes avx f16c "
             "rdrand abm sse4a avx2 bmi2 vaes vpclmulqdq")


def spr(model, sockets, cores, l3, mhz, nodes=None, smt=2):
    """Sapphire Rapids: 48K/32K/2M a core, one L3 a socket."""
    caches = [(1, "Data", "48K"), (1, "Instruction", "32K"), (2, "Unified", "2048K"),
              (3, "Unified", l3)]
    return Cpu(model, "GenuineIntel", sockets, cores, smt, nodes or sockets, caches, cores, mhz,
               INTEL_FLAGS)


def milan(model, sockets, cores, nodes, ccx_cores, mhz, smt=2):
    """Zen 3: 32K/32K/512K a core, a 32 MiB L3 a core complex."""
    caches = [(1, "Data", "32K"), (1, "Instruction", "32K"), (2, "Unified", "512K"),
              (3, "Unified", "32768K")]
    return Cpu(model, "AuthenticAMD", sockets, cores, smt, nodes, caches, ccx_cores, mhz,
               AMD_FLAGS, family=25, number=1)


# ---- memory
def memory(tree, cpu, total_kb, huge_2m=0, huge_1g=0, distances=None, thp="madvise", swap_kb=0):
    """meminfo, NUMA nodes with equal shares, hugepage pools (2 MiB and 1 GiB)."""
    avail = total_kb * 97 // 100
    tree.file("/proc/meminfo", "".join("%-15s %10d kB\n" % (k + ":", v) for k, v in [
        ("MemTotal", total_kb), ("MemFree", avail - 1048576), ("MemAvailable", avail),
        ("SwapTotal", swap_kb), ("SwapFree", swap_kb)]) +
        "HugePages_Total:   %5d\nHugePages_Free:    %5d\nHugepagesize:       2048 kB\n"
        % (huge_2m, huge_2m))
    words = [("[%s]" if w == thp else "%s") % w for w in ("always", "madvise", "never")]
    tree.file("/sys/kernel/mm/transparent_hugepage/enabled", " ".join(words))
    pools(tree, "/sys/kernel/mm/hugepages", huge_2m, huge_1g)
    base = "/sys/devices/system/node"
    n = cpu.node_count
    tree.files(base, online=cpulist(range(n)), possible=cpulist(range(n)),
               has_cpu=cpulist(range(n)), has_memory=cpulist(range(n)))
    for i in range(n):
        path = "%s/node%d" % (base, i)
        row = distances[i] if distances else [10 if i == j else 21 for j in range(n)]
        tree.files(path, cpulist=cpu.node_list(i), distance=" ".join(map(str, row)),
                   meminfo="Node %d MemTotal:       %d kB\nNode %d MemFree:        %d kB\n"
                   % (i, total_kb // n, i, avail // n))
        pools(tree, path + "/hugepages", huge_2m // n, huge_1g // n)


def pools(tree, base, huge_2m, huge_1g):
    for kb, count in ((2048, huge_2m), (1048576, huge_1g)):
        tree.files("%s/hugepages-%dkB" % (base, kb), nr_hugepages=count, free_hugepages=count)


# ---- PCI
class Pci:
    """One PCI function or, without bdf, a host bridge."""

    def __init__(self, machine, path, bdf=None, numa=-1):
        self.m, self.path, self.bdf, self.numa = machine, path, bdf, numa

    def add(self, bdf, ids, class_, driver=None, speed=None, width=None, max_speed=None,
            max_width=None, config="full", acs=None, sub=None, numa=None):
        """A function below this bridge.  ids "10de:2330"; class_ 0x030200; speed is a
        PCIe generation; config: "full" (root reads 4 KiB), "short" (64 bytes, what an
        unprivileged reader gets), "vf" (those of a virtual function), "ones" (the device
        does not answer), None; acs: the control word of an ACS capability, or None."""
        bdf = bdf if bdf.count(":") == 2 else "0000:" + bdf
        dev = Pci(self.m, "%s/%s" % (self.path, bdf), bdf, self.numa if numa is None else numa)
        t, p = self.m.tree, dev.path
        vendor, device = ids.split(":")
        subv, subd = (sub or ids).split(":")
        t.files(p, vendor="0x" + vendor, device="0x" + device, **{"class": "0x%06x" % class_},
                subsystem_vendor="0x" + subv, subsystem_device="0x" + subd, revision="0xa1",
                numa_node=dev.numa, local_cpulist=self.m.near(dev.numa), enable="1",
                power_state="D0")
        if speed:
            t.files(p, current_link_speed=GEN[speed], current_link_width=width or 16,
                    max_link_speed=GEN[max_speed or speed], max_link_width=max_width or width or 16)
        if config:
            t.file(p + "/config", config_space(vendor, device, class_, config, acs))
        if driver:
            dev.driver(driver)
        t.rel_link("/sys/bus/pci/devices/" + bdf, p)
        group = self.m.iommu_group()
        if group is not None:
            t.rel_link(p + "/iommu_group", "/sys/kernel/iommu_groups/%d" % group)
            t.rel_link("/sys/kernel/iommu_groups/%d/devices/%s" % (group, bdf), p)
            t.file("/sys/kernel/iommu_groups/%d/type" % group, self.m.iommu)
        return dev

    def bridge(self, bdf, ids="1000:c030", speed=5, width=16, acs=ACS_OFF, config="full"):
        return self.add(bdf, ids, 0x060400, driver="pcieport", speed=speed, width=width, acs=acs,
                        config=config)

    def driver(self, name):
        self.m.tree.dir("/sys/bus/pci/drivers/" + name)
        self.m.tree.rel_link(self.path + "/driver", "/sys/bus/pci/drivers/" + name)

    def sriov(self, total, vfs):
        """Marks vfs (Pci functions beside it) as its virtual functions."""
        self.m.tree.files(self.path, sriov_totalvfs=total, sriov_numvfs=len(vfs))
        for i, vf in enumerate(vfs):
            self.m.tree.rel_link("%s/virtfn%d" % (self.path, i), vf.path)
            self.m.tree.rel_link(vf.path + "/physfn", self.path)


def config_space(vendor, device, class_, how, acs):
    """Configuration space: the header, a PCIe capability at 0x40, and in the extended
    part an AER capability and, when acs is given, ACS behind it."""
    if how == "ones":
        return b"\xff" * 64
    raw = bytearray(4096)
    header = 1 if class_ >> 8 == 0x0604 else 0
    struct.pack_into("<HHHHB", raw, 0, int(vendor, 16), int(device, 16), 0x0546, 0x0010, 0xA1)
    raw[9:12] = class_.to_bytes(3, "little")
    raw[14] = header
    raw[0x34] = 0x40
    struct.pack_into("<BBH", raw, 0x40, 0x10, 0x00, 0x0062 if header else 0x0002)
    struct.pack_into("<I", raw, 0x100, 0x00020001 | (0x150 << 20 if acs is not None else 0))
    if acs is not None:
        struct.pack_into("<IHH", raw, 0x150, 0x0001000D, 0x005F, acs)
    if how == "vf":
        raw[0:4] = b"\xff\xff\xff\xff"  # by the SR-IOV rules; the kernel knows the ids
    return bytes(raw) if how == "full" else bytes(raw[:64])


# ---- network
def net(m, name, pci=None, index=2, mac="02:00:00:00:00:01", mtu=1500, speed=None, state="up",
        kind=None, port=0, type_=1, iflink=None, extra=None):
    """A network interface: below its PCI function, or a virtual one when pci is None.
    kind: the DEVTYPE of uevent ("bond", "bridge", "vlan", …)."""
    t = m.tree
    home = pci.path if pci else "/sys/devices/virtual"
    path = "%s/net/%s" % (home, name)
    t.files(path, address=mac, mtu=mtu, operstate=state, ifindex=index, type=type_,
            iflink=iflink or index, dev_id="0x0", dev_port=port, tx_queue_len=1000,
            flags="0x1003" if state != "down" else "0x1002",
            uevent=("DEVTYPE=%s\n" % kind if kind else "") +
            "INTERFACE=%s\nIFINDEX=%d\n" % (name, index))
    if state == "up":
        t.file(path + "/carrier", 1)
    if speed is None:
        t.error(path + "/speed", EINVAL)
    else:
        t.file(path + "/speed", speed)
    if pci:
        t.rel_link(path + "/device", pci.path)
    for sub, data in (extra or {}).items():
        t.file("%s/%s" % (path, sub), data)
    t.rel_link("/sys/class/net/" + name, path)
    m.ifs.append({"name": name, "ifindex": index, "up": state != "down",
                  "running": state in ("up", "unknown"), "loopback": name == "lo"})
    return path


def virtio(m, pci, index, driver):
    """The virtio device of a PCI function: what stands on it has this as its device."""
    path = "%s/virtio%d" % (pci.path, index)
    m.tree.dir("/sys/bus/virtio/drivers/" + driver)
    m.tree.rel_link(path + "/driver", "/sys/bus/virtio/drivers/" + driver)
    return Pci(m, path, pci.bdf, pci.numa)


def loopback(m):
    net(m, "lo", index=1, mac="00:00:00:00:00:00", mtu=65536, state="unknown", type_=772)
    m.addr("lo", "127.0.0.1", 8)
    m.addr("lo", "::1", 128)


def bond(m, name, slaves, **more):
    path = net(m, name, kind="bond", extra={
        "bonding/slaves": " ".join(slaves), "bonding/mode": "802.3ad 4",
        "bonding/mii_status": "up"}, **more)
    for slave in slaves:
        real = m.tree.nodes["/sys/class/net/" + slave][1].replace("../../", "/sys/", 1)
        m.tree.rel_link(real + "/master", path)
    return path


def hexip(text):
    """10.128.2.17 as /proc/net/route writes it."""
    return "%02X%02X%02X%02X" % tuple(int(b) for b in reversed(text.split(".")))


def routes(m, rows):
    """rows: (dev, dst, prefix, gateway or None, metric)."""
    text = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
    for dev, dst, prefix, gateway, metric in rows:
        mask = (0xFFFFFFFF << (32 - prefix)) & 0xFFFFFFFF
        mask = "%02X%02X%02X%02X" % tuple(mask.to_bytes(4, "little"))
        text += "%s\t%s\t%s\t%04d\t0\t0\t%d\t%s\t0\t0\t0\n" % (
            dev, hexip(dst), hexip(gateway or "0.0.0.0"), 3 if gateway else 1, metric, mask)
    m.tree.file("/proc/net/route", text)


def routes6(m, rows):
    """rows: (dev, dst, prefix, gateway or None, metric), addresses written in full."""
    text = ""
    for dev, dst, prefix, gateway, metric in rows:
        text += "%s %02x %s 00 %s %08x 00000001 00000000 %08x %8s\n" % (
            hex6(dst), prefix, "0" * 32, hex6(gateway or "::"), metric, 3 if gateway else 1, dev)
    m.tree.file("/proc/net/ipv6_route", text)


def groups6(text):
    """The eight groups of an IPv6 address."""
    head, _, tail = text.partition("::")
    head = head.split(":") if head else []
    tail = tail.split(":") if tail else []
    gap = ["0"] * (8 - len(head) - len(tail)) if "::" in text else []
    return ["%04x" % int(g, 16) for g in head + gap + tail]


def hex6(text):
    return "".join(groups6(text))


def gid_of(address):
    """An address as a GID: IPv4 mapped, IPv6 as it is."""
    if ":" in address:
        return ":".join(groups6(address))
    b = [int(x) for x in address.split(".")]
    return "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x" % tuple(b)


def link_local(mac):
    """The address a kernel makes of a MAC (EUI-64)."""
    b = [int(x, 16) for x in mac.split(":")]
    return "fe80::%02x%02x:%02xff:fe%02x:%02x%02x" % (b[0] ^ 2, b[1], b[2], b[3], b[4], b[5])


# ---- RDMA
V1, V2 = "IB/RoCE v1", "RoCE v2"


def rdma(m, name, pci, layer, rate, gids, state="4: ACTIVE", phys="5: LinkUp", guid=None,
         hca="MT4129", board="MT_0000000838", fw="28.39.1002", lid="0x0", sm_lid="0x0", slots=16,
         node="1: CA", uverbs=None, node_visible=True, image=None):
    """An RDMA device with one port.  gids: (address or GID, type, ndev or None); the
    slots behind them are empty: an all-zero GID whose attributes read EINVAL."""
    t = m.tree
    path = "%s/infiniband/%s" % (pci.path, name)
    t.files(path, node_type=node, node_guid=guid, sys_image_guid=image or guid, fw_ver=fw, hca_type=hca,
            board_id=board, hw_rev="0x0" if hca else None, node_desc="%s %s" % (m.hostname, name))
    t.rel_link(path + "/device", pci.path)
    t.rel_link("/sys/class/infiniband/" + name, path)
    port = path + "/ports/1"
    t.files(port, state=state, phys_state=phys, rate=rate, link_layer=layer, lid=lid,
            sm_lid=sm_lid, lid_mask_count=0, cap_mask="0x00010000")
    for i in range(max(slots, len(gids))):
        address, kind, ndev = gids[i] if i < len(gids) else ("::", None, None)
        t.file("%s/gids/%d" % (port, i), gid_of(address))
        put(t, "%s/gid_attrs/types/%d" % (port, i), kind)
        put(t, "%s/gid_attrs/ndevs/%d" % (port, i), ndev)
    n = m.uverbs if uverbs is None else uverbs
    m.uverbs = n + 1
    verbs = "%s/infiniband_verbs/uverbs%d" % (pci.path, n)
    t.files(verbs, ibdev=name, dev="231:%d" % (192 + n), abi_version=1)
    t.rel_link(verbs + "/device", pci.path)
    t.rel_link("/sys/class/infiniband_verbs/uverbs%d" % n, verbs)
    if node_visible:
        t.file("/dev/infiniband/uverbs%d" % n, b"")
    return path


def put(tree, path, value):
    if value is None:
        tree.error(path, EINVAL)
    else:
        tree.file(path, value)


def roce_gids(mac, addresses, ndev):
    """The table mlx5 fills: link-local v1 and v2, then each address v1 and v2."""
    out = []
    for address in [link_local(mac)] + list(addresses):
        out += [(address, V1, ndev), (address, V2, ndev)]
    return out


# ---- block devices
def nvme(m, index, pci, gib, model, rotational=0):
    t, name = m.tree, "nvme%dn1" % index
    ctrl = "%s/nvme/nvme%d" % (pci.path, index)
    path = "%s/%s" % (ctrl, name)
    t.files(ctrl, model="%-40s" % model, serial="S%011d" % index, transport="pcie", state="live",
            numa_node=pci.numa, firmware_rev="GDC7502Q")
    t.rel_link(ctrl + "/device", pci.path)
    t.files(path, size=gib * 2097152, ro=0, removable=0)
    t.files(path + "/queue", rotational=rotational, scheduler="[none] mq-deadline",
            logical_block_size=512)
    t.rel_link(path + "/device", ctrl)
    t.rel_link("/sys/block/" + name, path)
    t.rel_link("/sys/class/block/" + name, path)


def virtio_disk(m, name, dev, gib):
    """dev: what virtio() gave."""
    t = m.tree
    path = "%s/block/%s" % (dev.path, name)
    t.files(path, size=gib * 2097152, ro=0, removable=0)
    t.files(path + "/queue", rotational=1, scheduler="[none] mq-deadline")
    t.rel_link(path + "/device", dev.path)
    t.rel_link("/sys/block/" + name, path)
    t.rel_link("/sys/class/block/" + name, path)
