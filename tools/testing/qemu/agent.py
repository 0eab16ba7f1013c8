#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The host's end of the agent in a guest (guest/agent says what goes over it).

  agent.py SOCKET --timeout S ping
  agent.py SOCKET --timeout S run [--env NAME=VALUE]... [--cwd DIR] COMMAND
  agent.py SOCKET --timeout S sysrq KEYS
  agent.py SOCKET --timeout S poweroff

`run` passes on what the command writes, as it comes, and its status. Further
statuses: 124 no answer in time, 125 the guest is gone. On 124 the guest is first
asked for the state of its tasks, which shows on its console.
"""
import argparse
import base64
import json
import os
import socket
import sys
import time

TIMED_OUT = 124
GONE = 125


class Gone(Exception):
    """The guest has closed the line: QEMU has ended."""


class Line:
    def __init__(self, path, timeout):
        self.end = time.monotonic() + timeout
        self.id = f'{os.getpid()}-{time.monotonic_ns()}'
        self.buffer = b''
        self.socket = socket.socket(socket.AF_UNIX)
        try:
            self.socket.connect(path)
        except OSError as e:
            raise Gone from e

    def send(self, **message):
        """A newline first ends what an earlier client may have left half said."""
        try:
            self.socket.settimeout(self.left())
            self.socket.sendall(b'\n' + json.dumps({'id': self.id, **message}).encode() + b'\n')
        except OSError as e:
            if isinstance(e, TimeoutError):
                raise
            raise Gone from e

    def left(self):
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def answers(self):
        """The answers to our request, until one is the last."""
        while True:
            while b'\n' in self.buffer:
                line, self.buffer = self.buffer.split(b'\n', 1)
                try:
                    message = json.loads(line)
                except ValueError:
                    continue
                if message.get('id') == self.id:
                    yield message
            self.socket.settimeout(self.left())
            try:
                data = self.socket.recv(65536)
            except ConnectionError as e:
                raise Gone from e
            if not data:
                raise Gone
            self.buffer += data


def write(stream, data):
    stream.buffer.write(base64.b64decode(data))
    stream.flush()


def show_tasks(line):
    """Blocked tasks and CPUs' backtraces to the guest's console."""
    line.end = time.monotonic() + 10
    line.send(op='sysrq', keys='8wl')
    for message in line.answers():
        if 'exit' in message and message.get('sysrq'):
            break


def request(line, args):
    if args.op == 'run':
        env = dict(e.split('=', 1) for e in args.env)
        line.send(op='run', cmd=args.command, env=env, cwd=args.cwd)
    elif args.op == 'sysrq':
        line.send(op='sysrq', keys=args.keys)
    else:
        line.send(op=args.op)
    for message in line.answers():
        if 'out' in message:
            write(sys.stdout, message['out'])
        elif 'err' in message:
            write(sys.stderr, message['err'])
        elif 'exit' in message:
            return message['exit']
        elif 'pong' in message:
            return 0
    return GONE


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument('socket')
    parser.add_argument('--timeout', type=float, default=60)
    ops = parser.add_subparsers(dest='op', required=True)
    ops.add_parser('ping')
    run = ops.add_parser('run')
    run.add_argument('--env', action='append', default=[])
    run.add_argument('--cwd', default='/root')
    run.add_argument('command')
    ops.add_parser('sysrq').add_argument('keys')
    ops.add_parser('poweroff')
    return parser.parse_args()


def main():
    args = arguments()
    line = None
    try:
        line = Line(args.socket, args.timeout)
        return request(line, args)
    except Gone:
        return GONE
    except TimeoutError:
        if line and args.op == 'run':
            try:
                show_tasks(line)
            except (Gone, TimeoutError):
                pass                    # the caller reports the time-out anyway
        return TIMED_OUT


if __name__ == '__main__':
    sys.exit(main())
