/* SPDX-License-Identifier: MIT */
/* follow: wishes of a spec that a target has no means for.
 *
 * A target is one way to run things, and some keys mean nothing there: a container of compose has
 * no priority, a unit of systemd no /dev/shm of its own, a job of Slurm no user but who submits it.
 * What the file sets and the target does not follow is a warning at its line, so that nobody
 * believes a limit that is not kept; a comment in some file would not be read.
 *
 * wishes[] has what is warned about, quiet[] what needs no word and why.  What depends on more than
 * one component is told by the target that knows it (k8s_wishes.c, slurm_wishes.c).
 * tests/unit/test_follow.c changes every key, for each target and kind of component, and
 * fails when neither the files nor a warning nor quiet[] have to do with it: a new key has to be
 * thought of here. */
#include "base/str.h"
#include "render/alerts/alerts_int.h"
#include "render/follow_int.h"
#include "render/k8s/k8s_int.h"

#include <stddef.h>

enum {
    ON_COMPOSE = 1,
    ON_SYSTEMD = 2,
    ON_SLURM = 4,
    ON_KUBERNETES = 8,
    ON_OPENSHIFT = 16,
    ON_PROMETHEUS = 32,
    ON_DOC = 64,
    ON_HOST = ON_COMPOSE | ON_SYSTEMD,
    ON_PODS = ON_KUBERNETES | ON_OPENSHIFT,
    ON_ALL = 31 /* that run something */
};
enum { /* kinds of components */
       OF_SERVICE = 1 << SPEC_COMPONENT_SERVICE,
       OF_TRAINING = 1 << SPEC_COMPONENT_TRAINING,
       OF_SERVING = 1 << SPEC_COMPONENT_SERVING,
       OF_BATCH = 1 << SPEC_COMPONENT_BATCH,
       OF_ANY = 15,
       OF_KEPT = OF_SERVICE | OF_SERVING,
       OF_JOBS = OF_TRAINING | OF_BATCH
};

/* --- is what the file says what happens anyway? --- */

static bool priority_is_moot(const struct render *r, const struct spec_component *c)
{
    (void)r;
    return c->priority == SPEC_PRIORITY_MEDIUM;
}

static bool waits_for_none(const struct render *r, const struct spec_component *c)
{
    (void)r;
    return !c->depends_on.count;
}

static bool has_no_pools(const struct render *r, const struct spec_component *c)
{
    (void)r;
    return !c->pools.count;
}

/* On Slurm a QOS says it. */
static bool qos_is_named(const struct render *r, const struct spec_component *c)
{
    (void)r;
    return c->priority == SPEC_PRIORITY_MEDIUM || c->qos;
}

static bool scale_is_moot(const struct render *r, const struct spec_component *c)
{
    (void)r;
    return c->scale->min == c->scale->max;
}

/* A StatefulSet that trains is between the two, as somebody scales it. */
static bool job_scale_is_moot(const struct render *r, const struct spec_component *c)
{
    return scale_is_moot(r, c) || (c->kind == SPEC_COMPONENT_TRAINING &&
                                   r->targets->kubernetes->job == SPEC_JOB_STATEFULSET);
}

static bool rollback_is_moot(const struct render *r, const struct spec_component *c)
{
    (void)r;
    return !c->scale->rollback || !c->scale->target.known;
}

static bool predict_is_moot(const struct render *r, const struct spec_component *c)
{
    (void)r;
    return !c->scale->predict;
}

static bool has_no_gpus(const struct render *r, const struct spec_component *c)
{
    return !c->gpus || has_no_pools(r, c);
}

static bool is_root(const struct render *r, const struct spec_component *c)
{
    (void)r;
    return k8s_is_root(c);
}

static bool ends_for_good(const struct render *r, const struct spec_component *c)
{
    (void)r;
    return c->restart != SPEC_RESTART_ALWAYS;
}

/* Does it use every network that its machines are on? */
static bool uses_all_fabrics(const struct render *r, const struct spec_component *c)
{
    const struct spec_node *n;

    for (size_t g = 0; (n = spec_component_group(r->spec, c, g)); g++)
        for (size_t i = 0; i < n->fabrics.count; i++)
            if (!render_strs_has(&c->fabrics, n->fabrics.items[i]))
                return false;
    return true;
}

/* Nothing is kept from it that it could ask. */
static bool egress_is_all(const struct render *r, const struct spec_component *c)
{
    (void)r;
    for (size_t i = 0; i < c->egress.count; i++)
        if (str_eq(c->egress.items[i], "0.0.0.0/0"))
            return true;
    return false;
}

static bool kubernetes_limits_egress(const struct render *r, const struct spec_component *c)
{
    return r->targets->kubernetes->network_policy || egress_is_all(r, c);
}

static bool openshift_limits_egress(const struct render *r, const struct spec_component *c)
{
    return r->targets->openshift->network_policy || egress_is_all(r, c);
}

/* --- the tables --- */

#define BY_HAND "Scale it by hand: oc scale."

/* The first row that fits a key is the one: a section stands behind its keys. */
static const struct {
    unsigned on, of;
    const char *key; /* a key, or a section with all that is in it, told once */
    const char *hint;
    bool (*moot)(const struct render *r, const struct spec_component *c); /* NULL: never */
} wishes[] = {
    { ON_SYSTEMD, OF_ANY, "shm", "A unit has the machine's own /dev/shm.", NULL },
    { ON_SLURM, OF_ANY, "shm", "A job has the machine's own /dev/shm.", NULL },
    { ON_SYSTEMD, OF_ANY & ~OF_SERVING, "pools",
      "Nothing holds a unit to its share of a GPU's memory; target compose has MPS for it.",
      has_no_pools },
    { ON_SLURM | ON_PODS, OF_ANY & ~OF_SERVING, "pools",
      "It has whole GPUs, and nothing of its pools: leave out 'gpus', or the pools.", has_no_gpus },
    { ON_SYSTEMD, OF_ANY & ~OF_SERVING, "health",
      "systemd starts again what ends; whether it works nobody asks.", NULL },
    { ON_SLURM, OF_ANY, "health", "Slurm sees that a job ends; whether it works nobody asks.",
      NULL },
    { ON_HOST, OF_ANY, "priority",
      "Whoever is started first has the GPUs; target slurm or kubernetes has an order.",
      priority_is_moot },
    { ON_SLURM, OF_ANY, "priority", "Give it a QOS with that priority.", qos_is_named },
    { ON_COMPOSE, OF_ANY, "time_limit",
      "A container runs until it ends; target systemd, slurm or kubernetes has a limit.", NULL },
    { ON_SLURM, OF_ANY, "user", "A job runs as who submits it.", NULL },
    { ON_OPENSHIFT, OF_ANY, "user",
      "The security context constraint picks a user of the project's range.", is_root },
    { ON_SLURM, OF_ANY, "fabrics",
      "A job sees every NIC of its machines, and stoker chooses among them there; to keep to some, "
      "set NCCL_IB_HCA or NCCL_SOCKET_IFNAME in 'env'.",
      uses_all_fabrics },
    { ON_SLURM, OF_ANY, "restart",
      "A job is started again when it failed, not when it is through: set 'restart: on_failure'.",
      ends_for_good },
    { ON_SLURM, OF_ANY, "depends_on", "Submit it with 'sbatch --dependency=afterok:JOB'.",
      waits_for_none },
    { ON_PODS, OF_ANY, "depends_on",
      "Its pods start without waiting; let its program ask again until the others answer.",
      waits_for_none },
    { ON_HOST | ON_SLURM, OF_ANY, "egress",
      "It reaches whatever its machine reaches: limit it by the firewall of the machines.",
      egress_is_all },
    { ON_KUBERNETES, OF_ANY, "egress",
      "With 'network_policy: false' nothing limits it: leave that out, or write a policy.",
      kubernetes_limits_egress },
    { ON_OPENSHIFT, OF_ANY, "egress",
      "With 'network_policy: false' nothing limits it: leave that out, or write a policy.",
      openshift_limits_egress },
    { ON_HOST, OF_SERVING, "training", "`stoker serve` trains nothing.", NULL },
    { ON_PODS, OF_ANY & ~OF_TRAINING, "training", "Only kind training is launched as it says.",
      NULL },

    { ON_HOST, OF_ANY, "scale",
      "As many replicas run as 'replicas' says; target kubernetes or openshift changes them.",
      scale_is_moot },
    { ON_SLURM, OF_TRAINING, "scale", "A job keeps the machines it starts with.", scale_is_moot },
    { ON_SLURM, OF_BATCH, "scale.target", "As many tasks run at once as 'max' says.", NULL },
    { ON_SLURM, OF_BATCH, "scale.predict", "As many tasks run at once as 'max' says.",
      predict_is_moot },
    { ON_SLURM, OF_BATCH, "scale.max_cost", "As many tasks run at once as 'max' says.", NULL },
    { ON_KUBERNETES, OF_JOBS, "scale", "A Job keeps the pods it starts with.", job_scale_is_moot },
    { ON_OPENSHIFT, OF_ANY & ~OF_TRAINING, "scale", BY_HAND, scale_is_moot },
    { ON_OPENSHIFT, OF_TRAINING, "scale.target", BY_HAND, NULL },
    { ON_PODS, OF_ANY, "scale.zero_after", "Scale it to zero by hand.", NULL },
    { ON_PODS, OF_ANY, "scale.predict", "Leave it out: replicas follow the load as it comes.",
      predict_is_moot },
    { ON_OPENSHIFT, OF_ANY, "scale.max_cost", BY_HAND, NULL },
    { ON_PODS, OF_ANY, "scale.verify", "Nothing takes back a change that did not help.",
      rollback_is_moot },
    { ON_PODS, OF_ANY, "scale.rollback", "Nothing takes back a change that did not help.",
      rollback_is_moot },
};

#define PLANNED "read by `stoker plan train`; the program has it from its command"
#define PROGRAM "the program's own: it has it from its command"
#define BY_TARGET                                                                                  \
    "how 'target' is held; that is warned about, and without one replicas change by hand"

static const struct {
    unsigned on, of;
    const char *key; /* a key, or a section with all that is in it */
    const char *why;
} quiet[] = {
    { ON_ALL, OF_ANY, "description", "words for people" },
    { ON_HOST, OF_ANY, "queued", "true is refused: there is no queue" },
    { ON_SLURM, OF_ANY, "queued", "every job waits in the queue" },
    { ON_PODS, OF_JOBS, "queued",
      "a pod waits for room; several that need each other are told of" },
    { ON_ALL & ~ON_SLURM, OF_ANY, "partition", "refused: Slurm's" },
    { ON_ALL & ~ON_SLURM, OF_ANY, "qos", "refused: Slurm's" },
    { ON_ALL & ~ON_SLURM, OF_ANY, "account", "refused: Slurm's" },
    { ON_HOST, OF_ANY, "ports.name", "a name for other targets" },
    { ON_SYSTEMD, OF_ANY, "image",
      "refused beside a command; a model server is the machine's own stoker" },
    { ON_SYSTEMD, OF_ANY, "ports", "a unit listens by itself, on the machine's own addresses" },
    { ON_SLURM, OF_ANY, "ports", "a job listens by itself, on the machine's own addresses" },
    { ON_ALL, OF_SERVING, "command", "with one, that is what runs" },
    { ON_ALL, OF_SERVING, "pools", "`stoker serve` holds its models to them" },
    { ON_SYSTEMD, OF_SERVING, "health", "`stoker serve` tells systemd itself that it works" },

    { ON_SLURM, OF_BATCH, "scale.min", "tasks run as there is room" },
    { ON_SLURM, OF_BATCH, "scale.zero_after", "a job that is through holds nothing" },
    { ON_SLURM, OF_BATCH, "scale", BY_TARGET },
    { ON_OPENSHIFT, OF_TRAINING, "scale", BY_TARGET },

    { ON_ALL, OF_ANY, "training.shape", PLANNED },
    { ON_ALL, OF_ANY, "training.precision", PLANNED },
    { ON_ALL, OF_ANY, "training.global_batch", PLANNED },
    { ON_ALL, OF_ANY, "training.batch_per_gpu", PLANNED },
    { ON_ALL, OF_ANY, "training.seq_len", PLANNED },
    { ON_ALL, OF_ANY, "training.tokens", PLANNED },
    { ON_ALL, OF_ANY, "training.optimizer", PLANNED },
    { ON_ALL, OF_ANY, "training.recompute", PLANNED },
    { ON_ALL, OF_ANY, "training.parallel", PLANNED },
    { ON_ALL, OF_ANY, "training.steps", PROGRAM },
    { ON_ALL, OF_ANY, "training.epochs", PROGRAM },
    { ON_ALL, OF_ANY, "training.learning_rate", PROGRAM },
    { ON_ALL, OF_ANY, "training.sync_batch_norm", PROGRAM },
    { ON_ALL, OF_ANY, "training.loader", PROGRAM },
    { ON_ALL, OF_ANY, "training.checkpoint.path",
      "the program writes there; warned about where it is lost with the container" },
    { ON_ALL, OF_ANY, "training.checkpoint.every_steps", PROGRAM },
    { ON_ALL, OF_ANY, "training.checkpoint.every", PROGRAM },
    { ON_ALL, OF_ANY, "training.checkpoint.keep", PROGRAM },
    { ON_ALL, OF_ANY, "training.checkpoint.async", PROGRAM },
    { ON_HOST | ON_SLURM, OF_ANY, "training.checkpoint.on_notice",
      "the program is told in time, whether it saves or not" },
    { ON_HOST, OF_ANY, "training.rendezvous.port",
      "torchrun finds a free one on its machine; other launchers have it" },
    { ON_HOST, OF_ANY, "training.rendezvous.timeout", "on one machine nobody waits for others" },
};

/* --- outside components --- */

static bool runs_it(const struct render *r, const struct spec_component *c, unsigned on);

/* Has the target machines of the group? */
static bool group_is_used(const struct render *r, const struct spec_node *n, unsigned on)
{
    const struct spec_slurm *s = r->targets->slurm;

    for (size_t i = 0; i < r->spec->component_count; i++)
        if (runs_it(r, &r->spec->components[i], on) &&
            spec_component_on(r->spec, &r->spec->components[i], n))
            return true;
    for (size_t i = 0; on == ON_SLURM && i < s->partition_count; i++)
        for (size_t k = 0; k < s->partitions[i].nodes.count; k++)
            if (str_eq(s->partitions[i].nodes.items[k], n->name))
                return true;
    return on == ON_SLURM && !s->partition_count;
}

static bool persistence_is_moot(const struct render *r, const void *item, unsigned on)
{
    (void)r, (void)on;
    return ((const struct spec_node *)item)->gpu->persistence;
}

static bool ecc_is_moot(const struct render *r, const void *item, unsigned on)
{
    (void)r, (void)on;
    return ((const struct spec_node *)item)->gpu->ecc;
}

static bool mode_is_moot(const struct render *r, const void *item, unsigned on)
{
    (void)r, (void)on;
    return ((const struct spec_node *)item)->gpu->compute_mode == SPEC_COMPUTE_DEFAULT;
}

static bool sharing_is_moot(const struct render *r, const void *item, unsigned on)
{
    unsigned how = ((const struct spec_node *)item)->gpu->sharing;

    return how == SPEC_SHARING_AUTO || how == SPEC_SHARING_NONE ||
           (how == SPEC_SHARING_MPS && on == ON_COMPOSE && r->targets->compose->mps);
}

/* Do no pods that need each other run on several machines, or does Kueue place them? */
static bool nearness_is_moot(const struct render *r, const void *item, unsigned on)
{
    (void)item;
    for (size_t i = 0; i < r->spec->component_count; i++) {
        const struct spec_component *c = &r->spec->components[i];
        bool together =
            c->nodes_per_replica > 1 || (c->kind == SPEC_COMPONENT_TRAINING && c->replicas > 1);

        if (together && runs_it(r, c, on))
            return on == ON_KUBERNETES && r->targets->kubernetes->queue;
    }
    return true;
}

static bool pool_is_unused(const struct render *r, const void *item, unsigned on)
{
    const struct spec_pool *p = item;

    for (size_t i = 0; i < r->spec->component_count; i++) {
        const struct spec_component *c = &r->spec->components[i];

        for (size_t k = 0; runs_it(r, c, on) && k < c->pools.count; k++)
            if (str_eq(c->pools.items[k], p->name))
                return false;
    }
    return true;
}

static bool pool_sharing_is_moot(const struct render *r, const void *item, unsigned on)
{
    unsigned how = ((const struct spec_pool *)item)->sharing;

    return pool_is_unused(r, item, on) || how == SPEC_SHARING_AUTO ||
           (how == SPEC_SHARING_MPS && on == ON_COMPOSE && r->targets->compose->mps);
}

static bool overrun_is_moot(const struct render *r, const void *item, unsigned on)
{
    const struct spec_targets *t = &r->spec->targets;
    bool runs = on == ON_PROMETHEUS && !t->slurm && !t->kubernetes && !t->openshift &&
                !t->compose && !t->systemd;

    for (size_t i = 0; on != ON_PROMETHEUS && !runs && i < r->spec->component_count; i++)
        runs = runs_it(r, &r->spec->components[i], on);
    return !runs || ((const struct spec_budgets *)item)->overrun == SPEC_OVERRUN_WARN;
}

#define BY_SMI "Set it on the machines when they start, with nvidia-smi."
#define NEAR                                                                                       \
    "Pods of one job may be far from each other; target kubernetes with 'queue' has Kueue place "  \
    "them."

static const struct {
    unsigned on;
    const char *section, *key, *hint;
    bool (*moot)(const struct render *r, const void *item, unsigned on); /* NULL: never */
} site_wishes[] = {
    { ON_ALL, "nodes", "gpu.power_limit", BY_SMI, NULL },
    { ON_ALL, "nodes", "gpu.clock", BY_SMI, NULL },
    { ON_ALL, "nodes", "gpu.compute_mode", BY_SMI, mode_is_moot },
    { ON_ALL, "nodes", "gpu.ecc", BY_SMI, ecc_is_moot },
    { ON_ALL, "nodes", "gpu.persistence", BY_SMI, persistence_is_moot },
    { ON_COMPOSE, "nodes", "gpu.sharing",
      "Containers have whole GPUs; 'targets.compose.mps' shares them.", sharing_is_moot },
    { ON_SYSTEMD, "nodes", "gpu.sharing", "Units have whole GPUs; target compose has MPS.",
      sharing_is_moot },
    { ON_PODS, "nodes", "rack", NEAR, nearness_is_moot },
    { ON_PODS, "fabrics", "switches", NEAR, nearness_is_moot },
    { ON_SLURM | ON_PODS, "pools", "gpus", "The scheduler picks the GPU.", pool_is_unused },
    { ON_HOST | ON_PODS, "pools", "sharing",
      "Say it of the GPUs: 'gpu.sharing' of their nodes, 'mps' of target compose.",
      pool_sharing_is_moot },
    { ON_ALL | ON_PROMETHEUS, "budgets", "overrun",
      "Nobody holds or stops a job for its cost: alerts tell of it, and people decide.",
      overrun_is_moot },
};

#define MACHINE  "a fact of the machines, nothing to be done"
#define MOUNTED  "the machines have it mounted already"
#define ON_ONE   "what runs here is on one machine"
#define KUBES    "Kubernetes' own"
#define MONEY    "for plans, pages and alerts"
#define PAGE     "of alerts; the page compares a month that runs all the time"
#define BY_AGENT "the agent's own"
#define TALK     "what programs need of each other, for people: placing goes by the other keys"
#define BY_SERVE "for `stoker serve` and the planner"

static const struct {
    unsigned on;
    const char *key, *why;
} site_quiet[] = {
    { ON_ALL | ON_PROMETHEUS, "site.description", "words for people" },
    { ON_ALL | ON_PROMETHEUS, "site.owner", "words for people" },
    { ON_ALL | ON_PROMETHEUS, "site.contact", "words for people" },
    { ON_HOST | ON_SLURM, "site.name", "one file for one site" },
    { ON_HOST | ON_SLURM, "site.labels", "Prometheus puts them on the metrics" },

    { ON_ALL, "software", "`stoker detect --check -f` compares it with what the machines have" },
    { ON_ALL, "shapes", "read by `stoker plan train`" },
    { ON_ALL, "traffic.rate", TALK },
    { ON_ALL, "traffic.bytes_per_step", TALK },
    { ON_ALL, "traffic.latency_max", TALK },
    { ON_ALL, "traffic", "decides who is near and who may connect, where that can be said" },
    { ON_ALL | ON_PROMETHEUS, "goals", "`stoker monitor -f` holds the site against them" },

    { ON_ALL & ~ON_SLURM, "nodes.role", MACHINE },
    { ON_ALL, "nodes.arch", MACHINE },
    { ON_ALL & ~ON_KUBERNETES, "nodes.count", "'hosts' names them" },
    { ON_COMPOSE, "nodes.hosts", ON_ONE },
    { ON_ALL & ~ON_SLURM, "nodes.gpu.model", MACHINE },
    { ON_ALL, "nodes.gpu.memory", MACHINE },
    { ON_ALL, "nodes.gpu.memory_bandwidth", MACHINE },
    { ON_ALL, "nodes.gpu.link", MACHINE },
    { ON_ALL, "nodes.gpu.link_bandwidth", MACHINE },
    { ON_ALL, "nodes.gpu.power", MACHINE },
    { ON_HOST, "nodes.gpu.mig_profile", "told of at 'sharing'" },
    { ON_HOST | ON_SLURM, "nodes.nvlink_domain", "of one machine, or of all that there are" },
    { ON_ALL & ~ON_SLURM, "nodes.sockets", MACHINE },
    { ON_HOST | ON_OPENSHIFT, "nodes.cpu_cores", MACHINE },
    { ON_PODS, "nodes.memory", MACHINE },
    { ON_ALL, "nodes.local_disk", MACHINE },
    { ON_ALL, "nodes.local_path", MACHINE },
    { ON_HOST | ON_SLURM, "nodes.nics", "found on the machine" },
    { ON_PODS, "nodes.nics.rate", MACHINE },
    { ON_PODS, "nodes.nics.interfaces", "a pod has names of its own" },
    { ON_PODS, "nodes.nics.hcas", "virtual functions are found in the pod" },
    { ON_HOST, "nodes.rack", ON_ONE },
    { ON_HOST | ON_PODS, "nodes.capacity", MACHINE },
    { ON_ALL, "nodes.instance", "for who starts the machines" },
    { ON_ALL, "nodes.fallback", "for who starts the machines" },
    { ON_HOST | ON_SLURM, "nodes.labels", KUBES },
    { ON_HOST | ON_SLURM, "nodes.taints", KUBES },
    { ON_ALL, "nodes.price", MONEY },
    { ON_ALL, "nodes.capex", MONEY },
    { ON_ALL, "nodes.power", MONEY },

    { ON_HOST, "nodes.fabrics", ON_ONE },
    { ON_HOST, "fabrics", ON_ONE },
    { ON_ALL, "fabrics.rate", MACHINE },
    { ON_SLURM | ON_KUBERNETES, "fabrics.nics_per_node", MACHINE },
    { ON_SLURM, "fabrics.interfaces", "found on the machine" },
    { ON_ALL, "fabrics.hcas", "found on the machine, or in the pod" },
    { ON_SLURM, "fabrics.subnets", MACHINE },
    { ON_SLURM, "fabrics.mtu", MACHINE },
    { ON_SLURM, "fabrics.gpudirect", MACHINE },

    { ON_HOST | ON_SLURM, "storage.source", MOUNTED },
    { ON_PODS, "storage.source", "whoever made the storage class knows it" },
    { ON_HOST | ON_SLURM, "storage.size", MOUNTED },
    { ON_ALL, "storage.read_rate", "for plans and `stoker detect`" },
    { ON_ALL, "storage.write_rate", "for plans and `stoker detect`" },
    { ON_HOST | ON_SLURM, "storage.storage_class", KUBES },
    { ON_HOST | ON_SLURM, "storage.access", KUBES },
    { ON_HOST | ON_SLURM, "storage.per_replica", KUBES },
    { ON_HOST | ON_SLURM, "storage.keep", KUBES },
    { ON_ALL, "storage.stripes", "target lustre sets them; told of where nobody does" },
    { ON_ALL, "storage.price_per_tb", MONEY },

    { ON_SLURM | ON_PODS, "pools.device", "a component's pool of the CPU's memory is refused" },
    { ON_ALL, "pools.priority", BY_SERVE },
    { ON_ALL, "pools.access", BY_SERVE },
    { ON_ALL, "pools.nodes", "another group than its components' is refused" },
    { ON_SYSTEMD | ON_OPENSHIFT, "pools.size", "told of at the component" },

    { ON_PODS, "serve.listen", "a pod listens on its own address" },
    { ON_PODS, "serve.token_file", "a Secret is mounted in its place" },
    { ON_PODS, "serve.tls_key", "told of at 'tls_cert'" },
    { ON_PODS, "agent.tls_key", "told of at 'tls_cert'" },
    { ON_PODS, "serve.batch_size", "told of at 'batch_dir'" },
    { ON_PODS, "serve.batch_expiry", "told of at 'batch_dir'" },

    { ON_PROMETHEUS, "agent.listen", "warned about where nobody else reaches it" },
    { ON_PROMETHEUS, "agent.port", "of the page" },
    { ON_PROMETHEUS, "agent.tls_cert", "that it is https is all that is needed" },
    { ON_PROMETHEUS, "agent.tls_key", "that it is https is all that is needed" },
    { ON_PROMETHEUS, "agent.admin_token_file", BY_AGENT },
    { ON_PROMETHEUS, "agent.interval", BY_AGENT },
    { ON_PROMETHEUS, "agent.fine_history", BY_AGENT },
    { ON_PROMETHEUS, "agent.coarse_history", BY_AGENT },
    { ON_PROMETHEUS, "agent.history_size", BY_AGENT },
    { ON_PROMETHEUS, "agent.dcgm", BY_AGENT },
    { ON_PROMETHEUS, "agent.scrape", BY_AGENT },
    { ON_PROMETHEUS, "agent.peers", BY_AGENT },
    { ON_PROMETHEUS, "notify.command", BY_AGENT },
    { ON_PROMETHEUS, "notify.log", BY_AGENT },
    { ON_PROMETHEUS, "notify.page", BY_AGENT },

    { ON_PROMETHEUS, "prices.storage_per_tb", "alerts tell of machines" },
    { ON_PROMETHEUS, "prices.egress_per_gb", "alerts tell of machines" },
    { ON_PROMETHEUS | ON_DOC, "budgets.overrun", "told of by who runs something, if anybody does" },
    { ON_DOC, "budgets.warn", PAGE },
    { ON_DOC, "budgets.forecast_days", PAGE },
    { ON_ALL, "budgets.warn", MONEY },
    { ON_ALL, "budgets.forecast_days", MONEY },
};

static unsigned target_bit(const char *target)
{
    static const struct {
        const char *name;
        unsigned bit;
    } rows[] = { { "compose", ON_COMPOSE },
                 { "systemd", ON_SYSTEMD },
                 { "slurm", ON_SLURM },
                 { "kubernetes", ON_KUBERNETES },
                 { "openshift", ON_OPENSHIFT },
                 { "prometheus", ON_PROMETHEUS },
                 { "doc", ON_DOC } };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (str_eq(target, rows[i].name))
            return rows[i].bit;
    return 0;
}

/* Is it the key, or in the section of that name? */
static bool key_in(const char *key, const char *section)
{
    size_t n = strlen(section);

    return !strncmp(key, section, n) && (!key[n] || key[n] == '.');
}

size_t render_follow_excuse(const char *target, unsigned kind, const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(quiet); i++)
        if (quiet[i].on & target_bit(target) && quiet[i].of & 1U << kind &&
            key_in(key, quiet[i].key))
            return i;
    return SIZE_MAX;
}

size_t render_follow_site_excuse(const char *target, const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(site_quiet); i++)
        if (site_quiet[i].on & target_bit(target) && key_in(key, site_quiet[i].key))
            return ARRAY_SIZE(quiet) + i;
    return SIZE_MAX;
}

const char *render_follow_excuse_key(size_t i)
{
    return i < ARRAY_SIZE(quiet)                            ? quiet[i].key
           : i < ARRAY_SIZE(quiet) + ARRAY_SIZE(site_quiet) ? site_quiet[i - ARRAY_SIZE(quiet)].key
                                                            : NULL;
}

static size_t wish_find(unsigned on, unsigned kind, const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(wishes); i++)
        if (wishes[i].on & on && wishes[i].of & 1U << kind && key_in(key, wishes[i].key))
            return i;
    return SIZE_MAX;
}

const char *render_follow_wish(const char *target, unsigned kind, const char *key)
{
    size_t i = wish_find(target_bit(target), kind, key);

    return i == SIZE_MAX ? NULL : wishes[i].key;
}

/* --- components --- */

static bool runs_it(const struct render *r, const struct spec_component *c, unsigned on)
{
    switch (on) {
    case ON_COMPOSE:
        return c->target == SPEC_TARGET_COMPOSE;
    case ON_SYSTEMD:
        return c->target == SPEC_TARGET_SYSTEMD || c->target == SPEC_TARGET_LOCAL;
    case ON_SLURM:
        return c->target == SPEC_TARGET_SLURM;
    case ON_KUBERNETES:
        return spec_kubernetes_takes(r->spec, c);
    default:
        return c->target == SPEC_TARGET_OPENSHIFT;
    }
}

struct follower {
    struct render *r;
    const struct render_target *t;
    const struct spec_component *c;
    bool told[ARRAY_SIZE(wishes)];
};

static void key_follow(void *ctx, const char *key, const void *member)
{
    struct follower *f = ctx;
    size_t i = wish_find(target_bit(f->t->name), f->c->kind, key);

    if (i == SIZE_MAX || f->told[i] || (wishes[i].moot && wishes[i].moot(f->r, f->c)))
        return;
    f->told[i] = true;
    render_warn(f->r, member, wishes[i].hint, "%s does not follow '%s' of component '%s'",
                f->t->name, wishes[i].key, f->c->name);
}

/* --- checkpoints --- */

static bool path_holds(const char *folder, const char *path)
{
    size_t len = strlen(folder);

    while (len && folder[len - 1] == '/')
        len--;
    return !strncmp(path, folder, len) && (path[len] == '/' || !path[len]);
}

/* Does the component see only its mounts, or all that the machine has? */
static bool in_container(const struct spec_component *c, unsigned on)
{
    return on & ON_PODS || (on & (ON_COMPOSE | ON_SLURM) && c->image);
}

/* The storage at a path of the component, the one nearest to it; NULL: none that the spec has. */
static const struct spec_storage *storage_at(const struct render *r, const struct spec_component *c,
                                             unsigned on, const char *path)
{
    const struct spec_storage *found = NULL;
    size_t best = 0;

    for (size_t i = 0; i < c->mount_count; i++) {
        const char *at = c->mounts[i].path;

        if (path_holds(at, path) && (!found || strlen(at) > best)) {
            found = spec_storage_find(r->spec, c->mounts[i].storage);
            best = strlen(at);
        }
    }
    for (size_t i = 0; !in_container(c, on) && i < r->spec->storage_count; i++) {
        const struct spec_storage *s = &r->spec->storage[i];

        if (s->path && path_holds(s->path, path) && (!found || strlen(s->path) > best)) {
            found = s;
            best = strlen(s->path);
        }
    }
    return found;
}

const struct spec_storage *follow_mount_at(const struct render *r, const struct spec_component *c,
                                           const char *path)
{
    return storage_at(r, c, ON_PODS, path);
}

void follow_memory_mounts(struct render *r, const struct spec_component *c, struct maybe limit)
{
    for (size_t i = 0; limit.known && i < c->mount_count; i++) {
        const struct spec_mount *m = &c->mounts[i];
        const struct spec_storage *s = spec_storage_find(r->spec, m->storage);
        bool sized = c->shm_bytes.known && str_eq(m->path, "/dev/shm"); /* by 'shm' */

        if (s && s->kind == SPEC_STORAGE_MEMORY && !sized && maybe_or(s->size_bytes, 0) > limit.v)
            render_refuse(r, &m->storage,
                          "What is written there counts as memory of the container: give it more "
                          "'memory', or the storage a smaller 'size'.",
                          "storage '%s' is in memory and larger than %s of component '%s'", s->name,
                          c->memory_bytes.known ? "the memory" : "the part of a machine's memory",
                          c->name);
    }
}

void follow_loose_models(struct render *r, const char *target)
{
    const struct spec *s = r->spec;

    for (size_t i = 0; !s->targets.systemd && !s->targets.kubernetes && i < s->model_count; i++)
        if (!s->models[i].component)
            render_warn(r, &s->models[i].name,
                        "Name a serving component as its 'component', or add 'systemd: {}' below "
                        "'targets' for `stoker serve` of the machine.",
                        "model '%s' names no component: %s serves it nowhere", s->models[i].name,
                        target);
}

/* No machine has it of itself, wherever it says it is. */
static const char *never_mounted(const struct spec_storage *s, unsigned on)
{
    switch (s->kind) {
    case SPEC_STORAGE_OBJECT:
        return "object";
    case SPEC_STORAGE_MEMORY:
        return "memory";
    case SPEC_STORAGE_VOLUME:
        return on == ON_SLURM || !s->path ? "volume" : NULL;
    default:
        return NULL;
    }
}

/* Slurm and systemd mount nothing: what runs there sees what the machine has mounted. */
static void mount_follow(struct render *r, const struct spec_component *c,
                         const struct spec_mount *m, unsigned on)
{
    const struct spec_storage *s = spec_storage_find(r->spec, m->storage);
    const char *never = never_mounted(s, on);

    if (never)
        render_warn(r, &m->storage, "Use storage of kind local, nfs or the like.",
                    "%s mounts no %s storage: component '%s' has '%s' only where the machine has "
                    "it",
                    on == ON_SLURM ? "Slurm" : "systemd", never, c->name, m->path);
    else if (!s->path)
        render_warn(r, &m->storage, "Say where the machines mount it: path: /srv/data.",
                    "storage '%s' has no path on the machines: component '%s' has '%s' only where "
                    "they mount it there",
                    s->name, c->name, m->path);
    if (on == ON_SLURM && !c->image && m->read_only && !s->read_only)
        render_warn(r, &m->read_only,
                    "Give the component an image, or let the machines mount it read-only.",
                    "without an image a job writes wherever its user may: 'read_only' of '%s' is "
                    "not followed in component '%s'",
                    s->name, c->name);
}

/* Why a job may go on on other machines than it began on; NULL: it does not. */
static const char *why_it_moves(const struct render *r, const struct spec_component *c, unsigned on)
{
    const struct spec_node *n;

    if (on & ON_HOST)
        return NULL;
    for (size_t i = 0; (n = spec_component_group(r->spec, c, i)); i++)
        if (n->capacity == SPEC_CAPACITY_SPOT)
            return "spot machines are taken away";
    if (c->nodes_per_replica * c->replicas > 1)
        return "a job of several machines may start again on others, or in another order";
    return NULL;
}

/* What a program writes outside its mounts goes with the container, and what it writes to the disk
 * of a machine stays there. */
static void checkpoint_follow(struct render *r, const struct spec_component *c, unsigned on)
{
    const char *path = c->training ? c->training->checkpoint.path : NULL;
    const struct spec_storage *s = path ? storage_at(r, c, on, path) : NULL;
    const char *why = s ? why_it_moves(r, c, on) : NULL;

    if (path && !s && in_container(c, on))
        render_warn(r, &c->training->checkpoint.path, "Mount storage there.",
                    "checkpoints of '%s' go with its container: no mount holds '%s'", c->name,
                    path);
    else if (s && s->kind == SPEC_STORAGE_MEMORY)
        render_warn(r, &c->training->checkpoint.path, "Use storage that machines share.",
                    "checkpoints of '%s' are in memory, on '%s', and end with the job", c->name,
                    s->name);
    else if (why && s->kind == SPEC_STORAGE_LOCAL)
        render_warn(r, &c->training->checkpoint.path, "Use storage that machines share.",
                    "checkpoints of '%s' are on the disk of a machine, '%s', and %s", c->name,
                    s->name, why);
}

struct site_follower {
    struct render *r;
    const struct render_target *t;
    const char *section, *name; /* of the item; NULL: the section has none */
    const void *item;
    bool told[ARRAY_SIZE(site_wishes)];
};

static void site_key_follow(void *ctx, const char *key, const void *member)
{
    struct site_follower *f = ctx;
    unsigned on = target_bit(f->t->name);

    for (size_t i = 0; i < ARRAY_SIZE(site_wishes); i++) {
        if (!(site_wishes[i].on & on) || !str_eq(site_wishes[i].section, f->section) ||
            !key_in(key, site_wishes[i].key) || f->told[i] ||
            (site_wishes[i].moot && site_wishes[i].moot(f->r, f->item, on)))
            continue;
        f->told[i] = true;
        render_warn(f->r, member, site_wishes[i].hint, "%s does not follow '%s' of %s%s%s%s",
                    f->t->name, site_wishes[i].key, f->section, f->name ? " '" : "",
                    f->name ? f->name : "", f->name ? "'" : "");
    }
}

static void item_follow(struct render *r, const struct render_target *t, const char *section,
                        const void *item, const char *name)
{
    struct site_follower f = { .r = r, .t = t, .section = section, .item = item, .name = name };

    spec_each_set(r->spec, section, item, site_key_follow, &f);
}

/* No agent is rendered for OpenShift.  Who starts it there by hand says where it listens. */
static void agent_follow(struct render *r, unsigned on)
{
    const struct spec_targets *t = &r->spec->targets;
    const struct spec_agent *a = &r->spec->agent;
    bool others = t->kubernetes || t->slurm || t->systemd;

    if (on == ON_OPENSHIFT && a->enabled && !others && spec_where(r->spec, &a->enabled).line &&
        !spec_where(r->spec, &a->listen).line)
        render_warn(r, &a->enabled,
                    "Start it on the machines by hand, and say at 'listen' where it answers.",
                    "openshift does not follow 'enabled' of agent: it starts none");
}

/* Who has the rules tells of them; without anybody, who runs something does. */
static void budgets_follow(struct render *r, unsigned on)
{
    const struct spec_targets *t = &r->spec->targets;
    bool has_rules = on & (ON_PROMETHEUS | ON_KUBERNETES);

    if (has_rules || (on & ON_ALL && !t->prometheus && !t->kubernetes))
        alerts_budgets_tell(r, has_rules);
}

void render_follow(struct render *r, const struct render_target *t)
{
    unsigned on = target_bit(t->name);

    if (on) {
        const struct spec *s = r->spec;

        for (size_t i = 0; i < s->node_count; i++)
            if (group_is_used(r, &s->nodes[i], target_bit(t->name)))
                item_follow(r, t, "nodes", &s->nodes[i], s->nodes[i].name);
        for (size_t i = 0; i < s->fabric_count; i++)
            item_follow(r, t, "fabrics", &s->fabrics[i], s->fabrics[i].name);
        for (size_t i = 0; i < s->pool_count; i++)
            item_follow(r, t, "pools", &s->pools[i], s->pools[i].name);
        item_follow(r, t, "budgets", &s->budgets, NULL);
        budgets_follow(r, target_bit(t->name));
        agent_follow(r, target_bit(t->name));
    }

    for (size_t i = 0; on & ON_ALL && i < r->spec->component_count; i++) {
        const struct spec_component *c = &r->spec->components[i];
        struct follower f = { .r = r, .t = t, .c = c };

        if (!runs_it(r, c, on))
            continue;
        spec_each_set(r->spec, "components", c, key_follow, &f);
        checkpoint_follow(r, c, on);
        for (size_t k = 0; on & (ON_SLURM | ON_SYSTEMD) && k < c->mount_count; k++)
            mount_follow(r, c, &c->mounts[k], on);
    }
}
