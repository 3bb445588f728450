# SPDX-License-Identifier: MIT
# The fake driver library: $(B)/tests/libfakenvml.so.  It carries its own copy of the
# code it shares with the program (JSON, the row tables, the words), position
# independent and hidden, so that loading it cannot disturb the program's own.
FAKENVML := $(B)/tests/libfakenvml.so
FAKENVML_SRC := $(wildcard tests/fakenvml/*.c) $(wildcard src/base/*.c src/base/*/*.c) src/hw/hw_schema.c src/hw/nvml/nvml_words.c
FAKENVML_OBJ := $(FAKENVML_SRC:%.c=$(B)/pic/%.o)

$(B)/pic/%.o: %.c | setup-build
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -MMD -MP -c -o $@ $<

# The name inside is the real library's: an inventory tells it, and replaying a
# capture through the fake must give the same inventory.
$(FAKENVML): $(FAKENVML_OBJ)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -Wl,-soname,libnvidia-ml.so.1 -Wl,--gc-sections $(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,-z,relro,-z,now $(SANFLAGS) -o $@ $^ -lm

-include $(FAKENVML_OBJ:.o=.d)

.PHONY: fakenvml
fakenvml: $(FAKENVML)
FAKES += $(FAKENVML)
unit: $(FAKENVML)
