# SPDX-License-Identifier: MIT
"""strict: published schemas of Kubernetes, OpenShift, their extensions and compose, made strict.

A server prunes or rejects fields it does not know; the published schemas mostly say nothing about
them.  Here every object that lists its properties gets additionalProperties: false, except where
the schema says that unknown fields are kept; the types that JSON Schema does not know (quantities,
integer-or-text) become what the server takes.  Rules written in CEL (x-kubernetes-validations)
cannot be evaluated and are left out."""
import glob
import json
import os
import re

import jsonschema
import yaml

META = 'io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta'
QUANTITY = r'^[+-]?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$'
INT_LIMITS = {'int32': 2**31, 'int64': 2**63}


class Loader(yaml.SafeLoader):
    """YAML in which a key stands once: the second of two would win without a word."""


def one_of_each(loader, node, deep=False):
    seen = set()
    for key, _ in node.value:
        name = loader.construct_object(key, deep=True)
        if name in seen:
            raise yaml.constructor.ConstructorError(None, None, f"key '{name}' stands twice", key.start_mark)
        seen.add(name)
    return yaml.SafeLoader.construct_mapping(loader, node, deep)


Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, one_of_each)


def documents(text):
    """Every document of a YAML text; an empty one is an error of the caller's."""
    return list(yaml.load_all(text, Loader))


def strict(s, crd, top=False):
    """A copy of schema `s` that knows no other fields.  `crd`: of a custom resource, where also an
    object without properties keeps nothing, and metadata is the usual."""
    if isinstance(s, list):
        return [strict(x, crd) for x in s]
    if not isinstance(s, dict):
        return s
    if s.get('x-kubernetes-int-or-string') or s.get('format') == 'int-or-string':
        return {'type': ['string', 'integer'], **({'pattern': s['pattern']} if 'pattern' in s else {})}
    out = {}
    for key, value in s.items():
        if key.startswith('x-') or key in ('description', 'example', 'default'):
            continue
        if key in ('properties', 'patternProperties', 'definitions'):
            out[key] = {k: strict(v, crd) for k, v in value.items()}
        elif key in ('items', 'additionalProperties', 'allOf', 'anyOf', 'oneOf', 'not'):
            out[key] = strict(value, crd)
        else:
            out[key] = value
    if s.get('format') in INT_LIMITS and s.get('type') == 'integer':
        out.setdefault('minimum', -INT_LIMITS[s['format']])
        out.setdefault('maximum', INT_LIMITS[s['format']] - 1)
    if s.get('nullable') and isinstance(out.get('type'), str):
        out['type'] = [out['type'], 'null']
    kept = s.get('x-kubernetes-preserve-unknown-fields') or s.get('x-kubernetes-embedded-resource')
    if 'properties' in s and not kept and s.get('additionalProperties') in (None, True):
        out['additionalProperties'] = False
    elif crd and s.get('type') == 'object' and 'additionalProperties' not in s and not kept and not top:
        out['additionalProperties'] = False
    if kept:
        out.pop('additionalProperties', None)
    return out


def special(definitions):
    """Types that the OpenAPI calls text and the server reads otherwise."""
    fixed = {
        'io.k8s.apimachinery.pkg.api.resource.Quantity': {'anyOf': [
            {'type': 'string', 'pattern': QUANTITY}, {'type': 'number'}]},
        'io.k8s.apimachinery.pkg.util.intstr.IntOrString': {'type': ['string', 'integer']},
        'io.k8s.apimachinery.pkg.runtime.RawExtension': {'type': 'object'},
        'io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1': {'type': 'object'},
    }
    for name, schema in fixed.items():
        if name in definitions:
            definitions[name] = schema


class Schemas:
    """What is in the folder, by (group/version, kind)."""

    def __init__(self, folder):
        self.folder = folder
        self.by_kind = {}   # (apiVersion, kind) -> (schema, name of the file)
        self.cache = {}
        self.plurals = {}   # (apiVersion, kind) -> (plural, namespaced); of the Kubernetes API alone
        self.core = self.openapi('kubernetes-1.36.swagger.json')
        self.openapi('openshift.openapi.json', only='com.github.openshift.api.')
        for path in sorted(glob.glob(os.path.join(folder, '*.yaml'))):
            self.crd(path)
        for path in sorted(glob.glob(os.path.join(folder, '*_*_v*.json'))):
            self.catalogue(path)
        with open(os.path.join(folder, 'compose-spec.json'), encoding='utf-8') as f:
            self.compose = jsonschema.validators.validator_for(json.load(f))

    def open(self, name):
        with open(os.path.join(self.folder, name), encoding='utf-8') as f:
            return json.load(f)

    def openapi(self, name, only=None):
        doc = self.open(name)
        raw = doc['definitions']
        made = {k: strict(v, False) for k, v in raw.items()}
        special(made)
        root = {'definitions': made}
        for key, schema in raw.items():
            for gvk in schema.get('x-kubernetes-group-version-kind', []):
                api = '/'.join(x for x in (gvk['group'], gvk['version']) if x)
                self.by_kind.setdefault((api, gvk['kind']), ({**root, '$ref': '#/definitions/' + key}, name))
            m = re.fullmatch(r'com\.github\.openshift\.api\.(\w+)\.(\w+)\.(\w+)', key) if only else None
            if m and {'apiVersion', 'kind', 'metadata'} <= set(schema.get('properties', {})):
                api = f'{m[1]}.openshift.io/{m[2]}'
                self.by_kind.setdefault((api, m[3]), ({**root, '$ref': '#/definitions/' + key}, name))
        for path, verbs in (doc.get('paths') or {}).items():
            post = verbs.get('post', {})
            gvk = post.get('x-kubernetes-group-version-kind')
            if gvk and not path.endswith('}') and path.count('{') <= 1:
                api = '/'.join(x for x in (gvk['group'], gvk['version']) if x)
                self.plurals[(api, gvk['kind'])] = (path.rsplit('/', 1)[1], '{namespace}' in path)
        return root

    def with_meta(self, schema):
        """The usual metadata, and what it refers to, into the schema of a custom resource."""
        s = strict(schema, True, top=True)
        s.setdefault('properties', {})['metadata'] = {'$ref': '#/definitions/' + META}
        s['additionalProperties'] = False
        s['definitions'] = self.core['definitions']
        return s

    def crd(self, path):
        with open(path, encoding='utf-8') as f:
            for doc in yaml.load_all(f, getattr(yaml, 'CSafeLoader', yaml.SafeLoader)):
                if not doc or doc.get('kind') != 'CustomResourceDefinition':
                    continue
                spec = doc['spec']
                for v in spec['versions']:
                    schema = self.with_meta(v['schema']['openAPIV3Schema'])
                    key = (f"{spec['group']}/{v['name']}", spec['names']['kind'])
                    self.by_kind[key] = (schema, os.path.basename(path))

    def catalogue(self, path):
        """group_kind_version.json: the schema alone; the kind's spelling is found without case."""
        group, kind, version = os.path.basename(path)[:-5].rsplit('_', 2)
        with open(path, encoding='utf-8') as f:
            schema = self.with_meta(json.load(f))
        self.by_kind[(f'{group}/{version}', kind.lower())] = (schema, os.path.basename(path))

    def find(self, doc):
        key = (doc.get('apiVersion'), doc.get('kind'))
        hit = self.by_kind.get(key)
        if not hit and isinstance(key[1], str):
            hit = self.by_kind.get((key[0], key[1].lower()))
        return hit

    def validator(self, key, schema):
        if key not in self.cache:
            self.cache[key] = jsonschema.Draft7Validator(schema)
        return self.cache[key]

    def errors(self, doc, part=False):
        """None: there is no schema; else what is wrong, at most five.  `part`: a patch, in which
        nothing is required."""
        hit = self.find(doc)
        if not hit:
            return None
        v = self.validator((doc['apiVersion'], doc['kind']), hit[0])
        wrong = (e for e in v.iter_errors(doc) if not (part and e.validator == 'required'))
        return [said(e) for e, _ in zip(wrong, range(5))]

    def compose_errors(self, doc):
        schema = self.open('compose-spec.json') if 'compose' not in self.cache else None
        if schema:
            self.cache['compose'] = self.compose(schema)
        return [said(e) for e, _ in zip(self.cache['compose'].iter_errors(doc), range(5))]


def said(e):
    """A message with its place; of an anyOf the first reason."""
    while e.context:
        e = min(e.context, key=lambda c: -len(c.absolute_path))
    return '.'.join(str(p) for p in e.absolute_path) + ': ' + e.message[:300]
