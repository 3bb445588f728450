/* SPDX-License-Identifier: MIT */
/* The screen of `stoker top` as cells: sizes, unknown values, names that are hostile. */
#include "top_docs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct shot {
    struct grid g;
    struct buf text;
    struct top_history h;
    struct top_view v;
    struct top_frame f;
};

static void shoot(struct shot *s, const struct top_snap *snap, int cols, int rows, bool utf8)
{
    grid_release(&s->g);
    buf_reset(&s->text);
    s->f.snap = snap;
    s->f.view = &s->v;
    s->f.history = &s->h;
    s->f.from = s->f.from ? s->f.from : "agent x:1";
    s->f.clock = s->f.clock ? s->f.clock : "12:34:56";
    grid_init(&s->g, cols, rows, utf8);
    top_draw(&s->g, &s->f);
    grid_print(&s->g, &s->text);
}

static void shot_release(struct shot *s)
{
    grid_release(&s->g);
    buf_release(&s->text);
    top_history_release(&s->h);
}

static void has(const struct shot *s, const char *words)
{
    if (!strstr(buf_str(&s->text), words))
        fail_msg("no '%s' in\n%s", words, buf_str(&s->text));
}

static void has_not(const struct shot *s, const char *words)
{
    if (strstr(buf_str(&s->text), words))
        fail_msg("'%s' in\n%s", words, buf_str(&s->text));
}

/* No control character, nothing beyond the edge, ASCII alone where it must be. */
static void sane(const struct shot *s)
{
    for (int row = 0; row < s->g.rows; row++)
        for (int col = 0; col < s->g.cols; col++) {
            const struct grid_cell *c = grid_at(&s->g, row, col);

            CHECK(c->look < LOOK_COUNT);
            CHECK(!c->ch ? col > 0 && s->g.utf8 : c->ch >= ' ' && c->ch != 0x7f);
            CHECK(c->ch < 0x80 || (s->g.utf8 && c->ch > 0x9f));
        }
}

TEST(eight_gpus_on_80x24)
{
    struct docs d;
    struct top_snap *snap;
    struct shot s = { 0 };

    docs_begin(&d, 8);
    add_series(&d, 3, "gpu.power", "545.8");
    add_series(&d, 3, "gpu.power.limit", "700");
    add_series(&d, 3, "gpu.clock_events", "4");
    add_series(&d, 3, "gpu.prof.tensor", "0.93");
    add_series(&d, 3, "gpu.prof.pcie_rx", "1200000000");
    add_series(&d, 5, "gpu.lost", "1");
    add_process(&d, 3, 1234,
                "\"user\":\"ann\",\"command\":\"python train.py\",\"slurm_job\":\"17\"",
                "\"memory_bytes\":2147483648,\"util_pct\":88,\"type\":\"compute\"");
    buf_adds(&d.alerts, "{\"name\":\"GpuXid\",\"severity\":\"critical\",\"state\":\"firing\","
                        "\"summary\":\"GPU 5 fell off\"}");
    snap = docs_end(&d);
    top_view_init(&s.v);
    top_history_add(&s.h, snap);
    shoot(&s, snap, 80, 24, false);
    sane(&s);
    assert_int_equal(s.text.len ? 1 : 0, 1);
    has(&s, "stoker top  n1  8 x NVIDIA H200");
    has(&s, "12:34:56\n");
    has(&s, "critical GpuXid: GPU 5 fell off\n");
    has(&s, "  3 [|||   30%] [  4.0G/140G]    -  546/700W  93%     -  1.2G     - power cap\n");
    has(&s, "  0 [       0%] [  1.0G/140G]    -       -/-    -     -     -     - -\n");
    has(&s, "  5 [     LOST]");
    has(&s, "utilisation 35% mean, 39 s");
    has(&s, "   1234 ann        3 comp   88   2.0G     -       - slurm 17    python train.py\n");
    has(&s, "q quit  ? help");
    top_key(&s.v, snap, '3');
    shoot(&s, snap, 80, 24, false); /* one GPU: its card */
    has(&s, "GPU 3  NVIDIA H200");
    has(&s, "throttle power cap  PCIe rx 1.2G tx -  NVLink - rx - tx -");
    has(&s, "tensor [||||||||||||||93%]");
    has(&s, "utilisation 30% GPU 3");
    has_not(&s, "GPU 4");
    shot_release(&s);
    top_snap_free(snap);
}

TEST(every_size)
{
    static const int counts[] = { 0, 1, 2, 8, 100 };
    struct shot s = { 0 };

    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        struct docs d;
        struct top_snap *snap;

        docs_begin(&d, counts[i]);
        for (int p = 0; p < 50; p++)
            add_process(&d, p % 8, p + 1,
                        "\"command\":\"a very long command line that never ends\"",
                        "\"memory_bytes\":1");
        snap = docs_end(&d);
        top_view_init(&s.v);
        top_history_add(&s.h, snap);
        for (int rows = 1; rows < 70; rows += 3)
            for (int cols = 1; cols < 240; cols += 7) {
                shoot(&s, snap, cols, rows, rows & 1);
                sane(&s);
                s.v.page = (enum top_page)((rows + cols) % 3);
            }
        top_snap_free(snap);
    }
    shot_release(&s);
}

TEST(small_screens_say_so)
{
    struct docs d;
    struct top_snap *snap;
    struct shot s = { 0 };

    docs_begin(&d, 1);
    snap = docs_end(&d);
    top_view_init(&s.v);
    shoot(&s, snap, 40, 12, true);
    assert_string_equal(buf_str(&s.text), "40x12 is too small:\n60x12 at least, q quits\n\n\n\n\n\n"
                                          "\n\n\n\n\n");
    shoot(&s, snap, 60, 12, true);
    has(&s, "stoker top  n1");
    shot_release(&s);
    top_snap_free(snap);
}

TEST(large_screens)
{
    struct docs d;
    struct top_snap *snap;
    struct shot s = { 0 };

    docs_begin(&d, 8);
    add_process(&d, 0, 1, "\"command\":\"x\"", "\"type\":\"graphics\"");
    snap = docs_end(&d);
    top_view_init(&s.v);
    top_history_add(&s.h, snap);
    shoot(&s, snap, 200, 60, true);
    sane(&s);
    has(&s, "GPU 7  NVIDIA H200"); /* all as cards */
    has(&s, "tensor activity");
    has(&s, "power -");
    has(&s, "graphics");
    top_key(&s.v, snap, 'g');
    shoot(&s, snap, 200, 60, true);
    has_not(&s, "tensor activity");
    shot_release(&s);
    top_snap_free(snap);
}

TEST(no_gpu_and_nothing_yet)
{
    struct docs d;
    struct top_snap *snap;
    struct shot s = { 0 };

    top_view_init(&s.v);
    shoot(&s, NULL, 80, 24, true);
    has(&s, "waiting for the first second");
    s.f.lost = "no answer: connection refused";
    shoot(&s, NULL, 80, 24, true);
    has(&s, "no answer: connection refused");
    has(&s, "trying again");
    s.f.lost = NULL;
    docs_begin(&d, 0);
    buf_reset(&d.node);
    buf_adds(&d.node,
             "{\"schema\":\"stoker.node/1\",\"agent\":{\"driver\":{\"state\":\"no driver\","
             "\"why\":\"library not found\"}}}");
    snap = docs_end(&d);
    shoot(&s, snap, 80, 24, true);
    has(&s, "no GPU is known here: no driver: library not found");
    has(&s, "no process on a GPU is known");
    has(&s, "cpu -  load -  mem -/-  0 GPUs: util -  power -");
    for (const char *key = "[[]]0"; *key; key++)
        CHECK(top_key(&s.v, snap, *key) == TOP_DRAW && s.v.gpu == -1);
    s.v.note[0] = '\0';
    s.f.lost = "no answer";
    s.f.age_s = 12;
    shoot(&s, snap, 80, 24, true);
    has(&s, "OLD 12 s\n");
    has(&s, "no connection, trying again: no answer");
    shot_release(&s);
    top_snap_free(snap);
}

/* Whatever others call their processes, hosts and alerts, the terminal sees plain characters. */
TEST(hostile_names)
{
    struct docs d;
    struct top_snap *snap;
    struct shot s = { 0 };

    docs_begin(&d, 1);
    add_process(&d, 0, 7,
                "\"command\":\"\\u001b[2J\\u001b]0;owned\\u0007\\u009b1m\\u202etxt\\u0000\\r\\n\","
                "\"user\":\"a\\tb\\u007f\",\"unit\":\"\\ud83d\\ude00\\u0301\\ufeff\\ue000x\"",
                "\"memory_bytes\":1");
    buf_adds(&d.alerts, "{\"name\":\"\\u001b(0\",\"severity\":\"critical\",\"state\":\"firing\","
                        "\"summary\":\"\\u001bc\\u2028\"}");
    buf_reset(&d.node);
    buf_adds(&d.node,
             "{\"schema\":\"stoker.node/1\",\"host\":\"\\u001b[31mevil\",\"note\":"
             "\"\\u001b[5m\",\"gpus\":[{\"labels\":{\"gpu\":\"0\",\"modelName\":"
             "\"\\u001bX\"}}],\"agent\":{\"driver\":{\"state\":\"\\u001b\",\"why\":\"x\"}}}");
    snap = docs_end(&d);
    top_view_init(&s.v);
    for (int i = 0; i < 6; i++) {
        s.v.page = (enum top_page)(i % 3);
        s.v.may_kill = true;
        shoot(&s, snap, 80, 24, i < 3);
        sane(&s);
        CHECK(!strchr(buf_str(&s.text), 27) && !strchr(buf_str(&s.text), 7));
    }
    s.v.page = TOP_MAIN;
    shoot(&s, snap, 80, 24, true);
    has(&s, "stoker top  ?[31mevil");
    has(&s, "?[2J?]0;owned??");
    has(&s, "a?b?");
    has(&s, "critical ?(0: ?c?");
    CHECK(top_key(&s.v, snap, 'k') == TOP_DRAW && s.v.kill_pid == 7);
    shoot(&s, snap, 80, 24, true); /* the question has the name too */
    sane(&s);
    has(&s, "end process 7 (?[2J");
    shot_release(&s);
    top_snap_free(snap);
}

TEST(cells_and_wide_characters)
{
    struct grid g;
    struct buf b = { 0 };

    grid_init(&g, 10, 2, true);
    assert_int_equal(grid_text(&g, 0, 0, 10, LOOK_PLAIN, "a\xe6\xbc\xa2z"), 4);
    CHECK(grid_at(&g, 0, 1)->ch == 0x6f22 && !grid_at(&g, 0, 2)->ch);
    grid_char(&g, 0, 2, LOOK_PLAIN, 'x'); /* half of it: both go */
    CHECK(grid_at(&g, 0, 1)->ch == ' ');
    assert_int_equal(grid_text(&g, 1, 0, 3, LOOK_PLAIN, "abcdef"), 3);
    CHECK(grid_at(&g, 1, 2)->ch == 0x2026); /* cut, and says so */
    assert_int_equal(grid_text(&g, 1, 8, 9, LOOK_PLAIN, "\xe6\xbc\xa2\xe6\xbc\xa2"), 2);
    grid_text(&g, 9, 0, 9, LOOK_PLAIN, "beyond");
    grid_text(&g, -1, 0, 9, LOOK_PLAIN, "beyond");
    grid_char(&g, 0, 10, LOOK_PLAIN, 'x');
    grid_text(&g, 0, 5, 5, LOOK_PLAIN, "\xff\xfe"); /* no UTF-8 */
    grid_print(&g, &b);
    CHECK(strstr(buf_str(&b), "??") != NULL);
    buf_release(&b);
    grid_release(&g);
    grid_init(&g, 4, 1, false);
    grid_text(&g, 0, 0, 4, LOOK_PLAIN, "\xc3\xa9l\xe2\x96\x88xyz");
    grid_print(&g, &b);
    assert_string_equal(buf_str(&b), "?l?~\n");
    buf_release(&b);
    grid_release(&g);
    grid_init(&g, 1 << 20, 1 << 20, true); /* a terminal that lies about its size */
    CHECK(g.cols == GRID_COLS_MAX && g.rows == GRID_ROWS_MAX);
    grid_release(&g);
    grid_init(&g, -1, 0, true);
    CHECK(g.cols == 0 && g.rows == 0);
    grid_release(&g);
}

/* A column of a plot: unknown is blank, zero is not. */
TEST(plots_tell_zero_from_unknown)
{
    struct docs d;
    struct top_snap *snap;
    struct shot s = { 0 };
    int row = 0;

    docs_begin(&d, 1);
    snap = docs_end(&d);
    top_view_init(&s.v);
    for (int i = 0; i < 4; i++) {
        snap->gpus[0].v[TOP_UTIL] = i == 1 ? NAN : i == 3 ? 100 : 0;
        snap->time_ms += 1000;
        top_history_add(&s.h, snap);
    }
    shoot(&s, snap, 80, 24, true);
    while (row < 23 && grid_at(&s.g, row, 0)->ch != 'u')
        row++; /* util of the card */
    for (row++; row < 23 && grid_at(&s.g, row, 0)->ch != 'u';)
        row++; /* utilisation, the plot */
    while (grid_at(&s.g, row + 1, 38)->ch == 0x2588)
        row++; /* the lowest row of the newest column */
    CHECK(grid_at(&s.g, row, 38)->ch == 0x2588);
    CHECK(grid_at(&s.g, row, 37)->ch == 0x2581);
    CHECK(grid_at(&s.g, row, 36)->ch == ' ');
    CHECK(grid_at(&s.g, row, 35)->ch == 0x2581);
    shot_release(&s);
    top_snap_free(snap);
}

TEST(plain_has_everything)
{
    struct docs d;
    struct top_snap *snap;
    struct shot s = { .f.plain = true };
    size_t lines = 0;

    docs_begin(&d, 12);
    for (int p = 0; p < 90; p++)
        add_process(&d, p % 12, p + 1, "\"command\":\"c\"", "\"memory_bytes\":1");
    snap = docs_end(&d);
    top_view_init(&s.v);
    s.f.snap = snap;
    shoot(&s, snap, 80, top_rows(&s.f), false);
    for (const char *p = buf_str(&s.text); (p = strchr(p, '\n')); p++)
        lines++;
    assert_int_equal(lines, 2 + 12 * 3 + 1 + 90);
    has(&s, "GPU 11  NVIDIA H200");
    has(&s, "     90 -");
    has_not(&s, "q quit");
    shot_release(&s);
    top_snap_free(snap);
}

TEST_MAIN(cmocka_unit_test(eight_gpus_on_80x24), cmocka_unit_test(every_size),
          cmocka_unit_test(small_screens_say_so), cmocka_unit_test(large_screens),
          cmocka_unit_test(no_gpu_and_nothing_yet), cmocka_unit_test(hostile_names),
          cmocka_unit_test(cells_and_wide_characters),
          cmocka_unit_test(plots_tell_zero_from_unknown), cmocka_unit_test(plain_has_everything))
