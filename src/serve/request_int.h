/* SPDX-License-Identifier: MIT */
/* request_int: what a client wants, the same for every API, and what it gets.
 *
 * An API module turns a request body into a struct ask and a struct answer into a reply
 * body; it sees neither queue nor engine.  frontend.c does what lies between: finds the
 * model, tokenises, submits, waits.
 *
 *     body ─api─► ask ─front─► job ─sched─► rows ─front─► answer ─api─► body */
#ifndef SERVE_REQUEST_INT_H
#define SERVE_REQUEST_INT_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/model.h"
#include "model/tokenizer.h"
#include "serve/serve.h"

enum ask_what {
    ASK_VECTORS, /* one vector an input */
    ASK_TOKENS,  /* one vector a token of each input, not normalised */
    ASK_RANK,    /* score of (query, input) */
    ASK_CLASSES, /* every label's score of an input or a pair */
    ASK_IDS,     /* the tokens themselves */
    ASK_TEXTS    /* ids back to text */
};
enum ask_class { ASK_INTERACTIVE, ASK_BULK };

/* How vectors are written; a set of bits where an API allows several. */
enum ask_encoding {
    ASK_FLOAT = 1,    /* JSON numbers, shortest that read back */
    ASK_BASE64 = 2,   /* of little-endian f32 */
    ASK_F16 = 4,      /* base64 of little-endian f16 */
    ASK_INT8 = 8,     /* round(127 x) of a vector whose greatest |x| is 1 after scaling by it */
    ASK_UINT8 = 16,   /* the same + 128 */
    ASK_BINARY = 32,  /* signs packed to bytes, high bit first, as int8 (value - 128) */
    ASK_UBINARY = 64, /* the same as uint8 */
    ASK_OCTETS = 128  /* the body is nothing but little-endian f32 rows */
};

struct ask_input {
    struct tok_text text; /* p NULL: ids were given */
    struct tok_text pair; /* p NULL: no second text */
    const uint32_t *ids;  /* given by the client, passed through untouched */
    size_t id_count;
};

struct ask {
    struct arena arena; /* holds everything below */
    enum ask_what what;
    const char *model; /* NULL or "": the only one, else the default */
    struct ask_input *inputs;
    size_t count;
    bool single;               /* the client gave one bare input, not a list */
    struct tok_text query;     /* ASK_RANK */
    const char *prompt_name;   /* NULL: the model's default */
    const char *input_type;    /* "query", "document", "search_query", … */
    const char *instruction;   /* e5-style task for the query */
    enum ask_choice truncate;  /* ASK_NO: too long is an error; default: cut */
    enum ask_choice left;      /* cut at the left; default: as the model's tokenizer does */
    size_t max_tokens;         /* 0: the model's limit */
    size_t max_tokens_doc;     /* 0: what the query leaves */
    size_t max_tokens_query;   /* 0: no own limit */
    enum ask_choice normalize; /* default: the API's own rule */
    bool normalize_said;       /* by the request, not by the API's rule */
    double norm_p;             /* length by this norm: 2 unless the API says; 0: greatest |x| */
    size_t dimensions;         /* 0: all */
    bool no_specials;          /* ids without [CLS] and [SEP] */
    bool ids_whole;            /* given ids must have the model's special tokens around them */
    bool skip_specials;        /* ASK_TEXTS */
    bool raw_scores;
    bool return_texts;
    size_t top_n;       /* 0: all */
    unsigned encodings; /* set of enum ask_encoding */
    enum ask_class class;
    int64_t deadline_ns;    /* monotonic; 0: the server's */
    int64_t timeout_max_ns; /* of what a request may name; 0: no limit of the server's */
    bool sigmoid;           /* scores of one label pass it whatever the config says: TEI's rule */
    const char *id;         /* of this reply, where the API has one */
    void *own;              /* the API module's, in the arena */
};

struct answer_item {
    uint32_t tokens; /* used */
    uint32_t cut;    /* byte of the client's text behind (left: before) the last token
                           * kept; of ids: how many are before it */
    bool truncated, cached;
    size_t row; /* first row in `rows` */
    size_t row_count;
};

struct answer_token { /* ASK_IDS */
    uint32_t id;
    const char *text;
    bool special;
    uint32_t begin, end; /* bytes; 0,0 for specials */
};

struct answer_times { /* nanoseconds */
    int64_t total, tokenize, queue, run;
    int64_t parse, write; /* CPU time, not the clock's: of the body as JSON, and of the reply */
};

struct answer {
    const char *model;       /* the name it is served under */
    const char *digest;      /* which model that was: served.digest; NULL: nobody says */
    const struct model *net; /* labels, pooling, … */
    size_t width;            /* floats a row: after `dimensions` */
    const float *rows;
    struct answer_item *items;    /* [ask.count] */
    struct answer_token **tokens; /* ASK_IDS: [count][items[i].tokens] */
    const char **texts;           /* ASK_TEXTS: [count] */
    uint64_t tokens_total;
    const char *device;        /* "cpu", "cuda:0" */
    bool fell_back;            /* computed there after a failure of another */
    const char *failed_device; /* that one; NULL: none failed */
    struct answer_times times;
    int64_t unix_s; /* when it was answered: "created" */
};

/* ---- errors, by what they are; each API gives them its own code and body (api_error.c) */
enum ask_error {
    ASK_E_JSON,       /* the body is no JSON, or not of this shape */
    ASK_E_EMPTY,      /* no inputs */
    ASK_E_INVALID,    /* a value that cannot be */
    ASK_E_TOO_LONG,   /* truncation was refused */
    ASK_E_TOO_MANY,   /* inputs a call */
    ASK_E_TOO_LARGE,  /* it would take longer than it may */
    ASK_E_NO_MODEL,   /* no such model */
    ASK_E_MODEL_KIND, /* the model cannot do this */
    ASK_E_LOADING,    /* not ready yet */
    ASK_E_OVERLOADED, /* 429, Retry-After */
    ASK_E_DEADLINE,   /* 504 (408 where the API has it) */
    ASK_E_TOKENIZER,
    ASK_E_BACKEND,   /* the engine failed, or gave what is not finite */
    ASK_E_NO_MEMORY, /* a pool is full */
    ASK_E_CHANGED,   /* the model's files are not those it was loaded from */
    ASK_E_STOPPING   /* 503 */
};

struct ask_fault {
    enum ask_error kind;
    char message[ERR_MSG_MAX];
    const char *param; /* member at fault; NULL: none.  Static text */
    int retry_after_s; /* 0: not said */
    int family;        /* 0: the route's, else 1 + enum api_family: the body told who asks */
    int status;        /* 0: what the family gives this kind */
};
/* Sets kind, param and message alone.  Returns false, so that `return ask_fault(...)` reads
 * well in parsers. */
bool ask_fault(struct ask_fault *f, enum ask_error kind, const char *param, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

#endif
