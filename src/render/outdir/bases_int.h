/* SPDX-License-Identifier: MIT */
/* bases_int: what render wrote last, word for word, so that what a person changed since can be told
 * from what we change now.
 *
 * DIR/.stoker-render.base holds the texts one behind the other:
 *
 *     SHA256 LENGTH\n text \n
 *
 * A text is found by its sum, which DIR/.stoker-render has for each file; one that does not fit its
 * sum is none.  Without its base an edited file can be kept aside, but not merged. */
#ifndef RENDER_OUTDIR_BASES_INT_H
#define RENDER_OUTDIR_BASES_INT_H
#include "base/buf.h"
#include "base/codec/sha256.h"
#include "render/outdir/outdir_int.h"
#include "render/outdir/written_int.h"

#define BASES_NAME ".stoker-render.base"
enum {
    BASES_MAX = 32 << 20,   /* bytes of all texts that are kept; the rest is not */
    BASE_TEXT_MAX = 1 << 20 /* bytes of one text that is kept */
};

struct base_item {
    char sum[SHA256_HEX];
    const char *text; /* into the buf of its bases */
    size_t len;
};
struct bases {
    struct buf text;         /* of the file */
    struct base_item *items; /* sorted by sum */
    size_t count, cap;
};
void bases_release(struct bases *b);
void bases_parse(struct bases *b); /* what b->text holds; what cannot be read is passed over */
/* Of the folder.  One that cannot be read is none: edits are then kept aside, not merged. */
enum rc bases_read(struct outdir *p, struct bases *b, struct err *err) MUST_USE;
const struct base_item *bases_find(const struct bases *b, const char *sum);
/* One more text behind others; nothing when it is too long, or all would be. */
void bases_add(struct buf *out, const char *sum, const char *text, size_t len);

/* The texts of a list, in its order, as far as they are to be had. */
void bases_of_list(const struct written_list *list, const struct bases *have, struct buf *out);

/* The sum of a text in hexadecimal digits. */
const char *bases_sum(const char *text, size_t len, char out[SHA256_HEX]);

#endif
