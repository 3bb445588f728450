/* SPDX-License-Identifier: MIT */
/* host: what the tests of the host's sources share: roots made for a test, and values by name. */
#ifndef TESTS_HOST_H
#define TESTS_HOST_H
#include "test.h"

#include "base/str.h"
#include "telemetry/collect/collect_int.h"
#include "telemetry/telemetry_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOST_NODE "tests/fixtures/host/node"
#define SECOND    INT64_C(1000000000)

struct host {
    struct root *root;
    struct telemetry *t;
    char dir[64]; /* "": a fixture */
};

static inline void host_put(const struct host *h, const char *path, const char *text)
{
    char full[512];
    FILE *f;

    snprintf(full, sizeof(full), "%s%s", h->dir, path);
    for (char *p = full + strlen(h->dir) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        (void)mkdir(full, 0755);
        *p = '/';
    }
    f = fopen(full, "w"); /* in place: kept files see it */
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static inline void host_remove(const struct host *h, const char *path)
{
    char full[512];

    snprintf(full, sizeof(full), "%s%s", h->dir, path);
    assert_int_equal(unlink(full), 0);
}

/* A root of the fixtures, or an empty one that the test fills. */
static inline void host_open(struct host *h, const char *fixture)
{
    *h = (struct host){ .dir = "" };
    if (!fixture) {
        snprintf(h->dir, sizeof(h->dir), "/tmp/stoker-host-XXXXXX");
        assert_non_null(mkdtemp(h->dir));
    }
    assert_int_equal(root_open(fixture ? fixture : h->dir, &h->root, NULL), RC_OK);
    h->t = telemetry_new(0);
}

static inline void host_close(struct host *h)
{
    char command[96];

    telemetry_free(h->t);
    root_close(h->root);
    if (!h->dir[0])
        return;
    snprintf(command, sizeof(command), "rm -rf '%s'", h->dir);
    assert_int_equal(system(command), 0);
}

static inline bool labels_are(const struct telemetry_series *s, const char *want)
{
    char have[1024] = "";

    for (size_t i = 0; i < s->label_count; i++) {
        size_t n = strlen(have);

        snprintf(have + n, sizeof(have) - n, "%s%s=%s", i ? "," : "", s->labels[i].name,
                 s->labels[i].value);
    }
    return !strcmp(have, want);
}

/* The latest value of a metric (Prometheus name or id) with these labels ("a=b,c=d"); NaN. */
static inline double host_value(const struct host *h, const char *name, const char *labels)
{
    for (size_t i = 0; i < telemetry_count(h->t); i++) {
        const struct telemetry_series *s = telemetry_get(h->t, (uint32_t)i);

        if ((str_eq(s->metric->prom, name) || str_eq(s->metric->id, name)) && labels_are(s, labels))
            return telemetry_value(h->t, (uint32_t)i);
    }
    return (double)NAN;
}

static inline size_t host_known(const struct host *h)
{
    size_t n = 0;

    for (size_t i = 0; i < telemetry_count(h->t); i++)
        n += !isnan(telemetry_value(h->t, (uint32_t)i));
    return n;
}

static inline void host_near(double have, double want, const char *what)
{
    if (!(fabs(have - want) <= 1e-9 * (1 + fabs(want))))
        fail_msg("%s: %.17g instead of %.17g", what, have, want);
}

#define NEAR(h, name, labels, want)                                                                \
    host_near(host_value((h), (name), (labels)), (want), name "{" labels "}")
#define UNKNOWN(h, name, labels) CHECK(isnan(host_value((h), (name), (labels))))

#endif
