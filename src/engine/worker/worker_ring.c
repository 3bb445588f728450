/* SPDX-License-Identifier: MIT */
#include "engine/worker/worker_ring_int.h"

#include "base/str.h"
#include "os/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdalign.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    WRING_MAGIC = 0x73746b72,
    WRING_LINE = 64, /* bytes of a cache line: what two sides write stands apart */
    WRING_GROW_BYTES = 1 << 20,
    WRING_LOOKS = 64, /* between two looks at the clock */
    WRING_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL
};

enum slot_state { SLOT_FREE, SLOT_READY, SLOT_DONE };

struct wring_slot {
    alignas(WRING_LINE) _Atomic uint32_t state;
    uint32_t ticket, handle, want, width, sequences, tokens; /* the owner's */
    uint32_t typed, skipping;
    alignas(WRING_LINE) int32_t rc; /* the worker's */
    char why[WRING_TEXT_MAX];
};

struct wring_bell {
    alignas(WRING_LINE) _Atomic uint32_t rung;
    _Atomic uint32_t sleepers;
};

struct wring_page {
    uint32_t magic, bytes;
    struct wring_bell posted, finished; /* for the worker, for the owner */
    alignas(WRING_LINE) _Atomic uint64_t beats;
    _Atomic uint32_t calls[2]; /* of enum wring_thread */
    struct wring_slot slots[WRING_SLOTS];
};

#define PAGE_BYTES ((sizeof(struct wring_page) + 4095) & ~(size_t)4095)
#define SLOT_BYTES ((size_t)WRING_IN_BYTES + WRING_OUT_BYTES)
#define ALL_BYTES  (PAGE_BYTES + WRING_SLOTS * SLOT_BYTES)

static const char *const call_names[WORKER_CALLS] = {
    [WORKER_IDLE] = "waiting for work",
    [WORKER_START] = "its start",
    [WORKER_OPEN_PLUGIN] = "opening the plug-in",
    [WORKER_ASK_DEVICES] = "asking for devices",
    [WORKER_OPEN_MODEL] = "opening a model",
    [WORKER_LOAD] = "load",
    [WORKER_UNLOAD] = "unload",
    [WORKER_MEMORY] = "memory",
    [WORKER_RUN] = "run",
    [WORKER_SUBMIT] = "submit",
    [WORKER_COLLECT] = "collect",
};

const char *worker_call_name(uint32_t call)
{
    return call < WORKER_CALLS ? call_names[call] : "an unknown call";
}

bool wring_may_spin(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) >= WRING_SPIN_CPUS;
}

/* ---- life */

static struct wring_page *map_page(int fd)
{
    void *p = mmap(NULL, ALL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* The file is large and empty: what is not touched takes no memory. */
enum rc wring_new(struct wring *out, struct err *err)
{
    struct wring r = { .fd = memfd_create("stoker-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING) };

    if (r.fd < 0 || ftruncate(r.fd, (off_t)ALL_BYTES) || fcntl(r.fd, F_ADD_SEALS, WRING_SEALS) ||
        fallocate(r.fd, 0, 0, (off_t)PAGE_BYTES) || !(r.page = map_page(r.fd))) {
        enum rc rc = err_sys(err, "could not make memory for a worker");
        if (r.fd >= 0)
            close(r.fd);
        return rc;
    }
    r.page->magic = WRING_MAGIC;
    r.page->bytes = (uint32_t)PAGE_BYTES;
    *out = r;
    return RC_OK;
}

enum rc wring_open(int fd, struct wring *out, struct err *err)
{
    struct wring r = { .fd = -1 };
    struct stat st;

    if (fstat(fd, &st) || st.st_size != (off_t)ALL_BYTES || fcntl(fd, F_GET_SEALS) < 0 ||
        !(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK))
        return err_set(err, RC_PARSE, "what was handed over is not a worker's memory");
    r.page = map_page(fd);
    if (!r.page)
        return err_sys(err, "could not map the memory of a worker");
    if (r.page->magic != WRING_MAGIC || r.page->bytes != PAGE_BYTES) {
        wring_close(&r);
        return err_set(err, RC_PARSE, "a worker's memory is of another version");
    }
    *out = r;
    return RC_OK;
}

void wring_close(struct wring *r)
{
    if (!r->page)
        return;
    munmap(r->page, ALL_BYTES);
    if (r->fd >= 0)
        close(r->fd);
    *r = (struct wring){ .fd = -1 };
}

/* ---- where things lie */

static size_t in_at(size_t slot)
{
    return PAGE_BYTES + slot * SLOT_BYTES;
}

static size_t out_at(size_t slot)
{
    return in_at(slot) + WRING_IN_BYTES;
}

static size_t aligned_bytes(size_t bytes)
{
    return (bytes + WRING_LINE - 1) & ~(size_t)(WRING_LINE - 1);
}

struct layout { /* offsets in a slot's batch */
    size_t starts, skips, types, bytes, out_bytes;
};

/* false: it does not fit. */
static bool lay_out(const struct wring_slot *s, struct layout *out)
{
    uint64_t rows = s->want == ENG_TOKENS ? s->tokens : s->sequences;
    size_t tokens = s->tokens, sequences = s->sequences;

    if (!tokens || !sequences || sequences > tokens || tokens > WRING_IN_BYTES / sizeof(uint32_t) ||
        !s->width || s->width > WRING_WIDTH_MAX || s->want > ENG_TOKENS ||
        rows * s->width > WRING_OUT_BYTES / sizeof(float))
        return false;
    out->starts = aligned_bytes(tokens * sizeof(uint32_t));
    out->skips = out->starts + aligned_bytes((sequences + 1) * sizeof(uint32_t));
    out->types = out->skips + (s->skipping ? aligned_bytes(sequences * sizeof(uint32_t)) : 0);
    out->bytes = out->types + (s->typed ? aligned_bytes(tokens) : 0);
    out->out_bytes = (size_t)rows * s->width * sizeof(float);
    return out->bytes <= WRING_IN_BYTES;
}

static struct wring_slot head_of(const struct wring_post *p)
{
    const struct eng_batch *b = p->batch;
    bool fits = b->sequences && b->sequences < UINT32_MAX;

    return (struct wring_slot){ .handle = p->handle,
                                .want = (uint32_t)p->want,
                                .width = p->width,
                                .sequences = fits ? (uint32_t)b->sequences : 0,
                                .tokens = fits ? b->starts[b->sequences] : 0,
                                .typed = b->types != NULL,
                                .skipping = b->skip != NULL };
}

bool wring_fits(const struct wring_post *p)
{
    struct wring_slot head = head_of(p);
    struct layout at;

    return lay_out(&head, &at);
}

/* ---- bells */

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void bell_ring(struct wring_bell *b)
{
    atomic_fetch_add(&b->rung, 1);
    if (atomic_load(&b->sleepers))
        (void)syscall(SYS_futex, &b->rung, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Until the bell is no longer at `seen`, or so long. */
static void bell_sleep(struct wring_bell *b, uint32_t seen, int64_t ns)
{
    struct timespec t = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

    if (ns <= 0)
        return;
    atomic_fetch_add(&b->sleepers, 1);
    if (atomic_load(&b->rung) == seen)
        (void)syscall(SYS_futex, &b->rung, FUTEX_WAIT, seen, &t, NULL, 0);
    atomic_fetch_sub(&b->sleepers, 1);
}

/* ---- the owner */

/* Pages from the file for the first `need` bytes of a part. */
static enum rc have_pages(struct wring *r, size_t at, size_t need, size_t most, size_t *had,
                          struct err *err)
{
    size_t want = *had ? *had : WRING_GROW_BYTES;

    if (need <= *had)
        return RC_OK;
    while (want < need)
        want *= 2;
    want = want < most ? want : most;
    if (fallocate(r->fd, 0, (off_t)at, (off_t)want)) {
        err_hint(err, "%zu bytes were asked for.", want);
        return err_sys(err, "no memory for a batch");
    }
    *had = want;
    return RC_OK;
}

enum rc wring_post(struct wring *r, uint32_t ticket, const struct wring_post *p, struct err *err)
{
    size_t i = ticket % WRING_SLOTS;
    struct wring_slot *s = &r->page->slots[i], head = head_of(p);
    const struct eng_batch *b = p->batch;
    char *in = (char *)r->page + in_at(i);
    struct layout at;

    if (!lay_out(&head, &at))
        return err_set(err, RC_LIMIT,
                       "a batch of %zu sequences does not fit the memory that a "
                       "worker shares",
                       b->sequences);
    if (have_pages(r, in_at(i), at.bytes, WRING_IN_BYTES, &r->in_have[i], err) ||
        have_pages(r, out_at(i), at.out_bytes, WRING_OUT_BYTES, &r->out_have[i], err))
        return RC_LIMIT;
    memcpy(in, b->ids, head.tokens * sizeof(*b->ids));
    memcpy(in + at.starts, b->starts, (b->sequences + 1) * sizeof(*b->starts));
    if (b->skip)
        memcpy(in + at.skips, b->skip, b->sequences * sizeof(*b->skip));
    if (b->types)
        memcpy(in + at.types, b->types, head.tokens);
    s->ticket = ticket;
    s->handle = head.handle;
    s->want = head.want;
    s->width = head.width;
    s->sequences = head.sequences;
    s->tokens = head.tokens;
    s->typed = head.typed;
    s->skipping = head.skipping;
    atomic_store(&s->state, SLOT_READY);
    bell_ring(&r->page->posted);
    return RC_OK;
}

void wring_wake_owner(struct wring *r)
{
    bell_ring(&r->page->finished);
}

enum wring_end wring_await(struct wring *r, uint32_t ticket, const struct wring_patience *p)
{
    struct wring_slot *s = &r->page->slots[ticket % WRING_SLOTS];
    struct wring_bell *bell = &r->page->finished;
    int64_t begun = clock_mono_ns(), now = begun;

    for (unsigned looks = 1;; looks++) {
        uint32_t seen = atomic_load(&bell->rung);

        if (atomic_load(&s->state) == SLOT_DONE)
            return WRING_DONE;
        if (atomic_load(p->lost))
            return WRING_LOST;
        if (p->nudged && atomic_load(p->nudged) && atomic_exchange(p->nudged, false))
            return WRING_NUDGED;
        if (looks % WRING_LOOKS == 0)
            now = clock_mono_ns();
        if (now >= p->until_ns)
            return WRING_LATE;
        if (now - begun < p->spin_ns) {
            pause_cpu();
            continue;
        }
        bell_sleep(bell, seen, p->until_ns - now);
        now = clock_mono_ns();
    }
}

/* One large batch does not keep its pages. */
static void give_back(struct wring *r, size_t i)
{
    if (r->out_have[i] <= WRING_KEEP_BYTES)
        return;
    (void)fallocate(r->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t)(out_at(i) + WRING_KEEP_BYTES),
                    (off_t)(r->out_have[i] - WRING_KEEP_BYTES));
    r->out_have[i] = WRING_KEEP_BYTES;
}

static bool is_code(int32_t rc)
{
    return rc <= RC_OK && rc >= RC_TIMEOUT;
}

enum rc wring_take(struct wring *r, uint32_t ticket, float *out, size_t floats, struct err *err)
{
    size_t i = ticket % WRING_SLOTS;
    struct wring_slot *s = &r->page->slots[i];
    int32_t rc = s->rc;
    char why[WRING_TEXT_MAX];

    assert(floats <= WRING_OUT_BYTES / sizeof(*out));
    if (rc == RC_OK) {
        memcpy(out, (const char *)r->page + out_at(i), floats * sizeof(*out));
    } else {
        memcpy(why, s->why, sizeof(why));
        why[sizeof(why) - 1] = '\0';
        str_make_text(why);
        rc = err_set(err, is_code(rc) ? (enum rc)rc : RC_FAIL, "%.900s",
                     why[0] ? why : "it gave no reason");
    }
    give_back(r, i);
    atomic_store(&s->state, SLOT_FREE);
    return (enum rc)rc;
}

/* ---- the worker */

bool wring_ready(struct wring *r, uint32_t ticket, int64_t spin_ns, int64_t sleep_ns)
{
    struct wring_slot *s = &r->page->slots[ticket % WRING_SLOTS];
    struct wring_bell *bell = &r->page->posted;
    int64_t begun = spin_ns || sleep_ns ? clock_mono_ns() : 0, now = begun;

    for (unsigned looks = 1;; looks++) {
        uint32_t seen = atomic_load(&bell->rung);

        if (atomic_load(&s->state) == SLOT_READY && s->ticket == ticket)
            return true;
        if (looks % WRING_LOOKS == 0)
            now = clock_mono_ns();
        if (now - begun < spin_ns) {
            pause_cpu();
            continue;
        }
        if (now - begun - spin_ns >= sleep_ns)
            return false;
        bell_sleep(bell, seen, sleep_ns);
        now = clock_mono_ns();
    }
}

static bool starts_rise(const uint32_t *starts, size_t sequences, size_t tokens)
{
    bool rise = starts[0] == 0 && starts[sequences] == tokens;

    for (size_t i = 0; i < sequences; i++)
        rise &= starts[i] < starts[i + 1];
    return rise;
}

enum rc wring_work(struct wring *r, uint32_t ticket, struct wring_work *out, struct err *err)
{
    size_t i = ticket % WRING_SLOTS;
    const struct wring_slot *s = &r->page->slots[i];
    struct wring_slot head = { .handle = s->handle,
                               .want = s->want,
                               .width = s->width,
                               .sequences = s->sequences,
                               .tokens = s->tokens,
                               .typed = s->typed,
                               .skipping = s->skipping };
    char *in = (char *)r->page + in_at(i);
    struct layout at;

    if (!lay_out(&head, &at))
        return err_set(err, RC_PARSE, "a batch of %u sequences and %u tokens does not fit",
                       (unsigned)head.sequences, (unsigned)head.tokens);
    struct wring_work w = { .handle = head.handle,
                            .width = head.width,
                            .want = (enum eng_want)head.want,
                            .tokens = head.tokens,
                            .out = (float *)(void *)((char *)r->page + out_at(i)) };
    w.batch = (struct eng_batch){
        .ids = (const uint32_t *)(void *)in,
        .starts = (const uint32_t *)(void *)(in + at.starts),
        .sequences = head.sequences,
        .skip = head.skipping ? (const uint32_t *)(void *)(in + at.skips) : NULL,
        .types = head.typed ? (const uint8_t *)(in + at.types) : NULL,
    };
    if (!starts_rise(w.batch.starts, w.batch.sequences, w.tokens))
        return err_set(err, RC_PARSE, "the sequences of a batch do not follow one another");
    *out = w;
    return RC_OK;
}

void wring_finish(struct wring *r, uint32_t ticket, enum rc rc, const char *why)
{
    struct wring_slot *s = &r->page->slots[ticket % WRING_SLOTS];

    s->rc = (int32_t)rc;
    (void)snprintf(s->why, sizeof(s->why), "%s", why ? why : "");
    atomic_store(&s->state, SLOT_DONE);
    bell_ring(&r->page->finished);
}

/* ---- heartbeat */

void wring_beat(struct wring *r, enum wring_thread who, enum worker_call call)
{
    atomic_store_explicit(&r->page->calls[who], (uint32_t)call, memory_order_relaxed);
    if (who == WRING_BATCHES)
        atomic_fetch_add_explicit(&r->page->beats, 1, memory_order_relaxed);
}

uint64_t wring_beats(const struct wring *r)
{
    return atomic_load_explicit(&r->page->beats, memory_order_relaxed);
}

uint32_t wring_call(const struct wring *r, enum wring_thread who)
{
    return atomic_load_explicit(&r->page->calls[who], memory_order_relaxed);
}
