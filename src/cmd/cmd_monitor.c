/* SPDX-License-Identifier: MIT */
/* stoker monitor: its options; src/monitor does the rest. */
#include "cmd/cmd_int.h"
#include "monitor/monitor.h"

static enum rc run_monitor(struct cmd_ctx *ctx, struct err *err)
{
    struct monitor_out out = { &ctx->out_term, &ctx->err_term, &ctx->out, 0 };
    struct monitor_opts *o = ctx->opts;
    struct spec *spec = NULL;
    enum rc rc = monitor_check(o, ctx->argc > 0, err);

    if (rc == RC_OK && o->file)
        rc = cmd_spec_read(ctx, o->file, o->json, &spec, err);
    ctx->argv[ctx->argc] = NULL; /* there is room: the command's own name was there */
    if (rc == RC_OK)
        rc = monitor_run(o, spec, ctx->argc ? ctx->argv : NULL, &out, err);
    ctx->status = out.status;
    spec_free(spec);
    return rc;
}

#define OPT_STRUCT struct monitor_opts
static const struct opt opts_monitor[] = {
    OPT('i', "interval", STR, interval, "TIME", "between two lines and rows (default: 30s)"),
    OPT('d', "duration", STR, duration, "TIME",
        "of the run (default: 1h; with a command: until it ends)"),
    OPT('f', "file", STR, file, "SPEC", "the goals of this stoker.yaml are targets"),
    OPT(0, "component", STR, component, "NAME", "watch the machine this component of SPEC is on"),
    OPT('t', "target", STRS, targets, "TARGET",
        "what is wanted, as 'gpu.util>=90' or 'p95(gpu.temp)<85'; may be repeated"),
    OPT(0, "no-default-targets", FLAG, no_defaults, NULL, "those given alone"),
    OPT(0, "fail-on-target", FLAG, fail_on_target, NULL, "exit status 1 when a target is failed"),
    OPT(0, "csv", STR, csv, "FILE", "a row an interval and GPU"),
    OPT(0, "memory-csv", STR, memory_csv, "FILE", "a row an interval and process: its GPU memory"),
    OPT(0, "svg", STR, svg, "FILE", "a plot of the run"),
    OPT(0, "full", FLAG, full, NULL,
        "the whole report: each GPU's figures, host, processes, phases, events"),
    OPT('j', "json", FLAG, json, NULL, "the report as JSON"),
    OPT('o', "output", STR, output, "FILE", "the report into a file"),
    OPT('q', "quiet", FLAG, quiet, NULL, "no line an interval"),
    OPT(0, "host", STR, host, "URL", "watch where another agent runs"),
    OPT(0, "token-file", STR, token_file, "FILE", "the token that it asks for"),
    OPT(0, "ca-file", STR, ca_file, "FILE", "who signed its certificate, PEM (https)"),
    OPT(0, "no-verify", FLAG, no_verify, NULL, "do not check its certificate"),
    OPT(0, "replay", STR, replay, "FILE", "report on a recording of 'stoker agent --record'"),
    OPT(0, "scrape", STRS, scrape, "URL",
        "an application's Prometheus text, for targets; may be repeated"),
    OPT(0, "no-gpu", FLAG, no_gpu, NULL, "leave the driver alone"),
    OPT(0, "root", STR, root, "DIR|TAR", "read the files of a captured machine"),
    OPT(0, "gpu-library", STR, gpu_library, "FILE", "the driver's library"),
    { 0 },
};

static const struct cmd_example examples[] = {
    { "stoker monitor --interval 30 --duration 1h", "an hour of this machine" },
    { "stoker monitor --csv run.csv --svg run.svg -- python train.py",
      "a command, from its start to its end" },
    { "stoker monitor -t 'gpu.util>=90' --fail-on-target -- ./job.sh",
      "exit status 1 when the GPUs were not busy" },
    { "stoker monitor --replay node.rec --json", "what a recording shows" },
    { "stoker monitor --host node7:8090 --duration 10m", "another machine" },
    { "stoker monitor -f stoker.yaml --duration 1h", "hold this machine against a site's goals" },
    { 0 },
};

const struct cmd cmd_monitor = {
    .name = "monitor",
    .summary = "watch a run, then report: targets met, memory by process, what limits it",
    .operands = "[-- COMMAND [ARGUMENT…]]",
    .args_max = 4096,
    .opts = opts_monitor,
    .opts_size = sizeof(struct monitor_opts),
    .about =
        "Samples once a second, says one line an interval and reports at the end: mean, p50, p95 "
        "and most of utilisation, tensor activity, memory, temperature, power, clocks, PCIe and "
        "NVLink of each GPU, new errors, targets met and failed, GPU memory by process over time, "
        "and what limited the whole and each phase of it, with evidence and advice "
        "(docs/user/bottlenecks.md).\n"
        "\n"
        "The report begins with what limits the run, has a row for each GPU and the targets that "
        "failed; --full adds the rest, --json has all of it.\n"
        "\n"
        "With a command it runs that, watches while it runs, passes signals on and ends with its "
        "exit status (128 and the signal's number when one ended it; 127 when it is not there, 126 "
        "when it cannot be run). The report then goes to "
        "standard error, beside the command's own output; --output names a file instead. Without "
        "one, Ctrl-C ends the run early, with a report.\n"
        "\n"
        "Targets: utilisation over 80 %, memory between 70 and 90 %, below 85 C, within the power "
        "limit, no double-bit ECC error, no XID; --target adds others, and replaces the default of "
        "the same metric. One whose metric is not known is neither met nor failed. With "
        "--fail-on-target a failed one makes the exit status 1, unless the command's own is "
        "another one; so does one of --target that could not be judged.\n"
        "\n"
        "With --file the goals of a spec are targets too, in place of the defaults of the same "
        "metrics: a minimum is held against the mean, a maximum against the mean or, for a "
        "temperature, the highest value, and for a count against its rise. A goal that no node can "
        "show (costs, pools, shares of errors) is warned about. The spec also names what the agent "
        "scrapes, the token's file, and the port of --host where it has none; --component takes "
        "the machine of a component that has one.\n"
        "\n"
        "A CSV, plot or report file that cannot be written is an error (exit status 1, whatever "
        "the command's): a CSV is told at once, the command runs and the rest of the report comes "
        "nevertheless. Without a GPU the report is about the host, and says so.",
    .examples = examples,
    .run = run_monitor,
};
