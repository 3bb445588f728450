/* SPDX-License-Identifier: MIT */
/* topo_xml: reads NCCL's topology files.  One pass over the text with a stack of open
 * elements; a fault ends it with its line and column. */
#include "hw/topo_xml.h"

#include "base/mem.h"
#include "base/str.h"
#include "hw/hw_int.h"

#include <string.h>

struct xml_reader {
    struct arena *a;
    const char *text, *p, *end;
    struct topo_xml_node *nodes; /* heap, growing */
    size_t count, cap;
    int open[TOPO_XML_DEPTH_MAX];
    size_t depth;
    struct err *err;
};

static enum rc xml_fault(struct xml_reader *r, const char *what)
{
    size_t line = 1, column = 1;

    for (const char *q = r->text; q < r->p && q < r->end; q++) {
        column = *q == '\n' ? 1 : column + 1;
        line += *q == '\n';
    }
    return err_set(r->err, RC_PARSE, "line %zu, column %zu: %s", line, column, what);
}

static void skip_blanks(struct xml_reader *r)
{
    while (r->p < r->end && strchr(" \t\r\n", *r->p) && *r->p)
        r->p++;
}

static bool at_text(const struct xml_reader *r, const char *what)
{
    size_t len = strlen(what);

    return (size_t)(r->end - r->p) >= len && !memcmp(r->p, what, len);
}

/* Past `what`, wherever it stands; false when the text ends before. */
static bool skip_past(struct xml_reader *r, const char *what)
{
    const char *hit = memmem(r->p, (size_t)(r->end - r->p), what, strlen(what));

    r->p = hit ? hit + strlen(what) : r->end;
    return hit != NULL;
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == ':';
}

static enum rc read_name(struct xml_reader *r, const char **out)
{
    const char *start = r->p;

    while (r->p < r->end && is_name_byte(*r->p))
        r->p++;
    if (r->p == start)
        return xml_fault(r, "expected a name");
    if (r->p - start >= TOPO_XML_WORD_MAX)
        return xml_fault(r, "the name is too long");
    *out = arena_strndup(r->a, start, (size_t)(r->p - start));
    return RC_OK;
}

static enum rc read_value(struct xml_reader *r, const char **out)
{
    const char *start, *stop;
    char quote, *value;

    skip_blanks(r);
    if (r->p == r->end || (*r->p != '"' && *r->p != '\''))
        return xml_fault(r, "expected a value in quotes");
    quote = *r->p++;
    start = r->p;
    stop = memchr(start, quote, (size_t)(r->end - start));
    if (!stop)
        return xml_fault(r, "the value has no end");
    if (stop - start >= TOPO_XML_WORD_MAX)
        return xml_fault(r, "the value is too long");
    r->p = stop + 1;
    value = arena_strndup(r->a, start, (size_t)(stop - start));
    str_make_text(value);
    *out = value;
    return RC_OK;
}

/* name="value" …, up to the end of the tag. */
static enum rc read_attrs(struct xml_reader *r, struct topo_xml_node *n)
{
    struct topo_xml_attr list[TOPO_XML_ATTRS_MAX];
    enum rc rc = RC_OK;

    for (;;) {
        struct topo_xml_attr at = { 0 };

        skip_blanks(r);
        if (r->p == r->end)
            return xml_fault(r, "the tag has no end");
        if (*r->p == '>' || *r->p == '/')
            break;
        rc = read_name(r, &at.key);
        if (rc)
            return rc;
        skip_blanks(r);
        if (r->p == r->end || *r->p != '=')
            return xml_fault(r, "expected '='");
        r->p++;
        rc = read_value(r, &at.value);
        if (rc)
            return rc;
        if (n->attrs_count < TOPO_XML_ATTRS_MAX)
            list[n->attrs_count++] = at;
    }
    if (n->attrs_count)
        n->attrs = arena_memdup(r->a, list, n->attrs_count * sizeof(*list));
    return rc;
}

static enum rc read_open(struct xml_reader *r)
{
    struct topo_xml_node n = { .parent = r->depth ? r->open[r->depth - 1] : -1 };
    enum rc rc;

    if (r->count == TOPO_XML_NODES_MAX)
        return err_set(r->err, RC_LIMIT, "more than %d elements", TOPO_XML_NODES_MAX);
    if (r->count && r->depth == 0)
        return xml_fault(r, "a second element at the top");
    rc = read_name(r, &n.name);
    if (!rc)
        rc = read_attrs(r, &n);
    if (rc)
        return rc;
    VEC_GROW(r->nodes, r->count, r->cap);
    r->nodes[r->count++] = n;
    if (*r->p == '/') {
        r->p++;
        if (r->p == r->end || *r->p != '>')
            return xml_fault(r, "expected '>'");
        r->p++;
        return RC_OK;
    }
    r->p++;
    if (r->depth == TOPO_XML_DEPTH_MAX)
        return err_set(r->err, RC_LIMIT, "elements more than %d deep", TOPO_XML_DEPTH_MAX);
    r->open[r->depth++] = (int)r->count - 1;
    return RC_OK;
}

static enum rc read_close(struct xml_reader *r)
{
    const char *name = NULL;
    enum rc rc = read_name(r, &name);

    if (rc)
        return rc;
    skip_blanks(r);
    if (r->p == r->end || *r->p != '>')
        return xml_fault(r, "expected '>'");
    if (!r->depth || !str_eq(r->nodes[r->open[r->depth - 1]].name, name))
        return xml_fault(r, "a closing tag that nothing opened");
    r->p++;
    r->depth--;
    return RC_OK;
}

static enum rc read_all(struct xml_reader *r)
{
    enum rc rc = RC_OK;

    for (skip_blanks(r); !rc && r->p < r->end; skip_blanks(r)) {
        if (*r->p != '<')
            return xml_fault(r, "expected '<'");
        if (at_text(r, "<!--") || at_text(r, "<?")) {
            if (!skip_past(r, at_text(r, "<?") ? "?>" : "-->"))
                return xml_fault(r, "a comment without an end");
            continue;
        }
        r->p++;
        if (r->p < r->end && *r->p == '/') {
            r->p++;
            rc = read_close(r);
        } else {
            rc = read_open(r);
        }
    }
    if (!rc && r->depth)
        return xml_fault(r, "the text ends inside an element");
    if (!rc && !r->count)
        return xml_fault(r, "no element");
    return rc;
}

enum rc topo_xml_parse(struct arena *a, const char *text, size_t len, struct topo_xml *out,
                       struct err *err)
{
    struct xml_reader r = { .a = a, .text = text, .p = text, .end = text + len, .err = err };
    enum rc rc;

    if (len > TOPO_XML_BYTES_MAX)
        return err_set(err, RC_LIMIT, "more than %d bytes", TOPO_XML_BYTES_MAX);
    rc = read_all(&r);
    if (!rc)
        *out = (struct topo_xml){
            .nodes = arena_memdup(a, r.nodes, r.count * sizeof(*r.nodes)),
            .count = r.count,
        };
    free(r.nodes);
    return rc;
}

/* ---- as NCCL reads it ---- */

struct plain_reader {
    const char *p, *end;
    size_t depth;
};

/* A word up to a blank, the end of the tag or '='; the byte that ended it, 0 at the end. */
static char plain_word(struct plain_reader *r)
{
    while (r->p < r->end) {
        char c = *r->p++;

        if (strchr(" >/\n\r=", c) && c)
            return c;
    }
    return 0;
}

/* From behind '<' to behind '>'. */
static const char *plain_tag(struct plain_reader *r)
{
    bool close = r->p < r->end && *r->p == '/', single = false;
    char c;

    r->p += close;
    c = plain_word(r);
    while (c == ' ' && !close) {
        c = plain_word(r);
        if (c != '=')
            continue;
        char quote = r->p < r->end ? *r->p++ : 0;
        const char *stop =
            quote == '"' || quote == '\'' ? memchr(r->p, quote, (size_t)(r->end - r->p)) : NULL;

        if (!stop)
            return "a value without quotes or without an end";
        r->p = stop + 1;
        c = r->p < r->end ? *r->p++ : 0;
    }
    if (c == '/' && !close) {
        c = plain_word(r);
        single = true;
    }
    if (c != '>')
        return c ? "a tag that does not end with '>' (attributes are set apart by single blanks, "
                   "and a line <?xml ?> is not read)"
                 : "the end of the file inside a tag";
    if (close && !r->depth)
        return "a closing tag too many";
    if (!single)
        r->depth = close ? r->depth - 1 : r->depth + 1;
    return NULL;
}

const char *topo_xml_refused(struct arena *a, const char *text, size_t len)
{
    struct plain_reader r = { .p = text, .end = text + len };
    const char *fault = NULL;
    size_t line = 1;

    while (!fault) {
        while (r.p < r.end && (*r.p == ' ' || *r.p == '\n' || *r.p == '\r'))
            r.p++;
        if (r.p == r.end && !r.depth)
            return NULL;
        if (r.p == r.end)
            fault = "the end of the file inside an element";
        else if (*r.p != '<')
            fault = *r.p == '\t' ? "a tab between elements" : "text between elements";
        else if (r.end - r.p >= 4 && !memcmp(r.p, "<!--", 4)) {
            const char *stop = memmem(r.p, (size_t)(r.end - r.p), "-->", 3);

            fault = stop ? NULL : "a comment without an end";
            r.p = stop ? stop + 3 : r.end;
        } else {
            r.p++;
            fault = plain_tag(&r);
        }
    }
    for (const char *q = text; q < r.p && q < r.end; q++)
        line += *q == '\n';
    return arena_printf(a,
                        "line %zu has %s, which NCCL's reader does not take: every job stops "
                        "with an error",
                        line, fault);
}

const char *topo_xml_get(const struct topo_xml_node *n, const char *key)
{
    for (size_t i = 0; i < n->attrs_count; i++)
        if (str_eq(n->attrs[i].key, key))
            return n->attrs[i].value;
    return NULL;
}

struct maybe topo_xml_int(const struct topo_xml_node *n, const char *key)
{
    int64_t v;

    return str_to_i64(topo_xml_get(n, key) ? topo_xml_get(n, key) : "", 10, &v) ? maybe_of(v)
                                                                                : maybe_none();
}

int topo_xml_above(const struct topo_xml *t, int node, const char *name)
{
    while (node >= 0 && !str_eq(t->nodes[node].name, name))
        node = t->nodes[node].parent;
    return node;
}

static bool is_above(const struct topo_xml *t, int high, int low)
{
    while (low >= 0 && low != high)
        low = t->nodes[low].parent;
    return low >= 0;
}

/* The element that the first bridge or the cpu above a leaf's own function is; -1: none. */
static int first_hop(const struct topo_xml *t, int leaf)
{
    int n = t->nodes[leaf].parent;

    if (str_eq(t->nodes[leaf].name, "pci"))
        return n;
    while (n >= 0 && !str_eq(t->nodes[n].name, "pci") && !str_eq(t->nodes[n].name, "cpu"))
        n = t->nodes[n].parent;
    if (n >= 0 && str_eq(t->nodes[n].name, "pci"))
        n = t->nodes[n].parent; /* the function itself is no bridge */
    return n;
}

static const char *hops_path(const struct topo_xml *t, int ha, int hb)
{
    int n = ha;

    if (ha < 0 || hb < 0)
        return NULL;
    while (n >= 0 && !is_above(t, n, hb))
        n = t->nodes[n].parent;
    if (n < 0)
        return NULL;
    if (str_eq(t->nodes[n].name, "pci"))
        return n == ha && n == hb ? "PIX" : "PXB";
    return str_eq(t->nodes[n].name, "cpu") ? "PHB" : "SYS";
}

const char *topo_xml_path(const struct topo_xml *t, int a, int b)
{
    return hops_path(t, first_hop(t, a), first_hop(t, b));
}

const char *topo_xml_path_below(const struct topo_xml *t, int a, int bridge)
{
    return hops_path(t, first_hop(t, a), bridge);
}
