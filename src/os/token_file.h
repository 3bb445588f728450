/* SPDX-License-Identifier: MIT */
/* token_file: the bearer token that a file holds, for whoever asks clients for one or sends one. */
#ifndef OS_TOKEN_FILE_H
#define OS_TOKEN_FILE_H
#include "base/err.h"

#include <stddef.h>

enum { TOKEN_FILE_BYTES_MAX = 4096 };

/* Without blanks around it; one that is empty, or that no client could send, is an error. */
enum rc token_file_read(const char *path, char *out, size_t cap, struct err *err) MUST_USE;

#endif
