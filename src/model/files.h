/* SPDX-License-Identifier: MIT */
/* files: which files a model consists of: name, size, time and number of each.
 *
 * Looked at before and after a load, they tell whether someone wrote there meanwhile; kept,
 * they tell whether what is there now is still what was loaded. */
#ifndef MODEL_FILES_H
#define MODEL_FILES_H
#include "base/err.h"

#include <stdint.h>

enum { MODEL_FILES_MAX = 2048 }; /* files of one model */

struct files;
enum rc files_look(const char *dir, struct files **out, struct err *err) MUST_USE;
void files_free(struct files *f); /* NULL is fine */
/* The name of a file that differs, or NULL; borrowed from either. */
const char *files_differ(const struct files *a, const struct files *b);
uint64_t files_hash(const struct files *f);

#endif
