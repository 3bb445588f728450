# SPDX-License-Identifier: MIT
# stoker's build: `make help` lists the targets.  Out of tree below build/; variants
# (SAN=address, SAN=thread, CC=clang) have a folder of their own there.

.DEFAULT_GOAL := all
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:

VERSION := 0.1.0
ifeq ($(origin CC),default)
CC := gcc
endif
CUDA ?= $(if $(shell command -v nvcc 2>/dev/null),1,0)
PREFIX ?= /usr/local
DESTDIR ?=
comma := ,

# make V=1 shows the commands
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2))

# ---- where this variant is built
variant := $(if $(filter gcc cc,$(notdir $(CC))),,$(notdir $(CC)))$(if $(SAN),-$(SAN))
variant := $(patsubst -%,%,$(variant))
B := build$(if $(variant),/$(variant))

# ---- flags
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
        -Wpointer-arith -Wundef -Wwrite-strings -Werror
OPT ?= -O2 -g
SANFLAGS := $(if $(filter address,$(SAN)),-fsanitize=address$(comma)undefined -fno-sanitize-recover=all) \
            $(if $(filter thread,$(SAN)),-fsanitize=thread) \
            $(if $(filter fuzzer,$(SAN)),-fsanitize=fuzzer-no-link$(comma)address$(comma)undefined -fno-sanitize-recover=all)
override CPPFLAGS += -D_GNU_SOURCE -DSTOKER_VERSION='"$(VERSION)"' -Isrc
override CFLAGS += -std=gnu17 $(OPT) $(WARN) -fstack-protector-strong -fno-omit-frame-pointer \
                   -fPIE -include src/base/banned.h $(SANFLAGS)
override LDFLAGS += -pie -Wl,-z,relro,-z,now $(SANFLAGS)
# libfyaml, ncurses and zlib are linked from their archives: the binary then needs libc alone and runs
# on a node that has no package of ours (docs/design/dependencies.md).
LIBS := -Wl,-Bstatic -lfyaml -lncursesw -ltinfo -lz -Wl,-Bdynamic -lpthread -ldl -lm

# ---- sources: every .c below src/ but main.c is in the library; mk/cuda.mk has the plug-in's
LIB_SRC := $(sort $(filter-out src/engine/cuda/%,$(wildcard src/*/*.c src/*/*/*.c)))
LIB_OBJ := $(LIB_SRC:src/%.c=$(B)/obj/%.o)
DATA := $(wildcard data/*.csv data/examples/*.yaml)

.PHONY: all
all: $(B)/stoker

$(B)/stoker: $(B)/obj/main.o $(B)/libstoker.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/lib' -o $@ $^ $(LIBS)

$(B)/libstoker.a: $(LIB_OBJ)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/obj/%.o: src/%.c Makefile | setup-build
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# which commit this is: the file changes when that does, and nothing but version.o with it
COMMIT := $(shell git describe --always --abbrev=12 --exclude='*' --dirty=' and changes' 2>/dev/null || echo unknown)
$(shell mkdir -p $(B) && { echo '$(COMMIT)' | cmp -s - $(B)/commit || echo '$(COMMIT)' >$(B)/commit; })
$(B)/obj/cmd/version.o: $(B)/commit
$(B)/obj/cmd/version.o: private CPPFLAGS += -DSTOKER_COMMIT='"$(COMMIT)"'

# files compiled in with .incbin do not show up in -MMD
$(B)/obj/catalog/catalog.o $(B)/obj/plan/model/model_name.o $(B)/obj/plan/campaign/campaign_facts.o $(B)/obj/plan/campaign/advice.o $(B)/obj/plan/time/consts.o $(B)/obj/spec/examples.o $(B)/obj/serve/models/settings.o: $(DATA)
$(B)/obj/serve/admin/openapi.o: data/openapi.json
$(B)/obj/serve/admin/page.o: web/serve.html
$(B)/obj/agent/demo/demo_script.o: data/demo-machine.json
$(B)/obj/agent/api/api_page.o: web/agent.html web/agent-fleet.js data/openapi-agent.json

-include $(LIB_OBJ:.o=.d) $(B)/obj/main.d

# ---- tests
UNIT := $(patsubst tests/unit/%.c,$(B)/tests/%,$(sort $(wildcard tests/unit/test_*.c)))
$(B)/tests/%: tests/unit/%.c $(B)/libstoker.a | setup-test
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) -Itests/unit $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(B)/libstoker.a -lcmocka $(LIBS)
-include $(UNIT:=.d)

FUZZ := $(sort $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c)))
# the corpus as a test: the target with a main that reads files
$(B)/tests/fuzz_%: tests/fuzz/fuzz_%.c tests/fuzz/replay.c $(B)/libstoker.a | setup-test
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) -Itests/fuzz -DFUZZ_CORPUS='"$(CURDIR)/tests/fuzz/corpus/$*"' $(CFLAGS) -MMD -MP \
	    $(LDFLAGS) -o $@ tests/fuzz/fuzz_$*.c tests/fuzz/replay.c $(B)/libstoker.a $(LIBS)
-include $(addprefix $(B)/tests/,$(FUZZ:=.d))

MACHINES := $(B)/machines/.made
-include $(wildcard mk/*.mk tests/*/rules.mk)

$(MACHINES): $(wildcard tests/machines/*.py tests/machines/*.txt) tools/machine | setup-test
	@mkdir -p $(@D)
	$(call say,MAKE,$(@D))
	$(Q)python3 tests/machines/build.py $(@D) && touch $@

TEST_PARTS = $(UNIT) $(addprefix $(B)/tests/,$(FUZZ)) $(B)/stoker $(FAKES) $(MACHINES)
JOBS := $(shell nproc 2>/dev/null || echo 2)
# tests wait more than they compute: one more at a time than there are cores
PROVE = BUILD=$(B) prove -j$$(($(JOBS) + 1)) --exec '' --timer --failures
CLI := $(sort $(wildcard tests/cli/*.t))
# the longest begin first, so that none is waited for alone at the end
LONG = $(addprefix tests/cli/,slurm_real.t agent.t serve_worker.t top.t serve_faults.t) $(B)/tests/test_gpu_child

.PHONY: unit parts test check-variant test-all test-rules tidy format
format: | setup-test # as tests/rules/format.t wants it
	git ls-files '*.c' '*.h' '*.cu' | xargs clang-format -i
unit: $(UNIT)
parts: all $(TEST_PARTS)
# this variant's units, corpora and command line
check-variant: parts
	$(PROVE) $(LONG) $(filter-out $(LONG),$(UNIT) $(addprefix $(B)/tests/,$(FUZZ)) $(CLI))
# rules of the source: format, layers, both compilers' and cppcheck's opinion, documents
test-rules: $(B)/stoker | setup-test
	$(PROVE) $(sort $(wildcard tests/rules/*.t))
test:
	@$(MAKE) --no-print-directory -j$(JOBS) parts
	@$(MAKE) --no-print-directory -j$(JOBS) SAN=address CUDA=0 parts
	@$(MAKE) --no-print-directory test-rules
	@$(MAKE) --no-print-directory check-variant
	@$(MAKE) --no-print-directory SAN=address CUDA=0 check-variant
# rendered manifests before a real Kubernetes control plane: the programs are in $KUBEBUILDER_ASSETS
# (tools/kube-assets makes them); machines are what the specs say; 25 minutes at most
.PHONY: test-kube
test-kube: $(B)/stoker | setup-test
	KUBEBUILDER_ASSETS=$${KUBEBUILDER_ASSETS:-$(CURDIR)/build/kube-assets} BUILD=$(B) \
	    timeout 1500 prove -v --exec '' tests/cli/kube_real.t
# does `spec check` tell whether a full site schedules?  random sites of SEEDS, several at once on that control plane
SEEDS = 1-60
.PHONY: test-kube-tight
test-kube-tight: $(B)/stoker | setup-test
	rm -rf $(B)/kube-tight && mkdir -p $(B)/kube-tight && cd $(B)/kube-tight && \
	    KUBEBUILDER_ASSETS=$${KUBEBUILDER_ASSETS:-$(CURDIR)/build/kube-assets} PYTHONDONTWRITEBYTECODE=1 \
	    timeout 3600 $${PYTHON:-python3} $(CURDIR)/tests/kube/tight_random.py $(abspath $(B))/stoker $(SEEDS)
# what takes longer: clang, threads, sites on a real Slurm and a real Kubernetes, tidy, a minute for each fuzz target
test-all: test
	@$(MAKE) --no-print-directory -j$(JOBS) CUDA=0 CC=clang parts
	@$(MAKE) --no-print-directory CUDA=0 CC=clang check-variant
	@$(MAKE) --no-print-directory -j$(JOBS) CUDA=0 SAN=thread parts
	@$(MAKE) --no-print-directory CUDA=0 SAN=thread check-variant
	@$(MAKE) --no-print-directory test-slurm
	@$(MAKE) --no-print-directory test-slurm-24
	@$(MAKE) --no-print-directory test-kube
	@$(MAKE) --no-print-directory test-hub
	@$(MAKE) --no-print-directory tidy
	@$(MAKE) --no-print-directory fuzz
tidy: | setup-test
	printf '%s\n' $(LIB_SRC) | xargs -P$(JOBS) -n4 sh -c \
	    'clang-tidy --quiet "$$@" -- -D_GNU_SOURCE -DSTOKER_VERSION=\"\" -DSTOKER_COMMIT=\"\" -Isrc -std=gnu17 -include src/base/banned.h 2>/dev/null' tidy

# ---- fuzzing: FUZZ_SECONDS for each target; what is found becomes a corpus file
FUZZ_SECONDS ?= 60
FB := build/clang-fuzzer
# one make of its own builds the library, once for all targets, whatever -j says
ifneq ($(B),$(FB))
.PHONY: fuzz-library
fuzz-library:
	@$(MAKE) --no-print-directory CC=clang SAN=fuzzer CUDA=0 $(FB)/libstoker.a
$(FB)/libstoker.a: fuzz-library
	@:
endif
$(FB)/tests/fuzz_%: tests/fuzz/fuzz_%.c tests/fuzz/fuzz.h $(FB)/libstoker.a | setup-test
	$(call say,FUZZ,$@)
	@mkdir -p $(@D)
	$(Q)clang $(CPPFLAGS) -Itests/fuzz -std=gnu17 -g -O1 -include src/base/banned.h \
	    -fsanitize=fuzzer,address,undefined -o $@ $< $(FB)/libstoker.a $(LIBS)
.PHONY: fuzz
fuzz: $(addprefix $(FB)/tests/,$(FUZZ))
	@printf '%s\n' $(FUZZ) | xargs -P$(JOBS) -n1 sh -c 'corpus=tests/fuzz/corpus/$${1#fuzz_}; mkdir -p $(FB)/corpus/$$1 $$corpus; \
	    echo "$$1: $(FUZZ_SECONDS) s"; \
	    exec $(FB)/tests/$$1 -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -print_final_stats=0 \
	        -verbosity=0 -artifact_prefix=$(FB)/$$1- $(FB)/corpus/$$1 $$corpus' fuzz

# ---- running, measuring, documents, installing
.PHONY: run bench docs docs-planning install clean help
run: all
	@tools/run $(B)/stoker

bench: all $(B)/tests/measure
	@python3 tools/bench-detect $(B)/stoker $(B)/tests/measure
$(B)/tests/measure: tests/bench/measure.c | setup-build
	@mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE $(CFLAGS) -o $@ $<

docs: all # rewrites what is generated and checked in
	@python3 tools/docs $(B)/stoker
docs-planning: all # runs the examples of docs/user/planning.md again
	@python3 tools/planning $(B)/stoker

man_dir = $(DESTDIR)$(PREFIX)/share/man/man1
install: all
	install -D -m755 $(B)/stoker $(DESTDIR)$(PREFIX)/bin/stoker
	$(if $(filter 1,$(CUDA)),install -D -m755 $(B)/stoker-cuda.so $(DESTDIR)$(PREFIX)/lib/stoker/stoker-cuda.so)
	mkdir -p $(man_dir)
	$(B)/stoker help --man >$(man_dir)/stoker.1
	for c in $$($(B)/stoker help --names); do $(B)/stoker help --man $$c >$(man_dir)/stoker-$$c.1 || exit 1; done
	mkdir -p $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
	    $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(B)/stoker completion bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/stoker
	$(B)/stoker completion zsh >$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_stoker
	$(B)/stoker completion fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/stoker.fish
	mkdir -p $(DESTDIR)$(PREFIX)/lib/systemd/system
	for u in stoker-detect stoker-agent; do \
	    sed 's|@PREFIX@|$(PREFIX)|g' data/$$u.service >$(DESTDIR)$(PREFIX)/lib/systemd/system/$$u.service || exit 1; done

# ---- set-up: installs what is missing, once; says what it does
.PHONY: setup-build setup-test
setup-build:
	@tools/setup build
setup-test: | setup-build # two of them would fight for apt's lock
	@tools/setup test

clean:
	rm -rf build

help:
	@echo 'make              build/stoker, and build/stoker-cuda.so where nvcc is (CUDA=0: never)'
	@echo 'make run          build, show this machine, embed a few sentences, run stoker up with the default model'
	@echo 'make test         everything CI runs; make test-all: clang, threads, real Slurm and Kubernetes, tidy, fuzzing too'
	@echo 'make test-clients the official clients of OpenAI, Cohere, Hugging Face and others, from PyPI, against the server'
	@echo 'make test-hub     huggingface_hub, from PyPI, and stoker model get on one cache'
	@echo 'make test-kube    rendered manifests before a real Kubernetes control plane (tools/kube-assets build/kube-assets)'
	@echo 'make test-kube-tight  SEEDS=1-60: random full sites on it: is what spec check says of their room what comes?'
	@echo 'make test-prometheus  metrics, rules and alerts with Debian'"'"'s Prometheus and Alertmanager'
	@echo 'make format       every C file as clang-format writes it'
	@echo 'make SAN=address|thread [unit|check-variant]    a build under a sanitizer'
	@echo 'make CC=clang     the other compiler'
	@echo 'make fuzz         FUZZ_SECONDS=60 for each target'
	@echo 'make bench        figures as RESULT lines; make bench-embed: vectors, beside other engines; BENCH_CORES=2: on quiet cores'
	@echo 'make bench-soak   a million requests: does the server grow?  make bench-overload: ten times its rate'
	@echo 'make test-slurm   a default job in every partition of six sites on a real Slurm; make test-slurm-24: on Debian 13'
	@echo 'make test-page    the page of the agent in headless Chromium; screenshots in build/page'
	@echo 'make test-threads the server under ThreadSanitizer'
	@echo 'make bench-agent  what the agent costs, beside node_exporter; BENCH_AGENT_ARGS=--quick'
	@echo 'make bench-worker what the process of a device costs a batch'
	@echo 'make bench-history   the history: bytes a sample, a query; make test-history-kill: kill -9 for a minute'
	@echo 'make bench-plan   configurations a second of the planner; CALCULON=DIR runs calculon beside it'
	@echo 'make bench-tokenize   tokens a second beside the reference, and loading; PYTHON='
	@echo 'make validate-plan      the planner against published training runs'
	@echo 'make golden-render  rewrite tests/golden/render; make bench-render: ten thousand machines, time and memory'
	@echo 'make docs         rewrite generated documents'
	@echo 'make docs-planning  run the examples of docs/user/planning.md again'
	@echo 'make install      DESTDIR= PREFIX=/usr/local'
	@echo 'make deb          a Debian package; make test-deb: installed, run and purged in a fresh Debian 12'
	@echo 'make bundle       a folder that runs without any package, with the tests for a GPU'
	@echo 'make gpu-test     on a machine with a GPU: is its engine right?  make gpu-bench: how fast, beside PyTorch?'
	@echo 'make gpu-nccl     real NCCL ranks on this machine: do they choose what stoker detect says?'
