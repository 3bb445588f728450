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

struct request_opts { /* of every such command, the first member of its options */
    const char *file; /* a spec whose component is asked about; NULL: none */
    const char *model, *gpu, *machine, *tokens, *precision, *optimizer, *config, *recompute;
    int64_t gpus, seq, batch, lora, bits;
    bool eager, no_flash, json;
    struct train_job *planned; /* the component's; request_read() takes it over */
};
#define ROW_FILE(S)                                                                                \
    ROW_OPT(S, 'f', "file", STR, request.file, "SPEC",                                             \
            "the job is a component of this stoker.yaml; other options win over it")
#define ROW_MODEL(S)                                                                               \
    ROW_OPT(S, 'm', "model", STR, request.model, "MODEL",                                          \
            "name, config.json, its folder, or PARAMETERS,LAYERS,HIDDEN")
#define ROW_GPU(S) ROW_OPT(S, 'g', "gpu", STR, request.gpu, "GPU", "kind of GPU (default h100)")
#define ROW_MACHINE(S)                                                                             \
    ROW_OPT(S, 0, "machine", STR, request.machine, "FILE",                                         \
            "GPUs and links from 'stoker detect --json', with measured rates where it has them")
#define ROW_GPUS(S) ROW_NUM(S, "gpus", request.gpus, 1, PLAN_GPUS_MAX, "GPUs in all")
#define ROW_SEQ(S)                                                                                 \
    ROW_NUM(S, "seq", request.seq, 1, PLAN_SEQ_MAX, "tokens in a sequence (default 4096)")
#define ROW_BATCH(S)                                                                               \
    ROW_NUM(S, "batch", request.batch, 1, PLAN_BATCH_MAX,                                          \
            "sequences in a step (default: that of published runs of the size)")
#define ROW_TOKENS(S)                                                                              \
    ROW_OPT(S, 't', "tokens", STR, request.tokens, "COUNT",                                        \
            "tokens to train on, as 300B or 15.6T (default: 20 a parameter)")
#define ROW_PRECISION(S)                                                                           \
    {                                                                                              \
        0, "precision", OPT_STR, offsetof(struct S, request.precision), "WHICH",                   \
            PLAN_PRECISION_CHOICES, 0, 0, "as in 'plan memory' (default bf16)"                     \
    }
#define ROW_OPTIMIZER(S)                                                                           \
    {                                                                                              \
        0, "optimizer", OPT_STR, offsetof(struct S, request.optimizer), "WHICH",                   \
            PLAN_OPTIMIZER_CHOICES, 0, 0, "as in 'plan memory' (default adam)"                     \
    }
#define ROW_KERNELS(S)                                                                             \
    ROW_OPT(S, 0, "eager", FLAG, request.eager, NULL, "no fused kernels (always so on Ampere)"),   \
        ROW_OPT(S, 0, "no-flash", FLAG, request.no_flash, NULL, "attention stores all pairs")
#define ROW_JSON(S) ROW_OPT(S, 'j', "json", FLAG, request.json, NULL, "print JSON instead of text")

struct run_request { /* what is asked, and the run it is about; release with request_release() */
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
enum rc request_spec(struct cmd_ctx *ctx, struct request_opts *o, const char **price, bool search,
                     struct err *err) MUST_USE;
/* Facts and, where `o` has a model, the model; RC_USAGE without one. */
enum rc request_read(const struct request_opts *o, struct run_request *out,
                     struct err *err) MUST_USE;
void request_release(struct run_request *a);
/* a->cluster: so many GPUs of the kind, or of machines like that of --machine. */
enum rc request_cluster(struct run_request *a, const struct request_opts *o, int64_t gpus,
                        struct err *err) MUST_USE;
/* a->best: the best configuration on a->cluster, or the one of --config. */
enum rc request_best(struct run_request *a, const struct request_opts *o, struct err *err) MUST_USE;

/* "15.6T", with an error that names the option. */
enum rc option_count(const char *option, const char *text, double least, double most, double *out,
                     struct err *err) MUST_USE;
enum rc option_seconds(const char *option, const char *text, double *out, struct err *err) MUST_USE;
enum rc option_money(const char *option, const char *text, double *out, struct err *err) MUST_USE;
enum rc option_share(const char *option, const char *text, double *out, struct err *err) MUST_USE;

/* Three digits: "0.0123", "12.3", "1,230", "12.3M". */
const char *text_short(double v, char out[FIELD_TEXT_MAX]);
const char *text_usd(double v, char out[FIELD_TEXT_MAX]);   /* "$12.3M" */
const char *text_watts(double w, char out[FIELD_TEXT_MAX]); /* "25.1 MW" */
const char *text_time(double s, char out[FIELD_TEXT_MAX]);  /* "4.9 min", "3.1 h", "54 d" */
const char *text_bytes(double b, char out[FIELD_TEXT_MAX]); /* "5.68 TB": powers of ten, as disks */
/* The same in a buffer of its own, for one expression. */
#define TEXT_SHORT(v) text_short((v), (char[FIELD_TEXT_MAX]){ 0 })
#define TEXT_USD(v)   text_usd((v), (char[FIELD_TEXT_MAX]){ 0 })
#define TEXT_WATTS(v) text_watts((v), (char[FIELD_TEXT_MAX]){ 0 })
#define TEXT_TIME(v)  text_time((v), (char[FIELD_TEXT_MAX]){ 0 })
#define TEXT_BYTES(v) text_bytes((v), (char[FIELD_TEXT_MAX]){ 0 })

/* A field that is a struct plan_range; .words and .title are those of figure_field(). */
extern const struct field_table plan_range_table;
#define FIELD_RANGE(key_, s, member, ...)                                                          \
    {                                                                                              \
        .key = (key_), .kind = FIELD_STRUCT, .off = offsetof(s, member), .sub = &plan_range_table, \
        .doc = __VA_ARGS__                                                                         \
    }

/* A table of rows: what, expected, range, why. */
struct figure_table {
    struct table *t;
    const struct field_table *fields; /* what figure_field() knows */
    const void *obj;
};
void figure_begin(struct figure_table *t, const struct field_table *fields, const void *obj);
void figure_row(struct figure_table *t, const char *what, const char *value, const char *range,
                const char *fmt, ...) PRINTF_LIKE(5, 6);
void figure_range(struct figure_table *t, const char *what, const struct plan_range *r,
                  const char *(*words)(double v, char *out), const char *fmt, ...)
    PRINTF_LIKE(5, 6);
/* The field of the key: its title, its value, its range where it has one, and why. */
void figure_field(struct figure_table *t, const char *key, const char *fmt, ...) PRINTF_LIKE(3, 4);
void figure_end(struct figure_table *t, struct cmd_ctx *ctx);
/* One paragraph, wrapped. */
void print_note(struct cmd_ctx *ctx, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* For fp32, that TF32 is not counted; nothing for another precision. */
void print_fp32(struct cmd_ctx *ctx, const struct plan_gpu *g, enum plan_precision p);
/* "llama-3.1-70b: 70.6B parameters on 64 x H100 ..." and the configuration with its time. */
void print_request(struct cmd_ctx *ctx, const struct run_request *a);
/* Rows of tables whose struct begins with a struct run_request: the spec, if any, and the model;
 * the configuration with its time and memory. */
void request_json_model(struct json_out *w, const void *request);
void request_json_best(struct json_out *w, const void *request);

#endif
