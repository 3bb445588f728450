/* SPDX-License-Identifier: MIT */
/* grafana_int: dashboards as tables of panels (grafana_node.c, grafana_fleet.c, grafana_serving.c),
 * written as Grafana's JSON by grafana.c.
 *
 * In an expression "@gpu.temp@" is the name under which the agents export that metric, and in
 * thresholds a metric's id stands for the alert that watches it. */
#ifndef RENDER_GRAFANA_GRAFANA_INT_H
#define RENDER_GRAFANA_GRAFANA_INT_H
#include "render/alerts/alerts_int.h"

enum {
    PANEL_QUERIES_MAX = 4,
    PANEL_WIDTH = 24, /* of the page, in Grafana's columns */
};

enum panel_kind { PANEL_LINES, PANEL_STAT, PANEL_GAUGE, PANEL_BARS, PANEL_TABLE, PANEL_ROW };
struct grafana_panel {
    enum panel_kind kind;
    const char *title;
    const char *unit; /* Grafana's id of it; NULL: none */
    int w, h;
    struct panel_query {
        const char *expr, *legend;
    } queries[PANEL_QUERIES_MAX];
    const char *watch;  /* whose alert gives thresholds: an id, a/b, or a word of the spec */
    double watch_scale; /* panel's unit of the alert's; 0: 1 */
    bool from_zero, to_one, stack;
    const char *about; /* NULL: the title says it */
};
struct variable {
    const char *name, *label, *query;
};
struct dashboard {
    const char *file, *title, *about;
    const struct variable *variables;
    size_t variable_count;
    const struct grafana_panel *panels;
    size_t panel_count;
};
extern const struct dashboard grafana_node, grafana_fleet, grafana_serving;

#endif
