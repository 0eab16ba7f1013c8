# SPDX-License-Identifier: GPL-2.0-only
#
# Prints "FILE:LINE said|silent NAME" for each lock that is declared: said if a
# comment on its line, just above it, or the kernel-doc of its name (@lock:)
# tells what it guards.

function report(ok) {
	printf "%s:%d %s %s\n", FILENAME, FNR, ok ? "said" : "silent", name
}

FNR == 1 {
	delete doc
	above = ""
}

/^ \* @/ {
	line = $0
	while (match(line, /@[a-z_]+:/)) {
		key = substr(line, RSTART + 1, RLENGTH - 2)
		doc[key] = line
		line = substr(line, RSTART + RLENGTH)
		last = key
	}
	next
}

/^ \*/ {
	if (last != "")
		doc[last] = doc[last] " " $0
}

/^ \*\// {
	last = ""
}

/^[ \t]*(static )?(spinlock_t|raw_spinlock_t|rwlock_t|struct mutex|struct rw_semaphore|seqlock_t)[ \t]+[a-z_]+( __[a-z_]+)?;/ ||
/^(static )?DEFINE_(SPINLOCK|MUTEX|RWLOCK)\(/ {
	name = $0
	if (name ~ /DEFINE_/) {
		sub(/.*\(/, "", name)
		sub(/\).*/, "", name)
	} else {
		sub(/;.*/, "", name)
		sub(/( __[a-z_]+)$/, "", name)
		sub(/.*[ \t]/, "", name)
	}
	text = $0 above doc[name]
	report(text ~ /guard|serial|protect/)
}

{
	above = $0 ~ /\/\*/ ? $0 : ""
}
