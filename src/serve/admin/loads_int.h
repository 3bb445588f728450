/* SPDX-License-Identifier: MIT */
/* loads: the routes that load and unload models; who waits for a load to end. */
#ifndef SERVE_ADMIN_LOADS_INT_H
#define SERVE_ADMIN_LOADS_INT_H
#include "http/http.h"

enum { LOADS_WAITS_MAX = 256 }; /* clients that wait for a load: 202 beyond, as without waiting */

struct serve;
struct loads;
extern const struct http_route loads_routes[]; /* ends with path NULL; arg: struct serve */
struct loads *loads_new(void);
/* Answers those whose load is over, or whose time is, or all when the server stops.  Any thread,
 * without a lock of the manager's. */
void loads_look(struct serve *s);
void loads_free(struct loads *l); /* when nobody waits; NULL is fine */

#endif
