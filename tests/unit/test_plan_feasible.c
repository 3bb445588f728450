/* SPDX-License-Identifier: MIT */
/* plan/feasible*.c: what cannot be placed is refused at its line with what is short, what can be
 * placed is not, and the placement adds up. */
#include "test.h"

#include "base/str.h"
#include "plan/feasible.h"

#include <stdio.h>
#include <string.h>

#define KUBE "targets: {kubernetes: {}}\n"
#define H100                                                                                       \
    "nodes:\n  - {name: h100, count: 4, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 64, "     \
    "memory: 1TiB}\n"
#define C(name, more) "  " name ": {target: kubernetes, image: x, " more "}\n"

static struct spec *parsed(const char *text)
{
    struct spec *s = NULL;
    struct err err = { 0 };

    if (spec_parse(text, strlen(text), "t.yaml", &s, NULL, &err)) {
        print_message("# %s\n", err.msg);
        fail();
    }
    return s;
}

/* The only fault (NULL: none) begins at `line` and says `what`. */
static void judged(const char *text, int line, bool warning, const char *what)
{
    struct spec *s = parsed(text);
    struct feasible *f = feasible_new(s, NULL);
    const struct feasible_fault *t = feasible_fault_count(f) ? feasible_fault_at(f, 0) : NULL;

    if ((t != NULL) != (what != NULL) || (t && !strstr(t->msg, what)))
        print_message("# %s\n# %s\n", text, t ? t->msg : "no fault");
    CHECK((t != NULL) == (what != NULL));
    if (t) {
        CHECK(strstr(t->msg, what));
        CHECK(t->warning == warning);
        CHECK(feasible_fault_count(f) == 1);
        if (line && spec_where(s, t->member).line != line)
            print_message("# line %d\n", spec_where(s, t->member).line);
        CHECK(!line || spec_where(s, t->member).line == line);
    }
    feasible_free(f);
    spec_free(s);
}

/* The hint of the first fault. */
static void hinted(const char *text, const char *what)
{
    struct spec *s = parsed(text);
    struct feasible *f = feasible_new(s, NULL);
    const struct feasible_fault *t = feasible_fault_count(f) ? feasible_fault_at(f, 0) : NULL;

    if (!t || !t->hint || !strstr(t->hint, what))
        print_message("# %s\n", t && t->hint ? t->hint : "no hint");
    CHECK(t && t->hint && strstr(t->hint, what));
    feasible_free(f);
    spec_free(s);
}

#define FITS(text)             judged(text, 0, false, NULL)
#define REFUSED(text, at, why) judged(text, at, false, why)
#define WARNED(text, at, why)  judged(text, at, true, why)

TEST(whole_machines)
{
    FITS(KUBE H100 "components:\n" C("serve", "gpus: 1, replicas: 8")
             C("train", "kind: training, command: [t], gpus: 8, nodes_per_replica: 3"));
    /* sums of GPUs fit, machines do not */
    REFUSED(KUBE H100 "components:\n" C("serve", "gpus: 3, replicas: 2, cpus: 4, memory: 1GiB")
                C("train", "kind: training, command: [t], gpus: 8, nodes_per_replica: 4"),
            6,
            "component 'train' needs 8 GPUs on each of 4 machines of 'h100'; 3 are free beside "
            "'serve'");
    REFUSED(KUBE H100 "components:\n" C("a", "gpus: 5, replicas: 5"), 5,
            "component 'a' needs 5 GPUs for each of 5 pods on 'h100'; 4 fit");
    REFUSED(KUBE H100
            "components:\n" C("a", "kind: training, command: [t], gpus: 8, nodes_per_replica: 5"),
            5, "component 'a' spans 5 machines, but 'h100' has 4");
    REFUSED(KUBE H100 "components:\n" C("a", "gpus: 9"), 5,
            "component 'a' asks for 9 GPUs a node, but 'h100' has 8");
    REFUSED(KUBE H100 "components:\n" C("a", "gpus: 8, scale: {max: 5}"), 5,
            "may grow to 5 replicas");
}

/* 128 threads, 2 for the kubelet, 0.25 network, 0.25 agent, 0.005 node feature discovery */
TEST(cpus_that_pods_can_have)
{
    FITS(KUBE H100 "components:\n" C("a", "nodes: h100, cpus: 125"));
    REFUSED(KUBE H100 "components:\n" C("a", "nodes: h100, cpus: 126"), 5,
            "component 'a' asks for 126 CPUs, but a machine of 'h100' has 125.495 for pods");
    FITS("agent: {enabled: false}\n" KUBE H100 "components:\n" C("a", "nodes: h100, cpus: 125"));
    REFUSED(KUBE H100 "components:\n" C("a", "nodes: h100, memory: 1023GiB"), 5, "of memory, but");
    REFUSED(KUBE H100 "components:\n" C("a", "nodes: h100, cpus: 70, replicas: 5"), 5,
            "needs 70 CPUs for each of 5 pods on 'h100'; 4 fit");
    /* not known is no reason */
    FITS(KUBE "nodes: [{name: n, role: cpu}]\ncomponents:\n" C("a", "nodes: n, cpus: 4000"));
}

/* What the spec leaves open never keeps others away. */
TEST(derived_asks)
{
    struct spec *s = parsed(KUBE H100 "components:\n" C("a", "gpus: 4, replicas: 4") C(
        "b", "gpus: 4, replicas: 4, cpus: 90") C("web", "nodes: h100, cpus: 4, replicas: 8"));
    struct feasible *f = feasible_new(s, NULL);
    struct feasible_request a = feasible_request_of(f, &s->components[0]);

    CHECK(feasible_fault_count(f) == 0);
    CHECK(a.cpu_derived && a.cpu_m.v >= 1000 && a.cpu_m.v <= 125495 - 90000 - 8000);
    CHECK(a.cpu_m.v % 1000 == 0);
    CHECK(a.memory_derived && a.memory_mib.v > 0);
    CHECK(!feasible_request_of(f, &s->components[1]).cpu_derived);
    feasible_free(f);
    spec_free(s);
    s = parsed(KUBE H100 "components:\n" C("a", "gpus: 8, replicas: 4"));
    f = feasible_new(s, NULL);
    a = feasible_request_of(f, &s->components[0]);
    CHECK(a.cpu_m.v > 110000 && a.cpu_m.v < 125000); /* threads, not cores; not all of them */
    feasible_free(f);
    spec_free(s);
}

TEST(mig)
{
#define MIG(model, profile)                                                                        \
    KUBE "nodes:\n  - {name: m, gpus_per_node: 2, gpu: {model: " model                             \
         ", sharing: mig, mig_profile: " profile "}}\ncomponents:\n"
    static const struct {
        const char *model, *profile;
        int64_t count;
    } rows[] = {
        /* the GPU Operator's default-mig-parted-config has the same */
        { "H100", "1g.10gb", 7 },     { "H100", "1g.20gb", 4 },      { "H100", "2g.20gb", 3 },
        { "H100", "3g.40gb", 2 },     { "H100", "4g.40gb", 1 },      { "H100", "7g.80gb", 1 },
        { "H200", "1g.18gb", 7 },     { "H200", "1g.35gb", 4 },      { "H200", "2g.35gb", 3 },
        { "H200", "3g.71gb", 2 },     { "B200", "1g.23gb", 7 },      { "B200", "3g.90gb", 2 },
        { "A100-40GB", "1g.5gb", 7 }, { "A100-40GB", "1g.10gb", 4 }, { "A100-80GB", "1g.10gb", 7 }
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char text[512];
        struct spec *s;

        (void)snprintf(text, sizeof(text),
                       "nodes: [{name: m, gpus_per_node: 2, gpu: {model: %s, sharing: mig, "
                       "mig_profile: %s}}]\n",
                       rows[i].model, rows[i].profile);
        s = parsed(text);
        if (feasible_mig_instances(&s->nodes[0]) != rows[i].count)
            print_message("# %s %s: %lld\n", rows[i].model, rows[i].profile,
                          (long long)feasible_mig_instances(&s->nodes[0]));
        CHECK(feasible_mig_instances(&s->nodes[0]) == rows[i].count);
        CHECK(feasible_gpus(&s->nodes[0]) == 2 * rows[i].count);
        spec_free(s);
    }
    FITS(MIG("H200", "1g.18gb") C("a", "gpus: 1, replicas: 14"));
    REFUSED(MIG("H200", "1g.18gb") C("a", "gpus: 1, replicas: 15"), 5,
            "needs 1 MIG instance (1g.18gb) for each of 15 pods on 'm'; 14 fit");
    REFUSED(MIG("H200", "3g.71gb") C("a", "gpus: 5"), 5,
            "asks for 5 MIG instances (3g.71gb) a node, but 'm' has 4");
}

TEST(groups)
{
#define TWO                                                                                        \
    H100 "  - {name: l40s, count: 2, gpus_per_node: 4, gpu: {model: L40S}, cpu_cores: 32, "        \
         "memory: 256GiB}\n  - {name: cpu, role: cpu, count: 1, cpu_cores: 16, memory: 64GiB}\n"

    FITS(KUBE TWO "components:\n" C("s", "nodes: l40s, gpus: 4, replicas: 2")
             C("t", "nodes: h100, gpus: 8, replicas: 4"));
    /* room on other machines is no room */
    REFUSED(KUBE TWO "components:\n" C("s", "nodes: l40s, gpus: 4, replicas: 3"), 7,
            "for each of 3 pods on 'l40s'; 2 fit");
    /* nobody says where: any machine that takes it */
    FITS(KUBE TWO "components:\n" C("w", "cpus: 100, replicas: 4"));
    REFUSED(KUBE TWO "components:\n" C("w", "cpus: 100, replicas: 5"), 7,
            "its 3 node groups; 4 fit");
    /* a taint keeps it away */
    REFUSED(KUBE "nodes:\n  - {name: a, role: cpu, cpu_cores: 64, taints: ['x=y:NoSchedule']}\n"
                 "  - {name: b, role: cpu, cpu_cores: 4}\ncomponents:\n" C("w", "cpus: 8"),
            6, "a machine of 'b' has 5.495 for pods");
    FITS(KUBE "nodes:\n  - {name: a, role: cpu, cpu_cores: 64, taints: ['x=y:NoSchedule']}\n"
              "  - {name: b, role: cpu, cpu_cores: 4}\ncomponents:\n" C("w", "nodes: a, cpus: 8"));
}

TEST(virtual_functions)
{
#define RAILS(vfs, on)                                                                             \
    KUBE                                                                                           \
        "fabrics: [{name: r, kind: roce, rate: 400Gb/s, nics_per_node: 2, sriov: {vfs: " vfs       \
        "}}]\nnodes:\n  - {name: n, count: 2, gpus_per_node: 8, gpu: {model: H100}, fabrics: [r]}" \
        "\n  - {name: o, gpus_per_node: 8, gpu: {model: H100}}\ncomponents:\n"

    FITS(RAILS("2", "[r]") C("a", "nodes: n, gpus: 2, replicas: 4, fabrics: [r]"));
    REFUSED(RAILS("2", "[r]") C("a", "nodes: n, gpus: 2, replicas: 5, fabrics: [r]"), 7,
            "needs a virtual function of each NIC of fabric 'r' for each of 5 pods on 'n'; 4 fit");
    /* a component over both groups finds the fabric at one of them */
    FITS(RAILS("2", "[r]") C("a", "nodes: [n, o], gpus: 2, replicas: 4, fabrics: [r]"));
    REFUSED(RAILS("2", "[r]") C("a", "nodes: [n, o], gpus: 2, replicas: 5, fabrics: [r]"), 7,
            "4 fit");
}

TEST(queues)
{
    FITS(KUBE H100 "components:\n" C("a", "kind: batch, gpus: 8, replicas: 4, queued: true")
             C("b", "kind: batch, gpus: 8, replicas: 4, queued: true"));
    /* Kueue takes jobs one after the other, whatever the component says */
    FITS("targets: {kubernetes: {queue: q}}\n" H100 "components:\n" C(
        "a", "kind: batch, gpus: 8, replicas: 4") C("b", "kind: batch, gpus: 8, replicas: 4"));
    WARNED(KUBE H100 "components:\n" C("s", "gpus: 8")
               C("b", "kind: batch, gpus: 8, replicas: 4, queued: true"),
           6, "queued component 'b' finds no room beside 's'");
    REFUSED(KUBE H100 "components:\n" C("b", "kind: batch, gpus: 8, replicas: 5, queued: true"), 5,
            "4 fit");
}

/* A site that the scheduler of Kubernetes 1.36 got wrong in one run of four: jobs of a low priority
 * fill the small machines before 'c6' comes, which goes to a large one that 'c7' needs whole. */
#define CORNER(version)                                                                            \
    "targets: {kubernetes: {version: \"" version "\"}}\n"                                          \
    "nodes:\n  - {name: n0, count: 4, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 64, "       \
    "memory: 64GiB}\n  - {name: n1, count: 3, gpus_per_node: 4, gpu: {model: H100}, "              \
    "cpu_cores: 8, memory: 512GiB}\ncomponents:\n" C(                                              \
        "c0", "nodes: [n0], gpus: 8, replicas: 2, memory: 16GiB, priority: high")                  \
        C("c2", "kind: batch, command: [t], nodes: [n1], gpus: 1, replicas: 5, memory: 100GiB")    \
            C("c3", "nodes: [n0, n1], gpus: 1, replicas: 4, priority: high")                       \
                C("c4", "kind: training, command: [t], nodes: [n1], gpus: 1, "                     \
                        "nodes_per_replica: 2, memory: 4GiB")                                      \
                    C("c6", "kind: training, command: [t], nodes: [n1, n0], gpus: 1, "             \
                            "nodes_per_replica: 2, memory: 30GiB, priority: high")                 \
                        C("c9", "nodes: [n0], replicas: 6, cpus: 8, memory: 1GiB")
#define CPUS2                                                                                      \
    KUBE "nodes:\n  - {name: n, role: cpu, count: 2, cpu_cores: 64, memory: 64GiB}\n"              \
         "components:\n"
#define C7(more) C("c7", "kind: training, command: [t], nodes: [n0], gpus: 8, cpus: 1" more)

TEST(pods_as_they_come)
{
    WARNED(CORNER("1.36") C7(""), 12, "may leave one of 'c7' without a machine: so in ");
    WARNED(CORNER("1.34") C7(""), 12, "may leave one of 'c7' without a machine: so in ");
    /* the same priority pushes nobody aside */
    WARNED(CORNER("1.36") C7(", priority: high"), 12, "may leave one of 'c7'");
    hinted(CORNER("1.36") C7(""), "Give it a group of its own");
    hinted(CPUS2 C("u", "replicas: 2, cpus: 60, memory: 1GiB") C("w", "cpus: 100, memory: 1GiB"),
           "'priority' to high: then all");
    /* pods that fill machines leave others whole */
    FITS("targets: {kubernetes: {version: \"1.36\"}}\n" H100
         "components:\n" C("c0", "gpus: 8, replicas: 2, memory: 16GiB")
             C("c3", "gpus: 1, replicas: 8") C("c7", "kind: training, command: [t], gpus: 8"));
}

/* 's5' pushes aside a pod of 's2' on either machine: who gives way is chance, and 's4' fits only
 * where it was on 'b'.  The scheduler of Kubernetes 1.36 took either. */
TEST(pods_that_give_way)
{
    WARNED("targets: {kubernetes: {stoker_image: \"r.x/s:1\"}}\n"
           "nodes:\n  - {name: a, gpus_per_node: 1, gpu: {model: A100-80GB}, cpu_cores: 8, "
           "threads_per_core: 1, memory: 80GiB}\n  - {name: b, role: cpu, cpu_cores: 12, "
           "threads_per_core: 1, memory: 64GiB}\n  - {name: c, role: cpu, cpu_cores: 32, "
           "threads_per_core: 1, memory: 32GiB}\ncomponents:\n" C(
               "s5", "nodes: [b, c], cpus: 4, memory: 16GiB, ports: [{name: h, port: 80}]")
               C("s0", "cpus: 1, memory: 6GiB, priority: high, replicas: 3")
                   C("s2", "nodes: [b, c], cpus: 1, memory: 2GiB, priority: low, replicas: 2")
                       C("b3", "kind: batch, command: [run], nodes: a, gpus: 1")
                           C("s6", "nodes: b, cpus: 3, memory: 13GiB")
                               C("s1", "cpus: 12, memory: 1GiB")
                                   C("s4", "nodes: [b, c], cpus: 4, memory: 3GiB, "
                                           "priority: low, replicas: 2"),
           0, "may leave one of 's4' without a machine");
}

/* Where all of 's0' come before 't1', and its second pod after 't2', then 't2' goes to the machine
 * with more of 's0', which has no room left for that pod.  On a site like this one the scheduler of
 * Kubernetes 1.36 did so in two runs of four. */
TEST(pods_of_one_owner_batch_by_batch)
{
    WARNED("targets: {kubernetes: {version: \"1.33\", job: job}}\n"
           "nodes:\n  - {name: b, count: 2, gpus_per_node: 3, gpu: {model: H200, sharing: mig, "
           "mig_profile: 1g.18gb}, cpu_cores: 24, threads_per_core: 1, memory: 224GiB}\n"
           "components:\n" C("s0", "gpus: 2, cpus: 1, memory: 25GiB, replicas: 13")
               C("t1", "kind: training, command: [run], gpus: 4, cpus: 2, memory: 32GiB, "
                       "nodes_per_replica: 2")
                   C("t2", "kind: training, command: [run], gpus: 1, cpus: 1, memory: 15GiB"),
           6, "may leave one of 't1' without a machine");
}

TEST(slurm_jobs)
{
#define SLURM         "targets: {slurm: {}}\n" H100 "components:\n"
#define J(name, more) "  " name ": {target: slurm, kind: training, command: [t], " more "}\n"

    FITS(SLURM J("a", "gpus: 8, nodes_per_replica: 4") J("b", "gpus: 8, nodes_per_replica: 4"));
    REFUSED(SLURM J("a", "gpus: 8, nodes_per_replica: 5"), 5, "spans 5 machines, but 'h100' has 4");
    REFUSED(SLURM J("a", "gpus: 8, cpus: 65"), 5, "needs 65 cores and a machine of 'h100' has 64");
    REFUSED(SLURM J("a", "gpus: 8, memory: 1TiB"), 5, "needs more memory than the");
    /* tasks of an array are jobs of their own */
    FITS(SLURM "  s: {target: slurm, kind: batch, command: [t], gpus: 8, replicas: 100}\n");
}

/* Slurm's components as Kubernetes': both systems have their say. */
TEST(kubernetes_by_name)
{
    struct spec *s =
        parsed("targets: {slurm: {}}\n" H100
               "components:\n  a: {target: slurm, kind: batch, image: x, command: [t], "
               "gpus: 8, cpus: 64, replicas: 4}\n");
    struct feasible *f = feasible_new(s, &(struct feasible_opts){ .kubernetes_by_name = true });

    CHECK(feasible_fault_count(f) == 0);
    CHECK(feasible_place_count(f) == 1 && feasible_place_at(f, 0)->count == 4);
    CHECK(feasible_request_of(f, &s->components[0]).memory_derived);
    feasible_free(f);
    spec_free(s);
    s = parsed("targets: {slurm: {}}\n" H100 "components:\n" J("a", "image: x, gpus: 8, cpus: 65"));
    f = feasible_new(s, &(struct feasible_opts){ .kubernetes_by_name = true });
    CHECK(feasible_fault_count(f) == 1 && strstr(feasible_fault_at(f, 0)->msg, "65 cores"));
    feasible_free(f);
    spec_free(s);
}

/* GPUs by number: first fit would give GPU 0 to the one that could have any. */
TEST(machines_without_a_scheduler)
{
#define HOST "nodes: [{name: n, gpus_per_node: 2, gpu: {model: H100, memory: 80GB}}]\n"
    struct spec *s = parsed(HOST "pools: {p: {size: 8GB, gpus: \"0\"}}\n"
                                 "components:\n  any: {gpus: 1}\n  zero: {gpus: 1, pools: [p]}\n");
    struct feasible *f = feasible_new(s, NULL);

    CHECK(feasible_fault_count(f) == 0 && feasible_place_count(f) == 2);
    for (size_t i = 0; i < 2; i++) {
        const struct feasible_place *p = feasible_place_at(f, i);

        CHECK(p->gpus == (str_eq(p->c->name, "zero") ? 1U : 2U));
    }
    feasible_free(f);
    spec_free(s);
    REFUSED(HOST "components:\n  a: {gpus: 1, replicas: 2}\n  b: {gpus: 1}\n", 4,
            "component 'b' needs 1 GPU for each of 1 replica on 'n'; 0 fit");
    REFUSED(HOST "components:\n  a: {gpus: 2, scale: {max: 3}}\n", 3, "may grow to 3 replicas");
    /* two systems on the same GPUs */
    REFUSED(KUBE HOST "components:\n  a: {gpus: 2}\n" C("b", "gpus: 2"), 5,
            "components ask for 4 GPUs of 'n', which has 2");
}

/* Where a pool or a model of the machine takes memory, others go last, never at the price of
 * room. */
TEST(gpus_of_pools_are_taken_last)
{
#define FOUR "nodes: [{name: n, count: 2, gpus_per_node: 4, gpu: {model: H100, memory: 80GB}}]\n"
#define POOL "pools: {p: {size: 8GB, gpus: 0-1}}\n"
    static const struct {
        const char *text;
        uint32_t shared; /* GPUs of a pool that 'a' is given, of both machines */
        int64_t machines;
    } rows[] = {
        { FOUR POOL "components:\n  a: {gpus: 2}\n", 0, 1 },
        { FOUR POOL "components:\n  a: {gpus: 1, replicas: 4}\n", 0, 2 },
        { FOUR POOL "components:\n  a: {gpus: 1, replicas: 5}\n", 1, 2 },
        { FOUR POOL "components:\n  a: {gpus: 3}\n", 1, 1 },
        { FOUR "pools: {p: {size: 8GB}}\ncomponents:\n  a: {gpus: 2}\n", 2, 1 },
        { FOUR "models: {m: {source: /m, kind: embedding, gpus: \"0\"}}\n"
               "components:\n  a: {gpus: 1}\n",
          0, 1 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct spec *s = parsed(rows[i].text);
        struct feasible *f = feasible_new(s, NULL);
        uint32_t shared = feasible_gpus_shared(s, &s->nodes[0]);
        int taken = 0;
        int64_t machines = 0;

        CHECK(feasible_fault_count(f) == 0);
        for (size_t k = 0; k < feasible_place_count(f); k++) {
            const struct feasible_place *p = feasible_place_at(f, k);

            taken += __builtin_popcount(p->gpus & shared);
            machines = p->first + 1 > machines ? p->first + 1 : machines;
        }
        if (taken != (int)rows[i].shared || machines != rows[i].machines)
            print_message("# row %zu: %d, %d\n", i, taken, (int)machines);
        CHECK(taken == (int)rows[i].shared && machines == rows[i].machines);
        feasible_free(f);
        spec_free(s);
    }
}

/* Whole GPUs and GPUs that others share by a pool are not the same ones, whichever of compose and
 * systemd runs either; a pool that nobody shares is no more than a wish. */
TEST(shared_gpus_are_not_whole)
{
#define ONE    "nodes: [{name: n, gpus_per_node: 8, gpu: {model: H200}}]\n"
#define PAIR   "nodes: [{name: n, count: 2, gpus_per_node: 8, gpu: {model: H200}}]\n"
#define BOTH   "targets: {compose: {}, systemd: {}}\npools: {p: {size: 60GB, gpus: 6-7}}\n"
#define SHARER "  embed: {kind: serving, target: compose, image: x, pools: [p]}\n"
    struct spec *s;
    struct feasible *f;

    REFUSED(BOTH ONE "components:\n  ft: {target: systemd, command: [x], gpus: 7}\n" SHARER, 5,
            "'ft' needs 7 GPUs for each of 1 replica on 'n'; 0 fit beside the others and "
            "'embed', which shares GPUs 6,7 by pool 'p'");
    REFUSED(BOTH ONE "components:\n" SHARER "  chat: {target: compose, image: x, gpus: 6}\n"
                     "  ft: {target: systemd, command: [x], gpus: 1}\n",
            7, "'ft' needs 1 GPU for each of 1 replica");
    FITS(BOTH ONE "components:\n" SHARER "  chat: {target: compose, image: x, gpus: 6}\n");
    FITS(BOTH ONE "components:\n  chat: {target: compose, image: x, gpus: 8}\n");
    FITS(BOTH ONE "components:\n" SHARER
                  "  own: {target: compose, image: x, gpus: 1, pools: [p]}\n");
    /* what shares runs on the first machine: the second has eight */
    s = parsed(BOTH PAIR "components:\n" SHARER "  ft: {target: systemd, command: [x], gpus: 7}\n");
    f = feasible_new(s, NULL);
    CHECK(feasible_fault_count(f) == 0 && feasible_place_count(f) == 1);
    CHECK(feasible_place_at(f, 0)->first == 1);
    feasible_free(f);
    spec_free(s);
}

/* Places of pods add up to the pods, and no machine has more GPUs than it has. */
TEST(who_is_where)
{
    struct spec *s = parsed(KUBE H100 "components:\n" C("serve", "gpus: 1, replicas: 8")
                                C("train", "kind: training, command: [t], gpus: 8, "
                                           "nodes_per_replica: 3"));
    struct feasible *f = feasible_new(s, NULL);
    int64_t gpus[4] = { 0 }, pods[2] = { 0 };

    for (size_t i = 0; i < feasible_place_count(f); i++) {
        const struct feasible_place *p = feasible_place_at(f, i);

        pods[p->c - s->components] += p->count * p->each;
        for (int64_t m = p->first; m < p->first + p->count; m++)
            gpus[m] += p->each * p->c->gpus;
    }
    CHECK(pods[0] == 8 && pods[1] == 3);
    for (size_t m = 0; m < 4; m++)
        CHECK(gpus[m] == 8);
    feasible_free(f);
    spec_free(s);
}

/* Containers of compose have whole GPUs: so they are counted, and so they are called. */
TEST(mig_without_a_scheduler)
{
#define HOST_MIG                                                                                   \
    "targets: {compose: {}}\nnodes: [{name: m, gpus_per_node: 2, gpu: {model: H100, sharing: "     \
    "mig, mig_profile: 1g.10gb}}]\ncomponents:\n"
    FITS(HOST_MIG "  a: {target: compose, image: x, gpus: 2}\n");
    REFUSED(HOST_MIG "  a: {target: compose, image: x, gpus: 3}\n", 4,
            "component 'a' asks for 3 GPUs a node, but 'm' has 2");
    REFUSED(HOST_MIG "  a: {target: compose, image: x, gpus: 1, replicas: 3}\n", 4,
            "component 'a' needs 1 GPU for each of 3 replicas on 'm'; 2 fit");
    REFUSED(HOST_MIG "  a: {target: compose, image: x, gpus: 1, scale: {max: 3}}\n", 4,
            "may grow to 3 replicas");
}

/* ---- feasible_spare() beside every arrangement there is ---- */

enum { TRY_MACHINES = 4, TRY_KINDS = 3, TRY_PODS = 6 };

struct trial {
    const struct spec *s;
    const struct spec_node *of[TRY_MACHINES];
    int64_t left[TRY_MACHINES][2]; /* CPU, memory */
    int64_t need[TRY_KINDS][2];
    size_t machines, kinds;
    int pods[TRY_PODS], pod_count; /* the kind of each */
};

static bool trial_takes(const struct trial *t, size_t kind, size_t m)
{
    const struct spec_component *c = &t->s->components[kind];
    const struct spec_node *groups[3]; /* two and a NULL */
    size_t n = feasible_groups(t->s, c, groups);
    bool may = false;

    for (size_t i = 0; i < n; i++)
        may = may || groups[i] == t->of[m];
    return may && t->need[kind][0] <= t->left[m][0] && t->need[kind][1] <= t->left[m][1];
}

/* Is there an arrangement of the pods from `next` on, those that find no room left out, after
 * which none of `kind` finds a machine? */
static bool trial_shuts(struct trial *t, int next, size_t kind)
{
    bool placed = false;

    for (size_t m = 0; next < t->pod_count && m < t->machines; m++) {
        size_t k = (size_t)t->pods[next];
        bool shut;

        if (!trial_takes(t, k, m))
            continue;
        placed = true;
        for (int d = 0; d < 2; d++)
            t->left[m][d] -= t->need[k][d];
        shut = trial_shuts(t, next + 1, kind);
        for (int d = 0; d < 2; d++)
            t->left[m][d] += t->need[k][d];
        if (shut)
            return true;
    }
    if (next < t->pod_count)
        return !placed && trial_shuts(t, next + 1, kind);
    for (size_t m = 0; m < t->machines; m++)
        if (trial_takes(t, kind, m))
            return false;
    return true;
}

static unsigned dice(unsigned *state, unsigned sides)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 16) % sides;
}

static struct spec *trial_site(unsigned *state)
{
    static const char *const where[] = { "a", "b", "[a, b]" };
    char text[1024];
    size_t kinds = 1 + dice(state, TRY_KINDS);
    int n = snprintf(text, sizeof(text),
                     "agent: {enabled: false}\n" KUBE
                     "nodes:\n  - {name: a, role: cpu, count: %u, cpu_cores: %u, memory: %uGiB}\n"
                     "  - {name: b, role: cpu, count: %u, cpu_cores: %u, memory: %uGiB}\n"
                     "components:\n",
                     1 + dice(state, 2), 8 + dice(state, 8), 24 + dice(state, 16),
                     1 + dice(state, 2), 8 + dice(state, 8), 24 + dice(state, 16));

    for (size_t k = 0; k < kinds; k++)
        n += snprintf(text + n, sizeof(text) - (size_t)n,
                      "  c%zu: {target: kubernetes, image: x, nodes: %s, replicas: %u, cpus: %u, "
                      "memory: %uGiB}\n",
                      k, where[dice(state, 3)], 1 + dice(state, 2), 1 + dice(state, 6),
                      1 + dice(state, 12));
    return parsed(text);
}

static void trial_make(struct trial *t, const struct spec *s, const struct feasible *f)
{
    *t = (struct trial){ .s = s, .kinds = s->component_count };
    for (size_t i = 0; i < s->node_count; i++)
        for (int64_t m = 0; m < s->nodes[i].count; m++) {
            struct feasible_room r = feasible_room_of(s, &s->nodes[i], FEASIBLE_KUBERNETES);

            t->of[t->machines] = &s->nodes[i];
            t->left[t->machines][0] = r.cpu_m.v;
            t->left[t->machines++][1] = r.memory_mib.v;
        }
    for (size_t k = 0; k < t->kinds; k++) {
        struct feasible_request request = feasible_request_of(f, &s->components[k]);

        t->need[k][0] = request.cpu_m.v;
        t->need[k][1] = request.memory_mib.v;
        for (int64_t p = 0; p < s->components[k].replicas; p++)
            t->pods[t->pod_count++] = (int)k;
    }
}

TEST(room_for_one_more_holds_for_every_arrangement)
{
    unsigned seed = 19;
    int open = 0, told = 0, tried = 0;

    for (int i = 0; i < 1500; i++) {
        struct spec *s = trial_site(&seed);
        struct feasible *f = feasible_new(s, NULL);
        struct trial t;

        for (size_t k = 0; k < s->component_count && !feasible_fault_count(f); k++) {
            bool sure = feasible_spare(f, &s->components[k]), shut;

            trial_make(&t, s, f);
            shut = trial_shuts(&t, 0, k);
            if (sure && shut)
                print_message("# site %d, component %zu\n", i, k);
            CHECK(!(sure && shut));
            open += !shut;
            told += sure;
            tried++;
        }
        feasible_free(f);
        spec_free(s);
    }
    print_message("# %d asked, %d have room wherever the others are, %d of them told\n", tried,
                  open, told);
    CHECK(tried > 1000 && open > 300);
    CHECK(told * 2 > open); /* careful, not silent */
}

TEST_MAIN(cmocka_unit_test(whole_machines), cmocka_unit_test(cpus_that_pods_can_have),
          cmocka_unit_test(derived_asks), cmocka_unit_test(mig), cmocka_unit_test(groups),
          cmocka_unit_test(virtual_functions), cmocka_unit_test(queues),
          cmocka_unit_test(pods_as_they_come), cmocka_unit_test(pods_that_give_way),
          cmocka_unit_test(pods_of_one_owner_batch_by_batch), cmocka_unit_test(slurm_jobs),
          cmocka_unit_test(kubernetes_by_name), cmocka_unit_test(machines_without_a_scheduler),
          cmocka_unit_test(gpus_of_pools_are_taken_last),
          cmocka_unit_test(shared_gpus_are_not_whole), cmocka_unit_test(who_is_where),
          cmocka_unit_test(mig_without_a_scheduler),
          cmocka_unit_test(room_for_one_more_holds_for_every_arrangement))
