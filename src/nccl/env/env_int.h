/* SPDX-License-Identifier: MIT */
/* env_int: what the files of the environment share.
 *
 *   env.c       the list of variables, the job, devices and distances
 *   env_gid.c   the address that RoCE ports speak from
 *   env_net.c   the interfaces that NCCL starts over and, without RDMA, sends data by */
#ifndef NCCL_ENV_ENV_INT_H
#define NCCL_ENV_ENV_INT_H
#include "nccl/nccl_int.h"

struct env_run {
    const struct hw *hw;
    struct arena *a;
    struct nccl_choice c;
    bool full;
    struct nccl_env *out;
    const struct nccl_choice *all; /* ... were CUDA_VISIBLE_DEVICES unset; NULL: it hides no GPU */
    const char *off; /* the environment turns RDMA off, as a sentence; NULL: it does not */
    size_t wanted;   /* RDMA ports that should be used */
    bool roce;       /* the wanted ports are Ethernet */
    bool need_inet6; /* NCCL_IB_ADDR_FAMILY=AF_INET6 mends the search for a GID */
};

/* What a step decided.  All zero: the variable is not mentioned. */
struct env_verdict {
    bool said;
    enum nccl_kind kind;
    const char *value;
    const char *reason;
};

/* ---- env.c ---- */
struct env_verdict env_unset(const char *reason);
struct env_verdict env_set(enum nccl_kind kind, const char *value, const char *reason);
/* Right already: written down in full mode, a comment in minimal mode. */
struct env_verdict env_pin(const struct env_run *r, const char *value, const char *reason);
struct env_verdict env_nothing(void);
void env_ports_count(struct env_run *r);  /* fills wanted and roce */
bool env_is_tcp(const struct env_run *r); /* sockets carry the data, and can */

/* ---- env_gid.c ---- */
struct env_verdict env_gid_index(const struct env_run *r);
/* Would NCCL_IB_ADDR_FAMILY=AF_INET6 mend the search? */
bool env_gid_wants_inet6(const struct env_run *r);
struct env_verdict env_addr_family(const struct env_run *r);
struct env_verdict env_addr_range(const struct env_run *r);

/* ---- env_net.c ---- */
struct env_verdict env_socket_ifname(const struct env_run *r);
struct env_verdict env_ucx_sockets(const struct env_run *r);

#endif
