/* SPDX-License-Identifier: MIT */
/* quiet: runs a command on the cores that are left alone.
 *
 *   quiet COUNT [COMMAND [ARG…]]
 *
 * A virtual machine shares its physical cores with others, and a core whose other half is busy
 * does half the work; which ones these are changes by the minute.  Each core that this process
 * may use does the same sums three times, and its worst time counts.  No two of those chosen
 * are halves of one core.  Without a command their numbers are printed, for taskset. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FLOATS = 4096, ROUNDS = 3, SIBLINGS_MAX = 64 };
static const double SLICE = 0.03; /* seconds */

struct core {
    int cpu;
    double worst, best;          /* rounds of sums a second */
    char siblings[SIBLINGS_MAX]; /* as the kernel writes them */
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t); /* a core that is taken away is no quiet one */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Independent chains, so that the units are full and another half of the core is felt. */
static double rate(void)
{
    static float a[FLOATS], b[FLOATS];
    volatile float sink;
    double start = now(), took;
    size_t turns = 0;

    for (size_t i = 0; i < FLOATS; i++)
        a[i] = b[i] = (float)i;
    do {
        float sum[32] = { 0 };

        for (size_t i = 0; i < FLOATS; i += 32)
            for (size_t k = 0; k < 32; k++)
                sum[k] += a[i + k] * b[i + k];
        sink = sum[turns++ % 32];
        took = now() - start;
    } while (took < SLICE);
    (void)sink;
    return (double)turns / took;
}

static int pin(const struct core *c, int count)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (int i = 0; i < count; i++)
        CPU_SET(c[i].cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set);
}

static void siblings_read(struct core *c)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
             c->cpu);
    f = fopen(path, "r");
    if (!f || !fgets(c->siblings, sizeof(c->siblings), f))
        snprintf(c->siblings, sizeof(c->siblings), "%d", c->cpu);
    if (f)
        fclose(f);
    c->siblings[strcspn(c->siblings, "\n")] = '\0';
}

static int by_worst(const void *a, const void *b)
{
    const struct core *x = a, *y = b;

    return (x->worst < y->worst) - (x->worst > y->worst);
}

static int measure_all(struct core *cores)
{
    cpu_set_t may;
    int n = 0;

    if (sched_getaffinity(0, sizeof(may), &may))
        return 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &may))
            cores[n++].cpu = cpu;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < n; i++) {
            struct core *c = &cores[i];
            double r = pin(c, 1) ? 0 : rate();

            c->worst = round == 0 || r < c->worst ? r : c->worst;
            c->best = r > c->best ? r : c->best;
        }
    for (int i = 0; i < n; i++)
        siblings_read(&cores[i]);
    qsort(cores, (size_t)n, sizeof(*cores), by_worst);
    return n;
}

/* Moves the best of different cores to the front; gives how many there are. */
static int choose(struct core *cores, int n, long want)
{
    int chosen = 0;

    for (int i = 0; i < n && chosen < want; i++) {
        struct core c = cores[i];
        int k = 0;

        while (k < chosen && strcmp(cores[k].siblings, c.siblings) != 0)
            k++;
        if (k < chosen)
            continue;
        cores[i] = cores[chosen];
        cores[chosen++] = c;
    }
    return chosen;
}

int main(int argc, char **argv)
{
    static struct core cores[CPU_SETSIZE];
    long want = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    int n, chosen;

    if (want < 1) {
        fprintf(stderr, "usage: quiet COUNT [COMMAND [ARG...]]\n");
        return 2;
    }
    n = measure_all(cores);
    for (int i = 0; i < n; i++)
        fprintf(stderr, "%s%d: %.0f-%.0f", i ? ", " : "# cores, sums a second: ", cores[i].cpu,
                cores[i].worst / 1e3, cores[i].best / 1e3);
    fprintf(stderr, " thousand\n");
    chosen = choose(cores, n, want);
    if (chosen < want) {
        fprintf(stderr, "quiet: %ld cores are asked for, this process may use %d\n", want, chosen);
        return 1;
    }
    for (int i = 0; i < chosen; i++)
        fprintf(argc > 2 ? stderr : stdout, "%s%d",
                i          ? ","
                : argc > 2 ? "# on core "
                           : "",
                cores[i].cpu);
    fprintf(argc > 2 ? stderr : stdout, "\n");
    if (argc == 2)
        return 0;
    if (pin(cores, chosen)) {
        fprintf(stderr, "quiet: could not stay on these cores: %s\n", strerror(errno));
        return 1;
    }
    execvp(argv[2], argv + 2);
    fprintf(stderr, "quiet: could not run '%s': %s\n", argv[2], strerror(errno));
    return 127;
}
