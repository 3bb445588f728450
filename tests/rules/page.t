#!/bin/sh
# Pages work offline: no address of anybody else in them, nothing that loads a file, one file each.
cd "$(dirname "$0")/../.." || exit 1
n=0 failed=0
check() { # title, command that prints what is wrong
    n=$((n + 1))
    log=$(eval "$2" 2>&1)
    if [ -z "$log" ]; then echo "ok $n - $1"; else
        failed=1
        echo "not ok $n - $1"
        echo "$log" | head -20 | sed 's/^/# /' >&2
    fi
}
for page in web/*.html web/*.js; do
    # the name of SVG's elements looks like an address and is none
    check "$page names no other server" \
        "grep -noE '(https?|wss?|ftp)://[^ \"]*' $page | grep -v 'http://www.w3.org/2000/svg'"
    check "$page loads no script, style, font or frame" \
        "grep -noiE '<script[^>]+src|<link[^>]+stylesheet|@import|@font-face|<iframe|<object|<embed|url\(|src=\"//' $page"
    check "$page sets text as text" \
        "grep -noE 'innerHTML|outerHTML *=|insertAdjacentHTML|document\.write|eval\(|new Function' $page"
    check "$page says its licence" "grep -q 'SPDX-License-Identifier: MIT' $page || echo missing"
done
echo "1..$n"
exit $failed
