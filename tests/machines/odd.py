#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""odd: machines on which something besides place and fabric decides what is said of NCCL.

    tests/machines/odd.py OUT-DIR [NAME…]     OUT-DIR/NAME.tar
    tests/machines/odd.py --list

Built from the slots of rails.py: virtual machines, cards in bad slots, spare ports, devices
that are none.  tests/cli/nccl_odd.t says what must come of them.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import rails as R  # noqa: E402
from rails import GPU, Node, ib, roce  # noqa: E402
from sysfs import ACS_ON, spr  # noqa: E402


def cpu(guest=False):
    c = spr("Intel(R) Xeon(R) Platinum 8480C", 2, 8, "107520K", 3800, smt=1)
    c.flags += " hypervisor" if guest else ""
    return c


def guest(slots=None, **more):
    """a virtual machine: GPUs and RoCE ports at root ports, no switch in sight"""
    slots = slots or [(0, d) for i in range(4) for d in (GPU, roce(i, 400))]
    node = Node(slots, cpu=cpu(True), nccl="2.27.5", iommu=None, **more)
    node.m.dmi("QEMU", "Standard PC (Q35 + ICH9, 2009)", bios="SeaBIOS")
    return node


def guest_switches():
    """a virtual machine whose host passes its switches on"""
    return guest(R.rails(lambda i: roce(i, 400), 4))


def relink(node, name, **files):
    """Other link files for the PCI function of an RDMA device."""
    t = node.m.tree
    path = next(p for p in t.nodes if p.endswith("/infiniband/%s/node_guid" % name))
    t.files(path.split("/infiniband/")[0], **files)


def bad_slots():
    """one NIC with 4 of 16 lanes, one at generation 3, one with fewer that still suffice"""
    node = Node(R.rails(lambda i: roce(i, 200), 4), nccl="2.27.5")
    relink(node, "mlx5_1", current_link_width=4)
    relink(node, "mlx5_2", current_link_speed="8.0 GT/s PCIe")
    relink(node, "mlx5_3", current_link_width=8)
    return node


def spare_ports(addrs=(), up=False):
    """dual-port cards of which the second port is not cabled"""
    node = Node([(n, [GPU, (roce(2 * n, 200), R.Nic("mlx5_%d" % (2 * n + 1), "roce", 200, addrs=addrs,
                                                    state="1: DOWN"))]) for n in (0, 1)])
    for n in (0, 1):
        dev = "/net/eth_%d/" % (2 * n + 1)
        path = next(p for p in node.m.tree.nodes if dev in p).split(dev)[0] + dev.rstrip("/")
        node.m.tree.files(path, operstate="down", flags="0x1003" if up else "0x1002", carrier=0)
    return node


def spare_ports_up():
    """the same, and the network devices are up without an address"""
    return spare_ports(up=True)


def dead_ports():
    """the same with addresses: somebody counts on them"""
    return spare_ports(addrs=[("10.77.0.9", 24)], up=True)


def second_port(dead=None, addrs=True, both=4):
    """dual-port cards, a rail of its own for each port, one second port down"""
    def nic(n, second):
        down = second and (n == dead or n >= both)
        return R.Nic("mlx5_%d" % (2 * n + second), "roce", 200, state="1: DOWN" if down else None,
                     addrs=[("10.%d.0.7" % (10 + 2 * n + second), 24)] if addrs or not down else [])
    node = Node([(n // 2, [GPU, (nic(n, 0), nic(n, 1))]) for n in range(4)], nccl="2.27.7")
    for n in range(4):
        if n == dead or n >= both:
            dev = "/net/eth_%d/" % (2 * n + 1)
            path = next(p for p in node.m.tree.nodes if dev in p).split(dev)[0] + dev.rstrip("/")
            node.m.tree.files(path, operstate="down", flags="0x1003", carrier=0)
    return node


def second_dead():
    """... with an address"""
    return second_port(3)


def second_bare():
    """... without an address, where three cards of four have both up"""
    return second_port(3, addrs=False)


def second_some():
    """... on three cards of four, without an address"""
    return second_port(None, addrs=False, both=1)


def routed_links():
    """rails with a /31 each: routed, or they would lead nowhere"""
    return Node(R.rails(lambda i: R.Nic("mlx5_%d" % i, "roce", 400,
                                        addrs=[("10.77.%d.17" % i, 31)]), 4), nccl="2.27.5")


def neighbours():
    """two of four GPUs have a NIC at their switch; NVLink joins all"""
    return Node([(n, [GPU] + nics) for n in (0, 1) for nics in ([ib(n)], [])], nccl="2.27.5")


class Flat(Node):
    """Every device is the sixth of its bus, as where a hypervisor has but one."""

    def slot(self, numa, devices):
        bus, self.bus = self.bus, self.bus + 2
        root = self.m.host("%02x" % bus, numa).bridge("%02x:01.0" % bus, "8086:352a", speed=self.link)
        self.device(root, "%02x:05" % (bus + 1), devices, numa)


def flat_nodes(nccl="2.27.5"):
    """NICs that are not device 0 of their bus, at both sockets, and no topology file"""
    return Flat([(n, d) for n in (0, 1) for d in (GPU, roce(n, 400))], nvlink=False, nccl=nccl)


def flat_nodes_226():
    """the same with an NCCL that looks for NICs at their own addresses"""
    return flat_nodes("2.26.5")


def guest_file(version='version="1"', nccl="2.27.5"):
    """a virtual machine whose topology file names NICs that are not device 0 of their bus"""
    node = Flat([(0, d) for i in range(4) for d in (GPU, roce(i, 400))], cpu=cpu(True), nccl=nccl,
                iommu=None)
    node.m.dmi("QEMU", "Standard PC (Q35 + ICH9, 2009)", bios="SeaBIOS")
    pair = '<pci busid="ffff:%02x:00.0" class="0x060400"><pci busid="0000:%02x:05.0" class="0x030200"/>' \
           '<pci busid="0000:%02x:05.0" class="0x020000"/></pci>'
    node.m.tree.file("/var/run/nvidia-topologyd/virtualTopology.xml", '<system %s><cpu numaid="0">%s</cpu></system>' %
                     (version, "".join(pair % (1 + i, 0x11 + 4 * i, 0x13 + 4 * i) for i in range(4))))
    return node


def guest_file_226():
    """the same with an NCCL that looks for NICs at their own addresses"""
    return guest_file(nccl="2.26.5")


def guest_file_version():
    """the same with a file of a version that NCCL refuses"""
    return guest_file('version="2"')


def guest_file_bare():
    """the same with a file that tells no version"""
    return guest_file('name="x"')


def guest_function(named=1, nccl="2.27.5"):
    """a virtual machine with cards of two ports, the second in use, and a topology file that names that"""
    slots = [(0, d) for i in range(4) for d in (GPU, (R.Nic("mlx5_%d" % (2 * i), "ib", 400, state="1: DOWN"), ib(2 * i + 1)))]
    node = Node(slots, cpu=cpu(True), nccl=nccl, iommu=None)
    node.m.dmi("QEMU", "Standard PC (Q35 + ICH9, 2009)", bios="SeaBIOS")
    pair = '<pci busid="ffff:%02x:00.0" class="0x060400"><pci busid="0000:%02x:00.0" class="0x030200"/>' \
           '<pci busid="0000:%02x:00.%d" class="0x020000"/></pci>'
    node.m.tree.file("/var/run/nvidia-topologyd/virtualTopology.xml", '<system version="1"><cpu numaid="0">%s</cpu></system>' %
                     "".join(pair % (1 + i, 0x11 + 4 * i, 0x13 + 4 * i, named) for i in range(4)))
    return node


def guest_function_226():
    """the same with an NCCL that looks for NICs at their own addresses"""
    return guest_function(nccl="2.26.5")


def guest_function_zero():
    """the same with a file that names the first port, for which NCCL takes the card"""
    return guest_function(0)


def guest_gpus():
    """a virtual machine whose topology file names the GPUs alone, and NICs of no NUMA node"""
    node = Node([(-1, d) for i in range(4) for d in (GPU, ib(i))], cpu=cpu(True), nccl="2.27.5", iommu=None)
    node.m.dmi("QEMU", "Standard PC (Q35 + ICH9, 2009)", bios="SeaBIOS")
    node.m.tree.file("/var/run/nvidia-topologyd/virtualTopology.xml", '<system version="1">%s</system>' % "".join(
        '<cpu numaid="%d">%s</cpu>' % (n, "".join('<pci busid="ffff:%02x:00.0" class="0x060400"><pci busid="0000:%02x:00.0" '
                                                  'class="0x030200"/></pci>' % (1 + i, 0x11 + 4 * i) for i in (2 * n, 2 * n + 1)))
        for n in (0, 1)))
    return node


def guest_topo(change=lambda text: text):
    """a virtual machine with a topology file by NCCL_TOPO_FILE"""
    node = guest(env={"NCCL_TOPO_FILE": "/opt/topo.xml"})
    text = '<system version="1">\n  <cpu numaid="0">\n%s  </cpu>\n</system>\n' % "".join(
        '    <pci busid="ffff:%02x:00.0" class="0x060400"><pci busid="0000:%02x:00.0" class="0x030200"/>'
        '<pci busid="0000:%02x:00.0" class="0x020000"/></pci>\n' % (1 + i, 0x11 + 4 * i, 0x13 + 4 * i)
        for i in range(4))
    node.m.tree.file("/opt/topo.xml", change(text))
    return node


def topo_tab():
    """... with a tab between elements"""
    return guest_topo(lambda text: text.replace("\n  <cpu", "\n\t<cpu"))


def topo_declared():
    """... that begins with an XML declaration"""
    return guest_topo(lambda text: '<?xml version="1.0"?>\n' + text)


def topo_cut():
    """... that was cut"""
    return guest_topo(lambda text: text[:len(text) // 2])


def topo_empty():
    """... that is empty"""
    return guest_topo(lambda text: "\n")


def topo_foreign():
    """... of another machine"""
    return guest_topo(lambda text: text.replace('"0000:', '"00ff:'))


def two_nccls(system="2.27.5", wheel="2.18.1"):
    """RoCE rails; a wheel brings another NCCL than the system has"""
    node = Node(R.rails(lambda i: roce(i, 400), 4), nccl=system)
    site = "/usr/local/lib/python3.10/dist-packages"
    node.m.tree.file(site + "/torch/version.py", "__version__ = '2.1.0+cu121'\n")
    node.m.tree.file("%s/nvidia_nccl_cu12-%s.dist-info/METADATA" % (site, wheel), "Name: nvidia-nccl-cu12\n")
    node.m.tree.file(site + "/nvidia/nccl/lib/libnccl.so.2", "")
    return node


def path_nccl():
    """LD_LIBRARY_PATH names another NCCL than the system's"""
    node = Node(R.rails(lambda i: roce(i, 400), 4), nccl="2.27.5", env={"LD_LIBRARY_PATH": "/opt/nccl/lib"})
    node.m.shared_lib("/opt/nccl/lib/libnccl.so.2", "libnccl.so.2.19.3")
    return node


def geforce():
    """two GeForce cards with a RoCE port at the root complex each"""
    node = Node([(0, d) for i in range(2) for d in (GPU, roce(i, 100))], nvlink=False, nccl="2.27.5")
    for g in node.m.nvml["gpus"]:
        g["brand"], g["name"] = "GeForce RTX", "NVIDIA GeForce RTX 4090"
    return node


def acs_switch(**more):
    """ACS is on at the ports of the switches, no NVLink"""
    return Node([(n, [GPU, GPU, ib(n)]) for n in (0, 1)], nvlink=False, nccl="2.27.5", acs=(ACS_ON, ACS_ON), **more)


def acs_root():
    """ACS is on at root ports only"""
    return Node([(n, [GPU, GPU, ib(n)]) for n in (0, 1)], nvlink=False, nccl="2.27.5", acs=(ACS_ON, 0))


def acs_lent(acs=ACS_ON):
    """... and the host gives another device to virtual machines"""
    node = Node([(n, [GPU, GPU, ib(n)]) for n in (0, 1)], nvlink=False, nccl="2.27.5", acs=(acs, acs))
    node.m.host("e0", 0).bridge("e0:01.0", "8086:352a").add("e1:00.0", "15b3:101e", 0x020000, driver="vfio-pci")
    return node


def acs_ats():
    """... and the ports let pass what ATS has translated"""
    return acs_lent(ACS_ON | 0x40)


def iommu_translated():
    """ACS off, the IOMMU translates"""
    return Node([(n, [GPU, GPU, ib(n)]) for n in (0, 1)], nvlink=False, nccl="2.27.5", iommu="DMA")


def ranks():
    """two of four GPUs have their NIC at a switch, two at the root complex; no NVLink"""
    return Node([(0, [GPU, roce(0, 200)]), (0, [GPU, roce(1, 200)]), (1, GPU), (1, roce(2, 200)), (1, GPU),
                 (1, roce(3, 200))], nvlink=False, nccl="2.27.5")


def iwarp(only=True):
    """iWARP ports, which have RoCE's link layer"""
    slots = [(n, d) for n in (0, 1) for d in (GPU, roce(n, 25))]
    node = Node(slots if only else slots + [(0, roce(2, 200)), (1, roce(3, 200))], nvlink=False)
    for path in [p for p in node.m.tree.nodes if p.endswith(("/mlx5_0/node_type", "/mlx5_1/node_type"))]:
        node.m.tree.files(os.path.dirname(path), node_type="4: RNIC")
    return node


def iwarp_beside():
    """the same beside RoCE ports"""
    return iwarp(False)


def uplink():
    """the upper side of the first of four PCIe switches trained at 4 lanes of generation 3"""
    node = Node(R.rails(lambda i: ib(i), 4), nccl="2.27.5")
    t = node.m.tree
    gpu = node.hardware[0][0]
    path = next(p for p in t.nodes if p.endswith("/%s/class" % gpu)).split("/")
    for at in (-3, -4):  # both ends of the link; below them are a port of the switch, the GPU and its file
        t.files("/".join(path[:at]), current_link_width=4, current_link_speed="8.0 GT/s PCIe")
    return node


def uplink_well():
    """the same machine as it should be"""
    return Node(R.rails(lambda i: ib(i), 4), nccl="2.27.5")


def wider_far():
    """GPUs of two sockets without NVLink, a 400G NIC at the switch of one, a 100G NIC at that of the other"""
    return Node([(n, [GPU, GPU, roce(n, (400, 100)[n], subnet="10.200.0.%d")]) for n in (0, 1)],
                nvlink=False, nccl="2.27.5")


def no_peermem():
    """a NIC at the switch of each GPU, and neither a peer-memory module nor dma-buf"""
    node = Node(R.rails(lambda i: ib(i), 4), nccl="2.27.5", peermem=False)
    node.m.env["NCCL_DMABUF_ENABLE"] = "0"
    return node


def container(lost=True, asked="all"):
    """a container that was given four GPUs, of which the driver tells three"""
    node = Node(R.rails(lambda i: ib(i), 4), nccl="2.27.5", hidden=(2,), env={"NVIDIA_VISIBLE_DEVICES": asked})
    node.m.tree.file("/.dockerenv", "")
    node.m.host_pids = False
    if lost:
        node.m.tree.file("/proc/driver/nvidia/gpus/%s/information" % node.hardware[2][0], "Device Minor: \t 2\n")
        node.m.tree.file("/dev/nvidia2", b"")
    return node


def container_list():
    """the same by a list"""
    return container(asked="0,1,2,3")


def container_others():
    """one that was given three of them"""
    return container(False, "0,1,3")


def container_nodes():
    """the same, with the device nodes of all"""
    return container(asked="0,1,3")


def container_dev():
    """one that has the host's /dev and may open two of four GPUs"""
    node = container()
    node.m.nvml["gpus"] = node.m.nvml["gpus"][:2]
    node.m.nvml["pairs"] = []
    return node


def mig_nvlink():
    """GPUs on NVLink that are in MIG mode: the driver refuses peer access, on purpose"""
    node = Node(R.rails(lambda i: ib(i), 4), nccl="2.27.5")
    for g in node.m.nvml["gpus"]:
        g.update(mig=True, mig_pending=True)
    for p in node.m.nvml["pairs"]:
        p.update(p2p_read="not-supported", p2p_write="not-supported")
    return node


def lent_functions():
    """a host whose ports have virtual functions for pods"""
    return Node(R.rails(lambda i: roce(i, 400, vfs=[R.Nic("mlx5_%d" % (8 + 2 * i + k), "roce", 400) for k in (0, 1)]), 4),
                nccl="2.27.5")


MACHINES = {k.replace("_", "-"): v for k, v in list(globals().items())
            if getattr(v, "__doc__", None) and getattr(v, "__module__", "") == __name__ and
            not isinstance(v, type) and k not in ("relink",)}


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
        MACHINES[name]().m.finish().write_tar(os.path.join(args[0], name + ".tar"))


if __name__ == "__main__":
    main(sys.argv[1:])
