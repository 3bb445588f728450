#!/bin/sh
# SPDX-License-Identifier: MIT
# The five example specs through every target: what each file holds by name
# (EXAMPLE/TARGET.outline, by tests/render/outline.py), and the files of one full site, with three
# targets that it does not use, byte for byte in EXAMPLE/TARGET; a target that refuses an example has
# its messages in EXAMPLE/TARGET.refused.  All below tests/golden/render, which
# `make golden-render` rewrites.
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

# whole EXAMPLE TARGET: its files are kept, not only their outline.  Dashboards and the rules' own tests
# are long and say little to a reader: promtool and a real Prometheus read them elsewhere.
whole() {
    case $1/$2 in
    llm-cluster/* | rdma-openshift/openshift | kb-a100/compose | kb-a100/systemd) ;;
    *) return 1 ;;
    esac
}

# kept EXAMPLE TARGET: what of it is golden, below kept/EXAMPLE
kept() {
    mkdir -p "$TMP/kept/$1" && cd "$TMP" || return
    if [ -e "got/$1/$2.refused" ]; then
        cp "got/$1/$2.refused" "kept/$1/"
        return
    fi
    queries=
    ! whole "$1" "$2" || queries=--queries
    python3 "$TOP/tests/render/outline.py" "got/$1" "got/$1/$2/.modes" $queries >"kept/$1/$2.outline" || return
    if whole "$1" "$2"; then
        cp -r "got/$1/$2" "kept/$1/$2" && rm -rf "kept/$1/$2"/.modes "kept/$1/$2"/dashboards/*.json "kept/$1/$2"/tests \
            "kept/$1/$2"/overlays/site/rules.yaml
    fi
}

examples=$(stoker spec example | cut -d' ' -f1)
targets=$(stoker render --list | cut -d' ' -f1)
for e in $examples; do for t in $targets; do
    (render_one "$e" "$t" && kept "$e" "$t") >"$TMP/$e.$t.log" 2>&1 || echo failed >>"$TMP/$e.$t.log"
done; done
if [ -n "${UPDATE_GOLDEN-}" ]; then
    rm -rf "$golden_dir" && mkdir -p "$(dirname "$golden_dir")" && cp -r "$TMP/kept" "$golden_dir"
fi
for e in $examples; do
    for t in $targets; do
        test_expect "$e: $t" '
            ! grep . "$TMP/$e.$t.log" && cd "$TMP" &&
            for f in refused outline; do
                [ ! -e "$golden_dir/$e/$t.$f" ] && [ ! -e kept/$e/$t.$f ] || diff -u "$golden_dir/$e/$t.$f" kept/$e/$t.$f || exit 1
            done &&
            { ! whole $e $t || diff -ruN "$golden_dir/$e/$t" kept/$e/$t; }
        '
    done
done
test_expect 'every golden file belongs to an example and a target' '
    cd "$golden_dir" && for f in */*; do
        t=$(basename "$f" .refused)
        t=${t%.outline}
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
    cd "$TMP/got" && n=0 && for f in $(cat */*/.modes /dev/null | awk "\$1 == 755 { print \$2 }" | sort -u); do
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
