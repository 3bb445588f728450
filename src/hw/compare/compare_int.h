/* SPDX-License-Identifier: MIT */
/* compare_int: what the tables of hw/hw_schema.c cannot say of a comparison (compare_rules.c). */
#ifndef HW_COMPARE_COMPARE_INT_H
#define HW_COMPARE_COMPARE_INT_H
#include "base/each.h"
#include "hw/compare/compare.h"
#include "hw/hw.h"

/* Is this element of the list `path` one that equal machines share?  Interfaces of containers and
 * variables of a job come and go. */
bool hw_compare_element(const char *path, const void *element);
/* Is this member of `obj`, on this machine, worth comparing?  A link that idles is slow, a port
 * above a device tells of the device's own link. */
bool hw_compare_field(const struct hw *hw, const char *path, const void *obj);
bool hw_compare_word(const char *name);       /* an option of the kernel's or of a mount's */
bool hw_compare_addr_local(const char *addr); /* link-local, or no address */
/* Facts of several members: of a port's GIDs their number, kinds, and which one can be routed; of
 * a subnet the ports that are in it. */
void hw_compare_facts(const struct hw *hw,
                      void (*put)(void *arg, const char *path, const char *item, const char *doc,
                                  const char *text),
                      void *arg);

/* ---- compare_ids.c: values that only one machine may have ---- */
struct compare_ids;
struct compare_ids *compare_ids_new(void);
void compare_ids_free(struct compare_ids *t);
void compare_ids_add(struct compare_ids *t, const struct hw *hw, size_t machine);
const struct hw_compare_twin *compare_ids_end(struct compare_ids *t, size_t *out_count);

/* Its addresses are masked. */
bool hw_compare_masked(const struct hw *hw);
size_t hw_compare_odd(const struct hw_compare_diff *d); /* machines outside of the majority */

#endif
