#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TAP: the files of `stoker render slurm` on a real Slurm, real.py STOKER MACHINES.

tests/slurm/site.yaml is rendered, tools/slurm-here starts the whole cluster from it with short
times, and what the spec says is held to what Slurm does.  The cluster ends with this process,
however that ends.  Standard library alone."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
STOKER, MACHINES = (os.path.realpath(p) for p in sys.argv[1:3])
NODES = [f"hgx{i}" for i in range(1, 5)] + ["cloud1", "cloud2"]
# Times that the spec puts at minutes, and Slurm's own pauses: a test cannot wait for them.
SHORT = ("AuthInfo+=cred_expire=10", "SchedulerParameters+=bf_interval=2", "SchedulerParameters+=sched_interval=2",
         "SchedulerParameters+=batch_sched_delay=0", "SlurmctldParameters+=power_save_interval=2", "SuspendTime=10",
         "SuspendTimeout=5", "ResumeTimeout=20", "HealthCheckInterval=5", "KillWait=2", "SlurmdTimeout=20", "CompleteWait=0")
count = failed = 0
began = time.monotonic()


def note(text, to=None):
    for line in str(text).splitlines():
        print("#", line, flush=True, file=to)


def check(what, ok, *evidence):
    global count, failed
    count += 1
    if not ok:
        failed += 1
    print(f"{'ok' if ok else 'not ok'} {count} - {what}  # {time.monotonic() - began:.0f} s", flush=True)
    if not ok:
        for e in evidence:
            note(e, sys.stderr)
    return ok


def skip(what, why):
    global count
    count += 1
    print(f"ok {count} - {what} # SKIP {why}", flush=True)


def done():
    print(f"1..{count}")
    note(f"{time.monotonic() - began:.0f} s")
    sys.exit(bool(failed))


class Cluster:
    """tools/slurm-here, attached: it ends with our end of the pipe."""

    def __init__(self, rendered, work, *more):
        self.work = work
        words = [TOP + "/tools/slurm-here", "start", "--attach", "--wait", "600", "--work", work, rendered, "--stoker", STOKER, "--machine",
                 MACHINES + "/dgx-h100.tar", "--bad-machine", MACHINES + "/gpu-lost.tar"]
        words += ["--remove", scratch]
        for s in SHORT:
            words += ["--set", s]
        self.p = subprocess.Popen(words + list(more), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, start_new_session=True)
        self.first = self.p.stdout.readline().strip()
        if not self.first.startswith("up"):
            self.first += "\n" + self.p.stdout.read()
        os.environ["SLURM_CONF"] = work + "/etc/slurm.conf"
        os.environ["PATH"] = f"{work}/bin:{os.environ['PATH']}"

    def say(self, words):
        self.p.stdin.write(words + "\n")
        self.p.stdin.flush()

    def stop(self):
        self.p.stdin.close()
        try:
            return self.p.wait(40)
        except subprocess.TimeoutExpired:
            return None

    def log(self, name, lines=20):
        try:
            with open(f"{self.work}/log/{name}.log", errors="replace") as f:
                return "".join(f.readlines()[-lines:])
        except OSError as e:
            return str(e)


def run(*words, cwd=None):
    return subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=cwd)


def out(*words):
    return run(*words).stdout


def wait(ok, seconds=30):
    """The first true answer, or the last one."""
    end = time.monotonic() + seconds
    while True:
        got = ok()
        if got or time.monotonic() > end:
            return got
        time.sleep(0.25)


def fields(text):
    return dict(w.split("=", 1) for w in text.split() if "=" in w)


def job(number):
    return fields(out("scontrol", "-o", "show", "job", str(number)))


def state(number):
    return job(number).get("JobState", "gone")


def node(name):
    text = out("scontrol", "-o", "show", "node", name)
    got = fields(text)
    reason = re.search(r" Reason=(.*?)(?: \[|  |$)", text)
    got["Reason"] = reason[1] if reason else ""
    return got


def submit(*words):
    r = run("sbatch", "--parsable", *words, cwd=c.work + "/jobs")
    return r.stdout.strip().split(";")[0] or "refused: " + r.stderr.strip()


def sleeper(user, gpus, *more, nodes=1, seconds=600):
    return submit(f"--uid={user}", f"--nodes={nodes}", f"--gres=gpu:{gpus}", "--mem=100", "--output=sleep-%j.out", "--wrap",
                  f"sleep {seconds}", *more)


def clear():
    """No job is left and every node of ours is idle again."""
    for partition in ("train", "debug"):
        run("scancel", "-p", partition)
    wait(lambda: not out("squeue", "-h", "-p", "train,debug").strip())
    return wait(lambda: all(node(n).get("State") == "IDLE" for n in NODES[:4]))


def saw(text):
    return [json.loads(line[4:]) for line in text.splitlines() if line.startswith("SAW ")]


def output_of(number):
    """What the job printed: where Slurm says it went."""
    path = job(number).get("StdOut", "")
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def ends(number, seconds=60):
    return wait(lambda: state(number) if state(number) in ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "gone") else "", seconds)


def started(number, seconds=30):
    return wait(lambda: state(number) == "RUNNING", seconds)


def waits(number, *reasons):
    return wait(lambda: state(number) == "PENDING" and job(number).get("Reason") in reasons, 20)


def complaints(path):
    """Lines of a log about the configuration; PMIx is an option of Debian's packages that we do not use."""
    with open(path, errors="replace") as f:
        return [path + ": " + x.strip() for x in f if re.search(r"\.conf|pars|unrecogni[sz]ed|deprecated|invalid|ignor|not a valid", x, re.I)
                and re.search(r"error|warn|fatal", x, re.I) and not re.search(r"pmix|no switch can reach all nodes", x, re.I)]


def sbatch_of(name):
    found = glob.glob(f"{rendered}/**/{name}.sbatch", recursive=True)
    return found[0] if found else f"{rendered}/{name}.sbatch"


# --- the parts, in order

def accounts():
    script = glob.glob(rendered + "/**/accounts.sh", recursive=True)
    if not check("there is an accounts script", script):
        return
    first = run(script[0])
    check("the accounts script runs", first.returncode == 0, first.stdout, first.stderr)
    dump = ["sacctmgr", "-nP", "show", "assoc", "format=account,user,share,qos,grptres"], ["sacctmgr", "-nP", "show", "qos"]
    before = [out(*d) for d in dump]
    second = run(script[0])
    check("it runs again and changes nothing", second.returncode == 0 and before == [out(*d) for d in dump],
          second.stdout, second.stderr, before, [out(*d) for d in dump])
    qos = {}
    for line in out("sacctmgr", "-nP", "show", "qos", "format=name,priority,preempt,maxtrespu,maxjobspu,gracetime").splitlines():
        name, *rest = line.split("|")
        qos[name] = rest
    check("QOS have the priorities of the spec", [qos.get(n, ["?"])[0] for n in ("high", "normal", "low")] == ["1000", "500", "100"], qos)
    check("high preempts low, and nothing else", qos.get("high", ["", ""])[1] == "low" and qos.get("normal", ["", "?"])[1] == "", qos)
    check("normal is held to 24 GPUs a user, low to 2 jobs", "gres/gpu=24" in qos.get("normal", [""] * 3)[2]
          and qos.get("low", [""] * 4)[3] == "2", qos)
    assoc = {}
    for line in before[0].splitlines():
        account, user, share, allowed, tres = line.split("|")
        assoc[account, user] = (share, set(allowed.split(",")), tres)
    none = ("?", set(), "?")
    check("accounts have their shares", [assoc.get((a, ""), none)[0] for a in ("research", "teaching", "visitors")] == ["60", "40", "1"], assoc)
    check("users are in their accounts, and in no other", {k for k in assoc if k[1]} ==
          {("research", "root"), ("research", "games"), ("teaching", "news"), ("teaching", "mail"), ("visitors", "man")}
          | ({("root", "root")} & set(assoc)), assoc)
    check("an account may use the QOS of the spec alone", assoc.get(("research", "games"), none)[1] == {"high", "normal"}
          and assoc.get(("teaching", "news"), none)[1] == {"normal", "low"}, assoc)
    check("an account is held to its GPUs", "gres/gpu=8" in assoc.get(("visitors", ""), none)[2], assoc)


def partitions():
    p = {n: fields(out("scontrol", "-o", "show", "partition", n)) for n in ("train", "debug", "cloud")}
    check("train is the default partition, the others are not", [p[n].get("Default") for n in p] == ["YES", "NO", "NO"], p)
    check("partitions have their time limits", [p[n].get("MaxTime") for n in p] == ["2-00:00:00", "00:30:00", "1-00:00:00"], p)
    check("and their priorities", [p[n].get("PriorityTier") for n in p] == ["10", "20", "1"], p)
    check("and their nodes", [p[n].get("Nodes") for n in p] == ["hgx[1-4]", "hgx[1-4]", "cloud[1-2]"], p)
    got = node("hgx1")
    check("a node has its 8 GPUs, 96 cores and memory", got.get("Gres", "").startswith("gpu:h100:8") and got.get("CPUTot") == "96"
          and int(got.get("RealMemory", "0")) > 50000, got)
    long = run("sbatch", "--uid=games", "-p", "debug", "--time=2:00:00", "--mem=100", "--wrap", "true", cwd=c.work + "/jobs")
    reason = ""
    if long.returncode == 0:
        number = re.search(r"\d+", long.stdout)[0]
        reason = "PartitionTimeLimit" if waits(number, "PartitionTimeLimit") else job(number)
        run("scancel", number)
    check("a job longer than its partition allows does not run", reason == "PartitionTimeLimit" or "time limit" in long.stderr.lower(),
          long.stdout, long.stderr, reason)
    wrong = submit("--uid=news", "--account=teaching", "--qos=high", "--mem=100", "--wrap", "true")
    check("a QOS that the account may not use is refused", "qos" in wrong.lower(), wrong)
    nobody = submit("--uid=uucp", "--mem=100", "--wrap", "true")
    check("a user without an account is refused", nobody.startswith("refused"), nobody)


def training():
    number = submit("--uid=games", sbatch_of("train"))
    if not check("the rendered job of 2 nodes x 8 GPUs is taken", number.isdigit(), number):
        return
    end = ends(number)
    text, got = output_of(number), job(number)
    ranks = saw(text)
    if not check("it runs, all ranks meet, and nothing is wrong", end == "COMPLETED" and len(ranks) == 1 and "WRONG" not in text, end, text, got,
                 c.log("slurmctld")):
        return
    r = ranks[0]
    check("sixteen ranks in the order of the tasks and the nodes", [x["rank"] for x in r["ranks"]] == list(range(16))
          and [x["procid"] for x in r["ranks"]] == [str(i) for i in range(16)]
          and [x["node"] for x in r["ranks"]] == [r["hosts"][0]] * 8 + [r["hosts"][1]] * 8, r)
    check("they meet on the first node, at the port of the spec", r["master"] == r["hosts"][0] and r["port"] == "29555", r)
    check("both nodes are below one switch", set(r["hosts"]) in ({"hgx1", "hgx2"}, {"hgx3", "hgx4"}), r["hosts"])
    visible = {x["gpus"] for x in r["ranks"]}
    check("every rank sees the 8 GPUs of its node", visible == {"0,1,2,3,4,5,6,7"}, visible)
    check("stoker detect --env chose for NCCL on the node", r["nccl"].get("NCCL_IB_HCA", "").startswith("=mlx5_0"), r["nccl"])
    check("a variable of the spec arrives as it was written", r["greeting"] == "it's \"quoted\" $HOME `id` \\ and 100 %", r["greeting"])
    records(number)
    check("account, QOS, partition and time are the spec's", (got.get("Account"), got.get("QOS"), got.get("Partition"), got.get("TimeLimit"))
          == ("research", "normal", "train", "01:00:00"), got)


def torchrun():
    number = submit("--uid=games", sbatch_of("train-torchrun"))
    end = ends(number)
    text = output_of(number)
    ranks = saw(text)
    check("torchrun is called so that 2 x 8 ranks meet", end == "COMPLETED" and len(ranks) == 1 and "WRONG" not in text
          and len(ranks[0]["ranks"]) == 16 and ranks[0]["port"] == "29556", end, text)


def sweep():
    number = submit("--uid=games", sbatch_of("sweep"))
    wait(lambda: not out("squeue", "-h", "-j", number).strip(), 60)
    tasks = tasks_of(number)
    check("the sweep runs once for every task of the array", sorted(t["task"] or "" for t in tasks) == ["0", "1", "2", "3"], number, tasks)
    check("each with one GPU", tasks and all(t["gpus"] == "0" or len((t["gpus"] or "").split(",")) == 1 for t in tasks), tasks)
    opens = [sorted(t["devices"].values()) for t in tasks]
    if "task/cgroup" in out("scontrol", "show", "config"):
        check("and it can open that one and no other", opens and all(o == ["ENXIO"] + ["EPERM"] * 7 for o in opens), opens)
    else:
        skip("and it can open that one and no other", "no cgroup v1 here that may be written to")


def beside():
    clear()
    number = submit("--uid=games", "--nodelist=hgx1", sbatch_of("prep"))
    running = ["squeue", "-h", "-r", "-t", "R", "-o", "%N %C", "-j", number]
    check("jobs without GPUs that name their cores share a machine until its cores are taken",
          wait(lambda: out(*running).splitlines() == ["hgx1 16"] * 6, 20), out("squeue"), job(number), node("hgx1"))
    run("scancel", number)


def requeue():
    number = submit("--uid=news", sbatch_of("one-node"))
    again = wait(lambda: job(number).get("Restarts") == "1", 40)
    check("a job that ends with 75 is queued again", again, job(number), output_of(number))
    return number


def requeued(number):
    end = ends(number, 60)
    text = output_of(number)
    check("and runs again, in the same output file", end == "COMPLETED" and sorted({s["attempt"] for s in saw(text)}) == [0, 1], end, text)


def tasks_of(number):
    texts = []
    for path in glob.glob(f"{c.work}/jobs/*{number}_*"):
        with open(path, errors="replace") as f:
            texts.append(f.read())
    return [s for t in texts for s in saw(t)]


def sweep_of_file():
    with open(c.work + "/jobs/sweep.tasks", "w") as f:
        f.write("# two tasks\n--seed 1\n\n--note 'two  words' \"$HOME\"\n")
    r = run(sbatch_of("sweep").replace(".sbatch", ".submit.sh"), "sweep.tasks", "--parsable", cwd=c.work + "/jobs")
    number = r.stdout.strip()
    wait(lambda: number and not out("squeue", "-h", "-j", number).strip(), 60)
    got = sorted((t["task"], t["words"]) for t in tasks_of(number)) if number else []
    check("a file of tasks becomes an array, a line a task, words as a shell reads them",
          [g[0] for g in got] == ["0", "1"] and got[0][1] == ["--seed", "1"] and got[1][1][:2] == ["--note", "two  words"], r.stderr, got)
    os.unlink(c.work + "/jobs/sweep.tasks")


def notice_begin():
    number = submit("--uid=games", sbatch_of("noticed"))
    wait(lambda: saw(output_of(number)), 30)
    r = run("scancel", "--signal=USR1", "--batch", number)
    check("a job is told that it must go", r.returncode == 0, r.stderr)
    return number


def noticed(number):
    end = ends(number, 60)
    got = saw(output_of(number))
    check("it saves, is queued again, and goes on", end == "COMPLETED" and got == [{"attempt": 0}, {"saved": True}, {"attempt": 1}], end, output_of(number))


def held():
    number = submit("--uid=games", "--mem=100", "--wrap", "exit 76")
    check("a job that ends with 76 is held for somebody to look", wait(lambda: state(number) == "SPECIAL_EXIT", 20), job(number))
    run("scancel", number)


def prolog():
    clear()
    open(c.work + "/bad-job.hgx1", "w").close()
    number = sleeper("root", 8, "--account=research", "--qos=high", "--nodelist=hgx1")
    check("a node that fails the check before a job is drained", wait(lambda: "DRAIN" in node("hgx1").get("State", "")
          and "stoker prolog" in node("hgx1").get("Reason", ""), 20), node("hgx1"), job(number), c.log("slurmd.hgx1"))
    check("and the job is queued again, not held", wait(lambda: state(number) == "PENDING" and job(number).get("Reason") not in
          ("JobHeldAdmin", "JobHeldUser"), 10), job(number))
    os.unlink(c.work + "/bad-job.hgx1")
    run("scontrol", "update", f"jobid={number}", "ReqNodeList=")
    run("scontrol", "update", f"jobid={number}", "StartTime=now")
    check("and runs elsewhere", started(number, 30) and job(number).get("NodeList") != "hgx1", job(number))
    run("scontrol", "update", "nodename=hgx1", "state=resume")


def lost_begin():
    """A machine dies under a job: its slurmd is killed."""
    clear()
    number = sleeper("root", 8, "--account=research", "--qos=high", "--nodelist=hgx4")
    started(number)
    os.kill(slurmd_of("hgx4"), signal.SIGKILL)
    return number


def lost(number):
    check("a job of a machine that is silent is queued again", wait(lambda: int(job(number).get("Restarts", "0")) == 1, 60), job(number), node("hgx4"))
    check("which counts as down", "DOWN" in node("hgx4").get("State", ""), node("hgx4"))
    c.say("hgx4")
    check("until it is back", wait(lambda: node("hgx4").get("State") in ("IDLE", "ALLOCATED", "MIXED"), 30), node("hgx4"), c.log("slurmd.hgx4"))


def records(number):
    text = wait(lambda: [x for x in out("sacct", "-X", "-n", "-P", "-j", number, "-o", "state,account,alloctres").splitlines() if x.startswith("COMPLETED")], 20)
    check("the accounting has the job with its GPUs", text and "|research|" in text[0] and "gres/gpu=16" in text[0], text)


def limits():
    clear()
    jobs = [sleeper("games", 8, "--account=research", "--qos=normal") for _ in range(4)]
    check("three jobs of 8 GPUs run: 24 is what one user may hold", all(started(j) for j in jobs[:3]), jobs, out("squeue"))
    check("the fourth waits for that reason", waits(jobs[3], "QOSMaxGRESPerUser"), job(jobs[3]))
    run("scancel", *jobs)
    low = [sleeper("news", 1, "--account=teaching", "--qos=low") for _ in range(3)]
    check("two jobs of QOS low run", all(started(j) for j in low[:2]), out("squeue"))
    check("the third waits: two is what one user may run", waits(low[2], "QOSMaxJobsPerUserLimit"), job(low[2]))
    visit = [sleeper("man", 4, "--account=visitors", "--qos=low") for _ in range(2)]
    check("an account runs up to its GPUs", all(started(j) for j in visit), out("squeue"))
    third = sleeper("man", 1, "--account=visitors", "--qos=normal")
    check("and waits beyond them", waits(third, "AssocGrpGRES"), job(third))
    run("scancel", *low, *visit, third)


def priorities():
    clear()
    fill = [sleeper("games", 8, "--account=research", "--qos=normal") for _ in range(3)] + [
        sleeper("mail", 8, "--account=teaching", "--qos=normal")]
    check("the cluster is full", all(started(j) for j in fill), out("squeue"))
    first = sleeper("mail", 8, "--account=teaching", "--qos=normal")
    waits(first, "Resources", "Priority")
    second = sleeper("root", 8, "--account=research", "--qos=high")
    check("a high job that came later stands first in the queue", wait(lambda: int(job(second).get("Priority", "0")) > int(job(first).get("Priority", "0")) > 0, 15),
          job(first), job(second), out("sprio", "-l"))
    check("and pushes no normal job aside", wait(lambda: state(second) == "PENDING", 5) and all(state(j) == "RUNNING" for j in fill), out("squeue"))
    run("scancel", fill[0])
    check("it starts first when a node is free", started(second) and state(first) == "PENDING", out("squeue"))


def preemption():
    clear()
    low = [sleeper(u, 8, "--account=teaching", "--qos=low", "--requeue", nodes=2) for u in ("news", "mail")]
    check("low jobs fill the cluster", all(started(j) for j in low), out("squeue"))
    high = sleeper("root", 8, "--account=research", "--qos=high")
    check("a high job starts at once", started(high, 30), out("squeue"), job(high), c.log("slurmctld"))
    pushed = [j for j in low if state(j) != "RUNNING"]
    check("one low job gave way, and is queued again", len(pushed) == 1 and wait(lambda: state(pushed[0]) == "PENDING", 20)
          and job(pushed[0]).get("Restarts") == "1", out("squeue"), [job(j) for j in low])


def draining():
    clear()
    run("scontrol", "update", "nodename=hgx1", "state=drain", "reason=test")
    j = sleeper("root", 8, "--account=research", "--qos=high", nodes=3)
    check("a job avoids a drained node", started(j) and job(j).get("NodeList") == "hgx[2-4]", job(j))
    k = sleeper("root", 8, "--account=research", "--qos=high", nodes=1)
    check("and waits rather than take it", not started(k, 4), job(k))
    run("scontrol", "update", "nodename=hgx1", "state=resume")
    check("until the node is back", started(k) and job(k).get("NodeList") == "hgx1", job(k))


def health():
    clear()
    open(c.work + "/bad.hgx3", "w").close()
    check("a GPU that is lost drains its node", wait(lambda: "DRAIN" in node("hgx3").get("State", ""), 30), node("hgx3"), c.log("slurmd.hgx3"))
    check("and the reason says who found what", "stoker" in node("hgx3").get("Reason", ""), node("hgx3"))
    check("other nodes stay", all("DRAIN" not in node(n).get("State", "") for n in ("hgx1", "hgx2", "hgx4")))
    os.unlink(c.work + "/bad.hgx3")
    run("scontrol", "update", "nodename=hgx3", "state=resume")
    check("mended and resumed it stays in", wait(lambda: node("hgx3").get("State") == "IDLE", 20) and not time.sleep(7)
          and node("hgx3").get("State") == "IDLE", node("hgx3"))


def power_log():
    try:
        with open(c.work + "/log/machines.log") as f:
            return f.read().split("\n")
    except OSError:
        return []


def slurmd_of(name):
    """The number of the node's slurmd, or None: is the machine on?"""
    try:
        with open(f"{c.work}/run/slurmd.{name}.pid") as f:
            pid = int(f.read())
        with open(f"/proc/{pid}/comm") as f:
            return pid if f.read().strip() == "slurmd" else None
    except (OSError, ValueError):
        return None


def burst():
    check("cloud nodes are off at first", all(slurmd_of(n) is None for n in NODES[4:])
          and all("POWERED_DOWN" in node(n).get("State", "") for n in NODES[4:]), [node(n) for n in NODES[4:]])
    return submit("--uid=games", sbatch_of("burst"))


def burst_ran(number):
    end = ends(number, 60)
    got = saw(output_of(number))
    check("a job for the cloud starts a node, and runs there", end == "COMPLETED" and got and got[0]["node"] in NODES[4:]
          and f"start {got[0]['node']}" in power_log(), end, output_of(number), job(number), power_log(), c.log("slurmctld"))
    return got[0]["node"] if got else NODES[4]


def cloud_off(name):
    check("idle for a while it is stopped again", wait(lambda: f"stop {name}" in power_log() and slurmd_of(name) is None
          and node(name).get("State") == "IDLE+CLOUD+POWERED_DOWN", 60), node(name), power_log())
    check("at a word: no signal is blocked in it", f"killed {name}" not in power_log(), power_log())


def failed_resume_begin():
    for n in NODES[4:]:
        open(f"{c.work}/fail.{n}", "w").close()
    return submit("--uid=games", sbatch_of("burst"))


def failed_resume(number):
    tried = wait(lambda: [n for n in NODES[4:] if power_log().count(f"start {n}") > started_before.get(n, 0)], 30)
    check("a node that never comes was asked for", tried, power_log())
    check("its job is queued again", wait(lambda: int(job(number).get("Restarts", "0")) >= 1, 60), job(number), [node(n) for n in NODES[4:]])
    for n in NODES[4:]:
        os.unlink(f"{c.work}/fail.{n}")
    end = ends(number, 120)
    check("the node is tried again, and the job runs once it comes", end == "COMPLETED", end, job(number), [node(n) for n in NODES[4:]], power_log(),
          c.log("slurmctld"))


def refused_begin():
    wait(lambda: all(node(n).get("State") == "IDLE+CLOUD+POWERED_DOWN" for n in NODES[4:]), 60)
    for n in NODES[4:]:
        with open(f"{c.work}/fail.{n}", "w") as f:
            f.write("exit")
    return submit("--uid=games", "--begin=now", sbatch_of("burst"))


def refused(number):
    check("where the site's program fails, the job does not wait for the node", wait(lambda: int(job(number).get("Restarts", "0")) >= 1, 60),
          job(number), power_log())
    for n in NODES[4:]:
        os.unlink(f"{c.work}/fail.{n}")
    end = ends(number, 120)
    check("and runs once the site has one", end == "COMPLETED", end, job(number), [node(n) for n in NODES[4:]], power_log())


def left_behind(work):
    """Processes, control groups, mounts and files of a cluster that has ended."""
    ours = []
    for d in os.listdir("/proc"):
        if d.isdigit() and int(d) != os.getpid():
            try:
                with open(f"/proc/{d}/environ", "rb") as f:
                    env = f.read()
                with open(f"/proc/{d}/cmdline", "rb") as f:
                    words = f.read()
            except OSError:
                continue
            if f"SLURM_HERE={work}".encode() in env or (work.encode() in words and int(d) != os.getppid()):
                ours.append((d, words))
    groups = [g for n in NODES for g in glob.glob(f"/sys/fs/cgroup/*/slurm_{n}")]
    return ours, groups, os.path.exists(work)


def example_and_kill():
    """The largest example, whose nodes are down but for two; then its owner is killed, and with the
    end of the pipe everything goes."""
    work = scratch + "-killed"
    example = scratch + "-again"
    run(STOKER, "render", "slurm", "-f", TOP + "/data/examples/llm-cluster.yaml", "-o", example)
    code = "import subprocess,sys,time; p = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, start_new_session=True); time.sleep(900)"
    words = [TOP + "/tools/slurm-here", "start", "--attach", "--wait", "600", "--work", work, example + "/slurm", "--only", "gpu[1-2]",
             "--accounts", "accounts.sh", "--stoker", STOKER, "--machine", MACHINES + "/dgx-h100.tar", "--remove", example]
    p = subprocess.Popen([sys.executable, "-c", code] + words, stdout=subprocess.PIPE, text=True)
    line = p.stdout.readline()
    os.environ["SLURM_CONF"] = work + "/etc/slurm.conf"
    rows = sorted(set(out("sinfo", "-h", "-o", "%R %D").split("\n")) - {""})
    check("the files of the example with 72 nodes start a cluster, too", line.startswith("up") and sum(int(r.split()[1]) for r in rows) == 64 + 64 + 8,
          line, rows)
    run("sacctmgr", "-i", "add", "user", "root", "account=research")
    said = run("sbatch", "--test-only", example + "/slurm/sbatch/train-7b.sbatch")
    check("which would run its job", "to start at" in said.stderr, said.stdout, said.stderr)
    running = len(left_behind(work)[0])
    p.kill()
    p.wait()
    gone = wait(lambda: left_behind(work) == ([], [], False) and not os.path.exists(example), 30)
    check("a cluster whose owner is killed ends, and leaves nothing", running > 5 and gone, running, left_behind(work))


os.umask(0o022)
scratch = tempfile.mkdtemp(prefix="stoker-slurm-")
os.chmod(scratch, 0o755)
rendered, c, started_before = scratch + "/out/slurm", None, {}
try:
    made = run(STOKER, "render", "slurm", "-f", HERE + "/site.yaml", "-o", scratch + "/out")
    if not check("the spec is rendered", made.returncode == 0, made.stdout, made.stderr):
        done()
    c = Cluster(rendered, scratch + "/cluster")
    if not check("the rendered files start munge, database, slurmdbd, slurmctld and four slurmd", c.first.startswith("up"), c.first):
        done()
    with open(c.work + "/differs") as f:
        note(f.read())
    shutil.copy(HERE + "/trainer.py", c.work + "/jobs/trainer.py")
    shutil.copy(HERE + "/torchrun", c.work + "/bin/torchrun")
    told = [x for x in glob.glob(c.work + "/log/slurm*") for x in complaints(x)]
    check("no daemon complains of a line of the files", not told, *told)
    accounts()
    partitions()
    first = burst()
    training()
    torchrun()
    told = notice_begin()
    sweep()
    again = requeue()
    sweep_of_file()
    held()
    noticed(told)
    ran = burst_ran(first)
    requeued(again)
    beside()
    limits()
    cloud_off(ran)
    started_before = {n: power_log().count(f"start {n}") for n in NODES[4:]}
    failing = failed_resume_begin()
    priorities()
    preemption()
    draining()
    failed_resume(failing)
    health()
    failing = refused_begin()
    prolog()
    gone = lost_begin()
    refused(failing)
    lost(gone)
    clear()
    rc = c.stop()
    check("the cluster ends, and leaves no process, control group or file", rc == 0 and left_behind(c.work) == ([], [], False), rc, left_behind(c.work))
    example_and_kill()
    done()
finally:
    if c:
        c.stop()
    for d in (scratch, scratch + "-again", scratch + "-killed"):
        shutil.rmtree(d, ignore_errors=True)
