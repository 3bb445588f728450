# SPDX-License-Identifier: MIT
"""tight_site: a random site of a seed that is 85 to 115 % full, so that it matters who goes where.

Machines are filled at random by components of random sizes, which is a placement that is known to exist;
then a pod more, a pod less or a CPU more may be asked for.  Written from the reference of the spec and from
what DEPLOYING says a machine has for pods, without a look at how `stoker` judges: the two are compared."""
import random

MIG = {"H100": {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2}, "H200": {"1g.18gb": 7, "1g.35gb": 4, "2g.35gb": 3, "3g.71gb": 2},
       "A100-80GB": {"1g.10gb": 7, "2g.20gb": 3, "3g.40gb": 2}}
KEPT_CPUS, KEPT_GIB = 2.5, 8.7  # of a machine: kubelet, system, agent and network plug-in
PODS_MAX = 40
FULL = (0.85, 1.15)


def group(r, name):
    """A group of machines, and what one of them has for pods: CPUs, GiB, GPUs or MIG instances."""
    kind = r.choices(("gpu", "mig", "cpu"), (6, 2, 4))[0]
    threads = r.choice((1, 2))
    g = {"name": name, "count": r.choice((1, 1, 2, 2, 3, 4))}
    units = 0
    if kind == "cpu":
        g |= {"role": "cpu", "cpu_cores": r.choice((8, 12, 16, 24, 32)), "memory": f"{r.choice((32, 48, 64, 96, 128, 256))}GiB"}
    else:
        count = r.choice((1, 2, 2, 4, 4, 6, 8, 8)) if kind == "gpu" else r.choice((1, 1, 2, 3))
        model = r.choice(("H100", "H200", "A100-80GB", "L40S")) if kind == "gpu" else r.choice(list(MIG))
        g |= {"gpus_per_node": count, "gpu": {"model": model}, "cpu_cores": max(8, count * r.choice((3, 4, 6, 8))),
              "memory": f"{32 + count * r.choice((16, 32, 48, 64))}GiB"}
        units = count
        if kind == "mig":
            profile = r.choice(list(MIG[model]))
            g["gpu"] |= {"sharing": "mig", "mig_profile": profile}
            units = count * MIG[model][profile]
    g["threads_per_core"] = threads
    taint = r.random()
    if taint < 0.2:
        g["taints"] = ["nvidia.com/gpu=present:NoSchedule"] if units else [f"{name}=only:NoExecute"]
    elif taint < 0.35:
        g["taints"] = [f"team={name}:NoSchedule"]
    elif taint < 0.42:
        g["taints"] = [f"spare={name}:PreferNoSchedule"]
    return g, (g["cpu_cores"] * threads - KEPT_CPUS, float(g["memory"][:-3]) - KEPT_GIB, units)


def alike(groups, one):
    """Groups that may share a component with `one`: of the same unit of GPUs."""
    def unit(g):
        return "gpus_per_node" in g, g.get("gpu", {}).get("mig_profile"), g.get("gpu", {}).get("sharing") and g["gpu"]["model"]
    return [g["name"] for g, _ in groups if unit(g) == unit(one)]


def fraction(r, whole, least=1):
    """A part of a machine that leaves a rest: halves and thirds that just miss are among them."""
    part = r.choice((0.11, 0.16, 0.2, 0.25, 0.3, 1 / 3, 0.4, 0.45, 0.5, 0.55, 0.65, 0.8, 1.0)) * r.uniform(0.85, 1.0)
    return max(least, int(whole * part))


def component(r, groups):
    """A component without its number of pods: (spec, names of groups, need of a pod)."""
    g, (cpus, gib, units) = r.choice(groups)
    names = alike(groups, g)
    where = [g["name"]]
    if len(names) > 1 and r.random() < 0.3:
        where = sorted(r.sample(names, r.randint(2, len(names))))
    c = {"target": "kubernetes", "image": "registry.example.org/x:1"}
    if units and r.random() < 0.78:
        c["gpus"] = min(units, r.choice((1, 1, 1, 2, 2, 3, 4, 4, units // 2 + 1, units)), 16)
        share = c["gpus"] / units
        need = [cpus * share * 0.6, gib * share * 0.6, c["gpus"]]
        if r.random() < 0.6:
            need[0] = c["cpus"] = max(1, min(int(cpus), int(cpus * share * r.uniform(0.4, 1.5))))
        if r.random() < 0.6:
            need[1] = max(1, min(int(gib), int(gib * share * r.uniform(0.4, 1.5))))
            c["memory"] = f"{need[1]}GiB"
    else:
        big, small = fraction(r, 1000) / 1000, r.uniform(0.02, 0.35)
        of_cpu, of_gib = (big, small) if r.random() < 0.6 else (small, big)
        if units:  # beside pods with GPUs: the smaller ones
            of_cpu, of_gib = of_cpu * 0.5, of_gib * 0.5
        need = [max(1, int(cpus * of_cpu)), max(1, int(gib * of_gib)), 0]
        c |= {"cpus": need[0], "memory": f"{need[1]}GiB"}
        if r.random() < 0.12:
            where = []  # wherever nothing keeps it away
    if where:
        c["nodes"] = where[0] if len(where) == 1 else where
    kind = r.choices(("service", "training", "batch"), (6, 3, 1.5))[0]
    if kind != "service":
        c |= {"kind": kind, "command": ["run"]}
    elif r.random() < 0.5:
        c["ports"] = [{"name": "http", "port": 8080}]
    if r.random() < 0.3:
        c["priority"] = r.choice(("low", "high"))
    return c, where, need


def fitting(machines, where, need, taken=()):
    return [m for m in machines if id(m) not in taken and (m["group"] in where if where else not m["closed"]) and all(f >= n for f, n in zip(m["free"], need))]


def put(r, m, need):
    m["free"] = [f - n for f, n in zip(m["free"], need)]


def fill(r, groups, shapes):
    """Numbers of pods for `shapes`, so that all of them have a machine; None where one has none."""
    machines = [{"group": g["name"], "free": list(have), "closed": any("Prefer" not in t for t in g.get("taints", ()))} for g, have in groups for _ in range(g["count"])]
    counts = [0] * len(shapes)

    def more(i):
        c, where, need = shapes[i]
        span = c.get("nodes_per_replica", 1) if c.get("kind") == "training" else 1
        taken = []
        for _ in range(span):
            open_to = fitting(machines, where, need, [id(m) for m in taken])
            if not open_to:
                for m in taken:
                    put(r, m, [-n for n in need])
                return False
            m = r.choice(open_to) if r.random() < 0.7 else min(open_to, key=lambda m: sum(m["free"]))
            put(r, m, need)
            taken.append(m)
        counts[i] += 1
        return True
    for i, (c, where, _) in enumerate(shapes):
        if c.get("kind") == "training":
            room = sum(g["count"] for g, _ in groups if g["name"] in where)
            c["nodes_per_replica"] = r.randint(1, max(1, min(4, room)))
        if not more(i):
            return None
    growing = [i for i, s in enumerate(shapes) if s[0].get("kind") != "training"]
    while growing and sum(counts) < PODS_MAX:
        i = r.choice(growing)
        if not more(i):
            growing.remove(i)
    return counts


def fullness(groups, shapes, counts):
    """Of CPUs, memory and GPUs that which is shortest, over the groups that somebody names."""
    best = 0
    for k in range(3):
        have = sum(g["count"] * h[k] for g, h in groups)
        asked = sum(n * c.get("nodes_per_replica", 1) * need[k] for (c, _, need), n in zip(shapes, counts))
        best = max(best, asked / have if have else 0)
    return best


def tweak(r, groups, shapes, counts):
    """The known placement, or a little more or less than it."""
    what = r.choices(("as it is", "less", "more", "bigger"), (45, 15, 20, 20))[0]
    i = r.randrange(len(shapes))
    c, _, need = shapes[i]
    if what == "less" and counts[i] > 1:
        counts[i] -= 1
    elif what == "more" and c.get("kind") != "training":
        counts[i] += 1
    elif what == "bigger" and "cpus" in c:
        need[0] = c["cpus"] = c["cpus"] + r.choice((1, 1, 2))
    elif what == "bigger" and c.get("gpus", 0) > 1:
        need[2] = c["gpus"] = c["gpus"] - 1


def site(seed):
    """The spec of a seed, as it would stand in a file."""
    r = random.Random(f"tight {seed}")
    while True:
        groups = [group(r, f"s{seed}-{'abcd'[i]}") for i in range(r.choices((1, 2, 3, 4), (3, 4, 2, 1))[0])]
        shapes = [component(r, groups) for _ in range(r.randint(2, 8))]
        counts = fill(r, groups, shapes)
        if counts is None:
            continue
        tweak(r, groups, shapes, counts)
        if FULL[0] <= fullness(groups, shapes, counts) <= FULL[1]:
            break
    components = {}
    for i, ((c, _, _), n) in enumerate(zip(shapes, counts)):
        if c.get("kind") != "training" and n != 1:
            c["replicas"] = n
        components[f"{c.get('kind', 'service')[:5]}{i}"] = c
    target = {"namespace": f"s{seed}", "version": r.choice(("1.27", "1.33", "1.36")), "job": r.choice(("job", "job", "statefulset"))}
    if r.random() < 0.5:
        target["stoker_image"] = "registry.example.org/stoker:1"
    if any("mig_profile" in g.get("gpu", {}) for g, _ in groups) and r.random() < 0.25:
        target["mig_strategy"] = "single"
    names = list(components)
    r.shuffle(names)
    return {"schema": "stoker.spec/1", "site": {"name": f"s{seed}"}, "nodes": [g for g, _ in groups],
            "components": {n: components[n] for n in names}, "targets": {"kubernetes": target}}
