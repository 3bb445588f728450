/* SPDX-License-Identifier: MIT */
/* rows_frame_int: the functions of struct cpu_vec, written once for both vector widths.
 * To be included between SIMD_BEGIN and SIMD_END, after the vocabulary and epilogue_int.h.
 * Sums run over one vector of partial sums, lane by lane, so their order depends on the
 * length of the row alone. */
#ifndef ENGINE_CPU_ROWS_FRAME_INT_H
#define ENGINE_CPU_ROWS_FRAME_INT_H

static void rows_layernorm(float *x, const float *add, const float *add_bias, size_t n,
                           const float *g, const float *b, float eps, float *y, uint16_t *out)
{
    vf sum = vf_zero(), sq = vf_zero();

    for (size_t i = 0; i < n; i += VW) {
        vf v = vf_load_n(x + i, n - i);
        if (add) {
            v = vf_add(vf_add(v, vf_load_n(add_bias + i, n - i)), vf_load_n(add + i, n - i));
            vf_store_n(x + i, v, n - i);
        }
        sum = vf_add(sum, v);
    }
    float mean = vf_sum(sum) / (float)n;
    for (size_t i = 0; i < n; i += VW) {
        vf d = vf_first_n(vf_sub(vf_load_n(x + i, n - i), vf_set(mean)), n - i, 0.0f);
        sq = vf_fma(d, d, sq);
    }
    float inv = 1.0f / sqrtf(vf_sum(sq) / (float)n + eps);
    for (size_t i = 0; i < n; i += VW) {
        vf d = vf_mul(vf_sub(vf_load_n(x + i, n - i), vf_set(mean)), vf_set(inv));
        vf v = vf_fma(d, vf_load_n(g + i, n - i), vf_load_n(b + i, n - i));
        vf_store_n(y + i, v, n - i);
        if (out)
            vf_store_bf16_n(out + i, v, n - i);
    }
}

INLINE vf rows_load(const void *x, enum cpu_elem elem, size_t i, size_t n)
{
    if (elem == CPU_E_F32)
        return vf_load_n((const float *)x + i, n - i);
    if (elem == CPU_E_F16)
        return vf_load_f16_n((const uint16_t *)x + i, n - i);
    return vf_load_bf16_n((const uint16_t *)x + i, n - i);
}

INLINE vf rows_scaled(const void *x, enum cpu_elem elem, const float *mul, size_t i, size_t n)
{
    vf v = rows_load(x, elem, i, n);

    return mul ? vf_mul(v, vf_load_n(mul + i, n - i)) : v;
}

/* `count` vectors by a Hadamard matrix, all of them in registers. */
INLINE void turn_vectors(vf *v, int count)
{
    UNROLL
    for (int i = 0; i < count; i++)
        v[i] = vf_turn(v[i]);
    UNROLL
    for (int half = 1; half < count; half *= 2)
        UNROLL
    for (int i = 0; i < count; i++)
        if (!(i & half)) {
            vf a = v[i], b = v[i + half];
            v[i] = vf_add(a, b);
            v[i + half] = vf_sub(a, b);
        }
}

/* The blocks of a row to y, and the greatest and least number. */
INLINE void turn_row(const void *x, enum cpu_elem elem, const float *mul, size_t n, int count,
                     float *y, vf *hi, vf *lo)
{
    for (size_t at = 0; at < n; at += (size_t)count * VW) {
        vf v[CPU_TURN_MAX / VW];
        UNROLL
        for (int i = 0; i < count; i++)
            v[i] = rows_scaled(x, elem, mul, at + (size_t)i * VW, n);
        turn_vectors(v, count);
        UNROLL
        for (int i = 0; i < count; i++) {
            *hi = vf_max(*hi, v[i]);
            *lo = vf_min(*lo, v[i]);
            vf_store(y + at + (size_t)i * VW, v[i]);
        }
    }
}

INLINE void turn_blocks(const void *x, enum cpu_elem elem, const float *mul, size_t n, size_t block,
                        float *y, vf *hi, vf *lo)
{
    if (block == 128)
        turn_row(x, elem, mul, n, 128 / VW, y, hi, lo);
    else if (block == 64)
        turn_row(x, elem, mul, n, 64 / VW, y, hi, lo);
    else if (block == 32)
        turn_row(x, elem, mul, n, 32 / VW, y, hi, lo);
    else
        turn_row(x, elem, mul, n, 16 / VW, y, hi, lo);
}

static void rows_turn(const float *x, size_t n, size_t block, float *y)
{
    vf hi = vf_zero(), lo = vf_zero();

    turn_blocks(x, CPU_E_F32, NULL, n, block, y, &hi, &lo);
}

/* The range always holds 0, so that 0 is exact. */
INLINE void quantize_as(const void *x, enum cpu_elem elem, const float *mul, size_t n, size_t block,
                        float *room, uint8_t *q, float *scale, int32_t *zero)
{
    vf hi = vf_zero(), lo = vf_zero(); /* lanes behind the end load as 0 */

    if (block > 1) {
        turn_blocks(x, elem, mul, n, block, room, &hi, &lo);
        x = room;
        elem = CPU_E_F32;
        mul = NULL;
    }
    for (size_t i = 0; block == 1 && i < n; i += VW) {
        vf v = rows_scaled(x, elem, mul, i, n);
        hi = vf_max(hi, v);
        lo = vf_min(lo, v);
    }
    float least = vf_least(lo), range = vf_greatest(hi) - least;
    float step = range > 0.0f ? range / 255.0f : 1.0f;
    float inv = 1.0f / step, z = rintf(-least * inv);
    for (size_t i = 0; i < n; i += VW) {
        vf v = vf_fma(rows_scaled(x, elem, mul, i, n), vf_set(inv), vf_set(z));
        vf_store_u8_n(q + i, vf_max(vf_zero(), vf_min(vf_set(255.0f), v)), n - i);
    }
    *scale = step;
    *zero = (int32_t)z;
}

static void rows_quantize(const void *x, enum cpu_elem elem, const float *mul, size_t n,
                          size_t block, float *room, uint8_t *q, float *scale, int32_t *zero)
{
    if (elem == CPU_E_F32)
        quantize_as(x, CPU_E_F32, mul, n, block, room, q, scale, zero);
    else
        quantize_as(x, CPU_E_BF16, mul, n, block, room, q, scale, zero);
}

/* What is no number makes `bad` NaN; vf_max() alone would lose it. */
static int32_t rows_bytes(const float *x, size_t n, int8_t *q, float *scale)
{
    vf top = vf_zero(), bad = vf_zero(), sum = vf_zero();

    for (size_t i = 0; i < n; i += VW) {
        vf v = vf_load_n(x + i, n - i);
        top = vf_max(top, vf_max(v, vf_sub(vf_zero(), v)));
        bad = vf_fma(v, vf_zero(), bad);
    }
    float most = vf_greatest(top), step = most > 0.0f ? most / 127.0f : 1.0f, inv = 1.0f / step;
    for (size_t i = 0; i < n; i += VW) {
        vf v = vf_round(vf_mul(vf_load_n(x + i, n - i), vf_set(inv)));
        v = vf_max(vf_set(-127.0f), vf_min(vf_set(127.0f), v));
        sum = vf_add(sum, v);
        vf_store_s8_n(q + i, v, n - i);
    }
    *scale = step + vf_sum(bad);
    return isnan(*scale) ? 0 : (int32_t)vf_sum(sum); /* whole numbers below 2^24 */
}

/* A row whose squares are too small to be summed counts as zeros. */
INLINE void words_as(const void *x, enum cpu_elem elem, size_t n, int16_t *q, float *scale)
{
    vf top = vf_zero(), sq = vf_zero();

    for (size_t i = 0; i < n; i += VW) {
        vf v = rows_load(x, elem, i, n);
        top = vf_max(top, vf_max(v, vf_sub(vf_zero(), v)));
        sq = vf_fma(v, v, sq);
    }
    float sum = vf_sum(sq), step = sqrtf(sum) * (1.0f / CPU_WORDS_NORM);
    float by_top = vf_greatest(top) * (1.0f / CPU_WORDS_TOP);
    step = sum < 1e-30f ? 1.0f : step < by_top ? by_top : step; /* a NaN stays */
    vf inv = vf_set(1.0f / step);
    for (size_t i = 0; i < n; i += VW)
        vf_store_s16_n(q + i, vf_mul(rows_load(x, elem, i, n), inv), n - i);
    *scale = step;
}

static void rows_words(const void *x, enum cpu_elem elem, size_t n, int16_t *q, float *scale)
{
    if (elem == CPU_E_F32)
        words_as(x, CPU_E_F32, n, q, scale);
    else
        words_as(x, CPU_E_BF16, n, q, scale);
}

/* The greatest absolute value of a row; NaN where one of its numbers is none.  Four vectors go
 * side by side, since each step waits for the one before. */
INLINE float rows_top(const void *x, enum cpu_elem elem, size_t n)
{
    enum { MANY = 4 };
    vf top[MANY] = { vf_zero(), vf_zero(), vf_zero(), vf_zero() };
    vf bad[MANY] = { vf_zero(), vf_zero(), vf_zero(), vf_zero() };

    for (size_t i = 0; i < n; i += MANY * VW) {
        UNROLL
        for (size_t k = 0; k < MANY; k++) {
            size_t at = i + k * VW < n ? i + k * VW : i;
            vf v = rows_load(x, elem, at, n);
            top[k] = vf_max(top[k], vf_max(v, vf_sub(vf_zero(), v)));
            bad[k] = vf_fma(v, vf_zero(), bad[k]);
        }
    }
    return vf_greatest(vf_max(vf_max(top[0], top[1]), vf_max(top[2], top[3]))) +
           vf_sum(vf_add(vf_add(bad[0], bad[1]), vf_add(bad[2], bad[3])));
}

/* The lower byte is signed too, so that products of two lower bytes, which kernels leave out,
 * have no mean.  A row of numbers too small to be divided counts as zeros. */
INLINE void split_as(const void *x, enum cpu_elem elem, size_t n, size_t apart, int8_t *q,
                     float *scale)
{
    float top = rows_top(x, elem, n), step = top < 1e-30f ? 1.0f : top / CPU_SPLIT_TOP;
    vf inv = vf_set(1.0f / step), most = vf_set(CPU_SPLIT_TOP), least = vf_set(-CPU_SPLIT_TOP);

    for (size_t i = 0; i < n; i += VW) {
        vf v = vf_mul(rows_load(x, elem, i, n), inv);
        vf_store_split_n(q + i, q + apart + i, vf_max(least, vf_min(most, v)), n - i);
    }
    *scale = step; /* a NaN stays */
}

static void rows_split(const void *x, enum cpu_elem elem, size_t n, size_t apart, int8_t *q,
                       float *scale)
{
    if (elem == CPU_E_F32)
        split_as(x, CPU_E_F32, n, apart, q, scale);
    else
        split_as(x, CPU_E_BF16, n, apart, q, scale);
}

INLINE vf scores_load(const float *s, size_t i, size_t n, float mul, const float *bias)
{
    vf v = vf_mul(vf_load_n(s + i, n - i), vf_set(mul));
    return bias ? vf_add(v, vf_load_n(bias + i, n - i)) : v;
}

/* Without a bias and to bfloat16, what all but one kind of network asks for: the scale goes
 * into the exponent, 32 numbers at a time.  mul is above 0. */
static float softmax_short(const float *s, size_t n, size_t padded, float mul, uint16_t *p)
{
    const float log2e = 1.44269504f;
    vf top = vf_set(-INFINITY), sum = vf_zero(), sum2 = vf_zero();
    size_t whole = n / (2 * VW) * (2 * VW), i;

    for (i = 0; i + VW <= n; i += VW)
        top = vf_max(top, vf_load(s + i));
    if (i < n)
        top = vf_max(top, vf_first_n(vf_load_n(s + i, n - i), n - i, -INFINITY));
    vf scale = vf_set(mul * log2e), most = vf_set(-vf_greatest(top) * (mul * log2e));
    for (i = 0; i < whole; i += 2 * VW) {
        vf a = vf_exp2_short(vf_fma(vf_load(s + i), scale, most));
        vf b = vf_exp2_short(vf_fma(vf_load(s + i + VW), scale, most));
        sum = vf_add(sum, a);
        sum2 = vf_add(sum2, b);
        vf_store_bf16_two(p + i, a, b);
    }
    for (; i < n; i += VW) {
        vf v = vf_exp2_short(vf_fma(vf_load_n(s + i, n - i), scale, most));
        v = vf_first_n(v, n - i, 0.0f);
        sum = vf_add(sum, v);
        vf_store_bf16_n(p + i, v, padded - i);
    }
    if (i < padded)
        memset(p + i, 0, (padded - i) * sizeof(*p));
    return 1.0f / vf_sum(vf_add(sum, sum2));
}

static float rows_softmax(const float *s, size_t n, size_t padded, float mul, const float *bias,
                          void *p, enum cpu_elem elem)
{
    vf top = vf_set(-INFINITY), sum = vf_zero();

    if (!bias && elem == CPU_E_BF16)
        return softmax_short(s, n, padded, mul, p);
    for (size_t i = 0; i < n; i += VW)
        top = vf_max(top, vf_first_n(scores_load(s, i, n, mul, bias), n - i, -INFINITY));
    vf most = vf_set(vf_greatest(top));
    for (size_t i = 0; i < n; i += VW) {
        vf v = vf_exp(vf_sub(scores_load(s, i, n, mul, bias), most));
        v = vf_first_n(v, n - i, 0.0f);
        sum = vf_add(sum, v);
        if (elem == CPU_E_F32)
            vf_store_n((float *)p + i, v, padded - i);
        else
            vf_store_bf16_n((uint16_t *)p + i, v, padded - i);
    }
    size_t done = (n + VW - 1) / VW * VW;
    if (done < padded) /* the last vector stored zeros up to `done` */
        memset((char *)p + done * (elem == CPU_E_F32 ? 4 : 2), 0,
               (padded - done) * (elem == CPU_E_F32 ? 4 : 2));
    return 1.0f / vf_sum(sum);
}

static void rows_pack_keys(const void *src, size_t ld, size_t rows, size_t words,
                           size_t words_padded, size_t nr, uint32_t *dst)
{
    for (size_t j0 = 0; j0 < rows; j0 += nr, dst += words_padded * nr)
        for (size_t j = j0; j < j0 + nr; j += VW)
            for (size_t w = 0; w < words_padded; w += VW) {
                const char *from = (const char *)src + j * ld + w * 4;
                uint32_t *to = dst + w * nr + (j - j0);
                if (j + VW <= rows && w + VW <= words) {
                    transpose_block(from, ld, to, nr);
                    continue;
                }
                for (size_t b = 0; b < VW && w + b < words_padded; b++)
                    for (size_t a = 0; a < VW; a++) {
                        uint32_t v = 0;
                        if (j + a < rows && w + b < words)
                            memcpy(&v, from + a * ld + b * 4, 4);
                        to[b * nr + a] = v;
                    }
            }
}

static void rows_pack_values(const void *src, size_t ld, size_t rows, size_t rows_padded,
                             size_t cols, size_t nr, enum cpu_elem elem, void *dst)
{
    for (size_t c0 = 0; c0 < cols; c0 += nr) {
        for (size_t r = 0; r < rows_padded; r += elem == CPU_E_F32 ? 1 : 2) {
            const void *from = (const char *)src + (r < rows ? r : 0) * ld;
            const void *next = (const char *)from + ld;
            for (size_t c = c0; c < c0 + nr; c += VW) {
                size_t n = c < cols && r < rows ? cols - c : 0;
                size_t at = (c0 * rows_padded + r * nr + (c - c0) * (elem == CPU_E_F32 ? 1 : 2));
                if (elem == CPU_E_F32) {
                    vf_store((float *)dst + at, vf_load_n((const float *)from + (n ? c : 0), n));
                } else {
                    const uint16_t *a = (const uint16_t *)from + (n ? c : 0);
                    const uint16_t *b = r + 1 < rows ? (const uint16_t *)next + c : NULL;
                    interleave_bf16_n(a, n ? b : NULL, n, (uint16_t *)dst + at);
                }
            }
        }
    }
}

static void rows_embed(const void *word, enum cpu_elem elem, const float *type,
                       const float *position, size_t n, float *y)
{
    for (size_t i = 0; i < n; i += VW) {
        vf v = rows_load(word, elem, i, n);
        if (type)
            v = vf_add(v, vf_load_n(type + i, n - i));
        vf_store_n(y + i, vf_add(v, vf_load_n(position + i, n - i)), n - i);
    }
}

static float rows_narrow(const float *x, size_t n, enum cpu_elem elem, uint16_t *out)
{
    vf top = vf_zero();

    for (size_t i = 0; i < n; i += VW) {
        vf v = vf_load_n(x + i, n - i);
        top = vf_max(top, vf_max(v, vf_sub(vf_zero(), v)));
        if (elem == CPU_E_F16)
            vf_store_f16_n(out + i, v, n - i);
        else
            vf_store_bf16_n(out + i, v, n - i);
    }
    return vf_greatest(top);
}

static void rows_act(enum cpu_act act, float *x, size_t n)
{
    for (size_t i = 0; i < n; i += VW)
        vf_store_n(x + i, vf_act(act, false, vf_load_n(x + i, n - i)), n - i);
}

#define ROWS_FUNCTIONS                                                                             \
    .layernorm = rows_layernorm, .quantize = rows_quantize, .words = rows_words,                   \
    .split = rows_split, .bytes = rows_bytes, .turn = rows_turn, .softmax = rows_softmax,          \
    .pack_keys = rows_pack_keys, .pack_values = rows_pack_values, .embed = rows_embed,             \
    .narrow = rows_narrow, .act = rows_act

#endif
