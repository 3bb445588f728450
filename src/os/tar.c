/* SPDX-License-Identifier: MIT */
/* tar: captured machines as archives.
 *
 * Reading takes what tar programs write: ustar with prefix, GNU long names (L, K)
 * and pax headers (x; path and linkpath).  Device nodes, sockets and FIFOs are
 * passed over; hard links are read as empty files.  A damaged header is an error, and
 * so is an archive that was cut: half a machine must not pass for a whole one.
 *
 * Writing gives the same bytes for the same tree: sorted, time zero, owner zero. */
#include "base/mem.h"
#include "os/root_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAR_BLOCK = 512, TAR_FILE_MAX = 64 << 20 };

struct tar_header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], chksum[8];
    char typeflag;
    char linkname[100], magic[6], version[2], uname[32], gname[32], devmajor[8], devminor[8];
    char prefix[155], pad[12];
};
_Static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a tar header is one block");

/* Octal, or base 256 when the top bit is set (GNU); false when neither. */
static bool number_read(const char *p, size_t len, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = 0;

    if ((unsigned char)p[0] & 0x80) {
        for (v = (unsigned char)p[0] & 0x7f, i = 1; i < len; i++) {
            if (v >> 55)
                return false;
            v = v << 8 | (unsigned char)p[i];
        }
        *out = v;
        return true;
    }
    while (i < len && p[i] == ' ')
        i++;
    for (; i < len && p[i] >= '0' && p[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(p[i] - '0');
    if (i < len && p[i] != '\0' && p[i] != ' ')
        return false;
    *out = v;
    return true;
}

static unsigned header_sum(const struct tar_header *h)
{
    const unsigned char *p = (const unsigned char *)h;
    size_t from = offsetof(struct tar_header, chksum), to = from + sizeof(h->chksum);
    unsigned sum = 0;

    for (size_t i = 0; i < sizeof(*h); i++)
        sum += i >= from && i < to ? ' ' : p[i];
    return sum;
}

/* "LEN " at the start of a record that ends with a newline: its length, with *body behind
 * the blank; 0 when it is none.  A length cannot be shorter than what it counts. */
static size_t pax_record(const char *p, const char *end, const char **body)
{
    size_t n = 0;
    const char *q = p;

    for (; q < end && *q >= '0' && *q <= '9' && n <= (size_t)(end - p); q++)
        n = n * 10 + (size_t)(*q - '0');
    if (q == p || q == end || *q != ' ' || n > (size_t)(end - p) || n <= (size_t)(q + 1 - p) ||
        p[n - 1] != '\n')
        return 0;
    *body = q + 1;
    return n;
}

/* "LEN key=value\n" records; the last of each key wins. */
static void pax_read(const char *p, size_t len, char path[ROOT_PATH_MAX], char link[ROOT_PATH_MAX])
{
    const char *end = p + len;

    while (p < end) {
        const char *rest = NULL, *eq;
        size_t n = pax_record(p, end, &rest);
        char *to = NULL;

        eq = n ? memchr(rest, '=', (size_t)(p + n - rest)) : NULL;
        if (!eq)
            return;
        if (eq - rest == 4 && !memcmp(rest, "path", 4))
            to = path;
        else if (eq - rest == 8 && !memcmp(rest, "linkpath", 8))
            to = link;
        if (to && p + n - 1 - (eq + 1) < ROOT_PATH_MAX) {
            size_t m = (size_t)(p + n - 1 - (eq + 1));

            memcpy(to, eq + 1, m);
            to[m] = '\0';
        }
        p += n;
    }
}

static void name_take(char out[ROOT_PATH_MAX], const char *p, size_t len)
{
    size_t n = strnlen(p, len);

    if (n >= ROOT_PATH_MAX)
        n = ROOT_PATH_MAX - 1;
    memcpy(out, p, n);
    out[n] = '\0';
}

/* "./sys/x/" and "sys/x" both become "/sys/x". */
static void path_clean(const char *name, char out[ROOT_PATH_MAX])
{
    size_t w = 0;

    while (*name) {
        size_t n = strcspn(name, "/");

        if (n && !(n == 1 && name[0] == '.') && w + n + 2 < ROOT_PATH_MAX) {
            out[w++] = '/';
            memcpy(out + w, name, n);
            w += n;
        }
        name += n + (name[n] == '/');
    }
    if (!w)
        out[w++] = '/';
    out[w] = '\0';
}

struct tar_names { /* from extension headers, for the next entry; "" when none */
    char path[ROOT_PATH_MAX], link[ROOT_PATH_MAX];
};

static void entry_add(const struct tar_header *h, const char *data, size_t size,
                      struct tar_names *names, struct tree *out)
{
    char raw[ROOT_PATH_MAX] = "", path[ROOT_PATH_MAX];

    if (names->path[0])
        snprintf(raw, sizeof(raw), "%s", names->path);
    else if (h->prefix[0] && !memcmp(h->magic, "ustar", 5))
        snprintf(raw, sizeof(raw), "%.155s/%.100s", h->prefix, h->name);
    else
        snprintf(raw, sizeof(raw), "%.100s", h->name);
    path_clean(raw, path);
    if (h->typeflag == '5')
        (void)tree_put(out, path, TREE_DIR, NULL, 0, 0);
    else if (h->typeflag == '2') {
        if (!names->link[0])
            name_take(names->link, h->linkname, sizeof(h->linkname));
        (void)tree_put(out, path, TREE_LINK, names->link, strlen(names->link), 0);
    } else if (h->typeflag == '0' || h->typeflag == '\0' || h->typeflag == '1' ||
               h->typeflag == '7')
        (void)tree_put(out, path, TREE_FILE, data, size, 0);
    *names = (struct tar_names){ 0 };
}

static bool block_is_zero(const char *p)
{
    for (size_t i = 0; i < TAR_BLOCK; i++)
        if (p[i])
            return false;
    return true;
}

enum rc tar_read(const char *data, size_t len, struct tree *out, struct err *err)
{
    struct tar_names names = { 0 };
    size_t at = 0;

    while (at + TAR_BLOCK <= len && !block_is_zero(data + at)) {
        const struct tar_header *h = (const struct tar_header *)(data + at);
        uint64_t size, sum;

        if (!number_read(h->chksum, sizeof(h->chksum), &sum) || sum != header_sum(h) ||
            !number_read(h->size, sizeof(h->size), &size))
            return err_set(err, RC_PARSE, "damaged tar header at byte %zu", at);
        if (size > TAR_FILE_MAX)
            return err_set(err, RC_LIMIT, "file of %llu bytes in tar, more than %d",
                           (unsigned long long)size, TAR_FILE_MAX);
        if (h->typeflag == '2' || h->typeflag == '5')
            size = 0;
        at += TAR_BLOCK;
        if (size > len - at)
            return err_set(err, RC_PARSE, "tar ends inside a file, at byte %zu", at);
        if (h->typeflag == 'x')
            pax_read(data + at, size, names.path, names.link);
        else if (h->typeflag == 'L')
            name_take(names.path, data + at, size);
        else if (h->typeflag == 'K')
            name_take(names.link, data + at, size);
        else if (h->typeflag != 'g') /* about the archive: no entry */
            entry_add(h, data + at, size, &names, out);
        at += (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
    }
    if (!out->count)
        return err_set(err, RC_PARSE, "not a tar archive, or an empty one");
    if (at + TAR_BLOCK > len)
        return err_set(err, RC_PARSE, "tar without its end mark, cut at byte %zu", len);
    tree_sort(out);
    return RC_OK;
}

static void block_pad(struct buf *out)
{
    buf_fill(out, '\0', (TAR_BLOCK - out->len % TAR_BLOCK) % TAR_BLOCK);
}

static void header_write(struct buf *out, const char *name, const char *link, char type,
                         size_t size)
{
    struct tar_header h = { .typeflag = type, .magic = "ustar", .version = { '0', '0' } };

    memcpy(h.name, name, strnlen(name, sizeof(h.name)));
    memcpy(h.linkname, link, strnlen(link, sizeof(h.linkname)));
    memcpy(h.mode, type == '5' ? "0000755" : "0000644", 8);
    memcpy(h.uid, "0000000", 8);
    memcpy(h.gid, "0000000", 8);
    memcpy(h.mtime, "00000000000", 12);
    snprintf(h.size, sizeof(h.size), "%011zo", size);
    snprintf(h.chksum, sizeof(h.chksum), "%06o", header_sum(&h));
    h.chksum[7] = ' ';
    buf_add(out, &h, sizeof(h));
}

/* One pax record counts its own length. */
static void pax_add(struct buf *out, const char *key, const char *value)
{
    size_t body = strlen(key) + strlen(value) + 3, len;

    for (size_t digits = 1, ten = 10;; digits++, ten *= 10)
        if (body + digits < ten) {
            len = body + digits;
            break;
        }
    buf_addf(out, "%zu %s=%s\n", len, key, value);
}

static void long_names_write(struct buf *out, const char *name, const char *link)
{
    struct buf pax = { 0 };

    if (strlen(name) >= sizeof(((struct tar_header *)0)->name))
        pax_add(&pax, "path", name);
    if (strlen(link) >= sizeof(((struct tar_header *)0)->linkname))
        pax_add(&pax, "linkpath", link);
    if (pax.len) {
        header_write(out, "pax", "", 'x', pax.len);
        buf_add(out, pax.data, pax.len);
        block_pad(out);
    }
    buf_release(&pax);
}

void tar_write(struct tree *t, struct buf *out)
{
    tree_sort(t);
    for (size_t i = 0; i < t->count; i++) {
        const struct tree_node *n = &t->nodes[i];
        const char *link = n->kind == TREE_LINK ? n->data : "";
        char type = n->kind == TREE_DIR ? '5' : n->kind == TREE_LINK ? '2' : '0';
        size_t size = n->kind == TREE_FILE ? n->len : 0;

        if (!n->path[1])
            continue; /* the root itself */
        long_names_write(out, n->path + 1, link);
        header_write(out, n->path + 1, link, type, size);
        buf_add(out, n->data, size);
        block_pad(out);
    }
    buf_fill(out, '\0', 2 * (size_t)TAR_BLOCK);
}
