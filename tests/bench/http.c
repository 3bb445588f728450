/* SPDX-License-Identifier: MIT */
/* http: what the HTTP server costs: a trivial handler on the loopback.
 *
 *     bench-http [SECONDS]
 *
 * One idle client gives the latency of a request, many at once the throughput of the
 * server's one thread.  The client is a closed loop of its own thread: it sends a fixed
 * request and counts the bytes of the reply, which are always as many. */
#include "http/http.h"
#include "base/buf.h"
#include "os/clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNS = 64, SAMPLES_MAX = 1 << 20, WARM_UP = 1000 };

static const char request[] = "POST /echo HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n"
                              "Accept: */*\r\nContent-Type: application/json\r\n"
                              "Content-Length: 17\r\n\r\n{\"inputs\":\"text\"}";

static void echo(void *arg, struct http_exchange *x)
{
    const struct http_request *r = http_request(x);
    struct buf body = { 0 };

    (void)arg;
    buf_add(&body, r->body, r->body_len);
    http_reply(x, 200, "application/json", &body, NULL);
}

/* The same from another thread: one that waits for work, as a lane does. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t there;
    struct http_exchange *x;
    bool end;
} box = { .lock = PTHREAD_MUTEX_INITIALIZER, .there = PTHREAD_COND_INITIALIZER };

static void hand_over(void *arg, struct http_exchange *x)
{
    (void)arg;
    pthread_mutex_lock(&box.lock);
    box.x = x;
    pthread_cond_signal(&box.there);
    pthread_mutex_unlock(&box.lock);
}

static void *worker(void *arg)
{
    pthread_mutex_lock(&box.lock);
    while (!box.end) {
        struct http_exchange *x = box.x;

        if (!x) {
            pthread_cond_wait(&box.there, &box.lock);
            continue;
        }
        box.x = NULL;
        pthread_mutex_unlock(&box.lock);
        echo(arg, x);
        pthread_mutex_lock(&box.lock);
    }
    pthread_mutex_unlock(&box.lock);
    return NULL;
}

static int dial(int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0) {
        perror("connect");
        exit(1);
    }
    return fd;
}

static void ask(int fd, const char *text)
{
    if (send(fd, text, strlen(text), MSG_NOSIGNAL) != (ssize_t)strlen(text)) {
        perror("send");
        exit(1);
    }
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static void latency(int port, const char *name, const char *text, double seconds)
{
    int64_t *ns = calloc(SAMPLES_MAX, sizeof(*ns)), end = 0;
    char reply[4096];
    size_t n = 0;
    int fd = dial(port);

    for (size_t i = 0; ns && n < SAMPLES_MAX && (i <= WARM_UP || clock_mono_ns() < end); i++) {
        int64_t t = clock_mono_ns();

        ask(fd, text);
        if (recv(fd, reply, sizeof(reply), 0) <= 0)
            exit(1);
        if (i >= WARM_UP)
            ns[n++] = clock_mono_ns() - t;
        else
            end = t + (int64_t)(seconds * 1e9);
    }
    qsort(ns, n, sizeof(*ns), by_value);
    printf("RESULT http.%s_us.p50 %.1f\nRESULT http.%s_us.p99 %.1f\n", name,
           (double)ns[n / 2] / 1e3, name, (double)ns[n * 99 / 100] / 1e3);
    close(fd);
    free(ns);
}

static double cpu_s(int who)
{
    struct rusage u;

    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void throughput(int port, double seconds)
{
    int64_t begin, end;
    size_t replies = 0;
    int poll_fd = epoll_create1(0), fds[CONNS];
    double cpu;

    for (int i = 0; i < CONNS; i++) {
        struct epoll_event e = { .events = EPOLLIN };

        e.data.fd = fds[i] = dial(port);
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, fds[i], &e);
        ask(fds[i], request);
    }
    begin = clock_mono_ns();
    end = begin + (int64_t)(seconds * 1e9);
    cpu = cpu_s(RUSAGE_SELF) - cpu_s(RUSAGE_THREAD);
    while (clock_mono_ns() < end) {
        struct epoll_event events[CONNS];
        int n = epoll_wait(poll_fd, events, CONNS, 1000);
        char reply[4096];

        for (int i = 0; i < n; i++) {
            if (recv(events[i].data.fd, reply, sizeof(reply), 0) <= 0)
                exit(1);
            replies++;
            ask(events[i].data.fd, request);
        }
    }
    cpu = cpu_s(RUSAGE_SELF) - cpu_s(RUSAGE_THREAD) - cpu;
    seconds = (double)(clock_mono_ns() - begin) / 1e9;
    printf("RESULT http.requests_per_s %.0f\n", (double)replies / seconds);
    printf("RESULT http.requests_per_cpu_s %.0f\n", (double)replies / cpu);
    for (int i = 0; i < CONNS; i++)
        close(fds[i]);
    close(poll_fd);
}

int main(int argc, char **argv)
{
    static const struct http_route routes[] = {
        { HTTP_POST, "/echo", echo, NULL, false },
        { HTTP_GET, "/echo", echo, NULL, HTTP_SCOPE_CALL },
        { HTTP_GET, "/far", hand_over, NULL, HTTP_SCOPE_CALL },
    };
    struct http_opts o = { .routes = routes, .route_count = ARRAY_SIZE(routes) };
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 2;
    struct http_server *s;
    struct err err = { 0 };
    pthread_t t;
    int port;

    if (http_server_new(&o, &s, &err) || http_listen(s, "127.0.0.1", 0, &port, &err) ||
        http_start(s, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    fprintf(stderr, "serving http://127.0.0.1:%d/echo\n", port);
    pthread_create(&t, NULL, worker, NULL);
    latency(port, "here", request, seconds);
    latency(port, "far", "GET /far HTTP/1.1\r\nHost: localhost\r\n\r\n", seconds);
    throughput(port, seconds);
    pthread_mutex_lock(&box.lock);
    box.end = true;
    pthread_cond_signal(&box.there);
    pthread_mutex_unlock(&box.lock);
    pthread_join(t, NULL);
    if (argc > 2) /* for another client */
        sleep((unsigned)strtoul(argv[2], NULL, 10));
    http_server_free(s);
    return 0;
}
