/* SPDX-License-Identifier: MIT */
/* tokenizer_decode: ids back to text, as the tokenizer's own decoder does it.  Ids that no
 * token has are passed over, as in the reference. */
#include "base/buf.h"
#include "base/text/utf8.h"
#include "model/tokenizer/tokenizer_int.h"

static bool is_special(const struct tokenizer *t, const char *s, size_t len)
{
    for (size_t i = 0; i < t->added_count; i++)
        if (t->added[i].special && t->added[i].len == len && !memcmp(t->added[i].content, s, len))
            return true;
    return false;
}

/* Replaces `from` by `to` in everything behind `start`. */
static void replace_text(struct buf *b, size_t start, const char *from, const char *to)
{
    size_t from_len = strlen(from), to_len = strlen(to), w = start;

    for (size_t i = start; i < b->len;) {
        if (b->len - i >= from_len && !memcmp(b->data + i, from, from_len)) {
            memcpy(b->data + w, to, to_len);
            w += to_len;
            i += from_len;
        } else
            b->data[w++] = b->data[i++];
    }
    if (b->data) {
        b->len = w;
        b->data[w] = '\0';
    }
}

/* English as it is written: the reference's list, in its order; none grows. */
static void cleanup_spaces(struct buf *b, size_t start)
{
    static const char *const pairs[][2] = {
        { " .", "." },   { " ?", "?" },     { " !", "!" },     { " ,", "," },
        { " ' ", "'" },  { " n't", "n't" }, { " 'm", "'m" },   { " do not", " don't" },
        { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
        replace_text(b, start, pairs[i][0], pairs[i][1]);
}

static void add_wordpiece(const struct decoder *d, struct buf *out, const char *s, size_t len,
                          bool first)
{
    size_t start = out->len;

    if (!first) {
        if (len >= d->prefix_len && !memcmp(s, d->prefix, d->prefix_len)) {
            s += d->prefix_len;
            len -= d->prefix_len;
        } else
            buf_addc(out, ' ');
    }
    buf_add(out, s, len);
    if (d->cleanup && !out->over)
        cleanup_spaces(out, start);
}

static void add_metaspace(const struct decoder *d, struct buf *out, const char *s, size_t len,
                          bool first)
{
    for (size_t i = 0; i < len;) {
        uint32_t c;
        size_t n = utf8_decode(s + i, len - i, &c);

        if (!n)
            break;
        if (c != d->replacement)
            buf_add(out, s + i, n);
        else if (!first || !d->prepend)
            buf_addc(out, ' ');
        i += n;
    }
}

enum rc tokenizer_decode(const struct tokenizer *t, const uint32_t *ids, size_t count,
                         bool skip_special, struct buf *out, struct err *err)
{
    const struct decoder *d = &t->decoder;
    const struct vocab_entry *e;
    bool first = true;

    if (d->kind == DECODE_UNKNOWN)
        return err_set(err, RC_USAGE, "decoder '%s' is not one of WordPiece, Metaspace", d->name);
    for (size_t i = 0; i < count; i++) {
        const struct added *a = added_of_id(t, ids[i]);
        const char *s = a ? a->pattern : NULL;
        size_t len = a ? a->pattern_len : 0;

        if (!a && (e = vocab_get(&t->vocab, ids[i]))) {
            s = e->text;
            len = e->len;
        }
        if (!s || (skip_special && is_special(t, s, len)))
            continue;
        if (d->kind == DECODE_WORDPIECE)
            add_wordpiece(d, out, s, len, first);
        else if (d->kind == DECODE_METASPACE)
            add_metaspace(d, out, s, len, first);
        else {
            if (!first)
                buf_addc(out, ' ');
            buf_add(out, s, len);
        }
        first = false;
    }
    return out->over ? err_set(err, RC_LIMIT, "the decoded text is too long") : RC_OK;
}
