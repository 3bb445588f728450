# SPDX-License-Identifier: MIT
# A wall clock that tests set: $(B)/tests/libfakeclock.so, for LD_PRELOAD.  Never with a sanitizer's
# code in it: it is loaded before all else.
FAKECLOCK := $(B)/tests/libfakeclock.so
$(FAKECLOCK): tests/fakeclock/fakeclock.c | setup-build
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CPPFLAGS) -std=gnu17 -O2 -Wall -Wextra -fPIC -fvisibility=hidden -shared -o $@ $<
FAKES += $(FAKECLOCK)
