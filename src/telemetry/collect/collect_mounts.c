/* SPDX-License-Identifier: MIT */
/* collect_mounts: size and room of file systems, under node_exporter's names.
 *
 * 1. Local file systems answer from memory and are asked here.  Remote ones (NFS, Lustre, FUSE and
 *    all that is not known to be local) are asked by another thread (mounts_probe.c): a dead server
 *    costs a thread and an event, never a sample.
 * 2. autofs is never asked: asking would mount.
 * 3. Left out as node_exporter does: file systems of the kernel, and what belongs to single
 *    containers and pods, which come and go.  /dev/shm stays, where data loaders live.
 * 4. A device that is mounted in many places is shown once, where it was mounted first.
 * 5. Below a captured root, "/stoker/statvfs" has the answers, a line a mount point: block size,
 *    blocks, free, available, files, free files. */
#include "telemetry/collect/collect_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOUNTS_MAX = 128,            /* file systems shown */
    MOUNTS_TEXT_MAX = 512 << 10, /* bytes read of mountinfo */
    MOUNTS_TYPE_MAX = 32,
    MOUNTS_DEADLINE_MS = 15000, /* a remote file system that takes longer is stuck */
    MOUNT_IDS = 7
};

static const char *const proms[MOUNT_IDS] = {
    "node_filesystem_size_bytes",   "node_filesystem_free_bytes", "node_filesystem_avail_bytes",
    "node_filesystem_files",        "node_filesystem_files_free", "node_filesystem_readonly",
    "node_filesystem_device_error",
};

struct mount {
    char device[TELEMETRY_VALUE_MAX], point[MOUNTS_PATH_MAX], type[MOUNTS_TYPE_MAX], number[16];
    bool remote, readonly, shown, stuck;
    uint32_t ids[MOUNT_IDS];
};

struct mounts {
    const struct root *root; /* borrowed */
    unsigned source;
    bool live, read;
    struct cfile info;
    struct mount mounts[MOUNTS_MAX];
    size_t count;
    struct mounts_probe *ask;
    struct mounts_answer list[MOUNTS_PROBE_MAX];
    char text[MOUNTS_TEXT_MAX];
};

static int ask_kernel(const char *path, struct statvfs *out)
{
    return statvfs(path, out);
}

static void *mounts_open(const struct root *root, struct telemetry *t)
{
    struct mounts *m = xcalloc(1, sizeof(*m));

    m->root = root;
    m->live = root_is_live(root);
    m->source = telemetry_source(t, collect_mounts.name);
    cfile_open(&m->info, root, "/proc/self/mountinfo");
    m->ask = mounts_probe_new(ask_kernel, MOUNTS_DEADLINE_MS);
    return m;
}

static void mounts_close(void *state)
{
    struct mounts *m = state;

    if (!m)
        return;
    cfile_close(&m->info);
    mounts_probe_free(m->ask);
    free(m);
}

/* ---- which ---- */

static bool one_of(const char *word, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(word, list[i]))
            return true;
    return false;
}

static bool is_kernels(const struct mount *n)
{
    static const char *const types[] = {
        "autofs",      "binfmt_misc",
        "bpf",         "cgroup",
        "cgroup2",     "configfs",
        "debugfs",     "devpts",
        "devtmpfs",    "fusectl",
        "hugetlbfs",   "iso9660",
        "mqueue",      "nsfs",
        "proc",        "pstore",
        "rpc_pipefs",  "securityfs",
        "selinuxfs",   "squashfs",
        "erofs",       "sysfs",
        "tracefs",     "efivarfs",
        "fuse.lxcfs",  "fuse.gvfsd-fuse",
        "fuse.portal", "rootfs",
        "resctrl",     "smackfs",
        "nfsd",
    };

    return one_of(n->type, types, ARRAY_SIZE(types)) ||
           (str_eq(n->type, "overlay") && !str_eq(n->point, "/"));
}

static bool is_local(const char *type)
{
    static const char *const types[] = { "ext2",  "ext3",     "ext4",  "xfs",
                                         "btrfs", "f2fs",     "tmpfs", "vfat",
                                         "exfat", "ntfs3",    "zfs",   "overlay",
                                         "ramfs", "bcachefs", "jfs",   "reiserfs" };

    return one_of(type, types, ARRAY_SIZE(types));
}

static bool is_below(const char *path, const char *top)
{
    size_t len = strlen(top);

    return !strncmp(path, top, len) && (path[len] == '/' || !path[len]);
}

static bool is_left_out(const struct mount *n)
{
    static const char *const tops[] = { "/dev",
                                        "/proc",
                                        "/sys",
                                        "/run/credentials",
                                        "/run/netns",
                                        "/run/user",
                                        "/run/containerd",
                                        "/run/k3s",
                                        "/var/lib/docker",
                                        "/var/lib/containers",
                                        "/var/lib/containerd",
                                        "/var/lib/kubelet",
                                        "/snap" };

    if (str_eq(n->point, "/dev/shm"))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(tops); i++)
        if (is_below(n->point, tops[i]))
            return true;
    return is_kernels(n);
}

/* ---- the list ---- */

/* Blanks and such are written "\040" in it. */
static bool copy_octal(char *out, size_t cap, const char *word, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        char c = word[i];

        if (c == '\\' && i + 3 < len && word[i + 1] >= '0' && word[i + 1] <= '3' &&
            word[i + 2] >= '0' && word[i + 2] <= '7' && word[i + 3] >= '0' && word[i + 3] <= '7') {
            c = (char)((word[i + 1] - '0') * 64 + (word[i + 2] - '0') * 8 + (word[i + 3] - '0'));
            i += 3;
        }
        if (n + 1 >= cap || !c)
            return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return n > 0;
}

/* "36 35 98:0 / /mnt rw,noatime master:1 - ext4 /dev/sda1 rw,errors=continue" */
static bool line_read(const char *line, struct mount *n)
{
    const char *p = line, *word;
    size_t len;

    *n = (struct mount){ 0 };
    if (!scan_word(&p, &word) || !scan_word(&p, &word))
        return false;
    len = scan_word(&p, &word);
    if (!scan_copy(n->number, sizeof(n->number), word, len) || !scan_word(&p, &word))
        return false;
    len = scan_word(&p, &word);
    if (!copy_octal(n->point, sizeof(n->point), word, len) || n->point[0] != '/')
        return false;
    len = scan_word(&p, &word);
    n->readonly = len >= 2 && !strncmp(word, "ro", 2) && (len == 2 || word[2] == ',');
    while ((len = scan_word(&p, &word)) && !scan_is(word, len, "-"))
        ;
    len = scan_word(&p, &word);
    if (!scan_copy(n->type, sizeof(n->type), word, len))
        return false;
    len = scan_word(&p, &word);
    if (!copy_octal(n->device, sizeof(n->device), word, len))
        return false;
    len = scan_word(&p, &word);
    n->readonly =
        n->readonly || (len >= 2 && !strncmp(word, "ro", 2) && (len == 2 || word[2] == ','));
    n->remote = !is_local(n->type);
    return true;
}

static void mount_add(struct mounts *m, struct telemetry *t, const struct mount *n)
{
    struct telemetry_label l[] = { { "device", n->device },
                                   { "mountpoint", n->point },
                                   { "fstype", n->type } };
    struct mount *at = NULL, *idle = NULL;

    for (size_t i = 0; i < m->count; i++) {
        struct mount *x = &m->mounts[i];

        if (x->shown && str_eq(x->number, n->number))
            return;
        if (x->shown && str_eq(x->point, n->point))
            x->shown = false; /* hidden by what is mounted over it */
        if (str_eq(x->device, n->device) && str_eq(x->point, n->point) && str_eq(x->type, n->type))
            at = x;
        if (!x->shown)
            idle = x; /* gone, or behind in the list: found again by name then */
    }
    if (!at && m->count == MOUNTS_MAX && !idle)
        return;
    if (!at) {
        at = m->count < MOUNTS_MAX ? &m->mounts[m->count++] : idle;
        *at = *n;
        for (size_t i = 0; i < MOUNT_IDS; i++)
            at->ids[i] = collect_id(t, m->source, proms[i], l, ARRAY_SIZE(l));
    }
    memcpy(at->number, n->number, sizeof(at->number));
    at->readonly = n->readonly;
    at->shown = true;
}

/* The kernel tells a change as an urgent condition of the file. */
static bool has_changed(struct mounts *m)
{
    struct pollfd p = { .fd = m->info.fd, .events = POLLPRI };

    if (!m->read || !m->live)
        return true;
    return poll(&p, 1, 0) > 0;
}

static void list_read(struct mounts *m, struct telemetry *t)
{
    struct mount n;

    if (!has_changed(m) || cfile_read_all(&m->info, m->text, sizeof(m->text)) <= 0)
        return;
    m->read = true;
    for (size_t i = 0; i < m->count; i++)
        m->mounts[i].shown = false;
    for (const char *line = m->text; *line; line = scan_line(line))
        if (line_read(line, &n) && !is_left_out(&n))
            mount_add(m, t, &n);
}

/* ---- values ---- */

/* A captured machine's answer. */
static int ask_captured(struct mounts *m, const char *point, struct statvfs *v)
{
    char path[MOUNTS_PATH_MAX];

    if (collect_read(m->root, "/stoker/statvfs", m->text, sizeof(m->text)) <= 0)
        return EAGAIN;
    for (const char *line = m->text; *line; line = scan_line(line)) {
        const char *p = line, *word;
        size_t len = scan_word(&p, &word);
        uint64_t n[6];
        size_t i = 0;

        if (!copy_octal(path, sizeof(path), word, len) || !str_eq(path, point))
            continue;
        while (i < ARRAY_SIZE(n) && scan_u64(&p, &n[i]))
            i++;
        if (i < ARRAY_SIZE(n))
            return EIO;
        *v = (struct statvfs){ .f_frsize = n[0],
                               .f_blocks = n[1],
                               .f_bfree = n[2],
                               .f_bavail = n[3],
                               .f_files = n[4],
                               .f_ffree = n[5] };
        return 0;
    }
    return EAGAIN;
}

static void mount_set(struct telemetry *t, const struct mount *n, int rc, const struct statvfs *v)
{
    if (rc == EAGAIN)
        return;
    telemetry_set(t, n->ids[5], n->readonly);
    telemetry_set(t, n->ids[6], rc != 0);
    if (rc)
        return;
    telemetry_set(t, n->ids[0], (double)v->f_blocks * (double)v->f_frsize);
    telemetry_set(t, n->ids[1], (double)v->f_bfree * (double)v->f_frsize);
    telemetry_set(t, n->ids[2], (double)v->f_bavail * (double)v->f_frsize);
    telemetry_set(t, n->ids[3], (double)v->f_files);
    telemetry_set(t, n->ids[4], (double)v->f_ffree);
}

static void stuck_tell(struct telemetry *t, struct mount *n, bool stuck, int64_t now_ns)
{
    struct telemetry_event e = { .time_ns = now_ns, .kind = TELEMETRY_EVENT_KERNEL, .gpu = -1 };

    if (n->stuck == stuck)
        return;
    n->stuck = stuck;
    snprintf(e.text, sizeof(e.text), "%s file system '%.80s' of '%.80s' %s", n->type, n->point,
             n->device, stuck ? "does not answer" : "answers again");
    telemetry_event(t, &e);
}

static void remote_sample(struct mounts *m, struct telemetry *t, int64_t now_ns)
{
    struct mount *who[MOUNTS_PROBE_MAX];
    size_t count = 0;

    for (size_t i = 0; i < m->count && count < MOUNTS_PROBE_MAX; i++)
        if (m->mounts[i].shown && m->mounts[i].remote) {
            memcpy(m->list[count].path, m->mounts[i].point, MOUNTS_PATH_MAX);
            who[count++] = &m->mounts[i];
        }
    mounts_probe_turn(m->ask, m->list, count, clock_mono_ns());
    for (size_t i = 0; i < count; i++) {
        mount_set(t, who[i], m->list[i].rc, &m->list[i].v);
        if (m->list[i].rc != EAGAIN)
            stuck_tell(t, who[i], m->list[i].rc == ETIMEDOUT, now_ns);
    }
}

static void mounts_sample(void *state, struct telemetry *t, int64_t now_ns)
{
    struct mounts *m = state;

    telemetry_begin(t, m->source, now_ns);
    list_read(m, t);
    for (size_t i = 0; i < m->count; i++) {
        struct mount *n = &m->mounts[i];
        struct statvfs v;
        int rc;

        if (!n->shown || (n->remote && m->live))
            continue;
        if (m->live)
            rc = statvfs(n->point, &v) ? errno : 0;
        else
            rc = ask_captured(m, n->point, &v);
        mount_set(t, n, rc, &v);
    }
    if (m->live)
        remote_sample(m, t, now_ns);
    telemetry_end(t);
}

const struct collector collect_mounts = { .name = "mounts",
                                          .period_ms = 10000,
                                          .open = mounts_open,
                                          .sample = mounts_sample,
                                          .close = mounts_close };
