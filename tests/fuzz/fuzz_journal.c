/* SPDX-License-Identifier: MIT */
/* The journal of 'stoker render', as a folder that others write to holds it: what is taken is in
 * order, stays below the folder, and is the same when it is written and read again. */
#include "fuzz.h"

#include "render/outdir/journal_int.h"

#include <stdlib.h>
#include <string.h>

static void check_again(const struct journal *j, enum journal_state state)
{
    struct journal again = { 0 };
    enum journal_state state_again;
    struct buf text = { 0 }, second = { 0 };
    char *copy;

    journal_text(j, state, &text);
    copy = strdup(buf_str(&text));
    if (!copy || !journal_parse(copy, &again, &state_again) || state_again != state)
        abort();
    journal_text(&again, state, &second);
    if (text.len != second.len || memcmp(text.data, second.data, text.len) != 0)
        abort();
    free(copy);
    buf_release(&text);
    buf_release(&second);
    journal_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct journal j = { 0 };
    enum journal_state state;
    struct buf text = { 0 };

    buf_add(&text, data, size);
    if (size && journal_parse(text.data, &j, &state)) {
        for (size_t i = 0; i < j.count; i++)
            if (!outdir_path_ok(j.items[i].path) ||
                (i && strcmp(j.items[i - 1].path, j.items[i].path) >= 0))
                abort();
        check_again(&j, state);
    }
    journal_release(&j);
    buf_release(&text);
    return 0;
}
