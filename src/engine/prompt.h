/* SPDX-License-Identifier: MIT */
/* prompt: what stands between a user's text and the tokenizer: the prompt before it, and nothing
 * else.
 *
 * As sentence-transformers does it since 6.2: white space at the ends of a text is the
 * tokenizer's affair (releases before that cut it off), and lower case is one of its normalizers
 * (struct tok_rules).  Bytes that are no UTF-8 pass through: the tokenizer gives them their
 * meaning. */
#ifndef ENGINE_PROMPT_H
#define ENGINE_PROMPT_H
#include "base/buf.h"
#include "model/tokenizer.h"

/* `prompt` NULL: none.  The result is borrowed from `t` or from `scratch` until either changes. */
struct tok_text text_prepare(struct tok_text t, const char *prompt, struct buf *scratch);
/* The byte of `t` where byte `at` of what was prepared comes from. */
size_t text_origin(struct tok_text t, const char *prompt, size_t at);
/* How many tokens of a text that begins with the prompt are the prompt's, as the reference
 * counts them for models that pool without it: the prompt's tokens without a text, the
 * template's first included and its last left out where it is a special token by its name.
 * So many of a text's first tokens are left out of the pooling, also where the text was cut at
 * the left and they are no longer the prompt's. */
enum rc text_prompt_tokens(const struct tokenizer *t, struct tok_scratch *s, const char *prompt,
                           const struct tok_opts *o, size_t *out, struct err *err) MUST_USE;
/* The prompt of e5-instruct models for a task. */
void text_instruction(const char *task, struct buf *out);

#endif
