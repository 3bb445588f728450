# SPDX-License-Identifier: MIT
# The CUDA plug-in, stoker-cuda.so: built beside the program when CUDA=1, which is the
# default where nvcc is found.  It holds code for Ampere (sm_80) and Hopper (sm_90a) and
# PTX that newer GPUs compile at load.  Its host side is C (gcc), its kernels CUDA C (nvcc).
# The CUDA runtime is inside it and its symbols are hidden: it needs libc alone, and exports
# the functions of cuda_plugin.h, engine_plugin.h and cuda_report_int.h.
#
# CUDA_ARCH= can name fewer architectures for a quick build.

ifeq ($(CUDA),1)
NVCC ?= nvcc
CUDA_HOME ?= $(patsubst %/bin/,%,$(dir $(realpath $(shell command -v $(NVCC)))))
CUDA_SRC := $(sort $(wildcard src/engine/cuda/kernels/*.cu))
CUDA_C := $(sort $(wildcard src/engine/cuda/*.c))
CUDA_OBJ := $(CUDA_SRC:src/%.cu=$(B)/obj/%.cu.o) $(CUDA_C:src/%.c=$(B)/obj/%.cuda.o)
CUDA_ARCH ?= -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a \
             -gencode arch=compute_80,code=compute_80
NVCCFLAGS := -std=c++17 -O2 -Isrc $(CUDA_ARCH) -cudart static --Werror all-warnings \
             -Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wextra,-Werror,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics

all: $(B)/stoker-cuda.so

$(B)/obj/%.cu.o: src/%.cu mk/cuda.mk
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS) -MMD -MF $(@:.o=.d) -c -o $@ $<

$(B)/obj/%.cuda.o: src/%.c Makefile mk/cuda.mk
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) -isystem $(CUDA_HOME)/include $(filter-out -fPIE $(SANFLAGS),$(CFLAGS)) -fPIC \
	    -fvisibility=hidden -MMD -MP -c -o $@ $<
-include $(CUDA_OBJ:.o=.d)

# The host side over a GPU that is plain loops, for tests on any machine (tests/gpu/fake_gpu.h).
FAKE_HOST := $(B)/tests/plugin/host/stoker-cuda.so
FAKE_HOST_C := $(filter-out %/gemm_lt.c,$(CUDA_C))
FAKES += $(FAKE_HOST)
# any header of these folders: gcc's own list of headers is for one source at a time
$(FAKE_HOST): $(FAKE_HOST_C) $(wildcard src/engine/cuda/*.h src/engine/cuda/kernels/*.h src/engine/*.h src/model/*.h src/model/*/*.h src/base/*.h src/base/*/*.h tests/gpu/fake_*.[ch]) mk/cuda.mk
	@mkdir -p $(@D)
	$(call say,FAKE,$@)
	$(Q)$(CC) $(CPPFLAGS) -Itests/gpu -isystem $(CUDA_HOME)/include $(filter-out -fPIE,$(CFLAGS)) -O3 \
	    -fPIC -fvisibility=hidden -shared -o $@ $(FAKE_HOST_C) $(wildcard tests/gpu/fake_*.c) -lm -lpthread
$(B)/tests/test_cuda_host: | $(FAKE_HOST)

# what stays undefined would only be missed when it is loaded
$(B)/stoker-cuda.so: $(CUDA_OBJ)
	$(call say,LINK,$@)
	$(Q)$(NVCC) -shared $(CUDA_ARCH) -cudart static -o $@ $^ \
	    -Xlinker=--exclude-libs,ALL,-z,relro,-z,now,-z,defs,--as-needed
endif

# a driver without the rest of the program; needs a GPU to run
$(B)/tests/gpu-engine: tests/gpu/engine.c $(B)/libstoker.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(B)/libstoker.a $(LIBS)
