# 4 GPUs answer here.
export GPUS_PER_NODE=4
# 4 RDMA ports will carry the traffic between nodes.
export STOKER_TRANSPORT=rdma
# RDMA ports are active and usable.
export NCCL_IB_DISABLE=0
# All 4 active RoCE ports (bnxt_re0:1,bnxt_re1:1,bnxt_re2:1,bnxt_re3:1, 400 Gb/s) are the
# right ones, and NCCL takes them by itself. Each GPU's share: GPU 0-3 400 Gb/s at PIX
# either way.
export NCCL_IB_HCA='=bnxt_re0:1,bnxt_re1:1,bnxt_re2:1,bnxt_re3:1'
# NCCL looks for an IPv4 address, and not every port has one of RoCE v2; each has an IPv6
# one. NCCL's search goes wrong on bnxt_re0. Index 0 (fe80::8616:cff:fe3e:2010, IB/RoCE v1
# on ens11np0): NCCL's search for an IPv4 address and RoCE v2 ends there, but it is RoCE
# v1, which no router forwards.
export NCCL_IB_ADDR_FAMILY=AF_INET6
# With NCCL_IB_ADDR_FAMILY=AF_INET6 NCCL's search ends at index 3 on every port, a
# routable RoCE v2 address. The index may differ between pods and nodes: unset is safer.
export NCCL_IB_GID_INDEX=3
# eno1 leads to the other nodes, and NCCL takes it by itself. The default route via
# fd00:0:0:100::1 leaves by it.
export NCCL_SOCKET_IFNAME='=eno1'
# Every GPU has a NIC at PIX or nearer, which NCCL's default (PXB) covers.
export NCCL_NET_GDR_LEVEL=PXB
# NVLink joins every pair of GPUs, and NCCL uses it by itself.
export NCCL_P2P_LEVEL=NVL
# The 4 RoCE ports are rails, each in a subnet of its own that leads to no other: a ring
# that crosses from one rail to another could not connect.
export NCCL_CROSS_NIC=0
# 128 usable CPUs (affinity, cpuset and quota) for 4 local ranks, one for each GPU.
# torchrun would set 1.
export OMP_NUM_THREADS=32
# The same ports as for NCCL, in UCX's notation.
export UCX_NET_DEVICES=bnxt_re0:1,bnxt_re1:1,bnxt_re2:1,bnxt_re3:1
