# SPDX-License-Identifier: MIT
# The agent's history:
#
#   make bench-history HISTORY_HOURS=6        bytes a sample, time of a query: made-up series, then a
#                                       recording (HISTORY_RECORDING=FILE, else the demo's)
#   make test-history-kill HISTORY_KILLS=60   kill -9 every second for a minute; `make test` kills 30 quickly
HISTORY_HOURS ?= 6
HISTORY_RECORDING ?= tests/fixtures/h200.rec
HISTORY_KILLS ?= 60

$(B)/tests/bench-history: tests/bench/history.c $(B)/libstoker.a | setup-build
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(B)/libstoker.a $(LIBS)
-include $(B)/tests/bench-history.d

.PHONY: bench-history test-history-kill
bench-history: $(B)/tests/bench-history
	@$< $(HISTORY_HOURS) $(HISTORY_RECORDING)
test-history-kill: $(B)/tests/test_history_kill
	@HISTORY_KILLS=$(HISTORY_KILLS) HISTORY_KILL_MS=1000 $<
