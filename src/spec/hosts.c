/* SPDX-License-Identifier: MIT */
/* hosts: the machines of a node group by name, from a host list in Slurm's form: names and ranges
 * with commas between, "gpu[1-4,7],login1", leading zeros kept.  A group without a list has
 * NAME1 to NAMEcount. */
#include "base/arena.h"
#include "base/str.h"
#include "spec/spec_int.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HOST_DIGITS_MAX = 9 }; /* digits of a number in brackets */

void spec_hosts(const struct spec_node *n, struct buf *out)
{
    if (n->hosts)
        buf_adds(out, n->hosts);
    else if (n->count == 1)
        buf_addf(out, "%s1", n->name);
    else
        buf_addf(out, "%s[1-%" PRId64 "]", n->name, n->count);
}

struct place { /* in a host list: an item of it, and of its brackets */
    const char *item, *item_end;
    const char *open, *close; /* of the item's brackets; NULL: none */
};

static struct place item_at(const char *p)
{
    struct place at = { .item = p };

    for (; *p && (*p != ',' || (at.open && !at.close)); p++) {
        if (*p == '[' && !at.open)
            at.open = p;
        if (*p == ']' && at.open && !at.close)
            at.close = p;
    }
    at.item_end = p;
    if (!at.close)
        at.open = NULL;
    return at;
}

/* The i-th number of "1-4,7", as text; takes what there is from `*i` when it is beyond. */
static bool number_at(const char *p, const char *end, int64_t *i, char *out, size_t cap)
{
    while (p < end) {
        char *stop;
        long long first = strtoll(p, &stop, 10), last = first;
        int width = (int)(stop - p);

        if (stop == p || first < 0)
            return false;
        if (*stop == '-') {
            const char *from = stop + 1;

            last = strtoll(from, &stop, 10);
            if (stop == from || last < first)
                return false;
        }
        if (*i <= last - first)
            return snprintf(out, cap, "%0*lld", width, first + *i) < (int)cap;
        *i -= last - first + 1;
        p = stop < end && *stop == ',' ? stop + 1 : end;
    }
    return false;
}

bool spec_host(const struct spec_node *n, int64_t i, char *out, size_t cap)
{
    char number[32];

    if (i < 0 || i >= n->count)
        return false;
    if (!n->hosts)
        return snprintf(out, cap, "%s%" PRId64, n->name, i + 1) < (int)cap;
    for (const char *p = n->hosts; *p;) {
        struct place at = item_at(p);

        if (!at.open && i-- == 0)
            return snprintf(out, cap, "%.*s", (int)(at.item_end - at.item), at.item) < (int)cap;
        if (at.open && number_at(at.open + 1, at.close, &i, number, sizeof(number)))
            return snprintf(out, cap, "%.*s%s%.*s", (int)(at.open - at.item), at.item, number,
                            (int)(at.item_end - at.close - 1), at.close + 1) < (int)cap;
        p = *at.item_end ? at.item_end + 1 : at.item_end;
    }
    return false;
}

/* ---- one after the other ---- */

void spec_walk(struct spec_walk *w, const struct spec_node *n)
{
    *w = (struct spec_walk){ .node = n->hosts ? NULL : n, .at = n->hosts ? n->hosts : "" };
    if (!n->hosts)
        w->last = n->count;
}

void spec_walk_list(struct spec_walk *w, const char *hosts)
{
    *w = (struct spec_walk){ .at = hosts };
}

/* The next range of the bracket; false at its end. */
static bool range_next(struct spec_walk *w)
{
    char *stop;

    if (!w->in || w->in >= w->close)
        return false;
    w->next = w->last = strtoll(w->in, &stop, 10);
    w->width = (int)(stop - w->in);
    if (*stop == '-')
        w->last = strtoll(stop + 1, &stop, 10);
    w->in = *stop == ',' ? stop + 1 : w->close;
    return true;
}

static bool item_next(struct spec_walk *w)
{
    struct place at = item_at(w->at);

    if (!*w->at)
        return false;
    w->at = *at.item_end ? at.item_end + 1 : at.item_end;
    if (!at.open)
        return snprintf(w->name, sizeof(w->name), "%.*s", (int)(at.item_end - at.item), at.item) <
               (int)sizeof(w->name);
    w->item = at.item;
    w->open = at.open;
    w->close = at.close;
    w->end = at.item_end;
    w->in = at.open + 1;
    w->next = 1;
    w->last = 0;
    return spec_walk_next(w);
}

bool spec_walk_next(struct spec_walk *w)
{
    if (w->node)
        return w->next++ < w->last && snprintf(w->name, sizeof(w->name), "%s%" PRId64,
                                               w->node->name, w->next) < (int)sizeof(w->name);
    if (!w->in)
        return item_next(w);
    if (w->next > w->last && !range_next(w)) {
        w->in = NULL;
        return item_next(w);
    }
    return snprintf(w->name, sizeof(w->name), "%.*s%0*lld%.*s", (int)(w->open - w->item), w->item,
                    w->width, (long long)w->next++, (int)(w->end - w->close - 1),
                    w->close + 1) < (int)sizeof(w->name);
}

/* ---- is it one? ---- */

static bool host_chars(const char *p, const char *end)
{
    for (; p < end; p++)
        if (!(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z') && !(*p >= '0' && *p <= '9') &&
            *p != '-' && *p != '_' && *p != '.')
            return false;
    return true;
}

static const char *number_read(const char **p, long *out)
{
    size_t digits = strspn(*p, "0123456789");

    if (!digits)
        return "brackets hold numbers and ranges, as in gpu[1-4,7]";
    if (digits > HOST_DIGITS_MAX)
        return "a number in brackets has at most 9 digits";
    *out = strtol(*p, NULL, 10);
    *p += digits;
    return NULL;
}

static const char *bracket_fault(const struct place *at, int64_t *count)
{
    const char *p = at->open + 1;

    while (true) {
        long first = 0, last;
        const char *fault = number_read(&p, &first);

        last = first;
        if (!fault && *p == '-') {
            p++;
            fault = number_read(&p, &last);
        }
        if (fault)
            return fault;
        if (last < first)
            return "a range goes upwards";
        *count += last - first + 1;
        if (p == at->close)
            return NULL;
        if (*p++ != ',')
            return "brackets hold numbers and ranges, as in gpu[1-4,7]";
    }
}

static bool too_long(const struct place *at)
{
    if (!at->open)
        return at->item_end - at->item > SPEC_NAME_MAX;
    return at->open - at->item + (at->item_end - at->close - 1) > SPEC_NAME_MAX - HOST_DIGITS_MAX;
}

static const char *item_fault(const struct place *at, int64_t *count)
{
    const char *until = at->open ? at->open : at->item_end;

    if (at->item == at->item_end)
        return "a name is missing beside a comma";
    if (!host_chars(at->item, until) || (at->open && !host_chars(at->close + 1, at->item_end)))
        return "a host name has letters, digits, '-', '_' and '.', and one pair of brackets";
    if (*at->item == '-')
        return "a host name does not begin with '-'";
    if (too_long(at))
        return "a host name is too long";
    if (at->open)
        return bracket_fault(at, count);
    ++*count;
    return NULL;
}

const char *spec_hosts_fault(const char *hosts, int64_t *out_count)
{
    int64_t count = 0;

    for (const char *p = hosts;;) {
        struct place at = item_at(p);
        const char *fault = item_fault(&at, &count);

        if (fault)
            return fault;
        if (!*at.item_end)
            break;
        p = at.item_end + 1;
    }
    *out_count = count;
    return NULL;
}

const char *spec_address_split(const char *text, struct arena *a, struct spec_address *out)
{
    const char *scheme = strstr(text, "://"), *host = scheme ? scheme + 3 : text;
    const char *open = strchr(host, '['), *close = open ? strchr(open, ']') : NULL, *end;
    int64_t count;

    *out = (struct spec_address){ 0 };
    if (!close || open == host || strcspn(host, "/") < (size_t)(open - host))
        return NULL;
    end = close + strcspn(close, ":/");
    out->head = arena_strndup(a, text, (size_t)(host - text));
    out->hosts = arena_strndup(a, host, (size_t)(end - host));
    out->tail = arena_strdup(a, end);
    return spec_hosts_fault(out->hosts, &count);
}
