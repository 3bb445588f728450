/* SPDX-License-Identifier: MIT */
/* replay: a recording in the place of all sources.
 *
 * A recording is what an agent showed (publish.c writes it): batches of its sources, and last in
 * each second the batch of source "agent", which marks the second's end.  Playing goes from mark to
 * mark.  Times are shifted so that the recording begins now; played faster than it was made it ends
 * now instead, so that no time lies in the future.  Played in a loop it goes on in later seconds;
 * then the end is that of opts.seconds, where there is one.
 *
 * The demo is no recording but a story (demo_script_int.h).  It begins some minutes ago and
 * catches up, so that charts have something to show, is at its first chapter then, and goes
 * round for ever. */
#include "agent/agent_int.h"
#include "agent/demo/demo_script_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <errno.h>
#include <stdlib.h>

enum {
    PLAY_HEAD_BYTES = 8,  /* "STKTELE1" */
    PLAY_RECORD_HEAD = 8, /* length and checksum */
    PLAY_DEMO_ROUNDS = 7  /* of the story that are over when it is first seen */
};

struct play { /* a reader with its place in the file */
    struct player *p;
    FILE *file;
    struct stream_reader *r; /* NULL: at the beginning, nothing read */
    struct telemetry *t;     /* borrowed */
    unsigned mark;           /* number of source "agent" there */
    bool marked;
    int64_t mark_ns;
};
struct player {
    struct agent *a;
    struct play play;    /* of a recording */
    struct story *story; /* of the demo; NULL: a recording is played */
    int64_t first_ns, last_ns, shift_ns;
    int64_t step_ns;  /* from a mark to the next, on average */
    int64_t begin_ns; /* the first mark, as it is shown */
    uint64_t marks;   /* seconds of the recording */
    int64_t demo_ns;  /* the demo's next second */
    int64_t begun_ns; /* monotonic */
    struct buf record;
    char *head; /* owned JSON */
};

static bool on_batch(void *arg, unsigned source, int64_t time_ns)
{
    struct play *y = arg;

    if (source == y->mark) {
        y->marked = true;
        y->mark_ns = time_ns;
    }
    return true;
}

/* ---- records */

static bool take_bytes(struct play *y, size_t len)
{
    char *to = buf_reserve(&y->p->record, len);

    if (!to || fread(to, 1, len, y->file) != len)
        return false;
    buf_commit(&y->p->record, len);
    return true;
}

/* The head, with its line end. */
static bool take_head(struct play *y)
{
    int c;

    if (!take_bytes(y, PLAY_HEAD_BYTES))
        return false;
    do {
        c = getc(y->file);
        if (c != EOF)
            buf_addc(&y->p->record, (char)c);
    } while (c != EOF && c != '\n' && y->p->record.len < STREAM_HEAD_MAX);
    return c == '\n';
}

static bool take_record(struct play *y)
{
    uint32_t len;

    if (!take_bytes(y, PLAY_RECORD_HEAD))
        return false;
    const unsigned char *h = (const unsigned char *)y->p->record.data;
    len = (uint32_t)h[0] | (uint32_t)h[1] << 8 | (uint32_t)h[2] << 16 | (uint32_t)h[3] << 24;
    return len <= STREAM_RECORD_MAX && take_bytes(y, len);
}

static void rewind_play(struct play *y)
{
    stream_reader_free(y->r);
    y->r = NULL;
    rewind(y->file);
}

/* To the next mark; RC_NODEV at the end. */
static enum rc to_mark(struct play *y, struct err *err)
{
    struct stream_reader_opts ro = {
        .into = y->t, .shift_ns = y->p->shift_ns, .on_batch = on_batch, .arg = y
    };

    y->marked = false;
    while (!y->marked) {
        bool first = !y->r;
        buf_reset(&y->p->record);
        if (first)
            y->r = stream_reader_new(&ro);
        if (first ? !take_head(y) : !take_record(y))
            return err_set(err, RC_NODEV, "the recording ends here");
        if (stream_feed(y->r, buf_str(&y->p->record), y->p->record.len, err))
            return err->code;
    }
    return RC_OK;
}

/* ---- opening */

/* How long it is, and from when. */
static enum rc survey_file(struct player *p, struct err *err)
{
    struct telemetry *t = telemetry_new(0);
    struct play y = {
        .p = p, .file = fopen(p->a->o.replay, "re"), .t = t, .mark = telemetry_source(t, "agent")
    };
    struct err end = { 0 }; /* where it ends is no fault of the start */

    if (!y.file) {
        telemetry_free(t);
        return err_sys(err, "could not open recording '%s'", p->a->o.replay);
    }
    while (to_mark(&y, &end) == RC_OK) {
        p->first_ns = p->marks++ ? p->first_ns : y.mark_ns;
        p->last_ns = y.mark_ns;
    }
    if (y.r && stream_head(y.r))
        p->head = xstrdup(stream_head(y.r));
    stream_reader_free(y.r);
    (void)fclose(y.file);
    telemetry_free(t);
    if (p->marks) /* what follows is torn: what is whole is played */
        return RC_OK;
    return err_set(err, RC_PARSE, "'%s' is not a recording of telemetry, or an empty one",
                   p->a->o.replay);
}

/* What is shown has the name of the machine it was measured on. */
static void take_host(struct player *p)
{
    struct arena a = { 0 };
    struct json *d;
    const char *host;

    if (p->head && json_parse(&a, p->head, strlen(p->head), &d, NULL) == RC_OK) {
        host = json_str(json_get(d, "host"));
        if (host && *host)
            (void)str_copy(p->a->host, sizeof(p->a->host), host);
    }
    arena_release(&a);
}

static void begin_at(struct player *p)
{
    struct agent *a = p->a;
    bool fast = a->o.replay_speed != 1;

    p->begun_ns = a->begun_ns;
    p->step_ns = p->marks > 1 ? (p->last_ns - p->first_ns) / (int64_t)(p->marks - 1) : 1000000000;
    p->shift_ns = a->begun_wall_ns - (fast ? p->last_ns : p->first_ns);
    if (fast && a->o.replay_loop && a->o.seconds)
        p->shift_ns = a->begun_wall_ns - p->first_ns - (int64_t)(a->o.seconds - 1) * p->step_ns;
    p->begin_ns = p->first_ns + p->shift_ns;
}

static void begin_story(struct player *p)
{
    struct agent *a = p->a;
    int64_t back = a->o.replay_speed == 1 ? PLAY_DEMO_ROUNDS * STORY_SECONDS : 0;

    p->begun_ns = a->begun_ns;
    p->marks = STORY_SECONDS;
    p->demo_ns = (a->begun_wall_ns / 1000000000 - back) * 1000000000;
    p->first_ns = p->demo_ns;
    p->story = story_new(a->feeds[feed_add(a, a->o.series_max)].t);
    (void)str_copy(a->host, sizeof(a->host), "demo");
}

static enum rc open_play(struct player *p, struct err *err)
{
    struct play *y = &p->play;
    size_t feed = feed_add(p->a, p->a->o.series_max);

    *y = (struct play){ .p = p, .file = fopen(p->a->o.replay, "re"), .t = p->a->feeds[feed].t };
    y->mark = telemetry_source(y->t, "agent");
    return y->file ? RC_OK : err_sys(err, "could not open recording '%s'", p->a->o.replay);
}

enum rc player_open(struct agent *a, struct err *err)
{
    struct player *p = xcalloc(1, sizeof(*p));
    enum rc rc;

    a->player = p;
    p->a = a;
    if (a->o.demo) {
        begin_story(p);
        return RC_OK;
    }
    buf_init(&p->record, STREAM_RECORD_MAX + STREAM_HEAD_MAX);
    rc = survey_file(p, err);
    if (rc != RC_OK)
        return rc;
    take_host(p);
    begin_at(p);
    return open_play(p, err);
}

/* ---- playing */

static bool step_recording(struct player *p)
{
    struct err err = { 0 };

    if (to_mark(&p->play, &err) == RC_OK)
        return true;
    if (!p->a->o.replay_loop)
        return false;
    p->shift_ns += p->last_ns - p->first_ns + p->step_ns;
    rewind_play(&p->play);
    return to_mark(&p->play, &err) == RC_OK;
}

bool player_step(struct player *p, int64_t *out_time_ns)
{
    if (p->story) {
        *out_time_ns = p->demo_ns;
        story_step(p->story, p->demo_ns);
        p->demo_ns += 1000000000;
        return true;
    }
    if (!step_recording(p))
        return false;
    *out_time_ns = p->play.mark_ns;
    return true;
}

/* What was missed is left out in whole rounds, so that the story is where it would be. */
void player_wake(struct player *p)
{
    int64_t round = STORY_SECONDS * INT64_C(1000000000), missed;

    if (!p->story)
        return;
    missed = agent_wall_ns() - p->demo_ns - PLAY_DEMO_ROUNDS * round;
    if (missed > 0)
        p->demo_ns += missed / round * round;
}

void player_story(const struct player *p, struct json_out *w)
{
    if (p && p->story)
        story_describe(p->first_ns, w);
    else
        json_add_null(w);
}

int64_t player_due_ns(const struct player *p, int64_t time_ns)
{
    double speed = p->a->o.replay_speed;
    int64_t begin = p->a->o.demo || speed == 1 ? p->a->begun_wall_ns : p->begin_ns;

    return speed > 0 ? p->begun_ns + (int64_t)((double)(time_ns - begin) / speed) : 0;
}

void player_describe(const struct player *p, struct json_out *w)
{
    json_obj(w);
    json_kv_str(w, "file", p->a->o.replay);
    json_kv_num(w, "speed", p->a->o.replay_speed);
    json_kv_int(w, "seconds", (int64_t)p->marks);
    json_kv_int(w, "recorded", p->first_ns / 1000000000);
    json_key(w, "head");
    if (p->head)
        buf_adds(json_raw(w), p->head);
    else
        json_add_null(w);
    json_obj_end(w);
}

void player_free(struct player *p)
{
    if (!p)
        return;
    stream_reader_free(p->play.r);
    if (p->play.file)
        (void)fclose(p->play.file);
    story_free(p->story);
    buf_release(&p->record);
    free(p->head);
    free(p);
}
