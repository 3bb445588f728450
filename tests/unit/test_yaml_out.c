/* SPDX-License-Identifier: MIT */
/* yaml_out.c and quote.c: what is written is read back as it was meant: YAML by libfyaml, shell
 * words by a shell. */
#include "test.h"

#include "base/mem.h"
#include "base/text/utf8.h"
#include "render/render_int.h"

#include <libfyaml.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint32_t seed = 7;

static unsigned below(unsigned n)
{
    seed = seed * 1664525U + 1013904223U;
    return (seed >> 8) % n;
}

/* Parts of texts that some reader takes for something else. */
static const char *const PARTS[] = {
    "a",
    "b",
    "Z",
    "0",
    "1",
    "-",
    "- ",
    ": ",
    ":",
    " #",
    "#",
    "'",
    "\"",
    "\\",
    "\n",
    "\n\n",
    "\t",
    " ",
    "  ",
    "%",
    "@",
    "`",
    "&a",
    "*a",
    "!",
    "|",
    ">",
    "{",
    "}",
    "[",
    "]",
    ",",
    "?",
    "? ",
    "yes",
    "null",
    "~",
    "1e3",
    "0x1f",
    "012",
    ".inf",
    "on",
    "<<",
    "=",
    "---",
    "...",
    "\xc3\xa4",
    "\xe2\x80\xa8", /* U+2028 */
    "\xc2\x85",
    "\xef\xbb\xbf",
    "\xf0\x9f\x94\xa5",
    "\xe2\x80\x8b",
    "$(x)",
    "${y}",
    "$z",
    ";",
    "&&",
    "|",
    "(",
    ")",
    "*",
    "2026-01-01",
    "12:30:45",
    "+1",
    "\x7f",
    "\\n",
    "true",
    "\xc2\xa0",
    "\xef\xbf\xbe",
};

static char *random_text(void)
{
    unsigned n = below(6);
    struct buf b = { 0 };

    while (n--)
        buf_adds(&b, PARTS[below(ARRAY_SIZE(PARTS))]);
    return b.len ? buf_take(&b) : xstrdup("");
}

/* ---- a random document, written as YAML and, beside it, as what it means ---- */

static void mean_text(struct buf *m, const char *s)
{
    buf_addf(m, "(%zu %s)", strlen(s), s);
}

static void random_value(struct yaml_out *y, const char *key, struct buf *m, int depth)
{
    unsigned kind = below(depth ? 8 : 5);
    char *s = random_text();

    if (key)
        mean_text(m, key);
    if (!below(4))
        yaml_note(y, "from\nthe \xe2\x80\xa8 spec: [x");
    if (kind == 0) {
        yaml_int(y, key, (int64_t)below(1000) - 500);
        free(s);
        s = NULL;
        buf_adds(m, "int");
    } else if (kind == 1) {
        yaml_bool(y, key, below(2));
        buf_adds(m, "bool");
    } else if (kind == 2) {
        yaml_text(y, key, s);
        mean_text(m, s);
    } else if (kind <= 4) {
        yaml_str(y, key, s);
        mean_text(m, s);
    } else {
        unsigned n = below(4);
        bool seq = kind == 7;

        if (seq)
            yaml_seq(y, key);
        else
            yaml_map(y, key);
        if (key && !below(3))
            yaml_comment(y, "of a container");
        buf_adds(m, seq ? "[" : "{");
        for (unsigned i = 0; i < n; i++) {
            char name[16];
            char *hostile = random_text();
            struct buf k = { 0 };

            (void)snprintf(name, sizeof(name), "%u", i); /* keys differ */
            if (!below(10))
                buf_fill(&k, 'k', 100 + below(2000));
            buf_addf(&k, "%s%s", hostile, name);
            random_value(y, seq ? NULL : buf_str(&k), m, depth - 1);
            buf_release(&k);
            free(hostile);
        }
        yaml_end(y);
        buf_adds(m, seq ? "]" : "}");
    }
    free(s);
}

/* ---- what libfyaml reads ---- */

static void read_node(struct fy_node *n, struct buf *m);

static void read_scalar(struct fy_node *n, struct buf *m)
{
    size_t len;
    const char *s = fy_node_get_scalar(n, &len);

    if (fy_node_get_style(n) == FYNS_PLAIN && len &&
        (strspn(s, "-0123456789") >= len || (len == 4 && !memcmp(s, "true", 4)) ||
         (len == 5 && !memcmp(s, "false", 5)))) {
        buf_adds(m, s[0] == 't' || s[0] == 'f' ? "bool" : "int");
        return;
    }
    buf_addf(m, "(%zu ", len);
    buf_add(m, s, len);
    buf_addc(m, ')');
}

static void read_node(struct fy_node *n, struct buf *m)
{
    struct fy_node_pair *p;
    struct fy_node *c;
    void *it = NULL;

    if (fy_node_is_mapping(n)) {
        buf_addc(m, '{');
        while ((p = fy_node_mapping_iterate(n, &it))) {
            size_t len;
            const char *k = fy_node_get_scalar(fy_node_pair_key(p), &len);

            assert_true(fy_node_get_style(fy_node_pair_key(p)) != FYNS_PLAIN ||
                        (k[0] != '-' && (k[0] < '0' || k[0] > '9')));
            buf_addf(m, "(%zu ", len);
            buf_add(m, k, len);
            buf_addc(m, ')');
            read_node(fy_node_pair_value(p), m);
        }
        buf_addc(m, '}');
    } else if (fy_node_is_sequence(n)) {
        buf_addc(m, '[');
        while ((c = fy_node_sequence_iterate(n, &it)))
            read_node(c, m);
        buf_addc(m, ']');
    } else {
        read_scalar(n, m);
    }
}

TEST(yaml_is_read_back)
{
    struct fy_parse_cfg cfg = { .flags = FYPCF_QUIET };

    for (int round = 0; round < 3000; round++) {
        struct buf text = { 0 }, meant = { 0 }, got = { 0 };
        struct fy_document *doc;
        struct yaml_out y;

        yaml_begin(&y, &text);
        if (round % 3 == 0)
            yaml_comment(&y, "a comment\nwith: lines");
        buf_adds(&meant, "{");
        for (unsigned i = 0, n = below(4); i < n; i++) {
            char key[8];

            (void)snprintf(key, sizeof(key), "k%u", i);
            random_value(&y, key, &meant, 4);
        }
        buf_adds(&meant, "}");
        yaml_finish(&y);
        doc = fy_document_build_from_string(&cfg, buf_str(&text), text.len);
        if (!doc)
            print_message("# does not parse:\n%s\n", buf_str(&text));
        assert_non_null(doc);
        read_node(fy_document_root(doc), &got);
        if (meant.len != got.len || memcmp(buf_str(&meant), buf_str(&got), got.len) != 0)
            print_message("# round %d:\n%s\n# meant %s\n# read  %s\n", round, buf_str(&text),
                          buf_str(&meant), buf_str(&got));
        assert_int_equal(meant.len, got.len);
        assert_memory_equal(buf_str(&meant), buf_str(&got), got.len);
        fy_document_destroy(doc);
        buf_release(&text);
        buf_release(&meant);
        buf_release(&got);
    }
}

static void yaml_of(const char *value, const char *want)
{
    struct buf b = { 0 };
    struct yaml_out y;

    yaml_begin(&y, &b);
    yaml_str(&y, "k", value);
    yaml_finish(&y);
    assert_string_equal(buf_str(&b), want);
    buf_release(&b);
}

/* Whole containers, and what is open at the end is ended. */
TEST(yaml_containers)
{
    struct buf b = { 0 };
    struct yaml_out y;

    yaml_begin(&y, &b);
    yaml_map(&y, "a");
    yaml_map_of(&y, "to", "kind", "Service", "name", "1");
    yaml_seq_of(&y, "drop", "ALL", "x y");
    yaml_map(&y, "b");
    yaml_map(&y, "c");
    yaml_ends(&y, 2);
    yaml_seq(&y, "d");
    yaml_end(&y);
    yaml_note(&y, "why");
    yaml_open(&y, "e.f[].g[]");
    yaml_int(&y, "h", 1);
    yaml_ends(&y, 5);
    yaml_open(&y, "i[].j");
    yaml_finish(&y);
    assert_string_equal(buf_str(&b), "a:\n  to:\n    kind: Service\n    name: \"1\"\n"
                                     "  drop:\n    - ALL\n    - \"x y\"\n"
                                     "  b:\n    c: {}\n  d: []\n"
                                     "  e:  # why\n    f:\n      - g:\n          - h: 1\n"
                                     "  i:\n    - j: {}\n");
    buf_release(&b);
}

/* What readers of YAML 1.1 and 1.2 differ about is in quotes. */
TEST(yaml_words)
{
    static const char *const words[] = { "yes", "No",  "ON",   "off", "null", "True",
                                         "y",   "n",   "none", ".5",  "1",    "-1",
                                         "1e3", "0o7", "NaN",  "~",   "1:2",  "=" };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        char want[32];

        (void)snprintf(want, sizeof(want), "k: \"%s\"\n", words[i]);
        yaml_of(words[i], want);
    }
    yaml_of("plain-text_1.2/x", "k: plain-text_1.2/x\n");
    yaml_of("/etc/x", "k: /etc/x\n");
    yaml_of("", "k: \"\"\n");
    yaml_of("\xe2\x80\xa8\xc2\x85", "k: \"\\u2028\\u0085\"\n");
    yaml_of("a\x7f", "k: \"a\\u007f\"\n");
    yaml_of("\xf4\x8f\xbf\xbf", "k: \"\\U0010ffff\"\n");
    yaml_of("\xf0\x9f\x94\xa5", "k: \"\xf0\x9f\x94\xa5\"\n");
}

/* ---- the shell ---- */

static void put(const char *path, const struct buf *b)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(buf_str(b), 1, b->len, f), b->len);
    assert_int_equal(fclose(f), 0);
}

static void get(const char *path, struct buf *b)
{
    FILE *f = fopen(path, "r");
    char chunk[4096];
    size_t n;

    assert_non_null(f);
    while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
        buf_add(b, chunk, n);
    (void)fclose(f);
}

/* Every word printed by the shell, a byte 1 behind each, is the word that was quoted. */
TEST(sh_words_are_read_back)
{
    static const char *const shells[] = { "sh", "bash" };
    char dir[] = "/tmp/stoker-quote.XXXXXX";
    struct buf script = { 0 }, want = { 0 };

    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);
    buf_adds(&script, "p() { for w; do printf '%s\\001' \"$w\"; done; }\n");
    for (int i = 0; i < 2000; i++) {
        char *words[3] = { random_text(), random_text(), random_text() };
        struct spec_strs list = { (const char *const *)words, 3 };

        buf_adds(&script, "p ");
        quote_sh_words(&script, &list);
        buf_addc(&script, '\n');
        for (int k = 0; k < 3; k++) {
            buf_addf(&want, "%s\001", words[k]);
            free(words[k]);
        }
    }
    put("s", &script);
    for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
        struct buf got = { 0 };
        char command[64];

        (void)snprintf(command, sizeof(command), "LC_ALL=C %s ./s >out 2>err", shells[i]);
        assert_int_equal(system(command), 0);
        get("out", &got);
        assert_int_equal(got.len, want.len);
        assert_memory_equal(got.data, want.data, want.len);
        buf_release(&got);
    }
    (void)unlink("s");
    (void)unlink("out");
    (void)unlink("err");
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(rmdir(dir), 0);
    buf_release(&script);
    buf_release(&want);
}

static void sh_of(const char *word, const char *want)
{
    struct buf b = { 0 };

    quote_sh(&b, word);
    assert_string_equal(buf_str(&b), want);
    buf_release(&b);
}

/* As the first word of a command, too, where some bare words mean something else. */
TEST(sh_first_words)
{
    sh_of("python", "python");
    sh_of("--model=7b", "--model=7b");
    sh_of("A=b", "'A=b'");
    sh_of("_x1=b", "'_x1=b'");
    sh_of("1x=b", "1x=b");
    sh_of("=x", "'=x'");
    sh_of("if", "'if'");
    sh_of("time", "'time'");
    sh_of("", "''");
    sh_of("a'b", "'a'\\''b'");
    sh_of("~", "'~'");
    sh_of("*", "'*'");
}

/* ---- the rest ---- */

TEST(names_for_dns)
{
    static const struct {
        const char *name, *want;
    } rows[] = { { "world_model", "world-model" },
                 { "A.b", "a-b" },
                 { "--x--", "x" },
                 { "\xc3\xa4", "x" },
                 { "", "x" },
                 { "a", "a" } };
    char out[SPEC_NAME_MAX + 1], long_one[200];

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        dns_name(out, rows[i].name);
        assert_string_equal(out, rows[i].want);
    }
    memset(long_one, 'a', sizeof(long_one));
    long_one[62] = '-';
    long_one[sizeof(long_one) - 1] = '\0';
    dns_name(out, long_one);
    assert_int_equal(strlen(out), 62);
}

TEST(plain_for_slurm)
{
    static const char *const bad[] = { "",   "a b", "a\n", "a#b", "a,b", "a=b",
                                       "\"", "'",   "[",   "\\",  "\t",  "\xc3\xa4" };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_false(slurm_plain(bad[i]));
    assert_true(slurm_plain("/opt/site/bin/start-2.0_x:y@z%j"));
}

TEST(text_for_html_and_comments)
{
    struct buf b = { 0 };

    quote_html(&b, "<a href=\"x\">&'</a>");
    assert_string_equal(buf_str(&b), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;&lt;/a&gt;");
    buf_reset(&b);
    quote_comment(&b, "a\nb\tc\xe2\x80\xa8 d\xff \xc3\xa4 \xc2\x85");
    assert_string_equal(buf_str(&b), "a b c  d? \xc3\xa4  ");
    buf_release(&b);
}

/* A spec's own file name stands in every file: it cannot end the comment it is in. */
TEST(file_names_stay_in_comments)
{
    static const char text[] = "site: {name: x}\n";
    struct spec_diags diags = { 0 };
    struct render_set set = { 0 };
    struct spec *s = NULL;
    struct err err = { 0 };
    struct buf b = { 0 };
    struct render r;

    assert_int_equal(
        spec_parse(text, sizeof(text) - 1, "/d/a\nb: 1 \xe2\x80\xa8\xff.yaml", &s, &diags, &err),
        RC_OK);
    r = (struct render){ .spec = s, .where = true, .out = &set, .diags = &diags };
    render_head(&r, &b, "#", "what");
    buf_addf(&b, "# %s\n", render_from(&r, &s->site.name));
    assert_non_null(strstr(buf_str(&b), "from a b: 1  ?.yaml, site x;"));
    assert_non_null(strstr(buf_str(&b), "# site.name, a b: 1  ?.yaml:1\n"));
    for (const char *p = buf_str(&b); *p; p = strchr(p, '\n') + 1)
        assert_int_equal(*p, '#');
    buf_release(&b);
    spec_diags_release(&diags);
    spec_free(s);
}

TEST_MAIN(cmocka_unit_test(yaml_is_read_back), cmocka_unit_test(yaml_containers),
          cmocka_unit_test(yaml_words), cmocka_unit_test(sh_words_are_read_back),
          cmocka_unit_test(sh_first_words), cmocka_unit_test(names_for_dns),
          cmocka_unit_test(plain_for_slurm), cmocka_unit_test(text_for_html_and_comments),
          cmocka_unit_test(file_names_stay_in_comments))
