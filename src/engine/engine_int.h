/* SPDX-License-Identifier: MIT */
/* engine_int: what implementations of struct eng_ops are made of: a model's weights by role, and
 * what follows its last layer.  A plug-in gets the same functions through struct eng_host
 * (engine_plugin.h). */
#ifndef ENGINE_ENGINE_INT_H
#define ENGINE_ENGINE_INT_H
#include "engine/engine.h"

int eng_ops_score(const struct eng_ops *ops);
/* eng_find_in() without workers. */
enum rc eng_find(const char *device, const struct eng_ops **out, struct err *err) MUST_USE;

/* ---- weights.c: the tensors of a model by role, as f32, for implementations ---- */
/* What a role looks like in this model: rows (1 for vectors) and columns; a role that the
 * model does not have (token types of MPNet, a head of an embedding model) has 0 rows. */
struct eng_shape {
    size_t rows, cols;
};
struct eng_shape eng_weight_shape(const struct model *m, enum model_role role);
/* Reads a whole tensor as f32 into `out` (its expected element count is checked):
 * matrices are [out][in] row-major. `layer` is ignored for roles of the whole model. */
enum rc eng_weight(const struct model *m, enum model_role role, size_t layer, float *out,
                   size_t count, struct err *err) MUST_USE;
/* The tensor itself, its shape checked, for those who read its bytes as they are. */
enum rc eng_weight_tensor(const struct model *m, enum model_role role, size_t layer,
                          const struct st_tensor **out, struct err *err) MUST_USE;
enum rc eng_dense_weight(const struct model *m, size_t i, float *w, float *bias,
                         struct err *err) MUST_USE;
/* MPNet: the bias of each relative distance j - i, clamped to ±MPNET_REACH, a row a head:
 * out[head][MPNET_REACH + (j - i)]. */
enum { MPNET_REACH = 128 };
enum rc eng_rel_bias(const struct model *m, float *out, struct err *err) MUST_USE;
/* The row of the bias table for a distance j - i. */
size_t eng_rel_bucket(ptrdiff_t distance);
/* Rows of the position table for one sequence.  RoBERTa and MPNet count from pad + 1; a
 * literal pad in the text has the position `pad` and does not advance the count. */
void eng_positions(const struct model *m, const uint32_t *ids, size_t count, uint32_t *out);

/* ---- pool.c: from token vectors to what was asked (f32, fixed order of sums) ---- */
struct eng_rows {   /* the last hidden states of one sequence */
    const float *x; /* [count][ld], of which `hidden` columns count */
    size_t ld, count;
    size_t skip; /* first rows that pooling leaves out: a prompt's; may be all */
};
void eng_pool(enum model_pool kind, const struct eng_rows *r, size_t hidden, float *out);

/* What follows the last layer: pooling, dense layers and normalising for vectors, the head
 * for scores.  It looks at one sequence and takes little time beside the layers, so every
 * implementation can use this one. */
struct eng_tail;
enum rc eng_tail_load(const struct model *m, struct eng_tail **out, struct err *err) MUST_USE;
void eng_tail_free(struct eng_tail *t); /* NULL is fine */
uint64_t eng_tail_bytes(const struct model *m);
size_t eng_tail_room(const struct model *m); /* floats of scratch that a run wants */
/* One row of what is wanted, all rows for ENG_TOKENS.  Threads may run one tail together,
 * each with its own room. */
void eng_tail_run(const struct eng_tail *t, enum eng_want want, const struct eng_rows *r,
                  float *room, float *out);

#endif
