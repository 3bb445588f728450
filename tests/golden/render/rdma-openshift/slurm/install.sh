#!/bin/sh
# install.sh: these files to /etc/slurm, with owners and modes.
# Written by 'stoker render' from stoker.yaml, site rdma; change that file and render again.
#
#   install.sh           this machine; what was in /etc/slurm is kept as /etc/slurm.before
#   install.sh --back    what was there before
#   install.sh --all     every machine that does not sleep, by ssh as root; --all --back
#
# DESTDIR=/some/folder install.sh puts everything below that folder.
# It restarts nothing: see commands.md.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=${DESTDIR-}
etc=$root/etc/slurm
machines='localhost,localhost,worker[1-6]'
controllers='localhost' # default
dbd='localhost' # default

# among NAME...: is this machine one of them?
among() {
    for n; do
        case "$n" in localhost | "$(hostname)" | "$(hostname -s)") return 0 ;; esac
    done
    return 1
}

put() { # MODE FILE...: those that were rendered, owned by root
    mode=$1
    shift
    for f; do install -o root -g root -m "$mode" "$here/$f" "$etc/$f"; done
}

everywhere() {
    failed=0
    hosts=$(SLURM_CONF=$here/slurm.conf scontrol show hostnames "$machines" | sort -u)
    for h in $hosts; do
        echo "$h"
        # shellcheck disable=SC2029 # the words are ours
        tar -C "$here" -cf - . |
            ssh "$h" "d=\$(mktemp -d) && tar -C \"\$d\" -xf - && sh \"\$d/install.sh\" $*; rc=\$?; rm -rf \"\$d\"; exit \$rc" || failed=1
    done
    exit $failed
}

if [ "${1-}" = --all ]; then
    shift
    everywhere "$@"
fi
if [ "$(id -u)" != 0 ] || ! id slurm >/dev/null 2>&1; then
    echo "install.sh: run it as root on a machine that has a user slurm" >&2
    exit 1
fi
if [ "${1-}" = --back ]; then
    [ -d "$etc.before" ] || { echo "install.sh: there is no $etc.before" >&2; exit 1; }
    rm -rf "$etc.new" && mv "$etc" "$etc.new" && mv "$etc.before" "$etc"
    exit 0
fi
differs=0 # the second run of the same files keeps the way back
for f in "$here"/*.conf "$here"/*.sh; do
    old=$etc/${f##*/}
    [ ! -e "$old" ] || cmp -s "$f" "$old" || differs=1
done
if [ $differs = 1 ]; then
    rm -rf "$etc.before" && cp -a "$etc" "$etc.before"
fi
install -d -o root -g root -m 755 "$etc" "$root/var/spool/slurmd"
put 644 slurm.conf gres.conf cgroup.conf
put 755 prolog.sh epilog.sh healthcheck.sh
install -d -o slurm -g slurm -m 755 "$root"/var/log/slurm
if among $controllers; then
    install -d -o slurm -g slurm -m 700 "$root"/var/spool/slurmctld
fi
if among "$dbd"; then
    install -o slurm -g slurm -m 600 "$here/slurmdbd.conf" "$etc/slurmdbd.conf"
fi
