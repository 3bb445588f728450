/* SPDX-License-Identifier: MIT */
/* diff: two texts line by line, as the hunks of a unified diff; and three, of which two were made
 * from the first, as one that has the changes of both.
 *
 * What both begin and end with is taken off first.  Of the rest the shortest way from one to the
 * other is looked for as Myers does it: for d = 0, 1, 2 ... edits, how far along each diagonal
 * k = x - y one comes.  Each round is kept, and the way back through them gives the edits.  Texts
 * that are more than DIFF_EDITS_MAX edits apart are shown as all lines out, all lines in: right,
 * only longer than it need be. */
#include "base/mem.h"
#include "render/text/text_diff_int.h"

#include <assert.h>
#include <stdlib.h>

enum {
    DIFF_EDITS_MAX = 2000, /* edits of the shortest way; rounds take 4 bytes x its square */
    DIFF_CONTEXT = 3       /* equal lines around a change */
};

struct diff_line {
    const char *p;
    size_t len; /* with its newline, where it has one */
    uint32_t hash;
};
struct lines {
    struct diff_line *v; /* owned */
    size_t count;
};
struct edits { /* for each line: is it taken out of a, put into b? */
    bool *out, *in;
};

static uint32_t hash_of(const char *p, size_t len)
{
    uint32_t h = 2166136261U; /* FNV-1a */

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)p[i]) * 16777619U;
    return h;
}

static struct lines split_lines(struct render_text t)
{
    size_t cap = 16;
    struct lines l = { .v = xcalloc(cap, sizeof(*l.v)) };

    for (size_t at = 0; at < t.len;) {
        const char *nl = memchr(t.p + at, '\n', t.len - at);
        size_t len = nl ? (size_t)(nl - t.p) - at + 1 : t.len - at;

        VEC_GROW(l.v, l.count, cap);
        l.v[l.count++] = (struct diff_line){ t.p + at, len, hash_of(t.p + at, len) };
        at += len;
    }
    return l;
}

static bool same_line(const struct diff_line *a, const struct diff_line *b)
{
    return a->hash == b->hash && a->len == b->len && !memcmp(a->p, b->p, a->len);
}

/* ---- the shortest way ---- */

struct round { /* x reached on each diagonal -d, -d + 2 .. d after d edits */
    int *x;
};

static int reached_x(const struct round *r, int d, int k)
{
    return r[d].x[k + d];
}

/* Does the way to diagonal k in round d come from above, that is by putting a line in? */
static bool comes_down(const struct round *r, int d, int k)
{
    return k == -d || (k != d && reached_x(r, d - 1, k - 1) < reached_x(r, d - 1, k + 1));
}

/* Rounds until the end is reached; returns how many edits it took, -1: more than the limit. */
static int search_edits(const struct diff_line *a, int n, const struct diff_line *b, int m,
                        struct round *r)
{
    for (int d = 0; d <= DIFF_EDITS_MAX && d <= n + m; d++) {
        r[d].x = xcalloc(2 * (size_t)d + 1, sizeof(*r[d].x));
        for (int k = -d; k <= d; k += 2) {
            int x = !d                    ? 0
                    : comes_down(r, d, k) ? reached_x(r, d - 1, k + 1)
                                          : reached_x(r, d - 1, k - 1) + 1;
            int y = x - k;

            while (x < n && y >= 0 && y < m && same_line(&a[x], &b[y])) {
                x++;
                y++;
            }
            r[d].x[k + d] = x;
            if (x >= n && y >= m)
                return d;
        }
    }
    return -1;
}

static void mark_way(const struct round *r, int d, int n, int m, struct edits e)
{
    int x = n, y = m;

    for (; d > 0; d--) {
        int k = x - y;
        bool down = comes_down(r, d, k);
        int from = reached_x(r, d - 1, down ? k + 1 : k - 1);

        y = from - (down ? k + 1 : k - 1);
        x = from;
        if (down)
            e.in[y] = true;
        else
            e.out[x] = true;
    }
}

static void mark_edits(const struct diff_line *a, size_t n, const struct diff_line *b, size_t m,
                       struct edits e)
{
    struct round *r = xcalloc(DIFF_EDITS_MAX + 1, sizeof(*r));
    bool fits = n < INT32_MAX / 4 && m < INT32_MAX / 4;
    int d = fits ? search_edits(a, (int)n, b, (int)m, r) : -1;

    if (d >= 0) {
        mark_way(r, d, (int)n, (int)m, e);
    } else {
        memset(e.out, true, n);
        memset(e.in, true, m);
    }
    for (int i = 0; i <= DIFF_EDITS_MAX; i++)
        free(r[i].x);
    free(r);
}

/* ---- hunks ---- */

static void put_line(struct buf *out, char sign, const struct diff_line *l)
{
    buf_addc(out, sign);
    buf_add(out, l->p, l->len);
    if (l->p[l->len - 1] != '\n')
        buf_adds(out, "\n\\ No newline at end of file\n");
}

static void put_range(struct buf *out, char sign, size_t from, size_t count)
{
    /* a range of nothing is named by the line before it */
    buf_addf(out, " %c%zu", sign, count ? from + 1 : from);
    if (count != 1)
        buf_addf(out, ",%zu", count);
}

struct diff_span { /* lines [a0, a1) of a become [b0, b1) of b */
    size_t a0, a1, b0, b1;
};

/* The next hunk at or behind (i, j), which stand at equal lines; false: none. */
static bool next_hunk(const struct lines *a, const struct lines *b, struct edits e, size_t i,
                      size_t j, struct diff_span *s)
{
    size_t quiet = 0; /* equal lines since the last change */
    size_t before;

    while (i < a->count && j < b->count && !e.out[i] && !e.in[j]) {
        i++;
        j++;
    }
    if (i == a->count && j == b->count)
        return false;
    before = i < DIFF_CONTEXT ? i : DIFF_CONTEXT;
    before = before < j ? before : j;
    *s = (struct diff_span){ .a0 = i - before, .b0 = j - before };
    while ((i < a->count || j < b->count) && quiet <= (size_t)2 * DIFF_CONTEXT) {
        if (i < a->count && e.out[i]) {
            i++;
            quiet = 0;
        } else if (j < b->count && e.in[j]) {
            j++;
            quiet = 0;
        } else {
            i++;
            j++;
            quiet++;
        }
    }
    quiet = quiet > DIFF_CONTEXT ? quiet - DIFF_CONTEXT : 0; /* beyond the context behind */
    s->a1 = i - quiet;
    s->b1 = j - quiet;
    return true;
}

/* What is to be done to x for it to become y; the two arrays are the caller's. */
static struct edits edits_of(const struct lines *x, const struct lines *y)
{
    struct edits e = { xcalloc(x->count + 1, sizeof(bool)), xcalloc(y->count + 1, sizeof(bool)) };
    size_t head = 0, tail = 0;

    while (head < x->count && head < y->count && same_line(&x->v[head], &y->v[head]))
        head++;
    while (tail < x->count - head && tail < y->count - head &&
           same_line(&x->v[x->count - tail - 1], &y->v[y->count - tail - 1]))
        tail++;
    if (x->count + y->count > 2 * (head + tail))
        mark_edits(x->v + head, x->count - head - tail, y->v + head, y->count - head - tail,
                   (struct edits){ e.out + head, e.in + head });
    return e;
}

static void edits_release(struct edits *e)
{
    free(e->out);
    free(e->in);
}

void render_diff_text(struct render_text a, struct render_text b, struct buf *out)
{
    struct lines x = split_lines(a), y = split_lines(b);
    struct edits e = edits_of(&x, &y);
    struct diff_span s = { 0 };

    while (next_hunk(&x, &y, e, s.a1, s.b1, &s)) {
        assert(s.a1 <= x.count && s.b1 <= y.count);
        buf_adds(out, "@@");
        put_range(out, '-', s.a0, s.a1 - s.a0);
        put_range(out, '+', s.b0, s.b1 - s.b0);
        buf_adds(out, " @@\n");
        for (size_t i = s.a0, j = s.b0; i < s.a1 || j < s.b1;) {
            if (i < s.a1 && e.out[i]) {
                put_line(out, '-', &x.v[i++]);
            } else if (j < s.b1 && e.in[j]) {
                put_line(out, '+', &y.v[j++]);
            } else {
                put_line(out, ' ', &x.v[i++]);
                j++;
            }
        }
    }
    edits_release(&e);
    free(x.v);
    free(y.v);
}

/* ---- merging ---- */

struct diff_side { /* one of the two texts that were made from the base */
    struct lines lines;
    struct edits edits;
    struct diff_span at; /* its next change */
    bool more;
};

/* The next change at or behind (i, j), which stand at equal lines. */
static void side_next(const struct lines *base, struct diff_side *s, size_t i, size_t j)
{
    while (i < base->count && j < s->lines.count && !s->edits.out[i] && !s->edits.in[j]) {
        i++;
        j++;
    }
    s->at = (struct diff_span){ .a0 = i, .b0 = j };
    while (i < base->count && s->edits.out[i])
        i++;
    while (j < s->lines.count && s->edits.in[j])
        j++;
    s->at.a1 = i;
    s->at.b1 = j;
    s->more = s->at.a1 > s->at.a0 || s->at.b1 > s->at.b0;
}

static void side_begin(const struct lines *base, struct diff_side *s, struct render_text text)
{
    s->lines = split_lines(text);
    s->edits = edits_of(base, &s->lines);
    side_next(base, s, 0, 0);
}

static void side_end(struct diff_side *s)
{
    edits_release(&s->edits);
    free(s->lines.v);
}

static void lines_copy(const struct lines *l, size_t from, size_t to, struct buf *out)
{
    for (size_t i = from; i < to; i++)
        buf_add(out, l->v[i].p, l->v[i].len);
}

/* Do both put the same lines in the same place? */
static bool sides_agree(const struct diff_side *x, const struct diff_side *y)
{
    size_t n = x->at.b1 - x->at.b0;

    if (x->at.a0 != y->at.a0 || x->at.a1 != y->at.a1 || n != y->at.b1 - y->at.b0)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!same_line(&x->lines.v[x->at.b0 + i], &y->lines.v[y->at.b0 + i]))
            return false;
    return true;
}

/* The change of one side, and what stood unchanged before it. */
static void side_take(const struct lines *base, struct diff_side *s, size_t *done, struct buf *out)
{
    lines_copy(base, *done, s->at.a0, out);
    lines_copy(&s->lines, s->at.b0, s->at.b1, out);
    *done = s->at.a1;
    side_next(base, s, s->at.a1, s->at.b1);
}

bool render_merge_text(struct render_text base, struct render_text mine, struct render_text theirs,
                       struct buf *out)
{
    struct lines b = split_lines(base);
    struct diff_side x = { 0 }, y = { 0 };
    size_t done = 0;
    bool ok = true;

    side_begin(&b, &x, mine);
    side_begin(&b, &y, theirs);
    while (ok && (x.more || y.more)) {
        if (!y.more || (x.more && x.at.a1 < y.at.a0)) {
            side_take(&b, &x, &done, out);
        } else if (!x.more || y.at.a1 < x.at.a0) {
            side_take(&b, &y, &done, out);
        } else if (sides_agree(&x, &y)) {
            side_take(&b, &x, &done, out);
            side_next(&b, &y, y.at.a1, y.at.b1);
        } else {
            ok = false; /* they touch */
        }
    }
    lines_copy(&b, done, b.count, out);
    side_end(&x);
    side_end(&y);
    free(b.v);
    return ok && !out->over;
}
