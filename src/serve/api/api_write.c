/* SPDX-License-Identifier: MIT */
/* api_write: what writers of replies share: vectors in their encodings, scores, rankings.
 *
 * Vectors are most of a reply's bytes: each takes room in the buffer once and is printed by
 * one loop over f32_print(). */
#include "base/codec/f32.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "serve/api/bodies_int.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "vectors leave as they lie in memory");

enum {
    INT8_TEXT_MAX = 5, /* bytes of "-128," */
    HALVES_AT_ONCE = 768
};

/* ---- vectors */

static void write_floats(struct buf *b, const float *v, size_t n)
{
    char *start = buf_reserve(b, n * F32_TEXT_MAX + 2), *p = start;

    if (!p)
        return;
    *p++ = '[';
    for (size_t i = 0; i < n; i++) {
        p += f32_print(v[i], p);
        *p++ = ',';
    }
    p -= n > 0; /* the last comma */
    *p++ = ']';
    buf_commit(b, (size_t)(p - start));
}

static char *put_base64(char *p, const void *data, size_t len)
{
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *s = data;
    size_t i = 0;

    for (; i + 3 <= len; i += 3, p += 4) {
        unsigned x = (unsigned)s[i] << 16 | (unsigned)s[i + 1] << 8 | s[i + 2];
        p[0] = set[x >> 18];
        p[1] = set[x >> 12 & 63];
        p[2] = set[x >> 6 & 63];
        p[3] = set[x & 63];
    }
    if (i < len) {
        bool two = i + 2 == len;
        unsigned x = (unsigned)s[i] << 16 | (two ? (unsigned)s[i + 1] << 8 : 0);
        *p++ = set[x >> 18];
        *p++ = set[x >> 12 & 63];
        *p++ = two ? set[x >> 6 & 63] : '=';
        *p++ = '=';
    }
    return p;
}

static void write_base64(struct buf *b, const float *v, size_t n)
{
    size_t len = n * sizeof(*v);
    char *start = buf_reserve(b, (len + 2) / 3 * 4 + 2), *p = start;

    if (!p)
        return;
    *p++ = '"';
    p = put_base64(p, v, len);
    *p++ = '"';
    buf_commit(b, (size_t)(p - start));
}

/* Piece by piece; a piece is a multiple of three bytes, so that they join. */
static void write_f16(struct buf *b, const float *v, size_t n)
{
    uint16_t half[HALVES_AT_ONCE] = { 0 };
    char *start = buf_reserve(b, (n * sizeof(*half) + 2) / 3 * 4 + 2), *p = start;

    if (!p)
        return;
    *p++ = '"';
    for (size_t i = 0, k; i < n; i += k) {
        for (k = 0; k < HALVES_AT_ONCE && i + k < n; k++)
            half[k] = st_f32_to_f16(v[i + k]);
        p = put_base64(p, half, k * sizeof(*half));
    }
    *p++ = '"';
    buf_commit(b, (size_t)(p - start));
}

static char *put_small(char *p, int v)
{
    unsigned u = v < 0 ? (unsigned)-v : (unsigned)v;

    if (v < 0)
        *p++ = '-';
    if (u >= 100)
        *p++ = (char)('0' + u / 100);
    if (u >= 10)
        *p++ = (char)('0' + u / 10 % 10);
    *p++ = (char)('0' + u % 10);
    return p;
}

/* The greatest |x| becomes 127; `shift` is 128 for unsigned numbers. */
static size_t make_int8(const float *v, size_t n, int shift, uint8_t *out)
{
    float most = 0;

    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(v[i]));
    for (size_t i = 0; i < n; i++) {
        double x = most > 0 && isfinite(v[i]) ? 127.0 * (double)v[i] / (double)most : 0;

        out[i] = (uint8_t)((int)lrint(x) + shift);
    }
    return n;
}

static size_t make_bits(const float *v, size_t n, int shift, uint8_t *out)
{
    for (size_t i = 0; i < n; i += 8) {
        int byte = 0;

        for (size_t k = 0; k < 8; k++)
            byte = byte << 1 | (i + k < n && v[i + k] > 0);
        out[i / 8] = (uint8_t)(byte + shift);
    }
    return (n + 7) / 8;
}

/* Numbers of a byte, as a list or, `packed`, as base64. */
static void write_small(struct buf *b, const float *v, size_t n, enum api_encoding e, bool packed)
{
    uint8_t *bytes = xmalloc(n ? n : 1);
    bool below = e == API_INT8 || e == API_BINARY; /* signed */
    size_t count = e == API_INT8 || e == API_UINT8 ? make_int8(v, n, below ? 0 : 128, bytes)
                                                   : make_bits(v, n, below ? -128 : 0, bytes);
    char *start = buf_reserve(b, count * INT8_TEXT_MAX + 4), *p = start;

    if (p) {
        *p++ = packed ? '"' : '[';
        if (packed)
            p = put_base64(p, bytes, count);
        for (size_t i = 0; !packed && i < count; i++) {
            p = put_small(p, below ? (int8_t)bytes[i] : bytes[i]);
            *p++ = ',';
        }
        p -= !packed && count > 0;
        *p++ = packed ? '"' : ']';
        buf_commit(b, (size_t)(p - start));
    }
    free(bytes);
}

void api_vector(struct json_out *w, const float *v, size_t n, enum api_encoding e, bool packed)
{
    struct buf *b = json_raw(w);

    switch (e) {
    case API_BASE64:
        write_base64(b, v, n);
        return;
    case API_F16:
        write_f16(b, v, n);
        return;
    case API_INT8:
    case API_UINT8:
    case API_BINARY:
    case API_UBINARY:
        write_small(b, v, n, e, packed);
        return;
    case API_FLOAT:
    case API_OCTETS: /* a whole body, not a value: api_fields_octets() */
        write_floats(b, v, n);
        return;
    }
}

void api_item_vectors(struct json_out *w, const struct request *r, size_t i, enum api_encoding e)
{
    const struct request_text *it = &r->texts[i];
    const float *v = r->response.rows + it->row * r->response.width;

    if (r->what != REQUEST_TOKENS) {
        api_vector(w, v, r->response.width, e, api_priv_of(r)->packed);
        return;
    }
    json_arr(w);
    for (size_t k = 0; k < it->row_count; k++)
        api_vector(w, v + k * r->response.width, r->response.width, e, api_priv_of(r)->packed);
    json_arr_end(w);
}

const char *api_write(const struct request *r, struct buf *out)
{
    if (r->encodings != API_OCTETS || (r->what != REQUEST_VECTORS && r->what != REQUEST_TOKENS)) {
        r->api->write(r, out);
        return "application/json";
    }
    for (size_t i = 0; i < r->count; i++)
        buf_add(out, r->response.rows + r->texts[i].row * r->response.width,
                r->texts[i].row_count * r->response.width * sizeof(float));
    return "application/octet-stream";
}

/* ---- scores */

void api_float(struct json_out *w, float f)
{
    char text[F32_TEXT_MAX];
    size_t len = f32_print(f, text);

    buf_add(json_raw(w), text, len);
}

float api_score(const struct request *r, size_t i)
{
    float logit = r->response.rows[r->texts[i].row * r->response.width];

    if (r->raw_scores)
        return logit;
    return eng_score(r->sigmoid        ? MODEL_SCORE_SIGMOID
                     : r->response.net ? r->response.net->score
                                       : MODEL_SCORE_RAW,
                     logit);
}

float api_cosine(const struct request *r, size_t i, size_t k)
{
    const float *u = r->response.rows + r->texts[i].row * r->response.width;
    const float *v = r->response.rows + r->texts[k].row * r->response.width;
    double uv = 0, uu = 0, vv = 0;

    for (size_t n = 0; n < r->response.width; n++) {
        uv += (double)u[n] * (double)v[n];
        uu += (double)u[n] * (double)u[n];
        vv += (double)v[n] * (double)v[n];
    }
    return (float)(uv / fmax(sqrt(uu) * sqrt(vv), 1e-24));
}

struct scored {
    float score;
    size_t index;
};

static int by_score(const void *x, const void *y)
{
    const struct scored *a = x, *b = y;

    if (a->score != b->score && !(isnan(a->score) && isnan(b->score)))
        return a->score > b->score || isnan(b->score) ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

size_t *api_ranking(const struct request *r, struct arena *arena, size_t *out_count)
{
    struct scored *s = arena_array(arena, struct scored, r->count);
    size_t *order = arena_array(arena, size_t, r->count);

    for (size_t i = 0; i < r->count; i++)
        s[i] = (struct scored){ api_score(r, i), i };
    qsort(s, r->count, sizeof(*s), by_score);
    for (size_t i = 0; i < r->count; i++)
        order[i] = s[i].index;
    *out_count = r->top_n && r->top_n < r->count ? r->top_n : r->count;
    return order;
}

static void apply_activation(struct scored *s, size_t n, enum api_apply how)
{
    double most = -INFINITY, sum = 0;

    for (size_t i = 0; i < n; i++) {
        most = fmax(most, (double)s[i].score);
        if (how == API_APPLY_SIGMOID)
            s[i].score = eng_score(MODEL_SCORE_SIGMOID, s[i].score);
    }
    if (how != API_APPLY_SOFTMAX)
        return;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)s[i].score - most);
    for (size_t i = 0; i < n; i++)
        s[i].score = (float)(exp((double)s[i].score - most) / sum);
}

static void write_label(struct json_out *w, const struct request *r, size_t label)
{
    char text[32];
    const char *name = NULL;

    if (r->response.net && r->response.net->label_names && label < r->response.net->labels)
        name = r->response.net->label_names[label];
    snprintf(text, sizeof(text), "LABEL_%zu", label);
    json_kv_str(w, "label", name ? name : text);
}

void api_classes(struct json_out *w, const struct request *r, size_t i)
{
    const struct api_priv *priv = api_priv_of(r);
    size_t n = r->response.width, keep = priv->top_k && priv->top_k < n ? priv->top_k : n;
    struct arena arena = { 0 };
    struct scored *s = arena_array(&arena, struct scored, n);
    enum api_apply how = priv->apply;

    if (how == API_APPLY_DEFAULT)
        how = r->raw_scores ? API_APPLY_NONE : n == 1 ? API_APPLY_SIGMOID : API_APPLY_SOFTMAX;
    for (size_t k = 0; k < n; k++)
        s[k] = (struct scored){ r->response.rows[r->texts[i].row * r->response.width + k], k };
    apply_activation(s, n, how);
    qsort(s, n, sizeof(*s), by_score);
    json_arr(w);
    for (size_t k = 0; k < keep; k++) {
        json_obj(w);
        json_key(w, "score");
        api_float(w, s[k].score);
        write_label(w, r, s[k].index);
        json_obj_end(w);
    }
    json_arr_end(w);
    arena_release(&arena);
}

/* ---- beside the numbers */

void api_fingerprint(struct json_out *w, const struct request *r)
{
    char text[64];

    if (!r->response.digest)
        return;
    (void)snprintf(text, sizeof(text), "fp_%s", r->response.digest);
    json_kv_str(w, "system_fingerprint", text);
}

void api_usage(struct json_out *w, const struct request *r)
{
    json_kv_obj(w, "usage");
    json_kv_int(w, "prompt_tokens", (int64_t)r->response.tokens_total);
    json_kv_int(w, "total_tokens", (int64_t)r->response.tokens_total);
    json_obj_end(w);
}

void api_item_extras(struct json_out *w, const struct request_text *it)
{
    json_kv_int(w, "tokens", it->tokens);
    json_kv_bool(w, "truncated", it->truncated);
    if (it->truncated)
        json_kv_int(w, "cut", it->cut);
}

static uint64_t count_characters(struct tok_text t)
{
    uint64_t n = 0;

    for (size_t i = 0; i < t.len; i++)
        n += ((unsigned char)t.p[i] & 0xc0) != 0x80; /* all but the bytes that go on */
    return n;
}

/* As TEI counts them: ids as one each, the query with every document. */
static uint64_t request_characters(const struct request *r)
{
    uint64_t n = r->what == REQUEST_RANK ? count_characters(r->query) * r->count : 0;

    for (size_t i = 0; i < r->count; i++) {
        const struct request_input *in = &r->inputs[i];
        n += in->text.p ? count_characters(in->text) + count_characters(in->pair) : in->id_count;
    }
    return n;
}

void api_fields(const struct request *r, struct buf *out)
{
    size_t told = r->count < API_FIELD_ITEMS_MAX ? r->count : API_FIELD_ITEMS_MAX, cut = 0;

    buf_addf(out, "x-compute-time: %" PRId64 "\r\nx-compute-characters: %" PRIu64 "\r\n",
             r->response.times.total / 1000000, request_characters(r));
    buf_adds(out, "x-stoker-tokens: ");
    for (size_t i = 0; i < told; i++)
        buf_addf(out, "%s%u", i ? ", " : "", r->texts[i].tokens);
    for (size_t i = 0; i < r->count; i++)
        cut += r->texts[i].truncated;
    buf_addf(out, "\r\nx-stoker-truncated: %zu\r\n", cut);
    for (size_t i = 0, n = 0; cut && i < r->count && n < API_FIELD_ITEMS_MAX; i++)
        if (r->texts[i].truncated)
            buf_addf(out, "%s%zu;at=%u", n++ ? ", " : "x-stoker-cuts: ", i, r->texts[i].cut);
    if (cut)
        buf_adds(out, "\r\n");
    if (r->encodings == API_OCTETS && r->count) {
        const struct request_text *last = &r->texts[r->count - 1];
        buf_addf(out, "x-stoker-shape: %zu, %zu\r\n", last->row + last->row_count,
                 r->response.width);
    }
}

void api_fields_octets(const struct request *r, struct buf *out)
{
    if (r->encodings == API_OCTETS)
        api_fields(r, out);
}
