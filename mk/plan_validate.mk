# SPDX-License-Identifier: MIT
# The planner against published runs: data/runs/published.csv, or another table of that form.
#
#   make validate-plan
#   make validate-plan RUNS=FILE.csv
#
# prints a RESULT line for each row of the accuracy table and for each source, with the hash of the
# constants, and says whether the fit over the same table gives data/plan.csv and
# data/plan_bands.csv byte for byte.
RUNS ?= data/runs/published.csv

.PHONY: validate-plan
validate-plan: all
	@tools/validate-plan $(B)/stoker '$(RUNS)' $(B)/validate-plan
