+# GPUS_PER_NODE is left unset. 8 GPUs are on the PCI bus, but the driver shows none here
+# (library 'libnvidia-ml.so.1' not found): this is how an init container or a pod without
+# the GPU resource looks, so the number of GPUs cannot be known.
-# them by itself. Each GPU's share: GPU 0-3 400 Gb/s at PIX either way.
+# them by itself. Each GPU's share: GPU 0-7 200 Gb/s at PIX either way.
-# NCCL_P2P_LEVEL is left unset. NVLink joins every pair of GPUs, and NCCL uses it by
-# itself.
+# NCCL_P2P_LEVEL is left unset. The GPUs cannot be asked how they are connected.
