# 1 GPU answers here.
export GPUS_PER_NODE=1
# 2 RDMA ports will carry the traffic between nodes.
export STOKER_TRANSPORT=rdma
# RDMA ports are active and usable.
export NCCL_IB_DISABLE=0
# All 2 active InfiniBand ports (mlx5_0:1,mlx5_1:1, 400 Gb/s) are the right ones, and NCCL
# takes them by itself. Each GPU's share: GPU 0 800 Gb/s at PHB either way.
export NCCL_IB_HCA='=mlx5_0:1,mlx5_1:1'
# NCCL_IB_GID_INDEX is left unset. The fabric is InfiniBand, where NCCL never reads it and
# uses entry 0.
# eno1 leads to the other nodes, and NCCL takes it by itself. The default route via
# 10.60.0.1 leaves by it.
export NCCL_SOCKET_IFNAME='=eno1'
# NCCL_NET_GDR_LEVEL is left unset. NCCL_NET_GDR_C2C decides on the way over the GPUs'
# chip-to-chip link, not the level.
# NICs at the CPU reach GPU memory over the chip-to-chip link; NCCL 2.26 has that off
# unless told, 2.27 and newer have it on.
export NCCL_NET_GDR_C2C=1
# NCCL_P2P_LEVEL is left unset. One GPU has no peer.
# 72 usable CPUs (affinity, cpuset and quota) for 1 local rank, one for each GPU. torchrun
# would set 1.
export OMP_NUM_THREADS=72
# The same ports as for NCCL, in UCX's notation.
export UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1
