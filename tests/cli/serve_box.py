# SPDX-License-Identifier: MIT
"""A `stoker serve` process on a free port, for tests and measurements.  Standard library alone."""
import atexit
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

living = []


@atexit.register
def end_all():
    for p in living:
        if p.poll() is None:
            p.kill()


def secret(text):
    """A file that holds it, and goes with the process."""
    fd, path = tempfile.mkstemp()
    os.write(fd, text.encode())
    os.close(fd)
    atexit.register(lambda: os.path.exists(path) and os.unlink(path))
    return path


class Server:
    """Ends up ready, or dead with its words in `text`.  `tls` is the client's ssl context."""

    def __init__(self, stoker, *args, ready=True, port=0, env=None, tls=None):
        self.admin = "admin of %d" % os.getpid()
        if "--admin-token-file" not in args:
            args = (*args, "--admin-token-file", secret(self.admin))
        self.p = subprocess.Popen([stoker, "serve", "--port", str(port), *args], stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=dict(os.environ, **(env or {})))
        living.append(self.p)
        self.text, self.port, self.tls = "", 0, tls
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.wait_text("stoker serve: ready" if ready else "http")

    def read(self):
        for line in self.p.stderr:
            self.text += line.decode(errors="replace")
            found = re.search(r"serve: https?://[0-9.]+:(\d+)", self.text)
            self.port = self.port or (int(found[1]) if found else 0)

    def wait_text(self, words, seconds=60):
        return wait(lambda: words in self.text or self.p.poll() is not None, seconds) and words in self.text

    def ask(self, path, body=None, headers=None, method=None, timeout=60):
        if self.tls:
            c = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.tls)
        else:
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        headers = dict(headers or {})
        if path.startswith(("/v1/models/load", "/v1/models/unload")):
            headers.setdefault("Authorization", "Bearer " + self.admin)
            headers.setdefault("Content-Type", "application/json")
        data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        c.request(method or ("GET" if body is None else "POST"), path, data, headers)
        r = c.getresponse()
        raw = r.read()
        c.close()
        try:
            return r.status, json.loads(raw), r
        except ValueError:
            return r.status, raw, r

    def connect(self, timeout=60):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def metric(self, name, *labels):
        """The sum of a name's series that have these labels ('reason="cancelled"')."""
        text, total = self.ask("/metrics")[1].decode(), 0.0
        for line in text.splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(x in series for x in labels):
                total += float(value)
        return total

    def fds(self):
        return len(os.listdir(f"/proc/{self.p.pid}/fd"))

    def rss_kb(self):
        with open(f"/proc/{self.p.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])

    def sanitized(self):
        """Its memory says nothing then, and it is slow."""
        with open(f"/proc/{self.p.pid}/maps") as f:
            return bool(re.search(r"lib[at]san|libubsan", f.read()))

    def stop(self, sig=signal.SIGTERM, seconds=60):
        if self.p.poll() is None:
            self.p.send_signal(sig)
        try:
            rc = self.p.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()
            return None
        self.reader.join(10)
        return rc


def wait(what, seconds=60):
    """Until it holds; what() is asked again and again."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def free_ports(count):
    """Ports that are free and stay so: below those that the kernel itself gives away, which a
    connection of another test may have taken by the time that they are used."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        low = int(f.read().split()[0])
    found = set()
    while len(found) < count:
        port = random.randrange(max(1024, low // 2), low)
        with socket.socket() as s:
            try:
                s.bind(("", port))
            except OSError:
                continue
        found.add(port)
    return list(found)


def request(path, body, *fields):
    """The bytes of a POST."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *fields, "", ""]
    return "\r\n".join(head).encode() + body


def reply(c):
    """Status, fields and body of the next reply on a socket; (None, {}, b"") when it closed."""
    f = c.makefile("rb")
    try:
        line = f.readline()
        fields = {}
        while line:
            field = f.readline().strip()
            if not field:
                break
            name, _, value = field.decode().partition(":")
            fields[name.lower()] = value.strip()
        return (int(line.split()[1]), fields, f.read(int(fields.get("content-length", 0)))) if line else (None, {}, b"")
    except ConnectionError:
        return None, {}, b""
