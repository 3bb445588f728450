#!/bin/sh
# SPDX-License-Identifier: MIT
# Token ids against hashes of the reference's (tests/parity/tokens.py hashes), one for each
# 1,000 lines: a few thousand made-up lines always, the large corpus and the real vocabularies
# when `tools/setup parity` has built them.
. "$(dirname "$0")/lib.sh"
hashes=$TOP/tests/fixtures/hashes
work=$TOP/build/parity
driver=$BUILD/tests/parity-tokens

# sum FILE: its SHA-256;  named NAME WHAT: the one that the hashes were made with
sum() { sha256sum "$1" | cut -d' ' -f1; }
named() { head -1 "$hashes/$1.txt" | sed -n "s/.*$2 \([0-9a-f]*\).*/\1/p"; }
same() { "$driver" hashes "$1" <"$2" >ids && tail -n +2 "$hashes/$3.txt" | diff - ids; }

"$driver" lines "$TOP/tests/fixtures/unigram-small.json" 4000 >made
test_expect 'made-up lines are the ones that were hashed' \
    'for n in uncased cased mpnet unigram; do [ "$(sum made)" = "$(named small-$n lines)" ] || exit 1; done'
for n in uncased cased mpnet unigram; do
    file=$TOP/tests/fixtures/tokens-$n.json
    [ "$n" = unigram ] && file=$TOP/tests/fixtures/unigram-small.json
    test_expect "made-up lines: ids of the small $n vocabulary" 'same "$file" made small-$n'
done

for n in uncased cased mpnet unigram; do
    what="260,000 lines: ids of the $n vocabulary"
    if [ ! -e "$work/corpus.txt" ] || [ ! -e "$work/$n.json" ]; then
        test_skip "$what" "tools/setup parity has not built build/parity"
    elif [ "$BUILD" != "$TOP/build" ]; then
        test_skip "$what" "only without a sanitizer: it takes too long"
    elif [ "$(sum "$work/corpus.txt")" != "$(named $n corpus)" ]; then
        test_skip "$what" "the corpus here is another one than the hashes are of"
    elif [ "$(sum "$work/$n.json")" != "$(named $n tokenizer)" ]; then
        test_skip "$what" "the tokenizer made here is another one: training differs between machines"
    else
        test_expect "$what" 'same "$work/$n.json" "$work/corpus.txt" "$n"'
    fi
done

test_done
