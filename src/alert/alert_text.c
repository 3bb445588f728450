/* SPDX-License-Identifier: MIT */
/* alert_text: what a rule says to the person it wakes. */
#include "alert/alert_int.h"
#include "base/str.h"
#include "base/text/units.h"
#include "telemetry/kmsg/kmsg.h"

#include <math.h>

enum { NUMBER_TEXT_MAX = 32 };

/* Up to four digits, no exponent where people would not write one. */
static void add_number(double v, struct buf *out)
{
    char text[NUMBER_TEXT_MAX];

    if (fabs(v) >= 1e4 && fabs(v) < 1e15)
        snprintf(text, sizeof(text), "%.0f", v);
    else
        snprintf(text, sizeof(text), "%.4g", v);
    buf_adds(out, text);
}

static void add_bytes(double v, const char *after, struct buf *out)
{
    char text[UNITS_TEXT_MAX];

    if (v >= 0 && v < 1e19)
        buf_adds(out, units_bytes_human((uint64_t)v, text));
    else
        add_number(v, out);
    buf_adds(out, after);
}

void alert_value_text(const char *unit, double v, struct buf *out)
{
    static const struct {
        const char *unit, *after;
        double scale;
    } rows[] = {
        { "%", " %", 1 }, { "ratio", " %", 100 }, { "C", " °C", 1 },      { "W", " W", 1 },
        { "s", " s", 1 }, { "/s", "/s", 1 },      { "ns/s", " %", 1e-7 },
    };

    if (isnan(v)) {
        buf_adds(out, "unknown");
        return;
    }
    if (str_eq(unit, "B") || str_eq(unit, "B/s")) {
        add_bytes(v, unit[1] ? "/s" : "", out);
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (str_eq(unit, rows[i].unit)) {
            add_number(v * rows[i].scale, out);
            buf_adds(out, rows[i].after);
            return;
        }
    add_number(v, out);
}

const char *telemetry_label_of(const struct telemetry_series *s, const char *name)
{
    for (size_t i = 0; i < s->label_count; i++)
        if (str_eq(s->labels[i].name, name))
            return s->labels[i].value;
    return NULL;
}

/* {name} begins at `p`: its value, and where the text goes on; NULL: it is no name. */
static const char *add_field(const char *p, const struct alert_rule *r,
                             const struct telemetry_series *s, double value, struct buf *out)
{
    size_t len = strcspn(p + 1, "{}");
    char name[TELEMETRY_NAME_MAX];
    const char *label;

    if (p[1 + len] != '}' || !len || len >= sizeof(name))
        return NULL;
    memcpy(name, p + 1, len);
    name[len] = '\0';
    if (str_eq(name, "value"))
        alert_value_text(r->unit, value, out);
    else if (strchr(name, '|')) /* {time|times}: of one, of others */
        buf_add(out, value == 1 ? name : strchr(name, '|') + 1,
                value == 1 ? strcspn(name, "|") : strlen(strchr(name, '|') + 1));
    else if ((label = telemetry_label_of(s, name)) ||
             (str_eq(name, "gpu") && (label = telemetry_label_of(s, "pci_bus_id"))))
        buf_adds(out, label); /* a GPU that the driver does not know has an address */
    else
        buf_addc(out, '?');
    return p + len + 2;
}

/* Copies what fits, only whole characters. */
static void copy_text(char *out, size_t cap, const char *text)
{
    if (str_copy(out, cap, text))
        return;
    for (size_t n = cap - 1; n && ((unsigned char)text[n] & 0xC0) == 0x80;)
        out[--n] = '\0';
}

bool alert_code_of(const struct telemetry_series *s, int *out)
{
    const char *text = telemetry_label_of(s, "xid");
    int64_t code;

    text = text ? text : telemetry_label_of(s, "sxid");
    if (!text || !str_to_i64(text, 10, &code) || code < 0 || code > INT32_MAX)
        return false;
    *out = (int)code;
    return true;
}

void alert_summary(const struct alert_rule *r, const struct telemetry_series *s, double value,
                   char out[TELEMETRY_VALUE_MAX])
{
    char words[TELEMETRY_VALUE_MAX];
    struct buf b;
    int code;

    buf_init(&b, 16 * TELEMETRY_VALUE_MAX);
    for (const char *p = r->summary; *p;) {
        const char *next = *p == '{' ? add_field(p, r, s, value, &b) : NULL;

        if (next)
            p = next;
        else
            buf_addc(&b, *p++);
    }
    if (alert_code_of(s, &code)) {
        xid_words(code, words, sizeof(words));
        buf_addf(&b, ": %s", words);
    }
    copy_text(out, TELEMETRY_VALUE_MAX, buf_str(&b));
    buf_release(&b);
}
