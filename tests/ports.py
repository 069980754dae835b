"""Ports for throw-away servers."""

import random
import socket

#: Below the ephemeral range, so that no connection of a test takes a port before its server starts or while the server
#: is down. The range ends before the ports of cluster buses, which are the servers' ports plus 10,000.
PORTS = range(12_000, 22_000)


def free_port() -> int:
    """Returns a port on which no program listens."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
