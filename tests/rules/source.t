#!/bin/sh
# The rules of the house: layers, lengths, private headers, unfinished words.
exec "$(dirname "$0")/../../tools/check-source"
