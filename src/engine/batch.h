/* SPDX-License-Identifier: MIT */
/* batch: many texts of different lengths as few packed batches.
 *
 * A window of tokenised texts is gathered, sorted by length, cut into batches of at most
 * `budget` tokens without padding, run, and the results are put back in the order the
 * texts came in:
 *
 *   added      0:####  1:##  2:#######  3:##        (# is a token)
 *   sorted     2:#######  0:####  1:##  3:##        longest first, then as added
 *   batches    [2] [0 1 3]                          budget 8
 *   rows out   0 1 2 3
 *
 * A batch that fails is run again text by text, so that one bad text costs itself alone.
 * Who runs a batch is a function of the caller's: the engine, or a test's own. */
#ifndef ENGINE_BATCH_H
#define ENGINE_BATCH_H
#include "engine/engine.h"

enum {
    BATCH_TOKENS_DEFAULT = 8192,
    BATCH_TOKENS_MAX = 1 << 20, /* tokens of one batch */
    BATCH_WINDOW_MAX = 4096,    /* texts gathered before they are run */
    BATCH_WINDOW_TOKENS_MAX = 1 << 20
};

struct batch_item {
    size_t first;    /* of its ids */
    uint32_t tokens; /* 0: it failed before it had any */
    uint32_t skip;   /* first tokens that pooling leaves out: a prompt's */
    bool truncated;
    char *why; /* what went wrong with it; owned; NULL: nothing */
};

struct batch {     /* all zero: empty */
    uint32_t *ids; /* [tokens], owned, as added */
    uint8_t *types;
    size_t tokens, tokens_cap;
    struct batch_item *items; /* [count], owned */
    size_t count, items_cap;
    uint32_t *order; /* items that run, longest first; owned */
    size_t order_cap;
};

void batch_release(struct batch *b);
void batch_reset(struct batch *b); /* empties it, keeps the memory */

/* Appends a text's ids (copied; `types` NULL: all 0). */
void batch_add(struct batch *b, const uint32_t *ids, const uint8_t *types, size_t count,
               bool truncated);
/* Pooling leaves out the first tokens of the text that was added last. */
void batch_skip(struct batch *b, size_t tokens);
/* Appends a text that has no ids, and why. */
void batch_add_failed(struct batch *b, const char *why);
bool batch_full(const struct batch *b); /* time to run it */

struct batch_runner {
    enum rc (*run)(void *arg, const struct eng_batch *batch, float *out, struct err *err);
    void *arg;
    size_t width;  /* floats a sequence */
    size_t budget; /* tokens a batch; a longer text has one to itself; 0: the default */
};
/* rows[item * width ..] is written for every item without `why`; NaN for the others.
 * Fails only when nothing can run at all: every text of the window failed alike. */
enum rc batch_run(struct batch *b, const struct batch_runner *r, float *rows,
                  struct err *err) MUST_USE;

#endif
