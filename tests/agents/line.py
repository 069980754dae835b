"""The network of `tests/cross/network.py`: a slow line, a NAT that forgets connections, and a slow name server.

line.py RESOLV_CONF

It runs in separate network and mount namespaces. Packets to HOST return to this machine after a delay, as packets
from HOST. Each line on stdin is a JSON object with new settings, and each is confirmed on stdout.
"""

import fcntl
import heapq
import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

OWN, HOST = "192.0.2.1", "192.0.2.2"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
TCP, SYN = 6, 0x02
ADDRESS_QUERY = 1


def open_tun() -> int:
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", b"line", IFF_TUN | IFF_NO_PI))
    for words in (
        "link set lo up",
        f"address add {OWN}/24 dev line",
        "link set line up",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    return tun


class Nat:
    """Drops the packets of connections that it has forgotten. No end of such a connection is notified."""

    def __init__(self) -> None:
        self.known: set[frozenset[int]] = set()

    def passes(self, packet: bytes) -> bool:
        if packet[9] != TCP:
            return True
        segment = packet[(packet[0] & 15) * 4 :]
        ports = frozenset(struct.unpack("!HH", segment[:4]))
        if segment[13] & SYN:
            self.known.add(ports)
        return ports in self.known

    def forget(self) -> None:
        self.known.clear()


class NameServer(threading.Thread):
    """Resolves every name to HOST, after a delay."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.delay = 0.0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))

    def run(self) -> None:
        while True:
            query, client = self.socket.recvfrom(4096)
            reply = self.reply(query)
            threading.Timer(self.delay, self.socket.sendto, (reply, client)).start()

    def reply(self, query: bytes) -> bytes:
        end = query.index(b"\0", 12) + 5
        (kind,) = struct.unpack("!H", query[end - 4 : end - 2])
        found = kind == ADDRESS_QUERY
        header = query[:2] + struct.pack("!HHHHH", 0x8180, 1, found, 0, 0)
        address = struct.pack("!HHHIH", 0xC00C, kind, 1, 0, 4) + socket.inet_aton(HOST)
        return header + query[12:end] + (address if found else b"")


def main() -> None:
    resolver = Path(sys.argv[1])
    resolver.write_text("nameserver 127.0.0.1\noptions timeout:30 attempts:1\n")
    subprocess.run(["mount", "--bind", resolver, "/etc/resolv.conf"], check=True)
    tun, nat, names = open_tun(), Nat(), NameServer()
    names.start()
    delay, count = 0.0, 0
    waiting: list[tuple[float, int, bytes]] = []
    print(json.dumps({"ready": True}), flush=True)
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select([tun, 0], [], [], timeout)
        if 0 in readable:
            line = sys.stdin.readline()
            if not line:
                return
            settings = json.loads(line)
            delay = settings.get("delay", delay)
            names.delay = settings.get("lookup", names.delay)
            if settings.get("forget"):
                nat.forget()
            print(json.dumps({"done": True}), flush=True)
        if tun in readable:
            packet = os.read(tun, 65_536)
            if packet[0] >> 4 == 4 and nat.passes(packet):
                # The checksums do not change if the two addresses are exchanged.
                returned = packet[:12] + packet[16:20] + packet[12:16] + packet[20:]
                count += 1
                heapq.heappush(waiting, (time.monotonic() + delay, count, returned))
        while waiting and waiting[0][0] <= time.monotonic():
            os.write(tun, heapq.heappop(waiting)[2])


main()
