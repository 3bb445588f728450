# SPDX-License-Identifier: MIT
# The CPU engine's kernels and speed:
#
#   make bench-kernels                    every kernel: right? how fast, of what is possible?
#   make bench-engine BENCH_MODEL=DIR     tokens/s of a model directory
#
# BENCH_CORES=N keeps these and bench-embed on the N cores that are left alone by others just then;
# STOKER_BENCH='amx bf16' takes the kernels of that name alone.
BENCH_MODEL ?=
BENCH_SECONDS ?= 1
BENCH_CORES ?=
STOKER_BENCH ?= 1
ON_CORES = $(if $(BENCH_CORES),$(B)/tests/quiet $(BENCH_CORES))

FAKES += $(B)/tests/quiet # tests/cli/quiet.t
$(B)/tests/quiet: tests/bench/quiet.c | setup-build
	@mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE $(CFLAGS) -o $@ $<

$(B)/tests/bench-engine: tests/bench/engine.c $(B)/libstoker.a | setup-build
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(B)/libstoker.a $(LIBS)
-include $(B)/tests/bench-engine.d

.PHONY: bench-kernels bench-engine
bench-kernels: $(B)/tests/test_cpu_kernels $(B)/tests/quiet
	@STOKER_BENCH='$(STOKER_BENCH)' $(ON_CORES) $<
bench-engine: $(B)/tests/bench-engine $(B)/tests/quiet
	@$(ON_CORES) $< $(BENCH_MODEL) $(BENCH_SECONDS)
