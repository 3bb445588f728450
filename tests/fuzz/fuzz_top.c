/* SPDX-License-Identifier: MIT */
/* An agent's documents as `stoker top` reads them, and what it then draws: whatever they say, no
 * control character stands in a cell.  The input is four documents and a query's, with a line
 * "---" between them. */
#include "fuzz.h"

#include "top/top_int.h"

#include <stdlib.h>
#include <string.h>

enum { PIECES = 5 };

static void draw(struct top_snap *s, struct top_history *h, int cols, int rows, bool plain)
{
    struct top_view v;
    struct top_frame f = { .snap = s,
                           .history = h,
                           .view = &v,
                           .from = s->host,
                           .clock = s->version,
                           .lost = plain ? NULL : s->driver,
                           .plain = plain };
    struct grid g;

    top_view_init(&v);
    for (int page = TOP_MAIN; page <= TOP_ALERTS; page++) {
        v.page = (enum top_page)page;
        grid_init(&g, cols, plain ? top_rows(&f) : rows, page != TOP_HELP);
        top_draw(&g, &f);
        for (int i = 0; i < g.cols * g.rows; i++)
            if ((g.cells[i].ch && g.cells[i].ch < ' ') ||
                (g.cells[i].ch > 0x7e && (!g.utf8 || g.cells[i].ch < 0xa0)))
                abort();
        grid_release(&g);
    }
}

static void read_all(const char *const text[PIECES], const size_t len[PIECES])
{
    struct top_docs d = { text[0], text[1], text[2], text[3], len[0], len[1], len[2], len[3] };
    struct top_history h = { 0 };
    struct top_snap *s = NULL, *again = NULL;
    struct err err = { 0 };

    if (top_snap_read(&d, &s, &err))
        return;
    if (s->gpu_count > TOP_GPUS_MAX || s->process_count > TOP_PROCESSES_MAX ||
        s->alert_count > TOP_ALERTS_MAX || s->firing > s->alert_count)
        abort();
    top_history_add(&h, s);
    (void)!top_history_fill(&h, TOP_LINE_UTIL, s, text[4], len[4], &err);
    err = (struct err){ 0 };
    if (top_snap_read(&d, &again, &err))
        abort();
    again->time_ms = s->time_ms < INT64_MAX - 1000 ? s->time_ms + 1000 : s->time_ms;
    top_snap_rates(again, s);
    top_history_add(&h, again);
    draw(again, &h, 80, 24, false);
    draw(again, &h, 100, 0, true);
    top_history_release(&h);
    top_snap_free(again);
    top_snap_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text[PIECES] = { NULL };
    size_t len[PIECES] = { 0 }, n = 0;
    char *copy = malloc(size + 1); /* its own block: a byte too far is seen */
    const char *p = copy, *end = copy + size;

    memcpy(copy, data, size);
    copy[size] = '\0';
    while (n < PIECES) {
        const char *cut = memmem(p, (size_t)(end - p), "---\n", 4);
        const char *stop = cut && n < PIECES - 1 ? cut : end;

        text[n] = p;
        len[n++] = (size_t)(stop - p);
        if (stop == end)
            break;
        p = stop + 4;
    }
    for (; n < PIECES; n++)
        text[n] = "";
    read_all(text, len);
    free(copy);
    return 0;
}
