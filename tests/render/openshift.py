#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""openshift.py FOLDER CASE: one thing that must hold of what `stoker render openshift` wrote there
for the example rdma-openshift; exit status 0 when it does."""
import glob
import json
import os
import re
import sys

import yaml

ROOT = os.path.join(sys.argv[1], 'openshift')
HIDES = re.compile(r'(NCCL|UCX|OMP|GLOO)_|GPUS_PER_NODE|MASTER_|WORLD_SIZE|RANK|NNODES|CUDA_VISIBLE')


def load(path):
    with open(os.path.join(ROOT, path), encoding='utf-8') as f:
        return [d for d in yaml.safe_load_all(f)]


def everything():
    return [d for p in sorted(glob.glob(ROOT + '/**/*.yaml', recursive=True))
            for d in load(os.path.relpath(p, ROOT)) if d['kind'] != 'Kustomization']


def one(kind, name=None):
    hits = [d for d in everything() if d['kind'] == kind and name in (None, d['metadata']['name'])]
    assert len(hits) == 1, (kind, name, len(hits))
    return hits[0]


def pods():
    """(kind, template or pod) of all that has pods."""
    for d in everything():
        if d['kind'] == 'Pod':
            yield d['kind'], d
        elif d['kind'] in ('StatefulSet', 'Job'):
            yield d['kind'], d['spec']['template']


def containers():
    for kind, t in pods():
        for c in t['spec']['containers']:
            yield kind, c


def env(c):
    return {e['name']: e.get('value') for e in c.get('env', [])}


def texts():
    for path in sorted(glob.glob(ROOT + '/**/*', recursive=True)):
        if os.path.isfile(path):
            with open(path, encoding='utf-8') as f:
                yield os.path.relpath(path, ROOT), f.read()


def statefulset():
    s = one('StatefulSet')['spec']
    assert 'replicas' not in s and s['podManagementPolicy'] == 'Parallel'
    assert s['persistentVolumeClaimRetentionPolicy'] == {'whenScaled': 'Retain', 'whenDeleted': 'Retain'}
    claim = s['volumeClaimTemplates'][0]
    assert claim['spec']['resources']['requests']['storage'] == '100Gi'
    assert claim['spec']['accessModes'] == ['ReadWriteOnce']
    c = s['template']['spec']['containers'][0]
    assert {m['name']: m['mountPath'] for m in c['volumeMounts']}[claim['metadata']['name']] == '/workspace'
    assert c['resources']['limits']['nvidia.com/gpu'] == 4


def networks():
    nets = json.loads(one('StatefulSet')['spec']['template']['metadata']['annotations']['k8s.v1.cni.cncf.io/networks'])
    assert [n['interface'] for n in nets] == ['net1', 'net2', 'net3', 'net4']
    policies = {d['metadata']['name']: d['spec'] for d in everything() if d['kind'] == 'SriovNetworkNodePolicy'}
    made = {d['metadata']['name']: d for d in everything() if d['kind'] == 'SriovNetwork'}
    limits = one('StatefulSet')['spec']['template']['spec']['containers'][0]['resources']['limits']
    pfs, ranges = set(), set()
    for n in nets:
        d, p = made[n['name']], policies[n['name']]
        assert d['spec']['networkNamespace'] == n['namespace'] == 'rdma'
        assert d['spec']['resourceName'] == p['resourceName'] and limits['openshift.io/' + p['resourceName']] == 1
        assert p['mtu'] == 9000 and p['isRdma'] is True and p['numVfs'] == 1 and p['deviceType'] == 'netdevice'
        assert json.loads(d['spec']['metaPlugins'])['mtu'] == 9000
        assert p['nodeSelector'] == {'feature.node.kubernetes.io/pci-15b3.present': 'true'}
        assert p['nicSelector']['vendor'] == '15b3' and len(p['nicSelector']['pfNames']) == 1
        pfs.add(p['nicSelector']['pfNames'][0])
        ipam = json.loads(d['spec']['ipam'])
        assert ipam['type'] == 'whereabouts'
        ranges.add(ipam['range'])
    assert len(pfs) == len(ranges) == 4, (pfs, ranges)  # a rail each, in a subnet of its own


def placement():
    for _, t in pods():
        terms = t['spec']['affinity']['nodeAffinity']['requiredDuringSchedulingIgnoredDuringExecution']['nodeSelectorTerms']
        assert {e['key'] for e in terms[0]['matchExpressions']} >= {
            'nvidia.com/gpu.present', 'feature.node.kubernetes.io/pci-15b3.present'}
        shm = [v for v in t['spec']['volumes'] if v.get('emptyDir', {}).get('medium') == 'Memory']
        mounts = {m['name']: m['mountPath'] for m in t['spec']['containers'][0]['volumeMounts']}
        assert mounts[shm[0]['name']] == '/dev/shm'
    sizes = [v['emptyDir'].get('sizeLimit') for v in one('StatefulSet')['spec']['template']['spec']['volumes'] if 'emptyDir' in v]
    assert sizes == ['32Gi']


def access():
    scc = one('SecurityContextConstraints')
    assert scc['allowPrivilegedContainer'] is False and scc['allowPrivilegeEscalation'] is False
    assert scc['allowedCapabilities'] == ['IPC_LOCK'] and scc['requiredDropCapabilities'] == ['ALL']
    assert not [k for k, v in scc.items() if k.startswith('allowHost') and v]
    assert 'hostPath' not in scc['volumes'] and not scc['users'] and not scc['groups']
    rule = one('Role')['rules'][0]
    assert rule['resourceNames'] == [scc['metadata']['name']] and rule['verbs'] == ['use']
    binding = one('RoleBinding')
    assert binding['subjects'][0]['name'] == one('ServiceAccount')['metadata']['name'] == 'trainer'
    assert binding['roleRef']['name'] == one('Role')['metadata']['name']
    for _, t in pods():
        assert t['spec']['serviceAccountName'] == 'trainer' and t['spec']['automountServiceAccountToken'] is False
    with open(os.path.join(ROOT, 'node', 'memlock.bu'), encoding='utf-8') as f:
        inline = yaml.safe_load(f)['storage']['files'][0]['contents']['inline']
    assert inline == '[crio.runtime]\ndefault_ulimits = ["memlock=-1:-1"]\n'


def build():
    spec = one('BuildConfig')['spec']
    stream = one('ImageStream')['metadata']['name']
    assert spec['output']['to'] == {'kind': 'ImageStreamTag', 'name': stream + ':latest'}
    assert spec['source']['git'] == {'uri': 'https://git.example.org/rdma/trainer.git', 'ref': 'main'}
    assert spec['strategy']['dockerStrategy']['dockerfilePath'] == 'Containerfile'
    image = one('StatefulSet')['spec']['template']['spec']['containers'][0]['image']
    assert image.endswith('/rdma/' + stream + ':latest')


def run_later():
    named = load('kustomization.yaml')[0]['resources']
    assert not [r for r in named if r.startswith(('run/', 'node/'))]
    debug, job = one('Pod', 'debug'), one('Job', 'allreduce')
    assert debug['spec']['containers'][0]['command'] == ['sleep', 'infinity']
    assert debug['spec']['activeDeadlineSeconds'] == 8 * 3600 and debug['spec']['restartPolicy'] == 'Never'
    assert job['spec']['completions'] == job['spec']['parallelism'] == 2
    assert job['spec']['completionMode'] == 'Indexed' and job['spec']['activeDeadlineSeconds'] == 3600
    assert job['spec']['template']['spec']['subdomain'] == one('Service', 'allreduce-headless')['metadata']['name']


def kustomization():
    named = load('kustomization.yaml')[0]['resources']
    assert sorted(named) == sorted(os.path.relpath(p, ROOT) for p in glob.glob(ROOT + '/*.yaml') + glob.glob(
        ROOT + '/components/*.yaml') if not p.endswith('kustomization.yaml')), named


def launcher():
    with open(os.path.join(ROOT, 'launcher.sh'), encoding='utf-8') as f:
        text = f.read()
    assert one('ConfigMap')['data'] == {'launcher.sh': text}
    c = one('StatefulSet')['spec']['template']['spec']['containers'][0]
    volume = [v for v in one('StatefulSet')['spec']['template']['spec']['volumes'] if v['name'] == 'stoker-launcher'][0]
    assert volume['configMap'] == {'name': one('ConfigMap')['metadata']['name'], 'defaultMode': 0o555}
    mount = [m for m in c['volumeMounts'] if m['name'] == 'stoker-launcher'][0]['mountPath']
    assert c['command'] == [mount + '/launcher.sh']
    assert c['args'] == ['torchtitan', '--job.config_file', '/opt/trainer/train.toml']


def main_container():
    """Detection runs where the devices are: no init container, and who starts the launcher has the
    GPUs and the RDMA devices."""
    started = 0
    for kind, t in pods():
        assert 'initContainers' not in t['spec']
        for c in t['spec']['containers']:
            if c['command'][0].endswith('launcher.sh'):
                started += 1
                limits = c['resources']['limits']
                assert limits['nvidia.com/gpu'] == 4 and sum(k.startswith('openshift.io/') for k in limits) == 4
    assert started == 2


def hides_nothing():
    for _, c in containers():
        assert not [n for n in env(c) if HIDES.match(n)], env(c)
        assert 'envFrom' not in c
    with open(os.path.join(ROOT, 'Containerfile'), encoding='utf-8') as f:
        lines = [x for x in f.read().splitlines() if x.startswith(('ENV', 'ARG'))]
    assert not [x for x in lines if HIDES.search(x)], lines


def pins_nothing():
    for path, text in texts():
        for line in text.splitlines():
            line = line.split('#')[0]
            assert not re.search(r'NCCL_(ALGO|PROTO|SOCKET_FAMILY|IB_HCA|SOCKET_IFNAME|IB_GID_INDEX|P2P_LEVEL)|\^mlx5|\bmlx5_', line), (path, line)


def asks_no_text():
    """Nothing is read out of what programs print for people."""
    for path, text in texts():
        code = '\n'.join(x.split('#')[0] for x in text.splitlines())
        assert not re.search(r'ibv_devinfo|ibstat|ibdev2netdev|nvidia-smi|lsmod|\bnproc\b(?!-)', code), path


def service():
    s = one('StatefulSet')['spec']
    svc = one('Service', s['serviceName'])['spec']
    assert svc['clusterIP'] == 'None' and svc['publishNotReadyAddresses'] is True
    assert svc['selector'].items() <= s['template']['metadata']['labels'].items()
    assert svc['ports'][0]['port'] == 29500


def unprivileged():
    for _, t in pods():
        assert not {'hostNetwork', 'hostPID', 'hostIPC'} & set(t['spec'])
        assert not [v for v in t['spec'].get('volumes', []) if 'hostPath' in v]
        for c in t['spec']['containers']:
            sc = c['securityContext']
            assert 'privileged' not in sc and sc['allowPrivilegeEscalation'] is False
            assert sc['capabilities'] == {'drop': ['ALL'], 'add': ['IPC_LOCK']}


def by_replicas():
    e = env(one('StatefulSet')['spec']['template']['spec']['containers'][0])
    assert e['STOKER_NODES'] == '1:6' and e['STOKER_RESTARTS'] == '10'
    for path, text in texts():
        assert 'WORLD_SIZE' not in text, path


if __name__ == '__main__':
    globals()[sys.argv[2]]()
