/* SPDX-License-Identifier: MIT */
/* data: the CSV files of data/ as bytes of the program.  The paths are relative to
 * the root of the source, where make runs the compiler. */
#include "catalog/data.h"

#define EMBED(sym, path)                                                                           \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global " #sym "_begin\n.hidden " #sym "_begin\n"                                     \
            ".global " #sym "_end\n.hidden " #sym "_end\n" #sym "_begin:\n.incbin \"" path         \
            "\"\n" #sym "_end:\n.byte 0\n.popsection\n")

EMBED(data_nccl_env, "data/nccl_env.csv");
EMBED(data_gpus, "data/gpus.csv");
