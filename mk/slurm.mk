# SPDX-License-Identifier: MIT
# Rendered files on a real Slurm: a default job in every partition of every site, and what people try.
#
#   make test-slurm       with the Slurm of this machine (Debian 12 has 22.05); about four minutes
#   make test-slurm SITES='campus twins'   some of them
SITES ?=

.PHONY: test-slurm
test-slurm: $(B)/stoker $(MACHINES)
	PYTHONDONTWRITEBYTECODE=1 python3 tests/slurm/sites.py $(B)/stoker $(B)/machines $(SITES)
