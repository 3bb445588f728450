/* SPDX-License-Identifier: MIT */
/* tokenizer_added: tokens that are found in the text before anything else is done to it.
 *
 * Leftmost, then longest; a match that single_word refuses is passed over whole.  Patterns
 * are sorted, so the longest one at a place is found by narrowing a range byte by byte. */
#include "base/mem.h"
#include "base/text/utf8.h"
#include "model/tokenizer/tokenizer_int.h"
#include "model/unicode/unicode_int.h"

static int by_pattern(const void *a, const void *b)
{
    const struct added *x = *(const struct added *const *)a, *y = *(const struct added *const *)b;
    size_t n = x->pattern_len < y->pattern_len ? x->pattern_len : y->pattern_len;
    int d = memcmp(x->pattern, y->pattern, n);

    if (d)
        return d;
    if (x->pattern_len != y->pattern_len)
        return x->pattern_len < y->pattern_len ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

void added_set_build(struct arena *a, struct added_set *set, const struct added *all, size_t count,
                     bool normalized)
{
    set->v = arena_array(a, const struct added *, count);
    for (size_t i = 0; i < count; i++)
        if (all[i].normalized == normalized && all[i].pattern_len)
            set->v[set->count++] = &all[i];
    if (set->count)
        qsort(set->v, set->count, sizeof(*set->v), by_pattern);
    for (size_t i = 0; i < set->count; i++)
        set->first[(unsigned char)set->v[i]->pattern[0]] = true;
}

/* The first pattern of [lo, hi), which agree on `depth` bytes, whose next byte is at least b. */
static size_t lower_bound(const struct added_set *set, size_t lo, size_t hi, size_t depth,
                          unsigned b)
{
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct added *t = set->v[mid];

        if (t->pattern_len <= depth || (unsigned char)t->pattern[depth] < b)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The longest pattern at the start of p. */
static const struct added *longest_pattern(const struct added_set *set, const char *p, size_t len)
{
    const struct added *best = NULL;
    size_t lo = 0, hi = set->count;

    for (size_t depth = 0; depth < len; depth++) {
        unsigned b = (unsigned char)p[depth];

        lo = lower_bound(set, lo, hi, depth, b);
        hi = lower_bound(set, lo, hi, depth, b + 1);
        if (lo == hi)
            break;
        if (set->v[lo]->pattern_len == depth + 1)
            best = set->v[lo];
    }
    return best;
}

/* The code point that ends at `end`; its length in *n. */
static uint32_t char_before(const char *text, size_t end, size_t *n)
{
    size_t i = end - 1;
    uint32_t c;

    while (i && end - i < 4 && ((unsigned char)text[i] & 0xc0) == 0x80)
        i--;
    *n = end - i;
    utf8_decode(text + i, end - i, &c);
    return c;
}

static bool stands_alone(const char *text, size_t len, size_t begin, size_t end)
{
    uint32_t c;
    size_t n;

    if (begin && tok_is_word(char_before(text, begin, &n)))
        return false;
    if (end == len)
        return true;
    utf8_decode(text + end, len - end, &c);
    return !tok_is_word(c);
}

static size_t strip_left(const char *text, size_t begin, size_t least)
{
    size_t n;

    while (begin > least && uni_is_space(char_before(text, begin, &n)))
        begin -= n;
    return begin > least ? begin : least;
}

static size_t strip_right(const char *text, size_t len, size_t end)
{
    uint32_t c;
    size_t n;

    while (end < len && (n = utf8_decode(text + end, len - end, &c)) && uni_is_space(c))
        end += n;
    return end;
}

/* The next token from w->pos on; false: none. */
static bool find_token(const struct added_set *set, const char *text, size_t len,
                       struct added_walk *w, struct added_hit *out)
{
    while (w->pos < len) {
        const struct added *t;
        size_t begin = w->pos, end;

        if (!set->first[(unsigned char)text[begin]] ||
            !(t = longest_pattern(set, text + begin, len - begin))) {
            w->pos++;
            continue;
        }
        end = w->pos = begin + t->pattern_len;
        if (t->single_word && !stands_alone(text, len, begin, end))
            continue;
        if (t->lstrip)
            begin = strip_left(text, begin, w->done);
        if (t->rstrip)
            end = strip_right(text, len, end);
        *out = (struct added_hit){ t, begin < end ? begin : end, end };
        return true;
    }
    return false;
}

bool added_next(const struct added_set *set, const char *text, size_t len, struct added_walk *w,
                struct added_hit *out)
{
    if (w->has_pending) {
        *out = w->pending;
        w->has_pending = false;
        w->done = out->end;
        return true;
    }
    if (set->count && find_token(set, text, len, w, out)) {
        if (w->done >= out->begin) {
            w->done = out->end;
            return true;
        }
        w->pending = *out;
        w->has_pending = true;
        *out = (struct added_hit){ NULL, w->done, out->begin };
        return true;
    }
    if (w->done >= len)
        return false;
    *out = (struct added_hit){ NULL, w->done, len };
    w->done = len;
    return true;
}
