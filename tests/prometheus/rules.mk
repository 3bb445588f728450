# SPDX-License-Identifier: MIT
# What real programs of Prometheus (Debian's prometheus and prometheus-alertmanager) say of us.
#
#   make test-prometheus
$(B)/tests/prometheus/alerts: tests/prometheus/alerts.c $(B)/libstoker.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< $(B)/libstoker.a $(LIBS)

.PHONY: test-prometheus
test-prometheus: all $(B)/tests/prometheus/alerts
	@tools/setup prometheus || true # the tests say what is missing
	$(PROVE) $(sort $(wildcard tests/prometheus/*.t))
