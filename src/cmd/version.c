/* SPDX-License-Identifier: MIT */
/* version: which stoker this is, for a bug report: commit, compiler, libraries, CUDA.
 *
 * The first line is "stoker VERSION" and nothing else: scripts read it.  What is opened at run time
 * is opened here too, because what is installed differs from machine to machine; no driver is
 * called, so that a wedged GPU cannot stop it. */
#include "cmd/cmd_int.h"
#include "engine/plugin.h"

#include <curses.h>
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <libfyaml.h>
#include <zlib.h>

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

#ifdef __aarch64__
#define MACHINE "aarch64"
#else
#define MACHINE "x86_64"
#endif

/* Libraries that the program opens when it needs them, and who tells their version. */
static const struct {
    const char *soname, *function, *used_for;
} opened[] = {
    { "libcurl.so.4", "curl_version", "https and downloads" },
    { "libssl.so.3", "OpenSSL_version", "serving TLS" },
    { "libnvidia-ml.so.1", NULL, "GPUs" }, /* its version is that of the driver, which may hang */
};

static void add_opened(struct buf *out, size_t i)
{
    void *lib = dlopen(opened[i].soname, RTLD_LAZY | RTLD_LOCAL);
    const char *(*version)(int) = NULL; /* curl_version() takes nothing, and ignores what it gets */

    if (lib && opened[i].function)
        *(void **)&version = dlsym(lib, opened[i].function);
    buf_addf(out, "%-11s%s: ", i ? "" : "opened", opened[i].soname);
    if (lib)
        buf_addf(out, "%s\n", version ? version(0) : "found");
    else
        buf_addf(out, "not found, needed for %s\n", opened[i].used_for);
}

void cmd_version(struct buf *out)
{
    char path[PLUGIN_PATH_MAX], why[PLUGIN_WHY_MAX];

    buf_adds(out, "stoker " STOKER_VERSION "\n");
    buf_addf(out, "%-11s%s\n", "commit", STOKER_COMMIT);
    buf_addf(out, "%-11s%s, glibc %d.%d (here %s), %s\n", "compiler", COMPILER, __GLIBC__,
             __GLIBC_MINOR__, gnu_get_libc_version(), MACHINE);
    buf_addf(out, "%-11slibfyaml %s, ncurses %d.%d.%d, zlib %s\n", "linked", fy_library_version(),
             NCURSES_VERSION_MAJOR, NCURSES_VERSION_MINOR, NCURSES_VERSION_PATCH, zlibVersion());
    for (size_t i = 0; i < ARRAY_SIZE(opened); i++)
        add_opened(out, i);
    if (!plugin_find(NULL, path, why)) {
        buf_addf(out, "%-11snot found: %s\n", "CUDA", why);
    } else {
        int cuda = plugin_cuda_version(path);

        buf_addf(out, "%-11s%s", "CUDA", path);
        if (cuda)
            buf_addf(out, ", built with CUDA %d.%d", cuda / 1000, cuda % 1000 / 10);
        buf_addc(out, '\n');
    }
}
