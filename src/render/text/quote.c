/* SPDX-License-Identifier: MIT */
/* quote: a text of the spec, whatever it holds, as the formats we write take it. */
#include "base/arena.h"
#include "base/str.h"
#include "base/text/utf8.h"
#include "render/text/quote_int.h"

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Words that a shell takes for something else where a command begins. */
static const char *const SH_WORDS[] = { "if",    "then",   "else", "elif",   "fi",      "do",
                                        "done",  "case",   "esac", "for",    "in",      "while",
                                        "until", "select", "time", "coproc", "function" };

static bool is_assignment(const char *s)
{
    const char *p = s;

    while (is_alnum(*p) || *p == '_')
        p++;
    return *p == '=' && (p == s || *s < '0' || *s > '9');
}

static bool sh_bare(const char *s)
{
    if (!*s || is_assignment(s))
        return false;
    for (const char *p = s; *p; p++)
        if (!is_alnum(*p) && !strchr("_-./:=@%+,", *p))
            return false;
    for (size_t i = 0; i < sizeof(SH_WORDS) / sizeof(*SH_WORDS); i++)
        if (str_eq(s, SH_WORDS[i]))
            return false;
    return true;
}

void quote_sh(struct buf *out, const char *s)
{
    if (sh_bare(s)) {
        buf_adds(out, s);
        return;
    }
    buf_addc(out, '\'');
    for (const char *p = s; *p; p++) {
        if (*p == '\'')
            buf_adds(out, "'\\''");
        else
            buf_addc(out, *p);
    }
    buf_addc(out, '\'');
}

void quote_sh_words(struct buf *out, const struct spec_strs *command)
{
    for (size_t i = 0; i < command->count; i++) {
        if (i)
            buf_addc(out, ' ');
        quote_sh(out, command->items[i]);
    }
}

bool slurm_plain(const char *s)
{
    if (!*s)
        return false;
    for (const char *p = s; *p; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f || strchr("#,\"'=[]\\", *p))
            return false;
    return true;
}

void quote_comment(struct buf *out, const char *s)
{
    size_t left = strlen(s), n;

    for (; left; s += n, left -= n) {
        uint32_t c;

        n = utf8_decode(s, left, &c);
        if (!n) {
            buf_addc(out, '?');
            n = 1;
        } else if (c < ' ' || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 ||
                   c == 0xfeff || (c & 0xfffe) == 0xfffe) {
            buf_addc(out, ' ');
        } else {
            buf_add(out, s, n);
        }
    }
}

void quote_html(struct buf *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '&')
            buf_adds(out, "&amp;");
        else if (*s == '<')
            buf_adds(out, "&lt;");
        else if (*s == '>')
            buf_adds(out, "&gt;");
        else if (*s == '"')
            buf_adds(out, "&quot;");
        else if (*s == '\'')
            buf_adds(out, "&#39;");
        else
            buf_addc(out, *s);
    }
}

const char *path_last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

void dns_name(char *out, const char *name)
{
    size_t n = 0;

    for (const char *p = name; *p && n < SPEC_NAME_MAX; p++) {
        char c = *p >= 'A' && *p <= 'Z' ? (char)(*p + ('a' - 'A')) : *p;

        if (!is_alnum(c))
            c = '-';
        if (c == '-' && n == 0)
            continue;
        out[n++] = c;
    }
    while (n && out[n - 1] == '-')
        n--;
    if (!n)
        out[n++] = 'x';
    out[n] = '\0';
}

const char *quote_dollars(struct arena *a, const char *s)
{
    struct buf b = { 0 };
    const char *out;

    for (; *s; s++) {
        if (*s == '$')
            buf_addc(&b, '$');
        buf_addc(&b, *s);
    }
    out = arena_strdup(a, buf_str(&b));
    buf_release(&b);
    return out;
}
