# SPDX-License-Identifier: GPL-2.0-only
#
# Prints the counters that `ethtool -S` shows, as the user documentation has them:
# awk -f counters.awk ipoib_ethtool.c ipoib_stats.h ipoib_cm_drain_defs.h
#
# The totals are a table of their own; of the interface's counters those before
# IPOIB_FIRST_STAT are not shown, as they are in the totals. Each reason of a drain
# has a counter.

/^#define IPOIB_FIRST_STAT/ {
	first = $3
	sub(/^IPOIB_STAT_/, "", first)
}

/^[ \t]*[CT]\([a-z_0-9]+,/ {
	kind = $0
	sub(/^[ \t]*/, "", kind)
	name = substr(kind, 3)
	sub(/,.*/, "", name)
	if (name == first)
		shown = 1
	if (substr(kind, 1, 1) == "C" && !shown)
		next
	text = $0
	sub(/^[^"]*"/, "", text)
	sub(/".*/, "", text)
	printf "``%s``\n  %s\n\n", name, text
}

/^[ \t]*R\([A-Z_]+,/ {
	split($0, field, /[(),][ \t]*/)
	text = $0
	sub(/^[^"]*"/, "", text)
	sub(/".*/, "", text)
	printf "``drain_by_%s``\n  teardowns because: %s\n\n", field[3], text
}
