#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Multicast groups: what the kernel wants against what the port has.

groups.py LINKS MADDR MEMBERS MGIDS
    LINKS is `ip -j link show type ipoib`, MADDR `ip maddr show`, MEMBERS and MGIDS
    are files of softib. Full memberships and attachments must be exactly the
    addresses of the interfaces that have a carrier, their broadcast groups
    included. Prints what differs.

groups.py --churn N ADDRESS
    join and leave 15 IPv4 groups on the interface with ADDRESS, N times at random.
"""
import ipaddress
import json
import random
import re
import socket
import sys


def mgid(lladdr):
    """The MGID, as softib prints it, of a link-layer address."""
    octets = lladdr.replace(":", "")[8:]
    return ":".join(octets[i:i + 4] for i in range(0, 32, 4))


def wanted(links, maddr):
    """MGIDs of the interfaces that are on their link."""
    live = {}
    for link in json.load(open(links)):
        if link and "LOWER_UP" in link["flags"]:
            live[link["ifname"]] = link["broadcast"]
    result = {mgid(b) for b in live.values()}
    name = None
    for line in open(maddr):
        head = re.match(r"\d+:\s+(\S+)", line)
        if head:
            name = head.group(1)
        group = re.match(r"\s+link\s+([0-9a-f:]{59})\b", line)
        if group and name in live and \
                group.group(1).split(":")[8:10] == live[name].split(":")[8:10]:
            result.add(mgid(group.group(1)))
    return result


def compare(links, maddr, members, mgids):
    want = wanted(links, maddr)
    joined = set()
    for line in open(members):
        words = line.split()
        if int(words[2]) & 1:
            joined.add(words[0])
    attached = {line.split()[0] for line in open(mgids)}
    for name, have in (("joined", joined), ("attached", attached)):
        for group in sorted(want - have):
            print("not", name + ":", group)
        for group in sorted(have - want):
            print(name, "in vain:", group)
    return 0 if want and want == joined == attached else 1


def churn(count, address):
    mine = ipaddress.ip_address(address).packed
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    member = set()
    for _ in range(count):
        n = random.randrange(15)
        request = bytes([239, 9, 0, n]) + mine
        try:
            if n in member:
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, request)
                member.remove(n)
            else:
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
                member.add(n)
        except OSError as err:
            # the address is away while the interface is down
            print(n, err)
    return 0


def main(args):
    if len(args) == 3 and args[0] == "--churn":
        return churn(int(args[1]), args[2])
    if len(args) == 4:
        return compare(*args)
    print(__doc__, file=sys.stderr)
    return 2


sys.exit(main(sys.argv[1:]))
