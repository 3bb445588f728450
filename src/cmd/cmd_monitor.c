/* SPDX-License-Identifier: MIT */
/* stoker monitor: a run watched from its beginning to its end, and a report about it. */
#include "cmd/cmd.h"
#include "monitor/monitor.h"

#include "agent/agent.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text/units.h"
#include "os/clock.h"
#include "os/file.h"
#include "telemetry/record/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MONITOR_TURN_MS = 100,     /* between two looks at the command and the clock */
    MONITOR_REMOTE_MS = 10000, /* between two questions to another agent, at most */
    MONITOR_REMOTE_TRIES = 6,  /* that may fail one after the other */
    MONITOR_PERIOD_MS = 1000,
    STATUS_NOT_FOUND = 127,
    STATUS_NOT_RUN = 126,
    STATUS_SIGNAL = 128
};

/* ---- files that are written as it goes */

struct sink {
    const char *path; /* NULL: none */
    int fd;
    struct err err; /* why it ended early */
};

/* One that cannot be made is told at once, for who would rather begin again, and at the end. */
static void sink_open(struct sink *s, const char *path, const char *head)
{
    *s = (struct sink){ .path = path, .fd = -1 };
    if (!path)
        return;
    s->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (s->fd < 0)
        (void)err_sys(&s->err, "could not write '%s'", path);
    else
        (void)!file_write(s->fd, path, head, strlen(head), &s->err);
    if (s->err.code)
        log_warn("%s; the run goes on without it", s->err.msg);
}

/* One that could not be written is left alone from then on; the run goes on. */
static void sink_write(struct sink *s, struct buf *text)
{
    if (s->fd >= 0 && !s->err.code && text->len)
        (void)!file_write(s->fd, s->path, buf_str(text), text->len, &s->err);
    buf_reset(text);
}

static void sink_close(struct sink *s)
{
    if (s->fd >= 0 && close(s->fd) != 0 && !s->err.code)
        (void)err_sys(&s->err, "could not write '%s'", s->path);
    s->fd = -1;
}

/* ---- a run */

struct run {
    struct cmd_ctx *ctx;
    const struct monitor_args *args;
    struct monitor m;
    int64_t duration_ms; /* 0: until the command ends */
    struct sink csv, memory;
    int signals;     /* -1: none */
    bool ended;      /* by a signal, or its time is over */
    pid_t command;   /* 0: none, or it has ended */
    int wait_status; /* of the command */
    bool has_command;
    int not_run;       /* exit status, as a shell's, of a command that could not be started; 0 */
    struct spec *spec; /* NULL: none */
    char *host;        /* of the agent; NULL: this machine */
    char token[CMD_TOKEN_BYTES_MAX];
};

/* What intervals left to be written and said; the main thread's. */
static void flush(struct run *r)
{
    struct buf csv = { 0 }, memory = { 0 }, lines = { 0 };

    pthread_mutex_lock(&r->m.lock);
    csv = r->m.csv;
    memory = r->m.memory_csv;
    lines = r->m.lines;
    r->m.csv = r->m.memory_csv = r->m.lines = (struct buf){ 0 };
    pthread_mutex_unlock(&r->m.lock);
    sink_write(&r->csv, &csv);
    sink_write(&r->memory, &memory);
    if (lines.len)
        (void)fwrite(buf_str(&lines), 1, lines.len, stderr);
    buf_release(&csv);
    buf_release(&memory);
    buf_release(&lines);
}

/* ---- the command */

static void child_signals(void)
{
    sigset_t none;

    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL); /* what is ignored stays so behind exec */
    (void)signal(SIGXFSZ, SIG_DFL);
}

static enum rc start_command(struct run *r, struct err *err)
{
    int tell[2], why = 0;
    ssize_t n;

    if (!r->has_command)
        return RC_OK;
    if (pipe2(tell, O_CLOEXEC) != 0)
        return err_sys(err, "could not make a pipe");
    r->command = fork();
    if (r->command == 0) {
        child_signals();
        r->ctx->argv[r->ctx->argc] = NULL; /* there is room: the command's own name was there */
        (void)execvp(r->ctx->argv[0], r->ctx->argv);
        why = errno;
        (void)!write(tell[1], &why, sizeof(why));
        _exit(why == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_RUN);
    }
    close(tell[1]);
    if (r->command < 0) {
        close(tell[0]);
        r->command = 0;
        return err_sys(err, "could not start '%s'", r->ctx->argv[0]);
    }
    do
        n = read(tell[0], &why, sizeof(why));
    while (n < 0 && errno == EINTR);
    close(tell[0]);
    if (n != (ssize_t)sizeof(why))
        return RC_OK; /* it runs: exec closed the pipe */
    (void)waitpid(r->command, NULL, 0);
    r->command = 0;
    errno = why;
    (void)err_sys(err, "could not run '%s'", r->ctx->argv[0]);
    r->not_run = why == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_RUN;
    return err->code;
}

static void look_at_command(struct run *r)
{
    if (r->command && waitpid(r->command, &r->wait_status, WNOHANG) == r->command)
        r->command = 0;
}

static int command_status(const struct run *r)
{
    if (!r->has_command)
        return 0;
    return WIFSIGNALED(r->wait_status) ? STATUS_SIGNAL + WTERMSIG(r->wait_status)
                                       : WEXITSTATUS(r->wait_status);
}

/* A terminal's own go to the command as well; all others are passed on. */
static void on_signal(struct run *r, const struct signalfd_siginfo *si)
{
    if (!r->command)
        r->ended = true;
    else if (si->ssi_code != SI_KERNEL)
        (void)kill(r->command, (int)si->ssi_signo);
}

static enum rc watch_signals(struct run *r, struct err *err)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGQUIT);
    if (r->has_command) {
        sigaddset(&set, SIGUSR1);
        sigaddset(&set, SIGUSR2);
    }
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return err_sys(err, "could not block signals");
    r->signals = signalfd(-1, &set, SFD_CLOEXEC);
    return r->signals < 0 ? err_sys(err, "could not watch signals") : RC_OK;
}

/* True while there is something to watch. */
static bool turn(struct run *r, int64_t begun_ms)
{
    struct pollfd p = { .fd = r->signals, .events = POLLIN };
    struct signalfd_siginfo si;

    if (poll(&p, 1, MONITOR_TURN_MS) == 1 &&
        read(r->signals, &si, sizeof(si)) == (ssize_t)sizeof(si))
        on_signal(r, &si);
    flush(r);
    look_at_command(r);
    if (r->has_command && !r->command)
        return false;
    return !r->ended && !(r->duration_ms && clock_mono_ms() - begun_ms >= r->duration_ms);
}

/* The command outlives --duration: its report waits for its end. */
static void await_command(struct run *r)
{
    while (r->command) {
        r->ended = true;
        (void)turn(r, 0);
    }
}

/* ---- sources */

static void on_second(void *arg, struct telemetry *t, int64_t time_ns)
{
    monitor_second(arg, t, time_ns);
}

static enum rc watch_here(struct run *r, struct err *err)
{
    const char *scrape[ARGS_REPEAT_MAX + 1] = { NULL };
    struct agent_opts o = { .port = -1,
                            .metrics_port = -1,
                            .period_ms = MONITOR_PERIOD_MS,
                            .no_gpu = r->args->no_gpu,
                            .scrape = scrape,
                            .on_second = on_second,
                            .arg = &r->m };
    int64_t begun = clock_mono_ms();
    struct agent *a = NULL;
    struct root *root = NULL;

    enum rc rc = root_open(r->args->root, &root, err);

    r->m.from_ns = clock_unix_ms() * 1000000; /* the kernel's log has more */
    for (size_t i = 0; i < r->args->scrape.count; i++)
        scrape[i] = r->args->scrape.items[i];
    if (r->spec && !r->args->scrape.count)
        for (size_t i = 0; i < r->spec->agent.scrape.count && i < ARGS_REPEAT_MAX; i++)
            scrape[i] = r->spec->agent.scrape.items[i];
    o.root = root;
    o.gpu.nvml = r->args->gpu_library ? r->args->gpu_library : getenv("STOKER_NVML_LIB");
    (void)str_copy(r->m.source, sizeof(r->m.source), "agent");
    if (gethostname(r->m.host, sizeof(r->m.host) - 1) != 0)
        r->m.host[0] = '\0';
    if (rc == RC_OK)
        rc = agent_start(&o, &a, err);
    if (rc == RC_OK)
        rc = start_command(r, err);
    while (rc == RC_OK && turn(r, begun))
        ;
    agent_stop(a);
    if (rc == RC_OK)
        await_command(r);
    if (root)
        root_close(root);
    return rc;
}

static enum rc watch_remote(struct run *r, struct err *err)
{
    int64_t begun = clock_mono_ms(), next = 0,
            every = r->m.interval_ns / 1000000 < MONITOR_REMOTE_MS ? r->m.interval_ns / 1000000
                                                                   : MONITOR_REMOTE_MS;
    const char *token_file = r->args->token_file ? r->args->token_file
                             : r->spec           ? r->spec->agent.token_file
                                                 : NULL;
    const struct web_trust trust = { r->args->ca_file, r->args->no_verify };
    struct remote *remote = NULL;
    int failed = 0;
    bool more = true;
    enum rc rc = RC_OK;

    (void)str_copy(r->m.source, sizeof(r->m.source), "remote");
    if (token_file)
        rc = cmd_token(token_file, r->token, sizeof(r->token), err);
    if (rc == RC_OK)
        rc = remote_open(r->host, token_file ? r->token : NULL, &trust, &r->m, &remote, err);
    if (rc == RC_OK)
        rc = start_command(r, err);
    next = clock_mono_ms() + every;
    while (rc == RC_OK && more) {
        struct err why = { 0 };
        more = turn(r, begun);
        if (more && clock_mono_ms() < next)
            continue;
        next = clock_mono_ms() + every;
        if (remote_take(remote, &why) == RC_OK) {
            failed = 0;
        } else if (++failed >= MONITOR_REMOTE_TRIES || !more) {
            log_warn("agent '%s': %s; the report ends there", r->host, why.msg);
            more = false;
        }
    }
    remote_close(remote);
    if (rc == RC_OK)
        await_command(r);
    return rc;
}

struct replaying {
    struct run *r;
    int64_t first_ns;
};

static bool on_replayed(void *arg, struct telemetry *t, int64_t time_ns)
{
    struct replaying *p = arg;

    p->first_ns = p->first_ns ? p->first_ns : time_ns;
    if (p->r->duration_ms && time_ns - p->first_ns > p->r->duration_ms * 1000000)
        return false;
    monitor_second(&p->r->m, t, time_ns);
    flush(p->r);
    return true;
}

static enum rc watch_recording(struct run *r, struct err *err)
{
    struct replaying p = { .r = r };
    struct recording_opts o = {
        .path = r->args->replay, .into = telemetry_new(0), .on_second = on_replayed, .arg = &p
    };
    struct recording_end end = { 0 };
    enum rc rc = recording_read(&o, &end, err);

    (void)str_copy(r->m.source, sizeof(r->m.source), "replay");
    (void)str_copy(r->m.host, sizeof(r->m.host), end.host);
    r->m.torn = end.torn;
    telemetry_free(o.into);
    return rc;
}

/* ---- the end */

static enum rc write_whole(const char *path, const struct buf *text, struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    enum rc rc;

    if (fd < 0)
        return err_sys(err, "could not write '%s'", path);
    rc = text->over ? err_set(err, RC_LIMIT, "'%s' would be larger than %zu bytes", path, text->max)
                    : file_write(fd, path, buf_str(text), text->len, err);
    if (close(fd) != 0 && rc == RC_OK)
        rc = err_sys(err, "could not write '%s'", path);
    return rc;
}

static enum rc write_plot(struct run *r, struct err *err)
{
    struct buf svg = { 0 };
    enum rc rc = RC_OK;

    if (r->args->svg) {
        monitor_plot(&r->m, &svg);
        rc = write_whole(r->args->svg, &svg, err);
    }
    buf_release(&svg);
    return rc;
}

/* To a file, to standard output, or, beside a command's own output, to standard error. */
static enum rc write_report(struct run *r, struct err *err)
{
    bool aside = r->has_command && !r->args->output;
    struct term none = { 0 };
    struct buf text = { 0 };
    enum rc rc = RC_OK;

    if (r->args->json)
        monitor_json(&r->m, &text);
    else
        monitor_text(&r->m,
                     r->args->output ? &none
                     : aside         ? &r->ctx->err_term
                                     : &r->ctx->out_term,
                     r->args->full, &text);
    if (r->args->output)
        rc = write_whole(r->args->output, &text, err);
    else if (aside)
        (void)fwrite(buf_str(&text), 1, text.len, stderr);
    else
        buf_add(&r->ctx->out, buf_str(&text), text.len);
    buf_release(&text);
    return rc;
}

/* The first fault of a file, after all that could be written was.  It is a failure whatever its
 * cause: a folder that is not there is no missing device. */
static enum rc finish(struct run *r, struct err *err)
{
    struct err plot = { 0 }, report = { 0 };
    const struct err *faults[] = { &r->csv.err, &r->memory.err, &plot, &report };

    monitor_end(&r->m);
    flush(r);
    sink_close(&r->csv);
    sink_close(&r->memory);
    (void)!write_plot(r, &plot);
    (void)!write_report(r, &report);
    r->ctx->status = command_status(r);
    if (!r->ctx->status && r->args->fail_on_target && targets_failed(&r->m))
        r->ctx->status = 1;
    for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
        if (faults[i]->code) {
            *err = *faults[i];
            return err->code = RC_FAIL;
        }
    return RC_OK;
}

/* ---- options */

/* "30" is seconds here, as it was in every script before. */
static enum rc time_of(const char *name, const char *text, uint64_t *out_ms, struct err *err)
{
    uint64_t seconds;

    if (!text)
        return RC_OK;
    if (str_to_u64(text, 10, &seconds) && seconds <= MONITOR_DURATION_MS_MAX / 1000) {
        *out_ms = seconds * 1000;
        return RC_OK;
    }
    if (units_duration_parse(text, out_ms, err) == RC_OK)
        return RC_OK;
    (void)err_ctx(err, "%s", name);
    return err->code = RC_USAGE;
}

static enum rc check_args(struct run *r, struct err *err)
{
    const struct monitor_args *a = r->args;
    uint64_t interval = MONITOR_INTERVAL_MS_DEFAULT, duration = 0;
    enum rc rc;

    if (time_of("--interval", a->interval, &interval, err) ||
        time_of("--duration", a->duration, &duration, err))
        return err->code;
    if (interval < MONITOR_INTERVAL_MS_MIN || interval > MONITOR_DURATION_MS_MAX)
        return err_set(err, RC_USAGE, "--interval '%s' is not between 1s and 31d", a->interval);
    if ((a->duration && !duration) || duration > MONITOR_DURATION_MS_MAX)
        return err_set(err, RC_USAGE, "--duration '%s' is not between 1s and 31d", a->duration);
    if (a->replay && (a->host || r->has_command))
        return err_set(err, RC_USAGE, "--replay takes neither --host nor a command");
    if (a->component && !a->file)
        return err_set(err, RC_USAGE, "--component is one of a spec: give --file");
    rc = a->file ? cmd_spec_read(r->ctx, a->file, a->json, &r->spec, err) : RC_OK;
    if (rc)
        return rc;
    if (!a->replay && monitor_spec_host(a, r->spec, &r->host, err))
        return err->code;
    if (a->token_file && !r->host)
        return err_set(err, RC_USAGE, "--token-file is for --host");
    if (!duration && !a->replay && !r->has_command)
        duration = MONITOR_DURATION_MS_DEFAULT;
    r->duration_ms = (int64_t)duration;
    monitor_init(&r->m, (int64_t)interval * 1000000);
    r->m.want_csv = a->csv != NULL;
    r->m.want_memory = a->memory_csv != NULL;
    r->m.want_lines = !a->quiet;
    if (targets_fill(&r->m, a, r->spec, err) != RC_OK) {
        monitor_release(&r->m);
        return err->code;
    }
    monitor_windows(&r->m);
    return RC_OK;
}

static void run_free(struct run *r)
{
    spec_free(r->spec);
    free(r->host);
    free(r);
}

static enum rc run_monitor(struct cmd_ctx *ctx, struct err *err)
{
    struct run *r = xcalloc(1, sizeof(*r));
    enum rc rc;

    *r = (struct run){ .ctx = ctx, .args = ctx->opts, .signals = -1, .has_command = ctx->argc > 0 };
    rc = check_args(r, err);
    if (rc != RC_OK) {
        run_free(r);
        return rc;
    }
    sink_open(&r->csv, r->args->csv, monitor_csv_head);
    sink_open(&r->memory, r->args->memory_csv, monitor_memory_head);
    if (!r->args->replay)
        rc = watch_signals(r, err);
    if (rc == RC_OK)
        rc = r->args->replay ? watch_recording(r, err)
             : r->host       ? watch_remote(r, err)
                             : watch_here(r, err);
    if (rc == RC_OK)
        rc = finish(r, err);
    if (rc != RC_OK && r->not_run) {
        (void)fprintf(stderr, "stoker: %s\n", err->msg);
        ctx->status = r->not_run;
        rc = RC_OK;
    }
    sink_close(&r->csv);
    sink_close(&r->memory);
    if (r->signals >= 0)
        close(r->signals);
    monitor_release(&r->m);
    run_free(r);
    return rc;
}

#define OPT_STRUCT struct monitor_args
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
    .opts_size = sizeof(struct monitor_args),
    .about =
        "Samples once a second, says one line an interval and reports at the end: mean, p50, p95 "
        "and most of utilisation, tensor activity, memory, temperature, power, clocks, PCIe and "
        "NVLink of each GPU, new errors, targets met and failed, GPU memory by process over time, "
        "and what limited the whole and each phase of it, with evidence and advice "
        "(docs/bottlenecks.md).\n"
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
