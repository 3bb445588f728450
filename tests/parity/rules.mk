# SPDX-License-Identifier: MIT
# Comparisons with the Python reference, by an interpreter that has tokenizers and
# sentencepiece: make parity-unicode parity-unigram PYTHON=venv/bin/python
PYTHON ?= python3

$(B)/tests/parity-unicode $(B)/tests/parity-unigram: $(B)/tests/parity-%: tests/parity/%_main.c $(B)/libstoker.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(B)/libstoker.a $(LIBS)
-include $(B)/tests/parity-unicode.d $(B)/tests/parity-unigram.d

.PHONY: parity parity-unicode parity-unigram
parity: parity-unicode parity-unigram
parity-unicode: $(B)/tests/parity-unicode
	$(PYTHON) tests/parity/unicode.py $<
parity-unigram: $(B)/tests/parity-unigram
	$(PYTHON) tests/parity/unigram.py --driver $< --work $(B)/parity --bench
