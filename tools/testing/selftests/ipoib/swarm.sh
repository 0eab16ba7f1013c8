#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Many peers: N receive QPs come and go by every way there is, cost `ip link set
# ib0 down` next to nothing, drain side by side, and a flood of REQs harms neither
# others nor an interface that is being deleted.
#
#   swarm on softib1 --+                      (tools/testing/swarm)
#                      +-- bridge --> softib0: ib0, in netns A
#   swarm on softib2 --+
#
#   N    connections (default: 120 * ITER)

. "$(dirname "$0")/lib.sh"

HERE=$(cd "$(dirname "$0")" && pwd)
N=${N:-$((120 * ITER))}
N=$((N / 2 * 2))
DEADLINE_MS=4000
CASE_SECONDS=$((60 + N / 4))
SOURCES="1 2"
SWARM=/sys/kernel/debug/swarm
IP_PEER=10.9.0.250
FIGURES="$CENSUS cm_ids"

### swarms ###

# each FILE TEXT: the same to the swarms of all sources, side by side
each() {
	local p rc=0 pids=()

	for p in $SOURCES; do
		echo "$2" > "$SWARM/softib$p/$1" &
		pids+=($!)
	done
	for p in "${pids[@]}"; do
		wait "$p" || rc=1
	done
	[ "$rc" -eq 0 ] || fail "swarm: $1 '$2'"
}

# swarm_stat NAME: a figure, the sum of all sources
swarm_stat() {
	cat "$SWARM"/softib*/stats | awk -v n="$1" '$1 == n { s += $2 } END { print s + 0 }'
}

# stat_is NAME VALUE
stat_is() {
	[ "$(swarm_stat "$1")" -eq "$2" ] ||
		fail "swarm counts $1 $(swarm_stat "$1"), not $2: $(cat "$SWARM"/softib*/stats)"
}

# qpn_of NETNS INTERFACE: the UD QPN, from the link-layer address
qpn_of() {
	local hex

	hex=$(ip netns exec "$1" cat "/sys/class/net/$2/address" | tr -d :)
	echo "0x${hex:2:6}"
}

gid_a() {
	cat /sys/class/infiniband/softib0/ports/1/gids/0
}

# aim INTERFACE [P_KEY [PREFIX]]: at an interface of A
aim() {
	each target "$(gid_a) $(qpn_of "$A" "$1") $IP_A $IP_PEER ${*:2}"
	each reset 1
}

# afresh: nothing is left of an earlier case, should it have failed
afresh() {
	local f way

	for f in "$SWARM"/softib*/leave; do
		for way in destroy forget; do
			# shellcheck disable=SC2016	# for the inner shell
			timeout 60 sh -c 'echo "$1" > "$2"' sh "$way" "$f"
		done
	done
	aim "$IFA"
}

# open_all N: all of them come up
open_all() {
	each open $(($1 / 2))
	stat_is up "$1"
	[ "$(rc_qps softib0)" -eq "$1" ] ||
		fail "$(rc_qps softib0) receive QPs, not $1"
}

swarm_paths() {
	local p

	for p in $SOURCES; do
		echo "/proc/$$/root$SWARM/softib$p"
	done
}

# py COMMAND ARGUMENTS...: swarm.py in A, on all swarms
py() {
	# shellcheck disable=SC2046	# paths without blanks
	in_a python3 "$HERE/swarm.py" "$@" $(swarm_paths)
}

counters_a() {
	echo "/proc/$$/root$SOFTIB/softib0/counters"
}

# Behind each case: no faults, and the swarms' default knobs.
faults_clear() {
	local f

	for f in "$SOFTIB"/softib*/reset "$SWARM"/softib*/reset; do
		[ ! -e "$f" ] || echo 1 > "$f"
	done
}

### the rig ###

ports_up() {
	# shellcheck disable=SC2034	# for setup.sh
	if [ -n "$MODULES" ]; then SOFTIB_KO=$MODULES/softib.ko; fi
	softib_up 3
	expect 10 "no InfiniBand ports" test -e "$SOFTIB"/softib2/counters
}

# up_again: A's interface is up, with its address
up_again() {
	ip -n "$A" link set "$IFA" up
	ip -n "$A" addr replace "$IP_A/24" dev "$IFA"
	expect 10 "no carrier on $IFA" has_carrier "$A" "$IFA"
}

# quiet: no neighbour discovery, which would connect by itself
quiet() {
	in_a sysctl -qw "net.ipv6.conf.$IFA.disable_ipv6=1"
	in_b sysctl -qw "net.ipv6.conf.$IFB.disable_ipv6=1"
	in_a ip link set "$IFA" down
	in_b ip link set "$IFB" down
	in_a ip link set "$IFA" up
	in_b ip link set "$IFB" up
	carriers
	in_a ip addr replace "$IP_A/24" dev "$IFA"
	in_b ip addr replace "$IP_B/24" dev "$IFB"
}

t_rig() {
	rig_up drain_timeout_ms="$DEADLINE_MS"
	modes connected
	quiet
	baseline bare "$FIGURES"
	insmod "$MODULES/swarm.ko"
	aim "$IFA"
	baseline idle "$FIGURES"
}

whole() {
	back_to idle 30 "$FIGURES"
	port_clean
}

### each way of coming and going ###

# Packets of all sizes arrive, and the stock is whole while the QPs are there.
t_traffic() {
	local before after size stock

	afresh
	stock=$(counter softib0 srq_outstanding)
	each reset 1
	before=$(stat "$A" "$IFA" rx_packets)
	open_all "$N"
	stat_is connected "$N"
	for size in 64 1500 30000; do
		each payload "$size"
		py send 2 "$N" "$size"
	done
	each payload 64
	after=$(stat "$A" "$IFA" rx_packets)
	[ $((after - before)) -eq $((6 * N)) ] ||
		fail "$((after - before)) packets are counted, not $((6 * N))"
	stat_is send_errors 0
	expect 10 "the stock is not whole: $(counter softib0 srq_outstanding), $stock" \
		sh -c "grep -qx 'srq_outstanding $stock' $SOFTIB/softib0/counters"
	echo "note: $N connections, $((6 * N)) packets"
	each leave dreq
	whole
}

# reasons REASON: since trace_on, all N teardowns began for it
reasons() {
	local n

	n=$(awk -v r="ipoib_drain: .* LIVE -> ERROR reason=$1 " \
		'$0 ~ r { n++ } END { print n + 0 }' "$TRACING"/trace)
	[ "$n" -eq "$2" ] ||
		fail "$n of $2 began by $1: $(grep -oE 'reason=\w+' "$TRACING"/trace | sort | uniq -c)"
}

t_dreq() {
	afresh
	open_all "$N"
	trace_on
	each leave dreq
	stat_is dreps "$N"
	whole
	reasons dreq "$N"
}

# Half of them go, the others do not notice.
t_dreq_half() {
	afresh
	open_all "$N"
	each leave "dreq $((N / 4))"
	expect 20 "half of the QPs should be left" sh -c \
		"[ \$(grep -c ' type 2 ' $SOFTIB/softib0/qps) -eq $((N / 2)) ]"
	py send 2 $((N / 2)) 64
	each leave dreq
	whole
}

# aged N: A notices by age only, and then all of them go
aged() {
	local old

	old=$(param rx_idle_timeout)
	[ "$(rc_qps softib0)" -eq "$1" ] || fail "the peers were not silent"
	trace_on
	param rx_idle_timeout 2
	expect 40 "idle connections stay" sh -c "! grep -q ' type 2 ' $SOFTIB/softib0/qps"
	param rx_idle_timeout "$old"
	reasons idle "$1"
}

# The QPs are gone, and the peer does not even answer a DREQ.
t_mute() {
	afresh
	open_all "$N"
	each leave mute
	aged "$N"
	expect 10 "no DREQ was sent" sh -c \
		"[ \$(cat $SWARM/softib*/stats | awk '\$1 == \"dreqs\" { s += \$2 } END { print s }') -eq $N ]"
	each leave forget
	whole
}

# The host dies: nothing more comes from it.
t_silence() {
	afresh
	open_all "$N"
	knob softib1 mad_drop -1
	knob softib2 mad_drop -1
	each leave destroy
	aged "$N"
	faults_clear
	whole
}

# A's QP breaks: the HCA says so, no CM message has.
t_qp_error() {
	afresh
	open_all "$N"
	trace_on
	each leave error
	stat_is long_accepted 0
	whole
	reasons '(wc_error|lwqe)' "$N"
}

# The port of a swarm is cut off and removed.
t_port_killed() {
	local SOURCES="1 2"

	afresh
	SOURCES=2
	each open $((N / 2))
	knob softib2 link 0
	echo 0 > "$SOFTIB"/softib2/plugged
	aged $((N / 2))
	faults_clear
	echo 1 > "$SOFTIB"/softib2/plugged
	expect 10 "no swarm on softib2" test -e "$SWARM"/softib2/open
	aim "$IFA"
	whole
}

# REPs that are not followed by an RTU: the peer says REJ in the end.
t_half_open() {
	afresh
	each no_rtu 1
	each open $((N / 2))
	stat_is half "$N"
	each leave destroy
	each no_rtu 0
	whole
}

### time ###

t_down_time() {
	afresh
	py down "$IFA" "$IP_A/24" $((5 * ITER)) $((20 * SCALE * ((N + 999) / 1000))) "$N" \
		"$(counters_a)"
	whole
}

# last_ms: open N, down, and the time until the last QP is gone, in $LAST
last_ms() {
	local out down

	out=$(py last "$IFA" "$N" "$(counters_a)") || fail "$out"
	read -r down LAST <<< "$out"
	echo "$1: down $down ms, last QP $LAST ms"
	faults_clear
	expect 30 "peers are left" sh -c "! cat $SWARM/softib*/stats | grep -qE '^(up|leaving|going) [1-9]'"
	up_again
}

# All LWQEs are lost: one deadline for all of them, not one for each, nor one for
# each window of the engine.
t_lwqe_lost() {
	local healthy

	afresh
	last_ms "no fault"
	healthy=$LAST
	knob softib0 lwqe_drop -1
	last_ms "LWQE lost"
	echo "note: last of $N QPs after $healthy ms, $LAST ms without any LWQE (deadline $DEADLINE_MS ms)"
	[ "$LAST" -ge $((DEADLINE_MS / 2)) ] || fail "the fault had no effect"
	[ $((LAST - healthy)) -lt $((DEADLINE_MS * 3 / 2)) ] ||
		fail "more than one deadline"
	whole
}

# Teardown takes as many commands at once as the HCA takes.
t_slots() {
	local one eight

	afresh
	knob softib0 cmd_us 5000
	knob softib0 cmd_slots 1
	last_ms "one slot"
	one=$LAST
	knob softib0 cmd_us 5000
	knob softib0 cmd_slots 8
	last_ms "eight slots"
	eight=$LAST
	echo "note: last of $N QPs after $one ms with 1 command slot, $eight ms with 8 (5 ms each): ratio $((one * 10 / eight))/10"
	[ "$one" -ge $((N * 2 * 5)) ] || fail "fewer commands than two for each QP"
	[ $((one * 2)) -gt $((eight * 3)) ] || fail "the slots are not used"
	whole
}

### floods ###

# Beyond the cap for each peer: a reason, and others connect meanwhile.
t_peer_cap() {
	afresh
	each peers 5
	each open $((N / 2))
	stat_is up 40
	stat_is rejected $((N - 40))
	stat_is rej_3 $((N - 40))
	each peers 4096
	in_a ip neigh flush dev "$IFA"
	in_b ip neigh flush dev "$IFB"
	connect
	each leave dreq
	quiet
	whole
}

# flood START: REQs without QPs behind them, by the thousand, until flood_end
flood() {
	local p

	FLOOD=()
	trap 'kill "${FLOOD[@]}" 2> /dev/null' EXIT
	each reset 1
	each bare 1
	for p in $SOURCES; do
		echo 10000000 > "$SWARM/softib$p/open" 2> /dev/null &
		FLOOD+=($!)
	done
	expect 10 "no flood" sh -c "cat $SWARM/softib*/stats | grep -qE '^answers [1-9][0-9]'"
}

flood_end() {
	local p rc

	kill "${FLOOD[@]}" || fail "the flood ended by itself"
	for p in "${FLOOD[@]}"; do
		rc=0
		wait "$p" || rc=$?
		[ "$rc" -eq 143 ] || fail "the flood ended with status $rc"
	done
	trap - EXIT
	expect 60 "REQs are left: $(cat "$SWARM"/softib*/stats)" sh -c \
		"! cat $SWARM/softib*/stats | grep -qE '^(new|req|up|going) [1-9]'"
	each bare 0
}

# While the accept workers are kept busy by a slow HCA, ib_cm's queue is not: a REQ
# for a service that there is not is answered at once. (What the answer costs is one
# command, for its address handle.)
t_cm_queue() {
	local slow max left SOURCES="1 2"

	afresh
	SOURCES=2
	each target "$(gid_a) 0xfffff0 $IP_A $IP_PEER"
	each reset 1
	each window 1
	SOURCES=1
	# more than can be done in a while, at four commands each
	each window 1000
	each timeout 22
	knob softib0 cmd_us 200000
	echo 60 > "$SWARM"/softib1/open &
	slow=$!
	expect 10 "no REQ is on its way" sh -c \
		"grep -qE '^req [1-9][0-9]' $SWARM/softib1/stats"
	SOURCES=2
	each open 5
	max=$(awk '$1 == "answer_us_max" { print $2 }' "$SWARM"/softib2/stats)
	left=$(awk '$1 == "req" { print $2 }' "$SWARM"/softib1/stats)
	stat_is rej_8 5
	echo "note: answers within $((max / 1000)) ms while $left REQs were being worked on"
	[ "$left" -gt 0 ] || fail "the accept workers were idle"
	[ "$max" -lt $((800000 * SCALE)) ] || fail "ib_cm's queue was stalled"
	knob softib0 cmd_us 0
	wait "$slow"
	SOURCES="1 2"
	each leave dreq
	aim "$IFA"
	whole
}

# Others connect while REQs come in by the thousand.
t_flood() {
	local t0

	afresh
	flood
	in_a ip neigh flush dev "$IFA"
	in_b ip neigh flush dev "$IFB"
	t0=$SECONDS
	connect
	ping_both 30000 -M "do"
	echo "note: others were connected and heard $((SECONDS - t0)) s later"
	flood_end
	echo "note: $(swarm_stat reqs) REQs, $(swarm_stat reps) REPs, $(swarm_stat rejected) REJs"
	quiet
	whole
}

### interfaces that leave under a flood ###

t_delete_race() {
	local i

	afresh
	pkey 5 0x8055
	echo "5 0x8055" > "$SOFTIB"/softib2/pkeys
	for ((i = 0; i < 4 * ITER; i++)); do
		in_a ip link add link "$IFA" name race type ipoib pkey 0x8055
		in_a ip link set race up
		expect 10 "no carrier on race" has_carrier "$A" race
		aim race 0x8055
		flood
		in_a ip link del race
		flood_end
	done
	echo "note: the last of $i deletions: $(swarm_stat reqs) REQs, $(swarm_stat reps) REPs, $(swarm_stat rejected) REJs"
	pkey 5 0
	echo "5 0" > "$SOFTIB"/softib2/pkeys
	aim "$IFA"
	whole
}

t_unload_race() {
	local i

	afresh
	for ((i = 0; i < 2 * ITER; i++)); do
		aim "$IFA"
		flood
		unload ib_ipoib
		flood_end
		ip netns del "$A"
		ip netns del "$B"
		driver_up drain_timeout_ms="$DEADLINE_MS"
		modes connected
		quiet
	done
	aim "$IFA"
	whole
	open_all "$N"
	each leave dreq
	whole
}

# The swarm goes at once, and then the driver.
t_unload() {
	afresh
	open_all "$N"
	rmmod swarm
	back_to bare 30 "$FIGURES"
	unload ib_ipoib
	expect 10 "QPs are left" no_connections
	port_clean
}

# BRIEF=1: what many peers show that one does not
if [ -n "${BRIEF:-}" ]; then
	run_cases rig traffic dreq qp_error lwqe_lost flood unload
fi
run_cases rig traffic dreq dreq_half mute silence qp_error port_killed half_open \
	down_time lwqe_lost slots peer_cap cm_queue flood delete_race unload_race unload
