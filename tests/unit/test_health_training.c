/* SPDX-License-Identifier: MIT */
/* The training and the container checks. */
#include "test_health_fixture.h"

static void no_gpu(struct fx *f)
{
    f->hw.gpus_count = 0;
}

static void old_cuda(struct fx *f)
{
    f->hw.nvidia.cuda_driver = maybe_of(12000);
}

static void old_toolkit(struct fx *f)
{
    f->soft[0].version = "11.8";
}

static void two_toolkits(struct fx *f)
{
    f->soft[0].version = "11.8";
    fx_soft(f, "cuda", "12.4");
}

static void no_cuda(struct fx *f)
{
    f->hw.nvidia.cuda_driver = maybe_none();
}

static void no_cudnn(struct fx *f)
{
    fx_drop_soft(f, "cudnn");
}

static void old_cudnn(struct fx *f)
{
    f->soft[1].version = "8.6.0";
}

static void odd_cudnn(struct fx *f)
{
    f->soft[1].version = NULL;
}

static void old_nccl(struct fx *f)
{
    f->soft[2].version = "2.18.3";
}

static void no_nccl(struct fx *f)
{
    fx_drop_soft(f, "nccl");
}

static void no_nccl_alone(struct fx *f)
{
    no_nccl(f);
    f->hw.gpus_count = 1;
    f->hw.rdma_count = 0;
}

static void no_torch(struct fx *f)
{
    fx_drop_soft(f, "torch");
}

static void no_toolkit(struct fx *f)
{
    fx_drop_soft(f, "nvidia-container-toolkit");
}

static void no_docker(struct fx *f)
{
    fx_drop_soft(f, "docker");
}

static void no_engine(struct fx *f)
{
    f->hw.nvidia.hostengine_running = maybe_of(0);
}

static void no_dcgm(struct fx *f)
{
    no_engine(f);
    fx_drop_soft(f, "dcgm");
}

static void shm_docker(struct fx *f)
{
    f->hw.limits.shm_bytes = maybe_of(64 << 20);
}

static void shm_small(struct fx *f)
{
    f->hw.limits.shm_bytes = maybe_of(FX_GIB);
}

static void shm_unknown(struct fx *f)
{
    f->hw.limits.shm_bytes = maybe_none();
}

static void nofile(struct fx *f)
{
    f->hw.limits.nofile = maybe_of(1024);
}

static void nofile_free(struct fx *f)
{
    f->hw.limits.nofile = maybe_of(-1);
}

static void powersave(struct fx *f)
{
    f->hw.cpu.governor = "powersave";
}

static void governor_vm(struct fx *f)
{
    f->hw.cpu.governor = NULL;
    f->hw.place.hypervisor = "kvm";
}

static void governor_unknown(struct fx *f)
{
    f->hw.cpu.governor = NULL;
}

static void thp_never(struct fx *f)
{
    f->hw.memory.thp = "never";
}

static void huge_many(struct fx *f)
{
    f->huge.size_bytes = maybe_of(FX_GIB);
    f->huge.free = maybe_of(600);
}

static void huge_few(struct fx *f)
{
    f->huge.size_bytes = maybe_of(FX_GIB);
    f->huge.free = maybe_of(8);
}

static void huge_absurd(struct fx *f)
{
    f->huge.size_bytes = maybe_of(INT64_MAX);
    f->huge.free = maybe_of(2);
}

static void swap(struct fx *f)
{
    f->hw.memory.swap_bytes = maybe_of(8 * FX_GIB);
}

static void swap_k8s(struct fx *f)
{
    swap(f);
    fx_soft(f, "kubelet", "1.32");
}

static void mem_small(struct fx *f)
{
    f->hw.memory.total_bytes = maybe_of(256 * FX_GIB);
}

static void mem_limit(struct fx *f)
{
    f->hw.place.mem_limit_bytes = maybe_of(200 * FX_GIB);
}

static void mem_unknown(struct fx *f)
{
    f->hw.memory.total_bytes = maybe_none();
}

static void cpus_few(struct fx *f)
{
    f->hw.place.cpus_usable = maybe_of(4);
}

static void numa_lopsided(struct fx *f)
{
    f->gpus[1].numa = maybe_of(0);
}

static void numa_unknown(struct fx *f)
{
    f->gpus[1].numa = maybe_none();
}

static void disk_full(struct fx *f)
{
    f->mount.avail_bytes = maybe_of(50 * FX_GIB);
}

static void disk_none(struct fx *f)
{
    f->disk.transport = "virtio";
}

static void disk_unmounted(struct fx *f)
{
    f->mount.source = "overlay";
}

static void disk_unknown(struct fx *f)
{
    f->hw.disks_count = f->hw.mounts_count = 0;
}

static void in_slurm(struct fx *f)
{
    f->hw.place.slurm_job = "42";
    f->hw.place.slurm_gpus = "2";
}

static void slurm_more(struct fx *f)
{
    in_slurm(f);
    f->hw.place.slurm_gpus = "gpu:h200:4";
}

static void slurm_fewer(struct fx *f)
{
    in_slurm(f);
    f->hw.place.slurm_gpus = "1";
}

static void slurm_unasked(struct fx *f)
{
    in_slurm(f);
    f->hw.place.slurm_gpus = NULL;
}

static void slurm_none(struct fx *f)
{
    slurm_unasked(f);
    no_gpu(f);
}

static void slurm_odd(struct fx *f)
{
    in_slurm(f);
    f->hw.place.slurm_gpus = "some";
}

static void nv_all(struct fx *f)
{
    fx_pod(f);
    fx_env(f, "NVIDIA_VISIBLE_DEVICES", "all");
}

static void nv_all_none(struct fx *f)
{
    nv_all(f);
    no_gpu(f);
}

static void nv_void(struct fx *f)
{
    fx_pod(f);
    fx_env(f, "NVIDIA_VISIBLE_DEVICES", "void");
    no_gpu(f);
}

static void nv_void_cdi(struct fx *f)
{
    fx_pod(f);
    fx_env(f, "NVIDIA_VISIBLE_DEVICES", "void");
}

static void nv_two(struct fx *f)
{
    fx_pod(f);
    fx_env(f, "NVIDIA_VISIBLE_DEVICES", "GPU-a,GPU-b");
}

static void nv_four(struct fx *f)
{
    fx_pod(f);
    fx_env(f, "NVIDIA_VISIBLE_DEVICES", "0,1,2,3");
}

static void cuda_two(struct fx *f)
{
    fx_env(f, "CUDA_VISIBLE_DEVICES", "0,1");
}

static void cuda_four(struct fx *f)
{
    fx_env(f, "CUDA_VISIBLE_DEVICES", "4,5,6,7");
}

static void cuda_none(struct fx *f)
{
    fx_env(f, "CUDA_VISIBLE_DEVICES", "");
}

static void quota(struct fx *f)
{
    fx_pod(f);
    f->hw.place.cpu_quota_milli = maybe_of(16000);
}

static void quota_odd(struct fx *f)
{
    fx_pod(f);
    f->hw.place.cpu_quota_milli = maybe_of(3500);
}

static void quota_unknown(struct fx *f)
{
    fx_pod(f);
    f->hw.place.cgroup = maybe_none();
}

static void omp_ok(struct fx *f)
{
    fx_env(f, "OMP_NUM_THREADS", "32");
}

static void omp_many(struct fx *f)
{
    fx_env(f, "OMP_NUM_THREADS", "64");
}

static void omp_odd(struct fx *f)
{
    fx_env(f, "OMP_NUM_THREADS", "many");
}

static void omp_unset(struct fx *f)
{
    f->hw.place.cpus_usable = maybe_of(16);
}

static void omp_unknown(struct fx *f)
{
    f->hw.place.cpus_usable = maybe_none();
}

static void hidden(struct fx *f)
{
    fx_pod(f);
    f->gpus[0].state = f->gpus[1].state = "hidden";
}

static void pids(struct fx *f)
{
    f->hw.place.pids_limit = maybe_of(1024);
}

static void pids_ok(struct fx *f)
{
    f->hw.place.pids_limit = maybe_of(65536);
}

static void no_net(struct fx *f)
{
    f->nets[0].addrs_count = f->nets[1].addrs_count = 0;
}

static void net_damaged(struct fx *f)
{
    static struct hw_note note = { .source = "self",
                                   .text = "/stoker/self.json of the capture is not usable: cut" };

    no_net(f);
    f->hw.notes = &note;
    f->hw.notes_count = 1;
}

static void net_unknown(struct fx *f)
{
    f->hw.nets_count = 0;
}

static void roce_pod(struct fx *f)
{
    fx_pod(f);
    fx_roce(f);
}

static void roce_elsewhere(struct fx *f)
{
    roce_pod(f);
    f->hw.nets_count = 0;
    f->gids[0].ndev = f->gids[1].ndev = NULL;
}

static void roce_half(struct fx *f)
{
    roce_pod(f);
    f->hw.nets_count = 1;
    f->gids[1].ndev = NULL;
}

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
