/* SPDX-License-Identifier: MIT */
/* cmd_detect: `stoker detect`: probes the machine, or a captured one, and prints one
 * form of what it found.  A form is a row of forms[]; detect_nccl.c has those that
 * go through nccl/. */
#include "base/str.h"
#include "cmd/cmd_int.h"
#include "cmd/detect/detect_int.h"
#include "health/health.h"
#include "hw/print/hw_print.h"

#include <arpa/inet.h>

/* ---- the forms ---- */
static enum rc form_page(struct cmd_ctx *ctx, struct hw *hw, struct err *err)
{
    (void)err;
    detect_page(&ctx->out_term, hw, &ctx->out);
    return RC_OK;
}

static enum rc form_json(struct cmd_ctx *ctx, struct hw *hw, struct err *err)
{
    (void)err;
    hw_write_json(hw, &ctx->out);
    return RC_OK;
}

static enum rc form_topo(struct cmd_ctx *ctx, struct hw *hw, struct err *err)
{
    const struct detect_opts *o = ctx->opts;

    (void)err;
    if (o->json)
        hw_topo_json(hw, &ctx->out);
    else
        hw_show_topo(hw, &ctx->out);
    return RC_OK;
}

static enum rc write_file(const char *path, const struct buf *text, struct err *err)
{
    FILE *f = fopen(path, "we");
    bool bad;

    if (!f)
        return err_sys(err, "could not create '%s'", path);
    bad = fwrite(buf_str(text), 1, text->len, f) != text->len;
    bad = fflush(f) != 0 || bad;
    if (bad) {
        err_sys(err, "could not write '%s'", path);
        fclose(f);
        return err->code;
    }
    if (fclose(f))
        return err_sys(err, "could not write '%s'", path);
    return RC_OK;
}

static enum rc form_svg(struct cmd_ctx *ctx, struct hw *hw, struct err *err)
{
    const struct detect_opts *o = ctx->opts;
    struct buf text = { 0 };
    enum rc rc = RC_OK;

    if (str_eq(o->svg, "-")) {
        nccl_picture(hw, &ctx->out);
        return RC_OK;
    }
    nccl_picture(hw, &text);
    rc = write_file(o->svg, &text, err);
    buf_release(&text);
    return rc;
}

static enum rc form_env(struct cmd_ctx *ctx, struct hw *hw, struct err *err)
{
    (void)err;
    detect_env(ctx->opts, hw, &ctx->out);
    return RC_OK;
}

static enum rc form_why(struct cmd_ctx *ctx, struct hw *hw, struct err *err)
{
    const struct detect_opts *o = ctx->opts;

    return nccl_why(hw, o->why, o->peer, o->json, &ctx->out, err);
}

/* With a spec its checks are among them, and alone where no others are asked for. */
static enum rc check_groups(const struct detect_opts *o, unsigned *out, struct err *err)
{
    const struct opt_strs *names = &o->check;
    unsigned groups = o->file ? CHECK_SPEC : 0;

    for (size_t i = 0; i < names->count; i++) {
        unsigned g = health_group_parse(*names->items[i] ? names->items[i] : "all");

        if (!g) {
            err_hint(err, "Choose from: gpu, rdma, training, container, spec, all.");
            return err_set(err, RC_USAGE, "option '--check' has no choice '%s'", names->items[i]);
        }
        groups |= g;
    }
    if ((groups & CHECK_SPEC) && !o->file) {
        err_hint(err, "For example --check spec -f stoker.yaml.");
        return err_set(err, RC_USAGE, "'--check spec' needs '--file'");
    }
    *out = groups;
    return RC_OK;
}

static enum rc form_check(struct cmd_ctx *ctx, struct hw *hw, struct err *err)
{
    const struct detect_opts *o = ctx->opts;
    struct health_opts opts = { .deep = o->deep };
    struct health_list list = { 0 };
    struct spec *spec = NULL;
    unsigned groups = 0;
    enum rc rc = check_groups(o, &groups, err);

    if (!rc && o->file)
        rc = cmd_spec_read(ctx, o->file, o->json, &spec, err);
    if (rc)
        return rc;
    opts.spec = spec;
    health_check(hw, groups, &opts, &list);
    if (o->json)
        health_json(&list, &ctx->out);
    else
        health_print(&list, &ctx->out_term, &ctx->out);
    rc = health_worst(&list) == CHECK_FAIL ? RC_FAIL : RC_OK; /* told on stdout */
    health_list_release(&list);
    spec_free(spec);
    return rc;
}

static enum rc form_against(struct cmd_ctx *ctx, struct hw *hw, struct err *err)
{
    return detect_against(ctx->opts, &ctx->out_term, hw, &ctx->out, err);
}

/* ---- which form ---- */
struct detect_form {
    const char *option; /* as the user writes it */
    bool json;          /* may be had as JSON */
    enum rc (*run)(struct cmd_ctx *ctx, struct hw *hw, struct err *err);
};

static const struct detect_form form_default = { "", true, form_page };
static const struct detect_form form_plain_json = { "--json", true, form_json };
static const struct detect_form forms[] = {
    { "--topo", true, form_topo },   { "--svg", false, form_svg },
    { "--env", true, form_env },     { "--why", true, form_why },
    { "--check", true, form_check }, { "--against", true, form_against },
};

/* Exactly one form; --json alone is the inventory, beside --env or --check its JSON. */
static enum rc choose_form(const struct detect_opts *o, const struct detect_form **out,
                           struct err *err)
{
    const bool given[ARRAY_SIZE(forms)] = {
        o->topo, o->svg, o->env, o->why, o->check.count > 0 || o->file, o->against
    };
    const struct detect_form *chosen = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        if (!given[i])
            continue;
        if (chosen)
            return err_set(err, RC_USAGE, "options '%s' and '%s' are two different outputs",
                           chosen->option, forms[i].option);
        chosen = &forms[i];
    }
    if (chosen && o->json && !chosen->json)
        return err_set(err, RC_USAGE, "option '%s' has no JSON form", chosen->option);
    if (chosen && o->compare)
        return err_set(err, RC_USAGE, "options '%s' and '--compare' are two different outputs",
                       chosen->option);
    if (o->nodes && !o->compare)
        return err_set(err, RC_USAGE, "option '--nodes' needs '--compare'");
    if (o->deep && o->check.count == 0)
        return err_set(err, RC_USAGE, "option '--deep' needs '--check'");
    if (o->host && !o->against)
        return err_set(err, RC_USAGE, "option '--host' needs '--against'");
    *out = chosen ? chosen : o->json ? &form_plain_json : &form_default;
    return RC_OK;
}

/* ---- -e VAR=VALUE: the environment as if ---- */
static bool is_var_name(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!((s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= 'a' && s[i] <= 'z') || s[i] == '_' ||
              (i > 0 && s[i] >= '0' && s[i] <= '9')))
            return false;
    return len > 0;
}

static enum rc env_with(struct arena *a, const struct opt_strs *with, struct hw_env **out,
                        struct err *err)
{
    struct hw_env *env = arena_array(a, struct hw_env, with->count + 1);

    for (size_t i = 0; i < with->count; i++) {
        const char *s = with->items[i];
        size_t len = strcspn(s, "=");

        if (s[len] != '=' || !is_var_name(s, len)) {
            err_hint(err, "Write it as VAR=VALUE, for example NCCL_IB_HCA==mlx5_0.");
            return err_set(err, RC_USAGE, "option '--with' cannot use '%s'", s);
        }
        env[i] = (struct hw_env){ .name = arena_strndup(a, s, len), .value = s + len + 1 };
    }
    *out = env;
    return RC_OK;
}

static const char *nvml_lib(void)
{
    const char *lib = getenv("STOKER_NVML_LIB");

    return lib && *lib ? lib : NULL;
}

static enum rc probe_root(const char *root_path, const struct hw_opts *opts, struct hw **out,
                          struct err *err)
{
    struct root *root;
    enum rc rc = root_open(root_path, &root, err);

    if (rc)
        return rc;
    if (opts->rec)
        root_record(root, opts->rec);
    rc = hw_probe(root, opts, out, err);
    root_close(root);
    return rc;
}

enum rc detect_probe(const char *root_path, struct recorder *rec, struct hw **out, struct err *err)
{
    const struct hw_opts opts = { .nvml_lib = nvml_lib(), .rec = rec };

    return probe_root(root_path, &opts, out, err);
}

/* An address, as NCCL's route is looked up by; a name would be passed over in silence. */
static enum rc peer_check(const struct detect_opts *o, struct err *err)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr six;
    struct in_addr four;

    if (!o->peer)
        return RC_OK;
    if (!o->env && !o->why) {
        err_hint(err, "Use it with --env or --why.");
        return err_set(err, RC_USAGE, "option '--peer' is about the environment for NCCL alone");
    }
    if (str_copy(text, sizeof(text), o->peer)) {
        text[strcspn(text, "%")] = '\0'; /* fe80::1%eth0 */
        if (inet_pton(AF_INET, text, &four) == 1 || inet_pton(AF_INET6, text, &six) == 1)
            return RC_OK;
    }
    err_hint(err, "Give the address itself, as 10.0.0.2 or fd00::2: names are not looked up.");
    return err_set(err, RC_USAGE, "option '--peer' takes an IP address, not '%.200s'", o->peer);
}

static enum rc run_detect(struct cmd_ctx *ctx, struct err *err)
{
    const struct detect_opts *o = ctx->opts;
    const struct detect_form *form = NULL;
    struct hw *hw = NULL;
    struct hw_env *env = NULL;
    struct arena a = { 0 };
    unsigned groups;
    enum rc rc = choose_form(o, &form, err);

    if (!rc && ctx->argc && !o->compare) {
        err_hint(err, "Only --compare takes files; --root reads one captured machine.");
        rc = err_set(err, RC_USAGE, "command 'detect' has no use for operand '%s'", ctx->argv[0]);
    }
    if (!rc)
        rc = peer_check(o, err);
    if (!rc && o->compare)
        return detect_compare(ctx, err);
    if (!rc && (o->check.count || o->file))
        rc = check_groups(o, &groups, err); /* before a probe that may take seconds */
    if (!rc)
        rc = env_with(&a, &o->with, &env, err);
    if (!rc) {
        const struct hw_opts opts = { .nvml_lib = nvml_lib(),
                                      .env = env,
                                      .env_count = o->with.count };

        rc = probe_root(o->root, &opts, &hw, err);
    }
    if (!rc && form)
        rc = form->run(ctx, hw, err);
    hw_free(hw);
    arena_release(&a);
    return rc;
}

#define OPT_STRUCT struct detect_opts
static const struct opt opts_detect[] = {
    OPT(0, "json", FLAG, json, NULL,
        "print JSON: of the inventory, or of what another option asks for"),
    OPT(0, "topo", FLAG, topo, NULL, "print the matrix of distances between GPUs and NICs"),
    OPT(0, "svg", STR, svg, "FILE", "write a picture of the machine ('-' for stdout)"),
    OPT_CHOICE(0, "env", STR_OPT, env, "minimal|full", "minimal|full",
               "print the NCCL environment with a reason a line; full pins every choice"),
    OPT(0, "why", STR, why, "VAR", "explain one variable of that environment"),
    OPT('e', "with", STRS, with, "VAR=VALUE",
        "as if the environment had this variable (may be repeated)"),
    OPT(0, "peer", STR, peer, "ADDR",
        "address of another node of the job, to find the interface that leads there"),
    OPT(0, "check", STRS_OPT, check, CHECK_GROUP_CHOICES,
        "check the machine (alone: all); may be repeated or a comma list; exit 1 when a check "
        "fails"),
    OPT('f', "file", STR, file, "SPEC",
        "also check what 'software' of this stoker.yaml asks for (alone: only that)"),
    OPT(0, "deep", FLAG, deep, NULL, "with --check: also run a CUDA kernel on each GPU"),
    OPT(0, "compare", FLAG, compare, NULL,
        "compare the machines of FILE…: what differs, and on which; exit 1 when something does"),
    OPT(0, "nodes", STR, nodes, "SPEC",
        "with --compare: each machine with its node group of a spec, and with what that says"),
    OPT(0, "against", STR, against, "LOG|TOPO.xml",
        "show where NCCL chose otherwise: output of NCCL_DEBUG=INFO or the file of "
        "NCCL_TOPO_DUMP_FILE; exit 1 when something differs"),
    OPT(0, "host", STR, host, "NAME",
        "with --against: the host of a log of several that this machine is"),
    OPT(0, "root", STR, root, "DIR|TAR", "read a captured machine instead of this one"),
    { 0 },
};

static const struct cmd_example examples[] = {
    { "stoker detect", "show what this machine is" },
    { "stoker detect --topo", "show how near GPUs and NICs are to each other" },
    { "stoker detect --svg machine.svg", "draw it" },
    { "eval \"$(stoker detect --env)\"", "set what NCCL would not find itself" },
    { "stoker detect --why NCCL_IB_HCA", "say what this variable should be, and why" },
    { "stoker detect -e NCCL_IB_HCA=mlx5_1 --env", "judge a setting before using it" },
    { "stoker detect --check rdma,gpu", "check NICs and GPUs before a job" },
    { "stoker detect --against job.log", "compare with what NCCL_DEBUG=INFO said" },
    { "stoker detect --check training -f stoker.yaml",
      "and the versions that the site's spec asks for" },
    { "stoker detect --root node7.tar --json", "read a capture of 'stoker gather'" },
    { "stoker detect --compare captures/", "what differs between machines that should be equal" },
    { "stoker detect --compare --nodes stoker.yaml *.json", "and from what the spec says of them" },
    { 0 },
};

const struct cmd cmd_detect = {
    .name = "detect",
    .summary = "show what this machine is and what NCCL will do on it",
    .operands = "[FILE…]",
    .args_max = 1 << 20, /* the comparison has its own limit, and says so */
    .opts = opts_detect,
    .opts_size = sizeof(struct detect_opts),
    .about =
        "Lists processors, memory, GPUs with their links, RDMA and network devices, storage, "
        "limits and software, and says what NCCL will choose here. What could not be learned is "
        "'-' in a table and null in JSON, never zero. A machine without GPUs is no error.\n"
        "\n"
        "--env prints shell exports: the smallest set that makes NCCL's choice right, each with "
        "its reason; a variable that is set already wins, and known mistakes in it are warnings "
        "on stderr. --check prints pass, warn and fail lines with evidence and remedy.\n"
        "\n"
        "--compare takes captures (a tar or a folder), inventories, or a folder of such files, and "
        "prints what differs: the value that most machines have, and the others with their "
        "machines. What differs by nature (addresses, serial numbers, host names) and what changes "
        "by itself (temperatures, memory in use) is left out. It exits with 1 when something "
        "differs.\n"
        "\n"
        "The NVIDIA driver is asked in a child process with a deadline: a driver that hangs is "
        "reported, not waited for. STOKER_NVML_LIB names another library to load in place of "
        "libnvidia-ml.so.1; it is meant for tests.",
    .examples = examples,
    .run = run_detect,
};
