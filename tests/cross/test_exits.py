"""A process that ends while acquires are in flight leaves no key, whatever waits for them."""

import signal
import subprocess
import sys

import pytest

from tests.servers import Server
from tests.waiting import eventually

from .agents import ROOT
from .proxy import Proxy

COUNT = 5
PROGRAM = ROOT / "tests/python/programs/exits_in_flight.py"
WAITING = [
    "main thread",
    "daemon threads",
    "asyncio.run",
    "an open loop",
    "a loop on a daemon thread",
]


def count(server: Server, keys: list[str]) -> int:
    return sum(server.get(key) is not None for key in keys)


@pytest.mark.parametrize("by", WAITING)
def test_acquires_in_flight_at_exit_leave_no_key(five: list[Server], name: str, by: str) -> None:
    server = five[0]
    with Proxy(server) as proxy:
        words = [sys.executable, str(PROGRAM), proxy.url, name, by]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "connected\n"
            proxy.drop_replies = True
            process.stdin.write("acquire\n")
            process.stdin.flush()
            keys = [f"lock:{name}-{number}" for number in range(COUNT)]
            eventually(lambda: count(server, keys) == COUNT)
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=30)
        assert process.returncode == 0, errors
        eventually(lambda: count(server, keys) == 0)
