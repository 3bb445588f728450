/* SPDX-License-Identifier: MIT */
/* tokens_main: processor seconds to load a tokenizer.json and to encode the lines of stdin on one
 * thread, reading them not counted: "ENCODE LOAD TOKENS". */
#include "base/buf.h"
#include "model/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK = 1 << 20, INPUT_MAX = 1 << 30 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static size_t encode_all(const struct tokenizer *t, struct tok_scratch *s, const struct buf *in)
{
    const char *p = in->data, *end = p + in->len, *nl;
    struct tok_out out;
    size_t tokens = 0;

    for (; p < end; p = nl + 1) {
        nl = memchr(p, '\n', (size_t)(end - p));
        if (!nl)
            break;
        if (tokenizer_encode(t, s, (struct tok_text){ p, (size_t)(nl - p) }, NULL, NULL, &out,
                             NULL) == RC_OK)
            tokens += out.count;
    }
    return tokens;
}

int main(int argc, char **argv)
{
    static char block[BLOCK];
    struct buf in = { .max = INPUT_MAX };
    struct tokenizer *t = NULL;
    struct err err = { 0 };
    struct tok_scratch *s;
    double start = now(), load, took;
    size_t tokens;
    ssize_t n;

    if (argc != 2 || tokenizer_load(argv[1], &t, &err)) {
        fprintf(stderr, "tokens_main: %s\n", err.msg);
        return 1;
    }
    load = now() - start;
    while ((n = read(STDIN_FILENO, block, sizeof(block))) > 0)
        buf_add(&in, block, (size_t)n);
    s = tok_scratch_new();
    start = now();
    tokens = encode_all(t, s, &in);
    took = now() - start;
    printf("%.6f %.6f %zu\n", took, load, tokens);
    tok_scratch_free(s);
    tokenizer_free(t);
    buf_release(&in);
    return 0;
}
