#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/fixtures/prompts.json: vectors of sentence-transformers with prompts that pooling
leaves out (`include_prompt: false`), for tests/cli/serve_ops.py.

    prompts.py

The network is that of tests/fixtures/models/bert, the tokenizer tests/fixtures/tokenizers/tiny-bert.json."""
import json
import pathlib
import shutil
import tempfile

from sentence_transformers import SentenceTransformer, models

TOP = pathlib.Path(__file__).resolve().parents[2]
PROMPTS = ["hello ", "the quick brown fox: ", "", "   "]
TEXTS = ["world", "a", "hello hello hello world", "", "the quick brown fox " * 12, "  spaces  "]


def main():
    out = []
    with tempfile.TemporaryDirectory() as tmp:
        net = pathlib.Path(tmp) / "bert"
        shutil.copytree(TOP / "tests/fixtures/models/bert", net, ignore=shutil.ignore_patterns("modules.json", "1_*", "2_*"))
        shutil.copy(TOP / "tests/fixtures/tokenizers/tiny-bert.json", net / "tokenizer.json")
        (net / "tokenizer_config.json").write_text(json.dumps(dict(
            tokenizer_class="PreTrainedTokenizerFast", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]",
            unk_token="[UNK]", mask_token="[MASK]")))
        for pooling in ("mean", "cls", "max", "weightedmean", "lasttoken"):
            word = models.Transformer(str(net), max_seq_length=24)
            pool = models.Pooling(word.get_word_embedding_dimension(), pooling_mode=pooling, include_prompt=False)
            st = SentenceTransformer(modules=[word, pool], device="cpu")
            for prompt in PROMPTS:
                rows = [st.encode(t, prompt=prompt or None).tolist() for t in TEXTS]
                out.append(dict(pooling=pooling, prompt=prompt, rows=rows))
    cases = ",\n".join(json.dumps(dict(c, rows=[[round(x, 7) for x in r] for r in c["rows"]])) for c in out)
    (TOP / "tests/fixtures/prompts.json").write_text(
        f'{{"max_tokens": 24, "texts": {json.dumps(TEXTS)},\n"cases": [\n{cases}\n]}}\n')


main()
