/* SPDX-License-Identifier: MIT */
/* Pickles: tensors come through; everything else is refused with opcode and place. */
#include "test.h"

#include "base/buf.h"
#include "model/weights/pickle_int.h"

#include <string.h>

/* {"w": tensor} with storage "0" of `count` floats: what torch.save() writes, by hand.
 * `shape` and `stride` are opcodes for two tuples. */
static void build(struct buf *b, const char *global, int count, const char *shape,
                  const char *stride)
{
    buf_add(b, "\x80\x02}X\x01\0\0\0w", 9);
    buf_adds(b, "ctorch._utils\n_rebuild_tensor_v2\n((X");
    buf_add(b, "\x07\0\0\0storage", 11);
    buf_adds(b, global);
    buf_add(b,
            "X\x01\0\0\0"
            "0",
            6);
    buf_add(b,
            "X\x03\0\0\0"
            "cpu",
            8);
    buf_addc(b, 'K');
    buf_addc(b, (char)count);
    buf_adds(b, "tQ");
    buf_add(b, "K\0", 2);
    buf_adds(b, shape);
    buf_adds(b, stride);
    buf_adds(b, "\x89"
                "ccollections\nOrderedDict\n)RtRs.");
}

static enum rc parse(const struct buf *b, struct pickle *p, struct err *err)
{
    *err = (struct err){ 0 };
    return pickle_parse((const uint8_t *)buf_str(b), b->len, p, err);
}

TEST(tensor_comes_through)
{
    struct buf b = { 0 };
    struct pickle p;
    struct err err;

    build(&b, "ctorch\nFloatStorage\n", 6, "K\x02K\x03\x86", "K\x03K\x01\x86");
    assert_int_equal(parse(&b, &p, &err), RC_OK);
    assert_int_equal(p.count, 1);
    assert_string_equal(p.tensors[0].name, "w");
    assert_string_equal(p.tensors[0].storage, "0");
    assert_int_equal(p.tensors[0].dtype, ST_F32);
    assert_int_equal(p.tensors[0].ndim, 2);
    assert_int_equal(p.tensors[0].dims[1], 3);
    assert_int_equal(p.tensors[0].count, 6);
    pickle_release(&p);
    for (size_t cut = 0; cut < b.len; cut++) { /* every cut is an error */
        struct buf part = { 0 };

        buf_add(&part, b.data, cut);
        assert_int_not_equal(parse(&part, &p, &err), RC_OK);
        buf_release(&part);
    }
    buf_release(&b);
}

static void refused(const char *global, int count, const char *shape, const char *stride,
                    const char *why)
{
    struct buf b = { 0 };
    struct pickle p;
    struct err err;

    build(&b, global, count, shape, stride);
    assert_int_equal(parse(&b, &p, &err), RC_PARSE);
    if (!strstr(err.msg, why) || !strstr(err.msg, "at byte"))
        fail_msg("'%s' does not say '%s'", err.msg, why);
    buf_release(&b);
}

TEST(tensors_refused)
{
    static const char f[] = "ctorch\nFloatStorage\n";

    refused(f, 5, "K\x02K\x03\x86", "K\x03K\x01\x86", "beyond its storage");
    refused(f, 5, "K\x03K\x02\x86", "K\x01K\x03\x86", "beyond its storage");
    refused(f, 6, "K\x02\x85", "K\x06\x85", "beyond its storage");
    refused(f, 6, "K\x02\x85", "J\xff\xff\xff\xff\x85", "whole numbers");
    refused(f, 6, "K\x02\x85", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85",
            "beyond its storage");
    refused(f, 6, "K\x03\x85", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85",
            "larger than any file");
    refused(f, 6, "J\xff\xff\xff\x7fJ\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x87", "K\x01K\x01K\x01\x87",
            "larger than any file");
    refused(f, 6, "K\x02K\x03\x86", "K\x01\x85", "without shape");
    refused(f, 6, "J\xff\xff\xff\xff\x85", "K\x01\x85", "whole numbers");
    refused(f, 6, "J\x01\x01\x01\x7fJ\x01\x01\x01\x7fJ\x01\x01\x01\x7f\x87", "K\x01K\x01K\x01\x87",
            "larger than any file");
    refused("ctorch\nQInt8Storage\n", 6, "K\x06\x85", "K\x01\x85", "'torch.QInt8Storage'");
    refused("cos\nsystem\n", 6, "K\x06\x85", "K\x01\x85", "'os.system'");
    refused("K\x01", 6, "K\x06\x85", "K\x01\x85", "other than a storage");
}

TEST(programs_refused)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *why;
    } cases[] = {
        { "\x80\x02"
          "cposix\nsystem\n(X\x04\0\0\0true"
          "tR.",
          29, "posix.system" },
        { "\x80\x06}.", 4, "protocol 6" },
        { "\x80\x01}.", 4, "protocol 1" },
        { "\x80\x04\x8c\x05posix\x8c\x06system\x93.", 19, "posix.system" },
        { "\x80\x04NN\x93.", 6, "no text" },
        { "\x80\x04\x94.", 4, "nothing to remember" },
        { "\x80\x04\x95\x01\0\0\0\0\0\0\0", 11, "ends before it stops" },
        { "\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff", 11, "ends too early" },
        { "\x80\x02i", 3, "opcode 0x69 at byte 2" },
        { "\x80\x02o", 3, "opcode 0x6f at byte 2" },
        { "\x80\x02\x81", 3, "opcode 0x81 at byte 2" },
        { "\x80\x02\x92", 3, "opcode 0x92 at byte 2" },
        { "\x80\x02R", 3, "the stack is empty" },
        { "\x80\x02.", 3, "the stack is empty" },
        { "\x80\x02(.", 4, "the stack is empty" },
        { "\x80\x02t", 3, "no mark" },
        { "\x80\x02h\x05", 4, "nothing was remembered" },
        { "\x80\x02q\x05", 4, "nothing to remember" },
        { "\x80\x02}(K\x01u.", 8, "a key without a value" },
        { "\x80\x02K\x01K\x02K\x03s.", 10, "cannot take it" },
        { "\x80\x02]K\x01"
          "a.",
          7, "other than a dictionary" },
        { "\x80\x02}.", 4, "no tensor" },
        { "\x80\x02}X\x01\0\0\0aK\x01s.", 13, "'a' is not a tensor" },
        { "\x80\x02}K\x01K\x01s.", 9, "without a name" },
        { "\x80\x02X\xff\xff\xff\xff", 7, "ends too early" },
        { "\x80\x02N", 3, "ends before it stops" },
        { "\x80\x02\x8a\x09", 4, "ends too early" },
        { "\x80\x02"
          "cos",
          5, "without an end" },
        { "\x80\x02NNb.", 6, "other than a dictionary" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = { 0 };
        struct pickle p;

        assert_int_equal(pickle_parse((const uint8_t *)cases[i].bytes, cases[i].len, &p, &err),
                         RC_PARSE);
        if (!strstr(err.msg, cases[i].why))
            fail_msg("case %zu: '%s' does not say '%s'", i, err.msg, cases[i].why);
    }
}

TEST(views_keep_their_strides)
{
    struct buf b = { 0 };
    struct pickle p;
    struct err err;

    build(&b, "ctorch\nFloatStorage\n", 6, "K\x03K\x02\x86", "K\x01K\x03\x86");
    assert_int_equal(parse(&b, &p, &err), RC_OK);
    assert_false(p.tensors[0].in_one_piece);
    assert_int_equal(p.tensors[0].strides[0], 1);
    assert_int_equal(p.tensors[0].strides[1], 3);
    assert_int_equal(p.tensors[0].span, 6);
    assert_int_equal(p.storages_count, 1);
    pickle_release(&p);
    buf_release(&b);
}

/* An old file: mark, version, system, dictionary, keys. */
TEST(old_files)
{
    static const char head[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
                               "\x80\x02M\xe9\x03.";
    static const char little[] = "\x80\x02}X\x0d\0\0\0little_endian\x88s.";
    static const char keys[] = "\x80\x02]X\x01\0\0\0"
                               "0a.";
    struct buf b = { 0 };
    struct pickle p;
    struct err err = { 0 };
    size_t end = 0;

    buf_add(&b, head, sizeof(head) - 1);
    buf_add(&b, little, sizeof(little) - 1);
    build(&b, "ctorch\nFloatStorage\n", 6, "K\x02K\x03\x86", "K\x03K\x01\x86");
    buf_add(&b, keys, sizeof(keys) - 1);
    buf_adds(&b, "what follows");
    assert_int_equal(pickle_parse_old((const uint8_t *)b.data, b.len, &p, &end, &err), RC_OK);
    assert_int_equal(end, b.len - strlen("what follows"));
    assert_int_equal(p.storages_count, 1);
    assert_string_equal(p.storages[0].key, "0");
    assert_int_equal(p.storages[0].count, 6);
    pickle_release(&p);
    for (size_t cut = 0; cut < end; cut++)
        assert_int_not_equal(pickle_parse_old((const uint8_t *)b.data, cut, &p, &end, NULL), RC_OK);
    ((char *)b.data)[6] ^= 1; /* the mark */
    assert_int_equal(pickle_parse_old((const uint8_t *)b.data, b.len, &p, &end, &err), RC_PARSE);
    assert_non_null(strstr(err.msg, "the mark"));
    buf_release(&b);
}

TEST(limits_hold)
{
    struct buf b = { 0 };
    struct pickle p;
    struct err err;

    buf_adds(&b, "\x80\x02");
    buf_fill(&b, 'N', PICKLE_STACK_MAX + 1);
    assert_int_equal(parse(&b, &p, &err), RC_LIMIT);
    buf_reset(&b);
    buf_add(&b, "\x80\x02Nr\xff\xff\xff\x7f", 8);
    assert_int_equal(parse(&b, &p, &err), RC_LIMIT);
    buf_release(&b);
}

TEST_MAIN(cmocka_unit_test(tensor_comes_through), cmocka_unit_test(tensors_refused),
          cmocka_unit_test(programs_refused), cmocka_unit_test(views_keep_their_strides),
          cmocka_unit_test(old_files), cmocka_unit_test(limits_hold))
