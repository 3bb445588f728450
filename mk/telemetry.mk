# SPDX-License-Identifier: MIT
# Files that src/telemetry and src/bottleneck compile in with .incbin, which -MMD does not see.
$(B)/obj/telemetry/telemetry_table.o: data/telemetry.csv
$(B)/obj/telemetry/kmsg/xid.o: data/xid.csv
$(B)/obj/bottleneck/bottleneck_table.o: data/limits.csv
