"""Exits while threads, loops and callbacks are active: URL NAME WHAT [HOW], as WHAT and HOW specify."""

import asyncio
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable

import redlock

warnings.simplefilter("ignore")
url, name, what, *how = sys.argv[1:]
client = redlock.Redlock(url)
begun = threading.Event()


def waits() -> None:
    begun.set()
    client.lock(name, ttl=1).acquire()


def cycles() -> None:
    mine = client.lock(f"{name}-{threading.get_ident()}", ttl=1)
    while True:
        with mine:
            begun.set()


def holds() -> None:
    with client.lock(f"{name}-{threading.get_ident()}", ttl=1):
        begun.set()
        threading.Event().wait()


def extends() -> None:
    lease = client.lock(f"{name}-{threading.get_ident()}", ttl=1).acquire()
    while True:
        lease.extend()
        begun.set()


def is_notified() -> None:
    while True:
        lease = client.lock(f"{name}-{threading.get_ident()}", ttl=1).acquire()
        lease.on_lost(lambda _: begun.set())
        client.force_release(f"{name}-{threading.get_ident()}")
        while lease.held:
            pass


def loops() -> None:
    async def main() -> None:
        while True:
            begun.set()
            async with client.lock(f"{name}-{threading.get_ident()}", ttl=1):
                pass

    asyncio.run(main())


bodies: dict[str, Callable[[], None]] = {
    "waits": waits,
    "cycles": cycles,
    "holds": holds,
    "extends": extends,
    "is_notified": is_notified,
    "loops": loops,
}
held = client.lock(name, ttl=1).acquire()
for _ in range(4):
    threading.Thread(target=bodies[what], daemon=True).start()
begun.wait()
print("done", flush=True)


def leave(how: str) -> None:
    """Exits in the body of a `with` of the main thread."""
    match how:
        case "sys.exit":
            sys.exit(3)
        case "exception":
            raise ValueError("on purpose")
        case "ctrl-c" | "sigterm":
            os.kill(os.getpid(), signal.SIGINT if how == "ctrl-c" else signal.SIGTERM)
            signal.pause()
        case "os._exit after fork":
            child = os.fork()
            if not child:
                with client.lock(f"{name}-child", wait=20):
                    os._exit(0)
            assert os.waitpid(child, 0)[1] == 0


if how:
    with client.lock(f"{name}-main", ttl=20):
        leave(how[0])
