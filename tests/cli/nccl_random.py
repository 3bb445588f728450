#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nccl_random: what `stoker detect --env` says of random machines, held against NCCL's own rule.

    tests/cli/nccl_random.py STOKER FIRST-SEED COUNT [--keep DIR]

Each seed is a machine (tests/machines/rails.py builds it): GPUs at switches or root ports, NICs
beside them, on other root ports or across sockets, one or two fabrics, cards of two ports, bonds,
VLANs, ports that are down, rates, virtual functions, file systems mounted over some, NCCL of several versions; every
fifth has one flat network for training and for the default route or file systems, and lesser ports
of the other layer beside it, of which nothing tells that they are for storage.  Of each must hold that

  1. no GPU has less bandwidth or a longer way with what is printed than without: counted here by
     a model of NCCL of its own (Nccl below: paths, PXN, the NICs of a GPU, channels), not by ours,
  2. what our scores say of NCCL's own choice is what that model finds,
  3. no variable names a port or an interface that is not there or is down,
  4. with the variables set, neither the lint nor a check complains about one of them,
     the ports in use are those that were wanted, and a second run changes nothing,
  5. the parts of the answer agree with one another.

A failing seed is printed with its machine; run it alone with COUNT 1 and --keep.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "machines"))

import gpus as G  # noqa: E402
from rails import BF3, CX4, CX6, CX7, GPU, Nic, Node  # noqa: E402
from sysfs import milan, spr  # noqa: E402

LOC, NVL, PIX, PXB, PXN, PHB, SYS = 0, 1, 4, 5, 7, 8, 9
NAMES = {PIX: "PIX", PXB: "PXB", PXN: "PXN", PHB: "PHB", SYS: "SYS"}
LINK_MBPS = 504123  # PCIe 5 x16
KINDS = {25: CX4, 50: CX4, 100: CX6, 200: CX6, 400: CX7}


# ---- the machine
class Machine:
    """A random machine: `slots` for the builder, and what is true of every port."""

    def __init__(self, seed):
        self.r = r = random.Random(seed)
        self.nics, self.gpus, self.mounts, self.rows = [], [], [], []
        self.nccl = r.choice(["2.18.3", "2.19.4", "2.21.5", "2.23.4", "2.25.1", "2.26.2", "2.28.9", "2.30.4"])
        if self.nccl == "2.21.5" and seed % 3 == 0:
            self.nccl = "2.20.5"
        self.amd = r.random() < 0.4
        self.model = r.choice([0x4f, 0x6a, 0x8f, 0xcf])
        self.sockets = r.choice([1, 2, 2, 2])
        self.per = r.choice([1, 1, 1, 2, 4]) if self.amd else r.choice([1, 1, 2])
        self.nodes = self.sockets * self.per
        self.count = r.choice([1, 2, 2, 4, 4, 8, 8, 16])
        self.nvlink = self.count > 1 and r.random() < 0.6
        self.gdr = r.random() < 0.85
        self.layer = r.choice(["ib", "roce"])
        self.gbps = r.choice([100, 200, 400])
        self.flat = r.random() < 0.4
        self.dual = r.random() < 0.2  # cards of two ports
        self.vlan = self.layer == "roce" and r.random() < 0.4
        self.bond = self.layer == "roce" and not self.dual and r.random() < 0.2
        self.names = list(range(160))
        if r.random() < 0.3:
            r.shuffle(self.names)
        self.mix = seed % 5 == 0 and random.Random("mix %d" % seed)
        if self.mix:
            self.converge()
        self.slots = self.compute()
        if self.mix:
            self.beside()
        else:
            self.extras()
        self.node = self.build()

    def converge(self):
        """One flat network for training, and for the default route or file systems."""
        self.layer, self.flat, self.dual = self.mix.choice(["roce", "roce", "ib"]), True, False
        self.vlan = self.bond = False
        self.routed = self.layer == "roce" and self.mix.random() < 0.5
        if self.layer == "ib":
            self.mounts.append(("100.126.9.9@o2ib:/s", "/lustre", "lustre", "rw,flock"))
        elif not self.routed:
            self.mounts.append(("nas:/d", "/data", "nfs4", "rw,vers=4.2,addr=10.50.9.9"))
        if self.mix.random() < 0.5:
            self.mounts.append(("gpfs0", "/gpfs", "gpfs", "rw,relatime"))

    def beside(self):
        """Ports of the other layer, fewer than the rails and no faster, at switches or root ports."""
        rails = [n for n in self.nics if not n.state and not n.rate and (n.layer == "ib" or n.addrs)]
        for i in range(self.mix.randrange(max(1, len(rails)))):
            gbps = self.mix.choice([g for g in (100, 200, 400) if g <= self.gbps])
            nic = self.nic("ib", gbps, "storage", CX6) if self.layer == "roce" else \
                self.nic("roce", gbps, "storage", CX6, addrs=[("10.200.%d.17" % i, 24)])
            tight = [s for s in self.slots if isinstance(s[1], list)]
            if tight and self.mix.random() < 0.7:
                tight[i * 2 % len(tight)][1].append(nic)
            else:
                self.slots.append((self.mix.randrange(self.nodes), nic))

    def numa(self, i):
        return i * self.nodes // self.count

    def nic(self, layer, gbps, role, kind=None, **more):
        """role: the fabric it is on, "compute" the one that reaches the peers' ports."""
        i = len(self.nics)
        n = Nic("mlx5_%d" % self.names[i], layer, gbps, kind=kind or KINDS[gbps], **more)
        n.role, n.numa, n.slot = role, None, None
        self.nics.append(n)
        return n

    def rail(self, i, gbps=None, **more):
        r, gbps = self.r, gbps or self.gbps
        if r.random() < 0.04:
            more["state"] = r.choice(["1: DOWN", "2: INIT", "3: ARMED"])
        if r.random() < 0.04 and gbps > 100:
            more["rate"] = "%d Gb/sec (4X)" % (gbps // 2)
        if self.layer == "roce":
            addr = ("10.50.0.%d" % (17 + i), 16) if self.flat else ("10.100.%d.17" % i, 24)
            addr += (50,) if self.vlan else ()
            more["addrs"] = [] if r.random() < 0.02 else [addr]
            more["bond"] = self.bond
            if self.mix and self.routed and not i:
                more["gateway"] = "10.50.0.1"
        elif self.mix:
            more["ipoib"] = ("ib%d" % i, "100.126.0.%d" % (11 + i), 16, "100.126.0.0")
        return self.nic(self.layer, gbps, "compute", KINDS[self.gbps], **more)

    def card(self, i):
        """A rail, or a card with two."""
        if not self.dual:
            return self.rail(i)
        return (self.rail(2 * i), self.rail(2 * i + 1))

    def compute(self):
        r, slots = self.r, []
        place = r.choice(["switch", "switch", "switch", "shared", "root", "few", "far", "single"])
        each = 2 if r.random() < 0.2 else 1
        if place == "switch":
            for i in range(self.count):
                slots.append((self.numa(i), [GPU] + [self.card(i * each + k) for k in range(each)]))
        elif place == "shared":
            for i in range(0, self.count, 2):
                slots.append((self.numa(i), [GPU] * min(2, self.count - i) +
                              [self.card(i * each + k) for k in range(each)]))
        elif place == "few":
            for i in range(self.count):
                slots.append((self.numa(i), [GPU, self.card(i)] if i % 2 == 0 else GPU))
        elif place == "single":
            slots = [(self.numa(i), GPU) for i in range(self.count)]
            slots.append((r.randrange(self.nodes), self.card(0)))
        else:
            slots = [(self.numa(i), GPU) for i in range(self.count)]
            at = (lambda i: self.numa(i)) if place == "root" else (lambda i: self.nodes - 1)
            slots += [(at(i), self.card(i)) for i in range(max(1, self.count // r.choice([1, 2])))]
            r.shuffle(slots)
        return slots

    def extras(self):
        """NICs that are not rails, where people put them."""
        r = self.r
        for kind in r.sample(["storage", "front", "bluefield", "subnet", "slow"], r.choice([0, 0, 1, 1, 2])):
            most = 2 if kind in ("front", "slow") else max(1, self.count)
            for i in range(r.choice([1, 1, 2, most])):
                nic = getattr(self, "extra_" + kind)(i)
                tight = [s for s in self.slots if isinstance(s[1], list)]
                if tight and r.random() < 0.5:
                    tight[i % len(tight)][1].append(nic)
                else:
                    self.slots.append((r.randrange(self.nodes), nic))

    def extra_storage(self, i):
        if self.layer == "ib" and self.r.random() < 0.5:
            if not i:
                self.mounts.append(("100.127.9.9@o2ib:/s", "/lustre", "lustre", "rw,flock"))
            return self.nic("ib", self.r.choice([100, 200, 400]), "storage", sm=9, ipoib=(
                "ibs%d" % i, "100.127.0.%d" % (11 + i), 16, "100.127.0.0"))
        if not i:
            self.mounts.append(("nas:/d", "/data", "nfs4", "rw,vers=4.2,addr=10.200.9.9"))
        return self.nic("roce", self.r.choice([100, 200, 400]), "storage",
                        addrs=[("10.200.0.%d" % (17 + i), 16)])

    def extra_front(self, i):
        n = self.nic("roce", self.r.choice([25, 100]), "front", addrs=[("10.20.0.%d" % (17 + i), 16)],
                     gateway=None if i else "10.20.0.1")
        return n

    def extra_bluefield(self, i):
        """on the compute network itself, far from the GPUs"""
        addrs = [("10.50.1.%d" % (17 + i), 16) if self.flat else ("10.100.%d.17" % (100 + i), 24)]
        return self.nic(self.layer, 400, "compute", BF3, addrs=addrs if self.layer == "roce" else [])

    def extra_subnet(self, i):
        if self.layer == "roce":  # which of two layers is compute cannot be told
            return self.extra_slow(i)
        return self.nic("ib", self.r.choice([100, 200, 400]), "subnet", sm=7, prefix="fec0:0:0:7")

    def extra_slow(self, i):
        return self.nic("roce", 25, "slow", CX4, addrs=[("10.30.0.%d" % (17 + i), 16)])

    def build(self):
        front = None if self.mix and self.routed else "eno1"
        if self.amd:
            cpu = milan("AMD EPYC 7763 64-Core Processor", self.sockets, 8, self.nodes, 2, 3500, smt=1)
        else:
            cpu = spr("Intel(R) Xeon(R)", self.sockets, 8, "107520K", 3800, nodes=self.nodes, smt=1)
            cpu.number = self.model
        for k, (numa, devices) in enumerate(self.slots):
            for d in devices if isinstance(devices, list) else [devices]:
                if d == GPU:
                    self.gpus.append((k, numa))
                    continue
                for nic in d if isinstance(d, tuple) else (d,):
                    nic.slot, nic.numa, nic.card = k, numa, d
        return Node(self.slots, cpu=cpu, nvlink=self.nvlink, nccl=self.nccl, mounts=self.mounts,
                    kind=G.H100_SXM if self.nvlink else G.A100_PCIE, front=front, peermem=self.gdr,
                    env={} if self.gdr else {"NCCL_DMABUF_ENABLE": "0"})

    def told(self):
        rows = ["NCCL %s, %s, %d socket(s) of %d node(s), NVLink %s, GPUDirect %s%s%s%s" % (
            self.nccl, "AMD" if self.amd else "Intel model 0x%x" % self.model, self.sockets, self.per,
            self.nvlink, self.gdr, ", cards of two ports" if self.dual else "",
            ", VLANs" if self.vlan else "", ", bonds" if self.bond else "")]
        for numa, devices in self.slots:
            flat = [n for d in (devices if isinstance(devices, list) else [devices])
                    for n in (d if isinstance(d, tuple) else (d,))]
            words = ["GPU" if d == GPU else "%s(%s %s %s%s%s)" % (
                d.name, d.layer, d.rate_text().split()[0], d.role, " " + d.state if d.state else "",
                "" if d.layer == "ib" or d.addrs else " no address") for d in flat]
            rows.append("node %d: %s%s" % (numa, "switch " if isinstance(devices, list) else "",
                                           ", ".join(words)))
        return rows + ["mounted: %s %s" % (m[0], m[3]) for m in self.mounts]


# ---- NCCL's rule, written down from graph/paths.cc and graph/topo.cc
def older(version, major, minor):
    return tuple(int(x) for x in version.split(".")[:2]) < (major, minor)


def mirror(value, count):
    """NCCL's mirrorBits: the bits of a number below a power of two, turned round."""
    out, bit, top = 0, 1, count // 2
    while bit < count:
        if value & bit:
            out |= top
        bit, top = bit << 1, top >> 1
    return out


def fuse(version, nics):
    """Ports of one card are one NIC from 2.20 on; 2.22 and 2.23 only where all cards have as many."""
    groups = []
    for n in nics:
        mine = [g for g in groups if isinstance(n.card, tuple) and g[0].card is n.card and len(g) < 2]
        if mine and not older(version, 2, 20):
            mine[0].append(n)
        else:
            groups.append([n])
    if not older(version, 2, 22) and older(version, 2, 24) and len({len(g) for g in groups}) > 1:
        groups = [[n] for n in nics]
    return groups


class Nccl:
    """The NICs that each GPU sends by, with a set of ports in use: lists of one port or two."""

    def __init__(self, m, ports):
        self.m = m
        self.nics = fuse(m.nccl, sorted(ports, key=lambda n: n.slot))  # as the PCI buses come
        self.paths = [[self.path(g, n) for n in self.nics] for g in range(len(m.gpus))]
        self.back = [row[:] for row in self.paths]  # from a NIC to a GPU: PXN is one way
        self.relay()

    def between(self):
        m = self.m
        if m.amd:
            return 16.0 if not older(m.nccl, 2, 19) else 5000.0
        if m.model >= 0xcf and not older(m.nccl, 2, 26):
            return 40.0
        if m.model >= 0x8f and not older(m.nccl, 2, 26):
            return 22.0
        return 10.0 if m.model >= 0x55 else 6.0

    def path(self, g, n):
        slot, numa = self.m.gpus[g]
        bw = min(sum(p.mbps for p in n) / 8000.0, 48.0)  # PCIe 5 x16 everywhere
        if slot == n[0].slot:
            return (bw, PIX)
        return (bw, PHB) if numa == n[0].numa else (min(bw, self.between()), SYS)

    @staticmethod
    def best(row):
        """ncclTopoGetLocal: the widest, of those the nearest, all that are equal."""
        top, near, found = 0, 99, []
        for i, (bw, kind) in enumerate(row):
            if bw > top or (bw == top and kind < near):
                top, near, found = bw, kind, []
            if bw == top and kind == near:
                found.append(i)
        return found

    def gpus_of(self, n):
        return self.best([self.back[g][n] for g in range(len(self.m.gpus))])

    def nets_of(self, g):
        """ncclTopoGetLocalNet for every channel; the order is that of the channels."""
        local = self.best(self.paths[g])
        gpus = len(self.gpus_of(local[0]))
        each, start = -(-len(local) // gpus), g
        if not older(self.m.nccl, 2, 30):
            start %= gpus
        if len(local) & (len(local) - 1) == 0:
            start = mirror(start, len(local))
        return [local[(start + c) % len(local)] for c in range(each)]

    def local_gpu(self, n):
        for c in range(64):
            for g in self.gpus_of(n):
                nets = self.nets_of(g)
                if nets[c % len(nets)] == n:
                    return g
        return None

    def relay(self):
        count = len(self.m.gpus)
        for n in range(len(self.nics)):
            for g in range(count):
                peer = self.local_gpu(n) if self.m.nvlink else None
                if peer is not None and peer != g and self.m.gdr:
                    bw, kind = self.paths[peer][n]
                    mine = self.paths[g][n]
                    if kind <= PXB and (bw > mine[0] or mine[1] > PXN):
                        self.paths[g][n] = (bw, PXN)
                if self.paths[g][n][1] < PHB and not self.m.gdr:
                    # by way of the CPU
                    self.paths[g][n] = (self.paths[g][n][0], PHB)
                    self.back[g][n] = self.paths[g][n]

    def carries(self, n, useful):
        """The rate of its ports, or their part of what the card's PCIe link carries."""
        nic = self.nics[n]
        card = nic[0].card if isinstance(nic[0].card, tuple) else nic
        both = sum(x.mbps for x in card if not x.state and useful(x))
        return sum(x.mbps for x in nic if useful(x)) * min(1.0, LINK_MBPS / both)

    def useful(self, n, useful):
        return any(useful(p) for p in self.nics[n])

    def way(self, useful, spread=False):
        """For each GPU: Gb/s over ports that reach the peers, and the farthest of these; `spread`: over
        all that are as good for it, where each channel has one of them."""
        nets = [(self.best(self.paths[g]) if spread else self.nets_of(g)) if self.nics else []
                for g in range(len(self.m.gpus))]
        load, out = {}, []
        for mine in nets:
            good = [n for n in mine if self.useful(n, useful)]
            for n in good:
                load[n] = load.get(n, 0) + 1.0 / len(good)
        for g, mine in enumerate(nets):
            good = [n for n in mine if self.useful(n, useful)]
            mbps = min(LINK_MBPS, sum(self.carries(n, useful) / len(good) / load[n] for n in good))
            out.append((mbps, max([self.paths[g][n][1] for n in good] or [99])))
        return out

    def local(self, g):
        best = self.best(self.paths[g]) if self.nics else []
        return sorted(p.name for n in best for p in self.nics[n])


# ---- one machine
class Fault(Exception):
    pass


def run(stoker, *args):
    p = subprocess.run([stoker, "detect", *args], capture_output=True, text=True, timeout=60)
    if p.returncode not in (0, 1):
        raise Fault("%s: exit %d: %s" % (" ".join(args), p.returncode, p.stderr))
    return p.stdout


def check(ok, text, *args):
    if not ok:
        raise Fault(text % args if args else text)


def hca_list(value):
    check(value.startswith("="), "NCCL_IB_HCA %s is not exact", value)
    return value[1:].split(",")


def compare_ways(m, taken, wanted):
    """1. Never worse than doing nothing; where a second subnet has as much as the first, and nothing
    tells which is for training, it may be either."""
    total = {role: sum(n.mbps for n in taken if n.role == role) for role in ("compute", "subnet")}
    roles = ["compute"] + (["subnet"] if total["subnet"] >= total["compute"] else [])
    faults = []
    for role in roles:
        try:
            compare_role(m, taken, wanted, role)
            return
        except Fault as fault:
            faults.append(fault)
    raise faults[0]


def compare_role(m, taken, wanted, role):
    useful = lambda n: n.role == role and (n.layer == "ib" or n.addrs)
    plain = Nccl(m, taken).way(useful)
    able = Nccl(m, [n for n in taken if useful(n)]).way(useful)
    ours = Nccl(m, wanted).way(useful)
    for g in range(len(m.gpus)):
        worse = [p for p in (plain[g], able[g])
                 if ours[g][0] < p[0] * 0.999 or (ours[g][1] > p[1] and p[1] != 99)]
        check(len(worse) < 2, "GPU %d has %.0f Mb/s at %s with what is printed, %.0f at %s without",
              g, *(x for w in (ours[g], plain[g]) for x in (w[0], NAMES.get(w[1]))))


def compare_scores(m, doc, taken):
    """2. Our scores of NCCL's own choice."""
    nccl = Nccl(m, taken)
    works = [nccl.way(lambda n: n.layer == layer and (layer == "ib" or n.addrs), True)
             for layer in ("ib", "roce")]
    own = [max(w[g][0] for w in works) for g in range(len(m.gpus))]
    for s in doc["choice"]["scores"]:
        g = s["gpu"]
        got = sorted(x.split(":")[0] for x in s["nccl"]["ports"].split(",") if x)
        check(got == nccl.local(g), "GPU %d: NCCL's own ports are %s, the score has %s", g,
              nccl.local(g), got)
        check(not s["worse"], "GPU %d: a worse choice is printed", g)
        told = max(s["nccl"]["mbps"] or 0, s["nccl"]["all_mbps"] or 0)
        check(told * 1.001 >= own[g] or s["nccl"]["mbps"] is None,
              "GPU %d: NCCL's own choice has %.0f Mb/s, the score has %d", g, own[g], told)


def compare_env(m, doc, names):
    """3. and 5.: what is named is there, and the parts agree."""
    env = {v["name"]: v["value"] for v in doc["env"] if v["value"] is not None}
    ports = {"%s:%d" % (p["device"], p["port"]): p for p in doc["choice"]["ports"]}
    wanted = sorted(k for k, p in ports.items() if p["wanted"])
    used = sorted(k for k, p in ports.items() if p["used"])
    if "NCCL_IB_HCA" in env:
        named = sorted(hca_list(env["NCCL_IB_HCA"]))
        check(named == wanted, "NCCL_IB_HCA names %s, wanted are %s", named, wanted)
        check(all(ports[n]["state"] == "ACTIVE" for n in named), "a port that is down is named")
    elif wanted and "NCCL_IB_DISABLE" not in env:
        check(wanted == used, "nothing is named, wanted %s, used %s", wanted, used)
    for name in env.get("NCCL_SOCKET_IFNAME", "=").lstrip("=").split(","):
        check(not name or name in names, "NCCL_SOCKET_IFNAME names %s", name)
    for p in doc["choice"]["ports"]:
        check(not (p["wanted"] and "cannot" in p["wanted_why"]), "%s: %s", p["device"],
              p["wanted_why"])
    return env, wanted


def compare_again(stoker, tar, env, wanted):
    """4. With the variables set."""
    args = [x for k, v in env.items() for x in ("-e", "%s=%s" % (k, v))]
    doc = json.loads(run(stoker, "--root", tar, *args, "--env", "--json"))
    for l in doc["lint"]:
        check(l["severity"] == "info" or l["name"] not in env, "the lint says of what we set: %s=%s: %s",
              l["name"], l["value"], l["message"])
    used = sorted("%s:%d" % (p["device"], p["port"]) for p in doc["choice"]["ports"] if p["used"])
    if "NCCL_IB_DISABLE" not in env:
        check(used == wanted or not wanted, "used with the variables: %s, wanted were %s", used, wanted)
    for v in doc["env"]:
        check(v["kind"] != "required", "a second run wants %s=%s: %s", v["name"], v["value"], v["reason"])
    for c in json.loads(run(stoker, "--root", tar, *args, "--check", "--json"))["checks"]:
        text = "%s %s" % (c["seen"] or "", c["remedy"] or "")
        check(c["status"] in ("pass", "skip") or not any(k in text for k in env),
              "%s is %s of what we set: %s", c["id"], c["status"], text)


def try_seed(stoker, seed, folder):
    m = Machine(seed)
    tar = os.path.join(folder, "m%d.tar" % seed)
    m.node.m.finish().write_tar(tar)
    for n in m.nics:
        n.mbps = int(n.rate_text().split()[0]) * 1000
    taken = [n for n in m.nics if not n.state][:]
    try:
        doc = json.loads(run(stoker, "--root", tar, "--env", "--json"))
        order = {p["device"]: i for i, p in enumerate(doc["choice"]["ports"])}
        check(sorted(order) == sorted(n.name for n in m.nics), "the ports are not those of the machine")
        taken = sorted(taken, key=lambda n: order[n.name])[:16 if m.nccl == "2.18.3" else 32]  # MAX_IB_DEVS
        names = ["eno1", "lo"] + [d for n in m.nics for d in n.devices()] + [
            n.ipoib[0] for n in m.nics if n.ipoib]
        env, wanted = compare_env(m, doc, names)
        if "NCCL_IB_DISABLE" not in env:
            compare_ways(m, taken, [n for n in taken if n.name + ":1" in wanted])
        if taken:
            compare_scores(m, doc, taken)
        compare_again(stoker, tar, env, wanted)
    except Fault as fault:
        print("not ok: seed %d: %s" % (seed, fault))
        for row in m.told():
            print("#   " + row)
        return False
    finally:
        if "--keep" not in sys.argv:
            os.unlink(tar)
    return True


def main(args):
    if len(args) < 3:
        sys.stderr.write(__doc__.split("\n\n")[1] + "\n")
        raise SystemExit(2)
    folder = args[4] if len(args) > 4 and args[3] == "--keep" else tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    first, count, bad = int(args[1]), int(args[2]), 0
    for seed in range(first, first + count):
        bad += not try_seed(args[0], seed, folder)
    if "--keep" not in args:
        shutil.rmtree(folder)
    print("%d machines, %d bad" % (count, bad))
    raise SystemExit(bad > 0)


if __name__ == "__main__":
    main(sys.argv[1:])
