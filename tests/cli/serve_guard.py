# SPDX-License-Identifier: MIT
"""TAP of who may ask `stoker serve` what: serve_guard.py STOKER EMBEDDING-MODEL.

What a browser sends is sent here by hand, as a page from elsewhere makes it send: the fields Host,
Origin and Content-Type are those of the Fetch standard's no-cors POST."""
import concurrent.futures
import gzip
import http.client
import os
import re
import socket
import ssl
import subprocess
import sys
import time

from serve_box import reply, request, secret, wait
from serve_test import Server, check, done, part, run, skip

EMB = sys.argv[2]
TEXT = {"input": "hello world", "model": "emb"}
LOAD = {"model": "second", "source": os.path.abspath(EMB)}


def page(origin, **more):
    """A web page's request, without its browser's permission to send more."""
    return {"Content-Type": "text/plain;charset=UTF-8", "Origin": origin, **more}


def over(path, target, body, **fields):
    """One request over a socket file."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(path)
    head = "".join(f"{k}: {v}\r\n" for k, v in fields.items())
    s.sendall(f"POST {target} HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
    r = http.client.HTTPResponse(s)
    r.begin()
    return r.status


def pages():
    s = Server("-m", f"emb={EMB}")
    evil = page("https://evil.example")
    for path, body in (("unload", '{"model": "emb"}'), ("load", '{"model": "emb", "source": "/nowhere"}')):
        st, v, _ = s.ask("/v1/models/" + path, body, dict(evil, Authorization=""))
        check(f"a page from elsewhere cannot {path} a model", st in (401, 403), st, v)
    check("nor have texts computed", s.ask("/v1/embeddings", TEXT, evil)[0] == 403)
    check("the server's own page can", s.ask("/v1/embeddings", TEXT, page(f"http://127.0.0.1:{s.port}"))[0] == 200)
    st, v, _ = s.ask("/v1/embeddings", TEXT, {"Host": f"evil.example:{s.port}", "Origin": f"http://evil.example:{s.port}"})
    check("a name that was made to point here is not ours", st == 421 and "--allow-host" in str(v), st, v)
    check("every model is still there", s.ask("/v1/embeddings", TEXT)[0] == 200)
    st, v, _ = s.ask("/v1/models/unload", '{"model": "emb"}', {"Content-Type": "text/plain"})
    check("a change that is not JSON is refused with the admin's token too", st == 415 and "application/json" in str(v), st, v)
    s.stop()
    s = Server("-m", f"emb={EMB}", "--allow-origin", "https://app.example", "--allow-host", "gpu7.example")
    st, _, r = s.ask("/v1/embeddings", TEXT, page("https://app.example"))
    check("a page that is allowed reads the reply", st == 200 and r.getheader("Access-Control-Allow-Origin") == "https://app.example"
          and r.getheader("Vary") == "Origin", st, r.getheaders())
    st, _, r = s.ask("/v1/embeddings", None, {"Origin": "https://app.example", "Access-Control-Request-Method": "POST",
                     "Access-Control-Request-Headers": "authorization,content-type"}, method="OPTIONS")
    check("its browser is told so before", st == 204 and "POST" in (r.getheader("Access-Control-Allow-Methods") or ""), st, r.getheaders())
    st, _, r = s.ask("/v1/embeddings", {"input": 5}, page("https://app.example"))
    check("errors can be read too", st >= 400 and r.getheader("Access-Control-Allow-Origin") == "https://app.example", st)
    check("a further name of this machine is taken", s.ask("/v1/embeddings", TEXT, {"Host": "gpu7.example"})[0] == 200)
    check("another page is not", s.ask("/v1/embeddings", TEXT, page("https://app.example.org"))[0] == 403)
    s.stop()
    for option, value, words in (("origin", "https://app.example/", "browsers write it https://app.example"), ("origin", "app.example", "no scheme"),
                                 ("host", "gpu7.example:8003", "no name of a host")):
        for command in (("serve", "-m", f"emb={EMB}"), ("agent", "--once")):
            p = run(*command, "--port", "0", f"--allow-{option}", value)
            check(f"{command[0]} --allow-{option} {value}, which no browser sends, is refused", p.returncode == 2 and words in p.stderr, p.stderr)
    with open("origins.yaml", "w") as f:
        f.write("schema: stoker.spec/1\nserve:\n  allow_origin: ['https://a', 'https://a:443']\n")
    p = run("spec", "check", "origins.yaml")
    check("and in a spec, with its place", p.returncode != 0 and "origins.yaml:3:" in p.stderr and "browsers write it https://a" in p.stderr, p.stderr)


def scopes():
    call, admin, figures = secret("for calls"), secret("for changes"), secret("for figures")
    sock = os.path.abspath("admin.sock")
    os.umask(0)
    s = Server("-m", f"emb={EMB}", "--token-file", call, "--admin-token-file", admin, "--metrics-token-file", figures,
               "--admin-socket", sock)

    def status(path, token, body=None):
        return s.ask(path, body, {"Authorization": "Bearer " + token, "Content-Type": "application/json"})[0]

    check("calls", [status("/v1/embeddings", t, TEXT) for t in ("for calls", "for changes", "for figures", "")] == [200, 200, 401, 401])
    check("figures", [status("/metrics", t) for t in ("for calls", "for changes", "for figures", "")] == [200, 200, 200, 401])
    check("changes", [status("/v1/models/load", t, LOAD) for t in ("for calls", "for figures", "", "for changes")] == [401, 401, 401, 202])
    check("nobody else may open it", os.stat(sock).st_mode & 0o777 == 0o600, oct(os.stat(sock).st_mode))
    check("the socket file takes changes, with the token of calls",
          over(sock, "/v1/models/unload", '{"model": "second"}', **{"Content-Type": "application/json", "Authorization": "Bearer for calls"}) in (202, 404))
    with open(call, "w") as f:
        f.write("for calls, newer\n")
    check("a token file that is written again counts at once", wait(lambda: status("/v1/embeddings", "for calls, newer", TEXT) == 200)
          and status("/v1/embeddings", "for calls", TEXT) == 401)
    with open(call, "w"):
        pass
    check("one that is empty changes nothing and is told", s.wait_text("is empty") and status("/v1/embeddings", "for calls, newer", TEXT) == 200, s.text)
    for what, data in (("two lines", b"for calls, newer\nsecond\n"), ("a comment", b"# of ops\nfor calls, newer\n"), ("a byte order mark", b"\xef\xbb\xbffor\n"),
                       ("a NUL", b"f\0or calls, newer"), ("random bytes", bytes(range(128, 160)))):
        with open(call, "wb") as f:
            f.write(data)
        check(f"a token file with {what} changes nothing and is told", wait(lambda: s.text.count("which no token has") == 1) and
              status("/v1/embeddings", "for calls, newer", TEXT) == 200 and status("/v1/embeddings", "f", TEXT) == 401, s.text)
        s.text = ""
        p = run("serve", "-m", f"emb={EMB}", "--port", "0", "--token-file", call)
        q = run("agent", "--port", "0", "--token-file", call, "--once")
        check(f"and none starts with it: {what}", p.returncode == 2 and "which no token has" in p.stderr and q.returncode == 2, p.stderr, q.stderr)
    os.rename(call, call + ".away")
    check("one that is removed is told, and what was read stays", s.wait_text("the next start fails", 20) and "No such file" in s.text and
          status("/v1/embeddings", "for calls, newer", TEXT) == 200, s.text)
    os.rename(call + ".away", call)
    check("it ends", s.stop()[0] == 0)
    check("and its socket file is gone", not os.path.exists(sock))
    s = Server("-m", f"emb={EMB}", "--token-file", secret("x"))
    time.sleep(2.5)
    check("tokens that did not change are not told of", "read again" not in s.text, s.text)
    s.stop()
    with open("plain", "w"):
        pass
    p = run("serve", "-m", f"emb={EMB}", "--listen", "unix:plain")
    check("a file that is no socket is not listened on", p.returncode == 2 and "it is there and no socket" in p.stderr and os.path.exists("plain"), p.stderr)
    p = run("serve", "-m", f"emb={EMB}", "--port", "0", "--token-file", admin, "--admin-token-file", admin)
    check("one token for both is refused", p.returncode == 2 and "all clients have" in p.stderr, p.stderr)
    p = run("serve", "-m", f"emb={EMB}", "--port", "0", "--metrics-token-file", admin, "--admin-token-file", admin)
    check("so is one for figures and changes", p.returncode == 2 and "opens nothing but /metrics" in p.stderr, p.stderr)


def alone():
    """No token at all, as most begin."""
    sock = os.path.abspath("own.sock")
    s = Server("-m", f"emb={EMB}", "--admin-socket", sock, "--admin-token-file", secret("x"))
    check("figures and calls are for every program of the machine", s.ask("/metrics")[0] == 200 and s.ask("/v1/embeddings", TEXT)[0] == 200)
    check("changes are not", s.ask("/v1/models/unload", {"model": "emb"}, {"Authorization": ""})[0] == 401)
    check("the socket file needs no token", over(sock, "/v1/models/load", '{"model": "second", "source": "%s"}' % os.path.abspath(EMB),
                                                 **{"Content-Type": "application/json"}) == 202)
    check("/v1/pools names a model's folder, not the way to it", s.ask("/v1/pools")[1]["models"][0]["source"] == os.path.basename(EMB), s.ask("/v1/pools")[1])
    check("/info shows no folder", os.path.abspath(EMB) not in str(s.ask("/info")[1]) and s.ask("/info")[1]["model_id"] == "emb", s.ask("/info")[1])
    s.stop()


def names():
    s = Server("-m", f"emb={EMB}")
    for name in ("a\nb", "a\x1b[31m", "a\x7f"):
        st, v, _ = s.ask("/v1/models/load", {"model": name, "source": os.path.abspath(EMB)})
        check(f"a model called {name!r} is refused", st == 400 and "control" in str(v), st, v)
    s.ask("/v1/models/load", {"model": "odd", "source": "/no/such\nstoker: warning: all is lost\x1b[2J"})
    check("a path in the log stays on its line", s.wait_text("all is lost") and "\nstoker: warning: all is lost" not in s.text
          and "\x1b" not in s.text and "\\x0a" in s.text, s.text)
    s.stop()


def slow():
    s = Server("-m", f"emb={EMB}", "--body-total-timeout", "500ms")
    conns = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(50)]
    for c in conns:
        c.settimeout(0.02)
        c.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{")
    ended, health = set(), []

    def drip():
        for c in conns:
            try:
                if c not in ended:
                    c.sendall(b" ")
                    if c.recv(4096):
                        ended.add(c)
            except TimeoutError:
                pass
            except OSError:
                ended.add(c)
        health.append(s.ask("/health")[0])
        return len(ended) == 50

    check("bodies that come a byte at a time are ended", wait(drip))
    check("and stop nobody", set(health) == {200}, health)
    s.stop()


def tls():
    def pair(name):
        p = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                            "-subj", f"/CN={name}", "-keyout", name + ".key", "-out", name + ".pem"], capture_output=True)
        return p.returncode == 0

    try:
        here = pair("one") and pair("two")
    except FileNotFoundError:
        here = False
    if not here:
        skip("a certificate that is changed", "openssl is not here")
        return
    os.rename("one.pem", "now.pem")
    os.rename("one.key", "now.key")
    anyone = ssl.create_default_context()
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    s = Server("-m", f"emb={EMB}", "--tls-cert", "now.pem", "--tls-key", "now.key", tls=anyone)

    def shown():
        return ssl.get_server_certificate(("127.0.0.1", s.port))

    first = shown()
    os.rename("two.pem", "now.pem")
    check("a certificate without its key is told, and the old one stays", s.wait_text("stays") and shown() == first, s.text)
    os.rename("two.key", "now.key")
    check("with its key it is shown to the next client", wait(lambda: shown() != first))
    check("who still answers", s.ask("/v1/embeddings", TEXT)[0] == 200)
    second = shown()
    subprocess.run(["openssl", "pkey", "-in", "now.key", "-aes128", "-passout", "pass:x", "-out", "locked.key"], capture_output=True)
    os.rename("now.key", "plain.key")
    os.rename("locked.key", "now.key")
    check("a key with a pass phrase is told, and nobody is asked for it", s.wait_text("has a pass phrase") and "Enter" not in s.text and
          shown() == second, s.text)
    os.remove("now.key")
    os.mkfifo("now.key")
    check("a key that is no file is told", s.wait_text("'now.key' is not a regular file") and shown() == second, s.text)
    os.rename("plain.key", "now.key")
    told = s.text.count("read again")
    check("and the next one is read", wait(lambda: s.text.count("read again") > told) and shown() == second, s.text)
    check("it ends", s.stop(seconds=10)[0] == 0)


def refused():
    """What the HTTP server refuses is counted by status, apart from calls."""
    s = Server("-m", f"emb={EMB}", "--token-file", secret("right"), "--body-max", "10000", "--head-timeout", "500ms", "--body-timeout", "500ms")
    good, bad = {"Authorization": "Bearer right"}, {"Authorization": "Bearer wrong"}

    def raw(data):
        c = s.connect()
        c.sendall(data)
        got = c.recv(100).split(b" ")[1:2]
        c.close()
        return int(got[0]) if got else None

    told = [s.ask("/embed", {"inputs": "a"}, bad)[0] for _ in range(3)] + [s.ask("/nope", {}, good)[0], s.ask("/embed", None, good, "DELETE")[0]]
    told += [raw(b"GARBAGE\r\n\r\n"), raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nx: " + b"y" * 100_000), raw(b"POST /embed HTTP/1.1\r\nHo"),
             raw(b"POST /embed HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer right\r\nContent-Length: 9\r\n\r\n{"),
             raw(b"POST /embed HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer right\r\nContent-Length: 99999\r\n\r\n")]
    check("each kind is refused", told == [401] * 3 + [404, 405, 400, 431, 408, 408, 413], told)
    st = s.ask("/embed", {"inputs": "a", "model": "b", "truncate": 7}, good)[0]
    text = lambda: s.ask("/metrics", None, good)[1].decode()
    counts = lambda: {int(c): int(n) for c, n in re.findall(r'^stoker_http_refused_total\{code="(\d+)"\} (\d+)$', text(), re.M) if n != "0"}
    check("and counted", wait(lambda: counts() == {401: 3, 404: 1, 405: 1, 400: 1, 431: 1, 408: 2, 413: 1}, 10), counts())
    calls = re.findall(r"^stoker_requests_total\{.*\} ([1-9]\d*)$", text(), re.M)
    check("apart from the one call", st == 422 and calls == ["1"], st, calls)
    check("it ends", s.stop(seconds=10)[0] == 0)


def long_texts():
    s = Server("-m", f"emb={EMB}", "--text-max", "1kB")
    for path, body in (("/embed", {"inputs": "a" * 1001}), ("/v1/embeddings", {"input": ["a", "b " * 600]}), ("/tokenize", {"inputs": "a" * 2000})):
        st, v, _ = s.ask(path, body)
        check(f"{path}: a text above its limit is refused, with the setting's name", st == 413 and "--text-max" in str(v), st, v)
    check("one at the limit is taken", s.ask("/embed", {"inputs": "a" * 1000})[0] == 200)
    s.stop()
    s = Server("-m", f"emb={EMB}", "--body-max", "10kB")
    c = s.connect()
    c.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10001\r\n\r\n")
    st, _, v = reply(c)
    check("a body above its limit is refused, with the limit and the setting's name", st == 413 and b"10000 bytes (--body-max)" in v, st, v)
    s.stop()
    s = Server("-m", f"emb={EMB}")
    c = s.connect()
    c.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 41943040\r\n\r\n")
    check("so it is where none is set", b"33554432 bytes (--body-max)" in reply(c)[2])
    st, v, _ = s.ask("/embed", {"inputs": "a" * 30_000_000})
    check("a word of 30 MB is refused by the model's length", st == 413 and "1048576 at most" in str(v), st, v)
    check("a text of 1 MB is cut as ever", s.ask("/embed", {"inputs": "hello " * 170_000})[0] == 200)
    s.stop()


def turns():
    """Bodies of which a few fill the time of all: those whose time is over are not read any more."""
    s = Server("-m", f"emb={EMB}", "--timeout", "1s")
    body = gzip.compress(b'{"inputs":["' + b'","'.join([b"a " * 500_000] * 31) + b'"]}', 1)

    def one(_):
        st, v, _ = s.ask("/embed", body, {"Content-Type": "application/json", "Content-Encoding": "gzip"})
        return st, v.get("error") if st != 200 else ""

    with concurrent.futures.ThreadPoolExecutor(40) as ex:
        got = list(ex.map(one, range(40)))
    late = {words for st, words in got if st == 504}
    check("who waits for others too long: 504, which says for what", "the deadline passed while the request waited for its turn" in late
          and not any("loading" in words for words in late), sorted(got))
    check("nobody is told that his request is too large because of others", {st for st, _ in got} <= {200, 429, 504}, sorted(got))
    s.stop()


def memory():
    """Short requests that ask for much, and do not read it."""
    s = Server("-m", f"emb={EMB}", "--calls-max", "60MB", "--body-max", "100MB")
    tokens = {"inputs": ["word " * 20_000]}  # 80,000 tokens: a reply of 5 MB
    st, v, r = s.ask("/tokenize", tokens)
    check("a list of tokens within the limit is given", st == 200 and len(v[0]) > 20_000, st)
    st, v, _ = s.ask("/tokenize", {"inputs": tokens["inputs"] * 6})
    check("a larger one than all may hold is refused, with the setting's name", st == 413 and "--calls-max" in str(v), st, v)
    st, v, _ = s.ask("/embed_all", {"inputs": ["word " * 600] * 1000})
    check("a vector for each token is counted before it is made", st in (200, 413) and s.ask("/embed", {"inputs": "a"})[0] == 200, st)
    packed = gzip.compress(b'{"inputs":["' + b"a " * 35_000_000 + b'"]}', 1)
    st, v, _ = s.ask("/embed", packed, {"Content-Encoding": "gzip"})  # and none of 70 MB is called damaged
    check("what a body grows to is counted", st == 413 and "--calls-max" in str(v), st, v)
    st, v, _ = s.ask("/embed", b'{"inputs":"a","other":[' + b"0," * 999_000 + b"0]}")
    check("so is what a tree of small values takes", st == 413 and "--calls-max" in str(v), st, v)
    held = []
    for _ in range(12):
        c = s.connect()
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.sendall(request("/tokenize", tokens))
        held.append(c)
    refused = wait(lambda: s.ask("/tokenize", tokens)[0] == 429, 20)
    st, v, r = s.ask("/tokenize", tokens)
    check("replies that nobody reads count on: 429 with the setting's name", refused and st == 429 and "--calls-max" in str(v) and
          int(r.getheader("Retry-After")) >= 1, st, v)
    check("a short request is answered meanwhile", s.ask("/embed", {"inputs": "a"})[0] == 200)
    for c in held:
        c.close()
    check("and no more when their clients have left", wait(lambda: s.ask("/tokenize", tokens)[0] == 200, 20))
    s.stop()


for fn in (pages, scopes, alone, names, slow, tls, refused, long_texts, turns, memory):
    part(fn)
done()
