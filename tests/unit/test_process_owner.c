/* SPDX-License-Identifier: MIT */
/* Whose a process is: cgroup files of Slurm, Kubernetes, containers and systemd. */
#include "host.h"

#define ID  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UID "8a1b2c3d-1234-5678-9abc-def012345678"
#define UIU "8a1b2c3d_1234_5678_9abc_def012345678"

TEST(layouts)
{
    static const struct {
        const char *text, *job, *pod, *container, *unit;
    } rows[] = {
        /* Slurm, v1 and v2 */
        { "11:devices:/slurm/uid_1000/job_42/step_0/task_0\n"
          "1:name=systemd:/system.slice/slurmd.service\n",
          "42", "", "", "slurmd.service" },
        { "4:memory:/slurm_node7/uid_1000/job_43/step_batch/task_0\n", "43", "", "", "" },
        { "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n", "4711", "", "",
          "slurmstepd.scope" },
        { "0::/system.slice/node1_slurmstepd.scope/job_7/step_extern/user/task_special\n", "7", "",
          "", "node1_slurmstepd.scope" },
        { "0::/system.slice/slurmstepd.scope/system\n", "", "", "", "slurmstepd.scope" },
        { "0::/home/job_99/x\n", "", "", "", "" }, /* not below Slurm's */
        { "0::/system.slice/slurmstepd.scope/job_12x/step_0\n", "", "", "", "slurmstepd.scope" },
        /* Kubernetes, systemd driver */
        { "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UIU
          ".slice/cri-containerd-" ID ".scope\n",
          "", UID, ID, "" },
        { "0::/kubepods.slice/kubepods-pod" UIU ".slice/crio-" ID ".scope\n", "", UID, ID, "" },
        { "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
          "kubelet-kubepods-besteffort-pod" UIU ".slice/cri-containerd-" ID ".scope\n",
          "", UID, ID, "" },
        { "0::/system.slice/containerd.service/kubepods-burstable-pod" UIU
          ".slice:cri-containerd:" ID "\n",
          "", UID, ID, "containerd.service" },
        /* cgroupfs driver */
        { "9:memory:/kubepods/burstable/pod" UID "/" ID "\n", "", UID, ID, "" },
        { "9:memory:/kubepods/pod" UID "/crio-" ID "\n", "", UID, ID, "" },
        { "0::/kubepods/besteffort/pod0123456789abcdef0123456789abcdef/" ID "\n", "",
          "0123456789abcdef0123456789abcdef", ID, "" }, /* static pod */
        /* containers */
        { "0::/system.slice/docker-" ID ".scope\n", "", "", ID, "" },
        { "12:pids:/docker/" ID "\n", "", "", ID, "" },
        { "0::/machine.slice/libpod-" ID ".scope/container\n", "", "", ID, "" },
        { "0::/actions_job/" ID "\n", "", "", ID, "" },
        /* systemd */
        { "0::/system.slice/ssh.service\n", "", "", "", "ssh.service" },
        { "0::/user.slice/user-1000.slice/user@1000.service/app.slice/train.service\n", "", "", "",
          "train.service" },
        { "0::/user.slice/user-1000.slice/session-3.scope\n", "", "", "", "session-3.scope" },
        { "2:cpu:/a.service\n1:name=systemd:/b.service\n0::/\n", "", "", "", "b.service" },
        { "0::/\n", "", "", "", "" },
        { "0::/../../..\n", "", "", "", "" },
        /* hostile */
        { "", "", "", "", "" },
        { "0\n:\n::\n0:::\n", "", "", "", "" },
        { "0::/podpod-pod/pod_/pod" ID "/pod-" UID "\n", "", "", "", "" },
        { "0::/kubepods/podgggggggg-1234-5678-9abc-def012345678/x\n", "", "", "", "" },
        { "0::/slurm/job_99999999999999999999999999999999999999999999/x\n", "", "", "", "" },
        { "0::/slurm/job_1", "1", "", "", "" }, /* cut */
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct owner o = { 0 };

        owner_cgroup(rows[i].text, &o);
        if (!str_eq(o.slurm_job, rows[i].job) || !str_eq(o.container, rows[i].container) ||
            !str_eq(o.unit, rows[i].unit) || !str_eq(o.pod_uid, rows[i].pod))
            fail_msg("'%s': job '%s', pod '%s', container '%s', unit '%s'", rows[i].text,
                     o.slurm_job, o.pod_uid, o.container, o.unit);
    }
}

TEST(processes)
{
    struct owner o;
    struct host h;

    host_open(&h, HOST_NODE);
    CHECK(owner_of(h.root, 101, &o));
    assert_string_equal(o.slurm_job, "4711");
    assert_string_equal(o.user, "alice");
    assert_string_equal(o.command, "python3 train.py"); /* and no argument beyond it */
    CHECK(owner_of(h.root, 102, &o));
    assert_string_equal(o.unit, "ssh.service");
    assert_string_equal(o.user, "root");
    assert_string_equal(o.command, "sshd");
    CHECK(owner_of(h.root, 103, &o));
    assert_string_equal(o.user, "70000"); /* in no passwd */
    assert_string_equal(o.command, "python torch.distributed.run");
    memset(&o, 7, sizeof(o));
    CHECK(!owner_of(h.root, 104, &o)); /* gone: nothing is written */
    CHECK(o.user[0] == 7);
    CHECK(!owner_of(h.root, 0, &o) && !owner_of(h.root, -5, &o));
    host_close(&h);
    host_open(&h, "/");
    CHECK(owner_of(h.root, (int)getpid(), &o));
    CHECK(str_starts(o.command, "test_process_owner"));
    host_close(&h);
}

#define POD "12345678-1234-1234-1234-123456789abc"

/* A pod's name is in what its kubelet calls its logs. */
TEST(pods_have_names)
{
    static const struct {
        const char *name;
        bool ok;
    } folders[] = { { "ml_llama-0_" POD, true },
                    { "ml_llama-0_" POD "0", false },
                    { "ml_llama-0", false },
                    { "_llama_" POD, false },
                    { "ml__" POD, false },
                    { "ml_a_b_" POD, false },
                    { POD, false },
                    { "", false } },
      logs[] = { { "llama-0_ml_trainer-" ID ".log", true },
                 { "llama-0_ml_-" ID ".log", false },
                 { "llama-0_ml_trainer" ID ".log", false },
                 { "llama-0_ml_trainer-" ID, false },
                 { "x-" ID ".log", false },
                 { "", false } };

    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
        struct owner o = { .pod_uid = POD };

        CHECK(owner_pod_folder(folders[i].name, &o) == folders[i].ok);
        CHECK(str_eq(o.pod, folders[i].ok ? "llama-0" : ""));
        CHECK(str_eq(o.pod_namespace, folders[i].ok ? "ml" : ""));
    }
    for (size_t i = 0; i < ARRAY_SIZE(logs); i++) {
        struct owner o = { .container = ID };

        CHECK(owner_container_log(logs[i].name, &o) == logs[i].ok);
        CHECK(str_eq(o.pod_container, logs[i].ok ? "trainer" : ""));
    }
}

TEST_MAIN(cmocka_unit_test(layouts), cmocka_unit_test(processes), cmocka_unit_test(pods_have_names))
