# SPDX-License-Identifier: MIT
"""Which model answered: every reply names a digest of the content of the model's files and of what
decides how they are used; a model that comes back from other files than it left with is refused.
Models that leave do so for another one in a pool that has room for one and a half.  Only the
standard library."""
import hashlib
import json
import os
import shutil
import struct
import threading

import serve_box
import serve_models
from serve_test import Server, check, done, part

HERE = os.getcwd()
TEXTS = ["the cat sat", "a quick brown fox", "hello"]


def path(*names):
    return os.path.join(HERE, *names)


def half(name, dtype, shape, raw):
    """Other weights of the same shape: the first matrix, half as large."""
    if not name.endswith("word_embeddings.weight"):
        return shape, raw
    form = {"F32": "f", "F16": "e"}[dtype]
    n = len(raw) // struct.calcsize(form)
    return shape, struct.pack(f"<{n}{form}", *(x * 0.5 for x in struct.unpack(f"<{n}{form}", raw)))


def digest_of(r):
    return r.getheader("x-stoker-model", "@").rpartition("@")[2]


def vectors(s, model, texts=TEXTS):
    """Status, vectors or error, digest."""
    status, body, r = s.ask("/v1/embeddings", {"model": model, "input": texts})
    return status, [x["embedding"] for x in body["data"]] if status == 200 else body["error"], digest_of(r)


def listed(s, name):
    return next((m for m in s.ask("/v1/pools")[1]["models"] if m["name"] == name), None)


def shell_digest(folder, names):
    """What `sha256sum NAMES | sha256sum` says there."""
    lines = b""
    for name in sorted(names):
        with open(os.path.join(folder, name), "rb") as f:
            lines += (hashlib.sha256(f.read()).hexdigest() + "  " + name + "\n").encode()
    return hashlib.sha256(lines).hexdigest()


def pool_for(folder, *more):
    """Bytes that hold one such model, not two."""
    s = Server("-m", "x=" + folder, "--dtype", "f32", *more)
    bytes_ = listed(s, "x")["bytes"]
    s.stop()
    return bytes_ * 3 // 2


def where_it_stands(folder, ranker):
    """Every reply says it, and says the same."""
    s = Server("-m", "v=" + folder, "-m", "r=" + ranker, "-m", "odd é%=" + folder, "--dtype", "f32", "--batch-dir", path("batches"))
    want = listed(s, "v")["digest"]
    check("a digest is 16 hexadecimal digits", len(want) == 16 and int(want, 16) >= 0, want)
    status, body, r = s.ask("/v1/embeddings", {"model": "v", "input": TEXTS})
    check("/v1/embeddings: header and system_fingerprint", r.getheader("x-stoker-model") == "v@" + want
          and body["system_fingerprint"] == "fp_" + want, r.getheader("x-stoker-model"), body.get("system_fingerprint"))
    for route, ask in (("/embed", {"inputs": "a", "model": "v"}), ("/v2/embed", {"texts": ["a"], "model": "v", "input_type": "classification", "embedding_types": ["float"]}),
                       ("/embedding", {"content": "a", "model": "v"}), ("/tokenize", {"inputs": "a", "model": "v"}),
                       ("/embed", {"inputs": "a", "model": "v", "encoding_format": "octets"})):
        status, body, r = s.ask(route, ask)
        check(f"{route}: header", status == 200 and r.getheader("x-stoker-model") == "v@" + want, status, r.getheader("x-stoker-model"))
    rank = listed(s, "r")["digest"]
    check("another model has another digest", rank != want, rank)
    for route, ask in (("/v1/rerank", {"query": "a", "documents": ["b"], "model": "r"}), ("/reranking", {"query": "a", "documents": ["b"], "model": "r"}),
                       ("/v1/score", {"text_1": "a", "text_2": ["b"], "model": "r"}), ("/classify", {"input": ["a"], "model": "r"})):
        status, body, r = s.ask(route, ask)
        check(f"{route}: header and system_fingerprint", digest_of(r) == rank and body.get("system_fingerprint") == "fp_" + rank, status, body)
    status, body, r = s.ask("/v1/embeddings", {"model": "v", "input": "a", "dimensions": 100000})
    check("an error of a model names it too", status == 400 and digest_of(r) == want, status, r.getheader("x-stoker-model"))
    r = s.ask("/v1/embeddings", {"model": "odd é%", "input": "a"})[2]
    check("a name that is no plain ASCII is written as in a URL", r.getheader("x-stoker-model") == "odd%20%C3%A9%25@" + want, r.getheader("x-stoker-model"))
    one = s.ask("/v1/models/v")[1]["stoker"]
    info = s.ask("/info?model=v")[1]
    check("/v1/models and /info have it, and the sum of the files", one["digest"] == want and info["digest"] == want
          and info["model_sha"] == one["files_sha256"] and len(info["model_sha"]) == 64, one, info)
    check("stoker_model_info has it", s.metric("stoker_model_info", 'model="v"', f'digest="{want}"', 'dtype="f32"') == 1)
    status, lines, _ = s.ask("/v1/embeddings/stream?model=v", b'"a"\n"b"\n', method="POST")
    lines = [json.loads(x) for x in lines.splitlines()]
    check("every line of a stream has it", [x["system_fingerprint"] for x in lines] == ["fp_" + want] * 2, lines)
    batch(s, want)
    s.stop()
    return want


def batch(s, want):
    line = json.dumps({"custom_id": "1", "method": "POST", "url": "/v1/embeddings", "body": {"model": "v", "input": "a"}})
    form = (f'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\nContent-Disposition: form-data; name="file"; '
            f'filename="f.jsonl"\r\n\r\n{line}\n\r\n--b--\r\n')
    _, file, _ = s.ask("/v1/files", form.encode(), {"Content-Type": "multipart/form-data; boundary=b"})
    _, b, _ = s.ask("/v1/batches", {"input_file_id": file["id"], "endpoint": "/v1/embeddings", "completion_window": "24h"}, {"Content-Type": "application/json"})
    serve_box.wait(lambda: s.ask("/v1/batches/" + b["id"])[1]["status"] in ("completed", "failed"))
    out = s.ask("/v1/files/%s/content" % s.ask("/v1/batches/" + b["id"])[1]["output_file_id"])[1]
    out = out if isinstance(out, dict) else json.loads(out)
    check("a line of a batch has it", out["response"]["body"]["system_fingerprint"] == "fp_" + want, out)


def what_counts(folder, want):
    """Content and use count; folders, times, links and other files do not."""
    names = ["config.json", "model.safetensors", "tokenizer.json", "config_sentence_transformers.json"]
    names += [n for n in ("modules.json", "1_Pooling/config.json", "tokenizer_config.json", "sentence_bert_config.json", "2_Normalize/config.json")
              if os.path.exists(os.path.join(folder, n))]
    there = shutil.copytree(folder, path("elsewhere"))
    for name in names:
        os.utime(os.path.join(there, name), (1, 1))
    for name in ("README.md", "data_config.json", "other.safetensors"):
        with open(os.path.join(there, name), "w") as f:
            f.write("{}")
    blobs = path("cache", "blobs")
    snap = path("cache", "snapshots", "0123456789abcdef0123456789abcdef01234567")
    os.makedirs(blobs)
    for i, name in enumerate(names):  # as the Hub's cache has them
        os.makedirs(os.path.dirname(os.path.join(snap, name)), exist_ok=True)
        shutil.copyfile(os.path.join(folder, name), os.path.join(blobs, str(i)))
        os.symlink(os.path.relpath(os.path.join(blobs, str(i)), os.path.dirname(os.path.join(snap, name))), os.path.join(snap, name))
    s = Server("-m", "there=" + there, "-m", "snap=" + snap, "--dtype", "f32")
    check("another folder, times and files beside it: the same digest", listed(s, "there")["digest"] == want, listed(s, "there"))
    check("links into a cache: the same digest", listed(s, "snap")["digest"] == want, listed(s, "snap"))
    check("files_sha256 is what sha256sum says", listed(s, "there")["files_sha256"] == shell_digest(folder, names), listed(s, "there"), names)
    s.stop()
    digests = {want}
    for name, args in (("bf16", ("--dtype", "bf16")), ("cls", ()), ("short", ()), ("weights", ()), ("tokenizer", ())):
        to = shutil.copytree(folder, path("as-" + name))
        if name == "weights":
            serve_models.change(to, half)
        if name == "tokenizer":
            with open(os.path.join(to, "tokenizer.json"), "a") as f:
                f.write(" ")
        s = Server("-m", "x=" + to, *(args or ("--dtype", "f32")))
        if name in ("cls", "short"):
            more = {"pooling": "cls"} if name == "cls" else {"max_tokens": 16}
            s.ask("/v1/models/load", {"model": "x", "source": to, "dtype": "f32", **more})
            serve_box.wait(lambda: listed(s, "x")["version"] == 2)
        digests.add(listed(s, "x")["digest"])
        s.stop()
    check("type, pooling, length, weights and tokenizer each give another", len(digests) == 6, digests)


class Away:
    """A server whose model x left for y."""

    def __init__(self, folder, bytes_):
        self.x, self.y = shutil.copytree(folder, path("x")), shutil.copytree(folder, path("y"))
        self.s = Server("-m", "x=" + self.x, "--dtype", "f32", "--pool", str(bytes_))
        self.before = vectors(self.s, "x")
        self.s.ask("/v1/models/load", {"model": "y", "source": self.y, "dtype": "f32"})
        serve_box.wait(lambda: (listed(self.s, "y") or {}).get("state") == "ready")

    def leave(self):
        serve_box.wait(lambda: vectors(self.s, "y")[0] == 200, 10)
        return listed(self.s, "x")["state"] == "away"

    def end(self):
        rc, text = self.s.stop()
        shutil.rmtree(self.x)
        shutil.rmtree(self.y)
        return text


def overwrite(name, how):
    """Other bytes in the same file, of the same length, with the time it had."""
    st = os.stat(name)
    with open(name, "r+b") as f:
        data = f.read()
        f.seek(0)
        f.write(how(data))
    os.utime(name, ns=(st.st_atime_ns, st.st_mtime_ns))


def flip(data):
    return data[:-2] + bytes([data[-2] ^ 1]) + data[-1:]


def same_files_come_back(folder, bytes_):
    a = Away(folder, bytes_)
    check("a model leaves a full pool of the machine's memory", a.leave(), listed(a.s, "x"))
    check("and comes back as it was", vectors(a.s, "x") == a.before)
    a.leave()
    for name in os.listdir(a.x):  # other inodes, other times, the same bytes
        p = os.path.join(a.x, name)
        if os.path.isfile(p):
            shutil.copyfile(p, p + ".new")
            os.rename(p + ".new", p)
    check("files that were copied anew are the same model", vectors(a.s, "x") == a.before)
    check("of the same version", listed(a.s, "x")["version"] == 1, listed(a.s, "x"))
    check("and nothing was refused", a.s.metric("stoker_model_changes_refused_total") == 0)
    a.end()


def changed_files_are_refused(folder, bytes_):
    a = Away(folder, bytes_)
    cases = (("model.safetensors", lambda p: overwrite(p, flip)), ("tokenizer.json", lambda p: overwrite(p, lambda d: d.replace(b"the", b"teh", 1))),
             ("config.json", lambda p: overwrite(p, lambda d: d.replace(b"1e-12", b"1e-11") if b"1e-12" in d else d.replace(b" ", b"\n", 1))),
             ("model.safetensors", lambda p: os.truncate(p, os.path.getsize(p) // 2)), ("model.safetensors", os.unlink), ("tokenizer.json", lambda p: open(p, "w").close()))
    for i, (name, how) in enumerate(cases):
        file = os.path.join(a.x, name)
        shutil.copyfile(file, path("kept"))
        check(f"case {i}: it is away", a.leave(), listed(a.s, "x"))
        how(file)
        status, error, _ = vectors(a.s, "x")
        check(f"case {i}: '{name}' of other content is refused with its name and what to do", status == 503 and error["code"] == "model_changed"
              and all(w in error["message"] for w in ("'x'", f"'{name}'", "/v1/models/load")), status, error)
        check(f"case {i}: the one that was there stays", listed(a.s, "y")["state"] == "ready", listed(a.s, "y"))
        check(f"case {i}: it is counted", a.s.metric("stoker_model_changes_refused_total", 'model="x"') > i)
        shutil.copyfile(path("kept"), file)
        serve_box.wait(lambda: vectors(a.s, "x")[0] == 200, 10)
        check(f"case {i}: put back, it is the model that it was", vectors(a.s, "x") == a.before)
    status, body, _ = a.s.ask("/embed", {"inputs": "a", "model": "x"})
    check("it is well at other routes", status == 200, body)
    text = a.end()
    check("the log tells it", "model 'x': file 'tokenizer.json' is not the one the model was loaded from" in text, text)


def new_files_are_refused(folder, bytes_):
    """Files that were not there and would be read."""
    a = Away(folder, bytes_)
    shutil.copyfile(os.path.join(a.x, "model.safetensors"), os.path.join(a.x, "model-00001-of-00001.safetensors"))
    with open(os.path.join(a.x, "model.safetensors"), "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        tensors = [n for n in json.loads(f.read(size)) if n != "__metadata__"]
    a.leave()
    with open(os.path.join(a.x, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {}, "weight_map": {n: "model-00001-of-00001.safetensors" for n in tensors}}, f)
    status, error, _ = vectors(a.s, "x")
    check("weights that stand in another file now are refused", status == 503 and error["code"] == "model_changed", status, error)
    os.unlink(os.path.join(a.x, "model.safetensors.index.json"))
    serve_box.wait(lambda: vectors(a.s, "x")[0] == 200, 10)
    check("without them it is as it was", vectors(a.s, "x") == a.before)
    a.end()


def a_load_accepts(folder, bytes_):
    a = Away(folder, bytes_)
    a.leave()
    serve_models.change(a.x, half)
    check("changed weights are refused", vectors(a.s, "x")[0] == 503)
    a.s.ask("/v1/models/load", {"model": "x", "source": a.x, "dtype": "f32"})
    serve_box.wait(lambda: listed(a.s, "x")["state"] == "ready")
    status, rows, digest = vectors(a.s, "x")
    check("a load takes them, under another digest", status == 200 and rows != a.before[1] and digest != a.before[2], status, digest)
    a.leave()
    check("which comes back from then on", vectors(a.s, "x") == (status, rows, digest))
    a.end()


def while_it_is_here(folder):
    """What is loaded does not change by its files; a swap under load says which is which."""
    x = shutil.copytree(folder, path("live"))
    s = Server("-m", "x=" + x, "--dtype", "f32")
    before = vectors(s, "x")
    serve_models.change(x, half)
    check("a model that is here answers as before, under its digest", vectors(s, "x") == before)
    seen, stop, lock = {}, threading.Event(), threading.Lock()

    def ask():
        while not stop.is_set():
            status, rows, digest = vectors(s, "x")
            with lock:
                seen.setdefault((status, digest), set()).add(json.dumps(rows))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for t in threads:
        t.start()
    s.ask("/v1/models/load", {"model": "x", "source": x, "dtype": "f32"})
    serve_box.wait(lambda: listed(s, "x")["version"] == 2)
    serve_box.wait(lambda: len(seen) >= 2)
    stop.set()
    for t in threads:
        t.join()
    check("in a swap every reply's digest is that of its vectors", len(seen) == 2 and all(k[0] == 200 and len(v) == 1 for k, v in seen.items()),
          {k: len(v) for k, v in seen.items()})
    after = vectors(s, "x")[2]
    s.ask("/v1/models/load", {"model": "y", "source": folder, "dtype": "f32"})
    serve_box.wait(lambda: listed(s, "y")["state"] == "ready")
    other = vectors(s, "y")[2]
    s.ask("/v1/models/unload", {"model": "y"})
    said = [f"model 'x': digest {after.split('@')[-1]} now, not {before[2].split('@')[-1]} any more", f"model 'y' is loaded, digest {other.split('@')[-1]}", "model 'y' is unloaded"]
    check("the log says when a digest changed, and what was loaded and unloaded", serve_box.wait(lambda: all(x in s.text for x in said), 10), s.text, said)
    s.stop()


def a_link_that_turns(folder):
    """A link to the folder that is turned all the time: each load is of one folder, as a whole."""
    one, two = shutil.copytree(folder, path("one")), shutil.copytree(folder, path("two"))
    serve_models.change(two, half)
    s = Server("-m", "one=" + one, "-m", "two=" + two, "--dtype", "f32")
    known = {d: rows for _, rows, d in (vectors(s, "one"), vectors(s, "two"))}
    stop = threading.Event()
    os.symlink(one, path("link"))

    def turn():
        i = 0
        while not stop.is_set():
            i += 1
            os.symlink((one, two)[i % 2], path("link.new"))
            os.replace(path("link.new"), path("link"))

    t = threading.Thread(target=turn)
    t.start()
    loads = [s.ask("/v1/models/load?wait", {"model": "x", "source": path("link"), "dtype": "f32"})[0] for _ in range(20)]
    got = vectors(s, "x")
    stop.set()
    t.join()
    check("a link to the folder is followed once a load", loads == [200] * 20, loads)
    check("and its digest is that of its vectors", known.get(got[2]) == got[1], got[0], got[2])
    s.stop()


folder, ranker = serve_models.vectors(path("vectors")), serve_models.ranker(path("ranker"))
want = where_it_stands(folder, ranker)
part(what_counts, folder, want)
size = pool_for(folder)
for fn in (same_files_come_back, changed_files_are_refused, new_files_are_refused, a_load_accepts):
    part(fn, folder, size)
part(while_it_is_here, folder)
part(a_link_that_turns, folder)
done()
