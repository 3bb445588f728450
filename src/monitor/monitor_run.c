/* SPDX-License-Identifier: MIT */
/* monitor_run: a run watched from its beginning to its end, and a report about it.
 *
 * The source (this machine's agent, another one, a recording) fills the windows; this thread turns
 * ten times a second: signals, what intervals left to be written, whether the command has ended.  A
 * file that cannot be written ends that file, not the run. */
#include "monitor/monitor_int.h"

#include "agent/agent.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text/units.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/signals.h"
#include "os/token_file.h"
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

struct csv_file {
    const char *path; /* NULL: none */
    int fd;
    struct err err; /* why it ended early */
};

/* One that cannot be made is told at once, for who would rather begin again, and at the end. */
static void csv_open(struct csv_file *s, const char *path, const char *head)
{
    *s = (struct csv_file){ .path = path, .fd = -1 };
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

/* One that could not be written is not written any more; the run goes on. */
static void csv_write(struct csv_file *s, struct buf *text)
{
    if (s->fd >= 0 && !s->err.code && text->len)
        (void)!file_write(s->fd, s->path, buf_str(text), text->len, &s->err);
    buf_reset(text);
}

static void csv_close(struct csv_file *s)
{
    if (s->fd >= 0 && close(s->fd) != 0 && !s->err.code)
        (void)err_sys(&s->err, "could not write '%s'", s->path);
    s->fd = -1;
}

/* ---- a run */

struct monitor_run {
    const struct monitor_opts *opts;
    struct monitor_out *out;
    char **argv; /* of the command; NULL: none */
    struct monitor m;
    struct csv_file csv, memory;
    int signals;     /* -1: none */
    bool ended;      /* by a signal, or its time is over */
    pid_t command;   /* 0: none, or it has ended */
    int wait_status; /* of the command */
    int not_run;     /* exit status, as a shell's, of a command that could not be started; 0 */
    const struct spec *spec; /* NULL: none */
    char *host;              /* of the agent; NULL: this machine */
    char token[TOKEN_FILE_BYTES_MAX];
};

/* What intervals left to be written and said; the main thread's. */
static void flush_files(struct monitor_run *r)
{
    struct buf csv = { 0 }, memory = { 0 }, lines = { 0 };

    pthread_mutex_lock(&r->m.lock);
    csv = r->m.csv;
    memory = r->m.memory_csv;
    lines = r->m.lines;
    r->m.csv = r->m.memory_csv = r->m.lines = (struct buf){ 0 };
    pthread_mutex_unlock(&r->m.lock);
    csv_write(&r->csv, &csv);
    csv_write(&r->memory, &memory);
    if (lines.len)
        (void)fwrite(buf_str(&lines), 1, lines.len, stderr);
    buf_release(&csv);
    buf_release(&memory);
    buf_release(&lines);
}

/* ---- the command */

static enum rc start_command(struct monitor_run *r, struct err *err)
{
    int tell[2], why = 0;
    ssize_t n;

    if (!r->argv)
        return RC_OK;
    if (pipe2(tell, O_CLOEXEC) != 0)
        return err_sys(err, "could not make a pipe");
    r->command = fork();
    if (r->command == 0) {
        sigset_t none;
        sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)signal(SIGPIPE, SIG_DFL); /* what is ignored stays so behind exec */
        (void)signal(SIGXFSZ, SIG_DFL);
        (void)execvp(r->argv[0], r->argv);
        why = errno;
        (void)!write(tell[1], &why, sizeof(why));
        _exit(why == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_RUN);
    }
    close(tell[1]);
    if (r->command < 0) {
        close(tell[0]);
        r->command = 0;
        return err_sys(err, "could not start '%s'", r->argv[0]);
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
    (void)err_sys(err, "could not run '%s'", r->argv[0]);
    r->not_run = why == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_RUN;
    return err->code;
}

/* A terminal's own go to the command as well; all others are passed on. */
static void on_signal(struct monitor_run *r, const struct signalfd_siginfo *si)
{
    if (!r->command)
        r->ended = true;
    else if (si->ssi_code != SI_KERNEL)
        (void)kill(r->command, (int)si->ssi_signo);
}

/* True while there is something to watch. */
static bool turn_once(struct monitor_run *r, int64_t begun_ms)
{
    struct pollfd p = { .fd = r->signals, .events = POLLIN };
    struct signalfd_siginfo si;

    if (poll(&p, 1, MONITOR_TURN_MS) == 1 &&
        read(r->signals, &si, sizeof(si)) == (ssize_t)sizeof(si))
        on_signal(r, &si);
    flush_files(r);
    if (r->command && waitpid(r->command, &r->wait_status, WNOHANG) == r->command)
        r->command = 0;
    if (r->argv && !r->command)
        return false;
    return !r->ended &&
           !(r->opts->duration_ms && clock_mono_ms() - begun_ms >= r->opts->duration_ms);
}

/* The command outlives --duration: its report waits for its end. */
static void await_command(struct monitor_run *r)
{
    while (r->command) {
        r->ended = true;
        (void)turn_once(r, 0);
    }
}

/* ---- sources */

static void on_second(void *arg, struct telemetry *t, int64_t time_ns)
{
    monitor_second(arg, t, time_ns);
}

static enum rc watch_here(struct monitor_run *r, struct err *err)
{
    const char *of_spec[ARGS_REPEAT_MAX + 1] = { NULL };
    struct agent_opts o = { .port = -1,
                            .metrics_port = -1,
                            .period_ms = MONITOR_PERIOD_MS,
                            .no_gpu = r->opts->no_gpu,
                            .scrape = r->opts->scrape.items,
                            .on_second = on_second,
                            .arg = &r->m };
    int64_t begun = clock_mono_ms();
    struct agent *a = NULL;
    struct root *root = NULL;

    enum rc rc = root_open(r->opts->root, &root, err);

    r->m.from_ns = clock_unix_ms() * 1000000; /* the kernel's log has more */
    if (r->spec && !r->opts->scrape.count) {
        for (size_t i = 0; i < r->spec->agent.scrape.count && i < ARGS_REPEAT_MAX; i++)
            of_spec[i] = r->spec->agent.scrape.items[i];
        o.scrape = of_spec;
    }
    o.root = root;
    o.gpu.nvml = r->opts->gpu_library ? r->opts->gpu_library : getenv("STOKER_NVML_LIB");
    (void)str_copy(r->m.source, sizeof(r->m.source), "agent");
    if (gethostname(r->m.host, sizeof(r->m.host) - 1) != 0)
        r->m.host[0] = '\0';
    if (rc == RC_OK)
        rc = agent_start(&o, &a, err);
    if (rc == RC_OK)
        rc = start_command(r, err);
    while (rc == RC_OK && turn_once(r, begun))
        ;
    agent_stop(a);
    if (rc == RC_OK)
        await_command(r);
    if (root)
        root_close(root);
    return rc;
}

static enum rc watch_remote(struct monitor_run *r, struct err *err)
{
    int64_t begun = clock_mono_ms(), next = 0,
            every = r->m.interval_ns / 1000000 < MONITOR_REMOTE_MS ? r->m.interval_ns / 1000000
                                                                   : MONITOR_REMOTE_MS;
    const char *token_file = r->opts->token_file ? r->opts->token_file
                             : r->spec           ? r->spec->agent.token_file
                                                 : NULL;
    const struct web_trust trust = { r->opts->ca_file, r->opts->no_verify };
    struct remote *remote = NULL;
    int failed = 0;
    bool more = true;
    enum rc rc = RC_OK;

    (void)str_copy(r->m.source, sizeof(r->m.source), "remote");
    if (token_file)
        rc = token_file_read(token_file, r->token, sizeof(r->token), err);
    if (rc == RC_OK)
        rc = remote_open(r->host, token_file ? r->token : NULL, &trust, &r->m, &remote, err);
    if (rc == RC_OK)
        rc = start_command(r, err);
    next = clock_mono_ms() + every;
    while (rc == RC_OK && more) {
        struct err why = { 0 };
        more = turn_once(r, begun);
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
    struct monitor_run *r;
    int64_t first_ns;
};

static bool on_replayed(void *arg, struct telemetry *t, int64_t time_ns)
{
    struct replaying *p = arg;

    p->first_ns = p->first_ns ? p->first_ns : time_ns;
    if (p->r->opts->duration_ms && time_ns - p->first_ns > p->r->opts->duration_ms * 1000000)
        return false;
    monitor_second(&p->r->m, t, time_ns);
    flush_files(p->r);
    return true;
}

static enum rc watch_recording(struct monitor_run *r, struct err *err)
{
    struct replaying p = { .r = r };
    struct recording_opts o = {
        .path = r->opts->replay, .into = telemetry_new(0), .on_second = on_replayed, .arg = &p
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

static enum rc write_plot(struct monitor_run *r, struct err *err)
{
    struct buf svg = { 0 };
    enum rc rc = RC_OK;

    if (r->opts->svg) {
        monitor_plot(&r->m, &svg);
        rc = write_whole(r->opts->svg, &svg, err);
    }
    buf_release(&svg);
    return rc;
}

/* To a file, to standard output, or, beside a command's own output, to standard error. */
static enum rc write_report(struct monitor_run *r, struct err *err)
{
    bool aside = r->argv && !r->opts->output;
    struct term none = { 0 };
    struct buf text = { 0 };
    enum rc rc = RC_OK;

    if (r->opts->json)
        monitor_json(&r->m, &text);
    else
        monitor_text(&r->m,
                     r->opts->output ? &none
                     : aside         ? r->out->err_term
                                     : r->out->out_term,
                     r->opts->full, &text);
    if (r->opts->output)
        rc = write_whole(r->opts->output, &text, err);
    else if (aside)
        (void)fwrite(buf_str(&text), 1, text.len, stderr);
    else
        buf_add(r->out->out, buf_str(&text), text.len);
    buf_release(&text);
    return rc;
}

/* The first fault of a file, after all that could be written was.  It is a failure whatever its
 * cause: a folder that is not there is no missing device. */
static enum rc finish_run(struct monitor_run *r, struct err *err)
{
    struct err plot = { 0 }, report = { 0 };
    const struct err *faults[] = { &r->csv.err, &r->memory.err, &plot, &report };

    monitor_end(&r->m);
    flush_files(r);
    csv_close(&r->csv);
    csv_close(&r->memory);
    (void)!write_plot(r, &plot);
    (void)!write_report(r, &report);
    if (r->argv)
        r->out->status = WIFSIGNALED(r->wait_status) ? STATUS_SIGNAL + WTERMSIG(r->wait_status)
                                                     : WEXITSTATUS(r->wait_status);
    if (!r->out->status && r->opts->fail_on_target && targets_failed(&r->m))
        r->out->status = 1;
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

enum rc monitor_check(struct monitor_opts *o, bool has_command, struct err *err)
{
    uint64_t interval = MONITOR_INTERVAL_MS_DEFAULT, duration = 0;

    if (time_of("--interval", o->interval, &interval, err) ||
        time_of("--duration", o->duration, &duration, err))
        return err->code;
    if (interval < MONITOR_INTERVAL_MS_MIN || interval > MONITOR_DURATION_MS_MAX)
        return err_set(err, RC_USAGE, "--interval '%s' is not between 1s and 31d", o->interval);
    if ((o->duration && !duration) || duration > MONITOR_DURATION_MS_MAX)
        return err_set(err, RC_USAGE, "--duration '%s' is not between 1s and 31d", o->duration);
    if (o->replay && (o->host || has_command))
        return err_set(err, RC_USAGE, "--replay takes neither --host nor a command");
    if (o->component && !o->file)
        return err_set(err, RC_USAGE, "--component is one of a spec: give --file");
    if (!duration && !o->replay && !has_command)
        duration = MONITOR_DURATION_MS_DEFAULT;
    o->interval_ms = (int64_t)interval;
    o->duration_ms = (int64_t)duration;
    return RC_OK;
}

/* ---- the whole */

static enum rc watch_run(struct monitor_run *r, struct err *err)
{
    /* a command has uses of its own for the last two */
    static const int list[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
    enum rc rc = RC_OK;

    csv_open(&r->csv, r->opts->csv, monitor_csv_head);
    csv_open(&r->memory, r->opts->memory_csv, monitor_memory_head);
    if (!r->opts->replay)
        rc = signals_watch(list, ARRAY_SIZE(list) - (r->argv ? 0 : 2), &r->signals, err);
    if (rc == RC_OK)
        rc = r->opts->replay ? watch_recording(r, err)
             : r->host       ? watch_remote(r, err)
                             : watch_here(r, err);
    if (rc == RC_OK)
        rc = finish_run(r, err);
    if (rc != RC_OK && r->not_run) {
        (void)fprintf(stderr, "stoker: %s\n", err->msg);
        r->out->status = r->not_run;
        rc = RC_OK;
    }
    csv_close(&r->csv);
    csv_close(&r->memory);
    if (r->signals >= 0)
        close(r->signals);
    return rc;
}

enum rc monitor_run(const struct monitor_opts *o, const struct spec *spec, char **command,
                    struct monitor_out *out, struct err *err)
{
    struct monitor_run *r = xcalloc(1, sizeof(*r));
    enum rc rc = RC_OK;

    *r =
        (struct monitor_run){ .opts = o, .spec = spec, .argv = command, .out = out, .signals = -1 };
    monitor_init(&r->m, o->interval_ms * 1000000);
    r->m.want_csv = o->csv != NULL;
    r->m.want_memory = o->memory_csv != NULL;
    r->m.want_lines = !o->quiet;
    if (!o->replay)
        rc = monitor_spec_host(o, spec, &r->host, err);
    if (rc == RC_OK && o->token_file && !r->host)
        rc = err_set(err, RC_USAGE, "--token-file is for --host");
    if (rc == RC_OK)
        rc = targets_fill(&r->m, o, spec, err);
    if (rc == RC_OK) {
        monitor_windows(&r->m);
        rc = watch_run(r, err);
    }
    monitor_release(&r->m);
    free(r->host);
    free(r);
    return rc;
}
