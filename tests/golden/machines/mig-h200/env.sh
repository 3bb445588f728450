# NCCL_IB_DISABLE is left unset. There is no RDMA device, and NCCL goes over TCP.
# NCCL_SOCKET_IFNAME is left unset. enp0s2 leads to the other nodes, and NCCL takes it by
# itself. The default route via 192.168.122.1 leaves by it.
