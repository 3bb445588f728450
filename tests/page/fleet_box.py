# SPDX-License-Identifier: MIT
"""Fake nodes (fake_fleet.py) made of what a real agent says, and a spec that names them."""
import json
import pathlib
import subprocess
import sys

import agent_box
import serve_box


class Fleet:
    def __init__(self, stoker, count, ranks=0):
        demo = agent_box.Agent(stoker, "--demo")
        pathlib.Path("fake-node.json").write_text(json.dumps(demo.ask("/api/v1/node")[1]))
        demo.stop()
        here = pathlib.Path(__file__).resolve().parent
        self.count = count
        self.p = subprocess.Popen([sys.executable, str(here / "fake_fleet.py"), "fake-node.json", str(count), str(ranks)], stdout=subprocess.PIPE, text=True)
        serve_box.living.append(self.p)
        self.port = int(self.p.stdout.readline())

    def spec(self, path, racks=8):
        """Every rack a group and a switch."""
        each = self.count // racks
        names = [f"gpu[{r * each + 1:03d}-{r * each + each:03d}]" for r in range(racks)]
        text = "agent:\n  peers:\n" + "".join(f"    - http://127.0.0.1:{self.port}/n/{i}\n" for i in range(self.count)) + "nodes:\n"
        for r, hosts in enumerate(names):
            text += f"  - name: r{r}\n    hosts: {hosts}\n    count: {each}\n    gpus_per_node: 8\n    gpu: {{model: H200}}\n    rack: rack{r}\n"
        text += "fabrics:\n  - name: ib\n    kind: infiniband\n    rate: 400Gb/s\n    switches:\n"
        text += "".join(f"      leaf{r}: {{hosts: '{hosts}'}}\n" for r, hosts in enumerate(names))
        pathlib.Path(path).write_text(text)
        return path

    def stop(self):
        self.p.kill()
        self.p.wait()
