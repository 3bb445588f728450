/* SPDX-License-Identifier: MIT */
/* systemd_text: texts of the spec in unit files.
 *
 * systemd reads a value in this order: the line (a backslash at its end goes on in the next),
 * words with quotes and C's escapes, specifiers ("%i"), and in ExecStart= variables ("$HOME").
 * Quoting goes the other way.  Some keys take the rest of the line without words: there only
 * specifiers are doubled, and what would be cut off or run on is refused. */
#include "base/str.h"
#include "render/systemd/systemd_int.h"

#include <ctype.h>

enum { USER_NAME_MAX = 31 };

static bool is_plain(const char *s)
{
    for (const char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_-./:=@,+", *p))
            return false;
    return *s && !strchr("+@:=", *s);
}

static void put_word(struct buf *out, const char *s, bool dollars)
{
    if (is_plain(s)) {
        buf_adds(out, s);
        return;
    }
    buf_addc(out, '"');
    for (const char *p = s; *p; p++) {
        if (*p == '\n')
            buf_adds(out, "\\n");
        else if (*p == '\t')
            buf_adds(out, "\\t");
        else if (*p == '"' || *p == '\\')
            buf_addf(out, "\\%c", *p);
        else if (*p == '%' || (*p == '$' && dollars))
            buf_addf(out, "%c%c", *p, *p);
        else
            buf_addc(out, *p);
    }
    buf_addc(out, '"');
}

void unit_exec_word(struct buf *out, const char *s)
{
    put_word(out, s, true);
}

void unit_list_word(struct buf *out, const char *s)
{
    put_word(out, s, false);
}

static void put_origin(struct systemd_unit *u, const void *member)
{
    if (member)
        buf_addf(u->out, "# %s\n", render_from(u->r, member));
}

void unit_text(struct systemd_unit *u, const char *key, const char *value, const void *member)
{
    size_t len = strlen(value);

    if (!len || strpbrk(value, "\n\t") || value[0] == ' ' || value[len - 1] == ' ' ||
        value[len - 1] == '\\') {
        render_refuse(u->r, member,
                      "Use one line that does not begin or end with a blank or end with '\\'.",
                      "%s= of a unit cannot hold this text", key);
        return;
    }
    put_origin(u, member);
    buf_addf(u->out, "%s=", key);
    for (const char *p = value; *p; p++) {
        if (*p == '%')
            buf_addc(u->out, '%');
        buf_addc(u->out, *p);
    }
    buf_addc(u->out, '\n');
}

void unit_line(struct systemd_unit *u, const void *member, const char *fmt, ...)
{
    va_list ap;

    put_origin(u, member);
    va_start(ap, fmt);
    buf_vaddf(u->out, fmt, ap);
    va_end(ap);
    buf_addc(u->out, '\n');
}

void unit_section(struct systemd_unit *u, const char *name)
{
    buf_addf(u->out, "\n[%s]\n", name);
}

bool unit_user_ok(const char *s)
{
    size_t len = strlen(s);
    int64_t id;

    if (str_to_i64(s, 10, &id))
        return id >= 0 && id < UINT32_MAX;
    if (!len || len > USER_NAME_MAX || !(isalpha((unsigned char)*s) || *s == '_'))
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_' && *s != '-')
            return false;
    return true;
}

static void user_one(struct systemd_unit *u, const char *key, const char *name, const void *member)
{
    if (unit_user_ok(name)) {
        unit_line(u, member, "%s=%s", key, name);
        return;
    }
    render_refuse(u->r, member,
                  "Use letters, digits, '_' and '-', a letter first, at most 31; or a number.",
                  "systemd takes no user or group of the name '%s'", name);
}

void unit_user(struct systemd_unit *u, const struct spec_component *c)
{
    const struct spec_systemd *t = u->r->targets->systemd;
    char name[64];
    const char *colon;

    if (!c || !c->user) {
        user_one(u, "User", t->user, &t->user);
        user_one(u, "Group", t->group, &t->group);
        return;
    }
    colon = strchr(c->user, ':');
    (void)snprintf(name, sizeof(name), "%.*s", colon ? (int)(colon - c->user) : 63, c->user);
    user_one(u, "User", name, &c->user);
    if (colon)
        user_one(u, "Group", colon + 1, &c->user);
}
