/* SPDX-License-Identifier: MIT */
#include "engine/text.h"

#include "model/unicode.h"

#include <string.h>

enum { TEXT_BYTES_MAX = 512 << 20 }; /* a text with its prompt, lower-cased */

/* str.isspace(): Rust's char::is_whitespace has no information separators. */
static bool is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Bytes of the last code point of valid UTF-8, 0 when the end is not valid. */
static size_t decode_last(const char *s, size_t len, uint32_t *out)
{
    for (size_t n = 1; n <= 4 && n <= len; n++)
        if (((unsigned char)s[len - n] & 0xc0) != 0x80)
            return utf8_decode(s + len - n, n, out) == n ? n : 0;
    return 0;
}

struct tok_text text_strip(struct tok_text t)
{
    uint32_t c;
    size_t n;

    while ((n = utf8_decode(t.p, t.len, &c)) && is_space(c)) {
        t.p += n;
        t.len -= n;
    }
    while ((n = decode_last(t.p, t.len, &c)) && is_space(c))
        t.len -= n;
    return t;
}

/* ---- lower case ---- */
enum { SIGMA = 0x3a3, SIGMA_SMALL = 0x3c3, SIGMA_FINAL = 0x3c2 };

/* Letters that have a case.  Lower-case ones are known by a capital that becomes them;
 * the scripts with case keep the two within a short distance, which is all that the
 * rule of the final sigma needs. */
static bool is_cased(uint32_t c)
{
    static const int steps[] = { 1, 16, 26, 32, 37, 38, 40, 48, 63, 80 };
    uint32_t low[UNI_LOWER_MAX];

    if (uni_lower(c, low) != 1 || low[0] != c)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
        if (c > (uint32_t)steps[i] && uni_lower(c - (uint32_t)steps[i], low) == 1 && low[0] == c)
            return true;
    return c == SIGMA_FINAL;
}

/* What Unicode passes over when it looks for a neighbour with a case. */
static bool is_case_ignorable(uint32_t c)
{
    return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`' || c == 0xa8 || c == 0xad ||
           c == 0xaf || c == 0xb4 || c == 0xb7 || c == 0xb8 || c == 0x387 || c == 0x2018 ||
           c == 0x2019 || c == 0x2024 || c == 0x2027 || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2b0 && c <= 0x36f) || uni_is_mark_nonspacing(c);
}

static bool cased_before(const char *s, size_t len)
{
    uint32_t c;
    size_t n;

    for (; (n = decode_last(s, len, &c)) && is_case_ignorable(c); len -= n)
        ;
    return n && is_cased(c);
}

static bool cased_behind(const char *s, size_t len)
{
    uint32_t c;
    size_t n;

    for (; (n = utf8_decode(s, len, &c)) && is_case_ignorable(c); len -= n)
        s += n;
    return n && is_cased(c);
}

static void lower_one(struct tok_text t, size_t at, size_t n, uint32_t c, struct buf *out)
{
    uint32_t low[UNI_LOWER_MAX];
    size_t count = uni_lower(c, low), rest = at + n;
    char bytes[4];

    if (c == SIGMA && count == 1 && cased_before(t.p, at) &&
        !cased_behind(t.p + rest, t.len - rest))
        low[0] = SIGMA_FINAL;
    for (size_t i = 0; i < count; i++)
        buf_add(out, bytes, utf8_encode(low[i], bytes));
}

void text_lower(struct tok_text t, struct buf *out)
{
    uint32_t c;
    size_t n;

    for (size_t at = 0; at < t.len; at += n) {
        unsigned char b = (unsigned char)t.p[at];

        n = 1;
        if (b < 0x80)
            buf_addc(out, (char)(b >= 'A' && b <= 'Z' ? b + 32 : b));
        else if (!(n = utf8_decode(t.p + at, t.len - at, &c)))
            buf_add(out, t.p + at, n = 1);
        else
            lower_one(t, at, n, c, out);
    }
}

/* Bytes of `t` whose lower case has `at` bytes. */
static size_t before_lower(struct tok_text t, size_t at)
{
    struct buf low = { 0 };
    size_t done = 0;
    uint32_t c;

    while (done < t.len && low.len < at) {
        size_t n = utf8_decode(t.p + done, t.len - done, &c);

        if (n)
            lower_one(t, done, n, c, &low);
        else
            buf_addc(&low, t.p[done]);
        done += n ? n : 1;
    }
    buf_release(&low);
    return done;
}

size_t text_origin(struct tok_text t, const struct text_opts *o, size_t at)
{
    size_t prompt = o->prompt ? strlen(o->prompt) : 0;
    struct buf joined = { .max = TEXT_BYTES_MAX };

    if (prompt)
        buf_adds(&joined, o->prompt);
    buf_add(&joined, t.p, t.len);
    struct tok_text all = { buf_str(&joined), joined.len }, kept = text_strip(all);
    at = (size_t)(kept.p - all.p) + (o->lower ? before_lower(kept, at) : at);
    buf_release(&joined);
    return at <= prompt ? 0 : at - prompt < t.len ? at - prompt : t.len;
}

struct tok_text text_prepare(struct tok_text t, const struct text_opts *o, struct buf *scratch)
{
    struct buf joined = { .max = TEXT_BYTES_MAX };

    buf_reset(scratch);
    scratch->max = TEXT_BYTES_MAX;
    if (o->prompt && o->prompt[0]) {
        struct buf *into = o->lower ? &joined : scratch;

        buf_adds(into, o->prompt);
        buf_add(into, t.p, t.len);
        t = (struct tok_text){ buf_str(into), into->len };
    }
    t = text_strip(t);
    if (o->lower) {
        text_lower(t, scratch);
        t = (struct tok_text){ buf_str(scratch), scratch->len };
    }
    buf_release(&joined);
    return t;
}

enum rc text_prompt_tokens(const struct tokenizer *t, struct tok_scratch *s, const char *prompt,
                           bool lower, const struct tok_opts *o, struct buf *scratch, size_t *out,
                           struct err *err)
{
    struct text_opts alone = { .lower = lower };
    struct tok_text text =
        text_prepare((struct tok_text){ prompt, strlen(prompt) }, &alone, scratch);
    struct tok_out got;

    if (tokenizer_encode(t, s, text, NULL, o, &got, err))
        return err_ctx(err, "could not tokenise the prompt");
    *out = got.count && got.special[got.count - 1] ? got.count - 1 : got.count;
    return RC_OK;
}

void text_instruction(const char *task, struct buf *out)
{
    buf_addf(out, "Instruct: %s\nQuery: ", task);
}
