# SPDX-License-Identifier: MIT
"""What tests of `stoker serve` share: TAP, a server of the binary in argv[1], what `stoker embed`
and `stoker rerank` say.  Only the standard library."""
import json
import signal
import subprocess
import sys

import serve_box

STOKER = sys.argv[1]
count = failed = 0


def check(what, ok, *why):
    global count, failed
    count += 1
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} {count} - {what}")
    if not ok:
        for w in why:
            print("# " + str(w)[:600].replace("\n", "\n# "), file=sys.stderr)
    sys.stdout.flush()


def skip(what, why):
    global count
    count += 1
    print(f"ok {count} - {what} # SKIP {why}")


def part(fn, *args):
    """Whatever happens in one part, the others run."""
    try:
        fn(*args)
    except Exception as e:
        check(f"{fn.__name__} ends", False, repr(e))


def done():
    print(f"1..{count}")
    sys.exit(1 if failed else 0)


class Server(serve_box.Server):
    def __init__(self, *args, **more):
        super().__init__(STOKER, *args, **more)

    def stop(self, sig=signal.SIGTERM, seconds=60):
        """Its status and all of its words."""
        rc = super().stop(sig, seconds)
        return rc, self.text


def run(*args, **more):
    return subprocess.run([STOKER, *args], capture_output=True, text=True, timeout=60, **more)


def embed(model, texts, *args):
    p = run("embed", "-m", model, "--quiet", "--jsonl", *args, input="".join(json.dumps(t) + "\n" for t in texts))
    return [json.loads(x)["embedding"] for x in p.stdout.splitlines()]


def lines(model, texts, *args):
    p = subprocess.run([STOKER, "embed", "-m", model, "--quiet", *args], input="\n".join(texts) + "\n", capture_output=True, text=True)
    return [json.loads(x)["embedding"] for x in p.stdout.splitlines()]


def ranks(model, query, docs, *args):
    """(index, score), best first."""
    p = subprocess.run([STOKER, "rerank", "-m", model, "-q", query, "--json", "--quiet", *args],
                       input="\n".join(docs) + "\n", capture_output=True, text=True)
    return [(r["index"], r["score"]) for r in json.loads(p.stdout)["results"]]
