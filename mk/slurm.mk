# SPDX-License-Identifier: MIT
# Rendered files on a real Slurm: a default job in every partition of every site, and what people try.
#
#   make test-slurm       with the Slurm of this machine (Debian 12 has 22.05); about four minutes
#   make test-slurm-24    with Slurm 24.11 and docker compose v2 of a Debian 13 that is made with debootstrap
#                         below build/debian13: about twelve minutes, four once it is there
#   make test-slurm SITES='campus twins'   some of them
SITES ?=

.PHONY: test-slurm test-slurm-24
test-slurm: $(B)/stoker $(MACHINES)
	PYTHONDONTWRITEBYTECODE=1 python3 tests/slurm/sites.py $(B)/stoker $(B)/machines $(SITES)
test-slurm-24: $(B)/stoker $(MACHINES)
	tools/setup debian13 || true # without it the next line says what is missing
	PYTHONDONTWRITEBYTECODE=1 timeout 1500 tests/slurm/debian13 $(B)/stoker $(B)/machines $(SITES)
