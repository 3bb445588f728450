/* SPDX-License-Identifier: MIT */
/* replay: runs a fuzz target over its corpus as a test.  TAP, one line a file; a
 * sanitizer's report or a crash ends the program and so fails it. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

enum { CORPUS_FILE_MAX = 1 << 20 };

static int is_file(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static size_t read_whole(const char *name, uint8_t *out)
{
    char path[1024];
    size_t n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", FUZZ_CORPUS, name);
    f = fopen(path, "rb");
    if (f) {
        n = fread(out, 1, CORPUS_FILE_MAX, f);
        fclose(f);
    }
    return n;
}

int main(void)
{
    uint8_t *all = malloc(CORPUS_FILE_MAX);
    struct dirent **files = NULL;
    int count = scandir(FUZZ_CORPUS, &files, is_file, alphasort);

    if (count < 1 || !all) {
        printf("1..1\nnot ok 1 - no corpus in %s\n", FUZZ_CORPUS);
        return 1;
    }
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        size_t len = read_whole(files[i]->d_name, all);
        uint8_t *exact = malloc(len ? len : 1); /* its own block: a byte too far is seen */

        memcpy(exact, all, len);
        LLVMFuzzerTestOneInput(exact, len);
        printf("ok %d - %s (%zu bytes)\n", i + 1, files[i]->d_name, len);
        free(exact);
        free(files[i]);
    }
    free(files);
    free(all);
    return 0;
}
