#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The HCA probe: it finds out which signals of a drain the port gives, says so
# once, and spares connections the wait for those that do not come. It costs no
# receive buffers, leaves nothing behind, and holds up nobody.
#
# Each case loads the driver anew, on ports whose knobs have been turned, for the
# probe comes with the first link.

. "$(dirname "$0")/lib.sh"

DEADLINE_MS=5000
CASE_SECONDS=90

t_rig() {
	ports_up
	census > "$TMP/census.ports"
}

# driver_down: back to bare ports
driver_down() {
	local ns

	unload ib_ipoib
	for ns in "$A" "$B"; do
		[ ! -e "/run/netns/$ns" ] || ip netns del "$ns"
	done
	back_to ports 10
}

# fresh [KNOB VALUE]...: the driver on softib0 and softib1 with these knobs
fresh() {
	driver_down
	while [ $# -gt 0 ]; do
		knobs "$1" "$2"
		shift 2
	done
	driver_up drain_timeout_ms="$DEADLINE_MS"
}

probe_file() {
	echo "/sys/kernel/debug/ipoib/${IFA}_cm_probe"
}

# shown KEY: what the probe of A's port shows
shown() {
	awk -v k="$1" '$1 == k { sub(/^[^ ]* /, ""); print }' "$(probe_file)"
}

# is KEY VALUE...
is() {
	local key=$1 is

	shift
	is=$(shown "$key")
	[ "$is" = "$*" ] || fail "$key is '$is', not '$*': $(cat "$(probe_file)")"
}

probe_over() {
	[ "$(shown state)" = "done" ] && [ "$(shown runs)" -ge "$1" ]
}

# verdict [RUNS]: wait until so many probes are over
verdict() {
	expect 20 "no verdict" probe_over "${1:-1}"
}

# told: what the log says of softib0's probe, in this case
told() {
	log_since | awk '/softib0: port 1: HCA probe:/'
}

# told_once REGEX
told_once() {
	[ "$(told | wc -l)" -eq 1 ] || fail "told $(told | wc -l) times: $(told)"
	told | grep -qE "$1" || fail "not told: $1, but: $(told)"
}

again() {
	echo 1 > "$(probe_file)"
}

# stock_whole: receive WRs of A's SRQ are all there
stock_whole() {
	awk '$1 == "ring" && $5 != $7 { bad = 1 } $1 == "ring" { n++ }
		END { exit bad || !n }' "/sys/kernel/debug/ipoib/${IFA}_cm_drain"
}

# slowest: how long A's slowest teardown took, in ms, by the tracepoints
slowest() {
	sed -n 's/.*ipoib_drain: softib0.* -> DONE reason=stop age_us=\([0-9]*\).*/\1/p' \
		"$TRACING/trace" | sort -n | tail -n 1 | awk '{ print int($1 / 1000) }'
}

# first_down LIMIT_MS: the first teardown after the probe does not wait for a
# signal that does not come; nobody is condemned for it
first_down() {
	local before took

	modes connected
	connect
	before=$(stat "$A" "$IFA" drain_condemned)
	trace_on
	in_a ip link set "$IFA" down
	expect 20 "no teardown" trace_has 'ipoib_drain: softib0.* -> DONE reason=stop'
	expect 20 "QPs stay" sh -c "! grep -q ' type 2 ' $SOFTIB/softib0/qps"
	took=$(slowest)
	echo "note: the first teardown took $took ms"
	[ "$took" -lt "$1" ] || fail "the first teardown took $took ms"
	[ "$(stat "$A" "$IFA" drain_condemned)" -eq "$before" ] ||
		fail "a QP was condemned after the probe"
}

# apart: the counters of connections' drains do not count the probe's
apart() {
	local c

	for c in started condemned lwqe posted flushed reaped; do
		[ "$(stat "$A" "$IFA" "drain_$c")" -eq 0 ] ||
			fail "drain_$c is $(stat "$A" "$IFA" "drain_$c") before any connection"
	done
}

# end: nothing is left
end() {
	faults_clear
	driver_down
	port_clean
}

t_healthy() {
	fresh
	verdict
	is qps 3
	is lwqe 3
	is flush 3
	is error 0
	is strategy lwqe+flush
	told_once 'Last WQE Reached is raised within [0-9]+ us, a send posted in error is flushed within [0-9]+ us; the driver waits for both'
	[ "$(stat "$A" "$IFA" probe_runs)" -eq 1 ] || fail "no probe in ethtool"
	[ "$(stat "$A" "$IFA" probe_lwqe)" -eq 3 ] || fail "no LWQE in ethtool"
	[ "$(stat "$A" "$IFA" probe_flush)" -eq 3 ] || fail "no flush in ethtool"
	[ "$(stat "$A" "$IFA" drain_by_probe)" -eq 3 ] || fail "drains are not counted"
	apart
	stock_whole || fail "stock: $(cat "/sys/kernel/debug/ipoib/${IFA}_cm_drain")"
	[ "$(counter softib0 srq_lost)" -eq 0 ] || fail "receive WRs were lost"
	[ "$(stat "$A" "$IFA" cm_generations)" -eq 0 ] || fail "the SRQ was replaced"
	first_down "$DEADLINE_MS"
	end
}

# An interface that goes down and comes back is not the first link.
t_once() {
	fresh
	verdict
	in_a ip link set "$IFA" down
	addresses
	links_up
	event softib0 port_active
	ping_until 20 "$A" "$IP_B"
	is runs 1
	end
}

t_no_lwqe() {
	fresh lwqe_drop -1
	verdict
	is lwqe 0
	is flush 3
	is strategy flush+sweep
	told_once 'Last WQE Reached is not raised, a send posted in error is flushed .*; the driver goes by the flush'
	[ "$(stat "$A" "$IFA" cm_generations)" -eq 0 ] || fail "the SRQ was replaced"
	apart
	stock_whole || fail "stock: $(cat "/sys/kernel/debug/ipoib/${IFA}_cm_drain")"
	first_down 1000
	end
}

# rxe's own LWQEs: it has none before 6.5, and any number of them later
t_raw() {
	fresh lwqe_raw 1
	verdict
	is flush 3
	if [ "$(counter softib0 lwqe_lower)" -eq 0 ]; then
		echo "note: this rxe raises no LWQE"
		is lwqe 0
		is strategy flush+sweep
	else
		is lwqe 3
		is strategy lwqe+flush
	fi
	first_down 1000
	end
}

t_no_flush() {
	fresh cqe_swallow_drain -1
	verdict
	is lwqe 3
	is flush 0
	is strategy lwqe+sweep
	told_once 'a send posted in error is not flushed; the driver goes by Last WQE Reached'
	first_down 1000
	end
}

t_neither() {
	fresh lwqe_drop -1 cqe_swallow_drain -1
	verdict
	is lwqe 0
	is flush 0
	is strategy timed
	told_once 'Last WQE Reached is not raised, a send posted in error is not flushed; the driver waits a moment'
	first_down 1000
	end
}

t_late() {
	fresh lwqe_delay_ms 1000
	verdict
	is lwqe 3
	[ "$(shown lwqe_us)" -ge 900000 ] || fail "too soon: $(shown lwqe_us) us"
	is strategy lwqe+flush
	end
}

# One QP without LWQE is told, and not believed.
t_some() {
	fresh
	verdict
	knob softib0 lwqe_drop 1
	again
	verdict 2
	is lwqe 2
	is strategy lwqe+flush
	told | grep -q 'Last WQE Reached is raised by 2 of 3 QPs only' ||
		fail "not told: $(told)"
	end
}

# A new firmware: probed again, it regains the driver's trust.
t_again() {
	fresh lwqe_drop -1 cqe_swallow_drain -1
	verdict
	is strategy timed
	faults_clear
	again
	verdict 2
	is lwqe 3
	is flush 3
	is strategy lwqe+flush
	[ "$(told | wc -l)" -eq 2 ] || fail "told $(told | wc -l) times: $(told)"
	again
	verdict 3
	[ "$(told | wc -l)" -eq 2 ] || fail "told the same twice: $(told)"
	knob softib0 cqe_swallow_drain -1
	again
	verdict 4
	is strategy lwqe+sweep
	faults_clear
	again
	verdict 5
	is strategy lwqe+flush
	end
}

t_busy() {
	fresh
	verdict
	knob softib0 lwqe_delay_ms 2000
	again
	! again 2> /dev/null || fail "two probes at a time"
	is state running
	verdict 2
	end
}

# A probe that fails half way says so and judges nobody.
t_fails() {
	local knob runs=1

	fresh
	verdict
	for knob in fail_create_qp fail_modify_init fail_modify_rtr fail_modify_rts; do
		knob softib0 "$knob" -1
		again
		runs=$((runs + 1))
		verdict "$runs"
		knob softib0 "$knob" 0
		is qps 0
		case $knob in
		fail_create_qp) is error -12 ;;
		*) is error -5 ;;
		esac
		is strategy lwqe+flush
	done
	told | grep -q 'HCA probe: could not be made: -12' || fail "told: $(told)"
	for knob in fail_modify_err fail_post_send; do
		knob softib0 "$knob" -1
		again
		runs=$((runs + 1))
		verdict "$runs"
		knob softib0 "$knob" 0
		is qps 0
		is strategy lwqe+flush
	done
	again
	verdict $((runs + 1))
	is qps 3
	end
}

probe_runs() {
	[ "$(shown state)" = running ]
}

rtnl_alive() {
	timeout $((2 * SCALE)) ip link add probe$$ type dummy ||
		fail "rtnl was held: link add"
	timeout $((2 * SCALE)) ip link del probe$$ || fail "rtnl was held: link del"
}

# in_time SECONDS_LIMIT FROM
in_time() {
	local took=$((SECONDS - $2))

	[ "$took" -le $((DEADLINE_MS / 1000 + $1 * SCALE)) ] || fail "took $took s"
}

t_unplug() {
	local pid t0

	fresh lwqe_drop -1
	expect 10 "no probe under way" probe_runs
	t0=$SECONDS
	echo 0 > "$SOFTIB/softib0/plugged" &
	pid=$!
	expect 5 "the interface stays" sh -c "! ip -n $A link show $IFA"
	rtnl_alive
	wait "$pid"
	in_time 3 "$t0"
	echo 1 > "$SOFTIB/softib0/plugged"
	expect 10 "no interface on softib0" softib_netdev 0
	IFA=$(softib_netdev 0)
	ip link set "$IFA" netns "$A"
	echo "$IFA $IFB" > "$TMP/names"
	addresses
	links_up
	verdict
	is lwqe 0
	end
}

# A dead HCA is not waited for, and is not judged.
t_fatal() {
	driver_down
	knob softib0 lwqe_drop -1
	driver_up drain_timeout_ms=60000
	expect 10 "no probe under way" probe_runs
	event softib0 device_fatal
	expect 5 "QPs of the probe stay" sh -c "! grep -q ' type 2 ' $SOFTIB/softib0/qps"
	is runs 0
	[ -z "$(told)" ] || fail "judged: $(told)"
	! again 2> /dev/null || fail "a dead HCA is probed"
	end
}

t_unload() {
	local t0

	fresh lwqe_drop -1
	expect 10 "no probe under way" probe_runs
	t0=$SECONDS
	unload ib_ipoib
	in_time 3 "$t0"
	end
}

# Without an SRQ the first signal is that the QP's own receives are flushed.
t_no_srq() {
	local d

	driver_down
	for d in softib0 softib1; do
		knob "$d" no_srq 1
		echo 0 > "$SOFTIB/$d/plugged"
		echo 1 > "$SOFTIB/$d/plugged"
	done
	driver_up drain_timeout_ms="$DEADLINE_MS" max_nonsrq_conn_qp=1
	verdict
	is qps 3
	is lwqe 3
	is flush 3
	told_once 'receives posted to a QP in error are flushed'
	modes connected
	connect
	driver_down
	for d in softib0 softib1; do
		[ "$(counter "$d" rq_outstanding)" -eq "$(awk -v d="$d" \
			'$1 == d && $2 == "rq_outstanding" { print $3 }' "$TMP/census.ports")" ] ||
			fail "receive WRs are left"
		knob "$d" no_srq 0
		echo 0 > "$SOFTIB/$d/plugged"
		echo 1 > "$SOFTIB/$d/plugged"
	done
	end
}

# BRIEF=1: one case of each kind
if [ -n "${BRIEF:-}" ]; then
	run_cases rig healthy no_lwqe raw again unplug
fi
run_cases rig healthy once no_lwqe raw no_flush neither late some again busy \
	fails unplug fatal unload no_srq
