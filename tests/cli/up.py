# SPDX-License-Identifier: MIT
"""TAP of `stoker up`: up.py STOKER, in a folder with the model bert.  Standard library alone."""
import http.client
import json
import os
import re
import signal
import subprocess
import threading

import serve_box
from serve_box import wait
from serve_test import STOKER, check, done, part, run


def words_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as f:
            return f.read().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


class Up:
    def __init__(self, *args, ready=True):
        self.p = subprocess.Popen([STOKER, "up", "--free-port", "--history", "up.ring", "--history-size", "8MiB", *args], stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        serve_box.living.append(self.p)
        self.text = ""
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        if ready:
            wait(lambda: "Ctrl-C stops it" in self.text or self.p.poll() is not None)

    def read(self):
        for line in self.p.stderr:
            self.text += line.decode(errors="replace")

    def port(self, row):
        found = re.search(row + r"\s+http://127\.0\.0\.1:(\d+)", self.text)
        return int(found[1]) if found else 0

    def ask(self, row, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port(row), timeout=30)
        c.request("POST" if body else "GET", path, body)
        r = c.getresponse()
        return r.status, r.read().decode(errors="replace")

    def children(self):
        """By their command; one that has just ended has no words left, or is gone."""
        out = {}
        for task in os.listdir(f"/proc/{self.p.pid}/task"):
            with open(f"/proc/{self.p.pid}/task/{task}/children") as f:
                for pid in f.read().split():
                    words = words_of(pid)
                    if len(words) > 1:
                        out[words[1]] = int(pid)
        return out

    def stop(self, sig=signal.SIGTERM):
        self.p.send_signal(sig)
        rc = self.p.wait(timeout=60)
        self.reader.join(10)
        return rc


def answers(u, row, path):
    try:
        return u.ask(row, path)[0] == 200
    except OSError:
        return False


def both():
    u = Up("-m", "bert")
    check("one screen with the addresses", all(u.port(r) for r in ("page", "metrics", "models")) and "try " in u.text, u.text)
    check("the page's port answers", u.ask("page", "/health")[0] == 200)
    check("metrics", "node_memory_MemTotal_bytes" in u.ask("metrics", "/metrics")[1])
    st, v = u.ask("models", "/embed", '{"inputs":"hello world"}')
    check("the model", st == 200 and len(json.loads(v)[0]) > 1, v[:200])
    check("the agent shows the models' figures", wait(lambda: 'stoker_model_requests_total{model="bert"} 1' in u.ask("metrics", "/metrics")[1], 40),
          [l for l in u.ask("metrics", "/metrics")[1].splitlines() if "model" in l][:10])
    kids = u.children()
    check("two children", sorted(kids) == ["agent", "serve"], kids)
    os.kill(kids["agent"], signal.SIGKILL)
    check("one that dies is told and started again", wait(lambda: "agent ended (signal 9)" in u.text and "agent" in u.children() and
          u.children()["agent"] != kids["agent"]) and wait(lambda: answers(u, "page", "/health")), u.text)
    check("the other went on", u.children().get("serve") == kids["serve"])
    check("Ctrl-C ends both", u.stop(signal.SIGINT) == 0 and "up: stopped" in u.text and
          not any(os.path.exists(f"/proc/{p}") for p in kids.values()), u.text)


def orphans():
    u = Up("-m", "bert")
    kids = u.children()
    u.p.kill()
    u.p.wait()
    check("when the parent is killed both end", wait(lambda: not any(os.path.exists(f"/proc/{p}") for p in kids.values())), kids)


def alone():
    u = Up("--no-serve", "--demo")
    check("without a model server", u.ask("page", "/health")[0] == 200 and "played as eight" in u.text and not u.port("models"), u.text)
    check("ends well", u.stop() == 0)
    p = run("up", "-m", "missing-folder", "--free-port")
    check("a child that cannot start ends it, with the reason", p.returncode in (1, 2) and "serve did not start" in p.stderr and
          "missing-folder" in p.stderr, p.stderr)
    p = run("up", "--no-serve", "--no-agent")
    check("nothing to run is refused", p.returncode == 2, p.stderr)
    p = run("up", "-m", "bert", "--free-port", "--try")
    check("--try: one reply and the end", p.returncode == 0 and p.stdout.startswith("200 in ") and "up: stopped" in p.stderr, p.stdout, p.stderr)


for fn in (both, orphans, alone):
    part(fn)
done()
