#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does NCCL choose on this machine what `stoker detect` says it will?

    python3 tests/gpu/nccl_against.py [--stoker build/stoker] [--ranks 2] [--keep DIR]

Runs real NCCL ranks by torch.distributed (an all-reduce whose sum is checked) with NCCL_DEBUG=INFO and
NCCL_TOPO_DUMP_FILE, then `stoker detect --against` on the log and on the topology; each row that differs is
printed.  With one GPU the ranks share it: each has another NCCL_HOSTID, so that NCCL takes them for different
hosts and goes over the network.  With more GPUs than ranks there are two runs, the second with a GPU a rank and
one host, so that the ways between GPUs are compared too.  Needs torch with NCCL and a GPU; about 30 s.

    RESULT nccl.against_differences N count 0 ok      rows that differ, all runs together
    RESULT nccl.against_same N count                  rows that agree
"""
import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from gpulib import Results, say, stoker_path  # noqa: E402

RANK = """
import os, torch, torch.distributed as dist
rank, ranks, device = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ["DEVICE"])
torch.cuda.set_device(device)
dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda", device))
x = torch.full((1 << 20,), rank + 1.0, device="cuda")
dist.all_reduce(x)
torch.cuda.synchronize()
assert x[0].item() == ranks * (ranks + 1) / 2, x[0].item()
dist.barrier()
dist.destroy_process_group()
print("rank", rank, "ok", "NCCL", ".".join(map(str, torch.cuda.nccl.version())))
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_ranks(ranks, folder, apart, timeout=180):
    """Ranks in `folder`; `apart`: all on GPU 0, each a host of its own.  The log's path, and the topology's."""
    log, topo, port = folder / "nccl.log", folder / "topo.xml", free_port()
    jobs = []
    for rank in range(ranks):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                   DEVICE="0" if apart else str(rank), NCCL_DEBUG="INFO",
                   NCCL_DEBUG_SUBSYS="INIT,BOOTSTRAP,ENV,NET,GRAPH,P2P,SHM", NCCL_TOPO_DUMP_FILE=str(topo))
        if apart:
            env["NCCL_HOSTID"] = f"host{rank}"
        out = open(folder / f"rank{rank}.log", "w")
        jobs.append(subprocess.Popen([sys.executable, "-c", RANK], env=env, stdout=out, stderr=subprocess.STDOUT))
    bad = []
    for rank, job in enumerate(jobs):
        try:
            status = job.wait(timeout)
        except subprocess.TimeoutExpired:
            job.kill()
            job.wait()
            status = "no end"
        if status:
            bad.append(f"rank {rank}: {status}")
    texts = [(folder / f"rank{rank}.log").read_text(errors="replace") for rank in range(ranks)]
    log.write_text("".join(texts))
    if bad:
        sys.exit("\n".join(bad) + "\n" + "\n".join(t[-2000:] for t in texts))
    return log, topo


def compare(stoker, path, results):
    """One comparison: how many rows agree and differ; those that differ are printed."""
    out = subprocess.run([stoker, "detect", "--against", str(path), "--json"], capture_output=True, text=True)
    if out.returncode not in (0, 1):
        sys.exit(f"stoker detect --against {path}: exit {out.returncode}: {out.stderr}")
    doc = json.loads(out.stdout)
    assert doc["schema"] == "stoker.against/1" and (doc["different"] > 0) == (out.returncode == 1)
    say(f"# {path.name}: {doc['same']} the same, {doc['different']} different, {doc['unknown']} unknown, "
        f"NCCL {doc['nccl_version']}")
    for row in doc["rows"]:
        if row["verdict"] != "same":
            say(f"#   {row['verdict']}: {row['about']} {row['what']}: stoker {row['stoker']}, NCCL {row['nccl']}"
                f" (line {row['line']}) {row['why'] or ''}")
    results.append(doc)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--stoker", default=stoker_path())
    ap.add_argument("--ranks", type=int, default=2)
    ap.add_argument("--keep", help="folder for logs and topologies")
    args = ap.parse_args()
    import torch
    if not torch.cuda.is_available():
        sys.exit("no GPU here")
    docs, results = [], Results()
    with tempfile.TemporaryDirectory() as temp:
        top = pathlib.Path(args.keep or temp)
        for name, apart, ranks in [("apart", True, args.ranks),
                                   ("together", False, min(args.ranks, torch.cuda.device_count()))]:
            if not apart and ranks < 2:
                continue
            folder = top / name
            folder.mkdir(parents=True, exist_ok=True)
            log, topo = run_ranks(ranks, folder, apart)
            say(f"# {name}: {ranks} ranks")
            compare(args.stoker, log, docs)
            if topo.is_file():
                compare(args.stoker, topo, docs)
            else:
                say("# NCCL wrote no topology")
    results.add("nccl.against_same", sum(d["same"] for d in docs), "count", None, True)
    results.at_most("nccl.against_differences", sum(d["different"] for d in docs), "count", 0)
    return 1 if results.failed or not any(d["same"] for d in docs) else 0


if __name__ == "__main__":
    sys.exit(main())
