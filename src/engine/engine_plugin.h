/* SPDX-License-Identifier: MIT */
/* engine_plugin: what stoker and a device that comes as a shared object say to each other.
 *
 * A device "NAME" or "NAME:3" that is not compiled in is looked for as stoker-NAME.so in the
 * plug-in folders (plugin.h).  The object links nothing of ours: it is handed `struct eng_host`,
 * the functions it may call, and hands back its `struct eng_ops`, both good for the life of the
 * process.  It is built with the headers of the same source; STOKER_ENGINE_ABI is of their layout,
 * and a program that finds another number uses nothing else of the object.
 *
 * An engine runs in the process that asked for it, or in a worker of that device alone
 * (worker.h): load(), memory() and describe() are called by one thread, everything that runs
 * batches by another. */
#ifndef ENGINE_ENGINE_PLUGIN_H
#define ENGINE_ENGINE_PLUGIN_H
#include "engine/engine_int.h"

struct eng_host {
    enum rc (*fail)(struct err *err, enum rc code, const char *fmt, ...); /* err_set() */
    void (*hint)(struct err *err, const char *fmt, ...);                  /* err_hint() */
    void *(*alloc)(size_t count, size_t size); /* zeros, never NULL; for free() */
    const struct eng_ops *ref, *cpu;
    struct eng_shape (*weight_shape)(const struct model *m, enum model_role role);
    enum rc (*weight)(const struct model *m, enum model_role role, size_t layer, float *out,
                      size_t count, struct err *err);
    enum rc (*dense_weight)(const struct model *m, size_t i, float *w, float *bias,
                            struct err *err);
    /* A tensor as it lies in the file, for those who convert it elsewhere; any thread. */
    enum rc (*weight_tensor)(const struct model *m, enum model_role role, size_t layer,
                             const struct st_tensor **out, struct err *err);
    enum rc (*tensor_bytes)(const struct model *m, const struct st_tensor *t, uint64_t first,
                            uint64_t count, void *out, struct err *err);
    enum rc (*tensor_f32)(const struct model *m, const struct st_tensor *t, uint64_t first,
                          uint64_t count, float *out, struct err *err);
    enum rc (*rel_bias)(const struct model *m, float *out, struct err *err);
    void (*positions)(const struct model *m, const uint32_t *ids, size_t count, uint32_t *out);
    enum rc (*tail_load)(const struct model *m, struct eng_tail **out, struct err *err);
    void (*tail_free)(struct eng_tail *t);
    uint64_t (*tail_bytes)(const struct model *m);
    size_t (*tail_room)(const struct model *m);
    void (*tail_run)(const struct eng_tail *t, enum eng_want want, const struct eng_rows *r,
                     float *room, float *out);
};

/* Counted by hand where a function changes, and by itself where a struct grows: a plug-in of
 * yesterday reads a model of today at the wrong places, and gives wrong vectors without a word. */
#define STOKER_ENGINE_ABI                                                                          \
    ((int)(4000000 +                                                                               \
           (sizeof(struct model) + 37 * sizeof(struct eng_batch) + 41 * sizeof(struct eng_opts) +  \
            43 * sizeof(struct eng_ops) + 47 * sizeof(struct eng) + 53 * sizeof(struct eng_host) + \
            59 * sizeof(struct eng_rows) + 61 * sizeof(struct err)) %                              \
               1000000))

int stoker_engine_abi(void);
/* NULL: it has no engine. */
const struct eng_ops *stoker_engine(const struct eng_host *host);

#endif
