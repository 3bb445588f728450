/* SPDX-License-Identifier: MIT */
/* A whole pytorch_model.bin, archive or old: every tensor it offers can be read, in pieces and
 * at once the same, and stays inside the file. */
#include "fuzz.h"
#include "model/weights/safetensors_int.h"

#include "base/mem.h"
#include "model/weights/torch_file_int.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { READ_MAX = 4096 };

static void one(const struct torch_file *f, size_t i, size_t size)
{
    const struct pickle_tensor *t = &f->pickle.tensors[i];
    size_t each = st_dtype_bytes(t->dtype);
    size_t n = t->count < READ_MAX ? (size_t)t->count : READ_MAX;
    unsigned char whole[READ_MAX * sizeof(double)], part[READ_MAX * sizeof(double)];
    unsigned char *span = NULL;

    if (t->span && (f->places[i] > size || t->span * each > size - f->places[i]))
        abort();
    if (torch_file_read(f, i, 0, n, whole, &span, NULL) ||
        torch_file_read(f, i, n / 2, n - n / 2, part, &span, NULL) ||
        memcmp(whole + n / 2 * each, part, (n - n / 2) * each) != 0)
        abort();
    if (torch_file_read(f, i, t->count - n, n, part, &span, NULL))
        abort();
    free(span);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    struct torch_file f;
    char path[64];

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (!torch_file_open(&f, path, NULL)) {
        for (size_t i = 0; i < f.pickle.count; i++)
            one(&f, i, size);
        torch_file_close(&f);
    }
    close(fd);
    return 0;
}
