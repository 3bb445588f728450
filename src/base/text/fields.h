/* SPDX-License-Identifier: MIT */
/* fields: one table a struct, from which its JSON comes and to which it goes.
 *
 * A document type (the inventory, a NVML answer) is a C struct and a table of rows
 * {key, kind, offset, doc}.  Writing, reading and the reference page walk the
 * table, so that a field is added in one place and can never be written but not
 * read.  Unknown members are passed over on reading (a newer program wrote them);
 * a member of the wrong type is an error that names its path. */
#ifndef BASE_TEXT_FIELDS_H
#define BASE_TEXT_FIELDS_H
#include "base/text/json.h"

enum field_kind {
    FIELD_STR,    /* const char *; NULL is unknown and written as null */
    FIELD_INT,    /* struct maybe */
    FIELD_BOOL,   /* struct maybe, written true/false/null */
    FIELD_STRS,   /* const char *const * at off, size_t count at count_off */
    FIELD_STRUCT, /* embedded struct described by `sub` */
    FIELD_ARRAY,  /* struct array: pointer at off, size_t count at count_off, `sub` */
    FIELD_INTS    /* struct maybe array: pointer at off, size_t count at count_off */
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

struct field_table;
struct field {
    const char *key;
    enum field_kind kind;
    size_t off;
    size_t count_off;              /* FIELD_STRS, FIELD_INTS, FIELD_ARRAY */
    const struct field_table *sub; /* FIELD_STRUCT, FIELD_ARRAY */
    const char *doc;               /* one line with the unit, for the reference page */
    enum field_role role;
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
#define FIELD_TABLE(var, name_, s, rows_)                                                          \
    const struct field_table var = {                                                               \
        .name = (name_), .size = sizeof(s), .rows = (rows_), .count = ARRAY_SIZE(rows_)            \
    }

void fields_write(struct json_out *w, const struct field_table *t, const void *obj);
/* The members alone, for a caller that opened the object and adds its own. */
void fields_write_members(struct json_out *w, const struct field_table *t, const void *obj);
enum rc fields_read(struct arena *a, const struct json *v, const struct field_table *t, void *obj,
                    struct err *err) MUST_USE;
/* Markdown reference of a table and the tables below it. */
void fields_doc(struct buf *out, const struct field_table *t);

#endif
