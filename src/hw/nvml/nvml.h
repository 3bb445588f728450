/* SPDX-License-Identifier: MIT */
/* nvml: the driver's management library, loaded at run time.
 *
 * Whoever calls it does so in a process that may hang or crash: the inventory's child
 * (nvml_query.c) and the GPU collector's (telemetry/gpu/gpu_sample.c).  Nothing else does. */
#ifndef HW_NVML_NVML_H
#define HW_NVML_NVML_H
#include "base/arena.h"
#include "base/err.h"
#include "hw/nvml/nvml_abi.h"

#include <stdbool.h>

enum {
    NVML_GPUS_MAX = 64, /* GPUs of a machine */
    NVML_MIGS_MAX = 64  /* MIG instances of a GPU */
};

/* ---- nvml_load.c ---- */
struct nvml_api {
    const char *soname;              /* the library's own name ("libnvidia-ml.so.1") */
    const char *(*ErrorString)(int); /* NULL when the library has none */
#define NVML_POINTER(name, params) int(*name) params; /* NULL: this driver lacks it */
    NVML_CALLS(NVML_POINTER)
#undef NVML_POINTER
};

/* Loads `lib`, or with NULL the library under its usual name and places.  The
 * library stays loaded.  RC_NODEV when there is none. */
enum rc nvml_load(struct arena *a, const char *lib, struct nvml_api *out, struct err *err) MUST_USE;

#endif
