/* SPDX-License-Identifier: MIT */
/* test: what every unit test includes.  cmocka needs four headers in this order;
 * TEST_MAIN() runs the list as TAP for prove. */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/attr.h"

#define TEST(name) static void name(void **state __attribute__((unused)))
/* prove keeps what a test prints to itself: why one failed goes to standard error, too */
#define CHECK(cond)                                                                                \
    _assert_true((cond) ? 1 : check_failed(#cond, __FILE__, __LINE__), #cond, __FILE__, __LINE__)

static inline LargestIntegralType check_failed(const char *cond, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: not so: %s\n", file, line, cond);
    return 0;
}

/* AUTO(buf_release) struct buf b = { 0 };  is released where its block ends. */
#define AUTO(release) __attribute__((cleanup(release)))
/* AUTO_OF(metrics_free, metrics);  once in a file, and  AUTO(metrics_free_at) struct metrics *m;
 * is freed where its block ends. */
#define AUTO_OF(free_fn, type)                                                                     \
    static inline void free_fn##_at(struct type **p)                                               \
    {                                                                                              \
        free_fn(*p);                                                                               \
    }                                                                                              \
    struct type

/* TEST_MAIN(cmocka_unit_test(a), cmocka_unit_test(b)) */
#define TEST_MAIN(...)                                                                             \
    int main(void)                                                                                 \
    {                                                                                              \
        const struct CMUnitTest tests[] = { __VA_ARGS__ };                                         \
        cmocka_set_message_output(CM_OUTPUT_TAP);                                                  \
        return cmocka_run_group_tests(tests, NULL, NULL);                                          \
    }

#endif
