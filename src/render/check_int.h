/* SPDX-License-Identifier: MIT */
#ifndef RENDER_CHECK_INT_H
#define RENDER_CHECK_INT_H
#include "render/render.h"

void render_check_hosts(struct render *r);  /* check_hosts.c: machines and switches */
void render_check_images(struct render *r); /* check_image.c */

#endif
