# SPDX-License-Identifier: MIT
# Comparisons with the Python reference, by an interpreter that has tokenizers, sentencepiece,
# torch, transformers and sentence-transformers; what is missing is skipped and said:
#
#   tools/setup parity        text and tokenizers, once, into build/parity
#   make parity PYTHON=venv/bin/python PARITY_MODEL=path/of/all-MiniLM-L6-v2
#   make parity-vectors       tiny models and all-MiniLM-L6-v2, every device and type
#   make parity-texts         embed and rerank, from text to numbers, against sentence-transformers
#   make parity-fields        one field of a configuration file after the other, against the same
#   make bench-tokenize PYTHON=...   both tokenizers beside the reference's, and loading them
#   make parity-overlap PARITY_DEVICE=cpu PARITY_DTYPE=i8 PARITY_MODEL=...   a search, against f32
#   make parity-shapes        real depth and width; needs 10 GB of memory, 2.3 GB of disk
PYTHON ?= python3
PARITY_MODEL ?=
PARITY_DEVICE ?= ref
PARITY_DTYPE ?= f32
VECTORS = $(PYTHON) -W ignore tests/parity/vectors.py --driver $(B)/tests/parity-vectors \
          --device $(PARITY_DEVICE) --dtype $(PARITY_DTYPE)
TEXTS = $(PYTHON) -W ignore tests/parity/vectors_cmd.py --stoker $(B)/stoker --tmp $(B)/parity
TOKENS = $(PYTHON) tests/parity/tokens.py
PARITY_WORK := build/parity

PARITY_DRIVERS := $(addprefix $(B)/tests/parity-,unicode vectors tokens)
FAKES += $(B)/tests/parity-tokens # tests/cli/parity.t
$(PARITY_DRIVERS): $(B)/tests/parity-%: tests/parity/%_main.c $(B)/libstoker.a | setup-build
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(B)/libstoker.a $(LIBS)
-include $(PARITY_DRIVERS:=.d)

.PHONY: parity parity-unicode parity-tokens parity-vectors parity-texts parity-shapes \
        parity-fields parity-overlap parity-convert setup-parity bench-tokenize
parity: parity-unicode parity-tokens parity-convert parity-vectors parity-texts parity-fields parity-shapes
parity-convert: $(B)/stoker
	$(PYTHON) tests/parity/convert.py $<
setup-parity: $(B)/stoker
	@PYTHON=$(PYTHON) PARITY_MODEL=$(PARITY_MODEL) STOKER=$(B)/stoker tools/setup parity
parity-unicode: $(B)/tests/parity-unicode
	$(PYTHON) tests/parity/unicode.py $<
parity-tokens: $(B)/stoker setup-parity
	$(TOKENS) compare $< $(PARITY_WORK)
bench-tokenize: $(B)/tests/parity-tokens setup-parity
	@$(TOKENS) speed $< $(PARITY_WORK)
parity-vectors: $(B)/tests/parity-vectors
	$(VECTORS) --all tiny
	$(VECTORS) --all minilm $(PARITY_MODEL)
parity-texts: $(B)/stoker
	@mkdir -p $(B)/parity
	$(TEXTS) pools
	$(TEXTS) pairs $(PARITY_MODEL)
	$(TEXTS) same $(PARITY_MODEL)
parity-fields: $(B)/stoker
	$(PYTHON) -W ignore tests/parity/fields.py $< $(B)/parity/fields
parity-shapes: $(B)/tests/parity-vectors
	@mkdir -p $(B)/parity
	$(VECTORS) --all --tmp $(B)/parity shapes
parity-overlap: $(B)/tests/parity-vectors
	$(VECTORS) overlap $(PARITY_MODEL)
