/* SPDX-License-Identifier: MIT */
/* top_view: what keys choose. */
#include "base/mem.h"
#include "base/str.h"
#include "top/top_int.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int zooms[] = { 1, 2, 5, 15, 60 }; /* periods a column */

void top_view_init(struct top_view *v)
{
    *v = (struct top_view){ .gpu = -1, .sort = TOP_BY_MEMORY };
}

int top_zoom_s(const struct top_view *v)
{
    return zooms[v->zoom];
}

/* ---- order */
static int compare_numbers(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(b) - isnan(a); /* unknown counts less than anything known */
    return (a > b) - (a < b);
}

static int compare_processes(enum top_sort by, const struct top_process *a,
                             const struct top_process *b)
{
    switch (by) {
    case TOP_BY_PID:
        return (b->pid > a->pid) - (b->pid < a->pid);
    case TOP_BY_USER:
        return strcmp(b->user, a->user);
    case TOP_BY_GPU:
        return (b->gpu > a->gpu) - (b->gpu < a->gpu);
    case TOP_BY_TYPE:
        return (b->type > a->type) - (b->type < a->type);
    case TOP_BY_UTIL:
        return compare_numbers(a->util, b->util);
    case TOP_BY_MEMORY:
        return compare_numbers(a->memory, b->memory);
    case TOP_BY_CPU:
        return compare_numbers(a->cpu, b->cpu);
    case TOP_BY_RSS:
        return compare_numbers(a->rss, b->rss);
    case TOP_BY_JOB:
        return strcmp(b->job, a->job);
    default:
        return strcmp(b->command, a->command);
    }
}

struct view_order {
    const struct top_view *v;
    const struct top_snap *s;
};

/* Most first for figures, least first for names; ties stay as they are by pid. */
static int in_order(const void *a, const void *b, void *arg)
{
    const struct view_order *o = arg;
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    int c = compare_processes(o->v->sort, &o->s->processes[k], &o->s->processes[i]);

    if (c)
        return o->v->reverse ? -c : c;
    return (i > k) - (i < k);
}

size_t *top_sorted(const struct top_view *v, const struct top_snap *s, size_t *count)
{
    struct view_order o = { v, s };
    size_t *out = xcalloc(s->process_count + 1, sizeof(*out)), n = 0;

    for (size_t i = 0; i < s->process_count; i++)
        if (v->gpu < 0 || s->processes[i].gpu == v->gpu)
            out[n++] = i;
    qsort_r(out, n, sizeof(*out), in_order, &o);
    *count = n;
    return out;
}

void top_select(struct top_view *v, const struct top_snap *s, const size_t *order, size_t count)
{
    for (size_t i = 0; v->pid && i < count; i++)
        if (s->processes[order[i]].pid == v->pid && s->processes[order[i]].gpu == v->pid_gpu)
            v->row = (int)i;
    if (v->row >= (int)count)
        v->row = (int)count - 1;
    if (v->row < 0)
        v->row = 0;
    v->pid = count ? s->processes[order[v->row]].pid : 0;
    v->pid_gpu = count ? s->processes[order[v->row]].gpu : -1;
}

/* ---- keys */
static void move_row(struct top_view *v, const struct top_snap *s, int by)
{
    size_t count;
    size_t *order;

    if (!s)
        return;
    order = top_sorted(v, s, &count);
    top_select(v, s, order, count);
    v->row = by > (int)count ? (int)count : by < -(int)count ? 0 : v->row + by;
    v->pid = 0; /* the row now decides */
    top_select(v, s, order, count);
    free(order);
}

static bool move_key(struct top_view *v, const struct top_snap *s, int key)
{
    int page = v->page_rows > 1 ? v->page_rows - 1 : 1;

    switch (key) {
    case TOP_KEY_UP:
        move_row(v, s, -1);
        return true;
    case TOP_KEY_DOWN:
        move_row(v, s, 1);
        return true;
    case TOP_KEY_PAGE_UP:
        move_row(v, s, -page);
        return true;
    case TOP_KEY_PAGE_DOWN:
        move_row(v, s, page);
        return true;
    case TOP_KEY_HOME:
        move_row(v, s, -TOP_PROCESSES_MAX);
        return true;
    case TOP_KEY_END:
        move_row(v, s, TOP_PROCESSES_MAX);
        return true;
    default:
        return false;
    }
}

static bool sort_key(struct top_view *v, int key)
{
    static const struct {
        char key;
        enum top_sort by;
    } keys[] = { { 'N', TOP_BY_PID },    { 'U', TOP_BY_USER }, { 'G', TOP_BY_GPU },
                 { 'T', TOP_BY_TYPE },   { 'P', TOP_BY_UTIL }, { 'M', TOP_BY_MEMORY },
                 { 'C', TOP_BY_CPU },    { 'H', TOP_BY_RSS },  { 'J', TOP_BY_JOB },
                 { 'O', TOP_BY_COMMAND } };

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (key == keys[i].key) {
            v->reverse = v->sort == keys[i].by && !v->reverse; /* again: the other way */
            v->sort = keys[i].by;
            return true;
        }
    if (key == TOP_KEY_RIGHT || key == '>')
        v->sort = (enum top_sort)((v->sort + 1) % TOP_SORTS);
    else if (key == TOP_KEY_LEFT || key == '<')
        v->sort = (enum top_sort)((v->sort + TOP_SORTS - 1) % TOP_SORTS);
    else if (key == 'r')
        v->reverse = !v->reverse;
    else
        return false;
    return true;
}

static void choose_gpu(struct top_view *v, const struct top_snap *s, int gpu)
{
    for (size_t i = 0; s && i < s->gpu_count; i++)
        if (s->gpus[i].index == gpu) {
            v->gpu = v->gpu == gpu ? -1 : gpu;
            return;
        }
    (void)snprintf(v->note, sizeof(v->note), "there is no GPU %d here", gpu);
}

static void step_gpu(struct top_view *v, const struct top_snap *s, int by)
{
    int at = -1, count = s ? (int)s->gpu_count : 0;

    if (!count) {
        v->gpu = -1;
        return;
    }
    for (int i = 0; i < count; i++)
        if (s->gpus[i].index == v->gpu)
            at = i;
    at += by;
    v->gpu = at == -1 || at >= count ? -1 : s->gpus[at < -1 ? count - 1 : at].index;
}

static bool gpu_key(struct top_view *v, const struct top_snap *s, int key)
{
    if (key == TOP_KEY_ESCAPE)
        v->gpu = -1;
    else if (key >= '0' && key <= '9')
        choose_gpu(v, s, key - '0');
    else if (key == ']' || key == '\t')
        step_gpu(v, s, 1);
    else if (key == '[')
        step_gpu(v, s, -1);
    else
        return false;
    return true;
}

static void ask_kill(struct top_view *v, const struct top_snap *s)
{
    if (!v->may_kill) {
        (void)str_copy(v->note, sizeof(v->note), "only processes of this machine can be ended");
        return;
    }
    for (size_t i = 0; s && i < s->process_count; i++)
        if (v->pid && s->processes[i].pid == v->pid) {
            v->kill_pid = v->pid;
            (void)str_copy(v->kill_command, sizeof(v->kill_command), s->processes[i].command);
            return;
        }
    (void)str_copy(v->note, sizeof(v->note), "no process is selected");
}

/* The answer to the question whether to end a process: only y and 9 say yes. */
static enum top_action answer_question(struct top_view *v, int key)
{
    if (key == 'y' || key == 'Y' || key == '9') {
        v->kill_signal = key == '9' ? SIGKILL : SIGTERM;
        return TOP_KILL;
    }
    v->kill_pid = 0;
    (void)str_copy(v->note, sizeof(v->note), "nothing was ended");
    return TOP_DRAW;
}

static enum top_action plain_key(struct top_view *v, const struct top_snap *s, int key)
{
    switch (key) {
    case 'q':
        return TOP_QUIT;
    case 'h':
    case '?':
        v->page = TOP_HELP;
        return TOP_DRAW;
    case 'a':
        v->page = TOP_ALERTS;
        return TOP_DRAW;
    case 'g':
        v->no_plots = !v->no_plots;
        return TOP_DRAW;
    case 'p':
    case ' ':
        v->paused = !v->paused;
        return TOP_DRAW;
    case '+':
    case '-':
        v->zoom += key == '-' ? 1 : -1;
        v->zoom = v->zoom < 0 ? 0 : v->zoom >= (int)ARRAY_SIZE(zooms) ? v->zoom - 1 : v->zoom;
        return TOP_DRAW;
    case 'k':
        ask_kill(v, s);
        return TOP_DRAW;
    default:
        return TOP_NONE;
    }
}

enum top_action top_key(struct top_view *v, const struct top_snap *s, int key)
{
    bool had_note = v->note[0];
    enum top_action act;

    v->note[0] = '\0';
    if (v->kill_pid)
        return answer_question(v, key);
    if (v->page != TOP_MAIN && key != 'q') { /* any key leaves; another page's opens that */
        bool again = v->page == (key == 'a' ? TOP_ALERTS : TOP_HELP);
        v->page = TOP_MAIN;
        if (again || (key != 'a' && key != 'h' && key != '?'))
            return TOP_DRAW;
    }
    if (move_key(v, s, key) || sort_key(v, key) || gpu_key(v, s, key))
        return TOP_DRAW;
    act = plain_key(v, s, key);
    return act == TOP_NONE && had_note ? TOP_DRAW : act;
}
