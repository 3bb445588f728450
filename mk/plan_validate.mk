# SPDX-License-Identifier: MIT
# The planner against published runs.  The table is not part of the source:
#
#   make validate-plan RUNS=training_runs.csv
#
# prints a RESULT line for each row of the accuracy table, with the hash of the constants, and says
# whether the fit over the same table gives data/plan.csv byte for byte.
RUNS ?=

.PHONY: validate-plan
validate-plan: all
	@tools/validate-plan $(B)/stoker '$(RUNS)' $(B)/validate-plan
