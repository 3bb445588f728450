/* SPDX-License-Identifier: MIT */
/* simd_both: what both widths write alike, in instructions V(op) of the one that is being compiled.
 * Included by simd_avx2_int.h and simd_avx512_int.h, which have the rest. */
#ifndef ENGINE_CPU_SIMD_BOTH_INT_H
#define ENGINE_CPU_SIMD_BOTH_INT_H

INLINE vf vf_zero(void)
{
    return V(setzero_ps)();
}

INLINE vf vf_set(float x)
{
    return V(set1_ps)(x);
}

INLINE vf vf_load(const float *p)
{
    return V(loadu_ps)(p);
}

INLINE void vf_store(float *p, vf v)
{
    V(storeu_ps)(p, v);
}

INLINE vi vi_add(vi a, vi b)
{
    return V(add_epi32)(a, b);
}

INLINE vf vf_fma(vf a, vf b, vf c)
{
    return V(fmadd_ps)(a, b, c);
}

#define SIMD_OF_TWO(name, op)                                                                      \
    INLINE vf name(vf a, vf b)                                                                     \
    {                                                                                              \
        return V(op)(a, b);                                                                        \
    }
SIMD_OF_TWO(vf_add, add_ps)
SIMD_OF_TWO(vf_sub, sub_ps)
SIMD_OF_TWO(vf_mul, mul_ps)
SIMD_OF_TWO(vf_div, div_ps)
SIMD_OF_TWO(vf_max, max_ps) /* max(0, NaN) must stay NaN: the second operand wins */
SIMD_OF_TWO(vf_min, min_ps)

/* e^r of x = n ln 2 + r, |r| <= ln 2 / 2: a polynomial. */
INLINE vf vf_exp_rest(vf x, vf n)
{
    vf r = V(fnmadd_ps)(n, V(set1_ps)(0.693359375f), x);
    r = V(fnmadd_ps)(n, V(set1_ps)(-2.12194440e-4f), r);
    vf p = V(set1_ps)(1.9875691500e-4f);
    p = V(fmadd_ps)(p, r, V(set1_ps)(1.3981999507e-3f));
    p = V(fmadd_ps)(p, r, V(set1_ps)(8.3334519073e-3f));
    p = V(fmadd_ps)(p, r, V(set1_ps)(4.1665795894e-2f));
    p = V(fmadd_ps)(p, r, V(set1_ps)(1.6666665459e-1f));
    p = V(fmadd_ps)(p, r, V(set1_ps)(5.0000001201e-1f));
    p = V(fmadd_ps)(p, r, V(set1_ps)(1.0f));
    return V(fmadd_ps)(p, r, V(set1_ps)(1.0f));
}

/* p * 2^k, k being the low bits of n. */
INLINE vf vf_add_exponent(vf p, vf n)
{
    return V_FLOATS(V(add_epi32)(V_BITS(p), V(slli_epi32)(V_BITS(n), 23)));
}

/* Sixteen bits a lane, widened: bfloat16 is the upper half of a float. */
INLINE vf vf_of_bf16(V_HALF h)
{
    return V_FLOATS(V(slli_epi32)(V(cvtepu16_epi32)(h), 16));
}

#endif
