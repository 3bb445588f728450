#!/bin/sh
# What an example or an option of a man page shows is what its author typed: people copy it
# into a shell.  roff takes quotes out of a macro's arguments and prints minus, apostrophe and
# accents as other characters unless told not to.
cd "$(dirname "$0")/../.." || exit 1
b=${BUILD:-build}/stoker
command -v groff >/dev/null || { echo '1..0 # SKIP groff is not there'; exit 0; }
d=$(mktemp -d) || exit 1
trap 'rm -r "$d"' EXIT
n=0 failed=0
# The lines that help shows below a heading, two columns in, and that the page has not.
lost() { # page, words of the help…
    page=$1
    shift
    $b help "$@" | sed -n '/^examples$/,$s/^  \([^ ].*\)/\1/p' >"$d/lines"
    sed 's/^ *//' "$page" | grep -Fxv -f - "$d/lines"
}
for c in $($b help --names); do
    n=$((n + 1))
    $b help --man "$c" | groff -man -Tutf8 -P-cbou -rLL=400n >"$d/page" 2>/dev/null
    log=$(lost "$d/page" "$c"
          for s in $($b help "$c" | sed -n '/^  [a-z][a-z-]*  /!d; s/^  \([a-z-]*\)  .*/\1/p'); do
              lost "$d/page" "$c" "$s"
          done)
    if [ -s "$d/page" ] && [ -z "$log" ]; then echo "ok $n - the examples of $c are as typed"; else
        failed=1
        echo "not ok $n - the examples of $c are as typed"
        echo "$log" | head -10 | sed 's/^/# not on the page: /' >&2
    fi
done
n=$((n + 1))
if $b help --man detect | groff -man -Tutf8 -P-cbou | grep -Fq 'eval "$(stoker detect --env)"'; then
    echo "ok $n - the quotes of eval are on the page"
else
    failed=1
    echo "not ok $n - the quotes of eval are on the page"
fi
echo "1..$n"
exit $failed
