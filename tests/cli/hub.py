# SPDX-License-Identifier: MIT
"""TAP of models from a fake Hub: hub.py STOKER, in a folder with `bert` and `torch`.  Only the standard library."""
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import time

import fake_hub
import tls_box
from serve_box import wait
from serve_test import STOKER, Server, check, done, part, skip

COMMIT, OLDER, TOKEN = "c0ffee" * 6 + "c0ff", "0123456789" * 4, "hf_" + "x" * 34
NAME, FOLDER = "acme/tiny-bert", "models--acme--tiny-bert"
MODEL = ("1_Pooling/config.json", "config.json", "model.safetensors", "modules.json", "tokenizer.json")
JUNK = {"README.md": b"# no\n", "onnx/model.onnx": b"o" * 9000, "pytorch_model.bin": b"p" * 9000, "tf_model.h5": b"t" * 9000,
        "openvino/openvino_model.bin": b"v" * 9000, "train_script.py": b"import os\n", ".gitattributes": b"*.bin\n", "2_Other/config.json": b"{}",
        "expected.json": b"{}"}
cache_count = 0


def fresh():
    """A cache of its own."""
    global cache_count
    cache_count += 1
    return os.path.abspath(f"home{cache_count}")


def env_of(hub, home, **more):
    base = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING", "SSL_", "CURL_", "TRANSFORMERS"))}
    return {**base, "HF_HOME": home, "HOME": os.path.abspath("nobody"), "HF_ENDPOINT": hub.url if hub else "http://127.0.0.1:1", **more}


def stoker(hub, home, *args, **more):
    return subprocess.run([STOKER, *args], capture_output=True, text=True, timeout=120, env=env_of(hub, home, **more))


def get(hub, home, *args, name=NAME, **more):
    return stoker(hub, home, "model", "get", name, *args, **more)


def words(p):
    return re.sub(r"\s+", " ", p.stderr)


def new_hub(crt=None, key=None, **repo):
    hub = fake_hub.Hub(crt, key)
    hub.repos[NAME] = fake_hub.Repo("bert", COMMIT, **repo)
    hub.repos[NAME].files.update(JUNK)
    return hub


def snapshot(home, commit=COMMIT, folder=FOLDER):
    return pathlib.Path(home, "hub", folder, "snapshots", commit)


def names(folder):
    return tuple(sorted(str(p.relative_to(folder)) for p in pathlib.Path(folder).rglob("*") if p.is_file()))


def layout():
    hub, home = new_hub(refs=["v1", "refs/pr/7"]), fresh()
    repo = hub.repos[NAME]
    p = get(hub, home)
    s = snapshot(home)
    check("a model is fetched into the Hub's cache, and its folder printed", p.returncode == 0 and p.stdout == f"{s}\n", p.stdout, p.stderr)
    check("only the files that a model needs", names(s) == MODEL, names(s))
    check("every file is a relative link to the blob of its digest",
          all(os.readlink(s / n) == "../" * n.count("/") + "../../blobs/" + repo.etag(n) for n in MODEL), [os.readlink(s / n) for n in MODEL])
    check("their bytes are right", all((s / n).read_bytes() == repo.files[n] for n in MODEL))
    check("the ref is the commit, without a line feed", pathlib.Path(home, "hub", FOLDER, "refs/main").read_text() == COMMIT)
    check("no part of a file is left", not list(pathlib.Path(home, "hub", FOLDER, "blobs").glob("*.incomplete")))
    check("it says what came", "5 files" in p.stderr and COMMIT in p.stderr, p.stderr)
    hub.forget()
    p = get(hub, home)
    check("a second time nothing is downloaded", p.returncode == 0 and not hub.count("GET", "/resolve/") and "already" in p.stderr, p.stderr, hub.asked)
    p = stoker(hub, home, "model", "info", NAME)
    check("other commands take the name", p.returncode == 0 and "384" not in p.stderr, p.stderr)
    hub.forget()
    p = stoker(None, home, "model", "verify", NAME)
    check("also without the Hub", p.returncode == 0, p.stderr)
    p = get(hub, home, "--revision", "v1")
    check("a tag is a ref of its own", p.returncode == 0 and pathlib.Path(home, "hub", FOLDER, "refs/v1").read_text() == COMMIT, p.stderr)
    p = get(hub, home, "--revision", "refs/pr/7")
    check("so is a pull request", p.returncode == 0 and pathlib.Path(home, "hub", FOLDER, "refs/refs/pr/7").read_text() == COMMIT, p.stderr)
    p = get(hub, home, "--revision", COMMIT)
    check("a commit needs none", p.returncode == 0 and not pathlib.Path(home, "hub", FOLDER, "refs", COMMIT).exists(), p.stderr)
    p = stoker(None, home, "model", "info", f"{NAME}@v1")
    check("NAME@REVISION names one", p.returncode == 0, p.stderr)
    repo.files["config.json"] = repo.files["config.json"] + b"\n"
    repo.commit = repo.refs["main"] = OLDER
    repo.refs[OLDER] = OLDER
    hub.forget()
    p = get(hub, home)
    s = snapshot(home, OLDER)
    check("a new commit: what changed is fetched, the rest is linked", p.stdout == f"{s}\n" and names(s) == MODEL and hub.count("GET", "/resolve/") == 1,
          p.stderr, hub.asked)
    p = get(hub, home, "-o", "copy")
    check("-o: a folder of its own, with sums", p.returncode == 0 and p.stdout == "copy\n" and names("copy") == tuple(sorted((*MODEL, "SHA256SUMS")))
          and not any(q.is_symlink() for q in pathlib.Path("copy").rglob("*")), p.stderr)
    p = stoker(None, home, "model", "verify", "copy")
    check("-o: which hold", p.returncode == 0, p.stdout, p.stderr)
    p = get(hub, home, "-o", "copy")
    check("-o: what is there stays", p.returncode == 0 and "already" in p.stderr, p.stderr)
    p = get(hub, home, "-o", "copy", "--force")
    check("-o: unless --force", p.returncode == 0 and "already" not in p.stderr.replace("in the cache already", ""), p.stderr)
    s = snapshot(home, OLDER) / "model.safetensors"
    blob = s.resolve()
    good = blob.read_bytes()
    blob.write_bytes(bytes(len(good)))
    get(hub, home)
    before = blob.read_bytes() == good
    p = get(hub, home, "--force")
    check("--force finds a damaged blob and mends it", not before and p.returncode == 0 and s.read_bytes() == good, p.stderr)


def places():
    hub = new_hub()
    home = fresh()
    for more, where in (({"HF_HUB_CACHE": os.path.abspath("own")}, "own"), ({"HF_HOME": "", "XDG_CACHE_HOME": os.path.abspath("xdg")}, "xdg/huggingface/hub"),
                        ({"HF_HOME": ""}, "nobody/.cache/huggingface/hub")):
        p = get(hub, home, **more)
        check(f"the cache is {where} with {' '.join(more)}", p.returncode == 0 and names(f"{where}/{FOLDER}/snapshots/{COMMIT}") == MODEL, p.stderr)


def heads():
    """A server whose list has neither sizes nor digests: each file is asked for."""
    hub, home = new_hub(), fresh()
    hub.blobs = False
    p = get(hub, home)
    check("digests by HEAD where the list has none", p.returncode == 0 and hub.count("HEAD", "/resolve/") == len(MODEL)
          and all((snapshot(home) / n).read_bytes() == hub.repos[NAME].files[n] for n in MODEL), p.stderr)
    check("large files by the digest of the link", os.path.basename(os.readlink(snapshot(home) / "model.safetensors")) == hub.repos[NAME].etag("model.safetensors"))
    hub.renamed["acme/old-name"] = NAME
    p = get(hub, home, name="acme/old-name")
    check("a repository that has another name now", p.returncode == 0 and names(snapshot(home, folder="models--acme--old-name")) == MODEL, p.stderr)
    hub.list_of = lambda doc: dict(doc, siblings=[{"rfilename": s["rfilename"], "size": len(hub.repos[NAME].files[s["rfilename"]]), "blobId": "x"} for s in doc["siblings"]])
    p = get(hub, fresh())
    check("a digest that is none is asked for again", p.returncode == 0, p.stderr)


def resuming():
    hub = new_hub()
    data = hub.repos[NAME].files["model.safetensors"]
    etag = hub.repos[NAME].etag("model.safetensors")
    small = hub.repos[NAME].files["tokenizer.json"]

    def ranges():
        return [h.get("range") for m, p, h, _ in hub.cdn.asked if m == "GET"]

    def right(p, home):
        return p.returncode == 0 and (snapshot(home) / "model.safetensors").read_bytes() == data

    home = fresh()
    hub.faults["model.safetensors"] = [("cut", 30000), ("cut", 20000), ("status", 503), None]
    p = get(hub, home)
    check("a connection that is cut goes on where it broke", right(p, home) and ranges() == [None, "bytes=30000-", "bytes=50000-", "bytes=50000-"], p.stderr, ranges())
    blobs = pathlib.Path(home, "hub", FOLDER, "blobs")

    def again(part, faults=()):
        """What `part` becomes, once the blob is gone."""
        (blobs / etag).unlink(missing_ok=True)
        (blobs / f"{etag}.incomplete").write_bytes(part)
        hub.forget()
        hub.faults["model.safetensors"] = list(faults)
        return get(hub, home)
    p = again(data[:12345])
    check("what an earlier run left is gone on with", right(p, home) and ranges() == ["bytes=12345-"], p.stderr, ranges())
    p = again(data)
    check("what was whole is only put in place", right(p, home) and ranges() == [], p.stderr, ranges())
    p = again(data + b"more")
    check("what is too long begins anew", right(p, home) and ranges() == [None], p.stderr, ranges())
    p = again(b"z" * 500)
    check("what was another file's is found by the sum, and begins anew", right(p, home) and ranges() == ["bytes=500-", None], p.stderr, ranges())
    p = again(data[:500], [("whole", 0)])
    check("a server without ranges sends all of it", right(p, home) and ranges() == ["bytes=500-"], p.stderr, ranges())
    p = again(data[:500], [("status", 416)])
    check("a range that is refused begins anew", right(p, home) and ranges() == ["bytes=500-", None], p.stderr, ranges())
    p = again(b"", [("spoil", 0)])
    check("a file with another digest is refused", p.returncode == 1 and "digest" in words(p) and not (blobs / etag).exists()
          and not list(blobs.glob("*.incomplete")), p.stderr)
    p = again(b"", [("longer", 100)])
    check("a file that is longer than listed is refused", p.returncode == 4 and "longer" in words(p) and not (blobs / etag).exists(), p.stderr)
    p = again(b"", [("cut", 0)] * 20)
    check("one that never comes is given up", p.returncode == 1 and "broke" in words(p), p.returncode, p.stderr)
    check("and leaves no ref that leads to half a model", stoker(None, fresh(), "model", "info", NAME).returncode == 3)
    p = again(data[:30000], [("cut", 10000)] + [("status", 500)] * 20)
    check("what came of it stays for the next time", p.returncode == 1 and (blobs / f"{etag}.incomplete").read_bytes() == data[:40000], p.stderr)
    hub.forget()
    home = fresh()
    part_ = pathlib.Path(home, "hub", FOLDER, "blobs", f"{etag}.incomplete")
    hub.faults["model.safetensors"] = [("hang", 40000)]
    killed = subprocess.Popen([STOKER, "model", "get", NAME], env=env_of(hub, home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait(lambda: part_.exists() and part_.stat().st_size == 40000, 60)
    killed.kill()
    killed.wait()
    hub.forget()
    p = get(hub, home)
    check("after kill -9 it goes on where it was", right(p, home) and ranges() == ["bytes=40000-"], p.stderr, ranges())
    hub.faults.clear()
    home = fresh()
    hub.faults["tokenizer.json"] = [("cut", 100), None]
    p = get(hub, home)
    check("small files too, by git's sum", p.returncode == 0 and (snapshot(home) / "tokenizer.json").read_bytes() == small, p.stderr)
    home = fresh()
    hub.faults["tokenizer.json"] = [("spoil", 0)]
    p = get(hub, home)
    check("whose difference is found", p.returncode == 1 and "tokenizer.json" in words(p) and "digest" in words(p), p.stderr)
    home = fresh()
    hub.faults[f"/api/models/{NAME}/revision/main"] = [("status", 502), ("status", 429), None]
    p = get(hub, home)
    check("a Hub that stumbles is asked again", p.returncode == 0, p.stderr)


def refusals():
    hub = new_hub()
    home = fresh()
    p = get(hub, home, name="acme/no-such")
    check("no such model", p.returncode == 3 and "there is no model 'acme/no-such'" in words(p) and "HF_TOKEN" in words(p), p.stderr)
    p = get(hub, home, "--revision", "v9")
    check("no such revision", p.returncode == 3 and "no revision 'v9'" in words(p), p.stderr)
    for bad in ("acme/..", "acme/x--y", "acme/x.git", "../acme", "acme/x@../y", "acme/x/y", "-a/b", "a/b@-c", "a/" + "b" * 100):
        p = get(hub, home, "--", name=bad) if bad[0] != "-" else stoker(hub, home, "model", "get", "--", bad)
        check(f"'{bad[:20]}' is not a name", p.returncode == 2, p.returncode, p.stderr)
    p = get(hub, home, "--revision", "../../x")
    check("a revision that leads out of the cache is none", p.returncode == 2, p.stderr)
    gated = new_hub(token=TOKEN, gated=True)
    p = get(gated, home)
    check("a gated model: where to ask, and for what", p.returncode == 1 and "is gated" in words(p) and f"{gated.url}/{NAME}" in words(p) and "HF_TOKEN" in words(p), p.stderr)
    p = get(gated, home, HF_TOKEN="hf_other")
    check("a token without access", p.returncode == 1 and "may not read it" in words(p), p.stderr)
    p = get(gated, home, HF_TOKEN=TOKEN)
    check("HF_TOKEN opens it", p.returncode == 0, p.stderr)
    check("the token goes to the Hub, never to the CDN", all(h.get("authorization") == f"Bearer {TOKEN}" for _, _, h, _ in gated.asked[-4:])
          and gated.cdn.asked and not any("authorization" in h for _, _, h, _ in gated.cdn.asked), gated.asked, gated.cdn.asked)
    home = fresh()
    os.makedirs(home)
    pathlib.Path(home, "token").write_text(TOKEN + "\n")
    p = get(gated, home)
    check("so does the token of 'hf auth login'", p.returncode == 0, p.stderr)
    p = get(gated, fresh(), "--token-file", f"{home}/token")
    check("and --token-file", p.returncode == 0, p.stderr)
    p = get(gated, fresh(), HF_TOKEN="two words")
    check("a token with a space is none", p.returncode != 0 and "token" in words(p), p.stderr)
    p = get(None, fresh())
    check("no network: what to do", p.returncode == 1 and "could not connect" in words(p) and "HF_ENDPOINT" in words(p) and "-o DIR" in words(p), p.stderr)
    p = get(None, home)
    check("no network, and the model is in the cache: it is taken, with a warning", p.returncode == 0 and "warning" in words(p)
          and p.stdout == f"{snapshot(home)}\n", p.stderr)
    p = get(None, home, "-o", "of-cache")
    check("and can be copied", p.returncode == 0 and names("of-cache") == tuple(sorted((*MODEL, "SHA256SUMS"))), p.stderr)
    gated.forget()
    p = get(gated, home, HF_HUB_OFFLINE="1")
    check("HF_HUB_OFFLINE: the cache, and nobody is asked", p.returncode == 0 and not gated.asked, p.stderr)
    p = get(gated, fresh(), HF_HUB_OFFLINE="1")
    check("HF_HUB_OFFLINE without it: refused", p.returncode == 3 and "HF_HUB_OFFLINE" in words(p) and not gated.asked, p.stderr)
    p = get(gated, home, HF_ENDPOINT="ftp://x")
    check("an endpoint that is none", p.returncode == 2 and "HF_ENDPOINT" in words(p), p.stderr)
    p = get(None, fresh(), HF_ENDPOINT=gated.cdn.url)
    check("a server that is no Hub", p.returncode != 0, p.stderr)


def hostile():
    hub = new_hub()

    def refused(what, change, code=None):
        hub.list_of = change
        home = fresh()
        p = get(hub, home)
        outside = [str(q) for q in pathlib.Path(home).rglob("*") if "evil" in q.name]
        check(f"a list with {what} is refused", p.returncode not in (0, -11) and (code is None or p.returncode == code) and not outside, p.returncode, p.stderr, outside)
    for bad in ("../evil", "/evil", "a/../../evil", "evil\\x", "evil\u0000x", "", "x/", "evil\nx", "e" * 2000):
        refused(f"the name {bad[:20]!r}", lambda doc, bad=bad: dict(doc, siblings=doc["siblings"] + [{"rfilename": bad, "size": 1, "blobId": "0" * 40}]))
    refused("a commit that is a path", lambda doc: dict(doc, sha="../../../../evil"))
    refused("no commit", lambda doc: {k: v for k, v in doc.items() if k != "sha"})
    refused("no files", lambda doc: {k: v for k, v in doc.items() if k != "siblings"})
    refused("something else", lambda doc: [1, 2, 3])
    refused("too many files", lambda doc: dict(doc, siblings=[{"rfilename": f"f{i}"} for i in range(70000)]), 4)
    refused("a negative size", lambda doc: dict(doc, siblings=[dict(s, size=-5, lfs=None) for s in doc["siblings"]]))
    refused("a size beyond every disk", lambda doc: dict(doc, siblings=[dict(s, size=1 << 62, lfs={"sha256": "0" * 64, "size": 1 << 62}) for s in doc["siblings"]]), 4)
    refused("sizes that are wrong", lambda doc: dict(doc, siblings=[dict(s, size=s["size"] + 1, lfs=None) for s in doc["siblings"]]))
    refused("nothing that is a model", lambda doc: dict(doc, siblings=[{"rfilename": "README.md", "size": 5, "blobId": "0" * 40}]), 3)
    refused("40 MB", lambda doc: dict(doc, more="x" * (40 << 20)), 4)
    hub.list_of = None
    hub.repos[NAME].files["modules.json"] = json.dumps([{"path": "../../../evil"}]).encode()
    p = get(hub, fresh())
    check("modules.json that leads out is refused", p.returncode == 1 and "modules.json" in words(p), p.stderr)
    hub = new_hub()
    path = f"/{NAME}/resolve/{COMMIT}/tokenizer.json"
    hub.faults[path] = [("link", f"{hub.url}{path}")] * 30
    p = get(hub, fresh())
    check("links in a circle end", p.returncode == 4 and "links" in words(p), p.returncode, p.stderr)
    for bad in ("file:///etc/passwd", "ftp://127.0.0.1/x", "http://user:pass@127.0.0.1/x", "gopher://x"):
        hub.faults[path] = [("link", bad)]
        p = get(hub, fresh())
        check(f"a link to {bad[:10]} is not followed", p.returncode == 1, p.returncode, p.stderr)


def torch():
    hub = fake_hub.Hub()
    hub.repos["acme/old"] = fake_hub.Repo("torch/tied-old2", COMMIT)
    hub.repos["acme/old"].files.setdefault("config.json", b"{}")
    home = fresh()
    p = get(hub, home, name="acme/old")
    s = snapshot(home, folder="models--acme--old")
    check("weights of torch alone: fetched, and made safetensors", p.returncode == 0 and (s / "pytorch_model.bin").exists() and (s / "model.safetensors").exists(), p.stderr)
    hub.repos["acme/shards"] = fake_hub.Repo("torch/shards", COMMIT)
    hub.repos["acme/shards"].files.setdefault("config.json", b"{}")
    p = get(hub, home, name="acme/shards")
    s = snapshot(home, folder="models--acme--shards")
    check("also in shards", p.returncode == 0 and (s / "model.safetensors").exists() and len(list(s.glob("pytorch_model-*"))) == 3, p.stderr)


def serving():
    hub, home = new_hub(), fresh()
    s = Server("-m", NAME, env=env_of(hub, home))
    st, v, _ = s.ask("/v1/embeddings", {"input": "hello", "model": NAME})
    check("serve -m ORG/NAME fetches it and answers by that name", st == 200 and v["data"][0]["embedding"], st, v, s.text)
    st, v, _ = s.ask("/v1/embeddings", {"input": "hello", "model": "tiny-bert"})
    check("and by the short one", st == 200, st, v)
    s.stop()
    hub.forget()
    s = Server("-m", f"emb={NAME}@main", env=env_of(None, home))
    st, v, _ = s.ask("/v1/embeddings", {"input": "hello", "model": "emb"})
    check("a second time it starts without the Hub", st == 200 and not hub.asked, st, v, s.text)
    s.stop()
    p = stoker(None, fresh(), "serve", "-m", NAME, "--port", "0")
    check("without it and without a network it says what to do", p.returncode == 1 and "HF_ENDPOINT" in words(p), p.stderr)
    pathlib.Path("site.yaml").write_text(f"models: {{emb: {{kind: embedding, source: {NAME}, revision: main}}}}\n")
    s = Server("-f", "site.yaml", env=env_of(hub, fresh()))
    st, v, _ = s.ask("/v1/embeddings", {"input": "hello", "model": "emb"})
    check("a spec's source may be one", st == 200, st, v, s.text)
    s.stop()


def https():
    if not tls_box.here():
        skip("the Hub by https", "openssl is not here")
        return
    tls_box.authority("ca")
    tls_box.certificate("good", "ca")
    hub, home = new_hub("good.crt", "good.key", token=TOKEN), fresh()
    p = get(hub, home, "--ca-file", "ca.pem", HF_TOKEN=TOKEN)
    check("the Hub by https", p.returncode == 0 and names(snapshot(home)) == MODEL, p.stderr)
    check("no token to the CDN", hub.cdn.asked and not any("authorization" in h for _, _, h, _ in hub.cdn.asked), hub.cdn.asked)
    p = get(hub, fresh(), HF_TOKEN=TOKEN)
    check("without trust nothing is sent", p.returncode == 1 and "not trusted" in words(p), p.stderr)
    p = stoker(None, home, "serve", "-m", "bert", "--try", "--port", "0", "--tls-cert", "good.crt", "--tls-key", "good.key")
    check("serve --try with a certificate", p.returncode == 0 and p.stdout.startswith("200 in "), p.stdout, p.stderr)
    plain = tls_box.Web(lambda h: h.reply(200, hub.repos[NAME].files["model.safetensors"]))
    hub.cdn_url = plain.url
    p = get(hub, fresh(), "--ca-file", "ca.pem", HF_TOKEN=TOKEN)
    check("a link from https to http is not followed", p.returncode == 1 and "from https to http" in words(p) and not plain.asked, p.stderr)


def together():
    """Two at once: one downloads, the other waits for it."""
    hub, home = new_hub(), fresh()
    many = [subprocess.Popen([STOKER, "model", "get", NAME], env=env_of(hub, home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    outs = [p.communicate(timeout=120) + (p.returncode,) for p in many]
    check("four at once all have it", all(rc == 0 and out == f"{snapshot(home)}\n" for out, _, rc in outs), outs)
    check("and each file was fetched once", hub.count("GET", "/resolve/") == len(MODEL), hub.count("GET", "/resolve/"))


def bar():
    """On a terminal a bar, which is gone at the end."""
    hub, home = new_hub(), fresh()
    main, side = pty.openpty()
    p = subprocess.Popen([STOKER, "model", "get", NAME], env=env_of(hub, home, TERM="xterm"), stdout=subprocess.PIPE, stderr=side, text=True)
    os.close(side)
    text = b""
    try:
        while piece := os.read(main, 65536):
            text += piece
    except OSError:
        pass  # how a terminal ends
    out = p.communicate(timeout=60)[0]
    text = text.decode()
    check("on a terminal a bar with files, and the folder on stdout", p.returncode == 0 and out == f"{snapshot(home)}\n" and "100%" in text and "5 of 5 files" in text, text)
    check("which is gone at the end", text.rstrip().endswith(f"commit {COMMIT}") and "\r\x1b[K" in text, text)


def library():
    os.makedirs("nolib", exist_ok=True)
    for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
        pathlib.Path("nolib", name).write_text("not a library\n")
    p = get(new_hub(), fresh(), LD_LIBRARY_PATH=os.path.abspath("nolib"))
    check("without libcurl it is named", p.returncode == 3 and "libcurl" in words(p) and "Install" in words(p), p.stderr)


for one in (layout, places, heads, resuming, refusals, hostile, torch, serving, https, together, bar, library):
    part(one)
done()
