/* SPDX-License-Identifier: MIT */
/* compare_int: what the tables of hw/schema.c cannot say of a comparison (compare_rules.c). */
#ifndef HW_COMPARE_INT_H
#define HW_COMPARE_INT_H
#include "hw/hw.h"

/* Is this element of the list `path` one that equal machines share?  Interfaces of containers and
 * variables of a job come and go. */
bool hw_compare_element(const char *path, const void *element);
/* Is this member of `obj`, on this machine, worth comparing?  A link that idles is slow, a port
 * above a device tells of the device's own link. */
bool hw_compare_field(const struct hw *hw, const char *path, const void *obj);
bool hw_compare_word(const char *name); /* an option of the kernel's or of a mount's */
/* Facts of several members: of a port's GIDs their number, kinds, and which one can be routed. */
void hw_compare_facts(const struct hw *hw,
                      void (*put)(void *arg, const char *path, const char *item, const char *doc,
                                  const char *text),
                      void *arg);

#endif
