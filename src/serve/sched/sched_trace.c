/* SPDX-License-Identifier: MIT */
/* sched_trace: the last batches, for people who ask why something was slow. */
#include "base/mem.h"
#include "base/text/json.h"
#include "os/clock.h"
#include "serve/sched/device_queue_int.h"

void trace_add(const struct device_queue *dq)
{
    const struct sched_batch *b = dq->batch;
    struct sched *s = dq->sched;
    struct sched_note n = { .model = b->queue->record,
                            .want = b->queue->want,
                            .device_queue = dq->index,
                            .sequences = b->count,
                            .tokens = b->tokens,
                            .budget = b->queue->budget,
                            .shortest = SIZE_MAX,
                            .failures = b->failures,
                            .fell_back = b->fell_back,
                            .begun_ns = b->begun_ns,
                            .run_ns = b->ended_ns - b->begun_ns };

    n.unix_ms = clock_unix_ms() - n.run_ns / 1000000;
    for (size_t i = 0; i < b->count; i++) {
        const struct request_text *t = b->texts[i];
        int64_t wait = b->begun_ns - t->request->submitted_ns;
        n.shortest = t->tokens < n.shortest ? t->tokens : n.shortest;
        n.longest = t->tokens > n.longest ? t->tokens : n.longest;
        n.wait_ns = wait > n.wait_ns ? wait : n.wait_ns;
        n.bulk += t->request->class == REQUEST_BULK;
        n.bulk_tokens += t->request->class == REQUEST_BULK ? t->tokens : 0;
        for (const struct request_text *f = t->followers; f; f = f->next)
            n.shared++;
    }
    pthread_mutex_lock(&s->note_lock);
    s->notes[s->note_count++ % SCHED_BATCHES_KEPT] = n;
    pthread_mutex_unlock(&s->note_lock);
}

size_t trace_copy(struct sched *s, struct sched_note *out)
{
    pthread_mutex_lock(&s->note_lock);
    uint64_t first = s->note_count > SCHED_BATCHES_KEPT ? s->note_count - SCHED_BATCHES_KEPT : 0;
    size_t n = (size_t)(s->note_count - first);
    for (size_t i = 0; i < n; i++)
        out[i] = s->notes[(first + i) % SCHED_BATCHES_KEPT];
    pthread_mutex_unlock(&s->note_lock);
    return n;
}

const char *sched_want_name(enum eng_want want)
{
    static const char *const names[] = {
        [ENG_VECTORS] = "vectors", [ENG_SCORES] = "scores", [ENG_TOKENS] = "tokens"
    };

    return names[want];
}

static void write_note(struct sched *s, struct json_out *w, const struct sched_note *n)
{
    json_obj(w);
    json_kv_str(w, "model", n->model->name);
    json_kv_str(w, "device", s->queues[n->device_queue]->device);
    json_kv_str(w, "want", sched_want_name(n->want));
    json_kv_int(w, "begun_unix_ms", n->unix_ms);
    json_kv_int(w, "sequences", (int64_t)n->sequences);
    json_kv_int(w, "interactive", (int64_t)(n->sequences - n->bulk));
    json_kv_int(w, "bulk", (int64_t)n->bulk);
    json_kv_int(w, "shared", (int64_t)n->shared);
    json_kv_int(w, "tokens", (int64_t)n->tokens);
    json_kv_int(w, "bulk_tokens", (int64_t)n->bulk_tokens);
    json_kv_int(w, "budget", (int64_t)n->budget);
    json_kv_num(w, "fill", (double)n->tokens / (double)n->budget);
    json_kv_int(w, "shortest", (int64_t)n->shortest);
    json_kv_int(w, "longest", (int64_t)n->longest);
    json_kv_int(w, "oldest_wait_us", n->wait_ns / 1000);
    json_kv_int(w, "run_us", n->run_ns / 1000);
    json_kv_int(w, "failures", (int64_t)n->failures);
    json_kv_bool(w, "fell_back", n->fell_back);
    json_obj_end(w);
}

void sched_batches_json(struct sched *s, struct json_out *w)
{
    struct sched_note *notes = xcalloc(SCHED_BATCHES_KEPT, sizeof(*notes));
    size_t n = trace_copy(s, notes);

    json_obj(w);
    json_kv_str(w, "schema", "stoker.batches/1");
    json_kv_int(w, "kept", SCHED_BATCHES_KEPT);
    json_key(w, "batches"); /* oldest first */
    json_arr(w);
    for (size_t i = 0; i < n; i++)
        write_note(s, w, &notes[i]);
    json_arr_end(w);
    json_obj_end(w);
    free(notes);
}
