/* SPDX-License-Identifier: MIT */
/* collect_self: what this program itself costs, under the names every Prometheus client uses.
 *
 * CPU time and private memory are those of this process and its children (the one that speaks
 * with the driver) together; a child that ended took its time along into this process' sum of
 * ended children. */
#include "telemetry/collect/collect_int.h"

#include "base/mem.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    SELF_TEXT_MAX = 4096,
    SELF_FIELD_UTIME = 14,  /* of /proc/PID/stat, as proc(5) counts them; */
    SELF_FIELD_STIME = 15,  /* its own up to here, */
    SELF_FIELD_CSTIME = 17, /* with those of ended children up to here */
    SELF_FIELD_THREADS = 20,
    SELF_FIELD_START = 22,
    SELF_NAMES_MAX = 4096,  /* open files or threads looked at */
    SELF_CHILDREN_MAX = 64, /* children counted in */
    SELF_DIRENT_NAME = 19   /* where the name is in a linux_dirent64; its length is at 16 */
};

struct self {
    const struct root *root; /* borrowed */
    unsigned source;
    struct cfile stat, statm, limits;
    int fds, tasks; /* folders; -1: none */
    double tick_s, page, boot_s;
    uint32_t cpu, start, threads, rss, anon, open_fds, max_fds;
};

/* Of one process. */
struct usage {
    double cpu_s, own_cpu_s; /* with ended children; without */
    double threads, start_ticks, rss_pages, anon_pages;
};

static double boot_time(const struct root *root)
{
    size_t cap = (size_t)COLLECT_FILE_MAX * 4;
    char *text = xmalloc(cap);
    const char *at = NULL;
    uint64_t s = 0;

    if (collect_read(root, "/proc/stat", text, cap) > 0)
        at = strstr(text, "\nbtime ");
    if (at)
        at += 7;
    if (at && !scan_u64(&at, &s))
        s = 0;
    free(text);
    return (double)s;
}

static void *self_open(const struct root *root, struct telemetry *t)
{
    struct self *s = xcalloc(1, sizeof(*s));
    bool live = root_is_live(root);

    s->root = root;
    s->source = telemetry_source(t, collect_self.name);
    s->tick_s = live ? 1.0 / (double)sysconf(_SC_CLK_TCK) : 0.01;
    s->page = live ? (double)sysconf(_SC_PAGESIZE) : 4096;
    s->boot_s = boot_time(root);
    cfile_open(&s->stat, root, "/proc/self/stat");
    cfile_open(&s->statm, root, "/proc/self/statm");
    cfile_open(&s->limits, root, "/proc/self/limits");
    s->fds = live ? open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    s->tasks = live ? open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    s->cpu = collect_id(t, s->source, "process_cpu_seconds_total", NULL, 0);
    s->start = collect_id(t, s->source, "process_start_time_seconds", NULL, 0);
    s->threads = collect_id(t, s->source, "process_threads", NULL, 0);
    s->rss = collect_id(t, s->source, "process_resident_memory_bytes", NULL, 0);
    s->anon = collect_id(t, s->source, "stoker_agent_private_memory_bytes", NULL, 0);
    s->open_fds = collect_id(t, s->source, "process_open_fds", NULL, 0);
    s->max_fds = collect_id(t, s->source, "process_max_fds", NULL, 0);
    return s;
}

static void self_close(void *state)
{
    struct self *s = state;

    if (!s)
        return;
    cfile_close(&s->stat);
    cfile_close(&s->statm);
    cfile_close(&s->limits);
    if (s->fds >= 0)
        close(s->fds);
    if (s->tasks >= 0)
        close(s->tasks);
    free(s);
}

/* The name, second field, may hold anything: fields are counted from its last parenthesis. */
static bool stat_read(double tick_s, const char *text, struct usage *u)
{
    const char *p = strrchr(text, ')'), *word;
    uint64_t v;

    if (!p)
        return false;
    p++;
    for (int field = 3; field <= SELF_FIELD_START; field++) {
        const char *at;

        if (!scan_word(&p, &word))
            return false;
        at = word;
        if (!scan_u64(&at, &v))
            continue;
        if (field >= SELF_FIELD_UTIME && field <= SELF_FIELD_CSTIME)
            u->cpu_s += (double)v * tick_s;
        if (field >= SELF_FIELD_UTIME && field <= SELF_FIELD_STIME)
            u->own_cpu_s += (double)v * tick_s;
        if (field == SELF_FIELD_THREADS)
            u->threads = (double)v;
        if (field == SELF_FIELD_START)
            u->start_ticks = (double)v;
    }
    return true;
}

static bool statm_read(const char *p, struct usage *u)
{
    uint64_t size, resident, shared;

    if (!scan_u64(&p, &size) || !scan_u64(&p, &resident) || !scan_u64(&p, &shared))
        return false;
    u->rss_pages = (double)resident;
    u->anon_pages = resident > shared ? (double)(resident - shared) : 0;
    return true;
}

/* Calls `each` with the names of a kept folder, "." and ".." left out; how many there were. */
static size_t each_name(int fd, void (*each)(void *arg, const char *name), void *arg)
{
    char text[SELF_TEXT_MAX] __attribute__((aligned(8)));
    size_t count = 0;
    long n;

    if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return 0;
    while (count < SELF_NAMES_MAX && (n = syscall(SYS_getdents64, fd, text, sizeof(text))) > 0)
        for (long at = 0; at + SELF_DIRENT_NAME < n;) {
            unsigned short len;

            memcpy(&len, text + at + 16, sizeof(len));
            if (len <= SELF_DIRENT_NAME)
                break;
            if (text[at + SELF_DIRENT_NAME] != '.') {
                count++;
                if (each)
                    each(arg, text + at + SELF_DIRENT_NAME);
            }
            at += len;
        }
    return count;
}

static bool usage_read(const struct root *root, double tick_s, uint64_t pid, struct usage *u)
{
    char path[64], text[SELF_TEXT_MAX];

    snprintf(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)pid);
    if (collect_read(root, path, text, sizeof(text)) <= 0 || !stat_read(tick_s, text, u))
        return false;
    snprintf(path, sizeof(path), "/proc/%llu/statm", (unsigned long long)pid);
    return collect_read(root, path, text, sizeof(text)) > 0 && statm_read(text, u);
}

bool process_use(const struct root *root, int pid, struct process_use *out)
{
    bool live = root_is_live(root);
    double tick_s = live ? 1.0 / (double)sysconf(_SC_CLK_TCK) : 0.01;
    struct usage u = { 0 };

    if (pid <= 0 || !usage_read(root, tick_s, (uint64_t)pid, &u))
        return false;
    *out = (struct process_use){ .cpu_s = u.own_cpu_s,
                                 .rss_bytes =
                                     u.rss_pages * (live ? (double)sysconf(_SC_PAGESIZE) : 4096) };
    return true;
}

struct children {
    const struct self *s;
    struct usage sum;
    size_t count;
};

static void child_add(struct children *c, uint64_t pid)
{
    struct usage u = { 0 };

    if (!usage_read(c->s->root, c->s->tick_s, pid, &u))
        return;
    c->sum.cpu_s += u.cpu_s;
    c->sum.anon_pages += u.anon_pages;
    c->count++;
}

/* Children belong to the thread that started them. */
static void task_children(void *arg, const char *name)
{
    struct children *c = arg;
    char path[64], text[SELF_TEXT_MAX];
    const char *p = text;
    uint64_t pid;

    snprintf(path, sizeof(path), "/proc/self/task/%.20s/children", name);
    if (collect_read(c->s->root, path, text, sizeof(text)) <= 0)
        return;
    while (c->count < SELF_CHILDREN_MAX && scan_u64(&p, &pid))
        child_add(c, pid);
}

/* Newer kernels tell how many there are as the folder's size; else they are counted. */
static void fds_set(const struct self *s, struct telemetry *t)
{
    struct stat st;
    size_t count;

    if (s->fds < 0)
        return;
    if (!fstat(s->fds, &st) && st.st_size > 0)
        count = (size_t)st.st_size;
    else
        count = each_name(s->fds, NULL, NULL);
    if (count > 0)
        telemetry_set(t, s->open_fds, (double)count);
}

static void self_sample(void *state, struct telemetry *t, int64_t now_ns)
{
    struct self *s = state;
    char text[SELF_TEXT_MAX];
    struct children c = { .s = s };
    struct usage u = { 0 };

    telemetry_begin(t, s->source, now_ns);
    (void)each_name(s->tasks, task_children, &c);
    if (cfile_read(&s->stat, text, sizeof(text)) > 0 && stat_read(s->tick_s, text, &u)) {
        telemetry_set(t, s->cpu, u.cpu_s + c.sum.cpu_s);
        telemetry_set(t, s->threads, u.threads);
        if (s->boot_s > 0)
            telemetry_set(t, s->start, s->boot_s + u.start_ticks * s->tick_s);
    }
    if (cfile_read(&s->statm, text, sizeof(text)) > 0 && statm_read(text, &u)) {
        telemetry_set(t, s->rss, u.rss_pages * s->page);
        telemetry_set(t, s->anon, (u.anon_pages + c.sum.anon_pages) * s->page);
    }
    if (cfile_read(&s->limits, text, sizeof(text)) > 0)
        collect_set_after(t, s->max_fds, text, "Max open files");
    fds_set(s, t);
    telemetry_end(t);
}

const struct collector collect_self = {
    .name = "self", .period_ms = 5000, .open = self_open, .sample = self_sample, .close = self_close
};
