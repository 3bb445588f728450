#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""build: writes the machines that stoker's tests replay.

    tests/machines/build.py OUT-DIR [NAME…]         OUT-DIR/NAME.tar
    tests/machines/build.py --dir OUT-DIR [NAME…]   OUT-DIR/NAME/
    tests/machines/build.py --list                  names with their first line
    tests/machines/build.py --large …               hostile gets a file of 1 GiB (--dir alone)

A machine is hand-built (a function of bare.py, virtual.py or hostile.py, whose text
names the documents it follows) or captured (NAME.txt beside this file, made with
`stoker gather` and `tools/machine from-tar`).  The same sources give the same bytes.
"""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)

import bare  # noqa: E402
import grace  # noqa: E402
import hostile  # noqa: E402
import tree  # noqa: E402
import virtual  # noqa: E402

HAND_BUILT = {
    "a100-pcie": bare.a100_pcie,
    "cloud-efa": virtual.cloud_efa,
    "dgx-h100": bare.dgx_h100,
    "gb200": grace.gb200,
    "gh200": grace.gh200,
    "gpu-lost": bare.gpu_lost,
    "hostile": hostile.hostile,
    "ib-roce-mixed": bare.ib_roce_mixed,
    "mig-h200": virtual.mig_h200,
    "openshift-init": virtual.openshift_init,
    "openshift-memlock": virtual.openshift_memlock,
    "openshift-roce": virtual.openshift,
    "roce-ipv6": bare.roce_ipv6,
}
LARGE = "/proc/meminfo"


def captured():
    return sorted(f[:-4] for f in os.listdir(HERE) if f.endswith(".txt"))


def build(name):
    if name in HAND_BUILT:
        return HAND_BUILT[name]()
    if name in captured():
        return tree.read_text(os.path.join(HERE, name + ".txt"))
    raise SystemExit("build: no machine '%s'; --list names them" % name)


def about(name):
    if name in HAND_BUILT:
        return " ".join(HAND_BUILT[name].__doc__.split("\n\n")[0].split())
    header = tree.read_text(os.path.join(HERE, name + ".txt")).header
    return "captured: " + (header[0] if header else "")


def main(args):
    flags = [a for a in args if a.startswith("--")]
    rest = [a for a in args if not a.startswith("--")]
    names = sorted(set(HAND_BUILT) | set(captured()))
    if flags == ["--list"] and not rest:
        for name in names:
            print("%-18s %s" % (name, about(name)))
        return
    if not rest or set(flags) - {"--dir", "--large"}:
        sys.stderr.write(__doc__.split("\n\n")[1] + "\n")
        raise SystemExit(2)
    os.makedirs(rest[0], exist_ok=True)
    for name in rest[1:] or names:
        made, path = build(name), os.path.join(rest[0], name)
        if "--dir" not in flags:
            made.write_tar(path + ".tar")
            continue
        made.write_dir(path)
        if "--large" in flags and name == "hostile":
            os.truncate(path + LARGE, 1 << 30)


main(sys.argv[1:])
