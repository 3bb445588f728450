/* SPDX-License-Identifier: MIT */
/* Our tokenizers on the lines of stdin, for tests/parity/tokens.py and tests/cli/parity.t.
 *
 *   parity-tokens time TOKENIZER.json     processor seconds: "ENCODE LOAD TOKENS"; one thread,
 *                                         reading the lines not counted
 *   parity-tokens hashes TOKENIZER.json   16 digits for each 1,000 lines: of the SHA-256
 *                                         of what `stoker tokenize --ids` prints
 *   parity-tokens lines TOKENIZER.json N  N lines made up of its pieces and of worse: the same
 *                                         ones everywhere */
#include "base/buf.h"
#include "base/codec/sha256.h"
#include "base/str.h"
#include "base/text/utf8.h"
#include "model/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    BLOCK = 1 << 20,
    INPUT_MAX = 1 << 30,
    HASH_LINES = 1000,
    HASH_DIGITS = 16,
    LINES_MAX = 1000000,
    PARTS_MAX = 14
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void read_stdin(struct buf *in)
{
    static char block[BLOCK];
    ssize_t n;

    while ((n = read(STDIN_FILENO, block, sizeof(block))) > 0)
        buf_add(in, block, (size_t)n);
}

/* ---- encoding ---- */
struct hashing {
    struct sha256 sum;
    struct buf line;
    size_t lines;
};

static void hash_out(struct hashing *h)
{
    uint8_t sum[SHA256_BYTES];
    char hex[SHA256_HEX];

    if (!h->lines)
        return;
    sha256_end(&h->sum, sum);
    printf("%.*s\n", HASH_DIGITS, sha256_hex(sum, hex));
    sha256_init(&h->sum);
    h->lines = 0;
}

static void hash_line(struct hashing *h, const struct tok_out *out)
{
    buf_reset(&h->line);
    for (size_t i = 0; i < out->count; i++)
        buf_addf(&h->line, i ? " %" PRIu32 : "%" PRIu32, out->ids[i]);
    buf_addc(&h->line, '\n');
    sha256_add(&h->sum, h->line.data, h->line.len);
    if (++h->lines == HASH_LINES)
        hash_out(h);
}

static size_t encode_all(const struct tokenizer *t, struct tok_scratch *s, const struct buf *in,
                         struct hashing *h)
{
    const char *p = in->data, *end = p + in->len, *nl;
    struct tok_out out;
    size_t tokens = 0;

    for (; p < end; p = nl + 1) {
        nl = memchr(p, '\n', (size_t)(end - p));
        if (!nl || tokenizer_encode(t, s, (struct tok_text){ p, (size_t)(nl - p) }, NULL, NULL,
                                    &out, NULL))
            break;
        tokens += out.count;
        if (h)
            hash_line(h, &out);
    }
    return tokens;
}

static void encode_stdin(const struct tokenizer *t, bool hashes, double load)
{
    struct buf in = { .max = INPUT_MAX };
    struct hashing h = { .line = { .max = INPUT_MAX } };
    struct tok_scratch *s = tok_scratch_new();
    double start, took;
    size_t tokens;

    read_stdin(&in);
    sha256_init(&h.sum);
    start = now();
    tokens = encode_all(t, s, &in, hashes ? &h : NULL);
    took = now() - start;
    if (hashes)
        hash_out(&h);
    else
        printf("%.6f %.6f %zu\n", took, load, tokens);
    tok_scratch_free(s);
    buf_release(&h.line);
    buf_release(&in);
}

/* ---- made-up lines ---- */
struct maker {
    uint64_t state;
    const struct tokenizer *t;
    struct buf line;
};

static uint32_t below(struct maker *m, uint32_t limit)
{
    uint64_t z = m->state += UINT64_C(0x9E3779B97F4A7C15); /* splitmix64 */

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)((z ^ z >> 31) >> 32) % limit;
}

static void add_code(struct maker *m)
{
    static const uint32_t ranges[][2] = {
        { 0x20, 0x7f },     { 0xa0, 0x250 },      { 0x300, 0x370 },     { 0x370, 0x530 },
        { 0x590, 0x700 },   { 0x900, 0xe80 },     { 0x1100, 0x1200 },   { 0x1e00, 0x2070 },
        { 0x3040, 0x3100 }, { 0x4e00, 0x4f00 },   { 0xac00, 0xad00 },   { 0xfb00, 0xfe10 },
        { 0xfe20, 0xfff0 }, { 0x1d100, 0x1d200 }, { 0x1f300, 0x1f700 }, { 1, 0x10 },
        { 0, 0x110000 },
    };
    const uint32_t *r = ranges[below(m, sizeof(ranges) / sizeof(ranges[0]))];
    uint32_t c = r[0] + below(m, r[1] - r[0]);
    char utf8[4];

    if (c != '\n' && !(c >= 0xd800 && c < 0xe000))
        buf_add(&m->line, utf8, utf8_encode(c, utf8));
}

static void add_part(struct maker *m)
{
    static const char *const odd[] = {
        " ",    "  ",           "\t",           "[CLS]",        "[SEP]",        "<s>",
        "</s>", "<mask>",       " [MASK]",      "##",           "\xff",         "\xe2\x82",
        "\xc2", "\xed\xa0\x80", "\xe2\x96\x81", "\xef\xbf\xbd", "\xe3\x80\x80", "\xe2\x80\x8d"
    };
    uint32_t kind = below(m, 16);
    const char *piece;

    if (kind < 10) {
        piece = tokenizer_token(m->t, below(m, (uint32_t)tokenizer_vocab_size(m->t)));
        buf_adds(&m->line, kind < 6 ? " " : "");
        buf_adds(&m->line, piece ? piece : "");
    } else if (kind < 14) {
        add_code(m);
    } else
        buf_adds(&m->line, odd[below(m, sizeof(odd) / sizeof(odd[0]))]);
}

static bool make_lines(const struct tokenizer *t, const char *count)
{
    struct maker m = { .t = t, .line = { .max = INPUT_MAX } };
    int64_t n;

    if (!str_to_i64(count, 10, &n) || n < 0 || n > LINES_MAX)
        return false;
    for (; n > 0; n--) {
        buf_reset(&m.line);
        for (uint32_t parts = 1 + below(&m, PARTS_MAX); parts; parts--)
            add_part(&m);
        buf_addc(&m.line, '\n');
        fwrite(m.line.data, 1, m.line.len, stdout);
    }
    buf_release(&m.line);
    return true;
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    struct tokenizer *t = NULL;
    struct err err = { 0 };
    double load = now();
    bool fine = true;

    if (argc < 3 || tokenizer_load(argv[2], NULL, &t, &err)) {
        fprintf(stderr, "parity-tokens: %s\n", argc < 3 ? "two arguments or three" : err.msg);
        return 1;
    }
    load = now() - load;
    if (str_eq(what, "lines") && argc == 4)
        fine = make_lines(t, argv[3]);
    else if ((str_eq(what, "time") || str_eq(what, "hashes")) && argc == 3)
        encode_stdin(t, *what == 'h', load);
    else
        fine = false;
    tokenizer_free(t);
    return fine ? 0 : 2;
}
