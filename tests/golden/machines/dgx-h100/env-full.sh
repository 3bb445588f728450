# 8 GPUs answer here.
export GPUS_PER_NODE=8
# 8 RDMA ports will carry the traffic between nodes.
export STOKER_TRANSPORT=rdma
# RDMA ports are active and usable.
export NCCL_IB_DISABLE=0
# The 8 ports of the InfiniBand fabric at 400 Gb/s. NCCL would take every active port,
# also mlx5_1:1, mlx5_7:1 (file systems are mounted over its network, subnet
# fe80:0000:0000:0000 of the manager at LID 2, and the GPUs have others as near),
# mlx5_2:1, mlx5_8:1 (NCCL cannot join InfiniBand and Ethernet ports, and the InfiniBand
# ones are not those of file systems or the default route). Each GPU's share: GPU 0-7 400
# Gb/s at PXB either way.
export NCCL_IB_HCA='=mlx5_0:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_9:1,mlx5_10:1,mlx5_11:1'
# NCCL_IB_GID_INDEX is left unset. The fabric is InfiniBand, where NCCL never reads it and
# uses entry 0.
# bond0 leads to the other nodes. The default route via 10.150.0.1 leaves by it. NCCL
# would take ibp41s0f0, a rail without a gateway. ibp41s0f0 is IP over InfiniBand: this
# assumes that not every node has an address in its subnet. Where all have one, either
# will do; --peer with the IPoIB address of another node chooses it.
export NCCL_SOCKET_IFNAME='=bond0'
# Every GPU has a NIC at PXB or nearer, which NCCL's default (PXB) covers.
export NCCL_NET_GDR_LEVEL=PXB
# NVLink joins every pair of GPUs, and NCCL uses it by itself.
export NCCL_P2P_LEVEL=NVL
# 224 usable CPUs (affinity, cpuset and quota) for 8 local ranks, one for each GPU.
# torchrun would set 1.
export OMP_NUM_THREADS=28
# The same ports as for NCCL, in UCX's notation.
export UCX_NET_DEVICES=mlx5_0:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_9:1,mlx5_10:1,mlx5_11:1
