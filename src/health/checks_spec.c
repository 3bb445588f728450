/* SPDX-License-Identifier: MIT */
/* checks_spec: does this machine have what the site's spec asks for?
 *
 * `software:` of a stoker.yaml names the oldest versions that will do and what must be there.
 * health_opts.spec brings it; each answer cites the key and its line.  What is older fails; a
 * library that was not found warns, since an image may bring it. */
#include "base/str.h"
#include "health/health_int.h"

/* "12.1" against "12.1.105": numbers between dots, as many as `want` has. */
static int version_order(const char *have, const char *want)
{
    while (*want >= '0' && *want <= '9') {
        int a = 0, b = 0;
        const char *h, *w;

        for (h = have; *h >= '0' && *h <= '9'; h++)
            a = a < 100000000 ? a * 10 + (*h - '0') : a;
        for (w = want; *w >= '0' && *w <= '9'; w++)
            b = b < 100000000 ? b * 10 + (*w - '0') : b;
        if (a != b)
            return a < b ? -1 : 1;
        want = *w == '.' ? w + 1 : "";
        have = *h == '.' ? h + 1 : "";
    }
    return 0;
}

/* "stoker.yaml:12, software.cuda"; the schema's own where the spec is silent. */
static const char *asked_at(struct check_out *o, const void *member, const char *key)
{
    const struct spec *s = o->opts->spec;
    struct spec_pos p = spec_where(s, member);

    return p.line ? check_text(o, "%s:%d, software.%s", spec_file(s), p.line, key)
                  : check_text(o, "%s, software.%s by default", spec_file(s), key);
}

struct wanted {
    const char *key, *label; /* "nccl", "NCCL" */
    const char *const *want; /* the spec's version; *want NULL: not asked for */
    const char *have;        /* NULL: not known */
    bool found;
    bool must; /* a machine without it fails: no image can bring it */
};

static void wanted_judge(struct check_out *o, const struct wanted *w)
{
    const char *at, *install;
    int major, minor;

    if (!*w->want) {
        check_skip(o, "the spec does not ask for it");
        return;
    }
    at = asked_at(o, w->want, w->key);
    install =
        check_text(o, "Install %s %s or newer, or ask for less (%s).", w->label, *w->want, at);
    if (!facts_version(*w->want, &major, &minor))
        check_unknown(o, check_text(o, "Write it as numbers and dots (%s).", at),
                      "the spec's '%s' is not a version", *w->want);
    else if (!w->found && w->must)
        check_fail(o, install, "there is no %s, %s is asked for (%s)", w->label, *w->want, at);
    else if (!w->found)
        check_warn(
            o, check_text(o, "%s An image or Python environment that brings it will do.", install),
            "%s was not found, %s is asked for (%s)", w->label, *w->want, at);
    else if (!facts_version(w->have, &major, &minor))
        check_unknown(o, NULL, "%s is there, its version is not told; %s is asked for (%s)",
                      w->label, *w->want, at);
    else if (version_order(w->have, *w->want) < 0)
        check_fail(o, install, "%s %s is older than %s (%s)", w->label, w->have, *w->want, at);
    else
        check_pass(o, "%s %s, %s is asked for (%s)", w->label, w->have, *w->want, at);
}

static bool spec_is_given(struct check_out *o)
{
    if (!o->opts->spec)
        check_skip(o, "no spec is given");
    return o->opts->spec != NULL;
}

/* A library or program of the inventory. */
static void soft_wanted(const struct hw *hw, struct check_out *o, const char *key,
                        const char *label, const char *name, const char *const *want)
{
    const struct hw_soft *s = facts_soft(hw, name);

    wanted_judge(o, &(struct wanted){ key, label, want, s ? s->version : NULL, s != NULL, false });
}

static void spec_driver(const struct hw *hw, struct check_out *o)
{
    const char *have = hw->nvidia.driver_version;

    if (!spec_is_given(o))
        return;
    if (!have && hw->gpus_count == 0)
        check_skip(o, "no GPU here");
    else
        wanted_judge(o,
                     &(struct wanted){ "driver", "the NVIDIA driver",
                                       &o->opts->spec->software.driver, have, have != NULL, true });
}

/* The driver's CUDA: programs bring their own toolkit. */
static void spec_cuda(const struct hw *hw, struct check_out *o)
{
    struct maybe d = hw->nvidia.cuda_driver;
    const struct hw_soft *kit = facts_soft(hw, "cuda");
    const char *have = kit ? kit->version : NULL;

    if (!spec_is_given(o))
        return;
    if (d.known)
        have = check_text(o, "%lld.%lld", (long long)(d.v / 1000), (long long)(d.v % 1000 / 10));
    if (!have && hw->gpus_count == 0)
        check_skip(o, "no GPU here");
    else
        wanted_judge(o,
                     &(struct wanted){ "cuda", d.known ? "CUDA of the driver" : "CUDA",
                                       &o->opts->spec->software.cuda, have, have != NULL, false });
}

static void spec_kernel(const struct hw *hw, struct check_out *o)
{
    const char *have = hw->place.kernel;

    if (spec_is_given(o))
        wanted_judge(o, &(struct wanted){ "kernel", "the kernel", &o->opts->spec->software.kernel,
                                          have, have != NULL, true });
}

static void spec_cudnn(const struct hw *hw, struct check_out *o)
{
    if (spec_is_given(o))
        soft_wanted(hw, o, "cudnn", "cuDNN", "cudnn", &o->opts->spec->software.cudnn);
}

static void spec_nccl(const struct hw *hw, struct check_out *o)
{
    if (spec_is_given(o))
        soft_wanted(hw, o, "nccl", "NCCL", "nccl", &o->opts->spec->software.nccl);
}

/* Python is no row of the inventory: the newest that a library was found in
 * (".../python3.11/site-packages/torch"). */
static const char *python_seen(const struct hw *hw, struct check_out *o)
{
    static const char mark[] = "/python";
    const char *newest = NULL;

    for (size_t i = 0; i < hw->software_count; i++) {
        const char *p = hw->software[i].path ? strstr(hw->software[i].path, mark) : NULL;
        const char *v = p ? p + strlen(mark) : NULL;
        int major, minor;

        if (v && facts_version(v, &major, &minor) && (!newest || version_order(v, newest) > 0))
            newest = check_text(o, "%d.%d", major, minor);
    }
    return newest;
}

static void spec_python(const struct hw *hw, struct check_out *o)
{
    const char *have;

    if (!spec_is_given(o))
        return;
    have = python_seen(hw, o);
    if (have || !o->opts->spec->software.python)
        wanted_judge(o, &(struct wanted){ "python", "Python", &o->opts->spec->software.python, have,
                                          have != NULL, false });
    else
        check_unknown(o, "Run `python3 --version` where the job runs.",
                      "no library tells which Python is here, %s is asked for (%s)",
                      o->opts->spec->software.python,
                      asked_at(o, &o->opts->spec->software.python, "python"));
}

static void spec_torch(const struct hw *hw, struct check_out *o)
{
    if (spec_is_given(o))
        soft_wanted(hw, o, "torch", "PyTorch", "torch", &o->opts->spec->software.torch);
}

static void spec_runtime(const struct hw *hw, struct check_out *o)
{
    static const char *const runtimes[] = { "docker", "podman", "containerd", "crio" };
    const struct hw_soft *s = NULL, *kit = facts_soft(hw, "nvidia-container-toolkit");
    const char *at;

    if (!spec_is_given(o))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(runtimes) && !s; i++)
        s = facts_soft(hw, runtimes[i]);
    at = asked_at(o, &o->opts->spec->software.container_runtime, "container_runtime");
    if (!o->opts->spec->software.container_runtime)
        check_skip(o, "the spec does not ask for it");
    else if (facts_in_container(hw))
        check_skip(o, "inside a container: its host has the runtime");
    else if (!s)
        check_fail(o, "Install Docker, Podman or containerd, and nvidia-container-toolkit.",
                   "there is no container runtime, one is asked for (%s)", at);
    else if (!kit && hw->gpus_count > 0)
        check_fail(o,
                   "Install nvidia-container-toolkit and run `nvidia-ctk runtime configure`: "
                   "containers get no GPU without it.",
                   "%s has no nvidia-container-toolkit, GPU support is asked for (%s)", s->name,
                   at);
    else
        check_pass(o, "%s %s, one is asked for (%s)", s->name, s->version ? s->version : "found",
                   at);
}

static void spec_dcgm(const struct hw *hw, struct check_out *o)
{
    const struct hw_soft *s = facts_soft(hw, "dcgm");
    const char *at;

    if (!spec_is_given(o))
        return;
    at = asked_at(o, &o->opts->spec->software.dcgm, "dcgm");
    if (!o->opts->spec->software.dcgm)
        check_skip(o, "the spec does not ask for it");
    else if (facts_in_container(hw) && !s)
        check_skip(o, "inside a container: DCGM belongs on the host");
    else if (!s && !maybe_is(hw->nvidia.hostengine_running, 1))
        check_fail(o, "Install datacenter-gpu-manager and start nv-hostengine.",
                   "DCGM was not found, it is asked for (%s)", at);
    else
        check_pass(o, "DCGM %s, it is asked for (%s)", s && s->version ? s->version : "found", at);
}

#define DOC(what) "The spec's `software." what "`, given with `-f SPEC`."

static const struct health_check spec_rows[] = {
    { .id = "spec.driver", CHECK_SPEC, "driver", DOC("driver"), .fn = spec_driver },
    { .id = "spec.cuda",
      CHECK_SPEC,
      "CUDA",
      DOC("cuda") " What the driver serves counts; a toolkit where no driver tells.",
      .fn = spec_cuda },
    { .id = "spec.kernel", CHECK_SPEC, "kernel", DOC("kernel"), .fn = spec_kernel },
    { .id = "spec.cudnn", CHECK_SPEC, "cuDNN", DOC("cudnn"), .fn = spec_cudnn },
    { .id = "spec.nccl", CHECK_SPEC, "NCCL", DOC("nccl"), .fn = spec_nccl },
    { .id = "spec.python", CHECK_SPEC, "Python", DOC("python"), .fn = spec_python },
    { .id = "spec.torch", CHECK_SPEC, "PyTorch", DOC("torch"), .fn = spec_torch },
    { .id = "spec.container-runtime",
      CHECK_SPEC,
      "container runtime",
      DOC("container_runtime") " With GPUs it needs nvidia-container-toolkit.",
      .fn = spec_runtime },
    { .id = "spec.dcgm", CHECK_SPEC, "DCGM", DOC("dcgm"), .fn = spec_dcgm },
};
const struct check_table checks_spec = { spec_rows, ARRAY_SIZE(spec_rows) };
