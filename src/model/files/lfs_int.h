/* SPDX-License-Identifier: MIT */
/* lfs: a folder that was cloned without Git LFS has pointers, files of three lines, where the
 * large ones should be: weights, but tokenizer.json and an index of weights too.  Whoever reads a
 * file of a model asks here before it calls the content wrong. */
#ifndef MODEL_FILES_LFS_INT_H
#define MODEL_FILES_LFS_INT_H
#include "base/err.h"

#include <stddef.h>

/* RC_OK, or the fault where `head`, a file's beginning, is such a pointer's. */
enum rc lfs_pointer_refuse(const void *head, size_t len, struct err *err) MUST_USE;

#endif
