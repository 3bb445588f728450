#!/bin/sh
# Puts the units, their user and folders in place; run it as root.
# Written by 'stoker render' from stoker.yaml, site ai-platform; change that file and render again.
# DESTDIR=DIR puts the files below DIR and starts nothing.
# install.sh prune stops and removes what the spec no longer names.
set -eu
cd "$(dirname "$0")"
here=$(pwd)
root=${DESTDIR-}
units=$root/etc/systemd/system
# what was installed of an earlier spec and is no longer rendered
left_over() {
    for f in "$units"/stoker-component-*.service "$root"/etc/stoker/component-*.yaml; do
        grep -qs "^# Written by 'stoker render'" "$f" || continue
        [ -e "${f##*/}" ] || [ -e "etc/${f##*/}" ] || printf '%s\n' "$f"
    done
}
if [ "${1-}" = prune ]; then
    left_over | while read -r f; do
        case $f in
        *.service) [ -n "$root" ] || systemctl disable --now -- "${f##*/}" ;;
        esac
        rm -f -- "$f"
        printf 'removed %s\n' "$f"
    done
    [ -n "$root" ] || systemctl daemon-reload
    exit 0
fi
tell_left() {
    left=$(left_over)
    [ -z "$left" ] || printf "%s\n" "$left" \
        "The spec no longer names these, and they stay as they are: 'install.sh prune' \
stops and removes them."
}
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
[ -z "$root" ] || { tell_left; exit 0; }
systemd-sysusers
systemd-tmpfiles --create /etc/tmpfiles.d/stoker.conf
systemctl daemon-reload
cd /etc/systemd/system
systemctl preset -- stoker-*.service
cd "$here"
tell_left
[ ! -e models.sh ] || sh models.sh # last: all else holds where it fails
echo 'Start what is enabled with: systemctl start multi-user.target'
