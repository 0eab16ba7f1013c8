#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What tools see of an interface: module parameters, sysfs, rtnetlink, ethtool,
# debugfs, and how children, parents and network namespaces hang together.

. "$(dirname "$0")/lib.sh"

# Old modprobe.d files keep working, odd sizes are made valid.
t_rig() {
	rig_up send_queue_size=3 recv_queue_size=17 debug_level=1 \
		mcast_debug_level=1 data_debug_level=1 cm_data_debug_level=1
	[ "$(param send_queue_size)" = 128 ] || fail "send_queue_size"
	[ "$(param recv_queue_size)" = 32 ] || fail "recv_queue_size"
	ping_until 20 "$A" "$IP_B"
}

refused() {
	! "$@" 2> /dev/null || fail "not refused: $*"
}

# file NETNS INTERFACE NAME: what an attribute says
file() {
	ip netns exec "$1" cat "/sys/class/net/$2/$3"
}

has_file() {
	ip netns exec "$1" test -e "/sys/class/net/$2/$3"
}

exists() {
	ip -n "$1" link show dev "$2" > /dev/null 2>&1
}

is_up() {
	ip -n "$1" -o link show dev "$2" | grep -q '[<,]UP[,>]'
}

t_attributes() {
	local f

	for f in mode umcast pkey create_child delete_child dev_id; do
		has_file "$A" "$IFA" "$f" || fail "no attribute $f"
	done
	! has_file "$A" "$IFA" parent || fail "a parent has a parent"
	[ "$(file "$A" "$IFA" pkey)" = 0xffff ] || fail "pkey"
	[ $(($(file "$A" "$IFA" dev_id))) -eq 0 ] || fail "dev_id"
	[ "$(file "$A" "$IFA" dev_port)" = 0 ] || fail "dev_port"
	in_a sh -c "echo 1 > /sys/class/net/$IFA/umcast"
	[ "$(file "$A" "$IFA" umcast)" = 1 ] || fail "umcast cannot be set"
	ip -n "$A" -d link show dev "$IFA" | grep -q 'umcast.*1' ||
		fail "rtnetlink does not show umcast"
	in_a sh -c "echo 0 > /sys/class/net/$IFA/umcast"
	[ "$(file "$A" "$IFA" umcast)" = 0 ] || fail "umcast cannot be cleared"
	# rtnetlink has no way to refuse this: the parent stays
	ip -n "$A" link del dev "$IFA" || fail "link del of a parent fails"
	exists "$A" "$IFA" || fail "a parent was deleted"
}

t_rtnl_children() {
	local n

	pkey 1 0x8001
	for n in 1 2 64; do
		in_a ip link add link "$IFA" name "c$n" numtxqueues "$n" \
			numrxqueues "$n" type ipoib pkey 0x0001
		[ "$(in_a sh -c "ls -d /sys/class/net/c$n/queues/tx-*" | wc -l)" = 1 ] ||
			fail "the child has not one queue"
		[ "$(file "$A" "c$n" pkey)" = 0x8001 ] || fail "no full membership"
	done
	! has_file "$A" c1 create_child || fail "a child makes children"
	! has_file "$A" c1 parent || fail "the attribute parent is of sysfs children"
	[ "$(file "$A" c1 iflink)" = "$(file "$A" "$IFA" ifindex)" ] || fail "iflink"
	in_a ip link add link "$IFA" name c0 type ipoib
	[ "$(file "$A" c0 pkey)" = 0xffff ] || fail "the parent's P_Key is no default"
	in_a ip link add link "$IFA" name cm mtu 65520 type ipoib mode connected
	[ "$(file "$A" cm mtu)" = 65520 ] || fail "newlink ignores the MTU"
	refused in_a ip link add link "$IFA" name bad mtu 65520 type ipoib
	! exists "$A" bad || fail "a refused child is there"
	for n in c0 c1 c2 c64 cm; do
		in_a ip link del "$n"
	done
	pkey 1 0
}

# A child works while its parent is down; when the parent moves, it follows.
t_follow() {
	pkey 1 0x8001
	in_a sh -c "echo 0x8001 > /sys/class/net/$IFA/create_child"
	in_b ip link add link "$IFB" name cb type ipoib pkey 0x8001
	in_a ip link set "$IFA" down
	in_a ip addr add 10.9.1.1/24 dev "$IFA.8001"
	in_b ip addr add 10.9.1.2/24 dev cb
	in_a ip link set "$IFA.8001" up
	in_b ip link set cb up
	expect 10 "no carrier on the child" has_carrier "$A" "$IFA.8001"
	ping_until 20 "$A" 10.9.1.2
	in_a ip link set "$IFA" up
	in_a ip link set "$IFA" down
	! is_up "$A" "$IFA.8001" || fail "the child did not follow down"
	in_a ip link set "$IFA" up
	is_up "$A" "$IFA.8001" || fail "the child did not follow up"
	expect 10 "no carrier on the child" has_carrier "$A" "$IFA.8001"
	ping_until 20 "$A" 10.9.1.2
	in_b ip link del cb
	# Deleted and made again at once: the name and the P_Key are free.
	in_a sh -c "cd /sys/class/net/$IFA && echo 0x8001 > delete_child &&
		echo 0x8001 > create_child && echo 0x8001 > delete_child"
	expect 10 "the child stays" sh -c "! ip -n $A link show $IFA.8001"
	pkey 1 0
	addresses
	carriers
	ping_until 20 "$A" "$IP_B"
}

# The MTU that was asked for survives connected mode and the link's loss.
t_mtu_memory() {
	modes datagram
	in_a ip link set "$IFA" mtu 1500
	mode "$A" "$IFA" connected
	[ "$(file "$A" "$IFA" mtu)" -gt 60000 ] || fail "MTU of connected mode"
	mode "$A" "$IFA" datagram
	[ "$(file "$A" "$IFA" mtu)" = 1500 ] || fail "the MTU was forgotten"
	in_a ip link set "$IFA" down
	in_a ip link set "$IFA" up
	addresses
	carriers
	[ "$(file "$A" "$IFA" mtu)" = 1500 ] || fail "the MTU was forgotten"
	in_a ip link set "$IFA" mtu 4092
	refused in_a ip link set "$IFA" mtu 4093
}

# Only the interface ID of the address may change, and only while down.
t_address() {
	local old new

	old=$(file "$A" "$IFA" address)
	new=${old%:*:*}:12:34
	refused in_a ip link set "$IFA" address "$new"
	in_a ip link set "$IFA" down
	refused in_a ip link set "$IFA" address "00${new#??}"
	refused in_a ip link set "$IFA" address "${old%:*:*:*:*:*:*:*:*}:00:00:00:00:00:00:00:00"
	in_a ip link add link "$IFA" name ca type ipoib
	in_a ip link set "$IFA" address "$new"
	[ "$(file "$A" "$IFA" address)" = "$new" ] || fail "the address is not set"
	[ "$(file "$A" ca address | cut -d: -f 5-)" = "$(cut -d: -f 5- <<< "$new")" ] ||
		fail "the child does not follow"
	in_a ip link del ca
	in_a ip link set "$IFA" address "$old"
	addresses
	links_up
	ping_until 20 "$A" "$IP_B"
}

t_ethtool() {
	local names

	names=$(in_a ethtool -S "$IFA" | sed -n '2,9s/^ *\([a-z_]*\):.*/\1/p' | tr '\n' ' ')
	[ "$names" = "rx_packets tx_packets rx_bytes tx_bytes tx_errors rx_dropped tx_dropped multicast " ] ||
		fail "the first counters are $names"
	[ -n "$(stat "$A" "$IFA" drain_started)" ] || fail "no counters of the port"
	in_a ip link add link "$IFA" name ca type ipoib
	[ -z "$(stat "$A" ca drain_started)" ] || fail "a child counts for the port"
	[ -n "$(stat "$A" ca tx_drop_toolong)" ] || fail "a child does not count"
	in_a ip link del ca
	in_a ethtool "$IFA" | grep -q 'Speed: [0-9]*Mb/s' || fail "no speed"
	in_a ethtool "$IFA" | grep -q 'Link detected: yes' || fail "no link"
	in_a ethtool -c "$IFA" > /dev/null || fail "no coalescing"
	refused in_a ethtool -C "$IFA" rx-usecs 65536
	refused in_a ethtool -C "$IFA" tx-usecs 1
}

debug_files() {
	local s

	for s in mcg path cm_drain cm_conns; do
		cat "/sys/kernel/debug/ipoib/$1_$s" > "$TMP/debug.$s" || return 1
	done
}

t_debugfs() {
	ping_until 20 "$A" "$IP_B"
	debug_files "$IFA" || fail "files are missing"
	grep -q 'GID: ff12:401b:ffff' "$TMP/debug.mcg" || fail "no broadcast group"
	grep -q 'GID: fe80' "$TMP/debug.path" || fail "no path"
	in_a ip link set "$IFA" down
	in_a ip link set "$IFA" name moved
	debug_files moved || fail "the files did not follow the name"
	! debug_files "$IFA" 2> /dev/null || fail "the old files are there"
	in_a ip link set moved name "$IFA"
	addresses
	links_up
	ping_until 20 "$A" "$IP_B"
}

# Packets for an address whose path is not known yet wait, but not all of them.
t_resolve_queue() {
	local before hidden

	hidden=$(in_b cat "/sys/class/net/$IFB/address")
	hidden=${hidden%:*:*}:12:34
	in_a ip neigh replace 10.9.0.77 lladdr "$hidden" dev "$IFA" nud permanent
	knob softib0 sa_drop -1
	before=$(stat "$A" "$IFA" tx_drop_queue)
	in_a python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(100):
    s.sendto(bytes(100), ("10.9.0.77", 9))
'
	[ $(($(stat "$A" "$IFA" tx_drop_queue) - before)) -ge 50 ] ||
		fail "all of 100 packets wait"
	faults_clear
	in_a ip neigh del 10.9.0.77 dev "$IFA"
	ping_until 20 "$A" "$IP_B"
}

# Writers of attributes and the end of a child do not wait for each other.
t_races() {
	local i writers=()

	for ((i = 0; i < 3 * ITER; i++)); do
		in_a ip link add link "$IFA" name ca type ipoib
		in_a ip link set ca up
		in_a sh -c 'while echo connected > /sys/class/net/ca/mode &&
			echo datagram > /sys/class/net/ca/mode; do :; done' 2> /dev/null &
		writers+=($!)
		expect 10 "the writer does not write" \
			ip netns exec "$A" grep -q connected /sys/class/net/ca/mode
		in_a ip link del ca
	done
	wait "${writers[@]}"
	ping_until 20 "$A" "$IP_B"
}

# Who dies with its network namespace comes back to the first one, and works.
# The HCA refuses twice to detach the QP from a group: it goes all the same.
t_detach_fails() {
	baseline detach
	in_a ip link add link "$IFA" name ca type ipoib
	in_a ip link set ca up
	expect 10 "no carrier" has_carrier "$A" ca
	knob softib0 fail_detach 2
	in_a ip link del ca
	[ "$(cat "$SOFTIB/softib0/knobs/fail_detach")" -eq 0 ] || fail "nothing was detached"
	faults_clear
	back_to detach 20
	port_clean
}

t_netns() {
	in_a ip link add link "$IFA" name ca type ipoib
	ip netns del "$A"
	expect 10 "the parent is lost" ip link show dev "$IFA"
	expect 10 "the child is lost" ip link show dev ca
	ip link del ca
	ip netns add "$A"
	ip link set "$IFA" netns "$A"
	in_a ip link set lo up
	addresses
	links_up
	ping_until 20 "$A" "$IP_B"
}

t_unload() {
	pkey 1 0x8001
	in_a sh -c "echo 0x8001 > /sys/class/net/$IFA/create_child"
	in_a ip link add link "$IFA" name ca type ipoib mode connected
	in_a ip link set ca up
	in_a ip link set "$IFA.8001" up
	unload ib_ipoib
	! exists "$A" ca || fail "a child is left"
	! exists "$A" "$IFA" || fail "the parent is left"
	pkey 1 0
	port_clean
}

run_cases rig attributes rtnl_children follow mtu_memory address ethtool \
	debugfs resolve_queue races detach_fails netns unload
