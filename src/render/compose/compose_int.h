/* SPDX-License-Identifier: MIT */
/* compose_int: between the files of the compose target. */
#ifndef RENDER_COMPOSE_COMPOSE_INT_H
#define RENDER_COMPOSE_COMPOSE_INT_H
#include "render/host/host_int.h"

struct compose { /* a compose file that is being written */
    struct render *r;
    const struct host_plan *plan;
    struct yaml_out y;
    struct arena arena;
    bool mps; /* an MPS daemon runs beside the components */
};

/* Text in which compose replaces nothing: $ is written $$. */
const char *compose_text(struct compose *k, const char *s);
void compose_str(struct compose *k, const char *key, const char *value, const void *member);

/* Is it a client of the MPS daemon? */
bool compose_is_client(const struct compose *k, const struct host_run *run);
/* Bytes of /dev/shm; unknown: docker's own. */
struct maybe compose_shm(const struct compose *k, const struct spec_component *c);

/* Does no component name compose?  Then those of local and systemd are in the file. */
bool compose_is_fallback(const struct spec *s);
bool (*compose_takes(const struct spec *s))(const struct spec_component *c);

/* --- compose_service.c --- */
/* Has its server, or whatever it runs, a port on the machine? */
bool compose_publishes(const struct spec *s, const struct spec_component *c);
void compose_service(struct compose *k, const struct host_run *run);
void compose_log_limits(struct compose *k);
/* --- compose_mounts.c --- */
void compose_mounts(struct compose *k, const struct host_run *run);
/* Of one server's files and batches, on the machine; and the options of install(1) that give a
 * folder to who the container runs as: none where that is a name, which is its image's. */
const char *compose_batch_dir(struct compose *k, const struct host_run *run);
const char *compose_folder_owner(struct compose *k, const char *user);
/* Volumes that the file itself declares. */
void compose_volumes(struct compose *k);

#endif
