/* SPDX-License-Identifier: MIT */
/* verify: one pass over every tensor in pieces, then one over every file for its sum.
 *
 * A matrix of zeros is what a download that never came looks like, and one of a single other number
 * what an initialiser left; biases and some LayerNorms may be either. */
#include "model/files/verify.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/files/sums_int.h"
#include "model/weights/safetensors_int.h"
#include "os/file.h"

#include <dirent.h>
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { VERIFY_CHUNK = 1 << 16, WHEEL_LEVELS = 3 }; /* a model lies at most so deep in a package */

struct verify_run {
    const struct model *m;
    const struct verify_talk *talk;
    struct verify v;
    struct sums list;        /* SHA256SUMS */
    struct sums record;      /* of a wheel */
    const char *record_path; /* before a file's name in it; NULL: no wheel */
    uint64_t done, total;
};

static enum rc bytes_went(void *arg, uint64_t bytes, struct err *err)
{
    struct verify_run *r = arg;

    (void)err;
    r->done += bytes;
    if (r->talk && r->talk->progress)
        r->talk->progress(r->talk->arg, r->done, r->total);
    return RC_OK;
}

/* --- numbers --- */
static void names_add(struct verify *v, struct verify_names *n, const char *where, const char *name)
{
    if (n->count < VERIFY_FAULTS_MAX)
        n->first[n->count] = arena_printf(&v->arena, "%s%s", where, name);
    n->count++;
}

/* May a tensor be zero in a model that is whole?  Biases are, and the token types of RoBERTa, as
 * converted; nothing reads the pooler of a model of vectors or the head that it was trained
 * with. */
static bool may_be_zero(const struct model *m, const struct st_tensor *t)
{
    bool scales = strstr(t->name, "norm.weight") || strstr(t->name, "Norm.weight") ||
                  strstr(t->name, "Norm.gamma");

    return (t->ndim < 2 && !scales) || strstr(t->name, "token_type_embeddings") ||
           (m->head == MODEL_HEAD_NONE && strstr(t->name, "pooler.")) ||
           str_starts(t->name, "cls.") || strstr(t->name, "lm_head") ||
           strstr(t->name, "position_ids");
}

/* A tensor of a layer behind the last one that config.json has: the model runs without it. */
static bool is_of_no_layer(const struct model *m, const char *name)
{
    const char *at = strstr(name, "encoder.layer.");
    char *end;

    if (!at)
        at = strstr(name, "transformer.layer.");
    if (!at)
        return false;
    at = strstr(at, ".layer.") + strlen(".layer.");
    unsigned long long layer = strtoull(at, &end, 10);
    return end > at && *end == '.' && layer >= m->layers;
}

static enum rc tensor_check(struct verify_run *r, const struct st *s, const struct st_tensor *t,
                            const char *where, float *chunk, struct err *err)
{
    bool told = false, flat = true;
    float first = 0;

    for (uint64_t at = 0; at < t->count; at += VERIFY_CHUNK) {
        uint64_t n = t->count - at < VERIFY_CHUNK ? t->count - at : VERIFY_CHUNK;
        enum rc rc = st_read_f32(s, t, at, n, chunk, err);

        if (rc)
            return rc;
        first = at ? first : chunk[0];
        for (uint64_t i = 0; i < n && flat; i++)
            flat = chunk[i] == first;
        for (uint64_t i = 0; i < n && !told; i++) {
            if (isfinite(chunk[i]))
                continue;
            told = true;
            if (r->v.faults_count < VERIFY_FAULTS_MAX)
                r->v.faults[r->v.faults_count] = (struct verify_fault){
                    .tensor = arena_printf(&r->v.arena, "%s%s", where, t->name),
                    .index = at + i,
                    .value = chunk[i],
                };
            r->v.faults_count++;
        }
        r->v.numbers += n;
        (void)bytes_went(r, n * st_dtype_bytes(t->dtype), err);
    }
    if (!*where && is_of_no_layer(r->m, t->name))
        names_add(&r->v, &r->v.unused, where, t->name);
    else if (flat && first == 0 && !may_be_zero(r->m, t))
        names_add(&r->v, &r->v.zero, where, t->name);
    else if (flat && first != 0 && t->ndim > 1 && t->count > 1)
        names_add(&r->v, &r->v.flat, where, t->name);
    return RC_OK;
}

static enum rc tensors_check(struct verify_run *r, const struct st *s, const char *where,
                             struct err *err)
{
    float *chunk = xcalloc(VERIFY_CHUNK, sizeof(*chunk));
    enum rc rc = RC_OK;

    for (size_t i = 0; i < st_count(s) && !rc; i++) {
        rc = tensor_check(r, s, st_at(s, i), where, chunk, err);
        r->v.tensors++;
    }
    free(chunk);
    return rc;
}

static enum rc dense_check(struct verify_run *r, const struct model_dense *d, struct err *err)
{
    char dir[FILE_PATH_MAX];
    struct st *s;
    enum rc rc = file_join(dir, sizeof(dir), r->m->dir, d->dir, err);

    if (!rc)
        rc = st_open(dir, &s, err);
    if (rc)
        return rc;
    rc = tensors_check(r, s, arena_printf(&r->v.arena, "%s/", d->dir), err);
    st_close(s);
    return rc;
}

/* --- files --- */
static int by_name(const void *a, const void *b)
{
    const struct verify_file *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/* Regular files of a folder; of folders in it once more, no deeper. */
static enum rc files_add(struct verify *v, const char *dir, const char *prefix, bool deeper,
                         struct err *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    enum rc rc = RC_OK;

    if (!d)
        return err_sys(err, "cannot open folder '%s'", dir);
    while (!rc && (e = readdir(d))) {
        char path[FILE_PATH_MAX];
        struct stat st;

        if (e->d_name[0] == '.')
            continue;
        rc = file_join(path, sizeof(path), dir, e->d_name, err);
        if (rc || stat(path, &st))
            continue;
        if (S_ISDIR(st.st_mode) && deeper)
            rc = files_add(v, path, arena_printf(&v->arena, "%s/", e->d_name), false, err);
        if (!S_ISREG(st.st_mode))
            continue;
        if (v->files_count == VERIFY_FILES_MAX) {
            rc = err_set(err, RC_LIMIT, "more than %d files in '%s'", VERIFY_FILES_MAX, dir);
            continue;
        }
        v->files[v->files_count++] = (struct verify_file){
            .name = arena_printf(&v->arena, "%s%s", prefix, e->d_name),
            .bytes = (uint64_t)st.st_size,
        };
    }
    closedir(d);
    return rc;
}

enum rc verify_list(const char *dir, struct verify *out, struct err *err)
{
    struct verify v = { 0 };
    enum rc rc;

    v.files = arena_array(&v.arena, struct verify_file, VERIFY_FILES_MAX);
    rc = files_add(&v, dir, "", true, err);
    if (rc) {
        arena_release(&v.arena);
        return rc;
    }
    qsort(v.files, v.files_count, sizeof(*v.files), by_name);
    *out = v;
    return RC_OK;
}

/* --- lists --- */
static enum rc list_read(struct sums *s, const char *path, bool record, struct err *err)
{
    struct buf text = { 0 };
    enum rc rc = file_read(path, SUMS_TEXT_MAX, &text, err);

    if (!rc) {
        rc = record ? sums_parse_record(s, buf_str(&text), text.len, err)
                    : sums_parse(s, buf_str(&text), text.len, err);
        if (rc)
            err_ctx(err, "'%s'", path);
    }
    buf_release(&text);
    return rc;
}

/* The RECORD of an installed package the folder lies in: some levels up, beside it. */
static enum rc record_find(struct verify_run *r, const char *real, struct err *err)
{
    char *base = arena_strdup(&r->v.arena, real);
    enum rc rc = RC_OK;

    for (int level = 0; level < WHEEL_LEVELS && !rc && !r->record_path; level++) {
        char *slash = strrchr(base, '/');
        char pattern[FILE_PATH_MAX];
        glob_t g = { 0 };

        if (!slash || slash == base)
            break;
        *slash = '\0';
        if (snprintf(pattern, sizeof(pattern), "%s/*.dist-info/RECORD", base) >=
            (int)sizeof(pattern))
            break;
        if (!glob(pattern, GLOB_NOSORT, NULL, &g)) {
            for (size_t i = 0; i < g.gl_pathc && !rc; i++)
                rc = list_read(&r->record, g.gl_pathv[i], true, err);
            r->record_path = arena_printf(&r->v.arena, "%s/", real + strlen(base) + 1);
        }
        globfree(&g);
    }
    return rc;
}

static enum rc lists_read(struct verify_run *r, struct err *err)
{
    char path[FILE_PATH_MAX], *real;
    enum rc rc = file_join(path, sizeof(path), r->m->dir, "SHA256SUMS", err);

    if (!rc && file_exists(path))
        rc = list_read(&r->list, path, false, err);
    if (rc)
        return rc;
    real = realpath(r->m->dir, NULL);
    rc = real ? record_find(r, real, err) : RC_OK;
    free(real);
    return rc;
}

/* NAME.sha256 beside a file: its sum, with or without the name behind it. */
static bool sidecar_read(const char *path, uint8_t out[SHA256_BYTES])
{
    char name[FILE_PATH_MAX];
    struct buf text = { 0 };
    bool found = snprintf(name, sizeof(name), "%s.sha256", path) < (int)sizeof(name) &&
                 file_exists(name) && !file_read(name, 4096, &text, NULL) &&
                 sums_hex_parse(buf_str(&text), out);

    buf_release(&text);
    return found;
}

static void file_judge(struct verify_run *r, struct verify_file *f, const char *path,
                       const uint8_t sha[SHA256_BYTES])
{
    const struct sum *want = sums_find(&r->list, f->name);
    uint8_t beside[SHA256_BYTES];
    const uint8_t *should = want ? want->sha : NULL;

    f->list = want ? "SHA256SUMS" : NULL;
    if (!should && sidecar_read(path, beside)) {
        should = beside;
        f->list = arena_printf(&r->v.arena, "%s.sha256", f->name);
    }
    if (!should && r->record_path) {
        want = sums_find(&r->record, arena_printf(&r->v.arena, "%s%s", r->record_path, f->name));
        should = want ? want->sha : NULL;
        f->list = want ? "RECORD" : NULL;
    }
    f->state = !should ? SUM_UNLISTED : memcmp(should, sha, SHA256_BYTES) ? SUM_WRONG : SUM_OK;
    r->v.wrong += f->state == SUM_WRONG;
}

static enum rc files_sum(struct verify_run *r, struct err *err)
{
    for (size_t i = 0; i < r->v.files_count; i++) {
        struct verify_file *f = &r->v.files[i];
        uint8_t sha[SHA256_BYTES];
        char path[FILE_PATH_MAX];
        enum rc rc = file_join(path, sizeof(path), r->m->dir, f->name, err);

        if (!rc)
            rc = sums_file(path, bytes_went, r, sha, err);
        if (rc)
            return rc;
        sha256_hex(sha, f->sha);
        file_judge(r, f, path, sha);
    }
    return RC_OK;
}

/* What SHA256SUMS names and the folder lacks. */
static void missing_find(struct verify_run *r)
{
    r->v.missing = arena_array(&r->v.arena, const char *, r->list.count);
    for (size_t i = 0; i < r->list.count; i++) {
        char path[FILE_PATH_MAX];
        const char *name = r->list.items[i].name;

        if (file_join(path, sizeof(path), r->m->dir, name, NULL) || !file_exists(path))
            r->v.missing[r->v.missing_count++] = arena_strdup(&r->v.arena, name);
    }
}

enum rc verify_model(const struct model *m, const struct verify_talk *talk, struct verify *out,
                     struct err *err)
{
    struct verify_run r = { .m = m, .talk = talk };
    enum rc rc = verify_list(m->dir, &r.v, err);

    if (rc)
        return rc;
    for (size_t i = 0; i < r.v.files_count; i++) /* each is read for its sum, weights twice */
        r.total += r.v.files[i].bytes * (str_ends(r.v.files[i].name, ".safetensors") ? 2 : 1);
    rc = tensors_check(&r, m->tensors, "", err);
    for (size_t i = 0; i < m->dense_count && !rc; i++)
        rc = dense_check(&r, &m->dense[i], err);
    if (!rc)
        rc = lists_read(&r, err);
    if (!rc)
        rc = files_sum(&r, err);
    if (!rc)
        missing_find(&r);
    sums_release(&r.list);
    sums_release(&r.record);
    if (rc)
        verify_release(&r.v);
    else
        *out = r.v;
    return rc;
}

void verify_release(struct verify *v)
{
    arena_release(&v->arena);
    *v = (struct verify){ 0 };
}
