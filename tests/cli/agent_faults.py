# SPDX-License-Identifier: MIT
"""TAP of `stoker agent` through faults: agent_faults.py STOKER FAKE-NVML TESTS FAKE-CLOCK, in an empty folder.
Standard library alone."""
import http.client
import json
import os
import pathlib
import re
import resource
import socket
import subprocess
import sys
import threading
import time

import agent_box
from agent_box import wait
from serve_test import STOKER, check, done, part, skip

FAKE, TESTS, CLOCK = sys.argv[2:5]
CONTROL = pathlib.Path("control")
GPU = dict(FAKE_NVML_JSON=f"{TESTS}/fakenvml/dgx-h100.json", FAKE_NVML_LIVE=f"{TESTS}/fixtures/gpu/dgx-h100.json", STOKER_NVML_LIB=FAKE,
           FAKE_NVML_CONTROL=str(CONTROL.absolute()))
SMALL = ("--history-size", "8MiB")
SERIES = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\[\\"n])*",?)*\})? (NaN|[-+]?Inf|[-+0-9.e]+)')


def fault(text):
    CONTROL.with_suffix(".next").write_text(text)
    CONTROL.with_suffix(".next").rename(CONTROL)


def agent(*args, **more):
    return agent_box.Agent(STOKER, *args, **more)


def temps(a):
    """GPUs that have a temperature."""
    return set(re.findall(r'\nDCGM_FI_DEV_GPU_TEMP\{gpu="(\d+)"', a.metrics()))


def events(a):
    return [e["text"] for e in a.ask("/api/v1/events?limit=200")[1]["events"]]


def told(a, words, seconds=40):
    return wait(lambda: any(words in e for e in events(a)), seconds)


ALL = {str(i) for i in range(8)}


def driver():
    fault("")
    a = agent("--no-history", env=GPU)
    check("eight GPUs answer", wait(lambda: temps(a) == ALL, 40), temps(a), a.text)
    fault("lose:2")
    check("a GPU is lost: it alone is unknown", wait(lambda: temps(a) == ALL - {"2"}, 40), temps(a))
    check("and told", wait(lambda: a.value("stoker_gpu_lost", 'gpu="2"') == 1, 20) and a.value("stoker_gpu_lost", 'gpu="1"') == 0 and
          told(a, "is lost"), events(a))
    fault("")
    check("it comes back", wait(lambda: temps(a) == ALL, 40), temps(a))
    fault("reload")
    check("a driver that is reloaded underneath is told", told(a, "the driver went away underneath"), events(a))
    fault("")
    check("and attached again", wait(lambda: temps(a) == ALL, 40), temps(a))
    fault("skew")
    check("a library of another version: GPUs are unknown", told(a, "two versions") and wait(lambda: not temps(a), 40), events(a), temps(a))
    check("the host's values are not", (a.value("node_memory_MemTotal_bytes") or 0) > 0)
    fault("")
    check("until they fit again", wait(lambda: temps(a) == ALL, 60), temps(a), a.text)
    check("it ends well", a.stop() == 0, a.text)


def disk():
    """The limit on the size of files, set under a running agent, stands for a disk that fills up."""
    a = agent("--history", "disk.ring", "--no-gpu", *SMALL)
    check("history is kept at first", a.ask("/health")[1]["status"] == "ok", a.text)
    resource.prlimit(a.p.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    check("a disk that fills up: it says so", wait(lambda: a.ask("/health")[1]["history"] is False, 30) and told(a, "no history"), a.text)
    before = a.value("node_cpu_seconds_total")
    check("and goes on", wait(lambda: (a.value("node_cpu_seconds_total") or 0) > before, 30))
    check("it ends well", a.stop() == 0, a.text)
    a = agent("--history", "disk.ring", "--no-gpu", *SMALL)
    check("what was kept before is there afterwards", a.ask("/health")[1]["status"] == "ok" and seconds(a, -600) > 0, a.text)
    a.stop()


def seconds(a, begin, end=0):
    """Those with a value, from `begin` to `end` seconds from the agent's now."""
    st, q = a.ask(f"/api/v1/query?metric=host.mem.total&from={begin}s" + (f"&to={end}s" if end else "") + "&step=1")
    if st != 200 or not q.get("series"):
        return 0
    return sum(v is not None for v in q["series"][0]["mean"])


def incident():
    """A critical alert keeps a bundle a minute later, for who may read the history and nobody else."""
    mono = pathlib.Path("mono")
    mono.write_text("0")
    env = dict(LD_PRELOAD=CLOCK, FAKE_CLOCK_MONO=str(mono.absolute()), ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0")
    pathlib.Path("memory.yaml").write_text("schema: stoker.spec/1\nalerts:\n  memory: {metric: custom, series: host.mem.total, warn: 1, critical: 2, for: 0s}\n")
    old = os.umask(0o022)
    a = agent("--history", "incident.ring", "--no-gpu", *SMALL, "-f", "memory.yaml", "--control", "i.sock", env=env)
    os.umask(old)
    fires = a.wait_text("alert memory (critical)", 30)
    mono.write_text("61")
    kept = lambda: list(pathlib.Path("incident.ring.bundles").glob("incident-*.tar")) if os.path.isdir("incident.ring.bundles") else []
    if not wait(kept, 10) and a.p.poll() is None:
        skip("an incident's bundle", "this build does not take its clock from a library")
        a.stop()
        return
    check("an incident is kept a minute later", fires and told(a, "the incident is kept in"), events(a), a.text)
    subprocess.run([STOKER, "agent", "bundle", "own.tar", "--control", "i.sock"], capture_output=True)
    subprocess.run([STOKER, "agent", "silence", "DiskFull", "--control", "i.sock"], capture_output=True)
    paths = ("incident.ring", "incident.ring.bundles", str(kept()[0]), "incident.ring.firing", "incident.ring.silences", "own.tar")
    modes = {p: os.stat(p).st_mode & 0o777 for p in paths}
    check("who may not read the history reads nothing of it elsewhere", all(m & 0o027 == 0 for m in modes.values()), {p: oct(m) for p, m in modes.items()})
    check("it ends well", a.stop() == 0, a.text)


def cut():
    a = agent("--history", "cut.ring", "--no-gpu", *SMALL)
    wait(lambda: seconds(a, -600) >= 2, 30)
    a.stop()
    whole = os.path.getsize("cut.ring")
    for size in (whole // 2, 4096, 100, 0):
        os.truncate("cut.ring", size)
        a = agent("--history", "cut.ring", "--no-gpu", *SMALL, ready=False)
        alive = wait(lambda: "agent: ready" in a.text or a.p.poll() is not None, 30) and a.p.poll() is None
        check(f"a history cut to {size} bytes: it runs, keeps history and tells what is missing", alive and a.ask("/health")[1]["history"] and
              (not size or f"{whole - size} of {whole} bytes at its end are missing" in a.text), a.text)
        check("and shows values", alive and (a.value("node_memory_MemTotal_bytes") or 0) > 0)
        a.stop()


def clock():
    now = pathlib.Path("clock")
    now.write_text("-86400")
    env = dict(LD_PRELOAD=CLOCK, FAKE_CLOCK=str(now.absolute()), ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0")
    a = agent("--history", "clock.ring", "--no-gpu", *SMALL, env=env)
    if a.p.poll() is not None or a.ask("/api/v1/node")[1].get("time_ms", time.time() * 1000) / 1000 > time.time() - 3600:
        skip("a clock that is set", "this build does not take its clock from a library")
        a.stop()
        return
    check("history grows", wait(lambda: seconds(a, -600) >= 2, 30), a.text)
    now.write_text(str(3600 - 86400))
    check("a clock set forward is told", told(a, "the clock was set forward by 3600"), events(a))
    check("seconds go on", wait(lambda: seconds(a, -600) >= 2, 30), a.text)
    check("both runs are kept", seconds(a, -4200) > seconds(a, -1800), seconds(a, -4200), seconds(a, -1800))
    now.write_text(str(-86400 - 7200))
    check("a clock set back as well", told(a, "the clock was set back by 10800") and wait(lambda: seconds(a, -600) >= 2, 30), events(a))
    check("no value became old or lost by it", a.ask("/health")[1]["status"] == "ok" and (a.value("node_memory_MemTotal_bytes") or 0) > 0)
    check("it ends well", a.stop() == 0, a.text)


def log():
    """The kernel's log while the clock is set: its own clock is not, and what it tells counts all the same."""
    now, root = pathlib.Path("log.clock"), pathlib.Path("logged")
    (root / "dev").mkdir(parents=True)
    (root / "proc").mkdir()
    (root / "proc/stat").write_text(f"cpu  1 0 0 1 0 0 0 0 0 0\nbtime {int(time.time()) - 1000}\n")
    (root / "dev/kmsg").write_text("")
    now.write_text("0")
    env = dict(LD_PRELOAD=CLOCK, FAKE_CLOCK=str(now.absolute()), ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0")
    a = agent("--no-history", "--no-gpu", "--root", str(root), env=env)
    wait(lambda: a.value("stoker_kmsg_lines_total") is not None, 20)
    for code, off, how in ((31, 3600, "forward"), (62, -7200, "back")):
        now.write_text(str(off))
        if not told(a, f"the clock was set {how}"):
            skip("a kernel log while the clock is set", "this build does not take its clock from a library")
            break
        with open(root / "dev/kmsg", "a") as f:
            f.write(f"4,{code},1000000000,-;NVRM: Xid (PCI:0000:0a:00): {code}, pid=7\n")
        wait(lambda: a.value("stoker_gpu_xid_errors_total", f'xid="{code}"'), 20)
        check(f"an XID counts after the clock was set by {off} s", a.value("stoker_gpu_xid_errors_total", f'xid="{code}"') == 1, events(a))
        e = [e for e in a.ask("/api/v1/events?limit=200")[1]["events"] if e["kind"] == "xid" and f"XID {code}" in e["text"]]
        check("at the time that the clock has now", e and abs(e[0]["time_ms"] / 1000 - time.time() - off) < 60, e, time.time())
    check("it ends well", a.stop() == 0, a.text)


def gone():
    """A GPU that is taken out while an alert of it fires and the others go on: played from a recording of hours, cut in
    the gap of one of its GPUs."""
    made = subprocess.run([str(pathlib.Path(STOKER).parent / "tests/fake_node"), "7300", "gone.rec"], capture_output=True, text=True)
    os.truncate("gone.rec", os.path.getsize("gone.rec") * 545 // 1000)
    pathlib.Path("gone.yaml").write_text("schema: stoker.spec/1\nalerts:\n  warm: {metric: custom, series: gpu.temp, warn: 40, for: 0s, keep: 0s}\n")
    a = agent("--replay", "gone.rec", "--speed", "max", "-f", "gone.yaml")
    warm = lambda: {x["labels"]["gpu"]: (x["state"], x["gone"]) for x in a.ask("/api/v1/alerts")[1]["alerts"] if x["name"] == "warm"}
    check("the alert of a GPU that was taken out ends as gone", wait(lambda: warm().get("7") == ("resolved", True), 60), made.stderr, warm(), a.text)
    check("those of the others fire on", all(warm().get(str(g)) == ("firing", False) for g in range(7)), warm())
    check("which an event tells", any("warm is gone" in e for e in events(a)), events(a))
    a.stop()


HOSTILE = b"""# TYPE app_a gauge
app_a{v="quote \\" back \\\\ line \\n end"} 1
app_a{v="\xff\xfe not UTF-8 \xc3"} 2
app_a{v="\x00\x01\x1b[31m"} 3
app_a{v="} 1e9\nDCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} 9999"} 4
app_a{gpu="0",UUID="GPU-1",Hostname="evil",__name__="x"} 5
app_a{v="a",v="b"} 6
app_a{""" + b",".join(b'l%d="x"' % i for i in range(200)) + b"""} 7
app_a{v=\"""" + b"y" * 100000 + b"""\"} 8
DCGM_FI_DEV_GPU_TEMP{gpu="0"} 12345
node_memory_MemTotal_bytes 1
# HELP app_b \xff\n# TYPE app_b nonsense
app_b NaN
app_b +Inf
app_c 0x10
app_ok 42
"""


def hostile():
    s = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                c, _ = s.accept()
            except OSError:
                return
            c.recv(4096)
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(HOSTILE) + HOSTILE)
            c.close()
    threading.Thread(target=serve, daemon=True).start()
    fault("")
    a = agent("--no-history", "--scrape", f"http://127.0.0.1:{s.getsockname()[1]}/metrics", env=GPU)
    check("an application with hostile labels is taken in", wait(lambda: a.value("app_ok") == 42, 40), a.text)
    wait(lambda: temps(a) == ALL, 40)
    c = http.client.HTTPConnection("127.0.0.1", a.metrics_port)
    c.request("GET", "/metrics")
    raw = c.getresponse().read()
    text = raw.decode(errors="replace")
    wrong = [l for l in text.split("\n") if l and not l.startswith("#") and not SERIES.fullmatch(l)]
    check("every line of /metrics is one of the text format", not wrong, wrong[:3])
    check("it is UTF-8 without control characters", text.encode() == raw and not re.search(r"[\x00-\x09\x0b-\x1f]", text))
    check("no series is there twice", len(set(l.rpartition(" ")[0] for l in text.splitlines() if not l.startswith("#"))) ==
          sum(not l.startswith("#") for l in text.splitlines()))
    lines = [l for l in text.splitlines() if l.startswith("DCGM_FI_DEV_GPU_TEMP{")]
    check("nothing of ours was replaced", len([l for l in lines if 'UUID="GPU-' in l]) == 8 and not any(l.endswith(" 9999") for l in lines) and
          sum(float(l.split()[-1]) < 200 for l in lines) >= 8, lines)
    check("the API's JSON is JSON", a.ask("/api/v1/series")[0] == 200 and json.dumps(a.ask("/api/v1/series")[1]))
    s.close()
    a.stop()


for fn in (driver, disk, incident, cut, clock, log, gone, hostile):
    part(fn)
done()
