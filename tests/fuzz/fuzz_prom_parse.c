/* SPDX-License-Identifier: MIT */
/* Anything as an application's metrics, twice: what is taken has valid names and labels, the
 * second time gives the same series, and the budget holds. */
#include "fuzz.h"

#include "base/str.h"
#include "telemetry/collect/collect_int.h"

#include <stdlib.h>
#include <string.h>

enum { BUDGET = 128 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct tele_label extra[] = { { "app", "fuzz" } };
    struct tele *t = tele_new(BUDGET);
    unsigned source = tele_source(t, "app:fuzz");
    enum rc rc = promtext_take(t, source, (const char *)data, size, 1, extra, 1, NULL);
    size_t count = tele_count(t);

    if (rc != RC_OK && rc != RC_PARSE && rc != RC_LIMIT)
        abort();
    if (count > BUDGET)
        abort();
    for (size_t i = 0; i < count; i++) {
        const struct tele_series *s = tele_get(t, (uint32_t)i);

        if (!s->label_count || s->label_count > TELE_LABELS_MAX || s->metric->entity != TELE_APP)
            abort();
        for (size_t k = 0; k < s->label_count; k++)
            if (!str_is_text(s->labels[k].value, strlen(s->labels[k].value)) ||
                !s->labels[k].name[0])
                abort();
    }
    if (promtext_take(t, source, (const char *)data, size, 2, extra, 1, NULL) != rc ||
        tele_count(t) != count)
        abort();
    tele_free(t);
    return 0;
}
