/* SPDX-License-Identifier: MIT */
/* k8s_launch: what the launch scripts of Kubernetes and OpenShift share.  They are files of data/
 * that read data/render/hold.sh; what is rendered has its text in their place. */
#include "base/buf.h"
#include "base/embed.h"
#include "render/k8s/k8s_int.h"

#include <assert.h>
#include <string.h>

EMBED(k8s_hold, "data/render/hold.sh");

void k8s_launch_script(struct buf *out, const char *script)
{
    static const char reads[] = "# shellcheck source=data/render/hold.sh\n. \"${0%/*}/hold.sh\"\n";
    const char *at = strstr(script, reads);

    assert(at);
    buf_add(out, script, (size_t)(at - script));
    buf_adds(out, k8s_hold);
    buf_adds(out, at + strlen(reads));
}
