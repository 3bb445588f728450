/* SPDX-License-Identifier: MIT */
/* systemd_common: folders, the watchdog and the locks that units have in common.
 *
 * What is left open, and why: the GPUs' and the RDMA devices' nodes (the work), netlink (the
 * system's list of interfaces), the host's processes (the agent says whose a process is), writable
 * and executable memory (CUDA compiles kernels), home folders for reading (the agent measures file
 * systems). */
#include "base/str.h"
#include "render/systemd/systemd_int.h"

/* Every unit has these. */
static const char ALL[] = "NoNewPrivileges=yes\n"
                          "ProtectSystem=strict\n"
                          "ProtectHome=read-only\n"
                          "PrivateTmp=yes\n"
                          "ProtectControlGroups=yes\n"
                          "ProtectKernelModules=yes\n"
                          "ProtectKernelTunables=yes\n"
                          "ProtectClock=yes\n"
                          "ProtectHostname=yes\n"
                          "LockPersonality=yes\n"
                          "RestrictRealtime=yes\n"
                          "RestrictSUIDSGID=yes\n"
                          "RestrictNamespaces=yes\n";

/* Our own program calls no more than this. */
static const char OWN[] = "UMask=0027\n"
                          "SystemCallArchitectures=native\n"
                          "SystemCallFilter=@system-service\n"
                          "SystemCallErrorNumber=EPERM\n"
                          "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK\n";

static void put_devices(struct systemd_unit *u, enum unit_hard how, bool rdma)
{
    buf_adds(u->out,
             "# GPUs: the driver's device groups, whichever are there when the unit starts\n"
             "DevicePolicy=closed\n"
             "DeviceAllow=char-nvidia* rw\n");
    if (how == UNIT_HARD_OWN)
        buf_adds(u->out, "# the kernel's log, where the driver writes its XIDs\n"
                         "DeviceAllow=/dev/kmsg r\n");
    if (rdma)
        buf_adds(u->out, "# RDMA: verbs, the connection manager's own node, and GDRCopy\n"
                         "DeviceAllow=char-infiniband* rw\n"
                         "DeviceAllow=/dev/infiniband/rdma_cm rw\n"
                         "DeviceAllow=char-gdrdrv rw\n");
}

void unit_harden(struct systemd_unit *u, enum unit_hard how, bool rdma)
{
    const struct spec_systemd *t = u->r->targets->systemd;

    unit_line(u, &t->harden, "# targets.systemd.harden: %s", t->harden ? "yes" : "no");
    if (!t->harden)
        return;
    buf_adds(u->out, ALL);
    if (how != UNIT_HARD_COMPONENT)
        buf_adds(u->out, OWN);
    if (how == UNIT_HARD_OWN)
        buf_adds(u->out, "# the kernel's log where it is for root alone (dmesg_restrict)\n"
                         "CapabilityBoundingSet=CAP_SYSLOG\n"
                         "AmbientCapabilities=CAP_SYSLOG\n");
    else
        buf_adds(u->out, "CapabilityBoundingSet=\n");
    put_devices(u, how, rdma);
}

void unit_low_port(struct systemd_unit *u, const int64_t *port)
{
    if (*port < RENDER_PORT_FREE)
        unit_line(u, port,
                  "CapabilityBoundingSet=CAP_NET_BIND_SERVICE\n"
                  "AmbientCapabilities=CAP_NET_BIND_SERVICE");
}

/* A folder below the one systemd keeps for its kind is made by it; another one is made by
 * tmpfiles.d and only opened for writing here. */
static void put_dir(struct systemd_unit *u, const char *key, const char *root, const char *path,
                    const char *below, const void *member)
{
    size_t len = strlen(root);
    bool kept = str_starts(path, root) && path[len] && !strchr(path, ':');
    struct buf b = { 0 }, line = { 0 };

    buf_adds(&b, kept ? path + len : path);
    if (kept && below)
        buf_addf(&b, "/%s", below);
    unit_list_word(&line, buf_str(&b));
    unit_line(u, member, "%s=%s", kept ? key : "ReadWritePaths", buf_str(&line));
    buf_release(&b);
    buf_release(&line);
}

void unit_batch_dir(struct systemd_unit *u, const struct host_run *run)
{
    const struct spec_serve *v = &u->r->spec->serve;
    char path[HOST_BATCH_DIR_MAX];

    if (!v->batch_dir)
        return;
    host_batch_dir(v, run, path, sizeof(path));
    put_dir(u, "StateDirectory", "/var/lib/", path, NULL, &v->batch_dir);
}

void unit_dirs(struct systemd_unit *u, const char *below)
{
    const struct spec_systemd *t = u->r->targets->systemd;

    put_dir(u, "StateDirectory", "/var/lib/", t->state_dir, below, &t->state_dir);
    put_dir(u, "LogsDirectory", "/var/log/", t->log_dir, below, &t->log_dir);
    if (below)
        buf_addf(u->out,
                 "CacheDirectory=stoker/%s\nEnvironment=XDG_CACHE_HOME=/var/cache/stoker/%s\n",
                 below, below);
    else
        buf_adds(u->out, "CacheDirectory=stoker\nEnvironment=XDG_CACHE_HOME=/var/cache\n");
}

void unit_watchdog(struct systemd_unit *u)
{
    const struct spec_systemd *t = u->r->targets->systemd;

    if (t->watchdog_ms)
        unit_line(u, &t->watchdog_ms, "WatchdogSec=%lldms", (long long)t->watchdog_ms);
    else
        unit_line(u, &t->watchdog_ms, "# no watchdog: targets.systemd.watchdog is 0");
}
