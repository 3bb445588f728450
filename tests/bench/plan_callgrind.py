#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What callgrind sees inside the search's loops (worker_unit): no call of the allocator, and how many instructions a
configuration takes.

    plan_callgrind.py BENCH FOLDER

BENCH is build/tests/bench-plan; one round of 70B on 64 GPUs.  Without valgrind it says so and succeeds.  Ends with RESULT
plan.loop_allocations and plan.instructions_per_config."""
import pathlib
import re
import shutil
import subprocess
import sys

ALLOCATORS = re.compile(r":(malloc|calloc|realloc|free|xmalloc|xcalloc|xreallocarray|arena_alloc|mmap|brk)\b")


def main():
    bench, out = sys.argv[1], pathlib.Path(sys.argv[2]) / "callgrind.plan"
    if not shutil.which("valgrind"):
        print("skipped: there is no valgrind")
        return 0
    run = subprocess.run(["valgrind", "--tool=callgrind", "--toggle-collect=worker_unit", f"--callgrind-out-file={out}", bench,
                          "llama-3.1-70b", "64", "256", "4096", "h100", "1"], capture_output=True, text=True)
    if run.returncode:
        print(run.stdout, run.stderr)
        return 1
    # one count, one search on one thread, one on all
    tried = 2 * int(re.search(r"RESULT plan\.space_size (\d+)", run.stdout).group(1))
    text = subprocess.run(["callgrind_annotate", "--threshold=100", str(out)], capture_output=True, text=True).stdout
    total = int(re.search(r"([\d,]+) \(100\.0%\)\s+PROGRAM TOTALS", text).group(1).replace(",", ""))
    calls = [line for line in text.splitlines() if ALLOCATORS.search(line)]
    print("\n".join(calls[:10]))
    top = [line for line in text.splitlines() if re.match(r"\s*[\d,]+ \(", line)][:12]
    print("\n".join(top))
    print(f"RESULT plan.loop_allocations {len(calls)} functions 0 {'short' if calls else 'ok'}")
    print(f"RESULT plan.instructions_per_config {total / tried:.0f} instructions")
    return 1 if calls else 0


if __name__ == "__main__":
    sys.exit(main())
