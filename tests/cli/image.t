#!/bin/sh
# SPDX-License-Identifier: MIT
# Images: the repository's own Containerfile and those that are rendered keep the rules of
# tests/render/containerfile.py, and Debian's buildah builds them.  No registry is asked: the base is a
# busybox whose apt-get, pip and make write down how they were called, so that what is shown is that
# the recipe works, not that a package is there.
. "$(dirname "$0")/lib.sh"

rules() {
    PYTHONPATH=$TOP/tests/render PYTHONDONTWRITEBYTECODE=1 python3 -c '
import containerfile, sys
faults = [f for p in sys.argv[1:] for f in containerfile.faults(open(p).read())]
print(*faults, sep="\n")
sys.exit(bool(faults))' "$@"
}

test_expect 'the repository has a Containerfile that keeps the rules: two stages, pinned, no root' '
    rules "$TOP/Containerfile" && test "$(grep -c "^FROM" "$TOP/Containerfile")" = 2 &&
    grep -q "^COPY --from=build /out/stoker /usr/local/bin/stoker" "$TOP/Containerfile" && grep -q "^USER [1-9]" "$TOP/Containerfile" &&
    grep -qx .git "$TOP/.containerignore" && grep -qx build "$TOP/.containerignore"
'
test_expect 'it installs what the build needs, as tools/setup does' '
    for p in $(sed -n "s/^build=\"\(.*\)\"/\1/p" "$TOP/tools/setup"); do grep -q " $p " "$TOP/Containerfile" || { echo "$p is missing"; exit 1; }; done
'

stoker spec example rdma-openshift >site.yaml
test_expect 'base, packages, Python packages and files of the spec are in the image' '
    stoker render openshift -f site.yaml -o out --strict && f=out/openshift/Containerfile && rules $f &&
    grep -qx "ARG BASE=docker.io/pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime" $f && grep -q "^    git " $f &&
    grep -q "^    .torchtitan==0.1.0." $f && grep -qx "COPY train.toml /opt/trainer/train.toml" $f
'
cat >two.yaml <<'END'
schema: stoker.spec/1
nodes: [{name: n, gpus_per_node: 2, gpu: {model: H100}}]
software: {cuda: "12.4", nccl: "2.27"}
storage: [{name: data, kind: local, path: /data, size: 1TB}]
components:
  a:
    kind: batch
    target: compose
    nodes: n
    gpus: 1
    image: registry.example.org/a:1.0
    command: [python3, a.py]
    workdir: /app
    build: {pip: ["transformers>=4.40,<5"], copy: [a.py, "conf/:/etc/a/"]}
    mounts: [{storage: data, path: /data}]
targets: {compose: {}, kubernetes: {}}
END
test_expect 'compose builds its services; kubernetes has the recipe beside the manifests; the base has what software asks for' '
    stoker render compose kubernetes -f two.yaml -o two >/dev/null 2>&1 && rules two/compose/Containerfile.a &&
    grep -q "dockerfile: Containerfile.a" two/compose/compose.yaml && grep -q "^ARG BASE=.*:2.8.0-cuda12.8" two/compose/Containerfile.a &&
    grep -qx "COPY a.py /app/" two/compose/Containerfile.a && grep -qx "COPY conf/ /etc/a/" two/compose/Containerfile.a
'
test_expect 'hostile words are refused at their line, a file that a volume hides is a warning' '
    for bad in "pip: [\"x; rm -rf /\x27\"]" "pip: [--index-url=http://x]" "packages: [\"a b\"]" "packages: [-o]" "copy: [../x]" "copy: [/etc/passwd]" \
        "copy: [\"a:b\"]" "base: \"a b\""; do
        printf "%s\n" "$(sed "s|build: {.*}|build: {BAD}|" two.yaml)" | BAD=$bad awk "{ i = index(\$0, \"BAD\"); if (i) \$0 = substr(\$0, 1, i - 1) ENVIRON[\"BAD\"] substr(\$0, i + 3); print }" >bad.yaml
        if stoker render compose -f bad.yaml -o bad 2>err || ! grep -q "^bad.yaml:14:" err; then echo "$bad"; cat err; exit 1; fi
    done
    sed "s|\"conf/:/etc/a/\"|\"conf/:/data/conf/\"|" two.yaml >hid.yaml && stoker render compose -f hid.yaml -o hid 2>err >/dev/null &&
    grep -q "^hid.yaml:14:.*warning: storage .data. at ./data. hides" err
'

if ! command -v buildah >/dev/null || ! command -v busybox >/dev/null; then
    test_skip 'buildah builds them' 'buildah or busybox is not here: tools/setup test'
    test_done
fi
if ! plain_build; then
    test_skip 'buildah builds them' "$ONCE"
    test_done
fi
build() { buildah --storage-driver vfs --root "$TMP/store" --runroot "$TMP/run" build --isolation chroot --pull-never "$@" >log 2>&1; }
cat >stub <<'END'
#!/bin/sh
echo "${0##*/} $*" >>/called
[ "${0##*/}" != make ] || { mkdir -p build && cp /usr/bin/stoker-made build/stoker; }
END
mkdir -p base/bin base/usr/bin base/tmp base/etc base/var/lib/apt/lists && cp "$(command -v busybox)" base/bin/busybox
for a in sh cat chgrp chmod cp ls mkdir nproc rm; do ln -s busybox base/bin/$a; done
for a in apt-get python3 make; do install -m 755 stub base/usr/bin/$a; done
cp "$BUILD/stoker" base/usr/bin/stoker-made
ldd "$BUILD/stoker" | sed -n 's/.*[[:space:]]\(\/[^ ]*\) (.*/\1/p' | while read -r lib; do install -D "$lib" "base$lib"; done
echo root:x:0:0::/:/bin/sh >base/etc/passwd
printf 'FROM scratch\nCOPY base/ /\n' >Base
if ! build -t localhost/base:1 -f Base . || ! { printf 'FROM localhost/base:1\nRUN ls /\n' >Try; build -t localhost/try:1 -f Try .; }; then
    test_skip 'buildah builds them' "it cannot here: $(tail -1 log | cut -c1-80)"
    test_done
fi
# image IMAGE FORMAT
image() { buildah --storage-driver vfs --root "$TMP/store" --runroot "$TMP/run" inspect --type image --format "$2" "$1"; }
file_of() { printf 'FROM %s\nUSER 0\nRUN cat %s >&2\n' "$1" "$2" >Show && build -t localhost/show:1 -f Show . && cat log; }

test_expect 'the training image of the example is built: packages asked for, stoker runs, the file is there, no root' '
    mkdir ctx && cp out/openshift/Containerfile ctx/ && cp "$BUILD/stoker" ctx/stoker && echo hello >ctx/train.toml &&
    { build --build-arg BASE=localhost/base:1 -t localhost/trainer:1 ctx || { cat log; false; }; } &&
    test "$(image localhost/trainer:1 "{{.OCIv1.Config.User}}")" = 1001 &&
    file_of localhost/trainer:1 /called >called && grep -q "apt-get install .*libibverbs1.* git" called &&
    grep -q "python3 -m pip install --no-cache-dir torchtitan==0.1.0" called && file_of localhost/trainer:1 /opt/trainer/train.toml | grep -q hello ||
    { echo "user: $(image localhost/trainer:1 "{{.OCIv1.Config.User}}")"; cat called log; false; }
'
test_expect 'stoker'"'"'s own image is built in two stages: small, its program the entry point, no compiler left' '
    mkdir own && cp "$TOP/Containerfile" "$TOP/.containerignore" own/ && echo x >own/Makefile &&
    { build --build-arg DEBIAN=localhost/base:1 -t localhost/stoker:1 own || { cat log; false; }; } &&
    test "$(image localhost/stoker:1 "{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Cmd}}")" = "65532:0 [/usr/local/bin/stoker] [detect]" &&
    printf "FROM localhost/stoker:1\nUSER 0\nRUN test ! -e /src && ! grep -q gcc /called && grep -q libcurl4 /called && stoker --version >&2\n" >Show && build -t localhost/s:1 -f Show . && grep -q "^stoker [0-9]" log
'
test_done
