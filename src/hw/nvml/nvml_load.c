/* SPDX-License-Identifier: MIT */
/* nvml_load: finds the driver's management library and the functions in it.
 *
 * Only the child calls this: loading runs the library's own code.  A function that
 * is not there stays NULL, and what it would tell unknown, so that one binary
 * speaks with drivers ten years apart. */
#include "hw/nvml/nvml_int.h"

#include "base/str.h"

#include <dlfcn.h>
#include <link.h>

static const char usual_name[] = "libnvidia-ml.so.1";

/* Where it lies when the loader's own path lacks it: container runtimes mount it
 * without an ldconfig, WSL keeps it apart. */
static const char *const usual_places[] = {
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
    "/usr/local/nvidia/lib64",   "/usr/lib/wsl/lib",
};

static const struct {
    const char *name;
    size_t off; /* in struct nvml_api */
} symbols[] = { { "nvmlErrorString", offsetof(struct nvml_api, ErrorString) },
#define NVML_SYMBOL(name, params) { "nvml" #name, offsetof(struct nvml_api, name) },
                NVML_CALLS(NVML_SYMBOL)
#undef NVML_SYMBOL
};

/* The name that the library itself carries, the same wherever it was found. */
static const char *own_name(void *lib, const char *dflt)
{
    struct link_map *map = NULL;
    const char *strings = NULL;
    ElfW(Xword) at = 0;

    if (dlinfo(lib, RTLD_DI_LINKMAP, &map) != 0 || !map)
        return dflt;
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_STRTAB) /* glibc has added the load address already */
            strings = (const char *)(uintptr_t)d->d_un.d_ptr;
        if (d->d_tag == DT_SONAME)
            at = d->d_un.d_val;
    }
    return strings && at ? strings + at : dflt;
}

static void *open_usual(void)
{
    void *lib = dlopen(usual_name, RTLD_NOW | RTLD_LOCAL);
    char path[256];

    for (size_t i = 0; !lib && i < ARRAY_SIZE(usual_places); i++) {
        snprintf(path, sizeof(path), "%s/%s", usual_places[i], usual_name);
        lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return lib;
}

enum rc nvml_load(struct arena *a, const char *lib, struct nvml_api *out, struct err *err)
{
    const char *name = lib ? lib : usual_name;
    void *handle = lib ? dlopen(lib, RTLD_NOW | RTLD_LOCAL) : open_usual();
    struct nvml_api api = { 0 };
    const char *why;

    if (!handle) {
        why = dlerror();
        if (!why || str_ends(why, "No such file or directory"))
            return err_set(err, RC_NODEV, "library '%s' not found", name);
        return err_set(err, RC_FAIL, "could not load library '%s': %s", name, why);
    }
    api.soname = arena_strdup(a, own_name(handle, name));
    for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
        void *p = dlsym(handle, symbols[i].name);

        memcpy((char *)&api + symbols[i].off, &p, sizeof(p));
    }
    if (!api.Init_v2 && !api.Init)
        return err_set(err, RC_FAIL, "library '%s' is not NVIDIA's management library", name);
    *out = api;
    return RC_OK;
}
