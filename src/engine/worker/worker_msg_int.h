/* SPDX-License-Identifier: MIT */
/* worker_msg: what a process and its worker say to each other besides batches: one packet a
 * message, of one size each way.
 *
 *   owner ─ setup, with the ring's descriptor ─► worker
 *         ◄─ hello: what devices there are ──────
 *         ─ load | unload | memory, a number ──►
 *         ◄─ reply, with that number ───────────
 *
 * The worker is our own program, but what runs in it is a driver's too: the owner believes
 * nothing it has not checked. */
#ifndef ENGINE_WORKER_WORKER_MSG_INT_H
#define ENGINE_WORKER_WORKER_MSG_INT_H
#include "engine/worker/worker.h"
#include "os/worker/fd_message.h"

enum {
    MSG_DIR_MAX = 4096, /* bytes of a folder's name and its NUL */
    MSG_WORD_MAX = 32,
    MSG_TEXT_MAX = 128,
    MSG_DEVICES_MAX = 1024 /* of one kind */
};

enum msg_kind { MSG_SETUP = 1, MSG_LOAD, MSG_UNLOAD, MSG_MEMORY, MSG_HELLO, MSG_REPLY };

struct msg_request { /* to the worker */
    uint32_t magic, kind, number, handle;
    uint32_t dtype, pool, normalize;
    int32_t threads;
    uint32_t invariant, timed; /* 0 or 1 */
    char device[WORKER_DEVICE_MAX];
    char isa[MSG_WORD_MAX]; /* "": the best */
    char dir[MSG_DIR_MAX];
};

struct msg_response { /* from the worker */
    uint32_t magic, kind, number;
    int32_t rc;
    uint64_t bytes;    /* of memory */
    uint64_t identity; /* of load: differs when the files do */
    int32_t score;     /* of hello, as what follows */
    uint32_t count;
    char name[MSG_WORD_MAX], device_kind[MSG_TEXT_MAX];
    char describe[MSG_TEXT_MAX]; /* of load */
    char msg[ERR_MSG_MAX], hint[ERR_HINT_MAX];
};

/* All zero but for magic and kind. */
void msg_request_init(struct msg_request *m, enum msg_kind kind);
void msg_response_init(struct msg_response *m, enum msg_kind kind);
/* The options of a model and what of it is otherwise than its files say. */
enum rc msg_request_model(struct msg_request *m, const struct model *net, const struct eng_opts *o,
                          struct err *err) MUST_USE;
void msg_response_error(struct msg_response *m, enum rc rc, const struct err *err);

/* Packets as they came: false when they are not one. */
bool msg_request_read(const void *data, size_t len, struct msg_request *out);
bool msg_response_read(const void *data, size_t len, struct msg_response *out);
/* The answer's code, with its words in *err. */
enum rc msg_response_rc(const struct msg_response *m, struct err *err);

#endif
