# 1 GPU answers here.
export GPUS_PER_NODE=1
# There is no RDMA device.
export STOKER_TRANSPORT=tcp
# There is no RDMA device, and NCCL goes over TCP. eth0 (virtio_net) cannot do RDMA: a
# virtual NIC; the host must pass on a NIC or a virtual function.
export NCCL_IB_DISABLE=1
# NCCL_IB_HCA is left unset. There is no RDMA device.
# NCCL_IB_GID_INDEX is left unset. No RoCE port can be used.
# eth0 leads to the other nodes, and NCCL takes it by itself. The default route via
# 240.0.0.1 leaves by it.
export NCCL_SOCKET_IFNAME='=eth0'
# NCCL_NET_GDR_LEVEL is left unset. GPUDirect RDMA needs an RDMA port.
# NCCL_P2P_LEVEL is left unset. One GPU has no peer.
# 16 usable CPUs (affinity, cpuset and quota) for 1 local rank, one for each GPU. torchrun
# would set 1.
export OMP_NUM_THREADS=16
# Without RDMA, UCX goes by the interface to the others.
export UCX_NET_DEVICES=eth0
# Without RDMA, MPI needs shared memory and TCP alone; GPU data goes through NCCL.
export UCX_TLS=self,sm,tcp
