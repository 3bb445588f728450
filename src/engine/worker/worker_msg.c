/* SPDX-License-Identifier: MIT */
/* worker_msg: packets between a process and its worker.  A packet is a struct as it is, since both
 * are one program; what comes in is checked field by field all the same, for a driver runs beside
 * the one that wrote it. */
#include "engine/worker/worker_msg_int.h"

#include "base/str.h"

#include <assert.h>

enum { MSG_MAGIC = 0x73746b6d };

/* ---- making */

void msg_request_init(struct msg_request *m, enum msg_kind kind)
{
    *m = (struct msg_request){ .magic = MSG_MAGIC, .kind = kind };
}

void msg_response_init(struct msg_response *m, enum msg_kind kind)
{
    *m = (struct msg_response){ .magic = MSG_MAGIC, .kind = kind };
}

enum rc msg_request_model(struct msg_request *m, const struct model *net, const struct eng_opts *o,
                          struct err *err)
{
    static_assert(sizeof(struct eng_opts) == 40, "an option that is new must travel too");
    if (!str_copy(m->dir, sizeof(m->dir), net->dir) ||
        !str_copy(m->isa, sizeof(m->isa), o->isa ? o->isa : "") ||
        !str_copy(m->device, sizeof(m->device), o->device ? o->device : ""))
        return err_set(err, RC_LIMIT, "folder '%.200s…' has a name that is too long", net->dir);
    m->dtype = (uint32_t)o->dtype;
    m->threads = o->threads;
    m->invariant = o->invariant;
    m->timed = o->timed;
    m->pool = (uint32_t)net->pool;
    m->normalize = net->normalize;
    return RC_OK;
}

void msg_response_error(struct msg_response *m, enum rc rc, const struct err *err)
{
    m->rc = (int32_t)rc;
    (void)str_copy(m->msg, sizeof(m->msg), err->msg);
    (void)str_copy(m->hint, sizeof(m->hint), err->hint);
}

/* ---- reading */

static bool ends_within(const char *s, size_t cap)
{
    return memchr(s, '\0', cap) != NULL;
}

bool msg_request_read(const void *data, size_t len, struct msg_request *out)
{
    struct msg_request m;

    if (len != sizeof(m))
        return false;
    memcpy(&m, data, sizeof(m));
    if (m.magic != MSG_MAGIC || m.kind < MSG_SETUP || m.kind > MSG_MEMORY ||
        m.dtype >= ENG_DTYPES || m.pool > MODEL_POOL_WEIGHTED || m.normalize > 1 || m.threads < 0 ||
        m.invariant > 1 || m.timed > 1 || !ends_within(m.device, sizeof(m.device)) ||
        !ends_within(m.isa, sizeof(m.isa)) || !ends_within(m.dir, sizeof(m.dir)))
        return false;
    *out = m;
    return true;
}

bool msg_response_read(const void *data, size_t len, struct msg_response *out)
{
    struct msg_response m;

    if (len != sizeof(m))
        return false;
    memcpy(&m, data, sizeof(m));
    if (m.magic != MSG_MAGIC || m.kind < MSG_HELLO || m.kind > MSG_REPLY || m.rc > RC_OK ||
        m.rc < RC_TIMEOUT || m.count > MSG_DEVICES_MAX)
        return false;
    char *const texts[] = { m.name, m.device_kind, m.describe, m.msg, m.hint };
    const size_t sizes[] = { sizeof(m.name), sizeof(m.device_kind), sizeof(m.describe),
                             sizeof(m.msg), sizeof(m.hint) };
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        if (!ends_within(texts[i], sizes[i]))
            return false;
        str_make_text(texts[i]);
    }
    *out = m;
    return true;
}

enum rc msg_response_rc(const struct msg_response *m, struct err *err)
{
    if (m->rc == RC_OK)
        return RC_OK;
    if (m->hint[0])
        err_hint(err, "%s", m->hint);
    return err_set(err, (enum rc)m->rc, "%s", m->msg[0] ? m->msg : "it gave no reason");
}
