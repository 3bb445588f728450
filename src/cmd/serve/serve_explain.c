/* SPDX-License-Identifier: MIT */
/* serve_explain: every setting of the server and of its models, its value, where it comes from
 * and why, before anything is loaded. */
#include "cmd/serve/cmd_serve_int.h"

#include "base/str.h"
#include "base/text/json.h"
#include "base/text/units.h"

enum { EXPLAIN_SOURCE_MAX = 512 };

struct explain {
    struct cmd_ctx *ctx;
    const struct serve_plan *p;
    const struct serve_args *a;
    struct table *table; /* NULL: JSON */
    struct json_out w;
};

static void put_row(struct explain *x, const char *model, const char *name, const char *value,
                    const char *source, const char *reason)
{
    if (x->table) {
        table_row(x->table);
        table_cell(x->table, COLOUR_NONE, "%s", model ? model : "server");
        table_cell(x->table, COLOUR_BOLD, "%s", name);
        table_cell(x->table, COLOUR_CYAN, "%s", value);
        table_cell(x->table, COLOUR_DIM, "%s", source);
        table_cell(x->table, COLOUR_NONE, "%s", reason);
        return;
    }
    json_obj(&x->w);
    json_key(&x->w, "model");
    if (model)
        json_add_str(&x->w, model);
    else
        json_add_null(&x->w);
    json_kv_str(&x->w, "setting", name);
    json_kv_str(&x->w, "value", value);
    json_kv_str(&x->w, "source", source);
    json_kv_str(&x->w, "reason", reason);
    json_obj_end(&x->w);
}

/* "stoker.yaml:12" of a member of the spec; false: it does not stand there. */
static bool in_spec(const struct explain *x, const void *member, char out[EXPLAIN_SOURCE_MAX])
{
    struct spec_pos at = { 0 };

    if (x->p->spec && member)
        at = spec_where(x->p->spec, member);
    if (at.line)
        (void)snprintf(out, EXPLAIN_SOURCE_MAX, "%.480s:%d", spec_file(x->p->spec), at.line);
    return at.line > 0;
}

/* ---- the server */

static void server_row(struct explain *x, const char *name, const char *value, bool option,
                       const void *member, const char *reason)
{
    char source[EXPLAIN_SOURCE_MAX];

    if (option)
        (void)str_copy(source, sizeof(source), "option");
    else if (!in_spec(x, member, source))
        (void)str_copy(source, sizeof(source), "default");
    put_row(x, NULL, name, value, source, str_eq(source, "default") ? reason : "asked for");
}

static void server_number(struct explain *x, const char *name, uint64_t v, bool option,
                          const void *member, const char *reason)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
    server_row(x, name, text, option, member, reason);
}

static void server_ms(struct explain *x, const char *name, int ms, bool option, const void *member,
                      const char *reason)
{
    char text[UNITS_TEXT_MAX];

    server_row(x, name, units_duration_exact((uint64_t)ms, text), option, member, reason);
}

static void server_bytes(struct explain *x, const char *name, uint64_t v, bool option,
                         const void *member, const char *reason)
{
    char text[UNITS_TEXT_MAX];

    server_row(x, name, units_bytes_human(v, text), option, member, reason);
}

/* Names with ", " between them, or `none`. */
static void server_list(struct explain *x, const char *name, const char *const *items, bool option,
                        const void *member, const char *reason)
{
    struct buf text = { 0 };

    for (; items && *items; items++)
        buf_addf(&text, "%s%s", text.len ? ", " : "", *items);
    server_row(x, name, text.len ? buf_str(&text) : "none", option, member, reason);
    buf_release(&text);
}

static void server_addresses(struct explain *x, const struct spec_serve *s)
{
    const struct serve_opts *o = &x->p->o;

    server_row(x, "listen", o->listen ? o->listen : "127.0.0.1", x->a->listen,
               s ? &s->listen : NULL, "this machine alone; beyond it a token is wanted");
    server_number(x, "port", (uint64_t)o->ports[0], x->a->port, s ? &s->port : NULL,
                  "its own port, for every API");
    if (o->port_count > 1)
        server_number(x, "rerank_port", (uint64_t)o->ports[1], x->a->rerank_port,
                      s ? &s->rerank_port : NULL, "the same routes, for clients of rerankers");
    server_row(x, "token", o->keys.token ? "wanted" : "none", x->a->token_file,
               s ? &s->token_file : NULL, "on loopback whoever is on the machine may ask");
    server_row(x, "admin_token", o->keys.admin ? "wanted" : "none", x->a->admin_token_file,
               s ? &s->admin_token_file : NULL,
               "without one models are loaded and unloaded through a socket file alone");
    server_row(x, "admin_socket", o->admin_socket ? o->admin_socket : "none", x->a->admin_socket,
               NULL, "none unless asked for");
    server_row(x, "metrics_token", o->keys.metrics ? "wanted" : "none", x->a->metrics_token_file,
               NULL, "/metrics is for who may ask");
    server_list(x, "allow_origin", o->origins, x->a->origins.count > 0, s ? &s->allow_origin : NULL,
                "no web page from elsewhere");
    server_list(x, "allow_host", o->hosts, x->a->hosts.count > 0, NULL,
                "numbers, localhost and the machine's own name");
    server_row(x, "tls", o->tls_cert ? o->tls_cert : "off", x->a->tls_cert, s ? &s->tls_cert : NULL,
               "loopback stays on this machine");
}

static void server_batches(struct explain *x, const struct spec_serve *s,
                           const struct serve_opts *o)
{
    int64_t expiry_s = o->batch_expiry_s ? o->batch_expiry_s : STORE_EXPIRY_S_DEFAULT;
    char text[UNITS_TEXT_MAX];

    server_row(x, "batch_dir", o->batch_dir ? o->batch_dir : "none", x->a->batch_dir,
               s ? &s->batch_dir : NULL, "no files and batches unless asked for");
    if (!o->batch_dir)
        return;
    server_bytes(x, "batch_size", o->batch_bytes_max ? o->batch_bytes_max : STORE_BYTES_DEFAULT,
                 x->a->batch_size, s ? &s->batch_bytes_max : NULL, "of all files there");
    server_row(x, "batch_expiry", units_duration_exact((uint64_t)expiry_s * 1000, text),
               x->a->batch_expiry, s ? &s->batch_expiry_ms : NULL, "until a file there is removed");
}

static void server_limits(struct explain *x, const struct spec_serve *s)
{
    struct serve_opts o = x->p->o;

    serve_defaults(&o);
    server_number(x, "items_max", o.items_max, x->a->items, s ? &s->items_max : NULL,
                  "a call with 1,000 documents fits");
    server_bytes(x, "body_max", o.body_bytes_max, x->a->body, s ? &s->body_bytes_max : NULL,
                 "such a call with documents of 32 kB fits");
    if (o.text_bytes_max)
        server_bytes(x, "text_max", o.text_bytes_max, x->a->text_max, s ? &s->text_bytes_max : NULL,
                     "of one text");
    else
        server_row(x, "text_max", "by the model", x->a->text_max, s ? &s->text_bytes_max : NULL,
                   "256 bytes for each token of the model, 1 MiB at least");
    server_bytes(x, "calls_max", o.calls_bytes_max, x->a->calls_max, s ? &s->calls_bytes_max : NULL,
                 "memory that all calls together may hold");
    server_number(x, "queue_max", o.queue_requests_max, false, s ? &s->queue_max : NULL,
                  "more are answered 429 at once");
    server_number(x, "connections_max", o.connections_max, x->a->connections,
                  s ? &s->connections_max : NULL,
                  "fewer where the machine lets a process open less");
    server_ms(x, "timeout", o.timeout_ms, x->a->timeout, s ? &s->timeout_ms : NULL,
              "for a request that names none");
    server_ms(x, "timeout_max", o.timeout_max_ms, x->a->timeout_max, s ? &s->timeout_max_ms : NULL,
              "that a request may name");
    /* How long a client may take. */
    server_ms(x, "head_timeout", o.head_ms ? o.head_ms : HTTP_HEAD_MS_DEFAULT, x->a->head_timeout,
              NULL, "for a request's head");
    server_ms(x, "body_timeout", o.body_ms ? o.body_ms : HTTP_BODY_MS_DEFAULT, x->a->body_timeout,
              NULL, "between parts of its body");
    server_ms(x, "body_total_timeout",
              o.body_total_ms ? o.body_total_ms : HTTP_BODY_TOTAL_MS_DEFAULT, x->a->body_total,
              s ? &s->body_total_ms : NULL, "who sends a byte now and then holds no connection");
    server_ms(x, "batch_time", o.batch_ms, x->a->batch_time, s ? &s->batch_ms : NULL,
              "a short request waits for one batch at most");
    server_ms(x, "drain", o.drain_ms, x->a->drain, s ? &s->drain_ms : NULL,
              "as long as a request may take by default");
    server_bytes(x, "cache", o.cache_bytes, x->a->cache, s ? &s->cache_bytes : NULL,
                 "off unless asked for");
    server_row(x, "any_model", o.any_model ? "true" : "false", x->a->any_model,
               s ? &s->any_model : NULL, "of several models the name counts");
    server_batches(x, s, &o);
}

/* ---- models */

/* The option that has the last word, and the place of the same setting in a spec. */
static const void *where_asked(const struct serve_args *a, const struct spec_model *m,
                               const char *name, bool *out_option)
{
    const struct {
        const char *name;
        bool option;
        const void *member;
    } rows[] = {
        { "device", a->device, m ? (m->gpus ? (const void *)&m->gpus : &m->device) : NULL },
        { "dtype", a->dtype, m ? &m->dtype : NULL },
        { "batch_tokens", a->batch_tokens > 0, m ? &m->batch_tokens : NULL },
        { "fallback", a->fallback, m ? &m->fallback : NULL },
        { "pooling", false, m ? &m->pooling : NULL },
        { "normalize", false, m ? &m->normalize : NULL },
        { "max_tokens", false, m ? &m->max_tokens : NULL },
        { "pool", false, m ? &m->pool : NULL },
        { "memory", false, m ? &m->memory_bytes : NULL },
    };

    *out_option = true;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (str_eq(rows[i].name, name)) {
            *out_option = rows[i].option;
            return rows[i].member;
        }
    return NULL;
}

static void model_row(struct explain *x, size_t i, const struct models_setting *s)
{
    static const char *const sources[] = { [MODELS_OPERATOR] = "option",
                                           [MODELS_TABLE] = "data/serve.csv",
                                           [MODELS_FILES] = "the model",
                                           [MODELS_MACHINE] = "this machine" };
    char source[EXPLAIN_SOURCE_MAX];
    bool option;
    const void *member = where_asked(x->a, x->p->of_spec[i], s->name, &option);

    if (s->source != MODELS_OPERATOR || option || !in_spec(x, member, source))
        (void)str_copy(source, sizeof(source), sources[s->source]);
    put_row(x, x->p->models[i].name, s->name, s->value, source, s->reason);
}

static enum rc tell_models(struct explain *x, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < x->p->o.model_count; i++) {
        struct models_setting list[MODELS_SETTINGS_MAX];
        struct arena a = { 0 };
        size_t count = 0;
        rc = models_explain(x->p->o.workers, &x->p->models[i], &a, list, &count, err);
        for (size_t k = 0; rc == RC_OK && k < count; k++)
            model_row(x, i, &list[k]);
        arena_release(&a);
    }
    return rc;
}

enum rc serve_explain(struct cmd_ctx *ctx, const struct serve_plan *p, struct err *err)
{
    const struct serve_args *a = ctx->opts;
    struct explain x = { .ctx = ctx, .p = p, .a = a };
    const struct spec_serve *s = p->spec ? &p->spec->serve : NULL;
    enum rc rc;

    if (a->json) {
        json_out_init(&x.w, &ctx->out, 2);
        json_obj(&x.w);
        json_kv_str(&x.w, "schema", "stoker.serve-settings/1");
        json_kv_arr(&x.w, "settings");
    } else {
        x.table = table_new();
        table_col(x.table, "of", TABLE_WHOLE);
        table_col(x.table, "setting", TABLE_WHOLE);
        table_col(x.table, "value", TABLE_WHOLE);
        table_col(x.table, "from", TABLE_WHOLE);
        table_col(x.table, "why", TABLE_WRAP);
    }
    rc = tell_models(&x, err);
    if (rc == RC_OK) {
        server_addresses(&x, s);
        server_limits(&x, s);
    }
    if (x.table) {
        table_print(x.table, &ctx->out_term, 0, &ctx->out);
        table_free(x.table);
    } else {
        json_arr_end(&x.w);
        json_obj_end(&x.w);
        buf_addc(&ctx->out, '\n');
    }
    if (rc != RC_OK)
        buf_reset(&ctx->out);
    return rc;
}
