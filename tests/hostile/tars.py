#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tars: captures that were made to do harm.

    tars.py KIND OUT.tar
"""
import io
import sys
import tarfile


def add(tar, name, data=b"", kind=tarfile.REGTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(data)
    tar.addfile(info, io.BytesIO(data))


def pax(tar):
    """The length counts less than stands before its end."""
    add(tar, "pax", b"     \n6 path=aaaa\n", b"x")
    add(tar, "proc/cmdline", b"quiet")


def deep(tar):
    """Fifty thousand folders, not one of them in the archive."""
    for i in range(100):
        add(tar, "sys/%d/" % i + "a/" * 480 + "f", b"1")


def errors(tar):
    add(tar, "proc/cmdline", b"quiet")
    add(tar, "stoker/errors", b"".join(b"/e/%d\t5\n" % i for i in range(80000)))


def env(tar):
    rows = b",".join(b'{"name":"NCCL_X%d","value":"1"}' % i for i in range(60000))
    add(tar, "stoker/self.json", b'{"env":[' + rows + b"]}")


def values(tar):
    add(tar, "stoker/self.json", b"[" + b"1," * 2000000 + b"1]")


def names(tar):
    for name in ("eth0", "a\nb", "\x1b[31mred", "\udcff", "x;touch pwned", "$(touch pwned)", "q'q", "-rf", "\uffff"):
        for path in ("sys/class/net/", "sys/class/infiniband/", "sys/bus/pci/devices/"):
            add(tar, path + name + "/class", b"0x030200")
            add(tar, path + name + "/mtu", b"1500")
        port = "sys/class/infiniband/" + name + "/ports/1/"
        add(tar, port + "state", b"4: ACTIVE")
        add(tar, port + "link_layer", b"InfiniBand")
        add(tar, port + "rate", b"400 Gb/sec (4X NDR)")


def forged(tar):
    """A GPU and a host with lines of their own in their names."""
    line = r"\n  PASS     forged                  all is well\t"
    gpu = '{"index":0,"bdf":"0000:01:00.0","name":"GPU' + line + '","state":"ok' + line + '"}'
    doc = '{"schema":"stoker.nvml/1","nvidia":{"driver":"580' + line + '"},"gpus":[' + gpu + "]}"
    add(tar, "stoker/nvml.json", doc.encode())
    add(tar, "stoker/self.json", ('{"hostname":"h' + line + '"}').encode())


KINDS = {f.__name__: f for f in (pax, deep, errors, env, values, names, forged)}

if __name__ == "__main__":
    with tarfile.open(sys.argv[2], "w", format=tarfile.GNU_FORMAT) as out:
        KINDS[sys.argv[1]](out)
