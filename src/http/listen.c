/* SPDX-License-Identifier: MIT */
/* listen: addresses, sockets that listen, and how many files may be open.
 *
 * Options are set on the listening socket: what it accepts inherits them. */
#include "http/http_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEEPALIVE_IDLE_S = 60, KEEPALIVE_EVERY_S = 15, KEEPALIVE_COUNT = 4 };

static void set_option(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

/* A peer whose machine died sends no FIN: keep-alive probes find out. */
static void tune_socket(int fd)
{
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_EVERY_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT);
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

static int port_of(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)a)->sin_port);
    if (a->ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)a)->sin6_port);
    return 0;
}

static enum rc bind_and_listen(struct listener *l, const struct sockaddr *a, socklen_t len,
                               const char *name, struct err *err)
{
    struct sockaddr_storage got = { 0 };
    socklen_t got_len = sizeof(got);
    int fd = socket(a->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return err_sys(err, "could not open a socket for '%s'", name);
    if (a->sa_family != AF_UNIX)
        tune_socket(fd);
    else
        (void)fchmod(fd, 0600); /* the mode of the file that bind() makes, whatever the umask is */
    if (bind(fd, a, len) != 0 || listen(fd, HTTP_BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&got, &got_len) != 0) {
        if (errno == EADDRINUSE && a->sa_family == AF_UNIX)
            err_hint(err, "Another program listens there: end it, or choose another path.");
        else if (errno == EADDRINUSE)
            err_hint(err, "Another program listens there: end it, or choose another port.");
        (void)err_sys(err, "could not listen on '%s'", name);
        close(fd);
        return RC_FAIL;
    }
    l->fd = fd;
    l->port = port_of(&got);
    return RC_OK;
}

/* A socket file nobody listens on is what a killed server left behind. */
static void remove_stale(const struct sockaddr_un *a)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct stat st;

    if (fd < 0)
        return;
    if (stat(a->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
        connect(fd, (const struct sockaddr *)a, sizeof(*a)) != 0 && errno == ECONNREFUSED)
        unlink(a->sun_path);
    close(fd);
}

static enum rc open_unix(struct listener *l, const char *path, struct err *err)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    struct stat st;
    enum rc rc;

    if (!*path || !str_copy(a.sun_path, sizeof(a.sun_path), path))
        return err_set(err, RC_USAGE, "could not listen on 'unix:%s': a path has 1 to %zu bytes",
                       path, sizeof(a.sun_path) - 1);
    if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode)) {
        err_hint(err, "Choose another path, or remove what is there.");
        return err_set(err, RC_USAGE, "could not listen on 'unix:%s': it is there and no socket",
                       path);
    }
    remove_stale(&a);
    rc = bind_and_listen(l, (const struct sockaddr *)&a, sizeof(a), path, err);
    if (!rc)
        l->path = xstrdup(path);
    return rc;
}

enum rc listener_open(struct listener *l, const char *address, int port, struct err *err)
{
    struct addrinfo want = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                             .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    char service[16], name[128];
    enum rc rc;

    if (str_starts(address, "unix:"))
        return open_unix(l, address + 5, err);
    if (port < 0 || port > 65535)
        return err_set(err, RC_USAGE, "could not listen on port %d: ports are 0 to 65535", port);
    snprintf(service, sizeof(service), "%d", port);
    if (getaddrinfo(address, service, &want, &found) != 0 || !found) {
        err_hint(err, "Give a number such as 127.0.0.1 or ::1, or unix:/path.");
        return err_set(err, RC_USAGE, "could not listen on '%s': not an address", address);
    }
    snprintf(name, sizeof(name), strchr(address, ':') ? "[%s]:%d" : "%s:%d", address, port);
    rc = bind_and_listen(l, found->ai_addr, found->ai_addrlen, name, err);
    freeaddrinfo(found);
    return rc;
}

enum rc http_socket_open(const char *address, int port, int *out_fd, int *out_port, struct err *err)
{
    struct listener l = { .fd = -1 };
    enum rc rc = listener_open(&l, address, port, err);

    free(l.path); /* the file stays with its holder */
    if (rc == RC_OK) {
        *out_fd = l.fd;
        *out_port = l.port;
    }
    return rc;
}

enum rc http_socket_address(int fd, char out[HTTP_ADDRESS_MAX], int *out_port, struct err *err)
{
    struct sockaddr_storage a = { 0 };
    socklen_t len = sizeof(a);
    int type = 0, listens = 0;
    socklen_t int_len = sizeof(int);

    if (getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        return err_sys(err, "could not listen on descriptor %d", fd);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &int_len) != 0 || type != SOCK_STREAM ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &int_len) != 0 || !listens) {
        err_hint(err, "Hand over stream sockets that listen (ListenStream=, Accept=no).");
        return err_set(err, RC_USAGE, "could not listen on descriptor %d: no stream that listens",
                       fd);
    }
    *out_port = port_of(&a);
    if (a.ss_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)&a)->sin_addr, out, HTTP_ADDRESS_MAX);
    else if (a.ss_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)&a)->sin6_addr, out, HTTP_ADDRESS_MAX);
    else if (a.ss_family == AF_UNIX)
        snprintf(out, HTTP_ADDRESS_MAX, "unix:%.*s",
                 (int)(len > offsetof(struct sockaddr_un, sun_path)
                           ? len - offsetof(struct sockaddr_un, sun_path)
                           : 0),
                 ((const struct sockaddr_un *)&a)->sun_path);
    else
        return err_set(err, RC_USAGE, "could not listen on descriptor %d: neither IP nor unix", fd);
    return RC_OK;
}

bool http_address_local(const char *address)
{
    return str_starts(address, "unix:") || address_text_is_loopback(address);
}

bool http_address_any(const char *address)
{
    return str_eq(address, "0.0.0.0") || str_eq(address, "::");
}

void http_address_url(const char *address, bool near, bool tls, int port, struct buf *out)
{
    bool six = strchr(address, ':') != NULL;

    if (str_starts(address, "unix:")) {
        buf_adds(out, address);
        return;
    }
    if (near && http_address_any(address))
        address = six ? "::1" : "127.0.0.1";
    buf_addf(out, six ? "%s://[%s]:%d" : "%s://%s:%d", tls ? "https" : "http", address, port);
}

enum rc listener_adopt(struct listener *l, int fd, struct err *err)
{
    char address[HTTP_ADDRESS_MAX];
    int port;
    enum rc rc = http_socket_address(fd, address, &port, err);

    if (rc != RC_OK)
        return rc;
    /* systemd hands them over blocking; the flag is shared by all who hold it, which do not read */
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return err_sys(err, "could not listen on descriptor %d", fd);
    if (!str_starts(address, "unix:"))
        tune_socket(fd);
    *l = (struct listener){ .fd = fd, .port = port, .shared = true };
    return RC_OK;
}

void listener_close(struct listener *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    if (l->path)
        unlink(l->path);
    free(l->path);
    l->path = NULL;
}

static void say_peer(const struct sockaddr_storage *a, char *out, size_t cap)
{
    char text[INET6_ADDRSTRLEN] = "";

    if (a->ss_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)a)->sin_addr, text, sizeof(text));
        snprintf(out, cap, "%s:%d", text, port_of(a));
    } else if (a->ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)a)->sin6_addr, text, sizeof(text));
        if (str_starts(text, "::ffff:") && strchr(text, '.')) /* IPv4 on a socket for both */
            snprintf(out, cap, "%s:%d", text + 7, port_of(a));
        else
            snprintf(out, cap, "[%s]:%d", text, port_of(a));
    } else {
        snprintf(out, cap, "unix");
    }
}

enum rc listener_accept(const struct listener *l, int *out_fd, char *peer, size_t cap)
{
    struct sockaddr_storage a = { 0 };
    socklen_t len = sizeof(a);
    int fd = accept4(l->fd, (struct sockaddr *)&a, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            return RC_LIMIT;
        return errno == EAGAIN ? RC_TIMEOUT : RC_FAIL; /* RC_FAIL: this one left; try the next */
    }
    say_peer(&a, peer, cap);
    *out_fd = fd;
    return RC_OK;
}

enum rc files_raise(size_t *connections, bool fixed, struct err *err)
{
    struct rlimit r;
    size_t most;

    if (getrlimit(RLIMIT_NOFILE, &r) != 0)
        return err_sys(err, "could not read the limit of open files");
    if (r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r);
        (void)getrlimit(RLIMIT_NOFILE, &r);
    }
    if (r.rlim_cur == RLIM_INFINITY || r.rlim_cur >= *connections + HTTP_SPARE_FILES_MAX)
        return RC_OK;
    most = r.rlim_cur > 2 * HTTP_SPARE_FILES_MAX ? r.rlim_cur - HTTP_SPARE_FILES_MAX
                                                 : (size_t)r.rlim_cur / 2;
    if (fixed) {
        err_hint(err, "Raise it (ulimit -n, LimitNOFILE=) or ask for at most %zu connections.",
                 most);
        return err_set(err, RC_LIMIT,
                       "could not hold %zu connections: open files are limited to %llu",
                       *connections, (unsigned long long)r.rlim_cur);
    }
    *connections = most;
    return RC_OK;
}
