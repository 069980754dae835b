"""Checks a wheel for another processor under emulation, without pytest: emulated.py URL."""

import asyncio
import platform
import sys
import threading
import time

import redlock

client = redlock.Redlock(sys.argv[1])

with client.lock("job") as lease:
    assert lease.held
    assert client.lock("job").try_acquire() is None

tokens = []
for _ in range(2):
    with client.lock("fenced", fencing=True) as lease:
        tokens.append(lease.fencing_token)
assert tokens[0] < tokens[1]

# Renewed for longer than its TTL.
with client.lock("renewed", ttl=3) as lease:
    time.sleep(4)
    assert lease.held


async def tasks() -> None:
    async def one() -> None:
        async with client.lock("tasks", wait=60) as lease:
            assert lease.held

    await asyncio.gather(*(one() for _ in range(8)))


asyncio.run(tasks())

lost: list[str] = []
lease = client.lock("lost", ttl=5).acquire()
lease.on_lost(lambda error: lost.append(error.reason))
client.force_release("lost")
deadline = time.monotonic() + 60
while not lost and time.monotonic() < deadline:
    time.sleep(0.01)
assert lost == ["missing"], lost


def wait_for_ever() -> None:
    client.lock("kept").acquire(wait=None)


# A waiting daemon thread and a running one at the exit of the interpreter.
kept = client.lock("kept", ttl=5).acquire()
threading.Thread(target=wait_for_ever, daemon=True).start()


def go_on() -> None:
    while True:
        client.lock("on").acquire(wait=5).release()


threading.Thread(target=go_on, daemon=True).start()
time.sleep(0.3)
print(platform.machine(), platform.python_version(), "ok")
