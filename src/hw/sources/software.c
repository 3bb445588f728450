/* SPDX-License-Identifier: MIT */
/* software: versions of what GPU work stands on, found without running anything.
 *
 * In order of trust: small files that carry a version (version.json, nccl.h,
 * torch/version.py), the name a library's link points to (libnccl.so.2 →
 * libnccl.so.2.27.3), the package manager's word (struct hw_self), and last the
 * mere existence of a program.  A version found at two places is listed once for
 * each place; what the packages say is added only when no file said it.
 *
 * Of a library that is here several times the first row is the one that a job loads: what
 * LD_PRELOAD names, then the copy that the Python in use brings (PyTorch's wheels name the
 * folder in their RPATH, which the loader tries before LD_LIBRARY_PATH), then
 * LD_LIBRARY_PATH, then Pythons below /opt, then the system's folders. */
#include "hw/hw_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <ctype.h>

enum {
    SOFT_MAX = 96,         /* findings listed */
    SMALL_FILE_MAX = 8192, /* bytes read of a header or version file */
    TOOLKITS_MAX = 16,     /* CUDA toolkits */
    PYTHON_DIRS_MAX = 48,  /* site-packages folders looked into */
    PREFIXES_MAX = 32,     /* folders below /opt */
    LIB_DIRS_MAX = 32,     /* library folders of LD_LIBRARY_PATH */
    PYTHON_LIST_MAX = 16,  /* python3.N below one lib folder */
    IMEX_FILE_MAX = 32768  /* bytes read of nodes_config.cfg */
};

/* The same finding: a wheel's folder and the library in it. */
static bool soft_is_same(const char *a, const char *b)
{
    size_t m = strlen(a), n = strlen(b), least = m < n ? m : n;

    return !strncmp(a, b, least) && (m == n || (m < n ? b[least] : a[least]) == '/');
}

static void soft_add(struct hw_build *b, const char *name, const char *version, const char *path)
{
    struct hw *hw = b->hw;

    if (!hw->software)
        hw->software = arena_array(b->a, struct hw_soft, SOFT_MAX);
    for (size_t i = 0; i < hw->software_count; i++)
        if (str_eq(hw->software[i].name, name) && soft_is_same(hw->software[i].path, path)) {
            if (!hw->software[i].version && version)
                hw->software[i].version = arena_strdup(b->a, version);
            return;
        }
    if (hw->software_count < SOFT_MAX)
        hw->software[hw->software_count++] = (struct hw_soft){
            .name = name,
            .version = arena_strdup(b->a, version),
            .path = arena_strdup(b->a, path),
        };
}

static bool soft_has(const struct hw *hw, const char *name)
{
    for (size_t i = 0; i < hw->software_count; i++)
        if (str_eq(hw->software[i].name, name))
            return true;
    return false;
}

static bool soft_is_system(const char *path)
{
    return str_starts(path, "/usr/") && !strstr(path, "/site-packages/") &&
           !strstr(path, "/dist-packages/");
}

/* Gives the system's finding that has no version this one, or any where none has a version, or
 * adds a finding. */
static void soft_fill(struct hw_build *b, const char *name, const char *version, const char *path)
{
    struct hw_soft *own = NULL, *any = NULL;
    bool known = false;

    for (size_t i = 0; version && i < b->hw->software_count; i++) {
        struct hw_soft *s = &b->hw->software[i];

        if (!str_eq(s->name, name))
            continue;
        known = known || s->version;
        if (!s->version && !own && soft_is_system(s->path))
            own = s;
        any = any ? any : s;
    }
    if (own)
        own->version = version;
    else if (any && !known)
        any->version = version;
    else if (version && !any)
        soft_add(b, name, version, path);
}

/* Does it look like a version: digits and dots, perhaps a suffix? */
static bool is_version(const char *s)
{
    return s && isdigit((unsigned char)*s) && strlen(s) < 64;
}

/* ---- C headers ---- */
/* The number of "#define NAME 12"; unknown when missing. */
static struct maybe define_get(const char *text, const char *name)
{
    size_t len = strlen(name);

    for (const char *p = text; (p = strstr(p, name)); p += len) {
        char digits[16] = "";
        const char *v = p + len;
        size_t n;

        if (p < text + 8 || strncmp(p - 8, "#define ", 8) || !strchr(" \t", *v))
            continue;
        v += strspn(v, " \t");
        n = strspn(v, "0123456789");
        if (!n || n >= sizeof(digits))
            return maybe_none();
        memcpy(digits, v, n);
        return str_to_maybe(digits);
    }
    return maybe_none();
}

/* nccl.h and cudnn_version.h define PREFIX_MAJOR, _MINOR and a third; in the arena. */
static const char *header_version(struct hw_build *b, const char *path, const char *prefix,
                                  const char *third)
{
    char text[SMALL_FILE_MAX], key[64];
    struct maybe v[3];
    const char *const parts[] = { "MAJOR", "MINOR", third };

    if (root_read(b->root, path, text, sizeof(text)) <= 0)
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        snprintf(key, sizeof(key), "%s_%s", prefix, parts[i]);
        v[i] = define_get(text, key);
        if (!v[i].known)
            return NULL;
    }
    return arena_printf(b->a, "%lld.%lld.%lld", (long long)v[0].v, (long long)v[1].v,
                        (long long)v[2].v);
}

static const char *nccl_header(struct hw_build *b, const char *path)
{
    return header_version(b, path, "NCCL", "PATCH");
}

static const char *cudnn_header(struct hw_build *b, const char *path)
{
    return header_version(b, path, "CUDNN", "PATCHLEVEL");
}

/* ---- CUDA toolkits ---- */
static const char *toolkit_version(struct hw_build *b, const char *dir)
{
    struct arena tree = { 0 };
    struct json *doc = NULL;
    char path[ROOT_PATH_MAX], text[SMALL_FILE_MAX * 2];
    const char *version = NULL, *found = NULL;
    ssize_t len;

    snprintf(path, sizeof(path), "%s/version.json", dir);
    len = root_read(b->root, path, text, sizeof(text));
    if (len > 0 && json_parse(&tree, text, (size_t)len, &doc, NULL) == RC_OK)
        version = json_str(json_get(json_get(doc, "cuda"), "version"));
    if (is_version(version))
        found = arena_strdup(b->a, version);
    arena_release(&tree);
    if (found)
        return found;
    found = root_str(b->root, b->a, "%s/version.txt", dir); /* "CUDA Version 10.2.89" */
    if (str_starts(found, "CUDA Version ") && is_version(found + 13))
        return found + 13;
    found = strrchr(dir, '-'); /* /usr/local/cuda-12.4 */
    return found && is_version(found + 1) ? found + 1 : NULL;
}

static void toolkit_add(struct hw_build *b, const char *dir)
{
    char real[ROOT_PATH_MAX];

    if (root_real(b->root, dir, real, sizeof(real)))
        return;
    if (root_exists(b->root, "%s/version.json", real) ||
        root_exists(b->root, "%s/version.txt", real) || root_exists(b->root, "%s/bin/nvcc", real))
        soft_add(b, "cuda", toolkit_version(b, real), real);
}

static void toolkits_find(struct hw_build *b)
{
    struct arena tmp = { 0 };
    struct root_names names;
    char dir[ROOT_PATH_MAX];
    const char *home = hw_self_env(&b->self, "CUDA_HOME");
    int found = 0;

    if (home && *home == '/')
        toolkit_add(b, home);
    if (root_list(b->root, &tmp, "/usr/local", &names) == 0)
        for (size_t i = 0; i < names.count && found < TOOLKITS_MAX; i++)
            if (str_starts(names.items[i], "cuda") &&
                snprintf(dir, sizeof(dir), "/usr/local/%s", names.items[i]) < (int)sizeof(dir)) {
                toolkit_add(b, dir);
                found++;
            }
    arena_release(&tmp);
}

/* ---- libraries ---- */
static const struct {
    const char *soname, *name;
} libraries[] = {
    { "libnccl.so.2", "nccl" },
    { "libcudnn.so.9", "cudnn" },
    { "libcudnn.so.8", "cudnn" },
    { "libdcgm.so.4", "dcgm" },
    { "libdcgm.so.3", "dcgm" },
    { "libdcgm.so.2", "dcgm" },
    { "libnvidia-container.so.1", "nvidia-container-toolkit" },
    { "libnvshmem_host.so.3", "nvshmem" },
    { "libucp.so.0", "ucx" },
    { "libibverbs.so.1", "rdma-core" },
    { "libfabric.so.1", "libfabric" },
    { "libnccl-net.so", "nccl-net-plugin" },
};

/* Libraries whose file name counts the interface and not the release. */
static bool name_tells_version(const char *name)
{
    return !str_eq(name, "rdma-core") && !str_eq(name, "ucx") && !str_eq(name, "libfabric") &&
           !str_eq(name, "nccl-net-plugin");
}

static void library_add(struct hw_build *b, const char *path, size_t i)
{
    char real[ROOT_PATH_MAX];
    const char *file, *version;

    if (root_real(b->root, path, real, sizeof(real)) || !root_exists(b->root, "%s", real))
        return;
    file = strrchr(real, '/');
    version = file ? strstr(file, ".so.") : NULL;
    version = version && name_tells_version(libraries[i].name) ? version + 4 : NULL;
    /* a bare "2" is the interface: the file was copied without its full name */
    soft_add(b, libraries[i].name, is_version(version) && strchr(version, '.') ? version : NULL,
             real);
}

static void libraries_in(struct hw_build *b, const char *dir)
{
    char path[ROOT_PATH_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(libraries); i++)
        if (snprintf(path, sizeof(path), "%s/%s", dir, libraries[i].soname) < (int)sizeof(path))
            library_add(b, path, i);
}

static void libraries_find(struct hw_build *b)
{
    static const char *const dirs[] = {
        "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/lib",
        "/usr/local/cuda/lib64",
    };

    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
        if (root_exists(b->root, "%s", dirs[i]))
            libraries_in(b, dirs[i]);
}

/* The next name of a list of paths, which `seps` part; NULL: none is left. */
static const char *next_path(const char **list, const char *seps, char out[ROOT_PATH_MAX])
{
    while (*list && **list) {
        size_t len = strcspn(*list, seps);
        const char *at = *list;

        *list += len + ((*list)[len] != '\0');
        if (*at != '/' || len >= ROOT_PATH_MAX)
            continue;
        memcpy(out, at, len);
        out[len] = '\0';
        return out;
    }
    return NULL;
}

static void library_path_find(struct hw_build *b)
{
    const char *list = hw_self_env(&b->self, "LD_LIBRARY_PATH");
    char dir[ROOT_PATH_MAX];

    for (int n = 0; n < LIB_DIRS_MAX && next_path(&list, ":;", dir); n++)
        if (root_exists(b->root, "%s", dir))
            libraries_in(b, dir);
}

/* Libraries by the name they are preloaded under: "/opt/nccl/lib/libnccl.so.2". */
static void preload_find(struct hw_build *b)
{
    const char *list = hw_self_env(&b->self, "LD_PRELOAD");
    char path[ROOT_PATH_MAX];

    for (int n = 0; n < LIB_DIRS_MAX && next_path(&list, ": ", path); n++) {
        const char *file = strrchr(path, '/') + 1;

        for (size_t i = 0; i < ARRAY_SIZE(libraries); i++) {
            size_t stem = (size_t)(strstr(libraries[i].soname, ".so") + 3 - libraries[i].soname);

            if (!strncmp(file, libraries[i].soname, stem) && strchr(".", file[stem]))
                library_add(b, path, i);
        }
    }
}

static void headers_find(struct hw_build *b)
{
    static const char *const dirs[] = { "/usr/include", "/usr/include/x86_64-linux-gnu",
                                        "/usr/include/aarch64-linux-gnu",
                                        "/usr/local/cuda/include" };
    char path[ROOT_PATH_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
        snprintf(path, sizeof(path), "%s/nccl.h", dirs[i]);
        soft_fill(b, "nccl", nccl_header(b, path), path);
        snprintf(path, sizeof(path), "%s/cudnn_version.h", dirs[i]);
        soft_fill(b, "cudnn", cudnn_header(b, path), path);
    }
}

/* ---- Python ---- */
/* "__version__ = '2.8.0+cu129'" */
static void torch_add(struct hw_build *b, const char *site)
{
    char path[ROOT_PATH_MAX], text[SMALL_FILE_MAX], *p;

    if (snprintf(path, sizeof(path), "%s/torch/version.py", site) >= (int)sizeof(path) ||
        root_read(b->root, path, text, sizeof(text)) <= 0)
        return;
    str_make_text(text);
    p = strstr(text, "__version__ = ");
    if (!p)
        return;
    p += strlen("__version__ = ");
    p += *p == '\'' || *p == '"';
    p[strcspn(p, "'\"\n")] = '\0';
    path[strlen(path) - strlen("/version.py")] = '\0';
    soft_add(b, "torch", is_version(p) ? p : NULL, path);
}

/* "nvidia_nccl_cu12-2.27.3.dist-info" → "2.27.3" */
static const char *dist_version(struct arena *a, const char *file, const char *package)
{
    static const char suffix[] = ".dist-info";
    const char *dash;

    if (!str_starts(file, package) || !str_ends(file, suffix))
        return NULL;
    dash = memrchr(file, '-', strlen(file) - sizeof(suffix) + 1);
    if (!dash || !is_version(dash + 1))
        return NULL;
    return arena_strndup(a, dash + 1, strlen(dash + 1) - sizeof(suffix) + 1);
}

/* A wheel that torch brings: its header first, then the name of its folder. */
static void wheel_add(struct hw_build *b, const char *site, const char *name,
                      const char *(*header)(struct hw_build *, const char *), const char *file)
{
    char path[ROOT_PATH_MAX], package[64];
    struct arena tmp = { 0 };
    struct root_names names;
    const char *version;

    if (snprintf(path, sizeof(path), "%s/nvidia/%s/include/%s", site, name, file) >=
            (int)sizeof(path) ||
        !root_exists(b->root, "%s/nvidia/%s", site, name))
        return;
    version = header(b, path);
    snprintf(package, sizeof(package), "nvidia_%s", name);
    if (!version && root_list(b->root, &tmp, site, &names) == 0)
        for (size_t i = 0; i < names.count && !version; i++)
            version = dist_version(b->a, names.items[i], package);
    arena_release(&tmp);
    path[strlen(path) - strlen("/include/") - strlen(file)] = '\0';
    soft_add(b, name, version, path);
}

/* Looks below LIB/python3.N/{site,dist}-packages. */
static void python_lib(struct hw_build *b, const char *lib, int *budget)
{
    static const char *const kinds[] = { "site-packages", "dist-packages" };
    struct arena tmp = { 0 };
    struct root_names names;
    char site[ROOT_PATH_MAX];
    int pythons = 0;

    if (root_list(b->root, &tmp, lib, &names) == 0)
        for (size_t i = 0; i<names.count && * budget> 0 && pythons < PYTHON_LIST_MAX; i++) {
            if (!str_starts(names.items[i], "python3"))
                continue;
            pythons++;
            for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
                if (snprintf(site, sizeof(site), "%s/%s/%s", lib, names.items[i], kinds[k]) >=
                        (int)sizeof(site) ||
                    !root_exists(b->root, "%s", site))
                    continue;
                torch_add(b, site);
                wheel_add(b, site, "nccl", nccl_header, "nccl.h");
                wheel_add(b, site, "cudnn", cudnn_header, "cudnn_version.h");
                (*budget)--;
            }
        }
    arena_release(&tmp);
}

/* What a program started here runs with; conda keeps libraries beside its Pythons. */
static void python_find(struct hw_build *b, int *budget)
{
    static const char *const prefixes[] = { "VIRTUAL_ENV", "CONDA_PREFIX" };
    char lib[ROOT_PATH_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
        const char *prefix = hw_self_env(&b->self, prefixes[i]);

        if (!prefix || *prefix != '/' ||
            snprintf(lib, sizeof(lib), "%s/lib", prefix) >= (int)sizeof(lib))
            continue;
        python_lib(b, lib, budget);
        if (root_exists(b->root, "%s", lib))
            libraries_in(b, lib);
    }
    python_lib(b, "/usr/local/lib", budget);
    /* /usr/lib is long; Debian's python3 keeps all versions in one folder there */
    if (root_exists(b->root, "/usr/lib/python3/dist-packages/torch"))
        torch_add(b, "/usr/lib/python3/dist-packages");
}

/* Pythons that a job may start. */
static void python_opt(struct hw_build *b, int *budget)
{
    static const char *const below[] = { "lib", ".venv/lib", "venv/lib" };
    struct arena tmp = { 0 };
    struct root_names names;
    char lib[ROOT_PATH_MAX];

    if (root_list(b->root, &tmp, "/opt", &names) == 0)
        for (size_t i = 0; i < names.count && i < PREFIXES_MAX; i++)
            for (size_t k = 0; k < ARRAY_SIZE(below); k++)
                if (snprintf(lib, sizeof(lib), "/opt/%s/%s", names.items[i], below[k]) <
                    (int)sizeof(lib))
                    python_lib(b, lib, budget);
    arena_release(&tmp);
}

/* ---- packages and programs ---- */
static const struct {
    const char *package, *name; /* a prefix of the package's name */
} packages[] = {
    { "docker-ce-", NULL }, /* the command line, plug-ins: not the engine */
    { "docker-ce", "docker" },
    { "docker.io", "docker" },
    { "moby-engine", "docker" },
    { "containerd", "containerd" },
    { "moby-containerd", "containerd" },
    { "podman-", NULL },
    { "podman", "podman" },
    { "cri-o", "crio" },
    { "nvidia-container-toolkit-", NULL },
    { "nvidia-container-toolkit", "nvidia-container-toolkit" },
    { "datacenter-gpu-manager", "dcgm" },
    { "nvidia-fabricmanager-dev", NULL },
    { "nvidia-fabricmanager", "fabricmanager" },
    { "rdma-core", "rdma-core" },
    { "libucx0", "ucx" },
    { "ucx", "ucx" },
    { "slurmd", "slurm" },
    { "slurm-smd-slurmd", "slurm" },
    { "kubelet", "kubelet" },
    { "libnccl2", "nccl" },
    { "libcudnn", "cudnn" },
    { "mlnx-ofed", "ofed" },
    { "doca-ofed", "ofed" },
};

static const char *package_soft(const char *package)
{
    for (size_t i = 0; i < ARRAY_SIZE(packages); i++)
        if (str_starts(package, packages[i].package))
            return packages[i].name;
    return NULL;
}

/* "5:26.0.1-1~ubuntu.22.04" → "26.0.1": without epoch and packager's revision. */
static const char *upstream_version(struct arena *a, const char *version)
{
    const char *end, *colon = version ? strchr(version, ':') : NULL;

    if (!version)
        return NULL;
    if (colon && colon > version && strspn(version, "0123456789") == (size_t)(colon - version))
        version = colon + 1;
    end = strrchr(version, '-');
    return end && end > version ? arena_strndup(a, version, (size_t)(end - version)) : version;
}

static void packages_add(struct hw_build *b)
{
    FOR_EACH(const struct hw_soft, pkg, b->self.packages) {
        const char *name = package_soft(pkg->name ? pkg->name : "");

        if (name)
            soft_fill(b, name, upstream_version(b->a, pkg->version), "dpkg");
    }
}

static void programs_find(struct hw_build *b)
{
    static const struct {
        const char *program, *name;
    } programs[] = {
        { "dockerd", "docker" },
        { "containerd", "containerd" },
        { "podman", "podman" },
        { "crio", "crio" },
        { "nvidia-ctk", "nvidia-container-toolkit" },
        { "nvidia-container-cli", "nvidia-container-toolkit" },
        { "nv-hostengine", "dcgm" },
        { "nv-fabricmanager", "fabricmanager" },
        { "slurmd", "slurm" },
        { "kubelet", "kubelet" },
        { "apptainer", "apptainer" },
        { "enroot", "enroot" },
    };
    static const char *const dirs[] = { "/usr/bin", "/usr/sbin", "/usr/local/bin",
                                        "/usr/local/sbin" };
    char path[ROOT_PATH_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
        for (size_t d = 0; d < ARRAY_SIZE(dirs) && !soft_has(b->hw, programs[i].name); d++) {
            snprintf(path, sizeof(path), "%s/%s", dirs[d], programs[i].program);
            if (root_exists(b->root, "%s", path))
                soft_add(b, programs[i].name, NULL, path);
        }
}

static void daemons_note(const struct hw_self *self, struct hw_nvidia *nv)
{
    nv->fabricmanager_running = hw_self_daemon_state(self, "nv-fabricmanager");
    nv->persistenced_running = hw_self_daemon_state(self, "nvidia-persistenced");
    nv->hostengine_running = hw_self_daemon_state(self, "nv-hostengine");
    nv->mps_running = hw_self_daemon_state(self, "nvidia-cuda-mps");
    nv->imex_running = hw_self_daemon_state(self, "nvidia-imex");
}

/* An address a line, '#' for comments. */
static struct maybe imex_nodes(struct hw_build *b)
{
    char text[IMEX_FILE_MAX];
    ssize_t len = root_read(b->root, "/etc/nvidia-imex/nodes_config.cfg", text, sizeof(text));
    int64_t n = 0;

    if (len < 0)
        return maybe_none();
    for (const char *p = text; *p;) {
        size_t line = strcspn(p, "\n");
        const char *word = p + strspn(p, " \t\r");

        n += *word && *word != '#' && *word != '\n';
        p += line + (p[line] == '\n');
    }
    return maybe_of(n);
}

/* The folder is there when the driver knows IMEX at all. */
static struct maybe imex_channels(struct hw_build *b)
{
    struct arena tmp = { 0 };
    struct root_names names;
    struct maybe n = maybe_none();

    if (root_list(b->root, &tmp, "/dev/nvidia-caps-imex-channels", &names) == 0)
        n = maybe_of((int64_t)names.count);
    arena_release(&tmp);
    return n;
}

void hw_src_software(struct hw_build *b)
{
    int budget = PYTHON_DIRS_MAX;

    daemons_note(&b->self, &b->hw->nvidia);
    b->hw->nvidia.imex_nodes = imex_nodes(b);
    b->hw->nvidia.imex_channels = imex_channels(b);
    toolkits_find(b);
    preload_find(b);
    python_find(b, &budget);
    library_path_find(b);
    python_opt(b, &budget);
    libraries_find(b);
    headers_find(b);
    programs_find(b);
    packages_add(b);
    if (!b->hw->nvidia.fabricmanager_version)
        b->hw->nvidia.fabricmanager_version = hw_soft_version(b->hw, "fabricmanager");
}
