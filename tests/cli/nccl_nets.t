#!/bin/sh
# SPDX-License-Identifier: MIT
# What is said of NCCL by the machine's network interfaces (tests/machines/nets.py): the one it
# starts over, those that carry data, and variables that leave none.
. "$(dirname "$0")/lib.sh"
. "$TOP/tests/cli/nccl_lib.sh"

tars=$TMP/tars
"$TOP/tests/machines/nets.py" "$tars" || {
    echo "Bail out! the machines could not be built"
    exit 1
}
warned() { # TEXT on stderr, which is wrapped
    tr '\n' ' ' <err | grep -qF -- "$1" || {
        echo "no warning: $1"
        cat err
        return 1
    }
}

# ---- interfaces that lead nowhere, by release
test_expect 'before 2.28 NCCL takes an interface without a link; the one to the others is named' "
    env_of nolink-227 && sets NCCL_SOCKET_IFNAME =eno2 && says 'NCCL would take eno1, which has no link' &&
    json_of nolink-227 'c[\"socket_interface\"] == \"eno1\"' && flat_of nolink-227 && says 'Bootstrap: eno1' &&
    flat_of nolink-227 --check container && says 'no other node can be reached by it: it has no link'
"
test_expect 'from 2.28 on it does not, and nothing is named' "
    env_of nolink-228 && sets NCCL_SOCKET_IFNAME '' && json_of nolink-228 'c[\"socket_interface\"] == \"eno2\"'
"
test_expect 'without RDMA it is kept from data, too, whatever its place' "
    env_of nolink-tcp && sets NCCL_SOCKET_IFNAME =eno2 &&
    env_of nolink-after && sets NCCL_SOCKET_IFNAME =eno1 && says 'eno2 (no link)'
"
test_expect 'virbr is left out by NCCL from 2.28 on only' "
    env_of virbr-227 && sets NCCL_SOCKET_IFNAME =eno2 && says 'NCCL would take virbr0' &&
    env_of virbr-228 && sets NCCL_SOCKET_IFNAME ''
"

# ---- variables that leave no interface
test_expect 'NCCL_SOCKET_FAMILY without such an address: NCCL stops, and only that is to blame' "
    env_of front-nic -e NCCL_SOCKET_FAMILY=AF_INET6 && sets NCCL_SOCKET_IFNAME '' && says 'leaves no interface' &&
    warned 'error: NCCL_SOCKET_FAMILY=AF_INET6' && sets NCCL_IB_HCA =mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1 &&
    flat_of front-nic -e NCCL_SOCKET_FAMILY=AF_INET6 && says 'PROBLEM: NCCL stops at start-up' && hides 'is known' &&
    flat_of front-nic -e NCCL_SOCKET_FAMILY=AF_INET6 --check container && says 'FAIL network' && says 'Unset NCCL_SOCKET_FAMILY' &&
    env_of front-nic -e NCCL_SOCKET_FAMILY=AF_INET && ! grep -q FAMILY err
"
test_expect 'NCCL_SOCKET_FAMILY that leaves a link-local address is a warning' "
    env_of six-local -e NCCL_SOCKET_FAMILY=AF_INET6 && warned 'starts over eno1 fe80::5eff:35ff:fee2:49a, which is link-local' &&
    env_of six-local && ! grep -q FAMILY err
"
test_expect 'NCCL_SOCKET_FAMILY that leaves the loopback is a warning, of the check too' "
    env_of six-only -e NCCL_SOCKET_FAMILY=AF_INET && warned 'starts over lo, and no other node can be reached by it' &&
    flat_of six-only -e NCCL_SOCKET_FAMILY=AF_INET --check container && says 'WARN network' && says 'Unset NCCL_SOCKET_FAMILY.' &&
    env_of six-only && ! grep -q FAMILY err && flat_of six-only --check container && says 'PASS network'
"
test_expect 'NCCL_SOCKET_IFNAME that matches nothing: the ports are not blamed, nothing goes over TCP' "
    env_of front-nic -e NCCL_SOCKET_IFNAME=eth9 -e NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3 && ! grep -q NCCL_IB_HCA err &&
    warned 'NCCL fails at start-up' && hides 'goes over TCP' &&
    env_of front-nic -e NCCL_SOCKET_IFNAME=eth9 -e NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3 --env=full &&
    sets NCCL_IB_DISABLE 0 && sets STOKER_TRANSPORT rdma &&
    env_of front-nic -e NCCL_SOCKET_IFNAME=eth9 && sets NCCL_IB_HCA =mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1 &&
    env_of nolink-tcp -e NCCL_SOCKET_IFNAME=eth9 && hides 'goes over TCP'
"

# ---- NCCL_COMM_ID decides on the start alone
test_expect 'with NCCL_COMM_ID bootstrap goes by the subnet of its address only' "
    json_of front-nic 'c[\"socket_interface\"] == \"eth_8\" and c[\"wire_interface\"] == \"eth_0\"' \
        -e NCCL_COMM_ID=10.20.9.9:1234 -e NCCL_SOCKET_IFNAME=eth_0 &&
    env_of front-nic -e NCCL_COMM_ID=10.20.9.9:1234 -e NCCL_SOCKET_IFNAME=eth_0 && warned 'is an RDMA rail' &&
    env_of ipoib -e NCCL_COMM_ID=10.10.9.9:1234 && says 'start over eno1 by NCCL_COMM_ID, but connect its NICs over ib0' &&
    sets NCCL_SOCKET_IFNAME =eno1 && json_of ipoib 'c[\"socket_interface\"] == \"ib0\"' &&
    flat_of ipoib -e NCCL_COMM_ID=10.10.9.9:1234 && says 'Bootstrap: eno1 10.10.0.17'
"
test_expect 'an address in no subnet of this machine stops NCCL' "
    env_of front-nic -e NCCL_COMM_ID=10.55.0.1:1234 && warned 'error: NCCL_COMM_ID=10.55.0.1:1234: No interface is in the subnet' &&
    flat_of front-nic -e NCCL_COMM_ID=10.55.0.1:1234 && says 'PROBLEM: NCCL stops at start-up'
"

test_expect 'a host name in NCCL_COMM_ID: what NCCL starts over is not told, and it is not certain' "
    json_of front-nic 'c[\"socket_interface\"] is None and not c[\"certain\"] and c[\"transport\"] == \"rdma\"' -e NCCL_COMM_ID=node1:1234 &&
    env_of front-nic -e NCCL_COMM_ID=node1:1234 && says 'Not certain: NCCL_COMM_ID names node1, which is not looked up' &&
    flat_of front-nic -e NCCL_COMM_ID=node1:1234 && says 'Bootstrap: unknown.' &&
    json_of front-nic 'c[\"certain\"] and c[\"socket_interface\"] == \"lo\"' -e NCCL_COMM_ID=localhost:1234
"
test_expect 'text in NCCL_COMM_ID that NCCL stops at, or cannot meet by' "
    for v in : '[fd00::1:1234' x ''; do
        env_of front-nic -e NCCL_COMM_ID=\$v && warned 'error: NCCL_COMM_ID=' && json_of front-nic 'c[\"transport\"] == \"fails\"' -e NCCL_COMM_ID=\$v || exit 1
    done
    env_of front-nic -e NCCL_COMM_ID=garbage && warned 'error: NCCL_COMM_ID=garbage: It has no port' &&
    env_of front-nic -e NCCL_COMM_ID=fd00::1:1234 && warned \"looks 'fd00' up\" &&
    env_of front-nic -e NCCL_COMM_ID=127.0.0.1:99 && warned 'starts over the loopback' &&
    flat_of front-nic -e NCCL_COMM_ID=127.0.0.1:99 --check container && says 'WARN network' && says 'it is the loopback' && says 'Give NCCL_COMM_ID the address' &&
    json_of six-local 'c[\"socket_interface\"] == \"eno1\" and c[\"certain\"]' -e 'NCCL_COMM_ID=[fe80::9%eno1]:99' &&
    env_of front-nic -e NCCL_COMM_ID=10.20.9.9:1234 && ! grep -q COMM_ID err
"
test_expect 'where NCCL_COMM_ID stops NCCL, NCCL_SOCKET_IFNAME is not called the cure' "
    env_of front-nic -e NCCL_COMM_ID=10.55.0.1:1234 && says 'stop over NCCL_COMM_ID as it is' &&
    flat_of front-nic -e NCCL_COMM_ID=10.55.0.1:1234 --check rdma && says 'FAIL NCCL start No interface is in the subnet' && test \$rc = 1
"

# ---- names, tunnels, crowds
test_expect 'a name that begins with lo or docker: the sentence is true, and what the interface is decides' "
    flat_of named-lo && hides 'Nothing but' && says 'names that begin with' && env_of named-lo && sets NCCL_SOCKET_IFNAME =lom1 &&
    env_of named-docker && sets NCCL_SOCKET_IFNAME '' && says 'dockerext0 leads to the other nodes, and NCCL takes it by itself' && hides 'cannot be told'
"
test_expect 'an interface that no other node is reached over is told by the check, and where it is set' "
    for m in virbr-227 vpn; do flat_of \$m --check container && says 'WARN network NCCL would start over' && says 'it is a virtual network' || exit 1; done
    flat_of virbr-228 --check container && says 'PASS network' &&
    env_of vpn -e NCCL_SOCKET_IFNAME=tailscale0 && warned 'tailscale0 is a tunnel or another virtual network' &&
    env_of nolink-227 -e NCCL_SOCKET_IFNAME==eno1 && warned 'eno1 has no link' &&
    env_of nolink-tcp -e NCCL_SOCKET_IFNAME==eno1,eno2 && warned 'eno1 has no link' &&
    env_of nolink-after -e NCCL_SOCKET_IFNAME==eno1,eno2 && warned 'also eno2 (no link)' &&
    env_of nolink-227 -e NCCL_SOCKET_IFNAME==eno2 && ! grep -q IFNAME err
"
test_expect 'more interfaces than are kept: the ways out of the machine are among them' "
    env_of crowd && sets NCCL_SOCKET_IFNAME =vlan100 && hides 'not in the inventory' &&
    env_of crowd -e NCCL_SOCKET_IFNAME==vlan100 && ! grep -q IFNAME err &&
    flat_of crowd --check container && says 'WARN network NCCL would start over cni0'
"
test_expect 'a peer may be named for --why, too' "
    flat_of front-nic --peer 10.100.1.9 --why NCCL_SOCKET_IFNAME && test \$rc = 0 && says 'The route to 10.100.1.9' &&
    flat_of front-nic --peer 10.100.1.9 --check && test \$rc = 2
"

# ---- files and ranges that are not what they are taken for
test_expect 'a topology file that is not there: NCCL goes on without, and it is a warning' "
    env_of topo-missing && warned 'warning: NCCL_TOPO_FILE=/opt/microsoft/ndv4-topo.xml: The file is not followed' &&
    hides 'Not certain' && json_of topo-missing 'c[\"certain\"] and c[\"scores\"][0][\"nccl\"][\"path\"] == \"PIX\"' &&
    env_of nolink-228 -e NCCL_TOPO_FILE=/nonexistent/x.xml && says 'where the machine has it'
"
test_expect 'a set NCCL_IB_ADDR_RANGE that holds no address is an error, and no other is taken for set' "
    env_of front-nic -e NCCL_IB_ADDR_RANGE=192.168.0.0/16 && warned 'error: NCCL_IB_ADDR_RANGE=192.168.0.0/16: It holds no address of mlx5_0' &&
    says 'NCCL_IB_ADDR_RANGE=192.168.0.0/16 is set and wins: unset it' && hides 'With NCCL_IB_ADDR_RANGE' &&
    flat_of front-nic -e NCCL_IB_ADDR_RANGE=192.168.0.0/16 --check rdma && says 'Unset NCCL_IB_ADDR_RANGE=192.168.0.0/16, or set it to' &&
    says 'none is in NCCL_IB_ADDR_RANGE=192.168.0.0/16' && env_of front-nic -e NCCL_IB_ADDR_RANGE=10.0.0.0/8 && ! grep -q ADDR_RANGE err
"
test_expect 'a range that holds the ports for training and not the front end is right' "
    env_of front-nic -e NCCL_IB_ADDR_RANGE=10.100.0.0/16 && ! grep -q ADDR_RANGE err && sets NCCL_IB_HCA =mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1
"
test_expect 'one warning for all ports of which the same is to be said' "
    env_of front-nic -e NCCL_IB_GID_INDEX=1 && test \$(grep -c 'NCCL_IB_GID_INDEX=1' err) = 1 && warned 'Entry 1 of mlx5_0, mlx5_1,'
"
test_expect 'file systems on the ports own network and a VLAN beside it: not certain, nothing is moved' "
    env_of converged && sets NCCL_IB_ADDR_RANGE '' && says 'Not certain: The addresses' && says 'set NCCL_IB_ADDR_RANGE=172.20.0.0/24 on all' &&
    flat_of converged --check rdma && hides 'mounted over'
"

# ---- NICs without an RDMA device
test_expect 'a NIC that could do RDMA: which module is missing, on the page, in --env and in the check' "
    flat_of bare-ice && says 'ens0, ens1 (ice, 100 Gb/s) could do RDMA, but there is no RDMA device, which the module irdma makes' &&
    env_of bare-ice && says 'modprobe irdma' && flat_of bare-ice --why NCCL_IB_DISABLE && says 'irdma' &&
    flat_of bare-ice --check rdma && says 'FAIL RDMA devices' && says 'modprobe irdma' && test \$rc = 1 &&
    flat_of bare-ice --check && says 'WARN RDMA devices' && env_of bare-mlx5 && says 'modprobe mlx5_ib'
"
test_expect 'a NIC that cannot: it is said, and nothing is to be loaded for it' "
    env_of bare-ena && says 'ens0, ens1 (ena) cannot do RDMA: AWS has EFA for that' && hides modprobe &&
    flat_of bare-ena --check && says 'no RDMA device here: RDMA devices' && hides 'WARN RDMA devices' && env_of bare-slow && hides 'RDMA:'
"
test_expect 'one of several that has no device, where its like have' "
    flat_of bare-one --check rdma && says 'WARN RDMA devices ens9 (mlx5_core, 200 Gb/s) could do RDMA'
"
test_expect 'a fabric that goes by a plug-in is no fault of RDMA devices' "
    flat_of slingshot --check rdma && says 'WARN RDMA devices HPE Slingshot has no RDMA device, and no net plug-in'
"
test_expect 'NCCL_SOCKET_IFNAME that takes the fast interfaces away from data is told with both figures' "
    env_of slingshot -e NCCL_SOCKET_IFNAME=eno1 && warned '1 Gb/s, where NCCL'
"
test_expect 'on each of these machines: the environment, once set, is what is printed' '
    "$TOP/tests/cli/nccl_settled.py" "$BUILD/stoker" "$tars"/*.tar
'
test_done
