#!/bin/sh
# Puts the units, their user and folders in place; run it as root.
# Written by 'stoker render' from stoker.yaml, site driving; change that file and render again.
# DESTDIR=DIR puts the files below DIR and starts nothing.
set -eu
cd "$(dirname "$0")"
root=${DESTDIR-}
install -d "$root/etc/systemd/system" "$root/etc/stoker" "$root/etc/sysusers.d" \
    "$root/etc/tmpfiles.d" "$root/etc/systemd/system-preset"
install -m 644 -- *.service "$root/etc/systemd/system/"
for f in etc/*.yaml; do
    case $f in
    etc/stoker.yaml) # tmpfiles gives it its group
        install -m 600 -- "$f" "$root/etc/stoker/" ;;
    *) install -m 644 -- "$f" "$root/etc/stoker/" ;;
    esac
done
install -m 644 -- sysusers.d/stoker.conf "$root/etc/sysusers.d/"
install -m 644 -- tmpfiles.d/stoker.conf "$root/etc/tmpfiles.d/"
install -m 644 -- 50-stoker.preset "$root/etc/systemd/system-preset/"
[ -z "$root" ] || exit 0
systemd-sysusers
systemd-tmpfiles --create /etc/tmpfiles.d/stoker.conf
[ ! -e models.sh ] || sh models.sh # before what opens them starts
systemctl daemon-reload
cd /etc/systemd/system
systemctl preset -- stoker-*.service
echo 'Start what is enabled with: systemctl start multi-user.target'
