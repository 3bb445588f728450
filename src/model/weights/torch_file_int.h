/* SPDX-License-Identifier: MIT */
/* torch_file: a file that torch.save() wrote, as tensors and the places of their bytes.
 *
 * Since version 1.6 torch writes a zip with one folder: data.pkl, which names the tensors,
 * data/<key> with a storage each, byteorder.  Before, it wrote five pickles and the storages
 * behind them.  Both are opened here; the bytes are read with pread(), never mapped. */
#ifndef MODEL_WEIGHTS_TORCH_FILE_INT_H
#define MODEL_WEIGHTS_TORCH_FILE_INT_H
#include "model/weights/pickle_int.h"

struct zip;

struct torch_file {
    char *path;      /* owned */
    struct zip *zip; /* NULL: an old file */
    int fd;          /* of an old file, else that of `zip` */
    uint64_t size;   /* bytes of the file */
    struct pickle pickle;
    uint64_t *places; /* owned: of each tensor's first byte in the file */
};

enum rc torch_file_open(struct torch_file *f, const char *path, struct err *err) MUST_USE;
void torch_file_close(struct torch_file *f);
/* Elements [first, first + count) of tensor `i` in its own order, as bytes.  `*span` keeps a
 * tensor that does not lie in one piece; it begins as NULL and is the caller's to free, and
 * must not be handed from one tensor to another. */
enum rc torch_file_read(const struct torch_file *f, size_t i, uint64_t first, size_t count,
                        void *out, unsigned char **span, struct err *err) MUST_USE;

#endif
