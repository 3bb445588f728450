/* SPDX-License-Identifier: MIT */
/* base: errors, arena, buf, strings, units, options. */
#include "test.h"

#include "base/arena.h"
#include "base/args.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text/units.h"
#include "base/text/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- err ---- */

TEST(first_error_wins_and_takes_context)
{
    struct err err = { 0 };

    assert_int_equal(err_set(&err, RC_PARSE, "bad '%s'", "x"), RC_PARSE);
    assert_int_equal(err_set(&err, RC_FAIL, "later"), RC_FAIL);
    assert_int_equal(err_ctx(&err, "job '%s'", "a"), RC_PARSE);
    assert_string_equal(err.msg, "job 'a': bad 'x'");
    err_hint(&err, "One.");
    err_hint(&err, "Two.");
    assert_string_equal(err.hint, "One.");
}

TEST(system_errors_say_why)
{
    struct err err = { 0 };

    errno = ENOENT;
    assert_int_equal(err_sys(&err, "could not open '%s'", "f"), RC_NODEV);
    assert_string_equal(err.msg, "could not open 'f': No such file or directory");
    errno = EIO;
    assert_int_equal(err_sys(NULL, "x"), RC_FAIL);
    assert_int_equal(rc_exit(RC_USAGE), 2);
    assert_int_equal(rc_exit(RC_NODEV), 3);
    assert_int_equal(rc_exit(RC_LIMIT), 4);
}

TEST(room_is_written_by_the_caller)
{
    struct buf b;

    buf_init(&b, 10);
    memcpy(buf_reserve(&b, 8), "abcdefgh", 8);
    buf_commit(&b, 3);
    assert_string_equal(buf_str(&b), "abc");
    CHECK(!b.over && !buf_reserve(&b, 8) && b.over);
    assert_int_equal(b.len, 3);
    buf_release(&b);
}

/* ---- arena and buf ---- */

TEST(arena_is_aligned_and_zeroed)
{
    struct arena a = { 0 };

    for (size_t n = 0; n < 3000; n += 7) {
        unsigned char *p = arena_alloc(&a, n);

        CHECK((uintptr_t)p % 16 == 0);
        for (size_t i = 0; i < n; i++)
            CHECK(p[i] == 0);
        memset(p, 0xaa, n);
    }
    assert_string_equal(arena_printf(&a, "%300d", 1) + 299, "1");
    CHECK(!arena_strdup(&a, NULL));
    arena_release(&a);
}

TEST(buf_stops_at_its_maximum)
{
    struct buf b;

    buf_init(&b, 10);
    buf_adds(&b, "12345");
    buf_addf(&b, "%d", 678901);
    CHECK(b.over);
    assert_string_equal(buf_str(&b), "12345");
    buf_adds(&b, "x"); /* nothing after the first that did not fit */
    assert_string_equal(buf_str(&b), "12345");
    buf_reset(&b);
    buf_adds(&b, "0123456789");
    CHECK(!b.over);
    buf_release(&b);
    assert_string_equal(buf_str(&b), "");
}

/* ---- strings ---- */

TEST(numbers_are_whole_strings)
{
    static const struct {
        const char *in;
        bool ok;
        int64_t want;
    } rows[] = {
        { "0", true, 0 },
        { "-17", true, -17 },
        { "9223372036854775807", true, INT64_MAX },
        { "9223372036854775808", false, 0 },
        { "-99999999999999999999", false, 0 },
        { "", false, 0 },
        { " 1", false, 0 },
        { "+1", false, 0 },
        { "1 ", false, 0 },
        { "1x", false, 0 },
        { "0x10", false, 0 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        int64_t v = 42;

        CHECK(str_to_i64(rows[i].in, 10, &v) == rows[i].ok);
        CHECK(v == (rows[i].ok ? rows[i].want : 42));
    }
    CHECK(maybe_is(str_to_maybe("0x10de"), 0x10de));
    CHECK(maybe_is(str_to_maybe("010"), 10));
    CHECK(!str_to_maybe(NULL).known);
}

TEST(floats_are_finite)
{
    double d = 1;

    CHECK(str_to_f64("2.5e3", &d) && d == 2500);
    CHECK(!str_to_f64("nan", &d) && !str_to_f64("inf", &d) && !str_to_f64("1e999", &d));
    CHECK(d == 2500);
}

TEST(text_is_made_printable)
{
    char s[] = "a\x01\xc3\xa9\xff\xed\xa0\x80z";

    CHECK(!str_is_text(s, strlen(s)));
    str_make_text(s);
    assert_string_equal(s, "a?\xc3\xa9????z");
    CHECK(str_is_text(s, strlen(s)));
}

TEST(text_is_shown_without_what_hides_or_turns_it)
{
    struct buf b = { 0 };

    str_add_shown(&b, "a\xe2\x80\xae"
                      "b\x1b[1m\xc3\xa9\xff\xef\xbb\xbf\t\xf3\xa0\x81\xa1.");
    assert_string_equal(buf_str(&b), "a\\u202eb\\u001b[1m\xc3\xa9?\\ufeff\t\\U000e0061.");
    buf_release(&b);
}

TEST(utf8_refuses_what_is_not)
{
    static const char *const bad[] = { "\x80",         "\xc0\x80",         "\xe0\x80\x80",
                                       "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf0\x9f\x98",
                                       "\xff" };
    uint32_t c;
    char out[4];

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(utf8_decode(bad[i], strlen(bad[i]), &c), 0);
    for (uint32_t want = 1; want < 0x110000; want += 97) {
        size_t n = utf8_encode(want, out);

        if (want >= 0xd800 && want < 0xe000)
            continue;
        assert_int_equal(utf8_decode(out, n, &c), n);
        assert_int_equal(c, want);
    }
}

/* Every lead byte with every second one, and third and fourth ones from the edges of what is
 * allowed: one answer by two ways. */
TEST(utf8_of_a_whole_text)
{
    static const unsigned char edges[] = { 0,    0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0,
                                           0xbf, 0xc0, 0xc2, 0xe0, 0xed, 0xf0, 0xff };
    unsigned valid = 0;
    uint32_t code;

    for (unsigned i = 0; i < 0x10000; i++) {
        for (size_t k = 0; k < ARRAY_SIZE(edges) * ARRAY_SIZE(edges); k++) {
            char s[4] = { (char)(i >> 8), (char)i, (char)edges[k / ARRAY_SIZE(edges)],
                          (char)edges[k % ARRAY_SIZE(edges)] };
            size_t at = 0, n = 1;

            while (n && at < sizeof(s))
                at += n = utf8_decode(s + at, sizeof(s) - at, &code);
            if (utf8_is_valid(s, sizeof(s)) != (n > 0))
                fail_msg("%02x %02x %02x %02x", s[0] & 255, s[1] & 255, s[2] & 255, s[3] & 255);
            valid += n > 0;
        }
    }
    CHECK(valid > 60000);
    CHECK(utf8_is_valid("", 0));
    CHECK(utf8_is_valid("a\xe2\x96\x81z", 5) && !utf8_is_valid("a\xe2\x96\x81z", 3));
}

TEST(large_blocks)
{
    static const size_t sizes[] = { 0, 1, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 7 << 20 };

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        char *p = xlarge(sizes[i]);

        memset(p, 7, sizes[i]);
        CHECK(!sizes[i] || p[sizes[i] - 1] == 7);
        free(p);
    }
}

TEST(nearest_name)
{
    static const char *const names[] = { "detect", "gather", "spec" };

    assert_string_equal(str_nearest("dtect", names, 3), "detect");
    assert_string_equal(str_nearest("sepc", names, 3), "spec");
    assert_string_equal(str_nearest("gath", names, 3), "gather");
    CHECK(!str_nearest("zzz", names, 3));
    CHECK(!str_nearest("", names, 3));
    assert_int_equal(str_distance("abcd", "acbd", 3), 1);
    assert_int_equal(str_distance("abcd", "wxyz", 3), 4);
}

/* ---- units ---- */

TEST(bytes_parse_table)
{
    static const struct {
        const char *in;
        enum rc rc;
        uint64_t want;
    } rows[] = {
        { "80GiB", RC_OK, UINT64_C(80) << 30 },
        { "80GB", RC_OK, UINT64_C(80000000000) },
        { "1.5GiB", RC_OK, UINT64_C(1610612736) },
        { "512", RC_OK, 512 },
        { "17179869184GiB", RC_LIMIT, 0 }, /* 2^34 GiB is 2^64 bytes */
        { "0.0000001kB", RC_LIMIT, 0 },
        { "79.6GiB", RC_OK, UINT64_C(85469849190) }, /* .4 of a byte is nobody's */
        { "79.6 GiB", RC_OK, UINT64_C(85469849190) },
        { "140 GiB", RC_OK, UINT64_C(140) << 30 },
        { "1.5B", RC_LIMIT, 0 },
        { "80  GiB", RC_PARSE, 0 },
        { "80 ", RC_PARSE, 0 },
        { "80GIB", RC_PARSE, 0 },
        { "-1GiB", RC_PARSE, 0 },
        { "1.GiB", RC_PARSE, 0 },
        { "GiB", RC_PARSE, 0 },
        { "", RC_PARSE, 0 },
        { "99999999999999999999", RC_PARSE, 0 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct err err = { 0 };
        uint64_t got = 7;

        assert_int_equal(units_bytes_parse(rows[i].in, &got, &err), rows[i].rc);
        CHECK(got == (rows[i].rc ? 7 : rows[i].want));
    }
}

/* What a table says can be written into a spec, and says the same again. */
TEST(sizes_for_people_can_be_written)
{
    char said[UNITS_TEXT_MAX], again[UNITS_TEXT_MAX];

    for (uint64_t v = 1; v < UINT64_C(1) << 55; v = v * 7 / 4 + 3) {
        uint64_t got = 0;

        assert_int_equal(units_bytes_parse(units_bytes_human(v, said), &got, NULL), RC_OK);
        (void)units_bytes_human(got, again);
        CHECK(strtod(said, NULL) == strtod(again, NULL)); /* "2.0 KiB" is "2 KiB" then */
        assert_string_equal(strchr(said, ' '), strchr(again, ' '));
    }
}

TEST(other_units_parse)
{
    enum money_per per = MONEY_ONCE;
    uint64_t v = 0;
    int64_t micro = 0;
    double pct = 0;

    assert_int_equal(units_rate_parse("400Gb/s", &v, NULL), RC_OK);
    CHECK(v == UINT64_C(400000000000));
    assert_int_equal(units_rate_parse("25GB/s", &v, NULL), RC_OK);
    CHECK(v == UINT64_C(200000000000));
    assert_int_equal(units_rate_parse("400", &v, NULL), RC_PARSE);
    assert_int_equal(units_rate_parse("400 Gb/s", &v, NULL), RC_OK);
    CHECK(v == UINT64_C(400000000000));
    assert_int_equal(units_duration_parse("1h30m", &v, NULL), RC_OK);
    CHECK(v == 5400000);
    assert_int_equal(units_duration_parse("250ms", &v, NULL), RC_OK);
    CHECK(v == 250);
    assert_int_equal(units_duration_parse("30m1h", &v, NULL), RC_PARSE);
    assert_int_equal(units_duration_parse("", &v, NULL), RC_PARSE);
    assert_int_equal(units_money_parse("$3.50/h", &micro, &per, NULL), RC_OK);
    CHECK(micro == 3500000 && per == MONEY_PER_HOUR);
    assert_int_equal(units_money_parse("$150000/mo", &micro, &per, NULL), RC_OK);
    CHECK(per == MONEY_PER_MONTH);
    assert_int_equal(units_money_parse("3.50", &micro, &per, NULL), RC_PARSE);
    assert_int_equal(units_percent_parse("80%", &pct, NULL), RC_OK);
    CHECK(pct == 80);
    assert_int_equal(units_percent_parse("%", &pct, NULL), RC_PARSE);
}

TEST(units_print_what_they_read)
{
    static const char *const sizes[] = { "64GiB", "80GB", "1TiB", "513B", "0B", "141GB" };
    char out[UNITS_TEXT_MAX];
    uint64_t v;

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        assert_int_equal(units_bytes_parse(sizes[i], &v, NULL), RC_OK);
        assert_string_equal(units_bytes_exact(v, out), sizes[i]);
    }
    assert_string_equal(units_rate_exact(UINT64_C(400000000000), out), "400Gb/s");
    assert_string_equal(units_duration_exact(300000, out), "5m");
    assert_string_equal(units_duration_exact(5400000, out), "90m");
    assert_string_equal(units_money_exact(3500000, MONEY_PER_HOUR, out), "$3.50/h");
    assert_string_equal(units_money_exact(INT64_C(5000000000), MONEY_PER_DAY, out), "$5000/d");
    assert_string_equal(units_bytes_human(UINT64_C(150754820096), out), "140 GiB");
    assert_string_equal(units_bytes_human(1536, out), "1.5 KiB");
}

/* ---- options ---- */

struct values {
    bool json;
    const char *root, *env;
    int64_t count;
    struct opt_strs with;
};

static const struct opt opts[] = {
    { 'j', "json", OPT_FLAG, offsetof(struct values, json), NULL, NULL, 0, 0, "" },
    { 'r', "root", OPT_STR, offsetof(struct values, root), "DIR", NULL, 0, 0, "" },
    { 0, "env", OPT_STR_OPT, offsetof(struct values, env), "KIND", "full|minimal", 0, 0, "" },
    { 'n', "count", OPT_INT, offsetof(struct values, count), "N", NULL, 1, 9, "" },
    { 'w', "with", OPT_STRS, offsetof(struct values, with), "V", NULL, 0, 0, "" },
    { 0 },
};

static enum rc parse(struct values *v, int *operands, struct err *err, const char **argv)
{
    int argc = 0;

    while (argv[argc])
        argc++;
    return args_parse(opts, argc, (char **)argv, v, operands, err);
}

TEST(stand_ins_are_taken_in_what_is_written_about)
{
    const char *given[] = { "cmd", "--count", "N", "--env=KIND", "--count=$n", NULL };
    const char *wrong[] = { "cmd", "--count", "many", NULL };
    struct values v = { 0 };
    int operands = 0;
    char *argv[6];

    memcpy(argv, given, sizeof(given));
    assert_int_equal(args_sketch(opts, 5, argv, &v, &operands, NULL), RC_OK);
    memcpy(argv, given, sizeof(given));
    assert_int_equal(args_parse(opts, 5, argv, &v, &operands, NULL), RC_USAGE);
    memcpy(argv, wrong, sizeof(wrong));
    assert_int_equal(args_sketch(opts, 3, argv, &v, &operands, NULL), RC_USAGE);
}

TEST(options_and_operands_mix)
{
    const char *argv[] = { "cmd", "a", "--root=x", "-jn3", "--env", "b",
                           "-w",  "1", "-w2",      "--",   "-j",    NULL };
    struct values v = { 0 };
    int operands = 0;

    assert_int_equal(parse(&v, &operands, NULL, argv), RC_OK);
    assert_int_equal(operands, 3);
    assert_string_equal(argv[0], "a");
    assert_string_equal(argv[1], "b");
    assert_string_equal(argv[2], "-j");
    CHECK(v.json && v.count == 3 && v.with.count == 2);
    assert_string_equal(v.root, "x");
    assert_string_equal(v.env, "");
    assert_string_equal(v.with.items[1], "2");
}

TEST(wrong_options_are_told)
{
    static const struct {
        const char *arg, *next, *msg, *hint;
    } rows[] = {
        { "--jsn", NULL, "unknown option '--jsn'", "Did you mean '--json'?" },
        { "-x", NULL, "unknown option '-x'", "" },
        { "--root", NULL, "option '--root' needs a value (DIR)", "" },
        { "--json=1", NULL, "option '--json' takes no value", "" },
        { "--count", "10", "option '--count' needs a whole number from 1 to 9, not '10'", "" },
        { "--env=half", NULL, "option '--env' has no choice 'half'",
          "Choose one of: full|minimal." },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const char *argv[] = { "cmd", rows[i].arg, rows[i].next, NULL };
        struct values v = { 0 };
        struct err err = { 0 };
        int operands = 0;

        assert_int_equal(parse(&v, &operands, &err, argv), RC_USAGE);
        assert_string_equal(err.msg, rows[i].msg);
        assert_string_equal(err.hint, rows[i].hint);
    }
}

TEST_MAIN(cmocka_unit_test(room_is_written_by_the_caller),
          cmocka_unit_test(first_error_wins_and_takes_context),
          cmocka_unit_test(system_errors_say_why), cmocka_unit_test(arena_is_aligned_and_zeroed),
          cmocka_unit_test(buf_stops_at_its_maximum), cmocka_unit_test(numbers_are_whole_strings),
          cmocka_unit_test(floats_are_finite), cmocka_unit_test(text_is_made_printable),
          cmocka_unit_test(text_is_shown_without_what_hides_or_turns_it),
          cmocka_unit_test(utf8_refuses_what_is_not), cmocka_unit_test(utf8_of_a_whole_text),
          cmocka_unit_test(large_blocks), cmocka_unit_test(nearest_name),
          cmocka_unit_test(bytes_parse_table), cmocka_unit_test(sizes_for_people_can_be_written),
          cmocka_unit_test(other_units_parse), cmocka_unit_test(units_print_what_they_read),
          cmocka_unit_test(options_and_operands_mix),
          cmocka_unit_test(stand_ins_are_taken_in_what_is_written_about),
          cmocka_unit_test(wrong_options_are_told))
