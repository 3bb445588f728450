#!/bin/sh
# Mounts targets on their servers, or the client.
# Written by 'stoker render' from stoker.yaml, site llm; change that file and render again.
#
# mount.sh [--apply] [--client | --host=NAME | --all]
# prints commands, and does them only with --apply.
# --client mounts the file system here, as on every machine that uses it.
# --host=NAME on another server takes over what NAME carried, once NAME is off.
# Targets of this machine, of NAME, or of all.  Devices are named by LUSTRE_DEVICE_MGS,
# LUSTRE_DEVICE_MDT0, LUSTRE_DEVICE_OST0 ...; hosts that the spec does not have by
# LUSTRE_HOST_MGS, LUSTRE_HOST_MDT0 ...
set -eu
apply=0
host=$(uname -n)
host=${host%%.*}
client=${LUSTRE_CLIENT-}
for word; do
    case "$word" in
    --apply) apply=1 ;;
    --host=*) host=${word#--host=} ;;
    --all) host= ;;
    --client) client=1 ;;
    -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" && exit 0 ;;
    *) echo "$0: unknown word '$word'; see --help" >&2 && exit 2 ;;
    esac
done

# the command as a shell takes it
show() (
    line=
    for w; do
        case "$w" in
        '' | *[!A-Za-z0-9_./:@=,%+-]*)
            w="'$(printf '%s' "$w" | sed "s/'/'\\\\''/g")'"
            ;;
        esac
        line="$line${line:+ }$w"
    done
    printf '%s\n' "$line"
)
run() {
    show "$@"
    [ "$apply" = 0 ] || "$@"
}
fail() {
    echo "$0: $1" >&2
    exit 1
}
place() {
    name=$(printf '%s%s' "$1" "$2" | tr '[:lower:]' '[:upper:]')
    if [ -z "$3" ]; then
        [ "$apply" = 0 ] || fail "no host for $name: set LUSTRE_HOST_$name"
        echo "# $name: set LUSTRE_HOST_$name to the machine that carries it"
    elif [ -n "$host" ] && [ "$host" != "${3%%.*}" ]; then
        return 1
    else
        echo "# $name on $3"
    fi
    device=$4
    [ -n "$device" ] || [ "$apply" = 0 ] || fail "no device: set LUSTRE_DEVICE_$name"
    device=${device:-LUSTRE_DEVICE_$name}
}

fsname=llm # targets.lustre.fsname
mgs=10.10.0.2@o2ib # targets.lustre.mgs
root=/lustre # storage[0].path
options=flock,lazystatfs # default
target() {
    place "$@" || return 0
    at=/srv/lustre/$fsname-$1$2
    run mkdir -p "$at"
    run mount -t lustre "$device" "$at"
}
client() {
    run mkdir -p "$root"
    run mount -t lustre -o "$options" "$mgs:/$fsname" "$root"
    printf '# /etc/fstab: %s %s lustre %s,_netdev,nofail 0 0\n' \
        "$mgs:/$fsname" "$root" "$options"
}

# servers in this order: management, metadata, objects
if [ -z "$client" ]; then
    target mgs '' "${LUSTRE_HOST_MGS-}" "${LUSTRE_DEVICE_MGS-}" # targets.lustre.mgs
    target mdt 0 "${LUSTRE_HOST_MDT0-}" "${LUSTRE_DEVICE_MDT0-}" # targets.lustre.mdts
    target mdt 1 "${LUSTRE_HOST_MDT1-}" "${LUSTRE_DEVICE_MDT1-}" # targets.lustre.mdts
    target ost 0 "${LUSTRE_HOST_OST0-}" "${LUSTRE_DEVICE_OST0-}" # targets.lustre.osts
    target ost 1 "${LUSTRE_HOST_OST1-}" "${LUSTRE_DEVICE_OST1-}" # targets.lustre.osts
    target ost 2 "${LUSTRE_HOST_OST2-}" "${LUSTRE_DEVICE_OST2-}" # targets.lustre.osts
    target ost 3 "${LUSTRE_HOST_OST3-}" "${LUSTRE_DEVICE_OST3-}" # targets.lustre.osts
    target ost 4 "${LUSTRE_HOST_OST4-}" "${LUSTRE_DEVICE_OST4-}" # targets.lustre.osts
    target ost 5 "${LUSTRE_HOST_OST5-}" "${LUSTRE_DEVICE_OST5-}" # targets.lustre.osts
    target ost 6 "${LUSTRE_HOST_OST6-}" "${LUSTRE_DEVICE_OST6-}" # targets.lustre.osts
    target ost 7 "${LUSTRE_HOST_OST7-}" "${LUSTRE_DEVICE_OST7-}" # targets.lustre.osts
    target ost 8 "${LUSTRE_HOST_OST8-}" "${LUSTRE_DEVICE_OST8-}" # targets.lustre.osts
    target ost 9 "${LUSTRE_HOST_OST9-}" "${LUSTRE_DEVICE_OST9-}" # targets.lustre.osts
    target ost 10 "${LUSTRE_HOST_OST10-}" "${LUSTRE_DEVICE_OST10-}" # targets.lustre.osts
    target ost 11 "${LUSTRE_HOST_OST11-}" "${LUSTRE_DEVICE_OST11-}" # targets.lustre.osts
    target ost 12 "${LUSTRE_HOST_OST12-}" "${LUSTRE_DEVICE_OST12-}" # targets.lustre.osts
    target ost 13 "${LUSTRE_HOST_OST13-}" "${LUSTRE_DEVICE_OST13-}" # targets.lustre.osts
    target ost 14 "${LUSTRE_HOST_OST14-}" "${LUSTRE_DEVICE_OST14-}" # targets.lustre.osts
    target ost 15 "${LUSTRE_HOST_OST15-}" "${LUSTRE_DEVICE_OST15-}" # targets.lustre.osts
    target ost 16 "${LUSTRE_HOST_OST16-}" "${LUSTRE_DEVICE_OST16-}" # targets.lustre.osts
    target ost 17 "${LUSTRE_HOST_OST17-}" "${LUSTRE_DEVICE_OST17-}" # targets.lustre.osts
    target ost 18 "${LUSTRE_HOST_OST18-}" "${LUSTRE_DEVICE_OST18-}" # targets.lustre.osts
    target ost 19 "${LUSTRE_HOST_OST19-}" "${LUSTRE_DEVICE_OST19-}" # targets.lustre.osts
    target ost 20 "${LUSTRE_HOST_OST20-}" "${LUSTRE_DEVICE_OST20-}" # targets.lustre.osts
    target ost 21 "${LUSTRE_HOST_OST21-}" "${LUSTRE_DEVICE_OST21-}" # targets.lustre.osts
    target ost 22 "${LUSTRE_HOST_OST22-}" "${LUSTRE_DEVICE_OST22-}" # targets.lustre.osts
    target ost 23 "${LUSTRE_HOST_OST23-}" "${LUSTRE_DEVICE_OST23-}" # targets.lustre.osts
    target ost 24 "${LUSTRE_HOST_OST24-}" "${LUSTRE_DEVICE_OST24-}" # targets.lustre.osts
    target ost 25 "${LUSTRE_HOST_OST25-}" "${LUSTRE_DEVICE_OST25-}" # targets.lustre.osts
    target ost 26 "${LUSTRE_HOST_OST26-}" "${LUSTRE_DEVICE_OST26-}" # targets.lustre.osts
    target ost 27 "${LUSTRE_HOST_OST27-}" "${LUSTRE_DEVICE_OST27-}" # targets.lustre.osts
    target ost 28 "${LUSTRE_HOST_OST28-}" "${LUSTRE_DEVICE_OST28-}" # targets.lustre.osts
    target ost 29 "${LUSTRE_HOST_OST29-}" "${LUSTRE_DEVICE_OST29-}" # targets.lustre.osts
    target ost 30 "${LUSTRE_HOST_OST30-}" "${LUSTRE_DEVICE_OST30-}" # targets.lustre.osts
    target ost 31 "${LUSTRE_HOST_OST31-}" "${LUSTRE_DEVICE_OST31-}" # targets.lustre.osts
fi
# everywhere else
[ -z "$client" ] || client
