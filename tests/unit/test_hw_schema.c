/* SPDX-License-Identifier: MIT */
/* hw_schema: every byte of every struct has a row, and what is written reads back. */
#include "test.h"

#include "base/mem.h"
#include "base/str.h"
#include "hw/hw_int.h"

#include <string.h>

/* ---- every byte of a struct belongs to exactly one row ---- */
static size_t field_size(const struct field *f)
{
    switch (f->kind) {
    case FIELD_STR:
        return sizeof(char *);
    case FIELD_INT:
    case FIELD_BOOL:
        return sizeof(struct maybe);
    case FIELD_STRUCT:
        return f->sub->size;
    default:
        return sizeof(void *);
    }
}

static void cover(unsigned char *bytes, size_t off, size_t len, const char *key)
{
    for (size_t i = off; i < off + len; i++) {
        if (bytes[i])
            print_error("byte %zu is described twice, the second time by '%s'\n", i, key);
        assert_int_equal(bytes[i], 0);
        bytes[i] = 1;
    }
}

static void check_table(const struct field_table *t, size_t skipped)
{
    unsigned char *bytes = xcalloc(1, t->size);
    size_t bare = 0;

    for (size_t i = 0; i < t->count; i++) {
        const struct field *f = &t->rows[i];

        assert_non_null(f->doc);
        cover(bytes, f->off, field_size(f), f->key);
        if (f->kind == FIELD_STRS || f->kind == FIELD_INTS || f->kind == FIELD_ARRAY)
            cover(bytes, f->count_off, sizeof(size_t), f->key);
        if (f->sub)
            check_table(f->sub, 0);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(f->key, t->rows[k].key);
    }
    for (size_t i = 0; i < t->size; i++)
        bare += !bytes[i];
    if (bare != skipped)
        print_error("table '%s' leaves %zu bytes out\n", t->name, bare);
    assert_int_equal(bare, skipped);
    free(bytes);
}

TEST(every_byte_has_a_row)
{
    check_table(&hw_table, sizeof(struct arena));
    check_table(&hw_self_table, 0);
    check_table(&hw_nvml_table, 0);
}

/* ---- a struct with every field set to something of its own ---- */

/* Figures that hw_range_check() holds against what a machine can have. */
static bool has_range(const char *key)
{
    static const char *const keys[] = { "sockets",         "cores",
                                        "threads",         "total_bytes",
                                        "mem_total_bytes", "power_limit_mw",
                                        "rate_mbps",       "mtu" };

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (str_eq(keys[i], key))
            return true;
    return false;
}

static void fill(struct arena *a, const struct field_table *t, void *obj, int *next);

static void *fill_list(struct arena *a, const struct field *f, size_t count, int *next)
{
    struct maybe *ints;
    const char **strs;
    char *items;

    if (f->kind == FIELD_STRS) {
        strs = arena_array(a, const char *, count);
        for (size_t i = 0; i < count; i++)
            strs[i] = arena_printf(a, "text %d", (*next)++);
        return strs;
    }
    if (f->kind == FIELD_INTS) {
        ints = arena_array(a, struct maybe, count);
        for (size_t i = 0; i < count; i++)
            ints[i] = maybe_of((*next)++);
        return ints;
    }
    items = arena_array_bytes(a, count, f->sub->size);
    for (size_t i = 0; i < count; i++)
        fill(a, f->sub, items + i * f->sub->size, next);
    return items;
}

static void fill(struct arena *a, const struct field_table *t, void *obj, int *next)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct field *f = &t->rows[i];
        char *p = (char *)obj + f->off;

        switch (f->kind) {
        case FIELD_STR:
            *(const char **)p = arena_printf(a, "%s \"é\\\" %d", f->key, (*next)++);
            break;
        case FIELD_INT:
            *(struct maybe *)p = maybe_of(has_range(f->key) ? 1 + *next : INT64_MAX - *next);
            ++*next;
            break;
        case FIELD_BOOL:
            *(struct maybe *)p = maybe_of((*next)++ % 2);
            break;
        case FIELD_STRUCT:
            fill(a, f->sub, p, next);
            break;
        default:
            *(void **)p = fill_list(a, f, 2, next);
            *(size_t *)((char *)obj + f->count_off) = 2;
        }
    }
}

static struct hw *round_trip(const struct hw *hw, struct buf *once)
{
    struct buf twice = { 0 };
    struct err err = { 0 };
    struct hw *back = NULL;

    hw_write_json(hw, once);
    assert_false(once->over);
    if (hw_read_json(once->data, once->len, &back, &err))
        print_error("%s\n", err.msg);
    assert_non_null(back);
    hw_write_json(back, &twice);
    assert_string_equal(once->data, twice.data);
    buf_release(&twice);
    return back;
}

TEST(a_full_inventory_survives)
{
    struct hw *hw = xcalloc(1, sizeof(*hw)), *back;
    AUTO(buf_release) struct buf text = { 0 };
    int next = 1;

    fill(&hw->arena, &hw_table, hw, &next);
    assert_true(next > 500);
    back = round_trip(hw, &text);
    assert_null(strstr(text.data, "null"));
    assert_string_equal(back->gpus[1].nvlinks[1].remote_bdf, hw->gpus[1].nvlinks[1].remote_bdf);
    assert_int_equal(back->numa[1].distances[1].v, hw->numa[1].distances[1].v);
    assert_non_null(strstr(text.data, "\"class\":"));
    hw_free(hw);
    hw_free(back);
}

TEST(an_empty_inventory_is_all_unknown)
{
    struct hw *hw = xcalloc(1, sizeof(*hw)), *back;
    AUTO(buf_release) struct buf text = { 0 };

    back = round_trip(hw, &text);
    assert_true(str_starts(text.data, "{\n  \"schema\": \"stoker.inventory/1\",\n"));
    assert_false(back->captured.known);
    assert_null(back->place.hostname);
    assert_false(back->limits.memlock_bytes.known);
    assert_int_equal(back->gpus_count, 0);
    hw_free(hw);
    hw_free(back);
}

static void refused(const char *text, enum rc rc, const char *why)
{
    struct err err = { 0 };
    struct hw *hw = NULL;

    assert_int_equal(hw_read_json(text, strlen(text), &hw, &err), rc);
    assert_null(hw);
    if (!strstr(err.msg, why))
        print_error("message is: %s\n", err.msg);
    assert_non_null(strstr(err.msg, why));
}

TEST(other_documents_are_refused)
{
    refused("", RC_PARSE, "line 1");
    refused("[]", RC_PARSE, "JSON object");
    refused("{}", RC_PARSE, "no \"schema\" member");
    refused("{\"schema\": 1}", RC_PARSE, "no \"schema\" member");
    refused("{\"schema\": \"stoker.nvml/1\"}", RC_PARSE, "schema is 'stoker.nvml/1'");
    refused("{\"schema\": \"stoker.inventory/1\", \"gpus\": [{\"name\": 3}]}", RC_PARSE,
            "gpus[0]: member 'name'");
}

TEST(terminal_escapes_do_not_pass)
{
    static const char text[] = "{\"schema\": \"stoker.inventory/1\", \"place\": {\"hostname\": "
                               "\"a\\u001b]0;b\"}, \"cpu\": {\"flags\": [\"\\u0007\"]}, "
                               "\"gpus\": [{\"name\": \"\\u007f\"}]}";
    struct hw *hw = NULL;

    assert_int_equal(hw_read_json(text, strlen(text), &hw, NULL), RC_OK);
    assert_string_equal(hw->place.hostname, "a?]0;b");
    assert_string_equal(hw->cpu.flags[0], "?");
    assert_string_equal(hw->gpus[0].name, "?");
    hw_free(hw);
}

TEST(look_ups)
{
    struct hw_soft soft[] = { { .name = "nccl" }, { .name = "nccl", .version = "2.27.3" } };
    struct hw_env env[] = { { .name = "NCCL_DEBUG", .value = "" } };
    struct hw_net nets[] = { { .name = "eth0" } };
    struct hw hw = { .software = soft, .software_count = 2, .nets = nets, .nets_count = 1 };

    hw.place.env = env;
    hw.place.env_count = 1;
    assert_string_equal(hw_soft_version(&hw, "nccl"), "2.27.3");
    assert_null(hw_soft_version(&hw, "cudnn"));
    assert_string_equal(hw_env_get(&hw, "NCCL_DEBUG"), "");
    assert_null(hw_env_get(&hw, "NCCL"));
    assert_ptr_equal(hw_find_net(&hw, "eth0"), &nets[0]);
    assert_null(hw_find_net(&hw, NULL));
    assert_null(hw_find_pci(&hw, "0000:00:00.0"));
    assert_null(hw_find_rdma(&hw, "mlx5_0"));
}

TEST_MAIN(cmocka_unit_test(every_byte_has_a_row), cmocka_unit_test(a_full_inventory_survives),
          cmocka_unit_test(an_empty_inventory_is_all_unknown),
          cmocka_unit_test(other_documents_are_refused),
          cmocka_unit_test(terminal_escapes_do_not_pass), cmocka_unit_test(look_ups))
