/* SPDX-License-Identifier: MIT */
#include "os/net/address.h"

#include "base/str.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

bool address_is_loopback(const struct sockaddr *a)
{
    const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;

    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->sa_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127));
}

bool address_text_is_loopback(const char *host)
{
    struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
    struct sockaddr_in four = { .sin_family = AF_INET };

    if (inet_pton(AF_INET6, host, &six.sin6_addr) == 1)
        return address_is_loopback((const struct sockaddr *)&six);
    if (!strpbrk(host, " \t\n\v\f\r") && inet_aton(host, &four.sin_addr)) /* it ends at a blank */
        return address_is_loopback((const struct sockaddr *)&four);
    return str_eq(host, "localhost");
}
