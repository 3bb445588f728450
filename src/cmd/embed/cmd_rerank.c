/* SPDX-License-Identifier: MIT */
/* cmd_rerank: `stoker rerank`: documents in the order of how well they answer a query.
 *
 * The query is tokenised once where it can be: engine/pair.h. */
#include "base/codec/f32.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/str.h"
#include "base/text/json.h"
#include "cmd/embed/embed_int.h"
#include "engine/pair.h"
#include "os/clock.h"

#include <assert.h>
#include <inttypes.h>

enum {
    RERANK_TEXTS_MAX = 1 << 29,  /* bytes of documents kept to print them */
    RERANK_OUT_MAX = 2000 << 20, /* bytes printed */
    RERANK_TOLD_MAX = 100,       /* failures told one by one */
    RERANK_TOP_MAX = 1 << 24,    /* documents ranked */
    RERANK_THREADS_MAX = 1024
};

struct rerank_opts {
    const char *model, *query, *field, *id, *dtype, *device;
    bool jsonl, json, raw, quiet, invariant;
    int64_t top, threads, batch_tokens, max_tokens;
};

struct rerank_doc {
    float score;
    uint64_t index;
    size_t tokens;
    bool truncated;
    char *text; /* owned */
    char *id;   /* owned JSON text; NULL: none */
    size_t len;
    const char *file; /* where it came from */
    uint64_t line;
};

struct rank {
    const struct rerank_opts *o;
    struct encoder enc;
    struct embed_source *src;
    struct batch batch;
    struct pair pair;
    struct buf prepared; /* the model's default prompt and the query */
    struct rerank_doc window[BATCH_WINDOW_MAX];
    float scores[BATCH_WINDOW_MAX];
    struct rerank_doc *docs; /* the best so far, a heap with the worst on top when --top is given */
    size_t count, cap, text_bytes;
    uint32_t *ids; /* one pair's; owned */
    uint8_t *types;
    uint64_t index, failed, tokens, truncated;
};

/* ---- pairs ---- */
static struct pair_opts pair_limits(const struct rank *r)
{
    return (struct pair_opts){ .max_tokens = r->enc.max_tokens,
                               .left = tokenizer_cuts_left(r->enc.tok) };
}

static void add_doc(struct rank *r, struct tok_text text)
{
    struct pair_opts o = pair_limits(r);
    struct err err = { 0 };
    struct pair_out out;

    if (pair_encode(&r->pair, r->enc.tok, r->enc.scratch, text, &o, r->ids, r->types, &out, &err))
        batch_add_failed(&r->batch, err.msg);
    else
        batch_add(&r->batch, r->ids, r->types, out.count, out.truncated);
    encoder_trim(&r->enc, text.len);
}

/* ---- the best documents ---- */
/* Is a ranked before b?  Equal scores keep the order of the input. */
static bool is_before(const struct rerank_doc *a, const struct rerank_doc *b)
{
    return a->score != b->score ? a->score > b->score : a->index < b->index;
}

static int by_rank(const void *x, const void *y)
{
    return is_before(x, y) ? -1 : 1;
}

static void swap_docs(struct rerank_doc *a, struct rerank_doc *b)
{
    struct rerank_doc t = *a;

    *a = *b;
    *b = t;
}

/* The root of docs[0..count) may stand before its children: the worst belongs there. */
static void sift_down(struct rank *r)
{
    for (size_t i = 0, k; (k = 2 * i + 1) < r->count; i = k) {
        if (k + 1 < r->count && is_before(&r->docs[k], &r->docs[k + 1]))
            k++;
        if (is_before(&r->docs[k], &r->docs[i]))
            return;
        swap_docs(&r->docs[i], &r->docs[k]);
    }
}

static void sift_up(struct rank *r)
{
    for (size_t i = r->count - 1; i; i = (i - 1) / 2) {
        if (!is_before(&r->docs[(i - 1) / 2], &r->docs[i]))
            return;
        swap_docs(&r->docs[i], &r->docs[(i - 1) / 2]);
    }
}

static void drop_text(struct rank *r, struct rerank_doc *d)
{
    r->text_bytes -= d->text ? d->len : 0;
    free(d->text);
    free(d->id);
    d->text = d->id = NULL;
}

/* Takes `d` over, or lets it go when --top is full of better ones. */
static enum rc keep_doc(struct rank *r, struct rerank_doc *d, struct err *err)
{
    if (r->o->top && r->count == (size_t)r->o->top) {
        if (is_before(d, &r->docs[0]))
            swap_docs(d, &r->docs[0]);
        drop_text(r, d);
        sift_down(r);
        return RC_OK;
    }
    if (r->count >= RERANK_TOP_MAX) {
        err_hint(err, "Use --top to keep the best alone.");
        return err_set(err, RC_LIMIT, "more than %d documents", RERANK_TOP_MAX);
    }
    VEC_GROW(r->docs, r->count, r->cap);
    r->docs[r->count++] = *d;
    d->text = d->id = NULL;
    if (r->o->top)
        sift_up(r);
    return RC_OK;
}

/* ---- windows ---- */
static enum rc run_batch(void *arg, const struct eng_batch *b, float *out, struct err *err)
{
    struct rank *r = arg;

    return eng_run(r->enc.eng, b, ENG_SCORES, out, err);
}

static void tell_failure(struct rank *r, const struct rerank_doc *d, const char *why)
{
    if (r->failed++ < RERANK_TOLD_MAX)
        fprintf(stderr, "stoker: %s:%" PRIu64 ": %s\n", str_eq(d->file, "-") ? "stdin" : d->file,
                d->line, why);
}

static enum rc keep_text(struct rank *r, struct rerank_doc *d, struct tok_text t, struct err *err)
{
    if (r->text_bytes + t.len > RERANK_TEXTS_MAX) {
        err_hint(err, "Use --top to keep the best alone.");
        return err_set(err, RC_LIMIT, "the documents are larger than %d bytes", RERANK_TEXTS_MAX);
    }
    d->text = xmalloc(t.len + 1);
    memcpy(d->text, t.p, t.len);
    d->text[t.len] = '\0';
    d->len = t.len;
    r->text_bytes += t.len;
    return RC_OK;
}

/* Reads and tokenises until the window is full, nothing more is there, or the end. */
static enum rc fill_window(struct rank *r, bool *out_end, struct err *err)
{
    enum source_got got = SOURCE_TEXT;
    struct source_record rec;

    batch_reset(&r->batch);
    while (!batch_full(&r->batch)) {
        struct rerank_doc *d = &r->window[r->batch.count];

        if (source_next(r->src, true, &got, &rec, err))
            return err->code;
        if (got == SOURCE_END)
            break;
        *d = (struct rerank_doc){ .index = r->index++, .file = rec.file, .line = rec.line };
        if (got == SOURCE_BAD) {
            batch_add_failed(&r->batch, rec.why);
            continue;
        }
        d->id = rec.id ? xstrdup(rec.id) : NULL;
        if (keep_text(r, d, rec.text, err))
            return err->code;
        add_doc(r, rec.text);
    }
    *out_end = got == SOURCE_END;
    return RC_OK;
}

static enum rc rank_window(struct rank *r, struct err *err)
{
    struct batch_runner runner = { run_batch, r, 1, (size_t)r->o->batch_tokens };
    enum rc rc = batch_run(&r->batch, &runner, r->scores, err);

    for (size_t i = 0; i < r->batch.count; i++) {
        const struct batch_item *it = &r->batch.items[i];
        struct rerank_doc *d = &r->window[i];

        if (it->why)
            tell_failure(r, d, it->why);
        d->score = r->o->raw ? r->scores[i] : eng_score(r->enc.model->score, r->scores[i]);
        d->tokens = it->tokens;
        d->truncated = it->truncated;
        r->truncated += it->truncated;
        if (!rc && !it->why)
            rc = keep_doc(r, d, err);
        drop_text(r, d);
    }
    r->tokens += r->batch.tokens;
    return rc;
}

/* ---- printing ---- */
static void print_json(const struct rank *r, struct buf *out)
{
    struct json_out w;
    char score[F32_TEXT_MAX];

    json_doc(&w, out, "stoker.rerank/1");
    json_kv_str(&w, "model", r->enc.model->name);
    json_kv_str(&w, "query", r->o->query);
    json_kv_int(&w, "documents", (int64_t)r->index);
    json_kv_int(&w, "failed", (int64_t)r->failed);
    json_kv_arr(&w, "results");
    for (size_t i = 0; i < r->count; i++) {
        const struct rerank_doc *d = &r->docs[i];
        struct json number = { .type = JSON_NUM, .text = score };

        number.len = f32_print(d->score, score);
        json_obj(&w);
        json_kv_int(&w, "rank", (int64_t)i + 1);
        json_kv_int(&w, "index", (int64_t)d->index);
        if (d->id) {
            struct json id = { .type = JSON_NUM, .text = d->id, .len = strlen(d->id) };

            json_key(&w, "id");
            json_add_value(&w, &id); /* numbers are printed as they stand */
        }
        json_key(&w, "score");
        json_add_value(&w, &number);
        json_kv_int(&w, "tokens", (int64_t)d->tokens);
        json_kv_bool(&w, "truncated", d->truncated);
        json_key(&w, "text");
        json_add_strn(&w, d->text, d->len);
        json_obj_end(&w);
    }
    json_arr_end(&w);
    json_doc_end(&w);
}

static void print_table(const struct rank *r, const struct term *term, struct buf *out)
{
    struct table *t = table_new();

    table_col(t, "rank", TABLE_RIGHT);
    table_col(t, "score", TABLE_RIGHT);
    table_col(t, "index", TABLE_RIGHT);
    table_col(t, "text", TABLE_LEFT | TABLE_SHRINK);
    for (size_t i = 0; i < r->count; i++) {
        struct rerank_doc *d = &r->docs[i];

        for (size_t k = 0; k < d->len; k++) /* one line each */
            if (!d->text[k] || strchr("\t\r\n", d->text[k]))
                d->text[k] = ' ';
        str_make_text(d->text);
        table_row(t);
        table_cell(t, COLOUR_DIM, "%zu", i + 1);
        table_cell(t, COLOUR_BOLD, "%.4f", (double)d->score);
        table_cell(t, COLOUR_NONE, "%" PRIu64, d->index);
        table_cell(t, COLOUR_NONE, "%s", d->text);
    }
    table_print(t, term, 0, out);
    table_free(t);
}

static void tell_end(const struct rank *r, int64_t begun_ms)
{
    char docs[PROGRESS_TEXT_MAX], tokens[PROGRESS_TEXT_MAX], rate[PROGRESS_TEXT_MAX], device[128];
    int64_t ms = clock_mono_ms() - begun_ms;

    if (r->failed > RERANK_TOLD_MAX)
        fprintf(stderr, "stoker: and %" PRIu64 " more\n", r->failed - RERANK_TOLD_MAX);
    if (r->o->quiet)
        return;
    encoder_describe(&r->enc, device, sizeof(device));
    fprintf(stderr, "%s documents, %s tokens in %.2f s: %s tokens/s (%s)",
            progress_count(r->index, docs), progress_count(r->tokens, tokens), (double)ms / 1000,
            progress_rate(ms > 0 ? (double)r->tokens * 1000 / (double)ms : -1, rate), device);
    if (r->truncated)
        fprintf(stderr, ", %s truncated", progress_count(r->truncated, docs));
    fputc('\n', stderr);
}

/* ---- the command ---- */
static enum rc open_all(struct rank *r, struct cmd_ctx *ctx, struct err *err)
{
    const struct rerank_opts *o = r->o;
    struct source_opts so = { ctx->argv, (size_t)ctx->argc, o->jsonl, o->field, o->id };
    struct encoder_opts eo = { .model = o->model,
                               .device = o->device,
                               .dtype = o->dtype,
                               .threads = (int)o->threads,
                               .invariant = o->invariant,
                               .max_tokens = (size_t)o->max_tokens,
                               .head = true };

    if (source_open(&so, &r->src, err) || encoder_open(&eo, &r->enc, err))
        return err->code;
    const struct model *m = r->enc.model;
    const char *prompt = m->default_prompt ? model_prompt(m, m->default_prompt) : NULL;
    struct tok_text query =
        text_prepare((struct tok_text){ o->query, strlen(o->query) }, prompt, &r->prepared);
    r->ids = xcalloc(r->enc.max_tokens, sizeof(*r->ids));
    r->types = xcalloc(r->enc.max_tokens, 1);
    struct pair_opts limits = pair_limits(r);
    return pair_open(&r->pair, r->enc.tok, r->enc.scratch, query, &limits, err);
}

static enum rc rank_all(struct rank *r, struct cmd_ctx *ctx, struct err *err)
{
    int64_t begun_ms = clock_mono_ms();
    bool end = false;

    while (!end)
        if (fill_window(r, &end, err) || rank_window(r, err))
            return err->code;
    if (r->count)
        qsort(r->docs, r->count, sizeof(*r->docs), by_rank);
    ctx->out.max = RERANK_OUT_MAX;
    if (r->o->json)
        print_json(r, &ctx->out);
    else if (r->count)
        print_table(r, &ctx->out_term, &ctx->out);
    tell_end(r, begun_ms);
    if (r->failed)
        return err_set(err, RC_FAIL, "%" PRIu64 " of %" PRIu64 " documents failed", r->failed,
                       r->index);
    return RC_OK;
}

static void rank_release(struct rank *r)
{
    for (size_t i = 0; i < r->count; i++)
        drop_text(r, &r->docs[i]);
    for (size_t i = 0; i < BATCH_WINDOW_MAX; i++)
        drop_text(r, &r->window[i]);
    encoder_close(&r->enc);
    source_close(r->src);
    batch_release(&r->batch);
    pair_close(&r->pair);
    buf_release(&r->prepared);
    free(r->docs);
    free(r->ids);
    free(r->types);
    free(r);
}

static enum rc run_rerank(struct cmd_ctx *ctx, struct err *err)
{
    const struct rerank_opts *o = ctx->opts;
    struct rank *r;
    enum rc rc;

    if (!o->model)
        return err_set(err, RC_USAGE, "no model: give -m with a folder or a name");
    if (!o->query)
        return err_set(err, RC_USAGE, "no query: give it with -q");
    if (o->id && (!o->jsonl || !o->json))
        return err_set(err, RC_USAGE, "--id goes from JSON lines to JSON: give --jsonl and --json");
    if (o->field && !o->jsonl)
        return err_set(err, RC_USAGE, "--field names a member of JSON lines: give --jsonl too");
    r = xcalloc(1, sizeof(*r));
    r->o = o;
    rc = open_all(r, ctx, err);
    if (!rc)
        rc = rank_all(r, ctx, err);
    rank_release(r);
    return rc;
}

#define OPT_STRUCT struct rerank_opts
static const struct opt opts_rerank[] = {
    OPT('m', "model", STR, model, "DIR|NAME",
        "folder of the model, or name of one that was fetched"),
    OPT('q', "query", STR, query, "TEXT", "what the documents should answer"),
    OPT_NUMBER('n', "top", top, 1, RERANK_TOP_MAX, "print the N best alone"),
    OPT(0, "raw-scores", FLAG, raw, NULL, "print the model's logits instead of its scores"),
    OPT(0, "json", FLAG, json, NULL, "print JSON instead of a table"),
    OPT(0, "jsonl", FLAG, jsonl, NULL, "read one JSON value a line instead of plain lines"),
    OPT(0, "field", STR, field, "NAME", "member that holds the text (default: text)"),
    OPT(0, "id", STR, id, "NAME", "with --json, copy this member of each document"),
    OPT_CHOICE(0, "dtype", STR, dtype, "TYPE", "auto|f32|bf16|int8|f16|fp8",
               "type of weights and products: auto (the default) is f16 on a GPU, bf16 on a CPU "
               "with AVX-512 VNNI or AMX, else f32; f32 is exact"),
    OPT(0, "device", STR, device, "NAME",
        "run there (cpu, ref, cuda) instead of the best device here"),
    OPT(0, "invariant", FLAG, invariant, NULL,
        "the same bits for a text whatever shares its batch, on a GPU at a cost"),
    OPT_NUMBER(0, "threads", threads, 1, RERANK_THREADS_MAX, "threads of the CPU (default: all)"),
    OPT_NUMBER(0, "batch-tokens", batch_tokens, 1, BATCH_TOKENS_MAX,
               "tokens a batch (default: 8192)"),
    OPT_NUMBER(0, "max-tokens", max_tokens, 1, BATCH_TOKENS_MAX,
               "cut pairs there (default: the model's own limit)"),
    OPT(0, "quiet", FLAG, quiet, NULL, "no figures at the end"),
    { 0 },
};

static const struct cmd_example examples[] = {
    { "stoker rerank -m DIR -q 'how do magnets work' --top 5 <docs.txt", "the five best lines" },
    { "stoker rerank -m DIR -q QUERY --jsonl --field body --json docs.jsonl", "JSON in, JSON out" },
    { 0 },
};

const struct cmd cmd_rerank = {
    .name = "rerank",
    .summary = "order documents by how well they answer a query",
    .operands = "[FILE...]",
    .args_max = SOURCE_PATHS_MAX,
    .opts = opts_rerank,
    .opts_size = sizeof(struct rerank_opts),
    .about =
        "Reads one document a line from FILEs or standard input, scores each against the query "
        "with a cross-encoder and prints them, best first: rank, score, index of the document "
        "(from 0) and its text. Scores pass through the activation that the model's config asks "
        "for; --raw-scores leaves it out.\n"
        "\n"
        "A document beyond the model's limit is cut; the query never is, unless it fills the "
        "model alone. White space is cut at the ends of both.\n"
        "\n"
        "A document that fails is told on standard error with its line number and left out of "
        "the ranking; the exit status is 1 then.",
    .examples = examples,
    .run = run_rerank,
};
