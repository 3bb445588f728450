/* SPDX-License-Identifier: MIT */
/* top_draw: the layout.
 *
 *     head     2 rows   where, state, time; the host
 *     alerts   0 to 2   the worst that fire
 *     GPUs              cards of three rows if all fit, else a line each
 *     plots             when there is room for them and for some processes
 *     table             the rest
 *     foot     1 row    keys, a question, a word */
#include "base/text/utf8.h"
#include "top/top_int.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    HEAD_ROWS = 2,
    ALERT_ROWS = 2, /* at most */
    TABLE_ROWS = 4, /* at least */
    PLOT_ROWS = 4,  /* at least */
    PLOT_ROWS_MOST = 12
};

/* ---- head and foot */
static void state_text(const struct top_frame *f, char *out, size_t cap)
{
    if (f->lost)
        (void)snprintf(out, cap, "OLD %.0f s", f->age_s);
    else if (f->view->paused)
        (void)snprintf(out, cap, "PAUSED %s", f->clock);
    else
        (void)snprintf(out, cap, "%s", f->clock);
}

/* A piece of the head, when it fits as a whole. */
static int head_piece(struct grid *g, int col, int room, enum grid_look look, const char *text)
{
    int need = (int)utf8_width(text) + 2;

    return room - col < need ? 0 : 2 + grid_text(g, 0, col + 2, need, look, text);
}

static void draw_head(struct grid *g, const struct top_frame *f)
{
    const struct top_snap *s = f->snap;
    char state[DRAW_WORD_MAX], text[sizeof(s->note) + DRAW_WORD_MAX];
    int col, len, room;

    state_text(f, state, sizeof(state));
    len = (int)strlen(state);
    room = g->cols - len - 1;
    col = grid_textf(g, 0, 0, room, LOOK_BOLD, "stoker top  %s", s->host);
    if (s->demo || s->note[0]) /* this is said whatever the width is */
        col += grid_textf(g, 0, col, room - col, LOOK_WARN, "  %s%s%s", s->demo ? "DEMO" : "replay",
                          s->note[0] ? ": " : "", s->note);
    if (s->gpu_count && s->gpus[0].name[0]) {
        (void)snprintf(text, sizeof(text), "%zu x %s", s->gpu_count, s->gpus[0].name);
        col += head_piece(g, col, room, LOOK_PLAIN, text);
    }
    if (s->gpu_count && s->gpus[0].driver[0]) {
        (void)snprintf(text, sizeof(text), "driver %s", s->gpus[0].driver);
        col += head_piece(g, col, room, LOOK_DIM, text);
    }
    (void)head_piece(g, col, room, LOOK_DIM, f->from);
    grid_right(g, 0, g->cols - len, len,
               f->lost           ? LOOK_BAD
               : f->view->paused ? LOOK_WARN
                                 : LOOK_BOLD,
               state);
}

static double sum_of(const struct top_snap *s, enum top_value v, bool mean)
{
    double sum = 0;
    size_t known = 0;

    for (size_t i = 0; i < s->gpu_count; i++)
        if (!isnan(s->gpus[i].v[v])) {
            sum += s->gpus[i].v[v];
            known++;
        }
    return !known ? (double)NAN : mean ? sum / (double)known : sum;
}

static void draw_host(struct grid *g, const struct top_frame *f, int row)
{
    const struct top_snap *s = f->snap;
    char a[DRAW_WORD_MAX], b[DRAW_WORD_MAX], load[DRAW_WORD_MAX] = "-";
    double total = s->host_v[TOP_HOST_MEM_TOTAL];
    int col = 0;

    if (!isnan(s->host_v[TOP_HOST_LOAD]))
        (void)snprintf(load, sizeof(load), "%.2f", s->host_v[TOP_HOST_LOAD]);
    col += grid_textf(g, row, col, g->cols, LOOK_PLAIN, "cpu %s  load %s",
                      draw_percent(s->host_v[TOP_HOST_CPU], a), load);
    col += grid_textf(g, row, col, g->cols, LOOK_PLAIN, "  mem %s/%s",
                      draw_bytes(total - s->host_v[TOP_HOST_MEM_FREE], a), draw_bytes(total, b));
    col +=
        grid_textf(g, row, col, g->cols, LOOK_PLAIN, "  %zu GPU%s: util %s  power %s", s->gpu_count,
                   s->gpu_count == 1 ? "" : "s", draw_percent(sum_of(s, TOP_UTIL, true), a),
                   draw_number(sum_of(s, TOP_POWER, false), "W", b));
    if (s->firing)
        (void)grid_textf(g, row, col, g->cols - col, LOOK_BAD, "  %zu alert%s", s->firing,
                         s->firing == 1 ? "" : "s");
    else
        (void)grid_text(g, row, col, g->cols - col, LOOK_DIM, "  no alert");
}

static void draw_foot(struct grid *g, const struct top_frame *f, int row)
{
    const struct top_view *v = f->view;

    if (v->kill_pid)
        (void)grid_textf(g, row, 0, g->cols, LOOK_BAD,
                         "end process %lld (%.40s)?  y: SIGTERM  9: SIGKILL  other keys: no",
                         (long long)v->kill_pid, v->kill_command);
    else if (v->note[0])
        (void)grid_text(g, row, 0, g->cols, LOOK_WARN, v->note);
    else if (f->lost)
        (void)grid_textf(g, row, 0, g->cols, LOOK_BAD, "no connection, trying again: %s", f->lost);
    else
        (void)grid_text(g, row, 0, g->cols, LOOK_DIM,
                        "q quit  ? help  0-9 GPU  < > sort  k end  g plots  + - span  p pause  "
                        "a alerts");
}

/* ---- alerts */
static void draw_alert(struct grid *g, int row, const struct top_alert *a)
{
    static const char *const words[] = { "info", "warning", "critical" };
    enum grid_look look = !a->firing                    ? LOOK_DIM
                          : a->severity == TOP_CRITICAL ? LOOK_BAD
                          : a->severity == TOP_WARNING  ? LOOK_WARN
                                                        : LOOK_PLAIN;

    (void)grid_textf(g, row, a->below ? 2 : 0, g->cols - (a->below ? 2 : 0), look, "%s%s%s %s: %s",
                     a->below ? "└ " : "", a->firing ? "" : "pending ", words[a->severity], a->name,
                     a->text);
}

static int draw_firing(struct grid *g, const struct top_frame *f, int row, int rows)
{
    int n = 0;

    for (size_t i = 0; n < rows && i < f->snap->alert_count; i++)
        if (f->snap->alerts[i].firing && !f->snap->alerts[i].below)
            draw_alert(g, row + n++, &f->snap->alerts[i]);
    return n;
}

static void draw_alerts_page(struct grid *g, const struct top_frame *f)
{
    const struct top_snap *s = f->snap;

    draw_head(g, f);
    (void)grid_textf(g, 1, 0, g->cols, LOOK_TITLE, "alerts: %zu firing, %zu pending", s->firing,
                     s->alert_count - s->firing);
    for (size_t i = 0; i < s->alert_count && (int)i + 4 < g->rows; i++)
        draw_alert(g, (int)i + 3, &s->alerts[i]);
    (void)grid_text(g, g->rows - 1, 0, g->cols, LOOK_DIM, "any key goes back");
}

/* ---- help */
static void draw_help(struct grid *g)
{
    static const char *const rows[][2] = {
        { "q, Ctrl-C", "quit" },
        { "0-9, [ and ]", "one GPU alone; again, or Esc: all" },
        { "up, down, page, home, end", "select a process" },
        { "< and >, left and right", "sort by the column beside; r: the other way" },
        { "N U G T P M C H J O", "sort by pid, user, GPU, type, GPU %, GPU memory," },
        { "", "CPU %, host memory, job, command" },
        { "k", "end the selected process, after a question; here only" },
        { "g", "plots on and off" },
        { "+ and -", "plots over a shorter and longer time" },
        { "p, space", "pause" },
        { "a", "all alerts" },
        { "h, ?", "this page" },
        { "", "" },
        { "tens, tensor", "share of time that tensor cores work" },
        { "throttle", "why clocks are held back" },
        { "PCIe, NVL: rx, tx", "bytes a second that the GPU receives, sends" },
        { "-", "unknown, which is not 0" },
    };

    (void)grid_text(g, 0, 0, g->cols, LOOK_BOLD, "stoker top: keys");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        (void)grid_text(g, (int)i + 2, 0, 26, LOOK_TITLE, rows[i][0]);
        (void)grid_text(g, (int)i + 2, 27, g->cols - 27, LOOK_PLAIN, rows[i][1]);
    }
    (void)grid_text(g, g->rows - 1, 0, g->cols, LOOK_DIM, "any key goes back");
}

/* ---- the whole */
static int draw_gpus(struct grid *g, const struct top_frame *f, int row, int rows, bool cards)
{
    if (!f->snap->gpu_count) {
        (void)grid_textf(g, row, 0, g->cols, LOOK_WARN, "no GPU is known here%s%s",
                         f->snap->driver[0] ? ": " : "", f->snap->driver);
        return 1;
    }
    return cards ? draw_gpu_cards(g, f, row, rows) : draw_gpu_list(g, f, row, rows);
}

static void draw_main(struct grid *g, const struct top_frame *f)
{
    int row = HEAD_ROWS, end = g->rows - (f->plain ? 0 : 1), cards, plots;

    draw_head(g, f);
    draw_host(g, f, 1);
    row += draw_firing(g, f, row, f->plain ? TOP_ALERTS_MAX : ALERT_ROWS);
    cards = (int)draw_gpu_count(f) * DRAW_CARD_ROWS;
    plots = f->view->no_plots || f->plain ? 0 : PLOT_ROWS;
    row += draw_gpus(g, f, row, end - row - TABLE_ROWS, row + cards + plots + TABLE_ROWS <= end);
    if (plots && f->snap->gpu_count && end - row >= PLOT_ROWS + TABLE_ROWS) {
        plots = (end - row) / 2;
        plots = plots < PLOT_ROWS ? PLOT_ROWS : plots > PLOT_ROWS_MOST ? PLOT_ROWS_MOST : plots;
        draw_plots(g, f, row, plots);
        row += plots;
    }
    draw_table(g, f, row, end - row);
    if (!f->plain)
        draw_foot(g, f, g->rows - 1);
}

int top_rows(const struct top_frame *f)
{
    size_t processes = f->snap->process_count;

    return (int)(HEAD_ROWS + f->snap->firing + 1 +
                 (f->snap->gpu_count ? f->snap->gpu_count * DRAW_CARD_ROWS : 1) +
                 (processes > TABLE_ROWS ? processes : TABLE_ROWS));
}

void top_draw(struct grid *g, const struct top_frame *f)
{
    if (!f->plain && (g->cols < TOP_COLS_MIN || g->rows < TOP_ROWS_MIN)) {
        (void)grid_textf(g, 0, 0, g->cols, LOOK_PLAIN, "%dx%d is too small:", g->cols, g->rows);
        (void)grid_textf(g, 1, 0, g->cols, LOOK_PLAIN, "%dx%d at least, q quits", TOP_COLS_MIN,
                         TOP_ROWS_MIN);
    } else if (f->view->page == TOP_HELP) {
        draw_help(g);
    } else if (!f->snap) {
        (void)grid_textf(g, 0, 0, g->cols, LOOK_BOLD, "stoker top  %s", f->from);
        (void)grid_text(g, 2, 0, g->cols, f->lost ? LOOK_BAD : LOOK_DIM,
                        f->lost ? f->lost : "waiting for the first second");
        (void)grid_text(g, g->rows - 1, 0, g->cols, LOOK_DIM,
                        f->lost ? "no connection, trying again; q quits" : "q quits");
    } else if (f->view->page == TOP_ALERTS) {
        draw_alerts_page(g, f);
    } else {
        draw_main(g, f);
    }
}
