/* SPDX-License-Identifier: MIT */
/* A tar that is read must also be written and read again with the same nodes. */
#include "fuzz.h"

#include "base/mem.h"
#include "os/root_int.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xstrndup((const char *)data, size);
    struct tree t, back;
    struct buf out = { 0 };

    tree_init(&t);
    tree_init(&back);
    if (!tar_read(text, size, &t, NULL)) {
        tar_write(&t, &out);
        if (t.count > 1 && tar_read(out.data, out.len, &back, NULL))
            abort();
    }
    tree_release(&t);
    tree_release(&back);
    buf_release(&out);
    free(text);
    return 0;
}
