# SPDX-License-Identifier: MIT
"""A Chromium without a window, driven over the DevTools protocol; the standard library alone.

    with Browser(path) as b:
        b.open("http://127.0.0.1:8090/")
        b.js("document.title")
"""
import base64
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import time

NAMES = ["chromium", "chromium-headless-shell", "chromium-browser", "google-chrome"]
WAIT_S = 60


def find():
    return os.environ.get("CHROMIUM") or next((p for p in map(shutil.which, NAMES) if p), None)


class Socket:
    """A WebSocket's client side: text frames, whole."""

    def __init__(self, url):
        host, _, path = url.removeprefix("ws://").partition("/")
        name, port = host.split(":")
        self.s = socket.create_connection((name, int(port)), timeout=WAIT_S)
        key = base64.b64encode(os.urandom(16)).decode()
        self.s.sendall(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.rest = b""
        while b"\r\n\r\n" not in self.rest:
            self.rest += self.s.recv(4096)
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        assert b" 101 " in head.split(b"\r\n")[0], head

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        size = struct.pack("!BB", 0x81, 0x80 | len(data)) if len(data) < 126 else (
            struct.pack("!BBH", 0x81, 0xFE, len(data)) if len(data) < 65536 else struct.pack("!BBQ", 0x81, 0xFF, len(data)))
        self.s.sendall(size + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def take(self, n):
        while len(self.rest) < n:
            more = self.s.recv(1 << 20)
            if not more:
                raise ConnectionError("the browser closed the connection")
            self.rest += more
        out, self.rest = self.rest[:n], self.rest[n:]
        return out

    def read(self):
        out = b""
        while True:
            a, b = self.take(2)
            n = b & 127
            n = struct.unpack("!H", self.take(2))[0] if n == 126 else struct.unpack("!Q", self.take(8))[0] if n == 127 else n
            out += self.take(n)
            if a & 0x80 and a & 15 in (1, 0, 2):
                return out.decode()


class Browser:
    def __init__(self, path):
        self.dir = tempfile.mkdtemp(prefix="stoker-page-")
        self.child = subprocess.Popen(
            [path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--remote-debugging-port=0", f"--user-data-dir={self.dir}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = pathlib.Path(self.dir, "DevToolsActivePort")
        until = time.monotonic() + WAIT_S
        while not (port.exists() and port.read_text().count("\n")):
            if self.child.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the browser did not start")
            time.sleep(0.05)
        number, path = port.read_text().split("\n")[:2]
        self.ws = Socket(f"ws://127.0.0.1:{number}{path}")
        self.count, self.faults, self.urls, self.session = 0, [], [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.terminate()
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def note(self, message):
        method, p = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            d = p["exceptionDetails"]
            self.faults.append(d.get("exception", {}).get("description") or d["text"])
        elif method == "Log.entryAdded" and p["entry"]["level"] == "error" and p["entry"]["source"] != "network":
            self.faults.append(p["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.urls.append(p["request"]["url"])

    def call(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.ws.send(json.dumps(message))
        while True:
            got = json.loads(self.ws.read())
            if got.get("id") == message["id"]:
                if "error" in got:
                    raise RuntimeError(f"{method}: {got['error']['message']}")
                return got["result"]
            self.note(got)

    def js(self, text):
        r = self.call("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            raise RuntimeError(r["exceptionDetails"].get("exception", {}).get("description", text))
        return r["result"].get("value")

    def until(self, text, seconds=20):
        """The first true value of an expression; its last one when there is none.  While a page is left and the
        next is read there is no context to ask, or one without the page's names: not yet, and an error at the end."""
        end = time.monotonic() + seconds
        while True:
            over = time.monotonic() > end
            try:
                value = self.js(text)
                if value or over:
                    return value
            except RuntimeError:
                if over:
                    raise
            time.sleep(0.1)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def size(self, width, height, phone=False, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key, code=None, shift=False):
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, modifiers=8 if shift else 0, **text)

    def shot(self, path, whole=False):
        more = {}
        if whole:
            self.js("scrollTo(0, 0)")
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            more = {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}}
        kind = {"format": "webp", "quality": 78} if str(path).endswith(".webp") else {"format": "png"}
        data = self.call("Page.captureScreenshot", **kind, **more)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
