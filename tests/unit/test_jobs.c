/* SPDX-License-Identifier: MIT */
/* What training jobs say of themselves: the file, and jobs that come, fall silent and go. */
#include "host.h"

#include "base/text/json.h"

#define L   "job=llama,kind=training,user=alice"
#define NOW (INT64_C(1794744810) * SECOND)

static const char whole[] =
    "{\"schema\":\"stoker.job/1\",\"job\":\"llama\",\"user\":\"alice\",\"state\":\"running\","
    "\"pid\":77,\"gpus\":[0,1,2,3],\"updated\":1794744806,\"step\":1200,\"steps\":50000,"
    "\"step_seconds\":1.25,\"tokens_per_second\":419430,\"samples_per_second\":102.4,"
    "\"loss\":-2.5,\"mfu\":0.43,\"restarts\":1,"
    "\"checkpoint_step\":1000,\"checkpoint_time\":1794744710}";

TEST(files)
{
    static const struct {
        const char *text, *why; /* NULL: it is one */
    } rows[] = {
        { whole, NULL },
        { "{\"schema\":\"stoker.job/1\",\"job\":\"x\",\"updated\":1}", NULL },
        { "", "" },
        { "{}", "no schema" },
        { "[]", "no schema" },
        { "{\"schema\":\"stoker.job/2\",\"job\":\"x\",\"updated\":1}", "no schema" },
        { "{\"schema\":\"stoker.job/1\",\"updated\":1}", "no 'job'" },
        { "{\"schema\":\"stoker.job/1\",\"job\":\"x\"}", "no 'updated'" },
        { "{\"schema\":\"stoker.job/1\",\"job\":\"x\",\"updated\":-1}", "no 'updated'" },
        { "{\"schema\":\"stoker.job/1\",\"job\":\"x\",\"updated\":1,\"state\":\"gone\"}",
          "no state" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct err err = { 0 };
        struct job_file j = { .name = "untouched" };
        enum rc rc = job_parse(rows[i].text, strlen(rows[i].text), &j, &err);

        CHECK((rc == RC_OK) == !rows[i].why);
        if (rows[i].why)
            CHECK(strstr(err.msg, rows[i].why) && str_eq(j.name, "untouched"));
    }
}

/* A number that is none is unknown, and never zero. */
TEST(odd_numbers_are_unknown)
{
    static const char odd[] = "{\"schema\":\"stoker.job/1\",\"job\":\"a\\nb\",\"updated\":1,"
                              "\"step\":-1,\"mfu\":7,\"loss\":null,\"gpus\":1e9,\"pid\":0,"
                              "\"restarts\":\"3\"}";
    struct job_file j;

    assert_int_equal(job_parse(odd, strlen(odd), &j, NULL), RC_OK);
    CHECK(isnan(j.step) && isnan(j.mfu) && isnan(j.loss) && isnan(j.gpus) && isnan(j.pid) &&
          isnan(j.restarts) && isnan(j.steps) && isnan(j.checkpoint_s));
    CHECK(str_eq(j.name, "a\nb") && str_eq(j.kind, "training") && j.user[0] == '\0');
    CHECK(str_eq(job_state_word(j.state), "running"));
}

static void doc_has(struct host *h, const char *text)
{
    AUTO(buf_release) struct buf b = { 0 };

    CHECK(telemetry_doc_copy(h->t, "jobs", &b) == (text != NULL));
    if (text && !strstr(buf_str(&b), text))
        fail_msg("no '%s' in %s", text, buf_str(&b));
}

TEST(a_job_comes_and_goes)
{
    AUTO(host_close) struct host h;
    void *s;

    host_open(&h, NULL);
    s = collect_jobs.open(h.root, h.t);
    collect_jobs.sample(s, h.t, NOW); /* no folder: no job */
    assert_int_equal(host_known(&h), 0);
    doc_has(&h, NULL);
    host_put(&h, "/proc/77/stat", "77 (stoker) S 1\n");
    host_put(&h, "/run/stoker/jobs/llama.json", whole);
    collect_jobs.sample(s, h.t, NOW);
    NEAR(&h, "stoker_job_step", L, 1200);
    NEAR(&h, "stoker_job_steps", L, 50000);
    NEAR(&h, "stoker_job_gpus", L, 4);
    NEAR(&h, "stoker_job_step_seconds", L, 1.25);
    NEAR(&h, "stoker_job_tokens_per_second", L, 419430);
    NEAR(&h, "stoker_job_samples_per_second", L, 102.4);
    NEAR(&h, "stoker_job_loss", L, -2.5);
    NEAR(&h, "stoker_job_mfu_ratio", L, 0.43);
    NEAR(&h, "stoker_job_restarts_total", L, 1);
    NEAR(&h, "stoker_job_checkpoint_age_seconds", L, 100);
    NEAR(&h, "stoker_job_checkpoint_step", L, 1000);
    NEAR(&h, "stoker_job_report_age_seconds", L, 4);
    NEAR(&h, "stoker_job_state", L ",state=running", 1);
    doc_has(&h,
            "\"file\":\"llama.json\",\"job\":\"llama\",\"kind\":\"training\",\"user\":\"alice\"");
    /* silent: what it reached stays, its speed is unknown */
    collect_jobs.sample(s, h.t, NOW + 700 * SECOND);
    NEAR(&h, "stoker_job_step", L, 1200);
    NEAR(&h, "stoker_job_report_age_seconds", L, 704);
    UNKNOWN(&h, "stoker_job_tokens_per_second", L);
    UNKNOWN(&h, "stoker_job_samples_per_second", L);
    UNKNOWN(&h, "stoker_job_loss", L);
    /* its launcher died */
    host_remove(&h, "/proc/77/stat");
    collect_jobs.sample(s, h.t, NOW);
    NEAR(&h, "stoker_job_state", L ",state=gone", 1);
    UNKNOWN(&h, "stoker_job_state", L ",state=running");
    UNKNOWN(&h, "stoker_job_gpus", L);
    UNKNOWN(&h, "stoker_job_step", L); /* one that stands still is alarmed about */
    UNKNOWN(&h, "stoker_job_checkpoint_age_seconds", L);
    /* a week later it is no job, and a file that is removed is none at once */
    collect_jobs.sample(s, h.t, NOW + INT64_C(8) * 24 * 3600 * SECOND);
    assert_int_equal(host_known(&h), 0);
    host_remove(&h, "/run/stoker/jobs/llama.json");
    collect_jobs.sample(s, h.t, NOW);
    assert_int_equal(host_known(&h), 0);
    doc_has(&h, NULL);
    collect_jobs.close(s);
}

/* A rank's own work of a step, a file a rank; rank 2 works half as long again. */
static void put_ranks(struct host *h, int count, double slow)
{
    char name[64], text[256];

    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "/run/stoker/jobs/llama.%d.json", i);
        snprintf(text, sizeof(text),
                 "{\"schema\":\"stoker.job/1\",\"job\":\"llama\",\"user\":\"alice\",\"rank\":%d,"
                 "\"world_size\":16,\"gpu\":%d,\"updated\":1794744806,\"step\":%d,"
                 "\"step_seconds\":1.5,\"busy_seconds\":%g}",
                 8 + i, i, 100 + i, i == 2 ? slow : 1.0);
        host_put(h, name, text);
    }
}

TEST(the_slow_rank_of_a_node)
{
    AUTO(host_close) struct host h;
    void *s;

    host_open(&h, NULL);
    s = collect_jobs.open(h.root, h.t);
    put_ranks(&h, 2, 1.5);
    collect_jobs.sample(s, h.t, NOW);
    NEAR(&h, "stoker_job_rank_busy_seconds", L ",rank=9,gpu=1", 1);
    UNKNOWN(&h, "stoker_job_rank_lag_ratio", L ",rank=9,gpu=1"); /* of two, which one is slow? */
    put_ranks(&h, 8, 1.5);
    collect_jobs.sample(s, h.t, NOW);
    NEAR(&h, "stoker_job_rank_busy_seconds", L ",rank=10,gpu=2", 1.5);
    NEAR(&h, "stoker_job_rank_lag_ratio", L ",rank=10,gpu=2", 0.5);
    NEAR(&h, "stoker_job_rank_lag_ratio", L ",rank=15,gpu=7", 0);
    NEAR(&h, "stoker_job_step", L, 100); /* one job: the lowest rank's word */
    doc_has(&h, "\"rank\":10,\"world_size\":16,\"gpu\":2,\"busy_seconds\":1.5");
    collect_jobs.sample(s, h.t, NOW + 700 * SECOND); /* silent: nobody is slow */
    UNKNOWN(&h, "stoker_job_rank_lag_ratio", L ",rank=10,gpu=2");
    collect_jobs.close(s);
}

TEST(hostile_files)
{
    struct host h;
    char *big = malloc(70000), name[64];
    void *s;

    host_open(&h, NULL);
    memset(big, ' ', 69999);
    memcpy(big, whole, strlen(whole));
    big[69999] = '\0';
    host_put(&h, "/run/stoker/jobs/big.json", big);
    host_put(&h, "/run/stoker/jobs/half.json", "{\"schema\":\"stoker.job/1\",");
    host_put(&h, "/run/stoker/jobs/readme.txt", whole);
    host_put(&h, "/run/stoker/jobs/.hidden.json", whole);
    s = collect_jobs.open(h.root, h.t);
    collect_jobs.sample(s, h.t, NOW);
    assert_int_equal(host_known(&h), 0);
    doc_has(&h, "\"file\":\"big.json\",\"error\":\"longer than");
    doc_has(&h, "\"file\":\"half.json\",\"error\":\"");
    for (int i = 0; i < 200; i++) { /* more than are looked at */
        snprintf(name, sizeof(name), "/run/stoker/jobs/j%03d.json", i);
        snprintf(big, 70000, "{\"schema\":\"stoker.job/1\",\"job\":\"j%d\",\"updated\":1794744806}",
                 i);
        host_put(&h, name, big);
    }
    collect_jobs.sample(s, h.t, NOW);
    CHECK(host_known(&h) > 2 * 50 && host_known(&h) <= 2 * 64); /* state and age of each */
    collect_jobs.close(s);
    host_close(&h);
    free(big);
}

TEST_MAIN(cmocka_unit_test(files), cmocka_unit_test(odd_numbers_are_unknown),
          cmocka_unit_test(a_job_comes_and_goes), cmocka_unit_test(the_slow_rank_of_a_node),
          cmocka_unit_test(hostile_files))
