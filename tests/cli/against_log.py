#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Output of NCCL_DEBUG=INFO, and a topology, as NCCL of one version writes them on the machine dgx-h100.

    against_log.py VERSION [--host NAME] [--without mlx5_3] [--network Socket] [--boot bond0] [--shm] [--far]
                   [--nogdr] [--direct] [--set NAME=VALUE] [--stamps] [--other HOST]
    against_log.py --xml [--without mlx5_3] [--pix] [--links 17] [--numa]

The forms are those of the format strings in NCCL's source at that version; the options change what NCCL chose.
"""
import argparse

PORTS = ["mlx5_%d" % i for i in range(12)]
ROCE = {"mlx5_2", "mlx5_8"}
NEAR = [0, 3, 4, 5, 6, 9, 10, 11]  # the device at each GPU's switch
BUS = ["1b", "43", "52", "61", "9d", "c3", "d1", "df"]

ap = argparse.ArgumentParser()
ap.add_argument("version", nargs="?")
ap.add_argument("--host", default="dgx-01")
ap.add_argument("--without")
ap.add_argument("--network", default="IB")
ap.add_argument("--boot", default="ibp41s0f0:100.127.0.11")
ap.add_argument("--set", action="append", default=[])
ap.add_argument("--other", action="append", default=[])
ap.add_argument("--gpus", type=int, default=8)
for flag in ("xml", "shm", "far", "nogdr", "stamps", "pix", "numa", "virtual", "direct"):
    ap.add_argument("--" + flag, action="store_true")
ap.add_argument("--links", type=int, default=18)
args = ap.parse_args()
ports = [p for p in PORTS if p != args.without]
dma = "_dma" if args.direct else ""  # devices by their Data Direct function


def reach(g, minor):
    """GPU g and every NIC at a GPU's switch: by a neighbour (PXN) where it is not its own, and
    the distance is then the neighbour's; a trace line, which releases leave out, from 2.30 on."""
    said = {}
    for i, nic in enumerate(NEAR if minor < 30 else []):
        if PORTS[nic] not in ports:
            continue
        dev = ports.index(PORTS[nic]) // (2 if args.virtual else 1)
        far = 4 if minor < 26 else 5
        mode = ", mode Default" if minor > 28 else " mode Default" if minor > 25 else ""
        who, via = f"{BUS[g]}000" if minor < 23 else str(g), ""
        if minor == 29:
            via = f" using PXN via GPU/0-{BUS[i]}000, " if i != g else ""
            text = f"GPU/0-{BUS[g]}000 (rank {g}) - NET/0-{dev} ({via}distance {far} <= {far}, read 0{mode})"
        else:
            text = f"GPU {who} / HCA {dev:x} (distance {far} <= {far}), read 0{mode}"
        if i == g or dev not in said:
            said[dev] = f"GPU Direct RDMA Enabled for {text}"
    return said.values()


def lines(host, minor):
    out = []
    say = lambda rank, text: out.append((rank, text))
    colon = " :" if minor < 24 else ":"
    for name, value in (s.split("=", 1) for s in args.set):
        number = value.lstrip("-").isdigit()
        say(0, f"{name} set to {value}" if name == "NCCL_IB_HCA" else
            f"{name} set by environment to {value}{'.' if number else ''}")
    say(0, f"Bootstrap{colon} Using {args.boot}<0>")
    if args.network == "IB":
        if 21 <= minor < 24 and args.virtual:
            pairs = [ports[i:i + 2] for i in range(0, len(ports), 2)]
            said = "".join(f" [{d}]={{" + ", ".join(
                f"[{d * 2 + k}] {p}:1/{'RoCE' if p in ROCE else 'IB'}" for k, p in enumerate(pair)) + "}"
                for d, pair in enumerate(pairs))
        else:
            rail = "::" if minor >= 30 else ""
            said = "".join(f" [{i}]{p}{dma}:1{rail}/{'RoCE' if p in ROCE else 'IB'}" for i, p in enumerate(ports))
        say(0, f"NET/IB : Using{said} [RO]; OOB {args.boot}<0>")
    else:
        say(0, "NET/IB : No device found.")
        say(0, f"NET/Socket : Using [0]{args.boot}<0> [1]ibp170s0f0:100.127.0.12<0>")
    say(0, f"Using network {args.network}")
    for g in range(args.gpus):
        say(g, f"{'ncclCommInitRank ' if minor > 18 else ''}comm 0x55d rank {g} nranks 16 cudaDev {g} nvmlDev {g} "
            f"busId {BUS[g]}000 commId 0x1f - Init START")
    for i, p in enumerate(ports):
        say(0, f"NET/{args.network} : GPU Direct RDMA {'Disabled' if args.nogdr else 'Enabled'} for HCA {i} '{p}{dma}'")
    say(0, "Channel 00/16 :    0   1   2   3   4   5   6   7   8   9  10  11  12  13  14  15")
    for g in range(args.gpus):
        dev = ports.index(PORTS[NEAR[g]]) if PORTS[NEAR[g]] in ports else 0
        if args.far:
            dev = ports.index(PORTS[NEAR[(g + 4) % 8]])
        if not args.nogdr and not args.far:
            out += [(g, text) for text in reach(g, minor)]
        if args.virtual:
            dev //= 2
        gdr = "" if args.nogdr else "/GDRDMA"
        if args.network == "IB":
            say(g, f"Channel {g:02d}/0 : {g}[{g}] -> {g + 8}[{g}] [send] via NET/IB/{dev}{gdr}")
            say(g, f"Channel {g:02d}/0 : {g + 8}[{g}] -> {g}[{g}] [receive] via NET/IB/{dev}{gdr}/Shared")
        nxt = (g + 1) % args.gpus
        kind = "P2P/IPC/read" if minor < 19 else "P2P/CUMEM/read"
        say(g, f"Channel 01 : {g}[{g}] -> {nxt}[{nxt}] via SHM/direct/direct" if args.shm else
            f"Channel 01/0 : {g}[{g}] -> {nxt}[{nxt}] via {kind}")
    say(0, "Connected all rings, use ring PXN 0 GDR 1")
    return [f"{'[2026-11-16 12:00:00] ' if args.stamps else ''}{host}:{4000 + r}:{4100 + r} [{r}] NCCL INFO {t}"
            for r, t in out]


def log():
    minor = int(args.version.split(".")[1])
    print("torch says something first\nNCCL version %s+cuda12.8" % args.version)
    for host in args.other:
        print("\n".join(f"{host}:1:2 [0] NCCL INFO {t}" for t in ["Bootstrap: Using eth9:192.0.2.1<0>",
                                                                  "Using network Socket"]))
    print("\n".join(lines(args.host, minor)))


def pci(bus, inside, bridge=False):
    cls = "0x060400" if bridge else "0x030200"
    return f'<pci busid="0000:{bus}:00.0" class="{cls}" link_speed="32.0 GT/s PCIe" link_width="16">{inside}</pci>'


def xml():
    cpus = ["", ""]
    for g in range(args.gpus):
        dev = PORTS[NEAR[g]]
        gpu = pci(BUS[g].upper(), f'<gpu dev="{g}" sm="90" rank="{g}" gdr="1">'
                  f'<nvlink target="0000:05:00.0" count="{args.links}" tclass="0x068000"/></gpu>')
        nic = f'<nic><net name="{dev}{dma}" dev="{NEAR[g]}" latency="0" speed="400000" port="1" guid="0x1" gdr="1"/></nic>'
        nic = pci("%02x" % (0x18 + g), nic if dev in ports else "")
        under = gpu + nic if args.pix else pci("a%d" % g, gpu, True) + nic
        cpus[1 - g // 4 if args.numa else g // 4] += pci("b%d" % g, under, True)
    for p in ports:
        if PORTS.index(p) not in NEAR:
            speed = 200000 if p in ROCE else 400000
            cpus[PORTS.index(p) > 5] += pci("e%d" % (PORTS.index(p) % 10), f'<nic><net name="{p}{dma}" dev="{PORTS.index(p)}" '
                                            f'speed="{speed}" port="1" gdr="1"/></nic>')
    print('<system version="1">\n <!-- written by rank 0 -->')
    for n, text in enumerate(cpus):
        print(f' <cpu host_hash="0xabc" numaid="{n}" affinity="0" arch="x86_64" vendor="GenuineIntel">{text}</cpu>')
    print("</system>")


xml() if args.xml else log()
