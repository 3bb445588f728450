/* SPDX-License-Identifier: MIT */
/* slurm_sbatch: a batch script for each training and batch component that runs on Slurm.
 *
 *   sbatch NAME.sbatch          one job: batch shell on the first machine, srun starts node() on
 *                               every machine, node() becomes the launcher (torchrun, …)
 *   ./NAME.submit.sh TASKS      a sweep: one array task a line of the file TASKS
 *
 * Ranks follow SLURM_PROCID: with one task a machine it is the rank of the machine, with one task
 * a GPU the rank of the process.  Before the time limit, and when the job is pushed aside, the
 * batch shell gets USR1 and passes it on.  node() ignores USR1 first of all, so that launchers
 * and loader processes, which know nothing of it, live on; it then tells every process below it,
 * and a trainer that sets a handler saves its state. */
#include "base/str.h"
#include "render/host/host_int.h"
#include "render/slurm/slurm_int.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    SHORT_S = 600, /* jobs that are shorter get no notice */
    EARLY_S = 60   /* Slurm may signal so much before the time that was asked for */
};

struct sbatch_job {
    const struct spec_component *k;
    const struct spec_node *n;
    const struct spec_partition *p; /* NULL: SLURM_MAIN */
    const struct spec_training *t;  /* NULL: not training */
    bool whole;                     /* the machine is not shared */
    bool per_gpu;                   /* a task a GPU instead of a task a machine */
    bool beside_gpus;               /* a group of it has GPUs */
    int64_t cpus;                   /* hardware threads a machine */
    int64_t mib;
    int64_t notice_s; /* from the group's notice, at most a quarter of the limit */
};

bool slurm_is_job(const struct spec_component *k)
{
    return k->target == SPEC_TARGET_SLURM &&
           (k->kind == SPEC_COMPONENT_TRAINING || k->kind == SPEC_COMPONENT_BATCH);
}

/* Replicas of a training component train together; those of a batch component are the tasks of
 * an array. */
int64_t slurm_job_nodes(const struct spec_component *k)
{
    bool together = k->kind == SPEC_COMPONENT_TRAINING && k->replicas > 1;

    return k->nodes_per_replica * (together ? k->replicas : 1);
}

/* What goes with its GPUs, or with its part of one. */
static int64_t share_of(const struct slurm *c, int64_t all, const struct spec_component *k,
                        const struct spec_node *n)
{
    int64_t gpus = slurm_gpu_count(n); /* or MIG instances, which k->gpus counts then */

    if (gpus && slurm_job_shares(k) && slurm_sharing_of(c, n) != SLURM_SHARING_NONE)
        return all * slurm_job_parts(c, k, n) / (gpus * slurm_gpu_parts(c, n));
    if (!gpus || k->gpus >= gpus)
        return all;
    return all * (k->gpus ? k->gpus : 1) / gpus;
}

static bool job_takes_gpus(const struct spec_component *k)
{
    return k->gpus || slurm_job_shares(k);
}

/* MiB.  A job without GPUs has only its cores to go by.  Never 0: to Slurm that is all there is. */
static int64_t memory_of(const struct slurm *c, int64_t cores, const struct spec_component *k,
                         const struct spec_node *n)
{
    int64_t all = slurm_memory_mib(n), mib = all;

    if (k->memory_bytes.known)
        mib = k->memory_bytes.v >> 20;
    else if (job_takes_gpus(k))
        mib = share_of(c, all, k, n);
    else if (cores < n->cpu_cores.v)
        mib = all * cores / n->cpu_cores.v;
    return mib > 0 ? mib : 1;
}

static int64_t lesser_time(int64_t a, int64_t b) /* 0: there is none yet */
{
    return !a || b < a ? b : a;
}

/* Of machines of several groups a job gets what the smallest of them has. */
static void job_size(const struct slurm *c, struct sbatch_job *j)
{
    const struct spec_component *k = j->k;
    const struct spec_node *n;

    j->whole = !k->cpus.known && !k->memory_bytes.known;
    for (size_t i = 0; (n = spec_component_group(c->r->spec, k, i)); i++) {
        int64_t cores = k->cpus.known ? k->cpus.v : share_of(c, n->cpu_cores.v, k, n);

        cores = cores < 1 ? 1 : cores;
        j->beside_gpus = j->beside_gpus || n->gpus_per_node;
        j->whole = j->whole && n->gpus_per_node && k->gpus == slurm_gpu_count(n);
        j->cpus = lesser_time(j->cpus, cores * n->threads_per_core);
        j->mib = lesser_time(j->mib, memory_of(c, cores, k, n));
        j->notice_s = lesser_time(j->notice_s, slurm_seconds(n->notice_ms));
    }
}

static struct sbatch_job job_of(const struct slurm *c, const struct spec_component *k)
{
    struct sbatch_job j = { .k = k, .n = spec_node_of(c->r->spec, k->nodes), .t = k->training };

    j.p = slurm_job_partition(c, k);
    job_size(c, &j);
    j.per_gpu = j.t && j.t->framework == SPEC_FRAMEWORK_OTHER && k->gpus > 1;
    if (k->time_limit_ms.known && j.notice_s > slurm_seconds(k->time_limit_ms.v) / 4)
        j.notice_s = slurm_seconds(k->time_limit_ms.v) / 4;
    if (j.notice_s < SLURM_NOTICE_S_MIN)
        j.notice_s = SLURM_NOTICE_S_MIN;
    return j;
}

/* --- #SBATCH --- */

static void put_option(struct slurm *c, struct buf *out, const void *member, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

static void put_option(struct slurm *c, struct buf *out, const void *member, const char *fmt, ...)
{
    va_list ap;
    struct buf b = { 0 };

    va_start(ap, fmt);
    buf_vaddf(&b, fmt, ap);
    va_end(ap);
    slurm_line(c, out, member, "#SBATCH --%s", buf_str(&b));
    buf_release(&b);
}

/* "gpu:h100", or "gpu" where the groups of the component have several types. */
static const char *gpu_gres(const struct slurm *c, const struct sbatch_job *j,
                            char out[SLURM_TYPE_MAX])
{
    char first[SLURM_TYPE_MAX], other[SLURM_TYPE_MAX];
    const struct spec_node *n;
    bool same = true;

    (void)slurm_gpu_type(j->n, first);
    for (size_t i = 1; (n = spec_component_group(c->r->spec, j->k, i)); i++)
        same = same && n->gpu && str_eq(slurm_gpu_type(n, other), first);
    (void)snprintf(out, SLURM_TYPE_MAX, same ? "gpu:%.58s" : "gpu%.0s", first);
    return out;
}

/* A component without a limit runs as long as it may: the partition's default is for jobs that
 * people start in passing. */
static void ask_longest(struct slurm *c, struct buf *out, const struct sbatch_job *j)
{
    struct slurm_terms t = slurm_terms_of(c, j->k, j->p);
    bool by_qos = t.q && c->s->accounting.enabled && t.q->max_time_ms.known &&
                  t.q->max_time_ms.v == t.most_ms.v;
    char time[SLURM_TIME_MAX];

    if (t.most_ms.known)
        put_option(c, out,
                   by_qos ? (const void *)&t.q->max_time_ms : (const void *)&t.p->time_limit_ms,
                   "time=%s", slurm_time(t.most_ms.v, time));
    else
        slurm_fixed(out, "neither it nor its partition has a limit", "#SBATCH --time=UNLIMITED");
}

static void ask_queue(struct slurm *c, struct buf *out, const struct sbatch_job *j)
{
    const struct spec_component *k = j->k;
    const struct spec_qos *q = slurm_job_qos(c, k, j->p);
    char time[SLURM_TIME_MAX];
    const struct spec_node *n;
    struct buf any = { 0 };
    size_t count;

    put_option(c, out, &k->name, "job-name=%s", k->name);
    put_option(c, out,
               k->partition || slurm_is_implied(j->p) ? (const void *)&k->partition
                                                      : (const void *)&j->p->name,
               "partition=%s", j->p ? j->p->name : SLURM_MAIN);
    /* The groups of the component as features, where its partition has others beside them. */
    free(slurm_partition_groups(c, j->p, &count));
    for (size_t i = 0; (n = spec_component_group(c->r->spec, j->k, i)); i++)
        buf_addf(&any, "%s%s", i ? "|" : "", n->name);
    if (count > spec_component_group_count(c->r->spec, j->k))
        put_option(c, out, &j->k->nodes,
                   strchr(buf_str(&any), '|') ? "constraint='%s'" : "constraint=%s", buf_str(&any));
    buf_release(&any);
    if (q && c->s->accounting.enabled)
        put_option(c, out, k->qos ? (const void *)&k->qos : (const void *)&j->p->qos, "qos=%s",
                   q->name);
    if (k->account && c->s->accounting.enabled)
        put_option(c, out, &k->account, "account=%s", k->account);
    if (k->time_limit_ms.known)
        put_option(c, out, &k->time_limit_ms, "time=%s", slurm_time(k->time_limit_ms.v, time));
    else
        ask_longest(c, out, j);
}

/* Where the cores of a job come from, and its memory. */
static void ask_share(struct slurm *c, struct buf *out, const struct sbatch_job *j, int64_t tasks,
                      bool part)
{
    const struct spec_component *k = j->k;
    bool gpus = job_takes_gpus(k);

    slurm_fixed(out,
                k->cpus.known    ? render_from(c->r, &k->cpus)
                : part           ? "in proportion to its part of a GPU"
                : gpus           ? "in proportion to the GPUs"
                : j->beside_gpus ? "neither 'gpus' nor 'cpus' is set: what goes with one GPU"
                                 : "neither 'gpus' nor 'cpus' is set: all of the machine",
                "#SBATCH --cpus-per-task=%" PRId64, j->cpus / tasks ? j->cpus / tasks : 1);
    slurm_fixed(out,
                k->memory_bytes.known ? render_from(c->r, &k->memory_bytes)
                : part                ? "MiB a machine, in proportion to its part of a GPU"
                : gpus                ? "MiB a machine, in proportion to the GPUs"
                                      : "MiB a machine, in proportion to the cores",
                "#SBATCH --mem=%" PRId64, j->mib);
}

static void ask_machines(struct slurm *c, struct buf *out, const struct sbatch_job *j)
{
    const struct spec_component *k = j->k;
    int64_t tasks = j->per_gpu ? k->gpus : 1;
    bool part = slurm_job_shares(k) && slurm_sharing_of(c, j->n) != SLURM_SHARING_NONE;
    char type[SLURM_TYPE_MAX];

    put_option(c, out, &k->nodes_per_replica, "nodes=%" PRId64, slurm_job_nodes(k));
    if (slurm_segment(c, k))
        put_option(c, out, &j->n->nvlink_domain, "segment=%" PRId64, slurm_segment(c, k));
    slurm_fixed(out, j->per_gpu ? "a task a GPU" : "a task a machine",
                "#SBATCH --ntasks-per-node=%" PRId64, tasks);
    if (k->gpus)
        put_option(c, out, &k->gpus, "gres=%s:%" PRId64, gpu_gres(c, j, type), k->gpus);
    else if (part)
        put_option(c, out, &k->pools, "gres=%s:%" PRId64,
                   slurm_sharing_word(slurm_sharing_of(c, j->n)), slurm_job_parts(c, k, j->n));
    else if (slurm_job_shares(k) && j->n->gpus_per_node) /* a GPU or a MIG instance of its own */
        put_option(c, out, &k->pools, "gres=%s:1", gpu_gres(c, j, type));
    ask_share(c, out, j, tasks, part);
    if (j->whole)
        slurm_fixed(out, "every GPU of the machine: nobody else beside it", "#SBATCH --exclusive");
}

static void ask_rest(struct slurm *c, struct buf *out, const struct sbatch_job *j)
{
    bool batch = j->k->kind == SPEC_COMPONENT_BATCH, array = batch && j->k->replicas > 1;
    char limit[SLURM_TIME_MAX];

    put_option(c, out, &j->k->restart, "%s",
               j->k->restart == SPEC_RESTART_NEVER ? "no-requeue" : "requeue");
    slurm_fixed(out, "a requeued job goes on in the same file", "#SBATCH --open-mode=append");
    slurm_fixed(out, array ? "job, task" : "name, job", "#SBATCH --output=%s",
                array ? "%x-%A_%a.out" : "%x-%j.out");
    if (!j->k->time_limit_ms.known || slurm_seconds(j->k->time_limit_ms.v) >= SHORT_S)
        slurm_fixed(out, "to the batch shell, so many seconds before the limit",
                    "#SBATCH --signal=B:USR1@%" PRId64, j->notice_s);
    if (array)
        put_option(c, out, &j->k->replicas, "array=0-%" PRId64 "%s", j->k->replicas - 1,
                   slurm_array_limit(c, j->k, limit));
}

/* --- the launcher --- */

static bool is_python(const char *s)
{
    return str_eq(s, "python") || str_eq(s, "python3");
}

/* How a launcher is given the program: a script of Python's, a module, or anything else. */
struct launch {
    const char *option; /* before the program; NULL: none */
    size_t skip;        /* words of the command that the launcher stands for */
};

static struct launch launch_of(const struct spec_component *k, const char *module, const char *any)
{
    const struct spec_strs *cmd = &k->command;
    bool python = is_python(cmd->items[0]);
    size_t named = host_names_launcher(k);

    if (named) /* what it is told counts, behind ours */
        return (struct launch){ NULL, named };
    if (python && cmd->count > 2 && str_eq(cmd->items[1], "-m"))
        return (struct launch){ module, 2 };
    if (python && cmd->count > 1 && str_ends(cmd->items[1], ".py"))
        return (struct launch){ NULL, 1 };
    if (host_is_module(k))
        return (struct launch){ module, 1 };
    if (host_is_script(k))
        return (struct launch){ NULL, 0 };
    return (struct launch){ any, 0 };
}

static void put_words(struct buf *out, const struct spec_strs *list, size_t skip)
{
    for (size_t i = skip; i < list->count; i++) {
        buf_addc(out, ' ');
        quote_sh(out, list->items[i]);
    }
}

static void put_program(struct buf *out, const struct sbatch_job *j, struct launch l)
{
    if (l.option)
        buf_addf(out, " %s", l.option);
    put_words(out, &j->k->command, l.skip);
    put_words(out, &j->k->args, 0);
}

/* The launcher, as the command has it if it does. */
static void launch_word(struct buf *out, const struct sbatch_job *j, const char *word)
{
    buf_adds(out, "    set -- ");
    quote_sh(out, host_names_launcher(j->k) ? j->k->command.items[0] : word);
}

/* The static rendezvous keeps the order of the machines; restarts are Slurm's, see put_ending(). */
static void launch_torchrun(struct buf *out, const struct sbatch_job *j)
{
    bool own = host_brings_torch(j->k);

    launch_word(out, j, own ? j->k->command.items[0] : "torchrun");
    if (own)
        buf_adds(out, " -m torch.distributed.run");
    buf_adds(out, " --nnodes=\"$NNODES\" --nproc-per-node=\"$GPUS_PER_NODE\" \\\n"
                  "        --node-rank=\"$NODE_RANK\" --master-addr=\"$MASTER_ADDR\" "
                  "--master-port=\"$MASTER_PORT\" \\\n"
                  "        --max-restarts=0");
    buf_addf(out, " --rdzv-conf=timeout=%" PRId64, slurm_seconds(j->t->rendezvous.timeout_ms));
    put_program(out, j, launch_of(j->k, "-m", "--no-python"));
}

/* Without ssh: every machine starts its own part, and learns the others from a host file. */
static void launch_deepspeed(struct buf *out, const struct sbatch_job *j)
{
    buf_adds(out, "    hostfile=$(mktemp)\n"
                  "    trap 'rm -f \"$hostfile\"' EXIT\n"
                  "    scontrol show hostnames \"$SLURM_JOB_NODELIST\" |\n"
                  "        sed \"s/\\$/ slots=$GPUS_PER_NODE/\" >\"$hostfile\"\n");
    launch_word(out, j, "deepspeed");
    buf_adds(out, " --no_ssh --hostfile \"$hostfile\" "
                  "--node_rank \"$NODE_RANK\" \\\n"
                  "        --master_addr \"$MASTER_ADDR\" --master_port \"$MASTER_PORT\"");
    put_program(out, j, launch_of(j->k, "--module", "--no_python"));
}

static const char *mixed_precision(enum spec_precision p)
{
    return p == SPEC_PRECISION_BF16   ? "bf16"
           : p == SPEC_PRECISION_FP16 ? "fp16"
           : p == SPEC_PRECISION_FP8  ? "fp8"
                                      : "no";
}

static void launch_accelerate(struct buf *out, const struct sbatch_job *j)
{
    launch_word(out, j, "accelerate");
    buf_addf(out,
             " launch --num_machines \"$NNODES\" --num_processes "
             "\"$WORLD_SIZE\" \\\n"
             "        --machine_rank \"$NODE_RANK\" --main_process_ip \"$MASTER_ADDR\" \\\n"
             "        --main_process_port \"$MASTER_PORT\" --rdzv_backend static%s \\\n"
             "        --mixed_precision %s --dynamo_backend no",
             j->k->gpus * slurm_job_nodes(j->k) > 1 ? " --multi_gpu" : "",
             mixed_precision(j->t->precision));
    put_program(out, j, launch_of(j->k, "-m", "--no_python"));
}

static void launch_itself(struct buf *out, const struct sbatch_job *j)
{
    buf_adds(out, "    set --");
    put_program(out, j, (struct launch){ 0 });
}

/* What the job starts its command with; NULL: the command itself is started. */
static const char *framework_launcher(const struct sbatch_job *j)
{
    static const char *const programs[] = {
        [SPEC_FRAMEWORK_TORCHRUN] = "torchrun",     [SPEC_FRAMEWORK_TORCHTITAN] = "torchrun",
        [SPEC_FRAMEWORK_MEGATRON] = "torchrun",     [SPEC_FRAMEWORK_DEEPSPEED] = "deepspeed",
        [SPEC_FRAMEWORK_ACCELERATE] = "accelerate", [SPEC_FRAMEWORK_OTHER] = NULL,
    };

    return j->t && j->k->gpus ? programs[j->t->framework] : NULL;
}

static const char *launcher_program(const struct sbatch_job *j)
{
    const char *program = framework_launcher(j);

    if (!program)
        return NULL;
    if (host_names_launcher(j->k))
        return NULL; /* the command's first word, which is looked for anyway */
    if (host_brings_torch(j->k) && str_eq(program, "torchrun"))
        return NULL; /* the interpreter, which is looked for anyway */
    return program;
}

/* A launcher hides what its program ended with, so what must be there is looked for before. */
static void put_preflight(struct buf *out, const struct sbatch_job *j)
{
    const struct spec_strs *cmd = &j->k->command;
    const char *first = launcher_program(j);
    bool own = first && (host_is_script(j->k) || host_is_module(j->k)); /* the launcher starts it */
    const char *script = is_python(cmd->items[0]) && cmd->count > 1 ? cmd->items[1]
                         : own                                      ? cmd->items[0]
                                                                    : "";

    if (first)
        buf_addf(out, "    command -v %s >/dev/null || missing %s\n", first, first);
    if (!own && (!first || !is_python(cmd->items[0]))) {
        buf_adds(out, "    command -v ");
        quote_sh(out, cmd->items[0]);
        buf_adds(out, " >/dev/null || missing ");
        quote_sh(out, cmd->items[0]);
        buf_addc(out, '\n');
    }
    if (str_ends(script, ".py")) {
        buf_adds(out, "    [ -e ");
        quote_sh(out, script);
        buf_adds(out, " ] || missing ");
        quote_sh(out, script);
        buf_addc(out, '\n');
    }
}

static void put_launcher(struct slurm *c, struct buf *out, const struct sbatch_job *j)
{
    static void (*const by_framework[])(struct buf *, const struct sbatch_job *) = {
        [SPEC_FRAMEWORK_TORCHRUN] = launch_torchrun,
        [SPEC_FRAMEWORK_TORCHTITAN] = launch_torchrun,
        [SPEC_FRAMEWORK_MEGATRON] = launch_torchrun,
        [SPEC_FRAMEWORK_DEEPSPEED] = launch_deepspeed,
        [SPEC_FRAMEWORK_ACCELERATE] = launch_accelerate,
        [SPEC_FRAMEWORK_OTHER] = launch_itself,
    };

    buf_addf(out, "    # %s; the command, %s\n",
             j->t ? render_from(c->r, &j->t->framework) : "no launcher",
             render_from(c->r, &j->k->command));
    (j->t && j->k->gpus ? by_framework[j->t->framework] : launch_itself)(out, j);
    buf_addc(out, '\n');
}

/* --- node(): what srun starts on each machine --- */

/* Slurm signals what it started itself and not the processes below it, unless to kill; and a
 * launcher passes USR1 on to nobody.  So a shell stays in front that tells all of them. */
static const char RANK[] =
    "\n"
    "# tell PID: USR1 for it and all processes below it\n"
    "# shellcheck disable=SC2317 # the trap of node() calls it\n"
    "tell() {\n"
    "    local below c\n"
    "    below=$(cat /proc/\"$1\"/task/*/children 2>/dev/null)\n"
    "    for c in $below; do tell \"$c\"; done\n"
    "    kill -USR1 \"$1\" 2>/dev/null\n"
    "}\n"
    "\n"
    "# shellcheck disable=SC2317 # node() calls it\n"
    "missing() {\n"
    "    echo \"$SLURM_JOB_NAME: '$1' is not found on ${SLURMD_NODENAME:-this machine}\" >&2\n"
    "    exit 127\n"
    "}\n";

static const char RANK_END[] = "    \"$@\" <&0 &\n"
                               "    child=$!\n"
                               "    trap 'tell \"$child\"; cut=1' USR1\n"
                               "    trap 'kill -TERM \"$child\" 2>/dev/null; cut=1 ended=1' TERM\n"
                               "    cut=1 ended=0\n"
                               "    while [ \"$cut\" = 1 ]; do # a signal cuts the waiting short\n"
                               "        cut=0\n"
                               "        wait \"$child\"\n"
                               "        rc=$?\n"
                               "    done\n"
                               "    # ended for another rank: the status of that one counts\n"
                               "    [ \"$ended\" = 0 ] || [ \"$rc\" = 0 ] || rc=1\n"
                               "    exit \"$rc\"\n"
                               "}\n";

static void put_exports(struct slurm *c, struct buf *out, const struct spec_pairs *env)
{
    for (size_t i = 0; i < env->count; i++) {
        buf_addf(out, "    export %s=", env->items[i].key);
        quote_sh(out, env->items[i].value);
        buf_addf(out, " # %s\n", render_from(c->r, &env->items[i]));
    }
}

static void node_ranks(struct buf *out, const struct sbatch_job *j)
{
    if (j->per_gpu)
        buf_adds(out, "    export NODE_RANK=$SLURM_NODEID LOCAL_RANK=$SLURM_LOCALID\n"
                      "    export RANK=$SLURM_PROCID\n");
    else
        buf_adds(out, "    export NODE_RANK=$SLURM_PROCID\n");
}

/* What the fabric's RoCE wants of NCCL; nobody could find it on the machine. */
static void fabric_exports(struct slurm *c, struct buf *out, const struct spec_component *k)
{
    const struct spec_strs *names = k->fabrics.count || !spec_component_group(c->r->spec, k, 0)
                                        ? &k->fabrics
                                        : &spec_component_group(c->r->spec, k, 0)->fabrics;
    const struct spec_roce roce = spec_roce_of(c->r->spec, names);

    if (k->gpus && roce.gid_index)
        buf_addf(out, "    export NCCL_IB_GID_INDEX=%" PRId64 " # %s\n",
                 roce.gid_index->gid_index.v, render_from(c->r, &roce.gid_index->gid_index));
    if (k->gpus && roce.traffic_class)
        buf_addf(out, "    export NCCL_IB_TC=%" PRId64 " # %s\n",
                 roce.traffic_class->traffic_class.v,
                 render_from(c->r, &roce.traffic_class->traffic_class));
}

static void node_function(struct slurm *c, struct buf *out, const struct sbatch_job *j)
{
    bool batch = j->k->kind == SPEC_COMPONENT_BATCH;

    buf_adds(out, RANK);
    buf_adds(out, "\n# On every machine of the job.\n"
                  "# shellcheck disable=SC2317 # srun starts it, see below\n"
                  "node() {\n"
                  "    trap '' USR1 # launchers and loaders live on; a trainer may handle it\n");
    node_ranks(out, j);
    fabric_exports(c, out, j->k);
    put_exports(c, out, &c->r->spec->nccl.env);
    put_exports(c, out, &j->k->env);
    if (j->t && j->t->allocator) {
        buf_adds(out, "    export PYTORCH_CUDA_ALLOC_CONF=");
        quote_sh(out, j->t->allocator);
        buf_addf(out, " # %s\n", render_from(c->r, &j->t->allocator));
    }
    if (j->k->workdir) {
        buf_adds(out, "    cd ");
        quote_sh(out, j->k->workdir);
        buf_addf(out, " || exit 1 # %s\n", render_from(c->r, &j->k->workdir));
    }
    buf_adds(out, "    # what NCCL would not find itself; a variable that is set wins\n"
                  "    if command -v stoker >/dev/null; then\n"
                  "        eval \"$(stoker detect --env)\"\n"
                  "    fi\n");
    put_preflight(out, j);
    put_launcher(c, out, j);
    if (batch)
        buf_adds(out, "    # a sweep: the words of this task's line, quoted as in a shell\n"
                      "    if [ -n \"$TASK_ARGS\" ]; then\n"
                      "        eval \"set -- \\\"\\$@\\\" $TASK_ARGS\"\n"
                      "    fi\n");
    buf_adds(out, RANK_END);
}

/* --- the batch shell --- */

static void put_rendezvous(struct slurm *c, struct buf *out, const struct sbatch_job *j)
{
    buf_adds(out, "\nMASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n");
    if (j->t)
        buf_addf(out, "MASTER_PORT=%" PRId64 " # %s\n", j->t->rendezvous.port,
                 render_from(c->r, &j->t->rendezvous.port));
    else
        buf_adds(out, "MASTER_PORT=29500\n");
    buf_addf(out,
             "NNODES=$SLURM_NNODES\n"
             "GPUS_PER_NODE=%" PRId64 " # %s\n"
             "WORLD_SIZE=$((NNODES * %s))\n"
             "export MASTER_ADDR MASTER_PORT NNODES GPUS_PER_NODE WORLD_SIZE\n",
             j->k->gpus, render_from(c->r, &j->k->gpus), j->k->gpus ? "GPUS_PER_NODE" : "1");
}

static void task_line(struct buf *out, const struct sbatch_job *j)
{
    buf_addf(out,
             "\n# A task of a sweep takes its words from its line of the task file, from 0 on.\n"
             "TASK=${SLURM_ARRAY_TASK_ID:-}\n"
             "TASK_ARGS=\n"
             "tasks=${TASKS:-$SLURM_SUBMIT_DIR/%s.tasks}\n"
             "if [ -n \"$TASK\" ] && [ -e \"$tasks\" ]; then\n"
             "    TASK_ARGS=$(grep -v -e '^[[:space:]]*#' -e '^[[:space:]]*$' \"$tasks\" |\n"
             "        sed -n \"$((TASK + 1))p\")\n"
             "    if [ -z \"$TASK_ARGS\" ]; then\n"
             "        echo \"$tasks has no line for task $TASK\" >&2\n"
             "        exit 1\n"
             "    fi\n"
             "fi\n"
             "export TASK TASK_ARGS\n",
             j->k->name);
}

/* What has no checkpoint would begin again from the start, time and again.  So the notice before
 * its time limit changes nothing: it may go on until Slurm ends it with TIMEOUT.  Any other notice
 * (the job is pushed aside, the machine goes) means that it runs elsewhere. */
static const char AT_LIMIT[] =
    "\n"
    "# Is it the time limit that is near?  Without a checkpoint nothing goes on after it.\n"
    "at_limit() {\n"
    "    local said end\n"
    "    said=$(scontrol -o show job \"$SLURM_JOB_ID\")\n"
    "    case $said in\n"
    "    *' PreemptTime='[0-9]*) return 1 ;; # pushed aside\n"
    "    esac\n"
    "    end=$(sed -n 's/.* EndTime=\\([0-9][^ ]*\\).*/\\1/p' <<<\"$said\")\n"
    "    end=$(date -d \"${end:-none}\" +%s 2>/dev/null) || return 1\n"
    "    ((end - $(date +%s) <= notice_s))\n"
    "}\n";

static const char LIMIT_WAIT[] =
    "if [ $noticed = 1 ] && at_limit; then\n"
    "    echo 'the time limit is near, and there is no checkpoint to go on from'\n"
    "    noticed=0 # a second notice is another one\n"
    "    wait \"$step\"\n"
    "    rc=$?\n"
    "fi\n";

static bool goes_on(const struct sbatch_job *j)
{
    return j->t && j->t->checkpoint.path;
}

/* The step runs in the background, so that the shell can hear of the notice. */
static void put_step(struct slurm *c, struct buf *out, const struct sbatch_job *j)
{
    if (!goes_on(j)) {
        buf_adds(out, AT_LIMIT);
        buf_addf(out, "notice_s=%" PRId64 " # before the limit, and Slurm may be early\n",
                 j->notice_s + EARLY_S);
    }
    buf_adds(out, "\n"
                  "noticed=0\n"
                  "# shellcheck disable=SC2317 # the trap calls it\n"
                  "notice() {\n"
                  "    noticed=1\n"
                  "    echo \"notice: the job must end soon\"\n"
                  "    kill -USR1 \"$step\" 2>/dev/null\n"
                  "}\n"
                  "trap notice USR1\n"
                  "\n");
    buf_addf(out,
             "srun --kill-on-bad-exit=1%s \"${container[@]}\" \"${inside[@]}\" \\\n"
             "    bash -c \"$(declare -f tell missing node); node\" &\n",
             c->v->srun_cpus_forgotten ? " --cpus-per-task=\"$SLURM_CPUS_PER_TASK\"" : "");
    buf_adds(out, "step=$!\n"
                  "wait \"$step\"\n"
                  "rc=$?\n");
    if (!goes_on(j))
        buf_adds(out, LIMIT_WAIT);
    buf_addf(
        out,
        "if [ $noticed = 1 ]; then # wait was cut short: the step has the notice to save in\n"
        "    for ((i = 0; i < %" PRId64 "; i++)); do\n"
        "        kill -0 \"$step\" 2>/dev/null || break\n"
        "        [ $i != %" PRId64 " ] || kill -TERM \"$step\" 2>/dev/null\n"
        "        sleep 1\n"
        "    done\n"
        "    rc=143 # it did not end\n"
        "    if ! kill -0 \"$step\" 2>/dev/null; then\n"
        "        wait \"$step\"\n"
        "        rc=$?\n"
        "    fi\n"
        "fi\n"
        "# srun tells the signal that ended the others when a rank failed; Slurm has its status.\n"
        "for ((i = 0; i < 5 && rc > 128 && noticed == 0; i++)); do\n"
        "    worst=$(scontrol -d -o show job \"$SLURM_JOB_ID\" |\n"
        "        sed -n 's/.*DerivedExitCode=\\([0-9]*\\):.*/\\1/p')\n"
        "    if [ \"${worst:-0}\" != 0 ]; then\n"
        "        rc=$worst\n"
        "        break\n"
        "    fi\n"
        "    sleep 1\n"
        "done\n",
        j->notice_s - SLURM_STOP_S / 3, j->notice_s - SLURM_STOP_S);
}

/* A trainer that saved itself may well exit with 0, so what ended on a notice starts again; a run
 * that was just through finds that out from its checkpoint. */
static void put_ending(struct slurm *c, struct buf *out, const struct sbatch_job *j)
{
    if (j->k->restart == SPEC_RESTART_NEVER) {
        buf_addf(out, "exit \"$rc\" # never restarted: %s\n", render_from(c->r, &j->k->restart));
        return;
    }
    buf_addf(out,
             "if %s; then\n"
             "    echo 'the run goes on after a requeue'\n"
             "    scontrol requeue \"$SLURM_JOB_ID\"\n"
             "    exit \"$rc\"\n"
             "fi\n",
             j->t ? "[ $noticed = 1 ]" : "[ $noticed = 1 ] && [ \"$rc\" != 0 ]");
    if (!j->t) {
        buf_adds(out, "exit \"$rc\" # 75 asks for a requeue\n");
        return;
    }
    buf_addf(
        out,
        "case $rc in # what a second run would end with again: usage, no input, no permission,\n"
        "2 | 64 | 66 | 77 | 78 | 126 | 127) # configuration, cannot be executed, not found\n"
        "    echo \"failed with status $rc: a restart would not help\"\n"
        "    exit \"$rc\"\n"
        "    ;;\n"
        "esac\n"
        "max_restarts=%" PRId64 " # %s\n"
        "if [ \"$rc\" != 0 ] && [ \"${SLURM_RESTART_COUNT:-0}\" -lt $max_restarts ]; then\n"
        "    echo \"failed with status $rc: restart $((${SLURM_RESTART_COUNT:-0} + 1)) of "
        "$max_restarts\"\n"
        "    exit 75 # RequeueExit in slurm.conf\n"
        "fi\n"
        "[ \"$rc\" != 75 ] || rc=1 # no more restarts\n"
        "exit \"$rc\"\n",
        j->t->rendezvous.max_restarts, render_from(c->r, &j->t->rendezvous.max_restarts));
}

static void job_file(struct slurm *c, const struct spec_component *k)
{
    struct sbatch_job j = job_of(c, k);
    struct buf *out = render_script(c->r, "slurm/sbatch/%s.sbatch", k->name);
    struct buf what = { 0 };

    host_warn_launcher(c->r, k, framework_launcher(&j));
    buf_adds(out, "#!/bin/bash\n");
    ask_queue(c, out, &j);
    ask_machines(c, out, &j);
    ask_rest(c, out, &j);
    buf_addc(out, '\n');
    buf_addf(&what, "%s.sbatch: %" PRId64 " x %" PRId64 " GPUs; sbatch %s.sbatch", k->name,
             slurm_job_nodes(k), k->gpus, k->name);
    render_head(c->r, out, "#", buf_str(&what));
    buf_adds(out, "set -u\n");
    buf_release(&what);
    put_rendezvous(c, out, &j);
    if (k->kind == SPEC_COMPONENT_BATCH)
        task_line(out, &j);
    slurm_container(c, out, k);
    node_function(c, out, &j);
    put_step(c, out, &j);
    put_ending(c, out, &j);
}

void slurm_sbatch(struct slurm *c)
{
    for (size_t i = 0; i < c->r->spec->component_count; i++) {
        const struct spec_component *k = &c->r->spec->components[i];

        if (!slurm_is_job(k))
            continue;
        job_file(c, k);
        if (k->kind == SPEC_COMPONENT_BATCH)
            slurm_sweep(c, k);
    }
}
