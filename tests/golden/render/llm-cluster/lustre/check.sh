#!/bin/sh
# Is the file system as the spec has it?  Exit status 1: it is not.
# Written by 'stoker render' from stoker.yaml, site llm; change that file and render again.
#
# check.sh [--apply]
# prints commands, and does them only with --apply.
set -eu
apply=0
for word; do
    case "$word" in
    --apply) apply=1 ;;
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

fsname=llm # targets.lustre.fsname
mgs=10.10.0.2@o2ib # targets.lustre.mgs
root=/lustre # storage[0].path
bad=0
# count WANT WHAT COMMAND...: lines of the command
count() {
    want=$1 what=$2
    shift 2
    show "$@"
    [ "$apply" = 1 ] || return 0
    got=$("$@" | grep -c ' ACTIVE') || true
    if [ "$got" = "$want" ]; then
        echo "ok: $got $what"
    else
        echo "bad: $got of $want $what are active"
        bad=1
    fi
}
# layout COUNT SIZE DIR: the default of new files below it
layout() {
    show lfs getstripe -d -c "$3"
    [ "$apply" = 1 ] || return 0
    got=$(lfs getstripe -d -c "$3") || got=none
    if [ "$got" = "$1" ]; then
        echo "ok: $3 has stripe count $1"
    else
        echo "bad: $3 has stripe count $got, $1 is wanted (of $2 bytes each)"
        bad=1
    fi
}

echo "# $fsname of $mgs, mounted at $root"
count 2 MDTs lfs mdts "$root" # targets.lustre.mdts
count 32 OSTs lfs osts "$root" # targets.lustre.osts
run lfs df -h "$root"
layout -1 16777216 /lustre/checkpoints # components.train-7b.training.checkpoint.path
layout -1 16777216 /lustre/checkpoints/spot # components.finetune-spot.training.checkpoint.path
exit $bad
