# Not certain: MIG is on: a process sees one instance, instances have no peer access to
# each other, over NVLink or PCIe, and NCCL does not join those of one GPU.
# GPUS_PER_NODE is left unset. MIG is on: a process sees one instance, and how many ranks
# a machine has is for who hands the instances out.
# There is no RDMA device.
export STOKER_TRANSPORT=tcp
# There is no RDMA device, and NCCL goes over TCP. enp0s2 (virtio_net) cannot do RDMA: a
# virtual NIC; the host must pass on a NIC or a virtual function.
export NCCL_IB_DISABLE=1
# NCCL_IB_HCA is left unset. There is no RDMA device.
# NCCL_IB_GID_INDEX is left unset. No RoCE port can be used.
# enp0s2 leads to the other nodes, and NCCL takes it by itself. The default route via
# 192.168.122.1 leaves by it.
export NCCL_SOCKET_IFNAME='=enp0s2'
# NCCL_NET_GDR_LEVEL is left unset. GPUDirect RDMA needs an RDMA port.
# NCCL_P2P_LEVEL is left unset. MIG is on: a process sees one instance, and how many ranks
# a machine has is for who hands the instances out.
# OMP_NUM_THREADS is left unset. It is the usable CPUs divided by the GPUs, and the number
# of GPUs cannot be known.
# Without RDMA, UCX goes by the interface to the others.
export UCX_NET_DEVICES=enp0s2
# Without RDMA, MPI needs shared memory and TCP alone; GPU data goes through NCCL.
export UCX_TLS=self,sm,tcp
