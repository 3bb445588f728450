# Not certain: No NCCL was found here: this is what 2.30 does. In a container with another
# one, ask there; one before 2.21 takes GID index 0 unless NCCL_IB_GID_INDEX is set.
# 4 GPUs answer here.
export GPUS_PER_NODE=4
# 4 RDMA ports will carry the traffic between nodes.
export STOKER_TRANSPORT=rdma
# RDMA ports are active and usable.
export NCCL_IB_DISABLE=0
# The 4 ports of the InfiniBand fabric at 200 Gb/s. NCCL would take every active port,
# also mlx5_1:1 (NCCL cannot join InfiniBand and Ethernet ports, and the InfiniBand ones
# serve the GPUs at least as well). Each GPU's share: GPU 0-3 200 Gb/s at PIX either way.
export NCCL_IB_HCA='=mlx5_0:1,mlx5_2:1,mlx5_10:1,mlx5_11:1'
# NCCL_IB_GID_INDEX is left unset. The fabric is InfiniBand, where NCCL never reads it and
# uses entry 0.
# eno1 leads to the other nodes. The default route via 10.10.0.1 leaves by it. NCCL would
# take ib0, a rail without a gateway. ib0 is IP over InfiniBand: this assumes that not
# every node has an address in its subnet. Where all have one, either will do; --peer with
# the IPoIB address of another node chooses it.
export NCCL_SOCKET_IFNAME='=eno1'
# Every GPU has a NIC at PIX or nearer, which NCCL's default (PXB) covers.
export NCCL_NET_GDR_LEVEL=PXB
# NVLink joins every pair of GPUs, and NCCL uses it by itself.
export NCCL_P2P_LEVEL=NVL
# 128 usable CPUs (affinity, cpuset and quota) for 4 local ranks, one for each GPU.
# torchrun would set 1.
export OMP_NUM_THREADS=32
# The same ports as for NCCL, in UCX's notation.
export UCX_NET_DEVICES=mlx5_0:1,mlx5_2:1,mlx5_10:1,mlx5_11:1
