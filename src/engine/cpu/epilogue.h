/* SPDX-License-Identifier: MIT */
/* epilogue: what is done to a block of a product before it is stored.
 * To be included between SIMD_BEGIN and SIMD_END, after simd_avx2.h or simd_avx512.h. */
#ifndef ENGINE_CPU_EPILOGUE_H
#define ENGINE_CPU_EPILOGUE_H

/* x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3): the tanh form. */
INLINE vf vf_gelu_tanh(vf x)
{
    vf u = vf_mul(
        x, vf_fma(vf_mul(x, x), vf_set(-2 * 0.79788456f * 0.044715f), vf_set(-2 * 0.79788456f)));
    return vf_div(x, vf_add(vf_set(1.0f), vf_exp(vf_min(vf_set(88.0f), u))));
}

INLINE vf vf_act(enum cpu_act act, vf v)
{
    if (act == CPU_ACT_GELU)
        return vf_gelu(v);
    if (act == CPU_ACT_GELU_TANH)
        return vf_gelu_tanh(v);
    if (act == CPU_ACT_RELU)
        return vf_max(vf_zero(), v);
    return v;
}

/* One vector of row `row`, columns from `col`; `n` of its lanes exist. */
INLINE void epilogue_vec(const struct cpu_job *j, vf v, size_t row, size_t col, size_t n,
                         enum cpu_act act)
{
    if (j->scale) {
        vf sums = vi_load_float(j->col_sum + col);
        v = vf_fma(sums, vf_set(-(float)j->zero[row]), v);
        v = vf_mul(vf_mul(v, vf_load(j->col_scale + col)), vf_set(j->scale[row]));
    }
    if (j->bias)
        v = vf_add(v, vf_load(j->bias + col));
    v = vf_act(act, v);
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
 * for a job of bytes, int32, `width` numbers a row. */
INLINE void epilogue_rows(const struct cpu_job *j, const void *c, size_t width, size_t m0,
                          size_t n0, size_t r0, size_t r1, enum cpu_act act)
{
    for (size_t r = r0; r < r1; r++)
        for (size_t i = 0; i < width && n0 + i < j->n; i += VW) {
            size_t at = r * width + i;
            vf v =
                j->scale ? vi_load_float((const int32_t *)c + at) : vf_load((const float *)c + at);
            epilogue_vec(j, v, m0 + r, n0 + i, j->n - n0 - i, act);
        }
}

/* The activation as a constant in each copy: no test inside the loops. */
INLINE void epilogue(const struct cpu_job *j, const void *c, size_t width, size_t m0, size_t n0,
                     size_t r0, size_t r1)
{
    if (j->act == CPU_ACT_NONE)
        epilogue_rows(j, c, width, m0, n0, r0, r1, CPU_ACT_NONE);
    else if (j->act == CPU_ACT_GELU)
        epilogue_rows(j, c, width, m0, n0, r0, r1, CPU_ACT_GELU);
    else
        epilogue_rows(j, c, width, m0, n0, r0, r1, j->act);
}

#endif
