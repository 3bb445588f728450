/* SPDX-License-Identifier: MIT */
/* Lustre, NFS and mounts on a captured machine; a file system that does not answer. */
#include "host.h"

#include "os/clock.h"

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

static void sample(const struct collector *c, struct host *h, int64_t now_ns)
{
    void *s = c->open(h->root, h->t);

    c->sample(s, h->t, now_ns);
    c->close(s);
}

TEST(lustre_values)
{
    AUTO(host_close) struct host h;

    host_open(&h, HOST_NODE);
    sample(&collect_lustre, &h, SECOND);
    NEAR(&h, "stoker_lustre_read_bytes_total", "fs=scratch,client=ffff88810a", 101262334767.0);
    NEAR(&h, "stoker_lustre_write_calls_total", "fs=scratch,client=ffff88810a", 201770);
    NEAR(&h, "stoker_lustre_open_calls_total", "fs=scratch,client=ffff88810a", 12345);
    NEAR(&h, "stoker_lustre_metadata_calls_total", "fs=scratch,client=ffff88810a,operation=getattr",
         777);
    UNKNOWN(&h, "stoker_lustre_metadata_calls_total",
            "fs=scratch,client=ffff88810a,operation=mkdir");
    NEAR(&h, "stoker_lustre_rpcs_total", "fs=scratch", 200);
    NEAR(&h, "stoker_lustre_rpc_wait_seconds_total", "fs=scratch", 3.5);
    NEAR(&h, "stoker_lustre_rpc_read_bytes_total", "fs=scratch", 8192);
    NEAR(&h, "stoker_lustre_rpc_write_bytes_total", "fs=scratch", 0);
    NEAR(&h, "stoker_lustre_targets", "fs=scratch", 2);
    NEAR(&h, "stoker_lustre_targets_down", "fs=scratch", 1);
}

#define HOME "export=filer:/export/home,protocol=tcp,mountaddr=10.0.0.9"

TEST(nfs_values)
{
    AUTO(host_close) struct host h;

    host_open(&h, HOST_NODE);
    sample(&collect_nfs, &h, SECOND);
    NEAR(&h, "node_nfs_rpcs_total", "", 4329785);
    NEAR(&h, "node_nfs_rpc_retransmissions_total", "", 5);
    NEAR(&h, "node_mountstats_nfs_age_seconds_total", HOME, 13968);
    NEAR(&h, "node_mountstats_nfs_read_bytes_total", HOME, 1207640230);
    NEAR(&h, "node_mountstats_nfs_total_read_bytes_total", HOME, 1210214218);
    NEAR(&h, "node_mountstats_nfs_total_write_bytes_total", HOME, 44);
    NEAR(&h, "node_mountstats_nfs_operations_requests_total", HOME ",operation=READ", 1298);
    NEAR(&h, "stoker_nfs_retransmissions_total", HOME ",operation=READ", 3);
    NEAR(&h, "node_mountstats_nfs_operations_major_timeouts_total", HOME ",operation=READ", 2);
    NEAR(&h, "node_mountstats_nfs_operations_response_time_seconds_total",
         HOME ",operation=GETATTR", 4);
    UNKNOWN(&h, "node_mountstats_nfs_operations_requests_total", HOME ",operation=OPEN");
}

#define AT(device, point, type) "device=" device ",mountpoint=" point ",fstype=" type

TEST(mount_values)
{
    AUTO(host_close) struct host h;

    host_open(&h, HOST_NODE);
    sample(&collect_mounts, &h, SECOND);
    NEAR(&h, "node_filesystem_size_bytes", AT("/dev/nvme0n1p1", "/", "ext4"), 4096e6);
    NEAR(&h, "node_filesystem_avail_bytes", AT("/dev/nvme0n1p1", "/", "ext4"), 350000.0 * 4096);
    NEAR(&h, "node_filesystem_files_free", AT("/dev/nvme0n1p1", "/", "ext4"), 65000000);
    NEAR(&h, "node_filesystem_readonly", AT("/dev/nvme0n1p1", "/", "ext4"), 0);
    NEAR(&h, "node_filesystem_readonly", AT("/dev/nvme1n1", "/mnt/my disk", "xfs"), 1);
    NEAR(&h, "node_filesystem_device_error", AT("tmpfs", "/dev/shm", "tmpfs"), 0);
    NEAR(&h, "node_filesystem_size_bytes", AT("filer:/export/home", "/home", "nfs4"),
         2000.0 * 1048576);
    NEAR(&h, "node_filesystem_free_bytes", AT("10.1.1.1@o2ib:/scratch", "/scratch", "lustre"),
         2345678901.0 * 4096);
    UNKNOWN(&h, "node_filesystem_readonly", AT("/dev/nvme0n1p1", "/srv/bind", "ext4"));
    UNKNOWN(&h, "node_filesystem_readonly", AT("auto.net", "/net", "autofs"));
    UNKNOWN(&h, "node_filesystem_readonly", AT("tmpfs", "/run/user/1000", "tmpfs"));
    CHECK(telemetry_count(h.t) == 5 * 7);
}

TEST(mounts_change)
{
    AUTO(host_close) struct host h;
    void *s;

    host_open(&h, NULL);
    host_put(&h, "/stoker/statvfs", "/ 4096 3 2 1 0 0\n/data 4096 30 20 10 0 0\n");
    host_put(&h, "/proc/self/mountinfo",
             "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
             "2 1 8:2 / /data rw - xfs /dev/sdb rw\n");
    s = collect_mounts.open(h.root, h.t);
    collect_mounts.sample(s, h.t, SECOND);
    NEAR(&h, "node_filesystem_readonly", AT("/dev/sdb", "/data", "xfs"), 0);
    host_put(&h, "/proc/self/mountinfo", "1 0 8:1 / / ro - ext4 /dev/sda1 ro\n");
    collect_mounts.sample(s, h.t, 2 * SECOND);
    UNKNOWN(&h, "node_filesystem_readonly", AT("/dev/sdb", "/data", "xfs"));
    NEAR(&h, "node_filesystem_readonly", AT("/dev/sda1", "/", "ext4"), 1);
    collect_mounts.close(s);
}

/* ---- a server that does not answer: this fake stands for statvfs() */

static sem_t dead_answers;
static atomic_int dead_asked, alive_asked;

static int fake_statvfs(const char *path, struct statvfs *out)
{
    if (str_starts(path, "/dead")) {
        atomic_fetch_add(&dead_asked, 1);
        while (sem_wait(&dead_answers))
            ;
    }
    if (!strcmp(path, "/gone")) {
        errno = ESTALE;
        return -1;
    }
    atomic_fetch_add(&alive_asked, 1);
    *out = (struct statvfs){ .f_blocks = 42 };
    return 0;
}

static void list_make(struct mounts_answer list[3])
{
    static const char *const paths[] = { "/alive", "/dead", "/gone" };

    for (size_t i = 0; i < 3; i++)
        (void)str_copy(list[i].path, sizeof(list[i].path), paths[i]);
}

/* Turns at real times until the answer is as wanted; what is waited for comes from a thread. */
static int turn_until(struct mounts_probe *a, struct mounts_answer *list, size_t count,
                      size_t which, int want, int64_t ahead_ns)
{
    for (int i = 0; i < 20000; i++) {
        struct timespec ms = { .tv_nsec = 500000 };

        mounts_probe_turn(a, list, count, clock_mono_ns() + ahead_ns);
        if (list[which].rc == want)
            return 1;
        nanosleep(&ms, NULL);
    }
    return 0;
}

TEST(dead_server)
{
    enum { DEADLINE_MS = 60000 };
    struct mounts_probe *a = mounts_probe_new(fake_statvfs, DEADLINE_MS);
    struct mounts_answer list[3] = { 0 };

    assert_int_equal(sem_init(&dead_answers, 0, 0), 0);
    list_make(list);
    mounts_probe_turn(a, list, 3, clock_mono_ns());
    CHECK(list[0].rc == EAGAIN);
    /* the first is answered while the thread hangs in the second */
    CHECK(turn_until(a, list, 3, 0, 0, 0));
    CHECK(list[0].v.f_blocks == 42);
    CHECK(list[1].rc == EAGAIN && list[2].rc == EAGAIN);
    while (!atomic_load(&dead_asked))
        sched_yield();
    /* past the deadline it is stuck, and another thread asks for the rest */
    CHECK(turn_until(a, list, 3, 1, ETIMEDOUT, (DEADLINE_MS + 1) * INT64_C(1000000)));
    CHECK(mounts_probe_stuck(a) == 1);
    CHECK(turn_until(a, list, 3, 2, ESTALE, 0));
    CHECK(list[0].rc == 0 && list[1].rc == ETIMEDOUT);
    CHECK(atomic_load(&dead_asked) == 1); /* never asked again while it hangs */
    /* the server is back */
    atomic_store(&alive_asked, 0);
    sem_post(&dead_answers);
    sem_post(&dead_answers);
    CHECK(turn_until(a, list, 3, 1, 0, 0));
    CHECK(mounts_probe_stuck(a) == 0);
    for (int i = 0; i < 64; i++)
        sem_post(&dead_answers);
    mounts_probe_free(a);
}

/* Each dead one costs a thread; beyond the limit nobody is asked. */
TEST(many_dead_servers)
{
    enum { DEADLINE_MS = 60000, SERVERS = MOUNTS_STUCK_MAX + 2 };
    const int64_t late_ns = (DEADLINE_MS + 1) * INT64_C(1000000);
    struct mounts_probe *a = mounts_probe_new(fake_statvfs, DEADLINE_MS);
    struct mounts_answer list[SERVERS] = { 0 };

    while (!sem_trywait(&dead_answers))
        ;
    for (int i = 0; i < SERVERS; i++)
        snprintf(list[i].path, sizeof(list[i].path), "/dead%d", i);
    CHECK(turn_until(a, list, SERVERS, MOUNTS_STUCK_MAX - 1, ETIMEDOUT, late_ns));
    for (int i = 0; i < 5; i++)
        mounts_probe_turn(a, list, SERVERS, clock_mono_ns() + late_ns);
    CHECK(mounts_probe_stuck(a) == MOUNTS_STUCK_MAX);
    for (int i = 0; i < SERVERS; i++)
        CHECK(list[i].rc == (i < MOUNTS_STUCK_MAX ? ETIMEDOUT : EAGAIN));
    mounts_probe_free(a); /* does not wait for them */
    for (int i = 0; i < SERVERS; i++)
        sem_post(&dead_answers);
}

TEST_MAIN(cmocka_unit_test(lustre_values), cmocka_unit_test(nfs_values),
          cmocka_unit_test(mount_values), cmocka_unit_test(mounts_change),
          cmocka_unit_test(dead_server), cmocka_unit_test(many_dead_servers))
