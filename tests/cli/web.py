# SPDX-License-Identifier: MIT
"""TAP of https to other programs: web.py STOKER, in an empty folder.  Only the standard library."""
import json
import os
import pathlib
import re
import socket
import threading
import time

import agent_box
import tls_box
from agent_box import wait
from serve_test import STOKER, check, done, part, run, skip

TOKEN = "opensesame"


def top(url, *args, **env):
    base = {k: v for k, v in os.environ.items() if k not in ("SSL_CERT_FILE", "CURL_CA_BUNDLE")}
    return run("top", "--once", "--host", url, *args, env=dict(base, **env))


def words(p):
    return re.sub(r"\s+", " ", p.stderr)


def agents():
    """A real agent with a certificate, asked by top, monitor and another agent."""
    a = agent_box.Agent(STOKER, "--demo", "--tls-cert", "good.crt", "--tls-key", "good.key", "--token-file", "token")
    url = f"https://127.0.0.1:{a.port}"
    p = top(url, "--ca-file", "ca.pem", "--token-file", "token")
    check("top: an agent by https", p.returncode == 0 and "H200" in p.stdout, p.stderr)
    p = top(url, "--token-file", "token", SSL_CERT_FILE="ca.pem")
    check("top: the authority from SSL_CERT_FILE", p.returncode == 0, p.stderr)
    p = top(url, "--token-file", "token")
    check("top: a certificate of nobody is refused, with what to do", p.returncode == 1 and "is not trusted" in words(p) and "--ca-file" in words(p), p.stderr)
    p = top(url, "--token-file", "token", "--no-verify")
    check("top: unless it is not to be checked", p.returncode == 0, p.stderr)
    p = top(url, "--ca-file", "ca.pem")
    check("top: the token is asked for as by http", p.returncode == 2 and "token" in words(p), p.stderr)
    p = top(url, "--ca-file", "missing.pem", "--token-file", "token")
    check("top: an authority's file that is not there is named", p.returncode == 1 and "missing.pem" in words(p), p.stderr)
    p = top(url.replace("https", "http"), "--token-file", "token")
    check("top: http on a port of https fails at once", p.returncode == 1, p.stderr)
    p = run("monitor", "--host", url, "--ca-file", "ca.pem", "--token-file", "token", "--duration", "1s", "--quiet")
    check("monitor: an agent by https", p.returncode == 0 and "Watched" in p.stdout + p.stderr, p.returncode, p.stdout, p.stderr)
    b = agent_box.Agent(STOKER, "--no-gpu", "--no-history", "--peer", url, "--peer", f"http://127.0.0.1:{a.port}", "--token-file", "token", "--ca-file", "ca.pem")
    def fleet():
        return b.ask("/api/v1/fleet", headers={"Authorization": f"Bearer {TOKEN}"})[1]
    wait(lambda: fleet().get("asked") == 0, 30)
    doc = fleet()
    check("agent: a peer by https", doc["nodes"][1]["state"] != "lost" and len(doc["nodes"][1]["node"]["gpus"]) == 8, doc)
    check("agent: its http is none", doc["nodes"][2]["state"] == "lost", doc)
    b.stop()
    a.stop()


def trust():
    """Certificates that are wrong in one way each; the server is told nothing."""
    for name, why, hint in (("old", "expired", "a certificate that is over"), ("other", "other", "a certificate for another name"),
                            ("foreign", "not trusted", "a certificate of another authority")):
        s = tls_box.Web(lambda h: h.reply(200, b"{}"), f"{name}.crt", f"{name}.key")
        p = top(s.url, "--ca-file", "ca.pem", "--token-file", "token")
        want = {"old": "expired", "other": "127.0.0.1", "foreign": "certificate"}[name]
        check(f"{hint} is refused", p.returncode == 1 and "is not trusted" in words(p) and want in words(p), p.stderr)
        check(f"{hint}: nothing was asked", not s.asked, s.asked)
        s.shutdown()


def limits():
    """A server that never answers, one that never ends, one that is none."""
    gate = threading.Event()
    s = tls_box.Web(lambda h: gate.wait(60), "good.crt", "good.key")
    begun = time.monotonic()
    p = top(s.url, "--ca-file", "ca.pem")
    check("a server that does not answer costs the time limit", p.returncode == 1 and "in time" in words(p) and time.monotonic() - begun < 30, p.stderr)
    gate.set()
    s.shutdown()

    def endless(h):
        h.send_response(200)
        h.send_header("Transfer-Encoding", "chunked")
        h.end_headers()
        piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        try:
            while not over.is_set():
                h.wfile.write(piece)
        except OSError:
            pass
        h.close_connection = True
    over = threading.Event()
    s = tls_box.Web(endless, "good.crt", "good.key")
    p = top(s.url, "--ca-file", "ca.pem")
    check("an answer without an end is cut at its limit", p.returncode == 4 and "too long" in words(p), p.returncode, p.stderr)
    over.set()
    s.shutdown()
    s = tls_box.Web(lambda h: (h.send_response(200), h.send_header("X-Long", "x" * 60000), h.send_header("X-More", "y" * 60000), h.end_headers()),
                    "good.crt", "good.key")
    p = top(s.url, "--ca-file", "ca.pem")
    check("a head without an end too", p.returncode in (1, 4), p.returncode, p.stderr)
    s.shutdown()
    plain = socket.create_server(("127.0.0.1", 0))

    def nonsense():
        c, _ = plain.accept()
        c.recv(1000)
        c.sendall(b"no TLS here\r\n" * 10)
        c.close()
    threading.Thread(target=nonsense, daemon=True).start()
    p = top(f"https://127.0.0.1:{plain.getsockname()[1]}", "--ca-file", "ca.pem")
    check("what does not speak TLS is told", p.returncode == 1 and "no TLS" in words(p), p.stderr)
    plain.close()
    p = top("https://127.0.0.1:1", "--ca-file", "ca.pem")
    check("nobody there is told", p.returncode == 1 and "could not connect" in words(p), p.stderr)
    s = tls_box.Web(lambda h: h.reply(302, b"", {"Location": "https://127.0.0.1:1/elsewhere"}), "good.crt", "good.key")
    p = top(s.url, "--ca-file", "ca.pem", "--token-file", "token")
    check("an agent that leads elsewhere is not followed", p.returncode == 1 and "answered 302" in words(p), p.stderr)
    s.shutdown()


def alerts():
    """A value scraped by https fires an alert that goes out by https."""
    def answer(h):
        if h.path == "/metrics":
            h.reply(200, b"# TYPE app_queue gauge\napp_queue 99\n", {"Content-Type": "text/plain"})
        else:
            h.reply(200, b"{}")
    s = tls_box.Web(answer, "good.crt", "good.key")
    pathlib.Path("site.yaml").write_text(
        f"agent: {{scrape: ['{s.url}/metrics']}}\n"
        "alerts: {queue: {metric: custom, series: app_queue, critical: 12, for: 0s}}\n"
        f"notify: {{alertmanager: '{s.url}', webhook: '{s.url}/hook?key=a%2Fb&n=1', log: false}}\n")
    p = run("spec", "check", "site.yaml")
    check("spec check: https addresses can be used", p.returncode == 0, p.stderr)
    a = agent_box.Agent(STOKER, "-f", "site.yaml", "--no-gpu", "--no-history", "--ca-file", "ca.pem")

    def posted(path):
        return [json.loads(body) for m, p, _, body in s.asked if m == "POST" and p == path]
    check("a value scraped by https fires", wait(lambda: posted("/hook?key=a%2Fb&n=1"), 60), a.text, s.asked[-3:])
    check("the webhook gets it by https", any(x["labels"]["alertname"] == "queue" for b in posted("/hook?key=a%2Fb&n=1") for x in b), posted("/hook?key=a%2Fb&n=1"))
    check("Alertmanager gets it by https", wait(lambda: any(x["labels"]["alertname"] == "queue" for b in posted("/api/v2/alerts") for x in b), 60), s.asked[-3:])
    check("no token goes out with an alert", not any("authorization" in h for _, _, h, _ in s.asked), s.asked[-3:])
    a.stop()
    plain = tls_box.Web(answer)
    pathlib.Path("mixed.yaml").write_text(pathlib.Path("site.yaml").read_text().replace(f"'{s.url}/metrics'", f"'{plain.url}/metrics'"))
    count = len(s.asked)
    b = agent_box.Agent(STOKER, "-f", "mixed.yaml", "--no-gpu", "--no-history")
    check("without trust the log says why no alert goes out", b.wait_text("is not trusted", 60), b.text)
    check("and none went out", len(s.asked) == count, s.asked[count:])
    b.stop()
    plain.shutdown()
    s.shutdown()


def proxies():
    """https goes through the proxy of the environment, http never does, and the proxy sees no token."""
    seen = []
    s = tls_box.Web(lambda h: h.reply(404), "good.crt", "good.key")
    gate = socket.create_server(("127.0.0.1", 0))

    def pump(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
        except OSError:
            pass
        b.close()

    def proxy():
        while True:
            try:
                c, _ = gate.accept()
            except OSError:
                return
            head = b""
            while b"\r\n\r\n" not in head:
                head += c.recv(65536)
            seen.append(head.decode())
            far = socket.create_connection(("127.0.0.1", s.port))
            c.sendall(b"HTTP/1.1 200 ok\r\n\r\n")
            threading.Thread(target=pump, args=(c, far), daemon=True).start()
            threading.Thread(target=pump, args=(far, c), daemon=True).start()
    threading.Thread(target=proxy, daemon=True).start()
    via = f"http://127.0.0.1:{gate.getsockname()[1]}"
    p = top(s.url, "--ca-file", "ca.pem", "--token-file", "token", HTTPS_PROXY=via, NO_PROXY="")
    check("https goes through the proxy of the environment", p.returncode == 1 and "not a stoker agent" in words(p) and seen
          and seen[0].startswith(f"CONNECT 127.0.0.1:{s.port} "), p.stderr, seen)
    check("the proxy sees no token", seen and TOKEN not in seen[0], seen)
    check("the server does", s.asked and s.asked[0][2].get("authorization") == f"Bearer {TOKEN}", s.asked)
    count = len(seen)
    top(s.url, "--ca-file", "ca.pem", HTTPS_PROXY=via, NO_PROXY="127.0.0.1")
    check("NO_PROXY is held", len(seen) == count, seen)
    top(f"http://127.0.0.1:{s.port}", http_proxy=via, ALL_PROXY=via, NO_PROXY="")
    check("http is asked without a proxy", len(seen) == count, seen)
    gate.close()
    s.shutdown()


def library():
    """A libcurl that cannot be opened: a folder of ours comes first, in which it is no library."""
    os.makedirs("nolib", exist_ok=True)
    for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
        pathlib.Path("nolib", name).write_text("not a library\n")
    p = top("https://127.0.0.1:1", LD_LIBRARY_PATH=os.path.abspath("nolib"))
    check("without libcurl https is refused, with what to install", p.returncode == 3 and "libcurl.so.4" in words(p) and "Install" in words(p),
          p.returncode, p.stderr)
    pathlib.Path("post.yaml").write_text("notify: {webhook: 'https://hooks.example.org/x', log: false}\n")
    p = run("agent", "-f", "post.yaml", "--no-gpu", "--no-history", "--port", "0", "--metrics-port", "0", "--control", "none",
            env=dict(os.environ, LD_LIBRARY_PATH=os.path.abspath("nolib")))
    check("an agent that could not send its alerts does not start", p.returncode == 3 and "webhook" in p.stderr and "libcurl" in p.stderr, p.stderr)


if not tls_box.here():
    skip("https", "openssl is not here")
    done()
pathlib.Path("token").write_text(TOKEN + "\n")
for name in ("ca", "else"):
    tls_box.authority(name)
tls_box.certificate("good", "ca")
tls_box.certificate("old", "ca", days=-2)
tls_box.certificate("other", "ca", san="DNS:other.example")
tls_box.certificate("foreign", "else")
for one in (agents, trust, limits, alerts, proxies, library):
    part(one)
done()
