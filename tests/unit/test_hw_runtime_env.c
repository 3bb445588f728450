/* SPDX-License-Identifier: MIT */
/* runtime_env: control groups of both versions, containers, Kubernetes, Slurm. */
#include "hw_box.h"

#include "base/str.h"

static void start(struct box *x)
{
    box_init(x);
    box_file(x, "/sys/devices/system/cpu/online", "0-127\n");
    box_file(x, "/etc/os-release", "NAME=x\nPRETTY_NAME=\"Ubuntu 22.04.4 LTS\"\nID=ubuntu\n");
}

static struct hw_place *probe(struct box *x)
{
    BOX_PROBE(x, hw_src_self, hw_src_place);
    return &x->hw.place;
}

TEST(group_v2_takes_the_tightest_level)
{
    AUTO(box_release) struct box x;
    struct hw_place *p;

    start(&x);
    box_file(&x, "/proc/self/mountinfo",
             "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
             "40 24 0:31 / / rw - overlay overlay rw\n");
    box_file(&x, "/proc/self/cgroup", "0::/a.slice/b.scope\n");
    box_file(&x, "/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    box_file(&x, "/sys/fs/cgroup/a.slice/cpu.max", "1250000 100000\n");
    box_file(&x, "/sys/fs/cgroup/a.slice/memory.max", "1073741824\n");
    box_file(&x, "/sys/fs/cgroup/a.slice/b.scope/cpu.max", "max 100000\n");
    box_file(&x, "/sys/fs/cgroup/a.slice/b.scope/memory.max", "max\n");
    box_file(&x, "/sys/fs/cgroup/a.slice/b.scope/pids.max", "512\n");
    box_file(&x, "/sys/fs/cgroup/a.slice/b.scope/cpuset.cpus.effective", "0-31\n");
    p = probe(&x);
    assert_int_equal(p->cgroup.v, 2);
    assert_int_equal(p->cpu_quota_milli.v, 12500);
    assert_int_equal(p->mem_limit_bytes.v, 1 << 30);
    assert_int_equal(p->pids_limit.v, 512);
    assert_string_equal(p->cpuset, "0-31");
    assert_int_equal(p->cpus_usable.v, 12);
    assert_string_equal(p->os, "Ubuntu 22.04.4 LTS");
    assert_null(p->hypervisor);
}

TEST(group_v1_in_a_container_without_namespace)
{
    AUTO(box_release) struct box x;
    struct hw_place *p;

    start(&x);
    box_file(&x, "/proc/self/mountinfo",
             "30 24 0:28 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
             "31 24 0:29 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
             "32 24 0:30 /docker/abc /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n"
             "33 24 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    box_file(&x, "/proc/self/cgroup",
             "4:memory:/docker/abc/inner\n3:cpuset:/docker/abc\n1:cpu,cpuacct:/docker/abc\n0::/\n");
    box_file(&x, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
    box_file(&x, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    box_file(&x, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096000\n");
    box_file(&x, "/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "9223372036854771712\n");
    box_file(&x, "/sys/fs/cgroup/cpuset/cpuset.cpus", "0-3\n");
    p = probe(&x);
    assert_int_equal(p->cgroup.v, 1);
    assert_int_equal(p->cpu_quota_milli.v, 500);
    assert_int_equal(p->cpus_usable.v, 1); /* half a CPU is one thread */
    assert_int_equal(p->mem_limit_bytes.v, 4096000);
    assert_string_equal(p->cpuset, "0-3");
    assert_string_equal(p->container, "docker");
}

TEST(no_limit_is_unknown)
{
    AUTO(box_release) struct box x;
    struct hw_place *p;

    start(&x);
    box_file(&x, "/proc/self/mountinfo",
             "31 24 0:29 / /sys/fs/cgroup/memory ro - cgroup c memory\n"
             "30 24 0:28 / /sys/fs/cgroup/cpu ro - cgroup c rw,cpu\n");
    box_file(&x, "/proc/self/cgroup", "2:memory:/\n1:cpu:/\n");
    box_file(&x, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    box_file(&x, "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    box_file(&x, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    p = probe(&x);
    assert_false(p->cpu_quota_milli.known);
    assert_false(p->mem_limit_bytes.known);
    assert_int_equal(p->cpus_usable.v, 128);
    assert_null(p->container);
}

TEST(a_pod)
{
    AUTO(box_release) struct box x;
    struct hw_place *p;

    start(&x);
    box_file(&x, "/stoker/self.json",
             "{\"hostname\": \"train-0\", \"affinity_cpus\": 128, \"env\": ["
             "{\"name\": \"KUBERNETES_SERVICE_HOST\", \"value\": \"10.0.0.1\"},"
             "{\"name\": \"NODE_NAME\", \"value\": \"gpu-7\"}]}");
    box_file(&x, "/run/secrets/kubernetes.io/serviceaccount/namespace", "ml");
    box_link(&x, "/var/run", "/run");
    box_file(&x, "/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    box_file(&x, "/sys/fs/cgroup/cpu.max", "6400000 100000\n");
    p = probe(&x);
    assert_string_equal(p->container, "kubernetes");
    assert_string_equal(p->k8s_pod, "train-0");
    assert_string_equal(p->k8s_namespace, "ml");
    assert_string_equal(p->k8s_node, "gpu-7");
    assert_int_equal(p->cgroup.v, 2);
    assert_int_equal(p->cpus_usable.v, 64);
    assert_null(p->slurm_job);
}

TEST(a_slurm_job)
{
    AUTO(box_release) struct box x;
    struct hw_place *p;

    start(&x);
    box_file(&x, "/stoker/self.json",
             "{\"affinity_cpus\": 16, \"env\": [{\"name\": \"SLURM_JOB_ID\", \"value\": \"77\"},"
             "{\"name\": \"SLURM_JOB_NODELIST\", \"value\": \"n[1-4]\"},"
             "{\"name\": \"SLURM_JOB_GPUS\", \"value\": \"4-7\"},"
             "{\"name\": \"SLURM_CPUS_ON_NODE\", \"value\": \"16\"}]}");
    p = probe(&x);
    assert_string_equal(p->slurm_job, "77");
    assert_string_equal(p->slurm_nodes, "n[1-4]");
    assert_string_equal(p->slurm_gpus, "4");
    assert_string_equal(p->slurm_cpus, "16");
    assert_int_equal(p->cpus_usable.v, 16);
    assert_false(p->cgroup.known);
    assert_null(p->k8s_pod);
}

TEST(an_image_on_a_disk_is_no_container)
{
    AUTO(box_release) struct box x;

    start(&x);
    box_file(&x, "/.dockerenv", "");
    box_file(&x, "/stoker/self.json", "{\"host_pids\": true}");
    box_file(&x, "/proc/self/mountinfo", "27 1 254:0 / / rw - ext4 /dev/vda rw\n");
    assert_null(probe(&x)->container);
    box_release(&x);
    start(&x);
    box_file(&x, "/.dockerenv", "");
    assert_string_equal(probe(&x)->container, "docker");
}

static void check_hypervisor(const char *flags, const char *vendor, const char *product,
                             const char *want)
{
    char text[128];
    AUTO(box_release) struct box x;

    start(&x);
    snprintf(text, sizeof(text), "processor : 0\nflags\t: %s\n\n", flags);
    box_file(&x, "/proc/cpuinfo", text);
    if (vendor)
        box_file(&x, "/sys/class/dmi/id/sys_vendor", vendor);
    if (product)
        box_file(&x, "/sys/class/dmi/id/product_name", product);
    if (want)
        assert_string_equal(probe(&x)->hypervisor, want);
    else
        assert_null(probe(&x)->hypervisor);
}

TEST(hypervisors)
{
    check_hypervisor("fpu hypervisor", "QEMU\n", "Standard PC\n", "kvm");
    check_hypervisor("fpu", "Amazon EC2\n", "p5.metal\n", NULL);
    check_hypervisor("hypervisor", "Amazon EC2\n", "p5.48xlarge\n", "kvm");
    check_hypervisor("hypervisor", "Microsoft Corporation\n", "Virtual Machine\n", "hyperv");
    check_hypervisor("hypervisor", NULL, NULL, "unknown");
    check_hypervisor("nohypervisors", "NVIDIA\n", "DGXH100\n", NULL);
}

TEST(hostile_groups)
{
    AUTO(box_release) struct box x;
    struct hw_place *p;

    start(&x);
    box_file(&x, "/proc/self/mountinfo",
             "x\n1 2 3\n\n- - - - - -\n35 24 0:30 /../.. /sys/fs/cgroup rw - cgroup2 c rw\n");
    box_file(&x, "/proc/self/cgroup", "0::/../../../etc\nno colon\n::::\n0:");
    box_file(&x, "/sys/fs/cgroup/cpu.max", "-5 -5\n");
    box_file(&x, "/sys/fs/cgroup/memory.max", "-1\n");
    box_file(&x, "/sys/fs/cgroup/pids.max", "99999999999999999999\n");
    box_file(&x, "/sys/fs/cgroup/cpuset.cpus.effective", "9-1\n");
    p = probe(&x);
    assert_int_equal(p->cgroup.v, 2);
    assert_false(p->cpu_quota_milli.known);
    assert_false(p->mem_limit_bytes.known);
    assert_false(p->pids_limit.known);
    assert_int_equal(p->cpus_usable.v, 128);
}

TEST_MAIN(cmocka_unit_test(group_v2_takes_the_tightest_level),
          cmocka_unit_test(group_v1_in_a_container_without_namespace),
          cmocka_unit_test(no_limit_is_unknown), cmocka_unit_test(a_pod),
          cmocka_unit_test(a_slurm_job), cmocka_unit_test(an_image_on_a_disk_is_no_container),
          cmocka_unit_test(hypervisors), cmocka_unit_test(hostile_groups))
