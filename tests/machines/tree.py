# SPDX-License-Identifier: MIT
"""tree: the files of a machine in memory, and the two forms they are kept in.

A tree maps absolute paths ("/sys/class/net") to a file's bytes, a link's target or
an empty folder.  It is written as a tar (names sorted, times and owners zero, so
that the same tree gives the same bytes), as a folder, or as text for the
repository; tar and text are read back.  Names are str with surrogateescape, as
they may be no UTF-8.

The text form, one entry after the other, sorted by path:

    # comment                        (header: where the machine comes from)
    dir PATH                         an empty folder
    link PATH -> TARGET
    file PATH empty
    file PATH | one line             with a newline at its end
    file PATH |- one line            without
    file PATH <<EOF                  the lines up to EOF, each with a newline
    file PATH <<-EOF                 the same, the last newline left out
    file PATH base64 <<EOF           anything else

PATH and TARGET are written with \\xNN for spaces, backslashes and bytes that are
no printable ASCII, so that a line splits at its spaces.
"""
import base64
import io
import os
import tarfile

FILE, LINK, DIR = "file", "link", "dir"
TEXT_LINE_MAX = 2000  # a longer line goes to base64, so that editors cope


def to_bytes(name):
    return name.encode("utf-8", "surrogateescape")


def from_bytes(raw):
    return raw.decode("utf-8", "surrogateescape")


class Tree:
    def __init__(self):
        self.nodes = {}  # path -> (kind, bytes or target)
        self.errors = {}  # path -> errno of a read that fails
        self.header = []  # comment lines of the text form

    # ---- putting things in
    def file(self, path, data=""):
        """A file; text gets the newline that files in /sys and /proc have."""
        if isinstance(data, int):
            data = str(data)
        if isinstance(data, str):
            data = to_bytes(data if data.endswith("\n") or not data else data + "\n")
        self._put(path, (FILE, data))

    def files(self, folder, **named):
        for name, data in named.items():
            if data is not None:
                self.file(folder + "/" + name, data)

    def link(self, path, target):
        self._put(path, (LINK, target))

    def rel_link(self, path, target):
        """A relative link to an absolute path, as sysfs writes them."""
        self.link(path, os.path.relpath(target, os.path.dirname(path)))

    def dir(self, path):
        if path not in self.nodes:
            self._put(path, (DIR, None))

    def error(self, path, number):
        """A file that is there but whose reading fails with this errno."""
        self.file(path, b"")
        self.errors[path] = number

    def remove(self, path):
        """The path and all below it."""
        for name in [p for p in self.nodes if p == path or p.startswith(path + "/")]:
            del self.nodes[name]
            self.errors.pop(name, None)

    def _put(self, path, node):
        assert path.startswith("/") and "//" not in path, path
        self.nodes[path] = node

    # ---- what is written
    def full(self):
        """All nodes with the errors file and every parent folder, sorted."""
        nodes = dict(self.nodes)
        if self.errors:
            lines = ["%s\t%d\n" % (p, self.errors[p]) for p in sorted(self.errors)]
            nodes["/stoker/errors"] = (FILE, to_bytes("".join(lines)))
        for path in list(nodes):
            while path.rfind("/") > 0:
                path = path[: path.rfind("/")]
                nodes.setdefault(path, (DIR, None))
                assert nodes[path][0] == DIR, "%s is no folder" % path
        return sorted(nodes.items(), key=lambda item: to_bytes(item[0]))

    def write_tar(self, path):
        with tarfile.open(
            path, "w", format=tarfile.PAX_FORMAT, encoding="utf-8", errors="surrogateescape"
        ) as tar:
            for name, (kind, data) in self.full():
                info = tarfile.TarInfo(name[1:])
                info.mode = 0o755 if kind == DIR else 0o644
                if kind == DIR:
                    info.type = tarfile.DIRTYPE
                    tar.addfile(info)
                elif kind == LINK:
                    info.type, info.linkname, info.mode = tarfile.SYMTYPE, data, 0o777
                    tar.addfile(info)
                else:
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))

    def write_dir(self, top):
        os.makedirs(top, exist_ok=True)
        for name, (kind, data) in self.full():
            path = to_bytes(top + name)
            if kind == DIR:
                os.makedirs(path, exist_ok=True)
            elif kind == LINK:
                os.symlink(to_bytes(data), path)
            else:
                with open(path, "wb") as out:
                    out.write(data)

    def text(self):
        out = ["# " + line if line else "#" for line in self.header]
        nodes = self.full()
        full_dirs = {p[: p.rfind("/")] for p, _ in nodes}
        for path, (kind, data) in nodes:
            if kind == FILE:
                out += file_text(escape(path), data)
            elif kind == LINK:
                out.append("link %s -> %s" % (escape(path), escape(data)))
            elif path not in full_dirs:
                out.append("dir " + escape(path))
        return "".join(line + "\n" for line in out)


# ---- reading
def read_tar(path):
    tree = Tree()
    with tarfile.open(path, "r:", encoding="utf-8", errors="surrogateescape") as tar:
        for info in tar:
            name = info.name.strip("/")
            if name.startswith("./"):
                name = name[2:]
            if not name or name == ".":
                continue
            if info.isdir():
                tree.dir("/" + name)
            elif info.issym():
                tree.link("/" + name, info.linkname)
            elif info.isreg():
                tree.file("/" + name, tar.extractfile(info).read())
            else:
                raise SystemExit("%s: '%s' is neither file, folder nor link" % (path, name))
    return tree


class Lines:
    """The lines of a text form with their numbers, for messages."""

    def __init__(self, path, text):
        self.path, self.items, self.at = path, text.split("\n"), 0
        if self.items and self.items[-1] == "":
            self.items.pop()

    def next(self):
        if self.at >= len(self.items):
            self.fail("the file ends inside an entry")
        self.at += 1
        return self.items[self.at - 1]

    def block(self, end):
        got = []
        while True:
            line = self.next()
            if line == end:
                return got
            got.append(line)

    def fail(self, why):
        raise SystemExit("%s:%d: %s" % (self.path, self.at, why))


def read_text(path):
    with open(path, "rb") as src:
        lines = Lines(path, from_bytes(src.read()))
    tree = Tree()
    while lines.at < len(lines.items):
        line = lines.next()
        if line.startswith("#"):
            tree.header.append(line[2:])
        elif line:
            read_entry(tree, lines, line)
    return tree


def read_entry(tree, lines, line):
    kind, _, rest = line.partition(" ")
    path, _, rest = rest.partition(" ")
    path = unescape(path)
    if not path.startswith("/"):
        lines.fail("a path begins with '/'")
    if kind == DIR and not rest:
        tree.dir(path)
    elif kind == LINK and rest.startswith("-> "):
        tree.link(path, unescape(rest[3:]))
    elif kind == FILE:
        tree.file(path, read_data(lines, rest))
    else:
        lines.fail("expected 'dir', 'link' or 'file' with its operands")


def read_data(lines, how):
    if how == "empty":
        return b""
    if how.startswith("| ") or how == "|":
        return to_bytes(how[2:] + "\n")
    if how.startswith("|- "):
        return to_bytes(how[3:])
    if how.startswith("base64 <<"):
        return base64.b64decode("".join(lines.block(how[9:])), validate=True)
    if how.startswith("<<-"):
        return to_bytes("\n".join(lines.block(how[3:])))
    if how.startswith("<<"):
        return to_bytes("".join(line + "\n" for line in lines.block(how[2:])))
    lines.fail("unknown form of a file")


# ---- the text form's pieces
def escape(name):
    return "".join(
        chr(b) if 0x21 <= b < 0x7F and b != 0x5C else "\\x%02x" % b for b in to_bytes(name)
    )


def unescape(text):
    out, i = bytearray(), 0
    while i < len(text):
        if text[i : i + 2] == "\\x":
            out.append(int(text[i + 2 : i + 4], 16))
            i += 4
        else:
            out += to_bytes(text[i])
            i += 1
    return from_bytes(bytes(out))


def is_plain(data):
    """Printable UTF-8 (tabs allowed) with lines an editor copes with."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    lines = text.split("\n")
    return all(
        len(line) <= TEXT_LINE_MAX and all(c == "\t" or c.isprintable() for c in line)
        for line in lines
    )


def file_text(path, data):
    if not data:
        return ["file %s empty" % path]
    if not is_plain(data):
        raw = base64.b64encode(data).decode()
        rows = [raw[i : i + 76] for i in range(0, len(raw), 76)]
        return ["file %s base64 <<EOF" % path] + rows + ["EOF"]
    text = data.decode("utf-8")
    ended = text.endswith("\n")
    rows = (text[:-1] if ended else text).split("\n")
    if len(rows) == 1:
        return [("file %s | %s" if ended else "file %s |- %s") % (path, rows[0])]
    end = "EOF"
    while end in rows:
        end += "_"
    return ["file %s %s%s" % (path, "<<" if ended else "<<-", end)] + rows + [end]
