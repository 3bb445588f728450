# SPDX-License-Identifier: MIT
# The CUDA plug-in, stoker-cuda.so: built beside the program when CUDA=1, which is the
# default where nvcc is found.  It holds code for Ampere (sm_80) and Hopper (sm_90) and
# PTX that newer GPUs compile at load.  The CUDA runtime is inside it and its symbols are
# hidden: it needs libc alone, and exports the two functions of cuda_plugin.h.

ifeq ($(CUDA),1)
NVCC ?= nvcc
CUDA_SRC := $(sort $(wildcard src/engine/cuda/*.cu))
CUDA_HDR := $(wildcard src/engine/cuda/*.h)
CUDA_OBJ := $(CUDA_SRC:src/%.cu=$(B)/obj/%.cu.o)
CUDA_ARCH := -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
             -gencode arch=compute_80,code=compute_80
NVCCFLAGS := -std=c++17 -O2 -Isrc $(CUDA_ARCH) -cudart static --Werror all-warnings \
             -Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wextra,-Werror,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics

all: $(B)/stoker-cuda.so

$(B)/obj/%.cu.o: src/%.cu $(CUDA_HDR) mk/cuda.mk
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS) -c -o $@ $<

$(B)/stoker-cuda.so: $(CUDA_OBJ)
	$(call say,LINK,$@)
	$(Q)$(NVCC) -shared $(CUDA_ARCH) -cudart static -o $@ $^ \
	    -Xlinker=--exclude-libs,ALL,-z,relro,-z,now,--as-needed
endif
