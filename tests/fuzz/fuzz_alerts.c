/* SPDX-License-Identifier: MIT */
/* A table of rules of any text: read, written for Prometheus, and evaluated on a small node. */
#include "alert/alert_int.h"
#include "base/buf.h"

#include "fuzz.h"

enum { SERIES = 6, TURNS = 12 };

static void evaluate(const struct alert_rule *r, size_t n)
{
    static const char *const ids[SERIES] = { "gpu.temp",     "gpu.util",      "gpu.fb.used",
                                             "gpu.fb.total", "gpu.xid.total", "port.state" };
    struct telemetry_label l[] = { { "gpu", "1" }, { "xid", "79" } };
    struct telemetry *t = telemetry_new(64);
    unsigned source = telemetry_source(t, "x");
    struct alerts *a = alerts_new(r, n, t);

    for (int64_t turn = 0; turn < TURNS; turn++) {
        int64_t now = (turn + 1) * turn * INT64_C(7000000000);

        telemetry_begin(t, source, now);
        for (int i = 0; i < SERIES; i++)
            if ((turn + i) % 4)
                telemetry_set(t, telemetry_series(t, source, telemetry_metric(ids[i]), l, 2),
                              (double)((turn * 31 + i * 17) % 100));
        telemetry_end(t);
        alerts_turn(a, now, NULL, NULL);
    }
    alerts_free(a);
    telemetry_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct alert_rule *r;
    struct arena a = { 0 };
    struct buf out = { 0 };
    struct csv t;
    size_t n;

    if (!csv_parse(&a, (const char *)data, size, &t, NULL) &&
        !alert_rules_read(&a, &t, &r, &n, NULL)) {
        alert_prom_write(r, n, PROM_EXPORT_OLD, &out);
        evaluate(r, n);
    }
    buf_release(&out);
    arena_release(&a);
    return 0;
}
