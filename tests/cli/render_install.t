#!/bin/sh
# SPDX-License-Identifier: MIT
# What the manifests rely on is there before them: the dry run of node-prepare.sh and install.sh, read
# line by line by tests/render/install.py; and applying again does not reset what was scaled.
. "$(dirname "$0")/lib.sh"
python=
for p in ${PYTHON:-python3} /usr/bin/python3; do
    "$p" -c 'import yaml' 2>/dev/null && python=$p && break
done
[ -n "$python" ] || { test_skip "the order of installation" "no python3-yaml: tools/setup test"; test_done; }

# A kubectl that keeps the counts it is told, in a file each.
mkdir bin counts
cat >bin/kubectl <<'END'
#!/bin/sh
case "$*" in
*" get deployment/"* | *" get statefulset/"*) cat "$COUNTS/$(echo "$4" | tr / _)" 2>/dev/null || exit 1 ;;
*" scale "*) echo "${5#--replicas=}" >"$COUNTS/$(echo "$4" | tr / _)" ;;
apply*) for f in "$COUNTS"/*; do [ -z "${RESET-}" ] || echo 1 >"$f"; done ;;
esac
END
cp bin/kubectl bin/oc
printf '#!/bin/sh\n' >bin/helm
chmod +x bin/*
export COUNTS="$TMP/counts"
stoker render kubernetes -f "$TOP/tests/fixtures/render/kube.yaml" -o kube >/dev/null 2>&1
manifests() { PATH="$TMP/bin:$PATH" sh "$1" --apply manifests; }
test_expect 'new: the count of the spec' '
    manifests kube/kubernetes/node-prepare.sh && test "$(cat counts/deployment_api)" = 2 && test "$(cat counts/deployment_web)" = 2'
test_expect 'again: what was scaled since stays, also where an older file had a count' '
    echo 5 >counts/deployment_api && manifests kube/kubernetes/node-prepare.sh && test "$(cat counts/deployment_api)" = 5 &&
    RESET=1 manifests kube/kubernetes/node-prepare.sh && test "$(cat counts/deployment_api)" = 5'
stoker spec example rdma-openshift >shift.yaml && stoker render openshift -f shift.yaml -o shift >/dev/null 2>&1
test_expect 'OpenShift: the same' '
    manifests shift/openshift/install.sh && test "$(cat counts/statefulset_trainer)" = 2 &&
    echo 0 >counts/statefulset_trainer && manifests shift/openshift/install.sh && test "$(cat counts/statefulset_trainer)" = 0'
mkdir sites
"$python" "$TOP/tests/render/install.py" "$BUILD/stoker" "$TMP/sites" >said
sed 's/^1\.\..*//;s/^ok [0-9]*/ok/;s/^not ok [0-9]*/not ok/' said >lines
while read -r line; do
    case $line in
    "ok - "*) test_expect "${line#ok - }" true ;;
    "not ok - "*) test_expect "${line#not ok - }" false ;;
    "#"*) echo "$line" ;;
    esac
done <lines
test_expect 'the reader came to its end' 'grep -q "^1\.\." said'
# the kinds that `make test-kube` sends objects to are those of the releases that the scripts install
kinds_of_another_release() {
    sed -n 's/^kinds [^ ]* \(kube-prometheus-stack-\)\{0,1\}v\{0,1\}\([^ ]*\) .*/\2/p' "$TOP/tools/kube-assets" | while read -r v; do
        grep -q "\"v\{0,1\}$v\"" "$TOP/src/render/kubernetes/kubernetes_install.c" "$TOP/src/render/k8s/k8s_int.h" || echo "$v"
    done
}
test_expect 'kinds of tools/kube-assets are of the releases that node-prepare.sh installs' '
    test "$(grep -c "^kinds " "$TOP/tools/kube-assets")" = 9 && test -z "$(kinds_of_another_release)"
'
test_done
