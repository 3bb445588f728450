/* SPDX-License-Identifier: MIT */
/* alerts: what alerts.t gives to a real Alertmanager.
 *
 *   alerts URL    a GPU that is too hot: fires, waits for a line of input, resolves */
#include "alert/alert_int.h"
#include "base/str.h"

#include <math.h>

#define SEC INT64_C(1000000000)
enum { LAST_WORDS_MS = 30000 };

struct fake_node {
    struct telemetry *t;
    unsigned source;
    uint32_t temp;
    struct alerts *alerts;
    struct alert_sender *sender;
    int64_t now;
};

static void changed(void *arg, const struct alert_active *x)
{
    struct fake_node *n = arg;

    alert_sender_add(n->sender, n->t, x);
    printf("%s %s\n", alert_state_word(x->state), x->rule->name);
    fflush(stdout);
}

static void live(struct fake_node *n, double temp, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        n->now += SEC;
        telemetry_begin(n->t, n->source, n->now);
        telemetry_set(n->t, n->temp, temp);
        telemetry_end(n->t);
        alerts_turn(n->alerts, n->now, changed, n);
    }
}

/* Ten minutes are lived through in an instant, and end now. */
static int fire(const char *url)
{
    struct alert_targets to = { .alertmanager = url, .generator = "http://node:8090/" };
    struct telemetry_label l[] = { { "gpu", "3" }, { "UUID", "GPU-0" } };
    struct fake_node n = { .now = ((int64_t)time(NULL) - 600) * SEC };
    struct alert_sender_stats st;
    struct err err = { 0 };
    const struct alert_rule *all;
    size_t count;

    if (alert_sender_new(&to, &n.sender, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    all = alert_defaults(&count);
    n.t = telemetry_new(0);
    n.source = telemetry_source(n.t, "gpu");
    n.temp = telemetry_series(n.t, n.source, telemetry_metric("gpu.temp"), l, ARRAY_SIZE(l));
    n.alerts = alerts_new(all, count, n.t);
    live(&n, 91, 300);
    (void)getchar();
    live(&n, 60, 300);
    alert_sender_stats(n.sender, &st);
    alert_sender_free(n.sender, LAST_WORDS_MS);
    alerts_free(n.alerts);
    telemetry_free(n.t);
    return st.failed || st.dropped;
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return fire(argv[1]);
    fputs("usage: alerts URL\n", stderr);
    return 2;
}
