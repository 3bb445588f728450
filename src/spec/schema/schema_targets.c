/* SPDX-License-Identifier: MIT */
/* schema_targets: the rows below `targets`: what a site is written out for.  The head of
 * spec_schema.c says how to add one. */
#include "spec/schema/schema_int.h"

WORDS(preempts, SPEC_PREEMPTS);
WORDS(job_kinds, SPEC_JOB_KINDS);
WORDS(takes, SPEC_TAKES);
WORDS(mig_strategies, SPEC_MIG_STRATEGIES);

/* clang-format off */
static const struct spec_row partition_rows[] = {
    ROW(NAME, "name", struct spec_partition, name, .required = true, .doc = "name"),
    ROW(NAMES, "nodes", struct spec_partition, nodes, .refers = "nodes", .filled = true,
        .doc = "node groups; unset: all with GPUs, or all where none has any"),
    ROW(BOOL, "default", struct spec_partition, is_default, .dflt = "false",
        .doc = "for jobs that name none"),
    ROW(DURATION, "time_limit", struct spec_partition, time_limit_ms, .min = MINUTE,
        .max = 365 * DAY, .doc = "longest job; unset: no limit"),
    ROW(DURATION, "default_time", struct spec_partition, default_time_ms, .min = MINUTE,
        .max = 365 * DAY, .doc = "of a job that asks for none; unset: 1h, or the shortest limit"),
    ROW(INT, "priority", struct spec_partition, priority, .dflt = "1", .min = 0, .max = 65533,
        .doc = "higher ones are served first"),
    ROW(NAMES, "qos", struct spec_partition, qos, .refers = "qos", .filled = true,
        .doc = "QOS that may be used; unset: all"),
    ROW(CHOICE, "preempt", struct spec_partition, preempt, .dflt = "off", .choices = preempts,
        .doc = "what happens to its jobs when a better one comes"),
};
TABLE(partition_table, struct spec_partition, partition_rows);

static const struct spec_row qos_rows[] = {
    ROW(INT, "priority", struct spec_qos, priority, .dflt = "0", .min = 0, .max = 1000000,
        .doc = "higher goes first"),
    ROW(INT, "max_gpus", struct spec_qos, max_gpus, .min = 1, .max = 160000,
        .doc = "GPUs one user may hold"),
    ROW(INT, "max_jobs", struct spec_qos, max_jobs, .min = 1, .max = 1000000,
        .doc = "jobs one user may run"),
    ROW(DURATION, "max_time", struct spec_qos, max_time_ms, .min = MINUTE, .max = 365 * DAY,
        .doc = "longest job"),
    ROW(NAMES, "preempts", struct spec_qos, preempts, .refers = "qos",
        .doc = "QOS whose jobs it may push aside"),
    ROW(DURATION, "grace", struct spec_qos, grace_ms, .dflt = "2m",
        .dflt_from = "the longest of the QOS that push it aside", .min = 0, .max = DAY,
        .doc = "time a job gets to save itself"),
};
TABLE(qos_table, struct spec_qos, qos_rows);

static const struct spec_row account_rows[] = {
    ROW(INT, "share", struct spec_account, share, .dflt = "1", .min = 1, .max = 1000000,
        .doc = "fair share, relative to the other accounts"),
    ROW(STRS, "users", struct spec_account, users, .doc = "its users"),
    ROW(NAMES, "qos", struct spec_account, qos, .refers = "qos", .filled = true,
        .doc = "QOS it may use; unset: all"),
    ROW(INT, "max_gpus", struct spec_account, max_gpus, .min = 1, .max = 160000,
        .doc = "GPUs it may hold at once"),
};
TABLE(account_table, struct spec_account, account_rows);

static const struct spec_row slurm_priority_rows[] = {
    ROW(INT, "age", struct spec_slurm_priority, age, .dflt = "1000", .min = 0, .max = 1000000,
        .doc = "weight of the time waited"),
    ROW(INT, "fair_share", struct spec_slurm_priority, fair_share, .dflt = "10000", .min = 0,
        .max = 1000000, .doc = "weight of the fair share"),
    ROW(INT, "job_size", struct spec_slurm_priority, job_size, .dflt = "1000", .min = 0,
        .max = 1000000, .doc = "weight of the size"),
    ROW(INT, "partition", struct spec_slurm_priority, partition, .dflt = "1000", .min = 0,
        .max = 1000000, .doc = "weight of the partition"),
    ROW(INT, "qos", struct spec_slurm_priority, qos, .dflt = "10000", .min = 0, .max = 1000000,
        .doc = "weight of the QOS"),
    ROW(DURATION, "half_life", struct spec_slurm_priority, half_life_ms, .dflt = "7d",
        .min = HOUR, .max = 365 * DAY, .doc = "time after which past use counts half"),
    ROW(DURATION, "max_age", struct spec_slurm_priority, max_age_ms, .dflt = "7d", .min = HOUR,
        .max = 365 * DAY, .doc = "waiting time after which age counts in full"),
};
TABLE(slurm_priority_table, struct spec_slurm_priority, slurm_priority_rows);

static const struct spec_row backfill_rows[] = {
    ROW(BOOL, "enabled", struct spec_backfill, enabled, .dflt = "true",
        .doc = "small jobs fill gaps that delay nobody"),
    ROW(DURATION, "interval", struct spec_backfill, interval_ms, .dflt = "30s", .min = SEC,
        .max = HOUR, .doc = "time between passes"),
    ROW(DURATION, "window", struct spec_backfill, window_ms, .dflt = "2d",
        .dflt_from = "the longest time limit where that is more", .min = HOUR,
        .max = SPEC_BACKFILL_MAX_MS, .doc = "how far it looks ahead"),
    ROW(INT, "max_jobs", struct spec_backfill, max_jobs, .dflt = "1000", .min = 1, .max = 1000000,
        .doc = "jobs looked at in a pass"),
};
TABLE(backfill_table, struct spec_backfill, backfill_rows);

static const struct spec_row accounting_rows[] = {
    ROW(BOOL, "enabled", struct spec_accounting, enabled, .dflt = "true",
        .doc = "jobs are recorded by slurmdbd"),
    ROW(WORD, "host", struct spec_accounting, host, .dflt = "localhost",
        .dflt_from = "the controller's host",
        .doc = "where slurmdbd runs"),
    ROW(NAME, "database", struct spec_accounting, database, .dflt = "slurm_acct_db",
        .doc = "name of the database"),
    ROW(BOOL, "enforce_limits", struct spec_accounting, enforce_limits, .dflt = "true",
        .doc = "limits of accounts and QOS hold"),
};
TABLE(accounting_table, struct spec_accounting, accounting_rows);

static const struct spec_row power_save_rows[] = {
    ROW(DURATION, "suspend_after", struct spec_power_save, suspend_after_ms, .dflt = "10m",
        .min = SEC, .max = 30 * DAY, .doc = "idle time before a machine is stopped"),
    ROW(DURATION, "resume_timeout", struct spec_power_save, resume_timeout_ms, .dflt = "10m",
        .min = SEC, .max = DAY, .doc = "time a machine may take to come up"),
    ROW(DURATION, "suspend_timeout", struct spec_power_save, suspend_timeout_ms, .dflt = "2m",
        .min = SEC, .max = DAY, .doc = "time a machine may take to go down"),
    ROW(PATH, "resume_program", struct spec_power_save, resume_program, .required = true,
        .doc = "the site's script that starts machines"),
    ROW(PATH, "suspend_program", struct spec_power_save, suspend_program, .required = true,
        .doc = "the site's script that stops machines"),
};
TABLE(power_save_table, struct spec_power_save, power_save_rows);

static const struct spec_row slurm_rows[] = {
    ROW(NAME, "cluster", struct spec_slurm, cluster, .dflt = "cluster",
        .doc = "name of the cluster"),
    ROW(WORD, "controller", struct spec_slurm, controller, .dflt = "localhost",
        .doc = "host of slurmctld"),
    ROW(WORD, "backup_controller", struct spec_slurm, backup_controller,
        .doc = "host of a second slurmctld; state_dir must then be on storage both have"),
    ROW(WORD, "version", struct spec_slurm, version, .dflt = "22.05",
        .doc = "Slurm release the files are for"),
    ROW(PATH, "state_dir", struct spec_slurm, state_dir, .dflt = "/var/spool/slurmctld",
        .doc = "where slurmctld keeps its state"),
    ROW(PATH, "log_dir", struct spec_slurm, log_dir, .dflt = "/var/log/slurm", .doc = "logs"),
    TREES(LIST, "partitions", struct spec_slurm, partitions, partition_count, partition_table,
        .doc = "partitions; none: 'main' of machines with GPUs, 'cpu' of others, 'all' where a job "
               "names both"),
    TREES(MAP, "qos", struct spec_slurm, qos, qos_count, qos_table,
        .doc = "qualities of service by name"),
    TREES(MAP, "accounts", struct spec_slurm, accounts, account_count, account_table,
        .doc = "accounts by name"),
    TREE(SECTION, "priority", struct spec_slurm, priority, slurm_priority_table,
        .doc = "weights of the multifactor priority"),
    TREE(SECTION, "backfill", struct spec_slurm, backfill, backfill_table,
        .doc = "backfill scheduling"),
    ROW(CHOICE, "preempt", struct spec_slurm, preempt, .dflt = "off", .choices = preempts,
        .doc = "what happens to jobs that a better QOS pushes aside"),
    ROW(BOOL, "gang", struct spec_slurm, gang, .dflt = "false",
        .doc = "suspended jobs take turns"),
    ROW(DURATION, "timeslice", struct spec_slurm, timeslice_ms, .dflt = "30s", .min = 5 * SEC,
        .max = HOUR, .doc = "length of a turn"),
    TREE(SECTION, "accounting", struct spec_slurm, accounting, accounting_table,
        .doc = "records of jobs"),
    ROW(DURATION, "health_check", struct spec_slurm, health_check_ms, .dflt = "5m", .min = 0,
        .max = DAY, .doc = "time between checks of a node; 0: off"),
    TREE(OPTION, "power_save", struct spec_slurm, power_save, power_save_table,
        .doc = "machines that are not used are stopped"),
};
TABLE(slurm_table, struct spec_slurm, slurm_rows);

static const struct spec_row kubernetes_rows[] = {
    ROW(NAME, "namespace", struct spec_kubernetes, namespace, .dflt = "stoker",
        .doc = "namespace everything goes into"),
    ROW(WORD, "version", struct spec_kubernetes, version, .dflt = "1.27",
        .doc = "Kubernetes release the files are for"),
    ROW(CHOICE, "job", struct spec_kubernetes, job, .dflt = "job", .choices = job_kinds,
        .doc = "object a training component becomes"),
    ROW(CHOICE, "components", struct spec_kubernetes, components, .dflt = "auto", .choices = takes,
        .doc = "own: those with target kubernetes; all: others with an image, too; "
               "auto: all if none is own"),
    ROW(NAME, "storage_class", struct spec_kubernetes, storage_class,
        .doc = "for volumes that name none"),
    ROW(NAME, "queue", struct spec_kubernetes, queue, .doc = "Kueue local queue"),
    ROW(NAME, "priority_class", struct spec_kubernetes, priority_class,
        .doc = "priority class of the pods"),
    ROW(NAME, "runtime_class", struct spec_kubernetes, runtime_class,
        .doc = "runtime class of pods with GPUs"),
    ROW(BOOL, "gpu_operator", struct spec_kubernetes, gpu_operator, .dflt = "true",
        .doc = "the GPU Operator prepares the nodes"),
    ROW(CHOICE, "mig_strategy", struct spec_kubernetes, mig_strategy, .dflt = "mixed",
        .choices = mig_strategies,
        .doc = "MIG instances as nvidia.com/mig-PROFILE (mixed) or as nvidia.com/gpu (single)"),
    ROW(BOOL, "network_policy", struct spec_kubernetes, network_policy, .dflt = "true",
        .doc = "pods reach and are reached by what traffic, ports and egress of the spec say"),
    ROW(WORD, "stoker_image", struct spec_kubernetes, stoker_image,
        .doc = "image with stoker in it, for the agent, servers and init containers"),
    ROW(STRS, "pull_secrets", struct spec_kubernetes, pull_secrets,
        .doc = "secrets for the image registry"),
};
TABLE(kubernetes_table, struct spec_kubernetes, kubernetes_rows);

static const struct spec_row build_rows[] = {
    ROW(WORD, "git", struct spec_build, git, .required = true, .doc = "repository to build from"),
    ROW(WORD, "ref", struct spec_build, ref, .dflt = "main", .doc = "branch, tag or commit"),
    ROW(WORD, "context", struct spec_build, context, .dflt = ".", .doc = "folder to build in"),
    ROW(WORD, "containerfile", struct spec_build, containerfile, .dflt = "Containerfile",
        .doc = "recipe in that folder"),
};
TABLE(build_table, struct spec_build, build_rows);

static const struct spec_row openshift_rows[] = {
    ROW(NAME, "namespace", struct spec_openshift, namespace, .dflt = "stoker",
        .doc = "project everything goes into"),
    ROW(WORD, "version", struct spec_openshift, version, .dflt = "4.14",
        .doc = "OpenShift release the files are for"),
    ROW(NAME, "service", struct spec_openshift, service, .dflt = "headless",
        .doc = "headless service the pods find each other by"),
    ROW(NAME, "service_account", struct spec_openshift, service_account, .dflt = "stoker",
        .doc = "service account of the pods"),
    ROW(NAME, "scc", struct spec_openshift, scc, .dflt = "stoker-rdma",
        .doc = "security context constraint that allows locked memory"),
    ROW(NAME, "storage_class", struct spec_openshift, storage_class,
        .doc = "for volumes that name none"),
    ROW(NAME, "image_stream", struct spec_openshift, image_stream, .dflt = "trainer",
        .doc = "image stream the build writes to"),
    ROW(WORD, "stoker_image", struct spec_openshift, stoker_image,
        .doc = "image with stoker in it, for servers and init containers"),
    ROW(BOOL, "network_policy", struct spec_openshift, network_policy, .dflt = "true",
        .doc = "pods reach and are reached by what traffic, ports and egress of the spec say"),
    ROW(CHOICE, "mig_strategy", struct spec_openshift, mig_strategy, .dflt = "mixed",
        .choices = mig_strategies,
        .doc = "MIG instances as nvidia.com/mig-PROFILE (mixed) or as nvidia.com/gpu (single)"),
    TREE(OPTION, "build", struct spec_openshift, build, build_table,
        .doc = "how the image is built"),
};
TABLE(openshift_table, struct spec_openshift, openshift_rows);

static const struct spec_row compose_rows[] = {
    ROW(NAME, "project", struct spec_compose, project, .dflt = "stoker",
        .doc = "name of the project"),
    ROW(BOOL, "mps", struct spec_compose, mps, .dflt = "false",
        .doc = "an MPS daemon runs beside the components"),
    ROW(PATH, "mps_dir", struct spec_compose, mps_dir, .dflt = "/tmp/nvidia-mps",
        .doc = "where its pipes are"),
};
TABLE(compose_table, struct spec_compose, compose_rows);

static const struct spec_row systemd_rows[] = {
    ROW(NAME, "user", struct spec_systemd, user, .dflt = "stoker", .doc = "user of the units"),
    ROW(NAME, "group", struct spec_systemd, group, .dflt = "stoker", .doc = "their group"),
    ROW(PATH, "state_dir", struct spec_systemd, state_dir, .dflt = "/var/lib/stoker",
        .doc = "state"),
    ROW(PATH, "log_dir", struct spec_systemd, log_dir, .dflt = "/var/log/stoker", .doc = "logs"),
    ROW(BOOL, "harden", struct spec_systemd, harden, .dflt = "true",
        .doc = "units see only what they need"),
    ROW(DURATION, "watchdog", struct spec_systemd, watchdog_ms, .dflt = "30s", .min = 0,
        .max = HOUR, .doc = "silence after which a unit is restarted; 0: off"),
};
TABLE(systemd_table, struct spec_systemd, systemd_rows);

static const struct spec_row prometheus_rows[] = {
    ROW(WORD, "url", struct spec_prometheus, url, .dflt = "http://localhost:9090",
        .doc = "where it answers"),
    ROW(DURATION, "scrape_interval", struct spec_prometheus, scrape_ms, .dflt = "15s",
        .min = SEC, .max = HOUR, .doc = "time between scrapes"),
    ROW(DURATION, "evaluation_interval", struct spec_prometheus, evaluate_ms, .dflt = "15s",
        .min = SEC, .max = HOUR, .doc = "time between evaluations of the rules"),
    ROW(DURATION, "retention", struct spec_prometheus, retention_ms, .dflt = "32d", .min = HOUR,
        .max = 3650 * DAY, .doc = "how long samples are kept"),
    ROW(STRS, "alertmanagers", struct spec_prometheus, alertmanagers,
        .doc = "host:port of each Alertmanager"),
};
TABLE(prometheus_table, struct spec_prometheus, prometheus_rows);

static const struct spec_row grafana_rows[] = {
    ROW(STR, "folder", struct spec_grafana, folder, .dflt = "stoker",
        .doc = "folder of the dashboards"),
    ROW(STR, "datasource", struct spec_grafana, datasource, .dflt = "Prometheus",
        .doc = "name of the data source"),
};
TABLE(grafana_table, struct spec_grafana, grafana_rows);

static const struct spec_row lustre_rows[] = {
    ROW(NAME, "fsname", struct spec_lustre, fsname, .dflt = "scratch",
        .doc = "name of the file system, at most 8 characters"),
    ROW(WORD, "mgs", struct spec_lustre, mgs, .required = true,
        .doc = "network id of the management server, 10.0.0.2@o2ib; ':' before one that stands in"),
    ROW(REF, "metadata", struct spec_lustre, metadata, .refers = "nodes",
        .doc = "node group of MGS and MDTs; unset: the first quarter of the storage machines"),
    ROW(INT, "mdts", struct spec_lustre, mdts, .dflt = "1", .min = 1, .max = 256,
        .doc = "metadata targets"),
    ROW(INT, "osts", struct spec_lustre, osts, .dflt = "8", .min = 1, .max = 2000,
        .doc = "object storage targets"),
    ROW(BOOL, "failover", struct spec_lustre, failover, .dflt = "false",
        .doc = "a target may run on its server and on the next of its kind (service nodes)"),
    ROW(STRS, "networks", struct spec_lustre, networks,
        .doc = "networks of LNet, such as o2ib(ib0) or tcp(eth0); unset: configured elsewhere"),
    ROW(WORD, "mount_options", struct spec_lustre, mount_options, .dflt = "flock,lazystatfs",
        .doc = "options of a client's mount"),
};
TABLE(lustre_table, struct spec_lustre, lustre_rows);

static const struct spec_row target_rows[] = {
    TREE(OPTION, "slurm", struct spec_targets, slurm, slurm_table, .doc = "a Slurm cluster"),
    TREE(OPTION, "kubernetes", struct spec_targets, kubernetes, kubernetes_table,
        .doc = "a Kubernetes cluster"),
    TREE(OPTION, "openshift", struct spec_targets, openshift, openshift_table,
        .doc = "an OpenShift cluster"),
    TREE(OPTION, "compose", struct spec_targets, compose, compose_table,
        .doc = "a compose file"),
    TREE(OPTION, "systemd", struct spec_targets, systemd, systemd_table,
        .doc = "systemd units"),
    TREE(OPTION, "prometheus", struct spec_targets, prometheus, prometheus_table,
        .doc = "Prometheus and its rules"),
    TREE(OPTION, "grafana", struct spec_targets, grafana, grafana_table,
        .doc = "Grafana dashboards"),
    TREE(OPTION, "lustre", struct spec_targets, lustre, lustre_table,
        .doc = "a Lustre file system"),
};
/* clang-format on */
const struct spec_table spec_target_table = { sizeof(struct spec_targets), target_rows,
                                              ARRAY_SIZE(target_rows) };
