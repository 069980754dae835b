"""A flash sale over a throw-away Redis, with the lock and without. Fails if any step differs."""

import contextlib
import itertools
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import redis

HERE = Path(__file__).parent
COMMANDS = {"python": [sys.executable, HERE / "seller.py"], "node": ["node", HERE / "seller.mjs"]}
TICKETS = 60
SECOND = 1_000_000_000


@contextlib.contextmanager
def throw_away_redis() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = tempfile.mkdtemp(prefix="redlock-demo-")
    server = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
        stdout=subprocess.DEVNULL,
    )
    try:
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)


class Seller:
    """A ready seller process, which sells on a command."""

    all: ClassVar[list["Seller"]] = []

    def __init__(
        self, language: str, url: str, ttl: float, pause: float, *, guarded: bool, limit: int
    ) -> None:
        words = [*COMMANDS[language], url, int(guarded), limit, ttl, pause]
        self.process = subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.all.append(self)
        self.expect("ready")

    def expect(self, word: str) -> None:
        line = self.process.stdout.readline().strip()
        check(line == word, f"a seller says {line!r}, not {word!r}")

    def go(self) -> None:
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def finish(self) -> None:
        self.process.communicate(timeout=60)
        check(self.process.returncode == 0, "a seller failed")


def check(good: bool, failure: str) -> None:
    if not good:
        sys.exit(f"   FAILED: {failure}")


def ledger(shop: redis.Redis) -> list[dict]:
    entries = [json.loads(entry) for entry in shop.lrange("ledger", 0, -1)]
    return sorted(entries, key=lambda entry: entry["from"])


def overlaps(entries: list[dict]) -> int:
    pairs = itertools.pairwise(entries)
    return sum(earlier["to"] > later["from"] for earlier, later in pairs)


def sale(shop: redis.Redis, url: str, guarded: bool) -> list[dict]:
    shop.flushall()
    shop.set("stock", TICKETS)
    sellers = [
        Seller(language, url, 10, 0.005, guarded=guarded, limit=TICKETS)
        for language in COMMANDS
        for _ in range(3)
    ]
    for seller in sellers:
        seller.go()
    for seller in sellers:
        seller.finish()
    entries = ledger(shop)
    begin = entries[0]["from"]
    print("   seller            sold   first at   last at")
    for seller, sold in sorted(Counter(entry["seller"] for entry in entries).items()):
        times = [(entry["from"] - begin) / SECOND for entry in entries if entry["seller"] == seller]
        print(f"   {seller:<16} {sold:>5}   {times[0]:6.3f} s  {times[-1]:6.3f} s")
    print(f"   tickets {TICKETS}, sold {len(entries)}, overlapping sales {overlaps(entries)}")
    return entries


def meet(shop: redis.Redis, first: Seller, second: Seller) -> None:
    """Sells two tickets. The second seller arrives when the first one is in the middle of a sale."""
    shop.flushall()
    shop.set("stock", 2)
    first.go()
    first.expect("selling")
    second.go()


def with_lock(shop: redis.Redis, url: str) -> None:
    print(f"\n2. Flash sale under one lock: {TICKETS} tickets, 3 sellers in Python, 3 in Node")
    entries = sale(shop, url, guarded=True)
    check(len(entries) == TICKETS and shop.get("stock") == "0", "sold is not what was in stock")
    check(overlaps(entries) == 0, "two sellers were in the shop at once")
    check(len({entry["seller"].split()[0] for entry in entries}) == 2, "one language sold nothing")
    print("   as it must be: every ticket sold once, never two sellers at a time")


def without_lock(shop: redis.Redis, url: str) -> None:
    print("\n3. The same sale without the lock")
    entries = sale(shop, url, guarded=False)
    check(len(entries) > TICKETS, "this was meant to oversell")
    print(f"   as expected: {len(entries) - TICKETS} tickets sold that did not exist")


def outlive_the_ttl(shop: redis.Redis, url: str) -> None:
    print("\n4. A sale of 2.5 s under a lock with a ttl of 1 s, another seller waiting: renewal")
    slow = Seller("python", url, 1, 2.5, guarded=True, limit=1)
    waiting = Seller("node", url, 1, 0, guarded=True, limit=1)
    meet(shop, slow, waiting)
    waiting.finish()
    slow.finish()
    first, second = ledger(shop)
    held = (first["to"] - first["from"]) / SECOND
    later = (second["from"] - first["to"]) / SECOND
    print(f"   {first['seller']} held it for {held:.2f} s,")
    print(f"   {second['seller']} had it {later:.3f} s later")
    check(held >= 2.5 and later > 0, "the lock was not held to the end")


def killed_while_holding(shop: redis.Redis, url: str) -> None:
    print("\n5. A holder is killed with -9 in the middle of a sale, ttl 2 s")
    victim = Seller("node", url, 2, 60, guarded=True, limit=1)
    waiting = Seller("python", url, 2, 0, guarded=True, limit=1)
    meet(shop, victim, waiting)
    time.sleep(0.5)
    killed = time.monotonic_ns()
    victim.process.kill()
    victim.process.wait()
    waiting.finish()
    waited = (ledger(shop)[0]["from"] - killed) / SECOND
    print(f"   the next one had the lock {waited:.2f} s after the kill")
    check(0 < waited <= 3, "that is more than the ttl and a second")


def wait_for(shop: redis.Redis) -> None:
    with contextlib.suppress(redis.ConnectionError):
        shop.ping()
        return
    time.sleep(0.05)
    wait_for(shop)


def main() -> None:
    with throw_away_redis() as url, redis.Redis.from_url(url, decode_responses=True) as shop:
        wait_for(shop)
        try:
            with_lock(shop, url)
            without_lock(shop, url)
            outlive_the_ttl(shop, url)
            killed_while_holding(shop, url)
        finally:
            for seller in Seller.all:
                seller.process.kill()
    print("\nAll as promised.")


main()
