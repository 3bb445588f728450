# SPDX-License-Identifier: MIT
# Measurements that need a model.  Peers run when BENCH_PYTHON has their packages:
#
#   make bench-embed BENCH_MODEL=all-MiniLM-L6-v2 BENCH_PYTHON=venv/bin/python BENCH_ARGS=--quick
#
# with BENCH_CORES=2 on the two quietest cores (cpu.mk).
#
# tests/bench/bench_embed.py --help says what they need, and how a machine without network is served.
BENCH_MODEL ?= all-MiniLM-L6-v2
BENCH_PYTHON ?= python3
BENCH_ARGS ?=

.PHONY: bench-embed bench-serve
bench-embed: all $(B)/tests/measure $(B)/tests/quiet
	@PYTHONDONTWRITEBYTECODE=1 $(ON_CORES) $(BENCH_PYTHON) tests/bench/bench_embed.py $(B)/stoker $(B)/tests/measure --model $(BENCH_MODEL) --cache $(B)/bench $(BENCH_ARGS)

# Other servers run beside ours when BENCH_PYTHON has their packages (tests/bench/peers/requirements.txt):
#
#   make bench-serve BENCH_MODEL=all-MiniLM-L6-v2 BENCH_PYTHON=venv/bin/python BENCH_ARGS='--rounds 5'
bench-serve: all
	@PYTHONDONTWRITEBYTECODE=1 $(BENCH_PYTHON) tests/bench/bench_serve.py $(B)/stoker --model $(BENCH_MODEL) $(BENCH_ARGS)
