# SPDX-License-Identifier: MIT
# What `stoker render` writes:
#
#   make golden-render                 rewrites tests/golden/render; look at the diff before you commit it
#   make bench-render RENDER_NODES=10000   time and memory of a large site, as RESULT lines
RENDER_NODES ?= 10000

.PHONY: golden-render bench-render
golden-render: $(B)/stoker
	@BUILD=$(B) UPDATE_GOLDEN=1 sh tests/cli/render_golden.t | grep -v '^ok'; git diff --stat -- tests/golden/render
bench-render: $(B)/stoker $(B)/tests/measure
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/render/large.py $(B)/stoker $(RENDER_NODES) --bench
