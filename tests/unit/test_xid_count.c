/* SPDX-License-Identifier: MIT */
/* XIDs that the driver and the kernel's log both tell are counted once, whoever comes first. */
#include "test.h"

#include "telemetry/kmsg/kmsg.h"

#include <string.h>

AUTO_OF(xid_counts_free, xid_counts);

#define S INT64_C(1000000000)
#define T (INT64_C(1794744800) * S)

enum { DRIVER, LOG };

static double total(struct xid_counts *x, int gpu, int code)
{
    const struct xid_count *c;

    for (size_t i = 0; (c = xid_counts_get(x, i, T)); i++)
        if (c->gpu == gpu && c->code == code)
            return c->total;
    return 0;
}

TEST(either_order_and_one_side_alone)
{
    static const struct {
        int first, second; /* -1: none */
        double seconds;
        double want;
    } rows[] = {
        { DRIVER, LOG, 0, 1 },    { LOG, DRIVER, 0, 1 },  { DRIVER, LOG, 9, 1 },
        { LOG, DRIVER, 9, 1 },    { LOG, DRIVER, -3, 1 }, /* its clock is behind */
        { DRIVER, LOG, 11, 2 },   { LOG, DRIVER, 11, 2 }, /* another one */
        { DRIVER, DRIVER, 0, 2 }, { LOG, LOG, 1, 2 },     { DRIVER, -1, 0, 1 },
        { LOG, -1, 0, 1 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct xid_counts *x = xid_counts_new();
        int64_t then = T + (int64_t)(rows[i].seconds * 1e9);

        CHECK(xid_counts_take(x, 2, "", 79, rows[i].first == LOG, T));
        if (rows[i].second >= 0)
            CHECK(xid_counts_take(x, 2, "", 79, rows[i].second == LOG, then) == (rows[i].want > 1));
        if (total(x, 2, 79) != rows[i].want)
            fail_msg("row %zu: %.0f", i, total(x, 2, 79));
        xid_counts_free(x);
    }
}

TEST(reports_are_paired_one_by_one)
{
    AUTO(xid_counts_free_at) struct xid_counts *x = xid_counts_new();

    for (int i = 0; i < 3; i++)
        CHECK(xid_counts_take(x, 0, "", 31, false, T + i));
    for (int i = 0; i < 2; i++)
        CHECK(!xid_counts_take(x, 0, "", 31, true, T + S + i));
    CHECK(total(x, 0, 31) == 3);
    CHECK(!xid_counts_take(x, 0, "", 31, true, T + 2 * S)); /* the third's twin */
    CHECK(xid_counts_take(x, 0, "", 31, true, T + 2 * S));  /* a fourth one */
    CHECK(total(x, 0, 31) == 4);
}

TEST(others_are_others)
{
    AUTO(xid_counts_free_at) struct xid_counts *x = xid_counts_new();

    CHECK(xid_counts_take(x, 0, "", 31, false, T));
    CHECK(xid_counts_take(x, 1, "", 31, true, T));
    CHECK(xid_counts_take(x, 0, "", 13, true, T));
    CHECK(xid_counts_take(x, -1, "0000:0a:00", 79, true, T)); /* no GPU known at this address */
    CHECK(xid_counts_take(x, -1, "0000:0b:00", 79, true, T));
    CHECK(total(x, 0, 31) == 1 && total(x, 1, 31) == 1 && total(x, 0, 13) == 1);
    CHECK(xid_counts_get(x, 4, T) && !xid_counts_get(x, 5, T));
}

TEST(the_window_forgets_and_the_total_does_not)
{
    AUTO(xid_counts_free_at) struct xid_counts *x = xid_counts_new();

    for (int i = 0; i < 5; i++)
        CHECK(xid_counts_take(x, 0, "", 31, false, T + i * 60 * S));
    CHECK(xid_counts_get(x, 0, T + 240 * S)->window == 5);
    CHECK(xid_counts_get(x, 0, T + 380 * S)->window == 3);
    CHECK(xid_counts_get(x, 0, T + 3600 * S)->window == 0);
    CHECK(xid_counts_get(x, 0, T)->window == 0); /* a clock that is set back brings none back */
    CHECK(xid_counts_get(x, 0, T)->total == 5);
}

TEST(a_flood_has_limits)
{
    AUTO(xid_counts_free_at) struct xid_counts *x = xid_counts_new();
    size_t n = 0;

    for (int i = 0; i < 5000; i++)
        CHECK(xid_counts_take(x, i % 8, "", i, false, T));
    for (int i = 0; i < 5000; i++)
        CHECK(xid_counts_take(x, 0, "", 0, false, T + i));
    while (xid_counts_get(x, n, T))
        n++;
    CHECK(n == 1024);
    CHECK(total(x, 0, 0) == 5001);
}

TEST_MAIN(cmocka_unit_test(either_order_and_one_side_alone),
          cmocka_unit_test(reports_are_paired_one_by_one), cmocka_unit_test(others_are_others),
          cmocka_unit_test(the_window_forgets_and_the_total_does_not),
          cmocka_unit_test(a_flood_has_limits))
