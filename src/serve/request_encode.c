/* SPDX-License-Identifier: MIT */
/* request_encode: the inputs of a request as token ids, ready for the queue.
 *
 * Texts are prepared as sentence-transformers prepares them (engine/prompt.h), with the prompt
 * that the request names; ids that a client gives are checked and passed on as they are.
 *
 * Ids at OpenAI's routes are, by that API, cl100k_base's: LangChain sends them by default.  Most
 * are below the size of any vocabulary, so that they would become vectors of other words, and
 * nobody would know.  Ids of the model's own tokenizer can be told from them: they begin and end
 * with its special tokens. */
#include "base/str.h"
#include "engine/pair.h"
#include "engine/prompt.h"
#include "os/clock.h"
#include "serve/serve_int.h"

#include <assert.h>
#include <string.h>

#define LANGCHAIN_SETTING "OpenAIEmbeddings(check_embedding_ctx_length=False)"

enum { ENCODE_SCRATCH_KEEP = 1 << 20 }; /* bytes of a text whose scratch memory is kept */

/* ---- prompts */

static const char *prompt_of(const struct served *m, const char *name)
{
    for (size_t i = 0; i < m->prompt_count; i++)
        if (str_eq(m->prompts[i].name, name))
            return m->prompts[i].text;
    return NULL;
}

/* What kinds of input are called by different APIs, and the names that prompts have then. */
static const struct {
    const char *type, *names[4];
} input_kinds[] = {
    { "query", { "query", NULL } },
    { "document", { "document", "passage", "corpus", NULL } },
    { "passage", { "passage", "document", "corpus", NULL } },
    { "search_query", { "query", NULL } },
    { "search_document", { "document", "passage", "corpus", NULL } },
    { "classification", { NULL } },
    { "clustering", { NULL } },
    { "separation", { NULL } },
    { "text-matching", { NULL } },
    { "code.query", { NULL } },
    { "code.passage", { NULL } },
    { "nl2code.query", { NULL } },
    { "nl2code.passage", { NULL } },
    { "none", { NULL } },
};
enum { INPUT_KINDS_TOLD = 7 }; /* the rest are Jina's tasks */

/* A prompt of that name, else of that kind; none is fine where the kind is known. */
static bool prompt_of_type(struct request *r, const char *type, const char **out)
{
    const struct served *m = r->model;
    struct buf words = { 0 };
    bool known = false;

    *out = prompt_of(m, type);
    for (size_t i = 0; !*out && i < ARRAY_SIZE(input_kinds); i++) {
        if (!str_eq(input_kinds[i].type, type))
            continue;
        known = true;
        for (size_t k = 0; !*out && input_kinds[i].names[k]; k++)
            *out = prompt_of(m, input_kinds[i].names[k]);
    }
    if (*out || known)
        return true;
    for (size_t i = 0; i < INPUT_KINDS_TOLD; i++)
        buf_addf(&words, "%s%s", i ? ", " : "", input_kinds[i].type);
    for (size_t i = 0; i < m->prompt_count; i++)
        buf_addf(&words, ", %.64s", m->prompts[i].name);
    (void)request_fail(r, FAULT_INVALID, "input_type",
                       "'input_type' must be one of %.400s, not '%.64s'", buf_str(&words), type);
    buf_release(&words);
    return false;
}

/* Of pairs it is the first text's. */
static bool choose_prompt(struct request *r, const char **out)
{
    const struct served *m = r->model;

    *out = NULL;
    if (r->instruction) {
        struct buf b = { 0 };
        text_instruction(r->instruction, &b);
        *out = arena_strdup(&r->arena, buf_str(&b));
        buf_release(&b);
    } else if (r->prompt_name) {
        *out = prompt_of(m, r->prompt_name);
        if (!*out)
            return request_fail(r, FAULT_INVALID, "prompt_name", "model '%s' has no prompt '%s'",
                                m->name, r->prompt_name);
    } else if (r->input_type) {
        return prompt_of_type(r, r->input_type, out);
    } else if (m->model->default_prompt) {
        *out = prompt_of(m, m->model->default_prompt);
    }
    return true;
}

/* ---- one input */

static size_t limit_of(const struct request *r)
{
    size_t max = r->model->max_tokens;

    return r->max_tokens && r->max_tokens < max ? r->max_tokens : max;
}

static bool too_long(struct request *r, size_t i, size_t tokens, size_t max)
{
    return request_fail(r, FAULT_TOO_LONG, NULL,
                        "input %zu has %zu tokens, %zu at most; truncation was refused", i, tokens,
                        max);
}

static void keep_ids(struct request *r, size_t i, const uint32_t *ids, const uint8_t *types,
                     size_t n)
{
    struct request_text *it = &r->texts[i];

    it->ids = arena_memdup(&r->arena, ids, n * sizeof(*ids));
    it->types = types ? arena_memdup(&r->arena, types, n) : NULL;
    it->tokens = (uint32_t)n;
}

static bool call_cuts_left(const struct request *r)
{
    return r->cut_left == SERVE_DEFAULT ? tokenizer_cuts_left(r->model->tok)
                                        : r->cut_left == SERVE_YES;
}

/* Do they have the special tokens that the model's tokenizer puts around a text? */
static bool ids_are_whole(struct request *r, struct frontend_scratch *scratch,
                          const struct request_input *in)
{
    struct tok_opts o = { .truncate = TOK_LONGEST_FIRST };
    struct tok_out one;
    size_t before = 0, behind = 0;

    if (tokenizer_encode(r->model->tok, scratch->tok, (struct tok_text){ "a", 1 }, NULL, &o, &one,
                         &r->err))
        return false;
    while (before < one.count && one.special[before])
        before++;
    while (behind < one.count - before && one.special[one.count - 1 - behind])
        behind++;
    if (before + behind == 0 || in->id_count < before + behind)
        return false;
    return !memcmp(in->ids, one.ids, before * sizeof(*one.ids)) &&
           !memcmp(in->ids + in->id_count - behind, one.ids + one.count - behind,
                   behind * sizeof(*one.ids));
}

static bool take_ids(struct request *r, struct frontend_scratch *scratch, size_t i)
{
    const struct request_input *in = &r->inputs[i];
    size_t max = limit_of(r), n = in->id_count;
    struct request_text *it = &r->texts[i];

    for (size_t k = 0; k < n; k++)
        if (in->ids[k] >= r->model->model->vocab)
            return request_fail(r, FAULT_INVALID, "input",
                                "id %u of input %zu is not in the vocabulary of model '%s' (%zu)%s",
                                in->ids[k], i, r->model->name, r->model->model->vocab,
                                r->ids_whole ? ": send text (LangChain: " LANGCHAIN_SETTING ")"
                                             : "");
    if (r->ids_whole && !ids_are_whole(r, scratch, in))
        return request_fail(
            r, FAULT_INVALID, "input",
            "the ids of input %zu lack the special tokens of model '%s' around them, "
            "as ids of another tokenizer do: send text (LangChain: " LANGCHAIN_SETTING
            "), or add_special_tokens: false with ids of this model",
            i, r->model->name);
    if (n > max && r->truncate == SERVE_NO)
        return too_long(r, i, n, max);
    *it = (struct request_text){ .tokens = (uint32_t)(n < max ? n : max),
                                 .truncated = n > max,
                                 .cut = (uint32_t)(n <= max            ? 0
                                                   : call_cuts_left(r) ? n - max
                                                                       : max) };
    keep_ids(r, i, in->ids + (call_cuts_left(r) ? n - it->tokens : 0), NULL, it->tokens);
    return true;
}

/* Tokens of the prompt for models that pool without it. */
static bool count_prompt(struct request *r, struct frontend_scratch *scratch, const char *prompt,
                         size_t *out)
{
    struct tok_opts o = { .max_tokens = limit_of(r),
                          .truncate = TOK_LONGEST_FIRST,
                          .no_specials = r->no_specials };

    *out = 0;
    if (!prompt || !prompt[0] || !r->model->model->prompt_apart || r->what != REQUEST_VECTORS)
        return true;
    if (text_prompt_tokens(r->model->tok, scratch->tok, prompt, &o, out, &r->err))
        return request_fail(r, FAULT_TOKENIZER, "prompt_name", "%s", r->err.msg);
    return true;
}

static bool take_text(struct request *r, struct frontend_scratch *scratch, size_t i,
                      const char *prompt, size_t skip)
{
    const struct request_input *in = &r->inputs[i];
    struct tok_opts o = { .max_tokens = limit_of(r),
                          .truncate = r->truncate == SERVE_NO ? TOK_NEVER : TOK_LONGEST_FIRST,
                          .left = call_cuts_left(r),
                          .no_specials = r->no_specials,
                          .stop_early = true };
    struct tok_text first = text_prepare(in->text, prompt, &scratch->prepared);
    struct tok_out out;

    if (tokenizer_encode(r->model->tok, scratch->tok, first, in->pair.p ? &in->pair : NULL, &o,
                         &out, &r->err))
        return request_fail(r, FAULT_TOKENIZER, NULL, "input %zu: %s", i, r->err.msg);
    if (!out.count)
        return request_fail(r, FAULT_EMPTY, NULL, "input %zu has no tokens", i);
    if (out.count > o.max_tokens)
        return too_long(r, i, out.count, o.max_tokens);
    uint32_t cut = out.truncated ? (uint32_t)text_origin(in->text, prompt, out.cut[0]) : 0;
    r->texts[i] = (struct request_text){ .tokens = (uint32_t)out.count,
                                         .truncated = out.truncated,
                                         .cut = cut };
    keep_ids(r, i, out.ids, out.types, out.count);
    r->texts[i].skip = (uint32_t)skip;
    return true;
}

/* ---- pairs of one query */

static bool take_pairs(struct request *r, struct frontend_scratch *scratch)
{
    size_t max = limit_of(r);
    struct pair_opts o = { .max_tokens = max,
                           .max_query_tokens = r->max_tokens_query,
                           .max_doc_tokens = r->max_tokens_doc,
                           .never = r->truncate == SERVE_NO,
                           .left = call_cuts_left(r) };
    const char *prompt = NULL;
    uint32_t *ids = arena_array(&r->arena, uint32_t, max);
    uint8_t *types = arena_array(&r->arena, uint8_t, max);
    struct pair p = { 0 };
    bool ok = true;

    if (!choose_prompt(r, &prompt))
        return false;
    struct tok_text query = text_prepare(r->query, prompt, &scratch->prepared);
    query.p = arena_strndup(&r->arena, query.p, query.len);
    if (pair_open(&p, r->model->tok, scratch->tok, query, &o, &r->err))
        return request_fail(r, FAULT_TOKENIZER, "query", "%s", r->err.msg);
    for (size_t i = 0; ok && i < r->count; i++) {
        struct tok_text doc = r->inputs[i].text;
        struct pair_out out;
        enum rc rc =
            pair_encode(&p, r->model->tok, scratch->tok, doc, &o, ids, types, &out, &r->err);
        if (rc != RC_OK) {
            ok = request_fail(r, rc == RC_LIMIT ? FAULT_TOO_LONG : FAULT_TOKENIZER, NULL,
                              "document %zu: %s", i, r->err.msg);
            break;
        }
        size_t cut = out.truncated ? text_origin(doc, NULL, out.cut) : 0;
        r->texts[i] = (struct request_text){ .tokens = (uint32_t)out.count,
                                             .truncated = out.truncated,
                                             .cut = (uint32_t)cut };
        keep_ids(r, i, ids, types, out.count);
    }
    pair_close(&p);
    return ok;
}

/* ---- all of them */

/* Room for what comes out, in the order of the inputs. */
static bool make_rows(struct request *r)
{
    size_t rows = 0;

    r->full_width = eng_width(r->model->model, r->want);
    for (size_t i = 0; i < r->count; i++) {
        r->texts[i].row = rows;
        r->texts[i].row_count = r->want == ENG_TOKENS ? r->texts[i].tokens : 1;
        r->response.tokens_total += r->texts[i].tokens;
        rows += r->texts[i].row_count;
    }
    if (rows > SERVE_ROW_BYTES_MAX / sizeof(float) / r->full_width)
        return request_fail(r, FAULT_TOO_MANY, NULL,
                            "the reply would hold %zu rows of %zu numbers: ask for fewer at a time",
                            rows, r->full_width);
    if (!request_take_bytes(r, rows * r->full_width * (sizeof(float) + SERVE_FLOAT_TEXT_BYTES)))
        return false;
    r->row_count = rows;
    r->rows = malloc((rows ? rows : 1) * r->full_width * sizeof(float));
    if (!r->rows)
        return request_fail(r, FAULT_NO_MEMORY, NULL, "no memory for %zu rows", rows);
    for (size_t i = 0; i < r->count; i++)
        r->texts[i].out = r->rows + r->texts[i].row * r->full_width;
    return true;
}

bool request_encode(struct request *r, struct frontend_scratch *scratch)
{
    const char *prompt = NULL;
    size_t longest = 0, skip = 0;
    bool ok = true;

    assert(r->count);
    r->texts = arena_array(&r->arena, struct request_text, r->count);
    if (r->what == REQUEST_RANK) {
        ok = take_pairs(r, scratch);
    } else {
        ok = choose_prompt(r, &prompt) && count_prompt(r, scratch, prompt, &skip);
        for (size_t i = 0; ok && i < r->count; i++)
            ok = r->inputs[i].text.p ? take_text(r, scratch, i, prompt, skip)
                                     : take_ids(r, scratch, i);
    }
    for (size_t i = 0; i < r->count; i++)
        longest = r->inputs[i].text.len > longest ? r->inputs[i].text.len : longest;
    if (longest > ENCODE_SCRATCH_KEEP) {
        tok_scratch_free(scratch->tok);
        scratch->tok = tok_scratch_new();
        buf_release(&scratch->prepared);
    }
    return ok && make_rows(r);
}

/* ---- tokens for their own sake */

/* As TEI: a token's text is what it is of the input (its prompt included), a special one's its
 * name. */
static const char *token_text(struct request *r, struct tok_text in, const struct tok_out *out,
                              size_t k)
{
    uint32_t begin = out->offsets[k].begin, end = out->offsets[k].end;

    if (out->special[k] || begin > end || end > in.len)
        return tokenizer_token(r->model->tok, out->ids[k]);
    return arena_strndup(&r->arena, in.p + begin, end - begin);
}

static bool list_tokens(struct request *r, struct frontend_scratch *scratch, size_t i,
                        const char *prompt)
{
    struct tok_opts o = { .no_specials = r->no_specials, .truncate = TOK_NEVER };
    struct tok_text in = text_prepare(r->inputs[i].text, prompt, &scratch->prepared);
    struct arena *a = &r->arena;
    struct tok_out out;

    if (tokenizer_encode(r->model->tok, scratch->tok, in, NULL, &o, &out, &r->err))
        return request_fail(r, FAULT_TOKENIZER, NULL, "input %zu: %s", i, r->err.msg);
    if (!request_take_bytes(r, out.count * SERVE_TOKEN_BYTES + in.len))
        return false;
    struct response_token *t = arena_array(a, struct response_token, out.count ? out.count : 1);
    for (size_t k = 0; k < out.count; k++)
        t[k] = (struct response_token){ .id = out.ids[k],
                                        .text = token_text(r, in, &out, k),
                                        .special = out.special[k],
                                        .begin = out.offsets[k].begin,
                                        .end = out.offsets[k].end };
    r->response.tokens[i] = t;
    r->texts[i].tokens = (uint32_t)out.count;
    r->response.tokens_total += out.count;
    return true;
}

static bool list_text(struct request *r, size_t i)
{
    const struct request_input *in = &r->inputs[i];
    struct buf b = { 0 };
    enum rc rc =
        tokenizer_decode(r->model->tok, in->ids, in->id_count, r->skip_specials, &b, &r->err);

    if (rc == RC_OK && !request_take_bytes(r, 2 * b.len))
        rc = RC_LIMIT;
    else if (rc == RC_OK)
        r->response.decoded[i] = arena_strndup(&r->arena, buf_str(&b), b.len);
    else
        (void)request_fail(r, FAULT_TOKENIZER, NULL, "ids %zu: %s", i, r->err.msg);
    buf_release(&b);
    return rc == RC_OK;
}

bool request_tokenize(struct request *r, struct frontend_scratch *scratch)
{
    const char *prompt = NULL;
    struct arena *a = &r->arena;
    bool ok = r->what == REQUEST_TEXTS || choose_prompt(r, &prompt);

    r->response.model = r->model->name;
    r->response.net = r->model->model;
    r->texts = arena_array(a, struct request_text, r->count);
    r->response.tokens = arena_array(a, struct response_token *, r->count);
    r->response.decoded = arena_array(a, const char *, r->count);
    for (size_t i = 0; ok && i < r->count; i++) {
        if (i && clock_mono_ns() > r->deadline_ns)
            return request_fail(r, FAULT_DEADLINE, NULL,
                                "the deadline passed after %zu of %zu inputs", i, r->count);
        if (r->x && http_gone(r->x))
            return request_fail(r, FAULT_DEADLINE, NULL, "the client has left");
        ok = r->what == REQUEST_TEXTS ? list_text(r, i) : list_tokens(r, scratch, i, prompt);
    }
    return ok;
}
