/* SPDX-License-Identifier: MIT */
/* slurm_install: install.sh, which puts the files of slurm/ where Slurm reads them, with the owners
 * and modes it insists on: slurmdbd does not start when others can read its file, slurmctld must
 * be able to write its state as user slurm, and nobody but root may change what slurmd runs as
 * root.  What was there before is kept for the way back. */
#include "render/slurm/slurm_int.h"

static const char INSTALL_HELP[] =
    "#\n"
    "#   install.sh           this machine; what was in " SLURM_ETC " is kept as " SLURM_ETC
    ".before\n"
    "#   install.sh --back    what was there before\n"
    "#   install.sh --all     every machine that does not sleep, by ssh as root; --all --back\n"
    "#\n"
    "# DESTDIR=/some/folder install.sh puts everything below that folder.\n"
    "# It restarts nothing: see commands.md.\n"
    "set -eu\n"
    "here=$(cd \"$(dirname \"$0\")\" && pwd)\n"
    "root=${DESTDIR-}\n"
    "etc=$root" SLURM_ETC "\n";

static const char INSTALL_MAIN[] =
    "\n"
    "# among NAME...: is this machine one of them?\n"
    "among() {\n"
    "    for n; do\n"
    "        case \"$n\" in localhost | \"$(hostname)\" | \"$(hostname -s)\") return 0 ;; esac\n"
    "    done\n"
    "    return 1\n"
    "}\n"
    "\n"
    "put() { # MODE FILE...: those that were rendered, owned by root\n"
    "    mode=$1\n"
    "    shift\n"
    "    for f; do install -o root -g root -m \"$mode\" \"$here/$f\" \"$etc/$f\"; done\n"
    "}\n"
    "\n"
    "everywhere() {\n"
    "    failed=0\n"
    "    hosts=$(SLURM_CONF=$here/slurm.conf scontrol show hostnames \"$machines\" | sort -u)\n"
    "    for h in $hosts; do\n"
    "        echo \"$h\"\n"
    "        # shellcheck disable=SC2029 # the words are ours\n"
    "        tar -C \"$here\" -cf - . |\n"
    "            ssh \"$h\" \"d=\\$(mktemp -d) && tar -C \\\"\\$d\\\" -xf - && "
    "sh \\\"\\$d/install.sh\\\" $*; rc=\\$?; rm -rf \\\"\\$d\\\"; exit \\$rc\" || failed=1\n"
    "    done\n"
    "    exit $failed\n"
    "}\n"
    "\n"
    "if [ \"${1-}\" = --all ]; then\n"
    "    shift\n"
    "    everywhere \"$@\"\n"
    "fi\n"
    "if [ \"$(id -u)\" != 0 ] || ! id slurm >/dev/null 2>&1; then\n"
    "    echo \"install.sh: run it as root on a machine that has a user slurm\" >&2\n"
    "    exit 1\n"
    "fi\n"
    "if [ \"${1-}\" = --back ]; then\n"
    "    [ -d \"$etc.before\" ] || { echo \"install.sh: there is no $etc.before\" >&2; exit 1; }\n"
    "    rm -rf \"$etc.new\" && mv \"$etc\" \"$etc.new\" && mv \"$etc.before\" \"$etc\"\n"
    "    exit 0\n"
    "fi\n"
    "differs=0 # the second run of the same files keeps the way back\n"
    "for f in \"$here\"/*.conf \"$here\"/*.sh; do\n"
    "    old=$etc/${f##*/}\n"
    "    [ ! -e \"$old\" ] || cmp -s \"$f\" \"$old\" || differs=1\n"
    "done\n"
    "if [ $differs = 1 ]; then\n"
    "    rm -rf \"$etc.before\" && cp -a \"$etc\" \"$etc.before\"\n"
    "fi\n"
    "install -d -o root -g root -m 755 \"$etc\" \"$root/var/spool/slurmd\"\n";

void slurm_install(struct slurm *c)
{
    struct buf *out = render_script(c->r, "slurm/install.sh");
    struct buf list = { 0 };

    buf_adds(out, "#!/bin/sh\n");
    render_head(c->r, out, "#", "install.sh: these files to " SLURM_ETC ", with owners and modes.");
    buf_adds(out, INSTALL_HELP);
    /* Controllers and every machine that is always on: one that sleeps has its files in its
     * image. */
    buf_addf(&list, "%s", c->s->controller);
    if (c->s->backup_controller)
        buf_addf(&list, ",%s", c->s->backup_controller);
    if (c->s->accounting.enabled)
        buf_addf(&list, ",%s", c->s->accounting.host);
    for (size_t i = 0; i < c->r->spec->node_count; i++) {
        const struct spec_node *n = &c->r->spec->nodes[i];

        if (!n->count || slurm_sleeps(c, n) ||
            (!slurm_has(c, n) && n->role != SPEC_ROLE_LOGIN && n->role != SPEC_ROLE_CONTROL))
            continue;
        buf_addc(&list, ',');
        slurm_hosts_add(&list, n);
    }
    buf_adds(out, "machines=");
    quote_sh(out, buf_str(&list));
    buf_addf(out, "\ncontrollers='%s%s%s' # %s\n", c->s->controller,
             c->s->backup_controller ? " " : "",
             c->s->backup_controller ? c->s->backup_controller : "",
             render_from(c->r, &c->s->controller));
    if (c->s->accounting.enabled)
        buf_addf(out, "dbd='%s' # %s\n", c->s->accounting.host,
                 render_from(c->r, &c->s->accounting.host));
    buf_adds(out, INSTALL_MAIN);
    buf_addf(out, "put 644 slurm.conf gres.conf cgroup.conf%s\n",
             slurm_has_topology(c) ? " topology.conf" : "");
    buf_addf(out, "put 755 prolog.sh epilog.sh healthcheck.sh%s\n",
             slurm_power_saves(c) ? " resume.sh suspend.sh resumefail.sh" : "");
    buf_adds(out, "install -d -o slurm -g slurm -m 755 \"$root\"");
    quote_sh(out, c->s->log_dir);
    buf_adds(out, "\nif among $controllers; then\n"
                  "    install -d -o slurm -g slurm -m 700 \"$root\"");
    quote_sh(out, c->s->state_dir);
    buf_adds(out, "\nfi\n");
    if (c->s->accounting.enabled)
        buf_adds(out, "if among \"$dbd\"; then\n"
                      "    install -o slurm -g slurm -m 600 \"$here/slurmdbd.conf\" "
                      "\"$etc/slurmdbd.conf\"\n"
                      "fi\n");
    buf_release(&list);
}
