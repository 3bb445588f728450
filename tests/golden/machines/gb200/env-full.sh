# 4 GPUs answer here.
export GPUS_PER_NODE=4
# 4 RDMA ports will carry the traffic between nodes.
export STOKER_TRANSPORT=rdma
# RDMA ports are active and usable.
export NCCL_IB_DISABLE=0
# All 4 active InfiniBand ports (mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1, 400 Gb/s) are the
# right ones, and NCCL takes them by itself. Each GPU's share: GPU 0-3 400 Gb/s at P2C
# either way.
export NCCL_IB_HCA='=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1'
# NCCL_IB_GID_INDEX is left unset. The fabric is InfiniBand, where NCCL never reads it and
# uses entry 0.
# enP6s1 leads to the other nodes, and NCCL takes it by itself. The default route via
# 10.70.1.1 leaves by it.
export NCCL_SOCKET_IFNAME='=enP6s1'
# NCCL_NET_GDR_LEVEL is left unset. NCCL_NET_GDR_C2C decides on the way over the GPUs'
# chip-to-chip link, not the level.
# NCCL reaches GPU memory over the chip-to-chip link by itself from 2.27 on.
export NCCL_NET_GDR_C2C=1
# All 4 GPUs are of the NVLink domain 7c3f1a50-22d4-4b6e-9a01-5d6e7f809142, clique 1, and
# nvidia-imex runs: GPUs of that clique in other machines are reached over NVLink.
export NCCL_MNNVL_ENABLE=2
# NVLink joins every pair of GPUs, and NCCL uses it by itself.
export NCCL_P2P_LEVEL=NVL
# 144 usable CPUs (affinity, cpuset and quota) for 4 local ranks, one for each GPU.
# torchrun would set 1.
export OMP_NUM_THREADS=36
# The same ports as for NCCL, in UCX's notation.
export UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1
