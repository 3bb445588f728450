# SPDX-License-Identifier: MIT
# The planner's search:
#
#   make bench-plan                    configurations a second, size and time of the whole space
#   make bench-plan CALCULON=DIR BENCH_PYTHON=venv/bin/python   calculon beside it (a checkout; numpy, pandas)
#   make test-plan-callgrind           no call of the allocator inside the loops, and instructions
#                                      a configuration, counted by callgrind
PLAN_MODEL ?= gpt3-175b
PLAN_GPUS ?= 512
PLAN_BATCH ?= 512
PLAN_SEQ ?= 2048
PLAN_GPU ?= a100
CALCULON ?=
CALCULON_SECONDS ?= 60

$(B)/tests/bench-plan: tests/bench/plan.c $(B)/libstoker.a | setup-build
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(B)/libstoker.a $(LIBS)
-include $(B)/tests/bench-plan.d

.PHONY: bench-plan test-plan-callgrind
bench-plan: $(B)/tests/bench-plan
	@PYTHONDONTWRITEBYTECODE=1 $(BENCH_PYTHON) tests/bench/plan_calculon.py $< '$(CALCULON)' $(CALCULON_SECONDS) \
	    $(PLAN_MODEL) $(PLAN_GPUS) $(PLAN_BATCH) $(PLAN_SEQ) $(PLAN_GPU)
test-plan-callgrind: $(B)/tests/bench-plan
	@python3 tests/bench/plan_callgrind.py $< $(B)
