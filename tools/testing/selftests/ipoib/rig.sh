#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The rig proves itself: what the ports count is counted when, and only when, it
# happens, and each knob does what it says. A well-behaved user first, then users
# of verbs that make each mistake on purpose (badulp, see softib's README.rst). No
# driver of IP over InfiniBand takes part.

. "$(dirname "$0")/lib.sh"

BAD=/sys/module/badulp/parameters

# Behind each case: nothing of it is left to the next one.
undo() {
	local d

	faults_clear
	for d in softib0 softib1; do
		[ "$(< $SOFTIB/$d/plugged)" = 1 ] || echo 1 > $SOFTIB/$d/plugged
	done
	[ -d "$BAD" ] || return 0
	bad close
	user
}

# user: the numbers that it begins a case with
user() {
	echo 2000 > "$BAD"/wait_ms
	echo 64 > "$BAD"/cqe
	echo 0 > "$BAD"/pkey_index
}

t_rig() {
	ports_up
	load badulp
	user
	census "$CENSUS ahs" > "$TMP/never"
}

# bad COMMAND [END [NUMBER...]]: the user does it, and it works
bad() {
	echo "$*" > "$BAD"/run || fail "badulp: $*"
}

# refused COMMAND...: the port does not let the user do it
refused() {
	! echo "$*" 2> /dev/null > "$BAD"/run || fail "not refused: $*"
}

# said NAME: what the last command found out
said() {
	local words w

	read -ra words < "$BAD"/run
	for w in "${words[@]}"; do
		[ "${w%%=*}" != "$1" ] || echo "${w#*=}"
	done
}

# polls END N: N completions come, or a smaller number; says how many
polls() {
	bad poll "$1" "$2"
	said n
}

# completes END N STATUS: N completions come, the last one with this status
completes() {
	bad poll "$1" "$2"
	[ "$(said n) $(said status)" = "$2 $3" ] ||
		fail "END $1: $2 completions with status $3 expected: $(cat "$BAD"/run)"
}

# all: the figures that tell of misuse, and the census, of both ports
all() {
	census "$CENSUS ahs srq_lost $CLEAN"
}

# only DEVICE COUNTER N: since the last `all > $TMP/before`, this one has gone up
# by N, and nothing else that tells of misuse has
only() {
	local d c n

	while read -r d c n; do
		[ "$d $c" != "$1 $2" ] || n=$((n + $3))
		echo "$d $c $n"
	done < "$TMP/before" > "$TMP/wanted"
	all > "$TMP/after"
	same "$TMP/wanted" "$TMP/after" ||
		fail "wanted and got: $(diff "$TMP/wanted" "$TMP/after")"
}

same() {
	[ "$(< "$1")" = "$(< "$2")" ]
}

# nothing: nothing that tells of misuse has changed
nothing() {
	all > "$TMP/after"
	same "$TMP/before" "$TMP/after" ||
		fail "something was counted: $(diff "$TMP/before" "$TMP/after")"
}

# sin COUNTER N OPEN COMMAND...: a command, between open and close, makes this
# counter of softib1 go up, and no other
sin() {
	local counter=$1 n=$2 kind=$3

	shift 3
	all > "$TMP/before"
	bad "$kind"
	bad post 1 4
	bad "$@"
	bad close
	only softib1 "$counter" "$n"
}

# The control: everything done right, and nothing is counted.
t_good_user() {
	local kind qps

	for kind in ud rc srq; do
		all > "$TMP/before"
		qps=$(counter softib1 qps)
		bad "$kind"
		bad post 1 8
		[ "$(counter softib1 qps)" -eq $((qps + 1)) ] || fail "a QP is not counted"
		bad flood 0 4 900
		completes 0 4 0
		completes 1 4 0
		[ "$(said recv)" = 1 ] || fail "no receive: $(cat "$BAD"/run)"
		bad close
		nothing
	done
}

t_poison_freed() {
	sin poison_freed 1 ud free 1 0
	sin poison_freed 1 srq free 1 0
}

t_poison_written() {
	sin poison_written 1 ud write 1 0
	sin poison_written 1 rc write 1 0
	sin poison_written 1 srq write 1 0
}

t_poison_reposted() {
	sin poison_reposted 1 ud repost 1 0
	sin poison_reposted 1 srq repost 1 0
}

# Buffers are the port's until the completion, also if that is late.
t_poison_late() {
	local before

	before=$(counter softib1 cqe_delayed)
	all > "$TMP/before"
	bad ud
	bad post 1 1
	knob softib1 cqe_delay_rx_ms 1000
	bad flood 0 1 100
	completes 0 1 0
	expect 5 "the completion is not late" late softib1 "$before"
	bad free 1 0
	completes 1 1 0
	bad close
	only softib1 poison_freed 1
}

# late DEVICE N: its user looks, and a completion has been held back; N were before
late() {
	echo 0 > "$BAD"/wait_ms
	echo "poll 1 1" > "$BAD"/run
	echo 2000 > "$BAD"/wait_ms
	[ "$(counter "$1" cqe_delayed)" -gt "$2" ]
}

# RESET gives receive WRs back without completions; nothing is outstanding then.
t_reset() {
	all > "$TMP/before"
	bad ud
	census rq_outstanding > "$TMP/opened"
	bad post 1 8
	bad move 1 0
	same_census "$TMP/opened" rq_outstanding ||
		fail "RESET keeps receive WRs: $(census rq_outstanding)"
	bad again 1
	bad repost 1 0
	bad flood 0 1 100
	completes 0 1 0
	completes 1 1 0
	bad close
	nothing
}

# A send that RESET has ended does not hold its AH.
t_reset_send() {
	all > "$TMP/before"
	bad ud
	bad flood 0 1 100
	bad move 0 0
	bad unah 0
	bad close
	nothing
}

t_cq_overflow() {
	all > "$TMP/before"
	echo 4 > "$BAD"/cqe
	bad ud
	echo 64 > "$BAD"/cqe
	bad flood 0 6 100
	[ "$(polls 0 6)" = 6 ] || fail "completions are missing"
	bad close
	only softib0 cq_overflow 1
}

t_post_overrun() {
	all > "$TMP/before"
	bad ud
	bad post 1 32
	refused post 1 1
	bad close
	only softib1 post_overrun 1
	all > "$TMP/before"
	bad srq
	bad post 1 32
	refused post 1 1
	bad close
	only softib1 post_overrun 1
	all > "$TMP/before"
	bad ud
	bad flood 0 32 100
	# not polled: the slots are still in use, and rxe would take more
	refused flood 0 40 100
	[ "$(polls 0 63)" -ge 32 ] || fail "fewer slots than asked for: $(cat "$BAD"/run)"
	bad flood 0 1 100
	completes 0 1 0
	bad close
	only softib0 post_overrun 1
}

t_leak() {
	all > "$TMP/before"
	bad ud
	census > "$TMP/opened"
	bad leak 1
	! same_census "$TMP/opened" || fail "a leaked QP is not seen"
	bad mend 1
	same_census "$TMP/opened" || fail "the census does not come back"
	bad close
	nothing
}

t_dead_ah() {
	all > "$TMP/before"
	bad ud
	refused deadah 0
	bad close
	only softib0 ah_dead_sends 1
	all > "$TMP/before"
	bad ud
	bad flood 0 1 100
	bad unah 0
	bad close
	only softib0 ah_dead_sends 1
}

t_too_long() {
	all > "$TMP/before"
	bad ud
	bad flood 0 1 4097
	completes 0 1 0
	bad close
	only softib0 ud_too_long 1
	all > "$TMP/before"
	bad ud
	bad post 1 1
	bad flood 0 1 4096
	completes 0 1 0
	completes 1 1 0
	bad close
	nothing
}

# half KNOBS...: a message of four packets is cut in its middle, and B's QP goes
# to ERR
half() {
	bad srq
	bad post 1 4
	while [ $# -gt 0 ]; do
		knob softib1 "$1" "$2"
		shift 2
	done
	knob softib1 cut_after 3
	bad flood 0 1 4000
	expect 5 "the wire is not cut" counts softib1 link_drops $((drops + 1))
}

# The WQE of a half-received message is flushed, before LWQE; a user who does not
# wait for it has lost it.
t_half() {
	local drops lost

	drops=$(counter softib1 link_drops)
	all > "$TMP/before"
	half
	bad move 1 6
	completes 1 1 5
	[ "$(said recv)" = 1 ] || fail "not a receive: $(cat "$BAD"/run)"
	knob softib1 cut_after 0
	expect 5 "no LWQE" event_seen 1 16 1
	bad close
	nothing
	drops=$(counter softib1 link_drops)
	all > "$TMP/before"
	half lwqe_drop -1
	bad close
	faults_clear
	only softib1 srq_lost 1
	drops=$(counter softib1 link_drops)
	all > "$TMP/before"
	lost=$(counter softib1 srq_lost)
	half lost -1
	bad move 1 6
	expect 5 "nothing is lost" counts softib1 srq_lost $((lost + 1))
	bad close
	faults_clear
	only softib1 srq_lost 1
}

# event_seen END TYPE N
event_seen() {
	echo "events $1 $2" > "$BAD"/run
	[ "$(said n)" -ge "$3" ]
}

# exactly END TYPE N: so many have come, and no more come
exactly() {
	expect 5 "event $2 of END $1 does not come" event_seen "$1" "$2" "$3"
	! event_seen "$1" "$2" $(($3 + 1)) || fail "too many events $2"
}

t_lwqe() {
	local before

	bad srq
	bad move 1 6
	exactly 1 16 1
	bad close
	bad srq
	knob softib1 lwqe_dup 2
	bad move 1 6
	exactly 1 16 3
	bad close
	faults_clear
	bad srq
	knob softib1 lwqe_drop 1
	before=$(counter softib1 lwqe_dropped)
	bad move 1 6
	expect 5 "LWQE is not dropped" counts softib1 lwqe_dropped $((before + 1))
	exactly 1 16 0
	bad close
	bad srq
	knob softib1 lwqe_inline 1
	bad move 1 6
	event_seen 1 16 1 || fail "LWQE is not there when modify_qp returns"
	bad close
	bad srq
	event softib1 qp_lwqe
	exactly 1 16 1
	bad state 1
	[ "$(said state)" = 3 ] || fail "a spontaneous LWQE changed the state"
	bad close
}

# qp_state END STATE
qp_state() {
	echo "state $1" > "$BAD"/run
	[ "$(said state)" = "$2" ] && [ "$(said cur)" = "$2" ]
}

t_query() {
	bad srq
	qp_state 1 3 || fail "not in RTS: $(cat "$BAD"/run)"
	bad move 1 6
	qp_state 1 6 || fail "not in ERR: $(cat "$BAD"/run)"
	bad close
}

# Errors of QPs, SRQs and the device
t_events() {
	bad srq
	event softib1 qp_fatal
	exactly 1 1 1
	qp_state 1 6 || fail "a fatal QP is not in ERR"
	exactly 1 16 1
	bad close
	bad srq
	event softib1 qp_error
	exactly 1 16 1
	event softib1 srq_err
	exactly 1 14 1
	event softib1 srq_limit
	exactly 1 15 1
	bad close
	bad srq
	bad post 1 4
	bad limit 1 4
	bad flood 0 1 100
	completes 1 1 0
	exactly 1 15 1
	bad close
}

# The completions' knobs
t_completions() {
	bad rc
	bad post 1 8
	knob softib1 cqe_swallow_rx 1
	bad flood 0 2 100
	completes 0 2 0
	completes 1 1 0
	[ "$(said wr_id)" = 1 ] || fail "swallowed is not the first: $(cat "$BAD"/run)"
	knob softib1 cqe_reorder 1
	bad flood 0 2 100
	completes 0 2 0
	completes 1 1 0
	[ "$(said wr_id)" = 3 ] || fail "not overtaken: $(cat "$BAD"/run)"
	completes 1 1 0
	[ "$(said wr_id)" = 2 ] || fail "not behind: $(cat "$BAD"/run)"
	knob softib1 cqe_wr_id 1
	bad flood 0 1 100
	completes 1 1 0
	[ "$(said wr_id)" = $((4 ^ 1 << 20)) ] || fail "a good wr_id: $(cat "$BAD"/run)"
	bad close
	bad rc
	bad post 1 4
	knob softib0 cqe_status_tx 12
	knob softib0 cqe_status_n 1
	bad flood 0 1 100
	completes 0 1 12
	expect 5 "the QP outlives its error" qp_state 0 6
	bad close
	faults_clear
	bad rc
	bad move 0 6
	knob softib0 cqe_status_drain 0
	bad flood 0 1 100
	completes 0 1 0
	bad close
}

# A receive WR that an SRQ loses: the next one is used, and a slot stays.
t_srq_lose() {
	all > "$TMP/before"
	bad srq
	knob softib1 srq_lose 1
	bad post 1 2
	bad flood 0 1 100
	completes 1 1 0
	[ "$(said wr_id)" = 1 ] || fail "not the second: $(cat "$BAD"/run)"
	bad close
	only softib1 srq_lost 1
}

# Partitions keep UD, connections and MADs apart, and follow the table.
t_pkeys() {
	local drops

	pkey 1 0x8011
	echo 1 > "$BAD"/pkey_index
	bad ud
	bad post 1 4
	bad flood 0 1 100
	completes 1 1 0
	echo "1 0x8012" > "$SOFTIB"/softib0/pkeys
	bad flood 0 1 100
	[ "$(polls 1 1)" = 0 ] || fail "a UD packet of another partition arrives"
	echo "1 0x8012" > "$SOFTIB"/softib1/pkeys
	bad flood 0 1 100
	completes 1 1 0
	bad cm 0 1
	[ "$(said good)" = 1 ] || fail "no MAD in the partition"
	echo "1 0x8013" > "$SOFTIB"/softib1/pkeys
	bad cm 0 1
	[ "$(said good)" = 0 ] || fail "a MAD of another partition arrives"
	bad close
	pkey 1 0x0011
	bad ud
	bad post 1 1
	bad flood 0 1 100
	[ "$(polls 1 1)" = 0 ] || fail "limited members talk to each other"
	bad close
	pkey 1 0x8011
	bad rc
	bad post 1 4
	bad flood 0 1 100
	completes 1 1 0
	drops=$(counter softib1 pkey_drops)
	echo "1 0x8012" > "$SOFTIB"/softib0/pkeys
	bad flood 0 1 100
	expect 5 "nothing is dropped" counts softib1 pkey_drops $((drops + 1))
	[ "$(polls 1 1)" = 0 ] || fail "a connection keeps its old partition"
	echo "1 0x8012" > "$SOFTIB"/softib1/pkeys
	completes 1 1 0
	bad close
	echo 0 > "$BAD"/pkey_index
	pkey 1 0
}

t_sa_drop() {
	local before

	bad path 0
	before=$(counter softib0 sa_queries)
	knob softib0 sa_drop -1
	refused path 0
	[ "$(counter softib0 sa_queries)" -gt "$before" ] || fail "no query was made"
	knob softib0 sa_drop 0
	bad path 0
}

# answered N WHAT: so many of one service request
answered() {
	bad cm 0 1
	[ "$(said good)" = "$1" ] || fail "$2: $(cat "$BAD"/run)"
}

t_mads() {
	local before quick slow

	answered 1 "no answer"
	knob softib0 mad_drop -1
	answered 0 "a dropped MAD is answered"
	knob softib0 cm_mask 0x100	# SIDR_REP, which softib1 sends
	answered 1 "a MAD that is not meant is dropped"
	knob softib1 cm_mask 0x100
	knob softib1 mad_drop 1
	answered 0 "a dropped answer arrives"
	answered 1 "two were dropped"
	faults_clear
	before=$(counter softib0 injected_failures)
	knob softib0 mad_error -1
	answered 0 "a MAD arrives in spite of its error"
	[ "$(counter softib0 injected_failures)" -gt "$before" ] || fail "no error"
	faults_clear
	knob softib0 mad_delay_ms 200
	bad cm 0 4
	quick=$(said ms)
	[ "$(said good)" = 4 ] || fail "late MADs get lost: $(cat "$BAD"/run)"
	[ "$quick" -ge 200 ] || fail "MADs are not late: $quick ms"
	knob softib0 mad_cap 1
	bad cm 0 4
	slow=$(said ms)
	[ "$(said good)" = 4 ] || fail "MADs that wait get lost: $(cat "$BAD"/run)"
	[ "$slow" -ge 800 ] || fail "more than one at a time: $slow ms"
}

t_fail() {
	local k

	for k in create_pd create_mr create_cq create_qp create_ah modify_init modify_rtr \
		modify_rts; do
		knob softib0 "fail_$k" 1
		refused ud
		bad ud
		bad close
		knob softib0 "fail_$k" -1
		refused ud
		refused ud
		knob softib0 "fail_$k" 0
	done
	knob softib0 fail_create_srq 1
	refused srq
	bad srq
	knob softib1 fail_modify_err 1
	refused move 1 6
	knob softib1 fail_modify_reset 1
	refused move 1 0
	knob softib1 fail_query_qp 1
	refused state 1
	knob softib1 fail_modify_srq 1
	refused limit 1 4
	knob softib1 fail_post_srq_recv 1
	refused post 1 1
	knob softib1 fail_post_send 1
	refused flood 1 1 100
	bad post 1 1
	bad flood 0 1 100
	completes 1 1 0
	knob softib1 fail_destroy_qp 1
	refused unqp 1
	qp_state 1 3 || fail "a QP that was not destroyed is not as it was"
	bad unqp 1
	knob softib1 fail_destroy_srq 1
	refused unsrq 1
	bad unsrq 1
	bad close
	bad rc
	knob softib1 fail_post_recv 1
	refused post 1 1
	bad close
}

# destroy_qp blocks for as long as it is told to, the one that is meant.
t_destroy_hold() {
	local pid

	bad ud
	knob softib1 destroy_qp_n 1
	knob softib1 destroy_qp_hold 1
	echo close > "$BAD"/run &
	pid=$!
	expect 5 "no destroy is held" counts softib1 destroys_held 1
	kill -0 "$pid" || fail "destroy_qp has returned"
	knob softib1 destroy_qp_hold 0
	wait "$pid" || fail "close"
	[ "$(counter softib1 destroys_held)" = 0 ] || fail "still held"
	bad ud
	knob softib1 destroy_qp_hold 1
	bad close	# the one has been used up
}

# N commands through one slot take about N times as long as through N.
t_command_slots() {
	local one eight none

	bad ud
	bad commands 0 8 4
	none=$(said ms)
	knob softib0 cmd_us 20000
	knob softib0 cmd_slots 1
	bad commands 0 8 4
	one=$(said ms)
	knob softib0 cmd_slots 8
	bad commands 0 8 4
	eight=$(said ms)
	faults_clear
	bad close
	echo "note: 32 commands of 20 ms: $none ms without, $one by one, $eight by eight"
	[ "$one" -ge 640 ] || fail "commands overlap: $one ms"
	[ "$eight" -ge 80 ] || fail "commands take no time: $eight ms"
	[ $((one * 10 / eight)) -ge 30 ] || fail "one slot $one ms, eight slots $eight ms"
}

t_limits() {
	refused sges 0 1	# nothing is open
	knob softib0 max_send_sge 2
	bad ud
	bad caps 0 4		# read when the device is plugged in
	bad close
	echo 0 > "$SOFTIB"/softib0/plugged
	knob softib0 no_srq 1
	echo 1 > "$SOFTIB"/softib0/plugged
	bad ud
	bad caps 0 2
	refused caps 0 3
	refused sges 0 8
	bad close
	refused srq
	echo 0 > "$SOFTIB"/softib0/plugged
	faults_clear
	echo 1 > "$SOFTIB"/softib0/plugged
	bad srq
	bad caps 0 3
	bad close
}

# port_state: what the core believes
port_state() {
	grep -q "$1" /sys/class/infiniband/softib0/ports/1/state
}

t_link() {
	bad rc
	bad post 1 4
	knob softib0 link 0
	expect 5 "the port stays up" port_state DOWN
	bad flood 0 1 100
	[ "$(polls 1 1)" = 0 ] || fail "a packet gets out of a port that is down"
	knob softib0 link 1
	expect 5 "the port stays down" port_state ACTIVE
	completes 1 1 0
	bad close
}

# A device is pulled under its user, and comes back as new.
t_unplug() {
	all > "$TMP/before"
	bad srq
	bad post 1 4
	echo 0 > "$SOFTIB"/softib1/plugged
	[ ! -e /sys/class/infiniband/softib1 ] || fail "the device stays"
	[ "$(counter softib1 qps)" = 0 ] || fail "QPs survive their device"
	refused ud
	echo 1 > "$SOFTIB"/softib1/plugged
	bad close
	expect 5 "not as before" same_census "$TMP/before" "$CENSUS ahs srq_lost $CLEAN"
	bad srq
	bad close
}

# A dead device refuses all but destroys, and its CQs stop.
t_dead() {
	bad srq
	bad post 1 4
	bad flood 0 1 100
	completes 1 1 0
	bad flood 0 1 100
	completes 0 2 0
	knob softib1 dead 1
	[ "$(polls 1 1)" = 0 ] || fail "a dead CQ completes"
	[ "$(said missed)" = 0 ] || fail "a dead CQ keeps its user busy"
	refused post 1 1
	refused flood 1 1 100
	refused move 1 6
	refused state 1
	expect 5 "the port of a dead device is up" \
		grep -q DOWN /sys/class/infiniband/softib1/ports/1/state
	echo 0 > "$SOFTIB"/softib1/plugged
	knob softib1 dead 0
	echo 1 > "$SOFTIB"/softib1/plugged
	bad close
	bad srq
	bad close
}

# All of this has left nothing behind.
t_whole() {
	bad close
	unload badulp
	same_census "$TMP/never" "$CENSUS ahs" ||
		fail "$(census "$CENSUS ahs" | diff "$TMP/never" -)"
}

run_cases rig good_user poison_freed poison_written poison_reposted poison_late \
	reset reset_send cq_overflow post_overrun leak dead_ah too_long half lwqe \
	query events completions srq_lose pkeys sa_drop mads fail destroy_hold \
	command_slots limits link unplug dead whole
