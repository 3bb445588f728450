#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does the largest micro-batch that `stoker plan memory` names run, and is the next one too large?

    python3 tests/gpu/plan_fits.py [--stoker build/stoker] [--only 1b-eager] [--seconds 460]

Twelve plain training scripts: Llama shapes of 1B, 3B and 8B with random weights (nothing is downloaded), eager and
under torch.compile, without and with full recompute, all in bf16 and under autocast with fp32 AdamW, each with a cap
on what torch may reserve.  Each case asks the planner for the largest micro-batch under the cap, then trains that one
for three steps in a process of its own, then the next one, and, where that runs, the one behind it.  Several share
the GPU as far as their caps leave room.  Needs torch, transformers and a GPU of about 140 GB; less than 8 minutes.

    RESULT plan.fits.CASE N micro-batches 1 ok     how far the largest that runs lies above the answer: 0 or 1;
                                                   -1: the answer itself ran out of memory
    RESULT plan.fits.right N cases 12 ok
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from gpulib import Budget, Results, say, stoker_path  # noqa: E402

GIB = 1 << 30
SEQ = 4096
SHAPES = {  # of Llama 3.2 1B and 3B, Llama 3.1 8B
    "1b": dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
               num_key_value_heads=8, head_dim=64, tie_word_embeddings=True),
    "3b": dict(hidden_size=3072, intermediate_size=8192, num_hidden_layers=28, num_attention_heads=24,
               num_key_value_heads=8, head_dim=128, tie_word_embeddings=True),
    "8b": dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
               num_key_value_heads=8, head_dim=128, tie_word_embeddings=False),
}
# shape, torch.compile, full recompute, autocast, GiB that torch may reserve, seconds a run takes
CASES = [
    ("3b", True, False, False, 60, 110),
    ("1b", True, False, False, 42, 80),
    ("1b", True, True, True, 42, 80),
    ("1b", True, False, True, 46, 80),
    ("1b", False, False, False, 79.1, 30),
    ("1b", False, False, True, 56, 30),
    ("1b", False, True, False, 79.1, 30),
    ("3b", False, False, False, 79.1, 30),
    ("3b", False, True, True, 84, 30),
    ("3b", False, False, True, 92, 30),
    ("8b", False, False, False, 120, 35),
    ("8b", False, True, False, 100, 35),
]


def name_of(case):
    shape, compiled, recompute, autocast = case[:4]
    return "-".join((shape, "compiled" if compiled else "eager", "full" if recompute else "none",
                     "autocast" if autocast else "pure"))


def config_of(shape):
    return dict(SHAPES[shape], vocab_size=128256, max_position_embeddings=SEQ, rms_norm_eps=1e-5, use_cache=False)


def train(case, micro_batch, steps):
    """In a process of its own: prints one line of JSON."""
    import torch
    import transformers

    shape, compiled, recompute, autocast, cap = case[:5]
    torch.cuda.set_per_process_memory_fraction(cap * GIB / torch.cuda.get_device_properties(0).total_memory)
    torch.manual_seed(1)
    said = {"ran": False, "torch": torch.__version__, "transformers": transformers.__version__}
    try:
        torch.set_default_dtype(torch.float32 if autocast else torch.bfloat16)
        with torch.device("cuda"):
            model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config_of(shape)))
        torch.set_default_dtype(torch.float32)
        model.train()
        if recompute:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        run = torch.compile(model) if compiled else model
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        torch.cuda.synchronize()
        said["parameters"] = sum(p.numel() for p in model.parameters())
        for _ in range(steps):
            begin = time.monotonic()
            ids = torch.randint(0, 128256, (micro_batch, SEQ), device="cuda")
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
                out = run(input_ids=ids, labels=ids)
            said["forward"] = torch.cuda.memory_allocated()
            out.loss.backward()
            said["backward_peak"] = torch.cuda.max_memory_allocated()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            said["loss"] = out.loss.item()
            del out
            said["step_s"] = time.monotonic() - begin
        said["ran"] = True
    except torch.OutOfMemoryError as e:
        said["why"] = str(e).splitlines()[0]
    said["peak"] = torch.cuda.max_memory_allocated()
    said["reserved"] = torch.cuda.max_memory_reserved()
    print(json.dumps(said))


class Room:
    """Memory of the GPU that is not promised to a process."""

    def __init__(self, gib):
        self.free, self.changed = gib, threading.Condition()

    def take(self, gib):
        with self.changed:
            self.changed.wait_for(lambda: self.free >= gib)
            self.free -= gib

    def give(self, gib):
        with self.changed:
            self.free += gib
            self.changed.notify_all()


def ask(stoker, case, folder):
    """The planner's answer: (largest micro-batch, bytes it counts for that one)."""
    shape, compiled, recompute, autocast, cap = case[:5]
    path = folder / shape / "config.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(dict(config_of(shape), model_type="llama", hidden_act="silu")))
    command = [stoker, "plan", "memory", "--model", str(path), "--gpu", "h200", "--seq", str(SEQ), "--json",
               "--precision", "autocast" if autocast else "pure", "--recompute", "full" if recompute else "none"]
    command += [] if compiled else ["--eager"]

    def answer(*more):
        out = subprocess.run(command + list(more), capture_output=True, text=True)
        if out.returncode not in (0, 4):
            raise SystemExit(out.stderr)
        return json.loads(out.stdout)

    context = answer()["stages"][0]["context"]  # the cap is on what torch reserves; CUDA's own comes on top
    largest = answer("--limit", str(int(cap * GIB) + context))["largest_micro_batch"]
    at = answer("--micro-batch", str(max(largest, 1)))
    return largest, at["total_bytes"] - context


def attempt(case, micro_batch, timeout):
    command = [sys.executable, __file__, "--train", json.dumps(case), "--micro-batch", str(micro_batch)]
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                             env=dict(os.environ, TOKENIZERS_PARALLELISM="false"))
    except subprocess.TimeoutExpired:
        return {"ran": None, "why": f"no answer within {timeout} s"}
    lines = [line for line in out.stdout.splitlines() if line.startswith("{")]
    if out.returncode or not lines:
        return {"ran": None, "why": (out.stderr.strip() or f"status {out.returncode}")[-400:]}
    return json.loads(lines[-1])


def judge(case, stoker, folder, room, budget, verdicts):
    largest, counted = ask(stoker, case, folder)
    name, cap, seconds = name_of(case), case[4], case[5]
    runs = {}
    for n in range(max(largest, 1), largest + 3):
        if n > largest + 1 and not runs.get(largest + 1, {}).get("ran"):
            break
        room.take(cap + 1.2)
        try:
            if not budget.fits(f"{name} with {n}", seconds):
                break
            runs[n] = r = attempt(case, n, 3 * seconds)
        finally:
            room.give(cap + 1.2)
        figures = (f"peak {r['peak'] / GIB:.2f} GiB, reserved {r['reserved'] / GIB:.2f}, "
                   f"behind forward {r.get('forward', 0) / GIB:.2f}") if "peak" in r else ""
        counted_here = f", counted {counted / GIB:.2f}" if n == largest else ""
        say(f"# {name} cap {cap}: micro-batch {n} {'runs' if r['ran'] else 'does not run'}{counted_here}; {figures} "
            f"{r.get('why', '')[:200]} {r.get('step_s', 0):.2f} s a step")
        if r["ran"] is None or (n == largest and not r["ran"]):
            break
    verdicts[name] = largest, runs


def far(largest, runs):
    """The largest that runs over the answer; None: not known."""
    if any(r["ran"] is None for r in runs.values()):
        return None
    ran = [n for n, r in runs.items() if r["ran"]]
    failed = [n for n, r in runs.items() if not r["ran"]]
    if largest and largest not in runs or not failed and max(ran, default=0) < largest + 2:
        return None
    return max(ran, default=largest - 1 if largest else 0) - largest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stoker", default=stoker_path())
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--seconds", type=float, default=460)
    parser.add_argument("--ask", action="store_true", help="print the planner's answers and run nothing")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    parser.add_argument("--micro-batch", type=int, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.train:
        case = json.loads(a.train)
        return train(case, a.micro_batch, 2 if case[1] else 3)
    cases = [c for c in CASES if a.only in name_of(c)]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if a.ask:
            for c in cases:
                largest, counted = ask(a.stoker, c, folder)
                say(f"{name_of(c)}: {largest} under {c[4]} GiB, {counted / GIB:.2f} counted")
            return 0
        import torch

        room = Room(torch.cuda.mem_get_info()[0] / GIB - 1)
        budget, verdicts, results = Budget(a.seconds), {}, Results()
        threads = [threading.Thread(target=judge, args=(c, a.stoker, folder, room, budget, verdicts)) for c in cases]
        for t in threads:
            t.start()
            time.sleep(0.3)  # the order of the list is the order in which they ask for room
        for t in threads:
            t.join()
    right = 0
    for c in cases:
        largest, runs = verdicts.get(name_of(c), (0, {}))
        value = far(largest, runs)
        if value is None:
            say(f"# {name_of(c)}: no verdict: {next((r['why'] for r in runs.values() if r['ran'] is None), 'not run')}")
            continue
        right += 0 <= value <= 1
        results.add(f"plan.fits.{name_of(c)}", value, "micro-batches", 1, 0 <= value <= 1)
    results.at_least("plan.fits.right", right, "cases", len(cases))
    results.print_all()
    say(f"# {budget.used():.0f} s")
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
