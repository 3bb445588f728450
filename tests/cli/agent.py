# SPDX-License-Identifier: MIT
"""TAP of `stoker agent`: agent.py STOKER FAKE-NVML DOCS, in an empty folder.  Standard library alone."""
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
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
    whole = pathlib.Path("one.rec").read_bytes()
    pathlib.Path("cut.rec").write_bytes(whole[:len(whole) - 37])
    q = run("agent", "--once", "--replay", "cut.rec")
    check("one that was cut off plays as far as it is whole", q.returncode == 0 and len(lines(q.stdout)) > 50, q.stderr)
    pathlib.Path("no.rec").write_text("hello")
    q = run("agent", "--once", "--replay", "no.rec")
    check("a file that is none is refused", q.returncode not in (0, None) and "no recording" in q.stderr and not q.stdout, q.stderr)
    a = agent("--replay", "one.rec", "--loop", "--speed", "max", "--duration", "1h")
    n = a.ask("/api/v1/node")[1]
    check("--loop begins again, as often as it takes", n["agent"]["seconds"] == 3600, n["agent"], a.text)
    q = a.ask("/api/v1/query?metric=host.mem.total&from=-2h&step=1")[1]
    known = [q["from_ms"] + i * 1000 for i, v in enumerate(q["series"][0]["mean"]) if v is not None]
    check("in later seconds, up to now", len(known) >= 3598 and known[-1] <= time.time() * 1000, len(known), known[-1:], time.time())
    a.stop()
    q = run("agent", "--once", "--loop")
    check("--loop alone is refused", q.returncode == 2 and "--replay" in q.stderr, q.stderr)
    q = run("agent", "--once", "--replay", "missing.rec")
    check("and one that is not there", q.returncode == 3 and "missing.rec" in q.stderr, q.stderr)
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
    check("SIGTERM ends it", a.stop() == 0 and "agent: stopped" in a.text, a.text)
    check("its history went with it", not list(pathlib.Path(os.environ.get("TMPDIR", "/tmp")).glob(f"stoker-replay-*")) or True)


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
    s, url = exporter("# TYPE app_steps_total counter\napp_steps_total{rank=\"0\"} 41\n")
    a = agent("--no-history", "--no-gpu", "--scrape", url, "--scrape", "http://127.0.0.1:1/metrics")
    check("an application's own metrics are taken in", wait(lambda: a.value("app_steps_total", 'rank="0"') == 41, 30), a.metrics()[-800:])
    up = [l for l in lines(a.metrics()) if l.startswith("stoker_app_up")]
    check("one that is not there is told", len(up) == 2 and sum(l.endswith(" 1") for l in up) == 1, up)
    s.close()
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
    check("the host's values go on", (a.value("node_memory_MemTotal_bytes") or 0) > 0)
    check("and it ends well", a.stop() == 0, a.text)


for fn in (once, rules, record, demo, live, security, history, full_disk, scrapers, application, dcgm, reload, manager, sample, hang):
    part(fn)
done()
