/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The drain protocol, as Documentation/cm-drain.rst tells it, not as the engine
 * is written: one process for each QP's teardown, one for what the HCA does
 * with that QP, one for its deadline, one poller for the CQ they share. Nobody
 * owes anything to anybody but the poller, the teardown and the deadline, which
 * get their turn; the HCA may fall silent at any point.
 *
 * N: QPs. W: drain WRs that the CQ has room for. UNREADY: a QP that never was
 * in RTS. NO_LWQE: the strategy flush+sweep. DEATH: the HCA dies. LIVENESS: the
 * HCA may fall silent as a step of its own; no receive WQEs and no errors by
 * itself, to keep it small. BUG_*: defects that must be found.
 */
#ifndef N
#define N 2
#endif
#ifndef W
#define W 1
#endif

#ifndef UNREADY
#define UNREADY	N	/* this QP never was in RTS */
#endif

#define RECV	0
#define FLUSH	1
#define LIE	2	/* the drain WR completes with success */

/* A drain WR. */
#define NONE	0
#define POSTED	1
#define IN_CQ	2
#define OVER	3

/* A request for a sweep. */
#define IDLE	0
#define ASKED	1
#define SEEN	2	/* by a round that has begun since */

chan cq = [2 * N] of { byte, byte };

/* The HCA's truth. */
bool in_err[N];
bool held[N];		/* a receive WQE of the SRQ; the first QP does */
bool gone[N];		/* destroyed */
byte wr[N];
bool hca_dead;

/* What the driver knows. */
bool entered[N];	/* its teardown has begun */
bool over[N];		/* released, or kept because it could not be destroyed */
bool released[N];
bool lwqe[N];
bool flushed[N];
bool lied[N];
bool late[N];
byte sweep[N];
bool dead;
byte slots;

#define on_cq(i)	(wr[i] == POSTED || wr[i] == IN_CQ)

#define give_up(i)	(late[i] || dead)

inline ask_sweep(i)
{
	sweep[i] = ASKED;
	(sweep[i] == IDLE)
}

proctype teardown(byte i)
{
	bool known, condemned, slot;

	/* 1: the state first, then the verb; which may fail */
	entered[i] = true;
	if
	:: d_step { in_err[i] = true; known = true }
	:: skip
	fi;

	/* 3: nothing before LWQE; nothing to a QP not known to be in ERR */
	if
#ifdef NO_LWQE
	:: atomic { known && i != UNREADY }
	:: atomic { known && i == UNREADY -> condemned = true; goto sweep_it }
#else
	:: atomic { known && lwqe[i] && i != UNREADY }
	:: atomic { known && lwqe[i] && i == UNREADY -> goto sweep_it }
#endif
	:: atomic { give_up(i) -> condemned = true; goto sweep_it }
	fi;
	atomic {
		if
#ifdef BUG_WINDOW
		:: true ->
#else
		:: slots < W ->
#endif
			slots++;
			slot = true;
			assert(in_err[i]);
			wr[i] = POSTED;
			assert(on_cq(0) + on_cq(1) <= W)
		:: give_up(i) -> condemned = true; goto sweep_it
		:: true -> skip		/* the post fails */
		fi
	};
	atomic {
		if
		:: flushed[i] -> slots--; slot = false
		:: lied[i] || give_up(i) -> condemned = true; goto sweep_it
		fi
	};
#ifdef NO_LWQE
	/* if LWQE came, then maybe behind the flush */
	condemned = !lwqe[i];
#else
	goto reap_it;
#endif

sweep_it:
	ask_sweep(i);
reap_it:
	/* 4: with both signals, or swept, or condemned */
	if
	:: !condemned ->
		assert(!held[i]);
		assert(wr[i] == NONE || wr[i] == OVER)
	:: else
	fi;
	if
	:: atomic {	/* what it had may still complete into the CQ */
		if
		:: held[i] -> cq!RECV, i
		:: held[i]
		:: !held[i]
		fi;
		if
		:: wr[i] == POSTED -> cq!FLUSH, i; wr[i] = IN_CQ
		:: wr[i] == POSTED -> wr[i] = OVER
		:: wr[i] != POSTED
		fi;
		held[i] = false;
		gone[i] = true
	   }
	:: over[i] = true; goto done	/* destroy fails: kept for ever */
	fi;
#ifndef BUG_LAST_SWEEP
	if
	:: condemned -> ask_sweep(i)
	:: !condemned
	fi;
#endif
	atomic {
		if
		:: slot -> slots--
		:: !slot
		fi;
		assert(wr[i] == NONE || wr[i] == OVER);
		assert(!held[i]);
		released[i] = true;
		over[i] = true
	};
done:
	skip
}

proctype hca(byte i)
{
end_hca:
	do
	:: atomic { held[i] && !gone[i] -> held[i] = false; cq!RECV, i }
	:: atomic { in_err[i] && !held[i] && !gone[i] && !hca_dead && !lwqe[i] ->
		    lwqe[i] = true }
	:: atomic { wr[i] == POSTED && !gone[i] ->
		    wr[i] = IN_CQ;
		    if
		    :: cq!FLUSH, i
		    :: cq!LIE, i
		    fi }
#ifdef LIVENESS
	:: true -> break	/* silent from here on */
#else
	:: atomic { !gone[i] && !hca_dead && !in_err[i] -> in_err[i] = true }
#endif
	:: gone[i] -> break
	od
}

/* A round takes what it finds until the CQ is empty. */
proctype poller()
{
	byte type, i;

end_poller:
	do
	:: atomic {
		nempty(cq) || sweep[0] == ASKED || sweep[1] == ASKED
#if N > 2
			|| sweep[2] == ASKED
#endif
		;
		i = 0;
		do
		:: i < N && sweep[i] == ASKED -> sweep[i] = SEEN; i++
		:: i < N && sweep[i] != ASKED -> i++
		:: i == N -> break
		od;
		i = 0
	   };
	   do
	   :: atomic { cq?type, i ->
		assert(!released[i]);
		if
		:: type == RECV
		:: type == FLUSH -> wr[i] = OVER; flushed[i] = !dead
		:: type == LIE -> wr[i] = OVER; lied[i] = true
		fi;
		type = 0;
		i = 0
	      }
	   :: atomic { empty(cq) ->
		do
		:: i < N && sweep[i] == SEEN -> sweep[i] = IDLE; i++
		:: i < N && sweep[i] != SEEN -> i++
		:: i == N -> break
		od;
		i = 0;
		break
	      }
	   od
	od
}

proctype deadline(byte i)
{
	entered[i];
#ifndef BUG_DEADLINE
	late[i] = true
#endif
}

/* 8: the HCA dies, and later the driver hears of it. */
proctype death()
{
#ifdef DEATH
	hca_dead = true;
	dead = true
#endif
	skip
}

init {
	byte i;

	atomic {
		do
		:: i < N ->
#ifndef LIVENESS
			held[i] = i == 0;
#endif
			run teardown(i);
			run hca(i);
			run deadline(i);
			i++
		:: else -> break
		od;
		run poller();
		run death()
	}
}

#define e0	(entered[0])
#define o0	(over[0])

ltl freed { [] (e0 -> <> o0) }
