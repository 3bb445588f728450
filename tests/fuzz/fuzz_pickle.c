/* SPDX-License-Identifier: MIT */
/* A pickle calls nothing, and the tensors it is let to describe fit their storage. */
#include "fuzz.h"

#include "model/pickle.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pickle p;

    if (pickle_parse(data, size, &p, NULL))
        return 0;
    for (size_t i = 0; i < p.count; i++) {
        const struct pickle_tensor *t = &p.tensors[i];
        uint64_t count = 1;

        for (size_t d = 0; d < t->ndim; d++)
            count *= t->dims[d];
        if (count != t->count || t->first > t->storage_count ||
            t->count > t->storage_count - t->first || !t->name[0] || !t->storage)
            abort();
    }
    pickle_release(&p);
    return 0;
}
