/* SPDX-License-Identifier: MIT */
/* systemd_int: between the files of the systemd target. */
#ifndef RENDER_SYSTEMD_SYSTEMD_INT_H
#define RENDER_SYSTEMD_SYSTEMD_INT_H
#include "render/host/host_int.h"

/* Where install.sh puts the specs that the units read. */
#define UNIT_ETC "/etc/stoker"

struct systemd_unit { /* a unit file that is being written */
    struct render *r;
    const struct host_plan *plan;
    struct buf *out;
};

/* --- text, systemd_text.c: quoting by systemd.syntax(7) and systemd.service(5) --- */
/* A word of ExecStart=: specifiers (%) and variables ($) are taken from it, so that the program
 * gets the text as it is. */
void unit_exec_word(struct buf *out, const char *s);
/* A word of Environment=, ReadWritePaths= and other lists: there $ means itself. */
void unit_list_word(struct buf *out, const char *s);
/* "KEY=value" of a key that takes the line as it is (WorkingDirectory=, Description=); refused at
 * `member` where a line cannot hold the text. */
void unit_text(struct systemd_unit *u, const char *key, const char *value, const void *member);
/* A line, with where the value of `member` comes from above it (NULL: nothing to say). */
void unit_line(struct systemd_unit *u, const void *member, const char *fmt, ...) PRINTF_LIKE(3, 4);
void unit_section(struct systemd_unit *u, const char *name);
/* May systemd take it for a user or group?  Names, or numbers. */
bool unit_user_ok(const char *s);
/* User= and Group=: those of the component ("name", "1000:1000") or of the target. */
void unit_user(struct systemd_unit *u, const struct spec_component *c);

/* --- file systems of the network, systemd_mounts.c: RequiresMountsFor= --- */
/* The storage of that kind on which the path lies; NULL: none. */
const struct spec_storage *systemd_share_of(const struct spec *s, const char *path);
void unit_needs_own(struct systemd_unit *u, bool agent, bool server);
void unit_needs_component(struct systemd_unit *u, const struct host_run *run);

/* --- what units have in common, systemd_common.c --- */
enum unit_hard {
    UNIT_HARD_OWN,      /* our own program, without GPU memory: every lock */
    UNIT_HARD_ENGINE,   /* our own program, which loads CUDA */
    UNIT_HARD_COMPONENT /* somebody's: what it may call is not restricted */
};
void unit_harden(struct systemd_unit *u, enum unit_hard how, bool rdma);
/* Behind unit_harden(): a port below 1024 is bound with a capability, which no user has there. */
void unit_low_port(struct systemd_unit *u, const int64_t *port);
/* StateDirectory=, LogsDirectory=, or paths that are writable, of state_dir and log_dir. */
void unit_dirs(struct systemd_unit *u, const char *below);
/* The folder of files and batches of that server: made by systemd below /var/lib, else it has to be
 * there. */
void unit_batch_dir(struct systemd_unit *u, const struct host_run *run);
void unit_watchdog(struct systemd_unit *u);

/* --- units of components, systemd_component.c --- */
void unit_name_of(const struct host_run *run, char *out, size_t cap);
/* Gives each run that names no machine one of the site's, where there are several. */
void systemd_place(struct render *r, struct host_plan *p);
/* The shortest name of a run's machine that no other of the site has; false: its unit starts on
 * any. */
bool systemd_host_name(const struct spec *s, const struct host_run *run, char *out, size_t cap);
void systemd_component(struct render *r, const struct host_plan *p, const struct host_run *run);

#endif
