/* SPDX-License-Identifier: MIT */
/* yaml_out_int: YAML in block style, two blanks a level, always quoted where a reader of YAML 1.1
 * or 1.2 could take the text for something else. */
#ifndef RENDER_TEXT_YAML_OUT_INT_H
#define RENDER_TEXT_YAML_OUT_INT_H
#include "base/buf.h"
#include "spec/spec.h"

enum { YAML_OUT_DEPTH_MAX = 32, YAML_OPEN_KEY_MAX = 64 };
struct yaml_out {
    struct buf *buf;
    int depth;
    bool seq[YAML_OUT_DEPTH_MAX];          /* is the container at this depth a sequence? */
    bool empty[YAML_OUT_DEPTH_MAX];        /* has nothing been put into it yet? */
    bool commented[YAML_OUT_DEPTH_MAX];    /* but a comment? */
    const char *notes[YAML_OUT_DEPTH_MAX]; /* behind the key of a container */
    bool same_line;                        /* "- " stands on this line, and its first key follows */
    const char *note;                      /* behind the next value; borrowed until then */
};
void yaml_begin(struct yaml_out *y,
                struct buf *buf);     /* a document: a mapping; "---" before all but the first */
void yaml_finish(struct yaml_out *y); /* ends what is open, too */
/* `key` is NULL inside a sequence.  A container that stays empty becomes {} or []. */
void yaml_map(struct yaml_out *y, const char *key);
void yaml_seq(struct yaml_out *y, const char *key);
/* Containers one in the other: "ingress[].from[].podSelector" is a sequence, a map as its item, a
 * sequence in that, a map in it, a map.  "[]" alone is an item. */
void yaml_open(struct yaml_out *y, const char *path);
void yaml_end(struct yaml_out *y);             /* the innermost container */
void yaml_ends(struct yaml_out *y, int count); /* so many of them */
void yaml_str(struct yaml_out *y, const char *key, const char *value);
void yaml_strf(struct yaml_out *y, const char *key, const char *fmt, ...) PRINTF_LIKE(3, 4);
void yaml_int(struct yaml_out *y, const char *key, int64_t value);
void yaml_bool(struct yaml_out *y, const char *key, bool value);
/* Lines of text, kept as they are: a literal block ("|") where YAML allows it. */
void yaml_text(struct yaml_out *y, const char *key, const char *text);
void yaml_strs(struct yaml_out *y, const char *key, const struct spec_strs *items); /* a sequence */
/* A whole container of texts: yaml_map_of(y, "to", "kind", "Service", "name", name), and
 * yaml_seq_of(y, "drop", "ALL"). */
#define yaml_map_of(y, key, ...) yaml_texts(y, key, false, YAML_TEXTS(__VA_ARGS__))
#define yaml_seq_of(y, key, ...) yaml_texts(y, key, true, YAML_TEXTS(__VA_ARGS__))
#define YAML_TEXTS(...)                                                                            \
    (const char *const[]){ __VA_ARGS__ },                                                          \
        sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *)
void yaml_texts(struct yaml_out *y, const char *key, bool seq, const char *const *texts,
                size_t count);
/* "# note" behind the next value (or the key of the next container). */
void yaml_note(struct yaml_out *y, const char *note);
/* A comment line of its own at this depth. */
void yaml_comment(struct yaml_out *y, const char *text);

#endif
