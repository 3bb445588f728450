/* SPDX-License-Identifier: MIT */
/* Delivery of alerts to a stub that takes them, refuses them, fails, is slow or is not there; to
 * a command; and a queue that is too long.  No test is decided by how long something takes: each
 * waits for what must happen at last. */
#include "test.h"

#include "alert_sim.h"
#include "stub_server.h"

#include "base/log.h"
#include "base/str.h"
#include "base/text/json.h"
#include "os/clock.h"

#include <sys/stat.h>

enum { PATIENCE_MS = 60000, SEEN_MAX = 64 };
enum mode { M_OK, M_FAIL, M_REFUSE, M_REFUSE_MANY, M_SILENT, M_BUSY };

/* What the stub was sent and took; under its lock. */
static struct {
    pthread_mutex_t lock;
    size_t count, alerts, firing, resolved;
    char body[SEEN_MAX][8192], head[SEEN_MAX][512];
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER };

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;

    for (const char *p = text; (p = strstr(p, what)); p++)
        n++;
    return n;
}

static void note(const char *request)
{
    const char *body = strstr(request, "\r\n\r\n") + 4;

    pthread_mutex_lock(&seen.lock);
    if (seen.count < SEEN_MAX) {
        (void)str_copy(seen.head[seen.count], sizeof(seen.head[0]), request);
        (void)str_copy(seen.body[seen.count], sizeof(seen.body[0]), body);
    }
    seen.count++;
    seen.alerts += count_of(body, "\"startsAt\"");
    seen.firing += count_of(body, "\"status\":\"firing\"");
    seen.resolved += count_of(body, "\"status\":\"resolved\"");
    pthread_mutex_unlock(&seen.lock);
}

static bool answer(struct stub *s, int fd, const char *request, int nth)
{
    (void)nth;
    switch ((enum mode)atomic_load(&s->mode)) {
    case M_FAIL:
        return stub_write(fd, "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n");
    case M_BUSY:
        return stub_write(fd, "HTTP/1.1 429 Slow\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n");
    case M_REFUSE:
        return stub_write(fd, "HTTP/1.1 400 No\r\nContent-Length: 3\r\n\r\nbad");
    case M_REFUSE_MANY:
        if (count_of(strstr(request, "\r\n\r\n"), "\"startsAt\"") > 1)
            return stub_write(fd, "HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n");
        break;
    case M_SILENT:
        return true;
    case M_OK:
        break;
    }
    note(request);
    return stub_write(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

static void forget_seen(void)
{
    pthread_mutex_lock(&seen.lock);
    seen.count = seen.alerts = seen.firing = seen.resolved = 0;
    pthread_mutex_unlock(&seen.lock);
}

static size_t seen_alerts(void)
{
    pthread_mutex_lock(&seen.lock);
    size_t n = seen.alerts;
    pthread_mutex_unlock(&seen.lock);
    return n;
}

/* ---- a sender, a table, an alert to send */
static const struct alert_rule rule = { .name = "GpuHot",
                                        .metric = "gpu.temp",
                                        .threshold = 85,
                                        .unit = "C",
                                        .severity = ALERT_CRITICAL,
                                        .summary = "hot",
                                        .why = "it \"melts\"",
                                        .runbook = "http://runbook/hot" };
struct box {
    struct stub stub;
    struct telemetry *t;
    uint32_t id;
    struct alert_sender *s;
    struct alert_targets to;
    char url[64];
};

static void box_start(struct box *b, enum mode mode)
{
    struct telemetry_label l[] = { { "gpu", "3" }, { "pod", "" }, { "alertname", "no" } };

    memset(b, 0, sizeof(*b));
    forget_seen();
    stub_start(&b->stub, answer);
    atomic_store(&b->stub.mode, mode);
    b->t = telemetry_new(0);
    b->id = telemetry_series(b->t, telemetry_source(b->t, "x"), telemetry_metric("gpu.temp"), l, 3);
    snprintf(b->url, sizeof(b->url), "http://127.0.0.1:%d", b->stub.port);
    b->to = (struct alert_targets){ .hostname = "node1",
                                    .generator = "http://node1:8090/",
                                    .backoff_ms = 5,
                                    .resend_ms = 3600000,
                                    .timeout_ms = 30000 };
}

static void box_open(struct box *b)
{
    assert_int_equal(alert_sender_new(&b->to, &b->s, NULL), RC_OK);
}

static void box_end(struct box *b)
{
    alert_sender_free(b->s, 0);
    stub_stop(&b->stub);
    telemetry_free(b->t);
}

static void add(struct box *b, enum alert_state state, int i)
{
    struct alert_active x = { .rule = &rule,
                              .series = b->id,
                              .state = state,
                              .value = 90,
                              .fired_ns = BEGIN_NS + i * SEC,
                              .summary = "GPU 3 at 90" };

    x.resolved_ns = state == ALERT_RESOLVED ? BEGIN_NS + (i + 60) * SEC : 0;
    alert_sender_add(b->s, b->t, &x);
}

static struct alert_sender_stats stats(struct box *b)
{
    struct alert_sender_stats st;

    alert_sender_stats(b->s, &st);
    return st;
}

#define WAIT_FOR(cond)                                                                             \
    for (int64_t until_ = clock_mono_ms() + PATIENCE_MS; !(cond); usleep(2000))                    \
        if (clock_mono_ms() > until_)                                                              \
    fail_msg("never: %s", #cond)

TEST(alertmanager_gets_what_its_api_wants)
{
    AUTO(arena_release) struct arena a = { 0 };
    struct json *v = NULL;
    const struct json *x;
    struct box b;

    box_start(&b, M_OK);
    b.to.alertmanager = b.url;
    box_open(&b);
    add(&b, ALERT_PENDING, 0); /* not for others */
    add(&b, ALERT_FIRING, 0);
    WAIT_FOR(seen_alerts() == 1);
    add(&b, ALERT_RESOLVED, 0);
    WAIT_FOR(seen_alerts() == 2);
    WAIT_FOR(stats(&b).sent == 2 && stats(&b).waiting == 0);
    CHECK(str_starts(seen.head[0], "POST /api/v2/alerts HTTP/1.1\r\n"));
    CHECK(strstr(seen.head[0], "Content-Type: application/json\r\n"));
    CHECK(!json_parse(&a, seen.body[0], strlen(seen.body[0]), &v, NULL));
    CHECK(v->count == 1 && (x = json_at(v, 0)));
    CHECK(str_eq(json_str(json_get(json_get(x, "labels"), "alertname")), "GpuHot"));
    CHECK(str_eq(json_str(json_get(json_get(x, "labels"), "severity")), "critical"));
    CHECK(str_eq(json_str(json_get(json_get(x, "labels"), "hostname")), "node1"));
    CHECK(str_eq(json_str(json_get(json_get(x, "labels"), "gpu")), "3"));
    CHECK(!json_get(json_get(x, "labels"), "pod")); /* it takes no empty labels */
    CHECK(str_eq(json_str(json_get(json_get(x, "annotations"), "summary")), "GPU 3 at 90"));
    CHECK(str_eq(json_str(json_get(json_get(x, "annotations"), "description")), "it \"melts\""));
    CHECK(str_eq(json_str(json_get(x, "startsAt")), "2026-09-21T14:13:20.000Z"));
    CHECK(str_eq(json_str(json_get(x, "generatorURL")), "http://node1:8090/"));
    CHECK(!json_get(x, "status") && json_get(x, "endsAt"));
    CHECK(!json_parse(&a, seen.body[1], strlen(seen.body[1]), &v, NULL));
    CHECK(str_eq(json_str(json_get(json_at(v, 0), "endsAt")), "2026-09-21T14:14:20.000Z"));
    box_end(&b);
}

TEST(alertmanager_is_told_again_while_it_fires)
{
    AUTO(box_end) struct box b;

    box_start(&b, M_OK);
    b.to.alertmanager = b.url;
    b.to.resend_ms = 20;
    box_open(&b);
    add(&b, ALERT_FIRING, 0);
    WAIT_FOR(seen_alerts() >= 5);
    CHECK(stats(&b).sent == 1); /* what is said again is not counted */
    add(&b, ALERT_RESOLVED, 0);
    WAIT_FOR(stats(&b).sent == 2);
    forget_seen();
    usleep(100000);
    CHECK(seen_alerts() == 0);
}

TEST(webhook_and_retries_lose_nothing)
{
    enum { MANY = 50 };
    AUTO(box_end) struct box b;

    box_start(&b, M_FAIL);
    b.to.webhook = b.url;
    box_open(&b);
    for (int i = 0; i < MANY; i++)
        add(&b, i % 2 ? ALERT_RESOLVED : ALERT_FIRING, i);
    WAIT_FOR(atomic_load(&b.stub.requests) > 3);
    CHECK(stats(&b).waiting == MANY && stats(&b).sent == 0);
    atomic_store(&b.stub.mode, M_BUSY);
    usleep(20000);
    atomic_store(&b.stub.mode, M_OK);
    WAIT_FOR(stats(&b).sent == MANY);
    CHECK(seen.firing == MANY / 2 && seen.resolved == MANY / 2);
    CHECK(stats(&b).failed == 0 && stats(&b).dropped == 0 && stats(&b).waiting == 0);
    for (int i = 0; i < MANY; i++) { /* in their order */
        char when[40];

        snprintf(when, sizeof(when), "\"startsAt\":\"2026-09-21T14:%02d:%02d", 13 + (20 + i) / 60,
                 (20 + i) % 60);
        CHECK(strstr(seen.body[i], when));
    }
    CHECK(str_starts(seen.head[0], "POST / HTTP/1.1\r\n") && strstr(seen.body[0], "\"value\":90"));
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    (void)fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* Read for each post: one that comes later, and one that is changed, counts at once. */
TEST(webhook_shows_its_token)
{
    char path[] = "/tmp/stoker-token-XXXXXX";
    int fd = mkstemp(path);
    struct box b;

    CHECK(fd >= 0);
    close(fd);
    box_start(&b, M_OK);
    b.to.webhook = b.to.alertmanager = b.url;
    b.to.webhook_token_file = path; /* empty */
    box_open(&b);
    add(&b, ALERT_FIRING, 0);
    WAIT_FOR(seen_alerts() == 1); /* Alertmanager's, without one */
    WAIT_FOR(stats(&b).sent == 1 && stats(&b).waiting == 1);
    CHECK(!strstr(seen.head[0], "Authorization"));
    write_text(path, " first \n");
    WAIT_FOR(seen_alerts() == 2);
    CHECK(strstr(seen.head[1], "\r\nAuthorization: Bearer first\r\n"));
    write_text(path, "second");
    add(&b, ALERT_RESOLVED, 0);
    WAIT_FOR(seen_alerts() == 4);
    CHECK(!strstr(seen.head[2], "Bearer second") != !strstr(seen.head[3], "Bearer second"));
    box_end(&b);
    unlink(path);
}

TEST(what_is_refused_does_not_hold_up_the_rest)
{
    AUTO(box_end) struct box b;

    box_start(&b, M_REFUSE);
    b.to.webhook = b.url;
    box_open(&b);
    add(&b, ALERT_FIRING, 0);
    WAIT_FOR(stats(&b).failed == 1);
    atomic_store(&b.stub.mode, M_OK);
    add(&b, ALERT_RESOLVED, 0);
    WAIT_FOR(stats(&b).sent == 1);
}

TEST(a_refused_batch_goes_one_by_one)
{
    AUTO(box_end) struct box b;

    box_start(&b, M_FAIL);
    b.to.alertmanager = b.url;
    box_open(&b);
    for (int i = 0; i < 10; i++)
        add(&b, i % 2 ? ALERT_RESOLVED : ALERT_FIRING, i);
    atomic_store(&b.stub.mode, M_REFUSE_MANY);
    WAIT_FOR(stats(&b).sent == 10);
    CHECK(stats(&b).failed == 0);
}

TEST(a_silent_receiver_holds_up_nobody_else)
{
    char dir[] = "/tmp/stoker-alert-XXXXXX", command[256], path[64];
    struct box b;
    struct stat st;

    CHECK(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/out", dir);
    snprintf(command, sizeof(command), "cat >>%s; echo >>%s", path, path);
    box_start(&b, M_SILENT);
    b.to.webhook = b.url;
    b.to.command = command;
    b.to.timeout_ms = 20000;
    box_open(&b);
    add(&b, ALERT_FIRING, 0);
    add(&b, ALERT_RESOLVED, 0);
    WAIT_FOR(stats(&b).sent == 2); /* the command's */
    CHECK(stats(&b).waiting == 2); /* the webhook's */
    CHECK(!stat(path, &st) && st.st_size > 100);
    box_end(&b); /* although a reply is waited for */
    unlink(path);
    rmdir(dir);
}

TEST(nobody_there_at_first)
{
    AUTO(box_end) struct box b;
    int port;

    box_start(&b, M_OK);
    port = b.stub.port;
    stub_stop(&b.stub);
    b.to.alertmanager = b.url;
    box_open(&b);
    add(&b, ALERT_FIRING, 0);
    usleep(50000);
    CHECK(stats(&b).waiting == 1 && stats(&b).sent == 0);
    stub_start_at(&b.stub, port, answer);
    WAIT_FOR(stats(&b).sent == 1);
}

TEST(a_full_queue_drops_the_oldest_and_counts)
{
    enum { TOO_MANY = ALERT_QUEUE_MAX + 100 };
    struct alert_sender_stats st;
    AUTO(box_end) struct box b;

    box_start(&b, M_FAIL);
    b.to.webhook = b.url;
    b.to.backoff_ms = 20000;
    box_open(&b);
    for (int i = 0; i < TOO_MANY; i++)
        add(&b, ALERT_FIRING, i);
    st = stats(&b);
    CHECK(st.waiting == ALERT_QUEUE_MAX && st.dropped == 100 && st.sent == 0);
}

TEST(the_end_waits_for_what_is_queued)
{
    AUTO(box_end) struct box b;

    box_start(&b, M_OK);
    b.to.alertmanager = b.url;
    box_open(&b);
    for (int i = 0; i < 200; i++)
        add(&b, i % 2 ? ALERT_RESOLVED : ALERT_FIRING, i);
    alert_sender_free(b.s, PATIENCE_MS);
    b.s = NULL;
    CHECK(seen_alerts() == 200);
}

TEST(a_command_that_fails_is_tried_again)
{
    char dir[] = "/tmp/stoker-alert-XXXXXX", command[256], path[64];
    struct box b;

    CHECK(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/n", dir);
    /* fails until it has been called three times; reads the whole of its input */
    snprintf(command, sizeof(command),
             "cat >/dev/null; echo x >>%s; test $(wc -l <%s) -ge 3 || { echo no; exit 3; }", path,
             path);
    box_start(&b, M_OK);
    b.to.command = command;
    box_open(&b);
    add(&b, ALERT_FIRING, 0);
    WAIT_FOR(stats(&b).sent == 1);
    box_end(&b);
    unlink(path);
    rmdir(dir);
}

TEST(addresses_are_checked_at_once)
{
    struct alert_targets to = { .alertmanager = "ftp://x" };
    struct alert_sender *s = NULL;
    struct err err = { 0 };

    CHECK(alert_sender_new(&to, &s, &err) == RC_USAGE && !s);
    CHECK(strstr(err.msg, "Alertmanager 'ftp://x'"));
    to = (struct alert_targets){ .log = true };
    CHECK(!alert_sender_new(&to, &s, NULL)); /* the log alone */
    alert_sender_free(s, 0);
    alert_sender_free(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alertmanager_gets_what_its_api_wants),
        cmocka_unit_test(alertmanager_is_told_again_while_it_fires),
        cmocka_unit_test(webhook_shows_its_token),
        cmocka_unit_test(webhook_and_retries_lose_nothing),
        cmocka_unit_test(what_is_refused_does_not_hold_up_the_rest),
        cmocka_unit_test(a_refused_batch_goes_one_by_one),
        cmocka_unit_test(a_silent_receiver_holds_up_nobody_else),
        cmocka_unit_test(nobody_there_at_first),
        cmocka_unit_test(a_full_queue_drops_the_oldest_and_counts),
        cmocka_unit_test(the_end_waits_for_what_is_queued),
        cmocka_unit_test(a_command_that_fails_is_tried_again),
        cmocka_unit_test(addresses_are_checked_at_once),
    };

    log_level = LOG_QUIET;
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
