#!/bin/sh
# Every `stoker …` line that people read is one the program takes: tools/check-lines reads documents,
# examples, pages, scripts, messages, help, man pages and rendered files with the program's own tables.
cd "$(dirname "$0")/../.." || exit 1
b=${BUILD:-build}/stoker
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
n=0 failed=0
check() { # title, command
    n=$((n + 1))
    if log=$(eval "$2" 2>&1); then echo "ok $n - $1"; else
        failed=1
        echo "not ok $n - $1"
        echo "$log" | head -40 | sed 's/^/# /' >&2
    fi
}
finds() { # file, lines that are wrong (as "3 7"): those and no others
    found=$(python3 tools/check-lines "$b" "$tmp/$1" | sed -n "s|^$tmp/$1:\([0-9]*\): .*|\1|p" | sort -nu | tr '\n' ' ')
    [ "${found% }" = "$2" ] || { python3 tools/check-lines "$b" "$tmp/$1" --list; echo "wrong: $found, not $2"; return 1; }
}
check 'all of them parse, and what is planned does not' "python3 tools/check-lines $b"

cat >"$tmp/doc.md" <<'END'
Run `stoker detect --env` or `stoker detect --nope`, then `stoker
fly`. A mention may leave values out: `stoker agent --record`, `stoker completion`.
What stoker says is no command; stoker scale is one.

```console
$ sudo FOO=1 stoker render slurm -f stoker.yaml -o out | tee log
$ eval "$(stoker detect --envs)"          # inside a word
$ stoker plan memory --model llama-3.1-8b \
    --gpus many
stoker fly: what the program prints is not looked at
$ true && stoker spec check && echo done
$ stoker gather >out 2>&1
```

```sh
stoker bench serve http://127.0.0.1:8003     what stands behind two blanks is said about it
stoker render k8s -o out
stoker plan train … --json | --nope
stoker detect --env[=full] --root DIR|TAR
stoker completion bash|zsh|ksh
```

`stoker fly` (planned) is to come, and `stoker detect --env` (planned) is there.
END
check 'Markdown: code, prompts, pipes, continued lines, mentions, sentences' \
    "finds doc.md '1 3 7 8 11 12 17 18 20 23'"
cat >"$tmp/job.sh" <<'END'
#!/bin/sh
# stoker detect --nope is wrong in a comment too
command -v stoker >/dev/null || exit 1
settings=$(stoker detect --env ${peer:+--peer "$peer"}) || exit 1
settings=$(stoker detect --env ${peer:+--pear "$peer"}) || exit 1
exec /usr/bin/stoker agent --port "$port" "$@"
stoker plan memory --model llama-3.1-8b --gpus many
srun -n 1 stoker detect --check gpu,rdma >&2
srun -n 1 stoker detct
cat <<EOT
stoker is a word of this file
EOT
useradd -r stoker
END
check 'scripts: variables, substitutions, wrappers, comments' "finds job.sh '2 5 7 9'"
cat >"$tmp/pod.yaml" <<'END'
# stoker up --nope
kind: Pod
spec:
  containers:
  - name: stoker
    command: ["/usr/local/bin/stoker", agent]
    args: [--listen, 0.0.0.0, --nope]
  - name: ok
    command: [stoker, agent, --port, "8090"]
  - command: [sh, -c, "stoker detect"]
data:
  run: |
    #!/bin/sh
    stoker detect --wrong
END
check 'manifests: commands with their arguments, scripts, comments' "finds pod.yaml '1 6 14'"
cat >"$tmp/a.service" <<'END'
[Service]
ExecStart=/usr/bin/stoker serve -f /etc/stoker/stoker.yaml
ExecStartPre=-/usr/bin/stoker detect --nope
User=stoker
END
check 'units' "finds a.service 3"
check 'a file that is no list of lines is told' \
    "echo '[[\"shout\", \"detect\"]]' >$tmp/x.json; ! $b help --parse $tmp/x.json"
echo "1..$n"
exit $failed
