/* SPDX-License-Identifier: MIT */
/* embed_similar: cosines of every pair of a few texts, as a table or as JSON. */
#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "cmd/embed/embed_int.h"

#include <assert.h>
#include <math.h>

enum { LABEL_MAX = 256 }; /* bytes of a text that are kept to show it */

void similarity_label(struct similarity *s, struct tok_text t)
{
    size_t len = t.len < LABEL_MAX ? t.len : LABEL_MAX;

    if (s->count > SIMILARITY_TEXTS_MAX)
        return;
    while (len < t.len && len > 0 && ((unsigned char)t.p[len] & 0xc0) == 0x80)
        len--;
    s->labels[s->count] = xstrndup(t.p, len);
    str_make_text(s->labels[s->count]);
    s->count++;
}

void similarity_vector(struct similarity *s, size_t i, const float *v)
{
    assert(i < SIMILARITY_TEXTS_MAX);
    if (!s->vectors)
        s->vectors = xcalloc((size_t)SIMILARITY_TEXTS_MAX * s->width, sizeof(*s->vectors));
    memcpy(s->vectors + i * s->width, v, s->width * sizeof(*v));
}

void similarity_release(struct similarity *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->labels[i]);
    free(s->vectors);
    *s = (struct similarity){ 0 };
}

/* NaN for a text that failed, 0 beside a vector of length 0. */
static double cosine_of(const struct similarity *s, size_t i, size_t k)
{
    const float *a = s->vectors + i * s->width, *b = s->vectors + k * s->width;
    double ab = 0, aa = 0, bb = 0;

    for (size_t n = 0; n < s->width; n++) {
        ab += (double)a[n] * (double)b[n];
        aa += (double)a[n] * (double)a[n];
        bb += (double)b[n] * (double)b[n];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : isnan(ab) ? NAN : 0;
}

static enum table_colour colour_of(double c)
{
    return c >= 0.5 ? COLOUR_GREEN : c >= 0.25 ? COLOUR_YELLOW : COLOUR_NONE;
}

void similarity_print(const struct similarity *s, const struct term *term, struct buf *out)
{
    struct table *t;
    char title[24];

    if (!s->count)
        return;
    t = table_new();
    table_col(t, "", TABLE_RIGHT);
    table_col(t, "text", TABLE_LEFT | TABLE_SHRINK);
    for (size_t k = 0; k < s->count; k++) {
        snprintf(title, sizeof(title), "%zu", k + 1);
        table_col(t, title, TABLE_RIGHT);
    }
    for (size_t i = 0; i < s->count; i++) {
        table_row(t);
        table_cell(t, COLOUR_DIM, "%zu", i + 1);
        table_cell(t, COLOUR_NONE, "%s", s->labels[i]);
        for (size_t k = 0; k < s->count; k++) {
            double c = cosine_of(s, i, k);

            if (isnan(c))
                table_cell(t, COLOUR_RED, "-");
            else
                table_cell(t, i == k ? COLOUR_DIM : colour_of(c), "%.2f", c);
        }
    }
    table_print(t, term, 0, out);
    table_free(t);
}

void similarity_json(const struct similarity *s, struct buf *out)
{
    struct json_out w;

    json_doc(&w, out, "stoker.similarity/1");
    json_kv_arr(&w, "texts");
    for (size_t i = 0; i < s->count; i++)
        json_add_str(&w, s->labels[i]);
    json_arr_end(&w);
    json_kv_arr(&w, "cosine");
    for (size_t i = 0; i < s->count; i++) {
        json_arr(&w);
        for (size_t k = 0; k < s->count; k++)
            json_add_num(&w, cosine_of(s, i, k));
        json_arr_end(&w);
    }
    json_arr_end(&w);
    json_doc_end(&w);
}
