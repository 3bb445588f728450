/* SPDX-License-Identifier: MIT */
/* process_owner: whose a process is, from /proc/PID.
 *
 * A process' cgroup says who started it, without asking Slurm, a kubelet or systemd.  Layouts that
 * are known, each as one path component or two:
 *
 *   Slurm       …/slurm[_NODE]/uid_1000/job_42/step_0/task_0          cgroup v1
 *               …/[NODE_]slurmstepd.scope/job_42/step_0/user/task_0   v2
 *   Kubernetes  …/kubepods/burstable/podUID/CONTAINER                 cgroupfs driver
 *               …/kubepods-burstable-podUID.slice/cri-containerd-CONTAINER.scope   systemd
 *               …/kubepods-podUID.slice:cri-containerd:CONTAINER      containerd's other spelling
 *   containers  docker-ID.scope, crio-ID.scope, libpod-ID.scope, /docker/ID, …
 *   systemd     the deepest NAME.service or NAME.scope that is no container
 *
 * A pod's name is in no cgroup, but in what its kubelet calls its logs:
 * /var/log/pods/NAMESPACE_POD_UID/CONTAINER, /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log.
 *
 * With systemd's driver a pod's UID has _ for -.  User names come only from /etc/passwd: a
 * directory service may take for ever to answer. */
#include "base/mem.h"
#include "base/str.h"
#include "telemetry/collect/collect_int.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OWNER_TEXT_MAX = 16 << 10,    /* bytes of a process' files */
    OWNER_PASSWD_MAX = 256 << 10, /* bytes read of /etc/passwd */
    OWNER_ARGS_MAX = 3,           /* arguments looked at */
    CONTAINER_LEN = 64,           /* digits of a container's id */
    UID_LEN = 36,                 /* of a pod, with its dashes; a static pod's has 32 and none */
    UID_STATIC_LEN = 32
};

static bool all_digits(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isdigit((unsigned char)s[i]))
            return false;
    return len > 0;
}

static bool all_hex(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isxdigit((unsigned char)s[i]))
            return false;
    return len > 0;
}

static bool has_suffix(const char *s, size_t len, const char *suffix)
{
    return len > strlen(suffix) && !memcmp(s + len - strlen(suffix), suffix, strlen(suffix));
}

/* "job_42" below a Slurm cgroup. */
static void slurm_read(const char *c, size_t len, bool below_slurm, struct owner *o)
{
    if (!below_slurm || o->slurm_job[0] || !scan_begins(c, len, "job_") ||
        !all_digits(c + 4, len - 4))
        return;
    (void)scan_copy(o->slurm_job, sizeof(o->slurm_job), c + 4, len - 4);
}

/* "pod" and a UID at the end of a component (less ".slice"); its dashes may be underscores. */
static void pod_read(const char *c, size_t len, struct owner *o)
{
    const char *colon = memchr(c, ':', len), *end;

    if (o->pod_uid[0])
        return;
    if (colon)
        len = (size_t)(colon - c);
    end = c + len;
    if (has_suffix(c, len, ".slice"))
        end -= strlen(".slice");
    for (const char *p = c; p + 3 < end; p++) {
        char uid[UID_LEN + 1];
        size_t n = (size_t)(end - p) - 3, dashes = 0;
        bool ok = true;

        if (memcmp(p, "pod", 3) != 0 || (p > c && p[-1] != '-') ||
            (n != UID_LEN && n != UID_STATIC_LEN))
            continue;
        for (size_t i = 0; i < n && ok; i++) {
            uid[i] = p[3 + i] == '_' ? '-' : (char)tolower((unsigned char)p[3 + i]);
            dashes += uid[i] == '-';
            ok = uid[i] == '-' || isxdigit((unsigned char)uid[i]);
        }
        if (!ok || dashes != (n == UID_LEN ? 4 : 0))
            continue;
        uid[n] = '\0';
        memcpy(o->pod_uid, uid, n + 1);
        return;
    }
}

/* The last CONTAINER_LEN digits of a component, behind nothing, '-', ':' or '_' and before nothing
 * or ".scope". */
static bool container_read(const char *c, size_t len, struct owner *o)
{
    const char *id;

    if (has_suffix(c, len, ".scope"))
        len -= strlen(".scope");
    if (len < CONTAINER_LEN)
        return false;
    id = c + len - CONTAINER_LEN;
    if (!all_hex(id, CONTAINER_LEN) || (id > c && !strchr("-:_", id[-1])))
        return false;
    (void)scan_copy(o->container, sizeof(o->container), id, CONTAINER_LEN);
    return true;
}

static void unit_read(const char *c, size_t len, struct owner *o)
{
    if ((has_suffix(c, len, ".service") || has_suffix(c, len, ".scope")) && len < sizeof(o->unit))
        (void)scan_copy(o->unit, sizeof(o->unit), c, len);
}

/* One path.  Units are taken from systemd's own hierarchy (v2, or v1's by that name). */
static void path_read(const char *path, size_t len, bool is_systemd, struct owner *o)
{
    bool below_slurm = false;
    char units[sizeof(o->unit)];

    memcpy(units, o->unit, sizeof(units));
    for (size_t at = 0; at < len;) {
        const char *c = path + at, *slash = memchr(c, '/', len - at);
        size_t n = slash ? (size_t)(slash - c) : len - at;

        at += n + 1;
        if (!n)
            continue;
        slurm_read(c, n, below_slurm, o);
        below_slurm = below_slurm || scan_is(c, n, "slurm") || scan_begins(c, n, "slurm_") ||
                      has_suffix(c, n, "slurmstepd.scope") || scan_is(c, n, "slurmstepd.scope");
        pod_read(c, n, o);
        if (!container_read(c, n, o) && (is_systemd || !units[0]))
            unit_read(c, n, o);
    }
}

/* "0::/path" of v2; "4:memory:/path" and "1:name=systemd:/path" of v1. */
void owner_cgroup(const char *text, struct owner *out)
{
    for (const char *line = text; *line; line = scan_line(line)) {
        const char *end = strchrnul(line, '\n');
        const char *first = memchr(line, ':', (size_t)(end - line));
        const char *second = first ? memchr(first + 1, ':', (size_t)(end - first - 1)) : NULL;
        size_t names;

        if (!second)
            continue;
        names = (size_t)(second - first - 1);
        path_read(second + 1, (size_t)(end - second - 1),
                  !names || (names == 12 && !memcmp(first + 1, "name=systemd", 12)), out);
    }
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

/* "python train.py": of an interpreter the program too, other arguments not (they may hold
 * secrets). */
static void command_read(const struct root *root, int pid, char *text, struct owner *o)
{
    const char *args[OWNER_ARGS_MAX] = { 0 };
    const char *program = NULL;
    char path[64];
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
    n = collect_read(root, path, text, OWNER_TEXT_MAX);
    for (ssize_t at = 0, i = 0; at < n && i < OWNER_ARGS_MAX; at += (ssize_t)strlen(text + at) + 1)
        args[i++] = text + at;
    if (!args[0] || !args[0][0]) {
        snprintf(path, sizeof(path), "/proc/%d/comm", pid);
        if (collect_read(root, path, text, OWNER_TEXT_MAX) <= 0)
            return;
        text[strcspn(text, "\n")] = '\0';
        args[0] = text;
        args[1] = args[2] = NULL;
    }
    args[0] = base_name(args[0]);
    if (str_starts(args[0], "python") && args[1])
        program = !strcmp(args[1], "-m") ? args[2] : args[1][0] != '-' ? base_name(args[1]) : NULL;
    snprintf(o->command, sizeof(o->command), "%s%s%s", args[0], program ? " " : "",
             program ? program : "");
    str_make_text(o->command);
}

/* "name:x:1000:…" */
static bool passwd_name(const struct root *root, uint64_t uid, char *out, size_t cap)
{
    char *text = xmalloc(OWNER_PASSWD_MAX);
    bool found = false;

    if (collect_read(root, "/etc/passwd", text, OWNER_PASSWD_MAX) > 0)
        for (const char *line = text; *line && !found; line = scan_line(line)) {
            const char *end = strchrnul(line, '\n');
            const char *name_end = memchr(line, ':', (size_t)(end - line));
            const char *p =
                name_end ? memchr(name_end + 1, ':', (size_t)(end - name_end - 1)) : NULL;
            uint64_t v;

            if (!p)
                continue;
            p++;
            found = scan_u64(&p, &v) && *p == ':' && v == uid &&
                    scan_copy(out, cap, line, (size_t)(name_end - line));
        }
    free(text);
    return found;
}

static void user_read(const struct root *root, int pid, char *text, struct owner *o)
{
    char path[64];
    const char *at;
    uint64_t uid;

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    if (collect_read(root, path, text, OWNER_TEXT_MAX) <= 0)
        return;
    at = strstr(text, "\nUid:");
    if (!at)
        return;
    at += strlen("\nUid:");
    if (scan_u64(&at, &uid) && !passwd_name(root, uid, o->user, sizeof(o->user)))
        snprintf(o->user, sizeof(o->user), "%llu", (unsigned long long)uid);
}

/* ---- pods */

/* The text before '_', which no name of Kubernetes has; NULL: there is none, or it is too long. */
static const char *copy_part(const char *s, char *out, size_t cap)
{
    const char *end = strchr(s, '_');

    return end && end > s && scan_copy(out, cap, s, (size_t)(end - s)) ? end + 1 : NULL;
}

bool owner_pod_folder(const char *name, struct owner *io)
{
    char in[sizeof(io->pod_namespace)], pod[sizeof(io->pod)];
    const char *rest = copy_part(name, in, sizeof(in));

    rest = rest ? copy_part(rest, pod, sizeof(pod)) : NULL;
    if (!rest || !io->pod_uid[0] || strcmp(rest, io->pod_uid) != 0)
        return false;
    memcpy(io->pod_namespace, in, sizeof(in));
    memcpy(io->pod, pod, sizeof(pod));
    return true;
}

bool owner_container_log(const char *name, struct owner *io)
{
    char in[sizeof(io->pod_namespace)], pod[sizeof(io->pod)];
    const char *rest = copy_part(name, pod, sizeof(pod));
    size_t len, tail = CONTAINER_LEN + strlen("-.log");

    rest = rest ? copy_part(rest, in, sizeof(in)) : NULL;
    len = rest ? strlen(rest) : 0;
    if (len <= tail || rest[len - tail] != '-' || !str_ends(rest, ".log") || !io->container[0] ||
        memcmp(rest + len - tail + 1, io->container, CONTAINER_LEN) != 0)
        return false;
    return scan_copy(io->pod_container, sizeof(io->pod_container), rest, len - tail);
}

static void pod_names(const struct root *root, struct owner *o)
{
    struct arena a = { 0 };
    struct root_names names;

    if (collect_list(root, &a, "/var/log/pods", &names) == 0)
        for (size_t i = 0; i < names.count && !owner_pod_folder(names.items[i], o); i++)
            ;
    if (o->container[0] && collect_list(root, &a, "/var/log/containers", &names) == 0)
        for (size_t i = 0; i < names.count && !owner_container_log(names.items[i], o); i++)
            ;
    arena_release(&a);
}

bool owner_of(const struct root *root, int pid, struct owner *out)
{
    char *text = xmalloc(OWNER_TEXT_MAX);
    struct owner o = { 0 };
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
    if (pid > 0 && collect_read(root, path, text, OWNER_TEXT_MAX) > 0)
        owner_cgroup(text, &o);
    if (pid > 0) {
        command_read(root, pid, text, &o);
        user_read(root, pid, text, &o);
    }
    if (o.pod_uid[0])
        pod_names(root, &o);
    free(text);
    if (!o.command[0] && !o.user[0])
        return false; /* gone, or not ours to see */
    *out = o;
    return true;
}
