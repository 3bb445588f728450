/* SPDX-License-Identifier: MIT */
/* measure: runs a command many times; prints milliseconds and peak kilobytes of each.
 *
 *   measure RUNS COMMAND [ARG…]
 *
 * A process's peak memory counts what it was before exec, so a measuring program must
 * be small itself: a Python parent alone would show as 14 MB. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

int main(int argc, char **argv)
{
    long runs = argc > 2 ? strtol(argv[1], NULL, 10) : 0;

    if (runs < 1) {
        fprintf(stderr, "usage: measure RUNS COMMAND [ARG...]\n");
        return 2;
    }
    for (long i = 0; i < runs; i++) {
        double start = now_ms();
        pid_t pid = fork();
        struct rusage use;
        int status;

        if (pid == 0) {
            int null = open("/dev/null", O_WRONLY);

            dup2(null, STDOUT_FILENO);
            execvp(argv[2], argv + 2);
            _exit(127);
        }
        if (pid < 0 || wait4(pid, &status, 0, &use) < 0 || status != 0)
            return 1;
        printf("%.3f %ld\n", now_ms() - start, use.ru_maxrss);
    }
    return 0;
}
