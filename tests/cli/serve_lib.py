# SPDX-License-Identifier: MIT
"""What tests of a running `stoker serve` share.  Only the standard library."""
import atexit
import http.client
import json
import os
import re
import select
import signal
import subprocess
import sys
import time

STOKER = sys.argv[1]
count = failed = 0


def check(what, ok, *why):
    global count, failed
    count += 1
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} {count} - {what}")
    if not ok:
        for w in why:
            print("# " + str(w)[:600].replace("\n", "\n# "))
    sys.stdout.flush()


def skip(what, why):
    global count
    count += 1
    print(f"ok {count} - {what} # SKIP {why}")


def done():
    print(f"1..{count}")
    sys.exit(failed > 0)


class Server:
    """A server on a free port; `want` is what its standard error must say before it counts as started."""

    def __init__(self, *args, env=None, tls=None, want="ready"):
        self.p = subprocess.Popen([STOKER, "serve", "--port", "0", *args], stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=dict(os.environ, **(env or {})))
        atexit.register(self.p.kill)  # a test that breaks off leaves nobody behind
        self.text, self.port, self.tls = "", 0, tls
        end = time.time() + 60
        while time.time() < end and want not in self.text and self.p.poll() is None:
            if select.select([self.p.stderr], [], [], 0.2)[0]:
                got = os.read(self.p.stderr.fileno(), 65536).decode()
                if not got:
                    break
                self.text += got
                found = re.search(r"://[0-9.]+:(\d+)", self.text)
                self.port = int(found[1]) if found else self.port

    def ask(self, path, body=None, headers=None, timeout=30):
        if self.tls:
            c = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.tls)
        else:
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        c.request("GET" if body is None else "POST", path, body if body is None else json.dumps(body), headers or {})
        r = c.getresponse()
        raw = r.read()
        c.close()
        try:
            return r.status, json.loads(raw), r
        except ValueError:
            return r.status, raw.decode(errors="replace"), r

    def metric(self, name):
        text = self.ask("/metrics")[1]
        return sum(float(x) for x in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.M))

    def stop(self, sig=signal.SIGTERM):
        self.p.send_signal(sig)
        try:
            rest = self.p.communicate(timeout=30)[1].decode()
        except subprocess.TimeoutExpired:
            self.p.kill()
            return None, "did not stop"
        return self.p.returncode, self.text + rest


def run(*args, **more):
    return subprocess.run([STOKER, *args], capture_output=True, text=True, timeout=60, **more)


def embed(model, texts, *args):
    p = run("embed", "-m", model, "--quiet", "--jsonl", *args, input="".join(json.dumps(t) + "\n" for t in texts))
    return [json.loads(x)["embedding"] for x in p.stdout.splitlines()]
