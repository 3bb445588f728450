/* SPDX-License-Identifier: MIT */
/* fakenvml: a stand-in for NVIDIA's management library, for tests alone.
 *
 * It answers every function that the program calls from a stoker.nvml/1 document
 * named by FAKE_NVML_JSON: the program's own NVML code asks, and what it writes down
 * must be that document again.  An unknown field is answered "not supported", a
 * failed call of gpu.errors with its code.
 *
 * FAKE_NVML_FAULT makes it misbehave; several faults stand apart by commas:
 *
 *   hang:CALL[:GPU]     never returns
 *   crash:CALL[:GPU]    dies by SIGSEGV
 *   slow:CALL:MS        returns late
 *   rc:CALL:GPU:CODE    returns CODE; GPU "-" for a call that has none
 *   lose:GPU            that GPU is off the bus: 15 for whatever asks it
 *   old                 a driver of 2019: calls and struct versions since then fail
 *
 * A document with a hung call hangs there.
 *
 * FAKE_NVML_LIVE names a second document with what changes by the second: fields, performance
 * counters, processes (live.c says its form).  FAKE_NVML_CONTROL names a file whose faults
 * hold beside those above and are read anew at every call: a test writes and empties it while
 * the program runs, and a hang ends when its fault does.  There, too:
 *
 *   xid:GPU:CODE:NUMBER  an event, once for each number
 *   skew                 library and driver are of two versions: 18 for every call
 *   reload               the driver went away underneath: 1 for every call but the first ones */
#ifndef FAKENVML_H
#define FAKENVML_H
#include "hw/nvml/nvml_int.h"

struct nvml_dev { /* what the library's handles point to */
    const struct hw_gpu *gpu;
    const struct hw_mig *mig; /* NULL: the GPU itself */
    unsigned index;           /* of the GPU */
    unsigned mig_index;
};

enum { FAKE_NO_GPU = -1, FAKE_FAULTS_MAX = 16, FAKE_CODES_MAX = 64 };

enum fake_kind {
    FAKE_HANG,
    FAKE_CRASH,
    FAKE_SLOW,
    FAKE_RC,
    FAKE_LOSE,
    FAKE_OLD,
    FAKE_ALL, /* every call returns the code */
    FAKE_XID
};

struct fake_fault {
    enum fake_kind kind;
    char call[80];
    int gpu;      /* FAKE_NO_GPU: any */
    int arg;      /* code or milliseconds */
    int number;   /* of an event */
    bool control; /* comes from the file */
};

struct fake {
    bool loaded;
    struct arena arena;
    struct hw_nvml doc;
    struct nvml_dev *devs;  /* one a GPU */
    struct nvml_dev **migs; /* an array a GPU */
    struct fake_fault faults[FAKE_FAULTS_MAX];
    size_t faults_count;
    struct nvml_word codes[FAKE_CODES_MAX]; /* texts of codes that the document tells */
    size_t codes_count;
};
extern struct fake fake;

/* live.c: the value of a field now; unknown: ask the other document */
struct maybe fake_live_field(const struct nvml_dev *d, const struct nvml_field_value *f);
struct maybe fake_live_number(const struct nvml_dev *d, const char *key);
/* fault.c: the faults of the control file, as they are now */
void fake_control(void);

/* fault.c */
bool fake_load(void); /* reads both variables; false without a document */
bool fake_is_old(void);
/* What the call must return instead of an answer, NVML_SUCCESS: answer.  `sub` is as in
 * struct nvml_query.  May never return. */
int fake_gate(const char *call, const struct nvml_dev *d, int sub);
int fake_gate_scope(const char *call, const struct nvml_dev *d, int sub, int scope);
int fake_gate_index(const char *call, unsigned index); /* a GPU that has no handle yet */
/* A code whose text is `text`: known, told by the document, or made up. */
int fake_text_code(const char *text);
const char *fake_code_text(int code);

#endif
