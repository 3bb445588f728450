#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""facts: what must hold of a machine's inventory whatever its golden file says.

    tests/machines/facts.py NAME                the titles, one a line
    tests/machines/facts.py NAME N INVENTORY    0 when fact N (from 1) holds

A golden file pins everything, also a mistake that was there when it was written;
these are the statements the machine was built to check.
"""
import json
import sys


class Inventory:
    def __init__(self, doc):
        self.doc = doc
        self.gpus = doc["gpus"]
        self.place, self.cpu, self.limits = doc["place"], doc["cpu"], doc["limits"]
        self.nvidia, self.pairs = doc["nvidia"], doc["gpu_pairs"]
        self.rdma = {r["name"]: r for r in doc["rdma"]}
        self.nets = {n["name"]: n for n in doc["nets"]}
        self.dist = {(d["gpu"], d["nic"]): d["path"] for d in doc["distances"]}

    def states(self):
        return [g["state"] for g in self.gpus]

    def port(self, name):
        return self.rdma[name]["ports"][0]

    def paths(self):
        return {p["path"] for p in self.pairs}


OPENSHIFT_NETS = {"net1": "mlx5_6", "net2": "mlx5_9", "net3": "mlx5_11", "net4": "mlx5_12"}
DGX_NICS = ["mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11"]

POD_NETWORK = [
    ("net1 to net4 have their RDMA devices", lambda m:
     {n: m.nets[n]["rdma"] for n in OPENSHIFT_NETS} == OPENSHIFT_NETS),
    ("another pod's net1 is not taken for ours", lambda m:
     all(m.rdma[n]["netdevs"] == [] for n in ("mlx5_7", "mlx5_8", "mlx5_10", "mlx5_13"))),
    ("they are virtual functions with a parent", lambda m:
     m.rdma["mlx5_6"]["vf"] and m.rdma["mlx5_6"]["physfn"] == "0000:1a:00.0" and
     m.nets["net1"]["physfn"] == "0000:1a:00.0"),
    ("RoCE v2 over IPv4 is at index 3, empty slots are left out", lambda m:
     len(m.port("mlx5_6")["gids"]) == 4 and m.port("mlx5_6")["gids"][3] == {
         "index": 3, "gid": "0000:0000:0000:0000:0000:ffff:0a00:650e", "type": "RoCE v2",
         "ndev": "net1"}),
    ("64 CPUs by quota of 128, in a pod", lambda m:
     m.place["cpus_usable"] == 64 and m.cpu["threads"] == 128 and
     m.place["container"] == "kubernetes" and m.place["k8s_namespace"] == "ml-training"),
    ("the route to the other nodes is eth0", lambda m:
     [n for n in m.nets if m.nets[n]["default_route"]] == ["eth0"]),
    ("four RDMA device nodes are ours", lambda m: m.limits["uverbs"] == 4),
]

FACTS = {
    "openshift-roce": POD_NETWORK + [
        ("four GPUs are ours, four are hidden", lambda m:
         m.states() == ["ok", "hidden"] * 4 and [g["index"] for g in m.gpus[0::2]] == [0, 1, 2, 3]),
        ("each GPU has its NIC below the same switch", lambda m:
         [m.dist[(2 * i, n)] for i, n in enumerate(OPENSHIFT_NETS.values())] == ["PIX"] * 4 and
         m.dist[(0, "mlx5_9")] == "NODE" and m.dist[(0, "mlx5_12")] == "SYS"),
        ("peer memory is loaded, /dev/shm has 64 GiB", lambda m:
         m.limits["peermem"] == "nvidia_peermem" and m.limits["shm_bytes"] == 64 << 30),
    ],
    "openshift-init": POD_NETWORK + [
        ("the GPUs are hidden, not absent", lambda m:
         m.states() == ["hidden"] * 8 and m.nvidia["nvml_error"]),
        ("nothing is said of a driver nobody could ask", lambda m:
         m.nvidia["cuda_driver"] is None and all(g["index"] is None for g in m.gpus)),
    ],
    "openshift-memlock": [
        ("8 MiB may be locked", lambda m: m.limits["memlock_bytes"] == 8 << 20),
    ],
    "dgx-h100": [
        ("8 GPUs, 28 pairs at NV18, 4 switches", lambda m:
         m.states() == ["ok"] * 8 and len(m.pairs) == 28 and m.paths() == {"NV18"} and
         m.nvidia["nvswitches"] == 4 and m.nvidia["fabricmanager_running"]),
        ("2 sockets of 56 cores, 224 threads", lambda m:
         (m.cpu["sockets"], m.cpu["cores"], m.cpu["threads"]) == (2, 112, 224)),
        ("each GPU's NIC is the one the user guide names", lambda m:
         [m.dist[(i, n)] for i, n in enumerate(DGX_NICS)] == ["PXB"] * 8 and
         m.dist[(0, "mlx5_11")] == "SYS"),
        ("the bond has the route and RDMA below it", lambda m:
         m.nets["bond0"]["kind"] == "bond" and m.nets["bond0"]["default_route"]),
        ("the Lustre mount is listed with its size", lambda m:
         [x["size_bytes"] > 0 for x in m.doc["mounts"] if x["fstype"] == "lustre"] == [True]),
        ("ten NVMe drives", lambda m: len(m.doc["disks"]) == 10),
    ],
    "a100-pcie": [
        ("two NVLink pairs, the rest crosses the host", lambda m:
         [(p["a"], p["b"]) for p in m.pairs if p["path"] == "NV12"] == [(0, 1), (2, 3)] and
         m.paths() == {"NV12", "SYS"}),
        ("no RDMA", lambda m: m.rdma == {}),
        ("ACS is on and the IOMMU translates", lambda m:
         m.limits["acs_bridges"] == 6 and m.limits["iommu_mode"] == "translated"),
        ("8 NUMA nodes with their distances", lambda m:
         [n["distances"] for n in m.doc["numa"]][0] == [10, 12, 12, 12, 32, 32, 32, 32]),
    ],
    "gh200": [
        ("one GPU on an Arm processor, NICs at the same node in other PCI domains", lambda m:
         m.cpu["arch"] == "aarch64" and m.states() == ["ok"] and m.gpus[0]["bdf"] == "0009:01:00.0" and
         m.dist[(0, "mlx5_0")] == m.dist[(0, "mlx5_1")] == "NODE"),
        ("nine NUMA nodes, one with processors", lambda m:
         len(m.doc["numa"]) == 9 and sum(n["cpus"] is not None for n in m.doc["numa"]) == 1),
    ],
    "gb200": [
        ("four GPUs of one NVLink domain, each pair at NV18", lambda m:
         m.states() == ["ok"] * 4 and {g["fabric_clique"] for g in m.gpus} == {1} and m.paths() == {"NV18"}),
        ("nvidia-imex runs for 18 machines and has a channel", lambda m:
         (m.nvidia["imex_running"], m.nvidia["imex_nodes"], m.nvidia["imex_channels"]) == (True, 18, 1)),
        ("34 NUMA nodes, two with processors", lambda m:
         len(m.doc["numa"]) == 34 and sum(n["cpus"] is not None for n in m.doc["numa"]) == 2),
    ],
    "gpu-lost": [
        ("the GPU at 0000:5d:00.0 is lost, the others work", lambda m:
         [(g["bdf"], g["index"]) for g in m.gpus if g["state"] == "lost"] == [("0000:5d:00.0", 3)]
         and m.states().count("ok") == 7),
        ("NVML's code is kept", lambda m: m.gpus[3]["errors"][0]["code"] == 15),
        ("its link is unknown, not 63 lanes wide", lambda m:
         [(p["alive"], p["link_width"]) for p in m.doc["pci"] if p["bdf"] == "0000:5d:00.0"] ==
         [(False, None)]),
        ("the Slurm job is known", lambda m: m.place["slurm_job"] == "88213"),
    ],
    "mig-h200": [
        ("five instances fill seven slices", lambda m:
         m.gpus[0]["mig"] and [x["name"] for x in m.gpus[0]["migs"]] ==
         ["2g.35gb"] * 2 + ["1g.18gb"] * 3 and
         sum(x["slices"] for x in m.gpus[0]["migs"]) == 7),
        ("it is a virtual machine", lambda m: m.place["hypervisor"] == "kvm"),
    ],
    "cloud-efa": [
        ("32 EFA devices with an unknown link layer", lambda m:
         len(m.rdma) == 32 and all(m.port(n)["link_layer"] is None for n in m.rdma) and
         m.rdma["rdmap79s0"]["driver"] == "efa"),
        ("no distance is made up where the NUMA node is not told", lambda m:
         m.dist[(7, "rdmap198s0")] is None and m.dist[(0, "rdmap79s0")] == "NODE"),
        ("8 GPUs at NV18", lambda m: m.states() == ["ok"] * 8 and m.paths() == {"NV18"}),
    ],
    "roce-ipv6": [
        ("every GID is IPv6", lambda m:
         all(g["gid"].startswith(("fe80", "fd00")) for n in m.rdma for g in m.port(n)["gids"])),
        ("every pair of GPUs has six links", lambda m: m.paths() == {"NV6"}),
        ("dma-buf by kernel and open module, no peer memory", lambda m:
         m.limits["dmabuf"] and m.limits["peermem"] is None),
    ],
    "ib-roce-mixed": [
        ("the port that is down is listed as such", lambda m: m.port("mlx5_3")["state"] == "DOWN"),
        ("one Ethernet port among InfiniBand", lambda m:
         [n for n in m.rdma if m.port(n)["link_layer"] == "Ethernet"] == ["mlx5_1"]),
        ("the older peer memory module is seen", lambda m: m.limits["peermem"] == "nv_peer_mem"),
    ],
    "hostile": [
        ("absurd numbers are unknown", lambda m:
         m.cpu["threads"] is None and m.doc["memory"]["total_bytes"] is None and
         all(p["link_width"] is None and p["numa"] is None for p in m.doc["pci"]
             if p["bdf"] == "0000:01:00.0")),
        ("a driver's answer cut in half is an error that says so", lambda m:
         "nvml.json" in m.nvidia["nvml_error"]),
        ("a capability list in a circle ends", lambda m:
         [p["acs"] for p in m.doc["pci"] if p["bdf"] == "0000:00:01.0"] == [None]),
    ],
}


def main(args):
    facts = FACTS.get(args[0], []) if args else []
    if len(args) == 1:
        for title, _ in facts:
            print(title)
        return 0
    if len(args) != 3:
        sys.stderr.write(__doc__.split("\n\n")[1] + "\n")
        return 2
    with open(args[2], encoding="utf-8") as src:
        m = Inventory(json.load(src))
    if facts[int(args[1]) - 1][1](m):
        return 0
    for g in m.gpus:
        print({k: g[k] for k in ("bdf", "index", "state", "numa")})
    print(m.limits)
    return 1


sys.exit(main(sys.argv[1:]))
