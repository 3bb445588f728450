/* SPDX-License-Identifier: MIT */
/* test_agent_api: the JSON of the agent's API, byte by byte, through a real server; its limits
 * and its live stream. */
#include "http_box.h"

#include "agent/api/agent_api_int.h"
#include "api_fakes.h"
#include "base/text/json.h"
#include "telemetry/telemetry_int.h"

#include <math.h>
#include <unistd.h>

static const struct alert_rule rule = { .name = "GpuHot",
                                        .metric = "gpu.temp",
                                        .threshold = 80,
                                        .severity = ALERT_CRITICAL,
                                        .why = "near its slowdown" };

static int64_t fixed_now(void)
{
    return 1700000000 * NS;
}

struct node {
    struct telemetry *t;
    struct agent_api *api;
    struct http_server *s;
    int port;
};

static void set(struct telemetry *t, unsigned source, const char *metric, const char *gpu,
                const char *pid, double v)
{
    struct telemetry_label l[] = { { "gpu", gpu }, { "pid", pid } };

    telemetry_set(
        t, telemetry_series(t, source, telemetry_metric(metric), l, (gpu != NULL) + (pid != NULL)),
        v);
}

static void fill(struct node *n, double load)
{
    unsigned gpu = telemetry_source(n->t, "gpu"), host = telemetry_source(n->t, "host");
    struct telemetry_label model[] = { { "model", "tiny" }, { "device", "cpu" } };

    telemetry_begin(n->t, gpu, fixed_now() - NS);
    set(n->t, gpu, "gpu.util", "0", NULL, load);
    set(n->t, gpu, "gpu.util", "1", NULL, 3.25);
    set(n->t, gpu, "gpu.temp", "0", NULL, 61);
    set(n->t, gpu, "process.gpu.memory", "0", "77", 4096);
    set(n->t, gpu, "process.gpu.util", "0", "77", 12);
    telemetry_end(n->t);
    telemetry_begin(n->t, host, fixed_now());
    set(n->t, host, "host.load1", NULL, NULL, 0.5);
    telemetry_set(n->t, telemetry_series(n->t, host, telemetry_metric("model.queue"), model, 2), 4);
    telemetry_end(n->t);
}

static void node_open(struct node *n, struct api_opts *o)
{
    struct http_opts h = { 0 };
    struct err err = { 0 };

    memset(&fake, 0, sizeof(fake));
    memset(n, 0, sizeof(*n));
    fake.table = n->t = telemetry_new(0);
    fill(n, 95);
    o->telemetry = n->t;
    o->host = "n1";
    o->now_ns = fixed_now;
    if (api_new(o, &n->api, &err))
        fail_msg("%s", err.msg);
    h.routes = api_routes(n->api, &h.route_count);
    if (http_server_new(&h, &n->s, &err) || http_listen(n->s, "127.0.0.1", 0, &n->port, &err) ||
        http_start(n->s, &err))
        fail_msg("%s", err.msg);
}

static void node_close(struct node *n)
{
    http_server_free(n->s);
    api_free(n->api);
    telemetry_free(n->t);
}

static struct answer ask(struct node *n, const char *target)
{
    int fd = dial_port(n->port);
    struct buf text = { 0 };
    struct answer a;

    buf_addf(&text, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", target);
    CHECK(fd >= 0 && say(fd, text.data));
    a = hear(fd);
    close(fd);
    buf_release(&text);
    return a;
}

static void expect(struct node *n, const char *target, int status, const char *body)
{
    struct answer a = ask(n, target);

    assert_int_equal(a.status, status);
    assert_string_equal(a.body, body);
    answer_free(&a);
}

static void expect_part(struct node *n, const char *target, int status, const char *part)
{
    struct answer a = ask(n, target);

    if (a.status != status || !strstr(a.body, part))
        fail_msg("%s: %d %s", target, a.status, a.body);
    answer_free(&a);
}

TEST(the_node)
{
    struct api_opts o = { .demo = true, .note = "a tape", .begun_ns = 1699999990 * NS };
    struct node n;

    node_open(&n, &o);
    expect(&n, "/api/v1/node", 200,
           "{\"schema\":\"stoker.node/1\",\"host\":\"n1\",\"version\":\"" STOKER_VERSION
           "\",\"demo\":true,\"note\":\"a tape\",\"serve_url\":null,\"time_ms\":1700000000000,"
           "\"begun_ms\":1699999990000,\"period_ms\":1000,\"gpus\":["
           "{\"gpu\":0,\"labels\":{\"gpu\":\"0\"},\"now\":{"
           "\"gpu.util\":95,\"gpu.prof.tensor\":null,"
           "\"gpu.fb.used\":null,\"gpu.fb.total\":null,"
           "\"gpu.temp\":61,\"gpu.temp.margin\":null,"
           "\"gpu.power\":null,\"gpu.power.limit\":null,"
           "\"gpu.clock.sm\":null,\"gpu.clock.sm.max\":null,"
           "\"gpu.clock_events\":null,\"gpu.pcie.width\":null,"
           "\"gpu.pcie.width.max\":null,\"gpu.lost\":null,"
           "\"gpu.processes\":null,\"gpu.xid.last\":null}},"
           "{\"gpu\":1,\"labels\":{\"gpu\":\"1\"},\"now\":{"
           "\"gpu.util\":3.25,\"gpu.prof.tensor\":null,"
           "\"gpu.fb.used\":null,\"gpu.fb.total\":null,"
           "\"gpu.temp\":null,\"gpu.temp.margin\":null,"
           "\"gpu.power\":null,\"gpu.power.limit\":null,"
           "\"gpu.clock.sm\":null,\"gpu.clock.sm.max\":null,"
           "\"gpu.clock_events\":null,\"gpu.pcie.width\":null,"
           "\"gpu.pcie.width.max\":null,\"gpu.lost\":null,"
           "\"gpu.processes\":null,\"gpu.xid.last\":null}}],"
           "\"sources\":[{\"name\":\"gpu\",\"age_ms\":1000},{\"name\":\"host\",\"age_ms\":0}],"
           "\"history\":null,\"series\":{\"count\":7,\"refused\":0},"
           "\"firing\":{\"critical\":0,\"warning\":0,\"info\":0},\"alerts\":[],\"fleet\":0,"
           "\"jobs\":[],\"story\":null,\"agent\":null}");
    node_close(&n);
}

TEST(series_and_models)
{
    struct api_opts o = { 0 };
    struct node n;

    node_open(&n, &o);
    expect(&n, "/api/v1/series?metric=gpu.util&limit=1&offset=1", 200,
           "{\"schema\":\"stoker.series/1\",\"time_ms\":1700000000000,\"metrics\":{\"gpu.util\":"
           "{\"entity\":\"gpu\",\"kind\":\"gauge\",\"unit\":\"%\","
           "\"help\":\"GPU utilization (in %).\"}},\"series\":[{\"id\":1,\"metric\":\"gpu.util\","
           "\"source\":\"gpu\",\"labels\":{\"gpu\":\"1\"},\"value\":3.25}],\"count\":7,"
           "\"renewed\":0,\"matched\":2}");
    expect_part(&n, "/api/v1/series?metric=gpu.*", 200, "\"matched\":3}");
    expect_part(&n, "/api/v1/series?metric=gpu.util,gpu.te*,gpu.uti,,x", 200, "\"matched\":3}");
    expect_part(&n, "/api/v1/series?entity=host,model", 200, "\"matched\":2}");
    expect_part(&n, "/api/v1/series?entity=hots", 400, "'entity' is a list of host, gpu");
    expect_part(&n, "/api/v1/series?limit=0", 400, "from 1 to 16384");
    expect(&n, "/api/v1/models", 200,
           "{\"schema\":\"stoker.models/1\",\"time_ms\":1700000000000,\"models\":[{\"model\":"
           "\"tiny\",\"series\":[{\"id\":6,\"metric\":\"model.queue\",\"source\":\"host\","
           "\"labels\":{\"model\":\"tiny\",\"device\":\"cpu\"},\"value\":4}]}],\"server\":null}");
    expect(&n, "/api/v1/processes", 200,
           "{\"schema\":\"stoker.gpu-processes/1\",\"time_ms\":1700000000000,\"processes\":["
           "{\"labels\":{\"gpu\":\"0\",\"pid\":\"77\"},\"memory_bytes\":4096,\"util_pct\":12,"
           "\"type\":null,\"cpu_seconds\":null,\"rss_bytes\":null}],"
           "\"gpu_labels\":null,\"jobs\":null}");
    telemetry_doc(n.t, "processes",
                  "{\"processes\":[{\"gpu\":1,\"pid\":77,\"type\":\"compute\"},"
                  "{\"gpu\":0,\"pid\":77,\"type\":\"graphics\"}]}");
    expect_part(&n, "/api/v1/processes", 200, "\"type\":\"graphics\"");
    telemetry_doc(n.t, "jobs", "[{\"job\":1}]");
    expect_part(&n, "/api/v1/processes", 200, "\"jobs\":[{\"job\":1}]}");
    node_close(&n);
}

/* Without a server: the same bodies, and errors as codes. */
TEST(asked_in_this_process)
{
    static const char *const paths[] = { "/api/v1/node", "/api/v1/series?metric=gpu.*",
                                         "/api/v1/processes", "/api/v1/alerts" };
    struct api_opts o = { 0 };
    struct buf body = { 0 };
    struct err err = { 0 };
    struct node n;

    node_open(&n, &o);
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        buf_reset(&body);
        assert_int_equal(api_ask(n.api, paths[i], &body, &err), RC_OK);
        expect(&n, paths[i], 200, buf_str(&body));
    }
    assert_int_equal(api_ask(n.api, "/api/v1/series?limit=0", &body, &err), RC_USAGE);
    err = (struct err){ 0 };
    assert_int_equal(api_ask(n.api, "/api/v1/nod", &body, &err), RC_NODEV);
    assert_string_equal(err.msg, "the API has no '/api/v1/nod'");
    err = (struct err){ 0 };
    assert_int_equal(api_ask(n.api, "/api/v1/topology", &body, &err), RC_NODEV);
    buf_release(&body);
    node_close(&n);
}

/* A process' own use of the host, where it runs on this machine. */
TEST(processes_use_the_host)
{
    struct api_opts o = { 0 };
    struct root *root = NULL;
    struct err err = { 0 };
    char pid[16];
    struct node n;

    CHECK(!root_open(NULL, &root, &err));
    o.root = root;
    node_open(&n, &o);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    telemetry_begin(n.t, telemetry_source(n.t, "gpu"), fixed_now());
    set(n.t, telemetry_source(n.t, "gpu"), "process.gpu.memory", "0", pid, 4096);
    telemetry_end(n.t);
    struct answer a = ask(&n, "/api/v1/processes");
    CHECK(a.status == 200 && !strstr(a.body, "\"rss_bytes\":null") &&
          !strstr(a.body, "\"cpu_seconds\":null"));
    answer_free(&a);
    node_close(&n);
    root_close(root);
}

/* Steps of two seconds over values that are made up in api_fakes.h. */
TEST(history)
{
    struct api_opts o = { .view = { .ring = (struct history *)(void *)&fake } };
    struct node n;

    node_open(&n, &o);
    unsigned net = telemetry_source(n.t, "net");
    telemetry_begin(n.t, net, fixed_now());
    set(n.t, net, "net.rx_bytes", NULL, NULL, 7);
    telemetry_end(n.t);
    expect(&n, "/api/v1/query?metric=gpu.util&from=20&to=30&step=2", 200,
           "{\"schema\":\"stoker.query/1\",\"metric\":\"gpu.util\",\"as\":\"value\","
           "\"from_ms\":20000,\"step_ms\":2000,\"steps\":5,\"series\":["
           "{\"labels\":{\"gpu\":\"0\"},\"min\":[0,2,4,6,9],\"mean\":[0,2.5,4.5,6.5,9],"
           "\"max\":[0,3,5,7,9]},"
           "{\"labels\":{\"gpu\":\"1\"},\"min\":[10,12,14,16,19],\"mean\":[10,12.5,14.5,16.5,19],"
           "\"max\":[10,13,15,17,19]}],\"unit\":\"%\"}");
    expect(&n, "/api/v1/query?metric=gpu.temp&from=20&to=24&step=1", 200,
           "{\"schema\":\"stoker.query/1\",\"metric\":\"gpu.temp\",\"as\":\"value\","
           "\"from_ms\":20000,\"step_ms\":1000,\"steps\":4,\"series\":["
           "{\"labels\":{\"gpu\":\"0\"},\"min\":[20,null,22,23],\"mean\":[20,null,22,23],"
           "\"max\":[20,null,22,23]}],\"unit\":\"C\"}");
    expect_part(&n, "/api/v1/query?metric=gpu.temp&as=rate", 400, "'gpu.temp' is not a counter");
    expect_part(&n, "/api/v1/query?metric=net.rx_bytes&from=20&to=32&step=1&as=rate", 200,
                "\"mean\":[null,null,1,1,1,1,1,1,null,1,null,1]}"); /* joined over one, no fall */
    expect_part(&n, "/api/v1/query?metric=gpu.power&from=20&to=24&step=1", 200,
                "\"series\":[],\"unit\":\"W\"}");
    expect_part(&n, "/api/v1/limits?from=20&to=30", 200,
                "{\"schema\":\"stoker.limits/1\",\"from_ms\":");
    expect_part(&n, "/api/v1/limits?from=20&to=30", 200, "\"missing\":[{\"fact\":");
    expect_part(&n, "/api/v1/limits?from=30&to=20", 400, "'from' must be before 'to'");
    expect_part(&n, "/api/v1/limits?from=-3d", 400, "more than a day");
    expect_part(&n, "/api/v1/limits?since=1", 400, "since");
    expect_part(&n, "/api/v1/query?metric=gpu.powr", 400, "no metric 'gpu.powr'");
    expect_part(&n, "/api/v1/node", 200,
                "\"history\":{\"bytes\":4096,\"used_bytes\":100,\"samples\":7,\"bad_blocks\":0,"
                "\"oldest_ms\":null,\"oldest_minute_ms\":null,\"newest_ms\":9000}");
    fake.extra = API_SERIES_MAX;
    expect_part(&n, "/api/v1/query?metric=gpu.util&from=20&to=30&step=2", 400,
                "more than 512 series");
    fake.rc = RC_FAIL;
    expect(&n, "/api/v1/query?metric=gpu.util", 503, "{\"error\":\"a fake fault of the disk\"}");
    node_close(&n);
}

/* An application that is silent in the span, or that has gone and left its history. */
TEST(a_metric_without_a_point_is_not_unknown)
{
    struct api_opts o = { .view = { .ring = (struct history *)(void *)&fake } };
    struct node n;
    unsigned app;

    node_open(&n, &o);
    app = telemetry_source(n.t, "app");
    telemetry_begin(n.t, app, fixed_now());
    telemetry_set(n.t,
                  telemetry_series(n.t, app,
                                   telemetry_foreign(n.t, "app_queue", "waiting", TELEMETRY_GAUGE),
                                   NULL, 0),
                  3);
    telemetry_end(n.t);
    fake.kept = "app_gone";
    expect_part(&n, "/api/v1/query?metric=app_queue&from=20&to=24&step=1", 200,
                "\"series\":[],\"unit\":\"1\"}");
    expect_part(&n, "/api/v1/query?metric=app_gone&from=20&to=24&step=1", 200,
                "\"series\":[],\"unit\":\"1\"}");
    expect_part(&n, "/api/v1/query?metric=app_never&from=20&to=24&step=1", 400,
                "no metric 'app_never'");
    node_close(&n);
}

TEST(no_history)
{
    struct api_opts o = { 0 };
    struct node n;

    node_open(&n, &o);
    expect_part(&n, "/api/v1/query?metric=gpu.util", 404, "no history is kept");
    expect_part(&n, "/api/v1/limits", 404, "no history is kept");
    expect_part(&n, "/api/v1/topology", 404, "is not known");
    telemetry_doc(n.t, "inventory", "{\"schema\":\"stoker.other/1\"}");
    expect_part(&n, "/api/v1/topology", 503, "error");
    expect_part(&n, "/api/v1/nod", 404, "did you mean '/api/v1/node'");
    expect_part(&n, "/api/v1/node?x=1", 400, "no parameter 'x'");
    node_close(&n);
}

static void add_event(struct telemetry *t, int64_t s, enum telemetry_event_kind kind, int gpu,
                      int code, const char *text)
{
    struct telemetry_event e = { .time_ns = s * NS, .kind = kind, .gpu = gpu, .code = code };

    (void)str_copy(e.text, sizeof(e.text), text);
    telemetry_event(t, &e);
    fake.events[fake.event_count++] = e;
}

static void events_of(struct node *n)
{
    add_event(n->t, 1699999000, TELEMETRY_EVENT_AGENT, -1, 0, "started");
    add_event(n->t, 1699999100, TELEMETRY_EVENT_XID, 3, 79, "XID 79 \"bus\"");
    add_event(n->t, 1699999200, TELEMETRY_EVENT_LINK, -1, 0, "eth0 down");
    expect(n, "/api/v1/events?kind=xid", 200,
           "{\"schema\":\"stoker.events/1\",\"events\":[{\"time_ms\":1699999100000,\"kind\":"
           "\"xid\",\"gpu\":3,\"code\":79,\"text\":\"XID 79 \\\"bus\\\"\"}],\"matched\":1}");
    expect(n, "/api/v1/events?limit=1", 200,
           "{\"schema\":\"stoker.events/1\",\"events\":[{\"time_ms\":1699999200000,\"kind\":"
           "\"link\",\"gpu\":null,\"code\":null,\"text\":\"eth0 down\"}],\"matched\":3}");
    expect_part(n, "/api/v1/events?from=-900s&to=-801s", 200, "\"matched\":1}");
    expect_part(n, "/api/v1/events?from=-10s", 200, "\"events\":[],\"matched\":0}");
    expect_part(n, "/api/v1/events?kind=xid,bang", 400, "'bang'");
}

TEST(events_from_memory_and_from_the_history)
{
    struct api_opts o = { 0 }, with = { .view = { .ring = (struct history *)(void *)&fake } };
    struct node n;

    node_open(&n, &o);
    events_of(&n);
    node_close(&n);
    node_open(&n, &with);
    events_of(&n);
    node_close(&n);
}

static void make_alert(enum alert_state state)
{
    fake.alerts[0] = (struct alert_active){ .rule = &rule,
                                            .series = 2,
                                            .state = state,
                                            .since_ns = 1699999000 * NS,
                                            .fired_ns = 1699999060 * NS,
                                            .value = 83.5,
                                            .summary = "GPU 0 is hot" };
    fake.alert_count = 1;
}

static const char alert_json[] =
    "[{\"id\":\"GpuHot.critical.2\","
    "\"name\":\"GpuHot\",\"severity\":\"critical\",\"state\":\"firing\",\"metric\":\"gpu.temp\","
    "\"labels\":{\"gpu\":\"0\"},\"silenced\":null,\"acknowledged\":null,"
    "\"since_ms\":1699999000000,\"fired_ms\":1699999060000,"
    "\"resolved_ms\":null,\"value\":83.5,\"threshold\":80,\"gone\":false,"
    "\"summary\":\"GPU 0 is hot\","
    "\"why\":\"near its slowdown\",\"runbook\":null,"
    "\"whose\":{\"job\":null,\"user\":null,\"pod\":null,\"namespace\":null,"
    "\"command\":null},\"cause\":null,\"role\":null,\"root\":null,\"follows\":null}]";

TEST(alerts)
{
    struct api_opts o = { .view = { .alerts = (struct alerts *)(void *)&fake } };
    struct buf want = { 0 };
    struct node n;

    node_open(&n, &o);
    expect(&n, "/api/v1/alerts", 200, "{\"schema\":\"stoker.alerts/1\",\"alerts\":[]}");
    make_alert(ALERT_FIRING);
    buf_addf(&want, "{\"schema\":\"stoker.alerts/1\",\"alerts\":%s}", alert_json);
    expect(&n, "/api/v1/alerts", 200, want.data);
    expect_part(&n, "/api/v1/node", 200, "\"firing\":{\"critical\":1,");
    buf_release(&want);
    node_close(&n);
}

/* ---- live */
static int listen_to(struct node *n, const char *target)
{
    int fd = dial_port(n->port);
    struct buf text = { 0 };
    struct answer a;

    buf_addf(&text, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", target);
    CHECK(fd >= 0 && say(fd, text.data));
    a = hear_of(fd, true);
    assert_int_equal(a.status, 200);
    CHECK(strstr(a.head, "text/event-stream"));
    answer_free(&a);
    buf_release(&text);
    return fd;
}

/* Up to the empty line. */
static void expect_event(int fd, const char *want)
{
    char got[4096];
    size_t n = 0;

    while (n < 2 || memcmp(got + n - 2, "\n\n", 2) != 0) {
        CHECK(n < sizeof(got) - 1);
        CHECK(recv(fd, got + n, 1, 0) == 1);
        n++;
    }
    got[n - 2] = '\0';
    assert_string_equal(got, want);
}

static const char hello[] =
    "retry: 2000\nevent: hello\ndata: {\"time_ms\":1700000000000,\"period_ms\":1000,"
    "\"demo\":false}";

TEST(live)
{
    struct api_opts o = { .view = { .alerts = (struct alerts *)(void *)&fake } };
    struct buf want = { 0 };
    struct node n;
    int fd, late;

    node_open(&n, &o);
    api_tick(n.api, 1700000000 * NS);
    fd = listen_to(&n, "/api/v1/live");
    expect_event(fd, hello);
    api_tick(n.api, 1700000001 * NS);
    expect_event(
        fd,
        "event: values\ndata: {\"time_ms\":1700000001000,\"count\":7,\"renewed\":0,\"full\":true,"
        "\"id\":[0,1,2,5,6],\"value\":[95,3.25,61,0.5,4]}");
    fill(&n, 97);
    late = listen_to(&n, "/api/v1/live?entity=process");
    expect_event(late, hello);
    api_tick(n.api, 1700000002 * NS);
    expect_event(
        fd,
        "event: values\ndata: {\"time_ms\":1700000002000,\"count\":7,\"renewed\":0,\"full\":false,"
        "\"id\":[0],\"value\":[97]}");
    expect_event(
        late,
        "event: values\ndata: {\"time_ms\":1700000002000,\"count\":7,\"renewed\":0,\"full\":true,"
        "\"id\":[3,4],\"value\":[4096,12]}");
    add_event(n.t, 1700000002, TELEMETRY_EVENT_XID, 3, 79, "bus");
    make_alert(ALERT_FIRING);
    fill(&n, NAN);
    api_tick(n.api, 1700000003 * NS);
    expect_event(
        fd,
        "event: values\ndata: {\"time_ms\":1700000003000,\"count\":7,\"renewed\":0,\"full\":false,"
        "\"id\":[0],\"value\":[null]}");
    expect_event(fd, "event: event\ndata: {\"time_ms\":1700000002000,\"kind\":\"xid\",\"gpu\":3,"
                     "\"code\":79,\"text\":\"bus\"}");
    buf_addf(&want, "event: alerts\ndata: %s", alert_json);
    expect_event(fd, want.data);
    add_event(n.t, 1700000002, TELEMETRY_EVENT_XID, 3, 45, "same second");
    api_tick(n.api, 1700000004 * NS);
    expect_event(
        fd,
        "event: values\ndata: {\"time_ms\":1700000004000,\"count\":7,\"renewed\":0,\"full\":false,"
        "\"id\":[],\"value\":[]}");
    expect_event(fd, "event: event\ndata: {\"time_ms\":1700000002000,\"kind\":\"xid\",\"gpu\":3,"
                     "\"code\":45,\"text\":\"same second\"}");
    close(late);
    api_tick(n.api, 1700000005 * NS);
    expect_part(&n, "/api/v1/live?entity=all", 400, "'entity' is a list");
    http_drain(n.s, BOX_WAIT_MS, NULL);
    node_close(&n);
    close(fd);
    buf_release(&want);
}

TEST(too_many_listeners)
{
    struct api_opts o = { 0 };
    int fds[API_LIVE_MAX];
    struct node n;

    node_open(&n, &o);
    for (size_t i = 0; i < API_LIVE_MAX; i++)
        fds[i] = listen_to(&n, "/api/v1/live");
    expect_part(&n, "/api/v1/live", 503, "too many listen");
    close(fds[0]);
    for (int i = 0, status = 503; i < BOX_WAIT_MS && status == 503; i++) { /* one makes room */
        int fd = dial_port(n.port);
        struct answer a;

        CHECK(say(fd, GET("/api/v1/live")));
        a = hear_of(fd, true);
        status = a.status;
        answer_free(&a);
        close(fd);
        usleep(1000);
        CHECK(i < BOX_WAIT_MS - 1);
    }
    api_tick(n.api, fixed_now());
    node_close(&n); /* while they listen */
    for (size_t i = 1; i < API_LIVE_MAX; i++)
        close(fds[i]);
}

/* ---- the fleet */
static void on_garbage(void *arg, struct http_exchange *x)
{
    struct buf body = { 0 };

    (void)arg;
    buf_adds(&body, "{\"host\":");
    http_reply(x, 200, "application/json", &body, NULL);
}

/* Agents are asked on threads of their own: until of each something is known. */
static struct answer fleet_known(struct node *n)
{
    for (int i = 0;; i++) {
        struct answer a = ask(n, "/api/v1/fleet");

        if (a.status != 200 || i == 600)
            fail_msg("%d %s", a.status, a.body);
        if (strstr(a.body, "\"asked\":0,"))
            return a;
        answer_free(&a);
        usleep(50000);
    }
}

TEST(fleet)
{
    static const struct http_route routes[] = { { HTTP_GET, "/api/v1/node", on_garbage, NULL,
                                                  HTTP_SCOPE_OPEN } };
    struct http_opts h = { .routes = routes, .route_count = 1 };
    char good[64], bad[64];
    const char *addresses[] = { good, bad, "http://127.0.0.1:1", "ftp://other", NULL };
    static const struct agent_place places[] = { { "n0", "other", NULL, NULL },
                                                 { "n1", "train", "r7", "leaf1" } };
    struct api_opts o = { 0 }, with = { .fleet = addresses, .places = places, .place_count = 2 };
    char want[512];
    struct http_server *garbage;
    struct node n, other;
    struct err err = { 0 };
    struct answer a;
    int port = 0;

    if (http_server_new(&h, &garbage, &err) || http_listen(garbage, "127.0.0.1", 0, &port, &err) ||
        http_start(garbage, &err))
        fail_msg("%s", err.msg);
    node_open(&other, &o);
    snprintf(good, sizeof(good), "http://127.0.0.1:%d", other.port);
    snprintf(bad, sizeof(bad), "127.0.0.1:%d", port);
    node_open(&n, &with);
    a = fleet_known(&n);
    CHECK(strstr(a.body, "{\"schema\":\"stoker.fleet/2\""));
    CHECK(strstr(a.body, "\"count\":5,\"lost\":3,\"asked\":0,\"late\":0,"));
    CHECK(strstr(a.body, "{\"at\":0,\"address\":null,\"host\":\"n1\"")); /* this node */
    snprintf(want, sizeof(want),
             "{\"at\":1,\"address\":\"%s\",\"host\":\"n1\",\"group\":\"train\","
             "\"rack\":\"r7\",\"switch\":\"leaf1\",\"state\":\"ok\",\"error\":null",
             good);
    CHECK(strstr(a.body, want));
    CHECK(strstr(a.body, "\"gpus\":[0,1],\"now\":{\"gpu.util\":[95,3.25],\"gpu.temp\":[61,null]}"));
    CHECK(strstr(a.body,
                 "\"state\":\"lost\",\"error\":\"not a stoker agent: its answer is not JSON\""));
    CHECK(strstr(a.body, "Connection refused"));
    CHECK(strstr(a.body, "it is not http or https"));
    answer_free(&a);
    /* who has seen all gets this node alone */
    a = ask(&n, "/api/v1/fleet?since=999");
    CHECK(a.status == 200 && strstr(a.body, "\"at\":0,") && !strstr(a.body, "\"at\":1,"));
    answer_free(&a);
    expect_part(&n, "/api/v1/fleet?since=x", 400, "since");
    node_close(&n);
    node_close(&other);
    http_server_free(garbage);
}

/* ---- documents */
TEST(every_route_is_described)
{
    struct api_opts o = { 0 };
    const struct http_route *routes;
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct json *doc = NULL;
    struct answer a;
    struct node n;
    size_t count;

    node_open(&n, &o);
    a = ask(&n, "/openapi.json");
    if (json_parse(&arena, a.body, a.len, &doc, &err))
        fail_msg("%s", err.msg);
    routes = api_routes(n.api, &count);
    for (size_t i = 0; i < count; i++)
        CHECK(json_get(json_get(doc, "paths"), routes[i].path));
    CHECK(json_get(json_get(doc, "paths"), "/api/v1/silences")); /* the front end's own */
    assert_int_equal(json_get(doc, "paths")->count, count + 1);
    assert_string_equal(json_str(json_get(json_get(doc, "info"), "version")), STOKER_VERSION);
    answer_free(&a);
    a = ask(&n, "/");
    CHECK(a.status == 200 && strstr(a.head, "default-src 'none'"));
    CHECK(str_starts(a.body, "<!doctype html>"));
    answer_free(&a);
    arena_release(&arena);
    node_close(&n);
}

TEST_MAIN(cmocka_unit_test(the_node), cmocka_unit_test(series_and_models),
          cmocka_unit_test(asked_in_this_process), cmocka_unit_test(processes_use_the_host),
          cmocka_unit_test(history), cmocka_unit_test(a_metric_without_a_point_is_not_unknown),
          cmocka_unit_test(no_history), cmocka_unit_test(events_from_memory_and_from_the_history),
          cmocka_unit_test(alerts), cmocka_unit_test(live), cmocka_unit_test(too_many_listeners),
          cmocka_unit_test(fleet), cmocka_unit_test(every_route_is_described))
