# NCCL_IB_HCA is left unset. All 2 active InfiniBand ports (mlx5_0:1,mlx5_1:1, 400 Gb/s)
# are the right ones, and NCCL takes them by itself. Each GPU's share: GPU 0 800 Gb/s at
# PHB either way.
# NCCL_IB_GID_INDEX is left unset. The fabric is InfiniBand, where NCCL never reads it and
# uses entry 0.
# NCCL_SOCKET_IFNAME is left unset. eno1 leads to the other nodes, and NCCL takes it by
# itself. The default route via 10.60.0.1 leaves by it.
# NCCL_NET_GDR_LEVEL is left unset. NCCL_NET_GDR_C2C decides on the way over the GPUs'
# chip-to-chip link, not the level.
# NICs at the CPU reach GPU memory over the chip-to-chip link; NCCL 2.26 has that off
# unless told, 2.27 and newer have it on.
export NCCL_NET_GDR_C2C=1
