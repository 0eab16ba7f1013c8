/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Knobs, counters, states and ways to leave: enums and debugfs follow from the
 * tables; README.rst explains them.
 */
#ifndef SWARM_TABLES_H
#define SWARM_TABLES_H

/* K(name, default): a number that may be written at any time. */
#define SWARM_KNOBS(K)		\
	K(peers, 4096)		\
	K(first_qpn, 0x100000)	\
	K(window, 32)		\
	K(payload, 64)		\
	K(mtu, 65524)		\
	K(udp_port, 9009)	\
	K(timeout, 18)		\
	K(retries, 7)		\
	K(bare, 0)		\
	K(no_rtu, 0)		\
	K(no_drep, 0)

/* C(name): what has happened since the last reset. */
#define SWARM_COUNTERS(C)	\
	C(reqs)			\
	C(reps)			\
	C(connected)		\
	C(rejected)		\
	C(timeouts)		\
	C(failed)		\
	C(packets)		\
	C(send_errors)		\
	C(long_accepted)	\
	C(dreqs)		\
	C(dreps)		\
	C(answers)		\
	C(answer_us_sum)

/*
 * S(NAME, name): where a connection stands.
 * new: waits for its QP and REQ; req: REQ sent; half: REP received and never
 * answered; up: RTU sent; leaving: told to leave; mute: the QP is gone, the CM
 * id answers nothing; going: QP and CM id are being destroyed.
 */
#define SWARM_STATES(S)		\
	S(NEW, new)		\
	S(REQ, req)		\
	S(HALF, half)		\
	S(UP, up)		\
	S(LEAVING, leaving)	\
	S(MUTE, mute)		\
	S(GOING, going)

#define SWARM_STATE_ENUM(name, text)	SWARM_##name,
#define SWARM_KNOB_ENUM(name, def)	SWARM_K_##name,
#define SWARM_COUNTER_ENUM(name)	SWARM_C_##name,

enum swarm_state { SWARM_STATES(SWARM_STATE_ENUM) SWARM_NSTATES };
enum swarm_knob { SWARM_KNOBS(SWARM_KNOB_ENUM) SWARM_NKNOBS };
enum swarm_counter { SWARM_COUNTERS(SWARM_COUNTER_ENUM) SWARM_NCOUNTERS };

/**
 * enum swarm_way - how a connection leaves
 * @SWARM_BY_DREQ: DREQ, then wait for the DREP
 * @SWARM_BY_MUTE: the QP is destroyed, and nothing said
 * @SWARM_BY_DESTROY: QP and CM id destroyed without further ado
 * @SWARM_BY_ERROR: a message that is too long for the peer's buffers
 * @SWARM_BY_FORGET: mute ones: CM id destroyed
 */
enum swarm_way {
	SWARM_BY_DREQ,
	SWARM_BY_MUTE,
	SWARM_BY_DESTROY,
	SWARM_BY_ERROR,
	SWARM_BY_FORGET,
	SWARM_NWAYS
};

#endif /* SWARM_TABLES_H */
