/* SPDX-License-Identifier: MIT */
/* gpu_users: who worked on a GPU when something happened to it.
 *
 * An error often ends the processes that met it, so that their names are gone when it is told:
 * what the collector's document of processes said last is kept for GPU_USERS_KEPT_MS.  The sampling
 * thread's only. */
#include "agent/agent_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "os/clock.h"

enum { GPU_USERS_GPUS_MAX = 64, GPU_USERS_KEPT_MS = 60000 };

struct whose_gpu {
    struct alert_whose who;
    int64_t seen_ns; /* monotonic; 0: never */
    bool now;        /* in the latest document */
};
struct gpu_users {
    struct whose_gpu gpus[GPU_USERS_GPUS_MAX];
};

struct gpu_users *gpu_users_new(void)
{
    return xcalloc(1, sizeof(struct gpu_users));
}

void gpu_users_free(struct gpu_users *w)
{
    free(w);
}

/* Values that differ stand side by side: "17,18". */
static void join_text(char *out, size_t cap, const char *text)
{
    size_t len = strlen(out), more = text ? strlen(text) : 0;

    if (!more || strstr(out, text) || len + more + 2 > cap)
        return;
    (void)snprintf(out + len, cap - len, "%s%s", len ? "," : "", text);
    str_make_text(out);
}

static void take_process(struct gpu_users *w, const struct json *p)
{
    int64_t gpu = maybe_or(json_int(json_get(p, "gpu")), -1);
    struct whose_gpu *g;

    if (gpu < 0 || gpu >= GPU_USERS_GPUS_MAX)
        return;
    g = &w->gpus[gpu];
    if (!g->now)
        g->who = (struct alert_whose){ 0 };
    g->now = true;
    g->seen_ns = clock_mono_ns();
    join_text(g->who.job, sizeof(g->who.job), json_str(json_get(p, "slurm_job")));
    join_text(g->who.user, sizeof(g->who.user), json_str(json_get(p, "user")));
    join_text(g->who.pod, sizeof(g->who.pod), json_str(json_get(p, "pod")));
    join_text(g->who.space, sizeof(g->who.space), json_str(json_get(p, "namespace")));
    join_text(g->who.command, sizeof(g->who.command), json_str(json_get(p, "command")));
}

void gpu_users_take(struct gpu_users *w, const char *processes)
{
    struct arena a = { 0 };
    struct json *d = NULL;
    const struct json *list;
    int64_t now = clock_mono_ns();

    for (size_t i = 0; i < GPU_USERS_GPUS_MAX; i++) {
        if (w->gpus[i].now)
            w->gpus[i].seen_ns = now; /* until here */
        w->gpus[i].now = false;
    }
    if (processes && json_parse(&a, processes, strlen(processes), &d, NULL) == RC_OK &&
        (list = json_get(d, "processes")))
        for (const struct json *p = list->first; p; p = p->next)
            take_process(w, p);
    arena_release(&a);
}

bool gpu_users_find(const struct gpu_users *w, int gpu, int64_t time_ns, struct alert_whose *out)
{
    const struct whose_gpu *g = gpu >= 0 && gpu < GPU_USERS_GPUS_MAX ? &w->gpus[gpu] : NULL;

    if (!g || !g->seen_ns || agent_wall_ns() - time_ns > GPU_USERS_KEPT_MS * AGENT_MS ||
        (!g->now && clock_mono_ns() - g->seen_ns > GPU_USERS_KEPT_MS * AGENT_MS))
        return false;
    *out = g->who;
    return true;
}

void gpu_users_text(const struct alert_whose *w, char *out, size_t cap)
{
    struct buf b = { 0 };
    const struct {
        const char *name, *text;
    } parts[] = { { "job", w->job }, { "user", w->user }, { "pod", w->pod } };

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        if (parts[i].text[0])
            buf_addf(&b, "%s%s %s%s%s", b.len ? ", " : "", parts[i].name,
                     i == 2 && w->space[0] ? w->space : "", i == 2 && w->space[0] ? "/" : "",
                     parts[i].text);
    (void)str_copy(out, cap, buf_str(&b));
    str_make_text(out);
    buf_release(&b);
}
