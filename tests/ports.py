"""Ports for throw-away servers."""

import itertools
import os
import random
import socket

#: Below the ephemeral range, so that no connection of a test takes a port before its server starts or while the server
#: is down. The range ends before the ports of cluster buses, which are the servers' ports plus 10,000.
PORTS = range(12_000, 22_000)


_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_own = PORTS[_worker::_workers]
#: The ports of this worker in random order. A port is used again as late as possible, because a server that a test
#: killed must stay away.
_next = itertools.cycle(random.sample(_own, len(_own)))


def free_port() -> int:
    """Returns a port on which no program listens."""
    while True:
        port = next(_next)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
