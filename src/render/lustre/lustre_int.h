/* SPDX-License-Identifier: MIT */
/* lustre_int: between the files of the lustre target. */
#ifndef RENDER_LUSTRE_LUSTRE_INT_H
#define RENDER_LUSTRE_LUSTRE_INT_H
#include "render/render_int.h"

enum { LUSTRE_ROOT_MAX = 4096 };

struct lustre_site {
    struct render *r;
    const struct spec_lustre *t;
    const struct spec_storage *storage; /* its storage in the spec; NULL: none */
    char root[LUSTRE_ROOT_MAX];         /* where clients mount it */
};

/* The machine that carries a metadata or object target, and its group; NULL: the spec has no
 * machines of role storage. */
const struct spec_node *lustre_host(const struct lustre_site *l, bool meta, int64_t index,
                                    char *out, size_t cap);
/* The machine that takes a target over, the next of its kind; false: there is no second one. */
bool lustre_partner(const struct lustre_site *l, bool meta, int64_t index, char *out, size_t cap);
/* "o2ib" of "10.0.0.2@o2ib:10.0.0.3@o2ib" */
const char *lustre_net(const struct lustre_site *l, char *out, size_t cap);
/* The rule that files of checkpoints fall under; NULL: none. */
const struct spec_stripe *lustre_checkpoint_rule(const struct lustre_site *l);

void lustre_lnet(struct lustre_site *l); /* lustre_net.c */
void lustre_check_nids(struct lustre_site *l);
void lustre_format(struct lustre_site *l);
void lustre_mount(struct lustre_site *l);
void lustre_stripe(struct lustre_site *l);
void lustre_check(struct lustre_site *l);

#endif
