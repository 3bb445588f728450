/* SPDX-License-Identifier: MIT */
/* What the scheduler makes of measured batches.  No clock and no thread: the test says what ran
 * when, and asks what would be let in. */
#include "base/err.h"
#include "serve/sched/device_queue_int.h"
#include "test.h"

#include <string.h>

#define MS INT64_C(1000000)
#define S  (1000 * MS)

enum { BUDGET = 4096 };

static struct {
    struct sched sched;
    struct device_queue device_queue;
    struct model_record record;
    struct model_queue queue;
    int64_t now_ns;
} box;

static void begin(void)
{
    memset(&box, 0, sizeof(box));
    box.sched.o = (struct sched_opts){ .batch_ns = 500 * MS,
                                       .queue_requests_max = 100,
                                       .queue_tokens_max = 1000000 };
    box.device_queue.sched = &box.sched;
    box.device_queue.queues = &box.queue;
    box.queue = (struct model_queue){ .record = &box.record, .budget = BUDGET, .texts_max = 64 };
    box.now_ns = 1000 * S;
}

static void ran(size_t tokens, int64_t ns)
{
    box.now_ns += ns;
    pace_add(&box.record.pace, tokens, box.now_ns - ns, box.now_ns);
}

static double needs_ms(size_t tokens)
{
    return pace_ns(&box.record.pace, tokens, BUDGET) / (double)MS;
}

/* Healthy: a token takes 0.1 ms. */
static void warm_up(void)
{
    for (size_t k = 0; k < 4; k++)
        for (size_t tokens = 256; tokens <= 4096; tokens *= 2)
            ran(tokens, (int64_t)tokens * MS / 10);
}

/* The machine stood still for 5 s in each of six batches. */
static void pause_at(size_t tokens)
{
    for (size_t k = 0; k < 6; k++)
        ran(tokens, 5 * S);
}

static struct err why_not;

static enum rc come(struct request *r, size_t tokens, int64_t time_ns)
{
    enum sched_refuse why;

    *r = (struct request){ .submitted_ns = box.now_ns,
                           .deadline_ns = box.now_ns + time_ns,
                           .queue = &box.queue,
                           .class = REQUEST_BULK,
                           .waiting_tokens = tokens,
                           .joined_tokens = tokens,
                           .pending_count = tokens / 256 ? tokens / 256 : 1 };
    why_not = (struct err){ 0 };
    return admit(&box.device_queue, r, &why, &why_not);
}

static enum rc asked(size_t tokens, int64_t time_ns)
{
    struct request r;

    return come(&r, tokens, time_ns);
}

TEST(a_batch_is_not_slower_than_a_larger_one_since)
{
    begin();
    warm_up();
    pause_at(2048);
    CHECK(needs_ms(2048) > 3000); /* nothing says otherwise */
    ran(4096, 410 * MS);
    for (size_t tokens = 1; tokens < 4096; tokens += 13)
        CHECK(needs_ms(tokens) <= needs_ms(4096) * (1 + 1e-12));
    CHECK(needs_ms(0) == 0);
    CHECK(needs_ms(4096) < 420);
    CHECK(asked(2048, 3 * S) == RC_OK);
    CHECK(asked(3072, 3 * S) == RC_OK);
    CHECK(needs_ms(256) > 25); /* what is known of the others stands */
    CHECK(needs_ms(256) < 26);
}

/* What a larger one took before is no bound: the machine may be slower now. */
TEST(a_larger_one_before_says_nothing)
{
    begin();
    warm_up();
    ran(4096, 410 * MS);
    pause_at(2048);
    CHECK(needs_ms(2048) > 3000);
    CHECK(asked(2048, 3 * S) == RC_TIMEOUT);
}

TEST(a_quick_batch_undoes_slow_ones)
{
    begin();
    warm_up();
    pause_at(2048);
    ran(2048, 205 * MS);
    CHECK(needs_ms(2048) < 410);
    ran(2048, 2 * S); /* and a slow one counts once */
    CHECK(needs_ms(2048) < 820);
}

/* The first batch of a size stood still: there is no figure to hold it against. */
TEST(a_first_batch_that_stood_still)
{
    begin();
    for (size_t k = 0; k < 4; k++)
        ran(256, 26 * MS);
    ran(2048, 60 * S);
    CHECK(needs_ms(2048) > 59000);
    CHECK(asked(2048, 3 * S) == RC_OK); /* in two batches */
    ran(4096, 410 * MS);
    CHECK(needs_ms(2048) < 420);
}

TEST(one_comes_in_to_measure_an_old_speed)
{
    struct request r;

    begin();
    warm_up();
    pause_at(2048);
    CHECK(asked(2048, 3 * S) == RC_TIMEOUT); /* it was measured just now */
    box.now_ns += 9 * S;
    CHECK(asked(2048, 3 * S) == RC_TIMEOUT);
    box.now_ns += 2 * S;
    CHECK(come(&r, 2048, 3 * S) == RC_OK && r.unsure);
    CHECK(asked(2048, 3 * S) == RC_TIMEOUT); /* one only */
    CHECK(asked(3072, 3 * S) == RC_TIMEOUT);
    CHECK(admit_again(&box.device_queue, &r, box.now_ns, &why_not) == RC_OK && r.unsure);
    ran(256, 26 * MS); /* that says nothing of it */
    CHECK(admit_again(&box.device_queue, &r, box.now_ns, &why_not) == RC_OK && r.unsure);
    ran(2048, 205 * MS);
    CHECK(admit_again(&box.device_queue, &r, box.now_ns, &why_not) == RC_OK && !r.unsure);
    CHECK(asked(2048, 3 * S) == RC_OK);
    CHECK(asked(3072, 3 * S) == RC_OK);
}

/* It is slow indeed: one is let in each time, and sent away after its first batch. */
TEST(what_is_too_large_stays_too_large)
{
    struct request r;

    begin();
    warm_up();
    CHECK(asked(64 * 4096, 3 * S) == RC_TIMEOUT);
    box.now_ns += 20 * S;
    CHECK(come(&r, 64 * 4096, 3 * S) == RC_OK && r.unsure);
    CHECK(asked(64 * 4096, 3 * S) == RC_TIMEOUT);
    r.waiting_tokens -= 4096;
    ran(4096, 410 * MS);
    CHECK(admit_again(&box.device_queue, &r, box.now_ns, &why_not) == RC_TIMEOUT);
    CHECK(strstr(why_not.msg, "it needs about 26."));
    CHECK(asked(64 * 4096, 3 * S) == RC_TIMEOUT);
}

/* No time is left for it beside what waits: it could not measure anything. */
TEST(nobody_comes_to_measure_when_others_take_the_time)
{
    struct request waits = { .queue = &box.queue, .class = REQUEST_BULK };

    begin();
    warm_up();
    pause_at(2048);
    box.now_ns += 20 * S;
    waits.waiting_tokens = waits.joined_tokens = 40 * 4096;
    box.device_queue.requests = &waits;
    box.device_queue.tokens = waits.waiting_tokens;
    box.device_queue.request_count = 1;
    CHECK(asked(2048, 3 * S) == RC_TIMEOUT);
    box.device_queue.request_count = 0;
    box.device_queue.requests = NULL;
    box.device_queue.tokens = 0;
    CHECK(asked(2048, 3 * S) == RC_OK);
}

/* A refusal does not contradict itself. */
TEST(what_is_needed_is_told_above_what_there_is)
{
    struct request waits = { .queue = &box.queue, .class = REQUEST_BULK };

    begin();
    warm_up();
    CHECK(asked(2048, 204799 * MS / 1000) == RC_TIMEOUT);
    CHECK(strstr(why_not.msg, "it needs about 206 ms and has 205 ms"));
    CHECK(asked(256, MS) == RC_TIMEOUT);
    CHECK(strstr(why_not.msg, "it needs about 26 ms and has 1.0 ms"));
    CHECK(asked(1, 99 * MS / 1000) == RC_TIMEOUT);
    CHECK(strstr(why_not.msg, "it needs about 0.2 ms and has 0.1 ms"));
    waits.waiting_tokens = waits.joined_tokens = 4096;
    box.device_queue.requests = &waits;
    box.device_queue.tokens = waits.waiting_tokens;
    box.device_queue.request_count = 1;
    CHECK(asked(4096, 900 * MS) == RC_LIMIT); /* it would end after 819 ms */
    CHECK(strstr(why_not.msg, "needs about 819 ms, and of the 900 ms that it has a fifth is kept"));
}

TEST_MAIN(cmocka_unit_test(what_is_needed_is_told_above_what_there_is),
          cmocka_unit_test(a_batch_is_not_slower_than_a_larger_one_since),
          cmocka_unit_test(a_larger_one_before_says_nothing),
          cmocka_unit_test(a_quick_batch_undoes_slow_ones),
          cmocka_unit_test(a_first_batch_that_stood_still),
          cmocka_unit_test(one_comes_in_to_measure_an_old_speed),
          cmocka_unit_test(what_is_too_large_stays_too_large),
          cmocka_unit_test(nobody_comes_to_measure_when_others_take_the_time))
