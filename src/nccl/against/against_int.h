/* SPDX-License-Identifier: MIT */
/* against_int: what the files behind nccl_against() share.
 *
 *   against_log.c    what NCCL_DEBUG=INFO says of one host, as facts
 *   against.c        those facts, or a topology, beside our own choice: rows
 *   against_topo.c   the rows of a topology
 *   against_write.c  rows as a table and as JSON */
#ifndef NCCL_AGAINST_AGAINST_INT_H
#define NCCL_AGAINST_AGAINST_INT_H
#include "nccl/nccl_int.h"

enum {
    NCCL_LOG_LINE_MAX = 4096,  /* bytes of a line that are looked at */
    NCCL_LOG_HOSTS_MAX = 256,  /* host names of a log */
    NCCL_LOG_VALUES_MAX = 16,  /* different answers to one question that are kept */
    NCCL_LOG_DEVS_MAX = 128,   /* devices of one kind */
    NCCL_LOG_RANKS_MAX = 1024, /* ranks of one host's processes */
    NCCL_LOG_PAIRS_MAX = 1024, /* different connections */
    NCCL_LOG_VARS_MAX = 256    /* variables */
};

/* One question that every process answers: the different answers. */
struct log_answers {
    const char *values[NCCL_LOG_VALUES_MAX];
    size_t count;
    size_t line; /* of the first */
};

struct log_dev {   /* a device of a "Using" line */
    int64_t index; /* NCCL's number for it: its place in the list */
    const char *name;
    int64_t port;      /* RDMA only */
    const char *layer; /* "IB", "RoCE"; NULL */
    const char *addr;  /* sockets only */
    size_t line;
};

struct log_rank {
    int64_t pid, rank, nvml;
    const char *bdf;
};

enum log_via { LOG_P2P, LOG_SHM, LOG_NET };

struct log_pair { /* a connection: "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM" */
    enum log_via via;
    int64_t from, to;   /* NVML's indices; of LOG_NET the local GPU is `from` */
    const char *detail; /* "CUMEM", "direct/direct"; of LOG_NET the network's name */
    int64_t dev;        /* LOG_NET: the device's number */
    bool gdr, pxn;
    size_t line;
};

struct log_reach { /* "GPU Direct RDMA Enabled for GPU 0 / HCA 1 (distance 4 <= 5)" */
    int64_t gpu;   /* position in hw->gpus[] */
    int64_t dev;
    bool on;
    bool pxn; /* the line says so, which it does from 2.29 on */
    int64_t distance;
    size_t line;
};

struct log_var {
    const char *name, *value;
};

struct log_facts {
    struct arena *a;
    const struct hw *hw;
    const char *host; /* the lines of this one were read */
    size_t lines;     /* of NCCL and of that host */
    struct log_answers version, network, bootstrap, bootstrap_addr, plugin, mnnvl, channels;
    bool ib_told; /* NET/IB said which devices it uses, or that there are none */
    size_t ib_line;
    struct log_dev *ib, *sockets, *merged; /* merged: "mlx5_0+mlx5_1" */
    size_t ib_count, sockets_count, merged_count;
    struct log_dev *gdr; /* by name; port 1: enabled, 0: disabled */
    size_t gdr_count;
    struct log_rank *ranks;
    size_t ranks_count;
    struct log_pair *pairs;
    size_t pairs_count;
    struct log_reach *reach;
    size_t reach_count;
    struct log_var *vars;
    size_t vars_count;
};

/* `host` NULL: this machine's name, else the only one in the log.  RC_PARSE when no line
 * is NCCL's; RC_USAGE when it cannot be told which host is meant. */
enum rc nccl_log_read(struct arena *a, const struct hw *hw, const char *host, const char *text,
                      size_t len, struct log_facts *out, struct err *err) MUST_USE;

/* One comparison under way. */
struct against {
    const struct hw *hw; /* with the log's variables and version */
    struct nccl_choice c;
    struct nccl_against *out;
    struct arena *a;
    size_t cap;
};
/* NCCL's name for a device, "mlx5_0_dma", is mlx5_0 by its Data Direct function, which sits at
 * another place of the PCI tree: how far that is from a GPU is not followed. */
bool against_is_direct(const struct hw *hw, const char *said, size_t len);
bool against_is_dev(const struct hw *hw, const char *said, size_t len, const char *dev);
#define AGAINST_DIRECT_WHY "NCCL goes by the Data Direct function, whose place is not followed."
/* Either text NULL: not known, and so untold. */
void against_add(struct against *g, const char *about, const char *what, const char *ours,
                 const char *theirs, size_t line, const char *why);
void against_port(struct against *g, const struct nccl_port *p, bool theirs, size_t line);
int against_gpu_at(const struct hw *hw, const char *bdf); /* -1: none */
/* "GPU 3": the driver's number where it is known. */
const char *against_gpu_name(struct against *g, size_t gpu);
enum rc against_topo_rows(struct against *g, const char *text, size_t len,
                          struct err *err) MUST_USE;

const char *nccl_verdict_name(enum nccl_verdict v); /* "same", "differs", "unknown" */

#endif
