#!/bin/sh
# SPDX-License-Identifier: MIT
# Ten thousand machines; a sanitizer's build takes a tenth, for its own time.
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$top/build}
case "$build" in /*) ;; *) build=$top/$build ;; esac
case "$build" in */build) n=10000 ;; *) n=1000 ;; esac
PYTHONDONTWRITEBYTECODE=1 exec python3 "$top/tests/render/large.py" "$build/stoker" $n
