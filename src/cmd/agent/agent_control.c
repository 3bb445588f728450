/* SPDX-License-Identifier: MIT */
/* agent_control: a socket file through which its own user speaks with a running agent.
 *
 * A client sends one line ("status", "release", "attach", "bundle 900000") and takes the answer to
 * its end: "ok", a line end and what was asked for, or "error", a blank and the reason. */
#include "cmd/agent/cmd_agent_int.h"

#include "base/str.h"
#include "os/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    CONTROL_LINE_MAX = 4096,       /* bytes of a question */
    CONTROL_REPLY_MAX = 300 << 20, /* bytes of an answer */
    CONTROL_READ_MS = 2000,        /* for a question */
    CONTROL_WRITE_MS = 10000,      /* without progress of an answer */
    CONTROL_DONE_MS = 60000,       /* for an answer to come */
    CONTROL_RELEASE_MS = 8000,     /* for the driver to be let go */
    CONTROL_BACKLOG = 8
};

enum rc control_path(const char *given, char *out, size_t cap, struct err *err)
{
    const char *run = getenv("RUNTIME_DIRECTORY"), *xdg = getenv("XDG_RUNTIME_DIR");
    char dir[FILE_PATH_MAX];

    if (given)
        return str_copy(out, cap, given)
                   ? RC_OK
                   : err_set(err, RC_LIMIT, "the path '%s' is too long", given);
    if (run && *run)
        (void)str_copy(dir, sizeof(dir), run);
    else if (geteuid() == 0)
        (void)str_copy(dir, sizeof(dir), "/run/stoker");
    else if (xdg && *xdg)
        (void)snprintf(dir, sizeof(dir), "%s/stoker", xdg);
    else
        (void)snprintf(dir, sizeof(dir), "/tmp/stoker-%u", (unsigned)geteuid());
    return file_join(out, cap, dir, "agent.sock", err);
}

static enum rc address_of(const char *path, struct sockaddr_un *out, struct err *err)
{
    *out = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (!str_copy(out->sun_path, sizeof(out->sun_path), path))
        return err_set(err, RC_LIMIT, "the path of socket '%s' is too long", path);
    return RC_OK;
}

static void set_time(int fd, int option, int ms)
{
    struct timeval t = { ms / 1000, ms % 1000 * 1000 };

    (void)setsockopt(fd, SOL_SOCKET, option, &t, sizeof(t));
}

static int connect_to(const struct sockaddr_un *a)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0)
        return fd;
    if (fd >= 0) {
        int why = errno;
        close(fd);
        errno = why;
    }
    return -1;
}

enum rc control_listen(const char *path, int *out_fd, struct err *err)
{
    char dir[FILE_PATH_MAX];
    struct sockaddr_un a;
    struct stat st;
    mode_t old;
    int fd, rc;

    if (address_of(path, &a, err))
        return err->code;
    (void)str_copy(dir, sizeof(dir), path);
    if (strrchr(dir, '/') && strrchr(dir, '/') != dir) {
        *strrchr(dir, '/') = '\0';
        if (!file_is_dir(dir) && mkdir(dir, 0700) != 0)
            return err_sys(err, "could not make '%s'", dir);
    }
    if (lstat(path, &st) == 0 &&
        !S_ISSOCK(st.st_mode)) /* refuses connections as a stale one does */
        return err_set(err, RC_USAGE, "could not listen on '%s': it is there and no socket", path);
    fd = connect_to(&a);
    if (fd >= 0) {
        close(fd);
        return err_set(err, RC_LIMIT, "an agent that runs has the socket '%s'", path);
    }
    if (errno == ECONNREFUSED)
        (void)unlink(path); /* what a killed one left */
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    old = umask(0177);
    rc = fd < 0 ? -1 : bind(fd, (const struct sockaddr *)&a, sizeof(a));
    (void)umask(old);
    if (rc != 0 || listen(fd, CONTROL_BACKLOG) != 0) {
        (void)err_sys(err, "could not listen on '%s'", path);
        if (fd >= 0)
            close(fd);
        return err->code;
    }
    *out_fd = fd;
    return RC_OK;
}

/* ---- the agent's side */

/* Until the driver is in that state, or has none. */
static enum rc wait_driver(struct agent *a, enum gpu_child_state want, struct err *err)
{
    int64_t until = clock_mono_ms() + CONTROL_RELEASE_MS;

    while (clock_mono_ms() < until) {
        enum gpu_child_state s = agent_driver(a);
        if (s == want || s == GPU_CHILD_NO_DRIVER)
            return RC_OK;
        clock_sleep_ms(20);
    }
    return err_set(err, RC_TIMEOUT, "the driver is still %s",
                   want == GPU_CHILD_RELEASED ? "held: a call of it may hang" : "not attached");
}

static enum rc do_line(struct agent *a, const char *line, struct buf *out, struct err *err)
{
    int64_t ms;

    if (str_eq(line, "status")) {
        agent_status(a, out);
        return RC_OK;
    }
    if ((str_eq(line, "release") || str_eq(line, "attach")) && agent_driver(a) == GPU_CHILD_OFF)
        return err_set(err, RC_NODEV, "this agent speaks with no driver");
    if (str_eq(line, "release")) {
        agent_release_gpus(a);
        return wait_driver(a, GPU_CHILD_RELEASED, err);
    }
    if (str_eq(line, "attach")) {
        agent_attach_gpus(a);
        return wait_driver(a, GPU_CHILD_RUNS, err);
    }
    if (str_starts(line, "bundle ") && str_to_i64(line + strlen("bundle "), 10, &ms) && ms > 0)
        return agent_bundle(a, ms, out, err);
    if (str_eq(line, "silences")) {
        agent_silences(a, out);
        return RC_OK;
    }
    if (str_starts(line, "silence ")) {
        uint64_t id = 0;
        enum rc rc = agent_silence(a, line + strlen("silence "), strlen(line + strlen("silence ")),
                                   &id, err);

        buf_addf(out, "%llu\n", (unsigned long long)id);
        return rc;
    }
    if (str_starts(line, "unsilence ") && str_to_i64(line + strlen("unsilence "), 10, &ms) &&
        ms > 0)
        return agent_silence_end(a, (uint64_t)ms, err);
    return err_set(err, RC_USAGE, "unknown control command '%.100s'", line);
}

static bool send_all(int fd, const char *p, size_t len)
{
    while (len) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

static bool read_line(int fd, char *out, size_t cap)
{
    size_t len = 0;

    while (len < cap - 1) {
        ssize_t n = recv(fd, out + len, 1, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        if (out[len] == '\n') {
            out[len] = '\0';
            str_make_text(out);
            return true;
        }
        len++;
    }
    return false;
}

void control_answer(int fd, struct agent *a)
{
    int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    char line[CONTROL_LINE_MAX];
    struct buf out = { 0 };
    struct err err = { 0 };

    if (c < 0)
        return;
    set_time(c, SO_RCVTIMEO, CONTROL_READ_MS);
    set_time(c, SO_SNDTIMEO, CONTROL_WRITE_MS);
    if (read_line(c, line, sizeof(line))) {
        if (do_line(a, line, &out, &err) == RC_OK) {
            (void)(send_all(c, "ok\n", 3) && send_all(c, buf_str(&out), out.len));
        } else {
            buf_reset(&out);
            buf_addf(&out, "error %s\n", err.msg);
            (void)send_all(c, buf_str(&out), out.len);
        }
    }
    buf_release(&out);
    close(c);
}

/* ---- the client's side */

static enum rc read_reply(int fd, struct buf *out, struct err *err)
{
    ssize_t n;

    buf_init(out, CONTROL_REPLY_MAX);
    do {
        char *to = buf_reserve(out, 64 << 10);
        if (!to)
            return err_set(err, RC_LIMIT, "the answer is larger than %d bytes", CONTROL_REPLY_MAX);
        n = recv(fd, to, 64 << 10, 0);
        if (n > 0)
            buf_commit(out, (size_t)n);
    } while (n > 0 || (n < 0 && errno == EINTR));
    return n < 0 ? err_sys(err, "the agent did not answer") : RC_OK;
}

enum rc control_ask(const char *path, const char *line, struct buf *out, struct err *err)
{
    struct sockaddr_un a;
    struct buf reply = { 0 };
    enum rc rc = address_of(path, &a, err);
    int fd;

    if (rc != RC_OK)
        return rc;
    fd = connect_to(&a);
    if (fd < 0) {
        err_hint(err, "Start one with 'stoker agent', or name its socket with --control.");
        return err_sys(err, "no agent answers on '%s'", path);
    }
    set_time(fd, SO_RCVTIMEO, CONTROL_DONE_MS);
    if (!send_all(fd, line, strlen(line)) || !send_all(fd, "\n", 1))
        rc = err_sys(err, "the agent on '%s' takes no question", path);
    else
        rc = read_reply(fd, &reply, err);
    close(fd);
    if (rc == RC_OK && str_starts(buf_str(&reply), "ok\n"))
        buf_add(out, reply.data + 3, reply.len - 3);
    else if (rc == RC_OK)
        rc = err_set(err, RC_FAIL, "the agent says: %.*s", reply.len > 7 ? (int)(reply.len - 7) : 0,
                     reply.len > 7 ? reply.data + 6 : "");
    buf_release(&reply);
    return rc;
}
