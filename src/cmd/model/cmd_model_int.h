/* SPDX-License-Identifier: MIT */
/* cmd_model_int: what commands about models share. */
#ifndef CMD_MODEL_CMD_MODEL_INT_H
#define CMD_MODEL_CMD_MODEL_INT_H
#include "cmd/cmd_int.h"
#include "model/hub/hub.h"
#include "model/model.h"

/* `stoker model info`: argv[0] is a model's name or folder. */
enum rc model_info_run(struct cmd_ctx *ctx, bool json, struct err *err) MUST_USE;
/* One forward pass of two texts on the CPU; `words`: and of one that differs in one word only. */
enum rc model_try(const struct model *m, bool words, struct err *err) MUST_USE;

/* ---- model_fetch.c */
/* A model of the Hub, into its cache, with a bar on a terminal; what is worth knowing of it goes to
 * stderr.  Progress of `o` is set here. */
enum rc model_fetch(const struct cmd_ctx *ctx, const struct hub_opts *o, struct hub_result *out,
                    struct err *err) MUST_USE;
/* Weights as torch has them become model.safetensors beside them, where there is none. */
enum rc model_convert_fetched(const char *dir, const struct hub_result *r,
                              struct err *err) MUST_USE;
/* model_find(), by this revision (NULL: the name's); a name of the Hub that is not in the cache is
 * fetched, with `ctx` NULL refused. */
enum rc model_find_or_fetch(const struct cmd_ctx *ctx, const char *name_or_dir,
                            const char *revision, char *out, size_t cap, struct err *err) MUST_USE;

#endif
