"""A holder is frozen for longer than its TTL and writes after another process has acquired the lock. The store refuses
it.

Starts a throw-away Redis. Fails if any step differs.
"""

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from store import Store, serving

HERE = Path(__file__).parent
COMMANDS = {"python": [sys.executable, HERE / "holder.py"], "node": ["node", HERE / "holder.mjs"]}


@contextlib.contextmanager
def throw_away_redis() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder, "redis.sock")
        words = [
            "redis-server",
            "--port",
            "0",
            "--unixsocket",
            socket,
            "--save",
            "",
            "--dir",
            folder,
        ]
        server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        try:
            while not socket.exists() and server.poll() is None:
                time.sleep(0.02)
            yield f"unix://{socket}"
        finally:
            server.kill()
            server.wait()


class Holder:
    """A process that wants the lock. It prints each action on a line."""

    def __init__(self, language: str, redis: str, store: str) -> None:
        self.language = language
        self.process = subprocess.Popen(
            [*COMMANDS[language], redis, store],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def expect(self, word: str) -> str:
        """Checks the first word of its next line and returns the second."""
        said = self.process.stdout.readline().split()
        check(said[:1] == [word], f"{self.language} says {said}, not {word!r}")
        return said[1]

    def go(self) -> None:
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def check(good: bool, failure: str) -> None:
    if not good:
        sys.exit(f"   FAILED: {failure}")


def tell(who: Holder, what: str) -> None:
    print(f"   {who.language:<7} {what}")


def scene(redis: str, stale: str, other: str, *, guarded: bool) -> None:
    store = Store(guarded=guarded)
    with serving(store) as url, Holder(stale, redis, url) as late:
        small = late.expect("wrote")
        key = late.expect("holds")
        tell(late, f"holds {key}, wrote with token {small}, checked again that it holds it,")
        late.process.send_signal(signal.SIGSTOP)
        tell(late, "and is frozen before its next write (SIGSTOP)")
        with Holder(other, redis, url) as newer:
            large = newer.expect("wrote")
            tell(newer, f"waited for the ttl, holds {key}, wrote with token {large}")
            newer.expect("holds")
            newer.go()
            check(newer.expect("wrote") == large, "a lease has one token")
            tell(newer, "wrote once more with the same token, released")
            newer.expect("released")
        check(int(large) > int(small), "the later lease has no larger token")
        late.go()
        late.process.send_signal(signal.SIGCONT)
        outcome = late.expect("refused" if guarded else "wrote")
        tell(
            late,
            "runs again (SIGCONT) and writes: " + (f"refused, {outcome}" if guarded else "done"),
        )
        tell(late, f"receives LockLost, {late.expect('lost')}")
        check(store.read("row:42") == (other if guarded else stale), "the row has another value")
        print(f"   the row is what {store.read('row:42')} wrote")


def main() -> None:
    with throw_away_redis() as redis:
        print("1. Python is frozen, Node takes over; the store compares tokens")
        scene(redis, "python", "node", guarded=True)
        print("2. Node is frozen, Python takes over")
        scene(redis, "node", "python", guarded=True)
        print("3. The same, with a store that does not compare tokens")
        scene(redis, "node", "python", guarded=False)
    print(
        "As expected: with the comparison the stale write was refused, without it it overwrote a newer one."
    )


main()
