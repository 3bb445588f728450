/* SPDX-License-Identifier: MIT */
/* gemm_amx: products of bfloat16 and of bytes on AMX tiles.
 *
 * Eight tiles of 16 rows of 64 bytes: a block is 32 rows by 32 columns in tiles 0..3 (sums),
 * 4 and 5 (A, 16 rows each) and 6 and 7 (B, 16 columns each).  One step of k is four
 * tile products (16 x 16 x 32 of bfloat16, 64 of bytes) for four loads of 1 KiB.
 *
 *           B6    B7          A: rows `lda` bytes apart, as the other kernels read it
 *      A4   c0    c1          B: a panel's step is 16 lines of 128 bytes: 16 columns for
 *      A5   c2    c3             tile 6, 16 for tile 7
 *
 * The vector units would idle while tiles multiply and the tiles while an epilogue runs, so
 * the epilogue of the block before is spread over the steps of the next one.  Weights come
 * from far away: what follows in B is fetched in the same steps, a share of the next panel
 * where many blocks use this one, the panel itself some steps ahead where one block does.  A
 * low block (16 rows or fewer) uses the upper half alone; a tile product treats rows
 * independently, so a row has the same bits in both.
 *
 * The tests compile this file with AMX_EMULATED, which gives the five tile operations as
 * plain C, to check it on machines without tiles. */
#include "engine/cpu/cpu_int.h"
#include "engine/cpu/simd_target.h"

#define SIMD_CVT_BF16
enum { TILE = 16, MR = 32, NR = 32, LINE_B = 128, STEP_B = 16 * LINE_B, C_BYTES = NR * 4 };
enum {
    FAR_BYTES = 128 << 10, /* of B from which on it is not in a near cache already */
    GROUP_BYTES = 1 << 20, /* of panels that stay in a second cache of 2 MiB */
    ROWS_BYTES = 3 << 19,  /* of A that stay there beside a panel */
    AHEAD = 8,             /* steps of k fetched ahead by a block that is alone with its panel */
};

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t line_bytes[16];
    uint8_t rows[16];
};
_Static_assert(sizeof(struct tile_config) == 64, "the layout of LDTILECFG");

#ifndef AMX_EMULATED
#define AMX_TARGET ",amx-tile,amx-bf16,amx-int8"
#else
#define AMX_TARGET ""
#include "amx_emulated.h"
#endif

SIMD_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c" AMX_TARGET)
#include "engine/cpu/simd_avx512.h"

#include "engine/cpu/epilogue.h"

/* Tile loads read memory behind the compiler's back. */
#define MEMORY_FENCE __asm__ volatile("" ::: "memory")

/* A finished block whose epilogue is still due. */
struct due {
    const void *c; /* [MR][NR] */
    size_t m0, n0, rows, done;
};

/* What is fetched while a block multiplies: `lines` cache lines from `from`, spread over its
 * steps; or, with `ahead`, the block's own panel that many steps before it is read. */
struct fetch {
    const char *from;
    size_t lines;
    bool ahead;
};

INLINE void fetch_some(const struct fetch *f, const char *b, size_t s, size_t steps, size_t *done)
{
    if (f->ahead) {
        UNROLL
        for (size_t i = 0; i < STEP_B / CPU_LINE; i++)
            _mm_prefetch(b + (s + AHEAD) * STEP_B + i * CPU_LINE, _MM_HINT_T1);
        return;
    }
    for (size_t end = f->lines * (s + 1) / steps; *done < end; ++*done)
        _mm_prefetch(f->from + *done * CPU_LINE, _MM_HINT_T1);
}

static void config_tiles(void)
{
    struct tile_config cfg = { .palette = 1 };

    for (int i = 0; i < 8; i++) {
        cfg.line_bytes[i] = 64;
        cfg.rows[i] = TILE;
    }
    _tile_loadconfig(&cfg);
}

/* Rows of the block before, up to `end`; apart, since it stands in many places. */
APART void due_rows(const struct cpu_job *j, const struct due *d, size_t end)
{
    epilogue(j, d->c, NR, d->m0, d->n0, d->done, end);
}

/* Configuring costs as much as a small product: once for each thread and run of the network. */
static _Thread_local bool tiles_ready;

static void ready_tiles(void)
{
    MEMORY_FENCE;
    if (!tiles_ready)
        config_tiles();
    tiles_ready = true;
}

INLINE void due_some(const struct cpu_job *j, struct due *d, size_t rows)
{
    size_t end = d->done + rows < d->rows ? d->done + rows : d->rows;

    if (d->done < end)
        due_rows(j, d, end);
    d->done = end;
}

#define PRODUCT(c, a, b)                                                                           \
    do {                                                                                           \
        if (bytes)                                                                                 \
            _tile_dpbusd(c, a, b);                                                                 \
        else                                                                                       \
            _tile_dpbf16ps(c, a, b);                                                               \
    } while (0)

/* 32 rows; `each` rows of the block before are finished in every step. */
INLINE void block_high(const char *a, size_t lda, const char *b, size_t steps, bool bytes,
                       const struct cpu_job *j, struct due *d, size_t each, const struct fetch *f)
{
    const char *low = a + TILE * lda;
    size_t fetched = 0;

    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t s = 0; s < steps; s++) {
        fetch_some(f, b, s, steps, &fetched);
        _tile_loadd(4, a + s * 64, lda);
        _tile_loadd(6, b + s * STEP_B, LINE_B);
        _tile_loadd(7, b + s * STEP_B + 64, LINE_B);
        _tile_loadd(5, low + s * 64, lda);
        PRODUCT(0, 4, 6);
        PRODUCT(1, 4, 7);
        PRODUCT(2, 5, 6);
        PRODUCT(3, 5, 7);
        due_some(j, d, each);
    }
}

INLINE void block_low(const char *a, size_t lda, const char *b, size_t steps, bool bytes,
                      const struct cpu_job *j, struct due *d, size_t each, const struct fetch *f)
{
    size_t fetched = 0;

    _tile_zero(0);
    _tile_zero(1);
    for (size_t s = 0; s < steps; s++) {
        fetch_some(f, b, s, steps, &fetched);
        _tile_loadd(4, a + s * 64, lda);
        _tile_loadd(6, b + s * STEP_B, LINE_B);
        _tile_loadd(7, b + s * STEP_B + 64, LINE_B);
        PRODUCT(0, 4, 6);
        PRODUCT(1, 4, 7);
        due_some(j, d, each);
    }
}

/* One block into `c`, rows `ldc` bytes apart. */
INLINE void block(const struct cpu_job *j, size_t m0, size_t rows, const char *b, bool bytes,
                  struct due *d, char *c, size_t ldc, const struct fetch *f)
{
    const char *a = (const char *)j->a + m0 * j->lda;
    size_t steps = j->k / (bytes ? 64 : 32), each = (MR + steps - 1) / steps;

    if (rows > TILE)
        block_high(a, j->lda, b, steps, bytes, j, d, each, f);
    else
        block_low(a, j->lda, b, steps, bytes, j, d, each, f);
    due_some(j, d, MR);
    _tile_stored(0, c, ldc);
    _tile_stored(1, c + 64, ldc);
    if (rows > TILE) {
        _tile_stored(2, c + TILE * ldc, ldc);
        _tile_stored(3, c + TILE * ldc + 64, ldc);
    }
}

/* The order of blocks.  A panel is kept and the rows pass by it, as long as the rows stay in
 * the second cache; while they pass, the next panel is fetched.  Wider rows are kept 32 at a
 * time and as many panels as fit pass by them; so are the rows of a small product with a
 * residual, whose other operands then move along their rows. */
struct order {
    size_t groups, m_step; /* panels are divided into groups; rows are taken m_step at a time */
};

static struct order order_of(const struct cpu_job *j, size_t m, size_t panels, size_t panel_bytes)
{
    size_t fit = GROUP_BYTES / panel_bytes, rows_bytes = m * panel_bytes / NR;

    if (m <= MR || (rows_bytes <= ROWS_BYTES && !(j->add && panels <= fit)))
        return (struct order){ panels, m };
    return (struct order){ fit ? (panels + fit - 1) / fit : panels, MR };
}

/* While the rows from m on of `count` are multiplied by the panel at b. */
INLINE struct fetch fetch_for(const char *b, size_t panel_bytes, size_t m, size_t count, bool far)
{
    size_t blocks = (count + MR - 1) / MR, lines = (panel_bytes / CPU_LINE + blocks - 1) / blocks;

    if (!far)
        return (struct fetch){ 0 };
    if (count <= MR)
        return (struct fetch){ .ahead = true };
    return (struct fetch){ .from = b + panel_bytes + m / MR * lines * CPU_LINE, .lines = lines };
}

/* `whole`: the bare product goes straight to memory that has room for whole blocks. */
INLINE void run(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1, bool bytes,
                bool whole)
{
    _Alignas(CPU_LINE) float c[2][MR * NR];
    struct due due = { .rows = 0 };
    size_t turn = 0, panel_bytes = NR * j->k * (bytes ? 1 : 2);
    struct order o = order_of(j, m1 - m0, p1 - p0, panel_bytes);
    bool far = (p1 - p0) * panel_bytes >= FAR_BYTES;

    for (size_t g = 0; g < o.groups; g++) {
        size_t first = p0 + (p1 - p0) * g / o.groups, end = p0 + (p1 - p0) * (g + 1) / o.groups;
        for (size_t row = m0; row < m1; row += o.m_step)
            for (size_t p = first; p < end; p++)
                for (size_t m = row; m < m1 && m < row + o.m_step; m += MR, turn ^= 1) {
                    size_t rows = m1 - m < MR ? m1 - m : MR;
                    const char *b = (const char *)j->b + p * panel_bytes;
                    struct fetch f = { 0 };
                    if (o.m_step >= m1 - m0)
                        f = fetch_for(b, panel_bytes, m - m0, m1 - m0, far);
                    if (whole) {
                        block(j, m, rows, b, bytes, &due,
                              (char *)((float *)j->out + m * j->ldo + p * NR), j->ldo * 4, &f);
                        continue;
                    }
                    block(j, m, rows, b, bytes, &due, (char *)c[turn], C_BYTES, &f);
                    due = (struct due){ .c = c[turn], .m0 = m, .n0 = p * NR, .rows = rows };
                }
    }
    due_some(j, &due, MR);
}

static void run_bf16(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1)
{
    ready_tiles();
    if (j->whole)
        run(j, m0, m1, p0, p1, false, true);
    else
        run(j, m0, m1, p0, p1, false, false);
    MEMORY_FENCE;
}

static void run_i8(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1)
{
    ready_tiles();
    run(j, m0, m1, p0, p1, true, false);
    MEMORY_FENCE;
}

/* Numbers that are not zero: a product of zeros is faster than any other. */
static void peak_fill(uint16_t *tiles, uint16_t first)
{
    for (size_t i = 0; i < 4 * 512; i++)
        tiles[i] = (uint16_t)(first + i * 37 % 101);
    ready_tiles();
    _tile_loadd(4, tiles, 64);
    _tile_loadd(5, tiles + 512, 64);
    _tile_loadd(6, tiles + 1024, 64);
    _tile_loadd(7, tiles + 1536, 64);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

INLINE float peak(size_t n, bool bytes)
{
    _Alignas(CPU_LINE) uint16_t tiles[4 * 512];

    peak_fill(tiles, bytes ? 0x0102 : 0x3c00);
    for (size_t k = 0; k < n; k++) {
        PRODUCT(0, 4, 6);
        PRODUCT(1, 4, 7);
        PRODUCT(2, 5, 6);
        PRODUCT(3, 5, 7);
    }
    _tile_stored(0, tiles, 64);
    return (float)tiles[0];
}

static float peak_bf16(size_t n)
{
    return peak(n, false);
}

static float peak_i8(size_t n)
{
    return peak(n, true);
}

static void release_tiles(void)
{
    if (tiles_ready)
        _tile_release();
    tiles_ready = false;
}
SIMD_END

const struct cpu_gemm cpu_amx_bf16 = {
    .name = "amx bf16",
    .isa = CPU_AMX,
    .a = CPU_E_BF16,
    .b = CPU_E_BF16,
    .mr = MR,
    .nr = NR,
    .kg = 2,
    .kstep = 32,
    .run = run_bf16,
    .bare = true,
    .rest = release_tiles,
    .peak = peak_bf16,
    .peak_ops = 4.0 * 16 * 16 * 32 * 2,
};
const struct cpu_gemm cpu_amx_i8 = {
    .name = "amx int8",
    .isa = CPU_AMX,
    .a = CPU_E_U8,
    .b = CPU_E_S8,
    .mr = MR,
    .nr = NR,
    .kg = 4,
    .kstep = 64,
    .run = run_i8,
    .rest = release_tiles,
    .peak = peak_i8,
    .peak_ops = 4.0 * 16 * 16 * 64 * 2,
};
