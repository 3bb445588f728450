/* SPDX-License-Identifier: MIT */
/* gemm_choices_int: which way of making a product is the fastest, measured once and remembered.
 *
 * What can be measured, and how, comes through struct choose_ops: this file knows no CUDA and its
 * tests need no GPU.  Choices are kept in a small text file, one line each, that belongs to one GPU
 * model, one driver, one stamp (whatever else makes old choices worthless: versions) and one
 * library beside our own kernels, which is known by its file, since opening it takes longer than
 * loading most models.  A file that is missing, old or broken is as good as an empty one; it is
 * replaced as a whole, by a rename, so that two processes that measure at once do each other no
 * harm.
 *
 *     stoker-cuda-choices 2 STAMP
 *     library 0000000020481690 186e9a1b2c3d4e5f /usr/lib/libcublasLt.so.13     (or "library none")
 *     f16 f16 gelu 1536 384 16384 sm90 61.25
 *     f16 f16 none 384 1536 512 split90 5.50 4
 *     f16 f16 none 384 1536 16384 lt 58.50 0000000000000042 ... (eight words)
 *     sum 0123456789abcdef                                      (of all before it)
 *
 * A product's key holds a bucket of rows, not their number: the next power of two. */
#ifndef ENGINE_CUDA_GEMM_CHOICES_INT_H
#define ENGINE_CUDA_GEMM_CHOICES_INT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CHOOSE_ENTRIES_MAX = 512, /* choices remembered; more are measured each time */
    CHOOSE_LINE_MAX = 256,    /* bytes of a line */
    CHOOSE_PATH_MAX = 4096,
    CHOOSE_FILE_MAX = CHOOSE_LINE_MAX * (CHOOSE_ENTRIES_MAX + 2) + CHOOSE_PATH_MAX,
    CHOOSE_WAYS_MAX = 24, /* ways of making one product */
    CHOOSE_WORDS = 8,     /* of an algorithm's description */
    CHOOSE_STAMP_MAX = 96,
    CHOOSE_TEXT_MAX = 256,
    CHOOSE_SIDE_MAX = 1 << 20, /* the largest n and k */
    CHOOSE_ROWS_MAX = 1 << 30, /* the largest bucket */
    CHOOSE_BUCKET_MIN = 16     /* the smallest */
};

enum choose_impl {
    CHOOSE_SM90,
    CHOOSE_SM80,
    CHOOSE_LT,
    CHOOSE_SPLIT90,
    CHOOSE_SKINNY,
    CHOOSE_IMPLS
};

struct choose_way {
    enum choose_impl impl;
    int parts;                    /* of sums, for CHOOSE_SPLIT90; else 0 */
    uint64_t words[CHOOSE_WORDS]; /* of CHOOSE_LT's algorithm; else 0 */
};

/* Types and activations by their numbers in gk_int.h. */
struct choose_key {
    int type, out_type, act, n, k;
    int bucket; /* choose_bucket() of m */
};

struct choose_entry {
    struct choose_key key;
    struct choose_way way;
    double us;
};

/* A file as it was: the same size and the same time of its last change. */
struct choose_library {
    char path[CHOOSE_PATH_MAX]; /* "": there is none */
    uint64_t size, changed_ns;
};

struct choose {
    struct choose_entry entries[CHOOSE_ENTRIES_MAX];
    size_t count;
    struct choose_library lib;
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

/* Takes `path` ("" or NULL: none) for the library; what was chosen beside another is forgotten. */
void choose_use_library(struct choose *c, const char *path);
/* Whether the library is the file that it was; so too when there was none. */
bool choose_library_same(const struct choose *c);

/* Where the file is: $STOKER_CACHE, $XDG_CACHE_HOME/stoker or ~/.cache/stoker, cuda-GPU-DRIVER.txt,
 * odd characters as '_'.  False, and why, when no variable names an absolute path. */
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
/* Adds what another process has written there meanwhile; what is known here stays. */
void choose_merge(struct choose *c, const char *path);

/* What was chosen for `key`, or NULL. */
const struct choose_entry *choose_find(const struct choose *c, const struct choose_key *key);

/* The best way for `key`: the remembered one, else measured over all there are and remembered.  The
 * first that works is left for one that is CHOOSE_GAIN faster: less is noise, or lost again beside
 * other neighbours than it was measured with.  False when none works. */
#define CHOOSE_GAIN 0.05
bool choose_best(struct choose *c, const struct choose_key *key, const struct choose_ops *ops,
                 struct choose_way *out);

#ifdef __cplusplus
}
#endif
#endif
