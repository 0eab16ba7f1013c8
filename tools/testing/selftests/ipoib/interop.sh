#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Two guests: our driver in one, the distribution's in the other, both directions
# in both modes; then the peer is killed, and ours drains what it left behind.
# Runs on the host.
#
#   interop.sh KVER [KVER of the distribution's driver]

. "$(dirname "$0")/pair.sh"

KVER=${1:?usage: interop.sh KVER [KVER]}
PEER=${2:-$KVER}

both_ping() {
	must on 1 "host_ping 10.9.0.2 $*"
	must on 2 "host_ping 10.9.0.1 $*"
}

both_mode() {
	must on 1 "host_mode $1"
	must on 2 "host_mode ${2:-$1}"
	must on 1 "host_reach 10.9.0.2"
	must on 2 "host_reach 10.9.0.1"
}

t_boot() {
	pair_boot "$KVER" ours "$PEER" stock
	must on 1 "host_up 1"
	must on 2 "host_up 2"
	must on 1 "host_reach 10.9.0.2"
}

t_datagram() {
	both_ping 56
	both_ping 2000
	both_ping 10000
}

t_datagram_tcp() {
	tcp 1 2 2
	tcp 2 1 2
	must on 1 host_clean
}

t_connected() {
	must on 1 host_baseline
	both_mode connected
	must on 1 "host_connect 10.9.0.2"
	must on 2 "host_connect 10.9.0.1"
	both_ping 56
	both_ping 60000 -M "do"
	must on 1 host_clean
}

t_connected_tcp() {
	tcp 1 2 2
	tcp 2 1 2
	must on 1 host_clean
}

# each side connected while the other is not
t_mixed() {
	both_mode connected datagram
	both_ping 56
	must on 1 "host_reach 10.9.0.2 20000"
	both_mode datagram connected
	both_ping 56
	must on 2 "host_reach 10.9.0.1 20000"
	tcp 2 1 1
	both_mode datagram
	must on 1 "host_back 30"
}

t_child() {
	local n

	for n in 1 2; do
		must on "$n" "softib_pkey 0 1 0x8001
			ip link add link ib0 name child type ipoib pkey 0x8001 mode connected
			ip addr add 10.9.1.$n/24 dev child
			ip link set child up
			ip link set child mtu 65520
			host_wait 20 host_carrier child"
	done
	must on 1 "host_reach 10.9.1.2; host_ping 10.9.1.2 30000"
	must on 2 "host_ping 10.9.1.1 30000"
	for n in 1 2; do
		must on "$n" "ip link del child; softib_pkey 0 1 0"
	done
	must on 1 "host_back 30"
}

# The peer takes its interface down: DREQ to us.
t_peer_down() {
	both_mode connected
	both_ping 60000
	must on 2 "ip link set ib0 down"
	must on 1 "host_wait 20 host_no_rc"
	must on 2 "ip addr replace 10.9.0.2/24 dev ib0; ip link set ib0 up
		host_wait 20 host_carrier ib0"
	must on 1 "host_reach 10.9.0.2"
	both_ping 60000
}

# We take ours down and up; the peer connects again.
t_our_down() {
	must on 1 "ip link set ib0 down; host_wait 20 host_no_rc
		ip addr replace 10.9.0.1/24 dev ib0; ip link set ib0 up
		host_wait 20 host_carrier ib0"
	must on 1 "host_reach 10.9.0.2"
	must on 2 "host_connect 10.9.0.1"
	both_ping 60000
}

# The peer dies without a word: idle age finds its connection, the drain ends it.
t_peer_kill() {
	both_ping 60000
	must on 1 "host_has_rc; host_trace_on; host_param rx_idle_timeout 3"
	guest_kill 2
	must on 1 "host_wait 40 grep -q 'LIVE -> ERROR reason=idle' \$TRACING/trace"
	must on 1 "host_wait 10 grep -q ' -> REAP ' \$TRACING/trace"
	must on 1 "! ping -q -c 2 -W 1 10.9.0.2"
	must on 1 "host_wait 60 host_no_rc"
	must on 1 "host_back 30"
	must on 1 "host_param rx_idle_timeout 512"
	must on 1 host_clean
}

# It comes back, with our driver this time, and is reached as before.
t_peer_returns() {
	must guest_start 2 "$PEER" ours "$PAIR_TOP/build/$PEER"
	must on 2 "host_up 2; host_mode connected"
	must on 1 "ip neigh flush dev ib0; host_connect 10.9.0.2"
	must on 2 "host_connect 10.9.0.1"
	both_ping 60000
	tcp 1 2 2
	must on 1 host_clean
	must on 2 host_clean
}

t_end() {
	must on 1 "rmmod ib_ipoib; host_wait 10 host_no_rc; softib_down"
	must guest_stop 1
	must guest_stop 2
}

run_pair boot datagram datagram_tcp connected connected_tcp mixed child \
	peer_down our_down peer_kill peer_returns end
