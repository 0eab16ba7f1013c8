#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Proves that the harness can fail: tests that fail, hang, crash or only make the
# kernel complain, and boots that die, are all told from a pass. Prints KTAP.
#
#   selftest.sh [KVER]     (default 6.12)

. "$(dirname "$0")/common.sh"
set -uo pipefail

KVER=${1:-6.12}
unset RESULTS CASES
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

n=0
failed=0
# check NAME COMMAND...: one result
check() {
	local name=$1

	shift
	n=$((n + 1))
	if "$@"; then
		echo "ok $n harness.$name"
	else
		echo "not ok $n harness.$name"
		sed 's/^/# /' "$TMP/out" "$TMP/err" | tail -n 40
		failed=1
	fi
}

# rig EXPECTED ARGUMENT...: run.sh without modules of ours; was the status so?
rig() {
	local want=$1

	shift
	"$RIG_DIR/run.sh" --kernel "$KVER" --modules none --mem 768 "$@" \
		> "$TMP/out" 2> "$TMP/err"
	rc=$?
	[ $rc -eq "$want" ] || echo "run.sh: status $rc, not $want" >> "$TMP/err"
	[ $rc -eq "$want" ]
}

says() {
	grep -qE -- "$1" "$TMP/out"
}

says_not() {
	! says "$1"
}

# complains EXPECTED: one line to stderr that matches
complains() {
	grep -qE -- "$1" "$TMP/err" && [ "$(wc -l < "$TMP/err")" -eq 1 ]
}

# test_script NAME: from stdin
test_script() {
	mkdir -p "$TMP/tests"
	cat > "$TMP/tests/$1.sh"
}

test_script good <<-'END'
	echo "1..1"
	echo "ok 1 good.case"
	echo "here $PWD $KVER $DRIVER $ITER $*" > "$RESULTS/said"
END
test_script skips <<< 'exit 4'
test_script fails <<< 'exit 1'
test_script warns <<-'END'
	echo '<4>------------[ cut here ]------------' > /dev/kmsg
	echo '<4>WARNING: CPU: 0 PID: 1 at made_up.c:1 warns+0x1/0x2' > /dev/kmsg
END
test_script expects <<-'END'
	echo '<6>rig: expect WARNING.*harmless' > /dev/kmsg
	echo '<4>WARNING: a harmless one' > /dev/kmsg
END
test_script hangs <<< 'echo "about to hang"; exec sleep 1000'
test_script panics <<< 'echo c > /proc/sysrq-trigger; sleep 60'
T=$TMP/tests

# A QEMU that dies at once in its first COUNT runs, like a boot that dies early.
dying_qemu() {
	mkdir -p "$TMP/bin"
	: > "$TMP/runs"
	cat > "$TMP/bin/qemu-system-x86_64" <<-END
		#!/bin/sh
		echo x >> "$TMP/runs"
		[ \$(wc -l < "$TMP/runs") -gt $1 ] || exit 1
		exec "$(command -v qemu-system-x86_64)" "\$@"
	END
	chmod 755 "$TMP/bin/qemu-system-x86_64"
}

echo "KTAP version 1"
echo "1..25"

# Bad input ends before anything boots, with one line.
rig 1 "$T/none.sh"
check bad_script complains 'no test .*none.sh'
rig 1 --driver mine "$T/good.sh"
check bad_driver complains 'ours or stock'
rig 1 --modules "$TMP/none" "$T/good.sh"
check bad_modules complains 'no directory'
"$RIG_DIR/kernels.sh" 2.4 2> "$TMP/err" > "$TMP/out"
check bad_kernel complains '2\.4'
judged() {
	printf '%s\n' "$@" > "$TMP/log"
	"$RIG_DIR/guest/judge" "$TMP/log" > "$TMP/out" 2> "$TMP/err"
}
check judge_clean judged "[ 1.0] ib0: link becomes ready" "[ 1.1] rdma_rxe: loaded"
check judge_kasan eval '! judged "[ 1.0] BUG: KASAN: slab-use-after-free in x+0x1/0x2"'
check judge_lockdep eval '! judged "[ 1.0] WARNING: possible circular locking dependency detected"'

# died BYTES: does a guest that died of int3 after these bytes count as the emulator's?
died() {
	printf '%s\n' "[ 1.0] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI" \
		"[ 1.1] RIP: 0010:some_function+0x3f/0x1060" "[ 1.2] Code: 38 $1 <0c> 05" > "$TMP/console.log"
	"$RIG_DIR/emulator-fault" "$TMP/console.log" > "$TMP/out" 2> "$TMP/err"
}
check emulator_fault died e9
check real_breakpoint eval '! died cc'
echo "[ 1.0] BUG: kernel NULL pointer dereference" > "$TMP/console.log"
# shellcheck disable=SC2016 # expanded by eval
check other_death eval '! "$RIG_DIR/emulator-fault" "$TMP/console.log" "$TMP/none.log"'

# One boot, the first of which dies, and in it good and bad tests together.
dying_qemu 1
PATH=$TMP/bin:$PATH ITER=3 rig 1 --results "$TMP/r" --driver stock \
	"$T/good.sh" one "two words" -- "$T/fails.sh" -- "$T/warns.sh" -- "$T/expects.sh" -- "$T/skips.sh"
check boot_retried [ "$(wc -l < "$TMP/runs")" -eq 2 ]
check several_status [ "$rc" -eq 1 ]
check output_passed_on says '^ok 1 good\.case$'
check good_passes says_not '^not ok 0 good'
check fail_fails says '^not ok 0 fails\.status \(1\)'
check warn_fails says '^not ok 0 warns\.kernel-log'
check warn_is_shown says '^# .*WARNING: CPU'
check expected_passes says_not '^not ok 0 expects'
check skip_is_no_failure says_not '^not ok 0 skips'
check results_back grep -qxE "here .*/extra $KVER stock 3 one two words" \
	"$TMP/r/guest1/results/said"

# What hangs is killed at the limit; what crashes has died.
t=$SECONDS
rig 1 --timeout 15 "$T/hangs.sh" -- "$T/good.sh"
check hang_fails says '^not ok 0 hangs\.hang'
check hang_is_killed [ $((SECONDS - t)) -lt 400 ]
check rest_is_reported says '^not ok 0 good \(not run'
rig 1 "$T/panics.sh"
check panic_fails says '^not ok 0 panics\.crash'

# A boot that never gets there is a failure after three tries.
dying_qemu 1000
PATH=$TMP/bin:$PATH rig 1 "$T/good.sh"
check boot_given_up [ "$rc$(wc -l < "$TMP/runs")" = 13 ]
exit $failed
