#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""infinity-emb's command line, also beside packages newer than it knows.

    tests/bench/peers/infinity_server.py v2 --model-id DIR --device cpu …

infinity-emb 0.0.77 imports names that later releases of its dependencies took away.  They are given back
here, empty: none is on the path of a request to its torch engine.  Without arguments it only imports."""
import os
import sys

os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


def give_back():
    import huggingface_hub
    if not hasattr(huggingface_hub, "HfFolder"):  # of its ONNX engine: a token for downloads
        huggingface_hub.HfFolder = type("HfFolder", (), {"get_token": staticmethod(lambda: None)})


if __name__ == "__main__":
    give_back()
    import infinity_emb.infinity_server
    from infinity_emb.cli import cli
    sys.argv[0] = "infinity_emb"
    if len(sys.argv) > 1:
        sys.exit(cli())
