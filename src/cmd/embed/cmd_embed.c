/* SPDX-License-Identifier: MIT */
/* cmd_embed: `stoker embed`: lines in, vectors out, in the order they came.
 *
 * A window of texts is read and tokenised, run in token-budget batches, written, noted in
 * the side file; then the next.  Memory is bounded by the window, so that stdin may be
 * endless.  What is wrong with one text is told on stderr and costs only that text. */
#include "base/codec/fnv1a.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/str.h"
#include "cmd/embed/embed_int.h"
#include "os/clock.h"
#include "os/file.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    EMBED_TOLD_MAX = 100,    /* failures told one by one; the rest are counted */
    EMBED_PROGRESS_MS = 100, /* between two drawings of the bar */
    EMBED_THREADS_MAX = 1024,
    EMBED_ABOUT_MAX = 400
};

struct embed_opts {
    const char *model, *out, *format, *field, *id, *prompt, *prompt_text, *instruction, *dtype,
        *device;
    bool jsonl, no_normalize, normalize, resume, force, similarity, json, quiet, invariant;
    int64_t dims, threads, batch_tokens, max_tokens;
};

struct origin { /* where a text came from */
    const char *file;
    uint64_t line;
    const char *id; /* in job's `ids` */
};

struct embed_job {
    struct cmd_ctx *ctx;
    const struct embed_opts *o;
    struct encoder enc;
    struct embed_source *src;
    struct embed_sink sink;
    struct resume resume;
    struct batch batch;
    struct origin origins[BATCH_WINDOW_MAX];
    struct arena ids; /* of this window */
    float *rows;      /* [BATCH_WINDOW_MAX][enc.width] */
    size_t rows_cap;
    struct buf prompt; /* --instruction's */
    char about[EMBED_ABOUT_MAX];
    size_t width; /* floats a vector, after --dims */
    uint64_t hash, texts, tokens, truncated, failed, told;
    uint64_t kept; /* of the texts, written by the runs before */
    int64_t begun_ms, drawn_ms;
    uint64_t window_bytes, window_done; /* bytes read before this window; tokens run of it */
    bool bar;                           /* stderr is a terminal */
    struct similarity similar;          /* --similarity */
};

/* ---- options ---- */
static enum sink_format format_of(const char *name)
{
    return str_eq(name, "raw") ? SINK_RAW : str_eq(name, "npy") ? SINK_NPY : SINK_JSONL;
}

static enum rc check_opts(const struct embed_opts *o, struct err *err)
{
    if (!o->model) {
        err_hint(err, "Fetch one with 'stoker model get all-MiniLM-L6-v2', then use its name.");
        return err_set(err, RC_USAGE, "no model: give -m with a folder or a name");
    }
    if (!!o->prompt + !!o->prompt_text + !!o->instruction > 1)
        return err_set(err, RC_USAGE,
                       "--prompt, --prompt-text and --instruction exclude each other");
    if (o->normalize && o->no_normalize)
        return err_set(err, RC_USAGE, "--normalize and --no-normalize exclude each other");
    if (o->resume && !o->out)
        return err_set(err, RC_USAGE, "--resume needs the file to continue: give -o");
    if (o->resume && o->force)
        return err_set(err, RC_USAGE, "--resume and --force exclude each other");
    if (o->similarity && (o->out || o->format))
        return err_set(err, RC_USAGE, "--similarity prints a matrix and takes no -o or --format");
    if (o->json && !o->similarity)
        return err_set(err, RC_USAGE, "--json belongs to --similarity; vectors have --format");
    if (o->id && (!o->jsonl || format_of(o->format) != SINK_JSONL))
        return err_set(err, RC_USAGE,
                       "--id is a member of JSON lines: it needs --jsonl, and no "
                       "--format but jsonl");
    if (o->field && !o->jsonl)
        return err_set(err, RC_USAGE, "--field names a member of JSON lines: give --jsonl too");
    if (!o->out && !o->similarity && format_of(o->format) != SINK_JSONL && isatty(STDOUT_FILENO))
        return err_set(err, RC_USAGE, "--format %s is not for a terminal: give -o", o->format);
    return RC_OK;
}

/* The prompt that goes before every text. */
static enum rc choose_prompt(struct embed_job *j, struct err *err)
{
    const struct model *m = j->enc.model;
    const char *name = j->o->prompt ? j->o->prompt : m->default_prompt;

    if (j->o->instruction) {
        text_instruction(j->o->instruction, &j->prompt);
        return encoder_prompt(&j->enc, buf_str(&j->prompt), err);
    }
    if (j->o->prompt_text || !name)
        return encoder_prompt(&j->enc, j->o->prompt_text, err);
    if (model_prompt(m, name))
        return encoder_prompt(&j->enc, model_prompt(m, name), err);
    if (!m->prompts_count)
        err_hint(err, "It has none; use --prompt-text.");
    else
        err_hint(err, "Its first is '%s'; 'stoker model info' lists them all.", m->prompts[0].name);
    return err_set(err, RC_USAGE, "model '%s' has no prompt '%s'", m->name, name);
}

static enum rc open_encoder(struct embed_job *j, struct err *err)
{
    struct encoder_opts eo = {
        .model = j->o->model,
        .device = j->o->device,
        .dtype = j->o->dtype,
        .threads = (int)j->o->threads,
        .invariant = j->o->invariant,
        .max_tokens = (size_t)j->o->max_tokens,
        .normalize = j->o->normalize      ? ENCODER_NORMALIZE
                     : j->o->no_normalize ? ENCODER_RAW
                                          : ENCODER_AS_MODEL,
    };

    if (encoder_open(&eo, &j->enc, err) || choose_prompt(j, err))
        return err->code;
    j->width = j->o->dims ? (size_t)j->o->dims : model_dim(j->enc.model);
    if (j->width > j->enc.width)
        return err_set(err, RC_USAGE, "model '%s' gives %zu numbers a text, not %zu",
                       j->enc.model->name, j->enc.width, j->width);
    return RC_OK;
}

/* ---- the output and its side file ---- */
static enum rc check_out(const struct embed_opts *o, struct err *err)
{
    struct resume r = { .fd = -1 };
    struct err ignored = { 0 };
    struct stat st;

    if (!o->out || o->resume || o->force || stat(o->out, &st) || !S_ISREG(st.st_mode))
        return RC_OK;
    if (!resume_read(o->out, &r, &ignored) && !r.complete) {
        resume_close(&r, false);
        err_hint(err, "Continue it with --resume, or begin again with --force.");
        return err_set(err, RC_FAIL, "'%s' was begun by a run that did not end", o->out);
    }
    resume_close(&r, false);
    err_hint(err, "Replace it with --force.");
    return err_set(err, RC_FAIL, "'%s' exists already", o->out);
}

/* Everything that decides the bytes of a record. */
static uint64_t options_key(struct embed_job *j)
{
    const char *prompt = j->enc.prompt ? j->enc.prompt : "";
    enum eng_dtype dtype = encoder_dtype(&j->enc); /* auto is another one on another machine */
    int len;

    len = snprintf(j->about, sizeof(j->about),
                   "%s, %zu numbers, %s, %s, %zu tokens at most%s%s%.64s", j->enc.model->name,
                   j->width, j->o->format ? j->o->format : "jsonl", eng_dtype_name(dtype),
                   j->enc.max_tokens, j->enc.model->normalize ? ", normalised" : "",
                   j->o->id ? ", id " : "", j->o->id ? j->o->id : "");
    return fnv1a_add(fnv1a_add(encoder_fingerprint(&j->enc), j->about, (size_t)len), prompt,
                     strlen(prompt) + 1);
}

static void hash_record(struct embed_job *j, const struct source_record *rec)
{
    j->hash = fnv1a_add(j->hash, rec->text.p, rec->text.len);
    j->hash = fnv1a_add(j->hash, "\n", 1);
    if (rec->id)
        j->hash = fnv1a_add(j->hash, rec->id, strlen(rec->id) + 1);
}

/* Passes over the records that the file holds already. */
static enum rc skip_done(struct embed_job *j, struct err *err)
{
    uint64_t noted = j->resume.rows, hash = j->resume.hash;
    struct source_record rec;
    enum source_got got;

    for (uint64_t i = 0; i < j->sink.rows; i++) {
        if (source_next(j->src, true, &got, &rec, err))
            return err->code;
        if (got == SOURCE_END)
            return err_set(err, RC_FAIL, "'%s' holds more records than the input", j->o->out);
        hash_record(j, &rec);
        if (i + 1 == noted && j->hash != hash)
            return err_set(err, RC_FAIL, "'%s' was begun with another input", j->o->out);
    }
    j->texts = j->kept = j->sink.rows;
    return RC_OK;
}

/* With --resume: is what is there ours to continue? */
static enum rc read_side(struct embed_job *j, bool *out_keep, struct err *err)
{
    struct err none = { 0 };
    struct stat st;

    *out_keep = false;
    if (!j->o->resume)
        return RC_OK;
    if (resume_read(j->o->out, &j->resume, &none)) {
        if (none.code != RC_NODEV || !stat(j->o->out, &st)) {
            err_hint(err, "Begin again with --force.");
            return err_set(err, RC_FAIL, "could not continue '%s': %s", j->o->out, none.msg);
        }
        return RC_OK;
    }
    *out_keep = true;
    return RC_OK;
}

static enum rc open_sink(struct embed_job *j, struct err *err)
{
    uint64_t key = options_key(j);
    bool keep;

    if (read_side(j, &keep, err))
        return err->code;
    if (keep && j->resume.key != key) {
        err_hint(err, "Give the same model and options, or begin again with --force.");
        return err_set(err, RC_FAIL, "'%s' was begun with another model or other options",
                       j->o->out);
    }
    j->resume.key = key;
    j->resume.about = j->about;
    if (sink_open(&j->sink, j->o->out, keep, err) || (keep && skip_done(j, err)))
        return err->code;
    j->resume.complete = false;
    if (j->o->out && j->sink.seekable && !keep)
        return resume_create(j->o->out, &j->resume, err);
    return RC_OK;
}

/* ---- interruption ---- */
/* What is written at any moment is whole (embed_resume.c), so nothing is to be finished: the bar
 * goes, the way on is named, and the signal ends the program as it would have.  Put together
 * beforehand, since a handler may only write. */
static char farewell[FILE_PATH_MAX + 128];
static size_t farewell_len;

static void on_interrupt(int number)
{
    ssize_t ignored = write(STDERR_FILENO, farewell, farewell_len);

    (void)ignored;
    (void)raise(number); /* SA_RESETHAND: the default now */
}

static void watch_interrupts(const struct embed_job *j)
{
    struct sigaction sa = { .sa_handler = on_interrupt, .sa_flags = SA_RESETHAND | SA_NODEFER };
    int n = snprintf(farewell, sizeof(farewell), "%s", j->bar ? "\r\033[K" : "");

    if (j->o->out && j->sink.seekable)
        n += snprintf(farewell + n, sizeof(farewell) - (size_t)n,
                      "stoker: interrupted; the same command with --resume continues '%.4000s'\n",
                      j->o->out);
    farewell_len = (size_t)n;
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGHUP, &sa, NULL);
}

/* ---- talk ---- */
static void clear_bar(const struct embed_job *j)
{
    if (j->bar && j->drawn_ms)
        fputs("\r\033[K", stderr);
}

static double rate_of(const struct embed_job *j, uint64_t tokens, int64_t now)
{
    int64_t ms = now - j->begun_ms;

    return ms > 0 ? (double)tokens * 1000 / (double)ms : -1;
}

static double done_of(const struct embed_job *j)
{
    uint64_t size, at = source_bytes(j->src);
    double part = j->batch.tokens ? (double)j->window_done / (double)j->batch.tokens : 1;

    if (!source_size(j->src, &size) || !size)
        return -1;
    return ((double)j->window_bytes + (double)(at - j->window_bytes) * part) / (double)size;
}

static void draw_bar(struct embed_job *j)
{
    int64_t now = clock_mono_ms();
    struct buf line = { 0 };
    struct progress p = { .done = done_of(j),
                          .elapsed_ms = now - j->begun_ms,
                          .items = j->texts,
                          .what = "texts",
                          .rate = rate_of(j, j->tokens + j->window_done, now),
                          .unit = "tokens/s" };

    if (!j->bar || now - j->drawn_ms < EMBED_PROGRESS_MS)
        return;
    progress_line(&p, j->ctx->err_term.width, &line);
    fprintf(stderr, "\r%s\033[K", buf_str(&line));
    fflush(stderr);
    buf_release(&line);
    j->drawn_ms = now;
}

static void tell_failure(struct embed_job *j, const struct origin *from, const char *why)
{
    if (j->told++ >= EMBED_TOLD_MAX)
        return;
    clear_bar(j);
    fprintf(stderr, "stoker: %s:%" PRIu64 ": %s\n", str_eq(from->file, "-") ? "stdin" : from->file,
            from->line, why);
}

static void tell_end(struct embed_job *j)
{
    char texts[PROGRESS_TEXT_MAX], tokens[PROGRESS_TEXT_MAX], rate[PROGRESS_TEXT_MAX], device[128];
    int64_t now = clock_mono_ms();

    clear_bar(j);
    if (j->told > EMBED_TOLD_MAX)
        fprintf(stderr, "stoker: and %" PRIu64 " more\n", j->told - EMBED_TOLD_MAX);
    if (j->o->quiet)
        return;
    encoder_describe(&j->enc, device, sizeof(device));
    fprintf(stderr, "%s texts, %s tokens in %.2f s: %s tokens/s (%s)",
            progress_count(j->texts - j->kept, texts), progress_count(j->tokens, tokens),
            (double)(now - j->begun_ms) / 1000, progress_rate(rate_of(j, j->tokens, now), rate),
            device);
    if (j->kept)
        fprintf(stderr, ", %s with those before", progress_count(j->texts, texts));
    if (j->truncated)
        fprintf(stderr, ", %s truncated", progress_count(j->truncated, texts));
    if (j->failed)
        fprintf(stderr, ", %s failed", progress_count(j->failed, texts));
    fputc('\n', stderr);
}

/* ---- windows ---- */
static enum rc run_batch(void *arg, const struct eng_batch *b, float *out, struct err *err)
{
    struct embed_job *j = arg;

    if (eng_run(j->enc.eng, b, ENG_VECTORS, out, err))
        return err->code;
    j->window_done += b->starts[b->sequences];
    draw_bar(j);
    return RC_OK;
}

/* Reads and tokenises until the window is full, nothing more is there, or the end. */
static enum rc fill_window(struct embed_job *j, bool *out_end, struct err *err)
{
    struct source_record rec;
    enum source_got got = SOURCE_TEXT;

    batch_reset(&j->batch);
    arena_release(&j->ids);
    j->window_bytes = source_bytes(j->src);
    j->window_done = 0;
    while (!batch_full(&j->batch) && j->similar.count <= SIMILARITY_TEXTS_MAX) {
        if (source_next(j->src, j->batch.count == 0, &got, &rec, err))
            return err->code;
        if (got == SOURCE_END || got == SOURCE_LATER)
            break;
        if (j->o->similarity)
            similarity_label(&j->similar, rec.text);
        j->origins[j->batch.count] =
            (struct origin){ rec.file, rec.line, arena_strdup(&j->ids, rec.id) };
        hash_record(j, &rec);
        if (got == SOURCE_BAD)
            batch_add_failed(&j->batch, rec.why);
        else
            encoder_add(&j->enc, rec.text, &j->batch);
    }
    *out_end = got == SOURCE_END;
    return RC_OK;
}

static enum rc run_window(struct embed_job *j, struct err *err)
{
    struct batch_runner r = { run_batch, j, j->enc.width, (size_t)j->o->batch_tokens };

    if (j->batch.count > j->rows_cap) {
        j->rows_cap = j->batch.count;
        j->rows = xreallocarray(j->rows, j->rows_cap, j->enc.width * sizeof(*j->rows));
    }
    if (batch_run(&j->batch, &r, j->rows, err))
        return err->code;
    for (size_t i = 0; i < j->batch.count; i++) {
        const struct batch_item *it = &j->batch.items[i];

        j->failed += it->why != NULL;
        j->truncated += it->truncated;
        if (it->why)
            tell_failure(j, &j->origins[i], it->why);
        else if (j->o->dims && j->width < j->enc.width && j->enc.model->normalize)
            eng_truncate(j->rows + i * j->enc.width, j->width);
    }
    j->tokens += j->batch.tokens;
    return RC_OK;
}

static enum rc write_window(struct embed_job *j, struct err *err)
{
    for (size_t i = 0; i < j->batch.count; i++) {
        const struct batch_item *it = &j->batch.items[i];
        struct sink_row row = { .index = j->texts + i,
                                .values = j->rows + i * j->enc.width,
                                .tokens = it->tokens,
                                .truncated = it->truncated,
                                .why = it->why,
                                .id = j->origins[i].id };

        if (sink_add(&j->sink, &row, err))
            return err->code;
    }
    if (sink_flush(&j->sink, err))
        return err->code;
    j->texts += j->batch.count;
    j->resume.rows = j->texts;
    j->resume.hash = j->hash;
    return resume_note(&j->resume, err);
}

static enum rc embed_all(struct embed_job *j, struct err *err)
{
    bool end = false;

    while (!end) {
        if (fill_window(j, &end, err))
            return err->code;
        if (!j->batch.count)
            continue;
        if (run_window(j, err) || write_window(j, err))
            return err->code;
    }
    return RC_OK;
}

static enum rc write_vectors(struct embed_job *j, struct err *err)
{
    struct err closing = { 0 };
    enum rc rc = open_sink(j, err);

    j->begun_ms = clock_mono_ms();
    if (!rc)
        watch_interrupts(j);
    if (!rc)
        rc = embed_all(j, err);
    if (sink_close(&j->sink, rc ? &closing : err) && !rc)
        rc = err->code;
    if (j->sink.gone) { /* the reader had enough, as in `stoker embed | head -1` */
        *err = (struct err){ 0 };
        return RC_OK;
    }
    if (!rc) {
        j->resume.complete = true;
        rc = resume_note(&j->resume, err);
        tell_end(j);
    } else {
        clear_bar(j);
    }
    resume_close(&j->resume, !rc && !j->o->resume);
    if (!rc && j->failed)
        rc = err_set(err, RC_FAIL, "%" PRIu64 " of %" PRIu64 " texts failed", j->failed,
                     j->texts - j->kept);
    return rc;
}

/* ---- similarity ---- */
static enum rc gather_similar(struct embed_job *j, struct err *err)
{
    struct similarity *s = &j->similar;
    bool end = false;

    while (!end) {
        if (fill_window(j, &end, err))
            return err->code;
        if (s->count > SIMILARITY_TEXTS_MAX)
            return err_set(err, RC_LIMIT, "--similarity takes at most %d texts",
                           SIMILARITY_TEXTS_MAX);
        if (j->batch.count && run_window(j, err))
            return err->code;
        for (size_t i = 0; i < j->batch.count; i++)
            similarity_vector(s, (size_t)j->texts++, j->rows + i * j->enc.width);
    }
    return RC_OK;
}

static enum rc show_similarity(struct embed_job *j, struct err *err)
{
    struct similarity *s = &j->similar;
    enum rc rc;

    j->begun_ms = clock_mono_ms();
    s->width = j->width;
    rc = gather_similar(j, err);
    clear_bar(j);
    if (!rc && j->enc.model->similarity)
        fprintf(stderr, "stoker: model '%s' compares by %s; these are cosines\n",
                j->enc.model->name, j->enc.model->similarity);
    if (!rc && j->o->json)
        similarity_json(s, &j->ctx->out);
    else if (!rc)
        similarity_print(s, &j->ctx->out_term, &j->ctx->out);
    if (!rc && j->failed)
        rc = err_set(err, RC_FAIL, "%" PRIu64 " of %" PRIu64 " texts failed", j->failed, j->texts);
    return rc;
}

/* ---- the command ---- */
static void job_release(struct embed_job *j)
{
    encoder_close(&j->enc);
    source_close(j->src);
    batch_release(&j->batch);
    arena_release(&j->ids);
    buf_release(&j->prompt);
    similarity_release(&j->similar);
    free(j->rows);
    free(j);
}

static enum rc run_embed(struct cmd_ctx *ctx, struct err *err)
{
    const struct embed_opts *o = ctx->opts;
    struct source_opts so = { ctx->argv, (size_t)ctx->argc, o->jsonl, o->field, o->id };
    struct embed_job *j;
    enum rc rc;

    if (check_opts(o, err) || check_out(o, err))
        return err->code;
    j = xcalloc(1, sizeof(*j));
    j->ctx = ctx;
    j->o = o;
    j->hash = FNV1A_START;
    j->resume.fd = j->sink.fd = -1;
    j->sink.format = format_of(o->format);
    j->bar = isatty(STDERR_FILENO) && !o->quiet && !o->similarity;
    rc = source_open(&so, &j->src, err);
    if (!rc)
        rc = open_encoder(j, err);
    j->sink.width = j->width;
    if (!rc && !o->quiet && (!o->dtype || str_eq(o->dtype, "auto")))
        encoder_tell_dtype(&j->enc);
    if (!rc)
        rc = o->similarity ? show_similarity(j, err) : write_vectors(j, err);
    job_release(j);
    return rc;
}

#define OPT_STRUCT struct embed_opts
static const struct opt opts_embed[] = {
    OPT('m', "model", STR, model, "DIR|NAME",
        "folder of the model, or name of one that was fetched"),
    OPT('o', "output", STR, out, "FILE", "write there instead of standard output"),
    OPT_CHOICE(0, "format", STR, format, "FORMAT", "jsonl|raw|npy",
               "jsonl (the default), raw (f32, nothing else) or npy"),
    OPT(0, "jsonl", FLAG, jsonl, NULL, "read one JSON value a line instead of plain lines"),
    OPT(0, "field", STR, field, "NAME", "member that holds the text (default: text)"),
    OPT(0, "id", STR, id, "NAME", "copy this member of each JSON object into its record"),
    OPT_NUMBER(0, "dims", dims, 1, MODEL_HIDDEN_MAX,
               "keep the first N numbers and normalise again"),
    OPT(0, "normalize", FLAG, normalize, NULL, "give every vector length 1"),
    OPT(0, "no-normalize", FLAG, no_normalize, NULL, "leave the length as it comes"),
    OPT(0, "prompt", STR, prompt, "NAME", "put the model's prompt of that name before each text"),
    OPT(0, "prompt-text", STR, prompt_text, "TEXT", "put TEXT before each text; '' for none"),
    OPT(0, "instruction", STR, instruction, "TASK",
        "put 'Instruct: TASK' and 'Query: ' before each text, as e5-instruct wants"),
    OPT_CHOICE(
        0, "dtype", STR, dtype, "TYPE", "auto|f32|bf16|int8|f16|fp8",
        "type of weights and products: auto (the default) is f16 on a GPU, bf16 on a CPU with "
        "AVX-512 VNNI or AMX, else f32; f32 is exact"),
    OPT(0, "device", STR, device, "NAME",
        "run there (cpu, ref, cuda) instead of the best device here"),
    OPT(0, "invariant", FLAG, invariant, NULL,
        "the same bits for a text whatever shares its batch, on a GPU at a cost"),
    OPT_NUMBER(0, "threads", threads, 1, EMBED_THREADS_MAX, "threads of the CPU (default: all)"),
    OPT_NUMBER(0, "batch-tokens", batch_tokens, 1, BATCH_TOKENS_MAX,
               "tokens a batch (default: 8192)"),
    OPT_NUMBER(0, "max-tokens", max_tokens, 1, BATCH_TOKENS_MAX,
               "cut texts there (default: the model's own limit)"),
    OPT(0, "resume", FLAG, resume, NULL, "continue the output of a run that did not end"),
    OPT(0, "force", FLAG, force, NULL, "replace an output that exists"),
    OPT(0, "similarity", FLAG, similarity, NULL, "print how alike the texts are, as a matrix"),
    OPT(0, "json", FLAG, json, NULL, "print the matrix as JSON"),
    OPT(0, "quiet", FLAG, quiet, NULL, "no type at the start, no progress, no figures at the end"),
    { 0 },
};

static const struct cmd_example examples[] = {
    { "stoker embed -m all-MiniLM-L6-v2 <texts.txt >vectors.jsonl", "a vector a line" },
    { "stoker embed -m all-MiniLM-L6-v2 --format npy -o v.npy *.txt", "one array for NumPy" },
    { "stoker embed -m DIR --jsonl --field body --resume -o v.npy docs.jsonl",
      "go on where an earlier run ended" },
    { "stoker embed -m DIR --jsonl --field body --id id docs.jsonl >v.jsonl",
      "keep each document's own id" },
    { "stoker embed -m DIR --similarity <texts.txt", "compare a few texts" },
    { 0 },
};

const struct cmd cmd_embed = {
    .name = "embed",
    .summary = "turn texts into vectors",
    .operands = "[FILE...]",
    .args_max = SOURCE_PATHS_MAX,
    .opts = opts_embed,
    .opts_size = sizeof(struct embed_opts),
    .about =
        "Reads one text a line from FILEs or standard input and writes one vector for each, in "
        "the same order. As sentence-transformers does, the prompt is put before the text, "
        "and white space is left to the tokenizer; an empty line has the vector of the empty text; "
        "a text beyond the model's limit is cut and says so.\n"
        "\n"
        "What is wrong with one line (JSON that is none, a value that is not finite) is told on "
        "standard error with its line number. It has a record all the same, so that the n-th "
        "record belongs to the n-th text: {\"index\":n,\"error\":...} or a row of NaN. The exit "
        "status is 1 then.\n"
        "\n"
        "With -o, FILE.resume stands beside the output until it is whole. An interrupted run "
        "leaves a valid file; --resume counts its records and goes on, and refuses when the "
        "model, the options or the input are not those it was begun with.",
    .examples = examples,
    .run = run_embed,
};
