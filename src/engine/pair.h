/* SPDX-License-Identifier: MIT */
/* pair: a query and many documents as the pairs a cross-encoder reads.
 *
 * The query is tokenised once: the tokenizer's pair template is taken apart into what stands
 * before a document's tokens and what stands behind them, and each document is put between.
 *
 *     [CLS] query [SEP] | document | [SEP]
 *        before                      behind
 *
 * A pair that is too long is cut as the tokenizer cuts it, the longer text first: the document, as
 * long as the query is at most half of the room; else each pair is encoded as a whole.  With limits
 * of its own for query or document, as some APIs have, a document is cut to the room left. */
#ifndef ENGINE_PAIR_H
#define ENGINE_PAIR_H
#include "model/tokenizer.h"

struct pair {
    uint32_t *ids; /* before the document, then behind it; owned */
    uint8_t *types;
    size_t before, behind;
    uint8_t doc_type;
    bool whole;            /* the query may have to give way: each pair is encoded as a whole */
    struct tok_text query; /* borrowed */
    size_t query_tokens;   /* used, without specials */
    bool query_truncated;
};

struct pair_opts {
    size_t max_tokens;       /* of a pair, specials included */
    size_t max_query_tokens; /* 0: no limit of its own */
    size_t max_doc_tokens;   /* 0: what the query leaves */
    bool never;              /* do not cut: the counts tell */
    bool left;
};

struct pair_out {
    size_t count;       /* ids written */
    size_t untruncated; /* it would have been; exact where pair_opts.never refuses it */
    bool truncated;
    uint32_t cut; /* byte of the document behind (left: before) the last token kept */
};

/* `query` must live as long as the pair. */
enum rc pair_open(struct pair *p, const struct tokenizer *t, struct tok_scratch *s,
                  struct tok_text query, const struct pair_opts *o, struct err *err) MUST_USE;
void pair_close(struct pair *p);
/* ids and types have room for max_tokens; with `never`, a pair that is too long is RC_LIMIT. */
enum rc pair_encode(const struct pair *p, const struct tokenizer *t, struct tok_scratch *s,
                    struct tok_text doc, const struct pair_opts *o, uint32_t *ids, uint8_t *types,
                    struct pair_out *out, struct err *err) MUST_USE;

#endif
