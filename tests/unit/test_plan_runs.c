/* SPDX-License-Identifier: MIT */
/* Sets, errors, the fit and its file, and properties of predicted times. */
#include "test.h"

#include "base/str.h"
#include "os/file.h"
#include "plan/runs.h"
#include "plan/time/step_time_int.h"
#include "plan/validate/validate_int.h"

#include <math.h>

static struct arena arena;
static struct plan_rows rows;
static struct plan_const_table consts;

static int setup(void **state)
{
    struct buf text = { 0 };

    (void)state;
    if (file_read("tests/fixtures/plan/runs.csv", 1 << 20, &text, NULL) ||
        plan_rows_read(&arena, buf_str(&text), text.len, &rows, NULL) ||
        plan_consts_table(&arena, &consts, NULL))
        return -1;
    buf_release(&text);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

TEST(fitted_sets_are_disjoint_and_every_row_has_a_reason_or_a_time)
{
    struct plan_time_report r;
    size_t used = 0, skipped = 0;

    CHECK(plan_validate_time(&arena, &rows, &consts, true, &r, NULL) == RC_OK);
    for (size_t i = 0; i < rows.count; i++) {
        int n = 0;

        for (int s = 0; s < PLAN_SETS_FITTED; s++)
            n += plan_set_has((enum plan_set)s, &rows.rows[i]);
        CHECK(n <= 1);
        CHECK((r.seconds[i] > 0) == !plan_row_no_time(&rows.rows[i]));
        CHECK(isfinite(r.seconds[i]));
    }
    for (size_t i = 0; i + 1 < r.source_count; i++) {
        used += r.sources[i].used;
        for (size_t k = 0; k < r.sources[i].reasons; k++)
            skipped += r.sources[i].skipped[k];
    }
    CHECK(used == r.sources[r.source_count - 1].used && used + skipped == rows.count);
    CHECK(r.left_n >= 5 && r.left_worst >= r.left_median && r.left_median > 0);
}

TEST(a_row_without_a_micro_batch_gets_the_best_one)
{
    size_t seen = 0;

    for (size_t i = 0; i < rows.count; i++) {
        const struct plan_row *r = &rows.rows[i];
        struct plan_consts_all k;
        struct plan_config c;
        double t;

        if (!plan_set_has(PLAN_SET_SC21, r))
            continue;
        plan_consts_each(&consts, &k);
        t = plan_row_seconds(r, plan_consts_for(&k, &r->cluster.gpu), &c);
        CHECK(t > 0 && (int64_t)c.micro_batch * c.grad_acc * c.dp == r->global_batch);
        CHECK(t <= plan_seconds(&r->model, &r->cluster, &c, plan_consts_for(&k, &r->cluster.gpu)));
        seen++;
    }
    CHECK(seen);
}

TEST(the_fit_is_deterministic_and_lowers_the_loss)
{
    struct plan_const_table a = {
        arena_memdup(&arena, consts.rows, consts.count * sizeof(*consts.rows)), consts.count
    };
    struct plan_const_table b = {
        arena_memdup(&arena, consts.rows, consts.count * sizeof(*consts.rows)), consts.count
    };
    struct plan_fit_report ra, rb;
    struct buf x = { 0 }, y = { 0 };

    CHECK(plan_fit(&arena, &rows, "a100", PLAN_SETS, &a, &ra, NULL) == RC_OK);
    CHECK(plan_fit(&arena, &rows, "a100", PLAN_SETS, &b, &rb, NULL) == RC_OK);
    CHECK(ra.free <= PLAN_FREE_MAX && ra.loss < ra.loss_start && ra.steps == rb.steps);
    plan_consts_write(&a, &x);
    plan_consts_write(&b, &y);
    CHECK(str_eq(buf_str(&x), buf_str(&y)));
    for (size_t i = 0; i < a.count; i++) /* what is fixed, and other kinds, stay */
        CHECK((a.rows[i].free && str_eq(a.rows[i].kind, "a100")) ||
              a.rows[i].value == consts.rows[i].value);
    buf_release(&x);
    buf_release(&y);
}

TEST(a_kind_without_rows_and_too_many_free_constants)
{
    struct plan_const_table t = {
        arena_memdup(&arena, consts.rows, consts.count * sizeof(*consts.rows)), consts.count
    };
    struct plan_fit_report report;
    struct plan_rows none = { rows.rows, 0 };
    struct err err = { 0 };

    CHECK(plan_fit(&arena, &none, "h100", PLAN_SETS, &t, &report, &err) == RC_LIMIT);
    CHECK(strstr(err.msg, "h100"));
    for (size_t i = 0; i < t.count; i++)
        if (str_eq(t.rows[i].kind, "all"))
            t.rows[i].kind = "h100", t.rows[i].free = true;
    CHECK(plan_fit(&arena, &rows, "h100", PLAN_SETS, &t, &report, &err) == RC_LIMIT);
}

TEST(the_file_of_constants_is_what_is_written)
{
    struct buf file = { 0 }, ours = { 0 };
    size_t free[3] = { 0 };
    static const char *const kinds[] = { "a100", "h100", "b200" };

    CHECK(file_read("data/plan.csv", 1 << 20, &file, NULL) == RC_OK);
    plan_consts_write(&consts, &ours);
    CHECK(str_eq(buf_str(&file), buf_str(&ours)));
    for (size_t i = 0; i < consts.count; i++) {
        CHECK(*consts.rows[i].meaning && *consts.rows[i].source);
        for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
            free[k] += consts.rows[i].free && str_eq(consts.rows[i].kind, kinds[k]);
        for (size_t k = 0; k < i; k++) /* once for a kind */
            CHECK(consts.rows[k].which != consts.rows[i].which ||
                  !str_eq(consts.rows[k].kind, consts.rows[i].kind));
    }
    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
        CHECK(free[k] > 0 && free[k] <= PLAN_FREE_MAX);
    buf_release(&file);
    buf_release(&ours);
}

TEST(constants_that_cannot_be)
{
    static const char *const bad[] = {
        "a,b\n1,2\n",
        "kind,name,value,free,start,width,meaning,source\nall,nothing,1,no,1,0,m,s\n",
        "kind,name,value,free,start,width,meaning,source\nall,gemm,x,no,1,0,m,s\n",
        "kind,name,value,free,start,width,meaning,source\nall,gemm,-1,no,1,0,m,s\n",
        "kind,name,value,free,start,width,meaning,source\na100,gemm,0,yes,1,1,m,s\n",
        "kind,name,value,free,start,width,meaning,source\na100,gemm,1,yes,1,0,m,s\n",
        "kind,name,value,free,start,width,meaning,source\na100,gemm,1,maybe,1,1,m,s\n",
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct plan_const_table t;
        struct err err = { 0 };

        CHECK(plan_consts_read(&arena, bad[i], strlen(bad[i]), &t, &err) == RC_PARSE);
        CHECK(err.msg[0]);
    }
}

TEST(the_picture_has_a_dot_a_row)
{
    struct plan_time_report r;
    struct buf svg = { 0 }, text = { 0 };
    size_t dots = 0;

    CHECK(plan_validate_time(&arena, &rows, &consts, false, &r, NULL) == RC_OK);
    plan_scatter_svg(&rows, &r, &svg);
    for (const char *p = buf_str(&svg); (p = strstr(p, "<circle")); p++)
        dots++;
    CHECK(dots == r.sources[r.source_count - 1].used);
    plan_scatter_text(&rows, &r, 1000, 1000, &text); /* cut to what there is room for */
    CHECK(text.len > 100);
    buf_release(&svg);
    buf_release(&text);
}

TEST(no_rows_at_all)
{
    struct plan_rows none = { rows.rows, 0 };
    struct plan_time_report r;
    struct buf svg = { 0 };

    CHECK(plan_validate_time(&arena, &none, &consts, true, &r, NULL) == RC_OK);
    CHECK(r.source_count == 1 && r.sources[0].used == 0 && r.left_n == 0);
    plan_scatter_svg(&none, &r, &svg);
    plan_scatter_text(&none, &r, 20, 8, &svg);
    buf_release(&svg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fitted_sets_are_disjoint_and_every_row_has_a_reason_or_a_time),
        cmocka_unit_test(a_row_without_a_micro_batch_gets_the_best_one),
        cmocka_unit_test(the_fit_is_deterministic_and_lowers_the_loss),
        cmocka_unit_test(a_kind_without_rows_and_too_many_free_constants),
        cmocka_unit_test(the_file_of_constants_is_what_is_written),
        cmocka_unit_test(constants_that_cannot_be),
        cmocka_unit_test(the_picture_has_a_dot_a_row),
        cmocka_unit_test(no_rows_at_all),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
