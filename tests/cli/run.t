#!/bin/sh
# SPDX-License-Identifier: MIT
# tools/run, the end of `make run`: without a terminal it ends by itself, on one Ctrl-C ends it.
. "$(dirname "$0")/lib.sh"
cp -r "$TOP/tests/fixtures/models/bert" bert && chmod -R u+w bert
cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" bert/tokenizer.json
run="$TOP/tools/run"
export XDG_STATE_HOME="$TMP/state" XDG_RUNTIME_DIR="$TMP"

test_expect 'without a terminal: machine, sentences, one reply, the end' '
    "$run" "$BUILD/stoker" bert </dev/null >out 2>err &&
    grep -q "graphics card" out && grep -q "^200 in .* ms: \[\[" out &&
    grep -q "page  *http://127.0.0.1:" err && grep -q "metrics  *http://127.0.0.1:" err && grep -q "stoker up: stopped" err'
test_expect 'a model that cannot be had: what to do, the agent alone, no failure' '
    mkdir alone && cp "$run" alone/run && printf "#!/bin/sh\n" >alone/setup && chmod +x alone/setup &&
    printf "#!/bin/sh\ncase \$1 in model) exit 1 ;; esac\nexec %s \"\$@\"\n" "$BUILD/stoker" >alone/stoker && chmod +x alone/stoker &&
    alone/run alone/stoker </dev/null >out 2>&1 &&
    grep -q "could not be fetched" out && grep -q "tools/run .* DIR" out && grep -q "up: stopped" out'
if ! command -v python3 >/dev/null; then
    test_skip "on a terminal" "python3 is not here"
    test_done
fi
if ! python3 -c 'import pty; pty.openpty()' 2>/dev/null; then
    test_skip "on a terminal" "there is none to be had here: is /dev/pts mounted?"
    test_done
fi
cat >terminal.py <<'E2'
"""Runs a command on a terminal of its own, types Ctrl-C when it tells of that: what it said, its status."""
import os, pty, select, sys, time

pid, fd = pty.fork()
if not pid:
    os.environ.pop("CI", None)
    os.execvp(sys.argv[1], sys.argv[1:])
said, typed, end = b"", False, time.time() + 60
while time.time() < end:
    if select.select([fd], [], [], 0.2)[0]:
        try:
            got = os.read(fd, 65536)
        except OSError:
            break
        if not got:
            break
        said += got
    if not typed and b"Ctrl-C stops it" in said:
        os.write(fd, b"\x03")
        typed = True
print(said.decode(errors="replace").replace("\r", ""))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) if typed else 99)
E2
test_expect 'on a terminal: it runs until Ctrl-C, which ends it well' '
    python3 terminal.py "$run" "$BUILD/stoker" bert >out; rc=$?; cat out; test $rc = 0 &&
    grep -q "try  *curl -s http://127.0.0.1:[0-9]*/embed -d" out && grep -q "up: stopped" out'
test_expect 'and so for make' '
    printf "run:\n\t@%s %s bert\n" "$run" "$BUILD/stoker" >Makefile && python3 terminal.py make run >out; rc=$?; cat out; test $rc = 0 &&
    grep -q "up: stopped" out && ! grep -q "Interrupt\|Error" out'
test_done
