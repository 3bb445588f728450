/* SPDX-License-Identifier: MIT */
/* check_int: what the rules across keys share. */
#ifndef SPEC_CHECK_CHECK_INT_H
#define SPEC_CHECK_CHECK_INT_H
#include "spec/spec_int.h"

/* What was left out of a file because of faults: rules that would miss it do not run
 * (prune_faulty.c). */
struct rest_gaps {
    bool nodes;      /* a node group */
    bool components; /* a component, which names its target */
    bool models;     /* a model, which names its server */
    bool servers;    /* 'agent' or 'serve', whose ports others may not have */
    bool targets;    /* one of the targets, or something in it */
    bool section;    /* any that is no list or map: 'software' tells what machines have */
};
struct check {
    struct load *l;
    const struct spec *s;
    struct rest_gaps gaps;
    bool faulty; /* values of it were refused: what was not read may be there all the same */
};

/* An error at the value `at`. */
#define ERROR(c, at, ...)                                                                          \
    do {                                                                                           \
        struct spec_pos pos_ = spec_place((c)->s, (at));                                           \
        diag_add((c)->l, line_at(pos_.file_no, pos_.line), pos_.col, __VA_ARGS__);                 \
    } while (0)

/* The same with a hint (NULL: none). */
void check_fault(struct check *c, const void *at, const char *hint, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* The spec is taken, and the user is told. */
void check_doubt(struct check *c, const void *at, const char *hint, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

void check_agree(struct check *c);                                 /* everything but check_refs() */
bool check_target_there(const struct spec *s, enum spec_target t); /* named in 'targets' */
void check_refs(struct check *c);                                  /* names that must exist */
void check_names(struct check *c);                                 /* names that must differ */
void check_thresholds(struct check *c);                            /* check_alerts.c */
/* False: refused, with the unit of the metric and an example. */
bool check_metric_unit(struct check *c, const struct spec_quantity *q, enum spec_metric m);
void check_hosts(struct check *c);       /* machines and switches by name */
void check_switches(struct check *c);    /* a tree of the fabric's own */
void check_images(struct check *c);      /* names of container images */
void check_gpu_models(struct check *c);  /* the catalogue's GPUs and their MIG profiles */
void check_serve_ports(struct check *c); /* check_serve.c */
void check_served(struct check *c);      /* check_serve.c: a server has a model */
void check_addresses(struct check *c);   /* check_address.c: what the agent can reach */
void check_depends(struct check *c);     /* components that wait for each other */
void check_writes(struct check *c);      /* check_writes.c: nothing is saved where nobody writes */
void check_places(struct check *c);      /* check_place.c: fabrics and machines that are named */

#endif
