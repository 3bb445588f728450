# SPDX-License-Identifier: MIT
"""What the programs of this folder share: the time they have, RESULT lines, `stoker bench engine`."""
import json
import os
import pathlib
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent  # the source, or a bundle: both have tests/gpu


def stoker_path():
    """The program of the bundle, or the one that was built here."""
    beside = TOP / "stoker"
    return str(beside if beside.is_file() else TOP / "build/stoker")


def say(text):
    print(text, flush=True)


class Budget:
    """Seconds that are left; what does not fit is named, and named again at the end."""

    def __init__(self, seconds):
        self.start, self.seconds, self.skipped = time.monotonic(), seconds, []

    def used(self):
        return time.monotonic() - self.start

    def left(self):
        return self.seconds - self.used()

    def fits(self, what, seconds):
        if self.left() >= seconds:
            return True
        self.skip(what, f"{self.left():.0f} s are left, it takes about {seconds:.0f}")
        return False

    def skip(self, what, why):
        self.skipped.append(what)
        say(f"# skipped: {what}: {why}")


class Results:
    def __init__(self):
        self.lines, self.failed, self.worst = [], False, {}

    def add(self, name, value, unit, target, ok, say_it=True):
        """`target` None: a figure beside the others."""
        line = f"RESULT {name} {value:.7g} {unit}"
        if target is not None:
            line += f" {target:g} {'ok' if ok else 'short'}"
            self.failed |= not ok
        self.lines.append(line)
        if say_it:
            say(line)

    def at_least(self, name, value, unit, target):
        self.add(name, value, unit, target, value >= target)

    def at_most(self, name, value, unit, target):
        self.add(name, value, unit, target, value <= target)

    def least(self, name, value, unit, target):
        """The least of all values of that name becomes one line, which `target` bounds from below (None: not)."""
        if name not in self.worst or not value >= self.worst[name][0]:  # NaN is the worst
            self.worst[name] = value, unit, target

    def greatest(self, name, value, unit, target):
        if name not in self.worst or not value <= self.worst[name][0]:
            self.worst[name] = value, unit, target

    def print_all(self):
        for name, (value, unit, target) in self.worst.items():
            good = target is None or (value <= target if unit == "max" else value >= target)
            self.add(name, value, unit, target, good, False)
        self.worst = {}
        say("")
        for line in self.lines:
            say(line)


class EngineFailed(Exception):
    pass


def engine(stoker, model, *args, cases, env=None, timeout=240, saves=None, checks=None):
    """`stoker bench engine` with JSON: the document, whose cases are in the order asked for."""
    command = [stoker, "bench", "engine", str(model), "--json", *map(str, args)]
    for c in cases:
        command += ["--case", str(c)]
    for option, files in (("--save", saves), ("--check", checks)):
        for f in files or []:
            command += [option, str(f)]
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=dict(os.environ, **(env or {})))
    except subprocess.TimeoutExpired:
        raise EngineFailed(f"no answer within {timeout} s: {' '.join(command)}") from None
    if out.returncode:
        why = (out.stderr.strip() or f"status {out.returncode}")[-600:]
        raise EngineFailed(f"{why}\n# {' '.join(command)}")
    return json.loads(out.stdout)


def work_folder(asked):
    """Where models go: memory where there is enough of it, since reading them is not what is measured."""
    if asked:
        return pathlib.Path(asked)
    shm = pathlib.Path("/dev/shm")
    room = os.statvfs(shm) if shm.is_dir() else None
    big = room and room.f_bavail * room.f_frsize > 12 << 30
    return (shm if big else pathlib.Path("/tmp")) / f"stoker-gpu-{os.getuid()}"
