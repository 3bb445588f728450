# SPDX-License-Identifier: MIT
# nccl_lib: what a test of `stoker detect --env` asks of the machines in $tars.  Sourced after lib.sh.

# env_of MACHINE [ARG...]: its smallest environment, as env.sh, and as one line
env_of() {
    name=$1
    shift
    stoker detect --root "$tars/$name.tar" --env "$@" >env.sh 2>err
    tr '\n' ' ' <env.sh | sed 's/ # / /g; s/#//g' >flat
}
# any other output as one line: flat_of MACHINE ARG...
flat_of() {
    name=$1
    shift
    stoker detect --root "$tars/$name.tar" "$@" >page 2>err
    rc=$?
    tr '\n' ' ' <page | tr -s ' ' >flat
}
sets() { # NAME VALUE: what a shell gets from env.sh; empty when unset
    got=$(env -i PATH="$PATH" sh -c '. ./env.sh && eval "printf %s \"\${$1-}\""' sh "$1")
    test "$got" = "$2" || {
        echo "$1 is '$got', expected '$2'"
        return 1
    }
}
says() {
    grep -qF -- "$1" flat || {
        echo "not said: $1"
        fold -s -w 120 flat
        return 1
    }
}
hides() {
    ! grep -F -- "$1" flat
}
json_of() { # MACHINE PYTHON-EXPRESSION over doc, c, p, env [ARG...]
    name=$1 what=$2
    shift 2
    stoker detect --root "$tars/$name.tar" --env --json "$@" >nccl.json 2>/dev/null &&
        python3 -c '
import json, sys
doc = json.load(open("nccl.json"))
c = doc["choice"]
p = {"%s:%d" % (x["device"], x["port"]): x for x in c["ports"]}
env = {v["name"]: v for v in doc["env"]}
if not eval(sys.argv[1]):
    print(json.dumps(c, indent=1)[:4000])
    sys.exit(1)' "$what"
}
