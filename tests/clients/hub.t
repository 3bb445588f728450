#!/bin/sh
# SPDX-License-Identifier: MIT
# huggingface_hub, unmodified, and we on one cache, from a fake Hub: `make test-hub`.  PYTHON is an
# interpreter that has the package.
. "$(dirname "$0")/../cli/lib.sh"
python=${PYTHON:-$TOP/build/hub/bin/python}
"$python" -c 'import huggingface_hub' 2>/dev/null || {
    echo "1..0 # SKIP huggingface_hub is not here: tools/setup hub (it comes from PyPI)"
    exit 0
}
cp -r "$TOP/tests/fixtures/models/bert" bert && chmod -R u+w bert
cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" bert/tokenizer.json
PYTHONPATH=$TOP/tests/cli "$python" "$TOP/tests/clients/hub.py" "$BUILD/stoker"
