/* SPDX-License-Identifier: MIT */
/* verify: is a model's folder whole?  Every number finite, no matrix zero, no layer that is not
 * run, every file what a list beside it says.  Shapes are model_open()'s business. */
#ifndef MODEL_FILES_VERIFY_H
#define MODEL_FILES_VERIFY_H
#include "base/arena.h"
#include "base/codec/sha256.h"
#include "model/model.h"

enum {
    VERIFY_FILES_MAX = 1024, /* files of a model's folder and the folders in it */
    VERIFY_FAULTS_MAX = 20   /* tensors named one by one */
};

enum sum_state { SUM_UNLISTED, SUM_OK, SUM_WRONG };

struct verify_file {
    const char *name; /* below the folder: "1_Pooling/config.json" */
    uint64_t bytes;
    char sha[SHA256_HEX];
    enum sum_state state;
    const char *list; /* the list that names it: "SHA256SUMS"; NULL: none */
};

struct verify_fault { /* a number that is NaN or infinite */
    const char *tensor;
    uint64_t index;
    float value;
};

struct verify_names { /* of tensors */
    const char *first[VERIFY_FAULTS_MAX];
    size_t count; /* may be above VERIFY_FAULTS_MAX */
};

struct verify {
    struct arena arena;
    struct verify_file *files; /* sorted by name */
    size_t files_count, wrong; /* wrong: files other than their list says */
    const char **missing;      /* listed in SHA256SUMS and not there */
    size_t missing_count;
    struct verify_fault faults[VERIFY_FAULTS_MAX]; /* the first of each tensor */
    size_t faults_count;                           /* tensors; may be above VERIFY_FAULTS_MAX */
    struct verify_names zero;                      /* matrices that were never written */
    struct verify_names flat;                      /* matrices of one number that is not zero */
    struct verify_names unused;                    /* of layers that config.json does not have */
    uint64_t tensors, numbers;                     /* looked at */
};

struct verify_talk { /* how far it is; all NULL: nobody listens */
    void (*progress)(void *arg, uint64_t done, uint64_t total);
    void *arg;
};

/* RC_OK also when something is wrong: see the counts. */
enum rc verify_model(const struct model *m, const struct verify_talk *talk, struct verify *out,
                     struct err *err) MUST_USE;
void verify_release(struct verify *v);
/* Only the files, without their sums: for a list of sizes. */
enum rc verify_list(const char *dir, struct verify *out, struct err *err) MUST_USE;

#endif
