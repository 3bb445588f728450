/* SPDX-License-Identifier: MIT */
/* Query strings of the agent's API: whatever is asked, what is taken lies within the limits. */
#include "fuzz.h"

#include "agent/api/api_parts_int.h"

#include <stdlib.h>
#include <string.h>

enum { QUERY_MAX = HTTP_TARGET_MAX };
#define NOW (INT64_C(1700000000) * API_SECOND)

static void check_query(const struct api_query *q)
{
    if (!q->metric || q->step_ns <= 0 || q->from_ns < 0 || q->from_ns % q->step_ns ||
        q->from_ns >= q->to_ns || !q->steps || q->steps > API_STEPS_MAX ||
        q->from_ns + (int64_t)q->steps * q->step_ns < q->to_ns ||
        q->label_count > TELEMETRY_LABELS_MAX)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct api_params *p;
    struct api_query q;
    struct err err = { 0 };
    int64_t time;
    uint64_t number;
    unsigned bits;
    char *text;

    if (size > QUERY_MAX || memchr(data, 0, size))
        return 0;
    text = malloc(size + 1); /* its own block: a byte too far is seen */
    p = malloc(sizeof(*p));
    memcpy(text, data, size);
    text[size] = '\0';
    if (!api_params_read(text, p, &err)) {
        if (!api_query_read(p, NOW, &q, &err))
            check_query(&q);
        if (!api_param_time(p, "from", NOW, 0, &time, &err) && time < 0)
            abort();
        if (!api_param_uint(p, "limit", 1, 9, 5, &number, &err) && (number < 1 || number > 9))
            abort();
        if (!api_param_entities(p, "entity", 1, &bits, &err) && bits >> API_ENTITIES)
            abort();
    }
    free(p);
    free(text);
    return 0;
}
