#!/bin/sh
# SPDX-License-Identifier: MIT
# The official Python clients, unmodified, against a server with the real default model:
# `make test-clients`.  PYTHON is an interpreter that has the clients, CLIENTS_MODEL the
# model's folder or name.
. "$(dirname "$0")/../cli/lib.sh"
python=${PYTHON:-$TOP/build/clients/bin/python}
model=${CLIENTS_MODEL:-all-MiniLM-L6-v2}
skip() {
    echo "1..0 # SKIP $1"
    exit 0
}
"$python" -c 'import openai, cohere, huggingface_hub, numpy' 2>/dev/null ||
    skip "the Python clients are not here: tools/setup clients"
stoker model info "$model" >/dev/null 2>&1 || skip "the model $model is not here: stoker model get $model"
"$python" "$TOP/tests/clients/clients.py" "$BUILD/stoker" "$model"
