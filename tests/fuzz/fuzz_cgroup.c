/* SPDX-License-Identifier: MIT */
/* Anything as a process' cgroup file: what is found is text of the right shape. */
#include "fuzz.h"

#include "base/str.h"
#include "telemetry/collect/collect_int.h"

#include <stdlib.h>
#include <string.h>

static void check(const char *s, size_t cap, const char *chars)
{
    if (!memchr(s, 0, cap) || !str_is_text(s, strlen(s)))
        abort();
    if (chars && strspn(s, chars) != strlen(s))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct owner o = { 0 };
    char *text = malloc(size + 1);

    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    owner_cgroup(text, &o);
    check(o.slurm_job, sizeof(o.slurm_job), "0123456789");
    check(o.pod_uid, sizeof(o.pod_uid), "0123456789abcdef-");
    check(o.container, sizeof(o.container), "0123456789abcdefABCDEF");
    check(o.unit, sizeof(o.unit), NULL);
    (void)owner_pod_folder(text, &o);
    (void)owner_container_log(text, &o);
    check(o.pod, sizeof(o.pod), NULL);
    check(o.pod_namespace, sizeof(o.pod_namespace), NULL);
    check(o.pod_container, sizeof(o.pod_container), NULL);
    free(text);
    return 0;
}
