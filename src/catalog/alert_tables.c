/* SPDX-License-Identifier: MIT */
/* alert_tables: the default rules, and which of them have one cause, as tables of text;
 * src/alert/alert_rules.c and alert_cause.c give them types. */
#include "base/embed.h"
#include "catalog/catalog.h"
#include "catalog/csv.h"

EMBED(data_alerts, "data/alerts.csv");
EMBED(data_alert_causes, "data/alert_causes.csv");

enum rc cat_alerts_load(struct arena *a, struct csv *out, struct err *err)
{
    enum rc rc = csv_parse(a, data_alerts, data_alerts_len, out, err);

    return rc ? err_ctx(err, "table 'alerts.csv'") : RC_OK;
}

enum rc cat_alert_causes_load(struct arena *a, struct csv *out, struct err *err)
{
    enum rc rc = csv_parse(a, data_alert_causes, data_alert_causes_len, out, err);

    return rc ? err_ctx(err, "table 'alert_causes.csv'") : RC_OK;
}
