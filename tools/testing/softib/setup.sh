# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Guest-side helpers for softib, to be sourced by tests.
#
#   softib_up 2              two ports, softib0 and softib1, on one veth pair
#   softib_up 8              eight ports on one bridge
#   softib_knob 0 lwqe_drop -1
#   softib_counter 0 lwqe_raised
#   softib_down
#
# SOFTIB_KO is the module's file (default: softib by modprobe); SOFTIB_ARGS are
# more module parameters. Network devices stay in the first network namespace,
# where rdma_rxe has its sockets; the IPoIB interfaces may move.

SOFTIB_DEBUG=/sys/kernel/debug/softib

# softib_modules: what softib stands on; 6.12's rxe asks for crc32 by name
softib_modules() {
	local m

	for m in crc32_generic veth configfs ib_core ib_cm ib_umad rdma_rxe; do
		modprobe -q "$m" || [ "$m" = crc32_generic ] || [ "$m" = configfs ] || {
			echo "softib: no module $m" >&2
			return 1
		}
	done
	[ -d /sys/kernel/debug/tracing ] || mount -t debugfs none /sys/kernel/debug
}

# softib_wait SECONDS COMMAND...: until the command succeeds
softib_wait() {
	local end=$((SECONDS + $1))

	shift
	until "$@" > /dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.1
	done
}

softib_has_address() {
	ip -6 addr show dev "$1" scope link -tentative | grep -q inet6
}

# softib_mac N: the MAC of port N, whose LID is N + 1
softib_mac() {
	printf '52:54:00:00:%02x:%02x' $((($1 + 1) >> 8)) $((($1 + 1) & 255))
}

# softib_lower NAME N: give an existing network device to rxe
softib_lower() {
	ip link set "$1" address "$(softib_mac "$2")"
	ip link set "$1" mtu 9000 up
	softib_wait 30 softib_has_address "$1" || {
		echo "softib: no link-local address on $1" >&2
		return 1
	}
	rdma link add "rxe_$1" type rxe netdev "$1"
}

# softib_wires N: sl0, sl1, ...: a veth pair for two, else a bridge
softib_wires() {
	local i

	if [ "$1" -eq 2 ]; then
		ip link add sl0 type veth peer name sl1
		return
	fi
	ip link add slbr mtu 9000 type bridge mcast_snooping 0
	ip link set slbr up
	for ((i = 0; i < $1; i++)); do
		ip link add "sl$i" type veth peer name "slp$i"
		ip link set "slp$i" mtu 9000 master slbr up
	done
}

# softib_load NAMES: insert the module on a comma-separated list of devices
softib_load() {
	# shellcheck disable=SC2086	# SOFTIB_ARGS are words
	if [ -n "${SOFTIB_KO:-}" ]; then
		insmod "$SOFTIB_KO" lower="$1" ${SOFTIB_ARGS:-}
	else
		modprobe softib lower="$1" ${SOFTIB_ARGS:-}
	fi
}

# softib_up [N]: wires, rxe devices and N ports (default 2)
softib_up() {
	local n=${1:-2} names=sl0 i

	softib_modules || return 1
	softib_wires "$n" || return 1
	# Both ends of a wire must be up before an address can be had.
	for ((i = 0; i < n; i++)); do
		ip link set "sl$i" address "$(softib_mac "$i")" || return 1
		ip link set "sl$i" up || return 1
	done
	for ((i = 0; i < n; i++)); do
		softib_lower "sl$i" "$i" || return 1
		[ "$i" -eq 0 ] || names+=,sl$i
	done
	softib_load "$names"
}

# softib_down: remove the module, the rxe devices and the wires
softib_down() {
	local d

	rmmod softib || return 1
	for d in /sys/class/net/sl[0-9]*; do
		[ ! -e "$d" ] || ip link del "${d##*/}" 2> /dev/null || [ ! -e "$d" ]
	done
	[ ! -e /sys/class/net/slbr ] || ip link del slbr
}

# softib_knob PORT NAME VALUE
softib_knob() {
	echo "$3" > "$SOFTIB_DEBUG/softib$1/knobs/$2"
}

# softib_knob_get PORT NAME
softib_knob_get() {
	cat "$SOFTIB_DEBUG/softib$1/knobs/$2"
}

# softib_reset PORT: all knobs of a port back to their defaults
softib_reset() {
	echo 1 > "$SOFTIB_DEBUG/softib$1/reset"
}

# softib_counter PORT NAME
softib_counter() {
	awk -v c="$2" '$1 == c { print $2 }' "$SOFTIB_DEBUG/softib$1/counters"
}

# softib_event PORT NAME: raise an asynchronous event
softib_event() {
	echo "$2" > "$SOFTIB_DEBUG/softib$1/event"
}

# softib_pkey PORT INDEX VALUE
softib_pkey() {
	echo "$2 $3" > "$SOFTIB_DEBUG/softib$1/pkeys"
}

# softib_plug PORT 0|1: hot removal, and back
softib_plug() {
	echo "$2" > "$SOFTIB_DEBUG/softib$1/plugged"
}

# softib_netdev PORT: the parent interface which a driver made on a port, if it
# is in the caller's network namespace
softib_netdev() {
	local d

	for d in "/sys/class/infiniband/softib$1/device/net/"*; do
		[ -e "$d" ] || return 1
		echo "${d##*/}"
		return
	done
}
