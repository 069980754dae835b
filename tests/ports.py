"""Ports for throw-away servers."""

import random
import socket

#: Below those that connections are given: none of the many that tests open takes it before its server starts, or while
#: that is down.
PORTS = range(12_000, 32_000)


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
