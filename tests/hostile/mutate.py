#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mutate: damages captured machines at random and looks at what detect makes of them.

    mutate.py STOKER MACHINES [--seed N] [--rounds N] [--seconds S] [--keep DIR]

Each round takes one tar of MACHINES, changes a few of its files (bits, lengths, lines,
numbers, names, links, whole files) and runs every form of `stoker detect`, and `stoker gather`, on it.  A form
must end in time, without a signal or a sanitizer's report, with an exit status that it
may have, and print what can be printed: UTF-8 without control characters, JSON that
parses, XML that parses, shell exports that are nothing but exports.

The same seed gives the same damage.  What fails is kept as DIR/SEED-ROUND.tar.
"""
import argparse
import io
import json
import os
import random
import re
import subprocess
import sys
import tarfile
import time
import xml.etree.ElementTree

FORM_SECONDS = 20  # under a sanitizer, on a machine that is busy with other tests
CHANGES_MAX = 12
NUMBERS = ["-1", "0", "4294967296", "18446744073709551615", "-9223372036854775808",
           "9223372036854775807", "99999999999999999999999", "1e308", "0x", "0xffffffffffffffff",
           "00000000000000000007", "NaN", "2147483648", "-0", "8191", "65536"]
TEXTS = [b"", b"\0", b"\n" * 9000, b"\xff\xfe\x80", b"\x1b[2J\x1b]0;x\a", b"\xc2\x9b31m",
         b"\xef\xbf\xbf", b"</text><script>&", b"'; touch pwned #", b"$(touch pwned)\n`x`",
         b"A" * 70000, "\u202e\u0301\U0001f600".encode(), b"0-4294967295", b",,-,,", b"0-8191,",
         b"[" * 70000, b'{"a":' * 100, b"%s%n%d", b"../" * 500, b"\r", b"\t\t"]
LOVED = ("/stoker/self.json", "/stoker/nvml.json", "/stoker/errors")  # changed more often
EXPORT = re.compile(r"(export [A-Za-z_][A-Za-z0-9_]*=([A-Za-z0-9_@%+=:,./^-]*|'[^']*'))?\s*(#.*)?$")
FORMS = [  # arguments ("OUT": a file to write), what stdout must be, exit statuses
    (["detect"], "text", (0,)),
    (["detect", "--json"], "json", (0,)),
    (["detect", "--topo"], "text", (0,)),
    (["detect", "--topo", "--json"], "json", (0,)),
    (["detect", "--svg", "-"], "xml", (0,)),
    (["detect", "--env"], "env", (0,)),
    (["detect", "--env=full"], "env", (0,)),
    (["detect", "--env=full", "--json"], "json", (0,)),
    (["detect", "--why", "NCCL_IB_HCA"], "text", (0,)),
    (["detect", "--why", "NCCL_SOCKET_IFNAME", "--json"], "json", (0,)),
    (["detect", "--check", "all"], "text", (0, 1)),
    (["detect", "--check", "all", "--json"], "json", (0, 1)),
    (["gather", "--force", "--json", "OUT"], "json", (0,)),
]


# ---- machines as {name: (type, bytes)}; a link's bytes are its target
def read_tar(path):
    nodes = {}
    with tarfile.open(path) as tar:
        for info in tar:
            if info.isdir():
                nodes[info.name] = (tarfile.DIRTYPE, b"")
            elif info.issym():
                nodes[info.name] = (tarfile.SYMTYPE, info.linkname.encode("utf-8", "surrogateescape"))
            else:
                nodes[info.name] = (tarfile.REGTYPE, tar.extractfile(info).read())
    return nodes


def write_tar(nodes, path):
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, (kind, data) in nodes.items():
            info = tarfile.TarInfo(name)
            info.type = kind
            if kind == tarfile.SYMTYPE:
                info.linkname = data.decode("utf-8", "surrogateescape").replace("\0", "")
            info.size = len(data) if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(data) if info.size else None)


# ---- damage to the bytes of a file
def flip(rng, data):
    out = bytearray(data or b"x")
    for _ in range(rng.randint(1, 8)):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def cut(rng, data):
    return data[: rng.randint(0, len(data))]


def insert(rng, data):
    at = rng.randint(0, len(data))
    return data[:at] + rng.choice(TEXTS) + data[at:]


def replace(rng, data):
    return rng.choice(TEXTS)


def number(rng, data):
    found = list(re.finditer(rb"-?[0-9]+", data))
    new = rng.choice(NUMBERS).encode()
    if not found:
        return new
    m = rng.choice(found)
    return data[: m.start()] + new + data[m.end():]


def repeat(rng, data):
    return data * rng.choice([2, 50, 2000] if len(data) < 4096 else [2])


def lines(rng, data):
    rows = data.split(b"\n")
    rng.shuffle(rows)
    return b"\n".join(rows[: rng.randint(1, len(rows))])


BYTES = [flip, cut, insert, replace, number, number, repeat, lines]


# ---- damage to a document: values of another type, huge, missing
def json_spots(value, out):
    for key in value if isinstance(value, dict) else range(len(value)):
        out.append((value, key))
        if isinstance(value[key], (dict, list)):
            json_spots(value[key], out)


def document(rng, data):
    try:
        doc = json.loads(data)
        spots = []
        json_spots(doc, spots)
    except (ValueError, TypeError):
        return flip(rng, data)
    for _ in range(rng.randint(1, 6)):
        where, key = rng.choice(spots or [({}, "a")])
        odd = [None, [], {}, "", -1, 2**63 - 1, -2**63, 2**64, 1.5, True, "\x1b[31m\u009b", "\uffff",
               "a\nb", "'; touch pwned #", "x" * 5000, [[[]]], [{}] * 300, "mlx5_0", "eth0", "NVLink"]
        try:
            where[key] = rng.choice(odd)
        except (IndexError, KeyError):
            pass
        if isinstance(where, dict) and rng.random() < 0.2:
            where.pop(key, None)
    return json.dumps(doc, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


# ---- damage to a machine
def change(rng, nodes):
    names = list(nodes)
    name = rng.choice(names)
    if rng.random() < 0.25:
        name = rng.choice([n for n in names if "/" + n in LOVED] or names)
    kind, data = nodes[name]
    action = rng.random()
    if kind == tarfile.REGTYPE and action < 0.75:
        how = document if name.endswith(".json") and rng.random() < 0.8 else rng.choice(BYTES)
        nodes[name] = (kind, how(rng, data)[: 1 << 20])
    elif action < 0.82:
        del nodes[name]
    elif action < 0.88:  # swapped with another
        other = rng.choice(names)
        nodes[name], nodes[other] = nodes[other], nodes[name]
    elif action < 0.94:  # a link, to itself, upwards, or to another
        target = rng.choice([os.path.basename(name), "..", "/", "/etc/passwd", "/" + rng.choice(names)])
        nodes[name] = (tarfile.SYMTYPE, target.encode("utf-8", "surrogateescape"))
    else:  # a copy under a name that is no name
        odd = rng.choice(["a\nb", "\x1b[31m", "\udcff", "x;touch pwned", "'", "..", "-1", "9" * 200, "eth\t0"])
        top = name.rsplit("/", 1)[0]
        for old in [n for n in names if n == name or n.startswith(name + "/")][:50]:
            nodes[top + "/" + odd + old[len(name):]] = nodes[old]


# ---- what a form must hold to
def check_output(want, out):
    text = out.decode("utf-8")  # an error here is a finding
    for ch in text:
        if (ch < " " and ch not in "\n\t") or "\x7f" <= ch < "\xa0":
            raise ValueError("control character %r in the output" % ch)
    if want == "json":
        json.loads(text)
    elif want == "xml":
        xml.etree.ElementTree.fromstring(text)
    elif want == "env":
        for line in text.splitlines():
            if not EXPORT.match(line):
                raise ValueError("no export: %r" % line)


def run_form(stoker, tar, form):
    """None, or what is wrong."""
    args, want, statuses = form
    env = {"PATH": os.environ["PATH"], "COLUMNS": "80", "ASAN_OPTIONS": "detect_leaks=1"}
    try:
        words = [tar + ".out" if a == "OUT" else a for a in args]
        p = subprocess.run([stoker, *words, "--root", tar], stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=FORM_SECONDS, env=env)
    except subprocess.TimeoutExpired:
        return "%s: not done after %d s" % (args, FORM_SECONDS)
    if p.returncode not in statuses or b"Sanitizer" in p.stderr or b"runtime error" in p.stderr:
        return "%s: status %d: %s" % (args, p.returncode, p.stderr.decode(errors="replace")[:4000])
    try:
        check_output(want, p.stdout)
        check_output("text", p.stderr)
    except (ValueError, SyntaxError, UnicodeDecodeError) as e:
        return "%s: %s" % (args, e)
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stoker")
    parser.add_argument("machines")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1 << 30)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--keep", default=".")
    o = parser.parse_args()
    paths = sorted(os.path.join(o.machines, n) for n in os.listdir(o.machines) if n.endswith(".tar"))
    machines = [read_tar(p) for p in paths]
    end, bad, done = time.monotonic() + o.seconds, 0, 0
    while done < o.rounds and time.monotonic() < end:
        rng = random.Random("%d-%d" % (o.seed, done))
        nodes = dict(rng.choice(machines))
        for _ in range(rng.randint(1, CHANGES_MAX)):
            change(rng, nodes)
        tar = os.path.join(o.keep, "%d-%d.tar" % (o.seed, done))
        write_tar(nodes, tar)
        wrong = [w for w in (run_form(o.stoker, tar, f) for f in FORMS) if w]
        done += 1
        for w in wrong:
            print("%s: %s" % (tar, w))
        bad += bool(wrong)
        for path in [tar + ".out"] + ([] if wrong else [tar]):
            if os.path.exists(path):
                os.unlink(path)
    print("%d rounds from seed %d, %d bad" % (done, o.seed, bad))
    return 1 if bad or not done else 0


if __name__ == "__main__":
    sys.exit(main())
