# SPDX-License-Identifier: MIT
# The model server over a longer time:
#
#   make bench-soak SOAK_REQUESTS=1000000     does it grow?
#   make bench-overload OVERLOAD_SECONDS=60   ten times what it can do
#   make bench-fairness                       a short request beside large ones: ten pairs of windows
#   make test-threads                         the server's tests under ThreadSanitizer
SOAK_REQUESTS ?= 1000000
SOAK_ARGS ?=
OVERLOAD_SECONDS ?= 60
OVERLOAD_ARGS ?=
FAIRNESS_ARGS ?=

.PHONY: bench-soak bench-overload bench-fairness test-threads
bench-soak: all
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/bench/soak.py $(B)/stoker --requests $(SOAK_REQUESTS) $(SOAK_ARGS)
bench-overload: all
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/bench/overload.py $(B)/stoker --seconds $(OVERLOAD_SECONDS) $(OVERLOAD_ARGS)
bench-fairness: all
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/bench/fairness.py $(B)/stoker $(FAIRNESS_ARGS)

SERVER_UNITS := $(filter %/test_http %/test_http_faults %/test_http_inlet %/test_sched %/test_sched_fair %/test_sched_load %/test_sched_halves %/test_worker %/test_worker_ring %/test_models %/test_models_queues %/test_access_log,$(UNIT))
.PHONY: server-variant
server-variant: all $(SERVER_UNITS) $(B)/tests/plugin/engine/stoker-cuda.so
	BUILD=$(B) prove --exec '' --timer $(SERVER_UNITS) tests/cli/serve.t tests/cli/serve_faults.t tests/cli/serve_bulk.t tests/cli/serve_worker.t
test-threads:
	@$(MAKE) --no-print-directory -j$(JOBS) CUDA=0 SAN=thread server-variant
