/* SPDX-License-Identifier: MIT */
/* spec_schema: every key of stoker.yaml, once.
 *
 * From these rows come parsing, defaults, range checks, `spec show`, `spec doc` and
 * docs/reference/spec.md.  To add a key:
 *
 *   1. put a member into the struct in spec.h
 *   2. put a row here (targets: schema_targets.c); its C type is found from the member, so
 *      the two cannot differ
 *   3. make docs (the reference page; tests/cli/spec.t fails until it is current)
 *
 * A member that can be unset is a `const char *`, struct maybe, spec_num, spec_money or
 * spec_quantity and its row has no default; any other has a default or is required.
 * What two keys together must satisfy is in check.c. */
#include "spec/schema/schema_int.h"

WORDS(versions, SPEC_VERSIONS);
WORDS(roles, SPEC_ROLES);
WORDS(arches, SPEC_ARCHES);
WORDS(capacities, SPEC_CAPACITIES);
WORDS(links, SPEC_LINKS);
WORDS(compute_modes, SPEC_COMPUTE_MODES);
WORDS(sharings, SPEC_SHARINGS);
WORDS(fabric_kinds, SPEC_FABRIC_KINDS);
WORDS(ipams, SPEC_IPAMS);
WORDS(storage_kinds, SPEC_STORAGE_KINDS);
WORDS(access_modes, SPEC_ACCESS_MODES);
WORDS(priorities, SPEC_PRIORITIES);
WORDS(patterns, SPEC_PATTERNS);
WORDS(component_kinds, SPEC_COMPONENT_KINDS);
WORDS(target_names, SPEC_TARGETS);
WORDS(restarts, SPEC_RESTARTS);
WORDS(protocols, SPEC_PROTOCOLS);
WORDS(traffics, SPEC_TRAFFICS);
WORDS(shape_kinds, SPEC_SHAPE_KINDS);
WORDS(frameworks, SPEC_FRAMEWORKS);
WORDS(precisions, SPEC_PRECISIONS);
WORDS(recomputes, SPEC_RECOMPUTES);
WORDS(model_kinds, SPEC_MODEL_KINDS);
WORDS(devices, SPEC_DEVICES);
WORDS(pool_devices, SPEC_POOL_DEVICES);
WORDS(loads, SPEC_LOADS);
WORDS(dtypes, SPEC_DTYPES);
WORDS(poolings, SPEC_POOLINGS);
WORDS(hows, SPEC_HOWS);
WORDS(severities, SPEC_SEVERITIES);
WORDS(sides, SPEC_SIDES);
WORDS(overruns, SPEC_OVERRUNS);
WORDS(dcgm_names, SPEC_DCGM_NAMES);
#define WORD3_(id, text, unit) text,
static const char *const metrics[] = { SPEC_METRICS(WORD3_) NULL };

#define UNIT3_(id, text, unit) SPEC_UNIT_##unit,
static const enum spec_unit metric_units[] = { SPEC_METRICS(UNIT3_) };

/* clang-format off */
/* --- what there is --- */
static const struct spec_row site_rows[] = {
    ROW(NAME, "name", struct spec_site, name, .dflt = "local",
        .doc = "short name of the site; prefixes what is written out"),
    ROW(STR, "description", struct spec_site, description, .doc = "one line for people"),
    ROW(STR, "owner", struct spec_site, owner, .doc = "who answers for it"),
    ROW(STR, "contact", struct spec_site, contact, .doc = "where to reach them"),
    ROW(PAIRS, "labels", struct spec_site, labels,
        .doc = "put on every object and every metric of the site"),
};
TABLE(site_table, struct spec_site, site_rows);

static const struct spec_row software_rows[] = {
    ROW(WORD, "driver", struct spec_software, driver, .dflt = "535",
        .doc = "minimum NVIDIA driver version"),
    ROW(WORD, "cuda", struct spec_software, cuda, .dflt = "12.0", .doc = "minimum CUDA version"),
    ROW(WORD, "kernel", struct spec_software, kernel, .doc = "minimum Linux kernel version"),
    ROW(WORD, "cudnn", struct spec_software, cudnn, .doc = "minimum cuDNN version"),
    ROW(WORD, "nccl", struct spec_software, nccl, .doc = "minimum NCCL version"),
    ROW(WORD, "python", struct spec_software, python, .doc = "minimum Python version"),
    ROW(WORD, "torch", struct spec_software, torch, .doc = "minimum PyTorch version"),
    ROW(BOOL, "container_runtime", struct spec_software, container_runtime, .dflt = "false",
        .doc = "a container runtime with GPU support must be there"),
    ROW(BOOL, "dcgm", struct spec_software, dcgm, .dflt = "false", .doc = "DCGM must be there"),
};
TABLE(software_table, struct spec_software, software_rows);

static const struct spec_row gpu_rows[] = {
    ROW(LABEL, "model", struct spec_gpu, model, .required = true,
        .doc = "as the catalogue names it: H200, H100, A100-80GB, L40S"),
    ROW(BYTES, "memory", struct spec_gpu, memory_bytes, .min = GB, .max = 4 * TB,
        .doc = "memory of one GPU; unset: the catalogue's"),
    ROW(BANDWIDTH, "memory_bandwidth", struct spec_gpu, memory_bps, .min = 1000000000,
        .max = 1000000000000000, .doc = "memory bandwidth of one GPU"),
    ROW(CHOICE, "link", struct spec_gpu, link, .dflt = "pcie", .dflt_from = "as the model has it",
        .choices = links, .doc = "what joins the GPUs of a node"),
    ROW(BANDWIDTH, "link_bandwidth", struct spec_gpu, link_bps, .min = 1000000000,
        .max = 1000000000000000, .doc = "bandwidth of the link of one GPU, both directions"),
    ROW(INT, "power", struct spec_gpu, power_w, .min = 10, .max = 10000,
        .doc = "board power of one GPU in watts"),
    ROW(BOOL, "persistence", struct spec_gpu, persistence, .dflt = "true",
        .doc = "persistence mode is wanted"),
    ROW(BOOL, "ecc", struct spec_gpu, ecc, .dflt = "true", .doc = "ECC is wanted"),
    ROW(CHOICE, "compute_mode", struct spec_gpu, compute_mode, .dflt = "default",
        .choices = compute_modes, .doc = "who may open a context on the GPU"),
    ROW(CHOICE, "sharing", struct spec_gpu, sharing, .dflt = "auto", .choices = sharings,
        .doc = "how several components share a GPU; auto: chosen from the workload"),
    ROW(LABEL, "mig_profile", struct spec_gpu, mig_profile,
        .doc = "MIG profile of each instance, such as 1g.18gb; needs sharing: mig"),
    ROW(INT, "power_limit", struct spec_gpu, power_limit_w, .min = 10, .max = 10000,
        .doc = "power limit to set, in watts"),
    ROW(INT, "clock", struct spec_gpu, clock_mhz, .min = 100, .max = 10000,
        .doc = "SM clock to lock, in MHz"),
};
TABLE(gpu_table, struct spec_gpu, gpu_rows);

static const struct spec_row nics_rows[] = {
    ROW(INT, "count", struct spec_nics, count, .min = 1, .max = 32,
        .doc = "NICs of a machine of this group; unset: as many as it names, else the fabric's"),
    ROW(RATE, "rate", struct spec_nics, rate_bps, .min = 1000000, .max = 10000000000000,
        .doc = "rate of one NIC; unset: the fabric's"),
    ROW(STRS, "interfaces", struct spec_nics, interfaces,
        .doc = "their network interfaces; unset: the fabric's"),
    ROW(STRS, "hcas", struct spec_nics, hcas, .doc = "their RDMA devices; unset: the fabric's"),
    ROW(STRS, "pfs", struct spec_nics, pfs,
        .doc = "interfaces that have virtual functions; unset: the fabric's"),
};
TABLE(nics_table, struct spec_nics, nics_rows);

static const struct spec_row node_rows[] = {
    ROW(NAME, "name", struct spec_node, name, .required = true, .doc = "name of the node group"),
    ROW(CHOICE, "role", struct spec_node, role, .dflt = "gpu", .choices = roles,
        .doc = "what these machines do"),
    ROW(CHOICE, "arch", struct spec_node, arch, .dflt = "x86_64",
        .dflt_from = "aarch64 with a Grace CPU", .choices = arches,
        .doc = "instruction set of the machines"),
    ROW(INT, "count", struct spec_node, count, .dflt = "1", .min = 0, .max = 10000,
        .doc = "machines in the group"),
    ROW(WORD, "hosts", struct spec_node, hosts,
        .doc = "host names as a Slurm host list, gpu[1-4]; unset: NAME1 to NAMEcount"),
    ROW(INT, "gpus_per_node", struct spec_node, gpus_per_node, .dflt = "0", .min = 0, .max = 16,
        .doc = "GPUs in each machine"),
    TREE(OPTION, "gpu", struct spec_node, gpu, gpu_table, .doc = "the GPUs of these machines"),
    ROW(INT, "nvlink_domain", struct spec_node, nvlink_domain, .min = 1, .max = 1024,
        .doc = "GPUs that NVLink joins across machines, 72 of a GB200 NVL72; unset: one machine's"),
    ROW(INT, "sockets", struct spec_node, sockets, .dflt = "2", .min = 1, .max = 16,
        .doc = "CPU sockets"),
    ROW(INT, "cpu_cores", struct spec_node, cpu_cores, .min = 1, .max = 4096,
        .doc = "cores of a machine, all sockets together"),
    ROW(INT, "threads_per_core", struct spec_node, threads_per_core, .dflt = "2",
        .dflt_from = "1 on aarch64", .min = 1, .max = 8,
        .doc = "hardware threads of a core"),
    ROW(BYTES, "memory", struct spec_node, memory_bytes, .min = GB, .max = 1024 * TB,
        .doc = "main memory of a machine"),
    ROW(BYTES, "local_disk", struct spec_node, local_disk_bytes, .min = GB, .max = 65536 * TB,
        .doc = "NVMe in a machine"),
    ROW(PATH, "local_path", struct spec_node, local_path, .dflt = "/scratch",
        .doc = "where that disk is mounted"),
    ROW(NAMES, "fabrics", struct spec_node, fabrics, .refers = "fabrics",
        .doc = "networks these machines are on"),
    TREES(MAP, "nics", struct spec_node, nics, nics_count, nics_table,
        .doc = "NICs of these machines by fabric, where they differ from the fabric's"),
    ROW(LABEL, "rack", struct spec_node, rack, .doc = "rack, for placement close together"),
    ROW(CHOICE, "capacity", struct spec_node, capacity, .dflt = "owned", .choices = capacities,
        .doc = "how the machines are had"),
    ROW(WORD, "instance", struct spec_node, instance, .doc = "instance type at a cloud"),
    ROW(STRS, "fallback", struct spec_node, fallback,
        .doc = "instance types to try, in order, when that one is not to be had"),
    ROW(DURATION, "notice", struct spec_node, notice_ms, .dflt = "2m", .min = SEC, .max = DAY,
        .doc = "warning before a spot machine is taken away"),
    ROW(PAIRS, "labels", struct spec_node, labels, .doc = "Kubernetes labels of the machines"),
    ROW(STRS, "taints", struct spec_node, taints,
        .doc = "Kubernetes taints, key=value:effect; components tolerate them"),
    ROW(MONEY, "price", struct spec_node, price, .per = PER_HOUR,
        .doc = "price of one machine an hour"),
    ROW(MONEY, "capex", struct spec_node, capex, .per = PER_ONCE,
        .doc = "what one machine cost to buy"),
    ROW(INT, "power", struct spec_node, power_w, .min = 10, .max = 1000000,
        .doc = "power of one machine under load, in watts"),
};
TABLE(node_table, struct spec_node, node_rows);

static const struct spec_row sriov_rows[] = {
    ROW(WORD, "resource_prefix", struct spec_sriov, resource_prefix, .dflt = "openshift.io",
        .doc = "prefix of the device plug-in's resource names"),
    ROW(WORD, "vendor", struct spec_sriov, vendor, .dflt = "15b3",
        .doc = "PCI vendor of the NICs"),
    ROW(WORD, "device", struct spec_sriov, device, .doc = "PCI device id; unset: any"),
    ROW(STRS, "pfs", struct spec_sriov, pfs,
        .doc = "interfaces of the machines, one a NIC in the order of interfaces; unset: any"),
    ROW(INT, "vfs", struct spec_sriov, vfs, .dflt = "1", .min = 1, .max = 256,
        .doc = "virtual functions on each NIC"),
    ROW(CHOICE, "ipam", struct spec_sriov, ipam, .dflt = "whereabouts", .choices = ipams,
        .doc = "who gives the addresses"),
    ROW(NAME, "network_namespace", struct spec_sriov, network_namespace,
        .doc = "namespace of the attachment definitions, made where it is missing; unset: the "
               "target's"),
    ROW(PAIRS, "node_selector", struct spec_sriov, node_selector,
        .doc = "labels of the machines that have these NICs; unset: groups on the fabric"),
};
TABLE(sriov_table, struct spec_sriov, sriov_rows);

static const struct spec_row switch_rows[] = {
    ROW(WORD, "hosts", struct spec_switch, hosts, .doc = "machines on this switch, gpu[1-8]"),
    ROW(NAMES, "switches", struct spec_switch, switches, .refers = "switches",
        .doc = "switches below this one"),
};
TABLE(switch_table, struct spec_switch, switch_rows);

static const struct spec_row fabric_rows[] = {
    ROW(NAME, "name", struct spec_fabric, name, .required = true, .doc = "name of the network"),
    ROW(CHOICE, "kind", struct spec_fabric, kind, .required = true, .choices = fabric_kinds,
        .doc = "what it is; roce is RoCE v2"),
    ROW(RATE, "rate", struct spec_fabric, rate_bps, .required = true, .min = 1000000,
        .max = 10000000000000, .doc = "rate of one NIC"),
    ROW(INT, "nics_per_node", struct spec_fabric, nics_per_node, .dflt = "1", .min = 1,
        .max = 32, .doc = "NICs of a machine on this network"),
    ROW(STRS, "interfaces", struct spec_fabric, interfaces,
        .doc = "their network interfaces, as the job sees them"),
    ROW(STRS, "hcas", struct spec_fabric, hcas,
        .doc = "their RDMA devices; unset: found on the machine"),
    ROW(CIDRS, "subnets", struct spec_fabric, subnets,
        .doc = "their subnets; one for all, or one each in the order of the interfaces, none in "
               "another"),
    ROW(INT, "mtu", struct spec_fabric, mtu, .dflt = "1500", .min = 576, .max = 65535,
        .doc = "MTU in bytes"),
    ROW(BOOL, "gpudirect", struct spec_fabric, gpudirect, .dflt = "false",
        .doc = "NICs read and write GPU memory themselves"),
    ROW(INT, "gid_index", struct spec_fabric, gid_index, .min = 0, .max = 255,
        .doc = "GID to pin; leave unset unless NCCL picks a wrong one"),
    ROW(INT, "traffic_class", struct spec_fabric, traffic_class, .min = 0, .max = 255,
        .doc = "RoCE traffic class of the lossless queue"),
    TREE(OPTION, "sriov", struct spec_fabric, sriov, sriov_table,
        .doc = "the NICs are virtual functions given to pods"),
    TREES(MAP, "switches", struct spec_fabric, switches, switch_count, switch_table,
        .doc = "switches by name, for placement"),
};
TABLE(fabric_table, struct spec_fabric, fabric_rows);

static const struct spec_row nccl_rows[] = {
    ROW(ENV, "env", struct spec_nccl, env,
        .doc = "variables to force; what is not here is detected on the machine"),
};
TABLE(nccl_table, struct spec_nccl, nccl_rows);

static const struct spec_row stripe_rows[] = {
    ROW(STR, "match", struct spec_stripe, match, .required = true,
        .doc = "file name pattern, such as *.pt"),
    ROW(INT, "count", struct spec_stripe, count, .dflt = "1", .min = -1, .max = 2000,
        .doc = "OSTs a file is spread over; -1: all"),
    ROW(BYTES, "size", struct spec_stripe, size_bytes, .dflt = "1MiB", .min = 64 * KB,
        .max = 4 * GB, .doc = "bytes on one OST before the next"),
};
TABLE(stripe_table, struct spec_stripe, stripe_rows);

static const struct spec_row storage_rows[] = {
    ROW(NAME, "name", struct spec_storage, name, .required = true, .doc = "name of the storage"),
    ROW(CHOICE, "kind", struct spec_storage, kind, .required = true, .choices = storage_kinds,
        .doc = "what it is; volume is a Kubernetes claim, memory is /dev/shm, ceph is CephFS"),
    ROW(PATH, "path", struct spec_storage, path, .doc = "where machines mount it"),
    ROW(WORD, "source", struct spec_storage, source,
        .doc = "server and export, bucket or device it comes from"),
    ROW(BYTES, "size", struct spec_storage, size_bytes, .min = MB, .max = 1048576 * TB,
        .doc = "capacity"),
    ROW(BANDWIDTH, "read_rate", struct spec_storage, read_bps, .min = 1000000,
        .max = 1000000000000000, .doc = "read rate it should give"),
    ROW(BANDWIDTH, "write_rate", struct spec_storage, write_bps, .min = 1000000,
        .max = 1000000000000000, .doc = "write rate it should give"),
    ROW(NAME, "storage_class", struct spec_storage, storage_class,
        .doc = "Kubernetes storage class; unset: the cluster's default"),
    ROW(CHOICE, "access", struct spec_storage, access, .dflt = "ReadWriteMany",
        .choices = access_modes, .doc = "who may mount it at the same time"),
    ROW(BOOL, "per_replica", struct spec_storage, per_replica, .dflt = "false",
        .doc = "every replica has a volume of its own"),
    ROW(BOOL, "keep", struct spec_storage, keep, .dflt = "true",
        .doc = "volumes survive scaling to zero and removal"),
    ROW(BOOL, "read_only", struct spec_storage, read_only, .dflt = "false",
        .doc = "nobody writes to it"),
    TREES(LIST, "stripes", struct spec_storage, stripes, stripe_count, stripe_table,
        .doc = "Lustre striping by kind of file"),
    ROW(MONEY, "price_per_tb", struct spec_storage, price_per_tb, .per = PER_MONTH,
        .doc = "price of a terabyte a month"),
};
TABLE(storage_table, struct spec_storage, storage_rows);

/* --- what runs on it --- */
static const struct spec_row pool_rows[] = {
    ROW(BYTES, "size", struct spec_pool, size_bytes, .required = true, .min = MB, .max = 4 * TB,
        .doc = "share of each GPU's memory, or of the machine's"),
    ROW(CHOICE, "device", struct spec_pool, device, .dflt = "gpu", .choices = pool_devices,
        .doc = "whose memory it is; cpu: the machine's, for models that run on its CPU"),
    ROW(CHOICE, "priority", struct spec_pool, priority, .dflt = "medium", .choices = priorities,
        .doc = "who keeps its memory when it runs short"),
    ROW(CHOICE, "access", struct spec_pool, access, .dflt = "flexible", .choices = patterns,
        .doc = "how the memory is used"),
    ROW(REF, "nodes", struct spec_pool, nodes, .refers = "nodes",
        .doc = "node group; unset: the only one with GPUs"),
    ROW(RANGE, "gpus", struct spec_pool, gpus,
        .doc = "GPU indexes that have this pool, such as 0-3; unset: every GPU"),
    ROW(CHOICE, "sharing", struct spec_pool, sharing, .dflt = "auto", .choices = sharings,
        .doc = "how the share is enforced; auto: chosen from the workload"),
};
TABLE(pool_table, struct spec_pool, pool_rows);

static const struct spec_row shape_rows[] = {
    ROW(CHOICE, "kind", struct spec_shape, kind, .dflt = "dense", .choices = shape_kinds,
        .doc = "family of the model"),
    ROW(PATH, "config", struct spec_shape, config,
        .doc = "a Hugging Face config.json to read the rest from"),
    ROW(COUNT, "params", struct spec_shape, params, .min = 1000, .max = 1000000000000000,
        .doc = "parameters, such as 7B"),
    ROW(INT, "layers", struct spec_shape, layers, .min = 1, .max = 10000, .doc = "layers"),
    ROW(INT, "hidden", struct spec_shape, hidden, .min = 1, .max = 1000000,
        .doc = "width of the residual stream"),
    ROW(INT, "heads", struct spec_shape, heads, .min = 1, .max = 10000,
        .doc = "attention heads; divides hidden"),
    ROW(INT, "kv_heads", struct spec_shape, kv_heads, .min = 1, .max = 10000,
        .doc = "key and value heads; unset: as many as heads"),
    ROW(INT, "ffn", struct spec_shape, ffn, .min = 1, .max = 10000000,
        .doc = "width of the feed-forward layer"),
    ROW(INT, "vocab", struct spec_shape, vocab, .min = 1, .max = 10000000,
        .doc = "size of the vocabulary"),
    ROW(INT, "seq_len", struct spec_shape, seq_len, .min = 1, .max = 100000000,
        .doc = "longest sequence"),
    ROW(INT, "experts", struct spec_shape, experts, .min = 1, .max = 100000,
        .doc = "experts of an moe layer"),
    ROW(INT, "experts_per_token", struct spec_shape, experts_per_token, .min = 1, .max = 1000,
        .doc = "experts each token goes through"),
    ROW(INT, "shared_experts", struct spec_shape, shared_experts, .min = 0, .max = 1000,
        .doc = "experts every token goes through"),
    ROW(BOOL, "tied_embeddings", struct spec_shape, tied_embeddings, .dflt = "false",
        .doc = "input and output embeddings are one matrix"),
    ROW(FLOAT, "flops_per_sample", struct spec_shape, flops_per_sample, .min = 1,
        .max = INT64_MAX, .doc = "measured FLOPs of one sample forward, for vision and others"),
    ROW(BYTES, "activation_memory", struct spec_shape, activation_bytes, .min = 1, .max = 4 * TB,
        .doc = "measured activation bytes of one sample"),
};
TABLE(shape_table, struct spec_shape, shape_rows);

static const struct spec_row parallel_rows[] = {
    ROW(INT, "tensor", struct spec_parallel, tensor, .min = 1, .max = 1024,
        .doc = "tensor parallel size; unset: planned"),
    ROW(INT, "pipeline", struct spec_parallel, pipeline, .min = 1, .max = 1024,
        .doc = "pipeline stages; unset: planned"),
    ROW(INT, "data", struct spec_parallel, data, .min = 1, .max = 160000,
        .doc = "data parallel size; unset: what is left"),
    ROW(INT, "context", struct spec_parallel, context, .min = 1, .max = 1024,
        .doc = "context parallel size; unset: planned"),
    ROW(INT, "expert", struct spec_parallel, expert, .min = 1, .max = 1024,
        .doc = "expert parallel size; unset: planned"),
    ROW(INT, "zero", struct spec_parallel, zero, .min = 0, .max = 3,
        .doc = "ZeRO stage; 3 is FSDP; unset: planned"),
    ROW(BOOL, "sequence", struct spec_parallel, sequence, .dflt = "true",
        .doc = "sequence parallel beside tensor parallel"),
};
TABLE(parallel_table, struct spec_parallel, parallel_rows);

static const struct spec_row loader_rows[] = {
    ROW(INT, "workers_per_gpu", struct spec_loader, workers_per_gpu, .dflt = "2", .min = 0,
        .max = 256, .doc = "reader processes for each GPU"),
    ROW(INT, "prefetch", struct spec_loader, prefetch, .dflt = "2", .min = 0, .max = 1024,
        .doc = "batches each reader keeps ready"),
    ROW(BOOL, "pin_memory", struct spec_loader, pin_memory, .dflt = "true",
        .doc = "batches in page-locked memory"),
    ROW(BOOL, "persistent_workers", struct spec_loader, persistent_workers, .dflt = "true",
        .doc = "readers live from epoch to epoch"),
    ROW(BOOL, "drop_last", struct spec_loader, drop_last, .dflt = "true",
        .doc = "an incomplete last batch is left out"),
};
TABLE(loader_table, struct spec_loader, loader_rows);

static const struct spec_row checkpoint_rows[] = {
    ROW(PATH, "path", struct spec_checkpoint, path,
        .doc = "where checkpoints go; must be durable and shared when the job may move"),
    ROW(INT, "every_steps", struct spec_checkpoint, every_steps, .min = 1, .max = 1000000000,
        .doc = "steps between checkpoints"),
    ROW(DURATION, "every", struct spec_checkpoint, every_ms, .min = SEC, .max = 365 * DAY,
        .doc = "time between checkpoints"),
    ROW(INT, "keep", struct spec_checkpoint, keep, .dflt = "3", .min = 1, .max = 100000,
        .doc = "checkpoints kept"),
    ROW(BOOL, "on_notice", struct spec_checkpoint, on_notice, .dflt = "true",
        .doc = "one more when the machine is about to be taken away"),
    ROW(BOOL, "async", struct spec_checkpoint, async, .dflt = "false",
        .doc = "training goes on while it is written"),
};
TABLE(checkpoint_table, struct spec_checkpoint, checkpoint_rows);

static const struct spec_row rendezvous_rows[] = {
    ROW(PORT, "port", struct spec_rendezvous, port, .dflt = "29500",
        .doc = "port on the first node"),
    ROW(DURATION, "timeout", struct spec_rendezvous, timeout_ms, .dflt = "10m", .min = SEC,
        .max = DAY, .doc = "how long the nodes wait for each other"),
    ROW(INT, "max_restarts", struct spec_rendezvous, max_restarts, .dflt = "3", .min = 0,
        .max = 10000, .doc = "restarts before the job is given up"),
};
TABLE(rendezvous_table, struct spec_rendezvous, rendezvous_rows);

static const struct spec_row training_rows[] = {
    ROW(REF, "shape", struct spec_training, shape, .refers = "shapes",
        .doc = "the model that is trained"),
    ROW(CHOICE, "framework", struct spec_training, framework, .dflt = "torchrun",
        .choices = frameworks, .doc = "what launches it"),
    ROW(CHOICE, "precision", struct spec_training, precision, .dflt = "bf16",
        .choices = precisions, .doc = "number format of the matrix work"),
    ROW(INT, "global_batch", struct spec_training, global_batch, .min = 1, .max = 1000000000,
        .doc = "samples in one optimizer step, all GPUs together"),
    ROW(INT, "batch_per_gpu", struct spec_training, batch_per_gpu, .min = 1, .max = 1000000,
        .doc = "samples one GPU takes at a time"),
    ROW(INT, "seq_len", struct spec_training, seq_len, .min = 1, .max = 100000000,
        .doc = "tokens in a sample"),
    ROW(COUNT, "tokens", struct spec_training, tokens, .min = 1, .max = INT64_MAX,
        .doc = "tokens to train on, such as 1.4T"),
    ROW(COUNT, "steps", struct spec_training, steps, .min = 1, .max = 1000000000000,
        .doc = "optimizer steps to train for"),
    ROW(INT, "epochs", struct spec_training, epochs, .min = 1, .max = 1000000,
        .doc = "passes over the data"),
    ROW(FLOAT, "learning_rate", struct spec_training, learning_rate, .min = 0, .max = 100,
        .doc = "peak learning rate"),
    ROW(WORD, "optimizer", struct spec_training, optimizer, .dflt = "adamw", .doc = "optimizer"),
    ROW(CHOICE, "recompute", struct spec_training, recompute, .dflt = "auto",
        .choices = recomputes, .doc = "activation checkpointing; auto: planned"),
    ROW(BOOL, "sync_batch_norm", struct spec_training, sync_batch_norm, .dflt = "false",
        .doc = "batch norm statistics over all GPUs"),
    ROW(WORD, "allocator", struct spec_training, allocator,
        .doc = "PYTORCH_CUDA_ALLOC_CONF, such as expandable_segments:True"),
    TREE(SECTION, "parallel", struct spec_training, parallel, parallel_table,
        .doc = "how the model is spread over the GPUs"),
    TREE(SECTION, "loader", struct spec_training, loader, loader_table, .doc = "data loading"),
    TREE(SECTION, "checkpoint", struct spec_training, checkpoint, checkpoint_table,
        .doc = "saving and resuming"),
    TREE(SECTION, "rendezvous", struct spec_training, rendezvous, rendezvous_table,
        .doc = "how the nodes find each other"),
};
TABLE(training_table, struct spec_training, training_rows);

static const struct spec_row scale_rows[] = {
    ROW(INT, "min", struct spec_scale, min, .dflt = "1", .min = 0, .max = 10000,
        .doc = "fewest replicas"),
    ROW(INT, "max", struct spec_scale, max, .required = true, .min = 0, .max = 10000,
        .doc = "most replicas"),
    ROW(INT, "step", struct spec_scale, step, .dflt = "1", .min = 1, .max = 10000,
        .doc = "replicas added or taken at once"),
    ROW(CHOICE, "metric", struct spec_scale, metric, .dflt = "gpu_utilization",
        .choices = metrics, .doc = "what decides"),
    ROW(QUANTITY, "target", struct spec_scale, target,
        .doc = "value of the metric to hold; unset: replicas change by hand alone"),
    ROW(DURATION, "up_after", struct spec_scale, up_after_ms, .dflt = "1m", .min = 0, .max = DAY,
        .doc = "how long it must be above before replicas are added"),
    ROW(DURATION, "down_after", struct spec_scale, down_after_ms, .dflt = "10m", .min = 0,
        .max = 30 * DAY, .doc = "how long it must be below before replicas are taken"),
    ROW(DURATION, "cooldown", struct spec_scale, cooldown_ms, .dflt = "5m", .min = 0, .max = DAY,
        .doc = "pause between two changes"),
    ROW(DURATION, "zero_after", struct spec_scale, zero_after_ms, .min = SEC, .max = 365 * DAY,
        .doc = "idle time before scaling to zero; needs min: 0"),
    ROW(DURATION, "verify", struct spec_scale, verify_ms, .dflt = "5m", .min = 0, .max = DAY,
        .doc = "time after which a change must have helped"),
    ROW(BOOL, "rollback", struct spec_scale, rollback, .dflt = "true",
        .doc = "undo a change that did not help"),
    ROW(BOOL, "predict", struct spec_scale, predict, .dflt = "false",
        .doc = "scale ahead of the load that the last days foretell"),
    ROW(MONEY, "max_cost", struct spec_scale, max_cost, .per = PER_HOUR,
        .doc = "no replica is added beyond this cost"),
};
TABLE(scale_table, struct spec_scale, scale_rows);

static const struct spec_row mount_rows[] = {
    ROW(REF, "storage", struct spec_mount, storage, .required = true, .refers = "storage",
        .doc = "what is mounted"),
    ROW(PATH, "path", struct spec_mount, path, .required = true,
        .doc = "where the component sees it"),
    ROW(STR, "subpath", struct spec_mount, subpath, .doc = "folder of the storage"),
    ROW(BOOL, "read_only", struct spec_mount, read_only, .dflt = "false",
        .doc = "the component may not write"),
};
TABLE(mount_table, struct spec_mount, mount_rows);

static const struct spec_row port_rows[] = {
    ROW(NAME, "name", struct spec_port, name, .required = true, .doc = "name of the port"),
    ROW(PORT, "port", struct spec_port, port, .required = true, .doc = "number"),
    ROW(CHOICE, "protocol", struct spec_port, protocol, .dflt = "tcp", .choices = protocols,
        .doc = "transport"),
};
TABLE(port_table, struct spec_port, port_rows);

static const struct spec_row health_rows[] = {
    ROW(PATH, "path", struct spec_health, path, .doc = "path to GET; 200 is healthy"),
    ROW(PORT, "port", struct spec_health, port, .doc = "port to ask; unset: the first one"),
    ROW(STRS, "command", struct spec_health, command,
        .doc = "program to run instead; exit status 0 is healthy"),
    ROW(DURATION, "interval", struct spec_health, interval_ms, .dflt = "10s", .min = SEC,
        .max = DAY, .doc = "time between checks"),
    ROW(DURATION, "timeout", struct spec_health, timeout_ms, .dflt = "5s", .min = 100,
        .max = HOUR, .doc = "time an answer may take"),
    ROW(DURATION, "start", struct spec_health, start_ms, .dflt = "1m", .min = 0, .max = DAY,
        .doc = "time it may take to start"),
    ROW(INT, "retries", struct spec_health, retries, .dflt = "3", .min = 1, .max = 1000,
        .doc = "failures in a row before it counts as down"),
};
TABLE(health_table, struct spec_health, health_rows);

static const struct spec_row image_build_rows[] = {
    ROW(WORD, "base", struct spec_image_build, base,
        .doc = "image to start from; unset: PyTorch's that has what `software` asks for"),
    ROW(STRS, "packages", struct spec_image_build, packages,
        .doc = "packages of the distribution (apt), beside those for RDMA"),
    ROW(STRS, "pip", struct spec_image_build, pip,
        .doc = "Python packages, such as torchtitan==0.1.0"),
    ROW(STRS, "copy", struct spec_image_build, copy,
        .doc = "what is copied in, as SOURCE or SOURCE:/DESTINATION; unset destination: workdir"),
};
TABLE(image_build_table, struct spec_image_build, image_build_rows);

static const struct spec_row component_rows[] = {
    ROW(STR, "description", struct spec_component, description, .doc = "one line for people"),
    ROW(CHOICE, "kind", struct spec_component, kind, .dflt = "service",
        .choices = component_kinds, .doc = "what it is; serving runs `stoker serve`"),
    ROW(CHOICE, "target", struct spec_component, target, .dflt = "local",
        .choices = target_names, .doc = "what runs it; must be in targets, but for local"),
    ROW(GROUPS, "nodes", struct spec_component, groups,
        .first_off = offsetof(struct spec_component, nodes), .refers = "nodes",
        .doc = "node group it runs on, or a list of them; unset: the only one with GPUs"),
    ROW(INT, "gpus", struct spec_component, gpus, .dflt = "0", .min = 0, .max = 16,
        .doc = "GPUs on each node it runs on"),
    ROW(INT, "nodes_per_replica", struct spec_component, nodes_per_replica, .dflt = "1",
        .min = 1, .max = 10000, .doc = "machines one replica spans"),
    ROW(INT, "replicas", struct spec_component, replicas, .dflt = "1", .min = 0, .max = 10000,
        .doc = "how many of it run; of training one job, 'nodes_per_replica' machines each"),
    ROW(BOOL, "queued", struct spec_component, queued, .dflt = "false",
        .doc = "waits in the scheduler's queue, so that its GPUs are not set aside"),
    ROW(WORD, "image", struct spec_component, image,
        .doc = "container image; on Slurm the path of a file too"),
    ROW(STRS, "command", struct spec_component, command,
        .doc = "program and its arguments; of a launcher also NAME.py or -m MODULE"),
    ROW(STRS, "args", struct spec_component, args, .doc = "more arguments"),
    ROW(PATH, "workdir", struct spec_component, workdir, .doc = "working directory"),
    ROW(WORD, "user", struct spec_component, user, .doc = "user it runs as"),
    ROW(ENV, "env", struct spec_component, env,
        .doc = "environment; all can read it in what is rendered: a secret belongs into a file"),
    ROW(NAMES, "depends_on", struct spec_component, depends_on, .refers = "components",
        .doc = "components that must be healthy first"),
    ROW(INT, "cpus", struct spec_component, cpus, .min = 1, .max = 4096,
        .doc = "cores on Slurm, else hardware threads, per node; unset: by its GPUs, else all"),
    ROW(BYTES, "memory", struct spec_component, memory_bytes, .min = MB, .max = 1024 * TB,
        .doc = "main memory on each node; unset: by its GPUs, without any by its cores on Slurm"),
    ROW(BYTES, "shm", struct spec_component, shm_bytes, .min = MB, .max = 1024 * TB,
        .doc = "size of /dev/shm"),
    ROW(NAMES, "pools", struct spec_component, pools, .refers = "pools",
        .doc = "GPU memory pools it takes its memory from"),
    ROW(NAMES, "fabrics", struct spec_component, fabrics, .refers = "fabrics",
        .doc = "networks it uses between nodes"),
    ROW(STRS, "egress", struct spec_component, egress,
        .doc = "subnets outside that pods reach, 10.0.0.0/8:5432 or 0.0.0.0/0; []: none"),
    TREES(LIST, "mounts", struct spec_component, mounts, mount_count, mount_table,
        .doc = "storage it sees"),
    TREES(LIST, "ports", struct spec_component, ports, port_count, port_table,
        .doc = "ports it listens on"),
    TREE(OPTION, "health", struct spec_component, health, health_table,
        .doc = "how to tell that it works"),
    ROW(CHOICE, "restart", struct spec_component, restart, .dflt = "always",
        .dflt_from = "on_failure for training and batch work", .choices = restarts,
        .doc = "when it is started again"),
    ROW(CHOICE, "priority", struct spec_component, priority, .dflt = "medium",
        .choices = priorities, .doc = "who goes first when GPUs are short"),
    ROW(DURATION, "time_limit", struct spec_component, time_limit_ms, .min = MINUTE,
        .max = 365 * DAY, .doc = "longest run"),
    ROW(REF, "partition", struct spec_component, partition, .refers = "partitions",
        .doc = "Slurm partition"),
    ROW(REF, "qos", struct spec_component, qos, .refers = "qos", .doc = "Slurm QOS"),
    ROW(REF, "account", struct spec_component, account, .refers = "accounts",
        .doc = "Slurm account"),
    TREE(OPTION, "training", struct spec_component, training, training_table,
        .doc = "what is trained and how"),
    TREE(OPTION, "scale", struct spec_component, scale, scale_table,
        .doc = "how the number of replicas changes"),
    TREE(OPTION, "build", struct spec_component, build, image_build_table,
        .doc = "how its image is made: a Containerfile is written"),
};
TABLE(component_table, struct spec_component, component_rows);

static const struct spec_row traffic_rows[] = {
    ROW(REF, "from", struct spec_traffic, from, .required = true, .refers = "components",
        .doc = "component that sends"),
    ROW(REF, "to", struct spec_traffic, to, .required = true, .refers = "components",
        .doc = "component that receives"),
    ROW(CHOICE, "kind", struct spec_traffic, kind, .dflt = "p2p", .choices = traffics,
        .doc = "pattern"),
    ROW(BANDWIDTH, "rate", struct spec_traffic, rate_bps, .min = 1, .max = 1000000000000000,
        .doc = "mean rate"),
    ROW(BYTES, "bytes_per_step", struct spec_traffic, bytes_per_step, .min = 1, .max = 1024 * TB,
        .doc = "bytes in each step"),
    ROW(DURATION, "latency_max", struct spec_traffic, latency_ms_max, .min = 1, .max = HOUR,
        .doc = "longest time a message may take"),
};
TABLE(traffic_table, struct spec_traffic, traffic_rows);

static const struct spec_row model_rows[] = {
    ROW(WORD, "source", struct spec_model, source, .required = true,
        .doc = "folder with the model, or its name on the Hugging Face hub"),
    ROW(WORD, "revision", struct spec_model, revision,
        .doc = "commit of the model's repository; a folder of another one is refused"),
    ROW(CHOICE, "kind", struct spec_model, kind, .required = true, .choices = model_kinds,
        .doc = "what it computes; files of another kind are refused"),
    ROW(REF, "component", struct spec_model, component, .refers = "components",
        .doc = "serving component; unset: `stoker serve` of every node"),
    ROW(CHOICE, "device", struct spec_model, device, .dflt = "auto", .choices = devices,
        .doc = "where `stoker serve` runs it; auto: GPUs if `gpus` names some, else the CPU"),
    ROW(CHOICE, "dtype", struct spec_model, dtype, .dflt = "auto", .choices = dtypes,
        .doc = "number format; auto: f16 on a GPU, bf16 where a CPU is faster so, else f32"),
    ROW(RANGE, "gpus", struct spec_model, gpus,
        .doc = "GPU indexes it is loaded on, once each; unset: all, on device gpu"),
    ROW(WORD, "fallback", struct spec_model, fallback, .dflt = "auto",
        .doc = "device that computes while its own fails; auto: cpu behind others; none: nobody"),
    ROW(BOOL, "fallback_at_start", struct spec_model, fallback_at_start, .dflt = "false",
        .doc = "load it there at once, not when it is needed first"),
    ROW(REF, "pool", struct spec_model, pool, .refers = "pools",
        .doc = "memory pool it takes its memory from; one of device cpu is for the CPU"),
    ROW(CHOICE, "load", struct spec_model, load, .dflt = "at_start", .choices = loads,
        .doc = "when it is loaded; on_demand: when it is asked for first"),
    ROW(INT, "batch", struct spec_model, batch, .min = 1, .max = 65536,
        .doc = "most texts in one batch; unset: as many as batch_tokens hold"),
    ROW(INT, "batch_tokens", struct spec_model, batch_tokens, .min = 1, .max = 16777216,
        .doc = "most tokens in one batch; unset: from the device"),
    ROW(INT, "max_tokens", struct spec_model, max_tokens, .min = 1, .max = 1048576,
        .doc = "longest text; unset: the model's"),
    ROW(BYTES, "memory", struct spec_model, memory_bytes, .min = MB, .max = 4 * TB,
        .doc = "memory it may take; unset: counted before it loads"),
    ROW(BOOL, "normalize", struct spec_model, normalize, .dflt = "true",
        .dflt_from = "as each API does",
        .doc = "vectors of length one unless a request says otherwise"),
    ROW(CHOICE, "pooling", struct spec_model, pooling, .dflt = "auto", .choices = poolings,
        .doc = "how token vectors become one; auto: the model's"),
    ROW(CHOICE, "priority", struct spec_model, priority, .dflt = "medium", .choices = priorities,
        .doc = "low ones leave a full pool first"),
    ROW(STRS, "aliases", struct spec_model, aliases, .doc = "other names clients may use"),
    ROW(PAIRS, "prompts", struct spec_model, prompts,
        .doc = "text put before the input, by prompt name"),
};
TABLE(model_table, struct spec_model, model_rows);

static const struct spec_row serve_rows[] = {
    ROW(WORD, "listen", struct spec_serve, listen, .dflt = "127.0.0.1",
        .doc = "address; any but loopback needs token_file"),
    ROW(PORT, "port", struct spec_serve, port, .dflt = "8003", .doc = "every model API"),
    ROW(PORT, "rerank_port", struct spec_serve, rerank_port, .dflt = "8002",
        .doc = "the same routes, for reranker clients"),
    ROW(PATH, "token_file", struct spec_serve, token_file, .doc = "file with the bearer token"),
    ROW(PATH, "admin_token_file", struct spec_serve, admin_token_file,
        .doc = "file with the bearer token that may load and unload models"),
    ROW(STRS, "allow_origin", struct spec_serve, allow_origin,
        .doc = "origins of web pages that may ask, such as https://host:8443; *: any"),
    ROW(PATH, "tls_cert", struct spec_serve, tls_cert, .doc = "certificate chain"),
    ROW(PATH, "tls_key", struct spec_serve, tls_key, .doc = "its private key"),
    ROW(INT, "items_max", struct spec_serve, items_max, .dflt = "2048", .min = 1, .max = 1000000,
        .doc = "texts or documents in one call"),
    ROW(BYTES, "body_max", struct spec_serve, body_bytes_max, .dflt = "32MiB", .min = KB,
        .max = 4 * GB, .doc = "bytes of one request"),
    ROW(BYTES, "text_max", struct spec_serve, text_bytes_max, .dflt = "0",
        .dflt_from = "256 bytes a token of the model, 1 MiB at least", .min = 0, .max = 4 * GB,
        .doc = "bytes of one text"),
    ROW(BYTES, "calls_max", struct spec_serve, calls_bytes_max, .dflt = "4GiB", .min = KB,
        .max = TB, .doc = "memory of unpacked bodies, numbers and replies of all calls together"),
    ROW(INT, "queue_max", struct spec_serve, queue_max, .dflt = "4096", .min = 1, .max = 10000000,
        .doc = "requests that may wait; more are answered 429"),
    ROW(INT, "connections_max", struct spec_serve, connections_max, .dflt = "10000",
        .dflt_from = "fewer where the machine cannot hold them", .min = 1, .max = 1000000,
        .doc = "open connections"),
    ROW(INT, "users_max", struct spec_serve, users_max, .dflt = "100", .min = 1, .max = 1000000,
        .doc = "clients at once that it is sized for"),
    ROW(DURATION, "timeout", struct spec_serve, timeout_ms, .dflt = "30s", .min = 1, .max = DAY,
        .doc = "deadline of a request that names none"),
    ROW(DURATION, "timeout_max", struct spec_serve, timeout_max_ms, .dflt = "10m", .min = 1,
        .max = DAY, .doc = "longest deadline that a request may name"),
    ROW(DURATION, "body_total_timeout", struct spec_serve, body_total_ms, .dflt = "5m", .min = 1,
        .max = DAY, .doc = "time for the whole body of a request"),
    ROW(DURATION, "batch_time", struct spec_serve, batch_ms, .dflt = "50ms", .min = 1,
        .max = 60000, .doc = "of a batch, and so the longest wait of a short request for one"),
    ROW(BOOL, "any_model", struct spec_serve, any_model, .dflt = "false",
        .doc = "a name that no model has is the first model's that can do it"),
    ROW(PATH, "batch_dir", struct spec_serve, batch_dir,
        .doc = "folder for /v1/files and /v1/batches; unset: there are none"),
    ROW(BYTES, "batch_size", struct spec_serve, batch_bytes_max, .dflt = "20GiB", .min = KB,
        .max = 1024 * TB, .doc = "bytes of all files in that folder"),
    ROW(DURATION, "batch_expiry", struct spec_serve, batch_expiry_ms, .dflt = "30d", .min = 1000,
        .max = 365 * (int64_t)DAY, .doc = "until a file or a batch there is removed"),
    ROW(DURATION, "drain", struct spec_serve, drain_ms, .dflt = "30s", .min = 0, .max = DAY,
        .doc = "time for running requests when it is stopped"),
    ROW(BYTES, "cache", struct spec_serve, cache_bytes, .dflt = "0", .min = 0, .max = 4 * TB,
        .doc = "memory for vectors computed before; 0: off"),
};
TABLE(serve_table, struct spec_serve, serve_rows);

/* --- how it is watched --- */
static const struct spec_row agent_rows[] = {
    ROW(BOOL, "enabled", struct spec_agent, enabled, .dflt = "true",
        .doc = "every node runs the agent"),
    ROW(WORD, "listen", struct spec_agent, listen, .dflt = "127.0.0.1",
        .doc = "address; any but loopback needs token_file"),
    ROW(PORT, "port", struct spec_agent, port, .dflt = "8090",
        .doc = "the page, /api/v1 and /health"),
    ROW(PORT, "metrics_port", struct spec_agent, metrics_port, .dflt = "9400",
        .doc = "/metrics for Prometheus"),
    ROW(PATH, "token_file", struct spec_agent, token_file, .doc = "file with the bearer token"),
    ROW(PATH, "admin_token_file", struct spec_agent, admin_token_file,
        .doc = "file with the bearer token that may silence and acknowledge alerts"),
    ROW(PATH, "tls_cert", struct spec_agent, tls_cert, .doc = "certificate chain"),
    ROW(PATH, "tls_key", struct spec_agent, tls_key, .doc = "its private key"),
    ROW(BOOL, "open_metrics", struct spec_agent, open_metrics, .dflt = "false",
        .doc = "/metrics needs no token"),
    ROW(DURATION, "interval", struct spec_agent, interval_ms, .dflt = "1s", .min = 100,
        .max = HOUR, .doc = "time between samples"),
    ROW(DURATION, "fine_history", struct spec_agent, fine_ms, .dflt = "6h", .min = MINUTE,
        .max = 30 * DAY, .doc = "how long every sample is kept"),
    ROW(DURATION, "coarse_history", struct spec_agent, coarse_ms, .dflt = "14d", .min = HOUR,
        .max = 3650 * DAY, .doc = "how long one sample a minute is kept"),
    ROW(BYTES, "history_size", struct spec_agent, history_bytes, .dflt = SPEC_HISTORY_DEFAULT,
        .min = SPEC_HISTORY_MIN, .max = SPEC_HISTORY_MAX, .doc = "size of the history file"),
    ROW(CHOICE, "dcgm_names", struct spec_agent, dcgm_names, .dflt = "old",
        .choices = dcgm_names, .doc = "which DCGM metric names are exported"),
    ROW(WORD, "dcgm", struct spec_agent, dcgm,
        .doc = "DCGM's exporter (http://HOST:PORT/metrics), for what the driver does not tell"),
    ROW(STRS, "scrape", struct spec_agent, scrape,
        .doc = "Prometheus text endpoints of the application, collected too"),
    ROW(STRS, "peers", struct spec_agent, peers,
        .doc = "other agents shown in the fleet view, also as http://gpu[1-64]:8090"),
};
TABLE(agent_table, struct spec_agent, agent_rows);

static const struct spec_row goal_rows[] = {
    ROW(CHOICE, "metric", struct spec_goal, metric, .required = true, .choices = metrics,
        .doc = "what is measured"),
    ROW(QUANTITY, "min", struct spec_goal, min, .doc = "at least this is wanted"),
    ROW(QUANTITY, "max", struct spec_goal, max, .doc = "at most this is wanted"),
};
TABLE(goal_table, struct spec_goal, goal_rows);

static const struct spec_row alert_rows[] = {
    ROW(CHOICE, "metric", struct spec_alert, metric, .required = true, .choices = metrics,
        .doc = "what is measured"),
    ROW(WORD, "series", struct spec_alert, series,
        .doc = "of metric custom: a metric of the node (data/telemetry.csv) or of an application"),
    ROW(CHOICE, "how", struct spec_alert, how, .dflt = "value", .choices = hows,
        .doc = "of metric custom: what is compared, over the window"),
    ROW(DURATION, "window", struct spec_alert, window_ms, .min = SEC, .max = 30 * DAY,
        .doc = "of a rate, an increase or a mean; unset: as suits the metric"),
    ROW(CHOICE, "when", struct spec_alert, when, .dflt = "above", .choices = sides,
        .doc = "the side of the threshold that is bad"),
    ROW(QUANTITY, "warn", struct spec_alert, warn, .doc = "threshold of a warning"),
    ROW(QUANTITY, "critical", struct spec_alert, critical, .doc = "threshold of an alarm"),
    ROW(QUANTITY, "clear", struct spec_alert, clear,
        .doc = "where it ends again; unset: at the threshold"),
    ROW(DURATION, "for", struct spec_alert, for_ms, .dflt = "1m", .min = 0, .max = 30 * DAY,
        .doc = "how long it must hold"),
    ROW(DURATION, "keep", struct spec_alert, keep_ms, .dflt = "0s", .min = 0, .max = 30 * DAY,
        .doc = "how long it must be over before it ends"),
    ROW(NAMES, "nodes", struct spec_alert, nodes, .refers = "nodes", .filled = true,
        .doc = "node groups it is for; unset: all"),
    ROW(NAMES, "components", struct spec_alert, components, .refers = "components", .filled = true,
        .doc = "components it is for; unset: all"),
    ROW(STR, "summary", struct spec_alert, summary, .doc = "one line for the person woken up"),
    ROW(WORD, "runbook", struct spec_alert, runbook, .doc = "address of what to do"),
};
TABLE(alert_table, struct spec_alert, alert_rows);

static const struct spec_row default_alert_rows[] = {
    ROW(BOOL, "off", struct spec_default_alert, off, .dflt = "false",
        .doc = "the rule is not used"),
    ROW(QUANTITY, "threshold", struct spec_default_alert, threshold,
        .doc = "another threshold; unset: the rule's own"),
    ROW(QUANTITY, "clear", struct spec_default_alert, clear,
        .doc = "where it ends again; unset: the rule's own, or the threshold when that is changed"),
    ROW(DURATION, "for", struct spec_default_alert, for_ms, .min = 0, .max = 30 * DAY,
        .doc = "how long it must hold; unset: the rule's own"),
    ROW(DURATION, "keep", struct spec_default_alert, keep_ms, .min = 0, .max = 30 * DAY,
        .doc = "how long it must be over before it ends; unset: the rule's own"),
    ROW(CHOICE, "severity", struct spec_default_alert, severity, .dflt = "unchanged",
        .choices = severities, .doc = "how bad it is"),
    ROW(STR, "summary", struct spec_default_alert, summary,
        .doc = "one line for the person woken up, with {value} and labels such as {gpu}"),
    ROW(WORD, "runbook", struct spec_default_alert, runbook, .doc = "address of what to do"),
};
TABLE(default_alert_table, struct spec_default_alert, default_alert_rows);

static const struct spec_row notify_rows[] = {
    ROW(WORD, "alertmanager", struct spec_notify, alertmanager, .doc = "Alertmanager's address"),
    ROW(WORD, "webhook", struct spec_notify, webhook, 
        .doc = "address each alert is posted to; all on the machine can read it, not 'command'"),
    ROW(PATH, "webhook_token_file", struct spec_notify, webhook_token_file,
        .doc = "file with the bearer token of the webhook, read for each alert"),
    ROW(PATH, "ca_file", struct spec_notify, ca_file,
        .doc = "who signed the certificates of webhook and Alertmanager; unset: the system's"),
    ROW(STRS, "command", struct spec_notify, command,
        .doc = "program run for each alert, the alert as JSON on its standard input"),
    ROW(BOOL, "log", struct spec_notify, log, .dflt = "true", .doc = "alerts go to the log"),
    ROW(BOOL, "page", struct spec_notify, page, .dflt = "true",
        .doc = "alerts show on the agent's page"),
};
TABLE(notify_table, struct spec_notify, notify_rows);

/* --- what it costs --- */
static const struct spec_row price_rows[] = {
    ROW(MONEY, "gpu_hour", struct spec_prices, gpu_hour, .per = PER_HOUR,
        .doc = "price of one GPU an hour, for node groups without a price"),
    ROW(MONEY, "energy_per_kwh", struct spec_prices, energy_per_kwh, .per = PER_ONCE,
        .doc = "price of a kilowatt-hour"),
    ROW(MONEY, "storage_per_tb", struct spec_prices, storage_per_tb, .per = PER_MONTH,
        .doc = "price of a terabyte a month, for storage without a price"),
    ROW(MONEY, "egress_per_gb", struct spec_prices, egress_per_gb, .per = PER_ONCE,
        .doc = "price of a gigabyte that leaves the site"),
    ROW(MONEY, "colo_per_kw", struct spec_prices, colo_per_kw, .per = PER_MONTH,
        .doc = "price of a kilowatt of rack space a month"),
    ROW(FLOAT, "pue", struct spec_prices, pue, .dflt = "1.3", .min = 1, .max = 5,
        .doc = "power of the building over power of the machines"),
    ROW(INT, "years", struct spec_prices, years, .dflt = "3", .min = 1, .max = 20,
        .doc = "years over which bought machines are written off"),
    ROW(PERCENT, "reserved_discount", struct spec_prices, reserved_discount_pct, .min = 0,
        .max = 100, .doc = "what a reservation saves"),
    ROW(PERCENT, "spot_discount", struct spec_prices, spot_discount_pct, .min = 0, .max = 100,
        .doc = "what spot capacity saves"),
};
TABLE(price_table, struct spec_prices, price_rows);

static const struct spec_row share_rows[] = {
    ROW(MONEY, "day", struct spec_share, day, .per = PER_DAY, .doc = "most it may cost a day"),
    ROW(MONEY, "month", struct spec_share, month, .per = PER_MONTH,
        .doc = "most it may cost a month"),
};
TABLE(share_table, struct spec_share, share_rows);

static const struct spec_row budget_rows[] = {
    ROW(MONEY, "day", struct spec_budgets, day, .per = PER_DAY,
        .doc = "most the site may cost a day"),
    ROW(MONEY, "month", struct spec_budgets, month, .per = PER_MONTH,
        .doc = "most the site may cost a month"),
    ROW(PERCENT, "warn", struct spec_budgets, warn_pct, .dflt = "80%", .min = 1, .max = 100,
        .doc = "part of a budget at which people are told"),
    ROW(CHOICE, "overrun", struct spec_budgets, overrun, .dflt = "warn", .choices = overruns,
        .doc = "what happens beyond it: warn, hold new jobs, stop low priority ones"),
    ROW(INT, "forecast_days", struct spec_budgets, forecast_days, .dflt = "7", .min = 1,
        .max = 365, .doc = "days the forecast looks ahead"),
    TREES(MAP, "components", struct spec_budgets, components, component_count, share_table,
        .doc = "budgets of single components, by name"),
};
TABLE(budget_table, struct spec_budgets, budget_rows);

/* --- the document --- */
static const struct spec_row document_rows[] = {
    ROW(CHOICE, "schema", struct spec, version, .dflt = "stoker.spec/1", .choices = versions,
        .doc = "version of this format"),
    ROW(STRS, "include", struct spec, includes,
        .doc = "files below this one's folder whose keys belong here too; lists are joined"),
    TREE(SECTION, "site", struct spec, site, site_table, .doc = "the site as a whole"),
    TREE(SECTION, "software", struct spec, software, software_table,
        .doc = "minimum versions, for `stoker detect -f`"),
    TREES(LIST, "nodes", struct spec, nodes, node_count, node_table,
        .doc = "groups of equal machines"),
    TREES(LIST, "fabrics", struct spec, fabrics, fabric_count, fabric_table,
        .doc = "networks between the machines"),
    TREE(SECTION, "nccl", struct spec, nccl, nccl_table, .doc = "NCCL on this site"),
    TREES(LIST, "storage", struct spec, storage, storage_count, storage_table,
        .doc = "where data and checkpoints are"),
    TREES(MAP, "pools", struct spec, pools, pool_count, pool_table,
        .doc = "named shares of GPU memory"),
    TREES(MAP, "shapes", struct spec, shapes, shape_count, shape_table,
        .doc = "models that are trained, by name"),
    TREES(MAP, "components", struct spec, components, component_count, component_table,
        .doc = "what runs, by name"),
    TREES(LIST, "traffic", struct spec, traffic, traffic_count, traffic_table,
        .doc = "what components send each other; placement keeps it short"),
    TREES(MAP, "models", struct spec, models, model_count, model_table, .names = SPEC_LABEL,
        .doc = "models that are served, by name"),
    TREE(SECTION, "serve", struct spec, serve, serve_table, .doc = "the model server"),
    TREE(SECTION, "agent", struct spec, agent, agent_table, .doc = "the node agent"),
    TREES(MAP, "goals", struct spec, goals, goal_count, goal_table,
        .doc = "what `stoker monitor` reports against and Grafana draws, by name"),
    TREES(MAP, "alerts", struct spec, alerts, alert_count, alert_table,
        .doc = "when somebody is told, by name"),
    TREES(MAP, "default_alerts", struct spec, default_alerts, default_alert_count,
        default_alert_table, .names = SPEC_LABEL,
        .doc = "changes to the rules that hold without a spec (docs/user/alerts.md), by "
               "their name"),
    TREE(SECTION, "notify", struct spec, notify, notify_table, .doc = "where alerts go"),
    TREE(SECTION, "prices", struct spec, prices, price_table, .doc = "what things cost"),
    TREE(SECTION, "budgets", struct spec, budgets, budget_table, .doc = "what may be spent"),
    TREE(SECTION, "targets", struct spec, targets, spec_target_table,
        .doc = "what 'render all' writes; others are written by name, with defaults and a warning"),
};
/* clang-format on */
const struct spec_table spec_schema = { sizeof(struct spec), document_rows,
                                        ARRAY_SIZE(document_rows) };

bool spec_kind_is_tree(enum spec_kind k)
{
    return k == SPEC_SECTION || k == SPEC_OPTION || k == SPEC_LIST || k == SPEC_MAP;
}

const struct spec_row *spec_row_find(const struct spec_table *t, const char *key)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->rows[i].key, key) == 0)
            return &t->rows[i];
    return NULL;
}

enum spec_unit spec_metric_unit(enum spec_metric m)
{
    return metric_units[m];
}

const char *spec_metric_name(enum spec_metric m)
{
    return metrics[m];
}
