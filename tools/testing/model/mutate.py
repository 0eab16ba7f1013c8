#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Is the explorer able to see defects?

mutate.py [NAME...]   puts one-line defects into copies of ipoib_cm_drain.c, one
                      at a time, and lets the explorer look for them; KTAP

A defect that goes unseen makes the run fail, unless it is argued below why
nobody could see it. A defect that no longer fits the source fails as well.
Environment: JOBS (default 2), LIMIT seconds for each run of the explorer.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[2]
ENGINE = TOP / 'ipoib_cm_drain.c'
LIMIT = int(os.environ.get('LIMIT', '600'))
RUNS = [['--walk', '--walks', '300'], ['--quick', '--first'],
        ['two-qps-busy-cq'], ['two-qps']]

# name, the line as it is (with as much around it as makes it unique), as it
# becomes, and why nobody can tell (or nothing: it must be seen)
DEFECTS = [
    ('setter-does-not-set',
     "	q->state = to;\n	d->ops->trace", "	d->ops->trace"),
    ('ready-without-kick',
     "		list_add_tail(&q->ready, &d->ready);\n	d->ops->kick(d);",
     "		list_add_tail(&q->ready, &d->ready);"),
    ('ready-twice',
     "	if (list_empty(&q->ready))\n		list_add_tail(&q->ready, &d->ready);\n	d->ops->kick",
     "	list_add_tail(&q->ready, &d->ready);\n	d->ops->kick"),
    ('slot-not-counted', "	d->nslots++;\n", ""),
    ('slot-not-given-back', "	d->slots[q->slot] = NULL;\n", ""),
    ('slot-count-not-given-back', "	d->nslots--;\n", ""),
    ('slot-remembered', "	d->nslots--;\n	q->slot = IPOIB_DRAIN_NO_SLOT;",
     "	d->nslots--;"),
    ('old-ticket', "q->ticket = ++d->sweep_want;", "q->ticket = d->sweep_want;"),
    ('sweep-not-asked-for', "	return ACT_SWEEP;\n", "	return 0;\n"),
    ('sweep-not-waited-for',
     "	list_add_tail(&q->wait, &d->sweeping);", "	;"),
    ('condemned-unmarked', "	q->condemned = true;\n", ""),
    ('assumed-unmarked', "	q->assumed = true;\n", ""),
    ('deadline-doubled', "	if (now >= q->start + d->timeout)\n		return",
     "	if (now >= q->start + 2 * d->timeout)\n		return"),
    ('deadline-missed-by-one', "	if (now >= q->start + d->timeout)\n		return",
     "	if (now > q->start + d->timeout)\n		return"),
    ('no-second-look',
     "	if (q->nudged || now < q->start + d->timeout / 2)\n		return 0;",
     "	return 0;",
     "the second look is one more chance: without it the QP is condemned at the "
     "deadline, which is safe and in time"),
    ('looks-for-ever', "	q->nudged = true;\n", ""),
    ('no-second-post',
     "	q->post_tries = min_t(u8, q->post_tries, IPOIB_DRAIN_POST_TRIES - 1);\n", "",
     "a QP whose posts failed three times goes without the fourth try half way to "
     "its deadline: it is condemned at the deadline, as if that try had failed too"),
    ('moved-by-two-workers', "	q->err_tries++;\n	q->err_busy = true;\n	return",
     "	q->err_tries++;\n	return"),
    ('moved-once-only', "return q->err_tries < IPOIB_DRAIN_ERR_TRIES ? ipoib_drain_ask(q) : 0;",
     "return q->err_tries ? 0 : ipoib_drain_ask(q);",
     "the second move to ERR comes half way to the deadline instead of at once: "
     "later than need be, within the deadline"),
    ('posts-without-lwqe', "	if (!q->rq_done && !q->nudged && !ipoib_drain_skips_lwqe(q))\n		return 0;\n", ""),
    ('flush-without-lwqe', "	if (!q->rq_done)\n		return ipoib_drain_skips_lwqe(q) ? ipoib_drain_assume(q) : 0;\n", ""),
    ('flush-not-awaited', "	if (!q->sq_done || q->err_busy)\n		return 0;", "	if (q->err_busy)\n		return 0;"),
    ('reaped-under-a-worker', "	if (!q->sq_done || q->err_busy)\n		return 0;", "	if (!q->sq_done)\n		return 0;"),
    ('early-flush-trusted', "return q->early ? ipoib_drain_to_sweep(q) : ipoib_drain_to_reap(q);",
     "return ipoib_drain_to_reap(q);"),
    ('early-decided-too-late',
     "	spin_lock_irq(&d->lock);\n	if (!err) {\n", "	spin_lock_irq(&d->lock);\n	q->early = !q->rq_done;\n	if (!err) {\n"),
    ('success-is-a-flush', "q->lied = status == IB_WC_SUCCESS;", "q->lied = false;"),
    ('lie-not-condemned', "	if (q->lied)\n		return ipoib_drain_condemn(q);\n", "",
     "the QP is condemned at the deadline instead of at once"),
    ('swept-under-a-worker', "return q->ticket <= q->d->sweep_done && !q->err_busy;",
     "return q->ticket <= q->d->sweep_done;"),
    ('swept-one-early', "return q->ticket <= q->d->sweep_done && !q->err_busy;",
     "return q->ticket <= q->d->sweep_done + 1 && !q->err_busy;"),
    ('released-but-listed', "	list_del_init(&q->node);\n	list_del_init(&q->ready);\n",
     "	list_del_init(&q->ready);\n"),
    ('released-but-ready', "	list_del_init(&q->node);\n	list_del_init(&q->ready);\n",
     "	list_del_init(&q->node);\n",
     "a QP on its way to DONE has just been taken off the ready list; one that is KEPT "
     "may be looked at once more, which does nothing, and its memory stays"),
    ('not-counted-out', "	q->d->nqps--;\n", ""),
    ('slot-kept-after-the-end', "	ipoib_drain_slot_put(q);\n	q->d->ops->count(q->d, q, IPOIB_CNT_drain_reaped);",
     "	q->d->ops->count(q->d, q, IPOIB_CNT_drain_reaped);"),
    ('dead-hca-awaited', "	if (q->d->dead && q->state < IPOIB_DRAIN_SWEEP)\n		return ipoib_drain_condemn(q);\n", ""),
    ('reaper-not-awaited', "		return q->gone ? ipoib_drain_done(q) : 0;", "		return ipoib_drain_done(q);"),
    ('last-sweep-not-awaited',
     "	case IPOIB_DRAIN_SWEEP2:\n		return ipoib_drain_is_swept(q) ? ipoib_drain_done(q) : 0;",
     "	case IPOIB_DRAIN_SWEEP2:\n		return ipoib_drain_done(q);"),
    ('never-late', "	return act ? act : ipoib_drain_late(q, now);", "	return act;"),
    ('look-leaves-it-in-fifo',
     "	list_del_init(&q->wait);\n	q->err_tries = IPOIB_DRAIN_ERR_TRIES - 1;\n",
     "	q->err_tries = IPOIB_DRAIN_ERR_TRIES - 1;\n"),
    ('looks-twice-at-once', "	if (q->err_busy)\n		return 0;\n	list_del_init(&q->wait);\n", "	list_del_init(&q->wait);\n"),
    ('move-not-handed-out', "	if (act & ACT_MOVE_ERR)\n		ops->move_err(q);\n	else if", "	if"),
    ('posted-during-the-look', "	if (!q->in_err || q->err_busy)\n		return 0;\n	if (!ipoib_drain_can_flush",
     "	if (!q->in_err)\n		return 0;\n	if (!ipoib_drain_can_flush"),
    ('posted-out-of-err', "	if (!q->in_err || q->err_busy)\n		return 0;\n	if (!ipoib_drain_can_flush",
     "	if (q->err_busy)\n		return 0;\n	if (!ipoib_drain_can_flush"),
    ('slot-taken-after-the-post',
     "	ipoib_drain_slot_take(q);\n	q->early = !q->rq_done;\n", "	q->early = !q->rq_done;\n"),
    ('failed-post-keeps-slot', "	ipoib_drain_slot_put(q);\n	q->sq_done = false;", "	q->sq_done = false;"),
    ('failed-post-not-counted', "	q->post_tries++;\n", ""),
    ('failed-post-wakes-nobody',
     "	ipoib_drain_set_state(q, IPOIB_DRAIN_FLUSH);\n	ipoib_drain_mark_ready(q);\n",
     "	ipoib_drain_set_state(q, IPOIB_DRAIN_FLUSH);\n",
     "the second try comes half way to the deadline instead of at once"),
    ('timer-not-armed', "		d->ops->arm(d, d->next_due);", "		;"),
    ('expiry-forgets-the-next', "		d->next_due = min(d->next_due, due);\n		/*", "		/*"),
    ('expiry-stops-too-soon', "		if (!d->no_lwqe && now < q->start + d->timeout / 2)\n			break;",
     "		break;"),
    ('expiry-never-runs', "	if (now >= d->next_due)\n", "	if (now > d->next_due + d->timeout)\n"),
    ('sweeps-not-collected', "	ipoib_drain_collect_swept(d);\n	for", "	for"),
    ('newer-sweeps-collected', "		if (q->ticket > d->sweep_done)\n			break;\n", "",
     None),
    ('window-one-too-large', "d->nslots < d->window)\n			ipoib_drain_post", "d->nslots <= d->window)\n			ipoib_drain_post"),
    ('window-ignored', "		else if (!list_empty(&d->fifo) && d->nslots < d->window)", "		else if (!list_empty(&d->fifo))"),
    ('window-not-used', "d->nslots < d->window)\n			ipoib_drain_post", "!d->nslots)\n			ipoib_drain_post"),
    ('begins-twice', "	first = q->state == IPOIB_DRAIN_LIVE;", "	first = q->state < IPOIB_DRAIN_FLUSH;"),
    ('begins-without-timer', "		d->next_due = min(d->next_due, q->start + d->timeout / 2);\n", ""),
    ('worker-not-back', "	q->err_busy = false;\n", ""),
    ('failed-move-is-a-move', "	ipoib_drain_set_in_err(q, !err);", "	ipoib_drain_set_in_err(q, true);"),
    ('lwqe-on-live-lost', "	q->rq_done = true;\n", "	q->rq_done = !list_empty(&q->node);\n"),
    ('lwqe-wakes-nobody', "	if (!list_empty(&q->node))\n		ipoib_drain_mark_ready(q);\n", ""),
    ('lwqe-on-kept', "	if (!list_empty(&q->node))\n		ipoib_drain_mark_ready(q);\n", "	ipoib_drain_mark_ready(q);\n"),
    ('slot-unchecked', "	if (slot < d->window)\n		q = d->slots[slot];", "	q = d->slots[slot];"),
    ('key-unchecked', "	if (!q || q->key != key) {", "	if (!q) {"),
    ('late-flush-frees-slot', "	if (q->condemned || d->dead)\n		goto unlock;\n", "",
     "a condemned QP is swept before and after its destruction whatever comes, and "
     "its slot is free once its completion has been polled; what this keeps out is "
     "a late flush that restores the strategy"),
    ('flush-keeps-slot', "	ipoib_drain_slot_put(q);\n	q->lied", "	q->lied"),
    ('flush-wakes-nobody', "		ipoib_drain_seen(d, false, true);\n	ipoib_drain_mark_ready(q);\n",
     "		ipoib_drain_seen(d, false, true);\n"),
    ('sweep-without-proof', "	if (!empty) {\n", "	if (!empty && !polled) {\n"),
    ('sweep-counts-half', "			d->sweep_left = d->cqe;", "			d->sweep_left = d->cqe / 2;"),
    ('sweep-count-too-new', "		ticket = d->sweep_cur;\n", ""),
    ('sweep-wakes-nobody', "	d->sweep_done = ticket;\n	d->ops->kick(d);", "	d->sweep_done = ticket;"),
    ('failed-destroy-forgotten', "	if (err) {\n		d->ops->count(d, q, IPOIB_CNT_drain_kept);", "	if (err && !d) {\n		d->ops->count(d, q, IPOIB_CNT_drain_kept);"),
    ('no-last-sweep', "	} else if (q->condemned || q->assumed) {", "	} else if (q->assumed) {"),
    ('no-last-sweep-if-assumed', "	} else if (q->condemned || q->assumed) {", "	} else if (q->condemned) {"),
    ('last-sweep-not-asked-for', "		sweep = true;\n", ""),
    ('reaped-wakes-nobody', "		q->gone = true;\n		ipoib_drain_mark_ready(q);", "		q->gone = true;"),
    ('kept-slots-not-counted', "		d->nkept += q->slot != IPOIB_DRAIN_NO_SLOT;\n", ""),
    ('kept-slots-tell-nobody', "		if (d->nkept == d->window)\n			ipoib_drain_mark_all(d);\n", ""),
    ('death-wakes-nobody', "	d->dead = true;\n	ipoib_drain_mark_all(d);", "	d->dead = true;"),
    ('new-deadline-wakes-nobody', "	d->next_due = 0;\n	d->ops->kick(d);", "	;"),
    ('new-strategy-wakes-nobody', "		d->ops->strategy(d);\n	ipoib_drain_mark_all(d);", "		d->ops->strategy(d);"),
    ('settles-for-ever', "	if (now >= due)\n		return ipoib_drain_assume(q);\n", ""),
    ('settles-not-at-all', "	if (now >= due)\n		return ipoib_drain_assume(q);\n", "	return ipoib_drain_assume(q);\n",
     "the wait is a courtesy to an HCA that gives no signal at all; the sweep behind "
     "the destruction is what makes it safe"),
    ('settling-has-no-timer', "	d->next_due = min(d->next_due, due);\n	return 0;", "	return 0;"),
    ('misses-not-counted', "		d->lwqe_misses++;\n", "		;\n",
     "every QP then waits out its deadline, which is slow, but in time"),
    ('probe-skips-lwqe', "	return q->d->no_lwqe && q->reason != IPOIB_DRAIN_BY_PROBE;",
     "	return q->d->no_lwqe;"),
    ('probe-skips-flush', "	return q->d->no_flush && q->reason != IPOIB_DRAIN_BY_PROBE;",
     "	return q->d->no_flush;"),
    ('probe-counted-twice', " && q->reason != IPOIB_DRAIN_BY_PROBE)\n", ")\n"),
    ('lwqe-restores-nothing', "	ipoib_drain_seen(d, true, false);\n	if (!list", "	if (!list"),
]


def build(engine, out):
    """The explorer around this copy of the engine; True if it compiles."""
    result = subprocess.run(['make', '-s', '-C', HERE, f'OUT={out}', f'ENGINE={engine}', 'all'],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            text=True, check=False)
    if result.returncode:
        sys.stderr.write(result.stderr)
    return result.returncode == 0


def violation(out):
    """What the explorer says about it, or None."""
    for args in RUNS:
        try:
            result = subprocess.run([out / 'explore', *args], stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, timeout=LIMIT,
                                    check=False)
        except subprocess.TimeoutExpired:
            return f'no end after {LIMIT} s'
        if result.returncode:
            for line in result.stdout.splitlines():
                if 'Violation:' in line:
                    return line.split('Violation: ')[1]
            return f'ended with {result.returncode}'
    return None


def judge(defect):
    """(ok, text) for one defect."""
    name, old, new = defect[:3]
    argument = defect[3] if len(defect) > 3 else None
    source = ENGINE.read_text(encoding='ascii')
    if old and source.count(old) != 1:
        return False, f'{name} # fits {source.count(old)} places'
    with tempfile.TemporaryDirectory(prefix='mutate-') as tmp:
        out = pathlib.Path(tmp)
        engine = out / 'ipoib_cm_drain.c'
        engine.write_text(source.replace(old, new) if old else source, encoding='ascii')
        if not build(engine, out):
            return False, f'{name} # does not compile'
        seen = violation(out)
    if seen:
        return True, f'{name} # {seen}'
    if argument:
        return True, f'{name} # survives: {argument}'
    return False, f'{name} # survives'


def main():
    names = sys.argv[1:]
    defects = [d for d in DEFECTS if not names or d[0] in names]
    if not defects:
        sys.exit('mutate.py: no such defect')
    print(f'KTAP version 1\n1..{len(defects) + 1}', flush=True)
    # What is seen without any defect would be "seen" in all of them.
    good, text = judge(('none', '', '', 'there is none'))
    if not good or 'survives' not in text:
        print(f'not ok 1 mutate-{text}')
        sys.exit(1)
    print('ok 1 mutate-none', flush=True)
    failed = survivors = 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get('JOBS', '2'))) as pool:
        for number, (good, text) in enumerate(pool.map(judge, defects), 2):
            print(f'{"ok" if good else "not ok"} {number} mutate-{text}', flush=True)
            failed += not good
            survivors += 'survives' in text
    print(f'# {len(defects)} defects, {len(defects) - survivors} seen, {survivors} survivors')
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
