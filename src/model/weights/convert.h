/* SPDX-License-Identifier: MIT */
/* convert: a folder's pytorch_model.bin as safetensors. */
#ifndef MODEL_WEIGHTS_CONVERT_H
#define MODEL_WEIGHTS_CONVERT_H
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* pytorch_model.bin of `dir`, or the shards of pytorch_model.bin.index.json, become its
 * model.safetensors; *out_count: tensors written.  `progress` may be NULL. */
enum rc torch_convert(const char *dir, size_t *out_count,
                      void (*progress)(uint64_t done, uint64_t total), struct err *err) MUST_USE;
/* Whether `dir` has something to convert. */
bool torch_found(const char *dir);

#endif
