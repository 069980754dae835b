"""A program that closes all descriptors. Prints what its lease and its next locks do, and the log's first words."""

import asyncio
import json
import logging
import os
import sys
import threading

import redlock

how, url, name = sys.argv[1:]
records: list[str] = []
logged = threading.Event()


class Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        records.append(record.getMessage())
        if "closed descriptors" in records[-1]:
            logged.set()


logging.getLogger("redlock").addHandler(Handler())
client = redlock.Redlock(url)
told = threading.Event()
lease = client.lock(name, ttl=3).acquire()
lease.on_lost(lambda _: told.set())
os.closerange(3, 256)


def in_threads() -> list[object]:
    """What two calls of the old client and one of a new client return."""
    results: list[object] = []
    for used in (client, client, redlock.Redlock(url)):
        try:
            with used.lock(f"{name}-other", ttl=3, wait=5) as held:
                results.append(held.held)
        except redlock.LockError as error:
            results.append(str(error))
    return results


async def in_loop() -> bool:
    async with redlock.AsyncRedlock(url).lock(f"{name}-async", ttl=3, wait=5) as held:
        return held.held


results = (
    {"threads": in_threads(), "loop": asyncio.run(in_loop())}
    if how == "threads"
    else {"loop": asyncio.run(in_loop()), "threads": in_threads()}
)
is_told = told.wait(3)
logged.wait(10)
try:
    lease.ensure_held()
except redlock.LockLost as error:
    results["reason"] = error.reason
print(json.dumps({**results, "told": is_told, "log": records}))
