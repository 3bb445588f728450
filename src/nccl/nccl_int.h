/* SPDX-License-Identifier: MIT */
/* nccl_int: what the files of nccl/ share; nobody outside includes it.
 *
 *   nccl_text.c    small helpers for sentences
 *   choose/        what NCCL will choose, and what it should:
 *     name_filter.c  NCCL's filters on names: "=mlx5_0:1,mlx5_1", "^docker,lo"
 *     gid.c          addresses of RDMA ports and NCCL's search among them
 *     level.c        distances as NCCL counts them; GPUDirect RDMA and P2P
 *     iface.c        the bootstrap interface, and the route to the other nodes
 *     ports.c        the RDMA ports NCCL takes; wanted_*.c those it should
 *     fabric.c       the networks the ports are on
 *     merge_nics.c   ports of one card that are one NIC
 *     score.c        what each GPU gets of a choice of ports
 *     gid_networks.c the networks the search for addresses ends on
 *     gpus.c         the GPUs a job here can use
 *     nics_without_rdma.c  what to do about those
 *     doubts.c      what else steers NCCL: plug-ins, a topology file, NVLink to other machines
 *     nccl_choose.c  puts them together; versions.c asks again for the other NCCLs found here
 *   against/       the choice beside NCCL's own words
 *   env/           the environment (env_int.h)
 *   lint/          mistakes in the variables that are set
 *   nccl_explain.c one variable on one page
 *   nccl_write.c   shell text and JSON
 *   nccl_picture.c the machine's picture with the ports that NCCL uses */
#ifndef NCCL_NCCL_INT_H
#define NCCL_NCCL_INT_H
#include "base/each.h"
#include "nccl/nccl.h"

/* One run over one inventory. */
struct nccl_run {
    const struct hw *hw;
    struct arena *a;
    struct nccl_choice *c;
    const char *peer;      /* address of another node, or NULL */
    const char *peer_from; /* the variable that names it; NULL: an option */
    bool *gpu_visible;     /* hw->gpus_count entries */
    /* score.c, for GPU g and port p at [g * ports_count + p] */
    signed char *levels; /* enum nccl_level over PCIe */
    int *ranks;          /* level_rank() */
    signed char *paths;  /* enum nccl_level as NCCL counts it, PXN included */
    int64_t *way_mbps;   /* what NCCL takes the way to the NIC to carry, whatever its rate */
    signed char *direct; /* the same two without PXN */
    int64_t *direct_mbps;
    int64_t *picked_mbps; /* for each port: the rate of the NIC that NCCL makes of those it picks */
    bool *shared; /* wanted_use.c, for each port: what else its network carries tells nothing */
};

/* ---- nccl_text.c ---- */
const char *nccl_env_of(const struct hw *hw, const char *name); /* NULL when unset or empty */
/* The number NCCL reads from a variable: the digits it begins with, 0 without any
 * ("true" is 0), `dflt` when unset or too great. */
int64_t nccl_env_int(const struct hw *hw, const char *name, int64_t dflt);
void nccl_note(struct nccl_run *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
void nccl_doubt(struct nccl_run *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* "400 Gb/s"; "unknown rate" */
const char *nccl_rate_text(struct arena *a, struct maybe mbps);
/* Moves the text into the arena and empties the buf. */
const char *nccl_text(struct arena *a, struct buf *b);
/* Adds `text` wrapped at `width`, each line after `prefix`. */
void nccl_wrap(struct buf *out, const char *prefix, const char *text, size_t width);
/* True when the NCCL found here is older than major.minor; false when unknown. */
bool nccl_older_than(const struct hw *hw, int major, int minor);
bool nccl_older_patch(const struct hw *hw, int major, int minor, int patch);
/* As many RDMA ports as this release takes: 16 up to 2.18.3; also entries of NCCL_IB_HCA. */
size_t nccl_ports_max(const struct hw *hw);
bool nccl_cpu_is_zhaoxin(const struct hw *hw);

/* ---- name_filter.c ---- */
enum { /* as many entries as NCCL reads; the rest is without effect */
       FILTER_HCAS = 32,
       FILTER_IFS = 16,
       FILTER_MAX = 32,
       FILTER_NAME_MAX = 64
};
struct name_filter_entry {
    char name[FILTER_NAME_MAX];
    int64_t port; /* -1: any */
    bool open;    /* a colon and nothing behind it */
};
struct name_filter {
    bool exclude; /* ^ */
    bool exact;   /* = */
    struct name_filter_entry entries[FILTER_MAX];
    size_t count; /* 0: everything matches (nothing, with exclude) */
};
void name_filter_parse(struct name_filter *m, const char *text, size_t max); /* NULL: no filter */
/* NCCL_IB_HCA as this release reads it: before 2.30.7 an empty port is port 0, which none has. */
void name_filter_hcas(struct name_filter *m, const struct hw *hw);
/* `port` -1: an interface, which has none. */
bool name_filter_takes(const struct name_filter *m, const char *name, int64_t port);
/* The entry only, without the meaning of ^. */
bool name_filter_entry_takes(const struct name_filter *m, const struct name_filter_entry *e,
                             const char *name, int64_t port);

/* ---- gid.c ---- */
struct gid {
    uint8_t raw[16];
};
enum gid_class {
    GID_NONE,  /* nothing that this network namespace can use */
    GID_LOCAL, /* link-local or RoCE v1 only: one Ethernet segment */
    GID_ROUTABLE
};
struct gid_rule { /* what the search is told by the environment */
    int family;   /* 4 or 6 */
    int version;  /* of RoCE */
    uint8_t prefix[16];
    int prefix_bits; /* 0: any subnet */
};
bool gid_parse(const char *text, struct gid *out);
bool gid_is_v4(const struct gid *g);
bool gid_is_link_local(const struct gid *g);
bool gid_is_set(const struct gid *g);
const struct hw_gid *gid_at(const struct hw_rdma_port *p, int64_t index); /* NULL: empty slot */
int gid_version(const struct hw_gid *g);                                  /* 1, 2; -1 unknown */
bool gid_usable(const struct hw *hw, const struct hw_gid *g); /* v2, routable, device is here */
enum gid_class gid_port_class(const struct hw *hw, const struct hw_rdma_port *p);
/* Address as people write it: "192.168.1.5" or "fd00::5". */
const char *gid_text(struct arena *a, const struct hw_gid *g);
void gid_rule_of(const struct hw *hw, struct gid_rule *out);
/* Takes "10.1.0.0/16" as NCCL does; false: it cannot be read and is ignored. */
bool gid_rule_range(struct gid_rule *r, const char *range);
bool gid_in_range(const struct gid *g, const struct gid_rule *r);
int64_t gid_scan(const struct hw_rdma_port *p, const struct gid_rule *rule); /* RoCE */
int64_t gid_ib(const struct hw *hw, const struct hw_rdma_port *p);           /* InfiniBand */
/* Fills the gid_* members of a used port. */
void gid_choose(struct nccl_run *s, const struct hw_rdma_port *p, struct nccl_port *out);

/* ---- level.c ---- */
enum nccl_level { /* NCCL's order: nearer is less */
                  LEVEL_NONE = -1,
                  LEVEL_LOC,
                  LEVEL_NVL,
                  LEVEL_NVB,
                  LEVEL_C2C,
                  LEVEL_PIX,
                  LEVEL_PXB,
                  LEVEL_P2C,
                  LEVEL_PXN,
                  LEVEL_PHB,
                  LEVEL_SYS
};
const char *level_name(enum nccl_level l);       /* NULL for LEVEL_NONE */
enum nccl_level level_of_path(const char *path); /* of the inventory: NODE is PHB to NCCL */
enum nccl_level level_parse(const char *text);   /* of a variable; LEVEL_NONE: NCCL ignores it */
enum nccl_level level_of_env(const struct hw *hw,
                             const char *name); /* ... as this release knows it */
enum nccl_level level_gpu_nic(const struct hw *hw, size_t gpu, const char *nic);
enum nccl_level
level_gdr_default(const struct hw *hw); /* PXB; P2C with GPUs on a chip-to-chip link */
/* How far apart GPUs that copy directly may be: by version, processor and number. */
enum nccl_level level_p2p_default(const struct hw *hw, const struct nccl_choice *c);
bool level_on_c2c(const struct hw *hw); /* some GPU has a chip-to-chip link to its CPU */
/* A virtual machine that shows no PCIe switch between its GPUs and NICs, and has no topology
 * file in place of them: where they are is not known; once ports are wanted. */
bool level_is_guest(const struct nccl_run *s);
enum nccl_level level_gpu_pair(const struct hw *hw, const struct hw_gpu_pair *p);
/* Best over all GPUs, hidden ones too. */
enum nccl_level level_nic_best(const struct hw *hw, const char *nic);
/* The topology file names the NIC, but not where NCCL looks for it as long as it joins the
 * functions of a bus. */
bool level_nic_apart(const struct hw *hw, const char *nic);
/* ... nor where it looks otherwise: whatever NCCL_IB_MERGE_VFS is, function 0 of the NIC. */
bool level_nic_lost(const struct hw *hw, const char *nic);
/* By the topology file or sysfs; NULL: not known. */
const char *level_nic_path(const struct hw *hw, size_t gpu, const char *nic);
void level_choose_gdr(struct nccl_run *s);
void level_choose_near(struct nccl_run *s);   /* after level_choose_gdr() */
void level_choose_detour(struct nccl_run *s); /* ACS and the IOMMU, once ports are wanted */
/* Why nothing is said of peers where the number of GPUs is not known. */
const char *level_unknown_why(const struct hw *hw, const struct nccl_choice *c);
void level_choose_p2p(struct nccl_run *s);

/* What NCCL can do for GPUDirect RDMA: as nccl_choice.gdr_support. */
const char *level_gdr_support(const struct hw *hw);
/* The distance NCCL goes by, PXN and host memory counted; once levels are there. */
enum nccl_level level_effective(const struct nccl_run *s, size_t gpu, size_t port);
enum nccl_level level_direct(const struct nccl_run *s, size_t gpu,
                             size_t port); /* PXN left aside */
/* `relay` passes what `gpu` sends by NVLink on to the port, where the level is PXN. */
bool level_is_relay(const struct nccl_run *s, size_t gpu, size_t relay, size_t port);
/* What NCCL takes NVLink between the two to carry; the most there is where no count is told. */
int64_t level_nvlink_mbps(const struct hw *hw, size_t a, size_t b);
/* Nearer is less, for our own choice: as the level, and what is in another NUMA node of the
 * same socket is nearer than what is in the other socket.  -1 unknown. */
bool level_same_socket(const struct hw *hw, size_t gpu, const char *nic);
int level_rank(const struct hw *hw, size_t gpu, const char *nic);

/* ---- iface.c ---- */
struct ip {
    int family; /* AF_INET, AF_INET6 */
    uint8_t raw[16];
};
bool ip_parse(const char *text, struct ip *out); /* also "[fd00::1]:29500" */
bool ip_same_net(const struct ip *a, const struct ip *b, int64_t bits);
const char *ip_net_text(struct arena *a, const struct ip *ip, int64_t bits); /* "10.1.0.0/16" */
const struct hw_route *iface_route_to(const struct hw *hw, const struct ip *ip);
/* The node that the environment says others start from: the host of NCCL_COMM_ID, which NCCL
 * itself connects to, else MASTER_ADDR; one that is an address before one that is a name. */
const char *iface_env_peer(const struct hw *hw, struct arena *a, const char **out_name);
void iface_choose(struct nccl_run *s);
/* May the interface, one of the device's, be of a port of that layer?  A card with ports of both
 * has interfaces of both. */
bool iface_fits_layer(const struct hw_rdma *r, const struct hw_net *n, const char *link_layer);
bool iface_is_ipoib(const struct hw *hw, const struct hw_net *n);
bool iface_is_rail(const struct hw *hw, const struct hw_net *n); /* RDMA, and no gateway */
bool iface_is_virtual(const struct hw *hw, const char *name);    /* docker0, virbr0, lo, … */
bool iface_is_side(const struct hw *hw, const struct hw_net *n); /* virtual: bridge, tunnel, … */
bool iface_addrs_known(const struct hw *hw);                     /* of any interface */
bool iface_addr_leaves(const char *addr);                        /* it is not link-local */
/* It has an address that other machines can have a route to, not link-local ones only. */
bool iface_leaves(const struct hw_net *n);
/* It has a link, and is not virtual and inside this machine: data may go by it. */
bool iface_carries(const struct hw *hw, const struct hw_net *n);
/* It may lead to other nodes: running, and neither virtual, a rail nor link-local only. */
bool iface_is_able(const struct hw *hw, const struct hw_net *n);
size_t iface_able_all(const struct hw *hw, const struct hw_net **out, size_t max);
/* Those NCCL takes with no NCCL_SOCKET_IFNAME, in its order: the first for bootstrap,
 * all for data when there is no RDMA. */
size_t iface_default_all(const struct hw *hw, const struct hw_net **out, size_t max);
/* The same with NCCL_SOCKET_IFNAME as it is set. */
size_t iface_data_all(const struct hw *hw, const struct hw_net **out, size_t max);
/* What NCCL takes for the speed of an interface. */
int64_t iface_mbps(const struct hw_net *n);
/* The greatest speed, and the sum of all that have it; those that lead to no other aside. */
struct maybe iface_fastest(const struct hw *hw, const struct hw_net *const *nets, size_t count,
                           int64_t *out_sum);
/* NCCL_SOCKET_IFNAME with which NCCL starts over `peer` and data loses nothing; NULL: none. */
const char *iface_data_list(const struct hw *hw, struct arena *a, const char *peer);
const struct hw_net *iface_default(const struct hw *hw, const char **out_addr,
                                   const char **out_why);

/* ---- ports.c ---- */
void ports_choose(struct nccl_run *s);
const struct hw_rdma_port *ports_find(const struct hw *hw, const char *dev, int64_t port);
bool ports_is_efa(const struct hw *hw);
bool ports_is_iwarp(const struct hw *hw, const char *dev);
bool ports_is_soft(const struct hw *hw, const char *dev);               /* RDMA in software */
bool ports_all_iwarp(const struct hw *hw, const struct nccl_choice *c); /* that are used */
/* NCCL looks for a NIC at device and function 0 of its bus (NCCL_IB_MERGE_VFS): before 2.24 and
 * from 2.27 on. */
bool ports_merged(const struct hw *hw);
const char *ports_off(const struct hw *hw); /* the variable that turns RDMA off, as a sentence */
bool ports_hidden(const struct hw *hw);     /* devices in sysfs, but no way to open them */
/* The networks the wanted ports are on, when a message of one cannot reach another;
 * 0: they are one network, or joined, or not known. */
size_t ports_isolated_rails(const struct hw *hw, const struct nccl_choice *c);

/* ---- wanted_ports.c ---- */
void wanted_choose(struct nccl_run *s);
/* Sets of ports: ports_count entries. */
bool *wanted_set_wanted(const struct nccl_run *s);
size_t wanted_set_count(const struct nccl_run *s, const bool *set);
const char *wanted_set_text(struct nccl_run *s, const bool *set); /* "mlx5_0:1, mlx5_1:1" */
/* "mlx5_0:1,mlx5_1:1", as NCCL_IB_HCA takes it. */
const char *wanted_set_names(const struct nccl_run *s, const bool *set);
/* `p` would be of the fabric of `set` if its link were up. */
bool wanted_port_is_down(const struct nccl_run *s, const bool *set, const struct nccl_port *p);
/* `p` is of a GPU that has none of `set` as near, is like those, and has no address that routers
 * forward. */
bool wanted_port_is_bare(const struct nccl_run *s, const bool *set, const struct nccl_port *p);
/* Their cards are of two models, as far as both tell theirs. */
bool wanted_models_differ(const struct nccl_run *s, const struct nccl_port *a,
                          const struct nccl_port *b);

/* The set with the rails that are down: what belongs where does not hang on a cable. */
bool *wanted_set_whole(const struct nccl_run *s, const bool *set);
/* What the set gives the GPUs, nearer first, were all of it up. */
int64_t wanted_set_worth_up(const struct nccl_run *s, const bool *set);
/* No GPU has less of `a` than of `b`, were all of `a` up. */
bool wanted_set_dominates(const struct nccl_run *s, const bool *a, const bool *b);
bool wanted_port_is_dead(const struct nccl_run *s, const struct nccl_port *p); /* it should be up */

/* ---- wanted_cards.c ---- */
void wanted_functions(struct nccl_run *s);
/* The same where NCCL_IB_HCA has decided: one function of a port counts, of those that it names if
 * it names one. */
void wanted_functions_count(struct nccl_run *s);
void wanted_hardware(struct nccl_run *s);

/* ---- wanted_use.c ---- */
void wanted_use(struct nccl_run *s); /* once addresses and functions are sorted out */
/* File systems or the default route are on its network, which is for that. */
bool wanted_port_is_busy(const struct nccl_run *s, const struct nccl_port *p);
/* ... or it cannot be told whether it is, of some of them. */
bool wanted_set_is_shared(const struct nccl_run *s, const bool *set);
/* Tells of such ports where all stay, those without another use too. */
void wanted_use_doubt(struct nccl_run *s);

/* ---- wanted_rails.c ---- */
void wanted_rails(struct nccl_run *s); /* once the addresses are chosen: they tell the rails */

/* ---- fabric.c ---- */
/* Fills network, storage and frontend of every port. */
void fabric_choose(struct nccl_run *s);
/* The network of one RoCE address; NULL: not known. */
const char *fabric_gid_network(struct arena *a, const struct hw *hw, const struct hw_gid *g);
/* For each of hw->nets[]: a network file system is mounted over it. */
bool *fabric_storage_nets(struct arena *a, const struct hw *hw);
/* The first network file system whose network cannot be told; NULL: none. */
const struct hw_mount *fabric_unplaced(struct arena *a, const struct hw *hw);

/* ---- gid_networks.c ---- */
void gid_networks_choose(
    struct nccl_run *s); /* fills gid_range and gid_nets_why; once ports are wanted */
/* This entry is on one network on every wanted port, or on rails; unless `storage_too` on none
 * that file systems are mounted over. */
bool gid_networks_agree_at(const struct hw *hw, const struct nccl_choice *c, int64_t index,
                           bool storage_too);

/* ---- env_gid.c ---- */
/* The index that --env sets since NCCL's search does not serve; unknown: it sets none. */
struct maybe env_gid_pin(const struct nccl_run *s);

/* ---- merge_nics.c ---- */
struct merged_nics { /* ports_count entries; those outside the set are NICs of their own */
    size_t *first;   /* of the ports of the NIC that it is part of */
    int64_t *rates;  /* of that NIC */
};
/* When NCCL has the ports for which `set` is true. */
struct merged_nics merge_nics_of(const struct nccl_run *s, const bool *set);

/* ---- score.c ---- */
struct score_way {         /* what one GPU gets of a set of ports */
    int64_t mbps;          /* of those that count */
    bool known;            /* every rate and distance it rests on is */
    enum nccl_level level; /* LEVEL_NONE: no port that counts, or not known */
    bool *serves;          /* ports_count entries: NCCL uses it for this GPU */
    enum nccl_level path;  /* ... at this distance */
    double load; /* what it brings to each of their NICs that counts: 1 over the number of these */
};
void score_prepare(struct nccl_run *s); /* once the ports are there */
/* The rate of its link, or of its like where it does not tell. */
int64_t score_port_mbps(const struct nccl_run *s, const struct nccl_port *p);
bool score_gpu_counts(const struct nccl_run *s,
                      size_t gpu); /* a job here can use it, or all hidden */
/* When NCCL has the ports for which `set` is true; `out` has gpus_count entries. */
void score_set(const struct nccl_run *s, const bool *set, struct score_way *out);
/* ... with every port of it up and all at one rate, as on a machine whose rails are well. */
void score_set_well(const struct nccl_run *s, const bool *set, struct score_way *out);
/* Fills scores of the choice; true when the wanted ports cost no GPU anything. */
bool score_choose(struct nccl_run *s);
/* What NCCL's own choice is with the ports that are set aside; after score_choose(). */
void score_aside(struct nccl_run *s);
const char *score_way_text(struct arena *a, const struct nccl_way *w);
/* "GPU 0-7 100 Gb/s at PHB by NCCL's own choice, 200 Gb/s at PIX" and then `ours`. */
const char *score_text(struct arena *a, const struct nccl_choice *c, const char *ours);

/* ---- doubts.c ---- */
void doubt_choose(struct nccl_run *s);
void mnnvl_choose(struct nccl_run *s);
/* Why NCCL does not find wanted NICs in the topology file, as a sentence; NULL: it does. */
const char *doubt_topo_missed(const struct hw *hw, const struct nccl_choice *c, struct arena *a);
/* The variable that keeps net plug-ins out, as a sentence; NULL: none does. */
const char *doubt_plugin_off(const struct hw *hw);
/* NCCL_NET names a network that is neither NCCL's own nor known to be a plug-in's. */
bool doubt_net_named(const struct hw *hw);
/* The net plug-in that NCCL would load and use; NULL: none. */
const char *doubt_net_plugin(const struct hw *hw);

/* ---- nics_without_rdma.c ---- */
void nics_without_rdma_choose(struct nccl_run *s); /* fills bare_why and bare_remedy */

/* ---- gpus.c ---- */
/* Is MIG on for one of them?  `visible` NULL: of all. */
bool gpus_cut(const struct hw *hw, const bool *visible);
void gpus_choose(struct nccl_run *s);

/* ---- nccl_choose.c ---- */
void nccl_choose_for(const struct hw *hw, const char *peer, struct nccl_choice *out);
/* ... for the NCCL that a job loads, with no look at others. */
void nccl_choose_once(const struct hw *hw, const char *peer, struct nccl_choice *out);

/* ---- versions.c ---- */
/* Last: a doubt where other NCCLs here choose otherwise. */
void versions_choose(struct nccl_run *s);

/* ---- lint.c, lint_net.c ---- */
struct lint_run {
    const struct hw *hw;
    struct nccl_choice choice;
    struct nccl_lints *out;
    size_t cap;
};
void lint_add(struct lint_run *r, const char *name, enum nccl_severity sev, const char *remedy,
              const char *fmt, ...) PRINTF_LIKE(5, 6);
/* The machine as if the variable were not set, by environment or file. */
struct hw lint_without(const struct hw *hw, const char *name, struct arena *a);
void lint_hca(struct lint_run *r);
void lint_gid(struct lint_run *r);
void lint_sockets(struct lint_run *r);

#endif
