# SPDX-License-Identifier: GPL-2.0-only
#
# Prints "LINES FILE:LINE NAME" for each function of C files in kernel style: a
# body stands between lines that are { and } alone in the first column. The
# length counts from the first line of the signature to the closing brace.

FNR == 1 {
	start = 0
	body = 0
}

# the line that may begin a signature
/^[A-Za-z_]/ && !body && !/;[ \t]*$/ {
	start = FNR
	name = $0
	next
}

/^[{]/ && start && !body {
	body = 1
	sub(/^[ \t{]+/, "", name)
	sub(/\(.*/, "", name)
	sub(/^.*[ \t*]/, "", name)
	next
}

/^[}]/ {
	if (body)
		printf "%d %s:%d %s\n", FNR - start + 1, FILENAME, start, name
	body = 0
	start = 0
}

# a statement that ends in the first column ends a declaration
!body && /;[ \t]*$/ && !/^[ \t]/ {
	start = 0
}
