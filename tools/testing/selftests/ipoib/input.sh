#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Bad input is refused or counted, and harms nobody: strings and numbers from
# users, packets and connection requests from the wire.

. "$(dirname "$0")/lib.sh"

HERE=$(cd "$(dirname "$0")" && pwd)
MAC_A=52:54:00:00:00:01

t_rig() {
	rig_up
	ping_until 20 "$A" "$IP_B"
}

# refused COMMAND...: it must fail
refused() {
	! "$@" 2> /dev/null || fail "not refused: $*"
}

# says_no FILE TEXT: writing TEXT to a file of A's interface must fail
says_no() {
	# shellcheck disable=SC2016	# for the inner shell
	refused ip netns exec "$A" sh -c \
		'printf "%s" "$2" > "/sys/class/net/$1"' sh "$IFA/$1" "$2"
}

# netlink_mode NUMBER: ask for a mode of A's interface, past the checks of ip(8)
netlink_mode() {
	in_a python3 - "$IFA" "$1" <<-'PY'
		import socket, struct, sys
		LINKINFO, KIND, DATA, MODE = 18, 1, 2, 2
		def attr(kind, data):
		    return struct.pack('=HH', 4 + len(data), kind) + data + bytes(-len(data) % 4)
		index, mode = socket.if_nametoindex(sys.argv[1]), int(sys.argv[2])
		body = struct.pack('=BxHiII', 0, 0, index, 0, 0) + attr(LINKINFO, attr(
		    KIND, b'ipoib\0') + attr(DATA, attr(MODE, struct.pack('=H', mode))))
		s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
		# RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK
		s.send(struct.pack('=IHHII', 16 + len(body), 16, 5, 1, 0) + body)
		error, = struct.unpack_from('=i', s.recv(4096), 16)
		sys.exit(error != 0)
	PY
}

t_mode_strings() {
	local word

	modes datagram
	for word in Connected CONNECTED connectedx connect "connected datagram" \
		0 1 "$(head -c 4000 /dev/zero | tr '\0' x)"; do
		says_no mode "$word"
		[ "$(mode_of "$A" "$IFA")" = datagram ] || fail "'$word' changed the mode"
	done
	refused ip -n "$A" link set dev "$IFA" type ipoib mode 2
	netlink_mode 1 || fail "rtnetlink refuses connected mode"
	netlink_mode 0 || fail "rtnetlink refuses datagram mode"
	refused netlink_mode 2
	refused netlink_mode 65535
	ping_until 10 "$A" "$IP_B"
}

t_mtu() {
	local mtu

	modes datagram
	for mtu in 0 1 67 71 4093 65520 65521; do
		refused in_a ip link set "$IFA" mtu "$mtu"
	done
	for mtu in 72 2044 4092; do
		in_a ip link set "$IFA" mtu "$mtu" || fail "MTU $mtu is refused"
	done
	mode "$A" "$IFA" connected
	for mtu in 0 1 67 71 65521 2147483647; do
		refused in_a ip link set "$IFA" mtu "$mtu"
	done
	for mtu in 72 4092 65520; do
		in_a ip link set "$IFA" mtu "$mtu" || fail "MTU $mtu is refused"
	done
	modes datagram
	ping_until 20 "$A" "$IP_B"
}

t_pkeys() {
	local word

	pkey 1 0x8001
	for word in 0 0x8000 0x10000 -1 abc 0xffff; do
		says_no create_child "$word"
	done
	says_no delete_child 0x8001
	in_a sh -c "echo 0x8001 > /sys/class/net/$IFA/create_child"
	says_no create_child 0x8001
	says_no create_child 0x0001
	# whatever its name
	in_a ip link set "$IFA.8001" name other
	says_no create_child 0x8001
	in_a ip link set other name "$IFA.8001"
	for word in 0 0x8000; do
		refused in_a ip link add link "$IFA" name bad type ipoib pkey "$word"
	done
	refused in_a ip link add link lo name bad type ipoib pkey 0x8001
	refused in_a ip link add name bad type ipoib pkey 0x8001
	refused in_a ip link add link "$IFA.8001" name bad type ipoib pkey 0x8002
	refused in_a ip link add link "$IFA" name bad type ipoib pkey 0x8002 mode 7
	! ip -n "$A" link show bad 2> /dev/null || fail "a refused child is there"
	in_a sh -c "echo 0x8001 > /sys/class/net/$IFA/delete_child"
	expect 10 "the child stays" sh -c "! ip -n $A link show $IFA.8001"
	pkey 1 0
}

# A parent that is InfiniBand by type, but not ours, has no private data of ours.
t_foreign_parent() {
	modprobe bonding 2> /dev/null || skip "this kernel has no bonding"
	in_b ip link set "$IFB" down
	in_b ip link add bond9 type bond mode active-backup fail_over_mac active
	in_b ip link set "$IFB" master bond9 || {
		in_b ip link del bond9
		in_b ip link set "$IFB" up
		skip "the bond takes no InfiniBand interface"
	}
	refused in_b ip link add link bond9 name bad type ipoib pkey 0x8001
	in_b ip link set "$IFB" nomaster
	in_b ip link del bond9
	addresses
	links_up
	ping_until 20 "$A" "$IP_B"
}

# qpn_a [INTERFACE]: its UD QP, or that of $IFA, from its link-layer address
qpn_a() {
	local hex

	hex=$(in_a cat "/sys/class/net/${1:-$IFA}/address" | tr -d :)
	echo "0x${hex:2:6}"
}

ud() {
	python3 "$HERE/inject.py" ud --from sl1 --to "$MAC_A" --qpn "$(qpn_a)" "$@"
}

# counted COUNTER AT_LEAST COMMAND...: A's counter grows
counted() {
	local name=$1 least=$2 before

	shift 2
	before=$(stat "$A" "$IFA" "$name")
	"$@"
	expect 5 "$name does not count" counted_now "$name" $((before + least))
}

counted_now() {
	[ "$(stat "$A" "$IFA" "$1")" -ge "$2" ]
}

# What a well-formed packet does, so that the rest is known to arrive.
t_ud_control() {
	counted rx_packets 1 ud --length 100
}

t_ud_runts() {
	local n

	for n in 0 1 2 3; do
		counted rx_drop_runt 3 ud --length "$n" --count 3
	done
	counted rx_packets 1 ud --length 4 --proto 0x0800
	ping_until 10 "$A" "$IP_B"
	port_clean
}

t_ud_unknown_types() {
	local p

	for p in 0x0000 0x0805 0x8100 0xffff 0x1234; do
		counted rx_drop_proto 2 ud --length 64 --proto "$p" --count 2
	done
	ping_until 10 "$A" "$IP_B"
	port_clean
}

t_ud_flood() {
	ud --length 2 --count $((500 * ITER))
	ud --length 4096 --proto 0x0800 --count $((100 * ITER))
	ud --length 64 --proto 0x9999 --count $((500 * ITER))
	ping_until 10 "$A" "$IP_B"
	ping_both 2000
	port_clean
}

# What the other side sends that our own transmit path must not pass on.
t_transmit_garbage() {
	counted tx_drop_proto 1 in_a python3 - "$IFA" <<-'PY'
		import socket, sys
		s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
		s.bind((sys.argv[1], 0))
		# somebody's address, a type that is not ours
		s.send(b'\x00\x00\x01\x23\xfe\x80' + bytes(6) + b'\x01' * 8 + b'\x12\x34\0\0' + b'x' * 40)
	PY
	counted tx_drop_header 1 in_a python3 - "$IFA" <<-'PY'
		import socket, sys
		s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
		s.bind((sys.argv[1], 0))
		# QPN 0, and a type that is ours
		s.send(b'\x00\x00\x00\x00\xfe\x80' + bytes(6) + b'\x01' * 8 + b'\x08\x00\0\0' + b'x' * 40)
	PY
	in_a python3 - "$IFA" <<-'PY'
		import socket, sys
		s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
		s.bind((sys.argv[1], 0))
		for frame in (bytes(20), bytes(23), bytes(24), bytes(24) + b'x' * 100,
		              b'\x00' * 20 + b'\x12\x34\x00\x00' + b'x' * 40,
		              b'\xff' * 200, b'\x80' + b'\xff' * 19 + b'\x08\x00\0\0' + b'x' * 60):
		    try:
		        s.send(frame)
		    except OSError as e:
		        print(len(frame), e)
	PY
	ping_until 10 "$A" "$IP_B"
	ping_both 1000
	port_clean
}

gid_of() {
	cat "/sys/class/infiniband/$1/ports/1/gids/0"
}

umad_of() {
	local d

	for d in /sys/class/infiniband_mad/umad*; do
		if [ "$(cat "$d/ibdev")" = "$1" ]; then
			basename "$d"
		fi
	done
}

# mad KIND ARGUMENTS: a message to the CM from B's port for A's listener; it is there
# when this returns
mad() {
	local kind=$1 before count=1

	shift
	[[ " $* " =~ \ --count\ ([0-9]+) ]] && count=${BASH_REMATCH[1]}
	before=$(mads)
	python3 "$HERE/inject.py" "$kind" --umad "$(umad_of softib1)" --slid 2 --dlid 1 \
		--sgid "$(gid_of softib1)" --dgid "$(gid_of softib0)" \
		--qpn "$(qpn_a)" "$@"
	expect 20 "the MADs did not come" has_mads $((before + count))
}

# MADs that have come to A's port, those included that found no buffer
mads() {
	echo $(($(counter softib0 mad_received) + $(counter softib0 mad_no_buffer)))
}

has_mads() {
	[ "$(mads)" -ge "$1" ]
}

req() {
	mad req "$@"
}

# private QPN MTU: the eight octets of RFC 4755, in hex
private() {
	printf '%08x%08x' "$1" "$2"
}

t_req_control() {
	modes connected
	baseline req
	[ -n "$(umad_of softib1)" ] || skip "no umad device for softib1"
	counted cm_rx_accepted 1 req --private "$(private 0x123 65524)"
	back_to req 30
}

t_req_bad_private() {
	counted cm_rx_rejected 1 req --private "$(private 0x123 0)"
	counted cm_rx_rejected 1 req --private "$(private 0x123 4)"
	counted cm_rx_rejected 1 req --private ''
	req --private "$(private 0xffffffff 0xffffffff)"
	req --private "$(printf 'ff%.0s' {1..92})"
	back_to req 30
	ping_until 20 "$A" "$IP_B" 60000
	port_clean
}

# The P_Key of a REQ must be the interface's own, though the port has others.
t_req_foreign_pkey() {
	local before

	in_b ip neigh flush dev "$IFB"
	pkey 3 0x8123
	before=$(stat "$A" "$IFA" cm_rx_accepted)
	counted cm_rx_rejected 1 req --pkey 0x8123 --private "$(private 0x123 65524)"
	[ "$(stat "$A" "$IFA" cm_rx_accepted)" -eq "$before" ] ||
		fail "a REQ with a foreign P_Key was accepted"
	pkey 3 0
	req --pkey 0x8124 --private "$(private 0x123 65524)"
	# once another has its answer, so has that one
	counted cm_rx_rejected 1 req --transport uc --private "$(private 0x123 65524)"
	[ "$(stat "$A" "$IFA" cm_rx_accepted)" -eq "$before" ] ||
		fail "a REQ with an unknown P_Key was accepted"
}

# ... and so must the P_Key with which it came
t_req_bth_pkey() {
	local before

	pkey 3 0x8123
	before=$(stat "$A" "$IFA" cm_rx_accepted)
	counted cm_rx_rejected 1 req --pkey-index 3 --private "$(private 0x123 65524)"
	[ "$(stat "$A" "$IFA" cm_rx_accepted)" -eq "$before" ] ||
		fail "a REQ from another partition was accepted"
	pkey 3 0
}

t_req_transport() {
	counted cm_rx_rejected 1 req --transport uc --private "$(private 0x123 65524)"
}

# The listener is no service for SIDR; one that asks leaves nothing behind.
t_sidr() {
	local ids

	ids=$(counter softib0 cm_ids)
	[ "$ids" -ge 0 ] || skip "the port does not count the CM's ids"
	mad sidr --count 5
	# once another has its answer, so have those
	counted cm_rx_rejected 1 req --transport uc --private "$(private 0x123 65524)"
	expect 10 "the CM keeps ids" cm_ids_are "$ids"
	port_clean
}

cm_ids_are() {
	[ "$(counter softib0 cm_ids)" -le "$1" ]
}

# A peer that asks for ever gets a bounded number of QPs.
t_req_flood() {
	local n

	req --private "$(private 0x123 65524)" --count $((100 * ITER))
	expect 20 "no REQ was accepted" rc_is softib0 1
	n=$(rc_qps softib0)
	echo "note: $n connected QPs after $((100 * ITER)) REQs of one peer"
	[ "$n" -le 20 ] || fail "one peer holds $n QPs"
	in_a ip link set "$IFA" down
	expect 30 "QPs are left" sh -c "! grep -q ' type 2 ' $SOFTIB/softib0/qps"
	addresses
	links_up
	modes connected
	ping_until 20 "$A" "$IP_B" 60000
	port_clean
}

# A REQ while the interface is down is rejected, and up makes it work again.
t_req_down() {
	in_a ip link set "$IFA" down
	counted cm_rx_rejected 1 req --private "$(private 0x123 65524)"
	expect 10 "a QP on an interface that is down" sh -c \
		"! grep -q ' type 2 ' $SOFTIB/softib0/qps"
	addresses
	links_up
	ping_until 20 "$A" "$IP_B" 60000
}

# REQs while an interface leaves: its UD QP is destroyed, its CQs take their time,
# and its listeners are destroyed last.
t_req_leaving() {
	local pid qpn

	in_a ip link add link "$IFA" name ca type ipoib
	in_a ip link set ca up
	expect 10 "no carrier on ca" has_carrier "$A" ca
	qpn=$(qpn_a ca)
	grep -q "qpn $qpn " "$SOFTIB/softib0/qps" || fail "no QP $qpn"
	knob softib0 cmd_us 3000000
	in_a ip link del ca &
	pid=$!
	expect 30 "the QP of ca stays" sh -c "! grep -q 'qpn $qpn ' $SOFTIB/softib0/qps"
	req --qpn "$qpn" --count 10 --private "$(private 0x123 65524)"
	kill -0 "$pid" || fail "ca was gone before the REQs came"
	wait "$pid"
	faults_clear
	ping_until 20 "$A" "$IP_B" 60000
	port_clean
}

t_unload() {
	unload ib_ipoib
	expect 10 "QPs are left: $(cat "$SOFTIB"/*/qps)" no_connections
	port_clean
}

run_cases rig mode_strings mtu pkeys foreign_parent ud_control ud_runts \
	ud_unknown_types ud_flood transmit_garbage req_control req_bad_private \
	req_foreign_pkey req_bth_pkey req_transport sidr req_flood req_down req_leaving \
	unload
