# SPDX-License-Identifier: MIT
# Measurements that need a model.  Peers run when BENCH_PYTHON has their packages:
#
#   make bench-embed BENCH_MODEL=all-MiniLM-L6-v2 BENCH_PYTHON=venv/bin/python BENCH_ARGS='--slices 4'
BENCH_MODEL ?= all-MiniLM-L6-v2
BENCH_PYTHON ?= python3
BENCH_ARGS ?=

.PHONY: bench-embed
bench-embed: all $(B)/tests/measure
	@$(BENCH_PYTHON) tests/bench/bench_embed.py $(B)/stoker $(B)/tests/measure --model $(BENCH_MODEL) $(BENCH_ARGS)
