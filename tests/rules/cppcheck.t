#!/bin/sh
# cppcheck finds nothing.
cd "$(dirname "$0")/../.." || exit 1
echo 1..1
log=$(cppcheck --quiet --std=c11 --enable=warning,portability,performance -j2 --inline-suppr \
    --suppress=missingIncludeSystem --suppress='*:*libfyaml*' --error-exitcode=1 -Isrc \
    -DSTOKER_VERSION='"0"' -DSTOKER_COMMIT='"0"' src 2>&1) && echo 'ok 1 - cppcheck' && exit 0
echo 'not ok 1 - cppcheck'
echo "$log" | head -40 | sed 's/^/# /' >&2
exit 1
