/* SPDX-License-Identifier: MIT */
/* The training and the container checks. */
#include "test_health_fixture.h"

TWEAK(no_gpu, f->hw.gpus_count = 0)
TWEAK(old_cuda, f->hw.nvidia.cuda_driver = maybe_of(12000))
TWEAK(old_toolkit, f->soft[0].version = "11.8")
TWEAK(two_toolkits, f->soft[0].version = "11.8"; fx_soft(f, "cuda", "12.4"))
TWEAK(no_cuda, f->hw.nvidia.cuda_driver = maybe_none())
TWEAK(no_cudnn, fx_drop_soft(f, "cudnn"))
TWEAK(old_cudnn, f->soft[1].version = "8.6.0")
TWEAK(odd_cudnn, f->soft[1].version = NULL)
TWEAK(old_nccl, f->soft[2].version = "2.18.3")
TWEAK(no_nccl, fx_drop_soft(f, "nccl"))
TWEAK(no_nccl_alone, no_nccl(f); f->hw.gpus_count = 1; f->hw.rdma_count = 0)
TWEAK(no_torch, fx_drop_soft(f, "torch"))
TWEAK(no_toolkit, fx_drop_soft(f, "nvidia-container-toolkit"))
TWEAK(no_docker, fx_drop_soft(f, "docker"))
TWEAK(no_engine, f->hw.nvidia.hostengine_running = maybe_of(0))
TWEAK(no_dcgm, no_engine(f); fx_drop_soft(f, "dcgm"))
TWEAK(shm_docker, f->hw.limits.shm_bytes = maybe_of(64 << 20))
TWEAK(shm_small, f->hw.limits.shm_bytes = maybe_of(FX_GIB))
TWEAK(shm_unknown, f->hw.limits.shm_bytes = maybe_none())
TWEAK(nofile, f->hw.limits.nofile = maybe_of(1024))
TWEAK(nofile_free, f->hw.limits.nofile = maybe_of(-1))
TWEAK(powersave, f->hw.cpu.governor = "powersave")
TWEAK(governor_vm, f->hw.cpu.governor = NULL; f->hw.place.hypervisor = "kvm")
TWEAK(governor_unknown, f->hw.cpu.governor = NULL)
TWEAK(thp_never, f->hw.memory.thp = "never")
TWEAK(huge_many, f->huge.size_bytes = maybe_of(FX_GIB); f->huge.free = maybe_of(600))
TWEAK(huge_few, f->huge.size_bytes = maybe_of(FX_GIB); f->huge.free = maybe_of(8))
TWEAK(huge_absurd, f->huge.size_bytes = maybe_of(INT64_MAX); f->huge.free = maybe_of(2))
TWEAK(swap, f->hw.memory.swap_bytes = maybe_of(8 * FX_GIB))
TWEAK(swap_k8s, swap(f); fx_soft(f, "kubelet", "1.32"))
TWEAK(mem_small, f->hw.memory.total_bytes = maybe_of(256 * FX_GIB))
TWEAK(mem_limit, f->hw.place.mem_limit_bytes = maybe_of(200 * FX_GIB))
TWEAK(mem_unknown, f->hw.memory.total_bytes = maybe_none())
TWEAK(cpus_few, f->hw.place.cpus_usable = maybe_of(4))
TWEAK(numa_lopsided, f->gpus[1].numa = maybe_of(0))
TWEAK(numa_unknown, f->gpus[1].numa = maybe_none())
TWEAK(disk_full, f->mount.avail_bytes = maybe_of(50 * FX_GIB))
TWEAK(disk_none, f->disk.transport = "virtio")
TWEAK(disk_unmounted, f->mount.source = "overlay")
TWEAK(disk_unknown, f->hw.disks_count = f->hw.mounts_count = 0)
TWEAK(in_slurm, f->hw.place.slurm_job = "42"; f->hw.place.slurm_gpus = "2")
TWEAK(slurm_more, in_slurm(f); f->hw.place.slurm_gpus = "gpu:h200:4")
TWEAK(slurm_fewer, in_slurm(f); f->hw.place.slurm_gpus = "1")
TWEAK(slurm_unasked, in_slurm(f); f->hw.place.slurm_gpus = NULL)
TWEAK(slurm_none, slurm_unasked(f); no_gpu(f))
TWEAK(slurm_odd, in_slurm(f); f->hw.place.slurm_gpus = "some")
TWEAK(nv_all, fx_pod(f); fx_env(f, "NVIDIA_VISIBLE_DEVICES", "all"))
TWEAK(nv_all_none, nv_all(f); no_gpu(f))
TWEAK(nv_void, fx_pod(f); fx_env(f, "NVIDIA_VISIBLE_DEVICES", "void"); no_gpu(f))
TWEAK(nv_void_cdi, fx_pod(f); fx_env(f, "NVIDIA_VISIBLE_DEVICES", "void"))
TWEAK(nv_two, fx_pod(f); fx_env(f, "NVIDIA_VISIBLE_DEVICES", "GPU-a,GPU-b"))
TWEAK(nv_four, fx_pod(f); fx_env(f, "NVIDIA_VISIBLE_DEVICES", "0,1,2,3"))
TWEAK(cuda_two, fx_env(f, "CUDA_VISIBLE_DEVICES", "0,1"))
TWEAK(cuda_four, fx_env(f, "CUDA_VISIBLE_DEVICES", "4,5,6,7"))
TWEAK(cuda_none, fx_env(f, "CUDA_VISIBLE_DEVICES", ""))
TWEAK(quota, fx_pod(f); f->hw.place.cpu_quota_milli = maybe_of(16000))
TWEAK(quota_odd, fx_pod(f); f->hw.place.cpu_quota_milli = maybe_of(3500))
TWEAK(quota_unknown, fx_pod(f); f->hw.place.cgroup = maybe_none())
TWEAK(omp_ok, fx_env(f, "OMP_NUM_THREADS", "32"))
TWEAK(omp_many, fx_env(f, "OMP_NUM_THREADS", "64"))
TWEAK(omp_odd, fx_env(f, "OMP_NUM_THREADS", "many"))
TWEAK(omp_unset, f->hw.place.cpus_usable = maybe_of(16))
TWEAK(omp_unknown, f->hw.place.cpus_usable = maybe_none())
TWEAK(hidden, fx_pod(f); f->gpus[0].state = f->gpus[1].state = "hidden")
TWEAK(pids, f->hw.place.pids_limit = maybe_of(1024))
TWEAK(pids_ok, f->hw.place.pids_limit = maybe_of(65536))
TWEAK(no_net, f->nets[0].addrs_count = f->nets[1].addrs_count = 0)

static void net_damaged(struct fx *f)
{
    static struct hw_note note = { .source = "self",
                                   .text = "/stoker/self.json of the capture is not usable: cut" };

    no_net(f);
    f->hw.notes = &note;
    f->hw.notes_count = 1;
}

TWEAK(net_unknown, f->hw.nets_count = 0)
TWEAK(roce_pod, fx_pod(f); fx_roce(f))
TWEAK(roce_elsewhere, roce_pod(f); f->hw.nets_count = 0; f->gids[0].ndev = f->gids[1].ndev = NULL)
TWEAK(roce_half, roce_pod(f); f->hw.nets_count = 1; f->gids[1].ndev = NULL)

static const struct fx_row rows[] = {
    { "training.cuda", NULL, CHECK_PASS, "CUDA 13.0, toolkit 12.9" },
    { "training.cuda", old_cuda, CHECK_FAIL, "CUDA 12.0, 12.1 is wanted" },
    { "training.cuda", old_toolkit, CHECK_WARN, "toolkit 11.8" },
    { "training.cuda", two_toolkits, CHECK_PASS, "toolkit 12.4" },
    { "training.cuda", no_cuda, CHECK_UNKNOWN, "toolkit 12.9" },
    { "training.cudnn", NULL, CHECK_PASS, "cuDNN 9.1.0" },
    { "training.cudnn", no_cudnn, CHECK_WARN, "not found" },
    { "training.cudnn", old_cudnn, CHECK_WARN, "8.6.0 is older than 8.9" },
    { "training.cudnn", odd_cudnn, CHECK_UNKNOWN, "its version is not told" },
    { "training.nccl", NULL, CHECK_PASS, "NCCL 2.27.3" },
    { "training.nccl", old_nccl, CHECK_WARN, "2.18.3 is older than 2.21" },
    { "training.nccl", no_nccl, CHECK_WARN, "not found" },
    { "training.nccl", no_nccl_alone, CHECK_SKIP, "nothing to talk to" },
    { "training.framework", NULL, CHECK_PASS, "torch 2.8.0+cu129" },
    { "training.framework", no_torch, CHECK_WARN, "not found" },
    { "training.runtime", NULL, CHECK_PASS, "docker 27.0, nvidia-container-toolkit 1.17.0" },
    { "training.runtime", no_toolkit, CHECK_WARN, "without nvidia-container-toolkit" },
    { "training.runtime", no_docker, CHECK_SKIP, "no container runtime" },
    { "training.runtime", fx_pod, CHECK_SKIP, "inside a container" },
    { "training.dcgm", NULL, CHECK_PASS, "nv-hostengine runs, DCGM 4.2.0" },
    { "training.dcgm", no_engine, CHECK_PASS, "does not run here" },
    { "training.dcgm", no_dcgm, CHECK_WARN, "not found" },
    { "training.shm", NULL, CHECK_PASS, "64 GiB in /dev/shm" },
    { "training.shm", shm_docker, CHECK_FAIL, "64 MiB in /dev/shm" },
    { "training.shm", shm_small, CHECK_WARN, "2 GiB are wanted for 2 GPUs" },
    { "training.shm", shm_unknown, CHECK_UNKNOWN, "could not be read" },
    { "training.nofile", NULL, CHECK_PASS, "1048576" },
    { "training.nofile", nofile, CHECK_WARN, "1024 open files" },
    { "training.nofile", nofile_free, CHECK_PASS, "unlimited" },
    { "training.governor", NULL, CHECK_PASS, "performance" },
    { "training.governor", powersave, CHECK_WARN, "powersave" },
    { "training.governor", governor_vm, CHECK_SKIP, "virtual machine" },
    { "training.governor", governor_unknown, CHECK_UNKNOWN, "no governor" },
    { "training.thp", NULL, CHECK_PASS, "madvise" },
    { "training.thp", thp_never, CHECK_WARN, "never" },
    { "training.hugepages", NULL, CHECK_PASS, "none kept" },
    { "training.hugepages", huge_few, CHECK_PASS, "8 GiB kept" },
    { "training.hugepages", huge_many, CHECK_WARN, "600 GiB" },
    { "training.hugepages", huge_absurd, CHECK_PASS, "none kept" },
    { "training.swap", NULL, CHECK_PASS, "none" },
    { "training.swap", swap, CHECK_PASS, "8 GiB" },
    { "training.swap", swap_k8s, CHECK_WARN, "Kubernetes node" },
    { "training.memory", NULL, CHECK_PASS, "for 280 GiB of GPU memory" },
    { "training.memory", mem_small, CHECK_WARN, "256 GiB for 280 GiB" },
    { "training.memory", mem_limit, CHECK_WARN, "200 GiB by cgroup limit" },
    { "training.memory", mem_unknown, CHECK_UNKNOWN, "could not be read" },
    { "training.memory", no_gpu, CHECK_SKIP, "no GPU memory" },
    { "training.cpus", NULL, CHECK_PASS, "64 CPUs for 2 GPUs" },
    { "training.cpus", cpus_few, CHECK_WARN, "4 CPUs for 2 GPUs, 4 a GPU are wanted" },
    { "training.numa", NULL, CHECK_PASS, "2 GPUs over 2 nodes, at most 1 on one" },
    { "training.numa", numa_lopsided, CHECK_WARN, "all 2 GPUs hang on node 0 of 2" },
    { "training.numa", numa_unknown, CHECK_UNKNOWN, "1 GPUs" },
    { "training.disk", NULL, CHECK_PASS, "4 TiB free on /scratch" },
    { "training.disk", disk_full, CHECK_WARN, "50 GiB free on /scratch, 280 GiB are wanted" },
    { "training.disk", disk_none, CHECK_WARN, "no local NVMe" },
    { "training.disk", disk_unmounted, CHECK_UNKNOWN, "none mounted here" },
    { "training.disk", disk_unknown, CHECK_UNKNOWN, "could be read" },
};

static const struct fx_row container_rows[] = {
    { "container.where", NULL, CHECK_PASS, "no container, no job" },
    { "container.where", fx_pod, CHECK_PASS, "pod 'train-0' of namespace 'ml'" },
    { "container.where", in_slurm, CHECK_PASS, "Slurm job 42" },
    { "container.nvidia-visible", nv_all, CHECK_PASS, "2 GPUs seen" },
    { "container.nvidia-visible", nv_all_none, CHECK_FAIL, "no GPU is seen" },
    { "container.nvidia-visible", nv_void, CHECK_FAIL, "given no GPU" },
    { "container.nvidia-visible", nv_void_cdi, CHECK_PASS, "gave 2 GPUs itself" },
    { "container.nvidia-visible", nv_two, CHECK_PASS, "2 GPUs in NVIDIA_VISIBLE_DEVICES" },
    { "container.nvidia-visible", nv_four, CHECK_WARN, "4 GPUs in NVIDIA_VISIBLE_DEVICES, 2 seen" },
    { "container.nvidia-visible", fx_pod, CHECK_SKIP, "not set" },
    { "container.nvidia-visible", NULL, CHECK_SKIP, "not in a container" },
    { "container.cuda-visible", cuda_two, CHECK_PASS, "2 of 2" },
    { "container.cuda-visible", cuda_four, CHECK_WARN, "names 4 GPUs, 2 are seen" },
    { "container.cuda-visible", cuda_none, CHECK_WARN, "hides every GPU" },
    { "container.slurm", in_slurm, CHECK_PASS, "2 GPUs given and seen" },
    { "container.slurm", slurm_more, CHECK_FAIL, "4 GPUs given, 2 seen" },
    { "container.slurm", slurm_fewer, CHECK_WARN, "1 GPUs given, 2 seen" },
    { "container.slurm", slurm_unasked, CHECK_WARN, "asked for no GPU and sees 2" },
    { "container.slurm", slurm_none, CHECK_FAIL, "asked for no GPU" },
    { "container.slurm", slurm_odd, CHECK_UNKNOWN, "'some'" },
    { "container.slurm", NULL, CHECK_SKIP, "no Slurm job" },
    { "container.quota", quota, CHECK_PASS, "16 CPUs" },
    { "container.quota", quota_odd, CHECK_WARN, "3.500 CPUs" },
    { "container.quota", fx_pod, CHECK_PASS, "no CPU quota" },
    { "container.quota", quota_unknown, CHECK_UNKNOWN, "could not be read" },
    { "container.omp", NULL, CHECK_PASS, "not set" },
    { "container.omp", omp_ok, CHECK_PASS, "OMP_NUM_THREADS=32 for 2 ranks on 64" },
    { "container.omp", omp_many, CHECK_WARN, "OMP_NUM_THREADS=64 for 2 ranks" },
    { "container.omp", omp_odd, CHECK_WARN, "'many' is no count" },
    { "container.omp", omp_unset, CHECK_WARN, "see 64, 16 may be used" },
    { "container.omp", omp_unknown, CHECK_UNKNOWN, "could not be read" },
    { "container.omp", hidden, CHECK_UNKNOWN, "ranks cannot be counted" },
    { "container.pids", NULL, CHECK_PASS, "no limit" },
    { "container.pids", pids_ok, CHECK_PASS, "65536" },
    { "container.pids", pids, CHECK_WARN, "1024 processes" },
    { "container.network", NULL, CHECK_PASS, "net1 on mlx5_0, net2 on mlx5_1" },
    { "container.network", no_net, CHECK_FAIL, "no network device" },
    { "container.network", net_damaged, CHECK_UNKNOWN, "no address is known: /stoker/self.json" },
    { "container.network", net_unknown, CHECK_UNKNOWN, "could not be read" },
    { "container.rdma", roce_pod, CHECK_PASS, "2 RoCE devices, each" },
    { "container.rdma", roce_elsewhere, CHECK_FAIL, "none with a network device" },
    { "container.rdma", roce_half, CHECK_PASS, "1 more belong to others" },
    { "container.rdma", fx_roce, CHECK_SKIP, "not in a container" },
};

TEST(training)
{
    fx_run(rows, ARRAY_SIZE(rows), CHECK_TRAINING);
    fx_cover(&checks_training, rows, ARRAY_SIZE(rows), NULL);
}

TEST(container)
{
    fx_run(container_rows, ARRAY_SIZE(container_rows), CHECK_CONTAINER);
    fx_cover(&checks_container, container_rows, ARRAY_SIZE(container_rows), "container.where");
}

TEST_MAIN(cmocka_unit_test(training), cmocka_unit_test(container))
