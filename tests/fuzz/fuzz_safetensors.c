/* SPDX-License-Identifier: MIT */
/* Whatever a file says, opening it and reading what it offers stays inside it. */
#include "fuzz.h"

#include "model/weights/safetensors_int.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { READ_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    char path[64];
    float out[READ_MAX];
    struct st *s;

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (!st_open_file(path, &s, NULL)) {
        for (size_t i = 0; i < st_count(s); i++) {
            const struct st_tensor *t = st_at(s, i);
            uint64_t n = t->count < READ_MAX ? t->count : READ_MAX;

            if (t->offset + t->bytes > size || t->bytes != t->count * st_dtype_bytes(t->dtype))
                abort();
            if (st_find(s, t->name) != t || st_read_f32(s, t, t->count - n, n, out, NULL))
                abort();
        }
        st_close(s);
    }
    close(fd);
    return 0;
}
