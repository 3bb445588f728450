#!/bin/sh
# SPDX-License-Identifier: MIT
# What `stoker render kubernetes openshift` writes is taken by a real API server, and its controllers
# and scheduler do with it what the spec says.
. "$(dirname "$0")/lib.sh"
skip() { test_skip "a real API server takes the rendered files" "$1"; test_done; }
plain_build || skip "$ONCE"
command -v openssl >/dev/null || skip "openssl is not here"
python=
for p in ${PYTHON:-python3} /usr/bin/python3; do
    "$p" -c 'import yaml' 2>/dev/null && python=$p && break
done
[ -n "$python" ] || skip "a Python with PyYAML is not here: tools/setup test"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$TOP/tests/cli:$TOP/tests/kube"
why=$("$python" -c 'import control_plane, os; print(control_plane.missing(os.environ.get("KUBEBUILDER_ASSETS")))')
[ -z "$why" ] || skip "$why"
exec "$python" -u "$TOP/tests/kube/real.py" "$BUILD/stoker"
