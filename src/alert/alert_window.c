/* SPDX-License-Identifier: MIT */
/* alert_window: a sliding sum in fixed memory, whatever the window and however often it is fed.
 *
 * Keeping every sample of an hour for every series would cost megabytes; a ring of slots costs
 * 256 bytes and forgets a fifteenth of the window at a time. */
#include "alert/alert_int.h"

#include <assert.h>

static int64_t slot_of(int64_t window_ns, int64_t now_ns)
{
    int64_t width = window_ns / ALERT_SLOTS_FULL;

    return now_ns / (width > 0 ? width : 1);
}

/* Empties the slots between the newest and now. */
static void window_forward(struct alert_window *w, int64_t slot)
{
    assert(slot >= w->slot);
    if (slot - w->slot >= ALERT_SLOTS)
        w->slot = slot - ALERT_SLOTS;
    while (w->slot < slot) {
        size_t i = (size_t)(++w->slot % ALERT_SLOTS);

        w->sum[i] = w->sec[i] = 0;
    }
}

void alert_window_add(struct alert_window *w, int64_t window_ns, int64_t now_ns, double sum,
                      double sec)
{
    size_t i;

    window_forward(w, slot_of(window_ns, now_ns));
    i = (size_t)(w->slot % ALERT_SLOTS);
    w->sum[i] += sum;
    w->sec[i] += sec;
}

void alert_window_read(struct alert_window *w, int64_t window_ns, int64_t now_ns, double *out_sum,
                       double *out_sec)
{
    double sum = 0, sec = 0;

    window_forward(w, slot_of(window_ns, now_ns));
    for (size_t i = 0; i < ALERT_SLOTS; i++) {
        sum += w->sum[i];
        sec += w->sec[i];
    }
    *out_sum = sum;
    *out_sec = sec;
}
