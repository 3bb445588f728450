/* SPDX-License-Identifier: MIT */
/* The CUDA plug-in as the checks see it, against fakes that work, lie, hang and die.
 * tests/plugin/rules.mk builds them beside this program. */
#include "test_health_fixture.h"

#include "engine/plugin_int.h"

#include <unistd.h>

enum { STALL_MS = 400 };

/* The folder of a fake, "" first for this program's own. */
static const char *fake_dir(const char *kind)
{
    static char dir[512];
    char exe[400];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    assert_true(n > 0);
    exe[n] = '\0';
    *strrchr(exe, '/') = '\0';
    snprintf(dir, sizeof(dir), "%s/plugin/%s", exe, kind);
    return dir;
}

TEST(devices_go_through_a_line_unchanged)
{
    struct stoker_cuda_device d = { .index = 3,
                                    .name = "NVIDIA H200",
                                    .bdf = "0000:1b:00.0",
                                    .cc_major = 9,
                                    .sms = 132,
                                    .sms_used = 131,
                                    .mem_bytes = UINT64_MAX,
                                    .l2_bytes = 62914560,
                                    .bad_words = 1,
                                    .copy_gbps = 4123.25,
                                    .error = "cudaMemcpy: an illegal access (700)" };
    struct stoker_cuda_device back = { 0 };
    AUTO(buf_release) struct buf line = { 0 };

    plugin_device_write(&d, &line);
    assert_int_equal(line.data[line.len - 1], '\n');
    assert_true(plugin_device_read(line.data, line.len - 1, &back));
    assert_int_equal(back.index, 3);
    assert_string_equal(back.name, d.name);
    assert_string_equal(back.error, d.error);
    assert_true(back.mem_bytes == UINT64_MAX && back.sms_used == 131 && back.bad_words == 1);
    assert_true(back.copy_gbps == d.copy_gbps);
}

TEST(other_lines_are_refused)
{
    static const char *const lines[] = {
        "",
        "device",
        "device\t0\tname\tbdf\t9\t0\t1\t1\t1\t1\t1\t1\t1\t1\t1\t1\t1",         /* too few */
        "device\t0\tname\tbdf\t9\t0\t1\t1\t1\t1\t1\t1\t1\t1\t1\t1\t1\t\tmore", /* too many */
        "device\t-1\tname\tbdf\t9\t0\t1\t1\t1\t1\t1\t1\t1\t1\t1\t1\t1\t",      /* negative */
        "device\t0\tname\tbdf\t9\t0\t1\t1\t1\t1\t1\t1\t1\t1\t1\t1\tnan\t",     /* no number */
        "devices\t0\tname\tbdf\t9\t0\t1\t1\t1\t1\t1\t1\t1\t1\t1\t1\t1\t",      /* another word */
        ("device\t0\tname\tmuch too long for an address of PCI, all of it"
         "\t9\t0\t1\t1\t1\t1\t1\t1\t1\t1\t1\t1\t1\t"),
    };
    struct stoker_cuda_device d = { .index = 77 };

    for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
        assert_false(plugin_device_read(lines[i], strlen(lines[i]), &d));
    assert_int_equal(d.index, 77); /* untouched on failure */
}

TEST(finding_says_where_it_looked)
{
    char path[PLUGIN_PATH_MAX], why[PLUGIN_WHY_MAX] = "";

    setenv("STOKER_PLUGIN_DIR", "/nonexistent/env", 1);
    if (!plugin_find("/nonexistent/dir", path, why)) {
        assert_non_null(strstr(why, "/nonexistent/dir, /nonexistent/env"));
        assert_non_null(strstr(why, "/usr/lib/stoker"));
    }
    setenv("STOKER_PLUGIN_DIR", fake_dir("good"), 1);
    assert_true(plugin_find(NULL, path, why));
    assert_true(str_starts(path, fake_dir("good")));
    unsetenv("STOKER_PLUGIN_DIR");
}

struct deep_row {
    const char *kind;
    enum check_status want;
    const char *seen;
};

TEST(the_check_answers_for_each_kind)
{
    static const struct deep_row rows[] = {
        { "good", CHECK_PASS, "CUDA device 0 (0000:1b:00.0)" },
        { "good", CHECK_PASS,
          "kernel on 132 of 132 SMs wrote what it should; copies at 4100 GB/s" },
        { "wrong", CHECK_FAIL, "CUDA device 1 (0000:1c:00.0): 7 wrong words" },
        { "wrong", CHECK_PASS, "CUDA device 0" },
        { "no_start", CHECK_FAIL, "no CUDA driver on this machine" },
        { "hang", CHECK_FAIL, "CUDA not answering: cudaSetDevice on CUDA device 1 did not return" },
        { "hang", CHECK_PASS, "CUDA device 0" }, /* what was done before still counts */
        { "crash", CHECK_FAIL, "died of signal 6" },
        { "other_abi", CHECK_FAIL, "another version" },
        { "empty", CHECK_FAIL, "CUDA sees no device" },
        { "missing", CHECK_SKIP, "no stoker-cuda.so in" },
    };
    static struct fx f;

    fx_good(&f);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct health_opts opts = { .deep = true,
                                    .plugin_dir = fake_dir(rows[i].kind),
                                    .plugin_stall_ms = STALL_MS };
        AUTO(health_list_release) struct health_list l = { 0 };

        if (rows[i].want == CHECK_SKIP && access("/usr/lib/stoker/stoker-cuda.so", F_OK) == 0)
            continue;
        health_check(&f.hw, CHECK_GPU, &opts, &l);
        if (!fx_find(&l, "gpu.cuda-runs", rows[i].want, rows[i].seen)) {
            for (size_t k = 0; k < l.rows_count; k++)
                if (str_eq(l.rows[k].id, "gpu.cuda-runs"))
                    print_error("%s\n", l.rows[k].evidence);
            fail_msg("%s wants '%s'", rows[i].kind, rows[i].seen);
        }
    }
}

/* Without a GPU it is no fault that CUDA does not start. */
TEST(no_gpu_no_fault)
{
    struct health_opts opts = { .deep = true, .plugin_dir = fake_dir("no_start") };
    static const struct hw empty;
    AUTO(health_list_release) struct health_list l = { 0 };

    health_check(&empty, CHECK_GPU, &opts, &l);
    assert_non_null(fx_find(&l, "gpu.cuda-runs", CHECK_SKIP, "no CUDA driver on this machine"));
}

TEST_MAIN(cmocka_unit_test(devices_go_through_a_line_unchanged),
          cmocka_unit_test(other_lines_are_refused), cmocka_unit_test(finding_says_where_it_looked),
          cmocka_unit_test(the_check_answers_for_each_kind), cmocka_unit_test(no_gpu_no_fault))
