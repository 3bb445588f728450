/* SPDX-License-Identifier: MIT */
/* worker_main: the process of one device.
 *
 *   main thread      batches from the ring, in order, to the plug-in and back
 *   control thread   messages: loads and unloads models, counts their memory
 *
 * Every call of the plug-in is named in the shared page before it is made, and the main thread
 * beats there whenever it gets round.  A call that does not return is the owner's to see; here
 * nothing has a deadline.  The process ends when its socket closes: at once, in the middle of
 * whatever it does, since nobody is left to be told. */
#include "base/mem.h"
#include "base/str.h"
#include "engine/engine_int.h"
#include "engine/plugin_int.h"
#include "engine/worker/worker.h"
#include "engine/worker/worker_msg_int.h"
#include "engine/worker/worker_ring_int.h"
#include "model/files/files.h"

#include <assert.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    MAIN_SPIN_NS = 100000,   /* after a batch: the next one often comes soon */
    MAIN_SETUP_MS = 10000,   /* for the first message */
    MAIN_STATUS_SETUP = 2,   /* exit: that did not come */
    MAIN_STATUS_MESSAGE = 3, /* exit: another one cannot be understood */
    MAIN_STATUS_DEVICE = 4   /* exit: the device is lost to this process */
};

struct loaded_model {
    uint32_t handle;
    struct model *model;
    struct eng *eng;
    size_t uses; /* batches */
};

struct plugin_batch { /* a batch that the plug-in has */
    uint32_t ticket;
    struct loaded_model *model;
};

struct proc {
    int sock;
    struct wring ring;
    char device[WORKER_DEVICE_MAX];
    const struct eng_ops *ops;
    pthread_mutex_t lock;  /* of models and their uses */
    pthread_cond_t unused; /* one of them */
    struct loaded_model *models[WORKER_MODELS_MAX];
    size_t model_count;
    struct plugin_batch flying[ENG_IN_FLIGHT]; /* the main thread's, oldest first */
    size_t flying_count;
};

static void NORETURN leave_process(int status)
{
    _exit(status); /* no destructor of a driver's library runs: it might not return */
}

/* ---- models */

/* With one use more for who takes it for a batch. */
static struct loaded_model *find_model(struct proc *p, uint32_t handle, bool use)
{
    struct loaded_model *found = NULL;

    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; !found && i < p->model_count; i++)
        if (p->models[i]->handle == handle)
            found = p->models[i];
    if (found)
        found->uses += use;
    pthread_mutex_unlock(&p->lock);
    return found;
}

static void unuse_model(struct proc *p, struct loaded_model *m)
{
    pthread_mutex_lock(&p->lock);
    if (!--m->uses)
        pthread_cond_signal(&p->unused);
    pthread_mutex_unlock(&p->lock);
}

static void loaded_free(struct loaded_model *m)
{
    eng_free(m->eng);
    model_close(m->model);
    free(m);
}

/* As the owner has it: what its options change, and no more. */
static enum rc open_model(struct proc *p, const struct msg_request *request, struct model **out,
                          struct err *err)
{
    wring_beat(&p->ring, WRING_CONTROL, WORKER_OPEN_MODEL);
    enum rc rc = model_open(request->dir, out, err);
    if (rc == RC_OK) {
        (*out)->pool = (enum model_pool)request->pool;
        (*out)->normalize = request->normalize;
    }
    return rc;
}

static struct eng_opts opts_of(const struct msg_request *request)
{
    return (struct eng_opts){ .device = request->device,
                              .dtype = (enum eng_dtype)request->dtype,
                              .threads = request->threads,
                              .isa = request->isa[0] ? request->isa : NULL,
                              .invariant = request->invariant,
                              .timed = request->timed };
}

/* Weights that were written while they were read may be half of the one and half of the other.
 * Their identity is what is in them: a model that is loaded again after a loss of the process must
 * be the same, whatever the times of its files say. */
static enum rc read_model(struct proc *p, const struct msg_request *request, struct loaded_model *m,
                          uint64_t *identity, struct err *err)
{
    struct eng_opts o = opts_of(request);
    struct files *before = NULL, *after = NULL;
    struct files_task *sums = NULL;
    uint8_t digest[SHA256_BYTES];
    enum rc rc = files_look(request->dir, &before, err);

    if (rc == RC_OK)
        rc = open_model(p, request, &m->model, err);
    if (rc == RC_OK) {
        sums = files_sum_begin(before, m->model, NULL);
        wring_beat(&p->ring, WRING_CONTROL, WORKER_LOAD);
        rc = p->ops->load(m->model, &o, &m->eng, err);
    }
    if (rc == RC_OK)
        rc = files_sum_end(sums, err);
    else
        files_sum_drop(sums);
    if (rc == RC_OK)
        rc = files_look(request->dir, &after, err);
    if (rc == RC_OK && files_differ(before, after))
        rc = err_set(err, RC_FAIL, "file '%s' changed while the model was loading",
                     files_differ(before, after));
    if (rc == RC_OK) {
        files_digest(before, digest);
        memcpy(identity, digest, sizeof(*identity));
        st_close(m->model->tensors);
        m->model->tensors = NULL;
    }
    files_free(before);
    files_free(after);
    (void)malloc_trim(0);
    return rc;
}

static enum rc load_model(struct proc *p, const struct msg_request *request, struct msg_response *a,
                          struct err *err)
{
    struct loaded_model *m;
    enum rc rc;

    if (p->model_count == WORKER_MODELS_MAX || find_model(p, request->handle, false))
        return err_set(err, RC_LIMIT, "the worker has %zu models already", p->model_count);
    m = xcalloc(1, sizeof(*m));
    m->handle = request->handle;
    rc = read_model(p, request, m, &a->identity, err);
    if (rc != RC_OK) {
        loaded_free(m);
        return rc;
    }
    if (p->ops->describe)
        p->ops->describe(m->eng, a->describe, sizeof(a->describe));
    pthread_mutex_lock(&p->lock);
    p->models[p->model_count++] = m;
    pthread_mutex_unlock(&p->lock);
    return RC_OK;
}

static void unload_model(struct proc *p, uint32_t handle)
{
    struct loaded_model *m = find_model(p, handle, false);

    if (!m)
        return;
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->model_count; i++)
        if (p->models[i] == m)
            p->models[i] = p->models[--p->model_count];
    while (m->uses)
        pthread_cond_wait(&p->unused, &p->lock);
    pthread_mutex_unlock(&p->lock);
    wring_beat(&p->ring, WRING_CONTROL, WORKER_UNLOAD);
    loaded_free(m);
    (void)malloc_trim(0);
}

static enum rc count_memory(struct proc *p, const struct msg_request *request,
                            struct msg_response *a, struct err *err)
{
    struct eng_opts o = opts_of(request);
    struct model *m = NULL;
    enum rc rc = open_model(p, request, &m, err);

    if (rc != RC_OK)
        return rc;
    wring_beat(&p->ring, WRING_CONTROL, WORKER_MEMORY);
    a->bytes = p->ops->memory(m, &o);
    model_close(m);
    return RC_OK;
}

/* ---- the control thread */

static void send_answer(struct proc *p, const struct msg_request *request)
{
    struct err err = { 0 };
    struct msg_response a;
    enum rc rc = RC_OK;

    msg_response_init(&a, MSG_REPLY);
    a.number = request->number;
    if (request->kind == MSG_LOAD)
        rc = load_model(p, request, &a, &err);
    else if (request->kind == MSG_MEMORY)
        rc = count_memory(p, request, &a, &err);
    else if (request->kind == MSG_UNLOAD)
        unload_model(p, request->handle);
    if (rc != RC_OK)
        msg_response_error(&a, rc, &err);
    wring_beat(&p->ring, WRING_CONTROL, WORKER_IDLE);
    if (!fd_message_send(p->sock, &a, sizeof(a), -1))
        leave_process(0);
}

static void *control_main(void *arg)
{
    struct proc *p = arg;
    struct msg_request request, raw;

    for (;;) {
        ssize_t n = fd_message_receive(p->sock, &raw, sizeof(raw), NULL);

        if (n <= 0)
            leave_process(0);
        if (!msg_request_read(&raw, (size_t)n, &request))
            leave_process(MAIN_STATUS_MESSAGE);
        send_answer(p, &request);
    }
    return NULL;
}

/* ---- batches */

/* `m`: whose batch it was; NULL: nobody's. */
static void finish_batch(struct proc *p, uint32_t ticket, struct loaded_model *m, enum rc rc,
                         struct err *err)
{
    if (m)
        unuse_model(p, m);
    wring_beat(&p->ring, WRING_BATCHES, WORKER_IDLE);
    wring_finish(&p->ring, ticket, rc, rc == RC_OK ? NULL : err->msg);
    if (rc == RC_NODEV) {
        (void)fprintf(stderr, "the device is lost to this process: %s\n", err->msg);
        leave_process(MAIN_STATUS_DEVICE);
    }
}

static void land_batch(struct proc *p)
{
    struct plugin_batch f = p->flying[0];
    struct err err = { 0 };
    bool done = false;
    enum rc rc = RC_OK;

    p->flying_count--;
    memmove(p->flying, p->flying + 1, p->flying_count * sizeof(p->flying[0]));
    wring_beat(&p->ring, WRING_BATCHES, WORKER_COLLECT);
    while (!done && rc == RC_OK)
        rc = p->ops->collect(f.model->eng, &done, &err);
    finish_batch(p, f.ticket, f.model, rc, &err);
}

static enum rc check_batch(const struct loaded_model *m, const struct wring_work *w,
                           struct err *err)
{
    if (!m)
        return err_set(err, RC_FAIL, "the worker has no model %u", (unsigned)w->handle);
    if (w->width != eng_width(m->model, w->want))
        return err_set(err, RC_FAIL, "rows of model '%s' are %zu numbers wide, not %u",
                       m->model->name, eng_width(m->model, w->want), (unsigned)w->width);
    return RC_OK;
}

/* false: it has to be run whole. */
static bool submit_batch(struct proc *p, uint32_t ticket, const struct wring_work *w,
                         struct loaded_model *m)
{
    struct err err = { 0 };

    if (!p->ops->submit || !p->ops->collect)
        return false;
    wring_beat(&p->ring, WRING_BATCHES, WORKER_SUBMIT);
    enum rc rc = p->ops->submit(m->eng, &w->batch, w->want, w->out, &err);
    while (rc == RC_LIMIT && p->flying_count) {
        land_batch(p);
        err = (struct err){ 0 };
        wring_beat(&p->ring, WRING_BATCHES, WORKER_SUBMIT);
        rc = p->ops->submit(m->eng, &w->batch, w->want, w->out, &err);
    }
    if (rc == RC_LIMIT)
        return false;
    if (rc != RC_OK)
        finish_batch(p, ticket, m, rc, &err);
    else
        p->flying[p->flying_count++] = (struct plugin_batch){ .ticket = ticket, .model = m };
    return true;
}

static void begin_batch(struct proc *p, uint32_t ticket)
{
    struct loaded_model *m = NULL;
    struct wring_work w = { 0 };
    struct err err = { 0 };
    enum rc rc = wring_work(&p->ring, ticket, &w, &err);

    if (rc == RC_OK) {
        m = find_model(p, w.handle, true);
        rc = check_batch(m, &w, &err);
    }
    if (rc == RC_OK && submit_batch(p, ticket, &w, m))
        return;
    while (p->flying_count) /* tickets end in their order */
        land_batch(p);
    if (rc == RC_OK) {
        wring_beat(&p->ring, WRING_BATCHES, WORKER_RUN);
        rc = p->ops->run(m->eng, &w.batch, w.want, w.out, &err);
    }
    finish_batch(p, ticket, m, rc, &err);
}

static void NORETURN run_batches(struct proc *p)
{
    const int64_t spin = wring_may_spin() ? MAIN_SPIN_NS : WRING_SPIN_NS;
    uint32_t next = 0;

    for (;;) {
        bool room = p->flying_count < ENG_IN_FLIGHT, idle = !p->flying_count;

        if (room && wring_ready(&p->ring, next, idle ? spin : 0,
                                idle ? (int64_t)WORKER_BEAT_MS * 1000000 : 0))
            begin_batch(p, next++);
        else if (!idle)
            land_batch(p);
        else
            wring_beat(&p->ring, WRING_BATCHES, WORKER_IDLE);
    }
}

/* ---- the start */

static bool set_up(struct proc *p)
{
    struct pollfd ready = { .fd = p->sock, .events = POLLIN };
    struct msg_request raw, request;
    struct err err = { 0 };
    int fd = -1;

    if (poll(&ready, 1, MAIN_SETUP_MS) <= 0)
        return false;
    ssize_t n = fd_message_receive(p->sock, &raw, sizeof(raw), &fd);
    bool ok = n > 0 && msg_request_read(&raw, (size_t)n, &request) && request.kind == MSG_SETUP &&
              fd >= 0 && wring_open(fd, &p->ring, &err) == RC_OK;
    if (fd >= 0)
        close(fd);
    return ok && str_copy(p->device, sizeof(p->device), request.device);
}

/* What lists of processes show: "stoker-cuda:0". */
static void take_name(const char *device)
{
    char name[WORKER_DEVICE_MAX + 8];

    (void)snprintf(name, sizeof(name), "stoker-%s", device);
    (void)prctl(PR_SET_NAME, name);
}

static bool say_hello(struct proc *p)
{
    struct msg_response a;
    struct err err = { 0 };

    msg_response_init(&a, MSG_HELLO);
    wring_beat(&p->ring, WRING_BATCHES, WORKER_OPEN_PLUGIN);
    enum rc rc = plugin_engine(p->device, &p->ops, &err);
    if (rc != RC_OK) {
        msg_response_error(&a, rc, &err);
    } else {
        wring_beat(&p->ring, WRING_BATCHES, WORKER_ASK_DEVICES);
        size_t count = eng_ops_count(p->ops);
        a.score = eng_ops_score(p->ops);
        a.count = count < MSG_DEVICES_MAX ? (uint32_t)count : MSG_DEVICES_MAX;
        (void)str_copy(a.name, sizeof(a.name), p->ops->name);
        (void)str_copy(a.device_kind, sizeof(a.device_kind), eng_ops_kind(p->ops));
    }
    wring_beat(&p->ring, WRING_BATCHES, WORKER_IDLE);
    return fd_message_send(p->sock, &a, sizeof(a), -1) && rc == RC_OK;
}

int worker_main(int fd)
{
    /* the owner asks; a signal for its group or from its service manager would cut a batch */
    static const int ignored[] = { SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    struct proc *p = xcalloc(1, sizeof(*p));
    pthread_t control;

    for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
        (void)signal(ignored[i], SIG_IGN);
    p->sock = fd;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->unused, NULL);
    if (!set_up(p))
        return MAIN_STATUS_SETUP;
    take_name(p->device);
    if (!say_hello(p))
        leave_process(0);
    if (pthread_create(&control, NULL, control_main, p))
        return MAIN_STATUS_SETUP;
    run_batches(p);
}
