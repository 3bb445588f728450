# SPDX-License-Identifier: MIT
"""TAP of jobs as `stoker agent` sees them: agent_jobs.py STOKER FAKE-NVML DOCS, in an empty folder.  Standard library alone."""
import json
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


for fn in (owners, instances, training, xids, reloaded):
    part(fn)
done()
