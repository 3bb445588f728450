/* SPDX-License-Identifier: MIT */
/* nccl: what NCCL will choose on an inventory, the environment that makes the
 * choice right, and the mistakes in the environment that is there.
 *
 * Pure: input is `const struct hw *` only; the variables it looks at are those
 * of hw->place.env.  The selection follows NCCL 2.30 (docs/user/nccl.md says which
 * rules, and where we decide differently).  What cannot be known is said as such:
 * a NULL string, an unknown maybe, or a line of notes, never a made-up value.
 *
 * Results own an arena; their strings live there or in the inventory, which must
 * outlive them.  *_release() takes a zeroed struct too. */
#ifndef NCCL_NCCL_H
#define NCCL_NCCL_H
#include "base/text/table.h"
#include "hw/hw.h"

enum { NCCL_PORTS_MAX = 32 }; /* NCCL's own limit on RDMA ports in use (MAX_IB_DEVS) */

/* ---- what NCCL will choose ---- */
struct nccl_port { /* one port of one RDMA device, in the order of hw->rdma[] */
    const char *dev;
    int64_t port;
    const char *state;
    const char *link_layer; /* "InfiniBand", "Ethernet"; NULL or other: NCCL passes it over */
    struct maybe rate_mbps;
    struct maybe pcie_mbps; /* a degraded PCIe link carries but this; unknown: it is well */
    bool used;              /* NCCL takes it, given the environment */
    const char *why;        /* ... or why it does not: full sentence */
    bool wanted;            /* it should be used: what NCCL_IB_HCA would name */
    const char *wanted_why; /* ... or why it should not */
    bool down;              /* it would be wanted, were its link up */
    bool bare;              /* ... had it an address that routers forward, as its like have */
    const char *near_path; /* best distance to a GPU in NCCL's words: "PIX" … "SYS"; NULL unknown */
    struct maybe gid_index; /* NCCL's choice; unknown when the port is not used */
    const char *gid;        /* eight groups; NULL: the table has no such entry */
    const char *gid_type;
    const char *gid_ndev;
    bool gid_ok;         /* routable on this fabric and in this network namespace */
    bool gid_here;       /* ... its network device is in this namespace, or it is InfiniBand */
    const char *gid_why; /* how NCCL came to it and what is wrong with it, if anything */
    const char *network; /* "10.1.0.0/16", "fe80:0:0:0 of SM 0x1"; NULL: not known */
    const char *ip_net;  /* of IP over InfiniBand: its subnet; NULL: none */
    bool storage;        /* a network file system is mounted over that network */
    bool frontend;       /* the default route leaves by that network */
    bool takes;          /* NCCL takes it when NCCL_IB_HCA is not set */
    bool picked;         /* ... with the variables as they are, once it starts at all */
    bool counts;         /* it adds bandwidth: an address that works, and no other fabric */
    bool aside;          /* ... it would, and is left out for what else its network is for */
    const char *card;    /* PCI address shared by the ports NCCL fuses into one NIC */
    size_t card_ports;   /* how many used ports share that card, this one included */
};

struct nccl_gdr { /* one GPU and one RDMA device that NCCL takes once it starts */
    size_t gpu;   /* position in hw->gpus[] */
    const char *dev;
    const char *path; /* "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"; NULL unknown */
    struct maybe use; /* bool; unknown when a fact is missing */
    const char *why;
};

struct nccl_near {       /* one GPU and the nearest of the wanted ports */
    const char *dev;     /* NULL: no wanted port, or no distance is known */
    const char *path;    /* over PCIe only: "PIX" … "SYS" */
    bool same_socket;    /* with "SYS": in another NUMA node of the GPU's own socket */
    const char *relay;   /* NVLink leads to a GPU at this NIC's switch (PXN); NULL: none needed */
    struct maybe direct; /* bool: GPUDirect RDMA on the way NCCL takes */
};

struct nccl_p2p { /* two GPUs of hw->gpus[] */
    size_t a, b;
    const char *path;      /* "NVL", "PIX", "PXB", "PHB", "SYS"; NULL unknown */
    const char *transport; /* "nvlink", "p2p", "shm", "net", "fails"; NULL unknown */
    const char *why;
};

struct nccl_way {          /* how one GPU reaches other nodes over one choice of ports */
    struct maybe mbps;     /* its share of the ports; unknown when a rate is */
    struct maybe all_mbps; /* ... with those set aside; unknown: that is no more */
    const char *path;      /* the distance to them: "PIX" … "SYS"; NULL: not known, or no port */
    const char *ports;     /* "mlx5_0:1,mlx5_1:1" */
};

struct nccl_score {       /* one GPU under two choices of ports (score.c says how) */
    size_t gpu;           /* position in hw->gpus[] */
    int64_t number;       /* the driver's for people; the position where it gave some none */
    struct nccl_way dflt; /* NCCL's own, NCCL_IB_HCA unset */
    struct nccl_way ours; /* the wanted ports: what NCCL_IB_HCA names or would name */
    bool worse;           /* ours has less bandwidth or a longer way */
};

struct nccl_choice {
    struct arena arena;
    const char *nccl_version; /* found on this machine; NULL: none seen, 2.30 is assumed */
    const char *net;          /* "rdma", "efa", "tcp", "single node only", "fails"; NULL unknown */
    const char *net_why;
    const char *socket_if; /* bootstrap; NULL: none */
    const char *socket_addr;
    const char *socket_why;
    const char *socket_bad; /* why no other node can be reached over it; NULL: nothing says so */
    const char *wire_if;    /* ... that NICs connect over, and data without RDMA: the first of
                             * NCCL_SOCKET_IFNAME or NCCL's own; bootstrap may have another by
                             * NCCL_COMM_ID; NULL: none */
    const char *stop_why; /* NCCL stops at start-up, in jobs of one machine too; NULL: it starts */
    const char *stop_var; /* ... because of this variable; NULL: of a file that no variable names */
    const char *peer_if;  /* interface of the route to the other nodes; NULL: cannot tell */
    const char *peer_why;
    struct nccl_port *ports;
    size_t ports_count;
    struct nccl_score *scores; /* of the GPUs a job here can use, or of all when hidden */
    size_t scores_count;
    const char *score_text; /* both in a line: "GPU 0-7 400 Gb/s at PXB either way" */
    const char *all_why;    /* why every port is wanted although some look as if they should not
                          * be: leaving them out costs a GPU bandwidth; NULL: it does not */
    const bool *rail_lost;  /* for each of hw->gpus[]: it goes by a neighbour's isolated rail, where
                             * healthy machines go by its own; NULL: none does */
    bool rail_dead;         /* ... since the rail is down; else it is slower than others */
    const char *gone_why;  /* the fabric of the GPUs is down, and what is up is another; NULL: no */
    const char *gid_range; /* NCCL_IB_ADDR_RANGE that puts all ports on one fabric; NULL: none */
    struct maybe gid_pin;  /* the index that stands in for NCCL's search; unknown: none is needed */
    const char *gid_offer; /* ... in place of one that is set, which wins; NULL: none */
    const char *gid_nets_why; /* the search ends on different networks; NULL: it does not */
    bool gid_stores;          /* ... no: on one that file systems are mounted over */
    struct nccl_gdr *gdr;
    size_t gdr_count;
    struct nccl_near *near;  /* for each of hw->gpus[] */
    const char *gdr_support; /* "dma-buf", "nvidia_peermem", "none"; NULL unknown */
    const char *gdr_level;   /* in force: the user's or NCCL's default */
    const char *detour_why;  /* traffic behind one switch goes up to the root complex; NULL: no */
    struct nccl_p2p *p2p;
    size_t p2p_count;
    const char *p2p_level;
    struct maybe gpus; /* GPUs a job here can use; unknown when they are hidden */
    const char *gpus_why;
    const bool *gpu_used; /* for each of hw->gpus[]: a job here can use it */
    const char
        *topo_lost; /* wanted NICs that NCCL does not find in the topology file, and has farther
                            * away for that; NULL: none */
    bool guest;     /* a virtual machine that hides which GPU is near which NIC */
    const char *bare_why; /* fast NICs without an RDMA device, and why they have none; NULL: none */
    const char *bare_remedy; /* ... of those that could have one; NULL: none could */
    bool efa;                /* an AWS EFA device is here: NCCL itself cannot drive it */
    const char *mnnvl;       /* NVLink to other machines: "on", "off", "fails"; NULL: not known */
    const char *mnnvl_why;   /* NULL: no GPU is of a domain that spans machines */
    bool mnnvl_doubt;        /* one of the doubts is about that, none of them about ports */
    const char **doubts;     /* why the rest is not certain: a plug-in, a file that was not read */
    size_t doubts_count;
    const char **notes; /* what we could not know, or what the reader should */
    size_t notes_count;
};

void nccl_choose(const struct hw *hw, struct nccl_choice *out);
/* ... as if the variable were not set, by environment or file; `a` must outlive the choice. */
void nccl_choose_without(const struct hw *hw, const char *name, struct arena *a,
                         struct nccl_choice *out);
void nccl_choice_release(struct nccl_choice *c);
/* Is a port of this device among those of the way? */
bool nccl_way_has(const struct nccl_way *w, const char *dev);
/* No GPU here can do GPUDirect RDMA: all are GeForce. */
bool nccl_gpus_without_gdr(const struct hw *hw);
/* Has the GPU a chip-to-chip link to its processor (GH200, GB200, GB300)? */
bool nccl_gpu_on_c2c(const struct hw *hw, size_t gpu);

/* ---- the environment ---- */
enum nccl_mode {
    NCCL_MINIMAL, /* --env: only what NCCL would not find itself */
    NCCL_FULL     /* --env=full: every choice written down */
};

enum nccl_kind {
    NCCL_REQUIRED,   /* NCCL would not find it itself */
    NCCL_PINNED,     /* NCCL or the job would find it; written down in full mode */
    NCCL_LEFT_UNSET, /* a comment says why */
    NCCL_USER        /* set already: it wins */
};

struct nccl_var {
    const char *name;
    const char *value;  /* NULL: left unset */
    const char *reason; /* one or two full sentences */
    enum nccl_kind kind;
};

struct nccl_opts {
    enum nccl_mode mode;
    const char *peer; /* address of another node; NULL: MASTER_ADDR of the environment */
};

struct nccl_env {
    struct arena arena;
    enum nccl_mode mode;
    struct nccl_var *vars; /* in a stable order */
    size_t count;
    const char **doubts; /* of the choice */
    size_t doubts_count;
};

/* `opts` may be NULL: minimal. */
void nccl_env_make(const struct hw *hw, const struct nccl_opts *opts, struct nccl_env *out);
void nccl_env_release(struct nccl_env *env);
const struct nccl_var *nccl_env_find(const struct nccl_env *env, const char *name);
/* Shell text: "# reason" lines, then "export NAME=value" or "# NAME is left unset". */
void nccl_env_write(const struct nccl_env *env, struct buf *out);

/* ---- known mistakes in hw->place.env ---- */
enum nccl_severity {
    NCCL_INFO, /* worth knowing, works as meant here */
    NCCL_WARN, /* slower or more fragile than it should be, or without the effect meant */
    NCCL_ERROR /* the job will fail, or fall back to a far slower path */
};

struct nccl_lint {
    const char *name;
    const char *value;
    enum nccl_severity severity;
    const char *message; /* names the consequence; a full sentence */
    const char *remedy;  /* a full sentence */
    bool followed;       /* NCCL does what the value says; what it costs is told */
};

struct nccl_lints {
    struct arena arena;
    struct nccl_lint *items;
    size_t count;
};

void nccl_lint_env(const struct hw *hw, struct nccl_lints *out);
void nccl_lints_release(struct nccl_lints *l);
const char *nccl_severity_name(enum nccl_severity s); /* "info", "warning", "error" */
/* One "warning: NAME=value: message  remedy" paragraph each, as shell comments when
 * `comment` is set. */
void nccl_lints_write(const struct nccl_lints *l, bool comment, struct buf *out);

/* ---- our choice beside what NCCL itself said ---- */
enum { NCCL_AGAINST_BYTES_MAX = 64 << 20 }; /* of a log; a topology has its own limit */

enum nccl_verdict {
    NCCL_SAME,
    NCCL_DIFFERS,
    NCCL_UNTOLD /* one of the two does not say */
};

struct nccl_against_row {
    enum nccl_verdict verdict;
    const char *about; /* "network", "port", "bootstrap", "interface", "gdr", "gpu", … */
    const char *what;  /* "mlx5_0:1", "GPU 0 and GPU 1" */
    const char *ours;  /* NULL: we do not say */
    const char *theirs;
    const char *why; /* a full sentence, or NULL */
    size_t line;     /* of the log; 0: none */
};

struct nccl_against_var { /* a variable of the log that we followed */
    const char *name, *value;
    const char *here; /* what it is on this machine; NULL: unset */
};

struct nccl_against {
    struct arena arena;
    const char *source; /* "log", "topology" */
    const char *host;   /* of the log's lines */
    const char *version;
    struct nccl_against_row *rows;
    size_t count;
    struct nccl_against_var *vars;
    size_t vars_count;
    size_t same, differs, untold;
};

struct nccl_against_opts {
    const char *host; /* NULL: this machine's name, else the only one of the log */
};

/* `text` is output of NCCL_DEBUG=INFO or, when it begins with '<', a file of
 * NCCL_TOPO_DUMP_FILE.  The log's variables and version are followed in place of this
 * machine's.  `opts` may be NULL. */
enum rc nccl_against(const struct hw *hw, const struct nccl_against_opts *opts, const char *text,
                     size_t len, struct nccl_against *out, struct err *err) MUST_USE;
void nccl_against_release(struct nccl_against *g);
void nccl_against_write(const struct nccl_against *g, const struct term *term, struct buf *out);
void nccl_against_json(const struct nccl_against *g, struct buf *out); /* stoker.against/1 */

/* ---- explanations and JSON ---- */
/* Explains one variable in plain text.  RC_USAGE with "did you mean" for a name that
 * neither NCCL nor we know. */
enum rc nccl_why(const struct hw *hw, const char *name, const char *peer, bool json,
                 struct buf *out, struct err *err) MUST_USE; /* JSON: schema stoker.why/1 */

/* {"schema": "stoker.nccl/1", "choice", "env", "lint"} */
void nccl_write_json(const struct hw *hw, const struct nccl_opts *opts, struct buf *out);

/* hw_picture() with the ports marked that NCCL uses (nccl_picture.c). */
void nccl_picture(const struct hw *hw, struct buf *out);

#endif
