# SPDX-License-Identifier: MIT
"""kueue_here: Kueue's own controller beside a control plane (control_plane.py), with its kinds and webhooks.

Program and webhooks are those that tools/kube-assets puts into $KUBEBUILDER_ASSETS.  The configuration is the rendered one, but for ports,
certificates and the election of a leader, which only a Deployment of several has."""
import base64
import os
import pathlib
import shutil
import subprocess
import urllib.request

import serve_box
from serve_box import free_ports, wait
import yaml

FILES = ("kueue", "kueue-webhooks.yaml", "kinds/kueue.yaml")


def missing(assets):
    return [f for f in FILES if not os.path.exists(os.path.join(assets, f))]


class Kueue:
    """Runs until end(); `up` says whether it answers."""

    def __init__(self, c, values):
        self.hooks = []
        self.c, self.folder = c, pathlib.Path(c.folder, "kueue").resolve()
        self.folder.mkdir(exist_ok=True)
        hook, health, metrics = free_ports(3)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=here", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", self.folder / "tls.key", "-out", self.folder / "tls.crt"], check=True, capture_output=True)
        config = yaml.safe_load(yaml.safe_load(pathlib.Path(values).read_text())["managerConfig"]["controllerManagerConfigYaml"])
        config["webhook"] = {"port": hook, "certDir": str(self.folder)}
        config["health"]["healthProbeBindAddress"] = f"127.0.0.1:{health}"
        config["metrics"]["bindAddress"] = f"127.0.0.1:{metrics}"
        config["leaderElection"] = {"leaderElect": False}
        config["internalCertManagement"] = {"enable": False}
        (self.folder / "config.yaml").write_text(yaml.safe_dump(config))
        # certificates of its metrics have one path, below /etc: it gets an /etc of its own
        certs = self.folder / "etc/kueue/metrics/certs"
        certs.mkdir(parents=True, exist_ok=True)
        for name in ("tls.key", "tls.crt"):
            shutil.copy(self.folder / name, certs)
        own = ["unshare", "-m" if os.getuid() == 0 else "-rm", "sh", "-c", 'mount --bind "$1" /etc && shift && exec "$@"', "sh", str(self.folder / "etc")]
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen([*own, os.path.abspath(os.path.join(c.assets, "kueue")), "--config", self.folder / "config.yaml",
                                             "--feature-gates=VisibilityOnDemand=false"],
                                            env={**os.environ, "KUBECONFIG": os.path.abspath(c.at("config"))}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        serve_box.living.append(self.process)

        def ready():
            try:
                return self.process.poll() is not None or urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=2).status == 200
            except OSError:
                return False
        self.up = wait(ready, 90) and self.process.poll() is None
        if self.up:
            self.webhooks(hook)

    def webhooks(self, port):
        ca = base64.b64encode((self.folder / "tls.crt").read_bytes()).decode()
        for doc in yaml.safe_load_all(pathlib.Path(self.c.assets, "kueue-webhooks.yaml").read_text()):
            for w in doc["webhooks"]:
                path = w["clientConfig"].pop("service")["path"]
                w["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": ca}
            # of jobs only the kind that is used here: others' objects are not Kueue's
            doc["webhooks"] = [w for w in doc["webhooks"] if any("kueue.x-k8s.io" in r["apiGroups"] or r["resources"] == ["jobs"] and "batch" in r["apiGroups"]
                                                                for r in w["rules"])]
            self.hooks.append(f"{doc['kind']}/{doc['metadata']['name']}".lower())
            self.c.put(doc)

    def words(self):
        return (self.folder / "log").read_text(errors="replace")[-3000:]

    def end(self):
        self.c.kubectl("delete", *self.hooks)
        self.process.terminate()
        self.process.wait(30)
