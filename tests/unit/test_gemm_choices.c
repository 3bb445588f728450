/* SPDX-License-Identifier: MIT */
/* test_gemm_choices: choosing a product's implementation, with ways and times made up here: no GPU.
 *
 * The file under test belongs to the CUDA plug-in and not to the library, so it is compiled in. */
#include "engine/cuda/gemm_choices.c" // NOLINT(bugprone-suspicious-include)
#include "test.h"

static struct choose c, d; /* large */
static char err[CHOOSE_TEXT_MAX];

/* ---- a machine with some ways, of which one does not work ---- */
struct fake {
    double us[CHOOSE_IMPLS];
    size_t ways;
    int asked, measured;
};

static size_t fake_ways(void *arg, const struct choose_key *key, struct choose_way *out, size_t max)
{
    struct fake *f = arg;

    CHECK(max == CHOOSE_WAYS_MAX && key->n > 0);
    f->asked++;
    for (size_t i = 0; i < f->ways; i++) {
        out[i].impl = (enum choose_impl)i;
        if (out[i].impl == CHOOSE_SPLIT90)
            out[i].parts = 4;
        if (out[i].impl == CHOOSE_LT)
            for (size_t w = 0; w < CHOOSE_WORDS; w++)
                out[i].words[w] = 0xfedcba9876543210ULL >> w;
    }
    return f->ways;
}

static double fake_measure(void *arg, const struct choose_key *key, const struct choose_way *way)
{
    struct fake *f = arg;

    CHECK(key->k > 0);
    f->measured++;
    return f->us[way->impl];
}

static struct choose_ops ops_of(struct fake *f)
{
    return (struct choose_ops){ .arg = f, .ways = fake_ways, .measure = fake_measure };
}

static const struct choose_key some = {
    .type = 0, .out_type = 0, .act = 1, .n = 1536, .k = 384, .bucket = 16384
};

TEST(buckets_are_powers_of_two)
{
    static const struct {
        int m, bucket;
    } rows[] = { { 0, 16 },      { 1, 16 },      { 16, 16 },           { 17, 32 },
                 { 4096, 4096 }, { 4097, 8192 }, { 1 << 30, 1 << 30 }, { INT32_MAX, 1 << 30 } };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        CHECK(choose_bucket(rows[i].m) == rows[i].bucket);
}

TEST(the_fastest_is_taken_and_remembered)
{
    struct fake f = { .us = { 30, -1, 20 }, .ways = 3 };
    struct choose_ops ops = ops_of(&f);
    struct choose_way way;

    choose_init(&c, "1");
    CHECK(!choose_find(&c, &some));
    CHECK(choose_best(&c, &some, &ops, &way) && way.impl == CHOOSE_LT && c.changed);
    CHECK(way.words[1] == 0xfedcba9876543210ULL >> 1 && f.measured == 3);
    f.us[0] = 1;
    CHECK(choose_best(&c, &some, &ops, &way) && way.impl == CHOOSE_LT);
    CHECK(f.asked == 1 && f.measured == 3 && c.count == 1);
}

TEST(what_does_not_work_is_not_chosen)
{
    struct fake f = { .us = { NAN, INFINITY, -5 }, .ways = 3 };
    struct choose_ops ops = ops_of(&f);
    struct choose_way way;

    choose_init(&c, "1");
    CHECK(!choose_best(&c, &some, &ops, &way) && c.count == 0 && !c.changed);
    f.ways = 0;
    CHECK(!choose_best(&c, &some, &ops, &way));
    f.us[1] = 0;
    f.ways = 2;
    CHECK(choose_best(&c, &some, &ops, &way) && way.impl == CHOOSE_SM80);
}

static void fill(void)
{
    struct fake f = { .us = { 30.126, 12.5, 20, 40 }, .ways = 4 };
    struct choose_ops ops = ops_of(&f);
    struct choose_key key = some;
    struct choose_way way;

    choose_init(&c, "v 1/x");
    for (int i = 0; i < 6; i++) {
        f.us[CHOOSE_LT] = i % 2 ? 20 : 3;
        f.us[CHOOSE_SM90] = i % 3 ? 30 : 1.126;
        f.us[CHOOSE_SPLIT90] = i == 5 ? 1 : 40;
        key.type = i % 3;
        key.out_type = i % 2;
        key.act = i % 4;
        key.bucket = 16 << i;
        CHECK(choose_best(&c, &key, &ops, &way));
    }
    CHECK(c.count == 6 && c.entries[5].way.parts == 4);
}

/* What is hardly faster is noise: the surest stays. */
TEST(little_is_no_gain)
{
    struct fake f = { .us = { 100, 99, 95.5, 94 }, .ways = 3 };
    struct choose_ops ops = ops_of(&f);
    struct choose_key key = some;
    struct choose_way way;

    choose_init(&c, "1");
    CHECK(choose_best(&c, &key, &ops, &way) && way.impl == CHOOSE_SM90);
    f.ways = 4;
    key.n++;
    CHECK(choose_best(&c, &key, &ops, &way) && way.impl == CHOOSE_SPLIT90);
}

TEST(what_is_written_is_read_again)
{
    static char text[CHOOSE_FILE_MAX];
    size_t len;

    fill();
    CHECK(!strcmp(c.stamp, "v_1_x"));
    len = choose_format(&c, text, sizeof(text));
    CHECK(len > 0 && len == strlen(text));
    choose_init(&d, "v 1/x");
    CHECK(choose_parse(&d, text, len, err) && d.count == c.count && !d.changed);
    for (size_t i = 0; i < c.count; i++) {
        CHECK(same_key(&c.entries[i].key, &d.entries[i].key));
        assert_memory_equal(&c.entries[i].way, &d.entries[i].way, sizeof(struct choose_way));
        CHECK(fabs(c.entries[i].us - d.entries[i].us) < 0.0051);
    }
    for (size_t cap = 0; cap <= len; cap++)
        CHECK(choose_format(&c, text, cap) == 0);
    CHECK(choose_format(&c, text, len + 1) == len);
}

/* Every cut and every changed byte of a good file. */
TEST(a_broken_file_is_an_empty_one)
{
    static char text[CHOOSE_FILE_MAX];
    size_t len;

    fill();
    len = choose_format(&c, text, sizeof(text));
    choose_init(&d, "v 1/x");
    for (size_t cut = 0; cut < len; cut++) {
        bool good = choose_parse(&d, text, cut, err);

        CHECK(!good && d.count == 0);
    }
    for (size_t i = 0; i < len; i++) {
        char was = text[i];

        for (int byte = 0; byte < 256; byte += 1 + (byte >= 128) * 40) {
            text[i] = (char)byte;
            if ((char)byte != was)
                CHECK(!choose_parse(&d, text, len, err) && d.count == 0);
        }
        text[i] = was;
    }
    choose_init(&d, "v2");
    CHECK(!choose_parse(&d, text, len, err) && strstr(err, "another version"));
}

/* A file of these lines with the sum that belongs to them. */
static bool parse_summed(struct choose *to, const char *lines)
{
    static char text[CHOOSE_FILE_MAX];
    size_t len = strlen(lines);

    memcpy(text, lines, len);
    sum_line(text, len, text + len);
    return choose_parse(to, text, len + SUM_BYTES, err);
}

TEST(lines_are_strict)
{
#define TOP  "stoker-cuda-choices 2 s\n"
#define HEAD TOP "library none\n"
    static const char *const bad[] = {
        "",
        "stoker-cuda-choices 1 s\n",
        "stoker-cuda-choices 2 s",
        TOP,
        TOP "library\n",
        TOP "library none",
        TOP "library nowhere\n",
        TOP "library 0 0 /x\n",
        TOP "library 0000000000000000 0000000000000000 x\n",
        TOP "library 0000000000000000 0000000000000000 \n",
        TOP "library 0000000000000000 /x\n",
        HEAD "\n",
        HEAD "f16 f16 none 64 64 16 sm90 1.00",
        HEAD "f16 f16 none 64 64 16 sm90 1.00 \n",
        HEAD " f16 f16 none 64 64 16 sm90 1.00\n",
        HEAD "f16  f16 none 64 64 16 sm90 1.00\n",
        HEAD "f32 f16 none 64 64 16 sm90 1.00\n",
        HEAD "f16 f16 swish 64 64 16 sm90 1.00\n",
        HEAD "f16 f16 none 0 64 16 sm90 1.00\n",
        HEAD "f16 f16 none 064 64 16 sm90 1.00\n",
        HEAD "f16 f16 none -64 64 16 sm90 1.00\n",
        HEAD "f16 f16 none 1048577 64 16 sm90 1.00\n",
        HEAD "f16 f16 none 99999999999999999999 64 16 sm90 1.00\n",
        HEAD "f16 f16 none 64 64 17 sm90 1.00\n",
        HEAD "f16 f16 none 64 64 8 sm90 1.00\n",
        HEAD "f16 f16 none 64 64 16 sm70 1.00\n",
        HEAD "f16 f16 none 64 64 16 sm90 1\n",
        HEAD "f16 f16 none 64 64 16 sm90 .00\n",
        HEAD "f16 f16 none 64 64 16 sm90 1.0\n",
        HEAD "f16 f16 none 64 64 16 sm90 1.000\n",
        HEAD "f16 f16 none 64 64 16 sm90 1e9\n",
        HEAD "f16 f16 none 64 64 16 sm90 -1.00\n",
        HEAD "f16 f16 none 64 64 16 sm90 99999999.00\n",
        HEAD "f16 f16 none 64 64 16 sm90 1.00 0000000000000000\n",
        HEAD "f16 f16 none 64 64 16 split90 1.00\n",
        HEAD "f16 f16 none 64 64 16 split90 1.00 0\n",
        HEAD "f16 f16 none 64 64 16 split90 1.00 65\n",
        HEAD "f16 f16 none 64 64 16 split90 1.00 4 1\n",
        HEAD "f16 f16 none 64 64 16 lt 1.00\n",
        HEAD "f16 f16 none 64 64 16 lt 1.00 0 0 0 0 0 0 0 0\n",
        HEAD "f16 f16 none 64 64 16 sm90 1.00\nf16 f16 none 64 64 16 sm80 2.00\n",
    };
    static const char good[] = HEAD "f16 f16 none 64 64 16 sm90 1.00\n"
                                    "e4m3 bf16 gelu_tanh 1048576 1 1073741824 sm80 0.00\n"
                                    "f16 f16 none 64 64 32 split90 1.00 8\n";

    choose_init(&d, "s");
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        CHECK(!parse_summed(&d, bad[i]) && d.count == 0 && err[0]);
    CHECK(parse_summed(&d, good) && d.count == 3 && d.entries[2].way.parts == 8);
    CHECK(parse_summed(&d, HEAD) && d.count == 0 && choose_library_same(&d));
    CHECK(parse_summed(&d, TOP "library 0000000000000001 0000000000000002 /a b\n"));
    CHECK(!strcmp(d.lib.path, "/a b") && d.lib.size == 1 && d.lib.changed_ns == 2);
    CHECK(!choose_library_same(&d));
    CHECK(!choose_parse(&d, good, strlen(good), err) && strstr(err, "damaged"));
}

TEST(no_more_than_the_limit)
{
    struct fake f = { .us = { 1, 2, 3 }, .ways = 3 };
    struct choose_ops ops = ops_of(&f);
    struct choose_key key = some;
    struct choose_way way;
    static char text[CHOOSE_FILE_MAX + CHOOSE_LINE_MAX];
    size_t len;

    choose_init(&c, "1");
    for (key.n = 1; key.n <= CHOOSE_ENTRIES_MAX + 3; key.n++)
        CHECK(choose_best(&c, &key, &ops, &way) && way.impl == CHOOSE_SM90);
    CHECK(c.count == CHOOSE_ENTRIES_MAX);
    len = choose_format(&c, text, CHOOSE_FILE_MAX);
    CHECK(len > 0 && choose_parse(&d, text, 0, err) == false);
    choose_init(&d, "1");
    CHECK(choose_parse(&d, text, len, err) && d.count == CHOOSE_ENTRIES_MAX);
    len -= SUM_BYTES;
    (void)snprintf(text + len, CHOOSE_LINE_MAX, "bf16 f16 none 64 64 16 sm90 1.00\n");
    CHECK(!parse_summed(&d, text) && d.count == 0);
}

TEST(the_file)
{
    char folder[] = "/tmp/stoker-choose-XXXXXX", path[CHOOSE_PATH_MAX], other[CHOOSE_PATH_MAX];

    CHECK(mkdtemp(folder));
    CHECK(!unsetenv("STOKER_CACHE") && !setenv("XDG_CACHE_HOME", folder, 1));
    CHECK(choose_path(path, "NVIDIA H200", "580.1/../x", err));
    (void)snprintf(other, sizeof(other), "%s/stoker/cuda-NVIDIA_H200-580.1_.._x.txt", folder);
    CHECK(!strcmp(path, other));
    fill();
    CHECK(!choose_read(&d, path, err) && strstr(err, "could not open"));
    CHECK(choose_write(&c, path, err) && !c.changed);
    choose_init(&d, "v 1/x");
    CHECK(choose_read(&d, path, err) && d.count == 6);
    CHECK(choose_write(&d, path, err)); /* over the old one */
    d.count = 2;
    choose_merge(&d, path);
    CHECK(d.count == 6 && same_key(&d.entries[1].key, &c.entries[1].key));
    choose_merge(&d, folder); /* nothing to add */
    CHECK(d.count == 6);
    CHECK(!choose_read(&d, folder, err) && d.count == 0);
    CHECK(!truncate(path, CHOOSE_FILE_MAX + 1) && !choose_read(&d, path, err));
    CHECK(!truncate(path, 100) && !choose_read(&d, path, err));
    CHECK(!unlink(path));
    (void)snprintf(other, sizeof(other), "%s/stoker", folder);
    CHECK(!rmdir(other) && !rmdir(folder)); /* nothing else was left there */
}

/* What was chosen beside one library says nothing beside another. */
TEST(the_library)
{
    char lib[] = "/tmp/stoker-library-XXXXXX";
    static char text[CHOOSE_FILE_MAX];
    int fd = mkstemp(lib);
    size_t len;

    CHECK(fd >= 0 && write(fd, "1", 1) == 1);
    fill();
    CHECK(choose_library_same(&c));
    choose_use_library(&c, "");
    choose_use_library(&c, NULL);
    CHECK(c.count == 6);
    choose_use_library(&c, lib);
    CHECK(c.count == 0 && choose_library_same(&c));
    len = choose_format(&c, text, sizeof(text));
    choose_init(&d, "v 1/x");
    CHECK(choose_parse(&d, text, len, err) && choose_library_same(&d));
    CHECK(!strcmp(d.lib.path, lib));
    choose_use_library(&d, lib);
    CHECK(!d.changed && write(fd, "2", 1) == 1 && !choose_library_same(&d));
    CHECK(!close(fd) && !unlink(lib) && !choose_library_same(&d));
    choose_use_library(&d, lib);
    CHECK(!d.lib.path[0] && choose_library_same(&d));
}

TEST(no_folder_for_it)
{
    char path[CHOOSE_PATH_MAX];
    static char deep[CHOOSE_PATH_MAX];

    CHECK(!setenv("STOKER_CACHE", "/own", 1) && choose_path(path, "a", "b", err));
    CHECK(!strcmp(path, "/own/cuda-a-b.txt") && !unsetenv("STOKER_CACHE"));
    CHECK(!setenv("XDG_CACHE_HOME", "relative", 1) && !setenv("HOME", "/home/x", 1));
    CHECK(choose_path(path, "a", "b", err));
    CHECK(!strcmp(path, "/home/x/.cache/stoker/cuda-a-b.txt"));
    CHECK(!unsetenv("HOME") && !choose_path(path, "a", "b", err) && err[0]);
    memset(deep, '/', sizeof(deep) - 1);
    CHECK(!setenv("HOME", deep, 1) && !choose_path(path, "a", "b", err));
    fill();
    CHECK(!choose_write(&c, "/proc/none/x/y.txt", err) && err[0] && c.changed);
}

TEST_MAIN(cmocka_unit_test(buckets_are_powers_of_two),
          cmocka_unit_test(the_fastest_is_taken_and_remembered),
          cmocka_unit_test(what_does_not_work_is_not_chosen), cmocka_unit_test(little_is_no_gain),
          cmocka_unit_test(what_is_written_is_read_again),
          cmocka_unit_test(a_broken_file_is_an_empty_one), cmocka_unit_test(lines_are_strict),
          cmocka_unit_test(no_more_than_the_limit), cmocka_unit_test(the_file),
          cmocka_unit_test(the_library), cmocka_unit_test(no_folder_for_it))
