/* SPDX-License-Identifier: MIT */
/* serve: the model server: HTTP routes, models, queues and metrics wired together. */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H
#include "engine/engine.h"
#include "http/http.h"
#include "model/model.h"

enum {
    SERVE_LISTEN_MAX = 8,
    SERVE_ITEMS_DEFAULT = 2048,         /* inputs or documents a request, as OpenAI takes */
    SERVE_GZIP_BYTES_MIN = 16 << 10,    /* of a reply of text that is packed for who takes it */
    SERVE_TEXT_BYTES_MIN = 1 << 20,     /* of a text, whatever the model's length */
    SERVE_TEXT_TOKEN_BYTES = 256,       /* of a text for each token of the model's length */
    SERVE_FRONTEND_THREADS_MAX = 64,    /* that parse, tokenise and write */
    SERVE_ROW_BYTES_MAX = 512 << 20,    /* of numbers in one reply */
    SERVE_REPLY_BYTES_MAX = 2000 << 20, /* of one reply */
    SERVE_FLOAT_TEXT_BYTES = 13,        /* of a number in a reply, as it is foreseen */
    SERVE_TOKEN_BYTES = 160,            /* of a token in a list of them, its text aside */
    SERVE_TIMEOUT_MAX_DEFAULT_MS = 600000,
    SERVE_PARKED_MAX = 4096,            /* requests that wait for a model to load */
    STORE_EXPIRY_S_DEFAULT = 30 * 86400 /* seconds that a file is kept */
};

#define SERVE_CALLS_BYTES_DEFAULT ((size_t)4 << 30)
#define STORE_BYTES_DEFAULT       (UINT64_C(20) << 30) /* of files and batches */

enum {
    MODELS_MAX = 256,        /* names */
    MODELS_ALIASES_MAX = 16, /* of one model */
    POOLS_MAX = 64,
    MODELS_REPLICAS_MAX = 16, /* devices of one model */
    MODELS_NAME_MAX = 128,    /* bytes of a name, an alias or a pool's name, and its NUL */
    MODELS_DIGEST_MAX = 17    /* bytes of a digest as text and its NUL */
};

enum serve_choice { SERVE_DEFAULT, SERVE_YES, SERVE_NO };
enum models_priority { MODELS_LOW, MODELS_MEDIUM, MODELS_HIGH };

struct serve_pool {
    const char *name; /* "default" is always there */
    uint64_t bytes;   /* 0: all the memory of the machine */
    enum models_priority priority;
};

struct serve_model { /* strings are copied */
    const char *name, *dir;
    const char *aliases[MODELS_ALIASES_MAX];
    size_t alias_count;
    const char *device;          /* "cpu", or several: "cuda:0,cuda:1"; NULL: the best here */
    enum eng_dtype dtype;        /* ENG_AUTO: from settings */
    const char *fallback;        /* device when that one fails; "none"; NULL: from settings */
    bool fallback_at_start;      /* load it at once; else when it is needed first */
    bool invariant;              /* eng_opts.invariant */
    enum serve_choice normalize; /* SERVE_DEFAULT: as each API does; a request may say otherwise */
    const char *pooling;         /* "mean", "cls", "last" …; NULL: the model's own */
    const char *pool;            /* NULL: "default" */
    const char *kind;            /* that it must be: "embedding", "reranker" …; NULL: any */
    enum models_priority priority;
    size_t batch_texts;    /* 0: as many as batch_tokens hold */
    size_t batch_tokens;   /* 0: from settings */
    size_t max_tokens;     /* 0: the model's own */
    uint64_t memory_bytes; /* 0: counted */
    int threads;
    bool pinned;    /* never leaves a full pool */
    bool on_demand; /* at the first request, not before */
    bool may_wait;  /* of low priority: away, not failed, where there is no room for it now */
    const struct model_prompt *prompts; /* added to the model's own, winning over them */
    size_t prompt_count;
};

struct serve_opts {
    const char *listen; /* address; NULL: 127.0.0.1 */
    int ports[SERVE_LISTEN_MAX];
    size_t port_count;
    /* Sockets that listen already, instead of address and ports; the server's from the start on. */
    int sockets[SERVE_LISTEN_MAX];
    size_t socket_count;
    const struct serve_model *models;
    size_t model_count;
    const struct serve_pool *pools;
    size_t pool_count;
    size_t items_max, body_bytes_max, connections_max, queue_tokens_max, queue_requests_max;
    size_t text_bytes_max;  /* of one text; 0: by the model's length */
    size_t calls_bytes_max; /* of all requests: unpacked bodies, numbers, replies */
    int timeout_ms;         /* of a request that names none */
    int timeout_max_ms;     /* of what a request may name */
    int batch_ms;           /* that a batch shall take at most */
    int drain_ms;
    int head_ms, body_ms, body_total_ms; /* of http_opts; 0: its defaults */
    uint64_t cache_bytes;
    struct http_keys keys;
    const char *admin_socket; /* a unix socket that takes changes too; NULL: none */
    const char *const *origins, *const *hosts; /* of http_opts */
    const char *tls_cert, *tls_key;
    bool allow_anyone;        /* beyond loopback without a token */
    bool free_port;           /* a port that is taken becomes a free one: serve_port() tells */
    bool any_model;           /* a name that no model has is the default model's */
    bool no_te_metrics;       /* TEI's names are left out */
    const char *access_log;   /* file, "-" for stdout; NULL: none */
    int frontend_threads;     /* 0: by the machine */
    const char *batch_dir;    /* folder of files and batches; NULL: there are none */
    uint64_t batch_bytes_max; /* of it; 0: store_int.h's default */
    int64_t batch_expiry_s;   /* of files that name none; 0: store_int.h's default */
    /* Who run plug-ins' devices; theirs is the longer life.  NULL: those run in this process,
     * which is then lost with a device that hangs: for tests. */
    struct workers *workers;
};

/* Every limit that is 0 as it will be. */
void serve_defaults(struct serve_opts *o);

/* What a model would run with and where that comes from; nothing is loaded.  Texts are in the
 * arena or static.  `w`: as models_opts.workers. */
enum models_source { MODELS_OPERATOR, MODELS_TABLE, MODELS_FILES, MODELS_MACHINE };
struct models_setting {
    const char *name, *value, *reason;
    enum models_source source;
};
enum { MODELS_SETTINGS_MAX = 16 };
enum rc models_explain(struct workers *w, const struct serve_model *o, struct arena *a,
                       struct models_setting out[MODELS_SETTINGS_MAX], size_t *out_count,
                       struct err *err) MUST_USE;

/* How near vectors in this type are to those in f32, which are the reference's. */
const char *settings_exactness(enum eng_dtype dtype, bool gpu, bool scores);

struct serve;
/* Listens, starts to load the models and answers from then on (503 until ready). */
enum rc serve_start(const struct serve_opts *o, struct serve **out, struct err *err) MUST_USE;
int serve_port(const struct serve *s, size_t i); /* the one taken for ports[i], or sockets[i]'s */
bool serve_ready(const struct serve *s);
bool serve_describe(const struct serve *s, const char *model, struct buf *out); /* models_int.h */
/* RC_OK while every model asked for at start is ready or on its way; else why one is not. */
enum rc serve_check(struct serve *s, struct err *err) MUST_USE;
/* A changed list of models: loads, swaps and unloads what differs. */
enum rc serve_reload(struct serve *s, const struct serve_model *models, size_t count,
                     struct err *err) MUST_USE;
/* Other tokens and the same TLS files, read again; what cannot be used stays as it was. */
enum rc serve_set_keys(struct serve *s, const struct http_keys *keys, struct err *err) MUST_USE;
/* Stops taking requests, answers those it has within the drain time. */
void serve_stop(struct serve *s, size_t *out_cut);
/* For another thread, while serve_stop() waits: what is not answered yet is cut off. */
void serve_hurry(struct serve *s);
void serve_free(struct serve *s); /* NULL is fine */

#endif
