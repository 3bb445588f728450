/* SPDX-License-Identifier: MIT */
/* nccl_picture: the picture of the machine with the ports that NCCL uses there. */
#include "hw/print/hw_print.h"
#include "nccl/nccl.h"

void nccl_picture(const struct hw *hw, struct buf *out)
{
    struct nccl_choice c = { 0 };
    struct hw_picture_marks marks = { 0 };
    struct hw_picture_port *ports;

    nccl_choose(hw, &c);
    ports = arena_array(&c.arena, struct hw_picture_port, c.ports_count + 1);
    for (size_t i = 0; i < c.ports_count; i++)
        if (c.ports[i].used)
            ports[marks.count++] =
                (struct hw_picture_port){ .dev = c.ports[i].dev, .port = c.ports[i].port };
    marks.items = ports;
    hw_picture(hw, &marks, out);
    nccl_choice_release(&c);
}
