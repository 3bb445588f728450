# SPDX-License-Identifier: MIT
# One cache for huggingface_hub and for us, from a fake Hub (tests/cli/fake_hub.py):
#
#   make test-hub
#   make test-hub PYTHON=…    with an interpreter that has huggingface_hub already
.PHONY: test-hub
test-hub: all
	@tools/setup hub || true # the test says what is missing
	BUILD=$(B) prove -v --exec '' tests/clients/hub.t
