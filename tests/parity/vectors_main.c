/* SPDX-License-Identifier: MIT */
/* vectors_main: runs token ids through a device and writes what comes out as raw f32, so
 * that tests/parity/vectors.py can compare it with the reference.
 *
 *     parity-vectors MODEL-DIR IDS OUT WANT [DEVICE [DTYPE [ISA [BATCH]]]]
 *
 * IDS has a line for each sequence, "101:0 2023:0 102:1": id and token type; "skip=2" before
 * them leaves two tokens out of pooling.  WANT is
 * vectors, scores or tokens; DTYPE auto, f32, bf16 or i8; "-" leaves a choice to the
 * program.  BATCH sequences go to the device together (default 8). */
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine.h"

#include <errno.h>
#include <inttypes.h>

enum { SEQUENCES_MAX = 1 << 20, TOKENS_MAX = 1 << 24, BATCH_DEFAULT = 8 };

struct input {
    uint32_t *ids;
    uint8_t *types;
    size_t tokens, cap;
    uint32_t *starts, *skip;
    size_t sequences, starts_cap, skip_cap;
};

static enum rc add_token(struct input *in, const char *word, struct err *err)
{
    char *colon = NULL, *end = NULL;
    unsigned long id, type = 0;

    id = strtoul(word, &colon, 10);
    if (*colon == ':')
        type = strtoul(colon + 1, &end, 10);
    else
        end = colon;
    if (end == word || *end || id > UINT32_MAX || type > UINT8_MAX)
        return err_set(err, RC_PARSE, "'%s' is no token", word);
    if (in->tokens == TOKENS_MAX)
        return err_set(err, RC_LIMIT, "more than %d tokens", TOKENS_MAX);
    if (in->tokens == in->cap) {
        in->cap = in->cap ? in->cap * 2 : 1024;
        in->ids = xreallocarray(in->ids, in->cap, sizeof(*in->ids));
        in->types = xreallocarray(in->types, in->cap, sizeof(*in->types));
    }
    in->ids[in->tokens] = (uint32_t)id;
    in->types[in->tokens++] = (uint8_t)type;
    return RC_OK;
}

static enum rc add_line(struct input *in, char *line, struct err *err)
{
    char *save = NULL;

    if (in->sequences == SEQUENCES_MAX)
        return err_set(err, RC_LIMIT, "more than %d sequences", SEQUENCES_MAX);
    VEC_GROW(in->skip, in->sequences, in->skip_cap);
    in->skip[in->sequences] = 0;
    for (char *w = strtok_r(line, " \n", &save); w; w = strtok_r(NULL, " \n", &save)) {
        enum rc rc = RC_OK;

        if (str_starts(w, "skip="))
            in->skip[in->sequences] = (uint32_t)strtoul(w + 5, NULL, 10);
        else
            rc = add_token(in, w, err);

        if (rc != RC_OK)
            return err_ctx(err, "sequence %zu", in->sequences);
    }
    in->sequences++;
    VEC_GROW(in->starts, in->sequences, in->starts_cap);
    in->starts[in->sequences] = (uint32_t)in->tokens;
    return RC_OK;
}

static enum rc read_input(const char *path, struct input *in, struct err *err)
{
    FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t cap = 0;
    enum rc rc = RC_OK;

    if (!f)
        return err_sys(err, "could not open '%s'", path);
    VEC_GROW(in->starts, in->sequences, in->starts_cap);
    in->starts[0] = 0;
    while (rc == RC_OK && getline(&line, &cap, f) > 0)
        rc = add_line(in, line, err);
    free(line);
    fclose(f);
    return rc;
}

/* Sequences [first, first + count): a batch counts its tokens from 0. */
static enum rc run_batch(struct eng *e, const struct input *in, size_t first, size_t count,
                         enum eng_want want, FILE *out, struct err *err)
{
    uint32_t *starts = xcalloc(count + 1, sizeof(*starts));
    struct eng_batch b = { .ids = in->ids + in->starts[first],
                           .types = in->types + in->starts[first],
                           .starts = starts,
                           .sequences = count,
                           .skip = in->skip + first };
    size_t rows, floats;
    float *room;
    enum rc rc;

    for (size_t i = 0; i <= count; i++)
        starts[i] = in->starts[first + i] - in->starts[first];
    rows = want == ENG_TOKENS ? starts[count] : count;
    floats = rows * eng_width(e->model, want);
    room = xcalloc(floats ? floats : 1, sizeof(*room));
    rc = eng_run(e, &b, want, room, err);
    if (rc == RC_OK && fwrite(room, sizeof(*room), floats, out) != floats)
        rc = err_sys(err, "could not write the result");
    free(room);
    free(starts);
    return rc;
}

static enum rc run_all(struct eng *e, const struct input *in, enum eng_want want, size_t batch,
                       const char *path, struct err *err)
{
    FILE *out = fopen(path, "we");
    enum rc rc = RC_OK;

    if (!out)
        return err_sys(err, "could not create '%s'", path);
    for (size_t s = 0; rc == RC_OK && s < in->sequences; s += batch) {
        size_t count = in->sequences - s < batch ? in->sequences - s : batch;

        rc = run_batch(e, in, s, count, want, out, err);
    }
    if (fclose(out) != 0 && rc == RC_OK)
        rc = err_sys(err, "could not write '%s'", path);
    return rc;
}

/* Position of `word` in `list`, which NULL ends; -1: it is not there. */
static int choice(const char *word, const char *const *list)
{
    for (int i = 0; list[i]; i++)
        if (str_eq(word, list[i]))
            return i;
    return -1;
}

static enum rc run(int argc, char **argv, struct input *in, struct err *err)
{
    static const char *const wants[] = { "vectors", "scores", "tokens", NULL };
    static const char *const dtypes[] = { "auto", "f32", "bf16", "i8", NULL };
    const char *arg[9] = { NULL };
    struct eng_opts o = { 0 };
    struct model *m = NULL;
    struct eng *e = NULL;
    uint64_t batch = BATCH_DEFAULT;
    char what[128];
    int want, dtype;
    enum rc rc;

    for (int i = 0; i < argc && i < (int)ARRAY_SIZE(arg); i++)
        arg[i] = i > 4 && str_eq(argv[i], "-") ? NULL : argv[i];
    want = argc > 4 ? choice(arg[4], wants) : -1;
    dtype = arg[6] ? choice(arg[6], dtypes) : 0;
    if (want < 0 || dtype < 0 || (arg[8] && (!str_to_u64(arg[8], 10, &batch) || batch == 0)))
        return err_set(err, RC_USAGE, "MODEL-DIR IDS OUT WANT [DEVICE [DTYPE [ISA [BATCH]]]]");
    o = (struct eng_opts){ .device = arg[5], .dtype = (enum eng_dtype)dtype, .isa = arg[7] };
    rc = read_input(arg[2], in, err);
    if (rc == RC_OK)
        rc = model_open(arg[1], &m, err);
    if (rc == RC_OK)
        rc = eng_load(m, &o, &e, err);
    if (rc == RC_OK) {
        e->ops->describe(e, what, sizeof(what));
        (void)fprintf(stderr, "%s: %s\n", e->ops->name, what);
        rc = run_all(e, in, (enum eng_want)want, batch, arg[3], err);
    }
    eng_free(e);
    model_close(m);
    return rc;
}

int main(int argc, char **argv)
{
    struct input in = { 0 };
    struct err err = { 0 };
    enum rc rc = run(argc, argv, &in, &err);

    free(in.ids);
    free(in.types);
    free(in.starts);
    free(in.skip);
    if (rc != RC_OK)
        (void)fprintf(stderr, "parity-vectors: %s\n", err.msg);
    return rc_exit(rc);
}
