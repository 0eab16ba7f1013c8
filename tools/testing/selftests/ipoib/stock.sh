#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The rig itself, proven with the distribution's ib_ipoib: what passes here is
# known to work below the driver, so a failure of ours elsewhere is ours.

DRIVER=stock
. "$(dirname "$0")/lib.sh"

# Two interfaces with carrier in two namespaces, on the software ports.
t_rig() {
	rig_up
	[ "$(in_a cat "/sys/class/net/$IFA/type")" = 32 ] ||
		fail "$IFA is no InfiniBand interface"
}

t_ping_datagram() {
	modes datagram
	ping_both 56
	ping_both 2000
	pings "$A" "$IP6_B" 1000
}

t_tcp_datagram() {
	tcp 2
}

t_ping_connected() {
	modes connected
	ping_until 20 "$A" "$IP_B"
	ping_both 56
	ping_both 60000 -M "do"
	[ "$(rc_qps softib0)" -ge 1 ] || fail "no connected QP on softib0"
	port_clean
}

t_tcp_connected() {
	tcp 2
	port_clean
}

# A P_Key child on each side, one made by sysfs, one by rtnetlink.
t_pkey_child() {
	pkey 1 0x8001
	in_a sh -c "echo 0x8001 > /sys/class/net/$IFA/create_child"
	# this driver puts it into the first netns, wherever the parent is
	if [ -e "/sys/class/net/$IFA.8001" ]; then
		ip link set "$IFA.8001" netns "$A"
	fi
	in_b ip link add link "$IFB" name child type ipoib pkey 0x8001
	in_a ip addr add 10.9.1.1/24 dev "$IFA.8001"
	in_b ip addr add 10.9.1.2/24 dev child
	in_a ip link set "$IFA.8001" up
	in_b ip link set child up
	expect 10 "no carrier on the child" has_carrier "$A" "$IFA.8001"
	expect 10 "no carrier on the child" has_carrier "$B" child
	pings "$A" 10.9.1.2 500
	in_b ip link del child
	in_a sh -c "echo 0x8001 > /sys/class/net/$IFA/delete_child"
	expect 10 "the child stays" sh -c "! ip -n $A link show $IFA.8001"
	pkey 1 0
}

# The port goes down and comes back; so do carrier and traffic.
t_port_event() {
	knob softib0 link 0
	expect 10 "carrier stays without a link" sh -c \
		"! ip -n $A -o link show $IFA | grep -q LOWER_UP"
	knob softib0 link 1
	carriers
	ping_until 20 "$A" "$IP_B"
}

# The SM asks all clients to register again.
t_reregister() {
	event softib0 reregister
	event softib1 reregister
	ping_until 20 "$A" "$IP_B"
	ping_until 20 "$B" "$IP_A"
}

# Connections end with the interface, on every kernel's rxe.
t_down_up() {
	ping_until 20 "$A" "$IP_B"
	in_a ip link set "$IFA" down
	in_b ip link set "$IFB" down
	expect 30 "connections are left: $(cat "$SOFTIB"/*/qps)" no_connections
	addresses
	links_up
	ping_until 20 "$A" "$IP_B"
}

# Nothing is left on the ports when the driver has gone.
t_unload() {
	local d c

	unload ib_ipoib
	for d in softib0 softib1; do
		expect 10 "$d: QPs are left" sh -c \
			"! grep -vE 'type (0|1) ' $SOFTIB/$d/qps"
		for c in srqs srq_outstanding; do
			[ "$(counter "$d" "$c")" -eq 0 ] ||
				fail "$d: $c $(counter "$d" "$c")"
		done
	done
	port_clean
}

run_cases rig ping_datagram tcp_datagram ping_connected tcp_connected \
	pkey_child port_event reregister down_up unload
