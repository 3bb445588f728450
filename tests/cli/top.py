# SPDX-License-Identifier: MIT
"""TAP of `stoker top`: top.py STOKER FAKENVML FOLDER-OF-ITS-DOCUMENTS.  Standard library alone."""
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import termios

import agent_box
import serve_box
from agent_box import wait
from serve_test import STOKER, check, done, part, run, skip
from terminal import Terminal

FAKE, DOCS = sys.argv[2], sys.argv[3]
COLOURED = {"NO_COLOR": ""}


def env(**more):
    return dict(os.environ, **more)


def agent(*args, **more):
    return agent_box.Agent(STOKER, "--no-history", *args, **more)


def once():
    p = run("top", "--demo", "--once", env=env(COLUMNS="80"))
    lines = p.stdout.splitlines()
    check("--once --demo: eight GPUs as text, marked as a demo", p.returncode == 0 and "DEMO" in lines[0] and
          all(f"GPU {i}  NVIDIA H200" in p.stdout for i in range(8)), p.stdout, p.stderr)
    check("no line is wider than COLUMNS, no escape sequence", max(map(len, lines)) <= 80 and "\x1b" not in p.stdout)
    check("tensor activity and throttle reasons stand there", "tensor [" in p.stdout and re.search("throttle (none|idle|power cap)", p.stdout))
    wide = run("top", "--demo", "--once", env=env(COLUMNS="160")).stdout
    check("COLUMNS gives the width", 100 < max(map(len, wide.splitlines())) <= 160)
    p = run("top", "--demo", "--once", env={k: v for k, v in env(LC_ALL="C").items() if k != "COLUMNS"})
    check("without a locale and COLUMNS: ASCII, 80 columns", p.stdout.isascii() and 60 < max(map(len, p.stdout.splitlines())) <= 80, p.stdout)
    p = run("agent", "--demo", "--once", "--record", "demo.rec")
    p = run("top", "--replay", "demo.rec", "--speed", "max", "--once")
    check("--replay: a recording", p.returncode == 0 and "replay: demo.rec" in p.stdout and "NVIDIA H200" in p.stdout, p.stdout, p.stderr)
    p = run("top", "--sample", "--once", env=env(STOKER_NVML_LIB="/nonexistent/none.so"))
    check("a machine without a driver: why, and the host", p.returncode == 0 and "no GPU is known here: no driver" in p.stdout and
          "mem -/-" not in p.stdout and "cpu -" not in p.stdout, p.stdout, p.stderr)


def usage():
    p = run("top", "--demo", stdin=subprocess.DEVNULL)
    check("no terminal: exit 2 and what to do", p.returncode == 2 and "not a terminal" in p.stderr and "--once" in p.stderr, p.stderr)
    p = run("top", "--demo", "--host", "x", "--once")
    check("two sources: exit 2", p.returncode == 2 and "alternatives" in p.stderr, p.stderr)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        p = run("top", "--once", "--host", f"127.0.0.1:{s.getsockname()[1]}")
    check("--host where nobody is: exit 1, one message", p.returncode == 1 and p.stderr.startswith("stoker: ") and not p.stdout, p.stderr)
    p = run("top", "--once", "--replay", "none.rec")
    check("no such recording: an error", p.returncode != 0 and "none.rec" in p.stderr, p.stderr)


def over_http():
    a = agent("--demo")
    p = run("top", "--once", "--host", f"127.0.0.1:{a.port}", env=env(COLUMNS="150"))
    check("--host: a real agent's screen", p.returncode == 0 and "DEMO" in p.stdout and "GPU 7  NVIDIA H200" in p.stdout and
          f"agent 127.0.0.1:{a.port}" in p.stdout, p.stdout, p.stderr)
    check("with figures of /series too", "SM 1" in p.stdout or "mem 3201MHz" in p.stdout, p.stdout)
    p = run("top", "--once", "--host", f"http://127.0.0.1:{a.port}/")
    check("--host takes an address", p.returncode == 0, p.stderr)
    a.stop()
    with open("token", "w") as f:
        f.write("sesame\n")
    a = agent("--demo", "--token-file", "token")
    host = f"127.0.0.1:{a.port}"
    p = run("top", "--once", "--host", host)
    check("a token is asked for: said", p.returncode == 2 and "asks for its token" in p.stderr and "--token-file" in p.stderr, p.stderr)
    p = run("top", "--once", "--host", host, "--token-file", "token")
    check("and given", p.returncode == 0 and "NVIDIA H200" in p.stdout, p.stderr)
    a.stop()
    s = serve_box.living
    with open("index.html", "w") as f:
        f.write("hello")
    web = subprocess.Popen([sys.executable, "-m", "http.server", "0", "--bind", "127.0.0.1"], stderr=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                           env=env(PYTHONUNBUFFERED="1"))
    s.append(web)
    port = web.stdout.readline().split(" port ")[1].split()[0]
    p = run("top", "--once", "--host", f"127.0.0.1:{port}")
    check("another server: it is no agent", p.returncode != 0 and "not a stoker agent" in p.stderr, p.stderr)
    web.kill()
    web.wait()


def top(*args, **more):
    return Terminal([STOKER, "top", *args], **more)



def screen():
    t = top("--demo")
    check("80x24: the first screen", t.wait("  7 [") and t.wait("utilisation "), t.screen.text())
    text = t.screen.text()
    lines = text.split("\n")
    check("head, list, plots, table, keys", "DEMO" in lines[0] and lines[1].startswith("cpu ") and any("throttle" in l for l in lines[2:5]) and
          "PID USER" in text and lines[23].startswith("q quit"), text)
    clock = lines[0][-8:]
    check("it goes on by itself", t.wait(lambda s: s.split("\n")[0][-8:] != clock), t.screen.text())
    t.type("?")
    check("? lists the keys", t.wait("any key goes back") and "sort by pid" in t.screen.text(), t.screen.text())
    t.type("x")
    check("a key goes back", t.wait("  7 ["), t.screen.text())
    t.type("3")
    check("3 shows GPU 3 alone", t.wait("GPU 3  NVIDIA H200") and t.wait(lambda s: "  7 [" not in s and "GPU 3" in s.split("utilisation")[-1]), t.screen.text())
    t.type("\x1b")
    check("Esc shows all", t.wait("  7 ["), t.screen.text())
    t.type("g")
    check("g takes the plots away", t.wait(lambda s: "% mean," not in s and "  7 [" in s), t.screen.text())
    t.type("g")
    t.type("k")
    check("k ends nothing of a recording", t.wait("only processes of this machine"), t.screen.text())
    t.type("p")
    check("p pauses", t.wait("PAUSED"), t.screen.text())
    clock = t.screen.text().split("\n")[0]
    t.read(2.5)
    check("the picture stands still then", t.screen.text().split("\n")[0] == clock, clock, t.screen.text())
    t.type("p")
    t.type("a")
    check("a lists alerts", t.wait("alerts: "), t.screen.text())
    t.type("a")
    t.resize(120, 40)
    check("a larger terminal is used", t.wait("GPU 7  NVIDIA H200") and t.wait(lambda s: s.split("\n")[39].startswith("q quit")), t.screen.text())
    t.resize(40, 12)
    check("a small one is told", t.wait("40x12 is too small"), t.screen.text())
    t.resize(80, 24)
    check("and back", t.wait("  7 [") and t.wait("q quit"), t.screen.text())
    check("ncurses sent nothing that is unknown", not t.screen.strange, t.screen.strange)
    t.type("q")
    check("q ends it, the terminal is as before", t.end() == 0 and t.restored and t.raw.rstrip().endswith(b"\x1b>"), t.status, t.raw[-60:])


def ends():
    for name, how in (("SIGTERM", lambda t: t.signal(signal.SIGTERM)), ("Ctrl-C", lambda t: t.type("\x03")), ("SIGHUP", lambda t: t.signal(signal.SIGHUP))):
        t = top("--demo")
        t.wait("  7 [")
        how(t)
        check(f"{name} ends it, the terminal is as before", t.end() == 0 and t.restored, t.status)
    t = top("--demo")
    t.wait("  7 [")
    t.signal(signal.SIGTSTP)
    check("Ctrl-Z stops it, with the terminal given back", wait(lambda: os.waitpid(t.pid, os.WNOHANG | os.WUNTRACED)[0] == t.pid))
    t.read(0.2)
    check("in its first modes", termios.tcgetattr(t.fd)[:4] == t.before)
    t.screen.resize(80, 24)
    t.signal(signal.SIGCONT)
    check("fg draws again", t.wait("  7 ["), t.screen.text())
    t.type("q")
    check("and it ends", t.end() == 0 and t.restored)


def kinds():
    t = top("--demo", term="xterm-256color", env=COLOURED)
    check("colours on a terminal that has them", t.wait("  7 [") and b"\x1b[32m" in t.raw and not t.screen.strange, t.raw[:300], t.screen.strange)
    t.type("q")
    t.end()
    t = top("--demo", "--colour", "never", term="xterm-256color", env=COLOURED)
    check("--colour never: none", t.wait("  7 [") and b"\x1b[32m" not in t.raw)
    t.type("q")
    t.end()
    t = top("--demo", env={"LC_ALL": "C"})
    check("without UTF-8: ASCII alone", t.wait("utilisation ") and t.wait("  7 [") and t.raw.isascii(), t.screen.text())
    t.type("q")
    t.end()
    t = top("--demo", term="no-such-terminal")
    check("an unknown terminal: a message, not a screen", t.end() == 1 and b"cannot draw on terminal 'no-such-terminal'" in t.raw, t.raw)


def lost():
    a = agent("--demo")
    port = a.port
    t = top("--host", f"127.0.0.1:{port}")
    check("on a remote agent", t.wait("  7 ["), t.screen.text())
    a.stop(signal.SIGKILL)
    check("its end is told, the last picture stays with its age", t.wait("no connection, trying again") and t.wait("OLD ") and "  7 [" in t.screen.text(),
          t.screen.text())
    a = agent("--demo", ports=(port, 0))
    check("it is found again", a.port == port and t.wait(lambda s: "OLD" not in s and "q quit" in s and "  7 [" in s), t.screen.text(), a.text)
    t.type("q")
    check("and ends", t.end() == 0)
    a.stop()
    t = top("--host", f"127.0.0.1:{port}")
    check("an agent that is not there yet is waited for", t.wait("trying again; q quits"), t.screen.text())
    t.type("q")
    check("and q ends that", t.end() == 0 and t.restored)


def processes():
    if not os.path.exists(FAKE):
        skip("processes of a fake driver", "libfakenvml.so is not built")
        return
    child = subprocess.Popen(["sleep", "600"])
    serve_box.living.append(child)
    with open("live.json", "w") as f:
        json.dump({"gpus": [{"index": 0, "utilization": [50, 10], "fan": 30, "processes": [{"pid": child.pid, "memory": 3 << 30, "sm": 40}]}]}, f)
    driver = dict(FAKE_NVML_JSON=f"{DOCS}/dgx-h100.json", FAKE_NVML_LIVE=os.path.abspath("live.json"), STOKER_NVML_LIB=FAKE)
    p = run("top", "--sample", "--once", env=env(COLUMNS="140", **driver))
    row = [l for l in p.stdout.splitlines() if l.split()[:1] == [str(child.pid)]]
    check("a process: type, use, memory, CPU, host memory, command", len(row) == 1 and row[0].split()[2:7] == ["0", "compute", "40", "3.0G", "0"] and
          row[0].split()[7] != "-" and "sleep" in row[0], p.stdout, p.stderr)
    check("a fan where there is one", "fan 30%" in p.stdout and p.stdout.count("fan ") == 1, p.stdout)
    t = top("--sample", env=driver)
    check("on the screen", t.wait(f" {child.pid} "), t.screen.text())
    t.type("k")
    check("k asks", t.wait(f"end process {child.pid} (sleep"), t.screen.text())
    t.type("n")
    check("no is no", t.wait("nothing was ended") and child.poll() is None, t.screen.text())
    t.type("ky")
    check("yes ends it", t.wait(f"signal 15 went to process {child.pid}") and wait(lambda: child.poll() == -signal.SIGTERM), t.screen.text())
    t.type("q")
    check("q ends it, and its collector", t.end() == 0 and t.restored)


def has_terminal():
    try:
        for fd in pty.openpty():
            os.close(fd)
        return True
    except OSError:
        return False


part(once)
part(usage)
part(over_http)
if has_terminal():
    for fn in (screen, ends, kinds, lost, processes):
        part(fn)
else:
    skip("on a terminal", "there is none to be had here: is /dev/pts mounted?")
done()
