/* SPDX-License-Identifier: MIT */
/* A pickle calls nothing, and the tensors it is let to describe fit their storage. */
#include "fuzz.h"

#include "model/weights/pickle_int.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t old[] = { 0x80, 0x02, 0x8a, 0x0a, 0x6c };
    struct pickle p;
    size_t end = 0;

    if (size > sizeof(old) && !memcmp(data, old, sizeof(old))) {
        if (pickle_parse_old(data, size, &p, &end, NULL))
            return 0;
    } else if (pickle_parse(data, size, &p, NULL)) {
        return 0;
    }
    if (end > size || !p.storages_count)
        abort();
    for (size_t i = 0; i < p.count; i++) {
        const struct pickle_tensor *t = &p.tensors[i];
        uint64_t count = 1, last = 0;

        for (size_t d = 0; d < t->ndim; d++) {
            count *= t->dims[d];
            last += t->dims[d] ? (t->dims[d] - 1) * t->strides[d] : 0;
        }
        if (count != t->count || t->first > t->storage_count ||
            t->span > t->storage_count - t->first || !t->name[0] || !t->storage ||
            (count && t->span != last + 1) || (t->in_one_piece && t->span != t->count))
            abort();
    }
    pickle_release(&p);
    return 0;
}
