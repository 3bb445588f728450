/* SPDX-License-Identifier: MIT */
/* storage: disks and where they hang, mounts and which of them count. */
#include "hw_box.h"

#include "base/mem.h"
#include "base/str.h"

static const struct hw_mount *find_mount(const struct hw *hw, const char *target)
{
    for (size_t i = 0; i < hw->mounts_count; i++)
        if (str_eq(hw->mounts[i].target, target))
            return &hw->mounts[i];
    return NULL;
}

TEST(mounts)
{
    AUTO(box_release) struct box x;
    struct hw_self_fs fs[] = {
        { .target = "/", .size_bytes = maybe_of(100) },
        { .target = "/data set", .size_bytes = maybe_of(7), .avail_bytes = maybe_of(3) }
    };

    box_init(&x);
    x.b.self.filesystems = fs;
    x.b.self.filesystems_count = ARRAY_SIZE(fs);
    box_file(&x, "/proc/self/mountinfo",
             "1 0 0:1 / / rw,relatime - overlay overlay rw\n"
             "2 1 0:2 / /proc rw - proc proc rw\n"
             "3 1 259:1 / /data\\040set rw,noatime shared:1 master:2 - xfs /dev/nvme0n1 rw\n"
             "4 1 0:4 / /dev/shm rw - tmpfs tmpfs rw,size=64k\n"
             "5 1 0:4 / /dev/shm rw,nosuid - tmpfs shm rw,size=64k\n"
             "6 1 8:1 /etc/hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"
             "7 1 0:7 / /mnt/lustre rw - lustre 10.0.0.1@o2ib:/fs rw\n"
             "8 1 0:8 / /home rw - nfs4 nas:/home rw\n"
             "9 1 0:9 / /merged rw - overlay overlay rw\n"
             "10 1 0:10 / /tmp rw - tmpfs tmpfs rw\n"
             "11 1 0:11 / /s3 rw - fuse.s3fs s3fs rw\n"
             "12 1 0:12 / /var/lib/lxcfs rw - fuse.lxcfs lxcfs rw\n"
             "13 1 8:2 /lib /usr/lib/libcuda.so ro - ext4 /dev/sda2 rw\n");
    BOX_PROBE(&x, hw_src_storage);
    assert_int_equal(x.hw.mounts_count, 6);
    assert_int_equal(find_mount(&x.hw, "/")->size_bytes.v, 100);
    assert_string_equal(find_mount(&x.hw, "/dev/shm")->source, "shm"); /* the later one */
    assert_int_equal(find_mount(&x.hw, "/data set")->avail_bytes.v, 3);
    assert_string_equal(find_mount(&x.hw, "/data set")->source, "/dev/nvme0n1");
    assert_string_equal(find_mount(&x.hw, "/mnt/lustre")->fstype, "lustre");
    assert_false(find_mount(&x.hw, "/home")->size_bytes.known);
    assert_non_null(find_mount(&x.hw, "/s3"));
}

TEST(too_many_and_broken_mounts)
{
    AUTO(box_release) struct box x;
    AUTO(buf_release) struct buf text = { 0 };

    box_init(&x);
    buf_adds(&text, "nonsense\n1 2 3 4 5 6 -\n1 2 3 4 5 6 - ext4\n - - - - - - -\n");
    for (int i = 0; i < 300; i++)
        buf_addf(&text, "1 0 8:1 / /m%d\xff\\777\\04 rw - ext4 /dev/sda1 rw\n", i);
    box_bytes(&x, "/proc/self/mountinfo", text.data, text.len);
    BOX_PROBE(&x, hw_src_storage);
    assert_int_equal(x.hw.mounts_count, 256);
    assert_string_equal(x.hw.mounts[0].target, "/m0?\\777\\04");
    assert_int_equal(x.hw.notes_count, 1);
}

static void disk(struct box *x, const char *dir, const char *name, const char *sectors)
{
    char path[256], link[64], target[256];

    snprintf(path, sizeof(path), "/sys/devices/%s/%s", dir, name);
    box_attr(x, path, "size", sectors);
    box_attr(x, path, "queue/rotational", "0\n");
    box_attr(x, path, "queue/scheduler", "[none] mq-deadline\n");
    box_attr(x, path, "device/model", "Model X  \n");
    snprintf(link, sizeof(link), "/sys/block/%s", name);
    snprintf(target, sizeof(target), "../devices/%s/%s", dir, name);
    box_link(x, link, target);
}

static const struct hw_disk *find_disk(const struct hw *hw, const char *name)
{
    for (size_t i = 0; i < hw->disks_count; i++)
        if (str_eq(hw->disks[i].name, name))
            return &hw->disks[i];
    return NULL;
}

TEST(disks)
{
    AUTO(box_release) struct box x;
    struct hw_pci nvme = { .bdf = "0000:03:00.0", .numa = maybe_of(1) };

    box_init(&x);
    x.hw.pci = &nvme;
    x.hw.pci_count = 1;
    disk(&x, "pci0000:00/0000:00:01.0/0000:03:00.0/nvme/nvme0", "nvme0n1", "8\n");
    disk(&x, "pci0000:00/0000:00:04.0/virtio2/block", "vda", "16\n");
    disk(&x, "pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block", "sda", "2\n");
    disk(&x, "virtual/block", "loop0", "8\n");
    disk(&x, "virtual/block", "zram0", "8\n");
    disk(&x, "virtual/block", "dm-0", "8\n");
    disk(&x, "virtual/block", "md127", "8\n");
    disk(&x, "virtual/block", "nbd0", "0\n");
    disk(&x, "pci0000:00/0000:00:05.0/virtio3/block", "vdb", "-8\n");
    disk(&x, "pci0000:00/0000:00:05.0/virtio4/block", "vdc", "9223372036854775807\n");
    disk(&x, "virtual/nvme-subsystem/nvme-subsys1", "nvme1n1", "4\n");
    disk(&x, "pci0000:40/0000:41:00.0/nvme/nvme1", "nvme1c1n1", "4\n");
    box_link(&x, "/sys/devices/virtual/nvme-subsystem/nvme-subsys1/nvme1",
             "../../../pci0000:40/0000:41:00.0/nvme/nvme1");
    BOX_PROBE(&x, hw_src_storage);
    assert_int_equal(x.hw.disks_count, 5);
    assert_string_equal(find_disk(&x.hw, "nvme0n1")->transport, "nvme");
    assert_string_equal(find_disk(&x.hw, "nvme0n1")->bdf, "0000:03:00.0");
    assert_string_equal(find_disk(&x.hw, "nvme0n1")->model, "Model X");
    assert_string_equal(find_disk(&x.hw, "nvme0n1")->scheduler, "none");
    assert_int_equal(find_disk(&x.hw, "nvme0n1")->numa.v, 1);
    assert_int_equal(find_disk(&x.hw, "nvme0n1")->size_bytes.v, 4096);
    assert_true(maybe_is(find_disk(&x.hw, "nvme0n1")->rotational, 0));
    assert_string_equal(find_disk(&x.hw, "vda")->transport, "virtio");
    assert_string_equal(find_disk(&x.hw, "sda")->transport, "sata");
    assert_string_equal(find_disk(&x.hw, "md127")->transport, "md");
    assert_string_equal(find_disk(&x.hw, "nvme1n1")->bdf, "0000:41:00.0");
}

TEST_MAIN(cmocka_unit_test(mounts), cmocka_unit_test(too_many_and_broken_mounts),
          cmocka_unit_test(disks))
