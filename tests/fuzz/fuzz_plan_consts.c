/* SPDX-License-Identifier: MIT */
/* A table of constants: what is read is written back as a table that reads the same. */
#include "fuzz.h"

#include "base/str.h"
#include "plan/runs.h"
#include "plan/time/step_time_int.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plan_const_table t, again;
    struct buf one = { 0 }, two = { 0 };
    struct plan_consts_all all;
    struct arena a = { 0 };

    if (!plan_consts_read(&a, (const char *)data, size, &t, NULL)) {
        plan_consts_each(&t, &all);
        for (size_t i = 0; i < all.count; i++)
            for (int k = 0; k < PLAN_C_COUNT; k++)
                if (!isfinite(all.kind[i].c[k]) || all.kind[i].c[k] < 0)
                    abort();
        plan_consts_write(&t, &one);
        if (plan_consts_read(&a, buf_str(&one), one.len, &again, NULL))
            abort();
        plan_consts_write(&again, &two);
        if (!str_eq(buf_str(&one), buf_str(&two)))
            abort();
    }
    buf_release(&one);
    buf_release(&two);
    arena_release(&a);
    return 0;
}
