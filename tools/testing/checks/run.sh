#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# run.sh [NAME...]: what can be said about the sources without running them, in
# KTAP. The names, in order, are those of the functions check_* below; a name
# that ends in a kernel version (build_driver_6.12) picks that one.
#
#   KVERS   kernels to build for (default: 6.1 6.12 7.3)
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit 1
lib=tools/testing/checks
KVERS=${KVERS:-6.1 6.12 7.3}

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# files PATTERN: those in the tree whose name matches (an extended regex)
files() {
	git ls-files -co --exclude-standard 2> /dev/null | grep -E "$1" | sort -u ||
		find . -type f | sed 's,^\./,,' | grep -E "$1"
}

is_text() {
	case $1 in
	*.[ch] | *.sh | *.awk | *.py | *.mk | *Makefile | *Kbuild | *.rst | *.md | \
		dkms.conf | .ci/run) return 0 ;;
	esac
	return 1
}

# The first line (the second behind #!) names the licence, and the right one.
check_spdx() {
	local f want line bad=0

	while read -r f; do
		case $f in
		LICENSES/* | .gitignore | *.md) continue ;;
		esac
		is_text "$f" || continue
		case $f in
		tools/testing/*) want='GPL-2.0-only' ;;
		.ci/run) want='GPL-2.0-only' ;;
		Documentation/*) want='GPL-2.0.*' ;;
		*) want='GPL-2.0-only OR Linux-OpenIB' ;;
		esac
		line=$(head -n 2 "$f" | grep -m 1 SPDX-License-Identifier)
		if ! grep -qE "SPDX-License-Identifier: $want( \*/)?\$" <<< "$line"; then
			echo "$f: ${line:-no SPDX line}, expected $want"
			bad=1
		fi
	done < <(files .)
	return "$bad"
}

# The budgets for files and functions, and locks that say what they guard.
check_size() {
	"$lib"/stats.sh --budgets
}

# Kernel versions are asked for in one header below softib only; the driver
# tests for features.
check_versions() {
	! files '\.[ch]$|Kbuild$|\.mk$' | grep -v '^tools/testing/softib/softib_compat\.h$' |
		xargs -r grep -nE 'LINUX_VERSION_CODE|KERNEL_VERSION|UTS_RELEASE|linux/version\.h'
}

# Nothing left for later, and no path of one machine.
check_leftovers() {
	local mark='TO''DO|FIX''ME|XX''X\b|HA''CK\b'

	! files . | while read -r f; do
		! is_text "$f" || echo "$f"
	done | xargs -r grep -nE "\b($mark)|/home/[a-z]|/wo""rk/"
}

# One version number.
check_version_number() {
	local a b

	a=$(sed -n 's/^#define IPOIB_VERSION[^"]*"\(.*\)"/\1/p' ipoib.h)
	b=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' dkms.conf)
	if [ -z "$a" ] || [ "$a" != "$b" ]; then
		echo "ipoib.h says version $a, dkms.conf $b"
		return 1
	fi
	if ! grep -q "^## $a" CHANGELOG.md; then
		echo "CHANGELOG.md has no heading for $a"
		return 1
	fi
}

# The documentation lists the counters that ethtool shows.
check_counters() {
	awk -f "$lib/counters.awk" ipoib_ethtool.c ipoib_stats.h ipoib_cm_drain_defs.h \
		> "$tmp/counters"
	sed -n '/^.. counters begin/,/^.. counters end/p' Documentation/ipoib.rst |
		sed '1,2d;$d' | diff - "$tmp/counters" > "$tmp/diff" && return
	echo "Documentation/ipoib.rst (<) and the tables of counters (>) differ:"
	cat "$tmp/diff"
	return 1
}

# What breaks the rules still fits the sources, and the documentation lists the
# guards that have been seen to work.
check_guards() {
	local guards=tools/testing/guards/guards.py

	"$guards" --check || return 1
	"$guards" --rst > "$tmp/guards" || return 1
	sed -n '/^.. guards begin/,/^.. guards end/p' Documentation/testing.rst |
		sed '1,2d;$d' | sed '$d' | diff - "$tmp/guards" > "$tmp/diff" && return
	echo "Documentation/testing.rst (<) and guards.py --rst (>) differ:"
	cat "$tmp/diff"
	return 1
}

# The README's section Files has a line for every file, or for a directory above
# it, and names nothing that is not there. A name without a directory shares that
# of the name before it on its line.
check_readme() {
	files . | awk '
		function claim(name, i, stem) {
			if (name ~ /\/$/) {
				dirs[name] = 0
			} else if (match(name, /\[.*\]$/)) {
				stem = substr(name, 1, RSTART - 1)
				for (i = RSTART + 1; i < length(name); i++)
					named[stem substr(name, i, 1)] = 0
			} else {
				named[name] = 0
			}
		}
		NR == FNR && /^## / { map = $2 == "Files" }
		NR == FNR && map && /^\| `/ {
			split($0, column, "|")
			n = split(column[2], part, "`")
			dir = ""
			for (i = 2; i <= n; i += 2) {
				name = part[i]
				if (name !~ /\//)
					name = dir name
				claim(name)
				dir = name
				sub(/[^\/]*\/?$/, "", dir)
			}
		}
		NR == FNR || $0 ~ /^(README\.md|\.gitignore|\.shellcheckrc)$/ { next }
		{
			found = 0
			if ($0 in named)
				found = ++named[$0]
			for (d in dirs)
				if (index($0, d) == 1)
					found = ++dirs[d]
			if (!found) {
				print "README.md does not name " $0
				bad = 1
			}
		}
		END {
			for (i in dirs)
				named[i] = dirs[i]
			for (i in named)
				if (!named[i]) {
					print "README.md names " i ", which is not there"
					bad = 1
				}
			exit bad
		}' README.md -
}

check_shellcheck() {
	command -v shellcheck > /dev/null || return 4
	files '\.sh$|^\.ci/run$' | xargs -r shellcheck -x
}

# What checkpatch dislikes in tables that make code (a macro for each row), in
# the comments of fields (ours are kernel-doc) and in our one version header; it
# takes initializers of macros for subscripts. Programs of user space (the model)
# may not have the kernel's macros, and are not its business.
PATCH_IGNORE=COMPLEX_MACRO,MACRO_ARG_UNUSED,MACRO_ARG_REUSE,UNCOMMENTED_DEFINITION
PATCH_IGNORE+=,LINUX_VERSION_CODE,CONSTANT_COMPARISON,MULTISTATEMENT_MACRO_USE_DO_WHILE
PATCH_IGNORE+=,BRACKET_SPACE

check_checkpatch() {
	local scripts f bad=0 strict ignore

	scripts=$("$lib"/kscripts.sh) || return 1
	for f in $(files '\.[ch]$'); do
		strict=--strict
		ignore=$PATCH_IGNORE
		case $f in
		# the layout of TRACE_EVENT
		*_trace.h) strict='' ;;
		# a header's name as an argument
		compat/*) ignore+=,SPACING,NEW_TYPEDEFS ;;
		tools/testing/model/*) continue ;;
		esac
		perl "$scripts/checkpatch.pl" --no-tree ${strict:+$strict} --terse --show-types \
			--no-summary --max-line-length=100 --ignore "$ignore" -f "$f" || bad=1
	done
	return "$bad"
}

# build SRC OUT KVER: all warnings of gcc and sparse are errors, and sparse must
# have looked at every object
build() {
	local src=$1 out=$2 kver=$3 log objects checked

	shift 3
	rm -rf "$out/.build"
	log=$out/build.log
	tools/testing/qemu/kbuild.sh "$kver" "$src" "$out" W=1 C=2 "$@" > "$tmp/log" 2>&1 || {
		tail -n 30 "$tmp/log"
		return 1
	}
	objects=$(grep -cE '^  CC \[M\] .*[^d]\.o$' "$log")
	checked=$(grep -cE '^  CHECK ' "$log")
	echo "$kver: $objects objects built, $checked files checked"
	if [ "$checked" -eq 0 ] || [ "$checked" -lt $((objects - 1)) ]; then
		echo "sparse did not look at all of them"
		return 1
	fi
	! grep -E 'warning:|error:|WARNING:' "$log" |
		grep -vE 'Skipping BTF|WARNING: modpost: ("_*kunit_|suppressed)'
}

build_driver() {
	build . "build/check/$1/driver" "$1"
}

build_softib() {
	build tools/testing/softib "build/check/$1/softib" "$1"
}

build_swarm() {
	build tools/testing/swarm "build/check/$1/swarm" "$1"
}

# The unit tests still fit the driver. This kernel's headers have KUnit, though
# the kernel itself has not: nothing but KUnit's own symbols may be missing.
build_kunit() {
	local kdir

	kdir=$(tools/testing/qemu/kernels.sh --path "$1") || return 1
	build tools/testing/kunit "build/check/$1/kunit" "$1" \
		KCFLAGS=-DCONFIG_KUNIT_MODULE=1 KBUILD_MODPOST_WARN=1 || return 1
	! nm -u "build/check/$1/kunit/ipoib_kunit.ko" | awk '
		NR == FNR { known[$2]; next }
		!($2 in known) && $2 !~ /^_*kunit_/ { print "undefined: " $2 }' \
		"$kdir/build/Module.symvers" - | grep .
}

checks=(spdx size versions leftovers version_number counters guards readme shellcheck checkpatch)
for kver in $KVERS; do
	checks+=("build_driver_$kver" "build_softib_$kver" "build_swarm_$kver")
	[ "$kver" != 6.12 ] || checks+=("build_kunit_$kver")
done
[ $# -eq 0 ] || checks=("$@")

echo "KTAP version 1"
echo "1..${#checks[@]}"
n=0
failed=0
for c in "${checks[@]}"; do
	n=$((n + 1))
	case $c in
	build_*) cmd=("${c%_*}" "${c##*_}") ;;
	*) cmd=("check_$c") ;;
	esac
	if ! declare -F "${cmd[0]}" > /dev/null; then
		echo "not ok $n $c"
		echo "# there is no such check"
		failed=1
		continue
	fi
	"${cmd[@]}" > "$tmp/out" 2>&1 < /dev/null
	rc=$?
	case $rc in
	0)
		echo "ok $n $c"
		grep 'files checked' "$tmp/out" | sed 's/^/# /'
		;;
	4) echo "ok $n $c # SKIP its tool is missing (tools/testing/qemu/deps.sh)" ;;
	*)
		echo "not ok $n $c"
		sed 's/^/# /' "$tmp/out" | head -n 200
		failed=1
		;;
	esac
done
exit "$failed"
