/* SPDX-License-Identifier: MIT */
/* embed: a file of the source tree as bytes of the program.
 *
 * EMBED(name, "data/x.csv") at file scope defines `const char name[]`, followed by a
 * NUL, and `const uint64_t name_len` without it.  The assembler reads the file, so the
 * path is relative to the root of the source, where make runs the compiler, and the
 * Makefile must name the dependency. */
#ifndef BASE_EMBED_H
#define BASE_EMBED_H
#include <stdint.h>

#define EMBED(name, path)                                                                          \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global " #name "\n.hidden " #name "\n"                                               \
            ".global " #name "_len\n.hidden " #name "_len\n"                                       \
            ".balign 16\n" #name ":\n.incbin \"" path "\"\n"                                       \
            "9: .byte 0\n.balign 8\n" #name "_len: .quad 9b - " #name "\n.popsection\n");          \
    extern const char name[];                                                                      \
    extern const uint64_t name##_len

#endif
