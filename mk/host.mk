# SPDX-License-Identifier: MIT
# What a second of the host's sources costs, here or on a captured machine:
#
#   make bench-host HOST_ROOT=/ HOST_ROUNDS=200
HOST_ROOT ?= /
HOST_ROUNDS ?= 200

$(B)/tests/bench-host: tests/bench/host.c $(B)/libstoker.a | setup-build
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(B)/libstoker.a $(LIBS)
-include $(B)/tests/bench-host.d

.PHONY: bench-host
bench-host: $(B)/tests/bench-host
	@$< $(HOST_ROOT) $(HOST_ROUNDS)
