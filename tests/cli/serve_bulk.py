# SPDX-License-Identifier: MIT
"""TAP of large work: serve_bulk.py STOKER EMBEDDING-MODEL RERANKER.

Files and batches are asked for as OpenAI's clients ask (tests/clients runs the official one); a
batch is killed again and again, and every request of it must be answered exactly once."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import socket
import sys
import threading
import time

from serve_box import secret, wait
from serve_test import Server, check, done, part, run, skip

EMB, RANK = sys.argv[2:4]
MODELS = ("-m", f"emb={EMB}", "-m", f"rank={RANK}")
ENDED = ("failed", "completed", "expired", "cancelled")
KILLED_LINES = 12000
STREAM_LINES = int(os.environ.get("BULK_LINES", "200000"))


def line(i, text, url="/v1/embeddings", **more):
    return {"custom_id": f"r-{i}", "method": "POST", "url": url, "body": {"model": "emb", "input": text, **more}}


def jsonl(rows):
    return b"".join((r if isinstance(r, bytes) else json.dumps(r).encode()) + b"\n" for r in rows)


def form(data, purpose="batch", name="in.jsonl", boundary="b0und4ry", **fields):
    """A body as a client's library makes it, and its Content-Type."""
    out = b""
    for k, v in dict({"purpose": purpose} if purpose else {}, **fields).items():
        out += f'--{boundary}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode()
    if data is not None:
        out += (f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
                "Content-Type: application/octet-stream\r\n\r\n").encode() + data + b"\r\n"
    return out + f"--{boundary}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def upload(s, rows, token=None, **more):
    body, fields = form(rows if isinstance(rows, bytes) or rows is None else jsonl(rows), **more)
    if token:
        fields["Authorization"] = "Bearer " + token
    return s.ask("/v1/files", body, fields)[:2]


def create(s, file_id, endpoint="/v1/embeddings", window="24h", token=None, **more):
    fields = {"Authorization": "Bearer " + token} if token else {}
    return s.ask("/v1/batches", {"input_file_id": file_id, "endpoint": endpoint, "completion_window": window, **more}, fields)[:2]


def ended(s, batch_id, seconds=60):
    """The batch, once it has."""
    last = {}

    def is_over():
        last.update(s.ask("/v1/batches/" + batch_id)[1])
        return last.get("status") in ENDED

    wait(is_over, seconds)
    return last


def vectors(s, texts):
    return [d["embedding"] for d in s.ask("/v1/embeddings", {"input": texts, "model": "emb"})[1]["data"]]


def content(s, file_id):
    if not file_id:
        return []
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    c.request("GET", f"/v1/files/{file_id}/content")
    r = c.getresponse()
    return [json.loads(x) for x in r.read().splitlines()]


def files():
    s = Server(*MODELS, "--batch-dir", "f1", "--batch-size", "3MB", "--batch-expiry", "1h")
    data = jsonl([line(0, "hello world")])
    made = {d: os.stat(d).st_mode & 0o777 for d in ("f1", "f1/files", "f1/batches", "f1/tmp", "f1/lock")}
    check("the folder that it makes is its owner's alone", all(m & 0o077 == 0 for m in made.values()), made)
    st, f = upload(s, data)
    check("a file is taken", st == 200 and f["object"] == "file" and f["bytes"] == len(data) and f["purpose"] == "batch" and
          f["filename"] == "in.jsonl" and f["status"] == "processed" and f["expires_at"] == f["created_at"] + 3600, st, f)
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    c.request("GET", f"/v1/files/{f['id']}/content")
    r = c.getresponse()
    check("its content is given back", r.read() == data and r.getheader("Content-Length") == str(len(data)))
    check("it can be retrieved", s.ask("/v1/files/" + f["id"])[1] == f)
    more = [upload(s, data, name=f"n{i}.jsonl")[1]["id"] for i in range(3)]
    v = s.ask("/v1/files?limit=2")[1]
    check("and listed, page by page", len(v["data"]) == 2 and v["has_more"] and v["last_id"] == v["data"][1]["id"], v)
    v = s.ask("/v1/files?limit=10&after=" + v["last_id"])[1]
    check("to the last", len(v["data"]) == 2 and not v["has_more"], v)
    old = s.ask("/v1/files?order=asc&limit=3")[1]
    check("oldest first when asked", [x["id"] for x in old["data"]] == [f["id"], *more[:2]] and old["has_more"], old)
    check("an order that is none is refused", [s.ask("/v1/files?order=" + o)[0] for o in ("up", "sideways", "as%zz")] == [400] * 3)
    check("a limit that is none is refused, however long", [s.ask(f"/v1/{what}?limit={n}")[0] for what in ("files", "batches") for n in
                                                          ("-107428154451035", "18446744073709551617", "1e99999999999999")] == [400] * 6)
    check("a form of /debug/batches that is none too", s.ask("/debug/batches?format=pdf")[0] == s.ask("/debug/batches?format=svgsvgsvgsvgsvgsvg")[0] == 400)
    st, v, _ = s.ask("/v1/files?after=file-gone")
    check("a page behind nothing is no end of the list", st == 400 and v["error"]["param"] == "after" and "file-gone" in v["error"]["message"] and
          s.ask("/v1/batches?after=batch-gone")[0] == 400, st, v)
    check("behind the last there is none", s.ask("/v1/files?after=" + f["id"])[1]["data"] == [])
    check("by purpose", s.ask("/v1/files?purpose=batch_output")[1]["data"] == [])
    v = s.ask("/v1/files/" + more[0], method="DELETE")[1]
    check("and deleted", v == {"id": more[0], "object": "file", "deleted": True} and s.ask("/v1/files/" + more[0])[0] == 404, v)
    for what, args, status, words in (
            ("without a purpose", dict(purpose=None), 400, "purpose"), ("for something else", dict(purpose="fine-tune"), 400, "purpose"),
            ("without a file", dict(rows=None), 400, "file"), ("larger than the folder", dict(rows=b"x" * 3100000), 507, "--batch-size"),
            ("with a bad expiry", {"expires_after[anchor]": "created_at", "expires_after[seconds]": "-1"}, 400, "expires_after")):
        st, v = upload(s, args.pop("rows", data), **args)
        check(f"a file {what} is refused", st == status and words in str(v), st, v)
    st, f = upload(s, data, **{"expires_after[anchor]": "created_at", "expires_after[seconds]": "1"})
    check("a file may name its own expiry", f["expires_at"] == f["created_at"] + 1, f)
    check("and goes then", wait(lambda: s.ask("/v1/files/" + f["id"])[0] == 404, 30))
    check("what was thrown away is not counted", upload(s, b"x" * 2900000)[0] == 200)
    st, v, _ = s.ask("/v1/files", "{}", {"Content-Type": "application/json"})
    check("a body that is no form is refused", st == 400 and "multipart/form-data" in str(v), st, v)
    st, v, _ = s.ask("/v1/files", form(data)[0][:-20], form(data)[1])
    check("as is a form that is cut off", st == 400 and "boundary" in str(v), st, v)
    for path in ("/v1/files/../../etc/passwd", "/v1/files/file-0/content", "/v1/files/" + "x" * 300, "/v1/batches/batch_0"):
        check(f"'{path[:30]}' is nothing", s.ask(path)[0] == 404)
    before = s.rss_kb()
    big = b"".join(jsonl([line(i, "w" * 900)]) for i in range(1500))
    check("the folder's limit holds for all files together", upload(s, big)[0] == 507)
    del before
    s.stop()
    s = Server(*MODELS)
    st, v = upload(s, data)
    check("without a folder the routes say so", st == 404 and "--batch-dir" in str(v), st, v)
    s.stop()


def large():
    """200 MB go to the disk as they come."""
    s = Server(*MODELS, "--batch-dir", "f2")
    if s.sanitized():
        skip("an upload of 150 MB needs no memory", "sanitized")
        s.stop()
        return
    upload(s, b"x" * 1000000)
    before = s.rss_kb()
    st, f = upload(s, b"y" * 150000000)
    grown = s.rss_kb() - before
    check("an upload of 150 MB needs no memory", st == 200 and f["bytes"] == 150000000 and grown < 16 << 10, st, f, grown)
    st, v = upload(s, b"z" * 200000001)
    check("more than 200 MB are refused", st == 413 and "200 MB" in str(v), st, v)
    s.stop()


def answers():
    s = Server(*MODELS, "--batch-dir", "a1")
    texts = [f"hello world {i}" for i in range(50)]
    rows = [line(i, t) for i, t in enumerate(texts)]
    rows[7]["body"]["model"] = "none"
    rows[9]["body"]["input"] = 5
    st, f = upload(s, b"\n" + jsonl(rows) + b"  \r\n")
    st, b = create(s, f["id"], metadata={"who": "test"})
    check("a batch is created", st == 200 and b["object"] == "batch" and b["status"] in ("validating", "in_progress") and
          b["metadata"] == {"who": "test"} and b["expires_at"] == b["created_at"] + 86400 and b["errors"] is None, st, b)
    b = ended(s, b["id"])
    check("it completes", b["status"] == "completed" and b["request_counts"] == {"total": 50, "completed": 48, "failed": 2} and
          b["created_at"] <= b["in_progress_at"] <= b["finalizing_at"] <= b["completed_at"], b)
    out, bad = content(s, b["output_file_id"]), content(s, b["error_file_id"])
    check("every request is answered", sorted(r["custom_id"] for r in out + bad) == sorted(r["custom_id"] for r in rows))
    want = vectors(s, texts)
    got = {r["custom_id"]: r["response"]["body"]["data"][0]["embedding"] for r in out}
    check("with the vectors of the route", all(got[f"r-{i}"] == want[i] for i in range(50) if i not in (7, 9)))
    check("in OpenAI's shape", all(r["id"].startswith("batch_req_") and r["error"] is None and r["response"]["status_code"] == 200 and
          r["response"]["request_id"] for r in out), out[:1])
    check("errors are those of the route", {r["custom_id"]: r["response"]["status_code"] for r in bad} == {"r-7": 404, "r-9": 400} and
          all("error" in r["response"]["body"] for r in bad), bad)
    check("both are files", s.ask("/v1/files/" + b["output_file_id"])[1]["purpose"] == "batch_output")
    check("a batch can be listed", [x["id"] for x in s.ask("/v1/batches?limit=1")[1]["data"]] == [b["id"]])
    docs = [dict(line(i, None, "/v1/rerank"), body={"model": "rank", "query": "hello", "documents": ["hello world", "other"]}) for i in range(3)]
    r = ended(s, create(s, upload(s, docs)[1]["id"], "/v1/rerank")[1]["id"])
    got = content(s, r["output_file_id"])
    one = s.ask("/v1/rerank", docs[0]["body"])[1]["results"]
    check("rerankers have batches too", r["status"] == "completed" and len(got) == 3 and got[0]["response"]["body"]["results"] == one, r, got[:1], one)
    long = [line(i, ["a %d" % k for k in range(200)]) for i in range(20)]
    r = ended(s, create(s, upload(s, long)[1]["id"])[1]["id"])
    check("a line may hold many inputs", r["status"] == "completed" and r["request_counts"]["completed"] == 20, r)
    for what, args, word in (("an unknown file", ["file-0"], "file-0"), ("an endpoint that has none", [f["id"], "/v1/chat/completions"], "endpoint"),
                             ("a window that is no time", [f["id"], "/v1/embeddings", "soon"], "completion_window"),
                             ("an output file", [b["output_file_id"]], "batch")):
        st, v = create(s, *args)
        check(f"a batch of {what} is refused", st == 400 and word in str(v), st, v)
    for body, param, word in (({}, "input_file_id", "missing"), ({"input_file_id": "x", "endpoint": 5}, "endpoint", "must be a string")):
        st, v, _ = s.ask("/v1/batches", body)
        check(f"{param} of {body} is named", st == 400 and v["error"]["param"] == param and word in v["error"]["message"], st, v)
    st, v, _ = s.ask(f"/v1/batches/{b['id']}/cancel", {})
    check("what has ended cannot be cancelled", st == 400 and "ended" in str(v), st, v)
    s.stop()


def faults():
    s = Server(*MODELS, "--batch-dir", "v1")
    good = line(0, "a")
    for what, rows, code, at in (
            ("no JSON", [good, b"{not json"], "invalid_json_line", 2), ("nothing", b"", "empty_file", None),
            ("two of a name", [good, line(1, "b"), good], "duplicate_custom_id", 3),
            ("another url", [dict(good, url="/v1/chat/completions")], "mismatched_url", 1),
            ("a GET", [dict(good, method="GET")], "invalid_method", 1),
            ("no custom_id", [{k: v for k, v in good.items() if k != "custom_id"}], "missing_required_parameter", 1),
            ("a custom_id of 600 bytes", [dict(good, custom_id="x" * 600)], "invalid_custom_id", 1),
            ("a NUL in its custom_id", [dict(good, custom_id="a\0b")], "invalid_custom_id", 1),
            ("no body", [dict(good, body="text")], "invalid_value", 1),
            ("50,001 requests", jsonl([line(i, "a") for i in range(50001)]), "too_many_requests", None)):
        b = ended(s, create(s, upload(s, rows)[1]["id"])[1]["id"])
        e = (b.get("errors") or {}).get("data") or [{}]
        check(f"a file with {what} fails", b["status"] == "failed" and b["failed_at"] and e[0].get("code") == code and
              e[0].get("line") == at and b["output_file_id"] is None and ("NUL" in what) == ("NUL" in str(e[0].get("message"))), b)
    s.stop()


def owners():
    """A client's files are its own."""
    s = Server(*MODELS, "--batch-dir", "o1")
    st, f = upload(s, [line(0, "a")], token="one")
    one, two = {"Authorization": "Bearer one"}, {"Authorization": "Bearer two"}
    check("its owner reads it", s.ask("/v1/files/" + f["id"], None, one)[0] == 200)
    check("another client does not", s.ask("/v1/files/" + f["id"], None, two)[0] == 404 and s.ask("/v1/files/" + f["id"])[0] == 404 and
          s.ask(f"/v1/files/{f['id']}/content", None, two)[0] == 404 and s.ask("/v1/files", None, two)[1]["data"] == [])
    check("nor deletes it", s.ask("/v1/files/" + f["id"], None, two, "DELETE")[0] == 404)
    check("nor makes a batch of it", create(s, f["id"], token="two")[0] == 400)
    b = create(s, f["id"], token="one")[1]
    check("nor sees or cancels its batch", s.ask("/v1/batches/" + b["id"], None, two)[0] == 404 and
          s.ask(f"/v1/batches/{b['id']}/cancel", {}, two)[0] == 404 and s.ask("/v1/batches", None, two)[1]["data"] == [])
    st, v, _ = s.ask("/v1/files", b'--x\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\n{}\r\n--x--\r\n' % (b"n" * 300),
                     {"Content-Type": "multipart/form-data; boundary=x"})
    check("a name that is too long is refused, not changed", st == 400 and "name" in v["error"]["message"], st, v)
    with open(os.path.join("o1", "files", f["id"] + ".json")) as h:
        check("no token lies in the folder", "one" not in h.read().replace("\"none\"", ""))
    check("the folder is its owner's alone", all(os.stat(os.path.join("o1", *x)).st_mode & 0o77 == 0 for x in
          (["files"], ["batches"], ["tmp"], ["files", f["id"] + ".json"], ["files", f["id"] + ".data"], ["batches", b["id"] + ".json"])))
    s.stop()
    for name, text in (("calls", "old"), ("admins", "boss")):
        with open(name, "w") as h:
            h.write(text + "\n")
    s = Server(*MODELS, "--batch-dir", "o2", "--token-file", "calls", "--admin-token-file", "admins")
    st, f = upload(s, [line(0, "a")], token="old")
    b = create(s, f["id"], token="old")[1]
    with open("calls", "w") as h:
        h.write("new\n")
    new, boss = {"Authorization": "Bearer new"}, {"Authorization": "Bearer boss"}
    wait(lambda: s.ask("/v1/files", None, new)[0] == 200)
    check("a token that was exchanged leaves files and batches where they are", all(
          s.ask("/v1/batches/" + b["id"], None, who)[0] == 200 and s.ask("/v1/files/" + f["id"], None, who)[0] == 200 and
          len(s.ask("/v1/batches", None, who)[1]["data"]) == 1 for who in (new, boss)) and
          s.ask("/v1/batches/" + b["id"], None, {"Authorization": "Bearer old"})[0] == 401)
    s.stop()


def time_and_cancel():
    s = Server(*MODELS, "--batch-dir", "t1")
    rows = [line(i, ["hello world %d %d" % (i, k) for k in range(64)]) for i in range(20000)]
    f = upload(s, rows)[1]["id"]
    b = create(s, f, window="2s")[1]
    st, v, _ = s.ask("/v1/files/" + f, None, None, "DELETE")
    check("a file that a batch reads cannot be deleted", st == 400 and "batch" in str(v), st, v)
    wait(lambda: s.ask("/v1/batches/" + b["id"])[1]["request_counts"]["completed"] > 0)
    s.p.kill()  # so that its time passes, however fast this machine is
    s.p.wait()
    time.sleep(2)
    s = Server(*MODELS, "--batch-dir", "t1")
    b = ended(s, b["id"])
    out, bad = content(s, b["output_file_id"]), content(s, b["error_file_id"])
    check("a batch whose window passes is expired", b["status"] == "expired" and b["expired_at"] and
          b["request_counts"]["completed"] == len(out) and b["request_counts"]["failed"] == len(bad), b)
    check("each request of it is answered or expired", sorted(r["custom_id"] for r in out + bad) == sorted(r["custom_id"] for r in rows) and
          all(r["response"] is None and r["error"]["code"] == "batch_expired" for r in bad), len(out), len(bad))
    b = create(s, f)[1]
    wait(lambda: s.ask("/v1/batches/" + b["id"])[1]["request_counts"]["completed"] > 20)
    st, c, _ = s.ask(f"/v1/batches/{b['id']}/cancel", {})
    check("a batch that runs is cancelled", st == 200 and c["status"] == "cancelling" and c["cancelling_at"], st, c)
    b = ended(s, b["id"])
    out = content(s, b["output_file_id"])
    check("what it had is kept", b["status"] == "cancelled" and b["cancelled_at"] and 20 < len(out) < 20000 and
          b["request_counts"]["completed"] == len(out), b)
    check("its input can be deleted then", s.ask("/v1/files/" + f, None, None, "DELETE")[0] == 200)
    s.stop()


def killed():
    """kill -9 at random points, also while it ends: nothing is lost, nothing answered twice."""
    rnd, rows = random.Random(5), [line(i, f"hello world {i}") for i in range(KILLED_LINES)]
    rows[100]["body"]["input"] = []
    rows[KILLED_LINES - 1]["body"]["input"] = []
    s = Server(*MODELS, "--batch-dir", "k1")
    b = create(s, upload(s, rows)[1]["id"])[1]["id"]
    kills = midway = 0
    while kills < 8:
        time.sleep(0.05 + rnd.random() * 0.4)
        v = s.ask("/v1/batches/" + b)[1]
        if v["status"] in ENDED:
            break
        midway += 0 < v["request_counts"]["completed"] < KILLED_LINES
        s.p.kill()
        s.p.wait()
        kills += 1
        if kills == 2:  # a torn line, as a killed write leaves it
            with open(os.path.join("k1", "batches", b + ".out"), "ab") as f:
                f.write(b'{"id":"batch_req_torn')
            for half in (f"batches/{b}.json.a1B2c3", f"files/{b}.json.a1B2c3"):  # not renamed yet
                with open(os.path.join("k1", half), "w") as f:
                    f.write('{"id":')
        s = Server(*MODELS, "--batch-dir", "k1")
    v = ended(s, b, 120)
    out, bad = content(s, v["output_file_id"]), content(s, v["error_file_id"])
    check(f"a batch survives {kills} kills", v["status"] == "completed" and kills > 1 and midway > 0 and
          v["request_counts"] == {"total": KILLED_LINES, "completed": KILLED_LINES - 2, "failed": 2}, v, kills, midway)
    check("each request is answered exactly once", sorted(r["custom_id"] for r in out + bad) == sorted(r["custom_id"] for r in rows), len(out), len(bad))
    check("the folder holds nothing else", os.listdir(os.path.join("k1", "tmp")) == [] and
          os.listdir(os.path.join("k1", "batches")) == [b + ".json"] and
          not [x for x in os.listdir(os.path.join("k1", "files")) if not x.endswith((".json", ".data"))],
          os.listdir("k1/batches"), os.listdir("k1/files"))
    rc, _ = s.stop()
    # as it would lie after a kill between its two last steps
    meta = os.path.join("k1", "batches", b + ".json")
    with open(meta) as f:
        doc = json.load(f)
    for state, cut in (("finalizing", "err"), ("finalizing", "out")):
        doc.update(status=state, completed_at=None, output_file_id=None, error_file_id=None)
        name = "file-" + b[len("batch_"):]
        os.rename(f"k1/files/{name}{cut}.data", f"k1/batches/{b}.{cut}")
        os.unlink(f"k1/files/{name}{cut}.json")
        with open(meta, "w") as f:
            json.dump(doc, f)
        s = Server(*MODELS, "--batch-dir", "k1")
        v = ended(s, b)
        check(f"killed while it ended, before its .{cut} was a file", v["status"] == "completed" and
              len(content(s, v["output_file_id"])) == KILLED_LINES - 2 and len(content(s, v["error_file_id"])) == 2, v)
        s.stop()
    for text in ("", "{", json.dumps(dict(doc, id="batch_other"))):  # a power cut, a flipped byte
        for kind in ("files", "batches"):
            name = [x for x in os.listdir(f"k1/{kind}") if x.endswith(".json")][0]
            whole = f"k1/{kind}/{name}"
            data = f"k1/{kind}/{name[:-5]}." + ("data" if kind == "files" else "out")
            if kind == "batches":
                with open(data, "w") as f:
                    f.write("an answer")
            os.rename(whole, "kept")
            with open(whole, "w") as f:
                f.write(text)
            s = Server(*MODELS, "--batch-dir", "k1")
            s.stop()
            check(f"a damaged description in {kind} costs no data", os.path.getsize(data) > 0 and os.path.exists(whole) and name in s.text, s.text)
            os.rename("kept", whole)
            if kind == "batches":
                os.unlink(data)
    p = Server(*MODELS, "--batch-dir", "k1")
    other = Server(*MODELS, "--batch-dir", "k1", ready=False)
    other.p.wait(30)
    check("a folder has one server", other.p.returncode == 4 and "another server" in other.text, other.p.returncode, other.text)
    p.stop()


def full():
    """Where there is no room a batch waits and says so."""
    s = Server(*MODELS, "--batch-dir", "d1", "--batch-size", "2MB")
    rows = [line(i, f"hello world {i}") for i in range(4000)]
    st, f = upload(s, rows)
    st, filler = upload(s, b"x" * 900000)
    b = create(s, f["id"])[1]["id"]
    seen = {}

    def is_full():
        seen.update(s.ask("/v1/batches/" + b)[1])
        return bool(seen["errors"]) or seen["status"] in ENDED

    check("a batch without room waits", wait(is_full) and seen["status"] == "in_progress" and
          seen["errors"]["data"][0]["code"] == "storage_full" and "--batch-size" in str(seen), seen)
    check("and the log says so", wait(lambda: "waits" in s.text, 10), s.text)
    s.stop()
    s = Server(*MODELS, "--batch-dir", "d1", "--batch-size", "50MB")
    v = ended(s, b)
    out = content(s, v["output_file_id"])
    check("it goes on when there is room", v["status"] == "completed" and v["errors"] is None and
          sorted(r["custom_id"] for r in out) == sorted(r["custom_id"] for r in rows), v)
    s.stop()
    del filler


def tiny_disk():
    """The same of a disk that is full indeed."""
    if os.geteuid() != 0 or os.system("mkdir -p disk && mount -t tmpfs -o size=1m none disk 2>/dev/null") != 0:
        skip("a disk that is full is told", "no file system can be mounted here")
        return
    try:
        s = Server(*MODELS, "--batch-dir", "disk")
        st, v = upload(s, b"x" * 2000000)
        check("a disk that is full is told", st == 507 and "No space left" in str(v) and "/tmp/" not in str(v), st, v)
        rows = [line(i, f"hello {i}") for i in range(1500)]
        b = create(s, upload(s, rows)[1]["id"])[1]["id"]
        seen = {}

        def is_full():
            seen.update(s.ask("/v1/batches/" + b)[1])
            return bool(seen["errors"]) or seen["status"] in ENDED

        check("as a batch's error", wait(is_full) and seen["status"] == "in_progress" and "No space left" in str(seen["errors"]), seen)
        check("others are served meanwhile", s.ask("/v1/embeddings", {"input": "a", "model": "emb"})[0] == 200)
        os.system("mount -o remount,size=64m disk")
        v = ended(s, b)
        check("and goes on when there is room", v["status"] == "completed" and
              len({r["custom_id"] for r in content(s, v["output_file_id"])}) == 1500, v)
        s.stop()
    finally:
        os.system("umount -l disk")


def slowly(rows, wait_s):
    """The last one comes late, behind a piece of its own."""
    yield rows[0]
    yield b" " * 70000
    time.sleep(wait_s)
    yield rows[1]


def talk(s, rows, path="/v1/embeddings/stream", fields="", wait_s=0.0):
    """Sends lines as chunks while it reads, as a client of a stream does; the reply's lines."""
    c = s.connect()
    c.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n{fields}\r\n".encode())

    def send():
        piece = b""
        for r in rows:
            piece += (r if isinstance(r, bytes) else json.dumps(r).encode()) + b"\n"
            if len(piece) > 60000:
                c.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
                piece = b""
        if piece:
            c.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        time.sleep(wait_s)
        c.sendall(b"0\r\n\r\n")

    t = threading.Thread(target=send)
    t.start()
    r = http.client.HTTPResponse(c)
    r.begin()
    for x in r:
        yield json.loads(x)
    t.join()
    c.close()


def streams():
    s = Server(*MODELS, "--batch-dir", "s1")
    texts = [f"hello world {i}" for i in range(300)]
    got = list(talk(s, texts, "/v1/embeddings/stream?model=emb"))
    want = vectors(s, texts)
    check("a text a line gives a vector a line", [g["line"] for g in got] == list(range(1, 301)) and
          all(g["data"][0]["embedding"] == w for g, w in zip(got, want)), got[:1])
    rows = [{"input": "a", "model": "emb", "custom_id": "x"}, b"", "plain", b"{broken", {"input": "b", "model": "none"}, b'"' + b"w" * 9000000 + b'"',
            {"input": ["c", "d"], "model": "emb", "encoding_format": "base64"}, {"input": "e", "custom_id": 5}]
    got = list(talk(s, rows, "/v1/embeddings/stream?model=emb&dimensions=8"))
    check("an error of a line is its own", [(g["line"], g.get("status")) for g in got] ==
          [(1, None), (3, None), (4, 400), (5, 404), (6, 413), (7, None), (8, 400)], [(g["line"], g.get("status"), g.get("error")) for g in got])
    check("a custom_id comes back", got[0]["custom_id"] == "x" and "custom_id" not in got[1], got[0])
    check("the query holds for texts", len(got[1]["data"][0]["embedding"]) == 8 and len(got[5]["data"]) == 2, got[1])
    raw = s.ask("/v1/embeddings", {"input": "plain", "model": "emb", "normalize": False, "dimensions": 8})[1]["data"][0]["embedding"]
    got = list(talk(s, ["plain"], "/v1/embeddings/stream?model=emb&dimensions=8&normalize=false&truncate=true&priority=bulk&truncation_side=left&"))
    check("all that a body may say of a text", got[0]["data"][0]["embedding"] == raw, got, raw)
    for query in ("dimensions=abc", "dimensions=4x", "dimensions=-4", "dimensions=4.0", "dimensions=", "dimension=4", "normalize=no", "truncate=maybe", "x",
                  "model=" + 300 * "m"):
        st, reply, _ = s.ask("/v1/embeddings/stream?" + query, "hi")
        check(f"a query with {query[:20]} is refused before a line is read", st == 400 and query.split("=")[0] in reply["error"]["message"], st, reply)
    for name, words in (("10h", "--timeout-max"), ("soon", "such as"), ("0", "above 0")):
        st, reply, _ = s.ask("/v1/embeddings/stream", "hi", {"X-Request-Timeout": name})
        check(f"so is a time of {name}", st == 400 and reply["error"]["param"] == "x-request-timeout" and words in reply["error"]["message"], st, reply)
    got = list(talk(s, ["a"] * 3, "/v1/embeddings/stream?model=emb", "X-Request-Timeout: 60s\r\n"))
    check("a stream within the time that it names is answered", len(got) == 3 and not any("status" in g for g in got), got)
    late = list(talk(s, slowly(["a", "b"], 2), "/v1/embeddings/stream?model=emb", "X-Request-Timeout: 500ms\r\n"))
    check("a line behind it is 504", [g.get("status") for g in late] == [None, 504], late)
    for bad, where in ((b'"a', "column 1:"), (b'"a\xff"', "column 3:"), (b'"a\\q"', "column 4:"), (b'"a","model":"none"', "column 4:")):
        got = list(talk(s, [bad], "/v1/embeddings/stream?model=emb"))
        check(f"a line {bad!r} is no text, and its fault is told by its own columns", got[0].get("status") == 400 and where in got[0]["error"]["message"], got)
    check("so are parameters of a reranker's lines", s.ask("/v1/rerank/stream?top_n=1", {})[0] == 400)
    got = list(talk(s, ["a", "b"], "/v1/embeddings/stream?model=emb&priority=urgent"))
    check("a word that is none is each line's error", [g["status"] for g in got] == [400, 400], got)
    got = list(talk(s, [{"model": "rank", "query": "a", "documents": ["b", "c"]}] * 5, "/v1/rerank/stream"))
    check("rerankers have streams too", len(got) == 5 and len(got[0]["results"]) == 2, got[:1])
    it = talk(s, ["first"], "/v1/embeddings/stream?model=emb", wait_s=2)
    begun = time.monotonic()
    next(it)
    check("a reply comes while the request goes on", time.monotonic() - begun < 1.9)
    list(it)
    c = s.connect()
    c.sendall(b"POST /v1/embeddings/stream?model=emb HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
              b"8\r\n\"text1\"\n\r\nzz\r\n")
    data = b""
    while True:
        piece = c.recv(65536)
        if not piece:
            break
        data += piece
    check("a body that breaks off ends the reply without its last chunk", data.startswith(b"HTTP/1.1 200") and not data.endswith(b"0\r\n\r\n"), data[-60:])
    c.close()
    gone = [s.connect() for _ in range(8)]
    for c in gone:
        c.sendall(b"POST /v1/embeddings/stream?model=emb HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n\"text\"\n\r\n")
        c.close()
    check("clients that leave are forgotten", wait(lambda: s.ask("/v1/embeddings", {"input": "a", "model": "emb"})[0] == 200))
    begun = time.monotonic()
    rc, text = s.stop()
    check("and the server ends", rc == 0 and time.monotonic() - begun < 20, rc, text)


def pressure():
    """Who does not read is not read from."""
    s = Server(*MODELS)
    c = s.connect(timeout=3)
    c.sendall(b"POST /v1/embeddings/stream?model=emb HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    piece = b'"hello world"\n' * 4000
    sent = 0
    try:
        while sent < 200 << 20:
            c.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            sent += len(piece)
    except (TimeoutError, socket.timeout):
        pass
    check("a client that does not read has to wait", sent < 50 << 20, sent)
    if not s.sanitized():
        check("and costs no memory", s.rss_kb() < 400 << 10, s.rss_kb())
    check("others are answered", s.ask("/v1/embeddings", {"input": "a", "model": "emb"})[0] == 200)
    c.close()
    s.stop()


def unread():
    """Streams whose replies nobody reads share what all calls may hold."""
    s = Server("-m", f"emb={EMB}", "--calls-max", "20MB")
    line = json.dumps({"input": ["a"] * 2048}).encode() + b"\n"
    before, held = s.rss_kb(), []

    def pour():
        with s.connect(2) as c:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            held.append(c)
            with contextlib.suppress(OSError):
                c.sendall(b"POST /v1/embeddings/stream HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
                for _ in range(60):
                    c.sendall(b"%x\r\n%s\r\n" % (len(line), line))
                time.sleep(3)

    with concurrent.futures.ThreadPoolExecutor(16) as ex:
        ends = [ex.submit(pour) for _ in range(16)]
        most = 0
        while not all(e.done() for e in ends):
            most = max(most, s.rss_kb())
            time.sleep(.05)
    check("replies of streams that nobody reads are counted for all", s.sanitized() or most - before < 180_000, before, most)  # not counted: 300 MB
    check("and others are answered after it", wait(lambda: s.ask("/v1/embeddings", {"input": ["a"] * 2048})[0] == 200, 20))
    s.stop()


def volume():
    s = Server(*MODELS)
    count = 5000 if s.sanitized() else STREAM_LINES
    for _ in talk(s, ["warm"] * 2000, "/v1/embeddings/stream?model=emb&encoding_format=base64"):
        pass
    before, most = s.rss_kb(), 0
    begun, n, right = time.monotonic(), 0, True
    for g in talk(s, ("w %d" % (i % 5000) for i in range(count)), "/v1/embeddings/stream?model=emb&encoding_format=base64"):
        n += 1
        right = right and g["line"] == n and "data" in g
        if n % 5000 == 0:
            most = max(most, s.rss_kb())
    took = time.monotonic() - begun
    check(f"{count} lines in one call, in order", n == count and right, n)
    print(f"# {count} lines in {took:.1f} s, resident {before >> 10} MiB before, {most >> 10} MiB at most")
    if not s.sanitized():
        check("in bounded memory", most - before < 64 << 10, before, most)
    s.stop()


def short_beside():
    """A batch is bulk: a short request is answered beside it."""
    s = Server(*MODELS, "--batch-dir", "b1")
    rows = [line(i, ["hello world %d %d" % (i, k) for k in range(64)]) for i in range(2000)]
    b = create(s, upload(s, rows)[1]["id"])[1]["id"]
    wait(lambda: s.ask("/v1/batches/" + b)[1]["request_counts"]["completed"] > 5)
    status = [s.ask("/v1/embeddings", {"input": "short", "model": "emb"})[0] for _ in range(50)]
    check("short requests are answered beside a batch", status == [200] * 50, status)
    text = json.dumps(s.ask("/debug/batches")[1])
    check("which is bulk", '"bulk"' in text)
    s.ask(f"/v1/batches/{b}/cancel", {})
    s.stop()


def of_spec():
    """What an option can say a spec can."""
    admin = secret("for changes")
    with open("site.yaml", "w") as f:
        f.write(f"""schema: stoker.spec/1
site: {{name: small}}
models:
  emb: {{source: {os.path.abspath(EMB)}, kind: embedding}}
  rank: {{source: {os.path.abspath(RANK)}, kind: rerank}}
serve:
  admin_token_file: {admin}
  allow_origin: [https://app.example]
  text_max: 1KiB
  calls_max: 100kB
  timeout_max: 40s
  body_total_timeout: 1m
  batch_time: 20ms
  any_model: true
  batch_dir: {os.path.abspath("spec-batches")}
  batch_size: 100kB
  batch_expiry: 2h
""")
    s = Server("-f", "site.yaml", "--admin-token-file", admin)
    check("a spec is taken", s.port > 0, s.text)
    st, f = upload(s, [line(0, "a")])
    check("batch_dir, batch_expiry", st == 200 and f["expires_at"] == f["created_at"] + 7200 and os.listdir("spec-batches/files"), st, f)
    check("batch_size", upload(s, b"x" * 200000)[0] == 507)
    check("any_model", s.ask("/v1/embeddings", {"input": "a", "model": "nobody"})[0] == 200)
    st, v, _ = s.ask("/v1/embeddings", {"input": "a " * 600})
    check("text_max", st == 413, st, v)
    st, v, _ = s.ask("/tokenize", {"inputs": ["a " * 300] * 10})
    check("calls_max", st == 413 and "--calls-max" in str(v), st, v)
    st, v, _ = s.ask("/v1/embeddings", {"input": "a"}, {"x-request-timeout": "60s"})
    check("timeout_max", st == 400 and "40" in str(v), st, v)
    r = s.ask("/v1/embeddings", {"input": "a"}, {"Origin": "https://app.example"})
    check("allow_origin", r[0] == 200 and r[2].getheader("Access-Control-Allow-Origin") == "https://app.example", r[:2])
    s.stop()
    s = Server("-f", "site.yaml", "--allow-origin", "https://other.example", "--text-max", "1MiB")
    check("an option goes before the spec", s.ask("/v1/embeddings", {"input": "a"}, {"Origin": "https://app.example"})[0] == 403 and
          s.ask("/v1/embeddings", {"input": "a " * 600})[0] == 200)
    s.stop()
    p = run("serve", "-f", "site.yaml", "--explain")
    check("--explain tells of them", all(w in p.stdout for w in ("timeout_max", "batch_time", "spec-batches", "site.yaml:")), p.stdout, p.stderr)


for name in sys.argv[4:] or ("of_spec", "files", "large", "answers", "faults", "owners", "time_and_cancel", "killed", "full", "tiny_disk", "streams", "pressure", "unread",
                             "volume", "short_beside"):
    part(globals()[name])
done()
