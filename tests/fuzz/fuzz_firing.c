/* SPDX-License-Identifier: MIT */
/* A file of what fires as anybody may have written it: what is taken is written again, and that is
 * taken whole and comes out the same. */
#include "alert/alert.h"

#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static void read_and_write(const char *text, size_t len, size_t *out_bad, struct buf *out)
{
    static const struct alert_rule rule = {
        .name = "Hot", .metric = "gpu.temp", .threshold = 85, .summary = "{gpu} at {value}"
    };
    struct telemetry *t = telemetry_new(0);
    struct alerts *a = alerts_new(&rule, 1, t);
    size_t kept;

    *out_bad = alert_keep_read(text, len, a, NULL, t, &kept);
    alert_keep_write(a, NULL, t, out);
    alerts_turn(a, INT64_C(1790000000) * 1000000000, NULL, NULL);
    alerts_turn(a, INT64_C(1790000060) * 1000000000, NULL, NULL);
    alerts_free(a);
    telemetry_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf once = { 0 }, twice = { 0 };
    char *text = malloc(size + 1);
    size_t bad;

    if (!text)
        abort();
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    read_and_write(text, size, &bad, &once);
    read_and_write(buf_str(&once), once.len, &bad, &twice);
    if (bad || strcmp(buf_str(&once), buf_str(&twice)) != 0)
        abort();
    buf_release(&once);
    buf_release(&twice);
    free(text);
    return 0;
}
