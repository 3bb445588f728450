/* SPDX-License-Identifier: MIT */
/* gemm_switch: block() with each height as a constant, so that its sums stay in registers.
 * To be included where block() and MR = 14 are. */
#ifndef ENGINE_CPU_GEMM_SWITCH_H
#define ENGINE_CPU_GEMM_SWITCH_H

#define BLOCK(rows)                                                                                \
    case rows:                                                                                     \
        block(a, lda, b, kn, c, rows);                                                             \
        break

APART void blocks(const char *a, size_t lda, const void *b, size_t kn, void *c, size_t rows)
{
    switch (rows) {
        BLOCK(1);
        BLOCK(2);
        BLOCK(3);
        BLOCK(4);
        BLOCK(5);
        BLOCK(6);
        BLOCK(7);
        BLOCK(8);
        BLOCK(9);
        BLOCK(10);
        BLOCK(11);
        BLOCK(12);
        BLOCK(13);
        BLOCK(14);
    }
}

#endif
