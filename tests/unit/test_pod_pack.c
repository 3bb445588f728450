/* SPDX-License-Identifier: MIT */
/* plan/feasible/pod_pack.c: what it says of many small questions is what trying every way says;
 * large ones are answered at once; who is where adds up. */
#include "test.h"

#include "plan/feasible/pod_pack_int.h"

#include <stdlib.h>
#include <string.h>

enum { DIMS = 2, KINDS = 3, GROUPS = 2, MACHINES = 4 };

struct question { /* small enough to try everything */
    int64_t room[GROUPS][DIMS], need[KINDS][DIMS];
    bool may[KINDS][GROUPS];
    struct pack_machines machines[GROUPS];
    struct pack_pods pods[KINDS];
    struct pack p;
};

static unsigned dice(unsigned *seed, unsigned sides)
{
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 16) % sides;
}

static void question_make(struct question *q, unsigned *seed)
{
    *q = (struct question){ 0 };
    for (size_t g = 0; g < GROUPS; g++) {
        for (size_t d = 0; d < DIMS; d++)
            q->room[g][d] = 3 + dice(seed, 8);
        q->machines[g] = (struct pack_machines){ (int64_t)dice(seed, 3), q->room[g] };
    }
    for (size_t k = 0; k < KINDS; k++) {
        for (size_t d = 0; d < DIMS; d++)
            q->need[k][d] = dice(seed, 6);
        for (size_t g = 0; g < GROUPS; g++)
            q->may[k][g] = dice(seed, 4) != 0;
        q->pods[k] = (struct pack_pods){ (int64_t)dice(seed, 4), q->need[k], dice(seed, 3) ? 0 : 1,
                                         q->may[k] };
    }
    q->p = (struct pack){ DIMS, GROUPS, KINDS, q->machines, q->pods, 0 };
}

struct machine {
    size_t group;
    int64_t room[DIMS], held[KINDS];
};

static bool tried(const struct question *q, struct machine *m, size_t machines, size_t kind,
                  int64_t pod)
{
    while (kind < KINDS && pod == q->pods[kind].count) {
        kind++;
        pod = 0;
    }
    if (kind == KINDS)
        return true;
    for (size_t i = 0; i < machines; i++) {
        bool fits = q->may[kind][m[i].group] && !(q->pods[kind].most && m[i].held[kind]);

        for (size_t d = 0; d < DIMS; d++)
            fits = fits && m[i].room[d] >= q->need[kind][d];
        if (!fits)
            continue;
        for (size_t d = 0; d < DIMS; d++)
            m[i].room[d] -= q->need[kind][d];
        m[i].held[kind]++;
        if (tried(q, m, machines, kind, pod + 1))
            return true;
        for (size_t d = 0; d < DIMS; d++)
            m[i].room[d] += q->need[kind][d];
        m[i].held[kind]--;
    }
    return false;
}

static bool every_way(const struct question *q)
{
    struct machine m[MACHINES] = { 0 };
    size_t count = 0;

    for (size_t g = 0; g < GROUPS; g++)
        for (int64_t i = 0; i < q->machines[g].count; i++) {
            m[count].group = g;
            memcpy(m[count].room, q->room[g], sizeof(m[count].room));
            count++;
        }
    return tried(q, m, count, 0, 0);
}

/* Machines are not overfull, and every pod has one. */
static void check_runs(const struct pack *p, const struct pack_runs *runs)
{
    int64_t(*used)[8] = calloc(4096, sizeof(*used));
    int64_t placed[8] = { 0 };

    for (size_t r = 0; r < runs->count; r++) {
        const struct pack_run *x = &runs->items[r];
        const struct pack_pods *k = &p->pods[x->pod_kind];

        assert_true(k->may[x->machine_kind]);
        assert_true(x->first >= 0 && x->first + x->count <= p->machines[x->machine_kind].count);
        assert_true(!k->most || x->each <= k->most);
        placed[x->pod_kind] += x->count * x->each;
        for (int64_t i = x->first; i < x->first + x->count; i++)
            for (size_t d = 0; d < p->dims; d++) {
                int64_t *u = &used[x->machine_kind * 2048 + (size_t)i][d];

                *u += x->each * k->need[d];
                assert_true(*u <= p->machines[x->machine_kind].room[d]);
            }
    }
    for (size_t k = 0; k < p->pod_kinds; k++)
        assert_int_equal(placed[k], p->pods[k].count);
    free(used);
}

TEST(as_trying_every_way)
{
    unsigned seed = 7;
    size_t fits = 0, no = 0;

    for (int i = 0; i < 4000; i++) {
        struct arena a = { 0 };
        struct pack_runs runs = { 0 };
        struct question q;
        enum pack_answer answer;

        question_make(&q, &seed);
        answer = pack_solve(&a, &q.p, &runs);
        assert_int_equal(answer, every_way(&q) ? PACK_FITS : PACK_NO);
        if (answer == PACK_FITS)
            check_runs(&q.p, &runs);
        fits += answer == PACK_FITS;
        no += answer == PACK_NO;
        arena_release(&a);
    }
    assert_true(fits > 500 && no > 500); /* both answers were put to the test */
}

static enum pack_answer ask(const int64_t *room, int64_t machines, size_t dims,
                            const int64_t (*needs)[2], const int64_t *counts, size_t kinds)
{
    static const bool may[1] = { true };
    struct pack_machines m = { machines, room };
    struct pack_pods pods[8];
    struct arena a = { 0 };
    struct pack_runs runs = { 0 };
    struct pack p = { dims, 1, kinds, &m, pods, 0 };
    enum pack_answer answer;

    for (size_t k = 0; k < kinds; k++)
        pods[k] = (struct pack_pods){ counts[k], needs[k], 0, may };
    answer = pack_solve(&a, &p, &runs);
    if (answer == PACK_FITS && machines <= 2048)
        check_runs(&p, &runs);
    arena_release(&a);
    return answer;
}

/* GPUs and CPUs; sums alone would let the second one pass. */
TEST(whole_machines)
{
    static const int64_t room[] = { 8, 256 }, needs[][2] = { { 8, 200 }, { 1, 10 }, { 5, 50 } };

    assert_int_equal(ask(room, 4, 2, needs, (int64_t[]){ 3, 8, 0 }, 3), PACK_FITS);
    assert_int_equal(ask(room, 4, 2, needs, (int64_t[]){ 3, 9, 0 }, 3), PACK_NO);
    assert_int_equal(ask(room, 4, 2, needs, (int64_t[]){ 0, 0, 5 }, 3), PACK_NO);
    assert_int_equal(ask(room, 4, 2, needs, (int64_t[]){ 0, 12, 4 }, 3), PACK_FITS);
    assert_int_equal(ask(room, 4, 2, needs, (int64_t[]){ 1, 10, 3 }, 3), PACK_NO);
}

TEST(large_sites)
{
    static const int64_t room[] = { 8, 256 }, needs[][2] = { { 8, 200 }, { 1, 10 }, { 3, 30 } };

    assert_int_equal(ask(room, 200000, 2, needs, (int64_t[]){ 100000, 500000, 0 }, 3), PACK_FITS);
    assert_int_equal(ask(room, 2000, 2, needs, (int64_t[]){ 1000, 2000, 2000 }, 3), PACK_FITS);
    assert_int_equal(ask(room, 2000, 2, needs, (int64_t[]){ 1000, 2001, 2000 }, 3), PACK_NO);
    assert_int_equal(ask(room, 1000, 2, needs, (int64_t[]){ 0, 0, 2001 }, 3), PACK_NO);
}

TEST_MAIN(cmocka_unit_test(as_trying_every_way), cmocka_unit_test(whole_machines),
          cmocka_unit_test(large_sites))
