#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Counts the cases of KTAP files.

ktap.py FILE...   prints "N passed, N failed, N skipped", behind the names of
                  what failed; status 1 if anything did, or if nothing ran

A case is a result line without subtests. Number 0 is the harness speaking: its
remark that a script has failed counts only if no case of it has. A plan that promises more results than
came counts what is missing as failed; so does a group whose own line says
"not ok" though none of its cases does, and a file without any result.
"""
import re
import sys

RESULT = re.compile(r'^( *)(not ok|ok)\s+(\d+)\s*-?\s*(.*)$')
PLAN = re.compile(r'^( *)1\.\.(\d+)')


class File:
    """One file, read line by line."""

    def __init__(self, name):
        self.name = name
        self.passed = self.skipped = 0
        self.failed = []
        self.plans = {}         # depth -> results still to come
        self.below = []         # (depth, failures) of results not yet under a parent

    def close_plan(self, depth):
        """A plan at this depth or deeper ends here."""
        for d in sorted(d for d in self.plans if d >= depth):
            missing = self.plans.pop(d)
            if missing > 0:
                self.failed.append(f'{self.name}: {missing} of the planned cases did not report')
                self.below.append((d, 1))

    def result(self, depth, ok, text):
        self.close_plan(depth + 1)
        children = [b for b in self.below if b[0] > depth]
        self.below = [b for b in self.below if b[0] <= depth]
        failures = sum(b[1] for b in children)
        if depth in self.plans:
            self.plans[depth] -= 1
        if not children:
            if not ok:
                failures = 1
                self.failed.append(f'{self.name}: {text}')
            elif '# SKIP' in text.upper():
                self.skipped += 1
            else:
                self.passed += 1
        elif not ok and not failures:
            failures = 1
            self.failed.append(f'{self.name}: {text} (as a whole)')
        self.below.append((depth, failures))

    def read(self):
        with open(self.name, errors='replace') as lines:
            for line in lines:
                line = line.rstrip('\r\n')
                plan = PLAN.match(line)
                result = RESULT.match(line)
                if plan:
                    self.close_plan(len(plan.group(1)))
                    self.plans[len(plan.group(1))] = int(plan.group(2))
                elif result and result.group(3) == '0':
                    if not self.failed or '.status' not in result.group(4):
                        self.failed.append(f'{self.name}: {result.group(4)}')
                elif result:
                    self.result(len(result.group(1)), result.group(2) == 'ok',
                                result.group(4))
        self.close_plan(0)
        if not (self.passed or self.skipped or self.failed):
            self.failed.append(f'{self.name}: no results')
        return self


def main(names):
    files = [File(name).read() for name in names]
    failed = [f for file in files for f in file.failed]
    passed = sum(f.passed for f in files)
    for line in failed:
        print('failed:', line)
    print(f'{passed} passed, {sum(count(f) for f in failed)} failed, '
          f'{sum(f.skipped for f in files)} skipped')
    return 1 if failed or not passed else 0


def count(line):
    """How many cases a line of failures stands for."""
    match = re.search(r': (\d+) of the planned cases', line)
    return int(match.group(1)) if match else 1


if __name__ == '__main__':
    if len(sys.argv) < 2 or sys.argv[1] in ('-h', '--help'):
        print(__doc__)
        sys.exit(2)
    sys.exit(main(sys.argv[1:]))
