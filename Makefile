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
            $(if $(filter thread,$(SAN)),-fsanitize=thread)
comma := ,
override CPPFLAGS += -D_GNU_SOURCE -DSTOKER_VERSION='"$(VERSION)"' -Isrc -I$(B)/gen
override CFLAGS += -std=gnu17 $(OPT) $(WARN) -fstack-protector-strong -fno-omit-frame-pointer \
                   -fPIE -include src/base/banned.h $(SANFLAGS)
override LDFLAGS += -pie -Wl,-z,relro,-z,now $(SANFLAGS)
# libfyaml is linked from its archive: the binary then needs libc alone and runs on a node
# that has no package of ours (docs/DEPENDENCIES.md).
LIBS := -Wl,-Bstatic -lfyaml -Wl,-Bdynamic -lpthread -ldl -lm

# ---- sources: every .c below src/ but main.c is in the library
LIB_SRC := $(sort $(wildcard src/*/*.c src/*/*/*.c))
LIB_OBJ := $(LIB_SRC:src/%.c=$(B)/obj/%.o)
DATA := $(wildcard data/*.csv data/examples/*.yaml)

.PHONY: all
all: $(B)/stoker

$(B)/stoker: $(B)/obj/main.o $(B)/libstoker.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/libstoker.a: $(LIB_OBJ)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/obj/%.o: src/%.c | setup-build
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# files compiled in with .incbin do not show up in -MMD
$(B)/obj/catalog/data.o $(B)/obj/spec/examples.o: $(DATA)

-include $(LIB_OBJ:.o=.d) $(B)/obj/main.d

# ---- unit tests: one program a file, cmocka speaking TAP
UNIT := $(patsubst tests/unit/%.c,$(B)/tests/%,$(sort $(wildcard tests/unit/test_*.c)))
$(B)/tests/%: tests/unit/%.c $(B)/libstoker.a | setup-test
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) -Itests/unit $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(B)/libstoker.a -lcmocka $(LIBS)
-include $(UNIT:=.d)
.PHONY: unit
unit: $(UNIT)

# ---- set-up: installs what is missing, once; says what it does
.PHONY: setup-build setup-test
setup-build:
	@tools/setup build
setup-test:
	@tools/setup test

.PHONY: clean
clean:
	rm -rf build
