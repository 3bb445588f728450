#!/bin/sh
# Every C file is as clang-format writes it.
cd "$(dirname "$0")/../.." || exit 1
echo 1..1
bad=$(git ls-files '*.c' '*.h' '*.cu' | xargs clang-format --dry-run 2>&1 | sed -n 's/: warning.*//p' | cut -d: -f1 | sort -u)
[ -z "$bad" ] && echo 'ok 1 - clang-format' && exit 0
echo 'not ok 1 - clang-format'
echo "$bad" | sed 's/^/# clang-format -i /' >&2
exit 1
