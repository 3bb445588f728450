/* SPDX-License-Identifier: MIT */
/* gemm_amx: products of bfloat16, of bytes and of split words on AMX tiles.
 *
 * Eight tiles of 16 rows of 64 bytes: a block is 32 rows by 32 columns in tiles 0..3 (sums),
 * 4 and 5 (A, 16 rows each) and 6 and 7 (B, 16 columns each).  One step of k is four
 * tile products (16 x 16 x 32 of bfloat16, 64 of bytes) for four loads of 1 KiB.
 *
 *           B6    B7          A: rows `lda` bytes apart, as the other kernels read it
 *      A4   c0    c1          B: a panel's step is 16 lines of 128 bytes: 16 columns for
 *      A5   c2    c3             tile 6, 16 for tile 7
 *
 * The four loads of a step leave the products no time to wait for the second cache twice, so
 * the order is all: a panel, or as much of its k as fits, stays in the first cache and the
 * rows of A pass by it from the second.  They are loaded as a stream: a plain load would put
 * them where the panel is, and the panel would be gone before the next rows come (with it:
 * 0.69 of what the tiles can do, without: 0.49).  A panel with more k than that is multiplied
 * by slices, and the sums of its blocks wait in memory between them; a tile's sums are added
 * in the order of k either way, so the bits are the same.
 *
 * The vector units would idle while tiles multiply and the tiles while an epilogue runs, so
 * the epilogue of the block before is spread over the steps of the next one.  Weights come
 * from far away: what follows in B is fetched in the same steps, a share of the next panel
 * where many blocks use this one, the panel itself some steps ahead where one block does.  A
 * low block (16 rows or fewer) uses only the upper half; a tile product treats rows
 * independently, so a row has the same bits in both.
 *
 * A split word is 256 u + l with signed bytes u and l.  A block is then 16 rows: tiles 0 and 1
 * sum u u', 2 and 3 sum u l' + l u', and l l' is left out: in a row whose root mean square is
 * a tenth of its greatest number that is 1e-5 of the product of both rows' norms, where
 * bfloat16 loses 8e-5 (calculated for 384 numbers).  Three products of bytes take the time of
 * one and a half of bfloat16.
 *
 * The tests compile this file with AMX_EMULATED, which gives the tile operations as plain C,
 * to check it on machines without tiles. */
#include "engine/cpu/cpu_int.h"
#include "engine/cpu/simd_target_int.h"

#define SIMD_CVT_BF16
enum { TILE = 16, MR = 32, NR = 32, LINE_B = 128, TILES_B = 16 * LINE_B, C_BYTES = NR * 4 };
enum amx_kind { HALVES, BYTES, SPLIT };
enum {
    FAR_BYTES = 128 << 10,  /* of B from which on it is not in a near cache already */
    NEAR_BYTES = 16 << 10,  /* of A that stay in the first cache beside a panel */
    SLICE_BYTES = 32 << 10, /* of a panel that stay there: of 48 KiB */
    BLOCKS_MAX = 16,        /* that pass by a panel: their sums wait in 64 KiB */
    ROWS_BYTES = 1 << 20,   /* of A that stay in a second cache of 2 MiB */
    AHEAD = 8,              /* steps of k fetched ahead by a block that is alone with its panel */
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
#include "engine/cpu/simd_avx512_int.h"

#include "engine/cpu/epilogue_int.h"

/* Tile loads read memory behind the compiler's back. */
#define MEMORY_FENCE __asm__ volatile("" ::: "memory")

/* A finished block whose epilogue is still due. */
struct due {
    float *c; /* [MR][NR], of any 32 bits */
    size_t m0, n0, rows, done;
};

/* Rows of a block, and the bytes of a step of k in a panel and in a row. */
INLINE size_t mr_of(enum amx_kind kind)
{
    return kind == SPLIT ? TILE : MR;
}

INLINE size_t step_bytes(enum amx_kind kind)
{
    return kind == SPLIT ? 2 * TILES_B : TILES_B;
}

INLINE size_t step_k(enum amx_kind kind)
{
    return kind == HALVES ? 32 : 64;
}

/* What is fetched while a block multiplies: `lines` cache lines from `from`, spread over its
 * steps; or, with `ahead`, the block's own panel that many steps before it is read. */
struct fetch {
    const char *from;
    size_t lines;
    bool ahead;
};

INLINE void fetch_some(const struct fetch *f, const char *b, size_t step, size_t s, size_t steps,
                       size_t *done)
{
    if (f->ahead) {
        UNROLL
        for (size_t i = 0; i < step / CPU_LINE; i++)
            _mm_prefetch(b + (s + AHEAD) * step + i * CPU_LINE, _MM_HINT_T1);
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

/* Of split words: the two sums become one number, and the rest is that of any number. */
APART void due_split(const struct cpu_job *j, struct due *d, size_t end)
{
    struct cpu_job plain = *j;

    plain.scale = NULL;
    for (size_t r = d->done; r < end; r++)
        for (size_t i = 0; i < NR; i += VW) {
            float *c = d->c + r * NR + i;
            vf upper = vi_load_float((const int32_t *)(const void *)c);
            vf both = vi_load_float((const int32_t *)(const void *)(c + TILE * NR));
            both = vf_fma(upper, vf_set(256.0f), both);
            both = vf_mul(both, vf_set(256.0f * j->scale[d->m0 + r]));
            vf_store(c, vf_mul(both, vf_load(j->col_scale + d->n0 + i)));
        }
    epilogue(&plain, d->c, NR, d->m0, d->n0, d->done, end);
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

/* Up to `end` of its rows, or to the last. */
INLINE void due_until(const struct cpu_job *j, struct due *d, size_t end, enum amx_kind kind)
{
    end = end < d->rows ? end : d->rows;
    if (d->done >= end)
        return;
    if (kind == SPLIT)
        due_split(j, d, end);
    else
        due_rows(j, d, end);
    d->done = end;
}

#define PRODUCT(c, a, b)                                                                           \
    do {                                                                                           \
        if (kind == BYTES)                                                                         \
            _tile_dpbusd(c, a, b);                                                                 \
        else if (kind == SPLIT)                                                                    \
            _tile_dpbssd(c, a, b);                                                                 \
        else                                                                                       \
            _tile_dpbf16ps(c, a, b);                                                               \
    } while (0)

#define LOAD_A(t, from, ld)                                                                        \
    do {                                                                                           \
        if (stream)                                                                                \
            _tile_stream_loadd(t, from, ld);                                                       \
        else                                                                                       \
            _tile_loadd(t, from, ld);                                                              \
    } while (0)

/* Steps of k of a block: its A and B, and what else is done meanwhile. */
struct steps {
    const char *a, *b;
    size_t lda, apart; /* apart: from upper bytes of a row to lower ones */
    size_t count;
    struct fetch fetch;
};

/* Rows of the block before that are due by the end of step s: by twos, spread evenly. */
INLINE size_t due_by(size_t s, size_t steps, enum amx_kind kind)
{
    return (uint32_t)(mr_of(kind) / 2 * (s + 1)) / (uint32_t)steps * 2;
}

INLINE void steps_high(const struct steps *k, const struct cpu_job *j, struct due *d,
                       enum amx_kind kind, bool stream)
{
    const char *low = k->a + TILE * k->lda;
    size_t fetched = 0;

    for (size_t s = 0; s < k->count; s++) {
        fetch_some(&k->fetch, k->b, TILES_B, s, k->count, &fetched);
        LOAD_A(4, k->a + s * 64, k->lda);
        _tile_loadd(6, k->b + s * TILES_B, LINE_B);
        _tile_loadd(7, k->b + s * TILES_B + 64, LINE_B);
        LOAD_A(5, low + s * 64, k->lda);
        PRODUCT(0, 4, 6);
        PRODUCT(1, 4, 7);
        PRODUCT(2, 5, 6);
        PRODUCT(3, 5, 7);
        due_until(j, d, due_by(s, k->count, kind), kind);
    }
}

INLINE void steps_low(const struct steps *k, const struct cpu_job *j, struct due *d,
                      enum amx_kind kind, bool stream)
{
    size_t fetched = 0;

    for (size_t s = 0; s < k->count; s++) {
        fetch_some(&k->fetch, k->b, TILES_B, s, k->count, &fetched);
        LOAD_A(4, k->a + s * 64, k->lda);
        _tile_loadd(6, k->b + s * TILES_B, LINE_B);
        _tile_loadd(7, k->b + s * TILES_B + 64, LINE_B);
        PRODUCT(0, 4, 6);
        PRODUCT(1, 4, 7);
        due_until(j, d, due_by(s, k->count, kind), kind);
    }
}

INLINE void steps_split(const struct steps *k, const struct cpu_job *j, struct due *d, bool stream)
{
    enum amx_kind kind = SPLIT;
    size_t fetched = 0;

    for (size_t s = 0; s < k->count; s++) {
        const char *b = k->b + s * 2 * TILES_B;
        fetch_some(&k->fetch, k->b, 2 * TILES_B, s, k->count, &fetched);
        LOAD_A(5, k->a + k->apart + s * 64, k->lda);
        _tile_loadd(6, b, LINE_B);
        _tile_loadd(7, b + 64, LINE_B);
        LOAD_A(4, k->a + s * 64, k->lda);
        PRODUCT(2, 5, 6);
        PRODUCT(3, 5, 7);
        PRODUCT(0, 4, 6);
        PRODUCT(1, 4, 7);
        _tile_loadd(6, b + TILES_B, LINE_B);
        _tile_loadd(7, b + TILES_B + 64, LINE_B);
        PRODUCT(2, 4, 6);
        PRODUCT(3, 4, 7);
        due_until(j, d, due_by(s, k->count, kind), kind);
    }
}

/* Sums of a block in memory. */
struct amx_sums {
    char *at;
    size_t ld; /* bytes from a row to the next */
};

INLINE void sums_load(const struct amx_sums *c, bool high)
{
    _tile_loadd(0, c->at, c->ld);
    _tile_loadd(1, c->at + 64, c->ld);
    if (high) {
        _tile_loadd(2, c->at + TILE * c->ld, c->ld);
        _tile_loadd(3, c->at + TILE * c->ld + 64, c->ld);
    }
}

INLINE void sums_store(const struct amx_sums *c, bool high)
{
    _tile_stored(0, c->at, c->ld);
    _tile_stored(1, c->at + 64, c->ld);
    if (high) {
        _tile_stored(2, c->at + TILE * c->ld, c->ld);
        _tile_stored(3, c->at + TILE * c->ld + 64, c->ld);
    }
}

/* A block, or a slice of one: sums of the slices before are at `from` (NULL: there are none).
 * A low block has only tiles 0 and 1. */
INLINE void block(const struct cpu_job *j, const struct steps *k, struct due *d, bool low,
                  enum amx_kind kind, bool stream, const struct amx_sums *from,
                  const struct amx_sums *to)
{
    if (from) {
        sums_load(from, !low);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    if (kind == SPLIT)
        steps_split(k, j, d, stream);
    else if (low)
        steps_low(k, j, d, kind, stream);
    else
        steps_high(k, j, d, kind, stream);
    due_until(j, d, MR, kind);
    sums_store(to, !low);
}

/* How a product is cut.  Rows whose A fits into the second cache pass by all panels; where a
 * bare product has too many of them for their k, its k is cut first and sums wait in the
 * result itself. */
struct amx_plan {
    size_t rows;         /* at a time */
    size_t outer, inner; /* steps of k at a time: of all panels, of a panel */
    bool stream, far;
};

static struct amx_plan plan_of(size_t m, size_t panels, size_t steps, enum amx_kind kind,
                               bool whole)
{
    size_t mr = mr_of(kind), row_bytes = steps * (kind == SPLIT ? 128 : 64);
    size_t slice = SLICE_BYTES / step_bytes(kind), fit = ROWS_BYTES / row_bytes / mr * mr;
    struct amx_plan p = { .rows = m < BLOCKS_MAX * mr ? m : BLOCKS_MAX * mr, .outer = steps };
    size_t bytes = p.rows * row_bytes, slices;

    if (bytes > ROWS_BYTES && whole)
        p.outer = slice;
    else if (bytes > ROWS_BYTES)
        p.rows = fit > mr ? fit : mr;
    slices = p.rows <= mr ? 1 : (p.outer + slice - 1) / slice;
    p.inner = (p.outer + slices - 1) / slices;
    p.stream = p.rows > mr && bytes > NEAR_BYTES;
    p.far = panels * steps * step_bytes(kind) >= FAR_BYTES;
    return p;
}

/* A walk through the blocks of a product. */
struct amx_walk {
    const struct cpu_job *j;
    struct amx_plan plan;
    size_t steps;    /* of k in all */
    size_t row, end; /* rows that pass by */
    struct due due;  /* of the block before */
    size_t turn;     /* which of `c` is next */
    float (*c)[MR * NR];
    float (*wait)[MR * NR]; /* sums between slices, a block each */
};

/* What is fetched while block `turn` of `turns` is multiplied by a part of `steps` steps. */
INLINE struct fetch fetch_for(const struct amx_walk *w, const char *b, size_t steps, size_t turn,
                              size_t turns, enum amx_kind kind)
{
    size_t lines = (steps * (step_bytes(kind) / CPU_LINE) + turns - 1) / turns;

    if (!w->plan.far)
        return (struct fetch){ 0 };
    if (w->end - w->row <= mr_of(kind))
        return (struct fetch){ .ahead = true };
    return (struct fetch){ .from = b + w->steps * step_bytes(kind) + turn * lines * CPU_LINE,
                           .lines = lines };
}

/* The rows pass by steps [first, end) of panel p; of [k0, k1), which is multiplied in one go. */
INLINE void pass(struct amx_walk *w, size_t p, size_t k0, size_t k1, size_t first, size_t end,
                 enum amx_kind kind, bool whole, bool stream)
{
    const struct cpu_job *j = w->j;
    size_t mr = mr_of(kind), step = step_bytes(kind), blocks = (w->end - w->row + mr - 1) / mr;
    size_t turns = blocks * ((k1 - k0 + w->plan.inner - 1) / w->plan.inner);
    size_t turn = (first - k0) / w->plan.inner * blocks;
    const char *panel = (const char *)j->b + p * w->steps * step;

    for (size_t m = w->row, i = 0; m < w->end; m += mr, i++) {
        size_t rows = w->end - m < mr ? w->end - m : mr;
        struct amx_sums out = { (char *)((float *)j->out + m * j->ldo + p * NR), j->ldo * 4 };
        struct amx_sums wait = { (char *)w->wait[i], C_BYTES },
                        c = { (char *)w->c[w->turn], C_BYTES };
        const struct amx_sums *from = first > k0 ? &wait : first ? &out : NULL;
        const struct amx_sums *to = end < k1 ? &wait : whole ? &out : &c;
        struct steps k = { .a = (const char *)j->a + m * j->lda + first * 64,
                           .b = panel + first * step,
                           .lda = j->lda,
                           .apart = j->k,
                           .count = end - first,
                           .fetch =
                               fetch_for(w, panel + k0 * step, k1 - k0, turn + i, turns, kind) };
        block(j, &k, &w->due, kind != SPLIT && rows <= TILE, kind, stream, from, to);
        if (to != &c)
            continue;
        w->due = (struct due){ .c = w->c[w->turn], .m0 = m, .n0 = p * NR, .rows = rows };
        w->turn ^= 1;
    }
}

/* `whole`: the bare product goes straight to memory that has room for whole blocks. */
INLINE void run(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1,
                enum amx_kind kind, bool whole, bool stream, const struct amx_plan *plan)
{
    _Alignas(CPU_LINE) float c[2][MR * NR], wait[BLOCKS_MAX][MR * NR];
    struct amx_walk w = {
        .j = j, .plan = *plan, .steps = j->k / step_k(kind), .c = c, .wait = wait
    };

    for (w.row = m0; w.row < m1; w.row = w.end) {
        w.end = m1 - w.row < plan->rows ? m1 : w.row + plan->rows;
        for (size_t k0 = 0; k0 < w.steps; k0 += plan->outer) {
            size_t k1 = w.steps - k0 < plan->outer ? w.steps : k0 + plan->outer;
            for (size_t p = p0; p < p1; p++)
                for (size_t k = k0; k < k1; k += plan->inner)
                    pass(&w, p, k0, k1, k, k1 - k < plan->inner ? k1 : k + plan->inner, kind, whole,
                         stream);
        }
    }
    due_until(j, &w.due, MR, kind);
}

/* With what is the same for all blocks as constants. */
INLINE void run_kind(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1,
                     enum amx_kind kind, bool whole)
{
    struct amx_plan p = plan_of(m1 - m0, p1 - p0, j->k / step_k(kind), kind, whole);

    ready_tiles();
    if (p.stream)
        run(j, m0, m1, p0, p1, kind, whole, true, &p);
    else
        run(j, m0, m1, p0, p1, kind, whole, false, &p);
    MEMORY_FENCE;
}

static void run_bf16(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1)
{
    if (j->whole)
        run_kind(j, m0, m1, p0, p1, HALVES, true);
    else
        run_kind(j, m0, m1, p0, p1, HALVES, false);
}

static void run_i8(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1)
{
    run_kind(j, m0, m1, p0, p1, BYTES, false);
}

static void run_split(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1)
{
    run_kind(j, m0, m1, p0, p1, SPLIT, false);
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

INLINE float peak(size_t n, enum amx_kind kind)
{
    _Alignas(CPU_LINE) uint16_t tiles[4 * 512];

    peak_fill(tiles, kind == HALVES ? 0x3c00 : 0x0102);
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
    return peak(n, HALVES);
}

static float peak_i8(size_t n)
{
    return peak(n, BYTES);
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
const struct cpu_gemm cpu_amx_split = {
    .name = "amx split int16",
    .isa = CPU_AMX,
    .a = CPU_E_SPLIT,
    .b = CPU_E_SPLIT,
    .mr = TILE,
    .nr = NR,
    .kg = 4,
    .kstep = 64,
    .run = run_split,
    .rest = release_tiles,
    .peak = peak_i8,
    .peak_ops = 4.0 * 16 * 16 * 64 * 2 / 3, /* three products of bytes make one */
};
