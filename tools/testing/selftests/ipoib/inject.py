#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Plays a peer with no manners, on the software InfiniBand port.

inject.py ud --from NETDEV --to MAC --qpn N [--pkey P] [--qkey Q] [--count C]
             (--length N [--proto P] | --hex DATA)
    puts a datagram on the wire below the ports, as the port on NETDEV would send
    it. --length counts octets of payload; the first four are the IPoIB header.

inject.py req --umad DEV --slid L --dlid L --sgid G --dgid G --qpn N
              [--service-id S] [--pkey P] [--pkey-index I] [--private HEX]
              [--transport rc|uc]
    sends a CM REQ for a path with P_Key P, itself in the partition at index I;
    the answer goes to the kernel's CM, which knows nothing of it.

inject.py sidr (the same arguments)
    sends a SIDR REQ instead, which asks for the QPN behind a service ID.
"""
import argparse
import fcntl
import ipaddress
import os
import random
import socket
import struct
import zlib

ROCE_PORT = 4791
UD_SEND_ONLY = 0x64
HOP_FULL_MEMBER = 64
IPOIB_QKEY = 0x0b1b

UMAD_ENABLE_PKEY = 0x1b03
UMAD_REGISTER_AGENT2 = 0xc0281b04


def number(text):
    return int(text, 0)


def mac_bytes(text):
    return bytes.fromhex(text.replace(':', ''))


def link_local(mac):
    eui = bytes([mac[0] ^ 2]) + mac[1:3] + b'\xff\xfe' + mac[3:]
    return bytes.fromhex('fe80000000000000') + eui


def hash_32(value, bits):
    """The kernel's hash_32(): the ports keep partitions apart with it."""
    return (value * 0x61c88647 & 0xffffffff) >> (32 - bits)


def wire_qkey(qkey, pkey):
    return (qkey ^ hash_32(pkey & 0x7fff, 31)) & 0x7fffffff


def checksum(data):
    if len(data) % 2:
        data += b'\0'
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff or 0xffff


def datagram(src, dst, qpn, qkey, payload):
    """An Ethernet frame: IPv6, UDP, BTH, DETH, payload, pad, ICRC."""
    pad = -len(payload) % 4
    bth = struct.pack('!BBHII', UD_SEND_ONLY, 0x40 | pad << 4, 0xffff, qpn,
                      random.getrandbits(24))
    deth = struct.pack('!II', qkey, 0x000123)
    body = deth + payload + bytes(pad)
    length = 8 + len(bth) + len(body) + 4
    ports = struct.pack('!HHH', 0xc000, ROCE_PORT, length)
    ip_tail = struct.pack('!HB', length, socket.IPPROTO_UDP)
    addresses = link_local(src) + link_local(dst)

    # the invariant CRC sees what routers may change as ones
    covered = (b'\xff' * 8 + b'\x6f\xff\xff\xff' + ip_tail + b'\xff' + addresses +
               ports + b'\xff\xff' + bth[:4] + b'\xff' + bth[5:] + body)
    icrc = struct.pack('<I', zlib.crc32(covered))

    pseudo = addresses + struct.pack('!II', length, socket.IPPROTO_UDP)
    udp_sum = checksum(pseudo + ports + b'\0\0' + bth + body + icrc)
    return (dst + src + b'\x86\xdd' + b'\x60\0\0\0' + ip_tail +
            bytes([HOP_FULL_MEMBER]) + addresses + ports +
            struct.pack('!H', udp_sum) + bth + body + icrc)


def send_ud(args):
    with open(f'/sys/class/net/{args.source}/address') as f:
        src = mac_bytes(f.read().strip())
    if args.hex is not None:
        payload = bytes.fromhex(args.hex)
    else:
        payload = (struct.pack('!HH', args.proto, 0) + bytes(args.length))[:args.length]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
        s.bind((args.source, 0))
        for _ in range(args.count):
            s.send(datagram(src, mac_bytes(args.to), args.qpn,
                            wire_qkey(args.qkey, args.pkey), payload))


def cm_req(args):
    """A REQ, 256 octets: MAD header and message (IBTA volume 1, chapter 12)."""
    private = bytes.fromhex(args.private).ljust(92, b'\0')[:92]
    service = args.service_id if args.service_id is not None else 0x10 << 56 | args.qpn
    transport = {'rc': 0, 'uc': 1, 'rd': 2}[args.transport]
    sgid = ipaddress.ip_address(args.sgid).packed
    dgid = ipaddress.ip_address(args.dgid).packed
    header = struct.pack('!BBBBHHQHHI', 1, 7, 2, 3, 0, 0, random.getrandbits(32),
                         0x10, 0, 0)
    msg = struct.pack('!II', random.getrandbits(32), 0)
    msg += struct.pack('!QQ', service, int.from_bytes(sgid[8:], 'big'))
    msg += struct.pack('!II', 0, 0)                     # reserved, Q_Key
    msg += struct.pack('!I', 0x555 << 8 | 1)            # our QPN, responder resources
    msg += struct.pack('!I', 1)                         # EECN, initiator depth
    msg += struct.pack('!I', 20 << 3 | transport << 1)  # EECN, time-out, transport
    msg += struct.pack('!I', 0x123456 << 8 | 20 << 3 | 7)   # PSN, time-out, retries
    msg += struct.pack('!HBB', args.pkey, 5 << 4 | 7, 15 << 4)
    msg += struct.pack('!HH', args.slid, args.dlid) + sgid + dgid
    msg += struct.pack('!IBBBB', 17, 0, 64, 0x08, 14 << 3)  # rate, hops, subnet local
    msg += bytes(44)                                    # no alternate path
    assert len(msg) == 140, len(msg)
    return header + msg + private


def sidr_req(args):
    service = args.service_id if args.service_id is not None else 0x10 << 56 | args.qpn
    header = struct.pack('!BBBBHHQHHI', 1, 7, 2, 3, 0, 0, random.getrandbits(32),
                         0x17, 0, 0)
    msg = struct.pack('!IHHQ', random.getrandbits(32), args.pkey, 0, service)
    return header + msg + bytes.fromhex(args.private).ljust(216, b'\0')[:216]


def send_mads(args):
    fd = os.open(f'/dev/infiniband/{args.umad}', os.O_RDWR)
    fcntl.ioctl(fd, UMAD_ENABLE_PKEY)
    # id, QP1, class 0 (send only), version, flags, method mask, OUI, RMPP
    agent = bytearray(struct.pack('=IIBBHIQQIB3x', 0, 1, 0, 0, 0, 0, 0, 0, 0, 0))
    fcntl.ioctl(fd, UMAD_REGISTER_AGENT2, agent)
    head = struct.pack('=5I', struct.unpack_from('=I', agent)[0], 0, 0, 0, 64 + 256)
    head += struct.pack('!IIHBBBBBB', 1, 0x80010000, args.dlid, 0, 0, 0, 0, 64, 0)
    head += bytes(16) + bytes(4) + struct.pack('=H6x', args.pkey_index)
    assert len(head) == 64, len(head)
    for _ in range(args.count):
        # each with a transaction ID of its own, else it is a duplicate
        os.write(fd, head + args.message(args))
    os.close(fd)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = parser.add_subparsers(required=True)
    ud = sub.add_parser('ud')
    ud.set_defaults(run=send_ud)
    ud.add_argument('--from', dest='source', required=True)
    ud.add_argument('--to', required=True)
    ud.add_argument('--qkey', type=number, default=IPOIB_QKEY)
    ud.add_argument('--length', type=int, default=0)
    ud.add_argument('--proto', type=number, default=0x0800)
    ud.add_argument('--hex')
    req = sub.add_parser('req')
    sidr = sub.add_parser('sidr')
    for p, message in ((req, cm_req), (sidr, sidr_req)):
        p.set_defaults(run=send_mads, message=message)
        p.add_argument('--umad', default='umad1')
        p.add_argument('--slid', type=number, required=True)
        p.add_argument('--dlid', type=number, required=True)
        p.add_argument('--sgid', required=True)
        p.add_argument('--dgid', required=True)
        p.add_argument('--service-id', type=number)
        p.add_argument('--pkey-index', type=number, default=0)
        p.add_argument('--private', default='')
        p.add_argument('--transport', choices=('rc', 'uc', 'rd'), default='rc')
    for p in (ud, req, sidr):
        p.add_argument('--qpn', type=number, required=True)
        p.add_argument('--pkey', type=number, default=0xffff)
        p.add_argument('--count', type=int, default=1)
    args = parser.parse_args()
    args.run(args)


if __name__ == '__main__':
    main()
