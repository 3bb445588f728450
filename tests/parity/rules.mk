# SPDX-License-Identifier: MIT
# Programs that tests/parity compares with the Python libraries; not part of `make test`.
$(B)/tests/unicode_main $(B)/tests/unigram_main: $(B)/tests/%: tests/parity/%.c $(B)/libstoker.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< $(B)/libstoker.a $(LIBS)
