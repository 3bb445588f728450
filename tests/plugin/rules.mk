# SPDX-License-Identifier: MIT
# Fake CUDA plug-ins, one folder a kind, beside the unit tests.
PLUGIN_KINDS := good wrong no_start hang crash other_abi empty
FAKE_PLUGINS := $(foreach k,$(PLUGIN_KINDS),$(B)/tests/plugin/$(k)/stoker-cuda.so)
FAKES += $(FAKE_PLUGINS)

upper = $(shell echo $(1) | tr a-z A-Z)
$(B)/tests/plugin/%/stoker-cuda.so: tests/plugin/fake_cuda.c src/engine/cuda/cuda_plugin.h | setup-build
	@mkdir -p $(@D)
	$(call say,FAKE,$@)
	$(Q)$(CC) $(CPPFLAGS) $(filter-out -fPIE,$(CFLAGS)) -fPIC -shared -DFAKE_KIND=FAKE_$(call upper,$*) -o $@ $<

$(B)/tests/test_health_plugin: | $(FAKE_PLUGINS)

# a device to run models on, which fails on demand
FAKE_ENGINE := $(B)/tests/plugin/engine/stoker-cuda.so
FAKES += $(FAKE_ENGINE)
$(FAKE_ENGINE): tests/plugin/fake_engine.c $(wildcard src/engine/*.h src/model/*.h src/model/*/*.h src/base/*.h src/base/*/*.h) | setup-build
	@mkdir -p $(@D)
	$(call say,FAKE,$@)
	$(Q)$(CC) $(CPPFLAGS) $(filter-out -fPIE,$(CFLAGS)) -fPIC -shared -o $@ $<
$(B)/tests/test_worker: | $(FAKE_ENGINE) $(B)/stoker
