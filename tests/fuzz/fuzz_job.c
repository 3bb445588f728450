/* SPDX-License-Identifier: MIT */
/* Anything as a training job's file: what is taken is text and numbers within bounds. */
#include "fuzz.h"

#include "base/str.h"
#include "telemetry/collect/collect_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check(const char *s, size_t cap)
{
    if (!memchr(s, 0, cap) || !str_is_text(s, strlen(s)))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct job_file j;

    if (job_parse((const char *)data, size, &j, NULL) != RC_OK)
        return 0;
    check(j.name, sizeof(j.name));
    check(j.kind, sizeof(j.kind));
    check(j.user, sizeof(j.user));
    check(j.message, sizeof(j.message));
    if (!j.name[0] || !j.kind[0] || !*job_state_word(j.state) || isnan(j.updated_s) ||
        isinf(j.loss) || j.mfu > 1 || j.step < 0 || j.gpus > 4096)
        abort();
    return 0;
}
