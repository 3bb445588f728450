# SPDX-License-Identifier: MIT
# What the node agent costs, beside prometheus-node-exporter where Debian has it:
#
#   make bench-agent BENCH_AGENT_ARGS=--quick
BENCH_AGENT_ARGS ?=

.PHONY: bench-agent
bench-agent: all $(B)/tests/libfakenvml.so
	@tools/setup bench-agent || true # without it there is nothing to compare with, which is told
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/bench/agent.py $(B)/stoker $(FAKENVML) $(BENCH_AGENT_ARGS)
