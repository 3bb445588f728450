#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `stoker render kubernetes openshift` installs, read from the dry run of its own scripts.  TAP.

    install.py STOKER FOLDER

A cluster is followed line by line: what each line brings (a chart by the table below, an object by its
file) is known from then on, and whatever an object uses must be known by then: its kind, namespace,
priority and runtime class, storage class, claims, secrets, networks and their address pools, resources
of devices, labels of machines, queues.  That the reader can fail is shown by leaving out each line in
turn.  Charts are told with the values that they have at the release that the script names."""
import functools
import json
import os
import re
import shlex
import subprocess
import sys

import yaml

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import objects  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# group of an apiVersion that the server itself has
BUILT_IN = {'v1', 'apps', 'batch', 'policy', 'autoscaling', 'scheduling.k8s.io', 'networking.k8s.io',
            'rbac.authorization.k8s.io', 'node.k8s.io', 'storage.k8s.io'}
OPENSHIFT = {'security.openshift.io', 'image.openshift.io', 'build.openshift.io', 'route.openshift.io', 'operators.coreos.com',
             'k8s.cni.cncf.io', 'monitoring.coreos.com'}
IMMEDIATE = {'kube-system', 'default'}
# release of a chart: version, groups of kinds, resources (a pattern), labels of machines (prefixes), options that it knows
PROMETHEUS = 'prometheus.prometheusSpec.%sSelectorNilUsesHelmValues'
CHARTS = {
    'kube-prometheus-stack': {'version': '88.5.3', 'groups': {'monitoring.coreos.com'}, 'values': {PROMETHEUS % n for n in ('podMonitor', 'serviceMonitor', 'rule')}},
    'keda': {'version': '2.20.2', 'groups': {'keda.sh'}, 'values': set()},
    'metrics-server': {'version': '3.13.1', 'groups': set(), 'values': {'args'}, 'gives': {'cpu metrics'}},
    'gpu-operator': {'version': 'v26.7.0', 'groups': {'nvidia.com'}, 'values': set(), 'resources': r'nvidia\.com/(gpu|mig-.+)',
                     'labels': {'nvidia.com/', 'feature.node.kubernetes.io/'}, 'gives': {'runtime'}},
    'nvidia-device-plugin': {'version': '0.20.0', 'groups': set(), 'values': set(),
                             'resources': r'nvidia\.com/gpu', 'labels': {'nvidia.com/', 'feature.node.kubernetes.io/'}},
    'node-feature-discovery': {'version': '0.19.0', 'groups': {'nfd.k8s-sigs.io'}, 'values': {'worker.tolerations'}, 'labels': {'feature.node.kubernetes.io/'}},
    'sriov-network-operator': {'version': '1.6.0', 'groups': {'sriovnetwork.openshift.io'},
                               'values': {'sriovOperatorConfig.deploy', 'operator.resourcePrefix'}, 'gives': {'cni sriov', 'cni ib-sriov'}},
    'aws-efa-k8s-device-plugin': {'version': 'v0.5.30', 'groups': set(), 'values': set(), 'resources': r'vpc\.amazonaws\.com/efa'},
    'kueue': {'version': '0.19.2', 'groups': {'kueue.x-k8s.io'}, 'values': set()},
}
# files of others, by a part of their address
REMOTE = {
    'multus-cni/v4.3.0/deployments/multus-daemonset-thick.yml': {'groups': {'k8s.cni.cncf.io'}},
    'whereabouts/v0.9.4/doc/crds/daemonset-install.yaml': {'gives': {'ipam whereabouts'}},
    'whereabouts/v0.9.4/doc/crds/': {'groups': {'whereabouts.cni.cncf.io'}},
    'nvidia-k8s-ipam/deploy/overlays/no-webhook?ref=v0.4.0': {'groups': {'nv-ipam.nvidia.com'}, 'gives': {'ipam nv-ipam'}},
    'k8s-rdma-shared-dev-plugin/v1.5.3/deployment/k8s/base/daemonset.yaml': {'gives': {'rdma plug-in'}},
    'trainer.git/manifests/overlays/standalone?ref=v1.9.4': {'groups': {'kubeflow.org'}, 'namespaces': {'kubeflow'}},
    'trainer.git/manifests/overlays/manager?ref=v2.3.0': {'groups': {'trainer.kubeflow.org', 'jobset.x-k8s.io'}, 'namespaces': {'kubeflow-system'}},
    'trainer.git/manifests/overlays/runtimes?ref=v2.3.0': {'gives': {'runtime torch-distributed'}, 'wants': 'trainer.kubeflow.org'},
    'jobset/releases/download/v0.12.0/manifests.yaml': {'groups': {'jobset.x-k8s.io'}, 'namespaces': {'jobset-system'}},
}
# packages of OLM
PACKAGES = {'nfd': {'groups': {'nfd.openshift.io'}}, 'sriov-network-operator': {'groups': {'sriovnetwork.openshift.io'}},
            'gpu-operator-certified': {'groups': {'nvidia.com'}}, 'nvidia-network-operator': {'groups': {'mellanox.com'}}}
CNI = {'macvlan', 'tuning', 'sbr'}                # of the packages that bring the kubelet, and of OpenShift
IPAM = {'ipam host-local', 'ipam dhcp', 'ipam static'}
LABELS = {'kubernetes.io/hostname', 'kubernetes.io/os', 'kubernetes.io/arch', 'topology.kubernetes.io/zone'}


class Cluster:
    """What is known after the lines so far."""

    def __init__(self, folder, openshift):
        self.folder, self.openshift = folder, openshift
        self.groups = BUILT_IN | (OPENSHIFT if openshift else set())
        self.namespaces = IMMEDIATE | ({'openshift-dns', 'openshift-user-workload-monitoring', 'openshift-marketplace'} if openshift else set())
        self.have = set()        # (kind, namespace or None, name)
        self.resources = []      # patterns
        self.prefix = None       # of virtual functions
        self.labels = set(LABELS)
        self.label_prefixes = set()
        self.gives = set(IPAM) | ({'ipam whereabouts'} if openshift else set())
        self.default_class = False
        self.faults = []

    def fault(self, text):
        if text not in self.faults:
            self.faults.append(text)

    def bring(self, what):
        self.groups |= what.get('groups', set())
        self.namespaces |= what.get('namespaces', set())
        self.gives |= what.get('gives', set())
        self.label_prefixes |= what.get('labels', set())
        if 'resources' in what:
            self.resources.append(what['resources'])
        if what.get('wants') and what['wants'] not in self.groups:
            self.fault(f"{what['wants']} is not there yet")

    # ---- lines ----
    def helm(self, words):
        assert words[1:3] == ['upgrade', '--install'], words
        release, options = words[3], words[4:]
        chart = CHARTS.get(release)
        if not chart:
            return self.fault(f'a chart that nobody knows: {release}')
        version = options[options.index('--version') + 1]
        if version != chart['version']:
            self.fault(f'{release}: version {version}, and values are known of {chart["version"]}')
        sets = dict(options[i + 1].split('=', 1) for i, o in enumerate(options) if o in ('--set', '--set-json'))
        for key in set(sets) - chart['values']:
            self.fault(f'{release} {version} has no value {key}')
        for i, o in enumerate(options):
            if o == '--values' and not os.path.isfile(options[i + 1]):
                self.fault(f'{release}: no file {options[i + 1]}')
        self.bring(chart)
        self.namespaces.add(options[options.index('--namespace') + 1])
        if release == 'sriov-network-operator' and sets.get('sriovOperatorConfig.deploy') == 'true':
            self.prefix = sets.get('operator.resourcePrefix', 'openshift.io')
            self.labels.add('feature.node.kubernetes.io/network-sriov.capable' if self.label_prefixes else '')
        if release == 'gpu-operator':
            values = load(options[options.index('--values') + 1])[0]
            self.have.add(('RuntimeClass', None, values['operator']['runtimeClass']))
            rdma = values['driver'].get('rdma', {})
            if rdma.get('enabled') and not rdma.get('useHostMofed'):
                self.fault('the driver waits for a driver of NICs that nobody installs')
        if release == 'nvidia-device-plugin' and load(options[options.index('--values') + 1])[0].get('migStrategy') == 'mixed':
            self.resources.append(r'nvidia\.com/mig-.+')
        if release == 'kueue':
            values = load(options[options.index('--values') + 1])[0]
            self.kueue = yaml.safe_load(values['managerConfig']['controllerManagerConfigYaml'])
        return None

    def remote(self, address):
        hits = [what for part, what in REMOTE.items() if part in address]
        if not hits:
            self.fault(f'a file that nobody knows: {address}')
        for what in hits:
            self.bring(what)

    def kustomize(self, folder):
        """Objects of a kustomization, others' files taken as they come."""
        k = load(os.path.join(folder, 'kustomization.yaml'))[0]
        docs = []
        for r in k['resources']:
            path = os.path.join(folder, r)
            if '://' in r:
                self.remote(r)
            elif os.path.isdir(path):
                docs += self.kustomize(path)
            else:
                docs += load(path)
        return docs

    def apply(self, words):
        if '-k' in words:
            where = words[words.index('-k') + 1]
            if '://' in where:
                return self.remote(where)
            return self.objects(self.kustomize(where), together=True)
        where = words[words.index('-f') + 1]
        if '://' in where:
            return self.remote(where)
        return self.objects(load(where), together=False)

    def create(self, words):
        if words[1:3] == ['create', 'namespace']:
            self.namespaces.add(words[3])
            return
        ns = words[words.index('-n') + 1]
        if ns not in self.namespaces:
            self.fault(f'a secret in namespace {ns}, which is not there')
        self.have.add(('Secret', ns, words[words.index('generic') + 1]))

    def get(self, words):
        """Asked for: the script ends here where the site has it not."""
        ns = words[words.index('-n') + 1] if '-n' in words else None
        kind, *name = words[words.index('get') + 1:]
        if kind == 'storageclass' and not name:
            self.default_class = True
            return
        kinds = {'storageclass': 'StorageClass', 'secret': 'Secret', 'priorityclass': 'PriorityClass'}
        if ns and ns not in self.namespaces:
            self.fault(f'{kind} {name} asked for in namespace {ns}, which is not there')
        self.have.add((kinds[kind], ns, name[0]))

    def waited(self, words):
        for w in words:
            if w.startswith('crd/'):
                group = w.split('.', 1)[1]
                if group not in self.groups:
                    self.fault(f'waits for {w}, which nothing above brings')
            if w.startswith('clusterpolicy/') and not self.openshift and 'nvidia.com' not in self.groups:
                self.fault('waits for a policy of no operator')

    def line(self, text):
        words = shlex.split(text.split(' # ')[0])
        if words[:2] == ['sh', '-c']:  # what a pipe ends in
            words = shlex.split(words[2].rsplit(' | ', 1)[-1])
        if words[0] == 'helm':
            self.helm(words)
        elif 'apply' in words:
            self.apply(words)
        elif 'create' in words:
            self.create(words)
        elif 'get' in words:
            self.get(words)
        elif 'wait' in words:
            self.waited(words)
        elif 'label' in words:
            self.labels |= {w.split('=')[0] for w in words if '=' in w}
        elif 'taint' in words or 'patch' in words:
            pass
        elif 'rollout' in words or 'exec' in words:
            ns = words[words.index('-n') + 1]
            if ns not in self.namespaces:
                self.fault(f'asks for namespace {ns}, which is not there')
        elif 'scale' in words:
            kind, name = words[words.index('scale') + 1].split('/')
            kind = {'deployment': 'Deployment', 'statefulset': 'StatefulSet'}[kind]
            self.needs(kind, words[words.index('-n') + 1], name, 'scale')
        else:
            self.fault(f'a line that nobody knows: {text}')

    # ---- objects ----
    def needs(self, kind, ns, name, who):
        if (kind, ns, name) not in self.have:
            self.fault(f'{who}: no {kind} {name}' + (f' in {ns}' if ns else ''))

    def made(self, d):
        meta = d['metadata']
        self.have.add((d['kind'], meta.get('namespace'), meta['name']))
        if d['kind'] == 'Namespace':
            self.namespaces.add(meta['name'])
        if d['kind'] == 'Subscription':
            self.bring(PACKAGES[d['spec']['name']])
        if d['kind'] == 'SriovOperatorConfig':
            self.prefix = 'openshift.io'
        if d['kind'] == 'NodeFeatureDiscovery':
            self.label_prefixes.add('feature.node.kubernetes.io/')
        if d['kind'] == 'NicClusterPolicy' and 'nvIpam' in d['spec']:
            self.bring({'groups': {'nv-ipam.nvidia.com'}, 'gives': {'ipam nv-ipam'}})
        if d['kind'] == 'ClusterPolicy':
            self.bring({'resources': CHARTS['gpu-operator']['resources'], 'labels': {'nvidia.com/'}})
        if d['kind'] == 'SriovNetworkNodePolicy' and self.prefix:
            self.resources.append(re.escape(f"{self.prefix}/{d['spec']['resourceName']}"))
        if d['kind'] in ('SriovNetwork', 'SriovIBNetwork'):
            self.have.add(('NetworkAttachmentDefinition', d['spec']['networkNamespace'], meta['name']))
        if d['kind'] == 'ConfigMap' and meta['name'] == 'rdma-devices' and meta['namespace'] == 'kube-system':
            for c in json.loads(d['data']['config.json'])['configList']:
                self.resources.append(re.escape('rdma/' + c['resourceName']))

    def objects(self, docs, together):
        for d in docs if together else []:
            self.made(d)
        for d in docs:
            self.check(d)
            self.made(d)

    def check(self, d):
        who = f"{d['kind']}/{d['metadata']['name']}"
        group = d['apiVersion'].split('/')[0]
        ns = d['metadata'].get('namespace')
        if group not in self.groups:
            self.fault(f'{who}: nothing above brings kinds of {group}')
        if ns and ns not in self.namespaces:
            self.fault(f'{who}: namespace {ns} is not there')
        for _, spec, claims in objects.pod_specs(d):
            self.pod(who, ns, spec, claims)
        for nets in re.findall(r'"k8s.v1.cni.cncf.io/networks": (".*?(?<!\\)")', json.dumps(d)):
            for n in json.loads(json.loads(nets)):
                self.needs('NetworkAttachmentDefinition', n['namespace'], n['name'], who)
        own = getattr(self, 'check_' + d['kind'].lower(), None)
        if own:
            own(who, ns, d)
        queue = d['metadata'].get('labels', {}).get('kueue.x-k8s.io/queue-name')
        if queue:
            self.needs('LocalQueue', ns, queue, who)
            word = {'Job': 'batch/job'}.get(d['kind'], f"{group}/{d['kind'].lower()}")
            if word not in getattr(self, 'kueue', {}).get('integrations', {}).get('frameworks', []):
                self.fault(f'{who}: Kueue does not look at {word}')

    def resource(self, who, name):
        if '/' in name and not any(re.fullmatch(p, name) for p in self.resources):
            self.fault(f'{who}: no machine will have {name}')
        if name.startswith('rdma/') and 'rdma plug-in' not in self.gives:
            self.fault(f'{who}: nothing offers {name}')

    def label(self, who, key):
        if key not in self.labels and not any(key.startswith(p) for p in self.label_prefixes):
            self.fault(f'{who}: no line gives machines the label {key}')

    def pod(self, who, ns, spec, claims):
        if spec.get('priorityClassName', 'system-').startswith('system-') is False:
            self.needs('PriorityClass', None, spec['priorityClassName'], who)
        if 'runtimeClassName' in spec:
            self.needs('RuntimeClass', None, spec['runtimeClassName'], who)
        if 'serviceAccountName' in spec:
            self.needs('ServiceAccount', ns, spec['serviceAccountName'], who)
        for s in spec.get('imagePullSecrets', []):
            self.needs('Secret', ns, s['name'], who)
        for v in spec.get('volumes', []):
            for key, kind, name in (('persistentVolumeClaim', 'PersistentVolumeClaim', 'claimName'), ('configMap', 'ConfigMap', 'name'),
                                    ('secret', 'Secret', 'secretName')):
                if key in v and v[key][name] not in claims:
                    self.needs(kind, ns, v[key][name], who)
            if 'ephemeral' in v:
                self.claim(who, v['ephemeral']['volumeClaimTemplate']['spec'])
        for c in spec['containers'] + spec.get('initContainers', []):
            for name in c.get('resources', {}).get('limits', {}):
                self.resource(who, name)
        terms = spec.get('affinity', {}).get('nodeAffinity', {}).get('requiredDuringSchedulingIgnoredDuringExecution', {}).get('nodeSelectorTerms', [])
        for e in [e for t in terms for e in t['matchExpressions'] if e['operator'] != 'NotIn']:
            self.label(who, e['key'])
        for key in spec.get('nodeSelector', {}):
            self.label(who, key)

    def claim(self, who, spec):
        if 'storageClassName' not in spec:
            if not self.default_class:
                self.fault(f'{who}: nobody asked whether there is a default storage class')
        elif spec['storageClassName']:
            self.needs('StorageClass', None, spec['storageClassName'], who)

    def check_persistentvolumeclaim(self, who, _, d):
        self.claim(who, d['spec'])
        if 'volumeName' in d['spec']:
            self.needs('PersistentVolume', None, d['spec']['volumeName'], who)

    def check_statefulset(self, who, ns, d):
        self.needs('Service', ns, d['spec']['serviceName'], who)
        for t in d['spec'].get('volumeClaimTemplates', []):
            self.claim(who, t['spec'])

    def check_networkattachmentdefinition(self, who, _, d):
        resource = d['metadata'].get('annotations', {}).get('k8s.v1.cni.cncf.io/resourceName')
        if resource:
            self.resource(who, resource)
        for p in json.loads(d['spec']['config'])['plugins']:
            if p['type'] not in CNI and 'cni ' + p['type'] not in self.gives:
                self.fault(f"{who}: no line installs the plug-in {p['type']}")
            self.ipam(who, p.get('ipam'))

    def ipam(self, who, ipam):
        if not ipam:
            return
        if 'ipam ' + ipam['type'] not in self.gives:
            self.fault(f"{who}: no line installs {ipam['type']}")
        if ipam['type'] == 'nv-ipam':
            self.needs('IPPool', 'nvidia-network-operator' if self.openshift else 'kube-system', ipam['poolName'], who)

    def check_sriovnetwork(self, who, _, d):
        self.ipam(who, json.loads(d['spec']['ipam']))
        if d['spec']['networkNamespace'] not in self.namespaces:
            self.fault(f"{who}: namespace {d['spec']['networkNamespace']} is not there")
        self.resource(who, f"{self.prefix}/{d['spec']['resourceName']}")

    check_sriovibnetwork = check_sriovnetwork

    def check_sriovnetworknodepolicy(self, who, _, d):
        if not self.prefix:
            self.fault(f'{who}: the operator has no configuration, and does nothing')
        for key in d['spec']['nodeSelector']:
            self.label(who, key)

    def check_ippool(self, who, _, d):
        for t in d['spec']['nodeSelector']['nodeSelectorTerms']:
            for e in t['matchExpressions']:
                self.label(who, e['key'])

    def check_resourceflavor(self, who, _, d):
        self.needs('Topology', None, d['spec']['topologyName'], who)
        for key in d['spec']['nodeLabels']:
            self.label(who, key)

    def check_topology(self, who, _, d):
        for level in d['spec']['levels']:
            self.label(who, level['nodeLabel'])

    def check_clusterqueue(self, who, _, d):
        for g in d['spec']['resourceGroups']:
            for f in g['flavors']:
                self.needs('ResourceFlavor', None, f['name'], who)
                if [r['name'] for r in f['resources']] != g['coveredResources']:
                    self.fault(f"{who}: flavor {f['name']} has other resources than its group")

    def check_localqueue(self, who, _, d):
        self.needs('ClusterQueue', None, d['spec']['clusterQueue'], who)

    def check_networkpolicy(self, who, _, d):
        for name in re.findall(r'"kubernetes.io/metadata.name": "(.*?)"', json.dumps(d)):
            if name not in self.namespaces:
                self.fault(f'{who}: lets namespace {name} in, which is not there')

    def check_horizontalpodautoscaler(self, who, ns, d):
        self.needs(d['spec']['scaleTargetRef']['kind'], ns, d['spec']['scaleTargetRef']['name'], who)
        if 'cpu metrics' not in self.gives and not self.openshift:
            self.fault(f'{who}: nothing measures CPU use')

    def check_scaledobject(self, who, ns, d):
        self.needs(d['spec']['scaleTargetRef']['kind'], ns, d['spec']['scaleTargetRef']['name'], who)
        for t in d['spec']['triggers']:
            m = re.match(r'http://[\w-]+\.([\w-]+)\.svc', t['metadata']['serverAddress'])
            if m and m[1] not in self.namespaces:
                self.fault(f'{who}: asks a Prometheus in {m[1]}, which is not there')

    def check_trainjob(self, who, _, d):
        if 'runtime ' + d['spec']['runtimeRef']['name'] not in self.gives:
            self.fault(f"{who}: no line brings the runtime {d['spec']['runtimeRef']['name']}")

    def check_podmonitor(self, who, ns, d):
        for name in re.findall(r'"credentials": \{"name": "(.*?)"', json.dumps(d)):
            self.needs('Secret', ns, name, who)

    def check_route(self, who, ns, d):
        self.needs('Service', ns, d['spec']['to']['name'], who)


@functools.lru_cache(maxsize=None)
def load(path):
    """Documents of a file; nobody changes them."""
    with open(path, encoding='utf-8') as f:
        return [d for d in yaml.load_all(f, getattr(yaml, 'CSafeLoader', yaml.SafeLoader)) if d]


def dry_run(script, *words):
    env = dict(os.environ, PATH=os.environ['PATH'], KUBECONFIG='/dev/null')
    r = subprocess.run(['sh', script, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, env=env)
    assert r.returncode == 0, r.stderr
    return [t[2:] for t in r.stdout.splitlines() if t.startswith('+ ')]


def follow(folder, lines, openshift, groups):
    c = Cluster(folder, openshift)
    c.labels |= groups
    for text in lines:
        try:
            c.line(text)
        except (AssertionError, ValueError, KeyError, OSError) as e:
            c.fault(f'a line that nobody can follow: {text} {e}')
    if openshift:  # started when they are wanted
        run = os.path.join(folder, 'run')
        for name in sorted(os.listdir(run)) if os.path.isdir(run) else []:
            c.objects(load(os.path.join(run, name)), together=True)
    return c.faults


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def check(self, name, faults):
        self.count += 1
        self.failed += bool(faults)
        print(f"{'not ok' if faults else 'ok'} {self.count} - {name}")
        for f in faults[:12]:
            print(f'# {f}')


def specs(stoker, folder):
    """name -> file: examples, fixtures, and fixtures changed so that each branch is met."""
    out = {}

    def put(name, text):
        out[name] = os.path.join(folder, name + '.yaml')
        with open(out[name], 'w', encoding='utf-8') as f:
            f.write(text)
    listed = subprocess.run([stoker, 'spec', 'example'], text=True, stdout=subprocess.PIPE, check=True).stdout
    for name in [t.split()[0] for t in listed.splitlines() if t and not t[0].isspace()]:
        put(name, subprocess.run([stoker, 'spec', 'example', name], text=True, stdout=subprocess.PIPE, check=True).stdout)
    kube = open(os.path.join(TOP, 'tests/fixtures/render/kube.yaml'), encoding='utf-8').read()
    for kind in ('job', 'statefulset', 'pytorchjob', 'trainjob', 'jobset'):
        put('kube-' + kind, kube.replace('job: jobset', f'job: {kind}'))
    put('kube-plain', kube.replace('{namespace: lab,', '{namespace: lab, gpu_operator: false, runtime_class: nvidia,').replace(', queue: team', ''))
    put('kube-plain-mig', kube.replace('{namespace: lab,', '{namespace: lab, gpu_operator: false, runtime_class: nvidia,').replace(', queue: team', '').replace(
        'gpu: {model: H100}', 'gpu: {model: H100, sharing: mig, mig_profile: 1g.10gb}'))
    put('kube-nv-ipam', kube.replace('sriov: {vfs: 8,', 'sriov: {vfs: 8, ipam: nv-ipam,'))
    put('kube-two-subnets', kube.replace('sriov: {vfs: 8,', 'sriov: {vfs: 8, ipam: nv-ipam, resource_prefix: nvidia.com,').replace(
        'subnets: [10.1.0.0/16]', 'subnets: [10.1.0.0/16, 10.2.0.0/16]'))
    put('kube-nets', kube.replace('sriov: {vfs: 8,', 'sriov: {vfs: 8, network_namespace: nets,'))
    put('kube-ib', kube.replace('kind: roce', 'kind: infiniband').replace('mtu: 9000', 'mtu: 4096'))
    put('kube-shared', re.sub(r'    sriov: .*\n', '', kube))
    put('kube-efa', re.sub(r'    (sriov|interfaces|subnets|gpudirect): .*\n', '', kube).replace('kind: roce', 'kind: efa'))
    put('kube-racks', kube.replace('    fabrics: [rails]\n    labels', '    fabrics: [rails]\n    rack: r1\n    labels').replace(
        '    gpudirect: true', '    gpudirect: true\n    switches:\n      leaf1: {hosts: "gpu[1-2]"}\n      leaf2: {hosts: "gpu[3-4]"}\n      spine: {switches: [leaf1, leaf2]}'))
    put('serving', open(os.path.join(TOP, 'tests/fixtures/render/serving.yaml'), encoding='utf-8').read())
    with open(TOP + '/data/examples/rdma-openshift.yaml', encoding='utf-8') as f:
        put('nv-shift', f.read().replace('ipam: whereabouts', 'ipam: nv-ipam'))
    put('serving-shift', open(out['serving'], encoding='utf-8').read().replace('target: kubernetes', 'target: openshift'))
    return out


def idle(text):
    """Lines whose absence a reader of objects cannot notice: they wait, look, or set a count."""
    last = re.search(r'apply -k \S+/(overlays/site|openshift)$', text)  # nothing comes after it
    return bool(re.search(r' (wait|rollout|exec|scale) ', text) or last) or any(
        part in text for part in ('get storageclass', '/openshift/namespace.yaml', 'cluster/00-namespaces.yaml'))


def main():
    stoker, folder = sys.argv[1:3]
    tap = Tap()
    for name, path in specs(stoker, folder).items():
        for target, script in (('kubernetes', 'node-prepare.sh'), ('openshift', 'install.sh')):
            if target == 'openshift' and 'target: openshift' not in open(path, encoding='utf-8').read():
                continue
            if target == 'kubernetes' and name == 'serving-shift':
                continue
            out = os.path.join(folder, name + '-' + target)
            r = subprocess.run([stoker, 'render', target, '-f', path, '-o', out], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            if r.returncode:
                tap.check(f'{name}: {target} is rendered', [r.stderr])
                continue
            base = os.path.join(out, target)
            lines = dry_run(os.path.join(base, script), 'operators')
            groups = set()
            if target == 'kubernetes':  # machines join with these
                shown = json.loads(subprocess.run([stoker, 'spec', 'show', '--json', path], text=True, stdout=subprocess.PIPE, check=True).stdout)
                for g in shown['spec']['nodes']:
                    said = subprocess.run(['sh', os.path.join(base, script), 'machine', g['name']], text=True, stdout=subprocess.PIPE, check=True).stdout
                    groups |= {w.split('=')[0] for w in re.search(r'--node-labels=(\S+)', said)[1].split(',')}
            tap.check(f'{name}: what {target} uses is made, installed or asked for above it', follow(base, lines, target == 'openshift', groups))
            missed = [t for i, t in enumerate(lines) if not idle(t) and ' label ' not in t and ' taint ' not in t and ' patch ' not in t and '/node/' not in t
                      and not follow(base, lines[:i] + lines[i + 1:], target == 'openshift', groups)]
            tap.check(f'{name}: and each line of {target} is missed where it is left out', missed)
            text = open(os.path.join(base, script), encoding='utf-8').read()
            tap.check(f'{name}: {target} cites the release of each chart', [r for r, c in CHARTS.items() if f'--install {r} ' in text and
                                                                           f"values by chart {c['version']}" not in text])
    print(f'1..{tap.count}')
    sys.exit(tap.failed > 0)


main()
