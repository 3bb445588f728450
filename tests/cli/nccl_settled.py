#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `stoker detect --env` prints holds once it is set: asked again with its own variables it
adds none, and warns of none of them.

    nccl_settled.py STOKER CAPTURE…
"""
import json
import subprocess
import sys


def env(stoker, capture, variables):
    args = [stoker, "detect", "--root", capture, "--env", "--json"]
    for name, value in variables.items():
        args += ["-e", "%s=%s" % (name, value)]
    return json.loads(subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                     check=True).stdout)


def required(doc):
    return {v["name"]: v["value"] for v in doc["env"] if v["kind"] == "required"}


def main(stoker, captures):
    bad = 0
    for capture in captures:
        first = required(env(stoker, capture, {}))
        if not first:
            continue
        then = env(stoker, capture, first)
        more = required(then)
        warned = [n["name"] for n in then["lint"] if n["name"] in first and n["severity"] != "info"]
        if more or warned:
            bad += 1
            print("%s: %s, and then %s, warned of %s" % (capture, first, more, warned))
    return bad > 0


sys.exit(main(sys.argv[1], sys.argv[2:]))
