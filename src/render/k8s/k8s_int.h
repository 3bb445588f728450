/* SPDX-License-Identifier: MIT */
/* k8s: what every Kubernetes object of a spec has, for the targets kubernetes and openshift.
 *
 * A target fills a struct k8s (what holds for all its objects), opens an object with k8s_object(),
 * and describes a pod as a struct k8s_pod, which k8s_template() writes down.  A pod of a component
 * begins as k8s_pod_of() makes it and is changed before it is written:
 *
 *     struct k8s_pod pod;
 *     k8s_pod_of(&k, c, &pod);
 *     pod.restart = "Never";
 *     k8s_object(&k, &y, out, "batch/v1", "Job", pod.name, pod.name);
 *     yaml_map(&y, "spec");
 *     k8s_template(&k, &y, &pod);
 *     yaml_end(&y);
 *     yaml_finish(&y);
 *
 * Least privilege is the default: nobody is root, no capability is kept, no token of the service
 * account is mounted, nothing of the host is seen; what a pod needs beyond is a member below. */
#ifndef RENDER_K8S_K8S_INT_H
#define RENDER_K8S_K8S_INT_H
#include "base/arena.h"
#include "render/render_int.h"

enum {
    K8S_MINOR_MIN = 27, /* oldest release: 1.27 */
    K8S_MINOR_MAX = 36, /* newest one that we know the schemas of */
    K8S_NAME_CUT = 46,  /* bytes of a name, so that "-0-12345" of a pod still fits into 63 */
    K8S_UID_DEFAULT = 1000,
    K8S_VOLUMES_MAX = 64, /* volumes of a pod */
    K8S_INITS_MAX = 4,    /* init containers of a pod */
};

/* Label of machines by node group, which node-prepare.sh sets. */
#define K8S_GROUP_LABEL "stoker/group"
/* ConfigMap of the GPU Operator's MIG manager, a configuration for each node group with MIG. */
#define K8S_MIG_CONFIG "stoker-mig"

struct k8s { /* what holds for all objects of a target */
    struct render *r;
    struct arena arena;        /* names; owned, k8s_release() */
    const char *namespace;     /* as dns_name() */
    const char *storage_class; /* NULL: the cluster's default */
    const char *service_account;
    const char *runtime_class;            /* of pods with GPUs; NULL: the default one */
    const char *stoker_image;             /* has /usr/local/bin/stoker in it */
    const char *stoker_image_from;        /* where its name stands */
    const char *priority_class;           /* NULL: by the component's priority */
    const struct spec_strs *pull_secrets; /* NULL: none */
    const void *storage_class_at, *runtime_class_at, *priority_class_at; /* where they stand */
    int minor;                                                           /* of Kubernetes 1.MINOR */
    enum spec_mig_strategy mig_strategy;
    const void *mig_strategy_at;
    bool by_name;  /* components of other targets that have an image are rendered, too */
    bool scc;      /* OpenShift's constraint picks the user: none is named */
    bool ipc_lock; /* RDMA pods ask for IPC_LOCK though they are not root */
};
void k8s_release(struct k8s *k);
/* Refuses what no object could hold: labels of the site, labels and taints of machines.  Once,
 * before anything is written. */
void k8s_site_check(struct k8s *k);
void k8s_node_check(struct k8s *k, const struct spec_node *n); /* its part for one node group */
/* May the text stand behind "# "?  No line break, also none that only YAML 1.1 knows. */
bool k8s_comment_ok(const char *s);

/* --- versions, k8s_version.c --- */
enum k8s_feature { /* each has a row in the table, with the release and its source */
                   K8S_POD_INDEX_LABEL,
                   K8S_POD_REPLACEMENT,
                   K8S_APPARMOR_FIELD,
                   K8S_RECURSIVE_READ_ONLY,
                   K8S_KUBEADM_V1BETA4,
                   K8S_FEATURE_COUNT
};
bool k8s_has(const struct k8s *k, enum k8s_feature f);
/* What a release brings, "1.29: a Job waits for a failed pod to be gone (KEP-3939)", for a
 * comment; NULL past the end. */
const char *k8s_feature_at(size_t i, int *minor);
/* The minor number of "1.27", "v1.27.4"; refused at `member` when it is older than 1.27 or no
 * version, -1 then. */
int k8s_minor(struct render *r, const char *version, const void *member);

/* --- names and values --- */
/* RFC 1035 (Services take no more), at most K8S_NAME_CUT bytes, the same each time; two names that
 * are cut keep apart by a digest.  `suffix` may be "".  In the arena. */
const char *k8s_name(struct k8s *k, const char *name, const char *suffix);
/* A text for env, command and args: "$(X)" and "$$" mean themselves.  In the arena or `s`. */
const char *k8s_verbatim(struct k8s *k, const char *s);
/* "768Gi", "768G", "1500M": exact, never rounded. */
void k8s_quantity(char *out, size_t cap, int64_t bytes);
bool k8s_label_value_ok(const char *s);
bool k8s_label_key_ok(const char *s);

/* --- objects --- */
/* A document with apiVersion, kind and metadata: name, namespace (of the target) and labels. */
void k8s_object(struct k8s *k, struct yaml_out *y, struct buf *out, const char *api,
                const char *kind, const char *name, const char *component);
/* The same in another namespace; NULL: an object of the cluster. */
void k8s_object_in(struct k8s *k, struct yaml_out *y, struct buf *out, const char *api,
                   const char *kind, const char *namespace, const char *name,
                   const char *component);
/* Its head with metadata left open, for annotations and more labels: yaml_end() closes it. */
void k8s_head_open(struct k8s *k, struct yaml_out *y, const char *api, const char *kind,
                   const char *namespace, const char *name, const char *component);
/* The same with the labels left open too: two yaml_end(). */
void k8s_head_labels(struct k8s *k, struct yaml_out *y, const char *api, const char *kind,
                     const char *namespace, const char *name, const char *component);
/* The map `labels` of an object; `component` may be NULL. */
void k8s_labels(struct k8s *k, struct yaml_out *y, const char *key, const char *component);
/* The labels that choose the pods of a component: few, and they never change. */
void k8s_match(struct k8s *k, struct yaml_out *y, const char *key, const char *component);

/* --- pods, k8s_pod.c --- */
enum k8s_volume_kind {
    K8S_CLAIM,    /* source: the claim's name */
    K8S_TEMPLATE, /* a claim of each pod, from volumeClaimTemplates: only mounted here */
    K8S_OWN,      /* a claim of each pod that goes with it; storage */
    K8S_MEMORY,   /* bytes, -1: no limit of its own */
    K8S_SCRATCH,  /* an empty folder on the machine */
    K8S_CONFIG,   /* source: a ConfigMap */
    K8S_SECRET,   /* source: a Secret */
    K8S_HOST,     /* source: a path of the machine */
};
struct k8s_volume {
    const char *name; /* in the pod; DNS label */
    enum k8s_volume_kind kind;
    const char *source;
    int64_t bytes;
    const struct spec_storage *storage; /* of K8S_OWN */
    const char *path;                   /* where the container sees it */
    const char *subpath;                /* NULL: all of it */
    const char *host_type;              /* of K8S_HOST: "Directory", "CharDevice" ... */
    bool read_only;
    int64_t mode;     /* of files of a ConfigMap or Secret; 0: the default */
    const char *from; /* comment: where it stands; NULL: none */
    const void *at;   /* the spec's mount; NULL: ours */
    bool again;       /* the volume is listed before: one more mount of it */
};
struct k8s_env {
    const char *name, *value;
    const char *field; /* a fieldPath instead of a value */
    const char *from;  /* comment; NULL: none */
};
struct k8s_init { /* a container that runs to its end before the pod's own starts */
    const char *name, *image, *image_from;
    struct spec_strs command;
    const struct k8s_env *env;
    size_t env_count;
    const char *volume, *path; /* the one volume it writes to */
    const char *cpu, *memory;
};
enum k8s_machines { K8S_ALL_MACHINES, K8S_WITH_GPUS, K8S_WITHOUT_GPUS };
struct k8s_pod {
    const struct spec_component *c; /* NULL: a pod of our own, agent or serve */
    const char *name;               /* of the workload; also the label of its component */
    const char *container;          /* name of the container; NULL: name */
    const char *image;
    const char *image_from; /* comment; NULL: none */
    struct spec_strs command, args;
    const char *workdir;
    const struct k8s_env *env; /* before those of the spec */
    size_t env_count;
    const char *restart; /* restartPolicy; NULL: Always */
    const char *level;   /* label of machines whose value all pods should share, for Kueue; NULL */
    const char *subdomain; /* headless Service that gives pods a name; NULL: none */
    const char *service_account;
    bool spread_hard; /* at most one pod a machine, else as even as can be */
    bool readiness;   /* probes: readiness too (a Service or StatefulSet) */
    bool host_network, host_pid;
    bool root;                  /* runs as user 0 */
    bool token;                 /* the service account's token is mounted */
    bool read_only_root;        /* nothing but volumes can be written */
    enum k8s_machines machines; /* of a pod of our own with any_node */
    bool any_node;              /* tolerates every taint and chooses no machine: the agent */
    const char *runtime_class;  /* of a pod of our own; NULL: the default one */
    int64_t gpus;               /* of a pod of our own */
    const char *priority;       /* priority class of a pod of our own; NULL: none */
    const char *cpu, *memory;   /* what a pod of our own asks for; NULL: nothing */
    struct spec_strs caps;      /* capabilities beyond those of the component */
    int64_t uid;                /* -1: not named */
    int64_t grace_s;            /* terminationGracePeriodSeconds; 0: the default */
    int64_t deadline_s;         /* activeDeadlineSeconds of the pod itself; 0: none */
    struct k8s_volume *volumes;
    size_t volume_count;
    const struct spec_port *ports; /* those of the component, or others */
    size_t port_count;
    const struct spec_health *health; /* NULL: no probes */
    struct k8s_init *inits;
    size_t init_count;
};
/* A component's pod; faults (no image, a user by name, object storage mounted) are refused.
 * `templates`: claims of each replica are volumeClaimTemplates of a StatefulSet. */
void k8s_pod_of(struct k8s *k, const struct spec_component *c, bool templates, struct k8s_pod *out);
/* One more volume; its members are copied. */
/* Volumes of our own begin with this, and no storage may: a pod has one volume of a name, so a
 * storage called 'models' would be where fetched models are written to. */
#define K8S_OWN_VOLUME "stoker-"
void k8s_volume_add(struct k8s *k, struct k8s_pod *pod, struct k8s_volume v);
void k8s_init_add(struct k8s *k, struct k8s_pod *pod, struct k8s_init init);
/* A storage of the spec, mounted read-only at the path it has on machines. */
void k8s_storage_add(struct k8s *k, struct k8s_pod *pod, const struct spec_storage *s);
/* An init container that copies stoker into K8S_STOKER_DIR, where the launch scripts look for it
 * behind what the image has: any image can then detect what NCCL needs. */
void k8s_stoker_add(struct k8s *k, struct k8s_pod *pod);
/* "template:" with labels, annotations of the networks, and spec. */
void k8s_template(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod);
/* The two halves of it. */
void k8s_template_meta(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod);
void k8s_pod_spec(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod);
/* What a Kubeflow TrainJob may change of its runtime's pod: the spec's placement, user, volumes and
 * the container's mounts and rights; image, command and resources are the TrainJob's own. */
void k8s_pod_patch(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod);
/* A list of words, each meaning itself; none: nothing is written. */
void k8s_words(struct k8s *k, struct yaml_out *y, const char *key, const struct spec_strs *w);
/* "resources:" of a component: GPUs, RDMA devices, cores, memory; requests equal limits. */
void k8s_resources(struct k8s *k, struct yaml_out *y, const char *key,
                   const struct spec_component *c);
/* "env:"; entries of `pod` first, then nccl.env, then those of the component, which win. */
void k8s_env(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod);
/* Of the taints of every group with GPUs: for the GPU Operator's own pods. */
void k8s_tolerations_gpus(struct k8s *k, struct yaml_out *y);
/* The taints of a group's machines as a list. */
void k8s_taints(struct k8s *k, struct yaml_out *y, const char *key, const struct spec_node *n);
/* Those of a pod: of every taint of the groups that it may be on. */
void k8s_tolerations_of(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod);
/* Who gives a machine a label of the spec: the kubelet when it joins (it may not give itself most
 * of those of kubernetes.io), an administrator, or the system, which knows better. */
enum k8s_labeller { K8S_LABEL_JOIN, K8S_LABEL_ADMIN, K8S_LABEL_SYSTEM };
enum k8s_labeller k8s_label_by(const char *key);
/* Tolerations, affinity and spread of a pod; the parts of it. */
void k8s_placement(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod);
void k8s_affinity(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod);
/* "volumes:" of a pod, and "volumeMounts:" of its container. */
void k8s_volumes(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod);
void k8s_mounts(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod);
/* "ports:", the probes, "resources:" of a pod of our own. */
void k8s_ports(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod);
void k8s_probes(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod);
void k8s_own_resources(struct k8s *k, struct yaml_out *y, const struct k8s_pod *pod);
/* The resource by which GPUs of a group are asked for: whole ones, or MIG instances of its profile
 * (the strategy is "mixed", so that each profile has its name).  NULL: of no group. */
const char *k8s_gpu_resource(struct k8s *k, const struct spec_node *n);
/* The port's name: at most 15 bytes with a letter.  `out` holds 16. */
void k8s_port_name(const struct spec_port *ports, size_t i, char *out);

/* Is it to run as user 0? */
bool k8s_is_root(const struct spec_component *c);
/* The user by number, since the kubelet cannot look up names of an image; none: it is a name. */
struct maybe k8s_uid(const struct spec_component *c);
/* Refuses a component whose name is that of an object or container of ours, or one name with
 * another's. */
void k8s_names_check(struct k8s *k, const struct spec_component *const *all, size_t count);
/* Has it a memory pool but no GPUs of its own: does it share those of others? */
bool k8s_shares_gpu(const struct spec_component *c);
/* Does it share one through the MPS daemon of the device plug-in? */
bool k8s_is_mps_client(struct k8s *k, const struct spec_component *c);

/* The image that has stoker in it: `named` where that is not NULL, else that of a serving component
 * without a command, else `fallback`. */
void k8s_stoker_image(struct k8s *k, const char *const *named, const char *fallback);

/* --- launching, k8s_launch.c --- */
enum { K8S_VARS_MAX = 12 };
struct k8s_vars { /* what a launch script is told; all zero but `k` is none */
    struct k8s *k;
    struct k8s_env *items; /* in the arena */
    size_t count;
};
/* `value` NULL: nothing; `from` is copied, NULL: no comment. */
void k8s_vars_add(struct k8s_vars *v, const char *name, const char *value, const char *from);
void k8s_vars_add_int(struct k8s_vars *v, const char *name, int64_t value, const void *member);
void k8s_vars_add_field(struct k8s_vars *v, const char *name, const char *field); /* of the pod */
/* The pod's command becomes what the launcher is given, and these its variables. */
void k8s_launch_command(struct k8s_vars *v, struct k8s_pod *pod, struct spec_strs launcher);
/* The ConfigMap with the script, at `dir`; `stoker`: an init container brings stoker, too. */
void k8s_launch_volume(struct k8s *k, struct k8s_pod *pod, const char *map, const char *dir,
                       int64_t mode, bool stoker);
/* A script of data/render, with hold.sh in place of the lines that read it: a pod has one file. */
void k8s_launch_script(struct buf *out, const char *script);
/* A ConfigMap of one file. */
void k8s_config_map(struct k8s *k, struct buf *out, const char *name, const char *component,
                    const char *file, const struct buf *text);

/* --- what is not followed, k8s_wishes.c --- */
/* Warns at what the component asks for in vain; `kept`: its pods are kept running. */
void k8s_component_wishes(struct k8s *k, const struct spec_component *c, bool kept);
/* Warns where the namespace's name becomes another one; refuses those of the cluster itself. */
void k8s_namespace_wish(struct k8s *k, const char *const *name);
/* Warns of the GPUs of groups that these components run on. */
void k8s_group_wishes(struct k8s *k, const struct spec_component *const *all, size_t count);

/* nv-ipam's release, and a pool of it for the pods of a fabric's subnet; the machines are those of
 * its groups, by their label. */
#define K8S_NV_IPAM "v0.4.0"
void k8s_ip_pool(struct k8s *k, struct buf *out, const char *namespace, const struct spec_fabric *f,
                 size_t i);

/* --- serving, k8s_serve.c --- */
#define K8S_TOKEN_SECRET "stoker-token"
#define K8S_TOKEN_PATH   "/run/secrets/stoker"
#define K8S_TOKEN_FILE   "/run/secrets/stoker/token" /* in it */
#define K8S_STOKER_DIR   "/opt/stoker-bin"
/* Is it `stoker serve`, a serving component without a command? */
bool k8s_is_server(const struct spec_component *c);
/* Ports and health check: those of the spec, else what a server has anyway. */
const struct spec_port *k8s_ports_of(struct k8s *k, const struct spec_component *c, size_t *count);
const struct spec_health *k8s_health_of(struct k8s *k, const struct spec_component *c);
/* Does a model of this server (NULL: the site's) lie on the storage, with nothing mounted there? */
bool k8s_serves_from(const struct k8s *k, const struct spec_component *c,
                     const struct spec_storage *s);
/* Does it fetch a model from the hub? */
bool k8s_fetches(const struct k8s *k, const struct spec_component *c);
void k8s_token_volume(struct k8s *k, struct k8s_pod *pod);
void k8s_config_volume(struct k8s *k, struct k8s_pod *pod, const char *name);
/* A pod of `stoker serve` for the models of a component (NULL: those of none), and its spec. */
void k8s_serve_pod(struct k8s *k, const struct spec_component *c, struct k8s_pod *pod);
void k8s_serve_spec(struct k8s *k, struct buf *out, const struct spec_component *c);
bool k8s_has_models(const struct spec *s, const char *component);

/* How a script begins that prints what it would do and does it with --apply. */
#define K8S_SCRIPT_APPLY                                                                           \
    "apply=false\n"                                                                                \
    "if [ \"${1-}\" = --apply ]; then\n"                                                           \
    "    apply=true\n"                                                                             \
    "    shift\n"                                                                                  \
    "fi\n" RENDER_SCRIPT_SHOW "run() {\n"                                                          \
    "    if $apply; then\n"                                                                        \
    "        \"$@\"\n"                                                                             \
    "    else\n"                                                                                   \
    "        printf '+ '\n"                                                                        \
    "        show \"$@\"\n"                                                                        \
    "    fi\n"                                                                                     \
    "}\n"
/* The function `secret NAMESPACE` of a script: the token of agent and servers, made once. */
#define K8S_SCRIPT_SECRET(tool)                                                                    \
    "# secret NAMESPACE: the token of agent and servers, made once\n"                              \
    "secret() {\n"                                                                                 \
    "    " tool " -n \"$1\" get secret " K8S_TOKEN_SECRET " >/dev/null 2>&1 ||\n"                  \
    "        run sh -c \"head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \\\\n' | " tool        \
    " -n $1 create secret generic " K8S_TOKEN_SECRET " --from-file=token=/dev/stdin\"\n"           \
    "}\n"                                                                                          \
    "\n"

/* --- GPU Operator: driver, MIG, k8s_mig.c --- */
/* "rdma:" of its driver; `direct`: a fabric of the spec has gpudirect. */
void k8s_driver_rdma(struct yaml_out *y, bool direct);
bool k8s_has_mig(const struct spec *s);
/* The strategy under `key`, "single" where nothing is cut. */
void k8s_mig_strategy(struct k8s *k, struct yaml_out *y, const char *key);
/* "mig:" and "migManager:" of the chart's values (`create`: with the ConfigMap in them) or of a
 * ClusterPolicy; the ConfigMap as an object; its text. */
void k8s_mig_values(struct k8s *k, struct yaml_out *y, bool create);
void k8s_mig_map(struct k8s *k, struct buf *out, const char *namespace);

/* --- storage, k8s_volume.c --- */
/* Is it mounted by the component, by the spec's word or for a model? */
bool k8s_uses_storage(const struct k8s *k, const struct spec_component *c,
                      const struct spec_storage *s);
/* The claim's spec: accessModes, storageClassName, resources. */
void k8s_claim_spec(struct k8s *k, struct yaml_out *y, const struct spec_storage *s);
/* "volumeClaimTemplates:" for the storage of each replica that the pod mounts; none: nothing. */
void k8s_claim_templates(struct k8s *k, struct yaml_out *y, const struct spec_component *c);
const char *k8s_claim_name(struct k8s *k, const struct spec_storage *s);
/* Is it a claim of every pod? */
bool k8s_per_replica(const struct spec_storage *s);
/* Does it mount a volume that is at one machine at a time, and may its pods be on several? */
bool k8s_held_at_one(struct k8s *k, const struct spec_component *c);
void k8s_mounts_check(struct k8s *k, const struct spec_component *c); /* told: pods kept out */
/* Is its claim bound to a PersistentVolume that we write (nfs, lustre, local)?  Its name. */
bool k8s_static_volume(const struct spec_storage *s);
/* Whole documents: the PersistentVolume of such a storage, and a claim of any. */
void k8s_static_volume_write(struct k8s *k, struct buf *out, const struct spec_storage *s);
void k8s_claim_write(struct k8s *k, struct buf *out, const struct spec_storage *s);

/* --- bringing manifests to a cluster, k8s_apply.c --- */
struct k8s_apply {
    const char *tool, *script; /* "kubectl", and the script's own name */
    const char *folder;        /* of the kustomization, as the shell writes it */
    const char *also;          /* another namespace with objects; NULL: none */
    const char *scaled;        /* who others scale, "statefulset/NAME=COUNT ..." */
    const char *headless;      /* names of Services without an address, "a b" */
    const char *first;         /* lines before the folder is applied; NULL: none */
};

/* The function `manifests` of a script: makes room for what apply cannot change, applies `folder`,
 * gives workloads that others scale the count they had, or that of the spec when they are new, and
 * names what the spec no longer has; `prune` deletes that. */
void k8s_script_apply(struct k8s *k, struct buf *out, const struct k8s_apply *a);

/* The function `mark LABELS MACHINE...` of a script. */
void k8s_script_mark(struct buf *out, const char *tool);

/* --- policies, k8s_policy.c --- */
struct k8s_policies {
    const struct spec_component *const *components; /* of the target */
    size_t count;
    const char *dns_namespace; /* where names are looked up, and the port of the pods there */
    int64_t dns_port;
    bool dns_cache; /* names may be asked of a machine's own cache */
};
/* Nothing, then names, then what the spec opens. */
void k8s_policies_write(struct k8s *k, struct buf *out, const struct k8s_policies *p);
void k8s_server_policy(struct k8s *k, struct buf *out); /* of the site's model server */
/* A service of several pods, of which a drain takes one at a time. */
bool k8s_needs_budget(const struct spec_component *c);
void k8s_budget(struct k8s *k, struct buf *out, const struct spec_component *c);
const char *k8s_priority_name(struct k8s *k, enum spec_priority p);
void k8s_priority(struct k8s *k, struct buf *out, enum spec_priority p); /* its PriorityClass */

/* --- networks, k8s_net.c --- */
/* Network i of a fabric with virtual functions or macvlan: name of the attachment ("rails-net1")
 * and of its resource ("openshift.io/rails_net1"; NULL: none). */
size_t k8s_rail_count(const struct spec_fabric *f);
/* The NICs that every machine of the component's groups has: of the group with the fewest. */
struct spec_nics_of k8s_component_nics(const struct k8s *k, const struct spec_component *c,
                                       const struct spec_fabric *f);
const char *k8s_rail_resource(struct k8s *k, const struct spec_fabric *f, size_t i);
const char *k8s_rail_resource_bare(struct k8s *k, const struct spec_fabric *f, size_t i);
/* Has each NIC a resource of its own?  So when `interfaces` are the machines' names, by which a
 * policy chooses; else (net1, net2 ...) one resource counts all NICs of the fabric. */
bool k8s_rails_apart(const struct spec_fabric *f);
/* Its interface in the pod: interfaces[i], else net1, net2 ... */
const char *k8s_rail_namespace(const struct k8s *k, const struct spec_fabric *f);
/* Lines of a script that make the namespaces of attachments where they are not the target's own;
 * `used`: is the fabric in use? */
void k8s_script_namespaces(struct k8s *k, struct buf *out, const char *tool,
                           bool (*used)(void *of, const struct spec_fabric *f), void *of);
/* Are its devices shared by a device plug-in (rdma/NAME) instead of being given one each? */
bool k8s_rdma_shared(const struct spec_fabric *f);
/* Who gives addresses on it, and the name of nv-ipam's pool for subnet i. */
enum spec_ipam k8s_ipam_kind(const struct spec_fabric *f);
/* The annotation's value that asks for a component's networks; "" when there are none. */
void k8s_networks(struct k8s *k, const struct spec_component *c, struct buf *out);
/* One NetworkAttachmentDefinition, and the SriovNetworkNodePolicy that makes its functions. */
void k8s_attachment(struct k8s *k, struct buf *out, const struct spec_fabric *f, size_t i);
void k8s_sriov_policy(struct k8s *k, struct buf *out, const char *namespace,
                      const struct spec_fabric *f, size_t i);
/* The operator's SriovNetwork (SriovIBNetwork), which makes the attachment instead. */
void k8s_sriov_network(struct k8s *k, struct buf *out, const char *namespace,
                       const struct spec_fabric *f, size_t i);
/* Where the number of a job's pods is from: "components.t.replicas x …nodes_per_replica". */
const char *k8s_pods_from(struct k8s *k, const struct spec_component *c);
#endif
