# SPDX-License-Identifier: MIT
# The official clients of OpenAI, Cohere, Hugging Face, Infinity, LangChain and Voyage against a
# server of ours, and the
# examples of docs/user/serving.md, with the real default model; clients come from PyPI.
#
#   make test-clients
#   make test-clients PYTHON=… CLIENTS_MODEL=DIR    with what is installed already
CLIENTS_MODEL ?= all-MiniLM-L6-v2

.PHONY: test-clients
test-clients: export CLIENTS_MODEL := $(CLIENTS_MODEL)
test-clients: all
	@STOKER=$(B)/stoker tools/setup clients || true # the tests say what is missing
	$(PROVE) tests/clients/clients.t tests/clients/others.t tests/clients/generated.t tests/cli/examples.t
