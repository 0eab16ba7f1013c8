#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Checks drain.pml with spin: assertions and the window in every state, and
# that every QP that enters ERROR is freed: no run stops before (no-dead-end),
# none goes round for ever (freed). Models with a defect put in must fail.
# Prints KTAP.
set -uo pipefail

HERE=$(cd "$(dirname "$0")" && pwd) || exit 1
OUT=${OUT:-$HERE/../../../build/model}/promela

if ! command -v spin > /dev/null; then
	echo "KTAP version 1"
	echo "1..0 # SKIP spin is missing: apt-get install spin"
	exit 4
fi

# name, what it must find (ok or bad), pan's compile flags and arguments, model
cases=(
	"safety ok -DSAFETY:-DNOCLAIM - -DW=1"
	"safety-window-2 ok -DSAFETY:-DNOCLAIM - -DW=2"
	"safety-not-in-rts ok -DSAFETY:-DNOCLAIM - -DUNREADY=0"
	"safety-no-lwqe ok -DSAFETY:-DNOCLAIM - -DNO_LWQE"
	"safety-death ok -DSAFETY:-DNOCLAIM - -DDEATH"
	"no-dead-end ok -DSAFETY:-DNOCLAIM - -DLIVENESS"
	"freed ok -DNFAIR=3 -a:-f:-N:freed -DLIVENESS"
	"bug-no-last-sweep bad -DSAFETY:-DNOCLAIM - -DBUG_LAST_SWEEP"
	"bug-no-window bad -DSAFETY:-DNOCLAIM - -DBUG_WINDOW"
	"bug-no-deadline bad -DSAFETY:-DNOCLAIM - -DLIVENESS:-DBUG_DEADLINE"
)

# try NAME FLAGS ARGS DEFINE: the verdict of spin, with its figures, in $text
try() {
	local dir=$OUT/$1 args

	args=${3//:/ }
	mkdir -p "$dir" && cd "$dir" || return 1
	rm -f drain.pml.trail pan
	# shellcheck disable=SC2086
	spin -a ${4//:/ } "$HERE/drain.pml" > spin.log 2>&1 || return 1
	# shellcheck disable=SC2086
	gcc -O2 -w ${2//:/ } -DCOLLAPSE -DVECTORSZ=2048 -o pan pan.c >> spin.log 2>&1 || return 1
	# shellcheck disable=SC2086
	./pan -m1000000 ${args#-} > pan.log 2>&1
	text=$(awk '/states, stored/ { s = $1 } /elapsed time/ { t = $4 }
		    END { printf "%d states, %s s", s, t }' pan.log)
	grep -q '^State-vector.*errors: 0' pan.log
}

echo "KTAP version 1"
echo "1..${#cases[@]}"
number=0
failed=0
for case in "${cases[@]}"; do
	read -r name want flags args define <<< "$case"
	number=$((number + 1))
	text=
	if try "$name" "$flags" "$args" "$define"; then
		got=ok
	else
		got=bad
	fi
	if [ -z "$text" ] || grep -q 'max search depth too small\|out of memory' "$OUT/$name/pan.log"; then
		got=incomplete
	fi
	if [ $got = "$want" ]; then
		echo "ok $number promela-$name # $text"
	else
		failed=1
		echo "not ok $number promela-$name # $got, not $want; see $OUT/$name"
	fi
done
exit $failed
