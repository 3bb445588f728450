#!/bin/sh
# Generated documents are current; every command has a man page that reads without a
# complaint, and the completion scripts are scripts.
cd "$(dirname "$0")/../.." || exit 1
b=${BUILD:-build}/stoker
n=0 failed=0
check() { # title, command
    n=$((n + 1))
    if log=$(eval "$2" 2>&1); then echo "ok $n - $1"; else
        failed=1
        echo "not ok $n - $1"
        echo "$log" | head -20 | sed 's/^/# /' >&2
    fi
}
check 'README and reference pages are current' "python3 tools/docs $b --check"
check 'the examples of docs/user/planning.md are what they print' "python3 tools/planning $b --check"
check 'commands are sorted' "$b help --names | sort -c"
for c in $($b help --names); do
    check "$c --help begins with its usage" "$b $c --help | grep -q '^usage: stoker $c'"
    check "$c has a man page with its summary" \
        "$b help --man $c | grep -q 'stoker.-$c .- ' && $b help --man $c | (! command -v groff >/dev/null && exit 0; groff -man -Tutf8 -ww -z -Wfont 2>&1 | (! grep .))"
    check "$c stands in the bash completion" "$b completion bash | grep -qw '$c'"
done
check 'bash completion is bash' "$b completion bash | bash -n"
check 'systemd takes the unit' "command -v systemd-analyze >/dev/null || exit 0
    d=\$(mktemp -d) && sed 's|@PREFIX@|/usr|; s|^ExecStart=.*|ExecStart=/bin/true|' data/stoker-detect.service >\$d/stoker-detect.service &&
    log=\$(systemd-analyze verify --man=no \$d/stoker-detect.service 2>&1 | grep stoker-detect); rm -r \$d; [ -z \"\$log\" ] || { echo \"\$log\"; exit 1; }"
check 'make install puts everything in its place' "d=\$(mktemp -d) && make --no-print-directory CUDA=0 DESTDIR=\$d PREFIX=/usr install >/dev/null &&
    test -x \$d/usr/bin/stoker && test -s \$d/usr/share/man/man1/stoker-detect.1 &&
    test -s \$d/usr/share/bash-completion/completions/stoker && grep -q /usr/bin/stoker \$d/usr/lib/systemd/system/stoker-detect.service; rc=\$?; rm -rf \$d; exit \$rc"
echo "1..$n"
exit $failed
