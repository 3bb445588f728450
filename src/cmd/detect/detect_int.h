/* SPDX-License-Identifier: MIT */
/* detect_int: what the files behind `stoker detect` and `stoker gather` share. */
#ifndef CMD_DETECT_DETECT_INT_H
#define CMD_DETECT_DETECT_INT_H
#include "base/args.h"
#include "base/text/table.h"
#include "cmd/cmd_int.h"
#include "hw/hw.h"
#include "nccl/nccl.h"

struct detect_opts {
    bool json, topo, deep, compare;
    const char *file, *svg, *env, *why, *root, *peer, *nodes, *against, *host;
    struct opt_strs with, check;
};

/* The machine below `root_path` (NULL: this one); STOKER_NVML_LIB is heeded. */
enum rc detect_probe(const char *root_path, struct recorder *rec, struct hw **out,
                     struct err *err) MUST_USE;

/* detect_nccl.c: the page with its section about NCCL; the environment. */
void detect_page(const struct term *term, const struct hw *hw, struct buf *out);
/* detect_against.c: the choice beside what NCCL said; RC_FAIL, told on stdout, when they differ. */
enum rc detect_against(const struct detect_opts *o, const struct term *term, const struct hw *hw,
                       struct buf *out, struct err *err) MUST_USE;
void detect_env(const struct detect_opts *o, const struct hw *hw, struct buf *out);
/* detect_compare.c: the machines that the operands name, side by side. */
enum rc detect_compare(struct cmd_ctx *ctx, struct err *err) MUST_USE;

#endif
