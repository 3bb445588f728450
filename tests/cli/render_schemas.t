#!/bin/sh
# SPDX-License-Identifier: MIT
# What is rendered for kubernetes, openshift and compose fits the schemas of those who read it, and
# the Containerfile keeps the rules: tests/render/schemas.py says how.
. "$(dirname "$0")/lib.sh"
python=
for p in ${PYTHON:-python3} /usr/bin/python3; do
    "$p" -c 'import jsonschema, yaml' 2>/dev/null && python=$p && break
done
command -v "${python:=python3}" >/dev/null || { test_skip "schemas" "python3 is not here"; test_done; }
"$python" "$TOP/tests/render/schemas.py" "$BUILD/stoker"
