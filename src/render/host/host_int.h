/* SPDX-License-Identifier: MIT */
/* host_int: components that run on a machine without a scheduler, for compose and systemd: which
 * GPUs each has, the command that starts it, the spec of a model server of its own. */
#ifndef RENDER_HOST_HOST_INT_H
#define RENDER_HOST_HOST_INT_H
#include "base/arena.h"
#include "render/render_int.h"

enum {
    HOST_GPUS_MAX = 16,                 /* of a machine: gpus_per_node's limit */
    HOST_NAME_MAX = SPEC_NAME_MAX + 12, /* a component's name with its replica */
    HOST_ORDER_MAX = 1024               /* components that are ordered by traffic */
};

struct host_run { /* one replica of a component */
    const struct spec_component *c;
    const struct spec_node *node; /* NULL: the spec has no group for it */
    int64_t replica;              /* from 0 */
    int64_t machine;              /* of the group, from 0 */
    uint32_t gpus;                /* a bit for each GPU it sees */
    bool shared;                  /* others have these GPUs too */
    char name[HOST_NAME_MAX];     /* "perception"; "perception-2" of several */
};
struct host_plan {
    struct arena arena;
    struct host_run *runs; /* in the order of the spec, replicas together */
    const char *models;    /* folder of fetched models; the target sets it */
    size_t count;
};

/* Gives every replica of the components that `takes` GPUs of its own, next to each other and near
 * those it talks with most.  False: something was refused. */
bool host_plan_make(struct render *r, bool (*takes)(const struct spec_component *c),
                    struct host_plan *out);
void host_plan_release(struct host_plan *p);
const struct host_run *host_run_find(const struct host_plan *p, const char *component);

int host_gpu_count(uint32_t gpus);
void host_gpu_list(struct buf *out, uint32_t gpus); /* "0,1,6" */
/* In proportion to its GPUs where the spec does not say; unknown when that cannot be told.  CPUs
 * are hardware threads: what docker's `cpus` and systemd's CPUQuota count. */
struct maybe host_cpus(const struct host_run *run);
struct maybe host_memory(const struct host_run *run);
/* Bytes of GPU memory that its pools give it on each GPU; unknown without pools. */
struct maybe host_pool_bytes(const struct spec *s, const struct spec_component *c);

/* Is its program a Python with a path of its own?  `-m torch.distributed.run` of that one is its
 * torchrun: the one of PATH may be another's, or missing. */
bool host_brings_torch(const struct spec_component *c);
/* How many words of the command name its framework's launcher (torchrun, accelerate launch): it is
 * not to start itself in each of its processes. */
size_t host_names_launcher(const struct spec_component *c);
/* Warns of a command that names another launcher than the one that the target starts it with,
 * `ours` (NULL: none): each process would begin a run of its own. */
void host_warn_launcher(struct render *r, const struct spec_component *c, const char *ours);
/* Is it a script of Python's (train.py), a module (-m)?  A launcher starts those itself. */
bool host_is_script(const struct spec_component *c);
bool host_is_module(const struct spec_component *c);

/* What starts it: its command below the launcher of its framework, or `stoker serve`.  None when
 * the component names no command. */
struct host_words {
    const char **items; /* in the arena, as are words that were made up */
    size_t count;
};
struct host_serve {     /* how a model server of its own is started */
    const char *spec;   /* path of its spec */
    const char *listen; /* NULL: as the spec says */
    const char *token_file;
    bool insecure;
};
struct host_words host_command(struct arena *a, const struct host_run *run,
                               const struct host_serve *serve);
bool host_is_server(const struct spec_component *c); /* does `stoker serve` run it? */

/* Models that the spec names after the hub, host_fetch.c: each lies in a folder of its own below
 * `models`, and a script (none when there is no such model) brings them there. */
#define HOST_MODELS_DIR "/var/lib/stoker/models" /* of containers, and of units by default */
const char *host_model_source(struct arena *a, const char *models, const struct spec_model *m);
struct host_fetch {
    const struct spec_model *model;
    const char *hosts; /* names of the machines that open it, as words of sh; NULL: every one */
};
bool host_fetch_script(struct render *r, const char *path, const char *models,
                       const struct host_fetch *of, size_t count);

/* A spec for `stoker serve`: the models of one run, whose GPUs are then all it sees, or of the
 * machine's own server (`run` NULL). */
void host_serve_spec(const struct render *r, const struct host_plan *p, const struct host_run *run,
                     struct buf *out);
/* Only the section of models, and the whole spec, with models on the GPUs of their components. */
void host_serve_models(const struct render *r, const struct host_plan *p, struct buf *out);
void host_spec_whole(const struct render *r, const struct host_plan *p, struct buf *out);
/* The folder of files and batches of a component's server, or the machine's own (`run` NULL). */
enum { HOST_BATCH_DIR_MAX = 4096 }; /* bytes of it */
void host_batch_dir(const struct spec_serve *v, const struct host_run *run, char *out, size_t cap);
bool host_model_of(const struct spec_model *m, const struct host_run *run);
/* Does the machine's own server have it?  `loose`: is there a model that names no component? */
bool host_models_own(const struct spec *s, const struct host_plan *p, const struct spec_model *m);
bool host_models_loose(const struct spec *s);

/* Environment of a run: NCCL's of the site, then its own, which wins. */
struct host_env {
    const char *key, *value;
    const void *member; /* where it stands in the spec; NULL: `why` says where it comes from */
    const char *why;
};
struct host_envs {
    struct host_env *items;
    size_t count, cap;
};
void host_env_set(struct arena *a, struct host_envs *e, struct host_env v); /* the last one wins */
void host_env_make(struct arena *a, const struct render *r, const struct host_run *run,
                   struct host_envs *out);

#endif
