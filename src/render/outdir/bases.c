/* SPDX-License-Identifier: MIT */
/* bases: the texts of the last run, as bases_int.h says.  Whoever can write to the folder can write
 * to the file: lengths are not believed, and a text is taken only with the sum it has. */
#include "render/outdir/bases_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH_DIGITS_MAX = 8 };

void bases_release(struct bases *b)
{
    free(b->items);
    buf_release(&b->text);
    *b = (struct bases){ 0 };
}

const char *bases_sum(const char *text, size_t len, char out[SHA256_HEX])
{
    uint8_t sum[SHA256_BYTES];
    struct sha256 s;

    sha256_init(&s);
    sha256_add(&s, text, len);
    sha256_end(&s, sum);
    return sha256_hex(sum, out);
}

static int by_sum(const void *a, const void *b)
{
    return strcmp(((const struct base_item *)a)->sum, ((const struct base_item *)b)->sum);
}

/* The text behind the head of a record, and where the next record begins; 0: this is no record. */
static size_t record_read(const char *p, size_t left, struct base_item *out)
{
    size_t digits, len, head = SHA256_HEX;
    char number[LENGTH_DIGITS_MAX + 1];

    if (left < head + 2 || p[head - 1] != ' ')
        return 0;
    for (digits = 0; digits < LENGTH_DIGITS_MAX && head + digits < left; digits++)
        if (p[head + digits] < '0' || p[head + digits] > '9')
            break;
    if (!digits || head + digits >= left || p[head + digits] != '\n')
        return 0;
    memcpy(number, p + head, digits);
    number[digits] = '\0';
    len = (size_t)strtoul(number, NULL, 10);
    head += digits + 1;
    if (len > BASE_TEXT_MAX || len + 1 > left - head || p[head + len] != '\n')
        return 0;
    memcpy(out->sum, p, SHA256_HEX - 1);
    out->sum[SHA256_HEX - 1] = '\0';
    out->text = p + head;
    out->len = len;
    return head + len + 1;
}

void bases_parse(struct bases *b)
{
    const char *p = buf_str(&b->text);
    size_t left = b->text.len, step;
    struct base_item item;
    char sum[SHA256_HEX];

    for (; left && (step = record_read(p, left, &item)); p += step, left -= step) {
        if (!str_eq(bases_sum(item.text, item.len, sum), item.sum))
            continue;
        VEC_GROW(b->items, b->count, b->cap);
        b->items[b->count++] = item;
    }
    if (b->count)
        qsort(b->items, b->count, sizeof(*b->items), by_sum);
}

const struct base_item *bases_find(const struct bases *b, const char *sum)
{
    struct base_item key = { 0 };

    if (!b->count || !str_copy(key.sum, sizeof(key.sum), sum))
        return NULL;
    return bsearch(&key, b->items, b->count, sizeof(key), by_sum);
}

void bases_add(struct buf *out, const char *sum, const char *text, size_t len)
{
    if (len > BASE_TEXT_MAX || out->len + len + SHA256_HEX + 16 > BASES_MAX)
        return;
    buf_addf(out, "%s %zu\n", sum, len);
    buf_add(out, text, len);
    buf_addc(out, '\n');
}

enum rc bases_read(struct outdir *p, struct bases *b, struct err *err)
{
    struct stat st;
    bool there;
    enum rc rc = outdir_look(p, BASES_NAME, &there, &st, err);

    if (rc || !there || !S_ISREG(st.st_mode) || st.st_size > BASES_MAX)
        return rc;
    buf_init(&b->text, BASES_MAX + 1);
    rc = outdir_read(p, BASES_NAME, BASES_MAX, &b->text, err);
    if (rc == RC_OK)
        bases_parse(b);
    return rc;
}

void bases_of_list(const struct written_list *list, const struct bases *have, struct buf *out)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct base_item *b = bases_find(have, list->items[i].sum);

        if (b)
            bases_add(out, b->sum, b->text, b->len);
    }
}
