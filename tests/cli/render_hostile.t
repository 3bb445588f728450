#!/bin/sh
# SPDX-License-Identifier: MIT
# Hostile text in every value that takes free text; a sanitizer's build takes fewer of them.
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$top/build}
case "$build" in /*) ;; *) build=$top/$build ;; esac
case "$build" in */build) quick= ;; *) quick=--quick ;; esac
# shellcheck disable=SC2086
PYTHONDONTWRITEBYTECODE=1 exec python3 "$top/tests/render/hostile.py" "$build/stoker" $quick
