/* SPDX-License-Identifier: MIT */
/* nccl_write: the environment as shell text, and everything as JSON (stoker.nccl/1). */
#include "nccl/nccl_int.h"

#include "base/str.h"

#include <assert.h>

enum { TEXT_WIDTH = 90 };

/* "required", "pinned", "unset", "user" */
static const char *kind_name(enum nccl_kind kind)
{
    switch (kind) {
    case NCCL_REQUIRED:
        return "required";
    case NCCL_PINNED:
        return "pinned";
    case NCCL_LEFT_UNSET:
        return "unset";
    case NCCL_USER:
        return "user";
    }
    return "?";
}

const char *nccl_severity_name(enum nccl_severity s)
{
    return s == NCCL_ERROR ? "error" : s == NCCL_WARN ? "warning" : "info";
}

static bool is_plain_word(const char *s)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "_:,./+-@%";

    return *s && s[strspn(s, safe)] == 0; /* no =: zsh reads =ls as a command, also after : */
}

static void shell_quote(struct buf *out, const char *s)
{
    if (is_plain_word(s)) {
        buf_adds(out, s);
        return;
    }
    buf_addc(out, '\'');
    for (; *s; s++) {
        if (*s == '\'')
            buf_adds(out, "'\\''");
        else
            buf_addc(out, *s);
    }
    buf_addc(out, '\'');
}

/* A value that goes into a comment must not end the comment. */
static void comment_value(struct buf *out, const char *s)
{
    for (; *s; s++)
        buf_addc(out, (unsigned char)*s < ' ' ? '?' : *s);
}

static void write_var(const struct nccl_env *env, const struct nccl_var *v, struct buf *out)
{
    struct buf text = { 0 };

    if (v->kind == NCCL_LEFT_UNSET)
        buf_addf(&text, "%s is left unset.  ", v->name);
    if (v->kind == NCCL_USER) {
        buf_addf(&text, "%s=", v->name);
        comment_value(&text, v->value);
        buf_adds(&text, " stays.  ");
    }
    buf_adds(&text, v->reason);
    nccl_wrap(out, "# ", buf_str(&text), TEXT_WIDTH);
    buf_release(&text);
    if (v->kind == NCCL_REQUIRED || v->kind == NCCL_PINNED ||
        (v->kind == NCCL_USER && env->mode == NCCL_FULL)) {
        buf_addf(out, "export %s=", v->name);
        shell_quote(out, v->value);
        buf_addc(out, '\n');
    }
}

void nccl_env_write(const struct nccl_env *env, struct buf *out)
{
    for (size_t i = 0; i < env->doubts_count; i++) {
        struct buf text = { 0 };

        buf_addf(&text, "Not certain: %s", env->doubts[i]);
        nccl_wrap(out, "# ", buf_str(&text), TEXT_WIDTH);
        buf_release(&text);
    }
    for (size_t i = 0; i < env->count; i++)
        write_var(env, &env->vars[i], out);
}

void nccl_lints_write(const struct nccl_lints *l, bool comment, struct buf *out)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct nccl_lint *n = &l->items[i];
        struct buf text = { 0 };

        buf_addf(&text, "%s: %s=", nccl_severity_name(n->severity), n->name);
        comment_value(&text, n->value ? n->value : "");
        buf_addf(&text, ": %s  %s", n->message, n->remedy);
        nccl_wrap(out, comment ? "# " : "", buf_str(&text), TEXT_WIDTH);
        buf_release(&text);
    }
}

/* ---- JSON ---- */

static void json_ports(struct json_out *w, const struct nccl_choice *c)
{
    json_kv_arr(w, "ports");
    FOR_EACH(const struct nccl_port, p, c->ports) {
        json_obj(w);
        json_kv_str(w, "device", p->dev);
        json_kv_int(w, "port", p->port);
        json_kv_str(w, "state", p->state);
        json_kv_str(w, "link_layer", p->link_layer);
        json_kv_maybe(w, "rate_mbps", p->rate_mbps);
        json_kv_maybe(w, "pcie_mbps", p->pcie_mbps);
        json_kv_bool(w, "used", p->used);
        json_kv_str(w, "why", p->why);
        json_kv_bool(w, "wanted", p->wanted);
        json_kv_str(w, "wanted_why", p->wanted_why);
        json_kv_str(w, "nearest_gpu", p->near_path);
        json_kv_maybe(w, "gid_index", p->gid_index);
        json_kv_str(w, "gid", p->gid);
        json_kv_str(w, "gid_type", p->gid_type);
        json_kv_str(w, "gid_ndev", p->gid_ndev);
        json_kv_bool(w, "gid_ok", p->gid_ok);
        json_kv_str(w, "gid_why", p->gid_why);
        json_kv_str(w, "network", p->network);
        json_kv_bool(w, "storage", p->storage);
        json_kv_bool(w, "frontend", p->frontend);
        json_kv_str(w, "card", p->card);
        json_kv_int(w, "card_ports", (int64_t)p->card_ports);
        json_obj_end(w);
    }
    json_arr_end(w);
}

static void json_way(struct json_out *w, const char *key, const struct nccl_way *way)
{
    json_kv_obj(w, key);
    json_kv_maybe(w, "mbps", way->mbps);
    json_kv_maybe(w, "all_mbps", way->all_mbps);
    json_kv_str(w, "path", way->path);
    json_kv_str(w, "ports", way->ports);
    json_obj_end(w);
}

static void json_scores(struct json_out *w, const struct nccl_choice *c)
{
    json_kv_arr(w, "scores");
    for (size_t i = 0; i < c->scores_count; i++) {
        json_obj(w);
        json_kv_int(w, "gpu", (int64_t)c->scores[i].gpu);
        json_way(w, "nccl", &c->scores[i].dflt);
        json_way(w, "wanted", &c->scores[i].ours);
        json_kv_bool(w, "worse", c->scores[i].worse);
        json_obj_end(w);
    }
    json_arr_end(w);
    json_kv_str(w, "all_wanted_why", c->all_why);
    json_kv_str(w, "gid_range", c->gid_range);
    json_kv_str(w, "gid_networks_why", c->gid_nets_why);
}

static void json_paths(struct json_out *w, const struct nccl_choice *c)
{
    json_kv_arr(w, "gpudirect");
    FOR_EACH(const struct nccl_gdr, g, c->gdr) {
        json_obj(w);
        json_kv_int(w, "gpu", (int64_t)g->gpu);
        json_kv_str(w, "device", g->dev);
        json_kv_str(w, "path", g->path);
        json_key(w, "use");
        if (g->use.known)
            json_add_bool(w, g->use.v != 0);
        else
            json_add_null(w);
        json_kv_str(w, "why", g->why);
        json_obj_end(w);
    }
    json_arr_end(w);
    json_kv_arr(w, "p2p");
    assert(c->p2p || !c->p2p_count);
    FOR_EACH(const struct nccl_p2p, p, c->p2p) {
        json_obj(w);
        json_kv_int(w, "a", (int64_t)p->a);
        json_kv_int(w, "b", (int64_t)p->b);
        json_kv_str(w, "path", p->path);
        json_kv_str(w, "transport", p->transport);
        json_kv_str(w, "why", p->why);
        json_obj_end(w);
    }
    json_arr_end(w);
}

static void json_choice(struct json_out *w, const struct nccl_choice *c)
{
    json_kv_obj(w, "choice");
    json_kv_str(w, "nccl_version", c->nccl_version);
    json_kv_bool(w, "certain", c->doubts_count == 0);
    json_kv_arr(w, "doubts");
    for (size_t i = 0; i < c->doubts_count; i++)
        json_add_str(w, c->doubts[i]);
    json_arr_end(w);
    json_kv_str(w, "mnnvl", c->mnnvl);
    json_kv_str(w, "mnnvl_why", c->mnnvl_why);
    json_kv_str(w, "transport", c->net);
    json_kv_str(w, "transport_why", c->net_why);
    json_kv_str(w, "socket_interface", c->socket_if);
    json_kv_str(w, "socket_address", c->socket_addr);
    json_kv_str(w, "socket_why", c->socket_why);
    json_kv_str(w, "wire_interface", c->wire_if);
    json_kv_str(w, "stop_why", c->stop_why);
    json_kv_str(w, "peer_interface", c->peer_if);
    json_kv_str(w, "peer_why", c->peer_why);
    json_kv_maybe(w, "gpus", c->gpus);
    json_kv_str(w, "gpus_why", c->gpus_why);
    json_kv_bool(w, "efa", c->efa);
    json_kv_str(w, "gpudirect_support", c->gdr_support);
    json_kv_str(w, "gpudirect_level", c->gdr_level);
    json_kv_str(w, "p2p_level", c->p2p_level);
    json_ports(w, c);
    json_scores(w, c);
    json_paths(w, c);
    json_kv_arr(w, "notes");
    for (size_t i = 0; i < c->notes_count; i++)
        json_add_str(w, c->notes[i]);
    json_arr_end(w);
    json_obj_end(w);
}

static void json_env(struct json_out *w, const struct nccl_env *env)
{
    json_kv_str(w, "mode", env->mode == NCCL_FULL ? "full" : "minimal");
    json_kv_arr(w, "env");
    for (size_t i = 0; i < env->count; i++) {
        const struct nccl_var *v = &env->vars[i];

        json_obj(w);
        json_kv_str(w, "name", v->name);
        json_kv_str(w, "value", v->value);
        json_kv_str(w, "kind", kind_name(v->kind));
        json_kv_str(w, "reason", v->reason);
        json_obj_end(w);
    }
    json_arr_end(w);
}

static void json_lints(struct json_out *w, const struct nccl_lints *l)
{
    json_kv_arr(w, "lint");
    for (size_t i = 0; i < l->count; i++) {
        const struct nccl_lint *n = &l->items[i];

        json_obj(w);
        json_kv_str(w, "name", n->name);
        json_kv_str(w, "value", n->value);
        json_kv_str(w, "severity", nccl_severity_name(n->severity));
        json_kv_str(w, "message", n->message);
        json_kv_str(w, "remedy", n->remedy);
        json_obj_end(w);
    }
    json_arr_end(w);
}

void nccl_write_json(const struct hw *hw, const struct nccl_opts *opts, struct buf *out)
{
    struct nccl_choice c;
    struct nccl_lints lints;
    struct nccl_env env;
    struct json_out w;

    nccl_choose_for(hw, opts ? opts->peer : NULL, &c);
    nccl_env_make(hw, opts, &env);
    nccl_lint_env(hw, &lints);
    json_doc(&w, out, "stoker.nccl/1");
    json_choice(&w, &c);
    json_env(&w, &env);
    json_lints(&w, &lints);
    json_doc_end(&w);
    nccl_lints_release(&lints);
    nccl_env_release(&env);
    nccl_choice_release(&c);
}
