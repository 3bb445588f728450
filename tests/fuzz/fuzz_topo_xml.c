/* SPDX-License-Identifier: MIT */
/* topo_xml: NCCL's topology files: parsed, and every pair of leaves asked for its distance; read
 * as NCCL's own reader does. */
#include "fuzz.h"

#include "hw/hw_int.h"
#include "hw/topo_xml.h"

#include <stdlib.h>

enum { LEAVES_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a = { 0 };
    struct topo_xml t = { 0 };

    (void)topo_xml_refused(&a, (const char *)data, size);
    if (!topo_xml_parse(&a, (const char *)data, size, &t, NULL)) {
        int n = (int)(t.count < LEAVES_MAX ? t.count : LEAVES_MAX);

        if (t.count > TOPO_XML_NODES_MAX)
            abort();
        for (int i = 0; i < n; i++) {
            if (t.nodes[i].parent >= i) /* parents come first */
                abort();
            (void)topo_xml_int(&t.nodes[i], "dev");
            for (int k = 0; k < n; k++)
                (void)topo_xml_path(&t, i, k);
        }
    }
    arena_release(&a);
    return 0;
}
