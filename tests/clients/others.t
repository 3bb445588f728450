#!/bin/sh
# SPDX-License-Identifier: MIT
# More Python clients, unmodified, against a server with tiny models: Infinity's, LangChain's for
# OpenAI, Voyage's.  `make test-clients`; PYTHON is an interpreter that has them.
. "$(dirname "$0")/../cli/lib.sh"
python=${PYTHON:-$TOP/build/clients/bin/python}
"$python" -c 'import infinity_client, langchain_openai, tiktoken, voyageai' 2>/dev/null || {
    echo "1..0 # SKIP the Python clients are not here: tools/setup clients"
    exit 0
}
"$python" "$TOP/tests/clients/others.py" "$BUILD/stoker"
