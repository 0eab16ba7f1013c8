# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Two guests, told what to do from the host. To be sourced by tests that run on
# the host; host.sh has the guests' part and the topology.
#
# A case is a function t_NAME of `must` steps: the first that fails ends it. After
# each case the kernel logs of both guests are judged.

PAIR_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PAIR_TOP=$(cd "$PAIR_DIR/../../../.." && pwd)
TESTNAME=$(basename "$0" .sh)
CASES=${CASES:-}

# shellcheck source=tools/testing/qemu/guests.sh
. "$PAIR_TOP/tools/testing/qemu/guests.sh"

GUEST_NET=1
GUEST_TIMEOUT=240

BAD=
WHY=

# must COMMAND...: a step; once one has failed the others are not tried
must() {
	[ -z "$BAD" ] || return 1
	"$@" || {
		echo "FAIL: $*"
		BAD=1
		return 1
	}
}

skip() {
	WHY=$*
}

# on N COMMAND: in guest N, with the functions of host.sh
on() {
	guest_run "$1" ". /rig/tree/tools/testing/selftests/ipoib/host.sh; set -e; $2"
}

# tcp FROM TO SECONDS
tcp() {
	must on "$2" host_serve
	must on "$1" "host_tcp 10.9.0.$2 $3"
}

# news N: what is bad in guest N's kernel log and was not before
news() {
	local file=$GUESTS_RUN/judged$1

	touch "$file"
	guest_judge "$1" > "$file.new" 2>&1
	diff "$file" "$file.new" | sed -n 's/^> //p' > "$file.diff"
	mv "$file.new" "$file"
	[ ! -s "$file.diff" ] || {
		echo "guest $1 says:"
		cat "$file.diff"
		return 1
	}
}

# pair_boot KVER1 DRIVER1 KVER2 DRIVER2
pair_boot() {
	must guest_start 1 "$1" "$2" "$PAIR_TOP/build/$1"
	must guest_start 2 "$3" "$4" "$PAIR_TOP/build/$3"
}

# run_pair NAME...: the plan, the cases, the verdict; the first boots the guests
run_pair() {
	local n=0 failed=0 name out=$GUESTS_RUN/out dead=

	echo "KTAP version 1"
	echo "1..$#"
	for name; do
		n=$((n + 1))
		if [ -n "$dead" ]; then
			echo "not ok $n $TESTNAME.$name"
			echo "# not run: the guests are not up"
			continue
		fi
		if [ -n "$CASES" ] && [ $n -ne 1 ] && [[ " $CASES " != *" $name "* ]]; then
			echo "ok $n $TESTNAME.$name # SKIP not asked for"
			continue
		fi
		BAD=
		WHY=
		"t_$name" > "$out" 2>&1
		if [ $n -eq 1 ]; then dead=$BAD; fi
		{ news 1 && news 2; } >> "$out" || BAD=1
		if [ -n "$BAD" ]; then
			echo "not ok $n $TESTNAME.$name"
			sed 's/^/# /' "$out" | tail -n 80
			failed=1
		elif [ -n "$WHY" ]; then
			echo "ok $n $TESTNAME.$name # SKIP $WHY"
		else
			echo "ok $n $TESTNAME.$name"
			grep -E '^TCP: |^note: ' "$out" | sed 's/^/# /'
		fi
	done
	exit $failed
}

guests_init "${RESULTS:-}"
