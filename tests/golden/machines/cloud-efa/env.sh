# NCCL_IB_HCA is left unset. This machine has AWS EFA, which NCCL's own RDMA code cannot
# drive. The aws-ofi-nccl plug-in is needed and brings its own settings; NCCL_IB_* has no
# effect on it.
# NCCL_SOCKET_IFNAME is left unset. ens5 leads to the other nodes, and NCCL takes it by
# itself. The default route via 10.1.32.1 leaves by it.
# NCCL_P2P_LEVEL is left unset. NVLink joins every pair of GPUs, and NCCL uses it by
# itself.
