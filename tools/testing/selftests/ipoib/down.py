#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Times how long an interface takes to go down, by one netlink request each.

down.py IFNAME PEER ROUNDS LIMIT_MS CENSUS

Runs in the interface's network namespace. Rounds with and without connections
take turns; CENSUS lists the port's QPs and tells which kind a round was. Prints
the medians, and fails if the difference is above LIMIT_MS.
"""
import socket
import statistics
import struct
import subprocess
import sys
import time

RTM_NEWLINK, NLM_F_REQUEST, NLM_F_ACK, IFF_UP = 16, 1, 4, 1


def set_link(nl, index, up):
    """One request; returns the milliseconds until its answer."""
    body = struct.pack('=BxHiII', socket.AF_UNSPEC, 0, index, IFF_UP if up else 0, IFF_UP)
    message = struct.pack('=IHHII', 16 + len(body), RTM_NEWLINK,
                          NLM_F_REQUEST | NLM_F_ACK, 1, 0) + body
    start = time.monotonic()
    nl.send(message)
    answer = nl.recv(4096)
    took = (time.monotonic() - start) * 1000
    error = struct.unpack_from('=i', answer, 16)[0]
    if error:
        raise OSError(-error, 'netlink')
    return took


def connected(census):
    with open(census) as f:
        return sum(' type 2 ' in line for line in f)


def wait(what, condition, seconds=100):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit(f'waited {seconds} s for {what}')
        time.sleep(0.05)


def carrier(name):
    try:
        with open(f'/sys/class/net/{name}/carrier') as f:
            return f.read().strip() == '1'
    except OSError:
        return False


def ping(peer):
    return subprocess.run(['ping', '-q', '-c', '1', '-W', '1', '-s', '30000', peer],
                          stdout=subprocess.DEVNULL).returncode == 0


def round_of(nl, name, index, peer, census, connect):
    wait('carrier', lambda: carrier(name))
    if connect:
        wait('an answer', lambda: ping(peer))
        wait('a connection', lambda: connected(census) >= 2)
    else:
        assert not connected(census), 'a connection that nobody asked for'
    took = set_link(nl, index, False)
    wait('the QPs to go', lambda: not connected(census))
    set_link(nl, index, True)
    return took


def main():
    name, peer, rounds, limit, census = sys.argv[1:6]
    index = socket.if_nametoindex(name)
    nl = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    with_conn, without = [], []
    for _ in range(int(rounds)):
        without.append(round_of(nl, name, index, peer, census, False))
        subprocess.run(['ip', 'addr', 'replace', '10.9.0.1/24', 'dev', name], check=True)
        with_conn.append(round_of(nl, name, index, peer, census, True))
    a, b = statistics.median(with_conn), statistics.median(without)
    print('with connections    ', ' '.join(f'{x:.1f}' for x in with_conn), 'ms')
    print('without connections ', ' '.join(f'{x:.1f}' for x in without), 'ms')
    print(f'note: down takes {a:.1f} ms with connections, {b:.1f} ms without (medians)')
    if a - b > float(limit):
        sys.exit(f'{a - b:.1f} ms more than without, {limit} ms are allowed')


if __name__ == '__main__':
    main()
