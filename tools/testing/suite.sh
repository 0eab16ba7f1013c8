#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds the modules for each kernel and runs the tests in guests.
#
#   suite.sh                              everything (make test)
#   suite.sh --kernel K --driver D [TEST...]   one kernel, ours or stock; TEST is
#                                         a file name of selftests/ipoib, or
#                                         kunit (debug kernel); K may be debug
#   suite.sh --list                       the jobs of everything
#
#   JOBS   guests or pairs of guests at a time (default 2; a guest has 2 CPUs)
#   ITER   scales the repetitions in tests (default 1)
#   KVERS  kernels (default: 6.1 6.12 7.3)
#   RESULTS  where logs go (default results/<time> below the project)
#
# The last line is "N passed, N failed, N skipped"; the status is 0 if none
# failed.
set -uo pipefail

TOP=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
cd "$TOP" || exit 1
QEMU=tools/testing/qemu
TESTS=tools/testing/selftests/ipoib
KVERS=${KVERS:-6.1 6.12 7.3}
JOBS=${JOBS:-2}
export ITER=${ITER:-1}

# The themes that run on our driver in one guest: on every kernel, the first ones
# whole, BRIEF ones with their essential cases; on one kernel, all of them whole;
# and those for two guests.
OURS=(basic.sh)
BRIEF=(drain.sh)
OURS_ONCE=(netdev.sh drain.sh input.sh down.sh rig.sh link.sh)
ONCE_KVER=6.12
PAIRS=(interop.sh)
PAIR_KVERS='6.12 7.3'

usage() {
	sed -n '3,/^set/s/^# \{0,1\}//p' "$0" | sed '$d'
}

kernel=
driver=
list=
while [ $# -gt 0 ]; do
	case $1 in
	--kernel) kernel=$2; shift ;;
	--driver) driver=$2; shift ;;
	--list) list=1 ;;
	-h | --help) usage; exit ;;
	-*) usage >&2; exit 2 ;;
	*) break ;;
	esac
	shift
done

started=$SECONDS
say() {
	printf '%3d:%02d %s\n' $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60)) "$*"
}

results=${RESULTS:-$TOP/results/$(date +%Y%m%d-%H%M%S)}
declare -A running=()

# stop: end what this run has started
stop() {
	local pid

	trap - EXIT INT TERM
	for pid in "${!running[@]}"; do
		kill -TERM -- "-$pid" 2> /dev/null || kill -TERM "$pid" 2> /dev/null
	done
	for pid in "${!running[@]}"; do
		wait "$pid" 2> /dev/null
	done
}
trap 'stop' EXIT
trap 'stop; exit 130' INT TERM

### what there is to do: lines "NAME COMMAND..." ###

guest_job() {
	local name=$1 kver=$2 drv=$3

	shift 3
	echo "$name $QEMU/run.sh --kernel $kver --driver $drv --modules build/$kver $*"
}

wanted() {
	[[ " $KVERS " == *" $1 "* ]]
}

jobs_all() {
	local kver t

	for t in "${PAIRS[@]}"; do
		for kver in $PAIR_KVERS; do
			wanted "$kver" || continue
			echo "pair-$kver-${t%.sh} $TESTS/$t $kver"
		done
	done
	for kver in $KVERS; do
		for t in "${OURS[@]}"; do
			guest_job "ours-$kver-${t%.sh}" "$kver" ours "$TESTS/$t"
		done
		for t in "${BRIEF[@]}"; do
			[ "$kver" != $ONCE_KVER ] || continue
			guest_job "ours-$kver-${t%.sh}" "$kver" ours \
				--env BRIEF=1 "$TESTS/$t"
		done
		guest_job "stock-$kver" "$kver" stock $TESTS/stock.sh
	done
	for t in "${OURS_ONCE[@]}"; do
		wanted $ONCE_KVER || continue
		guest_job "ours-$ONCE_KVER-${t%.sh}" $ONCE_KVER ours "$TESTS/$t"
	done
	echo "harness $QEMU/selftest.sh"
	echo "model make -s -C tools/testing/model explore ARGS=--quick"
	echo "kunit tools/testing/kunit/run.sh --cached"
	echo "check tools/testing/checks/run.sh"
}

jobs_one() {
	local t

	[ $# -gt 0 ] || case ${driver:-ours} in
	stock) set -- stock.sh ;;
	*) set -- "${OURS[@]}" "${OURS_ONCE[@]}" ;;
	esac
	for t; do
		if [ "$t $kernel" = "kunit debug" ]; then
			echo "kunit tools/testing/kunit/run.sh"
			continue
		fi
		case " ${PAIRS[*]} " in
		*" $t "*) echo "pair-$kernel-${t%.sh} $TESTS/$t $kernel" ;;
		*) guest_job "${driver:-ours}-$kernel-${t%.sh}" "$kernel" "${driver:-ours}" "$TESTS/$t" ;;
		esac
	done
}

if [ -n "$kernel" ]; then
	KVERS=$kernel
	mapfile -t jobs < <(jobs_one "$@")
else
	mapfile -t jobs < <(jobs_all)
fi
if [ -n "$list" ]; then
	printf '%s\n' "${jobs[@]}"
	exit
fi

### preparation ###

mkdir -p "$results"
say "results go to $results"

# step NAME COMMAND...: a part of the preparation, counted as one case
prepared=0
step() {
	local name=$1

	shift
	prepared=$((prepared + 1))
	say "$name"
	if "$@" > "$results/$name.log" 2>&1; then
		echo "ok $prepared $name" >> "$results/prepare.ktap"
	else
		echo "not ok $prepared $name" >> "$results/prepare.ktap"
		tail -n 15 "$results/$name.log"
		say "$name FAILED (log: $results/$name.log)"
		return 1
	fi
}

build() {
	$QEMU/kbuild.sh "$1" tools/testing/softib "build/$1/.softib" &&
	$QEMU/kbuild.sh "$1" tools/testing/swarm "build/$1/.swarm" &&
	$QEMU/kbuild.sh "$1" . "build/$1/.driver" &&
	ln -f "build/$1/.softib/softib.ko" "build/$1/.softib/badulp.ko" \
		"build/$1/.swarm/swarm.ko" \
		"build/$1/.driver/ib_ipoib.ko" "build/$1/"
}

: > "$results/prepare.ktap"
step packages $QEMU/deps.sh || { "tools/testing/ktap.py" "$results/prepare.ktap"; exit 1; }
for kver in $KVERS; do
	step "kernel-$kver" $QEMU/kernels.sh "$kver"
done
if [ -x $QEMU/rootfs.sh ]; then
	step guest-root $QEMU/rootfs.sh
fi
for kver in $KVERS; do
	step "build-$kver" build "$kver"
done

### the jobs ###

# follow NAME: show results as they come, with the job's name
follow() {
	local line

	while IFS= read -r line; do
		printf '%s\n' "$line" >&3
		case $line in
		# of subtests only those that fail
		"ok "[0-9]* | *"not ok "[0-9]*) say "[$1] ${line#"${line%%[! ]*}"}" ;;
		\#* | *" #"*) [ -z "${VERBOSE:-}" ] || say "[$1] $line" ;;
		esac
	done 3> "$results/$1.ktap"
}

# attempt NAME COMMAND...
attempt() {
	local name=$1 rc

	shift
	export RESULTS=$results/$name.files
	mkdir -p "$RESULTS"
	"$@" 2> "$results/$name.log" < /dev/null | follow "$name"
	rc=${PIPESTATUS[0]}
	if [ "$rc" -ne 0 ] && [ "$rc" -ne 4 ] &&
		! grep -q '^ *not ok ' "$results/$name.ktap"; then
		tail -n 15 "$results/$name.log"
		echo "not ok 0 $name ended with status $rc" >> "$results/$name.ktap"
	fi
	[ "$rc" -eq 0 ] || [ "$rc" -eq 4 ]
}

# excused NAME: has nothing failed but a guest, and that by the emulator? A case that
# has failed before is not excused; where two guests run, it fails with the guest.
excused() {
	case $1 in
	pair-*) ;;
	*) ! grep -q '^ *not ok [1-9]' "$results/$1.ktap" || return 1 ;;
	esac
	$QEMU/emulator-fault "$results/$1.files"/guest*/console.log
}

# launch NAME COMMAND...: in a process group of its own, so that stop ends all. A
# guest that died of the emulator says nothing about what it ran: once more.
launch() {
	(
		for again in 1 2 ''; do
			if attempt "$@" || [ -z "$again" ] || ! fault=$(excused "$1"); then
				break
			fi
			say "[$1] $fault; once more"
			mkdir "$results/$1.fault$again"
			mv "$results/$1".{files,ktap,log} "$results/$1.fault$again/"
		done
		say "[$1] done"
	) &
	running[$!]=$1
}

# A pair of guests takes two places.
weight() {
	case $1 in
	pair-*) echo 2 ;;
	*) echo 1 ;;
	esac
}

# reap: wait for a job to end, and give its places back
load=0
reap() {
	local pid

	wait -n -p pid "${!running[@]}"
	load=$((load - $(weight "${running[$pid]}")))
	unset "running[$pid]"
}

set -m
for job in "${jobs[@]}"; do
	read -ra words <<< "$job"
	while [ "$load" -gt 0 ] && [ $((load + $(weight "${words[0]}"))) -gt "$JOBS" ]; do
		reap
	done
	say "[${words[0]}] starts"
	load=$((load + $(weight "${words[0]}")))
	launch "${words[@]}"
done
while [ "${#running[@]}" -gt 0 ]; do
	reap
done
set +m

### summary ###

failing=0
for f in "$results"/*.ktap; do
	if ! grep -q '^ *not ok ' "$f"; then continue; fi
	failing=1
	echo "--- $(basename "$f" .ktap)"
	awk '/^ *not ok / { show = 1; print; next } /^ *ok / { show = 0 } show' "$f" | head -n 60
done
[ $failing -eq 0 ] || echo "---"
say "took $(((SECONDS - started + 59) / 60)) min; logs in $results"
tools/testing/ktap.py "$results"/*.ktap
