/* SPDX-License-Identifier: MIT */
/* stoker top: a node on a terminal.  Where the figures come from is chosen here: an agent that
 * runs, here or elsewhere, or one that is started inside this process for the time being. */
#include "cmd/agent/cmd_agent_int.h"

#include "base/log.h"
#include "base/str.h"
#include "os/net/url.h"
#include "top/top.h"

#include <unistd.h>

struct top_args {
    const char *host, *token_file, *ca_file, *replay, *speed;
    bool no_verify, demo, sample, once;
};

struct top_place {
    struct agent_args args;  /* of our own agent, whose plan borrows from them */
    struct agent_plan *plan; /* NULL: another's is asked */
    struct url url;
    char token[TOKEN_FILE_BYTES_MAX], from[URL_HOST_MAX + 32];
    struct top_what what;
};

/* ---- where from */

/* "node7", "node7:9000", "http://node7": the agent's port unless another is given. */
static enum rc parse_address(const char *text, struct url *out, struct err *err)
{
    const char *at = strstr(text, "://"), *end;
    enum rc rc = url_parse(text, out, err);

    at = at ? at + 3 : text;
    end = at + strcspn(at, "/");
    if (*at == '[')
        at = memchr(at, ']', (size_t)(end - at));
    if (!rc && !out->socket[0] && at && !memchr(at, ':', (size_t)(end - at)))
        (void)snprintf(out->port, sizeof(out->port), "%d", AGENT_PORT);
    return rc;
}

static void use_url(struct top_place *t, const char *token_file)
{
    char host[URL_AUTHORITY_MAX];

    t->what.source.url = &t->url;
    t->what.source.token = token_file ? t->token : NULL;
    (void)snprintf(t->from, sizeof(t->from), "agent %s",
                   t->url.socket[0] ? t->url.socket : url_authority(&t->url, host));
}

/* The agent of this machine, when one runs and lets us look. */
static bool try_local(struct top_place *t, const char *token_file)
{
    struct err why = { 0 };
    char text[32];

    (void)snprintf(text, sizeof(text), "127.0.0.1:%d", AGENT_PORT);
    if (url_parse(text, &t->url, &why))
        return false;
    use_url(t, token_file);
    if (top_ask_once(&t->what.source, NULL, &t->what.first, &why) == RC_OK)
        return true;
    t->what.source = (struct top_source_opts){ 0 };
    (void)snprintf(t->from, sizeof(t->from), "sampled here%s",
                   why.code == RC_USAGE ? ": the agent asks for its token" : ", no agent answers");
    return false;
}

/* An agent in this process: no port, no history but a replay's own. */
static enum rc start_agent(struct cmd_ctx *ctx, struct top_place *t, struct err *err)
{
    const struct top_args *a = ctx->opts;
    struct cmd_ctx as_agent = *ctx;
    enum rc rc;

    t->args = (struct agent_args){ .port = "none",
                                   .metrics_port = "none",
                                   .no_history = true,
                                   .quiet = true,
                                   .demo = a->demo,
                                   .replay = a->replay,
                                   .speed = a->speed };
    as_agent.opts = &t->args;
    rc = agent_plan_make(&as_agent, NULL, &t->plan, err);
    if (rc)
        return rc;
    t->plan->o.ask = true;
    rc = agent_start(&t->plan->o, &t->what.source.agent, err);
    if (!t->from[0])
        (void)str_copy(t->from, sizeof(t->from), a->sample ? "sampled here" : "a recording");
    return rc;
}

static enum rc choose_place(struct cmd_ctx *ctx, struct top_place *t, struct err *err)
{
    const struct top_args *a = ctx->opts;
    enum rc rc = RC_OK;

    if ((a->host != NULL) + (a->replay != NULL) + a->demo + a->sample > 1)
        return err_set(err, RC_USAGE, "--host, --replay, --demo and --sample are alternatives");
    if (a->token_file)
        rc = token_file_read(a->token_file, t->token, sizeof(t->token), err);
    if (rc)
        return rc;
    if (a->host) {
        rc = parse_address(a->host, &t->url, err);
        use_url(t, a->token_file);
        t->what.source.trust = (struct web_trust){ a->ca_file, a->no_verify };
        return rc;
    }
    t->what.local = !a->replay && !a->demo;
    if (t->what.local && !a->sample && try_local(t, a->token_file))
        return RC_OK;
    return start_agent(ctx, t, err);
}

/* ---- the command */

static enum rc run_top(struct cmd_ctx *ctx, struct err *err)
{
    const struct top_args *a = ctx->opts;
    struct top_place t = { .what.from = t.from };
    int signals = -1;
    enum rc rc = RC_OK;

    if (!a->once && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))) {
        err_hint(err, "Use --once to print one screen as text.");
        return err_set(err, RC_USAGE, "stdin and stdout are not a terminal");
    }
    log_level = LOG_QUIET; /* the screen says what matters */
    if (!a->once)
        rc = top_signals(&signals, err); /* before any thread */
    if (!rc)
        rc = choose_place(ctx, &t, err);
    if (!rc)
        rc = a->once ? top_print(&t.what, ctx->out_term.width, &ctx->out, err)
                     : top_run(&t.what, signals, ctx->out_term.colour, err);
    agent_stop(t.what.source.agent);
    agent_plan_free(t.plan);
    if (signals >= 0)
        close(signals);
    return rc;
}

#define OPT_STRUCT struct top_args
static const struct opt opts_top[] = {
    OPT(0, "host", STR, host, "HOST[:PORT]", "an agent elsewhere (port: 8090)"),
    OPT(0, "token-file", STR, token_file, "FILE", "the bearer token that the agent asks for"),
    OPT(0, "ca-file", STR, ca_file, "FILE", "who signed its certificate, PEM (https)"),
    OPT(0, "no-verify", FLAG, no_verify, NULL, "do not check its certificate"),
    OPT(0, "sample", FLAG, sample, NULL, "measure here, even if an agent runs"),
    OPT(0, "replay", STR, replay, "FILE", "show a recording"),
    OPT(0, "speed", STR, speed, "N|max", "of a recording (default: 1)"),
    OPT(0, "demo", FLAG, demo, NULL, "show eight GPUs of a story instead of this machine"),
    OPT(0, "once", FLAG, once, NULL, "print one screen as text and end"),
    { 0 },
};

static const struct cmd_example examples[] = {
    { "stoker top", "this machine, from its agent if one runs" },
    { "stoker top --host node7 --token-file token", "another machine's agent" },
    { "stoker top --replay incident.rec", "a recording of 'stoker agent --record'" },
    { "stoker top --once | head -20", "one screen as text" },
    { 0 },
};

const struct cmd cmd_top = {
    .name = "top",
    .summary = "show GPUs and their processes on a terminal",
    .opts = opts_top,
    .opts_size = sizeof(struct top_args),
    .about =
        "Shows a card or a line a GPU: utilisation, memory, temperature, power, tensor activity, "
        "clocks, PCIe and NVLink rates, a fan where there is one, and why clocks are held back; "
        "plots of the last minutes; the processes on the GPUs with their users, jobs (Slurm, pod, "
        "container, unit) and use of the host; alerts that fire. An unknown value is '-'.\n"
        "\n"
        "The figures come from the agent that runs on this machine (127.0.0.1:8090) or, where none "
        "answers, from one inside this process that ends with it; --host asks an agent elsewhere. "
        "When the connection is lost the last picture stays, marked with its age, and it goes on "
        "trying.\n"
        "\n"
        "Keys: q quits, ? lists all keys, 0 to 9 choose a GPU, arrows select a process, < and > "
        "choose the column to sort by, k ends the selected process after a question (on this "
        "machine alone), g toggles plots, p pauses, a lists alerts. It works on 80x24 and follows "
        "the terminal's size, with and without colours (--colour never) and UTF-8.",
    .examples = examples,
    .run = run_top,
};
