# SPDX-License-Identifier: MIT
"""gpus: what the NVIDIA driver answers for the GPUs of our hand-built machines.

Each product is a row of the figures its data sheet and `nvidia-smi -q` give; the
keys are those of struct hw_gpu (src/hw/hw.h), the document is stoker.nvml/1.  A key
that is absent is one the driver does not answer ("N/A" in nvidia-smi).
"""
MIB = 1 << 20

# Hopper answers with margins to its limits, not with absolute thresholds.
H100_SXM = dict(
    name="NVIDIA H100 80GB HBM3", arch="Hopper", brand="NVIDIA", pci="10de:2330",
    sub="10de:16c1", board_part="692-2G520-0200-000", vbios="96.00.74.00.1C",
    inforom="G520.0200.00.05", compute=(9, 0), cores=16896, mem_mib=81559,
    reserved_mib=551, bus=5120, bar1_mib=131072, gen=5, sm_mhz=(345, 1980), mem_mhz=(2619, 2619),
    power_w=(200, 700, 700), draw_mw=69870, temp_c=31, margin_c=56, links=18, link_mbps=26562,
    link_version=4, mig=True)
H200_SXM = dict(
    H100_SXM, name="NVIDIA H200", pci="10de:2335", sub="10de:18bf",
    board_part="692-2G520-0282-000", vbios="96.00.A5.00.1A", inforom="G520.0282.02.02",
    mem_mib=143771, reserved_mib=616, bus=6144, bar1_mib=262144, mem_mhz=(3201, 3201),
    draw_mw=79870, temp_c=36, margin_c=51)
A100_PCIE = dict(
    name="NVIDIA A100 80GB PCIe", arch="Ampere", brand="NVIDIA", pci="10de:20b5",
    sub="10de:1533", board_part="900-21001-0020-000", vbios="92.00.A0.00.05",
    inforom="1001.0230.00.03", compute=(8, 0), cores=6912, mem_mib=81920,
    reserved_mib=593, bus=5120, bar1_mib=131072, gen=4, sm_mhz=(210, 1410), mem_mhz=(1512, 1512),
    power_w=(150, 300, 300), draw_mw=43120, temp_c=33, limits_c=(89, 92, 85), links=12,
    link_mbps=25000, link_version=3, mig=True)
A100_SXM = dict(
    A100_PCIE, name="NVIDIA A100-SXM4-80GB", pci="10de:20b2", sub="10de:1463",
    board_part="692-2G506-0212-002", vbios="92.00.45.00.03", inforom="G506.0212.00.01",
    mem_mhz=(1593, 1593), power_w=(100, 400, 400), draw_mw=58430, temp_c=29,
    limits_c=(92, 95, 85), link_mbps=25781)


def uuid_of(seed):
    """A UUID that is the same every time and nobody's."""
    word = (seed * 2654435761) & 0xFFFFFFFF
    low = (seed * 40503 + 12345) & 0xFFFFFFFF
    return "%08x-%04x-%04x-%04x-%012x" % (word, low >> 16, 0x4A00 | (low & 0xFF),
                                         0x8000 | (word & 0xFFF), word << 12 | (low & 0xFFF))


def gpu(index, kind, bdf, seed, driver, minor=None, persistence=True):
    """One GPU that answers everything (its NUMA node and CPUs come from sysfs)."""
    k = kind
    idle, top = k["sm_mhz"]
    out = dict(
        index=index, state="ok", name=k["name"], arch=k["arch"], brand=k["brand"],
        uuid="GPU-" + uuid_of(seed), serial="165%010d" % seed, board_part=k["board_part"],
        vbios=k["vbios"], inforom=k["inforom"], minor=index if minor is None else minor, bdf=bdf,
        compute_major=k["compute"][0], compute_minor=k["compute"][1],
        cores=k["cores"], mem_total_bytes=k["mem_mib"] * MIB,
        mem_reserved_bytes=k["reserved_mib"] * MIB, mem_used_bytes=0, mem_bus_bits=k["bus"],
        bar1_bytes=k["bar1_mib"] * MIB, pcie_gen=k["gen"], pcie_gen_max=k["gen"], pcie_width=16,
        pcie_width_max=16, clock_sm_mhz=idle, clock_sm_max_mhz=top, clock_mem_mhz=k["mem_mhz"][0],
        clock_mem_max_mhz=k["mem_mhz"][1], clock_app_sm_mhz=top, clock_app_mem_mhz=k["mem_mhz"][1],
        power_limit_mw=k["power_w"][1] * 1000, power_default_mw=k["power_w"][1] * 1000,
        power_min_mw=k["power_w"][0] * 1000, power_max_mw=k["power_w"][2] * 1000,
        power_mw=k["draw_mw"] + 410 * index, temp_c=k["temp_c"] + index % 4, ecc=True,
        ecc_pending=True, ecc_dbe_volatile=0, ecc_dbe_total=0, ecc_sbe_volatile=0,
        ecc_sbe_total=0, remap_correctable=0, remap_uncorrectable=0, remap_pending=False,
        remap_failed=False, persistence=persistence, compute_mode="default",
        virtualization="none", gsp_firmware=driver, nvlinks_total=k["links"])
    series = int(driver.split(".")[0])  # later drivers answer more
    if series >= 560:
        out.update(recovery_action="none")
    if series >= 580:
        out.update(addressing="none")
    if k["arch"] == "Hopper":
        if series >= 570:
            out.update(temp_margin_c=k["margin_c"] - index % 4)
    else:
        slow, stop, most = k["limits_c"]
        out.update(temp_slowdown_c=slow, temp_shutdown_c=stop, temp_max_c=most)
    if k["mig"]:
        out.update(mig=False, mig_pending=False, mig_max=7)
    return out


def fabric(g):
    """Registered with the fabric manager, as on an NVSwitch system of one node, whose
    cluster UUID is all zero and so unknown."""
    g.update(fabric_state="completed", fabric_status="ok", fabric_clique=0)


def link_switches(g, kind, switches, shares=(4, 5, 5, 4)):
    """All links to NVSwitches, in the shares NCCL's topology dumps of HGX H100 show."""
    order = [s for s, n in zip(switches, shares) for _ in range(n)]
    g["nvlinks"] = [link(i, kind, "switch", bdf) for i, bdf in enumerate(order)]


def link_gpus(g, kind, peers, each):
    """`each` links to every one of peers (addresses of GPUs)."""
    order = [p for p in peers for _ in range(each)]
    g["nvlinks"] = [link(i, kind, "gpu", bdf) for i, bdf in enumerate(order)]


def link(i, kind, remote, bdf):
    return dict(link=i, active=True, version=kind["link_version"], speed_mbps=kind["link_mbps"],
                remote_kind=remote, remote_bdf=bdf)


def mig(g, profiles):
    """profiles: (name, GPU instance id, MiB, SMs, slices); a compute instance 0 in each."""
    g.update(mig=True, mig_pending=True)
    g["migs"] = [dict(gi=gi, ci=0, uuid="MIG-" + uuid_of(900 + i), name=name, mem_bytes=mib * MIB,
                      sms=sms, slices=slices)
                 for i, (name, gi, mib, sms, slices) in enumerate(profiles)]


def lost(index):
    """A GPU off the bus: it is counted, but its handle is NVML_ERROR_GPU_IS_LOST, so
    that not even the address is told."""
    return dict(index=index, state="lost", errors=[
        dict(call="nvmlDeviceGetHandleByIndex_v2", code=15, text="GPU is lost")])


def pairs(gpus, p2p="ok", nvlink=None, apart=()):
    """Every pair by index.  nvlink: NVML's word for P2P over NVLink, or a function of
    the two GPUs; apart: indices that answer nothing."""
    out = []
    for i, a in enumerate(gpus):
        for b in gpus[i + 1:]:
            if a["index"] in apart or b["index"] in apart:
                continue
            word = nvlink(a, b) if callable(nvlink) else nvlink
            out.append(dict(a=a["index"], b=b["index"], p2p_read=p2p, p2p_write=p2p,
                            p2p_nvlink=word or "not supported",
                            p2p_atomics="ok" if word == "ok" else "not supported"))
    return out
