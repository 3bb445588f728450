/* SPDX-License-Identifier: MIT */
/* A tokenizer.json, a NUL, a text (and a tab and a second one): any bytes.  Whatever loads
 * must encode it twice the same, in pieces or whole, with offsets inside the text. */
#include "fuzz.h"

#include "base/buf.h"
#include "base/mem.h"
#include "model/tokenizer/tokenizer_int.h"

#include <stdlib.h>
#include <string.h>

/* A tokenizer that is always there, so that text alone is worth trying. */
static const char fixed[] =
    "{\"normalizer\":{\"type\":\"BertNormalizer\"},"
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
    "\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":[\"a\",1],\"cls\":[\"b\",2]},"
    "\"added_tokens\":[{\"content\":\"<m>\",\"lstrip\":true},{\"content\":\"[S]\",\"rstrip\":true,"
    "\"normalized\":false},{\"content\":\"c\",\"single_word\":true,\"normalized\":false}],"
    "\"decoder\":{\"type\":\"WordPiece\"},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"u\","
    "\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,\"vocab\":{\"u\":0,"
    "\"a\":1,\"b\":2,\"##a\":3,\"ab\":4,\"##\\u00e9\":5,\"\\u4e2d\":6,\"##ba\":7,\"-\":8}}}";

static void check_out(const struct tok_out *r, struct tok_text a, const struct tok_text *b)
{
    for (size_t i = 0; i < r->count; i++) {
        struct tok_offset o = r->offsets[i];
        size_t len = r->sequence[i] == 1 ? b->len : a.len;

        if (o.begin > o.end || o.end > len)
            abort();
        if (r->special[i] && (o.end || r->sequence[i] != 255))
            abort();
    }
    if (r->cut[0] > a.len || (b && r->cut[1] > b->len) || r->count > r->untruncated * 64)
        abort();
}

static void encode(const struct tokenizer *t, struct tok_text a, const struct tok_text *b,
                   struct tok_opts o)
{
    struct tok_scratch *s = tok_scratch_new();
    struct buf text = { 0 };
    struct tok_out r;
    uint32_t *ids;
    size_t count;

    if (tokenizer_encode(t, s, a, b, &o, &r, NULL) == RC_OK) {
        check_out(&r, a, b);
        count = r.count;
        ids = xcalloc(count + 1, sizeof(*ids));
        if (count)
            memcpy(ids, r.ids, count * sizeof(*ids));
        if (tokenizer_encode(t, s, a, b, &o, &r, NULL) || r.count != count ||
            (count && memcmp(ids, r.ids, count * sizeof(*ids)) != 0))
            abort();
        (void)!tokenizer_decode(t, ids, count, o.left, &text, NULL);
        free(ids);
    }
    buf_release(&text);
    tok_scratch_free(s);
}

static void all_ways(const struct tokenizer *t, const char *p, size_t len)
{
    const char *tab = len ? memchr(p, '\t', len) : NULL;
    struct tok_text whole = { p, len }, a = whole, b = { 0 };

    encode(t, whole, NULL, (struct tok_opts){ 0 });
    if (!tab)
        return;
    a.len = (size_t)(tab - p);
    b = (struct tok_text){ tab + 1, len - a.len - 1 };
    for (int way = 0; way < 8; way++)
        encode(t, a, &b,
               (struct tok_opts){
                   .max_tokens = 7, .truncate = (enum tok_truncate)(way & 3), .left = way & 4 });
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data, *nul = size ? memchr(p, '\0', size) : NULL;
    static struct tokenizer *always;
    struct tokenizer *t = NULL;
    size_t json = nul ? (size_t)(nul - p) : size;

    if (json && tokenizer_parse(p, json, "fuzz", NULL, &t, NULL) == RC_OK)
        all_ways(t, nul ? nul + 1 : "a b", nul ? size - json - 1 : 3);
    tokenizer_free(t);
    if (!always && tokenizer_parse(fixed, sizeof(fixed) - 1, "fixed", NULL, &always, NULL))
        abort();
    all_ways(always, p, size);
    return 0;
}
