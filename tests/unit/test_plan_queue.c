/* SPDX-License-Identifier: MIT */
/* The queue's simulation against what theory knows exactly, and the rules it must keep. */
#include "test.h"

#include "plan/queue.h"

#include <math.h>
#include <string.h>

static void run(const struct queue_in *in, struct queue_out *out)
{
    struct arena a = { 0 };
    struct err err = { 0 };

    if (queue_run(&a, in, out, &err))
        fail_msg("%s", err.msg);
    arena_release(&a);
}

/* One server: Pollaczek and Khinchine give the mean wait for any spread of durations. */
TEST(one_server)
{
    static const double spreads[] = { 0, 0.5, 1 };

    for (size_t i = 0; i < ARRAY_SIZE(spreads); i++) {
        struct queue_class c = { "all", 400, 1, 1.26, spreads[i] }; /* 70 % busy */
        struct queue_in in = { &c, 1, 1, 1, false, 400, 7 };
        double rho = 400 * 1.26 / 720, second = 1.26 * 1.26 * (1 + spreads[i] * spreads[i]);
        double want = 400.0 / 720 * second / (2 * (1 - rho));
        struct queue_out out;

        run(&in, &out);
        if (fabs(out.wait.mean - want) > 0.06 * want || fabs(out.utilisation - rho) > 0.01)
            fail_msg("wait %g, theory %g; busy %g, theory %g", out.wait.mean, want, out.utilisation,
                     rho);
        /* Little's law */
        CHECK(fabs(out.queue_mean - out.wait.mean * 400 / 720) < 0.03 * out.queue_mean);
    }
}

/* Erlang's C for c servers, times (1 + cv^2)/2 (Allen and Cunneen), holds to a few percent. */
TEST(many_servers)
{
    enum { SERVERS = 10 };
    struct queue_class c = { "all", 720, 8, 8, 1 };
    struct queue_in in = { &c, 1, SERVERS, 8, false, 400, 11 };
    double load = 8, term = 1, sum = 1, last, wait;
    struct queue_out out;

    for (int k = 1; k < SERVERS; k++)
        sum += term *= load / k;
    last = term * load / SERVERS * SERVERS / (SERVERS - load);
    wait = last / (sum + last) * 8 / (SERVERS - load);
    run(&in, &out);
    if (fabs(out.wait.mean - wait) > 0.12 * wait)
        fail_msg("wait %g, theory %g", out.wait.mean, wait);
}

TEST(room_for_all_is_no_wait)
{
    struct queue_class c = { "all", 10, 8, 5, 0 };
    struct queue_in in = { &c, 1, 200, 8, true, 50, 3 };
    struct queue_out out;

    run(&in, &out);
    CHECK(out.wait.max == 0 && fabs(out.turnaround.p99 - 5) < 1e-9 && !out.unstable);
}

static const struct queue_class mix[] = { { "small", 600, 2, 4, 1 },
                                          { "node", 100, 8, 20, 1 },
                                          { "large", 6, 64, 60, 0.5 } };

TEST(backfill_helps_and_more_nodes_help)
{
    struct queue_in in = { mix, 3, 14, 8, false, 24, 5 };
    struct queue_out fifo, easy, more;

    run(&in, &fifo);
    in.backfill = true;
    run(&in, &easy);
    in.nodes = 20;
    run(&in, &more);
    CHECK(easy.wait.mean < fifo.wait.mean && easy.wait.p90 < fifo.wait.p90);
    CHECK(more.wait.mean < easy.wait.mean && more.jobs == easy.jobs);
    run(&in, &easy);
    assert_memory_equal(&easy, &more, sizeof(more)); /* the same seed, the same answer */
}

TEST(the_smallest_cluster)
{
    struct queue_class c = { "train", 200, 8, 24, 1 };
    struct queue_in in = { &c, 1, 1, 8, true, 24, 1 };
    struct queue_size s;
    struct queue_out out;
    struct err err = { 0 };

    if (queue_size_for(&in, 95, 96, 5, &s, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(s.load, 7);
    CHECK(s.least <= s.nodes && s.nodes <= s.most && s.nodes >= s.load && s.nodes < 3 * s.load);
    CHECK(s.at.turnaround.p95 < 110);
    in.nodes = s.least - 1;
    if (in.nodes >= 7) {
        run(&in, &out);
        CHECK(out.turnaround.p95 > 90);
    }
    /* faster than the jobs themselves: no cluster does it */
    assert_int_equal(queue_size_for(&in, 95, 24, 1, &s, &err), RC_LIMIT);
    CHECK(strstr(err.msg, "no cluster"));
}

TEST(refused)
{
    struct queue_class c = { "big", 10, 80, 5, 0 };
    struct queue_in in = { &c, 1, 4, 8, true, 12, 1 };
    struct queue_out out;
    struct arena a = { 0 };
    struct err err = { 0 };

    assert_int_equal(queue_run(&a, &in, &out, &err), RC_USAGE);
    CHECK(strstr(err.msg, "'big' wants 80 GPUs"));
    arena_release(&a);
}

TEST(classes_from_a_table)
{
    static const char text[] = "name,per_month,gpus,hours,spread\na,100,8,24,0.5\nb,5,64,100,1\n";
    struct queue_class c[QUEUE_CLASSES_MAX];
    struct arena a = { 0 };
    struct err err = { 0 };
    size_t n;

    assert_int_equal(queue_read(&a, text, sizeof(text) - 1, 1, c, &n, &err), RC_OK);
    CHECK(n == 2 && c[1].gpus == 64 && c[0].spread == 0.5);
    assert_int_equal(queue_read(&a, "name,per_month,gpus,hours\nx,1,0,3\n", 34, 1, c, &n, &err),
                     RC_PARSE);
    CHECK(strstr(err.msg, "line 2: gpus cannot be '0'"));
    arena_release(&a);
}

TEST_MAIN(cmocka_unit_test(one_server), cmocka_unit_test(many_servers),
          cmocka_unit_test(room_for_all_is_no_wait),
          cmocka_unit_test(backfill_helps_and_more_nodes_help),
          cmocka_unit_test(the_smallest_cluster), cmocka_unit_test(refused),
          cmocka_unit_test(classes_from_a_table))
