/* SPDX-License-Identifier: MIT */
/* Silences as anybody sends them, and a file of them as anybody may have written it: what is taken
 * is listed as JSON that is taken again, and covers or does not. */
#include "agent/agent_int.h"
#include "base/text/json.h"

#include "fuzz.h"

#include <stdlib.h>

static void look_at(struct silences *x)
{
    static const struct telemetry_label labels[] = { { "gpu", "3" }, { "xid", "79" } };
    const struct telemetry_series series = { .labels = labels, .label_count = 2 };
    struct arena a = { 0 };
    struct buf b = { 0 };
    struct json_out w;
    struct json *d;

    json_out_init(&w, &b, 0);
    silences_list(x, &w);
    if (json_parse(&a, buf_str(&b), b.len, &d, NULL))
        abort();
    buf_reset(&b);
    json_out_init(&w, &b, 0);
    json_obj(&w);
    silences_mark(x, "GpuXidFatal", &series, INT64_C(1800000000) * 1000000000, &w);
    json_obj_end(&w);
    if (json_parse(&a, buf_str(&b), b.len, &d, NULL))
        abort();
    (void)silences_cover(x, "GpuXidFatal", &series, INT64_C(1800000000) * 1000000000);
    silences_alert_over(x, "GpuXidFatal", &series);
    (void)!silences_end(x, 1, NULL);
    buf_release(&b);
    arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct silences *x = silences_new(NULL);
    char *text = malloc(size + 1);
    uint64_t id;

    if (!text)
        abort();
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    silences_take(x, text, size);
    look_at(x);
    if (silences_add(x, text, size, &id, NULL) == RC_OK && !id)
        abort();
    look_at(x);
    silences_free(x);
    free(text);
    return 0;
}
