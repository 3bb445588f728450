/* SPDX-License-Identifier: MIT */
/* hw_box: a machine of a few files in a temporary directory, for tests of hw sources.
 *
 * box_init(), then files and links as sysfs has them, then box_probe() on the sources
 * of interest; their results are in box.hw.  box_release() removes the directory. */
#ifndef TESTS_HW_BOX_H
#define TESTS_HW_BOX_H
#include "hw/hw_int.h"
#include "test.h"

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

struct box {
    char dir[64];
    struct hw hw;
    struct hw_build b;
};

static inline void box_init(struct box *x)
{
    memset(x, 0, sizeof(*x));
    (void)snprintf(x->dir, sizeof(x->dir), "/tmp/stoker-box-XXXXXX");
    assert_non_null(mkdtemp(x->dir));
    arena_init(&x->hw.arena);
    x->b = (struct hw_build){ .hw = &x->hw, .a = &x->hw.arena };
}

/* The path on disk of `path` in the machine, with every folder above it made. */
static inline void box_path(struct box *x, const char *path, char out[ROOT_PATH_MAX])
{
    assert_true(snprintf(out, ROOT_PATH_MAX, "%s%s", x->dir, path) < ROOT_PATH_MAX);
    for (char *p = out + strlen(x->dir) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        assert_true(mkdir(out, 0755) == 0 || errno == EEXIST);
        *p = '/';
    }
}

static inline void box_bytes(struct box *x, const char *path, const void *data, size_t len)
{
    char full[ROOT_PATH_MAX];
    FILE *f;

    box_path(x, path, full);
    f = fopen(full, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static inline void box_file(struct box *x, const char *path, const char *text)
{
    box_bytes(x, path, text, strlen(text));
}

/* A file whose name has two parts, "DIR" and "NAME". */
static inline void box_attr(struct box *x, const char *dir, const char *name, const char *text)
{
    char path[ROOT_PATH_MAX];

    assert_true(snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path));
    box_file(x, path, text);
}

static inline void box_dir(struct box *x, const char *path)
{
    char full[ROOT_PATH_MAX];

    box_path(x, path, full);
    assert_true(mkdir(full, 0755) == 0 || errno == EEXIST);
}

static inline void box_link(struct box *x, const char *path, const char *target)
{
    char full[ROOT_PATH_MAX];

    box_path(x, path, full);
    assert_int_equal(symlink(target, full), 0);
}

/* A PCI function below `parent` ("pci0000:15/0000:15:01.0"), with its link in
 * /sys/bus/pci/devices; its directory in `out` when that is not NULL. */
static inline void box_pci(struct box *x, const char *parent, const char *bdf, const char *vendor,
                           const char *class_, char out[ROOT_PATH_MAX])
{
    char dir[ROOT_PATH_MAX], link[ROOT_PATH_MAX], target[ROOT_PATH_MAX];

    (void)snprintf(dir, sizeof(dir), "/sys/devices/%s/%s", parent, bdf);
    (void)snprintf(link, sizeof(link), "/sys/bus/pci/devices/%s", bdf);
    (void)snprintf(target, sizeof(target), "../../../devices/%s/%s", parent, bdf);
    box_attr(x, dir, "vendor", vendor);
    box_attr(x, dir, "device", "0x1234\n");
    box_attr(x, dir, "class", class_);
    box_link(x, link, target);
    if (out)
        memcpy(out, dir, sizeof(dir));
}

/* Opens the machine and runs the sources given, NULL last. */
static inline void box_probe(struct box *x, void (*const *sources)(struct hw_build *))
{
    struct err err = { 0 };

    if (!x->b.root)
        assert_int_equal(root_open(x->dir, &x->b.root, &err), RC_OK);
    for (; *sources; sources++)
        (*sources)(&x->b);
}

static inline int box_unlink(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static inline void box_release(struct box *x)
{
    root_close(x->b.root);
    arena_release(&x->hw.arena);
    assert_int_equal(nftw(x->dir, box_unlink, 16, FTW_DEPTH | FTW_PHYS), 0);
}

#define BOX_PROBE(x, ...) box_probe((x), (void (*const[])(struct hw_build *)){ __VA_ARGS__, NULL })

#endif
