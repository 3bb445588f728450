# SPDX-License-Identifier: MIT
# Tests and measurements that need a GPU, and the folder that takes them to a machine that has one:
#
#   make bundle                       build/bundle: runs without this source, a compiler or a package of ours
#   make bundle BUNDLE_MODEL=DIR      with all-MiniLM-L6-v2, for the comparison with real weights
#   make gpu-test                     build/bundle/gpu-test, here: exactness, kernels, nvidia-smi
#   make gpu-bench                    build/bundle/gpu-bench, here: our speed beside PyTorch's
#   make gpu-fits                     do the micro-batches run that `stoker plan memory` names?  needs torch; 8 min
#   make gpu-nccl                     does NCCL choose here what `stoker detect` says?  needs torch; 30 s
#
# Both take less than 8 minutes; GPU_ARGS='--rows xlmr.1x32' and such say what of it, and --help all of that.
BUNDLE ?= $(B)/bundle
BUNDLE_MODEL ?=
GPU_ARGS ?=

# the plug-in finds what it needs beyond the C library in a bundle's lib/, as the program does
ifeq ($(CUDA),1)
$(B)/stoker-cuda.so: private NVCC := $(NVCC) -Xlinker=-rpath,'$$ORIGIN/lib'
endif

# tests of single kernels: programs that print TAP, linked with the plug-in's kernels
ifeq ($(CUDA),1)
GPU_TESTS := $(patsubst tests/gpu/%.cu,$(B)/tests/gpu/%,$(sort $(wildcard tests/gpu/test_*.cu)))
GPU_KERNELS := $(B)/tests/gpu/kernels.a
GPU_CHOICE := gemm_choices gemm_choose gemm_lt # the C beside them: which product is fastest
$(GPU_KERNELS): $(CUDA_SRC:src/%.cu=$(B)/obj/%.cu.o) $(GPU_CHOICE:%=$(B)/obj/engine/cuda/%.cuda.o) mk/gpu.mk
	@mkdir -p $(@D)
	$(Q)rm -f $@ && ar rcs $@ $(filter %.o,$^)
$(GPU_TESTS): $(B)/tests/gpu/%: tests/gpu/%.cu $(wildcard tests/gpu/*.cuh) $(GPU_KERNELS)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS) -Itests -o $@ $< $(GPU_KERNELS) -ldl
endif

.PHONY: bundle gpu-test gpu-bench gpu-fits gpu-nccl gpu-tests
gpu-tests: $(GPU_TESTS)
bundle: all $(GPU_TESTS)
	@CUDA=$(CUDA) tools/bundle $(B) $(BUNDLE) $(BUNDLE_MODEL)
gpu-test: bundle
	@$(BUNDLE)/gpu-test $(GPU_ARGS)
gpu-bench: bundle
	@$(BUNDLE)/gpu-bench $(GPU_ARGS)
gpu-nccl: $(B)/stoker
	@python3 tests/gpu/nccl_against.py --stoker $(B)/stoker $(GPU_ARGS)
gpu-fits: $(B)/stoker
	@python3 tests/gpu/plan_fits.py --stoker $(B)/stoker $(GPU_ARGS)
