/* SPDX-License-Identifier: MIT */
/* software: versions from files, names, packages; daemons. */
#include "hw_box.h"

#include "base/str.h"

static const struct hw_soft *find(const struct hw *hw, const char *name, size_t nth)
{
    for (size_t i = 0; i < hw->software_count; i++)
        if (str_eq(hw->software[i].name, name) && !nth--)
            return &hw->software[i];
    return NULL;
}

TEST(toolkits)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    box_file(&x, "/usr/local/cuda-12.4/version.json",
             "{\"cuda\": {\"name\": \"CUDA SDK\", \"version\": \"12.4.1\"}}");
    box_file(&x, "/usr/local/cuda-10.2/version.txt", "CUDA Version 10.2.89\n");
    box_file(&x, "/usr/local/cuda-13.0/bin/nvcc", "");
    box_file(&x, "/usr/local/cuda-9.9/version.json", "{\"cuda\": {\"version\": 5");
    box_dir(&x, "/usr/local/cuda-empty");
    box_link(&x, "/usr/local/cuda", "/etc/alternatives/cuda");
    box_link(&x, "/etc/alternatives/cuda", "/usr/local/cuda-12.4");
    BOX_PROBE(&x, hw_src_software);
    assert_int_equal(x.hw.software_count, 4); /* the link is not a second one */
    assert_string_equal(find(&x.hw, "cuda", 0)->version, "12.4.1");
    assert_string_equal(find(&x.hw, "cuda", 0)->path, "/usr/local/cuda-12.4");
    assert_string_equal(find(&x.hw, "cuda", 1)->version, "9.9");
    assert_string_equal(find(&x.hw, "cuda", 2)->version, "10.2.89");
    assert_string_equal(find(&x.hw, "cuda", 3)->version, "13.0");
}

TEST(libraries_and_headers)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    box_file(&x, "/usr/lib/x86_64-linux-gnu/libnccl.so.2.27.3", "");
    box_link(&x, "/usr/lib/x86_64-linux-gnu/libnccl.so.2", "libnccl.so.2.27.3");
    box_file(&x, "/usr/lib/x86_64-linux-gnu/libcudnn.so.9", "");
    box_file(&x, "/usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0", "");
    box_link(&x, "/usr/lib/x86_64-linux-gnu/libibverbs.so.1", "libibverbs.so.1.14.44.0");
    box_link(&x, "/usr/lib/x86_64-linux-gnu/libdcgm.so.3", "libdcgm.so.3.3.5"); /* dangles */
    box_file(&x, "/usr/include/cudnn_version.h",
             "/* CUDNN_MAJOR */\n#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 1\n"
             "#define CUDNN_PATCHLEVEL 0\n");
    box_file(&x, "/usr/include/nccl.h", "#define NCCL_MAJOR 1\n");
    BOX_PROBE(&x, hw_src_software);
    assert_int_equal(x.hw.software_count, 3);
    assert_string_equal(hw_soft_version(&x.hw, "nccl"), "2.27.3");
    assert_string_equal(hw_soft_version(&x.hw, "cudnn"), "9.1.0");
    assert_null(find(&x.hw, "rdma-core", 0)->version); /* the name counts the interface */
}

TEST(python)
{
    struct hw_env env[] = { { .name = "VIRTUAL_ENV", .value = "/srv/venv" } };
    AUTO(box_release) struct box x;

    box_init(&x);
    x.b.self.env = env;
    x.b.self.env_count = 1;
    box_file(&x, "/srv/venv/lib/python3.12/site-packages/torch/version.py",
             "from typing import Optional\n__version__ = '2.8.0+cu129'\ncuda = '12.9'\n");
    box_file(&x, "/srv/venv/lib/python3.12/site-packages/nvidia/nccl/include/nccl.h",
             "#define NCCL_MAJOR 2\n#define NCCL_MINOR 27\n#define NCCL_PATCH 3\n");
    box_dir(&x, "/srv/venv/lib/python3.12/site-packages/nvidia/cudnn/lib");
    box_dir(&x, "/srv/venv/lib/python3.12/site-packages/nvidia_cudnn_cu12-9.10.2.21.dist-info");
    box_file(&x, "/opt/conda/lib/python3.11/site-packages/torch/version.py", "garbage\xff\n");
    box_file(&x, "/opt/app/.venv/lib/python3.10/site-packages/torch/version.py",
             "__version__ = \"2.1.0\"\n");
    BOX_PROBE(&x, hw_src_software);
    assert_string_equal(find(&x.hw, "torch", 0)->version, "2.8.0+cu129");
    assert_string_equal(find(&x.hw, "torch", 0)->path,
                        "/srv/venv/lib/python3.12/site-packages/torch");
    assert_string_equal(find(&x.hw, "torch", 1)->version, "2.1.0");
    assert_string_equal(hw_soft_version(&x.hw, "nccl"), "2.27.3");
    assert_string_equal(hw_soft_version(&x.hw, "cudnn"), "9.10.2.21");
}

TEST(packages_programs_daemons)
{
    struct hw_soft packages[] = {
        { .name = "docker-ce-cli", .version = "9" },
        { .name = "docker-ce", .version = "5:27.1.1-1~ubuntu" },
        { .name = "nvidia-fabricmanager-580", .version = "580.95.05-1" },
        { .name = "libnccl2", .version = "2.27.3-1+cuda12.9" },
        { .name = NULL, .version = NULL },
    };
    const char *const daemons[] = { "nv-fabricmanager" };
    AUTO(box_release) struct box x;

    box_init(&x);
    x.b.self.packages = packages;
    x.b.self.packages_count = ARRAY_SIZE(packages);
    x.b.self.daemons = daemons;
    x.b.self.daemons_count = 1;
    box_file(&x, "/usr/bin/dockerd", "");
    box_file(&x, "/usr/bin/nvidia-ctk", "");
    box_file(&x, "/usr/bin/nv-fabricmanager", "");
    BOX_PROBE(&x, hw_src_software);
    assert_string_equal(hw_soft_version(&x.hw, "docker"), "27.1.1");
    assert_string_equal(find(&x.hw, "docker", 0)->path, "/usr/bin/dockerd");
    assert_null(find(&x.hw, "docker", 1));
    assert_null(find(&x.hw, "nvidia-container-toolkit", 0)->version);
    assert_string_equal(find(&x.hw, "nccl", 0)->path, "dpkg");
    assert_string_equal(x.hw.nvidia.fabricmanager_version, "580.95.05");
    assert_true(maybe_is(x.hw.nvidia.fabricmanager_running, 1));
    assert_false(x.hw.nvidia.mps_running.known); /* not seen, but nobody said we would */
    x.b.self.host_pids = maybe_of(1);
    BOX_PROBE(&x, hw_src_software);
    assert_true(maybe_is(x.hw.nvidia.mps_running, 0));
}

TEST(an_empty_machine)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    BOX_PROBE(&x, hw_src_software);
    assert_int_equal(x.hw.software_count, 0);
}

TEST_MAIN(cmocka_unit_test(toolkits), cmocka_unit_test(libraries_and_headers),
          cmocka_unit_test(python), cmocka_unit_test(packages_programs_daemons),
          cmocka_unit_test(an_empty_machine))
