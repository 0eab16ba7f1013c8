# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What a guest of a pair does when told by the host; to be sourced in the guest.
#
#      guest 1                                           guest 2
#   +-------------+                                   +-------------+
#   | ib0         |        ours or stock, any kernel  | ib0         |
#   | 10.9.0.1    |                                   | 10.9.0.2    |
#   | softib0     |                                   | softib0     |
#   | rxe_eth0    |                                   | rxe_eth0    |
#   +---- eth0 ---+ ===== virtual Ethernet, 9000 ==== +---- eth0 ---+

SOFTIB=/sys/kernel/debug/softib
TRACING=/sys/kernel/tracing
IF=ib0

# shellcheck source=tools/testing/softib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../softib/setup.sh"

if grep -q TCG /proc/cpuinfo; then SCALE=5; else SCALE=1; fi

# host_wait SECONDS COMMAND...: poll until it succeeds
host_wait() {
	local end=$((SECONDS + $1 * SCALE))

	shift
	until "$@" > /dev/null 2>&1; do
		if [ "$SECONDS" -ge "$end" ]; then
			echo "waited in vain for: $*"
			return 1
		fi
		sleep 0.1
	done
}

# host_up N [ARGUMENTS OF ib_ipoib]: the stack, from Ethernet to IP, as host N
host_up() {
	local n=$1

	shift
	softib_modules
	softib_lower eth0 $((n - 1))
	softib_load eth0
	modprobe ib_ipoib "$@"
	host_wait 10 test -e "/sys/class/net/$IF"
	ip addr add "10.9.0.$n/24" dev $IF
	ip link set $IF up
	host_wait 20 host_carrier $IF
}

host_carrier() {
	ip -o link show dev "$1" | grep -q LOWER_UP
}

# host_mode MODE [INTERFACE]: and resolve addresses anew, in the new mode
host_mode() {
	local dev=${2:-$IF}

	echo "$1" > "/sys/class/net/$dev/mode"
	[ "$1" = datagram ] || ip link set "$dev" mtu 65520
	ip neigh flush dev "$dev"
	host_wait 20 host_carrier "$dev"
}

# host_reach ADDRESS [SIZE]: until one ping comes back
host_reach() {
	host_wait 20 ping -q -c 1 -W 1 -s "${2:-56}" "$1"
}

# host_connect ADDRESS: until 60 kB go unfragmented, that is by a connection
host_connect() {
	host_wait 40 host_big_ping "$1"
}

host_big_ping() {
	ip route flush cache
	ping -q -c 1 -W $SCALE -s 60000 -M "do" "$1"
}

# host_ping ADDRESS SIZE [OPTIONS]: three pings, all must come back
host_ping() {
	local to=$1 size=$2

	shift 2
	ping -q -c 3 -i 0.2 -W $((2 * SCALE)) -s "$size" "$@" "$to" |
		grep -E 'packets|rtt'
	[ "${PIPESTATUS[0]}" -eq 0 ]
}

# host_serve: one iperf3 server for one client, ready when this returns
host_serve() {
	iperf3 -s -1 -D -I /run/iperf3.pid
	host_wait 10 sh -c "ss -Hltn 'sport = :5201' | grep -q ."
}

# host_tcp ADDRESS SECONDS: what arrives there
host_tcp() {
	local out

	out=$(iperf3 -c "$1" -t "$2" -J) || {
		grep -m 1 '"error"' <<< "$out"
		return 1
	}
	python3 -c '
import json, sys
end = json.load(sys.stdin)["end"]
bits = end["sum_received"]["bits_per_second"]
print(f"TCP: {bits / 1e6:.0f} Mb/s arrive")
sys.exit(bits <= 0)' <<< "$out"
}

# host_rc: connected QPs of the port
host_rc() {
	awk '/ type 2 / { n++ } END { print n + 0 }' $SOFTIB/softib0/qps
}

host_no_rc() {
	[ "$(host_rc)" -eq 0 ]
}

host_has_rc() {
	[ "$(host_rc)" -gt 0 ]
}

HOST_CENSUS='qps cqs srqs pds mrs srq_outstanding rq_outstanding'

# host_census: the figures of the port that must come back to where they were
host_census() {
	local c

	for c in $HOST_CENSUS; do
		echo "$c $(softib_counter 0 "$c")"
	done
}

# host_baseline: remember the census; host_back SECONDS: until it is the same
host_baseline() {
	host_census > /run/census
}

host_same() {
	[ "$(host_census)" = "$(cat /run/census)" ]
}

# host_diff: how the census differs; fails only if that cannot be told
host_diff() {
	host_census > /run/census.now
	diff /run/census /run/census.now || [ $? -eq 1 ]
}

host_back() {
	host_wait "$1" host_same || {
		host_diff
		cat $SOFTIB/softib0/qps
		return 1
	}
}

HOST_CLEAN='cq_overflow post_overrun ud_too_long ah_dead_sends poison_freed
	poison_written poison_reposted'

# host_clean: the port saw no buffer misused and no completion queue overrun
host_clean() {
	local c v rc=0

	for c in $HOST_CLEAN; do
		v=$(softib_counter 0 "$c")
		[ "${v:-0}" -eq 0 ] || {
			echo "$c $v"
			rc=1
		}
	done
	return $rc
}

host_param() {
	echo "$2" > "/sys/module/ib_ipoib/parameters/$1"
}

host_trace_on() {
	local e

	echo > $TRACING/trace
	for e in ipoib_drain ipoib_drain_signal ipoib_conn; do
		echo 1 > "$TRACING/events/ib_ipoib/$e/enable"
	done
	echo 1 > $TRACING/tracing_on
}
