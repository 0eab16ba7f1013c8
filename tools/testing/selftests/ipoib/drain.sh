#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Receive QPs come to their end: by DREQ, by age, by interface down, and in
# spite of an HCA that loses, repeats, delays or misplaces the two signals that
# the drain waits for. After each case the census of both ports is what it was,
# the kernel log is clean, and a fresh connection carries 60 kB.
#
# The deadline is shortened, so that a condemned QP does not take the test's time.

. "$(dirname "$0")/lib.sh"

DEADLINE_MS=3000

t_rig() {
	rig_up drain_timeout_ms="$DEADLINE_MS"
	modes connected
	baseline idle
}

# rtnl_alive: whoever waits, it must not be under rtnl
rtnl_alive() {
	timeout $((2 * SCALE)) ip link add probe$$ type dummy ||
		fail "rtnl was held: link add"
	timeout $((2 * SCALE)) ip link del probe$$ || fail "rtnl was held: link del"
}

# gone DEVICE SECONDS: all its connected QPs have been destroyed
gone() {
	expect "$2" "QPs stay: $(cat "$SOFTIB/$1/qps")" sh -c \
		"! grep -q ' type 2 ' $SOFTIB/$1/qps"
}

# usable: faults off, both sides up: traffic as on the first day
usable() {
	faults_clear
	addresses
	links_up
	modes connected
	connect
	ping_both 60000 -M "do"
}

# whole: and then everything back to where it was
whole() {
	in_a ip link set "$IFA" down
	in_b ip link set "$IFB" down
	addresses
	links_up
	back_to idle 30
	port_clean
}

# hits KNOB: what A's port, or the driver, counts of it; empty where nobody does
hits() {
	case $1 in
	lwqe_drop) counter softib0 lwqe_dropped ;;
	lwqe_dup)
		# those that come late may find the QP gone
		[ "$(cat "$SOFTIB/softib0/knobs/lwqe_dup_ms")" -ne 0 ] ||
			stat "$A" "$IFA" drain_lwqe_dup
		;;
	lwqe_delay_ms) echo $(($(counter softib0 err_moves) - $(counter softib0 lwqe_raised))) ;;
	lwqe_destroy | lwqe_inline) counter softib0 lwqe_raised ;;
	lwqe_raw) [[ $(uname -r) == 6.1.* ]] || counter softib0 lwqe_lower ;;
	cqe_swallow_*) counter softib0 cqe_swallowed ;;
	cqe_delay_*) counter softib0 cqe_delayed ;;
	fail_*) counter softib0 injected_failures ;;
	esac
}

# faulty NETNS INTERFACE LIMIT KNOB VALUE...: connect, turn the knobs of A's port,
# take the interface down; the QPs go within LIMIT seconds, rtnl is free meanwhile,
# and the faults have been there
faulty() {
	local ns=$1 dev=$2 limit=$3 k missed=
	local -A before=()

	shift 3
	connect
	while [ $# -gt 0 ]; do
		before[$1]=$(hits "$1")
		knob softib0 "$1" "$2"
		shift 2
	done
	ip netns exec "$ns" timeout $((5 * SCALE)) ip link set "$dev" down ||
		fail "down takes too long"
	rtnl_alive
	gone softib0 "$limit"
	for k in "${!before[@]}"; do
		[ -z "${before[$k]}" ] || [ "$(hits "$k")" -gt "${before[$k]}" ] ||
			missed+=" $k"
	done
	usable
	whole
	[ -z "$missed" ] || fail "did not strike:$missed"
}

# A goes down with a fault of its port.
fault_down() {
	faulty "$A" "$IFA" "$@"
}

# ... or stays up, and the peer says DREQ
fault_dreq() {
	faulty "$B" "$IFB" "$@"
}

# in_order LIMIT KNOB VALUE...: fault_down with a fault that loses no signal: no QP
# has to be condemned
in_order() {
	local before

	before=$(stat "$A" "$IFA" drain_condemned)
	fault_down "$@"
	[ "$(stat "$A" "$IFA" drain_condemned)" -eq "$before" ] ||
		fail "a QP was condemned that had its signals"
}

t_dreq() {
	connect
	trace_on
	in_b ip link set "$IFB" down
	gone softib0 10
	trace_has 'ipoib_drain: .* LIVE -> ERROR reason=dreq' ||
		fail "no teardown by DREQ: $(grep ipoib_drain "$TRACING"/trace)"
	usable
	whole
}

# The steps of one teardown, in their order, from the driver's tracepoints; and
# an active connection ends with its last completion, not with the deadline.
t_trace() {
	connect
	trace_on
	in_a ip link set "$IFA" down
	gone softib0 10
	echo 0 > "$TRACING"/tracing_on
	python3 -c '
import re, sys
steps, since, flushed = {}, {}, 0
for line in open(sys.argv[2]):
    move = re.search(r"ipoib_drain: \S+ qpn=(0x\w+) .* (\w+) -> (\w+) reason", line)
    signal = re.search(r"ipoib_drain_signal: \S+ qpn=(0x\w+) (\S+) status=(-?\d+)", line)
    tx = re.search(r" (\d+\.\d+): ipoib_conn: \S+ tx qpn=(0x\w+) .* -> (\w+)$", line)
    if move:
        steps.setdefault(move.group(1), []).append(move.group(3))
    elif signal:
        steps.setdefault(signal.group(1), []).append(signal.group(2))
    elif tx and tx.group(3) == "FLUSH":
        since[tx.group(2)] = float(tx.group(1))
    elif tx and tx.group(3) == "DEAD" and tx.group(2) in since:
        took = float(tx.group(1)) - since[tx.group(2)]
        assert took < int(sys.argv[1]) / 1000 * 0.9, ("waited for its deadline", line)
        flushed += 1
full = 0
for qpn, s in steps.items():
    print(qpn, " ".join(s))
    if "ERROR" not in s:
        continue
    order = [x for x in s if x in ("ERROR", "FLUSH", "DRAIN", "REAP", "DONE")]
    assert order == ["ERROR", "FLUSH", "DRAIN", "REAP", "DONE"], (qpn, s)
    assert s.index("lwqe") < s.index("DRAIN") < s.index("flush") < s.index("REAP"), (qpn, s)
    full += 1
assert full, "no QP was drained"
assert flushed, "an active connection was not flushed"
' "$DEADLINE_MS" "$TRACING"/trace || fail "the steps are not those of a drain"
	usable
	whole
}

# An idle connection is aged on both sides, and traffic keeps one alive.
t_idle_age() {
	local old

	old=$(param rx_idle_timeout)
	connect
	trace_on
	param rx_idle_timeout 3
	# twice the age
	in_a ping -q -i 0.5 -c 13 "$IP_B" > "$TMP/ping" ||
		fail "no answers: $(cat "$TMP/ping")"
	grep -q ' 0% packet loss' "$TMP/ping" ||
		fail "packets were lost: $(cat "$TMP/ping")"
	! no_connections || fail "a connection in use was aged"
	expect 20 "idle connections stay" no_connections
	param rx_idle_timeout "$old"
	trace_has 'LIVE -> ERROR reason=idle' || fail "no teardown by age"
	back_to idle 10
	usable
	whole
}

t_ifdown() {
	local i

	for ((i = 0; i < 3 * ITER; i++)); do
		connect
		in_a ip link set "$IFA" down
		rtnl_alive
		gone softib0 10
		addresses
		links_up
	done
	usable
	whole
}

# Connections end while they carry traffic.
t_ifdown_traffic() {
	local i

	for ((i = 0; i < 2 * ITER; i++)); do
		connect
		traffic "$B" "$IFB" -f -s 30000 "$IP_A"
		in_a ip link set "$IFA" down
		gone softib0 10
		addresses
		links_up
		traffic_answered
	done
	usable
	whole
}

t_mode_change() {
	connect
	modes datagram
	expect 20 "connections outlive connected mode" no_connections
	modes connected
	usable
	whole
}

t_lwqe_drop() {
	fault_down 20 lwqe_drop -1
}

t_lwqe_drop_dreq() {
	fault_dreq 20 lwqe_drop -1
}

t_lwqe_dup() {
	in_order 20 lwqe_dup 3
}

t_lwqe_dup_late() {
	in_order 20 lwqe_dup_ms 50 lwqe_dup 3
}

t_lwqe_delay_3s() {
	fault_down 20 lwqe_delay_ms 3000
}

t_lwqe_delay_8s() {
	fault_down 20 lwqe_delay_ms 8000
}

t_lwqe_delay_dreq() {
	fault_dreq 20 lwqe_delay_ms 1000
}

t_lwqe_destroy() {
	fault_down 20 lwqe_drop -1 lwqe_destroy -1
}

t_lwqe_dup_destroy() {
	fault_down 20 lwqe_destroy -1
}

# rxe's own LWQEs, which come again and again; before 6.5 it has none
t_lwqe_raw() {
	case $(uname -r) in
	6.1.*) fault_down 20 lwqe_raw 1 ;;
	*) in_order 20 lwqe_raw 1 ;;
	esac
}

t_lwqe_inline() {
	in_order 20 lwqe_inline 1
}

# LWQE on a connection that nobody had asked to end: it ends
t_lwqe_early() {
	trace_on
	knob softib0 lwqe_early -1
	ping_until 20 "$A" "$IP_B"
	traffic_start "$B" -i 0.3 -s 60000 "$IP_A"
	expect 20 "LWQE did not end the connection" trace_has 'LIVE -> ERROR reason=lwqe'
	if traffic_end; then echo "note: pings came through all the same"; fi
	faults_clear
	usable
	whole
}

t_flush_swallowed() {
	fault_down 20 cqe_swallow_drain -1
}

t_flush_swallowed_once() {
	fault_dreq 20 cqe_swallow_drain 1
}

t_flush_delayed() {
	in_order 20 cqe_delay_drain_ms 500
}

t_rx_flush_delayed() {
	in_order 20 cqe_delay_flush_ms 500
}

t_post_send_fails() {
	fault_down 20 fail_post_send -1
}

# (by DREQ: with down, the datagram QP's own move would be hit)
t_modify_err_fails_once() {
	fault_dreq 20 fail_modify_err 1
}

# ... and a QP that never gets to ERR is sent no drain WR
t_modify_err_fails() {
	local posted

	connect
	posted=$(stat "$A" "$IFA" drain_posted)
	knob softib0 fail_modify_err -1
	in_b ip link set "$IFB" down
	rtnl_alive
	gone softib0 20
	[ "$(stat "$A" "$IFA" drain_posted)" -eq "$posted" ] ||
		fail "a drain WR was posted to a QP that was not in ERR"
	usable
	whole
}

t_destroy_slow() {
	fault_down 20 destroy_qp_ms 1000
}

# lose_wr: A goes down with a receive WR that the HCA loses with a half-received
# message: the wire is cut in the middle of one, of 15 packets
lose_wr() {
	local before

	before=$(counter softib0 half_lost)
	knob softib0 lost -1
	knob softib0 cut_after 8
	traffic_start "$B" -i 0.2 -s 60000 "$IP_A"
	expect 10 "the wire was not cut" counts softib0 link_drops 1
	in_a ip link set "$IFA" down
	gone softib0 20
	if traffic_end; then echo "note: a ping came through before the cut"; fi
	[ "$(counter softib0 half_lost)" -gt "$before" ] || fail "no WR was lost"
	usable
}

t_wqe_lost() {
	connect
	lose_wr
	in_a ip link set "$IFA" down
	in_b ip link set "$IFB" down
	addresses
	links_up
	expect 30 "connections are left" no_connections
	port_clean
}

stock_is() {
	[ "$(counter softib0 srq_outstanding)" -ge "$1" ]
}

deficit_beyond() {
	[ "$(stat "$A" "$IFA" cm_stock_deficit)" -gt "$1" ]
}

# Receive WRs that the HCA refused are posted once it takes them.
t_stock_refill() {
	local stock refused

	stock=$(counter softib0 srq_outstanding)
	connect
	refused=$(stat "$A" "$IFA" cm_stock_deficit)
	knob softib0 fail_post_srq_recv 5
	traffic_start "$B" -i 0.2 -s 60000 "$IP_A"
	expect 10 "no receive WR was refused" deficit_beyond "$refused"
	traffic_answered
	expect 10 "the stock stays below $stock receive WRs" stock_is "$stock"
	usable
	whole
}

# A QP without LWQE may have taken WRs with it: new QPs get an SRQ that is whole.
t_stock_renewed() {
	local generations depth

	depth=$(awk '/softib0 srq_outstanding/ { print $3 }' "$TMP/census.idle")
	connect
	generations=$(stat "$A" "$IFA" cm_generations)
	knob softib0 lwqe_drop -1
	lose_wr
	[ "$(stat "$A" "$IFA" cm_generations)" -gt "$generations" ] ||
		fail "no new SRQ took over"
	expect 10 "the stock stays below $depth receive WRs" stock_is "$depth"
	whole
}

# One deadline for all, not one for each: eight children whose LWQEs are lost
t_many_deadlines() {
	local i t0 took

	for i in 1 2 3 4 5 6 7 8; do
		pkey "$i" "0x900$i"
		in_a ip link add link "$IFA" name "ca$i" type ipoib pkey "0x900$i" mode connected
		in_b ip link add link "$IFB" name "cb$i" type ipoib pkey "0x900$i" mode connected
		in_a ip addr add "10.9.1$i.1/24" dev "ca$i"
		in_b ip addr add "10.9.1$i.2/24" dev "cb$i"
		in_a ip link set "ca$i" up
		in_b ip link set "cb$i" up
	done
	for i in 1 2 3 4 5 6 7 8; do
		expect 10 "no carrier on ca$i" has_carrier "$A" "ca$i"
		expect 10 "no carrier on cb$i" has_carrier "$B" "cb$i"
		ping_until 20 "$B" "10.9.1$i.1" 10000
	done
	[ "$(rc_qps softib0)" -ge 8 ] || fail "too few connections"
	knob softib0 lwqe_drop -1
	t0=$SECONDS
	for i in 1 2 3 4 5 6 7 8; do
		in_a ip link set "ca$i" down
	done
	rtnl_alive
	took=$((SECONDS - t0))
	[ "$took" -le $((2 * SCALE)) ] || fail "eight times down took $took s"
	gone softib0 20
	took=$((SECONDS - t0))
	[ "$took" -le $((3 * DEADLINE_MS / 1000 + 2 * SCALE)) ] ||
		fail "eight deadlines took $took s"
	faults_clear
	for i in 1 2 3 4 5 6 7 8; do
		in_a ip link del "ca$i"
		in_b ip link del "cb$i"
		pkey "$i" 0
	done
	usable
	whole
}

# After all of this the driver unloads, and the ports count no leak.
t_unload() {
	unload ib_ipoib
	expect 10 "QPs are left: $(cat "$SOFTIB"/*/qps)" no_connections
	[ "$(counter softib0 srqs)" -eq 0 ] || fail "an SRQ is left"
	[ "$(counter softib0 srq_outstanding)" -eq 0 ] || fail "receive WRs are left"
	port_clean
}

# BRIEF=1: one case of each kind
if [ -n "${BRIEF:-}" ]; then
	run_cases rig dreq trace idle_age ifdown lwqe_drop lwqe_dup lwqe_delay_3s \
		lwqe_destroy lwqe_raw flush_swallowed_once unload
fi
run_cases rig dreq trace idle_age ifdown ifdown_traffic mode_change \
	lwqe_drop lwqe_drop_dreq lwqe_dup lwqe_dup_late lwqe_delay_3s \
	lwqe_delay_8s lwqe_delay_dreq lwqe_destroy lwqe_dup_destroy lwqe_raw \
	lwqe_inline lwqe_early flush_swallowed flush_swallowed_once \
	flush_delayed rx_flush_delayed post_send_fails modify_err_fails_once \
	modify_err_fails destroy_slow wqe_lost stock_renewed stock_refill \
	many_deadlines unload
