/* SPDX-License-Identifier: MIT */
/* choose: which way of making a product is the fastest, measured once and remembered.
 *
 * What can be measured, and how, comes through struct choose_ops: this file knows no CUDA and its
 * tests need no GPU.  Choices are kept in a small text file, one line each, that belongs to one GPU
 * model, one driver and one stamp (whatever else makes old choices worthless: versions).  A file
 * that is missing, old or broken is as good as an empty one; it is replaced as a whole, by a
 * rename, so that two processes that measure at once do each other no harm.
 *
 *     stoker-cuda-choices 1 STAMP
 *     f16 f16 gelu 1536 384 16384 sm90 61.25
 *     f16 f16 none 384 1536 16384 lt 58.50 0000000000000042 ... (eight words)
 *
 * A product's key holds a bucket of rows, not their number: the next power of two. */
#ifndef ENGINE_CUDA_CHOOSE_H
#define ENGINE_CUDA_CHOOSE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CHOOSE_ENTRIES_MAX = 512, /* choices remembered; more are measured each time */
    CHOOSE_LINE_MAX = 256,    /* bytes of a line */
    CHOOSE_FILE_MAX = CHOOSE_LINE_MAX * (CHOOSE_ENTRIES_MAX + 1),
    CHOOSE_WAYS_MAX = 12, /* ways of making one product */
    CHOOSE_WORDS = 8,     /* of an algorithm's description */
    CHOOSE_STAMP_MAX = 64,
    CHOOSE_PATH_MAX = 4096,
    CHOOSE_TEXT_MAX = 256,
    CHOOSE_SIDE_MAX = 1 << 20, /* the largest n and k */
    CHOOSE_ROWS_MAX = 1 << 30, /* the largest bucket */
    CHOOSE_BUCKET_MIN = 16     /* the smallest */
};

enum choose_impl { CHOOSE_SM90, CHOOSE_SM80, CHOOSE_LT, CHOOSE_IMPLS };

struct choose_way {
    enum choose_impl impl;
    uint64_t words[CHOOSE_WORDS]; /* of CHOOSE_LT's algorithm; else 0 */
};

/* Types and activations by their numbers in gk.h. */
struct choose_key {
    int type, out_type, act, n, k;
    int bucket; /* choose_bucket() of m */
};

struct choose_entry {
    struct choose_key key;
    struct choose_way way;
    double us;
};

struct choose {
    struct choose_entry entries[CHOOSE_ENTRIES_MAX];
    size_t count;
    char stamp[CHOOSE_STAMP_MAX];
    bool changed; /* since it was read or written */
};

struct choose_ops {
    void *arg;
    /* The ways there are, at most `max`, the surest first. */
    size_t (*ways)(void *arg, const struct choose_key *key, struct choose_way *out, size_t max);
    /* Microseconds of one; negative or not a number: it does not work here. */
    double (*measure)(void *arg, const struct choose_key *key, const struct choose_way *way);
};

int choose_bucket(int m); /* the next power of two, CHOOSE_BUCKET_MIN at least */

/* No choices yet.  Characters of the stamp other than letters, digits, '.', '_', '-' become '_'. */
void choose_init(struct choose *c, const char *stamp);

/* Where the file is: $XDG_CACHE_HOME/stoker or ~/.cache/stoker, cuda-GPU-DRIVER.txt, odd characters
 * as '_'.  False, and why, when neither variable names an absolute path. */
bool choose_path(char out[CHOOSE_PATH_MAX], const char *gpu, const char *driver,
                 char err[CHOOSE_TEXT_MAX]);

/* Takes the choices out of a file's text: all of them or, when a line is not as it should be,
 * none.  `text` need not end with a NUL. */
bool choose_parse(struct choose *c, const char *text, size_t len, char err[CHOOSE_TEXT_MAX]);
/* The file as text; bytes written without the NUL, or 0 when `cap` is too small. */
size_t choose_format(const struct choose *c, char *out, size_t cap);

/* The same with a file.  choose_write() makes the folder where there is none. */
bool choose_read(struct choose *c, const char *path, char err[CHOOSE_TEXT_MAX]);
bool choose_write(struct choose *c, const char *path, char err[CHOOSE_TEXT_MAX]);

/* What was chosen for `key`, or NULL. */
const struct choose_entry *choose_find(const struct choose *c, const struct choose_key *key);

/* The best way for `key`: the remembered one, else measured over all there are and remembered.
 * False when none works. */
bool choose_best(struct choose *c, const struct choose_key *key, const struct choose_ops *ops,
                 struct choose_way *out);

#ifdef __cplusplus
}
#endif
#endif
