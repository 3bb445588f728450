# SPDX-License-Identifier: MIT
"""machine: what a hand-built machine is besides its devices.

A Machine collects the tree and what system calls said (/stoker/self.json, keys of
struct hw_self) and the driver's answer (/stoker/nvml.json), and knows the texts of
the host files: distribution, DMI, cgroup, mounts, modules, libraries.
"""
import json

from sysfs import Pci, cpulist
from tree import Tree

GIB = 1 << 30


def mount_words(fstype, options, source):
    """The four words of mountinfo: the mount point's own options come first, what a remote
    file system was mounted with last, as the kernel has them."""
    point = ("rw", "ro", "relatime", "noatime", "nodiratime", "nosuid", "nodev", "noexec")
    if not fstype.startswith(("nfs", "lustre", "ceph", "beegfs", "weka", "gpfs", "cifs")):
        return options, fstype, source, "rw"
    own = [w for w in options.split(",") if w in point]
    rest = [w for w in options.split(",") if w not in point]
    if not own:
        return options, fstype, source, ""
    return ",".join(own), fstype, source, ",".join(["rw"] + rest)


class Machine:
    def __init__(self, hostname, kernel, cpu, iommu=None):
        """iommu: the type of every group ("DMA", "identity"), None without one."""
        self.tree = Tree()
        self.hostname, self.kernel, self.cpu, self.iommu = hostname, kernel, cpu, iommu
        self.arch, self.groups = "x86_64", 0
        self.uverbs = 0
        self.addrs, self.ifs, self.mounts, self.fs, self.env = [], [], [], [], {}
        self.daemons, self.packages, self.host_pids = [], [], True
        self.memlock = self.memlock_hard = -1
        self.nofile, self.uid, self.affinity = 1048576, 0, cpu.threads
        self.nvml = None
        t = self.tree
        t.file("/proc/sys/kernel/osrelease", kernel)
        t.file("/proc/sys/kernel/hostname", hostname)
        t.file("/proc/sys/kernel/numa_balancing", 1 if cpu.node_count > 1 else 0)

    # ---- used by the builders
    def host(self, bus, numa=-1):
        """A host bridge: "15" is /sys/devices/pci0000:15."""
        return Pci(self, "/sys/devices/pci0000:" + bus, numa=numa)

    def domain(self, bus, numa=-1):
        """A host bridge of another PCI domain: "0009:00"."""
        return Pci(self, "/sys/devices/pci" + bus, numa=numa)

    def near(self, numa):
        return self.cpu.node_list(numa) if numa >= 0 else cpulist(range(self.cpu.threads))

    def iommu_group(self):
        if self.iommu is None:
            return None
        self.groups += 1
        return self.groups - 1

    def addr(self, ifname, addr, prefix):
        self.addrs.append({"ifname": ifname, "family": "inet6" if ":" in addr else "inet",
                           "addr": addr, "prefix": prefix})

    # ---- the host's files
    def os(self, pretty, id_, version):
        self.tree.file("/etc/os-release", 'PRETTY_NAME="%s"\nNAME="%s"\nID=%s\nVERSION_ID="%s"\n'
                       % (pretty, pretty.split(" ")[0], id_, version))

    def dmi(self, vendor, product, board=None, bios=None):
        path = "/sys/devices/virtual/dmi/id"
        self.tree.files(path, sys_vendor=vendor, product_name=product, board_vendor=vendor,
                        board_name=board, bios_vendor=bios, chassis_vendor=vendor)
        self.tree.rel_link("/sys/class/dmi/id", path)

    def cmdline(self, text):
        self.tree.file("/proc/cmdline", text)

    def modules(self, *names):
        self.tree.file("/proc/modules", "".join(
            "%s %d 0 - Live 0x0000000000000000\n" % (n, 65536) for n in names))
        for name in names:
            self.tree.file("/sys/module/%s/refcnt" % name, 0)

    def module_version(self, name, version):
        self.tree.file("/sys/module/%s/version" % name, version)

    def nvidia_driver(self, version, open_module, gpus):
        """/proc/driver/nvidia and the device nodes for gpus: (bdf, minor, model)."""
        what = ("NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build  (dvs-builder@U16)"
                if open_module else "NVIDIA UNIX x86_64 Kernel Module  %s") % version
        self.tree.file("/proc/driver/nvidia/version",
                       "NVRM version: %s  Fri May 24 15:15:18 UTC 2024\n"
                       "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n" % what)
        self.module_version("nvidia", version)
        for bdf, minor, model in gpus:
            self.tree.file("/proc/driver/nvidia/gpus/%s/information" % bdf,
                           "Model: \t\t %s\nIRQ:   \t\t 152\nBus Type: \t PCIe\n"
                           "Bus Location: \t %s\nDevice Minor: \t %d\nGPU Excluded:\t No\n"
                           % (model, bdf, minor))
            self.tree.file("/dev/nvidia%d" % minor, b"")
        for node in ("nvidiactl", "nvidia-uvm"):
            self.tree.file("/dev/" + node, b"")

    def mount(self, source, target, fstype, options="rw,relatime", size=None, avail=None, at="/"):
        """size and avail in GiB: what statvfs() of the target says; at: the folder of the
        file system that is mounted (not "/" for a bind mount)."""
        self.mounts.append((source, target, fstype, options, at))
        if size is not None:
            self.fs.append({"target": target, "size_bytes": int(size * GIB),
                            "avail_bytes": int((size if avail is None else avail) * GIB)})

    def base_mounts(self, cgroup2=True):
        self.mount("proc", "/proc", "proc", "rw,nosuid,nodev,noexec,relatime")
        self.mount("sysfs", "/sys", "sysfs", "rw,nosuid,nodev,noexec,relatime")
        if cgroup2:
            self.mount("cgroup2", "/sys/fs/cgroup", "cgroup2", "rw,nosuid,nodev,noexec,relatime")

    def cgroup2(self, path="/", cpu_max="max 100000", cpuset=None, mem="max", pids="max"):
        """Version 2: the limits of the cgroup this process is in.  A container with its
        own cgroup namespace sees path "/" and its limits at the top."""
        t = self.tree
        t.file("/proc/self/cgroup", "0::" + path)
        t.file("/proc/1/cgroup", "0::" + ("/" if path == "/" else "/init.scope"))
        here = "/sys/fs/cgroup" + (path if path != "/" else "")
        t.file("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc")
        cpuset = cpuset or cpulist(range(self.cpu.threads))
        if path == "/" and not self.in_container():
            t.file(here + "/cpuset.cpus.effective", cpuset)
            return
        t.files(here, **{"cpu.max": cpu_max, "cpuset.cpus.effective": cpuset, "memory.max": mem,
                         "pids.max": pids, "cgroup.controllers": "cpuset cpu io memory pids"})

    def in_container(self):
        return any(p in self.tree.nodes for p in ("/.dockerenv", "/run/.containerenv"))

    def cuda(self, version, nccl=None, cudnn=None, lib="/usr/lib/x86_64-linux-gnu"):
        """The toolkit below /usr/local, NCCL and cuDNN among the system's libraries."""
        t = self.tree
        short = ".".join(version.split(".")[:2])
        home = "/usr/local/cuda-" + short
        t.link("/usr/local/cuda", "cuda-" + short)
        t.file(home + "/version.json", json.dumps(
            {"cuda": {"name": "CUDA SDK", "version": version}}, indent=3))
        self.shared_lib("%s/targets/x86_64-linux/lib/libcudart.so.%s" % (home, short.split(".")[0]),
                     "libcudart.so." + version)
        t.link(home + "/lib64", "targets/x86_64-linux/lib")
        if nccl:
            self.shared_lib(lib + "/libnccl.so.2", "libnccl.so." + nccl)
        if cudnn:
            self.shared_lib(lib + "/libcudnn.so." + cudnn.split(".")[0], "libcudnn.so." + cudnn)

    def verbs(self, lib="/usr/lib/x86_64-linux-gnu"):
        self.shared_lib(lib + "/libibverbs.so.1", "libibverbs.so.1.14.39.0")

    def shared_lib(self, path, target):
        """A shared library as it is installed: a soname link to a versioned file."""
        folder = path[: path.rfind("/")]
        self.tree.link(path, target)
        self.tree.file(folder + "/" + target, b"")

    # ---- the two documents
    def self_doc(self):
        return {"schema": "stoker.self/1", "hostname": self.hostname, "kernel": self.kernel,
                "arch": self.arch, "affinity_cpus": self.affinity, "memlock_bytes": self.memlock,
                "memlock_hard_bytes": self.memlock_hard, "nofile": self.nofile, "uid": self.uid,
                "addrs": self.addrs, "ifs": self.ifs, "filesystems": self.fs,
                "daemons": self.daemons, "host_pids": self.host_pids,
                "packages": [{"name": n, "version": v} for n, v in self.packages],
                "env": [{"name": k, "value": v} for k, v in sorted(self.env.items())]}

    def finish(self):
        t = self.tree
        rows = ["%d 1 0:%d %s %s %s - %s %s %s\n" % (30 + i, 30 + i, at, target,
                                                     *mount_words(fstype, options, source))
                for i, (source, target, fstype, options, at) in enumerate(self.mounts)]
        t.file("/proc/self/mountinfo", "".join(rows))
        t.file("/proc/self/mounts", "".join("%s %s %s %s 0 0\n" % m[:4] for m in self.mounts))
        t.link("/proc/mounts", "self/mounts")
        t.file("/stoker/self.json", json.dumps(self.self_doc(), indent=1))
        if self.nvml is not None:
            t.file("/stoker/nvml.json", json.dumps(dict({"schema": "stoker.nvml/1"}, **self.nvml),
                                                   indent=1))
        return t
