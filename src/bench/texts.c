/* SPDX-License-Identifier: MIT */
#include "bench/bench_int.h"

#include "base/buf.h"
#include "base/mem.h"
#include "os/file.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    TEXTS_WORDS_MAX = 2048, /* words compiled in */
    TEXTS_SPECIALS = 2      /* tokens that a model adds to every text */
};

const struct texts_law texts_law_docs = { 90, 0.7, 3, TEXTS_TOKENS_MAX };
const struct texts_law texts_law_queries = { 12, 0.5, 3, 64 };

uint64_t random_u64(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

double random_unit(uint64_t *state)
{
    return ((double)(random_u64(state) >> 11) + 0.5) / (double)(UINT64_C(1) << 53);
}

double random_normal(uint64_t *state)
{
    double r = sqrt(-2 * log(random_unit(state)));

    return r * cos(6.283185307179586 * random_unit(state));
}

static size_t length_of(const struct texts_law *law, uint64_t *state)
{
    double n = round(law->median * exp(law->sigma * random_normal(state)));

    if (n < (double)law->least)
        return law->least;
    return n > (double)law->most ? law->most : (size_t)n;
}

static size_t find_words(struct bench_text *out)
{
    size_t count = 0, len;

    for (const char *const *line = texts_words; *line; line++)
        for (const char *p = *line; *p; p += len + !!p[len]) {
            len = strcspn(p, " ");
            assert(count < TEXTS_WORDS_MAX && len);
            out[count++] = (struct bench_text){ p, len };
        }
    return count;
}

void texts_make(const struct texts_law *law, size_t count, uint64_t seed, struct texts *out)
{
    struct bench_text *words = xcalloc(TEXTS_WORDS_MAX, sizeof(*words));
    size_t word_count = find_words(words), *starts;
    struct buf all = { .max = TEXTS_FILE_MAX };
    uint64_t state = seed;

    assert(word_count && count <= TEXTS_MAX && law->least > TEXTS_SPECIALS);
    starts = xcalloc(count + 1, sizeof(*starts));
    for (size_t i = 0; i < count && !all.over; i++) {
        size_t n = length_of(law, &state) - TEXTS_SPECIALS;

        for (size_t k = 0; k < n; k++) {
            const struct bench_text *w = &words[random_u64(&state) % word_count];

            if (k)
                buf_addc(&all, ' ');
            buf_add(&all, w->p, w->len);
        }
        starts[i + 1] = all.len;
    }
    assert(!all.over);
    *out = (struct texts){ xcalloc(count, sizeof(struct bench_text)), count, buf_take(&all) };
    for (size_t i = 0; i < count; i++)
        out->items[i] = (struct bench_text){ out->bytes + starts[i], starts[i + 1] - starts[i] };
    free(starts);
    free(words);
}

enum rc texts_read(const char *path, struct texts *out, struct err *err)
{
    struct buf all = { .max = TEXTS_FILE_MAX + 1 };
    struct texts t = { 0 };
    size_t cap = 0;
    char *end;

    if (file_read(path, TEXTS_FILE_MAX, &all, err)) {
        buf_release(&all);
        return err ? err->code : RC_FAIL;
    }
    end = all.data + all.len;
    for (char *p = all.data; p && p < end && t.count < TEXTS_MAX;) {
        char *feed = memchr(p, '\n', (size_t)(end - p)), *stop = feed ? feed : end;

        if (stop > p && stop[-1] == '\r')
            stop--;
        if (stop > p) {
            VEC_GROW(t.items, t.count, cap);
            t.items[t.count++] = (struct bench_text){ p, (size_t)(stop - p) };
        }
        p = feed ? feed + 1 : end;
    }
    t.bytes = buf_take(&all);
    if (!t.count) {
        texts_release(&t);
        return err_set(err, RC_PARSE, "there is no text in '%s'", path);
    }
    *out = t;
    return RC_OK;
}

void texts_release(struct texts *t)
{
    free(t->items);
    free(t->bytes);
    *t = (struct texts){ 0 };
}
