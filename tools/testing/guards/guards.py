#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Do the cases see it when a rule of the driver is broken?

guards.py [OPTION]... [NAME...]   takes each guarded rule (all of rules.py, or the
                  named ones) out of a copy of the driver, builds that, and runs in
                  a guest the cases that claim to guard the rule; KTAP

  --list          the guards: name, cases, rule
  --check         do all of them still fit the sources? Builds and boots nothing
  --build         ... and do they still compile? Boots nothing
  --rst           the table of Documentation/testing.rst
  --record        write to seen.txt what this run has seen
  --no-control    do not first run the same cases on the driver as it is

A guard passes if each of its cases fails. A defect that does not compile, a guest
that does not boot and a rig that does not come up are no such failure; a guest that
dies or hangs in the case is one where the guard says so. A case that fails without
any defect guards nothing. Guards of the drain engine that need no guest are defects
of model/mutate.py; it runs them.

Environment:
  JOBS      guests at a time (2)
  KERNEL    the kernel (6.12)
  RESULTS   where logs go (build/guards/results)
  SCALE     as in lib.sh: how long cases wait for what does not come
  PREFIX    what to put before the command that runs a guest, such as nice
"""
import concurrent.futures
import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / 'model')]
sys.dont_write_bytecode = True

import mutate   # noqa: E402
import rules    # noqa: E402

TOP = HERE.parents[2]
TESTS = TOP / 'tools/testing/selftests/ipoib'
QEMU = TOP / 'tools/testing/qemu'
MUTATE = TOP / 'tools/testing/model/mutate.py'
WORK = TOP / 'build/guards'
SEEN = HERE / 'seen.txt'
KERNEL = os.environ.get('KERNEL', '6.12')
RESULTS = pathlib.Path(os.environ.get('RESULTS') or WORK / 'results')
JOBS = int(os.environ.get('JOBS') or 2)
LIMIT = 900     # seconds a guest may take for one guard
SHARE = 8       # guards that may share a guest

RESULT = re.compile(r'^(not ok|ok) (\d+) (\S+)(.*)$')
NOT_RUN = '# not run: an earlier case'


class Error(Exception):
    """The guard itself is broken: one line that says how."""


class Again(Error):
    """It may be the fault of who had the guest before."""


# ---- the guards ----

def digest(guard):
    """Changes with whatever the verdict depends on in the guard itself."""
    text = repr((guard.edits, guard.test, guard.cases, guard.model))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def seen():
    """Name and digest of the guards that a recorded run has seen to pass."""
    pairs = {}
    for line in SEEN.read_text(encoding='ascii').splitlines():
        if line and not line.startswith('#'):
            name, key = line.split()[:2]
            pairs[name] = key
    return pairs


def is_seen(guard, pairs):
    return pairs.get(guard.name) == digest(guard)


def mutated(guard):
    """{file: text} with the rule taken out."""
    texts = {}
    for name, old, new in guard.edits:
        path = TOP / name
        if not path.is_file():
            raise Error(f'{name} is not there')
        text = texts.get(name) or path.read_text(encoding='ascii')
        if text.count(old) != 1:
            raise Error(f'{name}: {text.count(old)} places look like {old.strip()!r}')
        texts[name] = text.replace(old, new)
    return texts


def check_cases(guard):
    script = TESTS / guard.test
    if not script.is_file():
        raise Error(f'there is no {guard.test}')
    text = script.read_text(encoding='utf-8')
    listed = ' '.join(re.findall(r'^run_cases((?:[^\n]*\\\n)*[^\n]*)$', text, re.M)).split()
    for case in guard.cases:
        if f'\nt_{case}()' not in text or case not in listed:
            raise Error(f'{guard.test} has no case {case}')


def check(guard):
    if guard.model:
        if guard.model not in [d[0] for d in mutate.DEFECTS]:
            raise Error(f'mutate.py has no defect {guard.model}')
        return
    check_cases(guard)
    mutated(guard)


# ---- building ----

class Builder:
    """One copy of the driver, in which one guard after the other is built."""

    def __init__(self):
        self.lock = threading.Lock()
        self.src = WORK / 'src'
        self.softib = False

    @staticmethod
    @contextlib.contextmanager
    def alone():
        """Keep other runs of this program out of the copy."""
        WORK.mkdir(parents=True, exist_ok=True)
        with open(WORK / 'lock', 'w', encoding='ascii') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @staticmethod
    def put(path, text):
        """Write it if it differs: make goes by time stamps."""
        if not path.exists() or path.read_text(encoding='utf-8') != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding='utf-8')

    @staticmethod
    def sources(texts):
        """{file: text} of the driver, with these files instead of its own."""
        paths = [*TOP.glob('*.[ch]'), TOP / 'Kbuild', *TOP.glob('compat/**/*')]
        names = sorted(str(p.relative_to(TOP)) for p in paths if p.is_file())
        return {n: texts.get(n) or (TOP / n).read_text(encoding='utf-8') for n in names}

    @staticmethod
    def key(sources):
        """Of what a build is made of."""
        softib = sorted((TOP / 'tools/testing/softib').glob('*.[ch]'))
        text = repr((KERNEL, sources, [p.read_text(encoding='utf-8') for p in softib]))
        return hashlib.sha256(text.encode()).hexdigest()

    def sync(self, sources):
        for name, text in sources.items():
            self.put(self.src / name, text)
        for path in self.src.glob('**/*'):
            if path.is_file() and str(path.relative_to(self.src)) not in sources:
                path.unlink()

    @staticmethod
    def kbuild(src, out):
        # guests are timed, builds are not
        result = subprocess.run(['nice', '-n', '5', QEMU / 'kbuild.sh', KERNEL, src, out],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                stdin=subprocess.DEVNULL, text=True, check=False)
        if result.returncode:
            lines = [x for x in result.stdout.splitlines() if 'error' in x.lower()]
            raise Error('does not build: ' + (lines or ['no word of why'])[0])

    def build(self, name, texts):
        """Build it; return the directory with the modules."""
        out = WORK / 'modules' / name
        with self.lock, self.alone():
            sources = self.sources(texts)
            key = self.key(sources)
            stamp = out / 'key'
            if stamp.is_file() and stamp.read_text(encoding='ascii') == key:
                return out
            if not self.softib:
                self.kbuild(TOP / 'tools/testing/softib', WORK / 'softib')
                self.softib = True
            self.sync(sources)
            self.kbuild(self.src, WORK / 'driver')
            out.mkdir(parents=True, exist_ok=True)
            shutil.copy(WORK / 'driver/ib_ipoib.ko', out)
            shutil.copy(WORK / 'softib/softib.ko', out)
            stamp.write_text(key, encoding='ascii')
            return out


# ---- guests ----

class Part:
    """What one script of a guest has said."""

    def __init__(self, test, cases, guard=None):
        self.test = test
        self.cases = cases
        self.guard = guard
        self.results = {}       # case -> (ok, skipped, the rest of the line, lines behind it)
        self.harness = []       # what the harness said
        self.first = None
        self.last = None        # where to put what is said next

    def take(self, line):
        """One line of KTAP, or of what is said about the last result."""
        match = RESULT.match(line)
        if not match:
            if self.last is not None and line.startswith('#'):
                self.last.append(line)
            return
        ok, number, name, rest = match.groups()
        if number == '0':
            self.harness.append(name + rest)
            self.last = None
            return
        case = name.split('.', 1)[-1]
        self.last = []
        self.results[case] = (ok == 'ok', '# SKIP' in rest, rest.strip(), self.last)
        self.first = self.first or case

    def known(self):
        return all(c in self.results for c in self.cases)

    def why(self, case):
        lines = [x.lstrip('# ') for x in self.results[case][3]]
        for line in lines:
            if line.startswith('FAIL: ') or 'no end after' in line:
                return line.removeprefix('FAIL: ')
        kernel = [x for x in lines if re.search('WARNING|BUG|Oops|fault', x)]
        return (kernel or lines or ['it says nothing'])[0]

    def verdict(self):
        """Did each of the cases fail? Return how, or raise what is wrong."""
        if not self.results:
            raise Again((self.harness or ['no result'])[0])
        if not self.results[self.first][0] and self.first not in self.cases:
            raise Again(f'the rig does not come up: {self.why(self.first)}')
        return '; '.join([self.verdict_case(case) for case in self.cases])

    def verdict_case(self, case):
        if case in self.results:
            ok, skipped, rest, lines = self.results[case]
            if skipped:
                raise Error(f'{case} is skipped: {rest}')
            if ok:
                raise Error(f'{case} passes')
            if any(NOT_RUN in x for x in lines):
                raise Error(f'{case} was not run')
            return f'{case}: {self.why(case)}'
        if not self.harness:
            raise Error(f'{case} has no result')
        if not self.guard.fatal:
            raise Error(f'{case} has no result: {self.harness[0]}')
        return f'{case}: {self.harness[0]}'


class Guest:
    """One boot; it is ended when all that is wanted is known."""

    running = set()

    def __init__(self, name, modules, parts, slub=False):
        self.name = name
        self.modules = modules
        self.parts = parts
        self.slub = slub
        self.ending = None
        self.process = None

    def command(self):
        cmd = shlex.split(os.environ.get('PREFIX', ''))
        cmd += [str(QEMU / 'run.sh'), '--kernel', KERNEL, '--driver', 'ours',
                '--modules', str(self.modules), '--timeout', str(LIMIT * len(self.parts)),
                '--results', str(RESULTS / self.name)]
        if self.slub:
            cmd.append('--slub')
        if os.environ.get('SCALE'):
            cmd += ['--env', f'SCALE={os.environ["SCALE"]}']
        if len(self.parts) == 1:
            return [*cmd, str(TESTS / self.parts[0].test)]
        for part in self.parts:
            cmd += [str(HERE / 'one.sh'), part.guard.name, part.test, *part.cases, '--']
        return cmd[:-1]

    def run(self, to_the_end=False):
        (RESULTS / self.name).mkdir(parents=True, exist_ok=True)
        env = dict(os.environ, CASES=' '.join(self.parts[0].cases))
        number = -1
        with open(RESULTS / self.name / 'run.log', 'w', encoding='utf-8') as log, \
                open(RESULTS / self.name / 'run.err', 'w', encoding='utf-8') as err:
            self.process = subprocess.Popen(self.command(), env=env, stderr=err, text=True,
                                            stdin=subprocess.DEVNULL, errors='replace',
                                            stdout=subprocess.PIPE, start_new_session=True)
            Guest.running.add(self)
            try:
                for line in self.process.stdout:
                    log.write(line)
                    log.flush()
                    if line.startswith('KTAP version'):
                        number = min(number + 1, len(self.parts) - 1)
                    self.parts[max(number, 0)].take(line.rstrip('\n'))
                    if not to_the_end and self.parts[-1].known():
                        self.end_soon()
            finally:
                if self.ending:
                    self.ending.cancel()
                self.stop()
                Guest.running.discard(self)
        return self

    def end_soon(self):
        """All is known but why the last case failed, which is said at once."""
        if not self.ending:
            self.ending = threading.Timer(5, self.stop)
            self.ending.start()

    def stop(self):
        """End the harness and wait until its whole group has gone."""
        for sig, patience in ((signal.SIGTERM, 30), (signal.SIGKILL, 10)):
            end = time.monotonic() + patience
            while time.monotonic() < end:
                try:
                    os.killpg(self.process.pid, sig)
                except ProcessLookupError:
                    self.process.wait()
                    return
                sig = 0
                self.process.poll()
                time.sleep(0.1)


# ---- runs ----

class Run:
    def __init__(self, guards, control, record):
        self.guards = guards
        self.control = control
        self.record = record
        self.builder = Builder()
        self.bad = {}           # (test, case) -> why, without any defect
        self.explorer = threading.Lock()
        self.explorations = None
        self.number = 0
        self.failed = 0
        self.passed = []

    def result(self, ok, name, text):
        self.number += 1
        self.failed += not ok
        print(f'{"ok" if ok else "not ok"} {self.number} guards.{name} # {text}', flush=True)

    def scripts(self):
        """{script: its cases that the guards name, in order}"""
        cases = {}
        for guard in self.guards:
            if not guard.model:
                have = cases.setdefault(guard.test, [])
                have += [c for c in guard.cases if c not in have]
        return cases

    def control_run(self, test, cases):
        """What fails without a defect: (ok, text)."""
        modules = self.builder.build('none', {})
        part = Part(test, cases)
        Guest(f'none-{test.removesuffix(".sh")}', modules, [part]).run(True)
        failed = []
        for case in cases:
            entry = part.results.get(case)
            if not entry or not entry[0]:
                why = part.why(case) if entry else (part.harness or ['no result'])[0]
                self.bad[test, case] = why
                failed.append(f'{case}: {why}')
        return not failed, '; '.join(failed) or f'{len(cases)} cases pass without a defect'

    def ready(self, guard):
        """Build it, unless its cases fail anyway."""
        check(guard)
        for case in guard.cases:
            if (guard.test, case) in self.bad:
                raise Error(f'{case} fails without a defect: {self.bad[guard.test, case]}')
        return self.builder.build(guard.name, mutated(guard))

    def one(self, guard):
        """(ok, text) for one guard, in a guest of its own."""
        try:
            if guard.model:
                check(guard)
                return self.explored(guard.model)
            part = Part(guard.test, guard.cases, guard)
            Guest(guard.name, self.ready(guard), [part], guard.slub).run()
            return True, part.verdict()
        except Error as error:
            return False, str(error)

    def several(self, guards):
        """[(guard, ok, text)] for guards that share a guest."""
        if len(guards) == 1:
            return [(guards[0], *self.one(guards[0]))]
        out, parts = [], []
        modules = WORK / 'modules' / f'with-{guards[0].name}'
        shutil.rmtree(modules, ignore_errors=True)
        modules.mkdir(parents=True)
        for guard in guards:
            try:
                built = self.ready(guard)
            except Error as error:
                out.append((guard, False, str(error)))
                continue
            os.link(built / 'ib_ipoib.ko', modules / f'{guard.name}.ko')
            shutil.copy(built / 'softib.ko', modules)
            parts.append(Part(guard.test, guard.cases, guard))
        if len(parts) == 1:
            return [*out, (parts[0].guard, *self.one(parts[0].guard))]
        if parts:
            Guest(f'with-{parts[0].guard.name}', modules, parts).run()
        for part in parts:
            try:
                out.append((part.guard, True, part.verdict()))
            except Again:
                out.append((part.guard, *self.one(part.guard)))
            except Error as error:
                out.append((part.guard, False, str(error)))
        return out

    def groups(self):
        """The guards, those together that may share a guest; the explorer comes last."""
        own = [[g] for g in self.guards if (g.fatal or g.slub or g.alone) and not g.model]
        rest = [g for g in self.guards if not (g.fatal or g.slub or g.alone or g.model)]
        return [*[rest[i:i + SHARE] for i in range(0, len(rest), SHARE)], *own,
                *[[g] for g in self.guards if g.model]]

    def explored(self, defect):
        """(ok, text) for one defect of the explorer; all are run by the first call."""
        with self.explorer:
            if self.explorations is None:
                defects = [g.model for g in self.guards if g.model]
                result = subprocess.run([MUTATE, *defects], stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.STDOUT, check=False)
                self.explorations = result.stdout.splitlines()
        for line in self.explorations:
            match = re.match(rf'(ok|not ok) \d+ mutate-{defect} # (.*)', line)
            if match:
                ok = match.group(1) == 'ok' and not match.group(2).startswith('survives')
                return ok, f'explorer: {match.group(2)}'
        return False, (self.explorations or ['mutate.py says nothing'])[-1]

    def pool(self, function, jobs):
        """Run them side by side; give each job with its outcome as it comes."""
        pool = concurrent.futures.ThreadPoolExecutor(JOBS)
        futures = {pool.submit(function, *job): job for job in jobs}
        try:
            for future in concurrent.futures.as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def run(self):
        scripts = self.scripts() if self.control else {}
        print(f'KTAP version 1\n1..{len(self.guards) + len(scripts)}', flush=True)
        for (test, _), (ok, text) in self.pool(self.control_run, scripts.items()):
            self.result(ok, f'none-{test.removesuffix(".sh")}', text)
        for _, outcomes in self.pool(self.several, [(g,) for g in self.groups()]):
            for guard, ok, text in outcomes:
                self.result(ok, guard.name, text)
                if ok:
                    self.passed.append(guard)
                    if self.record:
                        record(guard)
        print(f'# {len(self.guards)} rules taken out, {len(self.passed)} seen')
        return 1 if self.failed else 0


def record(guard):
    """Note in seen.txt, in the order of rules.py, that it was seen."""
    head = [x for x in SEEN.read_text(encoding='ascii').splitlines() if x.startswith('#')]
    pairs = seen()
    pairs[guard.name] = digest(guard)
    lines = [f'{g.name} {pairs[g.name]}' for g in rules.GUARDS if g.name in pairs]
    SEEN.write_text('\n'.join([*head, *lines]) + '\n', encoding='ascii')


# ---- what needs no guest ----

def wrap(text, width):
    lines = ['']
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append('')
        lines[-1] += (' ' if lines[-1] else '') + word
    return lines


def rst(guards):
    """The table, of those only that have been seen."""
    pairs = seen()
    rows = []
    for guard in guards:
        if is_seen(guard, pairs):
            by = ['explorer'] if guard.model else wrap(
                f'``{guard.test}`` ' + ', '.join(guard.cases), 28)
            rows.append((guard.name, by, wrap(guard.rule, 45)))
    wide = max([len(r[0]) for r in rows], default=4)
    middle = max([len(x) for r in rows for x in r[1]], default=4)
    bar = f'{"=" * wide}  {"=" * middle}  {"=" * 45}'
    print(f'{bar}\n{"guard":{wide}}  {"case":{middle}}  rule\n{bar}')
    for name, by, text in rows:
        for i in range(max(len(by), len(text))):
            cells = [name if not i else '', by[i] if i < len(by) else '',
                     text[i] if i < len(text) else '']
            # a blank first column continues the row above
            print(f'{cells[0]:{wide}}  {cells[1]:{middle}}  {cells[2]}'.rstrip())
    print(bar)


def list_all(guards):
    pairs = seen()
    for guard in guards:
        where = f'explorer {guard.model}' if guard.model else \
            f'{guard.test} {" ".join(guard.cases)}'
        mark = '' if is_seen(guard, pairs) else ' (not yet seen)'
        print(f'{guard.name}: {where}{mark}\n\t{guard.rule}')


def check_all(guards):
    bad = 0
    names = [g.name for g in rules.GUARDS]
    for name in sorted({n for n in names if names.count(n) > 1}):
        print(f'rules.py: two guards are called {name}')
        bad = 1
    for guard in guards:
        try:
            check(guard)
        except Error as error:
            print(f'{guard.name}: {error}')
            bad = 1
    pairs = seen()
    for name in pairs:
        if name not in names:
            print(f'seen.txt: no guard is called {name}')
            bad = 1
    for guard in guards:
        if guard.name in pairs and not is_seen(guard, pairs):
            print(f'{guard.name}: changed since it was seen: guards.py --record {guard.name}')
            bad = 1
    return bad


def build_all(guards):
    builder = Builder()
    bad = 0
    for guard in guards:
        if guard.model:
            continue
        try:
            check(guard)
            builder.build(guard.name, mutated(guard))
            print(f'{guard.name}: builds', flush=True)
        except Error as error:
            print(f'{guard.name}: {error}', flush=True)
            bad = 1
    return bad


def stop(*_):
    for guest in list(Guest.running):
        guest.stop()
    os._exit(130)


def main():
    words = sys.argv[1:]
    options = {w for w in words if w.startswith('-')}
    names = [w for w in words if not w.startswith('-')]
    known = {'--list', '--check', '--build', '--rst', '--record', '--no-control'}
    if options & {'-h', '--help'} or options - known:
        print(__doc__)
        sys.exit(0 if options & {'-h', '--help'} else 2)
    guards = [g for g in rules.GUARDS if not names or g.name in names]
    missing = set(names) - {g.name for g in guards}
    if missing:
        sys.exit(f'guards.py: no guard is called {", ".join(sorted(missing))} (see --list)')
    for option, act in (('--list', list_all), ('--check', check_all),
                        ('--build', build_all), ('--rst', rst)):
        if option in options:
            sys.exit(act(guards))
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    sys.exit(Run(guards, '--no-control' not in options, '--record' in options).run())


if __name__ == '__main__':
    main()
