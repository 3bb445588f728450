/* SPDX-License-Identifier: MIT */
/* gpu_int: what the files of the GPU collector share.
 *
 *   gpu_child.c       the agent's side: starts the child, reads, watches, restarts
 *   gpu_hang_where.c  where the kernel has a process that does not go on
 *   gpu_page.c        the memory that both share
 *   gpu_main.c        the child's side: samples each period, sends
 *   gpu_sample.c      attaches and makes one sample
 *   gpu_batch.c       its values as series of the stream
 *   gpu_call.c        the one way to call the library: heartbeat, latency, negative cache
 *   gpu_table.c       which metric comes from which question, and how often
 *   gpu_query.c       the questions about one GPU and its MIG instances
 *   gpu_process.c     processes on the GPUs and whose they are
 *   gpu_owner.c       whose each GPU is, as labels of its metrics
 *   gpu_event.c       XIDs and what else the driver reports by itself
 *   gpu_once.c        one sample as JSON with the cost of each call
 *
 *        agent                                child (the same binary, re-executed)
 *     gpu_child_turn() <--- socketpair ---- stream of batches, events, documents
 *            |                                        |
 *            +------ shared page: call under way, counters, "end", GPUs to skip
 *
 * Invariants
 *  1. Only the child calls the library.  Before each call it writes into the page which one:
 *     a child that stops is known by its call.
 *  2. The agent never waits for the child and never kills it while it may hold a call: it asks,
 *     waits, then leaves it alone; GPU_ABANDONED_MAX of them at most, then no new child.  Only an
 *     agent that is killed takes its children along (the kernel sees to it).
 *  3. A counter continues across children and drivers: what the last child had is in the page.
 *  4. A call that a GPU does not support is made once. */
#ifndef TELEMETRY_GPU_GPU_INT_H
#define TELEMETRY_GPU_GPU_INT_H
#include "hw/nvml/nvml.h"
#include "telemetry/collect/collect.h"
#include "telemetry/gpu/gpu_child.h"
#include "telemetry/kmsg/kmsg.h"
#include "telemetry/record/stream.h"

#include <math.h>
#include <stdatomic.h>

enum {
    GPU_PERIOD_DEFAULT = 1000,  /* ms between samples */
    GPU_HANG_DEFAULT = 5000,    /* ms without a sign of life: hung */
    GPU_PERIOD_MS_MAX = 60000,  /* longest period */
    GPU_LIBRARY_MAX = 1024,     /* bytes of the library's path */
    GPU_REASON_MAX = 200,       /* bytes of the reason that a child leaves behind */
    GPU_UUID_MAX = 64,          /* bytes of a GPU's UUID */
    GPU_ABANDONED_MAX = 3,      /* children that hang and were left alone; then no new one */
    GPU_PROCESSES_MAX = 1024,   /* processes told a GPU */
    GPU_PROCESS_UTIL_MAX = 512, /* samples of processes' utilisation taken a call */
    GPU_OUT_MAX = 8 << 20       /* bytes of one sample */
};

/* ---- calls (gpu_call.c) ---- */
enum gpu_call {
#define GPU_CALL_ENUM(name, params) GPU_CALL_##name,
    NVML_CALLS(GPU_CALL_ENUM)
#undef GPU_CALL_ENUM
        GPU_CALL_LOAD, /* loading the library runs its code */
    GPU_CALL_OWNER,    /* reading /proc of a process on a GPU */
    GPU_CALL_SEND,     /* the agent does not read */
    GPU_CALL_IDLE,     /* between samples */
    GPU_CALL_COUNT
};
const char *gpu_call_name(unsigned call); /* "nvmlInit_v2"; "?" beyond the last */

/* ---- rows (gpu_table.c) ---- */
enum gpu_pace { GPU_FAST, GPU_MEDIUM, GPU_SLOW, GPU_PACES }; /* every 1st, 5th, 30th sample */

enum gpu_row {
#define GPU_ROW(name, id) GPU_ROW_##name,
#define GPU_LINK_ROW(name, id)
#include "telemetry/gpu/gpu_rows.h"
    GPU_ROW_COUNT
};
enum gpu_link_row {
#define GPU_ROW(name, id)
#define GPU_LINK_ROW(name, id) GPU_LINK_##name,
#include "telemetry/gpu/gpu_rows.h"
    GPU_LINK_ROWS
};
extern const char *const gpu_row_ids[GPU_ROW_COUNT];
extern const char *const gpu_link_row_ids[GPU_LINK_ROWS];

struct gpu_field { /* a number that nvmlDeviceGetFieldValues tells */
    unsigned short id;
    unsigned char row; /* gpu_row or gpu_link_row */
    unsigned char pace;
    bool carry;    /* a counter that must not go back */
    bool all;      /* asked of all links together */
    double factor; /* from the driver's unit to ours */
};
enum { GPU_FIELDS_MAX = 48 }; /* fields asked in one call */
extern const struct gpu_field gpu_fields[];
extern const size_t gpu_fields_count;
extern const struct gpu_field gpu_link_fields[]; /* each of one link */
extern const size_t gpu_link_fields_count;

struct gpu_gpm_row {
    unsigned short id;
    unsigned char row;
    double factor;
};
extern const struct gpu_gpm_row gpu_gpm_rows[];
extern const size_t gpu_gpm_rows_count;

/* ---- the shared page (gpu_page.c) ---- */
struct gpu_carry_value {
    double last, base; /* as the driver told it last; what earlier drivers had counted */
};
struct gpu_carry { /* what must outlive a child, of one GPU */
    char uuid[GPU_UUID_MAX];
    struct gpu_carry_value rows[GPU_ROW_COUNT];
    struct gpu_carry_value links[NVML_NVLINK_MAX_LINKS][GPU_LINK_ROWS];
    int recovery; /* action told last */
    bool lost;    /* told as an event already */
};

enum { GPU_PAGE_MAGIC = 0x53544b47, GPU_NO_GPU = 0xff, GPU_NO_SUB = 0xfff };
struct gpu_page {
    /* the agent's, written before the child starts */
    unsigned magic;
    int period_ms;
    char library[GPU_LIBRARY_MAX]; /* "": the usual one */
    char root[ROOT_PATH_MAX];      /* "": what the child was given */
    /* the agent's, at any time */
    atomic_uint end;    /* the child is asked to end */
    atomic_ullong skip; /* a bit a GPU: do not touch it, a call of it hangs */
    /* the child's */
    atomic_ullong beat;          /* steps << 32 | call << 20 | gpu << 12 | sub */
    char reason[GPU_REASON_MAX]; /* why it ended */
    struct gpu_carry carry[NVML_GPUS_MAX];
};
static_assert(GPU_CALL_COUNT < 4096, "fits into a beat");
static_assert((int)NVML_GPUS_MAX < (int)GPU_NO_GPU, "fits into a beat");

struct gpu_step { /* a beat, taken apart */
    unsigned steps, call;
    int gpu; /* -1: none */
    int sub; /* -1: none */
};
struct gpu_step gpu_page_step(const struct gpu_page *p);
void gpu_step_text(struct gpu_step s, char *out, size_t cap); /* "nvmlInit_v2()" */
/* A page in memory that a descriptor names, for a child; -1: no memory.  `old` gives what is
 * carried over; NULL: nothing. */
int gpu_page_new(const struct gpu_child_opts *o, const struct gpu_page *old, struct gpu_page **out);
void gpu_page_unmap(struct gpu_page *p); /* NULL is fine */
/* The descriptor over the socket; the child maps it. */
bool gpu_page_send(int sock, int fd);
struct gpu_page *gpu_page_receive(int sock, int timeout_ms); /* NULL: none came */

enum { /* exit statuses of a child */
       GPU_EXIT_ASKED = 0,
       GPU_EXIT_NO_DRIVER = 10,
       GPU_EXIT_SKEW = 11,    /* library and module are of two versions */
       GPU_EXIT_RELOADED = 12 /* the driver went away underneath */
};

/* ---- inside the child ---- */
struct gpu_call_stat {
    unsigned long long count;
    int64_t sum_ns;
    int64_t peak_ns; /* since the last batch */
    int64_t max_ns;
};

struct gpu_values {              /* of a GPU, a MIG instance */
    uint32_t ids[GPU_ROW_COUNT]; /* of the stream; TELEMETRY_NONE: not told yet */
    double v[GPU_ROW_COUNT];     /* NaN: unknown */
};

struct gpu_gpm { /* two samples taken in turn */
    struct nvml_gpm_sample *samples[2];
    bool have, unsupported;
    unsigned at;                /* index of the newest */
    int64_t began_ns, taken_ns; /* when it was asked for, when it was there */
};

struct gpu_mig {
    struct nvml_dev *dev;
    unsigned gi, ci;
    char profile[32]; /* "3g.71gb" */
    struct gpu_values values;
    struct gpu_gpm gpm;
};

struct gpu_link {
    uint32_t ids[GPU_LINK_ROWS];
    double v[GPU_LINK_ROWS];
};

enum { GPU_CALL_WORDS = (GPU_CALL_COUNT + 63) / 64 };

struct gpu_dev {
    unsigned index;
    struct nvml_dev *dev;             /* NULL: not attached */
    bool lost;                        /* fell off the bus, or cannot be opened */
    bool known;                       /* its labels are */
    bool told;                        /* as lost, before it was ever attached */
    int why;                          /* the code that says so */
    bool mig;                         /* MIG mode is on */
    bool migs_stale;                  /* an instance does not answer */
    unsigned retry_round;             /* when to attach it again */
    uint64_t refused[GPU_CALL_WORDS]; /* calls that it does not support */
    uint64_t no_fields;               /* a bit a row of gpu_fields */
    uint64_t no_link_fields;
    char name[96], uuid[GPU_UUID_MAX], bus[32], device[32];
    struct gpu_values values;
    struct gpu_gpm gpm;
    struct gpu_link *links; /* owned, link_count */
    unsigned link_count;
    double rate_kib, rate0_kib; /* sums of both directions, for the rates; NaN: none yet */
    int64_t rate_ns, rate0_ns;
    uint32_t lost_id;
    struct gpu_mig *migs; /* owned, mig_count */
    size_t mig_count;
    bool graphics;              /* it has a list of graphics processes */
    unsigned long long seen_us; /* newest sample of processes' utilisation */
    struct gpu_carry *carry;    /* in the page */
};

struct gpu_process {
    unsigned gpu, pid;
    int gi, ci;                      /* -1: none */
    double memory_bytes, sm, memory; /* NaN: unknown */
    bool graphics;
    bool seen;  /* in the sample that is being made */
    bool owned; /* owner is known */
    int64_t asked_ns;
    struct owner owner;
    uint32_t ids[2];  /* memory, utilisation */
    unsigned told[2]; /* round in which each was told last */
};

struct gpu_sampler {
    struct nvml_api api;
    struct arena arena;
    struct gpu_page *page;
    const struct root *root; /* NULL: this machine's is opened */
    struct root *own_root;
    struct gpu_dev gpus[NVML_GPUS_MAX];
    unsigned gpu_count;
    struct gpu_dev *gpu; /* being asked; NULL: the driver itself */
    char driver[64];
    unsigned steps; /* of the beat */
    uint64_t refused[GPU_CALL_WORDS];
    struct gpu_call_stat stats[GPU_CALL_COUNT];
    uint32_t stat_ids[GPU_CALL_COUNT][4];
    uint32_t count_ids[2];
    int64_t call_ns; /* when the call under way began */
    int fatal;       /* a code that ends this attachment; 0: none */
    bool ended;      /* asked to end: no call is made any more */
    unsigned round;  /* samples taken */
    bool attached;   /* a GPU was attached in this round */
    bool all_paces;  /* ask everything in each round */
    struct nvml_event_set *events;
    unsigned event_faults;
    bool events_off;
    struct gpu_process *processes; /* owned */
    size_t process_count, process_cap;
    unsigned process_ids; /* series of processes told so far */
    uint64_t document;    /* hash of the document sent last */
    uint64_t labels;      /* of that with the labels of GPUs */
    /* what is to be sent */
    struct buf out;
    struct stream_writer *writer;
    uint32_t next_id;
    uint32_t *batch_ids; /* owned */
    double *batch_values;
    size_t batch_count, batch_cap;
};

struct gpu_sampler *gpu_sampler_new(struct gpu_page *page, const struct root *root);
void gpu_sampler_free(struct gpu_sampler *s); /* lets the driver go */
/* Loads the library and attaches; an exit status, GPU_EXIT_ASKED: fine. */
int gpu_sampler_open(struct gpu_sampler *s);
/* One sample into s->out; false: this attachment is over (s->fatal). */
bool gpu_sampler_sample(struct gpu_sampler *s, int64_t now_ns);
bool gpu_due(const struct gpu_sampler *s, enum gpu_pace pace);
/* Tells how the GPU stands after a round or an attempt to attach it, when that changed. */
void gpu_tell_lost(struct gpu_sampler *s);

/* The one way to call the library, as ASK() of hw/nvml/nvml_int.h.  `sub` tells calls of one name
 * apart, -1: none. */
#define GPU_CALL(s, sub, fn, args)                                                                 \
    (gpu_call_begin((s), GPU_CALL_##fn, (sub), (s)->api.fn != NULL)                                \
         ? gpu_call_end((s), GPU_CALL_##fn, (s)->api.fn args)                                      \
         : NVML_ERROR_NOT_SUPPORTED)
bool gpu_call_begin(struct gpu_sampler *s, unsigned call, int sub, bool present);
int gpu_call_end(struct gpu_sampler *s, unsigned call, int rc);
void gpu_beat(struct gpu_sampler *s, unsigned call, int sub); /* a sign of life */
/* "Unknown Error (999)" */
const char *gpu_code_text(struct gpu_sampler *s, int rc, char *out, size_t cap);

/* gpu_query.c: of s->gpu */
bool gpu_attach(struct gpu_sampler *s, struct gpu_dev *g); /* false: it cannot be opened */
void gpu_query_all(struct gpu_sampler *s, int64_t now_ns);
void gpu_values_clear(struct gpu_values *v, bool ids);
double gpu_carry_on(struct gpu_carry_value *c, double raw); /* the counter, continued */
void gpu_gpm_release(struct gpu_sampler *s, struct gpu_gpm *g);

/* gpu_process.c */
void gpu_processes_begin(struct gpu_sampler *s);
void gpu_processes_query(struct gpu_sampler *s);
void gpu_processes_end(struct gpu_sampler *s); /* series and document */

/* A document, when it is another than the one of this hash. */
void gpu_document_send(struct gpu_sampler *s, const char *name, const struct buf *text,
                       uint64_t *io_hash);

/* gpu_owner.c: whose each GPU is, for the labels of its metrics */
void gpu_owners_send(struct gpu_sampler *s);

/* gpu_event.c */
void gpu_events_open(struct gpu_sampler *s);
void gpu_events_close(struct gpu_sampler *s);
/* Waits for at most `ms`; what came is in s->out.  False: there is nothing to wait on. */
bool gpu_events_wait(struct gpu_sampler *s, int ms);
void gpu_event_tell(struct gpu_sampler *s, enum telemetry_event_kind kind, int code,
                    const char *fmt, ...) PRINTF_LIKE(4, 5);
void gpu_recovery_check(struct gpu_sampler *s);

/* gpu_batch.c: series and their values */
enum { GPU_LABELS_MAX = 14 }; /* labels of a series of ours */
/* Labels of a GPU, of a MIG instance of it when `m` is given; how many. */
struct gpu_label_text {
    char index[12], gi[12], link[12];
};
size_t gpu_labels(const struct gpu_sampler *s, const struct gpu_dev *g, const struct gpu_mig *m,
                  struct gpu_label_text *text, struct telemetry_label *out);
/* The value of a series in this batch; `id` is made at first use.  NaN is left out. */
void gpu_put(struct gpu_sampler *s, uint32_t *id, const char *metric,
             const struct telemetry_label *labels, size_t count, double value);
void gpu_put_gpu(struct gpu_sampler *s, struct gpu_dev *g); /* all of one */
void gpu_put_driver(struct gpu_sampler *s);                 /* calls, number of GPUs */
void gpu_batch_send(struct gpu_sampler *s, int64_t now_ns); /* into s->out */

/* gpu_hang_where.c */
void gpu_hang_where(int pid, struct buf *out); /* "state D, in nvidia_ioctl, syscall 16 …" */

#endif
