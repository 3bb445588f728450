#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""jobs: machines by what a job started on them loads: several NCCLs, verbs, plug-ins.

    tests/machines/jobs.py OUT-DIR [NAME…]     OUT-DIR/NAME.tar
    tests/machines/jobs.py --list

Built from the slots of rails.py.  tests/cli/nccl_jobs.t says what must come of them.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import rails as R  # noqa: E402
from rails import Node, roce  # noqa: E402

PYTHON = "/usr/local/lib/python3.10/dist-packages"


def railed(**more):
    """Four GPUs with a RoCE port each."""
    return Node(R.rails(roce, 4), **more)


def wheel(node, version, site=PYTHON):
    """PyTorch from pip, which brings its own NCCL."""
    t = node.m.tree
    t.file(site + "/torch/version.py", "__version__ = '2.8.0+cu128'\n")
    t.file(site + "/nvidia/nccl/lib/libnccl.so.2", b"")
    t.file(site + "/nvidia_nccl_cu12-%s.dist-info/METADATA" % version, "Version: %s\n" % version)
    return node


def wheel_older():
    """the system's NCCL is newer than PyTorch's own"""
    return wheel(railed(nccl="2.27.5"), "2.18.1")


def wheel_newer():
    """the system's NCCL is older than PyTorch's own"""
    return wheel(railed(nccl="2.18.3"), "2.27.3")


def wheel_like():
    """two releases that do the same here"""
    return wheel(railed(nccl="2.27.5"), "2.27.3")


def wheel_path():
    """LD_LIBRARY_PATH names the folder of PyTorch's own"""
    return wheel(railed(nccl=None, env={"LD_LIBRARY_PATH": PYTHON + "/nvidia/nccl/lib"}), "2.27.3")


def path_older():
    """LD_LIBRARY_PATH has an NCCL, which the loader takes before the system's"""
    node = railed(nccl="2.27.5", env={"LD_LIBRARY_PATH": "/opt/nccl/lib:/usr/local/cuda/lib64"})
    node.m.shared_lib("/opt/nccl/lib/libnccl.so.2", "libnccl.so.2.19.3")
    return node


def preloaded():
    """LD_PRELOAD names an NCCL, and PyTorch brings another"""
    node = railed(nccl="2.27.5", env={"LD_PRELOAD": "/usr/lib/libx.so:/opt/nccl/lib/libnccl.so.2"})
    node.m.shared_lib("/opt/nccl/lib/libnccl.so.2", "libnccl.so.2.19.3")
    return wheel(node, "2.28.9")


def untold():
    """a copy in LD_LIBRARY_PATH that tells no version, before the system's"""
    node = railed(nccl="2.19.3", env={"LD_LIBRARY_PATH": "/opt/nccl/lib"})
    node.m.tree.file("/opt/nccl/lib/libnccl.so.2", b"")
    return node


def slim(provider):
    """A container's image without libibverbs, or without the providers of its own package."""
    node = railed(nccl="2.27.5")
    t = node.m.tree
    t.file("/.dockerenv", b"")
    for path in [p for p in t.nodes if "libibverbs" in p]:
        t.nodes.pop(path)
    if provider:
        node.m.verbs()
        t.file("/usr/lib/x86_64-linux-gnu/libibverbs/lib%s-rdmav34.so" % provider, b"")
    return node


def slim_none():
    """no libibverbs"""
    return slim(None)


def slim_other():
    """libibverbs with another provider than the NICs'"""
    return slim("rxe")


def slim_whole():
    """libibverbs with the NICs' provider"""
    return slim("mlx5")


MACHINES = {k.replace("_", "-"): v for k, v in list(globals().items())
            if getattr(v, "__doc__", None) and getattr(v, "__module__", "") == __name__ and
            not isinstance(v, type) and k not in ("railed", "slim", "wheel")}


def main(args):
    if args == ["--list"]:
        for name, make in sorted(MACHINES.items()):
            print("%-18s %s" % (name, make.__doc__))
        return
    if not args:
        sys.stderr.write(__doc__.split("\n\n")[1] + "\n")
        raise SystemExit(2)
    os.makedirs(args[0], exist_ok=True)
    for name in args[1:] or sorted(MACHINES):
        MACHINES[name]().m.finish().write_tar(os.path.join(args[0], name + ".tar"))


if __name__ == "__main__":
    main(sys.argv[1:])
