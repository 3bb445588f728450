# 8 GPUs answer here.
export GPUS_PER_NODE=8
# The aws-ofi-nccl plug-in was found and drives EFA.
export STOKER_TRANSPORT=efa
# NCCL_IB_DISABLE is left unset. EFA is not driven by NCCL's RDMA code, which this
# variable is about.
# NCCL_IB_HCA is left unset. This machine has AWS EFA, which NCCL's own RDMA code cannot
# drive. The aws-ofi-nccl plug-in is needed and brings its own settings; NCCL_IB_* has no
# effect on it.
# ens5 leads to the other nodes, and NCCL takes it by itself. The default route via
# 10.1.32.1 leaves by it.
export NCCL_SOCKET_IFNAME='=ens5'
# NVLink joins every pair of GPUs, and NCCL uses it by itself.
export NCCL_P2P_LEVEL=NVL
# 192 usable CPUs (affinity, cpuset and quota) for 8 local ranks, one for each GPU.
# torchrun would set 1.
export OMP_NUM_THREADS=24
