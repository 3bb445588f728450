/* SPDX-License-Identifier: MIT */
/* collect: the list of host sources, and what they share: kept files, scanning, series. */
#include "telemetry/collect/collect_int.h"

#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

const struct collector *const collectors[] = {
    &collect_cpu,    &collect_memory, &collect_pressure, &collect_disk,
    &collect_net,    &collect_rdma,   &collect_lustre,   &collect_nfs,
    &collect_mounts, &collect_jobs,   &collect_self,     NULL,
};

/* ---- files ---- */

/* A root is const for its users: what changes inside it (a recorder) is none of theirs, and the
 * sources here never record. */
static struct root *mutable_root(const struct root *r)
{
    return (struct root *)(uintptr_t)r;
}

void cfile_open(struct cfile *f, const struct root *r, const char *path)
{
    int fd = root_open_file(mutable_root(r), path);

    *f = (struct cfile){ .fd = fd < 0 ? -1 : fd, .error = fd < 0 ? -fd : 0 };
}

void cfile_close(struct cfile *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

ssize_t cfile_read(const struct cfile *f, char *buf, size_t cap)
{
    ssize_t n;

    buf[0] = '\0';
    if (f->fd < 0)
        return f->error ? -f->error : -ENOENT;
    do
        n = pread(f->fd, buf, cap - 1, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    buf[n] = '\0';
    return n;
}

ssize_t cfile_read_all(const struct cfile *f, char *buf, size_t cap)
{
    size_t len = 0;

    buf[0] = '\0';
    if (f->fd < 0)
        return f->error ? -f->error : -ENOENT;
    while (len + 1 < cap) {
        ssize_t n = pread(f->fd, buf + len, cap - 1 - len, (off_t)len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    buf[len] = '\0';
    return (ssize_t)len;
}

ssize_t collect_read(const struct root *r, const char *path, char *buf, size_t cap)
{
    struct cfile f;
    ssize_t n;

    cfile_open(&f, r, path);
    n = cfile_read_all(&f, buf, cap);
    cfile_close(&f);
    return n;
}

int collect_list(const struct root *r, struct arena *a, const char *path, struct root_names *out)
{
    return root_list(mutable_root(r), a, path, out);
}

/* ---- scanning ---- */

static const char *skip_blanks(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

bool scan_u64(const char **p, uint64_t *out)
{
    const char *s = skip_blanks(*p);
    uint64_t v = 0;

    if (*s < '0' || *s > '9')
        return false;
    for (; *s >= '0' && *s <= '9'; s++)
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
            return false;
    *p = s;
    *out = v;
    return true;
}

bool scan_i64(const char **p, int64_t *out)
{
    const char *s = skip_blanks(*p);
    bool minus = *s == '-';
    uint64_t v;

    s += minus;
    if (*s < '0' || *s > '9' || !scan_u64(&s, &v) || v > INT64_MAX)
        return false;
    *p = s;
    *out = minus ? -(int64_t)v : (int64_t)v;
    return true;
}

bool scan_f64(const char **p, double *out)
{
    const char *s = *p;
    uint64_t whole;
    double v, step = 0.1;

    if (!scan_u64(&s, &whole))
        return false;
    v = (double)whole;
    if (*s == '.')
        for (s++; *s >= '0' && *s <= '9'; s++) {
            v += step * (*s - '0');
            step /= 10;
        }
    *p = s;
    *out = v;
    return true;
}

size_t scan_word(const char **p, const char **word)
{
    const char *s = skip_blanks(*p);
    size_t len = strcspn(s, " \t\n");

    *word = s;
    *p = s + len;
    return len;
}

const char *scan_line(const char *p)
{
    p = strchrnul(p, '\n');
    return *p ? p + 1 : p;
}

bool scan_is(const char *word, size_t len, const char *want)
{
    return !strncmp(word, want, len) && !want[len];
}

bool scan_begins(const char *word, size_t len, const char *prefix)
{
    size_t n = strlen(prefix);

    return len > n && !memcmp(word, prefix, n);
}

bool scan_copy(char *out, size_t cap, const char *word, size_t len)
{
    if (!len || len >= cap || !str_is_text(word, len))
        return false;
    memcpy(out, word, len);
    out[len] = '\0';
    return true;
}

/* ---- series ---- */

const struct telemetry_metric *collect_metric(const char *name)
{
    const struct telemetry_metric *m = telemetry_metric_named(name);

    return m ? m : telemetry_metric(name);
}

uint32_t collect_id(struct telemetry *t, unsigned source, const char *name,
                    const struct telemetry_label *labels, size_t count)
{
    const struct telemetry_metric *m = collect_metric(name);

    assert(m); /* names are ours: data/telemetry.csv lacks one */
    return m ? telemetry_series(t, source, m, labels, count) : TELEMETRY_NONE;
}

void collect_keys_ids(struct telemetry *t, unsigned source, const struct collect_key *keys,
                      size_t count, const struct telemetry_label *labels, size_t label_count,
                      uint32_t *ids)
{
    for (size_t i = 0; i < count; i++)
        ids[i] = collect_id(t, source, keys[i].prom, labels, label_count);
}

void collect_set_after(struct telemetry *t, uint32_t id, const char *text, const char *head)
{
    const char *p = strstr(text, head);
    uint64_t v;

    if (!p)
        return;
    p += strlen(head);
    if (scan_u64(&p, &v))
        telemetry_set(t, id, (double)v);
}

void collect_keys_set(struct telemetry *t, const char *text, const struct collect_key *keys,
                      size_t count, const uint32_t *ids)
{
    for (const char *line = text; *line; line = scan_line(line)) {
        const char *p = line, *word;
        size_t len = scan_word(&p, &word);
        uint64_t v;

        if (len && word[len - 1] == ':')
            len--;
        for (size_t i = 0; i < count; i++)
            if (*word == keys[i].key[0] && scan_is(word, len, keys[i].key)) {
                if (scan_u64(&p, &v))
                    telemetry_set(t, ids[i], (double)v * keys[i].scale);
                break;
            }
    }
}
