# 4 GPUs answer here.
export GPUS_PER_NODE=4
# There is no RDMA device.
export STOKER_TRANSPORT=tcp
# There is no RDMA device, and NCCL goes over TCP. enp161s0f0 (i40e, 25 Gb/s) cannot do
# RDMA: iWARP at best, which NCCL cannot use.
export NCCL_IB_DISABLE=1
# NCCL_IB_HCA is left unset. There is no RDMA device.
# NCCL_IB_GID_INDEX is left unset. No RoCE port can be used.
# enp161s0f0 leads to the other nodes, and NCCL takes it by itself. The default route via
# 10.20.30.1 leaves by it.
export NCCL_SOCKET_IFNAME='=enp161s0f0'
# NCCL_NET_GDR_LEVEL is left unset. GPUDirect RDMA needs an RDMA port.
# NVLink joins some pairs only. The farthest pair is at SYS; NCCL's default (SYS) allows
# direct copies there. ACS or an IOMMU can break them at that distance.
export NCCL_P2P_LEVEL=SYS
# 128 usable CPUs (affinity, cpuset and quota) for 4 local ranks, one for each GPU.
# torchrun would set 1.
export OMP_NUM_THREADS=32
# Without RDMA, UCX goes by the interface to the others.
export UCX_NET_DEVICES=enp161s0f0
# Without RDMA, MPI needs shared memory and TCP alone; GPU data goes through NCCL.
export UCX_TLS=self,sm,tcp
