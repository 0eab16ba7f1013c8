#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What users do with an interface: traffic in both modes, children, MTU, mode
# strings, down and up, the driver unloaded and loaded again.

. "$(dirname "$0")/lib.sh"

FULL='qps cqs srqs ahs pds mrs mgids srq_outstanding rq_outstanding'

t_rig() {
	ports_up
	census "$FULL" > "$TMP/census.never"
	driver_up
	in_a ethtool -i "$IFA" | grep -qx 'driver: ib_ipoib' ||
		fail "ethtool -i: $(in_a ethtool -i "$IFA")"
	[ "$(in_a cat "/sys/class/net/$IFA/type")" = 32 ] ||
		fail "$IFA is no InfiniBand interface"
	[ "$(in_a cat "/sys/class/net/$IFA/addr_len")" = 20 ] ||
		fail "the address has not 20 octets"
}

t_ping_datagram() {
	[ "$(mode_of "$A" "$IFA")" = datagram ] || fail "the mode is not datagram"
	ping_both 56
	ping_both 2000
	pings "$A" "$IP_B" 10000
	pings "$A" "$IP6_B" 1000
	no_connections || fail "datagram mode made a connection"
	port_clean
}

t_tcp_datagram() {
	tcp 2
	port_clean
}

# Counters and totals move with traffic, and by the right number.
t_counters() {
	local before after

	ping_until 10 "$A" "$IP_B"
	before=$(stat "$A" "$IFA" rx_packets)
	pings "$A" "$IP_B" 100
	after=$(stat "$A" "$IFA" rx_packets)
	[ $((after - before)) -ge 3 ] || fail "rx_packets $before, then $after"
	[ $((after - before)) -le 20 ] || fail "rx_packets $before, then $after"
	ip -n "$A" -s -j link show dev "$IFA" | python3 -c '
import json, sys
s = json.load(sys.stdin)[0]["stats64"]
assert s["rx"]["packets"] >= int(sys.argv[1]), s
assert s["rx"]["bytes"] >= 300 and s["tx"]["packets"] >= 3, s
assert s["rx"]["errors"] == 0 and s["tx"]["errors"] == 0, s
' "$after" || fail "the totals of ip -s link do not fit"
}

t_mode_strings() {
	local word

	for word in connected datagram; do
		mode "$A" "$IFA" "$word" || fail "the mode $word is refused"
		[ "$(mode_of "$A" "$IFA")" = "$word" ] || fail "the mode is not $word"
		ip -n "$A" -d link show dev "$IFA" | grep -qw "mode $word" ||
			fail "rtnetlink does not say $word"
	done
	ip -n "$A" link set dev "$IFA" type ipoib mode connected ||
		fail "rtnetlink refuses the mode"
	[ "$(mode_of "$A" "$IFA")" = connected ] || fail "rtnetlink does not set the mode"
	[ "$(ip -n "$A" -j link show dev "$IFA" | python3 -c '
import json, sys
print(json.load(sys.stdin)[0]["mtu"])')" -gt 60000 ] ||
		fail "connected mode does not raise the MTU"
	ip -n "$A" link set dev "$IFA" type ipoib mode datagram
	[ "$(in_a cat "/sys/class/net/$IFA/mtu")" -le 4092 ] ||
		fail "datagram mode does not lower the MTU"
}

t_ping_connected() {
	modes connected
	ping_until 20 "$A" "$IP_B"
	ping_both 56
	expect 10 "no connection was made" sh -c \
		"grep -q ' type 2 ' $SOFTIB/softib0/qps"
	connect
	ping_both 60000 -M "do"
	pings "$A" "$IP6_B" 60000
	port_clean
}

t_tcp_connected() {
	tcp 2
	port_clean
}

# One side connected, the other datagram: packets that fit pass both ways, and
# longer ones make the sender lower its path MTU.
t_mixed() {
	modes connected
	mode "$B" "$IFB" datagram
	ip -n "$A" neigh flush dev "$IFA"
	ip -n "$B" neigh flush dev "$IFB"
	ping_until 20 "$A" "$IP_B"
	ping_both 56
	expect 20 "long packets do not pass" \
		ip netns exec "$A" ping -q -c 1 -W 2 -s 20000 "$IP_B"
	tcp 1
	modes datagram
	in_a ip route flush cache
}

# child_traffic: ping between two children named as given, on 10.9.1.0/24
child_traffic() {
	in_a ip addr replace 10.9.1.1/24 dev "$1"
	in_b ip addr replace 10.9.1.2/24 dev "$2"
	in_a ip link set "$1" up
	in_b ip link set "$2" up
	expect 10 "no carrier on $1" has_carrier "$A" "$1"
	expect 10 "no carrier on $2" has_carrier "$B" "$2"
	ping_until 20 "$A" 10.9.1.2
	pings "$A" 10.9.1.2 "$3"
	pings "$B" 10.9.1.1 "$3"
}

t_child_sysfs() {
	modes datagram
	baseline sysfs
	pkey 1 0x8001
	in_a sh -c "echo 0x8001 > /sys/class/net/$IFA/create_child"
	in_b sh -c "echo 0x8001 > /sys/class/net/$IFB/create_child"
	[ "$(in_a cat "/sys/class/net/$IFA.8001/pkey")" = 0x8001 ] || fail "pkey"
	[ "$(in_a cat "/sys/class/net/$IFA.8001/parent")" = "$IFA" ] || fail "parent"
	child_traffic "$IFA.8001" "$IFB.8001" 1000
	in_a sh -c "echo 0x8001 > /sys/class/net/$IFA/delete_child"
	in_b sh -c "echo 0x8001 > /sys/class/net/$IFB/delete_child"
	expect 10 "the child stays" sh -c "! ip -n $A link show $IFA.8001"
	expect 10 "the child stays" sh -c "! ip -n $B link show $IFB.8001"
	back_to sysfs 10
	pkey 1 0
}

t_child_rtnl() {
	baseline rtnl
	pkey 1 0x8002
	in_a ip link add link "$IFA" name ca type ipoib pkey 0x8002 mode connected
	in_b ip link add link "$IFB" name cb type ipoib pkey 0x8002 mode connected
	in_a ip link set ca mtu 65520
	in_b ip link set cb mtu 65520
	child_traffic ca cb 60000
	[ "$(rc_qps softib0)" -ge 1 ] || fail "the children did not connect"
	in_a ip link del ca
	in_b ip link del cb
	back_to rtnl 20
	pkey 1 0
}

# Children of different partitions do not hear each other.
t_child_foreign() {
	pkey 1 0x8003
	pkey 2 0x8004
	in_a ip link add link "$IFA" name ca type ipoib pkey 0x8003
	in_b ip link add link "$IFB" name cb type ipoib pkey 0x8004
	in_a ip addr add 10.9.1.1/24 dev ca
	in_b ip addr add 10.9.1.2/24 dev cb
	in_a ip link set ca up
	in_b ip link set cb up
	expect 10 "no carrier on ca" has_carrier "$A" ca
	! in_a ping -q -c 2 -W 1 10.9.1.2 || fail "partitions are not separate"
	in_a ip link del ca
	in_b ip link del cb
	pkey 1 0
	pkey 2 0
}

# A child whose P_Key is not in the table is up without carrier until it is.
t_child_late_pkey() {
	in_a ip link add link "$IFA" name ca type ipoib pkey 0x8005
	in_a ip link set ca up || fail "a missing P_Key fails open"
	! has_carrier "$A" ca || fail "carrier without a P_Key"
	pkey 5 0x8005
	expect 15 "no carrier when the P_Key came" has_carrier "$A" ca
	in_a ip link del ca
	pkey 5 0
}

t_port_event() {
	knob softib0 link 0
	expect 10 "carrier stays without a link" sh -c \
		"! ip -n $A -o link show $IFA | grep -q LOWER_UP"
	knob softib0 link 1
	carriers
	ping_until 20 "$A" "$IP_B"
}

# No carrier before the subnet administration has granted the broadcast group.
t_join_first() {
	local asked

	in_a ip link set "$IFA" down
	knob softib0 sa_drop -1
	asked=$(counter softib0 sa_queries)
	in_a ip link set "$IFA" up
	expect 10 "the group is not asked for" counter_above softib0 sa_queries "$asked"
	! until_true 1 has_carrier "$A" "$IFA" || fail "carrier without the group"
	faults_clear
	expect 40 "no carrier when the group was granted" has_carrier "$A" "$IFA"
	addresses
	ping_until 20 "$A" "$IP_B"
}

# counter_above DEVICE NAME VALUE
counter_above() {
	[ "$(counter "$1" "$2")" -gt "$3" ]
}

stat_above() {
	[ "$(stat "$1" "$2" "$3")" -gt "$4" ]
}

# Multicast that we have sent ourselves is not received.
t_own_multicast() {
	local a b own

	ping_until 20 "$A" "$IP_B"
	a=$(stat "$A" "$IFA" multicast)
	b=$(stat "$B" "$IFB" multicast)
	own=$(stat "$A" "$IFA" rx_drop_own)
	in_a python3 -c '
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[1]))
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
for i in range(30):
    s.sendto(b"x", ("224.0.0.1", 9))
' "$IP_A"
	expect 10 "B hears nothing" stat_above "$B" "$IFB" multicast $((b + 20))
	[ $(($(stat "$A" "$IFA" multicast) - a)) -lt 20 ] ||
		fail "A hears what it has sent itself"
	stat_above "$A" "$IFA" rx_drop_own "$own" || skip "the wire brings nothing back"
}

# Paths are given up while sends along them have not completed: an address handle
# stays until they have.
t_ah_in_flight() {
	local i pid queries

	modes datagram
	ping_until 20 "$A" "$IP_B"
	ip netns exec "$A" python3 -c '
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    try:
        s.sendto(bytes(1000), (sys.argv[1], 9))
    except OSError:
        pass    # B says that nobody listens
' "$IP_B" &
	pid=$!
	for ((i = 0; i < 10 * ITER; i++)); do
		queries=$(stat "$A" "$IFA" path_queries)
		event softib0 lid_change
		expect 10 "the path is not asked for again" \
			stat_above "$A" "$IFA" path_queries "$queries"
	done
	end_job "$pid"
	ping_until 20 "$A" "$IP_B"
	port_clean
}

t_events() {
	local e

	for e in reregister sm_change lid_change pkey_change gid_change; do
		event softib0 "$e"
		ping_until 20 "$A" "$IP_B"
		ping_until 20 "$B" "$IP_A"
	done
	carriers
}

# down and up in both modes, with traffic after each
t_down_up() {
	local i m

	for m in datagram connected; do
		modes "$m"
		for ((i = 0; i < 2 * ITER; i++)); do
			in_a ip link set "$IFA" down
			addresses
			in_a ip link set "$IFA" up
			addresses
			carriers
			ping_until 20 "$A" "$IP_B"
		done
	done
	modes datagram
	port_clean
}

# The mode changes under traffic; the interface keeps working.
t_mode_flip() {
	local i

	traffic "$A" "$IFA" -i 0.05 "$IP_B"
	for ((i = 0; i < 3 * ITER; i++)); do
		mode "$A" "$IFA" connected
		mode "$B" "$IFB" connected
		ip -n "$A" neigh flush dev "$IFA"
		ping_until 20 "$A" "$IP_B"
		mode "$A" "$IFA" datagram
		mode "$B" "$IFB" datagram
		ping_until 20 "$B" "$IP_A"
	done
	traffic_answered
	modes datagram
	ping_both 1000
}

# The HCA is unplugged under traffic and plugged in again.
t_unplug() {
	modes connected
	ping_until 20 "$A" "$IP_B"
	echo 0 > "$SOFTIB/softib0/plugged"
	expect 10 "the interface stays" sh -c "! ip -n $A link show $IFA"
	echo 1 > "$SOFTIB/softib0/plugged"
	expect 10 "no interface on softib0" softib_netdev 0
	IFA=$(softib_netdev 0)
	ip link set "$IFA" netns "$A"
	echo "$IFA $IFB" > "$TMP/names"
	addresses
	links_up
	modes datagram
	ping_until 20 "$A" "$IP_B"
}

# Nothing is left on the ports when the driver has gone, and it can come back.
t_reload() {
	modes connected
	ping_until 20 "$A" "$IP_B"
	ping_both 60000
	unload ib_ipoib
	back_to never 10 "$FULL"
	port_clean
	ip netns del "$A"
	ip netns del "$B"
	driver_up
	ping_until 20 "$A" "$IP_B"
	ping_both 1000
	unload ib_ipoib
	back_to never 10 "$FULL"
}

run_cases rig ping_datagram tcp_datagram counters mode_strings ping_connected \
	tcp_connected mixed child_sysfs child_rtnl child_foreign child_late_pkey \
	port_event join_first own_multicast ah_in_flight events down_up mode_flip unplug reload
