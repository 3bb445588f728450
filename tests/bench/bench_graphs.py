# SPDX-License-Identifier: MIT
"""Graphs for onnxruntime: export, its transformer fusions, its dynamic int8, and a form without
weights that can be carried to a machine that has onnxruntime but not the package `onnx`.

A graph's larger tensors stand in a file beside it.  Each is a tensor of the model, turned, joined
(Attention has query, key and value in one) or rounded to int8; a recipe says which, so that the file
is written again from model.safetensors, byte for byte, with numpy alone."""
import json
import pathlib

from bench_models import safetensors_read

FUSIONS = ("EmbedLayerNormalization", "QEmbedLayerNormalization", "Attention", "QAttention", "MultiHeadAttention",
           "SkipLayerNormalization", "LayerNormalization", "BiasGelu", "FastGelu", "Gelu")
KINDS = ("f32", "int8")
EXTERNAL_MIN = 1024 # bytes of a tensor that stands outside of the graph
RECIPE = "recipe.json"


def export(folder, to, layers=None):
    """to/f32.onnx and to/int8.onnx, once, with to/about.json, which says what was fused; of the first
    `layers` layers when they are given, else of all."""
    to = pathlib.Path(to)
    if (to / "about.json").exists():
        return to
    import onnx
    to.mkdir(parents=True, exist_ok=True)
    heads, hidden = plain_graph(folder, to / "plain.onnx", layers)
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer
    fused = optimizer.optimize_model(str(to / "plain.onnx"), model_type="bert", num_heads=heads, hidden_size=hidden, opt_level=0)
    if "com.microsoft" not in [o.domain for o in fused.model.opset_import]:
        fused.model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    about = {"f32": count(fused.model)}
    save(onnx, fused.model, to / "f32.onnx")
    # A scale a tensor: the fastest form; a scale a column (per_channel) is nearer to f32 and takes a tenth longer.
    quantize_dynamic(str(to / "f32.onnx"), str(to / "whole.onnx"), op_types_to_quantize=["MatMul", "Attention"],
                     weight_type=QuantType.QInt8, use_external_data_format=True,
                     extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})
    whole = onnx.load(str(to / "whole.onnx"))
    about["int8"] = count(whole)
    save(onnx, whole, to / "int8.onnx")
    for path in (*to.glob("plain.onnx*"), *to.glob("whole.onnx*")):
        path.unlink()
    (to / "about.json").write_text(json.dumps(about))
    return to


def save(onnx, model, path):
    path.with_suffix(".bin").unlink(missing_ok=True)
    onnx.save_model(model, str(path), save_as_external_data=True, all_tensors_to_one_file=True,
                    location=path.with_suffix(".bin").name, size_threshold=EXTERNAL_MIN)


def count(model):
    kinds = [n.op_type for n in model.graph.node]
    return {k: kinds.count(k) for k in sorted(set(kinds))}


def fusions(about, kind):
    ops = json.loads((about / "about.json").read_text())[kind]
    return "fused: " + (", ".join(f"{ops[k]} {k}" for k in FUSIONS if k in ops) or "nothing")


def plain_graph(folder, path, layers):
    """torch's export of tokens to one normalised vector: pooling is part of the graph."""
    import torch
    import transformers
    less = {"num_hidden_layers": layers} if layers else {}
    model = transformers.AutoModel.from_pretrained(str(folder), attn_implementation="eager", **less).eval()
    ids = torch.full((2, 8), 5)
    names = ["input_ids", "attention_mask"] + ["token_type_ids"] * (model.config.type_vocab_size > 1)

    class Wrap(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *given):
            hidden = self.model(**dict(zip(names, given))).last_hidden_state
            mask = given[1].unsqueeze(-1).to(hidden.dtype)
            v = (hidden * mask).sum(1) / mask.sum(1)
            return v / v.norm(dim=1, keepdim=True)
    given = (ids, torch.ones_like(ids), torch.zeros_like(ids))[:len(names)]
    with torch.no_grad():
        torch.onnx.export(Wrap().eval(), given, str(path), input_names=names, output_names=["vector"], opset_version=17,
                          dynamic_axes={**{n: {0: "batch", 1: "sequence"} for n in names}, "vector": {0: "batch"}}, dynamo=False)
    return model.config.num_attention_heads, model.config.hidden_size


# ---- without weights
def sources(tensors):
    """Every array that a graph may hold, by how it is made: (names, turned)."""
    for name in tensors:
        yield [name], False
        if tensors[name].ndim == 2:
            yield [name], True
        if ".query." in name:
            yield [name.replace(".query.", f".{p}.") for p in ("query", "key", "value")], tensors[name].ndim == 2


def made(tensors, names, turned):
    import numpy as np
    parts = [tensors[n].T if turned else tensors[n] for n in names]
    return np.ascontiguousarray(np.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0])


def rounded(array, scale, zero, dtype):
    import numpy as np
    info = np.iinfo(dtype)
    return np.clip(np.round(array / np.float32(scale)) + zero, info.min, info.max).astype(dtype)


def strip(folder, graphs, to):
    """The graphs without their weights, and the recipe; checks that the recipe gives every byte."""
    import hashlib
    import shutil
    import numpy as np
    import onnx
    from onnx import numpy_helper
    to = pathlib.Path(to)
    to.mkdir(parents=True, exist_ok=True)
    tensors = safetensors_read(pathlib.Path(folder) / "model.safetensors")
    by_hash = {hashlib.sha1(made(tensors, *s).tobytes()).digest(): s for s in sources(tensors)}
    recipe, origin = {}, {}
    for kind in KINDS:
        model = onnx.load(str(graphs / f"{kind}.onnx"))
        arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        rows = []
        for t in onnx.load(str(graphs / f"{kind}.onnx"), load_external_data=False).graph.initializer:
            if t.data_location != onnx.TensorProto.EXTERNAL:
                continue
            place, array = {e.key: e.value for e in t.external_data}, arrays[t.name]
            row = {"offset": int(place["offset"]), "dtype": array.dtype.name}
            source = by_hash.get(hashlib.sha1(array.tobytes()).digest())
            if source:
                origin[t.name] = source
            else:
                base = t.name.removesuffix("_quantized")
                source = origin.get(base)
                if not source or base == t.name:
                    raise SystemExit(f"{kind}.onnx: nothing in the model gives '{t.name}' {array.dtype} {array.shape}")
                row["round"] = [float(arrays[base + "_scale"]), int(arrays[base + "_zero_point"])]
                if not np.array_equal(rounded(made(tensors, *source), *row["round"], row["dtype"]), array):
                    raise SystemExit(f"{kind}.onnx: rounding does not give '{t.name}'")
            row["from"], row["turned"] = source
            rows.append(row)
        recipe[kind] = rows
        shutil.copy(graphs / f"{kind}.onnx", to)
    (to / RECIPE).write_text(json.dumps(recipe))
    shutil.copy(graphs / "about.json", to)


def fill(folder, stripped, to):
    """Graphs with weights again."""
    import shutil
    to, stripped = pathlib.Path(to), pathlib.Path(stripped)
    if (to / "about.json").exists():
        return to
    to.mkdir(parents=True, exist_ok=True)
    tensors = safetensors_read(pathlib.Path(folder) / "model.safetensors")
    for kind, rows in json.loads((stripped / RECIPE).read_text()).items():
        with open(to / f"{kind}.bin", "wb") as f:
            for r in rows:
                array = made(tensors, r["from"], r["turned"])
                f.seek(r["offset"])
                f.write((rounded(array, *r["round"], r["dtype"]) if "round" in r else array).tobytes())
        shutil.copy(stripped / f"{kind}.onnx", to)
    shutil.copy(stripped / "about.json", to)
    return to
