# SPDX-License-Identifier: MIT
"""TAP of `stoker render compose`: render_compose.py STOKER SCHEMA, in a folder with the models bert and
bert-score.  SCHEMA is compose's own; where it is missing that part is skipped."""
import copy
import glob
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

import yaml

from serve_test import Server, check, done, part, run, skip

SCHEMA = sys.argv[2]
HOSTILE = ["plain", "a b", "", "$HOME", "${PATH:-x}", "$$", "100%", "it's", 'say "x"', "back\\slash", "new\nline", "tab\there",
           "yes", "no", "null", "1e3", "0x10", "012", "~", "- x", "# no comment", "a: b", "{x}", "[x]", "&a", "*a", "!t", "|", ">", "@", "`", "ü € 語", " lead", "trail "]


def render(spec, out):
    return run("render", "compose", "-f", spec, "-o", out)


def example(name):
    pathlib.Path(f"{name}.yaml").write_text(run("spec", "example", name).stdout)
    return f"{name}.yaml"


def load(out):
    with open(f"{out}/compose/compose.yaml") as f:
        return yaml.safe_load(f)


def meant(x):
    """What compose makes of a text once it has replaced variables; none may be left in ours."""
    if isinstance(x, str):
        if re.search(r"(?<!\$)(\$\$)*\$(?!\$)", x):
            raise ValueError(f"{x!r} would be replaced")
        return x.replace("$$", "$")
    return x


def write(name, spec):
    pathlib.Path(name).write_text(json.dumps(spec, ensure_ascii=False, indent=1))
    return name


def base(components, compose=None, **more):
    return {"schema": "stoker.spec/1", "nodes": [{"name": "n", "gpus_per_node": 8, "gpu": {"model": "H200", "memory": "141GB"}}],
            "components": components, "targets": {"compose": compose or {}}, **more}


def schema():
    for name in ("ai-platform-h200", "kb-a100", "llm-cluster", "rdma-openshift"):
        p = render(example(name), name)
        check(f"{name} is rendered", p.returncode == 0, p.stderr)
    p = render(example("driving-h200"), "driving")
    check("a component without an image is refused where it stands", p.returncode != 0 and re.search(r"driving-h200\.yaml:61:3: component 'driving' has no image", p.stderr)
          and not os.path.exists("driving"), p.stderr)
    if not os.path.exists(SCHEMA):
        skip("compose's own schema takes the files", f"{SCHEMA} is not here")
        return
    try:
        import jsonschema
    except ImportError:
        check("compose's own schema takes the files", False, "the schema is here, python's jsonschema is not: tools/setup test")
        return
    rules = json.load(open(SCHEMA))
    validator = jsonschema.Draft7Validator(rules)
    for name in ("ai-platform-h200", "kb-a100", "llm-cluster", "rdma-openshift"):
        check(f"{name}: compose's own schema takes it", not list(validator.iter_errors(load(name))), list(validator.iter_errors(load(name))))
    good = load("ai-platform-h200")
    for path in (["imag"], ["deploy", "resources", "reservation"], ["healthcheck", "intervall"], ["ulimits", "memlock", "sof"], ["volumes", 0, "typ"]):
        bad = copy.deepcopy(good)
        at = bad["services"]["world_model"]
        for key in path[:-1]:
            at[key] = at[key] if isinstance(at[key], (dict, list)) else {}
            at = at[key]
        at[path[-1]] = "x"
        check(f"the schema finds '{'.'.join(map(str, path))}'", list(validator.iter_errors(bad)) != [])


def docker():
    p = subprocess.run(["docker", "compose", "version"], capture_output=True) if shutil.which("docker") else None
    if not p or p.returncode:
        skip("docker compose takes the files", "docker compose is not here")
        return
    for name in ("ai-platform-h200", "kb-a100"):
        p = subprocess.run(["docker", "compose", "-f", f"{name}/compose/compose.yaml", "config", "-q"], capture_output=True, text=True)
        check(f"{name}: docker compose takes it", p.returncode == 0, p.stderr)


def gpus(service):
    devices = service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", [])
    return [g for d in devices for g in d.get("device_ids", [])]


def platform():
    d = load("ai-platform-h200")
    s = d["services"]
    check("the four components and the MPS daemon", sorted(s) == ["agent_registry", "mps", "perception", "rl_engine", "world_model"] and d["name"] == "ai-platform")
    ids = {n: gpus(s[n]) for n in s if n != "mps"}
    check("GPUs are 4, 2, 1, 1, each given once", [len(ids[n]) for n in ("world_model", "rl_engine", "perception", "agent_registry")] == [4, 2, 1, 1]
          and sorted(g for i in ids.values() for g in i) == list("01234567"), ids)
    check("who talks most with the world model is its neighbour", ids["world_model"] == list("0123") and ids["rl_engine"] == ["4", "5"], ids)
    head = pathlib.Path("ai-platform-h200/compose/compose.yaml").read_text()
    check("the head of the file lists them", "#   world_model: 0,1,2,3 (" in head and "#   agent_registry: 7 (" in head)
    limit = {n: s[n]["environment"]["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] for n in ids}
    mib = lambda gb: gb * 10**9 >> 20
    check("pools are limits of device memory, on each GPU as the client counts", limit["world_model"] == ",".join(f"{i}={mib(64 + 13)}M" for i in range(4))
          and limit["rl_engine"] == ",".join(f"{i}={mib(32)}M" for i in range(2)) and limit["perception"] == f"0={mib(16)}M", limit)
    check("clients share the daemon's pipes and IPC, and wait for it", all(s[n]["ipc"] == "service:mps" and s[n]["depends_on"]["mps"]["condition"] == "service_healthy"
          and any(v["source"] == "mps.pipe" and v["target"] == "/tmp/nvidia-mps" for v in s[n]["volumes"]) for n in ids) and s["mps"]["ipc"] == "shareable")
    check("shared memory is the sum of its clients'", int(s["mps"]["shm_size"][:-1]) == (64 + 32 + 1) << 30, s["mps"]["shm_size"])
    check("NCCL gets what the spec forces and no more", all({k: v for k, v in s[n]["environment"].items() if k.startswith("NCCL_")} == {"NCCL_DEBUG": "WARN"} for n in ids))
    w = s["world_model"]
    check("limits, mounts, ports, ulimits and restart are the spec's", w["deploy"]["resources"]["limits"] == {"cpus": "48", "memory": "768000000000b"}
          and {"type": "bind", "source": "/scratch/data", "target": "/data", "read_only": True, "bind": {"create_host_path": False}} in w["volumes"]
          and w["ports"] == ["${BIND_ADDRESS:-127.0.0.1}:8010:8010"] and w["ulimits"] == {"memlock": -1, "stack": 64 << 20} and w["restart"] == "on-failure:3")
    check("who depends waits until the other is healthy", s["rl_engine"]["depends_on"]["world_model"] == {"condition": "service_healthy"})


def serving():
    s = load("kb-a100")["services"]
    command = {n: s[n]["command"] for n in ("embeddings", "reranker")}
    check("embeddings are on 8003, the reranker on 8002, always again", "--port=8003" in command["embeddings"] and "--port=8002" in command["reranker"]
          and all(s[n]["restart"] == "always" and s[n]["command"][:2] == ["stoker", "serve"] for n in command), command)
    check("models are mounted to be read alone", all(v["read_only"] for n in command for v in s[n]["volumes"]))
    check("both have the GPU", all(gpus(s[n]) == ["0"] for n in command))
    for name, models in (("embeddings", 3), ("reranker", 2)):
        p = run("spec", "check", f"kb-a100/compose/serve/{name}.yaml")
        check(f"{name} has a spec with its {models} models", p.returncode == 0 and f"{models} models" in p.stdout, p.stdout, p.stderr)


def real_server():
    """The rendered spec and command, on this machine, asked by the rendered health check."""
    model = lambda source, kind: {"source": os.path.abspath(source), "kind": kind, "component": "e"}
    spec = base({"e": {"kind": "serving", "target": "compose", "image": "stoker", "ports": [{"name": "http", "port": 8003}], "health": {"path": "/health"}}},
                models={"vectors": model("bert", "embedding")})
    p = render(write("real.yaml", spec), "real")
    service = load("real")["services"]["e"]
    check("models outside its mounts are bound too", any(v["source"] == os.path.abspath("bert") and v["read_only"] for v in service["volumes"]), p.stderr)
    words = [w for w in service["command"][2:] if w not in ("--quiet",) and not w.startswith("--port=")]
    words = [os.path.abspath("real/compose/serve/e.yaml") if w == "/etc/stoker/stoker.yaml" else w for w in words]
    s = Server(*words)
    check("a server starts by it", s.port != 0, words, s.text)
    test = [meant(x) for x in service["healthcheck"]["test"]]
    ask = lambda port: subprocess.run(["sh", "-c", re.sub("127.0.0.1([:/])8003", f"127.0.0.1\\g<1>{port}", test[1])], capture_output=True).returncode
    check("the rendered command serves the model", s.ask("/embed", {"inputs": "a"})[0] == 200, s.text)
    check("the rendered health check finds it well", test[0] == "CMD-SHELL" and ask(s.port) == 0, test)
    port = s.port
    s.stop()
    check("and notices when it is gone", ask(port) != 0)


def health_quotes():
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.protocol_version = "HTTP/1.1"
            self.send_response(200 if "well" in self.path else 500)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for path, rc in (("/well?a=b&c='d\" $x `id` ;#", 0), ("/ill", 1)):
        spec = base({"c": {"target": "compose", "image": "i", "ports": [{"name": "h", "port": server.server_port}], "health": {"path": path}}})
        render(write("health.yaml", spec), "health")
        test = [meant(x) for x in load("health")["services"]["c"]["healthcheck"]["test"]]
        p = subprocess.run(["sh", "-c", test[1]], capture_output=True, text=True)
        os.makedirs("few", exist_ok=True)
        for tool in ("bash", "grep", "sh"):
            if shutil.which(tool) and not os.path.exists(f"few/{tool}"):
                os.symlink(shutil.which(tool), f"few/{tool}")
        few = subprocess.run([shutil.which("sh"), "-c", test[1]], capture_output=True, text=True, env={"PATH": os.path.abspath("few")})
        check(f"a health check of {path!r} needs no more than bash", (few.returncode == 0) == (rc == 0) and len(asked) > 1, few.returncode, asked, few.stderr)
        check(f"a health check of {path!r} asks for it", (p.returncode == 0) == (rc == 0) and asked and asked[-1].startswith(path[:5]), p.returncode, asked, p.stderr)
    server.shutdown()


def hostile():
    env = {f"V{i}": s for i, s in enumerate(HOSTILE)}
    c = {"target": "compose", "image": "registry.example.org/a/b:1", "command": ["prog", *HOSTILE], "args": HOSTILE[::-1], "env": env, "workdir": "/w $d 'x\"",
         "user": "u-1", "health": {"command": ["probe", *HOSTILE]}, "mounts": [{"storage": "s", "path": "/in $x", "subpath": "a$b"}]}
    spec = base({"c": c, "yes": {"target": "compose", "image": "x"}}, storage=[{"name": "s", "kind": "local", "path": "/from $x"}])
    p = render(write("hostile.yaml", spec), "hostile")
    check("hostile texts are rendered", p.returncode == 0, p.stderr)
    s = load("hostile")["services"]
    d = s["c"]
    check("a service called yes is a text", sorted(s) == ["c", "yes"])
    check("every word is as it was meant", [meant(x) for x in d["command"]] == ["prog", *HOSTILE, *HOSTILE[::-1]])
    check("every variable is", {k: meant(v) for k, v in d["environment"].items()} == env)
    check("the health check is", [meant(x) for x in d["healthcheck"]["test"]] == ["CMD", "probe", *HOSTILE])
    check("image, folder, user and mounts are", meant(d["image"]) == c["image"] and meant(d["working_dir"]) == c["workdir"] and meant(d["user"]) == c["user"]
          and meant(d["volumes"][0]["source"]) == "/from $x/a$b" and meant(d["volumes"][0]["target"]) == "/in $x", d)


def refusals():
    good = {"target": "compose", "image": "i"}
    two = [{"name": n, "gpus_per_node": 8, "gpu": {"model": "H200"}} for n in ("a", "b")]
    rows = (
        ("several machines for one", base({"c": {**good, "gpus": 8, "nodes_per_replica": 2}}, nodes=[{**two[0], "count": 2}]), "spans 2 machines"),
        ("two node groups", base({"c": {**good, "nodes": "a", "gpus": 1}, "d": {**good, "nodes": "b", "gpus": 1}}, nodes=two), "another machine"),
        ("users that MPS would keep waiting", base({"c": {**good, "gpus": 1, "user": "a"}, "d": {**good, "gpus": 1, "user": "b"}}, {"mps": True}), "different users"),
        ("an object store as a folder", base({"c": {**good, "mounts": [{"storage": "o", "path": "/o"}]}}, storage=[{"name": "o", "kind": "object", "source": "s3://x"}]), "object store"),
        ("health that nobody can be asked for", base({"c": {**good, "health": {"path": "/h"}}}), "port"),
        ("a component called mps", base({"mps": {**good, "gpus": 1}}, {"mps": True}), "MPS daemon"),
        ("a replica with another's name", base({"c": {**good, "replicas": 2}, "c-1": good}), "replica of another"),
    )
    for what, spec, words in rows:
        p = render(write("refused.yaml", spec), "refused")
        check(f"{what}: refused where it stands, nothing is written", p.returncode != 0 and words in p.stderr
              and re.search(r"^refused\.yaml:[1-9]\d*:[1-9]", p.stderr, re.M) and not os.path.exists("refused"), p.returncode, p.stderr)


def odds():
    spec = base({"a": {"target": "compose", "image": "i", "gpus": 2, "replicas": 2, "ports": [{"name": "h", "port": 80}], "mounts": [{"storage": "v", "path": "/v"}]},
                 "b": {"target": "compose", "image": "i", "gpus": 4, "restart": "never", "fabrics": ["f"]},
                 "c": {"target": "compose", "image": "i", "mounts": [{"storage": "nfs", "path": "/n"}, {"storage": "m", "path": "/m"}], "restart": "on_failure",
                       "depends_on": ["a"]}},
                storage=[{"name": "v", "kind": "volume", "per_replica": True}, {"name": "nfs", "kind": "nfs", "source": "srv:/export"}, {"name": "m", "kind": "memory", "size": "1GiB"}],
                fabrics=[{"name": "f", "kind": "roce", "rate": "400Gb/s"}])
    spec["nodes"][0]["fabrics"] = ["f"]
    p = render(write("odds.yaml", spec), "odds")
    check("a spec with a bit of everything is rendered", p.returncode == 0, p.stderr)
    d = load("odds")
    s = d["services"]
    check("replicas have a service, GPUs and a volume of their own, and no port of the host", gpus(s["a-1"]) == ["4", "5"] and gpus(s["a-2"]) == ["6", "7"]
          and s["a-1"]["expose"] == ["80"] and "ports" not in s["a-1"] and {"v.a-1", "v.a-2"} <= set(d["volumes"]), p.stderr, s)
    spec = base({"a": {"target": "compose", "image": "i", "gpus": 2},
                 "c": {"target": "compose", "image": "i", "gpus": 5}}, pools={"p": {"size": "20GB", "gpus": "0-1"}})
    p = render(write("pools.yaml", spec), "pools")
    pooled = load("pools")["services"]
    check("GPUs of a pool are taken last", p.returncode == 0 and gpus(pooled["c"]) == ["2", "3", "4", "5", "6"] and gpus(pooled["a"]) == ["0", "7"],
          p.stderr, {n: gpus(v) for n, v in pooled.items()})
    check("the largest is placed first", s["b"]["restart"] == "no" and gpus(s["b"]) == ["0", "1", "2", "3"], gpus(s["b"]))
    check("RDMA has its devices and the host's network", s["b"]["network_mode"] == "host" and s["b"]["cap_add"] == ["IPC_LOCK"] and "networks" not in s["b"])
    check("NFS and memory are volumes", d["volumes"]["nfs"]["driver_opts"] == {"type": "nfs", "o": "addr=srv,nfsvers=4,rw", "device": ":/export"}
          and {"type": "tmpfs", "target": "/m", "tmpfs": {"size": 1 << 30}} in s["c"]["volumes"], d["volumes"])
    check("who depends on replicas waits for each", set(s["c"]["depends_on"]) == {"a-1", "a-2"} and s["c"]["restart"] == "on-failure")


def batches():
    spec = base({"s": {"kind": "serving", "target": "compose", "image": "i", "gpus": 2, "replicas": 2, "user": "7:8"}}, serve={"batch_dir": "/srv/b"},
                models={"m": {"source": "/m", "kind": "embedding", "component": "s"}})
    p = render(write("batches.yaml", spec), "batches")
    s = load("batches")["services"]
    folders = [[v["source"] for v in s[n]["volumes"] if v["target"] == "/srv/b/s"] for n in ("s-1", "s-2")]
    check("each of several servers has a folder for batches of its own", folders == [["/srv/b/s-1"], ["/srv/b/s-2"]], p.stderr, folders)
    text = open("batches/compose/compose.yaml").read()
    check("and its head says how it is made", "#   install -d -m 700 -o 7 -g 8 /srv/b/s-2\n" in text, text[:1500])


def warned():
    """What cannot be as the spec has it is said, at its line."""
    spec = base({"web": {"target": "compose", "image": "i", "replicas": 3, "ports": [{"name": "h", "port": 8081}], "depends_on": ["unit", "embed"]},
                 "unit": {"target": "systemd", "command": ["/bin/x"]}, "big": {"target": "compose", "image": "i", "gpus": 6},
                 "ft": {"target": "compose", "image": "i", "gpus": 2},
                 "embed": {"kind": "serving", "target": "compose", "image": "s", "ports": [{"name": "h", "port": 9009}]}},
                pools={"p": {"size": "20GB", "gpus": "6-7"}})
    spec["targets"]["systemd"] = {}
    p = render(write("warned.yaml", spec), "warned")
    told = [x for x in p.stderr.splitlines() if ": warning: " in x]
    for words in ("no port of 'web' is published: 3 replicas", "'web' does not wait for 'unit'", "GPUs 6,7 of 'n' are not for 'ft' only: pool 'p'"):
        check(f"warned of: {words}", p.returncode == 0 and sum(words in x for x in told) == 1, p.stderr)
    spec["components"]["own"] = {"kind": "serving", "target": "compose", "image": "s", "gpus": 0, "pools": ["p"]}
    p = render(write("barred.yaml", spec), "barred")
    check("whole GPUs that another shares by a pool: refused", p.returncode == 1 and "'ft' needs 2 GPUs" in p.stderr and "'own', which shares GPUs 6,7 by pool 'p'" in p.stderr, p.stderr)
    s = load("warned")["services"]
    check("a model server has a health check, which others wait for", "http://127.0.0.1:9009/health" in s["embed"]["healthcheck"]["test"][1]
          and all(s[f"web-{i}"]["depends_on"]["embed"]["condition"] == "service_healthy" for i in (1, 2, 3)), s["embed"], s["web-1"])


def shares():
    spec = base({"all": {"target": "compose", "image": "i", "gpus": 6}})
    spec["nodes"] = [{"name": "n", "gpus_per_node": 6, "gpu": {"model": "H200"}, "cpu_cores": 32, "threads_per_core": 2, "memory": "256GB"}]
    p = render(write("shares.yaml", spec), "shares")
    check("who has all GPUs has all hardware threads and all memory", p.returncode == 0 and
          load("shares")["services"]["all"]["deploy"]["resources"]["limits"] == {"cpus": "64", "memory": "256000000000b"}, p.stderr, load("shares"))


def same():
    render("ai-platform-h200.yaml", "again")
    files = sorted(glob.glob("again/compose/**", recursive=True, include_hidden=True) if sys.version_info >= (3, 11) else glob.glob("again/compose/*"))
    check("the same spec, the same bytes", files and subprocess.run(["diff", "-r", "ai-platform-h200", "again"]).returncode == 0)


for part_ in (schema, docker, platform, serving, real_server, health_quotes, hostile, refusals, odds, batches, warned, shares, same):
    part(part_)
done()
