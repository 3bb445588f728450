/* SPDX-License-Identifier: MIT */
/* weights: the tensors of a model by role.
 *
 * model_roles.c knows their names and shapes.  Every read checks the shape against the
 * configuration first, so that an implementation can size its memory from eng_weight_shape()
 * alone. */
#include "base/mem.h"
#include "engine/engine_int.h"

#include <assert.h>
#include <math.h>

enum { WEIGHT_PATH_MAX = 4096 };

struct eng_shape eng_weight_shape(const struct model *m, enum model_role role)
{
    size_t dims[2] = { 0 }, ndim = model_role_dims(m, role, dims);

    return ndim == 1 ? (struct eng_shape){ 1, dims[0] } : (struct eng_shape){ dims[0], dims[1] };
}

static enum rc check_shape(const struct st_tensor *t, struct eng_shape want, struct err *err)
{
    bool matrix = want.rows != 1 || t->ndim == 2; /* a 1 x n matrix has two dimensions too */

    if (matrix && t->ndim == 2 && t->dims[0] == want.rows && t->dims[1] == want.cols)
        return RC_OK;
    if (want.rows == 1 && t->ndim == 1 && t->dims[0] == want.cols)
        return RC_OK;
    return err_set(err, RC_PARSE,
                   "tensor '%s' has %zu dimensions of %zu, %zu where the configuration asks for "
                   "%zu by %zu",
                   t->name, t->ndim, t->ndim > 0 ? t->dims[0] : 0, t->ndim > 1 ? t->dims[1] : 1,
                   want.rows, want.cols);
}

enum rc eng_weight_tensor(const struct model *m, enum model_role role, size_t layer,
                          const struct st_tensor **out, struct err *err)
{
    struct eng_shape want = eng_weight_shape(m, role);
    const struct st_tensor *t;
    char name[MODEL_ROLE_NAME];

    assert(want.rows > 0);
    t = model_tensor(m, "%s", model_role_name(m, role, layer, name));
    if (!t)
        return err_set(err, RC_PARSE, "model '%s' has no tensor '%s%s'", m->dir, m->prefix, name);
    if (check_shape(t, want, err) != RC_OK)
        return err_ctx(err, "model '%s'", m->dir);
    *out = t;
    return RC_OK;
}

enum rc eng_weight(const struct model *m, enum model_role role, size_t layer, float *out,
                   size_t count, struct err *err)
{
    const struct st_tensor *t = NULL;
    enum rc rc = eng_weight_tensor(m, role, layer, &t, err);

    if (rc != RC_OK)
        return rc;
    assert(count == t->count);
    rc = st_read_f32(m->tensors, t, 0, count, out, err);
    return rc == RC_OK ? RC_OK : err_ctx(err, "model '%s'", m->dir);
}

static enum rc dense_read(const struct st *s, const char *name, struct eng_shape want, float *out,
                          struct err *err)
{
    const struct st_tensor *t = st_find(s, name);
    enum rc rc;

    if (!t)
        return err_set(err, RC_PARSE, "no tensor '%s'", name);
    rc = check_shape(t, want, err);
    return rc == RC_OK ? st_read_f32(s, t, 0, want.rows * want.cols, out, err) : rc;
}

enum rc eng_dense_weight(const struct model *m, size_t i, float *w, float *bias, struct err *err)
{
    const struct model_dense *d = &m->dense[i];
    char path[WEIGHT_PATH_MAX];
    struct st *s = NULL;
    enum rc rc;

    assert(i < m->dense_count);
    if (snprintf(path, sizeof(path), "%s/%s", m->dir, d->dir) >= (int)sizeof(path))
        return err_set(err, RC_LIMIT, "path of dense layer '%s' is too long", d->dir);
    rc = st_open(path, &s, err);
    if (rc != RC_OK)
        return err_ctx(err, "dense layer '%s'", path);
    rc = dense_read(s, "linear.weight", (struct eng_shape){ d->out, d->in }, w, err);
    if (rc == RC_OK && d->bias)
        rc = dense_read(s, "linear.bias", (struct eng_shape){ 1, d->out }, bias, err);
    st_close(s);
    return rc == RC_OK ? RC_OK : err_ctx(err, "dense layer '%s'", path);
}

/* 32 buckets: 16 for each direction, of which distances below 8 have their own and the
 * others share eight that widen up to 128.  The logarithms are f32, as in the reference:
 * 16, 32 and 64 stand exactly on an edge. */
size_t eng_rel_bucket(ptrdiff_t distance)
{
    size_t side = distance > 0 ? 16 : 0;
    size_t n = (size_t)(distance < 0 ? -distance : distance);
    float large;

    if (n < 8)
        return side + n;
    large = logf((float)n / 8.0F) / (float)2.772588722239781 * 8.0F; /* ln(128 / 8) */
    return side + (large < 7.0F ? 8 + (size_t)large : 15);
}

enum rc eng_rel_bias(const struct model *m, float *out, struct err *err)
{
    size_t width = 2 * MPNET_REACH + 1;
    size_t count = m->rel_buckets * m->heads;
    float *table;
    enum rc rc;

    if (m->rel_buckets < 32)
        return err_set(err, RC_PARSE, "model '%s' has %zu buckets of relative distance, not 32",
                       m->dir, m->rel_buckets);
    table = xcalloc(count, sizeof(*table));
    rc = eng_weight(m, W_REL_BIAS, 0, table, count, err);
    for (size_t h = 0; rc == RC_OK && h < m->heads; h++)
        for (size_t x = 0; x < width; x++)
            out[h * width + x] = table[eng_rel_bucket((ptrdiff_t)x - MPNET_REACH) * m->heads + h];
    free(table);
    return rc;
}

void eng_positions(const struct model *m, const uint32_t *ids, size_t count, uint32_t *out)
{
    uint32_t next = (uint32_t)m->position_first;

    for (size_t i = 0; i < count; i++) {
        bool pad = m->position_first > 0 && ids[i] + 1 == m->position_first;

        out[i] = pad ? ids[i] : next++;
    }
}
