/* SPDX-License-Identifier: MIT */
/* Anything as an application's metrics, twice: what is taken has valid names and labels, the
 * second time gives the same series, and the budget holds. */
#include "fuzz.h"

#include "base/str.h"
#include "telemetry/prom/prom.h"

#include <stdlib.h>
#include <string.h>

enum { BUDGET = 128 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct telemetry_label extra[] = { { "app", "fuzz" } };
    struct telemetry *t = telemetry_new(BUDGET);
    unsigned source = telemetry_source(t, "app:fuzz");
    enum rc rc = prom_parse_take(t, source, (const char *)data, size, 1, extra, 1, NULL);
    size_t count = telemetry_count(t);

    if (rc != RC_OK && rc != RC_PARSE && rc != RC_LIMIT)
        abort();
    if (count > BUDGET)
        abort();
    for (size_t i = 0; i < count; i++) {
        const struct telemetry_series *s = telemetry_get(t, (uint32_t)i);

        if (!s->label_count || s->label_count > TELEMETRY_LABELS_MAX ||
            s->metric->entity != TELEMETRY_APP)
            abort();
        for (size_t k = 0; k < s->label_count; k++)
            if (!str_is_text(s->labels[k].value, strlen(s->labels[k].value)) ||
                !s->labels[k].name[0])
                abort();
    }
    if (prom_parse_take(t, source, (const char *)data, size, 2, extra, 1, NULL) != rc ||
        telemetry_count(t) != count)
        abort();
    telemetry_free(t);
    return 0;
}
