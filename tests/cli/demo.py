# SPDX-License-Identifier: MIT
"""The story of `stoker agent --demo`: see demo.t."""
import os
import pathlib
import re

import agent_box
from agent_box import wait
from serve_test import STOKER, check, done, part

# What an operator is told in a round of the story, in this order; chapters by number.
STORY = [
    (2, "TrainingStraggler", "fires"),
    (3, "TrainingStraggler", "is over"),
    (3, "GpuTemperatureHigh", "fires"),
    (3, "GpuTemperatureHigh", "is over"),
    (4, "GpuXidFatal", "fires"),
    (4, "GpuLost", "fires"),
    (5, "GpuLost", "is over"),
    (5, "GpuUtilizationLow", "fires"),
    (5, "GpuXidFatal", "is over"),
    (6, "GpuUtilizationLow", "is over"),
]
ALSO = {"TrainingStalled": 5, "GpuTemperatureAtLimit": 3, "GpuTelemetryAbsent": 4, "GpuThrottledBySoftwareHeat": 3}
ROUNDS = 3


def played():
    """An agent that has told three rounds: its story, and its events by second of a round."""
    a = agent_box.Agent(STOKER, "--demo", "--speed", "100")
    story = a.ask("/api/v1/node")[1]["story"]
    length = story["seconds"]

    def events():
        st, doc = a.ask("/api/v1/events?from=-1h&to=1894744806&limit=4096")
        return doc["events"] if st == 200 else []
    wait(lambda: events() and events()[-1]["time_ms"] - story["begun_ms"] > ROUNDS * length * 1000, 120)
    return a, story, [((e["time_ms"] - story["begun_ms"]) // 1000, e) for e in events() if e["time_ms"] >= story["begun_ms"]]


def chapter(story, second):
    return sum(c["at"] <= second % story["seconds"] for c in story["chapters"])


def story():
    a, story, events = played()
    check("the story takes two minutes and has chapters", story["seconds"] == 120 and len(story["chapters"]) == 6 and
          all(c["title"] and c["text"] for c in story["chapters"]), story)
    for n in range(1, ROUNDS):
        begin = n * story["seconds"]
        told, at = [], {}
        for s, e in events:
            m = re.match(r"(\w+) (fires|is over)", e["text"]) if e["kind"] == "alert" else None
            if not m or not begin <= s < begin + story["seconds"]:
                continue
            if (m[1], m[2]) not in at:
                at[m[1], m[2]] = chapter(story, s)
                told.append((chapter(story, s), m[1], m[2]))
        want = [x for x in told if x in STORY]
        check(f"round {n}: alerts fire and end where the story says so", want == STORY, want, told)
        check(f"round {n}: and those that come with them", all(at.get((k, "fires")) == v for k, v in ALSO.items()), at)
        check(f"round {n}: all are over at its end", {k for k, w in at if w == "fires"} == {k for k, w in at if w == "is over"}, at)
        xids = [(s, e) for s, e in events if e["kind"] == "xid" and begin <= s < begin + story["seconds"]]
        check(f"round {n}: XID 79 of GPU 5", len(xids) == 1 and xids[0][1]["code"] == 79 and xids[0][1]["gpu"] == 5 and chapter(story, xids[0][0]) == 4, xids)
    a.stop()


def rounds():
    """What is shown of it: marked everywhere, eight GPUs, a job with ranks, a model, a topology."""
    a = agent_box.Agent(STOKER, "--demo")
    node = a.ask("/api/v1/node")[1]
    check("it says that it is one", node["demo"] is True and "made-up" in node["note"] and a.value("stoker_demo") == 1, node["note"])
    check("it begins with its first chapter", (node["begun_ms"] // 1000 - node["story"]["begun_ms"] // 1000) % 120 == 0, node["story"], node["begun_ms"])
    check("eight ranks of one job", sorted(j["rank"] for j in node["jobs"]) == list(range(8)) and {j["job"] for j in node["jobs"]} == {"llama-3.1-8b"}, node["jobs"])
    check("a served model", [m["model"] for m in a.ask("/api/v1/models")[1]["models"]] == ["bge-small-en-v1.5"])
    st, topo = a.ask("/api/v1/topology")
    check("NVLink between all GPUs in its topology", st == 200 and topo["topo"]["paths"][0][1] == "NV18" and "H200" in topo["svg"], st)
    check("nobody else's demo in it", a.ask("/demo/api/v1/node")[0] == 404)
    a.stop()


def door():
    """The demo beside what is measured."""
    pathlib.Path("own").mkdir()
    a = agent_box.Agent(STOKER, "--no-gpu", "--no-history", env={"TMPDIR": os.path.abspath("own")})
    st, page = a.ask("/demo/")
    check("/demo/ is the page", st == 200 and "<title>stoker</title>" in page)
    check("/demo leads there", a.ask("/demo")[0] == 308)
    check("before anybody looks there is no second agent", a.value("stoker_demo") is None and a.ask("/api/v1/node")[1]["demo"] is False)
    st, node = a.ask("/demo/api/v1/node")
    check("below it are eight GPUs", st == 200 and node["demo"] is True and node["host"] == "demo", st, str(node)[:300])
    check("with history and alerts of rounds that are over",
          wait(lambda: len(a.ask("/demo/api/v1/query?metric=gpu.util&from=-10m&points=10")[1].get("series", [])) == 8 and
               any("GpuXidFatal" in e["text"] for e in a.ask("/demo/api/v1/events?from=-1h&limit=4000")[1]["events"]), 60))
    check("what is unknown there is told", a.ask("/demo/api/v1/nothing")[0] == 404)
    own = a.ask("/api/v1/node")[1]
    check("nothing of it is in what is measured", own["demo"] is False and not own["gpus"] and "DCGM_" not in a.metrics() and
          not any("Xid" in e["text"] for e in a.ask("/api/v1/events?from=-1h")[1]["events"]) and a.value("stoker_demo") is None, own)
    check("it leaves no file behind, however it ends", not os.listdir("own"), os.listdir("own"))
    check("and ends with the agent", a.stop() == 0, a.text)
    pathlib.Path("token").write_text("a-secret\n")
    a = agent_box.Agent(STOKER, "--no-gpu", "--no-history", "--token-file", "token")
    check("with a token its page is open and its values are not", a.ask("/demo/")[0] == 200 and a.ask("/demo/api/v1/node")[0] == 401 and
          a.ask("/demo/api/v1/node", headers={"Authorization": "Bearer a-secret"})[0] == 200)
    a.stop()


for fn in (story, rounds, door):
    part(fn)
done()
