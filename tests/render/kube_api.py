# SPDX-License-Identifier: MIT
"""kube_api: enough of a Kubernetes API server, on loopback, that kubectl checks files against it.

kubectl asks for the version, the groups, their resources and the OpenAPI document, and validates
by itself.  The document is the one of Kubernetes 1.21, in the binary form that kubectl wants; the
few fields that came later are left out of the copy that is shown to it."""
import copy
import gzip
import http.server
import json
import os
import re
import subprocess
import threading

import yaml

OPENAPI = 'kubernetes-1.21.swagger.pb.gz'
# since 1.22: kind, path
NEWER = [
    ('StatefulSet', 'spec.persistentVolumeClaimRetentionPolicy'),  # 1.23
    ('StatefulSet', 'spec.ordinals'),                              # 1.26
    ('StatefulSet', 'spec.minReadySeconds'),                       # 1.22
    ('Job', 'spec.podFailurePolicy'),                              # 1.25
    ('Job', 'spec.podReplacementPolicy'),                          # 1.28
    ('Job', 'spec.backoffLimitPerIndex'),                          # 1.28
    ('Job', 'spec.maxFailedIndexes'),                              # 1.28
    ('Job', 'spec.successPolicy'),                                 # 1.30
]
NEWER_POD = ['hostUsers', 'os', 'schedulingGates', 'resourceClaims']
NEWER_SPREAD = ['minDomains', 'nodeAffinityPolicy', 'nodeTaintsPolicy', 'matchLabelKeys']


def drop(x, path):
    *way, last = path.split('.')
    for key in way:
        x = x.get(key, {}) if isinstance(x, dict) else {}
    if isinstance(x, dict):
        x.pop(last, None)


def older(doc, pods):
    """A copy without what 1.21 did not know.  `pods` finds the pod specs of an object."""
    doc = copy.deepcopy(doc)
    for kind, path in NEWER:
        if doc['kind'] == kind:
            drop(doc, path)
    for _, spec, _ in pods(doc):
        for key in NEWER_POD:
            spec.pop(key, None)
        for holder in [spec, *spec['containers'], *spec.get('initContainers', [])]:
            holder.get('securityContext', {}).pop('appArmorProfile', None)  # 1.30
        for t in spec.get('topologySpreadConstraints', []):
            for key in NEWER_SPREAD:
                t.pop(key, None)
        for c in spec['containers'] + spec.get('initContainers', []):
            c.pop('resizePolicy', None)
            c.pop('restartPolicy', None)
            for probe in ('livenessProbe', 'readinessProbe', 'startupProbe'):
                c.get(probe, {}).pop('grpc', None)
    return doc


def answers(plurals, openapi):
    """path -> (type, bytes)"""
    apis = {}
    for (api, kind), (plural, namespaced) in sorted(plurals.items()):
        apis.setdefault(api, []).append({
            'name': plural, 'singularName': '', 'namespaced': namespaced, 'kind': kind,
            'verbs': ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch']})
    groups = {}
    for api in apis:
        if '/' in api:
            groups.setdefault(api.split('/')[0], []).append({'groupVersion': api, 'version': api.split('/')[1]})
    out = {
        '/version': {'major': '1', 'minor': '21', 'gitVersion': 'v1.21.2', 'platform': 'linux/amd64'},
        '/api': {'kind': 'APIVersions', 'versions': ['v1'], 'serverAddressByClientCIDRs': []},
        '/apis': {'kind': 'APIGroupList', 'apiVersion': 'v1', 'groups': [
            {'name': g, 'versions': vs, 'preferredVersion': vs[0]} for g, vs in sorted(groups.items())]},
    }
    for api, resources in apis.items():
        path = '/apis/' + api if '/' in api else '/api/' + api
        out[path] = {'kind': 'APIResourceList', 'apiVersion': 'v1', 'groupVersion': api, 'resources': resources}
    out = {k: ('application/json', json.dumps(v).encode()) for k, v in out.items()}
    # the form with "@" that kubectl asks for is one it cannot read back
    out['/openapi/v2'] = ('application/com.github.proto-openapi.spec.v2.v1.0+protobuf', openapi)
    return out


class Api:
    """with Api(schemas) as url: ..."""

    def __init__(self, folder, plurals):
        with gzip.open(os.path.join(folder, OPENAPI)) as f:
            self.table = answers(plurals, f.read())

    def __enter__(self):
        table = self.table

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_GET(self):
                kind, body = table.get(self.path.split('?')[0].rstrip('/'), (None, None))
                code = 200
                if body is None:
                    code, kind = 404, 'application/json'
                    body = json.dumps({'kind': 'Status', 'apiVersion': 'v1', 'status': 'Failure',
                                       'reason': 'NotFound', 'code': 404}).encode()
                self.send_response(code)
                self.send_header('Content-Type', kind)
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f'http://127.0.0.1:{self.server.server_address[1]}'

    def __exit__(self, *why):
        self.server.shutdown()
        self.server.server_close()


def kubectl(url, home, docs):
    """What `kubectl create --dry-run=client --validate=true` says of the documents: (status, text)."""
    env = {'PATH': os.environ['PATH'], 'HOME': home, 'KUBECONFIG': os.path.join(home, 'none')}
    text = yaml.safe_dump_all(docs)
    run = subprocess.run(['kubectl', '-s', url, '--cache-dir', os.path.join(home, 'cache'), 'create', '--dry-run=client',
                          '--validate=true', '-f', '-'], input=text, env=env, text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, timeout=120, check=False)
    return run.returncode, run.stdout


def minor():
    """Of kubectl's own release, 1.MINOR."""
    run = subprocess.run(['kubectl', 'version', '--client', '-o', 'json'], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, timeout=60, check=True)
    return int(re.sub(r'\D.*', '', json.loads(run.stdout)['clientVersion']['minor']))


def kustomize(home, folder):
    """`kubectl kustomize`: (status, output, complaints)."""
    env = {'PATH': os.environ['PATH'], 'HOME': home}
    run = subprocess.run(['kubectl', 'kustomize', folder], env=env, text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, timeout=120, check=False)
    return run.returncode, run.stdout, run.stderr
