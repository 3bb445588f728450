/* SPDX-License-Identifier: MIT */
#include "base/text/units.h"

#include "base/str.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit byte_units[] = { /* largest first within a family, for printing */
                                          { "PiB", UINT64_C(1) << 50 },
                                          { "TiB", UINT64_C(1) << 40 },
                                          { "GiB", UINT64_C(1) << 30 },
                                          { "MiB", UINT64_C(1) << 20 },
                                          { "KiB", UINT64_C(1) << 10 },
                                          { "PB", UINT64_C(1000000000000000) },
                                          { "TB", UINT64_C(1000000000000) },
                                          { "GB", 1000000000 },
                                          { "MB", 1000000 },
                                          { "kB", 1000 },
                                          { "B", 1 }
};

static const struct unit rate_units[] = { { "Tb/s", UINT64_C(1000000000000) },
                                          { "Gb/s", 1000000000 },
                                          { "Mb/s", 1000000 },
                                          { "kb/s", 1000 },
                                          { "b/s", 1 },
                                          { "TB/s", UINT64_C(8000000000000) },
                                          { "GB/s", UINT64_C(8000000000) },
                                          { "MB/s", 8000000 },
                                          { "kB/s", 8000 },
                                          { "B/s", 8 } };

static const struct unit time_units[] = {
    { "d", 86400000 }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 }, { "ms", 1 }
};

static const struct {
    const char *suffix;
    enum money_per per;
} money_pers[] = { { "/h", MONEY_PER_HOUR },
                   { "/d", MONEY_PER_DAY },
                   { "/day", MONEY_PER_DAY },
                   { "/mo", MONEY_PER_MONTH },
                   { "/y", MONEY_PER_YEAR } };

/* A decimal number kept exact: digits and how many stand behind the point. */
struct decimal {
    uint64_t digits;
    int scale;
};

enum { DECIMAL_SCALE_MAX = 9 };

/* Reads digits with an optional point; returns the rest of the string or NULL. */
static const char *decimal_parse(const char *s, struct decimal *out)
{
    struct decimal d = { 0 };
    bool any = false, point = false;

    for (;; s++) {
        if (*s == '.' && !point) {
            point = true;
            continue;
        }
        if (!isdigit((unsigned char)*s))
            break;
        any = true;
        if (point && ++d.scale > DECIMAL_SCALE_MAX)
            return NULL;
        if (__builtin_mul_overflow(d.digits, UINT64_C(10), &d.digits) ||
            __builtin_add_overflow(d.digits, (uint64_t)(*s - '0'), &d.digits))
            return NULL;
    }
    if (!any || (point && !d.scale))
        return NULL;
    *out = d;
    return s;
}

/* digits * factor / 10^scale; false when it does not fit or is no whole number.  `rounds`: what is
 * finer than the factor may be rounded, but not to nothing. */
static bool decimal_scale(struct decimal d, uint64_t factor, bool rounds, uint64_t *out)
{
    __extension__ unsigned __int128 all = 1;
    __extension__ unsigned __int128 v = d.digits;

    v *= factor;
    for (int i = 0; i < d.scale; i++)
        all *= 10;
    if (v % all && (!rounds || factor == 1))
        return false;
    v = (v + all / 2) / all;
    if (v > UINT64_MAX || (!v && d.digits))
        return false;
    *out = (uint64_t)v;
    return true;
}

static const struct unit *unit_find(const struct unit *units, size_t count, const char *name,
                                    size_t len)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(units[i].name) == len && !memcmp(units[i].name, name, len))
            return &units[i];
    return NULL;
}

static enum rc quantity_parse(const char *s, const char *what, const char *example,
                              const struct unit *units, size_t count, bool rounds, uint64_t *out,
                              struct err *err)
{
    struct decimal d;
    const char *rest = decimal_parse(s, &d);
    const struct unit *u;

    if (!rest) {
        err_hint(err, "Write it like %s.", example);
        return err_set(err, RC_PARSE, "'%s' is not a %s", s, what);
    }
    if (*rest == ' ') /* as tables have it: 79.6 GiB */
        rest++;
    u = unit_find(units, count, rest, strlen(rest));
    if (!u) {
        err_hint(err, "Write it like %s.", example);
        if (!*rest)
            return err_set(err, RC_PARSE, "%s '%s' has no unit", what, s);
        return err_set(err, RC_PARSE, "unknown unit '%s' in %s '%s'", rest, what, s);
    }
    if (!decimal_scale(d, u->factor, rounds, out))
        return err_set(err, RC_LIMIT, "%s '%s' does not fit into 64 bits or is no whole number",
                       what, s);
    return RC_OK;
}

enum rc units_bytes_parse(const char *s, uint64_t *out, struct err *err)
{
    uint64_t plain;

    if (str_to_u64(s, 10, &plain)) { /* a bare number is bytes */
        *out = plain;
        return RC_OK;
    }
    return quantity_parse(s, "size", "64GiB or 80GB", byte_units, ARRAY_SIZE(byte_units), true, out,
                          err);
}

enum rc units_rate_parse(const char *s, uint64_t *out_bps, struct err *err)
{
    return quantity_parse(s, "rate", "400Gb/s or 25GB/s", rate_units, ARRAY_SIZE(rate_units), false,
                          out_bps, err);
}

/* One or more parts, each with a smaller unit than the last: 1h30m. */
enum rc units_duration_parse(const char *s, uint64_t *out_ms, struct err *err)
{
    uint64_t total = 0, last = UINT64_MAX;
    const char *p = s;

    do {
        struct decimal d;
        const char *rest = decimal_parse(p, &d);
        size_t len = 0;
        const struct unit *u;
        uint64_t part;

        while (rest && isalpha((unsigned char)rest[len]))
            len++;
        u = rest ? unit_find(time_units, ARRAY_SIZE(time_units), rest, len) : NULL;
        if (!u || u->factor >= last) {
            err_hint(err, "Write it like 90s, 5m, 1h30m or 7d.");
            return err_set(err, RC_PARSE, "'%s' is not a duration", s);
        }
        if (!decimal_scale(d, u->factor, false, &part) ||
            __builtin_add_overflow(total, part, &total))
            return err_set(err, RC_LIMIT, "duration '%s' is too long or finer than 1ms", s);
        last = u->factor;
        p = rest + len;
    } while (*p);
    *out_ms = total;
    return RC_OK;
}

static bool money_per_parse(const char *rest, enum money_per *out)
{
    if (!*rest) {
        *out = MONEY_ONCE;
        return true;
    }
    for (size_t i = 0; i < ARRAY_SIZE(money_pers); i++)
        if (!strcmp(rest, money_pers[i].suffix)) {
            *out = money_pers[i].per;
            return true;
        }
    return false;
}

enum rc units_money_parse(const char *s, int64_t *out_micro, enum money_per *out_per,
                          struct err *err)
{
    struct decimal d;
    const char *rest = *s == '$' ? decimal_parse(s + 1, &d) : NULL;
    enum money_per per;
    uint64_t micro;

    if (!rest || !money_per_parse(rest, &per)) {
        err_hint(err, "Write it like $3.50/h, $5000/d, $150000/mo or $12.");
        return err_set(err, RC_PARSE, "'%s' is not an amount of money", s);
    }
    if (!decimal_scale(d, 1000000, false, &micro) || micro > INT64_MAX)
        return err_set(err, RC_LIMIT, "amount '%s' is too large or finer than a millionth", s);
    *out_micro = (int64_t)micro;
    *out_per = per;
    return RC_OK;
}

enum rc units_percent_parse(const char *s, double *out, struct err *err)
{
    char number[UNITS_TEXT_MAX];
    size_t len = strlen(s);
    double v;

    if (len && s[len - 1] == '%')
        len--;
    if (len && len < sizeof(number)) {
        memcpy(number, s, len);
        number[len] = '\0';
        if (str_to_f64(number, &v)) {
            *out = v;
            return RC_OK;
        }
    }
    err_hint(err, "Write it like 80%%.");
    return err_set(err, RC_PARSE, "'%s' is not a percentage", s);
}

/* The unit that divides v with the smallest number before it: 80GB, not 78125000KiB. */
static const char *exact_text(uint64_t v, const struct unit *units, size_t count,
                              char out[UNITS_TEXT_MAX])
{
    const struct unit *best = &units[count - 1]; /* divides everything */

    for (size_t i = 0; v && i < count; i++)
        if (v % units[i].factor == 0 && units[i].factor > best->factor)
            best = &units[i];
    snprintf(out, UNITS_TEXT_MAX, "%" PRIu64 "%s", v / best->factor, best->name);
    return out;
}

const char *units_bytes_exact(uint64_t bytes, char out[UNITS_TEXT_MAX])
{
    return exact_text(bytes, byte_units, ARRAY_SIZE(byte_units), out);
}

const char *units_rate_exact(uint64_t bps, char out[UNITS_TEXT_MAX])
{
    return exact_text(bps, rate_units, 5, out); /* the bit family */
}

const char *units_duration_exact(uint64_t ms, char out[UNITS_TEXT_MAX])
{
    return exact_text(ms, time_units, ARRAY_SIZE(time_units), out);
}

const char *units_bytes_human(uint64_t bytes, char out[UNITS_TEXT_MAX])
{
    for (size_t i = 0; i < 5; i++) /* the binary family */
        if (bytes >= byte_units[i].factor) {
            double v = (double)bytes / (double)byte_units[i].factor;
            int digits = v >= 100 || v == floor(v) ? 0 : 1;

            snprintf(out, UNITS_TEXT_MAX, "%.*f %s", digits, v, byte_units[i].name);
            return out;
        }
    snprintf(out, UNITS_TEXT_MAX, "%" PRIu64 " B", bytes);
    return out;
}

const char *units_money_exact(int64_t micro, enum money_per per, char out[UNITS_TEXT_MAX])
{
    static const char *const pers[] = { "", "/h", "/d", "/mo", "/y" };
    int64_t cents = micro / 10000;

    static_assert(ARRAY_SIZE(pers) == MONEY_PER_YEAR + 1, "a suffix for each period");
    if (micro % 10000)
        snprintf(out, UNITS_TEXT_MAX, "$%" PRId64 ".%06" PRId64 "%s", micro / 1000000,
                 micro % 1000000, pers[per]);
    else if (cents % 100)
        snprintf(out, UNITS_TEXT_MAX, "$%" PRId64 ".%02" PRId64 "%s", cents / 100, cents % 100,
                 pers[per]);
    else
        snprintf(out, UNITS_TEXT_MAX, "$%" PRId64 "%s", cents / 100, pers[per]);
    return out;
}
