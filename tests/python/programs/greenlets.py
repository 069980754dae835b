"""Acquires locks in a process that gevent or eventlet has patched: LIBRARY before|after URL MODE.

The modes are `works`, `owners`, `overlaps`, `waits`, `crowd` and `forks`.

With `owners`, prints how often a greenlet was taken for an earlier one, and whether two had the same address. With
`overlaps` and a second URL, two greenlets wait at the same time, and the one that began first ends first. The
caller freezes and thaws the servers.

With `forks`, the process forks while a greenlet waits. The child prints why the call of that greenlet ended.

With `crowd`, 150 greenlets wait for a lock. Prints the median delay of a beat of 5 ms meanwhile, in ms, and how many
acquired the lock after its release.
"""

import os
import signal
import statistics
import sys
import time
from typing import Any

library, when, url, what, *others = sys.argv[1:]
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
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        greens.sleep(0.01)


def says_when_it_waits() -> None:
    until(lambda: client.stats().waiting == 1)
    print("waiting", flush=True)


def tell(word: str) -> None:
    print(word, flush=True)
    sys.stdin.readline()


def overlap() -> None:
    begun: list[int] = []
    ended: list[int] = []
    clients = [redlock.Redlock(each, node_timeout=60) for each in (url, *others)]
    first, second = (each.lock("overlap", ttl=300).acquire() for each in clients)
    kept: Any = clients[1].lock("kept", ttl=300).acquire()
    tell("held")

    def run(number: int, call: Any) -> None:
        begun.append(number)
        call()
        ended.append(number)

    greens.spawn(run, 1, first.extend)
    greens.spawn(run, 2, second.release)
    # Each greenlet runs until its first pause.
    until(lambda: begun == [1, 2])
    for expected in ([1], [1, 2]):
        print("waiting", flush=True)
        until(lambda expected=expected: ended == expected)
        tell(str(ended))
    kept._let_go()
    # Before another thread could write the command.
    os.kill(os.getpid(), signal.SIGSTOP)


def owners() -> None:
    addresses: set[int] = set()
    leases: list[redlock.Lease] = []
    errors: list[str] = []

    def acquire(wait: float) -> None:
        addresses.add(id(greens.getcurrent()))
        try:
            leases.append(client.lock("owned").acquire(wait=wait))
        except redlock.LockTimeout as error:
            errors.append(str(error))

    for number in range(21):
        greens.spawn(acquire, 0 if number else 10).join()
    print(
        sum("already holds" in error for error in errors), len(errors) == 20 and len(addresses) < 21
    )


def crowd() -> None:
    served: list[float] = []
    late: list[float] = []

    def acquire() -> None:
        with client.lock("crowded", wait=60):
            served.append(1)

    held = client.lock("crowded").acquire()
    for _ in range(150):
        greens.spawn(acquire)
    until(lambda: client.stats().waiting == 150)
    while len(late) < 31:
        began = time.perf_counter()
        greens.sleep(0.005)
        late.append((time.perf_counter() - began) * 1000 - 5)
    held.release()
    until(lambda: len(served) == 150)
    print(round(statistics.median(late)), len(served))


def forks() -> None:
    ended: list[str] = []

    def acquire() -> None:
        try:
            client.lock("forked").acquire(wait=60)
        except redlock.LockLost as error:
            ended.append(str(error.reason))

    held = client.lock("forked").acquire()
    greens.spawn(acquire)
    until(lambda: client.stats().waiting == 1)
    child = os.fork()
    if child == 0:
        until(lambda: bool(ended))
        print(ended, flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    held.release()
    until(lambda: client.stats().granted == 2)
    print(status, ended)


if what == "overlaps":
    overlap()
elif what == "forks":
    forks()
elif what == "crowd":
    crowd()
elif what == "owners":
    owners()
elif what == "works":
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
