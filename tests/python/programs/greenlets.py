"""Acquires locks in a process that gevent or eventlet has patched: LIBRARY before|after URL works|waits."""

import sys
import time
from typing import Any

library, when, url, what = sys.argv[1:]
if when == "after":
    import redlock

if library == "gevent":
    from gevent import monkey

    monkey.patch_all()
    import gevent as greens
else:
    import eventlet as greens

    greens.monkey_patch()

import redlock  # noqa: E402

client = redlock.Redlock(url)
inside, most, turns, beats = 0, 0, 0, 0


def work() -> None:
    global inside, most, turns
    for _ in range(5):
        with client.lock("job", ttl=5) as lease:
            inside += 1
            most = max(most, inside)
            greens.sleep(0)
            assert lease.held
            inside -= 1
        turns += 1


def beat() -> None:
    global beats
    while True:
        greens.sleep(0)
        beats += 1


def loss_reasons() -> list[str]:
    reasons: list[str] = []
    lease = client.lock("lost").acquire()
    lease.on_lost(lambda error: reasons.append(str(error.reason)))
    client.force_release("lost")
    until(lambda: reasons)
    return reasons


def until(condition: Any) -> None:
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        greens.sleep(0.01)


def says_when_it_waits() -> None:
    until(lambda: client.stats().waiting == 1)
    print("waiting", flush=True)


if what == "works":
    greens.spawn(beat)
    for _ in range(5):
        greens.spawn(work)
    until(lambda: turns == 25)
    print(most, turns, beats > 5, loss_reasons(), client.shutdown(0))
else:
    with client.lock("held"):
        greens.spawn(says_when_it_waits)
        try:
            client.lock("held").acquire(wait=60)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
