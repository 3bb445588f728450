#!/bin/sh
# SPDX-License-Identifier: MIT
# Requests that Schemathesis makes of the server's own OpenAPI document: every answer is documented.
# `make test-clients`; PYTHON is an interpreter that has it, GENERATED_EXAMPLES how many for each operation.
. "$(dirname "$0")/../cli/lib.sh"
python=${PYTHON:-$TOP/build/clients/bin/python}
"$python" -c 'import schemathesis' 2>/dev/null || {
    echo "1..0 # SKIP schemathesis is not here: tools/setup clients"
    exit 0
}
"$python" "$TOP/tests/clients/generated.py" "$BUILD/stoker"
