/* SPDX-License-Identifier: MIT */
/* json: the program's only JSON reader and writer.
 *
 * Reading gives a tree in an arena that borrows nothing from the text.  Strict
 * RFC 8259: no comments, no trailing commas, UTF-8 checked, \u surrogates joined,
 * depth at most JSON_DEPTH_MAX.  Numbers keep their text, so that 64-bit integers
 * are exact and a writer can give them back unchanged.  Duplicate keys: the last
 * wins, as for Python, Go and what stands before a server to filter.
 *
 * Writing is a small state machine over a buf: commas, indentation and escapes are
 * its business.  With indent 0 it writes one line. */
#ifndef BASE_TEXT_JSON_H
#define BASE_TEXT_JSON_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/maybe.h"

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUM, JSON_STR, JSON_ARR, JSON_OBJ };
enum {
    JSON_DEPTH_MAX = 64,
    JSON_VALUES_MAX = 1 << 20 /* values in one document: two bytes of text can make one of 72 */
};

struct json {
    enum json_type type;
    bool boolean;     /* JSON_BOOL */
    const char *text; /* JSON_STR: NUL-terminated UTF-8 (may hold NUL: see len); JSON_NUM: digits */
    size_t len;       /* of text */
    const char *key;  /* member name when the parent is an object, else NULL */
    struct json *first; /* children of JSON_ARR and JSON_OBJ, in order */
    struct json *next;  /* next sibling */
    size_t count;       /* number of children */
};

/* Errors name line and column: "line 3, column 7: expected ':'". */
enum rc json_parse(struct arena *a, const char *text, size_t len, struct json **out,
                   struct err *err) MUST_USE;

/* For documents with one huge member (a vocabulary): the same, but the array or object that
 * is the member `key` of the root's member `parent` is given to read(), which walks it to its
 * end where it stands.  The tree has it without children. */
struct json_walk { /* the fields are json.c's */
    const char *doc, *p, *end;
    bool object, begun;
};
struct json_reader {
    const char *parent, *key;
    enum rc (*read)(void *arg, struct json_walk *w, struct err *err);
    void *arg;
};
enum rc json_parse_reading(struct arena *a, const char *text, size_t len,
                           const struct json_reader *r, struct json **out,
                           struct err *err) MUST_USE;
/* The next element, its strings in the arena; *out_more false at the end.  An element that
 * is an array or object is not read: its text, brackets included, is text[0..len), borrowed
 * as that of numbers is, which ends at len, not at NUL. */
enum rc json_walk_next(struct json_walk *w, struct arena *a, struct json *out, bool *out_more,
                       struct err *err) MUST_USE;
/* The next element, which must be an array: walk it with `out_inner` to its end, then
 * json_walk_leave().  Reads a list of rows once instead of twice. */
enum rc json_walk_enter(struct json_walk *w, struct json_walk *out_inner, bool *out_more,
                        struct err *err) MUST_USE;
void json_walk_leave(struct json_walk *w, const struct json_walk *inner);

/* Look-ups take NULL and wrong types and answer NULL / unknown / the default. */
const struct json *json_get(const struct json *obj, const char *key);
const struct json *json_first(const struct json *v); /* of an array or object; then ->next */
const struct json *json_at(const struct json *arr, size_t i); /* O(i) */
const char *json_str(const struct json *v);                   /* NULL unless a string */
struct maybe json_int(const struct json *v); /* known for an integer in int64 range */
double json_num(const struct json *v, double dflt);
struct maybe json_bool(const struct json *v); /* 0 or 1 */

struct json_out {
    struct buf *buf;
    int indent; /* spaces a level; 0: compact */
    int depth;
    bool comma[JSON_DEPTH_MAX + 1]; /* an element stands at this depth already */
    bool after_key;
};

void json_out_init(struct json_out *w, struct buf *buf, int indent);
/* A whole document: an object, indented by 2, whose first member names its schema. */
void json_doc(struct json_out *w, struct buf *buf, const char *schema);
void json_doc_end(struct json_out *w); /* and the end of the line */
void json_obj(struct json_out *w);
void json_obj_end(struct json_out *w);
void json_arr(struct json_out *w);
void json_arr_end(struct json_out *w);
void json_key(struct json_out *w, const char *key);
void json_add_str(struct json_out *w,
                  const char *s); /* NULL writes null; bad UTF-8 becomes U+FFFD */
void json_add_strn(struct json_out *w, const char *s, size_t len);
void json_add_int(struct json_out *w, int64_t v);
void json_add_uint(struct json_out *w, uint64_t v);
void json_add_num(struct json_out *w, double v); /* shortest that reads back; NaN and inf: null */
void json_add_bool(struct json_out *w, bool v);
void json_add_null(struct json_out *w);
void json_add_maybe(struct json_out *w, struct maybe v);
void json_add_value(struct json_out *w, const struct json *v); /* a parsed tree, as it was */
/* Before a value whose text the caller appends to the buf himself. */
struct buf *json_raw(struct json_out *w);
/* key + value in one line */
void json_kv_str(struct json_out *w, const char *key, const char *s);
void json_kv_int(struct json_out *w, const char *key, int64_t v);
void json_kv_bool(struct json_out *w, const char *key, bool v);
void json_kv_maybe(struct json_out *w, const char *key, struct maybe v);
void json_kv_num(struct json_out *w, const char *key, double v);
void json_kv_obj(struct json_out *w, const char *key); /* opens it */
void json_kv_arr(struct json_out *w, const char *key);

#endif
