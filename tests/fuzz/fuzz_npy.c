/* SPDX-License-Identifier: MIT */
/* The head of an .npy file that a run is to continue: what is read is what was written. */
#include "fuzz.h"

#include "base/codec/npy.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char head[NPY_HEAD] = { 0 }, again[NPY_HEAD];
    uint64_t rows, cols;

    memcpy(head, data, size < sizeof(head) ? size : sizeof(head));
    if (npy_read_head(head, &rows, &cols, NULL))
        return 0;
    npy_head(rows, cols, again);
    if (memcmp(head, again, sizeof(head)) != 0)
        abort();
    return 0;
}
