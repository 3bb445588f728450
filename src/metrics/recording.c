/* SPDX-License-Identifier: MIT */
/* recording: a file fed to a reader in pieces. */
#include "metrics/recording.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>

enum { PIECE_BYTES = 64 << 10 };

struct reading {
    const struct recording_opts *o;
    unsigned mark; /* source "agent" */
    uint64_t seconds;
    bool enough;
};

static bool on_batch(void *arg, unsigned source, int64_t time_ns)
{
    struct reading *r = arg;

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
    struct reading r = { .o = o, .mark = tele_source(o->into, "agent") };
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
        return err_set(err, RC_PARSE, "'%s' is no recording of telemetry, or an empty one",
                       o->path);
    *out = end;
    return RC_OK;
}
