/* SPDX-License-Identifier: MIT */
/* simd_target: compile what follows for a named instruction set, whatever the flags.
 *
 *   SIMD_BEGIN("avx2,fma")  ... functions ...  SIMD_END
 *
 * One binary then holds kernels for every machine; cpu_engine.c calls those that can run. */
#ifndef ENGINE_CPU_SIMD_TARGET_INT_H
#define ENGINE_CPU_SIMD_TARGET_INT_H
#include <immintrin.h>
#include <string.h>

#define SIMD_PRAGMA(x) _Pragma(#x)
#ifdef __clang__
#define SIMD_BEGIN(isa)                                                                            \
    SIMD_PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define SIMD_END _Pragma("clang attribute pop")
#define UNROLL   _Pragma("unroll")
#else
#define SIMD_BEGIN(isa) _Pragma("GCC push_options") SIMD_PRAGMA(GCC target(isa))
#define SIMD_END        _Pragma("GCC pop_options")
#define UNROLL          _Pragma("GCC unroll 32")
#endif
/* The compiler must not know what is in a register. */
#define HIDE_VALUE(v) __asm__ volatile("" : "+v"(v))
#define INLINE        static inline __attribute__((always_inline, unused))
/* A function of its own, so that nothing around it takes registers from its sums. */
#define APART static __attribute__((noinline))

#endif
