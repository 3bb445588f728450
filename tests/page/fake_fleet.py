#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fake nodes, many on one port: node 17 speaks the agent's API below /n/17.

    tests/page/fake_fleet.py NODE.json COUNT [RANKS]

NODE.json is what a real agent answers at /api/v1/node; every fake node answers the same with a host
name, values, alerts and ranks of its own, other values every time.  The last but one never answers,
the last one answers nonsense, node 3 has a slow GPU that RANKS of the job wait for, node 5 has lost one.
Prints its port, then serves until it is killed.
"""
import asyncio
import json
import random
import sys

doc = json.load(open(sys.argv[1]))
COUNT, RANKS = int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0
SLOW, LOST = (3, 4), (5, 1)  # node, GPU
asked = {}


def alert(name, severity, gpu, summary):
    return {"name": name, "severity": severity, "gpu": gpu, "fired_ms": doc["time_ms"], "summary": summary}


def node(i):
    dice = random.Random(i * 7919 + asked[i])
    out = dict(doc, host=f"gpu{i + 1:03d}", demo=False, note=None, story=None, alerts=[], jobs=[], serve_url=None)
    out["gpus"] = []
    for g in doc["gpus"]:
        now = dict(g["now"])
        load = 0.97 if i % 5 else 0.3
        now.update({"gpu.util": round(100 * load - dice.random() * 4, 2), "gpu.prof.tensor": round(0.55 * load + dice.random() * .05, 4), "gpu.temp": round(48 + 22 * load + dice.random() * 3, 1),
                    "gpu.temp.margin": 20, "gpu.power": round(620 * load + dice.random() * 40, 1), "gpu.clock.sm": 1980, "gpu.clock_events": 0, "gpu.lost": 0, "gpu.xid.last": 0, "gpu.processes": 1, "gpu.fb.used": 1.2e11 * load})
        if (i, g["gpu"]) == SLOW:
            now.update({"gpu.clock.sm": 1200, "gpu.clock_events": 2})
        if (i, g["gpu"]) == LOST:
            now = {k: None for k in now} | {"gpu.lost": 1}
            out["alerts"].append(alert("GpuLost", "critical", g["gpu"], f"The driver has lost GPU {g['gpu']}"))
        out["gpus"].append(dict(g, now=now))
        rank = i * len(doc["gpus"]) + g["gpu"]
        if rank < RANKS:
            out["jobs"].append({"job": "llama-70b", "user": "ada", "state": "running", "step": 1200, "step_seconds": 1.6, "rank": rank, "world_size": RANKS, "gpu": g["gpu"],
                                "busy_seconds": 1.52 if (i, g["gpu"]) == SLOW else round(0.92 + dice.random() * .02, 4)})
    if i % 37 == 11:
        out["alerts"].append(alert("GpuTemperatureHigh", "warning", 2, "GPU 2 is at 86 °C"))
    out["firing"] = {s: sum(a["severity"] == s for a in out["alerts"]) for s in ("critical", "warning", "info")}
    return json.dumps(out).encode()


async def serve(reader, writer):
    try:
        while True:
            line = await reader.readline()
            while (await reader.readline()).strip():
                pass
            path = line.split()[1].decode() if len(line.split()) > 1 else ""
            if not path:
                break
            i = int(path.split("/")[2])
            asked[i] = asked.get(i, 0) + 1
            if i == COUNT - 2:
                await asyncio.sleep(3600)
            body = b"<html>hello</html>" if i == COUNT - 1 else node(i)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError, ValueError):
        pass
    writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
