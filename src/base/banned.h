/* SPDX-License-Identifier: MIT */
/* banned: functions that have no safe use here are compile errors.
 *
 * The Makefile force-includes this file into every C file, after the system
 * headers below, so nobody has to remember it.  Use buf.h for text that grows,
 * snprintf() for text that is bounded, str.h for numbers. */
#ifndef BASE_BANNED_H
#define BASE_BANNED_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BANNED(name) sorry_##name##_is_a_banned_function

#undef strcpy
#define strcpy(d, s) BANNED(strcpy)
#undef strcat
#define strcat(d, s) BANNED(strcat)
#undef strncpy
#define strncpy(d, s, n) BANNED(strncpy)
#undef strncat
#define strncat(d, s, n) BANNED(strncat)
#undef strtok
#define strtok(s, d) BANNED(strtok)
#undef sprintf
#define sprintf(...) BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) BANNED(vsprintf)
#undef gets
#define gets(s) BANNED(gets)
#undef atoi
#define atoi(s) BANNED(atoi)
#undef atol
#define atol(s) BANNED(atol)
#undef atof
#define atof(s) BANNED(atof)
#undef gmtime
#define gmtime(t) BANNED(gmtime)
#undef localtime
#define localtime(t) BANNED(localtime)
#undef ctime
#define ctime(t) BANNED(ctime)
#undef asctime
#define asctime(t) BANNED(asctime)

#endif
