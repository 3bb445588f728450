#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The agent's page in headless Chromium, against fake_agent, as TAP.

    tests/page/page.py BUILD [--keep]

Screenshots go to BUILD/page/.  --keep leaves the fake running, to look at.
"""
import pathlib
import signal
import subprocess
import sys
import time
import traceback
import urllib.request

import browser

build = pathlib.Path(sys.argv[1])
top = pathlib.Path(__file__).resolve().parent.parent.parent
shots = build / "page"
count = failed = 0
VIEWS = ["overview", "charts", "processes", "events", "models", "topology", "fleet"]

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


class Fake:
    def __init__(self, *args, port=0):
        self.child = subprocess.Popen([build / "tests" / "fake_agent", "--port", str(port), *args], stdout=subprocess.PIPE, text=True)
        self.url = self.child.stdout.readline().strip()

    def press(self, what):
        urllib.request.urlopen(self.url + "fake/" + what).read()

    def end(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            self.child.wait(20)


def inventory():
    path = build / "page" / "inventory.json"
    made = subprocess.run([build / "stoker", "detect", "--root", build / "machines" / "dgx-h100.tar", "--json"], stdout=path.open("w"), check=False)
    return ["--inventory", str(path)] if made.returncode == 0 else []


def go(b, view):
    b.js(f"location.hash = '{view}'; scrollTo(0, 0)")
    b.until(f"document.getElementById('v-{view}').classList.contains('on')")


def theme(b, name):
    b.js(f"themeSet('{name}')")


def overview(b, fake):
    b.until("document.querySelectorAll('.card').length === 8 && document.getElementById('status').className === 'live'")
    check("eight GPUs have a card each", b.js("document.querySelectorAll('#cards .card').length") == 8)
    check("the page is live", b.js("document.getElementById('status').textContent") == "live")
    text = b.js("document.getElementById('gpu-0').innerText")
    wanted = ["Utilisation", "Tensor activity", "Memory", "Temperature", "Power", "SM MHz", "ECC", "NVLink", "PCIe", "python3", "job 88121"]
    check("a card has utilisation, memory by process, clocks, ECC and links", all(w in text for w in wanted), text)
    check("throttle reasons have words", "thermal (SW)" in b.js("document.getElementById('gpu-3').innerText"))
    check("sparklines are drawn", b.js(INK + "('#gpu-0 canvas')") > 200)
    before = b.js("document.getElementById('gpu-6').innerText")
    check("values change by themselves", b.until(f"document.getElementById('gpu-6').innerText !== {before!r}" if "'" not in before else "true"))
    fake.press("lose")
    check("a GPU that is not read is unknown, not zero", b.until("(t => t.includes('unknown') && t.includes('no data') && !/\\b0 %/.test(t))(document.getElementById('gpu-5').innerText)"),
          b.js("document.getElementById('gpu-5').innerText"))
    b.shot(shots / "overview-lost.png", whole=True)
    fake.press("find")
    check("and is back when it is read again", b.until("!document.getElementById('gpu-5').innerText.includes('no data')"))
    for t in ("light", "dark"):
        theme(b, t)
        b.shot(shots / f"overview-{t}.png", whole=True)


def alerts(b, fake):
    fake.press("alert")
    check("an alert appears without a reload", b.until("document.getElementById('firing').innerText.includes('GpuTemperatureHigh')"))
    check("it is counted beside its view", b.js("document.getElementById('n-events').textContent") == "2")
    fake.press("xid")
    go(b, "events")
    check("an event appears without a reload", b.until("document.getElementById('v-events').innerText.includes('contained ECC error')"))
    b.shot(shots / "events.png", whole=True)
    fake.press("resolve")
    check("a resolved alert says so", b.until("document.getElementById('v-events').innerText.includes('resolved')"))


def charts(b):
    go(b, "charts")
    b.js("[...document.querySelectorAll('#spans button')].find(x => x.textContent === '6 h').click()")
    check("charts of six hours of eight GPUs", b.until("CHARTS[0].data && CHARTS[0].data.series.length === 8 && CHARTS[0].data.steps > 300 && CHARTS.every(c => c.data)"))
    check("curves are drawn", all(b.js(INK + f"('#charts figure:nth-child({i}) canvas')") > 1500 for i in (1, 2, 5)))
    check("alerts and events stand on the same axis", b.js("document.getElementById('lane').getAttribute('aria-label')").count(";") >= 3)
    print("# ms to draw all charts:", b.js("(() => { const t = performance.now(); for (let i = 0; i < 10; i++) drawCharts(); return ((performance.now() - t) / 10).toFixed(1); })()"))
    for t in ("dark", "light"):
        theme(b, t)
        b.shot(shots / f"charts-{t}.png", whole=True)
    box = b.js("(r => [r.left, r.top, r.width, r.height])(CHARTS[0].plot.getBoundingClientRect())")
    x, y = box[0] + box[2] * .5, box[1] + box[3] * .5
    b.mouse("mouseMoved", x, y)
    check("hovering gives values of all GPUs", b.until("(t => !t.hidden && t.innerText.includes('GPU 7') && t.innerText.includes('%'))(document.getElementById('tip'))"))
    b.shot(shots / "charts-hover.png")
    b.mouse("mousePressed", x, y, button="left", clickCount=1)
    b.mouse("mouseMoved", x + 60, y, button="left")
    b.mouse("mouseReleased", x + 60, y, button="left", clickCount=1)
    check("dragging zooms", b.until("range && range.to - range.from < 6 * 3600e3 / 4 && CHARTS[0].data.step_ms < 30000"), b.js("JSON.stringify([range, CHARTS[0].data.step_ms])"))
    b.key("Escape")
    check("Escape zooms out", b.until("range === null"))
    b.js("CHARTS[1].plot.focus()")
    b.key("ArrowLeft")
    check("arrow keys give values", b.until("!document.getElementById('tip').hidden && cursor !== null"))
    b.key("2", "Digit2")
    b.key("3", "Digit3")
    check("numbers change the view", b.until("location.hash === '#processes'"))
    go(b, "charts")
    b.js("[...document.querySelectorAll('#spans button')].find(x => x.textContent === '5 min').click()")
    first = b.until("CHARTS[0].data && CHARTS[0].data.step_ms === 1000 && CHARTS[0].data.from_ms + CHARTS[0].data.steps * 1000")
    check("charts go on by themselves", b.until(f"CHARTS[0].data.from_ms + CHARTS[0].data.steps * 1000 > {first} + 2500"))
    check("a chart that goes on has no hole", b.js("CHARTS[0].data.series[0].mean.slice(5, -4).every(v => v !== null)"))


def others(b):
    go(b, "processes")
    check("jobs and processes", b.until("(t => t.includes('88121') && t.includes('mira') && t.includes('stoker-serve.service'))(document.getElementById('v-processes').innerText)"))
    b.shot(shots / "processes.png")
    go(b, "models")
    check("models with latency and throughput", b.until("(t => t.includes('all-MiniLM-L6-v2') && t.includes('212/s') && t.includes(' ms') && t.includes('ready'))(document.getElementById('v-models').innerText)"),
          b.js("document.getElementById('v-models').innerText"))
    b.shot(shots / "models.png")
    go(b, "topology")
    check("the topology is a picture and a matrix", b.until("(i => i && i.complete && i.naturalWidth > 300)(document.querySelector('#picture img')) && document.querySelectorAll('.matrix tr').length > 8"))
    b.shot(shots / "topology.png", whole=True)
    go(b, "fleet")
    check("the fleet shows who answers and who does not", b.until("(t => t.includes('no answer') && document.querySelectorAll('#nodes .card').length === 3 && document.querySelectorAll('#nodes .cells').length === 2)(document.getElementById('v-fleet').innerText)"),
          b.js("document.getElementById('v-fleet').innerText"))
    b.shot(shots / "fleet.png")


def everywhere(b):
    missing, wide, contrast = [], [], []
    for width, phone in ((1440, False), (390, True)):
        b.size(width, 900, phone)
        for view in VIEWS:
            go(b, view)
            time.sleep(0.6)
            shown = "(e => !e.hidden && e.getBoundingClientRect().top < innerHeight && e.innerText.includes('DEMO'))(document.getElementById('demo'))"
            if not b.js(shown):
                missing.append(f"{view} at {width}")
            over = b.js("document.scrollingElement.scrollWidth - innerWidth")
            if over > 0:
                wide.append(f"{view} at {width}: {over} pixels")
            if phone:
                b.shot(shots / f"phone-{view}.png", whole=view == "overview")
            for t in ("light", "dark"):
                theme(b, t)
                contrast += [f"{view} {t}: {c}" for c in b.js(CONTRAST)]
    check("every view is marked as a demo", not missing, "\n".join(missing))
    check("no view is wider than a phone or a screen", not wide, "\n".join(wide))
    check("text has the contrast of WCAG AA, light and dark", not contrast, "\n".join(contrast))
    unnamed = b.js("[...document.querySelectorAll('button, a, canvas[role=img], [tabindex=\"0\"]')].filter(e => e.checkVisibility() && !(e.innerText || '').trim() && !e.getAttribute('aria-label')).map(e => e.outerHTML.slice(0, 80))")
    check("everything that can be used has a name", not unnamed, unnamed)


def run(b):
    shots.mkdir(parents=True, exist_ok=True)
    other = Fake()
    fake = Fake("--demo", *inventory(), "--fleet", other.url, "--fleet", "http://127.0.0.1:1")
    try:
        b.size(1440, 900)
        b.open(fake.url)
        overview(b, fake)
        alerts(b, fake)
        charts(b)
        others(b)
        everywhere(b)
        b.size(1440, 900)
        go(b, "overview")
        port = int(fake.url.rstrip("/").rsplit(":", 1)[1])
        fake.end()
        check("a lost agent is told", b.until("document.getElementById('status').className === 'lost'"))
        fake = Fake("--demo", port=port)
        check("and found again", b.until("document.getElementById('status').className === 'live'", 30))
        check("nobody but the agent was asked", all(u.startswith((fake.url, "data:", "blob:", "about:")) for u in b.urls),
              "\n".join(sorted({u for u in b.urls if not u.startswith(fake.url)})))
        check("the console has no error", not b.faults, "\n".join(b.faults))
        if "--keep" in sys.argv:
            print("# the fake runs at", fake.url, "until Enter")
            input()
    finally:
        fake.end()
        other.end()


def main():
    path = browser.find()
    if not path:
        print("1..0 # SKIP no Chromium is installed (Debian: chromium), or CHROMIUM names none")
        return 0
    with browser.Browser(path) as b:
        try:
            run(b)
        except Exception as e:  # noqa: BLE001: a test that breaks is a test that fails
            check("the test ran to its end", False, traceback.format_exc() + "\n" + "\n".join(b.faults) + str(e))
    print(f"1..{count}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
