/* SPDX-License-Identifier: MIT */
/* pack: weights into the layout that a kernel reads, once, at load.  Also the list of all
 * kernels, in which cpu.c and the tests look. */
#include "engine/cpu/cpu_int.h"

#include "model/safetensors.h"

#include <assert.h>
#include <math.h>

const struct cpu_gemm *const cpu_gemms[] = {
    &cpu_avx2_f32, &cpu_avx2_bf16, &cpu_avx2_i8,  &cpu_avx512_f32, &cpu_avx512_bf16,
    &cpu_vnni_i8,  &cpu_dpbf16,    &cpu_amx_bf16, &cpu_amx_i8,     NULL,
};

size_t cpu_round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static size_t elem_bytes(enum cpu_elem e)
{
    return e == CPU_E_F32 ? 4 : e == CPU_E_BF16 || e == CPU_E_F16 ? 2 : 1;
}

size_t cpu_pack_bytes(const struct cpu_gemm *g, size_t n, size_t k)
{
    return cpu_round_up(n, g->nr) * cpu_round_up(k, g->kstep) * elem_bytes(g->b);
}

/* The scale that takes the row's greatest absolute value to 127; NaN where there is one, so
 * that bytes do not hide it. */
static float row_scale(const float *w, size_t k)
{
    float top = 0.0f;

    for (size_t i = 0; i < k; i++) {
        if (isnan(w[i]))
            return NAN;
        top = fmaxf(top, fabsf(w[i]));
    }
    return top > 0.0f ? top / 127.0f : 1.0f;
}

static int8_t to_byte(float x)
{
    if (isnan(x))
        return 0;
    return (int8_t)(x > 127.0f ? 127.0f : x < -127.0f ? -127.0f : rintf(x));
}

/* A row as bytes, where the row is. */
static int32_t row_to_bytes(const float *row, size_t k, float scale, int8_t *out)
{
    float inv = 1.0f / scale;
    int32_t sum = 0;

    for (size_t x = 0; x < k; x++)
        sum += out[x] = to_byte(row[x] * inv);
    return sum;
}

void cpu_pack_fast(const struct cpu_gemm *g, const struct cpu_vec *v, float *w, size_t n, size_t k,
                   void *dst, float *col_scale, int32_t *col_sum)
{
    size_t bytes = elem_bytes(g->b);

    if (bytes * g->kg != 4 || k % g->kg != 0) {
        cpu_pack(g, w, n, k, dst, col_scale, col_sum);
        return;
    }
    if (g->b == CPU_E_BF16)
        (void)v->narrow(w, n * k, CPU_E_BF16, (uint16_t *)(void *)w);
    for (size_t i = 0; g->b == CPU_E_S8 && i < n; i++) {
        col_scale[i] = row_scale(w + i * k, k);
        col_sum[i] = row_to_bytes(w + i * k, k, col_scale[i], (int8_t *)(void *)w + i * k);
    }
    v->pack_keys(w, k * bytes, n, k / g->kg, cpu_round_up(k, g->kstep) / g->kg, g->nr, dst);
}

void cpu_pack(const struct cpu_gemm *g, const float *w, size_t n, size_t k, void *dst,
              float *col_scale, int32_t *col_sum)
{
    size_t kp = cpu_round_up(k, g->kstep);

    for (size_t col = 0; col < n; col++) {
        const float *row = w + col * k;
        size_t panel = col / g->nr * g->nr * kp;
        float scale = g->b == CPU_E_S8 ? row_scale(row, k) : 1.0f, inv = 1.0f / scale;
        int32_t sum = 0;
        for (size_t x = 0; x < k; x++) {
            size_t at = panel + (x / g->kg * g->nr + col % g->nr) * g->kg + x % g->kg;
            if (g->b == CPU_E_F32)
                ((float *)dst)[at] = row[x];
            else if (g->b == CPU_E_BF16)
                ((uint16_t *)dst)[at] = st_f32_to_bf16(row[x]);
            else
                sum += ((int8_t *)dst)[at] = to_byte(row[x] * inv);
        }
        if (g->b == CPU_E_S8) {
            assert(col_scale && col_sum);
            col_scale[col] = scale;
            col_sum[col] = sum;
        }
    }
}
