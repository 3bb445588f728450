/* SPDX-License-Identifier: MIT */
/* render_slurm: what only an inventory brings (GPUs by NUMA node), releases, modes.  What
 * comes of a whole spec is tested in tests/cli/render_slurm.t. */
#include "base/str.h"
#include "hw/hw.h"
#include "render/slurm/slurm_int.h"
#include "test.h"

enum { GPUS = 4 };

static const char SITE[] = "schema: stoker.spec/1\n"
                           "nodes:\n"
                           "  - {name: a, count: 2, gpus_per_node: 4, gpu: {model: A100-80GB}, "
                           "cpu_cores: 64, memory: 512GB}\n";

/* gres.conf of SITE with this inventory, to be released by the caller */
static struct buf gres_conf(const struct hw *hw)
{
    const struct render_target *target = render_target_find("slurm");
    struct spec_diags diags = { 0 };
    struct render_set set = { 0 };
    struct buf text = { 0 };
    struct err err = { 0 };
    struct spec *s = NULL;

    CHECK(spec_parse(SITE, sizeof(SITE) - 1, "site.yaml", &s, &diags, &err) == RC_OK);
    CHECK(render_run(&(struct render_input){ .spec = s,
                                             .machines = &(struct render_machine){ .hw = hw },
                                             .machine_count = hw != NULL,
                                             .targets = &target,
                                             .target_count = 1 },
                     &set, &diags, &err) == RC_OK);
    for (size_t i = 0; i < set.count; i++)
        if (str_eq(set.files[i]->path, "slurm/gres.conf"))
            buf_adds(&text, buf_str(&set.files[i]->text));
    CHECK(text.len > 0);
    render_set_release(&set);
    spec_diags_release(&diags);
    spec_free(s);
    return text;
}

/* four NUMA nodes on two sockets, the GPUs on the second and the fourth, out of order */
static struct hw machine(struct hw_gpu gpus[GPUS], struct hw_numa numa[4])
{
    static const int64_t minors[] = { 2, 3, 0, 1 }, on[] = { 3, 3, 1, 1 };
    struct hw hw = { .gpus = gpus, .gpus_count = GPUS, .numa = numa, .numa_count = 4 };

    for (size_t i = 0; i < GPUS; i++) {
        gpus[i] = (struct hw_gpu){ .minor = maybe_of(minors[i]), .numa = maybe_of(on[i]) };
        numa[i] = (struct hw_numa){ .id = maybe_of((int64_t)i) };
    }
    hw.cpu.cores = maybe_of(64);
    return hw;
}

#define PREFIX "NodeName=a[1-2] Name=gpu Type=a100 File=/dev/nvidia"

TEST(an_inventory_says_which_cores_are_near)
{
    struct hw_gpu gpus[GPUS];
    struct hw_numa numa[4];
    struct hw hw = machine(gpus, numa);
    struct buf text = gres_conf(&hw);

    CHECK(strstr(text.data, PREFIX "[0-1] Cores=16-31\n"));
    CHECK(strstr(text.data, PREFIX "[2-3] Cores=48-63\n"));
    buf_release(&text);
    gpus[2].numa = maybe_of(0); /* /dev/nvidia0 */
    text = gres_conf(&hw);
    CHECK(strstr(text.data, PREFIX "0 Cores=0-15\n"));
    CHECK(strstr(text.data, PREFIX "1 Cores=16-31\n"));
    buf_release(&text);
}

TEST(an_inventory_of_another_machine_says_nothing)
{
    static const char by_socket[] = PREFIX "[2-3] Cores=32-63\n";
    struct hw_gpu gpus[GPUS];
    struct hw_numa numa[4];
    struct hw hw = machine(gpus, numa);
    struct buf text = gres_conf(NULL);

    CHECK(strstr(text.data, by_socket));
    buf_release(&text);
    for (int i = 0; i < 4; i++) {
        hw = machine(gpus, numa);
        if (i == 0)
            hw.cpu.cores = maybe_of(96);
        else if (i == 1)
            hw.gpus_count--;
        else if (i == 2)
            gpus[1].numa = maybe_none(); /* unknown is not node 0 */
        else
            gpus[1].minor = maybe_none();
        text = gres_conf(&hw);
        CHECK(strstr(text.data, by_socket));
        buf_release(&text);
    }
}

TEST(releases_are_known_by_their_number)
{
    CHECK(slurm_version_find("22.05") == slurm_version_find("22.05.8"));
    CHECK(slurm_version_find("22.05")->cgroup_automount);
    CHECK(!slurm_version_find("23.11.10")->cgroup_automount);
    CHECK(slurm_version_find("26.05") && !slurm_version_find("26.11"));
    CHECK(!slurm_version_find("22.051") && !slurm_version_find("22.05.") &&
          !slurm_version_find("22.05.x") && !slurm_version_find("") &&
          !slurm_version_find("22.05.-1"));
}

TEST(modes_are_what_the_readers_want)
{
    const struct render_target *target = render_target_find("slurm");
    struct spec_diags diags = { 0 };
    struct render_set set = { 0 };
    struct err err = { 0 };
    struct spec *s = NULL;
    size_t secrets = 0;

    CHECK(spec_parse(SITE, sizeof(SITE) - 1, "site.yaml", &s, &diags, &err) == RC_OK);
    CHECK(render_run(&(struct render_input){ .spec = s, .targets = &target, .target_count = 1 },
                     &set, &diags, &err) == RC_OK);
    for (size_t i = 0; i < set.count; i++) {
        CHECK(set.files[i]->exec == str_ends(set.files[i]->path, ".sh"));
        CHECK(set.files[i]->secret == str_eq(set.files[i]->path, "slurm/slurmdbd.conf"));
        secrets += set.files[i]->secret;
    }
    CHECK(secrets == 1); /* slurmdbd does not start with a file that others may read */
    render_set_release(&set);
    spec_diags_release(&diags);
    spec_free(s);
}

TEST(times_are_rounded_up)
{
    char t[SLURM_TIME_MAX];

    assert_string_equal(slurm_time(INT64_C(7) * 86400 * 1000, t), "7-00:00:00");
    assert_string_equal(slurm_time(90061001, t), "1-01:01:02");
    CHECK(slurm_seconds(1) == 1 && slurm_seconds(1000) == 1 && slurm_seconds(0) == 0);
}

TEST_MAIN(cmocka_unit_test(an_inventory_says_which_cores_are_near),
          cmocka_unit_test(an_inventory_of_another_machine_says_nothing),
          cmocka_unit_test(releases_are_known_by_their_number),
          cmocka_unit_test(modes_are_what_the_readers_want), cmocka_unit_test(times_are_rounded_up))
