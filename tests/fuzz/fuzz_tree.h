/* SPDX-License-Identifier: MIT */
/* fuzz_tree: an input as files below a folder of its own.  It is cut at NUL bytes, and the pieces
 * become the files of `files`, in order.  To be included behind that table. */
#ifndef TESTS_FUZZ_TREE_H
#define TESTS_FUZZ_TREE_H

static char top[64];

static void remove_tree(void)
{
    char command[96];

    snprintf(command, sizeof(command), "rm -rf '%s'", top);
    if (system(command))
        fprintf(stderr, "cannot remove %s\n", top);
}

static void make_tree(void)
{
    snprintf(top, sizeof(top), "/dev/shm/stoker-fuzz-XXXXXX");
    if (!mkdtemp(top)) {
        snprintf(top, sizeof(top), "/tmp/stoker-fuzz-XXXXXX");
        if (!mkdtemp(top))
            abort();
    }
    atexit(remove_tree);
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        char path[256];

        snprintf(path, sizeof(path), "%s%s", top, files[i]);
        for (char *p = path + strlen(top) + 1; (p = strchr(p, '/')); p++) {
            *p = '\0';
            (void)mkdir(path, 0755);
            *p = '/';
        }
    }
}

static void write_files(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        const uint8_t *cut = size ? memchr(data, 0, size) : NULL;
        size_t len = cut ? (size_t)(cut - data) : size;
        char path[256];
        FILE *f;

        snprintf(path, sizeof(path), "%s%s", top, files[i]);
        f = fopen(path, "w");
        if (!f || fwrite(data, 1, len, f) != len || fclose(f))
            abort();
        data += len + !!cut;
        size -= len + !!cut;
    }
}

#endif
