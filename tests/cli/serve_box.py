# SPDX-License-Identifier: MIT
"""What tests of `stoker serve` share: TAP, a server on a free port, what `stoker embed` and
`stoker rerank` say.  Only the standard library."""
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
            print("# " + str(w)[:400].replace("\n", "\n# "))
    sys.stdout.flush()


def skip(what, why):
    global count
    count += 1
    print(f"ok {count} - {what} # SKIP {why}")


def part(fn, *args):
    """Whatever happens in one part, the others run."""
    try:
        fn(*args)
    except Exception as e:
        check(f"{fn.__name__} ends", False, repr(e))


def done():
    print(f"1..{count}")
    sys.exit(1 if failed else 0)


class Server:
    def __init__(self, *args):
        self.p = subprocess.Popen([STOKER, "serve", "--port", "0", *args], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.text, self.port = "", 0
        end = time.time() + 60
        while time.time() < end and "ready" not in self.text and self.p.poll() is None:
            if select.select([self.p.stderr], [], [], 0.2)[0]:
                got = os.read(self.p.stderr.fileno(), 65536).decode()
                if not got:
                    break
                self.text += got
                found = re.search(r"://[0-9.]+:(\d+)", self.text)
                self.port = int(found[1]) if found else self.port

    def ask(self, path, body=None, headers=None, method=None, timeout=30):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        c.request(method or ("GET" if body is None else "POST"), path, data, headers or {})
        r = c.getresponse()
        raw = r.read()
        c.close()
        try:
            return r.status, json.loads(raw), r
        except ValueError:
            return r.status, raw, r

    def stop(self, sig=signal.SIGTERM):
        self.p.send_signal(sig)
        try:
            rest = self.p.communicate(timeout=30)[1].decode()
        except subprocess.TimeoutExpired:
            self.p.kill()
            return None, "did not stop"
        return self.p.returncode, rest


def lines(model, texts, *args):
    p = subprocess.run([STOKER, "embed", "-m", model, "--quiet", *args], input="\n".join(texts) + "\n", capture_output=True, text=True)
    return [json.loads(x)["embedding"] for x in p.stdout.splitlines()]


def ranks(model, query, docs, *args):
    """(index, score), best first."""
    p = subprocess.run([STOKER, "rerank", "-m", model, "-q", query, "--json", "--quiet", *args],
                       input="\n".join(docs) + "\n", capture_output=True, text=True)
    return [(r["index"], r["score"]) for r in json.loads(p.stdout)["results"]]
