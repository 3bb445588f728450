/* SPDX-License-Identifier: MIT */
/* Masking: the first byte picks what kind of file the rest is; it is learned from and
 * rewritten.  Rewriting twice with the same numbers must not fail either. */
#include "fuzz.h"

#include "base/attr.h"
#include "hw/capture/capture_mask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = { "/proc/net/route",    "/proc/net/ipv6_route",
                                         "/proc/net/if_inet6", "/stoker/self.json",
                                         "/proc/mounts",       "/sys/x/config",
                                         "/etc/hostname",      "/sys/x/product_serial" };
    const char *path = size ? paths[data[0] % (ARRAY_SIZE(paths))] : "/";
    struct buf io = { 0 };
    struct err err = { 0 };
    struct mask *m;

    if (size < 1)
        return 0;
    m = mask_new();
    mask_learn(m, path, (const char *)data + 1, size - 1);
    if (!mask_ready(m, &err)) {
        buf_add(&io, data + 1, size - 1);
        mask_apply(m, path, &io);
        mask_apply(m, path, &io);
    }
    buf_release(&io);
    mask_free(m);
    return 0;
}
