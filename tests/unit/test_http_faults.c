/* SPDX-License-Identifier: MIT */
/* test_http_faults: clients that are slow, leave, flood or break the rules, and the end. */
#include "http_box.h"

#include "base/mem.h"

#include <sys/resource.h>
#include <sys/wait.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

TEST(faulty_requests_end_their_connection)
{
    static const struct {
        int status;
        const char *text;
    } rows[] = {
        { 400, "GET / HTTP/1.1\r\nHost : a\r\n\r\n" },
        { 400, "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n" },
        { 400, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n" },
        { 400, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n"
               "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
        { 413, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999\r\n\r\nx" },
        { 501, "BREW / HTTP/1.1\r\nHost: a\r\n\r\n" },
        { 505, "GET / HTTP/2.0\r\n\r\n" },
    };
    struct http_opts o = { 0 };
    struct answer a;
    struct box b;

    box_open(&b, &o);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        int fd = dial(&b);

        CHECK(say(fd, GET("/hello")));
        CHECK(say(fd, rows[i].text));
        assert_int_equal(hear_status(fd), 200); /* what came before it is answered */
        a = hear(fd);
        assert_int_equal(a.status, rows[i].status);
        CHECK(strstr(a.head, "Connection: close\r\n") && strstr(a.body, "{\"error\":"));
        answer_free(&a);
        CHECK(hear_end(fd));
        close(fd);
    }
    box_wait_conns(&b, 0);
    assert_int_equal(b.done_count, 2 * ARRAY_SIZE(rows));
    box_close(&b);
}

TEST(a_head_of_one_megabyte)
{
    struct http_opts o = { 0 };
    struct buf text = { 0 };
    struct box b;
    int fd;

    box_open(&b, &o);
    fd = dial(&b);
    buf_adds(&text, "GET /hello HTTP/1.1\r\nHost: a\r\nX: ");
    buf_fill(&text, 'x', 1 << 20);
    CHECK(say_n(fd, text.data, text.len));
    assert_int_equal(hear_status(fd), 431);
    CHECK(hear_end(fd));
    close(fd);
    buf_release(&text);
    box_close(&b);
}

/* One byte at a time until the server has had enough. */
static void trickle(int fd, struct box *b, int other)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    int64_t until = clock_mono_ms() + BOX_WAIT_MS;

    (void)b;
    while (poll(&p, 1, 10) == 0 && clock_mono_ms() < until) {
        (void)say(fd, "x");
        CHECK(say(other, GET("/hello")));
        assert_int_equal(hear_status(other), 200);
    }
}

TEST(slow_heads_and_bodies)
{
    static const char *const starts[] = {
        "GET /hello HTTP/1.1\r\nHost: a\r\nX: ",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n",
        "G",
    };
    struct http_opts o = { .head_ms = 60, .body_ms = 60 };
    struct box b;
    int other, fd;

    box_open(&b, &o);
    other = dial(&b);
    for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
        fd = dial(&b);
        CHECK(say(fd, starts[i]));
        trickle(fd, &b, other);
        assert_int_equal(hear_status(fd), 408);
        CHECK(hear_end(fd));
        close(fd);
    }
    fd = dial(&b); /* silent in a body */
    CHECK(say(fd, starts[1]));
    assert_int_equal(hear_status(fd), 408);
    close(fd);
    close(other);
    box_close(&b);
}

TEST(idle_connections_end)
{
    struct http_opts o = { .idle_ms = 30 };
    struct box b;
    int fd;

    box_open(&b, &o);
    fd = dial(&b);
    CHECK(hear_end(fd));
    close(fd);
    fd = dial(&b);
    CHECK(say(fd, GET("/hello")));
    assert_int_equal(hear_status(fd), 200);
    CHECK(hear_end(fd));
    close(fd);
    fd = dial(&b); /* waiting for a reply is not idle */
    CHECK(say(fd, GET("/keep")));
    box_wait(&b.kept_count, 1);
    usleep(60000);
    box_answer(&b, 0);
    assert_int_equal(hear_status(fd), 200);
    close(fd);
    box_close(&b);
}

TEST(readers_that_do_not_read)
{
    struct http_opts o = { .write_ms = 30 };
    struct box b;
    int fd;

    box_open(&b, &o);
    fd = dial(&b);
    CHECK(say(fd, GET("/large")));
    box_wait(&b.done_gone, 1);
    box_wait_conns(&b, 0);
    close(fd);
    box_close(&b);
}

TEST(clients_that_leave)
{
    struct http_opts o = { 0 };
    struct linger reset = { .l_onoff = 1 };
    struct box b;
    int fd[3];

    box_open(&b, &o);
    for (int i = 0; i < 3; i++) {
        fd[i] = dial(&b);
        CHECK(say(fd[i], GET("/keep")));
        box_wait(&b.kept_count, (size_t)i + 1);
        CHECK(!http_gone(b.kept[i]));
    }
    close(fd[0]);                                                    /* FIN */
    setsockopt(fd[1], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)); /* RST */
    close(fd[1]);
    shutdown(fd[2], SHUT_WR); /* half a close counts as one */
    box_wait(&b.gone_count, 3);
    for (size_t i = 0; i < 3; i++) {
        CHECK(http_gone(b.kept[i]));
        assert_string_equal(http_request(b.kept[i])->path, "/keep");
        box_answer(&b, i); /* thrown away */
    }
    CHECK(hear_end(fd[2]));
    close(fd[2]);
    box_wait_conns(&b, 0);
    assert_int_equal(b.done_gone, 3);
    assert_int_equal(b.done_status, 499);
    box_close(&b);
}

TEST(a_killed_client)
{
    struct http_opts o = { 0 };
    int ports[2];
    struct box b;
    pid_t pid;

    CHECK(pipe(ports) == 0);
    pid = fork(); /* before there are threads */
    if (pid == 0) {
        int port, fd;

        if (read(ports[0], &port, sizeof(port)) != sizeof(port))
            _exit(1);
        fd = dial_port(port);
        say(fd, GET("/keep") "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
        pause();
        _exit(0);
    }
    box_open(&b, &o);
    CHECK(write(ports[1], &b.port, sizeof(b.port)) == sizeof(b.port));
    box_wait(&b.kept_count, 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    box_wait(&b.gone_count, 1);
    box_wait_conns(&b, 0);
    close(ports[0]);
    close(ports[1]);
    box_close(&b); /* answers it after the server is freed */
}

/* on_gone answers the exchange itself, on the loop's thread. */
static void answer_gone(void *arg)
{
    box_hello(NULL, arg);
}

static atomic_size_t self_taken;

static void take_self(void *arg, struct http_exchange *x)
{
    (void)arg;
    http_on_gone(x, answer_gone, x);
    atomic_fetch_add(&self_taken, 1);
}

TEST(a_callback_that_answers)
{
    static const struct http_route routes[] = { { HTTP_GET, "/self", take_self, NULL,
                                                  HTTP_SCOPE_CALL } };
    struct http_opts o = { .routes = routes, .route_count = 1 };
    struct box b = { 0 };
    int fd;

    CHECK(!http_server_new(&o, &b.s, NULL) && !http_listen(b.s, "127.0.0.1", 0, &b.port, NULL) &&
          !http_start(b.s, NULL));
    fd = dial(&b);
    CHECK(say(fd, GET("/self")));
    box_wait(&self_taken, 1);
    close(fd);
    box_wait_conns(&b, 0);
    fd = dial(&b);
    CHECK(say(fd, GET("/self")));
    box_wait(&self_taken, 2);
    http_server_free(b.s); /* gone, too */
    close(fd);
}

/* ---- replies and departures that race */
enum { RACERS = 4, RACES = 150 };

struct racer {
    struct box *b;
    pthread_t thread;
};

static void *race(void *arg)
{
    struct racer *r = arg;

    for (int i = 0; i < RACES; i++) {
        int fd = dial_port(r->b->port);

        if (fd < 0 || !say(fd, GET("/thread") GET("/thread") GET("/hello")))
            abort();
        if (i % 3 == 0 && hear_status(fd) != 200)
            abort();
        close(fd);
    }
    return NULL;
}

TEST(replies_race_with_departures)
{
    struct racer r[RACERS];
    struct http_opts o = { 0 };
    struct box b;

    box_open(&b, &o);
    for (size_t i = 0; i < RACERS; i++) {
        r[i].b = &b;
        CHECK(pthread_create(&r[i].thread, NULL, race, &r[i]) == 0);
    }
    for (size_t i = 0; i < RACERS; i++)
        pthread_join(r[i].thread, NULL);
    box_wait_conns(&b, 0);
    usleep(20000); /* detached repliers */
    box_close(&b);
}

/* ---- limits of the machine */
TEST(connections_beyond_the_limit_wait)
{
    struct http_opts o = { .connections_max = 2 };
    struct box b;
    int fd[3];

    box_open(&b, &o);
    for (int i = 0; i < 3; i++) {
        fd[i] = dial(&b); /* the third waits in the listen queue */
        CHECK(say(fd[i], GET("/hello")));
    }
    assert_int_equal(hear_status(fd[0]), 200);
    assert_int_equal(hear_status(fd[1]), 200);
    usleep(5000);
    assert_int_equal(http_connections(b.s), 2);
    close(fd[0]);
    assert_int_equal(hear_status(fd[2]), 200);
    close(fd[1]);
    close(fd[2]);
    box_close(&b);
}

TEST(no_descriptor_left)
{
    struct http_opts o = { 0 };
    struct rlimit old, low;
    struct rusage before, after;
    struct box b;
    int spare, fd;

    box_open(&b, &o);
    fd = dial(&b);
    CHECK(say(fd, GET("/hello")));
    assert_int_equal(hear_status(fd), 200);
    spare = dup(fd);
    getrlimit(RLIMIT_NOFILE, &old);
    low = old;
    close(fd);
    box_wait_conns(&b, 1);                /* `spare` holds it */
    fd = socket(AF_INET, SOCK_STREAM, 0); /* the lowest number that was free */
    low.rlim_cur = (rlim_t)fd + 1;
    CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    {
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)b.port) };

        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        CHECK(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
    }
    CHECK(say(fd, GET("/hello")));
    getrusage(RUSAGE_SELF, &before);
    usleep(50000);
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_nvcsw - before.ru_nvcsw < 50); /* no spinning */
    assert_int_equal(http_connections(b.s), 1);
    CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
    assert_int_equal(hear_status(fd), 200); /* after the pause */
    close(fd);
    close(spare);
    box_close(&b);
}

static size_t resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (f && fscanf(f, "%*s %lu", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* A child opens so many, says when it is done, and waits. */
static pid_t flood(int ports[2], int done[2], size_t count)
{
    pid_t pid = fork();
    int port;
    char c = 'k';

    if (pid)
        return pid;
    if (read(ports[0], &port, sizeof(port)) != sizeof(port))
        _exit(1);
    for (size_t i = 0; i < count; i++) {
        int fd = dial_port(port);

        if (fd < 0 || (i % 10 == 0 && (!say(fd, GET("/hello")) || hear_status(fd) != 200)))
            _exit(1);
    }
    (void)!write(done[1], &c, 1);
    (void)!read(ports[0], &c, 1);
    _exit(0);
}

TEST(many_idle_connections)
{
    struct http_opts o = { 0 };
    int ports[2], done[2], fd;
    size_t count = 10000, before;
    struct rlimit r;
    struct box b;
    pid_t pid;
    char c;

    getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    if (SANITIZED)
        count = 1000;
    if (r.rlim_max < count + 200) {
        count = r.rlim_max > 400 ? (size_t)r.rlim_max - 200 : 100;
        printf("# %zu connections instead of 10000: open files are limited to %llu\n", count,
               (unsigned long long)r.rlim_max);
    }
    CHECK(pipe(ports) == 0 && pipe(done) == 0);
    pid = flood(ports, done, count);
    close(done[1]);
    o.connections_max = count + 10;
    box_open(&b, &o);
    before = resident_bytes();
    CHECK(write(ports[1], &b.port, sizeof(b.port)) == sizeof(b.port));
    CHECK(read(done[0], &c, 1) == 1);
    box_wait_conns(&b, count);
    printf("# %zu connections: %zu bytes each\n", count, (resident_bytes() - before) / count);
    CHECK(SANITIZED || (resident_bytes() - before) / count < 1024);
    fd = dial(&b);
    CHECK(say(fd, GET("/hello")));
    assert_int_equal(hear_status(fd), 200);
    close(fd);
    close(ports[1]);
    close(ports[0]);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    box_wait_conns(&b, 0);
    close(done[0]);
    box_close(&b);
}

TEST(bodies_of_all_together)
{
    struct http_opts o = { .bodies_bytes_max = 100000 };
    char *part = xcalloc(1, 90000);
    struct answer a;
    struct box b;
    int one, two;

    box_open(&b, &o);
    one = dial(&b);
    two = dial(&b);
    CHECK(say(one, "POST /keep HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\n"));
    CHECK(say_n(one, part, 90000));
    box_wait(&b.kept_count, 1);
    CHECK(say(two, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n"));
    CHECK(say_n(two, part, 45000));
    a = hear(two);
    CHECK(a.status == 503 && strstr(a.head, "Retry-After: 1\r\n"));
    answer_free(&a);
    box_answer(&b, 0);
    assert_int_equal(hear_status(one), 200);
    CHECK(say(one, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\n"));
    CHECK(say_n(one, part, 90000)); /* there is room again */
    assert_int_equal(hear_status(one), 200);
    close(one);
    close(two);
    free(part);
    box_close(&b);
}

/* What nobody will read takes no room of those who are served. */
TEST(refused_bodies_are_not_kept)
{
    static const char *const heads[] = {
        "POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n",
        "DELETE /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n",
        "OPTIONS /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n",
        "GET /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n",
        "GET /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n",
    };
    struct http_opts o = { .bodies_bytes_max = 100000 };
    char *part = xcalloc(1, 90000);
    int fd[ARRAY_SIZE(heads)], last;
    struct box b;

    box_open(&b, &o);
    for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
        fd[i] = dial(&b);
        CHECK(say(fd[i], heads[i]));
        CHECK(say_n(fd[i], part, 59999));
    }
    assert_int_equal(hear_status(fd[3]), 200); /* of GET the body is not waited for */
    assert_int_equal(hear_status(fd[4]), 200);
    last = dial(&b);
    CHECK(say(last, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\n"));
    CHECK(say_n(last, part, 90000));
    assert_int_equal(hear_status(last), 200);
    CHECK(say_n(fd[0], part, 1)); /* and its connection lives on */
    assert_int_equal(hear_status(fd[0]), 404);
    CHECK(say(fd[0], GET("/hello")));
    assert_int_equal(hear_status(fd[0]), 200);
    for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
        close(fd[i]);
    close(last);
    free(part);
    box_close(&b);
}

/* ---- the end */
static void *drain_main(void *arg)
{
    struct box *b = arg;
    size_t cut = 99;

    http_drain(b->s, 5000, &cut);
    return (void *)(uintptr_t)cut;
}

TEST(drain_answers_all_that_was_taken)
{
    struct http_opts o = { 0 };
    struct answer a;
    struct box b;
    pthread_t t;
    void *cut;
    int fd[5], i;

    box_open(&b, &o);
    for (i = 0; i < 3; i++) {
        fd[i] = dial(&b);
        CHECK(say(fd[i], GET("/keep")));
    }
    fd[3] = dial(&b); /* idle */
    box_wait(&b.kept_count, 3);
    CHECK(say(fd[0], "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na"));
    CHECK(pthread_create(&t, NULL, drain_main, &b) == 0);
    CHECK(say(fd[3], GET("/hello"))); /* on its way when the drain begins */
    assert_int_equal(hear_status(fd[3]), 200);
    CHECK(hear_end(fd[3]));
    while ((fd[4] = dial_port(b.port)) >= 0) { /* until it is refused */
        close(fd[4]);
        usleep(1000);
    }
    for (i = 0; i < 3; i++)
        box_answer(&b, (size_t)i);
    assert_int_equal(hear_status(fd[0]), 200);
    CHECK(say(fd[0], "bc")); /* half of it was there when the drain began */
    for (i = 0; i < 3; i++) {
        a = hear(fd[i]);
        CHECK(a.status == 200 && strstr(a.head, "Connection: close\r\n"));
        answer_free(&a);
        CHECK(hear_end(fd[i]));
    }
    pthread_join(t, &cut);
    assert_int_equal((uintptr_t)cut, 0);
    assert_int_equal(b.done_gone, 0);
    for (i = 0; i < 4; i++)
        close(fd[i]);
    box_close(&b);
}

TEST(drain_cuts_at_its_end)
{
    struct http_opts o = { 0 };
    size_t cut = 0;
    struct box b;
    int fd;

    box_open(&b, &o);
    fd = dial(&b);
    CHECK(say(fd, GET("/keep") GET("/keep") "GET /hel"));
    box_wait(&b.kept_count, 2);
    http_drain(b.s, 20, &cut);
    assert_int_equal(cut, 3);
    assert_int_equal(b.gone_count, 2);
    CHECK(hear_end(fd));
    close(fd);
    http_drain(b.s, 20, NULL); /* again is fine */
    box_close(&b);
}

TEST(drain_can_be_made_shorter)
{
    struct http_opts o = { 0 };
    struct box b;
    pthread_t t;
    size_t cut = 99;
    void *first;
    int fd;

    box_open(&b, &o);
    fd = dial(&b);
    CHECK(say(fd, GET("/keep")));
    box_wait(&b.kept_count, 1);
    CHECK(pthread_create(&t, NULL, drain_main, &b) == 0); /* would wait for 5 s */
    http_drain(b.s, 0, &cut);
    pthread_join(t, &first);
    assert_int_equal(cut, 1);
    assert_int_equal((uintptr_t)first, 1);
    assert_int_equal(b.gone_count, 1);
    CHECK(hear_end(fd));
    close(fd);
    box_close(&b);
}

TEST(replies_after_the_end)
{
    struct http_opts o = { 0 };
    struct box b;
    int fd;

    box_open(&b, &o);
    fd = dial(&b);
    CHECK(say(fd, GET("/keep") GET("/keep")));
    box_wait(&b.kept_count, 2);
    http_server_free(b.s);
    assert_int_equal(b.gone_count, 2);
    CHECK(http_gone(b.kept[0]));
    assert_string_equal(http_request(b.kept[0])->path, "/keep");
    box_answer(&b, 0);
    box_answer(&b, 1);
    CHECK(hear_end(fd));
    close(fd);
}

TEST_MAIN(cmocka_unit_test(many_idle_connections), cmocka_unit_test(a_killed_client),
          cmocka_unit_test(faulty_requests_end_their_connection),
          cmocka_unit_test(a_head_of_one_megabyte), cmocka_unit_test(slow_heads_and_bodies),
          cmocka_unit_test(idle_connections_end), cmocka_unit_test(readers_that_do_not_read),
          cmocka_unit_test(clients_that_leave), cmocka_unit_test(a_callback_that_answers),
          cmocka_unit_test(replies_race_with_departures),
          cmocka_unit_test(connections_beyond_the_limit_wait), cmocka_unit_test(no_descriptor_left),
          cmocka_unit_test(bodies_of_all_together), cmocka_unit_test(refused_bodies_are_not_kept),
          cmocka_unit_test(drain_answers_all_that_was_taken),
          cmocka_unit_test(drain_cuts_at_its_end), cmocka_unit_test(drain_can_be_made_shorter),
          cmocka_unit_test(replies_after_the_end))
