# SPDX-License-Identifier: MIT
# The agent's history:
#
#   make bench-ring RING_HOURS=6        bytes a sample, time of a query: made-up series, then a
#                                       recording (RING_RECORDING=FILE, else the demo's)
#   make test-ring-kill RING_KILLS=60   kill -9 every second for a minute; `make test` kills 30 quickly
RING_HOURS ?= 6
RING_RECORDING ?= tests/fixtures/h200.rec
RING_KILLS ?= 60

$(B)/tests/bench-ring: tests/bench/ring.c $(B)/libstoker.a | setup-build
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(B)/libstoker.a $(LIBS)
-include $(B)/tests/bench-ring.d

.PHONY: bench-ring test-ring-kill
bench-ring: $(B)/tests/bench-ring
	@$< $(RING_HOURS) $(RING_RECORDING)
test-ring-kill: $(B)/tests/test_ring_kill
	@RING_KILLS=$(RING_KILLS) RING_KILL_MS=1000 $<
