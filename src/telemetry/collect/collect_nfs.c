/* SPDX-License-Identifier: MIT */
/* collect_nfs: what the NFS client counts for each mount (/proc/self/mountstats) and over all
 * (/proc/net/rpc/nfs), under node_exporter's names.
 *
 * Both are the client's memory: a dead server does not hold a reader.  Of some thirty operations
 * those that a job's input and output consist of are shown. */
#include "telemetry/collect/collect_int.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
    NFS_MOUNTS_MAX = 32,      /* mounts shown */
    NFS_TEXT_MAX = 512 << 10, /* bytes read of mountstats: some 4 KiB a mount */
    NFS_EXPORT_MAX = TELEMETRY_VALUE_MAX,
    NFS_BYTES = 8, /* numbers of a "bytes:" line */
    NFS_COLUMNS = 8,
};

static const char *const byte_proms[NFS_BYTES] = {
    [0] = "node_mountstats_nfs_read_bytes_total",
    [1] = "node_mountstats_nfs_write_bytes_total",
    [4] = "node_mountstats_nfs_total_read_bytes_total",
    [5] = "node_mountstats_nfs_total_write_bytes_total",
};

static const char *const ops[] = { "READ",   "WRITE",  "COMMIT",  "OPEN",
                                   "LOOKUP", "ACCESS", "GETATTR", "READDIR" };

/* An operation's numbers: requests, transmissions, major timeouts, bytes sent and received with
 * headers, milliseconds queued, until the answer, in all.  Transmissions are shown as those beyond
 * the first. */
enum { NFS_REQUESTS = 0, NFS_TRANSMISSIONS = 1 };
static const struct {
    const char *prom; /* NULL: not shown */
    double scale;
} columns[NFS_COLUMNS] = {
    [NFS_REQUESTS] = { "node_mountstats_nfs_operations_requests_total", 1 },
    [NFS_TRANSMISSIONS] = { "stoker_nfs_retransmissions_total", 1 },
    [2] = { "node_mountstats_nfs_operations_major_timeouts_total", 1 },
    [6] = { "node_mountstats_nfs_operations_response_time_seconds_total", 0.001 },
};

struct nfs_mount {
    char export[NFS_EXPORT_MAX], address[COLLECT_NAME_MAX], protocol[16];
    uint32_t age, bytes[NFS_BYTES], ops[ARRAY_SIZE(ops)][NFS_COLUMNS];
    unsigned seen; /* the turn: the same export mounted twice is told once */
};

struct nfs {
    unsigned source, turn;
    struct cfile stats, rpc;
    struct nfs_mount *mounts;
    size_t count, cap;
    uint32_t rpcs, retransmissions, refreshes;
    char text[NFS_TEXT_MAX];
};

static void *nfs_open(const struct root *root, struct telemetry *t)
{
    struct nfs *n = xcalloc(1, sizeof(*n));

    n->source = telemetry_source(t, collect_nfs.name);
    cfile_open(&n->stats, root, "/proc/self/mountstats");
    cfile_open(&n->rpc, root, "/proc/net/rpc/nfs");
    if (n->rpc.fd < 0)
        n->rpcs = n->retransmissions = n->refreshes = TELEMETRY_NONE;
    else {
        n->rpcs = collect_id(t, n->source, "node_nfs_rpcs_total", NULL, 0);
        n->retransmissions =
            collect_id(t, n->source, "node_nfs_rpc_retransmissions_total", NULL, 0);
        n->refreshes =
            collect_id(t, n->source, "node_nfs_rpc_authentication_refreshes_total", NULL, 0);
    }
    return n;
}

static void nfs_close(void *state)
{
    struct nfs *n = state;

    if (!n)
        return;
    cfile_close(&n->stats);
    cfile_close(&n->rpc);
    free(n->mounts);
    free(n);
}

/* What one mount's text says of itself. */
struct nfs_head {
    const char *export;
    size_t export_len;
    char address[COLLECT_NAME_MAX], protocol[16];
};

static struct nfs_mount *mount_find(struct nfs *n, struct telemetry *t, const struct nfs_head *h)
{
    struct telemetry_label l[4] = { { "export", NULL },
                                    { "protocol", NULL },
                                    { "mountaddr", NULL } };
    struct nfs_mount *m = NULL;
    bool full = n->count == NFS_MOUNTS_MAX;

    for (size_t i = 0; i < n->count; i++)
        if (scan_is(h->export, h->export_len, n->mounts[i].export) &&
            !strcmp(h->address, n->mounts[i].address) &&
            !strcmp(h->protocol, n->mounts[i].protocol))
            return &n->mounts[i];
    for (size_t i = 0; i < n->count && full && !m; i++)
        if (n->mounts[i].seen + 1 < n->turn)
            m = &n->mounts[i]; /* gone since the last turn at least */
    if (full && !m)
        return NULL;
    if (!full) {
        VEC_GROW(n->mounts, n->count, n->cap);
        m = &n->mounts[n->count];
    }
    *m = (struct nfs_mount){ 0 };
    if (!scan_copy(m->export, sizeof(m->export), h->export, h->export_len))
        return NULL;
    memcpy(m->address, h->address, sizeof(m->address));
    memcpy(m->protocol, h->protocol, sizeof(m->protocol));
    l[0].value = m->export;
    l[1].value = m->protocol;
    l[2].value = m->address;
    m->age = collect_id(t, n->source, "node_mountstats_nfs_age_seconds_total", l, 3);
    for (size_t i = 0; i < NFS_BYTES; i++)
        m->bytes[i] =
            byte_proms[i] ? collect_id(t, n->source, byte_proms[i], l, 3) : TELEMETRY_NONE;
    for (size_t o = 0; o < ARRAY_SIZE(ops); o++)
        for (size_t i = 0; i < NFS_COLUMNS; i++) {
            l[3] = (struct telemetry_label){ "operation", ops[o] };
            m->ops[o][i] =
                columns[i].prom ? collect_id(t, n->source, columns[i].prom, l, 4) : TELEMETRY_NONE;
        }
    n->count += !full;
    return m;
}

/* "device SERVER:/EXPORT mounted on /PATH with fstype nfs4 statvers=1.1" */
static bool head_read(const char *line, struct nfs_head *h)
{
    const char *end = strchrnul(line, '\n');
    const char *type = memmem(line, (size_t)(end - line), " with fstype nfs", 16);
    const char *p = line + strlen("device ");

    *h = (struct nfs_head){ 0 };
    if (!type || !memmem(type, (size_t)(end - type), " statvers=", 10))
        return false; /* another file system, nfsd, or one without statistics */
    h->export_len = scan_word(&p, &h->export);
    return true;
}

/* "addr=10.0.0.1" among the options, separated by commas. */
static void options_read(const char *line, struct nfs_head *h)
{
    const char *end = strchrnul(line, '\n');
    const char *at = memmem(line, (size_t)(end - line), ",addr=", 6);

    if (!at)
        return;
    at += 6;
    if (!scan_copy(h->address, sizeof(h->address), at, strcspn(at, ",\n")))
        h->address[0] = '\0';
}

static void op_set(struct telemetry *t, const struct nfs_mount *m, const char *word, size_t len,
                   const char *p)
{
    uint64_t v, requests = 0;

    for (size_t o = 0; o < ARRAY_SIZE(ops); o++)
        if (scan_is(word, len, ops[o])) {
            for (size_t i = 0; i < NFS_COLUMNS && scan_u64(&p, &v); i++) {
                if (i == NFS_REQUESTS)
                    requests = v;
                if (i == NFS_TRANSMISSIONS)
                    v = v > requests ? v - requests : 0;
                telemetry_set(t, m->ops[o][i], (double)v * columns[i].scale);
            }
            return;
        }
}

/* One mount's lines; the next device's line, or the end. */
static const char *mount_sample(struct nfs *n, struct telemetry *t, const char *line)
{
    struct nfs_head h;
    struct nfs_mount *m = NULL;
    const char *bytes = NULL, *age = NULL, *p, *word;
    bool is_nfs = head_read(line, &h);
    uint64_t v;

    for (line = scan_line(line); *line && strncmp(line, "device ", 7) != 0;
         line = scan_line(line)) {
        size_t len;

        p = line;
        if (!is_nfs || !(len = scan_word(&p, &word)))
            continue;
        if (scan_is(word, len, "opts:"))
            options_read(p, &h);
        else if (scan_is(word, len, "age:"))
            age = p;
        else if (scan_is(word, len, "bytes:"))
            bytes = p;
        else if (scan_is(word, len, "xprt:") && !h.protocol[0]) {
            len = scan_word(&p, &word);
            (void)scan_copy(h.protocol, sizeof(h.protocol), word, len);
        } else if (scan_is(word, len, "per-op")) {
            m = mount_find(n, t, &h);
            if (m && m->seen == n->turn)
                m = NULL;
            if (m)
                m->seen = n->turn;
            if (m && age && scan_u64(&age, &v))
                telemetry_set(t, m->age, (double)v);
            for (size_t i = 0; m && bytes && i < NFS_BYTES && scan_u64(&bytes, &v); i++)
                telemetry_set(t, m->bytes[i], (double)v);
        } else if (m && word[len - 1] == ':')
            op_set(t, m, word, len - 1, p);
    }
    return line;
}

static void rpc_set(const struct nfs *n, struct telemetry *t)
{
    const uint32_t ids[] = { n->rpcs, n->retransmissions, n->refreshes };
    uint64_t v;

    for (const char *line = n->text; *line; line = scan_line(line)) {
        const char *p = line + 4;

        if (strncmp(line, "rpc ", 4) != 0)
            continue;
        for (size_t i = 0; i < ARRAY_SIZE(ids) && scan_u64(&p, &v); i++)
            telemetry_set(t, ids[i], (double)v);
    }
}

static void nfs_sample(void *state, struct telemetry *t, int64_t now_ns)
{
    struct nfs *n = state;

    n->turn++;
    telemetry_begin(t, n->source, now_ns);
    if (cfile_read_all(&n->stats, n->text, sizeof(n->text)) > 0)
        for (const char *line = n->text; *line;)
            line = strncmp(line, "device ", 7) ? scan_line(line) : mount_sample(n, t, line);
    if (cfile_read_all(&n->rpc, n->text, sizeof(n->text)) > 0)
        rpc_set(n, t);
    telemetry_end(t);
}

const struct collector collect_nfs = {
    .name = "nfs", .period_ms = 5000, .open = nfs_open, .sample = nfs_sample, .close = nfs_close
};
