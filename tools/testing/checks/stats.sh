#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The figures of size, and whether they are within the project's budgets.
#
#   stats.sh             a report; status 1 if a budget is exceeded
#   stats.sh --budgets   only what exceeds a budget
set -euo pipefail
cd "$(dirname "$0")/../../.."
lib=tools/testing/checks

MAX_C=900	# lines of a .c
MAX_H=250	# lines of a .h
MAX_IPOIB_H=350	# lines of ipoib.h, which holds all that files share
MAX_FUNC=100	# lines of a function
MAX_P95=60
MAX_MEDIAN=20
MIN_TESTS=50	# lines of tests for 100 lines of driver

quiet=
case ${1-} in
--budgets) quiet=1 ;;
"") ;;
*)
	sed -n '3,/^set/s/^# \{0,1\}//p' "$0" | sed '$d'
	exit 2
	;;
esac
over=0

say() {
	[ -n "$quiet" ] || echo "$@"
}

exceed() {
	echo "over budget: $*"
	over=1
}

# list REGEX: the files whose name matches, those that are tracked or would be
list() {
	{ git ls-files -co --exclude-standard 2> /dev/null ||
		find . -type f | sed 's,^\./,,'; } | grep -E "$1" | sort -u || :
}

mapfile -t driver < <(list '^([^/]*|compat/.*)\.[ch]$')
mapfile -t rig < <(list '^tools/testing/.*\.[ch]$')
mapfile -t scripts < <(list '^tools/testing/.*\.(sh|py|awk)$|^\.ci/run$')

lines() {
	if [ $# -gt 0 ]; then cat -- "$@" | wc -l; else echo 0; fi
}

file_budget() {
	local f n max

	for f; do
		n=$(wc -l < "$f")
		case $f in
		*ipoib.h) max=$MAX_IPOIB_H ;;
		*.h) max=$MAX_H ;;
		*) max=$MAX_C ;;
		esac
		[ "$n" -le "$max" ] || exceed "$f has $n lines (budget $max)"
	done
}

largest() {
	local pattern=$1

	shift
	wc -l "$@" | awk -v p="$pattern" '$2 ~ p { print $1, $2 }' | sort -n | tail -n 1
}

# quantiles NAME FILE...: median, 95th percentile and maximum of functions
quantiles() {
	local what=$1 n median p95 max where

	shift
	n=$(awk -f $lib/functions.awk "$@" | wc -l)
	[ "$n" -gt 0 ] || return 0
	read -r median p95 max where < <(awk -f $lib/functions.awk "$@" | sort -n |
		awk '{ len[NR] = $1; at[NR] = $2 " " $3 }
		END {
			m = int((NR + 1) / 2)
			p = int(NR * 0.95); if (p < NR * 0.95) p++
			print len[m], len[p], len[NR], at[NR]
		}')
	say "$what: $n functions, median $median, 95th percentile $p95, longest $max ($where)"
	[ "$median" -le $MAX_MEDIAN ] ||
		exceed "$what: the median function has $median lines (budget $MAX_MEDIAN)"
	[ "$p95" -le $MAX_P95 ] ||
		exceed "$what: the 95th percentile of functions is $p95 lines (budget $MAX_P95)"
	awk -f $lib/functions.awk "$@" | sort -rn |
		awk -v max=$MAX_FUNC '$1 > max { print $2, $3, "has", $1, "lines" }' > "$tmp"
	while read -r where; do
		exceed "$where (budget $MAX_FUNC)"
	done < "$tmp"
}

# comments FILE...: share of lines that hold a comment
comments() {
	awk '
		{ all++ }
		inside { c++; if (/\*\//) inside = 0; next }
		/\/\*/ { c++; if (!/\*\//) inside = 1; next }
		/\/\// { c++ }
		END { printf "%d", all ? 100 * c / all : 0 }' "$@"
}

locks() {
	local said silent

	said=$(awk -f $lib/locks.awk "$@" | grep -c ' said ' || :)
	silent=$(awk -f $lib/locks.awk "$@" | grep ' silent ' || :)
	say "locks that say what they guard: $said of $((said + $(grep -c . <<< "$silent" || :)))"
	[ -z "$silent" ] || exceed "a lock does not say what it guards:" "${silent//$'\n'/, }"
}

tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT

if [ "${#driver[@]}" -gt 0 ]; then
	ndriver=$(lines "${driver[@]}")
	ntests=$(lines "${rig[@]}" "${scripts[@]}")
	say "driver: $ndriver lines in ${#driver[@]} files"
	[ -n "$quiet" ] || wc -l "${driver[@]}" | sed '$d' | sort -rn |
		awk '{ printf "  %5d %s\n", $1, $2 }'
	say "largest .c: $(largest '\\.c$' "${driver[@]}"), largest .h: $(largest '\\.h$' "${driver[@]}")"
	file_budget "${driver[@]}" "${rig[@]}"
	quantiles driver "${driver[@]}"
	say "driver: comments on $(comments "${driver[@]}") % of lines," \
		"lockdep asserts $(cat "${driver[@]}" | grep -cE 'lockdep_assert|ASSERT_RTNL' || :)," \
		"tracepoint uses $(cat "${driver[@]}" | grep -cE '\btrace_ipoib_' || :)"
	locks "${driver[@]}" "${rig[@]}"
	say "tests and rig: $(lines "${rig[@]}") lines of C in ${#rig[@]} files," \
		"$(lines "${scripts[@]}") of scripts in ${#scripts[@]} files"
	[ "${#rig[@]}" -eq 0 ] || quantiles "rig" "${rig[@]}"
	ratio=$((100 * ntests / ndriver))
	say "tests : code = $((ratio / 100)).$(printf %02d $((ratio % 100)))"
	[ "$ratio" -ge $MIN_TESTS ] ||
		exceed "tests : code is $ratio : 100 (at least $MIN_TESTS : 100)"
fi

if [ "$over" -eq 0 ]; then
	say "all budgets are met"
fi
exit "$over"
