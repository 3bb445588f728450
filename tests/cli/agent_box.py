# SPDX-License-Identifier: MIT
"""A `stoker agent` process on free ports, for tests and measurements.  Standard library alone."""
import http.client
import json
import os
import re
import signal
import subprocess
import threading

import serve_box
from serve_box import wait


class Agent:
    """Ends up ready, or dead with its words in `text`."""

    def __init__(self, stoker, *args, ready=True, env=None, ports=(0, 0), files=None):
        env = dict(os.environ, **(env or {}))
        command = [stoker, "agent", "--port", str(ports[0]), "--metrics-port", str(ports[1]), *args]
        if "--control" not in args:
            command += ["--control", "none"]
        self.p = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=env,
                                  preexec_fn=files)
        serve_box.living.append(self.p)
        self.text, self.port, self.metrics_port = "", 0, 0
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        if ready:
            self.wait_text("stoker agent: ready")

    def read(self):
        for line in self.p.stderr:
            self.text += line.decode(errors="replace")
            page = re.search(r"agent: page https?://[0-9.]+:(\d+)", self.text)
            metrics = re.search(r"agent: metrics https?://[0-9.]+:(\d+)", self.text)
            self.port = int(page[1]) if page else 0
            self.metrics_port = int(metrics[1]) if metrics else 0

    def wait_text(self, words, seconds=60):
        return wait(lambda: words in self.text or self.p.poll() is not None, seconds) and words in self.text

    def ask(self, path, port=None, headers=None, timeout=60):
        c = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=timeout)
        c.request("GET", path, headers=headers or {})
        r = c.getresponse()
        raw = r.read()
        c.close()
        try:
            return r.status, json.loads(raw)
        except ValueError:
            return r.status, raw.decode(errors="replace")

    def metrics(self):
        return self.ask("/metrics", self.metrics_port)[1]

    def value(self, name, *labels):
        """The sum of a name's series that have these labels; None: there is none."""
        total = None
        for line in self.metrics().splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(x in series for x in labels):
                total = (total or 0.0) + float(value)
        return total

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
