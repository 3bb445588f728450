/* SPDX-License-Identifier: MIT */
/* What a capture must not tell, and what it must still tell. */
#include "hw/capture/capture_mask.h"

#include "base/str.h"
#include "test.h"

#include <arpa/inet.h>

/* Learns all files, then gives each masked. */
struct file {
    const char *path;
    const char *text;
    char *masked; /* owned */
};

static struct mask_counts run_mask(struct file *files, size_t count)
{
    struct mask *m = mask_new();
    struct mask_counts counts;
    struct err err = { 0 };

    for (size_t i = 0; i < count; i++)
        mask_learn(m, files[i].path, files[i].text, strlen(files[i].text));
    assert_int_equal(mask_ready(m, &err), RC_OK);
    for (size_t i = 0; i < count; i++) {
        struct buf io = { 0 };
        buf_adds(&io, files[i].text);
        mask_apply(m, files[i].path, &io);
        files[i].masked = buf_take(&io);
    }
    counts = mask_count(m);
    mask_free(m);
    return counts;
}

static void free_all(struct file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(files[i].masked);
}

#define CHECK_MASK(path_, text_, want_)                                                            \
    do {                                                                                           \
        struct file f_ = { path_, text_, NULL };                                                   \
        run_mask(&f_, 1);                                                                          \
        assert_string_equal(f_.masked ? f_.masked : "", want_);                                    \
        free(f_.masked);                                                                           \
    } while (0)

TEST(mac_addresses_are_numbered)
{
    CHECK_MASK("/sys/class/net/eth0/address", "b8:3f:d2:a1:b2:c4\n", "02:00:00:00:00:01\n");
    CHECK_MASK("/x", "b8:3f:d2:a1:b2:c4 B8:3F:D2:A1:B2:C4 10:70:fd:00:00:01",
               "02:00:00:00:00:01 02:00:00:00:00:01 02:00:00:00:00:02");
    /* nobody's */
    CHECK_MASK("/x", "00:00:00:00:00:00 ff:ff:ff:ff:ff:ff 01:00:5e:00:00:01",
               "00:00:00:00:00:00 ff:ff:ff:ff:ff:ff 01:00:5e:00:00:01");
    /* IPoIB: flags and queue pair stay, the GUID goes */
    CHECK_MASK("/x", "00:00:10:29:fe:80:00:00:00:00:00:00:94:6d:ae:03:00:b2:f5:7c",
               "00:00:10:29:fe:80:00:00:00:00:00:00:02:00:00:00:00:00:00:01");
}

TEST(servers_of_mounts_are_hosts)
{
    CHECK_MASK("/proc/self/mountinfo",
               "35 1 0:35 / /home rw - nfs4 filer.corp.org:/home rw,addr=10.0.0.99\n",
               "35 1 0:35 / /home rw - nfs4 host-1.example:/home rw,addr=10.0.0.99\n");
    CHECK_MASK("/proc/self/mountinfo",
               "1 1 0:1 / /a rw - ceph mon1,mon2:6789:/vol rw\n"
               "2 1 0:2 / /b rw - lustre mgs1@o2ib:mgs2@o2ib:/fs rw\n"
               "3 1 0:3 / /c rw - cifs //winbox/share rw\n"
               "4 1 0:4 / /d rw - fuse.sshfs alice@gate.lan:/srv rw",
               "1 1 0:1 / /a rw - ceph host-1,host-2:6789:/vol rw\n"
               "2 1 0:2 / /b rw - lustre host-3@o2ib:host-4@o2ib:/fs rw\n"
               "3 1 0:3 / /c rw - cifs //host-5/share rw\n"
               "4 1 0:4 / /d rw - fuse.sshfs alice@host-6.example:/srv rw");
    /* no server: what is mounted is here */
    CHECK_MASK("/proc/self/mountinfo", "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:2 / /t rw - x y",
               "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:2 / /t rw - x y");
    CHECK_MASK("/stoker/inventory.json",
               "{\"mounts\": [{\"source\": \"filer:/home\", \"fstype\": \"nfs\"}]}",
               "{\"mounts\": [{\"source\": \"host-1:/home\", \"fstype\": \"nfs\"}]}");
}

TEST(what_looks_like_an_address_is_left_alone)
{
    static const char *const same[] = {
        "0000:1b:00.0",
        "12:34:56",
        "2026-11-15 04:44:37",
        "libcudnn.so.8.9.2.26",
        "8.9.2.26", /* no file of addresses: a version */
        "a:b:c",
        "::",
        "std::vector<int>",
        "cpu:type:x86,ven0000fam0006mod008F:feature:,0000,0001",
        "pci:v000010DEd00002335sv000010DEsd000018BFbc03sc02i00",
        "b8:3f:d2:a1:b2",       /* five pairs */
        "b8:3f:d2:a1:b2:c4:e5", /* seven */
        "xb8:3f:d2:a1:b2:c4",   /* in a word */
        "1:2:3:4:5:6:7:8:9",    /* nine groups */
        "fe80::1::2",           /* no address */
        "00000000-0000-0000-0000-000000000000",
        "",
        ":",
        "::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::",
    };

    for (size_t i = 0; i < ARRAY_SIZE(same); i++)
        CHECK_MASK("/sys/some/file", same[i], same[i]);
}

TEST(uuids_are_numbered)
{
    CHECK_MASK("/stoker/x", "GPU-bb51d70a-b808-8a02-9ee5-511ccc9ba7c0",
               "GPU-00000001-0000-4000-8000-000000000000");
    CHECK_MASK("/x",
               "MIG-BB51D70A-B808-8A02-9EE5-511CCC9BA7C0 bb51d70a-b808-8a02-9ee5-511ccc9ba7c0",
               "MIG-00000001-0000-4000-8000-000000000000 00000001-0000-4000-8000-000000000000");
    /* the first digits alone, as CUDA_VISIBLE_DEVICES allows */
    CHECK_MASK("/x", "GPU-bb51d70a-b808-8a02-9ee5-511ccc9ba7c0 GPU-bb51d70a GPU-12345678",
               "GPU-00000001-0000-4000-8000-000000000000 GPU-00000001 GPU-ffffffff");
    CHECK_MASK("/x", "bb51d70a-b808-8a02-9ee5-511ccc9ba7c", "bb51d70a-b808-8a02-9ee5-511ccc9ba7c");
}

/* ---- addresses keep their subnets ---- */
static unsigned common4(const char *a, const char *b)
{
    uint32_t x, y;
    unsigned n = 0;

    assert_int_equal(inet_pton(AF_INET, a, &x), 1);
    assert_int_equal(inet_pton(AF_INET, b, &y), 1);
    x = ntohl(x);
    y = ntohl(y);
    while (n < 32 && (x ^ y) >> (31 - n) == 0)
        n++;
    return n;
}

TEST(ipv4_keeps_every_common_prefix)
{
    static const char *const addrs[] = {
        "10.1.2.17",  "10.1.2.0",   "10.1.2.254",   "10.1.3.9",    "10.200.0.1",  "10.128.0.0",
        "10.131.4.4", "172.16.5.4", "172.31.255.1", "192.168.7.7", "192.168.0.0", "100.64.3.2",
        "8.8.8.8",    "8.8.4.4",    "130.10.20.30", "130.10.21.1",
    };
    struct file files[ARRAY_SIZE(addrs)];

    for (size_t i = 0; i < ARRAY_SIZE(addrs); i++)
        files[i] = (struct file){ "/proc/self/mountinfo", addrs[i], NULL };
    run_mask(files, ARRAY_SIZE(files));
    for (size_t i = 0; i < ARRAY_SIZE(addrs); i++) {
        /* private ranges stay; public ones go where nobody is */
        bool public = i >= 12;
        CHECK(public ? files[i].masked[0] == '2' && files[i].masked[1] == '4'
                     : !strncmp(files[i].masked, addrs[i], 3));
        for (size_t k = 0; k < i; k++) {
            unsigned before = common4(addrs[i], addrs[k]);
            unsigned after = common4(files[i].masked, files[k].masked);
            if (public && before < 8)
                CHECK(after < 8); /* other networks stay other networks */
            else
                assert_int_equal(before, after);
        }
    }
    assert_string_equal(files[1].masked + strlen(files[1].masked) - 2, ".0");
    assert_string_not_equal(files[0].masked, addrs[0]);
    free_all(files, ARRAY_SIZE(files));
}

TEST(addresses_that_name_nobody_stay)
{
    static const char *const same[] = { "127.0.0.1",   "0.0.0.0",         "255.255.255.0",
                                        "224.0.0.251", "169.254.169.254", "::1",
                                        "ff02::1",     "fe80::1" };

    for (size_t i = 0; i < ARRAY_SIZE(same); i++)
        CHECK_MASK("/proc/mounts", same[i], same[i]);
}

/* Little-endian hex and text are one address. */
TEST(hex_tables_and_text_agree)
{
    struct file files[] = {
        { "/proc/1234/net/route",
          "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n"
          "eth0\t00000000\tFE02010A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
          "eth0\t0002010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
          NULL },
        { "/stoker/self.json",
          "{\"hostname\": \"node7\", \"addrs\": [{\"ifname\": \"eth0\", \"addr\": \"10.1.2.17\"},"
          " {\"addr\": \"10.1.2.254\"}, {\"addr\": \"10.1.2.0\"}]}",
          NULL },
    };
    char want[1024], gw[16], net[16];
    unsigned a, b, c, d;

    run_mask(files, ARRAY_SIZE(files));
    CHECK(!strstr(files[0].masked, "FE02010A"));
    CHECK(strstr(files[0].masked, "\t00FFFFFF\t") != NULL);
    CHECK(strstr(files[0].masked, "eth0\t00000000\t") != NULL);
    assert_int_equal(sscanf(files[0].masked + strlen("Iface\tDestination\tGateway \tFlags\tRefCnt\t"
                                                     "Use\tMetric\tMask\neth0\t00000000\t"),
                            "%2x%2x%2x%2x", &d, &c, &b, &a),
                     4);
    snprintf(gw, sizeof(gw), "%u.%u.%u.%u", a, b, c, d);
    CHECK(strstr(files[1].masked, gw) != NULL);
    assert_int_equal(d, 254);
    snprintf(net, sizeof(net), "%u.%u.%u.0", a, b, c);
    snprintf(want, sizeof(want), "\"addr\": \"%s\"", net);
    CHECK(strstr(files[1].masked, want) != NULL);
    CHECK(strstr(files[1].masked, "\"hostname\": \"host-1\"") != NULL);
    CHECK(strstr(files[1].masked, "eth0") != NULL);
    free_all(files, ARRAY_SIZE(files));
}

TEST(gids_agree_with_addresses)
{
    struct file files[] = {
        { "/sys/class/infiniband/mlx5_0/ports/1/gids/0",
          "fe80:0000:0000:0000:ba3f:d2ff:fea1:b2c4\n", NULL },
        { "/sys/class/infiniband/mlx5_0/ports/1/gids/3",
          "0000:0000:0000:0000:0000:ffff:0a01:0211\n", NULL },
        { "/sys/class/net/eth0/address", "b8:3f:d2:a1:b2:c4\n", NULL },
        { "/stoker/self.json",
          "{\"addrs\": [{\"addr\": \"10.1.2.17\"}, "
          "{\"addr\": \"fe80::ba3f:d2ff:fea1:b2c4\"}]}",
          NULL },
        { "/sys/class/infiniband/mlx5_0/node_guid", "b83f:d203:00a1:b2c4\n", NULL },
        { "/sys/class/infiniband/mlx5_1/ports/1/gids/0",
          "fe80:0000:0000:0000:b83f:d203:00a1:b2c4\n", NULL },
        { "/proc/net/if_inet6", "fe80000000000000ba3fd2fffea1b2c4 02 40 20 80     eth0\n", NULL },
    };
    char quad[64];
    unsigned a, b, c, d;

    run_mask(files, ARRAY_SIZE(files));
    assert_string_equal(files[2].masked, "02:00:00:00:00:01\n");
    assert_string_equal(files[0].masked, "fe80:0000:0000:0000:0000:00ff:fe00:0001\n");
    CHECK(strstr(files[3].masked, "fe80::ff:fe00:1") != NULL);
    assert_string_equal(files[6].masked, "fe8000000000000000000"
                                         "0fffe000001 02 40 20 80     eth0\n");
    assert_string_equal(files[4].masked, "0200:0000:0000:0002\n");
    assert_string_equal(files[5].masked, "fe80:0000:0000:0000:0200:0000:0000:0002\n");
    assert_int_equal(
        sscanf(files[1].masked, "0000:0000:0000:0000:0000:ffff:%2x%2x:%2x%2x", &a, &b, &c, &d), 4);
    snprintf(quad, sizeof(quad), "\"%u.%u.%u.%u\"", a, b, c, d);
    CHECK(strstr(files[3].masked, quad) != NULL);
    assert_int_equal(d, 0x11);
    free_all(files, ARRAY_SIZE(files));
}

TEST(ipv6_keeps_prefixes)
{
    struct file files[] = {
        { "/stoker/self.json",
          "{\"addrs\": [{\"addr\": \"fd12:3456:789a:1::17\"}, {\"addr\": \"fd12:3456:789a:1::\"},"
          " {\"addr\": \"2a01:4f8:10a:2b::5\"}, {\"addr\": \"2a01:4f8:10a:2c::5\"}]}",
          NULL },
        { "/proc/net/ipv6_route",
          "fd123456789a00010000000000000000 40 00000000000000000000000000000000 00 "
          "fe80000000000000ba3fd2fffea1b2c4 00000400 00000001 00000000 00000001     eth0\n"
          "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
          "00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n",
          NULL },
    };
    uint8_t host[16], net[16], g1[16], g2[16];
    char h[64], n[64], x[64], y[64], hex[33];

    run_mask(files, ARRAY_SIZE(files));
    assert_int_equal(sscanf(files[0].masked,
                            "{\"addrs\": [{\"addr\": \"%63[^\"]\"}, {\"addr\": \"%63[^\"]\"}, "
                            "{\"addr\": \"%63[^\"]\"}, {\"addr\": \"%63[^\"]\"}",
                            h, n, x, y),
                     4);
    assert_int_equal(inet_pton(AF_INET6, h, host), 1);
    assert_int_equal(inet_pton(AF_INET6, n, net), 1);
    assert_int_equal(inet_pton(AF_INET6, x, g1), 1);
    assert_int_equal(inet_pton(AF_INET6, y, g2), 1);
    CHECK(host[0] == 0xfd && !memcmp(host, net, 8));
    CHECK(memcmp(host, "\xfd\x12\x34\x56", 4) != 0);
    CHECK(host[15] == 0x17 && net[15] == 0 && net[8] == 0);
    CHECK(g1[0] == 0xfc && !memcmp(g1, g2, 6) && memcmp(g1, g2, 8) != 0);
    for (size_t i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", net[i]);
    CHECK(!strncmp(files[1].masked, hex, 32));
    CHECK(strstr(files[1].masked, "00000000000000000000000000000000 00 0") != NULL);
    free_all(files, ARRAY_SIZE(files));
}

TEST(host_names_go_as_tokens)
{
    struct file files[] = {
        { "/proc/sys/kernel/hostname", "dgx07.cluster.corp\n", NULL },
        { "/a", "dgx07 mlx5_0 dgx07.cluster.corp dgx071 xdgx07 my-dgx07 dgx07-x (dgx07)", NULL },
        { "/stoker/inventory.json",
          "{\"dgx07\": 1, \"hostname\": \"dgx07.cluster.corp\", \"env\": [{\"name\": "
          "\"SLURM_JOB_NODELIST\", \"value\": \"gpu[01-04,7],big1\"}]}",
          NULL },
    };

    run_mask(files, ARRAY_SIZE(files));
    assert_string_equal(files[0].masked, "host-1.example\n");
    assert_string_equal(files[1].masked,
                        "host-1 mlx5_0 host-1.example dgx071 xdgx07 my-dgx07 dgx07-x (host-1)");
    CHECK(strstr(files[2].masked, "{\"dgx07\": 1") != NULL); /* a member's name */
    CHECK(strstr(files[2].masked, "\"value\": \"host-3[01-04,7],host-4\"") != NULL);
    free_all(files, ARRAY_SIZE(files));
}

/* A host called like a driver would break the replay: such a name tells nothing. */
TEST(a_name_that_is_also_a_file_stays)
{
    struct file files[] = {
        { "/proc/sys/kernel/hostname", "nvidia\n", NULL },
        { "/proc/driver/nvidia/version", "NVRM nvidia 580\n", NULL },
        { "/etc/hostname", "localhost\n", NULL },
        { "/etc/x", "10\n", NULL },
    };
    struct mask_counts c = run_mask(files, ARRAY_SIZE(files));

    assert_string_equal(files[0].masked, "nvidia\n");
    assert_string_equal(files[1].masked, "NVRM nvidia 580\n");
    assert_string_equal(files[2].masked, "localhost\n");
    assert_int_equal(c.names, 0);
    free_all(files, ARRAY_SIZE(files));
}

TEST(serial_numbers)
{
    struct file files[] = {
        { "/sys/class/dmi/id/product_serial", "S412345X0901234\n", NULL },
        { "/sys/class/dmi/id/board_serial", "Not Specified\n", NULL },
        { "/stoker/nvml.json",
          "{\"gpus\": [{\"serial\": \"1650323012345\", \"x\": "
          "\"Not Specified\"}, {\"serial\": null}, {\"serial\": \"000000\"}]}",
          NULL },
        { "/y", "S412345X0901234 1650323012345 16503230123456", NULL },
    };
    struct mask_counts c = run_mask(files, ARRAY_SIZE(files));

    assert_string_equal(files[0].masked, "000000000000001\n");
    assert_string_equal(files[1].masked, "Not Specified\n");
    CHECK(strstr(files[2].masked, "\"serial\": \"0000000000002\"") != NULL);
    CHECK(strstr(files[2].masked, "\"000000\"") != NULL);
    CHECK(strstr(files[3].masked, "16503230123456") != NULL);
    CHECK(!strstr(files[3].masked, "1650323012345 "));
    assert_int_equal(c.serials, 2);
    free_all(files, ARRAY_SIZE(files));
}

TEST(versions_in_the_environment_are_no_addresses)
{
    struct file f = { "/stoker/self.json",
                      "{\"env\": [{\"name\": \"NV_CUDNN_VERSION\", \"value\": \"8.9.2.26\"}, "
                      "{\"name\": \"MASTER_ADDR\", \"value\": \"10.9.9.9\"}]}",
                      NULL };

    run_mask(&f, 1);
    CHECK(strstr(f.masked, "8.9.2.26") != NULL);
    CHECK(!strstr(f.masked, "10.9.9.9"));
    free(f.masked);
}

TEST(addresses_stand_in_many_places)
{
    struct file f = { "/proc/self/mountinfo",
                      "36 35 98:0 / /data rw - nfs4 10.8.24.5:/training rw,addr=10.8.24.5\n"
                      "37 35 98:0 / /fs rw - lustre 10.1.1.1@o2ib,10.1.1.2@o2ib:/fs rw\n"
                      "38 35 98:0 / /v6 rw - nfs4 [fd00:1::5]:/x rw,addr=fd00:1::5,clientaddr:"
                      "10.8.24.6.\n",
                      NULL };

    run_mask(&f, 1);
    CHECK(!strstr(f.masked, "10.8.24") && !strstr(f.masked, "10.1.1.") &&
          !strstr(f.masked, "fd00:1::5"));
    CHECK(strstr(f.masked, "@o2ib:/fs rw\n") != NULL);
    CHECK(strstr(f.masked, "]:/x rw,addr=fd") != NULL);
    free(f.masked);
}

TEST(pci_configuration_loses_its_serial_number)
{
    struct mask *m = mask_new();
    struct buf io = { 0 };
    struct err err = { 0 };
    unsigned char config[4096] = { 0xde, 0x10 };

    config[0x100] = 0x03; /* device serial number, next at 0x148 */
    config[0x102] = 0x81;
    config[0x103] = 0x14;
    memset(config + 0x104, 0xab, 8);
    config[0x148] = 0x0d; /* ACS, the last */
    config[0x14a] = 0x01;
    config[0x14e] = 0x5f;
    mask_learn(m, "/sys/bus/pci/devices/0000:00:00.0/config", (char *)config, sizeof(config));
    assert_int_equal(mask_ready(m, &err), RC_OK);
    buf_add(&io, config, sizeof(config));
    mask_apply(m, "/sys/bus/pci/devices/0000:00:00.0/config", &io);
    assert_int_equal(io.len, sizeof(config));
    memset(config + 0x104, 0, 8);
    assert_memory_equal(io.data, config, sizeof(config));
    /* a list of capabilities that bites its tail, and one that is cut */
    config[0x14b] = 0x10;
    config[0x14a] = 0x01;
    buf_reset(&io);
    buf_add(&io, config, sizeof(config));
    mask_apply(m, "/x/config", &io);
    buf_reset(&io);
    buf_add(&io, config, 0x105);
    mask_apply(m, "/x/config", &io);
    assert_int_equal(io.len, 0x105);
    buf_release(&io);
    mask_free(m);
}

TEST(nasty_bytes_do_no_harm)
{
    static const char *const paths[] = { "/proc/net/route",
                                         "/proc/net/ipv6_route",
                                         "/x.json",
                                         "/proc/net/if_inet6",
                                         "/sys/x/serial",
                                         "/config",
                                         "/a" };
    static const char *const texts[] = {
        "{\"hostname\": \"\xff\xfe\"}",
        "{",
        "\t\t\t\t\n\n\n",
        "0102030405060708",
        "\xc3\x28:::::",
        "....::::....",
        "GPU-",
        "GPU-zzzzzzzz",
        "fe80::%eth0",
        "1.2.3.4.5.6.7.8",
        "\"\":\"\"",
        "{\"serial\": \"\", \"hostname\": \",,,[[,\", \"addr\": 5}",
    };

    for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
        for (size_t k = 0; k < ARRAY_SIZE(texts); k++) {
            struct file f = { paths[i], texts[k], NULL };
            run_mask(&f, 1);
            free(f.masked);
        }
}

TEST_MAIN(cmocka_unit_test(mac_addresses_are_numbered),
          cmocka_unit_test(servers_of_mounts_are_hosts),
          cmocka_unit_test(what_looks_like_an_address_is_left_alone),
          cmocka_unit_test(uuids_are_numbered), cmocka_unit_test(ipv4_keeps_every_common_prefix),
          cmocka_unit_test(addresses_that_name_nobody_stay),
          cmocka_unit_test(hex_tables_and_text_agree), cmocka_unit_test(gids_agree_with_addresses),
          cmocka_unit_test(ipv6_keeps_prefixes), cmocka_unit_test(host_names_go_as_tokens),
          cmocka_unit_test(a_name_that_is_also_a_file_stays), cmocka_unit_test(serial_numbers),
          cmocka_unit_test(versions_in_the_environment_are_no_addresses),
          cmocka_unit_test(addresses_stand_in_many_places),
          cmocka_unit_test(pci_configuration_loses_its_serial_number),
          cmocka_unit_test(nasty_bytes_do_no_harm))
