#!/bin/sh
# SPDX-License-Identifier: MIT
# The files of every target for the five example specs, byte for byte as in
# tests/golden/render/EXAMPLE/TARGET; a target that refuses an example has its messages in
# EXAMPLE/TARGET.refused instead.  `make golden-render` rewrites them.
. "$(dirname "$0")/lib.sh"
golden_dir=$TOP/tests/golden/render

# render_one EXAMPLE TARGET: got/EXAMPLE/TARGET/..., with the modes, or got/EXAMPLE/TARGET.refused
render_one() {
    mkdir -p "$TMP/got/$1" "$TMP/work" && cd "$TMP/work" || return
    "$BUILD/stoker" spec example "$1" >stoker.yaml || return
    if "$BUILD/stoker" render "$2" -o out >/dev/null 2>err; then
        (cd out && find . -type f ! -name '.stoker-render*' -printf '%m %P\n' | sort -k2) >modes &&
            { [ ! -d "out/$2" ] || mv "out/$2" "$TMP/got/$1/$2"; } && rm -r out &&
            mkdir -p "$TMP/got/$1/$2" && mv modes "$TMP/got/$1/$2/.modes"
    else
        grep -q "^stoker.yaml:[0-9]*:[0-9]*: \|^stoker.yaml: " err || { cat err; return 1; }
        mv err "$TMP/got/$1/$2.refused"
    fi
}

examples=$(stoker spec example | cut -d' ' -f1)
targets=$(stoker render --list | cut -d' ' -f1)
if [ -n "${UPDATE_GOLDEN-}" ]; then
    for e in $examples; do for t in $targets; do (render_one "$e" "$t") || exit 1; done; done
    rm -rf "$golden_dir" && mkdir -p "$(dirname "$golden_dir")" && cp -r "$TMP/got" "$golden_dir"
    rm -rf "$TMP/got"
fi
for e in $examples; do
    for t in $targets; do
        test_expect "$e: $t" '
            render_one "$e" "$t" && cd "$TMP" &&
            if [ -e got/$e/$t.refused ]; then diff -u "$golden_dir/$e/$t.refused" got/$e/$t.refused
            else diff -ruN "$golden_dir/$e/$t" got/$e/$t; fi
        '
    done
done
test_expect 'every golden file belongs to an example and a target' '
    cd "$golden_dir" && for f in */*; do
        t=$(basename "$f" .refused)
        echo "$examples" | grep -qx "$(dirname "$f")" && echo "$targets" | grep -qx "$t" || { echo "$f"; exit 1; }
    done
'
test_expect 'what one target writes is below its own name' '
    cd "$TMP" && stoker spec example llm-cluster >stoker.yaml && for t in $targets; do
        rm -rf one && stoker render $t -o one >/dev/null 2>&1
        [ ! -d one ] || ! ls one | grep -vx $t || { echo "$t"; exit 1; }
    done
'
# every script by the shell it names; what is not a script is not executable
test_expect 'every script is one, and shellcheck finds nothing' '
    cd "$golden_dir" && n=0 && for f in $(cat */*/.modes /dev/null | awk "\$1 == 755 { print \$2 }" | sort -u); do
        for g in */$f; do
            [ -e "$g" ] || continue
            n=$((n + 1))
            case $(head -1 "$g") in
            "#!/bin/sh"*) sh -n "$g" ;;
            "#!/bin/bash"* | "#!/usr/bin/env bash"*) bash -n "$g" ;;
            *) echo "$g: no shell"; exit 1 ;;
            esac || { echo "$g"; exit 1; }
            shellcheck -S warning "$g" || exit 1
        done
    done
    echo "$n scripts" && test $n -ge 10
'
test_done
