#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kinds: healthy machines of unlike kinds and with NCCL of unlike ages, and what breaks on them.

    tests/machines/kinds.py OUT-DIR [NAME…]     OUT-DIR/NAME.tar
    tests/machines/kinds.py --list

Built from the slots of rails.py.  tests/cli/nccl_kinds.t says what must come of them.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import gpus as G  # noqa: E402
import rails as R  # noqa: E402
from rails import GPU, Node, ib, roce  # noqa: E402
from sysfs import milan, net  # noqa: E402

MACHINES = {}


def machine(make):
    MACHINES[make.__name__.replace("_", "-")] = make
    return make


def epyc():
    return milan("AMD EPYC 7543 32-Core Processor", 2, 8, 2, 8, 3700, smt=1)


# ---- old releases, and one that is newer than what is followed
@machine
def newer():
    """InfiniBand rails, NCCL 2.35"""
    return Node(R.rails(lambda i: ib(i), 4), nccl="2.35.1")


def amd(gpus, nccl):
    return Node([(i % 2, GPU) for i in range(gpus)], cpu=epyc(), nvlink=False, kind=G.A100_PCIE,
                nccl=nccl, link=4)


@machine
def amd_222():
    """four GPUs at root ports of two EPYC, NCCL 2.22: direct copies between all"""
    return amd(4, "2.22.3")


@machine
def amd_223():
    """the same with 2.23, which trusts two GPUs alone"""
    return amd(4, "2.23.4")


@machine
def intel_222():
    """the same on Xeon with 2.22: shared memory"""
    return Node([(i % 2, GPU) for i in range(4)], nvlink=False, kind=G.A100_PCIE, nccl="2.22.3")


def open_driver(nccl):
    return Node(R.rails(ib, 4), nccl=nccl, peermem=False)


@machine
def dmabuf_212():
    """dma-buf works, no peer-memory module, NCCL 2.12: which has no dma-buf"""
    return open_driver("2.12.12")


@machine
def dmabuf_213():
    """the same with 2.13, which has"""
    return open_driver("2.13.4")


def many(nccl):
    return Node([(R.numa_of(i, 9), [GPU, (roce(2 * i), roce(2 * i + 1))]) for i in range(9)], nccl=nccl)


@machine
def many_2183():
    """18 active ports, NCCL 2.18.3: which takes 16"""
    return many("2.18.3")


@machine
def many_2185():
    """the same with 2.18.5: 32"""
    return many("2.18.5")


@machine
def neighbours_211():
    """GPUs that would go by a neighbour's NIC, and a release without that"""
    return Node([(n, [GPU] + nics) for n in (0, 1) for nics in ([ib(n)], [])], nccl="2.11.4")


# ---- fewer rails than GPUs
@machine
def even_rails():
    """eight GPUs at a switch each, NICs at every other switch, a subnet each: all well"""
    return Node([(R.numa_of(i), [GPU] + ([roce(i, 400)] if i % 2 == 0 else [])) for i in range(8)],
                nccl="2.27.5")


@machine
def even_rails_slow():
    """the same, and one rail trained at half rate"""
    return Node([(R.numa_of(i), [GPU] + ([roce(i, 200 if i == 4 else 400)] if i % 2 == 0 else []))
                 for i in range(8)], nccl="2.27.5")


@machine
def far_rail_down():
    """two GPUs without NVLink, each with a rail at its switch, the second down"""
    return Node([(n, [GPU, roce(n, 400, state=("1: DOWN" if n else None))]) for n in (0, 1)],
                nvlink=False, nccl="2.27.5")


# ---- links of PCIe
def relink(node, **files):
    """Other link files for the PCI functions of all RDMA devices."""
    for path in {p.split("/infiniband/")[0] for p in list(node.m.tree.nodes) if p.endswith("/node_guid")}:
        node.m.tree.files(path, **files)
    return node


@machine
def gen4_slots():
    """400G cards of PCIe 5 in slots of PCIe 4"""
    return relink(Node(R.rails(lambda i: roce(i, 400), 4), nccl="2.27.5", link=4),
                  max_link_speed="32.0 GT/s PCIe")


@machine
def one_link():
    """cards with two 200G ports behind one link of PCIe 4; one GPU each"""
    return Node([(n, [GPU, (roce(2 * n, 200), roce(2 * n + 1, 200))]) for n in (0, 1)],
                nccl="2.27.5", link=4)


@machine
def two_nics_a_gpu():
    """one GPU with two 400G NICs: its own link is 504 Gb/s"""
    return Node([(0, [GPU, roce(0, 400), roce(1, 400)])], nvlink=False, nccl="2.27.5")


# ---- networks and ports
@machine
def kept_address():
    """a second port that is taken down and has its address still"""
    node = Node([(n, [GPU, (roce(2 * n, 200), roce(2 * n + 1, 200, state="1: DOWN" if n else None))])
                 for n in (0, 1)], nccl="2.27.5")
    path = next(p for p in node.m.tree.nodes if "/net/eth_3/" in p).split("/net/eth_3/")[0]
    node.m.tree.files(path + "/net/eth_3", operstate="down", flags="0x1002", carrier=0)
    return node


@machine
def pods_first():
    """no RDMA; the bridge of the pods comes before the interface that leads out"""
    node = Node([(i % 2, GPU) for i in range(2)], nccl="2.27.5", front_index=9)
    net(node.m, "cni0", None, 3, "0a:58:0a:f4:01:01", kind="bridge", speed=10000)
    node.m.addr("cni0", "10.244.1.1", 24)
    return node


# ---- NVLink
def bridged(*pairs):
    """Four PCIe cards; bridges join these pairs."""
    node = Node([(i // 2, GPU) for i in range(4)], nvlink=False, kind=G.A100_PCIE, nccl="2.27.5")
    found = node.m.nvml["gpus"]
    for g in found:
        g.update(nvlinks_total=12, nvlinks=[dict(link=i, active=False) for i in range(12)])
    for a, b in pairs:
        G.link_gpus(found[a], G.A100_PCIE, [found[b]["bdf"]], 12)
        G.link_gpus(found[b], G.A100_PCIE, [found[a]["bdf"]], 12)
    joined = [set(p) for p in pairs]
    node.m.nvml["pairs"] = G.pairs(found, nvlink=lambda a, b: "ok" if {a["index"], b["index"]} in joined
                                   else None)
    return node


@machine
def one_bridge():
    """four PCIe cards of which a bridge joins two"""
    return bridged((0, 1))


@machine
def bad_bridge():
    """two bridges, and a third of the links of one is down"""
    node = bridged((0, 1), (2, 3))
    for g in node.m.nvml["gpus"][2:]:
        for l in g["nvlinks"][8:]:
            l.update(active=False)
    return node


@machine
def refused():
    """NVLink joins all GPUs; the driver refuses peer access to one of them"""
    node = Node(R.rails(lambda i: ib(i), 4), nccl="2.27.5")
    for p in node.m.nvml["pairs"]:
        if 2 in (p["a"], p["b"]):
            p.update(p2p_read="gpu not supported", p2p_write="gpu not supported")
    return node


@machine
def two_kinds():
    """two bridged cards beside two of another model, which has no NVLink"""
    node = bridged((0, 1))
    for g in node.m.nvml["gpus"][2:]:
        g.update(name="NVIDIA L4", nvlinks_total=0, nvlinks=[], mem_total_bytes=23034 << 20)
    return node


@machine
def board_link_down():
    """a board whose links lead from each GPU to all others; GPU 3 has none up"""
    node = bridged()
    found = node.m.nvml["gpus"]
    for g in found:
        G.link_gpus(g, G.A100_SXM, [x["bdf"] for x in found if x is not g], 4)
        for l in g["nvlinks"]:
            l.update(active=g is not found[3] and l["remote_bdf"] != found[3]["bdf"])
    return node


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
