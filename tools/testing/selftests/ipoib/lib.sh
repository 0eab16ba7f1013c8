# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What the tests share: the rig of one guest, KTAP, the judgement of the kernel
# log, the census of the ports. To be sourced.
#
#     netns A                      init_net                      netns B
#   +----------+                                               +----------+
#   |   ib0    |   (whichever the driver names them; $IFA, $IFB) |   ib1    |
#   | 10.9.0.1 |                                               | 10.9.0.2 |
#   +----+-----+                                               +----+-----+
#        | ib_ipoib                                                 |
#   +----+-----+   LID 1                              LID 2    +----+-----+
#   | softib0  |   the InfiniBand ports, with knobs, counters  | softib1  |
#   +----+-----+                                               +----+-----+
#   +----+-----+                                               +----+-----+
#   | rxe_sl0  |              rdma_rxe on each end             | rxe_sl1  |
#   +----+-----+                                               +----+-----+
#       sl0  ====================== veth pair ===================== sl1
#
# Environment (all optional):
#   DRIVER    ours | stock: which ib_ipoib to load
#   MODULES   directory of softib.ko and ib_ipoib.ko
#   ITER      scales the counts of repetitions; 1 in CI
#   RESULTS   directory for what should be kept
#   CASES     names of cases to run, the rest is skipped
#
# A case is a function t_NAME. It runs in a subshell under `set -e`, ends early
# with fail or skip, and is followed by a look at the kernel log and by undo, which
# clears the faults that it left behind; a theme may have an undo of its own.

DRIVER=${DRIVER:-ours}
ITER=${ITER:-1}
MODULES=${MODULES:-}
CASES=${CASES:-}
TESTNAME=$(basename "$0" .sh)
SOFTIB=/sys/kernel/debug/softib
TRACING=/sys/kernel/tracing

# Deadlines are for a real machine; an emulated one gets more, and so does a
# kernel that checks itself.
if [ -z "${SCALE:-}" ]; then
	SCALE=1
	if grep -q TCG /proc/cpuinfo; then SCALE=5; fi
	case $(uname -r) in *-debug) SCALE=$((SCALE * 3)) ;; esac
fi
CASE_SECONDS=${CASE_SECONDS:-60}

A=ipoib-a-$$
B=ipoib-b-$$
IFA=
IFB=
IP_A=10.9.0.1
IP_B=10.9.0.2
IP6_A=fd09::1
IP6_B=fd09::2

# shellcheck source=tools/testing/softib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../softib/setup.sh"

TMP=$(mktemp -d)
RESULTS=${RESULTS:-$TMP}

### results ###

say() {
	echo "# $*"
}

fail() {
	echo "FAIL: $*"
	exit 1
}

skip() {
	echo "$*" > "$TMP/skip"
	exit 4
}

# What must never be in the kernel log.
LOG_BAD='WARNING:|BUG:|Oops|KASAN|UBSAN|general protection|kernel panic'
LOG_BAD+='|INFO: task .* blocked|lockup|detected stall|refcount_t:|list_(add|del) corruption'
LOG_BAD+='|possible (circular|recursive) locking|inconsistent lock state|suspicious RCU'
LOG_BAD+='|unregister_netdevice: waiting|shouldn.t fail|ODEBUG|unreferenced object'
LOG_BAD+='|workqueue: .* (is flushing|hogged)'
LOG_FINE='workqueue: .*hogged'

# A mark in the kernel log; what stands behind it belongs to the case.
log_mark() {
	LOG_MARK="$TESTNAME: case $1 of $$"
	echo "<6>$LOG_MARK" > /dev/kmsg
}

log_since() {
	dmesg | awk -v mark="$LOG_MARK" '
		index($0, mark) { n = 0; next }
		{ line[n++] = $0 }
		END { for (i = 0; i < n; i++) print line[i] }'
}

log_judge() {
	log_since | grep -E "$LOG_BAD" | grep -vE "$LOG_FINE" > "$TMP/bad" || return 0
	echo "the kernel says:"
	log_since | grep -E -A 25 "$LOG_BAD" | head -n 60
	return 1
}

# until SECONDS COMMAND...: poll until the command succeeds or time is up
until_true() {
	local end=$((SECONDS + $1 * SCALE))

	shift
	until "$@" > /dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.1
	done
}

# expect SECONDS WHAT COMMAND...: the same, and fail with WHAT
expect() {
	local seconds=$1 what=$2

	shift 2
	until_true "$seconds" "$@" || fail "$what (waited $((seconds * SCALE)) s for: $*)"
}

# start NAME: run one case in the background, with a time limit
start() {
	local end=$((SECONDS + CASE_SECONDS * SCALE)) pid

	rm -f "$TMP/skip"
	(
		trap - EXIT
		names
		set -e
		"t_$1"
	) > "$TMP/out" 2>&1 &
	pid=$!
	while kill -0 "$pid" 2> /dev/null; do
		if [ "$SECONDS" -ge "$end" ]; then
			echo "no end after $((CASE_SECONDS * SCALE)) s" >> "$TMP/out"
			echo w > /proc/sysrq-trigger
			log_since | tail -n 60 >> "$TMP/out"
			kill -9 "$pid" 2> /dev/null
			HUNG=1
			return 1
		fi
		sleep 0.05
	done
	wait "$pid"
}

# run_cases NAME...: print the plan, run the cases, exit with the verdict.
# The first case brings the rig up; without it the others cannot run.
run_cases() {
	local n=0 rc name failed=0 why t0

	HUNG=
	echo "KTAP version 1"
	echo "1..$#"
	for name; do
		n=$((n + 1))
		if [ -n "$HUNG" ]; then
			echo "not ok $n $TESTNAME.$name"
			say "not run: an earlier case left the guest unusable"
			continue
		fi
		if [ -n "$CASES" ] && [ $n -ne 1 ] && [[ " $CASES " != *" $name "* ]]; then
			echo "ok $n $TESTNAME.$name # SKIP not asked for"
			continue
		fi
		log_mark "$name"
		t0=$SECONDS
		start "$name"
		rc=$?
		log_judge >> "$TMP/out" || rc=1
		case $rc in
		0)
			echo "ok $n $TESTNAME.$name"
			sed -n 's/^note: /# /p' "$TMP/out"
			;;
		4)
			why=$(cat "$TMP/skip" 2> /dev/null)
			echo "ok $n $TESTNAME.$name # SKIP ${why:-no reason given}"
			;;
		*)
			echo "not ok $n $TESTNAME.$name"
			sed 's/^/# /' "$TMP/out" | tail -n 80
			failed=1
			if [ $n -eq 1 ]; then HUNG=1; fi
			;;
		esac
		[ -z "${VERBOSE:-}" ] || say "took $((SECONDS - t0)) s"
		[ -n "$HUNG" ] || undo
	done
	exit "$failed"
}

### modules ###

# load NAME [ARGUMENTS]: ours from $MODULES, with what it depends on, or the
# distribution's
load() {
	local name=$1 d

	shift
	[ ! -d "/sys/module/$name" ] || return 0
	if [ -n "$MODULES" ] && [ -e "$MODULES/$name.ko" ] &&
		{ [ "$name" != ib_ipoib ] || [ "$DRIVER" = ours ]; }; then
		for d in $(modinfo -F depends "$MODULES/$name.ko" | tr ',' ' '); do
			modprobe "$d"
		done
		insmod "$MODULES/$name.ko" "$@"
	else
		modprobe "$name" "$@"
	fi
}

unload() {
	[ ! -d "/sys/module/$1" ] || rmmod "$1"
}

### the rig ###

in_a() {
	ip netns exec "$A" "$@"
}

in_b() {
	ip netns exec "$B" "$@"
}

ports_up() {
	if [ -n "$MODULES" ]; then SOFTIB_KO=$MODULES/softib.ko; fi
	softib_up 2
	expect 10 "no InfiniBand ports" test -e $SOFTIB/softib1/counters
}

# driver_up [ARGUMENTS]: load it, give each interface a netns, bring it up
driver_up() {
	load ib_ipoib "$@"
	expect 10 "no interface on softib0" softib_netdev 0
	expect 10 "no interface on softib1" softib_netdev 1
	IFA=$(softib_netdev 0)
	IFB=$(softib_netdev 1)
	echo "$IFA $IFB" > "$TMP/names"
	ip netns add "$A"
	ip netns add "$B"
	ip link set "$IFA" netns "$A"
	ip link set "$IFB" netns "$B"
	in_a ip link set lo up
	in_b ip link set lo up
	addresses
	links_up
}

# The names are found in a case, that is in a subshell: read them in the next.
names() {
	[ ! -e "$TMP/names" ] || read -r IFA IFB < "$TMP/names"
}

addresses() {
	in_a ip addr replace "$IP_A"/24 dev "$IFA"
	in_b ip addr replace "$IP_B"/24 dev "$IFB"
	in_a ip -6 addr replace "$IP6_A"/64 dev "$IFA" nodad
	in_b ip -6 addr replace "$IP6_B"/64 dev "$IFB" nodad
}

links_up() {
	in_a ip link set "$IFA" up
	in_b ip link set "$IFB" up
	carriers
}

has_carrier() {
	ip -n "$1" -o link show dev "$2" | grep -q LOWER_UP
}

carriers() {
	expect 10 "no carrier on $IFA" has_carrier "$A" "$IFA"
	expect 10 "no carrier on $IFB" has_carrier "$B" "$IFB"
}

rig_up() {
	ports_up
	driver_up "$@"
}

rig_down() {
	local ns rc=0

	faults_clear
	unload badulp || rc=1
	unload ib_ipoib || rc=1
	for ns in "$A" "$B"; do
		[ ! -e "/run/netns/$ns" ] || ip netns del "$ns" || rc=1
	done
	[ ! -d /sys/module/softib ] || softib_down || rc=1
	return $rc
}

# Undo, whatever happened; a hung guest is beyond that.
cleanup() {
	local rc=$?

	if [ -z "${HUNG:-}" ] && ! rig_down > "$TMP/down" 2>&1; then
		echo "not ok 0 $TESTNAME: the rig cannot be taken down"
		sed 's/^/# /' "$TMP/down"
		rc=1
	fi
	rm -rf "$TMP"
	exit $rc
}

### modes and traffic ###

# mode NETNS INTERFACE datagram|connected
mode() {
	ip netns exec "$1" sh -c "echo $3 > /sys/class/net/$2/mode"
}

mode_of() {
	ip netns exec "$1" cat "/sys/class/net/$2/mode"
}

# modes MODE: both sides; addresses stay what they are, and are resolved anew so
# that what follows begins with ARP in the new mode
modes() {
	mode "$A" "$IFA" "$1"
	mode "$B" "$IFB" "$1"
	carriers
	if [ "$1" = connected ]; then
		in_a ip link set "$IFA" mtu 65520
		in_b ip link set "$IFB" mtu 65520
	fi
	ip -n "$A" neigh flush dev "$IFA"
	ip -n "$B" neigh flush dev "$IFB"
}

# pings NETNS ADDRESS SIZE [ping options]: all of three must come back
pings() {
	local ns=$1 to=$2 size=$3

	shift 3
	ip netns exec "$ns" ping -q -c 3 -i 0.2 -W "$((2 * SCALE))" -s "$size" "$@" "$to" ||
		fail "ping $* -s $size $to"
}

# ping_both SIZE [ping options]
ping_both() {
	local size=$1

	shift
	pings "$A" "$IP_B" "$size" "$@"
	pings "$B" "$IP_A" "$size" "$@"
}

# ping_until SECONDS NETNS ADDRESS [SIZE]: traffic comes (back) to life
ping_until() {
	expect "$1" "no answer from $3" \
		ip netns exec "$2" ping -q -c 1 -W 1 -s "${4:-56}" "$3"
}

# end_job PID: end what has run in the background until now, and nothing else
end_job() {
	local rc=0

	kill "$1"
	wait "$1" || rc=$?
	[ $rc -eq 143 ] || fail "the job in the background: status $rc"
}

# traffic_start NETNS PING-ARGUMENTS...: pings in the background, which are running
# and can be ended when this returns
traffic_start() {
	local ns=$1

	shift
	ip netns exec "$ns" ping -q "$@" > "$TMP/traffic" 2>&1 &
	TRAFFIC=$!
	expect 10 "ping does not start" traffic_ready
}

# A shell's background starts with SIGINT ignored: until ping catches it, one to end
# it would be lost.
traffic_ready() {
	[ ! -e "/proc/$TRAFFIC" ] ||
		awk '$1 == "SigCgt:" { exit $2 !~ /[2367abef]$/ }' "/proc/$TRAFFIC/status"
}

# traffic NETNS INTERFACE PING-ARGUMENTS...: the same, with packets on their way
# when this returns
traffic() {
	local ns=$1 dev=$2 before

	before=$(tx_packets "$ns" "$dev")
	shift 2
	traffic_start "$ns" "$@"
	expect 10 "no traffic" tx_beyond "$ns" "$dev" $((before + 5))
}

tx_packets() {
	ip netns exec "$1" cat "/sys/class/net/$2/statistics/tx_packets"
}

tx_beyond() {
	[ "$(tx_packets "$1" "$2")" -gt "$3" ]
}

# traffic_end: stop it; the status is 0 if anything was answered, 1 if nothing
traffic_end() {
	local rc=0

	kill -INT "$TRAFFIC" || fail "the pings ended by themselves: $(cat "$TMP/traffic")"
	wait "$TRAFFIC" || rc=$?
	[ $rc -le 1 ] || fail "ping: status $rc: $(cat "$TMP/traffic")"
	return $rc
}

# traffic_answered: stop it, and something must have been answered
traffic_answered() {
	traffic_end || fail "no answer: $(cat "$TMP/traffic")"
}

# big_ping NETNS ADDRESS: does it go unfragmented, that is by a connection? What
# the datagram fallback has taught the route is forgotten first.
big_ping() {
	ip -n "$1" route flush cache
	ip netns exec "$1" ping -q -c 1 -W "$SCALE" -s 60000 -M "do" "$2"
}

# connect: a connection each way, with something in its rings; a peer that was
# down may be waiting in back-off, for 8 s at most
connect() {
	expect 40 "no connection to B" big_ping "$A" "$IP_B"
	expect 40 "no connection to A" big_ping "$B" "$IP_A"
	[ "$(rc_qps softib0)" -ge 2 ] || fail "not connected: $(cat "$SOFTIB/softib0/qps")"
}

listens() {
	ip netns exec "$1" ss -Hltn "sport = :$2" | grep -q .
}

# tcp SECONDS [SERVER ADDRESS]: one flow from A to B; prints what arrived
tcp() {
	local port=5201 out pid bits

	in_b iperf3 -s -1 -p $port > "$TMP/iperf-server" 2>&1 &
	pid=$!
	expect 10 "no iperf3 server" listens "$B" $port
	out=$(in_a iperf3 -c "${2:-$IP_B}" -p $port -t "$1" -J) || {
		kill $pid 2> /dev/null
		fail "iperf3: $(grep -m 1 error <<< "$out")"
	}
	wait $pid
	bits=$(python3 -c '
import json, sys
print(int(json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"]))' <<< "$out")
	[ "$bits" -gt 0 ] || fail "nothing arrived by TCP"
	echo "note: TCP $((bits / 1000)) kb/s"
}

### the ports' knobs and census ###

# knob DEVICE NAME VALUE
knob() {
	echo "$3" > "$SOFTIB/$1/knobs/$2"
}

# knobs NAME VALUE: on both ports
knobs() {
	knob softib0 "$1" "$2"
	knob softib1 "$1" "$2"
}

faults_clear() {
	local d

	for d in "$SOFTIB"/softib*; do
		[ ! -e "$d/reset" ] || echo 1 > "$d/reset"
	done
}

undo() {
	faults_clear
}

# event DEVICE NAME: an asynchronous event of the port
event() {
	echo "$2" > "$SOFTIB/$1/event"
}

# pkey INDEX VALUE: on both ports
pkey() {
	echo "$1 $2" > $SOFTIB/softib0/pkeys
	echo "$1 $2" > $SOFTIB/softib1/pkeys
}

# counter DEVICE NAME. No other program is run for it: that is slow when emulated.
counter() {
	local lines line

	mapfile -t lines < "$SOFTIB/$1/counters"
	for line in "${lines[@]}"; do
		[ "${line% *}" != "$2" ] || echo "${line##* }"
	done
}

# counts DEVICE NAME N: has the counter got there?
counts() {
	[ "$(counter "$1" "$2")" -ge "$3" ]
}

# rc_qps DEVICE: connected QPs that exist
rc_qps() {
	awk '/ type 2 / { n++ } END { print n + 0 }' "$SOFTIB/$1/qps"
}

# rc_is DEVICE N: are there so many, or more?
rc_is() {
	[ "$(rc_qps "$1")" -ge "$2" ]
}

# What must come back to where it was. Address handles come and go with
# neighbours, they count when the driver has gone.
CENSUS='qps cqs srqs pds mrs srq_outstanding rq_outstanding'

# census [FIGURES]: those of both ports, one to a line
census() {
	local d c lines line
	local -A value

	for d in softib0 softib1; do
		mapfile -t lines < "$SOFTIB/$d/counters"
		for line in "${lines[@]}"; do
			value[${line% *}]=${line##* }
		done
		for c in ${1:-$CENSUS}; do
			echo "$d $c ${value[$c]-}"
		done
	done
}

same_census() {
	[ "$(census "${2-}")" = "$(< "$1")" ]
}

# settled [FIGURES]: two looks see the same
settled() {
	census "${1-}" > "$TMP/census.now"
	sleep "$((SCALE * 200))e-3"	# what is measured is that nothing moves in it
	same_census "$TMP/census.now" "${1-}"
}

# baseline NAME [FIGURES]: remember the census once nothing is in flight
baseline() {
	expect 30 "connections are left: $(cat "$SOFTIB"/*/qps)" no_connections
	expect 30 "the census does not settle" settled "${2-}"
	census "${2-}" > "$TMP/census.$1"
}

# back_to NAME SECONDS [FIGURES]: the census is what it was
back_to() {
	if ! until_true "$2" same_census "$TMP/census.$1" "${3-}"; then
		echo "census $1, before and after:"
		census "${3-}" > "$TMP/census.now"
		diff "$TMP/census.$1" "$TMP/census.now" || [ $? -eq 1 ]
		cat "$SOFTIB"/*/qps
		fail "not back at the census within $(($2 * SCALE)) s"
	fi
}

no_connections() {
	[ "$(rc_qps softib0)" -eq 0 ] && [ "$(rc_qps softib1)" -eq 0 ]
}

# What a port counts when a driver misuses it
CLEAN='cq_overflow post_overrun ud_too_long ah_dead_sends poison_freed'
CLEAN+=' poison_written poison_reposted'

# The port saw no buffer misused and no queue overrun.
port_clean() {
	local d c v

	for d in softib0 softib1; do
		for c in $CLEAN; do
			v=$(counter "$d" "$c")
			[ "${v:-0}" -eq 0 ] || fail "$d counts $c $v"
		done
	done
}

### the driver's counters and traces ###

# stat NETNS INTERFACE NAME: a counter of `ethtool -S`
stat() {
	ip netns exec "$1" ethtool -S "$2" | awk -v n="$3:" '$1 == n { print $2 }'
}

trace_on() {
	local e

	echo 0 > $TRACING/tracing_on
	echo > $TRACING/trace
	for e in ipoib_drain ipoib_drain_signal ipoib_conn; do
		echo 1 > "$TRACING/events/ib_ipoib/$e/enable"
	done
	echo 1 > $TRACING/tracing_on
}

# trace_has REGEX
trace_has() {
	grep -qE "$1" $TRACING/trace
}

# param NAME [VALUE]: read or write a parameter of the driver
param() {
	if [ $# -eq 1 ]; then
		cat "/sys/module/ib_ipoib/parameters/$1"
	else
		echo "$2" > "/sys/module/ib_ipoib/parameters/$1"
	fi
}

trap cleanup EXIT
