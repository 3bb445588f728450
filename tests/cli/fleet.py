# SPDX-License-Identifier: MIT
"""One agent asks 512 others: see fleet.t."""
import gzip
import json
import pathlib
import sys
import time
import urllib.request

import agent_box
from agent_box import wait
from serve_test import STOKER, check, done, part, run

sys.path.insert(0, sys.argv[2])
import fleet_box  # noqa: E402

NODES = 512


def wide():
    box = fleet_box.Fleet(STOKER, NODES, 64)
    spec = box.spec("wide.yaml")
    a = agent_box.Agent(STOKER, "--no-gpu", "--no-history", "-f", spec)
    begun = time.monotonic()
    st, first = a.ask("/api/v1/fleet")
    check("the first answer waits for nobody", st == 200 and first["count"] == NODES + 1 and first["asked"] > 0, first)
    check("512 agents are asked", wait(lambda: a.ask("/api/v1/fleet")[1]["asked"] == 0, 60), a.ask("/api/v1/fleet")[1]["asked"])
    took = time.monotonic() - begun
    doc = a.ask("/api/v1/fleet")[1]
    lost = [n for n in doc["nodes"] if n["state"] == "lost"]
    check("those that do not answer, or answer nonsense, are told with the reason", len(lost) == 2 == doc["lost"] and
          "3000 ms" in lost[0]["error"] and "not a stoker agent" in lost[1]["error"] and lost[0]["node"] is None, lost)
    by = {n["host"]: n for n in doc["nodes"]}
    check("a node has its place, state, values, alerts and ranks", by["gpu006"]["state"] == "critical" and by["gpu006"]["rack"] == "rack0" and by["gpu006"]["group"] == "r0" and
          by["gpu006"]["switch"] == "leaf0" and by["gpu006"]["node"]["alerts"][0]["name"] == "GpuLost" and len(by["gpu006"]["node"]["now"]["gpu.util"]) == 8 and
          by["gpu006"]["node"]["now"]["gpu.util"][1] is None and len(by["gpu001"]["node"]["jobs"]) == 8, by["gpu006"])
    number = doc["number"]
    # two further rounds: asked again, none late
    check("they are asked again and again", wait(lambda: a.ask("/api/v1/fleet")[1]["number"] > number + 2 * (NODES - 2), 60), number)
    late = a.ask("/api/v1/fleet")[1]["late"]
    print(f"# 512 agents known after {took:.1f} s, of which one is given 3 s to answer")
    print(f"RESULT fleet.late {late} nodes 0 {'ok' if not late else 'short'}")
    req = urllib.request.Request(f"http://127.0.0.1:{a.port}/api/v1/fleet", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(req) as r:
        raw = r.read()
        check("the answer is packed for who takes it", r.headers.get("Content-Encoding") == "gzip" and json.loads(gzip.decompress(raw))["count"] == NODES + 1)
    whole = len(json.dumps(a.ask("/api/v1/fleet")[1], separators=(",", ":")))
    print(f"# {whole} bytes of {NODES} nodes, {len(raw)} packed")
    check("and bounded", whole < NODES * 2048, whole)
    since = a.ask("/api/v1/fleet?since=%d" % (1 << 40))[1]
    check("who has seen all gets this node alone", [n["at"] for n in since["nodes"]] == [0], since)
    # all die
    box.stop()
    check("nodes that die are told", wait(lambda: a.ask("/api/v1/fleet")[1]["lost"] == NODES, 60), a.ask("/api/v1/fleet")[1]["lost"])
    gone = a.ask("/api/v1/fleet")[1]["nodes"][1]
    check("with their names and when they were seen", gone["host"] == "gpu001" and gone["seen_ms"] and gone["node"] is None, gone)
    check("and the agent ends at once meanwhile", a.stop(seconds=20) == 0, a.text)


def lists():
    """Host lists in addresses."""
    p = run("agent", "--once", "--no-gpu", "--peer", "http://gpu[1-2000]:8090")
    check("more agents than there may be are refused", p.returncode == 4 and "1024" in p.stderr, p.stderr)
    p = run("agent", "--once", "--no-gpu", "--peer", "http://gpu[3-1]:8090")
    check("a list that is none is refused", p.returncode == 2 and "gpu[3-1]" in p.stderr, p.stderr)
    a = agent_box.Agent(STOKER, "--no-gpu", "--no-history", "--peer", "http://127.0.0.[1-3]:1/x", "--peer", "http://[::1]:1")
    want = ["http://127.0.0.1:1/x", "http://127.0.0.2:1/x", "http://127.0.0.3:1/x", "http://[::1]:1"]
    got = [n["address"] for n in a.ask("/api/v1/fleet")[1]["nodes"][1:]]
    check("an address may name many machines", got == want, got)
    a.stop()
    pathlib.Path("peers.yaml").write_text("agent:\n  peers: ['http://gpu[3-1]:8090']\n")
    p = run("spec", "check", "peers.yaml")
    check("the spec's are checked as the agent reads them", p.returncode == 1 and "address" in p.stderr, p.stderr)


for fn in (wide, lists):
    part(fn)
done()
