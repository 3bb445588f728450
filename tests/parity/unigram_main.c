/* SPDX-License-Identifier: MIT */
/* Our Unigram and Precompiled on lines, for tests/parity/unigram.py.
 *
 *   parity-unigram ids TOKENIZER.json        stdin lines to lines of ids
 *   parity-unigram normalize TOKENIZER.json  stdin lines to normalised lines
 *   parity-unigram time TOKENIZER.json       stdin lines; prints ms of the map, of all
 *   parity-unigram build TOKENIZER.json      prints ms that the model takes to build */
#include "../unit/unigram_fixture.h"

#include <inttypes.h>
#include <time.h>

enum { ROUNDS = 5 };

/* Time of this process alone: the machine may be shared. */
static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static size_t read_stdin(char **out)
{
    static char chunk[1 << 16];
    struct buf b;
    size_t n;

    buf_init(&b, (size_t)1 << 30);
    while ((n = fread(chunk, 1, sizeof(chunk), stdin)) > 0)
        buf_add(&b, chunk, n);
    n = b.len;
    *out = buf_take(&b);
    return n;
}

/* Calls one(f, line) for each line. */
static void lines(struct fixture *f, const char *text, size_t len,
                  void (*one)(struct fixture *f, const char *s, size_t n))
{
    for (size_t at = 0, n; at < len; at += n + 1) {
        const char *end = memchr(text + at, '\n', len - at);
        n = end ? (size_t)(end - text) - at : len - at;
        one(f, text + at, n);
    }
}

static void print_ids(struct fixture *f, const char *s, size_t n)
{
    fixture_line(f, s, n);
    for (size_t i = 0; i < f->count; i++)
        printf("%s%" PRIu32, i ? " " : "", f->ids[i]);
    putchar('\n');
}

static void print_normal(struct fixture *f, const char *s, size_t n)
{
    buf_reset(&f->text);
    precompiled_apply(f->map, s, n, fixture_emit, &f->text);
    fwrite(buf_str(&f->text), 1, f->text.len, stdout);
    putchar('\n');
}

static void only_map(struct fixture *f, const char *s, size_t n)
{
    buf_reset(&f->text);
    precompiled_apply(f->map, s, n, fixture_emit, &f->text);
}

static double best_of(struct fixture *f, const char *text, size_t len,
                      void (*one)(struct fixture *f, const char *s, size_t n))
{
    double best = 1e300;

    for (int i = 0; i < ROUNDS; i++) {
        double t = now_ms();
        lines(f, text, len, one);
        t = now_ms() - t;
        if (t < best)
            best = t;
    }
    return best;
}

static int build(const char *path)
{
    struct arena a = { 0 };
    struct buf text = { 0 };
    struct json *top;
    size_t count;
    double best = 1e300;

    if (!fixture_file(path, &text) || json_parse(&a, text.data, text.len, &top, NULL))
        return 1;
    struct unigram_piece *pieces = fixture_pieces(json_get(top, "model"), &count);
    for (int i = 0; i < ROUNDS; i++) {
        struct unigram *u;
        double t = now_ms();
        if (unigram_new(pieces, count, 0, false, &u, NULL))
            return 1;
        t = now_ms() - t;
        best = t < best ? t : best;
        unigram_free(u);
    }
    printf("%.3f\n", best);
    free(pieces);
    buf_release(&text);
    arena_release(&a);
    return 0;
}

int main(int argc, char **argv)
{
    struct fixture f;
    struct err err = { 0 };
    char *text;
    size_t len;

    if (argc == 3 && strcmp(argv[1], "build") == 0)
        return build(argv[2]);
    if (argc != 3 || fixture_load(argv[2], &f, &err)) {
        fprintf(stderr, "parity-unigram: %s\n", argc == 3 ? err.msg : "two arguments");
        return 1;
    }
    len = read_stdin(&text);
    if (strcmp(argv[1], "ids") == 0)
        lines(&f, text, len, print_ids);
    else if (strcmp(argv[1], "normalize") == 0 && f.map)
        lines(&f, text, len, print_normal);
    else if (strcmp(argv[1], "time") == 0 && f.map)
        printf("%.3f %.3f\n", best_of(&f, text, len, only_map),
               best_of(&f, text, len, fixture_line));
    fixture_release(&f);
    free(text);
    return 0;
}
