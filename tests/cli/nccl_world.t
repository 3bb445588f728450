#!/bin/sh
# SPDX-License-Identifier: MIT
# What steers NCCL besides the environment: configuration files, plug-ins, topology files; and
# what `stoker gather` keeps of them.  Each case is the machine dgx-h100 with a few files more.
. "$(dirname "$0")/lib.sh"

"$TOP/tests/machines/build.py" --dir "$TMP/dirs" dgx-h100 >/dev/null || {
    echo "Bail out! the machine could not be built"
    exit 1
}
dgx=$TMP/dirs/dgx-h100

# with NAME=VALUE...: into the captured environment
with() {
    python3 -c '
import json, sys
path = sys.argv[1] + "/stoker/self.json"
doc = json.load(open(path))
names = dict(a.split("=", 1) for a in sys.argv[2:])
doc["env"] = [e for e in doc["env"] if e["name"] not in names]
doc["env"] += [{"name": n, "value": v} for n, v in names.items() if v]
for n in ("HOME", "PASSWD_HOME"):
    if n in names:
        doc[n.lower()] = names[n] or None
json.dump(doc, open(path, "w"))' "$dgx" "$@"
}
conf() {
    mkdir -p "$dgx/etc" && cat >"$dgx/etc/nccl.conf"
}
says() {
    python3 -c '
import json, sys
doc = json.load(open("json"))
sys.exit(not eval(sys.argv[1], {"c": doc["choice"], "env": {v["name"]: v for v in doc["env"]}, "doc": doc}))' "$1" ||
        { head -40 json; return 1; }
}
env_json() {
    stoker detect --root "$dgx" --env --json "$@" >json
}

# ---- configuration files
test_expect '/etc/nccl.conf: a filter there is a user setting, and --why says where it is' '
    printf "# site\nNCCL_IB_HCA==mlx5_0\nPASSWORD=secret\n" | conf && env_json &&
    says "env[\"NCCL_IB_HCA\"][\"kind\"] == \"user\" and env[\"NCCL_IB_HCA\"][\"value\"] == \"=mlx5_0\"" &&
    says "[p[\"device\"] for p in c[\"ports\"] if p[\"used\"]] == [\"mlx5_0\"]" &&
    says "\"/etc/nccl.conf\" in env[\"NCCL_IB_HCA\"][\"reason\"] and c[\"certain\"]" &&
    stoker detect --root "$dgx" --why NCCL_IB_HCA >out && grep -q "NCCL_IB_HCA==mlx5_0, in /etc/nccl.conf" out
'
test_expect 'the environment wins over it, -e too' '
    env_json -e NCCL_IB_HCA==mlx5_3 && says "[p[\"device\"] for p in c[\"ports\"] if p[\"used\"]] == [\"mlx5_3\"]" &&
    stoker detect --root "$dgx" -e NCCL_IB_HCA==mlx5_3 --why NCCL_IB_HCA >out && ! grep -q "in /etc/nccl.conf" out
'
test_expect '~/.nccl.conf comes first, NCCL_CONF_FILE in its place from 2.23 on (this is 2.21)' '
    mkdir -p "$dgx/home/u" "$dgx/x" && echo "NCCL_IB_HCA==mlx5_4" >"$dgx/home/u/.nccl.conf" &&
    echo "NCCL_IB_HCA==mlx5_5" >"$dgx/x/nccl.conf" && with HOME=/home/u && env_json &&
    says "env[\"NCCL_IB_HCA\"][\"value\"] == \"=mlx5_4\"" &&
    with HOME=/home/u NCCL_CONF_FILE=/x/nccl.conf && env_json && says "env[\"NCCL_IB_HCA\"][\"value\"] == \"=mlx5_4\"" &&
    (cd "$dgx/usr/lib/x86_64-linux-gnu" && ln -sf libnccl.so.2.28.9 libnccl.so.2 && : >libnccl.so.2.28.9) &&
    env_json && says "env[\"NCCL_IB_HCA\"][\"value\"] == \"=mlx5_5\"" &&
    (cd "$dgx/usr/lib/x86_64-linux-gnu" && ln -sf libnccl.so.2.21.5 libnccl.so.2) && rm -r "$dgx/home/u/.nccl.conf"
'
nccl() { # the release that is installed
    (cd "$dgx/usr/lib/x86_64-linux-gnu" && ln -sf libnccl.so.$1 libnccl.so.2 && : >libnccl.so.$1)
}
test_expect 'lines that end in a carriage return: part of the value before 2.30, not from then on' '
    printf "NCCL_IB_HCA==mlx5_0\\r\\nNCCL_DEBUG=WARN\\r\\n" | conf && with HOME= NCCL_CONF_FILE= && nccl 2.28.9 && env_json &&
    says "env[\"NCCL_IB_HCA\"][\"value\"] == \"=mlx5_0?\"" && stoker detect --root "$dgx" >out && grep -q "carriage return" out &&
    nccl 2.30.7 && env_json && says "env[\"NCCL_IB_HCA\"][\"value\"] == \"=mlx5_0\"" &&
    stoker detect --root "$dgx" >out && ! grep -q "carriage return" out && rm "$dgx/etc/nccl.conf"
'
test_expect 'a line whose name has a blank, "export" or a byte order mark before it sets nothing, and is told' '
    for name in " NCCL_IB_HCA" "export NCCL_IB_HCA" "\357\273\277NCCL_IB_HCA"; do
        printf "$name==mlx5_0\n" | conf && env_json && says "env[\"NCCL_IB_HCA\"][\"kind\"] != \"user\"" &&
        stoker detect --root "$dgx" --env 2>err >out && grep -q "NCCL_IB_HCA., which NCCL does not read" err &&
        stoker gather --root "$dgx" --force --unmasked c.tar >out 2>&1 && stoker detect --root c.tar | tr -s " \n" " " | grep -q "which NCCL does not read" ||
            exit 1
    done
    printf "  # NCCL_IB_HCA==mlx5_0\nX=NCCL_1\n" | conf && stoker detect --root "$dgx" --env 2>err >out && ! grep -q "does not read" err &&
    rm "$dgx/etc/nccl.conf"
'
test_expect '~ is the folder of the user database before 2.30, and HOME from then on' '
    mkdir -p "$dgx/home/pw" && echo "NCCL_IB_HCA==mlx5_4" >"$dgx/home/u/.nccl.conf" && echo "NCCL_IB_HCA==mlx5_6" >"$dgx/home/pw/.nccl.conf" &&
    with HOME=/home/u PASSWD_HOME=/home/pw && env_json && says "env[\"NCCL_IB_HCA\"][\"value\"] == \"=mlx5_4\"" &&
    nccl 2.28.9 && env_json && says "env[\"NCCL_IB_HCA\"][\"value\"] == \"=mlx5_6\"" &&
    rm "$dgx/home/pw/.nccl.conf" && env_json && says "env[\"NCCL_IB_HCA\"][\"kind\"] != \"user\"" &&
    with HOME=/home/u PASSWD_HOME= NCCL_CONF_FILE=/x/nccl.conf && nccl 2.21.5 && rm "$dgx/home/u/.nccl.conf"
'
test_expect 'a NCCL_CONF_FILE that cannot be read: not certain' '
    (cd "$dgx/usr/lib/x86_64-linux-gnu" && ln -sf libnccl.so.2.28.9 libnccl.so.2) &&
    with NCCL_CONF_FILE=/nowhere && env_json && says "not c[\"certain\"] and \"/nowhere\" in c[\"doubts\"][0]" &&
    stoker detect --root "$dgx" --env 2>/dev/null | grep -q "^# Not certain: .*NCCL_CONF_FILE" &&
    with NCCL_CONF_FILE= && (cd "$dgx/usr/lib/x86_64-linux-gnu" && ln -sf libnccl.so.2.21.5 libnccl.so.2)
'
test_expect 'mistakes in the file are linted as those of the environment' '
    printf "NCCL_IB_HCAA=mlx5_0\nNCCL_IB_DISABLE=1\n" | conf && env_json &&
    says "{\"NCCL_IB_HCAA\", \"NCCL_IB_DISABLE\"} <= {l[\"name\"] for l in doc[\"lint\"]}" &&
    says "c[\"transport\"] == \"tcp\"" && rm "$dgx/etc/nccl.conf"
'

# ---- plug-ins
test_expect 'a net plug-in where the loader looks: not certain, with its path' '
    : >"$dgx/usr/lib/x86_64-linux-gnu/libnccl-net.so" && env_json &&
    says "not c[\"certain\"] and \"/usr/lib/x86_64-linux-gnu/libnccl-net.so\" in c[\"doubts\"][0]" &&
    stoker detect --root "$dgx" >out && grep -q "Not certain: NCCL loads the net plug-in" out
'
test_expect 'NCCL_NET_PLUGIN=none or NCCL_NET=IB keeps it out' '
    env_json -e NCCL_NET_PLUGIN=none && says "c[\"certain\"]" && env_json -e NCCL_NET=IB && says "c[\"certain\"]" &&
    rm "$dgx/usr/lib/x86_64-linux-gnu/libnccl-net.so" && env_json && says "c[\"certain\"]"
'
test_expect 'a plug-in by name, in a folder of ld.so.conf.d' '
    mkdir -p "$dgx/opt/hpcx/lib" "$dgx/etc/ld.so.conf.d" && : >"$dgx/opt/hpcx/lib/libnccl-net-sharp.so" &&
    echo /opt/hpcx/lib >"$dgx/etc/ld.so.conf.d/hpcx.conf" && env_json && says "c[\"certain\"]" &&
    with NCCL_NET_PLUGIN=sharp && env_json && says "\"/opt/hpcx/lib/libnccl-net-sharp.so\" in c[\"doubts\"][0]" &&
    with NCCL_NET_PLUGIN=elsewhere && env_json && says "\"no such library\" in c[\"doubts\"][0]" && with NCCL_NET_PLUGIN=
'
test_expect 'a tuner plug-in is told and takes no certainty away' '
    : >"$dgx/opt/hpcx/lib/libnccl-tuner.so" && env_json && says "c[\"certain\"]" &&
    says "any(\"/opt/hpcx/lib/libnccl-tuner.so\" in n for n in c[\"notes\"])" && rm "$dgx/opt/hpcx/lib/libnccl-tuner.so"
'

# ---- topology files
topo() { # GPU 0 and mlx5_11 below one switch
    cat <<X
<system version="1"><cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel">
 <pci busid="ffff:ff:01.0" class="0x060400"><pci busid="0000:1B:00.0" class="0x030200"/><pci busid="$1" class="0x020700"/></pci>
</cpu></system>
X
}
far=$(stoker detect --root "$dgx" --json | python3 -c '
import json, sys
print(next(r["bdf"] for r in json.load(sys.stdin)["rdma"] if r["name"] == "mlx5_11"))')
near() {
    says "[g[\"path\"] for g in c[\"gpudirect\"] if g[\"gpu\"] == 0 and g[\"device\"] == \"mlx5_11\"] == [\"$1\"]"
}
test_expect 'virtualTopology.xml is followed: its distances, not those of sysfs' '
    env_json && near PXN && mkdir -p "$dgx/var/run/nvidia-topologyd" &&
    topo "$far" >"$dgx/var/run/nvidia-topologyd/virtualTopology.xml" && env_json && near PIX && says "c[\"certain\"]" &&
    says "any(\"virtualTopology.xml\" in n for n in c[\"notes\"])"
'
pair() { # GPU 0 and GPU 1 have this path and go this way
    says "[(p[\"path\"], p[\"transport\"]) for p in c[\"p2p\"] if (p[\"a\"], p[\"b\"]) == (0, 1)] == [(\"$1\", \"$2\")]"
}
word() { # ROW COLUMN of --topo --json
    stoker detect --root "$dgx" --topo --json | python3 -c "
import json, sys
d = json.load(sys.stdin)
n = {v[\"label\"] if v[\"kind\"] == \"gpu\" else v[\"name\"]: i for i, v in enumerate(d[\"devices\"])}
print(d[\"topo_file\"] or \"-\", d[\"paths\"][n[\"$1\"]][n[\"$2\"]])"
}
gpus() { # the two first GPUs at two processors, with what is below the second's element
    cat <<X
<system version="1"><cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel">
 <pci busid="0000:1B:00.0" class="0x030200"><gpu dev="0" sm="90">$1</gpu></pci></cpu>
<cpu numaid="1" affinity="ff00" arch="x86_64" vendor="GenuineIntel">
 <pci busid="$2" class="0x030200"><gpu dev="1" sm="90">$3</gpu></pci></cpu></system>
X
}
virtual=$dgx/var/run/nvidia-topologyd/virtualTopology.xml
test_expect 'the matrix, the table and the picture go by the file, and say so' '
    test "$(word GPU0 mlx5_11)" = "/var/run/nvidia-topologyd/virtualTopology.xml PIX" &&
    stoker detect --root "$dgx" --topo >out && grep -q "topology file /var/run/nvidia-topologyd/virtualTopology.xml" out &&
    stoker detect --root "$dgx" >out && grep "^ *mlx5_11 " out | grep -q " 0 PIX" && grep -q "near GPU: by the topology file" out &&
    stoker detect --root "$dgx" --svg pic.svg && grep -q "NCCL goes by /var/run" pic.svg &&
    mv "$virtual" keep.xml && word GPU0 mlx5_11 | grep -q "^- [NSP]" && stoker detect --root "$dgx" --svg pic.svg && ! grep -q "NCCL goes by" pic.svg
'
second=$(stoker detect --root "$dgx" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["gpus"][1]["bdf"])')
test_expect 'links between GPUs are those the file lists, else those of the driver' '
    env_json && pair NVL nvlink && test "$(word GPU0 GPU1)" = "- NV18" &&
    gpus "" "$second" "" >"$virtual" && env_json && pair NVL nvlink && word GPU0 GPU1 | grep -q " NV18" &&
    gpus "<nvlink target=\"0000:99:00.0\" count=\"4\" tclass=\"0x030200\"/>" "$second" "<nvlink target=\"0000:99:00.0\" count=\"4\" tclass=\"0x030200\"/>" >"$virtual" &&
    env_json && pair SYS shm && word GPU0 GPU1 | grep -q " SYS" &&
    gpus "<nvlink target=\"fffffff:ffff:ff\" count=\"4\"/>" "$second" "<nvlink target=\"0000:1B:00.0\" count=\"3\"/><nvlink target=\"0000:aa:00.0\" count=\"5\" tclass=\"0x068000\"/>" >"$virtual" &&
    env_json && pair NVL nvlink && word GPU0 GPU1 | grep -q " NV4" &&
    gpus "<nvlink target=\"$second\" count=\"2\" tclass=\"0x030200\"/>" "$second" "<nvlink target=\"0000:1b:00.0\" count=\"2\" tclass=\"0x030200\"/>" >"$virtual" &&
    env_json && pair NVL nvlink && word GPU0 GPU1 | grep -q " NV2"
'
test_expect 'a neighbour that the file has no NVLink to does not send in its stead' '
    rm "$virtual" && stoker detect --root "$dgx" --json >hw.json && python3 - >"$virtual" <<"PY" &&
import json
hw = json.load(open("hw.json"))
print("<system version=\"1\">")
for i, g in enumerate(hw["gpus"]):
    bdf = g["bdf"]
    print(f"<cpu numaid=\"{i}\"><pci busid=\"{bdf}\" class=\"0x030200\"><gpu dev=\"{i}\" sm=\"90\">"
          "<nvlink target=\"0000:99:00.0\" count=\"4\" tclass=\"0x030200\"/></gpu></pci></cpu>")
print("</system>")
PY
    env_json && says "c[\"p2p\"] and all(p[\"path\"] == \"SYS\" for p in c[\"p2p\"]) and not any(g[\"path\"] == \"PXN\" for g in c[\"gpudirect\"])" &&
    mv keep.xml "$virtual"
'
test_expect 'NCCL_TOPO_FILE of /etc/nccl.conf comes before it' '
    echo "NCCL_TOPO_FILE=/opt/topo.xml" | conf && topo "0000:99:00.0" >"$dgx/opt/topo.xml" && env_json && near PXN &&
    says "c[\"doubts\"] and all(\"mlx5_0 in the topology file /opt/topo.xml\" in d for d in c[\"doubts\"])" &&
    stoker detect --root "$dgx" --why NCCL_TOPO_FILE >out && grep -q "topology file: /opt/topo.xml" out
'
test_expect 'a topology file that cannot be understood: not certain, and why; one that is not there: passed over' '
    echo "<system><cpu>" >"$dgx/opt/topo.xml" && env_json && says "not c[\"certain\"] and \"line 2\" in c[\"doubts\"][0]" &&
    rm "$dgx/opt/topo.xml" && env_json && says "c[\"certain\"] and \"NCCL goes on without it\" in \" \".join(c[\"notes\"])"
'
test_expect 'NCCL_TOPO_FILE given by -e was not read: not certain' '
    env_json -e NCCL_TOPO_FILE=/somewhere.xml && says "not c[\"certain\"] and \"/somewhere.xml\" in c[\"doubts\"][0]"
'

# ---- gather
test_expect 'gather keeps them: the capture says the same, and no secret of the file' '
    printf "NCCL_COMM_ID=198.51.100.7:29500\nPASSWORD=secret\nNCCL_TOPO_FILE=/opt/topo.xml\n" | conf &&
    topo "$far" >"$dgx/opt/topo.xml" && : >"$dgx/opt/hpcx/lib/libnccl-net.so" &&
    stoker gather --root "$dgx" --force cap.tar >/dev/null && stoker detect --root cap.tar --json >json &&
    python3 -c "
import json
n = json.load(open(\"json\"))[\"nccl\"]
assert n[\"net_plugin\"] == \"/opt/hpcx/lib/libnccl-net.so\", n
assert n[\"topo_file\"] == \"/opt/topo.xml\" and n[\"topo_error\"] is None and n[\"topo\"], n
assert [v[\"name\"] for v in n[\"conf\"]] == [\"NCCL_COMM_ID\", \"NCCL_TOPO_FILE\"], n
assert \"198.51.100.7\" not in n[\"conf\"][0][\"value\"], n
" && tar -xOf cap.tar etc/nccl.conf >file && ! grep -q secret file && grep -q NCCL_COMM_ID file
'

# ---- Grace: the chip-to-chip link by version, NVLink to other machines
"$TOP/tests/machines/build.py" --dir "$TMP/dirs" gh200 gb200 >/dev/null
gh=$TMP/dirs/gh200 gb=$TMP/dirs/gb200
# nccl VERSION: the one that gh200 has
nccl() {
    (cd "$gh/usr/lib/aarch64-linux-gnu" && : >"libnccl.so.$1" && ln -sf "libnccl.so.$1" libnccl.so.2)
    dgx=$gh
}
c2c() { # USE PATH: of the GPU and mlx5_0
    says "[(g[\"use\"], g[\"path\"]) for g in c[\"gpudirect\"] if g[\"device\"] == \"mlx5_0\"] == [($1, \"$2\")]"
}
test_expect 'GH200, NCCL 2.25: no way over the link but by level' '
    nccl 2.25.1 && env_json && c2c False PHB && says "env[\"NCCL_NET_GDR_LEVEL\"][\"value\"] == \"PHB\"" &&
    says "\"NCCL_NET_GDR_C2C\" not in env"
'
test_expect 'GH200, NCCL 2.26: off by default, no level P2C, told to turn it on' '
    nccl 2.26.2 && env_json && c2c False PHB && says "env[\"NCCL_NET_GDR_C2C\"][\"value\"] == \"1\"" &&
    says "env[\"NCCL_NET_GDR_LEVEL\"][\"kind\"] == \"unset\"" && env_json -e NCCL_NET_GDR_C2C=1 && c2c True PHB
'
test_expect 'GH200, NCCL 2.27: on by default at P2C, whatever level beyond C2C is set' '
    nccl 2.27.3 && env_json && c2c True P2C && says "env[\"NCCL_NET_GDR_C2C\"][\"kind\"] == \"unset\"" &&
    env_json -e NCCL_NET_GDR_LEVEL=PIX && c2c True P2C && env_json -e NCCL_NET_GDR_LEVEL=LOC && c2c False P2C &&
    env_json -e NCCL_NET_GDR_C2C=0 && c2c False P2C
'
test_expect 'GH200, NCCL 2.28 and 2.29: a nearer level turns it off from 2.29 on, a farther one on without NCCL_NET_GDR_C2C' '
    nccl 2.28.9 && env_json -e NCCL_NET_GDR_LEVEL=PIX && c2c True P2C &&
    env_json -e NCCL_NET_GDR_C2C=0 -e NCCL_NET_GDR_LEVEL=PHB && c2c True P2C &&
    nccl 2.29.2 && env_json && c2c True P2C && env_json -e NCCL_NET_GDR_LEVEL=PIX && c2c False P2C &&
    env_json -e NCCL_NET_GDR_C2C=0 -e NCCL_NET_GDR_LEVEL=PHB && c2c True P2C
'
test_expect 'GH200: of two NICs at the processor the slower one is P2C up to 2.28 only' '
    rate=$(echo "$gh"/sys/class/infiniband/mlx5_0/ports/1/rate) && cp "$rate" saved && echo "100 Gb/sec (2X HDR)" >"$rate" &&
    nccl 2.28.9 && env_json && c2c True P2C && nccl 2.29.2 && env_json && c2c False PHB &&
    nccl 2.30.4 && env_json && c2c False PHB && env_json -e NCCL_IB_HCA==mlx5_0 && c2c True P2C; rc=$?
    cp saved "$rate" && return $rc
'
test_expect 'the NIC check does not warn about NICs at the processor; NUMA nodes without CPUs are one line' '
    stoker detect --root "$gh" --check rdma >out; ! grep -q "WARN.*NIC near GPU" out &&
    stoker detect --root "$gb" >out && grep -q "32 NUMA nodes without CPUs: 4 with memory, 740 GiB" out &&
    test "$(grep -c "NUMA [0-9]*: CPUs" out)" = 2
'
test_expect 'remedies fit Arm: no BIOS, no iommu=pt' '
    stoker detect --root "$gb" --check all >out; grep -q "iommu.passthrough=1" out && ! grep -qE "[^V]BIOS|iommu=pt" out
'
test_expect 'the picture draws the link between GPU and processor where there is one' '
    for m in "$gh" "$gb"; do stoker detect --root "$m" --svg pic.svg && grep -q "class=\"c2c\"" pic.svg && grep -q ">NVLink-C2C<" pic.svg || exit 1; done
    stoker detect --root "$TMP/dirs/dgx-h100" --svg pic.svg && ! grep -q C2C pic.svg
'
dgx=$gb
test_expect 'NVLink to other machines: on with nvidia-imex, and on the page' '
    env_json && says "c[\"mnnvl\"] == \"on\" and \"clique 1\" in c[\"mnnvl_why\"]" &&
    stoker detect --root "$gb" >out && grep -q "NVLink to other machines: on" out && grep -q "nvidia-imex running for 18" out &&
    env_json -e NCCL_MNNVL_ENABLE=0 && says "c[\"mnnvl\"] == \"off\""
'
# ---- NVLink to other machines
"$TOP/tests/machines/build.py" --dir "$TMP/tray" gb200 >/dev/null
tray=$TMP/tray/gb200
tray_json() {
    stoker detect --root "$tray" --env --json "$@" >json
}
test_expect 'NVLink to other machines: direct copies turned off turn it off from 2.27 on' '
    tray_json && says "c[\"mnnvl\"] == \"on\"" && tray_json -e NCCL_P2P_DISABLE=1 && says "c[\"mnnvl\"] == \"off\"" &&
    tray_json -e NCCL_P2P_LEVEL=LOC && says "c[\"mnnvl\"] == \"off\"" &&
    tray_json -e NCCL_P2P_DISABLE=1 -e NCCL_MNNVL_ENABLE=1 && says "c[\"mnnvl\"] == \"on\"" &&
    { stoker detect --root "$tray" --env=full >full 2>err; grep "^export NCCL_MNNVL_ENABLE=2" full; }
'
# What starts jobs here decides whether a job has what the host has not.
daemons() { # the machine's processes: NAME …
    python3 - "$tray/stoker/self.json" "$@" <<'PY'
import json, sys
path, names = sys.argv[1], sys.argv[2:]
d = json.load(open(path))
d["daemons"], d["host_pids"] = names, "hidden" not in names
json.dump(d, open(path, "w"))
PY
}
variables() { # the environment of the capture: NAME=value …
    python3 - "$tray/stoker/self.json" "$@" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
d["env"] = [dict(zip(("name", "value"), v.split("=", 1))) for v in sys.argv[2:]]
json.dump(d, open(sys.argv[1], "w"))
PY
}
fails() {
    tray_json && says "c[\"mnnvl\"] == \"fails\" and env[\"NCCL_MNNVL_ENABLE\"][\"value\"] == \"0\"" &&
        says "\"in a job of several machines\" in c[\"mnnvl_why\"]" && says "\"$1\" in c[\"mnnvl_why\"]"
}
not_certain() {
    tray_json && says "c[\"mnnvl\"] is None and env[\"NCCL_MNNVL_ENABLE\"][\"value\"] is None and not c[\"certain\"]" &&
        says "any(\"$1\" in d and \"$2\" in d for d in c[\"doubts\"])" &&
        stoker detect --root "$tray" --env >text && grep -q "^# Not certain:" text && ! grep -q "^export NCCL_MNNVL" text &&
        says "not \"as far as\" in env[\"NCCL_IB_HCA\"][\"reason\"]"
}
rm -r "$tray/dev/nvidia-caps-imex-channels"
test_expect 'no IMEX channel on a host that starts no jobs for others: it fails' '
    daemons nvidia-imex dockerd && fails "there is no /dev/nvidia-caps-imex-channels" &&
    mkdir "$tray/dev/nvidia-caps-imex-channels" && fails "there is no channel in" &&
    daemons dockerd && fails "nvidia-imex does not run"
'
test_expect 'no IMEX channel on the host of a workload manager: left unset, and not certain' '
    daemons nvidia-imex slurmd && not_certain "there is no channel in" slurmd &&
    rmdir "$tray/dev/nvidia-caps-imex-channels" && daemons nvidia-imex kubelet && not_certain "there is no /dev" kubelet &&
    daemons slurmd && not_certain "nvidia-imex does not run" slurmd &&
    daemons k3s && not_certain "nvidia-imex does not run" k3s && daemons pbs_mom && not_certain "does not run" pbs_mom &&
    daemons hidden && not_certain "there is no /dev" "does not show"
'
test_expect 'in the step of a job, or in its pod, what is here is what the job has' '
    daemons slurmd && variables SLURM_JOB_ID=7 && not_certain "does not run" slurmd &&
    variables SLURM_JOB_ID=7 SLURM_STEP_ID=0 && fails "nvidia-imex does not run" &&
    daemons hidden && variables KUBERNETES_SERVICE_HOST=10.0.0.1 && fails "there is no /dev" &&
    daemons kubelet && not_certain "does not run" kubelet
'
test_expect 'channels and nvidia-imex on the host of a workload manager: on' '
    mkdir -p "$tray/dev/nvidia-caps-imex-channels" && : >"$tray/dev/nvidia-caps-imex-channels/channel0" &&
    daemons slurmd nvidia-imex && variables && tray_json && says "c[\"mnnvl\"] == \"on\" and c[\"certain\"]"
'
test_done
