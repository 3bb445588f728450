/* SPDX-License-Identifier: MIT */
/* recording: a file fed to a reader in pieces; and one made where no data are lost by it. */
#include "telemetry/record/recording.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "telemetry/record/stream_int.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 64 << 10 };

struct recording_reading {
    const struct recording_opts *o;
    unsigned mark; /* source "agent" */
    uint64_t seconds;
    bool enough;
};

static bool on_batch(void *arg, unsigned source, int64_t time_ns)
{
    struct recording_reading *r = arg;

    if (source != r->mark)
        return true;
    r->seconds++;
    r->enough = !r->o->on_second(r->o->arg, r->o->into, time_ns);
    return !r->enough;
}

static void take_host(const char *head, struct recording_end *out)
{
    struct arena a = { 0 };
    struct json *d;
    const char *host;

    if (head && json_parse(&a, head, strlen(head), &d, NULL) == RC_OK) {
        host = json_str(json_get(d, "host"));
        (void)str_copy(out->host, sizeof(out->host), host ? host : "");
    }
    arena_release(&a);
}

enum rc recording_read(const struct recording_opts *o, struct recording_end *out, struct err *err)
{
    struct recording_reading r = { .o = o, .mark = telemetry_source(o->into, "agent") };
    struct recording_end end = { 0 };
    struct stream_reader *s;
    uint64_t fed = 0;
    char *piece;
    FILE *f = fopen(o->path, "re");
    enum rc rc = RC_OK;
    size_t n = 1;

    if (!f)
        return err_sys(err, "could not open recording '%s'", o->path);
    s = stream_reader_new(
        &(struct stream_reader_opts){ .into = o->into, .on_batch = on_batch, .arg = &r });
    piece = xmalloc(PIECE_BYTES);
    while (rc == RC_OK && !r.enough && (n = fread(piece, 1, PIECE_BYTES, f)) > 0) {
        rc = stream_feed(s, piece, n, NULL);
        fed += n;
    }
    end.seconds = r.seconds;
    end.torn = rc != RC_OK || ferror(f) || (!r.enough && stream_taken(s) != fed);
    take_host(stream_head(s), &end);
    stream_reader_free(s);
    free(piece);
    (void)fclose(f);
    if (!end.seconds)
        return err_set(err, RC_PARSE, "'%s' is not a recording of telemetry, or an empty one",
                       o->path);
    *out = end;
    return RC_OK;
}

/* ---- making one */

static bool begins_as_recording(const char *path)
{
    char magic[STREAM_MAGIC_LEN];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ours = fd >= 0 && read(fd, magic, sizeof(magic)) == (ssize_t)sizeof(magic) &&
                !memcmp(magic, STREAM_MAGIC, sizeof(magic));

    if (fd >= 0)
        close(fd);
    return ours;
}

static enum rc check_room(const char *path, int fd, bool replace, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return err_sys(err, "could not look at '%s'", path);
    if (!S_ISBLK(st.st_mode) && (!S_ISREG(st.st_mode) || !st.st_size))
        return RC_OK; /* a pipe or a terminal has nothing to lose */
    if (!begins_as_recording(path)) {
        err_hint(err, "It is left as it is.  Move it away, or name another file.");
        return err_set(err, RC_FAIL, "'%s' has data and is not a recording", path);
    }
    if (!replace) {
        err_hint(err, "Name another file, move it away, or give --force to write over it.");
        return err_set(err, RC_FAIL, "recording '%s' is there already", path);
    }
    return RC_OK;
}

enum rc recording_create(const char *path, bool replace, int *out_fd, struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, RECORDING_MODE);
    struct stat st;
    enum rc rc;

    if (fd < 0)
        return err_sys(err, "could not write recording '%s'", path);
    rc = check_room(path, fd, replace, err);
    if (rc == RC_OK && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(fd, 0) != 0)
        rc = err_sys(err, "could not write recording '%s'", path);
    if (rc != RC_OK)
        close(fd);
    else
        *out_fd = fd;
    return rc;
}
