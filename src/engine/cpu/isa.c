/* SPDX-License-Identifier: MIT */
/* isa: what this CPU can do, and what the operating system lets us use of it.
 *
 * Three things must hold for vector registers: the CPU says so (CPUID), the kernel saves
 * them (XGETBV), and for AMX, whose state is large, the process has asked (arch_prctl).
 * Leaf 0x1D, which describes tiles, is never read: some virtual machines hide it while the
 * tiles work, and the sizes we use are those of every CPU with AMX. */
#include "engine/cpu/cpu_int.h"

#include <cpuid.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LEAF1_ECX_FMA = 1 << 12,
    LEAF1_ECX_OSXSAVE = 1 << 27,
    LEAF1_ECX_AVX = 1 << 28,
    LEAF1_ECX_F16C = 1 << 29,
    LEAF7_EBX_AVX2 = 1 << 5,
    LEAF7_EBX_AVX512F = 1 << 16,
    LEAF7_EBX_AVX512DQ = 1 << 17,
    LEAF7_EBX_AVX512BW = 1 << 30,
    LEAF7_ECX_VNNI = 1 << 11,
    LEAF7_EDX_AMX_BF16 = 1 << 22,
    LEAF7_EDX_AMX_TILE = 1 << 24,
    LEAF7_EDX_AMX_INT8 = 1 << 25,
    LEAF7_1_EAX_BF16 = 1 << 5,
    XCR0_YMM = 0x6,         /* SSE, AVX */
    XCR0_ZMM = 0xe6,        /* and opmask, both halves of zmm */
    XCR0_TILES = 0x60000,   /* tile configuration and data */
    XFEATURE_TILE_DATA = 18 /* of arch_prctl */
};
#define LEAF7_EBX_AVX512VL (1u << 31)
#define ARCH_XCOMP_ASK     0x1023 /* ARCH_REQ_XCOMP_PERM */

static const char *const names[CPU_ISAS] = {
    [CPU_NONE] = "none",       [CPU_AVX2] = "avx2",       [CPU_AVX512] = "avx512",
    [CPU_VNNI] = "avx512vnni", [CPU_BF16] = "avx512bf16", [CPU_AMX] = "amx",
};

static uint64_t read_xcr0(void)
{
    uint32_t lo, hi;

    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool has_bits(uint32_t reg, uint32_t bits)
{
    return (reg & bits) == bits;
}

static bool amx_usable(uint32_t edx, uint64_t saved)
{
    return has_bits(edx, LEAF7_EDX_AMX_BF16 | LEAF7_EDX_AMX_TILE | LEAF7_EDX_AMX_INT8) &&
           (saved & XCR0_TILES) == XCR0_TILES &&
           syscall(SYS_arch_prctl, ARCH_XCOMP_ASK, XFEATURE_TILE_DATA) == 0;
}

enum cpu_isa cpu_isa_best(void)
{
    uint32_t a = 0, b = 0, c = 0, d = 0, eax1 = 0, skip[3];

    if (!__get_cpuid(1, &a, &b, &c, &d) ||
        !has_bits(c, LEAF1_ECX_FMA | LEAF1_ECX_OSXSAVE | LEAF1_ECX_AVX | LEAF1_ECX_F16C))
        return CPU_NONE;
    uint64_t saved = read_xcr0();
    if ((saved & XCR0_YMM) != XCR0_YMM || !__get_cpuid_count(7, 0, &a, &b, &c, &d) ||
        !has_bits(b, LEAF7_EBX_AVX2))
        return CPU_NONE;
    if ((saved & XCR0_ZMM) != XCR0_ZMM || !has_bits(b, LEAF7_EBX_AVX512F | LEAF7_EBX_AVX512DQ |
                                                           LEAF7_EBX_AVX512BW | LEAF7_EBX_AVX512VL))
        return CPU_AVX2;
    if (!has_bits(c, LEAF7_ECX_VNNI))
        return CPU_AVX512;
    if (a < 1 || !__get_cpuid_count(7, 1, &eax1, &skip[0], &skip[1], &skip[2]) ||
        !has_bits(eax1, LEAF7_1_EAX_BF16))
        return CPU_VNNI;
    return amx_usable(d, saved) ? CPU_AMX : CPU_BF16;
}

const char *cpu_isa_name(enum cpu_isa isa)
{
    return names[isa];
}

enum cpu_isa cpu_isa_parse(const char *name)
{
    for (enum cpu_isa i = CPU_AVX2; i < CPU_ISAS; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return CPU_NONE;
}
