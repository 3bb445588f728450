/* SPDX-License-Identifier: MIT */
/* cpu_pack: weights into the layout that a kernel reads, once, at load.  Also the list of all
 * kernels, in which cpu_engine.c and the tests look. */
#include "engine/cpu/cpu_int.h"

#include "base/mem.h"
#include "model/weights/safetensors.h"

#include <assert.h>
#include <math.h>

const struct cpu_gemm *const cpu_gemms[] = {
    &cpu_avx2_f32, &cpu_avx2_bf16, &cpu_avx2_i8,  &cpu_avx512_f32, &cpu_avx512_bf16, &cpu_vnni_i8,
    &cpu_vnni_i16, &cpu_dpbf16,    &cpu_amx_bf16, &cpu_amx_i8,     &cpu_amx_split,   NULL,
};

size_t cpu_round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static size_t elem_bytes(enum cpu_elem e)
{
    return e == CPU_E_F32 ? 4 : e == CPU_E_U8 || e == CPU_E_S8 ? 1 : 2;
}

size_t cpu_pack_bytes(const struct cpu_gemm *g, size_t n, size_t k)
{
    return cpu_round_up(n, g->nr) * cpu_round_up(k, g->kstep) * elem_bytes(g->b);
}

size_t cpu_turn_block(size_t k)
{
    size_t b = 1;

    while (b < CPU_TURN_MAX && k > 0 && k % (2 * b) == 0)
        b *= 2;
    return b < CPU_TURN_MIN ? 1 : b;
}

static bool is_integer(enum cpu_elem e)
{
    return e == CPU_E_S8 || e == CPU_E_S16 || e == CPU_E_SPLIT;
}

/* For bytes the scale that takes the row's greatest absolute value to 127, for words that of
 * struct cpu_vec's `words`; NaN where there is one, so that integers do not hide it. */
static float row_scale(const float *w, size_t k, enum cpu_elem elem)
{
    float top = 0.0f, sq = 0.0f;

    for (size_t i = 0; i < k; i++) {
        if (isnan(w[i]))
            return NAN;
        top = fmaxf(top, fabsf(w[i]));
        sq += w[i] * w[i];
    }
    if (elem == CPU_E_S16)
        return sq < 1e-30f ? 1.0f : fmaxf(sqrtf(sq) / CPU_WORDS_NORM, top / CPU_WORDS_TOP);
    if (elem == CPU_E_SPLIT)
        return top > 1e-30f ? top / CPU_SPLIT_TOP : 1.0f;
    return top > 0.0f ? top / 127.0f : 1.0f;
}

static int32_t to_integer(float x, float top)
{
    if (isnan(x))
        return 0;
    return (int32_t)(x > top ? top : x < -top ? -top : rintf(x));
}

/* Split words: a panel's step of k is its upper bytes and behind them its lower bytes.  Each row
 * becomes bytes where it is. */
static void pack_split(const struct cpu_gemm *g, const struct cpu_vec *v, float *w, size_t n,
                       size_t k, void *dst, float *col_scale, int32_t *col_sum)
{
    size_t steps = cpu_round_up(k, g->kstep) / g->kstep, half = g->nr * g->kstep;
    int8_t *row = xmalloc(2 * k);
    char *plane = xmalloc(steps * half);

    for (size_t i = 0; i < n; i++) {
        v->split(w + i * k, CPU_E_F32, k, k, row, &col_scale[i]);
        memcpy(w + i * k, row, 2 * k);
        col_sum[i] = 0;
    }
    for (size_t col = 0; col < n; col += g->nr)
        for (size_t low = 0; low < 2; low++) {
            v->pack_keys((const char *)(w + col * k) + low * k, k * sizeof(*w),
                         n - col < g->nr ? n - col : g->nr, k / g->kg, steps * g->kstep / g->kg,
                         g->nr, (uint32_t *)(void *)plane);
            for (size_t s = 0; s < steps; s++)
                memcpy((char *)dst + ((col / g->nr * steps + s) * 2 + low) * half, plane + s * half,
                       half);
        }
    free(plane);
    free(row);
}

void cpu_pack_fast(const struct cpu_gemm *g, const struct cpu_vec *v, float *w, size_t n, size_t k,
                   void *dst, float *col_scale, int32_t *col_sum)
{
    size_t bytes = elem_bytes(g->b);

    if (g->b == CPU_E_SPLIT && k % g->kg == 0) {
        pack_split(g, v, w, n, k, dst, col_scale, col_sum);
        return;
    }
    if (bytes * g->kg != 4 || k % g->kg != 0) {
        cpu_pack(g, w, n, k, dst, col_scale, col_sum);
        return;
    }
    if (g->b == CPU_E_BF16)
        (void)v->narrow(w, n * k, CPU_E_BF16, (uint16_t *)(void *)w);
    for (size_t i = 0; g->b == CPU_E_S8 && i < n; i++)
        col_sum[i] = v->bytes(w + i * k, k, (int8_t *)(void *)w + i * k, &col_scale[i]);
    for (size_t i = 0; g->b == CPU_E_S16 && i < n; i++) {
        v->words(w + i * k, CPU_E_F32, k, (int16_t *)(void *)w + i * k, &col_scale[i]);
        col_sum[i] = 0;
    }
    v->pack_keys(w, k * bytes, n, k / g->kg, cpu_round_up(k, g->kstep) / g->kg, g->nr, dst);
}

static int32_t pack_one(const struct cpu_gemm *g, float x, float inv, void *dst, size_t at)
{
    size_t half = g->nr * g->kstep;
    int32_t q;

    if (g->b == CPU_E_F32)
        ((float *)dst)[at] = x;
    else if (g->b == CPU_E_BF16)
        ((uint16_t *)dst)[at] = st_f32_to_bf16(x);
    else if (g->b == CPU_E_S16)
        ((int16_t *)dst)[at] = (int16_t)to_integer(x * inv, CPU_WORDS_TOP);
    else if (g->b == CPU_E_SPLIT) {
        q = to_integer(x * inv, CPU_SPLIT_TOP);
        at += at / half * half; /* behind each step's upper bytes are its lower ones */
        ((int8_t *)dst)[at] = (int8_t)((q + 128) >> 8);
        ((int8_t *)dst)[at + half] = (int8_t)(q & 0xff);
    } else
        return ((int8_t *)dst)[at] = (int8_t)to_integer(x * inv, 127.0f);
    return 0;
}

/* col_sum is wanted only where A has a zero point: for bytes. */
void cpu_pack(const struct cpu_gemm *g, const float *w, size_t n, size_t k, void *dst,
              float *col_scale, int32_t *col_sum)
{
    size_t kp = cpu_round_up(k, g->kstep);

    for (size_t col = 0; col < n; col++) {
        const float *row = w + col * k;
        size_t panel = col / g->nr * g->nr * kp;
        float scale = is_integer(g->b) ? row_scale(row, k, g->b) : 1.0f, inv = 1.0f / scale;
        int32_t sum = 0;
        for (size_t x = 0; x < k; x++)
            sum += pack_one(g, row[x], inv, dst,
                            panel + (x / g->kg * g->nr + col % g->nr) * g->kg + x % g->kg);
        if (is_integer(g->b)) {
            assert(col_scale && col_sum);
            col_scale[col] = scale;
            col_sum[col] = sum;
        }
    }
}
