# SPDX-License-Identifier: MIT
"""TAP of `stoker agent`: agent.py STOKER FAKE-NVML DOCS, in an empty folder.  Standard library alone."""
import gzip
import http.client
import http.server
import json
import os
import pathlib
import shutil
import re
import resource
import signal
import socket
import subprocess
import ssl
import sys
import tarfile
import threading
import time

import agent_box
import serve_box
from agent_box import wait
from serve_test import STOKER, check, done, part, run, skip

FAKE, DOCS = sys.argv[2], sys.argv[3]
GPU = dict(FAKE_NVML_JSON=f"{DOCS}/dgx-h100.json", STOKER_NVML_LIB=FAKE)
SMALL = ("--history-size", "8MiB")


def agent(*args, **more):
    return agent_box.Agent(STOKER, *args, **more)


def lines(text, *without):
    return [l for l in text.splitlines() if not l.startswith("#") and not any(w in l for w in without)]


def families(text):
    return {l.split()[2] for l in text.splitlines() if l.startswith("# TYPE")}


def once():
    p = run("agent", "--once", "--no-gpu")
    check("--once prints this machine as /metrics does", p.returncode == 0 and "node_memory_MemTotal_bytes" in families(p.stdout), p.stdout[-300:], p.stderr)
    p = run("agent", "--once", "--json", "--no-gpu")
    d = json.loads(p.stdout)
    check("--json: the same as JSON", d["schema"] == "stoker.telemetry/1" and not d["demo"] and
          any(v["metric"] == "host.mem.total" and v["value"] > 0 for v in d["values"]), p.stdout[:300])
    check("no value is null", all(v["value"] is not None for v in d["values"]))
    p = run("agent", "--json")
    check("--json alone is refused", p.returncode == 2 and "--once" in p.stderr, p.stderr)


def rules():
    p = run("agent", "--print-rules")
    check("--print-rules: the alerts as a file for Prometheus", p.returncode == 0 and p.stdout.count("- alert: ") > 50 and
          '- alert: "GpuXidFatal"' in p.stdout and "DCGM_FI_DEV_GPU_TEMP " in p.stdout, p.stdout[:300], p.stderr)
    a = agent("--no-gpu", "--no-history")
    names = {r["name"] for r in a.ask("/api/v1/rules")[1]["rules"]}
    a.stop()
    told = set(re.findall(r'- alert: "(\w+)"', p.stdout))
    check("every rule of the agent is in it", names and names == told and "only the agent" not in p.stdout, names ^ told)
    pathlib.Path("rules.yaml").write_text("default_alerts:\n  GpuUnderused: {off: true}\nalerts:\n  hot: {metric: gpu_temperature, warn: 70C}\n")
    q = run("agent", "--print-rules", "-f", "rules.yaml", "--metric-names", "new")
    check("as the spec changes them, under the names asked for", q.returncode == 0 and "GpuUnderused" not in q.stdout and '- alert: "hot"' in q.stdout and
          "DCGM_FI_DEV_GPU_TEMP_CELSIUS > 70" in q.stdout, q.stdout[-600:], q.stderr)
    q = run("agent", "--print-rules", "--demo")
    check("with --demo it is refused", q.returncode == 2 and "--print-rules" in q.stderr and not q.stdout, q.stderr)


def record():
    p = run("agent", "--once", "--no-gpu", "--record", "one.rec")
    q = run("agent", "--once", "--replay", "one.rec")
    check("a recording, replayed, gives the same text", p.returncode == 0 and q.returncode == 0 and len(lines(p.stdout)) > 50 and
          lines(p.stdout) == lines(q.stdout, "stoker_demo "), p.stderr, q.stderr,
          set(lines(p.stdout)) ^ set(lines(q.stdout, "stoker_demo ")))
    check("and says that it is one", "\nstoker_demo 1\n" in q.stdout)
    mode = pathlib.Path("one.rec").stat().st_mode & 0o777
    check("a recording names users and jobs: others may not read it", mode == 0o600, oct(mode))
    whole = pathlib.Path("one.rec").read_bytes()
    pathlib.Path("cut.rec").write_bytes(whole[:len(whole) - 37])
    q = run("agent", "--once", "--replay", "cut.rec")
    check("one that was cut off plays as far as it is whole", q.returncode == 0 and len(lines(q.stdout)) > 50, q.stderr)
    pathlib.Path("no.rec").write_text("hello")
    q = run("agent", "--once", "--replay", "no.rec")
    check("a file that is none is refused", q.returncode not in (0, None) and "not a recording" in q.stderr and not q.stdout, q.stderr)
    a = agent("--replay", "one.rec", "--loop", "--speed", "max", "--samples", "3600")
    n = a.ask("/api/v1/node")[1]
    check("--loop begins again, as often as it takes", n["agent"]["seconds"] == 3600, n["agent"], a.text)
    q = a.ask("/api/v1/query?metric=host.mem.total&from=-2h&step=1")[1]
    known = [q["from_ms"] + i * 1000 for i, v in enumerate(q["series"][0]["mean"]) if v is not None]
    check("in later seconds, up to now", len(known) >= 3598 and known[-1] <= time.time() * 1000, len(known), known[-1:], time.time())
    a.stop()
    q = run("agent", "--once", "--samples", "3")
    check("--samples without a recording is refused", q.returncode == 2 and "--replay" in q.stderr, q.stderr)
    for how in (["--replay", "one.rec"], ["--replay", "one.rec", "--speed", "max"], ["--replay", "one.rec", "--loop"], ["--demo"], ["--demo", "--speed", "100"]):
        begun = time.monotonic()
        q = run("agent", *how, "--port", "0", "--metrics-port", "none", "--control", "none", "--duration", "2s")
        took = time.monotonic() - begun
        check(f"{' '.join(how)} --duration: it ends by the clock, not before", q.returncode == 0 and took >= 2 and "agent: stopped" in q.stderr, took, q)
    q = run("agent", "--once", "--loop")
    check("--loop alone is refused", q.returncode == 2 and "--replay" in q.stderr, q.stderr)
    q = run("agent", "--once", "--replay", "missing.rec")
    check("and one that is not there", q.returncode == 3 and "missing.rec" in q.stderr, q.stderr)
    pathlib.Path("diary").write_text("my diary\n")
    for name, more, words in (("one.rec", (), "give --force"), ("diary", (), "is not a recording"), ("diary", ("--force",), "is not a recording")):
        before = pathlib.Path(name).read_bytes()
        p = run("agent", "--once", "--no-gpu", "--record", name, *more)
        check(f"--record {' '.join((name, *more))}: what is there stays", p.returncode == 1 and words in p.stderr and not p.stdout and
              pathlib.Path(name).read_bytes() == before, p.returncode, p.stderr)
    p = run("agent", "--once", "--replay", "one.rec", "--record", "one.rec", "--force")
    check("nor is a recording written over itself", p.returncode == 2 and pathlib.Path("one.rec").read_bytes() == whole, p.returncode, p.stderr)
    pathlib.Path("empty").touch()
    for name in ("empty", "one.rec"):
        p = run("agent", "--once", "--no-gpu", "--record", name, *(["--force"] if name == "one.rec" else []))
        now = pathlib.Path(name).read_bytes()
        check(f"an empty file and, by --force, a recording are written: {name}", p.returncode == 0 and now[:8] == b"STKTELE1" and now != whole, p.stderr)
    p = run("agent", "--once", "--no-gpu", "--record", "/dev/full")
    check("a recording that cannot be written ends, the agent does not", p.returncode == 0 and "recording '/dev/full' ends" in p.stderr and
          len(lines(p.stdout)) > 50, p.stderr)


def demo():
    a = agent("--demo")
    text = a.metrics()
    uuids = set(re.findall(r'DCGM_FI_DEV_POWER_USAGE\{gpu="\d",UUID="([^"]+)"', text))
    check("--demo shows eight GPUs, each with its own UUID", len(uuids) == 8, text[:500], a.text)
    check("and bus", len(set(re.findall(r'DCGM_FI_DEV_POWER_USAGE\{[^}]*pci_bus_id="([^"]+)"', text))) == 8)
    powers = [float(x) for x in re.findall(r"^DCGM_FI_DEV_POWER_USAGE\{.*\} ([0-9.]+)$", text, re.M)]
    check("which do different things at a time", len(set(powers)) >= 4, powers)
    check("it is marked", a.value("stoker_demo") == 1 and a.ask("/health")[1]["demo"] is True and "this is a demo" in a.text)
    kib = int(re.search(r"MemTotal: +(\d+)", pathlib.Path("/proc/meminfo").read_text())[1])
    check("nothing of this machine is in it", "node_uname_info" not in families(text) and
          a.value("node_memory_MemTotal_bytes") not in (None, kib * 1024))
    st, node = a.ask("/api/v1/node")
    check("the node's document says so too", st == 200 and '"demo": true' in json.dumps(node), st, str(node)[:400])
    st, q = a.ask("/api/v1/query?metric=gpu.power&from=-10m&points=10")
    check("and there is history before its start", st == 200 and len(q.get("series", [])) == 8, st, str(q)[:400])
    held = [os.readlink(f"/proc/{a.p.pid}/fd/{x}") for x in os.listdir(f"/proc/{a.p.pid}/fd")]
    held = [x for x in held if "stoker-replay-" in x]
    check("its history is a file without a name, so that it goes with it", held and all(x.endswith(" (deleted)") for x in held), held)
    check("SIGTERM ends it", a.stop() == 0 and "agent: stopped" in a.text, a.text)


def live():
    a = agent("--history", "live.ring", *SMALL, env=GPU, *("--control", "c.sock"))
    check("it starts", a.metrics_port and a.port, a.text)
    check("host metrics are there", (a.value("node_memory_MemTotal_bytes") or 0) > 0)
    check("the GPUs of the driver too", wait(lambda: a.metrics().count("\nDCGM_FI_DEV_GPU_TEMP{") == 8, 30), a.metrics()[:1500], a.text)
    check("it knows how the machine is put together", wait(lambda: a.ask("/api/v1/topology")[0] == 200, 30), a.ask("/api/v1/topology"))
    check("and what NCCL does on it", "scores" in a.ask("/api/v1/topology")[1]["nccl"]["choice"])
    check("/metrics is on both ports", a.ask("/metrics")[0] == 200)
    st, h = a.ask("/health")
    check("/health says ok", st == 200 and h["status"] == "ok" and h["history"] is True, h)
    age = a.value("stoker_collector_age_seconds", 'collector="cpu"')
    check("collectors tell age and cost", age is not None and age < 30 and a.value("stoker_collector_duration_seconds", 'collector="cpu"') is not None)
    check("no unknown is shown as NaN", " NaN" not in a.metrics())
    p = run("agent", "status", "--control", "c.sock", "--json")
    d = json.loads(p.stdout)
    check("status", p.returncode == 0 and d["alive"] and d["history"]["kept"] and d["driver"]["state"] == "runs", p.stdout[:800], p.stderr)
    p = run("agent", "status", "--control", "c.sock")
    check("status for people", "driver" in p.stdout and "live.ring" in p.stdout, p.stdout)
    p = run("agent", "release", "--control", "c.sock")
    check("release", p.returncode == 0 and "released" in p.stdout, p.stdout, p.stderr)
    check("then the GPUs are unknown", wait(lambda: "\nDCGM_FI_DEV_GPU_TEMP{" not in a.metrics(), 30))
    check("and the rest is not", (a.value("node_memory_MemTotal_bytes") or 0) > 0)
    p = run("agent", "attach", "--control", "c.sock")
    check("attach brings them back", p.returncode == 0 and wait(lambda: a.metrics().count("\nDCGM_FI_DEV_GPU_TEMP{") == 8, 30), p.stderr)
    p = run("agent", "bundle", "--control", "c.sock", "b.tar")
    names = sorted(os.path.basename(m.name) for m in tarfile.open("b.tar").getmembers()) if p.returncode == 0 else []
    check("bundle", {"history.rec", "events.json", "status.json", "metrics.txt", "kernel.log", "alerts.json"} <= set(names), p.stderr, names)
    tarfile.open("b.tar").extract("stoker-bundle/history.rec")
    q = run("agent", "--once", "--replay", "stoker-bundle/history.rec")
    check("its history can be replayed", q.returncode == 0 and "node_memory_MemTotal_bytes" in families(q.stdout), q.stderr, q.stdout[:300])
    p = run("agent", "dance", "--control", "c.sock")
    check("an unknown word is refused", p.returncode == 2 and "release, attach" in p.stderr, p.stderr)
    b = subprocess.run([STOKER, "agent", "--port", str(a.port), "--metrics-port", "0", "--no-gpu", "--no-history", "--control", "none"],
                       capture_output=True, text=True, timeout=60)
    check("a port that is taken is an error that says so", b.returncode == 1 and "could not listen" in b.stderr and "Another program" in b.stderr, b.stderr)
    pathlib.Path("precious").write_text("precious")
    for name, make in (("precious", lambda: None), ("a-link", lambda: os.symlink("precious", "a-link")), ("dangling", lambda: os.symlink("nowhere", "dangling"))):
        make()
        p = run("agent", "--port", "0", "--metrics-port", "none", "--no-history", "--no-gpu", "--control", name, "--duration", "1s", "--quiet")
        check(f"a control path that is no socket is told and left alone: {name}", p.returncode == 0 and "no control socket" in p.stderr and
              "no socket" in p.stderr.partition("it is there")[2] and os.path.lexists(name), p.stderr)
    check("and so is what it holds", pathlib.Path("precious").read_text() == "precious" and os.path.islink("a-link"))
    p = run("agent", "status", "--control", "nobody.sock")
    check("no agent, no status", p.returncode in (1, 3) and "no agent answers" in p.stderr, p.stderr)
    check("SIGINT ends it well", a.stop(signal.SIGINT) == 0 and "agent: stopped" in a.text, a.text)
    check("its socket is gone", not os.path.exists("c.sock"))


def security():
    p = run("agent", "--listen", "0.0.0.0", "--port", "0", "--metrics-port", "0", "--no-history", "--no-gpu", "--control", "none")
    check("beyond loopback a token is needed", p.returncode == 2 and "without a token" in p.stderr, p.stderr)
    pathlib.Path("token").write_text("secret\n")
    a = agent("--token-file", "token", "--no-history", "--no-gpu", "--open-metrics")
    check("/metrics may be open", a.ask("/metrics")[0] == 200)
    check("the API is not", a.ask("/api/v1/node")[0] == 401)
    check("with the token it is", a.ask("/api/v1/node", headers={"Authorization": "Bearer secret"})[0] == 200)
    check("/health never needs one", a.ask("/health")[0] == 200)
    a.stop()
    a = agent("--token-file", "token", "--no-history", "--no-gpu")
    check("/metrics wants it by default", a.ask("/metrics", a.metrics_port)[0] == 401)
    a.stop()


def history():
    args = ("--history", "h.ring", "--no-gpu", *SMALL)
    query = "/api/v1/query?metric=host.mem.total&from=-10m&step=1"

    def points(a):
        """Seconds that have a value."""
        st, q = a.ask(query)
        if st != 200 or not q.get("series"):
            return set()
        return {q["from_ms"] // 1000 + i for i, v in enumerate(q["series"][0]["mean"]) if v is not None}

    a = agent(*args)
    wait(lambda: len(points(a)) >= 2, 20)
    seen = points(a)
    check("history grows", len(seen) >= 2, a.ask(query)[1], a.text)
    a.stop(signal.SIGKILL)
    check("kill -9 leaves the file", os.path.getsize("h.ring") >= 8 << 20)
    a = agent(*args)
    check("after kill -9 what was seen is there", seen <= points(a), seen - points(a), a.text)
    p = run("agent", "--port", "0", "--metrics-port", "0", "--control", "none", "--duration", "2s", *args)
    check("a history in use by another agent is left alone", p.returncode == 0 and "without history" in p.stderr, p.returncode, p.stderr)
    a.stop()
    with open("h.ring", "r+b") as f:  # in the middle: a torn or flipped block
        f.seek(3 << 20)
        f.write(os.urandom(4096))
    a = agent(*args)
    check("a damaged history: the agent starts", a.ask("/health")[1]["status"] == "ok", a.text)
    a.stop()
    pathlib.Path("text.ring").write_text("not a ring\n" * 1000)
    p = run("agent", "--history", "text.ring", "--no-gpu", "--port", "0", "--metrics-port", "0", "--control", "none", *SMALL)
    check("a file that is no history is refused, not overwritten", p.returncode in (1, 2, 3) and
          pathlib.Path("text.ring").read_text().startswith("not a ring"), p.returncode, p.stderr)


def full_disk():
    """A limit on the size of files stands for a disk that is full: EFBIG where a disk says ENOSPC."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    a = agent("--history", "full.ring", "--no-gpu", *SMALL, files=limit)
    check("no room for the history: it goes on and says so", a.ask("/health")[1]["status"] == "degraded" and "without history" in a.text, a.text)
    check("values are shown all the same", (a.value("node_memory_MemTotal_bytes") or 0) > 0)
    a.stop()
    a = agent("--history", "/proc/nowhere/x.ring", "--no-gpu", *SMALL)
    check("so it does where it may not write", a.ask("/health")[1]["status"] == "degraded" and "without history" in a.text, a.text)
    a.stop()


def scrapers():
    a = agent("--demo")
    wrong, seen = [], []

    def scrape():
        try:
            for _ in range(3):
                st, text = a.ask("/metrics", a.metrics_port)
                seen.append(text.count("\nDCGM_FI_DEV_POWER_USAGE{"))
                if st != 200:
                    wrong.append(st)
        except Exception as e:
            wrong.append(repr(e))
    threads = [threading.Thread(target=scrape) for _ in range(100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check("100 scrapers at once are all answered", not wrong and len(seen) == 300 and set(seen) == {8}, wrong[:5], set(seen))
    a.stop()


def exporter(text):
    """A server that answers everybody with a text: its socket, and its URL."""
    s = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                c, _ = s.accept()
            except OSError:
                return
            c.recv(4096)
            body = text.encode()
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            c.close()
    threading.Thread(target=serve, daemon=True).start()
    return s, f"http://127.0.0.1:{s.getsockname()[1]}/metrics"


def dcgm():
    """A fake of DCGM's exporter beside a fake driver that has no performance monitor."""
    a = agent("--no-history", env=GPU)
    wait(lambda: "\nDCGM_FI_DEV_GPU_TEMP{" in a.metrics(), 30)
    temp = next(l for l in lines(a.metrics()) if l.startswith("DCGM_FI_DEV_GPU_TEMP{gpu=\"0\""))
    a.stop()
    uuid = re.search('UUID="([^"]+)"', temp)[1]
    who = f'gpu="0",UUID="{uuid}",device="nvidia0",modelName="NVIDIA H200",Hostname="other",pod="p"'
    s, url = exporter(f'''# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{{{who}}} 999
# TYPE DCGM_FI_PROF_PIPE_FP64_ACTIVE gauge
DCGM_FI_PROF_PIPE_FP64_ACTIVE{{{who}}} 0.125
DCGM_FI_DEV_VGPU_LICENSE_STATUS{{{who}}} 1
DCGM_FI_DEV_FB_USED{{gpu="9",UUID="GPU-of-another",device="nvidia9",modelName="NVIDIA A100"}} 3
DCGM_FI_PROF_PIPE_FP16_ACTIVE{{{who},GPU_I_ID="3",GPU_I_PROFILE="1g.10gb"}} 0.5
DCGM_EXP_GPU_HEALTH_STATUS{{{who},health_watch="PCIE",health_error_code=""}} 10
DCGM_FI_DEV_ENC_UTIL{{{who}}} 9223372036854775794
DCGM_FI_DEV_SOMETHING_NEW{{{who}}} 7
node_load1 99
''')
    a = agent("--no-history", "--dcgm", url, env=GPU)
    check("what the driver does not tell comes from DCGM's exporter",
          wait(lambda: "DCGM_FI_DEV_VGPU_LICENSE_STATUS{" in a.metrics() and "\nDCGM_FI_DEV_GPU_TEMP{" in a.metrics(), 30), a.text)
    text = a.metrics()
    own = re.search(r"^DCGM_FI_DEV_GPU_TEMP(\{gpu=\"0\".*\}) (\S+)$", text, re.M)
    check("with the labels of the GPU's other series", f"\nDCGM_FI_DEV_VGPU_LICENSE_STATUS{own[1]} 1\n" in text,
          [l for l in lines(text) if "LICENSE" in l], own[1])
    check("what the driver tells stays the driver's", float(own[2]) < 200 and text.count('DCGM_FI_DEV_GPU_TEMP{gpu="0"') == 1, own[0])
    check("labels beyond a GPU's are kept", 'health_watch="PCIE"' in text)
    check("in DCGM's units, of GPUs that the driver does not have too", re.search(r'DCGM_FI_DEV_FB_USED\{gpu="9",UUID="GPU-of-another".*\} 3$', text, re.M))
    check("its unknown, its new names and its other metrics are left out", "SOMETHING_NEW" not in text and "9223372036854775" not in text and
          a.value("node_load1") != 99)
    s.close()
    check("and it is gone with the exporter", wait(lambda: "VGPU_LICENSE" not in a.metrics(), 40), a.text)
    check("while the driver's own go on", "\nDCGM_FI_DEV_GPU_TEMP{" in a.metrics())
    a.stop()


def application():
    many = "".join(f'app_shard{{name="{"x" * 60}{i}"}} 1\n' for i in range(1500))
    s, url = exporter("# TYPE app_steps_total counter\napp_steps_total{rank=\"0\"} 41\n" + many)
    a = agent("--history", "app.ring", *SMALL, "--no-gpu", "--scrape", url, "--scrape", "http://127.0.0.1:1/metrics")
    check("an application's own metrics are taken in", wait(lambda: a.value("app_steps_total", 'rank="0"') == 41, 30), a.metrics()[-800:])
    up = [l for l in lines(a.metrics()) if l.startswith("stoker_app_up")]
    check("one that is not there is told", len(up) == 2 and sum(l.endswith(" 1") for l in up) == 1, up)
    query = "/api/v1/query?metric=app_steps_total&step=60"
    got = wait(lambda: (a.ask(query + "&from=-5m")[1] or {}).get("series"), 20)
    before = a.ask(query + "&from=-10m&to=-5m")
    check("and kept; before it ran its series is empty, not unknown", got and before[0] == 200 and before[1]["series"] == [] and before[1]["unit"] == "1", got, before)
    full = [e["text"] for e in a.ask("/api/v1/events")[1]["events"] if "no room for the names" in e["text"]]
    check("a history too small for the names of all series says so, once", len(full) == 1 and "--history-size" in full[0], a.ask("/api/v1/events"))
    s.close()
    a.stop()
    a = agent("--history", "app.ring", *SMALL, "--no-gpu")
    got, before = a.ask(query + "&from=-5m"), a.ask(query + "&from=-10m&to=-5m")
    check("an agent that does not ask it any more knows it from the history", got[0] == 200 and len(got[1]["series"]) == 1 and before[0] == 200, got, before)
    check("what nobody ever told is unknown", a.ask("/api/v1/query?metric=app_never")[0] == 400)
    a.stop()


def older_series():
    """A bundle of minutes in which there were far more series than there are now."""
    text = [""]

    class App(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text[0].encode())

        def log_message(self, *args):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), App)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = ("--history", "many.ring", *SMALL, "--no-gpu", "--scrape", f"http://127.0.0.1:{server.server_address[1]}/", "--control", "many.sock")
    text[0] = "".join(f'lane{{n="{i}"}} {i}\n' for i in range(1500)) + "retired 5\n"
    a = agent(*options)
    check("an application of many series", wait(lambda: a.metrics().count("\nlane{") == 1500, 30), a.text)
    before = time.time()
    wait(lambda: time.time() > before + 3)
    a.stop()
    text[0] = 'lane{n="0"} 7\n'
    a = agent(*options)
    wait(lambda: a.metrics().count("\nlane{") == 1, 30)
    p = run("agent", "bundle", "--control", "many.sock", "many.tar")
    check("of which one is left", p.returncode == 0 and a.p.poll() is None, p.stderr, a.text)
    check("the agent goes on", a.stop() == 0, a.text)
    server.shutdown()
    with tarfile.open("many.tar") as t:
        rec = t.extractfile("stoker-bundle/history.rec").read()
    pathlib.Path("many.rec").write_bytes(rec)
    best = {}
    for n in range(2, 14, 3): # seconds of the recording; that of the many is among the first
        out = run("agent", "--once", "--replay", "many.rec", "--samples", str(n)).stdout
        got = dict(re.findall(r'^lane\{n="(\d+)"\} (\d+)$', out, re.M))
        best = got if len(got) > len(best) else best
    check("has them all, each with its value", len(best) == 1500 and all(n == v for n, v in best.items()), len(best), list(best.items())[:3])
    check("and the metric that nothing shows any more", b"retired" in rec, len(rec))


def no_server():
    """A model server that is dead for good."""
    a = agent("--no-history", "--no-gpu", "--serve", "http://127.0.0.1:1")
    health = lambda: a.ask("/health")
    check("a model server that is dead is told by /health", wait(lambda: health()[1]["model_server"] is False, 20) and health()[1]["status"] == "degraded" and health()[0] == 200, health(), a.text)
    check("and stays so, while the rest goes on", not wait(lambda: health()[1]["status"] != "degraded", 3) and health()[1]["sampling"] and (a.value("node_memory_MemTotal_bytes") or 0) > 0, health())
    a.stop()


def reload():
    spec = pathlib.Path("site.yaml")
    spec.write_text("schema: stoker.spec/1\nagent:\n  dcgm_names: old\n")
    a = agent("-f", "site.yaml", "--no-history", env=GPU)
    wait(lambda: "\nDCGM_FI_DEV_GPU_TEMP{" in a.metrics(), 30)
    spec.write_text("schema: stoker.spec/1\nagent:\n  dcgm_names: new\n")
    a.p.send_signal(signal.SIGHUP)
    check("SIGHUP reads the spec again", wait(lambda: "\nDCGM_FI_DEV_GPU_TEMP_CELSIUS{" in a.metrics(), 30), a.text)
    spec.write_text("schema: stoker.spec/1\nagent: 7\n")
    a.p.send_signal(signal.SIGHUP)
    check("a wrong one changes nothing", a.wait_text("stays as it was") and "\nDCGM_FI_DEV_GPU_TEMP_CELSIUS{" in a.metrics(), a.text)
    a.stop()


def told_again():
    """What Alertmanager hears of an alert after a restart has the words that it had before."""
    posts = []

    class Manager(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            posts.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Manager)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pathlib.Path("again.yaml").write_text(f"schema: stoker.spec/1\nnotify: {{alertmanager: 'http://127.0.0.1:{server.server_address[1]}'}}\nalerts:\n  memory: {{metric: custom, series: host.mem.total, warn: 1, for: 0s}}\n")
    options = ("--history", "again.ring", *SMALL, "--no-gpu", "-f", "again.yaml")
    words = lambda: [{k: v for k, v in x["annotations"].items() if k != "runbook_url"} for x in posts if x["labels"]["alertname"] == "memory"]  # the port is another one
    a = agent(*options)
    check("Alertmanager is told with summary and description", wait(words, 30) and words()[0].get("description") and words()[0].get("summary"), posts, a.text)
    first = words()[0]
    wait(lambda: os.path.exists("again.ring.firing"), 10)
    a.p.kill()
    a.p.wait()
    posts.clear()
    a = agent(*options)
    check("and after a restart with the same", wait(words, 30) and all(x == first for x in words()), first, words(), a.text)
    a.stop()
    server.shutdown()


def manager():
    """The service manager's protocol: ready, watchdog, stopping."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind("notify")
    sock.settimeout(30)
    # who is told reads from the beginning: ten messages that nobody takes, and the eleventh waits
    a = agent("--no-history", "--no-gpu", ready=False, env=dict(NOTIFY_SOCKET=os.path.abspath("notify"), WATCHDOG_USEC="400000"))
    said = ""
    while "WATCHDOG=1" not in said or "READY=1" not in said:
        said += sock.recv(4096).decode() + "\n"
    check("ready and alive are told", a.wait_text("stoker agent: ready") and f"X_STOKER_METRICS=http://127.0.0.1:{a.metrics_port}" in said, said)
    a.stop()
    while "STOPPING=1" not in said:
        said += sock.recv(4096).decode() + "\n"
    check("stopping too", True)


def sample():
    p = run("agent", "--gpu-sample", env=dict(os.environ, **GPU))
    rows = [l.split() for l in p.stdout.splitlines()]
    check("--gpu-sample: a table of the driver's calls, dearest first", p.returncode == 0 and rows[0][:2] == ["call", "usual"] and len(rows) > 20 and
          float(rows[1][3]) >= float(rows[2][3]) and rows[-1][0] == "the", p.stdout[:600], p.stderr)
    p = run("agent", "--gpu-sample", "--json", env=dict(os.environ, **GPU))
    d = json.loads(p.stdout)
    check("with --json all there is", d["schema"] == "stoker.gpu-sample/1" and len(d["gpus"]) == 8 and d["usual"]["calls"], p.stdout[:300])


def hang():
    a = agent("--no-history", env=dict(GPU, FAKE_NVML_FAULT="hang:nvmlDeviceGetTemperatureV:3"))
    check("a driver that hangs is told", wait(lambda: a.value("stoker_driver_hung") == 1 or a.ask("/health")[1]["driver_hung"], 40), a.ask("/health"), a.text)
    check("and the call is left alone while other GPUs are asked", wait(lambda: a.value("stoker_driver_collectors_abandoned") == 1 and a.value("DCGM_FI_DEV_GPU_TEMP", 'gpu="0"'), 40), a.text)
    st, h = a.ask("/health")
    check("/health says so for as long as it hangs", st == 200 and h["driver_hung"] and h["status"] == "degraded" and h["model_server"] is None, h)
    x = [x for x in a.ask("/api/v1/alerts")[1]["alerts"] if x["name"] == "GpuDriverHung"]
    check("the alert names the call and the GPU", x and "nvmlDeviceGetTemperatureV(3)" in x[0]["summary"] and "GPU 3" in x[0]["summary"] and x[0]["labels"]["gpu"] == "3", x)
    check("the host's values go on", (a.value("node_memory_MemTotal_bytes") or 0) > 0)
    check("and it ends well", a.stop() == 0, a.text)


def keys():
    """Files of tokens, certificate and key are read again when they change."""
    def put(name, text):
        with open(name + ".new", "w") as f:
            f.write(text)
        os.rename(name + ".new", name)

    def certificate(name):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                        "-keyout", "key.pem.new", "-out", "cert.pem.new"], check=True, capture_output=True)
        os.rename("key.pem.new", "key.pem")
        os.rename("cert.pem.new", "cert.pem")

    def shown():
        c = ssl.create_default_context()
        c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", a.port), timeout=20) as s, c.wrap_socket(s) as t:
            return t.getpeercert(True)

    def status(token, path="/api/v1/node", port=None):
        return a.ask(path, port, {"Authorization": f"Bearer {token}"})[0]
    put("token", "first-token-0123456789")
    put("figures", "figures-token-0123456789")
    a = agent("--no-history", "--no-gpu", "--token-file", "token", "--metrics-token-file", "figures")
    check("the tokens hold", status("first-token-0123456789") == 200 and status("figures-token-0123456789", "/metrics", a.metrics_port) == 200)
    put("token", "second-token-0123456789")
    put("figures", "other-token-0123456789")
    check("a token that is changed is changed", wait(lambda: status("second-token-0123456789") == 200, 20) and status("first-token-0123456789") == 401 and
          wait(lambda: status("other-token-0123456789", "/metrics", a.metrics_port) == 200, 20) and status("figures-token-0123456789", "/metrics", a.metrics_port) == 401, a.text)
    put("token", "")
    check("a file without a token changes nothing", a.wait_text("before stays", 20) and status("second-token-0123456789") == 200, a.text)
    a.stop()
    certificate("one")
    a = agent("--no-history", "--no-gpu", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
    one = shown()
    certificate("two")
    check("a certificate that is changed is shown", wait(lambda: shown() != one, 20), a.text)
    a.stop()


def formats():
    """/metrics packed, as OpenMetrics, and of chosen metrics; what it listens on."""
    def get(a, path="/metrics", **headers):
        c = http.client.HTTPConnection("127.0.0.1", a.metrics_port, timeout=60)
        c.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        r = c.getresponse()
        return r.status, dict(r.getheaders()), r.read()
    a = agent("--no-history", env=GPU)
    wait(lambda: a.value("DCGM_FI_DEV_GPU_TEMP", 'gpu="0"'), 30)
    st, h, raw = get(a, accept_encoding="gzip")
    text = gzip.decompress(raw).decode()
    check("gzip when asked", st == 200 and h["Content-Encoding"] == "gzip" and "DCGM_FI_DEV_GPU_TEMP" in text and len(raw) * 4 < len(text), h)
    check("and not when it is refused", "Content-Encoding" not in get(a, accept_encoding="gzip;q=0")[1] and "Content-Encoding" not in get(a)[1])
    prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
    st, h, raw = get(a, accept=prometheus)
    lines = raw.decode().splitlines()
    types = {l.split()[2]: l.split()[3] for l in lines if l.startswith("# TYPE")}
    samples = {l.split("{")[0].split(" ")[0] for l in lines if not l.startswith("#")}
    bad = [n for n in samples if n not in types and not (n.endswith("_total") and types.get(n[:-6]) == "counter")] + [n for n, t in types.items() if t == "counter" and n in samples]
    check("OpenMetrics when asked: its type, its end, counters by their family", h["Content-Type"].startswith("application/openmetrics-text; version=1.0.0") and
          lines[-1] == "# EOF" and set(types.values()) <= {"gauge", "counter", "unknown"} and "counter" in types.values() and not bad, h, bad[:5], lines[-2:])
    check("Prometheus' own text for everybody else", get(a, accept="text/plain;q=1,application/openmetrics-text;q=0.1")[1]["Content-Type"].startswith("text/plain; version=0.0.4") and
          get(a, accept="*/*")[2].decode().splitlines()[-1] != "# EOF")
    names = {l.split("{")[0] for l in get(a, "/metrics?collect%5B%5D=gpu.temp&collect[]=node_load*")[2].decode().splitlines() if not l.startswith("#")}
    check("collect[] chooses", {n.split(" ")[0] for n in names} == {"DCGM_FI_DEV_GPU_TEMP", "node_load1", "node_load5", "node_load15"}, names)
    check("one that is unknown is refused", get(a, "/metrics?collect[]=nope")[0] == 400 and b"'nope'" in get(a, "/metrics?collect[]=nope")[2])
    a.stop()
    pathlib.Path("wanted.csv").write_text("# as DCGM's exporter takes it\nDCGM_FI_DEV_GPU_TEMP, gauge, GPU temperature (in C).\n\nhost.mem.total\n")
    a = agent("--no-history", "--metrics-file", "wanted.csv", env=GPU)
    wait(lambda: a.value("DCGM_FI_DEV_GPU_TEMP", 'gpu="0"'), 30)
    names = {l.split("{")[0].split(" ")[0] for l in a.metrics().splitlines() if not l.startswith("#")}
    check("a file chooses", names == {"DCGM_FI_DEV_GPU_TEMP", "node_memory_MemTotal_bytes"}, names)
    a.stop()
    p = run("agent", "--metrics-file", "none.csv")
    check("a file that is not there is refused", p.returncode == 3 and "none.csv" in p.stderr, p.stderr)
    a = agent("--no-history", "--no-gpu", "--listen", "0.0.0.0", "--insecure")
    check("it says what it listens on", f"page http://0.0.0.0:{a.port}/" in a.text and "every address of this machine, without a token" in a.text, a.text)
    a.stop()


def unprivileged():
    """Who may not read the kernel's log says so."""
    if os.geteuid() != 0 or pathlib.Path("/proc/sys/kernel/dmesg_restrict").read_text().strip() != "1" and os.stat("/dev/kmsg").st_mode & 4:
        skip("the kernel's log that cannot be read", "not root, or everybody may read it")
        return
    os.chmod(".", 0o755)
    program = shutil.copy(STOKER, os.path.abspath("stoker-of-all"))  # a source below a home of 0700 is nobody else's
    a = agent_box.Agent(program, "--no-history", "--no-gpu", files=lambda: (os.setgid(65534), os.setuid(65534)))
    check("a kernel log that cannot be read is told, with the reason", "the kernel's log cannot be read: Permission denied" in a.text or
          "the kernel's log cannot be read: Operation not permitted" in a.text, a.text)
    check("the status says so", not a.ask("/api/v1/node")[1]["agent"]["kernel_log"]["read"], a.ask("/api/v1/node")[1]["agent"])
    a.stop()


def silences():
    """An alert that is silenced goes to nobody, over a restart too; one that is acknowledged says by whom."""
    here = os.getcwd()
    pathlib.Path("tell.sh").write_text(f"#!/bin/sh\ncat >>{here}/told\necho >>{here}/told\n")
    os.chmod("tell.sh", 0o755)
    pathlib.Path("told").touch()
    pathlib.Path("alerts.yaml").write_text(f"schema: stoker.spec/1\nalerts:\n  always: {{metric: custom, series: host.mem.total, warn: 1, for: 1s}}\nnotify: {{command: [{here}/tell.sh], log: false}}\n")
    pathlib.Path("admin").write_text("admin-token-0123456789\n")

    def begin():
        return agent("--no-gpu", "--history", "silent.ring", "--history-size", "8MiB", "-f", "alerts.yaml", "--control", f"{here}/s.sock", "--admin-token-file", "admin")

    def told():
        notes = [n for line in open("told") if line.strip() for n in json.loads(line)]
        return [n["status"] for n in notes if n["labels"]["alertname"] == "always"]

    def alert():
        return next((x for x in a.ask("/api/v1/alerts")[1]["alerts"] if x["name"] == "always" and x["state"] == "firing"), {})

    def say(*words):
        return run("agent", *words, "--control", f"{here}/s.sock")

    def post(body, token="admin-token-0123456789", kind="application/json"):
        c = http.client.HTTPConnection("127.0.0.1", a.port, timeout=60)
        c.request("POST", "/api/v1/silences", body=json.dumps(body), headers={"Content-Type": kind, **({"Authorization": f"Bearer {token}"} if token else {})})
        r = c.getresponse()
        return r.status, json.loads(r.read() or b"null")
    a = begin()
    check("it fires and is told", wait(lambda: told() == ["firing"], 30), told(), a.text)
    x = [n for line in open("told") if line.strip() for n in json.loads(line)][0]
    check("with the page's address and a runbook that answers", x["generatorURL"] == f"http://127.0.0.1:{a.port}/" and
          x["annotations"]["runbook_url"] == f"http://127.0.0.1:{a.port}/api/v1/rules?name=always" and a.ask("/api/v1/rules?name=always")[1]["rules"][0]["metric"] == "host.mem.total" and
          a.ask("/api/v1/rules?name=nope")[0] == 404, x)
    p = say("silence", "alw*", "--for", "1h", "--by", "anna", "--comment", "known")
    check("silenced by a command", p.returncode == 0 and p.stdout == "silence 1\n" and alert()["silenced"]["by"] == "anna", p.stdout, p.stderr)
    check("receivers hear that it is over", wait(lambda: told() == ["firing", "resolved"], 30), told())
    check("which is known beyond the next second", wait(lambda: "waits_for" not in pathlib.Path("silent.ring.firing").read_text(), 20))
    a.stop(signal.SIGKILL)
    a = begin()
    check("a restart keeps it", wait(alert, 30) and alert()["silenced"]["comment"] == "known" and told() == ["firing", "resolved"], told(), alert())
    p = say("silences")
    check("it is listed", "silenced" in p.stdout and "alw*" in p.stdout and "by anna: known" in p.stdout, p.stdout, p.stderr)
    p = say("unsilence", "1")
    check("when it ends receivers hear of it again", p.returncode == 0 and wait(lambda: told() == ["firing", "resolved", "firing"], 30) and alert()["silenced"] is None, told(), p.stderr)
    p = say("ack", "always", "--by", "ben")
    check("acknowledged: it goes on, and says by whom", p.returncode == 0 and alert()["acknowledged"]["by"] == "ben" and told()[-1] == "firing", alert(), p.stderr)
    st, v = post({"alert": "always", "labels": {"gpu": "7"}, "for": "1m", "force": True})
    check("over HTTP with the admin's token; labels that it lacks do not cover it", st == 200 and any(s["labels"] == {"gpu": "7"} for s in v["silences"]) and alert()["silenced"] is None, st, v)
    check("and it ends there", post({"end": [s["id"] for s in v["silences"] if s["labels"]][0]})[0] == 200 and post({"end": 99})[0] == 404)
    check("without the token, or not as JSON, it is refused", post({"alert": "always", "for": "1h"}, token=None)[0] in (401, 403) and post({"alert": "always", "for": "1h"}, kind="text/plain")[0] in (401, 403, 415))
    for wrong, words in (({"label": {"gpu": "3"}}, "unknown member 'label'"), ({"duration": "10m"}, "unknown member 'duration'"), ({"acknowledge": "yes"}, "'acknowledge' is not true or false"),
                         ({"for": 3600}, "'for' is not a time"), ({"labels": ["gpu=3"]}, "'labels' is not an object"), ({"labels": {"gpu": 3}}, "label 'gpu' is not a text"),
                         ({"comment": "x" * 3000}, "'comment' has 3000 bytes, at most 127"), ({"alert": "alwys"}, "did you mean 'always'?"),
                         ({"labels": {"gpu": "3"}}, "no alert of 'always' has a label 'gpu'"), ({"end": 1}, "'end' is the number")):
        st, v = post({"alert": "always", "for": "1h"} | wrong)
        check(f"refused: {words}", st == 400 and words in v["error"], st, v)
    p = say("silence", "GpuTemperaturHigh", "gpu=3")
    check("a rule that does not exist is refused, the nearest named", p.returncode and "did you mean 'GpuTemperatureHigh'?" in p.stderr, p.stdout, p.stderr)
    p = say("silence", "DiskFull", "mount_point=/data")
    check("and a label that its alerts do not have", p.returncode and "has a label 'mount_point'" in p.stderr and "mountpoint" in p.stderr, p.stdout, p.stderr)
    check("unless it is forced", say("silence", "GpuTemperaturHigh", "gpu=3", "--force", "--comment", "one\ntwo").returncode == 0 and "one\\ntwo" in say("silences").stdout, say("silences").stdout)
    check("what is no silence is refused", post({"for": "1h"})[0] == 400 and post({"alert": "x"})[0] == 400 and post({"alert": "x", "for": "9y"})[0] == 400 and post(["x"])[0] == 400)
    a.stop()
    with open("silent.ring.silences", "a") as f:
        f.write("garbage\n")
    a = begin()
    check("a damaged file of silences is moved aside and told, what is whole holds", a.wait_text("1 line is damaged; it is 'silent.ring.silences.damaged' now, 2 of them hold", 5) and
          any("silences were damaged" in e["text"] for e in a.ask("/api/v1/events?from=-1h")[1]["events"]) and os.path.exists("silent.ring.silences.damaged") and
          len(a.ask("/api/v1/silences")[1]["silences"]) == 2, a.text, a.ask("/api/v1/silences"))
    a.stop()


def unheard():
    """What fired in a silence ends without a word to receivers."""
    here = os.getcwd()
    pathlib.Path("hear.sh").write_text(f"#!/bin/sh\ncat >>{here}/heard\necho >>{here}/heard\n")
    os.chmod("hear.sh", 0o755)
    pathlib.Path("heard").touch()
    pathlib.Path("app.txt").write_text("my_queue 5\nother_queue 5\n")
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    s.RequestHandlerClass.log_message = lambda *a: None
    threading.Thread(target=s.serve_forever, daemon=True).start()
    pathlib.Path("queue.yaml").write_text(f"schema: stoker.spec/1\nalerts:\n  queue: {{metric: custom, series: my_queue, warn: 100, for: 0s, keep: 0s}}\n  other: {{metric: custom, series: other_queue, warn: 100, for: 0s, keep: 0s}}\n"
                                          f"notify: {{command: [{here}/hear.sh]}}\nagent: {{scrape: ['http://127.0.0.1:{s.server_address[1]}/app.txt']}}\n")
    a = agent("--no-gpu", "--no-history", "-f", "queue.yaml", "--control", f"{here}/u.sock")

    def state(name):
        return next((x["state"] for x in a.ask("/api/v1/alerts")[1]["alerts"] if x["name"] == name), None)

    def heard():
        return [(n["labels"]["alertname"], n["status"]) for line in open("heard") if line.strip() for n in json.loads(line) if n["labels"]["alertname"] in ("queue", "other")]
    check("a rule of an application can be silenced before it has ever answered", run("agent", "silence", "queue", "--for", "1h", "--control", f"{here}/u.sock").returncode == 0)
    pathlib.Path("app.txt").write_text("my_queue 150\nother_queue 150\n")
    check("both fire", wait(lambda: state("queue") == state("other") == "firing", 40), a.text)
    pathlib.Path("app.txt").write_text("my_queue 5\nother_queue 5\n")
    check("both end", wait(lambda: state("queue") == state("other") == "resolved", 40), a.text)
    check("receivers and the log hear of the one that was told alone", wait(lambda: heard() == [("other", "firing"), ("other", "resolved")], 20) and
          "alert other resolved" in a.text and "alert queue" not in a.text, heard(), a.text)
    a.stop()
    s.shutdown()


class Receiver(http.server.BaseHTTPRequestHandler):
    """An application's metrics, and a webhook that may be out of order."""
    app, up, notes = "", True, []

    def log_message(self, *args):
        pass

    def say(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.say(200, Receiver.app.encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if Receiver.up:
            Receiver.notes += json.loads(body)
        self.say(200 if Receiver.up else 503)


def restarts():
    """What fires goes on over a restart: told once, with its beginning, and told when it is over."""
    here = os.getcwd()
    pathlib.Path("again.sh").write_text(f"#!/bin/sh\ncat >>{here}/again\necho >>{here}/again\n")
    os.chmod("again.sh", 0o755)
    pathlib.Path("again").touch()
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{s.server_address[1]}"
    rule = "{{metric: custom, series: {}_queue, warn: 100, for: 0s, keep: 0s}}"

    def spec(*names):
        rules = "".join(f"  {n}: {rule.format(n)}\n" for n in names)
        pathlib.Path("again.yaml").write_text(f"schema: stoker.spec/1\nalerts:\n{rules}notify: {{webhook: '{url}/hook', command: [{here}/again.sh]}}\nagent: {{scrape: ['{url}/metrics']}}\n")

    def app(one, two):
        Receiver.app = f"one_queue {one}\ntwo_queue {two}\n"

    def begin():
        return agent("--no-gpu", "--history", "again.ring", "--history-size", "8MiB", "-f", "again.yaml")

    def hook(name):
        return [n for n in list(Receiver.notes) if n["labels"]["alertname"] == name]

    def heard(name):
        """By the webhook, by the command."""
        told = [n["status"] for line in open("again") if line.strip() for n in json.loads(line) if n["labels"]["alertname"] == name]
        return [n["status"] for n in hook(name)], told

    def both(*words):
        return (list(words), list(words))

    def state(name):
        return next((x["state"] for x in a.ask("/api/v1/alerts")[1]["alerts"] if x["name"] == name), None)

    def kept():
        text = pathlib.Path("again.ring.firing").read_text() if os.path.exists("again.ring.firing") else ""
        return [x for x in map(json.loads, text.splitlines()) if (x.get("alert") or x["labels"]["alertname"]) in ("one", "two")]

    def settled(name):
        return any(x.get("alert") == name and len(x["told"]) == 3 for x in kept()) and not any("waits_for" in x for x in kept())
    spec("one", "two")
    app(150, 5)
    a = begin()
    check("it fires and is told", wait(lambda: heard("one") == both("firing"), 40), heard("one"), a.text)
    begun = hook("one")[0]["startsAt"]
    a.stop()
    a = begin()
    check("after SIGTERM and a start it fires", wait(lambda: state("one") == "firing", 40), a.text)
    app(150, 150)
    check("another fires and is told", wait(lambda: heard("two") == both("firing"), 40), heard("two"))
    check("the first was not told again", heard("one") == both("firing"), heard("one"))
    check("the file has both", wait(lambda: settled("one") and settled("two"), 20), kept())
    a.stop(signal.SIGKILL)
    app(150, 5)
    a = begin()
    check("what ended while the agent was killed is told, with its beginning", wait(lambda: heard("two") == both("firing", "resolved"), 40) and
          hook("two")[0]["startsAt"] == hook("two")[1]["startsAt"], heard("two"), a.text)
    check("what did not end fires on, untold", wait(lambda: state("one") == "firing", 40) and heard("one") == both("firing"), heard("one"))
    a.stop()
    with open("again.ring.firing", "a") as f:
        f.write("garbage\n")
    a = begin()
    check("a damaged file is moved aside and told, what is whole in it holds", a.wait_text("1 line is damaged; it is 'again.ring.firing.damaged' now, ", 5) and
          any("what fires was damaged" in e["text"] for e in a.ask("/api/v1/events?from=-1h")[1]["events"]) and os.path.exists("again.ring.firing.damaged"), a.text)
    check("and fires on", wait(lambda: state("one") == "firing", 40) and settled("one"), kept())
    a.stop()
    app(5, 5)
    a = begin()
    check("what ended while the agent was stopped is told, with its beginning", wait(lambda: heard("one") == both("firing", "resolved"), 40) and
          [n["startsAt"] for n in hook("one")] == [begun, begun], heard("one"), hook("one"), a.text)
    check("nothing is kept of it", wait(lambda: kept() == [], 20), kept())
    Receiver.up = False
    app(150, 5)
    check("of a webhook that is out of order the note is kept", wait(lambda: heard("one")[1] == ["firing", "resolved", "firing"] and sum("waits_for" in x for x in kept()) == 1, 40), heard("one"), kept())
    a.stop(signal.SIGKILL)
    app(5, 5)
    a = begin()
    check("and the one that it is over", wait(lambda: sum("waits_for" in x for x in kept()) == 2, 40), kept(), a.text)
    a.stop()
    Receiver.up = True
    a = begin()
    check("after two restarts it hears both, in order; the command hears no more than the end", wait(lambda: heard("one") == (["firing", "resolved"] * 2, ["firing", "resolved"] * 2), 40), heard("one"), a.text)
    app(150, 5)
    check("it fires again", wait(lambda: len(hook("one")) == 5 and settled("one"), 40), heard("one"))
    a.stop()
    spec("two")
    a = begin()
    check("one whose rule is no more is told as gone", wait(lambda: heard("one") == (["firing", "resolved"] * 3, ["firing", "resolved"] * 3), 40) and "gone" in hook("one")[-1]["annotations"].get("ended", ""), heard("one"), a.text)
    a.stop()
    s.shutdown()


def links():
    """Links in alerts lead to an address that their readers can reach, or there is none."""
    here = os.getcwd()
    pathlib.Path("link.sh").write_text(f"#!/bin/sh\ncat >>{here}/linked\necho >>{here}/linked\n")
    os.chmod("link.sh", 0o755)

    def note(notify, *args):
        pathlib.Path("linked").write_text("")
        pathlib.Path("links.yaml").write_text(f"schema: stoker.spec/1\nalerts:\n  always: {{metric: custom, series: host.mem.total, warn: 1, for: 0s}}\nnotify: {{command: [{here}/link.sh]{notify}}}\n")
        a = agent("--no-gpu", "--no-history", "-f", "links.yaml", *args)
        check("it is told", wait(lambda: "always" in open("linked").read(), 30), a.text)
        n = [n for line in open("linked") if line.strip() for n in json.loads(line) if n["labels"]["alertname"] == "always"][0]
        a.stop()
        return n.get("generatorURL"), n["annotations"].get("runbook_url"), a
    page, book, a = note(", webhook: 'http://192.0.2.1:9/hook'")
    check("on loopback with a receiver elsewhere: no link, and a warning", page is None and book is None and "without a link to this page, which listens on '127.0.0.1'" in a.text, page, book, a.text)
    page, book, a = note(", webhook: 'http://192.0.2.1:9/hook'", "--public-url", "https://node7.example.org/stoker/")
    check("with an address that others reach", page == "https://node7.example.org/stoker/" and book == "https://node7.example.org/stoker/api/v1/rules?name=always" and "without a link" not in a.text, page, book, a.text)
    page, book, a = note(", webhook: 'http://127.0.0.1:9/hook'")
    check("a receiver on this machine gets the page's own", page == f"http://127.0.0.1:{a.port}/" and "without a link" not in a.text, page, a.text)
    page, book, a = note(", webhook: 'http://192.0.2.1:9/hook'", "--listen", "0.0.0.0", "--insecure")
    check("beyond loopback it is the machine's name", page == f"http://{socket.gethostname()}:{a.port}/", page)
    p = run("agent", "--no-gpu", "--no-history", "--public-url", "node7")
    check("what is no address is refused", p.returncode == 2 and "--public-url 'node7'" in p.stderr, p.stderr)


def damaged():
    """A history whose head is damaged, one that was cut, one with flipped bits."""
    path = "damaged.ring"
    a = agent("--no-gpu", "--history", path, "--history-size", "8MiB")
    wait(lambda: a.value("stoker_ring_samples_total"), 20)
    a.stop(signal.SIGKILL)
    with open(path, "r+b") as f:
        f.write(b"\0" * 8192)
    a = agent("--no-gpu", "--history", path, "--history-size", "8MiB")
    events = [e["text"] for e in a.ask("/api/v1/events?from=-1h")[1]["events"]]
    check("a damaged head is moved aside and told, the agent goes on", os.path.exists(path + ".damaged") and a.wait_text("is damaged: it is 'damaged.ring.damaged' now", 5) and
          any("damaged.ring.damaged" in e for e in events) and a.ask("/health")[1]["history"], a.text, events)
    a.stop()
    os.truncate(path, 6 << 20)
    a = agent("--no-gpu", "--history", path, "--history-size", "8MiB")
    check("one that was cut is told", a.wait_text("2097152 of 8388608 bytes at its end are missing", 5), a.text)
    a.stop(signal.SIGKILL)
    data = bytearray(open(path, "rb").read())
    spots = [i for i in range(0, len(data) - 3, 8) if data[i:i + 4] == b"RLOG"]
    for i in spots[:3]:
        data[i + 60] ^= 1
    open(path, "wb").write(data)
    a = agent("--no-gpu", "--history", path, "--history-size", "8MiB")
    check("flipped bits are counted and told", spots and a.wait_text("damaged and left out", 5) and re.search(r" (1 part is|[23] parts are) damaged and left out", a.text) and (a.value("stoker_ring_bad_blocks_total") or 0) >= 1, len(spots), a.text)
    check("and alert", wait(lambda: any(x["name"] == "HistoryCorrupted" for x in a.ask("/api/v1/alerts")[1]["alerts"]), 20))
    a.stop()
    os.remove(path)
    with open(path, "wb") as f:
        f.truncate(16 << 20)
    a = agent("--no-gpu", "--history", path, "--history-size", "8MiB")
    check("a file of zeros is moved aside and told, the agent goes on", a.p.poll() is None and "is damaged: it is 'damaged.ring.damaged.1' now" in a.text and a.ask("/health")[1]["history"], a.text)
    a.stop()


def under():
    """A history that is removed, replaced or cut under a running agent."""
    path = "under.ring"
    args = ("--no-gpu", "--history", path, "--history-size", "8MiB")
    a = agent(*args)
    wait(lambda: a.value("stoker_ring_samples_total"), 20)
    # a write that is under way when the file is cut makes it longer again: the bytes left are not known here
    for how, words in ((lambda: os.remove(path), "was removed"), (lambda: os.truncate(path, 0), "was cut to "),
                       (lambda: os.truncate(path, 5 << 20), "was cut to "),
                       (lambda: (pathlib.Path("other").touch(), os.rename("other", path)), "another file is in the place of")):
        events = lambda: sum(words in e["text"] for e in a.ask("/api/v1/events?from=-1h")[1]["events"])
        before, events_before = a.text.count(words), events()
        how()
        told = wait(lambda: a.text.count(words) > before, 20)
        check(f"a history that {words} is told, and another begun", told and wait(lambda: events() > events_before, 20) and
              wait(lambda: os.path.exists(path) and os.path.getsize(path) == 8 << 20, 20) and
              wait(lambda: a.ask("/health")[1]["history"], 20), a.text)
    check("it is counted and alerts", wait(lambda: a.value("stoker_ring_errors_total") == 4, 20) and wait(lambda: any(x["name"] == "HistoryFailing" for x in a.ask("/api/v1/alerts")[1]["alerts"]), 20))
    shown = a.ask("/api/v1/query?metric=host.cpu.count&from=-10m&step=1")[1]["series"][0]["mean"]
    a.stop(signal.SIGKILL)
    a = agent(*args)
    kept = a.ask("/api/v1/query?metric=host.cpu.count&from=-10m&step=1")[1]["series"][0]["mean"]
    seconds = [sum(v is not None for v in x) for x in (shown, kept)]
    check("what was shown then survives kill -9", seconds[0] and seconds[1] >= seconds[0], seconds)
    os.mkdir("gone")
    a.stop()
    a = agent("--no-gpu", "--history", "gone/h", "--history-size", "8MiB")
    shutil.rmtree("gone")
    check("without a folder for another it goes on without history, and says so", a.wait_text("was removed", 20) and a.wait_text("goes on without history", 20) and
          a.ask("/health")[1] | {"status": "degraded", "history": False} == a.ask("/health")[1], a.text)
    a.stop()


for fn in (once, rules, record, demo, live, security, keys, formats, silences, unheard, restarts, told_again, links, unprivileged, history, damaged, under, full_disk, scrapers, application, older_series, no_server, dcgm, reload, manager, sample, hang):
    part(fn)
done()
