/* SPDX-License-Identifier: MIT */
/* Archives and the compressed data in them: bounded, and never read outside. */
#include "fuzz.h"

#include "base/codec/inflate.h"
#include "os/zip.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OUT_MAX = 1 << 20 };

struct input {
    const uint8_t *data;
    size_t left, out;
};

static enum rc give(void *arg, uint8_t *out, size_t cap, size_t *got, struct err *err)
{
    struct input *in = arg;

    (void)err;
    *got = in->left < cap ? in->left : cap;
    memcpy(out, in->data, *got);
    in->data += *got;
    in->left -= *got;
    return RC_OK;
}

static enum rc count(void *arg, const uint8_t *p, size_t len, struct err *err)
{
    struct input *in = arg;

    (void)p;
    (void)err;
    in->out += len;
    return RC_OK;
}

static enum rc take(void *arg, const void *p, size_t len, struct err *err)
{
    return count(arg, p, len, err);
}

static void as_stream(const uint8_t *data, size_t size)
{
    struct input in = { .data = data, .left = size };
    struct inflate_io io = { .read = give, .write = count, .arg = &in, .max = OUT_MAX };
    uint64_t total;

    if (!inflate_stream(&io, &total, NULL) && (total != in.out || total > OUT_MAX))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    char path[64];
    struct zip *z;

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (!zip_open(path, &z, NULL)) {
        for (size_t i = 0; i < zip_count(z) && i < 64; i++) {
            const struct zip_entry *e = zip_at(z, i);
            struct input in = { 0 };
            struct zip_sink sink = { .write = take, .arg = &in };

            (void)zip_name_ok(e->name);
            if (e->size <= OUT_MAX && !zip_read(z, e, &sink, NULL) && in.out != e->size)
                abort();
        }
        zip_close(z);
    }
    close(fd);
    as_stream(data, size);
    return 0;
}
