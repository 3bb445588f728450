#!/bin/sh
# SPDX-License-Identifier: MIT
# A package on a machine that has never seen us: tests/deb.sh FILE.deb [SUITE]
#
# debootstrap makes a Debian 12 below build/; the package is installed there with what it depends on, the
# program is run as another user, the package is purged, and nothing of it may be left.  Says TAP.
set -eu
[ $# -ge 1 ] || { sed -n 's/^# \{0,1\}//;3,6p' "$0" >&2; exit 2; }
deb=$1 suite=${2:-bookworm}
[ "$(id -u)" = 0 ] || { echo "1..0 # SKIP debootstrap needs root"; exit 0; }
root=$(pwd)/build/deb/chroot
n=0 bad=0
check() { # TITLE COMMAND...
    title=$1 n=$((n + 1))
    shift
    if "$@" >"$root.log" 2>&1; then echo "ok $n - $title"; else
        echo "not ok $n - $title"
        sed 's/^/# /' "$root.log" >&2
        bad=1
    fi
}
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
# without what apt and dpkg write for themselves, and /run, which is memory on a machine that booted
listing() {
    (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./var/cache -o -path ./var/lib/apt \
        -o -path ./var/lib/dpkg -o -path ./var/log -o -path ./tmp -o -path ./run -o -path ./root \) -prune -o -print | sort)
}

rm -rf "$root"
echo "# debootstrap $suite" >&2
debootstrap --variant=minbase "$suite" "$root" >"$root.log" 2>&1 || { tail "$root.log" >&2; exit 1; }
# the package sources that this machine has are those that can be reached from it
cp -a /etc/apt/. "$root/etc/apt/"
inside apt-get -qq update >"$root.log" 2>&1 || true
listing >"$root.before"
cp "$deb" "$root/tmp/stoker.deb"
check 'it installs, with what it depends on' inside apt-get -y -qq --no-install-recommends install /tmp/stoker.deb
check 'the program says its version' inside stoker --version
check 'it detects the machine, as nobody' inside setpriv --reuid 65534 --clear-groups stoker detect --json
check 'a spec is rendered' inside sh -c 'cd /tmp && stoker spec example llm-cluster >s.yaml
    stoker spec check s.yaml && stoker render slurm -f s.yaml -o out && test -s out/slurm/slurm.conf'
check 'the man pages and completions are there' inside sh -c 'test -s /usr/share/bash-completion/completions/stoker && dpkg -L stoker | grep -c /man1/ | grep -qx "[1-9][0-9]"'
check 'the agent answers' inside sh -c 'stoker agent --quiet --history /tmp/agent.ring >/tmp/agent.log 2>&1 & p=$!
    for i in $(seq 50); do sleep 0.2; stoker top --once >/tmp/top 2>&1 && break; done
    kill $p; wait $p; cat /tmp/agent.log /tmp/top; grep -q "" /tmp/top && test $i -lt 50'
check 'its services are off' inside sh -c '! ls /etc/systemd/system/*.wants/stoker-* 2>/dev/null'
check 'it is installed again over itself' inside apt-get -y -qq --reinstall --no-install-recommends install /tmp/stoker.deb
check 'it is purged, and what it brought with it' inside apt-get -y -qq --purge autoremove stoker
listing >"$root.after"
check 'nothing of it is left' sh -c "diff '$root.before' '$root.after'"
rm -rf "$root"
echo "1..$n"
exit $bad
