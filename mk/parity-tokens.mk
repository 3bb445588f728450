# SPDX-License-Identifier: MIT
# Tokens against the Python library, by an interpreter that has it and a BERT-like model whose
# vocabulary the comparison borrows:
#   make parity-tokens PYTHON=venv/bin/python MODEL=models/all-MiniLM-L6-v2
PYTHON ?= python3
MODEL ?= models/all-MiniLM-L6-v2

$(B)/tests/tokens-bench: tests/parity/tokens_bench.c $(B)/libstoker.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(B)/libstoker.a $(LIBS)
-include $(B)/tests/tokens-bench.d

.PHONY: parity-tokens
parity: parity-tokens
parity-tokens: $(B)/stoker $(B)/tests/tokens-bench
	@mkdir -p $(B)/parity
	$(PYTHON) tests/parity/tokens.py corpus $(B)/parity/corpus.txt
	$(PYTHON) tests/parity/tokens.py compare $(B)/stoker $(MODEL) $(B)/parity/corpus.txt
	$(PYTHON) tests/parity/tokens.py speed $(B)/tests/tokens-bench $(MODEL) $(B)/parity/corpus.txt --ascii
