/* SPDX-License-Identifier: MIT */
/* unicode: reads the generated tables; normal forms with their alignment.
 *
 * Every question but Hangul is answered by a table that tools/unicode wrote.  A bit of
 * the kind says whether a longer table has anything on a code point, so plain text
 * never searches. */
#include "model/unicode/unicode_int.h"

#include "base/mem.h"
#include "model/unicode/unicode_tables_int.h"

#include <assert.h>

enum {
    HANGUL_S = 0xAC00,
    HANGUL_L = 0x1100,
    HANGUL_V = 0x1161,
    HANGUL_T = 0x11A7,
    HANGUL_L_COUNT = 19,
    HANGUL_V_COUNT = 21,
    HANGUL_T_COUNT = 28,
    HANGUL_S_COUNT = HANGUL_L_COUNT * HANGUL_V_COUNT * HANGUL_T_COUNT
};

bool uni_is_space(uint32_t c)
{
    return uni_kind(c) & UNI_K_SPACE;
}

bool uni_is_other(uint32_t c)
{
    return uni_kind(c) & UNI_K_OTHER;
}

bool uni_is_mark_nonspacing(uint32_t c)
{
    return uni_kind(c) & UNI_K_MARK;
}

bool uni_is_punct(uint32_t c)
{
    return uni_kind(c) & UNI_K_PUNCT;
}

bool uni_is_chinese(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        { 0x3400, 0x4DBF },   { 0x4E00, 0x9FFF },   { 0xF900, 0xFAFF },   { 0x20000, 0x2A6DF },
        { 0x2A700, 0x2B73F }, { 0x2B740, 0x2B81F }, { 0x2B920, 0x2CEAF }, { 0x2F800, 0x2FA1F },
    };

    if (c < ranges[0].first)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    }
    return false;
}

size_t uni_lower(uint32_t c, uint32_t out[UNI_LOWER_MAX])
{
    size_t low = 0, high = uni_lower_run_count, n = 0;

    out[0] = c;
    if (!(uni_kind(c) & UNI_K_LOWER))
        return 1;
    for (size_t i = 0; i < uni_lower_long_count; i++) {
        if (uni_lower_long[i][0] != c)
            continue;
        for (; n < UNI_LOWER_MAX && uni_lower_long[i][n + 1]; n++)
            out[n] = uni_lower_long[i][n + 1];
        return n;
    }
    while (low < high) { /* the last run that begins at or below c */
        size_t mid = (low + high) / 2;
        if (uni_lower_runs[mid].first <= c)
            low = mid + 1;
        else
            high = mid;
    }
    /* runs of step 2 interleave: the one that c belongs to may begin earlier */
    for (const struct uni_lower_run *r = uni_lower_runs + low; r-- > uni_lower_runs;) {
        if (c <= r->last && (c - r->first) % r->step == 0) {
            out[0] = (uint32_t)((int64_t)c + r->delta);
            break;
        }
    }
    return 1;
}

unsigned uni_combining_class(uint32_t c)
{
    size_t low = 0, high = uni_class_run_count;

    if (!(uni_kind(c) & UNI_K_CLASS))
        return 0;
    while (low < high) {
        size_t mid = (low + high) / 2;
        const struct uni_class_run *r = &uni_class_runs[mid];
        if (c > r->last)
            low = mid + 1;
        else if (c < r->first)
            high = mid;
        else
            return r->class;
    }
    return 0;
}

/* The pool entry of c: how many, then the code points. */
static const uint32_t *pool_find(const struct uni_run *runs, size_t count, const uint16_t *at,
                                 uint32_t c)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t mid = (low + high) / 2;
        const struct uni_run *r = &runs[mid];
        if (c < r->first)
            high = mid;
        else if (c - r->first >= r->count)
            low = mid + 1;
        else
            return &uni_pool[at[r->index + (c - r->first)]];
    }
    return NULL;
}

static size_t hangul_decompose(uint32_t s, uint32_t *out)
{
    uint32_t t = s % HANGUL_T_COUNT;

    out[0] = HANGUL_L + s / (HANGUL_V_COUNT * HANGUL_T_COUNT);
    out[1] = HANGUL_V + s / HANGUL_T_COUNT % HANGUL_V_COUNT;
    if (t)
        out[2] = HANGUL_T + t;
    return t ? 3 : 2;
}

size_t uni_decompose(uint32_t c, bool compat, uint32_t out[UNI_DECOMP_MAX])
{
    uint32_t kind = uni_kind(c);
    const uint32_t *entry = NULL;

    if (c - HANGUL_S < HANGUL_S_COUNT)
        return hangul_decompose(c - HANGUL_S, out);
    if (compat && kind & UNI_K_COMPAT)
        entry = pool_find(uni_compat_runs, uni_compat_run_count, uni_compat_at, c);
    else if (kind & UNI_K_CANON)
        entry = pool_find(uni_canon_runs, uni_canon_run_count, uni_canon_at, c);
    if (!entry) {
        out[0] = c;
        return 1;
    }
    assert(entry[0] <= UNI_DECOMP_MAX);
    memcpy(out, entry + 1, entry[0] * sizeof(*out));
    return entry[0];
}

static uint32_t hangul_compose(uint32_t a, uint32_t b)
{
    if (a - HANGUL_L < HANGUL_L_COUNT && b - HANGUL_V < HANGUL_V_COUNT)
        return HANGUL_S + ((a - HANGUL_L) * HANGUL_V_COUNT + (b - HANGUL_V)) * HANGUL_T_COUNT;
    if (a - HANGUL_S < HANGUL_S_COUNT && (a - HANGUL_S) % HANGUL_T_COUNT == 0 && b > HANGUL_T &&
        b - HANGUL_T < HANGUL_T_COUNT)
        return a + (b - HANGUL_T);
    return 0;
}

uint32_t uni_compose(uint32_t a, uint32_t b)
{
    size_t low = 0, high = uni_pair_count;

    if (!(uni_kind(b) & UNI_K_SECOND))
        return 0;
    while (low < high) {
        size_t mid = (low + high) / 2;
        const struct uni_pair *p = &uni_pairs[mid];
        if (p->a == a && p->b == b)
            return p->composite;
        if (p->a < a || (p->a == a && p->b < b))
            low = mid + 1;
        else
            high = mid;
    }
    return hangul_compose(a, b);
}

/* ---- normal forms ---- */

void uni_norm_release(struct uni_norm *n)
{
    if (!n)
        return;
    free(n->code);
    free(n->source);
    free(n->class);
    free(n->spare);
    *n = (struct uni_norm){ 0 };
}

static void norm_grow(struct uni_norm *n, size_t want)
{
    if (want <= n->cap)
        return;
    n->cap = want < 64 ? 64 : want + want / 2;
    n->code = xreallocarray(n->code, n->cap, sizeof(*n->code));
    n->source = xreallocarray(n->source, n->cap, sizeof(*n->source));
    n->class = xreallocarray(n->class, n->cap, sizeof(*n->class));
}

/* Stable sort of n->code[begin, end) by class, a count for each class: a hostile run of
 * marks is as long as the text.  `source` holds the changes here and moves along. */
static void norm_sort_long(struct uni_norm *n, size_t begin, size_t end)
{
    size_t start[257] = { 0 }, count = end - begin;

    if (n->spare_cap < count) {
        n->spare_cap = count + count / 2;
        free(n->spare);
        n->spare = xreallocarray(NULL, n->spare_cap, sizeof(*n->spare));
    }
    for (size_t i = begin; i < end; i++)
        start[n->class[i] + 1]++;
    for (size_t k = 1; k < ARRAY_SIZE(start); k++)
        start[k] += start[k - 1];
    for (size_t i = begin; i < end; i++)
        n->spare[start[n->class[i]]++] =
            (struct uni_norm_item){ n->code[i], n->source[i], n->class[i] };
    for (size_t i = 0; i < count; i++) {
        n->code[begin + i] = n->spare[i].code;
        n->source[begin + i] = n->spare[i].change;
        n->class[begin + i] = n->spare[i].class;
    }
}

static void norm_sort(struct uni_norm *n, size_t begin, size_t end)
{
    enum { SHORT = 24 };

    if (end - begin > SHORT) {
        norm_sort_long(n, begin, end);
        return;
    }
    for (size_t i = begin + 1; i < end; i++) {
        struct uni_norm_item it = { n->code[i], n->source[i], n->class[i] };
        size_t j = i;
        for (; j > begin && n->class[j - 1] > it.class; j--) {
            n->code[j] = n->code[j - 1];
            n->source[j] = n->source[j - 1];
            n->class[j] = n->class[j - 1];
        }
        n->code[j] = it.code;
        n->source[j] = it.change;
        n->class[j] = it.class;
    }
}

/* Until the end `source` holds the reference library's "change" of each code point: 1
 * for one put in, 0 for one kept or replaced, -n for one that swallowed n after it. */
static void norm_decompose(struct uni_norm *n, bool compat, const uint32_t *in, size_t count)
{
    uint32_t parts[UNI_DECOMP_MAX];
    size_t pending = 0; /* where the code points of class > 0 began */

    n->count = 0;
    for (size_t i = 0; i < count; i++) {
        size_t k = uni_decompose(in[i], compat, parts);
        norm_grow(n, n->count + k);
        for (size_t j = 0; j < k; j++) {
            size_t at = n->count++;
            n->code[at] = parts[j];
            n->source[at] = j > 0;
            n->class[at] = (uint8_t)uni_combining_class(parts[j]);
            if (n->class[at] == 0) {
                norm_sort(n, pending, at);
                pending = at + 1;
            }
        }
    }
    norm_sort(n, pending, n->count);
}

static void norm_compose(struct uni_norm *n)
{
    size_t starter = SIZE_MAX, w = 0;
    unsigned last = 0; /* class of what stands behind the starter */

    for (size_t i = 0; i < n->count; i++) {
        unsigned class = n->class[i];
        bool next_to = starter != SIZE_MAX && w == starter + 1;
        uint32_t both = 0;
        if (starter != SIZE_MAX && (next_to || last < class))
            both = uni_compose(n->code[starter], n->code[i]);
        if (both) {
            n->code[starter] = both;
            n->source[starter] += n->source[i] - 1;
            continue;
        }
        if (class == 0)
            starter = w;
        last = class;
        n->code[w] = n->code[i];
        n->source[w] = n->source[i];
        n->class[w++] = (uint8_t) class;
    }
    n->count = w;
}

static void norm_align(struct uni_norm *n)
{
    int32_t at = 0; /* the next code point of the input */

    for (size_t i = 0; i < n->count; i++) {
        int32_t change = n->source[i];
        if (change > 0) {
            n->source[i] = at > 0 ? at - 1 : 0;
        } else {
            n->source[i] = at;
            at += 1 - change;
        }
    }
}

void uni_normalize(enum uni_form form, const uint32_t *in, size_t count, struct uni_norm *out)
{
    assert(count <= UNI_NORM_MAX);
    norm_decompose(out, form == UNI_NFKC || form == UNI_NFKD, in, count);
    if (form == UNI_NFC || form == UNI_NFKC)
        norm_compose(out);
    norm_align(out);
}
