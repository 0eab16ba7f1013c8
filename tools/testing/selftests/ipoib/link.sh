#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What keeps the link alive in datagram mode: a subnet administration that is
# silent, address handles that cannot be made or are in use, completions that are
# lost, P_Keys that come, go and change, events in storms, and what the interface
# says of itself meanwhile.

. "$(dirname "$0")/lib.sh"

HERE=$(cd "$(dirname "$0")" && pwd)

t_rig() {
	rig_up
	ping_until 20 "$A" "$IP_B"
	ping_until 20 "$B" "$IP_A"
}

# file NETNS INTERFACE NAME: what an attribute says
file() {
	ip netns exec "$1" cat "/sys/class/net/$2/$3"
}

# operstate NETNS INTERFACE STATE
operstate() {
	[ "$(file "$1" "$2" operstate)" = "$3" ]
}

# grown NETNS INTERFACE COUNTER FROM [BY]: a counter is at least FROM + BY
grown() {
	[ "$(stat "$1" "$2" "$3")" -ge $(($4 + ${5:-1})) ]
}

# forget: A drops its neighbours and paths, and keeps its groups and carrier
forget() {
	mode "$A" "$IFA" connected
	mode "$A" "$IFA" datagram
}

lladdr() {
	ip -n "$1" -o link show dev "$2" | sed -n 's/.*link\/infiniband \([0-9a-f:]*\) .*/\1/p'
}

# pin: no address resolution between A and B for IPv4
pin() {
	ip -n "$A" neigh replace "$IP_B" lladdr "$(lladdr "$B" "$IFB")" nud permanent dev "$IFA"
	ip -n "$B" neigh replace "$IP_A" lladdr "$(lladdr "$A" "$IFA")" nud permanent dev "$IFB"
}

unpin() {
	ip -n "$A" neigh del "$IP_B" dev "$IFA"
	ip -n "$B" neigh del "$IP_A" dev "$IFB"
}

# Packets wait for their path, in order and not too many, while the SA is silent;
# the link stays. When it answers, they go out.
t_sa_silent_path() {
	local failures drops seq pid

	pin
	failures=$(stat "$A" "$IFA" path_failures)
	knob softib0 sa_drop -1
	forget
	in_a ping -n -c 10 -i 0.05 -W $((8 * SCALE)) "$IP_B" > "$TMP/ping" &
	pid=$!
	expect 10 "no query failed" grown "$A" "$IFA" path_failures "$failures" 2
	has_carrier "$A" "$IFA" || fail "the carrier went with the SA"
	! grep -q 'complete: yes' "/sys/kernel/debug/ipoib/${IFA}_path" ||
		fail "a path without the SA: $(cat "/sys/kernel/debug/ipoib/${IFA}_path")"
	knob softib0 sa_drop 0
	wait "$pid" || fail "packets that waited are lost: $(tail -n 2 "$TMP/ping")"
	seq=$(sed -n 's/.*icmp_seq=\([0-9]*\).*/\1/p' "$TMP/ping" | tr '\n' ' ')
	[ "$seq" = "1 2 3 4 5 6 7 8 9 10 " ] || fail "they came as $seq"

	knob softib0 sa_drop -1
	forget
	drops=$(stat "$A" "$IFA" tx_drop_queue)
	! in_a ping -q -c 60 -i 0.01 -W 1 "$IP_B" > "$TMP/ping" ||
		fail "an answer without a path"
	grown "$A" "$IFA" tx_drop_queue "$drops" 30 ||
		fail "the queue of a path has no bound"
	knob softib0 sa_drop 0
	ping_until 40 "$A" "$IP_B"
	unpin
	port_clean
}

# A path in use stays so while the SA does not answer; and an event that says so
# does not end it.
t_sa_silent_refresh() {
	local failures

	ping_until 20 "$A" "$IP_B"
	pin
	failures=$(stat "$A" "$IFA" path_failures)
	knob softib0 sa_drop -1
	event softib0 sm_change
	expect 10 "the path was not asked for again" \
		grown "$A" "$IFA" path_failures "$failures"
	pings "$A" "$IP_B" 100
	knob softib0 sa_drop 0
	unpin
}

# Neither carrier nor a good state before the broadcast group is joined.
t_sa_silent_join() {
	local failures

	failures=$(stat "$A" "$IFA" mcast_failures)
	in_a ip link set "$IFA" down
	knob softib0 sa_drop -1
	in_a ip link set "$IFA" up
	addresses
	expect 20 "no join failed" grown "$A" "$IFA" mcast_failures "$failures"
	! has_carrier "$A" "$IFA" || fail "carrier without a broadcast group"
	operstate "$A" "$IFA" down || fail "operstate $(file "$A" "$IFA" operstate)"
	# down does not wait for the SA
	in_a timeout $((2 * SCALE)) ip link set "$IFA" down || fail "down waits"
	in_a ip link set "$IFA" up
	addresses
	knob softib0 sa_drop 0
	expect 20 "no carrier when the SA answers" has_carrier "$A" "$IFA"
	expect 5 "operstate $(file "$A" "$IFA" operstate)" operstate "$A" "$IFA" up
	ping_until 20 "$A" "$IP_B"
}

# Joins that fail at once are tried again, with a back-off that ends.
t_join_fails() {
	local failures

	in_a ip link set "$IFA" down
	failures=$(stat "$A" "$IFA" mcast_failures)
	knob softib0 fail_create_ah 3
	in_a ip link set "$IFA" up
	addresses
	expect 20 "no carrier after failed joins" has_carrier "$A" "$IFA"
	grown "$A" "$IFA" mcast_failures "$failures" 3 || fail "no join failed"
	[ "$(cat "$SOFTIB/softib0/knobs/fail_create_ah")" = 0 ] || fail "the fault was not met"
	ping_until 20 "$A" "$IP_B"

	# in back-off, down does not wait and leaves nothing behind
	in_a ip link set "$IFA" down
	knob softib0 fail_create_ah -1
	failures=$(stat "$A" "$IFA" mcast_failures)
	in_a ip link set "$IFA" up
	expect 10 "no join failed" grown "$A" "$IFA" mcast_failures "$failures" 2
	in_a timeout $((2 * SCALE)) ip link set "$IFA" down || fail "down waits"
	knob softib0 fail_create_ah 0
	[ "$(counter softib0 mgids)" -eq 0 ] || fail "groups are attached"
	in_a ip link set "$IFA" up
	addresses
	carriers
	ping_until 20 "$A" "$IP_B"
	port_clean
}

# The same for the handle of a path.
t_ah_fails() {
	local failures

	pin
	failures=$(stat "$A" "$IFA" path_failures)
	knob softib0 fail_create_ah 2
	forget
	ping_until 20 "$A" "$IP_B"
	grown "$A" "$IFA" path_failures "$failures" 2 || fail "no handle failed"
	unpin
}

handles() {
	[ "$(counter softib0 ahs)" -eq "$1" ]
}

# A handle is destroyed after its last completion, and then soon.
t_ah_life() {
	local with

	ip -n "$A" -6 neigh flush dev "$IFA"
	ip -n "$B" -6 neigh flush dev "$IFB"
	pin
	forget
	in_a ping -q -c 3 -i 0.2 -W "$SCALE" "$IP_B" > "$TMP/ping" || fail "no path"
	with=$(counter softib0 ahs)
	knob softib0 cqe_delay_tx_ms 3000
	in_a ping -q -c 1 -W "$SCALE" "$IP_B" > "$TMP/ping" || fail "no answer"
	forget
	handles "$with" || fail "the handle went before its completion"
	expect 5 "the handle stays" handles $((with - 1))
	knob softib0 cqe_delay_tx_ms 0
	ping_until 20 "$A" "$IP_B"
	unpin
	port_clean
}

# watchdog_expected: the harness does not take the watchdog's line for a fault
watchdog_expected() {
	echo 'rig: expect NETDEV WATCHDOG' > /dev/kmsg
}

# stuck FAULT VALUE: traffic until the watchdog has found the queue stopped
stuck() {
	local timeouts pid

	watchdog_expected
	timeouts=$(stat "$A" "$IFA" tx_timeouts)
	knob softib0 "$1" "$2"
	in_a ping -q -i 0.02 -w $((40 * SCALE)) "$IP_B" > "$TMP/ping" &
	pid=$!
	expect 35 "the watchdog saw nothing" grown "$A" "$IFA" tx_timeouts "$timeouts"
	end_job "$pid"
	knob softib0 "$1" 0
}

# settled RESTARTS TIMEOUTS: for more than a period of the watchdog, under traffic,
# they stay what they are
settled() {
	ping_until 20 "$A" "$IP_B"
	in_a ping -q -i 0.1 -w 12 "$IP_B" > "$TMP/ping" || fail "no traffic"
	[ "$(stat "$A" "$IFA" restarts)" -eq "$1" ] ||
		fail "$(stat "$A" "$IFA" restarts) restarts, not $1"
	[ "$(stat "$A" "$IFA" tx_timeouts)" -eq "$2" ] ||
		fail "$(stat "$A" "$IFA" tx_timeouts) time-outs, not $2"
}

# A send that never completes stops the queue; one restart brings it back.
t_lost_completion() {
	local restarts timeouts

	restarts=$(stat "$A" "$IFA" restarts)
	timeouts=$(stat "$A" "$IFA" tx_timeouts)
	stuck cqe_swallow_tx 1
	expect 10 "no restart" grown "$A" "$IFA" restarts "$restarts"
	carriers
	settled $((restarts + 1)) $((timeouts + 1))
	port_clean
}

# Completions that nobody announced are found without a restart.
t_lost_notification() {
	local restarts timeouts downs

	restarts=$(stat "$A" "$IFA" restarts)
	timeouts=$(stat "$A" "$IFA" tx_timeouts)
	downs=$(file "$A" "$IFA" carrier_down_count)
	stuck comp_lost_tx 1
	settled "$restarts" $((timeouts + 1))
	[ "$(file "$A" "$IFA" carrier_down_count)" = "$downs" ] || fail "the carrier went"
	port_clean
}

# broadcast_key NETNS INTERFACE KEY: four hex digits
broadcast_key() {
	[ "$(file "$1" "$2" broadcast | cut -d: -f 9-10 | tr -d :)" = "$3" ]
}

# Without its P_Key an interface can be up; it comes alive with the key.
t_pkey_late() {
	in_a ip link set "$IFA" down
	echo "0 0" > "$SOFTIB/softib0/pkeys"
	in_a ip link add link "$IFA" name ca type ipoib pkey 0x8123
	in_a ip link set "$IFA" up || fail "a missing P_Key fails open"
	in_a ip link set ca up || fail "a missing P_Key fails open"
	! has_carrier "$A" "$IFA" || fail "carrier without a P_Key"
	operstate "$A" "$IFA" down || fail "operstate $(file "$A" "$IFA" operstate)"
	# the default key, which is that of the SA, but not at the parent's index
	echo "1 0xffff" > "$SOFTIB/softib0/pkeys"
	echo "7 0x0123" > "$SOFTIB/softib0/pkeys"
	expect 10 "the child has no carrier" has_carrier "$A" ca
	broadcast_key "$A" ca 8123 || fail "the child's key is not a full member's"
	! has_carrier "$A" "$IFA" || fail "carrier without a P_Key"
	# taken away and put back at another index
	echo "7 0" > "$SOFTIB/softib0/pkeys"
	expect 10 "the child keeps its carrier" sh -c \
		"! ip -n $A -o link show ca | grep -q LOWER_UP"
	echo "9 0x8123" > "$SOFTIB/softib0/pkeys"
	expect 10 "the child has no carrier" has_carrier "$A" ca
	echo "0 0xffff" > "$SOFTIB/softib0/pkeys"
	expect 10 "no carrier" has_carrier "$A" "$IFA"
	broadcast_key "$A" "$IFA" ffff || fail "the broadcast address has another key"
	in_a ip link del ca
	echo "1 0" > "$SOFTIB/softib0/pkeys"
	echo "9 0" > "$SOFTIB/softib0/pkeys"
	addresses
	ping_until 20 "$A" "$IP_B"
	port_clean
}

# The groups that the SA has of A's port are those that the kernel has of A's
# interfaces, with the present P_Keys.
same_groups() {
	ip -n "$A" -j link show type ipoib > "$TMP/links" &&
		ip -n "$A" maddr show > "$TMP/maddr" &&
		python3 "$HERE/groups.py" "$TMP/links" "$TMP/maddr" \
			"$SOFTIB/softib0/members" "$SOFTIB/softib0/mgids" > "$TMP/groups"
}

link_local() {
	ip -n "$1" -6 -o addr show dev "$2" scope link | awk '{ sub("/.*", "", $4); print $4; exit }'
}

ping_link_local() {
	in_a ping -q -c 1 -W 1 "$(link_local "$B" "$IFB")%$IFA"
}

# The parent follows the key at index 0 with all its groups; a child does not care.
t_pkey_change() {
	local key ups

	pkey 3 0x8123
	in_a ip link add link "$IFA" name ca type ipoib pkey 0x8123
	in_a ip link set ca up
	expect 10 "the child has no carrier" has_carrier "$A" ca
	ups=$(file "$A" ca carrier_changes)
	expect 10 "other groups before: $(cat "$TMP/groups")" same_groups
	for key in 0x7ffe 0x8001 0xffff; do
		pkey 0 "$key"
		key=$(printf %04x $((key | 0x8000)))
		expect 10 "the P_Key is $(file "$A" "$IFA" pkey)" sh -c \
			"ip netns exec $A grep -qx 0x$key /sys/class/net/$IFA/pkey"
		broadcast_key "$A" "$IFA" "$key" || fail "the broadcast address is not of $key"
		carriers
		expect 10 "groups with $key: $(same_groups; cat "$TMP/groups")" same_groups
		# limited members do not talk to each other
		[ "$key" = fffe ] || {
			ping_until 10 "$A" "$IP_B"
			expect 10 "no neighbour discovery" ping_link_local
		}
	done
	[ "$(file "$A" ca carrier_changes)" = "$ups" ] || fail "the child flapped"
	in_a ip link del ca
	pkey 3 0
	port_clean
}

# SMs that change places cost no packet: no flap, no leave, no path.
t_sm_storm() {
	local changes joins lost pid

	ping_until 20 "$A" "$IP_B"
	expect 10 "groups: $(same_groups; cat "$TMP/groups")" same_groups
	changes=$(file "$A" "$IFA" carrier_changes)
	joins=$(stat "$A" "$IFA" mcast_joins)
	in_a ping -q -c $((50 * ITER)) -i 0.1 -W "$SCALE" "$IP_B" > "$TMP/ping" &
	pid=$!
	while kill -0 "$pid" 2> /dev/null; do
		event softib0 sm_change
		event softib1 sm_change
		sleep 0.1
	done
	wait "$pid" || fail "no traffic: $(tail -n 3 "$TMP/ping")"
	lost=$(sed -n 's/.* \([0-9.]*\)% packet loss.*/\1/p' "$TMP/ping")
	[ "$lost" = 0 ] || fail "packets were lost: $(tail -n 3 "$TMP/ping")"
	[ "$(file "$A" "$IFA" carrier_changes)" = "$changes" ] || fail "the carrier flapped"
	[ "$(stat "$A" "$IFA" mcast_joins)" = "$joins" ] || fail "groups were joined again"
	same_groups || fail "groups: $(cat "$TMP/groups")"
}

# A SM that forgets asks for it: everything is joined again, at once when it can be.
t_reregister() {
	local changes joins i

	changes=$(file "$A" "$IFA" carrier_changes)
	for ((i = 0; i < 3 * ITER; i++)); do
		joins=$(stat "$A" "$IFA" mcast_joins)
		knob softib0 sa_drop 4
		event softib0 reregister
		expect 10 "the groups do not come back" grown "$A" "$IFA" mcast_joins "$joins" 2
	done
	[ "$(file "$A" "$IFA" carrier_changes)" = "$changes" ] || fail "the carrier flapped"
	expect 10 "groups: $(same_groups; cat "$TMP/groups")" same_groups
	ping_until 10 "$A" "$IP_B"
}

# One transition for each real change.
t_operstate() {
	local ups downs

	in_a ip link set "$IFA" down
	knob softib0 link 0
	in_a ip link set "$IFA" up
	addresses
	operstate "$A" "$IFA" down || fail "operstate $(file "$A" "$IFA" operstate)"
	ups=$(file "$A" "$IFA" carrier_up_count)
	downs=$(file "$A" "$IFA" carrier_down_count)
	knob softib0 link 1
	carriers
	expect 5 "operstate $(file "$A" "$IFA" operstate)" operstate "$A" "$IFA" up
	ping_until 20 "$A" "$IP_B"
	knob softib0 link 0
	expect 10 "operstate stays" operstate "$A" "$IFA" down
	[ "$(file "$A" "$IFA" carrier_up_count)" = $((ups + 1)) ] ||
		fail "carrier came $(($(file "$A" "$IFA" carrier_up_count) - ups)) times"
	[ "$(file "$A" "$IFA" carrier_down_count)" = $((downs + 1)) ] ||
		fail "carrier went $(($(file "$A" "$IFA" carrier_down_count) - downs)) times"
	knob softib0 link 1
	carriers
	ping_until 20 "$A" "$IP_B"
}

# mtus INTERFACE ok|no MTU...: which are taken
mtus() {
	local dev=$1 want=$2 mtu

	shift 2
	for mtu; do
		if in_a ip link set "$dev" mtu "$mtu" 2> /dev/null; then
			[ "$want" = ok ] || fail "$dev takes the MTU $mtu"
			[ "$(file "$A" "$dev" mtu)" = "$mtu" ] ||
				fail "$dev: $mtu became $(file "$A" "$dev" mtu)"
		else
			[ "$want" = no ] || fail "$dev refuses the MTU $mtu"
		fi
	done
}

# IB MTU 4096: the largest datagram is 4092. The group's record says so too.
t_mtu_table() {
	pkey 3 0x8123
	in_a ip link add link "$IFA" name ca type ipoib pkey 0x8123
	for dev in "$IFA" ca; do
		mtus "$dev" no 0 1 67 68 71 4093 65520 65521 2147483647
		mtus "$dev" ok 72 1280 4091 4092
		mode "$A" "$dev" connected
		[ "$(file "$A" "$dev" mtu)" = 65520 ] || fail "MTU of connected mode"
		mtus "$dev" no 0 1 71 65521 2147483647
		mtus "$dev" ok 72 4093 65519 65520
		mode "$A" "$dev" datagram
		[ "$(file "$A" "$dev" mtu)" = 4092 ] || fail "MTU of datagram mode"
	done
	in_a ip link set ca up
	expect 10 "the child has no carrier" has_carrier "$A" ca
	mtus ca no 4093
	mtus ca ok 4092
	in_a ip link del ca
	pkey 3 0
	addresses
	ping_until 20 "$A" "$IP_B"
	pings "$A" "$IP_B" 4064 -M "do"
	! in_a ping -q -c 1 -W 1 -s 4065 -M "do" "$IP_B" > "$TMP/ping" 2>&1 ||
		fail "a packet longer than the MTU"
	port_clean
}

# An interface ID that the port has no GID for: said when given, no link, no harm.
t_given_id() {
	local addr

	addr=$(lladdr "$A" "$IFA")
	addr=${addr%:*:*}:be:ef
	in_a ip link add link "$IFA" name ca address "$addr" type ipoib 2> "$TMP/warning" ||
		fail "not taken: $(cat "$TMP/warning")"
	grep -q 'no link until' "$TMP/warning" || fail "no warning: $(cat "$TMP/warning")"
	in_a ip link set ca up
	expect 10 "no join was tried" sh -c \
		"ip netns exec $A ethtool -S ca | grep -q 'mcast_failures: [1-9]'"
	! has_carrier "$A" ca || fail "a link without a GID"
	in_a ip link del ca
	# one that is there is as good as none given
	in_a ip link add link "$IFA" name ca address "$(lladdr "$A" "$IFA")" type ipoib \
		2> "$TMP/warning"
	[ ! -s "$TMP/warning" ] || fail "a warning: $(cat "$TMP/warning")"
	in_a ip link set ca up
	expect 10 "no carrier" has_carrier "$A" ca
	in_a ip link del ca
	port_clean
}

# Memberships come and go under a storm of events; at rest the SA has what the
# kernel has, and nothing hangs.
t_event_storm() {
	local pid i e

	in_a python3 "$HERE/groups.py" --churn 200 "$IP_A" > "$TMP/churn" &
	pid=$!
	for ((i = 0; i < 15 * ITER; i++)); do
		for e in reregister sm_change gid_change pkey_change lid_change port_active; do
			event softib0 "$e"
		done
		sleep 0.05
	done
	in_a timeout $((5 * SCALE)) ip link set "$IFA" down || fail "down takes too long"
	in_a ip link set "$IFA" up
	addresses
	wait "$pid" || fail "$(cat "$TMP/churn")"
	carriers
	expect 20 "groups: $(same_groups; cat "$TMP/groups")" same_groups
	ping_until 20 "$A" "$IP_B"
	port_clean
}

t_unload() {
	ping_until 20 "$A" "$IP_B"
	unload ib_ipoib
	[ "$(counter softib0 ahs)" -eq 0 ] || fail "handles are left"
	[ "$(counter softib0 mgids)" -eq 0 ] || fail "groups are attached"
	expect 10 "memberships are left: $(cat "$SOFTIB/softib0/members")" sh -c \
		"! grep -q . $SOFTIB/softib0/members"
	port_clean
}

run_cases rig sa_silent_path sa_silent_refresh sa_silent_join join_fails ah_fails \
	ah_life lost_completion lost_notification pkey_late pkey_change sm_storm \
	reregister operstate mtu_table given_id event_storm unload
