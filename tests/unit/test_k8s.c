/* SPDX-License-Identifier: MIT */
/* Names, quantities, labels and releases as Kubernetes takes them. */
#include "test.h"

#include "render/k8s/k8s_int.h"

TEST(names_are_dns_labels_that_start_with_a_letter)
{
    static const char long_a[] = "a23456789-123456789-123456789-123456789-123456789-x";
    static const char long_b[] = "a23456789-123456789-123456789-123456789-123456789-y";
    struct k8s k = { 0 };

    assert_string_equal(k8s_name(&k, "world_model", ""), "world-model");
    assert_string_equal(k8s_name(&k, "70b", "-spec"), "n70b-spec");
    CHECK(strlen(k8s_name(&k, long_a, "-spec")) <= K8S_NAME_CUT);
    CHECK(strcmp(k8s_name(&k, long_a, ""), k8s_name(&k, long_b, "")) != 0);
    assert_string_equal(k8s_name(&k, long_a, ""), k8s_name(&k, long_a, ""));
    k8s_release(&k);
}

TEST(quantities_are_exact)
{
    static const struct {
        int64_t bytes;
        const char *want;
    } rows[] = {
        { INT64_C(32) << 30, "32Gi" },
        { INT64_C(1536) << 20, "1536Mi" },
        { 768000000000, "768G" },
        { 1500000000, "1500M" },
        { 1, "1" },
        { 0, "0" },
        { INT64_MAX, "9223372036854775807" },
    };
    char got[32];

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        k8s_quantity(got, sizeof(got), rows[i].bytes);
        assert_string_equal(got, rows[i].want);
    }
}

TEST(words_that_the_kubelet_would_expand_are_doubled)
{
    static const char *const rows[][2] = {
        { "plain", "plain" }, { "$HOME", "$HOME" },         { "$(HOME)", "$$(HOME)" },
        { "$$", "$$$$" },     { "$a $(b)", "$$a $$(b)" },   { "cost $", "cost $" },
        { "", "" },           { "$$(HOME)", "$$$$(HOME)" },
    };
    struct k8s k = { 0 };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_string_equal(k8s_verbatim(&k, rows[i][0]), rows[i][1]);
    k8s_release(&k);
}

TEST(labels)
{
    static const char *const good[] = { "", "a", "A-b_c.9", "535.104" };
    static const char *const bad[] = { "-a", "a-", "a b", "a/b", "\xc3\xa9", "a\n" };
    char full[65];

    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        CHECK(k8s_label_value_ok(good[i]));
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        CHECK(!k8s_label_value_ok(bad[i]));
    memset(full, 'a', 64);
    full[64] = '\0';
    CHECK(!k8s_label_value_ok(full));
    full[63] = '\0';
    CHECK(k8s_label_value_ok(full));
    CHECK(k8s_label_key_ok("nvidia.com/gpu.present") && k8s_label_key_ok("node-type"));
    CHECK(!k8s_label_key_ok("") && !k8s_label_key_ok("a/") && !k8s_label_key_ok("/a"));
    CHECK(!k8s_label_key_ok("A.b/c") && !k8s_label_key_ok("a..b/c") && !k8s_label_key_ok("a/b/c"));
}

TEST(names_of_ports)
{
    static const struct spec_port ports[] = {
        { .name = "http", .port = 80 },
        { .name = "a-very-long-port-name", .port = 65535 },
        { .name = "8080", .port = 8080 },
        { .name = "a__b", .port = 1 },
    };
    static const char *const want[] = { "http", "port-65535", "port-8080", "port-1" };
    char got[16];

    for (size_t i = 0; i < sizeof(ports) / sizeof(*ports); i++) {
        k8s_port_name(ports, i, got);
        assert_string_equal(got, want[i]);
    }
}

TEST(comments_hold_no_line_break_of_any_yaml)
{
    CHECK(k8s_comment_ok("a # b: 'c'") && k8s_comment_ok("\xe2\x80\xa6"));
    CHECK(!k8s_comment_ok("a\nb") && !k8s_comment_ok("a\xe2\x80\xa8") &&
          !k8s_comment_ok("\xc2\x85"));
}

TEST(features_come_with_their_release_and_stay)
{
    struct k8s k = { .minor = K8S_MINOR_MIN };
    int minor = 0;

    for (size_t i = 0; i < K8S_FEATURE_COUNT; i++) {
        CHECK(k8s_feature_at(i, &minor) && minor > K8S_MINOR_MIN && minor <= K8S_MINOR_MAX);
        k.minor = minor - 1;
        CHECK(!k8s_has(&k, (enum k8s_feature)i));
        k.minor = K8S_MINOR_MAX;
        CHECK(k8s_has(&k, (enum k8s_feature)i));
    }
    CHECK(!k8s_feature_at(K8S_FEATURE_COUNT, &minor));
}

TEST_MAIN(cmocka_unit_test(names_are_dns_labels_that_start_with_a_letter),
          cmocka_unit_test(quantities_are_exact),
          cmocka_unit_test(words_that_the_kubelet_would_expand_are_doubled),
          cmocka_unit_test(labels), cmocka_unit_test(names_of_ports),
          cmocka_unit_test(comments_hold_no_line_break_of_any_yaml),
          cmocka_unit_test(features_come_with_their_release_and_stay))
