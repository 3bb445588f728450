/* SPDX-License-Identifier: MIT */
/* cmd_tokenize: `stoker tokenize`: lines to tokens, as the model sees them, and back.
 *
 * Results go out as they come, so that a pipe of any length works in little memory; a
 * stdout that does not take them ends the run with an error. */
#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "cmd/cmd_int.h"
#include "model/model.h"
#include "model/tokenizer.h"
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    READ_BYTES = 1 << 20,          /* asked of a file at once */
    FLUSH_BYTES = 1 << 18,         /* of output before it is written */
    IDS_MAX = 1 << 20,             /* ids on a line of --decode */
    TOKENIZE_FILES_MAX = 1 << 16,  /* operands */
    TOKENIZE_MAX_TOKENS = 16 << 20 /* of --max */
};

struct tokenize_opts {
    const char *model, *truncate;
    int64_t max;
    bool pair, left, no_specials, json, ids, offsets, decode;
};

struct tokenize_job {
    const struct tokenize_opts *o;
    struct tokenizer *t;
    struct tok_scratch *scratch;
    struct tok_opts opts;
    struct buf *out;
    const char *name; /* of the file being read */
    size_t line;
    bool closed; /* the reader of stdout left */
    uint32_t *ids;
};

/* ---- output ---- */
static enum rc flush_lines(struct tokenize_job *j, struct err *err)
{
    if (j->out->over)
        return err_set(err, RC_LIMIT, "the result of line %zu of '%s' is too long", j->line,
                       j->name);
    return out_write(j->out, &j->closed, err);
}

static void add_u32(struct buf *b, uint32_t v)
{
    char digits[10];
    size_t n = sizeof(digits);

    do
        digits[--n] = (char)('0' + v % 10);
    while (v /= 10);
    buf_add(b, digits + n, sizeof(digits) - n);
}

static void print_plain(struct tokenize_job *j, const struct tok_out *r)
{
    for (size_t i = 0; i < r->count; i++) {
        if (i)
            buf_addc(j->out, ' ');
        if (j->o->ids)
            add_u32(j->out, r->ids[i]);
        else
            buf_adds(j->out, r->tokens[i]);
        if (j->o->offsets) {
            buf_addc(j->out, ':');
            add_u32(j->out, r->offsets[i].begin);
            buf_addc(j->out, '-');
            add_u32(j->out, r->offsets[i].end);
        }
    }
    buf_addc(j->out, '\n');
}

static void print_json(struct tokenize_job *j, const struct tok_out *r)
{
    struct json_out w;

    json_out_init(&w, j->out, 0);
    json_obj(&w);
    json_kv_arr(&w, "ids");
    for (size_t i = 0; i < r->count; i++)
        json_add_uint(&w, r->ids[i]);
    json_arr_end(&w);
    if (!j->o->ids) {
        json_kv_arr(&w, "tokens");
        for (size_t i = 0; i < r->count; i++)
            json_add_str(&w, r->tokens[i]);
        json_arr_end(&w);
        json_kv_arr(&w, "types");
        for (size_t i = 0; i < r->count; i++)
            json_add_uint(&w, r->types[i]);
        json_arr_end(&w);
    }
    if (!j->o->ids || j->o->offsets) {
        json_kv_arr(&w, "offsets");
        for (size_t i = 0; i < r->count; i++) {
            json_arr(&w);
            json_add_uint(&w, r->offsets[i].begin);
            json_add_uint(&w, r->offsets[i].end);
            json_arr_end(&w);
        }
        json_arr_end(&w);
    }
    json_kv_int(&w, "untruncated", (int64_t)r->untruncated);
    json_obj_end(&w);
    buf_addc(j->out, '\n');
}

/* ---- a line ---- */
static enum rc encode_line(struct tokenize_job *j, const char *p, size_t len, struct err *err)
{
    struct tok_text a = { p, len }, b = { 0 };
    const char *tab = j->o->pair ? memchr(p, '\t', len) : NULL;
    struct tok_out r;

    if (j->o->pair && !tab)
        return err_set(err, RC_PARSE, "a pair needs a tab between its texts");
    if (tab) {
        a.len = (size_t)(tab - p);
        b = (struct tok_text){ tab + 1, len - a.len - 1 };
    }
    if (tokenizer_encode(j->t, j->scratch, a, tab ? &b : NULL, &j->opts, &r, err))
        return err->code;
    if (j->o->json)
        print_json(j, &r);
    else
        print_plain(j, &r);
    return RC_OK;
}

static enum rc read_ids(struct tokenize_job *j, const char *p, size_t len, size_t *out,
                        struct err *err)
{
    size_t n = 0;

    for (size_t i = 0; i < len;) {
        uint64_t v = 0;
        size_t first;

        if (p[i] == ' ' || p[i] == '\t' || p[i] == ',') {
            i++;
            continue;
        }
        for (first = i; i < len && p[i] >= '0' && p[i] <= '9' && v <= UINT32_MAX; i++)
            v = v * 10 + (uint64_t)(p[i] - '0');
        if (i == first || v > UINT32_MAX)
            return err_set(err, RC_PARSE, "'%.*s' is not an id", (int)(len - i < 20 ? len - i : 20),
                           p + first);
        if (n == IDS_MAX)
            return err_set(err, RC_LIMIT, "more than %d ids", IDS_MAX);
        j->ids[n++] = (uint32_t)v;
    }
    *out = n;
    return RC_OK;
}

static enum rc decode_line(struct tokenize_job *j, const char *p, size_t len, struct err *err)
{
    struct json_out w;
    struct buf text = { 0 };
    size_t n = 0;
    enum rc rc = read_ids(j, p, len, &n, err);

    if (!rc)
        rc = tokenizer_decode(j->t, j->ids, n, j->o->no_specials, &text, err);
    if (!rc && j->o->json) {
        json_out_init(&w, j->out, 0);
        json_obj(&w);
        json_key(&w, "text");
        json_add_strn(&w, buf_str(&text), text.len);
        json_obj_end(&w);
    } else if (!rc)
        buf_add(j->out, buf_str(&text), text.len);
    if (!rc)
        buf_addc(j->out, '\n');
    buf_release(&text);
    return rc;
}

static enum rc one_line(struct tokenize_job *j, const char *p, size_t len, struct err *err)
{
    enum rc rc;

    j->line++;
    rc = j->o->decode ? decode_line(j, p, len, err) : encode_line(j, p, len, err);
    if (rc)
        return err_ctx(err, "line %zu of '%s'", j->line, j->name);
    return j->out->len >= FLUSH_BYTES ? flush_lines(j, err) : RC_OK;
}

/* ---- files ---- */
/* Whole lines of in[0..len); what is left of the last one is moved to the front. */
static enum rc take_lines(struct tokenize_job *j, struct buf *in, struct err *err)
{
    size_t at = 0;
    enum rc rc = RC_OK;

    while (!rc && !j->closed) {
        const char *p = in->data + at, *nl = memchr(p, '\n', in->len - at);

        if (!nl)
            break;
        rc = one_line(j, p, (size_t)(nl - p), err);
        at += (size_t)(nl - p) + 1;
    }
    memmove(in->data, in->data + at, in->len - at);
    in->len -= at;
    return rc;
}

static enum rc read_lines(struct tokenize_job *j, int fd, struct buf *in, struct err *err)
{
    char *block = xmalloc(READ_BYTES);
    enum rc rc = RC_OK;

    while (!rc && !j->closed) {
        ssize_t n = read(fd, block, READ_BYTES);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = err_sys(err, "could not read '%s'", j->name);
        if (n <= 0)
            break;
        buf_add(in, block, (size_t)n);
        rc = take_lines(j, in, err);
        if (!rc && in->len > TOK_TEXT_MAX)
            rc = err_set(err, RC_LIMIT, "line %zu of '%s' is longer than %d bytes", j->line + 1,
                         j->name, TOK_TEXT_MAX);
    }
    if (!rc && in->len && !j->closed)
        rc = one_line(j, in->data, in->len, err); /* the last line has no newline */
    free(block);
    return rc;
}

static enum rc one_file(struct tokenize_job *j, const char *path, struct err *err)
{
    struct buf in = { .max = TOK_TEXT_MAX + (size_t)READ_BYTES };
    bool is_stdin = !path || str_eq(path, "-");
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    enum rc rc;

    j->name = is_stdin ? "-" : path;
    j->line = 0;
    if (fd < 0)
        return err_sys(err, "could not open '%s'", path);
    rc = read_lines(j, fd, &in, err);
    if (!is_stdin)
        close(fd);
    buf_release(&in);
    return rc;
}

static enum rc load_tokenizer(const char *model, struct tokenizer **out, struct err *err)
{
    char path[FILE_PATH_MAX];

    if (!file_is_dir(model))
        return tokenizer_load(model, NULL, out, err);
    if (file_join(path, sizeof(path), model, "config.json", err))
        return err->code;
    if (file_exists(path) || file_join(path, sizeof(path), model, "modules.json", err) ||
        file_exists(path))
        return model_open_tokenizer(model, out, err);
    /* a tokenizer without a network: nobody says which class reads it */
    if (file_join(path, sizeof(path), model, "tokenizer.json", err))
        return err->code;
    return tokenizer_load(path, NULL, out, err);
}

static enum tok_truncate strategy_of(const struct tokenize_opts *o)
{
    if (!o->max)
        return TOK_NEVER;
    if (str_eq(o->truncate, "first"))
        return TOK_ONLY_FIRST;
    return str_eq(o->truncate, "second") ? TOK_ONLY_SECOND : TOK_LONGEST_FIRST;
}

static enum rc run_tokenize(struct cmd_ctx *ctx, struct err *err)
{
    const struct tokenize_opts *o = ctx->opts;
    struct tokenize_job j = { .o = o, .out = &ctx->out };
    enum rc rc;

    if (!o->model) {
        err_hint(err, "Give the model's directory or its tokenizer.json: -m DIR.");
        return err_set(err, RC_USAGE, "command 'tokenize' needs a model");
    }
    rc = load_tokenizer(o->model, &j.t, err);
    if (rc)
        return rc;
    j.opts = (struct tok_opts){ .max_tokens = (size_t)o->max,
                                .tokens = !o->ids,
                                .truncate = strategy_of(o),
                                .left = o->left,
                                .no_specials = o->no_specials };
    j.scratch = tok_scratch_new();
    j.ids = o->decode ? xcalloc(IDS_MAX, sizeof(*j.ids)) : NULL;
    if (!ctx->argc)
        rc = one_file(&j, NULL, err);
    for (int i = 0; i < ctx->argc && !rc && !j.closed; i++)
        rc = one_file(&j, ctx->argv[i], err);
    if (!rc)
        rc = flush_lines(&j, err);
    free(j.ids);
    tok_scratch_free(j.scratch);
    tokenizer_free(j.t);
    return rc;
}

#define OPT_STRUCT struct tokenize_opts
static const struct opt opts_tokenize[] = {
    OPT('m', "model", STR, model, "DIR|FILE", "a model's directory, or its tokenizer.json"),
    OPT(0, "pair", FLAG, pair, NULL, "a line holds two texts with a tab between them"),
    OPT_NUMBER(0, "max", max, 1, TOKENIZE_MAX_TOKENS, "keep to N tokens, special ones included"),
    OPT_CHOICE(0, "truncate", STR, truncate, "WHICH", "longest|first|second",
               "which text of a pair gives way to --max; longest unless told"),
    OPT(0, "left", FLAG, left, NULL, "truncate at the left"),
    OPT(0, "no-specials", FLAG, no_specials, NULL, "leave out [CLS], [SEP] and the like"),
    OPT(0, "json", FLAG, json, NULL, "an object a line: ids, tokens, types, offsets"),
    OPT(0, "ids", FLAG, ids, NULL, "ids instead of tokens"),
    OPT(0, "offsets", FLAG, offsets, NULL, "with the bytes each token came from, :BEGIN-END"),
    OPT(0, "decode", FLAG, decode, NULL, "lines are ids; print the text they stand for"),
    { 0 },
};

static const struct cmd_example examples[] = {
    { "echo 'Hello world' | stoker tokenize -m DIR", "show the tokens of a text" },
    { "stoker tokenize -m DIR --ids --max 512 texts.txt", "ids, as the model gets them" },
    { "echo 101 7592 102 | stoker tokenize -m DIR --decode", "and back" },
    { 0 },
};

const struct cmd cmd_tokenize = {
    .name = "tokenize",
    .summary = "show what tokens a model makes of text",
    .operands = "[FILE...]",
    .args_min = 0,
    .args_max = TOKENIZE_FILES_MAX,
    .opts = opts_tokenize,
    .opts_size = sizeof(struct tokenize_opts),
    .about =
        "Reads lines from files or stdin and prints the tokens of each on a line, exactly as the "
        "Hugging Face library makes them. Truncation and padding that a tokenizer.json asks for "
        "are ignored; --max truncates.\n"
        "\n"
        "A line ends with a newline, which is not part of it; a carriage return before it is. An "
        "empty line is an empty text: the special tokens alone. A NUL byte is a character like "
        "another (BERT drops it). Bytes that are not UTF-8 are taken as U+FFFD, one for each "
        "longest start of a character, as Python's errors='replace' does. Offsets are bytes of "
        "the line; with --pair, of the text each token came from. A text may have 64 MiB.\n"
        "\n"
        "A line that cannot be done (no tab with --pair, --truncate=second that cannot cut "
        "enough, an id that is none) ends the run; the lines before it are printed.",
    .examples = examples,
    .run = run_tokenize,
};
