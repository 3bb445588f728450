/* SPDX-License-Identifier: MIT */
/* alerts: the alerts of a site as rules of Prometheus, for whoever writes them down: the rule
 * files of the prometheus target, the PrometheusRule of the kubernetes one.
 *
 * They are the agent's own rules (alert/alert.h), the default ones as the spec changes them and
 * those of its `alerts`, and what only the site as a whole or the model server knows: the age of
 * a queue, the share of errors, memory pools, cost, and that a machine does not answer.
 *
 * What they expect of the scrape configuration:
 *   honor_labels: true   the agent exports jobs with a label `job`
 *   job stoker-agent     of the agents, stoker-serve of the model servers
 *   label group          the node group of a machine
 *   label power_save     "true" for machines that Slurm powers down
 *   label machine        the machine's name, the same for all jobs */
#ifndef RENDER_ALERTS_ALERTS_INT_H
#define RENDER_ALERTS_ALERTS_INT_H
#include "alert/alert.h"
#include "base/arena.h"
#include "render/render_int.h"

#define ALERTS_JOB_AGENT "stoker-agent"
#define ALERTS_JOB_SERVE "stoker-serve"

struct alerts_word;
struct render_alert {
    struct alert_rule rule;
    const char *expr;               /* NULL: Prometheus cannot see it */
    const char *value_expr;         /* of a word: what is compared; NULL: the rule's metric is */
    const char *unseen;             /* why not */
    const char *only;               /* matchers of its series; NULL: none */
    const char *at;                 /* labels that they match: group="gpu"; NULL: none */
    const char *metric;             /* label that tells rules of one name apart; NULL: none */
    const struct alerts_word *word; /* of what the agent does not watch; NULL: a rule of its own */
    const struct spec_alert *own;   /* NULL: a default rule */
    const void *member;             /* what render_from() is asked */
    enum { NO_BUDGET, BUDGET_DAY, BUDGET_MONTH, BUDGET_FORECAST } budget; /* of what it is told */
    const char *component; /* whose; NULL: the site's */
};
struct alerts_record { /* what an alert of a budget is made of */
    const char *name, *expr, *component;
    const void *member;
};
struct render_alerts {
    struct arena arena;
    struct render_alert *items;
    size_t count;
    struct alerts_record *records;
    size_t record_count;
    enum prom_export_names names; /* of DCGM's fields */
};
/* False: something was refused. */
bool render_alerts_init(struct render *r, struct render_alerts *out);
void render_alerts_release(struct render_alerts *a);

/* The key `groups` and its sequence, into the mapping that is open. */
void alerts_groups(struct render *r, struct yaml_out *y);

/* Does Slurm power machines of this group down when nobody needs them?  They carry a label
 * `power_save`, and one that does not answer may sleep: see alert_groups.c. */
bool alerts_group_sleeps(const struct render *r, const struct spec_node *n);
#define ALERTS_SLEEPS "power_save=\"true\""
#define ALERTS_AWAKE  "power_save!=\"true\""

/* ---- what the agent does not watch, alerts_words.c */
struct alerts_word {
    enum spec_metric metric;
    const char *unit;  /* as in alert_rule */
    double scale;      /* of the spec's number */
    const char *whose; /* for the summary */
    bool of_models;    /* has a label `model` */
    /* `only`: matchers of whom it is for, NULL: all; `own`: the alert that names them. */
    void (*expr)(const struct render *r, const struct spec_alert *own, const char *only,
                 struct buf *out);
    /* Series for a test, in lines of "NAME{LABELS}\tVALUES\n", that give `v` from the start. */
    void (*series)(const struct render *r, double v, const char *labels, struct buf *out);
    int warm_minutes; /* until the expression has its value */
};
const struct alerts_word *alerts_word_of(enum spec_metric m);

/* ---- money, alerts_cost.c */
/* Dollars an hour by group, as one expression, of the groups that an alert is for (NULL: of all);
 * nothing when none of them has a price. */
void alerts_cost_groups(const struct render *r, const struct spec_alert *own, struct buf *out);
/* Is the alert for the machines of a group: by its `nodes`, and by where its `components` run? */
bool alerts_is_for(const struct spec *s, const struct spec_alert *x, const struct spec_node *n);
/* The rules of `budgets` into `all`, and what they are made of. */
size_t alerts_budgets_most(const struct spec *s);
void alerts_budgets(struct render *r, struct render_alerts *all);
/* Warns, once a run, of what of them cannot be known, and of what is spent already; `watched`: some
 * target has the rules. */
void alerts_budgets_tell(struct render *r, bool watched);
/* A record of a component has it as a label. */
#define ALERTS_COST_HOUR  "budget:cost_dollars_per_hour:sum"
#define ALERTS_COST_ONE   "budget:cost_dollars:hour" /* the last one */
#define ALERTS_COST_DAY   "budget:cost_dollars:day"
#define ALERTS_COST_MONTH "budget:cost_dollars:month"

#endif
