/* SPDX-License-Identifier: MIT */
/* history_code: a column of numbers as few bits.
 *
 * Telemetry is decimal: temperatures are whole, powers have three digits behind the point,
 * counters are whole.  So a column is first made whole numbers by the smallest power of ten that
 * loses nothing, then differences (or differences of these, for counters), divided by what
 * divides them all (memory moves in pages), and these are written with Rice codes whose parameter
 * is chosen for each RICE_PART of them: a quiet minute costs a bit a value whatever came before.
 * A column that no power of ten makes whole is written as the XOR with the value before.
 *
 *   u8 mode | flags   [presence, a bit a value]   then by mode
 *   CONST   i8 exponent, zigzag base
 *   DELTA   i8 exponent, zigzag base, [varint divisor], bits
 *   DOD     i8 exponent, zigzag base, [varint divisor], zigzag first difference, bits
 *   XOR     8 bytes base, bits */
#include "base/mem.h"
#include "history/history_int.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { MODE_CONST, MODE_DELTA, MODE_DOD, MODE_XOR, MODE_EMPTY, MODE_MASK = 7 };
enum { FLAG_GAPS = 8, FLAG_DIVISOR = 16, FLAGS_ALL = MODE_MASK | FLAG_GAPS | FLAG_DIVISOR };
enum {
    DECIMALS_MAX = 12, /* digits behind the point that are looked for */
    RICE_PART = 32,    /* values that share a parameter */
    RICE_K_MAX = 32,
    RICE_ESCAPE = 16, /* so many ones: a width and the number itself follow */
    VARINT_BYTES_MAX = 10,
    COLUMN_MAX = 8192 /* values of a column */
};
#define WHOLE_MAX 9007199254740992.0 /* 2^53: whole numbers up to it are exact */

static const double tens[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                               1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                               1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
enum { TENS_MAX = 22 };

static uint64_t zigzag_put(int64_t v)
{
    return ((uint64_t)v << 1) ^ (v < 0 ? UINT64_MAX : 0);
}

static int64_t zigzag_get(uint64_t u)
{
    return (int64_t)(u >> 1) ^ -(int64_t)(u & 1);
}

static unsigned bit_width(uint64_t u) /* bits, 0 for 0 */
{
    return u ? 64 - (unsigned)__builtin_clzll(u) : 0;
}

/* ---- writing */
struct bits_out {
    struct buf *out;
    uint64_t acc;
    unsigned n;
};

static void bits_put(struct bits_out *b, uint64_t v, unsigned n) /* n <= 32 */
{
    b->acc |= v << b->n;
    b->n += n;
    while (b->n >= 8) {
        buf_addc(b->out, (char)(b->acc & 255));
        b->acc >>= 8;
        b->n -= 8;
    }
}

static void bits_put_long(struct bits_out *b, uint64_t v, unsigned n) /* n <= 64 */
{
    if (n > 32) {
        bits_put(b, v & UINT32_MAX, 32);
        v >>= 32;
        n -= 32;
    }
    bits_put(b, v, n);
}

static void bits_end(struct bits_out *b)
{
    if (b->n)
        buf_addc(b->out, (char)(b->acc & 255));
    b->acc = 0;
    b->n = 0;
}

static void put_varint(struct buf *out, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        buf_addc(out, (char)(v | 128));
    buf_addc(out, (char)v);
}

static unsigned rice_cost(uint64_t u, unsigned k)
{
    uint64_t q = u >> k;

    return q < RICE_ESCAPE ? (unsigned)q + 1 + k : RICE_ESCAPE + 6 + bit_width(u);
}

static unsigned rice_best(const uint64_t *u, size_t n, size_t *cost)
{
    uint64_t all = 0;
    unsigned best = 0, top;

    *cost = SIZE_MAX;
    for (size_t i = 0; i < n; i++)
        all |= u[i];
    top = bit_width(all) < RICE_K_MAX ? bit_width(all) : RICE_K_MAX;
    for (unsigned k = 0; k <= top; k++) {
        size_t c = 0;

        for (size_t i = 0; i < n && c < *cost; i++)
            c += rice_cost(u[i], k);
        if (c < *cost) {
            *cost = c;
            best = k;
        }
    }
    return best;
}

static void rice_put(struct bits_out *b, uint64_t u, unsigned k)
{
    uint64_t q = u >> k;

    if (q < RICE_ESCAPE) {
        bits_put(b, (UINT64_C(1) << q) - 1, (unsigned)q + 1);
        bits_put(b, u & ((UINT64_C(1) << k) - 1), k);
        return;
    }
    bits_put(b, (UINT64_C(1) << RICE_ESCAPE) - 1, RICE_ESCAPE);
    bits_put(b, bit_width(u) - 1, 6);
    bits_put_long(b, u, bit_width(u));
}

static void rice_put_all(struct buf *out, const uint64_t *u, size_t n)
{
    struct bits_out b = { .out = out };

    for (size_t i = 0; i < n; i += RICE_PART) {
        size_t part = n - i < RICE_PART ? n - i : RICE_PART, cost;
        unsigned k = rice_best(u + i, part, &cost);

        bits_put(&b, k, 6);
        for (size_t j = 0; j < part; j++)
            rice_put(&b, u[i + j], k);
    }
    bits_end(&b);
}

static uint64_t common_divisor(const int64_t *d, size_t n) /* of all; 0 when all are 0 */
{
    uint64_t g = 0;

    for (size_t i = 0; i < n && g != 1; i++) {
        uint64_t a = d[i] < 0 ? 0 - (uint64_t)d[i] : (uint64_t)d[i];

        while (a) {
            uint64_t rest = g % a;

            g = a;
            a = rest;
        }
    }
    return g;
}

/* d[i] = v[i + 1] - v[i], wrapping. */
static void put_differences(const int64_t *v, size_t n, int64_t *d)
{
    for (size_t i = 0; i + 1 < n; i++)
        d[i] = (int64_t)((uint64_t)v[i + 1] - (uint64_t)v[i]);
}

static size_t bits_of(const int64_t *d, size_t n)
{
    size_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += bit_width(zigzag_put(d[i])) + 1;
    return sum;
}

/* n >= 1 values that are v[i] / 10^exponent. */
static void put_whole(struct buf *out, unsigned flags, const struct buf *gaps, int exponent,
                      const int64_t *v, size_t n)
{
    int64_t *d = xcalloc(2 * n, sizeof(*d)), *dd = d + n;
    uint64_t *u = xcalloc(n, sizeof(*u)), g;
    size_t count = n - 1;
    unsigned mode = MODE_DELTA;
    const int64_t *use = d;

    put_differences(v, n, d);
    g = common_divisor(d, count);
    if (!g)
        mode = MODE_CONST;
    for (size_t i = 0; g > 1 && i < count; i++)
        d[i] = d[i] / (int64_t)g;
    if (count > 1) {
        put_differences(d, count, dd);
        if (mode == MODE_DELTA && bits_of(dd, count - 1) + 8 < bits_of(d + 1, count - 1))
            mode = MODE_DOD;
    }
    buf_addc(out, (char)(mode | flags | (g > 1 ? FLAG_DIVISOR : 0)));
    buf_add(out, buf_str(gaps), gaps->len);
    buf_addc(out, (char)exponent);
    put_varint(out, zigzag_put(v[0]));
    if (g > 1)
        put_varint(out, g);
    if (mode == MODE_DOD) {
        put_varint(out, zigzag_put(d[0]));
        use = dd;
        count--;
    }
    if (mode != MODE_CONST) {
        for (size_t i = 0; i < count; i++)
            u[i] = zigzag_put(use[i]);
        rice_put_all(out, u, count);
    }
    free(d);
    free(u);
}

/* Leading zeros, width and bits of each XOR; the window of the one before is used again where
 * that is shorter. */
static void put_xor(struct buf *out, unsigned flags, const struct buf *gaps, const double *v,
                    size_t n)
{
    struct bits_out b = { .out = out };
    unsigned lead = 64, trail = 64; /* no window yet */
    uint64_t prev, now;

    buf_addc(out, (char)(MODE_XOR | flags));
    buf_add(out, buf_str(gaps), gaps->len);
    memcpy(&prev, &v[0], sizeof(prev));
    buf_add(out, &prev, sizeof(prev));
    for (size_t i = 1; i < n; i++, prev = now) {
        uint64_t x;
        unsigned l, t;

        memcpy(&now, &v[i], sizeof(now));
        x = now ^ prev;
        bits_put(&b, x != 0, 1);
        if (!x)
            continue;
        l = (unsigned)__builtin_clzll(x);
        t = (unsigned)__builtin_ctzll(x);
        if (lead + trail < 64 && l >= lead && t >= trail && l + t < lead + trail + 12) {
            bits_put(&b, 0, 1);
        } else {
            lead = l;
            trail = t;
            bits_put(&b, 1, 1);
            bits_put(&b, lead, 6);
            bits_put(&b, 63 - lead - trail, 6);
        }
        bits_put_long(&b, x >> trail, 64 - lead - trail);
    }
    bits_end(&b);
}

/* Whole numbers times a power of ten that give exactly these; false: there are none. */
static bool make_whole(const double *v, size_t n, int64_t *out, int *exponent)
{
    int e = 0;

    for (size_t i = 0; i < n; i++) {
        for (;; e++) {
            double r = v[i] * tens[e];

            if (!(fabs(r) < WHOLE_MAX))
                return false;
            out[i] = (int64_t)(r < 0 ? r - 0.5 : r + 0.5);
            if ((double)out[i] / tens[e] == v[i])
                break;
            if (e == DECIMALS_MAX)
                return false;
        }
    }
    for (size_t i = 0; e && i < n; i++) { /* those before e rose */
        double r = v[i] * tens[e];

        if (!(fabs(r) < WHOLE_MAX))
            return false;
        out[i] = (int64_t)(r < 0 ? r - 0.5 : r + 0.5);
        if ((double)out[i] / tens[e] != v[i])
            return false;
    }
    *exponent = e;
    return true;
}

void history_code_put(struct buf *out, const double *v, size_t n)
{
    double *known = xcalloc(n, sizeof(*known));
    int64_t *whole = xcalloc(n, sizeof(*whole));
    struct buf gaps = { 0 };
    size_t count = 0;
    unsigned flags;
    int exponent;

    assert(n <= COLUMN_MAX);
    for (size_t i = 0; i < n; i += 8) {
        unsigned byte = 0;

        for (size_t j = i; j < n && j < i + 8; j++) {
            if (isnan(v[j]))
                continue;
            byte |= 1u << (j - i);
            known[count++] = v[j];
        }
        buf_addc(&gaps, (char)byte);
    }
    if (count == n)
        buf_reset(&gaps);
    flags = count < n ? FLAG_GAPS : 0;
    if (!count)
        buf_addc(out, MODE_EMPTY);
    else if (make_whole(known, count, whole, &exponent))
        put_whole(out, flags, &gaps, exponent, whole, count);
    else
        put_xor(out, flags, &gaps, known, count);
    buf_release(&gaps);
    free(whole);
    free(known);
}

void history_code_put_ints(struct buf *out, const int64_t *v, size_t n)
{
    struct buf none = { 0 };

    assert(n >= 1 && n <= COLUMN_MAX);
    put_whole(out, 0, &none, 0, v, n);
}

/* ---- reading: every length is checked, whatever the checksums said */
struct bits_in {
    const uint8_t *p, *end;
    uint64_t acc;
    unsigned n;
};

static inline void bits_fill(struct bits_in *b)
{
    if (b->end - b->p >= 8) {
        uint64_t word;

        memcpy(&word, b->p, sizeof(word));
        b->acc |= word << b->n;
        b->p += (63 - b->n) >> 3;
        b->n |= 56;
        return;
    }
    for (; b->n <= 56 && b->p < b->end; b->n += 8)
        b->acc |= (uint64_t)*b->p++ << b->n;
}

static inline bool bits_get(struct bits_in *b, unsigned n, uint64_t *out) /* n <= 56 */
{
    if (b->n < n)
        bits_fill(b);
    if (b->n < n)
        return false;
    *out = b->acc & ((UINT64_C(1) << n) - 1);
    b->acc >>= n;
    b->n -= n;
    return true;
}

static bool bits_get_long(struct bits_in *b, unsigned n, uint64_t *out) /* n <= 64 */
{
    uint64_t low, high = 0;

    if (n <= 32)
        return bits_get(b, n, out);
    if (!bits_get(b, 32, &low) || !bits_get(b, n - 32, &high))
        return false;
    *out = low | high << 32;
    return true;
}

static bool rice_escaped(struct bits_in *b, uint64_t *out)
{
    uint64_t skip, w;

    return bits_get(b, RICE_ESCAPE, &skip) && bits_get(b, 6, &w) &&
           bits_get_long(b, (unsigned)w + 1, out);
}

static inline bool rice_get(struct bits_in *b, unsigned k, uint64_t *out)
{
    unsigned q;

    bits_fill(b);
    q = ~b->acc ? (unsigned)__builtin_ctzll(~b->acc) : 64;
    if (q >= RICE_ESCAPE)
        return rice_escaped(b, out);
    if (b->n < q + 1 + k)
        return false;
    b->acc >>= q + 1;
    *out = (uint64_t)q << k | (b->acc & ((UINT64_C(1) << k) - 1));
    b->acc >>= k;
    b->n -= q + 1 + k;
    return true;
}

static bool get_varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < VARINT_BYTES_MAX && *p < end; i++) {
        uint8_t c = *(*p)++;

        v |= (uint64_t)(c & 127) << (7 * i);
        if (c < 128) {
            *out = v;
            return true;
        }
    }
    return false;
}

/* The bytes of a bit stream that were needed, as if none was read ahead. */
static const uint8_t *bits_used(const struct bits_in *b)
{
    return b->p - b->n / 8;
}

/* v[0] is set; first differences (dod: their differences) follow. */
static const uint8_t *get_steps(const uint8_t *p, const uint8_t *end, bool dod, int64_t first,
                                uint64_t g, int64_t *v, size_t n)
{
    struct bits_in b = { .p = p, .end = end };
    uint64_t value = (uint64_t)v[0], step = (uint64_t)first;
    size_t i = 1;

    if (dod && n > 1) {
        value += step * g;
        v[i++] = (int64_t)value;
    }
    while (i < n) {
        size_t stop = n - i < RICE_PART ? n : i + RICE_PART;
        uint64_t k, u;

        if (!bits_get(&b, 6, &k) || k > RICE_K_MAX)
            return NULL;
        for (; i < stop; i++) {
            if (!rice_get(&b, (unsigned)k, &u))
                return NULL;
            step = dod ? step + (uint64_t)zigzag_get(u) : (uint64_t)zigzag_get(u);
            value += step * g;
            v[i] = (int64_t)value;
        }
    }
    return bits_used(&b);
}

/* Behind mode and gaps; NULL: damaged. */
static const uint8_t *get_whole(const uint8_t *p, const uint8_t *end, unsigned head, int *exponent,
                                int64_t *v, size_t n)
{
    unsigned mode = head & MODE_MASK;
    uint64_t base, g = 1, first = 0;

    if (p == end)
        return NULL;
    *exponent = *p++; /* none is below 0 */
    if (*exponent > DECIMALS_MAX || !get_varint(&p, end, &base))
        return NULL;
    v[0] = zigzag_get(base);
    if (mode == MODE_CONST) {
        for (size_t i = 1; i < n; i++)
            v[i] = v[0];
        return p;
    }
    if (((head & FLAG_DIVISOR) && !get_varint(&p, end, &g)) ||
        (mode == MODE_DOD && !get_varint(&p, end, &first)))
        return NULL;
    return get_steps(p, end, mode == MODE_DOD, zigzag_get(first), g, v, n);
}

static const uint8_t *get_xor(const uint8_t *p, const uint8_t *end, double *v, size_t n)
{
    struct bits_in b = { .p = p + sizeof(uint64_t), .end = end };
    uint64_t now, one, lead = 64, len = 64, x;

    if (end - p < (ptrdiff_t)sizeof(now))
        return NULL;
    memcpy(&now, p, sizeof(now));
    memcpy(&v[0], &now, sizeof(now));
    for (size_t i = 1; i < n; i++) {
        if (!bits_get(&b, 1, &one))
            return NULL;
        if (one) {
            if (!bits_get(&b, 1, &one) ||
                (one && (!bits_get(&b, 6, &lead) || !bits_get(&b, 6, &len) || !++len)) ||
                lead + len > 64 || !bits_get_long(&b, (unsigned)len, &x))
                return NULL;
            now ^= x << (64 - lead - len);
        }
        memcpy(&v[i], &now, sizeof(now));
    }
    return bits_used(&b);
}

/* The values, close together, into v. */
static const uint8_t *get_known(const uint8_t *p, const uint8_t *end, unsigned head, double *v,
                                size_t n)
{
    int64_t whole[COLUMN_MAX];
    int exponent;

    if ((head & MODE_MASK) == MODE_XOR)
        return get_xor(p, end, v, n);
    p = get_whole(p, end, head, &exponent, whole, n);
    if (!p)
        return NULL;
    if (exponent) {
        double by = tens[exponent];

        for (size_t i = 0; i < n; i++)
            v[i] = (double)whole[i] / by;
    } else {
        for (size_t i = 0; i < n; i++)
            v[i] = (double)whole[i];
    }
    return p;
}

size_t history_code_get(const uint8_t *p, size_t len, double *out, size_t n)
{
    const uint8_t *begin = p, *end = p + len, *present = NULL;
    size_t known = n;
    unsigned head;

    if (!len || n > COLUMN_MAX)
        return 0;
    head = *p++;
    if (head == MODE_EMPTY) {
        for (size_t i = 0; i < n; i++)
            out[i] = NAN;
        return 1;
    }
    if ((head & ~(unsigned)FLAGS_ALL) || (head & MODE_MASK) > MODE_XOR)
        return 0;
    if (head & FLAG_GAPS) {
        if ((size_t)(end - p) < (n + 7) / 8)
            return 0;
        present = p;
        p += (n + 7) / 8;
        known = 0;
        for (size_t i = 0; i < n; i++)
            known += present[i / 8] >> (i % 8) & 1;
    }
    if (!known || !(p = get_known(p, end, head, out, known)))
        return 0;
    if (present) {
        for (size_t i = n; i-- > 0;)
            out[i] = present[i / 8] >> (i % 8) & 1 ? out[--known] : NAN;
    }
    return (size_t)(p - begin);
}

size_t history_code_get_ints(const uint8_t *p, size_t len, int64_t *out, size_t n)
{
    const uint8_t *end;
    int exponent;

    if (!len || !n || n > COLUMN_MAX || (*p & MODE_MASK) > MODE_DOD || (*p & FLAG_GAPS))
        return 0;
    end = get_whole(p + 1, p + len, *p, &exponent, out, n);
    return end ? (size_t)(end - p) : 0;
}

enum { KEEP_WHOLE_DIGITS = 7, KEEP_DECIMALS = 3, KEEP_DIGITS = 5 };

double history_round(double v)
{
    double a = fabs(v), r, limit = tens[KEEP_WHOLE_DIGITS];
    int e = 0;

    if (!(a < WHOLE_MAX) || (double)(int64_t)v == v)
        return v;
    for (int d = 1; d <= KEEP_DECIMALS; d++) {
        r = a * tens[d];
        if (r < limit && (double)(int64_t)(r + 0.5) / tens[d] == a)
            return v;
    }
    while (e < KEEP_DIGITS - 1 && a >= tens[e + 1])
        e++;
    if (a >= tens[KEEP_DIGITS]) { /* more digits before the point than are kept */
        while (a >= tens[e + 1])
            e++;
        assert(e >= KEEP_DIGITS - 1);
        r = tens[e - (KEEP_DIGITS - 1)];
        return copysign((double)(int64_t)(a / r + 0.5) * r, v);
    }
    e = KEEP_DIGITS - 1 - e;
    while (e < TENS_MAX && a * tens[e] < tens[KEEP_DIGITS - 1])
        e++;
    if (e > DECIMALS_MAX)
        return v;
    return copysign((double)(int64_t)(a * tens[e] + 0.5) / tens[e], v);
}
