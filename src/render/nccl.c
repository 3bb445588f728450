/* SPDX-License-Identifier: MIT */
/* nccl: nccl.conf, the settings NCCL reads on a machine before anything else is said.
 *
 *     nccl/nccl.conf          for /etc/nccl.conf of every GPU machine
 *     nccl/GROUP/nccl.conf    one for each group, where groups differ
 *
 * In it is what the spec forces (nccl.env), what its fabric fixes (devices, GID, traffic class),
 * and, with an inventory of a machine, what NCCL would not find there itself.  All else stays
 * unset, for NCCL to find; comments say so.  The environment of a job wins over this file.
 *
 * NCCL reads lines: '#' in the first column is a comment, else NAME=VALUE to the end of the line,
 * at most 1023 bytes, no quotes.  So comments stand on lines of their own, and what a line cannot
 * hold is refused, as is a value that NCCL is known to ignore or to fail with. */
#include "nccl/nccl.h"
#include "base/str.h"
#include "render/nccl_int.h"

#include <inttypes.h>

enum { VALUE_MAX = 1023, WRAP = 96 };

/* Words of `text` on comment lines. */
static void comment(struct buf *out, const char *text)
{
    size_t col = 0;

    while (*text) {
        size_t len = strcspn(text, " \n");

        if (len && (!col || col + 1 + len > WRAP)) {
            buf_adds(out, col ? "\n# " : "# ");
            col = 2;
        } else if (len) {
            buf_addc(out, ' ');
            col++;
        }
        buf_add(out, text, len);
        col += len;
        text += len + (text[len] != '\0');
    }
    buf_addc(out, '\n');
}

/* Groups share nccl.env: one fault of it is told once. */
static bool told(const struct render *r, const void *member)
{
    struct spec_pos at = spec_where(r->spec, member);

    for (size_t i = 0; i < r->diags->count; i++)
        if (r->diags->items[i].line == at.line && r->diags->items[i].col == at.col)
            return true;
    return false;
}

static bool holds(struct render *r, const struct conf_var *v)
{
    size_t len = strlen(v->value);

    if (len <= VALUE_MAX && !strchr(v->value, '\n') &&
        (!len || (!strchr(" \t", v->value[0]) && !strchr(" \t", v->value[len - 1]))))
        return true;
    if (told(r, v->member))
        return false;
    render_refuse(r, v->member,
                  "Use one line of at most 1023 bytes that does not begin or end with a blank.",
                  "nccl.conf cannot hold this value of %s", v->name);
    return false;
}

static void var(const struct conf *c, struct buf *out, const struct conf_var *v)
{
    if (!holds(c->r, v))
        return;
    buf_addc(out, '\n');
    if (v->reason)
        comment(out, v->reason);
    if (!str_starts(v->name, "NCCL_"))
        comment(out, "Not NCCL's own: reaches plug-ins that NCCL loads, not the program itself.");
    if (v->member)
        buf_addf(out, "# %s\n", render_from(c->r, v->member));
    buf_addf(out, "%s=%s\n", v->name, v->value);
}

/* ---- what NCCL makes of it ---- */

/* Works as written, if not always well: worth a comment, the spec decides. */
static const char *const DOUBTFUL[] = {
    "NCCL_ALGO",        "NCCL_PROTO",      "NCCL_DEBUG",         "NCCL_SHM_DISABLE",
    "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL",  "NCCL_NET_GDR_LEVEL", "NCCL_IB_HCA",
    "NCCL_CROSS_NIC",   "OMP_NUM_THREADS", "NCCL_IB_GID_INDEX",  "NCCL_SOCKET_IFNAME",
};

static bool doubtful(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(DOUBTFUL); i++)
        if (str_eq(DOUBTFUL[i], name))
            return true;
    return false;
}

static void lint(const struct conf *c, const struct hw *hw, struct buf *out)
{
    struct nccl_lints l;

    nccl_lint_env(hw, &l);
    for (size_t i = 0; i < l.count; i++) {
        const struct nccl_lint *x = &l.items[i];
        const struct conf_var *v = conf_find(c, x->name);

        if (!v || !conf_lint_holds(c, x))
            continue;
        if (x->severity == NCCL_ERROR || (x->severity == NCCL_WARN && !doubtful(x->name))) {
            if (!told(c->r, v->member))
                render_refuse(c->r, v->member, x->remedy, "%s=%s: %s", v->name, v->value,
                              x->message);
            continue;
        }
        buf_addf(out, "\n# %s: %s\n", nccl_severity_name(x->severity), x->name);
        comment(out, x->message);
        comment(out, x->remedy);
    }
    nccl_lints_release(&l);
}

/* What the machine of the inventory needs beyond, and what is left to NCCL there. */
static void from_machine(const struct conf *c, const struct hw *hw, struct buf *out)
{
    struct nccl_env env;

    nccl_env_make(hw, NULL, &env);
    buf_addf(out, "\n# From the inventory of %s:\n", hw->place.hostname ? hw->place.hostname : "-");
    for (size_t i = 0; i < env.count; i++) {
        const struct nccl_var *x = &env.vars[i];

        if (conf_find(c, x->name) || !str_starts(x->name, "NCCL_"))
            continue; /* what launchers read, such as OMP_NUM_THREADS, has no place here */
        if (x->value) {
            var(c, out,
                &(struct conf_var){ .name = x->name, .value = x->value, .reason = x->reason });
            continue;
        }
        buf_addf(out, "\n# %s is left unset:\n", x->name);
        comment(out, x->reason);
    }
    nccl_env_release(&env);
}

static const char NO_MACHINE[] =
    "No inventory was given, so nothing is set that depends on the machine. On it, stoker detect "
    "--env prints what NCCL would not find itself (NCCL_IB_HCA, NCCL_SOCKET_IFNAME, "
    "NCCL_IB_GID_INDEX or its address family, NCCL_NET_GDR_LEVEL, NCCL_CROSS_NIC), each with its "
    "reason, and stoker detect --why NAME explains one.";

/* ---- files ---- */

/* Groups of which the spec tells NCCL the same have the same file. */
static const struct spec_node *twin(const struct render *r, size_t i)
{
    const struct spec_node *n = &r->spec->nodes[i];

    for (size_t k = 0; k < i && !r->inventory; k++)
        if (conf_same(r, &r->spec->nodes[k], n))
            return &r->spec->nodes[k];
    return NULL;
}

static void body(struct render *r, const struct spec_node *n, struct buf *out)
{
    struct conf c = { .r = r, .node = n };
    const struct hw *hw;

    conf_collect(&c);
    hw = conf_machine(&c);
    for (size_t i = 0; i < c.count; i++)
        var(&c, out, &c.vars[i]);
    if (!c.count)
        buf_adds(out, "\n# The spec forces nothing.\n");
    lint(&c, hw, out);
    if (c.from_inventory) {
        from_machine(&c, hw, out);
    } else {
        buf_addc(out, '\n');
        comment(out, NO_MACHINE);
    }
    arena_release(&c.arena);
}

static void file(struct render *r, const struct spec_node *n, const struct buf *text)
{
    struct buf *out =
        n ? render_file(r, "nccl/%s/nccl.conf", n->name) : render_file(r, "nccl/nccl.conf");

    render_head(r, out, "#", "NCCL's settings of a machine, for /etc/nccl.conf.");
    if (n)
        buf_addf(out, "# For machines of group %s (%s).\n", n->name, render_from(r, n));
    buf_add(out, buf_str(text), text->len);
}

void render_nccl(struct render *r)
{
    const struct spec *s = r->spec;
    struct buf *texts = xcalloc(s->node_count + 1, sizeof(*texts));
    const struct spec_node *like;
    size_t first = s->node_count;
    bool same = true;

    for (size_t i = 0; i < s->node_count; i++) {
        if (!s->nodes[i].gpus_per_node)
            continue;
        like = twin(r, i);
        if (like)
            buf_adds(&texts[i], buf_str(&texts[like - s->nodes]));
        else
            body(r, &s->nodes[i], &texts[i]);
        if (first == s->node_count)
            first = i;
        same = same && str_eq(buf_str(&texts[i]), buf_str(&texts[first]));
    }
    if (first == s->node_count)
        body(r, NULL, &texts[first]);
    if (same)
        file(r, NULL, &texts[first]);
    for (size_t i = 0; i < s->node_count; i++) {
        if (!same && s->nodes[i].gpus_per_node)
            file(r, &s->nodes[i], &texts[i]);
    }
    for (size_t i = 0; i <= s->node_count; i++)
        buf_release(&texts[i]);
    free(texts);
}
