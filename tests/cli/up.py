# SPDX-License-Identifier: MIT
"""TAP of `stoker up`: up.py STOKER, in a folder with the model bert.  Standard library alone."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

import serve_box
import tls_box
from serve_box import wait
from serve_test import STOKER, check, done, part, run


def words_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as f:
            return f.read().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def activated(argv, sockets, **more):
    """A process that is handed (name, socket) as systemd does it."""
    if not sockets:
        return subprocess.Popen(argv, **more)
    fds = [s.fileno() for _, s in sockets]
    words = "import os,sys\nn=%d\nfds=%r\nhigh=[os.dup(f) for f in fds]\nfor i,f in enumerate(high):\n os.dup2(f,100+i)\n" \
            "for i in range(n): os.dup2(100+i,3+i,inheritable=True)\nos.environ.update(LISTEN_PID=str(os.getpid()),LISTEN_FDS=str(n)," \
            "LISTEN_FDNAMES=%r)\nos.closerange(3+n,200)\nos.execv(sys.argv[1],sys.argv[1:])" % (len(fds), fds, ":".join(n for n, _ in sockets))
    return subprocess.Popen(["python3", "-c", words, *argv], pass_fds=fds, **more)


def listener(port=0):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", port))
    s.listen(128)
    return s


class Knocks:
    """Requests one after the other, each on a connection of its own, until stop()."""

    def __init__(self, port, path="/embed", body='{"inputs":"hello world"}'):
        self.port, self.path, self.body = port, path, body
        self.good = self.refused = self.lost = 0
        self.bad = []
        self.over = False
        self.thread = threading.Thread(target=self.go, daemon=True)
        self.thread.start()

    def go(self):
        while not self.over:
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            try:
                c.connect()
            except OSError as e:
                self.refused += 1
                self.bad.append(repr(e))
                time.sleep(0.01)
                continue
            try:
                c.request("POST" if self.body else "GET", self.path, self.body)
                st = c.getresponse().status
                self.good += st == 200
                if st != 200:
                    self.bad.append(st)
            except OSError as e: # RemoteDisconnected is one
                self.lost += 1
            c.close()

    def stop(self):
        self.over = True
        self.thread.join(90)
        return dict(good=self.good, refused=self.refused, lost=self.lost, bad=self.bad[:5])


class Up:
    def __init__(self, *args, ready=True, program=STOKER, sockets=()):
        argv = [program, "up", "--free-port", "--history", "up.ring", "--history-size", "8MiB", *args]
        self.p = activated(argv, sockets, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
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
    check("/health knows the model server", wait(lambda: json.loads(u.ask("page", "/health")[1])["model_server"] is True, 40), u.ask("page", "/health"))
    os.kill(u.children()["serve"], signal.SIGSTOP)
    check("one that is stopped is not ok", wait(lambda: json.loads(u.ask("page", "/health")[1])["model_server"] is False, 40) and
          json.loads(u.ask("page", "/health")[1])["status"] == "degraded", u.ask("page", "/health"))
    os.kill(u.children()["serve"], signal.SIGCONT)
    check("one that goes on is", wait(lambda: json.loads(u.ask("page", "/health")[1])["status"] == "ok", 40), u.ask("page", "/health"))
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
    check("without a model server", u.ask("page", "/health")[0] == 200 and "made up: a story" in u.text and not u.port("models"), u.text)
    check("ends well", u.stop() == 0)
    p = run("up", "-m", "missing-folder", "--free-port")
    check("a child that cannot start ends it, with the reason", p.returncode in (1, 2) and "serve did not start" in p.stderr and
          "missing-folder" in p.stderr, p.stderr)
    with open("off.yaml", "w") as f:
        f.write(f"agent: {{enabled: false}}\nmodels: {{bert: {{source: {os.getcwd()}/bert, kind: embedding}}}}\n")
    u = Up("-f", "off.yaml")
    check("a spec without an agent: the model server alone, and why", list(u.children()) == ["serve"] and u.port("models") and not u.port("page") and
          "'agent.enabled' is false" in u.text, u.children(), u.text)
    check("ends well then", u.stop() == 0)
    with open("off.yaml", "w") as f:
        f.write(f"models: {{bert: {{source: {os.getcwd()}/bert, kind: embedding}}}}\n")
    u = Up("-f", "off.yaml")
    both, page = sorted(u.children()), u.port("page")
    with open("off.yaml", "a") as f:
        f.write("agent: {enabled: false}\n")
    u.p.send_signal(signal.SIGUSR2)
    ok = wait(lambda: u.text.count("Ctrl-C stops it") == 2 or u.p.poll() is not None, 90)
    check("an upgrade to a spec without it: serve goes on, the page's port is closed", ok and both == ["agent", "serve"] and
          list(u.children()) == ["serve"] and answers(u, "models", "/health") and "no use for it" in u.text, u.p.poll(), u.children(), u.text)
    try:
        socket.create_connection(("127.0.0.1", page), timeout=5)
        check("nobody waits there", False)
    except OSError:
        check("nobody waits there", True)
    check("ends well then too", u.stop() == 0)
    p = run("up", "--no-serve", "--no-agent")
    check("nothing to run is refused", p.returncode == 2, p.stderr)
    p = run("up", "-m", "bert", "--free-port", "--try")
    check("--try: one reply and the end", p.returncode == 0 and p.stdout.startswith("200 in ") and "up: stopped" in p.stderr, p.stdout, p.stderr)


def damaged():
    """A history whose head is damaged: both children run, it is moved aside and told."""
    with open("up.ring", "r+b") as f:
        f.write(b"\0" * 8192)
    u = Up("-m", "bert")
    events = lambda: [e["text"] for e in json.loads(u.ask("page", "/api/v1/events?from=-1h")[1])["events"]]
    check("a damaged history is moved aside and told, and everything runs", os.path.exists("up.ring.damaged") and any("up.ring.damaged" in e for e in events()) and
          json.loads(u.ask("page", "/health")[1])["history"] is True and answers(u, "models", "/health"), u.text, events())
    check("ends well then", u.stop() == 0, u.text)


def kept_open():
    """serve is killed time and again below up: nobody is refused, what waited is answered."""
    u = Up("-m", "bert")
    port, page = u.port("models"), u.port("page")
    knocks = [Knocks(port) for _ in range(3)]
    scrapes = Knocks(page, "/health", None)
    kills = 3
    for kind in ("serve",) * kills + ("agent",):
        before = u.children().get(kind)
        was = [k.good for k in knocks]
        wait(lambda: all(k.good > w for k, w in zip(knocks, was)))
        os.kill(before, signal.SIGKILL)
        wait(lambda: u.children().get(kind) not in (None, before))
        was = [k.good for k in knocks]
        wait(lambda: all(k.good > w for k, w in zip(knocks, was)), 90)
    ends = [k.stop() for k in knocks]
    check("serve killed three times: no connection is refused", all(e["refused"] == 0 and not e["bad"] for e in ends), ends)
    check("only what was in flight is lost", all(e["lost"] <= kills for e in ends), ends)
    check("and requests are answered again", all(e["good"] > kills for e in ends), ends)
    e = scrapes.stop()
    check("the agent's port neither", e["refused"] == 0 and e["lost"] <= 1 and e["good"] > 0, e)
    check("ends well", u.stop() == 0, u.text)
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5)
        check("and then its ports are closed", False)
    except OSError:
        check("and then its ports are closed", True)


def upgraded():
    """The program is replaced on the disk and up is told: everything runs from the new file."""
    shutil.copy(STOKER, "stoker-new")
    shutil.copy(STOKER, "stoker-up")
    u = Up("-m", "bert", program="./stoker-up")
    inode = lambda pid: os.stat(f"/proc/{pid}/exe").st_ino
    kids, old = u.children(), inode(u.p.pid)
    knocks = [Knocks(u.port("models")) for _ in range(2)]
    with open("stoker-bad", "w") as f:
        f.write("no program\n")
    os.chmod("stoker-bad", 0o755)
    os.rename("stoker-up", "stoker-old")
    os.rename("stoker-bad", "stoker-up")
    u.p.send_signal(signal.SIGUSR2)
    check("a file that does not start changes nothing", wait(lambda: "does not start" in u.text) and u.children() == kids, u.text)
    os.rename("stoker-new", "stoker-up")
    new = os.stat("stoker-up").st_ino
    was = [k.good for k in knocks]
    wait(lambda: all(k.good > w for k, w in zip(knocks, was)))
    u.p.send_signal(signal.SIGUSR2)
    ok = wait(lambda: inode(u.p.pid) == new and len(u.children()) == 2 and all(inode(p) == new for p in u.children().values()), 90)
    check("up, agent and serve run the new file", ok and old != new and not set(kids.values()) & set(u.children().values()), u.text, kids, u.children())
    was = [k.good for k in knocks]
    check("requests are answered by it", wait(lambda: all(k.good > w for k, w in zip(knocks, was)), 90))
    ends = [k.stop() for k in knocks]
    check("nobody was refused and nothing was lost", all(e["refused"] == 0 and e["lost"] == 0 and not e["bad"] for e in ends), ends)
    check("ends well", u.stop() == 0 and not any(os.path.exists(f"/proc/{p}") for p in kids.values()), u.text)


def handed_over():
    """Sockets of systemd: by name for up, by port for the agent, any for serve."""
    names = ("page", "metrics", "serve", "rerank")
    held = {n: listener() for n in names}
    at = {n: s.getsockname()[1] for n, s in held.items()}
    u = Up("-m", "bert", sockets=list(held.items()))
    get = lambda port, path: http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    def ask(port, path):
        c = get(port, path)
        c.request("GET", path)
        r = c.getresponse()
        return r.status, r.read().decode(errors="replace")
    check("up takes sockets by their names", ask(at["page"], "/api/v1/node")[0] == 200 and "node_memory" in ask(at["metrics"], "/metrics")[1] and
          ask(at["serve"], "/info")[0] == 200 and ask(at["rerank"], "/info")[0] == 200, u.text)
    check("and tells of them", u.port("page") == at["page"] and u.port("models") == at["serve"], u.text, at)
    check("ends well", u.stop() == 0, u.text)
    c = socket.create_connection(("127.0.0.1", at["serve"]), timeout=5)
    check("the sockets stay with who handed them over", c is not None)
    c.close()
    p = activated([STOKER, "up", "--no-serve", "--free-port", "--history", "up.ring"], [("other", held["serve"])], stderr=subprocess.PIPE, text=True)
    words = p.communicate(timeout=60)[1]
    check("one that is for nobody is refused", p.returncode == 2 and "other" in words, words)
    with open("not-a-socket", "w") as f:
        p = activated([STOKER, "serve", "-m", "bert"], [("serve", f)], stderr=subprocess.PIPE, text=True)
        words = p.communicate(timeout=60)[1]
    check("a file is no socket", p.returncode != 0 and "descriptor 3" in words, words)
    wide = socket.socket()
    wide.bind(("0.0.0.0", 0))
    wide.listen(16)
    for argv in ([STOKER, "serve", "-m", "bert"], [STOKER, "agent", "--no-history", "--control", "none", "--metrics-port", "none"]):
        p = activated(argv, [("x", wide)], stderr=subprocess.PIPE, text=True)
        words = p.communicate(timeout=60)[1]
        check(f"{argv[1]}: beyond loopback a socket needs a token", p.returncode == 2 and "without a token" in words, words)
    for argv, path, name in (([STOKER, "serve", "-m", "bert"], "/info", "serve"),
                             ([STOKER, "agent", "--no-history", "--control", "none", "--metrics-port", str(at["metrics"])], "/api/v1/node", "page")):
        p = activated(argv, [("unit.socket", held[name]), ("unit.socket", held["metrics"])], stderr=subprocess.PIPE)
        serve_box.living.append(p)
        ok = wait(lambda: ask(at[name], path)[0] == 200) and ask(at["metrics"], "/metrics")[0] == 200
        p.send_signal(signal.SIGTERM)
        check(f"{argv[1]} takes LISTEN_FDS too", ok and p.wait(60) == 0, p.stderr.read())


def secured():
    if not tls_box.here():
        return
    tls_box.authority("ca")
    tls_box.certificate("node", "ca", san="DNS:gpu7.example")
    for name in ("token", "admin", "figures"):
        with open(name, "w") as f:
            f.write(name + "-secret\n")
    u = Up("-m", "bert", "--tls-cert", "node.crt", "--tls-key", "node.key", "--token-file", "token", "--admin-token-file", "admin",
           "--metrics-token-file", "figures", "--allow-origin", "https://other.example", "--admin-socket", "admin.sock")
    port = lambda row: int(re.search(row + r"\s+https://127\.0\.0\.1:(\d+)", u.text)[1])
    trust = ssl.create_default_context(cafile="ca.pem")
    trust.check_hostname = False

    def ask(at, path, token, **more):
        c = http.client.HTTPSConnection("127.0.0.1", at, timeout=30, context=trust)
        c.request("GET", path, headers={"Authorization": "Bearer " + token, **more})
        r = c.getresponse()
        return r.status, r.read().decode(errors="replace"), r
    check("https on every port", ask(port("page"), "/api/v1/node", "token-secret")[0] == 200 and ask(port("models"), "/info", "token-secret")[0] == 200,
          u.text)
    check("a token is asked for by both", ask(port("page"), "/api/v1/node", "x")[0] == 401 and ask(port("models"), "/info", "x")[0] == 401)
    check("another one for the figures", ask(port("metrics"), "/metrics", "figures-secret")[0] == 200 and
          ask(port("models"), "/metrics", "figures-secret")[0] == 200 and ask(port("models"), "/info", "figures-secret")[0] == 401)
    check("pages from elsewhere", ask(port("models"), "/info", "token-secret", Origin="https://other.example")[2].getheader("access-control-allow-origin"))
    c = http.client.HTTPConnection("localhost", timeout=30)
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.connect("admin.sock")
    c.request("POST", "/v1/models/load?wait", json.dumps({"model": "more", "source": os.path.abspath("bert")}),
              {"Authorization": "Bearer token-secret", "Content-Type": "application/json"})
    r = c.getresponse()
    check("the admin's socket file takes changes, plain", r.status == 200, r.status, r.read())
    c.close()
    check("the agent reads the figures of serve by https", wait(lambda: json.loads(ask(port("page"), "/health", "token-secret")[1])["model_server"] is True, 40),
          ask(port("page"), "/health", "token-secret")[1])
    check("ends well", u.stop() == 0 and not os.path.exists("admin.sock"), u.text)


def two_tokens():
    """A spec with a token for each: the agent shows serve's to serve, also after it was exchanged."""
    for name in ("page-token", "model-token"):
        with open(name, "w") as f:
            f.write(name + "-secret\n")
    with open("two.yaml", "w") as f:
        f.write(f"agent: {{token_file: {os.getcwd()}/page-token}}\nserve: {{token_file: {os.getcwd()}/model-token}}\n"
                f"models: {{bert: {{source: {os.getcwd()}/bert, kind: embedding}}}}\n")
    u = Up("-f", "two.yaml")

    def ask(row, path, token):
        c = http.client.HTTPConnection("127.0.0.1", u.port(row), timeout=30)
        c.request("GET", path, headers={"Authorization": "Bearer " + token})
        r = c.getresponse()
        return r.status, r.read().decode(errors="replace")
    known = lambda: json.loads(ask("page", "/health", "page-token-secret")[1])["model_server"]
    check("two tokens: each part has its own", ask("page", "/api/v1/node", "page-token-secret")[0] == 200 and ask("page", "/api/v1/node", "model-token-secret")[0] == 401 and
          ask("models", "/info", "model-token-secret")[0] == 200 and ask("models", "/info", "page-token-secret")[0] == 401, u.text)
    check("the agent reads the figures of serve", wait(lambda: known() is True, 40), ask("page", "/health", "page-token-secret"))
    with open("model-token", "w") as f:
        f.write("another-secret\n")
    check("serve takes the new one", wait(lambda: ask("models", "/info", "another-secret")[0] == 200, 40), u.text)
    c = http.client.HTTPConnection("127.0.0.1", u.port("models"), timeout=30)
    c.request("POST", "/embed", '{"inputs":"hello world"}', {"Authorization": "Bearer another-secret"})
    check("which embeds", c.getresponse().status == 200)
    counted = lambda: re.findall(r"^stoker_model_requests_total\{.*\} (\S+)", ask("metrics", "/metrics", "page-token-secret")[1], re.M)
    check("and the agent, which shows the new one, sees it", wait(lambda: any(float(n) > 0 for n in counted()), 40), counted(), u.text)
    check("ends well", u.stop() == 0, u.text)


for fn in (both, damaged, kept_open, upgraded, handed_over, secured, two_tokens, orphans, alone):
    part(fn)
done()
