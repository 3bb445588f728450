# SPDX-License-Identifier: MIT
"""TAP of operating `stoker serve`: serve_ops.py STOKER PLUGIN-DIR PROMPTS.json, in a folder with the
models bert, bert-score and bert-joined.  The plug-in is a device of the name cuda that fails while a
file exists (tests/plugin/fake_engine.c)."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

from serve_test import Server, check, done, embed, run, skip

PLUGIN, PROMPTS = sys.argv[2], json.load(open(sys.argv[3]))
FAILS = os.path.abspath("fails")
ENV = dict(STOKER_PLUGIN_DIR=PLUGIN, FAKE_DEVICE_FAILS=FAILS)
TEXTS = ["hello world", "a", "the quick brown fox", "hello hello hello world"]


def fail(numbers=""):
    pathlib.Path("fails.new").write_text(numbers)
    os.replace("fails.new", FAILS)


def heal():
    pathlib.Path(FAILS).unlink(missing_ok=True)


def spec(name, models, more=""):
    """A spec with these models: {name: {key: value}}; returns its path."""
    text = "schema: stoker.spec/1\n# of a test\nmodels:\n"
    for model, keys in models.items():
        text += f"  {model}:\n" + "".join(f"    {k}: {v}\n" for k, v in keys.items())
    pathlib.Path(name).write_text(text + more)
    return name


def model(kind="embedding", source="bert", **more):
    return dict(source=os.path.abspath(source), kind=kind, **more)


def until(ready, seconds=20):
    end = time.time() + seconds
    while time.time() < end:
        if ready():
            return True
        time.sleep(0.1)
    return False


def fallback():
    on_cpu, on_ref = embed("bert", TEXTS, "--normalize"), embed("bert", TEXTS, "--normalize", "--device", "ref")
    check("the two devices give different bits", on_cpu != on_ref and len(on_cpu) == 4)
    s = Server("-m", "bert", "--device", "cuda:0", "--cache", "1MiB", env=ENV)
    st, v, r = s.ask("/embed", {"inputs": TEXTS})
    check("a plug-in's device runs a model", st == 200 and v == on_ref and r.getheader("x-compute-type") == "cuda:0", st, v, s.text)
    check("nothing fell back", r.getheader("x-stoker-device") is None and s.metric("stoker_fallback_batches_total") == 0)
    before = s.ask("/v1/pools")[1]
    fail()
    st, v, r = s.ask("/embed", {"inputs": ["new text", *TEXTS[1:3]]})
    fresh = embed("bert", ["new text"], "--normalize")
    check("a device that fails: the reply is the fallback's", st == 200 and v[0] == fresh[0], st, v)
    check("and says so", r.getheader("x-stoker-device") == "cpu; fallback-from=cuda:0" and r.getheader("x-compute-type") == "cpu", r.getheaders())
    check("what was cached is the device's still", v[1:] == on_ref[1:3])
    st, v, r = s.ask("/v1/embeddings", {"input": ["one more", "and another"]})
    check("every API says it", st == 200 and r.getheader("x-stoker-device") == "cpu; fallback-from=cuda:0"
          and [d["embedding"] for d in v["data"]] == embed("bert", ["one more", "and another"], "--normalize"), st, v)
    check("failures and fallbacks are counted", s.metric("stoker_device_failures_total") >= 1 and s.metric("stoker_fallback_batches_total") >= 2)
    after = s.ask("/v1/pools")[1]
    check("its memory is counted", json.dumps(after) != json.dumps(before), before, after)
    st, v, _ = s.ask("/debug/batches")
    check("/debug/batches tells which", [b["fell_back"] for b in v["batches"]][:2] == [False, True], v)
    heal()
    back = until(lambda: s.ask("/embed", {"inputs": f"again {time.time()}"})[2].getheader("x-stoker-device") is None)
    st, v, r = s.ask("/embed", {"inputs": "new text"})
    check("the device is tried again and is used when it works", back and st == 200 and v == embed("bert", ["new text"], "--normalize", "--device", "ref")
          and r.getheader("x-compute-type") == "cuda:0", back, r.getheaders())
    rc, rest = s.stop()
    check("and it ends well", rc == 0, rest)


def asked_later():
    s = Server("-m", "bert", env=ENV)
    body = dict(model="late", source=os.path.abspath("bert"), device="cuda:1", fallback="none", pooling="cls", normalize=False)
    st, v, _ = s.ask("/v1/models/load", body)
    until(lambda: s.ask("/info?model=late")[0] == 200)
    st2, v2, r = s.ask("/embed", {"inputs": TEXTS, "model": "late"})
    check("/v1/models/load takes device, fallback, pooling and normalize", st == 202 and st2 == 200
          and v2 == embed("cls", TEXTS, "--no-normalize", "--device", "ref") and r.getheader("x-compute-type") == "cuda:1", v, v2)
    for key, value in (("normalize", "yes"), ("pooling", "sum"), ("fallback", "tpu"), ("dtpye", "f32"), ("max_tokens", "12"), ("aliases", "late")):
        st, v, _ = s.ask("/v1/models/load", dict(body, **{key: value}))
        check(f"/v1/models/load: a bad {key} is refused", st == 400 and (value in json.dumps(v) or key in json.dumps(v)), st, v)
    s.stop()


def without_fallback():
    s = Server("-m", "bert", "--device", "cuda:0", "--fallback", "none", env=ENV)
    fail()
    st, v, r = s.ask("/embed", {"inputs": TEXTS})
    heal()
    check("without a fallback the failure is told", st in (424, 500) and "fell off the bus" in json.dumps(v) and r.getheader("x-stoker-device") is None, st, v)
    check("and the next request tries again", s.ask("/embed", {"inputs": TEXTS})[0] == 200)
    s.stop()
    early = Server("-m", "bert", "--device", "cuda:0", "--fallback-at-start", env=ENV)
    late = Server("-m", "bert", "--device", "cuda:0", env=ENV)
    sizes = [x.metric("stoker_model_bytes") for x in (early, late)]
    check("a fallback that is loaded at once is counted at once", sizes[0] > sizes[1] > 0, sizes)
    early.stop()
    late.stop()
    shutil.copytree("bert", "changing")
    s = Server("-m", "changing", "--device", "cuda:0", env=ENV)
    config = pathlib.Path("changing/config.json")
    config.write_text(config.read_text() + " ")
    fail()
    st, v, _ = s.ask("/embed", {"inputs": "a"})
    heal()
    check("files that changed give no fallback", st in (424, 500) and "config.json" in json.dumps(v) and "fell off" in json.dumps(v), st, v)
    s.stop()
    p = run("serve", "-m", "bert", "--device", "cuda:7", "--port", "0", env=dict(os.environ, **ENV))
    check("a device that is not there is an error", p.returncode == 3 and "this machine has 2" in p.stderr, p.returncode, p.stderr)
    p = run("serve", "-m", "bert", "--device", "tpu", "--port", "0")
    check("a device that nobody knows too", p.returncode == 2 and "unknown device 'tpu'" in p.stderr, p.returncode, p.stderr)
    p = run("serve", "-m", "bert", "--fallback", "tpu", "--port", "0")
    check("and a fallback", p.returncode == 2 and "fallback: unknown device 'tpu'" in p.stderr, p.returncode, p.stderr)


def gpus():
    path = spec("gpus.yaml", {"b": model(gpus="0-1")})
    p = run("serve", "-f", path, "--port", "0")
    check("gpus without any: file, line and column", p.returncode in (2, 3) and "gpus.yaml:7:" in p.stderr and "wants a GPU" in p.stderr, p.returncode, p.stderr)
    far = spec("far.yaml", {"b": model(gpus="0,5")})
    p = run("serve", "-f", far, "--port", "0", env=dict(os.environ, **ENV))
    check("a GPU that is not there: file, line and column", p.returncode == 3 and "far.yaml:7:" in p.stderr and "GPU 5" in p.stderr, p.returncode, p.stderr)
    s = Server("-f", path, env=ENV)
    on_ref = embed("bert", TEXTS, "--normalize", "--device", "ref")
    st, v, r = s.ask("/embed", {"inputs": TEXTS})
    check("gpus: a replica each", st == 200 and v == on_ref and r.getheader("x-compute-type") in ("cuda:0", "cuda:1"), st, s.text)
    v = s.ask("/v1/models")[1]["data"][0]["stoker"]
    check("/v1/models tells devices and fallback", (v["device"], v["fallback"]) == ("cuda:0,cuda:1", "cpu"), v)
    fail("0")
    got = [s.ask("/embed", {"inputs": f"text {i}"}) for i in range(8)]
    where = [(r.getheader("x-compute-type"), r.getheader("x-stoker-device")) for _, _, r in got]
    check("one that fails: a request falls back, others go to the other device", all(st == 200 for st, _, _ in got)
          and ("cuda:1", None) in where and ("cpu", "cpu; fallback-from=cuda:0") in where and not any(w == "cuda:0" for w, _ in where), where)
    heal()
    s.stop()
    s = Server("-f", spec("all.yaml", {"b": model(device="gpu")}), env=ENV)
    check("device gpu is all of them", s.ask("/embed", {"inputs": "a"})[2].getheader("x-compute-type", "").startswith("cuda:"), s.text)
    s.stop()


def storm():
    """Devices that fail and come back under load: every reply is a 200 with the bits of the device it names."""
    texts = [f"hello {w}" for w in ("world", "fox", "brown", "quick", "the", "a")]
    bits = dict(cpu=embed("bert", texts, "--normalize"), cuda=embed("bert", texts, "--normalize", "--device", "ref"))
    s = Server("-m", "bert", "--device", "cuda:0,cuda:1", env=ENV)
    odd, seen, over = [], set(), threading.Event()

    def client(k):
        while not over.is_set():
            st, v, r = s.ask("/embed", {"inputs": texts[k]})
            where, field = r.getheader("x-compute-type"), r.getheader("x-stoker-device")
            seen.add((where, bool(field)))
            if st != 200 or v[0] != bits[where.split(":")[0]][k] or (where == "cpu") != bool(field):
                odd.append((st, v, where, field))

    those = [threading.Thread(target=client, args=(k,)) for k in range(len(texts))]
    for t in those:
        t.start()
    for numbers in ("0", None, "", None, "1", None, ""):
        heal() if numbers is None else fail(numbers)
        time.sleep(0.3)
    until(lambda: ("cpu", True) in seen)
    over.set()
    for t in those:
        t.join()
    heal()
    check("devices that come and go under load", not odd and ("cpu", True) in seen, odd[:2], seen)
    check("and the server ends well", s.stop()[0] == 0)


def overrides():
    shutil.copytree("bert", "cls")
    pathlib.Path("cls/1_Pooling/config.json").write_text(json.dumps(dict(embedding_dimension=32, pooling_mode="cls")))
    want = embed("cls", TEXTS, "--no-normalize")
    s = Server("-f", spec("over.yaml", {"b": model(pooling="cls", normalize="false")}))
    st, v, _ = s.ask("/embed", {"inputs": TEXTS})
    check("pooling and normalize of the spec", st == 200 and v == want, st, s.text)
    st, v, _ = s.ask("/v1/embeddings", {"input": TEXTS})
    check("on every route", st == 200 and [d["embedding"] for d in v["data"]] == want)
    st, v, _ = s.ask("/embed", {"inputs": TEXTS, "normalize": True})
    check("a request has the last word", st == 200 and v == embed("cls", TEXTS, "--normalize"))
    st, v, _ = s.ask("/similarity", {"inputs": {"source_sentence": "a", "sentences": ["a"]}})
    check("cosines are cosines", st == 200 and abs(v[0] - 1) < 1e-5, v)
    s.stop()
    s = Server("-f", spec("last.yaml", {"b": model(pooling="last")}))
    st, v, _ = s.ask("/embed", {"inputs": "hello"})
    tokens = s.ask("/embed_all", {"inputs": "hello"})[1]
    length = sum(x * x for x in tokens[0][-1]) ** 0.5
    check("pooling: last", st == 200 and max(abs(a - b / length) for a, b in zip(v[0], tokens[0][-1])) < 1e-5, st)
    s.stop()
    s = Server("-f", spec("few.yaml", {"b": model(batch="2")}))
    st, v, _ = s.ask("/embed", {"inputs": ["a " * (i + 1) for i in range(9)]})
    most = max(b["sequences"] for b in s.ask("/debug/batches")[1]["batches"])
    check("batch: no batch has more texts", st == 200 and len(v) == 9 and most == 2, st, most)
    s.stop()
    commit = pathlib.Path("hub/snapshots/0123456789abcdef")
    shutil.copytree("bert", commit)
    s = Server("-f", spec("commit.yaml", {"b": model(source=str(commit), revision="01234567")}))
    check("revision: the commit of a folder of the hub's cache", s.ask("/embed", {"inputs": "a"})[0] == 200, s.text)
    s.stop()
    for what, keys, word in (("a folder of another revision", model(source=str(commit), revision="feed"), "holds commit 0123456789abcdef, not 'feed'"),
                             ("a reranker that is to be an embedding model", model("embedding", "bert-score"), "of kind reranker, not embedding"),
                             ("pooling on a reranker", model("rerank", "bert-score", pooling="cls"), "it gives scores"),
                             ("normalize on a reranker", model("rerank", "bert-score", normalize="true"), "it gives scores"),
                             ("one pooling for a model that joins three", model(source="bert-joined", pooling="cls"), "joins 3"),
                             ("f16", model(dtype="f16"), "bad.yaml:7:")):
        p = run("serve", "-f", spec("bad.yaml", {"b": keys}), "--port", "0")
        check(f"{what} is refused", p.returncode == 2 and word in p.stderr, p.returncode, p.stderr)


def prompts():
    """The reference's own numbers; then the bits of `stoker embed`, whatever shares the batch."""
    worst, count = 0, 0
    names = {p: f"p{i}" for i, p in enumerate(sorted({c["prompt"] for c in PROMPTS["cases"]}))}
    texts, limit = PROMPTS["texts"], PROMPTS["max_tokens"]
    for pooling in dict.fromkeys(c["pooling"] for c in PROMPTS["cases"]):
        path = f"apart-{pooling}"
        shutil.copytree("bert", path)
        pathlib.Path(path, "1_Pooling/config.json").write_text(json.dumps(dict(embedding_dimension=32, pooling_mode=pooling, include_prompt=False)))
        pathlib.Path(path, "config_sentence_transformers.json").write_text(json.dumps(dict(prompts={n: p for p, n in names.items()})))
    s = Server("-f", spec("prompts.yaml", {f"apart-{p}": model(source=f"apart-{p}", max_tokens=limit, dtype="f32")
                                           for p in dict.fromkeys(c["pooling"] for c in PROMPTS["cases"])}))
    same = True
    for case in PROMPTS["cases"]:
        path = "apart-" + case["pooling"]
        args = ("--no-normalize", "--max-tokens", str(limit), "--prompt-text", case["prompt"])
        for device in ("ref", "cpu"):
            got = embed(path, texts, *args, "--device", device, "--dtype", "f32")
            worst = max(worst, max(abs(a - b) for g, w in zip(got, case["rows"]) for a, b in zip(g, w)))
            count += len(got)
        some = [i for i, t in enumerate(texts) if t]
        st, v, _ = s.ask("/embed", {"inputs": [texts[i] for i in some], "normalize": False, "prompt_name": names[case["prompt"]], "model": path})
        one = [s.ask("/embed", {"inputs": texts[i], "normalize": False, "prompt_name": names[case["prompt"]], "model": path})[1][0] for i in some]
        same = same and st == 200 and v == [got[i] for i in some] == one
    check("a prompt that is not pooled: embed gives the reference's vectors", worst < 2e-5 and count == 2 * len(texts) * len(PROMPTS["cases"]), worst, count)
    check("and the server embed's bits, alone and in company", same)
    st, a, _ = s.ask("/embed", {"inputs": ["hello world"] * 2, "model": "apart-mean"})
    b = s.ask("/embed", {"inputs": "world", "prompt_name": names["hello "], "model": "apart-mean"})[1]
    check("equal tokens with and without a prompt are not one text", st == 200 and a[0] == a[1] != b[0])
    s.stop()


def manager():
    """What systemd hears."""
    box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    box.bind("notify")
    box.settimeout(20)
    path = spec("manager.yaml", {"b": model()})
    s = Server("-f", path, env=dict(NOTIFY_SOCKET=os.path.abspath("notify"), WATCHDOG_USEC="400000"))
    heard = []

    def hear(word, most=200):
        for _ in range(most):
            heard.append(box.recv(4096).decode())
            if word in heard[-1]:
                return True
        return False

    check("READY=1", hear("READY=1"), heard)
    check("WATCHDOG=1, again and again", all(hear("WATCHDOG=1") for _ in range(5)), heard)
    s.p.send_signal(signal.SIGHUP)
    check("RELOADING=1 and READY=1 again", hear("RELOADING=1") and "MONOTONIC_USEC=" in heard[-1] and hear("READY=1"), heard)
    rc, _ = s.stop()
    check("STOPPING=1", rc == 0 and hear("STOPPING=1"), heard)
    s = Server("-m", "bert", env=dict(NOTIFY_SOCKET=os.path.abspath("notify"), WATCHDOG_USEC="400000", WATCHDOG_PID="1"))
    box.settimeout(1.5)
    heard.clear()
    try:
        barked = hear("WATCHDOG=1", 3)
    except socket.timeout:
        barked = False
    check("a watchdog of another process is not ours", not barked and any("READY=1" in h for h in heard), heard)
    s.stop()


def safety():
    for address in ("0.0.0.0", "::", "10.0.0.1"):
        p = run("serve", "-m", "bert", "--listen", address, "--port", "0")
        check(f"{address} without a token is refused", p.returncode == 2 and "without a token" in p.stderr and "--insecure" in p.stderr, p.returncode, p.stderr)
    s = Server("-m", "bert", "--listen", "0.0.0.0", "--insecure")
    check("--insecure listens there", s.ask("/embed", {"inputs": "a"})[0] == 200, s.text)
    s.stop()
    pathlib.Path("token").write_text("secret\n")
    s = Server("-m", "bert", "--listen", "0.0.0.0", "--token-file", "token")
    check("with a token too, for those who have it", s.ask("/embed", {"inputs": "a"})[0] == 401
          and s.ask("/embed", {"inputs": "a"}, {"Authorization": "Bearer secret"})[0] == 200, s.text)
    check("the line to try has it", 'Bearer $(cat token)' in s.text, s.text)
    s.stop()
    pathlib.Path("token").write_text("\n")
    p = run("serve", "-m", "bert", "--token-file", "token", "--port", "0")
    check("an empty token is none", p.returncode == 2 and "empty" in p.stderr, p.stderr)
    pathlib.Path("token").write_text("secret\n")
    made = shutil.which("openssl") and subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], capture_output=True).returncode == 0
    if not made:
        skip("TLS", "openssl is not here")
        return
    tls = ssl.create_default_context(cafile="cert.pem")
    s = Server("-m", "bert", "--tls-cert", "cert.pem", "--tls-key", "key.pem", "--token-file", "token", tls=tls)
    if "libssl" in s.text + (s.p.stderr.read().decode() if s.p.poll() is not None else ""):
        skip("TLS", "libssl is not here")
        return
    check("TLS: no token, no answer", s.ask("/embed", {"inputs": "a"})[0] == 401, s.text)
    st, v, _ = s.ask("/embed", {"inputs": TEXTS}, {"Authorization": "Bearer secret"})
    check("TLS: the same vectors", st == 200 and v == embed("bert", TEXTS, "--normalize"), st)
    check("TLS: the line to try", "--cacert cert.pem" in s.text and "https://" in s.text, s.text)
    check("TLS: it ends well", s.stop()[0] == 0)
    p = run("serve", "-m", "bert", "--tls-cert", "cert.pem", "--tls-key", "key.pem", "--listen", "unix:sock", "--try")
    check("TLS: a socket file is plain", p.returncode == 0 and p.stdout.startswith("200") and "--unix-socket sock http://localhost/" in p.stderr,
          p.stdout, p.stderr)
    p = run("serve", "-m", "bert", "--tls-cert", "cert.pem", "--port", "0")
    check("a certificate without a key is an error", p.returncode != 0 and "key" in p.stderr, p.returncode, p.stderr)


def explain():
    path = spec("why.yaml", {"b": model(batch_tokens=1000, max_tokens=20)}, "serve:\n  items_max: 7\n  drain: 5s\n")
    p = run("serve", "-f", path, "--explain", "--json", "--device", "ref", "--timeout", "3s")
    got = {(x["model"], x["setting"]): x for x in json.loads(p.stdout)["settings"]} if p.returncode == 0 else {}

    def of(m, name):
        x = got.get((m, name), {})
        return x.get("value"), x.get("source")

    check("--explain: an option, the spec, the table, the model", of("b", "device") == ("ref", "option")
          and of("b", "batch_tokens") == ("1000", "why.yaml:7") and of("b", "dtype") == ("f32", "data/serve.csv")
          and of("b", "pooling") == ("mean", "the model") and of("b", "max_tokens") == ("20", "why.yaml:8")
          and of("b", "fallback") == ("cpu", "data/serve.csv"), p.stdout, p.stderr)
    check("--explain: the server", of(None, "items_max") == ("7", "why.yaml:10") and of(None, "timeout") == ("3s", "option")
          and of(None, "drain") == ("5s", "why.yaml:11") and of(None, "listen") == ("127.0.0.1", "default"), p.stdout)
    check("--explain: each has a reason", got and all(x["reason"] for x in got.values()))
    reference = (pathlib.Path(__file__).parents[2] / "docs/reference/spec.md").read_text().split("\n## `serve`\n")[1].split("\n## ")[0]
    named = {"token_file": "token", "admin_token_file": "admin_token", "tls_cert": "tls", "tls_key": "tls"}
    keys = {named.get(k, k) for k in re.findall(r"^\| `(\w+)` \|", reference, re.M)} - {"users_max"} # what rendering sizes by
    p = run("serve", "-f", path, "--explain", "--json", "--batch-dir", "b", "--text-max", "3KiB", "--allow-origin", "https://a.example",
            "--batch-expiry", "2h", "--any-model")
    got = {x["setting"]: (x["value"], x["source"]) for x in json.loads(p.stdout)["settings"] if not x["model"]} if p.returncode == 0 else {}
    check("--explain: each key of the spec's section", len(keys) > 20 and not keys - set(got), keys - set(got), p.stderr)
    check("--explain: their values", [got.get(k) for k in ("text_max", "allow_origin", "batch_expiry", "any_model", "body_total_timeout")] ==
          [("3 KiB", "option"), ("https://a.example", "option"), ("2h", "option"), ("true", "option"), ("5m", "default")], got)
    p = run("serve", "-f", path, "--explain", "--batch-tokens", "77")
    check("--explain as a table; options win over the spec", p.returncode == 0 and " 77 " in p.stdout and "why.yaml:10" in p.stdout, p.stdout, p.stderr)
    s = Server("-f", path, "--batch-tokens", "77")
    check("what it says is what is served", "batch_tokens\":77" in json.dumps(s.ask("/v1/models")[1]).replace(" ", ""), s.ask("/v1/models")[1])
    s.stop()


def tries():
    p = run("serve", "-m", "bert", "--port", "0", "--try")
    check("--try: a reply, and the end", p.returncode == 0 and p.stdout.startswith("200 in ") and "[[" in p.stdout and "stopped" in p.stderr, p.stdout, p.stderr)
    p = run("serve", "-m", "bert-score", "--port", "0", "--try")
    check("--try of a reranker", p.returncode == 0 and "/rerank" in p.stderr and "score" in p.stdout, p.stdout, p.stderr)
    p = run("serve", "-m", "bert", "--listen", "unix:sock", "--try")
    check("a socket file", p.returncode == 0 and p.stdout.startswith("200") and "--unix-socket sock" in p.stderr and not os.path.exists("sock"), p.stdout, p.stderr)
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    port = str(taken.getsockname()[1])
    p = run("serve", "-m", "bert", "--port", port, "--try")
    check("a port that is taken: an error with a hint", p.returncode == 1 and port in p.stderr and "choose another port" in p.stderr, p.returncode, p.stderr)
    p = run("serve", "-m", "bert", "--port", port, "--try", "--free-port")
    check("--free-port takes another and says so", p.returncode == 0 and f"port {port} is taken" in p.stderr, p.returncode, p.stderr)


def log_lines():
    """The access log has one line for each request, whoever answered it, with the status the client got."""
    s = Server("-m", "emb=bert", "-m", "rank=bert-score", "--access-log", "lines.log")
    one = {"input": "a", "model": "emb"}
    asked = (("/v1/embeddings", one, {}), ("/v1/embeddings", {"input": "a", "model": "nobody"}, {}), ("/embed", {"inputs": "a", "model": "rank"}, {}),
             ("/reranking", {"query": "a", "documents": ["b"], "model": "emb"}, {}), ("/v1/embeddings", one, {"Origin": "http://elsewhere.example"}),
             ("/v1/embeddings", one, {"Host": "elsewhere.example"}), ("/v1/embeddings", one, {"Content-Encoding": "br"}), ("/v1/embeddings", "{", {}),
             ("/embed", {"inputs": "a" * 2_000_000, "model": "emb"}, {}), ("/nothing", one, {}), ("/health", None, {}),
             *((("/v1/models/load?wait", {"model": "emb", "source": os.path.abspath("bert")}, {}),) * 10))
    want = [s.ask(*a)[0] for a in asked]
    s.stop()
    got = [(x["id"], x["status"]) for x in map(json.loads, open("lines.log"))]
    check("the access log has a line for each request, with its status", sorted(got) == list(enumerate(want, 1)), want, sorted(got))


def drop_in():
    """What clients of other servers send and expect."""
    s = Server("-m", "emb=bert", "--access-log", "dropin.log")
    st, v, _ = s.ask("/v1/embeddings", {"input": "hello", "model": "text-embedding-3-small"})
    check("one model answers to every name, and says its own", st == 200 and v["model"] == "emb", st, v)
    v = s.ask("/tokenize", {"inputs": "Hello  WORLD"})[1][0]
    check("/tokenize gives slices of the input", [t["text"] for t in v if not t["special"]] == ["Hello", "WORLD"]
          and all(t["text"] == "Hello  WORLD"[t["start"]:t["stop"]] for t in v if not t["special"]), v)
    check("2,048 inputs are taken, and the setting is named beyond", s.ask("/v1/embeddings", {"input": ["a"] * 2048})[0] == 200
          and "--items-max" in json.dumps(s.ask("/v1/embeddings", {"input": ["a"] * 2049})[1]))
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for path, body, want in (("/v1/embeddings", {"input": "a"}, 200), ("/v1/embeddings", "{", 400), ("/nothing", None, 404)):
        st, _, r = s.ask(path, body, {"X-Request-Id": "req-7", "traceparent": trace})
        check(f"{path} {want}: the request's names come back", st == want and r.getheader("x-request-id") == "req-7"
              and r.getheader("traceparent") == trace, st, r.getheaders())
    st, _, r = s.ask("/v1/embeddings", {"input": "a"}, {"X-Request-Id": "x" * 5000})
    check("a name that is none does not", st == 200 and r.getheader("x-request-id") is None)
    zeros = trace.replace("b7ad6b7169203331", "0" * 16)
    for bad in ("zz", trace.upper(), zeros, trace[:-3], trace + "-x", "ff" + trace[2:]):
        st, _, r = s.ask("/v1/embeddings", {"input": "a"}, {"traceparent": bad})
        check(f"traceparent '{bad}' is invalid and does not come back", st == 200 and r.getheader("traceparent") is None, r.getheaders())
    later = "01" + trace[2:] + "-more"
    check("one of a later version does", s.ask("/v1/embeddings", {"input": "a"}, {"traceparent": later})[2].getheader("traceparent") == later)
    s.stop()
    lines = [json.loads(x) for x in open("dropin.log")]
    check("and stand in the log", sum(x["request_id"] == "req-7" and x["traceparent"] == trace for x in lines) == 3, lines)
    log_lines()
    s = Server("-m", "emb=bert", "-m", "rank=bert-score")
    check("of two models the name counts", s.ask("/v1/embeddings", {"input": "a", "model": "ada"})[0] == 404)
    s.stop()
    s = Server("-m", "emb=bert", "-m", "rank=bert-score", "--any-model")
    check("unless --any-model says otherwise", s.ask("/v1/embeddings", {"input": "a", "model": "ada"})[1].get("model") == "emb"
          and s.ask("/v1/rerank", {"query": "a", "documents": ["b"], "model": "ada"})[0] == 200)
    s.stop()


for part in (fallback, without_fallback, gpus, storm, overrides, asked_later, prompts, manager, safety, explain, tries, drop_in):
    part()
done()
