/* SPDX-License-Identifier: MIT */
/* storage: disks from /sys/block, mounts from /proc/self/mountinfo.
 *
 * A disk's real path in sysfs tells how it hangs on the machine: the last PCI
 * address in it is its controller, a folder such as "nvme" or "ata1" the transport.
 * Sizes of file systems come from struct hw_self: asking one that lives on a server
 * may take for ever, so it is done there, once, with a deadline. */
#include "hw/hw_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <ctype.h>

enum {
    MOUNTINFO_MAX = 1 << 20, /* bytes of /proc/self/mountinfo */
    MOUNT_LINES_MAX = 8192,  /* lines of it */
    MOUNTS_MAX = 256,        /* mounts kept */
    MOUNT_WORDS_MAX = 128,   /* own options of a remote file system */
    DISKS_MAX = 512,         /* disks in the inventory */
    SECTOR_BYTES = 512       /* the unit of /sys/block/X/size, whatever the disk's own */
};

/* ---- /proc/self/mountinfo ---- */
static bool is_octal(char c, char max)
{
    return c >= '0' && c <= max;
}

/* The kernel writes blanks and backslashes in a name as \ooo. */
static void path_unescape(char *s)
{
    char *w = s;

    for (; *s; s++) {
        if (s[0] == '\\' && is_octal(s[1], '3') && is_octal(s[2], '7') && is_octal(s[3], '7')) {
            *w++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
            s += 3;
        } else {
            *w++ = *s;
        }
    }
    *w = '\0';
}

/* "36 35 98:0 /root /target rw,noatime master:1 … - ext4 /dev/sda1 rw": cuts the line
 * in place, and the fields point into it. */
static bool mount_parse(char *line, struct hw_mountinfo *out)
{
    char *head[6], *tail[3] = { NULL, NULL, NULL }, *save = NULL, *w = NULL;
    size_t n;

    for (n = 0; n < ARRAY_SIZE(head) && (w = strtok_r(n ? NULL : line, " ", &save)); n++)
        head[n] = w;
    if (n < ARRAY_SIZE(head))
        return false;
    while ((w = strtok_r(NULL, " ", &save)) && !str_eq(w, "-"))
        ; /* optional fields: how mounts propagate */
    for (n = 0; n < ARRAY_SIZE(tail) && (w = strtok_r(NULL, " ", &save)); n++)
        tail[n] = w;
    if (n < 2)
        return false;
    path_unescape(head[3]);
    path_unescape(head[4]);
    path_unescape(tail[1]);
    *out = (struct hw_mountinfo){
        .dev = head[2],
        .root = head[3],
        .target = head[4],
        .options = head[5],
        .fstype = tail[0],
        .source = tail[1],
        .super_options = tail[2] ? tail[2] : "",
    };
    return true;
}

static const char *text_dup(struct arena *a, const char *s)
{
    char *copy = arena_strdup(a, s);

    str_make_text(copy);
    return copy;
}

/* A later mount on the same target covers the earlier one. */
static void mount_add(struct hw_build *b, const struct hw_mountinfo *m)
{
    struct hw_mountinfo *slot = NULL;

    for (size_t i = 0; i < b->mounts_count && !slot; i++)
        if (str_eq(b->mounts[i].target, m->target))
            slot = &b->mounts[i];
    if (!slot) {
        if (b->mounts_count == MOUNTS_MAX)
            return;
        slot = &b->mounts[b->mounts_count++];
    }
    *slot = (struct hw_mountinfo){
        .dev = text_dup(b->a, m->dev),
        .root = text_dup(b->a, m->root),
        .target = text_dup(b->a, m->target),
        .options = text_dup(b->a, m->options),
        .fstype = text_dup(b->a, m->fstype),
        .source = text_dup(b->a, m->source),
        .super_options = text_dup(b->a, m->super_options),
    };
}

static void mounts_read(struct hw_build *b)
{
    char *text = xmalloc(MOUNTINFO_MAX), *save = NULL;
    ssize_t len = root_read(b->root, "/proc/self/mountinfo", text, MOUNTINFO_MAX);
    int lines = 0;

    b->mounts = arena_array(b->a, struct hw_mountinfo, MOUNTS_MAX);
    for (char *l = len > 0 ? strtok_r(text, "\n", &save) : NULL; l && lines < MOUNT_LINES_MAX;
         l = strtok_r(NULL, "\n", &save), lines++) {
        struct hw_mountinfo m;

        if (mount_parse(l, &m) && (hw_mount_is_real(&m) || str_starts(m.fstype, "cgroup")))
            mount_add(b, &m);
    }
    free(text);
    if (len < 0)
        hw_note_add(b, "storage", "/proc/self/mountinfo cannot be read: mounts are unknown");
    else if (len == MOUNTINFO_MAX - 1 || lines == MOUNT_LINES_MAX || b->mounts_count == MOUNTS_MAX)
        hw_note_add(b, "storage", "there are more mounts than are listed");
}

const struct hw_mountinfo *hw_mountinfo(struct hw_build *b, size_t *out_count)
{
    if (!b->mounts_read) {
        b->mounts_read = true;
        mounts_read(b);
    }
    *out_count = b->mounts_count;
    return b->mounts;
}

static bool name_in(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(name, list[i]))
            return true;
    return false;
}

bool hw_mount_is_remote(const struct hw_mountinfo *m)
{
    static const char *const remote[] = {
        "nfs",   "nfs4", "lustre", "gpfs", "beegfs",   "beegfs_nodev", "ceph", "wekafs",
        "pvfs2", "cifs", "smb3",   "9p",   "virtiofs", "glusterfs",    "afs",  "orangefs",
    };

    return name_in(m->fstype, remote, ARRAY_SIZE(remote)) || str_starts(m->fstype, "fuse.") ||
           str_eq(m->fstype, "fuse");
}

static bool below_one_of(const char *target, const char *const *folders, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_starts(target, folders[i]))
            return true;
    return false;
}

/* Containers bind single files and folders of the host into their system folders, and
 * their engines mount layers and volumes below their own. */
static bool is_plumbing(const struct hw_mountinfo *m)
{
    static const char *const system[] = {
        "/etc/", "/usr/", "/lib/", "/lib64/",   "/bin/",  "/sbin/",
        "/run/", "/dev/", "/sys/", "/var/run/", "/proc/",
    };
    static const char *const engines[] = {
        "/var/lib/kubelet/",    "/var/lib/docker/", "/var/lib/containers/",
        "/var/lib/containerd/", "/snap/",           "/run/",
    };

    return (!hw_mount_is_remote(m) && below_one_of(m->target, system, ARRAY_SIZE(system))) ||
           below_one_of(m->target, engines, ARRAY_SIZE(engines)) ||
           str_eq(m->fstype, "fuse.lxcfs") || str_starts(m->fstype, "fuse.gvfsd") ||
           str_eq(m->fstype, "fuse.portal");
}

bool hw_mount_is_real(const struct hw_mountinfo *m)
{
    static const char *const local[] = {
        "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs",
    };

    if (str_eq(m->target, "/dev/shm"))
        return true;
    if (str_eq(m->fstype, "overlay"))
        return str_eq(m->target, "/");
    if (is_plumbing(m))
        return false;
    return name_in(m->fstype, local, ARRAY_SIZE(local)) || hw_mount_is_remote(m);
}

static bool word_in(const char *list, const char *word, size_t len)
{
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == len && memcmp(list, word, len) == 0)
            return true;
    return false;
}

/* The options of the mount point, and of a remote file system its own, too: how it is
 * reached (addr=, proto=, vers=) is written there. */
static const char *mount_options(struct hw_build *b, const struct hw_mountinfo *m)
{
    const char *at = hw_mount_is_remote(m) ? m->super_options : "", *all;
    struct buf text = { 0 };

    buf_adds(&text, m->options);
    for (int words = 0; *at && words < MOUNT_WORDS_MAX; words++) {
        size_t len = strcspn(at, ",");

        if (len && !word_in(m->options, at, len))
            buf_addf(&text, ",%.*s", (int)len, at);
        at += len + (at[len] == ',');
    }
    all = arena_strdup(b->a, buf_str(&text));
    buf_release(&text);
    return all;
}

static void mounts_list(struct hw_build *b)
{
    size_t count;
    const struct hw_mountinfo *m = hw_mountinfo(b, &count);
    const struct hw_self *self = &b->self;

    b->hw->mounts = arena_array(b->a, struct hw_mount, count);
    for (size_t i = 0; i < count; i++) {
        struct hw_mount *out = &b->hw->mounts[b->hw->mounts_count];

        if (!hw_mount_is_real(&m[i]))
            continue;
        *out = (struct hw_mount){
            .source = m[i].source,
            .target = m[i].target,
            .fstype = m[i].fstype,
            .options = mount_options(b, &m[i]),
        };
        for (size_t k = 0; k < self->filesystems_count; k++)
            if (str_eq(self->filesystems[k].target, out->target)) {
                out->size_bytes = self->filesystems[k].size_bytes;
                out->avail_bytes = self->filesystems[k].avail_bytes;
            }
        b->hw->mounts_count++;
    }
}

/* ---- disks ---- */
static bool disk_is_wanted(const char *name)
{
    static const char *const skipped[] = { "loop", "ram", "zram", "dm-", "sr", "fd", "nbd" };
    const char *p = name;

    for (size_t i = 0; i < ARRAY_SIZE(skipped); i++)
        if (str_starts(name, skipped[i]) && isdigit((unsigned char)name[strlen(skipped[i])]))
            return false;
    if (!str_starts(name, "nvme")) /* "nvme0c1n1" is one path of nvme0n1 */
        return true;
    p += 4 + strspn(p + 4, "0123456789");
    return *p != 'c';
}

static const char *path_transport(const char *name, const char *path)
{
    static const struct {
        const char *part, *transport;
    } parts[] = {
        { "/nvme", "nvme" }, { "/virtio", "virtio" },   { "/usb", "usb" },
        { "/ata", "sata" },  { "/mmc", "mmc" },         { "/session", "iscsi" },
        { "/rport-", "fc" }, { "/end_device-", "sas" }, { "/host", "scsi" },
    };

    if (str_starts(name, "md") && isdigit((unsigned char)name[2]))
        return "md";
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        if (strstr(path, parts[i].part))
            return parts[i].transport;
    return NULL;
}

/* With native multipath the disk hangs on a virtual subsystem, whose folder links to
 * the controllers. */
static const char *nvme_bdf(struct hw_build *b, const char *disk_path)
{
    struct arena tmp = { 0 };
    struct root_names names;
    char dir[ROOT_PATH_MAX], path[ROOT_PATH_MAX], real[ROOT_PATH_MAX];
    char *cut;
    const char *bdf = NULL;

    if (!str_copy(dir, sizeof(dir), disk_path) || !(cut = strrchr(dir, '/')))
        return NULL;
    *cut = '\0';
    if (root_list(b->root, &tmp, dir, &names) == 0)
        for (size_t i = 0; i < names.count && !bdf; i++) {
            const char *n = names.items[i];

            if (!str_starts(n, "nvme") || n[4 + strspn(n + 4, "0123456789")] ||
                snprintf(path, sizeof(path), "%s/%s", dir, n) >= (int)sizeof(path) ||
                root_real(b->root, path, real, sizeof(real)))
                continue;
            bdf = hw_bdf_of_path(b->a, real);
        }
    arena_release(&tmp);
    return bdf;
}

static struct maybe disk_numa(struct hw_build *b, const char *bdf)
{
    const struct hw_pci *pci = hw_find_pci(b->hw, bdf);
    struct maybe node = maybe_none();

    if (pci)
        return pci->numa;
    if (bdf)
        node = root_int(b->root, "/sys/bus/pci/devices/%s/numa_node", bdf);
    return node.known && node.v >= 0 ? node : maybe_none(); /* -1: the firmware does not say */
}

static void disk_read(struct hw_build *b, const char *name, int64_t sectors, struct hw_disk *out)
{
    char path[ROOT_PATH_MAX], real[ROOT_PATH_MAX];
    struct maybe spins = root_int(b->root, "/sys/block/%s/queue/rotational", name);

    out->name = arena_strdup(b->a, name);
    out->size_bytes = maybe_of(sectors * SECTOR_BYTES);
    out->model = root_str(b->root, b->a, "/sys/block/%s/device/model", name);
    if (spins.known)
        out->rotational = maybe_of(spins.v != 0);
    snprintf(path, sizeof(path), "/sys/block/%s/queue/scheduler", name);
    out->scheduler = hw_choice_read(b, path);
    snprintf(path, sizeof(path), "/sys/block/%s", name);
    if (root_real(b->root, path, real, sizeof(real)))
        return;
    out->transport = path_transport(name, real);
    out->bdf = hw_bdf_of_path(b->a, real);
    if (!out->bdf && str_eq(out->transport, "nvme"))
        out->bdf = nvme_bdf(b, real);
    out->numa = disk_numa(b, out->bdf);
}

static void disks_list(struct hw_build *b)
{
    struct arena tmp = { 0 };
    struct root_names names;
    size_t room;

    if (root_list(b->root, &tmp, "/sys/block", &names) == 0) {
        room = names.count < DISKS_MAX ? names.count : DISKS_MAX;
        b->hw->disks = arena_array(b->a, struct hw_disk, room);
        for (size_t i = 0; i < names.count && b->hw->disks_count < room; i++) {
            struct maybe sectors;

            if (!disk_is_wanted(names.items[i]))
                continue;
            sectors = root_int(b->root, "/sys/block/%s/size", names.items[i]);
            if (sectors.known && sectors.v > 0 && sectors.v <= INT64_MAX / SECTOR_BYTES)
                disk_read(b, names.items[i], sectors.v, &b->hw->disks[b->hw->disks_count++]);
        }
    }
    arena_release(&tmp);
}

void hw_src_storage(struct hw_build *b)
{
    disks_list(b);
    mounts_list(b);
}
