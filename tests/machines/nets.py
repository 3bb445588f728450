#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nets: machines by their network interfaces: without a link, of libvirt, without RDMA.

    tests/machines/nets.py OUT-DIR [NAME…]     OUT-DIR/NAME.tar
    tests/machines/nets.py --list

Built from the slots of rails.py.  tests/cli/nccl_nets.t says what must come of them.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import rails as R  # noqa: E402
from rails import GPU, Node, ib, roce  # noqa: E402
from sysfs import net, routes  # noqa: E402


def plain(**more):
    """two GPUs, and sockets only"""
    return Node([(0, GPU), (0, GPU)], nvlink=False, **more)


def railed(**more):
    """four GPUs with an InfiniBand port each"""
    return Node(R.rails(ib, 4), **more)


def first(node, name, address, **more):
    """An interface that the kernel lists before the front end."""
    net(node.m, name, None, 2, "5c:ff:35:e2:04:99", **more)
    node.m.addrs.insert(2, {"ifname": name, "family": "inet", "addr": address, "prefix": 24})
    return node


def no_link(node):
    """eno1 has an address and no cable, and comes before the front end"""
    return first(node, "eno1", "192.168.1.10", state="down")


def nolink_227():
    """... NCCL 2.27 does not look whether it runs"""
    return no_link(railed(nccl="2.27.5", front="eno2", front_index=5))


def nolink_228():
    """... 2.28 does"""
    return no_link(railed(nccl="2.28.9", front="eno2", front_index=5))


def nolink_tcp():
    """... without RDMA data goes by it as well"""
    return no_link(plain(nccl="2.21.5", front="eno2", front_index=5))


def nolink_after():
    """the front end first, then an interface with an address and no cable; without RDMA"""
    node = plain(nccl="2.21.5", front="eno1", front_index=2)
    net(node.m, "eno2", None, 7, "5c:ff:35:e2:04:99", state="down")
    node.m.addr("eno2", "192.168.1.10", 24)
    return node


def virbr_227():
    """libvirt's bridge before the front end: NCCL 2.27 does not leave it out"""
    return first(railed(nccl="2.27.5", front="eno2", front_index=5), "virbr0", "192.168.122.1", kind="bridge")


def virbr_228():
    """... 2.28 does"""
    return first(railed(nccl="2.28.9", front="eno2", front_index=5), "virbr0", "192.168.122.1", kind="bridge")


def front_nic():
    """four RoCE rails and a RoCE NIC with the default route; IPv4 only"""
    return Node(R.rails(roce, 4) + [(0, R.Nic("mlx5_8", "roce", 100, kind=R.CX6, addrs=[("10.20.0.17", 16)],
                                              gateway="10.20.0.1"))], nccl="2.27.5", front=None)


def ipoib():
    """the first port has IP over InfiniBand"""
    return Node(R.rails(lambda i: ib(i, ipoib=None if i else ("ib0", "172.16.1.10", 16, "172.16.0.0")), 4),
                nccl="2.27.5")


def six_local():
    """an IPv4 address, and of IPv6 a link-local one only"""
    node = plain(nccl="2.27.5")
    node.m.addr("eno1", "fe80::5eff:35ff:fee2:49a", 64)
    return node


def six_only():
    """four InfiniBand ports, and a front end with IPv6 addresses only"""
    node = railed(nccl="2.27.5", front=None)
    port = node.m.host("e0", 0).bridge("e0:01.0", "8086:352a")
    net(node.m, "eno1", port.add("e1:00.0", "8086:1592", 0x020000, driver="ice"), 30, "02:00:00:00:01:09",
        speed=100000)
    node.m.addr("eno1", "fd00:0:0:7::17", 64)
    return node


def topo_missing():
    """NCCL_TOPO_FILE names a file that is not there"""
    return railed(nccl="2.27.5", env={"NCCL_TOPO_FILE": "/opt/microsoft/ndv4-topo.xml"})


def named(front, **more):
    """the front end has a name that NCCL passes over"""
    return railed(nccl="2.28.9", front=front, **more)


def named_lo():
    """... since it begins with "lo\""""
    return named("lom1")


def named_docker():
    """... since it begins with "docker\", though it is a card"""
    return named("dockerext0")


def vpn():
    """a tunnel with an address before the front end"""
    node = railed(nccl="2.27.5", front_index=30)
    net(node.m, "tailscale0", None, 3, "00:00:00:00:00:00", state="unknown", type_=65534)
    node.m.addrs.insert(2, {"ifname": "tailscale0", "family": "inet", "addr": "100.77.1.2", "prefix": 32})
    return node


def crowd():
    """a host of 700 containers, whose front end the list of names has last"""
    node = railed(nccl="2.28.9", front="vlan100", front_index=900)
    for k in range(700):
        name = "veth%08x" % (k * 7919)
        net(node.m, name, None, 1000 + k, "0a:58:00:00:%02x:%02x" % (k >> 8, k & 255))
        node.m.addr(name, "fe80::858:ff:fe00:%x" % (k + 1), 64)
    net(node.m, "cni0", None, 3, "0a:58:0a:f4:01:01", kind="bridge")
    node.m.addr("cni0", "10.244.3.1", 24)
    return node


# ---- NICs without an RDMA device
def bare(driver, speed=100000, ids="8086:1592", **more):
    """two GPUs and a fast NIC of this driver, no RDMA device"""
    node = plain(nccl="2.27.5", front=None, **more)
    port = node.m.host("e0", 0).bridge("e0:01.0", "8086:352a")
    for i in (0, 1):
        net(node.m, "ens%d" % i, port.add("e1:00.%d" % i, ids, 0x020000, driver=driver), 3 + i,
            "02:00:00:00:01:0%d" % i, mtu=9000, speed=speed)
        node.m.addr("ens%d" % i, "10.10.%d.17" % i, 24)
    routes(node.m, [("ens0", "0.0.0.0", 0, "10.10.0.1", 0), ("ens0", "10.10.0.0", 24, None, 0)])
    return node


def bare_ice():
    """... E810, without irdma"""
    return bare("ice")


def bare_mlx5():
    """... ConnectX, without mlx5_ib"""
    return bare("mlx5_core", ids="15b3:1021")


def bare_ena():
    """... of AWS"""
    return bare("ena", None, "1d0f:ec20")


def bare_slow():
    """... of 1 Gb/s, which nobody would use for RDMA"""
    return bare("igb", 1000)


def bare_one():
    """one of five ConnectX has no RDMA device"""
    node = Node(R.rails(roce, 4), nccl="2.27.5")
    port = node.m.host("e0", 0).bridge("e0:01.0", "8086:352a")
    net(node.m, "ens9", port.add("e1:00.0", "15b3:1021", 0x020000, driver="mlx5_core"), 40,
        "02:00:00:00:01:09", mtu=9000, speed=200000)
    node.m.addr("ens9", "10.100.9.17", 24)
    return node


def slingshot():
    """four NICs of HPE Slingshot"""
    node = plain(nccl="2.27.5")
    for i in range(4):
        port = node.m.host("%02x" % (0xa0 + 4 * i), 0).bridge("%02x:01.0" % (0xa0 + 4 * i), "1022:1483")
        net(node.m, "hsn%d" % i, port.add("%02x:00.0" % (0xa1 + 4 * i), "17db:0501", 0x020000,
                                          driver="cxi_ss1"), 20 + i, "02:00:00:00:00:1%d" % i, speed=200000)
        node.m.addr("hsn%d" % i, "10.249.0.%d" % (10 + i), 16)
    return node


# ---- addresses
def converged(vlan=True):
    """one network for training and NFS, and a VLAN beside it on every port"""
    both = [(("10.90.0.%d", 24),), (("172.20.0.%d", 24, 60),)]
    def nic(i):
        return R.Nic("mlx5_%d" % i, "roce", 400,
                     addrs=[(a[0] % (17 + i), *a[1:]) for row in both[:2 if vlan else 1] for a in row])
    return Node(R.rails(nic, 4), nccl="2.27.5",
                mounts=[("10.90.0.200:/x", "/x", "nfs4", "rw,vers=4.2,proto=rdma,addr=10.90.0.200")])


MACHINES = {k.replace("_", "-"): v for k, v in list(globals().items())
            if getattr(v, "__doc__", None) and getattr(v, "__module__", "") == __name__ and
            not isinstance(v, type) and k not in ("first", "no_link", "bare", "named")}


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
