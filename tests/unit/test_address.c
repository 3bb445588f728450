/* SPDX-License-Identifier: MIT */
/* Which addresses lead to this machine only, as text and as the kernel has them. */
#include "test.h"

#include "os/net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static const struct {
    const char *text;
    bool loopback;
} cases[] = {
    { "127.0.0.1", true },
    { "127.9.9.9", true },
    { "127.255.255.255", true },
    { "127.1", true }, /* getaddrinfo() takes it, and so it can be listened on */
    { "::1", true },
    { "0:0:0:0:0:0:0:1", true },
    { "::ffff:127.0.0.1", true },
    { "localhost", true },
    { "", false },
    { "0.0.0.0", false },
    { "::", false },
    { "10.0.0.1", false },
    { "::ffff:10.0.0.1", false },
    { "::127.0.0.1", false }, /* not the mapped form */
    { "1270.0.0.1", false },
    { "127.example.org", false }, /* a name that anybody can own */
    { "127.0.0.1.example.org", false },
    { "127.0.0.1 example.org", false },
    { "localhost.example.org", false },
    { "gpu7", false },
    { "unix:/run/x", false },
};

TEST(texts)
{
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        if (address_text_is_loopback(cases[i].text) != cases[i].loopback)
            fail_msg("'%s' should%s be loopback", cases[i].text, cases[i].loopback ? "" : " not");
}

TEST(sockets)
{
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct sockaddr_in four = { .sin_family = AF_INET };
        struct sockaddr_in6 six = { .sin6_family = AF_INET6 };

        if (inet_pton(AF_INET, cases[i].text, &four.sin_addr) == 1)
            CHECK(address_is_loopback((struct sockaddr *)&four) == cases[i].loopback);
        if (inet_pton(AF_INET6, cases[i].text, &six.sin6_addr) == 1)
            CHECK(address_is_loopback((struct sockaddr *)&six) == cases[i].loopback);
    }
    CHECK(!address_is_loopback(&(struct sockaddr){ .sa_family = AF_UNIX }));
    CHECK(!address_is_loopback(&(struct sockaddr){ .sa_family = AF_UNSPEC }));
}

TEST_MAIN(cmocka_unit_test(texts), cmocka_unit_test(sockets))
