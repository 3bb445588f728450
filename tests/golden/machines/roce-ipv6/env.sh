# NCCL_IB_HCA is left unset. All 4 active RoCE ports
# (bnxt_re0:1,bnxt_re1:1,bnxt_re2:1,bnxt_re3:1, 400 Gb/s) are the right ones, and NCCL
# takes them by itself. Each GPU's share: GPU 0-3 400 Gb/s at PIX either way.
# NCCL looks for an IPv4 address, and not every port has one of RoCE v2; each has an IPv6
# one. NCCL's search goes wrong on bnxt_re0. Index 0 (fe80::8616:cff:fe3e:2010, IB/RoCE v1
# on ens11np0): NCCL's search for an IPv4 address and RoCE v2 ends there, but it is RoCE
# v1, which no router forwards.
export NCCL_IB_ADDR_FAMILY=AF_INET6
# NCCL_IB_GID_INDEX is left unset. With NCCL_IB_ADDR_FAMILY=AF_INET6 NCCL's own search
# ends at index 3 on every port, a routable RoCE v2 address of this network namespace.
# NCCL_SOCKET_IFNAME is left unset. eno1 leads to the other nodes, and NCCL takes it by
# itself. The default route via fd00:0:0:100::1 leaves by it.
# NCCL_NET_GDR_LEVEL is left unset. Every GPU has a NIC at PIX or nearer, which NCCL's
# default (PXB) covers.
# NCCL_P2P_LEVEL is left unset. NVLink joins every pair of GPUs, and NCCL uses it by
# itself.
# The 4 RoCE ports are rails, each in a subnet of its own that leads to no other: a ring
# that crosses from one rail to another could not connect.
export NCCL_CROSS_NIC=0
