# SPDX-License-Identifier: MIT
"""objects: what a schema cannot say of a set of Kubernetes objects: names a server takes, and that
what one refers to is there."""
import re

LABEL = re.compile(r'([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?')
KEY = re.compile(r'([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?')
SUBDOMAIN = re.compile(r'[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*')
DNS_LABEL = re.compile(r'[a-z]([a-z0-9-]{0,61}[a-z0-9])?')
ENV = re.compile(r'[A-Za-z_.-][A-Za-z0-9_.-]*')
PATHLIKE = {'Role', 'RoleBinding', 'ClusterRole', 'ClusterRoleBinding'}  # names with ':' and more
STRICT_NAMES = {'Service', 'Namespace'}
# grown by the cluster itself, or by the site: not in the set
GIVEN_CLASSES = ('system:',)


def where(doc):
    return f"{doc.get('kind')}/{doc.get('metadata', {}).get('name')}"


def pod_specs(doc):
    """(labels, pod spec, claim names) of whatever in the object has pods, at any depth."""
    if doc.get('kind') == 'Pod':
        yield doc['metadata'].get('labels', {}), doc['spec'], []
        return
    stack = [(doc.get('spec'), [])]
    while stack:
        x, claims = stack.pop()
        if isinstance(x, dict):
            claims = claims + [c['metadata']['name'] for c in x.get('volumeClaimTemplates', [])]
            t = x.get('template')
            if isinstance(t, dict) and isinstance(t.get('spec'), dict) and 'containers' in t['spec']:
                yield t.get('metadata', {}).get('labels', {}), t['spec'], claims
            stack += [(v, claims) for v in x.values()]
        elif isinstance(x, list):
            stack += [(v, claims) for v in x]


def names(doc):
    meta = doc.get('metadata', {})
    name = meta.get('name') or meta.get('generateName', '').rstrip('-')
    form = DNS_LABEL if doc['kind'] in STRICT_NAMES else SUBDOMAIN
    if doc['kind'] not in PATHLIKE and (not form.fullmatch(name) or len(name) > 253):
        yield f"the name '{name}' is not one"
    for key, value in meta.get('labels', {}).items():
        if not KEY.fullmatch(key) or not LABEL.fullmatch(value):
            yield f"the label {key}={value} is not one"
    for key in meta.get('annotations', {}):
        if not KEY.fullmatch(key):
            yield f"the annotation {key} is not one"


def unique(items, what):
    seen = set()
    for x in items:
        if x in seen:
            yield f"{what} '{x}' stands twice"
        seen.add(x)


def container(c, volumes):
    yield from unique([m['mountPath'] for m in c.get('volumeMounts', [])], 'the mount point')
    yield from unique([e['name'] for e in c.get('env', [])], 'the variable')
    for m in c.get('volumeMounts', []):
        if m['name'] not in volumes:
            yield f"container {c['name']} mounts '{m['name']}', which is no volume"
    for e in c.get('env', []):
        if not ENV.fullmatch(e['name']):
            yield f"'{e['name']}' is no variable"
    for p in c.get('ports', []):
        if len(p.get('name', '')) > 15:
            yield f"the port name '{p['name']}' is longer than 15"
    for group in ('limits', 'requests'):
        for key, value in c.get('resources', {}).get(group, {}).items():
            if '/' in key and c['resources'].get('limits', {}).get(key) != value:
                yield f"{key}: request and limit of an extended resource must be equal"


def pod(spec, claims, have, ns):
    """`have(kind, name)`: is it in the set?"""
    volumes = [v['name'] for v in spec.get('volumes', [])] + claims
    yield from unique(volumes, 'the volume')
    yield from unique([c['name'] for c in spec['containers'] + spec.get('initContainers', [])], 'the container')
    used = set()
    for c in spec['containers'] + spec.get('initContainers', []):
        yield from container(c, volumes)
        used |= {m['name'] for m in c.get('volumeMounts', [])}
        for source in c.get('envFrom', []):
            ref = source.get('configMapRef', {})
            if ref and not ref.get('optional') and not have('ConfigMap', ref['name']):
                yield f"ConfigMap '{ref['name']}' is not in the set"
    for v in spec.get('volumes', []):
        if v['name'] not in used:
            yield f"the volume '{v['name']}' is mounted nowhere"
        ref = v.get('configMap')
        if ref and not ref.get('optional') and not have('ConfigMap', ref['name']):
            yield f"ConfigMap '{ref['name']}' is not in the set"
        claim = v.get('persistentVolumeClaim')
        if claim and not have('PersistentVolumeClaim', claim['claimName']):
            yield f"claim '{claim['claimName']}' is not in the set"
    account = spec.get('serviceAccountName', 'default')
    if account != 'default' and not have('ServiceAccount', account):
        yield f"service account '{account}' is not in the set"


def matches(selector, labels):
    return all(labels.get(k) == v for k, v in selector.items())


def faults(docs):
    """Every fault of the objects of one set, as (object, text)."""
    have = {(d['kind'], d['metadata'].get('name')) for d in docs}
    labels = [ls for d in docs for ls, _, _ in pod_specs(d)]
    out = []
    out += [('set', x) for x in unique([f"{d['apiVersion']} {d['metadata'].get('namespace', '')} {where(d)}" for d in docs
                                        if d['metadata'].get('name')], 'the object')]
    for d in docs:
        found = list(names(d))
        for ls, spec, claims in pod_specs(d):
            found += pod(spec, claims, lambda k, n: (k, n) in have, d['metadata'].get('namespace'))
            selector = d.get('spec', {}).get('selector')
            if isinstance(selector, dict) and not matches(selector.get('matchLabels', {}), ls):
                found.append('the selector does not match the labels of its pods')
        if d['kind'] == 'Service' and d['spec'].get('selector'):
            if not any(matches(d['spec']['selector'], ls) for ls in labels):
                found.append('no pod has the labels it selects')
        if d['kind'] == 'StatefulSet' and ('Service', d['spec'].get('serviceName')) not in have:
            found.append('its service is not in the set')
        if d['kind'] in ('RoleBinding', 'ClusterRoleBinding'):
            ref = d['roleRef']
            if not ref['name'].startswith(GIVEN_CLASSES) and (ref['kind'], ref['name']) not in have:
                found.append(f"{ref['kind']} '{ref['name']}' is not in the set")
            for s in d.get('subjects', []):
                if s['kind'] == 'ServiceAccount' and ('ServiceAccount', s['name']) not in have:
                    found.append(f"service account '{s['name']}' is not in the set")
        out += [(where(d), x) for x in found]
    return out
