/* SPDX-License-Identifier: MIT */
/* api_table: the tables of all APIs as one. */
#include "base/attr.h"
#include "serve/api/routes_int.h"

#include <string.h>

static const struct serve_route *const tables[] = { api_tei, api_openai, api_cohere, api_rank,
                                                    api_llama };

const struct serve_route *api_at(size_t i)
{
    for (size_t t = 0; t < ARRAY_SIZE(tables); t++)
        for (const struct serve_route *row = tables[t]; row->path; row++)
            if (i-- == 0)
                return row;
    return NULL;
}

const struct serve_route *api_find(const char *path)
{
    for (size_t t = 0; t < ARRAY_SIZE(tables); t++)
        for (const struct serve_route *row = tables[t]; row->path; row++)
            if (!strcmp(row->path, path))
                return row;
    return NULL;
}
