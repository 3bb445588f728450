# Not certain: No NCCL was found here: this is what 2.30 does. In a container with another
# one, ask there; one before 2.21 takes GID index 0 unless NCCL_IB_GID_INDEX is set.
# GPUS_PER_NODE is left unset. 1 GPU is on the PCI bus, but the driver shows none here
# ('/stoker/nvml.json': line 1, column 59: string without an end): this is how an init
# container or a pod without the GPU resource looks, so the number of GPUs cannot be
# known.
# STOKER_TRANSPORT is left unset. There is no default route, and more than one interface
# or none could be it.
# NCCL_IB_DISABLE is left unset. Whether RDMA can be used cannot be told from here.
# NCCL_IB_HCA is left unset. No RDMA port can be used from here.
# NCCL_IB_GID_INDEX is left unset. No RoCE port can be used.
# NCCL_SOCKET_IFNAME is left unset. Which interface leads to the other nodes cannot be
# told. There is no default route, and more than one interface or none could be it. NCCL
# would take lo.
# NCCL_NET_GDR_LEVEL is left unset. GPUDirect RDMA needs an RDMA port.
# NCCL_P2P_LEVEL is left unset. The GPUs cannot be asked how they are connected.
# OMP_NUM_THREADS is left unset. It is the usable CPUs divided by the GPUs, and the number
# of GPUs cannot be known.
