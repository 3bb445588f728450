# SPDX-License-Identifier: MIT
"""prom_box: Prometheus and its companions as children of a test, asked over their API."""
import json
import pathlib
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import serve_box
from serve_box import free_ports, wait


class Program:
    def __init__(self, name, ready, *args):
        self.name, self.port, self.log = name, free_ports(1)[0], open(f"{name}.log", "wb")
        self.url = f"http://127.0.0.1:{self.port}"
        self.p = subprocess.Popen([shutil.which(name), *args, f"--web.listen-address=127.0.0.1:{self.port}"],
                                  stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        serve_box.living.append(self.p)
        self.up = wait(lambda: self.reach(ready), 60)

    def reach(self, path):
        try:
            return urllib.request.urlopen(self.url + path, timeout=5).status == 200
        except OSError:
            return False

    def ask(self, path, **params):
        try:
            with urllib.request.urlopen(self.url + path + ("?" + urllib.parse.urlencode(params) if params else ""), timeout=30) as r:
                return json.loads(r.read())
        except urllib.error.HTTPError as e:
            return {"status": "error", "error": e.read().decode(errors="replace")}

    def words(self):
        return pathlib.Path(f"{self.name}.log").read_text(errors="replace")[-600:]

    def end(self):
        self.p.terminate()
        self.p.wait(30)
