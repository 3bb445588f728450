# SPDX-License-Identifier: MIT
"""TAP: causes.py STOKER FAKE-NVML TESTS, in an empty folder.  See causes.t."""
import os
import pathlib
import re
import sys

import agent_box
from agent_box import wait
from prom_box import Program
from serve_test import STOKER, check, done, part, run

FAKE, TESTS = sys.argv[2:4]


def lost_gpu():
    pathlib.Path("site.yaml").write_text(run("spec", "example", "kb-a100").stdout)
    p = run("render", "prometheus", "-f", "site.yaml", "-o", "out")
    config = pathlib.Path("out/prometheus/alertmanager.yml")
    check("alertmanager.yml is rendered", config.exists(), p.stderr)
    text = config.read_text()
    check("with groups by cause and inhibitions", "cause!=" in text and "GpuDriverHung" in text, text[:500])
    manager = Program("prometheus-alertmanager", "/-/ready", f"--config.file={config}", "--storage.path=data", "--cluster.listen-address=")
    check("Alertmanager takes it", manager.up, manager.words())
    pathlib.Path("root/dev").mkdir(parents=True)
    pathlib.Path("root/dev/kmsg").write_text("")
    pathlib.Path("control").write_text("")
    pathlib.Path("agent.yaml").write_text(f"schema: stoker.spec/1\nnotify: {{alertmanager: '{manager.url}'}}\n"
                                          "default_alerts:\n  GpuTelemetryAbsent: {for: 20s}\n")
    a = agent_box.Agent(STOKER, "--no-history", "--root", "root", "-f", "agent.yaml",
                        env=dict(FAKE_NVML_JSON=f"{TESTS}/fakenvml/dgx-h100.json", FAKE_NVML_LIVE=f"{TESTS}/fixtures/gpu/dgx-h100.json",
                                 FAKE_NVML_CONTROL=os.path.abspath("control"), STOKER_NVML_LIB=FAKE))
    wait(lambda: a.value("DCGM_FI_DEV_XID_ERRORS", 'gpu="2"') == 0, 20)
    bus = {g: re.search(r'^DCGM_FI_DEV_GPU_TEMP{gpu="%d",.*pci_bus_id="0000([^"]*)\.0"' % g, a.metrics(), re.M)[1].lower() for g in (2, 5)}
    with open("root/dev/kmsg", "a") as f:
        f.write(f"NVRM: Xid (PCI:{bus[2]}): 79, pid=7, name=python3, GPU has fallen off the bus.\nNVRM: Xid (PCI:{bus[5]}): 62, pid=8, name=python3\n")
    pathlib.Path("control.new").write_text("lose:2")
    os.rename("control.new", "control")

    def told(name, **labels):
        return [x for x in manager.ask("/api/v2/alerts") if x["labels"]["alertname"] == name and all(x["labels"].get(k) == v for k, v in labels.items())]

    def state(name, **labels):
        return [x["status"]["state"] for x in told(name, **labels)]
    check("the root is active", wait(lambda: state("GpuLost", gpu="2") == ["active"], 60), manager.ask("/api/v2/alerts"))
    check("the XID of the same cause is inhibited", wait(lambda: state("GpuXidFatal", xid="79") == ["suppressed"], 60), told("GpuXidFatal"))
    check("and so is what is not known any more", wait(lambda: state("GpuTelemetryAbsent", gpu="2") == ["suppressed"], 90), told("GpuTelemetryAbsent"))
    check("another GPU's is active", state("GpuXidFatal", xid="62") == ["active"], told("GpuXidFatal"))
    one = told("GpuTelemetryAbsent", gpu="2")[0]
    check("it says what it follows from", one["labels"]["cause"] == "gpu_lost:gpu=2" and one["labels"]["cause_role"] == "symptom" and
          one["annotations"]["follows_from"].startswith("GpuLost: "), one)
    groups = [{x["labels"]["alertname"] for x in g["alerts"]} for g in manager.ask("/api/v2/alerts/groups", inhibited="true") if g["labels"].get("cause") == "gpu_lost:gpu=2"]
    check("one cause is one group of a receiver", any({"GpuLost", "GpuXidFatal"} <= g for g in groups), groups)
    a.stop()
    manager.end()


part(lost_gpu)
done()
