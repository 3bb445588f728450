/* SPDX-License-Identifier: MIT */
/* What a Hub says of a repository: whatever is taken from it names a file inside the cache. */
#include "fuzz.h"

#include "model/hub/hub_int.h"
#include "os/zip.h"

#include <stdlib.h>
#include <string.h>

static void check_list(const char *text, size_t size)
{
    static const char *const folders[] = { "1_Pooling", "x/y" };
    struct hub_list l = { 0 };

    if (hub_list_parse(text, size, &l, NULL))
        return;
    hub_list_choose(&l, folders, 2);
    if (!hub_commit_ok(l.commit))
        abort();
    for (size_t i = 0; i < l.count; i++) {
        const struct hub_file *f = &l.files[i];

        if (!zip_name_ok(f->path) || f->bytes < -1 || strchr(f->etag, '/') || f->etag[0] == '.')
            abort();
    }
    hub_list_release(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), etag[HUB_ETAG_MAX + 1];
    const char *folders[HUB_MODULES_MAX];
    struct arena a = { 0 };
    struct hub_name name;
    size_t count = 0;

    memcpy(text, data, size);
    text[size] = '\0';
    check_list(text, size);
    if (!hub_modules_parse(text, size, &a, folders, &count, NULL))
        for (size_t i = 0; i < count; i++)
            if (!zip_name_ok(folders[i]))
                abort();
    if (hub_etag_parse(text, etag) && (strchr(etag, '/') || etag[0] == '.'))
        abort();
    if (hub_name_parse(text, &name) && (strstr(name.repo, "..") || !zip_name_ok(name.revision)))
        abort();
    arena_release(&a);
    free(text);
    return 0;
}
