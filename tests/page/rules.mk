# SPDX-License-Identifier: MIT
# The agent's page in a real browser: make test-page.  Against real agents that play recordings, of
# the demo, of a fake driver whose GPU falls off the bus, and of six hours of a node that never
# was (fake_node); PAGE_ARGS=--keep leaves them running to look at, PAGE_ARGS=--docs writes the
# pictures of docs/.
FAKE_NODE := $(B)/tests/fake_node
FAKES += $(FAKE_NODE)
$(FAKE_NODE): tests/page/fake_node.c $(B)/libstoker.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(B)/libstoker.a $(LIBS)
-include $(FAKE_NODE).d

.PHONY: test-page
test-page: all $(FAKE_NODE) $(FAKENVML) $(B)/machines/.made
	@tools/setup page || true # without a browser the test says that it was skipped
	python3 tests/page/page.py $(B) $(PAGE_ARGS)
