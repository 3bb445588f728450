# SPDX-License-Identifier: MIT
"""Pools of the machine's memory, models that come when they are asked for, those of low priority that
wait for room, loads that are waited for, names whose load failed, the type that a start line tells.
Only the standard library."""
import os
import shutil
import threading

import serve_box
import serve_models
from serve_test import Server, check, done, part, run

HERE = os.getcwd()


def path(*names):
    return os.path.join(HERE, *names)


def spec(text):
    with open(path("stoker.yaml"), "w") as f:
        f.write(text)
    return path("stoker.yaml")


def pools(s):
    return s.ask("/v1/pools")[1]


def listed(s, name):
    return next((m for m in pools(s)["models"] if m["name"] == name), {})


def embed(s, name, text="a", **more):
    return s.ask("/v1/embeddings", {"model": name, "input": text}, **more)


def ids(s):
    return [m["id"] for m in s.ask("/v1/models")[1]["data"]]


def load(s, name, folder, query="", **more):
    return s.ask("/v1/models/load" + query, {"model": name, "source": folder, "dtype": "f32", **more})


def on_a_cpu(folder, size):
    """A spec's pool of the machine's memory."""
    p = run("spec", "check", spec(f"pools: {{p: {{size: {size}, nodes: a}}}}\nnodes: [{{name: a, count: 1}}]\n"))
    check("a pool of GPU memory where no GPU is: the hint names device: cpu", p.returncode != 0 and "device: cpu" in p.stderr, p.stdout, p.stderr)
    file = spec(f"pools:\n  p: {{size: {size}, device: cpu}}\nmodels:\n" + "".join(
        f"  {n}: {{source: {folder}, kind: embedding, device: cpu, dtype: f32, pool: p}}\n" for n in "ab"))
    p = run("spec", "check", file)
    check("a pool of the CPU wants no node with GPUs", p.returncode == 0, p.stdout, p.stderr)
    s = Server("-f", file)
    one = next(p for p in pools(s)["pools"] if p["name"] == "p")
    check("the server has it", one["bytes"] == size, one)
    check("a pool that holds one: the second let the first go", {listed(s, "a")["state"], listed(s, "b")["state"]} == {"away", "ready"}, pools(s))
    check("each comes when it is asked for", [embed(s, n)[0] for n in "abab"] == [200] * 4)
    s.stop()
    s = Server("-f", file, "--pool", f"p={2 * size}")
    check("--pool NAME=SIZE goes before the spec", [listed(s, n)["state"] for n in "ab"] == ["ready", "ready"], pools(s))
    s.stop()
    p = run("spec", "check", spec(f"pools: {{p: {{size: {size}, device: cpu}}}}\nmodels:\n  a: {{source: {folder}, kind: embedding, device: gpu, pool: p}}\n"))
    check("a model on GPUs takes no memory of the machine's pool", p.returncode != 0 and "memory of the machine" in p.stderr, p.stderr)
    s = Server("-m", "a=" + folder, "--pool", "1MiB", ready=False)
    s.p.wait(60)
    check("--pool SIZE: what does not fit is told with the bytes", s.stop()[0] == 4 and "pool 'default' has no room" in s.text, s.text)


def on_demand(folder, ranker, size):
    for how, s in (("option", Server("-m", "a=" + folder, "-m", "r=" + ranker, "--on-demand", "a", "--dtype", "f32")),
                   ("spec", Server("-f", spec(f"models:\n  a: {{source: {folder}, kind: embedding, dtype: f32, load: on_demand}}\n"
                                              f"  r: {{source: {ranker}, kind: rerank, dtype: f32}}\n")))):
        a = listed(s, "a")
        check(f"{how}: ready without it", s.ask("/health")[0] == 200 and a["state"] == "away" and a["bytes"] == 0 and a["load"] == "on_demand", a)
        check(f"{how}: its kind is known: it is in the list", ids(s) == ["a", "r"] and a["kind"] == "embedding", ids(s), a)
        check(f"{how}: a request that names no model gets the one that can do it", s.ask("/rerank", {"query": "a", "texts": ["b"]})[0] == 200
              and listed(s, "a")["state"] == "away", listed(s, "a"))
        status, body, _ = s.ask("/embed", {"inputs": "a"})
        check(f"{how}: the first request loads it", status == 200 and listed(s, "a")["state"] == "ready", body)
        s.stop()
    s = Server("-m", "a=" + folder, "-m", "b=" + folder, "--on-demand", "*", "--pool", str(size), "--dtype", "f32")
    got = []
    those = [threading.Thread(target=lambda n=n: got.append(embed(s, n)[0])) for n in "ab" * 8]
    for t in those:
        t.start()
    for t in those:
        t.join()
    check("all on demand in a pool for one, asked at once: every request is answered", got == [200] * 16, got)
    s.stop()
    s = Server("-m", "a=" + folder, "--on-demand", "a", "--pool", "2MiB", ready=False)
    s.p.wait(60)
    check("one that could never fit is told at the start", s.stop()[0] == 4 and "pool 'default' has 2 MiB" in s.text, s.text)
    p = run("serve", "-m", "a=" + folder, "--on-demand", "b", "--port", "0")
    check("--on-demand of nobody is an error", p.returncode == 2 and "'b'" in p.stderr, p.stderr)
    os.mkdir(path("empty"))
    s = Server("-m", "a=" + path("empty"), "--on-demand", "a", ready=False)
    s.p.wait(60)
    check("and so is one without files", s.stop()[0] != 0 and "config.json" in s.text, s.text)


def low_priority(folder, size):
    text = f"pools: {{p: {{size: {size}, device: cpu}}}}\nmodels:\n"
    for n, priority in (("first", "high"), ("extra", "low")):
        text += f"  {n}: {{source: {folder}, kind: embedding, dtype: f32, pool: p, priority: {priority}}}\n"
    s = Server("-f", spec(text))
    check("a model of low priority that does not fit is away, and the server is ready", s.ask("/health")[0] == 200
          and listed(s, "extra")["state"] == "away", s.text, pools(s))
    check("the log tells why", "model 'extra': pool 'p' has no room" in s.text and "it waits for room" in s.text, s.text)
    status, body, _ = embed(s, "extra")
    check("a request says why", status == 503 and "pool 'p' has no room" in body["error"]["message"], status, body)
    s.ask("/v1/models/unload", {"model": "first"})
    check("when there is room it comes", serve_box.wait(lambda: embed(s, "extra")[0] == 200, 20))
    s.stop()
    s = Server("-f", spec(text.replace("priority: low", "priority: medium")), ready=False)
    s.p.wait(60)
    check("one of another priority ends the start, as before", s.stop()[0] == 4 and "has no room" in s.text, s.text)


def waiting(folder, size):
    s = Server("-m", "a=" + folder, "--dtype", "f32", "--pool", str(size))
    for what, query, more in (("?wait", "?wait", {}), ("?wait=30s", "?wait=30s", {}), ("in the body", "", {"wait": True})):
        status, body, _ = load(s, "b", folder, query, **more)
        check(f"{what}: the reply comes when it is ready, with its digest", status == 200 and body["status"] == "ready"
              and body["digest"] == listed(s, "b")["digest"] and listed(s, "b")["state"] == "ready", status, body)
    check("without it: 202 at once", load(s, "b", folder)[0] == 202)
    check("wait=false too", load(s, "b", folder, "", wait=False)[0] == 202)
    status, body, _ = load(s, "c", path("nowhere"), "?wait")
    check("one that fails says why", status == 400 and "nowhere" in body["error"]["message"], status, body)
    status, body, _ = load(s, "c", folder, "?wait", load="on_demand")
    check("one on demand is away", status == 200 and body["status"] == "away" and listed(s, "c")["state"] == "away", status, body)
    status, body, _ = load(s, "big", folder, "?wait", pool="none")
    check("a pool that is not there", status == 400, status, body)
    for bad in ("?wait=soon", "?wait=-1"):
        check(f"{bad} is refused", load(s, "a", folder, bad)[0] == 400)
    s.ask("/v1/models/unload", {"model": "c"})
    s.stop()
    s = Server("-f", spec(f"pools: {{p: {{size: {size // 4}, device: cpu}}}}\nmodels:\n  a: {{source: {folder}, kind: embedding, dtype: f32, pool: p, priority: high}}\n"))
    status, body, _ = load(s, "b", folder, "?wait", pool="p", priority="low")
    check("no room is 507 with the bytes", status == 507 and "has no room" in body["error"]["message"], status, body)
    s.stop()


def many_waits(folder):
    """Loads and unloads of few names by many clients: each is answered, and the server is as whole as before."""
    s = Server("-m", "a=" + folder, "--dtype", "f32")
    got, lock = [], threading.Lock()

    def client(i):
        name = "m%d" % (i % 5)
        status = s.ask("/v1/models/unload", {"model": name})[0] if i % 7 == 0 else load(s, name, folder, "?wait" if i % 2 else "")[0]
        with lock:
            got.append(status)

    those = [threading.Thread(target=client, args=(i,)) for i in range(100)]
    for t in those:
        t.start()
    for t in those:
        t.join()
    check("100 loads and unloads at once: each is answered", len(got) == 100 and set(got) <= {200, 202, 404, 409}, sorted(set(got)))
    check("and the server answers as before", serve_box.wait(lambda: embed(s, "a")[0] == 200))
    check("it ends well", s.stop()[0] == 0, s.text)


def stopping(folder):
    """A server that stops answers who waits."""
    s = Server("-m", "a=" + folder, "--dtype", "f32")
    got = []
    those = [threading.Thread(target=lambda i=i: got.append(load(s, f"n{i}", folder, "?wait")[0])) for i in range(20)]
    for t in those:
        t.start()
    rc = s.stop()[0]
    for t in those:
        t.join()
    check("SIGTERM while clients wait for loads: each gets a reply or a closed connection", rc == 0, rc, got, s.text)


def failed_names(folder):
    s = Server("-m", "a=" + folder, "--dtype", "f32")
    bad = shutil.copytree(folder, path("bad"))
    os.truncate(os.path.join(bad, "model.safetensors"), 100)
    load(s, "broken", bad, "?wait", aliases=["nick"])
    check("a name whose load failed is not in the list of models", ids(s) == ["a"], ids(s))
    check("nor in /models", [m["id"] for m in s.ask("/models")[1]["data"]] == ["a"])
    for name in ("broken", "nick"):
        status, body, _ = s.ask("/v1/models/" + name)
        check(f"/v1/models/{name} is 404 and says why", status == 404 and "model.safetensors" in body["error"]["message"], status, body)
        status, body, _ = embed(s, name)
        check(f"a request to '{name}' says why", status == 500 and "model.safetensors" in body["error"]["message"], status, body)
    check("operators see it in /v1/pools", listed(s, "broken")["state"] == "failed" and "error" in listed(s, "broken"), listed(s, "broken"))
    check("the one model that is there answers to any other name", embed(s, "whatever")[0] == 200)
    load(s, "broken", folder, "?wait")
    check("loaded well, it is in the list", ids(s) == ["a", "broken"], ids(s))
    load(s, "broken", bad, "?wait")
    check("a swap that fails leaves the old one there", ids(s) == ["a", "broken"] and embed(s, "broken")[0] == 200, ids(s))
    s.stop()


def start_line(folder, ranker):
    s = Server("-m", "a=" + folder, "-m", "b=" + folder, "--dtype", "f32", "--on-demand", "b")
    check("the start tells the type, and that f32 is exact", "model 'a': f32 on cpu: exact" in s.text, s.text)
    check("and who is away", "model 'b': away until it is asked for" in s.text, s.text)
    s.stop()
    s = Server("-m", "a=" + folder, "--dtype", "bf16")
    check("another type with what it costs", "model 'a': bf16 on cpu: cosine with f32 0.9999" in s.text and "--dtype f32 is exact" in s.text, s.text)
    s.stop()
    s = Server("-m", "a=" + folder, "-m", "r=" + ranker, "--dtype", "bf16")
    check("of scores it says what is true of scores", "model 'r': bf16 on cpu: what the head reads has cosine" in s.text and s.text.count("nearest stay") == 1, s.text)
    s.stop()
    s = Server("-m", "a=" + folder)
    check("the default is said to be it", f"model 'a': {listed(s, 'a')['dtype']} on cpu, the default here: " in s.text, s.text)
    s.stop()


folder, ranker = serve_models.vectors(path("vectors")), serve_models.ranker(path("ranker"))
first = Server("-m", "x=" + folder, "--dtype", "f32")
size = listed(first, "x")["bytes"] * 3 // 2
first.stop()
part(on_a_cpu, folder, size)
part(on_demand, folder, ranker, size)
part(low_priority, folder, size)
part(waiting, folder, 4 * size)
part(many_waits, folder)
part(stopping, folder)
part(failed_names, folder)
part(start_line, folder, ranker)
done()
