/* SPDX-License-Identifier: MIT */
/* model_int: between model.c and model_info.c. */
#ifndef CMD_MODEL_INT_H
#define CMD_MODEL_INT_H
#include "cmd/cmd.h"

/* `stoker model info`: argv[0] is a model's name or folder. */
enum rc model_info_run(struct cmd_ctx *ctx, bool json, struct err *err) MUST_USE;

#endif
