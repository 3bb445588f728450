/* SPDX-License-Identifier: MIT */
/* top_screen: the grid on a terminal, through ncurses.
 *
 * ncurses knows terminals; cells that did not change are not sent again, which is what makes this
 * usable over a slow ssh.  Signals come through a file descriptor, so that nothing is done in a
 * handler: the program ends, stops and continues in order, with the terminal given back. */
#define NCURSES_WIDECHAR 1
#include "base/mem.h"
#include "base/str.h"
#include "os/signals.h"
#include "top/top_int.h"

#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <term.h>
#include <unistd.h>

enum { SCREEN_ESCAPE_MS = 25, KEY_ESC = 27 }; /* a lone Esc, and a key that begins with one */

struct screen {
    SCREEN *terminal;
    int signals;
    bool utf8, colour;
    attr_t looks[LOOK_COUNT];
    short pairs[LOOK_COUNT];
};

enum rc top_signals(int *out_fd, struct err *err)
{
    static const int list[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP };

    (void)signal(SIGPIPE, SIG_IGN);
    return signals_watch(list, ARRAY_SIZE(list), out_fd, err);
}

/* Attributes say everything on a terminal without colours too. */
static void make_looks(struct screen *s)
{
    static const struct {
        attr_t attr;
        short colour;
    } rows[LOOK_COUNT] = {
        [LOOK_DIM] = { A_DIM, -1 },
        [LOOK_BOLD] = { A_BOLD, -1 },
        [LOOK_TITLE] = { A_NORMAL, COLOR_CYAN },
        [LOOK_GOOD] = { A_NORMAL, COLOR_GREEN },
        [LOOK_WARN] = { A_BOLD, COLOR_YELLOW },
        [LOOK_BAD] = { A_BOLD, COLOR_RED },
        [LOOK_HEAD] = { A_REVERSE, -1 },
        [LOOK_SELECTED] = { A_REVERSE | A_BOLD, -1 },
        [LOOK_PLAIN] = { A_NORMAL, -1 },
    };

    for (int i = 0; i < LOOK_COUNT; i++) {
        s->looks[i] = rows[i].attr;
        if (s->colour && rows[i].colour >= 0 && init_pair((short)i, rows[i].colour, -1) == OK)
            s->pairs[i] = (short)i;
    }
}

enum rc screen_open(int signal_fd, bool colour, struct screen **out, struct err *err)
{
    const char *term = getenv("TERM");
    struct screen *s;
    SCREEN *t;
    int found = 0;
    bool known;

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        err_hint(err, "Use --once to print one screen as text.");
        return err_set(err, RC_USAGE, "stdin and stdout are not a terminal");
    }
    (void)setlocale(LC_CTYPE, "");
    /* newterm() ends the program over a terminal that it does not know: setupterm() asks before */
    known = term && *term && setupterm(term, STDOUT_FILENO, &found) == OK;
    if (known)
        (void)del_curterm(cur_term);
    if (!known || !(t = newterm(term, stdout, stdin))) {
        err_hint(err, "Set TERM to a terminal that this machine knows, or use --once.");
        return err_set(err, RC_FAIL, "cannot draw on terminal '%s'", term ? term : "");
    }
    s = xcalloc(1, sizeof(*s));
    *s = (struct screen){ .terminal = t, .signals = signal_fd };
    s->utf8 = str_eq(nl_langinfo(CODESET), "UTF-8");
    s->colour = colour && has_colors() && start_color() == OK && use_default_colors() == OK;
    make_looks(s);
    set_escdelay(SCREEN_ESCAPE_MS);
    (void)cbreak();
    (void)noecho();
    (void)nonl();
    (void)keypad(stdscr, true);
    (void)nodelay(stdscr, true);
    (void)curs_set(0);
    *out = s;
    return RC_OK;
}

void screen_close(struct screen *s)
{
    if (!s)
        return;
    (void)endwin();
    delscreen(s->terminal);
    free(s);
}

void screen_size(const struct screen *s, int *cols, int *rows)
{
    (void)s;
    *cols = COLS;
    *rows = LINES;
}

bool screen_utf8(const struct screen *s)
{
    return s->utf8;
}

void screen_show(struct screen *s, const struct grid *g)
{
    (void)erase();
    for (int row = 0; row < g->rows && row < LINES; row++)
        for (int col = 0; col < g->cols && col < COLS; col++) {
            const struct grid_cell *c = grid_at(g, row, col);
            wchar_t text[2] = { (wchar_t)c->ch, 0 };
            cchar_t cell;

            if (c->ch && setcchar(&cell, text, s->looks[c->look], s->pairs[c->look], NULL) == OK)
                (void)mvadd_wch(row, col, &cell); /* the last cell of all is no error */
        }
    (void)refresh();
}

/* ---- what happens */
static void resize_screen(void)
{
    struct winsize w;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row > 0 && w.ws_col > 0)
        (void)resizeterm(w.ws_row, w.ws_col);
    (void)clearok(curscr, true);
}

/* Ctrl-Z: the terminal is the shell's until the program continues. */
static void suspend_screen(void)
{
    (void)def_prog_mode();
    (void)endwin();
    (void)raise(SIGSTOP);
    (void)reset_prog_mode();
    resize_screen();
}

static bool take_signal(struct screen *s, struct screen_event *e)
{
    struct signalfd_siginfo si;

    if (read(s->signals, &si, sizeof(si)) != (ssize_t)sizeof(si))
        return false;
    e->kind = SCREEN_RESIZE;
    if (si.ssi_signo == SIGTSTP)
        suspend_screen();
    else if (si.ssi_signo == SIGWINCH)
        resize_screen();
    else
        e->kind = SCREEN_END;
    return true;
}

static int key_of(int key)
{
    switch (key) {
    case KEY_UP:
        return TOP_KEY_UP;
    case KEY_DOWN:
        return TOP_KEY_DOWN;
    case KEY_PPAGE:
        return TOP_KEY_PAGE_UP;
    case KEY_NPAGE:
        return TOP_KEY_PAGE_DOWN;
    case KEY_HOME:
        return TOP_KEY_HOME;
    case KEY_END:
        return TOP_KEY_END;
    case KEY_LEFT:
        return TOP_KEY_LEFT;
    case KEY_RIGHT:
        return TOP_KEY_RIGHT;
    case KEY_ESC:
        return TOP_KEY_ESCAPE;
    default:
        return key < KEY_MIN ? key : 0;
    }
}

static bool take_key(struct screen_event *e)
{
    int key = getch();

    if (key == ERR)
        return false;
    key = key_of(key);
    if (key) /* others, and what ncurses says of a new size, are no keys of ours */
        *e = (struct screen_event){ .kind = SCREEN_KEY, .key = key };
    return key != 0;
}

struct screen_event screen_wait(struct screen *s, int fd, int ms)
{
    struct pollfd p[3] = { { .fd = s->signals, .events = POLLIN },
                           { .fd = STDIN_FILENO, .events = POLLIN },
                           { .fd = fd, .events = POLLIN } };
    struct screen_event e = { .kind = SCREEN_NOTHING };

    if (take_key(&e)) /* ncurses may hold some already */
        return e;
    if (poll(p, ARRAY_SIZE(p), ms) <= 0)
        return e;
    if ((p[0].revents & POLLIN) && take_signal(s, &e))
        return e;
    if (p[1].revents & (POLLHUP | POLLERR | POLLNVAL)) /* the terminal is gone */
        e.kind = SCREEN_END;
    else if (p[1].revents & POLLIN)
        (void)take_key(&e);
    return e;
}
