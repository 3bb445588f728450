# SPDX-License-Identifier: MIT
# The table of default alerts is compiled in with .incbin, which -MMD does not see.
$(B)/obj/catalog/alert_tables.o: data/alerts.csv data/alert_causes.csv
