/* SPDX-License-Identifier: MIT */
/* What our Unicode functions say, as text that tests/parity/unicode.py compares.
 *
 *   props      a line for every code point: flags, class, lower case, NFD, NFKD, NFC, NFKC
 *   normalize  stdin "FORM hex hex …" to "hex@source hex@source …"
 *   clusters   stdin UTF-8 lines to the cluster lengths in bytes */
#include "model/unicode/unicode_int.h"

#include <inttypes.h>
#include <stdio.h>

enum { CODES_MAX = 4096, LINE_MAX_BYTES = 1 << 16 };
static const char *const form_names[] = { "NFC", "NFD", "NFKC", "NFKD" };

static void print_codes(const uint32_t *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("%c%" PRIx32, i ? ',' : ' ', c[i]);
}

static int props(void)
{
    struct uni_norm norm = { 0 };

    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        uint32_t lower[UNI_LOWER_MAX], d[UNI_DECOMP_MAX];
        if (c >= 0xD800 && c < 0xE000)
            continue;
        printf("%" PRIx32 " %d%d%d%d%d %u", c, uni_is_space(c), uni_is_other(c),
               uni_is_mark_nonspacing(c), uni_is_punct(c), uni_is_chinese(c),
               uni_combining_class(c));
        print_codes(lower, uni_lower(c, lower));
        print_codes(d, uni_decompose(c, false, d));
        print_codes(d, uni_decompose(c, true, d));
        for (int form = UNI_NFC; form <= UNI_NFKD; form++) {
            uni_normalize((enum uni_form)form, &c, 1, &norm);
            print_codes(norm.code, norm.count);
        }
        putchar('\n');
    }
    uni_norm_release(&norm);
    return 0;
}

static int normalize(void)
{
    static char line[LINE_MAX_BYTES];
    static uint32_t in[CODES_MAX];
    struct uni_norm norm = { 0 };

    while (fgets(line, sizeof(line), stdin)) {
        size_t n = 0;
        int form = 0;
        char *p = strchr(line, ' ');
        if (!p)
            return 1;
        *p++ = '\0';
        while (form < UNI_NFKD && strcmp(form_names[form], line) != 0)
            form++;
        for (char *end; n < CODES_MAX; p = end) {
            unsigned long v = strtoul(p, &end, 16);
            if (end == p)
                break;
            in[n++] = (uint32_t)v;
        }
        uni_normalize((enum uni_form)form, in, n, &norm);
        for (size_t i = 0; i < norm.count; i++)
            printf("%s%" PRIx32 "@%" PRId32, i ? " " : "", norm.code[i], norm.source[i]);
        putchar('\n');
    }
    uni_norm_release(&norm);
    return 0;
}

static int clusters(void)
{
    static char line[LINE_MAX_BYTES];

    while (fgets(line, sizeof(line), stdin)) {
        size_t len = strcspn(line, "\n");
        for (size_t at = 0, n; at < len; at += n) {
            n = uni_grapheme(line + at, len - at);
            printf("%s%zu", at ? " " : "", n);
        }
        putchar('\n');
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "props") == 0)
        return props();
    if (strcmp(what, "normalize") == 0)
        return normalize();
    if (strcmp(what, "clusters") == 0)
        return clusters();
    fprintf(stderr, "usage: parity-unicode props|normalize|clusters\n");
    return 2;
}
