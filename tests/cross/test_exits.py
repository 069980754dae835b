"""A process that ends while acquires are in flight leaves no key, whatever waits for them."""

import signal
import subprocess
import sys

import pytest

from tests.waiting import eventually

from .proxy import Proxy
from .servers import Server

COUNT = 5
#: Acquires locks without replies, and ends in the handler of a signal. The words are the URL, a prefix of the names,
#: and what waits for the acquires.
PROGRAM = """
import asyncio, signal, sys, threading, redlock

url, prefix, by = sys.argv[1:]
client = redlock.Redlock(url)
client.lock(f"{prefix}-first").acquire().release()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("connected", flush=True)
sys.stdin.readline()


def lock(client, number):
    return client.lock(f"{prefix}-{number}", ttl=60)


async def tasks():
    locks = [lock(client.as_async(), number) for number in range(5)]
    await asyncio.gather(*(one.acquire() for one in locks))


def wait():
    threading.Event().wait()


match by:
    case "main thread":
        others = [threading.Thread(target=lock(client, n).acquire, daemon=True) for n in range(1, 5)]
        [one.start() for one in others]
        lock(client, 0).acquire()
    case "daemon threads":
        others = [threading.Thread(target=lock(client, n).acquire, daemon=True) for n in range(5)]
        [one.start() for one in others]
        wait()
    case "asyncio.run":
        asyncio.run(tasks())
    case "an open loop":
        asyncio.new_event_loop().run_until_complete(tasks())
    case "a loop on a daemon thread":
        threading.Thread(target=lambda: asyncio.run(tasks()), daemon=True).start()
        wait()
"""
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
        words = [sys.executable, "-c", PROGRAM, proxy.url, name, by]
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
