# SPDX-License-Identifier: MIT
# The agent's page in a real browser: make test-page.  Against a fake of the agent, so that it
# needs no GPU and no time; PAGE_ARGS=--keep leaves the fake running to look at.
FAKE_AGENT := $(B)/tests/fake_agent
FAKES += $(FAKE_AGENT)
$(FAKE_AGENT): tests/page/fake_agent.c $(B)/libstoker.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(B)/libstoker.a $(LIBS)
-include $(FAKE_AGENT).d

.PHONY: test-page
test-page: all $(FAKE_AGENT) $(B)/machines/.made
	@tools/setup page || true # without a browser the test says that it was skipped
	python3 tests/page/page.py $(B) $(PAGE_ARGS)
