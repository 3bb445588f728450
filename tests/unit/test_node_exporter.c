/* SPDX-License-Identifier: MIT */
/* The host's sources beside Debian's prometheus-node-exporter, on the machine the test runs on.
 *
 * Its text is read between two samples of ours: a counter of its must lie between ours, and what
 * does not change (sizes, limits, speeds) must be equal.  No clock decides.  NODE_EXPORTER names
 * the program; without one in PATH there is nothing to compare with, which the test says. */
#include "host.h"

#include "base/buf.h"
#include "telemetry/prom/prom.h"
#include "telemetry/telemetry_int.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

enum { REPLY_MAX = 8 << 20, SHARED_MIN = 60 };

static int listen_free(struct sockaddr_in *at)
{
    socklen_t len = sizeof(*at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    assert_int_equal(bind(fd, (struct sockaddr *)at, sizeof(*at)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)at, &len), 0);
    return fd;
}

static pid_t exporter_start(struct sockaddr_in *at)
{
    const char *program = getenv("NODE_EXPORTER");
    int fd = listen_free(at);
    char listen[64];
    pid_t pid;

    close(fd);
    snprintf(listen, sizeof(listen), "--web.listen-address=127.0.0.1:%d", ntohs(at->sin_port));
    pid = fork();
    assert_true(pid >= 0);
    if (pid)
        return pid;
    if (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout))
        _exit(127);
    execlp(program ? program : "prometheus-node-exporter", "prometheus-node-exporter", listen,
           "--collector.mountstats", "--collector.meminfo_numa", (char *)NULL);
    _exit(127);
}

/* The body of GET /metrics; false: nobody listens (yet). */
static bool exporter_ask(const struct sockaddr_in *at, struct buf *out)
{
    static const char get[] = "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char piece[4096];
    ssize_t n;

    buf_reset(out);
    if (connect(fd, (const struct sockaddr *)at, sizeof(*at))) {
        close(fd);
        return false;
    }
    assert_int_equal(write(fd, get, strlen(get)), strlen(get));
    while ((n = read(fd, piece, sizeof(piece))) > 0 && out->len < REPLY_MAX)
        buf_add(out, piece, (size_t)n);
    close(fd);
    return strstr(buf_str(out), "\r\n\r\n") != NULL;
}

struct ours {
    void *states[32];
    struct host h;
};

static void ours_sample(struct ours *o, int64_t now_ns)
{
    for (size_t i = 0; collectors[i]; i++)
        collectors[i]->sample(o->states[i], o->h.t, now_ns);
}

/* In any order of labels. */
static double theirs(struct telemetry *t, const struct telemetry_series *want)
{
    char name[TELEMETRY_NAME_MAX];

    snprintf(name, sizeof(name), "app_%s", want->metric->prom);
    for (size_t i = 0; i < telemetry_count(t); i++) {
        const struct telemetry_series *s = telemetry_get(t, (uint32_t)i);
        size_t same = 0;

        if (!str_eq(s->metric->prom, name) || s->label_count != want->label_count)
            continue;
        for (size_t a = 0; a < s->label_count; a++)
            for (size_t b = 0; b < s->label_count; b++)
                same += str_eq(s->labels[a].name, want->labels[b].name) &&
                        str_eq(s->labels[a].value, want->labels[b].value);
        if (same == s->label_count)
            return telemetry_value(t, (uint32_t)i);
    }
    return (double)NAN;
}

static bool is_fixed(const char *prom)
{
    static const char *const fixed[] = {
        "node_memory_MemTotal_bytes",
        "node_memory_SwapTotal_bytes",
        "node_memory_Hugepagesize_bytes",
        "node_boot_time_seconds",
        "node_filefd_maximum",
        "node_network_speed_bytes",
        "node_network_mtu_bytes",
        "node_network_up",
        "node_filesystem_size_bytes",
        "node_filesystem_readonly",
        "node_memory_VmallocTotal_bytes",
        "node_uname_info",
    };

    for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
        if (str_eq(prom, fixed[i]))
            return true;
    return false;
}

/* How many series both have; each that both have must agree. */
static size_t compare(struct ours *o, const double *before, struct telemetry *their)
{
    size_t shared = 0;

    for (size_t i = 0; i < telemetry_count(o->h.t); i++) {
        const struct telemetry_series *s = telemetry_get(o->h.t, (uint32_t)i);
        double now = telemetry_value(o->h.t, (uint32_t)i), v;

        if (isnan(now) || isnan(before[i]) || !s->metric->prom ||
            !str_starts(s->metric->prom, "node_"))
            continue;
        v = theirs(their, s);
        if (isnan(v))
            continue;
        shared++;
        if (is_fixed(s->metric->prom) && v != now)
            fail_msg("%s: %.17g instead of %.17g", s->metric->prom, now, v);
        /* ticks and milliseconds become seconds by another rounding */
        if (s->metric->kind == TELEMETRY_COUNTER &&
            (v < before[i] - 1e-6 * fabs(v) || v > now + 1e-6 * fabs(v)))
            fail_msg("%s{%s}: %.17g is not between %.17g and %.17g", s->metric->prom,
                     s->label_count ? s->labels[0].value : "", v, before[i], now);
    }
    return shared;
}

TEST(beside_node_exporter)
{
    static double before[TELEMETRY_SERIES_DEFAULT];
    struct telemetry *their = telemetry_new(TELEMETRY_SERIES_MAX);
    struct sockaddr_in at;
    struct buf text = { 0 };
    struct ours o;
    pid_t pid = exporter_start(&at);
    bool up = false;

    for (int i = 0; i < 600 && !up && !waitpid(pid, NULL, WNOHANG); i++) {
        struct timespec wait = { .tv_nsec = 50000000 };

        nanosleep(&wait, NULL);
        up = exporter_ask(&at, &text);
    }
    if (!up) {
        print_message("# SKIP prometheus-node-exporter is not installed\n");
        buf_release(&text);
        telemetry_free(their);
        return;
    }
    host_open(&o.h, "/");
    for (size_t i = 0; collectors[i]; i++)
        o.states[i] = collectors[i]->open(o.h.root, o.h.t);
    ours_sample(&o, SECOND);
    telemetry_copy(o.h.t, before, TELEMETRY_SERIES_DEFAULT);
    CHECK(exporter_ask(&at, &text));
    ours_sample(&o, 2 * SECOND);
    assert_int_equal(
        prom_parse_take(their, telemetry_source(their, "x"), strstr(text.data, "\r\n\r\n") + 4,
                        strlen(strstr(text.data, "\r\n\r\n") + 4), SECOND, NULL, 0, NULL),
        RC_OK);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    print_message("# %zu series in both\n", compare(&o, before, their));
    CHECK(compare(&o, before, their) >= SHARED_MIN);
    for (size_t i = 0; collectors[i]; i++)
        collectors[i]->close(o.states[i]);
    host_close(&o.h);
    buf_release(&text);
    telemetry_free(their);
}

TEST_MAIN(cmocka_unit_test(beside_node_exporter))
