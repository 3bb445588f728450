/* SPDX-License-Identifier: MIT */
/* The tokenizer against the reference's answers (tests/fixtures/tokens-*.tsv, made by
 * tests/parity/tokens.py), truncation against a plain model of it, and files that lie. */
#include "test.h"

#include "base/buf.h"
#include "base/mem.h"
#include "model/tokenizer.h"
#include "model/tokenizer/tokenizer_int.h" /* scores: nobody outside asks for them */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 1 << 16, FILE_MAX_BYTES = 8 << 20 };

static struct tokenizer *load(const char *path)
{
    struct tokenizer *t = NULL;
    struct err err = { 0 };

    if (tokenizer_load(path, NULL, &t, &err))
        fail_msg("%s", err.msg);
    return t;
}

static struct tok_text text(const char *s)
{
    return (struct tok_text){ s, strlen(s) };
}

/* ---- fixtures ---- */
static size_t unescape(const char *s, size_t len, char *out)
{
    size_t n = 0;
    unsigned byte;

    for (size_t i = 0; i < len;) {
        if (s[i] == '\\' && sscanf(s + i, "\\x%2x", &byte) == 1) {
            out[n++] = (char)byte;
            i += 4;
        } else
            out[n++] = s[i++];
    }
    return n;
}

static void written(const struct tok_out *r, struct buf *out)
{
    buf_reset(out);
    for (size_t i = 0; i < r->count; i++)
        buf_addf(out, "%s%u:%u-%u", i ? " " : "", r->ids[i], r->offsets[i].begin,
                 r->offsets[i].end);
}

static size_t check_file(const char *model, const char *expect)
{
    struct tokenizer *t = load(model);
    struct tok_scratch *s = tok_scratch_new();
    FILE *f = fopen(expect, "r");
    static char line[LINE_MAX_BYTES], in[LINE_MAX_BYTES];
    struct buf got = { 0 };
    struct tok_out r;
    size_t lines = 0;

    assert_non_null(f);
    for (; fgets(line, sizeof(line), f); lines++) {
        char *tab = strchr(line, '\t');
        struct tok_text a = { in, 0 };

        assert_non_null(tab);
        line[strcspn(line, "\n")] = '\0';
        a.len = unescape(line, (size_t)(tab - line), in);
        assert_int_equal(tokenizer_encode(t, s, a, NULL, NULL, &r, NULL), RC_OK);
        written(&r, &got);
        if (strcmp(buf_str(&got), tab + 1))
            fail_msg("%s line %zu\nwant %s\ngot  %s", expect, lines + 1, tab + 1, buf_str(&got));
    }
    fclose(f);
    buf_release(&got);
    tok_scratch_free(s);
    tokenizer_free(t);
    return lines;
}

TEST(reference_answers)
{
    CHECK(check_file("tests/fixtures/tokens-uncased.json", "tests/fixtures/tokens-uncased.tsv") >
          200);
    CHECK(check_file("tests/fixtures/tokens-cased.json", "tests/fixtures/tokens-cased.tsv") > 200);
    CHECK(check_file("tests/fixtures/tokens-mpnet.json", "tests/fixtures/tokens-mpnet.tsv") > 200);
    CHECK(check_file("tests/fixtures/unigram-small.json", "tests/fixtures/tokens-xlmr.tsv") > 200);
}

/* ---- threads ---- */
/* A sum over ids, types and offsets of many lines, alone and in truncated pairs. */
static void *encode_many(void *arg)
{
    static const char *const words[] = { "caf\xc3\xa9", "привет мир",    "你好世界",
                                         "สวัสดี",        "e\xcc\x81\xff", "unbelievable [MASK]" };
    const struct tokenizer *t = arg;
    struct tok_scratch *s = tok_scratch_new();
    struct tok_opts o = { .max_tokens = 12, .truncate = TOK_LONGEST_FIRST };
    struct tok_out r;
    size_t sum = 0;

    for (size_t i = 0; i < 400; i++) {
        char line[128];
        struct tok_text b = text(words[i / 2 % ARRAY_SIZE(words)]);

        snprintf(line, sizeof(line), "%s number %zu, %s", words[i % ARRAY_SIZE(words)], i,
                 "word word");
        if (tokenizer_encode(t, s, text(line), i % 2 ? &b : NULL, i % 2 ? &o : NULL, &r, NULL))
            return NULL;
        for (size_t k = 0; k < r.count; k++)
            sum = sum * 31 + r.ids[k] + r.types[k] + r.offsets[k].begin * 7 + r.offsets[k].end;
    }
    tok_scratch_free(s);
    return (void *)(sum | 1);
}

static void check_threads(const char *path)
{
    struct tokenizer *t = load(path);
    pthread_t threads[4];
    void *alone = encode_many(t), *sum;

    assert_non_null(alone);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_many, t), 0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        assert_int_equal(pthread_join(threads[i], &sum), 0);
        CHECK(sum == alone);
    }
    tokenizer_free(t);
}

TEST(one_tokenizer_many_threads)
{
    check_threads("tests/fixtures/tokens-uncased.json");
    check_threads("tests/fixtures/tokens-mpnet.json");
    check_threads("tests/fixtures/unigram-small.json");
}

/* ---- vocabularies ---- */
#define UNIGRAM(vocab)                                                                             \
    "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"▁\","                          \
    "\"prepend_scheme\":\"always\",\"split\":true},"                                               \
    "\"model\":{\"vocab\":[" vocab "],\"type\":\"Unigram\",\"unk_id\":0}}"

static void check_unigram(const char *json, const char *in, const char *want)
{
    struct tok_scratch *s = tok_scratch_new();
    struct tokenizer *t = NULL;
    struct buf got = { 0 };
    struct err err = { 0 };
    struct tok_out r;

    if (tokenizer_parse(json, strlen(json), "test", NULL, &t, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(tokenizer_encode(t, s, text(in), NULL, NULL, &r, NULL), RC_OK);
    written(&r, &got);
    assert_string_equal(buf_str(&got), want);
    buf_release(&got);
    tokenizer_free(t);
    tok_scratch_free(s);
}

/* Nothing but the last bits of the scores, as the reference reads them, decides where the
 * four single dashes go. */
TEST(scores_as_the_reference_reads_them)
{
    char dashes[96];

    memset(dashes, '-', 95);
    dashes[95] = '\0';
    check_unigram(UNIGRAM("[\"<unk>\",0.0],[\"-\",-4.470136642456055],"
                          "[\"----------\",-13.870627403259277],"
                          "[\"▁-----------\",-13.880918502807617]"),
                  dashes,
                  "3:0-11 2:11-21 2:21-31 1:31-32 1:32-33 1:33-34 1:34-35 2:35-45 2:45-55 2:55-65 "
                  "2:65-75 2:75-85 2:85-95");
}

/* The quick way and the long one, which an exponent takes, give the same bits. */
TEST(scores_of_all_lengths)
{
    enum { WHOLE_MAX = 12, PLACES_MAX = 25, PAIRS = 2 * WHOLE_MAX * (PLACES_MAX + 1) };
    static const char digits[] = "90718253649081726354918273645";
    struct buf json = { .max = FILE_MAX_BYTES };
    struct tokenizer *t = NULL;
    struct err err = { 0 };

    buf_adds(&json, "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[");
    for (int i = 0; i < PAIRS; i++) {
        int whole = i / 2 % WHOLE_MAX + 1, places = i / 2 / WHOLE_MAX;

        for (int exponent = 0; exponent < 2; exponent++)
            buf_addf(&json, "[\"a%d%c\",%s%.*s%s%.*s%s],", i, 'x' + exponent, i % 2 ? "-" : "",
                     whole, digits + places % 2 * 3, places ? "." : "", places, digits + whole % 4,
                     exponent ? "e0" : "");
    }
    buf_adds(&json, "[\"z\",0]]}}");
    if (tokenizer_parse(json.data, json.len, "scores", NULL, &t, &err))
        fail_msg("%s", err.msg);
    for (uint32_t i = 0; i < PAIRS; i++) {
        const struct vocab_entry *a = vocab_get(&t->vocab, 2 * i);
        const struct vocab_entry *b = vocab_get(&t->vocab, 2 * i + 1);

        CHECK(a->score != 0 && (a->score < 0) == (i % 2 == 1));
        if (memcmp(&a->score, &b->score, sizeof(a->score)) != 0)
            fail_msg("%s: %.17g is not %.17g", a->text, a->score, b->score);
    }
    tokenizer_free(t);
    buf_release(&json);
}

TEST(vocabularies_written_differently)
{
    static const char want[] = "2:0-2 3:2-3 1:3-5", in[] = "abc d";

    check_unigram(UNIGRAM("[\"<unk>\",0],[\"▁d\",-2.5],[\"▁ab\",-1.5],[\"c\",-3]"), in, want);
    check_unigram(
        UNIGRAM(" [ \"<unk>\" , 0e5 ] ,\n[\"\\u2581d\",-25e-1],\t[\"▁\\u0061b\" ,-0.15E+1],"
                "[\"c\",-3.00000000000000000000000000]"),
        in, want);
    /* of equal pieces the last one counts */
    check_unigram(UNIGRAM("[\"<unk>\",0],[\"▁d\",-2.5],[\"▁ab\",-1.5],[\"c\",-3],[\"c\",-4]"), in,
                  "2:0-2 4:2-3 1:3-5");
}

TEST(vocabularies_that_lie)
{
    static const char *const rows[][2] = {
        { UNIGRAM("[\"<unk>\",0],[\"a\",01]"), "vocab[1]" },
        { UNIGRAM("[\"<unk>\",0],[\"a\",1.]"), "vocab[1]" },
        { UNIGRAM("[\"<unk>\",0],[\"a\",1e999]"), "vocab[1]" },
        { UNIGRAM("[\"<unk>\",0],[\"a\",-]"), "vocab[1]" },
        { UNIGRAM("[\"<unk>\",0],[\"\xe2\x82\",1]"), "vocab[1]" },
        { UNIGRAM("[\"<unk>\",0],[\"a\n\",1]"), "vocab[1]" },
        { UNIGRAM("[\"<unk>\",0],[\"a\",1],,[\"b\",1]"), "vocab[2]" },
        { UNIGRAM("[\"<unk>\",0],[\"a\",1,2]"), "vocab[1]" },
        { "{\"model\":{\"vocab\":[[\"a\",0]],\"vocab\":[[\"b\",0]]}}", "twice" },
        { "{\"model\":{\"vocab\":{},\"vocab\":{}}}", "twice" },
        { "{\"model\":{\"vocab\":{\"a\":1,\"b\":1}}}", "same id" },
        { "{\"model\":{\"vocab\":{\"a\":01,\"b\":1}}}", "" },
        { "{\"model\":{\"vocab\":{\"a\":1}", "" },
        { "{\"model\":{\"vocab\":[[\"a\",1]", "" },
        { "{\"model\":{\"vocab\":[[\"a", "" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct tokenizer *t = NULL;
        struct err err = { 0 };

        CHECK(tokenizer_parse(rows[i][0], strlen(rows[i][0]), "test", NULL, &t, &err) != RC_OK);
        if (!strstr(err.msg, rows[i][1]))
            fail_msg("row %zu: %s", i, err.msg);
    }
}

/* ---- truncation ---- */
/* Words of one token each. */
static const char one[] = "a a a a a a a", two[] = "b b b b";

TEST(truncate_longest_first)
{
    static const struct {
        size_t max, first, second; /* text tokens that stay of 7 and 4 */
    } rows[] = {
        { 3, 0, 0 },  { 4, 1, 0 },  { 5, 1, 1 },  { 6, 2, 1 },  { 7, 2, 2 },
        { 10, 4, 3 }, { 11, 4, 4 }, { 12, 5, 4 }, { 14, 7, 4 }, { 99, 7, 4 },
    };
    struct tokenizer *t = load("tests/fixtures/tokens-uncased.json");
    struct tok_scratch *s = tok_scratch_new();
    struct tok_text b = text(two);

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct tok_opts o = { .max_tokens = rows[i].max, .truncate = TOK_LONGEST_FIRST };
        size_t count[2] = { 0, 0 };
        struct tok_out r;

        for (int left = 0; left < 2; left++) {
            o.left = left;
            count[0] = count[1] = 0;
            assert_int_equal(tokenizer_encode(t, s, text(one), &b, &o, &r, NULL), RC_OK);
            for (size_t k = 0; k < r.count; k++)
                if (!r.special[k])
                    count[r.sequence[k]]++;
            assert_int_equal(count[0], rows[i].first);
            assert_int_equal(count[1], rows[i].second);
            assert_int_equal(r.untruncated, 14);
            CHECK(r.truncated == (rows[i].first + rows[i].second < 11));
            assert_int_equal(r.types[r.count - 1], 1);
            if (rows[i].first == 4)
                assert_int_equal(r.cut[0], left ? 6 : 7);
        }
    }
    tok_scratch_free(s);
    tokenizer_free(t);
}

TEST(truncate_one_side)
{
    struct tokenizer *t = load("tests/fixtures/tokens-uncased.json");
    struct tok_scratch *s = tok_scratch_new();
    struct tok_opts o = { .max_tokens = 12, .truncate = TOK_ONLY_SECOND };
    struct tok_text b = text(two);
    struct err err = { 0 };
    struct tok_out r;

    assert_int_equal(tokenizer_encode(t, s, text(one), &b, &o, &r, &err), RC_OK);
    assert_int_equal(r.count, 12);
    assert_int_equal(r.cut[0], 13);
    assert_int_equal(r.cut[1], 3);
    o.max_tokens = 10; /* the second text would be gone */
    assert_int_equal(tokenizer_encode(t, s, text(one), &b, &o, &r, &err), RC_LIMIT);
    o.truncate = TOK_ONLY_FIRST;
    assert_int_equal(tokenizer_encode(t, s, text(one), &b, &o, &r, NULL), RC_OK);
    assert_int_equal(r.count, 10);
    o.truncate = TOK_ONLY_SECOND;
    o.max_tokens = 4;
    assert_int_equal(tokenizer_encode(t, s, text(one), NULL, &o, &r, NULL), RC_USAGE);
    o.max_tokens = 2; /* no room for three */
    assert_int_equal(tokenizer_encode(t, s, text(one), &b, &o, &r, NULL), RC_LIMIT);
    o = (struct tok_opts){ .no_specials = true };
    assert_int_equal(tokenizer_encode(t, s, text(one), &b, &o, &r, NULL), RC_OK);
    assert_int_equal(r.count, 11);
    tok_scratch_free(s);
    tokenizer_free(t);
}

TEST(text_over_the_limit)
{
    struct tokenizer *t = load("tests/fixtures/tokens-uncased.json");
    struct tok_scratch *s = tok_scratch_new();
    struct tok_out r;

    assert_int_equal(tokenizer_encode(t, s, (struct tok_text){ "", (size_t)TOK_TEXT_MAX + 1 }, NULL,
                                      NULL, &r, NULL),
                     RC_LIMIT);
    tok_scratch_free(s);
    tokenizer_free(t);
}

/* Ten megabytes in one text, of each kind of path through the code. */
TEST(long_text)
{
    static const char *const units[] = { "word ",    "\xd1\x8f", "\xe4\xb8\xad",
                                         "\xcc\x81", "\xff",     "." };
    static const char *const models[] = { "tests/fixtures/tokens-uncased.json",
                                          "tests/fixtures/unigram-small.json" };
    size_t size = 1 << 20;
    char *big = xmalloc(size);
    struct tok_scratch *s = tok_scratch_new();
    struct tok_out r;

    for (size_t m = 0; m < ARRAY_SIZE(models); m++) {
        struct tokenizer *t = load(models[m]);

        for (size_t u = 0; u < ARRAY_SIZE(units); u++) {
            size_t n = strlen(units[u]), len = size / n * n;

            for (size_t i = 0; i < len; i += n)
                memcpy(big + i, units[u], n);
            assert_int_equal(
                tokenizer_encode(t, s, (struct tok_text){ big, len }, NULL, NULL, &r, NULL), RC_OK);
            for (size_t i = 0; i < r.count; i++)
                CHECK(r.offsets[i].begin <= r.offsets[i].end && r.offsets[i].end <= len);
        }
        tokenizer_free(t);
    }
    tok_scratch_free(s);
    free(big);
}

/* ---- questions, decoding ---- */
TEST(questions)
{
    struct tokenizer *t = load("tests/fixtures/tokens-uncased.json");
    uint32_t id = 99;

    assert_string_equal(tokenizer_kind(t), "WordPiece");
    assert_int_equal(tokenizer_vocab_size(t), 2500);
    assert_string_equal(tokenizer_token(t, 2), "[CLS]");
    assert_null(tokenizer_token(t, 2500));
    assert_null(tokenizer_token(t, UINT32_MAX));
    CHECK(tokenizer_id(t, "[SEP]", &id) && id == 3);
    CHECK(!tokenizer_id(t, "no such token", &id) && id == 3);
    assert_int_equal(tokenizer_specials(t, false), 2);
    assert_int_equal(tokenizer_specials(t, true), 3);
    tokenizer_free(t);
    t = load("tests/fixtures/tokens-mpnet.json");
    assert_int_equal(tokenizer_specials(t, true), 4);
    tokenizer_free(t);
    t = load("tests/fixtures/unigram-small.json");
    assert_string_equal(tokenizer_kind(t), "Unigram");
    CHECK(tokenizer_id(t, "</s>", &id) && id == 2);
    tokenizer_free(t);
}

static void decoded(const char *model, const char *in, bool skip, const char *want)
{
    struct tokenizer *t = load(model);
    struct tok_scratch *s = tok_scratch_new();
    struct buf out = { 0 };
    struct tok_out r;

    assert_int_equal(tokenizer_encode(t, s, text(in), NULL, NULL, &r, NULL), RC_OK);
    assert_int_equal(tokenizer_decode(t, r.ids, r.count, skip, &out, NULL), RC_OK);
    assert_string_equal(buf_str(&out), want);
    buf_release(&out);
    tok_scratch_free(s);
    tokenizer_free(t);
}

TEST(decoding)
{
    const char *uncased = "tests/fixtures/tokens-uncased.json";

    decoded(uncased, "Hello, world! It's a file .", true, "hello, world! it ' s a file.");
    decoded(uncased, "a [MASK]", false, "[CLS] a [MASK] [SEP]");
    decoded("tests/fixtures/unigram-small.json", "Hello  world", true, "Hello world");
}

/* ---- files that lie ---- */
#define FILE_OF(normalizer, pre, post, vocab, added)                                               \
    "{\"normalizer\":" normalizer ",\"pre_tokenizer\":" pre ",\"post_processor\":" post            \
    ",\"added_tokens\":" added ",\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"u\","           \
    "\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":9,\"vocab\":" vocab "}}"
#define VOCAB "{\"u\":0,\"a\":1}"

TEST(bad_files)
{
    static const struct {
        const char *json, *want; /* a part of the message */
    } rows[] = {
        { "", "line 1, column 1" },
        { "[]", "not an object" },
        { "{}", "'model' is missing" },
        { "{\"model\":{\"type\":\"BPE\"}}", "'model': type 'BPE' is not supported" },
        { "{\"model\":{\"type\":\"WordPiece\"}}", "unk_token" },
        { FILE_OF("null", "null", "null", "[]", "[]"), "'model.vocab' is not an object" },
        { FILE_OF("null", "null", "null", "{\"a\":1}", "[]"), "'model.unk_token': 'u'" },
        { FILE_OF("null", "null", "null", "{\"u\":0,\"a\":-1}", "[]"), "the id of 'a'" },
        { FILE_OF("null", "null", "null", "{\"u\":0,\"a\":99999999999}", "[]"), "the id of 'a'" },
        { FILE_OF("null", "null", "null", "{\"u\":0,\"a\":1.5}", "[]"), "the id of 'a'" },
        { FILE_OF("null", "null", "null", "{\"u\":0,\"a\":0}", "[]"), "'u' and 'a' have the same" },
        { FILE_OF("{\"type\":\"ByteLevel\"}", "null", "null", VOCAB, "[]"),
          "'normalizer': type 'ByteLevel'" },
        { FILE_OF("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"X\"}]}",
                  "null", "null", VOCAB, "[]"),
          "'normalizer.normalizers[1]': type 'X'" },
        { FILE_OF("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a|b\"},\"content\":\"\"}", "null",
                  "null", VOCAB, "[]"),
          "Regex 'a|b' is not supported" },
        { FILE_OF("{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}", "null",
                  "null", VOCAB, "[]"),
          "'normalizer.pattern' is empty" },
        { FILE_OF("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"?\"}", "null", "null",
                  VOCAB, "[]"),
          "'normalizer.precompiled_charsmap' is not base64" },
        { FILE_OF("null", "{\"type\":\"ByteLevel\"}", "null", VOCAB, "[]"),
          "'pre_tokenizer': type 'ByteLevel'" },
        { FILE_OF("null", "{\"type\":\"Metaspace\",\"replacement\":\"ab\"}", "null", VOCAB, "[]"),
          "'pre_tokenizer.replacement' is not one character" },
        { FILE_OF("null", "null", "{\"type\":\"ByteLevel\"}", VOCAB, "[]"),
          "'post_processor': type 'ByteLevel'" },
        { FILE_OF("null", "null",
                  "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"B\","
                  "\"type_id\":0}}],\"pair\":[]}",
                  VOCAB, "[]"),
          "'post_processor.single[0]' names a text" },
        { FILE_OF("null", "null",
                  "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\","
                  "\"type_id\":0}}],\"pair\":[],\"special_tokens\":{}}",
                  VOCAB, "[]"),
          "'post_processor.single[0]' is missing in special_tokens" },
        { FILE_OF("null", "null", "{\"type\":\"BertProcessing\",\"sep\":[\"x\",-2]}", VOCAB, "[]"),
          "'post_processor.cls'" },
        { FILE_OF("null", "null", "null", VOCAB, "[{\"content\":7}]"),
          "'added_tokens[0].content'" },
        { FILE_OF("null", "null", "null", VOCAB, "{}"), "'added_tokens' is not an array" },
        { "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\"]]}}", "vocab[0]" },
        { "{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",0]]}}", "unk_id" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct tokenizer *t = NULL;
        struct err err = { 0 };

        CHECK(tokenizer_parse(rows[i].json, strlen(rows[i].json), "x.json", NULL, &t, &err) !=
              RC_OK);
        assert_null(t);
        if (!strstr(err.msg, rows[i].want) || !strstr(err.msg, "'x.json'"))
            fail_msg("row %zu: '%s' lacks '%s'", i, err.msg, rows[i].want);
        CHECK(tokenizer_parse(rows[i].json, strlen(rows[i].json), "x.json", NULL, &t, NULL) !=
              RC_OK);
    }
}

TEST(missing_file)
{
    struct tokenizer *t = NULL;
    struct err err = { 0 };

    assert_int_equal(tokenizer_load("no/such/file", NULL, &t, &err), RC_NODEV);
    CHECK(tokenizer_load("tests", NULL, &t, NULL) != RC_OK);
}

/* The id an added token gets is the model's or the next one; what the file says counts for
 * nothing; an unknown decoder is an error only for who decodes. */
TEST(added_ids)
{
    static const char json[] =
        "{\"decoder\":{\"type\":\"BPEDecoder\"},\"added_tokens\":[{\"id\":7,\"content\":\"zz\"},"
        "{\"id\":9,\"content\":\"a\"},{\"id\":3,\"content\":\"\"},{\"id\":4,\"content\":\"yy\"}],"
        "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"u\","
        "\"continuing_subword_prefix\":\"##\","
        "\"max_input_chars_per_word\":9,\"vocab\":" VOCAB "}}";
    struct tok_scratch *s = tok_scratch_new();
    struct tokenizer *t = NULL;
    struct err err = { 0 };
    struct buf out = { 0 };
    struct tok_out r;

    assert_int_equal(tokenizer_parse(json, strlen(json), "x", NULL, &t, NULL), RC_OK);
    assert_int_equal(tokenizer_vocab_size(t), 4);
    assert_int_equal(tokenizer_encode(t, s, text("yyazz q"), NULL, NULL, &r, NULL), RC_OK);
    assert_int_equal(r.count, 4);
    assert_int_equal(r.ids[0], 3);
    assert_int_equal(r.ids[1], 1);
    assert_int_equal(r.ids[2], 2);
    assert_int_equal(r.ids[3], 0);
    assert_int_equal(tokenizer_decode(t, r.ids, 1, true, &out, &err), RC_USAGE);
    CHECK(strstr(err.msg, "'BPEDecoder'"));
    buf_release(&out);
    tok_scratch_free(s);
    tokenizer_free(t);
}

/* ---- stopping early ---- */
/* Lines of a fixture at random, joined in odd ways. */
static struct tok_text random_text(FILE *f, const char *const *joins, size_t lines, struct buf *out)
{
    static char line[LINE_MAX_BYTES], in[LINE_MAX_BYTES];

    buf_reset(out);
    while (lines--) {
        for (int skip = rand() % 9; skip >= 0; skip--)
            if (!fgets(line, sizeof(line), f))
                rewind(f);
        line[strcspn(line, "\t")] = '\0';
        buf_add(out, in, unescape(line, strlen(line), in));
        buf_adds(out, joins[rand() % 5]);
    }
    return (struct tok_text){ buf_str(out), out->len };
}

static void same_answer(const struct tokenizer *t, struct tok_scratch *s, struct tok_text a,
                        const struct tok_text *b, struct tok_opts o)
{
    struct buf want = { 0 }, got = { 0 };
    uint32_t cut[2];
    struct tok_out r;
    bool truncated;
    enum rc rc = tokenizer_encode(t, s, a, b, &o, &r, NULL);

    if (rc == RC_OK) {
        written(&r, &want);
        buf_add(&want, (const char *)r.types, r.count);
        memcpy(cut, r.cut, sizeof(cut));
        truncated = r.truncated;
    }
    o.stop_early = true;
    assert_int_equal(tokenizer_encode(t, s, a, b, &o, &r, NULL), rc);
    if (rc == RC_OK) {
        written(&r, &got);
        buf_add(&got, (const char *)r.types, r.count);
        assert_int_equal(got.len, want.len);
        assert_memory_equal(got.data, want.data, want.len);
        assert_memory_equal(cut, r.cut, sizeof(cut));
        assert_int_equal(truncated, r.truncated);
    }
    buf_release(&want);
    buf_release(&got);
}

/* Ids, offsets and cuts do not tell whether the rest was read. */
TEST(stopping_early_changes_nothing)
{
    static const char *const files[][2] = {
        { "tests/fixtures/tokens-uncased.json", "tests/fixtures/tokens-uncased.tsv" },
        { "tests/fixtures/tokens-cased.json", "tests/fixtures/tokens-cased.tsv" },
        { "tests/fixtures/tokens-mpnet.json", "tests/fixtures/tokens-mpnet.tsv" },
        { "tests/fixtures/unigram-small.json", "tests/fixtures/tokens-xlmr.tsv" },
    };
    static const char *const joins[] = { " ", "", "\n", "  ", " [MASK] " };

    srand(7);
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        struct tokenizer *t = load(files[i][0]);
        struct tok_scratch *s = tok_scratch_new();
        FILE *f = fopen(files[i][1], "r");
        struct buf first = { 0 }, second = { 0 };

        assert_non_null(f);
        for (int round = 0; round < 300; round++) {
            struct tok_text a = random_text(f, joins, (size_t)(rand() % 60), &first);
            struct tok_text b = random_text(f, joins, (size_t)(rand() % 60), &second);
            struct tok_opts o = { .max_tokens = (size_t)(rand() % 70),
                                  .truncate = (enum tok_truncate)(rand() % 4),
                                  .left = rand() % 4 == 0,
                                  .no_specials = rand() % 4 == 0 };

            same_answer(t, s, a, rand() % 2 ? &b : NULL, o);
        }
        fclose(f);
        buf_release(&first);
        buf_release(&second);
        tok_scratch_free(s);
        tokenizer_free(t);
    }
}

/* A megabyte costs no more than a page where few tokens are wanted. */
TEST(stopping_early_stops)
{
    static const char *const files[] = { "tests/fixtures/tokens-uncased.json",
                                         "tests/fixtures/tokens-mpnet.json",
                                         "tests/fixtures/unigram-small.json" };
    static const char *const units[] = { "hello world ", "h\xc3\xa9llo w\xc3\xb6rld ",
                                         "x<mask>y [SEP] ", "!!!! " };

    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        struct tokenizer *t = load(files[i]);
        struct tok_scratch *s = tok_scratch_new();

        for (size_t k = 0; k < ARRAY_SIZE(units); k++) {
            struct tok_opts o = { .max_tokens = 100, .truncate = TOK_LONGEST_FIRST };
            struct buf b = { 0 };
            struct tok_out r;

            while (b.len < 1 << 20)
                buf_adds(&b, units[k]);
            for (o.stop_early = false;; o.stop_early = true) {
                struct tok_text a = { b.data, b.len };

                assert_int_equal(tokenizer_encode(t, s, a, NULL, &o, &r, NULL), RC_OK);
                assert_int_equal(r.count, 100);
                CHECK(r.truncated && (r.untruncated < 2000) == o.stop_early);
                if (o.stop_early)
                    break;
            }
            buf_release(&b);
        }
        tok_scratch_free(s);
        tokenizer_free(t);
    }
}

TEST_MAIN(cmocka_unit_test(reference_answers), cmocka_unit_test(one_tokenizer_many_threads),
          cmocka_unit_test(scores_as_the_reference_reads_them),
          cmocka_unit_test(scores_of_all_lengths),
          cmocka_unit_test(vocabularies_written_differently),
          cmocka_unit_test(vocabularies_that_lie), cmocka_unit_test(truncate_longest_first),
          cmocka_unit_test(truncate_one_side), cmocka_unit_test(stopping_early_changes_nothing),
          cmocka_unit_test(stopping_early_stops), cmocka_unit_test(text_over_the_limit),
          cmocka_unit_test(long_text), cmocka_unit_test(questions), cmocka_unit_test(decoding),
          cmocka_unit_test(bad_files), cmocka_unit_test(missing_file), cmocka_unit_test(added_ids))
