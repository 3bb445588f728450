#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""rails: GPU servers that differ in where their NICs are and which fabric they are on.

    tests/machines/rails.py OUT-DIR [NAME…]     OUT-DIR/NAME.tar
    tests/machines/rails.py --list

Each machine is a list of PCIe slots, hand-built: a slot is a root port with a device, or
with a switch and several.  They are no product; each is one way in which compute, storage
and management NICs have been seen to stand beside GPUs.  tests/cli/ports.t says what must
come of them; no golden files hang on them.
"""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)

import gpus as G  # noqa: E402
from bare import NVSWITCHES, nvidia, nvswitches  # noqa: E402
from machine import Machine  # noqa: E402
from sysfs import (V1, V2, bond, loopback, memory, milan, net, rdma, roce_gids, routes, spr)  # noqa: E402

DRIVER = "550.90.07"
CX6, CX7, BF3, CX4 = (("MT4123", "MT_0000000223"), ("MT4129", "MT_0000000838"),
                      ("MT41692", "MT_0000000884"), ("MT4117", "MT_0000000266"))
GPU = "gpu"


class Nic:
    """layer "ib" or "roce"; addrs: (address, prefix[, VLAN]) of its network devices."""

    def __init__(self, name, layer, gbps, kind=CX7, addrs=(), sm=1, prefix="fe80::", state=None,
                 ipoib=None, rate=None, vfs=(),
                 gateway=None, lid=None, foreign=(), bond=False):
        self.name, self.layer, self.gbps, self.kind = name, layer, gbps, kind
        self.addrs, self.sm, self.prefix, self.state = list(addrs), sm, prefix, state
        self.ipoib, self.rate, self.vfs, self.gateway = ipoib, rate, vfs, gateway
        self.lid, self.foreign = lid, foreign  # addresses of devices in another namespace
        self.bond = bond  # both ports of the card are one: its addresses are the bond's

    def devices(self):
        """The names of its network devices."""
        dev = "e%s" % self.name.replace("mlx5_", "th_")
        own = [dev] + ([dev + "b", "bond" + dev] if self.bond else [])
        return own + ["%s.%d" % (own[-1], a[2]) for a in self.addrs if len(a) > 2]

    def rate_text(self):
        if self.rate is not None:
            return self.rate
        return {400: "400 Gb/sec (4X NDR)", 200: "200 Gb/sec (4X HDR)", 100: "100 Gb/sec (4X EDR)",
                50: "50 Gb/sec (1X HDR)", 25: "25 Gb/sec (1X EDR)"}[self.gbps]


class Node:
    """slots: (NUMA node, [devices] or one device): a list hangs on a switch."""

    def __init__(self, slots, cpu=None, nvlink=True, kind=G.H100_SXM, nccl="2.21.5", rows=(),
                 mounts=(), env=None, front="eno1", hidden=(), peermem=True, front_index=2,
                 iommu="identity", link=5, acs=(0, 0), gpu_link=None):
        self.cpu = cpu or spr("Intel(R) Xeon(R) Platinum 8480C", 2, 8, "107520K", 3800, smt=1)
        self.m = m = Machine("rail-node", "5.15.0-1063-nvidia", self.cpu, iommu=iommu)
        self.kind, self.nets, self.rows, self.bus, self.hardware = kind, 10, list(rows), 0x10, []
        self.link = link  # PCIe generation; None: no device or bridge tells
        self.gpu_link = gpu_link or link
        self.acs = acs  # control words of root ports and of switches' ports
        m.os("Ubuntu 22.04.4 LTS", "ubuntu", "22.04")
        m.dmi("Example", "HGX")
        m.cmdline("ro iommu=pt" if iommu == "identity" else "ro")
        self.cpu.write(m.tree, governor="performance")
        memory(m.tree, self.cpu, 1056302584)
        loopback(m)
        m.base_mounts()
        m.mount("/dev/sda2", "/", "ext4", "rw,relatime", 900, 700)
        m.mount("tmpfs", "/dev/shm", "tmpfs", "rw,nosuid,nodev", 500, 500)
        for source, target, fstype, options in mounts:
            m.mount(source, target, fstype, options, 1000, 500)
        if nvlink:
            nvswitches(m, m.host("00", 0))
        for numa, devices in slots:
            self.slot(numa, devices)
        if front:
            board = m.host("f0", 0 if slots[0][0] >= 0 else -1).bridge("f0:1c.0", "8086:1bb8",
                                                                       speed=3, width=1)
            net(m, front, board.add("f1:00.0", "8086:1533", 0x020000, driver="igb", speed=3,
                                    width=1), front_index, "5c:ff:35:e2:04:9a", speed=1000)
            m.addr(front, "10.10.0.17", 16)
            self.rows += [(front, "0.0.0.0", 0, "10.10.0.1", 0), (front, "10.10.0.0", 16, None, 0)]
        routes(m, self.rows)
        self.driver(nvlink, hidden)
        m.modules("nvidia", "nvidia_uvm", "mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs",
                  *(["nvidia_peermem"] if peermem else []))
        m.cgroup2("/user.slice/user-1000.slice/session-4.scope")
        m.cuda("12.4.1", nccl, "9.1.0")
        m.verbs()
        m.env = dict(env or {})

    def slot(self, numa, devices):
        bus = self.bus
        many = isinstance(devices, list)
        self.bus += 3 + len(devices) if many else 2
        root = self.m.host("%02x" % bus, numa).bridge("%02x:01.0" % bus, "8086:352a", speed=self.link,
                                                      acs=self.acs[0])
        if not many:
            self.device(root, "%02x:00" % (bus + 1), devices, numa)
            return
        up = root.bridge("%02x:00.0" % (bus + 1), speed=self.link)
        for i, d in enumerate(devices):
            self.device(up.bridge("%02x:%02x.0" % (bus + 2, i), speed=self.link, acs=self.acs[1]),
                        "%02x:00" % (bus + 3 + i), d, numa)

    def device(self, port, bus, d, numa):
        if d == GPU:
            port.add(bus + ".0", self.kind["pci"], 0x030200, driver="nvidia", speed=self.gpu_link,
                     sub=self.kind["sub"])
            self.hardware.append(("0000:%s.0" % bus, numa))
            return
        for fn, nic in enumerate(d if isinstance(d, tuple) else (d,)):
            pci = port.add("%s.%d" % (bus, fn), "15b3:1021", 0x020700 if nic.layer == "ib"
                           else 0x020000, driver="mlx5_core", speed=self.link)
            self.nic(nic, pci, int(bus[:2], 16) * 8 + fn, int(bus[:2], 16) * 8)
            if nic.vfs:
                self.virtual(port, bus, pci, nic)

    def virtual(self, port, bus, pci, nic):
        found = [port.add("%s.%d" % (bus, 1 + k), "15b3:101e", 0x020000, driver="mlx5_core", speed=5)
                 for k in range(len(nic.vfs))]
        pci.sriov(8, found)
        for k, vf in enumerate(nic.vfs):
            self.nic(vf, found[k], int(bus[:2], 16) * 8 + 1 + k, int(bus[:2], 16) * 8)

    def nic(self, nic, pci, n, card):
        """n: its number, card: that of the card's first function."""
        m, hca = self.m, dict(hca=nic.kind[0], board=nic.kind[1])
        state = {} if not nic.state else dict(state=nic.state, phys="2: Polling")
        g = "a088:c203:00%02x:%04x" % (n & 0xFF, 0x1A00 + n)
        hca["image"] = "a088:c203:00%02x:%04x" % (card & 0xFF, 0x1A00 + card)
        if nic.layer == "ib":
            head = nic.prefix.rstrip(":")
            gid = "%s::%s" % (head, g) if head == "fe80" else "%s:%s" % (head, g)
            rdma(m, nic.name, pci, "InfiniBand", nic.rate_text(), [(gid, V1, None)], guid=g,
                 lid="0x%x" % (nic.lid or n), sm_lid="0x%x" % nic.sm, slots=8, **hca, **state)
            if nic.ipoib:
                name, addr, prefix, dst = nic.ipoib
                net(m, name, pci, self.nets, "00:00:10:29:fe:80:00:00:00:00:00:00:a0:88:c2:03:00:"
                    "%02x:1a:%02x" % (n & 0xFF, n & 0xFF), mtu=2044, speed=200000, type_=32)
                self.nets += 1
                if addr:
                    m.addr(name, addr, prefix)
                    self.rows.append((name, dst, prefix, None, 0))
            return
        mac = "a0:88:c2:%02x:%02x:01" % (n >> 8, n & 0xFF)
        dev = "e%s" % nic.name.replace("mlx5_", "th_")
        net(m, dev, pci, self.nets, mac, mtu=9000, speed=nic.gbps * 1000)
        self.nets += 1
        if nic.bond:
            net(m, dev + "b", pci, self.nets, mac, mtu=9000, speed=nic.gbps * 1000, port=1)
            bond(m, "bond" + dev, [dev, dev + "b"], index=self.nets + 1, mac=mac, mtu=9000,
                 speed=nic.gbps * 2000)
            self.nets += 2
            dev = "bond" + dev
        self.rows += [(dev, "0.0.0.0", 0, nic.gateway, 0)] if nic.gateway else []
        table = roce_gids(mac, [], dev)
        for address in nic.foreign:
            table += [(address, V1, None), (address, V2, None)]
        for address, prefix, *vlan in nic.addrs:
            owner = dev
            if vlan:
                owner = "%s.%d" % (dev, vlan[0])
                net(m, owner, None, self.nets, mac, mtu=9000, kind="vlan", iflink=self.nets - 1)
                self.nets += 1
            m.addr(owner, address, prefix)
            self.rows.append((owner, network(address, prefix), prefix, None, 0))
            table += [(address, V1, owner), (address, V2, owner)]
        rdma(m, nic.name, pci, "Ethernet", nic.rate_text(), table, guid=g, **hca, **state)

    def driver(self, nvlink, hidden):
        found = []
        for i, (bdf, _) in enumerate(self.hardware):
            if i in hidden:
                continue
            g = G.gpu(len(found), self.kind, bdf, 300 + i, DRIVER)
            if nvlink:
                G.link_switches(g, self.kind, NVSWITCHES)
                G.fabric(g)
            else:
                g["nvlinks_total"] = 0
            found.append(g)
        self.m.nvml = {"nvidia": nvidia(DRIVER, 12040, "12.550.90.07"), "gpus": found,
                       "pairs": G.pairs(found, nvlink="ok" if nvlink else None)}
        self.m.nvidia_driver(DRIVER, True, [(b, i, self.kind["name"]) for i, (b, _) in
                                            enumerate(self.hardware) if i not in hidden])


def network(address, prefix):
    bits = 0
    for part in address.split("."):
        bits = bits << 8 | int(part)
    bits &= (0xFFFFFFFF << (32 - prefix)) & 0xFFFFFFFF
    return ".".join(str(bits >> s & 255) for s in (24, 16, 8, 0))


def roce(i, gbps=200, first=0, subnet=None, **more):
    """A rail of RoCE: its own /24 without a gateway."""
    return Nic("mlx5_%d" % (first + i), "roce", gbps,
               addrs=[("10.100.%d.17" % i if subnet is None else subnet % (17 + i),
                       24 if subnet is None else 16)], **more)


def ib(i, gbps=400, first=0, **more):
    return Nic("mlx5_%d" % (first + i), "ib", gbps, **more)


def numa_of(i, count=8):
    return 0 if i < count // 2 else 1


def rails(nic, count=8, beside=()):
    """A switch a GPU, with its NIC; `beside`: makes more devices for a slot."""
    return [(numa_of(i, count), [GPU, nic(i)] + [make(i) for make in beside]) for i in range(count)]


# ---- place before rate and layer
def bluefield():
    """(a) 8 x 200G RoCE at the GPUs' switches, 2 x 400G BlueField at root ports"""
    return Node(rails(roce) + [(n, roce(8 + n, 400, kind=BF3)) for n in (0, 1)])


def storage_roce():
    """(b) 8 x HDR InfiniBand at the GPUs' switches, a 400G RoCE storage NIC on socket 1"""
    return Node(rails(lambda i: ib(i, 200, kind=CX6)) + [(1, roce(8, 400))])


def uneven():
    """(c) one GPU has its NIC at its switch, the other at another root port"""
    return Node([(0, [GPU, ib(0)]), (1, GPU), (1, ib(1))], nvlink=False)


def half_rate():
    """(d) eight rails of which one trained at half rate"""
    return Node(rails(lambda i: ib(i, 200 if i == 3 else 400)))


def half_rate_two():
    """two NICs a GPU, one of the sixteen at half rate"""
    return Node(rails(lambda i: ib(2 * i), beside=[lambda i: ib(2 * i + 1, 200 if i == 5 else 400)]))


def slow_single():
    """one GPU: 100G at its switch, 400G at another root port: NCCL itself prefers speed"""
    return Node([(0, [GPU, roce(0, 100)]), (0, roce(1, 400))], nvlink=False)


def hidden():
    """eight rails, GPU 5 hidden from the driver: its NIC is no storage NIC"""
    return Node(rails(roce), hidden=(5,))


def root_ports():
    """GPUs and NICs at root ports of their own"""
    return Node([(n, d) for n in (0, 1) for d in (GPU, GPU, ib(2 * n), ib(2 * n + 1))],
                nvlink=False)


def all_far():
    """every NIC across the socket"""
    return Node([(0, GPU), (0, GPU), (1, ib(0)), (1, ib(1))], nvlink=False)


def dual_far(nccl="2.28.9"):
    """200G at the GPU's switch, a card of two 200G ports at another root port"""
    return Node([(0, [GPU, roce(0)]), (0, (roce(1), roce(2)))], nvlink=False, nccl=nccl)


def dual_far_221():
    """the same with an older NCCL"""
    return dual_far("2.21.5")


def dual_far_220():
    """the same with the first NCCL that makes one NIC of them"""
    return dual_far("2.20.5")


def dual_far_219():
    """the same with one that does not"""
    return dual_far("2.19.4")


def dual_far_guids():
    """the same where each port tells a system image GUID of its own"""
    node = dual_far("2.21.5")
    for path in [p for p in node.m.tree.nodes if p.endswith("/sys_image_guid")]:
        own = node.m.tree.nodes[os.path.dirname(path) + "/node_guid"][1].decode().strip()
        node.m.tree.files(os.path.dirname(path), sys_image_guid=own)
    return node


def dual_far_223():
    """the same with one that does not where there are cards of one port"""
    return dual_far("2.23.4")


def mixed_count():
    """GPUs with one and with two NICs"""
    return Node([(numa_of(i, 4), [GPU, ib(2 * i)] + ([ib(2 * i + 1)] if i % 2 else []))
                 for i in range(4)])


def dual_port():
    """two-port cards, both ports on the compute fabric"""
    return Node([(numa_of(i, 4), [GPU, (ib(2 * i, 200), ib(2 * i + 1, 200))]) for i in range(4)])


def unknown_rate():
    """rates that the kernel does not tell, on some rails"""
    return Node(rails(lambda i: roce(i, rate="" if i % 2 else None)) + [(0, roce(8, 400, kind=BF3))])


def slow_beside():
    """a 25G NIC of another kind at each GPU's switch beside the 400G one"""
    return Node(rails(lambda i: roce(i, 400), beside=[
        lambda i: roce(i, 25, first=8, kind=CX4, subnet="10.200.0.%d")]))


def single_nic():
    """one NIC for eight GPUs"""
    return Node([(0, [GPU, GPU, GPU, GPU, ib(0)]), (1, [GPU, GPU, GPU, GPU])])


def split_layers():
    """InfiniBand at the GPUs of socket 0, RoCE at those of socket 1"""
    return Node(rails(lambda i: ib(i) if i < 4 else roce(i, 400)))


def layers_beside():
    """InfiniBand and a RoCE storage NIC of the same rate at every switch"""
    return Node(rails(ib, beside=[lambda i: roce(i, 400, first=8, subnet="10.200.0.%d")]))


def late_front():
    """eight rails before a 1G front end in the kernel's order"""
    return Node(rails(lambda i: roce(i, 400)), front_index=60)


def fewer_nics():
    """four NICs at switches for eight GPUs, four of them at root ports beside"""
    return Node([(numa_of(i), [GPU, ib(i // 2)] if i % 2 == 0 else GPU) for i in range(8)])


def root_ports_translated():
    """GPUs and NICs at root ports, an IOMMU that translates"""
    return Node([(n, d) for n in (0, 1) for d in (GPU, ib(n))], nvlink=False, iommu="DMA-FQ")


def slow_rails():
    """four 100G rails at the GPUs' switches, 2 x 400G BlueField at root ports: all is well"""
    return Node([(numa_of(i, 4), [GPU, roce(i, 100)]) for i in range(4)] +
                [(n, roce(4 + n, 400, kind=BF3)) for n in (0, 1)], nccl="2.27.5")


# ---- widths and limits
def erp(nccl="2.30.4"):
    """eight 200G rails and a 400G NIC at socket 0, on Xeons whose link NCCL takes for 320 Gb/s"""
    cpu = spr("Intel(R) Xeon(R) Platinum 8592+", 2, 8, "107520K", 3800, smt=1)
    cpu.number = 0xcf
    return Node(rails(roce) + [(0, roce(8, 400, kind=BF3))], cpu=cpu, nccl=nccl)


def erp_old():
    """the same with an NCCL that knows no such Xeon"""
    return erp("2.25.1")


def unknown_link():
    """a virtual machine: no PCIe link tells its speed; 100G beside the GPU, 400G elsewhere"""
    return Node([(0, [GPU, roce(0, 100)]), (0, roce(1, 400))], nvlink=False, link=None)


def many_ports():
    """forty ports, five at the switch of each of eight GPUs"""
    return Node([(numa_of(i), [GPU] + [roce(5 * i + k, 100) for k in range(5)]) for i in range(8)])


def many_storage():
    """forty storage ports before four rails in the kernel's order"""
    far = [(1, [roce(10 * k + i, 100, subnet="10.200.%d.%%d" % k, kind=CX6) for i in range(10)])
           for k in range(4)]
    return Node(far + [(0, [GPU, roce(i, 400, first=40)]) for i in range(4)],
                mounts=[("nas01:/data", "/data", "nfs4", "rw,addr=10.200.9.9")])


def rail_missing():
    """an InfiniBand rail's HCA is not there at all; storage HCAs of another fabric at two GPUs"""
    slots = rails(ib)
    del slots[3][1][1]
    for i, at in enumerate((3, 7)):
        slots[at][1].append(ib(8 + i, sm=9, ipoib=("ibs%d" % i, "100.127.0.%d" % (11 + i), 16,
                                                  "100.127.0.0")))
    return Node(slots, mounts=[("100.127.0.201@o2ib:/scratch", "/lustre", "lustre", "rw,flock")])


def layer_storage():
    """one InfiniBand HCA across the socket, a faster RoCE NIC with NFS over it and a slow one"""
    return Node([(0, GPU), (1, ib(0, 200)), (1, roce(1, 400, subnet="10.200.0.%d")),
                 (1, roce(2, 25, kind=CX4))], nvlink=False,
                mounts=[("nas01:/data", "/data", "nfs4", "rw,addr=10.200.9.9")])


def subnet_storage():
    """the GPU's own rail is down, Lustre's HCA beside it, another compute HCA across the socket"""
    return Node([(0, [GPU, ib(0, state="1: DOWN"), ib(1, 200, sm=9, ipoib=(
        "ibs0", "100.127.0.11", 16, "100.127.0.0"))]), (1, ib(2))], nvlink=False,
        mounts=[("100.127.9.9@o2ib:/s", "/lustre", "lustre", "rw,flock")])


def campus(mounts=("10.9.1.200:/home",), gateway="10.9.0.1"):
    """one EDR HCA for training, two 100G Ethernet ports: the default route, and NFS"""
    eth = (Nic("mlx5_1", "roce", 100, CX6, [("10.9.0.5", 24)], gateway=gateway),
           Nic("mlx5_2", "roce", 100, CX6, [("10.9.1.5", 24)]))
    return Node([(0, GPU)] * 4 + [(0, ib(0, 100, kind=CX6)), (0, eth)], nvlink=False,
                front=None if gateway else "eno1",
                mounts=[(m, "/home", "nfs4", "rw,addr=10.9.1.200") for m in mounts])


def campus_bare():
    """the same without a default route or a mount over the Ethernet ports"""
    return campus((), None)


def flat(other, mounts=(), near=True):
    """Eight GPUs in pairs at four switches, eight 400G RoCE ports of one flat network there, which
    has the default route or what is mounted; four of `other` at the switches or at root ports."""
    def port(i):
        return roce(i, 400, subnet="10.200.0.%d",
                    gateway=None if mounts or i else "10.200.0.1")
    slots = [(i // 2, [GPU, GPU, port(2 * i), port(2 * i + 1)] + ([other(i)] if near else []))
             for i in range(4)]
    return Node(slots + [(i // 2, other(i)) for i in range(0 if near else 4)],
                front="eno1" if mounts else None, mounts=mounts)


FLAT_NFS = (("nas01:/data", "/data", "nfs4", "rw,addr=10.200.9.9"),)


def flat_routed():
    """a flat RoCE network with the default route, InfiniBand of the same rate for every two GPUs"""
    return flat(lambda i: ib(8 + i))


def flat_mounted():
    """a flat RoCE network with NFS over it, InfiniBand of half the rate for every two GPUs"""
    return flat(lambda i: ib(8 + i, 200), FLAT_NFS)


def flat_far():
    """the same with the InfiniBand at root ports"""
    return flat(lambda i: ib(8 + i, 200), FLAT_NFS, near=False)


def flat_one():
    """the same with slower RoCE ports of another network and model in place of InfiniBand"""
    return flat(lambda i: roce(i, 200, first=8, subnet="10.60.0.%d", kind=CX6), FLAT_NFS)


def flat_ib():
    """Lustre over all HCAs of the training fabric, four slower ones of another fabric beside them"""
    slots = [(i // 2, [GPU, GPU] + [ib(2 * i + k, ipoib=(
        "ib%d" % (2 * i + k), "100.126.0.%d" % (11 + 2 * i + k), 16, "100.126.0.0")) for k in (0, 1)] +
              [ib(8 + i, 200, sm=9, kind=CX6)]) for i in range(4)]
    return Node(slots, mounts=[("100.126.9.9@o2ib:/s", "/lustre", "lustre", "rw,flock")])


def layers_dead(dead=(0, 2), **more):
    """four NDR HCAs and four 200G RoCE ports at the sockets; an HCA of each socket is down"""
    eth = [Nic("mlx5_%d" % (4 + i), "roce", 200, BF3, [("10.3%d.0.%d" % (i % 2, 5 + i // 2), 24)])
           for i in range(4)]
    hca = [ib(i, state="1: DOWN" if i in dead else None) for i in range(4)]
    return Node([(n, d) for n in (0, 1) for d in (GPU, GPU, hca[2 * n], hca[2 * n + 1],
                                                   (eth[2 * n], eth[2 * n + 1]))], **more)


def layers_dead_side():
    """the same, both HCAs of one socket down"""
    return layers_dead((2, 3))


def layers_dead_all():
    """the same, all of them down"""
    return layers_dead((0, 1, 2, 3))


def fabric_gone():
    """eight NDR rails, all down; Lustre over two HCAs of another fabric, a RoCE front end"""
    stor = [ib(8 + n, sm=2, ipoib=("ibs%d" % n, "100.127.0.%d" % (11 + n), 16, "100.127.0.0"))
            for n in (0, 1)]
    front = Nic("mlx5_10", "roce", 200, addrs=[("10.150.0.21", 24)], gateway="10.150.0.1")
    return Node(rails(lambda i: ib(i, state="1: DOWN")) + [(0, stor[0]), (1, stor[1]), (0, front)],
                front=None, mounts=[("100.127.0.201@o2ib:/scratch", "/lustre", "lustre", "rw")])


# ---- fabrics
def planes_lustre(first=400):
    """two InfiniBand planes; the first port of one has the machine's only IPoIB address, for Lustre"""
    return Node(rails(lambda i: ib(2 * i, ipoib=("ib0", "172.16.0.10", 16, "172.16.0.0")
                                   if i == 0 else None), 4,
                      beside=[lambda i: ib(2 * i + 1, first, prefix="fec0:0:0:2", sm=7)]),
                mounts=[("172.16.9.9@o2ib:/fs", "/lustre", "lustre", "rw,flock")])


def fabrics_lustre():
    """the same, the plane without an address at half the rate"""
    return planes_lustre(200)


def two_subnets():
    """a second InfiniBand subnet (prefix and subnet manager) at the switches of sockets' first GPUs"""
    slots = rails(ib)
    for i, first in enumerate((0, 4)):
        slots[first][1].append(ib(8 + i, sm=7, prefix="fec0:0:0:7"))
    return Node(slots)


def ib_lustre():
    """a second InfiniBand network with the same prefix, another SM; Lustre is mounted over it"""
    return Node(rails(ib, 4, beside=[lambda i: ib(i, first=4, sm=9, ipoib=(
        "ibs%d" % i, "100.127.0.%d" % (11 + i), 16, "100.127.0.0"))]),
        mounts=[("100.127.0.201@o2ib:100.127.0.202@o2ib:/scratch", "/lustre", "lustre", "rw,flock")])


def ib_stor(i, name, lid=None):
    """An HCA with an address in the network of Lustre's servers."""
    return ib(name, lid=lid, ipoib=("ibs%d" % i, "10.70.0.%d" % (11 + i), 16, "10.70.0.0"))


O2IB = [("10.70.0.201@o2ib:/scratch", "/lustre", "lustre", "rw,flock")]


def ib_same_lids(mounts=tuple(O2IB)):
    """two InfiniBand fabrics, both with the default prefix and the manager at LID 1"""
    slots = rails(lambda i: ib(i, lid=32 + i))
    for i, first in enumerate((0, 4)):
        slots[first][1].append(ib_stor(i, 8 + i, 32 + i))
    return Node(slots, mounts=mounts)


def ib_same_lids_bare():
    """the same, nothing mounted"""
    return ib_same_lids(())


def ib_joined():
    """one fabric, two GPUs and two HCAs a switch, and one for Lustre"""
    return Node([(i // 2, [GPU, GPU, ib(3 * i), ib(3 * i + 1), ib_stor(i, 3 * i + 2)])
                 for i in range(4)], mounts=O2IB)


def ib_joined_few():
    """one fabric, two GPUs and two HCAs a switch, Lustre over one of the two"""
    return Node([(i // 2, [GPU, GPU, ib(2 * i), ib_stor(i, 2 * i + 1)]) for i in range(4)],
                mounts=O2IB)


def ib_joined_one():
    """one fabric, two HCAs a GPU, Lustre over the first of all"""
    return Node(rails(lambda i: ib_stor(0, 0) if i == 0 else ib(2 * i),
                      beside=[lambda i: ib(2 * i + 1)]), mounts=O2IB)


def ib_bare(rows):
    """InfiniBand rails, two storage HCAs of the same fabric whose IPoIB has no address itself"""
    slots = rails(ib)
    for i, at in enumerate((0, 4)):
        slots[at][1].append(ib(8 + i, ipoib=("ibs%d" % i, None, None, None)))
    return Node(slots, rows=[(dev, "10.70.0.0", 16, None, 0) for dev in rows], mounts=O2IB)


def ib_partition(parent=True):
    """Lustre over a partition: IPoIB children of the storage HCAs, made by sysfs"""
    node = ib_bare(["ibs0.8001", "ibs1.8001"])
    for i in (0, 1):
        up = next(n["ifindex"] for n in node.m.ifs if n["name"] == "ibs%d" % i)
        net(node.m, "ibs%d.8001" % i, None, 90 + i, "00:00:11:%02x" % i, mtu=2044, type_=32,
            iflink=None if parent else up, extra=dict(parent="ibs%d" % i) if parent else None)
        node.m.addr("ibs%d.8001" % i, "10.70.0.%d" % (5 + i), 16)
    return node


def ib_partition_ip():
    """the same, made by ip(8), which has no file for the parent"""
    return ib_partition(False)


def ib_bond():
    """Lustre over a bond of the storage HCAs' IPoIB"""
    node = ib_bare(["bond7"])
    bond(node.m, "bond7", ["ibs0", "ibs1"], index=90, mac="00:00:11:00", type_=32)
    node.m.addr("bond7", "10.70.0.5", 16)
    return node


def unplaced(source="gpfs0", kind="gpfs", options="rw,relatime"):
    """a NIC of a second network at every switch, and a file system that may be on it"""
    return Node(rails(lambda i: roce(i, 400), beside=[
        lambda i: roce(i, 400, first=8, subnet="10.200.0.%d")]),
        mounts=[(source, "/data", kind, options)])


def unplaced_beegfs():
    """the same with BeeGFS"""
    return unplaced("beegfs_nodev", "beegfs")


def unplaced_mgs():
    """the same with Lustre by name"""
    return unplaced("mgs01@o2ib:/fs", "lustre")


def placed_gluster():
    """the same with GlusterFS by address"""
    return unplaced("10.200.1.1:/gv0", "fuse.glusterfs")


def unplaced_rails():
    """a file system that cannot be placed, and one rail a GPU: it does not matter"""
    return Node(rails(lambda i: roce(i, 400)), mounts=[("gpfs0", "/data", "gpfs", "rw,relatime")])


def ib_converged():
    """Lustre over IPoIB on the compute fabric itself"""
    return Node(rails(lambda i: ib(i, ipoib=("ib%d" % i, "100.126.0.%d" % (11 + i), 16,
                                              "100.126.0.0")), 4),
                mounts=[("100.126.0.201@o2ib:/scratch", "/lustre", "lustre", "rw,flock")])


def roce_nfs():
    """a second RoCE NIC of the same kind and rate at every switch, NFS mounted over it"""
    return Node(rails(lambda i: roce(i, 400), beside=[
        lambda i: roce(i, 400, first=8, subnet="10.200.0.%d")]),
        mounts=[("nfs-server:/data", "/data", "nfs4",
                 "rw,vers=4.2,proto=rdma,clientaddr=10.200.0.17,addr=10.200.9.9")])


def roce_planes():
    """two planes of RoCE, a NIC of each at every switch, nothing mounted over either"""
    return Node(rails(lambda i: roce(i, 400), beside=[
        lambda i: roce(i, 400, first=8, subnet="10.200.0.%d")]))


def roce_converged():
    """one flat RoCE network for compute and NFS"""
    return Node(rails(lambda i: roce(i, 400, subnet="10.200.0.%d")),
                mounts=[("10.200.9.9:/data", "/data", "nfs4", "rw,vers=4.2,addr=10.200.9.9")])


def gid_networks(nccl="2.21.5"):
    """each NIC has a compute and a storage VLAN, on one NIC the storage address came first"""
    def nic(i):
        both = [("10.50.0.%d" % (17 + i), 16, 50), ("10.60.0.%d" % (17 + i), 16, 60)]
        return Nic("mlx5_%d" % i, "roce", 400, addrs=both[::-1] if i == 2 else both)
    return Node(rails(nic, 4), nccl=nccl,
                mounts=[("10.60.9.9:/data", "/data", "nfs4", "rw,vers=4.2,addr=10.60.9.9")])


def gid_networks_old():
    """the same with an NCCL that has no NCCL_IB_ADDR_RANGE"""
    return gid_networks("2.19.3")


def gid_orders():
    """three networks on every port, each time in another order, and an NCCL that takes an index alone"""
    def nic(i):
        all_ = [("10.%d.0.%d" % (5 + k, 17 + i), 16, 5 + k) for k in range(3)]
        return Nic("mlx5_%d" % i, "roce", 400, addrs=all_[i % 3:] + all_[:i % 3])
    return Node(rails(nic, 4), nccl="2.20.5")


def gid_vlan(mounts=True, nccl="2.21.5"):
    """one NIC for both GPUs, the storage VLAN's address came first"""
    nic = Nic("mlx5_0", "roce", 200, addrs=[("10.60.0.17", 24, 60), ("10.50.0.17", 24)])
    return Node([(0, [GPU, GPU, nic])], nvlink=False, nccl=nccl, mounts=[
        ("10.60.0.99:/data", "/data", "nfs4", "rw,vers=4.2,addr=10.60.0.99")] if mounts else [])


def gid_vlan_old():
    """the same with an NCCL that takes an index alone"""
    return gid_vlan(nccl="2.19.3")


def gid_vlan_bare():
    """the same, and nothing is mounted"""
    return gid_vlan(False)


def gid_rails():
    """rails of a subnet each and a storage VLAN over all; on one the VLAN came first"""
    def nic(i):
        both = [("10.100.%d.17" % i, 24), ("172.16.0.%d" % (17 + i), 16, 60)]
        return Nic("mlx5_%d" % i, "roce", 400, addrs=both[::-1] if i == 1 else both)
    return Node(rails(nic, 4))


def gid_index_rails():
    """the same on every port, the storage VLAN first, and an NCCL that takes an index alone"""
    def nic(i):
        return Nic("mlx5_%d" % i, "roce", 400, addrs=[("172.16.0.%d" % (17 + i), 16, 60),
                                                       ("10.100.%d.17" % i, 24, 50)])
    return Node(rails(nic, 4), nccl="2.20.5",
                mounts=[("172.16.9.9:/data", "/data", "nfs4", "rw,vers=4.2,addr=172.16.9.9")])


def zeroconf(some=(1,), nccl="2.27.5", real=True):
    """rails of a subnet each; on one port a link-local IPv4 address came first"""
    def nic(i):
        local = [("169.254.%d.17" % i, 16)] if i in some else []
        return Nic("mlx5_%d" % i, "roce", 400, addrs=local + ([("10.100.%d.17" % i, 24)] if real else []))
    return Node(rails(nic, 4), nccl=nccl)


def zeroconf_failed():
    """rails of a subnet each, one of which got a link-local address alone"""
    def nic(i):
        return Nic("mlx5_%d" % i, "roce", 400, addrs=[("169.254.%d.17" % i, 16) if i == 2 else ("10.100.%d.17" % i, 24)])
    return Node(rails(nic, 4), nccl="2.27.5")


def zeroconf_old():
    """the same on every port, and an NCCL that takes an index alone"""
    return zeroconf(range(4), "2.18.3")


def zeroconf_only():
    """no port has another address"""
    return zeroconf(range(4), real=False)


# ---- rails that carry more than compute, are down, or kept apart
def two_rails(more=None):
    """Two RoCE rails a GPU, a /24 each; `more`: what is particular about the ninth to 16th."""
    return rails(lambda i: roce(i), beside=[
        lambda i: roce(8 + i, **(more(i) if more else {}))])


def rail_nfs():
    """two rails a GPU, sixteen subnets; NFS is mounted over one of them"""
    return Node(two_rails(), mounts=[("10.100.8.200:/data", "/data", "nfs4", "rw,addr=10.100.8.200")])


def rail_nfs_name():
    """the same, and the server is mounted by its name"""
    return Node(two_rails(), mounts=[("nas01:/data", "/data", "nfs4", "rw,addr=10.100.8.200")])


def rail_nfs_all():
    """two rails a GPU, NFS over the second of every GPU"""
    return Node(two_rails(), mounts=[("10.100.%d.200:/data" % (8 + i), "/data%d" % i, "nfs4",
                                      "rw,addr=10.100.%d.200" % (8 + i)) for i in range(8)])


def rail_default():
    """two rails a GPU, the default route leaves by one of them"""
    return Node(two_rails(lambda i: {} if i else dict(gateway="10.100.8.1")), front=None)


def rail_extra():
    """a rail a GPU, and one more NIC of the kind at the first GPU's switch, NFS over it"""
    slots = rails(roce)
    slots[0][1].append(roce(8))
    return Node(slots, mounts=[("nas01:/data", "/data", "nfs4", "rw,addr=10.100.8.200")])


def storage_ports():
    """two-port cards, the second ports on one storage network, NFS mounted by name"""
    return Node([(numa_of(i), [GPU, (roce(i), roce(i, first=8, subnet="10.200.0.%d"))])
                 for i in range(8)],
                mounts=[("nas01:/data", "/data", "nfs4",
                         "rw,relatime,vers=4.2,proto=rdma,clientaddr=10.200.0.17,addr=10.200.9.9")])


def ib_down(state="1: DOWN", sm=1, mounts=()):
    """an InfiniBand rail is down, and its GPU has a storage HCA of another fabric as near"""
    slots = rails(lambda i: ib(i, state=state, sm=sm) if i == 3 else ib(i))
    for i, at in enumerate((3, 7)):
        slots[at][1].append(ib(8 + i, sm=9))
    return Node(slots, mounts=mounts)


def ib_init():
    """the same, and the rail has no subnet manager yet"""
    return ib_down("2: INIT", 0)


def ib_init_all():
    """no InfiniBand port has a subnet manager"""
    return Node(rails(lambda i: ib(i, state="2: INIT", sm=0), 2))


def subnets_uneven():
    """two InfiniBand subnets: the GPUs of socket 0 have more of the one that has less in all"""
    far = dict(sm=9, prefix="fec0:0:0:9")
    return Node([(n, GPU) for n in (0, 0, 1)] + [(0, ib(0, 200)), (0, ib(1, 200))] +
                [(0, ib(2, 200, **far)), (1, ib(3, **far)), (1, ib(4, **far))], nvlink=False)


def ib_stray():
    """one rail has another subnet manager, and its GPU no other port"""
    return Node(rails(lambda i: ib(i, sm=7 if i == 3 else 1)))


def sriov(per=4, pf=True):
    """RoCE rails with four virtual functions each, all in this namespace"""
    def nic(i):
        vfs = [Nic("mlx5_%d" % (8 + per * i + k), "roce", 400,
                   addrs=[("10.100.%d.%d" % (i, 30 + k), 24)]) for k in range(per)]
        return roce(i, 400, vfs=vfs) if pf else Nic("mlx5_%d" % i, "roce", 400, vfs=vfs)
    return Node(rails(nic))


def sriov_bare():
    """the same, and only the virtual functions have addresses"""
    return sriov(2, False)


def rail_pairs():
    """two NICs a GPU, both in the subnet of the GPU's rail"""
    return Node(rails(roce, beside=[lambda i: Nic("mlx5_%d" % (8 + i), "roce", 200, addrs=[
        ("10.100.%d.18" % i, 24)])]))


def ib_rails():
    """InfiniBand rails, each a subnet with a manager of its own"""
    return Node(rails(lambda i: ib(i, sm=1 + i, prefix="fec0:0:0:%d" % (1 + i))))


def ib_planes():
    """two InfiniBand fabrics, a port of each at every GPU"""
    return Node(rails(ib, beside=[lambda i: ib(i, first=8, sm=9)]))


def bonded():
    """InfiniBand rails, one card with a second port that is down, a front end of two bonded ports"""
    front = [("bond0", "0.0.0.0", 0, "10.10.0.1", 0), ("bond0", "10.10.0.0", 16, None, 0)]
    node = Node(rails(ib, 4), front=None, rows=front)
    m = node.m
    first = m.tree.nodes["/sys/class/infiniband/mlx5_0"][1].replace("../../", "/sys/", 1) + "/ports/"
    for path, what in list(m.tree.nodes.items()):
        if path.startswith(first + "1"):
            m.tree.nodes[first + "2" + path[len(first) + 1:]] = what
    m.tree.files(first + "2", state="1: DOWN", phys_state="2: Polling")
    card = m.host("f0", 0).bridge("f0:01.0", "8086:352a")
    for fn in (0, 1):
        net(m, "ens9f%d" % fn, card.add("f1:00.%d" % fn, "8086:1592", 0x020000, driver="ice", speed=4),
            60 + fn, "5c:ff:35:e2:04:9a", speed=100000)
    bond(m, "bond0", ["ens9f0", "ens9f1"], index=70, mac="5c:ff:35:e2:04:9a", speed=200000)
    m.addr("bond0", "10.10.0.17", 16)
    return node


def rail_dead():
    """isolated RoCE rails, one of them down"""
    return Node(rails(lambda i: roce(i, 400, state="1: DOWN" if i == 5 else None)))


def rail_slow():
    """isolated RoCE rails, one of another model at half the rate"""
    return Node(rails(lambda i: roce(i, 200, kind=CX6) if i == 2 else roce(i, 400)))


def rail_half():
    """isolated RoCE rails, one at half the rate of the others of its model"""
    return Node(rails(lambda i: roce(i, 400, rate="200 Gb/sec (4X)" if i == 2 else None)))


def rail_tables(count=8, dead=None):
    """RoCE rails, each with a routing table of its own that has a gateway (ip rule)"""
    node = Node(rails(lambda i: roce(i, 400, state="1: DOWN" if i == dead else None)))
    own = "  |-- 0.0.0.0\n     /0 universe UNICAST\n  |-- 10.100.%d.0\n     /24 link UNICAST\n"
    main = "Main:\n  |-- 0.0.0.0\n     /0 universe UNICAST\nLocal:\n  |-- 127.0.0.1\n     /32 host LOCAL\n"
    node.m.tree.file("/proc/net/fib_trie", main + "".join("Id %d:\n" % (101 + i) + own % i for i in range(count)))
    return node


def rail_tables_few():
    """the same with one such table, of something else"""
    return rail_tables(1)


def rail_tables_dead():
    """tables for all rails, one of which is down"""
    return rail_tables(8, 3)


def turned_off(node, *names):
    """The network devices of these NICs are down, by hand or for want of a configuration."""
    for name in names:
        dev = "/net/e%s/" % name.replace("mlx5_", "th_")
        path = next(p for p in node.m.tree.nodes if dev in p).split(dev)[0] + dev.rstrip("/")
        node.m.tree.files(path, operstate="down", flags="0x1002", carrier=0)
        for own in [i for i in node.m.ifs if dev == "/net/%s/" % i["name"]]:
            own.update(up=False, running=False)
    return node


def dpu_rails(nic):
    """RoCE rails, and a DPU with the front end on one port and NFS on the other."""
    dpu = (Nic("mlx5_8", "roce", 200, kind=BF3, addrs=[("10.11.0.5", 22)], gateway="10.11.0.1"),
           Nic("mlx5_9", "roce", 200, kind=BF3, addrs=[("10.12.0.5", 22)]))
    return Node(rails(nic) + [(1, dpu)], front=None,
                mounts=[("10.12.0.9:/n", "/n", "nfs4", "rw,addr=10.12.0.9")])


def rails_off():
    """every rail is turned off and has no address, a DPU is up"""
    return turned_off(dpu_rails(lambda i: Nic("mlx5_%d" % i, "roce", 400, state="1: DOWN")),
                      *["mlx5_%d" % i for i in range(8)])


def rails_dark():
    """the same with rails that lack a carrier"""
    return dpu_rails(lambda i: roce(i, 400, state="1: DOWN"))


def rails_ib_off():
    """the same with InfiniBand rails that are disabled"""
    node = dpu_rails(lambda i: ib(i, state="1: DOWN"))
    for path in [p for p in node.m.tree.nodes if p.endswith("/ports/1/phys_state")]:
        if "/mlx5_8/" not in path and "/mlx5_9/" not in path:
            node.m.tree.files(os.path.dirname(path), phys_state="3: Disabled")
    return node


def rails_one():
    """one rail of eight is up, the others are turned off with their addresses"""
    return turned_off(dpu_rails(lambda i: roce(i, 400, state="1: DOWN" if i else None)),
                      *["mlx5_%d" % i for i in range(1, 8)])


def ib_one():
    """one InfiniBand rail of eight is up, and two slower HCAs of the fabric have Lustre"""
    slots = rails(lambda i: ib(i, sm=0 if i else 1, state="1: DOWN" if i else None))
    for i, at in enumerate((0, 4)):
        slots[at][1].append(Nic("mlx5_%d" % (8 + i), "ib", 200, kind=CX6, ipoib=(
            "ibs%d" % i, "10.70.0.%d" % (11 + i), 16, "10.70.0.0")))
    return Node(slots, mounts=O2IB)


def rails_even():
    """isolated rails at every second GPU's switch, the others have none; all is well"""
    return Node([(numa_of(i), [GPU] if i % 2 else [GPU, roce(i // 2, 400)]) for i in range(8)])


def ib_halves(dead=()):
    """two InfiniBand subnets, one for each socket"""
    return Node(rails(lambda i: ib(i, sm=0 if i in dead else 1, prefix="fec0:0:0:%d" % (i // 4),
                                   state="1: DOWN" if i in dead else None)))


def ib_halves_down():
    """the same with one port down: neither has most ports for that"""
    return ib_halves((7,))


def pod_shared():
    """rails whose first addresses are of the host: those of the pod come later, at two indices"""
    return Node(rails(lambda i: roce(i, 400, foreign=["192.168.%d.9" % i] * (1 + i % 2))))


def relay_link():
    """PCIe 4 GPUs: InfiniBand with Lustre at every switch, 400G RoCE at two of them"""
    slots = rails(lambda i: ib(i, 200, ipoib=("ibs%d" % i, "100.127.0.%d" % (11 + i), 16,
                                              "100.127.0.0")))
    for i, at in enumerate((0, 4)):
        slots[at][1].append(roce(8 + i, 400))
    return Node(slots, gpu_link=4, mounts=[("100.127.0.201@o2ib:/scratch", "/lustre", "lustre",
                                            "rw,flock")])


# ---- the way to other nodes
def no_route(rdma=True):
    """no default route; the first interface is the BMC's, with a link-local address"""
    node = Node(rails(lambda i: roce(i, 400)) if rdma else [(0, GPU), (0, GPU)], front=None,
                rows=[("eno1", "10.5.0.0", 24, None, 0)], nvlink=rdma)
    m = node.m
    board = m.host("f0", 0)
    nics = [("bmc_redfish0", 2, "169.254.3.1", 24, 100), ("eno1", 90, "10.5.0.5", 24, 1000)]
    if not rdma:
        nics.append(("eno2", 91, "10.6.0.5", 24, 1000))
    for i, (name, index, addr, bits, speed) in enumerate(nics):
        net(m, name, board.bridge("f0:1%d.0" % i, "8086:1bb8", speed=3, width=1).add(
            "f%d:00.0" % (1 + i), "8086:1533", 0x020000, driver="igb", speed=3, width=1), index,
            "5c:ff:35:e2:04:9%d" % i, speed=speed)
        m.addr(name, addr, bits)
    if not rdma:
        for name, addr, bits in (("tailscale0", "100.77.1.2", 32), ("cni0", "10.42.0.1", 24)):
            net(m, name, None, 3 + bits % 7, "5c:ff:35:e2:05:%02x" % bits, kind="bridge" if bits == 24 else None)
            m.addr(name, addr, bits)
    return node


def no_route_tcp():
    """the same without RDMA, with two interfaces and virtual networks"""
    return no_route(False)


# ---- NUMA
def sub_numa():
    """EPYC at NPS4: NICs in another NUMA node of the GPU's own socket"""
    cpu = milan("AMD EPYC 7763 64-Core Processor", 2, 8, 8, 2, 3500, smt=1)
    return Node([(0, GPU), (1, ib(0)), (4, GPU), (5, ib(1))], cpu=cpu, nvlink=False,
                kind=G.A100_PCIE)


def sub_numa_some():
    """the same at NPS4, two GPUs with a NIC at their switch"""
    cpu = milan("AMD EPYC 7763 64-Core Processor", 2, 8, 8, 2, 3500, smt=1)
    return Node([(2, [GPU, ib(0)]), (3, GPU), (6, GPU), (7, [GPU, ib(1)])], cpu=cpu, nvlink=False,
                kind=G.A100_PCIE)


def no_numa():
    """a kernel that tells no NUMA node of any device"""
    return Node([(-1, GPU), (-1, ib(0)), (-1, GPU), (-1, ib(1))], nvlink=False)


def half_numa():
    """NUMA nodes told for the GPUs, not for the NICs"""
    return Node([(0, GPU), (-1, ib(0)), (1, GPU), (-1, ib(1))], nvlink=False)


MACHINES = {k.replace("_", "-"): v for k, v in list(globals().items())
            if callable(v) and getattr(v, "__doc__", None) and not isinstance(v, type) and
            v.__module__ == __name__ and k not in ("roce", "rails", "two_rails", "network",
                                                       "ib_stor", "main", "ib_bare", "turned_off", "dpu_rails", "flat")}


def main(args):
    if args == ["--list"]:
        for name, make in sorted(MACHINES.items()):
            print("%-18s %s" % (name, make.__doc__))
        return
    if not args:
        sys.stderr.write(__doc__.split("\n\n")[1] + "\n")
        raise SystemExit(2)
    os.makedirs(args[0], exist_ok=True)
    for name in args[1:] or sorted(MACHINES):
        if name not in MACHINES:
            raise SystemExit("rails: no machine '%s'; --list names them" % name)
        MACHINES[name]().m.finish().write_tar(os.path.join(args[0], name + ".tar"))


if __name__ == "__main__":
    main(sys.argv[1:])
