#!/bin/sh
# SPDX-License-Identifier: MIT
# stoker detect --compare: what differs between machines that should be equal.
. "$(dirname "$0")/lib.sh"
python3 "$TOP/tests/machines/build.py" "$TMP/tars" dgx-h100 roce-ipv6 gpu-lost hostile >/dev/null
stoker detect --root tars/dgx-h100.tar --json >base.json
# six machines of one kind: what must differ does, and gpu5 and gpu6 have faults
cat >make.py <<'END'
import copy, json, sys
base = json.load(open("base.json"))
hosts = ["gpu%d" % i for i in range(1, 7)]
for n, host in enumerate(hosts):
    m = copy.deepcopy(base)
    m["place"]["hostname"] = host
    for i, g in enumerate(m["gpus"]):
        g.update(uuid="GPU-%d-%d" % (n, i), serial=str(1000 * n + i), temp_c=30 + n + i, power_mw=70000 + n,
                 mem_used_bytes=n << 20, clock_sm_mhz=345 + n)
    for i, d in enumerate(m["rdma"]):
        d["node_guid"] = "0000:0000:%04x:%04x" % (n, i)
        for p in d["ports"]:
            p["lid"] = 10 * n + i
            for gid in p["gids"]:
                gid["gid"] = gid["gid"][:-4] + "%04x" % (n * 16 + i)
    for i, d in enumerate(m["nets"]):
        d["mac"] = "02:00:00:00:%02x:%02x" % (n, i)
        for a in d["addrs"]:
            a["addr"] = "10.0.%d.%d" % (i, n + 1)
    m["memory"]["total_bytes"] -= 8192 * n
    m["memory"]["available_bytes"] = 1 << (30 + n)
    if "faults" in sys.argv and host == "gpu5":
        m["gpus"][3]["vbios"] = "96.00.5E.00.03"
        m["gpus"][6]["pcie_width"] = 8
        m["place"]["kernel"] = "5.15.0-9999"
        m["rdma"][5]["ports"][0]["rate"] = "200 Gb/sec (4X HDR)"
        m["limits"]["cmdline"] = m["limits"]["cmdline"].replace("pci=realloc=off", "nosmt=force")
        m["mounts"] = [x for x in m["mounts"] if x["target"] != "/home"]
        [x for x in m["nets"] if x["kind"] == "bond"][0]["mtu"] = 1500
    if "faults" in sys.argv and host in ("gpu5", "gpu6"):
        m["rdma"][0]["firmware"] = "28.36.1010"
        [x for x in m["software"] if x["name"] == "nccl"][0]["version"] = "2.19.3"
    if "tie" in sys.argv and n >= 3:
        m["nvidia"]["driver_version"] = "535.1"
    json.dump(m, open("%s/%s.json" % (sys.argv[1], host), "w"))
END
for d in same faults tie; do mkdir $d && python3 make.py $d $d; done

test_expect 'long values are cut where they are the same, and no limit is unlimited' '
    mkdir long && python3 -c "
import json
for n in range(1, 4):
    m = json.load(open(\"same/gpu%d.json\" % n))
    [x for x in m[\"software\"] if x[\"name\"] == \"nccl\"][0][\"path\"] = \"/usr/lib/x86_64-linux-gnu/libnccl.so.2.2%d\" % (6 if n == 3 else 7)
    m[\"limits\"][\"memlock_bytes\"] = 65536 if n == 3 else -1
    json.dump(m, open(\"long/gpu%d.json\" % n, \"w\"))
" && stoker detect --compare long >out; test $? = 1 && grep -q "libnccl.so.2.27 (2) .*libnccl.so.2.26: gpu3" out &&
    grep -q "limits.memlock_bytes  *unlimited (2)  *64 KiB: gpu3" out
'
test_expect 'a GPU in another NVLink clique differs' '
    python3 -c "
import json
for n, clique in ((1, 32766), (2, 2)):
    m = json.load(open(\"same/gpu%d.json\" % n))
    for g in m[\"gpus\"]:
        g[\"fabric_clique\"] = 32766
    m[\"gpus\"][3][\"fabric_clique\"] = clique
    json.dump(m, open(\"clique%d.json\" % n, \"w\"))" &&
    ! stoker detect --compare clique1.json clique2.json >out && grep -q "fabric_clique" out
'
test_expect 'machines that differ in addresses, serials and temperatures are equal: exit 0' '
    stoker detect --compare same/gpu1.json same/gpu2.json same/gpu3.json >out && grep -q "3 machines are equal in all of" out &&
    stoker detect --compare same >out && grep -q "6 machines are equal" out &&
    stoker detect --compare --json same >out && python3 -c "
import json
d = json.load(open(\"out\"))
assert d[\"schema\"] == \"stoker.compare/1\" and d[\"equal\"] is True and len(d[\"machines\"]) == 6
assert d[\"groups\"][0][\"differences\"] == [] and d[\"groups\"][0][\"values\"] > 1000"'

test_expect 'what differs: majority, outliers by name, exit 1' '
    stoker detect --compare faults >out; test $? = 1 &&
    grep -q "^gpus.vbios 3 .* (5) .* 96.00.5E.00.03: gpu5" out && grep -q "^gpus.pcie_width 6  *16 (5)  *8: gpu5" out &&
    grep -q "^place.kernel .*5.15.0-9999: gpu5" out && grep -q "^limits.cmdline nosmt  *missing (5)  *force: gpu5" out &&
    grep -q "^limits.cmdline pci .*missing: gpu5" out && grep -q "^mounts /home .*missing: gpu5" out &&
    grep -q "^rdma.ports.rate mlx5_5/1 .*200 Gb/sec (4X HDR): gpu5" out && grep -q "^nets.mtu bond0 .*1500: gpu5" out &&
    grep -q "^rdma.firmware mlx5_0 .*28.36.1010: gpu\[5-6\]" out && grep -q "^software.version nccl .*2.19.3: gpu\[5-6\]" out &&
    test "$(grep -c gpu5 out)" = 8 && test "$(grep -c "gpu\[5-6\]" out)" = 2'
test_expect 'fewest odd machines first' '
    stoker detect --compare faults >out; test "$(sed -n "s/:.*gpu5$/one/p; s/.*gpu\[5-6\]$/two/p" out | tail -1)" = two'
test_expect 'JSON has each difference with its machines' '
    { stoker detect --compare --json faults >out; test $? = 1; } && python3 -c "
import json
d = json.load(open(\"out\"))
x = {(y[\"field\"], y[\"item\"]): y for y in d[\"groups\"][0][\"differences\"]}
v = x[(\"gpus.vbios\", \"3\")]
assert d[\"equal\"] is False and len(x) == 10, len(x)
assert v[\"majority\"] and v[\"values\"][0][\"count\"] == 5 and v[\"values\"][0][\"machines\"] is None
assert v[\"values\"][1][\"machines\"] == [\"gpu5\"] and v[\"meaning\"] == \"VBIOS version\", v
assert x[(\"mounts\", \"/home\")][\"values\"][1][\"is\"] == \"missing\"
"'
test_expect 'a tie is no majority' '
    stoker detect --compare tie >out; test $? = 1 && grep -q "^nvidia.driver_version  *-  *no majority: .*gpu\[4-6\].*gpu\[1-3\]" out'
test_expect 'captures, folders and inventories side by side; names of files where host names are the same' '
    cp tars/dgx-h100.tar a.tar && cp base.json b.json && mkdir c && tar -C c -xf a.tar &&
    { stoker detect --compare a.tar b.json c >out || { cat out; exit 1; }; } && grep -q "3 machines are equal" out &&
    stoker detect --compare --json a.tar b.json c | grep -c "\"name\": \"[abc]\"" | grep -qx 3'
test_expect 'a lost GPU beside whole machines is one machine, and few lines' '
    stoker detect --root tars/gpu-lost.tar --json >lost.json && python3 -c "
import json
m = json.load(open(\"lost.json\"))
for g in m[\"gpus\"]:
    g.update({k: v for k, v in m[\"gpus\"][0].items() if k not in (\"bdf\", \"numa\", \"cpus\", \"index\", \"minor\")})
for n in (1, 2):
    m[\"place\"][\"hostname\"] = \"good%d\" % n
    for i, d in enumerate(m[\"gpus\"]): d[\"uuid\"] = \"GPU-%d-%d\" % (n, i)
    for i, d in enumerate(m[\"rdma\"]): d[\"node_guid\"] = \"%d:%d\" % (n, i)
    for i, d in enumerate(m[\"nets\"]):
        d[\"mac\"] = \"02:%02x:%02x\" % (n, i)
        for a in d[\"addrs\"]: a[\"addr\"] = a[\"addr\"][:-1] + str(n)
    json.dump(m, open(\"good%d.json\" % n, \"w\"))" &&
    { stoker detect --compare good1.json good2.json lost.json >out; test $? = 1; } && grep -q "^gpus.state 3  *ok (2)  *lost" out &&
    grep -q "unknown: h100-r07n3 (gpus" out && test "$(wc -l <out)" -lt 12'

# ---- rails: which port is in which subnet, and what only one machine may have
cat >rails.py <<'END'
import copy, json, sys
base = json.load(open("base.json"))
def machine(name, nets, own=True):
    m = copy.deepcopy(base); n = int(name[-1]); m["place"]["hostname"] = name
    for i, g in enumerate(m["gpus"]): g["uuid"] = "GPU-%d-%d" % (n, i)
    for i, d in enumerate(m["rdma"]): d["node_guid"] = "0001:0000:%04x:%04x" % (n, i)
    rails = iter(nets)
    for i, d in enumerate(m["nets"]):
        d["mac"] = "06:00:00:00:%02x:%02x" % (n, i)
        d["addrs"] = [{"family": "inet", "addr": "172.17.0.1", "prefix": 16}] if d["kind"] == "bridge" else []
        if d["rdma"]:
            ip, bits = next(rails).split("/")
            d["addrs"] = [{"family": "inet", "addr": ip, "prefix": int(bits)}]
    json.dump(m, open(name + ".json", "w"))
count = len([d for d in base["nets"] if d["rdma"]])
for n in range(1, 5):
    machine("rail%d" % n, ["10.%d.0.%d/24" % (100 + i, n) for i in range(count)])
    machine("flat%d" % n, ["10.9.%d.%d/16" % (i, n) for i in range(count)])
    machine("node%d" % n, ["10.%d.%d.1/24" % (n, i) for i in range(count)])
    machine("link%d" % n, ["10.7.%d.%d/31" % (i, 2 * n) for i in range(count)])
cross = ["10.%d.0.5/24" % (100 + i) for i in range(count)]
cross[-1], cross[-2] = cross[-2], cross[-1]
machine("cross5", cross)
machine("twice6", ["10.%d.0.%d/24" % (100 + i, 1 if i == 2 else 6) for i in range(count)])
END
python3 rails.py
test_expect 'crossed rails are a difference, with the ports by subnet' '
    { stoker detect --compare rail1.json rail2.json rail3.json cross5.json >out; test $? = 1; } &&
    test "$(grep -c "^rdma.subnets" out)" = 2 && grep -q "^rdma.subnets 10.1[0-9]*.0.0/24  *mlx5_1[01] (3)  *mlx5_1[01]: cross5" out'
test_expect 'no alarm for rails as they should be, one subnet for all, subnets by node, links of two' '
    for k in rail flat node link; do stoker detect --compare ${k}1.json ${k}2.json ${k}3.json ${k}4.json >out || { cat out; exit 1; }; done'
test_expect 'an address that two machines have is told, in JSON too; one of a bridge of containers is not' '
    { stoker detect --compare rail1.json rail2.json twice6.json >out; test $? = 1; } && grep -q "^1 value that only one" out &&
    grep -q "^nets.addrs.addr  *10.102.0.1 .*rail1, twice6" out &&
    { stoker detect --compare --json rail1.json rail2.json twice6.json >out; test $? = 1; } && python3 -c "
import json
g = json.load(open(\"out\"))[\"groups\"][0]
assert g[\"differences\"] == [] and g[\"masked\"] == 0, g
assert g[\"twins\"] == [{\"field\": \"nets.addrs.addr\", \"value\": \"10.102.0.1\", \"machines\": [\"rail1\", \"twice6\"]}], g[\"twins\"]"'
test_expect 'a GUID that two machines have is told' '
    python3 -c "
import json
m = json.load(open(\"rail2.json\")); m[\"rdma\"][3][\"node_guid\"] = json.load(open(\"rail1.json\"))[\"rdma\"][3][\"node_guid\"]
json.dump(m, open(\"guid.json\", \"w\"))" && { stoker detect --compare rail1.json guid.json >out; test $? = 1; } && grep -q "^rdma.node_guid .*rail\[1-2\]" out'
test_expect 'masked captures are not judged by their addresses, and the answer says so' '
    python3 -c "
import json
for n, f in ((1, \"rail1\"), (2, \"cross5\")):
    m = json.load(open(f + \".json\")); m[\"place\"][\"hostname\"] = \"host-%d\" % n
    for i, g in enumerate(m[\"gpus\"]): g[\"uuid\"] = \"GPU-%08x-0000-4000-8000-000000000000\" % i
    json.dump(m, open(\"masked%d.json\" % n, \"w\"))" &&
    stoker detect --compare masked1.json masked2.json >out && grep -q "^Masked: 2 of them" out'

# ---- beside a spec
cat >site.yaml <<'END'
schema: stoker.spec/1
site: {name: lab}
nodes:
  - name: gpu
    count: 8
    gpus_per_node: 8
    gpu: {model: H100, link: nvlink4}
    cpu_cores: 112
    memory: 2TiB
    fabrics: [ib]
  - name: old
    count: 2
    gpus_per_node: 4
    gpu: {model: A100}
    memory: 1TiB
fabrics:
  - {name: ib, kind: infiniband, rate: 400Gb/s, nics_per_node: 2, hcas: [mlx5_0, mlx5_3]}
END
test_expect '--nodes: machines as the spec says: exit 0' '
    stoker detect --compare --nodes site.yaml same >out || { cat out; exit 1; }; grep -q "^Group gpu: 6 of 8 machines" out'
test_expect '--nodes: contradictions with the line of the spec' '
    sed "s/gpus_per_node: 8/gpus_per_node: 7/; s/memory: 2TiB/memory: 4TiB/; s/model: H100/model: H200/; s/mlx5_3/mlx5_33/" site.yaml >wrong.yaml &&
    { stoker detect --compare --nodes wrong.yaml same >out; test $? = 1; } &&
    grep -q "^wrong.yaml:6:20 .*GPUs .*7 .*8: gpu\[1-6\]" out && grep -q "^wrong.yaml:7:.*GPU model .*H200 .*NVIDIA H100 80GB HBM3: gpu\[1-6\]" out &&
    grep -q "^wrong.yaml:9:.*memory .*4TiB" out && grep -q "^wrong.yaml:17:.*RDMA device mlx5_33 .*missing: gpu" out'
test_expect '--nodes: another link layer, and a machine that no group lists' '
    sed "s/kind: infiniband/kind: roce/; s/, hcas: .*]//; s/node: 2/node: 8/" site.yaml >roce.yaml && sed "s/gpu1/login1/" same/gpu1.json >login.json &&
    { stoker detect --compare --nodes roce.yaml login.json same/gpu2.json --json >out; test $? = 1; } && python3 -c "
import json
c = json.load(open(\"out\"))[\"contradictions\"]
assert any(x[\"what\"] == \"host name\" and x[\"machines\"] == [\"login1\"] and x[\"line\"] for x in c), c
assert any(x[\"what\"] == \"RDMA ports\" and x[\"spec\"] == \"8\" for x in c), c
"'
test_expect '--nodes alone: this machine' '
    stoker detect --compare --nodes site.yaml >out; test $? -le 1 && grep -q "none lists it" out'
test_expect 'a host name with its domain is of the group' '
    sed "s/\"gpu1\"/\"gpu1.example.org\"/" same/gpu1.json >long.json && stoker detect --compare --nodes site.yaml long.json same/gpu2.json >out'

# ---- limits and mistakes
usage() {
    stoker detect "$@" >out 2>err
    test $? = 2 && test ! -s out && test -s err
}
test_expect 'mistakes on the command line' '
    usage --compare && usage --compare base.json && usage --nodes site.yaml && usage --compare --topo a.tar b.json &&
    usage --compare --root a.tar b.json && usage base.json && grep -q "compare" err'
test_expect 'a file that is no machine is named' '
    echo "{}" >none.json && { stoker detect --compare base.json none.json 2>err; test $? != 0; } && grep -q "none.json" err &&
    { stoker detect --compare base.json nowhere.tar 2>err; test $? = 3; } && grep -q nowhere err &&
    mkdir -p empty && { stoker detect --compare empty 2>err; test $? = 3; } && grep -q "no capture" err'
test_expect 'one that cannot be read: the others are compared, it is named, and the exit is its' '
    head -c 20000 a.tar >cut.tar && { stoker detect --compare a.tar cut.tar b.json >out 2>err; test $? = 1; } && cat out err && test -s out && grep -q "cut.tar" err && ! grep -q cut out &&
    { stoker detect --compare a.tar nowhere.tar cut.tar b.json >out 2>err; test $? = 3; } && test -s out && grep -q "2 machines could not be read, the first: .*nowhere.tar" err &&
    { stoker detect --compare a.tar cut.tar >out 2>err; test $? = 1; } && test ! -s out'
test_expect 'more machines than 4096: exit 4' '
    yes nowhere | head -4097 >list; "$BUILD/stoker" detect --compare $(cat list) 2>err; test $? = 4 && grep -q "4096" err'
test_expect 'a hostile machine among others ends well' '
    stoker detect --compare tars/hostile.tar a.tar tars/hostile.tar >out; test $? = 1'
test_done
