#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `stoker render kubernetes openshift compose` writes for every example, against the schemas
of those who will read it: strictly, so that a field nobody knows is an error.  TAP.

    schemas.py STOKER [FOLDER]

FOLDER holds the published schemas; without it ($STOKER_SCHEMAS, else shared/schemas beside the
source) those tests are skipped, and the rest runs.  With it nothing is skipped but kubectl where
there is none: a kind without a schema fails, and so does a schema that takes a typo."""
import copy
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import containerfile  # noqa: E402
import objects  # noqa: E402

TARGETS = ['kubernetes', 'openshift', 'compose']
TYPOS_MAX = 60  # keys of a kind that get one
KUSTOMIZE_MINOR = 21  # from this kubectl on, overlays are folders with patches
# Read by kubectl itself and never sent to a server; those of the fields that we write.
KUSTOMIZATION = {
    'type': 'object', 'additionalProperties': False, 'required': ['apiVersion', 'kind', 'resources'],
    'properties': {
        'apiVersion': {'const': 'kustomize.config.k8s.io/v1beta1'}, 'kind': {'const': 'Kustomization'},
        'namespace': {'type': 'string'}, 'namePrefix': {'type': 'string'},
        'resources': {'type': 'array', 'items': {'type': 'string'}, 'minItems': 1},
        'commonAnnotations': {'type': 'object', 'additionalProperties': {'type': 'string'}},
        'labels': {'type': 'array', 'items': {
            'type': 'object', 'additionalProperties': False, 'required': ['pairs'],
            'properties': {'pairs': {'type': 'object', 'additionalProperties': {'type': 'string'}},
                           'includeSelectors': {'type': 'boolean'}, 'includeTemplates': {'type': 'boolean'}}}},
        'patches': {'type': 'array', 'items': {
            'type': 'object', 'additionalProperties': False,
            'properties': {'path': {'type': 'string'}, 'patch': {'type': 'string'},
                           'target': {'type': 'object', 'additionalProperties': False, 'properties': {
                               k: {'type': 'string'} for k in ('group', 'version', 'kind', 'name', 'labelSelector')}}}}},
        'replicas': {'type': 'array', 'items': {
            'type': 'object', 'additionalProperties': False, 'required': ['name', 'count'],
            'properties': {'name': {'type': 'string'}, 'count': {'type': 'integer', 'minimum': 0}}}},
        'images': {'type': 'array', 'items': {
            'type': 'object', 'additionalProperties': False, 'required': ['name'],
            'properties': {k: {'type': 'string'} for k in ('name', 'newName', 'newTag', 'digest')}}},
    }}
TEXT, COUNT, FLAG = {'type': 'string', 'minLength': 1}, {'type': 'integer', 'minimum': 0}, {'type': 'boolean'}


def shape(required, **properties):
    """An object with these keys and no others; `required` of them must be there."""
    return {'type': 'object', 'additionalProperties': False, 'required': required.split(), 'properties': properties}


def rows(item):
    return {'type': 'array', 'items': item, 'minItems': 1}


META = shape('name', name=TEXT, namespace=TEXT, labels={'type': 'object'}, annotations={'type': 'object'})
WORDS = {'type': 'object', 'additionalProperties': TEXT}
TERMS = shape('nodeSelectorTerms', nodeSelectorTerms=rows(shape('matchExpressions', matchExpressions=rows(
    shape('key operator', key=TEXT, operator={'enum': ['In', 'NotIn', 'Exists', 'DoesNotExist']}, values=rows(TEXT))))))
# Kinds whose published schema is not in the folder: the fields that we write, as the definitions of
# Kueue 0.19.2, nv-ipam 0.4.0, the SR-IOV operator 1.6.0, the NFD operator and OLM have them.
OWN_KINDS = {
    ('kueue.x-k8s.io/v1beta2', 'Topology'): shape('levels', levels=rows(shape('nodeLabel', nodeLabel=TEXT))),
    ('kueue.x-k8s.io/v1beta2', 'ResourceFlavor'): shape('nodeLabels topologyName', nodeLabels=WORDS, topologyName=TEXT, nodeTaints=rows(
        shape('key effect', key=TEXT, value=TEXT, effect={'enum': ['NoSchedule', 'PreferNoSchedule', 'NoExecute']}))),
    ('kueue.x-k8s.io/v1beta2', 'LocalQueue'): shape('clusterQueue', clusterQueue=TEXT),
    ('kueue.x-k8s.io/v1beta2', 'ClusterQueue'): shape(
        'namespaceSelector queueingStrategy preemption resourceGroups', namespaceSelector=shape('matchLabels', matchLabels=WORDS),
        queueingStrategy={'enum': ['BestEffortFIFO', 'StrictFIFO']},
        preemption=shape('withinClusterQueue', withinClusterQueue={'enum': ['Never', 'LowerPriority', 'LowerOrNewerEqualPriority']}),
        resourceGroups=rows(shape('coveredResources flavors', coveredResources=rows(TEXT), flavors=rows(shape('name resources', name=TEXT, resources=rows(
            shape('name nominalQuota', name=TEXT, nominalQuota={'type': 'string', 'pattern': '^[0-9]+(m|Mi|Gi|M|G)?$'}))))))),
    ('nv-ipam.nvidia.com/v1alpha1', 'IPPool'): shape('subnet perNodeBlockSize nodeSelector', subnet=TEXT, perNodeBlockSize=dict(COUNT, minimum=1), nodeSelector=TERMS),
    ('sriovnetwork.openshift.io/v1', 'SriovOperatorConfig'): shape(
        'enableInjector enableOperatorWebhook logLevel', enableInjector=FLAG, enableOperatorWebhook=FLAG, logLevel=COUNT),
    ('nfd.openshift.io/v1', 'NodeFeatureDiscovery'): shape('operand workerConfig', operand=shape(
        'imagePullPolicy servicePort', imagePullPolicy=TEXT, servicePort=COUNT), workerConfig=shape('configData', configData=TEXT)),
    ('operators.coreos.com/v1', 'OperatorGroup'): shape('targetNamespaces', targetNamespaces=rows(TEXT)),
    ('operators.coreos.com/v1alpha1', 'Subscription'): shape(
        'name source sourceNamespace installPlanApproval', name=TEXT, source=TEXT, sourceNamespace=TEXT, installPlanApproval={'enum': ['Automatic', 'Manual']}),
}
KUEUE_VALUES = shape('managerConfig', managerConfig=shape('controllerManagerConfigYaml', controllerManagerConfigYaml=TEXT))
# RFC 6902, as kustomize takes it.
JSON_PATCH = {
    'type': 'array', 'minItems': 1, 'items': {
        'type': 'object', 'additionalProperties': False, 'required': ['op', 'path'],
        'properties': {'op': {'enum': ['add', 'remove', 'replace', 'test', 'move', 'copy']},
                       'path': {'type': 'string', 'pattern': '^/'}, 'from': {'type': 'string', 'pattern': '^/'},
                       'value': {}}}}
# Values of a chart that makes an object of them, by the file's name: its kind, and keys that are
# the chart's own.
VALUES = {'gpu-operator-values.yaml': ('nvidia.com/v1', 'ClusterPolicy', {
    ('nfd',), ('node-feature-discovery',), ('devicePlugin', 'config', 'create'), ('devicePlugin', 'config', 'data')})}

count = failed = 0


def check(name, faults):
    """One test: it holds when there are no faults."""
    global count, failed
    count += 1
    print(f"{'not ok' if faults else 'ok'} {count} - {name}")
    failed += bool(faults)
    for f in list(faults)[:20]:
        print('# ' + str(f).replace('\n', '\n# '))


def skip(name, why):
    global count
    count += 1
    print(f'ok {count} - {name} # SKIP {why}')


def asks_for(stoker, spec):
    """The targets that a spec names."""
    shown = subprocess.run([stoker, 'spec', 'show', '--json', spec], stdout=subprocess.PIPE, check=True).stdout
    return {name for name, value in json.loads(shown)['spec']['targets'].items() if value is not None}


def render(stoker, folder):
    """FOLDER/EXAMPLE/TARGET/... for all: examples, what refused (which a target may that the spec
    does not name, at a line and column), faults."""
    faults, refused = [], []
    listed = subprocess.run([stoker, 'spec', 'example'], text=True, stdout=subprocess.PIPE, check=True).stdout
    examples = [line.split()[0] for line in listed.splitlines() if line and not line[0].isspace()]
    for name in examples:
        spec = os.path.join(folder, name + '.spec')
        with open(spec, 'wb') as f:
            subprocess.run([stoker, 'spec', 'example', name], stdout=f, check=True)
        named = asks_for(stoker, spec)
        for target in TARGETS:
            out = os.path.join(folder, name, target)
            run = subprocess.run([stoker, 'render', target, '-f', spec, '-o', out], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            if run.returncode and target not in named and re.search(r'\.spec:[0-9]+:[0-9]+: ', run.stdout):
                refused.append(f'{name} for {target}')
            elif run.returncode:
                faults.append(f'{name}, {target}: {run.stdout}')
    return examples, refused, faults


class File:
    """A YAML file that was rendered; `kind` of it: objects, compose, patch."""

    def __init__(self, root, path):
        from strict import documents
        self.path = os.path.relpath(path, root)
        self.full = path
        self.example, self.target = self.path.split(os.sep)[:2]
        with open(path, encoding='utf-8') as f:
            text = f.read()
        self.docs = documents(text)
        self.spec = bool(self.docs) and isinstance(self.docs[0], dict) and self.docs[0].get('schema') == 'stoker.spec/1'
        self.compose = not self.spec and self.target == 'compose' and all(isinstance(d, dict) and 'kind' not in d for d in self.docs)
        self.values = VALUES.get(os.path.basename(path))
        self.patch = bool(self.docs) and isinstance(self.docs[0], list)  # of operations
        self.partial = False  # of an object

    def objects(self):
        """Documents that are whole objects of an API server."""
        if self.compose or self.values or self.patch or self.partial or self.spec:
            return []
        return [d for d in self.docs if d.get('kind') != 'Kustomization']


def load(root):
    """Every YAML file, and the faults of those that are none."""
    files, faults = [], []
    for path in sorted(glob.glob(os.path.join(root, '*', '*', '**', '*.y*ml'), recursive=True)):
        try:
            f = File(root, path)
        except Exception as e:  # whatever the parser has to say
            faults.append(f'{os.path.relpath(path, root)}: {e}')
            continue
        if not f.docs or not all(isinstance(d, (dict, list)) and d for d in f.docs):
            faults.append(f'{f.path}: an empty document')
        else:
            files.append(f)
    return files, faults


def mark_patches(root, files):
    """Files that a kustomization names as patches hold parts of objects."""
    named = set()
    for f in files:
        for d in f.docs if not f.patch else []:
            if d.get('kind') == 'Kustomization':
                named |= {os.path.normpath(os.path.join(os.path.dirname(f.path), p['path']))
                          for p in d.get('patches', []) if 'path' in p}
    for f in files:
        f.partial = f.path in named


class Own:
    """Schemas of our own, in the form of the others."""

    def __init__(self):
        import jsonschema
        self.kustomization = jsonschema.Draft7Validator(KUSTOMIZATION)
        self.patch = jsonschema.Draft7Validator(JSON_PATCH)
        self.kueue = jsonschema.Draft7Validator(KUEUE_VALUES)
        self.kinds = {key: jsonschema.Draft7Validator(shape('apiVersion kind metadata spec', apiVersion={'const': key[0]}, kind={'const': key[1]},
                                                            metadata=META, spec=spec)) for key, spec in OWN_KINDS.items()}

    def errors(self, validator, doc):
        from strict import said
        return [said(e) for e in validator.iter_errors(doc)]


def values_errors(schemas, values, doc):
    api, kind, own = values
    spec = copy.deepcopy(doc)
    for path in own:
        x = spec
        for key in path[:-1]:
            x = x.get(key, {})
        x.pop(path[-1], None)
    return schemas.errors({'apiVersion': api, 'kind': kind, 'metadata': {'name': 'x'}, 'spec': spec}, True)


def errors_of(schemas, own, f, doc):
    """None: no schema."""
    if f.patch:
        return own.errors(own.patch, doc)
    if f.values:
        return values_errors(schemas, f.values, doc)
    if doc.get('kind') == 'Kustomization':
        return own.errors(own.kustomization, doc)
    if f.compose:
        return schemas.compose_errors(doc)
    if os.path.basename(f.path) == 'kueue-values.yaml':
        return own.errors(own.kueue, doc)
    known = schemas.errors(doc, f.partial)
    mine = own.kinds.get((doc.get('apiVersion'), doc.get('kind')))
    return own.errors(mine, doc) if known is None and mine else known


def keys_of(x, path=()):
    """The path of every key."""
    if isinstance(x, dict):
        for k, v in x.items():
            yield path + (k,)
            yield from keys_of(v, path + (k,))
    elif isinstance(x, list):
        for i, v in enumerate(x):
            yield from keys_of(v, path + (i,))


# maps whose keys are the user's own
FREE = {'labels', 'nodeLabels', 'annotations', 'data', 'binaryData', 'stringData', 'matchLabels', 'selector', 'nodeSelector', 'limits',
        'requests', 'parameters', 'nodeMap', 'services', 'volumes', 'networks', 'secrets', 'configs', 'environment',
        'depends_on', 'extra_hosts', 'sysctls', 'driver_opts', 'options', 'pytorchReplicaSpecs', 'ulimits',
        'commonAnnotations', 'pairs', 'properties', 'healthCheck', 'config', 'hard', 'logging', 'args', 'attributes',
        'resourceLimits', 'storage_opt', 'capacity', 'value'}


def typos(schemas, own, f, doc):
    """(typos tried, those that nobody saw)."""
    own_paths = f.values[2] if f.values else ()
    paths = [p for p in keys_of(doc) if p[0] not in ('apiVersion', 'kind') and isinstance(p[-1], str)]
    fixed = [p for p in paths if (len(p) < 2 or p[-2] not in FREE) and not any(p[:len(o)] == o for o in own_paths)]
    if f.patch:
        fixed = [p for p in fixed if len(p) == 2]  # what is below is another's
    step = max(1, len(fixed) // TYPOS_MAX)
    missed = []
    for path in fixed[::step]:
        bad = copy.deepcopy(doc)
        x = bad
        for k in path[:-1]:
            x = x[k]
        x[path[-1] + 'z'] = x.pop(path[-1])
        if not errors_of(schemas, own, f, bad):
            missed.append('.'.join(map(str, path)))
    return len(fixed[::step]), missed


def by_kind(files):
    """kind -> (file, document), the largest of each."""
    out = {}
    for f in files:
        if f.partial:
            continue
        for d in f.docs:
            kind = 'compose' if f.compose else 'a JSON patch' if f.patch else os.path.basename(f.path) if f.values \
                else f"{d.get('apiVersion')} {d.get('kind')}"
            size = sum(1 for _ in keys_of(d))
            if kind not in out or size > out[kind][2]:
                out[kind] = (f, d, size)
    return {k: v[:2] for k, v in sorted(out.items())}


def spec_tests(stoker, files):
    """Specs of our own, for a `stoker serve` in a container."""
    faults = []
    for f in files:
        run = subprocess.run([stoker, 'spec', 'check', f.full], text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, check=False)
        faults += [f'{f.path}: {run.stdout}'] if run.returncode else []
    if files:
        check(f'{len(files)} files are specs', faults)


def schema_tests(folder, files):
    from strict import Schemas
    schemas, own = Schemas(folder), Own()
    seen = {t: 0 for t in TARGETS}
    bad = 0
    for f in files:
        faults = []
        for n, d in enumerate(f.docs):
            seen[f.target] += 1
            found = errors_of(schemas, own, f, d)
            what = objects.where(d) if isinstance(d, dict) and 'kind' in d else f'document {n + 1}'
            if found is None:
                faults.append(f"{what}: there is no schema of {d.get('apiVersion')} {d.get('kind')}")
            else:
                faults += [f'{what}: {e}' for e in found]
        if faults:
            bad += 1
            check(f.path, faults)
    check('every document fits its schema: ' + ', '.join(f'{n} of {t}' for t, n in seen.items()),
          [f'{bad} files do not'] if bad else [])
    check('every target has documents', [t for t, n in seen.items() if not n])
    for kind, (f, d) in by_kind(files).items():
        tried, missed = typos(schemas, own, f, d)
        check(f'typos in {kind} are caught: {tried}', missed if tried else ['none could be tried'])
    return schemas


def sets(files):
    """The objects that are applied together: those of a target of an example."""
    out = {}
    for f in files:
        if f.objects():
            out.setdefault((f.example, f.target), []).extend(f.objects())
    return out


def set_tests(files):
    for (example, target), docs in sets(files).items():
        docs = [d for d in docs if 'metadata' in d]
        faults = [f'{w}: {x}' for w, x in objects.faults(docs)]
        check(f'{example}, {target}: names are names, and what is referred to is there', faults)


def kustomize_tests(root, files):
    """Every file a kustomization names is there, and every file with objects is named by one."""
    faults, named, bases = [], set(), []
    for f in files:
        for d in f.docs if not f.patch else []:
            if d.get('kind') != 'Kustomization':
                continue
            here = os.path.dirname(f.path)
            simple = not d.get('patches') and not [r for r in d['resources'] if not r.endswith('.yaml')]
            bases.append((here, simple))
            bases[-1] += (any('://' in r for r in d['resources']),)
            for r in d.get('resources', []) + [p['path'] for p in d.get('patches', []) if 'path' in p]:
                if '://' in r:
                    continue  # install.py knows those
                path = os.path.normpath(os.path.join(here, r))
                named.add(path)
                if not os.path.exists(os.path.join(root, path)):
                    faults.append(f'{f.path}: {r} is not there')
    check('what a kustomization names is there', faults)
    return bases, named


def kubectl_tests(folder, schemas, files, bases, root):
    import kube_api
    home = os.path.join(root, 'home')
    os.makedirs(home)
    core = [(f, d) for f in files for d in f.objects() if (d.get('apiVersion'), d.get('kind')) in schemas.plurals]
    with kube_api.Api(folder, schemas.plurals) as url:
        kinds = sorted({d['kind'] for _, d in core})
        rc, text = kube_api.kubectl(url, home, [kube_api.older(d, objects.pod_specs) for _, d in core])
        made = text.count('created (dry run)')
        check(f"kubectl create --validate takes {len(core)} objects: {', '.join(kinds)}",
              [text] if rc or made != len(core) else [])
        done = set()
        missed = []
        for _, d in core:
            if d['kind'] in done:
                continue
            done.add(d['kind'])
            bad = kube_api.older(d, objects.pod_specs)
            bad['metadata']['labelz'] = {}
            rc, text = kube_api.kubectl(url, home, [bad])
            if rc == 0 or 'unknown field "labelz"' not in text:
                missed.append(f"{d['kind']}: {text}")
        check('kubectl sees a typo in each of them', missed)
    from strict import documents
    new = kube_api.minor() >= KUSTOMIZE_MINOR
    faults, built, left = [], 0, 0
    for base, simple, others in bases:
        if others:
            continue  # files of other projects, which are not asked for here
        if not simple and not new:
            left += 1
            continue
        built += 1
        rc, text, said = kube_api.kustomize(home, os.path.join(root, base))
        faults += [f'{base}: {said}'] if rc else []
        for d in documents(text) if not rc else []:
            faults += [f'{base}: {objects.where(d)}: {e}' for e in schemas.errors(d) or []]
    check(f'kubectl kustomize builds {built} folders, and what comes out fits', faults)
    if left:
        skip(f'kubectl kustomize with {left} more folders', f'this kubectl is older than 1.{KUSTOMIZE_MINOR}')


def container_tests(root):
    for name, wrong in containerfile.self_check():
        check(f'Containerfile rule: {name}', [wrong] if wrong else [])
    faults, n = [], 0
    for path in sorted(glob.glob(os.path.join(root, '*', '*', '**', 'Containerfile*'), recursive=True)):
        n += 1
        with open(path, encoding='utf-8') as f:
            faults += [f'{os.path.relpath(path, root)}:{line}: {what}' for _, line, what in containerfile.faults(f.read())]
    check(f'{n} rendered Containerfiles keep every rule', faults if n else ['there is none'])


def schema_folder(given):
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
    return given or os.environ.get('STOKER_SCHEMAS') or os.path.normpath(os.path.join(top, '..', 'shared', 'schemas'))


def main(stoker, folder):
    root = tempfile.mkdtemp(prefix='stoker-schemas.')
    try:
        examples, refused, faults = render(stoker, root)
        check(f'{len(examples)} examples render for {", ".join(TARGETS)}'
              + (f'; refused, not being asked for: {", ".join(refused)}' if refused else ''),
              faults if examples else ['no example'])
        container_tests(root)
        why = None
        try:
            import strict  # noqa: F401
        except ImportError as e:
            why = f'{e}: python3-jsonschema and python3-yaml are wanted (tools/setup test)'
        there = os.path.isdir(folder)
        if why and there:
            check('the schemas can be read', [why])
        if why or not there:
            skip('schemas, objects, kubectl', why or f'the published schemas are not in {folder} ($STOKER_SCHEMAS)')
            return
        files, faults = load(root)
        check(f'{len(files)} files are YAML without an empty document or a key twice', faults)
        mark_patches(root, files)
        spec_tests(stoker, [f for f in files if f.spec])
        files = [f for f in files if not f.spec]
        schemas = schema_tests(folder, files)
        set_tests(files)
        bases, _ = kustomize_tests(root, files)
        if shutil.which('kubectl'):
            kubectl_tests(folder, schemas, files, bases, root)
        else:
            skip('kubectl takes the objects', 'kubectl is not here')
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == '__main__':
    main(sys.argv[1], schema_folder(sys.argv[2] if len(sys.argv) > 2 else None))
    print(f'1..{count}')
    sys.exit(failed > 0)
