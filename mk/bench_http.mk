# SPDX-License-Identifier: MIT
# What the HTTP server costs, with a trivial handler on the loopback:
#
#   make bench-http BENCH_SECONDS=2
$(B)/tests/bench-http: tests/bench/http.c $(B)/libstoker.a | setup-build
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(B)/libstoker.a $(LIBS)
-include $(B)/tests/bench-http.d

.PHONY: bench-http
bench-http: $(B)/tests/bench-http
	@$< $(BENCH_SECONDS)
