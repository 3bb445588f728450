/* SPDX-License-Identifier: MIT */
/* tls: TLS 1.2 and 1.3 through OpenSSL's libssl, opened only when it is asked for.
 *
 * The program has no hard need for the library: one binary runs where it is not installed,
 * and says so when a certificate is given.  The few functions and numbers below belong to
 * the stable interface of OpenSSL 3 (libssl.so.3); its headers are not needed to build.
 *
 * Non-blocking: the functions say which readiness they wait for.  Renegotiation is off, so
 * only a handshake and a read of a key update can want the other direction. */
#include "http/http_int.h"

#include "base/mem.h"
#include "os/file.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <unistd.h>

enum { /* OpenSSL's numbers */
       CTRL_MODE = 33,
       CTRL_MIN_VERSION = 123,
       VERSION_1_2 = 0x0303,
       FILE_PEM = 1,
       MODE_PARTIAL_WRITE = 1,
       MODE_MOVING_BUFFER = 2,
       MODE_RELEASE_BUFFERS = 16, /* a connection at rest keeps none */
       ERROR_WANT_READ = 2,
       ERROR_WANT_WRITE = 3,
       ERROR_ZERO_RETURN = 6
};
enum { TLS_FILE_BYTES_MAX = 1 << 20 /* of a chain or a key */ };
#define OP_NO_RENEGOTIATION (UINT64_C(1) << 30)
#define OP_IGNORE_EOF       (UINT64_C(1) << 7) /* a FIN without close_notify is an end too */

typedef int tls_phrase(char *out, int cap, int writes, void *arg);

#define SSL_CALLS(F)                                                                               \
    F(const void *, TLS_server_method, (void))                                                     \
    F(void *, SSL_CTX_new, (const void *method))                                                   \
    F(void, SSL_CTX_free, (void *ctx))                                                             \
    F(long, SSL_CTX_ctrl, (void *ctx, int cmd, long larg, void *parg))                             \
    F(uint64_t, SSL_CTX_set_options, (void *ctx, uint64_t options))                                \
    F(void, SSL_CTX_set_default_passwd_cb, (void *ctx, tls_phrase *fn))                            \
    F(void, SSL_CTX_set_default_passwd_cb_userdata, (void *ctx, void *arg))                        \
    F(int, SSL_CTX_use_certificate_chain_file, (void *ctx, const char *file))                      \
    F(int, SSL_CTX_use_PrivateKey_file, (void *ctx, const char *file, int type))                   \
    F(int, SSL_CTX_check_private_key, (const void *ctx))                                           \
    F(void *, SSL_new, (void *ctx))                                                                \
    F(void, SSL_free, (void *ssl))                                                                 \
    F(int, SSL_set_fd, (void *ssl, int fd))                                                        \
    F(void, SSL_set_accept_state, (void *ssl))                                                     \
    F(int, SSL_do_handshake, (void *ssl))                                                          \
    F(int, SSL_read, (void *ssl, void *out, int len))                                              \
    F(int, SSL_write, (void *ssl, const void *p, int len))                                         \
    F(int, SSL_shutdown, (void *ssl))                                                              \
    F(int, SSL_get_error, (const void *ssl, int ret))                                              \
    F(unsigned long, ERR_get_error, (void))                                                        \
    F(void, ERR_clear_error, (void))                                                               \
    F(void, ERR_error_string_n, (unsigned long e, char *out, size_t len))

struct tls {
    void *lib;
    pthread_mutex_t lock; /* of ctx: its certificate may be changed by another thread */
    void *ctx;
#define SSL_MEMBER(type, name, params) type(*name) params; /* NOLINT(bugprone-macro-parentheses) */
    SSL_CALLS(SSL_MEMBER)
#undef SSL_MEMBER
};

static const struct {
    const char *name;
    size_t off;
} symbols[] = {
#define SSL_SYMBOL(type, name, params) { #name, offsetof(struct tls, name) },
    SSL_CALLS(SSL_SYMBOL)
#undef SSL_SYMBOL
};

static enum rc load_library(struct tls *t, struct err *err)
{
    t->lib = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
    if (!t->lib) {
        err_hint(err, "Install OpenSSL 3 (Debian: libssl3), or serve without a certificate.");
        return err_set(err, RC_NODEV, "could not serve TLS: library 'libssl.so.3' not found");
    }
    for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
        void *p = dlsym(t->lib, symbols[i].name);

        if (!p)
            return err_set(err, RC_NODEV, "could not serve TLS: '%s' is not in 'libssl.so.3'",
                           symbols[i].name);
        memcpy((char *)t + symbols[i].off, &p, sizeof(p));
    }
    return RC_OK;
}

static enum rc tls_fault(struct tls *t, const char *what, const char *file, struct err *err)
{
    char text[256] = "unknown";
    unsigned long e = t->ERR_get_error();

    if (e)
        t->ERR_error_string_n(e, text, sizeof(text));
    t->ERR_clear_error();
    return err_set(err, RC_FAIL, "could not use %s '%s': %s", what, file, text);
}

/* The library would open the terminal and wait there for a person, while it serves too. */
static int no_phrase(char *out, int cap, int writes, void *arg)
{
    (void)out;
    (void)cap;
    (void)writes;
    *(bool *)arg = true;
    return -1;
}

/* The library reads what it is given to the end: a FIFO or a device has none. */
static enum rc check_file(const char *what, const char *path, struct err *err)
{
    uint64_t size = 0;
    int fd;
    enum rc rc = file_open(path, &fd, &size, err);

    if (rc) {
        (void)err_ctx(err, "could not use %s", what);
        return rc;
    }
    close(fd);
    if (size > TLS_FILE_BYTES_MAX)
        return err_set(err, RC_LIMIT, "could not use %s '%s': it has %" PRIu64 " bytes, %d at most",
                       what, path, size, TLS_FILE_BYTES_MAX);
    return RC_OK;
}

static enum rc read_pair(struct tls *t, void *ctx, const char *cert, const char *key,
                         struct err *err)
{
    bool asked = false;
    enum rc rc = check_file("certificate", cert, err);

    if (!rc)
        rc = check_file("key", key, err);
    if (rc)
        return rc;
    t->SSL_CTX_set_default_passwd_cb(ctx, no_phrase);
    t->SSL_CTX_set_default_passwd_cb_userdata(ctx, &asked);
    t->SSL_CTX_ctrl(ctx, CTRL_MIN_VERSION, VERSION_1_2, NULL);
    t->SSL_CTX_ctrl(ctx, CTRL_MODE, MODE_PARTIAL_WRITE | MODE_MOVING_BUFFER | MODE_RELEASE_BUFFERS,
                    NULL);
    (void)t->SSL_CTX_set_options(ctx, OP_NO_RENEGOTIATION | OP_IGNORE_EOF);
    if (t->SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
        return tls_fault(t, "certificate", cert, err);
    if (t->SSL_CTX_use_PrivateKey_file(ctx, key, FILE_PEM) != 1) {
        if (!asked)
            return tls_fault(t, "key", key, err);
        t->ERR_clear_error();
        err_hint(err, "'openssl pkey -in KEY -out PLAIN' takes the pass phrase away.");
        return err_set(err, RC_FAIL,
                       "could not use key '%s': it has a pass phrase, and a server asks nobody",
                       key);
    }
    if (t->SSL_CTX_check_private_key(ctx) != 1)
        return tls_fault(t, "key", key, err);
    return RC_OK;
}

/* Connections that are open hold the context they began with. */
enum rc tls_change(struct tls *t, const char *cert, const char *key, struct err *err)
{
    void *fresh, *old;
    enum rc rc;

    t->ERR_clear_error();
    fresh = t->SSL_CTX_new(t->TLS_server_method());
    if (!fresh)
        return tls_fault(t, "library", "libssl.so.3", err);
    rc = read_pair(t, fresh, cert, key, err);
    pthread_mutex_lock(&t->lock);
    old = rc ? fresh : t->ctx;
    t->ctx = rc ? t->ctx : fresh;
    pthread_mutex_unlock(&t->lock);
    if (old)
        t->SSL_CTX_free(old);
    return rc;
}

enum rc tls_new(const char *cert, const char *key, struct tls **out, struct err *err)
{
    struct tls *t = xcalloc(1, sizeof(*t));
    enum rc rc = load_library(t, err);

    pthread_mutex_init(&t->lock, NULL);
    if (!rc)
        rc = tls_change(t, cert, key, err);
    if (rc) {
        tls_free(t);
        return rc;
    }
    *out = t;
    return RC_OK;
}

void tls_free(struct tls *t)
{
    if (!t)
        return;
    if (t->ctx)
        t->SSL_CTX_free(t->ctx);
    pthread_mutex_destroy(&t->lock);
    free(t); /* the library stays: it has handlers that run at exit */
}

void *tls_open(struct tls *t, int fd)
{
    void *ssl;

    pthread_mutex_lock(&t->lock);
    ssl = t->SSL_new(t->ctx);
    pthread_mutex_unlock(&t->lock);
    if (!ssl)
        return NULL;
    t->SSL_set_fd(ssl, fd);
    t->SSL_set_accept_state(ssl);
    return ssl;
}

void tls_close(struct tls *t, void *ssl, bool polite)
{
    t->ERR_clear_error();
    if (polite)
        (void)t->SSL_shutdown(ssl); /* our close_notify, if there is room for it */
    t->SSL_free(ssl);
    t->ERR_clear_error();
}

static int io_result(struct tls *t, const void *ssl, int ret)
{
    switch (t->SSL_get_error(ssl, ret)) {
    case ERROR_WANT_READ:
        return TLS_AGAIN_READ;
    case ERROR_WANT_WRITE:
        return TLS_AGAIN_WRITE;
    case ERROR_ZERO_RETURN:
        return 0;
    default:
        return TLS_ERROR;
    }
}

int tls_handshake(struct tls *t, void *ssl)
{
    int r, reason;

    t->ERR_clear_error();
    r = t->SSL_do_handshake(ssl);
    if (r == 1)
        return 1;
    reason = io_result(t, ssl, r);
    return reason == 0 ? TLS_ERROR : reason;
}

ssize_t tls_read(struct tls *t, void *ssl, void *out, size_t cap)
{
    int r;

    t->ERR_clear_error();
    r = t->SSL_read(ssl, out, cap > INT_MAX ? INT_MAX : (int)cap);
    return r > 0 ? r : io_result(t, ssl, r);
}

ssize_t tls_write(struct tls *t, void *ssl, const void *p, size_t len)
{
    int r;

    t->ERR_clear_error();
    r = t->SSL_write(ssl, p, len > INT_MAX ? INT_MAX : (int)len);
    if (r > 0)
        return r;
    r = io_result(t, ssl, r);
    return r == 0 ? TLS_ERROR : r;
}
