#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TAP: a job that asks for nothing runs in every partition, sites.py [--version V] STOKER MACHINES [SITE...].

Each site (tests/slurm/sites, and the example that has Slurm) is rendered, tools/slurm-here starts
one machine of each group, and people submit what people submit: `sbatch -p PARTITION`, a GPU, a
share of one, more than there is.  Sites are told one by one; without names all of them.  The
clusters end with this process.  Standard library alone."""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
SHORT = ("AuthInfo+=cred_expire=10", "SchedulerParameters+=bf_interval=2", "SchedulerParameters+=sched_interval=2",
         "SchedulerParameters+=batch_sched_delay=0", "SlurmctldParameters+=power_save_interval=2", "SuspendTime=10",
         "SuspendTimeout=5", "ResumeTimeout=60", "KillWait=2", "SlurmctldTimeout=10", "CompleteWait=0")
PLAIN = "hostname; env | grep -E '^(SLURM|CUDA)' | sort"
count = failed = 0
began = time.monotonic()


def note(text, to=None):
    for line in str(text).splitlines():
        print("#", line, flush=True, file=to)


def check(what, ok, *evidence):
    global count, failed
    count += 1
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} {count} - {what}  # {time.monotonic() - began:.0f} s", flush=True)
    for e in evidence if not ok else ():
        note(e, sys.stderr)
    return ok


def run(*words, cwd=None, **kw):
    return subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=cwd, **kw)


def out(*words):
    return run(*words).stdout


def wait(ok, seconds=30):
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


ENDS = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "gone")


def ends(number, seconds=60):
    return wait(lambda: state(number) if state(number) in ENDS else "", seconds)


def minutes(text):
    """'1-02:03:00' as minutes."""
    days, _, rest = text.rpartition("-")
    h, m, s = (int(x) for x in rest.split(":"))
    return int(days or 0) * 1440 + h * 60 + m + s / 60


class Site:
    """One cluster, attached: it ends with our end of the pipe."""

    def __init__(self, name, spec, only, user):
        self.name, self.user, self.work = name, user, f"{scratch}/{name}"
        self.rendered = f"{scratch}/{name}.out"
        text = open(spec).read()
        if args.version:
            text = re.sub(r"\n    version: .*", "", text)
            text = text.replace("\n  slurm:\n", f'\n  slurm:\n    version: "{args.version}"\n')
        with open(f"{scratch}/{name}.yaml", "w") as f:
            f.write(text)
        made = run(STOKER, "render", "slurm", "-f", f"{scratch}/{name}.yaml", "-o", self.rendered)
        self.told = made.stderr
        check(f"{name}: is rendered", made.returncode == 0, made.stdout, made.stderr)
        words = [TOP + "/tools/slurm-here", "start", "--attach", "--wait", "600", "--work", self.work, self.rendered + "/slurm",
                 "--stoker", STOKER, "--machine", MACHINES + "/dgx-h100.tar", "--only", only]
        if os.path.exists(self.rendered + "/slurm/accounts.sh"):
            words += ["--accounts", "accounts.sh"]
        for s in SHORT:
            words += ["--set", s]
        self.p = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  start_new_session=True)
        first = self.p.stdout.readline().strip()
        os.environ["SLURM_CONF"] = self.work + "/etc/slurm.conf"
        self.up = check(f"{name}: starts", first.startswith("up"), first, "" if first.startswith("up") else self.p.stdout.read())
        if self.up:
            told = [x for path in glob.glob(self.work + "/log/slurm*") for x in self.complaints(path)]
            check(f"{name}: no daemon complains of a line of the files", not told, *told)

    def complaints(self, path):
        with open(path, errors="replace") as f:
            return [path + ": " + x.strip() for x in f if re.search(r"\.conf|pars|unrecogni[sz]ed|deprecated|invalid|ignor|exclusive", x, re.I)
                    and re.search(r"error|warn|fatal", x, re.I) and not re.search(r"pmix|Allow/DenyQOS|cgroup/v1 plugin is deprecated", x, re.I)]

    def submit(self, *words, user=None):
        r = run("sbatch", "--parsable", f"--uid={user or self.user}", "--output=%j.out", *words, cwd=self.work + "/jobs")
        return r.stdout.strip().split(";")[0] or "refused: " + r.stderr.strip()

    def text(self, number):
        """What the job printed: %j.out, or where its script says."""
        try:
            with open(job(number).get("StdOut", f"{self.work}/jobs/{number}.out"), errors="replace") as f:
                return f.read()
        except OSError:
            return ""

    def log(self):
        with open(self.work + "/log/slurmctld.log", errors="replace") as f:
            return "".join(f.readlines()[-15:])

    def partitions(self):
        rows = (fields(x) for x in out("scontrol", "-o", "show", "partition").splitlines())
        return {r["PartitionName"]: r for r in rows if r}

    def default_jobs(self):
        """One job that asks for nothing but the partition, in every one."""
        jobs = {p: self.submit("-p", p, "--wrap", PLAIN) for p in self.partitions()}
        for p, number in jobs.items():
            end = ends(number, 90) if number.isdigit() else number
            check(f"{self.name}: a default job runs in partition {p}", end == "COMPLETED" and "SLURM_JOB_ID" in self.text(number), number, end,
                  out("scontrol", "show", "job", number), out("sinfo", "-N", "-o", "%N %T %G %E"), self.log())
        return jobs

    def default_times(self, jobs):
        for p, row in self.partitions().items():
            want, limit = row.get("DefaultTime", "NONE"), row.get("MaxTime")
            ok = want != "NONE" and (limit == "UNLIMITED" or minutes(want) <= minutes(limit))
            check(f"{self.name}: partition {p} has a default time, which its job got", ok and job(jobs[p]).get("TimeLimit") in (want, None, "gone"),
                  row, job(jobs[p]))
            if limit != "UNLIMITED":
                got = self.submit("-p", p, f"--time={int(minutes(limit)) + 60}", "--wrap", "true")
                check(f"{self.name}: {p} refuses a longer job at once", got.startswith("refused") and "time limit" in got.lower(), got)

    def together(self, what, *jobs, user=None):
        """Jobs that fit beside each other run at the same time."""
        numbers = [self.submit(*j, "--wrap", "sleep 300", user=user) for j in jobs]
        ok = wait(lambda: all(state(n) == "RUNNING" for n in numbers), 30)
        check(f"{self.name}: {what}", ok, numbers, *(out("scontrol", "show", "job", n) for n in numbers), out("sinfo", "-N", "-o", "%N %T %G %E"))
        got = [job(n) for n in numbers]
        run("scancel", *[n for n in numbers if n.isdigit()])
        wait(lambda: all(state(n) in ENDS for n in numbers), 20)
        return got

    def sbatch(self, name):
        return self.submit(f"{self.rendered}/slurm/sbatch/{name}.sbatch")

    def stop(self):
        if not self.p.stdin.closed:
            self.p.stdin.close()
        try:
            self.p.wait(60)
        except subprocess.TimeoutExpired:
            pass


# --- the sites

def campus(s):
    jobs = s.default_jobs()
    s.default_times(jobs)
    one = ("-p", "cpu", "-w", "node001")
    got = s.together("machines without GPUs run many jobs at once", *[one] * 5)
    check("campus: each with its share of the memory", all(g.get("MinMemoryCPU") for g in got), *got)
    got = s.together("jobs with and without a GPU run on one machine", *[("-p", "gpu", "-w", "node102")] * 2,
                     *[("-p", "gpu", "-w", "node102", "--gpus=1")] * 2)
    part = s.partitions()["gpu"]
    per_gpu = int(re.search(r"DefMemPerGPU=(\d+)", part["JobDefaults"])[1])
    tres = [g.get("TRES", g.get("AllocTRES", "")) for g in got[2:]]
    check("campus: a GPU brings its share of memory and cores", all(mib(t) == per_gpu for t in tres), per_gpu, tres)
    got = s.submit("-p", "gpu", "--gpus=9", "-N1", "--wrap", "true")
    check("campus: more GPUs than a machine has are refused", got.startswith("refused"), got)
    got = s.submit("-p", "cpu", "--gpus=1", "--wrap", "true")
    check("campus: a GPU where there are none is refused", got.startswith("refused"), got)
    number = s.submit("-p", "cpu", "--array=0-3", "--wrap", "true")
    check("campus: an array runs", wait(lambda: not out("squeue", "-h", "-j", number).strip(), 60), out("squeue"))
    for name in ("simulate", "either"):
        number = s.sbatch(name)
        check(f"campus: the rendered job {name} runs", number.isdigit() and ends(number) == "COMPLETED", number, out("scontrol", "show", "job", number),
              s.text(number))


def mib(tres):
    found = re.search(r"\bmem=([\d.]+)([MGT])", tres)
    return round(float(found[1]) * {"M": 1, "G": 1024, "T": 1 << 20}[found[2]]) if found else None


def shared(s):
    jobs = s.default_jobs()
    s.default_times(jobs)
    s.together("eight MIG instances of two GPUs run eight jobs", *[("-p", "mig", "--gpus=1")] * 8)
    s.together("four halves of two GPUs by MPS run four jobs", *[("-p", "shared", "--gres=mps:50")] * 4)
    s.together("shards of a GPU run as many jobs", *[("-p", "shared", "--gres=shard:16")] * 6)
    s.together("whole GPUs beside shares", ("-p", "shared", "--gres=gpu:l40s:1"), ("-p", "shared", "--gres=shard:40"))
    for name, want in (("embed", "SLURM_SHARDS_ON_NODE=8"), ("rank", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25"),
                       ("tune", "SLURM_JOB_GPUS=")):
        number = s.sbatch(name)
        end = ends(number)
        check(f"shared: the rendered job {name} gets what its pool or GPUs say", end == "COMPLETED" and want in s.text(number), end,
              out("scontrol", "show", "job", number), s.text(number))


def limits(s):
    jobs = s.default_jobs()
    s.default_times(jobs)
    for p in s.partitions():
        got = s.submit("-p", p, "--wrap", PLAIN, user="news")
        check(f"limits: an account that lists no QOS may use {p}", ends(got) == "COMPLETED", got, out("scontrol", "show", "job", got))
        got = s.submit("-p", p, "--wrap", PLAIN, user="root")
        check(f"limits: root, who is in Slurm from the start, has the account of the files in {p}", ends(got) == "COMPLETED"
              and job(got).get("Account") == "lab", got, out("scontrol", "show", "job", got))
    qos = dict(line.split("|", 1) for line in out("sacctmgr", "-nP", "show", "qos", "format=name,maxwall,maxtrespu").splitlines())
    check("limits: a QOS is not longer than any partition that takes it", qos.get("urgent", "").startswith("2-00:00:00"), qos)
    check("limits: which was told when the files were written", "urgent" in s.told and "14d" in s.told, s.told)
    for name, code in (("lost", 127), ("usage", 2), ("boxed", 127)):
        number = s.sbatch(name)
        end = ends(number)
        got = job(number)
        check(f"limits: {name}: ends with {code} and is not queued again", end == "FAILED" and got.get("Restarts") == "0"
              and got.get("ExitCode") == f"{code}:0", end, got, s.text(number))
    image = number
    shutil.copy(HERE + "/trainer.py", s.work + "/jobs/trainer.py")
    number = s.sbatch("noticed")
    wait(lambda: "attempt" in s.text(number))
    run("scancel", "--signal=USR1", "--batch", number)
    again = wait(lambda: job(number).get("Restarts") == "1", 40)
    check("limits: a trainer below a launcher hears that it must go", again and "saved" in s.text(number), job(number), s.text(number))
    run("scancel", number)
    number = image
    check("limits: an image that nothing can run is told in words", "neither pyxis nor apptainer" in s.text(number), s.text(number))
    arrays(s)
    chains(s)


def arrays(s):
    """As many tasks as a component may have."""
    r = run("sbatch", "--parsable", f"--uid={s.user}", "--hold", "--array=0-9999", "--output=/dev/null", "--wrap", PLAIN, cwd=s.work + "/jobs")
    check("limits: an array of 10000 tasks is taken", r.returncode == 0, r.stderr)
    run("scancel", r.stdout.strip())


def chains(s):
    """Lists of QOS that are pushed aside, each set of them after each other: a list that was emptied is no loop."""
    with open(f"{scratch}/{s.name}.yaml") as f:
        text = f.read()
    urgent, express = "preempts: [batch]", "express: {priority: 500,"
    sets = {"first": text,
            "chain": text.replace(urgent, "preempts: [batch, express]").replace(express, express + " preempts: [batch],"),
            "turned": text.replace(urgent, "preempts: []").replace(express, express + " preempts: [urgent],"),
            "none": text.replace(urgent, "preempts: []")}
    for name in ("chain", "turned", "chain", "none", "turned", "first", "chain", "none", "first"):
        with open(f"{scratch}/{s.name}.{name}.yaml", "w") as f:
            f.write(sets[name])
        folder = f"{scratch}/{s.name}.{name}.out"
        run(STOKER, "render", "slurm", "-f", f"{scratch}/{s.name}.{name}.yaml", "-o", folder)
        got = run("bash", folder + "/slurm/accounts.sh")
        lists = dict(line.split("|") for line in out("sacctmgr", "-nP", "show", "qos", "format=name,preempt").splitlines())
        want = {"first": ("batch", ""), "chain": ("batch,express", "batch"), "turned": ("", "urgent"), "none": ("", "")}[name]
        check(f"limits: accounts.sh sets the lists of '{name}'", got.returncode == 0 and
              (lists.get("urgent"), lists.get("express")) == want, got.stderr, lists)


def twins(s):
    jobs = s.default_jobs()
    s.default_times(jobs)
    number = s.submit("-p", "big", "--wrap", "sleep 40; hostname")
    wait(lambda: state(number) == "RUNNING")
    ran = time.time()  # the state is written every few seconds
    wait(lambda: os.path.getmtime(s.work + "/state/job_state") > ran + 1, 20)
    pid = open(s.work + "/run/slurmctld.first").read().split()[0]
    os.kill(int(pid), 9)
    up = wait(lambda: re.search(r"backup\) at ctl2 is UP", out("scontrol", "ping")) and state(number) in ("RUNNING", "COMPLETED"), 60)
    check("twins: when the first controller dies the second has its jobs", up, out("scontrol", "ping"), job(number), s.log())
    check("twins: a running job goes on", ends(number) == "COMPLETED", job(number))
    got = s.submit("-p", "small_ones", "--wrap", "hostname")
    check("twins: and new ones run", ends(got) == "COMPLETED", got, job(got))


def nvlink(s):
    """Three NVLink domains of four machines and a rest: jobs stay in one, where Slurm can do that."""
    jobs = s.default_jobs()
    s.default_times(jobs)
    for what, words in (("a machine of another kind", ("-p", "gpu", "--gres=gpu:h200:1")), ("one without GPUs", ("-p", "all", "-C", "c"))):
        number = s.submit(*words, "--wrap", PLAIN)
        check(f"nvlink: {what} beside the domains runs jobs", ends(number) == "COMPLETED", number, job(number), s.log())
    if not args.version:
        check("nvlink: that nothing keeps jobs in a domain is told", "in one NVLink domain" in s.told, s.told)
        return
    check("nvlink: a job that can be kept in a domain needs no warning", "in one NVLink domain" not in s.told, s.told)
    told = out("scontrol", "show", "topology")
    check("nvlink: Slurm has the domains", re.search(r"BlockName=nvlink-gb-2 .*Nodes=gb012,gb\[020-022\]", told), told)
    busy = [s.submit("-p", "gpu", "-w", n, "--exclusive", "--wrap", "sleep 300") for n in ("gb008", "gb023")]
    wait(lambda: all(state(n) == "RUNNING" for n in busy))
    number = s.sbatch("whole")
    end, got = ends(number), job(number)
    check("nvlink: a job of four goes where four of a domain are free", end == "COMPLETED" and got.get("NodeList") == "gb[012,020-022]", end, got, s.log())
    number = s.sbatch("two")
    end, got = ends(number), job(number)
    check("nvlink: a job of six has three machines of each of two domains", end == "COMPLETED" and domains(got) in ([3, 3, 0], [3, 0, 3], [0, 3, 3]),
          end, got, s.log())
    busy.append(s.submit("-p", "gpu", "-w", "gb020", "--exclusive", "--wrap", "sleep 300"))
    wait(lambda: state(busy[2]) == "RUNNING")
    number = s.sbatch("whole")
    time.sleep(6)  # two rounds of the scheduler
    check("nvlink: and waits where no domain has them, though nine machines are free", state(number) == "PENDING", job(number), out("sinfo", "-N"))
    run("scancel", busy[2])
    check("nvlink: until one has", ends(number) == "COMPLETED" and sorted(domains(job(number))) == [0, 0, 4], job(number), s.log())
    run("scancel", *busy)


def domains(of):
    """How many machines a job has of each of the three."""
    names = out("scontrol", "show", "hostnames", of.get("NodeList", "")).split()
    blocks = (("008", "009", "010", "011"), ("012", "020", "021", "022"), ("023", "024", "025", "026"))
    return [sum(n[2:] in b for n in names) for b in blocks]


def plain(s):
    """No partition is named: every group is in one, and the jobs of the spec go to theirs."""
    jobs = s.default_jobs()
    s.default_times(jobs)
    check("plain: machines with GPUs, without, and both", sorted(jobs) == ["all", "cpu", "main"], jobs)
    for name, where in (("prep", ("thin1",)), ("any", ("thin1", "fat1")), ("tune", ("fat1",))):
        number = s.sbatch(name)
        end = ends(number)
        check(f"plain: the rendered job {name} runs on a machine of its groups", end == "COMPLETED" and job(number).get("NodeList") in where, number, end,
              job(number), s.log())
    for name in ("quarters", "slices"):
        number = s.sbatch(name)
        running = wait(lambda: len(out("squeue", "-h", "-r", "-t", "R", "-j", number).splitlines()) == 8, 40)
        check(f"plain: {name}: as many share two GPUs as fit into their memory", running, number, out("squeue", "-r"), job(number), s.log())
        run("scancel", number)


def unlisted(s):
    jobs = s.default_jobs()
    s.default_times(jobs)
    for name in ("job", "named"):
        number = s.sbatch(name)
        check(f"open: the rendered job {name} runs without accounts", number.isdigit() and ends(number) == "COMPLETED", number, job(number), s.log())


def span(s):
    """Switches that the spec does not join: jobs have machines of several all the same, and go to the cheapest first."""
    jobs = s.default_jobs()
    s.default_times(jobs)
    for p, number in ((p, jobs[p]) for p in ("cpu", "every")):
        check(f"span: a small job of {p} is on a plain machine, not on one with much memory or GPUs", job(number).get("NodeList") in ("thin1", "thin2"),
              job(number), s.log())
    number = s.sbatch("mpi")
    check("span: a job has machines of two groups that no switch joins", number.isdigit() and ends(number) == "COMPLETED"
          and job(number).get("NodeList") == "fat1,thin[1-2]", number, job(number), s.log())
    number = s.submit("-p", "every", "-N5", "--wrap", PLAIN)
    check("span: and of those on switches, too", number.isdigit() and ends(number) == "COMPLETED", number, job(number), s.log())
    hang = s.sbatch("hang")
    wait(lambda: state(hang) == "RUNNING")
    run("scontrol", "update", f"jobid={hang}", "TimeLimit=1")  # its notice is due at once then
    grace(s)
    end = ends(hang, 150)
    check("span: a batch job at its time limit ends there, and does not begin again", end == "TIMEOUT" and job(hang).get("Restarts") == "0"
          and "no checkpoint to go on from" in s.text(hang), end, job(hang), s.text(hang))


def grace(s):
    """A job that makes way for one of a better partition has time to save."""
    low = s.sbatch("low")
    wait(lambda: s.text(low).count("began") == 8)
    high = s.submit("-p", "every", "-C", "gpu", "-N2", "--exclusive", "--wrap", PLAIN)
    told = wait(lambda: "notice:" in s.text(low))
    check("span: a job that is pushed aside is told so", told, job(low), s.text(low), s.log())
    check("span: saves in the time it has, and is queued again", wait(lambda: s.text(low).count("saved") == 8, 30)
          and wait(lambda: job(low).get("Restarts") == "1", 30), job(low), s.text(low), s.log())
    check("span: and the other runs", ends(high) == "COMPLETED", high, job(high), s.log())
    run("scancel", low)


def llm(s):
    run("sacctmgr", "-i", "add", "user", s.user, "account=research")
    jobs = s.default_jobs()
    s.default_times(jobs)


def compose():
    """docker compose reads every compose file of the examples; it needs no engine for that."""
    for example in sorted(glob.glob(TOP + "/data/examples/*.yaml")):
        name = os.path.basename(example)
        made = run(STOKER, "render", "compose", "-f", example, "-o", f"{scratch}/{name}.out")
        folder = f"{scratch}/{name}.out/compose"
        if made.returncode and "has no image" in made.stderr:
            continue  # runs in no container
        if os.path.exists(folder + "/.env.example"):
            shutil.copy(folder + "/.env.example", folder + "/.env")
        r = run("docker", "compose", "-f", folder + "/compose.yaml", "config", "-q")
        check(f"{name}: docker compose takes the compose file", made.returncode == 0 and r.returncode == 0 and not r.stderr, made.stderr, r.stderr)


SITES = {  # name: spec, one machine of each group, whose jobs, what is tried
    "campus": (HERE + "/sites/campus.yaml", "node001,node101,node102", "games", campus),
    "shared": (HERE + "/sites/shared.yaml", "dgx-a1,dgx-b1,dgx-c1,dgx-d1", "games", shared),
    "limits": (HERE + "/sites/limits.yaml", "own[1-2]", "games", limits),
    "twins": (HERE + "/sites/twins.yaml", "r1u07-gpu,r2u08-gpu,N0-9x", "games", twins),
    "nvlink": (HERE + "/sites/nvlink.yaml", "gb[008-012,020-027],hopper1,c1", "games", nvlink),
    "plain": (HERE + "/sites/plain.yaml", "fat1,cut1,thin1", "games", plain),
    "open": (HERE + "/sites/open.yaml", "box1", "games", unlisted),
    "span": (HERE + "/sites/span.yaml", "gpu[1-2],fat1,thin[1-2]", "games", span),
    "llm-cluster": (TOP + "/data/examples/llm-cluster.yaml", "gpu[1-2]", "games", llm),
}

parser = argparse.ArgumentParser()
parser.add_argument("--version", help="the release of Slurm that files are written for")
parser.add_argument("--compose", action="store_true", help="docker compose reads the compose files of the examples, too")
parser.add_argument("stoker")
parser.add_argument("machines")
parser.add_argument("sites", nargs="*", choices=[[], *SITES])
args = parser.parse_args()
STOKER, MACHINES = os.path.realpath(args.stoker), os.path.realpath(args.machines)
os.umask(0o022)
scratch = tempfile.mkdtemp(prefix="stoker-sites-")
os.chmod(scratch, 0o755)
current = None
try:
    if args.compose:
        version = out("docker", "compose", "version").strip()
        check(f"docker compose is v2: {version}", "v2" in version or " 2." in version, version)
        compose()
    if args.version:
        version = out("slurmctld", "-V").strip()
        check(f"this is Slurm {args.version}: {version}", f" {args.version}" in version, version)
    for name in args.sites or SITES:
        spec, only, user, tried = SITES[name]
        current = Site(name, spec, only, user)
        if current.up:
            tried(current)
        current.stop()
finally:
    if current:
        current.stop()
    shutil.rmtree(scratch, ignore_errors=True)
print(f"1..{count}")
sys.exit(bool(failed))
