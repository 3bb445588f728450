/* SPDX-License-Identifier: MIT */
/* Silences: numbers and times that cannot be, a list that is full of those that are over, and a
 * file that anybody may have written. */
#include "test.h"

#include "agent/agent_int.h"
#include "base/str.h"
#include "base/text/json.h"

#include <stdlib.h>
#include <unistd.h>

static enum rc add(struct silences *x, const char *text, uint64_t *id)
{
    return silences_add(x, text, strlen(text), id, NULL);
}

static size_t listed(struct silences *x)
{
    struct arena a = { 0 };
    struct buf b = { 0 };
    struct json_out w;
    struct json *d;
    size_t n = 0;

    json_out_init(&w, &b, 0);
    silences_list(x, &w);
    assert_int_equal(json_parse(&a, buf_str(&b), b.len, &d, NULL), RC_OK);
    for (const struct json *s = d->first; s; s = s->next)
        n++;
    arena_release(&a);
    buf_release(&b);
    return n;
}

TEST(what_is_refused)
{
    static const char *const bad[] = {
        "",
        "{",
        "{}",
        "[]",
        "{\"alert\":\"\",\"for\":\"1h\"}",
        "{\"alert\":\"x\"}",
        "{\"alert\":\"x\",\"for\":\"400d\"}",
        "{\"alert\":\"x\",\"for\":\"soon\"}",
        "{\"alert\":\"x\",\"until_ms\":9223372036854775807}",
        "{\"alert\":\"x\",\"until_ms\":-9223372036854775807}",
        "{\"alert\":\"x\",\"until_ms\":1}", /* it is over already */
        "{\"alert\":\"x\",\"for\":\"1h\",\"from_ms\":9223372036854775807}",
        "{\"alert\":\"x\",\"for\":\"1h\",\"labels\":{\"a\":1}}",
        ("{\"alert\":\"x\",\"for\":\"1h\","
         "\"labels\":{\"a\":\"1\",\"b\":\"1\",\"c\":\"1\",\"d\":\"1\",\"e\":\"1\"}}"),
    };
    struct silences *x = silences_new(NULL);
    uint64_t id;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        if (add(x, bad[i], &id) == RC_OK)
            fail_msg("taken: %s", bad[i]);
    CHECK(listed(x) == 0);
    CHECK(!add(x, "{\"alert\":\"x\",\"for\":\"1h\",\"labels\":{\"gpu\":\"3\"}}", &id) && id == 1);
    CHECK(listed(x) == 1);
    silences_free(x);
}

/* A thousand, each over at once: the list never stays full. */
TEST(those_that_are_over_make_room)
{
    struct silences *x = silences_new(NULL);
    uint64_t id;

    for (int i = 0; i < 1000; i++) {
        CHECK(!add(x, "{\"alert\":\"x\",\"for\":\"1ms\"}", &id));
        CHECK(id == (uint64_t)i + 1);
        usleep(2000);
    }
    silences_free(x);
    x = silences_new(NULL);
    for (int i = 0; i < 1000; i++)
        if (add(x, "{\"alert\":\"x\",\"for\":\"1h\"}", &id) == RC_LIMIT)
            break;
    CHECK(listed(x) == 256);
    silences_free(x);
}

TEST(a_file_of_anybody)
{
    static const char text[] =
        "{\"id\":-1,\"alert\":\"x\",\"until_ms\":9000000000000}\n"
        "{\"id\":9223372036854775807,\"alert\":\"x\",\"until_ms\":9000000000000}\n"
        "{\"id\":7,\"alert\":\"x\",\"until_ms\":9223372036854775807}\n"
        "{\"id\":8,\"alert\":\"x\",\"from_ms\":-9223372036854775808,\"until_ms\":9000000000000}\n"
        "garbage\n\n"
        "{\"id\":9,\"alert\":\"good\",\"until_ms\":9000000000000}\n"
        "{\"id\":9,\"alert\":\"again\",\"until_ms\":9000000000000}\n"
        "{\"id\":10,\"alert\":\"cut";
    struct silences *x = silences_new(NULL);
    uint64_t id;

    silences_take(x, text, strlen(text));
    CHECK(listed(x) == 1);
    CHECK(!add(x, "{\"alert\":\"y\",\"for\":\"1h\"}", &id) && id == 10);
    silences_free(x);
}

/* What cannot be kept is not said to be: the disk has no room. */
TEST(one_that_cannot_be_kept)
{
    struct silences *x = silences_new("/proc/self/no-such-folder/history.ring");
    uint64_t id = 0;

    CHECK(add(x, "{\"alert\":\"y\",\"for\":\"1h\"}", &id) != RC_OK && listed(x) == 0);
    silences_free(x);
}

TEST_MAIN(cmocka_unit_test(what_is_refused), cmocka_unit_test(those_that_are_over_make_room),
          cmocka_unit_test(a_file_of_anybody), cmocka_unit_test(one_that_cannot_be_kept))
