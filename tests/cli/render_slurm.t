#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker render slurm`: the files of the examples hold what the spec says, slurmd reads them,
# shellcheck has nothing to say about the scripts, what Slurm cannot hold is refused at line and
# column, and the batch scripts do their part with stand-ins for srun and scontrol.
. "$(dirname "$0")/lib.sh"

PATH=$PATH:/usr/sbin:/sbin
for e in ai-platform-h200 driving-h200 kb-a100 llm-cluster rdma-openshift; do
    stoker spec example "$e" >"$e.yaml" && stoker render slurm -f "$e.yaml" -o "$e" >/dev/null
done
L=llm-cluster/slurm

# at LINE COLUMN FILE: the refusal in ./err stands there
at() { grep -q "^$3:$1:$2: " err || { cat err; return 1; }; }
# refused NAME WORDS…: render fails, says so, and writes nothing
refused() {
    file=$1
    shift
    rm -rf nothing
    stoker render slurm -f "$file" -o nothing >out 2>err && return 1
    test ! -e nothing && grep -q -- "$*" err || { cat err; return 1; }
}
# spec of one node group; what follows is appended
site() {
    cat >site.yaml <<END
schema: stoker.spec/1
nodes:
  - {name: gpu, count: 4, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TB}
$1
END
}
one() { site "$1" && rm -rf one && stoker render slurm -f site.yaml -o one >/dev/null; }
# edit SED: the example with a change
edit() { sed "$1" llm-cluster.yaml >edited.yaml && ! cmp -s llm-cluster.yaml edited.yaml; }
line() { grep -n -m1 -- "$1" "$2" | cut -d: -f1; }

test_expect 'every example has the files of a cluster' '
    for e in ai-platform-h200 driving-h200 kb-a100 llm-cluster rdma-openshift; do
        for f in slurm.conf gres.conf cgroup.conf slurmdbd.conf prolog.sh epilog.sh healthcheck.sh \
            accounts.sh commands.md; do
            test -s "$e/slurm/$f" || { echo "$e/slurm/$f"; exit 1; }
        done
    done
'
test_expect 'the same spec gives the same bytes' '
    stoker render slurm -f llm-cluster.yaml -o again && diff -r llm-cluster again
'
test_expect 'slurm.conf: machines, GPUs, partitions, each with its place in the spec' '
    grep -q "^# gpu: 64 machines, nodes\[0\].name;" $L/slurm.conf &&
    grep -qx "NodeName=gpu\[1-64\] Sockets=2 CoresPerSocket=56 ThreadsPerCore=2 RealMemory=1831055 Gres=gpu:h100:8 Feature=gpu,owned,h100 Weight=6 State=UNKNOWN" $L/slurm.conf &&
    grep -q "^NodeName=spot\[1-8\] .* Gres=gpu:h100:8 Feature=spot,h100 .* State=CLOUD$" $L/slurm.conf &&
    grep -qx "PartitionName=train Nodes=gpu\[1-64\] Default=YES MaxTime=7-00:00:00 DefaultTime=0-01:00:00 PriorityTier=10 PriorityJobFactor=10 DefMemPerCPU=8174 DefCpuPerGPU=24 DefMemPerGPU=200271 State=UP" $L/slurm.conf &&
    grep -q "^PartitionName=debug .* Default=NO MaxTime=0-04:00:00 DefaultTime=0-01:00:00 PriorityTier=20 " $L/slurm.conf &&
    ! grep -q "^NodeName=login\|^NodeName=ctl" $L/slurm.conf
'
test_expect 'slurm.conf: scheduling, priority, preemption, accounting' '
    grep -q "bf_interval targets.slurm.backfill.interval" $L/slurm.conf &&
    grep -q "^SchedulerParameters=.*bf_interval=30,bf_window=10080,bf_resolution=300,bf_max_job_test=1000" $L/slurm.conf &&
    grep -q "^PriorityWeightFairshare=10000 *# targets.slurm.priority.fair_share$" $L/slurm.conf &&
    grep -q "^EnforcePartLimits=ALL" $L/slurm.conf &&
    grep -q "^PriorityMaxAge=7-00:00:00 *# default$" $L/slurm.conf &&
    grep -q "^SelectType=select/cons_tres" $L/slurm.conf &&
    grep -q "^SelectTypeParameters=CR_Core_Memory" $L/slurm.conf &&
    grep -q "^PreemptType=preempt/qos" $L/slurm.conf && grep -q "^PreemptMode=REQUEUE " $L/slurm.conf &&
    grep -q "^AccountingStorageTRES=gres/gpu,gres/gpu:h100 " $L/slurm.conf &&
    grep -q "^AccountingStorageEnforce=associations,limits,qos " $L/slurm.conf &&
    grep -q "^HealthCheckInterval=300 " $L/slurm.conf
'
test_expect 'power saving: only rented machines sleep' '
    grep -q "^SuspendExcNodes=gpu\[1-64\] " $L/slurm.conf && grep -q "^ResumeTimeout=900 " $L/slurm.conf &&
    grep -q "^program=/opt/site/bin/spot-start # targets.slurm.power_save.resume_program" $L/resume.sh &&
    grep -q "^program=/opt/site/bin/spot-stop # targets.slurm.power_save.suspend_program" $L/suspend.sh &&
    test ! -e kb-a100/slurm/resume.sh && ! grep -q "^Suspend" kb-a100/slurm/slurm.conf
'
test_expect 'gres.conf: devices by socket; topology.conf: the switches, and who is on none' '
    grep -qx "NodeName=gpu\[1-64\] Name=gpu Type=h100 File=/dev/nvidia\[0-3\] Cores=0-55" $L/gres.conf &&
    grep -qx "NodeName=gpu\[1-64\] Name=gpu Type=h100 File=/dev/nvidia\[4-7\] Cores=56-111" $L/gres.conf &&
    grep -qx "NodeName=a1001 Name=gpu Type=a100 File=/dev/nvidia0 Cores=0-31" kb-a100/slurm/gres.conf &&
    grep -q "^SwitchName=leaf1 Nodes=gpu\[1-32\] " $L/topology.conf &&
    grep -q "^SwitchName=spine Switches=leaf1,leaf2 " $L/topology.conf &&
    grep -q "^SwitchName=unlisted-spot Nodes=spot\[1-8\] " $L/topology.conf &&
    grep -qx "SwitchName=all-switches Switches=spine,unlisted-spot" $L/topology.conf &&
    test ! -e kb-a100/slurm/topology.conf
'
test_expect 'gres.conf: with an inventory, cores by NUMA node for machines that are like it' '
    stoker detect --root "$BUILD/machines/dgx-h100.tar" --json >dgx.json &&
    stoker render slurm -f llm-cluster.yaml --inventory dgx.json -o numa >/dev/null &&
    grep -A2 "^# cores by NUMA node, from the inventory" numa/slurm/gres.conf >found &&
    grep -qx "NodeName=gpu\[1-64\] Name=gpu Type=h100 File=/dev/nvidia\[4-7\] Cores=56-111" found &&
    test "$(grep -c "no inventory of such a machine" numa/slurm/gres.conf)" = 1
'
test_expect 'modes: scripts can be run, slurmdbd.conf is for its owner alone' '
    test "$(stat -c %a $L/slurmdbd.conf)" = 600 && test "$(stat -c %a $L/slurm.conf)" = 644 &&
    for f in $L/*.sh $L/sbatch/*.sbatch $L/sbatch/*.sh; do test "$(stat -c %a "$f")" = 755 || exit 1; done
'
test_expect 'racks stand for switches where no fabric has any' '
    cat >racks.yaml <<END &&
schema: stoker.spec/1
nodes:
  - {name: a, count: 2, rack: r1, gpus_per_node: 1, gpu: {model: L40S}, cpu_cores: 8, memory: 64GB}
  - {name: b, count: 2, rack: r2, gpus_per_node: 1, gpu: {model: L40S}, cpu_cores: 8, memory: 64GB}
  - {name: c, hosts: c7, gpus_per_node: 1, gpu: {model: L40S}, cpu_cores: 8, memory: 64GB}
END
    stoker render slurm -f racks.yaml -o racks &&
    grep -q "^SwitchName=r1 Nodes=a\[1-2\] " racks/slurm/topology.conf &&
    grep -q "^SwitchName=unlisted-c Nodes=c7 " racks/slurm/topology.conf &&
    grep -qx "SwitchName=all-racks Switches=r1,r2,unlisted-c" racks/slurm/topology.conf &&
    grep -q "^PartitionName=main Nodes=a\[1-2\],b\[1-2\],c7 Default=YES MaxTime=UNLIMITED" racks/slurm/slurm.conf
'
# islands SWITCHES: a fabric with these, two groups on it and one on none
islands() {
    cat >islands.yaml <<END
schema: stoker.spec/1
nodes:
  - {name: a, count: 4, gpus_per_node: 1, gpu: {model: L40S}, cpu_cores: 8, memory: 64GB, fabrics: [ib]}
  - {name: b, count: 2, role: cpu, cpu_cores: 8, memory: 64GB}
  - {name: c, count: 2, role: cpu, cpu_cores: 8, memory: 100GB}
  - {name: d, count: 2, role: cpu, cpu_cores: 8, memory: 1TB}
fabrics:
  - {name: ib, kind: infiniband, rate: 200Gb/s, switches: {$1}}
targets: {slurm: {controller: a1}}
END
    rm -rf islands && stoker render slurm -f islands.yaml -o islands >/dev/null
}
test_expect 'all roots of topology.conf are below one switch: a job over two trees could never run' '
    islands "l1: {hosts: \"a[1-2]\"}, l2: {hosts: \"a[3-4]\"}, s: {switches: [l1, l2]}, l3: {hosts: \"b[1-2],c1\"}" &&
    grep -qx "SwitchName=all-switches Switches=s,l3,unlisted-c,unlisted-d" islands/slurm/topology.conf &&
    islands "l1: {hosts: \"a[1-4],b[1-2],c[1-2],d[1-2]\"}" && ! grep -q all-switches islands/slurm/topology.conf &&
    ! islands "all-switches: {hosts: \"a[1-4]\"}" 2>err && grep -q "all-switches. is a name that topology.conf needs itself" err
'
test_expect 'Weight: machines with much memory after those with little, those with GPUs last' '
    islands "l1: {hosts: \"a[1-2]\"}" && for w in a:6 b:1 c:1 d:4; do
        grep -q "^NodeName=${w%:*}\[.* Weight=${w#*:} " islands/slurm/slurm.conf || { echo $w; exit 1; }
    done
'
test_expect 'no password is anywhere; slurmdbd.conf says where it goes' '
    ! grep -q "^StoragePass" $L/slurmdbd.conf && grep -q "^#Include /etc/slurm/slurmdbd.secret$" $L/slurmdbd.conf &&
    grep -q "^StorageLoc=slurm_acct_db " $L/slurmdbd.conf
'
test_expect 'accounts.sh: limits that are unset are lifted, grace goes to those who must leave' '
    grep -q "^run modify qos where name=normal set Priority=500 GraceTime=120 MaxTRESPerUser=gres/gpu=128 MaxJobsPerUser=-1 MaxWall=-1$" $L/accounts.sh &&
    grep -q "^run modify qos where name=low set Priority=100 GraceTime=300 " $L/accounts.sh &&
    grep -q "^preempts high low || run modify qos where name=high set Preempt=low " $L/accounts.sh &&
    grep -q "^run modify account where name=research cluster=\"\$cluster\" set Fairshare=40 GrpTRES=gres/gpu=256 " $L/accounts.sh &&
    grep -q "^run add user carol account=research " $L/accounts.sh &&
    grep -qx "run modify user where name=carol cluster=\"\$cluster\" set DefaultAccount=research" $L/accounts.sh
'
test_expect 'sbatch: two machines of eight GPUs' '
    f=$L/sbatch/train-13b.sbatch &&
    for o in partition=train qos=normal account=research time=2-00:00:00 nodes=2 ntasks-per-node=1 \
        gres=gpu:h100:8 cpus-per-task=224 exclusive requeue open-mode=append signal=B:USR1@120; do
        grep -q "^#SBATCH --$o *#" $f || { echo "$o"; exit 1; }
    done
'
test_expect 'commands.md has the names of the site' '
    grep -q "sbatch sbatch/train-7b.sbatch" $L/commands.md && grep -q "nodename=gpu1 state=drain" $L/commands.md &&
    grep -q "sshare -A foundation" $L/commands.md
'

# --- the programs that read them ---
if ! command -v slurmd >/dev/null; then
    test_skip 'slurmd reads the files' 'slurmd is not installed (tools/setup test)'
elif ! grep -q ' /sys/fs/cgroup' /proc/mounts; then
    test_skip 'slurmd reads the files' 'no control groups are mounted, without which slurmd reads nothing'
else
    # slurmd looks for the devices, and at its own cores unless told otherwise
    lint() {
        dir=$1 node=$2 && mkdir -p "$dir.lint" dev &&
        for i in 0 1 2 3 4 5 6 7; do : >dev/nvidia$i; done &&
        cp "$dir"/slurm/*.conf "$dir.lint" &&
        sed -i "s|=/dev/nvidia|=$TMP/dev/nvidia|" "$dir.lint/gres.conf" &&
        sed -i "s|^SlurmdLogFile=.*|SlurmdLogFile=$TMP/slurmd.log|" "$dir.lint/slurm.conf" &&
        echo "SlurmdParameters=config_overrides" >>"$dir.lint/slurm.conf" && rm -f slurmd.log &&
        timeout 60 slurmd -G -N "$node" -f "$TMP/$dir.lint/slurm.conf" 2>lint.out
        rc=$?
        test ! -e slurmd.log || cat slurmd.log >>lint.out
        cat lint.out
        test $rc = 0 && ! grep -i "unrecognized\|parse\|invalid\|fatal\|mismatch" lint.out
    }
    for pair in llm-cluster:gpu1 llm-cluster:spot8 ai-platform-h200:h2001 driving-h200:h2001 \
        kb-a100:a1001 rdma-openshift:worker6; do
        test_expect "slurmd reads the files of $pair" "lint ${pair%:*} ${pair#*:}"
    done
    test_expect 'and would say so if it could not' '
        cp -r llm-cluster broken && sed -i "s/^SelectType=/SelctType=/" broken/slurm/slurm.conf &&
        ! lint broken gpu1
    '
fi
if command -v shellcheck >/dev/null; then
    test_expect 'shellcheck is content with every script' '
        find . -name "*.sh" -o -name "*.sbatch" >scripts && test "$(wc -l <scripts)" -gt 30 &&
        xargs shellcheck -s bash <scripts
    '
else
    test_skip 'shellcheck is content with every script' 'shellcheck is not installed (tools/setup test)'
fi

# --- releases ---
version() { edit "s/version: \"22.05\"/version: \"$1\"/" && stoker render slurm -f edited.yaml -o "v$1" >/dev/null; }
test_expect 'releases differ as their table says' '
    for v in 22.05.8 23.02 23.11 24.05 24.11 25.05 25.11 26.05; do version $v || exit 1; done &&
    grep -q "^CgroupAutomount=yes" $L/cgroup.conf && grep -q "^CgroupAutomount=yes" v23.02/slurm/cgroup.conf &&
    ! grep -q "^CgroupAutomount" v23.11/slurm/cgroup.conf &&
    grep -q "^SlurmctldParameters=idle_on_node_suspend,cloud_reg_addrs,preempt_send_user_signal$" $L/slurm.conf &&
    grep -q "^PrivateData=cloud" $L/slurm.conf && ! grep -q "^PrivateData" v23.02/slurm/slurm.conf &&
    grep -q "^PreemptParameters=send_user_signal" v23.02/slurm/slurm.conf &&
    grep -q "^SlurmctldParameters=idle_on_node_suspend$" v23.11/slurm/slurm.conf &&
    ! grep -q "^MaxBatchRequeue" $L/slurm.conf && grep -q "^MaxBatchRequeue=" v25.05/slurm/slurm.conf &&
    grep -q "^AuthInfo=cred_expire=60" v25.05/slurm/slurm.conf && ! grep -q "^AuthInfo" v25.11/slurm/slurm.conf &&
    grep -q "requeue_delay=30" v25.11/slurm/slurm.conf &&
    grep -q "srun.*--cpus-per-task" $L/sbatch/train-7b.sbatch &&
    ! grep -q "srun.*--cpus-per-task" v24.05/slurm/sbatch/train-7b.sbatch
'
test_expect 'a release that is not known is refused at its line' '
    edit "s/version: \"22.05\"/version: \"20.11\"/" && refused edited.yaml "20.11" &&
    at "$(line "version: \"20.11\"" edited.yaml)" 14 edited.yaml && grep -q "22.05, 23.02" err
'

# --- refusals ---
test_expect 'user names that sacctmgr would take apart' '
    for u in "a,b" "a b" "a=b" "\"x\\\\ny\"" "Änne" "\"\""; do
        sed "s/users: \[carol, dan\]/users: [carol, $u]/" llm-cluster.yaml >edited.yaml
        case $u in *,*) sed "s/users: \[carol, dan\]/users: [carol, \"$u\"]/" llm-cluster.yaml >edited.yaml ;; esac
        refused edited.yaml "cannot hold the user" || { echo "$u"; exit 1; }
        grep -q "^edited.yaml:$(line "users: \[carol" edited.yaml):" err || { cat err; exit 1; }
    done
'
test_expect 'controllers and paths that slurm.conf cannot hold' '
    edit "s/controller: ctl1/controller: \"ctl1#\"/" && refused edited.yaml "cannot hold the controller" &&
    at "$(line "controller:" edited.yaml)" 17 edited.yaml &&
    edit "s|cluster: llm|cluster: llm\n    log_dir: /var/log/my slurm|" && refused edited.yaml "cannot hold the path" &&
    at "$(line "log_dir:" edited.yaml)" 14 edited.yaml
'
test_expect 'hosts that Slurm has another use for' '
    edit "s/hosts: spot\[1-8\]/hosts: spot[1-7],default/" && refused edited.yaml "not a host name" &&
    at "$(line "hosts: spot" edited.yaml)" 12 edited.yaml
'
test_expect 'switches with hosts that run no jobs, with both kinds of things below, with hosts of others' '
    edit "s/hosts: \"gpu\[33-64\]\"/hosts: \"gpu[33-64],login1\"/" && refused edited.yaml "host .login1., which runs no jobs" &&
    at "$(line "leaf2:" edited.yaml)" 22 edited.yaml &&
    edit "s/spine: {/spine: {hosts: \"gpu[1-2]\", /" && refused edited.yaml "has both" &&
    edit "s/hosts: \"gpu\[33-64\]\"/hosts: \"gpu[32-64]\"/" && refused edited.yaml "host .gpu32. is on more than one switch" &&
    at "$(line "leaf2:" edited.yaml)" 22 edited.yaml
'
test_expect 'partitions called default, and partitions of no machines' '
    edit "s/{name: debug, /{name: default, /; s/partition: debug/partition: default/" &&
    refused edited.yaml "cannot be called .default." &&
    at "$(line "name: default" edited.yaml)" 16 edited.yaml &&
    edit "s/^    count: 8$/    count: 0/; s/^    hosts: spot.*//; /^  finetune-spot:/,/^  sweep:/{/^  sweep:/!d}" &&
    refused edited.yaml "partition .spot. has no machines"
'
test_expect 'machines whose cores or memory nobody knows' '
    sed "0,/cpu_cores: 112/s///" llm-cluster.yaml >edited.yaml && refused edited.yaml "how many cores" &&
    edit "s/cpu_cores: 112/cpu_cores: 111/" && refused edited.yaml "do not spread evenly" &&
    at "$(line "cpu_cores: 111" edited.yaml)" 16 edited.yaml
'
test_expect 'components that are no jobs' '
    sed "/^  sweep:/,/time_limit/s/kind: batch/kind: service/" llm-cluster.yaml >edited.yaml &&
    refused edited.yaml "training and batch components, and .sweep. is neither"
'
test_expect 'jobs that would wait for ever' '
    edit "s/time_limit: 4h$/time_limit: 5h/" && refused edited.yaml "longer than partition .debug. allows" &&
    edit "s/max_gpus: 128}/max_gpus: 8}/" && refused edited.yaml "needs 16 GPUs and QOS .normal. gives a user 8" &&
    edit "s/^    qos: low$/    qos: high/" && refused edited.yaml "account .research. may not use QOS .high." &&
    edit "s/^    partition: spot$/    partition: debug/" && refused edited.yaml "does not have the machines .spot." &&
    at "$(awk "/finetune-spot:/{f=1} f && /partition: debug/{print NR; exit}" edited.yaml)" 16 edited.yaml
'
# own TIME GPUS-OF-QOS GPUS-OF-ACCOUNT NODES MORE: limits that the job does not name
own() {
    site "components:
  t: {kind: training, target: slurm, gpus: 8, nodes_per_replica: $4, queued: true, command: [x], training: {framework: other}$5}
targets:
  slurm:
    controller: ctl
    partitions: [{name: p, nodes: [gpu], default: true, time_limit: 1d}]
    qos: {a: {max_time: $1, max_gpus: $2}, b: {}}
    accounts: {acc: {users: [ann], qos: [a], max_gpus: $3}}"
}
test_expect 'limits of the partition, QOS and account that a job has without naming them' '
    own 2h 32 32 1 ", time_limit: 2d" && refused site.yaml "longer than partition .p. allows" &&
    grep -q "longer than QOS .a. allows" err && at 5 "[0-9]*" site.yaml &&
    own 2h 8 32 2 "" && refused site.yaml "needs 16 GPUs and QOS .a. gives a user 8" &&
    own 2h 32 8 2 "" && refused site.yaml "needs 16 GPUs and account .acc. has 8" &&
    own 2h 32 32 2 ", qos: b" && refused site.yaml "account .acc. may not use QOS .b." &&
    own 2h 16 16 2 "" && stoker render slurm --strict -f site.yaml -o own >/dev/null &&
    grep -q "^#SBATCH --time=0-02:00:00 *# targets.slurm.qos.a.max_time" own/slurm/sbatch/t.sbatch
'
test_expect 'a job goes to the first partition whose limits it keeps; accounts that cannot run it are told' '
    own 9d 32 32 2 ", time_limit: 2d" && sed -i "s/time_limit: 1d}/&, {name: long, nodes: [gpu], time_limit: 7d}/" site.yaml &&
    stoker render slurm -f site.yaml -o own >/dev/null && grep -q "^#SBATCH --partition=long " own/slurm/sbatch/t.sbatch &&
    own 2h 8 32 2 "" && sed -i "s/accounts: {/&big: {users: [bob], qos: [b]}, /" site.yaml &&
    stoker render slurm -f site.yaml -o own >/dev/null 2>err && cat err &&
    grep -q "5:3: warning: component .t. names no account, and as a job of .acc. " err &&
    grep -q "^#SBATCH --time=1-00:00:00 " own/slurm/sbatch/t.sbatch
'
test_expect 'NVLink across machines: IMEX and the domain are told; Arm has a thread a core' '
    nvl() { cat >nvl.yaml <<END
nodes: [{name: gb, count: $1, gpus_per_node: 4, gpu: {model: GB200}, nvlink_domain: 72, cpu_cores: 144, memory: 960GB}]
components: {t: {kind: training, target: slurm, gpus: 4, nodes_per_replica: 18, queued: true, command: [x], training: {framework: other}}}
targets: {slurm: {controller: c}}
END
    } && nvl 36 && stoker render slurm -f nvl.yaml -o nvl >/dev/null 2>err && cat err &&
    grep -q "1:[0-9]*: warning: GPUs of .gb. reach .* only with IMEX" err &&
    grep -q "2:[0-9]*: warning: nothing keeps the 18 machines of .t. in one NVLink domain, which has 18: Slurm 22.05 cannot" err &&
    test ! -e nvl/slurm/topology.conf && ! grep -q "^SwitchType" nvl/slurm/slurm.conf && ! grep -q segment nvl/slurm/sbatch/t.sbatch &&
    grep -q " CoresPerSocket=72 ThreadsPerCore=1 " nvl/slurm/slurm.conf &&
    nvl 18 && stoker render slurm -f nvl.yaml -o nvl >/dev/null 2>err && ! grep -q "NVLink domain" err &&
    sed -i "s/cpu_cores/threads_per_core: 2, cpu_cores/" nvl.yaml && stoker render slurm -f nvl.yaml -o nvl >/dev/null 2>&1 &&
    grep -q " ThreadsPerCore=2 " nvl/slurm/slurm.conf
'
test_expect 'NVLink domains are blocks of topology.conf from 24.05 on, and jobs ask for parts of one' '
    block() { cat >nvl.yaml <<END
nodes:
  - {name: gb, count: $2, gpus_per_node: 4, gpu: {model: GB200}, nvlink_domain: 72, cpu_cores: 144, memory: 960GB, rack: r1}
  - {name: gc, count: $3, hosts: "n[08-$((7 + $3))]", gpus_per_node: 4, gpu: {model: GB300}, nvlink_domain: $4, cpu_cores: 144, memory: 960GB}
  - {name: c, role: cpu, count: 6, cpu_cores: 32, memory: 128GB}
components:
  t: {kind: training, target: slurm, nodes: gb, gpus: 4, nodes_per_replica: $5, queued: true, command: [x], training: {framework: other}}
targets: {slurm: {controller: c0, version: "$1"}}
END
        rm -rf nvl && stoker render slurm -f nvl.yaml -o nvl >/dev/null 2>err && cat err
    } &&
    segment() { grep -q "^#SBATCH --segment=$1 " nvl/slurm/sbatch/t.sbatch; } &&
    block 24.05 36 18 72 18 && grep -q "^TopologyPlugin=topology/block " nvl/slurm/slurm.conf && segment 18 &&
    grep -q "^SwitchType=switch/nvidia_imex " nvl/slurm/slurm.conf && ! grep -q "in one NVLink domain" err &&
    grep -q "^BlockName=nvlink-gb-1 Nodes=gb\[1-18\] " nvl/slurm/topology.conf &&
    grep -q "^BlockName=nvlink-gb-2 Nodes=gb\[19-36\] " nvl/slurm/topology.conf &&
    grep -q "^BlockName=nvlink-gc-1 Nodes=n\[08-25\] " nvl/slurm/topology.conf &&
    grep -q "^BlockSizes=18 " nvl/slurm/topology.conf && ! grep -q "^SwitchName\|^BlockName=rest" nvl/slurm/topology.conf &&
    grep -q "too few for one with Slurm 24.05: c\[1-6\]" nvl/slurm/topology.conf &&
    ! grep -q "gives jobs no machine" err &&
    sed -i "s/version: .*/version: \"24.11\", partitions: [{name: all, nodes: [gb, c]}]}}/" nvl.yaml &&
    stoker render slurm -f nvl.yaml -o nvl >/dev/null 2>err && grep -q "7:[0-9]*: .*partition .all. gives jobs no machine of .c. " err &&
    block 24.11 40 9 36 32 && segment 8 && grep -q "^BlockSizes=9 " nvl/slurm/topology.conf &&
    grep -q "^BlockName=rest Nodes=gb\[37-40\],c\[1-6\] " nvl/slurm/topology.conf &&
    grep -q "2:[0-9]*: .*do not fill NVLink domains of 18: the last 4 are" err &&
    block 25.05 40 9 36 18 && segment 9 && grep -q "6:[0-9]*: .*18 machines of .t. are kept in NVLink domains 9 at a time" err &&
    grep -q "^BlockName=rest-gb Nodes=gb\[37-40\] " nvl/slurm/topology.conf && grep -q "^BlockName=rest-c " nvl/slurm/topology.conf &&
    block 25.11 36 18 72 19 && ! grep -q segment nvl/slurm/sbatch/t.sbatch && grep -q "kept in NVLink domains 1 at a time" err &&
    block 24.05 54 18 72 40 && segment 8 && block 24.05 54 18 72 50 && segment 2 && block 24.05 54 18 72 52 && segment 2 && block 24.05 54 18 72 51 && segment 17 &&
    block 24.05 54 18 72 53 && grep -q "kept in NVLink domains 1 at a time" err && block 25.05 58 18 72 56 && segment 2 &&
    block 24.05 30 8 36 16 && grep -q "6:[0-9]*: .*topology.conf has blocks only where two domains are full" err && ! grep "24.05 and later can" err
'
test_expect 'a job whose machines are in no block beside those of blocks would wait for ever: refused, or another partition' '
    missed() { # MACHINES GROUPS SLURM
        cat >missed.yaml <<END
nodes:
  - {name: gb, count: 36, gpus_per_node: 4, gpu: {model: GB200}, nvlink_domain: 72, cpu_cores: 144, memory: 960GB}
  - {name: ge, count: 9, gpus_per_node: 4, gpu: {model: GB200}, nvlink_domain: 72, cpu_cores: 144, memory: 960GB}
  - {name: c, role: control, hosts: c0, cpu_cores: 32, memory: 128GB}
components:
  t: {kind: training, target: slurm, nodes: [$2], gpus: 4, nodes_per_replica: $1, queued: true, command: [x], training: {framework: other}}
targets: {slurm: {controller: c0, $3}}
END
        rm -rf missed && stoker render slurm -f missed.yaml -o missed >/dev/null 2>err
    }
    wait_for_ever() { ! missed "$@" && grep -q "^missed.yaml:6:.*component .t. would wait for ever: partition .*gives jobs no machine of .ge." err; } &&
    wait_for_ever 8 ge "version: \"24.05\"" && wait_for_ever 40 gb,ge "version: \"24.05\"" &&
    missed 36 gb,ge "version: \"24.05\"" && missed 8 ge "version: \"25.05\"" &&
    missed 8 ge "version: \"24.05\", partitions: [{name: a, nodes: [gb, ge]}, {name: b, nodes: [ge]}]" && grep -q "^#SBATCH --partition=b " missed/slurm/sbatch/t.sbatch || { cat err; exit 1; }
'
test_expect 'a job names the QOS that its partition takes, where the account has another by default' '
    account() { # COMPONENT ACCOUNTS
        cat >terms.yaml <<END
nodes: [{name: g, count: 2, gpus_per_node: 4, gpu: {model: L40S}, cpu_cores: 32, memory: 256GiB}]
components: {v: {kind: batch, target: slurm, nodes: g, gpus: 4, replicas: 3, queued: true, command: [x], $1}}
targets:
  slurm:
    controller: m1
    partitions: [{name: p, nodes: [g], time_limit: 1d, qos: [std], default: true}, {name: f, nodes: [g], qos: [free]}]
    qos: {std: {max_gpus: 3}, free: {preempts: [std]}}
    accounts: $2
END
        rm -rf terms && stoker render slurm -f terms.yaml -o terms >/dev/null 2>err
    }
    qos() { grep -q "^#SBATCH --partition=$1 " terms/slurm/sbatch/v.sbatch && grep -q "^#SBATCH --qos=$2 " terms/slurm/sbatch/v.sbatch; } &&
    account "account: stu" "{stu: {qos: [free, std]}}" && qos f free && account "partition: f, account: stu" "{stu: {qos: [free, std]}}" && qos f free &&
    account "partition: f" "{stu: {qos: [free, std]}, two: {qos: [std, free]}}" && qos f free &&
    account "partition: f, account: stu" "{stu: {qos: [free]}}" && ! grep "^#SBATCH --qos" terms/slurm/sbatch/v.sbatch || { cat err terms/slurm/sbatch/v.sbatch; exit 1; }
'
test_expect 'what Slurm does not do for GPUs and jobs is told at its place' '
    cat >told.yaml <<END &&
nodes:
  - {name: g, gpus_per_node: 8, gpu: {model: H100, power_limit: 500, compute_mode: exclusive_process, ecc: false}, cpu_cores: 96, memory: 1TB}
storage:
  - {name: o, kind: object, source: "s3://b/c"}
components:
  t:
    {kind: batch, target: slurm, gpus: 8, queued: true, command: [x], shm: 64GiB, mounts: [{storage: o, path: /o}], build: {base: ubuntu}}
targets: {slurm: {controller: c}}
END
    { stoker render slurm --strict -f told.yaml -o told >/dev/null 2>err; test $? = 1; } && cat err &&
    for key in power_limit compute_mode ecc; do grep -q "told.yaml:2:[0-9]*: .*does not follow .gpu.$key. of nodes .g." err || exit 1; done &&
    grep -q "told.yaml:7:[0-9]*: .*does not follow .shm. of component .t." err && grep -q "told.yaml:7:[0-9]*: .*mounts no object storage" err &&
    grep -q "told.yaml:7:[0-9]*: .*runs without an image on Slurm" err
'

# --- other shapes of a site ---
test_expect 'preemption by partition, suspension, gang scheduling' '
    one "targets:
  slurm:
    partitions:
      - {name: low, nodes: [gpu], preempt: suspend}
      - {name: high, nodes: [gpu], priority: 9, default: true}
    gang: true
    timeslice: 60s" &&
    grep -q "^PreemptType=preempt/partition_prio" one/slurm/slurm.conf &&
    grep -q "^PreemptMode=SUSPEND,GANG" one/slurm/slurm.conf && grep -q "^SchedulerTimeSlice=60" one/slurm/slurm.conf &&
    grep -q "^PartitionName=low .* PreemptMode=SUSPEND OverSubscribe=FORCE:2" one/slurm/slurm.conf &&
    grep -q "^PartitionName=high .* PreemptMode=OFF " one/slurm/slurm.conf
'
test_expect 'without accounting there is no slurmdbd, no QOS and no accounts' '
    one "targets: {slurm: {accounting: {enabled: false}, backfill: {enabled: false}}}" &&
    test ! -e one/slurm/slurmdbd.conf && test ! -e one/slurm/accounts.sh &&
    ! grep -q "^AccountingStorage\|^PriorityWeightQOS" one/slurm/slurm.conf &&
    grep -q "^SchedulerType=sched/builtin" one/slurm/slurm.conf
'
test_expect 'MIG: instances are counted and the driver is asked' '
    cat >mig.yaml <<END &&
schema: stoker.spec/1
nodes:
  - {name: mig, gpus_per_node: 8, cpu_cores: 96, memory: 1TB,
     gpu: {model: H200, sharing: mig, mig_profile: 1g.18gb}}
END
    stoker render slurm -f mig.yaml -o mig && grep -q " Gres=gpu:1g.18gb:56 " mig/slurm/slurm.conf &&
    grep -qx "NodeName=mig1 AutoDetect=nvml" mig/slurm/gres.conf
'
test_expect '10,000 machines in under a second' '
    cat >large.yaml <<END &&
schema: stoker.spec/1
nodes:
  - {name: gpu, count: 10000, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TB, rack: r1}
END
    timeout 1 "$BUILD/stoker" render slurm -f large.yaml -o large &&
    grep -q "^NodeName=gpu\[1-10000\] " large/slurm/slurm.conf
'

# --- what a job gets that asks for nothing, and wishes that Slurm cannot follow ---
# warned LINE COLUMN WORDS: the render went through, and said so there
warned() {
    stoker render slurm -f site.yaml -o warned >out 2>err || { cat err; return 1; }
    l=$1 k=$2
    shift 2
    grep -q -- "^site.yaml:$l:$k: warning: .*$*" err || { cat err; return 1; }
}
test_expect 'a spec that says nothing of time and memory: each partition has a default of both, limits hold' '
    cat >plain.yaml <<END &&
nodes:
  - {name: gpu, count: 2, gpus_per_node: 8, gpu: {model: H100, memory: 80GB}, cpu_cores: 96, memory: 1TB}
  - {name: cpu, role: cpu, count: 2, cpu_cores: 64, memory: 256GB}
targets: {slurm: {controller: c, partitions: [{name: g, nodes: [gpu], default: true}, {name: c, nodes: [cpu], time_limit: 2d}]}}
END
    stoker render slurm -f plain.yaml -o plain >/dev/null && f=plain/slurm/slurm.conf && grep -q "^EnforcePartLimits=ALL" $f &&
    test "$(grep -c "^PartitionName=.* DefaultTime=" $f)" = 2 && test "$(grep -c "^PartitionName=.* DefMemPerCPU=" $f)" = 2
'
test_expect 'every partition has a default time, at most what it and its QOS allow' '
    one "targets:
  slurm:
    controller: ctl1
    qos: {short: {max_time: 10m}, normal: {}}
    accounts: {a: {users: [root]}}
    partitions:
      - {name: a, default: true, time_limit: 2d, qos: [normal]}
      - {name: b, time_limit: 30m, qos: [normal]}
      - {name: c}
      - {name: d, time_limit: 2d, default_time: 5h, qos: [normal]}" 2>err && test ! -s err &&
    grep -q "^PartitionName=a .* DefaultTime=0-01:00:00 " one/slurm/slurm.conf &&
    grep -q "^PartitionName=b .* DefaultTime=0-00:30:00 " one/slurm/slurm.conf &&
    grep -q "^PartitionName=c .* MaxTime=UNLIMITED DefaultTime=0-00:10:00 " one/slurm/slurm.conf &&
    grep -q "^PartitionName=d .* DefaultTime=0-05:00:00 " one/slurm/slurm.conf
'
test_expect 'a default time above the limit is refused, one above a QOS is capped and told' '
    site "targets: {slurm: {controller: c, partitions: [{name: a, time_limit: 1h, default_time: 2h}]}}" &&
    refused site.yaml "default time of partition .a. is above its time limit" &&
    site "targets:
  slurm:
    controller: c
    qos: {q: {max_time: 10m}}
    accounts: {a: {users: [root]}}
    partitions: [{name: a, default_time: 2h}]" && warned 9 42 "no more than 10m" &&
    grep -q " DefaultTime=0-00:10:00 " warned/slurm/slurm.conf
'
test_expect 'machines without GPUs share their memory by cores' '
    cat >site.yaml <<END &&
schema: stoker.spec/1
nodes:
  - {name: cpu, role: cpu, count: 4, cpu_cores: 64, threads_per_core: 2, memory: 256GB}
targets: {slurm: {controller: c, accounting: {enabled: false}}}
END
    stoker render slurm -f site.yaml -o cpus && grep -q "^PartitionName=main .* DefMemPerCPU=1831 State=UP$" cpus/slurm/slurm.conf &&
    ! grep -q "^Part.*PerGPU\|^PriorityWeightAge" cpus/slurm/slurm.conf
'
test_expect 'a QOS beyond the partitions is capped and told' '
    site "targets:
  slurm:
    controller: c
    qos: {q: {max_time: 9d, max_gpus: 99}}
    accounts: {a: {users: [root]}}
    partitions: [{name: a, time_limit: 2d}]" && warned 7 25 "QOS .q. allows jobs of 9d and no partition that takes it more than 2d" &&
    warned 7 39 "QOS .q. allows a user 99 GPUs .* have 32" &&
    grep -q "MaxTRESPerUser=gres/gpu=99 .* MaxWall=2-00:00:00$" warned/slurm/accounts.sh
'
test_expect 'GPUs of a QOS: a user has jobs in several partitions at once, and a machine counts once' '
    site "  - {name: b, count: 1, gpus_per_node: 8, gpu: {model: A100}, cpu_cores: 96, memory: 1TB}
targets:
  slurm:
    controller: c
    qos: {q: {max_gpus: 40}}
    accounts: {a: {users: [root]}}
    partitions: [{name: a, nodes: [gpu]}, {name: b, nodes: [b]}, {name: both, nodes: [gpu, b]}]" &&
    stoker render slurm -f site.yaml -o qosmax >out 2>err && ! grep -q "QOS .q." err &&
    grep -q "MaxTRESPerUser=gres/gpu=40 " qosmax/slurm/accounts.sh && sed -i s/40/41/ site.yaml &&
    stoker render slurm -f site.yaml -o qosmax >out 2>err && grep -q "41 GPUs and the partitions that take it have 40" err
'
# loop QOS: a site with them
loop() {
    site "targets:
  slurm:
    controller: c
    preempt: requeue
    accounts: {a: {users: [root]}}
    qos: {$1}"
}
test_expect 'QOS that push each other aside are refused where they stand' '
    loop "h: {preempts: [l]}, l: {preempts: [h]}" && refused site.yaml "QOS .l. pushes .h. aside, which in turn pushes it" &&
    at 9 45 site.yaml && loop "a: {preempts: [b]}, b: {preempts: [c, d]}, c: {}, d: {preempts: [a]}" &&
    refused site.yaml "QOS .d. pushes .a. aside" && loop "a: {preempts: [a]}" && refused site.yaml "which is itself" &&
    loop "a: {preempts: [b, c]}, b: {preempts: [c, d]}, c: {preempts: [d]}, d: {}" && stoker render slurm -f site.yaml -o loop
'
test_expect 'partitions that make way give their jobs the notice of the machines, and others have one to make way for' '
    site "  - {name: b, count: 1, gpus_per_node: 8, gpu: {model: A100}, cpu_cores: 96, memory: 1TB, notice: 5m}
targets:
  slurm:
    controller: c
    partitions:
      - {name: a, nodes: [gpu, b], priority: 3}
      - {name: b, nodes: [gpu], preempt: requeue}
      - {name: c, nodes: [gpu, b], preempt: cancel}
      - {name: d, nodes: [b], preempt: requeue, priority: 3}" && stoker render slurm -f site.yaml -o grace >out 2>err &&
    grep -q "^PartitionName=a .* PreemptMode=OFF DefMem" grace/slurm/slurm.conf &&
    grep -q "^PartitionName=b .* PreemptMode=REQUEUE GraceTime=120 " grace/slurm/slurm.conf &&
    grep -q "^PartitionName=c .* PreemptMode=CANCEL GraceTime=300 " grace/slurm/slurm.conf &&
    test "$(grep -c "nobody pushes jobs of partition" err)" = 1 && grep -q "^site.yaml:12:[0-9]*: .*partition .d. aside" err
'
test_expect 'an account without a list may use every QOS; a partition that takes others has a default of its own' '
    site "targets:
  slurm:
    controller: c
    qos: {urgent: {preempts: [low]}, low: {}, express: {}}
    preempt: requeue
    accounts: {a: {users: [root]}}
    partitions: [{name: a, qos: [low, urgent]}, {name: b, qos: [express]}]" &&
    stoker render slurm -f site.yaml -o qos && grep -q "set QOS=urgent,low,express # all" qos/slurm/accounts.sh &&
    grep -q "set DefaultQOS=low #" qos/slurm/accounts.sh &&
    grep -qx "run modify user where name=root account=a cluster=\"\$cluster\" partition=b set DefaultQOS=express" qos/slurm/accounts.sh &&
    test "$(grep -c "name=root .*DefaultAccount" qos/slurm/accounts.sh)" = 1 && ! grep -q "partition=a" qos/slurm/accounts.sh
'
test_expect 'a partition that no account may use, and a default one that refuses the jobs of an account, are told' '
    takes() {
        site "targets:
  slurm:
    controller: c
    qos: {std: {}, gold: {}}
    accounts: {$1}
    partitions: [{name: p, qos: [gold]}, {name: q, qos: [std], default: true}]" && stoker render slurm -f site.yaml -o takes >out 2>err
    } &&
    takes "only: {users: [root], qos: [gold]}" && grep -q "^site.yaml:9:[0-9]*: warning: no account has a QOS that partition .q. takes" err && ! grep "partition .p." err &&
    takes "a: {users: [x], qos: [std]}, b: {users: [y], qos: [gold]}" &&
    grep -q "^site.yaml:9:[0-9]*: warning: the default partition .q. takes no QOS of account .b.: a job" err && ! grep "partition .p." err &&
    takes "a: {users: [x], qos: [std]}, b: {users: [y]}" && ! grep "partition .[pq]." err || { cat err; exit 1; }
'
test_expect 'grace: the longest of those that push a QOS aside, the shorter ones are told; its own comes first' '
    loop "h: {preempts: [l], grace: 1m}, n: {preempts: [l], grace: 10m}, l: {}" && stoker render slurm -f site.yaml -o graces >out 2>err &&
    grep -q "^run modify qos where name=l set Priority=[0-9]* GraceTime=600 " graces/slurm/accounts.sh &&
    grep -q "^site.yaml:9:[0-9]*: warning: jobs of QOS .l. get 10m, as .n. says, from .h. too, not 1m" err && test "$(grep -c "jobs of QOS" err)" = 1 &&
    loop "h: {preempts: [l], grace: 1m}, n: {preempts: [l], grace: 10m}, l: {grace: 3m}" && stoker render slurm -f site.yaml -o graces >out 2>err &&
    grep -q "^run modify qos where name=l set Priority=[0-9]* GraceTime=180 " graces/slurm/accounts.sh && ! grep "jobs of QOS" err || { cat err; exit 1; }
'
test_expect 'without accounts nobody is locked out' '
    one "targets: {slurm: {controller: c}}" && ! grep -q "^AccountingStorageEnforce" one/slurm/slurm.conf &&
    site "targets: {slurm: {controller: c, accounting: {enforce_limits: true}}}" && warned 4 63 "limits are not enforced"
'
test_expect 'slurmdbd is beside the controller unless the spec says otherwise' '
    one "targets: {slurm: {controller: ctl7}}" && grep -q "^AccountingStorageHost=ctl7 " one/slurm/slurm.conf &&
    grep -q "^DbdHost=ctl7 " one/slurm/slurmdbd.conf
'
test_expect 'a second controller shares its state' '
    site "targets: {slurm: {controller: c1, backup_controller: c2}}" && refused site.yaml "two controllers must share their state" &&
    site "targets: {slurm: {controller: c1, backup_controller: c2, state_dir: /var/x}}" && warned 4 69 "both controllers need ./var/x." &&
    one "storage: [{name: s, kind: nfs, path: /srv, source: \"n:/s\"}]
targets: {slurm: {controller: c1, backup_controller: c2, state_dir: /srv/slurm}}" 2>err && test ! -s err &&
    test "$(grep -c "^SlurmctldHost=c[12] " one/slurm/slurm.conf)" = 2 && grep -q "^controllers=.c1 c2. " one/slurm/install.sh
'
test_expect 'MPS and shards: parts of a GPU, and pools become requests for them' '
    cat >site.yaml <<END &&
schema: stoker.spec/1
nodes:
  - {name: m, count: 2, gpus_per_node: 4, gpu: {model: H100, memory: 80GB, sharing: mps}, cpu_cores: 64, memory: 1TB}
  - {name: s, count: 2, gpus_per_node: 4, gpu: {model: L40S, memory: 48GB, sharing: time_slicing}, cpu_cores: 64, memory: 1TB}
pools: {p: {size: 20GB, nodes: m}, q: {size: 10GB, nodes: s}}
components:
  a: {kind: batch, target: slurm, nodes: m, gpus: 0, pools: [p], command: [x], queued: true}
  b: {kind: batch, target: slurm, nodes: s, gpus: 0, pools: [q], command: [x], queued: true}
targets: {slurm: {controller: c}}
END
    stoker render slurm -f site.yaml -o parts && grep -qx "GresTypes=gpu,mps,shard" parts/slurm/slurm.conf &&
    grep -q "^NodeName=m.* Gres=gpu:h100:4,mps:400 " parts/slurm/slurm.conf && grep -q "^NodeName=s.* Gres=gpu:l40s:4,shard:192 " parts/slurm/slurm.conf &&
    grep -qx "NodeName=m\[1-2\] Name=mps Count=400 Flags=all_sharing" parts/slurm/gres.conf &&
    grep -qx "NodeName=s\[1-2\] Name=shard Count=192" parts/slurm/gres.conf &&
    grep -q "^#SBATCH --gres=mps:25 " parts/slurm/sbatch/a.sbatch && grep -q "^#SBATCH --gres=shard:10 " parts/slurm/sbatch/b.sbatch &&
    grep -q "nvidia-cuda-mps-control -d" parts/slurm/prolog.sh && bash -n parts/slurm/prolog.sh
'
test_expect 'a part of a GPU brings its part of the cores and of the memory, so that as many jobs fit' '
    f=parts/slurm/sbatch/a.sbatch && mib=$(sed -n "s/^NodeName=m.*RealMemory=\([0-9]*\) .*/\1/p" parts/slurm/slurm.conf) &&
    grep -q "^#SBATCH --cpus-per-task=8 .*part of a GPU" $f && grep -q "^#SBATCH --mem=$((mib / 16)) .*part of a GPU" $f
'
test_expect 'an empty list where an unset one means all is refused: a partition without groups is not one with all of them' '
    site "targets: {slurm: {controller: c, partitions: [{name: p, nodes: []}]}}" && refused site.yaml "could mean none or all" && at 4 64 site.yaml &&
    site "targets: {slurm: {controller: c, partitions: [{name: p, qos: []}]}}" && refused site.yaml "partitions\[0\].qos" &&
    site "targets: {slurm: {controller: c, accounts: {a: {qos: []}}}}" && refused site.yaml "accounts.a.qos" &&
    site "alerts: {a: {metric: disk_used, warn: 90%, nodes: []}}
targets: {slurm: {controller: c}}" && refused site.yaml "alerts.a.nodes"
'
# mounted STORAGE MOUNT IMAGE: a job that mounts it
mounted() {
    site "storage: [{name: d, kind: nfs, source: \"s:/x\", path: $1}]
components: {t: {kind: batch, target: slurm, gpus: 1, queued: true, command: [x]$3, mounts: [{storage: d, $2}]}}
targets: {slurm: {controller: c}}"
}
test_expect 'paths that pyxis or apptainer would split or expand are refused, and are a job without an image its own' '
    for c in , : ^ "\$" "\`" "\\\\"; do
        mounted "\"/a${c}b\"" "path: /d" ", image: r/x:1" && refused site.yaml "cannot mount" && at 4 54 site.yaml || exit 1
        mounted /a "path: \"/a${c}b\"" ", image: r/x:1" && refused site.yaml "cannot mount" && at 5 125 site.yaml || exit 1
        mounted /a "path: /d, subpath: \"a${c}b\"" ", image: r/x:1" && refused site.yaml "cannot mount" && at 5 138 site.yaml || exit 1
    done &&
    mounted "\"/a,b\"" "path: \"/a,b\"" "" && stoker render slurm -f site.yaml -o own && mounted "\"/a b\"" "path: /d" ", image: r/x:1" && stoker render slurm -f site.yaml -o own
'
# mib GROUP DIR: memory of a machine that jobs may have
mib() { sed -n "s/^NodeName=$1.*RealMemory=\([0-9]*\) .*/\1/p" "$2/slurm/slurm.conf"; }
test_expect 'a job without GPUs gets memory by its cores, and the comments say so' '
    one "  - {name: cpu, role: cpu, count: 2, cpu_cores: 64, memory: 16GB}
components:
  part: {kind: batch, target: slurm, nodes: cpu, cpus: 16, command: [x], queued: true}
  all: {kind: batch, target: slurm, nodes: cpu, command: [x], queued: true}
  beside: {kind: batch, target: slurm, nodes: gpu, cpus: 12, command: [x], queued: true}
  unsaid: {kind: batch, target: slurm, nodes: gpu, command: [x], queued: true}
  with: {kind: batch, target: slurm, nodes: gpu, gpus: 2, cpus: 1, command: [x], queued: true}
targets: {slurm: {controller: c}}" && cd one/slurm/sbatch && cpu=$(mib cpu ../..) && gpu=$(mib gpu ../..) &&
    grep -q "^#SBATCH --mem=$((cpu / 4)) .*proportion to the cores$" part.sbatch &&
    grep -q "^#SBATCH --cpus-per-task=128 .*all of the machine$" all.sbatch && grep -q "^#SBATCH --mem=$cpu .*the cores$" all.sbatch &&
    grep -q "^#SBATCH --mem=$((gpu / 8)) .*the cores$" beside.sbatch &&
    grep -q "^#SBATCH --cpus-per-task=24 .*with one GPU$" unsaid.sbatch && grep -q "^#SBATCH --mem=$((gpu / 8)) .*the cores$" unsaid.sbatch &&
    grep -q "^#SBATCH --mem=$((gpu / 4)) .*the GPUs$" with.sbatch && ! grep -q "the GPUs" [!w]*.sbatch
'
test_expect 'no partitions: every group is in one, and jobs go to the machines they name' '
    nopart() {
        cat >nopart.yaml <<END
schema: stoker.spec/1
nodes:
  - {name: g, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TB}
  - {name: c, role: cpu, count: 2, cpu_cores: 32, memory: 32GB}
components:
  a: {kind: batch, target: slurm, nodes: $1, gpus: 0, queued: true, command: [env], cpus: 4, memory: 4GB}
targets: {slurm: {cluster: x, controller: c1}}
END
        rm -rf np && stoker render slurm -f nopart.yaml -o np >/dev/null
    } &&
    nopart c && grep -q "^PartitionName=main Nodes=g\[1-2\] Default=YES " np/slurm/slurm.conf &&
    grep -q "^PartitionName=cpu Nodes=c\[1-2\] Default=NO .*DefMemPerCPU=[0-9]* State=UP" np/slurm/slurm.conf &&
    test "$(grep -c ^PartitionName= np/slurm/slurm.conf)" = 2 && grep -q "^#SBATCH --partition=cpu " np/slurm/sbatch/a.sbatch &&
    nopart g && grep -q "^#SBATCH --partition=main " np/slurm/sbatch/a.sbatch &&
    nopart "[g, c]" && grep -q "^#SBATCH --partition=all " np/slurm/sbatch/a.sbatch &&
    grep -q "^PartitionName=all Nodes=g\[1-2\],c\[1-2\] Default=NO " np/slurm/slurm.conf &&
    ! grep -q "^#SBATCH --constraint" np/slurm/sbatch/a.sbatch
'
test_expect 'no accounts: a partition keeps no QOS out, which is told, since nobody has one' '
    qos() {
        site "targets: {slurm: {cluster: x, controller: gpu1, partitions: [{name: p, nodes: [gpu], default: true, qos: [b]}], qos: {a: {}, b: {}}$1}}" &&
        rm -rf q && stoker render slurm -f site.yaml -o q >/dev/null 2>err
    } &&
    qos "" && ! grep -q AllowQos q/slurm/slurm.conf && grep -q "partition .p. takes jobs of every QOS: the spec has no accounts" err &&
    ! grep -q "no partition takes" err &&
    qos ", accounts: {lab: {users: [ann]}}" && grep -q " AllowQos=b " q/slurm/slurm.conf && ! grep -q "every QOS" err &&
    grep -q "no partition takes QOS .a." err
'
test_expect 'wishes that Slurm cannot follow are warnings at their place, and errors with --strict' '
    site "components:
  t:
    kind: batch
    target: slurm
    gpus: 1
    queued: true
    image: registry.example.org/x:1
    user: somebody
    command: [x]
targets:
  slurm:
    controller: c
    preempt: suspend
    qos: {a: {preempts: [b]}, b: {}}
    accounts: {z: {users: [root]}}
    partitions: [{name: p, preempt: cancel}]
    power_save: {resume_program: /x, suspend_program: /y}" &&
    warned 10 12 "only where pyxis or apptainer is installed" && warned 11 11 "slurm does not follow .user. of component .t." &&
    warned 16 14 "a suspended job keeps its GPUs" && warned 19 37 "by QOS or by partition" && warned 20 34 "no machine sleeps" &&
    sed -i "s/preempt: cancel/preempt: suspend/" site.yaml && stoker render slurm -f site.yaml -o same >out 2>err && warned 19 37 "by QOS or by partition" &&
    { stoker render slurm -f site.yaml -o strict --strict >out 2>err; test $? = 1; }
'
test_expect 'a group in no partition: warned of, or left out where only other targets use it' '
    site "  - {name: k, count: 2, gpus_per_node: 4, gpu: {model: L40S}, cpu_cores: 32, memory: 256GiB}
targets: {kubernetes: {}, slurm: {controller: c, partitions: [{name: p, nodes: [gpu]}]}}" &&
    warned 4 12 "no job runs on the machines of .k.: no partition has them" && grep -q "^NodeName=k" warned/slurm/slurm.conf &&
    cat >>site.yaml <<END &&
components: {w: {kind: service, target: kubernetes, nodes: k, image: "r.example/x:1", ports: [{name: http, port: 8080}]}}
END
    stoker render slurm -f site.yaml -o away >out 2>err && ! grep "no partition has them" err &&
    ! grep "k\\[1-2\\]" away/slurm/slurm.conf away/slurm/gres.conf away/slurm/install.sh &&
    sed -i "s/nodes: \\[gpu\\]/nodes: [gpu, k]/" site.yaml && stoker render slurm -f site.yaml -o both >out 2>err && grep -q "^NodeName=k" both/slurm/slurm.conf
'
test_expect 'names of hosts as Slurm takes them: brackets at the end, groups by their list' '
    cat >site.yaml <<END &&
schema: stoker.spec/1
nodes:
  - {name: a, count: 2, hosts: "r[07-08]-gpu", gpus_per_node: 1, gpu: {model: H100}, cpu_cores: 8, memory: 64GB, rack: r}
  - {name: b, count: 2, hosts: "n[1-2]", gpus_per_node: 1, gpu: {model: H100}, cpu_cores: 8, memory: 64GB, rack: r}
  - {name: d, role: cpu, count: 2, hosts: "n[3-4]", cpu_cores: 8, memory: 64GB, rack: q}
targets: {slurm: {controller: c, partitions: [{name: p, nodes: [a, b, d]}]}}
END
    stoker render slurm -f site.yaml -o names && ! grep -h "\]-gpu" names/slurm/*.conf &&
    grep -q "^NodeName=r07-gpu,r08-gpu " names/slurm/slurm.conf && grep -q "^SwitchName=r Nodes=r07-gpu,r08-gpu,n\[1-2\]" names/slurm/topology.conf &&
    grep -q "! among .n\[1-2\]. || echo .gpu." names/slurm/prolog.sh && ! grep -q "n\[3-4\]" names/slurm/prolog.sh
'
test_expect 'the page applies with install.sh, which knows every file that is rendered' '
    one "targets: {slurm: {controller: localhost}}" && stoker render doc -f site.yaml -o page >/dev/null && cat page/doc/index.html >page.txt &&
    grep -q "slurm/install.sh --all" page.txt && ! grep -q "cp slurm/" page.txt &&
    for f in $(cd one/slurm && find . -maxdepth 1 -type f ! -name install.sh ! -name accounts.sh); do
        grep -q -- "${f#./}" one/slurm/install.sh || { echo "$f is not installed"; exit 1; }
    done
'
if [ "$(id -u)" = 0 ] && id slurm >/dev/null 2>&1; then
    test_expect 'install.sh: every file, with its owner and mode, and the way back' '
        one "targets: {slurm: {controller: localhost}}" && DESTDIR=$TMP/dest sh one/slurm/install.sh &&
        modes() { (cd dest && find etc var -type f -o -name slurmctld -o -name slurm -path "*log*" | sort | xargs stat -c "%A %U:%G %n"); } &&
        modes && test "$(stat -c "%a %U:%G" dest/etc/slurm/slurmdbd.conf)" = "600 slurm:slurm" &&
        test "$(stat -c "%a %U:%G" dest/etc/slurm/prolog.sh)" = "755 root:root" &&
        test "$(stat -c "%a %U:%G" dest/etc/slurm/slurm.conf)" = "644 root:root" &&
        test "$(stat -c "%a %U:%G" dest/var/spool/slurmctld)" = "700 slurm:slurm" &&
        for f in one/slurm/*.conf; do cmp "$f" "dest/etc/slurm/${f##*/}" || exit 1; done &&
        one "targets: {slurm: {controller: localhost, cluster: other}}" && DESTDIR=$TMP/dest sh one/slurm/install.sh &&
        DESTDIR=$TMP/dest sh one/slurm/install.sh &&
        grep -q "^ClusterName=other" dest/etc/slurm/slurm.conf && DESTDIR=$TMP/dest sh one/slurm/install.sh --back &&
        grep -q "^ClusterName=cluster" dest/etc/slurm/slurm.conf
    '
else
    test_skip 'install.sh: every file, with its owner and mode, and the way back' 'needs root and a user slurm'
fi

# --- the batch scripts at work: srun runs one task a machine, scontrol names four hosts ---
mkdir bin && cat >bin/srun <<'END'
#!/bin/bash
if [ "$1" = --help ]; then echo "${SRUN_HELP- --container-image=IMAGE}"; exit; fi
echo "$*" >srun.log
while [[ $1 == -* ]]; do shift; done
[[ $1 != *apptainer ]] || while [ "$1" != bash ]; do shift; done
pids=()
trap 'kill -USR1 "${pids[@]}"' USR1 # tasks, and nothing below them
trap 'kill -TERM "${pids[@]}"' TERM
for ((i = 0; i < SLURM_NNODES * ${SLURM_NTASKS_PER_NODE:-1}; i++)); do
    SLURM_PROCID=$i SLURM_NODEID=$((i / ${SLURM_NTASKS_PER_NODE:-1})) \
        SLURM_LOCALID=$((i % ${SLURM_NTASKS_PER_NODE:-1})) "$@" &
    pids+=($!)
done
rc=0
for p in "${pids[@]}"; do
    wait "$p"; r=$?
    while kill -0 "$p" 2>/dev/null; do wait "$p"; r=$?; done
    [ $r = 0 ] || rc=$r
done
exit $rc
END
cat >bin/scontrol <<'END'
#!/bin/sh
case "$*" in
"show hostnames "*) printf 'gpu%s\n' 7 8 9 10 ;;
"-o show job "*) echo "JobId=42 EndTime=$(date -d "${LEFT:-9} minutes" +%Y-%m-%dT%H:%M:%S) Deadline=N/A PreemptTime=${PREEMPTED:-None}" ;;
"-d -o show job "*) echo "JobId=42 DerivedExitCode=${DERIVED:-0}:0" ;;
*) echo "$*" >>scontrol.log ;;
esac
END
cat >bin/stoker <<'END'
#!/bin/sh
echo "export NCCL_IB_HCA=mlx5"
END
for p in torchrun deepspeed accelerate python trainer; do
    cat >bin/$p <<'END'
#!/bin/bash
printf '%s\n' "${NODE_RANK-} ${RANK-} ${LOCAL_RANK-} $MASTER_ADDR:$MASTER_PORT $NNODES $WORLD_SIZE ${NCCL_IB_HCA-}: ${0##*/} $*" >>ran.log
printf '%s' "${GREETING-}" >greeting.log
for a; do printf '<%s>' "$a" >>words.log; done
[ -z "${SAVES-}" ] || { setsid python3 saver.py; exit; } # below the launcher, as a session of its own
exit "${TRAINER_RC:-0}"
END
done
cat >saver.py <<'END'
import signal, sys, time
def save(*_):
    open("ran.log", "a").write("saved\n")
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
open("ready.log", "a").write("ready\n")
time.sleep(20)
sys.exit(1)
END
chmod +x bin/*
# job SCRIPT [VAR=VALUE...]
job() { (start "$@"); }
start() {
    script=$1
    shift
    rm -f ran.log words.log scontrol.log ready.log
    exec env PATH="$TMP/bin:$PATH" SLURM_JOB_NODELIST='gpu[7-10]' SLURM_NNODES=2 SLURM_CPUS_PER_TASK=4 \
        SLURM_JOB_ID=42 SLURM_JOB_NAME=j SLURM_SUBMIT_DIR="$TMP" "$@" bash "$script"
}
touch train.py t.py sweep.py
test_expect 'ranks follow SLURM_PROCID, the first host is the master' '
    job $L/sbatch/train-13b.sbatch && sort ran.log >ran && cat ran &&
    test "$(wc -l <ran)" = 2 &&
    sed -n 1p ran | grep -q "^0   gpu7:29500 2 16 mlx5: torchrun --nnodes=2 --nproc-per-node=8 --node-rank=0 --master-addr=gpu7 --master-port=29500 .*train.py --model 13b$" &&
    sed -n 2p ran | grep -q "^1   gpu7:29500 2 16 mlx5: torchrun .*--node-rank=1 "
'
test_expect 'a failure is requeued until the restarts are used up' '
    job $L/sbatch/train-13b.sbatch TRAINER_RC=9; test $? = 75 &&
    { job $L/sbatch/train-13b.sbatch TRAINER_RC=9 SLURM_RESTART_COUNT=3; test $? = 9; } &&
    { job $L/sbatch/train-13b.sbatch TRAINER_RC=75 SLURM_RESTART_COUNT=3; test $? = 1; }
'
test_expect 'what would fail again is not requeued, whichever rank it was' '
    for rc in 2 64 66 77 78 126 127; do
        job $L/sbatch/train-13b.sbatch TRAINER_RC=$rc >out 2>&1; test $? = $rc &&
        grep -q "failed with status $rc: a restart would not help" out || { cat out; exit 1; }
    done
    { job $L/sbatch/train-13b.sbatch TRAINER_RC=137 DERIVED=127; test $? = 127; } &&
    { job $L/sbatch/train-13b.sbatch TRAINER_RC=137 DERIVED=1; test $? = 75; }
'
test_expect 'a program that is not there is told, and not tried again' '
    mv train.py away.py && { job $L/sbatch/train-13b.sbatch >out 2>&1; test $? = 127; } && mv away.py train.py &&
    grep -q "^j: .train.py. is not found on " out && test ! -e ran.log
'
test_expect 'an image in a file: squashed by pyxis or apptainer, .sif by apptainer alone, elsewhere refused' '
    cat >file.yaml <<-E &&
	nodes: [{name: g, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TB}]
	components:
	  q: {kind: batch, target: slurm, gpus: 1, image: /srv/box.sqsh, command: [x]}
	  s: {kind: batch, target: slurm, gpus: 1, image: /srv/box.sif, command: [x]}
	targets: {slurm: {controller: g1}}
	E
    stoker spec check file.yaml >out 2>err && stoker render slurm -f file.yaml -o file >out 2>err &&
    grep -q -e "--container-image=/srv/box.sqsh)" file/slurm/sbatch/q.sbatch &&
    grep -q "exec --nv \"\$image\"" file/slurm/sbatch/q.sbatch && ! grep -rq docker:// file/slurm/sbatch &&
    ! grep -q container-image= file/slurm/sbatch/s.sbatch && bash -n file/slurm/sbatch/s.sbatch &&
    grep -q "^image=/srv/box.sif" file/slurm/sbatch/s.sbatch && grep -q "^if apptainer=" file/slurm/sbatch/s.sbatch &&
    { stoker render kubernetes -f file.yaml -o kube >out 2>err; test $? = 1; } && test ! -e kube &&
    grep -q "^file.yaml:3:51: ./srv/box.sqsh. is the path of a file, and only Slurm" err
'
test_expect 'an image: by pyxis, by apptainer, and a message where there is neither' '
    job $L/sbatch/train-13b.sbatch &&
    grep -q -- "--container-image=registry.example.org#llm/train:24.10 --container-mounts=/lustre:/lustre,/home:/home bash " srun.log &&
    { job $L/sbatch/train-13b.sbatch SRUN_HELP= >out 2>&1; test $? = 127; } &&
    grep -q "^j: neither pyxis nor apptainer is on .* to run the image .registry.example.org/llm/train:24.10." out &&
    test ! -e ran.log &&
    printf "#!/bin/sh\n" >bin/apptainer && chmod +x bin/apptainer &&
    job $L/sbatch/train-13b.sbatch SRUN_HELP= && rm bin/apptainer && test "$(wc -l <ran.log)" = 2 &&
    grep -q "/apptainer exec --nv --bind=/lustre:/lustre,/home:/home docker://registry.example.org/llm/train:24.10 bash " srun.log
'
test_expect 'on notice the trainer saves, and the job is requeued' '
    (start $L/sbatch/train-13b.sbatch SAVES=1) &
    pid=$!
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        test "$(grep -c ready ready.log 2>/dev/null)" = 2 && break
        sleep 0.5
    done
    kill -USR1 "$pid"; wait "$pid"
    test "$(grep -c saved ran.log)" = 2 && grep -qx "requeue 42" scontrol.log
'
# noticed SCRIPT [VAR=VALUE...]: the program is there when the notice comes, and stays 3 s more
noticed() {
    rm -f ready.log
    (start "$@" SLURM_NNODES=1) >noticed.out &
    pid=$!
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        test -e ready.log && break
        sleep 0.5
    done
    kill -USR1 "$pid"
    wait "$pid"
}
test_expect 'a batch job at its time limit does not begin again; one that must make way does' '
    one "components:
  b: {kind: batch, target: slurm, gpus: 1, command: [slow], time_limit: 1h}
targets: {slurm: {}}" && printf "#!/bin/sh\ntouch ready.log\nsleep 3\nexit \"\${SLOW_RC:-9}\"\n" >bin/slow && chmod +x bin/slow &&
    { noticed one/slurm/sbatch/b.sbatch LEFT=2; test $? = 9; } && test ! -e scontrol.log && grep -q "no checkpoint to go on from" noticed.out &&
    noticed one/slurm/sbatch/b.sbatch LEFT=2 SLOW_RC=0 && test ! -e scontrol.log &&
    { noticed one/slurm/sbatch/b.sbatch LEFT=9; true; } && grep -qx "requeue 42" scontrol.log &&
    { noticed one/slurm/sbatch/b.sbatch LEFT=2 PREEMPTED=2026-01-01T00:00:00; true; } && grep -qx "requeue 42" scontrol.log &&
    grep -q at_limit one/slurm/sbatch/b.sbatch && ! grep -q at_limit $L/sbatch/train-13b.sbatch
'
test_expect 'a sweep: a task takes the words of its line' '
    cp $L/sbatch/sweep.tasks.example sweep.tasks &&
    job $L/sbatch/sweep.sbatch SLURM_NNODES=1 SLURM_ARRAY_TASK_ID=2 &&
    grep -qx "<sweep.py><--seed><2><--note><two words>" words.log &&
    ! job $L/sbatch/sweep.sbatch SLURM_NNODES=1 SLURM_ARRAY_TASK_ID=3 &&
    job $L/sbatch/sweep.sbatch SLURM_NNODES=1 && grep -qx "<sweep.py>" words.log
'
test_expect 'a sweep is submitted with as many tasks as there are lines' '
    printf "#!/bin/sh\necho \"\$*\" >sbatch.log\n" >bin/sbatch && chmod +x bin/sbatch &&
    PATH="$TMP/bin:$PATH" bash $L/sbatch/sweep.submit.sh sweep.tasks --hold &&
    grep -q -- "^--array=0-2%128 --output=%x-%A_%a.out --export=ALL,TASKS=$TMP/sweep.tasks --hold .*/sweep.sbatch$" sbatch.log
'
# frame FRAMEWORK COMMAND: a training component with it
frame() {
    one "components:
  t:
    kind: training
    target: slurm
    gpus: 2
    nodes_per_replica: 2
    command: $2
    env: {GREETING: \"it's \$HOME \`x\` \\\\\\nand #more\"}
    time_limit: ${3:-1h}
    training: {framework: $1, precision: fp16, rendezvous: {port: 1234}}
targets: {slurm: {}}"
}
test_expect 'launchers: deepspeed, accelerate, a module, a program, the command itself' '
    frame deepspeed "[python, t.py, --x]" && job one/slurm/sbatch/t.sbatch &&
    grep -q "^1   gpu7:1234 2 4 mlx5: deepspeed --no_ssh --hostfile [^ ]* --node_rank 1 --master_addr gpu7 --master_port 1234 t.py --x$" ran.log &&
    test ! -e "$(sed -n "s/.*--hostfile \([^ ]*\).*/\1/p" ran.log | head -n 1)" &&
    frame accelerate "[python, -m, pkg.t]" && job one/slurm/sbatch/t.sbatch &&
    grep -q "accelerate launch --num_machines 2 --num_processes 4 --machine_rank 1 --main_process_ip gpu7 --main_process_port 1234 --rdzv_backend static --multi_gpu --mixed_precision fp16 --dynamo_backend no -m pkg.t$" ran.log &&
    printf "it'"'"'s \$HOME \`x\` \\\\\nand #more" | cmp - greeting.log &&
    frame torchrun "[trainer, --x]" && job one/slurm/sbatch/t.sbatch && grep -q "torchrun .* --no-python trainer --x$" ran.log &&
    frame torchrun "[/opt/venv/bin/python3.11, t.py]" && grep -q "set -- /opt/venv/bin/python3.11 -m torch.distributed.run --nnodes" one/slurm/sbatch/t.sbatch &&
    grep -q -- " --no-python /opt/venv/bin/python3.11 t.py" one/slurm/sbatch/t.sbatch && ! grep -q "command -v torchrun" one/slurm/sbatch/t.sbatch &&
    frame torchrun "[t.py, --x]" && job one/slurm/sbatch/t.sbatch && grep -q "torchrun .* --rdzv-conf=timeout=[0-9]* t.py --x$" ran.log &&
    frame torchrun "[-m, pkg.t, --x]" && job one/slurm/sbatch/t.sbatch && grep -q "torchrun .* --rdzv-conf=timeout=[0-9]* -m pkg.t --x$" ran.log &&
    frame deepspeed "[-m, pkg.t]" && job one/slurm/sbatch/t.sbatch && grep -q "deepspeed .* --module pkg.t$" ran.log &&
    frame torchrun "[torchrun, --log-dir, l, t.py, --x]" && job one/slurm/sbatch/t.sbatch && grep -q "torchrun .* --rdzv-conf=timeout=[0-9]* --log-dir l t.py --x$" ran.log &&
    frame deepspeed "[deepspeed, t.py]" && job one/slurm/sbatch/t.sbatch && grep -q "deepspeed .* --master_port 1234 t.py$" ran.log &&
    frame accelerate "[accelerate, launch, t.py]" && job one/slurm/sbatch/t.sbatch && grep -q "accelerate launch --num_machines .* --dynamo_backend no t.py$" ran.log &&
    frame torchrun "[/opt/venv/bin/torchrun, t.py]" && grep -q "set -- /opt/venv/bin/torchrun --nnodes" one/slurm/sbatch/t.sbatch && ! grep -q "command -v torchrun" one/slurm/sbatch/t.sbatch &&
    frame torchrun "[gone.py]" && ! job one/slurm/sbatch/t.sbatch 2>gone.err && grep -q "gone.py. is not found on" gone.err &&
    frame other "[trainer, \"a b\", \"\$(touch pwned)\"]" && grep -q "^#SBATCH --ntasks-per-node=2 " one/slurm/sbatch/t.sbatch &&
    job one/slurm/sbatch/t.sbatch SLURM_NTASKS_PER_NODE=2 && cat ran.log && test ! -e pwned &&
    grep -q "^1 3 1 gpu7:1234 2 4 mlx5: trainer a b \$(touch pwned)$" ran.log &&
    grep -q "^0 0 0 gpu7" ran.log && test "$(wc -l <ran.log)" = 4
'
test_expect 'a short job is given no notice, and none is longer than a quarter of the limit' '
    frame torchrun "[trainer]" 5m && ! grep -q "^#SBATCH --signal" one/slurm/sbatch/t.sbatch &&
    sed "s/memory: 1TB/memory: 1TB, notice: 2h/" site.yaml >edited.yaml &&
    sed -i "s/time_limit: 5m/time_limit: 1h/" edited.yaml && stoker render slurm -f edited.yaml -o notice &&
    grep -q "^#SBATCH --signal=B:USR1@900 " notice/slurm/sbatch/t.sbatch
'

# --- prolog and power scripts with stand-ins ---
checked() { # STATUS SCRIPT: what the script does when stoker detect --check ends so
    rm -f scontrol.log
    printf "#!/bin/sh\nprintf \"gpu\\\\n  FAIL     GPUs   8 expected, 7 answer\\\\n\"\nexit %s\n" "$1" >bin/stoker
    printf "#!/bin/sh\n" >bin/sinfo && printf "#!/bin/sh\n" >bin/logger && chmod +x bin/*
    sed "s|^export PATH=|&$TMP/bin:|" "$L/$2" >script &&
    env SLURMD_NODENAME=gpu7 SLURM_JOB_GPUS=0,1 bash script
}
test_expect 'prolog: a failed check drains the machine with its reason and sends the job away' '
    checked 0 prolog.sh && test ! -e scontrol.log &&
    { checked 1 prolog.sh; test $? = 1; } &&
    grep -qx "update nodename=gpu7 state=drain reason=stoker prolog: GPUs 8 expected, 7 answer" scontrol.log &&
    checked 2 prolog.sh && test ! -e scontrol.log
'
test_expect 'epilog and health check drain and do not fail' '
    checked 1 epilog.sh && grep -q "state=drain reason=stoker epilog: " scontrol.log &&
    checked 1 healthcheck.sh && grep -q "state=drain reason=stoker health: " scontrol.log
'
power() { # STATUS SCRIPT: the script with a site program that ends so
    rm -f scontrol.log power.log
    printf "#!/bin/sh\necho \"\$*\" >site.log\ngrep SigBlk /proc/self/status >>site.log\nexit %s\n" "$1" >bin/site && chmod +x bin/site
    sed "s|^export PATH=|&$TMP/bin:|; s|^log=[^ ]*|log=$TMP/power.log|; s|^program=[^ ]*|program=$TMP/bin/site|" "$L/$2" >script &&
    bash script "spot[7-10]"
}
test_expect 'resume calls the program of the site with host names, suspend too' '
    power 0 resume.sh && grep -qx "gpu7 gpu8 gpu9 gpu10" site.log && grep -q "starting gpu7" power.log &&
    test ! -e scontrol.log && power 0 suspend.sh && grep -qx "gpu7 gpu8 gpu9 gpu10" site.log
'
test_expect 'what cannot be started is set down and powered down; what cannot be stopped is seen' '
    ! power 3 resume.sh && sed -n 1p scontrol.log | grep -q "nodename=spot\[7-10\] state=down reason=stoker: resume failed (3)" &&
    sed -n 2p scontrol.log | grep -q "nodename=spot\[7-10\] state=power_down" &&
    ! power 3 suspend.sh && grep -q "state=drain reason=stoker: suspend failed (3)" scontrol.log &&
    power 0 resumefail.sh && grep -q "nodename=spot\[7-10\] state=power_down" scontrol.log
'
test_expect 'signals that slurmctld blocks are free in the program of the site' '
    power 0 resume.sh && python3 -c "
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])
os.execvp(\"bash\", [\"bash\", \"script\", \"spot[7-10]\"])" && grep -q "SigBlk:.0*$" site.log
'
test_expect 'checkpoints on the disk of one machine are told where the job may go on elsewhere' '
    ck() { # CAPACITY MACHINES KIND
        cat >ck.yaml <<END
schema: stoker.spec/1
nodes: [{name: g, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: 1TB, capacity: $1, local_disk: 4TB}]
storage: [{name: l, kind: $3, path: /scratch, size: 1TB}]
components:
  t: {kind: training, target: slurm, nodes: g, gpus: 8, nodes_per_replica: $2, command: [x], queued: true, training: {checkpoint: {path: /scratch/ck}}}
targets: {slurm: {cluster: x, controller: g1}}
END
        rm -rf ck && stoker render slurm -f ck.yaml -o ck >/dev/null 2>err
    } &&
    ck owned 1 local && ! grep -q checkpoints err && ck owned 2 nfs && ! grep -q checkpoints err &&
    ck owned 2 local && grep -q "5:[0-9]*: warning: checkpoints of .t. are on the disk of a machine, .l., and a job of several" err &&
    ck spot 1 local && grep -q "5:[0-9]*: warning: checkpoints of .t. are on the disk of a machine, .l., and spot machines" err
'
test_expect 'commands.md: the database user comes before slurmdbd, and neither without accounting' '
    one "targets: {slurm: {cluster: x, controller: gpu1}}" && grep -A1 "mariadb  *# once" one/slurm/commands.md | grep -q "restart slurmdbd" &&
    one "targets: {slurm: {cluster: x, controller: gpu1, accounting: {enabled: false}}}" && ! grep -q slurmdbd one/slurm/commands.md
'
cat >wishes.yaml <<'END'
nodes:
  - {name: whole, count: 2, gpus_per_node: 4, gpu: {model: H100}, cpu_cores: 64, memory: 512GB}
  - {name: cut, count: 4, gpus_per_node: 4, gpu: {model: A100-80GB, sharing: mig, mig_profile: 1g.10gb}, cpu_cores: 64, memory: 512GB}
targets:
  slurm:
    controller: ctl
    preempt: requeue
    partitions:
      - {name: train, nodes: [whole], default: true, preempt: off}
      - {name: small, nodes: [cut]}
    qos: {high: {preempts: [low]}, low: {}}
    accounts: {all: {users: [games]}}
END
test_expect 'a partition that says preempt: off where QOS preempt is told so, one that says nothing is not' '
    stoker spec check wishes.yaml >/dev/null 2>err && grep -q "^wishes.yaml:9:[0-9]*: warning: a cluster preempts by QOS or by partition" err &&
    test "$(grep -c "by QOS or by partition" err)" = 1 || { cat err; exit 1; }
'
test_expect 'MIG: one instance of a GPU is one' '
    sed "s/1g.10gb/7g.80gb/" wishes.yaml >one-cut.yaml && stoker render slurm -f one-cut.yaml -o one-cut >/dev/null 2>err && grep -q "must have 1 instance of 7g.80gb" err || { cat err; exit 1; }
'
test_expect 'MIG: who cuts the GPUs, and what slurmd needs to see it' '
    stoker render slurm -f wishes.yaml -o wishes >/dev/null 2>err && grep -q "^wishes.yaml:3:[0-9]*: warning: slurm cuts no GPU: .*7 instances of 1g.10gb" err &&
    grep -q "nvidia-smi mig -cgi 1g.10gb,1g.10gb,1g.10gb,1g.10gb,1g.10gb,1g.10gb,1g.10gb -C" wishes/slurm/commands.md &&
    grep -q "nvidia-smi -mig 1 .*# on cut\[1-4\]" wishes/slurm/commands.md && grep -q "slurm-wlm-nvml-plugin" wishes/slurm/commands.md ||
    { cat err wishes/slurm/commands.md; exit 1; }
'
test_expect 'several partitions and no default are told; one is the default itself' '
    sed "s/ default: true,//" wishes.yaml >nodefault.yaml && stoker spec check nodefault.yaml >/dev/null 2>err &&
    grep -q "^nodefault.yaml:9:[0-9]*: warning: no partition is the default" err && ! { stoker spec check wishes.yaml 2>&1 | grep -q "is the default"; } &&
    sed "/name: small/d" nodefault.yaml >one.yaml && ! { stoker spec check one.yaml 2>&1 | grep -q "is the default"; }
'
test_expect 'variables of the environment name the key they come from' '
    cat >env.yaml <<"END" &&
nodes: [{name: g, gpus_per_node: 1, gpu: {model: H100}, cpu_cores: 8, memory: 64GB}]
nccl: {env: {NCCL_DEBUG: INFO}}
components: {t: {kind: batch, target: slurm, nodes: g, command: [x], env: {FOO: "1", BAR: two words}}}
targets: {slurm: {}}
END
    stoker render slurm -f env.yaml -o env >/dev/null 2>&1 && grep -q "export FOO=1 # components.t.env.FOO$" env/slurm/sbatch/t.sbatch &&
    grep -q "export BAR=.two words. # components.t.env.BAR$" env/slurm/sbatch/t.sbatch && grep -q "export NCCL_DEBUG=INFO # nccl.env.NCCL_DEBUG$" env/slurm/sbatch/t.sbatch
'
test_expect 'jobs that take turns keep what they have: told' '
    sed "s/^    preempt: requeue/    gang: true/;/qos: {high/d" wishes.yaml >gang.yaml && stoker spec check gang.yaml >/dev/null 2>err &&
    grep -q "^gang.yaml:7:[0-9]*: warning: jobs that take turns keep their memory and their GPUs" err || { cat err; exit 1; }
'
test_done
