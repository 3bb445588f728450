/* SPDX-License-Identifier: MIT */
/* settings: which type and how many tokens a batch suit a device and a model, and who takes
 * over when the device fails.
 *
 * data/serve.csv has a pattern for the device's kind (the driver's product name, or "cpu" and
 * its best instructions), a size or an architecture of model, and a reason for each setting.
 * Of the rows that fit, the one whose device pattern has most letters wins, then one for an
 * architecture, then one for a size; that is, the one that says most. */
#include "base/embed.h"
#include "base/str.h"
#include "catalog/csv.h"
#include "serve/models/manager_int.h"

#include <fnmatch.h>

EMBED(data_serve, "data/serve.csv");

enum {
    COL_DEVICE,
    COL_MODEL,
    COL_DTYPE,
    COL_DTYPE_WHY,
    COL_BATCH,
    COL_BATCH_WHY,
    COL_FALLBACK,
    COL_FALLBACK_WHY,
    COLS
};
enum { SETTINGS_SMALL_MAX = 50000000, SETTINGS_BASE_MAX = 250000000 }; /* parameters */

static const char *size_of(const struct model *m)
{
    return m->parameters <= SETTINGS_SMALL_MAX  ? "small"
           : m->parameters <= SETTINGS_BASE_MAX ? "base"
                                                : "large";
}

/* How much a row says of this device and model; 0: it is about others. */
static size_t row_fit(const char *device, const char *model, const char *kind,
                      const struct model *m)
{
    size_t letters = 1;

    if (fnmatch(device, kind, FNM_CASEFOLD) != 0)
        return 0;
    for (const char *c = device; *c; c++)
        letters += *c != '*';
    if (str_eq(model, "*"))
        return 4 * letters;
    if (str_eq(model, size_of(m)))
        return 4 * letters + 1;
    return str_eq(model, model_arch_label(m->arch)) ? 4 * letters + 2 : 0;
}

/* "8192", or "512/thread" where a machine with more cores wants more. */
static bool batch_of(const char *text, struct serve_setting *out)
{
    static const char per[] = "/thread";
    char digits[24];
    uint64_t batch;

    out->per_thread = str_ends(text, per);
    if (!str_copy(digits, sizeof(digits), text))
        return false;
    if (out->per_thread)
        digits[strlen(digits) - (sizeof(per) - 1)] = '\0';
    if (!str_to_u64(digits, 10, &batch) || !batch || batch > MODELS_BATCH_TOKENS_MAX)
        return false;
    out->batch_tokens = (size_t)batch;
    return true;
}

static enum rc read_row(const struct csv *t, size_t row, const size_t *col,
                        struct serve_setting *out, struct err *err)
{
    if (!eng_dtype_parse(csv_cell(t, row, col[COL_DTYPE]), &out->dtype) ||
        !batch_of(csv_cell(t, row, col[COL_BATCH]), out))
        return err_set(err, RC_PARSE, "table 'serve.csv': row %zu has a bad type or batch",
                       row + 1);
    out->fallback = csv_cell(t, row, col[COL_FALLBACK]);
    out->dtype_why = csv_cell(t, row, col[COL_DTYPE_WHY]);
    out->batch_why = csv_cell(t, row, col[COL_BATCH_WHY]);
    out->fallback_why = csv_cell(t, row, col[COL_FALLBACK_WHY]);
    return RC_OK;
}

static enum rc find_columns(const struct csv *t, size_t *col, struct err *err)
{
    static const char *const names[COLS] = {
        [COL_DEVICE] = "device",      [COL_MODEL] = "model",
        [COL_DTYPE] = "dtype",        [COL_DTYPE_WHY] = "dtype_reason",
        [COL_BATCH] = "batch_tokens", [COL_BATCH_WHY] = "batch_reason",
        [COL_FALLBACK] = "fallback",  [COL_FALLBACK_WHY] = "fallback_reason",
    };

    for (size_t i = 0; i < COLS; i++) {
        int c = csv_col(t, names[i]);
        if (c < 0)
            return err_set(err, RC_PARSE, "table 'serve.csv': there is no column '%s'", names[i]);
        col[i] = (size_t)c;
    }
    return RC_OK;
}

/* A head sums up what one vector says: how far scores move is the model's.  Measured with a
 * reranker of 24 layers (docs/SPEED.md). */
static const char *scores_exactness(enum eng_dtype dtype)
{
    switch (dtype) {
    case ENG_F32:
        return "exact: the scores of transformers but for rounding";
    case ENG_F16:
        return "what the head reads has cosine 0.99999 or more with f32";
    case ENG_BF16:
        return "what the head reads has cosine 0.9998 or more with f32: near scores may change "
               "places";
    case ENG_FP8:
        return "what the head reads has cosine 0.993 or more with f32: near scores may change "
               "places";
    case ENG_I8:
    case ENG_AUTO:
        break;
    }
    return "how near its scores are to those of f32 is not known";
}

/* Least cosine of a vector with that in f32, and how many of the ten nearest neighbours of a search
 * among 20,000 sentences are the same (all-MiniLM-L6-v2): docs/SPEED.md, make parity-overlap. */
const char *settings_exactness(enum eng_dtype dtype, bool gpu, bool scores)
{
    if (scores)
        return scores_exactness(dtype);
    switch (dtype) {
    case ENG_F32:
        return "exact: the vectors of sentence-transformers but for rounding (4e-7)";
    case ENG_F16:
        return "cosine with f32 0.99999 or more, 99.9 % of the ten nearest stay";
    case ENG_BF16:
        return gpu ? "cosine with f32 0.9998 or more, 99.3 % of the ten nearest stay"
                   : "cosine with f32 0.9999 or more, 99.7 % of the ten nearest stay";
    case ENG_I8:
        return "cosine with f32 0.999 or more, 97.5 % of the ten nearest stay";
    case ENG_FP8:
        return "cosine with f32 0.993 or more, 97.3 % of the ten nearest stay";
    case ENG_AUTO:
        break;
    }
    return "how near it is to f32 is not known";
}

enum rc settings_of(const char *device_kind, const struct model *m, struct arena *a,
                    struct serve_setting *out, struct err *err)
{
    size_t col[COLS] = { 0 }, best = 0, row = 0;
    struct serve_setting s;
    struct csv t;
    enum rc rc = csv_parse(a, data_serve, data_serve_len, &t, err);

    if (rc == RC_OK)
        rc = find_columns(&t, col, err);
    for (size_t i = 0; rc == RC_OK && i < t.rows; i++) {
        size_t says = row_fit(csv_cell(&t, i, col[COL_DEVICE]), csv_cell(&t, i, col[COL_MODEL]),
                              device_kind, m);
        if (says > best) {
            best = says;
            row = i;
        }
    }
    if (rc == RC_OK && !best)
        rc = err_set(err, RC_PARSE, "table 'serve.csv' has no row for device '%s'", device_kind);
    if (rc == RC_OK)
        rc = read_row(&t, row, col, &s, err);
    if (rc != RC_OK)
        return rc;
    if (m->head_dim % 2 && s.dtype != ENG_F32) { /* such heads cannot be multiplied by pairs */
        s.dtype = ENG_AUTO;
        s.dtype_why = "heads of an odd size: float32 alone is possible";
    }
    *out = s;
    return RC_OK;
}
