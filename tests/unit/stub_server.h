/* SPDX-License-Identifier: MIT */
/* stub_server: an HTTP server of a few lines on the loopback, for tests of clients.
 *
 * Each connection has a thread; every request on it is answered by `answer`, which writes
 * what it likes and says whether the connection goes on. */
#ifndef TESTS_STUB_SERVER_H
#define TESTS_STUB_SERVER_H
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STUB_REQUEST_MAX = 1 << 16, STUB_THREADS_MAX = 512 };

struct stub {
    int fd, port;
    bool (*answer)(struct stub *s, int fd, const char *request,
                   int nth); /* nth on its connection */
    pthread_t acceptor, threads[STUB_THREADS_MAX];
    int fds[STUB_THREADS_MAX];
    size_t count;
    atomic_int requests, mode;
    atomic_llong stall_until_ns; /* nobody is answered before */
};

struct stub_conn {
    struct stub *s;
    int fd;
};

static inline bool stub_write(int fd, const char *text)
{
    size_t len = strlen(text);

    for (ssize_t n; len; text += n, len -= (size_t)n)
        if ((n = send(fd, text, len, MSG_NOSIGNAL)) <= 0)
            return false;
    return true;
}

/* The length of a whole request at the front of `p`; 0: not yet. */
static inline size_t stub_request_len(const char *p)
{
    const char *end = strstr(p, "\r\n\r\n"), *length = strcasestr(p, "content-length:");
    size_t body = length && end && length < end ? strtoul(length + 15, NULL, 10) : 0;

    return end && strlen(end + 4) >= body ? (size_t)(end + 4 - p) + body : 0;
}

static inline void *stub_serve(void *arg)
{
    struct stub_conn *c = arg;
    char *in = calloc(1, STUB_REQUEST_MAX + 1);
    size_t have = 0, len;

    for (int nth = 0;;) {
        ssize_t n = recv(c->fd, in + have, STUB_REQUEST_MAX - have, 0);

        if (n <= 0)
            break;
        have += (size_t)n;
        in[have] = '\0';
        len = stub_request_len(in);
        if (!len)
            continue;
        atomic_fetch_add(&c->s->requests, 1);
        if (!c->s->answer(c->s, c->fd, in, nth++))
            break;
        memmove(in, in + len, have - len + 1);
        have -= len;
    }
    shutdown(c->fd, SHUT_RDWR);
    free(in);
    free(c);
    return NULL;
}

static inline void *stub_accept(void *arg)
{
    struct stub *s = arg;
    int fd;

    while (s->count < STUB_THREADS_MAX && (fd = accept(s->fd, NULL, NULL)) >= 0) {
        struct stub_conn *c = malloc(sizeof(*c));

        *c = (struct stub_conn){ s, fd };
        s->fds[s->count] = fd;
        pthread_create(&s->threads[s->count++], NULL, stub_serve, c);
    }
    return NULL;
}

/* At a port; 0: a free one. */
static inline void stub_start_at(struct stub *s, int port,
                                 bool (*answer)(struct stub *s, int fd, const char *request,
                                                int nth))
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(a);
    int on = 1;

    memset(s, 0, sizeof(*s));
    s->answer = answer;
    s->fd = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_port = htons((uint16_t)port);
    setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(s->fd, (struct sockaddr *)&a, sizeof(a)) || listen(s->fd, 512) ||
        getsockname(s->fd, (struct sockaddr *)&a, &len))
        abort();
    s->port = ntohs(a.sin_port);
    pthread_create(&s->acceptor, NULL, stub_accept, s);
}

static inline void stub_start(struct stub *s,
                              bool (*answer)(struct stub *s, int fd, const char *request, int nth))
{
    stub_start_at(s, 0, answer);
}

static inline void stub_stop(struct stub *s)
{
    shutdown(s->fd, SHUT_RDWR);
    pthread_join(s->acceptor, NULL);
    close(s->fd);
    for (size_t i = 0; i < s->count; i++) {
        shutdown(s->fds[i], SHUT_RDWR);
        pthread_join(s->threads[i], NULL);
        close(s->fds[i]);
    }
}

#endif
