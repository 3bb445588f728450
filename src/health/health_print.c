/* SPDX-License-Identifier: MIT */
/* health_print: a list of answers as lines for people and as JSON for programs.
 *
 *   gpu
 *     PASS     driver            580.159.04 answers
 *     FAIL     GPUs visible      GPU 3: fallen off the bus
 *              Reboot the node: …
 *     SKIP     2 checks          no NVSwitch here: fabric manager, fabric
 *
 *   12 passed, 1 warning, 1 failed, 2 skipped
 *
 * Evidence and remedy wrap at the terminal's width; without one (a pipe) a row is one
 * line, so that grep finds it whole. */
#include "base/str.h"
#include "base/text/json.h"
#include "health/health_int.h"

#include <assert.h>

enum {
    PRINT_INDENT = 2,
    PRINT_WORD = 9,         /* column of the status word */
    PRINT_TITLE_MIN = 12,   /* columns of titles: "4096 checks" fits */
    PRINT_EVIDENCE_MIN = 30 /* columns left for evidence, or it moves to a line of its own */
};

static enum table_colour status_colour(enum check_status s)
{
    static const enum table_colour colours[] = { COLOUR_GREEN, COLOUR_YELLOW, COLOUR_RED,
                                                 COLOUR_DIM, COLOUR_CYAN };

    static_assert(ARRAY_SIZE(colours) == CHECK_STATUS_COUNT, "a colour a status");
    return colours[s];
}

static const char *status_word(enum check_status s)
{
    static const char *const words[] = { "PASS", "WARN", "FAIL", "SKIP", "UNKNOWN" };

    static_assert(ARRAY_SIZE(words) == CHECK_STATUS_COUNT, "a word a status");
    return words[s];
}

/* Text whose first line starts at the cursor, which stands at column `col`. */
static void print_hanging(const struct term *term, struct buf *out, int col, const char *text)
{
    struct buf lines = { 0 };

    if (!term->width || !*text) {
        buf_addf(out, "%s\n", text);
        return;
    }
    term_wrap(term, &lines, col, text);
    assert(lines.len > (size_t)col);
    buf_add(out, lines.data + col, lines.len - (size_t)col);
    buf_release(&lines);
}

static void print_row(const struct term *term, struct buf *out, enum check_status s, int title_cols,
                      const char *title, const char *evidence)
{
    int col = PRINT_INDENT + PRINT_WORD + title_cols + 2;

    buf_fill(out, ' ', PRINT_INDENT);
    term_text(term, out, status_colour(s), "%s", status_word(s));
    buf_fill(out, ' ', PRINT_WORD - strlen(status_word(s)));
    buf_adds(out, title);
    if (term->width && term->width < col + PRINT_EVIDENCE_MIN) {
        col = PRINT_INDENT + PRINT_WORD;
        buf_addc(out, '\n');
        buf_fill(out, ' ', (size_t)col);
    } else {
        buf_fill(out, ' ', (size_t)title_cols + 2 - strlen(title));
    }
    print_hanging(term, out, col, evidence);
}

static void print_remedy(const struct term *term, struct buf *out, const char *remedy)
{
    int col = PRINT_INDENT + PRINT_WORD;

    buf_fill(out, ' ', (size_t)col);
    print_hanging(term, out, col, remedy);
}

static bool same_skip(const struct check_result *a, const struct check_result *b)
{
    return a->status == CHECK_SKIP && b->status == CHECK_SKIP && str_eq(a->group, b->group) &&
           str_eq(a->evidence, b->evidence);
}

/* Skipped checks of one group and one reason are one line, where the first stands. */
static void print_skip(const struct health_list *l, const struct term *term, struct buf *out,
                       size_t i, int title_cols)
{
    const struct check_result *r = &l->rows[i];
    struct buf text = { 0 };
    char count[32];
    size_t n = 0;

    buf_addf(&text, "%s: ", r->evidence);
    for (size_t j = 0; j < l->rows_count; j++) {
        if (!same_skip(r, &l->rows[j]))
            continue;
        if (j < i)
            goto out_release; /* the first of them has printed this line */
        buf_addf(&text, "%s%s", n ? ", " : "", l->rows[j].title);
        n++;
    }
    snprintf(count, sizeof(count), "%zu checks", n);
    if (n == 1)
        print_row(term, out, CHECK_SKIP, title_cols, r->title, r->evidence);
    else
        print_row(term, out, CHECK_SKIP, title_cols, count, buf_str(&text));
out_release:
    buf_release(&text);
}

static void print_summary(const struct health_list *l, const struct term *term, struct buf *out)
{
    const size_t *n = l->counts;
    enum check_status worst = health_worst(l);

    term_text(term, out, status_colour(worst), "%zu passed, %zu %s, %zu failed", n[CHECK_PASS],
              n[CHECK_WARN], n[CHECK_WARN] == 1 ? "warning" : "warnings", n[CHECK_FAIL]);
    if (n[CHECK_SKIP])
        buf_addf(out, ", %zu skipped", n[CHECK_SKIP]);
    if (n[CHECK_UNKNOWN])
        buf_addf(out, ", %zu unknown", n[CHECK_UNKNOWN]);
    buf_addc(out, '\n');
}

void health_print(const struct health_list *list, const struct term *term, struct buf *out)
{
    int title_cols = PRINT_TITLE_MIN;

    for (size_t i = 0; i < list->rows_count; i++)
        if ((int)strlen(list->rows[i].title) > title_cols)
            title_cols = (int)strlen(list->rows[i].title);
    for (size_t i = 0; i < list->rows_count; i++) {
        const struct check_result *r = &list->rows[i];

        if (i == 0 || !str_eq(r->group, list->rows[i - 1].group)) {
            buf_adds(out, i ? "\n" : "");
            term_text(term, out, COLOUR_BOLD, "%s", r->group);
            buf_addc(out, '\n');
        }
        if (r->status == CHECK_SKIP) {
            print_skip(list, term, out, i, title_cols);
            continue;
        }
        print_row(term, out, r->status, title_cols, r->title, r->evidence);
        if (r->remedy)
            print_remedy(term, out, r->remedy);
    }
    buf_addc(out, '\n');
    print_summary(list, term, out);
}

static void json_row(struct json_out *w, const struct check_result *r)
{
    json_obj(w);
    json_kv_str(w, "id", r->id);
    json_kv_str(w, "group", r->group);
    json_kv_str(w, "title", r->title);
    json_kv_str(w, "status", health_status_name(r->status));
    json_kv_arr(w, "objects");
    for (size_t i = 0; i < r->objects_count; i++)
        json_add_str(w, r->objects[i]);
    json_arr_end(w);
    json_kv_str(w, "seen", r->seen);
    json_kv_str(w, "evidence", r->evidence);
    json_kv_str(w, "remedy", r->remedy);
    json_obj_end(w);
}

void health_json(const struct health_list *list, struct buf *out)
{
    struct json_out w;

    json_out_init(&w, out, 2);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.checks/1");
    json_kv_str(&w, "worst", health_status_name(health_worst(list)));
    json_kv_obj(&w, "counts");
    for (int s = 0; s < CHECK_STATUS_COUNT; s++)
        json_kv_int(&w, health_status_name((enum check_status)s), (int64_t)list->counts[s]);
    json_obj_end(&w);
    json_kv_arr(&w, "checks");
    for (size_t i = 0; i < list->rows_count; i++)
        json_row(&w, &list->rows[i]);
    json_arr_end(&w);
    json_obj_end(&w);
}
