/* SPDX-License-Identifier: MIT */
/* capture_mask: takes what identifies a machine out of a capture, so that it can be shown
 * to others and still replays.
 *
 * Two passes over the same files: mask_learn() sees them all, mask_ready() settles
 * the numbers, mask_apply() rewrites.  Equal values stay equal everywhere, so what
 * detect concludes from a masked capture is the masked form of what it concluded
 * before.
 *
 *   MAC addresses, GUIDs     numbered in the order seen, locally administered
 *   GPU and other UUIDs      numbered
 *   serial numbers           numbered, as long as before
 *   host names               host-1, host-2 …
 *   IPv4, IPv6               renumbered bit by bit: two addresses share as long a
 *                            prefix as before, so routes and subnets still match.
 *                            Private ranges stay in their range; public addresses go
 *                            to 240.0.0.0/4 and fc00::/8, which nobody has.  The last
 *                            eight bits (IPv6: sixteen) stay.  Loopback, link-local
 *                            prefixes, multicast, netmasks and default routes stay.
 *                            The first address of a range gets zeros, whatever it was,
 *                            so one of zeros becomes itself and tells nothing.
 *
 * Kept as they are: names of files and interfaces (enx… holds its MAC), user names in
 * paths of mounts, software versions. */
#ifndef HW_CAPTURE_CAPTURE_MASK_H
#define HW_CAPTURE_CAPTURE_MASK_H
#include "base/buf.h"
#include "base/err.h"

enum {
    MASK_IDS_MAX = 1 << 20,   /* different values of one kind */
    MASK_NODES_MAX = 1 << 22, /* bits of different addresses */
    MASK_NETS4_MAX = 15,      /* public networks of eight bits */
    MASK_NETS6_MAX = 256,     /* public networks of sixteen bits */
    MASK_NAME_MAX = 256       /* bytes in a host name or serial number */
};

struct mask_counts { /* different values masked */
    size_t macs, guids, uuids, serials, names, ipv4, ipv6;
};

struct mask;
struct mask *mask_new(void);
void mask_free(struct mask *m);

/* `path` is the file's on the machine: it says what the bytes are. */
void mask_learn(struct mask *m, const char *path, const char *data, size_t len);
/* RC_LIMIT when there was more than a capture can hold. */
enum rc mask_ready(struct mask *m, struct err *err) MUST_USE;
void mask_apply(struct mask *m, const char *path, struct buf *io);
struct mask_counts mask_count(const struct mask *m);

#endif
