# SPDX-License-Identifier: MIT
"""TAP of `stoker render systemd`: render_systemd.py STOKER TOP, in a folder with the models bert and
bert-score.  Units go below a root folder with the binary and the system's own units, where
systemd-analyze looks at them; a test run of the manager tells what it read.  Standard library alone."""
import grp
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request

import serve_box
from serve_test import STOKER, check, done, part, run, skip

TOP = sys.argv[2]
EXAMPLES = ["ai-platform-h200", "driving-h200", "kb-a100", "llm-cluster", "rdma-openshift"]
MANAGER = next((p for p in ("/usr/lib/systemd/systemd", "/lib/systemd/systemd") if os.path.exists(p)), None)
HOSTILE = ["plain", "a b", "", "$HOME", "${PATH}", "100%", "%i %%", "it's", 'say "x"', "back\\slash", "\\",
           "\\n", "new\nline", "tab\there", ";", "-x", "--", "@x", "ü € 語", "#no comment", "a=b c=d", "'", "&& rm *", "~", "!", "end\\"]


def render(spec, out, *targets):
    p = run("render", *(targets or ("systemd",)), "-f", spec, "-o", out)
    return p


def example(name):
    path = f"{name}.yaml"
    pathlib.Path(path).write_text(run("spec", "example", name).stdout)
    return path


def place(out, root):
    """What `make install` and install.sh put there, and what a machine has."""
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(f"{root}/usr/bin")
    os.makedirs(f"{root}/usr/lib/systemd")
    shutil.copytree("/usr/lib/systemd/system", f"{root}/usr/lib/systemd/system", symlinks=True, ignore_dangling_symlinks=True)
    for program in (STOKER, "/bin/kill", "/usr/bin/env"):
        shutil.copy(program, f"{root}/usr/bin/")
    os.symlink("usr/bin", f"{root}/bin")
    subprocess.run(["sh", f"{out}/systemd/install.sh"], env=dict(os.environ, DESTDIR=os.path.abspath(root)), check=True)
    return sorted(glob.glob(f"{root}/etc/systemd/system/stoker-*.service"))


def verify(root, units):
    p = subprocess.run(["systemd-analyze", "verify", "--man=no", f"--root={os.path.abspath(root)}", *map(os.path.abspath, units)],
                       capture_output=True, text=True)
    return p.stdout + p.stderr


def as_user():
    """The manager refuses to test as root."""
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []


def words(text):
    """A line of systemd's own, in its shell quoting, back into words."""
    out, i = [], 0
    while i < len(text):
        if text[i] == " ":
            i += 1
            continue
        word, quoted = "", text[i] == '"'
        i += quoted
        while i < len(text) and text[i] != ('"' if quoted else " "):
            if text[i] == "\\":
                i += 1
                word += {"n": "\n", "t": "\t"}.get(text[i], text[i])
            else:
                word += text[i]
            i += 1
        i += quoted
        out.append(word)
    return out


def manager_reads(unit):
    """Command and environment of a unit as the service manager has them after the load."""
    folder = os.path.abspath("manager")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(f"{folder}/run")
    shutil.copy(unit, folder)
    os.chmod(folder, 0o777)
    os.chmod(f"{folder}/run", 0o777)
    os.chmod(os.path.dirname(folder), 0o755)
    name = os.path.basename(unit)
    os.chmod(f"{folder}/{name}", 0o644)
    p = subprocess.run([*as_user(), "env", "-i", f"XDG_RUNTIME_DIR={folder}/run", f"SYSTEMD_UNIT_PATH={folder}:", "HOME=/",
                        "LC_ALL=C.UTF-8", MANAGER, "--user", "--test", f"--unit={name}"], capture_output=True, text=True)
    at = p.stdout.find(f"-> Unit {name}:")
    text = p.stdout[at:].split("\n\t-> Unit ")[0] if at >= 0 else ""
    line = re.search(r"-> ExecStart:\n\t*Command Line: (.*)\n", text)
    env = re.findall(r"^\t\tEnvironment: (.*(?:\n(?!\t).*)*)", text, re.M)
    return words(line[1]) if line else None, env, p.stdout[-300:] + p.stderr[-300:]


def lines_of(unit, key):
    return [x.split("=", 1)[1] for x in pathlib.Path(unit).read_text().splitlines() if x.startswith(key + "=")]


# ---- the examples

def examples():
    for name in EXAMPLES:
        p = render(example(name), f"out-{name}")
        units = place(f"out-{name}", "root")
        log = verify("root", units)
        check(f"{name}: systemd takes every unit without a word", p.returncode == 0 and len(units) >= 3 and log == "", p.stderr, log)
        specs = sorted(glob.glob(f"out-{name}/systemd/etc/*.yaml"))
        bad = [run("spec", "check", x).stderr for x in specs if run("spec", "check", x).returncode]
        check(f"{name}: the specs that units read are specs", len(specs) >= 2 and not bad, specs, bad)
        was, now = (json.loads(run("spec", "show", "--json", x).stdout)["spec"] for x in (f"{name}.yaml", f"out-{name}/systemd/etc/stoker.yaml"))
        for m in list(now["models"].values()) + list(was["models"].values()):
            m.pop("gpus", None)  # those of its component are written down
        secret = [k for k, c in now["components"].items() if c["env"]]
        check(f"{name}: but has no environment of components", not secret, secret)
        for c in was["components"].values():
            c["env"] = {}
        check(f"{name}: the agent's spec says the same", was == now, [k for k in was if was[k] != now[k]])
        again = render(f"{name}.yaml", "again")
        same = subprocess.run(["diff", "-r", f"out-{name}", "again"], capture_output=True, text=True)
        check(f"{name}: the same spec, the same bytes", again.returncode == 0 and same.returncode == 0, same.stdout)
        shutil.rmtree("again")


def mistakes():
    units = place("out-kb-a100", "root")
    agent = next(u for u in units if u.endswith("stoker-agent.service"))
    good = pathlib.Path(agent).read_text()
    for what, a, b in (("an unknown key", "ProtectSystem=", "ProtectSystm="), ("a time that is none", "RestartSec=1", "RestartSec=1parsec"),
                       ("a program that is not there", "ExecStart=stoker ", "ExecStart=stokr "), ("a bad quote", "ExecStart=stoker ", 'ExecStart=stoker "')):
        pathlib.Path(agent).write_text(good.replace(a, b))
        check(f"the check finds {what}", a in good and verify("root", units) != "")
    pathlib.Path(agent).write_text(good)


def contents():
    kb = "out-kb-a100/systemd"
    embed = f"{kb}/stoker-component-embeddings.service"
    check("embeddings are on 8003, the reranker on 8002",
          lines_of(embed, "ExecStart")[0].endswith("--port=8003") and lines_of(f"{kb}/stoker-component-reranker.service", "ExecStart")[0].endswith("--port=8002"))
    check("they start with the machine and always again", lines_of(embed, "Restart") == ["always"] and lines_of(embed, "WantedBy") == ["multi-user.target"]
          and "enable stoker-component-embeddings.service" in pathlib.Path(f"{kb}/50-stoker.preset").read_text())
    check("limits, user and watchdog are the spec's", lines_of(embed, "MemoryMax") == ["64000000000"] and lines_of(embed, "CPUQuota") == ["1600%"]
          and lines_of(embed, "User") == ["stoker"] and lines_of(embed, "WatchdogSec") == ["30000ms"] and lines_of(embed, "Type") == ["notify"])
    up = f"{kb}/stoker-up.service"
    check("up conflicts with agent and serve", lines_of(up, "Conflicts") == ["stoker-agent.service stoker-serve.service"])
    driving = "out-driving-h200/systemd/stoker-component-driving.service"
    check("a trainer is launched on its GPUs, without a watchdog it would not answer",
          lines_of(driving, "ExecStart") == ["/usr/bin/env torchrun --standalone --nproc-per-node=8 --max-restarts=3 --no-python "
                                            "python train.py --config configs/driving.py"]
          and lines_of(driving, "Type") == ["exec"] and not lines_of(driving, "WatchdogSec")
          and "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7" in lines_of(driving, "Environment"), lines_of(driving, "ExecStart"))
    for name in ("agent", "serve", "up"):
        p = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--root=" + os.path.abspath("root"),
                            os.path.abspath(f"root/etc/systemd/system/stoker-{name}.service")], capture_output=True, text=True)
        level = re.search(r"exposure level for \S+: ([0-9.]+)", p.stdout)
        check(f"{name} is hardened: exposure below 3 of 10", level and float(level[1]) < 3, p.stdout[-200:], p.stderr)


def scripts():
    if not shutil.which("shellcheck"):
        skip("shellcheck takes install.sh", "shellcheck is not here")
    else:
        p = subprocess.run(["shellcheck", "out-kb-a100/systemd/install.sh"], capture_output=True, text=True)
        check("shellcheck takes install.sh", p.returncode == 0, p.stdout)
    p = subprocess.run(["systemd-sysusers", "--dry-run", "--root=" + os.path.abspath("root"), os.path.abspath("root/etc/sysusers.d/stoker.conf")],
                       capture_output=True, text=True)
    check("systemd-sysusers takes the user", p.returncode == 0 and "Creating user 'stoker'" in p.stdout + p.stderr, p.stdout, p.stderr)
    pathlib.Path("root/etc/passwd").write_text("root:x:0:0::/:/bin/sh\nstoker:x:0:0::/:/bin/sh\n")
    pathlib.Path("root/etc/group").write_text("root:x:0:\nstoker:x:0:\n")
    p = subprocess.run(["systemd-tmpfiles", "--dry-run", "--create", "--root=" + os.path.abspath("root"), os.path.abspath("root/etc/tmpfiles.d/stoker.conf")],
                       capture_output=True, text=True)
    if "unrecognized option" in p.stderr:  # before 256 there is no dry run: it makes folders below the root
        p = subprocess.run(["systemd-tmpfiles", "--create", "--root=" + os.path.abspath("root"), os.path.abspath("root/etc/tmpfiles.d/stoker.conf")],
                           capture_output=True, text=True)
        if os.geteuid() == 0:
            check("systemd-tmpfiles makes the folders", p.returncode == 0 and os.path.isdir("root/var/lib/stoker") and os.path.isdir("root/run/stoker/jobs"), p.stderr)
            return
    check("systemd-tmpfiles reads the folders", "Unknown" not in p.stderr and "invalid" not in p.stderr.lower(), p.stderr)


# ---- whatever the texts hold

def base(component, **more):
    return {"schema": "stoker.spec/1", "nodes": [{"name": "n", "gpus_per_node": 8, "gpu": {"model": "H200"}}],
            "pools": {"p": {"size": "1GiB", "gpus": "0-1"}}, "components": {"c": {"target": "systemd", **component}}, "targets": {"systemd": {}}, **more}


def write(name, spec):
    pathlib.Path(name).write_text(json.dumps(spec, ensure_ascii=False, indent=1))
    return name


def hostile():
    env = {f"V{i}": s for i, s in enumerate(HOSTILE) if "\n" not in s}
    spec = base({"command": ["prog", *HOSTILE], "args": HOSTILE[::-1], "env": env, "workdir": "/w d/%x"})
    p = render(write("hostile.yaml", spec), "hostile")
    unit = "hostile/systemd/stoker-component-c.service"
    check("hostile texts are rendered", p.returncode == 0, p.stderr)
    log = verify("root", place("hostile", "root"))
    check("systemd takes them without a word", log == "", log)
    if not MANAGER or (os.geteuid() == 0 and not shutil.which("setpriv")):
        skip("the service manager reads what was meant", "systemd or setpriv is not here")
        return
    got, heard, log = manager_reads(unit)
    if "Failed to allocate manager" in log:
        skip("the service manager reads what was meant", "it does not start here: " + log.splitlines()[0])
        return
    want = ["/usr/bin/env", "prog", *HOSTILE, *HOSTILE[::-1]]
    lone = [w for w in got or [] if re.search(r"\$", w.replace("$$", ""))]
    check("no $ is left for systemd to expand", got is not None and not lone, lone, log)
    got = [w.replace("$$", "$") for w in got or []]
    check("the service manager reads every word as it was meant", got == want, *[f"{g!r} is not {w!r}" for g, w in zip(got, want) if g != w], log)
    lost = [f"{k}={v}" for k, v in env.items() if f"{k}={v}" not in heard]
    check("and every variable", not lost, lost, heard)


def users():
    with open("svc.yaml", "w") as f:
        f.write("nodes: [{name: g, count: 1, gpus_per_node: 1, gpu: {model: L40S}, cpu_cores: 8, memory: 32GB}]\n"
                "components:\n  a: {target: systemd, command: [/bin/true], user: svc, env: {PASSWORD: s3cr3t}, cpus: 2}\n"
                "  b: {target: systemd, command: [/bin/true], user: '1000', cpus: 2}\ntargets: {systemd: {}}\n")
    p = render("svc.yaml", "svc")
    made = open("svc/systemd/sysusers.d/stoker.conf").read().splitlines()
    check("the user that a component names is made, a number is not", "u svc -" in made and not [x for x in made if x.startswith("u 1000")], p.stderr, made)
    check("a secret of a component is in its unit alone", "s3cr3t" in open("svc/systemd/stoker-component-a.service").read()
          and "s3cr3t" not in open("svc/systemd/etc/stoker.yaml").read())


def twins():
    spec = base({"command": ["x"], "gpus": 2, "replicas": 2, "ports": [{"name": "h", "port": 8010}]})
    p = render(write("twins.yaml", spec), "twins")
    check("replicas that listen on one port of a machine are told", p.returncode == 0 and "warning: several replicas of 'c' are on one machine, and listen on port 8010" in p.stderr, p.stderr)
    server = {"kind": "serving", "gpus": 8, "replicas": 2, "user": "svc:grp"}
    spec = base(server, serve={"batch_dir": "/srv/batches", "listen": "127.0.0.1"}, models={"m": {"source": "/m", "kind": "embedding", "component": "c"}})
    spec["nodes"][0]["count"] = 2
    p = render(write("apart.yaml", spec), "apart")
    check("servers on a machine each are fine", p.returncode == 0 and "same port" not in p.stderr, p.stderr)
    made = open("apart/systemd/tmpfiles.d/stoker.conf").read().splitlines() if p.returncode == 0 else []
    check("folders of batches are made, for who writes there", "d /srv/batches 0755 stoker stoker -" in made and "d /srv/batches/c 0755 svc - -" in made, made)


def refusals():
    rows = (
        ("a description of two lines", {"command": ["x"], "description": "a\nb"}, "Description="),
        ("a description that runs on", {"command": ["x"], "description": "a\\"}, "Description="),
        ("a folder that would be cut", {"command": ["x"], "workdir": "/a "}, "WorkingDirectory="),
        ("a user that is none", {"command": ["x"], "user": "no/user"}, "no user"),
        ("a component without a command", {"image": "x"}, "no command"),
        ("a program with =", {"command": ["a=b"]}, "'='"),
        ("more GPUs than are free", {"command": ["x"], "gpus": 3, "pools": ["p"]}, "needs 3 GPUs"),
        ("a server of which two are on one machine", {"kind": "serving", "gpus": 2, "replicas": 2}, "would have the same ports"),
        ("several machines", {"command": ["x"], "gpus": 8, "nodes_per_replica": 2}, "spans 2 machines"),
    )
    for what, component, words_ in rows:
        spec = base(component)
        spec["nodes"][0]["count"] = 2 if "machines" in what else 1
        p = render(write("refused.yaml", spec), "refused")
        check(f"{what} is refused where it stands, and nothing is written",
              p.returncode != 0 and words_ in p.stderr and re.search(r"^refused\.yaml:[1-9]\d*:[1-9]", p.stderr, re.M) and not os.path.exists("refused"),
              p.returncode, p.stderr)


def replicas():
    spec = base({"command": ["x"], "gpus": 2, "replicas": 3, "fabrics": ["f"]}, fabrics=[{"name": "f", "kind": "roce", "rate": "400Gb/s"}])
    spec["components"]["d"] = {"target": "local", "command": ["y"], "gpus": 2, "depends_on": ["c"]}
    spec["nodes"][0]["fabrics"] = ["f"]
    render(write("replicas.yaml", spec), "replicas")
    seen = {}
    for u in sorted(glob.glob("replicas/systemd/stoker-component-*.service")):
        seen[os.path.basename(u)] = [x for x in lines_of(u, "Environment") if x.startswith("CUDA_VISIBLE")][0].split("=")[1]
    check("each replica has a unit and GPUs of its own", sorted(seen) == ["stoker-component-c@1.service", "stoker-component-c@2.service",
          "stoker-component-c@3.service", "stoker-component-d.service"] and len({g for s in seen.values() for g in s.split(",")}) == 8, seen)
    check("who depends waits for all of them", len(lines_of("replicas/systemd/stoker-component-d.service", "Wants")) == 4)
    log = verify("root", place("replicas", "root"))
    check("systemd takes them", log == "", log)
    check("RDMA devices are open to whom they are for", "char-infiniband* rw" in lines_of("replicas/systemd/stoker-component-c@1.service", "DeviceAllow")
          and "char-infiniband* rw" not in lines_of("replicas/systemd/stoker-component-d.service", "DeviceAllow"))


def beside_compose():
    spec = base({"command": ["x"], "gpus": 3})
    spec["components"]["d"] = {"target": "compose", "image": "i", "gpus": 5}
    spec["targets"]["compose"] = {}
    p = render(write("beside.yaml", spec), "beside", "systemd", "compose")
    unit = "beside/systemd/stoker-component-c.service"
    ids = re.findall(r'^ *- "(\d)"$', pathlib.Path("beside/compose/compose.yaml").read_text(), re.M)
    mine = [x for x in lines_of(unit, "Environment") if x.startswith("CUDA_VISIBLE")][0].split("=")[1].split(",")
    check("units and containers of one machine have different GPUs", p.returncode == 0 and len(ids) == 5 and sorted(ids + mine) == list("01234567"), ids, mine)


def two_groups():
    spec = {"schema": "stoker.spec/1", "nodes": [{"name": n, "gpus_per_node": 8, "gpu": {"model": "H200"}} for n in ("a", "b")],
            "components": {"c": {"target": "systemd", "kind": "serving", "nodes": "b", "gpus": 2}}, "targets": {"systemd": {}},
            "models": {"m": {"source": "/m", "kind": "embedding", "component": "c"}}}
    p = render(write("two.yaml", spec), "two")
    bad = [x.stderr for x in (run("spec", "check", f) for f in glob.glob("two/systemd/etc/*.yaml")) if x.returncode]
    check("a server on one of two groups has specs that are specs", p.returncode == 0 and not bad, p.stderr, bad)


# ---- the real programs by the rendered lines

def limits():
    """Work ends at its time limit for good, training with checkpoints too; the line of the unit runs."""
    spec = base({"kind": "batch", "command": ["/bin/sh", "-c", "trap 'exit 3' TERM; sleep 60 & wait"], "time_limit": "1m", "depends_on": ["far"]})
    name = next(iter(spec["components"]))
    spec["components"]["far"] = {"target": "compose", "image": "i"}
    spec["targets"]["compose"] = {}
    p = render(write("limit.yaml", spec), "limit", "systemd")
    unit = f"limit/systemd/stoker-component-{name}.service"
    text = open(unit).read()
    check("a batch unit is not started again after its limit", p.returncode == 0 and "RuntimeMaxSec" not in text and "RestartPreventExitStatus=124 137" in text
          and "Restart=on-failure" in text, p.stderr, text)
    check("warned of a component that is no unit", f"'{name}' does not wait for 'far'" in p.stderr, p.stderr)
    line = words(lines_of(unit, "ExecStart")[0])
    ended = subprocess.run([x.replace("60.000", "0.2") for x in line], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # what it left is systemd's to end
    check("the line ends with 124 at the limit, whatever the program says", "timeout" in line and ended.returncode == 124, line, ended.returncode)
    stubborn = [x.replace("60.000", "0.2").replace("90", "0.2") for x in line[:line.index("/bin/sh")]] + ["/bin/sh", "-c", "trap '' TERM; sleep 1; sleep 1"]
    ended = subprocess.run(stubborn, capture_output=True)
    check("one that does not end is killed with a status, which no crash has", ended.returncode == 137, stubborn, ended.returncode)
    crash = subprocess.run(line[:line.index("/bin/sh")] + ["/bin/sh", "-c", "kill -9 $$"], capture_output=True)
    check("a crash before the limit stays one", crash.returncode == -9, crash.returncode)
    for what, ends, more in (("a service is started again", False, {"kind": "service"}),
                             ("training with checkpoints is over", True, {"kind": "training", "gpus": 1, "training": {"framework": "other", "checkpoint": {"path": "/c"}}}),
                             ("work that always starts again does so", False, {"kind": "batch", "restart": "always"})):
        spec = base({"command": ["/bin/x"], "time_limit": "1m", **more})
        p = render(write("goes-on.yaml", spec), "goes-on", "systemd")
        text = open(f"goes-on/systemd/stoker-component-{next(iter(spec['components']))}.service").read()
        check(f"{what} at its limit", p.returncode == 0 and ("RuntimeMaxSec=60000ms" in text, "RestartPreventExitStatus=124 137" in text) == (not ends, ends), p.stderr, text)

    spec = base({"kind": "training", "command": ["/opt/venv/bin/python", "t.py"], "gpus": 1, "training": {"framework": "torchrun"}})
    p = render(write("venv.yaml", spec), "venv", "systemd")
    line = " ".join(lines_of(f"venv/systemd/stoker-component-{next(iter(spec['components']))}.service", "ExecStart"))
    check("a Python with a path brings its own torchrun", re.search(r"(^| )/opt/venv/bin/python -m torch.distributed.run --standalone .* --no-python /opt/venv/bin/python t.py$", line), p.stderr, line)


def dropped():
    """What the spec no longer has is told by install.sh, and removed by prune alone; files of others stay."""
    two = base({"command": ["/bin/x"]})
    two["components"]["old"] = {"kind": "serving", "target": "systemd", "ports": [{"name": "http", "port": 9009}]}
    two["models"] = {"m": {"source": "/m", "kind": "embedding", "component": "old"}}
    render(write("two.yaml", two), "dropped", "systemd")
    env = {**os.environ, "DESTDIR": os.path.abspath("droproot")}
    install = lambda *words: subprocess.run(["sh", "dropped/systemd/install.sh", *words], env=env, capture_output=True, text=True)
    first = install()
    unit, conf = "droproot/etc/systemd/system/stoker-component-old.service", "droproot/etc/stoker/component-old.yaml"
    theirs = pathlib.Path("droproot/etc/systemd/system/stoker-component-site.service")
    theirs.write_text("[Service]\nExecStart=/bin/true\n")
    check("nothing is told of a first install", first.returncode == 0 and "prune" not in first.stdout and os.path.exists(unit) and os.path.exists(conf), first.stdout, first.stderr)
    del two["components"]["old"], two["models"]
    render(write("one.yaml", two), "dropped", "systemd")
    told = install()
    check("install.sh tells what the spec dropped and leaves it", told.returncode == 0 and "stoker-component-old.service" in told.stdout and "prune" in told.stdout
          and "site" not in told.stdout and os.path.exists(unit), told.stdout, told.stderr)
    p = install("prune")
    check("prune removes it with its file, and nothing of others", p.returncode == 0 and not os.path.exists(unit) and not os.path.exists(conf) and theirs.exists()
          and os.path.exists("droproot/etc/systemd/system/stoker-component-c.service"), p.stdout, p.stderr)
    check("then nothing is told", "prune" not in install().stdout)


def start(unit, root, heard):
    """The unit's ExecStart with a notify socket, as the manager would; paths below /etc are the root's."""
    line = lines_of(unit, "ExecStart")[0]
    argv = [w for w in line.split() if not w.startswith("$")]
    argv = [STOKER if w == "stoker" else w.replace("/etc/stoker", os.path.abspath(f"{root}/etc/stoker")) for w in argv]
    box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    box.bind(os.path.abspath(heard))
    box.settimeout(30)
    env = dict(os.environ, NOTIFY_SOCKET=os.path.abspath(heard), WATCHDOG_USEC="2000000", RUNTIME_DIRECTORY=os.path.abspath("."))
    p = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    serve_box.living.append(p)
    words_ = []
    try:
        while len(words_) < 200 and p.poll() is None and not any("READY=1" in w for w in words_):
            words_.append(box.recv(8192).decode())
        while len(words_) < 400 and p.poll() is None and not any("WATCHDOG=1" in w for w in words_):
            words_.append(box.recv(8192).decode())
    except socket.timeout:
        pass
    box.close()
    os.unlink(heard)
    return p, any("READY=1" in w for w in words_), any("WATCHDOG=1" in w for w in words_)


def stop(p):
    p.send_signal(signal.SIGTERM)
    try:
        _, err = p.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        p.kill()
        _, err = p.communicate()
    return p.returncode, err.decode(errors="replace")


def health(port):
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10).status
    except Exception as e:
        return repr(e)


def real():
    a, b, c, d, e = serve_box.free_ports(5)
    state = os.path.abspath("state")
    os.makedirs(state)
    model = lambda source, kind, name: {"source": os.path.abspath(source), "kind": kind, "component": name}
    spec = {"schema": "stoker.spec/1", "agent": {"port": a, "metrics_port": b, "history_size": "16MiB"},
            "serve": {"port": c, "rerank_port": d},
            "models": {"vectors": model("bert", "embedding", "embed"), "scores": model("bert-score", "rerank", "rank")},
            "components": {"embed": {"kind": "serving", "target": "systemd", "ports": [{"name": "http", "port": e}]},
                           "rank": {"kind": "serving", "target": "systemd", "ports": [{"name": "http", "port": d}]}},
            "targets": {"systemd": {"state_dir": state}}}
    p = render(write("real.yaml", spec), "real")
    check("a spec of this machine is rendered", p.returncode == 0, p.stderr)
    place("real", "root")
    for name, ports in (("agent", [a]), ("serve", [c]), ("component-embed", [e]), ("up", [a, c])):
        p, ready, dog = start(f"real/systemd/stoker-{name}.service", "root", "heard")
        status = [health(port) for port in ports] if ready else None
        rc, err = stop(p)
        check(f"{name} runs by its line: ready, alive, healthy, ends well", ready and dog and set(status) == {200} and rc == 0, ready, dog, status, rc, err)
    check("the agent's history is in the spec's folder", os.path.getsize(f"{state}/history.ring") > 0)


def shares():
    spec = base({"command": ["/bin/x"], "gpus": 3})
    spec["nodes"] = [{"name": "n", "gpus_per_node": 6, "gpu": {"model": "H200"}, "cpu_cores": 32, "threads_per_core": 2, "memory": "256GB"}]
    p = render(write("shares.yaml", spec), "shares")
    unit = "shares/systemd/stoker-component-c.service"
    check("half of the GPUs bring half of the hardware threads and of the memory", p.returncode == 0 and lines_of(unit, "CPUQuota") == ["3200%"]
          and lines_of(unit, "MemoryMax") == ["128000000000"] and "# 32 hardware threads, in proportion to its GPUs" in open(unit).read(), p.stderr)


def tokens():
    """Tokens that the spec names are made once, for the units' group alone; the rendered lines do it."""
    mine = grp.getgrgid(os.getgid()).gr_name
    path = os.path.abspath("keys of mine/agent.token")
    spec = base({"command": ["/bin/x"]}, agent={"listen": "0.0.0.0", "token_file": path})
    spec["targets"]["systemd"]["group"] = mine
    p = render(write("tokens.yaml", spec), "tokens")
    script = open("tokens/systemd/install.sh").read()
    lines = re.search(r"^token\(\) \{.*^token [^\n]*$", script, re.S | re.M)
    check("install.sh makes the token", p.returncode == 0 and lines, p.stderr, script)
    go = lambda: subprocess.run(["sh", "-euc", lines.group(0)], capture_output=True, text=True)
    first, text = go(), open(path).read()
    check("64 digits, for root and the group", re.fullmatch("[0-9a-f]{64}", text) and os.stat(path).st_mode & 0o777 == 0o640 and path in first.stdout
          and os.listdir(os.path.dirname(path)) == ["agent.token"], first, text)
    check("one that is there stays", go().stdout == "" and open(path).read() == text)


for part_ in (tokens, examples, mistakes, contents, scripts, hostile, users, refusals, replicas, twins, beside_compose, two_groups, shares, limits, dropped, real):
    part(part_)
done()
