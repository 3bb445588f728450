# NCCL_IB_HCA is left unset. All 8 active InfiniBand ports
# (mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1, 400 Gb/s) are
# the right ones, and NCCL takes them by itself. Each GPU's share: GPU 0-2 400 Gb/s at PIX
# either way.
# NCCL_IB_GID_INDEX is left unset. The fabric is InfiniBand, where NCCL never reads it and
# uses entry 0.
# NCCL_SOCKET_IFNAME is left unset. eno8303 leads to the other nodes, and NCCL takes it by
# itself. The default route via 10.41.4.1 leaves by it.
# NCCL_NET_GDR_LEVEL is left unset. Every GPU has a NIC at PIX or nearer, which NCCL's
# default (PXB) covers.
# NCCL_P2P_LEVEL is left unset. NVLink joins every pair of GPUs, and NCCL uses it by
# itself.
