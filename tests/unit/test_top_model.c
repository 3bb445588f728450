/* SPDX-License-Identifier: MIT */
/* What `stoker top` understands of an agent's documents, and what two of them tell. */
#include "top_docs.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>

TEST(a_node)
{
    struct docs d;
    struct top_snap *s;

    docs_begin(&d, 2);
    add_series(&d, 1, "gpu.prof.tensor", "0.5");
    add_series(&d, 1, "gpu.clock_events", "68");
    add_series(&d, 0, "gpu.clock_events", "null");
    add_series(&d, 300, "gpu.util", "1"); /* beyond what is shown: left out */
    buf_adds(&d.series, ",{\"metric\":\"host.load1\",\"labels\":{},\"value\":1.25}");
    buf_adds(&d.series, ",{\"metric\":\"gpu.util\",\"labels\":{\"gpu\":\"0\",\"GPU_I_ID\":\"3\"},"
                        "\"value\":99},7,null,{}");
    add_process(&d, 1, 40, "\"user\":\"ann\",\"command\":\"python\",\"slurm_job\":\"17\"",
                "\"memory_bytes\":4096,\"util_pct\":null,\"type\":\"compute\",\"cpu_seconds\":2,"
                "\"rss_bytes\":8192");
    add_process(&d, 0, 9, "\"pod\":\"p\",\"namespace\":\"ml\",\"GPU_I_ID\":\"7\"",
                "\"memory_bytes\":null");
    add_process(&d, 0, 0, "", "\"memory_bytes\":1"); /* no process has this number */
    buf_adds(&d.alerts, "{\"name\":\"b\",\"severity\":\"warning\",\"state\":\"firing\",\"summary\":"
                        "\"x\"},{\"name\":\"a\",\"severity\":\"critical\",\"state\":\"firing\"},"
                        "{\"name\":\"c\",\"severity\":\"critical\",\"state\":\"pending\"},"
                        "{\"name\":\"d\",\"severity\":\"critical\",\"state\":\"resolved\"}");
    s = docs_end(&d);
    assert_string_equal(s->host, "n1");
    assert_int_equal(s->gpu_count, 2);
    assert_string_equal(s->gpus[1].name, "NVIDIA H200");
    CHECK(s->gpus[1].v[TOP_UTIL] == 10 && s->gpus[1].v[TOP_TENSOR] == 0.5);
    CHECK(s->gpus[0].v[TOP_UTIL] == 0); /* a known zero, and not that of a part of the GPU */
    CHECK(isnan(s->gpus[0].v[TOP_TEMP]) && isnan(s->gpus[0].v[TOP_REASONS]));
    CHECK(isnan(s->gpus[0].v[TOP_TENSOR]) && isnan(s->host_v[TOP_HOST_CPU]));
    CHECK(s->host_v[TOP_HOST_LOAD] == 1.25);
    assert_int_equal(s->process_count, 2);
    CHECK(s->processes[0].pid == 9 && s->processes[0].instance == 7 && !s->processes[0].type);
    CHECK(isnan(s->processes[0].memory) && isnan(s->processes[0].cpu_s));
    assert_string_equal(s->processes[0].job, "ml/p");
    CHECK(s->processes[1].type == 'C' && s->processes[1].memory == 4096);
    assert_string_equal(s->processes[1].job, "slurm 17");
    assert_int_equal(s->alert_count, 3);
    assert_int_equal(s->firing, 2);
    assert_string_equal(s->alerts[0].name, "a"); /* firing first, then the worst */
    assert_string_equal(s->alerts[2].name, "c");
    top_snap_free(s);
}

TEST(what_is_no_agent)
{
    static const struct {
        const char *node;
        enum rc rc;
        const char *why;
    } rows[] = {
        { "", RC_PARSE, "what answers there is not a stoker agent" },
        { "[1]", RC_PARSE, "what answers there is not a stoker agent" },
        { "{\"schema\":\"x\"}", RC_PARSE, "what answers there is not a stoker agent" },
        { "<html>", RC_PARSE, "its facts: line 1, column 1: " },
        { "{\"schema\":\"stoker.node/1\"}", RC_OK, "" },
        { "{\"schema\":\"stoker.node/1\",\"gpus\":{\"a\":1},\"host\":7}", RC_OK, "" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct top_docs d = { .node = rows[i].node, .node_len = strlen(rows[i].node) };
        struct top_snap *s = NULL;
        struct err err = { 0 };

        assert_int_equal(top_snap_read(&d, &s, &err), rows[i].rc);
        CHECK(!strncmp(err.msg, rows[i].why, strlen(rows[i].why)));
        CHECK((s != NULL) == (rows[i].rc == RC_OK));
        top_snap_free(s);
    }
}

TEST(rates)
{
    struct top_snap *s[2];

    for (int i = 0; i < 2; i++) {
        struct docs d;

        docs_begin(&d, 2);
        add_series(&d, 0, "gpu.pcie.rx_bytes", i ? "5000" : "1000");
        add_series(&d, 0, "gpu.pcie.tx_bytes", i ? "10" : "1000"); /* began anew */
        add_series(&d, 1, "gpu.pcie.rx_bytes", i ? "9000" : "1000");
        add_series(&d, 1, "gpu.prof.pcie_rx", "7");
        add_process(&d, 0, 5, "", i ? "\"cpu_seconds\":3" : "\"cpu_seconds\":2");
        add_process(&d, 1, 5, "", i ? "\"cpu_seconds\":3" : "\"cpu_seconds\":2");
        if (i)
            add_process(&d, 0, 4, "", "\"cpu_seconds\":100"); /* it is new */
        s[i] = docs_end(&d);
        s[i]->time_ms += 2000 * i;
    }
    top_snap_rates(s[1], s[0]);
    CHECK(s[1]->gpus[0].v[TOP_PCIE_RX] == 2000);
    CHECK(isnan(s[1]->gpus[0].v[TOP_PCIE_TX]));
    CHECK(s[1]->gpus[1].v[TOP_PCIE_RX] == 7); /* what the agent says comes first */
    CHECK(isnan(s[1]->gpus[1].v[TOP_NVLINK_RX]));
    CHECK(isnan(s[1]->processes[0].cpu));
    CHECK(s[1]->processes[1].cpu == 50 && s[1]->processes[2].cpu == 50);
    top_snap_rates(s[0], s[1]); /* time went back: nothing */
    CHECK(isnan(s[0]->processes[0].cpu));
    top_snap_free(s[0]);
    top_snap_free(s[1]);
}

TEST(reasons_in_words)
{
    static const struct {
        double mask;
        enum grid_look look;
        const char *words;
    } rows[] = {
        { NAN, LOOK_DIM, "-" },
        { 0, LOOK_DIM, "none" },
        { 1, LOOK_DIM, "idle" },
        { 4, LOOK_WARN, "power cap" },
        { 0x44, LOOK_BAD, "thermal (HW), power cap" },
        { 0x1000, LOOK_DIM, "0x1000" },
        { 1e30, LOOK_DIM, "none" },
    };
    char text[64], small[8];

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_int_equal(top_reasons(rows[i].mask, text, sizeof(text)), rows[i].look);
        assert_string_equal(text, rows[i].words);
    }
    (void)top_reasons(0xffffffff, small, sizeof(small)); /* cut, not over */
    assert_int_equal(strlen(small), sizeof(small) - 1);
}

TEST(history_by_time)
{
    struct top_history h = { 0 };
    struct docs d;
    struct top_snap *s;
    struct err err = { 0 };
    static const char fill[] =
        "{\"from_ms\":1699999997000,\"step_ms\":1000,\"series\":[{\"labels\":"
        "{\"gpu\":\"1\"},\"mean\":[40,null,60,99]},{\"labels\":{}}]}";

    docs_begin(&d, 2);
    s = docs_end(&d);
    top_history_add(&h, s);
    CHECK(top_history_at(&h, 1, TOP_LINE_UTIL, 0, 1) == 10);
    CHECK(top_history_at(&h, -1, TOP_LINE_UTIL, 0, 1) == 5); /* the mean of 0 and 10 */
    CHECK(isnan(top_history_at(&h, 1, TOP_LINE_UTIL, 1, 1)));
    CHECK(isnan(top_history_at(&h, 1, TOP_LINE_POWER, 0, 1)));
    CHECK(fabs(top_history_at(&h, 1, TOP_LINE_MEM, 0, 1) - 200.0 / 140) < 1e-4);
    CHECK(!top_history_fill(&h, TOP_LINE_UTIL, s, fill, strlen(fill), &err));
    CHECK(top_history_at(&h, 1, TOP_LINE_UTIL, 3, 1) == 40);
    CHECK(isnan(top_history_at(&h, 1, TOP_LINE_UTIL, 2, 1)));
    CHECK(top_history_at(&h, 1, TOP_LINE_UTIL, 1, 3) == 50); /* of what is known */
    CHECK(top_history_at(&h, 1, TOP_LINE_UTIL, 0, 1) == 10); /* what was seen stays */
    s->time_ms += 3000;
    top_history_add(&h, s); /* two seconds were missed: a gap */
    CHECK(isnan(top_history_at(&h, 1, TOP_LINE_UTIL, 1, 2)));
    CHECK(top_history_at(&h, 1, TOP_LINE_UTIL, 3, 1) == 10);
    s->time_ms -= 9000;
    top_history_add(&h, s); /* the clock was set back: it begins anew */
    CHECK(isnan(top_history_at(&h, 1, TOP_LINE_UTIL, 1, 100)));
    CHECK(top_history_fill(&h, TOP_LINE_UTIL, s, "{", 1, &err) == RC_PARSE);
    top_history_release(&h);
    top_snap_free(s);
}

/* ---- keys */
static struct top_snap *three(void)
{
    struct docs d;

    docs_begin(&d, 3);
    add_process(&d, 0, 30, "\"command\":\"b\",\"user\":\"x\"", "\"memory_bytes\":5,\"util_pct\":1");
    add_process(&d, 1, 20, "\"command\":\"c\",\"user\":\"y\"", "\"memory_bytes\":7");
    add_process(&d, 2, 10, "\"command\":\"a\",\"user\":\"z\"", "\"util_pct\":9");
    return docs_end(&d);
}

static void expect_order(struct top_view *v, const struct top_snap *s, const char *pids)
{
    char text[64] = "";
    size_t n, *order = top_sorted(v, s, &n);

    for (size_t i = 0; i < n; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%lld ",
                       (long long)s->processes[order[i]].pid);
    assert_string_equal(text, pids);
    free(order);
}

TEST(sorting)
{
    struct top_snap *s = three();
    struct top_view v;

    top_view_init(&v);
    expect_order(&v, s, "20 30 10 "); /* by GPU memory; unknown comes last */
    CHECK(top_key(&v, s, 'P') == TOP_DRAW);
    expect_order(&v, s, "10 30 20 ");
    CHECK(top_key(&v, s, 'N') == TOP_DRAW);
    expect_order(&v, s, "10 20 30 ");
    CHECK(top_key(&v, s, 'N') == TOP_DRAW); /* again: the other way */
    expect_order(&v, s, "30 20 10 ");
    CHECK(top_key(&v, s, 'O') == TOP_DRAW);
    expect_order(&v, s, "10 30 20 ");
    CHECK(top_key(&v, s, '>') == TOP_DRAW && v.sort == TOP_BY_PID);
    CHECK(top_key(&v, s, TOP_KEY_LEFT) == TOP_DRAW && v.sort == TOP_BY_COMMAND);
    CHECK(top_key(&v, s, '1') == TOP_DRAW && v.gpu == 1);
    expect_order(&v, s, "20 ");
    CHECK(top_key(&v, s, '1') == TOP_DRAW && v.gpu == -1);
    CHECK(top_key(&v, s, '7') == TOP_DRAW && v.gpu == -1 && v.note[0]);
    CHECK(top_key(&v, s, '[') == TOP_DRAW && v.gpu == 2);
    CHECK(top_key(&v, s, ']') == TOP_DRAW && v.gpu == -1);
    CHECK(top_key(&v, s, ']') == TOP_DRAW && v.gpu == 0);
    CHECK(top_key(&v, s, TOP_KEY_ESCAPE) == TOP_DRAW && v.gpu == -1);
    top_snap_free(s);
}

TEST(selecting_and_ending)
{
    struct top_snap *s = three();
    struct top_view v;

    top_view_init(&v);
    CHECK(top_key(&v, s, 'N') == TOP_DRAW);
    CHECK(top_key(&v, s, TOP_KEY_DOWN) == TOP_DRAW && v.pid == 20);
    CHECK(top_key(&v, s, TOP_KEY_END) == TOP_DRAW && v.pid == 30);
    CHECK(top_key(&v, s, TOP_KEY_DOWN) == TOP_DRAW && v.pid == 30);
    CHECK(top_key(&v, s, 'r') == TOP_DRAW);
    CHECK(top_key(&v, s, TOP_KEY_DOWN) == TOP_DRAW && v.pid == 20);     /* 30 was the first then */
    CHECK(top_key(&v, s, 'k') == TOP_DRAW && !v.kill_pid && v.note[0]); /* another machine's */
    v.may_kill = true;
    CHECK(top_key(&v, s, 'k') == TOP_DRAW && v.kill_pid == 20);
    CHECK(top_key(&v, s, 'q') == TOP_DRAW && !v.kill_pid); /* no answer but yes is yes */
    CHECK(top_key(&v, s, 'k') == TOP_DRAW && top_key(&v, s, 'y') == TOP_KILL);
    CHECK(v.kill_signal == SIGTERM && v.kill_pid == 20);
    assert_string_equal(v.kill_command, "c");
    v.kill_pid = 0;
    CHECK(top_key(&v, s, 'k') == TOP_DRAW && top_key(&v, s, '9') == TOP_KILL);
    CHECK(v.kill_signal == SIGKILL);
    v.kill_pid = 0;
    CHECK(top_key(&v, s, '?') == TOP_DRAW && v.page == TOP_HELP);
    CHECK(top_key(&v, s, 'a') == TOP_DRAW && v.page == TOP_ALERTS);
    CHECK(top_key(&v, s, 'a') == TOP_DRAW && v.page == TOP_MAIN);
    CHECK(top_key(&v, NULL, TOP_KEY_DOWN) == TOP_DRAW); /* before anything came */
    CHECK(top_key(&v, NULL, 'k') == TOP_DRAW && !v.kill_pid);
    CHECK(top_key(&v, NULL, '[') == TOP_DRAW && top_key(&v, NULL, ']') == TOP_DRAW && v.gpu == -1);
    for (int i = 0; i < 9; i++)
        (void)top_key(&v, s, '-');
    CHECK(top_zoom_s(&v) == 60);
    CHECK(top_key(&v, s, 'q') == TOP_QUIT);
    top_snap_free(s);
}

TEST_MAIN(cmocka_unit_test(a_node), cmocka_unit_test(what_is_no_agent), cmocka_unit_test(rates),
          cmocka_unit_test(reasons_in_words), cmocka_unit_test(history_by_time),
          cmocka_unit_test(sorting), cmocka_unit_test(selecting_and_ending))
