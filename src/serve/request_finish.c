/* SPDX-License-Identifier: MIT */
/* finish: rows as an engine gives them become rows as the client asked for them.
 *
 * The order is that of `stoker embed`: normalise, cut to `dimensions`, normalise again; the
 * functions are the engine's, so the bits are the same. */
#include "serve/serve_int.h"

#include <math.h>

/* NaN and infinities never leave as a 200. */
static bool check_finite(struct call *c)
{
    for (size_t i = 0; i < c->ask.count; i++) {
        const struct answer_item *it = &c->answer.items[i];
        const float *v = c->rows + it->row * c->full_width;
        for (size_t k = 0; k < it->row_count * c->full_width; k++)
            if (!isfinite(v[k]))
                return ask_fault(&c->fault, ASK_E_BACKEND, NULL,
                                 "model '%s' gave a number that is not finite for input %zu",
                                 c->model->name, i);
    }
    return true;
}

static double norm_of(const float *v, size_t n, double p)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum = p == 0 ? fmax(sum, fabs((double)v[i])) : sum + pow(fabs((double)v[i]), p);
    return p == 0 ? sum / 32760.0 : pow(sum, 1.0 / p);
}

static void normalize(const struct call *c, float *v, size_t n)
{
    if (c->ask.norm_p == 2 || c->ask.norm_p < 0) {
        eng_normalize(v, n);
        return;
    }
    double norm = fmax(norm_of(v, n, c->ask.norm_p), 1e-12);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)((double)v[i] / norm);
}

/* What the request says, else the operator, else the API, else the model. */
static bool normalizes(const struct call *c)
{
    if (c->ask.normalize == ASK_DEFAULT || (c->model->normalize_set && !c->ask.normalize_said))
        return c->model->normalize;
    return c->ask.normalize == ASK_YES;
}

static void finish_vectors(struct call *c)
{
    bool unit = normalizes(c);
    /* what the model itself leaves out is not made up for by a longer rest, unless asked */
    bool again = unit && (c->ask.dimensions || c->ask.normalize_said);
    size_t keep = c->ask.dimensions ? c->ask.dimensions : model_dim(c->model->model);

    for (size_t i = 0; i < c->ask.count; i++) {
        float *v = c->rows + i * c->full_width, *to = c->rows + i * keep;
        if (unit)
            normalize(c, v, c->full_width);
        if (again && keep < c->full_width)
            eng_truncate(v, keep);
        if (to != v)
            memmove(to, v, keep * sizeof(*v));
    }
    c->answer.width = keep;
}

bool call_finish(struct call *c)
{
    c->answer.model = c->model->name;
    c->answer.net = c->model->model;
    c->answer.device = c->job.device ? c->job.device : c->model->device;
    c->answer.failed_device = c->job.failed_device;
    c->answer.fell_back = c->job.fell_back;
    c->answer.digest = c->job.fell_back ? spare_digest(c->model) : c->model->digest;
    c->answer.rows = c->rows;
    c->answer.width = c->full_width;
    for (size_t i = 0; i < c->ask.count; i++)
        c->answer.items[i].cached = c->job.items[i].cached;
    if (!check_finite(c))
        return false;
    if (c->ask.what == ASK_VECTORS)
        finish_vectors(c);
    return true;
}
