"""Ports for throw-away servers."""

import random
import socket

#: Below those that connections are given: none of the many that tests open takes it before its server starts, or while
#: that is down. The range ends before the ports of cluster buses, which are 10,000 higher than their servers' ports.
PORTS = range(12_000, 22_000)


def free_port() -> int:
    """A port that nobody listens on."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
