/* SPDX-License-Identifier: MIT */
/* encode: the inputs of a call as token ids, ready for the queue.
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
static bool prompt_of_type(struct call *c, const char *type, const char **out)
{
    const struct served *m = c->model;
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
    (void)ask_fault(&c->fault, ASK_E_INVALID, "input_type",
                    "'input_type' must be one of %.400s, not '%.64s'", buf_str(&words), type);
    buf_release(&words);
    return false;
}

/* Of pairs it is the first text's. */
static bool choose_prompt(struct call *c, const char **out)
{
    const struct served *m = c->model;

    *out = NULL;
    if (c->ask.instruction) {
        struct buf b = { 0 };
        text_instruction(c->ask.instruction, &b);
        *out = arena_strdup(&c->ask.arena, buf_str(&b));
        buf_release(&b);
    } else if (c->ask.prompt_name) {
        *out = prompt_of(m, c->ask.prompt_name);
        if (!*out)
            return ask_fault(&c->fault, ASK_E_INVALID, "prompt_name",
                             "model '%s' has no prompt '%s'", m->name, c->ask.prompt_name);
    } else if (c->ask.input_type) {
        return prompt_of_type(c, c->ask.input_type, out);
    } else if (m->model->default_prompt) {
        *out = prompt_of(m, m->model->default_prompt);
    }
    return true;
}

/* ---- one input */

static size_t limit_of(const struct call *c)
{
    size_t max = c->model->max_tokens;

    return c->ask.max_tokens && c->ask.max_tokens < max ? c->ask.max_tokens : max;
}

static bool too_long(struct call *c, size_t i, size_t tokens, size_t max)
{
    return ask_fault(&c->fault, ASK_E_TOO_LONG, NULL,
                     "input %zu has %zu tokens, %zu at most; truncation was refused", i, tokens,
                     max);
}

static void keep_ids(struct call *c, size_t i, const uint32_t *ids, const uint8_t *types, size_t n)
{
    struct job_item *it = &c->job.items[i];

    it->ids = arena_memdup(&c->ask.arena, ids, n * sizeof(*ids));
    it->types = types ? arena_memdup(&c->ask.arena, types, n) : NULL;
    it->tokens = (uint32_t)n;
}

static bool call_cuts_left(const struct call *c)
{
    return c->ask.left == ASK_DEFAULT ? tokenizer_cuts_left(c->model->tok) : c->ask.left == ASK_YES;
}

/* Do they have the special tokens that the model's tokenizer puts around a text? */
static bool ids_are_whole(struct call *c, struct front_own *own, const struct ask_input *in)
{
    struct tok_opts o = { .truncate = TOK_LONGEST_FIRST };
    struct tok_out one;
    size_t before = 0, behind = 0;

    if (tokenizer_encode(c->model->tok, own->scratch, (struct tok_text){ "a", 1 }, NULL, &o, &one,
                         &c->err))
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

static bool take_ids(struct call *c, struct front_own *own, size_t i)
{
    const struct ask_input *in = &c->ask.inputs[i];
    size_t max = limit_of(c), n = in->id_count;
    struct answer_item *it = &c->answer.items[i];

    for (size_t k = 0; k < n; k++)
        if (in->ids[k] >= c->model->model->vocab)
            return ask_fault(&c->fault, ASK_E_INVALID, "input",
                             "id %u of input %zu is not in the vocabulary of model '%s' (%zu)%s",
                             in->ids[k], i, c->model->name, c->model->model->vocab,
                             c->ask.ids_whole ? ": send text (LangChain: " LANGCHAIN_SETTING ")"
                                              : "");
    if (c->ask.ids_whole && !ids_are_whole(c, own, in))
        return ask_fault(&c->fault, ASK_E_INVALID, "input",
                         "the ids of input %zu lack the special tokens of model '%s' around them, "
                         "as ids of another tokenizer do: send text (LangChain: " LANGCHAIN_SETTING
                         "), or add_special_tokens: false with ids of this model",
                         i, c->model->name);
    if (n > max && c->ask.truncate == ASK_NO)
        return too_long(c, i, n, max);
    *it = (struct answer_item){ .tokens = (uint32_t)(n < max ? n : max),
                                .truncated = n > max,
                                .cut = (uint32_t)(n <= max            ? 0
                                                  : call_cuts_left(c) ? n - max
                                                                      : max) };
    keep_ids(c, i, in->ids + (call_cuts_left(c) ? n - it->tokens : 0), NULL, it->tokens);
    return true;
}

/* Tokens of the prompt for models that pool without it. */
static bool count_prompt(struct call *c, struct front_own *own, const char *prompt, size_t *out)
{
    struct tok_opts o = { .max_tokens = limit_of(c),
                          .truncate = TOK_LONGEST_FIRST,
                          .no_specials = c->ask.no_specials };

    *out = 0;
    if (!prompt || !prompt[0] || !c->model->model->prompt_apart || c->ask.what != ASK_VECTORS)
        return true;
    if (text_prompt_tokens(c->model->tok, own->scratch, prompt, &o, out, &c->err))
        return ask_fault(&c->fault, ASK_E_TOKENIZER, "prompt_name", "%s", c->err.msg);
    return true;
}

static bool take_text(struct call *c, struct front_own *own, size_t i, const char *prompt,
                      size_t skip)
{
    const struct ask_input *in = &c->ask.inputs[i];
    struct tok_opts o = { .max_tokens = limit_of(c),
                          .truncate = c->ask.truncate == ASK_NO ? TOK_NEVER : TOK_LONGEST_FIRST,
                          .left = call_cuts_left(c),
                          .no_specials = c->ask.no_specials,
                          .stop_early = true };
    struct tok_text first = text_prepare(in->text, prompt, &own->prepared);
    struct tok_out out;

    if (tokenizer_encode(c->model->tok, own->scratch, first, in->pair.p ? &in->pair : NULL, &o,
                         &out, &c->err))
        return ask_fault(&c->fault, ASK_E_TOKENIZER, NULL, "input %zu: %s", i, c->err.msg);
    if (!out.count)
        return ask_fault(&c->fault, ASK_E_EMPTY, NULL, "input %zu has no tokens", i);
    if (out.count > o.max_tokens)
        return too_long(c, i, out.count, o.max_tokens);
    uint32_t cut = out.truncated ? (uint32_t)text_origin(in->text, prompt, out.cut[0]) : 0;
    c->answer.items[i] = (struct answer_item){ .tokens = (uint32_t)out.count,
                                               .truncated = out.truncated,
                                               .cut = cut };
    keep_ids(c, i, out.ids, out.types, out.count);
    c->job.items[i].skip = (uint32_t)skip;
    return true;
}

/* ---- pairs of one query */

static bool take_pairs(struct call *c, struct front_own *own)
{
    size_t max = limit_of(c);
    struct pair_opts o = { .max_tokens = max,
                           .max_query_tokens = c->ask.max_tokens_query,
                           .max_doc_tokens = c->ask.max_tokens_doc,
                           .never = c->ask.truncate == ASK_NO,
                           .left = call_cuts_left(c) };
    const char *prompt = NULL;
    uint32_t *ids = arena_array(&c->ask.arena, uint32_t, max);
    uint8_t *types = arena_array(&c->ask.arena, uint8_t, max);
    struct pair p = { 0 };
    bool ok = true;

    if (!choose_prompt(c, &prompt))
        return false;
    struct tok_text query = text_prepare(c->ask.query, prompt, &own->prepared);
    query.p = arena_strndup(&c->ask.arena, query.p, query.len);
    if (pair_open(&p, c->model->tok, own->scratch, query, &o, &c->err))
        return ask_fault(&c->fault, ASK_E_TOKENIZER, "query", "%s", c->err.msg);
    for (size_t i = 0; ok && i < c->ask.count; i++) {
        struct tok_text doc = c->ask.inputs[i].text;
        struct pair_out out;
        enum rc rc =
            pair_encode(&p, c->model->tok, own->scratch, doc, &o, ids, types, &out, &c->err);
        if (rc != RC_OK) {
            ok = ask_fault(&c->fault, rc == RC_LIMIT ? ASK_E_TOO_LONG : ASK_E_TOKENIZER, NULL,
                           "document %zu: %s", i, c->err.msg);
            break;
        }
        size_t cut = out.truncated ? text_origin(doc, NULL, out.cut) : 0;
        c->answer.items[i] = (struct answer_item){ .tokens = (uint32_t)out.count,
                                                   .truncated = out.truncated,
                                                   .cut = (uint32_t)cut };
        keep_ids(c, i, ids, types, out.count);
    }
    pair_close(&p);
    return ok;
}

/* ---- all of them */

static size_t rows_of(const struct call *c, size_t i)
{
    return c->job.want == ENG_TOKENS ? c->answer.items[i].tokens : 1;
}

/* Room for what comes out, in the order of the inputs. */
static bool make_rows(struct call *c)
{
    size_t rows = 0;

    c->full_width = eng_width(c->model->model, c->job.want);
    for (size_t i = 0; i < c->ask.count; i++) {
        c->answer.items[i].row = rows;
        c->answer.items[i].row_count = rows_of(c, i);
        c->answer.tokens_total += c->answer.items[i].tokens;
        rows += c->answer.items[i].row_count;
    }
    if (rows > SERVE_ROW_BYTES_MAX / sizeof(float) / c->full_width)
        return ask_fault(&c->fault, ASK_E_TOO_MANY, NULL,
                         "the reply would hold %zu rows of %zu numbers: ask for fewer at a time",
                         rows, c->full_width);
    if (!call_take_bytes(c, rows * c->full_width * (sizeof(float) + SERVE_FLOAT_TEXT_BYTES)))
        return false;
    c->row_count = rows;
    c->rows = malloc((rows ? rows : 1) * c->full_width * sizeof(float));
    if (!c->rows)
        return ask_fault(&c->fault, ASK_E_NO_MEMORY, NULL, "no memory for %zu rows", rows);
    for (size_t i = 0; i < c->ask.count; i++)
        c->job.items[i].out = c->rows + c->answer.items[i].row * c->full_width;
    return true;
}

bool call_encode(struct call *c, struct front_own *own)
{
    const char *prompt = NULL;
    size_t longest = 0, skip = 0;
    bool ok = true;

    assert(c->ask.count);
    c->job.items = arena_array(&c->ask.arena, struct job_item, c->ask.count);
    c->job.count = c->ask.count;
    c->answer.items = arena_array(&c->ask.arena, struct answer_item, c->ask.count);
    if (c->ask.what == ASK_RANK) {
        ok = take_pairs(c, own);
    } else {
        ok = choose_prompt(c, &prompt) && count_prompt(c, own, prompt, &skip);
        for (size_t i = 0; ok && i < c->ask.count; i++)
            ok = c->ask.inputs[i].text.p ? take_text(c, own, i, prompt, skip) : take_ids(c, own, i);
    }
    for (size_t i = 0; i < c->ask.count; i++)
        longest = c->ask.inputs[i].text.len > longest ? c->ask.inputs[i].text.len : longest;
    if (longest > ENCODE_SCRATCH_KEEP) {
        tok_scratch_free(own->scratch);
        own->scratch = tok_scratch_new();
        buf_release(&own->prepared);
    }
    return ok && make_rows(c);
}

/* ---- tokens for their own sake */

/* As TEI: a token's text is what it is of the input (its prompt included), a special one's its
 * name. */
static const char *token_text(struct call *c, struct tok_text in, const struct tok_out *out,
                              size_t k)
{
    uint32_t begin = out->offsets[k].begin, end = out->offsets[k].end;

    if (out->special[k] || begin > end || end > in.len)
        return tokenizer_token(c->model->tok, out->ids[k]);
    return arena_strndup(&c->ask.arena, in.p + begin, end - begin);
}

static bool list_tokens(struct call *c, struct front_own *own, size_t i, const char *prompt)
{
    struct tok_opts o = { .no_specials = c->ask.no_specials, .truncate = TOK_NEVER };
    struct tok_text in = text_prepare(c->ask.inputs[i].text, prompt, &own->prepared);
    struct arena *a = &c->ask.arena;
    struct tok_out out;

    if (tokenizer_encode(c->model->tok, own->scratch, in, NULL, &o, &out, &c->err))
        return ask_fault(&c->fault, ASK_E_TOKENIZER, NULL, "input %zu: %s", i, c->err.msg);
    if (!call_take_bytes(c, out.count * SERVE_TOKEN_BYTES + in.len))
        return false;
    struct answer_token *t = arena_array(a, struct answer_token, out.count ? out.count : 1);
    for (size_t k = 0; k < out.count; k++)
        t[k] = (struct answer_token){ .id = out.ids[k],
                                      .text = token_text(c, in, &out, k),
                                      .special = out.special[k],
                                      .begin = out.offsets[k].begin,
                                      .end = out.offsets[k].end };
    c->answer.tokens[i] = t;
    c->answer.items[i].tokens = (uint32_t)out.count;
    c->answer.tokens_total += out.count;
    return true;
}

static bool list_text(struct call *c, size_t i)
{
    const struct ask_input *in = &c->ask.inputs[i];
    struct buf b = { 0 };
    enum rc rc =
        tokenizer_decode(c->model->tok, in->ids, in->id_count, c->ask.skip_specials, &b, &c->err);

    if (rc == RC_OK && !call_take_bytes(c, 2 * b.len))
        rc = RC_LIMIT;
    else if (rc == RC_OK)
        c->answer.texts[i] = arena_strndup(&c->ask.arena, buf_str(&b), b.len);
    else
        (void)ask_fault(&c->fault, ASK_E_TOKENIZER, NULL, "ids %zu: %s", i, c->err.msg);
    buf_release(&b);
    return rc == RC_OK;
}

bool call_tokenize(struct call *c, struct front_own *own)
{
    const char *prompt = NULL;
    struct arena *a = &c->ask.arena;
    bool ok = c->ask.what == ASK_TEXTS || choose_prompt(c, &prompt);

    c->answer.model = c->model->name;
    c->answer.net = c->model->model;
    c->answer.items = arena_array(a, struct answer_item, c->ask.count);
    c->answer.tokens = arena_array(a, struct answer_token *, c->ask.count);
    c->answer.texts = arena_array(a, const char *, c->ask.count);
    for (size_t i = 0; ok && i < c->ask.count; i++) {
        if (i && clock_mono_ns() > c->ask.deadline_ns)
            return ask_fault(&c->fault, ASK_E_DEADLINE, NULL,
                             "the deadline passed after %zu of %zu inputs", i, c->ask.count);
        if (c->x && http_gone(c->x))
            return ask_fault(&c->fault, ASK_E_DEADLINE, NULL, "the client has left");
        ok = c->ask.what == ASK_TEXTS ? list_text(c, i) : list_tokens(c, own, i, prompt);
    }
    return ok;
}
