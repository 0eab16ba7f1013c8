#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What a shell is too slow for, when an interface has many peers.

swarm.py send COUNT UP PAYLOAD SWARM...
    has each swarm send COUNT packets on each of its connections, UP in all, and
    checks that all of them arrive, once, with the octets that they had.

swarm.py down IFNAME IP ROUNDS LIMIT_MS N COUNTERS SWARM...
    times how long the interface takes to go down (at real-time priority), with
    and without N receive QPs in turn; fails if the medians differ by more than LIMIT_MS.

swarm.py last IFNAME N COUNTERS SWARM...
    opens N connections and takes the interface down; prints the milliseconds
    until that has returned, and until the last QP was destroyed.

SWARM is the directory of a swarm's files; COUNTERS is the file of the port's
counters. Runs in the interface's network namespace, with IP on the interface.
"""
import os
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time

import down

PORT = 9009
TAG = struct.Struct('!IIII')
MAGIC = 0x5357524d
PATIENCE = 120


def command(swarms, name, text):
    """Write the same to a file of each swarm, side by side; wait for all."""
    failed = []

    def write(swarm):
        try:
            with open(f'{swarm}/{name}', 'w') as f:
                f.write(str(text))
        except OSError as e:
            failed.append(f'{swarm}/{name}: {e}')

    threads = [threading.Thread(target=write, args=(s,)) for s in swarms]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        sys.exit('; '.join(failed))


def figure(path, name):
    with open(path) as f:
        for line in f:
            key, value = line.split()
            if key == name:
                return int(value)
    sys.exit(f'{path} has no {name}')


def total(swarms, name):
    return sum(figure(f'{s}/stats', name) for s in swarms)


def open_all(swarms, n):
    command(swarms, 'open', n // len(swarms))
    up = total(swarms, 'up')
    if up != n:
        sys.exit(f'{up} connections are up, not {n}')


def idle(swarms):
    return not any(total(swarms, s) for s in ('new', 'req', 'up', 'leaving', 'going'))


def send(argv):
    count, up, payload = (int(a) for a in argv[:3])
    swarms = argv[3:]
    body = bytes(i % 251 for i in range(TAG.size + payload))[TAG.size:]
    want = count * up
    seen = set()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, 33, 1 << 28)    # SO_RCVBUFFORCE
        s.bind(('', PORT))
        s.settimeout(10)
        sender = threading.Thread(target=command, args=(swarms, 'send', count))
        sender.start()
        while len(seen) < want:
            try:
                data = s.recv(65536)
            except TimeoutError:
                sys.exit(f'{len(seen)} of {want} packets have arrived')
            magic, *key = TAG.unpack_from(data)
            if magic != MAGIC or data[TAG.size:] != body:
                sys.exit(f'a packet of {len(data)} octets is damaged')
            if tuple(key) in seen:
                sys.exit(f'{key} arrived twice')
            seen.add(tuple(key))
        sender.join()
        s.settimeout(0.2)
        try:
            sys.exit(f'one packet too many: {s.recv(64)}')
        except TimeoutError:
            pass
    connections = len({key[:2] for key in seen})
    if connections != up:
        sys.exit(f'packets of {connections} connections, not {up}')
    print(f'{want} packets of {connections} connections')


class Interface:
    """An interface that goes down and comes up again."""

    def __init__(self, name, address, counters, swarms):
        self.name, self.address = name, address
        self.counters, self.swarms = counters, swarms
        self.index = socket.if_nametoindex(name)
        self.nl = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self.qps = figure(counters, 'qps')

    def down(self):
        """What the request does and waits for counts, not its share of the CPUs,
        which the workers that destroy the QPs are busy with meanwhile."""
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        try:
            return down.set_link(self.nl, self.index, False)
        finally:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    def extra(self):
        return figure(self.counters, 'qps') - self.qps

    def up(self):
        down.wait('the QPs to go', lambda: not self.extra(), PATIENCE)
        down.wait('the peers to go', lambda: idle(self.swarms), PATIENCE)
        down.set_link(self.nl, self.index, True)
        if self.address:
            subprocess.run(['ip', 'addr', 'replace', self.address, 'dev', self.name],
                           check=True)
        down.wait('carrier', lambda: down.carrier(self.name), PATIENCE)

    def connect(self, n):
        open_all(self.swarms, n)
        if self.extra() != n:
            sys.exit(f'{self.extra()} receive QPs, not {n}')


def down_rounds(argv):
    name, address, rounds, limit, n, counters = argv[:6]
    dev = Interface(name, address, counters, argv[6:])
    with_qps, without = [], []
    for _ in range(int(rounds)):
        without.append(dev.down())
        dev.up()
        dev.connect(int(n))
        with_qps.append(dev.down())
        dev.up()
    a, b = statistics.median(with_qps), statistics.median(without)
    print(f'with {n} receive QPs', ' '.join(f'{x:.1f}' for x in with_qps), 'ms')
    print('with none           ', ' '.join(f'{x:.1f}' for x in without), 'ms')
    print(f'note: down takes {a:.1f} ms with {n} receive QPs, {b:.1f} ms without (medians)')
    if a - b > float(limit):
        sys.exit(f'{a - b:.1f} ms more than without, {limit} ms are allowed')


def last(argv):
    name, n, counters = argv[:3]
    dev = Interface(name, None, counters, argv[3:])
    dev.connect(int(n))
    start = time.monotonic()
    took = dev.down()
    end = start + PATIENCE * 5
    while dev.extra():
        if time.monotonic() > end:
            sys.exit(f'{dev.extra()} QPs are left')
        time.sleep(0.005)
    print(f'{took:.0f} {(time.monotonic() - start) * 1000:.0f}')


if __name__ == '__main__':
    {'send': send, 'down': down_rounds, 'last': last}[sys.argv[1]](sys.argv[2:])
