/* SPDX-License-Identifier: MIT */
/* What servers say of themselves, and addresses as people write them. */
#include "fuzz.h"

#include "bench/bench_int.h"
#include "os/net/net_int.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = { "/info", "/v1/models", "/models", "/openapi.json" };
    char *text = malloc(size + 1), authority[URL_AUTHORITY_MAX];
    const char *rest;
    struct url u;

    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t i = 0; i < 4; i++) {
        struct api_guess g = { 0 };

        (void)api_guess_from(paths[i], text, size, &g);
    }
    if (!url_parse(text, &u, NULL) && strpbrk(url_authority(&u, authority), "\r\n "))
        abort();
    if (!url_parse_query(text, &u, &rest, NULL) && strpbrk(rest, "\r\n #"))
        abort();
    if (!url_parse_link(text, &u, &rest, NULL) && strpbrk(rest, "\r\n "))
        abort();
    free(text);
    return 0;
}
