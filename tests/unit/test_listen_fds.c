/* SPDX-License-Identifier: MIT */
/* Sockets from one process to the next: what the variables may say, and a server that answers on a
 * socket whose queue another one holds. */
#include "test.h"

#include "base/str.h"
#include "http/http.h"
#include "os/net/net_int.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(variables)
{
    static const struct {
        const char *pid, *fds, *names;
        enum rc rc;
        size_t count;
    } rows[] = {
        { NULL, NULL, NULL, RC_OK, 0 },
        { "7", NULL, "x", RC_OK, 0 },
        { "8", "2", "a:b", RC_OK, 0 },
        { "x", "2", "a:b", RC_OK, 0 },
        { "7", "2", "serve", RC_OK, 2 },
        { "7", "1", NULL, RC_OK, 1 },
        { "7", "0", NULL, RC_OK, 0 },
        { "7", "8", "a:b:c:d:e:f:g:h:i", RC_OK, 8 },
        { "7", "9", NULL, RC_LIMIT, 0 },
        { "7", "-1", NULL, RC_USAGE, 0 },
        { "7", "", NULL, RC_USAGE, 0 },
        { "7", "2 ", NULL, RC_USAGE, 0 },
        { "7", "99999999999999999999", NULL, RC_USAGE, 0 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct listen_fds got;
        struct err err = { 0 };

        CHECK(listen_fds_parse(rows[i].pid, rows[i].fds, rows[i].names, 7, &got, &err) ==
              rows[i].rc);
        CHECK(got.count == rows[i].count);
    }
}

TEST(names)
{
    struct listen_fds got;

    CHECK(!listen_fds_parse("7", "3", "serve::page", 7, &got, NULL));
    CHECK(listen_fds_find(&got, "serve") == 3 && listen_fds_find(&got, "page") == 5);
    CHECK(str_eq(got.items[1].name, "") && listen_fds_find(&got, "other") == -1);
}

/* Handed to a child in another order than they stand here. */
TEST(given_and_taken)
{
    struct listen_fds give = { .count = 2 };
    int ports[2], status = -1;
    pid_t pid;

    for (size_t i = 0; i < 2; i++)
        CHECK(!http_socket_open("127.0.0.1", 0, &give.items[1 - i].fd, &ports[1 - i], NULL));
    (void)str_copy(give.items[0].name, sizeof(give.items[0].name), "first");
    (void)str_copy(give.items[1].name, sizeof(give.items[1].name), "second");
    pid = fork();
    if (pid == 0) {
        struct listen_fds got;
        char address[HTTP_ADDRESS_MAX];
        int port = 0, wrong = !listen_fds_give(&give) || listen_fds_take(&got, NULL);

        wrong = wrong || got.count != 2 || getenv("LISTEN_FDS") != NULL;
        for (size_t i = 0; !wrong && i < 2; i++)
            wrong = http_socket_address(got.items[i].fd, address, &port, NULL) ||
                    port != ports[i] || !str_eq(address, "127.0.0.1") ||
                    !str_eq(got.items[i].name, give.items[i].name);
        _exit(wrong);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(give.items[0].fd);
    close(give.items[1].fd);
}

static int connect_to(int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void say_hello(void *arg, struct http_exchange *x)
{
    struct buf b = { 0 };

    (void)arg;
    buf_adds(&b, "hello");
    http_reply(x, 200, "text/plain", &b, NULL);
}

/* Who waits in the queue while no server runs, and while one drains, is the next one's. */
TEST(queue_outlives_the_server)
{
    const struct http_route routes[] = {
        { .method = HTTP_GET, .path = "/", .run = say_hello, .scope = HTTP_SCOPE_OPEN }
    };
    struct http_opts o = { .routes = routes, .route_count = 1 };
    struct http_server *s;
    int held = -1, port = 0, fd, got_port = 0;
    char text[256] = "";
    ssize_t n;

    CHECK(!http_socket_open("127.0.0.1", 0, &held, &port, NULL));
    for (int round = 0; round < 3; round++) {
        fd = connect_to(port); /* nobody accepts */
        CHECK(fd >= 0 && write(fd, "GET / HTTP/1.0\r\n\r\n", 18) == 18);
        CHECK(!http_server_new(&o, &s, NULL) && !http_listen_fd(s, dup(held), &got_port, NULL));
        CHECK(got_port == port && !http_start(s, NULL));
        n = recv(fd, text, sizeof(text) - 1, MSG_WAITALL);
        CHECK(n > 0 && str_starts(text, "HTTP/1.1 200") && strstr(text, "hello"));
        close(fd);
        http_drain(s, 1000, NULL);
        http_server_free(s);
    }
    fd = connect_to(port);
    CHECK(fd >= 0);
    close(fd);
    close(held);
    CHECK(connect_to(port) < 0);
}

TEST(what_cannot_be_listened_on)
{
    struct http_opts o = { 0 };
    struct http_server *s;
    struct err err = { 0 };
    int plain = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), pipes[2];

    CHECK(!http_server_new(&o, &s, NULL) && pipe(pipes) == 0);
    CHECK(http_listen_fd(s, pipes[0], NULL, &err) == RC_FAIL);
    CHECK(http_listen_fd(s, plain, NULL, &err) == RC_USAGE);
    CHECK(http_listen_fd(s, 999, NULL, &err) == RC_FAIL);
    http_server_free(s);
    close(plain);
    close(pipes[0]);
    close(pipes[1]);
}

TEST(which_addresses_are_local)
{
    static const char *const near[] = { "127.0.0.1", "127.9.9.9",   "::1",
                                        "localhost", "unix:/run/x", "::ffff:127.0.0.1" };
    static const char *const far[] = { "0.0.0.0",         "::",  "10.0.0.1", "::ffff:10.0.0.1",
                                       "127.example.org", "gpu7" };

    for (size_t i = 0; i < ARRAY_SIZE(near); i++)
        CHECK(http_address_local(near[i]));
    for (size_t i = 0; i < ARRAY_SIZE(far); i++)
        CHECK(!http_address_local(far[i]));
}

TEST_MAIN(cmocka_unit_test(variables), cmocka_unit_test(names), cmocka_unit_test(given_and_taken),
          cmocka_unit_test(queue_outlives_the_server), cmocka_unit_test(what_cannot_be_listened_on),
          cmocka_unit_test(which_addresses_are_local))
