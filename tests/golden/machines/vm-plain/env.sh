# NCCL_IB_DISABLE is left unset. There is no RDMA device, and NCCL goes over TCP. eth0
# (virtio_net) cannot do RDMA: a virtual NIC; the host must pass on a NIC or a virtual
# function.
# NCCL_SOCKET_IFNAME is left unset. eth0 leads to the other nodes, and NCCL takes it by
# itself. The default route via 240.0.0.1 leaves by it.
