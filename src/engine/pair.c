/* SPDX-License-Identifier: MIT */
/* pair: where the query's ids stand is found out by encoding it once with a document of one letter,
 * so that no knowledge of templates is needed here. */
#include "engine/pair.h"

#include "base/mem.h"

#include <assert.h>

/* Encodes the query with a document of one letter and looks where that went. */
static enum rc take_apart(struct pair *p, const struct tok_out *t, struct err *err)
{
    size_t first = 0, last;

    while (first < t->count && t->sequence[first] != 1)
        first++;
    for (last = t->count; last > first && t->sequence[last - 1] != 1; last--)
        ;
    if (first == last)
        return err_set(err, RC_PARSE, "the model's tokenizer makes no pairs");
    p->before = first;
    p->behind = t->count - last;
    p->doc_type = t->types[first];
    p->ids = xcalloc(p->before + p->behind, sizeof(*p->ids));
    p->types = xcalloc(p->before + p->behind, 1);
    memcpy(p->ids, t->ids, first * sizeof(*p->ids));
    memcpy(p->types, t->types, first);
    memcpy(p->ids + first, t->ids + last, p->behind * sizeof(*p->ids));
    memcpy(p->types + first, t->types + last, p->behind);
    return RC_OK;
}

/* The query's own limit: its tokens behind that are taken out of the head. */
static void cut_query(struct pair *p, const struct tok_out *t, size_t max, bool left)
{
    size_t first = 0, count, drop;

    while (first < p->before && t->sequence[first] != 0)
        first++;
    for (count = first; count < p->before && t->sequence[count] == 0; count++)
        ;
    count -= first;
    p->query_tokens = count;
    if (!max || count <= max)
        return;
    drop = count - max;
    size_t from = left ? first + drop : first + count, to = left ? first : first + max;
    size_t rest = p->before + p->behind - from;
    memmove(p->ids + to, p->ids + from, rest * sizeof(*p->ids));
    memmove(p->types + to, p->types + from, rest);
    p->before -= drop;
    p->query_tokens = max;
    p->query_truncated = true;
}

enum rc pair_open(struct pair *p, const struct tokenizer *t, struct tok_scratch *s,
                  struct tok_text query, const struct pair_opts *o, struct err *err)
{
    static const struct tok_text probe = { "a", 1 };
    struct tok_opts to = { .truncate = TOK_NEVER };
    struct tok_out out;
    struct pair made = { .query = query };
    size_t around;

    if (tokenizer_encode(t, s, query, &probe, &to, &out, err))
        return err_ctx(err, "could not tokenise the query");
    if (take_apart(&made, &out, err))
        return err->code;
    cut_query(&made, &out, o->max_query_tokens, o->left);
    around = made.before + made.behind;
    /* a query over half of the limit gives way too, as the longer text of the two */
    made.whole = around >= o->max_tokens ||
                 (!o->max_query_tokens && !o->max_doc_tokens &&
                  made.query_tokens > (o->max_tokens - (around - made.query_tokens)) / 2);
    *p = made;
    return RC_OK;
}

void pair_close(struct pair *p)
{
    free(p->ids);
    free(p->types);
    *p = (struct pair){ 0 };
}

static void put_between(const struct pair *p, const struct tok_out *t, uint32_t *ids,
                        uint8_t *types)
{
    memcpy(ids, p->ids, p->before * sizeof(*ids));
    memcpy(types, p->types, p->before);
    memcpy(ids + p->before, t->ids, t->count * sizeof(*ids));
    memset(types + p->before, p->doc_type, t->count);
    memcpy(ids + p->before + t->count, p->ids + p->before, p->behind * sizeof(*ids));
    memcpy(types + p->before + t->count, p->types + p->before, p->behind);
}

/* A query that may have to give way: the tokenizer cuts both. */
static enum rc encode_whole(const struct pair *p, const struct tokenizer *t, struct tok_scratch *s,
                            struct tok_text doc, const struct pair_opts *o, uint32_t *ids,
                            uint8_t *types, struct pair_out *out, struct err *err)
{
    struct tok_opts to = { .max_tokens = o->max_tokens,
                           .truncate = TOK_LONGEST_FIRST,
                           .left = o->left,
                           .stop_early = !o->never };
    struct tok_out e;
    enum rc rc = tokenizer_encode(t, s, p->query, &doc, &to, &e, err);

    if (rc != RC_OK)
        return rc;
    assert(e.count <= o->max_tokens);
    memcpy(ids, e.ids, e.count * sizeof(*ids));
    memcpy(types, e.types, e.count);
    *out = (struct pair_out){ e.count, e.untruncated, e.truncated, e.cut[1] };
    return RC_OK;
}

enum rc pair_encode(const struct pair *p, const struct tokenizer *t, struct tok_scratch *s,
                    struct tok_text doc, const struct pair_opts *o, uint32_t *ids, uint8_t *types,
                    struct pair_out *out, struct err *err)
{
    size_t around = p->before + p->behind, room = p->whole ? 0 : o->max_tokens - around;
    struct tok_opts to = {
        .truncate = TOK_LONGEST_FIRST, .left = o->left, .no_specials = true, .stop_early = !o->never
    };
    struct pair_out made;
    struct tok_out e;
    enum rc rc;

    if (p->whole) {
        rc = encode_whole(p, t, s, doc, o, ids, types, &made, err);
        if (rc != RC_OK)
            return rc;
    } else {
        to.max_tokens = o->max_doc_tokens && o->max_doc_tokens < room ? o->max_doc_tokens : room;
        rc = tokenizer_encode(t, s, doc, NULL, &to, &e, err);
        if (rc != RC_OK)
            return rc;
        put_between(p, &e, ids, types);
        made = (struct pair_out){ around + e.count, around + e.untruncated,
                                  e.truncated || p->query_truncated, e.cut[0] };
    }
    if (o->never && made.truncated)
        return err_set(err, RC_LIMIT, "query and document have %zu tokens, %zu at most",
                       made.untruncated, o->max_tokens);
    *out = made;
    return RC_OK;
}
