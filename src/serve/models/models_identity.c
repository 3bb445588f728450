/* SPDX-License-Identifier: MIT */
/* models_identity: which model a name stands for, so that a reply can say it.
 *
 * Two servers give the same vectors for a text when the content of the model's files is the same
 * and so is what decides how they are used: type, pooling, normalisation, the length at which
 * texts are cut, prompts of the operator.  The digest is a hash of these and of nothing that
 * belongs to a machine: no path, no time, no device.
 *
 * A model that left its pool comes back from its folder, a device's process that was lost loads
 * again, a fallback is loaded late: whoever has the old digest must not get other vectors without
 * a word, so files of other content are refused there.  Asking for a load is what accepts them. */
#include "serve/models/manager_int.h"

#include "base/str.h"

#include <assert.h>

enum { IDENTITY_DESCRIBE_MAX = 128 };

/* "avx512 bf16, 2 threads" says it; an engine that does not has what it was asked for. */
const char *identity_dtype(const struct eng *e, enum eng_dtype asked)
{
    char text[IDENTITY_DESCRIBE_MAX] = "", *save = NULL;
    enum eng_dtype dtype;

    if (eng_ops_of(e)->describe)
        eng_ops_of(e)->describe(e, text, sizeof(text));
    for (char *w = strtok_r(text, " ,", &save); w; w = strtok_r(NULL, " ,", &save))
        if (eng_dtype_parse(w, &dtype) && dtype != ENG_AUTO)
            return eng_dtype_name(dtype);
    return eng_dtype_name(asked);
}

void identity_digest(const struct served *s, const struct serve_model *o, const char *dtype,
                     char out[MODELS_DIGEST_MAX])
{
    static const char *const choices[] = {
        [SERVE_DEFAULT] = "auto", [SERVE_YES] = "true", [SERVE_NO] = "false"
    };
    const struct model *m = s->model;
    uint8_t sum[SHA256_BYTES];
    char hex[SHA256_HEX];
    struct buf b = { 0 };
    struct sha256 h;

    buf_addf(&b, "stoker.model/1\nfiles %s\ndtype %s\npooling %s\nnormalize %s\nmax_tokens %zu\n",
             s->files_sha256, dtype,
             m->head == MODEL_HEAD_NONE ? model_pool_label(m->pool) : "none", choices[o->normalize],
             s->max_tokens);
    for (size_t i = 0; i < o->prompt_count; i++)
        buf_addf(&b, "prompt %zu:%s %zu:%s\n", strlen(o->prompts[i].name), o->prompts[i].name,
                 strlen(o->prompts[i].text), o->prompts[i].text);
    sha256_init(&h);
    sha256_add(&h, buf_str(&b), b.len);
    sha256_end(&h, sum);
    (void)sha256_hex(sum, hex);
    hex[MODELS_DIGEST_MAX - 1] = '\0';
    memcpy(out, hex, MODELS_DIGEST_MAX);
    buf_release(&b);
}

void identity_set(struct served *s, const struct serve_model *o, const struct files *f)
{
    uint8_t sum[SHA256_BYTES];

    files_digest(f, sum);
    (void)sha256_hex(sum, s->files_sha256);
    identity_digest(s, o, s->dtype, s->digest);
}

enum rc identity_changed(const char *file, struct err *err)
{
    err_hint(err, "Put the file back, or accept the new one by POST /v1/models/load or a restart.");
    return err_set(err, RC_FAIL,
                   "file '%s' is not the one the model was loaded from: POST /v1/models/load takes "
                   "the new one, as a restart does",
                   file);
}

enum rc identity_check(const struct files *was, const char *dir, struct files_cache *c,
                       struct err *err)
{
    const char *name = files_changed(was, dir, c);

    return name ? identity_changed(name, err) : RC_OK;
}
