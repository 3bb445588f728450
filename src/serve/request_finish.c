/* SPDX-License-Identifier: MIT */
/* request_finish: rows as an engine gives them become rows as the client asked for them.
 *
 * The order is that of `stoker embed`: normalise, cut to `dimensions`, normalise again; the
 * functions are the engine's, so the bits are the same. */
#include "serve/serve_int.h"

#include <math.h>

/* NaN and infinities never leave as a 200. */
static bool check_finite(struct request *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct request_text *it = &r->texts[i];
        const float *v = r->rows + it->row * r->full_width;
        for (size_t k = 0; k < it->row_count * r->full_width; k++)
            if (!isfinite(v[k]))
                return request_fail(r, FAULT_BACKEND, NULL,
                                    "model '%s' gave a number that is not finite for input %zu",
                                    r->model->name, i);
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

static void normalize_row(const struct request *r, float *v, size_t n)
{
    if (r->norm_p == 2 || r->norm_p < 0) {
        eng_normalize(v, n);
        return;
    }
    double norm = fmax(norm_of(v, n, r->norm_p), 1e-12);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)((double)v[i] / norm);
}

/* What the request says, else the operator, else the API, else the model. */
static bool is_normalized(const struct request *r)
{
    if (r->normalize == SERVE_DEFAULT || (r->model->normalize_set && !r->normalize_said))
        return r->model->normalize;
    return r->normalize == SERVE_YES;
}

static void finish_vectors(struct request *r)
{
    bool unit = is_normalized(r);
    /* what the model itself leaves out is not made up for by a longer rest, unless asked */
    bool again = unit && (r->dimensions || r->normalize_said);
    size_t keep = r->dimensions ? r->dimensions : model_dim(r->model->model);

    for (size_t i = 0; i < r->count; i++) {
        float *v = r->rows + i * r->full_width, *to = r->rows + i * keep;
        if (unit)
            normalize_row(r, v, r->full_width);
        if (again && keep < r->full_width)
            eng_truncate(v, keep);
        if (to != v)
            memmove(to, v, keep * sizeof(*v));
    }
    r->response.width = keep;
}

bool request_finish(struct request *r)
{
    r->response.model = r->model->name;
    r->response.net = r->model->model;
    r->response.device = r->device ? r->device : r->model->device;
    r->response.digest = r->fell_back ? fallback_digest(r->model) : r->model->digest;
    r->response.rows = r->rows;
    r->response.width = r->full_width;
    if (!check_finite(r))
        return false;
    if (r->what == REQUEST_VECTORS)
        finish_vectors(r);
    return true;
}
