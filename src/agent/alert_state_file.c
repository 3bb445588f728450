/* SPDX-License-Identifier: MIT */
/* alert_state_file: the file of what fires, so that a restart is none for who was told.
 *
 * FILE.alert_state lies beside the history and belongs to who has that open; the lines are
 * alert_keep.c's.  It is written whole and renamed at the end of a second in which an alert fired
 * or ended, or a receiver was told, and once more when the sender has stopped: what kill -9 loses
 * of it is told again, never left out. */
#include "agent/agent_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "os/clock.h"
#include "os/file.h"

#include <stdlib.h>
#include <unistd.h>

enum { FIRING_RETRY_MS = 60000 }; /* after a file that could not be written */

struct alert_state_file {
    char path[FILE_PATH_MAX];
    char moved[FILE_PATH_MAX]; /* where a damaged one is; "": there was none */
    uint64_t changes;          /* of the sender, when it was written */
    int64_t next_ns;           /* monotonic: not before */
    bool dirty;                /* an alert has fired or ended since */
    bool quiet;                /* the fault was logged */
};

static void write_file(struct agent *a, struct alert_state_file *f)
{
    uint64_t changes = a->sender ? alert_sender_changes(a->sender) : 0;
    struct buf text = { 0 };
    struct err err = { 0 };
    struct file_new to;
    enum rc rc = RC_OK;

    alert_keep_write(a->alerts, a->sender, a->shown, &text);
    if (text.len || file_exists(f->path)) {
        rc = file_new_open_mode(&to, f->path, FILE_MODE_GROUP, &err);
        if (rc == RC_OK)
            rc = file_new_close(&to, file_write(to.fd, f->path, buf_str(&text), text.len, &err),
                                &err);
    }
    f->next_ns = clock_mono_ns();
    if (rc == RC_OK) {
        f->changes = changes;
        f->dirty = f->quiet = false;
        f->next_ns += (int64_t)(text.len >> 20) * 1000 * AGENT_MS; /* a long one not each second */
    } else {
        if (!f->quiet)
            log_warn("%s; a restart would forget what fires", err.msg);
        f->quiet = true;
        f->next_ns += FIRING_RETRY_MS * AGENT_MS;
    }
    buf_release(&text);
}

/* A file that is damaged is kept for who looks at it; what is whole in it holds. */
static void move_aside(struct alert_state_file *f, const char *why, size_t kept)
{
    if (snprintf(f->moved, sizeof(f->moved), "%s.damaged", f->path) >= (int)sizeof(f->moved) ||
        rename(f->path, f->moved)) {
        f->moved[0] = '\0';
        log_warn("what fires '%s': %s", f->path, why);
        return;
    }
    log_warn("what fires '%s': %s; it is '%s' now, %zu %s", f->path, why, f->moved, kept,
             kept == 1 ? "line holds" : "lines hold");
    f->dirty = true;
}

static void load_state(struct agent *a, struct alert_state_file *f)
{
    struct buf text = { 0 };
    struct err err = { 0 };
    char why[64];
    size_t bad, kept;

    if (access(f->path, F_OK))
        return;
    if (file_read(f->path, ALERT_KEEP_BYTES_MAX, &text, &err)) {
        move_aside(f, err.msg, 0);
    } else if ((bad = alert_keep_read(buf_str(&text), text.len, a->alerts, a->sender, a->shown,
                                      &kept)) > 0) {
        (void)snprintf(why, sizeof(why), "%zu %s damaged", bad, bad == 1 ? "line is" : "lines are");
        move_aside(f, why, kept);
    }
    buf_release(&text);
}

void alert_state_begin(struct agent *a)
{
    struct alert_state_file *f;

    if (a->player || !a->ring || !a->ring_path)
        return;
    f = xcalloc(1, sizeof(*f));
    if (snprintf(f->path, sizeof(f->path), "%s.firing", a->ring_path) >= (int)sizeof(f->path)) {
        free(f);
        return;
    }
    load_state(a, f);
    a->alert_state_file = f;
}

const char *alert_state_moved(const struct agent *a)
{
    return a->alert_state_file && a->alert_state_file->moved[0] ? a->alert_state_file->moved : NULL;
}

void alert_state_changed(struct agent *a)
{
    if (a->alert_state_file)
        a->alert_state_file->dirty = true;
}

void alert_state_turn(struct agent *a)
{
    struct alert_state_file *f = a->alert_state_file;

    if (!f || clock_mono_ns() < f->next_ns)
        return;
    if (f->dirty || (a->sender && alert_sender_changes(a->sender) != f->changes))
        write_file(a, f);
}

void alert_state_end(struct agent *a)
{
    if (!a->alert_state_file)
        return;
    write_file(a, a->alert_state_file);
    free(a->alert_state_file);
    a->alert_state_file = NULL;
}
