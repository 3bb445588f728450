# SPDX-License-Identifier: MIT
"""tight_pack: can the pods of some manifests be on some machines at once?  Every placement is tried, so that
"no" is a proof; it knows requests, node affinity, selectors, taints, and spreading that must be.

It knows nothing of the order in which pods arrive: a control plane shows that (tight_random.py)."""
from site_machines import quantity

STEPS_MAX = 400000


class GaveUp(Exception):
    """More placements than can be tried."""


def asked(pod):
    """What the scheduler reserves for a pod, in thousandths of a CPU, bytes and pieces."""
    def of(c):
        r = c.get("resources", {})
        return {**r.get("limits", {}), **r.get("requests", {})}

    def value(k, v):
        return int(quantity(v) * 1000 + 0.5) if k == "cpu" else int(quantity(v))
    total, first = {}, {}
    side = [c for c in pod.get("initContainers", []) if c.get("restartPolicy") == "Always"]
    for c in pod["containers"] + side:
        for k, v in of(c).items():
            total[k] = total.get(k, 0) + value(k, v)
    for c in pod.get("initContainers", []):
        for k, v in of(c).items():
            first[k] = max(first.get(k, 0), value(k, v))
    return {k: max(total.get(k, 0), first.get(k, 0)) for k in {*total, *first}}


def matches(term, labels):
    for e in term.get("matchExpressions", []):
        has, key = e["key"] in labels, labels.get(e["key"])
        good = {"In": has and key in e.get("values", []), "NotIn": key not in e.get("values", []), "Exists": has, "DoesNotExist": not has}[e["operator"]]
        if not good:
            return False
    return True


def tolerated(taint, pod):
    for t in pod.get("tolerations", []):
        if t.get("effect") and t["effect"] != taint["effect"] or t.get("key") and t["key"] != taint["key"]:
            continue
        if t.get("operator") == "Exists" or t.get("value", "") == taint.get("value", ""):
            return True
    return False


def may_be(pod, node):
    """Whether a pod may be on a machine, its room aside."""
    labels = node["metadata"]["labels"]
    if any(labels.get(k) != v for k, v in pod.get("nodeSelector", {}).items()):
        return False
    need = pod.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if need and not any(matches(t, labels) for t in need["nodeSelectorTerms"]):
        return False
    return all(t["effect"] == "PreferNoSchedule" or tolerated(t, pod) for t in node["spec"].get("taints", []))


def workloads(docs):
    """(name, pods, pod) of what runs; DaemonSets apart."""
    out = []
    for d in docs:
        s = d.get("spec", {})
        many = {"Deployment": s.get("replicas", 1), "StatefulSet": s.get("replicas", 1), "Job": 0 if "kueue.x-k8s.io/queue-name" in d["metadata"].get("labels", {}) else s.get("parallelism", 1)}.get(d["kind"])
        if many:
            out.append((d["metadata"]["name"], many, s["template"]["spec"]))
    return out


def rooms(nodes, docs, daemons):
    """What machines have left when the pods of each machine are there: (node, {resource: amount})."""
    out = []
    for node, _, given in nodes:
        left = {k: int(quantity(v) * 1000 + 0.5) if k == "cpu" else int(quantity(v)) for k, v in given.items()}
        for d in [*docs, *daemons]:
            if d["kind"] == "DaemonSet" and may_be(d["spec"]["template"]["spec"], node):
                for k, v in {**asked(d["spec"]["template"]["spec"]), "pods": 1}.items():
                    left[k] = left.get(k, 0) - v
        out.append((node, left))
    return out


def apart(pod):
    """Whether its like may not be on the same machine."""
    return any(t["topologyKey"] == "kubernetes.io/hostname" and t["whenUnsatisfiable"] == "DoNotSchedule" for t in pod.get("topologySpreadConstraints", [])) or any(
        t["topologyKey"] == "kubernetes.io/hostname" for t in pod.get("affinity", {}).get("podAntiAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", []))


def placeable(nodes, docs, daemons, free_of=lambda name: ()):
    """True with a placement, False with the proof that there is none, None where the search gives up.
    `free_of` names resources of a workload that are left out."""
    left = rooms(nodes, docs, daemons)
    kinds = sorted({k for _, f in left for k in f})
    work = []
    for name, many, pod in workloads(docs):
        need = asked(pod)
        if any(k not in kinds for k, v in need.items() if v):
            return False
        vector = tuple(0 if k in free_of(name) else 1 if k == "pods" else need.get(k, 0) for k in kinds)
        work.append((vector, many, frozenset(i for i, (n, _) in enumerate(left) if may_be(pod, n)), apart(pod)))
    whole = [max(1, sum(f.get(k, 0) for _, f in left)) for k in kinds]
    work.sort(key=lambda w: (len(w[2]), -max(v / t for v, t in zip(w[0], whole))))
    search = Search(work)
    try:
        return search.place(0, tuple(tuple(f.get(k, 0) for k in kinds) for _, f in left))
    except GaveUp:
        return None


class Search:
    """Workloads one after the other, each spread over the machines in every way that differs."""

    def __init__(self, work):
        self.work, self.steps, self.dead = work, 0, set()
        # machines that the same workloads may be on are alike
        every = {i for w in work for i in w[2]}
        self.kind = {i: tuple(i in w[2] for w in work) for i in every}

    def place(self, at, free):
        if at == len(self.work):
            return True
        key = (at, tuple(sorted((self.kind[i][at:], free[i]) for i in self.kind)))
        if key in self.dead or not self.enough(at, free):
            return False
        if self.spread(at, free, self.work[at][1], sorted(self.work[at][2], key=lambda i: (free[i], self.kind[i])), None):
            return True
        self.dead.add(key)
        return False

    def enough(self, at, free):
        """Sums alone: what those that may be on the same machines need, of what these have."""
        for where in {w[2] for w in self.work[at:]}:
            inside = [w for w in self.work[at:] if w[2] <= where]
            for k in range(len(inside[0][0])):
                if sum(w[0][k] * w[1] for w in inside) > sum(free[i][k] for i in where):
                    return False
        return True

    def spread(self, at, free, many, machines, before):
        """`before` is the machine that was last: kind, room and pods; its equals get no more pods than it did."""
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise GaveUp
        if not many:
            return self.place(at + 1, free)
        if not machines:
            return False
        need, _, _, alone = self.work[at]
        i, rest = machines[0], machines[1:]
        like = (self.kind[i], free[i])
        most = min([many, 1 if alone else many] + [max(0, f) // n for f, n in zip(free[i], need) if n])
        if before and before[0] == like:
            most = min(most, before[1])
        for n in range(most, -1, -1):
            left = free[:i] + (tuple(f - n * v for f, v in zip(free[i], need)),) + free[i + 1:]
            if self.spread(at, left, many - n, rest, (like, n)):
                return True
        return False
