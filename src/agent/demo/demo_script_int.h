/* SPDX-License-Identifier: MIT */
/* demo_script: what --demo shows: two minutes of a node that never was, over and over.
 *
 * Eight H200 train one model over NVLink; one of them becomes slow, one hot, one falls off the bus
 * and comes back, the job starts again, a served model has a busy moment.  Everything else is the
 * agent as it is: the story writes values, events and documents into a feed as sources do, and the
 * rules see what they would see on a machine.  A second stands for a minute to them
 * (STORY_HURRY), so that what takes an hour to happen and to end fits.
 *
 * Nothing here was measured; levels are those of recorded H200 at such work. */
#ifndef AGENT_DEMO_DEMO_SCRIPT_INT_H
#define AGENT_DEMO_DEMO_SCRIPT_INT_H
#include "alert/alert.h"
#include "base/text/json.h"
#include "telemetry/telemetry.h"

enum {
    STORY_SECONDS = 120, /* then it begins again */
    STORY_HURRY = 60,    /* windows and waits of rules are so much shorter */
    STORY_GPUS = 8
};

struct story;
struct story *story_new(struct telemetry *t); /* borrowed: the feed's table */
void story_free(struct story *s);             /* NULL is fine */
/* The next second, as the time `time_ns`. */
void story_step(struct story *s, int64_t time_ns);
/* {"seconds", "begun_ms", "hurry", "chapters": [{"at", "title", "text"}]} */
void story_describe(int64_t begun_ns, struct json_out *w);
/* The same rules in a hurry, owned by the caller; strings are borrowed. */
struct alert_rule *story_rules(const struct alert_rule *rules, size_t count);

#endif
