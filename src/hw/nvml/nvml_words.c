/* SPDX-License-Identifier: MIT */
/* nvml_words: the library's numbers as the words of the inventory, and back.
 *
 * Both ways because the fake library of the tests answers from an inventory: what
 * we write we must be able to hand in again.  A number that a newer driver made up
 * is written as "code N". */
#include "hw/nvml/nvml_int.h"

#include "base/str.h"

#include <ctype.h>

const struct nvml_word nvml_brands[] = {
    { 1, "Quadro" },
    { 2, "Tesla" },
    { 3, "NVS" },
    { 4, "GRID" },
    { 5, "GeForce" },
    { 6, "Titan" },
    { 7, "NVIDIA Virtual Applications" },
    { 8, "NVIDIA Virtual PC" },
    { 9, "NVIDIA Virtual Compute Server" },
    { 10, "NVIDIA RTX Virtual Workstation" },
    { 11, "NVIDIA Cloud Gaming" },
    { 12, "Quadro RTX" },
    { 13, "NVIDIA RTX" },
    { 14, "NVIDIA" },
    { 15, "GeForce RTX" },
    { 16, "Titan RTX" },
    { 0, NULL },
};

const struct nvml_word nvml_archs[] = {
    { 2, "Kepler" },     { 3, "Maxwell" }, { 4, "Pascal" }, { 5, "Volta" },
    { 6, "Turing" },     { 7, "Ampere" },  { 8, "Ada" },    { 9, "Hopper" },
    { 10, "Blackwell" }, { 13, "Rubin" },  { 0, NULL },
};

const struct nvml_word nvml_compute_modes[] = {
    { 0, "default" }, { 1, "exclusive-thread" }, { 2, "prohibited" }, { 3, "exclusive" },
    { 0, NULL },
};

const struct nvml_word nvml_virtualizations[] = {
    { 0, "none" },      { 1, "passthrough" }, { 2, "vgpu" },
    { 3, "host-vgpu" }, { 4, "host-vsga" },   { 0, NULL },
};

const struct nvml_word nvml_recoveries[] = {
    { 0, "none" },        { 1, "reset" },        { 2, "reboot" }, { 3, "drain-p2p" },
    { 4, "drain-reset" }, { 5, "recover-imex" }, { 0, NULL },
};

const struct nvml_word nvml_fabric_states[] = {
    { 0, "not-supported" },
    { 1, "not-started" },
    { 2, "in-progress" },
    { NVML_GPU_FABRIC_STATE_COMPLETED, "completed" },
    { 0, NULL },
};

const struct nvml_word nvml_addressings[] = {
    { 0, "none" },
    { 1, "hmm" },
    { 2, "ats" },
    { 0, NULL },
};

const struct nvml_word nvml_link_ends[] = {
    { 0, "gpu" }, { 1, "npu" }, { 2, "switch" }, { 255, "unknown" }, { 0, NULL },
};

const struct nvml_word nvml_p2p_states[] = {
    { 0, "ok" },
    { 1, "chipset not supported" },
    { 2, "gpu not supported" },
    { 3, "topology not supported" },
    { 4, "disabled by regkey" },
    { 5, "not supported" },
    { 6, "unknown" },
    { 0, NULL },
};

static const char other_prefix[] = "code ";

const char *nvml_word(struct arena *a, const struct nvml_word *table, int code)
{
    for (; table->word; table++)
        if (table->code == code)
            return table->word;
    return arena_printf(a, "%s%d", other_prefix, code);
}

bool nvml_code(const struct nvml_word *table, const char *word, int *out)
{
    int64_t code;

    if (!word)
        return false;
    for (; table->word; table++) {
        if (str_eq(table->word, word)) {
            *out = table->code;
            return true;
        }
    }
    if (!str_starts(word, other_prefix) ||
        !str_to_i64(word + sizeof(other_prefix) - 1, 10, &code) || code != (int)code)
        return false;
    *out = (int)code;
    return true;
}

/* Up to `max` hexadecimal digits and then `end`; the number, or -1. */
static int64_t hex_until(const char **s, size_t max, char end)
{
    int64_t v = 0;
    size_t n = 0;

    for (; isxdigit((unsigned char)(*s)[n]); n++) {
        char c = (char)tolower((unsigned char)(*s)[n]);

        if (n == max)
            return -1;
        v = v * 16 + (c <= '9' ? c - '0' : c - 'a' + 10);
    }
    if (n == 0 || (*s)[n] != end)
        return -1;
    *s += n + (end != '\0');
    return v;
}

bool nvml_bdf(const char *text, char out[NVML_BDF_MAX])
{
    int64_t domain, bus, slot, fn;

    if (!text || (domain = hex_until(&text, 8, ':')) < 0 || (bus = hex_until(&text, 2, ':')) < 0 ||
        (slot = hex_until(&text, 2, '.')) < 0 || (fn = hex_until(&text, 1, '\0')) < 0 ||
        slot > 31 || fn > 7)
        return false;
    if (domain == 0xffffffff)
        return false;
    snprintf(out, NVML_BDF_MAX, "%04x:%02x:%02x.%x", (unsigned)domain, (unsigned)bus,
             (unsigned)slot, (unsigned)fn);
    return true;
}
