#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# `ip link set ib0 down` does not wait for connections: it takes at most 20 ms
# longer with them than without (medians), even when the HCA loses its signals or
# is slow. An emulated CPU gets SCALE times as long; the medians are printed.

. "$(dirname "$0")/lib.sh"

HERE=$(cd "$(dirname "$0")" && pwd)
LIMIT_MS=$((20 * SCALE))
ROUNDS=$((9 * ITER))
CASE_SECONDS=200

t_rig() {
	rig_up drain_timeout_ms=2000
	modes connected
	# no ND or DAD traffic, which would connect by itself
	in_a sysctl -qw "net.ipv6.conf.$IFA.disable_ipv6=1"
	in_b sysctl -qw "net.ipv6.conf.$IFB.disable_ipv6=1"
	in_a ip link set "$IFA" down
	in_b ip link set "$IFB" down
	in_a ip link set "$IFA" up
	in_b ip link set "$IFB" up
	carriers
	expect 30 "connections are left" no_connections
}

# `ip netns exec` mounts a sysfs of its own, without debugfs: look from outside
timed() {
	in_a python3 "$HERE/down.py" "$IFA" "$IP_B" "$ROUNDS" "$LIMIT_MS" \
		"/proc/$$/root$SOFTIB/softib0/qps"
}

t_down() {
	timed
	port_clean
}

t_down_lwqe_lost() {
	knob softib0 lwqe_drop -1
	timed
}

t_down_flush_lost() {
	knob softib0 cqe_swallow_drain -1
	timed
}

t_down_slow_destroy() {
	knob softib0 destroy_qp_ms 200
	timed
}

t_unload() {
	unload ib_ipoib
	expect 10 "QPs are left" no_connections
	port_clean
}

run_cases rig down down_lwqe_lost down_flush_lost down_slow_destroy unload
