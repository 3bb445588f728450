/* SPDX-License-Identifier: MIT */
/* A table of runs never fails by a row: what is read has a reason or a configuration that can be
 * planned, and the figures over it are numbers. */
#include "fuzz.h"

#include "plan/run_rows.h"
#include "plan/runs.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plan_time_report times;
    struct plan_const_table consts;
    struct plan_report report;
    struct plan_rows rows;
    struct arena a = { 0 };

    if (!plan_rows_read(&a, (const char *)data, size, &rows, NULL) &&
        !plan_validate(&a, &rows, &plan_memory_default, &report, NULL)) {
        const struct plan_source_report *all = &report.sources[report.count - 1];

        if (all->rows != rows.count || all->used > rows.count || !isfinite(all->memory.mape) ||
            !isfinite(all->flops.mape))
            abort();
        if (plan_consts_table(&a, &consts, NULL) ||
            plan_validate_time(&a, &rows, &consts, false, &times, NULL))
            abort();
        for (size_t i = 0; i < rows.count; i++)
            if (!isfinite(times.seconds[i]) || times.seconds[i] < 0)
                abort();
        if (!isfinite(times.sources[times.source_count - 1].e.mape))
            abort();
    }
    arena_release(&a);
    return 0;
}
