/* SPDX-License-Identifier: MIT */
/* prometheus_int: the parts of the prometheus target.
 *
 *   prometheus.c        prometheus.yml, lists of machines, flags, the rule files
 *   prometheus_tests.c  tests/alerts_test.yml: made-up series through every alert
 *   prometheus_costs.c  tests/budgets_*test.yml: the same for budgets
 *   prometheus_rules.c  rules/recording.yml
 *   prometheus_serve.c  which machines have a model server
 *   alertmanager.c      alertmanager.yml */
#ifndef RENDER_PROMETHEUS_PROMETHEUS_INT_H
#define RENDER_PROMETHEUS_PROMETHEUS_INT_H
#include "render/alerts/alerts_int.h"

void prometheus_tests(struct render *r);
void prometheus_cost_tests(struct render *r, const struct render_alerts *all);
void prometheus_recording(struct render *r);
void prometheus_alertmanager(struct render *r);

struct prom_server {
    const struct spec_node *node;
    int64_t machine; /* of the group, from 0 */
    int64_t port;
    const struct spec_component *c; /* NULL: the machine's own, for models of no component */
    bool published;                 /* by compose, on the address that its .env says */
};
struct prom_servers {
    struct arena arena;
    struct prom_server *items;
    size_t count, cap;
};
void prometheus_servers(struct render *r, struct prom_servers *out);
void prometheus_servers_release(struct prom_servers *p);
bool prometheus_servers_on(const struct prom_servers *p, const struct spec_node *n);

/* Is this http://HOST[:PORT][/PATH], or with https, as Go's programs take it?  The parts are
 * borrowed from `s`; path "" when there is none. */
struct web_address {
    bool tls;
    const char *host; /* with its port */
    size_t host_len;
    const char *path;
};
bool web_address_of(const char *s, struct web_address *out);

#endif
