/* SPDX-License-Identifier: MIT */
/* nccl_text: what several files of nccl/ need to read the environment and write sentences. */
#include "nccl/nccl_int.h"

#include "base/str.h"

#include <errno.h>

const char *nccl_env_of(const struct hw *hw, const char *name)
{
    const char *v = hw_env_get(hw, name);

    return v && *v ? v : NULL;
}

int64_t nccl_env_int(const struct hw *hw, const char *name, int64_t dflt)
{
    const char *v = nccl_env_of(hw, name);
    long long n;

    if (!v)
        return dflt;
    errno = 0;
    n = strtoll(v, NULL, 0);
    return errno ? dflt : n;
}

static void line_add(struct nccl_run *s, const char ***lines, size_t *count, const char *fmt,
                     va_list ap)
{
    const char **more = arena_array(s->a, const char *, *count + 1);
    struct buf b = { 0 };

    buf_vaddf(&b, fmt, ap);
    if (*count)
        memcpy(more, *lines, *count * sizeof(*more));
    more[(*count)++] = nccl_text(s->a, &b);
    *lines = more;
}

void nccl_note(struct nccl_run *s, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    line_add(s, &s->c->notes, &s->c->notes_count, fmt, ap);
    va_end(ap);
}

void nccl_doubt(struct nccl_run *s, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    line_add(s, &s->c->doubts, &s->c->doubts_count, fmt, ap);
    va_end(ap);
}

const char *nccl_rate_text(struct arena *a, struct maybe mbps)
{
    if (!mbps.known)
        return "unknown rate";
    if (mbps.v % 1000)
        return arena_printf(a, "%.1f Gb/s", (double)mbps.v / 1000);
    return arena_printf(a, "%lld Gb/s", (long long)(mbps.v / 1000));
}

const char *nccl_text(struct arena *a, struct buf *b)
{
    const char *text = arena_strndup(a, buf_str(b), b->len);

    buf_release(b);
    return text;
}

void nccl_wrap(struct buf *out, const char *prefix, const char *text, size_t width)
{
    size_t room = width > strlen(prefix) + 20 ? width - strlen(prefix) : 20;
    size_t col = 0;

    while (*text) {
        size_t len;

        while (*text == ' ' || *text == '\n')
            text++;
        len = strcspn(text, " \n");
        if (!len)
            break;
        if (col && col + 1 + len > room) {
            buf_addc(out, '\n');
            col = 0;
        }
        buf_adds(out, col ? " " : prefix);
        col += col ? 1 : 0;
        for (size_t i = 0; i < len; i++) /* what others wrote must not steer a terminal */
            buf_addc(out, (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i]);
        col += len;
        text += len;
    }
    if (col)
        buf_addc(out, '\n');
}

bool nccl_older_patch(const struct hw *hw, int major, int minor, int patch)
{
    const char *v = hw_nccl_version(hw);
    const int want[] = { major, minor, patch };
    char *end;

    for (size_t i = 0; v && i < ARRAY_SIZE(want); i++) {
        long have = strtol(v, &end, 10);

        if (end == v && !i)
            return false;
        if (end == v || have != want[i])
            return (end == v ? 0 : have) < want[i];
        v = *end == '.' ? end + 1 : end;
    }
    return false;
}

bool nccl_older_than(const struct hw *hw, int major, int minor)
{
    return nccl_older_patch(hw, major, minor, 0);
}

size_t nccl_ports_max(const struct hw *hw)
{
    return nccl_older_patch(hw, 2, 18, 5) ? NCCL_PORTS_MAX / 2 : NCCL_PORTS_MAX;
}

bool nccl_cpu_is_zhaoxin(const struct hw *hw)
{
    const char *vendor = hw->cpu.vendor;

    return str_eq(vendor, "CentaurHauls") || (vendor && strstr(vendor, "Shanghai"));
}
