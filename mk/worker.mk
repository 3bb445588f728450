# SPDX-License-Identifier: MIT
# What the process of a device costs: microseconds that a worker adds to a batch:
#
#   make bench-worker WORKER_ROUNDS=20000
WORKER_ROUNDS ?= 20000

$(B)/tests/bench-worker: tests/bench/worker.c $(B)/libstoker.a | setup-build
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(B)/libstoker.a $(LIBS)
-include $(B)/tests/bench-worker.d

.PHONY: bench-worker
bench-worker: $(B)/tests/bench-worker $(B)/stoker $(B)/tests/plugin/engine/stoker-cuda.so
	@STOKER_PLUGIN_DIR=$(B)/tests/plugin/engine $< $(B)/stoker tests/fixtures/models/bert $(WORKER_ROUNDS)
