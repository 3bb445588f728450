/* SPDX-License-Identifier: MIT */
#include "model/files/lfs_int.h"

#include <string.h>

enum rc lfs_pointer_refuse(const void *head, size_t len, struct err *err)
{
    static const char first[] = "version "; /* then the address of the format's description */

    if (len < sizeof(first) - 1 || memcmp(head, first, sizeof(first) - 1))
        return RC_OK;
    err_hint(err, "Run 'git lfs pull' in the folder it came from.");
    return err_set(err, RC_PARSE, "it is a pointer of Git LFS, not the file itself");
}
