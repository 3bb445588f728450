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

/* ---- nvml_words.c: the library's numbers as words ---- */
struct nvml_word {
    int code;
    const char *word; /* NULL ends a table */
};
extern const struct nvml_word nvml_brands[], nvml_archs[], nvml_compute_modes[],
    nvml_virtualizations[], nvml_recoveries[], nvml_fabric_states[], nvml_addressings[],
    nvml_link_ends[], nvml_p2p_states[];

/* The word, or "code N" (in the arena) for a number that the table lacks. */
const char *nvml_word(struct arena *a, const struct nvml_word *table, int code);
/* The number of a word that nvml_word() gave; false for anything else. */
bool nvml_code(const struct nvml_word *table, const char *word, int *out);

enum { NVML_BDF_MAX = 24 };
/* "00000000:1B:00.0" to sysfs's "0000:1b:00.0"; false when it is no address, and for
 * all ones, the driver's way to say none. */
bool nvml_bdf(const char *text, char out[NVML_BDF_MAX]);

#endif
