# SPDX-License-Identifier: MIT
# The CPU engine's kernels and speed:
#
#   make bench-kernels                    every kernel: right? how fast, of what is possible?
#   make bench-engine BENCH_MODEL=DIR     tokens/s of a model directory
BENCH_MODEL ?=
BENCH_SECONDS ?= 1

$(B)/tests/bench-engine: tests/bench/engine.c $(B)/libstoker.a | setup-build
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(B)/libstoker.a $(LIBS)
-include $(B)/tests/bench-engine.d

.PHONY: bench-kernels bench-engine
bench-kernels: $(B)/tests/test_cpu_kernels
	@STOKER_BENCH=1 $<
bench-engine: $(B)/tests/bench-engine
	@$< $(BENCH_MODEL) $(BENCH_SECONDS)
