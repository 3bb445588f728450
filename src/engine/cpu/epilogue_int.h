/* SPDX-License-Identifier: MIT */
/* epilogue: what is done to a block of a product before it is stored.
 * To be included between SIMD_BEGIN and SIMD_END, after simd_avx2_int.h or simd_avx512_int.h. */
#ifndef ENGINE_CPU_EPILOGUE_INT_H
#define ENGINE_CPU_EPILOGUE_INT_H

/* x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3): the tanh form. */
INLINE vf vf_gelu_tanh(vf x)
{
    vf u = vf_mul(
        x, vf_fma(vf_mul(x, x), vf_set(-2 * 0.79788456f * 0.044715f), vf_set(-2 * 0.79788456f)));
    return vf_div(x, vf_add(vf_set(1.0f), vf_exp(vf_min(vf_set(88.0f), u))));
}

/* 2^t for t <= 0 (below -126 that of -126), 3e-6: for results that are rounded to bfloat16.
 * The whole part of t is read from the low bits of t + 1.5 * 2^23. */
INLINE vf vf_exp2_short(vf t)
{
    const vf magic = vf_set(12582912.0f);
    t = vf_max(vf_set(-126.0f), t);
    vf n = vf_add(t, magic), f = vf_sub(t, vf_sub(n, magic));
    vf p = vf_fma(vf_set(0.0095700976f), f, vf_set(0.0559179038f));
    p = vf_fma(p, f, vf_set(0.240247458f));
    p = vf_fma(p, f, vf_set(0.693121791f));
    p = vf_fma(p, f, vf_set(0.999999285f));
    return vf_add_exponent(p, n);
}

/* x * Phi(x) of `n` vectors for results that are rounded to 8 bits of mantissa: Phi(x) = 1/2 +
 * x P(x^2) up to 4.25, constant beyond.  Greatest error 4e-5 of 1, or of x where that is more
 * (checked by test_cpu_kernels); no table, and three quarters of vf_gelu's instructions.  A
 * vector's steps each wait for the one before: several vectors go side by side. */
enum { GELU_MANY = 4 };
INLINE void vf_gelu_short(vf *x, size_t n)
{
    static const float p[] = { 0.39881921f,    -0.066190258f,   0.0097187646f,
                               -0.0010790734f, 8.8488305e-05f,  -5.1474262e-06f,
                               1.9861061e-07f, -4.5151332e-09f, 4.5468452e-11f };
    vf c[GELU_MANY], t[GELU_MANY], v[GELU_MANY];

    UNROLL
    for (size_t k = 0; k < n; k++) {
        x[k] = vf_max(vf_set(-4.25f), x[k]);
        c[k] = vf_min(vf_set(4.25f), x[k]);
        t[k] = vf_mul(c[k], c[k]);
        v[k] = vf_set(p[8]);
    }
    UNROLL
    for (int i = 7; i >= 0; i--)
        UNROLL
    for (size_t k = 0; k < n; k++)
        v[k] = vf_fma(v[k], t[k], vf_set(p[i]));
    UNROLL
    for (size_t k = 0; k < n; k++)
        x[k] = vf_mul(x[k], vf_fma(c[k], v[k], vf_set(0.5f)));
}

/* `narrow`: the result is rounded to bfloat16 next. */
INLINE vf vf_act(enum cpu_act act, bool narrow, vf v)
{
    if (act == CPU_ACT_GELU && narrow)
        vf_gelu_short(&v, 1);
    else if (act == CPU_ACT_GELU)
        return vf_gelu(v);
    if (act == CPU_ACT_GELU_TANH)
        return vf_gelu_tanh(v);
    if (act == CPU_ACT_RELU)
        return vf_max(vf_zero(), v);
    return v;
}

/* A vector of sums at `c` as numbers, with the bias. */
INLINE vf epilogue_sum(const struct cpu_job *j, const void *c, size_t row, size_t col)
{
    vf bias = j->bias ? vf_load(j->bias + col) : vf_zero();

    if (!j->scale)
        return vf_add(vf_load((const float *)c), bias);
    vf v = vi_load_float((const int32_t *)c);
    if (j->zero)
        v = vf_fma(vi_load_float(j->col_sum + col), vf_set(-(float)j->zero[row]), v);
    return vf_fma(vf_mul(v, vf_load(j->col_scale + col)), vf_set(j->scale[row]), bias);
}

/* One vector of row `row`, columns from `col`; `n` of its lanes exist. */
INLINE void epilogue_vec(const struct cpu_job *j, vf v, size_t row, size_t col, size_t n)
{
    v = vf_act(j->act, j->out_elem == CPU_E_BF16, v);
    if (j->add)
        v = vf_add(v, vf_load_n(j->add + row * j->ld_add + col, n));
    if (j->row_mul)
        v = vf_mul(v, vf_set(j->row_mul[row]));
    size_t at = row * j->ldo + col;
    if (j->out_elem == CPU_E_F32)
        n >= VW ? vf_store((float *)j->out + at, v) : vf_store_n((float *)j->out + at, v, n);
    else if (n >= VW)
        vf_store_bf16((uint16_t *)j->out + at, v);
    else
        vf_store_bf16_n((uint16_t *)j->out + at, v, n);
}

/* Rows [r0, r1) of a block whose first row is m0 and first column n0; `c` holds f32 or,
 * for a job of integers, int32, `width` numbers a row. */
INLINE void epilogue_rows(const struct cpu_job *j, const void *c, size_t width, size_t m0,
                          size_t n0, size_t r0, size_t r1)
{
    for (size_t r = r0; r < r1; r++)
        for (size_t i = 0; i < width && n0 + i < j->n; i += VW) {
            const float *at = (const float *)c + r * width + i;
            epilogue_vec(j, epilogue_sum(j, at, m0 + r, n0 + i), m0 + r, n0 + i, j->n - n0 - i);
        }
}

/* `n` vectors of a row from `col` on, of a job that is known: see epilogue_known. */
INLINE void epilogue_few(const struct cpu_job *j, const float *c, size_t row, size_t col, size_t n,
                         bool narrow, bool add, enum cpu_act act, vf *v)
{
    UNROLL
    for (size_t i = 0; i < n; i++)
        v[i] = epilogue_sum(j, c + i * VW, row, col + i * VW);
    if (act == CPU_ACT_GELU && narrow)
        return; /* later, of several rows together */
    UNROLL
    for (size_t i = 0; i < n; i++) {
        v[i] = vf_act(act, narrow, v[i]);
        if (add)
            v[i] = vf_add(v[i], vf_load(j->add + row * j->ld_add + col + i * VW));
    }
}

INLINE void epilogue_store(const struct cpu_job *j, size_t row, size_t col, size_t n, bool narrow,
                           const vf *v)
{
    size_t at = row * j->ldo + col;

    UNROLL
    for (size_t i = 0; i < n; i++)
        if (!narrow)
            vf_store((float *)j->out + at + i * VW, v[i]);
        else if (i % 2)
            vf_store_bf16_two((uint16_t *)j->out + at + (i - 1) * VW, v[i - 1], v[i]);
}

/* What the layers of an encoder ask for, with nothing left to be asked inside the loop: a
 * bias, whole vectors, no factor for a row.  Rows go by twos: `width` is two vectors. */
INLINE void epilogue_known(const struct cpu_job *j, const void *c, size_t width, size_t m0,
                           size_t n0, size_t r0, size_t r1, bool narrow, bool add, enum cpu_act act)
{
    for (size_t r = r0; r < r1; r += 2) {
        const float *p = (const float *)c + r * width;
        bool two = r + 1 < r1;
        vf v[GELU_MANY];
        epilogue_few(j, p, m0 + r, n0, 2, narrow, add, act, v);
        epilogue_few(j, two ? p + width : p, m0 + r + two, n0, 2, narrow, add, act, v + 2);
        if (act == CPU_ACT_GELU && narrow)
            vf_gelu_short(v, 4);
        epilogue_store(j, m0 + r, n0, 2, narrow, v);
        if (two)
            epilogue_store(j, m0 + r + 1, n0, 2, narrow, v + 2);
    }
}

/* The activation and the rest as constants in each copy. */
INLINE void epilogue(const struct cpu_job *j, const void *c, size_t width, size_t m0, size_t n0,
                     size_t r0, size_t r1)
{
    bool narrow = j->out_elem == CPU_E_BF16, known = j->bias && !j->row_mul && n0 + width <= j->n;

    if (known && narrow && !j->add && j->act == CPU_ACT_NONE)
        epilogue_known(j, c, width, m0, n0, r0, r1, true, false, CPU_ACT_NONE);
    else if (known && narrow && !j->add && j->act == CPU_ACT_GELU)
        epilogue_known(j, c, width, m0, n0, r0, r1, true, false, CPU_ACT_GELU);
    else if (known && !narrow && !j->add && j->act == CPU_ACT_GELU)
        epilogue_known(j, c, width, m0, n0, r0, r1, false, false, CPU_ACT_GELU);
    else if (known && !narrow && j->add && j->act == CPU_ACT_NONE)
        epilogue_known(j, c, width, m0, n0, r0, r1, false, true, CPU_ACT_NONE);
    else
        epilogue_rows(j, c, width, m0, n0, r0, r1);
}

#endif
