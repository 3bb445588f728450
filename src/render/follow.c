/* SPDX-License-Identifier: MIT */
/* follow: wishes of a component that its target has no means for.
 *
 * A target is one way to run things, and some keys of a component mean nothing there: a container
 * of compose has no priority, a unit of systemd no /dev/shm of its own.  What the file sets and the
 * target does not follow is a warning at its line, so that nobody believes a limit that is not
 * kept; a comment in some file would not be read.  wishes[] has what is warned about, quiet[] what
 * needs no word and why.  tests/unit/test_render_follow.c changes every key of a component and
 * fails when neither the files nor a warning nor quiet[] have to do with it: a new key has to be
 * thought of here. */
#include "render/follow.h"
#include "base/str.h"

#include <stddef.h>

enum { ON_COMPOSE = 1, ON_SYSTEMD = 2, ON_BOTH = 3 };

#define MEMBER(m) offsetof(struct spec_component, m), SIZE_MAX
/* A section is at the first of its own members that the file sets. */
#define SECTION(m, table, first) offsetof(struct spec_component, m), offsetof(struct table, first)

static const struct {
    unsigned on;
    const char *key;
    size_t off, sub; /* of the member; within the section it points at, SIZE_MAX: none */
    bool serves;     /* `stoker serve` follows it itself */
    const char *hint;
} wishes[] = {
    { ON_SYSTEMD, "shm", MEMBER(shm_bytes), false, "A unit has the machine's own /dev/shm." },
    { ON_SYSTEMD, "pools", MEMBER(pools), true,
      "Nothing holds a unit to its share of a GPU's memory; target compose has MPS for it." },
    { ON_SYSTEMD, "health", SECTION(health, spec_health, path), true,
      "systemd starts again what ends; whether it works nobody asks." },
    { ON_SYSTEMD, "health", SECTION(health, spec_health, command), true,
      "systemd starts again what ends; whether it works nobody asks." },
    { ON_BOTH, "priority", MEMBER(priority), false,
      "Whoever is started first has the GPUs; target slurm or kubernetes has an order." },
    { ON_COMPOSE, "time_limit", MEMBER(time_limit_ms), false,
      "A container runs until it ends; target systemd, slurm or kubernetes has a limit." },
    { ON_BOTH, "scale", SECTION(scale, spec_scale, max), false,
      "As many replicas run as 'replicas' says; target kubernetes or openshift changes them." },
};

static const struct {
    unsigned on;
    const char *key; /* a key, or a section with all that is in it */
    const char *why;
} quiet[] = {
    { ON_BOTH, "description", "words for people" },
    { ON_BOTH, "kind", "with a command, that is what runs" },
    { ON_BOTH, "queued", "true is refused: there is no queue" },
    { ON_BOTH, "partition", "refused: Slurm's" },
    { ON_BOTH, "qos", "refused: Slurm's" },
    { ON_BOTH, "account", "refused: Slurm's" },
    { ON_BOTH, "ports.name", "a name for other targets" },
    { ON_SYSTEMD, "image", "refused beside a command; a model server is the machine's own stoker" },
    { ON_SYSTEMD, "ports", "a unit listens by itself, on the machine's own addresses" },
    { ON_BOTH, "training", "what the planner reads; the program has it from its command" },
};

static unsigned target_bit(const char *target)
{
    return str_eq(target, "compose") ? ON_COMPOSE : str_eq(target, "systemd") ? ON_SYSTEMD : 0;
}

/* Is it the key, or in the section of that name? */
static bool key_in(const char *key, const char *section)
{
    size_t n = strlen(section);

    return !strncmp(key, section, n) && (!key[n] || key[n] == '.');
}

const char *render_follow_reason(const char *target, const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(quiet); i++)
        if (quiet[i].on & target_bit(target) && key_in(key, quiet[i].key))
            return quiet[i].why;
    return NULL;
}

const char *render_follow_wish(const char *target, const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(wishes); i++)
        if (wishes[i].on & target_bit(target) && key_in(key, wishes[i].key))
            return wishes[i].key;
    return NULL;
}

static bool runs_it(const struct spec_component *c, unsigned on)
{
    return on == ON_COMPOSE ? c->target == SPEC_TARGET_COMPOSE
                            : c->target == SPEC_TARGET_SYSTEMD || c->target == SPEC_TARGET_LOCAL;
}

/* Where the file sets it; NULL: it does not. */
static const void *wish_at(const struct spec *s, const struct spec_component *c, size_t i)
{
    const char *at = (const char *)c + wishes[i].off;

    if (wishes[i].sub != SIZE_MAX)
        at = *(const char *const *)(const void *)at;
    if (at && wishes[i].sub != SIZE_MAX)
        at += wishes[i].sub;
    return at && spec_where(s, at).line ? at : NULL;
}

/* Is what the file says what happens anyway? */
static bool wish_is_moot(const struct spec_component *c, size_t i)
{
    if (str_eq(wishes[i].key, "priority"))
        return c->priority == SPEC_PRIORITY_MEDIUM;
    if (str_eq(wishes[i].key, "scale"))
        return c->scale->min == c->scale->max;
    return wishes[i].serves && c->kind == SPEC_COMPONENT_SERVING;
}

void render_follow(struct render *r, const struct render_target *t)
{
    unsigned on = target_bit(t->name);

    for (size_t i = 0; on && i < r->spec->component_count; i++) {
        const struct spec_component *c = &r->spec->components[i];

        for (size_t k = 0; runs_it(c, on) && k < ARRAY_SIZE(wishes); k++) {
            const void *at = wishes[k].on & on ? wish_at(r->spec, c, k) : NULL;

            if (at && !wish_is_moot(c, k))
                render_warn(r, at, wishes[k].hint, "%s does not follow '%s' of component '%s'",
                            t->name, wishes[k].key, c->name);
        }
    }
}
