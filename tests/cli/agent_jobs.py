# SPDX-License-Identifier: MIT
"""TAP of jobs as `stoker agent` sees them: agent_jobs.py STOKER FAKE-NVML DOCS, in an empty folder.  Standard library alone."""
import json
import os
import pathlib
import re
import signal
import sys
import time

import agent_box
from agent_box import wait
from serve_test import STOKER, check, done, part

FAKE, DOCS = sys.argv[2], sys.argv[3]
POD = "12345678-1234-1234-1234-123456789abc"
OTHER = "aaaaaaaa-1234-1234-1234-123456789abc"
CONTAINER = "ab" * 32


def put(root, path, text):
    p = pathlib.Path(root, path)
    p.parent.mkdir(parents=True, exist_ok=True)
    p.with_name(p.name + ".new").write_text(text)
    p.with_name(p.name + ".new").rename(p)  # in one step, so that nobody sees half of it


def process(root, pid, cgroup):
    put(root, f"proc/{pid}/cgroup", f"0::{cgroup}\n")
    put(root, f"proc/{pid}/cmdline", "python3\0train.py\0")
    put(root, f"proc/{pid}/status", "Name:\tpython3\nUid:\t0\t0\t0\t0\n")


def pod(uid, container="cd" * 32):
    return f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid.replace('-', '_')}.slice/cri-containerd-{container}.scope"


def on_gpus(*pids):
    """The fake driver's processes, a list a GPU."""
    return json.dumps({"gpus": [{"index": i, "temp": 40, "processes": [{"pid": p, "memory": 1 << 30} for p in list_]} for i, list_ in enumerate(pids)]})


def start(root, *args, live, doc="dgx-h100", **env):
    put(".", "live.json", live)
    pathlib.Path("control").touch()
    env = dict(FAKE_NVML_JSON=f"{DOCS}/{doc}.json", FAKE_NVML_LIVE="live.json", FAKE_NVML_CONTROL="control", STOKER_NVML_LIB=FAKE, **env)
    return agent_box.Agent(STOKER, "--no-history", "--root", root, *args, env=env)


def labels(a, gpu, name="DCGM_FI_DEV_GPU_TEMP"):
    """The labels of jobs that a GPU's series has; None: there is no such series, or more than one."""
    found = re.findall(r'^%s{gpu="%d",(.*)} ' % (name, gpu), a.metrics(), re.M)
    all_ = dict(re.findall(r'(\w+)="([^"]*)"', found[0])) if len(found) == 1 else None
    return all_ and {k: v for k, v in all_.items() if k in ("hpc_job", "pod", "namespace", "container", "pod_uid", "unit")}


def owners():
    root = "machine"
    process(root, 11, "/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0")
    process(root, 12, pod(POD, CONTAINER))
    process(root, 13, pod(OTHER))
    process(root, 14, "/system.slice/train.service")
    process(root, 15, f"/docker/{CONTAINER}")
    put(root, f"var/log/pods/ml_llama-0_{POD}/trainer/0.log", "")
    put(root, f"var/log/pods/ml_other-1_{OTHER}/web/0.log", "")
    put(root, f"var/log/containers/llama-0_ml_trainer-{CONTAINER}.log", "")
    a = start(root, live=on_gpus([11], [12], [12, 13], [14], [15], [99], []))
    of_pod = {"pod": "llama-0", "namespace": "ml", "container": "trainer", "pod_uid": POD}
    wait(lambda: labels(a, 0), 20)
    check("a Slurm job's GPU has hpc_job", labels(a, 0) == {"hpc_job": "4711"}, a.metrics()[:2000])
    check("a pod's has pod, namespace, container", labels(a, 1) == of_pod, labels(a, 1))
    check("one that two pods share has what they agree on, and stays one series", labels(a, 2) == {"namespace": "ml"}, labels(a, 2))
    check("a unit's has unit, a container's the beginning of its id",
          labels(a, 3) == {"unit": "train.service"} and labels(a, 4) == {"container": CONTAINER[:12]}, labels(a, 3), labels(a, 4))
    check("one with a process that cannot be seen, or none, has no more than before", labels(a, 5) == {} and labels(a, 6) == {})
    check("who has which part is with the processes", a.value("stoker_process_gpu_memory_bytes", 'gpu="2"', 'pod="llama-0"') == 1 << 30 and
          a.value("stoker_process_gpu_memory_bytes", 'gpu="2"', 'pod="other-1"') == 1 << 30, a.metrics()[-3000:])
    d = a.ask("/api/v1/processes")[1]
    check("the API has the same", d["gpu_labels"]["0"] == {"hpc_job": "4711"} and d["gpu_labels"]["1"] == of_pod and "5" not in d["gpu_labels"], d["gpu_labels"])
    put(".", "live.json", on_gpus([], [12]))
    a.stop()


def instances():
    root = "mig"
    process(root, 21, pod(POD))
    process(root, 22, pod(OTHER))
    put(root, f"var/log/pods/a_one_{POD}/x/0.log", "")
    put(root, f"var/log/pods/b_two_{OTHER}/x/0.log", "")
    live = {"gpus": [{"index": 0, "temp": 40, "processes": [{"pid": 21, "memory": 1, "gi": 1, "ci": 0}, {"pid": 22, "memory": 1, "gi": 5, "ci": 0}]}]}
    a = start(root, live=json.dumps(live), doc="h200-mig")
    wait(lambda: 'pod="two"' in a.metrics(), 20)
    mine = [l for l in a.metrics().splitlines() if 'GPU_I_ID="1"' in l and l.startswith("DCGM_")]
    theirs = [l for l in a.metrics().splitlines() if 'GPU_I_ID="5"' in l and l.startswith("DCGM_")]
    check("an instance of MIG has the labels of its own pod", mine and theirs and all('pod="one"' in l for l in mine) and all('pod="two"' in l for l in theirs),
          mine[:3], theirs[:3])
    check("the whole GPU, which two share, has neither", not re.search(r'^DCGM_FI_DEV_GPU_TEMP{(?!.*GPU_I_ID).*pod="', a.metrics(), re.M))
    a.stop()


def training():
    root = "trained"
    put(root, "run/stoker/jobs/llama.json", json.dumps(dict(schema="stoker.job/1", job="llama", user="alice", updated=time.time(), step=7, loss=2.5, mfu=0.4, gpus=[0, 1])))
    put(root, "run/stoker/jobs/half.json", '{"schema":')
    a = start(root, "--no-gpu", live="{}")
    wait(lambda: a.value("stoker_job_step", 'job="llama"'), 20)
    check("a job's file becomes metrics", a.value("stoker_job_step", 'job="llama"', 'kind="training"', 'user="alice"') == 7 and a.value("stoker_job_mfu_ratio") == 0.4 and
          a.value("stoker_job_state", 'state="running"') == 1 and a.value("stoker_job_tokens_per_second") is None, a.metrics()[-2000:])
    jobs = {j["file"]: j for j in a.ask("/api/v1/processes")[1]["jobs"]["jobs"]}
    check("and JSON, with the reason for a file that is none", jobs["llama.json"]["step"] == 7 and jobs["llama.json"]["steps"] is None and jobs["half.json"]["error"], jobs)
    put(root, "other/secret.json", json.dumps(dict(schema="stoker.job/1", job="secret", updated=time.time(), step=1)))
    pathlib.Path(root, "run/stoker/jobs/link.json").symlink_to(pathlib.Path(root, "other/secret.json").absolute())
    os.mkfifo(pathlib.Path(root, "run/stoker/jobs/pipe.json"))
    told = lambda a: {j["file"]: j.get("error", "") for j in a.ask("/api/v1/processes")[1]["jobs"]["jobs"]}
    check("a file that is a link or a pipe is not read, and told", wait(lambda: all("no regular file" in told(a).get(f, "") for f in ("link.json", "pipe.json")), 20), told(a))
    live = pathlib.Path("runtime/stoker/jobs").absolute()
    put(".", str(live / "mine.json"), json.dumps(dict(schema="stoker.job/1", job="mine", updated=time.time(), step=1)))
    (live / "link.json").symlink_to(pathlib.Path(root, "other/secret.json").absolute())
    b = agent_box.Agent(STOKER, "--no-history", "--no-gpu", env=dict(XDG_RUNTIME_DIR=str(live.parent.parent)))
    check("so it is on this machine", wait(lambda: "no regular file" in told(b).get("link.json", "") and told(b).get("mine.json") == "", 20) and
          b.value("stoker_job_step", 'job="secret"') is None, told(b))
    b.stop()
    pathlib.Path(root, "run/stoker/jobs/llama.json").unlink()
    check("a file that is removed is no job any more", wait(lambda: a.value("stoker_job_step") is None, 20))
    a.stop()


def xids():
    """The driver (fake) and the kernel's log (a file) tell of the same XIDs."""
    root = "faulty"
    put(root, "dev/kmsg", "")
    a = start(root, live=on_gpus([], [], []))
    wait(lambda: a.value("DCGM_FI_DEV_XID_ERRORS", 'gpu="2"') == 0, 20)
    bus = re.search(r'^DCGM_FI_DEV_GPU_TEMP{gpu="2",.*pci_bus_id="0000([^"]*)\.0"', a.metrics(), re.M)[1].lower()

    def kernel(code, text="pid=7, name=python3"):
        with open(f"{root}/dev/kmsg", "a") as f:
            f.write(f"NVRM: Xid (PCI:{bus}): {code}, {text}\n")

    def driver(*told):  # code and number of each: a number is told once
        put(".", "control", ",".join(f"xid:2:{c}:{n}" for c, n in told))

    def total(code):
        return a.value("stoker_gpu_xid_errors_total", 'gpu="2"', f'xid="{code}"')

    def events(code, kind="xid"):
        return [e for e in a.ask("/api/v1/events?from=-1h&kind=" + kind)[1]["events"] if f"XID {code}" in e["text"]]
    driver((31, 1))
    wait(lambda: total(31) == 1, 20)
    kernel(31)
    check("the driver first, then the log: one XID, and the log's words are kept", wait(lambda: events(31, "kernel"), 20) and total(31) == 1 and
          len(events(31)) == 1 and events(31, "kernel")[0]["gpu"] == 2, events(31), events(31, "kernel"), a.metrics()[-1500:])
    kernel(48)
    wait(lambda: total(48) == 1, 20)
    driver((31, 1), (48, 2), (13, 3))  # 13 comes behind 48: when it is there, so is 48
    check("the log first, then the driver: one XID", wait(lambda: total(13) == 1, 20) and total(48) == 1 and len(events(48)) == 1, events(48))
    kernel(79, "GPU has fallen off the bus.")
    check("the log alone counts", wait(lambda: total(79) == 1, 20) and a.value("DCGM_FI_DEV_XID_ERRORS", 'gpu="2"') == 79)
    check("the driver alone does", total(13) == 1)
    check("DCGM's window has them", a.value("DCGM_EXP_XID_ERRORS_COUNT", 'gpu="2"', 'xid="31"', 'window_size_in_ms="300000"') == 1)
    check("another GPU has none", a.value("DCGM_FI_DEV_XID_ERRORS", 'gpu="0"') == 0 and a.value("stoker_gpu_xid_errors_total", 'gpu="0"') is None)
    kernels = bus
    bus = "0000:ff:00"
    kernel(62)
    check("one at an address that is no known GPU's counts there", wait(lambda: a.value("stoker_gpu_xid_errors_total", 'pci_bus_id="0000:ff:00"', 'xid="62"') == 1, 20), kernels)
    a.stop()


def reloaded():
    """A firing alert goes on through SIGHUP when its rule is the same."""
    put("calm", "proc/uptime", "1 1\n")
    spec = "schema: stoker.spec/1\nalerts:\n  hot: {metric: gpu_temperature, warn: 30C, for: 0s}\n"
    put(".", "site.yaml", spec)
    a = start("calm", "-f", "site.yaml", live=on_gpus([]))

    def hot(name="hot"):
        return [(x["state"], x["since_ms"]) for x in a.ask("/api/v1/alerts")[1]["alerts"] if x["name"] == name and x["labels"]["gpu"] == "0"]
    fires = wait(lambda: hot() and hot()[0][0] == "firing", 30)
    before = hot()
    put(".", "site.yaml", spec + "  warm: {metric: gpu_temperature, warn: 20C}\n")
    a.p.send_signal(signal.SIGHUP)
    check("a rule that is the same goes on through SIGHUP, a new one begins", fires and wait(lambda: hot("warm"), 30) and hot() == before and
          hot("warm")[0][1] > before[0][1], before, hot(), hot("warm"), a.text)
    a.stop()


def past():
    """What happened before the agent, or while it was down, is judged once; the log's other faults have rules."""
    root, boot = "past", int(time.time()) - 1000
    put(root, "proc/stat", f"cpu  1 0 0 1 0 0 0 0 0 0\nbtime {boot}\n")
    process(root, 11, "/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0")

    def line(at, text):
        with open(f"{root}/dev/kmsg", "a") as f:
            f.write(f"4,{at},{at * 1000000},-;{text}\n")

    def begin():
        put(".", "live.json", on_gpus([], [], [11]))
        return agent_box.Agent(STOKER, "--history", "past.ring", "--history-size", "8MiB", "--root", root,
                               env=dict(FAKE_NVML_JSON=f"{DOCS}/dgx-h100.json", FAKE_NVML_LIVE="live.json", STOKER_NVML_LIB=FAKE))

    def alert(name, *words):
        found = [x for x in a.ask("/api/v1/alerts")[1]["alerts"] if x["name"] == name and x["state"] == "firing" and all(w in x["summary"] for w in words)]
        return found and found[0]

    def told(word):
        return [e for e in a.ask("/api/v1/events?from=-2h")[1]["events"] if word in e["text"] and e["kind"] != "alert"]
    pathlib.Path(root, "dev").mkdir(parents=True, exist_ok=True)
    gpu2 = json.loads(pathlib.Path(f"{DOCS}/dgx-h100.json").read_text())["gpus"][2]
    bus = next(v for v in gpu2.values() if isinstance(v, str) and re.fullmatch(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:00.0", v))[-12:-2].lower()
    line(5, f"NVRM: Xid (PCI:{bus}): 79, pid=11, name=python3, GPU has fallen off the bus.")
    a = begin()
    x = wait(lambda: alert("GpuXidFatal", "GPU 2", "XID 79"), 30) and alert("GpuXidFatal", "XID 79")
    check("an XID of the log's backlog fires in the first seconds, with name, cause and action", x and "FALLEN_OFF_THE_BUS" in x["summary"] and "action: reboot" in x["summary"], x, a.text)
    check("an old one is not laid to today's job", x and x["whose"]["job"] is None and "4711" not in told("XID 79")[0]["text"], x, told("XID 79"))
    wait(lambda: a.ask("/api/v1/processes")[1]["processes"], 20)
    line(int(time.time()) - boot, f"NVRM: Xid (PCI:{bus}): 31, pid=11, name=python3, MMU Fault")
    x = wait(lambda: alert("GpuXid", "XID 31"), 30) and alert("GpuXid", "XID 31")
    check("a new one says whose job it hit", x and x["whose"]["job"] == "4711" and x["whose"]["user"] == "0" and told("XID 31")[0]["text"].endswith("(job 4711, user 0)"), x, told("XID 31"))
    a.stop(signal.SIGKILL)
    line(int(time.time()) - boot, f"NVRM: Xid (PCI:{bus}): 48, pid=11, DBE (double bit error)")
    line(int(time.time()) - boot, "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24006, Fatal, Link 46 MC TS crumbstore MCTO")
    a = begin()
    check("one of while it was down fires", wait(lambda: alert("GpuXidFatal", "GPU 2", "XID 48"), 30), a.ask("/api/v1/alerts"), told("XID"))
    check("the one of before does not fire again, nor is it told again", not alert("GpuXidFatal", "XID 79") and len(told("XID 79")) == 1, told("XID 79"))
    check("a fatal SXid fires", alert("NvswitchSxidFatal", "0000:c1:00.0", "24006"), a.ask("/api/v1/alerts"))
    for name, text, words in (
            ("PcieErrorFatal", "pcieport 0000:00:01.0: AER: Uncorrectable (Fatal) error message received from 0000:3b:00.0", "0000:3b:00.0"),
            ("MachineCheck", "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 4: b200000000070005", "CPU 3"),
            ("MemoryErrorUncorrected", "EDAC MC0: 1 UE memory read error on DIMM_A1 (channel:0 slot:0", "DIMM_A1"),
            ("NvmeTimeout", "nvme nvme0: I/O 12 QID 3 timeout, aborting", "nvme0"),
            ("TaskHung", "INFO: task python3:4711 blocked for more than 122 seconds.", "python3")):
        line(int(time.time()) - boot, text)
        check(f"{name} fires and names {words}", wait(lambda: alert(name, words), 20), a.ask("/api/v1/alerts"), told(text[:20]))
    for device, words in (("0000:5e:00.0", ("AER: Corrected error received: 0000:5e:00.0", "PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)")),
                          ("0000:00:03.2", ("DPC: containment event, status:0x1f01 source:0x0000", "PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)"))):
        for port, text in zip(("0000:00:03.2", device), words):
            line(int(time.time()) - boot, f"pcieport {port}: {text}")
        line(int(time.time()) - boot, f"pcieport {device}: device [1022:1483] error status/mask=00000001/0000e000")
        check(f"an error of {device} that two lines tell counts once", wait(lambda: a.value("stoker_kernel_faults_total", f'device="{device}"'), 20) == 1, a.metrics()[-400:])
    a.stop()


def causes():
    """A GPU falls off the bus: the log tells XID 79, the driver loses it; both are one trouble, another GPU's XID is not."""
    root = "fallen"
    put(root, "dev/kmsg", "")
    a = start(root, live=on_gpus([], [], []))
    wait(lambda: a.value("DCGM_FI_DEV_XID_ERRORS", 'gpu="2"') == 0, 20)
    bus = {g: re.search(r'^DCGM_FI_DEV_GPU_TEMP{gpu="%d",.*pci_bus_id="0000([^"]*)\.0"' % g, a.metrics(), re.M)[1].lower() for g in (2, 5)}

    def alerts(name):
        return [x for x in a.ask("/api/v1/alerts")[1]["alerts"] if x["name"] == name and x["state"] == "firing"]
    with open(f"{root}/dev/kmsg", "a") as f:
        f.write(f"NVRM: Xid (PCI:{bus[2]}): 79, pid=7, name=python3, GPU has fallen off the bus.\nNVRM: Xid (PCI:{bus[5]}): 62, pid=8, name=python3\n")
    put(".", "control", "lose:2")
    ok = wait(lambda: alerts("GpuLost") and alerts("GpuLost")[0]["follows"], 60)
    lost, xid = alerts("GpuLost")[0], {x["labels"]["xid"]: x for x in alerts("GpuXidFatal")}
    check("what a lost GPU raises stands below one root", ok and lost["cause"] == "gpu_lost:gpu=2" and lost["role"] == "root" and lost["root"] is None and
          "GpuXidFatal" in lost["follows"] and xid["79"]["root"] == lost["id"] and xid["79"]["cause"] == lost["cause"], lost, xid)
    check("another GPU's does not", xid["62"]["root"] is None and xid["62"]["cause"] is None, xid["62"])
    a.stop()


for fn in (owners, instances, training, xids, past, reloaded, causes):
    part(fn)
done()
