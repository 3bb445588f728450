/* SPDX-License-Identifier: MIT */
/* gemm_frame: a kernel without tiles around its multiply step: the block, its heights, the
 * loop over panels and rows, the peak and the struct cpu_gemm.
 *
 * To be included between SIMD_BEGIN and SIMD_END, behind the vector vocabulary and epilogue_int.h,
 * once for each kernel of a file, with MR (rows of a block) and NR = 2 * VW (columns) set, and
 *   GEMM, TITLE, ISA         the struct that is defined, its name, the least that runs it
 *   A_ELEM, B_ELEM, KG       what A and B hold; neighbours of k that one step takes
 *   SUM, OPERAND             vf or vi: what sums are, and what is multiplied
 *   LOAD_A(p), LOAD_B(p)     KG numbers of a row at p in every lane; KG for each of VW columns
 *   STEP(sum, x, y)          sum + x * y
 * All of these but MR, NR and ISA are undefined again at the end.
 *
 * Rows are split into blocks of nearly equal height (16 rows are 8 + 8, not 14 + 2): a low
 * block has too few sums to keep the multipliers busy. */
#ifndef ENGINE_CPU_GEMM_FRAME_INT_H
#define ENGINE_CPU_GEMM_FRAME_INT_H

enum { GEMM_HEIGHTS = 14 }; /* rows that blocks() knows */

typedef float gemm_CPU_E_F32;
typedef uint16_t gemm_CPU_E_BF16;
typedef uint8_t gemm_CPU_E_U8;
typedef int8_t gemm_CPU_E_S8;
typedef int16_t gemm_CPU_E_S16;

#define GEMM_JOIN_(a, b) a##_##b
#define GEMM_JOIN(a, b)  GEMM_JOIN_(a, b)
#define GEMM_OWN(name)   GEMM_JOIN(name, GEMM)
#define GEMM_SUM(name)   GEMM_JOIN(SUM, name)
#define GEMM_A           GEMM_JOIN(gemm, A_ELEM)
#define GEMM_B           GEMM_JOIN(gemm, B_ELEM)

#define GEMM_HEIGHT(rows)                                                                          \
    case rows:                                                                                     \
        if (rows <= MR)                                                                            \
            GEMM_OWN(block)(a, lda, b, kn, c, rows);                                               \
        break

#endif

_Static_assert((int)MR <= (int)GEMM_HEIGHTS && (int)NR == 2 * (int)VW, "the frame holds a block");

/* `rows` rows of A by a panel of B, into c[rows][NR]. */
INLINE void GEMM_OWN(block)(const char *a, size_t lda, const GEMM_B *b, size_t kn, void *c,
                            int rows)
{
    SUM acc[GEMM_HEIGHTS][2];

    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = GEMM_SUM(zero)();
    for (size_t k = 0; k < kn; k += KG) {
        OPERAND b0 = LOAD_B(b + k * NR), b1 = LOAD_B(b + k * NR + KG * VW);
        UNROLL
        for (int r = 0; r < rows; r++) {
            OPERAND x = LOAD_A((const GEMM_A *)(const void *)(a + (size_t)r * lda) + k);
            acc[r][0] = STEP(acc[r][0], x, b0);
            acc[r][1] = STEP(acc[r][1], x, b1);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        GEMM_SUM(store)((void *)((float *)c + r * NR), acc[r][0]);
        GEMM_SUM(store)((void *)((float *)c + r * NR + VW), acc[r][1]);
    }
}

/* Each height as a constant, so that its sums stay in registers. */
APART void GEMM_OWN(blocks)(const char *a, size_t lda, const GEMM_B *b, size_t kn, void *c,
                            size_t rows)
{
    switch (rows) {
        GEMM_HEIGHT(1);
        GEMM_HEIGHT(2);
        GEMM_HEIGHT(3);
        GEMM_HEIGHT(4);
        GEMM_HEIGHT(5);
        GEMM_HEIGHT(6);
        GEMM_HEIGHT(7);
        GEMM_HEIGHT(8);
        GEMM_HEIGHT(9);
        GEMM_HEIGHT(10);
        GEMM_HEIGHT(11);
        GEMM_HEIGHT(12);
        GEMM_HEIGHT(13);
        GEMM_HEIGHT(14);
    }
}

/* Panels outside: one stays in L1 or L2 while the rows of A stream past it. */
static void GEMM_OWN(run)(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1)
{
    _Alignas(CPU_LINE) float c[MR * NR];
    size_t count = (m1 - m0 + MR - 1) / MR;

    for (size_t p = p0; p < p1; p++) {
        const GEMM_B *b = (const GEMM_B *)j->b + p * NR * j->k;
        for (size_t i = 0; i < count; i++) {
            size_t r0 = m0 + (m1 - m0) * i / count, r1 = m0 + (m1 - m0) * (i + 1) / count;
            GEMM_OWN(blocks)((const char *)j->a + r0 * j->lda, j->lda, b, j->k, c, r1 - r0);
            epilogue(j, c, NR, r0, p * NR, 0, r1 - r0);
        }
    }
}

/* As many sums as the highest block has.  Bytes of 0x3f are 0.75 as f32 and as bfloat16: sums
 * stay usual numbers.  y and each sum are hidden lest a part of the steps be done once for all. */
static float GEMM_OWN(peak)(size_t n)
{
    enum { SUMS = 2 * MR };
    GEMM_A a[KG];
    GEMM_B b[KG * VW];
    SUM acc[SUMS];

    memset(a, 0x3f, sizeof(a));
    memset(b, 0x3f, sizeof(b));
    OPERAND x = LOAD_A(a), y = LOAD_B(b);
    UNROLL
    for (int i = 0; i < SUMS; i++)
        acc[i] = GEMM_SUM(zero)();
    for (size_t k = 0; k < n; k++) {
        UNROLL
        for (int i = 0; i < SUMS; i++) {
            HIDE_VALUE(y);
            acc[i] = STEP(acc[i], x, y);
            HIDE_VALUE(acc[i]);
        }
    }
    UNROLL
    for (int i = 1; i < SUMS; i++)
        acc[0] = GEMM_SUM(add)(acc[0], acc[i]);
    return (float)GEMM_SUM(sum)(acc[0]);
}

const struct cpu_gemm GEMM = {
    .name = TITLE,
    .isa = ISA,
    .a = A_ELEM,
    .b = B_ELEM,
    .mr = MR,
    .nr = NR,
    .kg = KG,
    .kstep = KG,
    .run = GEMM_OWN(run),
    .peak = GEMM_OWN(peak),
    .peak_ops = 2.0 * MR * VW * KG * 2, /* a multiplication and an addition */
};

#undef GEMM
#undef TITLE
#undef A_ELEM
#undef B_ELEM
#undef OPERAND
#undef KG
#undef SUM
#undef LOAD_A
#undef LOAD_B
#undef STEP
