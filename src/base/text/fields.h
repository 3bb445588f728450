/* SPDX-License-Identifier: MIT */
/* fields: one table a struct, from which its JSON comes and to which it goes.
 *
 * A document type (the inventory, a NVML answer) is a C struct and a table of rows
 * {key, kind, offset, doc}.  Writing, reading and the reference page walk the
 * table, so that a field is added in one place and can never be written but not
 * read.  Unknown members are passed over on reading (a newer program wrote them);
 * a member of the wrong type is an error that names its path.
 *
 * A report (what a command prints, and nothing reads back) has plain members, double or int64_t,
 * and rows that say how the value reads as text as well: a column's title and its format.  One row
 * gives the member of the JSON and the cell of the table; without a key it is text only, without a
 * title JSON only. */
#ifndef BASE_TEXT_FIELDS_H
#define BASE_TEXT_FIELDS_H
#include "base/text/json.h"
#include "base/text/table.h"

enum field_kind {
    FIELD_STR,    /* const char *; NULL is unknown and written as null */
    FIELD_INT,    /* struct maybe */
    FIELD_BOOL,   /* struct maybe, written true/false/null */
    FIELD_STRS,   /* const char *const * at off, size_t count at count_off */
    FIELD_STRUCT, /* embedded struct described by `sub` */
    FIELD_ARRAY,  /* struct array: pointer at off, size_t count at count_off, `sub` */
    FIELD_INTS,   /* struct maybe array: pointer at off, size_t count at count_off */

    /* of reports, which are not read back */
    FIELD_F64,   /* double; what is not finite is unknown and written as null */
    FIELD_I32,   /* int32_t */
    FIELD_I64,   /* int64_t */
    FIELD_U64,   /* uint64_t, size_t */
    FIELD_FLAG,  /* bool */
    FIELD_CHARS, /* char array that holds a string */
    FIELD_NAME,  /* enum; its word is in `names` */
    FIELD_CALL   /* `call` writes it: any members, or none */
};

/* What a row is to hw/compare/, which holds two machines side by side.  A row that says nothing
 * is FIELD_SAME, so that a new field is compared without anybody thinking of it. */
enum field_role {
    FIELD_SAME = 0, /* equal machines have equal values */
    FIELD_ABOUT,    /* a size that equal machines have but for a little */
    FIELD_WORDS,    /* options, blanks or commas between: each is compared by itself */
    FIELD_KEY,      /* names an element of a list: it is compared with its namesake */
    FIELD_PLACE,    /* the same, but where the names differ and the number does not, by position */
    FIELD_IDENTITY, /* differs by nature: serial number, address, host name */
    FIELD_MOMENT    /* changes while one looks: temperature, memory in use */
};

enum { FIELD_TEXT_MAX = 32 }; /* bytes of a number as text */

struct field_table;
struct field {
    const char *key;
    enum field_kind kind;
    size_t off;
    size_t count_off;              /* FIELD_STRS, FIELD_INTS, FIELD_ARRAY */
    const struct field_table *sub; /* FIELD_STRUCT, FIELD_ARRAY */
    const char *doc;               /* one line with the unit, for the reference page */
    enum field_role role;

    /* of reports */
    bool above_0;             /* a number that is not above 0 is unknown */
    bool left_out;            /* where it is unknown, instead of null */
    bool or_null;             /* FIELD_STRUCT: null where its first member is unknown */
    const char *const *names; /* FIELD_NAME */
    void (*call)(struct json_out *w, const void *obj);
    const char *title; /* of the column; NULL: not in a table */
    const char *fmt;   /* of a number (as a double) or a string; NULL: "%.0f", "%s" */
    double scale;      /* that a number is multiplied by before it is formatted; 0: 1 */
    const char *(*words)(double v, char out[FIELD_TEXT_MAX]); /* instead of fmt */
    int flags;                /* of table_col(); without: numbers to the right */
    enum table_colour colour; /* of the cell */
};

struct field_table {
    const char *name; /* for the reference page */
    size_t size;      /* sizeof the struct */
    const struct field *rows;
    size_t count;
};

enum { FIELDS_ARRAY_MAX = 65536 }; /* elements read into one array */

/* Rows, for struct `s`: FIELD("name", STR, struct hw_gpu, name, "product name") */
#define FIELD(key_, kind_, s, member, doc_)                                                        \
    {                                                                                              \
        .key = (key_), .kind = FIELD_##kind_, .off = offsetof(s, member), .doc = (doc_)            \
    }
/* The same with a role: FIELD_AS(KEY, "name", STR, struct hw_net, name, "interface") */
#define FIELD_AS(role_, key_, kind_, s, member, doc_)                                              \
    {                                                                                              \
        .key = (key_), .kind = FIELD_##kind_, .off = offsetof(s, member), .doc = (doc_),           \
        .role = FIELD_##role_                                                                      \
    }
#define FIELD_LIST(key_, kind_, s, member, count_member, doc_)                                     \
    {                                                                                              \
        .key = (key_), .kind = FIELD_##kind_, .off = offsetof(s, member),                          \
        .count_off = offsetof(s, count_member), .doc = (doc_)                                      \
    }
#define FIELD_SUB(key_, s, member, table, doc_)                                                    \
    {                                                                                              \
        .key = (key_), .kind = FIELD_STRUCT, .off = offsetof(s, member), .sub = (table),           \
        .doc = (doc_)                                                                              \
    }
#define FIELD_SUBS(key_, s, member, count_member, table, doc_)                                     \
    {                                                                                              \
        .key = (key_), .kind = FIELD_ARRAY, .off = offsetof(s, member),                            \
        .count_off = offsetof(s, count_member), .sub = (table), .doc = (doc_)                      \
    }
#define FIELD_SUBS_AS(role_, key_, s, member, count_member, table, doc_)                           \
    {                                                                                              \
        .key = (key_), .kind = FIELD_ARRAY, .off = offsetof(s, member),                            \
        .count_off = offsetof(s, count_member), .sub = (table), .doc = (doc_),                     \
        .role = FIELD_##role_                                                                      \
    }
/* A report's row, the kind by the member's type; designated initialisers may follow:
 * FIELD_OF("wait_h", struct wait, p95, "hours", .title = "p95", .fmt = "%.1f h") */
#define FIELD_KIND_OF(s, member)                                                                   \
    _Generic(((s *)0)->member,                                                                     \
        double: FIELD_F64,                                                                         \
        int32_t: FIELD_I32,                                                                        \
        int64_t: FIELD_I64,                                                                        \
        uint64_t: FIELD_U64,                                                                       \
        bool: FIELD_FLAG,                                                                          \
        const char *: FIELD_STR,                                                                   \
        char *: FIELD_CHARS,                                                                       \
        struct maybe: FIELD_INT)
#define FIELD_OF(key_, s, member, ...)                                                             \
    {                                                                                              \
        .key = (key_), .kind = FIELD_KIND_OF(s, member), .off = offsetof(s, member),               \
        .doc = __VA_ARGS__                                                                         \
    }
#define FIELD_NAME_OF(key_, s, member, names_, ...)                                                \
    {                                                                                              \
        .key = (key_), .kind = FIELD_NAME, .off = offsetof(s, member), .names = (names_),          \
        .doc = __VA_ARGS__                                                                         \
    }
#define FIELD_BY(call_)                                                                            \
    {                                                                                              \
        .kind = FIELD_CALL, .call = (call_)                                                        \
    }
#define FIELD_TABLE(var, name_, s, rows_)                                                          \
    const struct field_table var = {                                                               \
        .name = (name_), .size = sizeof(s), .rows = (rows_), .count = ARRAY_SIZE(rows_)            \
    }

void fields_write(struct json_out *w, const struct field_table *t, const void *obj);
/* Only the members, for a caller that opened the object and adds its own. */
void fields_write_members(struct json_out *w, const struct field_table *t, const void *obj);
/* The whole document: its schema tag (the name of the table), the members, a line feed. */
void fields_write_report(struct buf *out, const struct field_table *t, const void *obj);
enum rc fields_read(struct arena *a, const struct json *v, const struct field_table *t, void *obj,
                    struct err *err) MUST_USE;
/* Markdown reference of a table and the tables below it. */

/* A report's rows as a table: columns are the fields with a title.  `chosen` (-1: none) has its
 * first cell in bold. */
void fields_print(struct buf *out, const struct term *term, const struct field_table *t,
                  const void *rows, size_t count, int64_t chosen);
/* The same in steps, for a table with columns of its own; the first cell is in `first` where that
 * is a colour. */
void fields_columns(struct table *table, const struct field_table *t);
void fields_cells(struct table *table, const struct field_table *t, const void *obj,
                  enum table_colour first);
/* The value as its column writes it, "-" where it is unknown; `out` may be what comes back. */
const char *field_text(const struct field *f, const void *obj, char out[FIELD_TEXT_MAX]);
const struct field *fields_find(const struct field_table *t, const char *key); /* NULL: none */
void fields_doc(struct buf *out, const struct field_table *t);

#endif
