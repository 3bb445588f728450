-# 4 of 8 GPUs on the PCI bus answer here.
-export GPUS_PER_NODE=4
+# GPUS_PER_NODE is left unset. 8 GPUs are on the PCI bus, but the driver shows none here
+# (library 'libnvidia-ml.so.1' not found): this is how an init container or a pod without
+# the GPU resource looks, so the number of GPUs cannot be known.
-# ones, and NCCL takes them by itself. Each GPU's share: GPU 0-3 400 Gb/s at PIX either
+# ones, and NCCL takes them by itself. Each GPU's share: GPU 0-7 200 Gb/s at PIX either
-# NVLink joins every pair of GPUs, and NCCL uses it by itself.
-export NCCL_P2P_LEVEL=NVL
+# NCCL_P2P_LEVEL is left unset. The GPUs cannot be asked how they are connected.
-# 64 usable CPUs (affinity, cpuset and quota) for 4 local ranks, one for each GPU.
-# torchrun would set 1.
-export OMP_NUM_THREADS=16
+# OMP_NUM_THREADS is left unset. It is the usable CPUs divided by the GPUs, and the number
+# of GPUs cannot be known.
