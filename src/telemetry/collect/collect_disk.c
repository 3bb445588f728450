/* SPDX-License-Identifier: MIT */
/* collect_disk: /proc/diskstats, as node_exporter has it: whole disks, no partitions, no RAM and
 * loop devices. */
#include "telemetry/collect/collect_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum {
    DISKS_MAX = 256, /* disks shown */
    DISK_COLUMNS = 17,
    DISK_SECTOR = 512 /* the kernel's unit, whatever the disk's */
};

static const struct {
    const char *prom;
    double scale;
} columns[DISK_COLUMNS] = {
    { "node_disk_reads_completed_total", 1 },
    { "node_disk_reads_merged_total", 1 },
    { "node_disk_read_bytes_total", DISK_SECTOR },
    { "node_disk_read_time_seconds_total", 0.001 },
    { "node_disk_writes_completed_total", 1 },
    { "node_disk_writes_merged_total", 1 },
    { "node_disk_written_bytes_total", DISK_SECTOR },
    { "node_disk_write_time_seconds_total", 0.001 },
    { "node_disk_io_now", 1 },
    { "node_disk_io_time_seconds_total", 0.001 },
    { "node_disk_io_time_weighted_seconds_total", 0.001 },
    { "node_disk_discards_completed_total", 1 },
    { "node_disk_discards_merged_total", 1 },
    { "node_disk_discarded_sectors_total", 1 },
    { "node_disk_discard_time_seconds_total", 0.001 },
    { "node_disk_flush_requests_total", 1 },
    { "node_disk_flush_requests_time_seconds_total", 0.001 },
};

struct one_disk {
    char name[COLLECT_NAME_MAX];
    uint32_t ids[DISK_COLUMNS];
};

struct disk {
    unsigned source;
    struct cfile file;
    struct one_disk *disks;
    size_t count, cap;
    char text[COLLECT_FILE_MAX * 2];
};

static void *disk_open(const struct root *root, struct telemetry *t)
{
    struct disk *d = xcalloc(1, sizeof(*d));

    d->source = telemetry_source(t, collect_disk.name);
    cfile_open(&d->file, root, "/proc/diskstats");
    return d;
}

static void disk_close(void *state)
{
    struct disk *d = state;

    if (!d)
        return;
    cfile_close(&d->file);
    free(d->disks);
    free(d);
}

static size_t digits_at_end(const char *s, size_t len)
{
    size_t n = 0;

    while (n < len && isdigit((unsigned char)s[len - 1 - n]))
        n++;
    return n;
}

/* Partitions (sda1, nvme0n1p2), loop, ram, zram and floppy devices. */
static bool is_left_out(const char *s, size_t len)
{
    static const char *const gone[] = { "loop", "ram", "zram", "fd" };
    static const char *const lettered[] = { "hd", "sd", "vd", "xvd" };
    size_t tail = digits_at_end(s, len);

    if (!tail)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
        if (scan_begins(s, len, gone[i]) && tail == len - strlen(gone[i]))
            return true;
    for (size_t i = 0; i < ARRAY_SIZE(lettered); i++)
        if (scan_begins(s, len, lettered[i]) && isalpha((unsigned char)s[strlen(lettered[i])]))
            return true;
    return (scan_begins(s, len, "nvme") || scan_begins(s, len, "mmcblk")) && len > tail &&
           s[len - tail - 1] == 'p';
}

static struct one_disk *disk_find(struct disk *d, struct telemetry *t, const char *name, size_t len,
                                  size_t hint)
{
    struct one_disk *one;
    struct telemetry_label l = { .name = "device" };

    if (hint < d->count && scan_is(name, len, d->disks[hint].name))
        return &d->disks[hint];
    for (size_t i = 0; i < d->count; i++)
        if (scan_is(name, len, d->disks[i].name))
            return &d->disks[i];
    if (d->count == DISKS_MAX)
        return NULL;
    VEC_GROW(d->disks, d->count, d->cap);
    one = &d->disks[d->count];
    if (!scan_copy(one->name, sizeof(one->name), name, len))
        return NULL;
    l.value = one->name;
    for (size_t i = 0; i < DISK_COLUMNS; i++)
        one->ids[i] = collect_id(t, d->source, columns[i].prom, &l, 1);
    d->count++;
    return one;
}

static void disk_sample(void *state, struct telemetry *t, int64_t now_ns)
{
    struct disk *d = state;
    size_t at = 0;

    telemetry_begin(t, d->source, now_ns);
    if (cfile_read_all(&d->file, d->text, sizeof(d->text)) > 0)
        for (const char *line = d->text; *line; line = scan_line(line)) {
            const char *p = line, *name;
            struct one_disk *one;
            uint64_t v;
            size_t len;

            if (!scan_u64(&p, &v) || !scan_u64(&p, &v))
                continue;
            len = scan_word(&p, &name);
            if (!len || is_left_out(name, len))
                continue;
            one = disk_find(d, t, name, len, at++);
            for (size_t i = 0; one && i < DISK_COLUMNS && scan_u64(&p, &v); i++)
                telemetry_set(t, one->ids[i], (double)v * columns[i].scale);
        }
    telemetry_end(t);
}

const struct collector collect_disk = {
    .name = "disk", .period_ms = 1000, .open = disk_open, .sample = disk_sample, .close = disk_close
};
