#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TAP: the commands of docs/user/deploying.md, walk.py BUILD [WHY NOT].

Blocks marked `sh` of its first part are run in the order of the page, as one shell would be used,
in a folder of the test's own; every line of a block marked `text` must be among what they print.
The commands of the other targets, which need a real site, must at least be sound shell and name
files that stoker render writes for one of the examples.  With a second argument nothing is run,
for that reason."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BUILD = os.path.realpath(sys.argv[1])
WHY_NOT = sys.argv[2] if len(sys.argv) > 2 else ""
count = failed = 0


def check(what, ok, *evidence):
    global count, failed
    count += 1
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} {count} - {what}", flush=True)
    for e in evidence if not ok else ():
        for line in str(e).splitlines()[-60:]:
            print("#", line, file=sys.stderr)


def skip(what):
    global count
    count += 1
    print(f"ok {count} - {what} # SKIP {WHY_NOT}")


def page():
    """(title, kind, text) of every block."""
    out, title, kind, text = [], "", None, []
    with open(TOP + "/docs/user/deploying.md") as f:
        for line in f:
            if kind is None and line.startswith("## "):
                title = line[3:].strip()
            elif kind is None and line.startswith("```"):
                kind, text = line[3:].strip(), []
            elif line.startswith("```"):
                out.append((title, kind, "".join(text)))
                kind = None
            elif kind is not None:
                text.append(line)
    return out


def stop(env):
    subprocess.run([TOP + "/tools/slurm-here", "stop"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def guard(env):
    """A child that stops the cluster when we are gone, however that came."""
    r, w = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.close(w)
        os.dup2(os.open("/dev/null", os.O_RDWR), 1)
        os.read(r, 1)
        stop(env)
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(0)
    os.close(r)


def walk(blocks):
    script = "set -eu\n" + "".join(t for title, kind, t in blocks if kind == "sh")
    script = script.replace("/tmp/site", scratch + "/site")
    env = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}", "SLURM_HERE_WORK": scratch + "/cluster", "SLURM_HERE_WAIT": "600"}
    guard(env)
    try:
        r = subprocess.run(["bash", "-c", script], cwd=TOP, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, timeout=840)
        rc, text = r.returncode, r.stdout
    except subprocess.TimeoutExpired as e:
        rc, text = "no end in 840 s", (e.stdout or b"").decode(errors="replace")
    left = os.listdir(scratch)
    stop(env)
    check("every command of the walk succeeds", rc == 0, rc, text)
    lines = set(text.splitlines())
    wanted = [line for title, kind, t in blocks if kind == "text" for line in t.splitlines()]
    missing = [line for line in wanted if line not in lines]
    check(f"the {len(wanted)} lines that the page shows are printed", wanted and not missing, "missing:", *missing, text)
    check("the change is shown as a difference", any(re.match(r"\+.*MaxTime=1-00", x) for x in lines), text)
    check("nothing of it is left", not left, left)


def commands(text):
    """Lines of a console: what stands behind $ or #."""
    return [m[1] for m in re.finditer(r"^[$#] (.*)$", text, re.M)]


def others(blocks):
    rendered = set()
    for example in glob.glob(TOP + "/data/examples/*.yaml"):
        r = subprocess.run([BUILD + "/stoker", "render", "all", "-f", example, "-o", scratch + "/all"], capture_output=True, text=True)
        check(f"{os.path.basename(example)} is rendered", r.returncode == 0, r.stderr)
        rendered |= {os.path.relpath(os.path.join(d, f), scratch + "/all") for d, _, fs in os.walk(scratch + "/all") for f in fs}
        shutil.rmtree(scratch + "/all", ignore_errors=True)
    targets = subprocess.run([BUILD + "/stoker", "render", "--list"], capture_output=True, text=True).stdout
    names = [line.split()[0] for line in targets.splitlines() if line and line[0].islower()]
    titles = {title for title, _, _ in blocks}
    check("every target has its part", names and set(names) <= titles, names, titles)
    for title in names:
        lines = [c for t, kind, text in blocks if t == title and kind == "console" for c in commands(text)]
        bad = [c for c in lines if subprocess.run(["bash", "-n", "-c", c], capture_output=True).returncode]
        check(f"{title}: its commands are sound shell", lines and not bad, *bad)
        files = {w for c in lines for w in re.findall(r"\bout/([\w./*-]+)", c.split("  #")[0])}
        unknown = [f for f in sorted(files) if not there(f, rendered)]
        check(f"{title}: files they name are rendered", not unknown, *unknown)


def there(name, rendered):
    pattern = re.escape(name.rstrip("/")).replace(r"\*", "[^/]*") + "(/.*)?$"
    return any(re.match(pattern, f) for f in rendered)


scratch = tempfile.mkdtemp(prefix="stoker-walk-")
os.chmod(scratch, 0o755)
try:
    blocks = page()
    first = [b for b in blocks if b[0] == "A cluster on this machine"]
    others(blocks)
    if WHY_NOT:
        skip("the walk")
    else:
        walk(first)
finally:
    shutil.rmtree(scratch, ignore_errors=True)
print(f"1..{count}")
sys.exit(bool(failed))
