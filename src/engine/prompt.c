/* SPDX-License-Identifier: MIT */
#include "engine/prompt.h"

#include <string.h>

enum { TEXT_BYTES_MAX = 512 << 20 }; /* a text with its prompt */

struct tok_text text_prepare(struct tok_text t, const char *prompt, struct buf *scratch)
{
    if (!prompt || !prompt[0])
        return t;
    buf_reset(scratch);
    scratch->max = TEXT_BYTES_MAX;
    buf_adds(scratch, prompt);
    buf_add(scratch, t.p, t.len);
    return (struct tok_text){ buf_str(scratch), scratch->len };
}

size_t text_origin(struct tok_text t, const char *prompt, size_t at)
{
    size_t before = prompt ? strlen(prompt) : 0;

    return at <= before ? 0 : at - before < t.len ? at - before : t.len;
}

enum rc text_prompt_tokens(const struct tokenizer *t, struct tok_scratch *s, const char *prompt,
                           const struct tok_opts *o, size_t *out, struct err *err)
{
    struct tok_text text = { prompt, strlen(prompt) };
    struct tok_out got;

    if (tokenizer_encode(t, s, text, NULL, o, &got, err))
        return err_ctx(err, "could not tokenise the prompt");
    *out = got.count && tokenizer_is_special(t, got.ids[got.count - 1]) ? got.count - 1 : got.count;
    return RC_OK;
}

void text_instruction(const char *task, struct buf *out)
{
    buf_addf(out, "Instruct: %s\nQuery: ", task);
}
