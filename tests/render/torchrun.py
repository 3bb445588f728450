#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""torchrun.py: stands for torchrun where the launcher is tested.

Writes down its arguments and NCCL's environment ($RECORD/HOST.json); then, with $MEET nodes to
wait for, it does what the elastic rendezvous does: the one with is_host=1 listens, the others come
with their addresses, and each learns its rank from the order of those.  Names lead to loopback.
$STATUS is its exit status; with $LINGER it stays until it is told to end, and says so."""
import json
import os
import signal
import socket
import sys
import time


def options(args):
    out = {}
    for a in args:
        if not a.startswith('--') or '=' not in a:
            break
        key, _, value = a[2:].partition('=')
        out[key] = value
    return out, args[len(out):]


def host(port, here, count):
    server = socket.create_server(('127.0.0.1', port))
    server.settimeout(30)
    peers = {here: None}
    while len(peers) < count:
        conn, _ = server.accept()
        peers[conn.makefile().readline().strip()] = conn
    for rank, name in enumerate(sorted(peers)):
        if peers[name]:
            peers[name].sendall(f'{rank}\n'.encode())
            peers[name].close()
    return sorted(peers).index(here)


def join(port, here):
    for _ in range(300):
        try:
            conn = socket.create_connection(('127.0.0.1', port), 30)
            break
        except OSError:
            time.sleep(0.1)
    conn.sendall((here + '\n').encode())
    return int(conn.makefile().readline())


def main(args):
    opts, program = options(args)
    record = {'options': opts, 'program': program, 'rank': None,
              'env': {k: v for k, v in os.environ.items()
                      if k.startswith(('NCCL_', 'UCX_', 'OMP_', 'GPUS_', 'MASTER_', 'WORLD_', 'TORCH_'))}}
    if os.environ.get('MEET'):
        port = int(opts['rdzv-endpoint'].rsplit(':', 1)[1])
        hosting = 'is_host=1' in opts['rdzv-conf'].split(',')
        record['rank'] = host(port, opts['local-addr'], int(os.environ['MEET'])) if hosting \
            else join(port, opts['local-addr'])
    path = os.path.join(os.environ['RECORD'], os.environ['HOSTNAME'].split('.')[0] + '.json')
    with open(path + '.new', 'w', encoding='utf-8') as f:
        json.dump(record, f)
    if os.environ.get('LINGER'):
        signal.signal(signal.SIGTERM, lambda *a: (print('told to end', flush=True), sys.exit(7)))
    os.rename(path + '.new', path)  # from here on it may be told
    if os.environ.get('LINGER'):
        time.sleep(60)
    sys.exit(int(os.environ.get('STATUS', '0')))


main(sys.argv[1:])
