/* SPDX-License-Identifier: MIT */
/* embed_model: from the name of a model to something that turns texts into rows. */
#include "base/codec/fnv1a.h"
#include "base/str.h"
#include "cmd/embed/embed_int.h"
#include "os/file.h"
#include "serve/serve.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    ENCODER_SCRATCH_KEEP = 1 << 20, /* bytes of a text whose scratch memory is kept */
    ENCODER_SAMPLE = 16             /* values of each tensor that its fingerprint holds */
};

/* A reranker gives no vectors and the other way round: say so before loading it. */
static enum rc check_kind(const struct model *m, const struct encoder_opts *o, struct err *err)
{
    if (o->head && m->head == MODEL_HEAD_NONE) {
        err_hint(err, "Use 'stoker embed' with it, or another model.");
        return err_set(err, RC_USAGE, "model '%s' is not a reranker: it has no classification head",
                       m->name);
    }
    if (o->head && m->labels != 1)
        return err_set(err, RC_USAGE, "model '%s' is not a reranker: it gives %zu scores a text",
                       m->name, m->labels);
    if (!o->head && m->head != MODEL_HEAD_NONE) {
        err_hint(err, "Use 'stoker rerank' with it, or another model.");
        return err_set(err, RC_USAGE, "model '%s' gives scores, not vectors: it is a %s", m->name,
                       m->arch_name);
    }
    return RC_OK;
}

static enum rc choose_tokens(const struct model *m, size_t asked, size_t *out, struct err *err)
{
    size_t most = m->positions - m->position_first;

    if (asked > most)
        return err_set(err, RC_USAGE, "model '%s' has positions for %zu tokens, not %zu", m->name,
                       most, asked);
    *out = asked ? asked : m->max_tokens < most ? m->max_tokens : most;
    return RC_OK;
}

static enum rc load_parts(const struct encoder_opts *o, struct encoder *e, struct err *err)
{
    struct eng_opts eo = { .device = o->device, .threads = o->threads, .invariant = o->invariant };
    char dir[PATH_MAX];

    (void)eng_dtype_parse(o->dtype, &eo.dtype); /* a list of choices; not given: auto */
    if (model_find(o->model, dir, sizeof(dir), err) || model_open(dir, &e->model, err) ||
        check_kind(e->model, o, err) || choose_tokens(e->model, o->max_tokens, &e->max_tokens, err))
        return err->code;
    if (o->normalize != ENCODER_AS_MODEL)
        e->model->normalize = o->normalize == ENCODER_NORMALIZE;
    if (model_tokenizer(e->model, &e->tok, err))
        return err->code;
    return eng_load(e->model, &eo, &e->eng, err);
}

enum rc encoder_open(const struct encoder_opts *o, struct encoder *out, struct err *err)
{
    struct encoder e = { 0 };

    if (load_parts(o, &e, err)) {
        encoder_close(&e);
        return err->code;
    }
    assert(e.model); /* load_parts() opened it */
    e.scratch = tok_scratch_new();
    e.width = o->head ? e.model->labels : eng_dim(e.model);
    *out = e;
    return RC_OK;
}

void encoder_close(struct encoder *e)
{
    if (e->eng)
        eng_free(e->eng);
    tok_scratch_free(e->scratch);
    tokenizer_free(e->tok);
    model_close(e->model);
    buf_release(&e->prepared);
    *e = (struct encoder){ 0 };
}

enum rc encoder_prompt(struct encoder *e, const char *prompt, struct err *err)
{
    struct tok_opts to = { .max_tokens = e->max_tokens,
                           .truncate = TOK_LONGEST_FIRST,
                           .left = tokenizer_cuts_left(e->tok) };

    e->prompt = prompt;
    e->skip = 0;
    if (!e->model->prompt_apart || !prompt || !prompt[0])
        return RC_OK;
    return text_prompt_tokens(e->tok, e->scratch, prompt, &to, &e->skip, err);
}

void encoder_trim(struct encoder *e, size_t len)
{
    if (len <= ENCODER_SCRATCH_KEEP)
        return;
    tok_scratch_free(e->scratch);
    e->scratch = tok_scratch_new();
    buf_release(&e->prepared);
}

void encoder_add(struct encoder *e, struct tok_text t, struct batch *b)
{
    struct tok_opts to = { .max_tokens = e->max_tokens,
                           .truncate = TOK_LONGEST_FIRST,
                           .left = tokenizer_cuts_left(e->tok),
                           .stop_early = true };
    struct err err = { 0 };
    struct tok_out out;

    if (tokenizer_encode(e->tok, e->scratch, text_prepare(t, e->prompt, &e->prepared), NULL, &to,
                         &out, &err))
        batch_add_failed(b, err.msg);
    else if (!out.count)
        batch_add_failed(b, "the text has no tokens");
    else {
        batch_add(b, out.ids, out.types, out.count, out.truncated);
        batch_skip(b, e->skip);
    }
    encoder_trim(e, t.len);
}

void encoder_describe(const struct encoder *e, char *out, size_t cap)
{
    const struct eng_ops *ops = eng_ops_of(e->eng);

    if (ops->describe)
        ops->describe(e->eng, out, cap);
    else
        snprintf(out, cap, "%s", ops->name);
}

enum eng_dtype encoder_dtype(const struct encoder *e)
{
    char text[128], *save = NULL;
    enum eng_dtype t;

    encoder_describe(e, text, sizeof(text));
    for (char *w = strtok_r(text, " ,", &save); w; w = strtok_r(NULL, " ,", &save))
        if (eng_dtype_parse(w, &t) && t != ENG_AUTO)
            return t;
    return ENG_AUTO;
}

void encoder_tell_dtype(const struct encoder *e)
{
    enum eng_dtype t = encoder_dtype(e);
    const char *device = eng_ops_of(e->eng)->name;
    bool gpu = str_starts(device, "cuda");

    if (t == ENG_AUTO || t == ENG_F32)
        return;
    fprintf(stderr, "stoker: %s on %s, the default here: %s%s\n", eng_dtype_name(t), device,
            settings_exactness(t, gpu, e->model->head != MODEL_HEAD_NONE),
            gpu ? "" : "; --dtype f32 is exact");
}

/* ---- fingerprint ---- */
static uint64_t hash_number(uint64_t h, uint64_t v)
{
    return fnv1a_add(h, &v, sizeof(v));
}

static uint64_t hash_file(uint64_t h, const char *path)
{
    char chunk[64 << 10];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return hash_number(h, 0);
    while ((n = read(fd, chunk, sizeof(chunk))) > 0)
        h = fnv1a_add(h, chunk, (size_t)n);
    close(fd);
    return h;
}

static uint64_t hash_tensors(uint64_t h, const struct st *st)
{
    for (size_t i = 0; i < st_count(st); i++) {
        const struct st_tensor *t = st_at(st, i);
        float some[ENCODER_SAMPLE] = { 0 };
        uint64_t n = t->count < ENCODER_SAMPLE ? t->count : ENCODER_SAMPLE;
        struct err ignored = { 0 };

        h = fnv1a_add(h, t->name, strlen(t->name));
        h = fnv1a_add(h, t->dims, t->ndim * sizeof(t->dims[0]));
        h = hash_number(h, (uint64_t)t->dtype);
        if (!st_read_f32(st, t, (t->count - n) / 2, n, some, &ignored))
            h = fnv1a_add(h, some, sizeof(some));
    }
    return h;
}

uint64_t encoder_fingerprint(const struct encoder *e)
{
    static const char *const files[] = { "config.json", "tokenizer.json", "tokenizer_config.json" };
    static const char *const older[] = { "special_tokens_map.json", "added_tokens.json" };
    const struct model *m = e->model;
    char path[PATH_MAX + 32];
    uint64_t h = FNV1A_START;

    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        snprintf(path, sizeof(path), "%s/%s", m->net_dir, files[i]);
        h = hash_file(h, path);
    }
    for (size_t i = 0; i < ARRAY_SIZE(older); i++) {
        snprintf(path, sizeof(path), "%s/%s", m->net_dir, older[i]);
        h = file_exists(path) ? hash_file(h, path) : h;
    }
    h = hash_number(h, (uint64_t)m->pool << 8 | (uint64_t)m->prompt_apart << 2 |
                           (uint64_t)m->normalize << 1 | m->rules.lower_first);
    h = fnv1a_add(h, m->joined, m->joined_count * sizeof(m->joined[0]));
    h = hash_number(h, m->dense_count);
    h = hash_number(h, m->truncate_dim);
    return hash_tensors(h, m->tensors);
}
