# SPDX-License-Identifier: GPL-2.0-only
#
# Prints the rows of the driver's tables of counters, as the user documentation
# has them: awk -f counters.awk ipoib_stats.h ipoib_cm_drain_defs.h

/^[ \t]*C\([a-z_0-9]+,/ {
	name = $0
	sub(/^[ \t]*C\(/, "", name)
	sub(/,.*/, "", name)
	text = $0
	sub(/^[^"]*"/, "", text)
	sub(/".*/, "", text)
	printf "``%s``\n  %s\n\n", name, text
}
