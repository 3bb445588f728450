/* SPDX-License-Identifier: MIT */
/* A stream of telemetry, fed in two pieces: what the reader took is the same as in one, and what a
 * table holds afterwards is valid.  A checksum would stop almost every change, so that each record
 * here gets the right one first: payloads are what is tried. */
#include "fuzz.h"

#include "base/codec/crc32c.h"
#include "base/str.h"
#include "telemetry/record/stream_int.h"
#include "telemetry/telemetry_int.h"

#include <stdlib.h>
#include <string.h>

/* Puts right checksums where lengths lead from record to record. */
static void mend(char *p, size_t len)
{
    char *end = memchr(p, '\n', len);
    size_t at = end ? (size_t)(end - p) + 1 : len;

    while (len - at >= 8) {
        uint32_t size, crc;

        memcpy(&size, p + at, sizeof(size));
        if (size > len - at - 8)
            return;
        crc = crc32c(0, p + at + 8, size);
        memcpy(p + at + 4, &crc, sizeof(crc));
        at += 8 + size;
    }
}

static uint64_t run(struct telemetry *t, const char *p, size_t len, size_t cut, enum rc *rc)
{
    struct stream_reader_opts o = { .into = t, .source_prefix = "x-" };
    struct stream_reader *r = stream_reader_new(&o);
    uint64_t taken;

    *rc = stream_feed(r, p, cut, NULL);
    if (!*rc)
        *rc = stream_feed(r, p + cut, len - cut, NULL);
    taken = stream_taken(r);
    if (taken > len || (taken > 0) != (stream_head(r) != NULL))
        abort();
    stream_reader_free(r);
    return taken;
}

static void check(struct telemetry *t)
{
    struct telemetry_event e[4];

    for (uint32_t i = 0; i < telemetry_count(t); i++) {
        const struct telemetry_series *s = telemetry_get(t, i);

        for (size_t k = 0; k < s->label_count; k++)
            if (!str_is_text(s->labels[k].value, strlen(s->labels[k].value)) || !*s->labels[k].name)
                abort();
        (void)telemetry_value(t, i);
    }
    (void)telemetry_events(t, 0, e, 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct telemetry *one = telemetry_new(64), *two = telemetry_new(64);
    char *p = malloc(size + 1);
    enum rc a, b;

    memcpy(p, data, size);
    mend(p, size);
    if (run(one, p, size, 0, &a) != run(two, p, size, size / 3, &b) || a != b ||
        telemetry_count(one) != telemetry_count(two))
        abort();
    check(one);
    free(p);
    telemetry_free(one);
    telemetry_free(two);
    return 0;
}
