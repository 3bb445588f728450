#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Is what `stoker detect` says of each GPU what `nvidia-smi -q` says?

    tests/gpu/compare-smi.py build/stoker [--xml FILE --json FILE]

Needs a machine with an NVIDIA driver, or a saved pair (`nvidia-smi -q -x` and `stoker
detect --json` of one moment).  Each row compares one field of every GPU; figures that
move (temperature, power, clocks now) may differ by a stated tolerance.  TAP.
"""
import argparse
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

ap = argparse.ArgumentParser()
ap.add_argument("stoker")
ap.add_argument("--xml")
ap.add_argument("--json")
args = ap.parse_args()
xml = open(args.xml).read() if args.xml else subprocess.run(
    ["nvidia-smi", "-q", "-x"], check=True, capture_output=True, text=True).stdout
doc = json.load(open(args.json)) if args.json else json.loads(subprocess.run(
    [args.stoker, "detect", "--json"], check=True, capture_output=True, text=True).stdout)
smi = ET.fromstring(xml)

count = failed = 0


def tap(ok, title, *notes):
    global count, failed
    count += 1
    failed += not ok
    print("ok" if ok else "not ok", count, "-", title)
    for n in notes if not ok else ():
        print("#", n)


def number(text, scale=1):
    """'143771 MiB' to a scaled integer; None for N/A."""
    m = re.match(r"\s*(-?[\d.]+)", text or "")
    return None if not m else round(float(m.group(1)) * scale)


def on(text):
    return {"Enabled": True, "Disabled": False, "Yes": True, "No": False}.get(text)


def word(text):
    return None if text in (None, "N/A", "[N/A]") else text


MIB = 1 << 20
# field of ours, path in nvidia-smi's XML, how to read it, tolerance
ROWS = [
    ("name", "product_name", word, 0),
    ("arch", "product_architecture", word, 0),
    ("uuid", "uuid", word, 0),
    ("serial", "serial", word, 0),
    ("board_part", "board_part_number", word, 0),
    ("vbios", "vbios_version", word, 0),
    ("inforom", "inforom_version/img_version", word, 0),
    ("minor", "minor_number", number, 0),
    ("mem_total_bytes", "fb_memory_usage/total", lambda t: number(t, MIB), MIB),
    ("mem_reserved_bytes", "fb_memory_usage/reserved", lambda t: number(t, MIB), 2 * MIB),
    ("bar1_bytes", "bar1_memory_usage/total", lambda t: number(t, MIB), MIB),
    ("pcie_gen", "pci/pci_gpu_link_info/pcie_gen/current_link_gen", number, 0),
    ("pcie_gen_max", "pci/pci_gpu_link_info/pcie_gen/max_link_gen", number, 0),
    ("pcie_width", "pci/pci_gpu_link_info/link_widths/current_link_width", number, 0),
    ("pcie_width_max", "pci/pci_gpu_link_info/link_widths/max_link_width", number, 0),
    ("clock_sm_max_mhz", "max_clocks/sm_clock", number, 0),
    ("clock_mem_max_mhz", "max_clocks/mem_clock", number, 0),
    ("clock_mem_mhz", "clocks/mem_clock", number, 10),
    ("clock_app_sm_mhz", "applications_clocks/graphics_clock", number, 0),
    ("clock_app_mem_mhz", "applications_clocks/mem_clock", number, 0),
    ("power_limit_mw", "gpu_power_readings/current_power_limit", lambda t: number(t, 1000), 0),
    ("power_default_mw", "gpu_power_readings/default_power_limit", lambda t: number(t, 1000), 0),
    ("power_min_mw", "gpu_power_readings/min_power_limit", lambda t: number(t, 1000), 0),
    ("power_max_mw", "gpu_power_readings/max_power_limit", lambda t: number(t, 1000), 0),
    ("power_mw", "gpu_power_readings/instant_power_draw", lambda t: number(t, 1000), 80000),
    ("temp_c", "temperature/gpu_temp", number, 5),
    ("temp_margin_c", "temperature/gpu_temp_tlimit", number, 5),
    ("ecc", "ecc_mode/current_ecc", on, 0),
    ("ecc_pending", "ecc_mode/pending_ecc", on, 0),
    ("mig", "mig_mode/current_mig", on, 0),
    ("mig_pending", "mig_mode/pending_mig", on, 0),
    ("persistence", "persistence_mode", on, 0),
    ("compute_mode", "compute_mode", lambda t: {"Default": "default", "Exclusive_Process": "exclusive",
                                                "Prohibited": "prohibited"}.get(t), 0),
    ("virtualization", "gpu_virtualization_mode/virtualization_mode",
     lambda t: {"None": "none", "Pass-Through": "passthrough", "VGPU": "vgpu"}.get(t), 0),
    ("recovery_action", "gpu_recovery_action",
     lambda t: {"None": "none", "Reset": "reset", "Reboot": "reboot", "Drain P2P": "drain-p2p",
                "Drain and Reset": "drain-reset"}.get(t), 0),
    ("gsp_firmware", "gsp_firmware_version", word, 0),
    ("remap_correctable", "remapped_rows/remapped_row_corr", number, 0),
    ("remap_uncorrectable", "remapped_rows/remapped_row_unc", number, 0),
    ("remap_pending", "remapped_rows/remapped_row_pending", on, 0),
    ("remap_failed", "remapped_rows/remapped_row_failure", on, 0),
    ("addressing", "addressing_mode", lambda t: {"None": "none", "HMM": "hmm", "ATS": "ats"}.get(t), 0),
]


def same(ours, theirs, tolerance):
    if tolerance and isinstance(ours, int) and isinstance(theirs, int):
        return abs(ours - theirs) <= tolerance
    return ours == theirs


tap(doc["nvidia"]["driver_version"] == smi.findtext("driver_version"), "driver version",
    doc["nvidia"]["driver_version"], smi.findtext("driver_version"))
cuda = doc["nvidia"]["cuda_driver"]
tap(f"{cuda // 1000}.{cuda % 1000 // 10}" == smi.findtext("cuda_version"), "CUDA version", cuda,
    smi.findtext("cuda_version"))
theirs = {re.sub(r"^0000", "", g.get("id").lower()): g for g in smi.findall("gpu")}
ours = {g["bdf"]: g for g in doc["gpus"]}
tap(sorted(theirs) == sorted(ours), "the same GPUs by PCI address", sorted(theirs), sorted(ours))
unknown = []
for bdf in sorted(set(ours) & set(theirs)):
    for field, path, read, tolerance in ROWS:
        want, got = read(theirs[bdf].findtext(path)), ours[bdf][field]
        if want is None and got is not None:
            unknown.append(f"{bdf} {field}: {got!r}, nvidia-smi says {theirs[bdf].findtext(path)!r}")
            continue
        tap(same(got, want, tolerance), f"{bdf} {field} = {got!r}",
            f"stoker {got!r}, nvidia-smi {want!r} ({theirs[bdf].findtext(path)!r})")
for line in unknown:
    print("# we know more:", line)
print(f"1..{count}")
sys.exit(failed > 0)
