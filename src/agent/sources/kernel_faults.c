/* SPDX-License-Identifier: MIT */
/* kernel_faults: what the kernel's log tells, judged once.
 *
 * The log holds what happened since the machine began, the agent may have been down in between, and
 * every start reads all of it again.  The history says what an earlier run has told: events of its
 * last FAULTS_OVERLAP_MS are compared, what is older than that was told.  What is left happened
 * since the last second that was shown, and counts as what happens now: XIDs (xid_merge.c), SXids
 * and faults of hardware and kernel (kmsg_fault.c).  Without a history the start is the line.
 *
 * XIDs name a GPU by its address.  For the first seconds, until the driver has said which GPU that
 * is, they wait. */
#include "agent/agent_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <stdlib.h>

enum {
    FAULTS_PAST_MAX = 4096,    /* events of an earlier run that are compared */
    FAULTS_HELD_MAX = 256,     /* events that wait for the driver */
    FAULTS_HOLD_MS = 15000,    /* so long */
    FAULTS_OVERLAP_MS = 30000, /* longer than an event waits */
    FAULTS_SAME_MS = 5000,     /* the clock may have been set between two runs */
    FAULTS_FOLLOWS_MS = 1000,  /* a device's own line behind the one that announced it */
    FAULTS_COUNTS_MAX = 256    /* pairs of a fault and a device */
};

struct past_event {
    struct telemetry_event e;
    bool used;
};
struct fault_count {
    enum kmsg_fault_kind kind;
    char device[KMSG_DEVICE_MAX];
    double total;
    bool announced; /* by its port, at announced_ns; the device's own line has not come */
    int64_t announced_ns;
};
struct sxid_count {
    int code;
    bool fatal;
    char bdf[24];
    double total;
};
struct faults {
    int64_t begun_ns;        /* of this run */
    int64_t told_ns;         /* what is older was told by an earlier run */
    int64_t judged_ns;       /* what is older is not counted */
    struct past_event *past; /* owned */
    size_t past_count, past_cap;
    struct telemetry_event *held; /* owned */
    size_t held_count, held_cap;
    bool released; /* none waits any more */
    struct fault_count counts[FAULTS_COUNTS_MAX];
    size_t count;
    struct sxid_count sxids[FAULTS_COUNTS_MAX];
    size_t sxid_count;
};

struct faults *faults_new(void)
{
    struct faults *f = xcalloc(1, sizeof(*f));

    f->told_ns = f->judged_ns = INT64_MIN;
    return f;
}

void faults_free(struct faults *f)
{
    if (!f)
        return;
    free(f->past);
    free(f->held);
    free(f);
}

/* ---- what an earlier run told */

static bool keep_past(void *arg, const struct telemetry_event *e)
{
    struct faults *f = arg;

    if (f->past_count == FAULTS_PAST_MAX)
        return false;
    VEC_GROW(f->past, f->past_count, f->past_cap);
    f->past[f->past_count++] = (struct past_event){ .e = *e };
    return true;
}

void faults_begin(struct agent *a)
{
    struct faults *f = a->faults;
    struct history_stats st = { 0 };
    int64_t last;

    f->begun_ns = a->begun_wall_ns;
    if (a->player)
        return;
    f->judged_ns = f->begun_ns;
    if (!a->ring)
        return;
    history_stats(a->ring, &st);
    f->judged_ns = INT64_MIN;
    if (!st.newest_ns)
        return; /* nothing was shown yet: all that the log has is new */
    last = st.newest_ns < f->begun_ns ? st.newest_ns : f->begun_ns;
    f->told_ns = f->judged_ns = last - FAULTS_OVERLAP_MS * AGENT_MS;
    (void)!history_events(a->ring, f->told_ns - FAULTS_SAME_MS * AGENT_MS, INT64_MAX, keep_past, f,
                          NULL);
}

void faults_clock_set(struct agent *a, int64_t by_ns)
{
    struct faults *f = a->faults;

    f->begun_ns += by_ns;
    if (f->told_ns != INT64_MIN)
        f->told_ns += by_ns;
    if (f->judged_ns != INT64_MIN)
        f->judged_ns += by_ns;
}

/* Codes are the same by number: the words of one may name a GPU or a job now.  Other lines of the
 * log are by their text. */
static bool same_event(const struct telemetry_event *a, const struct telemetry_event *b)
{
    if (llabs(a->time_ns - b->time_ns) > FAULTS_SAME_MS * AGENT_MS)
        return false;
    return a->code || b->code ? a->code == b->code : str_eq(a->text, b->text);
}

/* An event of the log that was there before us. */
static bool was_told(struct agent *a, const struct telemetry_event *e)
{
    struct faults *f = a->faults;

    if (a->player || e->time_ns >= f->begun_ns)
        return false;
    if (e->time_ns < f->told_ns)
        return true;
    for (size_t i = 0; i < f->past_count; i++)
        if (!f->past[i].used && same_event(&f->past[i].e, e)) {
            f->past[i].used = true;
            return true;
        }
    return false;
}

bool faults_judged(const struct agent *a, int64_t time_ns)
{
    return time_ns >= a->faults->judged_ns;
}

/* ---- what waits for the driver */

static bool driver_is_known(const struct agent *a)
{
    int state = atomic_load(&a->gpu_state);

    return a->player || !a->gpu || xids_know_gpus(a) || state == GPU_CHILD_HUNG ||
           state == GPU_CHILD_NO_DRIVER || state == GPU_CHILD_RELEASED ||
           clock_mono_ns() - a->begun_ns > FAULTS_HOLD_MS * AGENT_MS;
}

static bool names_gpu(const struct telemetry_event *e)
{
    return e->kind == TELEMETRY_EVENT_XID || e->kind == TELEMETRY_EVENT_RECOVERY ||
           e->kind == TELEMETRY_EVENT_GPU;
}

/* ---- counts */

/* Of one PCIe error the port tells first, then, not always, the device: it counts once. */
static bool follows_its_announcement(struct fault_count *c, const struct kmsg_fault *f,
                                     int64_t time_ns)
{
    bool follows = !f->announced && c->announced &&
                   llabs(time_ns - c->announced_ns) <= FAULTS_FOLLOWS_MS * AGENT_MS;

    if (f->announced)
        c->announced_ns = time_ns;
    c->announced = f->announced;
    return follows;
}

static void count_fault(struct faults *x, const struct telemetry_event *e)
{
    struct kmsg_fault f;
    size_t i = 0;

    if (!kmsg_fault(e->text, &f))
        return;
    while (i < x->count && !(x->counts[i].kind == f.kind && str_eq(x->counts[i].device, f.device)))
        i++;
    if (i == FAULTS_COUNTS_MAX)
        return;
    if (i == x->count) {
        x->counts[x->count++] = (struct fault_count){ .kind = f.kind };
        (void)str_copy(x->counts[i].device, sizeof(x->counts[i].device), f.device);
    }
    if (!follows_its_announcement(&x->counts[i], &f, e->time_ns))
        x->counts[i].total += f.count;
}

static void count_sxid(struct faults *x, const struct telemetry_event *e, const char *bdf)
{
    bool fatal = kmsg_sxid_fatal(e->code, e->text);
    size_t i = 0;

    while (i < x->sxid_count && !(x->sxids[i].code == e->code && x->sxids[i].fatal == fatal &&
                                  str_eq(x->sxids[i].bdf, bdf)))
        i++;
    if (i == FAULTS_COUNTS_MAX)
        return;
    if (i == x->sxid_count) {
        x->sxids[x->sxid_count++] = (struct sxid_count){ .code = e->code, .fatal = fatal };
        (void)str_copy(x->sxids[i].bdf, sizeof(x->sxids[i].bdf), bdf);
    }
    x->sxids[i].total++;
}

void faults_put(struct agent *a)
{
    const struct faults *x = a->faults;

    for (size_t i = 0; i < x->count; i++) {
        struct telemetry_label l[] = { { "fault", kmsg_fault_word(x->counts[i].kind) },
                                       { "device", x->counts[i].device } };

        status_put(a, "host.kernel.faults", l, 2, x->counts[i].total);
    }
    for (size_t i = 0; i < x->sxid_count; i++) {
        char code[12];
        struct telemetry_label l[] = { { "pci_bus_id", x->sxids[i].bdf },
                                       { "sxid", code },
                                       { "fatal", x->sxids[i].fatal ? "yes" : "no" } };

        snprintf(code, sizeof(code), "%d", x->sxids[i].code);
        status_put(a, "switch.sxid.total", l, 3, x->sxids[i].total);
    }
}

/* ---- an event on its way */

/* Whose work it hit, behind the words that it has. */
static void add_whose(struct agent *a, struct telemetry_event *e)
{
    struct alert_whose w;
    char who[TELEMETRY_VALUE_MAX / 2];
    size_t len = strlen(e->text);

    if (e->gpu < 0 || e->kind == TELEMETRY_EVENT_ALERT || e->kind == TELEMETRY_EVENT_AGENT ||
        !gpu_users_find(a->gpu_users, e->gpu, e->time_ns, &w))
        return;
    gpu_users_text(&w, who, sizeof(who));
    if (!who[0])
        return;
    if (len + strlen(who) + 4 > sizeof(e->text)) { /* the log's own words are the longest */
        len = sizeof(e->text) - strlen(who) - 4;
        e->text[len] = '\0';
    }
    (void)snprintf(e->text + len, sizeof(e->text) - len, " (%s)", who);
    str_make_text(e->text);
}

static void judge_event(struct agent *a, struct telemetry_event *e, bool of_log)
{
    bool fresh = faults_judged(a, e->time_ns);
    char bdf[24] = "";

    if (of_log && was_told(a, e))
        return;
    if (of_log && e->kind == TELEMETRY_EVENT_SXID && !a->player) {
        kmsg_locate(a->shown, e, bdf);
        if (fresh)
            count_sxid(a->faults, e, bdf);
    }
    if (of_log && e->kind == TELEMETRY_EVENT_KERNEL && !a->player && fresh)
        count_fault(a->faults, e);
    if (!xids_take(a, e, of_log))
        return;
    if (!a->player)
        add_whose(a, e);
    agent_take_event(a, e);
}

void faults_take(struct agent *a, struct telemetry_event *e, bool of_log)
{
    struct faults *f = a->faults;

    if (of_log && names_gpu(e) && !f->released && f->held_count < FAULTS_HELD_MAX &&
        !driver_is_known(a)) {
        VEC_GROW(f->held, f->held_count, f->held_cap);
        f->held[f->held_count++] = *e;
        return;
    }
    judge_event(a, e, of_log);
}

void faults_turn(struct agent *a, bool end)
{
    struct faults *f = a->faults;

    if (f->released || (!end && !driver_is_known(a)))
        return;
    f->released = true;
    for (size_t i = 0; i < f->held_count; i++)
        judge_event(a, &f->held[i], true);
    f->held_count = 0;
}
