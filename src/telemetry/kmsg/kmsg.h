/* SPDX-License-Identifier: MIT */
/* kmsg: the kernel's log as events.
 *
 * Lines of /dev/kmsg (or a file of a test) that tell of XIDs, SXids, failing hardware or a kernel
 * that is stuck become events of a table; reading never blocks.  What an XID means and how often
 * each came is here too: the driver tells of the same ones, and each counts once. */
#ifndef TELEMETRY_KMSG_KMSG_H
#define TELEMETRY_KMSG_KMSG_H
#include "os/root.h"
#include "telemetry/telemetry.h"

struct kmsg;
struct kmsg *kmsg_open(const struct root *root, const char *path); /* path NULL: /dev/kmsg */
size_t kmsg_poll(struct kmsg *k,
                 struct telemetry *t); /* events added; a flood is counted and cut */
void kmsg_close(struct kmsg *k);
int kmsg_fault_errno(const struct kmsg *k); /* why it cannot be read; 0: it can */
/* What a code means (data/xid.csv); false: not in the table. */
enum xid_severity { XID_INFO, XID_WARNING, XID_CRITICAL };
struct xid_info {
    int code;
    enum xid_severity severity;
    char mnemonic[64], action[24], text[128];
};
bool xid_find(int code, struct xid_info *out);
/* "NAME: cause; action: reboot", or that the table lacks it. */
void xid_words(int code, char *out, size_t cap);

/* ---- lines of the log that tell of failing hardware, or of a kernel that is stuck */
enum { KMSG_DEVICE_MAX = 48, KMSG_FAULT_COUNT_MAX = 100000 };
enum kmsg_fault_kind {
    KMSG_FAULT_AER_FATAL, /* PCIe */
    KMSG_FAULT_AER_NONFATAL,
    KMSG_FAULT_AER_CORRECTED,
    KMSG_FAULT_MCE, /* machine check, by the CPU or its firmware */
    KMSG_FAULT_MCE_CORRECTED,
    KMSG_FAULT_EDAC_UE, /* the memory's controller */
    KMSG_FAULT_EDAC_CE,
    KMSG_FAULT_MEMORY, /* a page was taken out of use */
    KMSG_FAULT_NVME,
    KMSG_FAULT_HUNG_TASK
};
struct kmsg_fault {
    enum kmsg_fault_kind kind;
    unsigned count;               /* that the line tells of */
    bool announced;               /* a line of the device itself may follow, of the same error */
    char device[KMSG_DEVICE_MAX]; /* address, CPU, module, disk, task; "": not named */
};
bool kmsg_fault(const char *line, struct kmsg_fault *out);
const char *kmsg_fault_word(enum kmsg_fault_kind k); /* "aer_fatal" */
/* Does a switch's error, in the words of its event, end the work of its fabric? */
bool kmsg_sxid_fatal(int code, const char *text);

/* The GPU that a line of the log is about, by the addresses of GPUs that `t` has; its address as
 * the log has it, "": it names none. */
void kmsg_locate(const struct telemetry *t, struct telemetry_event *io, char bdf[24]);

/* ---- XIDs that two sources tell, each counted once (xid_count.c); one thread */
enum { XID_COUNT_WINDOW_MS = 300000 }; /* as DCGM's exporter counts them */
struct xid_count {
    int gpu; /* -1: only its address is known */
    char bdf[24];
    int code;
    double total, window; /* since the beginning, in the last XID_COUNT_WINDOW_MS */
};
struct xid_counts;
struct xid_counts *xid_counts_new(void);
/* False: the other side told of it already. */
bool xid_counts_take(struct xid_counts *x, int gpu, const char *bdf, int code, bool of_log,
                     int64_t time_ns);
/* NULL behind the last; valid until it is asked for again. */
const struct xid_count *xid_counts_get(struct xid_counts *x, size_t i, int64_t now_ns);
void xid_counts_free(struct xid_counts *x); /* NULL is fine */

#endif
