/* SPDX-License-Identifier: MIT */
/* address: does it lead to this machine only?
 *
 * Who listens on such an address needs no token, who asks there needs no certificate: so there is
 * one answer for the server, the agent, the spec's checks and what is rendered of it.  It never
 * looks a name up. */
#ifndef OS_NET_ADDRESS_H
#define OS_NET_ADDRESS_H
#include <stdbool.h>

struct sockaddr;

/* 127.0.0.0/8, also as IPv6 writes it (::ffff:127.0.0.1), and ::1.  Other families: false. */
bool address_is_loopback(const struct sockaddr *a);
/* The same of a text as it stands in options: a number in any form that can be listened on
 * ("127.1"), or "localhost".  Other names are false, "127.example.org" too. */
bool address_text_is_loopback(const char *host);

#endif
