# GPUS_PER_NODE is left unset. 8 GPUs are on the PCI bus, but the driver shows none here
# (library 'libnvidia-ml.so.1' not found): this is how an init container or a pod without
# the GPU resource looks, so the number of GPUs cannot be known.
# 4 RDMA ports will carry the traffic between nodes.
export STOKER_TRANSPORT=rdma
# RDMA ports are active and usable.
export NCCL_IB_DISABLE=0
# All 4 active RoCE ports (mlx5_6:1,mlx5_9:1,mlx5_11:1,mlx5_12:1, 400 Gb/s) are the right
# ones, and NCCL takes them by itself. Each GPU's share: GPU 0-7 200 Gb/s at PIX either
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
# NCCL_P2P_LEVEL is left unset. The GPUs cannot be asked how they are connected.
# The 4 RoCE ports are rails, each in a subnet of its own that leads to no other: a ring
# that crosses from one rail to another could not connect.
export NCCL_CROSS_NIC=0
# OMP_NUM_THREADS is left unset. It is the usable CPUs divided by the GPUs, and the number
# of GPUs cannot be known.
# The same ports as for NCCL, in UCX's notation.
export UCX_NET_DEVICES=mlx5_6:1,mlx5_9:1,mlx5_11:1,mlx5_12:1
