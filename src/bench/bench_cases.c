/* SPDX-License-Identifier: MIT */
#include "bench/bench_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/file.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CORPUS_SHORTEST = 4,
    CORPUS_LONGEST = 512,
    IDS_FIRST = 5, /* below are the special ones: padding counts otherwise in RoBERTa */
};
#define CORPUS_MEDIAN 90.0
#define CORPUS_SPREAD 0.8

/* ---- lengths ---- */
static enum rc add_length(struct bench_case *c, size_t *cap, uint64_t n, struct err *err)
{
    if (n == 0 || n > CASE_TOKENS_MAX || c->tokens + n > CASE_TOKENS_MAX)
        return err_set(err, RC_LIMIT, "case '%.200s': texts have 1 to %d tokens, all together",
                       c->name, CASE_TOKENS_MAX);
    if (c->count == CASE_TEXTS_MAX)
        return err_set(err, RC_LIMIT, "case '%.200s' has more than %d texts", c->name,
                       CASE_TEXTS_MAX);
    VEC_GROW(c->lengths, c->count, *cap);
    c->lengths[c->count++] = (uint32_t)n;
    c->tokens += n;
    return RC_OK;
}

static enum rc read_lengths(const char *path, struct bench_case *c, struct err *err)
{
    struct buf text = { 0 };
    size_t cap = 0, line = 0;
    enum rc rc;
    char *rest, *p;

    buf_init(&text, CASE_LENGTHS_MAX + 1);
    rc = file_read(path, CASE_LENGTHS_MAX, &text, err);
    p = rc == RC_OK && text.len ? strtok_r(text.data, "\n", &rest) : NULL;
    for (; p && rc == RC_OK; p = strtok_r(NULL, "\n", &rest)) {
        uint64_t n;

        line++;
        if (!str_to_u64(str_trim(p), 10, &n))
            rc = err_set(err, RC_PARSE, "'%s': line %zu is no number of tokens", path, line);
        else
            rc = add_length(c, &cap, n, err);
    }
    if (rc == RC_OK && !c->count)
        rc = err_set(err, RC_PARSE, "'%s' names no lengths", path);
    buf_release(&text);
    return rc;
}

static void draw_corpus(uint64_t seed, struct bench_case *c)
{
    c->lengths = xcalloc(CASE_CORPUS_TEXTS, sizeof(*c->lengths));
    c->count = CASE_CORPUS_TEXTS;
    for (size_t i = 0; i < c->count; i++) {
        double n = round(exp(log(CORPUS_MEDIAN) + CORPUS_SPREAD * random_normal(&seed)));

        n = n < CORPUS_SHORTEST ? CORPUS_SHORTEST : n > CORPUS_LONGEST ? CORPUS_LONGEST : n;
        c->lengths[i] = (uint32_t)n;
        c->tokens += c->lengths[i];
    }
}

static enum rc read_product(const char *text, struct bench_case *c, struct err *err)
{
    const char *x = strchr(text, 'x');
    uint64_t texts, tokens;
    size_t cap = 0;
    char first[24];

    if (!x || (size_t)(x - text) >= sizeof(first))
        goto unknown;
    memcpy(first, text, (size_t)(x - text));
    first[x - text] = '\0';
    if (!str_to_u64(first, 10, &texts) || !str_to_u64(x + 1, 10, &tokens) || !texts)
        goto unknown;
    for (uint64_t i = 0; i < texts; i++)
        if (add_length(c, &cap, tokens, err))
            return err->code;
    c->batch_tokens = c->tokens;
    return RC_OK;

unknown:
    err_hint(err, "A case is TEXTSxTOKENS such as 32x128, 'corpus', or @FILE with lengths.");
    return err_set(err, RC_USAGE, "unknown case '%.200s'", text);
}

enum rc case_parse(const char *text, uint64_t seed, struct bench_case *out, struct err *err)
{
    struct bench_case c = { .name = text, .batch_tokens = CASE_BATCH_TOKENS };
    enum rc rc = RC_OK;

    if (text[0] == '@')
        rc = read_lengths(text + 1, &c, err);
    else if (str_eq(text, "corpus"))
        draw_corpus(seed, &c);
    else
        rc = read_product(text, &c, err);
    if (rc == RC_OK)
        *out = c;
    else
        case_release(&c);
    return rc;
}

void case_release(struct bench_case *c)
{
    free(c->lengths);
    *c = (struct bench_case){ 0 };
}

double case_operations(const struct bench_case *c, const struct model *m)
{
    double wide = (double)(m->heads * m->head_dim), hidden = (double)m->hidden, sum = 0;
    double linear = 2 * (4 * wide * hidden + 2 * hidden * (double)m->ffn);

    for (size_t i = 0; i < c->count; i++) {
        double n = (double)c->lengths[i];

        sum += n * (linear + 4 * n * wide);
    }
    return sum * (double)m->layers;
}

/* ---- batches ---- */
static int longest_first(const void *a, const void *b, void *arg)
{
    const uint32_t *lengths = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    if (lengths[x] != lengths[y])
        return lengths[x] < lengths[y] ? 1 : -1;
    return (x > y) - (x < y);
}

/* Tokens of one text; of a model for pairs the second half is the second text. */
static void draw_text(const struct model *m, uint64_t seed, size_t text, uint32_t *ids,
                      uint8_t *types, size_t count)
{
    uint64_t state = seed ^ (text * UINT64_C(0x9e3779b97f4a7c15)), spread;
    uint32_t first = m->vocab > 2 * IDS_FIRST ? IDS_FIRST : 0;

    spread = m->vocab - first;
    for (size_t i = 0; i < count; i++) {
        ids[i] = first + (uint32_t)(random_u64(&state) % spread);
        if (types)
            types[i] = i >= (count + 1) / 2;
    }
}

void case_cut(const struct bench_case *c, const struct model *m, size_t batch_tokens, uint64_t seed,
              struct case_batches *out)
{
    bool pairs = m->head != MODEL_HEAD_NONE && m->types >= 2;
    size_t cap = 0, at = 0, place = 0, room = 0;
    struct case_batches b = { .order = xcalloc(c->count, sizeof(*b.order)),
                              .ids = xcalloc(c->tokens, sizeof(*b.ids)),
                              .types = pairs ? xcalloc(c->tokens, 1) : NULL,
                              .starts = xcalloc(2 * c->count, sizeof(*b.starts)) };

    batch_tokens = batch_tokens ? batch_tokens : c->batch_tokens;
    for (size_t i = 0; i < c->count; i++)
        b.order[i] = (uint32_t)i;
    qsort_r(b.order, c->count, sizeof(*b.order), longest_first, c->lengths);
    for (size_t i = 0; i < c->count; i++) {
        uint32_t n = c->lengths[b.order[i]];
        struct eng_batch *last;

        if (!b.count || n > room) { /* the next batch: its first start is the 0 of xcalloc() */
            VEC_GROW(b.items, b.count, cap);
            place += b.count > 0;
            b.items[b.count++] = (struct eng_batch){ .ids = b.ids + at,
                                                     .types = pairs ? b.types + at : NULL,
                                                     .starts = b.starts + place };
            room = batch_tokens > n ? batch_tokens : n;
        }
        last = &b.items[b.count - 1];
        draw_text(m, seed, b.order[i], b.ids + at, pairs ? b.types + at : NULL, n);
        b.starts[place + 1] = b.starts[place] + n;
        place++;
        last->sequences++;
        at += n;
        room -= n;
    }
    assert(at == c->tokens && place < 2 * c->count);
    *out = b;
}

void case_batches_release(struct case_batches *b)
{
    free(b->items);
    free(b->order);
    free(b->ids);
    free(b->types);
    free(b->starts);
    *b = (struct case_batches){ 0 };
}

/* ---- outputs ---- */
size_t case_rows(const struct bench_case *c, enum eng_want want)
{
    return want == ENG_TOKENS ? c->tokens : c->count;
}

void case_sort_rows(const struct bench_case *c, const struct case_batches *b, enum eng_want want,
                    size_t width, const float *rows, float *out)
{
    size_t *first = xcalloc(c->count, sizeof(*first)), at = 0;

    for (size_t i = 1; i < c->count; i++)
        first[i] = first[i - 1] + (want == ENG_TOKENS ? c->lengths[i - 1] : 1);
    for (size_t i = 0; i < c->count; i++) {
        size_t text = b->order[i], n = want == ENG_TOKENS ? c->lengths[text] : 1;

        memcpy(out + first[text] * width, rows + at * width, n * width * sizeof(*out));
        at += n;
    }
    free(first);
}
