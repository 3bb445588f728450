/* SPDX-License-Identifier: MIT */
/* k8s: names, labels and heads of Kubernetes objects. */
#include "render/k8s/k8s_int.h"

#include "base/str.h"

#include <inttypes.h>

void k8s_release(struct k8s *k)
{
    arena_release(&k->arena);
}

/* ---- names and values ---- */

static uint32_t name_digest(const char *s) /* FNV-1a: tells cut names apart, no secret */
{
    uint32_t h = 2166136261u;

    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}

const char *k8s_name(struct k8s *k, const char *name, const char *suffix)
{
    char dns[SPEC_NAME_MAX + 1];
    const char *lead;
    size_t room = K8S_NAME_CUT;

    dns_name(dns, name);
    lead = dns[0] >= '0' && dns[0] <= '9' ? "n" : "";
    if (strlen(lead) + strlen(dns) + strlen(suffix) <= room)
        return arena_printf(&k->arena, "%s%s%s", lead, dns, suffix);
    room -= strlen(lead) + strlen(suffix) + 9;
    return arena_printf(&k->arena, "%s%.*s-%08" PRIx32 "%s", lead, (int)room, dns,
                        name_digest(name), suffix);
}

/* Names that are ours beside components in their namespace or pods, on one target or both: a spec
 * should not change its names to be rendered for the other.  A Service, NetworkPolicy, Deployment
 * and container is named after its component. */
static const struct {
    const char *name;
    bool prefix; /* and all that begin with "NAME-" */
    const char *what;
} RESERVED[] = {
    { "stoker", true, "an init container, and what begins with it the agent and the model server" },
    { "fetch-models", false, "the init container that fetches models" },
    { "default-deny", false, "a network policy" },
    { "allow-dns", false, "a network policy" },
    { "allow-prometheus", false, "a network policy" },
    { "allow-router", false, "a network policy" },
    { "allow-builds", false, "a network policy" },
};

static void reserved_check(struct k8s *k, const struct spec_component *c)
{
    const char *name = k8s_name(k, c->name, "");

    for (size_t i = 0; i < ARRAY_SIZE(RESERVED); i++) {
        size_t len = strlen(RESERVED[i].name);

        if (str_eq(name, RESERVED[i].name) ||
            (RESERVED[i].prefix && str_starts(name, RESERVED[i].name) && name[len] == '-'))
            render_refuse(k->r, &c->name, "Give it another name.",
                          "component '%s' has a name of stoker's own on Kubernetes: '%s' is %s",
                          c->name, RESERVED[i].name, RESERVED[i].what);
    }
}

void k8s_names_check(struct k8s *k, const struct spec_component *const *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = k8s_name(k, all[i]->name, "");

        reserved_check(k, all[i]);
        for (size_t j = 0; j < i; j++)
            if (str_eq(k8s_name(k, all[j]->name, ""), name))
                render_refuse(k->r, &all[i]->name, "Rename one of them.",
                              "'%s' and '%s' are one name to Kubernetes: '%s'", all[j]->name,
                              all[i]->name, name);
    }
}

const char *k8s_verbatim(struct k8s *k, const char *s)
{
    return strstr(s, "$(") || strstr(s, "$$") ? quote_dollars(&k->arena, s) : s;
}

void k8s_quantity(char *out, size_t cap, int64_t bytes)
{
    static const struct {
        const char *suffix;
        int64_t unit;
    } units[] = {
        { "Gi", 1LL << 30 },
        { "Mi", 1LL << 20 },
        { "G", 1000000000 },
        { "M", 1000000 },
    };

    for (size_t i = 0; bytes && i < sizeof(units) / sizeof(*units); i++) {
        if (bytes % units[i].unit == 0) {
            (void)snprintf(out, cap, "%" PRId64 "%s", bytes / units[i].unit, units[i].suffix);
            return;
        }
    }
    (void)snprintf(out, cap, "%" PRId64, bytes);
}

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool label_word_ok(const char *s, size_t n)
{
    if (n > 63 || (n && (!is_alnum(s[0]) || !is_alnum(s[n - 1]))))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_alnum(s[i]) && !strchr("-_.", s[i]))
            return false;
    return true;
}

bool k8s_label_value_ok(const char *s)
{
    return label_word_ok(s, strlen(s));
}

static bool dns_domain_ok(const char *s, size_t n)
{
    if (!n || n > 253 || !is_alnum(s[0]) || !is_alnum(s[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++) {
        bool dot = s[i] == '.';

        if ((s[i] >= 'A' && s[i] <= 'Z') || (!is_alnum(s[i]) && s[i] != '-' && !dot))
            return false;
        if (dot && (!is_alnum(s[i - 1]) || !is_alnum(s[i + 1])))
            return false;
    }
    return true;
}

bool k8s_label_key_ok(const char *s)
{
    const char *slash = strchr(s, '/');
    const char *word = slash ? slash + 1 : s;

    if (slash && !dns_domain_ok(s, (size_t)(slash - s)))
        return false;
    return *word && label_word_ok(word, strlen(word));
}

bool k8s_comment_ok(const char *s)
{
    return !strchr(s, '\n') && !strchr(s, '\r') && !strstr(s, "\xc2\x85") &&
           !strstr(s, "\xe2\x80\xa8") && !strstr(s, "\xe2\x80\xa9");
}

/* ---- heads ---- */

void k8s_site_check(struct k8s *k)
{
    const struct spec_pairs *l = &k->r->spec->site.labels;

    for (size_t i = 0; i < l->count; i++) {
        const struct spec_pair *p = &l->items[i];

        if (!k8s_label_key_ok(p->key) || str_starts(p->key, "app.kubernetes.io/"))
            render_refuse(k->r, p, "A key is [prefix/]name; app.kubernetes.io is ours.",
                          "'%s' cannot be the key of a Kubernetes label", p->key);
        else if (!k8s_label_value_ok(p->value))
            render_refuse(k->r, p,
                          "At most 63 letters, digits, '-', '_' and '.', a letter or digit at both "
                          "ends.",
                          "'%s' cannot be the value of a Kubernetes label", p->value);
    }
    for (size_t i = 0; i < k->r->spec->node_count; i++)
        k8s_node_check(k, &k->r->spec->nodes[i]);
}

void k8s_match(struct k8s *k, struct yaml_out *y, const char *key, const char *component)
{
    char site[SPEC_NAME_MAX + 1];

    dns_name(site, k->r->spec->site.name);
    yaml_map(y, key);
    yaml_str(y, "app.kubernetes.io/instance", site);
    if (component)
        yaml_str(y, "app.kubernetes.io/component", component);
    yaml_end(y);
}

static void labels_open(struct k8s *k, struct yaml_out *y, const char *key, const char *component)
{
    char site[SPEC_NAME_MAX + 1];
    const struct spec_pairs *l = &k->r->spec->site.labels;

    dns_name(site, k->r->spec->site.name);
    yaml_map(y, key);
    yaml_str(y, "app.kubernetes.io/instance", site);
    if (component)
        yaml_str(y, "app.kubernetes.io/component", component);
    yaml_str(y, "app.kubernetes.io/name", component ? component : site);
    yaml_str(y, "app.kubernetes.io/part-of", site);
    yaml_str(y, "app.kubernetes.io/managed-by", "stoker");
    /* Labels of the site go on every object; those that Kubernetes cannot hold are refused once,
     * by whoever fills the struct k8s: see k8s_site_check(). */
    for (size_t i = 0; i < l->count; i++) {
        yaml_note(y, render_from(k->r, &l->items[i]));
        yaml_str(y, l->items[i].key, l->items[i].value);
    }
}

void k8s_labels(struct k8s *k, struct yaml_out *y, const char *key, const char *component)
{
    labels_open(k, y, key, component);
    yaml_end(y);
}

void k8s_head_labels(struct k8s *k, struct yaml_out *y, const char *api, const char *kind,
                     const char *namespace, const char *name, const char *component)
{
    yaml_str(y, "apiVersion", api);
    yaml_str(y, "kind", kind);
    yaml_map(y, "metadata");
    yaml_str(y, "name", name);
    if (namespace)
        yaml_str(y, "namespace", namespace);
    labels_open(k, y, "labels", component);
}

void k8s_head_open(struct k8s *k, struct yaml_out *y, const char *api, const char *kind,
                   const char *namespace, const char *name, const char *component)
{
    k8s_head_labels(k, y, api, kind, namespace, name, component);
    yaml_end(y);
}

void k8s_object_in(struct k8s *k, struct yaml_out *y, struct buf *out, const char *api,
                   const char *kind, const char *namespace, const char *name, const char *component)
{
    yaml_begin(y, out);
    k8s_head_open(k, y, api, kind, namespace, name, component);
    yaml_end(y);
}

void k8s_object(struct k8s *k, struct yaml_out *y, struct buf *out, const char *api,
                const char *kind, const char *name, const char *component)
{
    k8s_object_in(k, y, out, api, kind, k->namespace, name, component);
}
