#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Boots one guest, runs tests in it, judges them, and shuts it down.
#
#   run.sh --kernel KVER [--driver ours|stock] [OPTION]... SCRIPT [ARGUMENT]...
#   run.sh ... SCRIPT [ARGUMENT]... -- SCRIPT [ARGUMENT]...     several, one boot
#   run.sh ... --command 'SHELL COMMAND'
#
#   --modules DIR   directory of softib.ko, swarm.ko and ib_ipoib.ko
#                   (default build/KVER); none: the guest gets none of ours
#   --mem MIB       1536              --smp CPUS   2
#   --timeout S     limit for all scripts together (default 1800; three times as
#                   much on the debug kernel, as all limits there)
#   --results DIR   where console.log, dmesg.log and results go (default
#                   $RESULTS, else a temporary directory that is removed)
#   --slub          boot with slub_debug=FZPU
#   --hung S        limit of the hung task check (20, emulated 120)
#   --append ARGS   more kernel arguments
#   --env N=V       more of the script's environment; may be repeated
#
# A script runs as root in the directory it has in a copy of tools/testing, with
# KVER DRIVER ITER CASES VERBOSE, RESULTS (comes back), MODULES. What it
# prints (KTAP) is passed on as it comes. Status 0 passes, 4 is a skip.
#
# The verdict comes over a virtio port, so a guest that hangs or crashes has not
# passed: it is killed at the limit, and the end of its console is shown. What
# the kernel logs is judged behind each script and again at the end; on the debug
# kernel lockdep must still be at work and kmemleak find nothing. Failures
# that the harness sees are lines "not ok 0 ..." of their own. The status is 0,
# or 4 if all scripts skipped, or 1.

. "$(dirname "$0")/guests.sh"
set -uo pipefail

usage() {
	sed -n '3,/^$/s/^# \{0,1\}//p' "$0"
}

kernel=
driver=ours
modules=
results=${RESULTS-}
command=
while [ $# -gt 0 ]; do
	case $1 in
	--slub) GUEST_SLUB=1 ;;
	-h | --help)
		usage
		exit
		;;
	--?*)
		[ $# -ge 2 ] || die "$1 wants a value (see --help)"
		case $1 in
		--kernel) kernel=$2 ;;
		--driver) driver=$2 ;;
		--modules) modules=$2 ;;
		--mem) GUEST_MEM=$2 ;;
		--smp) GUEST_SMP=$2 ;;
		--timeout) GUEST_TIMEOUT=$2 ;;
		--results) results=$2 ;;
		--hung) GUEST_HUNG=$2 ;;
		--append) GUEST_APPEND+=" $2" ;;
		--env) GUEST_ENV+=("$2") ;;
		--command) command=$2 ;;
		*) die "unknown option $1 (see --help)" ;;
		esac
		shift
		;;
	*) break ;;
	esac
	shift
done
[ -n "$kernel" ] || die "which kernel? --kernel 6.1, 6.12, 7.3 or debug (see --help)"
case $driver in
ours | stock) ;;
*) die "--driver is ours or stock" ;;
esac
[ $# -gt 0 ] || [ -n "$command" ] || die "no script (see --help)"
case ${modules:=$RIG_TOP/build/$kernel} in
none) modules= ;;
*) [ -d "$modules" ] || die "no directory $modules: build first (make test does), or --modules none" ;;
esac

failed=0
ran=0
skipped=0
report() {
	failed=1
	echo "not ok 0 $*"
}

last_words() {
	tail -n 30 "$(guest_dir 1)/console.log" | tr -d '\r' | sed 's/^/# /'
}

# verdict NAME STATUS
verdict() {
	ran=$((ran + 1))
	case $2 in
	0) ;;
	4) skipped=$((skipped + 1)) ;;
	99)
		report "$1.kernel-log"
		sed 's/^/# /' "$GUESTS_RUN/err"
		;;
	124)
		report "$1.hang (no end after ${limit} s; the guest is killed)"
		last_words
		;;
	125)
		report "$1.crash (the guest has died)"
		last_words
		;;
	*) report "$1.status ($2)" ;;
	esac
}

# one SCRIPT [ARGUMENT]...: run it in what is left of the time
one() {
	local rc name

	name=$(basename "$1" .sh)
	if ! guest_alive 1; then
		report "$name (not run: the guest has died)"
		return
	fi
	GUEST_TIMEOUT=$((limit - SECONDS))
	[ "$GUEST_TIMEOUT" -gt 0 ] || GUEST_TIMEOUT=1
	guest_test 1 "$@" 2> >(tee "$GUESTS_RUN/err" >&2)
	rc=$?
	verdict "$name" $rc
	case $rc in
	124 | 125) guest_kill 1 ;;
	esac
}

guests_init "$results"
for script; do
	case $script in
	*.sh)
		[ -e "$script" ] || die "no test $script"
		case $(realpath "$script") in
		"$RIG_TOP"/tools/testing/*) ;;
		*) GUEST_TREE=$(dirname "$script") ;;
		esac
		;;
	esac
done
if ! guest_start 1 "$kernel" "$driver" "$modules"; then
	report "boot of $kernel"
	exit 1
fi
SECONDS=0
limit=${GUEST_TIMEOUT:-$(slow "$kernel" 1800)}
if [ -n "$command" ]; then
	guest_run 1 "$command"
	verdict command $?
fi
words=()
for w in "$@" --; do
	if [ "$w" != -- ]; then
		words+=("$w")
		continue
	fi
	[ ${#words[@]} -eq 0 ] || one "${words[@]}"
	words=()
done
if guest_alive 1; then
	guest_stop 1 2> "$GUESTS_RUN/stop" || [ $failed -ne 0 ] || {
		report "guest.end"
		sed 's/^/# /' "$GUESTS_RUN/stop"
	}
fi
if [ $failed -eq 0 ] && [ $ran -gt 0 ] && [ $ran -eq $skipped ]; then
	exit 4
fi
exit $failed
