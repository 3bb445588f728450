# SPDX-License-Identifier: MIT
"""hostile: a machine whose files were written to break their readers.

No machine looks like this; every file is one way in which a reader trusts too much.
detect must end at once, with exit 0, and say "unknown".
"""
import json

from machine import Machine
from sysfs import loopback, memory, net, rdma, routes, spr

NOT_UTF8 = "\udcff\udcfe\udc80"  # the bytes ff fe 80
LONG = 10 << 20


def hostile():
    """Absurd files, hand-built: there is no such machine and no source but the limits
    stoker sets itself (numbers out of range, links in a circle, bytes that are no
    UTF-8, files of one line of 10 MB, folders where files belong, lists that loop, a
    driver's answer cut in half)."""
    cpu = spr("Intel" + NOT_UTF8 + "\x1b[31m Xeon\a", 1, 2, "-4K", 3000, smt=1)
    m = Machine("evil\x1b]0;host", "9" * 300, cpu, iommu="DMA")
    t = m.tree
    t.file("/etc/os-release", b'PRETTY_NAME="\xff\xfe\x1b[2J' + b"A" * 5000 + b'\nNAME=\n=\n"\n')
    m.dmi("\x00\x01\x02", "<script>alert(1)</script>&amp;\"'")
    t.file("/proc/cmdline", b"x" * LONG)
    cpu.write(t, online="0-4294967295")
    t.file("/sys/devices/system/cpu/cpu1/topology/physical_package_id", "-2147483649")
    t.file("/sys/devices/system/cpu/cpu1/topology/core_id", "99999999999999999999999")
    memory(t, cpu, 16000000)
    hostile_memory(t)
    hostile_pci(m)
    hostile_net(m)
    hostile_rdma(m)
    hostile_rest(m)
    for row in m.ifs:  # JSON has no way to write bytes that are no UTF-8
        row["name"] = row["name"].replace(NOT_UTF8, "\ufffd")
    out = m.finish()
    hostile_documents(m, out)
    return out


def hostile_memory(t):
    t.file("/proc/meminfo", "MemTotal: -16000000 kB\nMemAvailable: 99999999999999999999 kB\n"
           "SwapTotal:\nHugePages_Total: x\n")
    node = "/sys/devices/system/node"
    t.files(node, online="0-1023,5-2,,7", possible="0-4095")
    t.files(node + "/node0", distance="10 -1 99999999999 x " + "21 " * 5000, cpulist="0-,-3,9-1")
    t.link(node + "/node1", "node1")
    t.file("/sys/kernel/mm/transparent_hugepage/enabled", "[" * 4000)
    pools = "/sys/kernel/mm/hugepages"
    t.files(pools + "/hugepages--5kB", nr_hugepages="-1", free_hugepages="x")
    t.files(pools + "/hugepages-99999999999999999999kB", nr_hugepages="18446744073709551616")


def hostile_pci(m):
    t = m.tree
    root = m.host("00")
    bridge = root.bridge("00:01.0")
    raw = bytearray(t.nodes[bridge.path + "/config"][1])
    raw[0x100:0x104] = (0x0001 | 0x0001 << 16 | 0x100 << 20).to_bytes(4, "little")  # to itself
    t.file(bridge.path + "/config", bytes(raw))
    gpu = bridge.add("01:00.0", "10de:2330", 0x030200, driver="nvidia", speed=5)
    t.files(gpu.path, numa_node="-99999999999999999999", current_link_width="4294967295",
            current_link_speed="\x1b[31mfast\x1b[0m", max_link_width="-16",
            sriov_numvfs="4294967296", local_cpulist="0-4294967295")
    t.link(gpu.path + "/physfn", "physfn")
    t.link(gpu.path + "/driver", "../" * 200 + "etc/passwd")
    odd = bridge.add("02:00.0", "10de:2330", 0x030200)
    t.remove(odd.path + "/vendor")
    t.dir(odd.path + "/vendor")
    t.link("/sys/bus/pci/devices/0000:03:00.0", "0000:04:00.0")  # a circle of two
    t.link("/sys/bus/pci/devices/0000:04:00.0", "0000:03:00.0")
    t.link("/sys/bus/pci/devices/0000:05:00.0", "/" + "a/" * 600)
    t.file("/sys/bus/pci/devices/zzzz:zz:zz.z/class", "0x030200")
    t.file("/sys/bus/pci/devices/0000:06:00.0/class", "0x" + "f" * 400)
    t.file("/sys/bus/pci/devices/" + NOT_UTF8 + "/vendor", "0x10de")
    deep = root
    for i in range(40):  # more bridges than a path or a program takes
        deep = deep.bridge("%02x:00.0" % (0x40 + i), config=None)
    deep.add("70:00.0", "15b3:1021", 0x020000, driver="mlx5_core")


def hostile_net(m):
    t = m.tree
    loopback(m)
    net(m, "et" + NOT_UTF8, index=2)
    net(m, "a;touch pwned", index=3, mtu="-1", speed="-1", mac="x" * 3000)
    net(m, "`touch pwned`", index=4, mtu=99999999999, speed=18446744073709551615)
    net(m, "n" * 200, index=-5)
    for i in range(300):
        net(m, "veth%08x" % (i * 2654435761 % (1 << 32)), index=100 + i, speed=10000)
    t.link("/sys/class/net/loop", "loop")
    t.file("/sys/class/net/plainfile", "1")
    routes(m, [])
    t.file("/proc/net/route", "Iface\tDestination\n" + "eth0\tZZZZZZZZ\t-1\n" * 3 + "\t\t\t\n" +
           "x" * 100000 + "\n")
    t.file("/proc/net/ipv6_route", "ff\n" + "0" * 5000 + "\n")


def hostile_rdma(m):
    t = m.tree
    dev = m.host("80").add("81:00.0", "15b3:1021", 0x020000, driver="mlx5_core")
    path = rdma(m, "mlx5_0", dev, "Ethernet", "99999999999999 Gb/sec (4X NDR)",
                [("10.0.0.1", "RoCE v2", "et" + NOT_UTF8)] * 8, guid="x" * 500)
    port = path + "/ports/1"
    t.files(port, state="-1: " + "A" * 3000, phys_state=":", lid="0xfffffffffffffffff",
            link_layer="\x1b[5mEthernet")
    t.files(port + "/gids", **{"8": "zzzz", "9": ":" * 39, "10": "1" * 100000})
    t.file(path + "/ports/-1/state", "4: ACTIVE")
    t.file(path + "/ports/99999999999/state", "4: ACTIVE")
    t.file(port + "/gids/-7", "fe80:0000:0000:0000:0000:0000:0000:0001")
    t.link("/sys/class/infiniband/mlx5_1", "mlx5_2")
    t.link("/sys/class/infiniband/mlx5_2", "mlx5_1")
    t.dir("/sys/class/infiniband/mlx5_3")


def hostile_rest(m):
    t = m.tree
    t.file("/proc/self/cgroup", "0::/../../../../etc\n1:name=\n" + "x" * 20000 + "\n")
    t.files("/sys/fs/cgroup", **{"cpu.max": "-1 0", "memory.max": "-5",
                                 "cpuset.cpus.effective": "0-4294967295", "pids.max": "x"})
    t.dir("/sys/block/sda/size")
    t.files("/sys/block/sdb", size="-1")
    t.files("/sys/block/sdc", size="99999999999999999999")
    t.files("/sys/block/sdc/queue", rotational="maybe", scheduler="[" + "x" * 5000)
    m.mount("a\\040b\\999", "/mnt\\040\\1", "nfs4", "x" * 5000)
    m.mount(NOT_UTF8, "/" + "m" * 2000, "lustre", "rw", size=1)
    t.file("/proc/modules", "nvidia_peermem\n\n \n" + "x" * 100000)
    t.dir("/proc/driver/nvidia/version")
    t.file("/sys/module/nvidia_peermem/version", NOT_UTF8)
    t.dir("/usr/local/cuda/version.json")
    t.link("/usr/lib/x86_64-linux-gnu/libnccl.so.2", "libnccl.so.2")
    t.file("/sys/kernel/iommu_groups/99999999999999999999/type", "DMA")
    m.memlock, m.nofile = -99, 1 << 62


def hostile_documents(m, tree):
    """A driver's answer that was cut, and /stoker/errors with lines that are none."""
    doc = json.dumps({"schema": "stoker.nvml/1", "gpus": [{"index": 0, "name": "X" * 100}]})
    tree.file("/stoker/nvml.json", doc[: len(doc) - 30].encode())
    tree.file("/stoker/errors", b"\n\t\n/sys/class/net/lo/speed\t22\n/x\tabc\n/y\t-1\nnonsense\n" +
              b"z" * 70000)
    tree.errors = {}
