/* SPDX-License-Identifier: MIT */
/* The commands, sorted by name.  tests/rules/docs.t checks the order and the docs. */
#include "cmd/cmd_int.h"

extern const struct cmd cmd_agent, cmd_bench, cmd_completion_cmd, cmd_detect, cmd_embed, cmd_gather,
    cmd_help, cmd_model, cmd_monitor, cmd_plan, cmd_render, cmd_rerank, cmd_serve, cmd_spec,
    cmd_tokenize, cmd_top, cmd_up;

const struct cmd *const commands[] = {
    &cmd_agent, &cmd_bench, &cmd_completion_cmd, &cmd_detect, &cmd_embed,  &cmd_gather,
    &cmd_help,  &cmd_model, &cmd_monitor,        &cmd_plan,   &cmd_render, &cmd_rerank,
    &cmd_serve, &cmd_spec,  &cmd_tokenize,       &cmd_top,    &cmd_up,     NULL,
};
