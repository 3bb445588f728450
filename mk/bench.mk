# SPDX-License-Identifier: MIT
# Measurements that need a model.  Peers run when BENCH_PYTHON has their packages:
#
#   make bench-embed BENCH_MODEL=all-MiniLM-L6-v2 BENCH_PYTHON=venv/bin/python BENCH_ARGS=--quick
#
# tests/bench/bench_embed.py --help says what they need, and how a machine without network is served.
BENCH_MODEL ?= all-MiniLM-L6-v2
BENCH_PYTHON ?= python3
BENCH_ARGS ?=

.PHONY: bench-embed
bench-embed: all $(B)/tests/measure
	@PYTHONDONTWRITEBYTECODE=1 $(BENCH_PYTHON) tests/bench/bench_embed.py $(B)/stoker $(B)/tests/measure --model $(BENCH_MODEL) --cache $(B)/bench $(BENCH_ARGS)
