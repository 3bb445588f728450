/* SPDX-License-Identifier: MIT */
/* What a model server's text becomes: the first half is one reply, the second the next. */
#include "fuzz.h"

#include "agent/agent_int.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct models_shown *m = models_shown_new();
    struct telemetry *t = telemetry_new(0);
    size_t half = size / 2;
    char *text = malloc(size + 1);

    if (text) {
        memcpy(text, data, half);
        text[half] = '\0';
        models_shown_take(m, t, text, 1);
        memcpy(text, data + half, size - half);
        text[size - half] = '\0';
        models_shown_take(m, t, text, 2);
    }
    free(text);
    telemetry_free(t);
    models_shown_free(m);
    return 0;
}
