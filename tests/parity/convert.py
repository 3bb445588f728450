#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`stoker model convert` beside torch.load(): every tensor's type, shape and bytes.

    convert.py BUILD/stoker [--fixtures DIR]

Writes files as torch.save() does (pickle protocols 2 to 5, the archive and the form before
1.6, one file and shards, views, tied weights, every type) and compares what comes out with
torch.load() and, for plain ones, with what safetensors itself writes.  --fixtures keeps small
ones with their expected tensors, for tests that have no torch (tests/cli/convert.t).
"""
import argparse
import collections
import hashlib
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import warnings

import torch
from safetensors.torch import load_file, save_file

warnings.filterwarnings("ignore")
DTYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
          torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
          torch.bool: "BOOL"}


def random(*shape, dtype=torch.float32):
    if dtype == torch.bool:
        return torch.rand(*shape) > 0.5
    if dtype.is_floating_point:
        return torch.randn(*shape, dtype=torch.float64).to(dtype)
    return torch.randint(0, 100, shape).to(dtype)


def plain():
    return {"a.weight": random(3, 5), "a.bias": random(3), "scalar": torch.tensor(2.5), "one": random(1)}


def types():
    return {"t" + name: random(2, 3, dtype=t) for t, name in DTYPES.items()}


def views():
    base = random(6, 8)
    return {"whole": base, "transposed": base.t(), "rows": base[2:4], "column": base[:, 3], "steps": base[::2, 1::3],
            "permuted": random(2, 3, 4, 5).permute(3, 1, 0, 2), "expanded": random(1, 4).expand(3, 4),
            "ids": torch.arange(7).expand((1, -1)), "tail": random(100)[97:], "half": random(4, 6).half().t(),
            "diagonal": base.diagonal(), "window": torch.arange(6).as_strided((4, 3), (1, 1))}


def empty():
    return {"none": torch.zeros(0), "none2": torch.zeros(3, 0, 2), "some": random(2), "none3": random(4, 4)[:, 4:].t()}


def tied():
    w = random(4, 3)
    return {"word.weight": w, "decoder.weight": w, "word.bias": random(4)}


def module():
    layer = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3))
    layer.register_buffer("position_ids", torch.arange(5).expand((1, -1)))
    return layer.state_dict()  # an OrderedDict with _metadata


def parameters():
    return dict(torch.nn.Linear(4, 3).named_parameters())


CASES = {"plain": plain, "types": types, "views": views, "empty": empty, "tied": tied, "module": module,
         "parameters": parameters}


def ways():
    for protocol in (2, 3, 4, 5):
        for old in (False, True):
            yield f"{'old' if old else 'zip'}{protocol}", {"pickle_protocol": protocol,
                                                           "_use_new_zipfile_serialization": not old}


def described(tensors):
    out = {}
    for name, t in tensors.items():
        data = t.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes() if t.numel() and t.dim() else (
            t.detach().reshape(1).view(torch.uint8).numpy().tobytes() if t.numel() else b"")
        out[name] = {"dtype": DTYPES[t.dtype], "shape": list(t.shape), "sha256": hashlib.sha256(data).hexdigest()}
    return out


def convert(stoker, folder):
    run = subprocess.run([stoker, "model", "convert", "--force", str(folder)], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{folder}: exit {run.returncode}: {run.stderr}")
    return described(load_file(folder / "model.safetensors"))


def compare(label, got, want):
    if got != want:
        sys.exit(f"{label}: {[n for n in want if got.get(n) != want[n]]} differ, {set(got) - set(want)} are too many")


def one_file(args, top):
    count = 0
    for case, make in CASES.items():
        for way, options in ways():
            folder = top / f"{case}-{way}"
            folder.mkdir()
            torch.save(make(), folder / "pytorch_model.bin", **options)
            want = described(torch.load(folder / "pytorch_model.bin", weights_only=False))
            compare(folder.name, convert(args.stoker, folder), want)
            count += 1
            if args.fixtures and (case, way) in KEPT:
                keep(args, folder, want)
    print(f"RESULT convert.files same {count} of {count}")


KEPT = {("types", "zip2"), ("views", "zip4"), ("tied", "old2"), ("module", "old4"), ("empty", "zip5"), ("views", "old2")}


def keep(args, folder, want):
    to = pathlib.Path(args.fixtures) / folder.name
    to.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("pytorch_model*"):
        (to / path.name).write_bytes(path.read_bytes())
    (to / "expected.json").write_text(json.dumps(want, indent=1, sort_keys=True) + "\n")


def shards(args, top):
    folder, parts = top / "shards", [plain(), types(), views()]
    folder.mkdir()
    names = {}
    for i, part in enumerate(parts):
        file = f"pytorch_model-{i + 1:05d}-of-{len(parts):05d}.bin"
        torch.save(collections.OrderedDict(part), folder / file, _use_new_zipfile_serialization=i != 1)
        names |= {n: file for n in part}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(
        {"metadata": {"total_size": 1}, "weight_map": names}))
    want = {}
    for file in sorted(set(names.values())):
        want |= described(torch.load(folder / file, weights_only=False))
    compare("shards", convert(args.stoker, folder), want)
    if args.fixtures:
        keep(args, folder, want)
    print("RESULT convert.shards same 1 of 1")


def against_safetensors(args, top):
    """The file itself, byte for byte, where all tensors have one type."""
    folder = top / "bytes"
    folder.mkdir()
    tensors = {f"layer.{i}.weight": random(i % 7 + 1, 9) for i in range(40)}
    torch.save(tensors, folder / "pytorch_model.bin")
    convert(args.stoker, folder)
    save_file(tensors, folder / "theirs", metadata={"format": "pt"})
    ours, theirs = ((folder / n).read_bytes() for n in ("model.safetensors", "theirs"))
    n = struct.unpack("<Q", ours[:8])[0]
    if ours != theirs:
        sys.exit(f"safetensors writes another file: {ours[8:8 + n][:200]} and {theirs[8:8 + n][:200]}")
    print("RESULT convert.bytes same as safetensors")


def refused(args, top):
    """What torch.load() takes and we do not must say so and leave nothing."""
    cases = {"list": [random(2)], "nested": {"state_dict": plain(), "epoch": 3}, "sparse": {"s": random(3, 3).to_sparse()},
             "quantised": {"q": torch.quantize_per_tensor(random(4), 0.1, 0, torch.qint8)},
             "complex": {"c": random(3).to(torch.complex64)}, "float8": {"f": random(4).to(torch.float8_e4m3fn)},
             "number": {"a": random(2), "lr": 0.5}, "text": {"a": random(2), "note": "x"}}
    for name, value in cases.items():
        folder = top / name
        folder.mkdir()
        torch.save(value, folder / "pytorch_model.bin")
        run = subprocess.run([args.stoker, "model", "convert", str(folder)], capture_output=True, text=True)
        if run.returncode != 1 or (folder / "model.safetensors").exists() or "pickle" not in run.stderr:
            sys.exit(f"{name}: exit {run.returncode}: {run.stderr}")
        print(f"{name}: {run.stderr.splitlines()[0]}")
    print(f"RESULT convert.refused {len(cases)} of {len(cases)}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("stoker")
    p.add_argument("--fixtures")
    args = p.parse_args()
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as top:
        for part in (one_file, shards, against_safetensors, refused):
            part(args, pathlib.Path(top))


main()
