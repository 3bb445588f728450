#!/bin/sh
# Layouts by kind of file, on a client.
# Written by 'stoker render' from stoker.yaml, site llm; change that file and render again.
#
# stripe.sh [--apply]
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
osts=32 # targets.lustre.osts
pool=${LUSTRE_POOL-} # an OST pool for all that follows

# folder COUNT SIZE DIR: new files below DIR
folder() {
    run mkdir -p "$3"
    run lfs setstripe -c "$1" -S "$2" ${pool:+-p "$pool"} "$3"
}
# files COUNT SIZE PATTERN: files of this kind that are there already and lie otherwise
files() {
    wide=$1
    [ "$wide" != -1 ] || wide=$osts
    find=$(show lfs find "$root" -type f -name "$3" ! --stripe-count "$wide" --print0)
    each=$(show xargs -0 -r -n 1 lfs migrate -c "$1" -S "$2" ${pool:+-p "$pool"})
    echo "$find | $each"
    [ "$apply" = 1 ] || return 0
    lfs find "$root" -type f -name "$3" ! --stripe-count "$wide" --print0 |
        xargs -0 -r -n 1 lfs migrate -c "$1" -S "$2" ${pool:+-p "$pool"}
}

echo "# $fsname of $mgs, mounted at $root"

# what no rule is for: small files on one OST, larger ones on more
run lfs setstripe -E 256M -c 1 -E 4G -c 4 -E -1 -c -1 -S 4M ${pool:+-p "$pool"} "$root"

# folders of checkpoints
folder -1 16777216 /lustre/checkpoints # components.train-7b.training.checkpoint.path
folder -1 16777216 /lustre/checkpoints/spot # components.finetune-spot.training.checkpoint.path

# files that are there already, by kind
files 8 4194304 '*.bin' # storage[0].stripes[0].match
files -1 16777216 '*.pt' # storage[0].stripes[1].match
files 1 1048576 '*.json' # storage[0].stripes[2].match
