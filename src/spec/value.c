/* SPDX-License-Identifier: MIT */
/* value: one value of the file, from text to a member of a struct and back.
 *
 * Every kind of the schema is understood here and nowhere else.  Messages lack their
 * subject, which the caller knows: "must be a whole number, not 'eight'". */
#include "base/str.h"
#include "spec/spec_int.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <math.h>

enum { VALUE_SHOWN = 60 }; /* bytes of a value shown in a message */

static bool value_fail(struct value_error *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void value_hint(struct value_error *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

static bool value_fail(struct value_error *e, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
    va_end(ap);
    return false;
}

static void value_hint(struct value_error *e, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(e->hint, sizeof(e->hint), fmt, ap);
    va_end(ap);
}

/* --- text --- */
bool value_name_ok(enum spec_kind k, const char *s)
{
    size_t n = strlen(s);

    if (!n || n > SPEC_NAME_MAX || !isalnum((unsigned char)s[0]) ||
        !isalnum((unsigned char)s[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];

        if (!isalnum(c) && c != '-' && c != '_' && (c != '.' || k == SPEC_NAME))
            return false;
        if (isupper(c) && k == SPEC_NAME)
            return false;
    }
    return true;
}

bool value_env_name_ok(const char *s)
{
    if (!*s || isdigit((unsigned char)*s))
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_')
            return false;
    return true;
}

/* Its address, bytes in the order of the network, and bits of the prefix: 4, 16, or 0 bytes where
 * it is none. */
static size_t cidr_parse(const char *s, unsigned char *raw, int64_t *bits)
{
    char addr[INET6_ADDRSTRLEN];
    const char *slash = strchr(s, '/');

    if (!slash || (size_t)(slash - s) >= sizeof(addr) || !str_to_i64(slash + 1, 10, bits))
        return 0;
    memcpy(addr, s, (size_t)(slash - s));
    addr[slash - s] = '\0';
    if (inet_pton(AF_INET, addr, raw) == 1)
        return *bits >= 0 && *bits <= 32 ? 4 : 0;
    return inet_pton(AF_INET6, addr, raw) == 1 && *bits >= 0 && *bits <= 128 ? 16 : 0;
}

bool value_cidr_ok(const char *s)
{
    unsigned char raw[16];
    int64_t bits;

    return cidr_parse(s, raw, &bits) > 0;
}

bool value_cidrs_meet(const char *a, const char *b)
{
    unsigned char x[16], y[16];
    int64_t bits, other;
    size_t bytes = cidr_parse(a, x, &bits);

    if (!bytes || cidr_parse(b, y, &other) != bytes)
        return false;
    bits = other < bits ? other : bits; /* the wider one decides */
    for (int64_t i = 0; i < bits; i++)
        if ((x[i / 8] ^ y[i / 8]) >> (7 - i % 8) & 1)
            return false;
    return true;
}

/* 0-3,6: numbers below 1024, each range upwards. */
static bool range_ok(const char *s)
{
    do {
        char *end;
        unsigned long lo, hi;

        if (!isdigit((unsigned char)*s))
            return false;
        lo = hi = strtoul(s, &end, 10);
        if (*end == '-' && isdigit((unsigned char)end[1]))
            hi = strtoul(end + 1, &end, 10);
        if (lo > hi || hi >= 1024 || (*end && *end != ','))
            return false;
        s = end + (*end == ',');
        if (*end == ',' && !*s)
            return false;
    } while (*s);
    return true;
}

bool spec_range_has(const char *range, int64_t i)
{
    if (!range)
        return true;
    while (*range) {
        char *end;
        long lo = strtol(range, &end, 10), hi = lo;

        if (*end == '-')
            hi = strtol(end + 1, &end, 10);
        if (i >= lo && i <= hi)
            return true;
        range = *end ? end + 1 : end;
    }
    return false;
}

static bool name_error(enum spec_kind k, const char *s, struct value_error *e)
{
    if (strlen(s) > SPEC_NAME_MAX)
        return value_fail(e, "is longer than %d characters", SPEC_NAME_MAX);
    value_hint(e,
               "A name has %sletters, digits, '-'%s and '_', and starts and ends with a letter or "
               "digit.",
               k == SPEC_NAME ? "lower-case " : "", k == SPEC_NAME ? "" : ", '.'");
    return value_fail(e, "is not a name: '%.*s'", VALUE_SHOWN, s);
}

static bool text_check(enum spec_kind k, const char *s, struct value_error *e)
{
    switch (k) {
    case SPEC_NAME:
    case SPEC_LABEL:
        return value_name_ok(k, s) || name_error(k, s, e);
    case SPEC_PATH:
        if (*s == '/' && !strchr(s, '\n'))
            return true;
        value_hint(e, "A path starts with '/'.");
        return value_fail(e, "must be an absolute path, not '%.*s'", VALUE_SHOWN, s);
    case SPEC_WORD:
    case SPEC_REF:
        if (*s && !strpbrk(s, " \t\n"))
            return true;
        return value_fail(e, *s ? "must not hold white space: '%.*s'" : "must not be empty%.*s",
                          VALUE_SHOWN, s);
    case SPEC_RANGE:
        if (range_ok(s))
            return true;
        value_hint(e, "Write it like 0-3 or 0,2,4-7.");
        return value_fail(e, "is not a list of indexes: '%.*s'", VALUE_SHOWN, s);
    default:
        return true;
    }
}

/* --- numbers --- */
static const struct {
    char suffix;
    int64_t factor;
} count_units[] = { { 'T', 1000000000000 }, { 'B', 1000000000 }, { 'M', 1000000 }, { 'k', 1000 } };

/* 7B, 1.4T, 500: exact, at most six digits behind the point. */
static bool count_parse(const char *s, int64_t *out)
{
    int64_t whole = 0, part = 0, scale = 1, factor = 1;
    bool any = false;

    for (; isdigit((unsigned char)*s); s++, any = true)
        if (__builtin_mul_overflow(whole, 10, &whole) ||
            __builtin_add_overflow(whole, *s - '0', &whole))
            return false;
    if (*s == '.' && any) {
        for (s++; isdigit((unsigned char)*s); s++, scale *= 10) {
            if (scale >= 1000000)
                return false;
            part = part * 10 + (*s - '0');
        }
        if (scale == 1)
            return false;
    }
    for (size_t i = 0; i < ARRAY_SIZE(count_units); i++)
        if (*s == count_units[i].suffix) {
            factor = count_units[i].factor;
            s++;
            break;
        }
    if (!any || *s || (part && (factor < scale || part * factor % scale)) ||
        __builtin_mul_overflow(whole, factor, &whole))
        return false;
    return !__builtin_add_overflow(whole, factor < scale ? 0 : part * (factor / scale), out);
}

static void count_text(int64_t v, struct buf *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(count_units); i++)
        if (v && v % count_units[i].factor == 0) {
            buf_addf(out, "%" PRId64 "%c", v / count_units[i].factor, count_units[i].suffix);
            return;
        }
    buf_addf(out, "%" PRId64, v);
}

static void float_text(double v, struct buf *out)
{
    char s[40];
    double back;

    for (int digits = 6; digits <= 17; digits++) {
        snprintf(s, sizeof(s), "%.*g", digits, v);
        if (str_to_f64(s, &back) && back == v)
            break;
    }
    buf_adds(out, s);
}

/* In bytes with three decimals at most, or in bits when that would lose something. */
static void bandwidth_text(int64_t bps, struct buf *out)
{
    static const struct {
        const char *unit;
        int64_t bps;
    } units[] = { { "TB/s", 8000000000000 }, { "GB/s", 8000000000 }, { "MB/s", 8000000 } };
    char s[UNITS_TEXT_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (bps >= units[i].bps && bps % (units[i].bps / 1000) == 0) {
            float_text((double)bps / (double)units[i].bps, out);
            buf_adds(out, units[i].unit);
            return;
        }
    buf_adds(out, units_rate_exact((uint64_t)bps, s));
}

static void int_text(enum spec_kind k, int64_t v, struct buf *out)
{
    char s[UNITS_TEXT_MAX];

    if (k == SPEC_BYTES && v >= 0)
        buf_adds(out, units_bytes_exact((uint64_t)v, s));
    else if (k == SPEC_RATE && v >= 0)
        buf_adds(out, units_rate_exact((uint64_t)v, s));
    else if (k == SPEC_BANDWIDTH && v >= 0)
        bandwidth_text(v, out);
    else if (k == SPEC_DURATION && v >= 0)
        buf_adds(out, units_duration_exact((uint64_t)v, s));
    else if (k == SPEC_COUNT)
        count_text(v, out);
    else
        buf_addf(out, "%" PRId64, v);
}

/* What people write for a unit, and what we write. */
static const struct {
    enum spec_kind kind;
    const char *theirs, *ours;
} spellings[] = {
    { SPEC_BYTES, "k", "kB" },         { SPEC_BYTES, "m", "MB" },
    { SPEC_BYTES, "g", "GB" },         { SPEC_BYTES, "t", "TB" },
    { SPEC_BYTES, "ki", "KiB" },       { SPEC_BYTES, "mi", "MiB" },
    { SPEC_BYTES, "gi", "GiB" },       { SPEC_BYTES, "ti", "TiB" },
    { SPEC_BYTES, "kb", "kB" },        { SPEC_BYTES, "mb", "MB" },
    { SPEC_BYTES, "gb", "GB" },        { SPEC_BYTES, "tb", "TB" },
    { SPEC_BYTES, "kib", "KiB" },      { SPEC_BYTES, "mib", "MiB" },
    { SPEC_BYTES, "gib", "GiB" },      { SPEC_BYTES, "tib", "TiB" },
    { SPEC_RATE, "mbps", "Mb/s" },     { SPEC_RATE, "gbps", "Gb/s" },
    { SPEC_RATE, "tbps", "Tb/s" },     { SPEC_RATE, "gbit/s", "Gb/s" },
    { SPEC_RATE, "gbit", "Gb/s" },     { SPEC_RATE, "g", "Gb/s" },
    { SPEC_RATE, "gb", "Gb/s" },       { SPEC_RATE, "gb/s", "Gb/s" },
    { SPEC_RATE, "gbe", "Gb/s" },      { SPEC_DURATION, "", "s" },
    { SPEC_DURATION, "sec", "s" },     { SPEC_DURATION, "secs", "s" },
    { SPEC_DURATION, "seconds", "s" }, { SPEC_DURATION, "min", "m" },
    { SPEC_DURATION, "mins", "m" },    { SPEC_DURATION, "minute", "m" },
    { SPEC_DURATION, "minutes", "m" }, { SPEC_DURATION, "hr", "h" },
    { SPEC_DURATION, "hour", "h" },    { SPEC_DURATION, "hours", "h" },
    { SPEC_DURATION, "day", "d" },     { SPEC_DURATION, "days", "d" },
    { SPEC_DURATION, "week", "7d" },   { SPEC_COUNT, "b", "B" },
    { SPEC_COUNT, "m", "M" },          { SPEC_COUNT, "t", "T" },
    { SPEC_COUNT, "K", "k" },          { SPEC_COUNT, "billion", "B" },
    { SPEC_COUNT, "trillion", "T" },   { SPEC_COUNT, "million", "M" },
};

/* "64 gb" to "64GB"; false when nothing near is known. */
static bool suggest_value(enum spec_kind k, const char *text, char *out, size_t cap)
{
    size_t n = strspn(text, "0123456789."), skip = n + strspn(text + n, " ");
    const char *unit = text + skip;

    if (!n)
        return false;
    if (k == SPEC_BANDWIDTH)
        k = SPEC_RATE;
    for (size_t i = 0; i < ARRAY_SIZE(spellings); i++)
        if (spellings[i].kind == k && !strcasecmp(spellings[i].theirs, unit)) {
            bool big = k == SPEC_RATE && strchr(unit, 'B') && strcasecmp(unit, "gbe");

            snprintf(out, cap, "%.*s%s%s", (int)n, text,
                     big ? (const char[]){ spellings[i].ours[0], 'B', '\0' } : spellings[i].ours,
                     big ? "/s" : "");
            return true;
        }
    if (skip > n) { /* the unit may be right and only the space wrong */
        snprintf(out, cap, "%.*s%s", (int)n, text, unit);
        return true;
    }
    return false;
}

static bool number_parse(enum spec_kind k, const char *s, int64_t *out)
{
    uint64_t v;
    enum rc rc;

    switch (k) {
    case SPEC_BYTES:
        rc = units_bytes_parse(s, &v, NULL);
        break;
    case SPEC_RATE:
    case SPEC_BANDWIDTH:
        rc = units_rate_parse(s, &v, NULL);
        break;
    case SPEC_DURATION:
        rc = str_eq(s, "0") ? (v = 0, RC_OK) : units_duration_parse(s, &v, NULL);
        break;
    case SPEC_COUNT:
        return count_parse(s, out);
    default:
        return str_to_i64(s, 10, out);
    }
    if (rc || v > INT64_MAX)
        return false;
    *out = (int64_t)v;
    return true;
}

static const struct {
    enum spec_kind kind;
    const char *what, *like;
} number_words[] = {
    { SPEC_BYTES, "a size", "64GiB or 80GB" },
    { SPEC_RATE, "a rate", "400Gb/s or 25GB/s" },
    { SPEC_BANDWIDTH, "a rate", "900GB/s or 400Gb/s" },
    { SPEC_DURATION, "a duration", "90s, 5m, 1h30m or 7d" },
    { SPEC_COUNT, "a number", "7B, 1.4T or 500" },
    { SPEC_PORT, "a port number", NULL },
    { SPEC_INT, "a whole number", NULL },
};

static bool number_error(const struct spec_row *r, const char *s, struct value_error *e)
{
    char near[80];
    int64_t v;

    for (size_t i = 0; i < ARRAY_SIZE(number_words); i++) {
        if (number_words[i].kind != r->kind)
            continue;
        if (suggest_value(r->kind, s, near, sizeof(near)) && number_parse(r->kind, near, &v))
            value_hint(e, "Did you mean '%s'?", near);
        else if (number_words[i].like)
            value_hint(e, "Write it like %s.", number_words[i].like);
        if (*s == '-' && number_parse(r->kind, s + 1, &v))
            return value_fail(e, "must not be negative: '%.*s'", VALUE_SHOWN, s);
        return value_fail(e, "must be %s, not '%.*s'", number_words[i].what, VALUE_SHOWN, s);
    }
    return false;
}

static bool in_range(const struct spec_row *r, int64_t v, const char *s, struct value_error *e)
{
    int64_t min = r->kind == SPEC_PORT ? 1 : r->min, max = r->kind == SPEC_PORT ? 65535 : r->max;
    struct buf b = { 0 };
    bool low = v < min;

    if ((min == 0 && max == 0) || (v >= min && v <= max))
        return true;
    int_text(r->kind, low ? min : max, &b);
    value_fail(e, "is %.*s, but at %s %s is allowed", VALUE_SHOWN, s, low ? "least" : "most",
               buf_str(&b));
    if (r->kind == SPEC_BYTES && s[strspn(s, "0123456789")] == '\0')
        value_hint(e, "A size without a unit is in bytes: did you mean %.*sGB?", VALUE_SHOWN, s);
    buf_release(&b);
    return false;
}

/* The text with 1 for each number before a point: what is written as it should be, and only too
 * large to hold, can be read then. */
static void small_text(const char *s, struct buf *out)
{
    for (bool whole = true; *s; s++) {
        bool digit = isdigit((unsigned char)*s);

        if (digit && whole) {
            buf_addc(out, '1');
            s += strspn(s, "0123456789") - 1;
        } else {
            buf_addc(out, *s);
        }
        whole = *s != '.' && (whole || !digit);
    }
}

static bool is_too_large(enum spec_kind k, const char *s)
{
    struct spec_money m;
    struct buf b = { 0 };
    int64_t v;
    bool large;

    small_text(s, &b);
    large = k == SPEC_MONEY ? units_money_parse(buf_str(&b), &m.micro, &m.per, NULL) == RC_OK
                            : number_parse(k, buf_str(&b), &v);
    buf_release(&b);
    return large;
}

static bool put_int(const struct spec_row *r, const char *s, void *dst, struct value_error *e)
{
    int64_t v;

    if (!number_parse(r->kind, s, &v)) {
        if (!is_too_large(r->kind, s))
            return number_error(r, s, e);
        return in_range(r, *s == '-' ? INT64_MIN : INT64_MAX, s, e) &&
               value_fail(e, "is too large: '%.*s'", VALUE_SHOWN, s);
    }
    if (!in_range(r, v, s, e))
        return false;
    if (r->store == STORE_MAYBE)
        *(struct maybe *)dst = maybe_of(v);
    else
        *(int64_t *)dst = v;
    return true;
}

static bool put_float(const struct spec_row *r, const char *s, void *dst, struct value_error *e)
{
    double v;
    bool ok =
        r->kind == SPEC_PERCENT ? units_percent_parse(s, &v, NULL) == RC_OK : str_to_f64(s, &v);

    if (!ok) {
        if (r->kind == SPEC_PERCENT)
            value_hint(e, "Write it like 80%%.");
        return value_fail(e, "must be %s, not '%.*s'",
                          r->kind == SPEC_PERCENT ? "a percentage" : "a number", VALUE_SHOWN, s);
    }
    if ((r->min || r->max) && !(v >= (double)r->min && v <= (double)r->max))
        return value_fail(e, "is %.*s, but must lie between %" PRId64 " and %" PRId64, VALUE_SHOWN,
                          s, r->min, r->max);
    if (r->store == STORE_NUM)
        *(struct spec_num *)dst = (struct spec_num){ .v = v, .known = true };
    else
        *(double *)dst = v;
    return true;
}

/* --- money --- */
static const struct {
    enum spec_per per;
    enum money_per money;
    const char *suffix, *word;
} periods[] = {
    { PER_ONCE, MONEY_ONCE, "", "once" },        { PER_HOUR, MONEY_PER_HOUR, "/h", "an hour" },
    { PER_DAY, MONEY_PER_DAY, "/d", "a day" },   { PER_MONTH, MONEY_PER_MONTH, "/mo", "a month" },
    { PER_ANY, MONEY_PER_YEAR, "/y", "a year" },
};

static bool period_error(const struct spec_row *r, const char *s, enum money_per per,
                         struct value_error *e)
{
    const char *got = "", *suffix = "", *word = "";

    for (size_t i = 0; i < ARRAY_SIZE(periods); i++) {
        if (periods[i].money == per)
            got = periods[i].word;
        if (periods[i].per == r->per)
            suffix = periods[i].suffix, word = periods[i].word;
    }
    value_hint(e, "Write it like %.*s%s.", (int)strcspn(s, "/"), s, suffix);
    if (per == MONEY_ONCE)
        return value_fail(e, "has no period: '%.*s' %s or once?", VALUE_SHOWN, s, word);
    if (r->per == PER_ONCE)
        return value_fail(e, "must be an amount without a period, not '%.*s'", VALUE_SHOWN, s);
    return value_fail(e, "must be an amount %s, not %s ('%.*s')", word, got, VALUE_SHOWN, s);
}

static bool put_money(const struct spec_row *r, const char *s, void *dst, struct value_error *e)
{
    struct spec_money m = { .known = true };
    enum money_per want = MONEY_ONCE;

    if (units_money_parse(s, &m.micro, &m.per, NULL) || m.micro < 0) {
        if (is_too_large(SPEC_MONEY, s))
            return value_fail(e, "is too large: '%.*s'", VALUE_SHOWN, s);
        value_hint(e, "Write it like %s.",
                   r->per == PER_ONCE    ? "$3.50"
                   : r->per == PER_DAY   ? "$5000/d"
                   : r->per == PER_MONTH ? "$150000/mo"
                                         : "$3.50/h");
        return value_fail(e, "must be an amount of money, not '%.*s'", VALUE_SHOWN, s);
    }
    for (size_t i = 0; i < ARRAY_SIZE(periods); i++)
        if (periods[i].per == r->per)
            want = periods[i].money;
    if (r->per == PER_ANY ? m.per == MONEY_ONCE : m.per != want)
        return period_error(r, s, m.per, e);
    *(struct spec_money *)dst = m;
    return true;
}

/* --- quantities --- */
static bool plain_number(const char *s, size_t len, double *out)
{
    char t[40];

    if (!len || len >= sizeof(t) || memchr(s, ' ', len))
        return false;
    memcpy(t, s, len);
    t[len] = '\0';
    return str_to_f64(t, out);
}

static bool quantity_parse(const char *s, struct spec_quantity *q)
{
    static const struct {
        const char *suffix;
        enum spec_unit unit;
    } suffixes[] = {
        { "%", SPEC_UNIT_PERCENT }, { "°C", SPEC_UNIT_CELSIUS }, { "C", SPEC_UNIT_CELSIUS },
        { "W", SPEC_UNIT_WATT },    { "/s", SPEC_UNIT_PER_S },   { "", SPEC_UNIT_COUNT },
    };
    size_t len = strlen(s);
    enum money_per per;
    int64_t micro;
    uint64_t v;

    q->known = true;
    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
        if (str_ends(s, suffixes[i].suffix) &&
            plain_number(s, len - strlen(suffixes[i].suffix), &q->v)) {
            q->unit = suffixes[i].unit;
            return true;
        }
    if (units_rate_parse(s, &v, NULL) == RC_OK)
        q->unit = SPEC_UNIT_BPS;
    else if (units_bytes_parse(s, &v, NULL) == RC_OK)
        q->unit = SPEC_UNIT_BYTES;
    else if (units_duration_parse(s, &v, NULL) == RC_OK)
        q->unit = SPEC_UNIT_MS;
    else if (units_money_parse(s, &micro, &per, NULL) == RC_OK && micro >= 0)
        q->unit = SPEC_UNIT_MONEY, v = (uint64_t)micro;
    else
        return false;
    q->v = (double)v;
    return true;
}

static bool put_quantity(struct arena *a, const char *s, void *dst, struct value_error *e)
{
    struct spec_quantity q = { 0 };

    if (!quantity_parse(s, &q)) {
        value_hint(e, "Write it like 80%%, 85C, 700W, 20GB, 250ms or 3.");
        return value_fail(e, "must be a number with its unit, not '%.*s'", VALUE_SHOWN, s);
    }
    q.text = arena_strdup(a, s);
    *(struct spec_quantity *)dst = q;
    return true;
}

/* --- choices --- */
static bool put_choice(const struct spec_row *r, const char *s, void *dst, struct value_error *e)
{
    const char *near;
    struct buf b;
    size_t n;

    for (n = 0; r->choices[n]; n++)
        if (!strcmp(r->choices[n], s)) {
            *(unsigned *)dst = (unsigned)n;
            return true;
        }
    near = str_nearest(s, r->choices, n);
    buf_init(&b, 1024);
    for (size_t i = 0; i < n; i++)
        buf_addf(&b, "%s%s", !i ? "" : i + 1 == n ? " or " : ", ", r->choices[i]);
    if (n <= 8) {
        value_fail(e, "must be %s, not '%.*s'", buf_str(&b), VALUE_SHOWN, s);
        if (near)
            value_hint(e, "Did you mean '%s'?", near);
    } else {
        value_fail(e, "cannot be '%.*s'", VALUE_SHOWN, s);
        if (near)
            value_hint(e, "Did you mean '%s'?", near);
        else
            value_hint(e, "`stoker spec doc` lists what can be written here.");
    }
    buf_release(&b);
    return false;
}

static bool put_bool(const char *s, void *dst, struct value_error *e)
{
    static const char *const yes[] = { "yes", "on", "y", "1", "enabled" };
    static const char *const no[] = { "no", "off", "n", "0", "disabled" };

    if (!strcmp(s, "true") || !strcmp(s, "false")) {
        *(bool *)dst = s[0] == 't';
        return true;
    }
    for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
        if (!strcasecmp(s, yes[i]))
            value_hint(e, "Did you mean 'true'?");
        if (!strcasecmp(s, no[i]))
            value_hint(e, "Did you mean 'false'?");
    }
    if (!strcasecmp(s, "true") || !strcasecmp(s, "false"))
        value_hint(e, "Write it in lower case.");
    return value_fail(e, "must be true or false, not '%.*s'", VALUE_SHOWN, s);
}

bool value_put(const struct spec_row *r, struct arena *a, const char *text, bool plain, void *dst,
               struct value_error *e)
{
    e->msg[0] = e->hint[0] = '\0';
    if (!plain && (r->kind == SPEC_BOOL || r->kind == SPEC_INT || r->kind == SPEC_FLOAT ||
                   r->kind == SPEC_PORT)) {
        value_hint(e, "Write it without the quotes.");
        return value_fail(e, "must be %s, not text in quotes",
                          r->kind == SPEC_BOOL ? "true or false" : "a number");
    }
    switch (r->store) {
    case STORE_STR:
        if (!text_check(r->kind, text, e))
            return false;
        *(const char **)dst = arena_strdup(a, text);
        return true;
    case STORE_BOOL:
        return put_bool(text, dst, e);
    case STORE_I64:
    case STORE_MAYBE:
        return put_int(r, text, dst, e);
    case STORE_F64:
    case STORE_NUM:
        return put_float(r, text, dst, e);
    case STORE_MONEY:
        return put_money(r, text, dst, e);
    case STORE_QUANTITY:
        return put_quantity(a, text, dst, e);
    case STORE_ENUM:
        return put_choice(r, text, dst, e);
    default:
        assert(!"a list or a map is no single value");
        return false;
    }
}

/* --- back to text --- */
bool value_text(const struct spec_row *r, const void *src, struct buf *out)
{
    char s[UNITS_TEXT_MAX];

    switch (r->store) {
    case STORE_STR:
        if (!*(const char *const *)src)
            return false;
        buf_adds(out, *(const char *const *)src);
        return true;
    case STORE_BOOL:
        buf_adds(out, *(const bool *)src ? "true" : "false");
        return true;
    case STORE_I64:
        int_text(r->kind, *(const int64_t *)src, out);
        return true;
    case STORE_MAYBE: {
        const struct maybe *m = src;

        if (m->known)
            int_text(r->kind, m->v, out);
        return m->known;
    }
    case STORE_F64:
        float_text(*(const double *)src, out);
        buf_adds(out, r->kind == SPEC_PERCENT ? "%" : "");
        return true;
    case STORE_NUM: {
        const struct spec_num *n = src;

        if (n->known)
            float_text(n->v, out);
        buf_adds(out, n->known && r->kind == SPEC_PERCENT ? "%" : "");
        return n->known;
    }
    case STORE_MONEY: {
        const struct spec_money *m = src;

        if (m->known)
            buf_adds(out, units_money_exact(m->micro, m->per, s));
        return m->known;
    }
    case STORE_QUANTITY: {
        const struct spec_quantity *q = src;

        if (q->known)
            buf_adds(out, q->text);
        return q->known;
    }
    case STORE_ENUM:
        buf_adds(out, r->choices[*(const unsigned *)src]);
        return true;
    default:
        return false;
    }
}

static void money_json(const struct spec_money *m, struct json_out *w)
{
    static const char *const pers[] = { "once", "hour", "day", "month", "year" };

    if (!m->known) {
        json_add_null(w);
        return;
    }
    json_obj(w);
    json_kv_num(w, "dollars", (double)m->micro / 1e6);
    json_kv_str(w, "per", pers[m->per]);
    json_obj_end(w);
}

/* Numbers in the stored unit (bytes, bits a second, milliseconds, watts). */
void value_json(const struct spec_row *r, const void *src, struct json_out *w)
{
    switch (r->store) {
    case STORE_STR:
        json_add_str(w, *(const char *const *)src);
        break;
    case STORE_BOOL:
        json_add_bool(w, *(const bool *)src);
        break;
    case STORE_I64:
        json_add_int(w, *(const int64_t *)src);
        break;
    case STORE_MAYBE:
        json_add_maybe(w, *(const struct maybe *)src);
        break;
    case STORE_F64:
        json_add_num(w, *(const double *)src);
        break;
    case STORE_NUM:
        json_add_num(w, ((const struct spec_num *)src)->known ? ((const struct spec_num *)src)->v
                                                              : NAN);
        break;
    case STORE_MONEY:
        money_json(src, w);
        break;
    case STORE_QUANTITY:
        json_add_str(w, ((const struct spec_quantity *)src)->text);
        break;
    case STORE_ENUM:
        json_add_str(w, r->choices[*(const unsigned *)src]);
        break;
    default:
        json_add_null(w);
    }
}
