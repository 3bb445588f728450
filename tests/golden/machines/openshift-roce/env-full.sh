# 4 of 8 GPUs on the PCI bus answer here.
export GPUS_PER_NODE=4
# 4 RDMA ports will carry the traffic between nodes.
export STOKER_TRANSPORT=rdma
# RDMA ports are active and usable.
export NCCL_IB_DISABLE=0
# All 4 active RoCE ports (mlx5_6:1,mlx5_9:1,mlx5_11:1,mlx5_12:1, 400 Gb/s) are the right
# ones, and NCCL takes them by itself. Each GPU's share: GPU 0-3 400 Gb/s at PIX either
# way.
export NCCL_IB_HCA='=mlx5_6:1,mlx5_9:1,mlx5_11:1,mlx5_12:1'
# NCCL's search ends at index 3 on every port, a routable RoCE v2 address. The index may
# differ between pods and nodes: unset is safer.
export NCCL_IB_GID_INDEX=3
# eth0 leads to the other nodes, and NCCL takes it by itself. The default route via
# 10.128.2.1 leaves by it.
export NCCL_SOCKET_IFNAME='=eth0'
# Every GPU has a NIC at PIX or nearer, which NCCL's default (PXB) covers.
export NCCL_NET_GDR_LEVEL=PXB
# NVLink joins every pair of GPUs, and NCCL uses it by itself.
export NCCL_P2P_LEVEL=NVL
# The 4 RoCE ports are rails, each in a subnet of its own that leads to no other: a ring
# that crosses from one rail to another could not connect.
export NCCL_CROSS_NIC=0
# 64 usable CPUs (affinity, cpuset and quota) for 4 local ranks, one for each GPU.
# torchrun would set 1.
export OMP_NUM_THREADS=16
# The same ports as for NCCL, in UCX's notation.
export UCX_NET_DEVICES=mlx5_6:1,mlx5_9:1,mlx5_11:1,mlx5_12:1
