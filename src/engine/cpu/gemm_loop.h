/* SPDX-License-Identifier: MIT */
/* gemm_loop: panels outside, blocks of rows inside, for the kernels without tiles.
 * To be included between SIMD_BEGIN and SIMD_END, after epilogue.h, with MR and NR set.
 *
 * Rows are split into blocks of nearly equal height (16 rows are 8 + 8, not 14 + 2): a low
 * block has too few sums to keep the multipliers busy. */
#ifndef ENGINE_CPU_GEMM_LOOP_H
#define ENGINE_CPU_GEMM_LOOP_H

INLINE void gemm_loop(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1,
                      size_t b_bytes,
                      void (*blocks_of)(const char *a, size_t lda, const void *b, size_t kn,
                                        void *c, size_t rows))
{
    _Alignas(CPU_LINE) float c[MR * NR];
    size_t count = (m1 - m0 + MR - 1) / MR;

    for (size_t p = p0; p < p1; p++) {
        const char *b = (const char *)j->b + p * NR * j->k * b_bytes;
        for (size_t i = 0; i < count; i++) {
            size_t r0 = m0 + (m1 - m0) * i / count, r1 = m0 + (m1 - m0) * (i + 1) / count;
            blocks_of((const char *)j->a + r0 * j->lda, j->lda, b, j->k, c, r1 - r0);
            epilogue(j, c, NR, r0, p * NR, 0, r1 - r0);
        }
    }
}

#endif
