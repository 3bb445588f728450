#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stands for the trainer in tests/slurm/site.yaml: checks what it was given and says what it saw.

    trainer.py ranks      every rank; rank 0 listens at MASTER_ADDR:MASTER_PORT, the others connect
    trainer.py requeue    ends with 75 the first time
    trainer.py notice     waits for SIGUSR1 the first time, saves and ends with 3
    trainer.py sweep      one task of an array
    trainer.py burst      anything

Prints one line `SAW {json}` (rank 0 alone in `ranks`); ends with 1 and `WRONG ...` for each fault."""
import errno
import glob
import json
import os
import signal
import socket
import subprocess
import sys
import time

E = os.environ
wrong = []


def hold(ok, text):
    if not ok:
        wrong.append(text)


def number(name):
    try:
        return int(E[name])
    except (KeyError, ValueError):
        wrong.append(f"{name} is {E.get(name)!r}")
        return -1


def hostnames():
    return subprocess.run(["scontrol", "show", "hostnames", E["SLURM_JOB_NODELIST"]], capture_output=True, text=True).stdout.split()


def devices():
    """Which GPUs the job may open: no driver answers here, so an allowed one says ENXIO."""
    out = {}
    for path in sorted(glob.glob(os.path.dirname(os.path.realpath(__file__)) + "/../dev/nvidia*")):
        try:
            os.close(os.open(path, os.O_RDWR))
        except OSError as e:
            out[int(path.rsplit("nvidia", 1)[1])] = errno.errorcode[e.errno]
    return out


def mine():
    return {"rank": number("RANK"), "world": number("WORLD_SIZE"), "local": number("LOCAL_RANK"), "node": E.get("SLURMD_NODENAME"),
            "procid": E.get("SLURM_PROCID"), "nodeid": E.get("SLURM_NODEID"), "gpus": E.get("CUDA_VISIBLE_DEVICES"),
            "master": E.get("MASTER_ADDR"), "port": E.get("MASTER_PORT"), "devices": devices(),
            "nccl": {k: v for k, v in E.items() if k.startswith("NCCL_")}, "greeting": E.get("GREETING")}


def lead(me):
    server = socket.create_server((me["master"], int(me["port"])))
    server.settimeout(60)
    all_of_us, peers = [me], []
    while len(all_of_us) < me["world"]:
        c, _ = server.accept()
        peers.append(c)
        all_of_us.append(json.loads(c.makefile().readline()))
    judge(sorted(all_of_us, key=lambda r: r["rank"]))
    for c in peers:
        c.sendall(b"bad\n" if wrong else b"ok\n")


def judge(ranks):
    hosts = hostnames()
    per = len(ranks) // max(1, len(hosts))
    hold([r["rank"] for r in ranks] == list(range(len(ranks))), f"ranks are {[r['rank'] for r in ranks]}")
    for r in ranks:
        k = r["rank"]
        hold(E.get("STAND_IN") or str(k) == r["procid"], f"rank {k} is task {r['procid']}")
        hold(r["node"] == hosts[k // per], f"rank {k} is on {r['node']}, not on {hosts[k // per]}")
        hold(r["local"] == k % per, f"rank {k} has local rank {r['local']}")
        hold(r["master"] == hosts[0], f"rank {k} meets at {r['master']}, not at {hosts[0]}")
        hold(r["world"] == len(ranks), f"rank {k} knows of {r['world']}")
    first = {k: ranks[0][k] for k in ("master", "port", "nccl", "greeting")}
    print("SAW", json.dumps({"ranks": ranks, "hosts": hosts, **first}), flush=True)


def follow(me):
    end = time.monotonic() + 60
    while True:
        try:
            c = socket.create_connection((me["master"], int(me["port"])), 5)
            break
        except OSError as e:
            if time.monotonic() > end:
                sys.exit(f"WRONG rank {me['rank']} cannot reach {me['master']}:{me['port']}: {e}")
            time.sleep(0.2)
    c.sendall(json.dumps(me).encode() + b"\n")
    c.settimeout(60)
    hold(c.makefile().readline() == "ok\n", "rank 0 found a fault")


def ranks():
    me = mine()
    if not wrong:
        lead(me) if me["rank"] == 0 else follow(me)


def requeue():
    count = int(E.get("SLURM_RESTART_COUNT", "0"))
    print("SAW", json.dumps({"attempt": count, "node": E.get("SLURMD_NODENAME")}), flush=True)
    sys.exit(75 if count == 0 else 0)


def notice():
    count = int(E.get("SLURM_RESTART_COUNT", "0"))
    print("SAW", json.dumps({"attempt": count}), flush=True)
    if count:
        return

    def save(*_):
        print("SAW", json.dumps({"saved": True}), flush=True)
        os._exit(3)

    signal.signal(signal.SIGUSR1, save)
    time.sleep(100)
    wrong.append("no notice came")


def once():
    print("SAW", json.dumps({"words": sys.argv[2:], "task": E.get("SLURM_ARRAY_TASK_ID"), "node": E.get("SLURMD_NODENAME"), "gpus": E.get("CUDA_VISIBLE_DEVICES"),
                             "devices": devices()}), flush=True)


signal.alarm(120)  # never waits for ever
{"ranks": ranks, "torchrun": ranks, "requeue": requeue, "notice": notice, "sweep": once, "burst": once}[sys.argv[1]]()
for line in wrong:
    print("WRONG", line, flush=True)
sys.exit(bool(wrong))
