/* SPDX-License-Identifier: MIT */
/* test_http_tls: TLS, with the openssl command as certificate maker and client. */
#include "http_box.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>

static char dir[] = "/tmp/stoker-test-tls-XXXXXX";
static char cert[64], key[64];
static const char *missing; /* why the tests cannot run */

static int make_certificate(void **state)
{
    char cmd[512];
    void *lib = dlopen("libssl.so.3", RTLD_NOW);

    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(cert, sizeof(cert), "%s/cert.pem", dir);
    snprintf(key, sizeof(key), "%s/key.pem", dir);
    snprintf(cmd, sizeof(cmd),
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
             "-subj /CN=localhost -keyout %s -out %s >/dev/null 2>&1",
             key, cert);
    if (!lib)
        missing = "libssl.so.3 is not here";
    else if (system(cmd) != 0)
        missing = "the openssl command is not here";
    if (lib)
        dlclose(lib);
    return 0;
}

static int remove_certificate(void **state)
{
    (void)state;
    unlink(cert);
    unlink(key);
    return rmdir(dir);
}

static bool skipped(void)
{
    if (missing)
        printf("# skipped: %s\n", missing);
    return missing != NULL;
}

/* What a shell command prints, at most cap-1 bytes. */
static void shell(char *out, size_t cap, const char *fmt, const char *text, int port)
{
    char cmd[512];
    size_t n;
    FILE *f;

    snprintf(cmd, sizeof(cmd), fmt, text, port);
    f = popen(cmd, "r");
    CHECK(f != NULL);
    n = fread(out, 1, cap - 1, f);
    out[n] = '\0';
    pclose(f);
}

#define CLIENT "openssl s_client -quiet -connect 127.0.0.1:%d 2>/dev/null"

TEST(requests_and_replies)
{
    struct http_opts o = { .tls_cert = cert, .tls_key = key };
    char out[4096];
    struct box b;
    int fd;

    if (skipped())
        return;
    box_open(&b, &o);
    shell(out, sizeof(out), "printf '%s' | " CLIENT,
          "GET /hello HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"
          "POST /echo HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 3\\r\\n"
          "Connection: close\\r\\n\\r\\nabc",
          b.port);
    CHECK(strstr(out, "HTTP/1.1 200 OK\r\n") == out && strstr(out, "\r\n\r\nhelloHTTP/1.1 200"));
    CHECK(strstr(out, "\r\n\r\nabc"));
    shell(out, sizeof(out), "printf '%s' | " CLIENT " | wc -c",
          "GET /large HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n", b.port);
    CHECK(strtol(out, NULL, 10) > 100 << 20);
    shell(out, sizeof(out),
          "(printf '%s'; head -c 3000000 /dev/zero) | " CLIENT " | tail -c 3000000 | wc -c",
          "POST /echo HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 3000000\\r\\n"
          "Connection: close\\r\\n\\r\\n",
          b.port);
    assert_int_equal(strtol(out, NULL, 10), 3000000);
    fd = dial(&b); /* plain text on this port */
    CHECK(say(fd, GET("/hello")));
    assert_int_equal(hear_status(fd), 0);
    close(fd);
    box_wait_conns(&b, 0);
    box_close(&b);
    o.head_ms = 30;
    box_open(&b, &o);
    fd = dial(&b); /* silence in the handshake */
    CHECK(hear_end(fd));
    close(fd);
    box_wait_conns(&b, 0);
    box_close(&b);
}

/* The openssl command with its input in *out_fd. */
static pid_t client(int port, int *out_fd)
{
    char address[32];
    int in[2];
    pid_t pid;

    snprintf(address, sizeof(address), "127.0.0.1:%d", port);
    CHECK(pipe(in) == 0);
    pid = fork();
    if (pid == 0) {
        dup2(in[0], 0);
        close(in[1]);
        close(1);
        close(2);
        execlp("openssl", "openssl", "s_client", "-quiet", "-connect", address, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    *out_fd = in[1];
    return pid;
}

TEST(a_client_that_leaves)
{
    static const char text[] = GET("/keep");
    struct http_opts o = { .tls_cert = cert, .tls_key = key };
    struct box b;
    pid_t pid;
    int fd;

    if (skipped())
        return;
    box_open(&b, &o);
    pid = client(b.port, &fd);
    CHECK(write(fd, text, sizeof(text) - 1) == sizeof(text) - 1);
    box_wait(&b.kept_count, 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    box_wait(&b.gone_count, 1);
    close(fd);
    box_close(&b);
}

/* More than fits into a record or the kernel at once, in pieces that do not line up. */
TEST(a_stream)
{
    enum { PIECE = 40000, PIECES = 20 };
    struct http_opts o = { .tls_cert = cert, .tls_key = key };
    char command[256], *piece, out[4096];
    size_t all = 0, n;
    struct box b;
    FILE *f;

    if (skipped())
        return;
    box_open(&b, &o);
    snprintf(command, sizeof(command),
             "printf 'GET /keep HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n' | " CLIENT, b.port);
    f = popen(command, "r");
    CHECK(f != NULL);
    box_wait(&b.kept_count, 1);
    http_stream_begin(b.kept[0], "text/plain", NULL);
    piece = malloc(PIECE);
    memset(piece, 'x', PIECE);
    for (int i = 0; i < PIECES; i++) {
        CHECK(http_stream_send(b.kept[0], piece, PIECE));
        usleep(1000);
    }
    http_stream_end(b.kept[0]);
    b.kept[0] = NULL;
    while ((n = fread(out, 1, sizeof(out), f)) > 0)
        for (size_t i = 0; i < n; i++)
            all += out[i] == 'x';
    CHECK(all >= (size_t)PIECE * PIECES && all < (size_t)PIECE * PIECES + 4);
    pclose(f);
    free(piece);
    box_close(&b);
}

TEST(certificates_that_cannot_be)
{
    struct http_opts o = { .tls_cert = "/nowhere/cert.pem", .tls_key = "/nowhere/key.pem" };
    struct http_server *s;
    struct err err = { 0 };

    if (skipped())
        return;
    CHECK(http_server_new(&o, &s, &err) == RC_NODEV);
    CHECK(strstr(err.msg, "could not use certificate: ") && strstr(err.msg, "'/nowhere/cert.pem'"));
    o.tls_cert = cert;
    o.tls_key = cert; /* holds no key */
    err = (struct err){ 0 };
    CHECK(http_server_new(&o, &s, &err) == RC_FAIL && strstr(err.msg, "could not use key"));
    o.tls_key = NULL;
    CHECK(http_server_new(&o, &s, NULL) == RC_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(requests_and_replies),
                                        cmocka_unit_test(a_client_that_leaves),
                                        cmocka_unit_test(a_stream),
                                        cmocka_unit_test(certificates_that_cannot_be) };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_certificate, remove_certificate);
}
