/* SPDX-License-Identifier: MIT */
/* The three variables of socket activation, of any text, one a line. */
#include "fuzz.h"

#include "os/net/net_int.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *rest = text;
    char *words[3] = { NULL, NULL, NULL };
    struct listen_fds got;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t i = 0; i < 3; i++)
        words[i] = strsep(&rest, "\n");
    if (listen_fds_parse(words[0], words[1], words[2], 7, &got, NULL) == RC_OK) {
        if (got.count > LISTEN_FDS_MAX)
            abort();
        for (size_t i = 0; i < got.count; i++)
            if (got.items[i].fd != LISTEN_FDS_FIRST + (int)i ||
                !memchr(got.items[i].name, '\0', sizeof(got.items[i].name)))
                abort();
        (void)listen_fds_find(&got, "serve");
    }
    free(text);
    return 0;
}
