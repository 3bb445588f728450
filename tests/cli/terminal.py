# SPDX-License-Identifier: MIT
"""A program on a terminal of its own, and what its screen shows.  Standard library alone.

The screen understands what ncurses sends to a vt100, linux or xterm; anything else is kept in
`strange`, so that a test sees what it does not know instead of passing over it."""
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

TOKEN = re.compile(r"\x1b\[([?>]?)([0-9;]*)([@A-Za-z`])|\x1b([()][0AB]|[=>78M])|(\x1b[\]P])|(\x1b)|([\x00-\x1f])|([^\x00-\x1f\x1b]+)", re.S)


class Screen:
    def __init__(self, cols, rows):
        self.cols, self.rows, self.row, self.col = cols, rows, 0, 0
        self.top, self.bottom = 0, rows - 1
        self.cells = [[" "] * cols for _ in range(rows)]
        self.strange, self.rest, self.last = [], "", " "

    def resize(self, cols, rows):
        self.__init__(cols, rows)

    def text(self):
        return "\n".join("".join(r).rstrip() for r in self.cells)

    def put(self, c):
        if self.col >= self.cols:
            self.col = 0
            self.down()
        self.cells[self.row][self.col] = self.last = c
        self.col += 1

    def down(self):
        if self.row == self.bottom:
            del self.cells[self.top]
            self.cells.insert(self.bottom, [" "] * self.cols)
        else:
            self.row = min(self.row + 1, self.rows - 1)

    def up(self):
        if self.row == self.top:
            del self.cells[self.bottom]
            self.cells.insert(self.top, [" "] * self.cols)
        else:
            self.row = max(self.row - 1, 0)

    def control(self, c):
        if c == "\r":
            self.col = 0
        elif c == "\n":
            self.down()
        elif c == "\b":
            self.col = max(0, min(self.col, self.cols - 1) - 1)
        elif c == "\t":
            self.col = min(self.cols - 1, self.col // 8 * 8 + 8)
        elif c not in "\x00\x07\x0e\x0f":
            self.strange.append(repr(c))

    def erase(self, row, first, last):
        self.cells[row][first:last] = [" "] * (last - first)

    def csi(self, mark, args, c):
        n = [int(a) if a else 0 for a in args.split(";")] if args else [0]
        one = n[0] or 1
        row = self.cells[self.row]
        self.col = min(self.col, self.cols - 1) if c not in "mhl" else self.col
        if mark or c in "mhlncqt":
            return
        if c in "Hf":
            self.row, self.col = min(one, self.rows) - 1, min((n + [1])[1] or 1, self.cols) - 1
        elif c == "d":
            self.row = min(one, self.rows) - 1
        elif c in "G`":
            self.col = min(one, self.cols) - 1
        elif c in "ABCD":
            self.row = max(0, min(self.rows - 1, self.row + {"A": -one, "B": one}.get(c, 0)))
            self.col = max(0, min(self.cols - 1, self.col + {"D": -one, "C": one}.get(c, 0)))
        elif c == "J":
            self.erase(self.row, 0 if n[0] else self.col, self.cols if n[0] != 1 else self.col + 1)
            for r in range(self.rows):
                if n[0] == 2 or (n[0] == 0 and r > self.row) or (n[0] == 1 and r < self.row):
                    self.erase(r, 0, self.cols)
        elif c == "K":
            self.erase(self.row, self.col if n[0] == 0 else 0, self.col + 1 if n[0] == 1 else self.cols)
        elif c == "X":
            self.erase(self.row, self.col, min(self.cols, self.col + one))
        elif c == "b":
            for _ in range(one):
                self.put(self.last)
        elif c == "@":
            row[self.col:self.col] = [" "] * one
            del row[self.cols:]
        elif c == "P":
            del row[self.col:self.col + one]
            row.extend([" "] * (self.cols - len(row)))
        elif c == "r":
            self.top, self.bottom = (n[0] or 1) - 1, ((n + [0])[1] or self.rows) - 1
            self.row = self.col = 0
        elif c in "LM":
            for _ in range(one):
                del self.cells[self.bottom if c == "L" else self.row]
                self.cells.insert(self.row if c == "L" else self.bottom, [" "] * self.cols)
        elif c in "ST":
            for _ in range(one):
                del self.cells[self.top if c == "S" else self.bottom]
                self.cells.insert(self.bottom if c == "S" else self.top, [" "] * self.cols)
        else:
            self.strange.append(f"CSI {args}{c}")

    def feed(self, text):
        text, self.rest = self.rest + text, ""
        at = 0
        while at < len(text):
            m = TOKEN.match(text, at)
            if not m or (m[6] and len(text) - at < 32):
                self.rest = text[at:]  # a sequence that is cut
                return
            at = m.end()
            if m[3]:
                self.csi(m[1], m[2], m[3])
            elif m[4]:
                if m[4] == "M":
                    self.up()
            elif m[5] or m[6]:
                self.strange.append(repr(text[m.start():m.start() + 12]))
            elif m[7]:
                self.control(m[7])
            else:
                for c in m[8]:
                    self.put(c)


class Terminal:
    def __init__(self, args, cols=80, rows=24, term="vt100", env=None):
        more = dict(os.environ, TERM=term, **(env or {}))
        for name in ("COLUMNS", "LINES"):
            more.pop(name, None)
        ready, go = os.pipe()
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.read(ready, 1)  # until its modes are known
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
            os.execvpe(args[0], args, more)
        self.screen = Screen(cols, rows)
        self.raw, self.status = b"", None
        self.decode = codecs.getincrementaldecoder("utf-8")("replace")
        self.before = termios.tcgetattr(self.fd)[:4]
        os.write(go, b"g")
        os.close(ready)
        os.close(go)

    def read(self, seconds):
        end = time.time() + seconds
        while time.time() < end:
            if not select.select([self.fd], [], [], max(0, min(0.1, end - time.time())))[0]:
                continue
            try:
                got = os.read(self.fd, 65536)
            except OSError:
                got = b""
            if not got:
                return False
            self.raw += got
            self.screen.feed(self.decode.decode(got))
        return True

    def wait(self, what, seconds=60):
        """Until `what` (words, or a question to the screen's text) holds."""
        holds = what if callable(what) else lambda text: what in text
        end = time.time() + seconds
        while not holds(self.screen.text()) and time.time() < end:
            if not self.read(0.1):
                break
        return holds(self.screen.text())

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def resize(self, cols, rows):
        self.screen.resize(cols, rows)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def signal(self, sig):
        os.kill(self.pid, sig)

    def end(self, seconds=60):
        """Its status; None: it did not end, and was killed."""
        until = time.time() + seconds
        modes = termios.tcgetattr(self.fd)[:4]
        while self.status is None and time.time() < until:
            self.read(0.05)
            try:
                modes = termios.tcgetattr(self.fd)[:4]
            except termios.error:
                pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        self.read(0.2)
        self.restored = modes == self.before
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)
        return self.status
