/* SPDX-License-Identifier: MIT */
/* encode: the inputs of a call as token ids, ready for the queue.
 *
 * Texts are prepared as sentence-transformers prepares them (engine/text.h), with the prompt
 * that the request names; ids that a client gives are checked and passed on as they are. */
#include "base/str.h"
#include "engine/pair.h"
#include "engine/text.h"
#include "serve/call.h"

#include <assert.h>

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
static const char *prompt_of_type(const struct served *m, const char *type)
{
    static const struct {
        const char *type, *names[4];
    } kinds[] = {
        { "query", { "query", NULL } },
        { "search_query", { "query", NULL } },
        { "document", { "document", "passage", "corpus", NULL } },
        { "passage", { "passage", "document", "corpus", NULL } },
        { "search_document", { "document", "passage", "corpus", NULL } },
    };
    const char *text = prompt_of(m, type);

    for (size_t i = 0; !text && i < ARRAY_SIZE(kinds); i++)
        for (size_t k = 0; !text && str_eq(kinds[i].type, type) && kinds[i].names[k]; k++)
            text = prompt_of(m, kinds[i].names[k]);
    return text;
}

/* Of pairs it is the first text's.  'stoker rerank' puts none before a query unless asked. */
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
        *out = prompt_of_type(m, c->ask.input_type);
    } else if (m->model->default_prompt && m->model->head == MODEL_HEAD_NONE) {
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

static bool take_ids(struct call *c, size_t i)
{
    const struct ask_input *in = &c->ask.inputs[i];
    size_t max = limit_of(c), n = in->id_count;
    struct answer_item *it = &c->answer.items[i];

    for (size_t k = 0; k < n; k++)
        if (in->ids[k] >= c->model->model->vocab)
            return ask_fault(&c->fault, ASK_E_INVALID, "input",
                             "id %u of input %zu is not in the vocabulary of model '%s' (%zu)",
                             in->ids[k], i, c->model->name, c->model->model->vocab);
    if (n > max && c->ask.truncate == ASK_NO)
        return too_long(c, i, n, max);
    *it = (struct answer_item){ .tokens = (uint32_t)(n < max ? n : max),
                                .untruncated = (uint32_t)n,
                                .truncated = n > max,
                                .cut = (uint32_t)(n <= max      ? 0
                                                  : c->ask.left ? n - max
                                                                : max) };
    keep_ids(c, i, in->ids + (c->ask.left ? n - it->tokens : 0), NULL, it->tokens);
    return true;
}

/* Tokens of the prompt for models that pool without it. */
static bool count_prompt(struct call *c, struct front_own *own, const struct text_opts *to,
                         size_t *out)
{
    struct tok_opts o = { .max_tokens = limit_of(c),
                          .truncate = TOK_LONGEST_FIRST,
                          .no_specials = c->ask.no_specials };

    *out = 0;
    if (!to->prompt || !to->prompt[0] || !c->model->model->prompt_apart ||
        c->ask.what != ASK_VECTORS)
        return true;
    if (text_prompt_tokens(c->model->tok, own->scratch, to->prompt, to->lower, &o, &own->prepared,
                           out, &c->err))
        return ask_fault(&c->fault, ASK_E_TOKENIZER, "prompt_name", "%s", c->err.msg);
    return true;
}

/* A cut at the left takes the prompt first, but not the special token before it. */
static size_t prompt_left(size_t skip, size_t gone, bool special)
{
    size_t lead = special && skip ? 1 : 0;

    return skip - lead > gone ? skip - gone : lead;
}

static bool take_text(struct call *c, struct front_own *own, size_t i, const struct text_opts *to,
                      size_t skip)
{
    const struct ask_input *in = &c->ask.inputs[i];
    struct tok_opts o = { .max_tokens = limit_of(c),
                          .truncate = c->ask.truncate == ASK_NO ? TOK_NEVER : TOK_LONGEST_FIRST,
                          .left = c->ask.left,
                          .no_specials = c->ask.no_specials };
    struct tok_text first = text_prepare(in->text, to, &own->prepared);
    struct tok_out out;

    if (tokenizer_encode(c->model->tok, own->scratch, first, in->pair.p ? &in->pair : NULL, &o,
                         &out, &c->err))
        return ask_fault(&c->fault, ASK_E_TOKENIZER, NULL, "input %zu: %s", i, c->err.msg);
    if (!out.count)
        return ask_fault(&c->fault, ASK_E_EMPTY, NULL, "input %zu has no tokens", i);
    if (out.count > o.max_tokens)
        return too_long(c, i, out.count, o.max_tokens);
    uint32_t cut = out.truncated ? (uint32_t)text_origin(in->text, to, out.cut[0]) : 0;
    c->answer.items[i] = (struct answer_item){ .tokens = (uint32_t)out.count,
                                               .untruncated = (uint32_t)out.untruncated,
                                               .truncated = out.truncated,
                                               .cut = cut };
    size_t gone = o.left && out.truncated ? out.untruncated - out.count : 0;
    keep_ids(c, i, out.ids, out.types, out.count);
    c->job.items[i].skip = (uint32_t)prompt_left(skip, gone, out.special[0]);
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
                           .left = c->ask.left };
    struct text_opts to = { .lower = c->model->model->lower }, first = to;
    uint32_t *ids = arena_array(&c->ask.arena, uint32_t, max);
    uint8_t *types = arena_array(&c->ask.arena, uint8_t, max);
    struct pair p = { 0 };
    bool ok = true;

    if (!choose_prompt(c, &first.prompt))
        return false;
    struct tok_text query = text_prepare(c->ask.query, &first, &own->prepared);
    query.p = arena_strndup(&c->ask.arena, query.p, query.len);
    if (pair_open(&p, c->model->tok, own->scratch, query, &o, &c->err))
        return ask_fault(&c->fault, ASK_E_TOKENIZER, "query", "%s", c->err.msg);
    for (size_t i = 0; ok && i < c->ask.count; i++) {
        struct tok_text doc = text_prepare(c->ask.inputs[i].text, &to, &own->prepared);
        struct pair_out out;
        enum rc rc =
            pair_encode(&p, c->model->tok, own->scratch, doc, &o, ids, types, &out, &c->err);
        if (rc != RC_OK) {
            ok = ask_fault(&c->fault, rc == RC_LIMIT ? ASK_E_TOO_LONG : ASK_E_TOKENIZER, NULL,
                           "document %zu: %s", i, c->err.msg);
            break;
        }
        size_t cut = out.truncated ? text_origin(c->ask.inputs[i].text, &to, out.cut) : 0;
        c->answer.items[i] = (struct answer_item){ .tokens = (uint32_t)out.count,
                                                   .untruncated = (uint32_t)out.untruncated,
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
    struct text_opts to = { .lower = c->model->model->lower };
    size_t longest = 0, skip = 0;
    bool ok = true;

    assert(c->ask.count);
    c->job.items = arena_array(&c->ask.arena, struct job_item, c->ask.count);
    c->job.count = c->ask.count;
    c->answer.items = arena_array(&c->ask.arena, struct answer_item, c->ask.count);
    if (c->ask.what == ASK_RANK) {
        ok = take_pairs(c, own);
    } else {
        ok = choose_prompt(c, &to.prompt) && count_prompt(c, own, &to, &skip);
        for (size_t i = 0; ok && i < c->ask.count; i++)
            ok = c->ask.inputs[i].text.p ? take_text(c, own, i, &to, skip) : take_ids(c, i);
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

static bool list_tokens(struct call *c, struct front_own *own, size_t i, const struct text_opts *to)
{
    struct tok_opts o = { .no_specials = c->ask.no_specials, .truncate = TOK_NEVER };
    struct tok_text in = text_prepare(c->ask.inputs[i].text, to, &own->prepared);
    struct arena *a = &c->ask.arena;
    struct tok_out out;

    if (tokenizer_encode(c->model->tok, own->scratch, in, NULL, &o, &out, &c->err))
        return ask_fault(&c->fault, ASK_E_TOKENIZER, NULL, "input %zu: %s", i, c->err.msg);
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

    if (rc == RC_OK)
        c->answer.texts[i] = arena_strndup(&c->ask.arena, buf_str(&b), b.len);
    else
        (void)ask_fault(&c->fault, ASK_E_TOKENIZER, NULL, "ids %zu: %s", i, c->err.msg);
    buf_release(&b);
    return rc == RC_OK;
}

bool call_tokenize(struct call *c, struct front_own *own)
{
    struct text_opts to = { .lower = c->model->model->lower };
    struct arena *a = &c->ask.arena;
    bool ok = c->ask.what == ASK_TEXTS || choose_prompt(c, &to.prompt);

    c->answer.model = c->model->name;
    c->answer.net = c->model->model;
    c->answer.items = arena_array(a, struct answer_item, c->ask.count);
    c->answer.tokens = arena_array(a, struct answer_token *, c->ask.count);
    c->answer.texts = arena_array(a, const char *, c->ask.count);
    for (size_t i = 0; ok && i < c->ask.count; i++)
        ok = c->ask.what == ASK_TEXTS ? list_text(c, i) : list_tokens(c, own, i, &to);
    return ok;
}
