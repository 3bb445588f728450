/* SPDX-License-Identifier: MIT */
/* spec_int: what the files of spec/ share: the schema's rows, the YAML tree, the
 * collection of errors, values from and to text. */
#ifndef SPEC_SPEC_INT_H
#define SPEC_SPEC_INT_H
#include "base/arena.h"
#include "base/text/json.h"
#include "spec/spec.h"

#include <assert.h>

/* --- the schema: how a key is written (kind) and where it lands (store) --- */
enum spec_kind {
    SPEC_STR,       /* any text */
    SPEC_NAME,      /* a name people give: a-z 0-9 - _ */
    SPEC_LABEL,     /* a name others gave: A-Z too, and dots */
    SPEC_REF,       /* the name of something else in the file */
    SPEC_PATH,      /* absolute path */
    SPEC_WORD,      /* text without white space: image, host, URL, version */
    SPEC_RANGE,     /* 0-3,6 */
    SPEC_BOOL,      /* true, false */
    SPEC_INT,       /* whole number */
    SPEC_COUNT,     /* 7B, 1.4T */
    SPEC_FLOAT,     /* 1.25, 3e-4 */
    SPEC_PERCENT,   /* 80% */
    SPEC_PORT,      /* 1-65535 */
    SPEC_BYTES,     /* 64GiB */
    SPEC_RATE,      /* 400Gb/s: a network's, shown in bits */
    SPEC_BANDWIDTH, /* 900GB/s: the same of memories and disks, shown in bytes */
    SPEC_DURATION,  /* 5m */
    SPEC_MONEY,     /* $3.50/h */
    SPEC_QUANTITY,  /* any of these units, as the metric wants it */
    SPEC_CHOICE,    /* one of `choices` */
    SPEC_STRS,      /* list of text */
    SPEC_NAMES,     /* list of SPEC_REF */
    SPEC_GROUPS,    /* one SPEC_REF or a list of them */
    SPEC_CIDRS,     /* list of 10.0.0.0/24 */
    SPEC_PAIRS,     /* map of text to text */
    SPEC_ENV,       /* SPEC_PAIRS whose keys are environment variables */
    SPEC_SECTION,   /* a struct inside; its keys have their defaults when it is absent */
    SPEC_OPTION,    /* pointer to a struct; NULL when absent */
    SPEC_LIST,      /* list of structs */
    SPEC_MAP        /* map of name to struct, whose first member is the name */
};

enum spec_store { /* the C type of the member; the ROW macro works it out */
                  STORE_NONE,
                  STORE_STR,
                  STORE_I64,
                  STORE_BOOL,
                  STORE_F64,
                  STORE_ENUM,
                  STORE_MAYBE,
                  STORE_NUM,
                  STORE_MONEY,
                  STORE_QUANTITY,
                  STORE_STRS,
                  STORE_PAIRS
};

enum spec_per { /* the period an amount of money must have */
                PER_ANY = 0,
                PER_ONCE,
                PER_HOUR,
                PER_DAY,
                PER_MONTH
};

struct spec_table;
struct spec_row {
    const char *key;
    enum spec_kind kind;
    enum spec_store store;
    size_t off;
    size_t count_off;             /* SPEC_LIST, SPEC_MAP */
    size_t first_off;             /* SPEC_GROUPS: the `const char *` that holds the first one */
    const char *dflt;             /* as text; NULL: none */
    const char *dflt_from;        /* where the default is from when it is not always `dflt` */
    int64_t min, max;             /* in the stored unit; both 0: no bound */
    const char *const *choices;   /* SPEC_CHOICE: NULL-terminated, in the enum's order */
    bool required;                /* no default: the file must say it */
    bool filled;                  /* SPEC_NAMES: unset means all, so that none is refused */
    enum spec_per per;            /* SPEC_MONEY */
    enum spec_kind names;         /* SPEC_MAP: SPEC_NAME (0 too) or SPEC_LABEL */
    const char *refers;           /* SPEC_REF, SPEC_NAMES, SPEC_GROUPS: "nodes", "pools" ... */
    const struct spec_table *sub; /* SPEC_SECTION, SPEC_OPTION, SPEC_LIST, SPEC_MAP */
    const char *doc;              /* lower case, no full stop */
};
struct spec_table {
    size_t size; /* of the struct */
    const struct spec_row *rows;
    size_t count;
};
extern const struct spec_table spec_schema; /* the document */

bool spec_kind_is_tree(enum spec_kind k); /* has a sub-table */
const struct spec_row *spec_row_find(const struct spec_table *t, const char *key);
/* What a value looks like, for the reference: "size (64GiB)", "whole number, 1 to 16". */
void spec_row_type(const struct spec_row *r, struct buf *out);

/* --- the YAML tree: src/spec/yaml.c --- */
enum yaml_type { YAML_NULL, YAML_SCALAR, YAML_SEQ, YAML_MAP };
struct yaml {
    enum yaml_type type;
    bool plain;       /* YAML_SCALAR without quotes */
    int line, col;    /* from 1, in characters */
    const char *text; /* YAML_SCALAR; UTF-8 */
    const char *key;  /* in a map; NULL in a list */
    int key_line, key_col;
    struct yaml *first, *last, *next;
    size_t count;
    /* for the limits */
    size_t weight; /* values in it, each alias counted in full */
    int height;    /* levels below it */
    bool open;     /* still being read: an alias to it would never end */
    bool dropped;  /* left out: something in it is faulty (prune_faulty.c) */
};

struct spec_diags_mem {
    struct arena arena;
};
/* A line that is handed around inside spec/ carries the number of its file above its own 21 bits: a
 * file of SPEC_FILE_MAX bytes has fewer lines.  spec_where() and the diagnostics take it apart. */
enum { LINE_BITS = 21 };
static_assert(SPEC_FILE_MAX < 1 << LINE_BITS, "a line number fits");
static_assert(SPEC_INCLUDES_MAX < 1 << (31 - LINE_BITS), "a file number fits");
static inline size_t line_file(int line)
{
    return (size_t)(line >> LINE_BITS);
}
static inline int line_number(int line)
{
    return line & ((1 << LINE_BITS) - 1);
}
static inline int line_at(size_t file, int number)
{
    return (int)(file << LINE_BITS) | number;
}

struct spec_text {    /* a file that was read */
    const char *name; /* as in messages: "conf/nodes.yaml" */
    const char *path; /* below the folder of the first one: "nodes.yaml" */
    size_t parent;    /* number of the file that includes it */
    const char *text;
    size_t len;
};

struct load {                         /* one load in progress */
    const struct spec_source *source; /* NULL: nothing can be included */
    const struct spec_judge *judge;   /* NULL: none */
    struct spec_text *files;          /* in the spec's arena, SPEC_INCLUDES_MAX + 1 of them */
    size_t file_count, file;          /* the last: the one that is being read */
    size_t bytes;                     /* of all of them */
    size_t values;                    /* in all of them */
    const char *text;                 /* of that one */
    size_t len;
    struct arena *arena; /* the spec's */
    struct spec_diags *diags;
    bool told;                   /* the error added last was there already: a hint for it, too */
    struct spec_origin *origins; /* heap while growing */
    size_t origin_count, origin_cap;
    struct spec_region *regions; /* heap while growing */
    size_t region_count, region_cap;
};
/* NULL after an error, which is in l->diags.  The tree is in `a`. */
struct yaml *yaml_read(struct load *l, struct arena *a);

/* Makes a text the current file; its bytes are copied. */
void load_file(struct load *l, const char *path, size_t parent, const char *text, size_t len);

/* --- files that a file includes: src/spec/include.c --- */
/* Reads what `root`, the tree of file `by`, includes, and joins it into it. */
void include_expand(struct load *l, struct arena *tree, struct yaml *root, size_t by);
/* A source below the folder whose descriptor `ctx` points at. */
enum rc spec_read_below(void *ctx, const char *path, struct buf *out, struct err *err) MUST_USE;
#define SPEC_BACKFILL_MAX_MS INT64_C(2592000000) /* 30 days: the widest window that Slurm takes */

/* All of a file, at most SPEC_FILE_MAX bytes. */
enum rc spec_read_fd(int fd, const char *path, struct buf *out, struct err *err) MUST_USE;

/* --- errors: src/spec/diag.c --- */
/* One that another collection has: its words are copied.  An error is taken only where there is
 * none yet: what was refused there may be its cause. */
void diag_take(struct load *l, const struct spec_diag *g, bool warning);
void diag_add(struct load *l, int line, int col, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* A sentence for the error added last; ignored when that one was dropped. */
void diag_hint(struct load *l, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* --- values: src/spec/value.c --- */
/* Puts `text` into the member at `dst`.  On failure the message has its subject ('path')
 * still to come: "must be a whole number, not 'x'". */
struct value_error {
    char msg[256];
    char hint[256];
};
bool value_put(const struct spec_row *r, struct arena *a, const char *text, bool plain, void *dst,
               struct value_error *e);
/* The text that gives this value again; false when it is not set. */
bool value_text(const struct spec_row *r, const void *src, struct buf *out);
void value_json(const struct spec_row *r, const void *src, struct json_out *w);
bool value_name_ok(enum spec_kind k, const char *s);
bool value_env_name_ok(const char *s);
bool value_cidr_ok(const char *s);
bool value_cidrs_meet(const char *a, const char *b); /* have two subnets an address in common? */

/* --- binding a tree to the structs: src/spec/bind.c --- */
void bind_defaults(const struct spec_table *t, struct arena *a, void *obj);
void bind_document(struct load *l, const struct yaml *root, struct spec *s);

struct spec_origin {
    const void *at;   /* address of the member */
    const char *path; /* "components.train.gpus"; in the spec's arena */
    const char *from; /* spec_node_learn(); NULL: the file */
    int line, col;
};
/* A struct of which the file has the key, for members that it leaves at their defaults. */
struct spec_region {
    const char *from;
    size_t size;
    int line, col;
};
struct spec_priv {
    struct arena arena; /* holds the spec itself too */
    const char *file;
    struct spec_text *files; /* as they were read; the first is the spec */
    size_t file_count;
    struct spec_origin *origins; /* sorted by address */
    size_t origin_count;
    struct spec_region *regions;
    size_t region_count;
    int first_line, first_col; /* of the file's first key; 0: it is empty */
};
/* Where a message about a member points: at its value, or else at the key of the smallest struct
 * around it that the file has, or else, when the file has nothing of its section, at the file's
 * first key.  spec_where() tells whether the file sets the member itself. */
struct spec_pos spec_place(const struct spec *s, const void *member);

/* --- defaults that depend on other values: src/spec/derive.c --- */
void spec_derive(struct spec *s);

/* --- what no single key can say: src/spec/check/check.c --- */
/* False: a name does not exist, which is told. */
bool spec_check_names(struct load *l, const struct spec *s);
void spec_check(struct load *l, const struct spec *s);

/* --- what else is wrong in a file with faults: src/spec/check/prune_faulty.c --- */
/* Values and names of the tree are judged and l->diags has their faults; adds those of the rest. */
void spec_check_rest(struct load *l, struct yaml *root);
/* The same for a later stage: l->judge. */
void spec_judge_rest(struct load *l, struct yaml *root);
struct spec *spec_new(const char *name);
/* Hands the places that were noted to the spec. */
void load_keep(struct load *l, struct spec_priv *priv);

/* --- what rules ask besides, and tests --- */
enum rc spec_parse_with(const char *text, size_t len, const char *name,
                        const struct spec_source *source, struct spec **out,
                        struct spec_diags *diags, struct err *err) MUST_USE;
enum spec_unit spec_metric_unit(enum spec_metric m);
/* Is it a host list, and how many machines does it name?  What is wrong with it, or NULL. */
const char *spec_hosts_fault(const char *hosts, int64_t *out_count);

#endif
