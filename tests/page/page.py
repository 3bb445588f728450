#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The agent's page in headless Chromium, against real agents that play recordings, as TAP.

    tests/page/page.py BUILD [--keep] [--docs]

demo     the demo, with the next one and a dead address as its fleet
wide     an agent that asks 512 fake nodes (fake_fleet)
fault    a node of a fake driver, recorded here: GPU 5 falls off the bus and comes back
long     six hours of eight GPUs at one second, made up by fake_node

Screenshots go to BUILD/page/; --docs writes those of docs/pictures; --keep leaves the agents
running, to look at.  RESULT page.frame_ms (a pointer moves over six hours of eight
GPUs), page.redraw_ms (all ten charts anew), and of a fleet of 512 nodes page.fleet_first_ms (from the address
to its table), page.fleet_update_ms (all values anew, main thread), page.fleet_heap_mb and page.fleet_poll_kb (a
poll, packed) are measurements and decide nothing.
"""
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request

top = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(top / "tests/cli"))
import agent_box  # noqa: E402
import browser  # noqa: E402
import fleet_box  # noqa: E402
import serve_box  # noqa: E402
from agent_box import wait  # noqa: E402

build = pathlib.Path(sys.argv[1]).resolve()
STOKER = str(build / "stoker")
shots = build / "page"
pictures = top / "docs/pictures"
count = failed = 0
VIEWS = ["overview", "charts", "processes", "events", "models", "topology", "fleet"]
LOST = 5           # the GPU that falls off the bus
HEALTHY_S, LOST_S, AFTER_S = 12, 16, 20  # a lost GPU is tried again each 30 s
LONG_S = 6 * 3600  # of the made-up node

CONTRAST = r"""
(() => {
  const rgb = t => (t.match(/[\d.]+/g) || []).map(Number);
  const lum = c => { const f = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; return .2126 * f(c[0]) + .7152 * f(c[1]) + .0722 * f(c[2]); };
  const back = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
  const bad = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !e.checkVisibility() || e.closest("script,style,dialog:not([open]),[disabled]") || e.getBoundingClientRect().right < 0) continue;
    const s = getComputedStyle(e), a = lum(rgb(s.color)), b = lum(back(e)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const large = parseFloat(s.fontSize) >= 24 || parseFloat(s.fontSize) >= 18.66 && Number(s.fontWeight) >= 700;
    if (ratio < (large ? 3 : 4.5)) bad.push(ratio.toFixed(2) + " " + e.tagName + "." + e.className + " " + e.textContent.slice(0, 30));
  }
  return [...new Set(bad)];
})()"""
# what can be scrolled to the right: innerWidth grows with it on a phone, so it tells nothing
OVER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# names, paths and messages without a place to break them, as sites have them; times and counts are ours
WORDS = """(() => {
  const walk = document.createTreeWalker(document.querySelector("main > section.on") || document.body, NodeFilter.SHOW_TEXT), list = [document.getElementById("host")];
  while (walk.nextNode()) if (walk.currentNode.data.trim().length > 13 && !walk.currentNode.parentElement.closest("button, label, h1, h2, h3, option, script, style, .when")) list.push(walk.currentNode);
  for (const t of list) if (t) t.textContent = "W".repeat(120);
  return list.length;
})()"""
# pixels of a canvas that are not empty
INK = """(q => { const c = document.querySelector(q), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data; let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; })"""


def check(title, ok, why=""):
    global count, failed
    count += 1
    failed += not ok
    print(("ok" if ok else "not ok"), count, "-", title, flush=True)
    if not ok and why not in ("", None):
        for line in str(why).splitlines()[:12]:
            print("#", line)


# ---- the agents

def agent(*args, **more):
    a = agent_box.Agent(STOKER, *args, **more)
    a.url = f"http://127.0.0.1:{a.port}/"
    return a


def driver_doc():
    """Eight GPUs at work, one of them held back for heat; the process on them is this one."""
    one = json.loads((top / "tests/fixtures/gpu/h200-gemm.json").read_text())["gpus"][0]
    gpus = []
    for i in range(8):
        processes = [{"pid": os.getpid(), "memory": (40 + i) << 30, "sm": 90}] if i else []
        gpus.append({**one, "index": i, "links": 18, "temp": 44 + 3 * i, "reasons": 0x20 if i == 3 else 4, "used_bytes": (44 + i) << 30,
                     "utilization": [100 - 2 * i, 40], "processes": processes})
    return {"gpus": gpus}


class Fault:
    """Records a node whose GPU is lost for a while, on a thread, with a model server beside it."""

    def __init__(self, folder):
        self.file, self.control = folder / "fault.rec", folder / "control"
        (folder / "live.json").write_text(json.dumps(driver_doc()))
        self.control.write_text("")
        shutil.copytree(top / "tests/fixtures/models/bert", folder / "bert")
        shutil.copy(top / "tests/fixtures/tokenizers/tiny-bert.json", folder / "bert/tokenizer.json")
        self.env = dict(FAKE_NVML_JSON=str(top / "tests/fakenvml/dgx-h100.json"), FAKE_NVML_LIVE=str(folder / "live.json"),
                        FAKE_NVML_CONTROL=str(self.control), STOKER_NVML_LIB=str(build / "tests/libfakenvml.so"))
        self.folder, self.text = folder, ""
        self.thread = threading.Thread(target=self.record, daemon=True)
        self.thread.start()

    def use(self, server, seconds):
        """The model at work."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            server.ask("/v1/embeddings", {"input": ["a", "b"], "model": "bert"})
            time.sleep(0.05)

    def record(self):
        server = serve_box.Server(STOKER, "-m", str(self.folder / "bert"))
        a = agent_box.Agent(STOKER, "--no-history", "--record", str(self.file), "--serve", f"http://127.0.0.1:{server.port}", env=self.env)
        wait(lambda: a.metrics().count("\nDCGM_FI_DEV_GPU_TEMP{") == 8, 60)
        self.use(server, HEALTHY_S)
        self.control.write_text(f"xid:{LOST}:79:1,lose:{LOST}")
        self.use(server, LOST_S)
        self.control.write_text("")
        self.use(server, AFTER_S)
        self.text = a.text + server.text
        a.stop()
        server.stop()

    def play(self, **more):
        self.thread.join(180)
        return agent("--replay", str(self.file), **more)


# ---- the page

def go(b, view):
    b.js(f"location.hash = '{view}'; scrollTo(0, 0)")
    b.until(f"document.getElementById('v-{view}').classList.contains('on')")


def theme(b, name):
    b.js(f"themeSet('{name}')")


def shown(view):
    return f"document.getElementById('v-{view}').innerText"


def span(b, name):
    b.js(f"[...document.querySelectorAll('#spans button')].find(x => x.textContent === '{name}').click()")


def picture(b, name, width=1440, height=900, phone=False):
    """One of docs/."""
    if "--docs" in sys.argv:
        pictures.mkdir(exist_ok=True)
        b.size(width, height, phone)
        b.js("scrollTo(0, 0)")
        time.sleep(1.5)
        b.shot(pictures / f"{name}.webp")
        b.size(1440, 900)


def open_page(b, a, gpus=8):
    b.open(a.url)
    return b.until(f"document.querySelectorAll('#cards .card').length === {gpus} && document.getElementById('status').className === 'live'", 40)


def overview(b, demo):
    check("eight GPUs have a card each, and the page is live", open_page(b, demo), demo.text)
    text = b.js("document.getElementById('gpu-1').innerText")
    wanted = ["H200", "Utilisation", "Tensor activity", "Memory", "Temperature", "Power", "SM MHz", "ECC", "NVLink", "PCIe"]
    check("a card has utilisation, memory, clocks, ECC and links", all(w in text for w in wanted), text)
    check("the first line says what is wrong, or that nothing is", b.until("(t => { const f = state.alerts.filter(a => a.state === 'firing'); return f.length ? f.some(a => t.includes(a.name)) : t.includes('Nothing is wrong'); })(document.getElementById('firing').innerText)"), b.js("document.getElementById('firing').innerText"))
    check("a strip tells the chapter of the story", b.until("(t => state.node.story.chapters.some(c => t.includes(c.title) && t.includes(c.text)))(document.getElementById('story').innerText)"), b.js("document.getElementById('story').innerText"))
    check("sparklines are drawn", b.until(INK + "('#gpu-1 canvas') > 200"))
    power = "[...document.querySelectorAll('.card')].map(c => c.innerText).join()"
    before = json.dumps(b.js(power))
    check("values change by themselves", b.until(f"{power} !== {before}"))
    st, node = demo.ask("/api/v1/node")
    used = sum(g["now"]["gpu.fb.used"] or 0 for g in node["gpus"]) if st == 200 else 0
    check("a sum on the page is the API's", st == 200 and used > 0 and b.until("document.getElementById('sum').innerText.includes('GiB')"))
    for t in ("light", "dark"):
        theme(b, t)
        b.shot(shots / f"overview-{t}.png", whole=True)
    picture(b, "agent-overview-dark", height=955)


def charts(b, demo):
    go(b, "charts")
    span(b, "15 min")
    check("charts have the recording's data", b.until("CHARTS.slice(0, 6).every(c => c.data && c.data.series.length === 8 && c.data.series[0].mean.some(known))"))
    check("eight GPUs are rows of shades at first", b.js("formNow() === 'heat'"))
    b.key("h", "KeyH")
    check("curves are drawn", b.until(INK + "('#charts figure:nth-child(1) canvas') > 1500") and b.js(INK + "('#charts figure:nth-child(4) canvas')") > 1500)
    b.key("h", "KeyH")
    check("or a row of shades a GPU", b.until("form === 'heat' && " + INK + "('#charts figure:nth-child(1) canvas') > 20000"))
    times = "marked(seen())"
    check("few lines go through the charts, each of them of trouble", b.js(f"state.events.length > 200 && {times}.length > 0 && {times}.length <= MARKS_MAX && {times}.every(t => state.events.some(e => e.time_ms === t && e.kind === 'xid') || state.alerts.some(a => a.severity === 'critical' && a.fired_ms === t))"), b.js(f"JSON.stringify([state.events.length, {times}])"))
    theme(b, "dark")
    check("the picker has the theme's colours", b.js("(s => s.backgroundColor === getComputedStyle(document.querySelector('.panel')).backgroundColor && s.colorScheme === 'dark')(getComputedStyle(document.getElementById('pick')))"), b.js("getComputedStyle(document.getElementById('pick')).backgroundColor"))
    b.shot(shots / "charts-heat-dark.png", whole=True)
    picture(b, "agent-charts", height=1130)
    b.key("h", "KeyH")
    b.js("document.getElementById('pick').value = 'gpu.clock.mem'; document.getElementById('pick').onchange()")
    check("any metric can be charted", b.until("CHARTS[0].metric === 'gpu.clock.mem' && CHARTS[0].data && CHARTS[0].data.series.length === 8") and b.until(INK + "('#chart-gpu\\\\.clock\\\\.mem canvas') > 500"))
    b.js("[...document.querySelectorAll('.key')][2].onclick({})")
    check("span, form, GPUs and charts stand in the address", b.js("(h => h.includes('span=900') && h.includes('metrics=gpu.clock.mem') && h.includes('gpus=0%2C1%2C3') && h.includes('form=lines'))(location.hash)"), b.js("location.hash"))
    link = b.js("location.href")
    b.open("about:blank")
    b.open(link)
    check("and a link shows the same", b.until("view === 'charts' && span === 900 && shown && !shown.has(2) && shown.size === 7 && formNow() === 'lines' && CHARTS[0].metric === 'gpu.clock.mem' && CHARTS[0].unit === 'MHz' && CHARTS[0].data", 30), b.js("location.hash"))
    b.js("document.querySelector('#charts .plain').click(); [...document.querySelectorAll('.key')].pop().onclick({})")
    span(b, "5 min")
    first = b.until("CHARTS[0].data && CHARTS[0].data.step_ms === 1000 && CHARTS[0].data.from_ms + CHARTS[0].data.steps * 1000")
    check("charts go on by themselves", b.until(f"CHARTS[0].data.from_ms + CHARTS[0].data.steps * 1000 > {first} + 2500"))
    check("a chart that goes on has no hole", b.js("CHARTS[3].data.series[0].mean.slice(5, -4).every(v => v !== null)"))


# what a pointer's move costs, and a new range: milliseconds a frame, and of those in our code
FRAMES = """(what => new Promise(done => {
  const spent = [], gaps = []; let last = 0, n = 0;
  const step = t => {
    if (last) gaps.push(t - last);
    last = t;
    const a = performance.now();
    cursorSet(seen().from + (seen().to - seen().from) * (n % 60) / 60);
    if (what === "redraw") drawCharts(); else tipShow(CHARTS[0], 300 + n, 300);
    spent.push(performance.now() - a);
    if (++n < 60) requestAnimationFrame(step);
    else { cursorSet(null); tipHide(); const q = (l, p) => l.sort((x, y) => x - y)[Math.floor(p * (l.length - 1))]; done([q(gaps, .5), q(gaps, .95), q(spent, .5)]); }
  };
  requestAnimationFrame(step);
}))"""


def played_whole(a):
    """A recording that is played as fast as it can be fills the history from its beginning: a chart that is asked
    for meanwhile ends where the playing was, and only its newest steps are asked for again."""
    st, d = a.ask(f"/api/v1/query?metric=gpu.util&label.gpu=0&from=-{LONG_S}s&step=60")
    return st == 200 and len(d["series"]) == 1 and all(v is not None for v in d["series"][0]["mean"][1:-2])


def long_charts(b, a):
    """Six hours at one second: what the page draws, how fast, and how it is used."""
    check("the recording is played to its end", wait(lambda: played_whole(a), 120), a.text)
    check("a node of six hours", open_page(b, a), a.text)
    name = b.js("document.getElementById('gpu-0').innerText")
    check("text from outside is text", "<img src=x onerror" in name and b.js("document.querySelectorAll('#cards img').length") == 0, name)
    go(b, "charts")
    b.js("formSet('lines')")
    span(b, "6 h")
    six = f"CHARTS[0].data && CHARTS[0].data.steps * CHARTS[0].data.step_ms >= {LONG_S * 1000}"  # those of an hour may be there still
    check("charts of six hours of eight GPUs", b.until(six + " && CHARTS[0].data.series.length === 8 && CHARTS[0].data.steps > 300 && CHARTS[0].data.series.every(s => s.mean.filter(known).length > 300)"),
          b.js("JSON.stringify(CHARTS.map(c => c.data && [c.data.step_ms, c.data.steps, c.data.series.length]))"))
    check("what was unknown is a gap", b.js("CHARTS[0].data.series.find(s => s.labels.gpu === '7').mean.slice(10, -10).filter(v => v === null).length") > 10)
    for form in ("lines", "heat"):
        b.js(f"formSet('{form}')")
        for what, name, bound in (("hover", "frame_ms", 34), ("redraw", "redraw_ms", 100)):
            gap, gap95, spent = b.js(FRAMES + f"('{what}')")
            print(f"# {form}, {what}, 8 GPUs x 6 h: a frame every {gap:.1f} ms, p95 {gap95:.1f} ms, {spent:.1f} ms of it drawing")
            print(f"RESULT page.{name}{'' if form == 'lines' else '.heat'} {gap:.4g} ms {bound} {'ok' if gap <= bound else 'short'}")
    b.js("formSet('lines')")
    for t in ("dark", "light"):
        theme(b, t)
        b.shot(shots / f"charts-{t}.png", whole=True)
    box = b.js("(r => [r.left, r.top, r.width, r.height])(CHARTS[0].plot.getBoundingClientRect())")
    x, y = box[0] + box[2] * .3, box[1] + box[3] * .5
    b.mouse("mouseMoved", x, y)
    check("hovering gives values of all GPUs", b.until("(t => !t.hidden && t.innerText.includes('GPU 7') && t.innerText.includes('%'))(document.getElementById('tip'))"))
    b.mouse("mousePressed", x, y, button="left", clickCount=1)
    b.mouse("mouseMoved", x + 60, y, button="left")
    b.mouse("mouseReleased", x + 60, y, button="left", clickCount=1)
    check("dragging zooms", b.until("range && range.to - range.from < 6 * 3600e3 / 4 && CHARTS[0].data.step_ms < 30000"), b.js("JSON.stringify([range, CHARTS[0].data.step_ms])"))
    link, zoomed = b.js("location.href"), b.js("[Math.round(range.from), Math.round(range.to)]")
    check("its times stand in the address", f"from={zoomed[0]}&to={zoomed[1]}" in link, link)
    b.open("about:blank")
    b.open(link)
    check("and a link shows the same times", b.until(f"view === 'charts' && range && range.from === {zoomed[0]} && range.to === {zoomed[1]} && CHARTS[0].data && CHARTS[0].data.from_ms <= {zoomed[0]} && CHARTS[0].data.series.length === 8", 30), b.js("location.hash"))
    b.key("Escape")
    check("Escape zooms out", b.until("range === null && !location.hash.includes('from=')"), b.js("location.hash"))
    span(b, "6 h")
    b.until(six)
    b.js("CHARTS[1].plot.focus()")
    b.key("ArrowLeft")
    check("arrow keys give values", b.until("!document.getElementById('tip').hidden && cursor !== null"))
    b.key("ArrowLeft", shift=True)
    check("Shift and an arrow go back in time", b.until("range && range.to < now() - 3600e3"))
    b.key("3", "Digit3")
    check("numbers change the view", b.until("location.hash === '#processes'"))
    b.key("?", "Slash", shift=True)
    check("? tells the keys", b.until("document.getElementById('help').open"))
    b.js("document.getElementById('help').close()")


def fault(b, a):
    check("a replay is shown as it goes", open_page(b, a), a.text)
    card = f"document.getElementById('gpu-{LOST}').innerText"
    check("before the fault nothing is wrong", b.until("document.getElementById('firing').innerText.includes('Nothing is wrong')") and "no data" not in b.js(card), b.js("document.getElementById('firing').innerText"))
    check("throttle reasons have words", "thermal (SW)" in b.js("document.getElementById('gpu-3').innerText"), b.js("document.getElementById('gpu-3').innerText"))
    check("memory is told by process", b.until("document.getElementById('gpu-2').innerText.includes('python')"), b.js("document.getElementById('gpu-2').innerText"))
    check("an alert appears without a reload", b.until("document.getElementById('firing').innerText.includes('GpuXidFatal')", HEALTHY_S + 30), b.js("document.getElementById('firing').innerText"))
    check("it is counted beside its view", b.until("document.getElementById('n-events').textContent >= '1' && !document.getElementById('n-events').hidden"))
    check("a GPU that is not read is unknown, not zero", b.until(f"(t => t.includes('unknown') && /lost|no data/.test(t) && !/\\b0 %/.test(t))({card})"), b.js(card))
    check("its card is marked", b.until(f"document.getElementById('gpu-{LOST}').classList.contains('critical')"))
    theme(b, "light")
    b.shot(shots / "overview-fault.png", whole=True)
    check("that it is lost becomes an alert", b.until("document.getElementById('firing').innerText.includes('GpuLost')", LOST_S + 20))
    picture(b, "agent-overview-light", height=1070)
    go(b, "models")
    check("models with latency and throughput", b.until(f"(t => t.includes('bert') && t.includes('ready') && /\\/s/.test(t) && /(ms|µs)/.test(t))({shown('models')})"), b.js(shown("models")))
    b.shot(shots / "models.png")
    go(b, "events")
    check("events came without a reload", b.until(f"(t => t.includes('79') && t.includes('xid') && t.includes('GPU {LOST}'))({shown('events')})"), b.js(shown("events")))
    check("it is back when it is read again, and the alert resolved", b.until(f"{shown('events')}.includes('resolved')", AFTER_S + LOST_S + 30), b.js(shown("events")))
    b.shot(shots / "events.png", whole=True)
    go(b, "overview")
    check("and its card has values again", b.until(f"!/no data|lost/.test({card})"), b.js(card))
    go(b, "charts")
    span(b, "5 min")
    check("alerts and events stand on the charts' axis", b.until("/GpuXidFatal/.test(document.getElementById('lane').getAttribute('aria-label'))"), b.js("document.getElementById('lane').getAttribute('aria-label')"))
    go(b, "processes")
    check("jobs and processes", b.until(f"(t => t.includes('python') && t.includes('{os.getpid()}'))({shown('processes')})"), b.js(shown("processes")))
    b.shot(shots / "processes.png")


def fleet(b, demo):
    go(b, "fleet")
    check("the fleet shows who answers and who does not", b.until(f"(t => t.includes('no answer') && fl.body.children.length === 3 && fleet.cells.length === 3)({shown('fleet')})", 30), b.js(shown("fleet")))
    check("and what is wrong there", b.until(f"/critical/.test({shown('fleet')})"), b.js(shown("fleet")))
    b.shot(shots / "fleet.png")


# milliseconds of the main thread for an update in which every value of every node is another one
UPDATE = """(() => {
  const spent = [];
  for (let i = 0; i < 21; i++) {
    for (const n of fleet.nodes) if (n && n.node) for (const m in n.node.now) n.node.now[m] = n.node.now[m].map(v => v == null ? v : v * (.97 + .06 * Math.random()));
    const a = performance.now();
    showFleet();
    spent.push(performance.now() - a);
  }
  return spent.sort((x, y) => x - y)[10];
})()"""


def result(name, value, unit, bound):
    print(f"RESULT page.{name} {value:.4g} {unit} {bound} {'ok' if value <= bound else 'short'}")


def wide(b, folder):
    """512 nodes, 4,096 GPUs: sorted, filtered, grouped, by keys and by address; a job over eight of them."""
    os.chdir(folder)
    box = fleet_box.Fleet(STOKER, 512, 64)
    a = agent("--no-gpu", "--no-history", "-f", box.spec("wide.yaml"))
    a.ask("/api/v1/fleet")
    wait(lambda: a.ask("/api/v1/fleet")[1]["asked"] == 0, 60)
    b.open("about:blank")
    b.open(a.url + "#fleet")
    check("a fleet of 512 nodes", b.until("fl.body && fl.body.children.length === 60 && fleet.cells.length === 513", 40), b.js(shown("fleet")))
    result("fleet_first_ms", b.js("fl.shownAt"), "ms", 1000)
    rows = "[...fl.body.children].map(r => r.children[0].innerText + ' ' + r.children[1].innerText)"
    check("the worst come first", b.js(f"(r => r[0].startsWith('lost') && r[1].startsWith('lost') && r[2] === 'critical gpu006' && r[3].startsWith('warning gpu012') && r[17] === 'ok gpu001')({rows})"), b.js(rows))
    check("its alerts stand by rule, with nodes and GPUs", b.js("(t => t.includes('no answer') && t.includes('GpuLost') && t.includes('gpu006 GPU 1') && t.includes('GpuTemperatureHigh') && t.includes('14 nodes'))(fl.alerts.innerText)"), b.js("fl.alerts.innerText"))
    check("a cell a GPU is drawn", b.js(INK + "('#fleet-map')") > 100000)
    result("fleet_update_ms", b.js(UPDATE), "ms", 50)
    polls = "performance.getEntriesByType('resource').filter(e => e.name.includes('/fleet?since') && e.encodedBodySize).map(e => e.encodedBodySize)"
    check("it is asked again and again", b.until(f"{polls}.length > 2", 60))
    result("fleet_poll_kb", b.js(f"Math.max(...{polls})") / 1e3, "kB", 200)
    b.call("HeapProfiler.collectGarbage")
    b.call("Performance.enable")
    heap = {m["name"]: m["value"] for m in b.call("Performance.getMetrics")["metrics"]}["JSHeapUsedSize"]
    result("fleet_heap_mb", heap / 1e6, "MB", 64)
    theme(b, "dark")
    b.size(1280, 900)
    b.shot(shots / "fleet-wide.png", whole=True)
    picture(b, "agent-fleet", 1280, 1010)
    b.size(1440, 900)
    b.key("/", "Slash")
    check("/ goes to the filter", b.until("document.activeElement === fl.q"))
    b.js("fl.q.value = 'rack3 ok'; fl.q.oninput()")
    check("nodes are filtered by words", b.until("fleet.cells.length === 62"), b.js("fleet.cells.length"))
    b.js("fl.q.blur()")
    b.key("g", "KeyG")
    b.key("g", "KeyG")
    b.key("m", "KeyM")
    check("keys group and choose what is shown", b.js("fleet.group === 'rack' && fleet.metric === 'tensor' && fleet.cells.some(k => k.title === 'rack3')"), b.js("location.hash"))
    check("filter, groups and metric stand in the address", b.js("(h => h.includes('q=rack3+ok') && h.includes('group=rack') && h.includes('metric=tensor'))(location.hash)"), b.js("location.hash"))
    link = b.js("location.href")
    b.open("about:blank")
    b.open(link)
    check("and a link shows the same", b.until("fl.q && fl.q.value === 'rack3 ok' && fleet.group === 'rack' && fleet.cells.filter(k => k.n).length === 62", 30), b.js("location.hash"))
    b.js("document.querySelector('#fleet-states [data-k=trouble]').click()")
    check("or by state", b.until("fleet.cells.filter(k => k.n).length === 0 && location.hash.includes('state=trouble')"), b.js("location.hash"))
    b.key("Escape")
    check("Escape shows all again", b.until("fleet.cells.filter(k => k.n).length === 513"))
    b.js("fl.map.focus()")
    b.key("ArrowDown")
    b.key("ArrowDown")
    check("arrow keys go through the map", b.until("fleet.sel && !document.getElementById('tip').hidden && document.getElementById('tip').innerText.length > 5"), b.js("document.getElementById('tip').innerText"))
    b.js("document.querySelector('#fleet-more').click()")
    check("all rows when they are wanted", b.until("fl.body.querySelectorAll('tr:not(.group)').length === 513"))
    go(b, "processes")
    text = shown("processes")
    check("a job across nodes with its slowest rank, its cost and the likely reason", b.until(f"(t => t.includes('64 ranks on 8 nodes') && t.includes('rank 28 on gpu004 GPU 4') && /3[678] % of the job/.test(t) && t.includes('clocks at 1200 MHz where others run at 1980'))({text})", 20), b.js(text))
    check("and a bar a rank", b.until(INK + "('canvas.ranks') > 5000"))
    theme(b, "light")
    b.shot(shots / "ranks.png", whole=True)
    picture(b, "agent-ranks", 1280, 560)
    for width in (1280, 400):
        b.size(width, 900, width < 500)
        for view in ("fleet", "processes"):
            go(b, view)
            over = b.js(OVER)
            check(f"{view} of 512 nodes is not wider than {width}", over <= 0, over)
            b.shot(shots / f"wide-{view}-{width}.png", whole=view == "processes")
    b.size(1440, 900)
    go(b, "fleet")
    box.stop()
    check("nodes that die while they are shown are told", b.until("fleet.nodes.filter(n => n && n.state === 'lost').length > 100", 60), b.js("fleet.head && fleet.head.lost"))
    a.stop()


def topology(b, folder):
    """Of a captured machine, by a live agent."""
    a = agent("--no-history", "--no-gpu", "--root", str(build / "machines/dgx-h100.tar"))
    b.open(a.url)
    check("a node without a GPU says so", b.until("document.getElementById('cards').innerText.includes('No GPU is known')", 30))
    check("and is no demo", b.js("document.getElementById('demo').hidden"))
    go(b, "topology")
    check("the topology is a picture and a matrix", b.until("(i => i && i.complete && i.naturalWidth > 300)(document.querySelector('#picture img')) && document.querySelectorAll('.matrix tr').length > 8", 30), b.js(shown("topology")))
    check("with NCCL's own choice beside ours, GPU by GPU", b.js("(t => t.includes('400 Gb/s at PXB by mlx5_0:1') && t.includes('NCCL by itself') && t.includes('NCCL_IB_HCA'))(document.getElementById('v-topology').innerText)"), b.js(shown("topology")))
    b.shot(shots / "topology.png", whole=True)
    b.size(360, 740, True)
    check("which a phone shows without scrolling sideways, NCCL's long settings too", b.js(OVER) <= 0, b.js(OVER))
    b.size(1440, 900)
    a.stop()


def bare(b, folder):
    """This machine, which may have no GPU: live, with a history."""
    a = agent("--no-gpu", "--history", str(folder / "bare.ring"))
    b.open(a.url)
    check("a machine without a GPU shows what it has", b.until("(t => t.includes('This machine') && t.includes('Memory available') && t.includes('How it is put together'))(document.getElementById('cards').innerText)", 30), b.js("document.getElementById('cards').innerText"))
    check("with figures, none of them unknown", b.until("(t => t.includes('CPU') && t.includes('Memory in use') && !t.includes('unknown'))(document.getElementById('sum').innerText)", 30), b.js("document.getElementById('sum').innerText"))
    used = "(d => d ? d.innerText.split('\\n') : [])([...document.getElementById('sum').children].find(d => d.innerText.startsWith('Disk /')))"
    disk = os.statvfs("/")
    want = [(disk.f_blocks - disk.f_bfree) * disk.f_frsize, disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize]
    is_disk = f"(t => t.length === 3 && {want}.every((w, i) => Math.abs((n => n[1] * 1024 ** ' KMGTP'.indexOf(n[2]))([t[1], ...t[2].split(',')][i].match(/([0-9.]+) (.)iB/)) / w - 1) < .02))({used})"
    if b.js("each('mount.size').some(x => x.labels.mountpoint === '/')"):  # not in every container
        b.open("about:blank")
        b.open(a.url)
        b.until("state.t")  # the stream's first values: what is not among them is unknown from then on
        check("the disk's use is what df calls used, of its size, beside what is left", b.until(is_disk, 20), [b.js(used), want])
    go(b, "charts")
    check("charts only where there is data", b.until("CHARTS.some(c => c.metric === 'host.cpu.util' && !c.box.hidden) && CHARTS.filter(c => c.metric.startsWith('gpu.')).every(c => c.box.hidden)", 30))
    go(b, "overview")
    if "--docs" in sys.argv:
        b.until("hostLines.size > 3 && [...hostLines.values()].every(v => v.filter(known).length > 20)", 90)
    b.shot(shots / "bare.png", whole=True)
    picture(b, "agent-bare", height=1000)
    b.js("document.getElementById('to-demo').click()")
    check("one button shows the demo", b.until("location.pathname === '/demo/' && document.querySelectorAll('#cards .card').length === 8 && document.getElementById('status').className === 'live' && !document.getElementById('story').hidden", 40), b.js("document.body.innerText"))
    check("marked as one", b.until("(t => t.includes('DEMO') && t.includes('back to this machine'))(document.getElementById('demo').innerText) && document.title.startsWith('DEMO')"))
    go(b, "processes")
    check("with a job and its ranks", b.until("document.querySelectorAll('#ranks canvas').length === 1", 20), b.js(shown("processes")))
    b.js("document.getElementById('demo-back').click()")
    check("and one leads back", b.until("location.pathname === '/' && document.getElementById('to-demo') && document.getElementById('demo').hidden", 30))
    a.stop()


def few(b, folder):
    """Two GPUs of a fake driver: lines, where eight are rows of shades."""
    doc = json.loads((top / "tests/fakenvml/dgx-h100.json").read_text())
    (folder / "two.json").write_text(json.dumps({**doc, "gpus": doc["gpus"][:2]}))
    a = agent("--history", str(folder / "two.ring"), "--history-size", "8MiB", env=dict(FAKE_NVML_JSON=str(folder / "two.json"), STOKER_NVML_LIB=str(build / "tests/libfakenvml.so")))
    b.open(a.url)
    b.js("localStorage.clear()")
    b.open("about:blank")
    check("two GPUs have a card each", open_page(b, a, 2), a.text)
    go(b, "charts")
    check("and are lines at first", b.until("CHARTS.some(c => c.metric === 'gpu.temp' && c.data && c.data.series.length === 2) && formNow() === 'lines' && form === '' && document.querySelector('#forms [aria-pressed=true]').textContent === 'lines'"), b.js("[formNow(), form, gpuList().length].join()"))
    check("all of them drawn, however late they came", b.until("shown.size === 2 && document.querySelectorAll('.key[aria-pressed=false]').length === 0"), b.js("[...shown].join()"))
    b.shot(shots / "two.png", whole=True)
    a.stop()


class App(http.server.BaseHTTPRequestHandler):
    """An application with a figure of its own."""

    def do_GET(self):
        body = b"# TYPE app_queue gauge\napp_queue 3\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Up:
    """`stoker up` of a tiny model, with an application in the spec."""

    def __init__(self, folder):
        self.app = http.server.ThreadingHTTPServer(("127.0.0.1", 0), App)
        threading.Thread(target=self.app.serve_forever, daemon=True).start()
        (folder / "up.yaml").write_text(f"schema: stoker.spec/1\nagent: {{scrape: ['http://127.0.0.1:{self.app.server_port}/metrics']}}\n")
        self.p = subprocess.Popen([STOKER, "up", "--free-port", "--history", str(folder / "up.ring"), "--history-size", "64MiB", "-f", str(folder / "up.yaml"), "-m", str(folder / "bert")],
                                  stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=dict(os.environ, STOKER_NVML_LIB="/nonexistent"))
        serve_box.living.append(self.p)
        self.text, self.end = "", time.monotonic() + 60
        while "Ctrl-C stops it" not in self.text and time.monotonic() < self.end:
            line = self.p.stderr.readline()
            self.text += line
            if not line:
                break
        threading.Thread(target=self.p.stderr.read, daemon=True).start()
        self.url, self.models = (re.search(row + r"\s+(http://127\.0\.0\.1:\d+)", self.text)[1] + "/" for row in ("page", "models"))

    def use(self):
        """Requests, one a tenth of a second, until stop()."""
        def go():
            while self.p.poll() is None:
                try:
                    urllib.request.urlopen(self.models + "embed", b'{"inputs":"hello world"}', timeout=5).read()
                except OSError:
                    pass
                time.sleep(0.1)
        threading.Thread(target=go, daemon=True).start()

    def stop(self):
        self.p.terminate()
        self.p.wait(60)
        self.app.shutdown()


def model_page(b, up):
    """The model server's page: what people try first, and the way to the node's page and back."""
    b.js("document.getElementById('try').click()")
    here = "location.port === '%s'" % up.models.rstrip("/").rpartition(":")[2]
    check("a link leads to the model server's page", b.until(f"{here} && !document.getElementById('alike-part').hidden", 30), b.js("document.body.innerText"))
    b.js("document.getElementById('alike-a').value = document.getElementById('alike-b').value = 'the same words'; document.querySelector('#alike button').click()")
    same = b.until("(t => /cosine by bert/.test(t) && parseFloat(t))(document.getElementById('alike-out').innerText)")
    check("two equal texts are alike", same and same > 0.999, b.js("document.getElementById('alike-out').innerText"))
    b.js("document.getElementById('alike-b').value = 'other'; document.querySelector('#alike button').click()")
    check("and two others less", b.until("(v => v < .999 && v >= -1)(parseFloat(document.getElementById('alike-out').innerText))"), b.js("document.getElementById('alike-out').innerText"))
    b.js("document.getElementById('rank-docs').value = 'one\\n\\ntwo <b>\\nWhy is training slow?'; document.querySelector('#rank button').click()")
    ranked = b.until("(l => l.length === 3 && l.map(x => x.innerText))([...document.querySelectorAll('#rank-out li')])") or []
    scores = [float(r.split()[0]) for r in ranked]
    check("a question ranks its answers, the best first, as text", len(scores) == 3 and scores == sorted(scores, reverse=True) and "Why is training slow?" in ranked[0] and any("<b>" in r for r in ranked), ranked)
    for t in ("light", "dark"):
        b.js(f"themeSet('{t}')")
        check(f"its text has the contrast of WCAG AA, {t}", not b.js(CONTRAST), b.js(CONTRAST))
        b.shot(shots / f"serve-{t}.png", whole=True)
    picture(b, "serve-page", 1280, 900)
    check("and has the colours of the node's page", b.js("getComputedStyle(document.documentElement).getPropertyValue('--accent').trim()") == "#6db3ff")
    b.size(390, 844, True)
    over = b.js(OVER)
    check("it is not wider than a phone", over <= 0, over)
    b.size(1440, 900)
    b.js("document.getElementById('node').click()")
    check("one link leads back to the node's page", b.until("document.getElementById('try') && location.port === '%s'" % up.url.rstrip("/").rpartition(":")[2], 30), b.js("location.href"))
    b.open("about:blank")
    b.js("0")
    b.open(up.models)
    check("which it remembers without being told", b.until(f"document.getElementById('node').href === '{up.url}'"), b.js("document.getElementById('node').href"))
    b.js("localStorage.clear()")
    b.open("about:blank")
    b.open(up.models)
    check("and else it is the agent's usual address on this host", b.until("document.getElementById('node').href === 'http://127.0.0.1:8090/'"), b.js("document.getElementById('node').href"))


def served(b, folder):
    """`stoker up` on a machine without a GPU, with an application and a model."""
    if not (folder / "bert").exists():
        shutil.copytree(top / "tests/fixtures/models/bert", folder / "bert")
        shutil.copy(top / "tests/fixtures/tokenizers/tiny-bert.json", folder / "bert/tokenizer.json")
    up = Up(folder)
    up.use()
    b.open(up.url)
    limits = "document.getElementById('limits').innerText"
    check("in the first minute what limits the node is being measured", b.until(f"{limits}.includes('measuring')"), b.js(limits))
    check("a model served has a rate of requests", b.until("/ready · [\\d.]+ requests\\/s · \\d+ so far/.test((document.getElementById('hm-bert') || {}).textContent)", 60), b.js("(document.getElementById('hm-bert') || {}).textContent"))
    go(b, "charts")
    check("the picker offers an application's metric", b.until("state.every.app_queue && [...document.getElementById('metrics').children].some(o => o.value === 'app_queue')", 30))
    b.js("document.getElementById('pick').value = 'app_queue'; document.getElementById('pick').onchange()")
    check("and its chart has values", b.until("(c => c.metric === 'app_queue' && !c.fault && c.data && c.data.series.length === 1 && c.data.series[0].mean.some(v => v === 3))(CHARTS[0])"), b.js("JSON.stringify([CHARTS[0].metric, CHARTS[0].fault])"))
    b.js("zoomTo(now() - 7200e3, now() - 3600e3)")
    check("before it ran it is unknown, which is no error", b.until("CHARTS[0].data && !CHARTS[0].data.series.length && !CHARTS[0].fault"), b.js("CHARTS[0].fault"))
    b.js("zoomOut()")
    go(b, "overview")
    b.until("document.getElementById('try') && hostLines.size > 3 && [...hostLines.values()].some(v => v.filter(known).length > 10)", 30)
    b.shot(shots / "served.png", whole=True)
    picture(b, "agent-models", height=1000)
    model_page(b, up)
    up.stop()


def token(b, folder):
    (folder / "token").write_text("a-secret-for-the-page\n")
    a = agent("--demo", "--token-file", str(folder / "token"))
    b.open(a.url)
    check("an agent with a token asks for it", b.until("document.getElementById('ask').open"))
    b.js("document.getElementById('token').value = 'a-secret-for-the-page'; document.querySelector('#ask form button').click()")
    check("and is shown then", b.until("document.querySelectorAll('#cards .card').length === 8", 30))
    b.js("sessionStorage.clear()")
    a.stop()


def everywhere(b, demo):
    missing, wide, contrast = [], [], []
    for width, phone in ((1440, False), (390, True), (768, True), (360, True)):
        b.size(width, 900, phone)
        for view in VIEWS:
            go(b, view)
            if view == "topology":
                b.until("document.querySelectorAll('.matrix tr').length > 8")
            time.sleep(0.6)
            if not b.js("(e => !e.hidden && e.getBoundingClientRect().top < innerHeight && e.innerText.includes('DEMO'))(document.getElementById('demo'))"):
                missing.append(f"{view} at {width}")
            over = b.js(OVER)
            if over > 0:
                wide.append(f"{view} at {width}: {over} pixels")
            if width in (768, 360):  # no shot, no contrast: the same views as at 390
                over = b.js(f"{WORDS} && {OVER}")
                if over > 0:
                    wide.append(f"{view} at {width} with long words: {over} pixels")
                continue
            if phone:
                b.shot(shots / f"phone-{view}.png", whole=view == "overview")
            for t in ("light", "dark"):
                theme(b, t)
                contrast += [f"{view} {t}: {c}" for c in b.js(CONTRAST)]
    check("every view is marked as a demo", not missing, "\n".join(missing))
    open_page(b, demo)  # with its own words again
    check("no view is wider than a phone or a screen, whatever the words", not wide, "\n".join(wide))
    check("text has the contrast of WCAG AA, light and dark", not contrast, "\n".join(contrast))
    unnamed = b.js("[...document.querySelectorAll('button, a, canvas[role=img], [tabindex=\"0\"]')].filter(e => e.checkVisibility() && !(e.innerText || '').trim() && !e.getAttribute('aria-label')).map(e => e.outerHTML.slice(0, 80))")
    check("everything that can be used has a name", not unnamed, unnamed)
    go(b, "overview")
    theme(b, "dark")
    picture(b, "agent-phone", 390, 844, True)
    b.size(1440, 900)


def left(b, demo):
    """Pages that are left, by a link or the browser's keys, hold none of its few connections."""
    live = "document.getElementById('status').className === 'live'"
    late = []
    for i in range(12):
        b.open(f"{demo.url}?{i}")
        if not b.until(live, 10):
            late.append(i)
    check("a page is live however many were left before", not late, late)
    b.js("history.back()")
    check("the page before is live again on the way back", b.until(f"location.search === '?10' && {live}", 20), b.js("location.search + document.getElementById('status').textContent"))
    b.open(demo.url)


def broken(b, demo):
    """An agent that stands still, and one that is gone."""
    go(b, "overview")
    b.until("document.getElementById('status').className === 'live'", 40) # it has to have heard of it
    demo.p.send_signal(signal.SIGSTOP)
    check("an agent that stands still is told", b.until("/no news/.test(document.getElementById('status').textContent)", 30))
    demo.p.send_signal(signal.SIGCONT)
    check("and when it goes on", b.until("document.getElementById('status').className === 'live'", 30))
    port = demo.port
    demo.stop()
    check("a lost agent is told", b.until("document.getElementById('status').className === 'lost'"))
    again = agent("--demo", ports=(port, 0))
    check("and found again", b.until("document.getElementById('status').className === 'live'", 30))
    return again


def policy(b, demo):
    """Last, since what it tries is an error on the console."""
    with urllib.request.urlopen(demo.url) as r:
        csp = r.headers.get("Content-Security-Policy", "")
    check("the page's policy allows nobody else", "default-src 'none'" in csp and "http" not in csp.replace("data:", ""), csp)
    said = b.js("new Promise(done => { addEventListener('securitypolicyviolation', e => done('refused ' + e.violatedDirective)); fetch('http://127.0.0.2:1/').catch(() => {}); setTimeout(() => done('went'), 4000); })")
    check("and the browser keeps to it", said.startswith("refused connect-src"), said)


def run(b, folder):
    shots.mkdir(parents=True, exist_ok=True)
    recorded = Fault(folder)
    subprocess.run([build / "tests/fake_node", str(LONG_S), folder / "long.rec"], check=True)
    b.size(1440, 900)
    lasting = agent("--replay", str(folder / "long.rec"), "--speed", "max")
    long_charts(b, lasting)
    lasting.stop()
    topology(b, folder)
    bare(b, folder)
    few(b, folder)
    served(b, folder)
    token(b, folder)
    wide(b, folder)
    faulty = recorded.play()
    fault(b, faulty)
    demo = agent("--demo", "--peer", faulty.url, "--peer", "http://127.0.0.1:1")
    overview(b, demo)
    charts(b, demo)
    fleet(b, demo)
    everywhere(b, demo)
    left(b, demo)
    demo = broken(b, demo)
    asked = {u for u in b.urls if not u.startswith(("http://127.0.0.1:", "data:", "blob:", "about:"))}
    check("nobody but agents was asked", not asked, "\n".join(sorted(asked)))
    check("the console has no error", not b.faults, "\n".join(b.faults))
    policy(b, demo)
    if "--keep" in sys.argv:
        print("# they run at", demo.url, faulty.url, "until Enter")
        input()
    demo.stop()
    faulty.stop()


def main():
    path = browser.find()
    if not path:
        print("1..0 # SKIP no Chromium is installed (Debian: chromium), or CHROMIUM names none")
        return 0
    folder = pathlib.Path(tempfile.mkdtemp(prefix="stoker-page-test-"))
    with browser.Browser(path) as b:
        try:
            run(b, folder)
        except Exception as e:  # noqa: BLE001: a test that breaks is a test that fails
            check("the test ran to its end", False, traceback.format_exc() + "\n" + "\n".join(b.faults) + str(e))
    shutil.rmtree(folder, ignore_errors=True)
    print(f"1..{count}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
