/* SPDX-License-Identifier: MIT */
/* cmd_bench_int: the sub-commands of `stoker bench`. */
#ifndef CMD_CMD_BENCH_INT_H
#define CMD_CMD_BENCH_INT_H
#include "cmd/cmd_int.h"

extern const struct cmd cmd_bench_engine;

#endif
