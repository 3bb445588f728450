# 3 of the 7 GPUs that answer are left by CUDA_VISIBLE_DEVICES.
export GPUS_PER_NODE=3
# 8 RDMA ports will carry the traffic between nodes.
export STOKER_TRANSPORT=rdma
# RDMA ports are active and usable.
export NCCL_IB_DISABLE=0
# All 8 active InfiniBand ports
# (mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1, 400 Gb/s) are
# the right ones, and NCCL takes them by itself. Each GPU's share: GPU 0-2 400 Gb/s at PIX
# either way.
export NCCL_IB_HCA='=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1'
# NCCL_IB_GID_INDEX is left unset. The fabric is InfiniBand, where NCCL never reads it and
# uses entry 0.
# eno8303 leads to the other nodes, and NCCL takes it by itself. The default route via
# 10.41.4.1 leaves by it.
export NCCL_SOCKET_IFNAME='=eno8303'
# Every GPU has a NIC at PIX or nearer, which NCCL's default (PXB) covers.
export NCCL_NET_GDR_LEVEL=PXB
# NVLink joins every pair of GPUs, and NCCL uses it by itself.
export NCCL_P2P_LEVEL=NVL
# 224 usable CPUs (affinity, cpuset and quota) for 7 local ranks, one for each GPU, also
# those that CUDA_VISIBLE_DEVICES leaves to others. torchrun would set 1.
export OMP_NUM_THREADS=32
# The same ports as for NCCL, in UCX's notation.
export UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1
