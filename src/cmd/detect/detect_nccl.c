/* SPDX-License-Identifier: MIT */
/* detect_nccl: what `stoker detect` says about NCCL: three or four lines on the page,
 * and the environment with its warnings. */
#include "base/str.h"
#include "cmd/detect/detect_int.h"
#include "hw/print/hw_print.h"

#include <inttypes.h>

enum { LINES_MAX = 32 };

struct nccl_page { /* lines of the section, in an arena of their own */
    struct arena arena;
    struct show_line lines[LINES_MAX];
    size_t count;
};

static void add_line(struct nccl_page *p, enum table_colour c, const struct buf *text)
{
    if (p->count < LINES_MAX)
        p->lines[p->count++] =
            (struct show_line){ .colour = c, .text = arena_strdup(&p->arena, buf_str(text)) };
}

static void add_because(struct buf *b, const char *why)
{
    if (why && *why)
        buf_addf(b, ". %s", why);
}

static bool device_has_ports(const struct nccl_choice *c, const char *dev)
{
    size_t n = 0;

    for (size_t i = 0; i < c->ports_count; i++)
        n += str_eq(c->ports[i].dev, dev);
    return n > 1;
}

/* "mlx5_0, mlx5_1 and 6 more" */
static void used_ports(const struct nccl_choice *c, struct buf *b)
{
    enum { NAMED_MAX = 8 };
    size_t used = 0;

    for (size_t i = 0; i < c->ports_count; i++) {
        if (!c->ports[i].used)
            continue;
        if (used < NAMED_MAX && device_has_ports(c, c->ports[i].dev))
            buf_addf(b, "%s%s:%" PRId64, used ? ", " : "", c->ports[i].dev, c->ports[i].port);
        else if (used < NAMED_MAX)
            buf_addf(b, "%s%s", used ? ", " : "", c->ports[i].dev);
        used++;
    }
    if (used > NAMED_MAX)
        buf_addf(b, " and %zu more", used - NAMED_MAX);
}

static void line_net(struct nccl_page *p, const struct nccl_choice *c, struct buf *b)
{
    buf_reset(b);
    if (!c->net)
        buf_adds(b, "Between machines: unknown");
    else if (str_eq(c->net, "rdma")) {
        buf_adds(b, "Between machines: RDMA over ");
        used_ports(c, b);
    } else if (str_eq(c->net, "tcp"))
        buf_adds(b, "Between machines: TCP sockets");
    else if (str_eq(c->net, "efa"))
        buf_adds(b, "Between machines: AWS EFA");
    else if (c->stop_why)
        buf_adds(b, "PROBLEM: NCCL stops at start-up");
    else
        buf_addf(b, "Between machines: %s", c->net);
    add_because(b, c->net_why);
    add_line(p, c->stop_why ? COLOUR_RED : COLOUR_NONE, b);
}

/* What NCCL gives each GPU, and what it would with the ports that --env names. */
static void line_share(struct nccl_page *p, const struct nccl_choice *c, struct buf *b)
{
    bool fewer = false;

    for (size_t i = 0; i < c->ports_count; i++)
        fewer = fewer || (c->ports[i].used && !c->ports[i].wanted);
    if (!str_eq(c->net, "rdma") || !c->score_text || !*c->score_text)
        return;
    buf_reset(b);
    buf_addf(b, "Share of each GPU: %s", c->score_text);
    if (fewer)
        buf_adds(b, ". --env names them: NCCL_IB_HCA");
    add_because(b, c->all_why);
    add_line(p, COLOUR_NONE, b);
}

/* Ports on which NCCL ends at an address of another network namespace: no connection is made. */
static void line_gids(struct nccl_page *p, const struct nccl_choice *c, struct buf *b)
{
    size_t bad = 0;

    buf_reset(b);
    for (size_t i = 0; i < c->ports_count; i++)
        if (c->ports[i].used && c->ports[i].wanted && !c->ports[i].gid_here)
            buf_addf(b, "%s%s",
                     bad++ ? ", "
                           : "PROBLEM: NCCL's search for an address ends on one of "
                             "another network namespace on ",
                     c->ports[i].dev);
    if (!bad)
        return;
    buf_addf(b, ": connections fail. %s",
             c->gid_range ? "--env sets NCCL_IB_ADDR_RANGE" : "--why NCCL_IB_GID_INDEX says more");
    add_line(p, COLOUR_RED, b);
}

static void line_mnnvl(struct nccl_page *p, const struct nccl_choice *c, struct buf *b)
{
    if (!c->mnnvl_why)
        return;
    buf_reset(b);
    buf_addf(b, "NVLink to other machines: %s", c->mnnvl ? c->mnnvl : "unknown");
    add_because(b, c->mnnvl_why);
    add_line(p, str_eq(c->mnnvl, "fails") ? COLOUR_RED : COLOUR_NONE, b);
}

static void line_bootstrap(struct nccl_page *p, const struct nccl_choice *c, struct buf *b)
{
    if (c->stop_why)
        return; /* said already */
    buf_reset(b);
    if (c->socket_if)
        buf_addf(b, "Bootstrap: %s%s%s", c->socket_if, c->socket_addr ? " " : "",
                 c->socket_addr ? c->socket_addr : "");
    else
        buf_addf(b, "Bootstrap: %s", c->wire_if ? "unknown" : "no interface");
    add_because(b, c->socket_why);
    add_line(p, c->socket_if ? COLOUR_NONE : COLOUR_YELLOW, b);
}

static void line_gdr(struct nccl_page *p, const struct nccl_choice *c, struct buf *b)
{
    size_t yes = 0, no = 0;

    if (c->gdr_count == 0 || c->stop_why)
        return;
    for (size_t i = 0; i < c->gdr_count; i++) {
        yes += maybe_is(c->gdr[i].use, 1);
        no += maybe_is(c->gdr[i].use, 0);
    }
    buf_reset(b);
    buf_addf(b, "GPUDirect RDMA: %s, up to distance %s",
             c->gdr_support ? c->gdr_support : "support unknown",
             c->gdr_level ? c->gdr_level : "-");
    if (yes + no)
        buf_addf(b, ": %zu of %zu GPU and NIC pairs", yes, c->gdr_count);
    add_line(p, COLOUR_NONE, b);
}

static size_t count_transport(const struct nccl_choice *c, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < c->p2p_count; i++)
        n += str_eq(c->p2p[i].transport, name);
    return n;
}

static void line_p2p(struct nccl_page *p, const struct nccl_choice *c, struct buf *b)
{
    static const struct {
        const char *name, *text;
    } rows[] = { { "nvlink", "NVLink" },   { "p2p", "PCIe" },       { "shm", "shared host memory" },
                 { "net", "the network" }, { "fails", "an error" }, { NULL, "unknown" } };
    const char *sep = ": ";

    if (c->p2p_count == 0)
        return;
    buf_reset(b);
    buf_adds(b, "Between GPUs here");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        size_t n = count_transport(c, rows[i].name);
        if (n == c->p2p_count)
            buf_addf(b, "%s%s", sep, rows[i].text);
        else if (n)
            buf_addf(b, "%s%s for %zu of %zu pairs", sep, rows[i].text, n, c->p2p_count);
        sep = n ? ", " : sep;
    }
    add_line(p, COLOUR_NONE, b);
}

/* NVLink pairs that the driver refuses: NCCL takes that for a fault, and stops. */
static void line_refused(struct nccl_page *p, const struct nccl_choice *c, struct buf *b)
{
    size_t n = count_transport(c, "fails");

    if (!n)
        return;
    buf_reset(b);
    buf_addf(b,
             "PROBLEM: NCCL stops with an error: NVLink joins %zu pair%s of GPUs, and the driver "
             "refuses peer access. --why NCCL_P2P_LEVEL has them",
             n, n == 1 ? "" : "s");
    add_line(p, COLOUR_RED, b);
}

static void lines_lint(struct nccl_page *p, const struct hw *hw, struct buf *b)
{
    struct nccl_lints lints = { 0 };

    nccl_lint_env(hw, &lints);
    for (size_t i = 0; i < lints.count; i++) {
        const struct nccl_lint *l = &lints.items[i];
        buf_reset(b);
        buf_addf(b, "%s: %s=%s: %s %s", nccl_severity_name(l->severity), l->name, l->value,
                 l->message, l->remedy ? l->remedy : "");
        add_line(p,
                 l->severity == NCCL_ERROR  ? COLOUR_RED
                 : l->severity == NCCL_WARN ? COLOUR_YELLOW
                                            : COLOUR_NONE,
                 b);
    }
    nccl_lints_release(&lints);
}

void detect_page(const struct term *term, const struct hw *hw, struct buf *out)
{
    struct nccl_page p = { 0 };
    struct show_section section = { .title = "NCCL" };
    struct nccl_choice c = { 0 };
    struct buf b = { 0 };

    nccl_choose(hw, &c);
    if (hw->gpus_count == 0 && hw->rdma_count == 0) {
        buf_adds(&b, "no GPU to be seen here: nothing for NCCL to do");
        add_line(&p, COLOUR_NONE, &b);
    } else {
        for (size_t i = 0; i < c.doubts_count; i++) {
            buf_reset(&b);
            buf_addf(&b, "Not certain: %s", c.doubts[i]);
            add_line(&p, COLOUR_YELLOW, &b);
        }
        line_net(&p, &c, &b);
        line_gids(&p, &c, &b);
        line_share(&p, &c, &b);
        line_mnnvl(&p, &c, &b);
        line_bootstrap(&p, &c, &b);
        line_gdr(&p, &c, &b);
        line_p2p(&p, &c, &b);
        line_refused(&p, &c, &b);
    }
    lines_lint(&p, hw, &b);
    section.lines = p.lines;
    section.count = p.count;
    hw_show(hw, term, &section, out);
    buf_release(&b);
    nccl_choice_release(&c);
    arena_release(&p.arena);
}

void detect_env(const struct detect_opts *o, const struct hw *hw, struct buf *out)
{
    const struct nccl_opts opts = { .mode = str_eq(o->env, "full") ? NCCL_FULL : NCCL_MINIMAL,
                                    .peer = o->peer };
    struct nccl_lints lints = { 0 };
    struct nccl_env env = { 0 };
    struct buf warnings = { 0 };

    if (o->json) {
        nccl_write_json(hw, &opts, out);
        return;
    }
    nccl_env_make(hw, &opts, &env);
    nccl_env_write(&env, out);
    nccl_env_release(&env);
    for (size_t i = 0; i < hw->notes_count; i++)
        if (str_eq(hw->notes[i].source, "self") || str_eq(hw->notes[i].source, "nccl"))
            buf_addf(&warnings, "warning: %s\n", hw->notes[i].text);
    nccl_lint_env(hw, &lints);
    nccl_lints_write(&lints, false, &warnings);
    fwrite(buf_str(&warnings), 1, warnings.len, stderr);
    buf_release(&warnings);
    nccl_lints_release(&lints);
}
