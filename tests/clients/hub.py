# SPDX-License-Identifier: MIT
"""TAP of one cache for huggingface_hub and for us: hub.py STOKER, in a folder with `bert`."""
import os
import pathlib
import subprocess
import sys
import threading

COMMIT, NEXT = "c0ffee" * 6 + "c0ff", "0123456789" * 4
NAME, FOLDER = "acme/tiny-bert", "models--acme--tiny-bert"
for name in [k for k in os.environ if k.startswith(("HF_", "HUGGING"))]:
    del os.environ[name]

import fake_hub  # noqa: E402
from serve_test import STOKER, check, done, part  # noqa: E402

hub = fake_hub.Hub()
hub.repos[NAME] = fake_hub.Repo("bert", COMMIT, refs=["v1"])
hub.repos[NAME].files.update({"README.md": b"# a model\n", "onnx/model.onnx": b"o" * 9000})
os.environ.update(HF_ENDPOINT=hub.url, HF_HOME=os.path.abspath("home"), HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_PROGRESS_BARS="1",
                  HF_HUB_DISABLE_XET="1")
import huggingface_hub  # noqa: E402  after the environment, which it reads once
from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download, try_to_load_from_cache  # noqa: E402
from huggingface_hub.errors import LocalEntryNotFoundError  # noqa: E402

MODEL = ("1_Pooling/config.json", "config.json", "model.safetensors", "modules.json", "tokenizer.json")


def get(*args, **env):
    return subprocess.run([STOKER, "model", "get", NAME, *args], capture_output=True, text=True, timeout=120, env=dict(os.environ, **env))


def links(folder):
    return {str(p.relative_to(folder)): os.readlink(p) for p in pathlib.Path(folder).rglob("*") if p.is_symlink()}


def theirs_then_ours():
    os.environ["HF_HOME"] = os.path.abspath("first")
    cache = os.path.abspath("first/hub")
    s = snapshot_download(NAME, cache_dir=cache)
    check(f"huggingface_hub {huggingface_hub.__version__} downloads from the fake Hub", (pathlib.Path(s) / "model.safetensors").exists(), os.listdir(s))
    before = links(s)
    hub.forget()
    p = get()
    check("what it downloaded is ours too: the same folder, no file asked for", p.returncode == 0 and p.stdout == s + "\n"
          and not hub.count("GET", "/resolve/"), p.stdout, p.stderr, hub.asked)
    check("its links stay as they are", links(s) == before)
    p = subprocess.run([STOKER, "model", "info", NAME], capture_output=True, text=True, env=dict(os.environ, HF_HUB_OFFLINE="1"))
    check("and is served from there", p.returncode == 0, p.stderr)


def ours_then_theirs():
    os.environ["HF_HOME"] = os.path.abspath("second")
    cache = os.path.abspath("second/hub")
    p = get()
    s = p.stdout.strip()
    check("we fetch", p.returncode == 0, p.stderr)
    check("our links are those that it makes", links(s) == {k: v for k, v in links(f"first/hub/{FOLDER}/snapshots/{COMMIT}").items() if k in MODEL}, links(s))
    hub.forget()
    for name in MODEL:
        found = try_to_load_from_cache(NAME, name, cache_dir=cache)
        check(f"it finds {name} in the cache", found == f"{s}/{name}", found)
    path = hf_hub_download(NAME, "model.safetensors", cache_dir=cache)
    check("its download takes our file", path == f"{s}/model.safetensors" and not hub.count("GET", "/resolve/"), hub.asked)
    check("also with no network", hf_hub_download(NAME, "config.json", cache_dir=cache, local_files_only=True) == f"{s}/config.json")
    all_ = snapshot_download(NAME, cache_dir=cache)
    ours = [n for n in MODEL if hub.count("GET", f"/{n}") or hub.count("GET", hub.repos[NAME].etag(n))]
    check("its snapshot is our folder, with what we left out added", all_ == s and not ours and (pathlib.Path(s) / "onnx/model.onnx").exists(), ours, hub.asked)
    scan = scan_cache_dir(cache)
    check("its look over the cache has no complaint", not scan.warnings and [r.repo_id for r in scan.repos] == [NAME]
          and [list(r.refs) for r in list(scan.repos)[0].revisions] == [["main"]], scan)
    p = get("--revision", "v1")
    check("a tag of ours", p.returncode == 0 and hf_hub_download(NAME, "config.json", revision="v1", cache_dir=cache, local_files_only=True) == f"{s}/config.json",
          p.stderr)


def updates():
    """A new commit, fetched by the one, found by the other, both ways."""
    os.environ["HF_HOME"] = os.path.abspath("third")
    cache = os.path.abspath("third/hub")
    repo = hub.repos[NAME]
    p = get()
    repo.commit = repo.refs["main"] = NEXT
    repo.refs[NEXT] = NEXT
    repo.files["config.json"] += b"\n"
    s = snapshot_download(NAME, cache_dir=cache, allow_patterns=list(MODEL))
    check("its newer commit", s.endswith(NEXT) and p.returncode == 0, s)
    hub.forget()
    p = get()
    check("is ours", p.stdout == s + "\n" and not hub.count("GET", "/resolve/"), p.stdout, p.stderr, hub.asked)
    repo.commit = repo.refs["main"] = "ab" * 20
    repo.refs["ab" * 20] = "ab" * 20
    p = get()
    s = hf_hub_download(NAME, "config.json", cache_dir=cache, local_files_only=True)
    check("our newer commit is its", s.startswith(p.stdout.strip() + "/"), s, p.stdout, p.stderr)


def together():
    """Both at once on an empty cache: neither breaks the other's files."""
    os.environ["HF_HOME"] = os.path.abspath("fourth")
    cache = os.path.abspath("fourth/hub")
    got = []
    t = threading.Thread(target=lambda: got.append(snapshot_download(NAME, cache_dir=cache)))
    t.start()
    p = get()
    t.join()
    s = p.stdout.strip()
    check("both at once have one folder", p.returncode == 0 and got == [s], p.stderr, got)
    check("with the right bytes", all((pathlib.Path(s) / n).read_bytes() == hub.repos[NAME].files[n] for n in MODEL))


def leftovers():
    """A part that a download of the older kind left is gone on with; what is half there is not taken for a model."""
    os.environ["HF_HOME"] = os.path.abspath("fifth")
    cache = os.path.abspath("fifth/hub")
    repo = hub.repos[NAME]
    hf_hub_download(NAME, "config.json", cache_dir=cache)
    p = subprocess.run([STOKER, "model", "info", NAME], capture_output=True, text=True, env=dict(os.environ))
    check("one file of it is not the model", p.returncode == 3 and "model get" in p.stderr, p.stderr)
    etag = repo.etag("model.safetensors")
    part_ = pathlib.Path(cache, FOLDER, "blobs", etag + ".incomplete")
    part_.write_bytes(repo.files["model.safetensors"][:777])
    hub.forget()
    p = get()
    check("a part is gone on with", p.returncode == 0 and [h.get("range") for _, _, h, _ in hub.cdn.asked] == ["bytes=777-"], p.stderr, hub.cdn.asked)
    try:
        found = snapshot_download(NAME, cache_dir=cache, local_files_only=True, allow_patterns=list(MODEL))
    except LocalEntryNotFoundError as e:
        found = repr(e)
    check("and then it has the model without a network", found == p.stdout.strip(), found, p.stdout)


for one in (theirs_then_ours, ours_then_theirs, updates, together, leftovers):
    part(one)
done()
