/* SPDX-License-Identifier: MIT */
/* A damaged history: opening it, reading it and appending to it.
 *
 * The input is a list of changes to a good file: u8 what, u24 place, then bytes.  Checksums would
 * hide most from the code behind them, so a change may ask that the head it lies in is sealed
 * again.  The first byte 0xff instead gives the rest to the decoder of columns. */
#include "fuzz.h"

#include "base/codec/crc32c.h"
#include "base/mem.h"
#include "history/history_int.h"
#include "telemetry/telemetry_int.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROWS = 150, SERIES = 12, CHANGES_MAX = 64, GOOD_MAX = HISTORY_BYTES_MIN };
#define T0 INT64_C(1763194320000000000)

static bool take(void *arg, const struct telemetry_series *s, const struct history_point *p,
                 size_t n)
{
    size_t *sum = arg;

    for (size_t i = 0; i < n; i++)
        *sum += p[i].count + s->label_count;
    return true;
}

static bool take_event(void *arg, const struct telemetry_event *e)
{
    *(size_t *)arg += strlen(e->text);
    return true;
}

static struct telemetry *make_table(void)
{
    struct telemetry *t = telemetry_new(0);
    const struct telemetry_metric *m = telemetry_foreign(t, "app_value", "", TELEMETRY_GAUGE);

    for (int i = 0; i < SERIES; i++) {
        char text[16];
        struct telemetry_label label = { "n", text };

        snprintf(text, sizeof(text), "%d", i);
        (void)telemetry_series(t, telemetry_source(t, "fuzz"), m, &label, 1);
    }
    return t;
}

/* The system's own, but for a head that says gigabytes: a memfd would reserve them in memory. */
static ssize_t io_read(void *arg, int fd, void *p, size_t n, off_t at)
{
    (void)arg;
    return pread(fd, p, n, at);
}

static ssize_t io_write(void *arg, int fd, const void *p, size_t n, off_t at)
{
    (void)arg;
    return pwrite(fd, p, n, at);
}

static int io_sync(void *arg, int fd)
{
    (void)arg;
    (void)fd;
    return 0;
}

static int io_reserve(void *arg, int fd, off_t bytes)
{
    (void)arg;
    return ftruncate(fd, bytes);
}

static const struct history_io sparse = {
    .read = io_read, .write = io_write, .sync = io_sync, .reserve = io_reserve
};

static void use(const char *path, struct telemetry *t, int64_t begin, int rows)
{
    struct history_opts o = { .path = path, .bytes = HISTORY_BYTES_MIN, .no_sync = true };
    struct history_query q = { .metric = "app_value",
                               .from_ns = T0 - HISTORY_MINUTE,
                               .to_ns = T0 * 2 };
    struct history *r = NULL;
    size_t sum = 0;

    if (history_open_io(&o, &sparse, &r, NULL))
        return;
    for (int i = 0; i < rows; i++) {
        double v[SERIES];

        for (int s = 0; s < SERIES; s++)
            v[s] = s % 3 == 0 ? i : s % 3 == 1 ? i / 7.0 : s;
        sum += history_append(r, t, begin + i * HISTORY_NS, v, SERIES, NULL) == RC_OK;
        if (i % 60 == 0)
            sum += history_append_event(
                       r, &(struct telemetry_event){ .time_ns = begin + i, .text = "something" },
                       NULL) == RC_OK;
        if (rows == ROWS && i == ROWS / 2 && history_fold_rows(r, NULL) == RC_OK)
            sum += history_fold_until(r, (uint64_t)i, NULL) == RC_OK;
    }
    sum += history_read(r, &q, take, &sum, NULL) == RC_OK;
    q.step_ns = 7 * HISTORY_NS;
    sum += history_read(r, &q, take, &sum, NULL) == RC_OK;
    q.step_ns = HISTORY_MINUTE;
    sum += history_read(r, &q, take, &sum, NULL) == RC_OK;
    sum += history_events(r, 0, INT64_MAX, take_event, &sum, NULL) == RC_OK;
    history_close(r);
}

static const char *good_file(struct telemetry *t, size_t *len)
{
    static char *good;
    char path[64];
    int fd;

    *len = GOOD_MAX;
    if (good)
        return good;
    snprintf(path, sizeof(path), "/tmp/fuzz_history.good.%d", (int)getpid());
    unlink(path);
    use(path, t, T0, ROWS);
    good = xcalloc(1, GOOD_MAX);
    fd = open(path, O_RDONLY);
    if (fd < 0 || pread(fd, good, GOOD_MAX, 0) != GOOD_MAX)
        abort();
    close(fd);
    unlink(path);
    return good;
}

/* Seals what begins at `at`: u32 length of the sealed part there, place of the checksum. */
static void seal(char *file, size_t at, size_t crc_at, uint32_t len)
{
    uint32_t crc = 0;

    if (at + len > GOOD_MAX || crc_at + 4 > len)
        return;
    memcpy(file + at + crc_at, &crc, sizeof(crc));
    crc = crc32c(0, file + at, len);
    memcpy(file + at + crc_at, &crc, sizeof(crc));
}

static void change(char *file, const struct history_map *map, const uint8_t *d)
{
    const struct history_area areas[] = { { 0, 2 * HISTORY_PAGE },
                                          map->dict[0],
                                          map->dict[1],
                                          map->log[0],
                                          map->log[1],
                                          map->events,
                                          map->seconds,
                                          map->minutes };
    const struct history_area *a = &areas[d[0] & 7];
    size_t place = ((size_t)d[1] | (size_t)d[2] << 8) % (a->size < 65536 ? a->size : 65536);
    uint32_t len;

    file[a->at + place] = (char)d[3];
    if (!(d[0] & 8))
        return;
    switch (d[0] & 7) {
    case 0:
        seal(file, 0, 12, 40);
        seal(file, HISTORY_PAGE, 12, 40);
        break;
    case 1:
    case 2:
        memcpy(&len, file + a->at + 16, sizeof(len));
        seal(file, a->at, 4, len);
        break;
    case 3:
    case 4:
        memcpy(&len, file + a->at + 40, sizeof(len));
        if (len < GOOD_MAX)
            seal(file, a->at, 4, len + 48);
        break;
    case 5:
        seal(file, a->at, 4, 304);
        break;
    default:
        memcpy(&len, file + a->at + 76, sizeof(len));
        seal(file, a->at, 84, len);
    }
}

static void decode(const uint8_t *data, size_t size)
{
    static double values[5][HISTORY_BLOCK_ROWS_MAX];
    static int64_t whole[HISTORY_BLOCK_ROWS_MAX];
    struct history_minutes m = { values[0], values[1], values[2], values[3], values[4] };
    size_t n = size > 1 ? data[0] * 4u + 1 : 1;

    assert(history_code_get(data, size, values[0], n) <= size);
    assert(history_code_get_ints(data, size, whole, n) <= size);
    (void)history_minutes_get(data, size, n, &m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct telemetry *t;
    struct history_map map;
    const char *good;
    char *file, path[64];
    size_t len;
    int fd;

    if (size && data[0] == 0xff) {
        decode(data + 1, size - 1);
        return 0;
    }
    t = t ? t : make_table();
    good = good_file(t, &len);
    file = xmalloc(len);
    memcpy(file, good, len);
    history_map(HISTORY_BYTES_MIN, 25, &map);
    for (size_t i = 0; i + 4 <= size && i < 4 * CHANGES_MAX; i += 4)
        change(file, &map, data + i);
    if (size % 4 == 3)
        len = ((size_t)data[size - 1] << 15 | (size_t)data[size - 2] << 7) % len;
    fd = memfd_create("ring", 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (fd < 0 || write(fd, file, len) != (ssize_t)len)
        abort();
    use(path, t, T0 + ROWS * HISTORY_NS, 20);
    close(fd);
    free(file);
    return 0;
}
