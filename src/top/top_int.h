/* SPDX-License-Identifier: MIT */
/* top_int: what the files of top share; README.md has the picture.  An unknown value is NaN here
 * and '-' on the screen. */
#ifndef TOP_TOP_INT_H
#define TOP_TOP_INT_H
#include "base/err.h"
#include "base/text/json.h"
#include "top/grid_int.h"
#include "top/top.h"

enum {
    TOP_GPUS_MAX = 256,       /* of a node; further ones are left out */
    TOP_PROCESSES_MAX = 4096, /* of a node, on GPUs */
    TOP_ALERTS_MAX = 256,     /* pending and firing */
    TOP_BODY_MAX = 16 << 20,  /* bytes of a document */
    TOP_HISTORY_MAX = 3600,   /* samples of a line */
    TOP_COLS_MIN = 60,        /* a smaller screen says so instead */
    TOP_ROWS_MIN = 12
};

/* ---- top_model.c: a second of a node */
enum top_value {           /* of a GPU */
                 TOP_UTIL, /* % */
                 TOP_MEM_USED,
                 TOP_MEM_TOTAL, /* bytes */
                 TOP_TEMP,
                 TOP_TEMP_MEM,
                 TOP_TEMP_SLOW, /* degrees Celsius; where it slows down */
                 TOP_POWER,
                 TOP_POWER_LIMIT, /* W */
                 TOP_CLOCK_SM,
                 TOP_CLOCK_SM_MAX,
                 TOP_CLOCK_MEM, /* MHz */
                 TOP_SM,
                 TOP_TENSOR,
                 TOP_DRAM, /* ratio of the time that they work */
                 TOP_PCIE_RX,
                 TOP_PCIE_TX, /* bytes a second */
                 TOP_PCIE_RX_BYTES,
                 TOP_PCIE_TX_BYTES, /* so far */
                 TOP_PCIE_GEN,
                 TOP_PCIE_WIDTH,
                 TOP_NVLINK_RX,
                 TOP_NVLINK_TX, /* bytes a second */
                 TOP_NVLINK_RX_BYTES,
                 TOP_NVLINK_TX_BYTES, /* so far */
                 TOP_NVLINK_LINKS,
                 TOP_REASONS, /* bits: why clocks are held back */
                 TOP_LOST,
                 TOP_ENCODER,
                 TOP_DECODER, /* % */
                 TOP_FAN,     /* %; most data-centre GPUs have none */
                 TOP_VALUES
};
enum top_host_value {
    TOP_HOST_CPU, /* % */
    TOP_HOST_MEM_TOTAL,
    TOP_HOST_MEM_FREE, /* bytes */
    TOP_HOST_LOAD,
    TOP_HOST_VALUES
};

struct top_gpu {
    int index;
    char name[64], driver[32];
    double v[TOP_VALUES];
};

struct top_process {
    int64_t pid;
    int gpu, instance; /* instance: of MIG, -1: none */
    char type;         /* 'C' compute, 'G' graphics, 0 unknown */
    char user[64], job[96], command[256];
    double util, memory;    /* %, bytes of the GPU */
    double cpu_s, cpu, rss; /* seconds so far, % of a core, bytes of the host */
};

enum top_severity { TOP_INFO, TOP_WARNING, TOP_CRITICAL };
struct top_alert {
    enum top_severity severity;
    bool firing; /* else pending */
    bool below;  /* it follows from another one */
    char name[64], text[256];
    char id[96]; /* of the one above it, else its own; "": an agent that does not say */
};

struct top_snap {
    char host[64], version[32], note[128];
    char driver[128]; /* trouble with the driver, for people; "": none is known */
    bool demo;
    int64_t time_ms; /* the agent's clock; 0: unknown */
    int period_ms;
    double host_v[TOP_HOST_VALUES];
    struct top_gpu *gpus;          /* owned, by index */
    struct top_process *processes; /* owned, by pid and GPU */
    struct top_alert *alerts;      /* owned, firing and worst first, what follows below it */
    size_t gpu_count, process_count, alert_count, firing;
};

/* What the API says at these paths; texts are borrowed.  A text that is NULL or empty is
 * nothing known, but `node` must be there. */
struct top_docs {
    const char *node, *series, *processes, *alerts;
    size_t node_len, series_len, processes_len, alerts_len;
};
extern const char top_series_path[]; /* "/api/v1/series?metric=…", all that is shown */

/* RC_PARSE: what came is not an agent's; RC_LIMIT: it is too long. */
enum rc top_snap_read(const struct top_docs *d, struct top_snap **out, struct err *err) MUST_USE;
void top_snap_free(struct top_snap *s); /* NULL is fine */
/* What two snapshots tell: rates of counters where the agent gave none, CPU of processes. */
void top_snap_rates(struct top_snap *s, const struct top_snap *before);
/* Why clocks are held back, in words: "power cap, thermal (HW)"; "none"; "-": unknown. */
enum grid_look top_reasons(double mask, char *out, size_t cap);

/* ---- top_history.c */
enum top_line { TOP_LINE_UTIL, TOP_LINE_MEM, TOP_LINE_TENSOR, TOP_LINE_POWER, TOP_LINES }; /* % */
struct top_history {
    int period_ms;
    int64_t newest;            /* time of the newest sample in periods; 0: none yet */
    float *gpus[TOP_GPUS_MAX]; /* owned: TOP_LINES times TOP_HISTORY_MAX, by time; NULL: none */
};
void top_history_release(struct top_history *h);
void top_history_add(struct top_history *h, const struct top_snap *s);
/* What the agent remembers of a line, as /api/v1/query says it; older than what is there. */
enum rc top_history_fill(struct top_history *h, enum top_line line, const struct top_snap *s,
                         const char *text, size_t len, struct err *err) MUST_USE;
const char *top_history_metric(enum top_line line);
/* The mean of `count` samples, the last of them `back` before the newest; of one GPU or, with -1,
 * over all.  NaN: unknown. */
double top_history_at(const struct top_history *h, int gpu, enum top_line line, int64_t back,
                      int count);

/* ---- top_view.c */
enum top_sort {
    TOP_BY_PID,
    TOP_BY_USER,
    TOP_BY_GPU,
    TOP_BY_TYPE,
    TOP_BY_UTIL,
    TOP_BY_MEMORY,
    TOP_BY_CPU,
    TOP_BY_RSS,
    TOP_BY_JOB,
    TOP_BY_COMMAND,
    TOP_SORTS
};
enum top_page { TOP_MAIN, TOP_HELP, TOP_ALERTS };
enum {
    TOP_KEY_UP = 0x200000,
    TOP_KEY_DOWN,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_HOME,
    TOP_KEY_END,
    TOP_KEY_LEFT,
    TOP_KEY_RIGHT,
    TOP_KEY_ESCAPE
}; /* beyond every character */

struct top_view {
    enum top_page page;
    int gpu; /* the chosen one; -1: all */
    enum top_sort sort;
    bool reverse, no_plots, paused;
    bool may_kill; /* processes are of this machine */
    int zoom;      /* which of the spans a column has */
    int scroll;    /* first row of the table shown */
    int page_rows; /* rows of it that were shown */
    int row;       /* of the table, selected */
    int64_t pid;   /* of the process there; 0: none */
    int pid_gpu;
    int64_t kill_pid; /* asked for, or to be ended; 0: none */
    char kill_command[256];
    int kill_signal;
    char note[200]; /* for the last line, until the next key; "": none */
};
enum top_action { TOP_NONE, TOP_DRAW, TOP_QUIT, TOP_KILL };
void top_view_init(struct top_view *v);
/* What a key (a character, or TOP_KEY_*) means now. */
enum top_action top_key(struct top_view *v, const struct top_snap *s, int key);
/* Indices of the processes that are shown, sorted; owned by the caller. */
size_t *top_sorted(const struct top_view *v, const struct top_snap *s, size_t *count) MUST_USE;
/* The row that the selected process has now; it becomes the row selected. */
void top_select(struct top_view *v, const struct top_snap *s, const size_t *order, size_t count);
int top_zoom_s(const struct top_view *v); /* periods a column */

/* ---- top_draw.c */
struct top_frame {
    const struct top_snap *snap; /* NULL: nothing has come yet */
    const struct top_history *history;
    struct top_view *view;
    const char *from;  /* where it comes from, for people */
    const char *clock; /* of the snapshot, as text */
    const char *lost;  /* why nothing new comes; NULL: it does */
    double age_s;      /* of the snapshot, when lost */
    bool plain;        /* for a pipe: everything, no keys, no plots */
};
void top_draw(struct grid *g, const struct top_frame *f);
int top_rows(const struct top_frame *f); /* that a plain frame needs */

/* ---- draw_gpu.c, draw_plot.c, draw_table.c */
enum { DRAW_CARD_ROWS = 3, DRAW_WORD_MAX = 64 };

/* A figure for people in at most five columns; "-" when unknown. */
const char *draw_bytes(double bytes, char out[DRAW_WORD_MAX]); /* 1.5G, of 1024 */
const char *draw_rate(double rate, char out[DRAW_WORD_MAX]);   /* 1.5G, of 1000 */
const char *draw_number(double v, const char *unit, char out[DRAW_WORD_MAX]);
const char *draw_percent(double v, char out[DRAW_WORD_MAX]);
bool draw_shown(const struct top_frame *f, const struct top_gpu *g); /* of the chosen ones */
size_t draw_gpu_count(const struct top_frame *f);

/* Rows from `row` on, at most `rows`; how many were taken. */
int draw_gpu_list(struct grid *g, const struct top_frame *f, int row, int rows);
int draw_gpu_cards(struct grid *g, const struct top_frame *f, int row, int rows);
void draw_plots(struct grid *g, const struct top_frame *f, int row, int rows);
void draw_table(struct grid *g, const struct top_frame *f, int row, int rows);

/* ---- top_source.c: a thread that asks */
struct top_source;
enum rc top_source_new(const struct top_source_opts *o, struct top_source **out,
                       struct err *err) MUST_USE;
void top_source_free(struct top_source *s);    /* NULL is fine */
int top_source_fd(const struct top_source *s); /* readable: something is there to take */
/* What came since: the newest snapshot (the caller's; NULL: none), whether nothing comes any more
 * and why, and history into `h`. */
struct top_news {
    struct top_snap *snap;
    bool lost;
    char why[256];
};
void top_source_take(struct top_source *s, struct top_history *h, struct top_news *out);

/* ---- top_screen.c */
struct screen;
struct screen_event {
    enum { SCREEN_NOTHING, SCREEN_KEY, SCREEN_RESIZE, SCREEN_END } kind;
    int key; /* as top_key() takes it */
};
/* Takes the terminal; signals that end or resize are blocked by top_signals() before. */
enum rc screen_open(int signal_fd, bool colour, struct screen **out, struct err *err) MUST_USE;
void screen_size(const struct screen *s, int *cols, int *rows);
bool screen_utf8(const struct screen *s);
void screen_show(struct screen *s, const struct grid *g);
/* Waits for a key, a signal, `fd` or until so many ms have passed. */
struct screen_event screen_wait(struct screen *s, int fd, int ms);
void screen_close(struct screen *s); /* gives the terminal back as it was; NULL is fine */

#endif
