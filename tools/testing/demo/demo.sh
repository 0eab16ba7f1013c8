#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# demo.sh [ours|stock]: two hosts talk over IP over InfiniBand, one of them dies,
# and the other drains and reaps the receive QP that the dead one left behind.
#
# Installs what it needs (as root), fetches a kernel, builds, boots two guests.
# KERNEL=6.12 by default; a log is kept in results/demo below the project.

set -uo pipefail
TOP=$(cd "$(dirname "$0")/../../.." && pwd) || exit 1
cd "$TOP" || exit 1
DRIVER=${1:-ours}
KERNEL=${KERNEL:-6.12}
QEMU=tools/testing/qemu
IDLE=5		# seconds until an idle connection is given up, in this demo

case $DRIVER in
ours | stock) ;;
*)
	echo "usage: demo.sh [ours|stock]" >&2
	exit 2
	;;
esac

stamp() {
	printf '[%3d:%02d] ' $((SECONDS / 60)) $((SECONDS % 60))
}

tell() {
	stamp
	echo "$*"
}

give_up() {
	stamp
	echo "STOP: $*"
	exit 1
}

indent() {
	sed -u 's/^/          /'
}

### preparation ###

log=$TOP/results/demo
mkdir -p "$log"

prepare() {
	local what=$1

	shift
	tell "$what"
	"$@" > "$log/prepare.log" 2>&1 || {
		tail -n 20 "$log/prepare.log"
		give_up "$what failed (log: $log/prepare.log)"
	}
}

build() {
	local dir=build/$KERNEL

	$QEMU/kbuild.sh "$KERNEL" tools/testing/softib "$dir/.softib" || return 1
	ln -f "$dir/.softib/softib.ko" "$dir/"
	[ "$DRIVER" = ours ] || return 0
	$QEMU/kbuild.sh "$KERNEL" . "$dir/.driver" &&
	ln -f "$dir/.driver/ib_ipoib.ko" "$dir/"
}

tell "IP over InfiniBand, Linux $KERNEL, driver: $DRIVER"
prepare "packages of the host" $QEMU/deps.sh
prepare "Linux $KERNEL: headers, image, modules" $QEMU/kernels.sh "$KERNEL"
prepare "the guests' root file system" $QEMU/rootfs.sh
prepare "building the modules" build

# shellcheck source=tools/testing/qemu/guests.sh
. $QEMU/guests.sh
GUEST_NET=1
GUEST_TIMEOUT=240
guests_init "$log"

on() {
	guest_run "$1" ". /rig/tree/tools/testing/selftests/ipoib/host.sh; set -e; $2"
}

# show N COMMAND: run it in guest N and show what it says; end on failure
show() {
	on "$1" "$2" 2>&1 | indent
	[ "${PIPESTATUS[0]}" -eq 0 ] || give_up "guest $1: $2"
}

wire() {
	if [ "$1" = datagram ]; then
		echo "datagram mode"
	else
		echo "connected mode"
	fi
}

### two hosts ###

for n in 1 2; do
	tell "booting host $n"
	guest_start $n "$KERNEL" "$DRIVER" "build/$KERNEL" || give_up "host $n does not boot"
done
for n in 1 2; do
	tell "host $n: port, interface, address"
	show $n "host_up $n; ip -br address show dev ib0; ethtool -i ib0 | head -n 1"
done

tell "ping in $(wire datagram)"
show 1 "host_reach 10.9.0.2; host_ping 10.9.0.2 1000"
tell "iperf3 in $(wire datagram)"
show 2 host_serve
show 1 "host_tcp 10.9.0.2 3"

tell "the census of host 1's port before any connection:"
show 1 "host_baseline; paste -sd' ' /run/census"

for n in 1 2; do
	tell "host $n: $(wire connected)"
	show $n "host_mode connected; cat /sys/class/net/ib0/mode; cat /sys/class/net/ib0/mtu"
done
tell "ping of 60 kB, not to be fragmented"
show 1 "host_connect 10.9.0.2; host_ping 10.9.0.2 60000 -M do"
show 2 "host_connect 10.9.0.1; host_ping 10.9.0.1 60000 -M do"
tell "iperf3 in $(wire connected)"
show 2 host_serve
show 1 "host_tcp 10.9.0.2 3"
tell "host 1 has $(on 1 host_rc) connected QPs: one to send, one to receive"

### one dies ###

if [ "$DRIVER" = ours ]; then
	on 1 "host_trace_on; host_param rx_idle_timeout $IDLE" ||
		give_up "no tracepoints of the driver"
fi
tell "host 2 is killed, without notice"
guest_kill 2
show 1 "! ping -q -c 2 -W 1 10.9.0.2 > /dev/null"
tell "host 1: no answer from host 2 any more"

if [ "$DRIVER" = stock ]; then
	tell "does the distribution's driver let go of its connections? The census now:"
	show 1 "if host_wait 6 host_no_rc; then echo 'no connected QP is left'; fi
		host_diff; cat \$SOFTIB/softib0/qps"
	tell "its interface down: how long that takes, and the census behind it"
	show 1 "t=\$(date +%s%N); ip link set ib0 down
		echo \"down took \$(((\$(date +%s%N) - t) / 1000000)) ms\"
		host_census | paste -sd' '"
	tell "seen: ping and TCP in both modes with the distribution's driver; it has no tracepoints of a drain"
	exit 0
fi

tell "host 1: waiting for the idle age of $IDLE s"
on 1 "host_wait 60 host_no_rc" > "$log/wait.log" 2>&1 || {
	show 1 "grep ipoib_ \$TRACING/trace; cat \$SOFTIB/softib0/qps"
	give_up "connected QPs are left on host 1"
}
tell "the driver's own trace of the receive QP on host 1 (time stamps of the guest, in s):"
on 1 "grep -E 'ipoib_drain' \$TRACING/trace | sed -E 's/^.* ([0-9]+\.[0-9]+): /\1 /'" \
	> "$log/trace.txt"
indent < "$log/trace.txt"

tell "the census of host 1's port, before and after:"
same=
if on 1 "host_wait 30 host_same" > "$log/same.log" 2>&1; then same=1; fi
show 1 "host_census | paste -d' ' /run/census - | awk '{ printf \"%-16s %8d %8d\n\", \$1, \$2, \$4 }'"

### what was seen ###

seen=0
missing=0
saw() {
	if grep -qE "$2" "$log/trace.txt"; then
		seen=$((seen + 1))
		echo "          seen: $1"
	else
		missing=$((missing + 1))
		echo "          NOT SEEN: $1"
	fi
}

tell "what was seen:"
saw "LIVE -> ERROR, for idleness" 'LIVE -> ERROR reason=idle'
saw "the Last WQE Reached event" 'ipoib_drain_signal: .* lwqe'
saw "FLUSH -> DRAIN, the drain WR was posted" 'FLUSH -> DRAIN'
saw "the flush completion of the drain WR" 'ipoib_drain_signal: .* (flush|drain)'
saw "DRAIN -> REAP" 'DRAIN -> REAP'
saw "REAP -> DONE" 'REAP -> DONE'
if [ -n "$same" ]; then
	echo "          seen: QPs and receive stock back at their baseline"
else
	echo "          NOT SEEN: QPs and receive stock back at their baseline"
	missing=$((missing + 1))
fi
guest_stop 1 > "$log/stop.log" 2>&1 || {
	cat "$log/stop.log"
	echo "          NOT SEEN: a clean kernel log and an orderly end of host 1"
	missing=$((missing + 1))
}
if [ $missing -ne 0 ]; then
	tell "demo failed: $missing of the things to see are missing (logs in $log)"
	exit 1
fi
tell "demo passed: both modes carried traffic, the dead peer's receive QP was drained and reaped"
