# NCCL_IB_DISABLE is left unset. There is no RDMA device, and NCCL goes over TCP.
# enp161s0f0 (i40e, 25 Gb/s) cannot do RDMA: iWARP at best, which NCCL cannot use.
# NCCL_SOCKET_IFNAME is left unset. enp161s0f0 leads to the other nodes, and NCCL takes it
# by itself. The default route via 10.20.30.1 leaves by it.
# NCCL_P2P_LEVEL is left unset. NVLink joins some pairs only. The farthest pair is at SYS;
# NCCL's default (SYS) allows direct copies there. ACS or an IOMMU can break them at that
# distance.
