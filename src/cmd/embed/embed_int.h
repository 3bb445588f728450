/* SPDX-License-Identifier: MIT */
/* embed_int: what `stoker embed` and `stoker rerank` share: a model made ready, records
 * from lines, rows to files. */
#ifndef CMD_EMBED_EMBED_INT_H
#define CMD_EMBED_EMBED_INT_H
#include "base/arena.h"
#include "base/codec/fnv1a.h"
#include "cmd/cmd_int.h"
#include "engine/batch.h"
#include "engine/prompt.h"

/* ---- embed_model.c: a model directory as something that runs batches ---- */
struct encoder_opts {
    const char *model;  /* a directory, or the name of an installed model */
    const char *device; /* NULL: the best here */
    const char *dtype;  /* "f32", "bf16" …; NULL: auto */
    int threads;        /* 0: one a usable CPU */
    size_t max_tokens;  /* 0: the model's own */
    bool invariant;     /* eng_opts.invariant */
    bool head;          /* it must score pairs; otherwise it must give vectors */
    enum { ENCODER_AS_MODEL, ENCODER_NORMALIZE, ENCODER_RAW } normalize;
};

struct encoder {
    struct model *model;
    struct tokenizer *tok;
    struct tok_scratch *scratch;
    struct eng *eng;
    size_t max_tokens; /* a text's, specials included */
    size_t width;      /* floats a text: the vector's, or 1 */
    struct buf prepared;
    const char *prompt; /* borrowed; NULL: none */
    size_t skip;        /* tokens of the prompt that pooling leaves out */
};

enum rc encoder_open(const struct encoder_opts *o, struct encoder *out, struct err *err) MUST_USE;
void encoder_close(struct encoder *e);
/* Puts `prompt` (borrowed; NULL: none) before every text from here on. */
enum rc encoder_prompt(struct encoder *e, const char *prompt, struct err *err) MUST_USE;
/* Appends one text to the batch; what is wrong with it is noted there. */
void encoder_add(struct encoder *e, struct tok_text t, struct batch *b);
/* After a very long text: gives its memory back. */
void encoder_trim(struct encoder *e, size_t len);
/* "avx512 bf16, 2 threads" */
void encoder_describe(const struct encoder *e, char *out, size_t cap);
/* What it computes in, whatever was asked for; ENG_AUTO: it does not say. */
enum eng_dtype encoder_dtype(const struct encoder *e);
/* Tells on standard error what auto chose where that is not exact. */
void encoder_tell_dtype(const struct encoder *e);
/* A number that differs when the model gives other vectors: its small files, the shapes
 * of its tensors and some values of each. */
uint64_t encoder_fingerprint(const struct encoder *e);

/* ---- embed_read.c: records from files or stdin, one a line ---- */
enum { SOURCE_PATHS_MAX = 4096, SOURCE_ID_MAX = 1024 }; /* an id's bytes */
struct embed_source;
enum source_got {
    SOURCE_TEXT,  /* a record */
    SOURCE_BAD,   /* a record that is not one: `why` */
    SOURCE_LATER, /* nothing is there yet, and the caller did not want to wait */
    SOURCE_END
};
struct source_record { /* borrowed until the next call */
    struct tok_text text;
    const char *file; /* "-" for stdin */
    uint64_t line;    /* from 1, in its file */
    const char *id;   /* JSON text of the member --id names; NULL: not asked for */
    char why[256];    /* SOURCE_BAD */
};
struct source_opts {
    char **paths; /* borrowed; none: stdin */
    size_t count;
    bool jsonl;
    const char *field; /* "text" when NULL */
    const char *id;    /* member to hand on; NULL: none */
};
/* Opens the first file and checks that the others can be read. */
enum rc source_open(const struct source_opts *o, struct embed_source **out,
                    struct err *err) MUST_USE;
void source_close(struct embed_source *s);
enum rc source_next(struct embed_source *s, bool wait, enum source_got *out_got,
                    struct source_record *out, struct err *err) MUST_USE;
uint64_t source_bytes(const struct embed_source *s);           /* read so far */
bool source_size(const struct embed_source *s, uint64_t *out); /* of all of it; false: not known */

/* ---- embed_write.c: rows to a file or stdout ---- */
enum sink_format { SINK_JSONL, SINK_RAW, SINK_NPY };
struct embed_sink {
    int fd;           /* -1: closed */
    const char *path; /* NULL: stdout */
    enum sink_format format;
    size_t width;
    uint64_t base;    /* offset the file began at: 0, or where a shell left stdout */
    uint64_t rows;    /* whole records in the file */
    uint64_t bytes;   /* of them, from `base` */
    bool seekable;    /* the head can be written again and a torn end cut off */
    bool gone;        /* the reader of a pipe left */
    struct buf buf;   /* records not yet written */
    uint64_t waiting; /* how many */
};
struct sink_row {
    uint64_t index;
    const float *values;
    size_t tokens;
    bool truncated;
    const char *why; /* NULL: it worked */
    const char *id;  /* JSON text; NULL: none */
};
/* `keep`: continue what is there, cut to whole records (counted in ->rows). */
enum rc sink_open(struct embed_sink *s, const char *path, bool keep, struct err *err) MUST_USE;
enum rc sink_add(struct embed_sink *s, const struct sink_row *row, struct err *err) MUST_USE;
enum rc sink_flush(struct embed_sink *s, struct err *err) MUST_USE;
enum rc sink_close(struct embed_sink *s,
                   struct err *err) MUST_USE; /* flushes; also after a failure */

/* ---- embed_resume.c: the side file that says what a file in the making is ---- */
struct resume {
    int fd;        /* -1: none */
    char *path;    /* OUT.resume, owned */
    uint64_t key;  /* of model and options */
    uint64_t rows; /* done at the last note */
    uint64_t hash; /* of the input up to there */
    bool complete;
    const char *about; /* borrowed: model and options for people */
};
/* Reads OUT.resume; RC_NODEV when there is none. */
enum rc resume_read(const char *out_path, struct resume *r, struct err *err) MUST_USE;
enum rc resume_create(const char *out_path, struct resume *r, struct err *err) MUST_USE;
enum rc resume_note(struct resume *r, struct err *err) MUST_USE; /* writes it again */
void resume_close(struct resume *r, bool remove);

/* ---- embed_similar.c: how alike a few texts are ---- */
enum { SIMILARITY_TEXTS_MAX = 64 };
struct similarity {
    size_t width, count;                    /* floats a vector; texts, one too many at most */
    char *labels[SIMILARITY_TEXTS_MAX + 1]; /* owned */
    float *vectors;                         /* [count][width], owned */
};
void similarity_label(struct similarity *s, struct tok_text t); /* one more text */
void similarity_vector(struct similarity *s, size_t i, const float *v);
void similarity_print(const struct similarity *s, const struct term *term, struct buf *out);
void similarity_json(const struct similarity *s, struct buf *out);
void similarity_release(struct similarity *s);

#endif
