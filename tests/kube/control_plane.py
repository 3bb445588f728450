# SPDX-License-Identifier: MIT
"""control_plane: a Kubernetes API server on loopback with its store, controllers and scheduler, and
machines that are objects alone: everything of a cluster but its kubelets.

The programs are those of $KUBEBUILDER_ASSETS, as other projects' tests have them (etcd, kube-apiserver,
kubectl), with kube-controller-manager and kube-scheduler beside them.  Standard library alone."""
import json
import os
import pathlib
import subprocess

import serve_box
from serve_box import free_ports, wait

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")


def missing(assets):
    """Why there can be no cluster; '' when there can."""
    if not assets:
        return "KUBEBUILDER_ASSETS names no folder with " + ", ".join(PROGRAMS)
    gone = [p for p in PROGRAMS if not os.access(os.path.join(assets, p), os.X_OK)]
    return f"no {', '.join(gone)} in '{assets}'" if gone else ""


class Cluster:
    """Of this process, in `folder`; ends with it.  `up` says whether it is there."""

    def __init__(self, assets, folder):
        self.assets, self.folder = assets, pathlib.Path(folder)
        self.folder.mkdir()
        store, peers, api = free_ports(3)
        self.url = f"https://127.0.0.1:{api}"
        subprocess.run(["openssl", "genrsa", "-out", self.at("accounts.key"), "2048"], check=True, capture_output=True)
        (self.folder / "tokens.csv").write_text('secret,admin,admin,"system:masters"\n')
        self.config()
        self.start("etcd", f"--data-dir={self.at('store')}", f"--listen-client-urls=http://127.0.0.1:{store}",
                   f"--advertise-client-urls=http://127.0.0.1:{store}", f"--listen-peer-urls=http://127.0.0.1:{peers}",
                   f"--initial-advertise-peer-urls=http://127.0.0.1:{peers}", f"--initial-cluster=default=http://127.0.0.1:{peers}")
        self.start("kube-apiserver", f"--etcd-servers=http://127.0.0.1:{store}", "--bind-address=127.0.0.1", f"--secure-port={api}",
                   f"--cert-dir={self.at('certs')}", f"--token-auth-file={self.at('tokens.csv')}", "--authorization-mode=RBAC",
                   "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={self.at('accounts.key')}",
                   f"--service-account-signing-key-file={self.at('accounts.key')}", "--service-cluster-ip-range=10.0.0.0/24",
                   "--endpoint-reconciler-type=none", "--allow-privileged=true")
        self.up = wait(lambda: self.kubectl("get", "--raw", "/readyz").returncode == 0, 120)
        if not self.up:
            return
        # machines here have no kubelet that reports: nobody is to find them dead
        self.start("kube-controller-manager", f"--kubeconfig={self.at('config')}", "--leader-elect=false", "--secure-port=0",
                   f"--service-account-private-key-file={self.at('accounts.key')}", "--controllers=*,-node-lifecycle-controller,-taint-eviction-controller")
        self.start("kube-scheduler", f"--kubeconfig={self.at('config')}", "--leader-elect=false", "--secure-port=0")
        self.up = wait(lambda: self.kubectl("-n", "default", "get", "serviceaccount", "default").returncode == 0, 120)

    def at(self, name):
        return str(self.folder / name)

    def config(self):
        (self.folder / "config").write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": self.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "admin", "user": {"token": "secret"}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "admin"}}]}))

    def start(self, name, *args):
        with open(self.at(name + ".log"), "wb") as log:
            p = subprocess.Popen([os.path.join(self.assets, name), *args], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        serve_box.living.append(p)

    def kubectl(self, *args, text=None):
        return subprocess.run([os.path.join(self.assets, "kubectl"), "--kubeconfig", self.at("config"), *args], input=text,
                              capture_output=True, text=True, check=False)

    def get(self, *args):
        """Objects of a kind; [] where there are none."""
        r = self.kubectl("get", *args, "-o", "json")
        return json.loads(r.stdout).get("items", []) if r.returncode == 0 else []

    def put(self, *objects):
        """Objects that must be taken."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        r = self.kubectl("apply", "--server-side", "-f", "-", text=text)
        assert r.returncode == 0, r.stderr

    def words(self):
        return "\n".join(f"{p.name}: {p.read_text(errors='replace')[-400:]}" for p in sorted(self.folder.glob("*.log")))

    def end(self):
        for p in reversed(serve_box.living):
            if p.poll() is None:
                p.terminate()
                try:
                    p.wait(20)
                except subprocess.TimeoutExpired:
                    p.kill()
                    p.wait()
