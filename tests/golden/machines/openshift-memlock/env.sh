# NCCL_IB_HCA is left unset. All 4 active RoCE ports
# (mlx5_6:1,mlx5_9:1,mlx5_11:1,mlx5_12:1, 400 Gb/s) are the right ones, and NCCL takes
# them by itself. Each GPU's share: GPU 0-3 400 Gb/s at PIX either way.
# NCCL_IB_GID_INDEX is left unset. NCCL's own search ends at index 3 on every port, a
# routable RoCE v2 address of this network namespace.
# NCCL_SOCKET_IFNAME is left unset. eth0 leads to the other nodes, and NCCL takes it by
# itself. The default route via 10.128.2.1 leaves by it.
# NCCL_NET_GDR_LEVEL is left unset. Every GPU has a NIC at PIX or nearer, which NCCL's
# default (PXB) covers.
# NCCL_P2P_LEVEL is left unset. NVLink joins every pair of GPUs, and NCCL uses it by
# itself.
# The 4 RoCE ports are rails, each in a subnet of its own that leads to no other: a ring
# that crosses from one rail to another could not connect.
export NCCL_CROSS_NIC=0
