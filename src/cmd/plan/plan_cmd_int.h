/* SPDX-License-Identifier: MIT */
/* plan_cmd_int: what the files of `stoker plan` share. */
#ifndef CMD_PLAN_PLAN_CMD_INT_H
#define CMD_PLAN_PLAN_CMD_INT_H
#include "base/text/fields.h"
#include "cmd/cmd_int.h"
#include "plan/plan.h"
#include "plan/runs.h"

enum { PLAN_FILE_MAX = 4 << 20 }; /* bytes of a config.json or a table */

extern const struct cmd cmd_plan_memory, cmd_plan_train, cmd_plan_validate, cmd_plan_fit;
extern const struct cmd cmd_plan_advise, cmd_plan_campaign, cmd_plan_choose, cmd_plan_cluster,
    cmd_plan_goodput, cmd_plan_machine, cmd_plan_queue, cmd_plan_recompute, cmd_plan_sizes;

/* Rows of a command's options, of which the struct is S. */
#define ROW_OPT(S, letter, name, kind, field, arg, help)                                           \
    {                                                                                              \
        letter, name, OPT_##kind, offsetof(struct S, field), arg, NULL, 0, 0, help                 \
    }
#define ROW_NUM(S, name, field, min, max, help)                                                    \
    {                                                                                              \
        0, name, OPT_INT, offsetof(struct S, field), "N", NULL, min, max, help                     \
    }
#define ROW_ONE_OF(S, name, field, choices, help)                                                  \
    {                                                                                              \
        0, name, OPT_STR, offsetof(struct S, field), "WHICH", choices, 0, 0, help                  \
    }

/* A model from a name, "7B,32,4096", a config.json, or a folder that has one. */
enum rc plan_read_model(const char *name, struct plan_model *out, struct err *err) MUST_USE;
struct plan_machine_want;
/* What `plan machine` prints for it. */
enum rc machine_answer(struct cmd_ctx *ctx, const struct plan_machine_want *w, bool json,
                       struct err *err) MUST_USE;
/* As text, in a buffer of its own for one expression: "70,553,706,496"; "tp8 pp4 dp2 zero1". */
enum { CONFIG_TEXT_MAX = 320 };
const char *text_digits(uint64_t v, char out[FIELD_TEXT_MAX]);
const char *text_config(const struct plan_config *c, char out[CONFIG_TEXT_MAX]);
#define TEXT_DIGITS(v) text_digits((v), (char[FIELD_TEXT_MAX]){ 0 })
#define TEXT_CONFIG(c) text_config((c), (char[CONFIG_TEXT_MAX]){ 0 })
/* The members of a configuration, its text first, into the object that is open. */
void plan_json_config(struct json_out *w, const struct plan_config *c);

/* What `plan validate` says of time: text, RESULT lines, JSON, a picture ('-': stdout). */
void plan_print_time(struct cmd_ctx *ctx, const struct plan_rows *rows,
                     const struct plan_time_report *r);
/* `bands`: what data/plan_bands.csv would be, where sources were left out. */
void plan_results_time(struct cmd_ctx *ctx, const struct plan_rows *rows,
                       const struct plan_time_report *r, struct buf *bands);
extern const struct field_table plan_errors_table, plan_time_table;

/* To a file, whole or not at all; plan_write_out() takes '-' for stdout. */
enum rc plan_write_text(const struct buf *text, const char *path, struct err *err) MUST_USE;
enum rc plan_write_out(struct cmd_ctx *ctx, const struct buf *text, const char *path,
                       struct err *err) MUST_USE;

#endif
