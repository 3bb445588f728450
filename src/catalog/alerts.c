/* SPDX-License-Identifier: MIT */
/* alerts: the default rules as a table of text; src/metrics/alert_rules.c gives them types. */
#include "base/embed.h"
#include "catalog/catalog.h"
#include "catalog/csv.h"

EMBED(data_alerts, "data/alerts.csv");

enum rc cat_alerts_load(struct arena *a, struct csv *out, struct err *err)
{
    enum rc rc = csv_parse(a, data_alerts, data_alerts_len, out, err);

    return rc ? err_ctx(err, "table 'alerts.csv'") : RC_OK;
}
