# SPDX-License-Identifier: MIT
"""containerfile: rules for a Containerfile, each with a file that breaks it and nothing else."""
import json
import re

GOOD = '''# syntax is plain
ARG BASE=registry.example.org/base:1.2
FROM registry.example.org/base:1.2 AS build
RUN make
FROM ${BASE}
LABEL org.opencontainers.image.title="x"
RUN apt-get update \\
 && apt-get install -y --no-install-recommends curl \\
 && rm -rf /var/lib/apt/lists/*
WORKDIR /workspace
COPY --from=build /x /usr/local/bin/x
ENV PATH=/opt/x:$PATH
USER 1001
ENTRYPOINT ["/usr/local/bin/x"]
CMD ["--help"]
'''
INSTRUCTIONS = set('ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL RUN SHELL STOPSIGNAL USER VOLUME WORKDIR'.split())
SECRET = re.compile(r'(PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|PRIVATE_?KEY|CREDENTIAL)', re.I)


def instructions(text):
    """(word, rest, line) of each instruction, continued lines joined, comments gone."""
    out, part, start = [], '', 0
    for n, line in enumerate(text.split('\n'), 1):
        if line.lstrip().startswith('#') or (not line.strip() and not part):
            continue
        start = start or n
        if line.rstrip().endswith('\\'):
            part += line.rstrip()[:-1] + ' '
            continue
        word, _, rest = (part + line).strip().partition(' ')
        out.append((word, rest.strip(), start))
        part, start = '', 0
    return out


def image_of(rest, args):
    image = next(w for w in rest.split() if not w.startswith('--'))
    return re.sub(r'\$\{?(\w+)\}?', lambda m: args.get(m[1], ''), image)


def from_pinned(ins):
    args, stages = {}, set()
    for word, rest, line in ins:
        if word == 'ARG':
            name, _, value = rest.partition('=')
            args[name] = value.strip('"')
        if word != 'FROM':
            continue
        image = image_of(rest, args)
        tag = image.rsplit('/', 1)[-1].partition(':')[2]
        if image not in stages and image != 'scratch' and '@sha256:' not in image:
            if not tag:
                yield line, f"'{image}' has neither tag nor digest"
            elif tag == 'latest':
                yield line, f"'{image}' is whatever is latest"
        m = re.search(r'\bas\s+(\S+)', rest, re.I)
        if m:
            stages.add(m[1])


def known(ins):
    for word, _, line in ins:
        if word not in INSTRUCTIONS:
            yield line, f"'{word}' is no instruction in capitals"


def begins(ins):
    if not ins or next((w for w, _, _ in ins if w != 'ARG'), '') != 'FROM':
        yield 1, 'does not begin with FROM'


def not_root(ins):
    users = [(rest, line) for word, rest, line in ins if word == 'USER']
    if not users:
        yield len(ins), 'runs as root: there is no USER'
    elif re.fullmatch(r'(root|0)(:.*)?', users[-1][0]):
        yield users[-1][1], 'ends as root'


def apt(ins):
    for word, rest, line in ins:
        if word != 'RUN' or not re.search(r'\b(apt-get|apt)\s+(-\S+\s+)*(install|update)', rest):
            continue
        if re.search(r'\bapt\s+(install|update)', rest):
            yield line, 'apt is for people: use apt-get'
        if 'rm -rf /var/lib/apt/lists' not in rest:
            yield line, 'leaves the lists of apt behind'
        if 'install' in rest and not re.search(r'install\s+(\S+\s+)*-y|-y\s+(\S+\s+)*install', rest):
            yield line, 'asks a question: -y is missing'
        if 'install' in rest and '--no-install-recommends' not in rest:
            yield line, 'installs what is only recommended'


def dnf(ins):
    for word, rest, line in ins:
        if word == 'RUN' and re.search(r'\b(dnf|yum|microdnf)\b.*\binstall\b', rest):
            if not re.search(r'\b(dnf|yum|microdnf) clean all', rest):
                yield line, 'leaves the cache of dnf behind'


def add(ins):
    for word, rest, line in ins:
        if word == 'ADD':
            yield line, 'ADD of an address or archive: COPY, or fetch and check in RUN'


def secrets(ins):
    for word, rest, line in ins:
        if word in ('ENV', 'ARG') and SECRET.search(re.sub(r'=("[^"]*"|\S*)', '=', rest)):
            yield line, f'a secret would stay in the image: {rest.split("=")[0]}'


def exec_form(ins):
    for word, rest, line in ins:
        if word in ('CMD', 'ENTRYPOINT'):
            try:
                ok = all(isinstance(x, str) for x in json.loads(rest))
            except ValueError:
                ok = False
            if not ok:
                yield line, f'{word} is not in exec form: signals would go to a shell'
    for word in ('CMD', 'ENTRYPOINT'):
        if sum(w == word for w, _, _ in ins) > sum(w == 'FROM' for w, _, _ in ins):
            yield 1, f'{word} stands more than once'


def workdir(ins):
    for word, rest, line in ins:
        if word == 'WORKDIR' and not rest.startswith(('/', '$')):
            yield line, 'WORKDIR is not absolute'
        if word == 'RUN' and re.match(r'cd\s+\S+\s*$', rest):
            yield line, 'cd does not outlive its RUN'


def commands(ins):
    for word, rest, line in ins:
        if word == 'RUN' and re.search(r'(^|[\s;&|])sudo\s', rest):
            yield line, 'sudo in a build'
        if word == 'RUN' and re.search(r'(curl|wget)[^|;&]*\|\s*(ba|da|z)?sh\b', rest):
            yield line, 'runs what it has just fetched, unchecked'
        if word == 'RUN' and re.search(r'chmod\s+(-R\s+)?0?777', rest):
            yield line, 'everyone may write'


# rule, how it is called, what is put in place of what to break it
RULES = [
    (begins, 'begins with FROM', [('FROM registry.example.org/base:1.2 AS build\n', 'RUN x\nFROM registry.example.org/base:1.2 AS build\n')]),
    (known, 'instructions are known and in capitals', [('WORKDIR', 'workdir'), ('RUN make', 'RUM make')]),
    (from_pinned, 'FROM has a tag or digest, and not latest', [
        ('FROM registry.example.org/base:1.2 AS', 'FROM registry.example.org/base AS'),
        ('ARG BASE=registry.example.org/base:1.2', 'ARG BASE=registry.example.org:5000/base'),
        ('ARG BASE=registry.example.org/base:1.2', 'ARG BASE=registry.example.org/base:latest')]),
    (not_root, 'does not end as root', [('USER 1001', 'USER root'), ('USER 1001', 'USER 0:0'), ('USER 1001\n', '')]),
    (apt, 'apt: unattended, only what is asked for, lists removed', [
        (' && rm -rf /var/lib/apt/lists/*', ' && true'), (' -y ', ' '), (' --no-install-recommends', ''),
        ('apt-get install', 'apt install')]),
    (dnf, 'dnf: cache removed', [('RUN make', 'RUN dnf install -y make')]),
    (add, 'no ADD', [('RUN make', 'ADD https://example.org/x.tar.gz /x')]),
    (secrets, 'no secret in ENV or ARG', [('ENV PATH=/opt/x:$PATH', 'ENV API_KEY=123'), ('RUN make', 'ARG DB_PASSWORD')]),
    (exec_form, 'CMD and ENTRYPOINT in exec form, once a stage', [
        ('CMD ["--help"]', 'CMD --help'), ('CMD ["--help"]', 'CMD ["a"]\nCMD ["a"]\nCMD ["a"]'),
        ('ENTRYPOINT ["/usr/local/bin/x"]', 'ENTRYPOINT /usr/local/bin/x')]),
    (workdir, 'WORKDIR absolute, no lone cd', [('WORKDIR /workspace', 'WORKDIR workspace'), ('RUN make', 'RUN cd /x')]),
    (commands, 'no sudo, no unchecked script, nothing open to all', [
        ('RUN make', 'RUN sudo make'), ('RUN make', 'RUN curl -s https://example.org/x | bash'),
        ('RUN make', 'RUN chmod -R 777 /x')]),
]


def faults(text):
    """(rule, line, what is wrong)."""
    ins = instructions(text)
    return [(name, line, what) for rule, name, _ in RULES for line, what in rule(ins)]


def self_check():
    """Yields (rule, fault of the rule itself or None)."""
    clean = faults(GOOD)
    yield 'a good file', f'it is called bad: {clean}' if clean else None
    for _, name, swaps in RULES:
        wrong = None
        for old, new in swaps:
            assert old in GOOD, old
            hit = [f for f in faults(GOOD.replace(old, new, 1)) if f[0] == name]
            if not hit:
                wrong = f'{new!r} passes'
        yield name, wrong
