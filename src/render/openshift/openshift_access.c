/* SPDX-License-Identifier: MIT */
/* openshift_access: what the pods may do.
 *
 * Not privileged: no capability but IPC_LOCK, nothing of the host, no other user than one of the
 * project's range.  RDMA must lock memory.  Kubernetes gives an added capability to root only, so
 * IPC_LOCK lifts the limit for pods that run as root; for all others the limit itself must be
 * unlimited, and only the machines' container runtime can say that: CRI-O ignores an annotation
 * for it.  node/memlock.bu does; it restarts machines and is applied by hand. */
#include "render/openshift/openshift_int.h"

static void put_strategy(struct yaml_out *y, const char *key, const char *type)
{
    yaml_map_of(y, key, "type", type);
}

static void put_list(struct yaml_out *y, const char *key, const char *const *items)
{
    yaml_seq(y, key);
    for (size_t i = 0; items[i]; i++)
        yaml_str(y, NULL, items[i]);
    yaml_end(y);
}

static void put_refusals(struct yaml_out *y)
{
    static const char *const off[] = { "allowHostDirVolumePlugin", "allowHostIPC",
                                       "allowHostNetwork",         "allowHostPID",
                                       "allowHostPorts",           "allowPrivilegeEscalation",
                                       "allowPrivilegedContainer" };

    for (size_t i = 0; i < sizeof(off) / sizeof(*off); i++)
        yaml_bool(y, off[i], false);
}

static void constraint_write(struct shift *s, struct buf *b)
{
    static const char *const lock[] = { "IPC_LOCK", NULL }, *const all[] = { "ALL", NULL },
                             *const none[] = { NULL },
                             *const seccomp[] = { "runtime/default", NULL },
                             *const volumes[] = { "configMap",
                                                  "downwardAPI",
                                                  "emptyDir",
                                                  "ephemeral",
                                                  "persistentVolumeClaim",
                                                  "projected",
                                                  "secret",
                                                  NULL };
    struct yaml_out y;

    k8s_object_in(&s->k, &y, b, "security.openshift.io/v1", "SecurityContextConstraints", NULL,
                  k8s_name(&s->k, s->t->scc, ""), NULL);
    yaml_note(&y, "after the constraints of others: taken only where they do not suffice");
    yaml_int(&y, "priority", 0);
    put_refusals(&y);
    yaml_note(&y, "RDMA locks memory");
    put_list(&y, "allowedCapabilities", lock);
    put_list(&y, "defaultAddCapabilities", none);
    put_list(&y, "requiredDropCapabilities", all);
    yaml_bool(&y, "readOnlyRootFilesystem", false);
    yaml_note(&y, s->root ? "a component of the spec runs as root" : "of the project's range");
    put_strategy(&y, "runAsUser", s->root ? "RunAsAny" : "MustRunAsRange");
    put_strategy(&y, "seLinuxContext", "MustRunAs");
    yaml_note(&y, "volumes belong to a group of the project's");
    put_strategy(&y, "fsGroup", "MustRunAs");
    put_strategy(&y, "supplementalGroups", "RunAsAny");
    put_list(&y, "seccompProfiles", seccomp);
    put_list(&y, "volumes", volumes);
    yaml_comment(&y, "nobody by name: the role below lets the service account use it");
    put_list(&y, "users", none);
    put_list(&y, "groups", none);
    yaml_finish(&y);
}

static void role_write(struct shift *s, struct buf *b, const char *name)
{
    struct yaml_out y;

    k8s_object(&s->k, &y, b, "rbac.authorization.k8s.io/v1", "Role", name, NULL);
    yaml_open(&y, "rules[]");
    put_list(&y, "apiGroups", (const char *const[]){ "security.openshift.io", NULL });
    put_list(&y, "resources", (const char *const[]){ "securitycontextconstraints", NULL });
    put_list(&y, "resourceNames", (const char *const[]){ k8s_name(&s->k, s->t->scc, ""), NULL });
    put_list(&y, "verbs", (const char *const[]){ "use", NULL });
    yaml_finish(&y);
}

static void binding_write(struct shift *s, struct buf *b, const char *name)
{
    struct yaml_out y;

    k8s_object(&s->k, &y, b, "rbac.authorization.k8s.io/v1", "RoleBinding", name, NULL);
    yaml_map_of(&y, "roleRef", "apiGroup", "rbac.authorization.k8s.io", "kind", "Role", "name",
                name);
    yaml_seq(&y, "subjects");
    yaml_map_of(&y, NULL, "kind", "ServiceAccount", "name", s->k.service_account, "namespace",
                s->k.namespace);
    yaml_finish(&y);
}

/* For butane, which makes a MachineConfig of it. */
static void memlock_write(struct shift *s)
{
    struct buf *b = render_file(s->k.r, "openshift/node/memlock.bu");
    struct yaml_out y;

    render_head(s->k.r, b, "#", "Unlimited locked memory for containers on the workers.");
    buf_adds(b, "# butane memlock.bu | oc apply -f -   restarts the machines of the pool one by "
                "one.\n");
    yaml_begin(&y, b);
    yaml_str(&y, "variant", "openshift");
    yaml_note(&y, "of this format");
    yaml_str(&y, "version", "4.14.0");
    yaml_map(&y, "metadata");
    yaml_str(&y, "name", "99-worker-stoker-memlock");
    yaml_map_of(&y, "labels", "machineconfiguration.openshift.io/role", "worker");
    yaml_end(&y);
    yaml_open(&y, "storage.files[]");
    yaml_str(&y, "path", "/etc/crio/crio.conf.d/99-stoker-memlock.conf");
    yaml_note(&y, "0644");
    yaml_int(&y, "mode", 420);
    yaml_bool(&y, "overwrite", true);
    yaml_map(&y, "contents");
    yaml_text(&y, "inline", "[crio.runtime]\ndefault_ulimits = [\"memlock=-1:-1\"]\n");
    yaml_finish(&y);
}

void shift_access(struct shift *s)
{
    struct buf *b = shift_file(s, "access.yaml", "Who the pods are, and what they may do.");
    const char *name = k8s_name(&s->k, s->t->scc, "-use");
    struct yaml_out y;

    buf_addf(b, "# Names: %s (account), %s (constraint).\n",
             render_from(s->k.r, &s->t->service_account), render_from(s->k.r, &s->t->scc));
    k8s_object(&s->k, &y, b, "v1", "ServiceAccount", s->k.service_account, NULL);
    yaml_note(&y, "pods ask nothing of the API server");
    yaml_bool(&y, "automountServiceAccountToken", false);
    yaml_finish(&y);
    constraint_write(s, b);
    role_write(s, b, name);
    binding_write(s, b, name);
    memlock_write(s);
}
