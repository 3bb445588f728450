# SPDX-License-Identifier: MIT
# Files that src/metrics compiles in with .incbin, which -MMD does not see.
$(B)/obj/metrics/tele_table.o: data/telemetry.csv
$(B)/obj/metrics/xid.o: data/xid.csv
$(B)/obj/metrics/limits_table.o: data/limits.csv
