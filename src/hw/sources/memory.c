/* SPDX-License-Identifier: MIT */
/* memory: how much there is, and huge pages.
 *
 * /proc/meminfo and the nodes' meminfo have the same lines but for a prefix; the
 * hugepages folders of the machine and of a node are alike.  cpu.c uses both
 * readers for the nodes. */
#include "hw/hw_int.h"

#include "base/str.h"

#include <assert.h>
#include <ctype.h>

enum {
    MEMINFO_MAX = 16 << 10, /* bytes of /proc/meminfo */
    HUGEPAGE_SIZES_MAX = 16 /* page sizes a machine may have */
};

struct maybe hw_meminfo_get(const char *text, const char *key)
{
    size_t len = strlen(key);
    uint64_t v = 0;

    for (const char *p = text; (p = strstr(p, key)); p += len) {
        bool starts = p == text || isspace((unsigned char)p[-1]); /* not within SwapCached */

        if (!starts || p[len] != ':')
            continue;
        p += len + 1;
        p += strspn(p, " \t");
        if (!isdigit((unsigned char)*p))
            return maybe_none();
        for (; isdigit((unsigned char)*p); p++)
            if (__builtin_mul_overflow(v, 10, &v) ||
                __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
                return maybe_none();
        if (__builtin_mul_overflow(v, 1024, &v) || v > INT64_MAX)
            return maybe_none();
        return maybe_of((int64_t)v);
    }
    return maybe_none();
}

/* "hugepages-2048kB" → bytes; 0 when it is not such a name. */
static int64_t hugepage_size(const char *name)
{
    static const char prefix[] = "hugepages-";
    char digits[24];
    int64_t kb;

    if (!str_starts(name, prefix) || !str_ends(name, "kB") ||
        !str_copy(digits, sizeof(digits), name + sizeof(prefix) - 1))
        return 0;
    digits[strlen(digits) - 2] = '\0';
    if (!str_to_i64(digits, 10, &kb) || kb <= 0 || kb > INT64_MAX / 1024)
        return 0;
    return kb * 1024;
}

/* A count; a negative one is no count. */
static struct maybe count_read(struct root *r, const char *dir, const char *pool, const char *file)
{
    struct maybe v = root_int(r, "%s/%s/%s", dir, pool, file);

    return v.known && v.v >= 0 ? v : maybe_none();
}

void hw_hugepages_read(struct hw_build *b, const char *dir, struct hw_hugepages **out,
                       size_t *out_count)
{
    struct arena tmp = { 0 };
    struct root_names names;
    struct hw_hugepages pools[HUGEPAGE_SIZES_MAX];
    size_t count = 0;

    assert(out && out_count);
    if (root_list(b->root, &tmp, dir, &names) == 0)
        for (size_t i = 0; i < names.count && count < HUGEPAGE_SIZES_MAX; i++) {
            int64_t size = hugepage_size(names.items[i]);

            if (size)
                pools[count++] = (struct hw_hugepages){
                    .size_bytes = maybe_of(size),
                    .total = count_read(b->root, dir, names.items[i], "nr_hugepages"),
                    .free = count_read(b->root, dir, names.items[i], "free_hugepages"),
                };
        }
    arena_release(&tmp);
    *out = count ? arena_memdup(b->a, pools, count * sizeof(*pools)) : NULL;
    *out_count = count;
}

const char *hw_choice_read(struct hw_build *b, const char *path)
{
    char line[ROOT_LINE_MAX];
    char *open, *close;

    if (root_line(b->root, line, sizeof(line), "%s", path) <= 0)
        return NULL;
    open = strchr(line, '[');
    close = open ? strchr(open, ']') : NULL;
    if (!open) /* a single word has no brackets */
        return strchr(line, ' ') ? NULL : arena_strdup(b->a, line);
    return close ? arena_strndup(b->a, open + 1, (size_t)(close - open - 1)) : NULL;
}

void hw_src_memory(struct hw_build *b)
{
    struct hw_memory *m = &b->hw->memory;
    char text[MEMINFO_MAX];

    if (root_read(b->root, "/proc/meminfo", text, sizeof(text)) > 0) {
        m->total_bytes = hw_meminfo_get(text, "MemTotal");
        m->available_bytes = hw_meminfo_get(text, "MemAvailable");
        m->swap_bytes = hw_meminfo_get(text, "SwapTotal");
    } else {
        hw_note_add(b, "memory", "/proc/meminfo cannot be read");
    }
    m->thp = hw_choice_read(b, "/sys/kernel/mm/transparent_hugepage/enabled");
    hw_hugepages_read(b, "/sys/kernel/mm/hugepages", &m->hugepages, &m->hugepages_count);
}
