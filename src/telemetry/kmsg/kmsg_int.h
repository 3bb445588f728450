/* SPDX-License-Identifier: MIT */
/* kmsg_int: what the files of kmsg, and their tests, share. */
#ifndef TELEMETRY_KMSG_KMSG_INT_H
#define TELEMETRY_KMSG_KMSG_INT_H
#include "telemetry/collect/collect_int.h"
#include "telemetry/kmsg/kmsg.h"

/* XID or SXID of a kernel line: false when it has none.  gpu is its PCI address as text. */
bool kmsg_xid(const char *line, int *code, char bdf[24], char *text, size_t cap);
/* Is the code an NVSwitch's (SXID)?  They begin where a GPU's end. */
bool xid_is_switch(int code);

struct kmsg_stats {
    uint64_t lines, lost, cut; /* read; gone before they were read; events left out in a flood */
};
void kmsg_stats(const struct kmsg *k, struct kmsg_stats *out);

#endif
