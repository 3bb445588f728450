# SPDX-License-Identifier: MIT
# What real programs of Prometheus (Debian's prometheus and prometheus-alertmanager) say of us.
#
#   make test-prometheus [DASHBOARD=FILE] [RECORDING=FILE]     (scrape.t says what they are)
$(B)/tests/prometheus/alerts: tests/prometheus/alerts.c $(B)/libstoker.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< $(B)/libstoker.a $(LIBS)

.PHONY: test-prometheus
test-prometheus: all $(FAKENVML) $(B)/tests/prometheus/alerts
	@tools/setup prometheus || true # the tests say what is missing
	DASHBOARD=$(abspath $(DASHBOARD)) RECORDING=$(abspath $(RECORDING)) $(PROVE) $(sort $(wildcard tests/prometheus/*.t))
