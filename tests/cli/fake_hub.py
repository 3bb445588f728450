# SPDX-License-Identifier: MIT
"""A fake Hub: the routes of huggingface.co that downloads use, over folders on the disk.

    GET  /api/models/ORG/NAME/revision/REV[?blobs=true]   the commit and its files
    GET  /api/models/ORG/NAME/tree/COMMIT?recursive=true  sizes and digests, in pages
    HEAD, GET /ORG/NAME/resolve/REV/FILE                  small files themselves; large ones are a link
                                                          to another host ("the CDN"), with their digest

Commit, ETags, X-Linked-*, X-Error-Code, ranges and 416 are as the real one has them.  `faults` breaks
them: a list a path, taken from in order, None for a good answer.  Only the standard library."""
import hashlib
import json
import pathlib
import urllib.parse

import tls_box

LFS_FROM = 4096  # bytes: from there on a file is a large one
PAGE = 3         # entries of a page of the tree


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Repo:
    """A folder's files; `token` is who may read it; gated is told with its own code."""

    def __init__(self, folder, commit, token=None, gated=False, refs=()):
        self.files = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(pathlib.Path(folder).rglob("*")) if p.is_file()}
        self.commit, self.token, self.gated = commit, token, gated
        self.refs = {"main": commit, commit: commit, **dict.fromkeys(refs, commit)}

    def lfs(self, path):
        return len(self.files[path]) >= LFS_FROM

    def etag(self, path):
        data = self.files[path]
        return hashlib.sha256(data).hexdigest() if self.lfs(path) else git_sha1(data)


class Hub:
    def __init__(self, crt=None, key=None):
        self.repos, self.renamed, self.faults, self.list_of = {}, {}, {}, None
        self.blobs = True  # sizes and digests in the answer of revision/
        self.cdn = tls_box.Web(self.answer_cdn, crt, key)
        self.web = tls_box.Web(self.answer, crt, key)
        self.cdn_url = self.cdn.url.replace("127.0.0.1", "localhost")
        self.url, self.asked = self.web.url, self.web.asked

    def count(self, method, part):
        return sum(1 for w in (self.web, self.cdn) for m, p, _, _ in w.asked if m == method and part in p)

    def forget(self):
        self.web.asked.clear()
        self.cdn.asked.clear()

    # ---- answers
    def fault(self, h, path, data=b""):
        """True: the answer was a broken one."""
        faults = self.faults.get(path)
        what = faults.pop(0) if faults else None
        if what is None:
            return False
        kind, n = what if isinstance(what, tuple) else (what, 0)
        if kind == "status":
            h.reply(n, b"no", {"Retry-After": "0"})
        elif kind == "cut":  # n bytes of what was asked for, then the connection ends
            start = self.start(h, len(data)) or 0
            h.send_response(206 if start else 200)
            if start:
                h.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            h.send_header("Content-Length", str(len(data) - start))
            h.end_headers()
            h.wfile.write(data[start:start + n])
            h.close_connection = True
        elif kind == "hang":  # n bytes, and then nothing until the client leaves
            h.send_response(200)
            h.send_header("Content-Length", str(len(data)))
            h.end_headers()
            h.wfile.write(data[:n])
            h.wfile.flush()
            h.rfile.read(1)
            h.close_connection = True
        elif kind == "whole":  # Range is not understood
            h.reply(200, data)
        elif kind == "spoil":
            h.reply(200, bytes(len(data)))
        elif kind == "longer":
            h.reply(200, data + b"x" * n)
        elif kind == "link":
            h.reply(302, b"", {"Location": n})
        return True

    def error(self, h, status, code, text="no"):
        h.reply(status, text.encode(), {"X-Error-Code": code, "X-Error-Message": text} if code else {})

    @staticmethod
    def start(h, length):
        """First byte that is asked for; None: there is no such byte."""
        want = h.headers.get("Range")
        if not want:
            return 0
        start = int(want.removeprefix("bytes=").split("-")[0])
        return start if start < length else None

    def send(self, h, data, headers):
        start = self.start(h, len(data))
        if start is None:
            h.reply(416, b"", {**headers, "Content-Range": f"bytes */{len(data)}"})
        elif start or h.headers.get("Range"):
            h.reply(206, data[start:], {**headers, "Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"})
        else:
            h.reply(200, data, headers)

    def repo_of(self, h, name):
        """None: it was answered already."""
        repo = self.repos.get(name)
        token = (h.headers.get("Authorization") or "").removeprefix("Bearer ")
        if repo and repo.gated and token != repo.token:
            self.error(h, 403 if token else 401, "GatedRepo", "Access to this model is restricted")
        elif not repo or (repo.token and token != repo.token):
            self.error(h, 401 if not token else 404, "RepoNotFound", "Repository not found")
        else:
            return repo
        return None

    def answer(self, h):
        url = urllib.parse.urlsplit(h.path)
        parts = [urllib.parse.unquote(p) for p in url.path.strip("/").split("/")]
        if self.fault(h, url.path):
            return
        api = parts[:2] == ["api", "models"]
        if api:
            parts = parts[2:]
        if len(parts) < 4:
            self.error(h, 404, None)
            return
        name = "/".join(parts[:2])
        if name in self.renamed:
            h.reply(307, b"", {"Location": h.path.replace(name, self.renamed[name])})
            return
        repo = self.repo_of(h, name)
        if not repo:
            return
        if parts[3] not in repo.refs:
            self.error(h, 404, "RevisionNotFound", "Invalid rev id")
        elif api:
            self.describe(h, repo, name, parts, urllib.parse.parse_qs(url.query))
        else:
            self.resolve(h, repo, "/".join(parts[4:]))

    def describe(self, h, repo, name, parts, query):
        if parts[2] == "tree":
            self.tree(h, repo, query)
            return
        siblings = []
        for path in repo.files:
            s = {"rfilename": path}
            if self.blobs and query.get("blobs"):
                s["size"] = len(repo.files[path])
                s["blobId"] = git_sha1(repo.files[path])
                if repo.lfs(path):
                    s["lfs"] = {"sha256": repo.etag(path), "size": len(repo.files[path]), "pointerSize": 134}
            siblings.append(s)
        doc = {"id": name, "modelId": name, "sha": repo.commit, "private": False, "siblings": siblings, "tags": []}
        h.reply(200, json.dumps(self.list_of(doc) if self.list_of else doc).encode(), {"Content-Type": "application/json"})

    def tree(self, h, repo, query):
        names = list(repo.files)
        at = int(query.get("cursor", ["0"])[0])
        rows = []
        for path in names[at:at + PAGE]:
            data = repo.files[path]
            rows.append({"type": "file", "path": path, "size": len(data), "oid": git_sha1(data)})
            if repo.lfs(path):
                rows[-1]["lfs"] = {"oid": repo.etag(path), "size": len(data), "pointerSize": 134}
        more = {"Link": f'<{self.url}{h.path.split("?")[0]}?recursive=true&cursor={at + PAGE}>; rel="next"'} if at + PAGE < len(names) else {}
        h.reply(200, json.dumps(rows).encode(), {"Content-Type": "application/json", **more})

    def resolve(self, h, repo, path):
        headers = {"X-Repo-Commit": repo.commit, "Accept-Ranges": "bytes"}
        if path not in repo.files:
            h.reply(404, b"no", {**headers, "X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
        elif repo.lfs(path):
            link = f"{self.cdn_url}/{repo.etag(path)}?signature=1"
            h.reply(302, b"", {**headers, "Location": link, "X-Linked-Etag": f'"{repo.etag(path)}"', "X-Linked-Size": str(len(repo.files[path])),
                               "ETag": '"of-the-link"'})
        elif not self.fault(h, path, repo.files[path]):
            self.send(h, repo.files[path], {**headers, "ETag": f'"{repo.etag(path)}"'})

    def answer_cdn(self, h):
        digest = urllib.parse.urlsplit(h.path).path.strip("/")
        if h.headers.get("Authorization"):
            h.reply(400, b"a signed address takes no token")
            return
        for repo in self.repos.values():
            for path, data in repo.files.items():
                if repo.lfs(path) and repo.etag(path) == digest:
                    if not self.fault(h, path, data):
                        self.send(h, data, {"ETag": '"of-the-cdn"'})
                    return
        h.reply(404)
