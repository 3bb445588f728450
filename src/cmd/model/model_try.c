/* SPDX-License-Identifier: MIT */
/* model_try: the part of `stoker model verify` that sums and shapes cannot tell: does the model
 * turn different texts, and texts of as many tokens that differ in one, into rows that are finite
 * and differ?
 *
 * Files may be whole and worth nothing: a tokenizer that is missing or of a kind that is not
 * supported, weights that were never written and are zero. */
#include "base/mem.h"
#include "base/str.h"
#include "cmd/model/cmd_model_int.h"
#include "engine/batch.h"
#include "engine/engine.h"

#include <math.h>

enum { TRY_TEXTS = 2, TRY_ROWS = TRY_TEXTS + 1, TRY_TOKENS = 16 };
#define TRY_ALIKE 1e-5f /* of the largest number: what the order of sums may change */

static enum rc texts_encode(const struct model *m, const struct tokenizer *t, struct batch *b,
                            struct err *err)
{
    static const char *const texts[TRY_TEXTS] = { "a", "the second of 2 texts" };
    size_t most = eng_tokens_max(m) < TRY_TOKENS ? eng_tokens_max(m) : TRY_TOKENS;
    struct tok_opts o = { .max_tokens = most, .truncate = TOK_LONGEST_FIRST };
    struct tok_scratch *s = tok_scratch_new();
    enum rc rc = RC_OK;

    for (size_t i = 0; i < TRY_TEXTS && !rc; i++) {
        struct tok_text text = { texts[i], strlen(texts[i]) };
        struct tok_out out;

        rc = tokenizer_encode(t, s, text, NULL, &o, &out, err);
        if (!rc && !out.count)
            rc = err_set(err, RC_FAIL, "the tokenizer makes no tokens of '%s'", texts[i]);
        if (!rc)
            batch_add(b, out.ids, out.types, out.count, false);
        if (!rc && i + 1 == TRY_TEXTS) { /* the same with another word in the middle */
            uint32_t *id;

            batch_add(b, out.ids, out.types, out.count, false);
            id = &b->ids[b->items[b->count - 1].first + out.count / 2];
            *id = (uint32_t)((*id + m->vocab / 2) % m->vocab);
        }
    }
    tok_scratch_free(s);
    return rc;
}

struct trial {
    struct eng *eng;
    enum eng_want want;
};

static enum rc trial_run(void *arg, const struct eng_batch *b, float *out, struct err *err)
{
    struct trial *t = arg;

    return eng_run(t->eng, b, t->want, out, err);
}

/* Rows that are alike say that nothing of a text reaches them. */
static enum rc rows_judge(const struct model *m, const float *a, const float *b, size_t width,
                          const char *of, struct err *err)
{
    float off = 0, most = 0;

    for (size_t i = 0; i < width; i++) {
        off = fmaxf(off, fabsf(a[i] - b[i]));
        most = fmaxf(most, fmaxf(fabsf(a[i]), fabsf(b[i])));
    }
    if (off > TRY_ALIKE * most)
        return RC_OK;
    err_hint(err, "Were its weights written? Fetch it again.");
    return err_set(err, RC_FAIL, "model '%s' gives %s for different %s", m->name,
                   most > 0 ? "the same numbers" : "only zeros", of);
}

enum rc model_try(const struct model *m, bool words, struct err *err)
{
    struct trial t = { .want = m->head == MODEL_HEAD_NONE ? ENG_VECTORS : ENG_SCORES };
    size_t width = eng_width(m, t.want);
    struct batch_runner r = { trial_run, &t, width, TRY_ROWS * TRY_TOKENS };
    struct eng_opts eo = { .device = "cpu", .dtype = ENG_F32 };
    float *rows = xcalloc(TRY_ROWS * width, sizeof(*rows));
    struct tokenizer *tok = NULL;
    struct batch b = { 0 };
    enum rc rc = model_tokenizer(m, &tok, err);

    if (!rc)
        rc = texts_encode(m, tok, &b, err);
    if (!rc)
        rc = eng_load(m, &eo, &t.eng, err);
    if (!rc)
        rc = batch_run(&b, &r, rows, err);
    for (size_t i = 0; i < b.count && !rc; i++) {
        if (b.items[i].why)
            rc = err_set(err, RC_FAIL, "model '%s' fails on a text: %s", m->name, b.items[i].why);
    }
    if (!rc)
        rc = rows_judge(m, rows, rows + width, width, "texts", err);
    if (!rc && words && m->vocab > 1)
        rc = rows_judge(m, rows + width, rows + 2 * width, width, "words", err);
    eng_free(t.eng);
    tokenizer_free(tok);
    batch_release(&b);
    free(rows);
    return rc;
}
