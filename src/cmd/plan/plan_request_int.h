/* SPDX-License-Identifier: MIT */
/* plan_ask: what the commands about whole runs have in common: the model, the GPUs, the sequence
 * and the batch they ask with, and how they write figures.
 *
 * Figures are written with three digits: the model behind them is right to several percent. */
#ifndef CMD_PLAN_PLAN_REQUEST_INT_H
#define CMD_PLAN_PLAN_REQUEST_INT_H
#include "base/text/json.h"
#include "cmd/plan/plan_cmd_int.h"
#include "plan/advice.h"
#include "plan/campaign.h"

struct train_job;

struct ask_opts {     /* of every such command, the first member of its options */
    const char *file; /* a spec whose component is asked about; NULL: none */
    const char *model, *gpu, *machine, *tokens, *precision, *optimizer, *config, *recompute;
    int64_t gpus, seq, batch, lora, bits;
    bool eager, no_flash, json;
    struct train_job *planned; /* the component's; ask_read() takes it over */
};
#define ASK_OPT(S, letter, name, kind, field, arg, help)                                           \
    {                                                                                              \
        letter, name, OPT_##kind, offsetof(struct S, field), arg, NULL, 0, 0, help                 \
    }
#define ASK_NUM(S, name, field, min, max, help)                                                    \
    {                                                                                              \
        0, name, OPT_INT, offsetof(struct S, field), "N", NULL, min, max, help                     \
    }
#define ASK_FILE(S)                                                                                \
    ASK_OPT(S, 'f', "file", STR, ask.file, "SPEC",                                                 \
            "the job is a component of this stoker.yaml; other options win over it")
#define ASK_MODEL(S)                                                                               \
    ASK_OPT(S, 'm', "model", STR, ask.model, "MODEL",                                              \
            "name, config.json, its folder, or PARAMETERS,LAYERS,HIDDEN")
#define ASK_GPU(S) ASK_OPT(S, 'g', "gpu", STR, ask.gpu, "GPU", "kind of GPU (default h100)")
#define ASK_MACHINE(S)                                                                             \
    ASK_OPT(S, 0, "machine", STR, ask.machine, "FILE",                                             \
            "GPUs and links from 'stoker detect --json', with measured rates where it has them")
#define ASK_GPUS(S) ASK_NUM(S, "gpus", ask.gpus, 1, PLAN_GPUS_MAX, "GPUs in all")
#define ASK_SEQ(S)                                                                                 \
    ASK_NUM(S, "seq", ask.seq, 1, PLAN_SEQ_MAX, "tokens in a sequence (default 4096)")
#define ASK_BATCH(S)                                                                               \
    ASK_NUM(S, "batch", ask.batch, 1, PLAN_BATCH_MAX,                                              \
            "sequences in a step (default: that of published runs of the size)")
#define ASK_TOKENS(S)                                                                              \
    ASK_OPT(S, 't', "tokens", STR, ask.tokens, "COUNT",                                            \
            "tokens to train on, as 300B or 15.6T (default: 20 a parameter)")
#define ASK_PRECISION(S)                                                                           \
    {                                                                                              \
        0, "precision", OPT_STR, offsetof(struct S, ask.precision), "WHICH",                       \
            PLAN_PRECISION_CHOICES, 0, 0, "as in 'plan memory' (default bf16)"                     \
    }
#define ASK_OPTIMIZER(S)                                                                           \
    {                                                                                              \
        0, "optimizer", OPT_STR, offsetof(struct S, ask.optimizer), "WHICH",                       \
            PLAN_OPTIMIZER_CHOICES, 0, 0, "as in 'plan memory' (default adam)"                     \
    }
#define ASK_KERNELS(S)                                                                             \
    ASK_OPT(S, 0, "eager", FLAG, ask.eager, NULL, "no fused kernels (always so on Ampere)"),       \
        ASK_OPT(S, 0, "no-flash", FLAG, ask.no_flash, NULL, "attention stores all pairs")
#define ASK_JSON(S) ASK_OPT(S, 'j', "json", FLAG, ask.json, NULL, "print JSON instead of text")

struct ask { /* what is asked, and the run it is about; release with ask_release() */
    struct arena arena;
    struct plan_facts facts;
    struct plan_recipes recipes;
    struct plan_model model;
    struct plan_counts counts;
    struct plan_gpu gpu;
    struct plan_best_want want;
    double tokens;
    bool tokens_given, batch_given;
    struct train_job *planned;   /* owned; NULL: no spec */
    struct plan_cluster cluster; /* the run's, where the command has one */
    struct plan_best best;
};
/* With --file: reads the component that the operand names into `o` and, where the command has one,
 * *price; `search`: plans it as `stoker plan train -f` does.  Without: nothing. */
enum rc ask_spec(struct cmd_ctx *ctx, struct ask_opts *o, const char **price, bool search,
                 struct err *err) MUST_USE;
/* Facts and, where `o` has a model, the model; RC_USAGE without one. */
enum rc ask_read(const struct ask_opts *o, struct ask *out, struct err *err) MUST_USE;
void ask_release(struct ask *a);
/* a->cluster: so many GPUs of the kind, or of machines like that of --machine. */
enum rc ask_cluster(struct ask *a, const struct ask_opts *o, int64_t gpus,
                    struct err *err) MUST_USE;
/* a->best: the best configuration on a->cluster, or the one of --config. */
enum rc ask_best(struct ask *a, const struct ask_opts *o, struct err *err) MUST_USE;

/* "15.6T", with an error that names the option. */
enum rc ask_count(const char *option, const char *text, double least, double most, double *out,
                  struct err *err) MUST_USE;
enum rc ask_seconds(const char *option, const char *text, double *out, struct err *err) MUST_USE;
enum rc ask_money(const char *option, const char *text, double *out, struct err *err) MUST_USE;
enum rc ask_share(const char *option, const char *text, double *out, struct err *err) MUST_USE;

enum { ASK_TEXT_MAX = 32 };
/* Three digits: "0.0123", "12.3", "1,230", "12.3M". */
const char *ask_short(double v, char out[ASK_TEXT_MAX]);
const char *ask_usd(double v, char out[ASK_TEXT_MAX]);   /* "$12.3M" */
const char *ask_watts(double w, char out[ASK_TEXT_MAX]); /* "25.1 MW" */
const char *ask_time(double s, char out[ASK_TEXT_MAX]);  /* "4.9 min", "3.1 h", "54 d" */
const char *ask_bytes(double b, char out[ASK_TEXT_MAX]); /* "5.68 TB": powers of ten, as disks */
/* The same in a buffer of its own, for one expression. */
#define ASK_SHORT(v) ask_short((v), (char[ASK_TEXT_MAX]){ 0 })
#define ASK_USD(v)   ask_usd((v), (char[ASK_TEXT_MAX]){ 0 })
#define ASK_WATTS(v) ask_watts((v), (char[ASK_TEXT_MAX]){ 0 })
#define ASK_TIME(v)  ask_time((v), (char[ASK_TEXT_MAX]){ 0 })
#define ASK_BYTES(v) ask_bytes((v), (char[ASK_TEXT_MAX]){ 0 })

/* A field that is a struct plan_range; .words and .title are those of ask_figure(). */
extern const struct field_table plan_range_table;
#define ASK_RANGE(key_, s, member, ...)                                                            \
    {                                                                                              \
        .key = (key_), .kind = FIELD_STRUCT, .off = offsetof(s, member), .sub = &plan_range_table, \
        .doc = __VA_ARGS__                                                                         \
    }

/* A table of rows: what, expected, range, why. */
struct ask_table {
    struct table *t;
    const struct field_table *fields; /* what ask_figure() knows */
    const void *obj;
};
void ask_table_begin(struct ask_table *t, const struct field_table *fields, const void *obj);
void ask_row(struct ask_table *t, const char *what, const char *value, const char *range,
             const char *fmt, ...) PRINTF_LIKE(5, 6);
void ask_range(struct ask_table *t, const char *what, const struct plan_range *r,
               const char *(*words)(double v, char *out), const char *fmt, ...) PRINTF_LIKE(5, 6);
/* The field of the key: its title, its value, its range where it has one, and why. */
void ask_figure(struct ask_table *t, const char *key, const char *fmt, ...) PRINTF_LIKE(3, 4);
void ask_table_end(struct ask_table *t, struct cmd_ctx *ctx);
/* One paragraph, wrapped. */
void ask_note(struct cmd_ctx *ctx, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* For fp32, that TF32 is not counted; nothing for another precision. */
void ask_fp32(struct cmd_ctx *ctx, const struct plan_gpu *g, enum plan_precision p);
/* "llama-3.1-70b: 70.6B parameters on 64 x H100 ..." and the configuration with its time. */
void ask_head(struct cmd_ctx *ctx, const struct ask *a);
/* Rows of tables whose struct begins with a struct ask: the spec, if any, and the model; the
 * configuration with its time and memory. */
void ask_json_model(struct json_out *w, const void *ask);
void ask_json_best(struct json_out *w, const void *ask);

#endif
