/* SPDX-License-Identifier: MIT */
/* each: going over a list that has its length beside it. */
#ifndef BASE_EACH_H
#define BASE_EACH_H

/* FOR_EACH(const struct hw_net, n, hw->nets) goes over hw->nets_count of them; NULL has none. */
#define FOR_EACH(type, var, list)                                                                  \
    for (type *var = (list), *var##_end = var ? var + list##_count : var; var < var##_end; var++)

#endif
