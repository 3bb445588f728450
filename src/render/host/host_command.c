/* SPDX-License-Identifier: MIT */
/* host_command: the words that start a component on one machine, and its environment.
 *
 * A training component's command goes below the launcher of its framework as it stands
 * (--no-python and its like), one process a GPU; a script of Python's (train.py) and a module (-m)
 * are the launcher's to start, and a command that names a launcher itself is left alone.  An
 * interpreter that is named by its path brings its own torchrun, whatever PATH has.
 * A serving component is `stoker serve` with a spec of its own. */
#include "base/mem.h"
#include "base/str.h"
#include "render/host/host_int.h"

#include <inttypes.h>

enum { LAUNCH_WORDS_MAX = 16 };

bool host_is_server(const struct spec_component *c)
{
    return c->kind == SPEC_COMPONENT_SERVING && !c->command.count;
}

static void word_add(struct host_words *w, const char *word)
{
    w->items[w->count++] = word;
}

static void add_number(struct arena *a, struct host_words *w, const char *flag, int64_t n)
{
    word_add(w, arena_printf(a, "%s=%" PRId64, flag, n));
}

/* What starts processes of its own when a command names it. */
static const struct launcher {
    const char *program;
    const char *word;       /* that follows, of a program that does more than that; NULL: none */
    const char *modules[2]; /* `python -m` of the same */
    unsigned frameworks;    /* whose launcher it is, a bit each */
    bool alone;             /* none of ours is put in front of it */
    bool elsewhere;         /* starts no processes itself */
} LAUNCHERS[] = {
    { .program = "torchrun",
      .modules = { "torch.distributed.run", "torch.distributed.launch" },
      .frameworks = 1U << SPEC_FRAMEWORK_TORCHRUN | 1U << SPEC_FRAMEWORK_TORCHTITAN |
                    1U << SPEC_FRAMEWORK_MEGATRON,
      .alone = true },
    { .program = "deepspeed",
      .modules = { "deepspeed.launcher.runner" },
      .frameworks = 1U << SPEC_FRAMEWORK_DEEPSPEED,
      .alone = true },
    { .program = "accelerate",
      .word = "launch",
      .modules = { "accelerate.commands.launch" },
      .frameworks = 1U << SPEC_FRAMEWORK_ACCELERATE,
      .alone = true },
    { .program = "mpirun", .alone = true },
    { .program = "mpiexec" },
    { .program = "srun", .alone = true },
    { .program = "torchtitan", .alone = true, .elsewhere = true },
    { .program = "stoker", .alone = true, .elsewhere = true },
};

/* The row of the program that a command begins with; NULL: none. */
static const struct launcher *launcher_of(const struct spec_component *c)
{
    const char *program = c->command.count ? path_last_part(c->command.items[0]) : "";

    for (size_t i = 0; i < ARRAY_SIZE(LAUNCHERS); i++)
        if (str_eq(program, LAUNCHERS[i].program))
            return &LAUNCHERS[i];
    return NULL;
}

static bool wants_launcher(const struct spec_component *c)
{
    const struct launcher *l = launcher_of(c);

    return c->command.count && c->training && c->gpus && !(l && l->alone);
}

size_t host_names_launcher(const struct spec_component *c)
{
    const struct launcher *l = launcher_of(c);

    if (!c->training || c->command.count < 2 || !l ||
        !(l->frameworks & 1U << c->training->framework))
        return 0;
    if (!l->word)
        return 1;
    return str_eq(c->command.items[1], l->word) ? 2 : 0;
}

/* What of its words starts processes of its own; NULL: nothing does. */
static const char *named_launcher(const struct spec_component *c)
{
    const struct launcher *l = launcher_of(c);
    const struct spec_strs *cmd = &c->command;

    if (cmd->count < 2)
        return NULL;
    if (l && !l->elsewhere)
        return !l->word || str_eq(cmd->items[1], l->word) ? l->program : NULL;
    for (size_t at = 0; at + 1 < cmd->count; at++)
        for (size_t i = 0; str_eq(cmd->items[at], "-m") && i < ARRAY_SIZE(LAUNCHERS); i++)
            for (size_t m = 0; m < ARRAY_SIZE(LAUNCHERS[i].modules); m++)
                if (str_eq(cmd->items[at + 1], LAUNCHERS[i].modules[m]))
                    return LAUNCHERS[i].modules[m];
    return NULL;
}

void host_warn_launcher(struct render *r, const struct spec_component *c, const char *ours)
{
    const char *named = named_launcher(c);

    if (!c->training || !c->gpus || !ours || !named || str_eq(named, ours))
        return;
    render_warn(r, &c->command,
                "Leave the launcher out of the command, or write 'framework: other' to start the "
                "command as it stands.",
                "'%s' is started by %s in each process, where '%s' starts a run of its own: they "
                "train apart",
                c->name, ours, named);
}

bool host_brings_torch(const struct spec_component *c)
{
    const char *program = c->command.count ? c->command.items[0] : "";
    const char *name = path_last_part(program);

    return program[0] == '/' &&
           (str_eq(name, "python") || str_eq(name, "python3") || str_starts(name, "python3."));
}

bool host_is_script(const struct spec_component *c)
{
    return c->command.count && str_ends(c->command.items[0], ".py");
}

bool host_is_module(const struct spec_component *c)
{
    return c->command.count > 1 && str_eq(c->command.items[0], "-m");
}

/* The launcher and what it is told in front of the command, of whose words it stands for the first
 * so many. */
static size_t launcher_words(struct arena *a, struct host_words *w, const struct spec_component *c)
{
    bool module = host_is_module(c);
    const char *option = NULL, *of_module = "-m";

    switch (c->training->framework) {
    case SPEC_FRAMEWORK_TORCHRUN:
    case SPEC_FRAMEWORK_TORCHTITAN:
    case SPEC_FRAMEWORK_MEGATRON:
        if (host_brings_torch(c)) {
            word_add(w, c->command.items[0]);
            word_add(w, "-m");
        }
        word_add(w, host_brings_torch(c) ? "torch.distributed.run" : "torchrun");
        word_add(w, "--standalone");
        add_number(a, w, "--nproc-per-node", c->gpus);
        add_number(a, w, "--max-restarts", c->training->rendezvous.max_restarts);
        option = "--no-python";
        break;
    case SPEC_FRAMEWORK_DEEPSPEED:
        word_add(w, "deepspeed");
        add_number(a, w, "--num_gpus", c->gpus);
        add_number(a, w, "--master_port", c->training->rendezvous.port);
        option = "--no_python";
        of_module = "--module";
        break;
    case SPEC_FRAMEWORK_ACCELERATE:
        word_add(w, "accelerate");
        word_add(w, "launch");
        add_number(a, w, "--num_processes", c->gpus);
        add_number(a, w, "--main_process_port", c->training->rendezvous.port);
        option = "--no_python";
        break;
    case SPEC_FRAMEWORK_OTHER:
        return 0;
    }
    if (module)
        word_add(w, of_module);
    else if (!host_is_script(c))
        word_add(w, option);
    return module;
}

static void server_words(struct arena *a, struct host_words *w, const struct spec_component *c,
                         const struct host_serve *s)
{
    static const char *const flags[] = { "--port", "--rerank-port" };

    word_add(w, "stoker");
    word_add(w, "serve");
    word_add(w, "--quiet");
    word_add(w, "-f");
    word_add(w, s->spec);
    if (s->listen) {
        word_add(w, "--listen");
        word_add(w, s->listen);
    }
    for (size_t i = 0; i < c->port_count && i < ARRAY_SIZE(flags); i++)
        add_number(a, w, flags[i], c->ports[i].port);
    if (s->token_file) {
        word_add(w, "--token-file");
        word_add(w, s->token_file);
    }
    if (s->insecure)
        word_add(w, "--insecure");
}

struct host_words host_command(struct arena *a, const struct host_run *run,
                               const struct host_serve *serve)
{
    const struct spec_component *c = run->c;
    struct host_words w = {
        .items = arena_array(a, const char *, c->command.count + c->args.count + LAUNCH_WORDS_MAX)
    };
    size_t skip = 0;

    if (host_is_server(c))
        server_words(a, &w, c, serve);
    else if (wants_launcher(c))
        skip = launcher_words(a, &w, c);
    for (size_t i = skip; i < c->command.count; i++)
        word_add(&w, c->command.items[i]);
    for (size_t i = 0; i < c->args.count; i++)
        word_add(&w, c->args.items[i]);
    return w;
}

/* ---- environment ---- */

void host_env_set(struct arena *a, struct host_envs *e, struct host_env v)
{
    for (size_t i = 0; i < e->count; i++)
        if (str_eq(e->items[i].key, v.key)) {
            e->items[i] = v;
            return;
        }
    if (e->count == e->cap) {
        size_t cap = e->cap ? 2 * e->cap : 16;
        struct host_env *more = arena_array(a, struct host_env, cap);

        for (size_t i = 0; i < e->count; i++)
            more[i] = e->items[i];
        e->items = more;
        e->cap = cap;
    }
    e->items[e->count++] = v;
}

static void pairs_add(struct arena *a, struct host_envs *out, const struct spec_pairs *p)
{
    for (size_t i = 0; i < p->count; i++)
        host_env_set(a, out,
                     (struct host_env){ .key = p->items[i].key,
                                        .value = p->items[i].value,
                                        .member = &p->items[i] });
}

void host_env_make(struct arena *a, const struct render *r, const struct host_run *run,
                   struct host_envs *out)
{
    const struct spec_training *t = run->c->training;

    if (run->gpus)
        pairs_add(a, out, &r->spec->nccl.env);
    if (t && t->allocator)
        host_env_set(a, out,
                     (struct host_env){ .key = "PYTORCH_CUDA_ALLOC_CONF",
                                        .value = t->allocator,
                                        .member = &t->allocator });
    pairs_add(a, out, &run->c->env);
}
