# Not certain: MIG is on: a process sees one instance, instances have no peer access to
# each other, over NVLink or PCIe, and NCCL does not join those of one GPU.
# GPUS_PER_NODE is left unset. MIG is on: a process sees one instance, and how many ranks
# a machine has is for who hands the instances out.
# NCCL_IB_DISABLE is left unset. There is no RDMA device, and NCCL goes over TCP. enp0s2
# (virtio_net) cannot do RDMA: a virtual NIC; the host must pass on a NIC or a virtual
# function.
# NCCL_SOCKET_IFNAME is left unset. enp0s2 leads to the other nodes, and NCCL takes it by
# itself. The default route via 192.168.122.1 leaves by it.
# NCCL_P2P_LEVEL is left unset. MIG is on: a process sees one instance, and how many ranks
# a machine has is for who hands the instances out.
