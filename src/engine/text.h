/* SPDX-License-Identifier: MIT */
/* text: what stands between a user's text and the tokenizer.
 *
 * As sentence-transformers does it: the prompt is put before the text, white space at
 * both ends is cut as Python's str.strip() cuts it, and the whole is lower-cased as
 * str.lower() does when the model's sentence_bert_config.json says so.  Bytes that are no
 * UTF-8 pass through: the tokenizer gives them their meaning. */
#ifndef ENGINE_TEXT_H
#define ENGINE_TEXT_H
#include "base/buf.h"
#include "model/tokenizer.h"

struct text_opts {
    const char *prompt; /* NULL: none */
    bool lower;
};

/* `t` without Python's white space at its ends; borrowed from it. */
struct tok_text text_strip(struct tok_text t);
/* Python's str.lower() of UTF-8. */
void text_lower(struct tok_text t, struct buf *out);
/* All of it.  The result is borrowed from `t` or from `scratch` until either changes. */
struct tok_text text_prepare(struct tok_text t, const struct text_opts *o, struct buf *scratch);
/* The byte of `t` where byte `at` of what was prepared comes from. */
size_t text_origin(struct tok_text t, const struct text_opts *o, size_t at);
/* How many tokens of a text that begins with the prompt are the prompt's, as the reference
 * counts them for models that pool without it: the prompt's tokens without a text, the
 * template's first included and its last left out. */
enum rc text_prompt_tokens(const struct tokenizer *t, struct tok_scratch *s, const char *prompt,
                           bool lower, const struct tok_opts *o, struct buf *scratch, size_t *out,
                           struct err *err) MUST_USE;
/* The prompt of e5-instruct models for a task. */
void text_instruction(const char *task, struct buf *out);

#endif
