/* SPDX-License-Identifier: MIT */
/* request_int: one request on its way through the server.
 *
 *   loop's thread    frontend's threads                 device queue's thread
 *   handler ───────► parse, model, encode, submit ────► batches
 *                    finish, write, answer ◄─────────── done()
 *
 * It is made by frontend_take() or frontend_take_line() and freed when its reply was handed over.
 * Between the two it belongs to exactly one thread at a time: to the one that took it from a queue
 * of the frontend, and from sched_submit() until done() to the thread of its device queue.  What
 * others may touch meanwhile is atomic (`cancelled`), or is touched under that queue's lock alone
 * (texts that follow one of another request).
 *
 * A client's input and the text that a model computes for it are two structs: inputs are there as
 * soon as the body was read, when nobody has looked yet whether they are too many, and are small;
 * texts are made for the number that is allowed. */
#ifndef SERVE_REQUEST_INT_H
#define SERVE_REQUEST_INT_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "engine/engine.h"
#include "http/http.h"
#include "model/model.h"
#include "model/tokenizer.h"
#include "serve/serve.h"

#include <stdatomic.h>

struct serve_route;
struct model_queue;
struct request_line;
struct sched_client;
struct serve;
struct served;

enum request_what {
    REQUEST_VECTORS, /* one vector an input */
    REQUEST_TOKENS,  /* one vector a token of each input, not normalised */
    REQUEST_RANK,    /* score of (query, input) */
    REQUEST_CLASSES, /* every label's score of an input or a pair */
    REQUEST_IDS,     /* the tokens themselves */
    REQUEST_TEXTS    /* ids back to text */
};
enum request_class { REQUEST_INTERACTIVE, REQUEST_BULK };

/* How vectors are written; a set of bits where an API allows several. */
enum api_encoding {
    API_FLOAT = 1,    /* JSON numbers, shortest that read back */
    API_BASE64 = 2,   /* of little-endian f32 */
    API_F16 = 4,      /* base64 of little-endian f16 */
    API_INT8 = 8,     /* round(127 x) of a vector whose greatest |x| is 1 after scaling by it */
    API_UINT8 = 16,   /* the same + 128 */
    API_BINARY = 32,  /* signs packed to bytes, high bit first, as int8 (value - 128) */
    API_UBINARY = 64, /* the same as uint8 */
    API_OCTETS = 128  /* the body is nothing but little-endian f32 rows */
};

/* ---- errors, by what they are; each API gives them its own code and body (api_error.c) */
enum fault_kind {
    FAULT_JSON,       /* the body is no JSON, or not of this shape */
    FAULT_EMPTY,      /* no inputs */
    FAULT_INVALID,    /* a value that cannot be */
    FAULT_TOO_LONG,   /* truncation was refused */
    FAULT_TOO_MANY,   /* inputs a request */
    FAULT_TOO_LARGE,  /* it would take longer than it may */
    FAULT_NO_MODEL,   /* no such model */
    FAULT_MODEL_KIND, /* the model cannot do this */
    FAULT_LOADING,    /* not ready yet */
    FAULT_OVERLOADED, /* 429, Retry-After */
    FAULT_DEADLINE,   /* 504 (408 where the API has it) */
    FAULT_TOKENIZER,
    FAULT_BACKEND,   /* the engine failed, or gave what is not finite */
    FAULT_NO_MEMORY, /* a pool is full */
    FAULT_CHANGED,   /* the model's files are not those it was loaded from */
    FAULT_STOPPING   /* 503 */
};

struct request_fault {
    enum fault_kind kind;
    char message[ERR_MSG_MAX];
    const char *param; /* member at fault; NULL: none.  Static text */
    int retry_after_s; /* 0: not said */
    int family;        /* 0: the route's, else 1 + enum api_family: the body told who asks */
    int status;        /* 0: what the family gives this kind */
};

/* An input as the client gave it, in the arena.  A parser fills it in; nobody changes it. */
struct request_input {
    struct tok_text text; /* p NULL: ids were given */
    struct tok_text pair; /* p NULL: no second text */
    const uint32_t *ids;  /* given by the client, passed through untouched */
    size_t id_count;
};

/* What a model computes for an input, in the arena; request_encode.c makes it. */
struct request_text {
    const uint32_t *ids;
    const uint8_t *types; /* NULL: all 0 */
    uint32_t tokens;
    uint32_t skip; /* first tokens that pooling leaves out: a prompt's */
    uint32_t cut;  /* byte of the client's text behind (left: before) the last token
                    * kept; of ids: how many are before it */
    bool truncated;
    bool failed, cached, shared; /* the scheduler tells */
    size_t row;                  /* first row in `rows` */
    size_t row_count;
    float *out; /* there */

    /* the scheduler's, from sched_submit() to done(); of one that is not in the cache */
    enum text_state { TEXT_OVER, TEXT_WAITING, TEXT_FOLLOWING, TEXT_RUNNING } state;
    struct request *request;
    uint64_t hash[2];
    struct request_text *chain;       /* in the table */
    struct request_text *prev, *next; /* waiting: in its request; following: beside others */
    struct request_text *leader;      /* following: that one */
    struct request_text *followers;
    struct err *err; /* owned; why it has no row */
};

struct response_token { /* REQUEST_IDS */
    uint32_t id;
    const char *text;
    bool special;
    uint32_t begin, end; /* bytes; 0,0 for specials */
};

struct response_times { /* nanoseconds */
    int64_t total, tokenize, queue, run;
    int64_t parse, write; /* CPU time, not the clock's: of the body as JSON, and of the reply */
};

/* What a writer of api/ makes the body of, beside the request's texts. */
struct response {
    const char *model;       /* the name it is served under */
    const char *digest;      /* which model that was: served.digest; NULL: nobody says */
    const struct model *net; /* labels, pooling, … */
    size_t width;            /* floats a row: after `dimensions` */
    const float *rows;
    struct response_token **tokens; /* REQUEST_IDS: [count][texts[i].tokens] */
    const char **decoded;           /* REQUEST_TEXTS: [count] */
    uint64_t tokens_total;
    const char *device; /* "cpu", "cuda:0"; NULL: nothing was computed */
    struct response_times times;
    int64_t unix_s; /* when it was answered: "created" */
};

/* A place in a heap.  The least tag + size is served first, of equals the one that came first. */
struct sched_turn {
    double tag;  /* where it stands: grows by the tokens it is given */
    double size; /* tokens that it still wants; SCHED_LITTLE of a batch at most */
    uint64_t came;
    size_t at; /* in its heap, from 1; 0: in none */
};

struct request {
    /* ---- where it comes from: frontend.c */
    struct serve *s;
    struct http_exchange *x;         /* NULL: a line's */
    struct request_line *line;       /* NULL: a client's own */
    const struct http_request *http; /* of one of them */
    const struct serve_route *api;
    enum { REQUEST_PARSE, REQUEST_MODEL, REQUEST_FINISH } stage;
    struct request *prev, *next; /* in the frontend's queue, or among those of a device */
    size_t bytes;                /* counted in requests_bytes */

    /* ---- what is wanted: the parsers of api/ */
    struct arena arena; /* holds everything of this request that is not owned by name */
    enum request_what what;
    const char *model_name; /* NULL or "": the only one, else the default */
    struct request_input *inputs;
    size_t count;
    bool single;                 /* the client gave one bare input, not a list */
    struct tok_text query;       /* REQUEST_RANK */
    const char *prompt_name;     /* NULL: the model's default */
    const char *input_type;      /* "query", "document", "search_query", … */
    const char *instruction;     /* e5-style task for the query */
    enum serve_choice truncate;  /* SERVE_NO: too long is an error; default: cut */
    enum serve_choice cut_left;  /* cut at the left; default: as the model's tokenizer does */
    size_t max_tokens;           /* 0: the model's limit */
    size_t max_tokens_doc;       /* 0: what the query leaves */
    size_t max_tokens_query;     /* 0: no own limit */
    enum serve_choice normalize; /* default: the API's own rule */
    bool normalize_said;         /* by the request, not by the API's rule */
    double norm_p;               /* length by this norm: 2 unless the API says; 0: greatest |x| */
    size_t dimensions;           /* 0: all */
    bool no_specials;            /* ids without [CLS] and [SEP] */
    bool ids_whole;              /* given ids must have the model's special tokens around them */
    bool skip_specials;          /* REQUEST_TEXTS */
    bool raw_scores;
    bool return_texts;
    bool sigmoid;             /* scores of one label pass it whatever the config says: TEI's rule */
    size_t top_n;             /* 0: all */
    unsigned encodings;       /* set of enum api_encoding */
    enum request_class class; /* the scheduler makes one bulk that is larger than a batch may be */
    int64_t deadline_ns;      /* monotonic; 0: none */
    int64_t timeout_max_ns;   /* of what a request may name; 0: no limit of the server's */
    const char *id;           /* of this reply, where the API has one */
    struct api_priv *priv;    /* the API module's, in the arena; NULL: all zero */

    /* ---- what it takes of the model: frontend.c, request_encode.c */
    struct served *model; /* a reference, or NULL */
    enum eng_want want;
    struct request_text *texts; /* [count]; NULL: not encoded yet */
    float *rows;                /* [row_count][full_width], owned: too large for an arena's life */
    size_t row_count;
    size_t full_width; /* floats a row as computed */
    int64_t tokenize_ns;

    /* ---- what the scheduler wants to know: its submitter */
    uint64_t client;  /* who asks: those who differ share alike */
    int64_t begun_ns; /* since when its time runs; 0: since it is submitted */
    /* Any thread may set it, before sched_submit() too; a device queue looks before it runs a
     * text. */
    _Atomic bool cancelled;
    const _Atomic bool *gone; /* cancels it with others of its source; NULL: none, borrowed */
    /* Called once, on the device queue's thread or inside sched_submit() when all was cached; all
     * texts are done, failed or dropped, and `why` and `err` say how it ended. */
    void (*done)(struct request *r);

    /* ---- the scheduler's own, from sched_submit() to done() */
    struct model_queue *queue;
    struct sched_client *sharer;   /* of its class of the queue; while a text of it waits */
    struct sched_turn turn;        /* among its client's */
    struct request_text **pending; /* owned: those that are not in the cache, the longest first */
    size_t pending_count, unfinished;                  /* of them; not yet over */
    size_t running;                                    /* in batches */
    struct request_text *waiting_first, *waiting_last; /* the longest first */
    size_t waiting_tokens;
    size_t joined_tokens;  /* when it came, of equal texts those of one */
    struct request *ended; /* in a list of those that are */
    bool over, failed;     /* a text failed: `err` says why */
    bool unsure; /* whether it ends in time: the speed at its size was not known when it came, … */
    uint64_t unsure_at; /* … or was old: it is judged by what runs after so many of pace.batches */

    /* ---- how it ended */
    /* RC_OK, RC_TIMEOUT (deadline; `err` says so where it would not have ended in time alone),
     * RC_FAIL (engine; `err` says it), RC_LIMIT (cancelled, or `err` of that code says that it
     * would end too late beside the others). */
    enum rc why;
    struct err err;
    int64_t submitted_ns, started_ns, ended_ns;
    const char *device; /* where rows were computed, the fallback if some were there; NULL: all
                         * were cached.  Good as long as the model's reference */
    const char *failed_device; /* whose fallback that is; NULL: none failed */
    bool fell_back;
    struct response response;
    struct request_fault fault;
};

/* Sets kind, param and message alone.  Returns false, so that `return request_fail(…)` reads well
 * in parsers. */
bool request_fail(struct request *r, enum fault_kind kind, const char *param, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* The same for a fault that is no request's. */
bool fault_set(struct request_fault *f, enum fault_kind kind, const char *param, const char *fmt,
               ...) PRINTF_LIKE(4, 5);

#endif
